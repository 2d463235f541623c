/* Clients in a closed loop, all in this process: who is answered asks again. Each knows the members and asks the owner of a key. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calibrate.h"
#include "htcsched/codec.h"
#include "htcsched/host.h"
#include "htcsched/kv.h"

#define KEYS     1000
#define CALLS    1000000u /* a client's own number of its connection to a member is above; the host's are below */
#define DIALS    (CREW_MAX + 1)
#define GIVE_UP  (20 * HTC_SECOND)
#define WARM_UP  (200 * HTC_MS)
#define VALUE    128
#define PARTS    32u /* of each power of two, in a histogram */

typedef struct client {
    htc_kv_client *kv;
    uint32_t       home;           /* the host's number */
    uint32_t       member[DIALS];  /* of connections that it has asked for; 0: none */
} client;

typedef struct looped {
    const load *load;
    const crew *crew;
    htc_host   *host;
    htc_output *inner;
    htc_rng     rng;
    client     *client;
    htc_ns     *asked; /* of each slot */
    htc_ns      begun, warm, from, until; /* 0: not yet */
    uint64_t    fill, filled, answered;
    htc_status  failed; /* the first request that did */
    uint32_t    steps[64 * PARTS]; /* of responses */
    double      members, own; /* CPU seconds at the beginning, and then what was taken */
} looped;

static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- responses: the median is not what happens while others have the processor ---- */

static unsigned step_of(htc_ns ns)
{
    if (ns < PARTS)
        return (unsigned)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns) - 5;
    return (power + 1) * PARTS + (unsigned)((ns >> power) & (PARTS - 1));
}

static double median(const looped *l)
{
    uint64_t seen = 0;
    unsigned i = 0;
    while (i + 1 < 64 * PARTS && (seen += l->steps[i]) <= l->answered / 2)
        i++;
    return 1e-9 * (i < PARTS ? i : ((double)(PARTS + i % PARTS) + 0.5) * exp2(i / PARTS - 1.0));
}

/* ---- numbers of connections: a client's own, and the host's ---- */

static uint32_t client_of(const looped *l, uint32_t peer, uint32_t *number)
{
    for (uint32_t c = 0; c < l->load->clients; c++) {
        if (l->client[c].home == peer) {
            *number = peer;
            return c;
        }
        for (uint32_t i = 0; i < DIALS; i++)
            if (l->client[c].member[i] == peer) {
                *number = CALLS + c * DIALS + i;
                return c;
            }
    }
    return l->load->clients;
}

/* What a client wants done goes to the host. */
static htc_status hand_on(looped *l, uint32_t c, htc_output *out)
{
    htc_status status = HTC_OK;
    htc_effect e;
    for (size_t i = 0; status == HTC_OK && htc_output_get(l->inner, i, &e) == HTC_OK; i++) {
        if (e.kind != HTC_OUT_CALL && e.peer >= CALLS)
            e.peer = l->client[c].member[e.peer - CALLS - c * DIALS];
        if (e.kind == HTC_OUT_CLOSE && e.peer != l->client[c].home)
            continue; /* members stay where they are */
        if (e.kind == HTC_OUT_CALL || e.peer)
            status = htc_output_add(out, &e);
    }
    htc_output_clear(l->inner);
    return status;
}

static htc_status dial(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    looped  *l = ctx;
    uint32_t at = (uint32_t)(tag - CALLS), c = at / DIALS;
    char     path[300];
    if (op != HTC_KV_CLIENT_DIAL || c >= l->load->clients || body.len < 6 || body.len >= sizeof path || memcmp(body.data, "unix:", 5) != 0)
        return HTC_EUNSUPPORTED;
    snprintf(path, sizeof path, "%.*s", (int)body.len - 5, (const char *)body.data + 5);
    return htc_host_dial_unix(host, path, 3, &l->client[c].member[at % DIALS], NULL);
}

/* ---- requests ---- */

static htc_status ask(looped *l, uint32_t c, uint32_t slot, htc_ns now)
{
    static const char value[VALUE];
    char              text[24];
    uint64_t          key = l->fill < KEYS ? l->fill++ : htc_rng_below(&l->rng, KEYS);
    int               put = l->filled < KEYS || l->load->puts;
    htc_kv_request    q = { .size = sizeof q, .op = put ? HTC_KV_PUT : HTC_KV_GET, .value = { put ? value : NULL, put ? sizeof value : 0 } };
    snprintf(text, sizeof text, "key/%llu", (unsigned long long)key);
    q.key = htc_bytes_of(text);
    l->asked[slot] = now;
    return htc_kv_client_submit(l->client[c].kv, now, &q, 1, slot, l->inner);
}

static void count(looped *l, const htc_kv_result *r, htc_ns now)
{
    if (l->failed == HTC_OK && r->status != HTC_ENOTFOUND)
        l->failed = r->status;
    if (l->filled < KEYS && ++l->filled == KEYS)
        l->warm = now + WARM_UP;
    if (l->from) {
        l->answered++;
        l->steps[step_of(now - l->asked[r->tag])]++;
    } else if (l->warm && now >= l->warm) {
        l->from = now;
        l->until = now + (htc_ns)(l->load->seconds * 1e9);
        l->members = crew_seconds(l->crew);
        l->own = own_seconds();
    }
}

static htc_status take(looped *l, uint32_t c, htc_ns now)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = HTC_OK;
    while (status == HTC_OK && htc_kv_client_next(l->client[c].kv, &r)) {
        count(l, &r, now);
        status = ask(l, c, (uint32_t)r.tag, now);
    }
    return status;
}

static htc_status stop(looped *l, htc_ns now, htc_output *out)
{
    int done = l->until && now >= l->until;
    if (!done && now < l->begun + GIVE_UP)
        return HTC_OK;
    if (done) {
        l->members = crew_seconds(l->crew) - l->members;
        l->own = own_seconds() - l->own;
        l->until = now;
    }
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = done ? HTC_OK : HTC_ETIMEDOUT });
}

/* ---- the machine ---- */

static htc_status step_client(looped *l, uint32_t c, const htc_input *in, htc_output *out)
{
    htc_status status = htc_kv_client_step(l->client[c].kv, in, l->inner);
    if (status == HTC_OK && in->kind == HTC_IN_OPENED && in->peer == l->client[c].home)
        for (uint32_t i = 0; i < l->load->depth && status == HTC_OK; i++)
            status = ask(l, c, c * l->load->depth + i, in->now);
    if (status == HTC_OK)
        status = take(l, c, in->now);
    return status == HTC_OK ? hand_on(l, c, out) : status;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    looped    *l = self;
    htc_input  to = *in;
    htc_status status = HTC_OK;
    if (!l->begun)
        l->begun = in->now;
    if (in->kind == HTC_IN_OPENED || in->kind == HTC_IN_CLOSED || in->kind == HTC_IN_MESSAGE) {
        uint32_t c = client_of(l, in->peer, &to.peer);
        status = c < l->load->clients ? step_client(l, c, &to, out) : HTC_OK;
    } else if (in->kind == HTC_IN_TIMEOUT) {
        for (uint32_t c = 0; c < l->load->clients && status == HTC_OK; c++)
            status = step_client(l, c, &to, out);
    }
    return status == HTC_OK ? stop(l, in->now, out) : status;
}

static htc_ns deadline(const void *self)
{
    const looped *l = self;
    htc_ns        at = l->until ? l->until : l->begun + GIVE_UP;
    for (uint32_t c = 0; c < l->load->clients; c++) {
        htc_ns its = htc_kv_client_deadline(l->client[c].kv);
        at = its < at ? its : at;
    }
    return at;
}

/* ---- a run ---- */

static htc_status open_clients(looped *l, const htc_env *env)
{
    htc_status status = HTC_OK;
    for (uint32_t c = 0; c < l->load->clients && status == HTC_OK; c++) {
        client *one = &l->client[c];
        status = htc_host_dial_unix(l->host, l->crew->address[c % l->crew->n] + 5, 3, &one->home, NULL);
        htc_kv_client_options o = { .size = sizeof o, .client_id = htc_rng_next(&l->rng), .peer = one->home, .members = l->crew->dials,
                                    .member_peer = CALLS + c * DIALS };
        if (status == HTC_OK)
            status = htc_kv_client_create(env, &o, &one->kv);
    }
    return status;
}

int load_run(const load *l, const crew *c, figures *f, htc_error *error)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    looped     m = { .load = l, .crew = c };
    htc_env    env = { .size = sizeof env, .rng = &m.rng };
    htc_status status = HTC_ENOMEM;
    htc_host_random(&m.rng, sizeof m.rng);
    m.client = calloc(l->clients, sizeof *m.client);
    m.asked = calloc((size_t)l->clients * l->depth, sizeof *m.asked);
    if (m.client && m.asked)
        status = htc_output_create(&env, 0, &m.inner);
    if (status == HTC_OK)
        status = htc_host_create(&env, &(htc_host_options){ .size = sizeof(htc_host_options), .handle_signals = 0 }, &m.host);
    if (status == HTC_OK)
        status = open_clients(&m, &env);
    if (status == HTC_OK) {
        htc_host_on_call(m.host, dial, &m);
        status = htc_host_run(m.host, &ops, &m);
    }
    if (status == HTC_OK)
        status = m.failed != HTC_OK ? m.failed : m.answered ? HTC_OK : HTC_ETIMEDOUT;
    double seconds = (double)(m.until - m.from) / 1e9;
    if (status == HTC_OK)
        *f = (figures){ (double)m.answered / seconds, median(&m), m.members / (double)m.answered, m.own / (double)m.answered };
    for (uint32_t i = 0; m.client && i < l->clients; i++)
        htc_kv_client_destroy(m.client[i].kv);
    htc_host_destroy(m.host);
    htc_output_destroy(m.inner);
    free(m.client);
    free(m.asked);
    if (status == HTC_OK)
        return 1;
    *error = (htc_error){ .status = status };
    snprintf(error->where, sizeof error->where, "%.150s", c->address[0]);
    snprintf(error->text, sizeof error->text, "clients of the store there were not answered: %s", htc_strerror(status));
    snprintf(error->hint, sizeof error->hint, "%s", c->pid[0] ? "try again on a machine that is less busy, or with --dir on another disk" : "name the socket of a store that runs");
    return 0;
}
