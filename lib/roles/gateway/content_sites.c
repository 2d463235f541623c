/* Uploads that tasks read at sites beyond this machine. An agent says what its attempt lacks (CONTENT_WANT). The site's host is asked to have it
 * (HTC_CALL_CONTENT_FETCH), asks in its turn for the pieces that it has not (OBJECT_ASK), and answers when all of it is there: once for the site,
 * however many tasks want it.
 *
 * A host may read the uploads that attempts at its site read, as their documents say, for as long as its connection lasts, and no others: whoever
 * knows a hash and has no task of that user there has nothing by it. Whose they are is in the directory that they are looked for in.
 *
 * A host knows each by a name that is made of its user and its hash. So what two users have is brought and kept for each of them: what one has put
 * there under the other's hash never stands for the other's, and nobody learns by time or links that somebody else has it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/client.h"
#include "roles/gateway/gateway.h"
#include "roles/runtime/joined_wire.h"
#include "roles/runtime/objects_wire.h"

#define ASKS_MAX    4096  /* attempts that wait at once; others ask again */
#define READS_MAX   64    /* pieces that are read at once; others are told to ask again */
#define PERMITS_MAX 65536 /* the oldest go: then an attempt asks again */
#define THERE_LOOKS 64    /* inputs of a task that are looked for at a site */

struct content_ask {
    htc_attempt at;
    uint64_t    agent;
    char        user[NAME_MAX_BYTES];
    uint8_t     spoilt;
    size_t      len; /* of hashes */
    struct content_ask *prev, *next;
    uint8_t     hashes[];
};

typedef struct permit_key {
    uint32_t host, zero;
    uint8_t  name[32];
} permit_key;

struct permit {
    permit_key     key;
    uint8_t        hash[32];
    char           user[NAME_MAX_BYTES];
    uint64_t       size;
    uint8_t        there; /* the host has said that it has it */
    UT_hash_handle hh;
};

static void say_here(htc_gateway *gw, uint64_t id, const htc_attempt *at, htc_status status, const char *text)
{
    const agent     *a = htc__gw_agent(gw, id);
    htc_content_here m = { .attempt = *at, .status = status };
    if (!a || !a->peer)
        return; /* it asks again, or is gone */
    snprintf(m.text, sizeof m.text, "%s", text);
    htc_content_here_write(&gw->scratch, &m);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
}

/* HTC_EUNREACHABLE: the host is away. It is not told: the agent asks again, or gives the task back. */
static void ask_end(htc_gateway *gw, struct content_ask *x, htc_status status, const char *text)
{
    if (status != HTC_EUNREACHABLE)
        say_here(gw, x->agent, &x->at, status, text);
    DL_DELETE(gw->content_asks, x);
    assert(gw->n_content_asks);
    gw->n_content_asks--;
    htc_runtime_context_free(gw->runtime, x);
}

/* ---- what a host may read ---- */

static void permit_drop(htc_gateway *gw, struct permit *p)
{
    HASH_DEL(gw->permits, p);
    htc__free(&gw->env, p, sizeof *p);
}

/* Names of users have no end mark in them, and all hashes one length: no two pairs are one text. */
static void name_of(const char *owner, const uint8_t hash[32], uint8_t name[32])
{
    uint8_t text[NAME_MAX_BYTES + 32];
    size_t  n = strnlen(owner, NAME_MAX_BYTES);
    memcpy(text, owner, n);
    memcpy(text + n, hash, 32);
    htc_content_hash((htc_bytes){ text, n + 32 }, name);
}

static struct permit *permit_of(const htc_gateway *gw, uint32_t host, const uint8_t name[32])
{
    struct permit *p;
    permit_key     k = { .host = host };
    memcpy(k.name, name, sizeof k.name);
    HASH_FIND(hh, gw->permits, &k, sizeof k, p);
    return p;
}

static void permit(htc_gateway *gw, uint32_t host, const uint8_t name[32], const uint8_t hash[32], uint64_t size, const char *owner)
{
    struct permit *p = permit_of(gw, host, name);
    if (p)
        permit_drop(gw, p); /* and to the end */
    if (HASH_COUNT(gw->permits) >= PERMITS_MAX)
        permit_drop(gw, gw->permits);
    p = htc__alloc(&gw->env, sizeof *p);
    if (p) {
        *p = (struct permit){ .key = { .host = host }, .size = size };
        memcpy(p->key.name, name, sizeof p->key.name);
        memcpy(p->hash, hash, sizeof p->hash);
        snprintf(p->user, sizeof p->user, "%s", owner);
        HASH_ADD(hh, gw->permits, key, sizeof p->key, p);
    }
    if (!p || !p->hh.tbl) {
        htc__free(&gw->env, p, sizeof *p);
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what a host may read");
    }
}

void htc__gw_content_closed(htc_gateway *gw, uint32_t host)
{
    struct permit *p, *next;
    HASH_ITER(hh, gw->permits, p, next)
    if (p->key.host == host)
        permit_drop(gw, p);
}

void htc__gw_content_free(htc_gateway *gw)
{
    struct permit *p, *next;
    HASH_ITER(hh, gw->permits, p, next)
    permit_drop(gw, p);
}

/* ---- what is at a site ---- */

/* All that was asked for is at the site of the agent. */
static void note_there(htc_gateway *gw, const struct content_ask *x)
{
    const agent *a = htc__gw_agent(gw, x->agent);
    uint8_t      name[32];
    for (size_t i = 0; a && i < x->len; i += 32) {
        name_of(x->user, x->hashes + i, name);
        struct permit *p = permit_of(gw, gw->sites[a->site].host, name);
        if (p)
            p->there = 1;
    }
}

uint64_t htc__gw_content_there(const htc_gateway *gw, const user *u, const htc_task *t, size_t at)
{
    const site *s = &gw->sites[at];
    uint64_t    sum = 0;
    uint8_t     hash[32], name[32];
    for (size_t i = 0; i < t->n_in && i < THERE_LOOKS; i++) {
        if (htc_content_of_uri(t->in[i].uri, hash, NULL) != HTC_OK)
            continue;
        if (!s->joins)
            return UINT64_MAX;
        name_of(u->name, hash, name);
        const struct permit *p = s->host ? permit_of(gw, s->host, name) : NULL;
        sum = htc__quota_sum(sum, p && p->there ? p->size : 0);
    }
    return sum;
}

/* ---- an attempt wants something ---- */

/* fn of CONTENT_FETCH: what the site's host says. */
static void fetched(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    char   text[200];
    size_t n = body.len < sizeof text ? body.len : sizeof text - 1;
    if (n)
        memcpy(text, body.data, n);
    text[n] = '\0';
    if (status == HTC_OK)
        note_there(gw, ctx);
    ask_end(gw, ctx, status == HTC_ENOTFOUND ? HTC_EUNREACHABLE : status, text[0] ? text : status == HTC_OK ? "" : htc_strerror(status));
}

/* fn of CONTENT_TOUCH: those that are there. */
static void touched(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway        *gw = role;
    struct content_ask *x = ctx;
    const agent        *a = htc__gw_agent(gw, x->agent);
    const site         *s = a ? &gw->sites[a->site] : NULL;
    htc_reader          r = htc_reader_of(body);
    size_t              n = 0;
    uint8_t             name[32];
    if (status != HTC_OK || !s || !s->joins || !s->host) {
        ask_end(gw, x, status != HTC_OK ? status : HTC_EUNREACHABLE, htc_strerror(status));
        return;
    }
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, x->user);
    htc_put_u8(&gw->scratch, x->spoilt);
    for (; htc_reader_left(&r); n++) {
        htc_bytes hash = htc_get_raw(&r, 32);
        uint64_t  size = htc_get_u64(&r);
        if (r.status != HTC_OK)
            break;
        name_of(x->user, hash.data, name);
        permit(gw, s->host, name, hash.data, size, x->user);
        htc_put_raw(&gw->scratch, (htc_bytes){ name, sizeof name });
        htc_put_raw(&gw->scratch, hash);
        htc_put_u64(&gw->scratch, size);
    }
    if (r.status != HTC_OK || n != x->len / 32)
        ask_end(gw, x, HTC_ENOTFOUND, "an upload that it reads is not there, or is not its user's: upload it again");
    else
        htc__gw_file_ask(gw, HTC_CALL_CONTENT_FETCH, a, fetched, x);
}

static int is_asked(const htc_gateway *gw, const htc_attempt *at)
{
    const struct content_ask *x;
    DL_FOREACH(gw->content_asks, x)
    if (x->at.job == at->job && x->at.task == at->task && x->at.attempt == at->attempt)
        return 1;
    return 0;
}

/* Does the task read it, as its document says? */
static int reads(const htc_task *t, const uint8_t hash[32])
{
    uint8_t in[32];
    for (size_t i = 0; i < t->n_in; i++)
        if (htc_content_of_uri(t->in[i].uri, in, NULL) == HTC_OK && memcmp(in, hash, sizeof in) == 0)
            return 1;
    return 0;
}

/* An agent's word for what its task reads is not enough: it has the rights of its user, whose tasks can speak for it. */
static int reads_all(htc_gateway *gw, const htc_content_want *m)
{
    const job *j = htc__gw_job(gw, m->attempt.job);
    htc_task  *t = NULL;
    htc_status status = j ? htc_spec_task(j->spec, m->attempt.task, &t, NULL) : HTC_ENOTFOUND;
    int        all = status == HTC_OK;
    for (size_t i = 0; i < m->hashes.len && all; i += 32)
        all = reads(t, (const uint8_t *)m->hashes.data + i);
    htc_task_destroy(t);
    if (status == HTC_ENOMEM)
        htc_runtime_break(gw->runtime, status, "expanding a task");
    return all;
}

void htc__gw_content_want(htc_gateway *gw, agent *a, const htc_content_want *m)
{
    if (!htc__gw_agent_held(a, &m->attempt) || is_asked(gw, &m->attempt) || gw->n_content_asks >= ASKS_MAX)
        return; /* it asks again, or will hear that it is not its own */
    if (!gw->sites[a->site].joins) {
        say_here(gw, a->id, &m->attempt, HTC_ENOTFOUND, "an upload that it reads is not there, or is not its user's: upload it again");
        return;
    }
    if (!reads_all(gw, m)) {
        gw->content_refused++;
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("user", a->user->name), HTC__NUMBER("job", m->attempt.job)),
                      "agent %llu of %s asks for an upload that its task %llu.%llu does not read -> refused", (unsigned long long)a->id, a->user->name,
                      (unsigned long long)m->attempt.job, (unsigned long long)m->attempt.task);
        say_here(gw, a->id, &m->attempt, HTC_EDENIED, "an upload was asked for that is not among what the task reads");
        return;
    }
    struct content_ask *x = htc_runtime_context(gw->runtime, sizeof *x + m->hashes.len);
    if (!x)
        return;
    x->at = m->attempt;
    x->agent = a->id;
    x->spoilt = m->spoilt;
    x->len = m->hashes.len;
    memcpy(x->user, a->user->name, sizeof x->user);
    memcpy(x->hashes, m->hashes.data, m->hashes.len);
    DL_APPEND(gw->content_asks, x);
    gw->n_content_asks++;
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, x->user);
    htc_put_raw(&gw->scratch, m->hashes);
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_TOUCH, htc_buf_bytes(&gw->scratch), touched, x);
}

/* ---- a host wants a piece ---- */

typedef struct piece {
    uint32_t host;
    uint8_t  name[32];
    uint64_t offset;
} piece;

static void say_none(htc_gateway *gw, const piece *p, htc_status status)
{
    object_message m = { .offset = p->offset, .status = status };
    memcpy(m.hash, p->name, sizeof m.hash);
    htc__object_write(&gw->scratch, HTC_WIRE_OBJECT_NONE, &m);
    htc_runtime_send(gw->runtime, p->host, &gw->scratch);
}

/* It is not there, or a disk fails: asking again would not help, and the host gives its task up, which is tried again. */
static void piece_lost(htc_gateway *gw, const piece *p, htc_status status, htc_bytes why)
{
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                  "an upload that a task elsewhere reads cannot be read: %.*s -> look at the disk of the gateway's data", (int)(why.len < 300 ? why.len : 300),
                  why.len ? (const char *)why.data : htc_strerror(status));
    say_none(gw, p, status == HTC_EIO ? HTC_EIO : HTC_ENOTFOUND);
}

static void piece_read(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    piece        p = *(piece *)ctx;
    htc_buf      whole = { .data = (uint8_t *)(uintptr_t)body.data, .len = body.len }; /* the message, as it was asked for */
    htc_runtime_context_free(gw->runtime, ctx);
    assert(gw->content_reads);
    gw->content_reads--;
    if (status == HTC_OK)
        htc_runtime_send(gw->runtime, p.host, &whole);
    else if (status == HTC_EBUSY)
        say_none(gw, &p, HTC_EBUSY);
    else
        piece_lost(gw, &p, status, body);
}

void htc__gw_content_piece(htc_gateway *gw, const conn *c, htc_reader *r)
{
    object_message m;
    htc_buf        prefix;
    if (htc__object_read(r, HTC_WIRE_OBJECT_ASK, &m) != HTC_OK)
        return;
    const struct permit *p = permit_of(gw, c->peer, m.hash);
    piece                asked = { .host = c->peer, .offset = m.offset };
    memcpy(asked.name, m.hash, sizeof asked.name);
    if (!p || gw->content_reads >= READS_MAX) {
        say_none(gw, &asked, HTC_EBUSY); /* without a permit: an attempt that waits says so again, and then it has one */
        return;
    }
    piece *ctx = htc_runtime_context(gw->runtime, sizeof *ctx);
    if (!ctx)
        return;
    *ctx = asked;
    htc_buf_init(&prefix, &gw->env, 64);
    htc_wire_begin(&prefix, HTC_WIRE_OBJECT_BYTES, 0);
    htc_put_raw(&prefix, (htc_bytes){ m.hash, sizeof m.hash });
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, p->user);
    htc_put_raw(&gw->scratch, (htc_bytes){ p->hash, sizeof p->hash });
    htc_put_u64(&gw->scratch, m.offset);
    htc_put_u32(&gw->scratch, m.len);
    htc_put_bytes(&gw->scratch, htc_buf_bytes(&prefix));
    if (prefix.status != HTC_OK)
        htc_runtime_break(gw->runtime, prefix.status, "reading a piece of an upload");
    htc_buf_free(&prefix);
    gw->content_reads++;
    htc_runtime_call(gw->runtime, HTC_CALL_BLOB_READ, htc_buf_bytes(&gw->scratch), piece_read, ctx);
}
