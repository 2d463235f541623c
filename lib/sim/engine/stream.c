/* Connections of bytes. What is sent arrives in pieces that are cut anywhere and joined anyhow: each piece is an event that says
 * how far the bytes have come, and takes its own time; an event that overtakes others brings what is before it along. Nothing is
 * lost but with the connection, which may break between any two bytes. */
#include <assert.h>

#include "sim/engine/sim_private.h"

#define PIECES_MAX 8 /* or single bytes, one time in four */
#define SINGLES    24

/* All up to this many bytes ever sent to this end will have arrived, after the time that the last len of them take. */
static void piece(sim_conn *c, int to, uint64_t up_to, size_t len)
{
    sim_end   *end = &c->end[to];
    htc_sim   *sim = end->node->sim;
    sim_event *e = htc__sim_event_to(c, to, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES });
    if (!e)
        return;
    htc_ns at = htc__sim_arrival(sim, end->link, len);
    e->by_link = 1;
    e->offset = up_to;
    end->last_arrival = at > end->last_arrival ? at : end->last_arrival; /* what ends the connection comes behind it */
    htc__sim_push(sim, e, at);
}

static void cut(sim_conn *c, int to, uint64_t first, uint64_t end)
{
    sim_link *link = c->end[to].link;
    htc_rng  *rng = &link->rng;
    int       singles = htc_rng_below(rng, 4) == 0;
    uint64_t  left = singles ? SINGLES : 1 + htc_rng_below(rng, PIECES_MAX);
    for (uint64_t at = first; at<end; left -= left> 0) {
        uint64_t len = left <= 1 ? end - at : singles ? 1 : 1 + htc_rng_below(rng, end - at);
        at += len;
        piece(c, to, at, (size_t)len);
    }
}

void htc__sim_send_bytes(htc_sim_node *node, const htc_effect *effect)
{
    int       side;
    sim_conn *c = htc__sim_conn_of(node, effect->peer, &side);
    if (!c || !c->stream || c->end[!side].pipe.ended)
        return;
    htc_sim           *sim = node->sim;
    sim_end           *end = &c->end[!side];
    sim_pipe          *p = &end->pipe;
    const htc_sim_net *net = htc__sim_link_net(sim, end->link);
    uint64_t           first = p->delivered + p->bytes.len, last = first + effect->body.len;
    int                breaks = htc__sim_link_chance(sim, end->link, net->break_ppm);
    if (breaks)
        last = first + htc_rng_below(&end->link->rng, effect->body.len + 1);
    htc_put_raw(&p->bytes, (htc_bytes){ effect->body.data, (size_t)(last - first) });
    if (p->bytes.status != HTC_OK) {
        htc__sim_refused(sim);
        return;
    }
    if (effect->tag) {
        p->tag = effect->tag;
        p->tag_at = last;
    }
    if (first < last && htc__sim_link_chance(sim, end->link, net->cut_ppm))
        cut(c, !side, first, last);
    else
        piece(c, !side, last, (size_t)(last - first));
    if (breaks)
        htc__sim_sever(c, HTC_ECLOSED, -1);
}

/* What was asked for with a tag has been taken by the other side. */
static void tell_sent(sim_conn *c, int from)
{
    sim_pipe *p = &c->end[!from].pipe;
    if (!p->tag || p->delivered < p->tag_at)
        return;
    sim_event *e = htc__sim_event_to(c, from, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_SENT, .tag = p->tag });
    p->tag = 0;
    if (e)
        htc__sim_push(c->end[from].node->sim, e, c->end[from].node->sim->now);
}

sim_event *htc__sim_bytes(htc_sim *sim, const sim_event *e)
{
    sim_conn *c = e->conn;
    sim_end  *end = &c->end[e->to];
    sim_pipe *p = &end->pipe;
    (void)sim;
    p->arrived = e->offset > p->arrived ? e->offset : p->arrived;
    if (p->held || c->cut || end->open != 1)
        return NULL;
    assert(p->delivered <= p->arrived && p->arrived <= p->delivered + p->bytes.len);
    size_t n = (size_t)(p->arrived - p->delivered);
    /* The end comes once, behind all bytes: an empty piece. */
    int        over = p->ended == 1 && p->bytes.len == n;
    sim_event *all = NULL;
    if (n || over)
        all = htc__sim_event_to(c, (int)e->to, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES, .body = { p->bytes.data, n } });
    if (n) {
        htc_buf_consume(&p->bytes, n);
        p->delivered += n;
        if (over) /* after these */
            piece(c, (int)e->to, p->delivered, 0);
    } else if (over) {
        p->ended = 2;
    }
    tell_sent(c, !(int)e->to);
    return all;
}

void htc__sim_hold(htc_sim_node *node, const htc_effect *effect)
{
    int       side;
    sim_conn *c = htc__sim_conn_of(node, effect->peer, &side);
    if (!c || !c->stream)
        return;
    sim_pipe *p = &c->end[side].pipe;
    p->held = effect->op != 0;
    sim_event *e = p->held ? NULL : htc__sim_event_to(c, side, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES });
    if (!e)
        return;
    e->offset = p->arrived;
    htc__sim_push(node->sim, e, node->sim->now);
}

/* One side has said all: the other reads up to the end and closes as well. Who closes second ends the connection. */
void htc__sim_stream_close(sim_conn *c, htc_status status, int side)
{
    sim_pipe *there = &c->end[!side].pipe;
    if (c->broken || there->ended)
        return;
    there->ended = 1;
    if (c->end[side].pipe.ended) {
        htc__sim_sever(c, status, side);
        return;
    }
    piece(c, !side, there->delivered + there->bytes.len, 0);
}
