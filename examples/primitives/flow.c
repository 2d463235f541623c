/* A small flow as a person types it, and the same built by hand; what it waits for; and a bag of a thousand million tasks. */
#include <stdio.h>

#include "htcsched/flow.h"
#include "htcsched/work.h"

static const char typed[] = "fetch: time=10m ./fetch.sh\n"
                            "left:  after=fetch cores=2 ./filter left\n"
                            "right: after=fetch @sleep 2.5s\n"
                            "join:  after=left,right ./join\n"
                            "mail:  after=join:failed ./mail \"it's broken\"\n";

static uint32_t add(htc_flow *flow, const char *name, const char *program)
{
    htc_flow_task task = HTC_FLOW_TASK_INIT;
    uint32_t      id = 0;
    task.name = name;
    task.executable = program;
    htc_flow_add(flow, &task, &id, NULL);
    return id;
}

int main(void)
{
    htc_flow_generator bag = {
        .size = sizeof bag, .shape = HTC_FLOW_BAG, .tasks = 1000000000, .length_min = HTC_SECOND
    };
    const htc_flow_edge *parents;
    htc_flow            *flow;
    htc_error            error;
    htc_bytes            dot;
    if (htc_flow_read(NULL, htc_bytes_of(typed), HTC_FLOW_AUTO, NULL, &flow, &error) != HTC_OK)
        return 1;
    for (uint32_t id = 0; id < htc_flow_count(flow); id++) {
        printf("%s waits for", htc_flow_get(flow, id)->name);
        size_t n = htc_flow_parents(flow, id, &parents);
        for (size_t i = 0; i < n; i++)
            printf(" %s", htc_flow_get(flow, parents[i].task)->name);
        printf(n ? "\n" : " nothing\n");
    }
    htc_flow_destroy(flow);

    htc_flow_create(NULL, NULL, &flow);
    uint32_t a = add(flow, "a", "./a"), b = add(flow, "b", "./b");
    htc_flow_after(flow, b, a, HTC_FLOW_OK);
    if (htc_flow_check(flow, &error) == HTC_OK && htc_flow_write(NULL, flow, HTC_FLOW_DOT, &dot) == HTC_OK) {
        printf("%.*s", (int)dot.len, (const char *)dot.data);
        htc_work_free(NULL, dot);
    }
    htc_flow_after(flow, a, b, HTC_FLOW_OK);
    if (htc_flow_check(flow, &error) == HTC_ECYCLE)
        printf("%s\n", error.text);
    htc_flow_destroy(flow);

    if (htc_flow_generate(NULL, &bag, &flow) != HTC_OK)
        return 1;
    printf("a bag of %llu tasks is %u entry\n", (unsigned long long)htc_flow_total(flow), htc_flow_count(flow));
    htc_flow_destroy(flow);
    return 0;
}
