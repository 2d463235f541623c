/* Runs of the many-task model that are drawn. */
#ifndef HTC_TESTS_MANYTASK_ANY_H
#define HTC_TESTS_MANYTASK_ANY_H

#include "property.h"

#include "htcsched/registry.h"
#include "htcsched/sim_manytask.h"

#define S HTC_SECOND

static const char *const policies[] = { "random", "one", "two", "log2", "sqrt", "static", "mesh-2d", "mesh-3d", "near" };

static inline const htc_steal_policy *policy(const char *name)
{
    static htc_registry    *r; /* kept until the process ends: thieves refer to what is in it */
    const htc_steal_policy *found = NULL;
    if (!r)
        cr_assert(htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK);
    cr_assert(htc_steal_find(r, name, &found) == HTC_OK);
    return found;
}

static inline htc_sim_manytask_report ran(const htc_sim_manytask_options *o, uint64_t *ended)
{
    htc_sim_manytask_report r = { .size = sizeof r };
    htc_error               e;
    cr_assert(htc_sim_manytask_run(NULL, o, &r, ended, &e) == HTC_OK, "%s", e.text);
    cr_assert(eq(str, r.scale.wrong, ""));
    return r;
}

/* ---- any run ---- */

typedef struct any_run {
    htc_sim_manytask_group   groups[3];
    htc_ns                   lengths[50];
    htc_steal_options        steal;
    htc_sim_manytask_options o;
    uint32_t                 nodes;
} any_run;

static inline void draw_groups(htc_rng *rng, any_run *a)
{
    a->nodes = 0;
    a->o.n_groups = 1 + htc_rng_below(rng, 3);
    for (size_t i = 0; i < a->o.n_groups; i++) {
        a->groups[i] = (htc_sim_manytask_group){ .size = sizeof *a->groups, .nodes = 1 + htc_rng_below(rng, 20), .cores = 1 + (uint32_t)htc_rng_below(rng, 6),
                                                 .speed = htc_rng_below(rng, 2) ? 0 : 0.5 + (double)htc_rng_below(rng, 4) };
        a->nodes += (uint32_t)a->groups[i].nodes;
    }
}

static inline void draw_steal(htc_rng *rng, any_run *a)
{
    a->steal = (htc_steal_options){ .size = sizeof a->steal, .policy = policy(policies[htc_rng_below(rng, sizeof policies / sizeof *policies)]),
                                    .poll_ns = (1 + htc_rng_below(rng, 20)) * HTC_MS, .poll_ns_max = (1 + htc_rng_below(rng, 60)) * S,
                                    .at_ceiling = (uint32_t)htc_rng_below(rng, 2), .amount = (uint32_t)htc_rng_below(rng, 6),
                                    .degree = (uint32_t)htc_rng_below(rng, 6), .neighbours = (uint32_t)(htc_rng_below(rng, 2) * htc_rng_below(rng, 8)) };
}

static inline void draw_run(htc_rng *rng, any_run *a)
{
    *a = (any_run){ .o = { .size = sizeof a->o, .seed = htc_rng_next(rng), .architecture = (uint32_t)htc_rng_below(rng, 7), .layout = (uint32_t)htc_rng_below(rng, 3),
                           .tasks = 1 + htc_rng_below(rng, htc_rng_below(rng, 2) ? 400 : 30), .latency_ns = 1 + htc_rng_below(rng, 3 * HTC_MS),
                           .bytes_per_s = 1000000 + htc_rng_below(rng, 1000000000), .load_bytes = 1 + (uint32_t)htc_rng_below(rng, 500),
                           .task_bytes = 1 + (uint32_t)htc_rng_below(rng, 5000), .each_bytes = (uint32_t)(htc_rng_below(rng, 2) * htc_rng_below(rng, 5000)),
                           .in_turn = (uint32_t)htc_rng_below(rng, 2), .dispatch_ns = htc_rng_below(rng, 3) ? 1 + htc_rng_below(rng, 5 * HTC_MS) : HTC_NEVER,
                           .task_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 5 * HTC_MS), .give_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 5 * HTC_MS),
                           .nudge_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 30 * HTC_MS), .fanout = 2 + (uint32_t)htc_rng_below(rng, 5), .tick_ns = HTC_US } };
    draw_groups(rng, a);
    draw_steal(rng, a);
    a->o.groups = a->groups;
    a->o.steal = &a->steal;
    a->o.root = htc_rng_below(rng, a->nodes);
    a->o.hand_ns = htc_rng_below(rng, 3) ? 1 + htc_rng_below(rng, 2 * HTC_MS) : HTC_NEVER;
    a->o.store_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 5 * HTC_MS);
    a->o.schedulers = 1 + (uint32_t)htc_rng_below(rng, 5);
    a->o.probes = 1 + (uint32_t)htc_rng_below(rng, 4);
    a->o.placed = 1 + (uint32_t)htc_rng_below(rng, 20);
    a->o.servers = 1 + (uint32_t)htc_rng_below(rng, a->nodes);
    a->o.length = (htc_scale_law){ (uint32_t)htc_rng_below(rng, 4), 0, (double)htc_rng_below(rng, 4 * S), 0 };
    a->o.length.spread = a->o.length.kind % 2 ? 0.7 : 0;
    if (htc_rng_below(rng, 3) == 0)
        a->o.batch = 1 + htc_rng_below(rng, 100);
    if (a->o.batch && htc_rng_below(rng, 2))
        a->o.below = 1 + htc_rng_below(rng, 50);
    if (htc_rng_below(rng, 3) == 0 && a->o.architecture < HTC_SIM_MANYTASK_SPARROW)
        a->o.shape = (htc_steal_shape){ 8, 8, 0, (uint32_t)htc_rng_below(rng, 2) };
    if (htc_rng_below(rng, 4) == 0) {
        for (int i = 0; i < 50; i++)
            a->lengths[i] = htc_rng_below(rng, 2 * S);
        a->o.lengths = a->lengths;
        a->o.n_lengths = 1 + htc_rng_below(rng, 50);
    }
}

#endif
