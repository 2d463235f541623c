/* tasks and results: a job's tasks page by page, chunk after chunk. */
#include <sodium.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define CHUNKS_OF_ONE 64 /* chunks looked at for one answer */
#define MANIFESTS_OF_ONE (1u << 20) /* bytes of manifests in one answer: what keeps it within one message */
#define MANIFEST_PIECE (256u << 10)  /* longer than any line of one */
#define RESULTS_AT_ONCE 64 /* result records asked for together */

typedef struct listing {
    request *q;
    job     *job;
    uint64_t index, last, limit; /* next task to look at; last one wanted */
    uint32_t chunks;
    uint8_t  results, failed_only, whole, cores; /* whole: from the first task on, without a choice; cores: they are asked for */
    char     state_name[16]; /* wanted; empty: every */
    uint32_t n;              /* results asked for */
    htc_attempt asked[RESULTS_AT_ONCE];
    int32_t     status[RESULTS_AT_ONCE];
    size_t      place[RESULTS_AT_ONCE]; /* in the list of tasks that is being made */
    /* outputs: results whose manifests are being read, one after the other */
    uint64_t    manifest[RESULTS_AT_ONCE]; /* its bytes */
    uint32_t    naming;
    uint64_t    cursor, cursor_of; /* what was read of the manifest of that task */
    uint64_t    bytes;             /* of manifests in this answer */
} listing;

static const char *state_name(const job *j, const task *t)
{
    switch ((task_state)t->state) {
    case TASK_NEW: return j->cancelled ? "cancelled" : "waiting";
    case TASK_WAITING: return "waiting";
    case TASK_LEASED:
        return t->phase == HTC_HELD_RUNNING ? "running" : t->phase > HTC_HELD_RUNNING ? "staging_out" : "leased";
    case TASK_RETRY_WAIT: return "retry_wait";
    case TASK_DONE: return "done";
    case TASK_FAILED: return "failed";
    case TASK_CANCELLED: return "cancelled";
    }
    return "?";
}

static int is_state(const char *name)
{
    static const char *const names[] = { "waiting", "leased", "running", "staging_out", "retry_wait", "done", "failed",
                                         "cancelled" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

static void finish(htc_gateway *gw, listing *l, htc_status status)
{
    request *q = l->q;
    if (status != HTC_OK) {
        htc__gw_req_fail(gw, q, status, "", "the tasks of job %llu could not be read: %s", (unsigned long long)l->job->id,
                         htc_strerror(status));
    } else {
        json_t *list = q->answer;
        q->answer = NULL;
        json_t *o = json_pack("{s:I,s:o,s:o}", "job", (json_int_t)l->job->id, l->results ? "results" : "tasks", list, "next",
                              l->index <= l->last && l->index < l->job->count ? json_integer((json_int_t)l->index) : json_null());
        if (o && l->results)
            json_object_set_new(o, "next_output", json_integer(l->index == l->cursor_of ? (json_int_t)l->cursor : 0));
        htc__gw_req_answer(gw, q, o);
    }
    htc__gw_job_release(gw, l->job);
    htc_runtime_context_free(gw->runtime, l);
}

static json_t *wall_of(const htc_gateway *gw, htc_ns moment)
{
    /* A moment of the gateway's own clock, as people read it. */
    double ago = gw->now >= moment ? (double)(gw->now - moment) / 1e9 : -(double)(moment - gw->now) / 1e9;
    return json_real((double)gw->wall / 1e9 - ago);
}

static json_t *task_json(const htc_gateway *gw, const job *j, uint64_t index, const task *t)
{
    json_t *o = json_pack("{s:I,s:s,s:I,s:I,s:I}", "index", (json_int_t)index, "state", state_name(j, t), "attempt",
                          (json_int_t)t->attempt, "tries", (json_int_t)t->tries, "lost", (json_int_t)t->lost);
    if (!o)
        return NULL;
    const agent *a = t->state == TASK_LEASED ? htc__gw_agent((htc_gateway *)gw, t->agent) : NULL;
    if (t->state == TASK_LEASED)
        json_object_set_new(o, "agent", json_integer((json_int_t)t->agent));
    if (a)
        json_object_set_new(o, "node", json_string(a->node));
    if (t->status != HTC_OK) {
        json_object_set_new(o, "status", json_string(htc_status_name((htc_status)t->status)));
        json_object_set_new(o, "reason", json_string(htc_strerror((htc_status)t->status)));
    }
    const raised *up = htc__gw_raised(j, t->level);
    if (up && up->memory)
        json_object_set_new(o, "memory", json_integer((json_int_t)up->memory));
    if (up && up->time_limit_s > 0)
        json_object_set_new(o, "time_limit", json_real(up->time_limit_s));
    if (t->state == TASK_RETRY_WAIT)
        json_object_set_new(o, "not_before", wall_of(gw, t->since));
    else if (t->state == TASK_LEASED)
        json_object_set_new(o, "since", wall_of(gw, t->since));
    return o;
}

/* The selector may name several ranges of tasks; the walk goes from the first to the end of the last. */
static int named(const request *q, uint64_t index)
{
    for (uint32_t i = 0; i < q->select.n_ranges; i++)
        if (index >= q->select.ranges[i].from && index <= q->select.ranges[i].to)
            return 1;
    return !q->select.has_tasks;
}

static int wanted(const listing *l, const task *t)
{
    if (l->failed_only)
        return t->state == TASK_FAILED;
    return l->state_name[0] == '\0' || strcmp(l->state_name, state_name(l->job, t)) == 0;
}

/* ---- results ---- */

/* JSON numbers end at 2^63 - 1, and an agent may say any. */
static json_int_t said(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (json_int_t)n;
}

static json_t *outcome_json(const htc_attempt *at, const htc_outcome *o)
{
    char               hex[65] = "";
    const htc_outputs *x = &o->outputs;
    if (x->manifest_bytes)
        sodium_bin2hex(hex, sizeof hex, x->manifest, 32);
    json_t *summary = json_pack("{s:I,s:I,s:I,s:I,s:I,s:s,s:I}", "files", said(x->files), "dirs", said(x->dirs), "links",
                                said(x->links), "errors", said(x->errors), "bytes", said(x->bytes), "manifest", hex,
                                "manifest_bytes", said(x->manifest_bytes));
    json_t *v = json_pack("{s:I,s:I,s:s,s:i,s:I,s:f,s:f,s:f,s:I,s:s,s:s,s:o,s:[]}", "index", (json_int_t)at->task, "attempt",
                          (json_int_t)at->attempt, "status", htc_status_name(o->status), "exit_code", (int)o->exit_code,
                          "signal", (json_int_t)o->signal, "started", (double)o->started / 1e9, "ended",
                          (double)o->ended / 1e9, "cpu_s", (double)o->cpu_ns / 1e9, "memory_peak", said(o->memory_peak),
                          "node", o->node, "reason", o->reason, "summary", summary, "outputs");
    if (v && o->status != HTC_OK && o->stderr_tail.len) {
        json_t *tail = json_stringn(o->stderr_tail.data, o->stderr_tail.len);
        json_object_set_new(v, "stderr_tail", tail ? tail : json_string("(not text)"));
    }
    return v;
}

/* The document says how many it has, on all its nodes together. */
static json_t *with_cores(htc_gateway *gw, const listing *l, uint64_t index, json_t *result)
{
    task_width   width;
    counted_need taking;
    if (!l->cores || !l->job->spec || !result)
        return result;
    (void)htc__gw_task_needs(gw, l->job, index, &width, &taking);
    json_object_set_new(result, "cores", json_integer((json_int_t)width.slots));
    return result;
}

static void walk(htc_gateway *gw, listing *l);

/* What a listed task's last attempt came to: where it ran, and the reason in the agent's own words. */
static void add_outcome(json_t *listed, const htc_outcome *o)
{
    if (!listed)
        return;
    if (o->node[0] && !json_object_get(listed, "node"))
        json_object_set_new(listed, "node", json_string(o->node));
    if (o->reason[0])
        json_object_set_new(listed, "reason", json_string(o->reason));
    if (o->started)
        json_object_set_new(listed, "started", json_real((double)o->started / 1e9));
    if (o->ended) {
        json_object_set_new(listed, "ended", json_real((double)o->ended / 1e9));
        json_object_set_new(listed, "exit_code", json_integer(o->exit_code));
        json_object_set_new(listed, "signal", json_integer((json_int_t)o->signal));
    }
}

/* ---- the outputs of the results that were found ---- */

static void name_outputs(htc_gateway *gw, listing *l);

/* Results that were asked for stand in the answer in their order, null until they are found. */
static json_t *found(const listing *l, uint32_t i)
{
    json_t *v = json_array_get(l->q->answer, l->place[i]);
    return json_is_object(v) ? v : NULL;
}

static void forget_missing(listing *l)
{
    for (uint32_t i = l->n; i > 0; i--)
        if (!found(l, i - 1))
            json_array_remove(l->q->answer, l->place[i - 1]);
    l->n = 0;
}

/* What was found after the present one is for the next answer, which begins at that task. */
static void page_ends(htc_gateway *gw, listing *l, uint64_t index)
{
    while (json_array_size(l->q->answer) > l->place[l->naming] + 1)
        json_array_remove(l->q->answer, json_array_size(l->q->answer) - 1);
    l->n = l->naming + 1;
    forget_missing(l);
    l->index = index;
    finish(gw, l, HTC_OK);
}

static void manifest_read(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    listing   *l = ctx;
    json_t    *v = found(l, l->naming);
    htc_reader r = htc_reader_of(body);
    uint64_t   size = status == HTC_OK ? htc_get_u64(&r) : 0;
    htc_bytes  piece = status == HTC_OK ? htc_get_bytes(&r) : (htc_bytes){ NULL, 0 };
    size_t     taken = 0;
    if (status == HTC_OK && r.status != HTC_OK)
        status = HTC_EPROTO;
    if (status == HTC_OK && (l->cursor >= size || size != l->manifest[l->naming]))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = htc__gw_manifest_entries(piece, json_object_get(v, "outputs"), &taken);
    l->cursor += taken;
    l->bytes += taken;
    if (status != HTC_OK) {
        json_object_set_new(v, "outputs_error", json_string(htc_status_name(status)));
        l->cursor = l->manifest[l->naming];
    }
    name_outputs(gw, l);
}

static void ask_manifest(htc_gateway *gw, listing *l)
{
    const htc_attempt *at = &l->asked[l->naming];
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, at->job);
    htc_put_u64(&gw->scratch, at->task);
    htc_put_u32(&gw->scratch, at->attempt);
    htc_put_str(&gw->scratch, "");
    htc_put_u64(&gw->scratch, l->cursor);
    htc_put_u32(&gw->scratch, MANIFEST_PIECE);
    htc__gw_file_ask(gw, HTC_CALL_FILE_READ, NULL, manifest_read, l);
}

static void name_outputs(htc_gateway *gw, listing *l)
{
    for (; l->naming < l->n; l->naming++) {
        uint64_t index = l->asked[l->naming].task;
        if (!found(l, l->naming))
            continue;
        if (l->cursor_of != index) {
            l->cursor_of = index;
            l->cursor = 0;
        }
        int more = l->cursor < l->manifest[l->naming], full = l->bytes >= MANIFESTS_OF_ONE;
        if (more && !full) {
            ask_manifest(gw, l);
            return;
        }
        if (full) {
            page_ends(gw, l, more ? index : index + 1);
            return;
        }
    }
    forget_missing(l);
    walk(gw, l);
}

static void result_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    listing           *l = ctx;
    const htc_attempt *at = &l->asked[r->index];
    htc_outcome        o = { .status = (htc_status)l->status[r->index] };
    /* One that was cancelled before it ran has no record; its state says all. */
    if (r->status == HTC_OK && htc__gw_record_result_read(r->value, &o) != HTC_OK)
        o = (htc_outcome){ .status = HTC_ECORRUPT };
    int on_its_way = r->status == HTC_ENOTFOUND && o.status != HTC_ECANCELLED; /* to the store: it is listed later */
    if (l->results && !on_its_way) {
        json_array_set_new(l->q->answer, l->place[r->index], with_cores(gw, l, at->task, outcome_json(at, &o)));
        l->manifest[r->index] = o.outputs.manifest_bytes;
    } else if (r->status == HTC_OK) {
        add_outcome(json_array_get(l->q->answer, l->place[r->index]), &o);
    }
    if (r->last && l->results) {
        l->naming = 0;
        name_outputs(gw, l);
    } else if (r->last) {
        l->n = 0;
        walk(gw, l);
    }
}

static void ask_results(htc_gateway *gw, listing *l)
{
    htc_kv_request rq[RESULTS_AT_ONCE];
    key            keys[RESULTS_AT_ONCE];
    for (uint32_t i = 0; i < l->n; i++) {
        keys[i] = htc__gw_key_result(l->asked[i].job, l->asked[i].task, l->asked[i].attempt);
        rq[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&keys[i]) };
    }
    htc_runtime_ask(gw->runtime, rq, l->n, result_read, l);
}

static int ended(const task *t)
{
    return t->state == TASK_DONE || t->state == TASK_FAILED || t->state == TASK_CANCELLED;
}

/* What a list says of a task beside its state: how its last attempt ended. */
static int says_more(const task *t)
{
    return t->attempt && (t->state == TASK_RETRY_WAIT || ended(t));
}

/* Its place in the answer is known; what it says is in the chunk, or in a record that is to be asked for. */
static void take_result(htc_gateway *gw, listing *l, uint64_t index, const chunk *c, const task *t, size_t place)
{
    htc_attempt at = { l->job->id, index, t->attempt };
    htc_outcome o;
    if (t->brief[0]) {
        htc__gw_brief_get(c, t, l->job->submitted, &o);
        if (l->results)
            json_array_append_new(l->q->answer, with_cores(gw, l, index, outcome_json(&at, &o)));
        else
            add_outcome(json_array_get(l->q->answer, place), &o);
        return;
    }
    if (l->results)
        json_array_append_new(l->q->answer, json_null());
    l->place[l->n] = place;
    l->asked[l->n] = (htc_attempt){ l->job->id, index, t->attempt };
    l->status[l->n++] = t->state == TASK_CANCELLED ? HTC_ECANCELLED : t->status;
}

/* ---- chunk after chunk ---- */

/* Take what is wanted of one chunk (NULL: it was never begun); 1 if results were asked for and the walk goes on with them. */
static int take_chunk(htc_gateway *gw, listing *l, chunk *c)
{
    static const task untouched = { .state = TASK_NEW };
    const job        *j = l->job;
    uint64_t          end = (l->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
    if (end > l->last + 1)
        end = l->last + 1;
    l->chunks++;
    /* In a chunk that was never begun all tasks are alike: skip it whole where they are not wanted. */
    if (!c && (l->results || !wanted(l, &untouched)))
        l->index = end;
    for (; l->index < end && l->n < RESULTS_AT_ONCE; l->index++) {
        size_t      listed = json_array_size(l->q->answer);
        const task *t = c ? &c->tasks[l->index % CHUNK_TASKS] : &untouched;
        if (listed >= l->limit)
            break;
        if (!named(l->q, l->index) || !wanted(l, t))
            continue;
        if (l->results) {
            if (ended(t))
                take_result(gw, l, l->index, c, t, listed);
            continue;
        }
        json_array_append_new(l->q->answer, task_json(gw, j, l->index, t));
        if (says_more(t))
            take_result(gw, l, l->index, c, t, listed);
    }
    if (l->n)
        ask_results(gw, l);
    return l->n != 0;
}

/* Tasks of a chunk that cannot be read are named as such; they do not keep the others from being listed. */
static void take_damaged(listing *l)
{
    uint64_t end = (l->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
    l->chunks++;
    for (; l->index < end && l->index <= l->last && json_array_size(l->q->answer) < l->limit; l->index++) {
        if (!named(l->q, l->index))
            continue;
        json_t *o = json_pack("{s:I,s:s,s:i,s:i,s:i,s:s,s:s}", "index", (json_int_t)l->index, "state", "unreadable", "attempt", 0,
                              "tries", 0, "lost", 0, "status", htc_status_name(HTC_ECORRUPT), "reason", htc_strerror(HTC_ECORRUPT));
        if (o && l->results)
            json_object_update_new(o, json_pack("{s:i,s:[]}", "exit_code", 0, "outputs"));
        json_array_append_new(l->q->answer, o);
    }
}

static void chunk_came(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status)
{
    listing *l = ctx;
    (void)j;
    if (status == HTC_ECORRUPT) {
        take_damaged(l);
        walk(gw, l);
    } else if (status != HTC_OK)
        finish(gw, l, status);
    else if (!take_chunk(gw, l, c))
        walk(gw, l);
}

/* Tasks that agents hold, or that wait to be tried again: their chunks are in memory, and their number is known. */
static int is_in_memory(const listing *l)
{
    static const char *const names[] = { "leased", "running", "staging_out", "retry_wait" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(l->state_name, names[i]) == 0)
            return 1;
    return 0;
}

/* There are no more of what is wanted, by the job's own counts: none at all, or as many as were found from its first task on. */
static int none_is_left(const listing *l)
{
    const counts *n = &l->job->now;
    uint64_t      found = l->whole ? json_array_size(l->q->answer) : 0;
    return ((l->failed_only || strcmp(l->state_name, "failed") == 0) && n->failed == found) ||
           (is_in_memory(l) && (strcmp(l->state_name, "retry_wait") == 0 ? n->retry_wait : n->leased) == found);
}

/* Of such states only chunks in memory matter, however many lie between them. Cost: O(chunks in memory). */
static void go_to_chunk_in_memory(listing *l)
{
    uint64_t at = l->index / CHUNK_TASKS, best = UINT64_MAX;
    for (const chunk *c = l->job->chunks; c; c = c->hh.next)
        if (c->index >= at && c->index < best)
            best = c->index;
    if (best == UINT64_MAX)
        l->index = l->last + 1;
    else if (best > at)
        l->index = best * CHUNK_TASKS;
}

static void walk(htc_gateway *gw, listing *l)
{
    int in_memory = is_in_memory(l);
    if (in_memory)
        go_to_chunk_in_memory(l);
    while (l->index <= l->last && !none_is_left(l) && json_array_size(l->q->answer) < l->limit && l->chunks < CHUNKS_OF_ONE &&
           l->bytes < MANIFESTS_OF_ONE) {
        uint64_t index = l->index / CHUNK_TASKS;
        chunk   *c = htc__gw_chunk(l->job, index);
        /* An open job has all in memory that lies ahead of what was handed out. */
        if (!c && l->job->open && l->index >= l->job->next && l->results)
            l->index = l->last + 1;
        else if (!c && !(l->job->open && index * CHUNK_TASKS >= l->job->next)) {
            htc__gw_chunk_load(gw, l->job, index, chunk_came, l);
            return;
        } else if (take_chunk(gw, l, c)) {
            return;
        } else if (in_memory && json_array_size(l->q->answer) < l->limit) {
            go_to_chunk_in_memory(l);
        }
    }
    if (none_is_left(l))
        l->index = l->last + 1;
    finish(gw, l, HTC_OK);
}

/* One that has ended is in memory without its document. */
static void spec_came(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    listing     *l = ctx;
    htc_status   status = r->status == HTC_OK ? htc_spec_from_bytes(&gw->env, r->value, &l->job->spec) : r->status;
    if (status != HTC_OK)
        finish(gw, l, status);
    else
        walk(gw, l);
}

static void ask_spec(htc_gateway *gw, listing *l)
{
    key k = htc__gw_key_spec(l->job->id);
    htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, spec_came, l);
}

static void list_job(htc_gateway *gw, request *q, job *j)
{
    const char *state = htc__gw_req_str(q, "state");
    uint64_t    from = htc__gw_req_u64(q, "from", 0), limit = htc__gw_req_u64(q, "limit", 500), last = j->count - 1;
    uint64_t    most = htc__gw_req_flag(q, "cores") ? 500 : 5000; /* each of these tasks is expanded */
    if (q->select.has_tasks) {
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t i = 0; i < q->select.n_ranges; i++) {
            low = q->select.ranges[i].from < low ? q->select.ranges[i].from : low;
            high = q->select.ranges[i].to > high ? q->select.ranges[i].to : high;
        }
        from = from < low ? low : from;
        last = last > high ? high : last;
        if (low >= j->count) {
            htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "its tasks count from 0", "job %llu has %llu task%s, and none with index %llu",
                             (unsigned long long)j->id, (unsigned long long)j->count, htc__plural(j->count), (unsigned long long)low);
            return;
        }
    }
    if (state && !is_state(state)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "waiting, leased, running, staging_out, retry_wait, done, failed or cancelled",
                         "'%.40s' is not a state of a task", state);
        return;
    }
    listing *l = htc_runtime_context(gw->runtime, sizeof *l);
    if (!l)
        return;
    l->q = q;
    l->job = j;
    l->results = strcmp(q->op, "results") == 0;
    l->failed_only = htc__gw_req_flag(q, "failed") != 0;
    l->index = l->cursor_of = from;
    l->cores = l->results && htc__gw_req_flag(q, "cores");
    l->whole = !l->results && from == 0 && !q->select.has_tasks;
    l->cursor = l->results ? htc__gw_req_u64(q, "from_output", 0) : 0;
    l->last = last;
    l->limit = limit < 1 ? 1 : limit > most ? most : limit;
    if (state)
        strcpy(l->state_name, state);
    q->answer = json_array();
    htc__gw_job_hold(j);
    if (l->cores && !j->spec)
        ask_spec(gw, l);
    else
        walk(gw, l);
}

static void list_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    if (n == 1)
        htc__gw_with_job(gw, q, ids[0], list_job);
    else
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one job", n ? "this works on one job at a time" : "there is no job");
}

void htc__gw_api_tasks(htc_gateway *gw, request *q)
{
    htc__gw_select(gw, q, list_selected);
}

void htc__gw_api_results(htc_gateway *gw, request *q)
{
    htc__gw_select(gw, q, list_selected);
}
