/* The server as a machine: inputs go to the cells and to the face they are for; what is staged is committed. */
#include "htcsched/kv_server.h"

#include <string.h>

#include "core/codec.h"
#include "core/util.h"
#include "kvs/storage/cells_overlay.h"
#include "kvs/storage/cells_table.h"
#include "kvs/replica/cluster.h"
#include "kvs/storage/log.h"

static htc_status stop(htc_kv_server *s, htc_status why, htc_output *out)
{
    s->stopped = 1;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = why });
}

/* Every input goes to the cells first: it may be the end of a batch. */
static htc_status cells_step(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    uint64_t   before = htc__kv_stored(s);
    htc_status status = s->cells.ops->step(s->cells.ctx, in, out, &s->loaded);
    if (status != HTC_OK)
        return status;
    if (!s->serving)
        return HTC_OK;
    htc_status why = s->cells.ops->undone ? s->cells.ops->undone(s->cells.ctx) : HTC_OK;
    if (why != HTC_OK) {
        s->stats.commits_failed++;
        htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(why)),
                      "commit failed: %s -> refuse its changes, go on reading", htc_strerror(why));
        if (s->cluster) {
            htc__kv_cluster_undone(s);
            return HTC_OK;
        }
        status = htc__kv_batch_undone(s);
        htc__kv_deferred_again(s, why);
        return status;
    }
    if (htc__kv_stored(s) != before) {
        s->stats.commits += htc__kv_stored(s) - before;
        htc__kv_count_commit(&s->counts, s->now);
    }
    if (s->cluster)
        return HTC_OK; /* htc__kv_cluster_finish looks what that was */
    if (htc__kv_stored(s) != before) {
        htc__kv_batch_stored(s);
        htc__kv_deferred_stored(s);
    }
    if (s->delayed.first)
        htc__kv_backlog_go_on(s);
    return HTC_OK;
}

static htc_status commit(htc_kv_server *s, htc_output *out)
{
    if (!htc__kv_may_commit(s) || htc__kv_staged(s) == 0)
        return HTC_OK;
    htc_status status = s->cluster ? HTC_OK : htc__kv_collect(s);
    if (status == HTC_OK && !s->cluster)
        status = htc__kv_batch_close(s);
    s->counts.on_way = htc__kv_staged(s);
    s->counts.begun = s->now;
    if (status == HTC_OK)
        status = s->cells.ops->commit(s->cells.ctx, out);
    htc__kv_deferred_sent(s);
    return status;
}

/* The listener it came from says which language it speaks. */
static htc_status opened(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    htc_peer_info info = { 0 };
    if (s->resp && htc_peer_info_read(in->body, &info) == HTC_OK && info.port == s->options.resp_port)
        return htc__resp_input(s->resp, in, out);
    htc_kv_reach reach = { .all = s->options.admit == NULL };
    htc_status   status = s->options.admit ? s->options.admit(s->options.admit_ctx, in->body, &reach) : HTC_OK;
    if (status != HTC_OK)
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = status });
    status = htc__kv_native_opened(&s->native, in->peer, out);
    return status == HTC_OK ? htc__kv_native_confine(&s->native, in->peer, &reach) : status;
}

static htc_status closed(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    if (s->resp && htc__resp_owns(s->resp, in->peer))
        return htc__resp_input(s->resp, in, out);
    htc__kv_native_closed(&s->native, in->peer);
    return HTC_OK;
}

/* What was acknowledged without a sync is gone when the machine has started anew: then this member would break its promises. */
static int has_lost(const htc_kv_server *s)
{
    return s->cluster && !s->alone && s->options.log_durability && htc__log_has_lost(&s->cells);
}

/* All that is stored has been read: from now on it answers. */
static htc_status serve(htc_kv_server *s, htc_output *out)
{
    if (has_lost(s)) {
        htc__log(&s->env, HTC_LOG_ERROR, "the machine has started anew, and what was not synced may be gone -> stop; let it join as a "
                                         "new member");
        return HTC_ECORRUPT;
    }
    s->serving = 1;
    htc_status status = s->cluster ? htc__kv_cluster_load(s) : htc__kv_state_load(s);
    if (status == HTC_OK && s->options.log_durability)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_KV_SERVER_READY });
    return status;
}

/* Whoever comes before is to come again. */
static htc_status dispatch_early(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    if (in->kind == HTC_IN_OPENED)
        return htc_output_add(out,
                              &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_EBUSY });
    if (in->kind == HTC_IN_EVENT && in->op == HTC_KV_SERVER_SHUTDOWN)
        return stop(s, HTC_OK, out);
    if (in->kind == HTC_IN_START && !s->started) {
        s->started = 1;
        htc__wheel_init(&s->wheel, s->now, HTC_MS);
        htc__kv_leases_init(s);
        if (s->resp)
            htc__resp_start(s->resp, s->now);
    }
    return s->loaded ? serve(s, out) : HTC_OK;
}

static htc_status dispatch(htc_kv_server *s, const htc_input *in, htc_output *out);

/* Each by itself, up to the first that something is sent for: then it is to be seen whether that is read. */
static htc_status frames_one_by_one(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    htc_input  one = *in;
    htc_status status = HTC_OK;
    size_t     before = htc_output_count(out);
    one.kind = HTC_IN_MESSAGE;
    while (status == HTC_OK && htc_reader_left(&r) && htc_output_count(out) == before && s->broken == HTC_OK) {
        one.body = htc_get_raw(&r, htc_get_u32(&r));
        s->counts.received += one.body.len;
        status = r.status == HTC_OK ? dispatch(s, &one, out) : HTC_OK;
    }
    size_t left = htc_reader_left(&r);
    if (status == HTC_OK && left)
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_LEFT, .peer = in->peer, .tag = left });
    return status;
}

static htc_status frames(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    if (s->cluster)
        return frames_one_by_one(s, in, out);
    uint64_t   before = s->native.heard;
    htc_status status = htc__kv_native_frames(&s->native, in, out);
    s->counts.received += s->native.heard - before;
    return status;
}

static htc_status dispatch(htc_kv_server *s, const htc_input *in, htc_output *out)
{
    if (!s->serving)
        return dispatch_early(s, in, out);
    if (s->cluster && htc__kv_cluster_input(s, in, out))
        return HTC_OK;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_MESSAGE:
        return htc__kv_native_input(&s->native, in, out);
    case HTC_IN_FRAMES:
        return frames(s, in, out);
    case HTC_IN_OPENED:
        return opened(s, in, out);
    case HTC_IN_CLOSED:
        return closed(s, in, out);
    case HTC_IN_EVENT:
        s->stopping |= in->op == HTC_KV_SERVER_SHUTDOWN;
        s->native.stopping = s->stopping != 0;
        return HTC_OK;
    case HTC_IN_START:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_RESULT:
    case HTC_IN_TURN:
        return HTC_OK;
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
        return s->resp && !s->stopping ? htc__resp_input(s->resp, in, out) : HTC_OK;
    }
    return HTC_EUNSUPPORTED;
}

static htc_status end(htc_kv_server *s, htc_output *out)
{
    int        ended = 1;
    htc_status status = s->cells.ops->end ? s->cells.ops->end(s->cells.ctx, out, &ended) : HTC_OK;
    return status == HTC_OK && ended ? stop(s, HTC_OK, out) : status;
}

/* What follows every input, in this order: answers before the commit, which may take the step's room. */
static htc_status finish(htc_kv_server *s, htc_output *out)
{
    htc_status status = HTC_OK;
    if (s->cluster) {
        status = htc__kv_cluster_finish(s, out);
        s->native.clock = htc__kv_cluster_clock(s);
    } else if (!s->stopping) {
        status = htc__kv_leases_tick(s);
        if (status == HTC_OK)
            status = htc__kv_ends_tick(s);
    }
    if (s->contest)
        htc__kv_contention_tick(s);
    if (status == HTC_OK)
        status = htc__kv_native_flush(&s->native, out);
    if (status == HTC_OK && s->resp)
        status = htc__resp_flush(s->resp, s->now, s->wall, out);
    if (status == HTC_OK)
        status = commit(s, out);
    if (status == HTC_OK)
        status = htc__kv_native_tell(&s->native, s->now, out);
    if (status == HTC_OK && s->stopping && htc__kv_backlog_none(s) && !htc__kv_in_flight(s) && !s->native.ready)
        status = end(s, out);
    return status;
}

static htc_status server_step(void *self, const htc_input *given, htc_output *out)
{
    htc_kv_server *s = self;
    htc_input      room;
    htc_status     status;
    if (!s || !out)
        return HTC_EINVAL;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in)
        return status;
    if (s->stopped)
        return HTC_OK;
    if (!s->started && in->kind != HTC_IN_START)
        return HTC_EINVAL;
    s->now = in->now;
    s->wall = in->wall;
    s->turns |= in->kind == HTC_IN_TURN;
    if (in->kind == HTC_IN_MESSAGE || in->kind == HTC_IN_BYTES)
        s->counts.received += in->body.len;
    status = cells_step(s, in, out);
    if (status == HTC_OK) {
        s->native.clock = s->cluster ? htc__kv_cluster_clock(s) : s->clock_stored;
        status = dispatch(s, in, out);
    }
    if (status == HTC_OK)
        status = s->broken;
    /* A driver that says where turns end has sent one right after the start. */
    if (status == HTC_OK && s->serving && !s->stopped && (!s->turns || in->kind == HTC_IN_TURN))
        status = finish(s, out);
    if (status == HTC_ECORRUPT || status == HTC_EFORMAT || status == HTC_EIO) {
        htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(status)),
                      "%s: what is stored is not known -> stop", htc_strerror(status));
        return stop(s, status, out);
    }
    return status;
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static htc_ns server_deadline(const void *self)
{
    const htc_kv_server *s = self;
    if (s->stopped)
        return HTC_NEVER;
    if ((s->resp && htc__resp_more(s->resp)) || s->native.ready)
        return 0;
    htc_ns cells = s->cells.ops->deadline(s->cells.ctx);
    if (!s->serving)
        return cells;
    cells = s->stopping ? cells : earlier(cells, htc__kv_watches_deadline(&s->native.watches));
    if (s->cluster)
        return earlier(cells, htc__kv_cluster_deadline(s));
    htc_ns ends = earlier(htc__kv_leases_deadline(s), htc__kv_ends_deadline(s));
    return earlier(cells, earlier(ends, htc__kv_contention_deadline(s)));
}

void htc__kv_server_speak(htc_kv_server *s, uint16_t version)
{
    s->native.speaks = version;
}

static void server_destroy(void *self)
{
    htc_kv_server_destroy(self);
}

const htc_machine_ops *htc_kv_server_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, server_step, server_deadline, server_destroy,
                                         HTC_MACHINE_TURNS | HTC_MACHINE_FRAMES };
    return &ops;
}

static uint32_t or32(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

static htc_status cells_create(const htc_env *env, htc_kv_server *s)
{
    htc_kv_server_options *o = &s->options;
    htc__heap_options      table = { .seed = o->place_seed, .ordered = 1 };
    if (o->engine.ops)
        return htc__cells_overlay(env, &o->engine, &s->cells);
    if (!o->log_durability)
        return htc__cells_table_create(env, &table, &s->cells);
    htc__log_options log = { .durability = o->log_durability,
                             .interval_ns = o->log_interval_ns,
                             .segment_bytes = o->log_segment_bytes,
                             .member = o->self ? o->self : htc_rng_next(env->rng) | 1,
                             .seed = o->place_seed ? o->place_seed : htc_rng_next(env->rng),
                             .ordered = 1,
                             .problem = o->log_problem,
                             .problem_ctx = o->log_problem_ctx };
    log.guarded = o->self && !s->alone;
    log.others = log.guarded && (o->member_count > 1 || o->join);
    if (o->log_boot.len)
        memcpy(log.boot, o->log_boot.data, o->log_boot.len < sizeof log.boot ? o->log_boot.len : sizeof log.boot);
    o->log_boot = (htc_bytes){ NULL, 0 }; /* it was the caller's */
    return htc__log_create(env, &log, &s->cells);
}

static const char *engine_name(const htc_kv_server_options *o)
{
    return o->log_durability ? "log" : !o->engine.ops ? "memory" : o->engine_durability ? "lmdb" : "other";
}

htc_status htc_kv_server_create(const htc_env *env, const htc_kv_server_options *options, htc_kv_server **out)
{
    htc_kv_server_options o = { 0 };
    if (!env || !env->rng || !options || !out)
        return HTC_EINVAL;
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_server_options, connections_max));
    if (status != HTC_OK)
        return status;
    if (o.engine.ops && (o.engine.ops->size < sizeof *o.engine.ops || o.log_durability))
        return HTC_EINVAL;
    o.connections_max = or32(o.connections_max, 256);
    o.inflight_max = or32(o.inflight_max, 8192);
    o.output_max = o.output_max ? o.output_max : (size_t)32 << 20;
    o.leases_max = or32(o.leases_max, 65536);
    o.tombstones_max = or32(o.tombstones_max, 10000);
    o.lease_ttl_min = o.lease_ttl_min ? o.lease_ttl_min : HTC_MS;
    o.lease_ttl_max = o.lease_ttl_max ? o.lease_ttl_max : 3600 * HTC_SECOND;
    o.value_max = o.value_max && o.value_max < HTC_KV_VALUE_MAX ? o.value_max : HTC_KV_VALUE_MAX;
    o.owners = or32(o.owners, 3);
    o.bits = or32(o.bits, 12);
    o.suspect_ns = o.suspect_ns ? o.suspect_ns : HTC_SECOND;
    o.request_ns = o.request_ns ? o.request_ns : 10 * HTC_SECOND;
    o.hints_max = or32(o.hints_max, 100000);
    o.compare_ns = o.compare_ns ? o.compare_ns : 50 * HTC_MS;
    o.deleted_ns = o.deleted_ns ? o.deleted_ns : 3600 * HTC_SECOND;
    o.deleted_ns = o.deleted_ns > 2 * o.request_ns ? o.deleted_ns : 2 * o.request_ns;
    if (o.namespace_count && !o.self)
        return HTC_EINVAL;
    if (o.lease_ttl_min > o.lease_ttl_max || (o.self && (!o.members || o.member_count == 0)))
        return HTC_EINVAL;
    /* One of several processes has to find again what it had stored. */
    int alone = htc__kv_cluster_alone(&o);
    if (o.self && !o.engine.ops && !o.log_durability && !alone)
        return HTC_EINVAL;
    htc_kv_server *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    s->env = *env;
    s->options = o;
    s->alone = alone;
    htc__table_init(&s->leases, env);
    htc__table_init(&s->contests, env);
    htc__kv_ends_init(s);
    htc__kv_list_init(&s->delayed);
    htc__kv_deferred_init(s);
    s->flight.count_max = o.self ? HTC__KV_FLIGHT_COUNT : UINT32_MAX; /* a single member has a batch of them in work, whatever their number */
    s->native.env = *env;
    s->native.backend = htc__kv_backend_of(s);
    s->native.connections_max = o.connections_max;
    s->native.inflight_max = o.inflight_max;
    s->native.output_max = o.output_max;
    s->native.admits = o.admit != NULL;
    s->native.watches.watches_max = or32(o.watches_max, 1024);
    s->native.watches.marks_max = or32(o.watch_marks_max, 16384);
    htc__kv_native_init(&s->native);
    htc_buf_init(&s->scratch, env, 0);
    htc_buf_init(&s->scratch_items, env, 0);
    status = cells_create(env, s);
    if (status == HTC_OK && o.self)
        status = htc__kv_cluster_create(s);
    s->options.members = NULL; /* they were the caller's */
    s->options.namespaces = NULL;
    if (status != HTC_OK) {
        htc_kv_server_destroy(s);
        return status;
    }
    htc__resp_options ro = { .connections_max = o.resp_connections_max,
                             .password = o.resp_password,
                             .flush = o.resp_flush,
                             .value_max = o.value_max,
                             .engine = engine_name(&o),
                             .durability = o.log_durability ? o.log_durability : o.engine.ops ? o.engine_durability : 0 };
    if (o.resp_port && (status = htc__resp_create(&s->env, &ro, htc__kv_backend_of(s), &s->resp)) != HTC_OK) {
        htc_kv_server_destroy(s);
        return status;
    }
    s->options.resp_password = (htc_bytes){ NULL, 0 }; /* it was the caller's */
    *out = s;
    return HTC_OK;
}

void htc_kv_server_destroy(htc_kv_server *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    htc__resp_destroy(s->resp);
    htc__kv_cluster_free(s);
    htc__kv_list_free(s, &s->delayed);
    htc__kv_deferred_free(s);
    htc__kv_contention_free(s);
    htc__kv_native_free(&s->native);
    if (s->cells.ops)
        s->cells.ops->destroy(s->cells.ctx);
    htc__table_free(&s->leases);
    htc__kv_ends_free(s);
    htc_buf_free(&s->scratch);
    htc_buf_free(&s->scratch_items);
    htc__free(&env, s, sizeof *s);
}

htc_status htc_kv_server_stats_get(const htc_kv_server *s, htc_kv_server_stats *stats)
{
    if (!s || !stats || stats->size == 0)
        return HTC_EINVAL;
    htc_kv_server_stats all = s->stats;
    all.size = stats->size;
    for (uint32_t f = 0; f < HTC__KV_FATES && !s->cluster; f++)
        all.reads += s->counts.answers[HTC_KV_GET][f];
    all.clock = s->clock_stored;
    all.leases = s->leases.count;
    all.tombstones = s->tombstones;
    if (s->cluster)
        htc__kv_cluster_stats(s, &all);
    all.connections = s->native.conns.count;
    all.messages = s->native.received;
    all.pushed_back = s->native.pushed_back;
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
    return HTC_OK;
}
