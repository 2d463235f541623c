/* Three members of one store, each a process with its own log, joined through a proxy of ours; sixteen clients doing cas and add on a
 * few keys, and two that hold leases with a key bound to each, while members are killed with SIGKILL, stopped for longer than any
 * patience of theirs and let go on, and cut off from each other. What the clients were told is judged by htcsched/history.h: linearizable, versions rise, no counter off by one.
 *
 * A minute; HTC_TEST_LIGHT: eight seconds; HTC_TEST_FULL=1: ten minutes; HTC_TEST_SECONDS=N: N. HTC_TEST_SEED=N: other faults. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "htcsched/history.h"
#include "htcsched/kv_store.h"
#include "htcsched/store.h"
#include "link_proxy.h"

#define MEMBERS 3
#define CLIENTS 16
#define HOLDERS 2   /* of leases, beside them */
#define LEASES  512 /* of all of them, at most */
#define TTL     (600 * HTC_MS)
#define KEYS    4 /* at a time; the first two are counters */
#define OPS_MAX 400000
/* Then come other keys: an order of additions is hard to find where the outcomes of many are not known. */
#define AGE  (4 * HTC_SECOND)
#define AGES 256

static char     dir[64];
static uint64_t seed = 1;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAILED: %s (in %s, seed %llu)\n", what, dir, (unsigned long long)seed);
    exit(1);
}

static void member_socket(int member, char path[96])
{
    snprintf(path, 96, "%s/%d.sock", dir, member);
}

/* What member `from` dials to meet member `to`. */
static void link_socket(int from, int to, char path[96])
{
    snprintf(path, 96, "%s/%d-%d.sock", dir, from, to);
}

/* ---------------------------------------------------------------- a member */

static int serve(int self)
{
    char                  path[96], store_dir[96];
    htc_kv_store         *store;
    htc_host             *host;
    htc_error             error = { 0 };
    htc_rng               rng;
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_member         members[MEMBERS] = { { 0 } };
    htc_host_options      ho = { .size = sizeof ho, .handle_signals = 1, .redial_max_ns = 50 * HTC_MS };
    htc_kv_server_options server = { .size = sizeof server,
                                     .self = 11 + (uint64_t)self,
                                     .members = members,
                                     .member_count = MEMBERS,
                                     .suspect_ns = 500 * HTC_MS,
                                     .request_ns = 3 * HTC_SECOND };
    htc_kv_store_options  so = { .size = sizeof so, .dir = store_dir, .server = &server, .engine = HTC_KV_LOG };
    htc_host_random(&rng.state, sizeof rng.state);
    snprintf(store_dir, sizeof store_dir, "%s/%d", dir, self);
    check(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    for (int i = 0; i < MEMBERS; i++) {
        members[i].id = 11 + (uint64_t)i;
        member_socket(i, path);
        if (i == self) {
            check(htc_host_listen_unix(host, path, 0600, 1, &error) == HTC_OK, error.text);
            continue;
        }
        link_socket(self, i, path);
        check(htc_host_dial_unix(host, path, 2, &members[i].peer, &error) == HTC_OK, error.text);
    }
    check(htc_kv_store_open(&env, &so, &store, &error) == HTC_OK, error.text);
    htc_kv_store_attach(store, host);
    htc_status status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    htc_host_destroy(host);
    htc_kv_store_close(store);
    return htc_exit_code(status);
}

static pid_t start_member(int member)
{
    fflush(NULL);
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve(member));
    }
    return pid;
}

/* ---------------------------------------------------------------- clients */

static htc_history    *history;
static uint32_t        keys[AGES * KEYS];
static uint32_t        leases[LEASES];
static int             lease_count;
static htc_ns          begun;
static uint32_t        ages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int      stop;
static int             told, unknown;

typedef struct user {
    int        number;
    htc_rng    rng;
    htc_store *store;
    uint64_t   version; /* seen last, of whatever key */
    char       seen[32];
} user;

static htc_status connect_to(user *u, int member)
{
    char              path[96], address[112];
    htc_error         error = { 0 };
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = 1500 * HTC_MS };
    member_socket(member, path);
    snprintf(address, sizeof address, "unix:%s", path);
    return htc_store_open(NULL, &o, &u->store, &error);
}

static void choose(user *u, htc_kv_request *q, htc_history_op *op, char text[32])
{
    uint64_t what = htc_rng_below(&u->rng, 10);
    uint32_t k = (uint32_t)htc_rng_below(&u->rng, KEYS);
    *op = (htc_history_op)HTC_HISTORY_OP_INIT;
    uint64_t age = (proxy_now() - begun) / AGE % ages;
    op->key = keys[age * KEYS + k];
    op->process = (uint64_t)u->number;
    op->kind = HTC_HISTORY_GET;
    *q = (htc_kv_request){ .op = HTC_KV_GET, .key = htc_history_key_bytes(history, op->key) };
    if (k < 2 && what < 8) {
        q->op = HTC_KV_ADD;
        op->kind = HTC_HISTORY_ADD;
        q->delta = op->delta = 1 + (int64_t)htc_rng_below(&u->rng, UINT64_C(1) << 40); /* a sum tells what is in it */
    } else if (k >= 2 && what < 8) {
        q->op = what == 0 ? HTC_KV_PUT : what < 4 ? HTC_KV_CAS_VERSION : HTC_KV_CAS_VALUE;
        op->kind = what == 0  ? (uint32_t)HTC_HISTORY_PUT
                   : what < 4 ? (uint32_t)HTC_HISTORY_CAS_VERSION
                              : (uint32_t)HTC_HISTORY_CAS_VALUE;
        snprintf(text, 32, "%d-%llx", u->number, (unsigned long long)(htc_rng_next(&u->rng) >> 16));
        q->value = htc_bytes_of(text);
        op->argument = htc_history_value_of(q->value);
        q->version = op->expected = q->op == HTC_KV_CAS_VERSION ? u->version : 0;
        if (q->op == HTC_KV_CAS_VALUE) {
            q->seen = htc_bytes_of(u->seen);
            op->seen = htc_history_value_of(q->seen);
        }
    }
}

static void note(user *u, size_t at, const htc_kv_request *q, htc_status status, const htc_kv_result *r)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    if (status == HTC_OK)
        status = r->status;
    if (status != HTC_OK && status != HTC_MISMATCH && status != HTC_ENOTFOUND) {
        check(status == HTC_EUNKNOWN || status == HTC_ETIMEDOUT || status == HTC_EUNREACHABLE, htc_status_name(status));
        unknown++;
        return;
    }
    told++;
    u->version = r->version;
    if (r->value.data)
        snprintf(u->seen, sizeof u->seen, "%.*s", (int)r->value.len, (const char *)r->value.data);
    op.outcome = status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    op.returned = proxy_now();
    op.version = r->version;
    if (q->op == HTC_KV_ADD && status == HTC_OK)
        op.number = r->number;
    if (r->value.data)
        op.observed = htc_history_value_of(r->value);
    else if (status == HTC_MISMATCH || (q->op == HTC_KV_GET && status == HTC_ENOTFOUND))
        op.observed.length = HTC_HISTORY_ABSENT;
    check(htc_history_answer(history, at, &op) == HTC_OK, "the history takes an answer");
}

static void one_request(user *u, uint32_t flags, const htc_kv_request *given, htc_history_op *op)
{
    htc_kv_result  r = { 0 };
    htc_kv_request q = *given;
    size_t         at;
    op->flags = flags;
    pthread_mutex_lock(&lock);
    int room = htc_history_count(history) < OPS_MAX;
    op->invoked = proxy_now();
    if (room)
        check(htc_history_add(history, op, &at) == HTC_OK, "the history takes a request");
    pthread_mutex_unlock(&lock);
    if (!room)
        return;
    htc_status status = htc_store_ask(u->store, &q, &r, NULL);
    pthread_mutex_lock(&lock);
    note(u, at, &q, status, &r);
    pthread_mutex_unlock(&lock);
    if (status != HTC_OK || r.status == HTC_ETIMEDOUT) {
        htc_store_close(u->store);
        u->store = NULL;
    }
}

static void *client_run(void *arg)
{
    user *u = arg;
    while (!stop) {
        htc_kv_request q;
        htc_history_op op;
        char           text[32];
        if (!u->store && connect_to(u, (int)htc_rng_below(&u->rng, MEMBERS)) != HTC_OK) {
            u->store = NULL;
            continue;
        }
        pthread_mutex_lock(&lock); /* keys are lent until one is added, which nobody does any more */
        choose(u, &q, &op, text);
        pthread_mutex_unlock(&lock);
        one_request(u, 0, &q, &op);
        if (htc_rng_below(&u->rng, 200) == 0 && u->store) { /* another member, now and then */
            htc_store_close(u->store);
            u->store = NULL;
        }
    }
    htc_store_close(u->store);
    u->store = NULL;
    return NULL;
}

/* ---------------------------------------------------------------- who holds leases */

typedef struct held {
    int      number; /* of leases[]; -1: none */
    uint64_t lease;
    int      bound;
    char     name[24];
} held;

static htc_kv_request lease_request(const held *h, uint32_t kind)
{
    htc_bytes key = htc_bytes_of(h->name);
    switch (kind) {
    case HTC_HISTORY_GRANT:
        return (htc_kv_request){ .op = HTC_KV_LEASE_GRANT, .ttl = TTL };
    case HTC_HISTORY_RENEW:
        return (htc_kv_request){ .op = HTC_KV_LEASE_RENEW, .lease = h->lease };
    case HTC_HISTORY_REVOKE:
        return (htc_kv_request){ .op = HTC_KV_LEASE_REVOKE, .lease = h->lease };
    case HTC_HISTORY_PUT:
        return (htc_kv_request){ .op = HTC_KV_PUT, .key = key, .value = key, .lease = h->lease };
    default:
        return (htc_kv_request){ .op = HTC_KV_GET, .key = key };
    }
}

/* HTC_OK, HTC_ENOTFOUND, or something that says nothing of the lease. */
static htc_status lease_deed(user *u, held *h, uint32_t kind)
{
    htc_kv_request q = lease_request(h, kind);
    htc_kv_result  r = { 0 };
    htc_history_op op = HTC_HISTORY_OP_INIT, told_op = HTC_HISTORY_OP_INIT;
    size_t         at;
    op.kind = kind == HTC_HISTORY_PUT ? (uint32_t)HTC_HISTORY_LOOK : kind;
    op.key = leases[h->number];
    op.process = (uint64_t)u->number;
    op.expected = kind == HTC_HISTORY_GRANT ? TTL : 0;
    pthread_mutex_lock(&lock);
    op.invoked = proxy_now();
    check(htc_history_add(history, &op, &at) == HTC_OK, "the history takes a deed");
    pthread_mutex_unlock(&lock);
    htc_status status = htc_store_ask(u->store, &q, &r, NULL);
    status = status == HTC_OK ? r.status : status;
    pthread_mutex_lock(&lock);
    told_op.outcome = status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
    told_op.returned = proxy_now();
    /* A revocation that was sent twice may have met its own work. */
    if (status == HTC_OK || (status == HTC_ENOTFOUND && kind != HTC_HISTORY_REVOKE))
        check(htc_history_answer(history, at, &told_op) == HTC_OK, "the history takes an answer");
    pthread_mutex_unlock(&lock);
    if (kind == HTC_HISTORY_GRANT)
        h->lease = r.lease;
    if (status != HTC_OK && status != HTC_ENOTFOUND) {
        check(status == HTC_EUNKNOWN || status == HTC_ETIMEDOUT || status == HTC_EUNREACHABLE, htc_status_name(status));
        htc_store_close(u->store);
        u->store = NULL;
    }
    return status;
}

static int new_lease(held *h)
{
    pthread_mutex_lock(&lock);
    *h = (held){ .number = lease_count < LEASES ? lease_count++ : -1 };
    pthread_mutex_unlock(&lock);
    snprintf(h->name, sizeof h->name, "bound/%d", h->number);
    return h->number >= 0;
}

static void *holder_run(void *arg)
{
    user *u = arg;
    held  h = { .number = -1 };
    while (!stop) {
        if (!u->store && connect_to(u, (int)htc_rng_below(&u->rng, MEMBERS)) != HTC_OK) {
            u->store = NULL;
            continue;
        }
        uint64_t what = htc_rng_below(&u->rng, 30);
        if (h.number < 0) {
            if (!new_lease(&h))
                break;
            if (lease_deed(u, &h, HTC_HISTORY_GRANT) != HTC_OK)
                h.number = -1;
            continue;
        }
        uint32_t   kind = !h.bound    ? (uint32_t)HTC_HISTORY_PUT
                          : what == 0 ? (uint32_t)HTC_HISTORY_REVOKE
                          : what & 1  ? (uint32_t)HTC_HISTORY_RENEW
                                      : (uint32_t)HTC_HISTORY_LOOK;
        htc_status status = lease_deed(u, &h, kind);
        h.bound |= kind == HTC_HISTORY_PUT && status == HTC_OK;
        if (status == HTC_ENOTFOUND || kind == HTC_HISTORY_REVOKE || !h.bound)
            h.number = -1;                          /* it is gone, or nobody knows whether its key is there */
        if (kind == HTC_HISTORY_RENEW && what == 1) /* long enough for it to end */
            nanosleep(&(struct timespec){ 1, 0 }, NULL);
    }
    htc_store_close(u->store);
    return NULL;
}

/* ---------------------------------------------------------------- the verdict */

/* After all has healed every key is read by every member. */
static void last_look(void)
{
    for (int m = 0; m < MEMBERS; m++) {
        user u = { .number = CLIENTS + HOLDERS + m };
        for (uint32_t k = 0; k < ages * KEYS; k++) {
            htc_kv_request q = { .op = HTC_KV_GET, .key = htc_history_key_bytes(history, keys[k]) };
            htc_ns         until = proxy_now() + 60 * HTC_SECOND;
            for (int before = told; told == before;) {
                htc_history_op op = HTC_HISTORY_OP_INIT;
                op.kind = HTC_HISTORY_GET;
                op.key = keys[k];
                op.process = (uint64_t)u.number;
                check(proxy_now() < until, "every member answers when all has healed");
                if (!u.store && connect_to(&u, m) != HTC_OK)
                    u.store = NULL;
                else
                    one_request(&u, HTC_HISTORY_FINAL, &q, &op);
            }
        }
        htc_store_close(u.store);
    }
}

/* For whoever wants to know why: htc_history_read reads it. */
static void keep_history(void)
{
    char  path[96], line[2048];
    FILE *f;
    snprintf(path, sizeof path, "%s/history", dir);
    if (!(f = fopen(path, "we")))
        return;
    for (size_t i = 0; i < htc_history_count(history); i++)
        if (htc_history_line(history, i, line, sizeof line))
            fprintf(f, "%s\n", line);
    fclose(f);
    fprintf(stderr, "the history is in %s\n", path);
}

static void judge(const char *rule,
                  htc_status (*checker)(const htc_history *, const htc_history_rules *, htc_history_verdict *))
{
    htc_history_verdict v;
    htc_history_rules   rules = { .size = sizeof rules,
                                  .takeover_ns = 600 * HTC_SECOND }; /* lateness has a test of its own */
    check(checker(history, &rules, &v) == HTC_OK, rule);
    if (v.answer != HTC_HISTORY_HOLDS) {
        fprintf(stderr, "%s: %s\n", rule, v.text);
        keep_history();
    }
    check(v.answer == HTC_HISTORY_HOLDS, rule);
}

/* A process of its own. It goes on until a byte comes. */
static int clients_run(int from)
{
    static const char *const names[KEYS] = { "count/a", "count/b", "cas/a", "cas/b" };
    char                     name[32];
    pthread_t                threads[CLIENTS + HOLDERS];
    user                     users[CLIENTS + HOLDERS] = { { 0 } };
    char                     byte;
    check(htc_history_create(NULL, NULL, &history) == HTC_OK, "a history");
    for (uint32_t k = 0; k < ages * KEYS; k++) {
        snprintf(name, sizeof name, "%s/%u", names[k % KEYS], (unsigned)(k / KEYS));
        check(htc_history_key(history, htc_bytes_of(name), &keys[k]) == HTC_OK, "a key");
    }
    for (int i = 0; i < LEASES; i++) {
        snprintf(name, sizeof name, "lease/%d", i);
        check(htc_history_key(history, htc_bytes_of(name), &leases[i]) == HTC_OK, "a key");
    }
    begun = proxy_now();
    for (int i = 0; i < CLIENTS + HOLDERS; i++) {
        users[i] = (user){ .number = i, .rng = { seed * 1000 + (uint64_t)i } };
        check(pthread_create(&threads[i], NULL, i < CLIENTS ? client_run : holder_run, &users[i]) == 0, "a thread");
    }
    check(read(from, &byte, 1) == 1, "told to end");
    stop = 1;
    for (int i = 0; i < CLIENTS + HOLDERS; i++)
        pthread_join(threads[i], NULL);
    last_look();
    judge("linearizable", htc_history_linear);
    judge("versions rise", htc_history_rising);
    judge("nothing acknowledged is lost", htc_history_kept);
    judge("no counter is off", htc_history_counted);
    judge("no lease ended early or came back", htc_history_leased);
    check(told > 0, "something was done");
    printf("%zu requests, %d told, %d unknown, %d leases", htc_history_count(history), told, unknown, lease_count);
    htc_history_destroy(history);
    return 0;
}

/* ---------------------------------------------------------------- faults */

static void wait_ns(htc_ns ns)
{
    nanosleep(&(struct timespec){ (time_t)(ns / HTC_SECOND), (long)(ns % HTC_SECOND) }, NULL);
}

/* One member at a time; what the proxy does comes on top of it. */
static void some_fault(htc_rng *rng, pid_t pids[MEMBERS], int counts[2])
{
    int victim = (int)htc_rng_below(rng, MEMBERS), kills = htc_rng_below(rng, 2) == 0;
    counts[!kills]++;
    if (kills) {
        check(kill(pids[victim], SIGKILL) == 0 && waitpid(pids[victim], NULL, 0) == pids[victim], "killed");
        wait_ns(htc_rng_below(rng, 500) * HTC_MS);
        pids[victim] = start_member(victim);
    } else {
        kill(pids[victim], SIGSTOP);
        wait_ns((300 + htc_rng_below(rng, 900)) * HTC_MS);
        kill(pids[victim], SIGCONT);
    }
    wait_ns((100 + htc_rng_below(rng, 400)) * HTC_MS);
}

static void make_links(void)
{
    for (int i = 0; i < MEMBERS; i++)
        for (int j = 0; j < MEMBERS; j++)
            if (i != j) {
                proxy_link *l = &proxy_links[proxy_count++];
                link_socket(i, j, l->from);
                member_socket(j, l->to);
                l->listener = proxy_listen(l->from);
            }
}

static void end(pid_t pid, int signal, const char *what)
{
    int status = 0;
    check(kill(pid, signal) == 0 && waitpid(pid, &status, 0) == pid, what);
    check(signal == SIGKILL || (WIFEXITED(status) && WEXITSTATUS(status) == 0), what);
}

int main(void)
{
    const char *full = getenv("HTC_TEST_FULL"), *seconds = getenv("HTC_TEST_SECONDS"), *given = getenv("HTC_TEST_SEED");
    uint64_t    quick = getenv("HTC_TEST_LIGHT") ? 8 : 60;
    htc_ns      lasts = (seconds ? strtoull(seconds, NULL, 10) : full && full[0] == '1' ? 600 : quick) * HTC_SECOND;
    pid_t       pids[MEMBERS], proxy, clients;
    int         counts[2] = { 0 }, ends[2], status = 0;
    char        command[100];
    seed = given ? strtoull(given, NULL, 10) : 1;
    htc_rng rng = { seed };
    ages = lasts / AGE + 2 < AGES ? (uint32_t)(lasts / AGE) + 2 : AGES;
    snprintf(dir, sizeof dir, "/tmp/htc-faults-XXXXXX");
    check(mkdtemp(dir) != NULL && pipe2(ends, O_CLOEXEC) == 0, "a directory");
    make_links();
    fflush(NULL);
    if ((proxy = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        proxy_run(seed, 300 * HTC_MS);
    }
    for (int l = 0; l < proxy_count; l++)
        close(proxy_links[l].listener);
    for (int i = 0; i < MEMBERS; i++)
        pids[i] = start_member(i);
    fflush(NULL);
    if ((clients = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(clients_run(ends[0]));
    }
    check(proxy > 0 && clients > 0, "fork");
    for (htc_ns until = proxy_now() + lasts; proxy_now() < until;)
        some_fault(&rng, pids, counts);
    kill(proxy, SIGUSR1);
    check(write(ends[1], "", 1) == 1 && waitpid(clients, &status, 0) == clients, "the clients end");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the history holds");
    for (int i = 0; i < MEMBERS; i++)
        end(pids[i], SIGTERM, "a member ends when asked to");
    end(proxy, SIGKILL, "the proxy ends");
    snprintf(command, sizeof command, "rm -rf %s", dir);
    check(system(command) == 0, "removed");
    printf("; %d killed, %d stopped, seed %llu\nok\n", counts[0], counts[1], (unsigned long long)seed);
    return 0;
}
