/* A worker's objects among others that are slow, lie, lose what they had, hang up and die; messages that are lost, doubled and overtake each
 * other; a host that is slow and has little room. Beside it a model that knows everything: what is on the disk, who has what. */
#ifndef HTC_TESTS_OBJECTS_WORLD_H
#define HTC_TESTS_OBJECTS_WORLD_H

#include "expect.h"

#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "htcsched/calls.h"
#include "htcsched/client.h"
#include "htcsched/runtime.h"
#include "roles/objects/objects.h"

enum { OTHERS = 4, CONTENTS = 10, WANTS = 40, MAIL_MAX = 4096, CALLS_MAX = 512, PEER = 20, ASKER = 90, SELF = 1, JOB = 3 };

typedef struct content {
    uint64_t size;
    uint8_t  hash[32];
    uint8_t *bytes;
} content;

typedef struct mail {
    uint32_t  worker; /* to it, or from it: 0 is the first of the others */
    int       to_us;
    uint8_t  *bytes;
    size_t    len;
} mail;

typedef struct host_call {
    uint32_t op;
    uint64_t tag;
    int      c; /* which content; -1: of all */
    uint8_t *body;
    size_t   len;
} host_call;

/* What the disk of this worker has of a content. */
typedef struct on_disk {
    int      whole, open; /* open: it was made room for */
    uint8_t *bytes;
    uint64_t at; /* bytes that are written */
} on_disk;

typedef struct asked_want {
    int      c[4], n;
    int      used, decided, released;
    htc_status status;
    uint32_t which;
} asked_want;

typedef struct objects_world {
    htc_rng       rng;
    htc_ns        now;
    htc_env       env;
    htc_runtime  *runtime;
    htc__objects *objects;
    htc_output   *out;
    content       content[CONTENTS];
    on_disk       disk[CONTENTS];
    uint64_t      disk_max, cache; /* disk_max 0: no bound */
    struct {
        int connected, dead;
        int has[CONTENTS], lies[CONTENTS];
    } other[OTHERS];
    mail       mail[MAIL_MAX];
    uint32_t   n_mail;
    host_call  calls[CALLS_MAX];
    uint32_t   n_calls;
    asked_want want[WANTS];
    uint32_t   n_wants, made, made_failed;
    int        lossy; /* messages may be lost and doubled */
    uint64_t   refused; /* by a full disk */
    htc_status broken;
} objects_world;

static inline int content_of(const objects_world *w, const uint8_t hash[32])
{
    for (int c = 0; c < CONTENTS; c++)
        if (memcmp(w->content[c].hash, hash, 32) == 0)
            return c;
    return -1;
}

/* ---- what the model holds against it ---- */

/* All that is promised to tasks is on the disk, as it was made. */
static inline void check_promises(const objects_world *w)
{
    htc__objects_figures f;
    for (uint32_t i = 0; i < w->n_wants; i++)
        for (int k = 0; w->want[i].decided && w->want[i].status == HTC_OK && !w->want[i].released && k < w->want[i].n; k++) {
            int c = w->want[i].c[k];
            cr_assert(w->disk[c].whole && w->disk[c].at == w->content[c].size, "want %u: content %d is not here", i, c);
            cr_assert(memcmp(w->disk[c].bytes, w->content[c].bytes, w->content[c].size) == 0, "content %d is another", c);
        }
    htc__objects_look(w->objects, &f);
    cr_assert(f.cached_bytes <= w->cache, "%llu bytes in a cache of %llu", (unsigned long long)f.cached_bytes, (unsigned long long)w->cache);
}

static inline int is_to_be_had(const objects_world *w, int c)
{
    for (int i = 0; i < OTHERS; i++)
        if (w->other[i].has[c] && !w->other[i].lies[c] && !w->other[i].dead)
            return 1;
    return 0;
}

static inline void world_ready(void *role, uint64_t want, htc_status status, uint32_t which)
{
    objects_world *w = role;
    asked_want    *a = &w->want[want];
    cr_assert(want < w->n_wants && a->used && !a->decided, "want %d is decided twice", (int)want);
    a->decided = 1;
    a->status = status;
    a->which = which;
    if (status == HTC_ELOST)
        cr_assert(!is_to_be_had(w, a->c[which]), "content %d is said to be lost, and somebody has it", a->c[which]);
    else if (status != HTC_OK)
        cr_assert(status == HTC_ENOSPC && w->refused, "want %d ends with %s", (int)want, htc_status_name(status));
}

static inline void world_made(void *role, const uint8_t hash[32], htc_status status)
{
    objects_world *w = role;
    cr_assert(content_of(w, hash) >= 0);
    w->made += status == HTC_OK;
    w->made_failed += status != HTC_OK;
}

static inline uint32_t world_peer_of(void *role, uint64_t worker)
{
    objects_world *w = role;
    return worker >= 2 && worker < 2 + OTHERS && w->other[worker - 2].connected ? PEER + (uint32_t)worker - 2 : 0;
}

/* ---- a step ---- */

static inline void post(objects_world *w, uint32_t worker, int to_us, htc_bytes bytes)
{
    cr_assert(w->n_mail < MAIL_MAX, "too much mail");
    mail *m = &w->mail[w->n_mail++];
    *m = (mail){ worker, to_us, malloc(bytes.len), bytes.len };
    memcpy(m->bytes, bytes.data, bytes.len);
}

static inline void effects(objects_world *w)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_MESSAGE) {
            if (e.peer != ASKER && w->other[e.peer - PEER].connected)
                post(w, e.peer - PEER, 0, e.body);
            else if (e.peer == ASKER)
                post(w, ASKER, 0, e.body);
        } else if (e.kind == HTC_OUT_CALL) {
            cr_assert(w->n_calls < CALLS_MAX, "too many calls");
            host_call *h = &w->calls[w->n_calls++];
            *h = (host_call){ e.op, e.tag, e.op == HTC_CALL_OBJECT_LIST ? -1 : content_of(w, e.body.data), malloc(e.body.len + 1), e.body.len };
            if (e.body.len)
                memcpy(h->body, e.body.data, e.body.len);
        }
    }
    htc_output_clear(w->out);
}

/* act: what the owner does in this step; NULL: nothing. */
static inline void step(objects_world *w, htc_input in, void (*act)(objects_world *, void *), void *ctx)
{
    in.size = sizeof in;
    in.now = w->now;
    if (htc_runtime_begin(w->runtime, &in, w->out) == HTC_OK) {
        uint16_t type;
        uint64_t id;
        if (in.kind == HTC_IN_MESSAGE) {
            htc_reader r = htc_wire_open(in.body, &type, &id);
            htc__objects_heard(w->objects, in.peer, type, &r);
        } else if (in.kind == HTC_IN_CLOSED) {
            htc__objects_closed(w->objects, in.peer);
        } else if (in.kind == HTC_IN_START) {
            htc__objects_start(w->objects);
        }
        if (act)
            act(w, ctx);
        if (htc_runtime_input(w->runtime, &in) == HTC_OK)
            htc__objects_run(w->objects, w->now);
    }
    w->broken = htc_runtime_end(w->runtime, &in);
    effects(w);
}

static inline void just(objects_world *w, void (*act)(objects_world *, void *), void *ctx)
{
    step(w, (htc_input){ .kind = HTC_IN_TIMEOUT }, act, ctx);
}

/* ---- the host ---- */

static inline uint64_t disk_used(const objects_world *w)
{
    uint64_t n = 0;
    for (int c = 0; c < CONTENTS; c++)
        n += w->disk[c].at;
    return n;
}

static inline void result(objects_world *w, const host_call *h, htc_status status, htc_bytes body)
{
    step(w, (htc_input){ .kind = HTC_IN_RESULT, .op = h->op, .tag = h->tag, .status = status, .body = body }, NULL, NULL);
}

static inline void call_take(objects_world *w, uint32_t i)
{
    free(w->calls[i].body);
    memmove(&w->calls[i], &w->calls[i + 1], (--w->n_calls - i) * sizeof *w->calls);
}

static inline void wipe(on_disk *d)
{
    free(d->bytes);
    *d = (on_disk){ 0 };
}

/* A piece that stands behind a gap waits for what comes before it. 1: it waits. */
static inline int is_early(const objects_world *w, const host_call *h)
{
    if (h->op != HTC_CALL_OBJECT_WRITE || h->c < 0)
        return 0;
    htc_reader r = htc_reader_of((htc_bytes){ h->body + 32, h->len - 32 });
    return w->disk[h->c].open && htc_get_u64(&r) > w->disk[h->c].at;
}

static inline htc_status write_some(objects_world *w, int c, htc_reader *r)
{
    on_disk  *d = &w->disk[c];
    uint64_t  offset = htc_get_u64(r), size = htc_get_u64(r);
    htc_bytes bytes = htc_get_bytes(r);
    cr_assert(htc_reader_done(r) == HTC_OK && size == w->content[c].size && bytes.len <= size - offset);
    if (!d->open)
        return HTC_ENOTFOUND;
    if (offset < d->at)
        return HTC_OK;
    if (w->disk_max && disk_used(w) + bytes.len > w->disk_max) {
        w->refused++;
        return HTC_ENOSPC;
    }
    memcpy(d->bytes + d->at, bytes.data, bytes.len);
    d->at += bytes.len;
    return HTC_OK;
}

/* Carry out call i. Of one object they come in order; what would end a piece that waits ends it. */
static inline void carry_out(objects_world *w, uint32_t i)
{
    host_call  h = w->calls[i];
    on_disk   *d = h.c < 0 ? NULL : &w->disk[h.c];
    htc_reader r = htc_reader_of((htc_bytes){ h.body, h.len });
    htc_status status = HTC_OK;
    htc_buf    b;
    w->calls[i].body = NULL;
    call_take(w, i);
    htc_buf_init(&b, NULL, 0);
    if (d)
        (void)htc_get_raw(&r, 32);
    for (uint32_t k = 0; d && h.op != HTC_CALL_OBJECT_WRITE && h.op != HTC_CALL_OBJECT_READ && k < i;)
        if (w->calls[k].c == h.c && w->calls[k].op == HTC_CALL_OBJECT_WRITE) {
            host_call early = w->calls[k];
            w->calls[k].body = NULL;
            call_take(w, k);
            result(w, &early, HTC_ECANCELLED, (htc_bytes){ 0 });
            free(early.body);
            i--;
        } else {
            k++;
        }
    switch (h.op) {
    case HTC_CALL_OBJECT_ROOM:
        if (d->whole) {
            status = HTC_EEXISTS;
        } else {
            d->open = 1;
            if (!d->bytes)
                d->bytes = calloc(1, w->content[h.c].size + 1);
            htc_put_u64(&b, d->at);
        }
        break;
    case HTC_CALL_OBJECT_WRITE: status = write_some(w, h.c, &r); break;
    case HTC_CALL_OBJECT_FINISH:
        if (!d->open)
            status = HTC_ENOTFOUND;
        else if (d->at == w->content[h.c].size && memcmp(d->bytes, w->content[h.c].bytes, d->at) == 0)
            d->whole = 1;
        else
            status = HTC_EINPUT;
        if (status == HTC_EINPUT)
            wipe(d);
        d->open = 0;
        break;
    case HTC_CALL_OBJECT_READ: {
        uint64_t  offset = htc_get_u64(&r);
        uint32_t  len = htc_get_u32(&r);
        htc_bytes prefix = htc_get_bytes(&r);
        if (!d->whole) {
            status = HTC_ENOTFOUND;
            break;
        }
        htc_put_raw(&b, prefix);
        htc_put_raw(&b, (htc_bytes){ w->content[h.c].hash, 32 });
        htc_put_u64(&b, offset);
        htc_put_u64(&b, d->at);
        htc_put_bytes(&b, (htc_bytes){ d->bytes + offset, len });
        break;
    }
    case HTC_CALL_OBJECT_ADOPT:
        if (!d->whole) {
            wipe(d);
            d->bytes = malloc(w->content[h.c].size + 1);
            memcpy(d->bytes, w->content[h.c].bytes, w->content[h.c].size);
            d->at = w->content[h.c].size;
            d->whole = 1;
        }
        break;
    case HTC_CALL_OBJECT_DROP: wipe(d); break;
    case HTC_CALL_OBJECT_LIST:
        for (int c = 0; c < CONTENTS; c++)
            if (w->disk[c].whole || w->disk[c].at) {
                htc_put_raw(&b, (htc_bytes){ w->content[c].hash, 32 });
                htc_put_u64(&b, w->disk[c].at);
                htc_put_u8(&b, (uint8_t)w->disk[c].whole);
            }
        break;
    }
    result(w, &h, status, status == HTC_OK ? htc_buf_bytes(&b) : (htc_bytes){ 0 });
    check_promises(w);
    htc_buf_free(&b);
    free(h.body);
}

/* The first call of some object, or the first that does not wait for a piece. 0: there is none. */
static inline int host_some(objects_world *w, uint32_t from)
{
    for (uint32_t k = 0; k < w->n_calls; k++) {
        uint32_t i = (from + k) % w->n_calls;
        int      first = 1;
        for (uint32_t b = 0; b < i && first; b++)
            first = w->calls[b].c != w->calls[i].c || is_early(w, &w->calls[b]);
        if (first && !is_early(w, &w->calls[i])) {
            carry_out(w, i);
            return 1;
        }
    }
    return 0;
}

/* ---- the others ---- */

static inline void answer_ask(objects_world *w, uint32_t i, const object_message *m)
{
    int            c = content_of(w, m->hash);
    htc_buf        b;
    object_message a = { .offset = m->offset, .status = HTC_ENOTFOUND };
    uint8_t       *wrong = NULL;
    cr_assert(c >= 0 && m->offset + m->len <= w->content[c].size, "a piece that there is not is asked for");
    memcpy(a.hash, m->hash, 32);
    htc_buf_init(&b, NULL, 0);
    if (w->other[i].has[c]) {
        a.size = w->content[c].size;
        a.bytes = (htc_bytes){ w->content[c].bytes + m->offset, m->len };
        if (w->other[i].lies[c]) {
            wrong = malloc(m->len);
            memcpy(wrong, a.bytes.data, m->len);
            wrong[m->len / 2] ^= 1;
            a.bytes.data = wrong;
        }
        htc__object_write(&b, HTC_WIRE_OBJECT_BYTES, &a);
    } else {
        htc__object_write(&b, HTC_WIRE_OBJECT_NONE, &a);
    }
    post(w, i, 1, htc_buf_bytes(&b));
    htc_buf_free(&b);
    free(wrong);
}

/* Deliver one message, or lose it, or deliver it and keep it. */
static inline void deliver(objects_world *w, uint32_t i)
{
    mail           m = w->mail[i];
    object_message said;
    uint16_t       type;
    uint64_t       id, how = w->lossy ? htc_rng_below(&w->rng, 12) : 5;
    if (how != 0)
        w->mail[i] = w->mail[--w->n_mail];
    if (m.worker != ASKER && how != 1 && w->other[m.worker].connected && !w->other[m.worker].dead) {
        if (m.to_us) {
            step(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = PEER + m.worker, .body = { m.bytes, m.len } }, NULL, NULL);
        } else {
            htc_reader r = htc_wire_open((htc_bytes){ m.bytes, m.len }, &type, &id);
            cr_assert(type == HTC_WIRE_OBJECT_ASK && htc__object_read(&r, type, &said) == HTC_OK);
            answer_ask(w, m.worker, &said);
        }
    }
    if (how != 0)
        free(m.bytes);
    check_promises(w);
}

/* A connection breaks; what was on its way there may come all the same after it is made again. */
static inline void hang_up(objects_world *w, uint32_t i)
{
    if (!w->other[i].connected)
        return;
    w->other[i].connected = 0;
    step(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = PEER + i, .status = HTC_ECLOSED }, NULL, NULL);
}

static inline void gone(objects_world *w, void *ctx)
{
    htc__objects_worker_gone(w->objects, 2 + *(uint32_t *)ctx);
}

static inline void die(objects_world *w, uint32_t i)
{
    w->other[i].dead = 1;
    hang_up(w, i);
    just(w, gone, &i);
}

/* ---- what tasks want ---- */

static inline void want_it(objects_world *w, void *ctx)
{
    uint32_t    id = *(uint32_t *)ctx;
    asked_want *a = &w->want[id];
    uint64_t    workers[OTHERS] = { 2, 3, 4, 5 };
    htc__object objects[4] = { 0 };
    for (int k = 0; k < a->n; k++) {
        memcpy(objects[k].hash, w->content[a->c[k]].hash, 32);
        objects[k].size = w->content[a->c[k]].size;
        objects[k].workers = workers;
        objects[k].n_workers = OTHERS;
    }
    a->used = 1;
    cr_assert(eq(int, htc__objects_want(w->objects, id, objects, (uint32_t)a->n), HTC_OK));
}

static inline uint32_t want_these(objects_world *w, int n, const int *c)
{
    uint32_t id = w->n_wants++;
    cr_assert(id < WANTS && n <= 4);
    w->want[id].n = n;
    memcpy(w->want[id].c, c, (size_t)n * sizeof *c);
    just(w, want_it, &id);
    return id;
}

static inline void release_it(objects_world *w, void *ctx)
{
    htc__objects_release(w->objects, *(uint32_t *)ctx, 0);
}

static inline void release(objects_world *w, uint32_t id)
{
    w->want[id].released = 1;
    just(w, release_it, &id);
}

static inline void make_it(objects_world *w, void *ctx)
{
    int c = *(int *)ctx;
    cr_assert(eq(int, htc__objects_made(w->objects, &(htc_attempt){ JOB, (uint64_t)c, 1 }, "out", w->content[c].hash, w->content[c].size), HTC_OK));
}

/* ---- from begin to end ---- */

static inline void world_start(objects_world *w)
{
    htc_runtime_options  r = { .size = sizeof r, .role = w, .name = "objects" };
    htc__objects_options o = { .role = w, .self = SELF, .peer_of = world_peer_of, .ready = world_ready, .made = world_made,
                               .cache_bytes = w->cache, .fetches = 3, .piece_ns = HTC_SECOND, .patience_ns = 1000000 * HTC_SECOND };
    cr_assert(eq(int, htc_output_create(&w->env, 0, &w->out), HTC_OK));
    cr_assert(eq(int, htc_runtime_create(&w->env, &r, &w->runtime), HTC_OK));
    o.runtime = w->runtime;
    cr_assert(eq(int, htc__objects_create(&w->env, &o, &w->objects), HTC_OK));
    step(w, (htc_input){ .kind = HTC_IN_START }, NULL, NULL);
}

/* The worker's process ends, and what it had in memory; the disk stays. */
static inline void world_stop(objects_world *w)
{
    htc__objects_destroy(w->objects);
    htc_runtime_destroy(w->runtime);
    htc_output_destroy(w->out);
    while (w->n_calls)
        call_take(w, 0);
    while (w->n_mail)
        free(w->mail[--w->n_mail].bytes);
    for (int c = 0; c < CONTENTS; c++)
        w->disk[c].open = 0;
    memset(w->want, 0, sizeof w->want);
    w->n_wants = 0;
}

static inline objects_world *world_open(uint64_t seed, uint64_t cache)
{
    static const uint64_t sizes[CONTENTS] = { 0, 1, 1000, OBJECT_PIECE_MAX - 1, OBJECT_PIECE_MAX, OBJECT_PIECE_MAX + 1, 300000, 2 * OBJECT_PIECE_MAX,
                                              3 * OBJECT_PIECE_MAX + 7, 5 * OBJECT_PIECE_MAX };
    objects_world *w = calloc(1, sizeof *w);
    cr_assert(w != NULL);
    w->rng = (htc_rng){ seed };
    w->env = (htc_env){ .size = sizeof w->env };
    w->now = HTC_SECOND;
    w->cache = cache;
    for (int c = 0; c < CONTENTS; c++) {
        w->content[c].size = sizes[c];
        w->content[c].bytes = malloc(sizes[c] + 1);
        htc_rng bytes = { (uint64_t)c + 1 };
        for (uint64_t i = 0; i < sizes[c]; i++)
            w->content[c].bytes[i] = (uint8_t)(i % 64 ? i * 7 + (uint64_t)c : htc_rng_next(&bytes));
        htc_content_hash((htc_bytes){ w->content[c].bytes, sizes[c] }, w->content[c].hash);
        for (int i = 0; i < OTHERS; i++)
            w->other[i].has[c] = 1;
    }
    for (int i = 0; i < OTHERS; i++)
        w->other[i].connected = 1;
    world_start(w);
    return w;
}

static inline void world_close(objects_world *w)
{
    world_stop(w);
    for (int c = 0; c < CONTENTS; c++) {
        free(w->content[c].bytes);
        wipe(&w->disk[c]);
    }
    free(w);
}

/* Everything that is under way, in turn, and time where nothing is. 0: nothing more happens. */
static inline int go_on(objects_world *w)
{
    if (w->n_mail) {
        deliver(w, w->lossy ? (uint32_t)htc_rng_below(&w->rng, w->n_mail) : 0);
        return 1;
    }
    if (w->n_calls && host_some(w, w->lossy ? (uint32_t)htc_rng_below(&w->rng, w->n_calls) : 0))
        return 1;
    htc_ns at = htc__objects_deadline(w->objects);
    if (at == HTC_NEVER)
        return 0;
    /* Who is waited for so long is there again before it is given up. */
    int far = at > w->now + 1000 * HTC_SECOND, came = 0;
    for (int i = 0; far && i < OTHERS; i++) {
        came |= !w->other[i].connected && !w->other[i].dead;
        w->other[i].connected |= !w->other[i].dead;
    }
    if (!came)
        w->now = at > w->now ? at : w->now + 1;
    just(w, NULL, NULL);
    return 1;
}

static inline void settle_down(objects_world *w)
{
    for (int i = 0; go_on(w); i++)
        cr_assert(i < 100000, "it never comes to rest");
}

#endif
