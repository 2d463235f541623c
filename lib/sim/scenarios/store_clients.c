/* Clients: real ones, each with one message at a time, that change the member they ask when it is gone or silent. Most of them also call the
 * owners of keys, on connections of their own. */
#include <stdio.h>
#include <string.h>

#include "sim/scenarios/store_private.h"

#define PEER  1u /* of the client's own connection; that to member m is m + 1 */
#define CALLS 2u /* of the first connection to an owner, as the client knows it */
#define DIRECT (STORE_MEMBERS + 1u) /* + m: the connection to member m for that */
#define PROXY (DIRECT + STORE_MEMBERS) /* + p: the connection to proxy p, which is asked like a member of the number STORE_MEMBERS + p */
#define MOVES_MAX 5u /* after so many its patience grows no more */

/* ---- connections ---- */

/* Of its own connection to a member, or to a proxy. */
static uint32_t home_peer(uint32_t m)
{
    return m < STORE_MEMBERS ? m + 1 : PROXY + m - STORE_MEMBERS;
}

static htc_status feed(store_client *c, htc_input in, htc_output *out);

static uint32_t member_at(const store *s, htc_bytes address)
{
    uint32_t m = 0;
    while (m < s->setting.nodes && !htc_bytes_equal(address, htc_bytes_of(htc__store_address(m))))
        m++;
    return m < s->setting.nodes ? m : STORE_NONE;
}

/* A number that was another member's is free of it first. */
static htc_status give_back(store_client *c, uint32_t call, htc_output *out)
{
    uint32_t m = c->called[call];
    c->called[call] = STORE_NONE;
    if (m == STORE_NONE || !(c->answering >> m & 1))
        return HTC_OK;
    c->answering &= ~(UINT32_C(1) << m);
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = DIRECT + m, .status = HTC_OK });
}

static htc_status answers(store_client *c, uint32_t m, htc_output *out)
{
    for (uint32_t i = 0; i < STORE_CALLS; i++)
        if (c->called[i] == m)
            return feed(c, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = CALLS + i, .body = { c->infos[m], c->infos_len[m] } }, out);
    return HTC_OK;
}

/* What the client wants sent goes to whoever it asks; whom it calls is there at once, or later, or never. */
static htc_status relay(store_client *c, htc_output *out)
{
    htc_status status = HTC_OK;
    htc_effect e;
    uint32_t   opened = 0;
    for (size_t i = 0; status == HTC_OK && htc_output_get(c->inner, i, &e) == HTC_OK; i++) {
        uint32_t number = e.kind == HTC_OUT_CALL ? (uint32_t)e.tag : e.peer, call = number - CALLS;
        int      home = number == PEER;
        uint32_t m = home ? c->member : c->called[call];
        if (e.kind == HTC_OUT_CALL || (e.kind == HTC_OUT_CLOSE && !home))
            status = give_back(c, call, out);
        if (e.kind == HTC_OUT_CALL) {
            m = c->called[call] = member_at(c->s, e.body);
            opened |= m != STORE_NONE && (c->answering >> m & 1) ? UINT32_C(1) << m : 0;
        } else if (e.kind == HTC_OUT_MESSAGE && m != STORE_NONE) {
            e.peer = home ? home_peer(m) : DIRECT + m;
            status = htc_output_add(out, &e);
        }
    }
    htc_output_clear(c->inner);
    for (uint32_t m = 0; m < STORE_MEMBERS && status == HTC_OK; m++)
        if (opened >> m & 1)
            status = answers(c, m, out);
    return status;
}

static htc_status feed(store_client *c, htc_input in, htc_output *out)
{
    in.now = c->now;
    htc_status status = htc_kv_client_step(c->kv, &in, c->inner);
    return status == HTC_OK ? relay(c, out) : status;
}

static htc_status lose(store_client *c, htc_output *out)
{
    c->member = STORE_NONE;
    return feed(c, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = PEER, .status = HTC_ECLOSED }, out);
}

static htc_status choose(store_client *c, htc_output *out)
{
    uint32_t n = (uint32_t)__builtin_popcount(c->open), m = 0;
    if (c->member != STORE_NONE || n == 0)
        return HTC_OK;
    for (uint32_t skip = (uint32_t)htc_rng_below(&c->rng, n);; m++)
        if ((c->open >> m & 1) && skip-- == 0)
            break;
    c->member = m;
    c->moved = c->now;
    return feed(c, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = PEER, .body = { c->info, c->info_len } }, out);
}

/* Somebody else might answer. Each time without an answer it waits for twice as long: what nobody does that quickly would never be
 * answered. */
static htc_ns leaves(const store_client *c)
{
    return c->moved + (c->s->setting.patience << (c->moves < MOVES_MAX ? c->moves : MOVES_MAX));
}

static htc_status leave(store_client *c, htc_output *out)
{
    htc_effect close = { .kind = HTC_OUT_CLOSE, .peer = home_peer(c->member), .status = HTC_ETIMEDOUT };
    c->open &= ~(UINT32_C(1) << c->member);
    htc_status status = htc_output_add(out, &close);
    c->moved = c->now;
    c->moves++;
    return status == HTC_OK ? lose(c, out) : status;
}

/* On a connection to an owner: it is the client's business once it has called that one. */
static htc_status arrives_directly(store_client *c, const htc_input *in, htc_output *out)
{
    uint32_t  m = in->peer - DIRECT, call = 0;
    htc_input to = *in;
    while (call < STORE_CALLS && c->called[call] != m)
        call++;
    to.peer = CALLS + call;
    if (in->kind == HTC_IN_CLOSED)
        c->answering &= ~(UINT32_C(1) << m);
    if (in->kind != HTC_IN_OPENED)
        return call < STORE_CALLS ? feed(c, to, out) : HTC_OK;
    if (c->s->setting.hidden >> m & 1)
        return HTC_OK;
    c->infos_len[m] = in->body.len < sizeof c->infos[m] ? in->body.len : sizeof c->infos[m];
    memcpy(c->infos[m], in->body.data, c->infos_len[m]);
    c->answering |= UINT32_C(1) << m;
    return answers(c, m, out);
}

static htc_status arrives(store_client *c, const htc_input *in, htc_output *out)
{
    uint32_t  m = in->peer >= PROXY ? STORE_MEMBERS + in->peer - PROXY : in->peer - 1;
    htc_input home = *in;
    home.peer = PEER;
    if (in->peer >= DIRECT && in->peer < PROXY)
        return arrives_directly(c, in, out);
    switch (in->kind) {
    case HTC_IN_OPENED:
        c->info_len = in->body.len < sizeof c->info ? in->body.len : sizeof c->info;
        memcpy(c->info, in->body.data, c->info_len);
        c->open |= UINT32_C(1) << m;
        return HTC_OK;
    case HTC_IN_CLOSED:
        c->open &= ~(UINT32_C(1) << m);
        return m == c->member ? lose(c, out) : HTC_OK;
    case HTC_IN_MESSAGE:
        return m == c->member ? feed(c, home, out) : HTC_OK;
    case HTC_IN_TIMEOUT:
        return feed(c, *in, out);
    default:
        return HTC_OK;
    }
}

/* ---- the machine ---- */

htc_status htc__store_submit(store_client *c, const htc_kv_request *q, uint32_t n, htc_output *out)
{
    if (c->redis)
        return htc__store_redis_submit(c, q, n, out);
    c->pending = n;
    c->moved = c->now;
    htc_status status = htc_kv_client_submit(c->kv, c->now, q, n, 7, c->inner);
    return status == HTC_OK ? relay(c, out) : status;
}

int htc__store_wants(const store_client *c)
{
    const store *s = c->s;
    if (c->pending || c->keeper)
        return c->keeper && !c->pending && htc__store_moves_want(s);
    return (s->phase == STORE_TROUBLE && s->asked < htc__store_moves_operations(s)) || s->phase == STORE_WELL ||
           (s->phase == STORE_READ && c->at == 0 && !htc__store_read_all(s)) ||
           (s->phase == STORE_AGREE && c->at == 0 && !htc__store_eventual_read(s));
}

/* A program starts anew: what it had asked is nobody's any more. */
static htc_status begin(store_client *c)
{
    const store_setting  *g = &c->s->setting;
    htc_kv_client_options o = { .size = sizeof o,
                                .client_id = htc_rng_next(&c->rng),
                                .peer = PEER,
                                .members = g->direct && !htc__store_is_behind(c->s, c->at) ? STORE_CALLS : 0,
                                .member_peer = CALLS,
                                .retry_ns = g->again,
                                .timeout_ns = g->give_up };
    htc__store_views_forget(c);
    htc__store_eventual_forget(c);
    htc_kv_client_destroy(c->kv);
    c->kv = NULL;
    c->pending = 0;
    c->answering = 0;
    for (uint32_t i = 0; i < STORE_CALLS; i++)
        c->called[i] = STORE_NONE;
    htc_status status = htc_kv_client_create(&c->s->env, &o, &c->kv);
    if (status == HTC_OK)
        htc__store_client_speaks(c);
    return status;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    store_client *c = self;
    htc_kv_result r = { .size = sizeof r };
    c->now = in->now;
    htc_status status = arrives(c, in, out);
    if (status == HTC_OK && c->pending && c->member != STORE_NONE && c->now >= leaves(c))
        status = leave(c, out);
    if (status == HTC_OK)
        status = choose(c, out);
    while (htc_kv_client_next(c->kv, &r))
        htc__store_answered(c, &r);
    htc__store_views_look(c);
    if (status == HTC_OK && htc__store_wants(c) && c->now >= c->next) {
        status = htc__store_views_change(c);
        if (status == HTC_OK)
            status = c->keeper ? htc__store_moves_ask(c, out) : htc__store_ask(c, out);
    }
    return status;
}

static htc_ns deadline(const void *self)
{
    const store_client *c = self;
    htc_ns              at = htc_kv_client_deadline(c->kv);
    if (htc__store_wants(c) && c->next < at)
        at = c->next;
    if (c->pending && c->member != STORE_NONE && leaves(c) < at)
        at = leaves(c);
    return at;
}

/* To a member that has been started. */
static htc_status dial(store_client *c, uint32_t m)
{
    static const htc_sim_dial_options stream = { .size = sizeof stream, .listener = STORE_RESP, .stream = 1 };
    htc_status status = htc_sim_dial(c->node, m + 1, c->s->members[m].node, c->redis ? &stream : NULL);
    if (status == HTC_OK && c->s->setting.direct && !c->redis && !htc__store_is_behind(c->s, c->at))
        status = htc_sim_dial(c->node, DIRECT + m, c->s->members[m].node, NULL);
    return status;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    static const htc_machine_ops redis = { sizeof redis, htc__store_redis_step, htc__store_redis_deadline, NULL, 0 };
    store_client                *c = ctx;
    htc_status                   status = begin(c);
    if (status == HTC_OK)
        status = htc_sim_install(node, c->redis ? &redis : &ops, c);
    for (uint32_t i = 0; i < c->s->setting.nodes && status == HTC_OK; i++)
        if (!c->s->members[i].outside && htc__store_is_mixed(c->s, c->at))
            status = dial(c, i);
    for (uint32_t i = 0; i < c->s->setting.proxies && status == HTC_OK && htc__store_is_behind(c->s, c->at); i++)
        status = htc_sim_dial(c->node, PROXY + i, c->s->proxies[i].node, NULL);
    return status;
}

htc_status htc__store_clients_dial(store *s, uint32_t member)
{
    htc_status status = htc__store_proxies_dial(s, member);
    for (uint32_t i = 0; i < htc__store_clients_count(s) && status == HTC_OK; i++)
        if (htc_sim_up(s->clients[i].node) && htc__store_is_mixed(s, i))
            status = dial(&s->clients[i], member);
    return status;
}

/* Killed, it comes back at once as somebody else. */
static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    store_client *c = ctx;
    (void)node;
    c->open = 0;
    c->member = STORE_NONE;
    c->pending = 0;
    htc_buf_clear(&c->heard);
    if (!crashed)
        htc__store_fail(c->s, "client %u has ended: %s", c->at, htc_status_name(status));
}

uint32_t htc__store_clients_count(const store *s)
{
    return s->setting.clients + (s->setting.moves != 0);
}

htc_status htc__store_clients_add(store *s)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot, .ended = ended };
    htc_status                status = HTC_OK;
    for (uint32_t i = 0; i < htc__store_clients_count(s) && status == HTC_OK; i++) {
        store_client        *c = &s->clients[i];
        char                 name[16];
        htc_sim_node_options o = { .size = sizeof o, .name = name, .host = &host, .ctx = c };
        o.version = htc__store_version_at_first(s->setting.older_clients, i);
        snprintf(name, sizeof name, "c%u", i);
        *c = (store_client){ .s = s, .at = i, .member = STORE_NONE, .rng = htc_sim_rng(s->sim, name) };
        c->keeper = i == s->setting.clients;
        c->redis = !c->keeper && i + s->setting.redis >= s->setting.clients;
        htc_buf_init(&c->heard, &s->env, 0);
        status = htc_output_create(&s->env, 0, &c->inner);
        if (status == HTC_OK)
            status = htc_sim_add(s->sim, &o, &c->node);
        if (status == HTC_OK)
            status = htc_sim_boot(c->node);
    }
    return status;
}

void htc__store_clients_free(store *s)
{
    for (uint32_t i = 0; i < htc__store_clients_count(s); i++) {
        htc_kv_client_destroy(s->clients[i].kv);
        htc_output_destroy(s->clients[i].inner);
        htc_buf_free(&s->clients[i].heard);
    }
}

/* ---- how far they are ---- */

int htc__store_clients_done(void *ctx)
{
    const store *s = ctx;
    uint32_t     n = 0;
    for (uint32_t i = 0; i < s->setting.clients; i++)
        n += s->clients[i].done >= 3;
    return n == s->setting.clients;
}

int htc__store_clients_idle(void *ctx)
{
    const store *s = ctx;
    uint32_t     n = 0;
    for (uint32_t i = 0; i < s->setting.clients; i++)
        n += !s->clients[i].pending;
    return n == s->setting.clients;
}

int htc__store_clients_read(void *ctx)
{
    return htc__store_read_all(ctx);
}
