#include "sim/scenarios/flow_intake.h"

#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "htcsched/kv.h"
#include "roles/worker/intake.h"

#define AGAIN     (2 * HTC_MS)
#define TASKS_MAX 40

typedef enum intake_phase {
    INTAKE_REST, /* until at */
    INTAKE_LOOK, /* the header is read, */
    INTAKE_READ, /* then the intake's record, */
    INTAKE_ADD,  /* which is changed; */
    INTAKE_NEWS_LOOK, /* the header is read once more, */
    INTAKE_NEWS, /* and says so */
    INTAKE_OVER
} intake_phase;

struct flow_intake {
    htc_env             env;
    flow_intake_options o;
    htc_kv_client      *client;
    uint8_t             phase;
    int                 asked, last;
    htc_ns              at, wall;
    uint32_t            added;
    uint64_t            nonce;  /* of what is to be added; 0: nothing yet */
    uint64_t            intake, worker; /* whose record is changed, from 1 */
    htc_flow           *given;
    flow                header;
    htc_buf             header_bytes, record, text, write;
    uint64_t            header_version, version;
    graph_task          task; /* lies in record and text */
};

static void rest(flow_intake *s, htc_ns now, htc_ns gap)
{
    s->phase = INTAKE_REST;
    s->at = now + gap;
}

static htc_status put_edge(flow_intake *s, uint32_t child)
{
    uint32_t parent = (uint32_t)htc_rng_below(s->o.rng, child); /* one draw behind the other: in what order operands are computed is the compiler's affair */
    return htc_flow_after(s->given, child, parent, htc_rng_below(s->o.rng, 4) ? HTC_FLOW_OK : HTC_FLOW_ANY);
}

/* Tasks of which some wait for some. */
static htc_status draw(flow_intake *s)
{
    uint32_t   n = 1 + (uint32_t)htc_rng_below(s->o.rng, htc_rng_below(s->o.rng, 4) ? 6 : TASKS_MAX);
    htc_status status = htc_flow_create(&s->env, NULL, &s->given);
    for (uint32_t i = 0; i < n && status == HTC_OK; i++) {
        htc_flow_task t = HTC_FLOW_TASK_INIT;
        int           function = s->o.work == FLOW_FUNCTIONS || htc_rng_below(s->o.rng, 4) == 0;
        t.builtin = function ? HTC_FLOW_NOOP : HTC_FLOW_PROGRAM;
        t.executable = function ? NULL : "/bin/true";
        status = htc_flow_add(s->given, &t, NULL, NULL);
        if (status == HTC_OK && i && htc_rng_below(s->o.rng, 3) == 0)
            status = put_edge(s, i);
    }
    s->nonce = htc_rng_next(s->o.rng) | 1;
    s->worker = htc_rng_below(s->o.rng, 2) ? 1 + htc_rng_below(s->o.rng, s->o.workers) : 0;
    return status == HTC_OK ? htc_flow_check(s->given, NULL) : status;
}

static htc_status ask(flow_intake *s, const htc_input *in, htc_output *out, uint32_t op, const flow_key *k, const htc_buf *value, uint64_t version)
{
    htc_kv_request q = { .size = sizeof q, .op = op, .key = htc__flow_key_bytes(k), .version = version };
    if (value)
        q.value = htc_buf_bytes(value);
    s->asked = 1;
    return htc_kv_client_submit(s->client, in->now, &q, 1, s->phase, out);
}

/* ---- answers ---- */

static htc_status copy(htc_buf *b, const htc_kv_result *r)
{
    htc_buf_clear(b);
    htc_put_raw(b, r->value);
    return b->status;
}

static void over(flow_intake *s)
{
    htc_flow_destroy(s->given);
    s->given = NULL;
    s->phase = INTAKE_OVER;
}

static htc_status header_read(flow_intake *s, htc_ns now, const htc_kv_result *r)
{
    int        news = s->phase == INTAKE_NEWS_LOOK;
    htc_status status = r->status == HTC_OK ? copy(&s->header_bytes, r) : HTC_OK;
    rest(s, now, AGAIN);
    if (status == HTC_OK && r->status == HTC_OK)
        status = htc__flow_read(htc_buf_bytes(&s->header_bytes), &s->header);
    if (status != HTC_OK || r->status != HTC_OK)
        return status;
    s->header_version = r->version;
    if (s->header.state > FLOW_RUNNING) {
        over(s);
        return HTC_OK;
    }
    if (s->header.state != FLOW_RUNNING)
        return HTC_OK;
    if (news) {
        status = htc__intake_news(&s->header, s->intake, !s->task.added_intake);
        s->phase = status == HTC_OK ? INTAKE_NEWS : INTAKE_REST;
        return status == HTC_EEXISTS ? HTC_OK : status;
    }
    s->phase = htc__intake_look(&s->header, NULL, NULL) == HTC_OK ? INTAKE_READ : INTAKE_OVER;
    if (s->nonce && s->intake && s->phase == INTAKE_OVER) /* that it takes no more may be its own doing */
        s->phase = INTAKE_READ;
    else if (!(s->nonce && s->intake))
        s->intake = s->header.intake;
    if (s->phase == INTAKE_OVER)
        over(s);
    return HTC_OK;
}

/* It stands there: it is told of, and nothing is to be added any more. */
static void is_added(flow_intake *s, htc_ns now)
{
    htc__flow_audit_taken_in(s->o.audit, s->intake - 1, s->nonce);
    htc_flow_destroy(s->given);
    s->given = NULL;
    s->nonce = 0;
    s->added++;
    s->phase = INTAKE_NEWS_LOOK;
    if (s->added < s->o.additions && htc_rng_below(s->o.rng, 8) == 0) /* who adds next says it */
        rest(s, now, AGAIN);
}

static htc_status make_text(flow_intake *s)
{
    uint32_t   n;
    htc_status status = s->given || s->last ? HTC_OK : draw(s);
    if (status == HTC_OK && !s->nonce)
        s->nonce = htc_rng_next(s->o.rng) | 1;
    htc_buf_clear(&s->text);
    if (status == HTC_OK)
        status = htc__intake_text(s->given, s->task.name, s->last, &s->text, &n, NULL);
    if (status == HTC_OK)
        status = htc__intake_add(&s->env, &s->header, s->o.audit->number, &s->task, s->record.len, htc_buf_bytes(&s->text), s->last, s->worker, s->nonce,
                                 s->wall, NULL);
    return status;
}

static htc_status record_read(flow_intake *s, htc_ns now, const htc_kv_result *r)
{
    htc_status status = r->status == HTC_OK ? copy(&s->record, r) : HTC_OK;
    rest(s, now, AGAIN);
    if (status == HTC_OK && r->status == HTC_OK)
        status = htc__graph_read(htc_buf_bytes(&s->record), &s->task);
    if (status != HTC_OK || r->status != HTC_OK)
        return status;
    s->version = r->version;
    if (s->nonce && htc__intake_is_mine(&s->task, s->nonce)) {
        is_added(s, now);
        return HTC_OK;
    }
    if (s->intake != s->header.intake) { /* another was faster, and there is a new one */
        s->intake = 0;
        return HTC_OK;
    }
    status = htc__intake_look(&s->header, &s->task, NULL);
    if (status == HTC_EBUSY) {
        over(s);
        return HTC_OK;
    }
    if (status == HTC_AGAIN) {
        s->phase = INTAKE_NEWS_LOOK;
        return HTC_OK;
    }
    status = make_text(s);
    s->phase = INTAKE_ADD;
    return status;
}

static htc_status answered(flow_intake *s, htc_ns now, const htc_kv_result *r)
{
    s->asked = 0;
    switch ((intake_phase)s->phase) {
    case INTAKE_LOOK:
    case INTAKE_NEWS_LOOK: return header_read(s, now, r);
    case INTAKE_READ: return record_read(s, now, r);
    case INTAKE_ADD:
        rest(s, now, AGAIN);
        if (r->status == HTC_OK && htc_rng_below(s->o.rng, 4)) /* else it is taken for one that was lost */
            is_added(s, now);
        return HTC_OK;
    case INTAKE_NEWS: rest(s, now, r->status == HTC_OK ? htc_rng_below(s->o.rng, s->o.gap + 1) : AGAIN); return HTC_OK;
    case INTAKE_REST:
    case INTAKE_OVER: break;
    }
    return HTC_OK;
}

/* ---- asked ---- */

static htc_status ask_next(flow_intake *s, const htc_input *in, htc_output *out)
{
    flow_key header = htc__flow_key_header(s->o.audit->number);
    if (s->phase == INTAKE_REST && in->now >= s->at) {
        int all = s->added >= s->o.additions;
        if (all && s->o.closes && s->o.closes(s->o.ctx))
            s->last = 1;
        s->phase = !all || s->last ? INTAKE_LOOK : INTAKE_REST;
        s->at = in->now + AGAIN;
        if (all && !s->o.closes)
            over(s);
        else if (s->last && s->added > s->o.additions)
            over(s);
    }
    switch ((intake_phase)s->phase) {
    case INTAKE_LOOK:
    case INTAKE_NEWS_LOOK: return ask(s, in, out, HTC_KV_GET, &header, NULL, 0);
    case INTAKE_READ: {
        flow_key k = htc__flow_key_task(s->o.audit->number, s->intake - 1);
        return ask(s, in, out, HTC_KV_GET, &k, NULL, 0);
    }
    case INTAKE_ADD: {
        flow_key k = htc__flow_key_task(s->o.audit->number, s->intake - 1);
        htc__graph_write(&s->write, &s->task);
        return s->write.status == HTC_OK ? ask(s, in, out, HTC__BROKEN(intake_unversioned) ? HTC_KV_PUT : HTC_KV_CAS_VERSION, &k, &s->write, s->version) :
                                           s->write.status;
    }
    case INTAKE_NEWS:
        htc__flow_write(&s->write, &s->header);
        return s->write.status == HTC_OK ? ask(s, in, out, HTC_KV_CAS_VERSION, &header, &s->write, s->header_version) : s->write.status;
    case INTAKE_REST:
    case INTAKE_OVER: break;
    }
    return HTC_OK;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    flow_intake  *s = self;
    htc_status    status = htc_kv_client_step(s->client, in, out);
    htc_kv_result r = { .size = sizeof r };
    s->wall = in->wall;
    while (status == HTC_OK && htc_kv_client_next(s->client, &r))
        status = answered(s, in->now, &r);
    htc_buf_clear(&s->write);
    return status != HTC_OK || s->asked ? status : ask_next(s, in, out);
}

static htc_ns deadline(const void *self)
{
    const flow_intake *s = self;
    htc_ns             at = htc_kv_client_deadline(s->client);
    return s->phase == INTAKE_REST && s->at < at ? s->at : at;
}

static void destroy(void *self)
{
    flow_intake *s = self;
    if (!s)
        return;
    htc_env env = s->env;
    htc_kv_client_destroy(s->client);
    htc_flow_destroy(s->given);
    htc_buf_free(&s->header_bytes);
    htc_buf_free(&s->record);
    htc_buf_free(&s->text);
    htc_buf_free(&s->write);
    htc__free(&env, s, sizeof *s);
}

htc_status htc__flow_intake_create(const htc_env *env, const flow_intake_options *options, flow_intake **out)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = options->client_id, .peer = options->peer };
    flow_intake          *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    s->env = *env;
    s->o = *options;
    htc_buf_init(&s->header_bytes, &s->env, 0);
    htc_buf_init(&s->record, &s->env, 0);
    htc_buf_init(&s->text, &s->env, 0);
    htc_buf_init(&s->write, &s->env, 0);
    htc_status status = htc_kv_client_create(&s->env, &o, &s->client);
    if (status == HTC_OK)
        *out = s;
    else
        destroy(s);
    return status;
}

const htc_machine_ops *htc__flow_intake_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}

int htc__flow_intake_done(const flow_intake *s)
{
    return s->phase == INTAKE_OVER || s->added >= s->o.additions;
}

uint32_t htc__flow_intake_added(const flow_intake *s)
{
    return s->added;
}
