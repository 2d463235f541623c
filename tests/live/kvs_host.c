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

static int serve(uint32_t durability)
{
    htc_kv_store        *store;
    htc_host            *host;
    htc_error            error;
    htc_kv_store_options so = { .size = sizeof so, .dir = store_dir, .durability = durability };
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

/* A role with nothing but a client: it submits additions, reads the sum at the end, and stops. */
typedef struct adder {
    htc_kv_client *client;
    uint32_t       peer;
    uint64_t       submitted, answered, additions;
    int64_t        sum;
} adder;

static htc_status adder_step(void *self, const htc_input *in, htc_output *out)
{
    adder        *a = self;
    htc_kv_result r;
    htc_status    status = htc_kv_client_step(a->client, in, out);
    /* On eight keys, and up to 256 in flight. */
    while (status == HTC_OK && a->submitted < a->additions && htc_kv_client_pending(a->client) < 256) {
        char           key = (char)('a' + a->submitted++ % 8);
        htc_kv_request q = { .op = HTC_KV_ADD, .key = { &key, 1 }, .delta = 1 };
        status = htc_kv_client_submit(a->client, in->now, &q, 1, 0, out);
    }
    while (status == HTC_OK && htc_kv_client_next(a->client, &r)) {
        char value[24] = { 0 };
        check(r.status == HTC_OK, htc_status_name(r.status));
        if (r.op == HTC_KV_GET) {
            memcpy(value, r.value.data, r.value.len < 23 ? r.value.len : 23);
            a->sum += atoll(value);
            if (r.last)
                status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        } else if (++a->answered == a->additions) {
            htc_kv_request q[8];
            char           keys[8];
            for (int i = 0; i < 8; i++) {
                keys[i] = (char)('a' + i);
                q[i] = (htc_kv_request){ .op = HTC_KV_GET, .key = { &keys[i], 1 } };
            }
            status = htc_kv_client_submit(a->client, in->now, q, 8, 1, out);
        }
    }
    return status;
}

static htc_ns adder_deadline(const void *self)
{
    return htc_kv_client_deadline(((const adder *)self)->client);
}

static int64_t add(uint64_t additions)
{
    static const htc_machine_ops ops = { sizeof ops, adder_step, adder_deadline, NULL };
    adder                        a = { .additions = additions };
    htc_host                    *host;
    htc_error                    error;
    htc_host_options             ho = { .size = sizeof ho };
    htc_host_random(&rng.state, sizeof rng.state);
    check(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    check(htc_host_dial_unix(host, socket_path, 1, &a.peer, &error) == HTC_OK, error.text);
    htc_kv_client_options co = { .size = sizeof co, .peer = a.peer, .client_id = htc_rng_next(&rng) };
    check(htc_kv_client_create(&env, &co, &a.client) == HTC_OK, "client");
    check(htc_host_run(host, &ops, &a) == HTC_OK, "run");
    htc_host_destroy(host);
    htc_kv_client_destroy(a.client);
    return a.sum;
}

static void round_trip(uint32_t durability, const char *what)
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
            _exit(serve(durability));
        }
        int64_t sum = add(ADDITIONS);
        check(sum == (durability == HTC_KV_MEMORY ? ADDITIONS : life * ADDITIONS), "the sum of all additions");
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
    round_trip(HTC_KV_SYNC, "sync");
    round_trip(HTC_KV_INTERVAL, "interval");
    round_trip(HTC_KV_MEMORY, "memory");
    return 0;
}
