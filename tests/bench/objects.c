/* Objects from a peer: 10 MB fetched from a process on this machine, over a Unix socket and through a secure channel, as a ratio of what
 * hashing them alone takes. Fetched is: asked for in pieces, sent, written to a file, and found to have the right hash. Each figure is the
 * least of several, taken in turn: what else the machine does adds to either. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "htcsched/host.h"
#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "net/exec/objects.h"
#include "net/files/files.h"
#include "objects_peer.h"
#include "bench.h"

#define SIZE   (10u << 20)
#define ROUNDS 25

static char        top[200];
static htc__object object;

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    (void)host;
    return htc__objects_host_is_call(op) ? htc__objects_host_call(ctx, op, tag, body) : HTC_EUNSUPPORTED;
}

/* A process of objects: `who` is its directory. */
typedef struct site {
    htc_host          *host;
    htc__objects_host *objects;
    objects_peer      *peer;
} site;

static site site_open(const htc_env *env, const char *who, uint64_t self)
{
    site s = { 0 };
    char dir[300];
    snprintf(dir, sizeof dir, "%s/%s", top, who);
    bench_must(htc_host_create(env, NULL, &s.host) == HTC_OK, "a host");
    bench_must(htc__objects_host_open(s.host, dir, top, 0, &s.objects, NULL) == HTC_OK, "a directory of objects");
    htc_host_on_call(s.host, on_call, s.objects);
    s.peer = objects_peer_create(env, self, (htc__objects_options){ 0 });
    bench_must(s.peer != NULL, "a machine");
    return s;
}

static void site_close(site *s)
{
    htc_host_destroy(s->host);
    htc__objects_host_close(s->objects);
    objects_peer_ops.destroy(s->peer);
}

static void make_object(void)
{
    char     dir[300], path[500], hex[65];
    uint8_t *bytes = malloc(SIZE);
    htc_rng  rng = { 1 };
    bench_must(bytes != NULL, "memory");
    for (size_t i = 0; i < SIZE; i += 8) {
        uint64_t v = htc_rng_next(&rng);
        memcpy(bytes + i, &v, 8);
    }
    htc_content_hash((htc_bytes){ bytes, SIZE }, object.hash);
    object.size = SIZE;
    htc_content_hex(object.hash, hex);
    snprintf(dir, sizeof dir, "%s/has/%u", top, (unsigned)geteuid());
    snprintf(path, sizeof path, "%s/%s", dir, hex);
    bench_must(htc__make_dirs(dir) == 0, "a directory");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0400);
    bench_must(fd >= 0 && htc__write_all(fd, bytes, SIZE) == 0 && close(fd) == 0, "a file");
    free(bytes);
}

static double hash_once(void)
{
    char     path[500], hex[65];
    uint8_t  hash[32];
    uint64_t size;
    htc_content_hex(object.hash, hex);
    snprintf(path, sizeof path, "%s/has/%u/%s", top, (unsigned)geteuid(), hex);
    int fd = open(path, O_RDONLY);
    double t = bench_seconds();
    bench_must(htc_content_hash_fd(fd, hash, &size) == HTC_OK && size == SIZE, "hashing");
    t = bench_seconds() - t;
    close(fd);
    return t;
}

static void socket_of(char path[300])
{
    snprintf(path, 300, "%s/socket", top);
}

/* A key for each, and each in the other's ring. */
static void make_keys(void)
{
    static const char *const who[2] = { "has", "wants" };
    uint8_t public[2][HTC_KEY_BYTES];
    char    path[300];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.key", top, who[i]);
        bench_must(htc_keys_create(path, public[i], NULL) == HTC_OK, "a key");
    }
    for (int i = 0; i < 2; i++) {
        htc_keyring *ring = NULL;
        snprintf(path, sizeof path, "%s/%s.ring", top, who[i]);
        bench_must(htc_keyring_create(NULL, 0, &ring) == HTC_OK &&
                       htc_keyring_set(ring, who[1 - i], HTC_KEY_MEMBER, HTC_KEY_CURRENT, public[1 - i]) == HTC_OK &&
                       htc_keys_save_ring(path, ring, NULL) == HTC_OK, "a key ring");
        htc_keyring_destroy(ring);
    }
}

static htc_host_keys *keys_of(htc_host *host, const char *who)
{
    char                  key[300], ring[300];
    htc_host_keys        *keys = NULL;
    htc_host_keys_options o = { .size = sizeof o, .key_path = key, .ring_path = ring };
    snprintf(key, sizeof key, "%s/%s.key", top, who);
    snprintf(ring, sizeof ring, "%s/%s.ring", top, who);
    bench_must(htc_host_keys_open(host, &o, &keys, NULL) == HTC_OK, "the keys");
    return keys;
}

static int serve(int say_port)
{
    char     path[300];
    uint16_t port = 0;
    htc_rng rng = { 7 };
    htc_env env = { .size = sizeof env, .rng = &rng };
    site    s = site_open(&env, "has", 2);
    socket_of(path);
    bench_must(htc_host_listen_unix(s.host, path, 0600, 0, NULL) == HTC_OK, "a socket");
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0" };
    bench_must(htc_host_keys_listen(keys_of(s.host, "has"), &lo, &port, NULL) == HTC_OK, "a port");
    bench_must(write(say_port, &port, sizeof port) == sizeof port, "saying the port");
    return htc_host_run(s.host, &objects_peer_ops, s.peer) == HTC_OK ? 0 : 1;
}

/* The clock runs from when it is wanted to when it is here; the connection is there before. */
typedef struct timed {
    htc_machine_ops ops;
    objects_peer   *peer;
    double          begun, ended;
} timed;

static htc_status timed_step(void *self, const htc_input *in, htc_output *out)
{
    timed   *t = self;
    uint16_t type = 0;
    uint64_t id;
    if (in->kind == HTC_IN_MESSAGE)
        (void)htc_wire_open(in->body, &type, &id);
    if (type == HTC_WIRE_WELCOME) {
        t->begun = bench_seconds();
        t->peer->n_wants = 1;
        t->peer->ends = 1;
        bench_must(htc__objects_want(t->peer->objects, 1, &object, 1) == HTC_OK, "wanting");
    }
    htc_status status = objects_peer_ops.step(t->peer, in, out);
    if (t->peer->decided && !t->ended)
        t->ended = bench_seconds();
    return status;
}

static htc_ns timed_deadline(const void *self)
{
    const timed *t = self;
    return objects_peer_ops.deadline(t->peer);
}

/* port 0: over the Unix socket. */
static double fetch_once(uint16_t port)
{
    char     path[300], dir[300];
    htc_rng  rng = { 9 };
    htc_env  env = { .size = sizeof env, .rng = &rng };
    timed    t = { .ops = { .size = sizeof t.ops } };
    uint64_t has = 2;
    snprintf(dir, sizeof dir, "%s/wants", top);
    htc__remove_tree(dir);
    site s = site_open(&env, "wants", 1);
    t.ops.step = timed_step;
    t.ops.deadline = timed_deadline;
    t.peer = s.peer;
    object.workers = &has;
    object.n_workers = 1;
    s.peer->to[0].worker = 2;
    s.peer->n_to = 1;
    if (port) {
        snprintf(path, sizeof path, "127.0.0.1:%u", (unsigned)port);
        htc_host_keys_dial_options d = { .size = sizeof d, .address = path, .name = "has" };
        bench_must(htc_host_keys_dial(keys_of(s.host, "wants"), &d, &s.peer->to[0].peer, NULL) == HTC_OK, "dialling");
    } else {
        socket_of(path);
        bench_must(htc_host_dial_unix(s.host, path, 0, &s.peer->to[0].peer, NULL) == HTC_OK, "dialling");
    }
    htc_status status = htc_host_run(s.host, &t.ops, &t);
    bench_must(status == HTC_OK && s.peer->ready == 1, "fetching");
    site_close(&s);
    return t.ended - t.begun;
}

int main(int argc, char **argv)
{
    bench  b = bench_open("objects", argc, argv);
    double   hashing = 1e9, fetching = 1e9, secure = 1e9;
    int      ports[2];
    uint16_t port = 0;
    strcpy(top, "/tmp/htc-objects-XXXXXX");
    bench_must(mkdtemp(top) != NULL, "a directory");
    make_object();
    make_keys();
    bench_must(pipe(ports) == 0, "a pipe");
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve(ports[1]));
    }
    bench_must(read(ports[0], &port, sizeof port) == sizeof port, "hearing the port");
    for (int i = 0; i < (b.quick ? 5 : ROUNDS); i++) {
        hashing = fmin(hashing, hash_once());
        fetching = fmin(fetching, fetch_once(0));
        secure = fmin(secure, fetch_once(port));
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    bench_row(&b, &(bench_figure){ .what = "hashing alone", .n = SIZE, .unit = "ms", .value = 1e3 * hashing });
    bench_row(&b, &(bench_figure){ .what = "fetched over a Unix socket", .n = SIZE, .unit = "ms", .value = 1e3 * fetching });
    bench_row(&b, &(bench_figure){ .what = "hashing / fetching over a Unix socket", .n = SIZE, .unit = "1", .value = hashing / fetching,
                                   .goal = 0.7, .more = 1 });
    bench_row(&b, &(bench_figure){ .what = "fetched through a secure channel", .n = SIZE, .unit = "ms", .value = 1e3 * secure });
    bench_row(&b, &(bench_figure){ .what = "hashing / fetching through a secure channel", .n = SIZE, .unit = "1", .value = hashing / secure,
                                   .goal = 0.45, .more = 1 });
    htc__remove_tree(top);
    return bench_close(&b);
}
