/* usage: live_workers FOLDER-OF-THE-PROGRAMS
 *
 * A bag over several workers, live: each a process of its own with the live host, the executor and a keeper, over one store (htc-kvd).
 * Thieves are killed (-9) between the note that gives them tasks and its acceptance, and workers at any moment; each comes back with a
 * new lease. In the end every task is counted once, and each has left its line. Prints its seed; HTC_TEST_SEED repeats one,
 * HTC_TEST_LIGHT=1 does less. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/agent_host.h"
#include "htcsched/host.h"
#include "htcsched/store.h"
#include "htcsched/work.h"
#include "net/files/files.h"
#include "roles/worker/flow.h"
#include "htcsched/worker.h"

#define WORKERS  4
#define FLOW     7
#define PATIENCE (300 * HTC_SECOND)

static char     top[200];
static pid_t    kvd, workers[WORKERS];
static uint64_t tasks = 3000, lives;

static void end_all(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (workers[i] > 0)
            kill(workers[i], SIGKILL);
    if (kvd > 0)
        kill(kvd, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list ap;
    fprintf(stderr, "FAILED: ");
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, " (in %s)\n", top);
    end_all();
    exit(1);
}

/* ---- a worker's process ---- */

static void say(void *ctx, uint32_t level, const char *text)
{
    FILE *f = ctx;
    (void)level;
    fprintf(f, "%s\n", text);
    fflush(f);
}

static int be_worker(uint32_t self)
{
    static const char *const environ_of[] = { "PATH=/usr/bin:/bin", NULL };
    char                     path[300], slot[300], data[300];
    uint32_t                 store_peer = 0;
    htc_host                *host = NULL;
    htc_agent_host          *hands = NULL;
    htc_worker             *worker = NULL;
    htc_error                error = { 0 };
    int                      lock = -1;
    htc_rng                  rng = { (uint64_t)getpid() << 20 ^ htc_host_now() };
    snprintf(path, sizeof path, "%s/worker%u.log", top, self);
    htc_log log = { .ctx = fopen(path, "a"), .write = say, .level = HTC_LOG_INFO };
    htc_env env = { .size = sizeof env, .rng = &rng, .log = &log };
    snprintf(slot, sizeof slot, "%s/slots/local.%u", top, self);
    snprintf(data, sizeof data, "%s/data", top);
    if (htc_agent_host_recover(&env, slot, &lock, NULL, &error) != HTC_OK || htc_host_create(&env, NULL, &host) != HTC_OK) {
        fprintf(stderr, "worker %u: %s\n", self, error.text);
        return 3;
    }
    htc_agent_host_options o = { .size = sizeof o, .slot_dir = slot, .data_dir = data, .agent = self + 1, .node = "here", .site = "local",
                                 .environ = environ_of, .slots = 2, .lock = &lock };
    if (htc_agent_host_create(&env, host, &o, &hands, &error) != HTC_OK)
        return 4;
    snprintf(path, sizeof path, "%s/worker%u.sock", top, self);
    htc_status status = htc_host_listen_unix(host, path, 0600, 0, &error);
    snprintf(path, sizeof path, "%s/store/kvd.sock", top);
    if (status == HTC_OK)
        status = htc_host_dial_unix(host, path, 1, &store_peer, &error);
    snprintf(path, sizeof path, "unix:%s/worker%u.sock", top, self);
    htc_worker_options w = { .size = sizeof w, .flow = FLOW, .id = self + 1, .address = path, .store_peer = store_peer,
                              .store_client_id = htc_rng_next(&rng) | 1, .slots = 2, .lease_ns = 2 * HTC_SECOND };
    if (status == HTC_OK)
        status = htc_worker_create(&env, &w, &worker);
    if (status == HTC_OK)
        status = htc_host_run(host, htc_worker_ops(), worker);
    htc_host_destroy(host);
    htc_agent_host_destroy(hands);
    htc_worker_ops()->destroy(worker);
    return status == HTC_OK || status == HTC_ELOST ? 0 : 5;
}

static void start_worker(uint32_t self)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(be_worker(self));
    if (pid < 0)
        fail("fork");
    workers[self] = pid;
    lives++;
}

/* One that has ended by itself has lost its lease, and comes back; or the flow has ended. */
static void reap(void)
{
    int   status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < WORKERS; i++)
            if (workers[i] == pid) {
                if (!WIFSIGNALED(status) && WEXITSTATUS(status))
                    fail("worker %u ends with %d", i, WEXITSTATUS(status));
                workers[i] = 0;
                start_worker(i);
            }
}

/* ---- the store ---- */

static htc_store *open_store(void)
{
    char         address[300];
    htc_store   *store = NULL;
    htc_error    error = { 0 };
    snprintf(address, sizeof address, "unix:%s/store/kvd.sock", top);
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = 30 * HTC_SECOND };
    for (int i = 0; i < 400; i++) {
        if (htc_store_open(NULL, &o, &store, &error) == HTC_OK)
            return store;
        usleep(25000);
    }
    fail("the store cannot be opened: %s", error.text);
}

static void put(htc_store *store, const flow_key *k, const htc_buf *value)
{
    htc_kv_result  r = { .size = sizeof r };
    htc_error      error = { 0 };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc__flow_key_bytes(k), .value = htc_buf_bytes(value) };
    if (htc_store_ask(store, &q, &r, &error) != HTC_OK)
        fail("storing a record: %s", error.text);
}

static void submit(htc_store *store)
{
    char     command[400];
    flow     f = { .state = FLOW_RUNNING, .kind = FLOW_BAG, .tasks = tasks, .tries = 3, .max_fails = UINT64_MAX, .user = "ada" };
    ledger   l;
    htc_buf  b;
    flow_key k = htc__flow_key_ledger(FLOW, 0);
    snprintf(command, sizeof command, "echo $HTC_TASK_INDEX >> '%s/lines'", top);
    htc_task task = { .executable = "/bin/sh", .args = (const char *const[]){ "-c", command, NULL }, .n_args = 2, .values_json = "{}",
                      .limits = { .cores = 1 } };
    htc_buf_init(&b, NULL, 0);
    htc__ledger_init(&l, (ledger_span){ 0, tasks });
    htc__ledger_write(&b, &l);
    put(store, &k, &b);
    if (htc_task_to_bytes(NULL, &task, &f.task) != HTC_OK)
        fail("memory");
    htc__flow_write(&b, &f);
    k = htc__flow_key_header(FLOW);
    put(store, &k, &b);
    htc_work_free(NULL, f.task);
    htc_buf_free(&b);
}

static int get_ledger(htc_store *store, uint64_t number, ledger *l)
{
    htc_kv_result  r = { .size = sizeof r };
    flow_key       k = htc__flow_key_ledger(FLOW, number);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) };
    return htc_store_ask(store, &q, &r, NULL) == HTC_OK && htc__ledger_read(r.value, l) == HTC_OK;
}

static int has_ended(htc_store *store, flow *f)
{
    htc_kv_result  r = { .size = sizeof r };
    flow_key       k = htc__flow_key_header(FLOW);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) };
    return htc_store_ask(store, &q, &r, NULL) == HTC_OK && htc__flow_read(r.value, f) == HTC_OK && f->state == FLOW_ENDED;
}

/* Of ledger j, if there is one; numbers are left out, but never more than there are workers in a row. */
static uint64_t beyond; /* all numbers of ledgers that were seen */

static int find_ledger(htc_store *store, uint64_t j, ledger *l)
{
    int there = get_ledger(store, j, l);
    beyond = there && j >= beyond ? j + 1 : beyond;
    return there;
}

/* Kill the thief whom a note is for that is not accepted. 1: it was not accepted afterwards either, so it was killed in between. */
static int kill_between(htc_store *store)
{
    ledger l, to;
    for (uint64_t j = 0; j < beyond + WORKERS; j++)
        for (uint32_t i = 0, there = (uint32_t)find_ledger(store, j, &l); there && i < l.n_out; i++) {
            uint64_t m = l.out[i].ledger, note = l.out[i].note;
            if (!get_ledger(store, m, &to) || htc__ledger_accepted(&to, j, note) || to.worker < 1 || to.worker > WORKERS || workers[to.worker - 1] <= 0)
                continue;
            kill(workers[to.worker - 1], SIGKILL);
            int waits = get_ledger(store, m, &to) && !htc__ledger_accepted(&to, j, note) && get_ledger(store, j, &l) && htc__ledger_note(&l, note);
            return waits ? 2 : 1;
        }
    return 0;
}

/* ---- the end ---- */

static void check_lines(void)
{
    char     path[300];
    uint8_t *seen = calloc(tasks, 1);
    uint64_t id, lines = 0, there = 0;
    snprintf(path, sizeof path, "%s/lines", top);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%lu", &id) == 1) {
        if (id >= tasks)
            fail("a line of task %lu", (unsigned long)id);
        there += !seen[id];
        seen[id] = 1;
        lines++;
    }
    if (f)
        fclose(f);
    if (there != tasks)
        fail("%lu of %lu tasks have left a line", (unsigned long)there, (unsigned long)tasks);
    printf("%lu lines of %lu tasks\n", (unsigned long)lines, (unsigned long)tasks);
    free(seen);
}

int main(int argc, char **argv)
{
    char     program[400], dir[300];
    flow     f = { 0 };
    uint64_t kills = 0, between = 0, thieves = 0, ledgers = 0;
    int      light = getenv("HTC_TEST_LIGHT") != NULL;
    if (argc != 2)
        return 2;
    const char *given = getenv("HTC_TEST_SEED");
    htc_rng     rng = { given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32 };
    printf("seed %llu\n", (unsigned long long)rng.state);
    if (light)
        tasks = 1000;
    strcpy(top, "/tmp/htc-workers-XXXXXX");
    if (!mkdtemp(top))
        fail("a directory");
    snprintf(dir, sizeof dir, "%s/data/out/%d", top, FLOW);
    htc__make_dirs(dir);
    snprintf(dir, sizeof dir, "%s/store", top);
    snprintf(program, sizeof program, "%s/htc-kvd", argv[1]);
    kvd = fork();
    if (kvd == 0) {
        execl(program, program, "--engine", "log", "--dir", dir, (char *)NULL);
        _exit(127);
    }
    htc_store *store = open_store();
    submit(store);
    for (uint32_t i = 0; i < WORKERS; i++)
        start_worker(i);
    htc_ns begun = htc_host_now(), next_kill = begun + HTC_SECOND;
    while (!has_ended(store, &f)) {
        if (htc_host_now() > begun + PATIENCE)
            fail("the flow has not ended");
        reap();
        int how = between < 3 ? kill_between(store) : 0;
        thieves += how != 0;
        between += how == 2;
        if (kills < (light ? 3u : 10u) && htc_host_now() > next_kill) {
            uint32_t i = (uint32_t)htc_rng_below(&rng, WORKERS);
            if (workers[i] > 0)
                kill(workers[i], SIGKILL);
            kills++;
            next_kill = htc_host_now() + htc_rng_below(&rng, HTC_SECOND);
        }
        usleep(500);
    }
    if (f.counts.done != tasks || f.counts.failed || f.counts.cancelled)
        fail("%lu done, %lu failed of %lu", (unsigned long)f.counts.done, (unsigned long)f.counts.failed, (unsigned long)tasks);
    ledger l;
    uint64_t stolen = 0, by_others = 0;
    for (uint64_t j = 0; j < beyond + WORKERS; j++)
        if (find_ledger(store, j, &l)) {
            ledgers++;
            by_others += j ? l.counts.done : 0;
            stolen += j ? l.counts.done : 0;
        }
    htc_store_close(store);
    printf("%.1f s, %lu lives, %lu workers killed at random, %lu thieves, %lu of them between give and accept; %lu ledgers; %lu tasks ended in another "
           "ledger than the first\n",
           (double)(htc_host_now() - begun) / 1e9, (unsigned long)lives, (unsigned long)kills, (unsigned long)thieves, (unsigned long)between,
           (unsigned long)ledgers, (unsigned long)by_others);
    end_all();
    check_lines();
    if (stolen * 10 < tasks)
        fail("fewer than a tenth of the tasks were stolen");
    htc__remove_tree(top);
    printf("ok\n");
    return 0;
}
