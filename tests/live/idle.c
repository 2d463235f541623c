/* What connections cost that have been used and are idle: 10,000 of Redis' clients and the store's own under 200 MB, those through
 * secure channels no more each. And one that does not read delays nobody. The store is a process of its own, so that its memory can be
 * looked at. 77: this machine does not give so many descriptors. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire.h"
#include "htcsched/host_keys.h"
#include "htcsched/keys.h"
#include "htcsched/kv_store.h"
#include "kvs/wire/kv_wire.h"

enum { RESP = 5000, NATIVE = 5000, SECURE = 2000, AT_ONCE = 8, NATIVE_PORT = 1, RESP_PORT = 2 };
#define EACH_MAX   20000u /* bytes: 200 MB of 10,000 */
#define VALUE      40000u /* what each has written and read before it fell idle */
#define DIRECTORY  "/tmp/htc-idle-XXXXXX"
#define MANY_FILES (RESP + NATIVE + SECURE + 500)

static char dir[64], value[VALUE];

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "FAILED: %s\n", what);
        exit(1);
    }
}

static void name_in(char path[96], const char *name)
{
    snprintf(path, 96, "%s/%s", dir, name);
}

/* ---- the store ---- */

static htc_host_keys *keys_of(htc_host *host, const char *key, uint32_t role)
{
    char                  own[96], ring[96];
    htc_host_keys        *keys;
    htc_error             error;
    htc_host_keys_options ko = { .size = sizeof ko, .key_path = own, .ring_path = ring, .role = role };
    ko.rate = ko.burst = 65536; /* they all come from one address */
    ko.strangers_max = 4096;
    name_in(own, key);
    name_in(ring, "ring");
    check(htc_host_keys_open(host, &ko, &keys, &error) == HTC_OK, error.text);
    return keys;
}

static int serve(int tell)
{
    htc_kv_store                *store;
    htc_host                    *host;
    htc_error                    error;
    char                         path[96], resp[104];
    uint16_t                     port = 0;
    htc_rng                      rng;
    htc_env                      env = { .size = sizeof env, .rng = &rng };
    htc_kv_server_options        server = { .size = sizeof server, .resp_port = RESP_PORT, .connections_max = 65536 };
    htc_kv_store_options         so = { .size = sizeof so, .durability = HTC_KV_MEMORY, .server = &server };
    htc_host_options             ho = { .size = sizeof ho, .connections_max = 65536 };
    htc_host_stream_options      stream = { .size = sizeof stream, .address = resp, .port = RESP_PORT };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = "127.0.0.1:0", .port = NATIVE_PORT };
    htc_host_random(&rng.state, sizeof rng.state);
    name_in(path, "kvd.sock");
    snprintf(resp, sizeof resp, "unix:%s/resp.sock", dir);
    check(htc_kv_store_open(&env, &so, &store, &error) == HTC_OK, error.text);
    check(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    check(htc_host_listen_unix(host, path, 0600, NATIVE_PORT, &error) == HTC_OK, error.text);
    check(htc_host_listen_stream(host, &stream, NULL, &error) == HTC_OK, error.text);
    check(htc_host_keys_listen(keys_of(host, "store.key", HTC_KEY_MEMBER), &lo, &port, &error) == HTC_OK, error.text);
    check(write(tell, &port, sizeof port) == sizeof port, "tell the port");
    htc_kv_store_attach(store, host);
    htc_status status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    htc_host_destroy(host);
    htc_kv_store_close(store);
    return htc_exit_code(status);
}

static size_t resident(pid_t pid)
{
    char   path[64];
    size_t all = 0, pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "re");
    check(f && fscanf(f, "%zu %zu", &all, &pages) == 2, "the store's memory");
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void judge(const char *what, size_t before, size_t after, size_t count)
{
    size_t each = after > before ? (after - before) / count : 0;
    printf("%s: %zu idle, %zu bytes each\n", what, count, each);
    fflush(stdout);
    /* Where a sanitizer looks on, what is freed is kept for a while. */
    check(each <= EACH_MAX || getenv("HTC_TEST_LIGHT"), "an idle connection costs more than 20,000 bytes");
}

/* ---- Redis' clients ---- */

static int resp_connect(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%.90s/resp.sock", dir);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "a Redis connection");
    return fd;
}

static void say(int fd, const void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = send(fd, (const char *)bytes + done, len - done, MSG_NOSIGNAL);
        check(n > 0, "send");
        done += (size_t)n;
    }
}

/* So many bytes, of which the first are these. */
static void hear(int fd, const char *first, size_t len)
{
    static char bytes[1 << 16];
    size_t      done = 0;
    while (done < len) {
        size_t  room = sizeof bytes < len - done ? sizeof bytes : len - done;
        ssize_t n = recv(fd, bytes, room, 0);
        check(n > 0, "receive");
        if (done == 0)
            check((size_t)n >= strlen(first) && memcmp(bytes, first, strlen(first)) == 0,
                  "another answer than expected");
        done += (size_t)n;
    }
}

static void resp_use(int fd, const char *key, size_t len)
{
    char head[128];
    int  n = snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, len);
    say(fd, head, (size_t)n);
    for (size_t done = 0; done < len; done += VALUE)
        say(fd, value, len - done < VALUE ? len - done : VALUE);
    say(fd, "\r\n", 2);
    hear(fd, "+OK\r\n", 5);
    n = snprintf(head, sizeof head, "GET %s\r\n", key);
    say(fd, head, (size_t)n);
    n = snprintf(head, sizeof head, "$%zu\r\n", len);
    hear(fd, head, (size_t)n + len + 2);
}

static void redis(pid_t pid)
{
    static int fds[RESP];
    size_t     before = resident(pid);
    for (int i = 0; i < RESP; i++) {
        fds[i] = resp_connect();
        resp_use(fds[i], "used", VALUE);
    }
    judge("Redis' clients", before, resident(pid), RESP);
}

/* It asks for 32 values of 4 MB and reads none until another one has asked 500 times. */
static void slow_reader(void)
{
    enum { ASKED = 32, LONG = 100 * VALUE };
    int  slow = resp_connect(), quick = resp_connect();
    char head[32];
    resp_use(slow, "long", LONG);
    for (int i = 0; i < ASKED; i++)
        say(slow, "GET long\r\n", 10);
    for (int i = 0; i < 500; i++)
        resp_use(quick, "short", 10);
    int n = snprintf(head, sizeof head, "$%d\r\n", LONG);
    for (int i = 0; i < ASKED; i++)
        hear(slow, head, (size_t)n + LONG + 2);
    close(slow);
    close(quick);
    printf("one that does not read delays nobody, and gets all in the end\n");
}

/* ---- the store's own clients ---- */

typedef struct caller {
    htc_host *host;
    pid_t     pid;
    size_t    answered, wanted, after;
    size_t    asking, waiting; /* at most so many at once: what they cost while they work is another matter */
    struct {
        uint32_t peer;
        uint64_t session;
    } wait[NATIVE];
} caller;

static void send_frame(htc_output *out, uint32_t peer, const htc_buf *b)
{
    check(b->status == HTC_OK &&
              htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(b) }) ==
                  HTC_OK,
          "a message");
}

/* session 0: asks for one. */
static void send_request(htc_output *out, uint32_t peer, uint64_t session)
{
    htc_buf        b;
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("used"), .value = { value, VALUE } };
    htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .key = htc_bytes_of("used") };
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, session ? 2 : 1);
    htc__kv_head_write(
        &b, &(htc__kv_head){ .session = session, .client = peer, .sequence = session != 0, .count = session ? 2 : 0 });
    if (session) {
        htc__kv_op_write(&b, &put);
        htc__kv_op_write(&b, &get);
    }
    send_frame(out, peer, &b);
    htc_buf_free(&b);
}

/* Each greets, asks for a session when it is welcome, writes and reads a value, and stays. */
static htc_status caller_step(void *self, const htc_input *in, htc_output *out)
{
    caller  *c = self;
    uint16_t type = 0;
    uint64_t id;
    htc_buf  b;
    if (in->kind == HTC_IN_OPENED) {
        htc_buf_init(&b, NULL, 0);
        htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
        send_frame(out, in->peer, &b);
        htc_buf_free(&b);
    } else if (in->kind == HTC_IN_MESSAGE) {
        htc_reader          r = htc_wire_open(in->body, &type, &id);
        htc__kv_answer_head head;
        check(type == HTC_WIRE_WELCOME || type == HTC_WIRE_KV_ANSWER, "another message than expected");
        if (type == HTC_WIRE_WELCOME) {
            send_request(out, in->peer, 0);
            return HTC_OK;
        }
        htc__kv_answer_read(&r, &head);
        check(head.count == 0 || in->body.len > VALUE, "the value comes back");
        if (head.count == 0) {
            c->wait[c->waiting].peer = in->peer;
            c->wait[c->waiting++].session = head.session;
        } else {
            c->asking--;
            c->answered++;
        }
        while (c->asking < AT_ONCE && c->waiting) {
            c->asking++;
            c->waiting--;
            send_request(out, c->wait[c->waiting].peer, c->wait[c->waiting].session);
        }
        if (c->answered == c->wanted) {
            c->after = resident(c->pid);
            return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        }
    } else if (in->kind == HTC_IN_CLOSED) {
        check(0, "a connection was lost");
    }
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

/* port 0: by the Unix socket. Gives the host, which keeps the connections until it is destroyed. */
static htc_host *own_clients(pid_t pid, const char *what, size_t count, uint16_t port)
{
    static const htc_machine_ops ops = { sizeof ops, caller_step, never, NULL, 0 };
    static caller                c; /* large */
    htc_error                    error;
    char                         path[96], address[32];
    uint32_t                     peer;
    size_t                       before = resident(pid);
    htc_host_keys_dial_options   to = { .size = sizeof to, .address = address, .name = "store", .port = NATIVE_PORT };
    htc_host_options             ho = { .size = sizeof ho,
                                        .redial_max_ns = 20 * HTC_MS }; /* all come at once, and some have to come again */
    c = (caller){ .pid = pid, .wanted = count };
    name_in(path, "kvd.sock");
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
    check(htc_host_create(NULL, &ho, &c.host) == HTC_OK, "host");
    htc_host_keys *keys = port ? keys_of(c.host, "ann.key", HTC_KEY_USER) : NULL;
    for (size_t i = 0; i < count; i++)
        check((port ? htc_host_keys_dial(keys, &to, &peer, &error)
                    : htc_host_dial_unix(c.host, path, NATIVE_PORT, &peer, &error)) == HTC_OK,
              error.text);
    check(htc_host_run(c.host, &ops, &c) == HTC_OK, "run");
    judge(what, before, c.after, count);
    return c.host;
}

/* ---- */

static void make_key(htc_keyring *known, const char *name, uint32_t role)
{
    char      file[32], path[96];
    uint8_t   key[HTC_KEY_BYTES];
    htc_error error;
    snprintf(file, sizeof file, "%s.key", name);
    name_in(path, file);
    check(htc_keys_create(path, key, &error) == HTC_OK, error.text);
    check(htc_keyring_set(known, name, role, HTC_KEY_CURRENT, key) == HTC_OK, "a key that is known");
}

static void make_keys(void)
{
    htc_keyring *known;
    htc_error    error;
    char         ring[96];
    name_in(ring, "ring");
    check(htc_keyring_create(NULL, 0, &known) == HTC_OK, "a ring");
    make_key(known, "store", HTC_KEY_MEMBER);
    make_key(known, "ann", HTC_KEY_USER);
    check(htc_keys_save_ring(ring, known, &error) == HTC_OK, error.text);
    htc_keyring_destroy(known);
}

static int enough_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= MANY_FILES;
}

int main(void)
{
    int      ends[2], status;
    uint16_t port = 0;
    if (!enough_files()) {
        printf("skipped: %d descriptors are needed here, and as many in the store (ulimit -Hn)\n", MANY_FILES);
        return 77;
    }
    snprintf(dir, sizeof dir, DIRECTORY);
    memset(value, 'v', sizeof value);
    check(mkdtemp(dir) != NULL && pipe(ends) == 0, "a directory");
    make_keys();
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve(ends[1]));
    }
    check(read(ends[0], &port, sizeof port) == sizeof port && port, "its port");
    redis(pid);
    htc_host *native = own_clients(pid, "the store's own clients", NATIVE, 0);
    htc_host *secure = own_clients(pid, "those through secure channels", SECURE, port);
    slow_reader();
    htc_host_destroy(native);
    htc_host_destroy(secure);
    kill(pid, SIGKILL);
    check(waitpid(pid, &status, 0) == pid, "its end");
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    check(system(command) == 0, "removed");
    return 0;
}
