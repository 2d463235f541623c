/* Sites that the operator takes out of service: their agents finish what runs, and none is launched there until the operator says so.
 *
 * Kept in the store, under e/SITE: format 1, reason, wall time. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

#define SITE_FORMAT 1

static site *site_named(htc_gateway *gw, const char *name)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (strcmp(gw->sites[i].name, name) == 0)
            return &gw->sites[i];
    return NULL;
}

int htc__gw_site_open(const htc_gateway *gw, const site *s)
{
    return !s->closed && s->not_before <= gw->now && !htc__gw_host_closed(gw, s);
}

static void close_agents(htc_gateway *gw, const site *s)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    if (&gw->sites[a->site] == s && !a->draining && !a->stop && a->state < AGENT_LEAVING)
        htc__gw_agent_drain(gw, a, 1);
}

static void set_closed(htc_gateway *gw, site *s, int closed, const char *reason)
{
    s->closed = closed != 0;
    snprintf(s->closed_for, sizeof s->closed_for, "%s", reason);
    htc__text_clean(s->closed_for);
    if (closed)
        close_agents(gw, s);
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__TEXT("site", s->name), HTC__TEXT("why", s->closed_for)),
                  closed ? "site %s is taken out of service -> its agents finish what runs" : "site %s is in service again -> launch there", s->name);
    htc__gw_reallocate_soon(gw);
}

static void write_closed(htc_gateway *gw, const char *reason)
{
    htc_buf_clear(&gw->scratch);
    htc_put_u8(&gw->scratch, SITE_FORMAT);
    htc_put_str(&gw->scratch, reason);
    htc_put_u64(&gw->scratch, gw->wall);
}

/* ---- the operator asks ---- */

typedef struct change {
    request *q;
    size_t   site;
    int      closed;
    char     reason[REASON_MAX];
} change;

static void changed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    change       c = *(change *)ctx;
    site        *s = &gw->sites[c.site];
    htc_runtime_context_free(gw->runtime, ctx);
    s->saving = 0;
    if (htc__gw_fenced(gw, r))
        return;
    if (r->status == HTC_OK)
        s->closed_version = c.closed ? r->version : 0;
    if (r->status != HTC_OK && !(r->status == HTC_ENOTFOUND && !c.closed)) {
        htc__gw_req_fail(gw, c.q, r->status, "", "site %s: it could not be written down: %s", s->name, htc_strerror(r->status));
        return;
    }
    if (s->closed != c.closed || c.closed)
        set_closed(gw, s, c.closed, c.reason);
    htc__gw_req_answer(gw, c.q, json_pack("{s:s,s:b,s:I}", "site", s->name, "drained", c.closed, "used", (json_int_t)s->used));
}

void htc__gw_api_sites(htc_gateway *gw, request *q)
{
    const char *name = htc__gw_req_str(q, "site");
    char        reason[REASON_MAX] = "";
    site       *s = name ? site_named(gw, name) : NULL;
    int         closed = strcmp(q->op, "site.drain") == 0;
    if (!q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator takes sites out of service");
        return;
    }
    if (!s) {
        htc__gw_req_fail(gw, q, name ? HTC_ENOTFOUND : HTC_EINVAL, "htc sites lists them", "there is no site %s", name ? name : "without a name");
        return;
    }
    if (s->saving && htc__gw_shared(gw)) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "site %s is just being changed", s->name);
        return;
    }
    if (closed && !htc__gw_closing_reason(gw, q, reason))
        return;
    change *c = htc_runtime_context(gw->runtime, sizeof *c);
    if (!c)
        return;
    *c = (change){ .q = q, .site = (size_t)(s - gw->sites), .closed = closed };
    memcpy(c->reason, reason, sizeof reason);
    key k = htc__gw_key_site(s->name);
    write_closed(gw, c->reason);
    htc_kv_request r = closed ? htc__gw_write_op(gw, &k, htc__gw_record_bytes(gw, &gw->scratch), s->closed_version)
                              : htc__gw_delete_op(gw, &k, s->closed_version);
    s->saving = 1;
    htc__gw_ask_write(gw, &r, changed, c);
}

static void saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    site        *s = ctx;
    s->saving = 0;
    if (r->status == HTC_OK)
        s->closed_version = r->version;
    else if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew that a site is out of service");
}

void htc__gw_site_save(htc_gateway *gw, site *s)
{
    key k = htc__gw_key_site(s->name);
    write_closed(gw, s->closed_for);
    s->saving = 1;
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), s->closed_version, saved, s);
}

/* ---- the start ---- */

void htc__gw_site_found(htc_gateway *gw, const htc_kv_item *item)
{
    char       name[NAME_MAX_BYTES], reason[sizeof gw->sites->closed_for];
    htc_reader r = htc_reader_of(item->value);
    size_t     n = item->key.len - 2;
    if (n && ((const char *)item->key.data)[2] == '@') {
        htc__gw_node_found(gw, (htc_bytes){ (const char *)item->key.data + 3, n - 1 }, item);
        return;
    }
    uint8_t    format = htc_get_u8(&r);
    htc_get_str(&r, reason, sizeof reason);
    (void)htc_get_u64(&r);
    if (format != SITE_FORMAT || htc_reader_done(&r) != HTC_OK) {
        htc__gw_unreadable(gw, "reading the record of a site");
        return;
    }
    if (n >= sizeof name)
        return;
    memcpy(name, (const char *)item->key.data + 2, n);
    name[n] = '\0';
    site *s = site_named(gw, name);
    if (!s) /* the configuration does not name it any more */
        return;
    if (!reason[0])
        htc__gw_no_reason(gw, reason);
    s->closed_version = item->version;
    set_closed(gw, s, 1, reason);
}
