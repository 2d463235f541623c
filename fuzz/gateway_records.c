/* The gateway's records: any bytes are read or refused, and what is read is written back as a record that reads the
 * same. */
#include "roles/gateway/gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void chunk_record(htc_bytes bytes)
{
    chunk *c = calloc(1, sizeof *c + CHUNK_TASKS * sizeof c->tasks[0]),
          *again = calloc(1, sizeof *c + CHUNK_TASKS * sizeof c->tasks[0]);
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    c->n = again->n = bytes.len > 3 ? 64 : 5;
    htc_buf_init(&c->nodes, NULL, 0);
    if (htc__gw_record_chunk_read(bytes, c) == HTC_OK) {
        htc_put_raw(&c->nodes, c->nodes_read);
        htc__gw_record_chunk_write(&b, c);
        if (htc__gw_record_chunk_read(htc_buf_bytes(&b), again) != HTC_OK ||
            memcmp(c->tasks, again->tasks, c->n * sizeof c->tasks[0]) != 0)
            abort();
    }
    htc_buf_free(&b);
    htc_buf_free(&c->nodes);
    free(c);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes bytes = { data + 1, size - 1 };
    char      name[NAME_MAX_BYTES];
    user      u;
    job       j;
    agent     a;
    htc_buf   b;
    if (size == 0)
        return 0;
    memset(&u, 0, sizeof u);
    memset(&j, 0, sizeof j);
    memset(&a, 0, sizeof a);
    htc_buf_init(&b, NULL, 0);
    switch (data[0] % 4) {
    case 0:
        if (htc__gw_record_user_read(bytes, &u) == HTC_OK)
            htc__gw_record_user_write(&b, &u);
        break;
    case 1:
        j.user = &u;
        if (htc__gw_record_job_read(bytes, &j, u.name) == HTC_OK)
            htc__gw_record_job_write(&b, &j);
        break;
    case 2:
        a.user = &u;
        if (htc__gw_record_agent_read(bytes, &a, name) == HTC_OK)
            memcpy(u.name, name, sizeof u.name), htc__gw_record_agent_write(&b, &a);
        break;
    case 3:
        chunk_record(bytes);
        break;
    }
    /* Each form is the only one: what was read is what would be written. Doubles may be any bits, so compare bytes. */
    if (b.len && !htc_bytes_equal(htc_buf_bytes(&b), bytes))
        abort();
    htc_buf_free(&b);
    return 0;
}
