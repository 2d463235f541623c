/* Random flows. */
#include <stdio.h>

#include "sim/scenarios/flow_audit.h"

#define PARENTS_MAX 8
#define LEVEL       20
#define ADDERS      1500
#define FILE_NAME   32

typedef struct task_files {
    char          in_name[PARENTS_MAX][FILE_NAME], out_name[2][FILE_NAME];
    htc_flow_file in[PARENTS_MAX], out[2];
} task_files;

static uint32_t draw_parents(htc_rng *rng, uint32_t id, uint64_t shape, uint32_t *parents)
{
    uint32_t n = 0;
    switch (shape) {
    case 0: /* fan-out */
        parents[n++] = (id - 1) / 4;
        break;
    case 1: /* chains */
        if (id % 50)
            parents[n++] = id - 1;
        break;
    case 2: /* levels, each task of four of the level before */
        for (; n < 4 && id >= LEVEL; n++)
            parents[n] = id / LEVEL * LEVEL - LEVEL + (id + n * 5) % LEVEL;
        break;
    default:
        for (uint64_t wanted = htc_rng_below(rng, PARENTS_MAX + 1); n < wanted; n++)
            parents[n] = (uint32_t)(id - 1 - htc_rng_below(rng, id < 60 ? id : 60));
        break;
    }
    return n;
}

/* Of two dependencies of one task on another the first is taken. */
static htc_status draw_edges(htc_flow *f, htc_rng *rng, uint32_t id, const uint32_t *parents, uint32_t n)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < n && status == HTC_OK; i++) {
        uint64_t dice = htc_rng_below(rng, 20);
        uint32_t before = 0;
        while (before < i && parents[before] != parents[i])
            before++;
        if (before == i)
            status = htc_flow_after(f, id, parents[i], dice == 0 ? HTC_FLOW_FAILED : dice < 4 ? HTC_FLOW_ANY : HTC_FLOW_OK);
    }
    return status;
}

/* Two files each; of the first parents that many things are read. */
static void draw_files(htc_rng *rng, uint32_t id, const uint32_t *parents, uint32_t n, task_files *files, htc_flow_task *t)
{
    t->n_out = 1 + htc_rng_below(rng, 2);
    for (uint32_t k = 0; k < t->n_out; k++)
        snprintf(files->out_name[k], FILE_NAME, "f%u.%u", (unsigned)id, (unsigned)k);
    t->n_in = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;
        while (before < i && parents[before] != parents[i])
            before++;
        if (before == i && htc_rng_below(rng, 4)) /* the second file of some is not made: the first is */
            snprintf(files->in_name[t->n_in++], FILE_NAME, "f%u.0", (unsigned)parents[i]);
    }
}

htc_status htc__flow_draw(const htc_env *env, htc_rng *rng, uint64_t tasks, int graph, uint64_t shape, flow_work work, int adds, htc_flow **out)
{
    htc_flow     *f = NULL;
    htc_flow_task t = HTC_FLOW_TASK_INIT;
    task_files    files;
    htc_status    status = htc_flow_create(env, NULL, &f);
    for (uint32_t i = 0; i < 2; i++)
        files.out[i] = (htc_flow_file){ files.out_name[i], 0 };
    for (uint32_t i = 0; i < PARENTS_MAX; i++)
        files.in[i] = (htc_flow_file){ files.in_name[i], 0 };
    t.in = files.in;
    t.out = files.out;
    if (work != FLOW_FUNCTIONS)
        t.executable = "/bin/true";
    t.count = graph ? 1 : tasks;
    for (uint32_t id = 0; id < (graph ? tasks : 1) && status == HTC_OK; id++) {
        uint32_t parents[PARENTS_MAX], n = id && graph ? draw_parents(rng, id, shape, parents) : 0;
        if (work == FLOW_FILES && graph)
            draw_files(rng, id, parents, n, &files, &t);
        t.adds = adds && graph && (adds > 1 ? id % 2 : id % 11 == 3) && id < ADDERS; /* or a large flow would grow for ever */
        if (work == FLOW_FUNCTIONS) { /* a builtin adds none */
            t.builtin = t.adds ? HTC_FLOW_CALL : HTC_FLOW_NOOP;
            t.object = t.adds ? "/lib/f.so" : NULL;
            t.function = t.adds ? "f" : NULL;
        }
        status = htc_flow_add(f, &t, NULL, NULL);
        if (status == HTC_OK)
            status = draw_edges(f, rng, id, parents, n);
    }
    if (status == HTC_OK)
        status = htc_flow_check(f, NULL);
    if (status == HTC_OK)
        *out = f;
    else
        htc_flow_destroy(f);
    return status;
}
