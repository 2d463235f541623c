/* Montage with 1000 tasks, a workflow of the scale model of provisioning, out of examples/sim/data. */
#ifndef HTC_TESTS_MONTAGE_H
#define HTC_TESTS_MONTAGE_H

#include <stdio.h>
#include <string.h>

#include "data.h"
#include "htcsched/flow.h"
#include "htcsched/sim_provision.h"

#define MONTAGE_TASKS 1000u
#define MONTAGE_EDGES 2485u

typedef struct montage {
    htc_sim_provision_flow flow;
    htc_sim_provision_edge edge[MONTAGE_EDGES];
    htc_ns                 length[MONTAGE_TASKS], whole;
} montage;

static inline int montage_take(montage *m, const htc_flow *f)
{
    if (htc_flow_count(f) != MONTAGE_TASKS || htc_flow_edges(f) != MONTAGE_EDGES)
        return 0;
    for (uint32_t t = 0; t < MONTAGE_TASKS; t++) {
        const htc_flow_edge *parents = NULL;
        size_t               n = htc_flow_parents(f, t, &parents);
        m->length[t] = htc_flow_get(f, t)->run;
        m->whole += m->length[t];
        for (size_t i = 0; i < n; i++)
            m->edge[m->flow.n_edges++] = (htc_sim_provision_edge){ parents[i].task, t };
    }
    m->flow.tasks = MONTAGE_TASKS;
    return 1;
}

/* 0: there is no such file. */
static inline int montage_read(montage *m)
{
    static char text[1 << 16];
    FILE       *file = test_data("montage-1000.txt");
    htc_flow   *f = NULL;
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    memset(m, 0, sizeof *m);
    m->flow.size = sizeof m->flow;
    m->flow.length = m->length;
    m->flow.edges = m->edge;
    int good = htc_flow_read(NULL, (htc_bytes){ text, n }, HTC_FLOW_TEXT, NULL, &f, NULL) == HTC_OK && montage_take(m, f);
    htc_flow_destroy(f);
    return good;
}

#endif
