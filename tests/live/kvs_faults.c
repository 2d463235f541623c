/* Three members of one store, each a process with its own log; sixteen clients doing cas and add on a few keys, and two that hold leases
 * with a key bound to each, while members are killed with SIGKILL, or stopped and let go on: every other one for so long that its leases are
 * taken over and end meanwhile. Between members, and between clients and members, is a proxy of ours, that delays, doubles and reorders what
 * is said and cuts connections. What the clients were told is judged as a history (kvs_judge.h).
 *
 * A minute; HTC_TEST_LIGHT: eight seconds; HTC_TEST_FULL=1: ten minutes; HTC_TEST_SECONDS=N: N. HTC_TEST_SEED=N: other faults; the ten
 * minutes draw theirs anew each time. The seed is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "htcsched/kv_store.h"
#include "link_proxy.h"

#define MEMBERS       3
#define LOAD_ADDRESS  112
#define LOAD_PATIENCE (1500 * HTC_MS)
#define LOAD_GROWS    0
#define SUSPECT       (500 * HTC_MS)

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

static int load_members(void)
{
    return MEMBERS;
}

/* What a client dials to meet that member. */
static void client_socket(int member, char path[96])
{
    snprintf(path, 96, "%s/c-%d.sock", dir, member);
}

static int load_where(int member, char address[LOAD_ADDRESS])
{
    char path[96];
    client_socket(member, path);
    snprintf(address, LOAD_ADDRESS, "unix:%s", path);
    return 1;
}

static htc_ns load_now(void)
{
    return proxy_now();
}

#include "kvs_load.h"

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
                                     .suspect_ns = SUSPECT,
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

/* ---------------------------------------------------------------- faults */

static void wait_ns(htc_ns ns)
{
    nanosleep(&(struct timespec){ (time_t)(ns / HTC_SECOND), (long)(ns % HTC_SECOND) }, NULL);
}

typedef struct tally {
    int kills, stops, long_stops;
} tally;

/* A lease of a member that is stopped goes on until the others suspect it, perhaps wait for the first owner twice as long, and then for its whole
 * ttl anew. Who is stopped for longer wakes up as the keeper of leases that have ended under another one. */
#define ALL_LEASES_END (TTL + 3 * SUSPECT)

static htc_ns stopped_for(htc_rng *rng, tally *done)
{
    if (done->stops++ % 2)
        return (300 + htc_rng_below(rng, 900)) * HTC_MS;
    done->long_stops++;
    return ALL_LEASES_END + (300 + htc_rng_below(rng, 900)) * HTC_MS;
}

/* One member at a time; what the proxy does comes on top of it. */
static void some_fault(htc_rng *rng, pid_t pids[MEMBERS], tally *done)
{
    int victim = (int)htc_rng_below(rng, MEMBERS), kills = htc_rng_below(rng, 2) == 0;
    if (kills) {
        done->kills++;
        check(kill(pids[victim], SIGKILL) == 0 && waitpid(pids[victim], NULL, 0) == pids[victim], "killed");
        wait_ns(htc_rng_below(rng, 500) * HTC_MS);
        pids[victim] = start_member(victim);
    } else {
        kill(pids[victim], SIGSTOP);
        wait_ns(stopped_for(rng, done));
        kill(pids[victim], SIGCONT);
    }
    wait_ns((100 + htc_rng_below(rng, 400)) * HTC_MS);
}

static void make_links(void)
{
    for (int j = 0; j < MEMBERS; j++)
        for (int i = 0; i <= MEMBERS; i++)
            if (i != j) {
                proxy_link *l = &proxy_links[proxy_count++];
                if (i < MEMBERS)
                    link_socket(i, j, l->from);
                else
                    client_socket(j, l->from);
                member_socket(j, l->to);
                l->listener = proxy_listen(l->from);
            }
    proxy_prepare();
}

static void say_what_happened(const tally *done)
{
    printf("; %d killed, %d stopped, %d of them for longer than any lease lasts, seed %llu\n", done->kills, done->stops, done->long_stops,
           (unsigned long long)seed);
    printf("proxy: of %u frames %u came twice, %u were overtaken; %u cuts, %u holds, %u delays\n", proxy_done->frames, proxy_done->copies,
           proxy_done->overtaken, proxy_done->cuts, proxy_done->holds, proxy_done->delays);
    check(proxy_done->copies > 0 && proxy_done->overtaken > 0, "frames came twice and out of order");
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
    tally       done = { 0 };
    int         ends[2], status = 0;
    char        command[100];
    seed = 1;
    if (given)
        seed = strtoull(given, NULL, 10);
    else if (full && full[0] == '1')
        htc_host_random(&seed, sizeof seed);
    printf("seed %llu\n", (unsigned long long)seed);
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
        exit(clients_run(ends[0], CLIENTS));
    }
    check(proxy > 0 && clients > 0, "fork");
    for (htc_ns until = proxy_now() + lasts; proxy_now() < until;)
        some_fault(&rng, pids, &done);
    kill(proxy, SIGUSR1);
    check(write(ends[1], "", 1) == 1 && waitpid(clients, &status, 0) == clients, "the clients end");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the history holds");
    for (int i = 0; i < MEMBERS; i++)
        end(pids[i], SIGTERM, "a member ends when asked to");
    end(proxy, SIGKILL, "the proxy ends");
    snprintf(command, sizeof command, "rm -rf %s", dir);
    check(system(command) == 0, "removed");
    say_what_happened(&done);
    printf("ok\n");
    return 0;
}
