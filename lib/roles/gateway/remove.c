/* Jobs that are removed.
 *
 *   mark -> hide -> outputs -> results -> chunks -> rest -> fold -> folded -> record
 *
 * The record (d/ID) is the first thing written and the last deleted: a gateway that is killed in between goes on where the
 * one before it was, from "hide". Behind it everything that takes room goes before anything is written, for the store may be
 * full. The sums of the job are added to its user's record, which names the job that was added last; the removal's record
 * says when that is so, before the next one is added. One removal is worked on at a time. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

#define PAUSE_FIRST HTC_SECOND
#define PAUSE_MAX (60 * HTC_SECOND)
#define TOGETHER 256

static void stage_begin(htc_gateway *gw, removal *m);

/* ---- the list ---- */

removal *htc__gw_removal(const htc_gateway *gw, uint64_t id)
{
    removal *m;
    HASH_FIND(hh, gw->removals_by_id, &id, sizeof id, m);
    return m;
}

int htc__gw_removal_of(const htc_gateway *gw, const char *user_name)
{
    const removal *m;
    DL_FOREACH2(gw->removals, m, list_next)
    if (strcmp(m->user, user_name) == 0)
        return 1;
    return 0;
}

static void list_add(htc_gateway *gw, removal *m)
{
    assert(!m->listed && !htc__gw_removal(gw, m->id)); /* the sums of a job are added once */
    HASH_ADD(hh, gw->removals_by_id, id, sizeof m->id, m);
    if (!m->hh.tbl) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "removing a job");
        return;
    }
    DL_APPEND2(gw->removals, m, prev, list_next);
    m->listed = 1;
}

static void list_drop(htc_gateway *gw, removal *m)
{
    assert(gw->removing && !m->q); /* whoever asked for it has been told */
    DL_DELETE2(gw->removals, m, prev, list_next);
    HASH_DEL(gw->removals_by_id, m);
    htc_runtime_context_free(gw->runtime, m);
}

void htc__gw_removals_free(htc_gateway *gw)
{
    HASH_CLEAR(hh, gw->removals_by_id); /* they themselves end with the continuations */
}

void htc__gw_removal_found(htc_gateway *gw, const removal *read)
{
    removal *m = htc_runtime_context(gw->runtime, sizeof *m);
    if (!m)
        return;
    *m = *read;
    m->stage = REMOVE_HIDE;
    list_add(gw, m);
}

void htc__gw_removals_go(htc_gateway *gw)
{
    if (gw->removing || !gw->removals || gw->now < gw->remove_at || gw->shutdown)
        return;
    gw->removing = 1;
    stage_begin(gw, gw->removals);
}

/* ---- from stage to stage ---- */

static void over(htc_gateway *gw, removal *m, htc_status status)
{
    request *q = m->q;
    m->q = NULL;
    if (q)
        m->told(gw, q, m->id, status);
}

static int no_room(htc_status status)
{
    return status == HTC_ENOSPC || status == HTC_EFULL;
}

static void pause_for(htc_gateway *gw, htc_ns span)
{
    gw->removing = 0;
    gw->remove_at = gw->now + span;
}

/* A removal that has its record is tried again for as long as it takes; one without is the user's to repeat. */
static void stage_failed(htc_gateway *gw, removal *m, htc_status status)
{
    m->next.len = 0; /* of what stands before this place some may be left */
    if (!m->listed && m->stage == REMOVE_MARK && no_room(status) && !m->relief && !htc__gw_shared(gw)) {
        m->relief = 1;
        m->stage = REMOVE_OUTPUTS;
        stage_begin(gw, m);
        return;
    }
    if (!m->listed && m->stage != REMOVE_HIDE) {
        over(gw, m, status);
        htc_runtime_context_free(gw->runtime, m);
        return;
    }
    if (!m->pause)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", m->id), HTC__STATUS(status)),
                      "job %llu could not be removed entirely (%s) -> try again", (unsigned long long)m->id, htc_strerror(status));
    m->pause = m->pause ? m->pause * 2 : PAUSE_FIRST;
    m->pause = m->pause < PAUSE_MAX ? m->pause : PAUSE_MAX;
    if (!m->listed) {
        list_add(gw, m);
        if (!gw->removing)
            pause_for(gw, m->pause);
        return;
    }
    /* Its turn is kept where its sums may be on their way: no other may come between. Where there was no room they are not, and
     * others may make some. */
    if (m->stage != REMOVE_FOLD || no_room(status)) {
        DL_DELETE2(gw->removals, m, prev, list_next);
        DL_APPEND2(gw->removals, m, prev, list_next);
    }
    pause_for(gw, m->pause);
}

/* What it has left is on its way out, and no longer its user's. */
static void forget_bytes(htc_gateway *gw, removal *m)
{
    user    *u = htc__gw_user(gw, m->user);
    project *p = htc__gw_project(gw, m->project_name);
    if (u)
        u->bytes -= m->bytes < u->bytes ? m->bytes : u->bytes;
    if (p)
        p->bytes -= m->bytes < p->bytes ? m->bytes : p->bytes;
    m->bytes = 0;
}

static void stage_done(htc_gateway *gw, removal *m)
{
    m->next.len = 0;
    m->status = HTC_OK;
    if (m->relief && m->stage == REMOVE_RESULTS) {
        m->stage = REMOVE_MARK;
    } else if (m->stage == REMOVE_RECORD) {
        list_drop(gw, m);
        gw->removing = 0;
        return;
    } else if (m->stage == REMOVE_HIDE) {
        user *u = htc__gw_user(gw, m->user);
        m->stage++;
        forget_bytes(gw, m);
        if (u)
            htc__gw_owned_drop(u, m->id);
        if (m->key[0])
            htc__gw_known_key_drop(gw, m->user, m->key);
        over(gw, m, HTC_OK);
        if (!m->listed) {
            list_add(gw, m);
            return;
        }
    } else {
        if (m->stage == REMOVE_MARK)
            m->relief = 0;
        m->noted |= m->stage == REMOVE_FOLDED;
        m->stage++;
    }
    if (htc_runtime_status(gw->runtime) != HTC_OK)
        return;
    if (m->listed && gw->shutdown)
        gw->removing = 0; /* the next gateway goes on */
    else
        stage_begin(gw, m);
}

/* The record was there before any other gateway became active: whoever does goes on with the removal. From here on what is deleted is of no
 * use to anybody, whoever deletes it and when. */
static void marked_in_time(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        stage_done(role, ctx);
}

static void write_record(htc_gateway *gw, const removal *m, htc_runtime_store_fn fn, void *ctx);
static void stored(void *role, void *ctx, const htc_kv_result *r);

/* There was such a record, of a gateway before this one that wrote it when this one had read what there is: nobody was told of it, and nothing is
 * deleted yet. */
static void mark_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        write_record(role, ctx, stored, ctx);
}

static void stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal *m = ctx;
    if (r->status == HTC_MISMATCH && m->stage == REMOVE_MARK && !m->version && r->version && htc__gw_shared(gw)) {
        m->version = r->version;
        htc__gw_confirm(gw, mark_confirmed, m);
        return;
    }
    if (htc__gw_fenced(gw, r))
        return;
    if (r->status == HTC_OK && (m->stage == REMOVE_MARK || m->stage == REMOVE_FOLDED))
        m->version = r->version;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        m->status = r->status;
    if (!r->last)
        return;
    if (m->status == HTC_OK && m->stage == REMOVE_MARK && htc__gw_shared(gw) && !HTC__BROKEN(gateway_destroys_early)) {
        htc__gw_confirm(gw, marked_in_time, m);
        return;
    }
    if (m->status == HTC_OK) {
        stage_done(gw, m);
        return;
    }
    htc_status status = m->status;
    m->status = HTC_OK;
    stage_failed(gw, m, status);
}

/* ---- the sums ---- */

static void folded(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal *m = ctx;
    user    *u = htc__gw_user(gw, m->user);
    if (htc__gw_fenced(gw, r))
        return;
    if (u) {
        assert(u->folding);
        u->folding = 0;
        if (r->status == HTC_OK) {
            u->folded_core_ns = htc__quota_sum(u->folded_core_ns, m->core_ns);
            u->folded_done += m->done;
            u->folded_job = m->id;
            u->version = r->version;
            m->folded = 1;
        }
        htc_runtime_wake(gw->runtime, &u->folded, HTC_OK);
    }
    stored(gw, m, r);
}

static void write_record(htc_gateway *gw, const removal *m, htc_runtime_store_fn fn, void *ctx)
{
    htc__gw_record_removal_write(&gw->scratch, m);
    key k = htc__gw_key_removal(m->id);
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), m->version, fn, ctx);
}

static void saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal     *m = ctx;
    if (r->status == HTC_OK)
        m->version = r->version;
    else if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew that a job is being removed");
}

void htc__gw_removal_save(htc_gateway *gw, removal *m)
{
    write_record(gw, m, saved, m);
}

/* The removal whose sums were added to the user's last, if its record does not say so yet. */
static removal *to_be_noted(const htc_gateway *gw, const user *u)
{
    removal *last = htc__gw_removal(gw, u->folded_job);
    return last && !last->noted ? last : NULL;
}

static void fold(htc_gateway *gw, removal *m);

static void last_noted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal    *m = ctx, *last = NULL;
    const user *u = htc__gw_user(gw, m->user);
    if (htc__gw_fenced(gw, r))
        return;
    if (r->status != HTC_OK) {
        stored(gw, m, r);
        return;
    }
    if (u && (last = to_be_noted(gw, u))) {
        last->noted = 1;
        last->version = r->version;
    }
    fold(gw, m);
}

static void fold(htc_gateway *gw, removal *m)
{
    user    *u = htc__gw_user(gw, m->user);
    removal *last = u ? to_be_noted(gw, u) : NULL;
    if (!u || m->folded || u->folded_job == m->id) {
        m->folded = 1;
        stage_done(gw, m);
        return;
    }
    if (last) {
        last->folded = 1;
        write_record(gw, last, last_noted, m);
        return;
    }
    if (u->changing) {
        pause_for(gw, 100 * HTC_MS);
        return;
    }
    assert(!u->folding);
    user sums = *u;
    sums.folded_core_ns = htc__quota_sum(sums.folded_core_ns, m->core_ns);
    sums.folded_done += m->done;
    sums.folded_job = m->id;
    u->folding = 1;
    htc__gw_record_user_write(&gw->scratch, &sums);
    key k = htc__gw_key_user(u->name);
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), u->version, folded, m);
}

static void note(htc_gateway *gw, removal *m)
{
    if (m->noted)
        stage_done(gw, m);
    else
        write_record(gw, m, stored, m);
}

/* ---- what the job has left ---- */

static void outputs_dropped(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    (void)body;
    if (status == HTC_OK || status == HTC_ENOTFOUND)
        stage_done(gw, ctx);
    else
        stage_failed(gw, ctx, status);
}

static void drop_outputs(htc_gateway *gw, removal *m)
{
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, m->id);
    htc__gw_files_drop(gw, HTC_CALL_DROP_JOB);
    htc_runtime_call(gw->runtime, HTC_CALL_DROP_JOB, htc_buf_bytes(&gw->scratch), outputs_dropped, m);
}

static void next_page(htc_gateway *gw, removal *m);

static void page_deleted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal *m = ctx;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        m->status = r->status;
    if (r->last && m->status == HTC_OK && m->next.len && !gw->shutdown)
        next_page(gw, m);
    else if (r->last && m->status == HTC_OK && m->next.len)
        gw->removing = 0;
    else if (r->last)
        stored(gw, m, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = m->status, .last = 1 });
}

static void page_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    removal       *m = ctx;
    htc_kv_request rq[TOGETHER];
    htc_kv_item    item;
    size_t         at = 0, n = 0;
    if (r->status != HTC_OK) {
        stage_failed(gw, m, r->status);
        return;
    }
    m->next = htc_runtime_next_page(gw->runtime, r);
    /* The page is lent until the client is asked again. */
    htc_buf_clear(&gw->scratch);
    htc_put_raw(&gw->scratch, r->items_bytes);
    htc_kv_result page = *r;
    page.items_bytes = htc_buf_bytes(&gw->scratch);
    while (n < page.items && n < TOGETHER && htc_kv_result_item(&page, &at, &item) == HTC_OK)
        rq[n++] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = item.key };
    if (n)
        htc_runtime_ask(gw->runtime, rq, n, page_deleted, m);
    else if (m->next.len)
        next_page(gw, m);
    else
        stage_done(gw, m);
}

static void next_page(htc_gateway *gw, removal *m)
{
    key k = m->stage == REMOVE_RESULTS ? htc__gw_key_results(m->id) : htc__gw_key_chunks(m->id);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), &m->next, TOGETHER, page_read, m);
}

static void delete_keys(htc_gateway *gw, removal *m, const key *keys, size_t n)
{
    htc_kv_request rq[5];
    for (size_t i = 0; i < n; i++)
        rq[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc__gw_key_bytes(&keys[i]) };
    htc_runtime_ask(gw->runtime, rq, n, stored, m);
}

static void delete_record(htc_gateway *gw, removal *m, const key *k)
{
    htc_kv_request rq = htc__gw_delete_op(gw, k, m->version);
    htc_runtime_ask(gw->runtime, &rq, 1, stored, m);
}

static void stage_begin(htc_gateway *gw, removal *m)
{
    key job_key = htc__gw_key_job(m->id), record_key = htc__gw_key_removal(m->id), rest[5] = { htc__gw_key_open(m->id), htc__gw_key_spec(m->id), htc__gw_key_content(m->id), htc__gw_key_mail(m->id),
        htc__gw_key_credentials(m->id) };
    assert(m->status == HTC_OK); /* a stage is judged by its own answers */
    assert(m->listed ? gw->removing && m == gw->removals : m->stage <= REMOVE_RESULTS);
    switch ((removal_stage)m->stage) {
    case REMOVE_MARK: write_record(gw, m, stored, m); break;
    case REMOVE_HIDE: delete_keys(gw, m, &job_key, 1); break;
    case REMOVE_FOLD: fold(gw, m); break;
    case REMOVE_FOLDED: note(gw, m); break;
    case REMOVE_OUTPUTS: drop_outputs(gw, m); break;
    case REMOVE_RESULTS:
    case REMOVE_CHUNKS: next_page(gw, m); break;
    case REMOVE_REST: delete_keys(gw, m, rest, 5); break;
    case REMOVE_RECORD: delete_record(gw, m, &record_key); break;
    }
}

void htc__gw_remove(htc_gateway *gw, const job *j, removal_fn told, request *q)
{
    removal *m = htc_runtime_context(gw->runtime, sizeof *m);
    if (!m)
        return;
    *m = (removal){ .id = j->id, .core_ns = j->now.used.core_ns, .done = j->now.done, .stage = REMOVE_MARK, .told = told, .q = q,
                    .term = gw->active.own.term };
    snprintf(m->user, sizeof m->user, "%s", j->user->name);
    snprintf(m->key, sizeof m->key, "%s", j->key);
    snprintf(m->project_name, sizeof m->project_name, "%s", j->wishes.project);
    m->bytes = j->now.used.bytes;
    stage_begin(gw, m);
}

void htc__gw_remove_join(removal *m, removal_fn told, request *q)
{
    assert(m->listed && m->stage <= REMOVE_HIDE && !m->q);
    m->told = told;
    m->q = q;
}
