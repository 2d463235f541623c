/* Any calls in any order against a matrix of edges: states, counts, children, cycles, what a cancellation tells; then
 * paths and bounds of what is left, which hold to one another. */
#include "check.h"

#define MODEL_HOLDS CHECK
#include "../tests/unit/dag_model.h"

static void check_lengths(htc_dag *d)
{
    htc_ns        length[MODEL_TASKS], left[MODEL_TASKS], finish[MODEL_TASKS], total = 77, bound = 77;
    uint64_t      bytes[MODEL_TASKS];
    uint32_t      path[MODEL_TASKS], n = 77;
    htc_dag_model m = HTC_DAG_MODEL_INIT;
    for (uint32_t t = 0; t < MODEL_TASKS; t++) {
        length[t] = (t * 7 + 3) % 11;
        bytes[t] = t % 5 * 1000;
    }
    m.tasks = MODEL_TASKS;
    m.exec_ns = length;
    m.bytes = bytes;
    m.bandwidth = HTC_SECOND;
    htc_status status = htc_dag_critical_path(d, MODEL_TASKS, length, MODEL_TASKS, left, path, &n, &total);
    CHECK(htc_dag_bound(d, &m, finish, &bound) == status && status == htc_dag_check(d, 0, NULL, NULL));
    if (status != HTC_OK) {
        CHECK(n == 77 && total == 77 && bound == 77);
        return;
    }
    htc_ns sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += length[path[i]];
    CHECK(n <= MODEL_TASKS && sum == total && bound >= total);
    for (uint32_t t = 0; t < htc_dag_size(d); t++)
        CHECK(left[t] <= total && finish[t] <= bound);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dag_model       m = { .now = 0 };
    htc_dag_options o = { .size = sizeof o, .tasks_max = MODEL_TASKS };
    htc_dag        *d;
    CHECK(htc_dag_create(NULL, &o, &d) == HTC_OK);
    for (size_t i = 0; i + 3 <= size; i += 3)
        model_step(&m, d, data[i] % 16, data[i + 1] % (MODEL_TASKS + 1), data[i + 2] % (MODEL_TASKS + 1));
    model_check_cycle(&m, d);
    model_check_edges(&m, d);
    check_lengths(d);
    htc_dag_destroy(d);
    return 0;
}
