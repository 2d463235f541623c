/* What the gateway keeps in the store, byte by byte. Each record begins with its format's number. */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define USER_FORMAT 2
#define JOB_FORMAT 3
#define JOB_FORMAT_AFTER 4 /* the same, and the jobs that it waits for: at least one */
#define JOB_FORMAT_WISHES 5 /* the same, and these may be none; then what else it asks for: at least one thing */
#define JOB_FORMAT_BYTES 6  /* the same, that may be none, and the bytes of its outputs: some */
#define CHUNK_FORMAT 5
#define CHUNK_FORMAT_BYTES 4    /* of outputs; none that may be superseded */
#define CHUNK_FORMAT_NO_BYTES 3
#define AGENT_FORMAT 3
#define AGENT_FORMAT_LOST 4 /* the same: it is lost, and its process is to end */
#define AGENT_FORMAT_ONE_SLOT 2 /* of an agent that was launched when there was no other */
#define REMOVAL_FORMAT 1
#define REMOVAL_FORMAT_TERM 2 /* the same, and the term that wrote it */
#define OPEN_FORMAT 2
#define JOB_VOID 255
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

static void usage_write(htc_buf *b, const usage *u, int with_bytes)
{
    htc_put_varint(b, u->core_ns);
    htc_put_varint(b, u->attempts);
    htc_put_varint(b, u->losses);
    if (with_bytes)
        htc_put_varint(b, u->bytes);
}

static void usage_read(htc_reader *r, usage *u, int with_bytes)
{
    u->core_ns = htc_get_varint(r);
    u->attempts = htc_get_varint(r);
    u->losses = htc_get_varint(r);
    u->bytes = with_bytes ? htc_get_varint(r) : 0;
}

static void counts_write(htc_buf *b, const counts *c, int with_bytes)
{
    htc_put_varint(b, c->done);
    htc_put_varint(b, c->failed);
    htc_put_varint(b, c->cancelled);
    usage_write(b, &c->used, with_bytes);
}

static void counts_read(htc_reader *r, counts *c, int with_bytes)
{
    memset(c, 0, sizeof *c);
    c->done = htc_get_varint(r);
    c->failed = htc_get_varint(r);
    c->cancelled = htc_get_varint(r);
    usage_read(r, &c->used, with_bytes);
}

void htc__gw_record_job_write(htc_buf *b, const job *j)
{
    int asks_more = htc__gw_wishes_are(j), bytes = j->base.used.bytes != 0;
    htc_runtime_record_begin(b, bytes ? JOB_FORMAT_BYTES : asks_more ? JOB_FORMAT_WISHES : j->n_edges ? JOB_FORMAT_AFTER : JOB_FORMAT);
    htc_put_u64(b, j->id);
    htc_put_str(b, j->user->name);
    htc_put_str(b, j->name);
    htc_put_varint(b, j->count);
    htc_put_f64(b, j->time_limit_s);
    htc_put_varint(b, j->memory);
    htc_put_varint(b, j->max_attempts);
    htc_put_varint(b, j->compat);
    htc_put_u32(b, (uint32_t)j->priority);
    htc_put_varint(b, j->max_running);
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
    counts_write(b, &j->base, bytes);
    if (j->n_edges)
        htc__gw_edges_write(b, j);
    else if (asks_more || bytes)
        htc_put_u8(b, 0); /* edges */
    if (asks_more || bytes)
        htc__gw_wishes_write(b, j);
}

htc_status htc__gw_record_job_read(htc_bytes bytes, job *j, char user_name[NAME_MAX_BYTES])
{
    htc_reader r;
    uint8_t format = htc_runtime_record_open(bytes, JOB_FORMAT, JOB_FORMAT_BYTES, &r);
    j->id = htc_get_u64(&r);
    htc_get_str(&r, user_name, NAME_MAX_BYTES);
    htc_get_str(&r, j->name, sizeof j->name);
    j->count = htc_get_varint(&r);
    j->time_limit_s = htc_get_f64(&r);
    j->memory = htc_get_varint(&r);
    j->max_attempts = (uint32_t)get_max(&r, UINT32_MAX);
    j->compat = (uint32_t)get_max(&r, UINT32_MAX);
    j->priority = (int32_t)htc_get_u32(&r);
    j->max_running = htc_get_varint(&r);
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
    counts_read(&r, &j->base, format == JOB_FORMAT_BYTES);
    need(&r, j->id != 0 && j->count != 0 && flags < 8);
    need(&r, j->priority >= -JOB_PRIORITY_MAX && j->priority <= JOB_PRIORITY_MAX);
    need(&r, j->low <= (j->count - 1) / CHUNK_TASKS + 1);
    need(&r, j->base.done <= j->count && j->base.failed <= j->count - j->base.done &&
                 j->base.cancelled <= j->count - j->base.done - j->base.failed);
    need(&r, format < JOB_FORMAT_BYTES || j->base.used.bytes);
    if (format >= JOB_FORMAT_AFTER)
        htc__gw_edges_read(&r, j, format == JOB_FORMAT_AFTER ? 1 : 0);
    if (format >= JOB_FORMAT_WISHES)
        htc__gw_wishes_read(&r, j, format == JOB_FORMAT_WISHES ? 1 : 0);
    return htc_runtime_record_end(&r);
}

int htc__gw_record_job_void(htc_bytes bytes)
{
    return bytes.len == 1 && *(const uint8_t *)bytes.data == JOB_VOID;
}

htc_bytes htc__gw_record_job_void_bytes(void)
{
    static const uint8_t is_void[] = { JOB_VOID };
    return (htc_bytes){ is_void, sizeof is_void };
}

void htc__gw_record_open_write(htc_buf *b, uint64_t term, int again)
{
    htc_runtime_record_begin(b, OPEN_FORMAT);
    htc_put_u64(b, term);
    htc_put_u8(b, again != 0);
}

void htc__gw_record_open_read(htc_bytes bytes, uint64_t *term, int *again)
{
    htc_reader r;
    htc_runtime_record_open(bytes, OPEN_FORMAT, OPEN_FORMAT, &r);
    *term = htc_get_u64(&r);
    *again = htc_get_u8(&r);
    if (htc_runtime_record_end(&r) != HTC_OK) { /* of a gateway without terms: it counts */
        *term = 0;
        *again = 1;
    }
}

/* ---- results in brief ----
 *
 *   0      number of the node, 1 to 255
 *   1-6    begin, microseconds after the job's submission
 *   7-11   run time, microseconds
 *   12-13  CPU time, microseconds, rounded     } 11 bits m and 5 bits e: m 2^e
 *   14-15  most memory, KiB, rounded           } */

static uint16_t pack_rounded(uint64_t v)
{
    uint32_t e = 0;
    while (v > 2047) {
        v = (v + 1) / 2;
        e++;
    }
    return (uint16_t)(v | e << 11);
}

static uint64_t unpack_rounded(uint16_t v)
{
    return (uint64_t)(v & 2047) << (v >> 11);
}

static void put_bytes(uint8_t *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_bytes(const uint8_t *at, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

/* Its number among the chunk's, from 1; 0: it has none. */
static uint32_t node_number(chunk *c, const char *name)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&c->nodes));
    char       known[NAME_MAX_BYTES];
    for (uint32_t i = 1; i <= c->n_nodes; i++) {
        htc_get_str(&r, known, sizeof known);
        if (r.status == HTC_OK && strcmp(known, name) == 0)
            return i;
    }
    if (c->n_nodes == 255 || c->nodes.status != HTC_OK)
        return 0;
    htc_put_str(&c->nodes, name);
    return c->nodes.status == HTC_OK ? ++c->n_nodes : 0;
}

static int is_brief(const chunk *c, const htc_outcome *o)
{
    const htc_outputs *x = &o->outputs;
    return o->status == HTC_OK && !o->exit_code && !o->signal && !o->reason[0] && !o->stderr_tail.len && !o->final && !x->files && !x->dirs &&
           !x->links && !x->errors && !x->bytes && !x->manifest_bytes && o->started >= c->job->submitted &&
           (o->started - c->job->submitted) / HTC_US < UINT64_C(1) << 48 && (o->ended - o->started) / HTC_US < UINT64_C(1) << 40;
}

int htc__gw_brief_put(chunk *c, task *t, const htc_outcome *o)
{
    uint32_t number = is_brief(c, o) ? node_number(c, o->node) : 0;
    if (!number)
        return 0;
    uint64_t begin = o->started / HTC_US, base = c->job->submitted / HTC_US;
    t->brief[0] = (uint8_t)number;
    put_bytes(&t->brief[1], begin - base, 6);
    put_bytes(&t->brief[7], o->ended / HTC_US - begin, 5);
    put_bytes(&t->brief[12], pack_rounded(o->cpu_ns / HTC_US), 2);
    put_bytes(&t->brief[14], pack_rounded(o->memory_peak / 1024), 2);
    return 1;
}

void htc__gw_brief_get(const chunk *c, const task *t, htc_ns submitted, htc_outcome *o)
{
    htc_reader r = htc_reader_of(c->nodes.len ? htc_buf_bytes(&c->nodes) : c->nodes_read);
    *o = (htc_outcome){ .status = HTC_OK };
    for (uint32_t i = 0; i < t->brief[0]; i++)
        htc_get_str(&r, o->node, sizeof o->node);
    o->started = (submitted / HTC_US + get_bytes(&t->brief[1], 6)) * HTC_US;
    o->ended = o->started + get_bytes(&t->brief[7], 5) * HTC_US;
    o->cpu_ns = unpack_rounded((uint16_t)get_bytes(&t->brief[12], 2)) * HTC_US;
    o->memory_peak = unpack_rounded((uint16_t)get_bytes(&t->brief[14], 2)) * 1024;
}

static void briefs_write(htc_buf *b, const chunk *c)
{
    htc_put_varint(b, c->n_nodes);
    if (!c->n_nodes)
        return;
    htc_put_bytes(b, htc_buf_bytes(&c->nodes));
    uint8_t *bits = htc_buf_extend(b, (c->n + 7) / 8);
    if (bits)
        memset(bits, 0, (c->n + 7) / 8);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->tasks[i].brief[0]) {
            n++;
            if (bits)
                bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
        }
    uint8_t *at = htc_buf_extend(b, (size_t)n * BRIEF_BYTES);
    for (uint32_t i = 0; at && i < c->n; i++)
        if (c->tasks[i].brief[0]) {
            memcpy(at, c->tasks[i].brief, BRIEF_BYTES);
            at += BRIEF_BYTES;
        }
}

static void briefs_read(htc_reader *r, chunk *c)
{
    char name[NAME_MAX_BYTES];
    c->n_nodes = (uint32_t)get_max(r, 255);
    if (!c->n_nodes || r->status != HTC_OK)
        return;
    c->nodes_read = htc_get_bytes(r);
    htc_reader names = htc_reader_of(c->nodes_read);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        htc_get_str(&names, name, sizeof name);
    need(r, htc_reader_done(&names) == HTC_OK);
    htc_bytes bits = htc_get_raw(r, (c->n + 7) / 8);
    for (uint32_t i = 0; bits.len && i < c->n && r->status == HTC_OK; i++) {
        if (!(((const uint8_t *)bits.data)[i / 8] >> i % 8 & 1))
            continue;
        htc_bytes brief = htc_get_raw(r, BRIEF_BYTES);
        need(r, c->tasks[i].state == TASK_DONE);
        if (r->status != HTC_OK)
            return;
        memcpy(c->tasks[i].brief, brief.data, BRIEF_BYTES);
        need(r, c->tasks[i].brief[0] && c->tasks[i].brief[0] <= c->n_nodes);
    }
}

/* A task that is done at its first attempt, and one that was never touched, cost one bit each; the others have an entry. */
static int plain(const task *t)
{
    return t->state == TASK_NEW || (t->state == TASK_DONE && t->attempt == 1 && t->lost == 0 && t->tries == 0 &&
                                     t->status == HTC_OK && !t->cancel && !t->level);
}

static uint64_t left_of(const task *t)
{
    return t->state == TASK_DONE ? 0 : t->left[1];
}

/* What a task left stands beside it only where one did: most chunks have none. */
static uint8_t chunk_format(const chunk *c)
{
    for (uint32_t i = 0; c->used.bytes && i < c->n; i++)
        if (left_of(&c->tasks[i]))
            return CHUNK_FORMAT;
    return c->used.bytes ? CHUNK_FORMAT_BYTES : CHUNK_FORMAT_NO_BYTES;
}

void htc__gw_record_chunk_write(htc_buf *b, const chunk *c)
{
    uint8_t format = chunk_format(c);
    htc_runtime_record_begin(b, format);
    htc_put_varint(b, c->n);
    usage_write(b, &c->used, c->used.bytes != 0);
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
        htc_put_u8(b, (uint8_t)(t->state | t->level << 3 | t->cancel << 7));
        htc_put_varint(b, t->attempt);
        htc_put_varint(b, t->tries);
        htc_put_varint(b, t->lost);
        htc_put_u8(b, (uint8_t)-t->status);
        if (t->state == TASK_LEASED)
            htc_put_u64(b, t->agent);
        if (format == CHUNK_FORMAT)
            htc_put_varint(b, left_of(t));
    }
    briefs_write(b, c);
}

htc_status htc__gw_record_chunk_read(htc_bytes bytes, chunk *c)
{
    htc_reader r;
    uint8_t format = htc_runtime_record_open(bytes, CHUNK_FORMAT_NO_BYTES, CHUNK_FORMAT, &r);
    need(&r, htc_get_varint(&r) == c->n);
    usage_read(&r, &c->used, format >= CHUNK_FORMAT_BYTES);
    need(&r, format < CHUNK_FORMAT_BYTES || c->used.bytes);
    uint64_t most = c->used.bytes; /* that tasks may have left */
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
        *t = (task){ .state = state & 7, .level = state >> 3 & 15, .cancel = state >> 7 };
        t->attempt = (uint32_t)get_max(&r, UINT32_MAX);
        t->tries = (uint16_t)get_max(&r, UINT16_MAX);
        t->lost = (uint16_t)get_max(&r, UINT16_MAX);
        t->status = -(int32_t)htc_get_u8(&r);
        if (t->state == TASK_LEASED)
            t->agent = htc_get_u64(&r);
        t->left[1] = format == CHUNK_FORMAT ? get_max(&r, t->state == TASK_DONE ? 0 : most) : 0;
        most -= t->left[1];
        need(&r, t->state > TASK_NEW && t->state <= TASK_CANCELLED && was_done == (t->state == TASK_DONE));
    }
    briefs_read(&r, c);
    return htc_runtime_record_end(&r);
}

void htc__gw_chunk_read_done(htc_gateway *gw, chunk *c)
{
    htc_put_raw(&c->nodes, c->nodes_read);
    c->nodes_read = (htc_bytes){ 0 };
    if (c->nodes.status != HTC_OK)
        htc_runtime_break(gw->runtime, c->nodes.status, "reading a chunk record");
}

void htc__gw_record_agent_write(htc_buf *b, const agent *a)
{
    htc_runtime_record_begin(b, a->one_slot ? AGENT_FORMAT_ONE_SLOT : a->ending || a->given_up ? AGENT_FORMAT_LOST : AGENT_FORMAT);
    htc_put_u64(b, a->id);
    htc_put_str(b, a->user->name);
    htc_put_varint(b, a->site);
    htc_put_varint(b, a->slots[0]);
    htc_put_bytes(b, (htc_bytes){ a->handle, a->handle_len });
    htc_put_str(b, a->handle_name);
    htc_put_u64(b, a->launched_wall);
    if (a->one_slot)
        return;
    htc_put_varint(b, a->claim);
    htc_put_varint(b, a->n_slots - 1);
    for (uint32_t i = 1; i < a->n_slots; i++)
        htc_put_varint(b, a->slots[i]);
}

static void get_slots(htc_reader *r, agent *a)
{
    a->claim = htc_get_varint(r);
    uint64_t more = get_max(r, AGENT_SLOTS_MAX - 1);
    a->n_slots = r->status == HTC_OK ? 1 + (uint32_t)more : 1;
    for (uint32_t i = 1; i < a->n_slots; i++) {
        a->slots[i] = (uint32_t)get_max(r, UINT32_MAX);
        for (uint32_t k = 0; k < i; k++)
            need(r, a->slots[k] != a->slots[i]);
    }
}

htc_status htc__gw_record_agent_read(htc_bytes bytes, agent *a, char user_name[NAME_MAX_BYTES])
{
    htc_reader r;
    uint8_t    format = htc_runtime_record_open(bytes, AGENT_FORMAT_ONE_SLOT, AGENT_FORMAT_LOST, &r);
    a->id = htc_get_u64(&r);
    htc_get_str(&r, user_name, NAME_MAX_BYTES);
    a->site = (uint32_t)get_max(&r, UINT32_MAX);
    a->slots[0] = (uint32_t)get_max(&r, UINT32_MAX);
    htc_bytes handle = htc_get_bytes(&r);
    need(&r, handle.len <= sizeof a->handle);
    htc_get_str(&r, a->handle_name, sizeof a->handle_name);
    if (r.status == HTC_OK)
        htc__gw_agent_handle(a, handle);
    a->launched_wall = htc_get_u64(&r);
    a->n_slots = 1;
    a->one_slot = format == AGENT_FORMAT_ONE_SLOT;
    a->given_up = format == AGENT_FORMAT_LOST;
    if (!a->one_slot)
        get_slots(&r, a);
    return htc_runtime_record_end(&r);
}

void htc__gw_record_removal_write(htc_buf *b, const removal *m)
{
    htc_runtime_record_begin(b, m->term ? REMOVAL_FORMAT_TERM : REMOVAL_FORMAT);
    htc_put_u64(b, m->id);
    htc_put_str(b, m->user);
    htc_put_varint(b, m->core_ns);
    htc_put_varint(b, m->done);
    htc_put_u8(b, m->folded);
    if (m->term)
        htc_put_u64(b, m->term);
}

htc_status htc__gw_record_removal_read(htc_bytes bytes, removal *m)
{
    htc_reader r;
    uint8_t    format = htc_runtime_record_open(bytes, REMOVAL_FORMAT, REMOVAL_FORMAT_TERM, &r);
    m->id = htc_get_u64(&r);
    htc_get_str(&r, m->user, sizeof m->user);
    m->core_ns = htc_get_varint(&r);
    m->done = htc_get_varint(&r);
    m->folded = htc_get_u8(&r);
    m->term = format == REMOVAL_FORMAT_TERM ? htc_get_u64(&r) : 0;
    need(&r, m->id != 0 && m->folded <= 1 && (format != REMOVAL_FORMAT_TERM || m->term));
    return htc_runtime_record_end(&r);
}
