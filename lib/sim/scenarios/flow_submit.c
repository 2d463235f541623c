#include "sim/scenarios/flow_submit.h"

#include <stdio.h>

#include "core/fault.h"
#include "core/util.h"

#define AT_ONCE 32 /* at once */

typedef enum submit_phase {
    SUBMIT_IDLE,
    SUBMIT_CLAIM,   /* the header is written if there is none */
    SUBMIT_LOOK,    /* and read */
    SUBMIT_WRITE,
    SUBMIT_START,
    SUBMIT_STARTED,
    SUBMIT_MARK_LOOK, /* some is to be cancelled, or placed otherwise: the header is read, */
    SUBMIT_MARK,      /* and written so */
    SUBMIT_GONE       /* somebody has removed it */
} submit_phase;

struct flow_submit {
    htc_env        env;
    htc_kv_client *client;
    submission     records;
    int            goes_on, removable;
    bag_resumption bag, sent_bag; /* its spans are the options'; where it stands behind what is stored, and behind what is on its way */
    uint8_t        phase;
    int            held, asked, failed, change; /* asked: an answer is awaited; failed: one of those to this question was no success */
    uint64_t       next, sent;            /* records that are stored; beside those that are on their way */
    uint64_t       version;
    ledger_span    marked; /* from = to: none */
    uint8_t        rule;
    htc_buf        mark; /* the header with the mark */
};

static htc_status ask(flow_submit *s, const htc_input *in, htc_output *out, const htc_kv_request *q, size_t n)
{
    s->asked = 1;
    s->failed = 0;
    return htc_kv_client_submit(s->client, in->now, q, n, s->phase, out);
}

static htc_status ask_header(flow_submit *s, const htc_input *in, htc_output *out, uint32_t op, flow_state state)
{
    flow_key       k = htc__flow_key_header(s->records.id);
    htc_kv_request q = { .size = sizeof q, .op = op, .flags = op == HTC_KV_PUT ? HTC_KV_NX : 0, .key = htc__flow_key_bytes(&k), .version = s->version };
    htc_buf        b;
    htc_buf_init(&b, &s->env, 0);
    if (op != HTC_KV_GET) {
        htc__submission_header(&s->records, state, &b);
        q.value = htc_buf_bytes(&b);
    }
    if (op == HTC_KV_CAS_VERSION && s->phase == SUBMIT_MARK)
        q.value = htc_buf_bytes(&s->mark);
    htc_status status = b.status == HTC_OK ? ask(s, in, out, &q, 1) : b.status;
    htc_buf_free(&b);
    return status;
}

static uint64_t all_records(const flow_submit *s)
{
    return s->goes_on ? s->bag.n_ledgers : htc__submission_records(&s->records);
}

static htc_status record(flow_submit *s, uint64_t i, flow_key *k, htc_buf *b)
{
    uint64_t number;
    if (!s->goes_on)
        return htc__submission_record(&s->records, i, k, b);
    htc_status status = htc__bag_resumption_ledger(&s->sent_bag, &number, b);
    *k = htc__flow_key_ledger(s->records.id, number);
    return status;
}

static htc_status ask_records(flow_submit *s, const htc_input *in, htc_output *out)
{
    htc_kv_request q[AT_ONCE];
    flow_key       k[AT_ONCE];
    htc_buf        b[AT_ONCE];
    uint64_t       all = all_records(s);
    size_t         n = 0;
    htc_status     status = HTC_OK;
    s->sent_bag = s->bag;
    for (; n < AT_ONCE && s->next + n < all && status == HTC_OK; n++) {
        htc_buf_init(&b[n], &s->env, 0);
        status = record(s, s->next + n, &k[n], &b[n]);
        q[n] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k[n]), .value = htc_buf_bytes(&b[n]) };
    }
    if (status == HTC_OK)
        status = ask(s, in, out, q, n);
    s->sent = n;
    for (size_t i = 0; i < n; i++)
        htc_buf_free(&b[i]);
    return status;
}

static void looked(flow_submit *s, const htc_kv_result *r)
{
    flow f;
    if (r->status != HTC_OK || htc__flow_read(r->value, &f) != HTC_OK) {
        s->phase = r->status != HTC_ENOTFOUND ? s->phase : s->removable ? SUBMIT_GONE : SUBMIT_CLAIM;
        return;
    }
    s->version = r->version;
    if (s->phase == SUBMIT_LOOK) {
        s->phase = f.state == FLOW_ABORTED ? SUBMIT_GONE : f.state != FLOW_BUILDING ? SUBMIT_STARTED : s->next < all_records(s) ? SUBMIT_WRITE : SUBMIT_START;
        return;
    }
    s->phase = SUBMIT_STARTED; /* nothing to be changed */
    int changes = f.places.rule != s->rule;
    f.places.rule = s->rule;
    if (s->marked.from < s->marked.to)
        changes |= htc__flow_mark(&f, s->marked) == HTC_OK;
    if (f.state == FLOW_RUNNING && changes) {
        htc_buf_clear(&s->mark);
        htc__flow_write(&s->mark, &f);
        s->phase = SUBMIT_MARK;
    }
}

static void answered(flow_submit *s, const htc_kv_result *r)
{
    s->failed |= r->status != HTC_OK && !(r->op == HTC_KV_PUT && r->status == HTC_MISMATCH); /* it is there already */
    if (r->op == HTC_KV_GET)
        looked(s, r);
    if (!r->last)
        return;
    s->asked = 0;
    if (s->phase == SUBMIT_CLAIM && r->op == HTC_KV_PUT)
        s->phase = SUBMIT_LOOK;
    else if (s->phase == SUBMIT_WRITE && r->op == HTC_KV_PUT) {
        s->next += s->failed ? 0 : s->sent;
        s->bag = s->failed ? s->bag : s->sent_bag;
        s->phase = s->next < all_records(s) ? SUBMIT_WRITE : HTC__BROKEN(header_last) ? SUBMIT_CLAIM : SUBMIT_START;
    } else if (s->phase == SUBMIT_START && r->op == HTC_KV_CAS_VERSION)
        s->phase = SUBMIT_LOOK;
    else if (s->phase == SUBMIT_MARK && r->op == HTC_KV_CAS_VERSION)
        s->phase = s->failed ? SUBMIT_MARK_LOOK : SUBMIT_STARTED;
}

static htc_status ask_next(flow_submit *s, const htc_input *in, htc_output *out)
{
    switch ((submit_phase)s->phase) {
    case SUBMIT_CLAIM:
        return ask_header(s, in, out, HTC_KV_PUT, HTC__BROKEN(header_last) ? FLOW_RUNNING : FLOW_BUILDING);
    case SUBMIT_LOOK:
    case SUBMIT_MARK_LOOK:
        return ask_header(s, in, out, HTC_KV_GET, FLOW_BUILDING);
    case SUBMIT_WRITE:
        return ask_records(s, in, out);
    case SUBMIT_START:
        return s->held ? HTC_OK : ask_header(s, in, out, HTC_KV_CAS_VERSION, FLOW_RUNNING);
    case SUBMIT_MARK:
        return ask_header(s, in, out, HTC_KV_CAS_VERSION, FLOW_RUNNING);
    case SUBMIT_IDLE:
    case SUBMIT_STARTED:
    case SUBMIT_GONE:
        break;
    }
    return HTC_OK;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    flow_submit  *s = self;
    htc_status    status = htc_kv_client_step(s->client, in, out);
    htc_kv_result r = { .size = sizeof r };
    while (htc_kv_client_next(s->client, &r))
        answered(s, &r);
    if (s->phase == SUBMIT_IDLE)
        s->phase = HTC__BROKEN(header_last) ? SUBMIT_WRITE : SUBMIT_CLAIM;
    if (s->phase == SUBMIT_STARTED && s->change) {
        s->change = 0;
        s->phase = SUBMIT_MARK_LOOK;
    }
    return status != HTC_OK || s->asked ? status : ask_next(s, in, out);
}

static htc_ns deadline(const void *self)
{
    return htc_kv_client_deadline(((const flow_submit *)self)->client);
}

static void destroy(void *self)
{
    flow_submit *s = self;
    if (!s)
        return;
    htc_env env = s->env;
    htc_kv_client_destroy(s->client);
    htc__submission_free(&s->records);
    htc_buf_free(&s->mark);
    htc__free(&env, s, sizeof *s);
}

htc_status htc__flow_submit_create(const htc_env *env, const flow_submit_options *options, flow_submit **out)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = options->client_id, .peer = options->peer };
    flow_submit          *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    s->env = *env;
    s->held = options->held;
    s->removable = options->removable;
    htc_buf_init(&s->mark, &s->env, 0);
    htc_status status = htc__submission_init(&s->records, &s->env, options->given, options->number, options->workers, NULL);
    s->records.header.job = options->job;
    s->records.header.tries = options->tries;
    s->records.header.max_fails = UINT64_MAX;
    s->records.header.places = options->places;
    s->rule = options->places.rule;
    s->goes_on = options->goes_on != NULL;
    if (s->goes_on)
        s->bag = *options->goes_on;
    snprintf(s->records.header.user, sizeof s->records.header.user, "%s", options->user);
    if (status == HTC_OK)
        status = htc_kv_client_create(&s->env, &o, &s->client);
    if (status == HTC_OK)
        *out = s;
    else
        destroy(s);
    return status;
}

const htc_machine_ops *htc__flow_submit_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}

int htc__flow_submit_stored(const flow_submit *s)
{
    return s->phase >= SUBMIT_START;
}

void htc__flow_submit_start(flow_submit *s)
{
    s->held = 0;
}

int htc__flow_submit_done(const flow_submit *s)
{
    return s->phase >= SUBMIT_STARTED;
}

void htc__flow_submit_cancel(flow_submit *s, ledger_span ids)
{
    s->marked = ids;
    s->change = 1;
}

void htc__flow_submit_rule(flow_submit *s, uint8_t rule)
{
    s->rule = rule;
    s->change = 1;
}
