/* What other members watch, and what has changed of it here (replica/watch.h).
 *
 *     changed ──▶ waiting ──MARKS──▶ told ──WATCH: taken──▶ forgotten
 *                    ▲                │
 *                    └── changed again, or not taken in time ──┘ */
#include "core/fault.h"
#include "kvs/replica/watch.h"
#include "kvs/util/digest.h"

#define MESSAGE_MARKS 512
#define MESSAGE_BYTES ((size_t)64 << 10)

typedef struct mark {
    struct mark     *next;
    const htc__node *node; /* that holds this */
    uint64_t         version, digest;
    uint8_t          told, again;
} mark;

typedef struct queue {
    mark *first, **last;
} queue;

/* A member that has watchers. */
typedef struct host {
    uint64_t            id, life, stream, have, number;
    htc__kv_watch_names names; /* without values */
    htc__table          marks; /* by key */
    queue               waiting, told;
    uint8_t             lost; /* the stream is not known any more */
    uint8_t             owes; /* an answer */
    htc_ns              again_at;
} host;

struct htc__kv_marking {
    htc__table hosts; /* by id: host * */
    uint64_t   said;
};

static host *host_of(const htc_kv_server *s, uint64_t id)
{
    htc__node *node = htc__table_find(&s->cluster->marking->hosts, (htc_bytes){ &id, sizeof id });
    return node ? *(host **)htc__node_value(node) : NULL;
}

static void clear(queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static void put(queue *q, mark *m)
{
    m->next = NULL;
    *q->last = m;
    q->last = &m->next;
}

static mark *take(queue *q)
{
    mark *m = q->first;
    if (m && !(q->first = m->next))
        q->last = &q->first;
    return m;
}

/* Nothing is known of what that host watches. */
static void forget(host *h)
{
    htc__kv_watch_names_free(&h->names);
    htc__table_free(&h->marks);
    clear(&h->waiting);
    clear(&h->told);
    h->have = h->number = 0;
}

static void lose(host *h)
{
    forget(h);
    h->lost = h->owes = 1;
}

static host *host_add(htc_kv_server *s, uint64_t id)
{
    htc__table *hosts = &s->cluster->marking->hosts;
    htc__node  *node = htc__table_make(hosts, (htc_bytes){ &id, sizeof id }, sizeof(host *));
    host       *h = node ? htc__alloc(&s->env, sizeof *h) : NULL;
    if (!h) {
        htc__table_discard(hosts, node);
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return NULL;
    }
    h->id = id;
    htc__kv_watch_names_init(&h->names, &s->env);
    htc__table_init(&h->marks, &s->env);
    clear(&h->waiting);
    clear(&h->told);
    *(host **)htc__node_value(node) = h;
    htc__table_link(hosts, node);
    return h;
}

static void host_drop(htc_kv_server *s, host *h)
{
    uint64_t id = h->id;
    forget(h);
    htc__free(&s->env, h, sizeof *h);
    htc__table_remove(&s->cluster->marking->hosts, (htc_bytes){ &id, sizeof id });
}

/* ---------------------------------------------------------------- marks */

static int is_full(const htc_kv_server *s, const host *h)
{
    return h->marks.count >= s->native.watches.marks_max;
}

/* It watches no more than it may: what has ended at the host and has begun again there since is known twice at most. */
static int names_too_much(const host *h)
{
    return h->names.table.count >= 2 * HTC__KV_INTERESTS_MAX;
}

static void mark_it(htc_kv_server *s, host *h, const htc__kv_marked *marked)
{
    htc__node *node = htc__table_find(&h->marks, marked->key);
    if (!node && is_full(s, h)) {
        lose(h); /* which the host answers by naming all anew */
        return;
    }
    if (!node) {
        if (!(node = htc__table_make(&h->marks, marked->key, sizeof(mark)))) {
            htc__kv_cluster_broken(s, HTC_ENOMEM);
            return;
        }
        htc__table_link(&h->marks, node);
        ((mark *)htc__node_value(node))->node = node;
        put(&h->waiting, htc__node_value(node));
    }
    mark *m = htc__node_value(node);
    m->version = marked->version;
    m->digest = marked->digest;
    m->again = m->told;
}

static htc__kv_marked marked_of(htc_bytes key, const htc__kv_cell *cell)
{
    htc__kv_marked marked = { .key = key };
    if (cell && cell->present) {
        uint64_t words[] = { cell->version, cell->accepted.epoch, cell->accepted.counter, cell->accepted.proposer, cell->deleted };
        marked.version = cell->version;
        marked.digest = htc__digest_words(words, 5, 0) | 1;
    }
    return marked;
}

void htc__kv_cluster_changed(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell)
{
    const htc__kv_watches *hub = &s->native.watches;
    const htc__table      *hosts = &s->cluster->marking->hosts;
    if ((!hosts->count && !hub->index.table.count) || htc__kv_own_key(key))
        return;
    htc__kv_marked marked = marked_of(key, cell);
    for (htc__node *node = hosts->head[0]; node; node = node->next[0]) {
        host    *h = *(host **)htc__node_value(node);
        uint32_t at = 0;
        if (htc__kv_watch_names_under(&h->names, key, &at))
            mark_it(s, h, &marked);
    }
    htc__kv_cluster_marked(s, &marked);
}

/* Damaged, it may be anything: then the others know. */
int htc__kv_cluster_held(htc_kv_server *s, htc_bytes key, htc__kv_marked *marked)
{
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    htc_bytes    bytes;
    htc__kv_cell cell;
    uint64_t     touched = s->touched;
    htc_status   status = htc__kv_read(s, htc__kv_name_bytes(&name), &bytes);
    s->touched = touched;
    if (status != HTC_OK || htc__kv_cell_head(bytes, NULL, &cell) != HTC_OK || !cell.present)
        return 0;
    *marked = marked_of(key, &cell);
    return 1;
}

/* ---------------------------------------------------------------- what a host says */

static void carry_out(htc_kv_server *s, host *h, const htc__kv_wanted *wanted)
{
    int            prefix = wanted->flags & HTC__KV_WATCH_PREFIX;
    htc__node     *node;
    htc__kv_marked marked;
    h->have = wanted->number;
    if (wanted->flags & HTC__KV_WATCH_ENDED) {
        if ((node = htc__kv_watch_names_find(&h->names, prefix, wanted->key)))
            htc__kv_watch_names_remove(&h->names, node);
    } else if (!htc__kv_watch_names_add(&h->names, prefix, wanted->key, 0)) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
    } else if (!prefix && htc__kv_cluster_held(s, wanted->key, &marked) && !HTC__BROKEN(held_unmarked)) {
        mark_it(s, h, &marked);
    }
}

static void taken(host *h)
{
    for (mark *m; (m = take(&h->told));) {
        m->told = 0;
        if (m->again) {
            m->again = 0;
            put(&h->waiting, m);
        } else {
            htc__table_remove(&h->marks, htc__node_key(m->node));
        }
    }
}

/* 1: it is of the stream that is known. */
static int is_known(host *h, const htc__kv_watch_item *item)
{
    if (h->life == item->life && h->stream > item->stream)
        return 0; /* late: the host has gone on */
    if (h->life != item->life || h->stream != item->stream) {
        forget(h);
        h->life = item->life;
        h->stream = item->stream;
        h->lost = item->from != 0 && !HTC__BROKEN(stream_kept);
        h->have = item->from;
    }
    h->owes |= h->lost;
    return !h->lost;
}

static void on_watch(htc_kv_server *s, uint64_t from, htc_bytes bytes)
{
    htc_reader         r = htc_reader_of(bytes), whole;
    htc__kv_watch_item item;
    htc__kv_wanted     wanted;
    uint64_t           last;
    htc__kv_watch_item_read(&r, &item);
    whole = r;
    for (last = item.from; htc__kv_wanted_next(&whole, &wanted) && wanted.number > last;)
        last = wanted.number;
    if (htc_reader_done(&whole) != HTC_OK || from == s->cluster->id)
        return;
    host *h = host_of(s, from);
    if ((!h && !(h = host_add(s, from))) || !is_known(h, &item))
        return;
    int told = h->told.first && item.taken == h->number;
    if (told)
        taken(h);
    h->owes |= !told || htc_reader_left(&r) > 0;
    while (s->broken == HTC_OK && !h->lost && !is_full(s, h) && !names_too_much(h) && htc__kv_wanted_next(&r, &wanted))
        if (wanted.number > h->have)
            carry_out(s, h, &wanted);
}

int htc__kv_cluster_watch_known(const htc_kv_server *s, uint64_t id, const htc__kv_list_ask *ask)
{
    const host *h = host_of(s, id);
    return id == s->cluster->id || (h && !h->lost && h->life == ask->life && h->stream == ask->stream && h->have >= ask->wish);
}

/* ---------------------------------------------------------------- what it is told */

/* Those that were told and not taken go first. */
static void tell_again(host *h)
{
    mark *waiting = h->waiting.first, **last = h->waiting.last;
    if (!h->told.first)
        return;
    for (mark *m = h->told.first; m; m = m->next)
        m->told = m->again = 0;
    *h->told.last = waiting;
    h->waiting.first = h->told.first;
    h->waiting.last = waiting ? last : h->told.last;
    clear(&h->told);
}

static void say(htc_kv_server *s, host *h)
{
    htc__kv_cluster   *c = s->cluster;
    uint64_t           said = 0;
    int                any = h->waiting.first && !h->told.first;
    htc__kv_marks_item item = { .life = h->life, .stream = h->stream, .known = !h->lost, .have = h->have };
    item.number = any ? ++h->number : 0;
    htc_buf_clear(&c->scratch);
    htc__kv_marks_item_write(&c->scratch, &item);
    for (int i = 0; any && i < MESSAGE_MARKS && c->scratch.len < MESSAGE_BYTES && h->waiting.first; i++) {
        mark *m = take(&h->waiting);
        htc__kv_marked_write(&c->scratch, &(htc__kv_marked){ htc__node_key(m->node), m->version, m->digest });
        m->told = 1;
        put(&h->told, m);
        said++;
    }
    if (c->scratch.status != HTC_OK) {
        htc__kv_cluster_broken(s, c->scratch.status);
        return;
    }
    htc__kv_cluster_say(s, h->id, HTC__KV_ITEM_MARKS, htc_buf_bytes(&c->scratch));
    c->marking->said += said;
    h->owes = 0;
    if (any)
        h->again_at = s->now + 4 * (s->options.member_retry_ns ? s->options.member_retry_ns : 50 * HTC_MS);
    if (any && HTC__BROKEN(mark_unrepeated))
        taken(h);
}

static int has_something(const host *h)
{
    return h->owes || (h->waiting.first && !h->told.first);
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (htc__node *node = c->marking->hosts.head[0], *next; node && s->broken == HTC_OK; node = next) {
        host               *h = *(host **)htc__node_value(node);
        const htc__kv_peer *peer = htc__kv_cluster_peer(c, h->id);
        next = node->next[0];
        if (!peer || !peer->listed) {
            host_drop(s, h);
            continue;
        }
        if (h->told.first && s->now >= h->again_at && peer->connected)
            tell_again(h);
        if (has_something(h) && peer->connected)
            say(s, h);
    }
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    htc_ns                 at = HTC_NEVER;
    for (htc__node *node = c->marking->hosts.head[0]; node; node = node->next[0]) {
        const host         *h = *(host **)htc__node_value(node);
        const htc__kv_peer *peer = htc__kv_cluster_peer(c, h->id);
        if (!peer || !peer->connected)
            continue;
        if (has_something(h))
            return 0;
        if (h->told.first && h->again_at < at)
            at = h->again_at;
    }
    return at;
}

/* ---------------------------------------------------------------- life */

uint64_t htc__kv_cluster_marks_said(const htc_kv_server *s)
{
    return s->cluster->marking->said;
}

htc__kv_marking *htc__kv_cluster_marking_make(htc_kv_server *s)
{
    htc__kv_marking *marking = htc__alloc(&s->env, sizeof *marking);
    if (marking)
        htc__table_init(&marking->hosts, &s->env);
    return marking;
}

void htc__kv_cluster_marking_free(htc_kv_server *s)
{
    htc__kv_marking *marking = s->cluster->marking;
    if (!marking)
        return;
    while (marking->hosts.head[0])
        host_drop(s, *(host **)htc__node_value(marking->hosts.head[0]));
    htc__table_free(&marking->hosts);
    htc__free(&s->env, marking, sizeof *marking);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (void)kind;
    on_watch(s, from, item);
}

/* Made and freed with those that it marks for: replica/watch.c. */
const htc__kv_component htc__kv_component_notifying = { .tick = tick, .deadline = deadline, .on_item = on_item, .items = { HTC__KV_ITEM_WATCH } };
