/* Whoever has dialled is told that nobody listens there any more: by the host, and by the simulator. */
#include "sim_probe.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/host.h"

TestSuite(refused);

#define OP 77u

/* ---- live ---- */

typedef struct room {
    char     path[108];
    int      fd; /* listens; -1: nobody does */
    uint32_t peer, stale, missing;
    uint32_t opened, told, told_stale, told_missing;
    htc_ns   at;
} room;

static int listen_at(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    cr_assert(fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4) == 0);
    return fd;
}

static void end_listening(room *m)
{
    close(m->fd); /* and so those who have called are cut off */
    m->fd = -1;
}

/* It is open, and nobody listens any more; then somebody does again; then the file is gone too. */
static htc_status room_step(void *self, const htc_input *in, htc_output *out)
{
    room *m = self;
    if (in->kind == HTC_IN_EVENT) {
        htc_reader r = htc_reader_of(in->body);
        uint32_t   peer = htc_get_u32(&r);
        cr_assert(htc_reader_done(&r) == HTC_OK && in->op == OP);
        m->told += peer == m->peer;
        m->told_stale += peer == m->stale;
        m->told_missing += peer == m->missing;
        if (peer == m->peer)
            m->at = in->now + 100 * HTC_MS; /* meanwhile it is dialled some times more */
    } else if (in->kind == HTC_IN_OPENED) {
        cr_expect(eq(u32, in->peer, m->peer));
        if (++m->opened == 2)
            unlink(m->path);
        end_listening(m);
    } else if (in->kind == HTC_IN_TIMEOUT && in->now >= m->at) {
        m->at = HTC_NEVER;
        if (m->told == 1) {
            unlink(m->path);
            m->fd = listen_at(m->path);
        } else {
            return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
        }
    }
    return HTC_OK;
}

static htc_ns room_deadline(const void *self)
{
    return ((const room *)self)->at;
}

Test(refused, a_host_tells_once_that_nobody_listens)
{
    static const htc_machine_ops ops = { sizeof ops, room_step, room_deadline, NULL, 0 };
    char                         dir[] = "/tmp/htc-refused-XXXXXX", stale[108], missing[108];
    room                         m = { .at = HTC_NEVER };
    htc_host                    *h = NULL;
    cr_assert(mkdtemp(dir) != NULL && htc_host_create(NULL, NULL, &h) == HTC_OK);
    snprintf(m.path, sizeof m.path, "%s/s", dir);
    snprintf(stale, sizeof stale, "%s/stale", dir);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    m.fd = listen_at(m.path);
    close(listen_at(stale));
    cr_assert(htc_host_dial_unix(h, m.path, 0, &m.peer, NULL) == HTC_OK && htc_host_dial_unix(h, stale, 0, &m.stale, NULL) == HTC_OK &&
              htc_host_dial_unix(h, missing, 0, &m.missing, NULL) == HTC_OK);
    cr_expect(eq(int, htc_host_tell_refused(NULL, m.peer, OP), HTC_EINVAL));
    cr_expect(eq(int, htc_host_tell_refused(h, 12345, OP), HTC_ENOTFOUND));
    cr_assert(htc_host_tell_refused(h, m.peer, OP) == HTC_OK && htc_host_tell_refused(h, m.stale, OP) == HTC_OK && htc_host_tell_refused(h, m.missing, OP) == HTC_OK);
    cr_expect(eq(int, htc_host_run(h, &ops, &m), HTC_OK));
    cr_expect(m.opened == 2 && m.told == 2, "%u times open, told %u times", m.opened, m.told);
    cr_expect(eq(u32, m.told_stale, 1), "a file without a listener");
    cr_expect(eq(u32, m.told_missing, 0), "nobody was ever seen there");
    htc_host_destroy(h);
    cr_expect(unlink(stale) == 0 && rmdir(dir) == 0);
}

/* ---- in virtual time ---- */

Test(refused, the_simulator_tells_of_a_node_that_is_not_up)
{
    static const htc_sim_dial_options tells = { .size = sizeof tells, .refused = OP };
    htc_sim_options                   o = { .size = sizeof o, .seed = 3 };
    static probe                      a, b;
    htc_sim                          *sim = NULL;
    a = b = (probe){ 0 };
    cr_assert(htc_sim_create(NULL, &o, &sim) == HTC_OK);
    cr_assert(htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "a", .host = &probe_host, .ctx = &a }, &a.node) == HTC_OK);
    cr_assert(htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "b", .host = &probe_host, .ctx = &b }, &b.node) == HTC_OK);
    htc_sim_boot(a.node);
    cr_assert(htc_sim_dial(a.node, 1, b.node, &tells) == HTC_OK);
    htc_sim_run(sim, HTC_SECOND);
    cr_expect(a.opened == 0 && a.events == 1, "not there yet: %zu", a.events);
    htc_sim_boot(b.node);
    htc_sim_run(sim, HTC_SECOND);
    cr_expect(a.opened == 1 && a.events == 1);
    htc_sim_break(a.node, b.node);
    htc_sim_pause(b.node, 300 * HTC_MS);
    htc_sim_run(sim, HTC_SECOND);
    cr_expect(a.opened == 2 && a.events == 1, "it does not answer, but it lives");
    htc_sim_crash(b.node);
    htc_sim_run(sim, HTC_SECOND);
    cr_expect(a.closed == 2 && a.events == 2);
    htc_sim_destroy(sim);
}
