/* How long a client of Redis waits before it dials again: longer each time where it is greeted and sent away, shortly after an answer. */
#define HTC_HAVE_HIREDIS /* it is only built then */
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/util.h"
#include "net/loop/host_private.h"
#include "net/remote/redis.h"
#include "net/remote/stores.h"

#define SHORT (50 * HTC_MS) /* the first pause */
#define CALLS 5u

enum { HANGS_UP, FORGETS, ANSWERS }; /* FORGETS: it has none of the scripts that it was given */

typedef struct rig {
    char        dir[64], path[96];
    int         listener;
    pthread_t   thread;
    atomic_uint answers; /* what is asked after the greeting: HANGS_UP, FORGETS, ANSWERS */
} rig;

static const char *reply_to(const char *said, unsigned how)
{
    return strstr(said, "EVALSHA") ? how == FORGETS ? "-NOSCRIPT No matching script.\r\n" : "*1\r\n:1\r\n"
           : strstr(said, "ROLE")  ? "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
           : strstr(said, "LOAD") ? "$40\r\n0123456789012345678901234567890123456789\r\n"
                                  : "*2\r\n$-1\r\n$-1\r\n";
}

static int say(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* One command at a time while the connection is new: who it is, and each script. */
static void serve(rig *r, int fd)
{
    static char said[65536];
    ssize_t     n;
    for (int greeted = 0; (n = read(fd, said, sizeof said - 1)) > 0;) {
        said[n] = '\0';
        int      loads = strstr(said, "LOAD") != NULL, rest = greeted == SCRIPTS;
        unsigned how = atomic_load(&r->answers);
        if ((rest && how == HANGS_UP) || !say(fd, reply_to(said, how)))
            break;
        greeted += loads;
        if (greeted == SCRIPTS && how == HANGS_UP)
            break;
    }
}

static void *greet_and_hang_up(void *arg)
{
    rig *r = arg;
    for (int fd; (fd = accept(r->listener, NULL, NULL)) >= 0; close(fd))
        serve(r, fd);
    return NULL;
}

/* Its connection is begun as this store does. */
static redis *begin_rig(rig *r, unsigned how)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    void              *ctx = NULL;
    htc_error          error = { 0 };
    htc_env            env = { .size = sizeof env };
    snprintf(r->dir, sizeof r->dir, "/tmp/htc-redial-XXXXXX");
    cr_assert(mkdtemp(r->dir) != NULL);
    snprintf(r->path, sizeof r->path, "%s/socket", r->dir);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", r->path);
    r->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(bind(r->listener, (const struct sockaddr *)&a, sizeof a) == 0 && listen(r->listener, 8) == 0);
    atomic_init(&r->answers, how);
    cr_assert(pthread_create(&r->thread, NULL, greet_and_hang_up, r) == 0);
    htc_store_options options = { .size = sizeof options, .address = r->path, .timeout_ns = 100 * HTC_SECOND, .window = 1 };
    cr_assert(eq(int, htc__store_redis_unix.open(&env, &options, r->path, &ctx, &error), HTC_OK), "%s", error.text);
    return ctx;
}

static void end_rig(rig *r, redis *client)
{
    htc__store_redis_unix.close(client);
    shutdown(r->listener, SHUT_RDWR);
    pthread_join(r->thread, NULL);
    close(r->listener);
    unlink(r->path);
    rmdir(r->dir);
}

/* At least: where this process stands still for a second, a dial fails, which counts too. */
static void expect_ever_longer(redis *client)
{
    htc_kv_result result;
    while (client->dials < CALLS || client->context)
        (void)htc__store_redis_unix.next(client, htc_host_now() + 20 * HTC_MS, &result);
    cr_expect(client->pause >= SHORT << CALLS, "%llu ns after %u of them", (unsigned long long)client->pause, CALLS);
}

static void expect_answer(redis *client, htc_status status)
{
    htc_kv_result result;
    cr_assert(eq(int, htc__store_redis_unix.next(client, HTC_NEVER, &result), HTC_OK));
    cr_expect(eq(int, result.status, status));
    cr_expect(eq(u64, client->pause, SHORT), "it answers");
}

Test(redis_redial, one_that_greets_and_hangs_up_is_dialled_ever_more_rarely)
{
    rig            r;
    redis         *client = begin_rig(&r, HANGS_UP);
    htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .key = htc_bytes_of("a") };
    expect_ever_longer(client);
    atomic_store(&r.answers, ANSWERS);
    cr_assert(eq(int, htc__store_redis_unix.submit(client, &get, 1, 7), HTC_OK));
    expect_answer(client, HTC_ENOTFOUND);
    end_rig(&r, client);
}

/* A change is a read, which it answers, and a script, which it has not. */
Test(redis_redial, one_that_keeps_no_scripts_is_dialled_ever_more_rarely)
{
    rig            r;
    redis         *client = begin_rig(&r, FORGETS);
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = htc_bytes_of("a"), .value = htc_bytes_of("b") };
    cr_assert(eq(int, htc__store_redis_unix.submit(client, &put, 1, 7), HTC_OK));
    expect_ever_longer(client);
    atomic_store(&r.answers, ANSWERS);
    expect_answer(client, HTC_OK);
    end_rig(&r, client);
}
