/* Connections, the lease, time.
 *
 * A worker lives as long as its lease: the lease's number is its epoch, and a key bound to it says that this epoch lives. Who finds the
 * lease gone has been given up by the others: it ends, and its next life has another epoch. What it had written before stands; what
 * it would write afterwards is refused, since who took its ledgers has changed their versions. */
#include <stddef.h>
#include <string.h>

#include "core/fault.h"
#include "roles/objects/objects.h"
#include "roles/worker/worker_private.h"

#define LEASE_NS  (80 * HTC_SECOND)
#define MARGIN_NS (20 * HTC_SECOND) /* before its end a lease is renewed, or after a third of it */
#define HOST_NAME (sizeof ((attempt_holder *)NULL)->node)
#define REQUESTS_MAX (1u << 17)       /* to the store: the ends of all that a host runs, 48 calls of at most 2,048 tasks of a graph, and what else there is */
#define RUNS_FROM (UINT64_C(1) << 48) /* calls of attempts bear their numbers, the others the runtime's, which are below */

int htc__worker_written(htc_worker *w, const char *what)
{
    if (w->buf.status != HTC_OK)
        htc_runtime_break(w->runtime, w->buf.status, what);
    return w->buf.status == HTC_OK;
}

void htc__worker_say(htc_worker *w, uint32_t peer, uint16_t type, const worker_message *m)
{
    worker_message said = *m;
    said.flow = w->options.flow;
    htc__worker_write(&w->buf, type, &said);
    htc_runtime_send(w->runtime, peer, &w->buf);
}

void htc__worker_stop(htc_worker *w, htc_status status)
{
    if (w->stopped || w->stopping)
        return;
    htc__log_with(&w->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("worker", w->id), HTC__STATUS(status)), "worker %llu ends: %s",
                  (unsigned long long)w->id, htc_strerror(status));
    w->stop_status = status;
    w->stopping = w->options.within != 0;
    w->stopped = !w->options.within;
    if (!w->options.within)
        htc_runtime_stop(w->runtime, status);
}

/* One that is part of another role goes on in a process that another worker may be of next: what it runs ends first, and the others are called
 * no more. */
static void stop_when_nothing_runs(htc_worker *w)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (w->stopping == 1 && x->function)
        htc__worker_function_order(w, x, ORDER_REVOKE);
    else if (w->stopping == 1)
        htc__attempt_order(&w->holder, &x->attempt, ORDER_REVOKE);
    w->stopping = 2;
    if (w->runs && !HTC__BROKEN(worker_runs_left))
        return;
    htc__worker_tasks_free(w);
    htc__worker_hang_up_all(w);
    w->stopped = 1;
}

/* ---- its lease ---- */

static void registered(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    (void)ctx;
    w->registering = 0;
    w->joined = r->status == HTC_OK;
    if (!w->joined)
        w->renew_at = w->now + AGAIN_NS;
    else if (!w->watching)
        htc__worker_watch(w);
}

static htc_ns renew_after(const htc_worker *w)
{
    htc_ns third = w->options.lease_ns / 3;
    return w->options.lease_ns > third + MARGIN_NS ? w->options.lease_ns - MARGIN_NS : third;
}

/* The key that says that this epoch lives. */
static void enrol(htc_worker *w)
{
    flow_key    k = htc__flow_key_worker(w->options.flow, w->id);
    flow_worker self = { .epoch = w->epoch, .slots = w->options.slots };
    w->registering = 1;
    memcpy(self.address, w->address, sizeof self.address);
    memcpy(self.node, w->holder.node, sizeof self.node);
    htc__flow_worker_write(&w->buf, &self);
    if (!htc__worker_written(w, "enrolling"))
        return;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .lease = w->epoch }, 1, registered, NULL);
}

static void granted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    (void)ctx;
    w->joining = 0;
    if (r->status != HTC_OK || !r->lease) {
        w->renew_at = w->now + AGAIN_NS;
        return;
    }
    w->epoch = r->lease;
    w->renew_at = w->now + renew_after(w);
    enrol(w);
}

static void renewed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    (void)ctx;
    w->joining = 0;
    if (r->status == HTC_ENOTFOUND)
        htc__worker_stop(w, HTC_ELOST);
    w->renew_at = w->now + (r->status == HTC_OK ? renew_after(w) : AGAIN_NS);
    if (r->status == HTC_OK && !w->joined && !w->leaving)
        enrol(w); /* the store did not say that it is enrolled */
}

static void keep_lease(htc_worker *w)
{
    if (w->joining || w->registering || w->now < w->renew_at)
        return;
    w->joining = 1;
    if (w->epoch)
        htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_RENEW, .lease = w->epoch }, 1, renewed, NULL);
    else
        htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = w->options.lease_ns }, 1, granted,
                        NULL);
}

/* ---- leaving ---- */

static void revoked(void *role, void *ctx, const htc_kv_result *r)
{
    (void)ctx;
    (void)r; /* else it ends by itself */
    htc__worker_stop(role, HTC_OK);
}

/* When nothing runs and everything is handed over the others may know at once that this one is gone. */
static void leave(htc_worker *w)
{
    if (w->left || !htc__worker_quiet(w) || w->owns || w->remakes || w->survey || w->joining || w->registering)
        return;
    w->left = 1;
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = w->epoch }, 1, revoked, NULL);
}

static void asked_to_leave(htc_worker *w, htc_status how)
{
    running *x, *next;
    if (!w->epoch) {
        htc__worker_stop(w, HTC_OK);
        return;
    }
    w->leaving = 1;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->function)
        htc__worker_function_order(w, x, how == HTC_EKILLED ? ORDER_STOP : ORDER_DRAIN);
    else
        htc__attempt_order(&w->holder, &x->attempt, how == HTC_EKILLED ? ORDER_STOP : ORDER_DRAIN);
}

/* ---- the machine ---- */

static void message(htc_worker *w, const htc_input *in)
{
    uint16_t       type, version;
    uint8_t        role;
    uint64_t       id;
    worker_message m;
    htc_reader     r = htc_wire_open(in->body, &type, &id);
    if (r.status != HTC_OK)
        return;
    if (type == HTC_WIRE_HELLO) {
        htc_status status = htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version);
        if (status != HTC_OK || role != HTC_WIRE_ROLE_WORKER) {
            htc_runtime_close(w->runtime, in->peer, HTC_EPROTO);
            return;
        }
        htc_wire_welcome(&w->buf, id, version);
        htc_runtime_send(w->runtime, in->peer, &w->buf);
    } else if (type >= HTC_WIRE_OBJECT_ASK && type <= HTC_WIRE_OBJECT_NONE) {
        htc__worker_objects_heard(w, in->peer, type, &r);
    } else if (type >= HTC_WIRE_WORKER_LOAD_ASK && type <= HTC_WIRE_WORKER_REDO) {
        if (htc__worker_read(&r, &m) == HTC_OK && m.flow == w->options.flow && w->joined)
            htc__worker_heard(w, in->peer, type, &m);
    }
}

/* Who called greets. */
static void opened(htc_worker *w, const htc_input *in)
{
    if (!htc__worker_member_opened(w, in))
        return;
    htc_wire_hello(&w->buf, HTC_WIRE_ROLE_WORKER, HTC_WIRE_VERSION);
    htc_runtime_send(w->runtime, in->peer, &w->buf);
}

static void event(htc_worker *w, const htc_input *in)
{
    if (in->op == HTC_EVENT_SHUTDOWN) {
        asked_to_leave(w, in->status);
        return;
    }
    htc_reader r = htc_reader_of(in->body);
    if (in->op == HTC_EVENT_REFUSED) {
        uint32_t peer = htc_get_u32(&r);
        if (htc_reader_done(&r) == HTC_OK)
            htc__worker_refused(w, peer);
        return;
    }
    running   *x = htc__worker_run(w, htc_get_u64(&r));
    if (x && x->function)
        return;
    if (x && htc_reader_done(&r) == HTC_OK && in->op == HTC_EVENT_STARTED)
        (void)htc__attempt_started(&w->holder, &x->attempt);
    else if (x && htc_reader_done(&r) == HTC_OK && in->op == HTC_EVENT_TASK_STOPPED)
        htc__attempt_stopped(&w->holder, &x->attempt, in->status == HTC_ETIMEDOUT);
}

static int is_of_run(uint32_t op)
{
    return op == HTC_CALL_STAGE_IN || op == HTC_CALL_RUN || op == HTC_CALL_STAGE_OUT || op == HTC_CALL_RUN_SPAN;
}

static void run_time(htc_worker *w)
{
    running *x, *next;
    if (!w->stopping)
        keep_lease(w);
    DL_FOREACH_SAFE(w->runs, x, next)
    htc__attempt_timer(&w->holder, &x->attempt);
    if (w->stopped || w->stopping)
        return;
    if (!w->joined) {
        if (w->leaving)
            leave(w);
        return;
    }
    if (w->ended) {
        htc__worker_objects_end(w);
        htc__worker_stop(w, HTC_OK);
        return;
    }
    htc__worker_group_timers(w);
    if (htc__worker_runs_flow(w)) {
        htc__worker_survey_starved(w);
        if (w->now >= htc__worker_survey_deadline(w))
            htc__worker_survey(w);
        htc__worker_ledgers_timers(w);
        htc__worker_graph(w);
        htc__worker_tells(w);
        if (w->objects)
            htc__objects_run(w->objects, w->now);
        htc__worker_remakes(w);
        htc__worker_additions(w);
        if (!w->leaving) {
            htc__worker_begin(w);
            htc__worker_nudge(w);
            htc__worker_steal(w);
        }
        if (w->objects)
            htc__objects_run(w->objects, w->now); /* what began wants something */
        htc__worker_flush(w);
    }
    if (w->leaving)
        leave(w);
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static htc_ns deadline(const void *self)
{
    const htc_worker *w = self;
    const running     *x;
    if (w->stopped)
        return HTC_NEVER;
    if (w->poked)
        return 0;
    htc_ns at = earlier(htc_runtime_deadline(w->runtime), w->joining || w->registering || w->stopping ? HTC_NEVER : w->renew_at);
    DL_FOREACH(w->runs, x)
    at = earlier(at, htc__attempt_deadline(&x->attempt));
    if (!w->joined || w->ended || w->stopping)
        return at;
    at = earlier(at, htc__worker_group_deadline(w));
    if (!htc__worker_runs_flow(w))
        return at;
    at = earlier(at, earlier(htc__worker_remakes_deadline(w), htc__worker_additions_deadline(w)));
    if (w->objects)
        at = earlier(at, htc__objects_deadline(w->objects));
    at = earlier(at, earlier(htc__worker_graph_deadline(w), htc__worker_survey_deadline(w)));
    return earlier(at, earlier(htc__worker_ledgers_deadline(w), w->leaving ? HTC_NEVER : htc__worker_steal_deadline(w)));
}

static htc_status step(void *self, const htc_input *given, htc_output *out)
{
    htc_worker     *w = self;
    htc_input        room;
    htc_status       unknown;
    const htc_input *in = htc__input_known(given, &room, &unknown);
    if (!in)
        return unknown;
    htc_status broken = htc_runtime_begin(w->runtime, in, out);
    if (broken != HTC_OK || w->stopped)
        return broken;
    w->now = w->holder.now = in->now;
    w->poked = 0;
    w->holder.out = out;
    int       from_store = in->peer == w->options.store_peer;
    running  *x = in->kind == HTC_IN_RESULT && is_of_run(in->op) ? htc__worker_run(w, in->tag) : NULL;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_MESSAGE:
        if (!from_store && !w->stopping)
            message(w, in);
        break;
    case HTC_IN_OPENED:
        if (!from_store)
            opened(w, in);
        break;
    case HTC_IN_CLOSED:
        if (!from_store && w->objects)
            htc__objects_closed(w->objects, in->peer);
        break;
    case HTC_IN_RESULT:
        if (x && x->function)
            htc__worker_function_result(w, x, in);
        else if (x && !htc__worker_data_staged(w, x, in))
            htc__attempt_result(&w->holder, &x->attempt, in);
        break;
    case HTC_IN_EVENT: event(w, in); break;
    default: break;
    }
    if (!(in->kind == HTC_IN_RESULT && is_of_run(in->op)))
        htc_runtime_input(w->runtime, in);
    if (htc_runtime_status(w->runtime) == HTC_OK && !w->stopped)
        run_time(w);
    htc__worker_find_owners(w);
    htc__worker_send_together(w);
    if (w->stopping && !w->stopped)
        stop_when_nothing_runs(w);
    w->holder.out = NULL;
    if (w->holder.failed != HTC_OK)
        htc_runtime_break(w->runtime, w->holder.failed, "asking the host");
    return htc_runtime_end(w->runtime, in);
}

static void destroy(void *self)
{
    htc_worker *w = self;
    if (!w)
        return;
    htc_env env = w->env;
    htc__objects_destroy(w->objects);
    w->objects = NULL; /* nothing is asked of the host any more */
    htc__worker_remakes_free(w);
    htc__worker_additions_free(w);
    htc__worker_tasks_free(w);
    htc__worker_tell_free(w);
    htc__worker_graph_free(w);
    htc__worker_places_free(w);
    htc_registry_destroy(w->registry);
    htc__worker_ledgers_free(w);
    htc__worker_group_free(w);
    htc_runtime_destroy(w->runtime);
    htc_buf_free(&w->buf);
    htc_buf_free(&w->header_bytes);
    htc_buf_free(&w->holder.buf);
    htc__free(&env, w, sizeof *w);
}

const htc_machine_ops *htc_worker_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}

void htc_worker_options_init(htc_worker_options *options, size_t size)
{
    htc__options_init(options, size);
}

/* A thief alone asks nobody: what is answered otherwise is that its options are none. */
static htc_status check_steal(const htc_worker *w)
{
    htc_steal_thief alone;
    htc_rng         rng = { 0 };
    uint32_t        other, n;
    htc_status      status = htc_steal_start(1, 0, 0, &alone);
    if (status == HTC_OK)
        status = htc_steal_ask(&alone, &w->steal, 0, &rng, 1, &other, &n);
    return status == HTC_AGAIN ? HTC_OK : status;
}

static htc_status check_options(const htc_worker_options *o)
{
    int good = o->flow && o->id && o->address && strlen(o->address) <= 255 && o->store_client_id && o->store_peer &&
               o->slots <= HTC_WORKER_SLOTS_MAX && (!o->node || strlen(o->node) < HOST_NAME) && (!o->user || strlen(o->user) < sizeof ((htc_worker *)NULL)->user) && o->within <= 1;
    return good ? HTC_OK : HTC_EINVAL;
}

/* Fields that are not zero yet. */
static htc_status fill_in(htc_worker *w, const htc_worker_options *o)
{
    w->options = *o;
    w->options.slots = o->slots ? o->slots : 1;
    w->options.lease_ns = o->lease_ns ? o->lease_ns : LEASE_NS;
    w->options.commit_gap_ns = o->commit_gap_ns ? o->commit_gap_ns : HTC_MS;
    memcpy(w->address, o->address, strlen(o->address) + 1);
    w->options.address = w->options.node = w->options.user = NULL;
    w->options.steal = NULL;
    w->id = o->id;
    w->last_run = o->calls_from + RUNS_FROM;
    w->appetite = 1;
    w->gone_at = w->collect_at = w->survey_at = w->rest_at = w->read_at = w->tell_at = HTC_NEVER;
    htc_buf_init(&w->buf, &w->env, HTC_WIRE_MESSAGE_MAX);
    htc_buf_init(&w->header_bytes, &w->env, 0);
    htc_buf_init(&w->holder.buf, &w->env, HTC_WIRE_MESSAGE_MAX);
    w->holder.env = &w->env;
    w->holder.ops = &htc__worker_holder;
    w->holder.stage_retry = 3;
    w->holder.retry_ns = HTC_SECOND;
    w->holder.kill_after_ns = 10 * HTC_SECOND;
    if (o->node)
        memcpy(w->holder.node, o->node, strlen(o->node) + 1);
    if (o->user)
        memcpy(w->user, o->user, strlen(o->user) + 1);
    w->steal.size = sizeof w->steal;
    if (!o->steal)
        return HTC_OK;
    htc_status status = htc__options_copy(&w->steal, sizeof w->steal, o->steal, o->steal->size, offsetof(htc_steal_options, policy));
    w->steal.size = sizeof w->steal;
    w->steal_given = 1;
    return status == HTC_OK ? check_steal(w) : status;
}

htc_status htc_worker_create(const htc_env *env, const htc_worker_options *options, htc_worker **out)
{
    htc_worker_options o = HTC_WORKER_OPTIONS_INIT;
    if (!env || !env->rng || !options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_worker_options, slots));
    if (status == HTC_OK)
        status = check_options(&o);
    if (status != HTC_OK)
        return status;
    htc_worker *w = htc__alloc(env, sizeof *w);
    if (!w)
        return HTC_ENOMEM;
    w->env = *env;
    status = fill_in(w, &o);
    htc_kv_client_options store = { .size = sizeof store, .client_id = o.store_client_id, .peer = o.store_peer, .inflight_max = REQUESTS_MAX };
    htc_runtime_options   runtime = { .size = sizeof runtime, .role = w, .store = &store, .name = "worker", .calls_from = o.calls_from };
    if (status == HTC_OK)
        status = htc_runtime_create(env, &runtime, &w->runtime);
    if (status == HTC_OK)
        status = htc_steal_start(1, 0, 0, &w->thief);
    if (status != HTC_OK) {
        destroy(w);
        return status;
    }
    *out = w;
    return HTC_OK;
}

void htc_worker_slots(htc_worker *w, uint32_t slots)
{
    slots = slots < HTC_WORKER_SLOTS_MAX ? slots : HTC_WORKER_SLOTS_MAX;
    w->poked |= slots > w->options.slots;
    w->options.slots = slots;
}

void htc_worker_ahead(htc_worker *w, int ahead)
{
    running *x;
    if (w->ahead && !ahead)
        DL_FOREACH(w->runs, x)
        if (!x->function && htc__attempt_recall(&w->holder, &x->attempt))
            w->poked = 1;
    w->ahead = ahead != 0;
}

void htc_worker_cancel(htc_worker *w)
{
    w->cancel_wanted = w->poked = 1;
}

int htc_worker_stopped(const htc_worker *w, htc_status *status)
{
    if (w->stopped && status)
        *status = w->stop_status;
    return w->stopped;
}

htc_status htc_worker_look(const htc_worker *w, htc_worker_figures *figures)
{
    htc_worker_figures   f = w->figures;
    htc__objects_figures objects = { 0 };
    const own         *o;
    const node        *n;
    if (!figures)
        return HTC_EINVAL;
    f.running = w->n_runs;
    f.members = w->n_members + 1;
    EACH_OWN(w, o)
    {
        f.ledgers++;
        f.ready += htc__ids_count(&o->ready);
        EACH_NODE(o, n)
        f.waiting += n->phase == NODE_WAITING || n->phase == NODE_LACKING;
    }
    if (w->objects)
        htc__objects_look(w->objects, &objects);
    f.local = htc__worker_local(w);
    f.ready += f.local;
    f.made = objects.made;
    f.fetched = objects.fetched;
    f.fetched_bytes = objects.fetched_bytes;
    f.served = objects.served;
    f.flow_ended = w->ended;
    if (w->ended) {
        f.done = w->flow.counts.done;
        f.failed = w->flow.counts.failed;
        f.cancelled = w->flow.counts.cancelled;
    }
    return htc__options_give(figures, &f, sizeof f, offsetof(htc_worker_figures, run));
}
