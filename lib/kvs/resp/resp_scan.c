/* What takes more than one look at the store: SCAN, KEYS, RANDOMKEY, DBSIZE, FLUSHALL, and INFO, which says how many keys there are.
 *
 * Redis' cursors are numbers, which clients keep in 64 bits with a sign, or in a double: ours stay below 2^53. Where the store knows
 * places, the cursor is the next place to look at, of which the upper 30 bits say all, and nobody has to remember it. Where it has
 * only the order of keys, the key at which a page ended is kept under a number, the newest CURSORS of them: 400 bytes fit into no number. Such a cursor holds at the member that gave it alone. It begins with a number that the
 * member has drawn, so that another one refuses it and does not go on somewhere else; and it has 53 bits, as many as every client
 * can hold. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/storage/cells.h"
#include "kvs/resp/resp_private.h"

#define CURSORS  1024
#define JOB_PAGE 500
/* Of a pattern; and bytes of it times keys that are looked at in one step, for others want to be served too. */
#define PATTERN_MAX 4096
#define PATTERN_ALL 320000
/* What one KEYS answers, and what all of them hold that are under way. */
#define KEYS_MAX     ((size_t)32 << 20)
#define KEYS_MAX_ALL ((size_t)64 << 20)

/* --- patterns --- */

/* [abc], [^a-z], [\]] at p, of n bytes; whether c is meant, and *took bytes of the pattern. */
static int set_has(const uint8_t *p, size_t n, uint8_t c, size_t *took)
{
    size_t i = 1;
    int not = n > 1 && p[1] == '^', found = 0;
    for (i += (size_t) not ; i < n && p[i] != ']'; i++) {
        if (p[i] == '\\' && i + 1 < n) {
            found |= p[++i] == c;
        } else if (i + 2 < n && p[i + 1] == '-') {
            uint8_t a = p[i] < p[i + 2] ? p[i] : p[i + 2], z = p[i] < p[i + 2] ? p[i + 2] : p[i];
            found |= c >= a && c <= z;
            i += 2;
        } else {
            found |= p[i] == c;
        }
    }
    *took = i < n ? i + 1 : n;
    return found != not ;
}

/* One star at a time: on a mismatch the last one takes a byte more. No recursion, O(pattern * text). */
int htc__resp_glob(htc_bytes pattern, htc_bytes text)
{
    const uint8_t *p = pattern.data, *t = text.data;
    size_t         i = 0, k = 0, star = SIZE_MAX, mark = 0;
    while (k < text.len) {
        size_t took = 1;
        int    fits = 0;
        if (i < pattern.len && p[i] == '*') {
            star = i++;
            mark = k;
            continue;
        }
        if (i < pattern.len && p[i] == '[')
            fits = set_has(p + i, pattern.len - i, t[k], &took);
        else if (i + 1 < pattern.len && p[i] == '\\')
            fits = p[i + 1] == t[k], took = 2;
        else if (i < pattern.len)
            fits = p[i] == '?' || p[i] == t[k];
        if (fits) {
            i += took;
            k++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            k = ++mark;
        } else {
            return 0;
        }
    }
    while (i < pattern.len && p[i] == '*')
        i++;
    return i == pattern.len;
}

/* So many keys are held against the pattern in one step, of those that are wanted. */
static uint32_t page_of(htc_bytes pattern, uint32_t wanted)
{
    size_t most = PATTERN_ALL / (pattern.len + 1);
    return wanted < most ? wanted : (uint32_t)most;
}

static int refuse_pattern(htc__resp_call *x, htc_bytes pattern)
{
    return pattern.len > PATTERN_MAX ? htc__resp_error(x, "ERR a pattern has at most 4096 bytes") : 0;
}

/* --- cursors --- */

#define PLACE_SHIFT (64 - HTC__CELLS_PLACE_BITS)

static void put_place(uint8_t bytes[8], uint64_t cursor)
{
    htc__le64_put(bytes, cursor << PLACE_SHIFT);
}

static uint64_t get_place(htc_bytes cursor)
{
    htc_reader r = htc_reader_of(cursor);
    return htc_get_u64(&r) >> PLACE_SHIFT;
}

#define TAG_BITS     21
#define COUNTER_BITS 32

static uint64_t remember(htc__resp *f, htc_bytes key)
{
    if (!f->cursors && !(f->cursors = htc__alloc(&f->env, CURSORS * sizeof *f->cursors)))
        return 0;
    if (!f->cursor_tag && f->env.rng)
        f->cursor_tag = 1 + htc_rng_below(f->env.rng, (1u << TAG_BITS) - 1);
    f->cursor_next = f->cursor_next % ((1ull << COUNTER_BITS) - 1) + 1;
    htc__resp_cursor *e = &f->cursors[f->cursor_next % CURSORS];
    e->id = f->cursor_tag << COUNTER_BITS | f->cursor_next;
    e->len = key.len;
    memcpy(e->key, key.data, key.len);
    return e->id;
}

static const htc__resp_cursor *recall(const htc__resp *f, uint64_t id)
{
    const htc__resp_cursor *e = f->cursors ? &f->cursors[id % CURSORS] : NULL;
    return e && e->id == id ? e : NULL;
}

/* --- SCAN --- */

typedef struct scan {
    uint64_t  cursor;
    htc_bytes pattern;
    uint32_t  count;
    int       nothing; /* of a type that there is not */
} scan;

static int parse_scan(htc__resp_call *x, scan *s)
{
    int64_t   n;
    htc_bytes text = htc__resp_arg(x, 1);
    s->count = 10;
    s->cursor = 0;
    if (text.len == 0 || text.len > 20)
        return htc__resp_error(x, "ERR invalid cursor");
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = ((const uint8_t *)text.data)[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(s->cursor, 10, &s->cursor) ||
            __builtin_add_overflow(s->cursor, (uint64_t)(c - '0'), &s->cursor))
            return htc__resp_error(x, "ERR invalid cursor");
    }
    for (uint32_t i = 2; i < x->r->argc; i += 2) {
        if (i + 1 == x->r->argc)
            return htc__resp_error(x, "ERR syntax error");
        htc_bytes value = htc__resp_arg(x, i + 1);
        if (htc__resp_arg_is(x, i, "COUNT")) {
            if (!htc__resp_number(value, &n))
                return htc__resp_error(x, "ERR value is not an integer or out of range");
            if (n < 1)
                return htc__resp_error(x, "ERR syntax error");
            s->count = n > 10000 ? 10000 : (uint32_t)n;
        } else if (htc__resp_arg_is(x, i, "MATCH")) {
            if (refuse_pattern(x, value))
                return 1;
            s->pattern = value;
        } else if (htc__resp_arg_is(x, i, "TYPE")) {
            s->nothing = !htc__resp_arg_is(x, i + 1, "STRING");
        } else {
            return htc__resp_error(x, "ERR syntax error");
        }
    }
    return 0;
}

/* What must stand in front of a pattern's answers has no wildcard in it. */
static htc_bytes literal_prefix(htc_bytes pattern)
{
    size_t n = 0;
    while (n < pattern.len && n < HTC_KV_KEY_MAX && !memchr("*?[\\", ((const uint8_t *)pattern.data)[n], 4))
        n++;
    return (htc_bytes){ pattern.data, n };
}

/* f->pattern says which of the keys are meant. */
void htc__resp_scan_reply(htc__resp *f, const htc_kv_result *a, htc_buf *b)
{
    htc_kv_item item;
    uint64_t    cursor = 0;
    int64_t     count = 0;
    char        text[24], *p = text + sizeof text;
    if (a->cursor.len > 0)
        cursor = f->keys_only ? remember(f, a->cursor) : get_place(a->cursor);
    if (a->cursor.len > 0 && cursor == 0) { /* 0 would say that there is no more */
        htc__resp_failure(f, b, HTC_ENOMEM, HTC_KV_SCAN);
        return;
    }
    for (size_t at = 0; !f->pattern_nothing && htc_kv_result_item(a, &at, &item) == HTC_OK;)
        count += htc__resp_glob(f->pattern, item.key);
    do
        *--p = (char)('0' + cursor % 10);
    while (cursor /= 10);
    htc__resp_head(b, '*', 2);
    htc__resp_bulk(b, (htc_bytes){ p, (size_t)(text + sizeof text - p) });
    htc__resp_head(b, '*', count);
    for (size_t at = 0; !f->pattern_nothing && htc_kv_result_item(a, &at, &item) == HTC_OK;)
        if (htc__resp_glob(f->pattern, item.key))
            htc__resp_bulk(b, item.key);
}

/* Does the store know places? One that is asked for an answer later does; one that cannot say it yet is asked again. */
static void probe(htc__resp *f)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_request             q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = 1, .flags = HTC_KV_PLACES };
    htc_kv_result              a = { .size = sizeof a };
    if (f->probed)
        return;
    int now = f->backend.ask(f->backend.ctx, &q, &nobody, &f->face, 0, 0, &a);
    f->keys_only = now && a.status == HTC_EUNSUPPORTED;
    f->probed = !now || a.status == HTC_OK || a.status == HTC_EUNSUPPORTED;
}

int htc__resp_run_scan(htc__resp_call *x)
{
    scan           s = { .pattern = { "*", 1 } };
    uint8_t        place[8];
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN };
    if (parse_scan(x, &s))
        return 1;
    probe(x->f);
    q.limit = page_of(s.pattern, s.count);
    if (!x->f->keys_only) {
        if (s.cursor >> HTC__CELLS_PLACE_BITS)
            return htc__resp_error(x, "ERR invalid cursor");
        q.flags = HTC_KV_PLACES;
        put_place(place, s.cursor);
        q.cursor = (htc_bytes){ place, s.cursor ? 8 : 0 };
    } else {
        const htc__resp_cursor *e = s.cursor ? recall(x->f, s.cursor) : NULL;
        if (s.cursor && !e)
            return htc__resp_error(x,
                                   "ERR invalid cursor: another member gave it, or it is too old; begin again with 0");
        q.key = literal_prefix(s.pattern);
        if (e)
            q.cursor = (htc_bytes){ e->key, e->len };
    }
    x->f->pattern = s.pattern;
    x->f->pattern_nothing = s.nothing;
    htc__resp_ask(x, &q, KIND_SCAN);
    return 1;
}

/* --- DBSIZE and FLUSHALL: page after page --- */

typedef enum job_state { JOB_COUNT = 1, JOB_SCAN, JOB_DROP, JOB_END } job_state;

enum { FROM_SOMEWHERE = 1, FROM_THE_BEGINNING };

struct htc__resp_job {
    uint64_t       conn, slot;
    job_state      state;
    int            drops; /* FLUSHALL */
    uint32_t       info;  /* sections of INFO; 0: it is DBSIZE */
    uint32_t       waits; /* answers that are to come */
    int64_t        count;
    htc_status     failed;
    htc_buf        page; /* keys to be dropped: htc_put_bytes each; of KEYS those that were found, as they are answered */
    int            keys, random; /* KEYS; RANDOMKEY, and where it looks from */
    htc_bytes      pattern;      /* of KEYS; memory of its own */
    size_t         page_at;
    size_t         cursor_len;
    uint8_t        cursor[HTC_KV_KEY_MAX];
    htc__resp_job *next;
};

static void job_free(htc__resp *f, htc__resp_job *j)
{
    if (j->keys)
        f->found -= j->page.len;
    htc__free(&f->env, (void *)(uintptr_t)j->pattern.data, j->pattern.len);
    htc_buf_free(&j->page);
    htc__free(&f->env, j, sizeof *j);
}

static void keep_cursor(htc__resp_job *j, const htc_kv_result *a)
{
    j->cursor_len = a->cursor.len <= sizeof j->cursor ? a->cursor.len : 0;
    if (j->cursor_len)
        memcpy(j->cursor, a->cursor.data, j->cursor_len);
}

static void took_keys(htc__resp *f, htc__resp_job *j, const htc_kv_result *a)
{
    htc_kv_item item;
    size_t      before = j->page.len;
    for (size_t at = 0; htc_kv_result_item(a, &at, &item) == HTC_OK;)
        if (htc__resp_glob(j->pattern, item.key)) {
            htc__resp_bulk(&j->page, item.key);
            j->count++;
        }
    f->found += j->page.len - before;
    keep_cursor(j, a);
    if (j->page.status != HTC_OK)
        j->failed = j->page.status == HTC_ENOMEM ? HTC_ENOMEM : HTC_ETOOBIG;
    else if (f->found > KEYS_MAX_ALL)
        j->failed = HTC_EBUSY;
    j->state = j->cursor_len ? JOB_SCAN : JOB_END;
}

/* One of the page. A page without any may have others behind it; behind the last one it goes on from the beginning, once. */
static void took_some(htc__resp *f, htc__resp_job *j, const htc_kv_result *a)
{
    htc_kv_item item;
    uint32_t    which = a->items && f->env.rng ? (uint32_t)htc_rng_below(f->env.rng, a->items) : 0;
    size_t      at = 0;
    int         again = j->random == FROM_SOMEWHERE && a->cursor.len == 0;
    keep_cursor(j, a);
    j->state = !a->items && (j->cursor_len || again) ? JOB_SCAN : JOB_END;
    if (again)
        j->random = FROM_THE_BEGINNING;
    for (uint32_t i = 0; i <= which && htc_kv_result_item(a, &at, &item) == HTC_OK; i++)
        if (i == which) {
            htc__resp_bulk(&j->page, item.key);
            f->picked.len = item.key.len;
            memcpy(f->picked.key, item.key.data, item.key.len);
        }
    if (j->page.status != HTC_OK)
        j->failed = j->page.status;
}

static void took_page(htc__resp *f, htc__resp_job *j, const htc_kv_result *a)
{
    htc_kv_item item;
    if (j->keys || j->random) {
        if (j->keys)
            took_keys(f, j, a);
        else
            took_some(f, j, a);
        return;
    }
    htc_buf_clear(&j->page);
    j->page_at = 0;
    for (size_t at = 0; htc_kv_result_item(a, &at, &item) == HTC_OK;) {
        j->count++;
        if (j->drops)
            htc_put_bytes(&j->page, item.key);
    }
    keep_cursor(j, a);
    if (j->page.status != HTC_OK)
        j->failed = j->page.status;
    j->state = j->page.len ? JOB_DROP : j->cursor_len ? JOB_SCAN : JOB_END;
}

static void job_take(htc__resp *f, htc__resp_job *j, const htc_kv_result *a)
{
    assert(j->waits > 0);
    j->waits--;
    if (j->state == JOB_DROP) {
        if (a->status != HTC_OK && a->status != HTC_ENOTFOUND)
            j->failed = a->status;
    } else if (j->state == JOB_COUNT && a->status == HTC_EUNSUPPORTED) {
        j->state = JOB_SCAN;
    } else if (a->status != HTC_OK) {
        j->failed = a->status;
    } else if (j->state == JOB_COUNT) {
        j->count = a->number;
        j->state = JOB_END;
    } else {
        took_page(f, j, a);
    }
    if (j->failed != HTC_OK && j->waits == 0)
        j->state = JOB_END;
}

static void job_ask(htc__resp *f, htc__resp_job *j, const htc_kv_request *q)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_result              a = { .size = sizeof a };
    j->waits++;
    if (f->backend.ask(f->backend.ctx, q, &nobody, &f->face, j->conn, j->slot, &a))
        job_take(f, j, &a);
}

static void drop_page(htc__resp *f, htc__resp_job *j)
{
    while (j->page_at < j->page.len && htc__resp_room_to_change(f, 0)) {
        htc_reader     r = htc_reader_of((htc_bytes){ j->page.data + j->page_at, j->page.len - j->page_at });
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc_get_bytes(&r) };
        j->page_at = j->page.len - htc_reader_left(&r);
        job_ask(f, j, &q);
        if (j->state != JOB_DROP)
            return;
    }
    if (j->page_at == j->page.len && j->waits == 0)
        j->state = j->cursor_len ? JOB_SCAN : JOB_END;
}

static int has_room(const htc__resp *f, const htc__resp_job *j)
{
    return j->state == JOB_DROP ? htc__resp_room_to_change(f, 0) : htc__resp_has_room(f, 0);
}

/* One page of one job at a time, where there is room for one more request: others want to be served too. */
static void job_step(htc__resp *f, htc__resp_job *j)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = JOB_PAGE, .cursor = { j->cursor, j->cursor_len } };
    q.flags = f->keys_only ? 0 : HTC_KV_PLACES;
    if (j->keys && f->keys_only)
        q.key = literal_prefix(j->pattern);
    if (j->keys)
        q.limit = page_of(j->pattern, JOB_PAGE);
    if (j->random)
        q.limit = 100;
    int may = j->waits == 0 && has_room(f, j);
    if (may && j->state == JOB_COUNT)
        job_ask(f, j, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
    else if (may && j->state == JOB_SCAN)
        job_ask(f, j, &q);
    if (j->state == JOB_DROP)
        drop_page(f, j);
    f->more |= j->waits == 0 && j->state != JOB_END && has_room(f, j);
}

/* The reply of KEYS and RANDOMKEY, which stands if all went well. */
static void say_found(htc__resp *f, htc__resp_conn *c, htc__resp_job *j)
{
    htc_buf b;
    htc_buf_init(&b, &f->env, 0);
    if (j->keys)
        htc__resp_head(&b, '*', j->count);
    if (j->keys || j->page.len)
        htc_put_raw(&b, htc_buf_bytes(&j->page));
    else
        htc__resp_null(c, &b);
    if (j->failed == HTC_OK)
        htc__resp_slot_keep(f, c, j->slot, &b);
    htc_buf_free(&b);
}

void htc__resp_jobs_go_on(htc__resp *f)
{
    for (htc__resp_job **at = &f->jobs, *j; (j = *at);) {
        job_step(f, j);
        if (j->state != JOB_END || j->waits > 0) {
            at = &j->next;
            continue;
        }
        htc__resp_conn *c = htc__resp_find(f, (uint32_t)j->conn);
        *at = j->next;
        if (c && c->id == j->conn) {
            htc__resp_slot *s = htc__resp_slot_of(c, j->slot);
            if (j->keys || j->random)
                say_found(f, c, j);
            s->kind = j->keys || j->random ? KIND_STANDS : j->drops ? KIND_ALL : j->info ? KIND_INFO : KIND_SUM;
            s->parts = j->info;
            s->number = j->count;
            s->failed = j->failed;
            s->op = j->drops ? HTC_KV_DELETE : HTC_KV_SCAN;
            c->job = 0;
            f->more |= c->paused;
            htc__resp_slot_ready(f, c, j->slot);
        }
        job_free(f, j);
    }
}

void htc__resp_job_answer(htc__resp *f, uint64_t conn, uint64_t slot, const htc_kv_result *a)
{
    for (htc__resp_job *j = f->jobs; j; j = j->next)
        if (j->conn == conn && j->slot == slot && j->waits > 0) {
            job_take(f, j, a);
            if (j->state == JOB_DROP && j->page_at == j->page.len && j->waits == 0)
                j->state = j->cursor_len ? JOB_SCAN : JOB_END;
            return;
        }
}

void htc__resp_jobs_forget(htc__resp *f, uint64_t conn)
{
    for (htc__resp_job **at = &f->jobs, *j; (j = *at);)
        if (conn == 0 || j->conn == conn) {
            *at = j->next;
            job_free(f, j);
        } else {
            at = &j->next;
        }
}

static htc__resp_job *job(htc__resp_call *x, job_state state)
{
    uint64_t       slot = x->c->tail;
    htc__resp_job *j = htc__alloc(&x->f->env, sizeof *j);
    if (!j || !htc__resp_slot_add(x->f, x->c, KIND_JOB)) {
        htc__free(&x->f->env, j, sizeof *j);
        if (!j)
            htc__resp_error(x, "ERR out of memory");
        return NULL;
    }
    probe(x->f);
    *j = (htc__resp_job){ .conn = x->c->id, .slot = slot, .state = state };
    htc_buf_init(&j->page, &x->f->env, 0);
    x->c->job = 1;
    j->next = x->f->jobs;
    x->f->jobs = j;
    return j;
}

int htc__resp_run_dbsize(htc__resp_call *x)
{
    job(x, JOB_COUNT);
    return 1;
}

int htc__resp_job_info(htc__resp_call *x, uint32_t sections)
{
    htc__resp_job *j = job(x, JOB_COUNT);
    if (j)
        j->info = sections;
    return 1;
}

int htc__resp_run_keys(htc__resp_call *x)
{
    htc_bytes pattern = htc__resp_arg(x, 1);
    if (refuse_pattern(x, pattern))
        return 1;
    uint8_t  *copy = htc__alloc(&x->f->env, pattern.len);
    if (!copy && pattern.len)
        return htc__resp_error(x, "ERR out of memory");
    if (pattern.len)
        memcpy(copy, pattern.data, pattern.len);
    htc__resp_job *j = job(x, JOB_SCAN);
    if (!j) {
        htc__free(&x->f->env, copy, pattern.len);
        return 1;
    }
    j->keys = 1;
    j->pattern = (htc_bytes){ copy, pattern.len };
    htc_buf_init(&j->page, &x->f->env, KEYS_MAX);
    return 1;
}

/* From a place that is drawn on; where there are none, from the key on that was picked last: so all have their turn. */
int htc__resp_run_randomkey(htc__resp_call *x)
{
    htc__resp     *f = x->f;
    htc__resp_job *j = job(x, JOB_SCAN);
    if (!j)
        return 1;
    if (f->keys_only) {
        j->cursor_len = f->picked.len;
        memcpy(j->cursor, f->picked.key, f->picked.len);
    } else if (f->env.rng) {
        j->cursor_len = 8;
        put_place(j->cursor, htc_rng_below(f->env.rng, UINT64_C(1) << HTC__CELLS_PLACE_BITS));
    }
    j->random = j->cursor_len ? FROM_SOMEWHERE : FROM_THE_BEGINNING;
    return 1;
}

int htc__resp_run_flush(htc__resp_call *x)
{
    if (!x->f->options.flush)
        return htc__resp_error(
            x, "ERR FLUSHALL and FLUSHDB are not allowed here; start the server with --resp-allow-flush");
    if (x->r->argc > 2 || (x->r->argc == 2 && !htc__resp_arg_is(x, 1, "SYNC") && !htc__resp_arg_is(x, 1, "ASYNC")))
        return htc__resp_error(x, "ERR syntax error");
    htc__resp_job *j = job(x, JOB_SCAN);
    if (j)
        j->drops = 1;
    return 1;
}
