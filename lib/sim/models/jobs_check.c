/* Partition controllers: what a checkpoint says can be. Each slot that is used has its job, its one event, and lists of nodes that nobody else has. */
#include "sim/models/checked.h"
#include "sim/models/jobs.h"

typedef struct audit {
    const jobs    *m;
    const uint8_t *events;
    checked_lists  slots, holdings;
    uint64_t       used, alive; /* slots; of these, whose jobs have not ended */
} audit;

/* ---- slots ---- */

static int is_asking(uint32_t phase)
{
    return phase >= JOBS_LOOKS && phase <= JOBS_INSERTED;
}

/* What a phase needs is there. */
static int phase_can_be(const jobs *m, const jobs_slot *s)
{
    int swaps = s->phase >= JOBS_LOOKS && s->phase <= JOBS_SWAPPED, over = s->phase == JOBS_RAN || s->phase == JOBS_COLLECTED;
    if (s->phase == JOBS_FREE || s->phase > JOBS_COLLECTED || s->gives > 1 || s->swapped > 1 || (m->fit && s->phase != JOBS_PARSED && !over))
        return 0;
    if (is_asking(s->phase) && s->target >= m->parts)
        return 0;
    if (s->phase == JOBS_INSERTS || s->phase == JOBS_INSERTED)
        return !s->request && s->want >= 1 && s->want <= s->holdings + 2;
    if (swaps && s->gives)
        return s->holding != JOBS_NONE;
    return swaps || s->phase == JOBS_WAITED ? s->request != NULL : !s->request;
}

static int holdings_can_be(audit *a, const jobs_slot *s)
{
    const jobs *m = a->m;
    uint64_t    n = 0;
    if (!htc__checked_list(&a->holdings, s->holding, NULL, &n) || n != s->holdings)
        return 0;
    for (uint32_t h = s->holding; h != JOBS_NONE; h = m->holding[h].next)
        if (m->holding[h].partition >= m->parts || m->holding[h].nodes > m->usable)
            return 0;
    return 1;
}

/* With a central controller a job that waits for nodes, or is dealt with, has no event. */
static int slot_can_be(audit *a, uint32_t i)
{
    const jobs      *m = a->m;
    const jobs_slot *s = &m->slot[i];
    int              waits = m->fit && s->phase == JOBS_PARSED;
    if (s->job >= m->jobs || s->need != htc__jobs_need(m, s->job) || !phase_can_be(m, s) || !holdings_can_be(a, s) || (a->events[i] != 1 && !(waits && a->events[i] == 0)))
        return 0;
    a->used++;
    a->alive += s->phase != JOBS_COLLECTED && !(s->gives && !s->request);
    return 1;
}

static int slots_can_be(audit *a)
{
    const jobs *m = a->m;
    for (uint32_t s = m->free_slot; s != JOBS_NONE; s = m->slot[s].holding)
        if (!htc__checked_take(&a->slots, s) || m->slot[s].phase != JOBS_FREE || a->events[s])
            return 0;
    for (uint32_t s = 0; s < m->slots; s++)
        if (!htc__checked_was_taken(&a->slots, s) && !slot_can_be(a, s))
            return 0;
    for (uint32_t s = m->slots; s < m->slots_max; s++)
        if (a->events[s])
            return 0;
    if (!htc__checked_list(&a->holdings, m->free_holding, NULL, NULL))
        return 0;
    return m->ended + a->used == m->now.submitted && m->left == m->jobs - m->now.submitted + a->alive;
}

/* ---- controllers and the monitor ---- */

/* Jobs that each has begun with are those before its next one. */
static int next_can_be(const jobs *m)
{
    uint64_t begun = 0;
    for (uint32_t c = 0; c < m->parts && !m->after; c++) {
        uint64_t next = m->part[c].next;
        if (next < c || (next - c) % m->parts || next > m->jobs + m->parts)
            return 0;
        begun += (next - c) / m->parts;
    }
    for (size_t i = 0; m->after && i < m->options.n_list; i++) {
        htc_sim_jobs_job j = { 0 };
        (void)htc__options_at(&j, sizeof j, m->options.list, i, sizeof j);
        begun += i < m->part[j.controller].next;
    }
    return begun == m->now.submitted;
}

static int controllers_can_be(const audit *a)
{
    const jobs    *m = a->m;
    const uint8_t *of = a->events + m->slots_max;
    for (uint32_t c = 0; c < m->parts; c++) {
        htc_record_summary s;
        if (of[c] > (m->monitor != NULL) || m->part[c].pulls > 2 || m->part[c].free > m->usable)
            return 0;
        if (m->options.records && !m->fit && (htc_record_count(&m->env, (htc_bytes){ m->part[c].record, m->part[c].len }, &s) != HTC_OK || s.free != m->part[c].free))
            return 0;
    }
    if (!next_can_be(m))
        return 0;
    if (m->fit) /* it deals with a job, or with none */
        return of[m->parts] == (m->serving != JOBS_NONE) &&
               (m->serving == JOBS_NONE || (m->serving < m->slots && m->slot[m->serving].phase == JOBS_PARSED && !a->events[m->serving]));
    return of[m->parts] <= (m->monitor != NULL) && m->looks <= 2 && m->look_target < m->parts && m->serving == JOBS_NONE;
}

/* A text that can be shown. */
static int text_can_be(const char *text, size_t room)
{
    size_t n = 0;
    for (; n < room && text[n]; n++)
        if (text[n] < ' ' || text[n] > '~')
            return 0;
    return n < room;
}

htc_status htc__jobs_check(const jobs *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events };
    htc_status status = htc__checked_open(&a.slots, &m->env, m->slot, sizeof *m->slot, m->slots);
    if (status == HTC_OK)
        status = htc__checked_open(&a.holdings, &m->env, &m->holding->next, sizeof *m->holding, m->holdings);
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, text_can_be(m->wrong, sizeof m->wrong), "texts");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, slots_can_be(&a), "jobs");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, controllers_can_be(&a), "controllers");
    htc__checked_close(&a.slots);
    htc__checked_close(&a.holdings);
    return status;
}
