/* The store as htc-kvd runs it: behind a socket in the live host, one process; a client in another host, in this one.
 * For each durability: many changes pipelined, an end by request, and everything is there in the next process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/kv_store.h"
#include "kvs_adder.h"

#define ADDITIONS 2000

static char dir[64], socket_path[80], store_dir[80];

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "FAILED: %s\n", what);
        exit(1);
    }
}

static htc_rng rng;
static htc_env env = { .size = sizeof env, .rng = &rng };

static int serve(uint32_t engine, uint32_t durability)
{
    htc_kv_store        *store;
    htc_host            *host;
    htc_error            error;
    htc_kv_store_options so = { .size = sizeof so, .dir = store_dir, .durability = durability, .engine = engine };
    htc_host_options     ho = { .size = sizeof ho, .handle_signals = 1 };
    htc_host_random(&rng.state, sizeof rng.state);
    check(htc_kv_store_open(&env, &so, &store, &error) == HTC_OK, error.text);
    check(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    check(htc_host_listen_unix(host, socket_path, 0600, 1, &error) == HTC_OK, error.text);
    htc_kv_store_attach(store, host);
    htc_status status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    htc_host_destroy(host);
    htc_kv_store_close(store);
    return htc_exit_code(status);
}

static void round_trip(uint32_t engine, uint32_t durability, const char *what)
{
    snprintf(dir, sizeof dir, "/tmp/htc-kvd-XXXXXX");
    check(mkdtemp(dir) != NULL, "a directory");
    snprintf(socket_path, sizeof socket_path, "%s/kvd.sock", dir);
    snprintf(store_dir, sizeof store_dir, "%s/store", dir);
    for (int64_t life = 1; life <= 2; life++) {
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(serve(engine, durability));
        }
        kvs_adder a = { .additions = ADDITIONS };
        kvs_adder_run(&a, socket_path);
        check(a.sum == (engine == HTC_KV_IN_MEMORY ? ADDITIONS : life * ADDITIONS), "the sum of all additions");
        int status;
        kill(pid, SIGTERM);
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "it ends when asked to");
    }
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    check(system(command) == 0, "removed");
    printf("ok - %s\n", what);
    fflush(stdout);
}

int main(void)
{
    round_trip(HTC_KV_LMDB, HTC_KV_SYNC, "LMDB, sync");
    round_trip(HTC_KV_LMDB, HTC_KV_INTERVAL, "LMDB, interval");
    round_trip(HTC_KV_LMDB, HTC_KV_MEMORY, "LMDB, never synced");
    round_trip(HTC_KV_LOG, HTC_KV_SYNC, "log, sync");
    round_trip(HTC_KV_LOG, HTC_KV_INTERVAL, "log, interval");
    round_trip(HTC_KV_LOG, HTC_KV_MEMORY, "log, never synced");
    round_trip(HTC_KV_IN_MEMORY, HTC_KV_MEMORY, "memory");
    return 0;
}
