/* Montage with 1000 tasks, a workflow of the scale model of provisioning, out of tests/data. */
#ifndef HTC_TESTS_MONTAGE_H
#define HTC_TESTS_MONTAGE_H

#include <stdio.h>
#include <string.h>

#include "data.h"
#include "htcsched/sim_provision.h"

#define MONTAGE_TASKS 1000u
#define MONTAGE_EDGES 2485u

typedef struct montage {
    htc_sim_provision_flow flow;
    htc_sim_provision_edge edge[MONTAGE_EDGES];
    htc_ns                 length[MONTAGE_TASKS], whole;
} montage;

static inline void montage_line(montage *m, const char *line)
{
    uint32_t task, child;
    double   seconds;
    if (sscanf(line, "task %u %lf", &task, &seconds) == 2 && task == m->flow.tasks && task < MONTAGE_TASKS) {
        m->length[task] = (htc_ns)(seconds * 1000 + 0.5) * 1000000u;
        m->whole += m->length[task];
        m->flow.tasks++;
    } else if (sscanf(line, "edge %u %u", &task, &child) == 2 && m->flow.n_edges < MONTAGE_EDGES) {
        m->edge[m->flow.n_edges++] = (htc_sim_provision_edge){ task, child };
    }
}

/* 0: there is no such file. */
static inline int montage_read(montage *m)
{
    char  text[128];
    FILE *file = test_data("montage-1000.txt");
    if (!file)
        return 0;
    memset(m, 0, sizeof *m);
    while (fgets(text, sizeof text, file))
        montage_line(m, text);
    fclose(file);
    m->flow.size = sizeof m->flow;
    m->flow.length = m->length;
    m->flow.edges = m->edge;
    return 1;
}

#endif
