#include "sim/scenarios/flow_remove.h"

#include "core/util.h"
#include "roles/worker/flow.h"

#define AT_ONCE 32

/* LOOK -> (ABORT -> LOOK) -> SCAN -> DELETE -> SCAN ... -> HEADER -> REST. Where LOOK finds no header, what SCAN has found was written before; that
 * there is still none is looked for behind it, for a header is written before any record. */
typedef enum remove_phase { REMOVE_REST, REMOVE_LOOK, REMOVE_ABORT, REMOVE_SCAN, REMOVE_LOOK_AGAIN, REMOVE_DELETE, REMOVE_HEADER } remove_phase;

enum { KINDS = 3 }; /* of records */

struct flow_remove {
    htc_env        env;
    htc_kv_client *client;
    uint64_t       number, version;
    uint8_t        phase, kind;
    int            asked, failed, headless;
    size_t         n;
    flow_key       keys[AT_ONCE];
    htc_buf        aborted; /* the header */
};

static flow_key prefix_of(const flow_remove *r)
{
    return r->kind == 0 ? htc__flow_key_tasks(r->number) : r->kind == 1 ? htc__flow_key_logs(r->number) : htc__flow_key_ledgers(r->number);
}

static void begin_records(flow_remove *r, int headless)
{
    r->headless = headless;
    r->kind = 0;
    r->phase = REMOVE_SCAN;
}

static void looked(flow_remove *r, const htc_kv_result *x)
{
    flow f;
    if (r->phase == REMOVE_LOOK_AGAIN) {
        r->phase = x->status == HTC_ENOTFOUND ? REMOVE_DELETE : x->status == HTC_OK ? REMOVE_LOOK : r->phase;
        return;
    }
    if (x->status == HTC_ENOTFOUND)
        begin_records(r, 1);
    if (x->status != HTC_OK || htc__flow_read(x->value, &f) != HTC_OK)
        return;
    r->version = x->version;
    if (f.state == FLOW_RUNNING) {
        r->phase = REMOVE_REST;
    } else if (f.state == FLOW_BUILDING) {
        f.state = FLOW_ABORTED;
        htc_buf_clear(&r->aborted);
        htc__flow_write(&r->aborted, &f);
        r->phase = REMOVE_ABORT;
    } else {
        begin_records(r, 0);
    }
}

static void scanned(flow_remove *r, const htc_kv_result *x)
{
    htc_kv_item item;
    size_t      at = 0;
    if (x->status != HTC_OK)
        return;
    r->n = 0;
    while (r->n < AT_ONCE && htc_kv_result_item(x, &at, &item) == HTC_OK) {
        flow_key *k = &r->keys[r->n];
        if (item.key.len > sizeof k->text)
            continue;
        memcpy(k->text, item.key.data, item.key.len);
        k->len = item.key.len;
        r->n++;
    }
    if (r->n)
        r->phase = r->headless ? REMOVE_LOOK_AGAIN : REMOVE_DELETE;
    else if (++r->kind == KINDS)
        r->phase = r->headless ? REMOVE_REST : REMOVE_HEADER;
}

static void answered(flow_remove *r, const htc_kv_result *x)
{
    r->failed |= x->status != HTC_OK && x->status != HTC_ENOTFOUND;
    if (x->op == HTC_KV_GET)
        looked(r, x);
    else if (x->op == HTC_KV_SCAN)
        scanned(r, x);
    if (!x->last)
        return;
    r->asked = 0;
    if (r->phase == REMOVE_ABORT && x->op == HTC_KV_CAS_VERSION)
        r->phase = REMOVE_LOOK;
    else if (r->phase == REMOVE_DELETE && x->op == HTC_KV_DELETE && !r->failed)
        r->phase = REMOVE_SCAN;
    else if (r->phase == REMOVE_HEADER && x->op == HTC_KV_DELETE && !r->failed)
        r->phase = REMOVE_REST;
}

static htc_status ask_next(flow_remove *r, const htc_input *in, htc_output *out)
{
    htc_kv_request q[AT_ONCE];
    flow_key       k = r->phase == REMOVE_SCAN ? prefix_of(r) : htc__flow_key_header(r->number);
    size_t         n = 1;
    q[0] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k), .version = r->version };
    switch ((remove_phase)r->phase) {
    case REMOVE_REST:
        return HTC_OK;
    case REMOVE_LOOK:
    case REMOVE_LOOK_AGAIN:
        break;
    case REMOVE_ABORT:
        q[0].op = HTC_KV_CAS_VERSION;
        q[0].value = htc_buf_bytes(&r->aborted);
        break;
    case REMOVE_SCAN:
        q[0].op = HTC_KV_SCAN;
        q[0].limit = AT_ONCE;
        break;
    case REMOVE_HEADER:
        q[0].op = HTC_KV_DELETE;
        q[0].flags = HTC_KV_IF_VERSION;
        break;
    case REMOVE_DELETE:
        for (n = 0; n < r->n; n++)
            q[n] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_DELETE, .key = htc__flow_key_bytes(&r->keys[n]) };
        break;
    }
    r->asked = 1;
    r->failed = 0;
    return htc_kv_client_submit(r->client, in->now, q, n, r->phase, out);
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    flow_remove  *r = self;
    htc_status    status = htc_kv_client_step(r->client, in, out);
    htc_kv_result x = { .size = sizeof x };
    while (htc_kv_client_next(r->client, &x))
        answered(r, &x);
    return status != HTC_OK || r->asked ? status : ask_next(r, in, out);
}

static htc_ns deadline(const void *self)
{
    return htc_kv_client_deadline(((const flow_remove *)self)->client);
}

static void destroy(void *self)
{
    flow_remove *r = self;
    if (!r)
        return;
    htc_env env = r->env;
    htc_kv_client_destroy(r->client);
    htc_buf_free(&r->aborted);
    htc__free(&env, r, sizeof *r);
}

htc_status htc__flow_remove_create(const htc_env *env, uint64_t number, uint32_t peer, uint64_t client_id, flow_remove **out)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = client_id, .peer = peer };
    flow_remove          *r = htc__alloc(env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    r->env = *env;
    r->number = number;
    htc_buf_init(&r->aborted, &r->env, 0);
    htc_status status = htc_kv_client_create(&r->env, &o, &r->client);
    if (status == HTC_OK)
        *out = r;
    else
        destroy(r);
    return status;
}

const htc_machine_ops *htc__flow_remove_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    return &ops;
}

void htc__flow_remove_look(flow_remove *r)
{
    if (r->phase == REMOVE_REST)
        r->phase = REMOVE_LOOK;
}

int htc__flow_remove_rests(const flow_remove *r)
{
    return r->phase == REMOVE_REST;
}
