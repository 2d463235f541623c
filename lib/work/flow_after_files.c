/* Who reads a file waits for who makes it. */
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "work/flow_private.h"

typedef struct maker {
    const char    *name; /* the flow's */
    uint32_t       task;
    UT_hash_handle hh;
} maker;

typedef struct makers {
    maker *all, *by_name;
    size_t n, room;
} makers;

static htc_status add_makers(const htc_flow *f, makers *m, uint32_t task, htc_error *error)
{
    const htc_flow_task *t = &f->tasks[task];
    for (size_t i = 0; i < t->n_out; i++) {
        const char *name = t->out[i].name;
        maker      *x;
        HASH_FIND(hh, m->by_name, name, strlen(name), x);
        if (x && x->task != task)
            return htc__refuse(error, HTC_ESCHEMA, 0, t->name, "tasks %s and %s both make the file %s", htc__quote(htc_bytes_of(f->tasks[x->task].name)).text,
                               htc__quote(htc_bytes_of(t->name)).text, htc__quote(htc_bytes_of(name)).text);
        if (x)
            continue;
        x = &m->all[m->n++];
        *x = (maker){ .name = name, .task = task };
        HASH_ADD_KEYPTR(hh, m->by_name, x->name, strlen(x->name), x);
        if (!x->hh.tbl)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static int waits_for(const htc_flow *f, uint32_t task, uint32_t parent)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_parents(f, task, &edges);
    for (size_t i = 0; i < n; i++)
        if (edges[i].task == parent)
            return 1;
    return 0;
}

/* Parents are listed until the first edge is added: so all are found first. */
static void find_missing(const htc_flow *f, const makers *m, htc__flow_entry *missing, size_t *n)
{
    for (uint32_t task = 0; task < f->n; task++)
        for (size_t i = 0; i < f->tasks[task].n_in; i++) {
            const char *name = f->tasks[task].in[i].name;
            maker      *x;
            HASH_FIND(hh, m->by_name, name, strlen(name), x);
            if (x && x->task != task && !waits_for(f, task, x->task))
                missing[(*n)++] = (htc__flow_entry){ task, x->task, HTC_FLOW_OK };
        }
}

htc_status htc_flow_after_files(htc_flow *flow, htc_error *error)
{
    makers           m = { 0 };
    size_t           reads = 0, n = 0;
    if (!flow || !flow->checked)
        return htc__refuse(error, HTC_EINVAL, 0, "", "the flow is not checked");
    for (uint32_t i = 0; i < flow->n; i++) {
        m.room += flow->tasks[i].n_out;
        reads += flow->tasks[i].n_in;
    }
    if (!m.room || !reads)
        return HTC_OK;
    m.all = htc__alloc_raw(flow->env, m.room * sizeof *m.all);
    htc__flow_entry *missing = htc__alloc_raw(flow->env, reads * sizeof *missing);
    htc_status       status = m.all && missing ? HTC_OK : HTC_ENOMEM;
    for (uint32_t i = 0; i < flow->n && status == HTC_OK; i++)
        status = add_makers(flow, &m, i, error);
    if (status == HTC_OK)
        find_missing(flow, &m, missing, &n);
    for (size_t i = 0; i < n && status == HTC_OK; i++)
        status = htc_flow_after(flow, missing[i].child, missing[i].parent, missing[i].rule);
    HASH_CLEAR(hh, m.by_name);
    htc__free(flow->env, m.all, m.room * sizeof *m.all);
    htc__free(flow->env, missing, reads * sizeof *missing);
    return status == HTC_OK && n ? htc_flow_check(flow, error) : status;
}
