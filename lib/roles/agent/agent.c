/* The agent towards the gateway: registering, beating, pulling, leaving.
 *
 *   state        it is here when                 what wakes it                         goes to
 *   -----------  ------------------------------  ------------------------------------  -----------------------------
 *   apart        no connection                   OPENED                                greeting
 *                                                idle for orphan_after                 left
 *   greeting     AGENT_HELLO not answered        AGENT_WELCOME ok                      serving
 *                                                AGENT_WELCOME not ok                  ending (drops everything)
 *   serving      registered                      a slot is free: PULL                  serving
 *                                                GRANT EXIT and nothing held           left
 *                                                stalled itself for lost_after         greeting (starts nothing new)
 *   both         connected                       nothing heard for too long            apart (closes the connection)
 *                                                DRAIN, SHUTDOWN, disk full            ending (finishes what runs)
 *                                                STOP                                  ending (kills what runs)
 *   ending       nothing new may begin           DRAIN off                             serving
 *                                                nothing held: BYE                     left
 *   left         HTC_OUT_STOP was said           nothing
 *
 * Tasks go on in every state but `left`: a gateway that is away costs no running task. */
#include <string.h>

#include "roles/agent/agent_private.h"
#include "roles/runtime/silence.h"

static htc_ns or_default(htc_ns value, htc_ns fallback)
{
    return value ? value : fallback;
}

static htc_ns after(htc_ns from, htc_ns span)
{
    return span > HTC_NEVER - from ? HTC_NEVER : from + span;
}

htc_status htc_agent_create(const htc_env *env, const htc_agent_options *options, htc_agent **out)
{
    htc_agent_options o = { 0 };
    if (!env || !options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_agent_options, slots));
    if (status != HTC_OK)
        return status;
    if (o.agent == 0 || o.peer == 0)
        return HTC_EINVAL;
    const char *node = o.node ? o.node : "", *store = o.store ? o.store : "", *address = o.address ? o.address : store;
    const char *system = o.system ? o.system : "", *machine = o.machine ? o.machine : "";
    const char *outputs = o.outputs ? o.outputs : "";
    if (strlen(outputs) >= HTC_AGENT_OUTPUTS_MAX)
        return HTC_EINVAL;
    if (strlen(store) > 255 || strlen(address) > 255 || strlen(system) >= HTC_WIRE_MACHINE_MAX || strlen(machine) >= HTC_WIRE_MACHINE_MAX)
        return HTC_EINVAL;
    htc_agent  *a = strlen(node) < sizeof a->holder.node ? htc__alloc(env, sizeof *a) : NULL;
    if (!a)
        return strlen(node) < sizeof a->holder.node ? HTC_ENOMEM : HTC_EINVAL;
    a->env = *env;
    a->id = o.agent;
    a->peer = o.peer;
    a->slots = o.slots ? o.slots : 1;
    if (a->slots > HTC_AGENT_HELD_MAX)
        a->slots = HTC_AGENT_HELD_MAX;
    a->occupied = a->slots;
    memcpy(a->store, store, strlen(store) + 1);
    memcpy(a->address, address, strlen(address) + 1);
    memcpy(a->machine.system, system, strlen(system) + 1);
    memcpy(a->machine.machine, machine, strlen(machine) + 1);
    a->memory = o.memory;
    a->cores = o.cores;
    a->cache_bytes = o.cache_bytes;
    a->policies = o.policies;
    a->brings = o.brings != 0;
    a->outputs.shares = o.shares != 0;
    memcpy(a->outputs.path, outputs, strlen(outputs) + 1);
    a->outputs.at = HTC_NEVER;
    a->holder.missing_is_final = 1;
    a->holder.stage_retry = o.stage_retry ? o.stage_retry : 3;
    a->holder.pace.first = o.io_backoff_ns;
    memcpy(a->holder.node, node, strlen(node) + 1);
    a->holder.retry_ns = or_default(o.retry_ns, HTC_SECOND);
    a->holder.kill_after_ns = or_default(o.kill_after_ns, 10 * HTC_SECOND);
    a->orphan_after_ns = or_default(o.orphan_after_ns, 60 * HTC_SECOND);
    a->heartbeat_ns = 10 * HTC_SECOND;
    a->lost_after_ns = 30 * HTC_SECOND;
    htc_buf_init(&a->buf, &a->env, HTC_WIRE_MESSAGE_MAX);
    a->holder.env = &a->env;
    a->holder.ops = &htc__agent_holder;
    htc_buf_init(&a->holder.buf, &a->env, HTC_WIRE_MESSAGE_MAX);
    *out = a;
    return HTC_OK;
}

static void agent_destroy(void *self)
{
    htc_agent *a = self;
    if (!a)
        return;
    htc_env env = a->env;
    htc__agent_flows_free(a);
    htc__agent_free_all(a);
    htc_buf_free(&a->buf);
    htc_buf_free(&a->holder.buf);
    htc__free(&env, a, sizeof *a);
}

void htc__agent_emit(htc_agent *a, const htc_effect *effect)
{
    htc_status status = htc_output_add(a->holder.out, effect);
    if (status != HTC_OK && a->holder.failed == HTC_OK)
        a->holder.failed = status;
}

int htc__agent_ending(const htc_agent *a)
{
    return a->draining || a->finishing || a->stopping || a->disowned || a->leave != HTC_OK;
}

void htc__agent_leave(htc_agent *a, htc_status why, const char *reason)
{
    if (a->leave != HTC_OK)
        return;
    a->leave = why;
    size_t n = strlen(reason);
    if (n >= sizeof a->leave_reason)
        n = sizeof a->leave_reason - 1;
    memcpy(a->leave_reason, reason, n);
    a->leave_reason[n] = '\0';
    htc__log_with(&a->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(why)),
                  "%s: %s -> give tasks back and leave", htc_status_name(why), a->leave_reason);
    htc__agent_order_all(a, ORDER_DRAIN);
}

/* Everything ends now. What the gateway does not take back in time is left to it: it finds the agent gone. */
void htc__agent_stop(htc_agent *a)
{
    if (a->stopping)
        return;
    htc__log(&a->env, HTC_LOG_INFO, "told to stop -> kill %u task%s and give back what it holds", (unsigned)a->count, htc__plural(a->count));
    a->stopping = 1;
    a->stop_at = after(a->holder.now, a->holder.kill_after_ns + (a->holder.retry_ns << ATTEMPT_DOUBLINGS));
    htc__agent_order_all(a, ORDER_STOP);
}

void htc__agent_drain(htc_agent *a, int on)
{
    if (a->draining == (on != 0))
        return;
    htc__log(&a->env, HTC_LOG_INFO, "drain is %s -> %s", on ? "on" : "off", on ? "finish what runs" : "pull again");
    a->draining = on != 0;
    a->wait_until = 0;
    a->exit = 0; /* an EXIT that a pull got while draining holds no longer either */
    if (on)
        htc__agent_order_all(a, ORDER_DRAIN);
}

/* Fewer slots end nothing: what runs goes on, what has not begun is given back. The host is told at once, so that it begins
 * nothing above them either. */
void htc__agent_set_slots(htc_agent *a, const htc_slots *m)
{
    uint32_t slots = m->slots < HTC_AGENT_HELD_MAX ? m->slots : HTC_AGENT_HELD_MAX, before = a->slots;
    if (m->seq == a->slots_seq && slots != a->slots) /* a gateway before used the number: this one is to count on from a new one */
        a->slots_seq++;
    if (m->seq > a->slots_seq) {
        uint32_t filled = htc__agent_filled(a);
        a->slots_seq = m->seq;
        a->slots = slots;
        a->occupied = filled < a->occupied ? filled : a->occupied;
        a->occupied = slots > a->occupied ? slots : a->occupied;
    }
    if (a->slots != before) {
        htc__log(&a->env, HTC_LOG_INFO, "may fill %u slot%s, before %u -> %s", (unsigned)a->slots, htc__plural(a->slots), (unsigned)before,
                 a->slots < before ? "begin nothing above them" : "pull again");
        if (a->slots > before)
            htc__agent_flows_take_back(a); /* the host would begin it in the new ones */
        htc_buf_clear(&a->buf);
        htc_put_u32(&a->buf, a->slots);
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_SLOTS, .body = htc_buf_bytes(&a->buf) });
    }
    if (a->slots < before)
        htc__agent_return_excess(a);
    if (a->slots > before)
        a->wait_until = a->exit = 0;
    htc__agent_say_slots_held(a);
}

/* A slot above those that it may fill has fallen free: the gateway waits for it. */
static void notice_free_slots(htc_agent *a)
{
    uint32_t filled = htc__agent_filled(a), now = filled > a->slots ? filled : a->slots;
    if (now >= a->occupied)
        return;
    a->occupied = now;
    if (a->registered)
        htc__agent_say_slots_held(a);
}

static void greet(htc_agent *a)
{
    a->registered = 0;
    a->hello_tries = 0;
    htc__agent_say_hello(a);
}

static void opened(htc_agent *a)
{
    a->connected = 1;
    a->opened_at = a->holder.now;
    a->gateway_speaks = 0;
    htc_wire_hello_machine(&a->buf, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION, &a->machine);
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = a->peer, .body = htc_buf_bytes(&a->buf) });
    greet(a);
}

/* A machine that was not run for longer than the gateway waits for it may be thought dead, and cannot tell who was
 * silent: it or the gateway. It takes no decision on that before it has asked. */
static void notice_stall(htc_agent *a, htc_ns deadline)
{
    if (deadline == HTC_NEVER || a->holder.now <= deadline || a->holder.now - deadline <= a->lost_after_ns)
        return;
    htc__log(&a->env, HTC_LOG_WARN, "was stalled for %llu ms -> register again before anything new",
             (unsigned long long)((a->holder.now - deadline) / HTC_MS));
    a->heard_at = a->holder.now;
    a->reconciling = UINT64_MAX;
    if (a->stop_at != HTC_NEVER)
        a->stop_at = after(a->holder.now, a->holder.kill_after_ns);
    if (a->connected)
        greet(a);
}

/* A network that carries nothing any more says nothing of it, and the gateway has nothing to say but answers to heartbeats. The connection is opened
 * anew, at the next of the gateways if there are several, when it has been silent for too long after the first answer that did not come. After a rest
 * the first answer is that to the beat which ended it: before, none was asked for. */
static htc_ns quiet_at(const htc_agent *a)
{
    htc_ns since = a->opened_at > a->heard_at ? a->opened_at : a->heard_at;
    int    asked = a->asked_at > since, rests = a->registered && !asked && a->beat_gap > a->heartbeat_ns;
    htc_ns due = after(since, rests ? a->beat_gap : a->heartbeat_ns);
    if (asked && a->asked_at > due)
        due = a->asked_at;
    return after(due, htc__silence_borne(a->heartbeat_ns, a->lost_after_ns));
}

/* One that beats rarely does so when it is awake anyhow, if half of the time is over. */
static htc_ns beats_from(const htc_agent *a)
{
    htc_ns half = a->beat_gap > a->heartbeat_ns ? a->beat_gap / 2 : 0;
    return a->beat_at > half ? a->beat_at - half : 0;
}

static void run_timers(htc_agent *a)
{
    htc__agent_timers(a);
    if (!a->connected)
        return;
    if (a->holder.now >= quiet_at(a)) {
        htc__log(&a->env, HTC_LOG_WARN, "nothing heard of the gateway -> connect again");
        a->connected = a->registered = 0;
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = a->peer, .status = HTC_ETIMEDOUT });
        return;
    }
    if (!a->registered && a->holder.now >= a->hello_at)
        htc__agent_say_hello(a);
    if (a->registered && a->holder.now >= beats_from(a))
        htc__agent_say_heartbeat(a);
    if (a->registered && a->pulling && a->holder.now >= a->pull_at)
        htc__agent_say_pull(a);
    htc__agent_outputs_run(a);
}

static int may_pull(const htc_agent *a)
{
    return a->registered && !htc__agent_ending(a) && !a->exit && !a->pulling && !a->reconciling &&
           a->count < HTC_AGENT_HELD_MAX && htc__agent_active(a) < a->slots + htc__agent_ahead(a) / (a->slots > 1 ? 2 : 1);
}

static void end(htc_agent *a, htc_status status, const char *reason)
{
    if (a->connected)
        htc__agent_say_bye(a, status, reason);
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_STOP, .status = status });
    a->ended = 1;
    htc__log(&a->env, HTC_LOG_INFO, "nothing left to do (%s) -> leave", reason);
}

/* Idle and alone for this long, an agent leaves. Idle: what it holds, if anything, has not begun, so nobody misses it.
 */
static htc_ns orphan_at(const htc_agent *a)
{
    if (htc__agent_begun(a) > 0)
        return HTC_NEVER;
    return after(a->heard_at > a->idle_at ? a->heard_at : a->idle_at, a->orphan_after_ns);
}

/* What is to be done after anything happened: begin tasks, ask for more, or leave. */
static void settle(htc_agent *a)
{
    if (!a->reconciling && !a->stopping && !a->disowned)
        htc__agent_start_waiting(a);
    notice_free_slots(a);
    if (may_pull(a) && a->holder.now >= a->wait_until) {
        a->pull_seq++;
        a->pulling = 1;
        a->pull_tries = 0;
        htc__agent_say_pull(a);
    }
    if (a->registered)
        htc__agent_say_give_back(a);
    if (a->stopping && a->holder.now >= a->stop_at)
        end(a, HTC_ETIMEDOUT, "told to stop, and the gateway does not take the tasks back");
    else if (a->holder.now >= orphan_at(a))
        end(a, HTC_EUNREACHABLE, "idle, and the gateway does not answer");
    else if (a->count > 0)
        return;
    else if (a->disowned)
        end(a, HTC_ENOTFOUND, "the gateway does not know this agent");
    else if (a->leave != HTC_OK)
        end(a, a->leave, a->leave_reason);
    else if (a->stopping || a->draining || a->finishing)
        end(a, HTC_OK, a->stopping ? "told to stop" : "drained");
    else if (a->exit)
        end(a, HTC_OK, "the queue is empty");
}

static void message(htc_agent *a, const htc_input *in)
{
    if (in->peer == a->peer && a->connected)
        htc__agent_heard(a, in->body);
}

static htc_status dispatch(htc_agent *a, const htc_input *in)
{
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_START:
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
    case HTC_IN_FRAMES:
        return HTC_OK;
    case HTC_IN_MESSAGE:
        message(a, in);
        return HTC_OK;
    case HTC_IN_OPENED:
        if (in->peer == a->peer)
            opened(a);
        return HTC_OK;
    case HTC_IN_CLOSED:
        if (in->peer == a->peer)
            a->connected = a->registered = 0;
        return HTC_OK;
    case HTC_IN_RESULT:
        htc__agent_result(a, in);
        return HTC_OK;
    case HTC_IN_EVENT:
        htc__agent_event(a, in);
        return HTC_OK;
    }
    return HTC_EUNSUPPORTED;
}

static htc_ns agent_deadline(const void *self)
{
    const htc_agent *a = self;
    if (!a->begun || a->ended)
        return HTC_NEVER;
    htc_ns at = htc__agent_tasks_deadline(a);
    htc_ns flows = htc__agent_flows_deadline(a);
    htc_ns gangs = htc__agent_gang_deadline(a);
    at = flows < at ? flows : at;
    at = gangs < at ? gangs : at;
#define EARLIEST(condition, moment)                                                                                    \
    if ((condition) && (moment) < at)                                                                                  \
        at = (moment);
    EARLIEST(a->connected && !a->registered, a->hello_at)
    EARLIEST(a->registered, a->beat_at)
    EARLIEST(a->connected, quiet_at(a))
    EARLIEST(a->registered, a->outputs.at)
    EARLIEST(a->registered && a->pulling, a->pull_at)
    EARLIEST(may_pull(a), a->wait_until)
    EARLIEST(a->stopping, a->stop_at)
    EARLIEST(1, orphan_at(a))
#undef EARLIEST
    return at;
}

static htc_status agent_step(void *self, const htc_input *given, htc_output *out)
{
    htc_agent *a = self;
    htc_input  room;
    htc_status status;
    if (a->ended)
        return HTC_OK;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in)
        return status;
    htc_ns deadline = agent_deadline(a);
    a->holder.now = in->now;
    a->holder.out = out;
    if (!a->begun) {
        a->begun = 1;
        a->heard_at = a->idle_at = a->holder.now;
        a->stop_at = HTC_NEVER;
    }
    notice_stall(a, deadline);
    status = htc__agent_flows_input(a, in) ? HTC_OK : dispatch(a, in);
    htc__agent_gang_step(a);
    htc__agent_flows_run(a);
    run_timers(a);
    settle(a);
    a->holder.out = NULL;
    return a->holder.failed != HTC_OK ? a->holder.failed : status;
}

const htc_machine_ops *htc_agent_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, agent_step, agent_deadline, agent_destroy, 0 };
    return &ops;
}
