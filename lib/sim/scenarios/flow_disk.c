#include "sim/scenarios/flow_disk.h"

#include <stdio.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "htcsched/client.h"
#include "htcsched/work.h"
#include "roles/runtime/agent_wire.h"

#define EARLY 64 /* pieces that wait for those before them */

typedef struct early {
    htc_effect call;
    uint8_t   *bytes;
    uint64_t   offset;
    size_t     len;
} early;

typedef struct kept {
    uint8_t        hash[32];
    int            whole, open; /* open: it is being written */
    uint8_t       *bytes;
    uint64_t       size, at; /* of the whole; written */
    early          early[EARLY];
    uint32_t       n_early;
    UT_hash_handle hh;
} kept;

typedef struct input {
    char          *name;
    size_t         name_len;
    uint8_t       *bytes;
    size_t         len;
    struct input  *next;
} input;

/* A run from its staging in to its cleaning. */
typedef struct staged {
    uint64_t       run, task;
    uint32_t       attempt;
    input         *inputs;
    UT_hash_handle hh;
} staged;

/* A stored output. */
typedef struct stored {
    uint64_t       task;
    uint32_t       attempt;
    char           name[64];
    uint8_t       *bytes;
    size_t         len;
    struct stored *next;
} stored;

struct flow_disk {
    htc_env  env;
    htc_sim *sim;
    kept    *objects;
    staged  *runs;
    stored  *outputs;
    uint64_t lost;
};

static void no_memory(flow_disk *d)
{
    htc_sim_fail(d->sim, "out of memory");
}

flow_disk *htc__flow_disk_create(htc_sim *sim, const htc_env *env)
{
    flow_disk *d = htc__alloc(env, sizeof *d);
    if (!d)
        return NULL;
    if (env)
        d->env = *env;
    d->sim = sim;
    return d;
}

static void early_free(flow_disk *d, kept *k)
{
    for (uint32_t i = 0; i < k->n_early; i++)
        htc__free(&d->env, k->early[i].bytes, k->early[i].len);
    k->n_early = 0;
}

static void kept_free(flow_disk *d, kept *k)
{
    early_free(d, k);
    HASH_DEL(d->objects, k);
    htc__free(&d->env, k->bytes, k->size + 1);
    htc__free(&d->env, k, sizeof *k);
}

static void staged_free(flow_disk *d, staged *s)
{
    while (s->inputs) {
        input *x = s->inputs;
        s->inputs = x->next;
        htc__free(&d->env, x->name, x->name_len + 1);
        htc__free(&d->env, x->bytes, x->len + 1);
        htc__free(&d->env, x, sizeof *x);
    }
    HASH_DEL(d->runs, s);
    htc__free(&d->env, s, sizeof *s);
}

static void stored_free(flow_disk *d, uint64_t task, uint32_t attempt, int all)
{
    for (stored **at = &d->outputs; *at;) {
        stored *x = *at;
        if (!all && (x->task != task || x->attempt != attempt)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        htc__free(&d->env, x->bytes, x->len + 1);
        htc__free(&d->env, x, sizeof *x);
    }
}

void htc__flow_disk_crash(flow_disk *d)
{
    staged *s, *next;
    kept   *k;
    HASH_ITER(hh, d->runs, s, next)
    staged_free(d, s);
    for (k = d->objects; k; k = k->hh.next) {
        early_free(d, k);
        k->open = 0;
    }
}

void htc__flow_disk_destroy(flow_disk *d)
{
    kept *k, *next;
    if (!d)
        return;
    htc__flow_disk_crash(d);
    HASH_ITER(hh, d->objects, k, next)
    kept_free(d, k);
    stored_free(d, 0, 0, 1);
    htc_env env = d->env;
    htc__free(&env, d, sizeof *d);
}

void htc__flow_disk_lose(flow_disk *d, htc_rng *rng)
{
    kept *k, *next;
    int   all = htc_rng_below(rng, 2) == 0;
    HASH_ITER(hh, d->objects, k, next)
    if (all || htc_rng_below(rng, 3) == 0) {
        d->lost += k->whole != 0;
        kept_free(d, k);
    }
}

uint64_t htc__flow_disk_lost(const flow_disk *d)
{
    return d->lost;
}

/* ---- objects ---- */

static kept *find(const flow_disk *d, htc_bytes hash)
{
    kept *k = NULL;
    if (hash.len == 32)
        HASH_FIND(hh, d->objects, hash.data, 32, k);
    return k;
}

static kept *kept_new(flow_disk *d, htc_bytes hash, uint64_t size)
{
    kept *k = htc__alloc(&d->env, sizeof *k);
    if (k && !(k->bytes = htc__alloc(&d->env, size + 1))) {
        htc__free(&d->env, k, sizeof *k);
        k = NULL;
    }
    if (!k) {
        no_memory(d);
        return NULL;
    }
    memcpy(k->hash, hash.data, sizeof k->hash);
    k->size = size;
    HASH_ADD(hh, d->objects, hash, sizeof k->hash, k);
    return k;
}

typedef struct answer {
    flow_disk        *d;
    htc_sim_node     *node;
    const htc_effect *call;
    htc_ns            after;
} answer;

static void say(const answer *a, htc_status status, htc_bytes body)
{
    (void)htc_sim_result(a->node, a->after, a->call, status, body);
}

static void put_at(kept *k, uint64_t offset, htc_bytes bytes)
{
    uint64_t have = offset < k->at ? k->at - offset : 0;
    if (have >= bytes.len)
        return;
    memcpy(k->bytes + k->at, (const uint8_t *)bytes.data + have, bytes.len - have);
    k->at += bytes.len - have;
}

static void write_piece(const answer *a, kept *k, htc_reader *r)
{
    uint64_t  offset = htc_get_u64(r), size = htc_get_u64(r);
    htc_bytes bytes = htc_get_bytes(r);
    if (!k || !k->open) {
        say(a, HTC_ENOTFOUND, htc_bytes_of(NULL));
        return;
    }
    if (htc_reader_done(r) != HTC_OK || size != k->size || bytes.len > size - offset) {
        htc_sim_fail(a->d->sim, "a piece of an object that cannot be");
        return;
    }
    if (offset > k->at) {
        early *e = k->n_early < EARLY ? &k->early[k->n_early] : NULL;
        if (!e || !(e->bytes = htc__alloc(&a->d->env, bytes.len))) {
            say(a, HTC_EBUSY, htc_bytes_of(NULL));
            return;
        }
        k->n_early++;
        e->call = (htc_effect){ .op = a->call->op, .tag = a->call->tag, .kind = a->call->kind };
        e->offset = offset;
        e->len = bytes.len;
        memcpy(e->bytes, bytes.data, bytes.len);
        return;
    }
    put_at(k, offset, bytes);
    say(a, HTC_OK, htc_bytes_of(NULL));
    for (uint32_t i = 0; i < k->n_early;) {
        early e = k->early[i];
        if (e.offset > k->at) {
            i++;
            continue;
        }
        k->early[i] = k->early[--k->n_early];
        put_at(k, e.offset, (htc_bytes){ e.bytes, e.len });
        say(&(answer){ a->d, a->node, &e.call, a->after }, HTC_OK, htc_bytes_of(NULL));
        htc__free(&a->d->env, e.bytes, e.len);
        i = 0;
    }
}

static void end_early(const answer *a, kept *k)
{
    for (uint32_t i = 0; i < k->n_early; i++)
        say(&(answer){ a->d, a->node, &k->early[i].call, a->after }, HTC_ECANCELLED, htc_bytes_of(NULL));
    early_free(a->d, k);
}

static void room(const answer *a, kept *k, htc_bytes hash, htc_reader *r)
{
    uint64_t size = htc_get_u64(r);
    uint8_t  have[8];
    if (k)
        end_early(a, k);
    if (k && k->whole) {
        say(a, HTC_EEXISTS, htc_bytes_of(NULL));
        return;
    }
    if (k && k->size != size) {
        kept_free(a->d, k);
        k = NULL;
    }
    if (!k && !(k = kept_new(a->d, hash, size)))
        return;
    k->open = 1;
    htc__le64_put(have, k->at);
    say(a, HTC_OK, (htc_bytes){ have, sizeof have });
}

static void finish(const answer *a, kept *k)
{
    uint8_t    hash[32];
    htc_status status = k && k->open ? HTC_EINPUT : HTC_ENOTFOUND;
    if (k)
        end_early(a, k);
    if (status == HTC_EINPUT && k->at == k->size) {
        htc_content_hash((htc_bytes){ k->bytes, k->at }, hash);
        status = memcmp(hash, k->hash, sizeof hash) == 0 ? HTC_OK : HTC_EINPUT;
    }
    if (status == HTC_EINPUT) {
        htc_sim_fail(a->d->sim, "an object came that is another one"); /* nobody here lies */
        return;
    }
    if (k) {
        k->whole = status == HTC_OK || k->whole;
        k->open = 0;
    }
    say(a, status, htc_bytes_of(NULL));
}

static void read_piece(const answer *a, const kept *k, htc_reader *r)
{
    uint64_t  offset = htc_get_u64(r);
    uint32_t  len = htc_get_u32(r);
    htc_bytes prefix = htc_get_bytes(r);
    htc_buf   b;
    if (!k || !k->whole) {
        say(a, HTC_ENOTFOUND, htc_bytes_of(NULL));
        return;
    }
    htc_buf_init(&b, &a->d->env, 0);
    htc_put_raw(&b, prefix);
    htc_put_raw(&b, (htc_bytes){ k->hash, sizeof k->hash });
    htc_put_u64(&b, offset);
    htc_put_u64(&b, k->size);
    htc_put_bytes(&b, (htc_bytes){ k->bytes + offset, len });
    say(a, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void list(const answer *a)
{
    htc_buf     b;
    const kept *k;
    htc_buf_init(&b, &a->d->env, 0);
    for (k = a->d->objects; k; k = k->hh.next) {
        if (!k->whole && !k->at)
            continue;
        htc_put_raw(&b, (htc_bytes){ k->hash, sizeof k->hash });
        htc_put_u64(&b, k->whole ? k->size : k->at);
        htc_put_u8(&b, (uint8_t)k->whole);
    }
    say(a, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static const stored *find_stored(const flow_disk *d, const htc_attempt *attempt, const char *name)
{
    const stored *x = d->outputs;
    while (x && (x->task != attempt->task || x->attempt != attempt->attempt || strcmp(x->name, name) != 0))
        x = x->next;
    return x;
}

static void output(const answer *a, htc_reader *r)
{
    htc_attempt attempt;
    char        name[64];
    uint8_t     hash[32];
    htc_buf     b;
    htc_read_attempt(r, &attempt);
    htc_get_str(r, name, sizeof name);
    const stored *x = find_stored(a->d, &attempt, name);
    if (!x) {
        say(a, HTC_ENOTFOUND, htc_bytes_of(NULL));
        return;
    }
    htc_content_hash((htc_bytes){ x->bytes, x->len }, hash);
    htc_buf_init(&b, &a->d->env, 0);
    htc_put_raw(&b, (htc_bytes){ hash, sizeof hash });
    htc_put_u64(&b, x->len);
    say(a, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void adopt(const answer *a, htc_bytes hash, htc_reader *r)
{
    htc_attempt attempt;
    char        name[64];
    uint64_t    size = htc_get_u64(r);
    htc_read_attempt(r, &attempt);
    htc_get_str(r, name, sizeof name);
    const stored *x = find_stored(a->d, &attempt, name);
    kept         *k = find(a->d, hash);
    if (!x || x->len != size) {
        say(a, HTC_ENOTFOUND, htc_bytes_of(NULL));
        return;
    }
    if (k && k->whole) {
        say(a, HTC_OK, htc_bytes_of(NULL));
        return;
    }
    if (k) {
        end_early(a, k);
        kept_free(a->d, k);
    }
    k = kept_new(a->d, hash, size);
    if (!k)
        return;
    memcpy(k->bytes, x->bytes, size);
    k->at = size;
    k->whole = 1;
    say(a, HTC_OK, htc_bytes_of(NULL));
}

int htc__flow_disk_call(flow_disk *d, htc_sim_node *node, const htc_effect *call, htc_ns after)
{
    answer     a = { d, node, call, after };
    htc_reader r = htc_reader_of(call->body);
    htc_bytes  hash = htc_bytes_of(NULL);
    kept      *k;
    if (call->op < HTC_CALL_OBJECT_ROOM || call->op > HTC_CALL_OBJECT_OUTPUT)
        return 0;
    if (call->op != HTC_CALL_OBJECT_LIST && call->op != HTC_CALL_OBJECT_OUTPUT)
        hash = htc_get_raw(&r, 32);
    k = find(d, hash);
    switch (call->op) {
    case HTC_CALL_OBJECT_ROOM: room(&a, k, hash, &r); break;
    case HTC_CALL_OBJECT_WRITE: write_piece(&a, k, &r); break;
    case HTC_CALL_OBJECT_FINISH: finish(&a, k); break;
    case HTC_CALL_OBJECT_READ: read_piece(&a, k, &r); break;
    case HTC_CALL_OBJECT_ADOPT: adopt(&a, hash, &r); break;
    case HTC_CALL_OBJECT_DROP:
        if (k) {
            end_early(&a, k);
            kept_free(d, k);
        }
        say(&a, HTC_OK, htc_bytes_of(NULL));
        break;
    case HTC_CALL_OBJECT_LIST: list(&a); break;
    default: output(&a, &r); break;
    }
    return 1;
}

/* ---- runs ---- */

static htc_status take_input(flow_disk *d, staged *s, const htc_stage *in)
{
    uint8_t hash[32];
    kept   *k;
    if (strncmp(in->uri, "htc:", 4) != 0 || htc_content_unhex(in->uri + 4, hash) != HTC_OK)
        return HTC_OK; /* from elsewhere */
    k = find(d, (htc_bytes){ hash, sizeof hash });
    if (!k || !k->whole)
        return HTC_ENOTFOUND;
    input *x = htc__alloc(&d->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    x->name_len = strlen(in->name);
    x->len = k->size;
    x->name = htc__alloc(&d->env, x->name_len + 1);
    x->bytes = htc__alloc(&d->env, x->len + 1);
    x->next = s->inputs;
    s->inputs = x;
    if (!x->name || !x->bytes)
        return HTC_ENOMEM;
    memcpy(x->name, in->name, x->name_len + 1);
    memcpy(x->bytes, k->bytes, x->len);
    return HTC_OK;
}

static staged *staged_of(const flow_disk *d, uint64_t run)
{
    staged *s;
    HASH_FIND(hh, d->runs, &run, sizeof run, s);
    return s;
}

htc_status htc__flow_disk_stage_in(flow_disk *d, const htc_effect *call)
{
    htc_reader  r = htc_reader_of(call->body);
    htc_attempt attempt;
    char        user[64];
    htc_task   *task = NULL;
    uint64_t    run = htc_get_u64(&r);
    htc_read_attempt(&r, &attempt);
    htc_get_str(&r, user, sizeof user);
    (void)htc_get_u64(&r);
    (void)htc_get_u32(&r);
    htc_status status = htc_task_from_bytes(&d->env, htc_get_bytes(&r), &task);
    staged    *s = staged_of(d, run);
    if (s)
        staged_free(d, s);
    s = htc__alloc(&d->env, sizeof *s);
    if (status != HTC_OK || !s) {
        no_memory(d);
        return HTC_ENOMEM;
    }
    *s = (staged){ .run = run, .task = attempt.task, .attempt = attempt.attempt };
    HASH_ADD(hh, d->runs, run, sizeof s->run, s);
    for (size_t i = 0; i < task->n_in && status == HTC_OK; i++)
        status = take_input(d, s, &task->in[i]);
    htc_task_destroy(task);
    if (status == HTC_ENOMEM)
        no_memory(d);
    return status;
}

static void wrong(flow_disk *d, const staged *s, const char *name, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "task %llu reads %s: %s", (unsigned long long)s->task, name, what);
    htc_sim_fail(d->sim, text);
}

void htc__flow_disk_run(flow_disk *d, flow_audit *a, uint64_t run)
{
    const staged *s = staged_of(d, run);
    htc_buf       b;
    if (!s || !a->graph)
        return;
    const htc_flow_task *t = htc__flow_audit_task(a, s->task);
    htc_buf_init(&b, &d->env, 0);
    for (size_t i = 0; i < t->n_in; i++) {
        const input *x = s->inputs;
        int          there = htc__flow_audit_content(a, t->in[i].name, &b);
        while (x && strcmp(x->name, t->in[i].name) != 0)
            x = x->next;
        if (there && !x)
            wrong(d, s, t->in[i].name, "it is not there");
        else if (!there && x)
            wrong(d, s, t->in[i].name, "nobody has made it");
        else if (x && !htc_bytes_equal((htc_bytes){ x->bytes, x->len }, htc_buf_bytes(&b)))
            wrong(d, s, t->in[i].name, "it is another one");
    }
    htc__flow_audit_makes(a, s->task);
    htc_buf_free(&b);
}

void htc__flow_disk_stage_out(flow_disk *d, const flow_audit *a, uint64_t run)
{
    const staged *s = staged_of(d, run);
    htc_buf       b;
    if (!s || !a->graph)
        return;
    const htc_flow_task *t = htc__flow_audit_task(a, s->task);
    htc_buf_init(&b, &d->env, 0);
    for (size_t i = 0; i < t->n_out; i++) {
        stored *x = htc__alloc(&d->env, sizeof *x);
        htc__flow_audit_made(a, t->out[i].name, &b);
        if (!x || b.status != HTC_OK || !(x->bytes = htc__alloc(&d->env, b.len + 1))) {
            htc__free(&d->env, x, sizeof *x);
            no_memory(d);
            break;
        }
        x->task = s->task;
        x->attempt = s->attempt;
        x->len = b.len;
        snprintf(x->name, sizeof x->name, "%s", t->out[i].name);
        if (b.len)
            memcpy(x->bytes, b.data, b.len);
        x->next = d->outputs;
        d->outputs = x;
    }
    htc_buf_free(&b);
}

void htc__flow_disk_clean(flow_disk *d, const htc_effect *call)
{
    htc_reader r = htc_reader_of(call->body);
    staged    *s = staged_of(d, htc_get_u64(&r));
    if (!s)
        return;
    if (htc_get_u8(&r))
        stored_free(d, s->task, s->attempt, 0);
    staged_free(d, s);
}
