/* Nodes that the operator takes out of service: their agents finish what runs and leave, and one that begins there leaves at once, until the operator says otherwise. A
 * batch system may go on to send agents there; each time its site pauses, as for a launch that fails.
 *
 * Kept in the store, under e/@NODE: format 1, reason, wall time. No site has a name like that. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/nodes_closed.h"

#define NODE_FORMAT 1

struct closed_node {
    char           name[64], reason[REASON_MAX];
    uint64_t       version; /* of the record */
    UT_hash_handle hh;
};

static closed_node *find(const htc_gateway *gw, const char *name)
{
    closed_node *n = NULL;
    HASH_FIND_STR(gw->closed_nodes, name, n);
    return n;
}

const char *htc__gw_node_closed(const htc_gateway *gw, const char *name)
{
    const closed_node *n = name[0] ? find(gw, name) : NULL;
    return n ? n->reason : NULL;
}

const char *htc__gw_host_closed(const htc_gateway *gw, const site *s)
{
    return s->joins && s->agent_slots ? NULL : htc__gw_node_closed(gw, s->node); /* a broker's node is not where its jobs run */
}

void htc__gw_node_leave(htc_gateway *gw, agent *a)
{
    if (a->stop || a->state >= AGENT_LEAVING)
        return;
    a->expires = 1;
    if (!a->draining)
        htc__gw_agent_drain(gw, a, 1);
}

static uint32_t used_on(const htc_gateway *gw, const char *name)
{
    uint32_t used = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        used += a->state != AGENT_LOST && strcmp(a->node, name) == 0 ? a->n_slots : 0;
    return used;
}

static htc_status set_closed(htc_gateway *gw, const char *name, int closed, const char *reason, uint64_t version)
{
    closed_node *n = find(gw, name);
    agent       *a, *next;
    if (!n && closed) {
        n = htc__alloc(&gw->env, sizeof *n);
        if (!n)
            return HTC_ENOMEM;
        snprintf(n->name, sizeof n->name, "%s", name);
        HASH_ADD_STR(gw->closed_nodes, name, n);
        if (!n->hh.tbl) {
            htc__free(&gw->env, n, sizeof *n);
            return HTC_ENOMEM;
        }
    }
    if (closed) {
        n->version = version;
        snprintf(n->reason, sizeof n->reason, "%s", reason);
        htc__text_clean(n->reason);
        HASH_ITER(hh, gw->agents, a, next)
        if (strcmp(a->node, name) == 0)
            htc__gw_node_leave(gw, a);
    } else if (n) {
        HASH_DEL(gw->closed_nodes, n);
        htc__free(&gw->env, n, sizeof *n);
    }
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__TEXT("node", name), HTC__TEXT("why", reason)),
                  closed ? "node %s is taken out of service -> its agents finish what runs" : "node %s is in service again", name);
    htc__gw_reallocate_soon(gw);
    return HTC_OK;
}

static void write_record(htc_gateway *gw, const char *reason)
{
    htc_buf_clear(&gw->scratch);
    htc_put_u8(&gw->scratch, NODE_FORMAT);
    htc_put_str(&gw->scratch, reason);
    htc_put_u64(&gw->scratch, gw->wall);
}

/* ---- the operator asks ---- */

void htc__gw_no_reason(const htc_gateway *gw, char reason[REASON_MAX])
{
    snprintf(reason, REASON_MAX, "drained by the operator (%s), without a reason", gw->owner_name);
}

int htc__gw_closing_reason(htc_gateway *gw, request *q, char reason[REASON_MAX])
{
    const char *said = htc__gw_req_str(q, "reason");
    if (said && strlen(said) > REASON_MAX - 20) {
        htc__gw_req_fail(gw, q, HTC_ETOOBIG, "say it in fewer words", "the reason has %zu bytes, and %d are allowed", strlen(said), REASON_MAX - 20);
        return 0;
    }
    if (said && said[0])
        snprintf(reason, REASON_MAX, "%s", said);
    else
        htc__gw_no_reason(gw, reason);
    return 1;
}

typedef struct change {
    request *q;
    int      closed;
    char     name[64], reason[REASON_MAX];
} change;

static void changed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    change       c = *(change *)ctx;
    htc_status   status = r->status == HTC_ENOTFOUND && !c.closed ? HTC_OK : r->status;
    htc_runtime_context_free(gw->runtime, ctx);
    gw->node_changes = 0;
    if (htc__gw_fenced(gw, r))
        return;
    if (status == HTC_OK)
        status = set_closed(gw, c.name, c.closed, c.reason, r->version);
    if (status != HTC_OK)
        htc__gw_req_fail(gw, c.q, status, "", "node %s: it could not be written down: %s", c.name, htc_strerror(status));
    else
        htc__gw_req_answer(gw, c.q, json_pack("{s:s,s:b,s:I}", "node", c.name, "drained", c.closed, "used", (json_int_t)used_on(gw, c.name)));
}

/* Named as agents name it: what no key and no line could hold is nobody's name. */
static int is_name(const char *name)
{
    return name && name[0] && strlen(name) < 60 && !name[strcspn(name, " \t\n\r/@")];
}

static int is_known(const htc_gateway *gw, const char *name)
{
    int known = find(gw, name) != NULL || used_on(gw, name) > 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        known |= strcmp(gw->sites[i].node, name) == 0;
    return known;
}

void htc__gw_api_nodes(htc_gateway *gw, request *q)
{
    const char *name = htc__gw_req_str(q, "node");
    char        reason[REASON_MAX] = "";
    int         closed = strcmp(q->op, "node.drain") == 0;
    if (!q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator takes nodes out of service");
        return;
    }
    if (!is_name(name)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "htc agents shows names of nodes", "this is no name of a node");
        return;
    }
    if (!is_known(gw, name) && !json_is_true(json_object_get(q->body, "unseen"))) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc sites and htc agents list them; --node takes the name of one where nothing runs now", "there is no site and no node %s", name);
        return;
    }
    if (gw->node_changes && htc__gw_shared(gw)) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "a node is just being changed");
        return;
    }
    if (closed && !htc__gw_closing_reason(gw, q, reason))
        return;
    change *c = htc_runtime_context(gw->runtime, sizeof *c);
    if (!c)
        return;
    *c = (change){ .q = q, .closed = closed };
    snprintf(c->name, sizeof c->name, "%s", name);
    memcpy(c->reason, reason, sizeof reason);
    key k = htc__gw_key_node(c->name);
    const closed_node *n = find(gw, c->name);
    uint64_t           version = n ? n->version : 0;
    write_record(gw, c->reason);
    htc_kv_request r = closed ? htc__gw_write_op(gw, &k, htc__gw_record_bytes(gw, &gw->scratch), version) : htc__gw_delete_op(gw, &k, version);
    gw->node_changes = 1;
    htc__gw_ask_write(gw, &r, changed, c);
}

static void saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    closed_node *n = ctx;
    if (r->status == HTC_OK)
        n->version = r->version;
    else if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew that a node is out of service");
}

void htc__gw_nodes_save(htc_gateway *gw)
{
    for (closed_node *n = gw->closed_nodes; n; n = n->hh.next) {
        key k = htc__gw_key_node(n->name);
        write_record(gw, n->reason);
        htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), n->version, saved, n);
    }
}

json_t *htc__gw_nodes_json(const htc_gateway *gw)
{
    json_t *list = json_array();
    for (const closed_node *n = gw->closed_nodes; n; n = n->hh.next)
        json_array_append_new(list, json_pack("{s:s,s:s,s:I}", "node", n->name, "reason", n->reason, "used", (json_int_t)used_on(gw, n->name)));
    return list;
}

/* ---- the start, and the end ---- */

void htc__gw_node_found(htc_gateway *gw, htc_bytes name, const htc_kv_item *item)
{
    char       text[64], reason[REASON_MAX];
    htc_reader r = htc_reader_of(item->value);
    uint8_t    format = htc_get_u8(&r);
    htc_get_str(&r, reason, sizeof reason);
    (void)htc_get_u64(&r);
    if (format != NODE_FORMAT || htc_reader_done(&r) != HTC_OK || name.len >= sizeof text) {
        htc__gw_unreadable(gw, "reading the record of a node");
        return;
    }
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    if (!reason[0])
        htc__gw_no_reason(gw, reason);
    if (set_closed(gw, text, 1, reason, item->version) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a node");
}

void htc__gw_nodes_closed_free(htc_gateway *gw)
{
    closed_node *n, *next;
    HASH_ITER(hh, gw->closed_nodes, n, next)
    {
        HASH_DEL(gw->closed_nodes, n);
        htc__free(&gw->env, n, sizeof *n);
    }
}
