/* What the gateway keeps in the store, byte by byte. Each record begins with its format's number. */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define USER_FORMAT 2
#define JOB_FORMAT 2
#define CHUNK_FORMAT 2
#define AGENT_FORMAT 2
#define REMOVAL_FORMAT 1
#define RESULT_FORMAT 2

static void need(htc_reader *r, int condition)
{
    if (!condition)
        htc_reader_fail(r);
}

void htc__gw_agent_handle(agent *a, htc_bytes handle)
{
    assert(handle.len <= sizeof a->handle);
    a->handle_len = (uint32_t)handle.len;
    if (handle.len)
        memcpy(a->handle, handle.data, handle.len);
}

htc_bytes htc__gw_record_bytes(htc_gateway *gw, const htc_buf *b)
{
    if (b->status != HTC_OK)
        htc_runtime_break(gw->runtime, b->status, "writing down a record");
    return htc_buf_bytes(b);
}

/* A varint that is at most max. */
static uint64_t get_max(htc_reader *r, uint64_t max)
{
    uint64_t v = htc_get_varint(r);
    need(r, v <= max);
    return v;
}

void htc__gw_record_result_write(htc_buf *b, const htc_outcome *o)
{
    htc_runtime_record_begin(b, RESULT_FORMAT);
    htc_outcome_write(b, o);
}

/* o->stderr_tail lies in bytes. */
htc_status htc__gw_record_result_read(htc_bytes bytes, htc_outcome *o)
{
    htc_reader r;
    htc_runtime_record_open(bytes, RESULT_FORMAT, RESULT_FORMAT, &r);
    htc_status status = htc_outcome_read(&r, o);
    return status == HTC_OK ? htc_runtime_record_end(&r) : HTC_ECORRUPT;
}

void htc__gw_record_user_write(htc_buf *b, const user *u)
{
    htc_runtime_record_begin(b, USER_FORMAT);
    htc_put_str(b, u->name);
    htc_put_u64(b, u->weight);
    htc_put_str(b, u->verifier);
    htc_put_u64(b, u->created);
    htc_put_u64(b, u->folded_core_ns);
    htc_put_u64(b, u->folded_done);
    htc_put_u64(b, u->folded_job);
    htc_put_u32(b, u->uid);
    htc_put_u32(b, u->gid);
    htc_put_u64(b, u->tokens_from);
}

htc_status htc__gw_record_user_read(htc_bytes bytes, user *u)
{
    htc_reader r;
    htc_runtime_record_open(bytes, USER_FORMAT, USER_FORMAT, &r);
    htc_get_str(&r, u->name, sizeof u->name);
    u->weight = htc_get_u64(&r);
    htc_get_str(&r, u->verifier, sizeof u->verifier);
    u->created = htc_get_u64(&r);
    u->folded_core_ns = htc_get_u64(&r);
    u->folded_done = htc_get_u64(&r);
    u->folded_job = htc_get_u64(&r);
    u->uid = htc_get_u32(&r);
    u->gid = htc_get_u32(&r);
    u->tokens_from = htc_get_u64(&r);
    need(&r, u->weight >= 1 && u->weight <= UINT64_C(1) << 32);
    return htc_runtime_record_end(&r);
}

static void usage_write(htc_buf *b, const usage *u)
{
    htc_put_varint(b, u->core_ns);
    htc_put_varint(b, u->attempts);
    htc_put_varint(b, u->losses);
}

static void usage_read(htc_reader *r, usage *u)
{
    u->core_ns = htc_get_varint(r);
    u->attempts = htc_get_varint(r);
    u->losses = htc_get_varint(r);
}

static void counts_write(htc_buf *b, const counts *c)
{
    htc_put_varint(b, c->done);
    htc_put_varint(b, c->failed);
    htc_put_varint(b, c->cancelled);
    usage_write(b, &c->used);
}

static void counts_read(htc_reader *r, counts *c)
{
    memset(c, 0, sizeof *c);
    c->done = htc_get_varint(r);
    c->failed = htc_get_varint(r);
    c->cancelled = htc_get_varint(r);
    usage_read(r, &c->used);
}

void htc__gw_record_job_write(htc_buf *b, const job *j)
{
    htc_runtime_record_begin(b, JOB_FORMAT);
    htc_put_u64(b, j->id);
    htc_put_str(b, j->user->name);
    htc_put_str(b, j->name);
    htc_put_varint(b, j->count);
    htc_put_f64(b, j->time_limit_s);
    htc_put_varint(b, j->memory);
    htc_put_varint(b, j->max_attempts);
    htc_put_varint(b, j->compat);
    htc_put_str(b, j->output);
    htc_put_str(b, j->error_output);
    htc_put_str(b, j->submit_dir);
    htc_put_str(b, j->key);
    htc_put_raw(b, (htc_bytes){ j->asked, j->key[0] ? sizeof j->asked : 0 });
    htc_put_u64(b, j->submitted);
    htc_put_u64(b, j->started);
    htc_put_u64(b, j->ended);
    htc_put_varint(b, j->duplicates);
    htc_put_u8(b, (uint8_t)(j->cancelled | j->paused << 1 | j->finished << 2));
    htc_put_varint(b, j->low);
    counts_write(b, &j->base);
}

htc_status htc__gw_record_job_read(htc_bytes bytes, job *j, char user_name[NAME_MAX_BYTES])
{
    htc_reader r;
    htc_runtime_record_open(bytes, JOB_FORMAT, JOB_FORMAT, &r);
    j->id = htc_get_u64(&r);
    htc_get_str(&r, user_name, NAME_MAX_BYTES);
    htc_get_str(&r, j->name, sizeof j->name);
    j->count = htc_get_varint(&r);
    j->time_limit_s = htc_get_f64(&r);
    j->memory = htc_get_varint(&r);
    j->max_attempts = (uint32_t)get_max(&r, UINT32_MAX);
    j->compat = (uint32_t)get_max(&r, UINT32_MAX);
    htc_get_str(&r, j->output, sizeof j->output);
    htc_get_str(&r, j->error_output, sizeof j->error_output);
    htc_get_str(&r, j->submit_dir, sizeof j->submit_dir);
    htc_get_str(&r, j->key, sizeof j->key);
    htc_bytes asked = htc_get_raw(&r, j->key[0] ? sizeof j->asked : 0);
    if (r.status == HTC_OK && asked.len)
        memcpy(j->asked, asked.data, sizeof j->asked);
    j->submitted = htc_get_u64(&r);
    j->started = htc_get_u64(&r);
    j->ended = htc_get_u64(&r);
    j->duplicates = htc_get_varint(&r);
    uint8_t flags = htc_get_u8(&r);
    j->cancelled = flags & 1;
    j->paused = flags >> 1 & 1;
    j->finished = flags >> 2 & 1;
    j->low = htc_get_varint(&r);
    counts_read(&r, &j->base);
    need(&r, j->id != 0 && j->count != 0 && flags < 8);
    need(&r, j->low <= (j->count - 1) / CHUNK_TASKS + 1);
    need(&r, j->base.done <= j->count && j->base.failed <= j->count - j->base.done &&
                 j->base.cancelled <= j->count - j->base.done - j->base.failed);
    return htc_runtime_record_end(&r);
}

/* A task that is done at its first attempt, and one that was never touched, cost one bit each; the others have an entry. */
static int plain(const task *t)
{
    return t->state == TASK_NEW || (t->state == TASK_DONE && t->attempt == 1 && t->lost == 0 && t->tries == 0 &&
                                     t->status == HTC_OK && !t->cancel);
}

void htc__gw_record_chunk_write(htc_buf *b, const chunk *c)
{
    htc_runtime_record_begin(b, CHUNK_FORMAT);
    htc_put_varint(b, c->n);
    usage_write(b, &c->used);
    uint8_t *bits = htc_buf_extend(b, (c->n + 7) / 8);
    if (bits)
        memset(bits, 0, (c->n + 7) / 8);
    uint64_t entries = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (bits && c->tasks[i].state == TASK_DONE)
            bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
        entries += !plain(&c->tasks[i]);
    }
    htc_put_varint(b, entries);
    for (uint32_t i = 0; i < c->n; i++) {
        const task *t = &c->tasks[i];
        if (plain(t))
            continue;
        htc_put_varint(b, i);
        htc_put_u8(b, (uint8_t)(t->state | t->cancel << 7));
        htc_put_varint(b, t->attempt);
        htc_put_varint(b, t->tries);
        htc_put_varint(b, t->lost);
        htc_put_u8(b, (uint8_t)-t->status);
        if (t->state == TASK_LEASED)
            htc_put_u64(b, t->agent);
    }
}

htc_status htc__gw_record_chunk_read(htc_bytes bytes, chunk *c)
{
    htc_reader r;
    htc_runtime_record_open(bytes, CHUNK_FORMAT, CHUNK_FORMAT, &r);
    need(&r, htc_get_varint(&r) == c->n);
    usage_read(&r, &c->used);
    htc_bytes bits = htc_get_raw(&r, (c->n + 7) / 8);
    for (uint32_t i = 0; bits.len && i < c->n; i++)
        if (((const uint8_t *)bits.data)[i / 8] >> i % 8 & 1)
            c->tasks[i] = (task){ .state = TASK_DONE, .attempt = 1 };
    size_t   entries = htc_get_count(&r, 6);
    uint64_t next = 0;
    for (size_t e = 0; e < entries && r.status == HTC_OK; e++) {
        uint64_t i = htc_get_varint(&r);
        need(&r, i >= next && i < c->n);
        if (r.status != HTC_OK)
            break;
        next = i + 1;
        task   *t = &c->tasks[i];
        uint8_t was_done = t->state == TASK_DONE;
        uint8_t state = htc_get_u8(&r);
        *t = (task){ .state = state & 0x7f, .cancel = state >> 7 };
        t->attempt = (uint32_t)get_max(&r, UINT32_MAX);
        t->tries = (uint16_t)get_max(&r, UINT16_MAX);
        t->lost = (uint16_t)get_max(&r, UINT16_MAX);
        t->status = -(int32_t)htc_get_u8(&r);
        if (t->state == TASK_LEASED)
            t->agent = htc_get_u64(&r);
        need(&r, t->state > TASK_NEW && t->state <= TASK_CANCELLED && was_done == (t->state == TASK_DONE));
    }
    return htc_runtime_record_end(&r);
}

void htc__gw_record_agent_write(htc_buf *b, const agent *a)
{
    htc_runtime_record_begin(b, AGENT_FORMAT);
    htc_put_u64(b, a->id);
    htc_put_str(b, a->user->name);
    htc_put_varint(b, a->site);
    htc_put_varint(b, a->slot);
    htc_put_bytes(b, (htc_bytes){ a->handle, a->handle_len });
    htc_put_str(b, a->handle_name);
    htc_put_u64(b, a->launched_wall);
}

htc_status htc__gw_record_agent_read(htc_bytes bytes, agent *a, char user_name[NAME_MAX_BYTES])
{
    htc_reader r;
    htc_runtime_record_open(bytes, AGENT_FORMAT, AGENT_FORMAT, &r);
    a->id = htc_get_u64(&r);
    htc_get_str(&r, user_name, NAME_MAX_BYTES);
    a->site = (uint32_t)get_max(&r, UINT32_MAX);
    a->slot = (uint32_t)get_max(&r, UINT32_MAX);
    htc_bytes handle = htc_get_bytes(&r);
    need(&r, handle.len <= sizeof a->handle);
    htc_get_str(&r, a->handle_name, sizeof a->handle_name);
    if (r.status == HTC_OK)
        htc__gw_agent_handle(a, handle);
    a->launched_wall = htc_get_u64(&r);
    return htc_runtime_record_end(&r);
}

void htc__gw_record_removal_write(htc_buf *b, const removal *m)
{
    htc_runtime_record_begin(b, REMOVAL_FORMAT);
    htc_put_u64(b, m->id);
    htc_put_str(b, m->user);
    htc_put_varint(b, m->core_ns);
    htc_put_varint(b, m->done);
    htc_put_u8(b, m->folded);
}

htc_status htc__gw_record_removal_read(htc_bytes bytes, removal *m)
{
    htc_reader r;
    htc_runtime_record_open(bytes, REMOVAL_FORMAT, REMOVAL_FORMAT, &r);
    m->id = htc_get_u64(&r);
    htc_get_str(&r, m->user, sizeof m->user);
    m->core_ns = htc_get_varint(&r);
    m->done = htc_get_varint(&r);
    m->folded = htc_get_u8(&r);
    need(&r, m->id != 0 && m->folded <= 1);
    return htc_runtime_record_end(&r);
}
