/* The live host with keys under many connections at once: clients that are enrolled, come and go, strangers who say anything, and
 * keys that are read anew all the while; what is pinned is written on worker threads. */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "htcsched/kv_store.h"
#include "htcsched/store.h"
#include "race.h"

enum { CLIENTS = 4, LIVES = 5, ADDS = 20, STRANGERS = 2, INTRUSIONS = 40, LOADS = 15 };

typedef struct scene {
    char           dir[RACE_DIR], key[RACE_DIR + 16], ring[RACE_DIR + 16], once[RACE_DIR + 16], address[64];
    uint16_t       port;
    htc_rng        rng;
    htc_env        env;
    htc_host      *host;
    htc_host_keys *keys;
    htc_kv_store  *store;
} scene;

typedef struct client {
    scene  *s;
    uint8_t secret[HTC_KEY_BYTES];
    int     number;
} client;

static htc_store *open_store(const client *c, const uint8_t *once)
{
    char              key[RACE_DIR + 32], ring[RACE_DIR + 32];
    htc_store        *store = NULL;
    htc_error         error = { .status = 0 };
    htc_store_options o = {
        .size = sizeof o, .address = c->s->address, .server = "store", .once = once, .timeout_ns = 60 * HTC_SECOND
    };
    snprintf(key, sizeof key, "%s/%d.key", c->s->dir, c->number);
    snprintf(ring, sizeof ring, "%s/%d.ring", c->s->dir, c->number);
    if (once)
        race_check(htc_keys_create(key, NULL, &error) == HTC_OK, "%s", error.text);
    o.key_path = key;
    o.ring_path = ring;
    race_check(htc_store_open(NULL, &o, &store, &error) == HTC_OK, "client %d: %s", c->number, error.text);
    return store;
}

static void *client_lives(void *arg)
{
    client *c = arg;
    for (int life = 0; life < LIVES; life++) {
        htc_store *store = open_store(c, life == 0 ? c->secret : NULL);
        for (int i = 0; i < ADDS; i++) {
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of("sum"), .delta = 1 };
            htc_kv_result  r = { .size = sizeof r };
            race_check(htc_store_ask(store, &q, &r, NULL) == HTC_OK && r.status == HTC_OK, "an addition");
        }
        htc_store_close(store);
    }
    return NULL;
}

static void *stranger_lives(void *arg)
{
    const scene       *s = ((client *)arg)->s;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(s->port) }, from = { .sin_family = AF_INET };
    static const char  junk[] = "\x30\0\1htc\1\1\2\0 and so on, which is no handshake of ours at all";
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl((127u << 24) + 7);
    for (int i = 0; i < INTRUSIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        race_check(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0, "a socket");
        race_check(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "a connection");
        if (send(fd, junk, (size_t)i % sizeof junk, MSG_NOSIGNAL) < 0) {
            /* It was faster. */
        }
        close(fd);
    }
    return NULL;
}

static htc_status pin(void *ctx, htc_keyring *ring)
{
    char name[32];
    snprintf(name, sizeof name, "visitor-%u", *(const uint8_t *)ctx);
    return htc_keyring_set(ring, name, HTC_KEY_USER, HTC_KEY_CURRENT, ctx);
}

/* Another program changes the ring, and says so. */
static void *operator_lives(void *arg)
{
    const scene *s = ((client *)arg)->s;
    for (uint8_t i = 1; i <= LOADS; i++) {
        uint8_t key[HTC_KEY_BYTES] = { i, 1 };
        race_check(htc_keys_change_ring(s->ring, pin, key, NULL) == HTC_OK, "the ring");
        kill(getpid(), SIGHUP);
    }
    return NULL;
}

static void *run_host(void *arg)
{
    scene *s = arg;
    race_check(htc_host_run(s->host, htc_kv_server_ops(), htc_kv_store_server(s->store)) == HTC_OK, "the host");
    return NULL;
}

static void open_scene(scene *s, client *clients)
{
    htc_error                    error = { .status = 0 };
    htc_keyring                 *empty;
    htc_host_options             ho = { .size = sizeof ho, .handle_signals = 1, .workers = 3 };
    htc_kv_store_options         so = { .size = sizeof so, .durability = HTC_KV_MEMORY };
    htc_host_keys_options        ko = { .size = sizeof ko, .rate = 100000, .burst = 100000, .strangers_max = 64 };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0", .port = 1 };
    race_dir(s->dir);
    snprintf(s->key, sizeof s->key, "%s/own.key", s->dir);
    snprintf(s->ring, sizeof s->ring, "%s/ring", s->dir);
    snprintf(s->once, sizeof s->once, "%s/once", s->dir);
    race_check(htc_keys_create(s->key, NULL, &error) == HTC_OK, "%s", error.text);
    race_check(htc_keyring_create(NULL, 0, &empty) == HTC_OK && htc_keys_save_ring(s->ring, empty, &error) == HTC_OK,
               "%s", error.text);
    htc_keyring_destroy(empty);
    for (int i = 0; i < CLIENTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "client-%d", i);
        clients[i] = (client){ .s = s, .number = i };
        race_check(htc_keys_once_add(s->once, name, HTC_KEY_USER, htc_host_wall() + 600 * HTC_SECOND, clients[i].secret,
                                     &error) == HTC_OK,
                   "%s", error.text);
    }
    s->rng.state = 5;
    s->env = (htc_env){ .size = sizeof s->env, .rng = &s->rng };
    race_check(htc_host_create(&s->env, &ho, &s->host) == HTC_OK, "a host");
    race_check(htc_kv_store_open(&s->env, &so, &s->store, &error) == HTC_OK, "%s", error.text);
    htc_kv_store_attach(s->store, s->host);
    ko.key_path = s->key;
    ko.ring_path = s->ring;
    ko.once_path = s->once;
    race_check(htc_host_keys_open(s->host, &ko, &s->keys, &error) == HTC_OK, "%s", error.text);
    race_check(htc_host_keys_listen(s->keys, &lo, &s->port, &error) == HTC_OK, "%s", error.text);
    snprintf(s->address, sizeof s->address, "tcp://127.0.0.1:%u", s->port);
}

int main(void)
{
    static scene         s;
    static client        clients[CLIENTS], others[STRANGERS + 1];
    pthread_t            loop, threads[CLIENTS], strangers[STRANGERS], operators[1];
    htc_host_keys_counts counts;
    open_scene(&s, clients);
    for (int i = 0; i <= STRANGERS; i++)
        others[i].s = &s;
    race_check(pthread_create(&loop, NULL, run_host, &s) == 0, "a thread");
    race_threads(threads, CLIENTS, client_lives, clients, sizeof *clients);
    race_threads(strangers, STRANGERS, stranger_lives, others, sizeof *others);
    race_threads(operators, 1, operator_lives, &others[STRANGERS], sizeof *others);
    race_threads_join(threads, CLIENTS);
    race_threads_join(strangers, STRANGERS);
    race_threads_join(operators, 1);
    htc_store     *store = open_store(&clients[0], NULL);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of("sum"), .delta = 0 };
    htc_kv_result  r = { .size = sizeof r };
    race_check(htc_store_ask(store, &q, &r, NULL) == HTC_OK && r.number == CLIENTS * LIVES * ADDS,
               "every addition, once");
    htc_store_close(store);
    kill(getpid(), SIGTERM);
    race_check(pthread_join(loop, NULL) == 0, "join");
    htc_host_keys_count(s.keys, &counts);
    race_check(counts.opened == CLIENTS * LIVES + 1 && counts.disowned == 0, "%lu opened",
               (unsigned long)counts.opened);
    printf("%lu connections opened, %lu refused, at most %u strangers\n", (unsigned long)counts.opened,
           (unsigned long)counts.refused, counts.strangers_top);
    htc_host_destroy(s.host);
    htc_kv_store_close(s.store);
    race_said("who is known is served, whoever else comes and whatever is read anew");
    race_dir_end(s.dir);
    return 0;
}
