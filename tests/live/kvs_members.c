/* Three members of one store, each a process with its own disk, joined by sockets: one after the other is killed with SIGKILL
 * while all are asked, and started again. Whatever was acknowledged is there, once.
 *
 * HTC_TEST_FULL=1 in the environment: sixty kills instead of six. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/kv_store.h"
#include "htcsched/store.h"

#define MEMBERS  3
#define COUNTERS 4

static char    dir[64];
static pid_t   pids[MEMBERS];
static htc_rng rng = { 42 };

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAILED: %s (in %s)\n", what, dir);
    for (int i = 0; i < MEMBERS; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    exit(1);
}

static void socket_of(int member, char path[96])
{
    snprintf(path, 96, "%s/%d.sock", dir, member);
}

static int serve(int self)
{
    char                  path[96], store_dir[96];
    htc_kv_store         *store;
    htc_host             *host;
    htc_error             error = { 0 };
    htc_kv_member         members[MEMBERS] = { { 0 } };
    htc_host_options      ho = { .size = sizeof ho, .handle_signals = 1, .redial_max_ns = 100 * HTC_MS };
    htc_kv_server_options server = { .size = sizeof server,
                                     .self = 11 + (uint64_t)self,
                                     .members = members,
                                     .member_count = MEMBERS,
                                     .suspect_ns = 300 * HTC_MS };
    /* Two with a log in short pieces, so that there often is no room for a moment. */
    htc_kv_store_options so = { .size = sizeof so,
                                .dir = store_dir,
                                .server = &server,
                                .engine = self == 1 ? HTC_KV_LMDB : HTC_KV_LOG,
                                .segment_bytes = 16384 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    snprintf(store_dir, sizeof store_dir, "%s/%d", dir, self);
    htc_host_random(&rng.state, sizeof rng.state);
    check(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    for (int i = 0; i < MEMBERS; i++) {
        members[i].id = 11 + (uint64_t)i;
        socket_of(i, path);
        if (i == self)
            check(htc_host_listen_unix(host, path, 0600, 1, &error) == HTC_OK, error.text);
        else
            check(htc_host_dial_unix(host, path, 2, &members[i].peer, &error) == HTC_OK, error.text);
    }
    check(htc_kv_store_open(&env, &so, &store, &error) == HTC_OK, error.text);
    htc_kv_store_attach(store, host);
    htc_status status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    htc_host_destroy(host);
    htc_kv_store_close(store);
    return htc_exit_code(status);
}

static void start(int member)
{
    fflush(stdout);
    pids[member] = fork();
    check(pids[member] >= 0, "fork");
    if (pids[member] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(pids, 0, sizeof pids);
        _exit(serve(member));
    }
}

static htc_store *connect_to(int member)
{
    char              path[96], address[112];
    htc_store        *store = NULL;
    htc_error         error = { 0 };
    htc_status        status;
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = 20 * HTC_SECOND };
    htc_ns            until = htc_host_now() + 120 * HTC_SECOND;
    socket_of(member, path);
    snprintf(address, sizeof address, "unix:%s", path);
    while ((status = htc_store_open(NULL, &o, &store, &error)) != HTC_OK && htc_host_now() < until)
        usleep(50000);
    check(status == HTC_OK, error.text);
    return store;
}

static htc_bytes counter(int i)
{
    static const char *const names[COUNTERS] = { "c0", "c1", "c2", "c3" };
    return htc_bytes_of(names[i]);
}

int main(void)
{
    const char *full = getenv("HTC_TEST_FULL");
    int         kills = full && full[0] == '1' ? 60 : 6, answered = 0;
    int64_t     done[COUNTERS] = { 0 }, unknown[COUNTERS] = { 0 };
    htc_store  *stores[MEMBERS];
    snprintf(dir, sizeof dir, "/tmp/htc-members-XXXXXX");
    check(mkdtemp(dir) != NULL, "a directory");
    for (int i = 0; i < MEMBERS; i++)
        start(i);
    for (int i = 0; i < MEMBERS; i++)
        stores[i] = connect_to(i);
    for (int k = 0; k < kills; k++) {
        int victim = (int)htc_rng_below(&rng, MEMBERS), at = (int)htc_rng_below(&rng, 40);
        for (int i = 0; i < 60; i++) {
            int            c = (int)htc_rng_below(&rng, COUNTERS);
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = counter(c), .delta = 1 };
            htc_kv_result  r = { .size = sizeof r };
            if (i == at) {
                check(kill(pids[victim], SIGKILL) == 0 && waitpid(pids[victim], NULL, 0) == pids[victim], "killed");
                pids[victim] = 0;
            }
            if (i == at + 10)
                start(victim);
            /* Not of the one that is away: that would only be to wait for it. */
            int        whom = i >= at && i < at + 10 ? (victim + 1 + i % 2) % MEMBERS : i % MEMBERS;
            htc_status status = htc_store_ask(stores[whom], &q, &r, NULL);
            answered++;
            if (status == HTC_OK && r.status == HTC_OK)
                done[c]++;
            else if (status == HTC_ETIMEDOUT || r.status == HTC_ETIMEDOUT || r.status == HTC_EUNKNOWN)
                unknown[c]++;
            else
                check(0, htc_status_name(status == HTC_OK ? r.status : status));
        }
    }
    int64_t sum = 0;
    for (int c = 0; c < COUNTERS; c++)
        for (int i = 0; i < MEMBERS; i++) {
            htc_kv_result  r = { .size = sizeof r };
            char           text[24] = "0";
            htc_kv_request look = { .size = sizeof look, .op = HTC_KV_GET, .key = counter(c) };
            htc_ns         until = htc_host_now() + 120 * HTC_SECOND;
            htc_status     status;
            do {
                status = htc_store_ask(stores[i], &look, &r, NULL);
                status = status == HTC_OK ? r.status : status;
            } while (status == HTC_ETIMEDOUT && htc_host_now() < until);
            check(status == HTC_OK || status == HTC_ENOTFOUND, "read");
            if (status == HTC_OK)
                memcpy(text, r.value.data, r.value.len < 23 ? r.value.len : 23);
            int64_t value = atoll(text);
            if (value < done[c] || value > done[c] + unknown[c])
                fprintf(stderr, "member %d, counter %d: %lld, acknowledged %lld, unknown %lld\n", i, c,
                        (long long)value, (long long)done[c], (long long)unknown[c]);
            check(value >= done[c] && value <= done[c] + unknown[c], "the sum of what was acknowledged");
            sum += i == 0 ? value : 0;
        }
    for (int i = 0; i < MEMBERS; i++)
        htc_store_close(stores[i]);
    for (int i = 0; i < MEMBERS; i++) {
        int status = 0;
        check(kill(pids[i], SIGTERM) == 0 && waitpid(pids[i], &status, 0) == pids[i], "ended");
        check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "it ends when asked to");
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    check(system(command) == 0, "removed");
    printf("ok - %d kills, %d additions, sum %lld\n", kills, answered, (long long)sum);
    return 0;
}
