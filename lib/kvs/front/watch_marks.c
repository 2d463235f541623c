/* Who watches what, and what of it has changed. */
#include "kvs/front/watch.h"

#include <assert.h>

#include "core/fault.h"
#include "core/util.h"

htc_bytes htc__kv_watching_key(const htc__kv_watching *v)
{
    return htc__kv_watch_name_key(v->index);
}

htc_bytes htc__kv_mark_key(const htc__kv_mark *m)
{
    return m->node ? htc__node_key(m->node) : htc__kv_watching_key(m->watch);
}

htc__kv_watching *htc__kv_watching_find(const htc__kv_watcher *x, uint64_t id)
{
    htc__node *node = htc__table_find(&x->watches, (htc_bytes){ &id, sizeof id });
    return node ? htc__node_value(node) : NULL;
}

void htc__kv_watcher_busy(htc__kv_watches *w, htc__kv_watcher *x)
{
    if (x->listed)
        return;
    x->listed = 1;
    x->next = NULL;
    *w->busy_last = x;
    w->busy_last = &x->next;
}

/* ---------------------------------------------------------------- marks */

static htc__kv_marks *list_of(const htc__kv_mark *m)
{
    htc__kv_watcher *x = m->watch->watcher;
    return m->state == HTC__KV_MARK_QUEUED ? &x->queued : m->state == HTC__KV_MARK_TOLD ? &x->on_way : NULL;
}

void htc__kv_mark_set(htc__kv_mark *m, htc__kv_mark_state state)
{
    htc__kv_marks *list = list_of(m);
    if (list) {
        *(m->prev ? &m->prev->next : &list->first) = m->next;
        *(m->next ? &m->next->prev : &list->last) = m->prev;
    }
    m->state = (uint8_t)state;
    m->prev = m->next = NULL;
    if (!(list = list_of(m)))
        return;
    m->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = m;
    list->last = m;
}

void htc__kv_mark_done(htc__kv_mark *m)
{
    htc__kv_watcher *x = m->watch->watcher;
    int              again = m->again;
    m->again = 0;
    htc__kv_mark_set(m, again ? HTC__KV_MARK_QUEUED : HTC__KV_MARK_IDLE);
    if (again || !m->node)
        return;
    assert(x->marks > 0);
    x->marks--;
    htc__table_remove(&m->watch->marks, htc__node_key(m->node));
}

static void forget_read(htc__kv_mark *m)
{
    if (m->state == HTC__KV_MARK_READING)
        m->watch->watcher->read[m->slot] = NULL;
}

static void clear_marks(htc__kv_watching *v)
{
    forget_read(&v->mark);
    htc__kv_mark_set(&v->mark, HTC__KV_MARK_IDLE);
    for (htc__node *node = v->marks.head[0]; node; node = node->next[0]) {
        htc__kv_mark *m = htc__node_value(node);
        forget_read(m);
        htc__kv_mark_set(m, HTC__KV_MARK_IDLE);
    }
    assert(v->watcher->marks >= v->marks.count);
    v->watcher->marks -= v->marks.count;
    htc__table_free(&v->marks);
}

static htc__kv_mark *mark_make(htc__kv_watching *v, htc_bytes key)
{
    htc__node *node = htc__table_make(&v->marks, key, sizeof(htc__kv_mark));
    if (!node)
        return NULL;
    htc__kv_mark *m = htc__node_value(node);
    m->watch = v;
    m->node = node;
    htc__table_link(&v->marks, node);
    v->watcher->marks++;
    return m;
}

static void mark(htc__kv_watches *w, htc__kv_watching *v, htc_bytes key)
{
    htc__kv_watcher *x = v->watcher;
    htc__kv_mark    *m = &v->mark;
    if (v->starting)
        return; /* it will see it */
    if (v->prefix) {
        htc__node *node = htc__table_find(&v->marks, key);
        m = node ? htc__node_value(node) : x->marks < w->marks_max ? mark_make(v, key) : NULL;
        if (!m) {
            htc__kv_watching_start_over(w, v);
            return;
        }
    }
    w->merged += m->state != HTC__KV_MARK_IDLE;
    if (m->state == HTC__KV_MARK_READING || m->state == HTC__KV_MARK_TOLD)
        m->again = !HTC__BROKEN(mark_lost);
    if (m->state != HTC__KV_MARK_IDLE)
        return;
    htc__kv_mark_set(m, HTC__KV_MARK_QUEUED);
    htc__kv_watcher_busy(w, x);
}

void htc__kv_watches_changed(htc__kv_watches *w, htc_bytes key)
{
    uint32_t   at = 0;
    htc__node *node;
    while (w->count && (node = htc__kv_watch_names_under(&w->index, key, &at)))
        for (htc__kv_watching *v = *(htc__kv_watching **)htc__node_value(node); v; v = v->next)
            mark(w, v, key);
}

int htc__kv_watches_want(const htc__kv_watches *w, htc_bytes key)
{
    uint32_t at = 0;
    return htc__kv_watch_names_under(&w->index, key, &at) != NULL;
}

/* ---------------------------------------------------------------- watches */

static void start(htc__kv_watches *w, htc__kv_watching *v)
{
    htc__kv_watcher *x = v->watcher;
    if (v->starting)
        return;
    v->starting = 1;
    v->next_start = NULL;
    *x->start_last = v;
    x->start_last = &v->next_start;
    htc__kv_watcher_busy(w, x);
}

/* It scans no more. */
static void stop(htc__kv_watching *v)
{
    htc__kv_watcher *x = v->watcher;
    if (x->scan == v) {
        x->scan = NULL;
        x->page_stale = x->page_asked;
    }
    if (x->page == v)
        x->page = NULL;
    if (!v->starting)
        return;
    htc__kv_watching **at = &x->start;
    while (*at != v)
        at = &(*at)->next_start;
    *at = v->next_start;
    if (x->start_last == &v->next_start)
        x->start_last = at;
    v->starting = 0;
}

void htc__kv_watching_start_over(htc__kv_watches *w, htc__kv_watching *v)
{
    clear_marks(v);
    stop(v);
    v->say_over = 1;
    w->started_over++;
    start(w, v);
}

void htc__kv_watches_over(htc__kv_watches *w, htc_bytes prefix)
{
    htc__node *node = htc__kv_watch_names_find(&w->index, 1, prefix);
    for (htc__kv_watching *v = node ? *(htc__kv_watching **)htc__node_value(node) : NULL; v; v = v->next)
        if (!v->starting)
            htc__kv_watching_start_over(w, v);
}

/* Whoever has to know what is watched here is told of the first watch of it, and of the end of the last. */
static htc_status index_add(htc__kv_watches *w, int prefix, htc_bytes key, htc__node **node)
{
    *node = htc__kv_watch_names_find(&w->index, prefix, key);
    if (*node)
        return HTC_OK;
    if (!(*node = htc__kv_watch_names_add(&w->index, prefix, key, sizeof(htc__kv_watching *))))
        return HTC_ENOMEM;
    htc_status status = w->begun ? w->begun(w->told_ctx, prefix, key) : HTC_OK;
    if (status != HTC_OK)
        htc__kv_watch_names_remove(&w->index, *node);
    return status;
}

static void index_drop_empty(htc__kv_watches *w, htc__node *node)
{
    if (*(htc__kv_watching **)htc__node_value(node))
        return;
    if (w->ended)
        w->ended(w->told_ctx, htc__kv_watch_name_prefix(node), htc__kv_watch_name_key(node));
    htc__kv_watch_names_remove(&w->index, node);
}

htc_status htc__kv_watching_add(htc__kv_watches *w, htc__kv_watcher *x, const htc__kv_watch_wish *wish)
{
    int        prefix = wish->kind == HTC__KV_WISH_PREFIX;
    htc__node *index;
    htc_status status = index_add(w, prefix, wish->key, &index);
    if (status != HTC_OK)
        return status;
    htc__node *node = htc__table_make(&x->watches, (htc_bytes){ &wish->watch, sizeof wish->watch }, sizeof(htc__kv_watching));
    if (!node) {
        index_drop_empty(w, index);
        return HTC_ENOMEM;
    }
    htc__kv_watching  *v = htc__node_value(node);
    htc__kv_watching **first = htc__node_value(index);
    *v = (htc__kv_watching){ .next = *first, .at = first, .watcher = x, .index = index, .id = wish->watch, .held = wish->held };
    if (*first)
        (*first)->at = &v->next;
    *first = v;
    v->mark.watch = v;
    v->prefix = (uint32_t)prefix;
    htc__table_init(&v->marks, &w->env);
    htc__table_link(&x->watches, node);
    w->count++;
    if (prefix)
        start(w, v);
    else
        mark(w, v, wish->key);
    return HTC_OK;
}

void htc__kv_watching_remove(htc__kv_watches *w, htc__kv_watching *v)
{
    htc__kv_watcher *x = v->watcher;
    uint64_t         id = v->id;
    clear_marks(v);
    stop(v);
    *v->at = v->next;
    if (v->next)
        v->next->at = v->at;
    index_drop_empty(w, v->index);
    assert(w->count > 0);
    w->count--;
    htc__table_remove(&x->watches, (htc_bytes){ &id, sizeof id });
}
