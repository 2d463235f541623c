/* A member in memory that is asked over loopback TCP, in the clear and over a secure channel: what htc-kvd never does at once, and what
 * shows the price of the one beside the other in one process.
 *
 *     kv_serve DIR [--huge-pages]     prints "PLAIN_PORT SECURE_PORT" when it answers; makes token, server.key, server.ring, user.key, user.ring in DIR
 *
 * It ends with the process that started it. */
#include <signal.h>
#include <sys/prctl.h>

#include "bench.h"
#include "../../../examples/htc-kvd/huge.h"
#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "htcsched/kv_store.h"

static char files[5][256]; /* token, server.key, server.ring, user.key, user.ring */

static void must(htc_status status, const char *what)
{
    bench_must(status == HTC_OK, what);
}

typedef struct pin {
    const char *name;
    uint32_t    role;
    uint8_t     key[HTC_KEY_BYTES];
} pin;

static htc_status set(void *ctx, htc_keyring *ring)
{
    const pin *p = ctx;
    return htc_keyring_set(ring, p->name, p->role, HTC_KEY_CURRENT, p->key);
}

static void make_keys(const char *dir)
{
    static const char *names[5] = { "token", "server.key", "server.ring", "user.key", "user.ring" };
    pin server = { .name = "store", .role = HTC_KEY_MEMBER }, user = { .name = "user", .role = HTC_KEY_USER };
    for (int i = 0; i < 5; i++)
        bench_must(snprintf(files[i], sizeof files[i], "%s/%s", dir, names[i]) < (int)sizeof files[i],
                   "names of files");
    must(htc_keys_create(files[1], server.key, NULL), "a key");
    must(htc_keys_create(files[3], user.key, NULL), "a key");
    must(htc_keys_change_ring(files[2], set, &user, NULL), "a ring");
    must(htc_keys_change_ring(files[4], set, &server, NULL), "a ring");
}

int main(int argc, char **argv)
{
    static huge           pages;
    htc_rng               rng;
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_store         *store;
    htc_host             *host;
    htc_host_keys        *keys;
    uint16_t              plain = 0, secure = 0;
    htc_host_options      ho = { .size = sizeof ho, .connections_max = 8192 };
    htc_kv_store_options  so = { .size = sizeof so, .durability = HTC_KV_MEMORY };
    htc_host_keys_options ko = {
        .size = sizeof ko, .key_path = files[1], .ring_path = files[2], .rate = 1000000, .burst = 1000000
    };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0", .port = 2 };
    int                   large = argc == 3 && strcmp(argv[2], "--huge-pages") == 0;
    bench_must(argc == 2 + large, "usage: kv_serve DIR [--huge-pages]");
    huge_init(&pages);
    env.alloc = large ? &pages.alloc : NULL;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    make_keys(argv[1]);
    htc_host_random(&rng.state, sizeof rng.state);
    must(htc_kv_store_open(&env, &so, &store, NULL), "a store");
    must(htc_host_create(&env, &ho, &host), "a host");
    must(htc_host_keys_open(host, &ko, &keys, NULL), "keys");
    must(htc_host_keys_listen(keys, &lo, &secure, NULL), "a port");
    must(htc_host_listen_tcp(host, "127.0.0.1", 0, files[0], 1, &plain, NULL), "a port");
    htc_kv_store_attach(store, host);
    printf("%u %u\n", plain, secure);
    fflush(stdout);
    return htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store)) != HTC_OK;
}
