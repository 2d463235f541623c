/* Names of the calls, and the one list that both calls and messages carry: a task's stored outputs. */
#include "roles/calls.h"

#include <string.h>

#include "core/util.h"

#define OUTPUT_BYTES_MIN (2 + 1 + 32) /* a name of one byte, a size, a hash */

const char *htc_call_name(uint32_t op)
{
    switch (op) {
#define CASE(name, number)                                                                                             \
    case number:                                                                                                       \
        return #name;
        HTC_CALL_TABLE(CASE)
        HTC_EVENT_TABLE(CASE)
#undef CASE
    }
    return "?";
}

/* A name that stays below the task's directory: relative, no empty, "." or ".." part. */
static int name_stays(const char *name)
{
    const char *p = name;
    for (;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        if (p[n] == '\0')
            return 1;
        p += n + 1;
    }
}

void htc_write_output_files(htc_buf *b, const htc_output_file *files, uint32_t count)
{
    if (count > HTC_OUTPUTS_MAX) {
        if (b->status == HTC_OK)
            b->status = HTC_EFULL;
        return;
    }
    htc_put_varint(b, count);
    for (uint32_t i = 0; i < count; i++) {
        htc_put_str(b, files[i].name);
        htc_put_varint(b, files[i].size);
        htc_put_raw(b, (htc_bytes){ files[i].hash, sizeof files[i].hash });
    }
}

htc_status htc_read_output_files(htc_reader *r, const htc_env *env, htc_output_file **files, uint32_t *count)
{
    size_t           n = htc_get_count(r, OUTPUT_BYTES_MIN);
    htc_output_file *list = NULL;
    *files = NULL;
    *count = 0;
    if (n > HTC_OUTPUTS_MAX)
        htc_reader_fail(r);
    if (r->status != HTC_OK)
        return HTC_EPROTO;
    if (n == 0)
        return HTC_OK;
    list = htc__alloc(env, n * sizeof *list);
    if (!list)
        return HTC_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        htc_get_str(r, list[i].name, sizeof list[i].name);
        list[i].size = htc_get_varint(r);
        htc_bytes hash = htc_get_raw(r, sizeof list[i].hash);
        if (r->status == HTC_OK && !name_stays(list[i].name))
            htc_reader_fail(r);
        if (r->status != HTC_OK) {
            htc__free(env, list, n * sizeof *list);
            return HTC_EPROTO;
        }
        memcpy(list[i].hash, hash.data, sizeof list[i].hash);
    }
    *files = list;
    *count = (uint32_t)n;
    return HTC_OK;
}
