/* A host that has joined.
 *
 *   apart    no connection                 OPENED           greeting
 *   greeting JOINED_HELLO not answered     JOINED_WELCOME   in; or sent away: it stops
 *   in       JOINED_HELLO as a heartbeat   nothing heard    greeting
 *
 * Its list of agents is what its own host has told of their processes, so JOINED_HELLO needs no other memory. */
#include "htcsched/joined.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "roles/joined/joined_content.h"
#include "roles/runtime/joined_wire.h"
#include "roles/runtime/silence.h"

#define CALLS_OF_RUNTIME (UINT64_C(1) << 62) /* and above: its tags */

typedef struct launched {
    uint64_t agent;
    uint32_t begun; /* 1: its process is there; 0: it is asked for */
    uint8_t  phase; /* htc_joined_phase */
    uint32_t len;
    uint8_t  handle[HTC_HANDLE_MAX];
} launched;

struct htc_joined {
    htc_env     env;
    htc_output *out; /* of the step under way */
    htc_status  failed;
    htc_ns      now, retry_ns, hello_at, heard_at, heartbeat_ns, lost_after_ns;
    uint32_t    peer, connection; /* connection: how many there were */
    uint8_t     begun, connected, in, leaving, ended;
    void      (*let_in)(void *ctx); /* NULL: it was told, or nobody is */
    void       *let_in_ctx;
    htc_status (*keys)(void *ctx, htc_bytes ring);
    void       *keys_ctx;
    char        reason[256];
    htc_buf     buf;
    htc_runtime    *runtime;
    joined_content *content; /* uploads that tasks here read */
    htc_wire_machine machine; /* this one */
    htc_joined_hello hello; /* as it is said; its agents are those of list */
    launched    list[HTC_JOINED_AGENTS_MAX];
};

static void destroy(void *self)
{
    htc_joined *j = self;
    if (!j)
        return;
    htc_env env = j->env;
    htc__joined_content_destroy(j->content);
    htc_runtime_destroy(j->runtime);
    htc_buf_free(&j->buf);
    htc__free(&env, j, sizeof *j);
}

static void say_answer(void *role, uint32_t connection, uint32_t tag, htc_status status, htc_bytes body);

htc_status htc_joined_create(const htc_env *env, const htc_joined_options *options, htc_joined **out)
{
    htc_joined_options o = { 0 };
    if (!env || !options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_joined_options, slots));
    if (status != HTC_OK)
        return status;
    const char *node = o.node ? o.node : "", *data = o.data ? o.data : "";
    htc_joined *j = NULL;
    if (o.count > HTC_JOINED_AGENTS_MAX || (o.count && !o.agents) || o.n_resources > HTC_JOINED_RESOURCES_MAX || (o.n_resources && !o.resources))
        return HTC_EINVAL;
    for (size_t i = 0; i < o.n_resources; i++)
        if (!o.resources[i].name || strlen(o.resources[i].name) > HTC_RESOURCE_NAME_MAX)
            return HTC_EINVAL;
    const char *system = o.system ? o.system : "", *machine = o.machine ? o.machine : "";
    if (strlen(system) >= HTC_WIRE_MACHINE_MAX || strlen(machine) >= HTC_WIRE_MACHINE_MAX)
        return HTC_EINVAL;
    if (o.peer == 0 || strlen(node) >= sizeof j->hello.node || strlen(data) >= sizeof j->hello.data)
        return HTC_EINVAL;
    j = htc__alloc(env, sizeof *j);
    if (!j)
        return HTC_ENOMEM;
    j->env = *env;
    j->peer = o.peer;
    j->let_in = o.let_in;
    j->let_in_ctx = o.let_in_ctx;
    j->keys = o.keys;
    j->keys_ctx = o.keys_ctx;
    j->retry_ns = o.retry_ns ? o.retry_ns : HTC_SECOND;
    j->heartbeat_ns = 10 * HTC_SECOND;
    j->lost_after_ns = 30 * HTC_SECOND;
    j->hello.cores = o.cores ? o.cores : 1;
    j->hello.slots = o.slots ? o.slots : j->hello.cores;
    j->hello.memory = o.memory;
    j->hello.agent_slots = o.agent_slots;
    for (uint32_t i = 0; i < o.count; i++)
        j->list[j->hello.count++] = (launched){ .agent = o.agents[i], .begun = 1 };
    for (size_t i = 0; i < o.n_resources; i++) {
        snprintf(j->hello.resources[i].name, sizeof j->hello.resources[i].name, "%s", o.resources[i].name);
        j->hello.resources[i].count = o.resources[i].count;
        j->hello.n_resources++;
    }
    memcpy(j->machine.system, system, strlen(system) + 1);
    memcpy(j->machine.machine, machine, strlen(machine) + 1);
    memcpy(j->hello.node, node, strlen(node) + 1);
    memcpy(j->hello.data, data, strlen(data) + 1);
    htc_buf_init(&j->buf, &j->env, HTC_WIRE_MESSAGE_MAX);
    htc_runtime_options    runtime = { .size = sizeof runtime, .role = j, .name = "joined", .calls_from = CALLS_OF_RUNTIME };
    joined_content_options content = { .role = j, .answer = say_answer, .peer = o.peer, .cache_bytes = o.cache_bytes, .fetches = o.fetches };
    status = htc_runtime_create(&j->env, &runtime, &j->runtime);
    if (status == HTC_OK)
        status = htc__joined_content_create(&j->env, j->runtime, &content, &j->content);
    if (status != HTC_OK) {
        destroy(j);
        return status;
    }
    *out = j;
    return HTC_OK;
}

const char *htc_joined_reason(const htc_joined *j)
{
    return j ? j->reason : "";
}

static void emit(htc_joined *j, const htc_effect *effect)
{
    htc_status status = j->buf.status != HTC_OK ? j->buf.status : htc_output_add(j->out, effect);
    j->failed = j->failed != HTC_OK ? j->failed : status;
}

static void say(htc_joined *j)
{
    emit(j, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = j->peer, .body = htc_buf_bytes(&j->buf) });
}

static void call(htc_joined *j, uint32_t op, uint64_t tag, htc_bytes body)
{
    emit(j, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = tag, .body = body });
}

static void stop(htc_joined *j, htc_status status)
{
    if (j->ended)
        return;
    j->ended = 1;
    emit(j, &(htc_effect){ .kind = HTC_OUT_STOP, .status = status });
}

/* ---- agents ---- */

static launched *find(htc_joined *j, uint64_t agent)
{
    for (uint32_t i = 0; i < j->hello.count; i++)
        if (j->list[i].agent == agent)
            return &j->list[i];
    return NULL;
}

static void forget(htc_joined *j, launched *l)
{
    if (l)
        *l = j->list[--j->hello.count];
}

static void end_agent(htc_joined *j, const launched *l)
{
    if (!l || !l->begun)
        return;
    htc_buf_clear(&j->buf);
    htc_put_u64(&j->buf, l->agent);
    htc_put_bytes(&j->buf, (htc_bytes){ l->handle, l->len });
    call(j, HTC_CALL_KILL_AGENT, 0, htc_buf_bytes(&j->buf));
}

static void say_hello(htc_joined *j)
{
    if (!j->connected)
        return;
    for (uint32_t i = 0; i < j->hello.count; i++)
    {
        j->hello.agents[i] = j->list[i].agent;
        j->hello.phases[i] = j->list[i].phase;
    }
    j->hello.leaving = j->leaving;
    htc_joined_hello_write(&j->buf, &j->hello);
    say(j);
    j->hello_at = j->now + (j->in ? j->heartbeat_ns : j->retry_ns);
}

static void say_launched(htc_joined *j, uint64_t agent, htc_status status, htc_bytes body)
{
    htc_joined_launched_write(&j->buf, agent, status, body);
    if (j->connected)
        say(j);
}

/* The body of LAUNCH begins with the site, then the agent. */
static void launch(htc_joined *j, htc_bytes body)
{
    char       site[64];
    htc_reader r = htc_reader_of(body);
    htc_get_str(&r, site, sizeof site);
    uint64_t agent = htc_get_u64(&r);
    j->hello.launches++;
    if (r.status != HTC_OK || find(j, agent))
        return;
    if (j->leaving || j->hello.count == HTC_JOINED_AGENTS_MAX) {
        say_launched(j, agent, HTC_EBUSY, htc_bytes_of(j->leaving ? "the host leaves" : "the host has as many agents as it can"));
        return;
    }
    j->list[j->hello.count++] = (launched){ .agent = agent };
    call(j, HTC_CALL_LAUNCH, agent, body);
}

/* Calls about files are handed on: tag says of which connection they are. */
static void file_call(htc_joined *j, htc_reader *r)
{
    uint32_t  tag = 0, op = 0;
    htc_bytes body = { 0 };
    if (htc_joined_call_read(r, &tag, &op, &body) != HTC_OK)
        return;
    if (op == HTC_CALL_CONTENT_FETCH) {
        htc__joined_content_fetch(j->content, j->connection, tag, body);
        return;
    }
    if (op == HTC_CALL_FILE_READ || op == HTC_CALL_LIVE_READ || op == HTC_CALL_DROP_JOB || op == HTC_CALL_DROP_OUTPUT) {
        call(j, op, (uint64_t)j->connection << 32 | tag, body);
        return;
    }
    htc_joined_answer_write(&j->buf, tag, HTC_EUNSUPPORTED, (htc_bytes){ 0 });
    say(j);
}

static void say_answer(void *role, uint32_t connection, uint32_t tag, htc_status status, htc_bytes body)
{
    htc_joined *j = role;
    if (connection != j->connection || !j->connected)
        return;
    htc_joined_answer_write(&j->buf, tag, status, body);
    say(j);
}

static void file_result(htc_joined *j, const htc_input *in)
{
    if ((uint32_t)in->tag == 0 || in->tag >> 32 != j->connection || !j->connected)
        return;
    htc_joined_answer_write(&j->buf, (uint32_t)in->tag, in->status, in->body);
    say(j);
}

static void result(htc_joined *j, const htc_input *in)
{
    if (in->op != HTC_CALL_LAUNCH) {
        file_result(j, in);
        return;
    }
    launched  *l = find(j, in->tag);
    htc_reader r = htc_reader_of(in->body);
    if (!l || l->begun)
        return;
    htc_bytes handle = in->status == HTC_OK ? htc_get_bytes(&r) : (htc_bytes){ 0 };
    if (in->status == HTC_OK && r.status == HTC_OK && handle.len <= sizeof l->handle) {
        l->begun = 1;
        l->len = (uint32_t)handle.len;
        memcpy(l->handle, handle.data, handle.len);
    } else {
        htc__log_with(&j->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", in->tag), HTC__STATUS(in->status)),
                      "agent %llu cannot be launched: %.*s -> tell the gateway", (unsigned long long)in->tag,
                      in->body.len ? (int)(in->body.len < 200 ? in->body.len : 200) : (int)strlen(htc_strerror(in->status)),
                      in->body.len ? (const char *)in->body.data : htc_strerror(in->status));
        forget(j, l);
    }
    if (!in->body.len && in->status != HTC_OK)
        say_launched(j, in->tag, in->status, htc_bytes_of(htc_strerror(in->status)));
    else
        say_launched(j, in->tag, in->status, in->body);
}

/* ---- what the gateway says ---- */

static void sent_away(htc_joined *j, htc_status status, const char *text)
{
    snprintf(j->reason, sizeof j->reason, "%s", text);
    htc__log_with(&j->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(status)), "the gateway says %s: %s -> end", htc_status_name(status), text);
    for (uint32_t i = 0; i < j->hello.count; i++)
        end_agent(j, &j->list[i]);
    stop(j, status);
}

static void hear_welcome(htc_joined *j, htc_reader *r)
{
    htc_joined_welcome m;
    if (htc_joined_welcome_read(r, &m) != HTC_OK)
        return;
    if (m.status != HTC_OK) {
        sent_away(j, m.status, m.text);
        return;
    }
    j->heartbeat_ns = m.heartbeat_ns ? m.heartbeat_ns : j->heartbeat_ns;
    j->lost_after_ns = m.lost_after_ns ? m.lost_after_ns : j->lost_after_ns;
    if (!j->in) {
        htc__log(&j->env, HTC_LOG_INFO, "the gateway lets this host in -> wait for agents to launch");
        j->hello_at = j->now + j->heartbeat_ns;
    }
    j->in = 1;
    if (m.ring.len && (!j->keys || j->keys(j->keys_ctx, m.ring) == HTC_OK))
        j->hello.keys = m.keys;
    if (j->let_in)
        j->let_in(j->let_in_ctx);
    j->let_in = NULL;
}

static void hear_error(htc_joined *j, htc_reader *r)
{
    char       text[256];
    htc_status status = (htc_status)(int32_t)htc_get_u32(r);
    htc_get_str(r, text, sizeof text);
    htc__text_clean(text);
    if (htc_reader_done(r) == HTC_OK && status < 0)
        sent_away(j, status, text);
}

static void message(htc_joined *j, htc_bytes body)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(body, &type, &id);
    if (r.status != HTC_OK)
        return;
    j->heard_at = j->now;
    switch (type) {
    case HTC_WIRE_ERROR: hear_error(j, &r); break;
    case HTC_WIRE_JOINED_WELCOME: hear_welcome(j, &r); break;
    case HTC_WIRE_JOINED_LAUNCH: launch(j, (htc_bytes){ r.p, htc_reader_left(&r) }); break;
    case HTC_WIRE_JOINED_KILL:
        if (htc_joined_kill_read(&r, &id) == HTC_OK)
            end_agent(j, find(j, id));
        break;
    case HTC_WIRE_JOINED_CALL: file_call(j, &r); break;
    case HTC_WIRE_OBJECT_BYTES:
    case HTC_WIRE_OBJECT_NONE: htc__joined_content_heard(j->content, type, &r); break;
    default: break; /* WELCOME */
    }
}

/* ---- the step ---- */

static void opened(htc_joined *j)
{
    j->connected = 1;
    j->connection++;
    j->in = 0;
    j->hello.launches = 0;
    j->heard_at = j->now;
    htc_wire_hello_machine(&j->buf, HTC_WIRE_ROLE_JOINED, HTC_WIRE_VERSION, &j->machine);
    say(j);
    say_hello(j);
}

static void leave(htc_joined *j, int at_once)
{
    at_once |= j->leaving;
    htc__log(&j->env, HTC_LOG_INFO, "asked to end -> %s %u agent%s", at_once ? "kill" : "wait for", (unsigned)j->hello.count, htc__plural(j->hello.count));
    j->leaving = 1;
    for (uint32_t i = 0; at_once && i < j->hello.count; i++)
        end_agent(j, &j->list[i]);
    say_hello(j);
}

/* Why one has ended is worth a word, also when it is known only after its end. */
static void agent_ended(htc_joined *j, htc_reader *r)
{
    char      how[256];
    uint64_t  agent = htc_get_u64(r);
    htc_bytes handle = htc_get_bytes(r);
    htc_get_str(r, how, sizeof how);
    launched *l = r->status == HTC_OK && handle.len ? find(j, agent) : NULL;
    if (r->status == HTC_OK && handle.len && how[0])
        say_launched(j, agent, HTC_EREFUSED, htc_bytes_of(how));
    forget(j, l);
    say_hello(j);
}

static void set_phase(htc_joined *j, launched *l, htc_joined_phase phase)
{
    if (!l || l->phase == phase)
        return;
    l->phase = (uint8_t)phase;
    say_hello(j);
}

static void agent_waits(htc_joined *j, htc_reader *r)
{
    char      why[256];
    uint64_t  agent = htc_get_u64(r);
    htc_bytes handle = htc_get_bytes(r);
    htc_get_str(r, why, sizeof why);
    set_phase(j, r->status == HTC_OK && handle.len ? find(j, agent) : NULL, why[0] ? HTC_JOINED_WAITS : HTC_JOINED_THERE);
}

static void agent_expires(htc_joined *j, htc_reader *r)
{
    uint64_t agent = htc_get_u64(r);
    set_phase(j, r->status == HTC_OK ? find(j, agent) : NULL, HTC_JOINED_EXPIRES);
}

static void event(htc_joined *j, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    if (in->op == HTC_EVENT_SHUTDOWN) {
        leave(j, in->status != HTC_OK);
    } else if (in->op == HTC_EVENT_AGENT_EXIT) {
        agent_ended(j, &r);
    } else if (in->op == HTC_EVENT_AGENT_WAITS) {
        agent_waits(j, &r);
    } else if (in->op == HTC_EVENT_AGENT_EXPIRES) {
        agent_expires(j, &r);
    }
}

/* As an agent's: the connection is opened anew. */
static htc_ns quiet_at(const htc_joined *j)
{
    return j->heard_at + j->heartbeat_ns + htc__silence_borne(j->heartbeat_ns, j->lost_after_ns);
}

static htc_ns deadline(const void *self)
{
    const htc_joined *j = self;
    htc_ns            at = j->ended ? HTC_NEVER : htc__joined_content_deadline(j->content);
    if (!j->connected || j->ended)
        return at;
    htc_ns silent = quiet_at(j);
    at = silent < at ? silent : at;
    return j->hello_at < at ? j->hello_at : at;
}

static void run_timers(htc_joined *j)
{
    if (j->connected && j->now >= quiet_at(j)) {
        htc__log(&j->env, HTC_LOG_WARN, "nothing heard of the gateway -> dial it again");
        j->heard_at = j->now;
        emit(j, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = j->peer, .status = HTC_ETIMEDOUT });
    } else if (j->connected && j->now >= j->hello_at) {
        say_hello(j);
    }
    if (j->leaving && j->hello.count == 0)
        stop(j, HTC_OK);
}

static htc_status step(void *self, const htc_input *given, htc_output *out)
{
    htc_joined *j = self;
    htc_input   room;
    htc_status  status;
    if (j->ended)
        return HTC_OK;
    const htc_input *in = htc__input_known(given, &room, &status);
    if (!in)
        return status;
    j->now = in->now;
    j->out = out;
    status = htc_runtime_begin(j->runtime, in, out);
    if (status != HTC_OK)
        return status;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_OPENED:
        if (in->peer == j->peer)
            opened(j);
        break;
    case HTC_IN_CLOSED:
        if (in->peer == j->peer) {
            j->connected = j->in = 0;
            htc__joined_content_closed(j->content);
        }
        break;
    case HTC_IN_MESSAGE:
        if (in->peer == j->peer && j->connected)
            message(j, in->body);
        break;
    case HTC_IN_RESULT:
        if (in->tag <= CALLS_OF_RUNTIME)
            result(j, in);
        break;
    case HTC_IN_EVENT: event(j, in); break;
    case HTC_IN_START: htc__joined_content_start(j->content); break;
    case HTC_IN_TIMEOUT:
    case HTC_IN_STORED:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
    case HTC_IN_FRAMES: break;
    default: return HTC_EUNSUPPORTED;
    }
    (void)htc_runtime_input(j->runtime, in); /* htc_runtime_end says it */
    htc__joined_content_run(j->content, j->now, j->in);
    run_timers(j);
    status = htc_runtime_end(j->runtime, in);
    j->out = NULL;
    return j->failed != HTC_OK ? j->failed : status;
}

const htc_machine_ops *htc_joined_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}
