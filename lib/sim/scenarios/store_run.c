/* One seed: what it draws, then trouble, then healing, then the last reads. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

#define TROUBLE_MAX (6 * HTC_SECOND)  /* of virtual time */
#define WELL_MAX    (60 * HTC_SECOND) /* by then everybody has gone on */
#define MOVE_MAX    (HTC_SECOND)      /* more of trouble for each change of the members */
#define MOVES_MAX   (300 * HTC_SECOND) /* by then the one that was under way has ended: who takes over waits for longer and longer */
#define WATCH_MAX   (2 * HTC_SECOND)  /* and all watchers have been told, as a rule */
#define READS_MAX   5                 /* times that all is read again for them */

void htc__store_fail(store *s, const char *format, ...)
{
    va_list list;
    if (s->report->failed)
        return;
    s->report->failed = 1;
    va_start(list, format);
    vsnprintf(s->report->text, sizeof s->report->text, format, list);
    va_end(list);
    htc_sim_fail(s->sim, s->report->text);
}

/* ---- what the seed draws ---- */

/* Lives of a few operations: what one of them has begun the next one finds, under numbers that are still low. */
static void storm(store *s, htc_rng *rng)
{
    store_setting *g = &s->setting;
    uint64_t       is = htc_rng_next(rng) % 2 == 0, ppm = between(rng, 2000, 20000), span = between(rng, 1, 4);
    uint64_t       turnover = between(rng, 2, 6), ops = between(rng, 150, 400), one = between(rng, 0, g->members - 1);
    uint64_t       loss = between(rng, 50000, 400000), all = htc_rng_next(rng) % 2 == 0;
    uint64_t       again = between(rng, 4, 20), patience = between(rng, 10, 60), suspect = between(rng, 10, 60);
    if (!is)
        return;
    g->storm = 1;
    g->again = again * HTC_MS;
    g->patience = patience * HTC_MS;
    g->suspect = suspect * HTC_MS;
    g->retry = 2 * HTC_MS;
    g->crash_ppm = (uint32_t)ppm;
    g->points_ppm = 350000;
    g->give_up = 20 * g->again;
    g->request = 10 * g->again;
    g->crash_span = span * HTC_MS;
    g->crash_one = all ? STORE_NONE : (uint32_t)one;
    g->loss_ppm = (uint32_t)loss;
    g->turnover = (uint32_t)turnover;
    g->keys = 1;
    g->old_keys = 0;
    g->operations = s->options.operations ? g->operations : (uint32_t)ops;
    g->clients = g->clients < 4 ? g->clients + 2 : g->clients;
    g->think = 0;
}

/* What clients ask beside single keys with short values: from a stream of its own, so that the rest is what it was. */
static void draw_more(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting/more");
    if (g->storm && htc_rng_next(&rng) % 4) { /* most storms are of few things that come again and again */
        g->batch = 1;
        return;
    }
    g->batch = 1 + (uint32_t)maybe(&rng, 3, 1, STORE_BATCH - 1);
    g->value = (uint32_t)maybe(&rng, 4, 50, STORE_VALUE - 16);
    g->pages_ppm = (uint32_t)maybe(&rng, 4, 20000, 200000);
    g->leases_ppm = (uint32_t)maybe(&rng, 3, 100000, 800000);
    g->ttl = between(&rng, 40, 1000) * HTC_MS;
    /* Leases that live long and are renewed all the time, by messages that some owners miss. */
    uint64_t lossy = maybe(&rng, 2, 80000, 350000), short_ttl = between(&rng, 20, 200), more = between(&rng, 200, 500);
    if (g->leases_ppm && lossy) {
        g->leases_ppm = 900000;
        g->ttl = short_ttl * HTC_MS;
        g->loss_ppm = (uint32_t)lossy;
        g->crash_ppm = 0;
        g->think = 0;
        g->operations = s->options.operations ? g->operations : (uint32_t)more;
    }
    g->interval = maybe(&rng, 3, 1, 40) * HTC_MS;
    g->mate = (uint32_t)maybe(&rng, 4, 1, g->members - 1);
    g->refused_ppm = (uint32_t)maybe(&rng, 5, 5, 500);
    if (g->cells != HTC_SIM_STORE_LOG)
        g->interval = 0;
    if (g->interval) { /* what is not synced yet cannot be told from what has rotted, and nobody but one may lose it */
        g->rot_ppm = 0;
        g->mate = 0;
        g->blackout_gap = 0;
    }
    uint64_t many = maybe(&rng, 5, 4, 12);
    if (many && g->keys > 1)
        g->keys = (uint32_t)many;
}

/* Some seeds have clients of Redis' protocol; the first client never is one: it reads what is there at the end. */
static void draw_redis(store *s)
{
    htc_rng rng = htc_sim_rng(s->sim, "setting/redis");
    s->setting.redis = (uint32_t)maybe(&rng, 4, 1, s->setting.clients - 1);
}

/* Most have clients that ask the owners of keys themselves, and some of those do not reach all of them. */
static void draw_direct(store *s)
{
    htc_rng rng = htc_sim_rng(s->sim, "setting/direct");
    s->setting.direct = maybe(&rng, 4, 1, 1) == 0;
    s->setting.hidden = (uint32_t)maybe(&rng, 5, 1, (UINT64_C(1) << s->setting.members) - 1);
}

/* Some seeds have clients that watch. */
static void draw_watches(store *s)
{
    htc_rng rng = htc_sim_rng(s->sim, "setting/watches");
    s->setting.watches_ppm = (uint32_t)maybe(&rng, 3, 20000, 200000);
}

static void draw(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting");
    uint64_t       five = maybe(&rng, 4, 1, 1);
    g->members = five ? 5 : 3;
    g->owners = five && maybe(&rng, 2, 1, 1) ? 5 : 3;
    if (s->options.members) {
        g->members = s->options.members;
        g->owners = g->owners < g->members ? g->owners : 3;
    }
    g->clients = (uint32_t)between(&rng, 2, STORE_CLIENTS);
    g->keys = (uint32_t)between(&rng, 1, 3);
    g->turnover = (uint32_t)between(&rng, 4, 60);
    g->old_keys = 1;
    g->operations = (uint32_t)between(&rng, 40, 160);
    if (s->options.operations)
        g->operations = s->options.operations;
    g->cells = maybe(&rng, 2, 1, 1) ? HTC_SIM_STORE_LOG : HTC_SIM_STORE_MEMORY;
    if (s->options.cells)
        g->cells = s->options.cells;
    g->rot_ppm = (uint32_t)maybe(&rng, 3, 500, 50000);
    g->segment = UINT64_C(8192) << between(&rng, 0, 3);
    g->tombstones = (uint32_t)maybe(&rng, 3, 1, 6);
    g->damaged = (uint32_t)between(&rng, 0, g->members - 1);
    g->wipe_ppm = (uint32_t)maybe(&rng, 2, 100000, 700000);
    g->retry = between(&rng, 2, 20) * HTC_MS;
    g->suspect = between(&rng, 20, 300) * HTC_MS;
    g->request = between(&rng, 200, 2000) * HTC_MS;
    g->again = between(&rng, 10, 100) * HTC_MS;
    g->give_up = between(&rng, 300, 4000) * HTC_MS;
    g->patience = between(&rng, 30, 500) * HTC_MS;
    g->think = maybe(&rng, 2, 1, 20) * HTC_MS;
    g->commit = between(&rng, 20, 400) * HTC_US + maybe(&rng, 3, 1, 10) * HTC_MS;
    g->blackout_gap = maybe(&rng, 3, 20, 600) * HTC_MS;
    g->blackout_span = between(&rng, 1, 50) * HTC_MS;
    g->crash_ppm = (uint32_t)maybe(&rng, 3, 1, 4) * (uint32_t)between(&rng, 300, 8000);
    g->crash_span = between(&rng, 1, 40) * HTC_MS;
    g->crash_one = maybe(&rng, 2, 1, 1) ? (uint32_t)between(&rng, 0, g->members - 1) : STORE_NONE;
    g->points_ppm = (uint32_t)maybe(&rng, 2, 100000, 600000);
    storm(s, &rng);
    draw_more(s);
    draw_redis(s);
    draw_watches(s);
    draw_direct(s);
    htc__store_proxies_draw(s);
    htc__store_rot_draw(s);
    htc__store_versions_draw(s);
    htc__store_eventual_draw(s);
    g->uncompared = htc_rng_below(&rng, 2) != 0; /* else what one misses it may hear by catching up, and fewer rules show what they are for */
    g->nodes = g->members;
    htc__store_moves_draw(s);
    g->unversioned = g->tombstones || g->redis;
    if (g->unversioned) { /* short histories of each key: they are searched */
        g->turnover = g->turnover < 16 ? g->turnover : 16;
        g->old_keys = 0;
    }
}

/* The store is quicker than what these gaps were made for: more has to go wrong in a second. */
static void hasten(htc_sim_faults *f, htc_rng *rng)
{
    uint64_t by = UINT64_C(4) << htc_rng_below(rng, 5);
    htc_ns  *gaps[] = { &f->clog_gap_ns,  &f->partition_gap_ns, &f->break_gap_ns, &f->crash_gap_ns,
                        &f->pause_gap_ns, &f->jump_gap_ns,      &f->full_gap_ns };
    htc_ns  *spans[] = { &f->clog_span_ns, &f->partition_span_ns, &f->crash_span_ns, &f->pause_span_ns,
                         &f->full_span_ns };
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        *gaps[i] /= by;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        *spans[i] /= 8;
    f->net.latency_ns /= 4;
    f->net.jitter_ns /= 4;
}

static htc_status trouble(store *s)
{
    htc_sim_target targets[STORE_MEMBERS + STORE_CLIENTS + 1 + STORE_PROXIES];
    htc_sim_faults faults;
    size_t         n = 0;
    htc_rng        rng = htc_sim_rng(s->sim, "faults");
    htc_sim_faults_draw(&rng, &faults);
    hasten(&faults, &rng);
    if (faults.net.loss_ppm < s->setting.loss_ppm)
        faults.net.loss_ppm = s->setting.loss_ppm;
    /* Of these nobody could tell the last batch from one that was cut off: store_log.c damages what can be noticed. */
    faults.disk.flip_ppm = faults.disk.lose_ppm = faults.disk.misdirect_ppm = 0;
    if (s->setting.interval)
        faults.power_ppm = faults.disk.sync_eio_ppm = 0;
    htc__store_eventual_faults(s, &faults);
    s->under_way = faults.net.latency_ns + faults.net.jitter_ns + faults.net.delay_ns + faults.net.reorder_ns;
    int clients_die = htc_rng_below(&rng, 4) == 0;
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        targets[n++] = (htc_sim_target){ .node = s->members[i].node,
                                         .disk = s->members[i].disk,
                                         .damage = i == s->setting.damaged && !s->setting.spared,
                                         .safe = (uint32_t)s->setting.lasting };
    for (uint32_t i = 0; i < htc__store_clients_count(s); i++)
        targets[n++] = (htc_sim_target){ .node = s->clients[i].node, .safe = !clients_die || s->clients[i].keeper };
    for (uint32_t i = 0; i < s->setting.proxies; i++)
        targets[n++] = (htc_sim_target){ .node = s->proxies[i].node };
    htc__store_blackouts(s);
    htc__store_versions_turn(s);
    return htc_sim_trouble_start(s->sim, &faults, targets, n, &s->trouble);
}

/* ---- the phases ---- */

static void kick(store *s, store_phase phase)
{
    s->phase = phase;
    for (uint32_t i = 0; i < s->setting.clients; i++)
        htc_sim_event(s->clients[i].node, 0, 0, HTC_OK, (htc_bytes){ NULL, 0 });
}

static int enough(const store *s)
{
    return s->asked >= s->setting.operations && htc__store_clients_idle((void *)s) && htc__store_moves_over(s);
}

static void heal(store *s)
{
    s->sim->points_on = 0;
    s->healed = htc_sim_now(s->sim);
    htc_sim_trouble_heal(s->trouble); /* a member whose disk is lost does not start: it need not */
    for (uint32_t i = 0; i < s->setting.nodes; i++)
        for (uint32_t j = 0; j < htc__store_clients_count(s); j++) {
            htc_sim_clog(s->members[i].node, s->clients[j].node, 0);
            htc_sim_clog(s->clients[j].node, s->members[i].node, 0);
        }
    htc__store_proxies_heal(s);
}

/* Each lease that was granted by now, and what is bound to it. */
static void leases_end(store *s)
{
    if (s->leases_n)
        htc_sim_run(s->sim, 2 * s->setting.ttl + STORE_TAKEOVER);
}

/* A change whose outcome nobody knows, of a lease too, may be made final by whoever reads next, a count or a watcher as well: then all is read
 * once more. */
static int read_again(store *s)
{
    s->clients[0].reading = s->found = 0;
    kick(s, STORE_READ);
    return htc_sim_settle(s->sim, WELL_MAX, "not every key can be read again", htc__store_clients_read, s) == HTC_OK;
}

static void counts_agree(store *s)
{
    for (int round = 0; s->miscounted && round < READS_MAX; round++) {
        leases_end(s);
        if (!read_again(s))
            return;
    }
    if (s->miscounted)
        htc__store_fail(s, "a count of keys says another number than reading them, again and again");
}

static void watchers_know(store *s)
{
    for (int round = 0; round < READS_MAX && s->setting.watches_ppm; round++) {
        htc_sim_run(s->sim, WATCH_MAX);
        if (htc_sim_status(s->sim) != HTC_OK || htc__store_views_know(s))
            return;
        if (!read_again(s))
            return;
    }
    htc_sim_settle(s->sim, WELL_MAX, "not every watcher is told the last state", htc__store_views_know, s);
}

static int all_read(void *ctx)
{
    return htc__store_eventual_read(ctx);
}

/* What owners lack of eventual keys comes to them by itself, or by reads. Where one of R owners is lost a read is given up, having told the
 * others what they lack: one after the other they may take as long as that. A read waits a moment only for those that it need not hear, and so it is
 * for a network in which nothing is late any more. */
static void copies_agree(store *s)
{
    htc_ns span = WELL_MAX + STORE_COPIES * (s->setting.give_up + s->setting.think), quick = s->healed + s->under_way;
    if (htc__store_eventual_reads(s) && htc_sim_now(s->sim) < quick)
        htc_sim_run(s->sim, quick - htc_sim_now(s->sim));
    for (int round = 0; round < READS_MAX && htc__store_eventual_reads(s); round++) {
        s->clients[0].reading = 0;
        kick(s, STORE_AGREE);
        if (htc_sim_settle(s->sim, span, "not every eventual key is answered", all_read, s) != HTC_OK)
            return;
        htc_sim_run(s->sim, 2 * s->setting.request);
        if (htc__store_eventual_agrees(s))
            break;
    }
    htc_sim_settle(s->sim, WELL_MAX, "copies of an eventual key do not agree", htc__store_eventual_agrees, s);
}

static void phases(store *s)
{
    htc_ns until = htc_sim_now(s->sim) + TROUBLE_MAX + s->setting.moves * MOVE_MAX;
    while (htc_sim_status(s->sim) == HTC_OK && htc_sim_now(s->sim) < until && !enough(s))
        htc_sim_run(s->sim, 20 * HTC_MS);
    if (htc_sim_status(s->sim) != HTC_OK)
        return;
    heal(s);
    kick(s, STORE_WELL);
    if (htc_sim_settle(s->sim, WELL_MAX, "not every client goes on after healing", htc__store_clients_done, s) !=
        HTC_OK)
        return;
    kick(s, STORE_LAST);
    if (htc_sim_settle(s->sim, WELL_MAX, "not every request is answered", htc__store_clients_idle, s) != HTC_OK)
        return;
    if (s->setting.moves)
        htc__store_moves_settle(s, MOVES_MAX);
    if (htc_sim_status(s->sim) != HTC_OK)
        return;
    /* By then each lease has ended; and what no client waits for any more, but a member still does, is done or not. */
    leases_end(s);
    if (!s->leases_n && s->setting.pages_ppm)
        htc_sim_run(s->sim, 4 * s->setting.request);
    kick(s, STORE_READ);
    if (htc_sim_settle(s->sim, WELL_MAX, "not every key can be read", htc__store_clients_read, s) != HTC_OK)
        return;
    counts_agree(s);
    if (htc_sim_status(s->sim) != HTC_OK)
        return;
    watchers_know(s);
    if (s->setting.eventual_ppm && htc_sim_status(s->sim) == HTC_OK)
        copies_agree(s);
}

/* ---- the report ---- */

static void count_faults(store *s)
{
    uint64_t              counts[9] = { 0 };
    const uint64_t       *met = s->sim->met;
    static const uint32_t kinds[9] = { HTC_SIM_STORE_CLOGS,   HTC_SIM_STORE_PARTITIONS, HTC_SIM_STORE_BROKEN,
                                       HTC_SIM_STORE_CRASHES, HTC_SIM_STORE_POWER,      HTC_SIM_STORE_WIPES,
                                       HTC_SIM_STORE_PAUSES,  HTC_SIM_STORE_JUMPS,      HTC_SIM_STORE_FULL };
    if (s->trouble)
        htc_sim_trouble_counts(s->trouble, counts);
    for (int i = 0; i < 9; i++)
        s->faults[kinds[i]] += counts[i];
    s->faults[HTC_SIM_STORE_LOST] += met[SIM_MET_LOST];
    s->faults[HTC_SIM_STORE_DOUBLED] += met[SIM_MET_DOUBLED];
    s->faults[HTC_SIM_STORE_REORDERED] += met[SIM_MET_REORDERED];
    s->faults[HTC_SIM_STORE_DELAYED] += met[SIM_MET_DELAYED];
    s->faults[HTC_SIM_STORE_BROKEN] += met[SIM_MET_BROKEN];
    for (uint32_t i = 0; i < s->setting.nodes; i++) {
        htc_sim_disk_stats d = { 0 };
        if (s->members[i].disk)
            htc_sim_disk_stats_get(s->members[i].disk, &d);
        s->faults[HTC_SIM_STORE_ERRORS] += d.eio;
        s->faults[HTC_SIM_STORE_SECTORS] += d.sectors_lost + d.sectors_torn;
    }
    memcpy(s->report->faults, s->faults, sizeof s->faults);
}

static void sum_up(store *s)
{
    htc_sim_store_report *r = s->report;
    if (htc_sim_status(s->sim) != HTC_OK && !r->failed) {
        r->failed = 1;
        snprintf(r->text, sizeof r->text, "%s", htc_sim_failure(s->sim) ? htc_sim_failure(s->sim) : "no memory");
    }
    r->hash = htc__store_hash(s);
    r->events = htc_sim_events(s->sim);
    r->operations = htc_history_count(s->history);
    r->known = s->known;
    r->watches = s->watches;
    r->told = s->told;
    r->changes = s->changes;
    r->moved = s->moved;
    htc__store_proxies_report(s, r);
    r->span = htc_sim_now(s->sim) - HTC_SIM_BEGIN;
    count_faults(s);
}

/* ---- all of it ---- */

static htc_status open_store(store *s)
{
    htc_sim_options o = { .size = sizeof o,
                          .seed = s->options.seed,
                          .redial_ns = 5 * HTC_MS,
                          .trace = s->options.trace,
                          .trace_ctx = s->options.trace_ctx };
    htc_sim_net     calm = { .size = sizeof calm, .jitter_ns = 50 * HTC_US };
    htc_sim        *draws = NULL;
    htc_status      status = htc_sim_create(&s->env, &o, &draws);
    if (status != HTC_OK)
        return status;
    s->sim = draws;
    draw(s);
    htc_sim_destroy(draws); /* the run itself has to know how many fault points there are */
    s->sim = NULL;
    o.points_ppm = s->setting.points_ppm;
    o.net = &calm;
    o.redial_ns *= s->setting.moves ? 4 : 1; /* nobody answers any more where members have left */
    status = htc_sim_create(&s->env, &o, &s->sim);
    if (status != HTC_OK)
        return status;
    s->rng = htc_sim_rng(s->sim, "store");
    s->rotting = htc_sim_rng(s->sim, "rot");
    status = htc_history_create(&s->env, NULL, &s->history);
    if (status == HTC_OK)
        status = htc__store_watch_open(s);
    if (status == HTC_OK)
        status = htc__store_members_add(s);
    if (status == HTC_OK)
        status = htc__store_proxies_add(s);
    if (status == HTC_OK)
        status = htc__store_clients_add(s);
    if (status == HTC_OK)
        status = htc__store_moves_begin(s);
    return status == HTC_OK ? trouble(s) : status;
}

static void close_store(store *s)
{
    htc_sim_destroy(s->sim);
    htc_sim_trouble_destroy(s->trouble);
    htc__store_members_free(s);
    htc__store_clients_free(s);
    htc__store_watch_close(s);
    htc_history_destroy(s->history);
    htc_env env = s->env;
    htc__free(&env, s, sizeof *s);
}

htc_status htc_sim_store_run(const htc_env *env, const htc_sim_store_options *options, htc_sim_store_report *report)
{
    htc_sim_store_options o = { .size = sizeof o };
    htc_sim_store_report  whole = { .size = sizeof whole };
    if (!report || report->size < offsetof(htc_sim_store_report, undecided))
        return HTC_EINVAL;
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (o.cells > HTC_SIM_STORE_LOG || (o.members && (o.members < 3 || o.members > STORE_FIRST)) ||
        o.operations > 10000)
        return HTC_EINVAL;
    store *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    if (env)
        s->env.alloc = env->alloc;
    s->env.size = sizeof s->env;
    s->options = o;
    s->report = &whole;
    status = open_store(s);
    if (status == HTC_OK) {
        phases(s);
        status = htc__store_judge(s);
        sum_up(s);
    }
    close_store(s);
    size_t size = report->size < sizeof whole ? report->size : sizeof whole;
    if (status == HTC_OK) {
        whole.size = report->size;
        memcpy(report, &whole, size);
    }
    return status;
}

const char *htc_sim_store_fault_name(uint32_t fault)
{
    static const char *const names[HTC_SIM_STORE_FAULTS] = { [HTC_SIM_STORE_LOST] = "messages lost",
                                                             [HTC_SIM_STORE_DOUBLED] = "doubled",
                                                             [HTC_SIM_STORE_REORDERED] = "reordered",
                                                             [HTC_SIM_STORE_DELAYED] = "delayed",
                                                             [HTC_SIM_STORE_BROKEN] = "connections broken",
                                                             [HTC_SIM_STORE_CLOGS] = "clogs",
                                                             [HTC_SIM_STORE_PARTITIONS] = "partitions",
                                                             [HTC_SIM_STORE_CRASHES] = "crashes",
                                                             [HTC_SIM_STORE_POWER] = "power failures",
                                                             [HTC_SIM_STORE_WIPES] = "disks wiped",
                                                             [HTC_SIM_STORE_PAUSES] = "pauses",
                                                             [HTC_SIM_STORE_JUMPS] = "clock jumps",
                                                             [HTC_SIM_STORE_FULL] = "disks full",
                                                             [HTC_SIM_STORE_ERRORS] = "disk errors",
                                                             [HTC_SIM_STORE_SECTORS] = "sectors lost",
                                                             [HTC_SIM_STORE_ROT] = "places damaged",
                                                             [HTC_SIM_STORE_REFUSED] = "memory refused",
                                                             [HTC_SIM_STORE_ENDED] = "members ended",
                                                             [HTC_SIM_STORE_SUPERS] = "superblocks damaged",
                                                             [HTC_SIM_STORE_OLDER] = "of the previous version",
                                                             [HTC_SIM_STORE_TURNED] = "versions changed" };
    return fault < HTC_SIM_STORE_FAULTS ? names[fault] : "";
}
