/* Many tasks on many nodes: a checkpoint of one grid. */
#include "core/util.h"
#include "sim/models/manytask.h"

/* There is room for so many spans, and for twice what the tape has had, whatever it says. */
static htc_status move_spans(many *m, const htc_scale_tape *tape, uint32_t room)
{
    uint32_t   wanted = m->now.spans, used = m->now.spans_used, done = 0;
    htc_status status = used > wanted ? HTC_ECORRUPT : HTC_OK;
    m->now.spans = room;
    m->now.spans_used = 0;
    for (uint32_t step; done < used && status == HTC_OK; done += step) {
        if (done == room) {
            uint64_t   more = 2 * (uint64_t)room < wanted ? 2 * (uint64_t)room : wanted;
            many_span *grown = more > room ? htc__resize_raw(&m->env, m->span, room * sizeof *grown, more * sizeof *grown) : NULL;
            if (!grown)
                return HTC_ENOMEM;
            m->span = grown;
            m->now.spans = room = (uint32_t)more;
        }
        step = used < room ? used - done : room - done;
        status = tape->move(tape->ctx, m->span + done, step * sizeof *m->span);
    }
    m->now.spans_used = done;
    return status;
}

static htc_status move_queued(many *m, const htc_scale_tape *tape, uint32_t room)
{
    htc_status status = move_spans(m, tape, room);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, m->node, m->nodes * sizeof *m->node);
    return status == HTC_OK ? tape->move(tape->ctx, m->waiting, m->nodes * sizeof *m->waiting) : status;
}

/* Where a dispatcher stands, and its children, is as the options say. */
static htc_status move_chiefs(many *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    int        sparrow = m->options.architecture == HTC_SIM_MANYTASK_SPARROW;
    for (uint64_t i = 0; i < m->chiefs && status == HTC_OK; i++) {
        many_chief *c = &m->chief[i], is = *c;
        status = tape->move(tape->ctx, c, sizeof *c);
        c->cores = is.cores;
        c->ring = is.ring;
        c->up = is.up;
        c->first = is.first;
        c->n = is.n;
        c->lowest = is.lowest;
        if (sparrow)
            c->head = c->asked = 0;
    }
    return status;
}

static htc_status move_seated(many *m, const htc_scale_tape *tape)
{
    htc_status status = tape->move(tape->ctx, m->seat, m->nodes * sizeof *m->seat);
    if (status == HTC_OK)
        status = move_chiefs(m, tape);
    return status == HTC_OK ? tape->move(tape->ctx, m->busy_list, (htc__many_cores_max(m) + (size_t)1) * sizeof *m->busy_list) : status;
}

htc_status htc__many_move_grid(many *m, const htc_scale_tape *tape)
{
    struct many_state state = m->now;
    htc_status        status = tape->move(tape->ctx, &state, sizeof state);
    if (status != HTC_OK)
        return status;
    uint32_t room = m->now.spans;
    m->now = state;
    status = m->node ? move_queued(m, tape, room) : move_seated(m, tape);
    if (status == HTC_OK && m->node && m->chief)
        status = move_chiefs(m, tape);
    if (status == HTC_OK && m->ring)
        status = tape->move(tape->ctx, m->ring, m->ring_size * sizeof *m->ring);
    if (status == HTC_OK && m->until)
        status = tape->move(tape->ctx, m->until, m->servers * sizeof *m->until);
    if (status == HTC_OK && m->batches)
        status = tape->move(tape->ctx, m->batch_at, m->batches * sizeof *m->batch_at);
    return status;
}
