/* A task from the wire: refused, or one that is written back the same and names nothing outside its directory. */
#include <string.h>

#include "check.h"
#include "work/work_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_task  *t = NULL;
    htc_bytes  again;
    htc_status status = htc_task_from_bytes(NULL, (htc_bytes){ data, size }, &t);
    if (status != HTC_OK) {
        CHECK(status == HTC_EPROTO && !t);
        return 0;
    }
    CHECK((t->executable[0] || t->kind != HTC_TASK_COMMAND) && t->limits.cores && !t->args[t->n_args] && !t->env[t->n_env]);
    CHECK((t->kind == HTC_TASK_COMMAND) == !t->function && (t->kind == HTC_TASK_FUNCTION) == (t->object != NULL));
    for (size_t i = 0; i < t->n_env; i++)
        CHECK(strchr(t->env[i], '=') > t->env[i]);
    for (size_t i = 0; i < t->n_in; i++)
        CHECK(htc__path_stays(htc_bytes_of(t->in[i].name)));
    for (size_t i = 0; i < t->n_out; i++)
        CHECK(htc__path_stays(htc_bytes_of(t->out[i].name)));
    CHECK(htc_task_to_bytes(NULL, t, &again) == HTC_OK);
    CHECK(htc_bytes_equal(again, (htc_bytes){ data, size }));
    htc_work_free(NULL, again);
    htc_task_destroy(t);
    return 0;
}
