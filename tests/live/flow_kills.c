/* usage: live_flow_kills FOLDER-OF-THE-PROGRAMS MIX
 *
 * Random graphs over eight workers and a store of three members, live: each a process of its own, and the tasks read each other's files (MIX
 * is their program). All the time some process is killed (-9) or stopped, workers and members alike, and objects of killed workers are deleted.
 * Every task has to be counted once, every record terminal, and every output as a plain loop makes it; then no process and no scratch
 * file is left. One task in ten adds one to its graph. The run has to have stolen a tenth of the tasks and fetched a tenth of the bytes that they read.
 *
 * One minute; HTC_TEST_LIGHT=1: 10 s; HTC_TEST_FULL=1: 10 minutes. Prints its seed; HTC_TEST_SEED repeats the graphs and the choices of victims. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flow_kills.h"
#include "flow_mix.h"
#include "htcsched/client.h"
#include "htcsched/flows.h"
#include "htcsched/host.h"
#include "net/files/files.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/ledger.h"

#define TASKS    200
#define ADDED    (TASKS / 10)
#define ALL      (TASKS + ADDED)
#define PARENTS  4
#define WINDOW   60 /* parents are among so many tasks before */
#define PATIENCE (300 * HTC_SECOND) /* for the end of one graph */
#define MORE     20 /* graphs at most behind the last one that is not left alone, as long as the run has not done enough */

/* A task as the plain loop has it. */
typedef struct model {
    uint8_t  hash[32];
    uint64_t size;
    uint32_t parents[PARENTS], n_parents;
    uint8_t *content;
} model;

static model    task[TASKS];
static uint64_t all_tasks, read_bytes, graphs;
static htc_rng  rng;

static uint64_t below(uint64_t n)
{
    return htc_rng_below(&rng, n);
}

/* ---- a graph, and what a plain loop makes of it ---- */

static void draw_parents(uint32_t id)
{
    model *t = &task[id];
    t->n_parents = 0;
    for (uint64_t n = id < WORKERS ? 0 : 1 + below(PARENTS); n > 0; n--) {
        uint32_t parent = id - 1 - (uint32_t)below(id < WINDOW ? id : WINDOW), known = 0;
        for (uint32_t i = 0; i < t->n_parents; i++)
            known |= t->parents[i] == parent;
        if (!known)
            t->parents[t->n_parents++] = parent;
    }
}

static void run_it(uint32_t id)
{
    static uint8_t out[FLOW_MIX_MAX];
    model         *t = &task[id];
    uint64_t       state = flow_mix(id + 1);
    for (uint32_t i = 0; i < t->n_parents; i++) {
        const model *p = &task[t->parents[i]];
        state = flow_mix_read(state, p->content, p->size);
        read_bytes += p->size;
    }
    t->size = flow_mix_write(state, out);
    free(t->content);
    t->content = malloc(t->size + 1);
    if (!t->content)
        fail("memory");
    memcpy(t->content, out, t->size);
    htc_content_hash((htc_bytes){ t->content, t->size }, t->hash);
}

static int adds(uint32_t id)
{
    return id % 10 == 7;
}

static void add_task(htc_flow *graph, uint32_t id, const char *mix)
{
    char          names[PARENTS + 1][16], number[16], ms[16];
    const char   *args[4 + PARENTS] = { "--adds", number, ms, names[PARENTS] };
    htc_flow_file in[PARENTS] = { { 0 } }, out = { .name = names[PARENTS] };
    const model  *t = &task[id];
    snprintf(number, sizeof number, "%u", id);
    snprintf(ms, sizeof ms, "%u", (unsigned)below(60));
    snprintf(names[PARENTS], sizeof names[0], "f%u", id);
    for (uint32_t i = 0; i < t->n_parents; i++) {
        snprintf(names[i], sizeof names[0], "f%u", t->parents[i]);
        in[i].name = args[4 + i] = names[i];
    }
    htc_flow_task    x = { .size = sizeof x, .executable = mix, .args = adds(id) ? args : args + 1, .n_args = 3 + t->n_parents + adds(id), .adds = adds(id), .in = in, .n_in = t->n_parents, .out = &out,
                           .n_out = 1 };
    htc_error error = { 0 };
    if (htc_flow_add(graph, &x, NULL, &error) != HTC_OK)
        fail("a task: %s", error.text);
}

static void submit(htc_store *store, const char *mix)
{
    static const char *const policies[] = { "flds", "rlds", "mdl", "mlb" };
    char                     dir[300];
    htc_flow                *graph = NULL;
    htc_error                error = { 0 };
    const char              *policy = policies[below(4)];
    if (htc_flow_create(NULL, NULL, &graph) != HTC_OK)
        fail("memory");
    for (uint32_t id = 0; id < TASKS; id++) {
        draw_parents(id);
        run_it(id);
        add_task(graph, id, mix);
    }
    htc_flows_options o = { .size = sizeof o, .user = "ada", .tries = 1, .policy = policy };
    if (htc_flow_check(graph, &error) != HTC_OK || htc_flow_after_files(graph, &error) != HTC_OK ||
        htc_flows_submit(store, graph, &o, &flow_id, &error) != HTC_OK)
        fail("submitting: %s", error.text);
    htc_flow_destroy(graph);
    snprintf(dir, sizeof dir, "%s/data/out/%lu", top, (unsigned long)flow_id);
    htc__make_dirs(dir);
    if (htc_flows_start(store, flow_id, 0, &error) != HTC_OK)
        fail("starting: %s", error.text);
    printf("graph %lu: %s\n", (unsigned long)flow_id, policy);
}

/* ---- what happens meanwhile ---- */

static int one_is_away(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (members[i].state != VICTIM_RUNS)
            return 1;
    return 0;
}

static void strike_member(htc_ns now)
{
    uint32_t i = (uint32_t)below(MEMBERS);
    int      stops = below(3) == 0;
    htc_ns   back_at = now + (htc_ns)below(stops ? 3 * HTC_SECOND : HTC_SECOND);
    if (one_is_away())
        return;
    strike(&members[i], stops ? SIGSTOP : SIGKILL, back_at);
    count.members_stopped += (uint64_t)stops;
    count.members_killed += (uint64_t)!stops;
}

static void strike_worker(htc_ns now)
{
    uint32_t i = (uint32_t)below(WORKERS);
    uint64_t how = below(4);
    htc_ns   back_at = now + (htc_ns)below(how == 0 ? 4 * HTC_SECOND : HTC_SECOND);
    if (workers[i].state != VICTIM_RUNS)
        return;
    strike(&workers[i], how == 0 ? SIGSTOP : SIGKILL, back_at);
    count.workers_stopped += how == 0;
    count.workers_killed += how != 0;
    if (how == 3)
        delete_objects(i);
}

/* 1: somebody still is at the flow. */
static int workers_left(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (workers[i].pid > 0)
            return 1;
    return 0;
}

static void show_open(htc_store *store);

/* Until a worker has seen the end of the flow; then all of them see it. Nobody is struck any more from `quiet_at` on. */
static void run_graph(htc_store *store, htc_ns quiet_at)
{
    htc_ns begun = htc_host_now(), next = begun + 300 * HTC_MS, now;
    int    ended = 0;
    for (uint32_t i = 0; i < WORKERS; i++)
        start_worker(i);
    while (!ended || workers_left()) {
        now = htc_host_now();
        ended |= reap();
        if (!ended)
            bring_back(now);
        else
            all_go_on();
        if (!ended && now < quiet_at && now >= next) {
            if (below(3) == 0)
                strike_member(now);
            else
                strike_worker(now);
            next = now + 100 * HTC_MS + (htc_ns)below(400 * HTC_MS);
        }
        if (now > begun + PATIENCE) {
            all_go_on();
            show_open(store);
            fail("flow %lu has not ended", (unsigned long)flow_id);
        }
        usleep(2000);
    }
    while (one_is_away()) {
        (void)reap();
        all_go_on();
        usleep(2000);
    }
}

/* ---- what came out ---- */

static int get(htc_store *store, const flow_key *k, htc_kv_result *r)
{
    htc_error      error = { 0 };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__flow_key_bytes(k) };
    htc_status     status = htc_store_ask(store, &q, r, &error);
    if (status != HTC_OK || (r->status != HTC_OK && r->status != HTC_ENOTFOUND))
        fail("the store does not answer: %s", status != HTC_OK ? error.text : htc_strerror(r->status));
    return r->status == HTC_OK;
}

static void get_task(htc_store *store, uint32_t id, graph_task *g)
{
    htc_kv_result r = { .size = sizeof r };
    flow_key      k = htc__flow_key_task(flow_id, id);
    if (!get(store, &k, &r) || htc__graph_read(r.value, g) != HTC_OK)
        fail("the record of task %u cannot be read", id);
}

static void show_open(htc_store *store)
{
    graph_task g;
    for (uint32_t id = 0, shown = 0; id < TASKS && shown < 20; id++) { /* of those that were added some may have no records */
        get_task(store, id, &g);
        if (g.state == GRAPH_DONE)
            continue;
        shown++;
        fprintf(stderr, "task %u: state %d, %s\n", id, (int)g.state, htc__graph_is_ready(&g) ? "ready" : "waits");
    }
}

static void check_stored(uint32_t id, uint32_t attempt, const char *file, const model *t)
{
    char     place[200], path[500];
    uint8_t  hash[32];
    uint64_t size = 0;
    if (htc__output_place(place, sizeof place, flow_id, id, attempt) != 0)
        fail("a path");
    snprintf(path, sizeof path, "%s/data/%s/files/%s", top, place, file);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail("task %u has left no output: %s: %s", id, path, strerror(errno));
    if (htc_content_hash_fd(fileno(f), hash, &size) != HTC_OK || size != t->size || memcmp(hash, t->hash, sizeof hash) != 0)
        fail("what task %u has left is not what a plain loop makes: %s", id, path);
    fclose(f);
}

static void check_record(htc_store *store, uint32_t id)
{
    graph_task   g;
    graph_object made;
    char         name[16];
    int          n = snprintf(name, sizeof name, "f%u", id);
    get_task(store, id, &g);
    if (g.state != GRAPH_DONE)
        fail("task %u has ended in state %d: %s", id, (int)g.state, g.outcome.reason);
    if (htc__graph_n_makes(&g) && (htc__graph_made(&g, (htc_bytes){ name, (size_t)n }, &made) != HTC_OK || made.size != task[id].size ||
                                   memcmp(made.hash, task[id].hash, sizeof made.hash) != 0))
        fail("the record of task %u names another output than a plain loop makes", id);
    check_stored(id, g.outcome.attempt, name, &task[id]);
}

/* Of each task that adds one, once; the answer is which. */
static uint32_t check_added(htc_store *store, uint32_t id)
{
    static uint8_t out[FLOW_MIX_MAX];
    graph_task     g;
    char           name[64], file[32];
    unsigned       of = TASKS;
    model          t = { .n_parents = 0 };
    get_task(store, id, &g);
    snprintf(name, sizeof name, "%.*s", (int)g.name.len, (const char *)g.name.data);
    if (sscanf(name, "t%u/more", &of) != 1 || of >= TASKS || !adds(of) || g.state != GRAPH_DONE)
        fail("task %u, %s, has ended in state %d: %s", id, name, (int)g.state, g.outcome.reason);
    t.size = flow_mix_write(flow_mix_read(flow_mix(FLOW_MIX_MORE + of + 1), task[of].content, task[of].size), out);
    htc_content_hash((htc_bytes){ out, t.size }, t.hash);
    snprintf(file, sizeof file, "more-f%u", of);
    check_stored(id, g.outcome.attempt, file, &t);
    return of;
}

/* Numbers of ledgers are left out, but never more than there are workers in a row. */
static void check_ledgers(htc_store *store)
{
    ledger        l;
    htc_kv_result r = { .size = sizeof r };
    uint64_t      done = 0, others = 0, live = 0, beyond = 0;
    for (uint64_t j = 0; j < beyond + 4 * WORKERS; j++) {
        flow_key k = htc__flow_key_ledger(flow_id, j);
        if (!get(store, &k, &r))
            continue;
        if (htc__ledger_read(r.value, &l) != HTC_OK)
            fail("ledger %lu cannot be read", (unsigned long)j);
        beyond = j + 1;
        done += l.counts.done;
        others += l.counts.failed + l.counts.cancelled;
        live += htc__ids_count(&l.live);
    }
    if (done != ALL || others || live)
        fail("the ledgers count %lu tasks as done and %lu otherwise, and %lu live, of %d", (unsigned long)done, (unsigned long)others, (unsigned long)live,
             ALL);
}

static void check_flow(htc_store *store)
{
    htc_error      error = { 0 };
    htc_flows_view v = { .size = sizeof v };
    if (htc_flows_look(store, flow_id, &v, &error) != HTC_OK)
        fail("looking at the flow: %s", error.text);
    for (uint32_t id = 0; id < TASKS; id++)
        check_record(store, id);
    int known[TASKS] = { 0 };
    for (uint32_t id = TASKS; id < ALL; id++)
        if (known[check_added(store, id)]++)
            fail("task %u was added twice", id);
    if (v.state != HTC_FLOWS_ENDED || v.done != ALL || v.added != ADDED || v.failed || v.cancelled)
        fail("state %u, %lu done, %lu failed, %lu cancelled of %d", v.state, (unsigned long)v.done, (unsigned long)v.failed, (unsigned long)v.cancelled,
             ALL);
    check_ledgers(store);
}

static htc_store *open_store(void)
{
    char              address[900];
    htc_store        *store = NULL;
    htc_error         error = { 0 };
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = 60 * HTC_SECOND };
    store_address(address, sizeof address);
    for (int i = 0; i < 400; i++) {
        if (htc_store_open(NULL, &o, &store, &error) == HTC_OK)
            return store;
        usleep(25000);
    }
    fail("the store cannot be opened: %s", error.text);
}

static void check_nothing_is_left(void)
{
    int   status;
    pid_t pid;
    tidy_slots();
    end_members();
    while ((pid = waitpid(-1, &status, 0)) > 0) /* a task of a killed worker, which has just been ended */
        if (WIFEXITED(status) == 0 && WIFSIGNALED(status) == 0)
            fail("process %d is left", (int)pid);
    if (errno != ECHILD)
        fail("processes are left: %s", strerror(errno));
}

static void tell(double seconds)
{
    const htc_worker_figures *f = &count.figures;
    printf("%.1f s, %lu graphs, %lu tasks; killed: %lu workers, %lu members; stopped: %lu workers, %lu members; %lu objects deleted; %lu lives, %lu of "
           "them lost their lease\n",
           seconds, (unsigned long)graphs, (unsigned long)all_tasks, (unsigned long)count.workers_killed, (unsigned long)count.members_killed,
           (unsigned long)count.workers_stopped, (unsigned long)count.members_stopped, (unsigned long)count.objects_deleted, (unsigned long)count.lives,
           (unsigned long)count.lost);
    printf("run=%lu stolen=%lu pushed=%lu taken=%lu made=%lu remade=%lu fetched=%lu fetched_bytes=%lu read_bytes=%lu\n", (unsigned long)f->run,
           (unsigned long)f->stolen, (unsigned long)f->pushed, (unsigned long)f->taken, (unsigned long)f->made, (unsigned long)f->remade,
           (unsigned long)f->fetched, (unsigned long)f->fetched_bytes, (unsigned long)read_bytes);
}

static int has_stolen(void)
{
    return count.figures.stolen * 10 >= all_tasks;
}

static int has_fetched(void)
{
    return count.figures.fetched_bytes * 10 >= read_bytes;
}

int main(int argc, char **argv)
{
    const char *given = getenv("HTC_TEST_SEED"), *full = getenv("HTC_TEST_FULL");
    htc_ns      lasts = full && *full == '1' ? 600 * HTC_SECOND : getenv("HTC_TEST_LIGHT") ? 10 * HTC_SECOND : 60 * HTC_SECOND;
    char       *mix = argc == 3 ? realpath(argv[2], NULL) : NULL; /* tasks run elsewhere */
    if (!mix)
        return 2;
    programs = argv[1];
    htc_host_random(&rng.state, sizeof rng.state);
    rng.state = given ? strtoull(given, NULL, 10) : rng.state;
    printf("seed %llu\n", (unsigned long long)rng.state);
    strcpy(top, "/tmp/htc-flow-kills-XXXXXX");
    if (!mkdtemp(top))
        fail("a directory");
    processes_open();
    htc_store *store = open_store();
    htc_ns     begun = htc_host_now();
    uint32_t   more = 0;
    while (htc_host_now() < begun + lasts || (more++ < MORE && !(has_stolen() && has_fetched()))) {
        submit(store, mix);
        run_graph(store, begun + lasts);
        check_flow(store);
        graphs++;
        all_tasks += ALL;
        printf("%.1f s: as a plain loop makes it\n", (double)(htc_host_now() - begun) / 1e9);
    }
    htc_store_close(store);
    tell((double)(htc_host_now() - begun) / 1e9);
    check_nothing_is_left();
    if (!has_stolen())
        fail("fewer than a tenth of the tasks were stolen");
    if (!has_fetched())
        fail("less than a tenth of the bytes was fetched");
    if (!count.workers_killed || !count.members_killed)
        fail("nobody was killed");
    for (uint32_t id = 0; id < TASKS; id++)
        free(task[id].content);
    free(mix);
    htc__remove_tree(top);
    printf("ok\n");
    return 0;
}
