/* The model of this library's own store: what a checkpoint says can be. Every item and every frame that was ever used is in one list, and of each frame on its way, each
 * sync and each turn there is one event. */
#include "sim/models/checked.h"
#include "sim/models/kvs_live.h"

typedef struct audit {
    const live    *m;
    const uint8_t *events;
    checked_lists  items, frames, ready, waiting;
    uint32_t       processes;
} audit;

/* ---- items ---- */

/* For members: requests of programs, and rounds among themselves; for programs: what begins, and answers. */
static int item_can_be(const audit *a, const live_item *i, uint32_t to)
{
    const live *m = a->m;
    if (i->op >= m->options.clients * m->depth)
        return 0;
    if (to >= m->members)
        return i->kind == LIVE_ANSWER || i->kind == LIVE_BEGIN;
    return i->kind == LIVE_ASK ? i->from < a->processes : i->kind >= LIVE_READ && i->kind <= LIVE_REPLY && i->from < m->members;
}

static int list_can_be(audit *a, const live_list *l, uint32_t to, int durable)
{
    const live *m = a->m;
    uint32_t    last = LIVE_NONE;
    if (!htc__checked_list(&a->items, l->first, &last, NULL) || (last != LIVE_NONE && last != l->last) || (durable && last != LIVE_NONE && to >= m->members))
        return 0;
    for (uint32_t i = l->first; i != LIVE_NONE; i = m->item[i].next)
        if (!item_can_be(a, &m->item[i], to) || (durable && m->item[i].kind != LIVE_PREPARE && m->item[i].kind != LIVE_ACCEPT))
            return 0;
    return 1;
}

/* ---- frames ---- */

static int frames_can_be(audit *a)
{
    const live *m = a->m;
    if (!htc__checked_list(&a->frames, m->now.free_frame, NULL, NULL))
        return 0;
    for (uint32_t f = 0; f < m->frames_max; f++) {
        const live_frame *frame = &m->frame[f];
        int               sent = f < m->now.frames && !htc__checked_was_taken(&a->frames, f);
        if (a->events[f] != sent || (sent && (frame->to >= a->processes || frame->from >= a->processes || !list_can_be(a, &frame->items, frame->to, 0))))
            return 0;
    }
    return 1;
}

/* ---- processes ---- */

static int process_can_be(audit *a, uint32_t p)
{
    const live         *m = a->m;
    const live_process *v = &m->process[p];
    int                 has_core = v->state == LIVE_BEGINS || v->state == LIVE_RUNS, syncs = p < m->members ? a->events[m->first_sync + p] : 0;
    uint8_t             events = a->events[m->first_process + p];
    if (v->state > LIVE_SYNCS || (v->state == LIVE_SYNCS && !syncs) || v->stored > 1 || v->in_sync != syncs + v->stored || v->in_sync > 1 || v->awake > 1 || v->out != LIVE_NONE)
        return 0;
    if ((v->state == LIVE_IDLE ? events > 1 : events != has_core) || (v->state == LIVE_READY) != htc__checked_was_taken(&a->ready, p)) /* an idle one may wait to begin */
        return 0;
    return list_can_be(a, &v->inbox, p, 0) && list_can_be(a, &v->staged, p, 1) && list_can_be(a, &v->syncing, p, 1);
}

static int processes_can_be(audit *a)
{
    const live *m = a->m;
    uint32_t    running = 0, last = LIVE_NONE;
    if (!htc__checked_list(&a->ready, m->now.ready.first, &last, NULL) || (last != LIVE_NONE && last != m->now.ready.last))
        return 0;
    for (uint32_t p = 0; p < a->processes; p++) {
        if (!process_can_be(a, p))
            return 0;
        running += m->process[p].state == LIVE_BEGINS || m->process[p].state == LIVE_RUNS;
    }
    return running == m->now.running;
}

/* ---- requests ---- */

static int key_can_be(audit *a, uint32_t key)
{
    const live     *m = a->m;
    const live_key *k = &m->key[key];
    uint32_t        last = LIVE_NONE;
    uint64_t        n = 0;
    if (!htc__checked_list(&a->waiting, k->first, &last, &n) || (n && (last != k->last || k->busy == LIVE_NONE)) || k->joined > n)
        return 0;
    if (k->busy != LIVE_NONE && (!htc__checked_take(&a->waiting, k->busy) || m->op[k->busy].key != key))
        return 0;
    for (uint32_t o = k->first; o != LIVE_NONE; o = m->op[o].waits)
        if (m->op[o].key != key)
            return 0;
    return 1;
}

static int requests_can_be(audit *a)
{
    const live *m = a->m;
    uint64_t    clients = 0;
    for (uint64_t o = 0; o < m->options.clients * m->depth; o++) {
        const live_op *op = &m->op[o];
        if ((m->options.keys ? op->key >= m->options.keys : op->key && op->key != LIVE_NONE) || op->at >= m->members || op->put > 1 || op->phase > LIVE_ACCEPT)
            return 0;
    }
    for (uint64_t c = 0; c < m->options.clients; c++) {
        const live_client *client = &m->client[c];
        if (client->begun > m->options.requests || client->done > client->begun)
            return 0;
        clients += client->done < m->options.requests;
    }
    for (uint64_t k = 0; k < m->options.keys; k++)
        if (!key_can_be(a, (uint32_t)k))
            return 0;
    return clients == m->now.clients;
}

htc_status htc__live_check(const live *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events, .processes = m->members + m->programs };
    htc_status status = htc__checked_open(&a.items, &m->env, &m->item->next, sizeof *m->item, m->now.items);
    if (status == HTC_OK)
        status = htc__checked_open(&a.frames, &m->env, &m->frame->next, sizeof *m->frame, m->now.frames);
    if (status == HTC_OK)
        status = htc__checked_open(&a.ready, &m->env, &m->process->next, sizeof *m->process, a.processes);
    if (status == HTC_OK)
        status = htc__checked_open(&a.waiting, &m->env, &m->op->waits, sizeof *m->op, m->options.clients * m->depth);
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, (htc__checked_list(&a.items, m->now.free_item, NULL, NULL) && frames_can_be(&a)), "frames");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, processes_can_be(&a), "processes");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, requests_can_be(&a), "requests");
    for (uint64_t o = 0; status == HTC_OK && o < m->options.clients * m->depth; o++)
        m->op[o].listed = m->options.keys && htc__checked_was_taken(&a.waiting, (uint32_t)o);
    htc__checked_close(&a.items);
    htc__checked_close(&a.frames);
    htc__checked_close(&a.ready);
    htc__checked_close(&a.waiting);
    return status;
}
