/* Partition controllers, run: each is a process that looks for nodes with htc_balance, takes and gives them back with htc_record by compare-and-swap in a store, and
 * writes the records of its jobs. A process beside them is the monitor. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/record.h"
#include "htcsched/store.h"
#include "jobs_live.h"

/* What a controller counts, for the process that began it. */
typedef struct counts {
    uint64_t  granted, requests, requests_all, services, swaps, conflicts, steals, rounds;
    double    latency_s, latency_max_s, node_s;
    htc_ns    last; /* its last job has ended */
    htc_error error;
} counts;

typedef struct shared {
    volatile int done; /* the monitor may go */
    counts       of[JOBS_LIVE_CONTROLLERS + 1];
    htc_sim_jobs_ended ended[]; /* of each job by its number, if there is a history; nodes 0: it has not ended */
} shared;

/* A job that has nodes. */
typedef struct live_job {
    uint64_t number;
    htc_ns   begun, starts, ends;
    uint32_t need;
    uint8_t  in[JOBS_LIVE_CONTROLLERS]; /* of which partitions */
} live_job;

typedef struct controller {
    const jobs_study *j;
    htc_store        *store;
    htc_balance      *balance;
    counts           *c;
    htc_rng           rng;
    htc_ns            zero;
    uint32_t          own, n; /* n: partitions */
    uint64_t          asked;
    htc_sim_jobs_ended *ended;   /* NULL: nobody wants to know */
    live_job         *running; /* in no order */
    size_t            n_running;
    htc_status        status; /* of the first thing that failed */
} controller;

static htc_ns clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

static htc_ns now_of(const controller *c)
{
    return clock_ns() - c->zero;
}

static void sleep_until(const controller *c, htc_ns at)
{
    htc_ns          t = c->zero + at;
    struct timespec when = { (time_t)(t / HTC_SECOND), (long)(t % HTC_SECOND) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

static int ok(controller *c, htc_status status)
{
    c->status = c->status == HTC_OK ? status : c->status;
    return status == HTC_OK;
}

/* ---- the store ---- */

static htc_status ask(controller *c, htc_kv_request *q, htc_kv_result *r)
{
    htc_status status = htc_store_ask(c->store, q, r, &c->c->error);
    c->asked++;
    return status == HTC_OK ? r->status : status;
}

static void key_of(char *key, const char *kind, uint64_t number)
{
    snprintf(key, 48, "%s/%llu", kind, (unsigned long long)number);
}

static void put(controller *c, const char *key, htc_bytes value)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = value };
    htc_kv_result  r = { .size = sizeof r };
    ok(c, ask(c, &q, &r));
}

static uint32_t free_in(controller *c, htc_bytes record)
{
    htc_record_summary s = { 0 };
    return ok(c, htc_record_count(NULL, record, &s)) ? s.free : 0;
}

static htc_status take(htc_bytes record, htc_bytes job, uint32_t most, htc_bytes *next)
{
    htc_record_ask wanted = HTC_RECORD_ASK_INIT;
    wanted.job = job;
    wanted.attempt = 1;
    wanted.most = most;
    wanted.least = 1;
    return htc_record_take(NULL, record, &wanted, next, NULL);
}

/* Nodes are taken for a job (most > 0), or given back, by compare-and-swap until the record says that they are, or that there are none. */
static htc_balance_answer change(controller *c, uint32_t partition, uint64_t number, uint32_t most)
{
    char               key[48], job[48];
    htc_balance_answer answer = { 0, 0 };
    htc_kv_result      r = { .size = sizeof r };
    key_of(key, "partition", partition);
    key_of(job, "job", number);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of(key) };
    htc_status     status = ask(c, &q, &r);
    while (status == HTC_OK || status == HTC_MISMATCH) {
        htc_bytes next = { 0 };
        uint32_t  had = free_in(c, r.value), has;
        status = most ? take(r.value, htc_bytes_of(job), most, &next) : htc_record_release(NULL, r.value, htc_bytes_of(job), 1, &next, NULL);
        answer.free = had;
        if (status == HTC_AGAIN) /* none is free */
            return answer;
        if (!ok(c, status))
            return answer;
        has = free_in(c, next);
        q = (htc_kv_request){ .size = sizeof q, .op = HTC_KV_CAS_VERSION, .key = htc_bytes_of(key), .value = next, .version = r.version };
        status = ask(c, &q, &r);
        htc_record_free(NULL, next);
        c->c->swaps++;
        c->c->conflicts += status == HTC_MISMATCH;
        if (status == HTC_OK) {
            answer = (htc_balance_answer){ most ? had - has : 0, has };
            return answer;
        }
    }
    ok(c, status);
    return answer;
}

/* ---- jobs ---- */

static void give_back(controller *c, live_job *job)
{
    for (uint32_t p = 0; p < c->n; p++)
        if (job->in[p]) {
            htc_balance_answer a = change(c, p, job->number, 0);
            ok(c, htc_balance_learn(c->balance, p, a.free));
            job->in[p] = 0;
        }
}

/* When it was over, not when that was noticed: as in the model. */
static void keep_ended(const controller *c, const live_job *job)
{
    if (c->ended)
        c->ended[job->number] = (htc_sim_jobs_ended){ .size = sizeof *c->ended, .job = job->number, .controller = c->own, .nodes = job->need, .submitted = job->begun,
                                                      .started = job->starts, .ended = job->ends };
}

/* Jobs whose time is over give back what they have. Answers for when the next one ends. */
static htc_ns end_jobs(controller *c)
{
    htc_ns next = HTC_NEVER;
    for (size_t i = 0; i < c->n_running && c->status == HTC_OK;)
        if (c->running[i].ends <= now_of(c)) {
            uint64_t asked = c->asked;
            keep_ended(c, &c->running[i]);
            give_back(c, &c->running[i]);
            c->c->requests_all += c->asked - asked;
            c->running[i] = c->running[--c->n_running];
            c->c->last = now_of(c);
        } else {
            next = c->running[i].ends < next ? c->running[i].ends : next;
            i++;
        }
    return next;
}

static void pull(controller *c)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of("census") };
    htc_kv_result  r = { .size = sizeof r };
    if (htc_balance_pull_due(c->balance) > now_of(c))
        return;
    htc_status status = ask(c, &q, &r);
    c->asked--;
    c->c->services++;
    if (status == HTC_OK)
        ok(c, htc_balance_pull(c->balance, now_of(c), &c->rng, r.value));
    else if (status != HTC_ENOTFOUND) /* there is none yet */
        ok(c, status);
}

/* Its id, its origin, and one for each partition that takes part. */
static void write_records(controller *c, const live_job *job)
{
    char key[64], value[32];
    snprintf(value, sizeof value, "%u", (unsigned)c->own);
    key_of(key, "job", job->number);
    put(c, key, htc_bytes_of(value));
    snprintf(key, sizeof key, "job/%llu/%u", (unsigned long long)job->number, (unsigned)c->own);
    put(c, key, htc_bytes_of(value));
    for (uint32_t p = 0; p < c->n; p++)
        if (job->in[p]) {
            snprintf(key, sizeof key, "job/%llu/%u/%u", (unsigned long long)job->number, (unsigned)c->own, (unsigned)p);
            put(c, key, htc_bytes_of(value));
        }
}

static void find_nodes(controller *c, live_job *job)
{
    htc_balance_request *request = NULL;
    htc_balance_action   next = { 0 };
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    ok(c, htc_balance_begin(c->balance, job->need, &request));
    while (c->status == HTC_OK && next.kind != HTC_BALANCE_DONE) {
        htc_ns ends = end_jobs(c);
        pull(c);
        if (!ok(c, htc_balance_step(request, now_of(c), &c->rng, &answer, &next)))
            break;
        answer = (htc_balance_answer)HTC_BALANCE_ANSWER_INIT;
        if (next.kind == HTC_BALANCE_TAKE) {
            answer = change(c, next.partition, job->number, next.nodes);
            job->in[next.partition] |= answer.taken > 0;
        } else if (next.kind == HTC_BALANCE_RELEASE)
            give_back(c, job);
        else if (next.kind == HTC_BALANCE_WAIT)
            sleep_until(c, ends < next.until ? ends : next.until);
    }
    htc_balance_progress p = { 0 };
    (void)htc_balance_progress_of(request, &p);
    c->c->steals += p.steals;
    c->c->rounds += p.rounds;
    htc_balance_end(request);
}

static double unit(htc_rng *rng)
{
    return ((double)(htc_rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

static void run_jobs(controller *c, uint64_t count)
{
    const htc_sim_jobs_options *o = &c->j->options;
    for (uint64_t k = 0; k < count && c->status == HTC_OK; k++) {
        uint64_t asked = c->asked, others = c->c->requests_all;
        live_job job = { .number = c->own + k * c->n, .begun = now_of(c), .need = o->nodes_min + (uint32_t)htc_rng_below(&c->rng, o->nodes_max - o->nodes_min + 1u) };
        double   length = o->length.kind == HTC_SCALE_EXPONENTIAL ? -o->length.mean_ns * log(unit(&c->rng)) : o->length.mean_ns;
        find_nodes(c, &job);
        write_records(c, &job);
        double took = (double)(now_of(c) - job.begun) / 1e9;
        asked += c->c->requests_all - others; /* of jobs that have ended meanwhile */
        job.starts = now_of(c);
        job.ends = job.starts + (htc_ns)length;
        c->running[c->n_running++] = job;
        c->c->granted++;
        c->c->node_s += length / 1e9 * job.need;
        c->c->requests += c->asked - asked;
        c->c->requests_all += c->asked - asked;
        c->c->latency_s += took;
        c->c->latency_max_s = fmax(c->c->latency_max_s, took);
    }
    for (htc_ns next; c->status == HTC_OK && (next = end_jobs(c)) != HTC_NEVER;)
        sleep_until(c, next);
}

/* ---- processes ---- */

static htc_status open_store(controller *c, const char *address)
{
    htc_store_options o = { .size = sizeof o, .address = address };
    return htc_store_open(NULL, &o, &c->store, &c->c->error);
}

static void controller_main(controller *c, const char *address, uint64_t count)
{
    const htc_sim_jobs_options *o = &c->j->options;
    htc_balance_options         how = HTC_BALANCE_OPTIONS_INIT;
    how.policy = o->policy;
    how.partitions = c->n;
    how.own = c->own;
    how.tries = o->tries;
    how.wait_ns = o->wait_ns;
    how.wait_ns_max = o->wait_ns_max;
    how.pull_ns = o->pull_ns;
    c->running = calloc(o->nodes + 1u, sizeof *c->running);
    if (ok(c, c->running ? open_store(c, address) : HTC_ENOMEM) && ok(c, htc_balance_create(NULL, &how, &c->balance)))
        run_jobs(c, count);
    htc_balance_destroy(c->balance);
    htc_store_close(c->store);
    free(c->running);
}

static void monitor_main(controller *c, const char *address, const volatile int *done)
{
    htc_balance_monitor *m = NULL;
    htc_balance_action   next;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    ok(c, open_store(c, address));
    ok(c, htc_balance_monitor_create(NULL, c->n, c->j->options.monitor_ns, &m));
    while (!*done && c->status == HTC_OK && ok(c, htc_balance_monitor_step(m, now_of(c), &answer, &next))) {
        char           key[48];
        htc_kv_result  r = { .size = sizeof r };
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of(key) };
        answer = (htc_balance_answer)HTC_BALANCE_ANSWER_INIT;
        if (next.kind == HTC_BALANCE_LOOK) {
            key_of(key, "partition", next.partition);
            q.key = htc_bytes_of(key);
            if (ok(c, ask(c, &q, &r)))
                answer.free = free_in(c, r.value);
        } else if (next.kind == HTC_BALANCE_PUBLISH)
            put(c, "census", next.body);
        else
            sleep_until(c, next.until);
    }
    c->c->services = c->asked;
    htc_balance_monitor_destroy(m);
    htc_store_close(c->store);
}

/* A process of one controller; the last is the monitor. Ends with 0 if all is well. */
static pid_t begin(const jobs_study *j, const char *address, shared *all, uint32_t i, uint32_t n, uint64_t count, htc_ns zero)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    controller c = { .j = j, .c = &all->of[i], .rng = { j->options.seed << 8 | i }, .zero = zero, .own = i, .n = n, .ended = j->options.ended ? all->ended : NULL };
    if (i == n)
        monitor_main(&c, address, &all->done);
    else
        controller_main(&c, address, count);
    if (c.status != HTC_OK && !c.c->error.text[0])
        snprintf(c.c->error.text, sizeof c.c->error.text, "a controller cannot go on: %s", htc_strerror(c.status));
    _exit(c.status != HTC_OK);
}

static int wait_for(pid_t pid)
{
    int status = -1;
    do {
        if (watch_stopped())
            kill(pid, SIGKILL);
    } while (waitpid(pid, &status, 0) < 0 && errno == EINTR);
    return status == 0;
}

/* Records in which all nodes are free; then, that they are so again. */
static void partitions(controller *c, jobs_study *j, const char *address, int begins)
{
    uint32_t size = j->options.partition, all = j->options.nodes;
    ok(c, open_store(c, address));
    for (uint32_t p = 0; p < c->n && c->status == HTC_OK; p++) {
        char           key[48];
        htc_bytes      record = { 0 };
        htc_kv_result  r = { .size = sizeof r };
        uint32_t       nodes = p + 1 < c->n ? size : all - size * (c->n - 1);
        key_of(key, "partition", p);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of(key) };
        if (begins && ok(c, htc_record_create(NULL, nodes, 1, &record))) {
            put(c, key, record);
            htc_record_free(NULL, record);
        } else if (!begins && ok(c, ask(c, &q, &r)) && free_in(c, r.value) != nodes)
            snprintf(j->report.scale.wrong, sizeof j->report.scale.wrong, "in the end nodes of partition %u are still taken", (unsigned)p);
    }
    htc_store_close(c->store);
    c->store = NULL;
}

static void tell(jobs_study *j, const shared *all, uint32_t n)
{
    htc_sim_jobs_report *r = &j->report;
    double               latency = 0, node_s = 0;
    uint64_t             requests_all = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const counts *c = &all->of[i];
        r->granted += c->granted;
        r->requests += c->requests;
        requests_all += c->requests_all;
        r->services += c->services;
        r->swaps += c->swaps;
        r->conflicts += c->conflicts;
        r->steals += c->steals;
        r->rounds += c->rounds;
        latency += c->latency_s;
        node_s += c->node_s;
        r->latency_max_s = fmax(r->latency_max_s, c->latency_max_s);
        r->scale.makespan = c->last > r->scale.makespan ? c->last : r->scale.makespan;
    }
    double granted = r->granted ? (double)r->granted : 1, span = r->scale.makespan ? (double)r->scale.makespan / 1e9 : 1;
    r->controllers = n;
    r->scale.submitted = r->scale.ended = r->granted;
    r->scale.span = r->scale.makespan;
    r->throughput = (double)r->granted / span;
    r->latency_s = latency / granted;
    r->messages = (double)r->requests / granted;
    r->messages_all = (double)requests_all / granted;
    r->utilisation = node_s / span / j->options.nodes;
}

int jobs_live_run(jobs_study *j, const char *address, htc_error *error)
{
    const htc_sim_jobs_options *o = &j->options;
    uint32_t                    n = (o->nodes + o->partition - 1) / o->partition;
    pid_t                       pid[JOBS_LIVE_CONTROLLERS + 1];
    if (o->central || o->next_job || o->used > 0 || o->sizes != HTC_SIM_JOBS_UNIFORM || n > JOBS_LIVE_CONTROLLERS || o->nodes_max > o->nodes ||
        (o->length.kind != HTC_SCALE_CONSTANT && o->length.kind != HTC_SCALE_EXPONENTIAL) || !address[0])
        return settings_refuse(error, HTC_ECONFIG, "such an experiment cannot be run live",
                               "name a store (sim.store); 64 partitions at most, sizes uniform, lengths constant or exponential, no log and no central controller");
    size_t  bytes = sizeof(shared) + (o->ended ? (size_t)o->jobs * sizeof(htc_sim_jobs_ended) : 0);
    shared *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    controller c = { .j = j, .c = &all->of[n], .n = n };
    partitions(&c, j, address, 1);
    htc_ns   zero = clock_ns();
    uint32_t begun = 0;
    int      good = c.status == HTC_OK;
    while (good && begun <= n) {
        pid[begun] = begin(j, address, all, begun, n, o->jobs / n + (begun < o->jobs % n), zero);
        good = pid[begun] > 0;
        begun += good ? 1u : 0u;
    }
    for (uint32_t i = 0; i < begun; i++) {
        all->done = all->done || i == n; /* the monitor is the last */
        good = wait_for(pid[i]) && good;
    }
    j->report.interrupted = watch_stopped();
    if (good)
        partitions(&c, j, address, 0);
    good = (good && c.status == HTC_OK) || j->report.interrupted;
    tell(j, all, n);
    for (uint32_t i = 0; i <= n && !good; i++)
        if (all->of[i].error.text[0])
            *error = all->of[i].error;
    if (!good && !error->text[0])
        settings_refuse(error, HTC_ESTORE, "a controller has failed", "look whether the store still answers");
    for (uint64_t i = 0; o->ended && good && i < o->jobs; i++)
        if (all->ended[i].nodes)
            o->ended(o->ctx, &all->ended[i]);
    munmap(all, bytes);
    return good;
}
