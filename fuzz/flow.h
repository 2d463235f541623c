/* What the fuzzers of flows share: a flow that was read is whole, reads back the same after it was written, and can be narrowed. */
#ifndef HTC_FUZZ_FLOW_H
#define HTC_FUZZ_FLOW_H

#include <string.h>

#include "check.h"
#include "htcsched/flow.h"
#include "htcsched/work.h"

static inline int flow_equal(const htc_flow *a, const htc_flow *b)
{
    if (htc_flow_count(a) != htc_flow_count(b) || htc_flow_edges(a) != htc_flow_edges(b) ||
        htc_flow_total(a) != htc_flow_total(b))
        return 0;
    for (uint32_t t = 0; t < htc_flow_count(a); t++) {
        const htc_flow_task *x = htc_flow_get(a, t), *y = htc_flow_get(b, t);
        const htc_flow_edge *ours = NULL, *theirs = NULL;
        size_t               n = htc_flow_parents(a, t, &ours);
        if (strcmp(x->name, y->name) != 0 || x->n_args != y->n_args || x->n_env != y->n_env ||
            x->builtin != y->builtin || x->adds != y->adds || x->amount != y->amount || x->wall != y->wall || x->run != y->run ||
            x->memory != y->memory || x->cores != y->cores || x->n_in != y->n_in || x->n_out != y->n_out ||
            htc_flow_parents(b, t, &theirs) != n)
            return 0;
        for (size_t i = 0; i < x->n_args; i++)
            if (strcmp(x->args[i], y->args[i]) != 0)
                return 0;
        for (size_t i = 0; i < n; i++)
            if (ours[i].task != theirs[i].task || ours[i].rule != theirs[i].rule)
                return 0;
    }
    return 1;
}

static inline void flow_round(const htc_flow *f, uint32_t format)
{
    htc_bytes bytes;
    htc_flow *again = NULL;
    CHECK(htc_flow_write(NULL, f, format, &bytes) == HTC_OK);
    if (format != HTC_FLOW_DOT) {
        CHECK(htc_flow_read(NULL, bytes, format, NULL, &again, NULL) == HTC_OK);
        CHECK(flow_equal(f, again));
    }
    htc_flow_destroy(again);
    htc_work_free(NULL, bytes);
}

static inline void flow_narrowed(const htc_flow *f)
{
    htc_flow *narrow = NULL, *again = NULL;
    CHECK(htc_flow_narrow(NULL, f, 2, 3, &narrow, NULL) == HTC_OK);
    for (uint32_t t = 0; narrow && t < htc_flow_count(narrow); t++) {
        CHECK(htc_flow_parents(narrow, t, NULL) <= 2 && htc_flow_children(narrow, t, NULL) <= 3);
        CHECK(t >= htc_flow_count(f) || strcmp(htc_flow_get(f, t)->name, htc_flow_get(narrow, t)->name) == 0);
    }
    CHECK(htc_flow_narrow(NULL, narrow ? narrow : f, 2, 3, &again, NULL) == HTC_OK && !again);
    htc_flow_destroy(narrow);
}

static inline void flow_fuzz(const uint8_t *data, size_t size, uint32_t format)
{
    htc_flow_options bounds = {
        .size = sizeof bounds, .tasks_max = 10000, .edges_max = 100000, .texts_max = (size_t)64 << 20
    };
    htc_flow_reading o = { .size = sizeof o, .bounds = &bounds };
    htc_flow        *f = NULL;
    htc_error        e = { .status = HTC_OK };
    htc_status       status = htc_flow_read(NULL, (htc_bytes){ data, size }, format, &o, &f, &e);
    if (status != HTC_OK) {
        CHECK(!f && e.status == status && e.text[0] && status != HTC_EINTERNAL && status != HTC_EINVAL &&
              status != HTC_EEXISTS && status != HTC_ENOTFOUND);
        return;
    }
    size_t edges = 0;
    CHECK(htc_flow_count(f) > 0 && htc_flow_total(f) >= htc_flow_count(f));
    for (uint32_t t = 0; t < htc_flow_count(f); t++) {
        const htc_flow_edge *list = NULL;
        const htc_flow_task *task = htc_flow_get(f, t);
        size_t               n = htc_flow_parents(f, t, &list);
        uint32_t             found;
        CHECK(task->cores && task->count && (task->executable != NULL) == (task->builtin == HTC_FLOW_PROGRAM));
        CHECK(htc_flow_find(f, task->name, &found) == HTC_OK && found == t);
        for (size_t i = 0; i < n; i++)
            CHECK(list[i].task < htc_flow_count(f) && list[i].task != t && task->count == 1);
        edges += n;
    }
    CHECK(edges == htc_flow_edges(f));
    flow_round(f, HTC_FLOW_TEXT);
    flow_round(f, HTC_FLOW_JSONL);
    flow_round(f, HTC_FLOW_DOT);
    flow_narrowed(f);
    htc_flow_destroy(f);
}

#endif
