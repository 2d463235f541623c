/* usage: test_objects        (HTC_SEED=n: that seed alone, with its trace; HTC_BROKEN=rule: without that rule)
 *
 * Four workers over a simulated network, each with some objects, each in want of others. Messages are lost, doubled and overtake each other,
 * connections break, workers are killed and stopped; disks lose objects, or keep them with a bit that has turned. Whoever comes back goes on
 * from its disk. In the end each has what it wants, byte by byte, or it is true that nobody has it any more. Then each rule is left out in
 * turn, and some seed has to notice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "core/fault.h"
#include "htcsched/client.h"
#include "htcsched/sim.h"
#include "htcsched/sim_faults.h"
#include "objects_peer.h"

enum { WORKERS = 4, OBJECTS = 8, EARLY = 32, SEEDS = 1000, SEEDS_LIGHT = 100, RULE_SEEDS = 3000 };

typedef struct world world;

typedef struct early {
    htc_effect call;
    uint8_t   *bytes;
    uint64_t   offset;
    size_t     len;
} early;

/* What a worker's disk has of an object. */
typedef struct place {
    int      whole, open;
    uint8_t *bytes;
    uint64_t at;
    early    early[EARLY]; /* pieces that wait for those before them */
    uint32_t n_early;
} place;

typedef struct site {
    world        *of;
    uint32_t      self;
    htc_sim_node *node;
    place         place[OBJECTS];
    htc__object   wants[OBJECTS];
    int           wanted[OBJECTS];
    uint32_t      n_wants;
} site;

struct world {
    htc_sim *sim;
    htc_rng  rng;
    uint64_t seed;
    struct {
        uint64_t size;
        uint8_t  hash[32];
        uint8_t *bytes;
        uint64_t makers[WORKERS]; /* workers that had it at the begin */
        uint32_t n_makers;
    } object[OBJECTS];
    site     site[WORKERS];
    htc_ns   trouble_until;
    uint64_t full; /* bytes that a disk has room for; 0: as many as there are */
    uint64_t crashes, wrong, lost, refused;
};

static void fail(world *w, const char *what, uint32_t worker, int object)
{
    char text[200];
    snprintf(text, sizeof text, "%s: worker %u, object %d", what, worker + 1, object);
    htc_sim_fail(w->sim, text);
}

static int object_of(const world *w, const uint8_t *hash)
{
    for (int i = 0; i < OBJECTS; i++)
        if (memcmp(w->object[i].hash, hash, 32) == 0)
            return i;
    return -1;
}

static int is_right(const world *w, const site *s, int i)
{
    const place *p = &s->place[i];
    return p->whole && p->at == w->object[i].size && memcmp(p->bytes, w->object[i].bytes, p->at) == 0;
}

/* ---- a worker's host: what is asked is done at once, in order; answers come in any ---- */

static void say(site *s, const htc_effect *call, htc_status status, htc_bytes body)
{
    (void)htc_sim_result(s->node, 20 * HTC_US + htc_rng_below(&s->of->rng, 2 * HTC_MS), call, status, body);
}

static void early_end(site *s, place *p)
{
    for (uint32_t i = 0; i < p->n_early; i++) {
        say(s, &p->early[i].call, HTC_ECANCELLED, htc_bytes_of(NULL));
        free(p->early[i].bytes);
    }
    p->n_early = 0;
}

static void wipe(place *p)
{
    for (uint32_t i = 0; i < p->n_early; i++)
        free(p->early[i].bytes);
    free(p->bytes);
    *p = (place){ 0 };
}

static uint64_t used(const site *s)
{
    uint64_t n = 0;
    for (int i = 0; i < OBJECTS; i++)
        n += s->place[i].at;
    return n;
}

static htc_status put_at(site *s, place *p, uint64_t offset, const uint8_t *bytes, size_t len)
{
    if (offset < p->at)
        return HTC_OK;
    if (s->of->full && used(s) + len > s->of->full) {
        s->of->refused++;
        return HTC_ENOSPC;
    }
    memcpy(p->bytes + offset, bytes, len);
    p->at += len;
    return HTC_OK;
}

static void write_piece(site *s, int i, const htc_effect *call, htc_reader *r)
{
    place    *p = &s->place[i];
    uint64_t  offset = htc_get_u64(r), size = htc_get_u64(r);
    htc_bytes bytes = htc_get_bytes(r);
    if (htc_reader_done(r) != HTC_OK || size != s->of->object[i].size || bytes.len > size - offset) {
        fail(s->of, "a piece that cannot be", s->self, i);
    } else if (!p->open) {
        say(s, call, HTC_ENOTFOUND, htc_bytes_of(NULL));
    } else if (offset > p->at) {
        if (p->n_early == EARLY) {
            fail(s->of, "more pieces ahead than a window has", s->self, i);
            return;
        }
        early *e = &p->early[p->n_early++];
        *e = (early){ { .op = call->op, .tag = call->tag, .kind = call->kind }, malloc(bytes.len), offset, bytes.len };
        memcpy(e->bytes, bytes.data, bytes.len);
    } else {
        say(s, call, put_at(s, p, offset, bytes.data, bytes.len), htc_bytes_of(NULL));
        for (uint32_t k = 0; k < p->n_early;) {
            early e = p->early[k];
            if (e.offset > p->at) {
                k++;
                continue;
            }
            p->early[k] = p->early[--p->n_early];
            say(s, &e.call, put_at(s, p, e.offset, e.bytes, e.len), htc_bytes_of(NULL));
            free(e.bytes);
            k = 0;
        }
    }
}

static void finish(site *s, int i, const htc_effect *call)
{
    place     *p = &s->place[i];
    uint8_t    hash[32];
    htc_status status = p->open ? HTC_EINPUT : HTC_ENOTFOUND;
    early_end(s, p);
    if (p->open && p->at == s->of->object[i].size) {
        htc_content_hash((htc_bytes){ p->bytes, p->at }, hash);
        status = memcmp(hash, s->of->object[i].hash, 32) == 0 ? HTC_OK : HTC_EINPUT;
    }
    if (status == HTC_EINPUT) {
        s->of->wrong++;
        wipe(p);
    }
    p->whole = status == HTC_OK;
    p->open = 0;
    say(s, call, status, htc_bytes_of(NULL));
}

static void room(site *s, int i, const htc_effect *call)
{
    uint8_t  have[8];
    place   *p = &s->place[i];
    uint64_t size = s->of->object[i].size;
    early_end(s, p);
    if (p->whole) {
        say(s, call, HTC_EEXISTS, htc_bytes_of(NULL));
        return;
    }
    if (!p->bytes && !(p->bytes = calloc(1, size + 1)))
        abort();
    p->open = 1;
    htc__le64_put(have, p->at);
    say(s, call, HTC_OK, (htc_bytes){ have, sizeof have });
}

static void read_piece(site *s, int i, const htc_effect *call, htc_reader *r)
{
    place    *p = &s->place[i];
    uint64_t  offset = htc_get_u64(r);
    uint32_t  len = htc_get_u32(r);
    htc_bytes prefix = htc_get_bytes(r);
    htc_buf   b;
    if (!p->whole) {
        say(s, call, HTC_ENOTFOUND, htc_bytes_of(NULL));
        return;
    }
    htc_buf_init(&b, NULL, 0);
    htc_put_raw(&b, prefix);
    htc_put_raw(&b, (htc_bytes){ s->of->object[i].hash, 32 });
    htc_put_u64(&b, offset);
    htc_put_u64(&b, p->at);
    htc_put_bytes(&b, (htc_bytes){ p->bytes + offset, len });
    say(s, call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void list(site *s, const htc_effect *call)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; i < OBJECTS; i++)
        if (s->place[i].whole || s->place[i].at) {
            htc_put_raw(&b, (htc_bytes){ s->of->object[i].hash, 32 });
            htc_put_u64(&b, s->place[i].at);
            htc_put_u8(&b, (uint8_t)s->place[i].whole);
        }
    say(s, call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static htc_status on_call(void *ctx, htc_sim_node *node, const htc_effect *call)
{
    site      *s = ctx;
    htc_reader r = htc_reader_of(call->body);
    int        i = call->op == HTC_CALL_OBJECT_LIST ? -1 : object_of(s->of, htc_get_raw(&r, 32).data);
    (void)node;
    switch (call->op) {
    case HTC_CALL_OBJECT_LIST: list(s, call); break;
    case HTC_CALL_OBJECT_ROOM: room(s, i, call); break;
    case HTC_CALL_OBJECT_WRITE: write_piece(s, i, call, &r); break;
    case HTC_CALL_OBJECT_FINISH: finish(s, i, call); break;
    case HTC_CALL_OBJECT_READ: read_piece(s, i, call, &r); break;
    case HTC_CALL_OBJECT_DROP:
        wipe(&s->place[i]);
        say(s, call, HTC_OK, htc_bytes_of(NULL));
        break;
    default: fail(s->of, "a call that nobody knows", s->self, i);
    }
    return HTC_OK;
}

/* ---- a worker ---- */

/* Beside what the machine itself does: what is said to be here is, what is said to be lost is. */
static void decided(void *role, uint64_t want, htc_status status, uint32_t which)
{
    objects_peer *p = role;
    site         *s = p->ctx;
    world        *w = s->of;
    int i = s->wanted[want - 1];
    if (status == HTC_OK && !is_right(w, s, i))
        fail(w, "an object is said to be here", s->self, i);
    for (uint32_t k = 0; status == HTC_ELOST && k < w->object[i].n_makers; k++)
        if (is_right(w, &w->site[w->object[i].makers[k] - 1], i))
            fail(w, "an object is said to be lost, and another worker has it", s->self, i);
    if (status == HTC_ENOSPC && !w->refused)
        fail(w, "a disk is said to be full", s->self, i);
    w->lost += status == HTC_ELOST;
    objects_peer_ready(role, want, status, which);
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    site *s = ctx;
    for (int i = 0; i < OBJECTS; i++) {
        place *p = &s->place[i];
        for (uint32_t k = 0; k < p->n_early; k++)
            free(p->early[k].bytes);
        p->n_early = 0;
        p->open = 0;
    }
    objects_peer *p = objects_peer_create(htc_sim_env(node), s->self + 1, (htc__objects_options){ .piece_ns = 2 * HTC_SECOND, .ready = decided });
    if (!p)
        return HTC_ENOMEM;
    p->ctx = s;
    p->want = s->wants;
    p->n_wants = s->n_wants;
    htc_status status = htc_sim_install(node, &objects_peer_ops, p);
    for (uint32_t k = 0; k < WORKERS && status == HTC_OK; k++)
        if (k != s->self) {
            p->to[p->n_to].worker = k + 1;
            p->to[p->n_to++].peer = 10 + k;
            status = htc_sim_dial(node, 10 + k, s->of->site[k].node, NULL);
        }
    return status;
}

/* ---- trouble ---- */

static void boot_again(htc_sim *sim, void *ctx)
{
    (void)sim;
    htc_sim_boot(*(htc_sim_node **)ctx);
}

/* While it is down its disk may lose something, or turn a bit. */
static void crash(world *w, site *s)
{
    int    i = (int)htc_rng_below(&w->rng, OBJECTS);
    place *p = &s->place[i];
    if (!htc_sim_up(s->node))
        return;
    htc_sim_crash(s->node);
    w->crashes++;
    switch (htc_rng_below(&w->rng, 6)) {
    case 0: wipe(p); break;
    case 1:
        if (p->at && !p->whole)
            p->bytes[htc_rng_below(&w->rng, p->at)] ^= 4;
        break;
    default: break;
    }
    htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, 3 * HTC_SECOND), boot_again, &s->node, sizeof s->node);
}

static void trouble(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    site  *s = &w->site[htc_rng_below(&w->rng, WORKERS)], *other = &w->site[htc_rng_below(&w->rng, WORKERS)];
    if (htc_sim_now(sim) >= w->trouble_until)
        return;
    switch (htc_rng_below(&w->rng, 4)) {
    case 0: crash(w, s); break;
    case 1:
        if (htc_sim_up(s->node) && !htc_sim_paused(s->node))
            htc_sim_pause(s->node, htc_rng_below(&w->rng, 6 * HTC_SECOND));
        break;
    case 2: htc_sim_clog(s->node, other->node, htc_rng_below(&w->rng, HTC_SECOND)); break;
    default: htc_sim_break(s->node, other->node); break;
    }
    htc_sim_at(sim, htc_sim_now(sim) + htc_rng_below(&w->rng, 100 * HTC_MS), trouble, &w, sizeof w);
}

/* ---- a run ---- */

static int  quiet;
static char why[300]; /* of the last run that failed */

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static void draw(world *w)
{
    for (int i = 0; i < OBJECTS; i++) {
        w->object[i].size = htc_rng_below(&w->rng, 2) ? htc_rng_below(&w->rng, 3000) : htc_rng_below(&w->rng, 1500000);
        w->object[i].bytes = malloc(w->object[i].size + 1);
        for (uint64_t b = 0; b < w->object[i].size; b++)
            w->object[i].bytes[b] = (uint8_t)(b * 7 + b / 4096 + (uint64_t)i);
        if (w->object[i].size >= 8)
            htc__le64_put(w->object[i].bytes, (uint64_t)i);
        htc_content_hash((htc_bytes){ w->object[i].bytes, w->object[i].size }, w->object[i].hash);
    }
    for (uint32_t k = 0; k < WORKERS; k++) {
        site *s = &w->site[k];
        for (int i = 0; i < OBJECTS; i++) {
            int makes = (uint32_t)i % WORKERS == k || htc_rng_below(&w->rng, 4) == 0;
            if (makes) {
                w->object[i].makers[w->object[i].n_makers++] = k + 1;
                s->place[i] = (place){ .whole = 1, .at = w->object[i].size, .bytes = malloc(w->object[i].size + 1) };
                memcpy(s->place[i].bytes, w->object[i].bytes, w->object[i].size);
                if (htc_rng_below(&w->rng, 12) == 0 && w->object[i].size)
                    s->place[i].bytes[htc_rng_below(&w->rng, w->object[i].size)] ^= 1; /* it has another one */
            } else if (htc_rng_below(&w->rng, 4)) {
                s->wanted[s->n_wants] = i;
                s->wants[s->n_wants] = (htc__object){ .size = w->object[i].size };
                memcpy(s->wants[s->n_wants++].hash, w->object[i].hash, 32);
            }
        }
    }
    for (uint32_t k = 0; k < WORKERS; k++)
        for (uint32_t n = 0; n < w->site[k].n_wants; n++) {
            int i = w->site[k].wanted[n];
            w->site[k].wants[n].workers = w->object[i].makers;
            w->site[k].wants[n].n_workers = w->object[i].n_makers;
        }
}

static int all_decided(const world *w)
{
    for (uint32_t k = 0; k < WORKERS; k++) {
        const objects_peer *p = htc_sim_up(w->site[k].node) ? htc_sim_machine(w->site[k].node) : NULL;
        if (!p || p->decided < p->n_wants)
            return 0;
    }
    return 1;
}

typedef struct sums {
    uint64_t events, crashes, wrong, lost, refused;
} sums;

/* seed % 4: 0 no faults, 1 messages, 2 everything, 3 everything and small disks. */
static int run_seed(uint64_t seed, int traced, sums *total)
{
    static const htc_sim_host hosts = { .size = sizeof hosts, .boot = boot, .call = on_call };
    world          *w = calloc(1, sizeof *w);
    uint64_t        kind = seed % 4;
    htc_sim_net     net = { .size = sizeof net, .jitter_ns = 200 * HTC_US };
    htc_sim_options o = { .size = sizeof o, .seed = seed, .net = &net, .trace = traced ? print_line : NULL };
    if (kind >= 1) {
        net.loss_ppm = 20000;
        net.duplicate_ppm = 20000;
        net.reorder_ppm = 20000;
        net.break_ppm = 500;
    }
    if (!w || htc_sim_create(NULL, &o, &w->sim) != HTC_OK)
        abort();
    w->rng = htc_sim_rng(w->sim, "world");
    w->seed = seed;
    draw(w);
    w->full = kind == 3 ? 3500000 : 0;
    for (uint32_t k = 0; k < WORKERS; k++) {
        char  name[16];
        site *s = &w->site[k];
        snprintf(name, sizeof name, "worker%u", k + 1);
        s->of = w;
        s->self = k;
        htc_sim_node_options n = { .size = sizeof n, .name = name, .host = &hosts, .ctx = s };
        if (htc_sim_add(w->sim, &n, &s->node) != HTC_OK)
            abort();
    }
    for (uint32_t k = 0; k < WORKERS; k++)
        htc_sim_boot(w->site[k].node);
    w->trouble_until = htc_sim_now(w->sim) + (kind >= 2 ? 10 * HTC_SECOND : 0);
    htc_sim_at(w->sim, htc_sim_now(w->sim) + HTC_MS, trouble, &w, sizeof w);
    htc_ns end = htc_sim_now(w->sim) + 400 * HTC_SECOND;
    while (htc_sim_now(w->sim) < end && (htc_sim_now(w->sim) < w->trouble_until || !all_decided(w)) && htc_sim_next(w->sim) == HTC_OK)
        if (htc_sim_now(w->sim) > w->trouble_until + 30 * HTC_SECOND)
            htc_sim_net_faults(w->sim, 0);
    if (!htc_sim_failure(w->sim) && !all_decided(w))
        fail(w, "something is neither here nor lost", 0, -1);
    const char *failure = htc_sim_failure(w->sim);
    snprintf(why, sizeof why, "%s", failure ? failure : "");
    if (failure && !quiet)
        printf("seed %llu at %.6f s: %s   (HTC_SEED=%llu shows the trace)\n", (unsigned long long)seed, (double)htc_sim_now(w->sim) / 1e9, failure,
               (unsigned long long)seed);
    int bad = failure != NULL;
    total->events += htc_sim_events(w->sim);
    total->crashes += w->crashes;
    total->wrong += w->wrong;
    total->lost += w->lost;
    total->refused += w->refused;
    htc_sim_destroy(w->sim);
    for (uint32_t k = 0; k < WORKERS; k++)
        for (int i = 0; i < OBJECTS; i++)
            wipe(&w->site[k].place[i]);
    for (int i = 0; i < OBJECTS; i++)
        free(w->object[i].bytes);
    free(w);
    return bad;
}

static const char *const rules[] = {
    "object_sources_mixed",   /* one who sends something else hides an object that others have */
    "object_part_blamed",     /* the only one who has it is not asked again for what was rotten here */
    "object_unlisted_denied", /* who comes back is taken for one that has nothing */
    "object_from_anybody",    /* who is blamed is not who sent it */
};

static int is_noticed(const char *rule)
{
    sums     total = { 0 };
    uint64_t seed = 1;
    quiet = 1;
    htc__broken_set(htc__broken_find(rule), 1);
    while (seed <= RULE_SEEDS && !run_seed(seed, 0, &total))
        seed++;
    htc__broken_set(htc__broken_find(rule), 0);
    quiet = 0;
    if (seed > RULE_SEEDS) {
        printf("%s: nobody notices it in %d seeds\n", rule, RULE_SEEDS);
        return 0;
    }
    printf("%s: seed %llu: %s\n", rule, (unsigned long long)seed, why);
    return run_seed(seed, 0, &total) == 0;
}

int main(void)
{
    const char *one = getenv("HTC_SEED"), *rule = getenv("HTC_BROKEN");
    uint64_t    seeds = getenv("HTC_TEST_LIGHT") ? SEEDS_LIGHT : SEEDS, failed = 0;
    sums        total = { 0 };
    if (rule && one)
        htc__broken_set(htc__broken_find(rule), 1);
    if (rule && !one)
        return !is_noticed(rule);
    if (one)
        return run_seed(strtoull(one, NULL, 10), 1, &total);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        failed += run_seed(seed, 0, &total) != 0;
    printf("%llu seeds: %llu events, %llu crashes, %llu objects that came wrong, %llu that nobody had any more, %llu pieces that a disk had no room for; "
           "%llu failed\n",
           (unsigned long long)seeds, (unsigned long long)total.events, (unsigned long long)total.crashes, (unsigned long long)total.wrong,
           (unsigned long long)total.lost, (unsigned long long)total.refused, (unsigned long long)failed);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
