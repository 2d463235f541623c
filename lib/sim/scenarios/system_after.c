/* Jobs that wait for others: what is promised of them, judged by the records that are durable. */
#include <string.h>

#include "sim/scenarios/system_private.h"

static const char *const rules[] = { "ok", "any", "failed" };

void htc__sys_job_stored(sys *s, const sys_job_state *state)
{
    sys_job *j = s->jobs;
    while (j && (strcmp(j->name, state->name) != 0 || strcmp(j->user, state->user) != 0))
        j = j->next;
    if (!j)
        return;
    j->stored_id = state->id;
    if (j->stored_end == SYS_OPEN)
        j->stored_end = state->end;
}

static int is_met(sys_rule rule, sys_end end)
{
    if (end == SYS_OPEN || rule == SYS_AFTER_ANY)
        return end != SYS_OPEN;
    return (rule == SYS_AFTER_OK) == (end == SYS_OK);
}

int htc__sys_never_runs(const sys_job *j)
{
    for (uint32_t i = 0; i < j->n_after; i++)
        if (j->after[i].parent->stored_end != SYS_OPEN && !is_met(j->after[i].rule, j->after[i].parent->stored_end))
            return 1;
    return 0;
}

void htc__sys_check_begin(sys *s, const htc_attempt *a)
{
    const sys_job *j = s->jobs;
    while (j && j->stored_id != a->job)
        j = j->next;
    for (uint32_t i = 0; j && i < j->n_after; i++)
        if (!is_met(j->after[i].rule, j->after[i].parent->stored_end))
            htc__sys_fail(s, "%llu.%llu begins, and job %llu has not ended as it should (%s)",
                          (unsigned long long)a->job, (unsigned long long)a->task,
                          (unsigned long long)j->after[i].parent->stored_id, rules[j->after[i].rule]);
}

json_t *htc__sys_after_json(const sys_job *j)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < j->n_after; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:s}", "id", (json_int_t)j->after[i].parent->id, "when", rules[j->after[i].rule]));
    return list;
}

/* Of two it waits for one; of those most often that it ends well. */
void htc__sys_draw_after(sys *s, sys_job *j, htc_rng *rng)
{
    static const sys_rule drawn[] = { SYS_AFTER_OK, SYS_AFTER_OK, SYS_AFTER_ANY, SYS_AFTER_FAILED };
    for (sys_job *parent = s->jobs; parent && j->n_after < SYS_AFTER_MAX; parent = parent->next) {
        if (strcmp(parent->user, j->user) != 0 || !parent->acknowledged || parent->removing || htc_rng_below(rng, 2))
            continue;
        j->after[j->n_after].parent = parent;
        j->after[j->n_after++].rule = drawn[htc_rng_below(rng, sizeof drawn / sizeof *drawn)];
    }
}
