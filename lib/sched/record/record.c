/* Resource records: bytes in, bytes out.
 *
 * Written: u8 format, varint nodes, varint version of the node list, set idle, set down, varint takings, then for each
 * taking, in the order of job and attempt: bytes job, varint attempt, set. Sets as in record_private.h. No node is idle
 * and taken, or taken twice; what is neither is settled. Equal records are equal bytes. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/record/record_private.h"

#define FORMAT 1
/* Above the longest head of a record, and of a taking. */
#define HEAD_MAX   32
#define TAKING_MAX (HTC_RECORD_JOB_MAX + HEAD_MAX)

typedef struct taking {
    htc_bytes job;
    uint64_t  attempt;
    htc_bytes set; /* as written */
} taking;

/* A record taken apart. */
typedef struct record {
    const htc_env *env;
    uint32_t       nodes;
    uint64_t       list;
    size_t         n; /* words of each of these */
    uint64_t      *idle, *down;
    uint64_t      *held; /* in takings */
    uint64_t      *work; /* of whoever changes the record */
    taking        *takings;
    size_t         count, room;
    htc_buf        fresh; /* a taking that was written anew */
} record;

/* ---- Taking apart and putting together ---- */

static htc_status allocate(record *r, size_t n)
{
    r->n = n;
    r->idle = htc__alloc(r->env, 4 * n * sizeof *r->idle);
    if (!r->idle)
        return HTC_ENOMEM;
    r->down = r->idle + n;
    r->held = r->down + n;
    r->work = r->held + n;
    return HTC_OK;
}

static void close_record(record *r)
{
    htc__free(r->env, r->idle, 4 * r->n * sizeof *r->idle);
    htc__free(r->env, r->takings, r->room * sizeof *r->takings);
    htc_buf_free(&r->fresh);
}

/* Below 0, 0 or above 0, as a is before, at or behind (job, attempt). */
static int compare(const taking *a, htc_bytes job, uint64_t attempt)
{
    int c = htc_bytes_compare(a->job, job);
    return c ? c : (a->attempt > attempt) - (a->attempt < attempt);
}

static int job_ok(htc_bytes job, uint64_t attempt)
{
    return job.data && job.len > 0 && job.len <= HTC_RECORD_JOB_MAX && attempt > 0;
}

static htc_status read_takings(record *r, htc_reader *in)
{
    size_t count = htc_get_count(in, 6); /* a job of one byte, an attempt, a set of one node */
    if (in->status != HTC_OK || count > HTC_RECORD_TAKINGS_MAX)
        return HTC_ECORRUPT;
    r->room = count + 1; /* one may be added */
    r->takings = htc__alloc(r->env, r->room * sizeof *r->takings);
    if (!r->takings)
        return HTC_ENOMEM;
    for (; r->count < count; r->count++) {
        taking t = { .job = htc_get_bytes(in), .attempt = htc_get_varint(in) };
        t.set.data = in->p;
        htc__bits_get(in, r->held, r->nodes);
        t.set.len = (size_t)(in->p - (const uint8_t *)t.set.data);
        if (in->status != HTC_OK || !job_ok(t.job, t.attempt) || *(const uint8_t *)t.set.data == 0 ||
            (r->count > 0 && compare(&r->takings[r->count - 1], t.job, t.attempt) >= 0))
            return HTC_ECORRUPT;
        r->takings[r->count] = t;
    }
    for (size_t i = 0; count > 0 && i < r->n; i++)
        if (r->idle[i] & r->held[i])
            return HTC_ECORRUPT;
    return HTC_OK;
}

/* To be closed whatever the answer is. `nodes_least`: room for at least as many. */
static htc_status open_record(record *r, const htc_env *env, htc_bytes bytes, uint32_t nodes_least)
{
    *r = (record){ .env = env };
    htc_buf_init(&r->fresh, env, 0);
    htc_reader in = htc_reader_of(bytes);
    uint8_t    format = htc_get_u8(&in);
    if (in.status == HTC_OK && format > FORMAT)
        return HTC_EVERSION;
    uint64_t nodes = htc_get_varint(&in);
    r->list = htc_get_varint(&in);
    if (in.status != HTC_OK || format != FORMAT || nodes == 0 || nodes > HTC_RECORD_NODES_MAX)
        return HTC_ECORRUPT;
    r->nodes = (uint32_t)nodes;
    htc_status status = allocate(r, htc__bits_words(nodes > nodes_least ? nodes : nodes_least));
    if (status != HTC_OK)
        return status;
    htc__bits_get(&in, r->idle, r->nodes);
    htc__bits_get(&in, r->down, r->nodes);
    status = read_takings(r, &in);
    return status != HTC_OK ? status : htc_reader_done(&in) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

static htc_status write_record(const record *r, htc_bytes *out)
{
    htc_buf b;
    size_t  room = 2 * (HEAD_MAX + 8 * r->n);
    htc_buf_init(&b, r->env, 0);
    for (size_t i = 0; i < r->count; i++)
        room += TAKING_MAX + r->takings[i].set.len;
    if (htc_buf_extend(&b, room)) /* all at once */
        htc_buf_clear(&b);
    htc_put_u8(&b, FORMAT);
    htc_put_varint(&b, r->nodes);
    htc_put_varint(&b, r->list);
    htc__bits_put(&b, r->idle, r->n);
    htc__bits_put(&b, r->down, r->n);
    htc_put_varint(&b, r->count);
    for (size_t i = 0; i < r->count; i++) {
        htc_put_bytes(&b, r->takings[i].job);
        htc_put_varint(&b, r->takings[i].attempt);
        htc_put_raw(&b, r->takings[i].set);
    }
    return htc__record_take_bytes(r->env, &b, out);
}

/* The last step of every change: the caller's set first, since it can be undone. */
static htc_status finish(const record *r, htc_bytes *out, htc_record_set *got)
{
    htc_status status = got ? htc__record_set_reserve(got, r->n) : HTC_OK;
    if (status == HTC_OK)
        status = write_record(r, out);
    if (status == HTC_OK && got)
        htc__record_set_assign(got, r->work, r->n);
    return status;
}

/* ---- Takings ---- */

/* Where (job, attempt) is, or would be. */
static size_t place_of(const record *r, htc_bytes job, uint64_t attempt)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare(&r->takings[mid], job, attempt) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static taking *find(const record *r, htc_bytes job, uint64_t attempt)
{
    size_t at = place_of(r, job, attempt);
    return at < r->count && compare(&r->takings[at], job, attempt) == 0 ? &r->takings[at] : NULL;
}

/* Whether a later attempt of this job has nodes here. */
static int is_over(const record *r, htc_bytes job, uint64_t attempt)
{
    size_t at = place_of(r, job, attempt);
    if (at < r->count && r->takings[at].attempt == attempt && htc_bytes_equal(r->takings[at].job, job))
        at++;
    return at < r->count && htc_bytes_equal(r->takings[at].job, job);
}

static htc_status insert(record *r, htc_bytes job, uint64_t attempt, taking **out)
{
    if (r->count == HTC_RECORD_TAKINGS_MAX)
        return HTC_EFULL;
    size_t at = place_of(r, job, attempt);
    assert(at == r->count || compare(&r->takings[at], job, attempt) != 0); /* each has one taking */
    memmove(&r->takings[at + 1], &r->takings[at], (r->count - at) * sizeof *r->takings);
    r->count++;
    r->takings[at] = (taking){ .job = job, .attempt = attempt };
    *out = &r->takings[at];
    return HTC_OK;
}

static void strike(record *r, taking *t)
{
    size_t at = (size_t)(t - r->takings);
    assert(at < r->count);
    r->count--;
    memmove(t, t + 1, (r->count - at) * sizeof *t);
}

/* The nodes of a taking, added to bits that have none of them. */
static void load(const record *r, const taking *t, uint64_t *bits)
{
    htc_reader in = htc_reader_of(t->set);
    htc__bits_get(&in, bits, r->nodes);
}

static htc_status rewrite(record *r, taking *t, const uint64_t *bits)
{
    htc_buf_clear(&r->fresh);
    htc__bits_put(&r->fresh, bits, r->n);
    t->set = htc_buf_bytes(&r->fresh);
    return r->fresh.status;
}

/* ---- Sets of the caller's ---- */

/* Whether all of it lies in the partition. */
static int fits(const record *r, const htc_record_set *set)
{
    htc__run run;
    return !htc__bits_run(set->words, set->n, r->nodes, &run);
}

static uint64_t word_of(const htc_record_set *set, size_t i)
{
    return i < set->n ? set->words[i] : 0;
}

static int all_settled(const record *r, const htc_record_set *set)
{
    for (size_t i = 0; i < r->n; i++)
        if (word_of(set, i) & (r->idle[i] | r->held[i]))
            return 0;
    return 1;
}

/* ---- Changes ---- */

void htc_record_ask_init(htc_record_ask *ask)
{
    if (ask)
        *ask = (htc_record_ask)HTC_RECORD_ASK_INIT;
}

htc_status htc_record_create(const htc_env *env, uint32_t nodes, uint64_t list, htc_bytes *out)
{
    if (nodes == 0 || nodes > HTC_RECORD_NODES_MAX || !out)
        return HTC_EINVAL;
    record     r = { .env = env, .nodes = nodes, .list = list };
    htc_status status = allocate(&r, htc__bits_words(nodes));
    if (status == HTC_OK) {
        htc__bits_fill(r.idle, 0, nodes);
        status = write_record(&r, out);
    }
    close_record(&r);
    return status;
}

/* Up to `most` free nodes, lowest first, from idle to work. */
static uint32_t pick(record *r, const htc_record_set *among, uint32_t most)
{
    uint32_t left = most;
    for (size_t i = 0; i < r->n && left > 0; i++) {
        uint64_t w = r->idle[i] & ~r->down[i] & (among ? word_of(among, i) : UINT64_MAX), taken = w;
        uint32_t count = htc__bits_count(&w, 1);
        if (count > left) {
            for (uint32_t k = 0; k < left; k++)
                w &= w - 1;
            taken &= ~w;
            count = left;
        }
        r->idle[i] &= ~taken;
        r->work[i] = taken;
        left -= count;
    }
    return most - left;
}

static htc_status take(record *r, const htc_record_ask *ask, htc_bytes *out, htc_record_set *got)
{
    uint32_t   least = ask->least ? ask->least : ask->most;
    htc_status status = HTC_OK;
    if (ask->among && !fits(r, ask->among))
        return HTC_EINVAL;
    if (is_over(r, ask->job, ask->attempt))
        return HTC_MISMATCH;
    if (pick(r, ask->among, ask->most) < least)
        return HTC_AGAIN;
    taking *t = find(r, ask->job, ask->attempt);
    if (t) {
        /* Whatever else is held has been checked: held may serve for the sum of the two. */
        memset(r->held, 0, r->n * sizeof *r->held);
        load(r, t, r->held);
        for (size_t i = 0; i < r->n; i++)
            r->held[i] |= r->work[i];
        status = rewrite(r, t, r->held);
    } else {
        status = insert(r, ask->job, ask->attempt, &t);
        if (status == HTC_OK)
            status = rewrite(r, t, r->work);
    }
    return status == HTC_OK ? finish(r, out, got) : status;
}

htc_status htc_record_take(const htc_env *env, htc_bytes bytes, const htc_record_ask *ask, htc_bytes *out,
                           htc_record_set *got)
{
    htc_record_ask a = HTC_RECORD_ASK_INIT;
    record         r;
    if (!ask || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&a, sizeof a, ask, ask->size, offsetof(htc_record_ask, least));
    if (status != HTC_OK)
        return status;
    if (!job_ok(a.job, a.attempt) || a.most == 0 || a.least > a.most)
        return HTC_EINVAL;
    status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK)
        status = take(&r, &a, out, got);
    close_record(&r);
    return status;
}

static htc_status strike_off(const htc_env *env, htc_bytes bytes, htc_bytes job, uint64_t attempt, int to_idle,
                             htc_bytes *out, htc_record_set *got)
{
    record r;
    if (!job_ok(job, attempt) || !out)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    taking    *t = status == HTC_OK ? find(&r, job, attempt) : NULL;
    if (t) {
        load(&r, t, r.work);
        for (size_t i = 0; to_idle && i < r.n; i++)
            r.idle[i] |= r.work[i];
        strike(&r, t);
        status = finish(&r, out, got);
    } else if (status == HTC_OK) {
        status = HTC_ENOTFOUND;
    }
    close_record(&r);
    return status;
}

htc_status htc_record_settle(const htc_env *env, htc_bytes bytes, htc_bytes job, uint64_t attempt, htc_bytes *out)
{
    return strike_off(env, bytes, job, attempt, 0, out, NULL);
}

htc_status htc_record_release(const htc_env *env, htc_bytes bytes, htc_bytes job, uint64_t attempt, htc_bytes *out,
                              htc_record_set *got)
{
    return strike_off(env, bytes, job, attempt, 1, out, got);
}

static htc_status give(record *r, const htc_record_set *set)
{
    if (!all_settled(r, set))
        return HTC_MISMATCH;
    for (size_t i = 0; i < r->n; i++)
        r->idle[i] |= word_of(set, i);
    return HTC_OK;
}

static htc_status put_down(record *r, const htc_record_set *set)
{
    for (size_t i = 0; i < r->n; i++)
        r->down[i] |= word_of(set, i);
    return HTC_OK;
}

static htc_status put_up(record *r, const htc_record_set *set)
{
    for (size_t i = 0; i < r->n; i++)
        r->down[i] &= ~word_of(set, i);
    return HTC_OK;
}

static htc_status change(const htc_env *env, htc_bytes bytes, const htc_record_set *set,
                         htc_status (*how)(record *, const htc_record_set *), htc_bytes *out)
{
    record r;
    if (!set || !out)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK)
        status = fits(&r, set) ? how(&r, set) : HTC_EINVAL;
    if (status == HTC_OK)
        status = write_record(&r, out);
    close_record(&r);
    return status;
}

htc_status htc_record_give(const htc_env *env, htc_bytes bytes, const htc_record_set *set, htc_bytes *out)
{
    return change(env, bytes, set, give, out);
}

htc_status htc_record_down(const htc_env *env, htc_bytes bytes, const htc_record_set *set, htc_bytes *out)
{
    return change(env, bytes, set, put_down, out);
}

htc_status htc_record_up(const htc_env *env, htc_bytes bytes, const htc_record_set *set, htc_bytes *out)
{
    return change(env, bytes, set, put_up, out);
}

static htc_status unsettle(record *r, htc_bytes job, uint64_t attempt, const htc_record_set *set, htc_bytes *out)
{
    taking    *t = find(r, job, attempt);
    htc_status status = HTC_OK;
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = word_of(set, i);
    if (is_over(r, job, attempt))
        return HTC_MISMATCH;
    if (t) {
        htc_bytes there = t->set;
        status = rewrite(r, t, r->work);
        if (status == HTC_OK && !htc_bytes_equal(there, t->set))
            status = HTC_MISMATCH;
    } else if (!all_settled(r, set)) {
        status = HTC_MISMATCH;
    } else {
        status = insert(r, job, attempt, &t);
        if (status == HTC_OK)
            status = rewrite(r, t, r->work);
    }
    return status == HTC_OK ? write_record(r, out) : status;
}

htc_status htc_record_unsettle(const htc_env *env, htc_bytes bytes, htc_bytes job, uint64_t attempt,
                               const htc_record_set *set, htc_bytes *out)
{
    record r;
    if (!job_ok(job, attempt) || !set || htc_record_set_count(set) == 0 || !out)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK)
        status = fits(&r, set) ? unsettle(&r, job, attempt, set, out) : HTC_EINVAL;
    close_record(&r);
    return status;
}

htc_status htc_record_grow(const htc_env *env, htc_bytes bytes, uint32_t nodes, uint64_t list, htc_bytes *out)
{
    record r;
    if (nodes > HTC_RECORD_NODES_MAX || !out)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, nodes);
    if (status == HTC_OK && nodes < r.nodes)
        status = HTC_EINVAL;
    if (status == HTC_OK) {
        htc__bits_fill(r.idle, r.nodes, nodes);
        r.nodes = nodes;
        r.list = list;
        status = write_record(&r, out);
    }
    close_record(&r);
    return status;
}

/* ---- Looking ---- */

htc_status htc_record_count(const htc_env *env, htc_bytes bytes, htc_record_summary *summary)
{
    record r;
    if (!summary)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK) {
        for (size_t i = 0; i < r.n; i++)
            r.work[i] = r.idle[i] & ~r.down[i];
        uint32_t idle = htc__bits_count(r.idle, r.n), taken = htc__bits_count(r.held, r.n);
        *summary = (htc_record_summary){ .nodes = r.nodes,
                                         .free = htc__bits_count(r.work, r.n),
                                         .down = htc__bits_count(r.down, r.n),
                                         .taken = taken,
                                         .settled = r.nodes - idle - taken,
                                         .takings = (uint32_t)r.count,
                                         .list = r.list };
    }
    close_record(&r);
    return status;
}

static uint64_t part_of(const record *r, size_t i, htc_record_part part)
{
    switch (part) {
    case HTC_RECORD_FREE:
        return r->idle[i] & ~r->down[i];
    case HTC_RECORD_IDLE:
        return r->idle[i];
    case HTC_RECORD_DOWN:
        return r->down[i];
    case HTC_RECORD_TAKEN:
        return r->held[i];
    case HTC_RECORD_SETTLED:
        return ~r->idle[i] & ~r->held[i];
    }
    return 0;
}

/* The bits of work are what was asked for. */
static htc_status answer(const record *r, htc_record_set *set)
{
    htc_status status = htc__record_set_reserve(set, r->n);
    if (status == HTC_OK)
        htc__record_set_assign(set, r->work, r->n);
    return status;
}

htc_status htc_record_nodes(const htc_env *env, htc_bytes bytes, uint32_t part, htc_record_set *set)
{
    record r;
    if (!set || part < HTC_RECORD_FREE || part > HTC_RECORD_SETTLED)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK) {
        for (size_t i = 0; i < r.n; i++)
            r.work[i] = part_of(&r, i, (htc_record_part)part);
        htc__bits_wipe(r.work, r.nodes, 64 * r.n);
        status = answer(&r, set);
    }
    close_record(&r);
    return status;
}

htc_status htc_record_taking_at(const htc_env *env, htc_bytes bytes, uint32_t i, htc_record_taking *out,
                                htc_record_set *set)
{
    record r;
    if (!out)
        return HTC_EINVAL;
    htc_status status = open_record(&r, env, bytes, 0);
    if (status == HTC_OK && i >= r.count)
        status = HTC_ENOTFOUND;
    if (status == HTC_OK) {
        load(&r, &r.takings[i], r.work);
        status = set ? answer(&r, set) : HTC_OK;
    }
    if (status == HTC_OK)
        *out = (htc_record_taking){ r.takings[i].job, r.takings[i].attempt, htc__bits_count(r.work, r.n) };
    close_record(&r);
    return status;
}

uint32_t htc_record_judge(uint64_t attempt, uint64_t job_attempt, uint32_t job)
{
    if (job == HTC_RECORD_JOB_GONE || job_attempt > attempt)
        return HTC_RECORD_RELEASE;
    if (job_attempt < attempt)
        return HTC_RECORD_WAIT;
    return job == HTC_RECORD_JOB_COMMITTED ? HTC_RECORD_SETTLE
           : job == HTC_RECORD_JOB_ENDED   ? HTC_RECORD_GO_BACK
                                           : HTC_RECORD_WAIT;
}
