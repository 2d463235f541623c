/* Days of usage that are no longer kept by themselves: each user's are summed up in one record, z/USER.
 *
 * It is of the form of a day. Its number is the first day that is not in it. One day after the other, the oldest first, is folded:
 *
 *   the sum with the day in it, and the number after that day, by the version of the record ──▶ durable ──▶ the day's record is deleted
 *
 * A day below that number is counted in the sum, whether its record is still there or not: a start and a report pass over it, and so
 * nothing is counted twice or lost when a gateway ends between the two. Such a record is deleted the next time.
 *
 * While a report reads days nothing is folded, and one that finds that a day was folded since it began begins again. A gateway that becomes active
 * writes the sums anew (seal.c), also those that are empty: so the one before it folds nothing any more of which this one does not know. */
#include <string.h>

#include "roles/gateway/gateway.h"

#define LOOK_EVERY (3600 * HTC_SECOND)
#define PAUSE (60 * HTC_SECOND)

typedef struct usage_fold {
    uint32_t           day;
    htc_runtime_cursor next;  /* items of that day beyond those */
    htc_buf            items; /* of a page: str name, u64 version, bytes record */
    htc_reader         r;
    used_book         *b; /* whose day is being folded, */
    uint64_t           version; /* the version of that record, */
    day_usage          sum; /* and what is written */
} usage_fold;

void htc__gw_fold_note(htc_gateway *gw, uint32_t day)
{
    if (day == 0)
        gw->fold_first = 1;
    else if (!gw->fold_from || day < gw->fold_from)
        gw->fold_from = day;
}

/* The day that is the next; 1: it is no longer kept by itself. Day 0 stands for all before there were days. */
static int is_due(const htc_gateway *gw, uint32_t *day)
{
    uint64_t keep = gw->options.usage_keep_ns / DAY_NS, today = htc__gw_today(gw);
    *day = gw->fold_first ? 0 : gw->fold_from;
    return (gw->fold_first || gw->fold_from) && *day + keep < today;
}

/* Until later, when it goes on with this day. */
static void rest(htc_gateway *gw, usage_fold *f, htc_ns pause)
{
    gw->fold_at = gw->now + pause;
    htc_buf_clear(&f->items);
    f->r = htc_reader_of((htc_bytes){ 0 });
    f->b = NULL;
    gw->folding = 0;
}

static void page(void *role, void *ctx, const htc_kv_result *r);
static void next_item(htc_gateway *gw, usage_fold *f);

static void read_day(htc_gateway *gw, usage_fold *f)
{
    key                k = htc__gw_key_day(f->day, "");
    htc_runtime_cursor from = f->next;
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), from.len ? &from : NULL, 0, page, f);
}

static void day_done(htc_gateway *gw, usage_fold *f)
{
    if (f->day == 0)
        gw->fold_first = 0;
    else
        gw->fold_from = f->day + 1;
    rest(gw, f, 0);
    htc__gw_usage_fold(gw);
}

/* The newest day of that user is in the sum now. The next one is begun when something is counted. */
static void forget_day(htc_gateway *gw, used_book *b, uint32_t day)
{
    if (b->today.day != day || b->dirty || b->writing)
        return;
    htc__day_free(&b->today, &gw->env);
    b->today.day = htc__gw_book_day(gw, b);
    b->version = 0;
}

/* Whoever deletes it, and when: it is in the sum. What is not deleted now is at the next start. */
static void day_deleted(void *role, void *ctx, const htc_kv_result *r)
{
    (void)role, (void)ctx, (void)r;
}

static void delete_day(htc_gateway *gw, const usage_fold *f, const char *name)
{
    key            k = htc__gw_key_day(f->day, name);
    htc_kv_request rq = htc__gw_delete_op(gw, &k, f->version);
    htc_runtime_ask(gw->runtime, &rq, 1, day_deleted, NULL);
}

static void folded(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    usage_fold  *f = ctx;
    used_book   *b = f->b;
    if (r->status == HTC_MISMATCH) {
        htc_runtime_break(gw->runtime, HTC_ELOCKED, "the sum of what a user has used was changed by somebody else");
        return;
    }
    if (r->status != HTC_OK) {
        htc__day_free(&f->sum, &gw->env);
        rest(gw, f, PAUSE);
        return;
    }
    htc__day_free(&b->folded, &gw->env);
    b->folded = f->sum;
    b->folded_version = r->version;
    f->sum = (day_usage){ 0 };
    gw->folds++;
    forget_day(gw, b, f->day);
    delete_day(gw, f, b->name);
    next_item(gw, f);
}

static int add_rows(htc_gateway *gw, day_usage *to, const day_usage *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        if (htc__day_add(to, &gw->env, from->rows[i].site, from->rows[i].project, &from->rows[i].sums) != HTC_OK)
            return 0;
    return 1;
}

static void write_sum(htc_gateway *gw, key k, const day_usage *sum, uint64_t version, htc_runtime_store_fn fn, void *ctx)
{
    htc__day_write(&gw->scratch, sum);
    htc__gw_ask_write(gw,
                      &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                         .value = htc__gw_record_bytes(gw, &gw->scratch), .version = version },
                      fn, ctx);
}

static void fold(htc_gateway *gw, usage_fold *f, used_book *b, htc_bytes record)
{
    day_usage  l;
    htc_status status = htc__day_read(&l, &gw->env, record);
    if (status != HTC_OK) {
        htc__gw_unreadable(gw, "reading the usage of a day");
        return;
    }
    f->b = b;
    int whole = add_rows(gw, &f->sum, &b->folded) && add_rows(gw, &f->sum, &l);
    f->sum.day = f->day + 1;
    htc__day_free(&l, &gw->env);
    if (whole)
        write_sum(gw, htc__gw_key_fold(b->name), &f->sum, b->folded_version, folded, f);
    else
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "summing up what was used");
}

static void next_item(htc_gateway *gw, usage_fold *f)
{
    char name[NAME_MAX_BYTES];
    while (htc_reader_left(&f->r)) {
        if (gw->reports || gw->store_status != HTC_OK || !htc__gw_active_holds(gw)) {
            rest(gw, f, 0);
            return;
        }
        htc_get_str(&f->r, name, sizeof name);
        f->version = htc_get_u64(&f->r);
        htc_bytes  record = htc_get_bytes(&f->r);
        used_book *b = htc__gw_book(gw, name);
        if (!b)
            return;
        if (f->day < b->folded.day) { /* a gateway ended before it was deleted */
            delete_day(gw, f, name);
            continue;
        }
        if (b->today.day == f->day && (b->dirty || b->writing))
            rest(gw, f, PAUSE);
        else
            fold(gw, f, b, record);
        return;
    }
    if (f->next.len)
        read_day(gw, f);
    else
        day_done(gw, f);
}

static void page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    usage_fold  *f = ctx;
    htc_kv_item  item;
    size_t       at = 0;
    if (r->status != HTC_OK) {
        rest(gw, f, PAUSE);
        return;
    }
    f->next = htc_runtime_next_page(gw->runtime, r);
    htc_buf_clear(&f->items);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++) {
        size_t n = item.key.len > DAY_KEY_USER ? item.key.len - DAY_KEY_USER : 0;
        if (n == 0 || n >= NAME_MAX_BYTES)
            continue;
        htc_put_bytes(&f->items, (htc_bytes){ (const char *)item.key.data + DAY_KEY_USER, n }); /* as a str */
        htc_put_u64(&f->items, item.version);
        htc_put_bytes(&f->items, item.value);
    }
    if (f->items.status != HTC_OK) {
        htc_runtime_break(gw->runtime, f->items.status, "summing up what was used");
        return;
    }
    f->r = htc_reader_of(htc_buf_bytes(&f->items));
    next_item(gw, f);
}

void htc__gw_usage_fold(htc_gateway *gw)
{
    uint32_t day;
    if (gw->folding || gw->reports || gw->now < gw->fold_at || gw->store_status != HTC_OK)
        return;
    if (!is_due(gw, &day)) {
        gw->fold_at = gw->now + LOOK_EVERY;
        return;
    }
    if (!gw->fold) {
        if (!(gw->fold = htc__alloc(&gw->env, sizeof *gw->fold)))
            return; /* the next look does it */
        htc_buf_init(&gw->fold->items, &gw->env, 0);
    }
    gw->folding = 1;
    gw->fold->day = day;
    gw->fold->next = (htc_runtime_cursor){ 0 };
    read_day(gw, gw->fold);
}

void htc__gw_fold_free(htc_gateway *gw)
{
    if (!gw->fold)
        return;
    htc__day_free(&gw->fold->sum, &gw->env);
    htc_buf_free(&gw->fold->items);
    htc__free(&gw->env, gw->fold, sizeof *gw->fold);
}

/* ---- the start ---- */

void htc__gw_fold_found(htc_gateway *gw, const htc_kv_item *item)
{
    char      name[NAME_MAX_BYTES];
    day_usage sum;
    size_t    n = item->key.len > 2 ? item->key.len - 2 : 0;
    if (n == 0 || n >= sizeof name || htc__day_read(&sum, &gw->env, item->value) != HTC_OK) {
        htc__gw_unreadable(gw, "reading the sum of what a user has used");
        return;
    }
    memcpy(name, (const char *)item->key.data + 2, n);
    name[n] = '\0';
    used_book *b = htc__gw_book(gw, name);
    if (!b) {
        htc__day_free(&sum, &gw->env);
        return;
    }
    b->folded = sum;
    b->folded_version = item->version;
    b->today.day = htc__gw_book_day(gw, b);
    htc__gw_book_add(gw, b, &sum);
}

static void sum_sealed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    used_book   *b = ctx;
    if (r->status == HTC_OK)
        b->folded_version = r->version;
    else if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew what was used");
}

void htc__gw_fold_seal(htc_gateway *gw, used_book *b)
{
    write_sum(gw, htc__gw_key_fold(b->name), &b->folded, b->folded_version, sum_sealed, b);
}
