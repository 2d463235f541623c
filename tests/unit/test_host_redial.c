/* How long a host waits before it dials again: longer each time where it is sent away, shortly after a connection that has lasted. */
#include "expect.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/wire.h"
#include "net/loop/host_private.h"

#define PAUSE_MAX (500 * HTC_MS)
#define CALLS     6u

typedef struct rig {
    char      dir[64], path[96];
    int       listener, keeps; /* keeps: the last call is ended only when it has lasted */
    uint32_t  opened;
    htc_host *host;
    uint32_t  closed, heard;
    htc_ns    pauses[CALLS]; /* after each */
} rig;

static void *send_away(void *arg)
{
    rig *r = arg;
    for (uint32_t i = 1; i <= CALLS; i++) {
        htc_buf b, frame;
        int     fd = accept(r->listener, NULL, NULL);
        cr_assert(fd >= 0);
        if (r->keeps && i == CALLS) {
            while (__atomic_load_n(&r->opened, __ATOMIC_SEQ_CST) < i)
                usleep(1000);
            usleep((useconds_t)(PAUSE_MAX / HTC_US) + 1000);
        }
        htc_buf_init(&b, NULL, 0);
        htc_buf_init(&frame, NULL, 0);
        htc_wire_error(&b, 0, HTC_EDENIED, "this key is not that member's");
        htc_put_u32(&frame, (uint32_t)b.len);
        htc_put_raw(&frame, htc_buf_bytes(&b));
        cr_assert(send(fd, frame.data, frame.len, MSG_NOSIGNAL) == (ssize_t)frame.len);
        htc_buf_free(&b);
        htc_buf_free(&frame);
        close(fd);
    }
    return NULL;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    rig *r = self;
    if (in->kind == HTC_IN_OPENED)
        __atomic_add_fetch(&r->opened, 1, __ATOMIC_SEQ_CST);
    if (in->kind == HTC_IN_MESSAGE)
        r->heard++;
    if (in->kind == HTC_IN_CLOSED) {
        r->pauses[r->closed++] = htc__conn_find(r->host, in->peer)->pause;
        if (r->closed == CALLS)
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    }
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static void run(rig *r, int keeps)
{
    static const htc_machine_ops ops = { sizeof ops, step, never, NULL, 0 };
    htc_host_options             o = { .size = sizeof o, .redial_ns = 2 * HTC_MS, .redial_max_ns = PAUSE_MAX };
    struct sockaddr_un           at = { .sun_family = AF_UNIX };
    pthread_t                    thread;
    uint32_t                     peer;
    htc_error                    error = { 0 };
    *r = (rig){ .keeps = keeps, .dir = "/tmp/htc-redial-XXXXXX" };
    cr_assert(mkdtemp(r->dir) != NULL);
    snprintf(r->path, sizeof r->path, "%s/sock", r->dir);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", r->path);
    r->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(bind(r->listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(r->listener, 8) == 0);
    cr_assert(eq(int, htc_host_create(NULL, &o, &r->host), HTC_OK));
    cr_assert(eq(int, htc_host_dial_unix(r->host, r->path, 1, &peer, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, pthread_create(&thread, NULL, send_away, r), 0));
    cr_expect(eq(int, htc_host_run(r->host, &ops, r), HTC_OK));
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
    htc_host_destroy(r->host);
    close(r->listener);
    cr_expect(unlink(r->path) == 0 && rmdir(r->dir) == 0);
    cr_expect(eq(u32, r->heard, CALLS), "it is told why");
}

/* They double from 2 ms. On a slow machine one may last by chance, and then they begin anew. */
Test(host_redial, who_is_sent_away_asks_less_and_less_often, .timeout = 60)
{
    rig    r;
    htc_ns longest = 0;
    run(&r, 0);
    for (uint32_t i = 0; i < CALLS; i++) {
        htc_ns before = i ? r.pauses[i - 1] : 2 * HTC_MS, longer = before * 2 < PAUSE_MAX ? before * 2 : PAUSE_MAX;
        cr_expect(r.pauses[i] == longer || r.pauses[i] == 2 * HTC_MS, "call %u: %llu ns", i, (unsigned long long)r.pauses[i]);
        longest = r.pauses[i] > longest ? r.pauses[i] : longest;
    }
    cr_expect(longest > 2 * HTC_MS);
}

Test(host_redial, after_a_connection_that_has_lasted_it_asks_soon, .timeout = 60)
{
    rig r;
    run(&r, 1);
    cr_expect(eq(u64, r.pauses[CALLS - 1], 2 * HTC_MS));
}
