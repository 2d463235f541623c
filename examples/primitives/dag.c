/* A small workflow: fetch, then two filters side by side, then a report; and what becomes of it when a filter fails for good. */
#include <stdio.h>

#include "htcsched/dag.h"

enum { FETCH, BLUR, SHARPEN, REPORT, MAIL, TASKS };
static const char *const names[] = { "fetch", "blur", "sharpen", "report", "mail" };

static void cancelled(void *ctx, uint32_t task, uint32_t was)
{
    (void)ctx;
    printf("%s is cancelled%s\n", names[task], was == HTC_DAG_RUNNING ? ": kill it" : "");
}

int main(void)
{
    static const htc_ns length[] = { 2 * HTC_SECOND, 5 * HTC_SECOND, 3 * HTC_SECOND, HTC_SECOND, HTC_SECOND };
    htc_dag            *dag;
    uint32_t            path[TASKS], n, task;
    htc_ns              total;
    if (htc_dag_create(NULL, NULL, &dag) != HTC_OK)
        return 1;
    htc_dag_add_edge(dag, SHARPEN, REPORT); /* before either is added: the order does not matter */
    htc_dag_add_edge(dag, FETCH, BLUR);
    htc_dag_add_edge(dag, FETCH, SHARPEN);
    htc_dag_add_edge(dag, BLUR, MAIL);
    for (task = 0; task < TASKS; task++)
        htc_dag_add_task(dag, task);
    htc_dag_add_edge(dag, REPORT, FETCH);
    if (htc_dag_check(dag, TASKS, path, &n) == HTC_ECYCLE)
        for (uint32_t i = 0; i < n; i++)
            printf("%s is waited for by %s\n", names[path[i]], names[path[(i + 1) % n]]);
    htc_dag_destroy(dag);

    if (htc_dag_create(NULL, NULL, &dag) != HTC_OK)
        return 1;
    for (task = 0; task < TASKS; task++)
        htc_dag_add_task(dag, task);
    htc_dag_add_edge(dag, FETCH, BLUR);
    htc_dag_add_edge(dag, FETCH, SHARPEN);
    htc_dag_add_edge(dag, BLUR, REPORT);
    htc_dag_add_edge(dag, SHARPEN, REPORT);
    htc_dag_add_edge(dag, SHARPEN, MAIL);
    htc_dag_critical_path(dag, TASKS, length, TASKS, NULL, path, &n, &total);
    printf("no sooner than %llu s, because of", (unsigned long long)(total / HTC_SECOND));
    for (uint32_t i = 0; i < n; i++)
        printf(" %s", names[path[i]]);
    printf("\n");
    while (htc_dag_take(dag, &task) == HTC_OK)
        if (task == BLUR)
            htc_dag_cancel(dag, task, cancelled, NULL); /* it failed for good */
        else {
            printf("%s runs\n", names[task]);
            htc_dag_done(dag, task);
        }
    htc_dag_destroy(dag);
    return 0;
}
