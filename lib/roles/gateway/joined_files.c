/* Files that tasks have left on the disks of hosts that have joined. The gateway's own disk is looked at first: it may be the same. Then the
 * hosts that are there are asked, one after the other. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"
#include "roles/runtime/joined_wire.h"

struct file_ask {
    uint32_t            tag, op, host; /* tag: on its way to host; 0: it is not */
    htc_runtime_call_fn fn;
    void               *ctx;
    size_t              next, len; /* the next site */
    struct file_ask    *prev, *after;
    uint8_t             body[];
};

static void finish(htc_gateway *gw, struct file_ask *f, htc_status status, htc_bytes body)
{
    htc_runtime_call_fn fn = f->fn;
    void               *ctx = f->ctx;
    htc_runtime_context_free(gw->runtime, f);
    fn(gw, ctx, status, body);
}

static void send(htc_gateway *gw, struct file_ask *f, uint32_t host)
{
    f->host = host;
    f->tag = ++gw->file_tags ? gw->file_tags : ++gw->file_tags;
    DL_APPEND2(gw->file_asks, f, prev, after);
    htc_joined_call_write(&gw->scratch, f->tag, f->op, (htc_bytes){ f->body, f->len });
    htc_runtime_send(gw->runtime, host, &gw->scratch);
}

/* What was written there cannot be read now, and may be what is looked for. */
static size_t say_away(const htc_gateway *gw, char *text, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < gw->n_sites && n < cap; i++) {
        const site *s = &gw->sites[i];
        if (!s->joins || s->host)
            continue;
        int more = s->node[0] ? snprintf(text + n, cap - n, "%s%s (node %s, outputs in %s/out)", n ? ", " : "", s->name, s->node, s->data)
                              : snprintf(text + n, cap - n, "%s%s", n ? ", " : "", s->name);
        n += more > 0 ? (size_t)more : 0;
    }
    return n < cap ? n : cap - 1;
}

static void not_here(htc_gateway *gw, struct file_ask *f)
{
    char   text[400], away[300] = "";
    size_t n = say_away(gw, away, sizeof away);
    if (!n) {
        finish(gw, f, HTC_ENOTFOUND, (htc_bytes){ 0 });
        return;
    }
    snprintf(text, sizeof text, "it is not on this machine, and these hosts, which may have it, are away: %s", away);
    finish(gw, f, HTC_EUNREACHABLE, htc_bytes_of(text));
}

/* fn of the call to the own host, and what a host answers. */
static void answered(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway     *gw = role;
    struct file_ask *f = ctx;
    if (status != HTC_ENOTFOUND) {
        finish(gw, f, status, body);
        return;
    }
    while (f->next < gw->n_sites && !gw->sites[f->next].host)
        f->next++;
    if (f->next < gw->n_sites)
        send(gw, f, gw->sites[f->next++].host);
    else
        not_here(gw, f);
}

void htc__gw_file_ask(htc_gateway *gw, uint32_t op, const agent *live, htc_runtime_call_fn fn, void *ctx)
{
    size_t           len = gw->scratch.len;
    const site      *s = live ? &gw->sites[live->site] : NULL;
    struct file_ask *f = htc_runtime_context(gw->runtime, sizeof *f + len);
    if (!f)
        return;
    *f = (struct file_ask){ .op = op, .fn = fn, .ctx = ctx, .next = live ? gw->n_sites : 0, .len = len };
    if (len)
        memcpy(f->body, gw->scratch.data, len);
    if (s && s->joins && s->host)
        send(gw, f, s->host);
    else if (s && s->joins)
        not_here(gw, f);
    else
        htc_runtime_call(gw->runtime, op, htc_buf_bytes(&gw->scratch), answered, f);
}

void htc__gw_file_answer(htc_gateway *gw, const conn *c, htc_reader *r)
{
    uint32_t         tag = 0;
    htc_status       status = HTC_OK;
    htc_bytes        body = { 0 };
    struct file_ask *f = NULL;
    if (htc_joined_answer_read(r, &tag, &status, &body) != HTC_OK)
        return;
    DL_FOREACH2(gw->file_asks, f, after)
    if (f->tag == tag && f->host == c->peer) {
        DL_DELETE2(gw->file_asks, f, prev, after);
        answered(gw, f, status > 0 ? HTC_EPROTO : status, body);
        return;
    }
}

void htc__gw_files_closed(htc_gateway *gw, uint32_t host)
{
    struct file_ask *f, *tmp;
    DL_FOREACH_SAFE2(gw->file_asks, f, tmp, after)
    if (f->host == host) {
        DL_DELETE2(gw->file_asks, f, prev, after);
        answered(gw, f, HTC_ENOTFOUND, (htc_bytes){ 0 });
    }
}

/* gw->scratch: the body. Nobody waits for an answer: what a host that is away keeps is removed by hand. */
void htc__gw_files_drop(htc_gateway *gw, uint32_t op)
{
    htc_buf b;
    htc_buf_init(&b, &gw->env, HTC_WIRE_MESSAGE_MAX);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].host) {
            htc_joined_call_write(&b, 0, op, htc_buf_bytes(&gw->scratch));
            htc_runtime_send(gw->runtime, gw->sites[i].host, &b);
        }
    htc_buf_free(&b);
}
