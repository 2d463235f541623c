/* Rivals: clients that change one key by compare-and-swap, all at the same time.
 *
 * Answered at once, n of them that have lost are shown the same value, try with it together, and n - 1 lose again: of n requests one
 * changes something, whatever the server costs. So they are let go one by one: the first that loses is shown what is there, and
 * while it is thought to be on its way back with that, the others that lose wait, in the order they came. When it has come, or has not for
 * as long as RIVAL_WAIT, the next is let go.
 *
 * Whoever has changed the key knows what is there without being shown it, and would win again and again: while others wait, it waits
 * behind them.
 *
 * To wait is to be executed later, nothing else: a request that is not answered yet may take place at any time until it is, and what it
 * has lost to is not what it is answered. Who says that it asks for nothing else meanwhile (htc__kv_stamp.alone) may be made to wait. If one that
 * was let go does not come back, its rivals do not wait for one another any more: all are answered. */
#include "core/util.h"
#include "kvs/server.h"

/* A client of this machine or its neighbour is back long before; more is not lost to one that gives up. */
#define RIVAL_WAIT   (200 * HTC_US)
#define KEYS_MAX     256
#define WAITING_MAX  256 /* of one key */
#define REQUEST_SIZE ((size_t)8 << 10)

struct htc__kv_contest {
    struct htc__kv_contest *next;
    htc__kv_list            waiting;
    uint32_t                count;
    uint64_t                winner; /* who has changed it last */
    uint64_t                shown;  /* who is on its way back with what was there; 0: nobody */
    htc_ns                  until;  /* not longer than this */
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

/* Nothing is lost without one. */
static void begin(htc_kv_server *s, htc_bytes key, uint64_t shown)
{
    htc__node *node =
        s->contests.count < KEYS_MAX ? htc__table_make(&s->contests, key, sizeof(htc__kv_contest)) : NULL;
    if (!node)
        return;
    htc__kv_contest *x = htc__node_value(node);
    *x = (htc__kv_contest){ .next = s->contest, .shown = shown, .until = s->now + RIVAL_WAIT, .node = node };
    htc__kv_list_init(&x->waiting);
    s->contest = x;
    htc__table_link(&s->contests, node);
}

static int keep_waiting(htc_kv_server *s, htc__kv_contest *x, const htc__kv_whose *whose, const htc_kv_request *q)
{
    if (!whose->stamp.alone || x->count >= WAITING_MAX || q->key.len + q->value.len + q->seen.len > REQUEST_SIZE ||
        !htc__kv_held_add(s, &x->waiting, whose, q))
        return 0;
    x->count++;
    s->rivals++;
    s->counts.rivals++;
    return 1;
}

static void show(const htc_kv_server *s, htc__kv_contest *x, uint64_t rival)
{
    x->shown = rival;
    x->until = s->now + RIVAL_WAIT;
}

int htc__kv_rivals_before(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q)
{
    htc__kv_contest *x = contest_of(s, q->key);
    return x && x->count > 0 && x->winner == rival_of(whose) && !s->stopping && keep_waiting(s, x, whose, q);
}

int htc__kv_rivals_after(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q,
                         const htc_kv_result *result)
{
    htc__kv_contest *x = contest_of(s, q->key);
    uint64_t         rival = rival_of(whose);
    if (x && x->shown == rival)
        x->shown = 0;
    if (x && result->status == HTC_OK)
        x->winner = rival;
    if (result->status != HTC_MISMATCH || s->touched > htc__kv_stored(s) || s->stopping)
        return 0; /* what waits for a disk anyway is shown to all at once */
    if (x && (x->shown || x->count > 0))
        return keep_waiting(s, x, whose, q);
    if (x)
        show(s, x, rival);
    else
        begin(s, q->key, rival);
    return 0;
}

/* Let the next one go: 1 if it has lost again, or its outcome is not known yet. */
static int let_go(htc_kv_server *s, htc__kv_contest *x)
{
    htc__kv_held *held = htc__kv_list_take(&x->waiting);
    uint64_t      rival = rival_of(&held->whose);
    x->count--;
    s->rivals--;
    if (htc__kv_held_run(s, held) == HTC_OK) {
        x->winner = rival;
        return 0;
    }
    show(s, x, rival);
    return 1;
}

/* 1: it is over. */
static int go_on(htc_kv_server *s, htc__kv_contest *x)
{
    int given_up = (x->shown && x->until <= s->now) || s->stopping;
    if (x->shown && !given_up)
        return 0;
    x->shown = 0;
    while (x->count > 0)
        if (let_go(s, x) && !given_up)
            return 0;
    return 1;
}

void htc__kv_rivals_tick(htc_kv_server *s)
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

void htc__kv_rivals_hurry(htc_kv_server *s, const htc__kv_face *face, uint64_t conn)
{
    for (htc__kv_contest *x = s->contest; x; x = x->next) {
        htc__kv_list all = x->waiting;
        if (x->count == 0)
            continue;
        htc__kv_list_init(&x->waiting);
        for (htc__kv_held *held; (held = htc__kv_list_take(&all));) {
            if (held->whose.face != face || held->whose.conn != conn) {
                htc__kv_list_add(&x->waiting, held);
                continue;
            }
            x->count--;
            s->rivals--;
            htc__kv_held_run(s, held);
        }
    }
}

htc_ns htc__kv_rivals_deadline(const htc_kv_server *s)
{
    htc_ns first = HTC_NEVER;
    for (const htc__kv_contest *x = s->rivals ? s->contest : NULL; x; x = x->next)
        if (x->count > 0 && x->until < first)
            first = x->until;
    return first;
}

void htc__kv_rivals_free(htc_kv_server *s)
{
    for (htc__kv_contest *x = s->contest; x; x = x->next)
        htc__kv_list_free(s, &x->waiting);
    s->contest = NULL;
    htc__table_free(&s->contests);
}
