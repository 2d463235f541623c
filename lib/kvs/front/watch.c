#include "kvs/front/watch.h"

#include "core/fault.h"
#include "core/util.h"

/* Events of one message, if it has more than one: no more is read for it then. */
#define EVENTS_BYTES ((size_t)1 << 20)
/* A page may be as long as a message but for this. */
#define BEFORE_PAGE ((size_t)16 << 10)
/* Sent in one step. */
#define FLUSH_BYTES ((size_t)4 << 20)
#define PAGE_KEYS   1000
#define PAGE_SLOT   UINT64_MAX
/* The backend is asked again after this. */
#define AGAIN_NS (100 * HTC_MS)

static htc__kv_watcher *watcher_of(const htc__kv_watches *w, uint32_t peer)
{
    htc__node *node = htc__table_find(&w->watchers, (htc_bytes){ &peer, sizeof peer });
    return node ? *(htc__kv_watcher **)htc__node_value(node) : NULL;
}

static htc__kv_watcher *watcher_make(htc__kv_watches *w, uint32_t peer, uint64_t session)
{
    htc__node       *node = htc__table_make(&w->watchers, (htc_bytes){ &peer, sizeof peer }, sizeof(htc__kv_watcher *));
    htc__kv_watcher *x = node ? htc__alloc(&w->env, sizeof *x) : NULL;
    if (!x) {
        if (node)
            htc__table_discard(&w->watchers, node);
        return NULL;
    }
    x->peer = peer;
    x->session = session;
    x->number = ++w->last_number << 32 | peer;
    x->start_last = &x->start;
    htc__table_init(&x->watches, &w->env);
    /* What a message takes beside its events fits beside it. */
    htc_buf_init(&x->events, &w->env, HTC_WIRE_MESSAGE_MAX - 4096);
    *(htc__kv_watcher **)htc__node_value(node) = x;
    htc__table_link(&w->watchers, node);
    return x;
}

void htc__kv_watches_closed(htc__kv_watches *w, uint32_t peer)
{
    htc__kv_watcher *x = watcher_of(w, peer);
    if (!x)
        return;
    while (x->watches.head[0])
        htc__kv_watching_remove(w, htc__node_value(x->watches.head[0]));
    for (htc__kv_watcher **at = &w->busy; x->listed && *at; at = &(*at)->next)
        if (*at == x) {
            if (!(*at = x->next))
                w->busy_last = at;
            break;
        }
    htc__table_free(&x->watches);
    htc_buf_free(&x->events);
    htc__free(&w->env, x, sizeof *x);
    htc__table_remove(&w->watchers, (htc_bytes){ &peer, sizeof peer });
}

/* ---------------------------------------------------------------- what is asked of the backend */

static void put_event(htc__kv_watches *w, htc__kv_watcher *x, const htc_kv_event *event)
{
    htc__kv_event_write(&x->events, event);
    w->events += event->kind == HTC_KV_EVENT_VALUE || event->kind == HTC_KV_EVENT_DELETED;
    if (x->events.status != HTC_OK)
        w->broken = HTC_ENOMEM;
}

/* 1: it was told. */
static int tell_state(htc__kv_watches *w, const htc__kv_mark *m, const htc_kv_result *result)
{
    htc__kv_watching *v = m->watch;
    int               found = result->status == HTC_OK;
    htc_kv_event      e = { .tag = v->id, .kind = found ? HTC_KV_EVENT_VALUE : HTC_KV_EVENT_DELETED, .version = result->version };
    int               news = result->status != HTC_ECORRUPT && result->version > v->held;
    if (found)
        e.value = result->value;
    if (m->node)
        e.key = htc__node_key(m->node);
    else if (!v->begun && v->held == 0 && result->status == HTC_ENOTFOUND)
        news = 1; /* who holds nothing is told that there is nothing */
    if (news)
        put_event(w, v->watcher, &e);
    if (!m->node && news)
        v->told = result->version;
    if (!m->node && !v->begun)
        put_event(w, v->watcher, &(htc_kv_event){ .tag = v->id, .kind = HTC_KV_EVENT_CURRENT });
    return news || (!m->node && !v->begun);
}

static int answers(htc_status status)
{
    return status == HTC_OK || status == HTC_ENOTFOUND || status == HTC_ECORRUPT;
}

static void read_done(htc__kv_watches *w, htc__kv_watcher *x, uint64_t slot, const htc_kv_result *result)
{
    htc__kv_mark *m = x->read[slot];
    x->reading &= ~(UINT32_C(1) << slot);
    x->reading_bytes = x->reading ? x->reading_bytes : 0;
    if (!m)
        return;
    x->read[slot] = NULL;
    if (!answers(result->status)) {
        htc__kv_mark_set(m, HTC__KV_MARK_QUEUED);
        x->again_at = w->now + AGAIN_NS;
        return;
    }
    if (x->events.len && x->events.len + result->value.len + BEFORE_PAGE > x->events.max) {
        htc__kv_mark_set(m, HTC__KV_MARK_QUEUED); /* with the next message */
        return;
    }
    htc__kv_mark_set(m, HTC__KV_MARK_TOLD);
    if (!tell_state(w, m, result))
        htc__kv_mark_done(m);
}

static void say_over(htc__kv_watches *w, htc__kv_watcher *x, htc__kv_watching *v)
{
    if (v->say_over)
        put_event(w, x, &(htc_kv_event){ .tag = v->id, .kind = HTC_KV_EVENT_START_OVER });
    v->say_over = 0;
}

static void page_done(htc__kv_watches *w, htc__kv_watcher *x, const htc_kv_result *result)
{
    htc__kv_watching *v = x->scan;
    htc_kv_item       item;
    int               stale = x->page_stale;
    x->page_asked = x->page_stale = 0;
    if (stale || !v)
        return;
    if (result->status != HTC_OK && result->status != HTC_ECORRUPT) { /* what is damaged is left out */
        x->again_at = w->now + AGAIN_NS;
        return;
    }
    say_over(w, x, v); /* with the page: where that is lost, both are told again */
    for (size_t at = 0; htc_kv_result_item(result, &at, &item) == HTC_OK;)
        put_event(w, x, &(htc_kv_event){ .tag = v->id, .kind = HTC_KV_EVENT_VALUE, .key = item.key, .version = item.version,
                                         .value = item.value });
    x->page = v;
    x->page_sent = 1;
    x->page_turn = 0;
    x->cursor_len = result->cursor.len < sizeof x->cursor ? result->cursor.len : sizeof x->cursor;
    if (x->cursor_len) {
        memcpy(x->cursor, result->cursor.data, x->cursor_len);
        return;
    }
    put_event(w, x, &(htc_kv_event){ .tag = v->id, .kind = HTC_KV_EVENT_CURRENT });
    x->scan = NULL;
}

static void done(htc__kv_watches *w, htc__kv_watcher *x, uint64_t slot, const htc_kv_result *result)
{
    if (slot == PAGE_SLOT)
        page_done(w, x, result);
    else
        read_done(w, x, slot, result);
    htc__kv_watcher_busy(w, x);
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc__kv_watches *w = ctx;
    htc__kv_watcher *x = watcher_of(w, (uint32_t)conn);
    if (x && x->number == conn)
        done(w, x, slot, result);
}

static int gone(void *ctx, uint64_t conn)
{
    const htc__kv_watcher *x = watcher_of(ctx, (uint32_t)conn);
    return !x || x->number != conn;
}

static void ask(htc__kv_watches *w, htc__kv_watcher *x, const htc_kv_request *q, uint64_t slot)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc_kv_result              result = { .size = sizeof result };
    if (w->backend.ask(w->backend.ctx, q, &nobody, &w->face, x->number, slot, &result))
        done(w, x, slot, &result);
    else
        x->reading_bytes += result.value.len;
}

static void read_marked(htc__kv_watches *w, htc__kv_watcher *x)
{
    for (htc__kv_mark *m; (m = x->queued.first) && ~x->reading && x->events.len + x->reading_bytes < EVENTS_BYTES &&
                          x->again_at <= w->now && w->broken == HTC_OK;) {
        uint32_t       slot = (uint32_t)__builtin_ctz(~x->reading);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__kv_mark_key(m) };
        htc__kv_mark_set(m, HTC__KV_MARK_READING);
        m->slot = slot;
        x->read[slot] = m;
        x->reading |= UINT32_C(1) << slot;
        ask(w, x, &q, slot);
    }
}

static void begin_scan(htc__kv_watches *w, htc__kv_watcher *x)
{
    htc__kv_watching *v = x->start;
    if (!(x->start = v->next_start))
        x->start_last = &x->start;
    v->starting = 0;
    x->scan = v;
    x->cursor_len = 0;
    if (HTC__BROKEN(over_before_page))
        say_over(w, x, v);
}

/* Pages and marks in turn, and a page alone: it may be long. */
static void ask_page(htc__kv_watches *w, htc__kv_watcher *x)
{
    if (x->page_asked || x->page_sent || x->reading || x->events.len > BEFORE_PAGE || x->again_at > w->now ||
        (x->queued.first && !x->page_turn))
        return;
    if (!x->scan && x->start)
        begin_scan(w, x);
    if (!x->scan)
        return;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .key = htc__kv_watching_key(x->scan), .limit = PAGE_KEYS,
                         .cursor = { x->cursor, x->cursor_len } };
    x->page_asked = 1;
    ask(w, x, &q, PAGE_SLOT);
}

/* ---------------------------------------------------------------- messages of the client */

/* Nothing of it is lost that way any more. */
static void taken(htc__kv_watches *w, htc__kv_watcher *x)
{
    for (htc__kv_mark *m; (m = x->on_way.first);) {
        htc__kv_watching *v = m->watch;
        if (!m->node) {
            v->begun = 1;
            v->held = v->told > v->held ? v->told : v->held;
        }
        htc__kv_mark_done(m);
    }
    x->page = NULL;
    x->page_sent = 0;
    htc__kv_watcher_busy(w, x);
}

/* It is told again, as it is now. */
static void lost(htc__kv_watches *w, htc__kv_watcher *x)
{
    for (htc__kv_mark *m; (m = x->on_way.first);) {
        m->again = 0;
        m->watch->told = 0;
        htc__kv_mark_set(m, HTC__KV_MARK_QUEUED);
    }
    if (x->page)
        htc__kv_watching_start_over(w, x->page);
    x->page_sent = 0;
    htc__kv_watcher_busy(w, x);
}

static htc_status wish(htc__kv_watches *w, htc__kv_watcher *x, const htc__kv_watch_wish *wanted)
{
    htc__kv_watching *v = htc__kv_watching_find(x, wanted->watch);
    htc_status        refused = x->watches.count >= w->watches_max ? HTC_EFULL : HTC_OK;
    x->confirm = 1;
    if (wanted->kind == HTC__KV_WISH_END) {
        if (v)
            htc__kv_watching_remove(w, v);
        return HTC_OK;
    }
    if (v)
        return HTC_OK;
    if (refused == HTC_OK)
        refused = htc__kv_watching_add(w, x, wanted);
    if (refused == HTC_OK || refused == HTC_ENOMEM)
        return refused;
    put_event(w, x, &(htc_kv_event){ .tag = wanted->watch, .kind = HTC_KV_EVENT_ENDED, .status = refused });
    return w->broken;
}

htc_status htc__kv_watches_input(htc__kv_watches *w, uint32_t peer, uint64_t session, uint64_t id, htc_reader r)
{
    uint64_t           said, newest;
    int                repeated;
    htc__kv_watch_wish wanted;
    htc_status         status = HTC_OK;
    htc__kv_watch_read(&r, &said, &repeated, &newest);
    htc_reader whole = r;
    size_t     wishes = 0;
    while (htc__kv_watch_wish_next(&whole, &wanted))
        wishes++;
    if (htc_reader_done(&whole) != HTC_OK || wishes > HTC__KV_WISHES_MAX)
        return HTC_EPROTO;
    htc__kv_watcher *x = watcher_of(w, peer);
    if (said != session || (x && x->session == session && id <= x->heard))
        return HTC_OK; /* of an earlier connection, or a copy */
    if (x && x->session != session) {
        htc__kv_watches_closed(w, peer);
        x = NULL;
    }
    if (!x && !(x = watcher_make(w, peer, session)))
        return HTC_ENOMEM;
    if (newest > x->told)
        return HTC_EPROTO;
    x->heard = id;
    if (newest == x->told && !x->open && !x->events.len)
        taken(w, x);
    if (newest < x->told && repeated && !x->open)
        lost(w, x);
    x->open |= newest == x->told || repeated; /* else it has one to look at first */
    while (status == HTC_OK && htc__kv_watch_wish_next(&r, &wanted))
        status = wish(w, x, &wanted);
    htc__kv_watcher_busy(w, x);
    return status;
}

/* ---------------------------------------------------------------- telling */

static htc_status tell(htc__kv_watches *w, htc__kv_watcher *x, htc_output *out)
{
    htc__kv_events_begin(&w->body, x->told + 1, x->session, x->heard);
    htc_put_raw(&w->body, htc_buf_bytes(&x->events));
    if (w->body.status != HTC_OK)
        return w->body.status;
    htc_status status =
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = x->peer, .body = htc_buf_bytes(&w->body) });
    if (status != HTC_OK)
        return status;
    w->sent += w->body.len;
    x->told++;
    x->open = x->confirm = 0;
    if (x->events.cap > EVENTS_BYTES / 4)
        htc_buf_free(&x->events);
    else
        htc_buf_clear(&x->events);
    return HTC_OK;
}

/* Nothing would wake it, or not in time. */
static int is_left(const htc__kv_watches *w, const htc__kv_watcher *x)
{
    int waits = x->reading || x->page_asked;
    return x->again_at > w->now || (x->open && !waits && (x->queued.first || x->start || x->scan));
}

static htc_status serve(htc__kv_watches *w, htc__kv_watcher *x, htc_output *out)
{
    htc_status status = HTC_OK;
    if (!x->open)
        return HTC_OK; /* its next message wakes it */
    x->listed = 1;     /* what is answered at once is told at once */
    ask_page(w, x);
    if (!x->page_asked) {
        read_marked(w, x);
        x->page_turn = 1;
    }
    x->listed = 0;
    if (w->broken == HTC_OK && (x->events.len || x->confirm))
        status = tell(w, x, out);
    if (is_left(w, x) || status != HTC_OK)
        htc__kv_watcher_busy(w, x);
    return w->broken == HTC_OK ? status : w->broken;
}

htc_status htc__kv_watches_flush(htc__kv_watches *w, htc_ns now, htc_output *out)
{
    htc__kv_watcher *list = w->busy, *next;
    uint64_t         sent = w->sent;
    htc_status       status = w->broken;
    int              full = 0;
    w->now = now;
    w->busy = NULL;
    w->busy_last = &w->busy;
    for (; list; list = next) {
        next = list->next;
        list->listed = 0;
        if (full || status != HTC_OK) {
            htc__kv_watcher_busy(w, list);
            continue;
        }
        status = serve(w, list, out);
        full = status == HTC_EFULL && htc_output_count(out) > 0;
        status = full ? HTC_OK : status;
        full |= w->sent - sent >= FLUSH_BYTES;
    }
    return status;
}

htc_ns htc__kv_watches_deadline(const htc__kv_watches *w)
{
    htc_ns at = HTC_NEVER;
    for (const htc__kv_watcher *x = w->busy; x; x = x->next)
        at = x->again_at < at ? x->again_at : at;
    return at;
}

/* ---------------------------------------------------------------- life */

void htc__kv_watches_init(htc__kv_watches *w)
{
    w->face = (htc__kv_face){ .answer = answered, .ctx = w, .gone = gone };
    w->busy_last = &w->busy;
    htc__table_init(&w->watchers, &w->env);
    htc__kv_watch_names_init(&w->index, &w->env);
    htc_buf_init(&w->body, &w->env, HTC_WIRE_MESSAGE_MAX);
}

void htc__kv_watches_free(htc__kv_watches *w)
{
    while (w->watchers.head[0]) {
        const htc__kv_watcher *x = *(htc__kv_watcher **)htc__node_value(w->watchers.head[0]);
        htc__kv_watches_closed(w, x->peer);
    }
    htc__table_free(&w->watchers);
    htc__kv_watch_names_free(&w->index);
    htc_buf_free(&w->body);
}
