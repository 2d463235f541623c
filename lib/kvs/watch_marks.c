/* Who watches what, and what of it has changed. */
#include "kvs/watch.h"

#include "core/fault.h"
#include "core/util.h"

typedef struct name {
    size_t  len;
    uint8_t data[1 + HTC_KV_KEY_MAX];
} name;

static htc_bytes name_of(name *n, int prefix, htc_bytes key)
{
    n->data[0] = prefix ? '*' : '=';
    if (key.len)
        memcpy(n->data + 1, key.data, key.len);
    n->len = 1 + key.len;
    return (htc_bytes){ n->data, n->len };
}

htc_bytes htc__kv_watching_key(const htc__kv_watching *v)
{
    htc_bytes full = htc__node_key(v->index);
    return (htc_bytes){ (const uint8_t *)full.data + 1, full.len - 1 };
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

static void mark_all(htc__kv_watches *w, int prefix, htc_bytes what, htc_bytes key)
{
    name       n;
    htc__node *node = htc__table_find(&w->index, name_of(&n, prefix, what));
    if (!node)
        return;
    for (htc__kv_watching *v = *(htc__kv_watching **)htc__node_value(node); v; v = v->next)
        mark(w, v, key);
}

void htc__kv_watches_changed(htc__kv_watches *w, htc_bytes key)
{
    if (w->count == 0)
        return;
    mark_all(w, 0, key, key);
    for (uint32_t i = 0; i < w->length_count; i++)
        if (w->length[i] <= key.len)
            mark_all(w, 1, (htc_bytes){ key.data, w->length[i] }, key);
}

/* ---------------------------------------------------------------- watches */

static void lengths_change(htc__kv_watches *w, size_t length, int by)
{
    w->lengths[length] += (uint32_t)by;
    w->length_count = 0;
    for (uint32_t i = 0; i <= HTC_KV_KEY_MAX; i++)
        if (w->lengths[i])
            w->length[w->length_count++] = (uint16_t)i;
}

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

static htc__node *index_find(htc__kv_watches *w, int prefix, htc_bytes key)
{
    name       n;
    htc_bytes  full = name_of(&n, prefix, key);
    htc__node *node = htc__table_find(&w->index, full);
    if (node || !(node = htc__table_make(&w->index, full, sizeof(htc__kv_watching *))))
        return node;
    htc__table_link(&w->index, node);
    if (prefix)
        lengths_change(w, key.len, 1);
    return node;
}

static void index_drop_empty(htc__kv_watches *w, htc__node *node)
{
    htc_bytes full = htc__node_key(node);
    if (*(htc__kv_watching **)htc__node_value(node))
        return;
    if (((const uint8_t *)full.data)[0] == '*')
        lengths_change(w, full.len - 1, -1);
    htc__table_remove(&w->index, full);
}

htc_status htc__kv_watching_add(htc__kv_watches *w, htc__kv_watcher *x, const htc__kv_watch_wish *wish)
{
    int        prefix = wish->kind == HTC__KV_WISH_PREFIX;
    htc__node *index = index_find(w, prefix, wish->key);
    if (!index)
        return HTC_ENOMEM;
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
    w->count--;
    htc__table_remove(&x->watches, (htc_bytes){ &id, sizeof id });
}
