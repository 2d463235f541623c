#include "shards.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shards_dir.h"
#include "shards_page.h"
#include "strong.h"

/* A log's files are 64 MiB each; a record, which is whole in one, has up to 16 MiB. */
#define SEGMENT_BYTES ((uint64_t)32 << 20)

typedef struct process process;

/* Of the store, or the whole of a namespace. */
typedef struct shard {
    member     m;
    htc_daemon d;
    htc_log_structured log;
    process   *of;
    uint32_t   number; /* from 1 */
    pthread_t  thread;
    htc_status status;
    char       address[320], at[5 + 4096];
} shard;

struct process {
    member    *front;
    shard     *shards;
    htc_host **hosts;
    uint32_t   count, own; /* own: of the store, the first of them; the others are its strong namespaces */
    /* the front's thread */
    uint32_t   ready, ended, ending;
    htc_status status;
};

/* ---- directories ---- */

htc_status shards_check(member *m)
{
    shards_dir dir;
    uint64_t   id;
    char       count[40];
    if (!m->d->state)
        return HTC_OK;
    htc_status s = shards_dir_read(m, &dir);
    if (s != HTC_OK || dir.count == m->o.shards || (dir.count == 0 && m->o.shards == 1))
        return s;
    snprintf(count, sizeof count, "give --shards %" PRIu32, dir.count);
    if (dir.count)
        return member_wrong(
            m->d, HTC_EEXISTS, count,
            "%.200s was made with another number of shards, which is for good; htc kv backup and restore bring what it "
            "holds into another directory",
            htc_state_dir(m->d->state));
    s = identity_read(m->d, &id);
    if (s == HTC_OK || identity_has_store(m->d))
        return member_wrong(m->d, HTC_EEXISTS, "leave --shards out, or give an empty --dir",
                            "%.200s was made without --shards, which is for good", htc_state_dir(m->d->state));
    return s == HTC_ENOTFOUND ? HTC_OK : s;
}

htc_status shards_draw(member *m)
{
    htc_state *top = m->d->state;
    shards_dir dir;
    char       ids[SHARDS_MAX * 17 + 1] = "";
    htc_status s = shards_dir_read(m, &dir);
    if (s == HTC_OK && dir.alone)
        s = member_wrong(m->d, HTC_EEXISTS, "give an empty --dir",
                         "%.200s is the directory of a whole store, which cannot become one of several members",
                         htc_state_dir(top));
    for (uint32_t i = 0; s == HTC_OK && i < m->o.shards; i++) {
        htc_state *own;
        if ((s = shards_dir_open(m, i + 1, &own)) != HTC_OK)
            break;
        m->d->state = own;
        s = identity_draw(m->d, ids + 17 * (size_t)i);
        m->d->state = top;
        htc_state_close(own);
        ids[17 * (size_t)i + 16] = i + 1 < m->o.shards ? ',' : 0;
    }
    if (s == HTC_OK && dir.count == 0)
        s = shards_dir_write(m, &(shards_dir){ .count = m->o.shards });
    if (s == HTC_OK)
        puts(ids);
    return s == HTC_OK ? HTC_AGAIN : s;
}

/* ---- who they are ---- */

/* The front's log takes it: text says whose line it is, an object has that as a value. */
static void write_fields(void *ctx, uint32_t level, const char *line, const htc_log_field *field, size_t n)
{
    const shard   *x = ctx;
    const htc_log *log = x->of->front->d->env.log;
    htc_log_field  more[16] = { { "shard", NULL, x->number, 0 } };
    char           text[1200];
    if (log->level & HTC_LOG_FIELDS) {
        if (x->of->own == 1)
            more[0] = (htc_log_field){ "namespace", x->m.space ? x->m.space->name : "default", 0, 0 };
        n = n < 15 ? n : 15;
        if (n)
            memcpy(more + 1, field, n * sizeof *field);
        ((const htc_log_structured *)log)->write_fields(log->ctx, level, line, more, n + 1);
        return;
    }
    if (x->m.space)
        snprintf(text, sizeof text, "namespace %s: %s", x->m.space->name, line);
    else if (x->of->own == 1)
        snprintf(text, sizeof text, "%s", line);
    else
        snprintf(text, sizeof text, "shard %" PRIu32 ": %s", x->number, line);
    log->write(log->ctx, level, text);
}

static void write_line(void *ctx, uint32_t level, const char *line)
{
    write_fields(ctx, level, line, NULL, 0);
}

static htc_status begin(process *p, uint32_t i)
{
    shard  *x = &p->shards[i];
    member *front = p->front;
    x->m.peers = calloc(MEMBERS_MAX, sizeof *x->m.peers);
    x->of = p;
    x->number = i + 1;
    x->d = (htc_daemon){ .name = front->d->name };
    x->log = (htc_log_structured){ { write_line, x, front->d->env.log->level | HTC_LOG_FIELDS }, write_fields };
    x->d.env = (htc_env){ .size = sizeof x->d.env, .rng = &x->d.rng, .log = &x->log.log };
    htc_host_random(&x->d.rng.state, sizeof x->d.rng.state);
    x->m.d = &x->d;
    if (!x->m.peers)
        return HTC_ENOMEM;
    x->m.o.huge_pages = front->o.huge_pages;
    member_take_huge(&x->m);
    if (i >= p->own)
        return strong_begin(&x->m, front, i - p->own);
    x->m.o = front->o;
    x->m.alone = front->count == 0 && p->own > 1 && !front->o.join;
    x->m.named = p->own > 1 && !front->o.join ? front->peers : NULL;
    x->m.space_count = front->space_count;
    memcpy(x->m.spaces, front->spaces, sizeof x->m.spaces);
    memcpy(x->m.password, front->password, sizeof x->m.password);
    x->m.password_len = front->password_len;
    if (i > 0)
        x->m.o.once = NULL; /* a secret is good for one key, and each shard would know it until the next start */
    if (p->own == 1) {
        x->d.state = front->d->state;
        return HTC_OK;
    }
    if (front->o.listen && !identity_shard_address(front->o.listen, x->number, x->address, sizeof x->address))
        return member_wrong(front->d, HTC_EUSAGE, "each shard has a port of its own, from the given one on",
                            "--listen %.100s: with --shards it needs a port", front->o.listen);
    x->m.o.listen = front->o.listen ? x->address : NULL;
    return shards_dir_open(front, x->number, &x->d.state);
}

/* Their ids, of a whole store. */
static htc_status draw_own(process *p, const htc_kv_store_options *so)
{
    member    *m = p->front;
    shards_dir dir;
    char       id[17];
    htc_status s = shards_dir_read(m, &dir);
    if (s == HTC_OK && dir.count && !dir.alone)
        return member_wrong(m->d, HTC_EUSAGE, "give --member for each of them",
                            "%.200s is the directory of one of several members", htc_state_dir(m->d->state));
    for (uint32_t i = 0; s == HTC_OK && i < p->count; i++) {
        member_address *a = &m->peers[i];
        shard          *x = &p->shards[i];
        if (so->engine == HTC_KV_IN_MEMORY)
            htc_host_random(&a->id, sizeof a->id);
        else if ((s = identity_draw(&x->d, id)) == HTC_OK)
            a->id = strtoull(id, NULL, 16);
        else
            m->d->error = x->d.error;
        a->process = m->peers[0].id;
        snprintf(a->path, sizeof a->path, "%s", htc_state_path(x->d.state, HTC_STATE_STORE_SOCKET));
    }
    m->count = p->count;
    if (s == HTC_OK && dir.count == 0 && so->engine != HTC_KV_IN_MEMORY)
        s = shards_dir_write(m, &(shards_dir){ .count = p->count, .alone = 1 });
    return s;
}

/* Each by itself, one after the other as they are let in; that they are one process they say. */
static htc_status join_as_shard(process *p, shard *x)
{
    member_address at = { .id = 0 }, own = { .id = 0 };
    if (x->m.o.at) {
        if (!identity_where(x->m.o.at, &at))
            return member_find_self(&x->m); /* which says what is wrong */
        own = at;
        if (!(at.path[0] ? identity_shard_path(at.path, x->number, own.path, sizeof own.path)
                         : identity_shard_address(at.address, x->number, own.address, sizeof own.address)))
            return member_wrong(p->front->d, HTC_EUSAGE, "each shard has a socket, or a port, of its own", "--at %.100s: no place for the shards",
                                x->m.o.at);
        if (own.path[0])
            snprintf(x->at, sizeof x->at, "unix:%s", own.path);
        else
            snprintf(x->at, sizeof x->at, "tcp://%s%s%s", own.name, own.name[0] ? "@" : "", own.address);
        x->m.o.at = x->at;
    }
    htc_status s = identity_read(&p->shards[0].d, &x->m.process);
    return s == HTC_OK || s == HTC_ENOTFOUND ? member_find_self(&x->m) : s;
}

/* The others of this process are near, wherever the members of other processes reach them. */
static htc_status name_peers(process *p, shard *x)
{
    member  *m = &x->m;
    uint64_t id = 0;
    if (m->space)
        return HTC_OK;
    if (m->o.join && p->own > 1)
        return join_as_shard(p, x);
    m->count = p->front->count;
    memcpy(m->peers, p->front->peers, MEMBERS_MAX * sizeof *m->peers);
    if (m->alone && m->peers[x->number - 1].id && identity_read(m->d, &id) == HTC_ENOTFOUND) {
        m->id = m->peers[x->number - 1].id; /* in memory: until it ends */
        return HTC_OK;
    }
    for (uint32_t i = 0; p->own > 1 && i < p->own; i++) {
        uint64_t sibling = 0;
        if (identity_read(&p->shards[i].d, &sibling) == HTC_OK)
            for (uint32_t j = 0; j < m->count; j++)
                if (m->peers[j].id == sibling && i + 1 != x->number) {
                    m->peers[j].address[0] = 0;
                    snprintf(m->peers[j].path, sizeof m->peers[j].path, "%s",
                             htc_state_path(p->shards[i].d.state, HTC_STATE_STORE_SOCKET));
                }
    }
    return member_find_self(m);
}

/* The shards of a process are named together: another number of them, or another process' ones, would place keys elsewhere. */
static htc_status same_process(process *p)
{
    const member *m = p->front;
    uint64_t      first = 0;
    uint32_t      named = 0;
    if (p->own == 1 || m->o.join)
        return HTC_OK;
    for (uint32_t j = 0; j < m->count; j++)
        if (m->peers[j].id == p->shards[0].m.id)
            first = m->peers[j].process;
    for (uint32_t j = 0; j < m->count; j++)
        named += first && m->peers[j].process == first;
    if (named == p->count)
        return HTC_OK;
    return member_wrong(m->d, HTC_EUSAGE, "give what htc-kvd --new-member printed, as one word",
                        "--member has to name all shards of %.200s together: ID,ID,...@", htc_state_dir(m->d->state));
}

/* ---- opening ---- */

/* Of all descriptors each shard gets its part; the other members are connections too, and so are they to it. */
static uint32_t connections_of(const process *p)
{
    uint32_t all = member_descriptors(), near = 2 * p->front->count + 64;
    uint32_t room = all / p->count > near + 16 ? all / p->count - near : 16;
    return (room < CONNECTIONS_MAX / p->count ? room : CONNECTIONS_MAX / p->count) + p->front->count;
}

static void shard_ready(void *ctx);

static htc_status open_shard(process *p, shard *x, const htc_kv_store_options *all)
{
    htc_host_options     ho = { .size = sizeof ho, .connections_max = connections_of(p), .output_bytes_max = MEMBER_WAITING };
    htc_kv_store_options so = *all;
    htc_status           s = HTC_OK;
    if (x->m.space) {
        so = (htc_kv_store_options){ .size = sizeof so };
        s = member_choose(&x->m, &so);
    }
    so.bytes_max /= x->m.space ? 1 : p->own;
    so.segment_bytes = p->own > 1 || x->m.space ? SEGMENT_BYTES : 0;
    so.ready = shard_ready;
    so.ready_ctx = x;
    if (s == HTC_OK)
        s = htc_host_create(&x->d.env, &ho, &x->m.host);
    if (s == HTC_OK) /* what comes to the directory of the process is dealt */
        s = member_listen(&x->m, p->own == 1 && !x->m.space ? LISTEN_SECURE : LISTEN_NATIVE | LISTEN_SECURE, NULL, NULL);
    if (s == HTC_OK)
        s = member_open(&x->m, &so);
    p->hosts[x->number - 1] = x->m.host;
    return s;
}

/* What went wrong with a shard is what the process says. */
static htc_status said_by(process *p, shard *x, htc_status s)
{
    htc_error *e = &p->front->d->error;
    if (s == HTC_OK)
        return s;
    if (x->d.error.text[0])
        *e = x->d.error;
    if (!e->text[0] && p->own > 1)
        snprintf(e->text, sizeof e->text, "shard %" PRIu32 ": %s", x->number, htc_strerror(s));
    if (x->m.space && !e->where[0])
        snprintf(e->where, sizeof e->where, "namespace %s", x->m.space->name);
    return s;
}

static void show(void *ctx, htc_metrics *metrics)
{
    process *p = ctx;
    member  *of[SHARDS_MAX];
    for (uint32_t i = 0; i < p->count; i++)
        of[i] = &p->shards[i].m;
    shards_page_write(of, p->count, p->own == 1 ? "space" : "shard", metrics);
}

static htc_status open_all(process *p, const htc_kv_store_options *so)
{
    member          *m = p->front;
    htc_host_options ho = { .size = sizeof ho, .handle_signals = 1, .connections_max = 16 };
    htc_status       s = HTC_OK;
    for (uint32_t i = 0; s == HTC_OK && i < p->count; i++)
        s = said_by(p, &p->shards[i], begin(p, i));
    if (s == HTC_OK && m->count == 0 && p->own > 1 && !m->o.join)
        s = draw_own(p, so);
    for (uint32_t i = 0; s == HTC_OK && i < p->count; i++)
        s = said_by(p, &p->shards[i], name_peers(p, &p->shards[i]));
    if (s == HTC_OK)
        s = same_process(p);
    if (s == HTC_OK)
        s = htc_host_create(&m->d->env, &ho, &m->host);
    if (s == HTC_OK)
        s = member_listen(m, LISTEN_NATIVE | LISTEN_RESP | LISTEN_METRICS, show, p);
    for (uint32_t i = 0; s == HTC_OK && i < p->count; i++)
        s = said_by(p, &p->shards[i], open_shard(p, &p->shards[i], so));
    for (uint32_t i = 0; s == HTC_OK && i < p->count; i++)
        s = said_by(p, &p->shards[i], member_promise(&p->shards[i].m));
    m->engine = so->engine;
    m->id = p->shards[0].m.id;
    m->alone = p->shards[0].m.alone;
    m->secure_port = p->shards[0].m.secure_port;
    return s == HTC_OK ? htc_host_deal(m->host, p->hosts, p->own) : s;
}

/* ---- running ---- */

static void end_shard(void *ctx)
{
    const shard *x = ctx;
    htc_host_event(x->m.host, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ NULL, 0 });
}

static void kill_shard(void *ctx)
{
    const shard *x = ctx;
    htc_host_event(x->m.host, HTC_KV_SERVER_SHUTDOWN, HTC_EKILLED, (htc_bytes){ NULL, 0 });
}

static void load_keys(void *ctx)
{
    shard     *x = ctx;
    htc_error  error = { .status = 0 };
    htc_status s = htc_host_keys_load(x->m.keys, &error);
    char       line[800];
    if (s >= 0)
        return;
    snprintf(line, sizeof line, "keys: %s%s%s -> go on with those there were", error.where, *error.where ? ": " : "",
             error.text);
    write_line(x, HTC_LOG_ERROR, line);
}

/* In each shard's thread. */
static void tell_all(process *p, void (*fn)(void *ctx))
{
    for (uint32_t i = 0; i < p->count; i++)
        if (htc_host_post(p->hosts[i], fn, &p->shards[i]) != HTC_OK)
            abort(); /* without memory for that the process would never end */
}

static void on_hangup(void *ctx)
{
    tell_all(ctx, load_keys);
}

static void end_all(process *p, htc_status how)
{
    p->ending = 1;
    htc_host_accept(p->front->host, 0);
    tell_all(p, how == HTC_OK ? end_shard : kill_shard);
}

static void one_ready(void *ctx)
{
    process *p = ctx;
    if (++p->ready == p->count)
        member_say_ready(p->front);
}

static void shard_ready(void *ctx)
{
    shard *x = ctx;
    (void)htc_host_post(x->of->front->host, one_ready, x->of);
}

/* Without one of them part of the keys would be missing: then all end. */
static void one_ended(void *ctx)
{
    shard   *x = ctx;
    process *p = x->of;
    if (x->status != HTC_OK && p->status == HTC_OK)
        p->status = said_by(p, x, x->status);
    if (++p->ended == p->count)
        htc_host_stop(p->front->host, p->status);
    else if (!p->ending && !x->m.left) /* the others have still to leave */
        end_all(p, HTC_OK);
}

static void *run_shard(void *ctx)
{
    shard *x = ctx;
    x->status = member_run(&x->m);
    if (htc_host_post(x->of->front->host, one_ended, x) != HTC_OK)
        abort(); /* as above */
    return NULL;
}

static htc_status front_step(void *self, const htc_input *in, htc_output *out)
{
    (void)out;
    if (in->kind == HTC_IN_EVENT && in->op == HTC_KV_SERVER_SHUTDOWN)
        end_all(self, in->status);
    return HTC_OK;
}

static htc_ns front_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

/* Signals are the front's. */
static uint32_t start_threads(process *p)
{
    sigset_t all, before;
    uint32_t n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (n < p->count && pthread_create(&p->shards[n].thread, NULL, run_shard, &p->shards[n]) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

static htc_status run(process *p)
{
    static const htc_machine_ops ops = { sizeof ops, front_step, front_deadline, NULL, 0 };
    uint32_t                     started = 0;
    htc_status                   s = p->front->o.listen ? htc_host_on_hangup(p->front->host, on_hangup, p) : HTC_OK;
    if (s == HTC_OK)
        started = start_threads(p);
    if (started < p->count) {
        p->count = started; /* those end; nobody has been let in */
        p->status = s == HTC_OK ? HTC_EBUSY : s;
        if (started)
            tell_all(p, kill_shard);
    }
    if (started)
        s = htc_host_run(p->front->host, &ops, p);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(p->shards[i].thread, NULL);
    return p->status != HTC_OK ? p->status : s;
}

static void close_all(process *p, uint32_t count)
{
    htc_host_destroy(p->front->host); /* it deals to the others */
    p->front->host = NULL;
    for (uint32_t i = 0; i < count; i++) {
        shard *x = &p->shards[i];
        htc_host_destroy(x->m.host);
        htc_kv_store_close(x->m.store);
        if (x->d.state != p->front->d->state)
            htc_state_close(x->d.state);
        free(x->m.peers);
        free(x->m.dialled);
    }
}

htc_status shards_serve(member *m, htc_kv_store_options *so)
{
    uint32_t   count = m->o.shards + m->strong_count;
    process    p = { .front = m, .count = count, .own = m->o.shards };
    htc_status s = HTC_ENOMEM;
    p.shards = calloc(count, sizeof *p.shards);
    p.hosts = calloc(count, sizeof(htc_host *));
    if (p.shards && p.hosts) {
        s = open_all(&p, so);
        if (s == HTC_OK)
            s = run(&p);
        close_all(&p, count);
    }
    free(p.shards);
    free(p.hosts);
    return s;
}
