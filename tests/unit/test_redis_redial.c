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

typedef struct rig {
    char        dir[64], path[96];
    int         listener;
    atomic_uint answers; /* what is asked after the greeting */
} rig;

static const char *reply_to(const char *said)
{
    return strstr(said, "ROLE")   ? "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
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
        int loads = strstr(said, "LOAD") != NULL, rest = greeted == SCRIPTS;
        if ((rest && !atomic_load(&r->answers)) || !say(fd, reply_to(said)))
            break;
        greeted += loads;
        if (greeted == SCRIPTS && !atomic_load(&r->answers))
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

static void begin_rig(rig *r)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(r->dir, sizeof r->dir, "/tmp/htc-redial-XXXXXX");
    cr_assert(mkdtemp(r->dir) != NULL);
    snprintf(r->path, sizeof r->path, "%s/socket", r->dir);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", r->path);
    r->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(bind(r->listener, (const struct sockaddr *)&a, sizeof a) == 0 && listen(r->listener, 8) == 0);
    atomic_init(&r->answers, 0);
}

Test(redis_redial, one_that_greets_and_hangs_up_is_dialled_ever_more_rarely)
{
    rig           r;
    pthread_t     thread;
    void         *ctx = NULL;
    htc_error     error = { 0 };
    htc_kv_result result;
    htc_env       env = { .size = sizeof env };
    begin_rig(&r);
    cr_assert(pthread_create(&thread, NULL, greet_and_hang_up, &r) == 0);
    htc_store_options options = { .size = sizeof options, .address = r.path, .timeout_ns = 100 * HTC_SECOND, .window = 1 };
    cr_assert(eq(int, htc__store_redis_unix.open(&env, &options, r.path, &ctx, &error), HTC_OK), "%s", error.text);
    redis *client = ctx;
    while (client->dials < CALLS || client->context)
        (void)htc__store_redis_unix.next(ctx, htc_host_now() + 20 * HTC_MS, &result);
    cr_expect(eq(u64, client->pause, SHORT << CALLS), "after %u of them", CALLS);
    atomic_store(&r.answers, 1);
    htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .key = htc_bytes_of("a") };
    cr_assert(eq(int, htc__store_redis_unix.submit(ctx, &get, 1, 7), HTC_OK));
    cr_assert(eq(int, htc__store_redis_unix.next(ctx, HTC_NEVER, &result), HTC_OK));
    cr_expect(eq(int, result.status, HTC_ENOTFOUND));
    cr_expect(eq(u64, client->pause, SHORT), "it answers");
    htc__store_redis_unix.close(ctx);
    shutdown(r.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(r.listener);
    unlink(r.path);
    rmdir(r.dir);
}
