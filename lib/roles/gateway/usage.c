/* Who has used what on which day, at which site, for which project.
 *
 * y/DAY/USER is the usage of a day (day_usage.h), written at most once a second. So what is on its way when a gateway is killed may be
 * missing in it. But what a user has used in all stands with the tasks themselves and is never lost: at the start the difference
 * is counted again, at no site ("-") and for no project. What was used before there were such records stands under day 0. Days of long ago are summed
 * up in one record of the user (usage_fold.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define FLUSH_EVERY HTC_SECOND

uint32_t htc__gw_today(const htc_gateway *gw)
{
    return (uint32_t)(gw->wall / DAY_NS);
}

used_book *htc__gw_book(htc_gateway *gw, const char *name)
{
    used_book *b;
    HASH_FIND_STR(gw->used_books, name, b);
    if (b)
        return b;
    b = htc__alloc(&gw->env, sizeof *b);
    if (!b) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what is used");
        return NULL;
    }
    snprintf(b->name, sizeof b->name, "%s", name);
    b->today.day = htc__gw_today(gw);
    HASH_ADD_STR(gw->used_books, name, b);
    if (!b->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what is used");
    return b;
}

/* A clock that was set back far does not count to days that are summed up. */
uint32_t htc__gw_book_day(const htc_gateway *gw, const used_book *b)
{
    uint32_t today = htc__gw_today(gw);
    return today > b->folded.day ? today : b->folded.day;
}

/* The day before is written down first; what comes meanwhile is counted to it. */
static int turn_page(htc_gateway *gw, used_book *b)
{
    if (b->dirty || b->writing || b->today.day >= htc__gw_book_day(gw, b))
        return 0;
    htc__day_free(&b->today, &gw->env);
    b->today.day = htc__gw_book_day(gw, b);
    b->version = 0;
    return 1;
}

static void count(htc_gateway *gw, used_book *b, const char *site_name, const char *project_name, const day_sums *more)
{
    turn_page(gw, b);
    if (htc__day_add(&b->today, &gw->env, site_name, project_name, more) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what is used");
    b->core_ns = htc__quota_sum(b->core_ns, more->core_ns);
    b->dirty = 1;
    if (gw->usage_at == HTC_NEVER)
        gw->usage_at = gw->now + FLUSH_EVERY;
}

void htc__gw_account(htc_gateway *gw, const job *j, const char *site_name, day_sums more)
{
    used_book *b = htc__gw_book(gw, j->user->name);
    project   *p = j->project;
    if (b)
        count(gw, b, site_name, p ? p->name : "", &more);
    if (p && more.core_ns) {
        p->core_ns = htc__quota_sum(p->core_ns, more.core_ns);
        (void)htc_allot_usage_add(&p->usage, (double)more.core_ns / 1e9, gw->wall, gw->options.half_life_ns);
        htc__gw_project_dirty(gw, p);
    }
    if (more.core_ns)
        htc__gw_quota_moved(gw, j->user, p);
}

/* ---- writes ---- */

static void write_book(htc_gateway *gw, used_book *b);

/* The record of this day was there: a gateway before this one made it after this one had read the days. The tasks that it counted are counted here. */
static void create_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        write_book(role, ctx);
}

/* Sealed, or not: then this gateway does not serve. A day that is only begun may fail: at worst a late gateway begins it. */
static void sealed(htc_gateway *gw, used_book *b, htc_status status)
{
    if (status != HTC_OK && b->today.n)
        htc_runtime_break(gw->runtime, status, "writing down anew what was used");
    else if (status == HTC_OK && b->counting && turn_page(gw, b))
        write_book(gw, b);
}

static void written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    used_book   *b = ctx;
    b->writing = 0;
    if (r->status == HTC_MISMATCH && !b->version && r->version && htc__gw_shared(gw)) {
        b->writing = 1;
        b->version = r->version;
        htc__gw_confirm(gw, create_confirmed, b);
        return;
    }
    if (r->status == HTC_OK) {
        b->version = r->version;
        b->kept = 1;
    }
    if (gw->phase == PHASE_SEALING && r->status != HTC_MISMATCH)
        sealed(gw, b, r->status);
    if (r->status == HTC_OK)
        return;
    if (r->status == HTC_MISMATCH) {
        htc_runtime_break(gw->runtime, HTC_ELOCKED, "the usage of a day was changed by somebody else");
        return;
    }
    b->dirty = 1; /* the chunks say loudly that the store takes nothing */
    if (gw->usage_at == HTC_NEVER)
        gw->usage_at = gw->now + FLUSH_EVERY;
}

static void write_book(htc_gateway *gw, used_book *b)
{
    key k = htc__gw_key_day(b->today.day, b->name);
    b->dirty = 0;
    b->writing = 1;
    htc__gw_fold_note(gw, b->today.day);
    htc__day_write(&gw->scratch, &b->today);
    htc__gw_ask_write(gw,
                      &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                         .value = htc__gw_record_bytes(gw, &gw->scratch), .version = b->version },
                      written, b);
}

/* The newest day of each user; and today's of all for whom anything runs, also if there was none: a gateway before this one cannot create it later. */
void htc__gw_usage_seal(htc_gateway *gw)
{
    used_book *b, *next;
    for (const job *j = gw->jobs; j; j = j->hh.next)
        if ((b = htc__gw_book(gw, j->user->name)) != NULL)
            b->counting = 1;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if ((b = htc__gw_book(gw, a->user->name)) != NULL)
            b->counting = 1;
    HASH_ITER(hh, gw->used_books, b, next)
    if (htc_runtime_status(gw->runtime) == HTC_OK) {
        write_book(gw, b);
        htc__gw_fold_seal(gw, b);
    }
}

void htc__gw_usage_flush(htc_gateway *gw)
{
    used_book *b, *next;
    if (htc_runtime_status(gw->runtime) != HTC_OK || gw->usage_at == HTC_NEVER || (gw->now < gw->usage_at && !gw->shutdown) ||
        gw->store_status != HTC_OK)
        return;
    if (!htc__gw_active_holds(gw)) { /* another gateway may count by now */
        gw->usage_at = gw->now + FLUSH_EVERY;
        return;
    }
    gw->usage_at = HTC_NEVER;
    HASH_ITER(hh, gw->used_books, b, next)
    {
        if (b->dirty && b->writing)
            gw->usage_at = gw->now + FLUSH_EVERY;
        else if (b->dirty)
            write_book(gw, b);
    }
    htc__gw_projects_flush(gw);
}

int htc__gw_usage_busy(const htc_gateway *gw)
{
    return gw->usage_at != HTC_NEVER && gw->store_status == HTC_OK;
}

void htc__gw_usage_free(htc_gateway *gw)
{
    used_book *b, *next;
    HASH_ITER(hh, gw->used_books, b, next)
    {
        HASH_DEL(gw->used_books, b);
        htc__day_free(&b->today, &gw->env);
        htc__day_free(&b->folded, &gw->env);
        htc__free(&gw->env, b, sizeof *b);
    }
    htc__gw_fold_free(gw);
}

/* ---- the start ---- */

void htc__gw_book_add(htc_gateway *gw, used_book *b, const day_usage *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        project *p = htc__gw_project(gw, l->rows[i].project);
        b->core_ns = htc__quota_sum(b->core_ns, l->rows[i].sums.core_ns);
        if (p)
            p->core_ns = htc__quota_sum(p->core_ns, l->rows[i].sums.core_ns);
    }
}

/* The newest day of each user is the one that is written on. */
void htc__gw_usage_found(htc_gateway *gw, const htc_kv_item *item)
{
    day_usage l = { 0 };
    char   name[NAME_MAX_BYTES];
    size_t n = item->key.len > DAY_KEY_USER ? item->key.len - DAY_KEY_USER : 0;
    if (n == 0 || n >= sizeof name || htc__day_read(&l, &gw->env, item->value) != HTC_OK) {
        htc__gw_unreadable(gw, "reading the usage of a day");
        return;
    }
    memcpy(name, (const char *)item->key.data + DAY_KEY_USER, n);
    name[n] = '\0';
    used_book *b = htc__gw_book(gw, name);
    htc__gw_fold_note(gw, l.day);
    if (b && l.day < b->folded.day) { /* it is in that sum */
        htc__day_free(&l, &gw->env);
        return;
    }
    if (b)
        htc__gw_book_add(gw, b, &l);
    if (b && (!b->kept || l.day >= b->today.day)) {
        b->kept = 1;
        htc__day_free(&b->today, &gw->env);
        b->today = l;
        b->version = item->version;
    } else {
        htc__day_free(&l, &gw->env);
    }
}

void htc__gw_usage_settle(htc_gateway *gw)
{
    for (const user *u = gw->users; u; u = u->hh.next) {
        used_book *b = u->core_ns ? htc__gw_book(gw, u->name) : NULL;
        if (!b || b->core_ns >= u->core_ns)
            continue;
        if (!b->kept && b->today.n == 0 && !b->folded.day)
            b->today.day = 0;
        count(gw, b, "-", "", &(day_sums){ .core_ns = u->core_ns - b->core_ns });
    }
}
