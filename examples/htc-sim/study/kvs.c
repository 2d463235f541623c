#include "kvs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ZIPF_KEYS_MAX (UINT64_C(1) << 24)

/* ---- its settings ---- */

/* A span "auto" is that of the machine. Words stand in the order of the enumerations of sim_kvs.h. */
static const setting table[] = {
    { "sim.model", SET_CHOICE, "kvs", 0, 0, "kvs" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "100ns", 1, 0, "a span from 1 ns: 100ns, 1us" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.engine", SET_CHOICE, "scale", 0, 0, "scale|exact" },
    { "sim.messages", SET_COUNT, "0", 0, 4294967295.0, "a number from 0 to 4294967295" },
    { "store.model", SET_CHOICE, "dfc", 0, 0, "csingle|ctree|dfc|dchord|live" },
    { "store.servers", SET_COUNT, "0", 0, HTC_SIM_KVS_SERVERS_MAX, "a number from 0 to 1048576; 0: one for 1024 clients, of live 3" },
    { "store.copies", SET_COUNT, "0", 0, HTC_SIM_KVS_COPIES_MAX, "a number from 0 to 8; 0: 1, of live 3" },
    { "store.consistency", SET_CHOICE, "strong", 0, 0, "strong|eventual|majority" },
    { "store.reads", SET_COUNT, "0", 0, HTC_SIM_KVS_COPIES_MAX, "a number from 0 to 8" },
    { "store.writes", SET_COUNT, "0", 0, HTC_SIM_KVS_COPIES_MAX, "a number from 0 to 8" },
    { "store.placement", SET_CHOICE, "modulo", 0, 0, "modulo|ring" },
    { "store.queues", SET_CHOICE, "coupled", 0, 0, "coupled|parallel" },
    { "store.data", SET_SIZE, "16G", 0, 0, "bytes: 512M, 16G" },
    { "store.member", SET_SIZE, "10K", 0, 0, "bytes: 512, 10K" },
    { "clients.count", SET_COUNT, "1024", 1, HTC_SIM_KVS_CLIENTS_MAX, "a number from 1 to 268435456" },
    { "clients.requests", SET_COUNT, "10", 1, 2147483647.0, "a number from 1 to 2147483647" },
    { "clients.stall", SET_SPAN, "100ms", 0, 0, "a span; 0: all begin at once" },
    { "clients.select", SET_CHOICE, "server", 0, 0, "server|client" },
    { "clients.strategy", SET_CHOICE, "multi-trial", 0, 0, "multi-trial|timeout|round-robin" },
    { "clients.tries", SET_COUNT, "3", 1, 31, "a number from 1 to 31" },
    { "clients.timeout", SET_SPAN, "1s", 0, 0, "a span" },
    { "clients.depth", SET_COUNT, "1", 1, HTC_SIM_KVS_DEPTH_MAX, "a number from 1 to 65536" },
    { "clients.programs", SET_COUNT, "0", 0, HTC_SIM_KVS_CLIENTS_MAX, "a number from 0 to clients.count; 0: one for each" },
    { "workload.puts", SET_REAL, "0.5", 0, 1, "a number from 0 to 1" },
    { "workload.keys", SET_COUNT, "0", 0, 4294967296.0, "a number from 0 to 4294967296; 0: every request has its own" },
    { "workload.zipf", SET_REAL, "0", 0, 10, "a number from 0 to 10; 0: all keys are equally likely" },
    { "failures.every", SET_SPAN, "0", 0, 0, "a span; 0: never" },
    { "failures.first", SET_SPAN, "5ms", 0, 0, "a span" },
    { "failures.notify", SET_CHOICE, "eager", 0, 0, "eager|lazy" },
    { "cost.machine", SET_CHOICE, "bgp", 0, 0, "bgp|kodiak" },
    { "cost.bandwidth", SET_COUNT, "0", 0, 1e18, "bits a second; 0: those of the machine" },
    { "cost.latency", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.pack", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.unpack", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.service", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.bytes", SET_SIZE, "0", 0, 0, "bytes: 134, 10K; 0: 10K, of live 200" },
    { "cost.cores", SET_COUNT, "0", 0, 1000000, "a number from 0 to 1000000; 0: each member and program has its own" },
    { "cost.sync", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.commit", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.write", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.turn", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.wake", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.idle", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.accept", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { "cost.client", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto" },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* 0 is a default there: what is to be nothing is a nanosecond, which is no tick. auto: 0. */
static htc_ns span_of(const settings *s, const char *name)
{
    htc_ns span = settings_span(s, name);
    return span || settings_text(s, name)[0] == 'a' ? span : 1;
}

static void costs_of(htc_sim_kvs_options *o, const settings *s)
{
    o->tick_ns = settings_span(s, "sim.tick");
    o->machine = settings_choice(s, "cost.machine");
    o->bandwidth = settings_count(s, "cost.bandwidth");
    o->latency_ns = span_of(s, "cost.latency");
    o->pack_ns = span_of(s, "cost.pack");
    o->unpack_ns = span_of(s, "cost.unpack");
    o->service_ns = span_of(s, "cost.service");
    o->bytes = settings_size(s, "cost.bytes");
    o->cores = (uint32_t)settings_count(s, "cost.cores");
    o->sync_ns = settings_span(s, "cost.sync");
    o->commit_ns = span_of(s, "cost.commit");
    o->write_ns = span_of(s, "cost.write");
    o->turn_ns = span_of(s, "cost.turn");
    o->wake_ns = span_of(s, "cost.wake");
    o->idle_ns = settings_span(s, "cost.idle");
    o->accept_ns = span_of(s, "cost.accept");
    o->client_ns = span_of(s, "cost.client");
}

static void clients_of(htc_sim_kvs_options *o, const settings *s)
{
    o->clients = settings_count(s, "clients.count");
    o->requests = (uint32_t)settings_count(s, "clients.requests");
    o->stall_ns = settings_span(s, "clients.stall");
    o->synchronised = o->stall_ns == 0;
    o->select = settings_choice(s, "clients.select");
    o->strategy = settings_choice(s, "clients.strategy");
    o->tries = (uint32_t)settings_count(s, "clients.tries");
    o->timeout_ns = span_of(s, "clients.timeout");
    o->depth = (uint32_t)settings_count(s, "clients.depth");
    o->programs = (uint32_t)settings_count(s, "clients.programs");
    o->puts = settings_real(s, "workload.puts");
    o->no_puts = !(o->puts > 0);
    o->keys = settings_count(s, "workload.keys");
}

static void store_of(htc_sim_kvs_options *o, const settings *s)
{
    o->model = settings_choice(s, "store.model");
    o->servers = (uint32_t)settings_count(s, "store.servers");
    o->copies = (uint32_t)settings_count(s, "store.copies");
    o->consistency = settings_choice(s, "store.consistency");
    o->reads = (uint32_t)settings_count(s, "store.reads");
    o->writes = (uint32_t)settings_count(s, "store.writes");
    o->placement = settings_choice(s, "store.placement");
    o->queues = settings_choice(s, "store.queues");
    o->failure_ns = settings_span(s, "failures.every");
    o->first_failure_ns = span_of(s, "failures.first");
    o->notify = settings_choice(s, "failures.notify");
    o->messages_max = settings_count(s, "sim.messages");
}

static void close_run(void *run)
{
    kvs_study *k = run;
    if (k)
        free(k->weights);
    free(k);
}

/* Key i is as likely as 1 / (i + 1)^zipf. */
static int weights_of(kvs_study *k, double zipf, htc_error *error)
{
    uint64_t n = k->options.keys;
    if (!(zipf > 0))
        return 1;
    if (n < 1 || n > ZIPF_KEYS_MAX)
        return settings_refuse(error, HTC_ECONFIG, "workload.zipf needs from 1 to 16777216 keys", "set workload.keys");
    if (!(k->weights = malloc(n * sizeof *k->weights)))
        return settings_refuse(error, HTC_ENOMEM, "no memory for the keys", "set workload.keys lower");
    for (uint64_t i = 0; i < n; i++)
        k->weights[i] = pow((double)(i + 1), -zipf);
    k->options.weights = k->weights;
    return 1;
}

static int makes_sense(const htc_sim_kvs_options *o, htc_error *error)
{
    int      one = o->model == HTC_SIM_KVS_CSINGLE || o->model == HTC_SIM_KVS_CTREE, live = o->model == HTC_SIM_KVS_LIVE;
    uint64_t copies = o->copies ? o->copies : 1, servers = one ? copies : o->servers ? o->servers : live ? 3 : o->clients < 2048 ? 1 : o->clients / 1024;
    if (o->tick_ns < 1)
        return settings_refuse(error, HTC_ECONFIG, "sim.tick is 0", "set it to 100ns");
    if (servers > HTC_SIM_KVS_SERVERS_MAX)
        return settings_refuse(error, HTC_ECONFIG, "that is more than 1048576 servers", "set store.servers");
    if (o->copies > servers)
        return settings_refuse(error, HTC_ECONFIG, "store.copies is more than there are servers", "set store.servers too; without it there is one for 1024 clients");
    if (o->clients * o->depth > HTC_SIM_KVS_CLIENTS_MAX)
        return settings_refuse(error, HTC_ECONFIG, "clients.count times clients.depth is more than 268435456", "lower one of them");
    if (o->programs > o->clients)
        return settings_refuse(error, HTC_ECONFIG, "clients.programs is more than clients.count", "leave it at 0: one for each client");
    if (o->reads > copies || o->writes > copies)
        return settings_refuse(error, HTC_ECONFIG, "store.reads or store.writes is above store.copies", "lower them, or set store.copies too");
    return 1;
}

/* What the exact engine cannot do. */
static int makes_sense_exactly(const htc_sim_kvs_options *o, htc_error *error)
{
    if (o->model != HTC_SIM_KVS_LIVE)
        return settings_refuse(error, HTC_ECONFIG, "the exact engine runs this library's own store alone (sim.engine)", "set store.model to live, or leave out sim.engine");
    if (!o->keys)
        return settings_refuse(error, HTC_ECONFIG, "the exact engine keeps all keys, and workload.keys is 0 (sim.engine)", "set workload.keys to a number of keys");
    return 1;
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    kvs_study *k = calloc(1, sizeof *k);
    (void)drawn;
    if (!k) {
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    k->report.size = sizeof k->report;
    k->data = settings_size(s, "store.data");
    k->member = settings_size(s, "store.member");
    k->options = (htc_sim_kvs_options){ .size = sizeof k->options, .seed = seed };
    store_of(&k->options, s);
    clients_of(&k->options, s);
    costs_of(&k->options, s);
    k->exactly = settings_choice(s, "sim.engine") == 1;
    if (makes_sense(&k->options, error) && (!k->exactly || makes_sense_exactly(&k->options, error)) && weights_of(k, settings_real(s, "workload.zipf"), error))
        return k;
    close_run(k);
    return NULL;
}

/* ---- a run ---- */

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    kvs_study *k = run;
    (void)error;
    k->options.resume = tape;
    return 1;
}

static const char *next_step(htc_status status, const kvs_study *k, const watch *w)
{
    if (k->exactly)
        return status == HTC_ETOOBIG        ? w->host.memory_max ? "make the experiment smaller, raise sim.memory, or leave out sim.engine" : "make the experiment smaller, or leave out sim.engine"
               : status == HTC_EUNSUPPORTED ? "leave out --checkpoint, or sim.engine" : "change its settings";
    if (status == HTC_ETOOBIG)
        return w->host.memory_max ? "make clients.count lower, or raise sim.memory or sim.tick" : "raise sim.tick";
    if (status == HTC_EFULL)
        return "raise sim.messages";
    return "change its settings";
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    kvs_study *k = run;
    double     begun = watch_seconds();
    k->options.host = &w->host;
    k->options.checkpoint = checkpoint;
    w->what = "requests";
    *error = (htc_error){ 0 };
    uint64_t bytes = 0;
    if (!k->exactly) /* how much the exact engine needs depends on its course */
        (void)htc_sim_kvs_memory(&k->options, &bytes);
    watch_needs(w, bytes);
    htc_status status = k->exactly ? htc_sim_kvs_exact(&w->env, &k->options, &k->report, error) : htc_sim_kvs_run(&w->env, &k->options, &k->report, error);
    watch_close(w);
    k->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return 1;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    snprintf(error->hint, sizeof error->hint, "%s", next_step(status, k, w));
    return 0;
}

enum { THROUGHPUT, EFFICIENCY, TIME, RESPONSE, RATE, DEVIATION, REQUESTS, CONSISTENCY, FAILURES, FAILED, REFUSED, WRITE_BACKS, FLIPS, BUSY, DATA, MEMBERS, SYNCS };
static const measure measures[] = { [THROUGHPUT] = { "throughput", 1 }, [EFFICIENCY] = { "efficiency", 4 },   [TIME] = { "time_s", 3 },
                                    [RESPONSE] = { "response_ms", 3 },  [RATE] = { "client_rate", 4 },        [DEVIATION] = { "client_rate_deviation", 4 },
                                    [REQUESTS] = { "requests", 0 },     [CONSISTENCY] = { "consistency", 0 }, [FAILURES] = { "failures", 0 },
                                    [FAILED] = { "failed", 0 },         [REFUSED] = { "refused", 0 },         [WRITE_BACKS] = { "write_backs", 0 },
                                    [FLIPS] = { "flips", 0 },           [BUSY] = { "busy", 4 },               [DATA] = { "data_bytes", 0 },
                                    [MEMBERS] = { "members_bytes", 0 }, [SYNCS] = { "syncs", 0 },             { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const kvs_study          *k = run;
    const htc_sim_kvs_report *r = &k->report;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[THROUGHPUT] = r->throughput;
    o->value[EFFICIENCY] = r->efficiency;
    o->value[TIME] = r->time_s;
    o->value[RESPONSE] = 1e3 * r->response_s;
    o->value[RATE] = r->client_rate;
    o->value[DEVIATION] = r->client_rate_deviation;
    o->value[REQUESTS] = (double)r->requests.sent;
    o->value[CONSISTENCY] = (double)r->consistency.sent;
    o->value[FAILURES] = (double)r->failures.sent;
    o->value[FAILED] = (double)r->failed;
    o->value[REFUSED] = (double)r->refused;
    o->value[WRITE_BACKS] = (double)r->write_backs;
    o->value[FLIPS] = (double)r->flips;
    o->value[BUSY] = r->busy;
    o->value[DATA] = kvs_data_bytes(k);
    o->value[MEMBERS] = kvs_members_bytes(k);
    o->value[SYNCS] = (double)r->syncs;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "store", "NAME", "store.model", "csingle, ctree, dfc, dchord, or live: this library's own (dfc)" },
    { "clients", "N", "clients.count", "each sends one request after the other (1024)" },
    { "servers", "N", "store.servers", "of dfc, dchord and live (0: one for 1024 clients, of live 3)" },
    { "requests", "N", "clients.requests", "of each client (10)" },
    { "depth", "N", "clients.depth", "of these on their way at once, live (1)" },
    { "puts", "PART", "workload.puts", "of the requests, that are puts (0.5)" },
    { "keys", "N", "workload.keys", "there are so many (0: every request has its own)" },
    { "zipf", "S", "workload.zipf", "key number i is as likely as 1 / i^S (0: all the same)" },
    { "copies", "N", "store.copies", "of each key, in all (0: 1, of live 3)" },
    { "consistency", "NAME", "store.consistency", "of copies: strong, eventual or majority (strong)" },
    { "read-quorum", "R", "store.reads", "copies that a read waits for, eventual (0: 2)" },
    { "write-quorum", "W", "store.writes", "copies that a put waits for, eventual (0: 2)" },
    { "failures", "SPAN", "failures.every", "so often a server goes down, or up again (0: never)" },
    { "notify", "NAME", "failures.notify", "of failures: eager or lazy (eager)" },
    { "strategy", "NAME", "clients.strategy", "of a client that is refused: multi-trial, timeout or round-robin (multi-trial)" },
    { "select", "NAME", "clients.select", "whom a client asks: its server, or by the key: client (server)" },
    { "stall", "SPAN", "clients.stall", "clients begin within it (100ms); 0: all at once" },
    { "machine", "NAME", "cost.machine", "whose costs they are: bgp or kodiak (bgp)" },
    { "service", "SPAN", "cost.service", "of one request (auto: of the machine)" },
    { "sync", "SPAN", "cost.sync", "of a disk, live (0: durable at once)" },
    { "cores", "N", "cost.cores", "of the machine on which all runs, live (0: each has its own)" },
    { "engine", "NAME", "sim.engine", "scale, or exact: the store's own members and clients, message by message, live (scale)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (100ns)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model kvs_model = { .name = "kvs", .about = "clients of a key-value store: one server, a tree, servers that all know each other, or with finger tables", .table = table,
                          .options = options, .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of,
                          .say = kvs_say, .plot = kvs_plot, .close = close_run };
