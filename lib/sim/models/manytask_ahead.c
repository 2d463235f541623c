/* A grid in parts, which threads go through at the same time, with the run and the hash of one part.
 *
 * Nodes act on each other when one is idle and asks. While a node has tasks that wait, the end of one begins the next, and nobody else is concerned. So each
 * part goes ahead through such events of its own, in a window, and stops before the first one that concerns others. What it does is in a log: the events, and
 * the ends that these ask for, which its queue does not have yet. The earliest stop of all parts decides: what comes before it in (tick, id) is settled, what
 * comes after it is undone. Then events happen one by one, those of all parts in one order, until none has concerned others for a while.
 *
 *     part 0   e e e e e e e e e e e e|      the window ends
 *     part 1   e e e e e e e S               this end leaves a node idle: it stops here,
 *                            ^               and what part 0 did after that is undone
 *
 * Once every task has begun nothing is left to be stolen: thieves ask in vain, and parts go on by themselves to the end. */
#include <assert.h>
#include <stdatomic.h>

#include "core/util.h"
#include "sim/models/manytask.h"

#define LOG    16384u /* events of a part that are not settled */
#define WINDOW 2048u  /* that a part has in a window, roughly; */
#define LATE   16384u /* once every task has begun */
#define QUIET  32u    /* events in turn that concern nobody else, before parts go ahead again */
#define LITTLE 256u   /* events that a window has settled when it was hardly worth it */
#define NONE   UINT64_MAX

/* What has happened. */
typedef struct done {
    uint64_t key;
    uint64_t next;     /* the key of the end that it asks for; NONE: of none */
    uint32_t by;       /* 1 + the place of the event that asked for it, 0: the queue had it */
    uint32_t has_left; /* 1: the front of its node's queue is another span since */
} done;

/* An end before the window's. */
typedef struct soon {
    uint64_t key;
    uint32_t by;
} soon;

/* The last task of a span has begun. */
typedef struct last_one {
    uint64_t number;
    uint32_t span;
} last_one;

typedef struct part {
    done     *log; /* from first to n it is not settled */
    soon     *soon; /* a heap */
    last_one *last_one; /* from lasts_first to lasts */
    uint64_t  upto;  /* what comes before in this part has happened */
    uint32_t  first, n, soons, lasts_first, lasts;
    uint64_t  apart[16];
} part;

typedef struct many_ahead {
    _Atomic uint64_t bound;   /* somebody stops here */
    uint64_t         apart[16];
    uint64_t         end;     /* of the window, as a key */
    uint64_t         ended;   /* and of the one that is settled */
    uint64_t         settled; /* what comes before is so, and of the part `who` what it has done */
    uint64_t         width, late_width; /* ticks */
    uint64_t         last_end; /* the last event that is the end of a task */
    uint32_t         who;
    uint32_t         patience; /* events one by one, at least: the longer, the more windows in turn have come to little */
    int              undoes, late; /* late: every task has begun */
    part             part[];
} many_ahead;

static many *of(const run *r)
{
    return r->options.ctx;
}

/* ---- sums ---- */

uint64_t htc__many_nodes_of(const many *m, uint32_t i, uint64_t below)
{
    uint64_t block = UINT64_C(1) << m->block_bits, cycle = block * m->options.parts, rest = below % cycle, begin = block * i;
    rest = rest > begin ? rest - begin : 0;
    return below / cycle * block + (rest < block ? rest : block);
}

struct many_state htc__many_total(const many *m)
{
    struct many_state all = m->home->now;
    for (uint32_t i = 1; i < htc__many_parts(m); i++) {
        all.started += m->home[i].now.started;
        all.ended += m->home[i].now.ended;
    }
    return all;
}

int htc__many_all_ended(const many *m)
{
    if (!m->ahead)
        return m->now.ended == m->options.tasks;
    if (!m->ahead->late)
        return htc__many_total(m).ended == m->options.tasks;
    uint64_t key;
    if (m->at != m->ahead->last_end)
        return m->at > m->ahead->last_end;
    return !htc__ladder_peek(m->scale->queue, &key) || key != m->at; /* there may be several ends of one key */
}

/* ---- the heap of ends before the window's ---- */

static void put_soon(part *p, uint64_t key, uint32_t by)
{
    uint32_t i = p->soons++;
    for (; i && p->soon[(i - 1) / 2].key > key; i = (i - 1) / 2)
        p->soon[i] = p->soon[(i - 1) / 2];
    p->soon[i] = (soon){ key, by };
}

static void drop_soon(part *p)
{
    soon     last = p->soon[--p->soons];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= p->soons)
            break;
        if (child + 1 < p->soons && p->soon[child + 1].key < p->soon[child].key)
            child++;
        if (p->soon[child].key >= last.key)
            break;
        p->soon[i] = p->soon[child];
        i = child;
    }
    p->soon[i] = last;
}

/* ---- events that concern nobody else ---- */

static void next_span(const many *m, part *p, many_node *v, uint64_t number)
{
    many_span *span = m->home->span;
    uint32_t   s = v->more;
    p->last_one[p->lasts++] = (last_one){ number, s };
    v->first = span[s].first;
    v->front = span[s].n;
    v->more = span[s].next;
    *(v->more == MANY_NONE ? &v->last : &span[v->more].before) = MANY_NONE;
}

static void span_before(const many *m, part *p, many_node *v)
{
    many_span *span = m->home->span;
    last_one   l = p->last_one[--p->lasts];
    *(v->more == MANY_NONE ? &v->last : &span[v->more].before) = l.span;
    v->more = l.span;
    v->first = l.number;
    v->front = 1;
}

/* The end of a task at a node where another one waits. 0: it takes more ticks than there are. */
static int start_next(many *m, part *p, many_node *v, uint32_t i, uint64_t key, done *d)
{
    const htc_scale *s = m->scale;
    uint64_t         length = htc__many_length(m, v->first), takes = htc__many_length_on(m, length, v->group), end = (key >> s->id_bits) + m->task + takes;
    if (m->task > s->tick_max || takes > s->tick_max || end > s->tick_max)
        return 0;
    m->now.work += length;
    m->waiting[i]--;
    d->next = end << s->id_bits | (key & m->id_mask);
    d->has_left = --v->front == 0 && v->more != MANY_NONE;
    if (d->has_left)
        next_span(m, p, v, v->first);
    else
        v->first++;
    return 1;
}

/* It concerns its own node alone. */
static int is_private(const many *m, uint64_t key)
{
    uint64_t id = key & m->id_mask;
    if (id >= m->nodes * MANY_NODE_IDS)
        return 0;
    uint32_t         i = (uint32_t)(id / MANY_NODE_IDS), what = (uint32_t)(id % MANY_NODE_IDS);
    const many_node *v = &m->node[i];
    if (what == MANY_STEP)
        return v->due != key >> m->scale->id_bits; /* a stale one */
    return what == MANY_END && (i != m->options.root || m->home->now.submitted == m->options.tasks) && (m->waiting[i] || v->phase != THIEF_NONE);
}

/* What it asks for waits in the log. */
static int happens(many *m, part *p, uint64_t key, done *d)
{
    uint32_t   i = (uint32_t)((key & m->id_mask) / MANY_NODE_IDS);
    many_node *v;
    *d = (done){ .key = key, .next = NONE };
    if (!is_private(m, key))
        return 0;
    v = &m->node[i];
    if ((key & m->id_mask) % MANY_NODE_IDS != MANY_END)
        return 1;
    if (m->waiting[i] == 0)
        v->idle++;
    else if (!start_next(m, p, v, i, key, d))
        return 0;
    v->ended++;
    return 1;
}

static void undo(many *m, part *p, const done *d)
{
    uint32_t   i = (uint32_t)((d->key & m->id_mask) / MANY_NODE_IDS);
    many_node *v = &m->node[i];
    if ((d->key & m->id_mask) % MANY_NODE_IDS != MANY_END)
        return;
    v->ended--;
    if (d->next == NONE) {
        v->idle--;
        return;
    }
    if (d->has_left) {
        span_before(m, p, v);
    } else {
        v->first--;
        v->front++;
    }
    m->waiting[i]++;
    m->now.work -= htc__many_length(m, v->first);
}

/* ---- a part goes ahead ---- */

static void stop_at(many_ahead *a, uint64_t key)
{
    uint64_t bound = atomic_load_explicit(&a->bound, memory_order_relaxed);
    while (key < bound && !atomic_compare_exchange_weak_explicit(&a->bound, &bound, key, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void go_ahead(many *m, many_ahead *a, part *p)
{
    ladder  *q = m->scale->queue;
    uint64_t end = a->end, key, queued;
    for (;;) {
        htc__many_look_ahead(m);
        queued = htc__ladder_peek(q, &key) ? key : NONE;
        key = p->soons && p->soon[0].key < queued ? p->soon[0].key : queued;
        p->upto = key < end ? key : end;
        if (key >= end || p->n == LOG || key >= atomic_load_explicit(&a->bound, memory_order_relaxed))
            return;
        done *d = &p->log[p->n];
        if (!happens(m, p, key, d)) {
            stop_at(a, key);
            return;
        }
        p->n++;
        if (key == queued) {
            (void)htc__ladder_pop(q, &key);
        } else {
            d->by = p->soon[0].by;
            drop_soon(p);
        }
        if (d->next < end)
            put_soon(p, d->next, p->n);
    }
}

/* ---- and what it did counts, or is undone ---- */

static void count(many *m, part *p, const done *d, uint64_t window_end)
{
    htc_scale *s = m->scale;
    ledger    *l = &s->ledger;
    s->now = d->key >> s->id_bits;
    s->hash += htc__scale_mix(d->key ^ s->seed_state);
    s->events++;
    if ((d->key & m->id_mask) % MANY_NODE_IDS != MANY_END)
        return;
    htc__scale_end(s);
    m->now.ended++;
    if (d->next == NONE)
        return;
    uint64_t begin = s->now + m->task, length = (d->next >> s->id_bits) - begin;
    m->now.started++;
    l->started++;
    l->begins += begin;
    l->overflow |= l->work > UINT64_MAX - length;
    l->work += length;
    l->longest = length > l->longest ? length : l->longest;
    m->now.last_end = d->next > m->now.last_end ? d->next : m->now.last_end;
    if (d->next >= window_end)
        htc__ladder_push(s->queue, d->next);
    if (d->has_left) {
        uint32_t span = p->last_one[p->lasts_first++].span;
        m->home->span[span].next = m->now.span_free;
        m->now.span_free = span;
    }
}

static void undo_rest(many *m, const many_ahead *a, part *p)
{
    ladder *q = m->scale->queue;
    for (uint32_t i = p->n; i-- > p->first;)
        undo(m, p, &p->log[i]);
    q->last = q->last > a->settled ? a->settled : q->last;
    for (uint32_t i = p->first; i < p->n; i++)
        if (p->log[i].by <= p->first) /* else the event that asks for it is undone too */
            htc__ladder_push(q, p->log[i].key);
    for (uint32_t i = 0; i < p->soons; i++)
        if (p->soon[i].by <= p->first)
            htc__ladder_push(q, p->soon[i].key);
    p->soons = 0;
    p->n = p->first;
}

static void settle(many *m, const many_ahead *a, part *p, int all)
{
    assert(p->first <= p->n && p->n <= LOG && p->lasts_first <= p->lasts);
    while (p->first < p->n && (all || p->log[p->first].key < a->settled))
        count(m, p, &p->log[p->first++], a->ended);
    if (a->undoes)
        undo_rest(m, a, p);
    if (p->first < p->n)
        return;
    assert(p->lasts_first == p->lasts); /* each span that was left is settled or undone with its event */
    p->first = p->n = p->lasts_first = p->lasts = 0;
    for (uint32_t i = 0; i < p->soons; i++)
        p->soon[i].by = 0;
}

/* ---- pieces of work, one for each part ---- */

static void go_piece(void *arg, uint32_t i)
{
    many *m = of(arg) + i;
    go_ahead(m, m->ahead, &m->ahead->part[i]);
}

static void settle_piece(void *arg, uint32_t i)
{
    many *m = of(arg) + i;
    settle(m, m->ahead, &m->ahead->part[i], i == m->ahead->who);
}

/* Both: the window was whole, and the next one begins. */
static void next_piece(void *arg, uint32_t i)
{
    many *m = of(arg) + i;
    settle(m, m->ahead, &m->ahead->part[i], 1);
    go_ahead(m, m->ahead, &m->ahead->part[i]);
}

static void late_piece(void *arg, uint32_t i)
{
    many      *m = of(arg) + i;
    htc_scale *s = m->scale;
    uint64_t   key;
    while (s->status == HTC_OK && htc__ladder_peek(s->queue, &key) && key < m->ahead->end && htc__ladder_pop(s->queue, &key))
        htc__scale_happen(s, key, m->id_mask);
}

/* ---- turns ---- */

/* The first that is pending, and whose; NONE: nothing is. */
static uint64_t first_of(const run *r, uint32_t *who)
{
    uint64_t first = NONE, key;
    for (uint32_t i = 0; i < r->parts; i++)
        if (htc__ladder_peek(r->part[i].queue, &key) && key < first) {
            first = key;
            *who = i;
        }
    return first;
}

/* The first key that is so many ticks later. */
static uint64_t later(const htc_scale *s, uint64_t key, uint64_t ticks)
{
    uint64_t tick = key >> s->id_bits;
    return ticks > s->tick_max - tick ? LADDER_KEY_MAX + 1 : (tick + ticks) << s->id_bits;
}

static uint64_t fitting(uint64_t width, uint64_t events, uint64_t wanted)
{
    if (events < wanted / 2 && width < UINT64_MAX / 4)
        return 2 * width;
    return events > 2 * wanted && width > 1 ? width / 2 : width;
}

/* Where the earliest stops; *n: events of the part with the most. */
static void look_at_parts(const run *r, many_ahead *a, uint32_t *n)
{
    a->settled = NONE;
    *n = 0;
    for (uint32_t i = 0; i < r->parts; i++) {
        const part *p = &a->part[i];
        *n = p->n > *n ? p->n : *n;
        if (p->upto < a->settled) {
            a->settled = p->upto;
            a->who = i;
        }
    }
}

/* Windows, until one stops, which is 1, or there were so many events. The log is empty before and after. */
static int windows(run *r, many_ahead *a, uint64_t first, uint64_t events)
{
    uint32_t n;
    uint64_t until = htc__scale_events(r) + events;
    void (*work)(void *arg, uint32_t i) = go_piece;
    a->end = later(r->part, first, a->width);
    for (;;) {
        atomic_store_explicit(&a->bound, NONE, memory_order_relaxed);
        htc__scale_each_part(r, work);
        look_at_parts(r, a, &n);
        int whole = a->settled == a->end, stops = a->settled == atomic_load_explicit(&a->bound, memory_order_relaxed);
        a->ended = a->end;
        a->width = whole ? fitting(a->width, n, WINDOW) : a->width;
        if (whole && n && htc__scale_events(r) < until) {
            a->end = later(r->part, a->settled, a->width);
            work = next_piece;
            continue;
        }
        a->undoes = stops;
        htc__scale_each_part(r, settle_piece);
        a->undoes = 0;
        if (whole || stops)
            return stops;
        work = go_piece; /* a log was full: the others keep what is after it */
    }
}

static void happen_at(run *r, uint32_t who, uint64_t key)
{
    for (uint32_t i = 0; i < r->parts; i++)
        r->part[i].now = key >> r->part[i].id_bits;
    (void)htc__ladder_pop(r->part[who].queue, &key);
    htc__scale_happen(&r->part[who], key, of(r)->id_mask);
}

/* One after the other, in the order of all parts, until for a while none has concerned others. */
static void one_by_one(run *r, uint32_t patience)
{
    uint32_t who = 0, quiet = 0;
    for (uint32_t n = 0; n < LOG && (quiet < QUIET || n < patience) && htc__scale_status(r) == HTC_OK; n++) {
        uint64_t key = first_of(r, &who);
        if (key == NONE)
            return;
        quiet = is_private(of(r), key) ? quiet + 1 : 0;
        happen_at(r, who, key);
    }
}

/* Every task has begun: nobody has one to give, so that thieves of two parts do not act on each other. Samples are of all parts. */
static void late_window(run *r, many_ahead *a, uint64_t first, uint32_t who)
{
    const many *all = of(r);
    uint64_t    before = htc__scale_events(r), sample = all->sample ? all->now.sample_next << r->part->id_bits | htc__many_sample_id(all) : NONE;
    if (first == sample) {
        happen_at(r, who, first);
        return;
    }
    a->end = later(r->part, first, a->late_width);
    a->last_end = 0;
    for (uint32_t i = 0; i < r->parts; i++)
        a->last_end = all[i].now.last_end > a->last_end ? all[i].now.last_end : a->last_end;
    if (sample > first && sample < a->end) { /* the last one is not asked for */
        a->end = sample;
        htc__scale_each_part(r, late_piece);
        return;
    }
    htc__scale_each_part(r, late_piece);
    a->late_width = fitting(a->late_width, (htc__scale_events(r) - before) / r->parts, LATE);
}

int htc__many_turn(run *r, uint64_t events)
{
    many_ahead *a = of(r)->ahead;
    uint64_t    until = htc__scale_events(r) + events, first;
    uint32_t    who = 0;
    for (uint32_t i = 0; i < r->parts; i++)
        assert(a->part[i].n == 0 && a->part[i].soons == 0); /* a checkpoint has neither */
    while ((first = first_of(r, &who)) != NONE && htc__scale_events(r) < until && htc__scale_status(r) == HTC_OK) {
        uint64_t before = htc__scale_events(r);
        a->late = htc__many_total(of(r)).started == of(r)->options.tasks;
        if (a->late) {
            late_window(r, a, first, who);
        } else if (windows(r, a, first, events)) {
            int little = htc__scale_events(r) - before < LITTLE;
            a->patience = !little ? QUIET : a->patience < WINDOW ? 2 * a->patience : WINDOW;
            one_by_one(r, a->patience);
        }
    }
    return first != NONE;
}

/* ---- memory ---- */

static uint64_t size_of(const many *m)
{
    return sizeof(many_ahead) + m->options.parts * sizeof(part);
}

#define PART_BYTES (LOG * (sizeof(done) + sizeof(soon) + sizeof(last_one)))

uint64_t htc__many_ahead_memory(const many *m)
{
    return m->options.parts < 2 ? 0 : size_of(m) + m->options.parts * PART_BYTES;
}

htc_status htc__many_ahead_open(many *all)
{
    many_ahead *a = htc__alloc(&all->env, size_of(all));
    if (!a)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < all->options.parts; i++)
        all[i].ahead = a;
    a->width = a->late_width = 1;
    a->patience = QUIET;
    for (uint32_t i = 0; i < all->options.parts; i++) {
        part *p = &a->part[i];
        p->log = htc__alloc_raw(&all->env, PART_BYTES);
        if (!p->log)
            return HTC_ENOMEM;
        p->last_one = (last_one *)(p->log + LOG);
        p->soon = (soon *)(p->last_one + LOG);
    }
    return HTC_OK;
}

void htc__many_ahead_close(many *all)
{
    many_ahead *a = all->ahead;
    for (uint32_t i = 0; a && i < all->options.parts; i++)
        htc__free(&all->env, a->part[i].log, PART_BYTES);
    htc__free(&all->env, a, size_of(all));
}
