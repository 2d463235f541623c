/* A user's program: requests in JSON over a connection that may break. */
#include <stdlib.h>
#include <string.h>

#include "sim/scenarios/system_private.h"

/* 1: it is on its way. */
static int say(sys_user *u, uint32_t peer, htc_output *out)
{
    int said = u->buf.status == HTC_OK &&
               htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&u->buf) }) == HTC_OK;
    if (!said)
        htc__sys_no_memory(u->s);
    return said;
}

static void send_request(sys_user *u, sys_request *q, htc_output *out)
{
    char *text = json_dumps(q->body, JSON_COMPACT);
    if (!text) {
        htc__sys_no_memory(u->s);
        return;
    }
    htc_wire_begin(&u->buf, HTC_WIRE_USER_REQUEST, q->id);
    htc_put_raw(&u->buf, htc_bytes_of(text));
    free(text);
    q->sent = say(u, SYS_PEER_GATEWAY, out);
}

static void finish(sys_user *u, sys_request **at, json_t *answer)
{
    sys_request *q = *at;
    *at = q->next;
    if (q->answer)
        q->answer(u, q->ctx, answer);
    json_decref(q->body);
    htc__free(&u->s->env, q, sizeof *q);
}

static void answered(sys_user *u, uint64_t id, htc_bytes text)
{
    sys_request **at = &u->requests;
    json_error_t  e;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    json_t *answer = *at ? json_loadb(text.data, text.len, 0, &e) : NULL;
    if (!json_is_object(answer))
        htc__sys_fail(u->s, "an answer to nothing, or not a JSON object: %.*s", (int)text.len, (const char *)text.data);
    else {
        const char *error = json_string_value(json_object_get(answer, "error"));
        u->turns |= u->s->standby && error && strcmp(error, "HTC_EUNREACHABLE") == 0;
        finish(u, at, answer);
    }
    json_decref(answer);
}

/* The connection broke: nobody knows what became of what was asked on it. */
static void lost(sys_user *u)
{
    sys_request **at = &u->requests;
    while (*at)
        if ((*at)->sent)
            finish(u, at, NULL);
        else
            at = &(*at)->next;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    sys_user  *u = self;
    uint16_t   type;
    uint64_t   id;
    htc_reader r;
    switch (in->kind) {
    case HTC_IN_OPENED:
        u->connected = 1;
        htc_wire_hello(&u->buf, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
        say(u, in->peer, out);
        break;
    case HTC_IN_CLOSED:
        u->connected = 0;
        lost(u);
        break;
    case HTC_IN_MESSAGE:
        r = htc_wire_open(in->body, &type, &id);
        if (type == HTC_WIRE_USER_ANSWER && u->connected)
            answered(u, id, (htc_bytes){ r.p, htc_reader_left(&r) });
        break;
    default:
        break;
    }
    if (u->turns && u->connected) {
        u->connected = 0;
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = SYS_PEER_GATEWAY, .status = HTC_ECLOSED });
        lost(u);
    }
    u->turns = 0;
    for (sys_request *q = u->requests; u->connected && q; q = q->next)
        if (!q->sent)
            send_request(u, q, out);
    return HTC_OK;
}

static htc_ns deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

/* The end of its program: what it had asked is forgotten. */
static void destroy(void *self)
{
    sys_user *u = self;
    while (u->requests) {
        sys_request *q = u->requests;
        u->requests = q->next;
        json_decref(q->body);
        htc__free(&u->s->env, q, sizeof *q);
    }
    htc_buf_free(&u->buf);
}

void htc__sys_users_free(sys *s)
{
    while (s->users) {
        sys_user *u = s->users;
        s->users = u->next;
        destroy(u);
        htc__free(&s->env, u, sizeof *u);
    }
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, 0 };
    sys_user                    *u = ctx;
    htc_status status = htc_sim_install(node, &ops, u);
    if (status != HTC_OK)
        return status;
    return htc_sim_dial(node, SYS_PEER_GATEWAY, u->s->gateway,
                        &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .other = u->s->standby });
}

sys_user *htc__sys_user_add(sys *s, const char *name)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot };
    sys_user                 *u = htc__sys_alloc(s, sizeof *u);
    if (!u)
        return NULL;
    u->s = s;
    u->next = s->users;
    s->users = u;
    htc_buf_init(&u->buf, NULL, 0);
    u->node = htc__sys_node(s, name, &host, u, 1);
    htc_sim_boot(u->node);
    return u;
}

void htc__sys_ask(sys_user *u, json_t *body, void (*answer)(sys_user *u, void *ctx, json_t *answer), void *ctx)
{
    sys_request *q = body ? htc__sys_alloc(u->s, sizeof *q) : NULL, **at = &u->requests;
    if (!q) {
        htc__sys_no_memory(u->s);
        json_decref(body);
        return;
    }
    *q = (sys_request){ .id = ++u->last_id, .body = body, .answer = answer, .ctx = ctx };
    while (*at)
        at = &(*at)->next;
    *at = q;
    htc_sim_event(u->node, 0, 0, HTC_OK, htc_bytes_of(NULL)); /* so that it looks at what it has to say */
}
