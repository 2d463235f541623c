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
            memcmp(c->tasks, again->tasks, c->n * sizeof c->tasks[0]) != 0 || c->used.bytes != again->used.bytes)
            abort();
    }
    htc_buf_free(&b);
    htc_buf_free(&c->nodes);
    free(c);
    free(again);
}

/* Two records that say the same are written as the same bytes. */
static void hold_write(htc_buf *b, const hold_found *f)
{
    htc_buf_init(b, NULL, 0);
    htc__gw_hold_write(b, f->n, f->agents, f->devices, f->memory, &f->need);
}

/* Its key names the attempt: the first 44 bytes. */
static void held_record(htc_bytes bytes)
{
    hold_found f, again;
    htc_bytes  value;
    htc_buf    b, b2;
    size_t     n = bytes.len < 44 ? bytes.len : 44;
    value = (htc_bytes){ (const uint8_t *)bytes.data + n, bytes.len - n };
    if (htc__gw_taken_read((htc_bytes){ bytes.data, n }, value, &f) != HTC_OK)
        return;
    key k = htc__gw_key_taken(&f.attempt);
    if (htc__gw_taken_read(htc__gw_key_bytes(&k), value, &again) != HTC_OK || f.attempt.job != again.attempt.job || f.attempt.task != again.attempt.task ||
        f.attempt.attempt != again.attempt.attempt || f.n != again.n || f.devices[0] != again.devices[0])
        abort();
    if (f.n == 0)
        return; /* of a form that is not written any more */
    hold_write(&b, &f);
    if (htc__gw_taken_read(htc__gw_key_bytes(&k), htc_buf_bytes(&b), &again) != HTC_OK)
        abort();
    hold_write(&b2, &again);
    if (!htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&b2)))
        abort();
    htc_buf_free(&b);
    htc_buf_free(&b2);
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
    active_claim c;
    removal      m;
    uint64_t     term;
    int          again;
    memset(&m, 0, sizeof m);
    htc_buf_init(&b, NULL, 0);
    project   p;
    day_usage day = { 0 };
    switch (data[0] < 0xf0 ? data[0] % 5 : data[0]) {
    case 0xf3:
        if (htc__gw_record_project_read(NULL, bytes, &p) == HTC_OK) {
            htc__gw_record_project_write(&b, &p);
            htc__free(NULL, p.users, p.n_users * sizeof *p.users);
        }
        break;
    case 0xf4:
        if (htc__day_read(&day, NULL, bytes) == HTC_OK)
            htc__day_write(&b, &day);
        htc__day_free(&day, NULL);
        break;
    case 0xf0:
        if (htc__gw_record_active_read(bytes, &c) == HTC_OK)
            htc__gw_record_active_write(&b, &c);
        break;
    case 0xf1:
        htc__gw_record_open_read(bytes, &term, &again);
        if (term && again <= 1)
            htc__gw_record_open_write(&b, term, again);
        break;
    case 0xf2:
        if (htc__gw_record_removal_read(bytes, &m) == HTC_OK)
            htc__gw_record_removal_write(&b, &m);
        break;
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
    case 4:
        held_record(bytes);
        break;
    }
    /* Each form is the only one: what was read is what would be written. Doubles may be any bits, so compare bytes. */
    if (b.len && !htc_bytes_equal(htc_buf_bytes(&b), bytes))
        abort();
    htc_buf_free(&b);
    return 0;
}
