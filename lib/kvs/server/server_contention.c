/* Rivals: clients that change one key by compare-and-swap, all at the same time.
 *
 * Answered at once, n of them that have lost are shown the same value, try with it together, and n - 1 lose again: of n requests one
 * changes something, whatever the server costs. So few are let go at once: the first that loses is shown what is there, and
 * while it is thought to be on its way back with that, the others that lose wait, in the order they came. When it has come, or has not for
 * as long as RIVAL_WAIT, the next is let go.
 *
 * Two are on their way at once. One of them will lose, and is shown the newer value then; but with one alone server and clients would
 * take turns at sleeping, and where it takes tens of microseconds to wake a process a change would take two of these. More than
 * two lose more than they keep awake (measured: doc/performance.md). Who has come back in vain a few times, as it is always the slower
 * one, is on its way alone the next time; after a few more it goes behind those that wait, of whom one may be the only one that can win, as who gives
 * back a lock that others spin on.
 *
 * Whoever has changed the key knows what is there without being shown it, and would win again and again: while others wait, it waits
 * behind them.
 *
 * To wait is to be executed later, nothing else: a request that is not answered yet may take place at any time until it is, and what it
 * has lost to is not what it is answered. Who says that it asks for nothing else meanwhile (htc__kv_stamp.alone) may be made to wait. If one that
 * was let go does not come back, its rivals do not wait for one another any more: all are answered. */
#include <assert.h>

#include "core/util.h"
#include "kvs/server/server.h"

/* A client of this machine or its neighbour is back long before, also where others keep the processor from it for a moment. More is not lost
 * to one that gives up. */
#define RIVAL_WAIT   HTC_MS
#define SHOWN_MAX    2
#define VAIN_MAX     4
#define TURN_MAX     8 /* in vain: then others that wait have their turn */
#define KEYS_MAX     256
#define WAITING_MAX  256 /* of one key */
#define REQUEST_SIZE ((size_t)8 << 10)

/* Who is on its way back with what was there, and not longer than until; 0: nobody. */
typedef struct shown {
    uint64_t rival;
    htc_ns   until;
    uint32_t vain; /* so often it has come back and lost */
} shown;

struct htc__kv_contest {
    struct htc__kv_contest *next;
    htc__kv_list            waiting;
    uint32_t                count;
    uint64_t                winner; /* who has changed it last */
    shown                   shown[SHOWN_MAX];
    htc__node              *node;
};

static uint64_t rival_of(const htc__kv_whose *whose)
{
    return whose->stamp.client ? whose->stamp.client : whose->conn;
}

static htc__kv_contest *contest_of(const htc_kv_server *s, htc_bytes key)
{
    htc__node *node = s->contests.count ? htc__table_find(&s->contests, key) : NULL;
    return node ? htc__node_value(node) : NULL;
}

/* Where the rival stands; of 0: a free place. NULL: there is none. */
static shown *shown_of(htc__kv_contest *x, uint64_t rival)
{
    for (size_t i = 0; i < SHOWN_MAX; i++)
        if (x->shown[i].rival == rival)
            return &x->shown[i];
    return NULL;
}

/* For one more to be let go. */
static shown *free_place(htc__kv_contest *x)
{
    for (size_t i = 0; i < SHOWN_MAX; i++)
        if (x->shown[i].rival && x->shown[i].vain >= VAIN_MAX)
            return NULL;
    return shown_of(x, 0);
}

static int all_back(const htc__kv_contest *x)
{
    for (size_t i = 0; i < SHOWN_MAX; i++)
        if (x->shown[i].rival)
            return 0;
    return 1;
}

/* When the first of them is not waited for any more. */
static htc_ns patience(const htc__kv_contest *x)
{
    htc_ns first = HTC_NEVER;
    for (size_t i = 0; i < SHOWN_MAX; i++)
        if (x->shown[i].rival && x->shown[i].until < first)
            first = x->shown[i].until;
    return first;
}

static void show(const htc_kv_server *s, shown *place, uint64_t rival, uint32_t vain)
{
    *place = (shown){ rival, s->now + RIVAL_WAIT, vain };
}

/* Nothing is lost without one. */
static void begin(htc_kv_server *s, htc_bytes key, uint64_t rival)
{
    htc__node *node =
        s->contests.count < KEYS_MAX ? htc__table_make(&s->contests, key, sizeof(htc__kv_contest)) : NULL;
    if (!node)
        return;
    htc__kv_contest *x = htc__node_value(node);
    *x = (htc__kv_contest){ .next = s->contest, .node = node };
    show(s, &x->shown[0], rival, 0);
    htc__kv_list_init(&x->waiting);
    s->contest = x;
    htc__table_link(&s->contests, node);
}

static int keep_waiting(htc_kv_server *s, htc__kv_contest *x, const htc__kv_whose *whose, const htc_kv_request *q)
{
    if (!whose->stamp.alone || x->count >= WAITING_MAX || q->key.len + q->value.len + q->seen.len > REQUEST_SIZE ||
        !htc__kv_backlog_add(s, &x->waiting, whose, q))
        return 0;
    x->count++;
    s->rivals++;
    s->counts.contended++;
    return 1;
}

int htc__kv_contention_before(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q)
{
    htc__kv_contest *x = contest_of(s, q->key);
    return x && x->count > 0 && x->winner == rival_of(whose) && !s->stopping && keep_waiting(s, x, whose, q);
}

int htc__kv_contention_after(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q,
                         const htc_kv_result *result)
{
    htc__kv_contest *x = contest_of(s, q->key);
    uint64_t         rival = rival_of(whose);
    /* Who has come back and lost to the other one goes on: it has waited its turn. But not for ever: who waits may be the only one who can win. */
    shown   *place = x ? shown_of(x, rival) : NULL;
    uint32_t vain = place ? place->vain + 1 : 0;
    if (place)
        place->rival = 0;
    if (place && x->count > 0 && vain >= TURN_MAX)
        place = NULL;
    else if (!place && x && x->count == 0)
        place = free_place(x);
    if (x && result->status == HTC_OK)
        x->winner = rival;
    if (result->status != HTC_MISMATCH || s->touched > htc__kv_stored(s) || s->stopping)
        return 0; /* what waits for a disk anyway is shown to all at once */
    if (x && !place)
        return keep_waiting(s, x, whose, q);
    if (x)
        show(s, place, rival, vain);
    else
        begin(s, q->key, rival);
    return 0;
}

/* Let the next one go. It takes the place if it has lost again, or its outcome is not known yet. */
static void go(htc_kv_server *s, htc__kv_contest *x, shown *place)
{
    htc__kv_backlog *held = htc__kv_list_take(&x->waiting);
    uint64_t      rival = rival_of(&held->whose);
    assert(x->count > 0);
    x->count--;
    assert(s->rivals > 0);
    s->rivals--;
    if (htc__kv_backlog_run(s, held) == HTC_OK)
        x->winner = rival;
    else if (place)
        show(s, place, rival, 0);
}

/* 1: it is over. */
static int go_on(htc_kv_server *s, htc__kv_contest *x)
{
    int    given_up = patience(x) <= s->now || s->stopping;
    shown *place;
    while (x->count > 0 && ((place = free_place(x)) || given_up))
        go(s, x, place);
    return given_up || (x->count == 0 && all_back(x));
}

void htc__kv_contention_tick(htc_kv_server *s)
{
    for (htc__kv_contest **at = &s->contest; *at;) {
        htc__kv_contest *x = *at;
        if (!go_on(s, x)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        htc__table_remove(&s->contests, htc__node_key(x->node));
    }
}

void htc__kv_contention_hurry(htc_kv_server *s, const htc__kv_face *face, uint64_t conn)
{
    for (htc__kv_contest *x = s->contest; x; x = x->next) {
        htc__kv_list all = x->waiting;
        if (x->count == 0)
            continue;
        htc__kv_list_init(&x->waiting);
        for (htc__kv_backlog *held; (held = htc__kv_list_take(&all));) {
            if (held->whose.face != face || held->whose.conn != conn) {
                htc__kv_list_add(&x->waiting, held);
                continue;
            }
            assert(x->count > 0);
            x->count--;
            assert(s->rivals > 0);
            s->rivals--;
            htc__kv_backlog_run(s, held);
        }
    }
}

htc_ns htc__kv_contention_deadline(const htc_kv_server *s)
{
    htc_ns first = HTC_NEVER;
    for (const htc__kv_contest *x = s->rivals ? s->contest : NULL; x; x = x->next)
        if (x->count > 0 && patience(x) < first)
            first = patience(x);
    return first;
}

void htc__kv_contention_free(htc_kv_server *s)
{
    for (htc__kv_contest *x = s->contest; x; x = x->next)
        htc__kv_list_free(s, &x->waiting);
    s->contest = NULL;
    htc__table_free(&s->contests);
}
