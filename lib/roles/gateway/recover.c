/* The start: users, agents and open jobs come back from the store; then the gateway is ready.
 *
 *   users -> the operator's own -> agents -> sites out of service -> devices that tasks have -> projects -> quotas -> usage of long ago -> usage of days -> what is being removed -> all jobs, for their sums -> the list of open jobs ->
 *   each open job: record, specification, chunks -> ready */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

typedef struct recovery {
    uint64_t *ids; /* of open jobs */
    struct open_mark {
        uint64_t version, term;
        int      again;
    } mark; /* of the one being read */
    uint64_t stray; /* the version of its record, which is made void */
    size_t    n, cap, at;
    job      *job; /* the one being read */
    uint8_t   gap; /* job->next is settled */
    uint8_t   sure; /* what was read of it was written before any later term began */
    uint64_t  expect; /* index of the next chunk if none is missing */
    void (*opened)(htc_gateway *gw, void *ctx, job *j); /* of htc__gw_job_open */
    void *ctx;
} recovery;

static void next_job(htc_gateway *gw, recovery *rec);

static int answered(htc_gateway *gw, const htc_kv_result *r)
{
    if (r->status == HTC_OK)
        return 1;
    htc_runtime_break(gw->runtime, r->status, "reading the state back from the store");
    return 0;
}

/* ---- ready ---- */

static void ready(htc_gateway *gw, recovery *rec)
{
    int for_one = rec->opened != NULL;
    if (rec->ids)
        htc_runtime_context_free(gw->runtime, rec->ids);
    htc_runtime_context_free(gw->runtime, rec);
    if (for_one)
        return;
    assert(gw->phase == PHASE_RECOVERING);
    if (htc__gw_shared(gw))
        htc__gw_seal(gw);
    else
        htc__gw_serve(gw);
}

void htc__gw_serve(htc_gateway *gw)
{
    agent *a, *next;
    htc__gw_taken_sweep(gw, 1);
    gw->phase = gw->shutdown && htc__gw_shared(gw) ? PHASE_HANDING : PHASE_READY;
    gw->remove_at = gw->served_at = gw->now;
    htc__gw_mails_recover(gw);
    if (!htc__gw_shared(gw))
        htc__gw_usage_settle(gw); /* else before the seal */
    htc__gw_quotas_look(gw);
    htc_runtime_ids_reserve(gw->agent_ids);
    htc__gw_reallocate_soon(gw);
    htc__gw_content_begin(gw);
    uint32_t agents = HASH_COUNT(gw->agents);
    HASH_ITER(hh, gw->agents, a, next)
    a->heard = gw->now; /* each has lost_after from now on to come back */
    htc__log_with(&gw->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("users", HASH_COUNT(gw->users)), HTC__NUMBER("jobs", HASH_COUNT(gw->jobs)),
                              HTC__NUMBER("agents", agents), HTC__NUMBER("slots", gw->slots)),
                  "ready: %u user%s, %u open job%s, %u agent%s to come back, %u slot%s", HASH_COUNT(gw->users), htc__plural(HASH_COUNT(gw->users)),
                  HASH_COUNT(gw->jobs), htc__plural(HASH_COUNT(gw->jobs)), agents, htc__plural(agents), gw->slots, htc__plural(gw->slots));
}

/* ---- one job ---- */

/* Leases go back to their agents, or are lost with them. */
static void settle_tasks(htc_gateway *gw, job *j)
{
    chunk *c, *next;
    HASH_ITER(hh, j->chunks, c, next)
    {
        for (uint32_t i = 0; i < c->n; i++) {
            task       *t = &c->tasks[i];
            htc_attempt at = { j->id, c->index * CHUNK_TASKS + i, t->attempt };
            t->since = gw->now;
            if (j->cancelled && (t->state == TASK_WAITING || t->state == TASK_RETRY_WAIT)) {
                htc__gw_task_set(gw, c, i, TASK_CANCELLED);
                htc__gw_chunk_dirty(gw, c, NULL);
            } else if (t->state == TASK_WAITING) {
                htc__gw_task_queue(gw, j, at.task, 1);
            } else if (t->state == TASK_RETRY_WAIT) {
                t->since = gw->now + gw->options.retry_backoff_ns;
                htc__gw_due_add(gw, t->since, j->id, at.task);
            } else if (t->state == TASK_LEASED) {
                agent *has = htc__gw_agent(gw, t->agent), *a = has && has->state == AGENT_LOST ? NULL : has;
                t->phase = HTC_HELD_WAITING;
                t->cancel |= j->cancelled;
                task_width   w;
                counted_need taking;
                uint64_t     named = has ? htc__gw_task_needs(gw, j, at.task, &w, &taking) : 0;
                uint64_t     bytes = has ? htc__site_needs(&gw->sites[has->site], named, w.part) : 0;
                if (a && htc__gw_agent_hold(gw, a, &at, 0, bytes, w.part) && w.members == 1)
                    htc__gw_take_again(gw, a, &at, &taking);
                if (a && w.members > 1 && !htc__gw_gang_again(gw, j, a, &at, &w, &taking, bytes)) {
                    htc__gw_agent_unhold(gw, a, &at);
                    htc__gw_task_lost(gw, &at, t->agent, "a member of its gang is gone");
                } else if (!a) {
                    if (has)
                        htc__gw_taken_owe_again(gw, has, &at, bytes);
                    htc__gw_task_lost(gw, &at, t->agent, "its agent is gone");
                }
            }
        }
    }
}

static void count_bytes(htc_gateway *gw, const job *j, uint64_t bytes)
{
    project *p = htc__gw_project(gw, j->wishes.project);
    j->user->bytes += bytes;
    if (p)
        p->bytes += bytes;
}

static void job_complete(htc_gateway *gw, recovery *rec);

static void job_confirmed(void *role, void *ctx, htc_status status)
{
    recovery *rec = ctx;
    if (status != HTC_OK)
        return;
    rec->sure = 1;
    job_complete(role, rec);
}

/* One that is opened while others are served was read now: it is written on only if this gateway's term held after that. Of all that is read at the
 * start this is looked at once, before the seal. */
static void job_complete(htc_gateway *gw, recovery *rec)
{
    job   *j = rec->job;
    chunk *c, *next;
    if (rec->opened && !rec->sure && htc__gw_shared(gw)) {
        htc__gw_confirm(gw, job_confirmed, rec);
        return;
    }
    if (!rec->gap)
        j->next = rec->expect * CHUNK_TASKS < j->count ? rec->expect * CHUNK_TASKS : j->count;
    counts *n = &j->now;
    n->fresh = j->count - n->waiting - n->leased - n->retry_wait - n->done - n->failed - n->cancelled;
    rec->job = NULL;
    j->walks = rec->opened != NULL;
    if (!rec->opened) {
        j->user->core_ns = htc__quota_sum(j->user->core_ns, n->used.core_ns);
        j->user->tasks_done += n->done;
        count_bytes(gw, j, n->used.bytes);
    }
    if (j->key[0] && !rec->opened && htc__gw_shared(gw))
        htc__gw_known_key_set(gw, j->user->name, j->key, j->id);
    htc__gw_job_add(gw, j);
    htc__gw_job_hold(j);
    settle_tasks(gw, j);
    HASH_ITER(hh, j->chunks, c, next)
    htc__gw_chunk_settle(gw, c);
    htc__gw_edges_opened(gw, j);
    if (rec->opened)
        rec->opened(gw, rec->ctx, j);
    htc__gw_job_check(gw, j);
    htc__gw_job_release(gw, j);
    next_job(gw, rec);
}

/* Parents may have ended when there was no gateway to note it. */
static void parents_looked(htc_gateway *gw, void *ctx, htc_status status, uint64_t parent)
{
    (void)parent;
    if (status == HTC_OK)
        job_complete(gw, ctx);
    else
        htc_runtime_break(gw->runtime, status, "reading the job that another one waits for");
}

int htc__gw_chunk_index(const job *j, htc_bytes name, uint64_t *index)
{
    char  digits[17];
    char *end;
    if (name.len != 2 + 16 + 1 + 16)
        return 0;
    memcpy(digits, (const char *)name.data + 19, 16);
    digits[16] = '\0';
    *index = strtoull(digits, &end, 16);
    return !*end && *index < htc__gw_job_chunks(j);
}

static void take_chunk(htc_gateway *gw, recovery *rec, const htc_kv_item *item)
{
    job     *j = rec->job;
    uint64_t index;
    if (!htc__gw_chunk_index(j, item->key, &index)) {
        htc__gw_unreadable(gw, "reading a chunk's key");
        return;
    }
    if (index < j->low)
        return;
    if (!rec->gap && index > rec->expect) {
        rec->gap = 1;
        j->next = rec->expect * CHUNK_TASKS;
    }
    chunk *c = htc__gw_chunk_new(gw, j, index);
    if (!c)
        return;
    c->version = item->version;
    if (rec->gap && index > j->next / CHUNK_TASKS)
        htc__gw_chunk_ahead(gw, c, 1);
    if (htc__gw_record_chunk_read(item->value, c) != HTC_OK) {
        htc__gw_unreadable(gw, "reading a chunk record");
        return;
    }
    htc__gw_chunk_read_done(gw, c);
    c->open = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        c->open += c->tasks[i].state < TASK_DONE;
        if (c->tasks[i].state == TASK_NEW && !rec->gap) {
            rec->gap = 1;
            j->next = index * CHUNK_TASKS + i;
        }
    }
    htc__gw_chunk_count(&j->now, c);
    rec->expect = index + 1;
    if (!rec->gap) {
        j->next = rec->expect * CHUNK_TASKS < j->count ? rec->expect * CHUNK_TASKS : j->count;
        if (htc__gw_shared(gw) && !rec->opened)
            htc__gw_chunk_dirty(gw, c, NULL); /* it stays until it is written anew */
        htc__gw_chunk_settle(gw, c); /* complete: its counts are all that is needed */
    }
}

static void chunks_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    recovery   *rec = ctx;
    htc_kv_item item;
    size_t      at = 0;
    if (!answered(gw, r))
        return;
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc__gw_reads(gw); i++)
        if (htc_kv_result_item(r, &at, &item) == HTC_OK)
            take_chunk(gw, rec, &item);
    if (!htc__gw_reads(gw))
        return;
    if (next.len == 0) {
        htc__gw_edges_look(gw, rec->job, 0, parents_looked, rec);
        return;
    }
    key k = htc__gw_key_chunks(rec->job->id);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), &next, 0, chunks_page, rec);
}

static void skip_job(htc_gateway *gw, recovery *rec)
{
    uint64_t id = rec->ids[rec->at - 1];
    if (rec->job)
        htc__gw_job_free(gw, rec->job);
    rec->job = NULL;
    htc__gw_delete_of(gw, htc__gw_key_open(id), rec->mark.version);
    if (rec->opened)
        rec->opened(gw, rec->ctx, NULL);
    next_job(gw, rec);
}

static void read_chunks(htc_gateway *gw, recovery *rec)
{
    key k = htc__gw_key_chunks(rec->job->id);
    rec->gap = 0;
    rec->expect = rec->job->low;
    rec->job->next = rec->job->low * CHUNK_TASKS;
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), NULL, 0, chunks_page, rec);
}

static void credentials_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    recovery    *rec = ctx;
    if (r->status != HTC_ENOTFOUND && !answered(gw, r))
        return;
    htc_status status = r->status == HTC_OK ? htc__gw_credentials_read(gw, rec->job, r->value) : HTC_OK; /* it is being removed: no task begins any more */
    if (status == HTC_OK)
        read_chunks(gw, rec);
    else if (status != HTC_ENOMEM)
        htc__gw_unreadable(gw, "reading what a job fetches with");
}

static void spec_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    recovery *rec = ctx;
    if (r->status == HTC_OK) {
        htc_status status = htc_spec_from_bytes(&gw->env, r->value, &rec->job->spec);
        if (status != HTC_OK) {
            if (status == HTC_ENOMEM)
                htc_runtime_break(gw->runtime, status, "reading a job's specification");
            else
                htc__gw_unreadable(gw, "reading a job's specification");
            return;
        }
        if (!rec->job->wishes.credentials) {
            read_chunks(gw, rec);
            return;
        }
        key k = htc__gw_key_credentials(rec->job->id);
        htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1,
                        credentials_read, rec);
    } else if (r->status == HTC_ENOTFOUND) {
        skip_job(gw, rec);
    } else {
        answered(gw, r);
    }
}

/* A job that a gateway stored when its term was over, and that nobody was told of: the one after it has served without it. */
static int is_stray(const htc_gateway *gw, const recovery *rec)
{
    return htc__gw_shared(gw) && !rec->opened && !rec->mark.again && rec->mark.term < gw->active.sealed_before;
}

static void job_read(void *role, void *ctx, const htc_kv_result *r);

static void made_void(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    if (!htc__gw_fenced(gw, r) && answered(gw, r))
        job_read(gw, ctx, &(htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_GET, .status = HTC_OK, .last = 1, .version = r->version,
                                            .value = htc__gw_record_job_void_bytes() });
}

static void void_confirmed(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    recovery    *rec = ctx;
    if (status == HTC_OK)
        htc__gw_write(gw, htc__gw_key_job(rec->ids[rec->at - 1]), htc__gw_record_job_void_bytes(), rec->stray, made_void, rec);
}

/* Who began to submit it may not have ended: its record cannot be written any more. */
static void make_void(htc_gateway *gw, recovery *rec, uint64_t version)
{
    rec->stray = version;
    htc__gw_confirm(gw, void_confirmed, rec);
}

static void job_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    recovery *rec = ctx;
    char      owner[NAME_MAX_BYTES];
    int is_void = r->status == HTC_OK && htc__gw_record_job_void(r->value);
    if (r->status == HTC_ENOTFOUND && htc__gw_shared(gw)) {
        make_void(gw, rec, 0);
        return;
    }
    if (r->status == HTC_OK && !is_void && is_stray(gw, rec)) {
        make_void(gw, rec, r->version);
        return;
    }
    if (r->status == HTC_ENOTFOUND || is_void) {
        uint64_t id = rec->ids[rec->at - 1];
        htc__gw_delete(gw, htc__gw_key_content(id));
        htc__gw_delete(gw, htc__gw_key_credentials(id));
        htc__gw_delete(gw, htc__gw_key_spec(id)); /* its submission was not acknowledged */
        skip_job(gw, rec);
        return;
    }
    if (!answered(gw, r))
        return;
    job *j = htc__gw_job_new(gw);
    if (!j)
        return;
    rec->job = j;
    if (htc__gw_record_job_read(r->value, j, owner) != HTC_OK || !(j->user = htc__gw_user(gw, owner))) {
        htc__gw_job_free(gw, j);
        rec->job = NULL;
        htc__gw_unreadable(gw, "reading a job record");
        return;
    }
    htc__gw_edges_keep(gw, j);
    j->version = r->version;
    j->open_version = rec->mark.version;
    j->now = j->base;
    if (j->finished) {
        skip_job(gw, rec);
        return;
    }
    key k = htc__gw_key_spec(j->id);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, spec_read, rec);
}

static void read_job(htc_gateway *gw, recovery *rec)
{
    key k = htc__gw_key_job(rec->ids[rec->at - 1]);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, job_read, rec);
}

/* One that was deleted since the list was read is a job that has ended. */
static void mark_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    recovery    *rec = ctx;
    if (r->status != HTC_ENOTFOUND && !answered(gw, r))
        return;
    if (r->status == HTC_OK) {
        rec->mark.version = r->version;
        htc__gw_record_open_read(r->value, &rec->mark.term, &rec->mark.again);
    }
    read_job(gw, rec);
}

static void next_job(htc_gateway *gw, recovery *rec)
{
    if (!htc__gw_reads(gw))
        return;
    assert(!rec->job); /* the one before is open, or gone */
    if (rec->at == rec->n) {
        ready(gw, rec);
        return;
    }
    key k = htc__gw_key_open(rec->ids[rec->at++]);
    rec->mark = (struct open_mark){ 0, 0, 1 };
    if (htc__gw_shared(gw)) {
        htc_runtime_ask(gw->runtime,
                        &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, mark_read, rec);
        return;
    }
    read_job(gw, rec);
}

/* ---- the lists ---- */

static void add_open(htc_gateway *gw, recovery *rec, uint64_t id)
{
    if (rec->n == rec->cap) {
        size_t    cap = rec->cap ? rec->cap * 2 : 64;
        uint64_t *ids = htc_runtime_context(gw->runtime, cap * sizeof *ids); /* ends with the gateway, if that ends first */
        if (!ids)
            return;
        if (rec->ids) {
            memcpy(ids, rec->ids, rec->n * sizeof *ids);
            htc_runtime_context_free(gw->runtime, rec->ids);
        }
        rec->ids = ids;
        rec->cap = cap;
    }
    rec->ids[rec->n++] = id;
}

static void take_open(htc_gateway *gw, recovery *rec, const htc_kv_item *item)
{
    char digits[17];
    if (item->key.len != 18)
        return;
    memcpy(digits, (const char *)item->key.data + 2, 16);
    digits[16] = '\0';
    add_open(gw, rec, strtoull(digits, NULL, 16));
}

static void take_removal(htc_gateway *gw, const htc_kv_item *item)
{
    removal m; /* one without a term is of a gateway that had no other beside it */
    memset(&m, 0, sizeof m);
    if (htc__gw_record_removal_read(item->value, &m) != HTC_OK) {
        htc__gw_unreadable(gw, "reading the record of a removal");
        return;
    }
    m.version = item->version;
    if (htc__gw_shared(gw) && m.term && m.term < gw->active.sealed_before) { /* nobody was told of it, and the gateway after has served without it */
        htc__gw_delete_of(gw, htc__gw_key_removal(m.id), m.version);
        return;
    }
    m.term = htc__gw_shared(gw) ? gw->active.own.term : 0;
    user *u = htc__gw_user(gw, m.user);
    m.noted = m.folded;
    m.folded |= u && u->folded_job == m.id;
    if (u && !m.folded) {
        u->core_ns = htc__quota_sum(u->core_ns, m.core_ns);
        u->tasks_done += m.done;
    }
    htc__gw_removal_found(gw, &m);
}

/* Whose it is, its key, and the sums of one that has ended; an open one is read later. */
static void take_job(htc_gateway *gw, const htc_kv_item *item)
{
    char owner[NAME_MAX_BYTES];
    job  j;
    memset(&j, 0, sizeof j);
    if (htc__gw_record_job_void(item->value))
        return;
    if (htc__gw_record_job_read(item->value, &j, owner) != HTC_OK || !(j.user = htc__gw_user(gw, owner))) {
        htc__gw_unreadable(gw, "reading a job record");
        return;
    }
    htc__gw_owned_add(gw, j.user, j.id);
    if (htc__gw_removal(gw, j.id))
        return;
    if (j.key[0] && (j.finished || !htc__gw_shared(gw))) /* an open one's is known when it is open */
        htc__gw_known_key_set(gw, j.user->name, j.key, j.id);
    if (!j.finished)
        return;
    j.user->core_ns = htc__quota_sum(j.user->core_ns, j.base.used.core_ns);
    j.user->tasks_done += j.base.done;
    count_bytes(gw, &j, j.base.used.bytes);
}

/* A slot that two records name belongs to the later claim: the earlier agent is gone if it was its first, and has else given it back;
 * its record outlived that. 0: a itself is gone. */
static int settle_slots(htc_gateway *gw, agent *a)
{
    const site *s = &gw->sites[a->site];
    uint32_t    n = 0;
    for (uint32_t i = 0; i < a->n_slots; i++) {
        agent *before = s->slots[a->slots[i]].agent;
        if (before && before->claim > a->claim) {
            if (i == 0)
                return 0;
            continue;
        }
        if (before && before->slots[0] == a->slots[i])
            htc__gw_agent_gone(gw, before, "its slot was given to a later one");
        else if (before)
            htc__gw_slots_lose(gw, before, a->slots[i]);
        a->slots[n++] = a->slots[i];
    }
    a->n_slots = n;
    return 1;
}

static void take_agent(htc_gateway *gw, const htc_kv_item *item)
{
    char   owner[NAME_MAX_BYTES];
    agent *a = htc__alloc(&gw->env, sizeof *a);
    if (!a) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading the agents");
        return;
    }
    a->version = item->version;
    int good = htc__gw_record_agent_read(item->value, a, owner) == HTC_OK && (a->user = htc__gw_user(gw, owner)) != NULL &&
               a->site < gw->n_sites;
    for (uint32_t i = 0; good && i < a->n_slots; i++) {
        htc__gw_joined_make_room(gw, a->site, a->slots[i]);
        good = a->slots[i] < gw->sites[a->site].cores;
    }
    if (good && settle_slots(gw, a)) {
        htc__gw_agent_adopt(gw, a);
        return;
    }
    /* A slot that the configuration no longer has: its agent is sent away when it registers. */
    uint64_t id = a->id, version = a->version;
    htc__free(&gw->env, a, sizeof *a);
    htc__gw_delete_of(gw, htc__gw_key_agent(id), version);
}

static void take_user(htc_gateway *gw, const htc_kv_item *item)
{
    user  read;
    memset(&read, 0, sizeof read);
    if (htc__gw_record_user_read(item->value, &read) != HTC_OK || !htc__gw_user_name_ok(read.name)) {
        htc__gw_unreadable(gw, "reading a user record");
        return;
    }
    user *u = htc__gw_user_new(gw, read.name);
    if (!u)
        return;
    u->weight = read.weight;
    memcpy(u->verifier, read.verifier, sizeof u->verifier);
    u->created = read.created;
    u->uid = read.uid;
    u->gid = read.gid;
    u->tokens_from = read.tokens_from;
    u->core_ns = u->folded_core_ns = read.folded_core_ns;
    u->tasks_done = u->folded_done = read.folded_done;
    u->folded_job = read.folded_job;
    u->version = item->version;
}

static void taken_page(void *role, void *ctx, const htc_kv_result *r);
static void removals_page(void *role, void *ctx, const htc_kv_result *r);
static void projects_page(void *role, void *ctx, const htc_kv_result *r);
static void quotas_page(void *role, void *ctx, const htc_kv_result *r);
static void sums_page(void *role, void *ctx, const htc_kv_result *r);
static void days_page(void *role, void *ctx, const htc_kv_result *r);
static void jobs_page(void *role, void *ctx, const htc_kv_result *r);
static void open_page(void *role, void *ctx, const htc_kv_result *r);
static void agents_page(void *role, void *ctx, const htc_kv_result *r);

static void owner_made(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    if (r->status != HTC_OK && r->status != HTC_MISMATCH) {
        htc_runtime_break(gw->runtime, r->status, "creating the operator's user");
        return;
    }
    user *u = htc__gw_user(gw, gw->owner_name);
    if (u)
        u->version = r->version;
    htc_runtime_scan(gw->runtime, htc_bytes_of("a/"), NULL, 0, agents_page, ctx);
}

static void users_read(htc_gateway *gw, recovery *rec)
{
    if (htc__gw_user(gw, gw->owner_name)) {
        htc_runtime_scan(gw->runtime, htc_bytes_of("a/"), NULL, 0, agents_page, rec);
        return;
    }
    user *u = htc__gw_user_new(gw, gw->owner_name);
    if (!u)
        return;
    htc__gw_record_user_write(&gw->scratch, u);
    key k = htc__gw_key_user(u->name);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k), .value = htc__gw_record_bytes(gw, &gw->scratch) },
                    1, owner_made, rec);
}

/* One page of a list: each item to take, then the next page or what comes after. */
static void page(htc_gateway *gw, recovery *rec, const htc_kv_result *r, const char *prefix, htc_runtime_store_fn again)
{
    htc_kv_item item;
    size_t      at = 0;
    if (!answered(gw, r))
        return;
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc__gw_reads(gw); i++) {
        if (htc_kv_result_item(r, &at, &item) != HTC_OK)
            break;
        if (prefix[0] == 'u')
            take_user(gw, &item);
        else if (prefix[0] == 'd')
            take_removal(gw, &item);
        else if (prefix[0] == 'j')
            take_job(gw, &item);
        else if (prefix[0] == 'o')
            take_open(gw, rec, &item);
        else if (prefix[0] == 'e')
            htc__gw_site_found(gw, &item);
        else if (prefix[0] == 'h')
            htc__gw_taken_found(gw, &item);
        else if (prefix[0] == 'p')
            htc__gw_project_found(gw, &item);
        else if (prefix[0] == 'q')
            htc__gw_quota_found(gw, &item);
        else if (prefix[0] == 'z')
            htc__gw_fold_found(gw, &item);
        else if (prefix[0] == 'y')
            htc__gw_usage_found(gw, &item);
    }
    if (!htc__gw_reads(gw))
        return;
    if (next.len)
        htc_runtime_scan(gw->runtime, htc_bytes_of(prefix), &next, 0, again, rec);
    else if (prefix[0] == 'u')
        users_read(gw, rec);
    else if (prefix[0] == 'e')
        htc_runtime_scan(gw->runtime, htc_bytes_of("h/"), NULL, 0, taken_page, rec);
    else if (prefix[0] == 'h')
        htc_runtime_scan(gw->runtime, htc_bytes_of("p/"), NULL, 0, projects_page, rec);
    else if (prefix[0] == 'p')
        htc_runtime_scan(gw->runtime, htc_bytes_of("q/"), NULL, 0, quotas_page, rec);
    else if (prefix[0] == 'q')
        htc_runtime_scan(gw->runtime, htc_bytes_of("z/"), NULL, 0, sums_page, rec);
    else if (prefix[0] == 'z')
        htc_runtime_scan(gw->runtime, htc_bytes_of("y/"), NULL, 0, days_page, rec);
    else if (prefix[0] == 'y')
        htc_runtime_scan(gw->runtime, htc_bytes_of("d/"), NULL, 0, removals_page, rec);
    else if (prefix[0] == 'd')
        htc_runtime_scan(gw->runtime, htc_bytes_of("j/"), NULL, 0, jobs_page, rec);
    else if (prefix[0] == 'j')
        htc_runtime_scan(gw->runtime, htc_bytes_of("o/"), NULL, 0, open_page, rec);
    else
        next_job(gw, rec);
}

static void removals_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "d/", removals_page);
}

static void jobs_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "j/", jobs_page);
}

static void taken_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "h/", taken_page);
}

static void projects_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "p/", projects_page);
}

static void quotas_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "q/", quotas_page);
}

static void sums_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "z/", sums_page);
}

static void days_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "y/", days_page);
}

static void sites_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "e/", sites_page);
}

static void users_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "u/", users_page);
}

static void open_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    page(gw, ctx, r, "o/", open_page);
}

/* Adopting an agent talks to the host only, so the page stays readable; deleting one talks to the store: bytes are copied. */
static void agents_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    htc_kv_item item;
    size_t      at = 0;
    if (!answered(gw, r))
        return;
    htc_buf items;
    htc_buf_init(&items, &gw->env, 0);
    htc_put_raw(&items, r->items_bytes);
    if (items.status != HTC_OK) {
        htc_runtime_break(gw->runtime, items.status, "reading the agents");
        return;
    }
    htc_kv_result copy = *r;
    copy.items_bytes = (htc_bytes){ items.data, r->items_bytes.len };
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < copy.items && htc__gw_reads(gw); i++)
        if (htc_kv_result_item(&copy, &at, &item) == HTC_OK)
            take_agent(gw, &item);
    if (htc__gw_reads(gw) && next.len)
        htc_runtime_scan(gw->runtime, htc_bytes_of("a/"), &next, 0, agents_page, ctx);
    else if (htc__gw_reads(gw))
        htc_runtime_scan(gw->runtime, htc_bytes_of("e/"), NULL, 0, sites_page, ctx);
    htc_buf_free(&items);
}

void htc__gw_job_open(htc_gateway *gw, uint64_t id, void (*fn)(htc_gateway *gw, void *ctx, job *j), void *ctx)
{
    recovery *rec = htc_runtime_context(gw->runtime, sizeof *rec);
    uint64_t *ids = rec ? htc_runtime_context(gw->runtime, sizeof *ids) : NULL;
    if (!ids)
        return;
    ids[0] = id;
    *rec = (recovery){ .ids = ids, .n = 1, .cap = 1, .opened = fn, .ctx = ctx };
    next_job(gw, rec);
}

void htc__gw_recover(htc_gateway *gw)
{
    recovery *rec = htc_runtime_context(gw->runtime, sizeof *rec);
    if (!rec)
        return;
    gw->phase = PHASE_RECOVERING;
    gw->claims = gw->active.own.term << 32; /* of later terms are later */
    htc_runtime_scan(gw->runtime, htc_bytes_of("u/"), NULL, 0, users_page, rec);
}
