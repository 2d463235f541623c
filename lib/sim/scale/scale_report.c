/* What became of a scale run: its report with what is not conserved, and its checkpoint. */
#include <stdio.h>
#include <string.h>

#include "sim/scale/scale_private.h"

#define FORM UINT64_C(0x31656c6163737468) /* of a checkpoint; in another order of bytes it is another number */

/* ---- a checkpoint ---- */

htc_status htc_scale_move(htc_scale *s, const htc_scale_tape *tape)
{
    htc_scale_tape t = { .size = sizeof t };
    htc_status     status = s && tape ? htc__options_copy(&t, sizeof t, tape, tape->size, offsetof(htc_scale_tape, ctx)) : HTC_EINVAL;
    if (status != HTC_OK || !t.move)
        return status != HTC_OK ? status : HTC_EINVAL;
    run                     *r = s->run;
    const htc_scale_options *o = &r->options;
    uint64_t                 head[] = { FORM, sizeof *s, sizeof *s->queue, o->seed, o->ids, o->part_ids, o->events_max, o->cores, o->tick_ns, o->window_ns };
    uint64_t                 found[sizeof head / sizeof *head];
    memcpy(found, head, sizeof head);
    status = t.move(t.ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    for (uint32_t i = 0; i < r->parts && status == HTC_OK; i++) { /* between two windows nothing waits in an outbox */
        status = t.move(t.ctx, &r->part[i].now, offsetof(struct htc_scale, apart) - offsetof(struct htc_scale, now));
        if (status == HTC_OK && r->part[i].now > r->part[i].tick_max)
            status = HTC_ECORRUPT;
        if (status == HTC_OK)
            status = htc__ladder_move(r->part[i].queue, &t, r->part[i].now, r->part[i].first_id, r->part[i].ids);
    }
    return status;
}

/* ---- the report ---- */

static double seconds(const run *s, uint64_t ticks)
{
    return (double)ticks * (double)s->options.tick_ns / 1e9;
}

static void check(const run *s, const ledger *l, htc_scale_report *r)
{
    uint64_t span = l->ended ? l->last_end - l->first_submit : 0;
    if (l->ended > l->started || l->started > l->submitted)
        snprintf(r->wrong, sizeof r->wrong, "%llu tasks were submitted, %llu started and %llu ended", (unsigned long long)l->submitted,
                 (unsigned long long)l->started, (unsigned long long)l->ended);
    else if (l->received + l->lost > l->sent)
        snprintf(r->wrong, sizeof r->wrong, "%llu messages were sent, %llu received and %llu lost", (unsigned long long)l->sent,
                 (unsigned long long)l->received, (unsigned long long)l->lost);
    else if (!r->finished)
        return;
    else if (l->ended != l->submitted)
        snprintf(r->wrong, sizeof r->wrong, "%llu tasks were submitted and %llu ended", (unsigned long long)l->submitted, (unsigned long long)l->ended);
    else if (l->received + l->lost != l->sent)
        snprintf(r->wrong, sizeof r->wrong, "of %llu messages %llu were received and %llu lost", (unsigned long long)l->sent,
                 (unsigned long long)l->received, (unsigned long long)l->lost);
    else if (l->ends - l->begins != l->work)
        snprintf(r->wrong, sizeof r->wrong, "cores were busy for %llu ticks, and the tasks have %llu", (unsigned long long)(l->ends - l->begins),
                 (unsigned long long)l->work);
    else if (span < l->longest)
        snprintf(r->wrong, sizeof r->wrong, "a makespan of %llu ticks, where one task has %llu", (unsigned long long)span, (unsigned long long)l->longest);
    else if (!l->overflow && s->options.cores && span < l->work / s->options.cores)
        snprintf(r->wrong, sizeof r->wrong, "a makespan of %llu ticks, where %llu cores have %llu ticks of work", (unsigned long long)span,
                 (unsigned long long)s->options.cores, (unsigned long long)l->work);
}

htc_status htc_scale_report_get(const htc_scale *scale, htc_scale_report *report)
{
    if (!scale || !report)
        return HTC_EINVAL;
    const run       *s = scale->run;
    ledger           l = htc__scale_ledger(s);
    uint64_t         running = l.started - l.ended, now = htc__scale_now(s), hash = 0;
    for (uint32_t i = 0; i < s->parts; i++)
        hash += s->part[i].hash;
    htc_scale_report r = { .size = sizeof r,
                           .finished = !htc__scale_pending(s) && htc__scale_status(s) == HTC_OK,
                           .memory = htc__scale_memory(&s->options, s->parts),
                           .events = htc__scale_events(s),
                           .events_here = htc__scale_events(s) - s->events_before,
                           .ended_here = l.ended - s->done_before,
                           .submitted = l.submitted,
                           .ended = l.ended,
                           .sent = l.sent,
                           .received = l.received,
                           .lost = l.lost,
                           .hash = htc__scale_mix(hash + htc__scale_events(s)),
                           .span = (htc_ns)now * s->options.tick_ns,
                           .longest = (htc_ns)l.longest * s->options.tick_ns,
                           .work_s = seconds(s, l.work),
                           /* those that run have been busy until now, but for their delay */
                           .busy_s = seconds(s, l.ends + running * now - l.begins) };
    r.makespan = l.ended ? (l.last_end - l.first_submit) * s->options.tick_ns : 0;
    r.bound_s = s->options.cores ? r.work_s / (double)s->options.cores : 0;
    r.bound_s = r.bound_s > seconds(s, l.longest) ? r.bound_s : seconds(s, l.longest);
    check(s, &l, &r);
    return htc__options_give(report, &r, sizeof r, offsetof(htc_scale_report, wrong));
}
