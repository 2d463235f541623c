/* Processes on the nodes of a gang, as the hosts of its agents see them: the door at which a leader's task asks for one, the process on a member's
 * node, and what the program htc-gang does.
 *
 * The door is a socket beside the task's directory, which this uid alone may enter. Through it comes one command a connection (u32 length,
 * roles/runtime/gang_wire.h); the connection stays until the answer, and its end before that is told as HTC_EVENT_GANG_LEFT. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "roles/runtime/gang_wire.h"

#define ASKING_MAX 512 /* connections of one task */
#define COMMAND_MAX (HTC_GANG_WORDS_MAX + HTC_GANG_NODE_MAX + 16)

typedef struct asking {
    struct htc__gang_door *door;
    struct asking         *next;
    uint64_t               request; /* 0: its command is not whole yet */
    int                    fd;
    struct event          *event;
    uint8_t               *bytes; /* length and command, as they come */
    size_t                 have;
    htc_buf                end; /* length and answer, while they are written */
    size_t                 written;
} asking;

struct htc__gang_door {
    htc__run     *run;
    int           fd;
    struct event *event;
    asking       *list;
    uint32_t      n;
    uint64_t      requests;
};

/* ---- the door ---- */

int htc__gang_leads(const htc__run *r)
{
    return r->agent->gang && !r->gang && !r->process && !r->door && r->task->nodes && strchr(r->task->nodes, ' ') && r->task->member == 0 && !r->task->container;
}

static void asking_free(asking *q)
{
    asking **p = &q->door->list;
    while (*p != q)
        p = &(*p)->next;
    *p = q->next;
    q->door->n--;
    if (q->event)
        event_free(q->event);
    close(q->fd);
    free(q->bytes);
    htc_buf_free(&q->end);
    free(q);
}

static void tell(asking *q, uint32_t event, htc_bytes command)
{
    const htc__run *r = q->door->run;
    htc_buf         body;
    htc_buf_init(&body, r->agent->env, 0);
    htc_put_u64(&body, r->run);
    htc_put_u64(&body, q->request);
    htc_put_raw(&body, command);
    if (body.status == HTC_OK)
        htc_host_event(r->agent->host, event, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static uint32_t length_of(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 1: go on. */
static int read_some(asking *q)
{
    size_t  wanted = q->have < 4 ? 4 : 4 + (size_t)length_of(q->bytes);
    ssize_t n;
    if (q->request) { /* it has nothing more to say: this is its end */
        uint8_t more;
        return recv(q->fd, &more, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
    }
    n = recv(q->fd, q->bytes + q->have, wanted - q->have, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    q->have += n > 0 ? (size_t)n : 0;
    if (n == 0 || (q->have >= 4 && (length_of(q->bytes) == 0 || length_of(q->bytes) > COMMAND_MAX)))
        return 0;
    if (q->have > 4 && q->have == 4 + (size_t)length_of(q->bytes)) {
        q->request = ++q->door->requests;
        tell(q, HTC_EVENT_GANG_ASKED, (htc_bytes){ q->bytes + 4, q->have - 4 });
    }
    return 1;
}

static int write_some(asking *q)
{
    ssize_t n = send(q->fd, q->end.data + q->written, q->end.len - q->written, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    q->written += (size_t)n;
    return q->written < q->end.len;
}

static void on_asking(evutil_socket_t fd, short what, void *arg)
{
    asking *q = arg;
    (void)fd;
    if (what & EV_WRITE) {
        if (!write_some(q))
            asking_free(q);
        return;
    }
    if (read_some(q))
        return;
    if (q->request)
        tell(q, HTC_EVENT_GANG_LEFT, (htc_bytes){ 0 });
    asking_free(q);
}

/* Another user's process does not get as far as this: the directory is closed to it. Root's does. */
static int is_ours(int fd)
{
    struct ucred who;
    socklen_t    len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && (who.uid == geteuid() || who.uid == 0);
}

static void on_door(evutil_socket_t listening, short what, void *arg)
{
    struct htc__gang_door *d = arg;
    int                    fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)what;
    if (fd < 0)
        return;
    asking *q = d->n < ASKING_MAX && is_ours(fd) ? calloc(1, sizeof *q) : NULL;
    if (!q) {
        close(fd);
        return;
    }
    q->door = d;
    q->fd = fd;
    q->next = d->list;
    d->list = q;
    d->n++;
    htc_buf_init(&q->end, NULL, 0);
    q->bytes = malloc(4 + COMMAND_MAX);
    q->event = event_new(d->run->agent->host->base, fd, EV_READ | EV_PERSIST, on_asking, q);
    if (!q->bytes || !q->event || event_add(q->event, NULL) != 0)
        asking_free(q);
}

/* By the directory that is held: its own path may be longer than a socket's address. */
static int door_address(struct sockaddr_un *to, int dir)
{
    *to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return snprintf(to->sun_path, sizeof to->sun_path, "/proc/self/fd/%d/gang", dir) > 0;
}

void htc__gang_door_open(htc__run *r)
{
    struct htc__gang_door *d = calloc(1, sizeof *d);
    struct sockaddr_un     at;
    if (!d)
        return;
    d->run = r;
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int ready = d->fd >= 0 && door_address(&at, r->dir_fd) && (unlinkat(r->dir_fd, "gang", 0) == 0 || errno == ENOENT) &&
                bind(d->fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(d->fd, ASKING_MAX) == 0;
    d->event = ready ? event_new(r->agent->host->base, d->fd, EV_READ | EV_PERSIST, on_door, d) : NULL;
    r->door = d;
    if (d->event && event_add(d->event, NULL) == 0)
        return;
    htc__log(r->agent->env, HTC_LOG_WARN, "no socket in %s: %s -> the task starts nothing on its other nodes", r->dir, strerror(errno));
    htc__gang_door_close(r);
}

void htc__gang_door_close(htc__run *r)
{
    struct htc__gang_door *d = r->door;
    if (!d)
        return;
    r->door = NULL;
    while (d->list)
        asking_free(d->list);
    if (d->event)
        event_free(d->event);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

void htc__gang_answer(htc_agent_host *a, htc_reader *body)
{
    uint64_t  number = htc_get_u64(body), request = htc_get_u64(body);
    htc_bytes end = htc_get_raw(body, htc_reader_left(body));
    asking   *q = NULL;
    for (htc__run *r = a->runs; r && body->status == HTC_OK; r = r->next)
        if (r->run == number && !r->process && r->door)
            for (q = r->door->list; q && q->request != request; q = q->next)
                ;
    if (!q || q->end.len)
        return;
    htc_put_u32(&q->end, (uint32_t)end.len);
    htc_put_raw(&q->end, end);
    event_free(q->event);
    q->event = q->end.status == HTC_OK ? event_new(a->host->base, q->fd, EV_WRITE | EV_PERSIST, on_asking, q) : NULL;
    if (!q->event || event_add(q->event, NULL) != 0)
        asking_free(q);
}

/* ---- the process ---- */

static htc__run *member_run(const htc_agent_host *a, uint64_t number)
{
    for (htc__run *r = a->runs; r; r = r->next)
        if (r->run == number && !r->process && !r->gang)
            return r->phase == RUN_READY && r->status == HTC_OK && !r->plain && !r->clean_wanted && r->dir_fd >= 0 ? r : NULL;
    return NULL;
}

htc_status htc__gang_run(htc_agent_host *a, uint64_t tag, htc_reader *body)
{
    uint64_t  of = htc_get_u64(body), number = htc_get_u64(body);
    htc_bytes bytes = htc_get_bytes(body);
    htc_task *task = NULL;
    if (htc_reader_done(body) != HTC_OK)
        return HTC_EPROTO;
    const htc__run *base = member_run(a, of);
    htc_status      status = base ? htc_task_from_bytes(NULL, bytes, &task) : HTC_ENOTFOUND;
    if (status == HTC_OK && task->kind != HTC_TASK_COMMAND) {
        htc_task_destroy(task);
        return HTC_EPROTO;
    }
    if (status != HTC_OK)
        return status;
    htc__run *r = htc__run_new(a, number, &base->attempt, task, 0);
    if (!r) {
        htc_task_destroy(task);
        return HTC_ENOMEM;
    }
    r->gang = 1;
    memcpy(r->user, base->user, sizeof r->user);
    r->count = base->count;
    r->compat = base->compat;
    r->phase = RUN_READY;
    r->dir_fd = fcntl(base->dir_fd, F_DUPFD_CLOEXEC, 3);
    if (r->dir_fd < 0 || asprintf(&r->mark, "HTC_GANG_START=%" PRIu64, number) < 0) {
        r->mark = NULL;
        r->tag = tag;
        snprintf(r->text, sizeof r->text, "cannot enter the directory of the task: %s", strerror(errno));
        htc__run_refuse(r, HTC_EREFUSED);
        return HTC_OK;
    }
    return htc__run_start(r, tag);
}

void htc__gang_told(htc__run *r, const htc_outcome *o)
{
    htc_gang_end e = { .status = o->status < 0 ? o->status : HTC_OK, .exit_code = o->exit_code, .signal = o->signal };
    char        *streams = malloc((size_t)2 * HTC_GANG_STREAM_MAX);
    htc_buf      body;
    if (o->status > 0)
        e.status = HTC_EREFUSED;
    snprintf(e.reason, sizeof e.reason, "%s", o->reason);
    if (streams && r->started) {
        e.out = (htc_bytes){ streams, htc__run_tail(r, 0, streams, HTC_GANG_STREAM_MAX) };
        e.err = (htc_bytes){ streams + HTC_GANG_STREAM_MAX, htc__run_tail(r, 1, streams + HTC_GANG_STREAM_MAX, HTC_GANG_STREAM_MAX) };
    }
    htc_buf_init(&body, r->agent->env, 0);
    htc_gang_end_write(&body, &e);
    htc_host_answer(r->agent->host, HTC_CALL_GANG_RUN, r->tag, body.status, htc_buf_bytes(&body));
    htc_buf_free(&body);
    free(streams);
}

/* ---- the program ---- */

static int whole(int fd, void *bytes, size_t n, int out)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = out ? send(fd, (char *)bytes + done, n - done, MSG_NOSIGNAL) : recv(fd, (char *)bytes + done, n - done, 0);
        if (k == 0 || (k < 0 && errno != EINTR))
            return 0;
        done += k > 0 ? (size_t)k : 0;
    }
    return 1;
}

static void pass_on(int to, htc_bytes bytes)
{
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = write(to, (const char *)bytes.data + done, bytes.len - done);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

static int dial(const char *door, htc_error *error)
{
    const char        *slash = door ? strrchr(door, '/') : NULL;
    char               above[PATH_MAX];
    struct sockaddr_un at;
    if (!slash || (size_t)(slash - door) >= sizeof above || strcmp(slash, "/gang") != 0) {
        htc__error(error, HTC_EINVAL, "HTC_GANG is not set: this is no task of several nodes (htc submit --node-cores N makes one), or it runs in a container");
        return -1;
    }
    snprintf(above, sizeof above, "%.*s", (int)(slash - door), door);
    int dir = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = dir < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && door_address(&at, dir) && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        htc__error(error, htc__status_of(errno, HTC_EUNREACHABLE), "the agent of this task is not to be reached at %s: %s", door, strerror(errno));
    if (dir >= 0)
        close(dir);
    return fd;
}

static int ask(int fd, const char *node, const char *const *words, htc_error *error)
{
    htc_gang_command c = { .words = { 0 } };
    htc_buf          list, b;
    htc_buf_init(&list, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    snprintf(c.node, sizeof c.node, "%s", node);
    for (size_t i = 0; words[i]; i++)
        htc_put_raw(&list, (htc_bytes){ words[i], strlen(words[i]) + 1 });
    c.words = htc_buf_bytes(&list);
    int fits = htc_gang_words(c.words) > 0 && node[0] && strlen(node) < sizeof c.node;
    htc_put_u32(&b, 0);
    htc_gang_command_write(&b, &c);
    int sent = 0;
    if (!fits) {
        htc__error(error, HTC_EINVAL, "a node and a command of at most %u bytes are needed", HTC_GANG_WORDS_MAX);
    } else if (list.status == HTC_OK && b.status == HTC_OK) {
        htc__le32_put(b.data, (uint32_t)(b.len - 4));
        sent = whole(fd, b.data, b.len, 1);
        if (!sent)
            htc__error(error, HTC_ECLOSED, "the agent of this task does not take the command: %s", strerror(errno));
    }
    htc_buf_free(&list);
    htc_buf_free(&b);
    return sent;
}

static int judge(const htc_gang_end *e, const char *const *words, htc_error *error)
{
    if (e->here) {
        execvp(words[0], (char *const *)(uintptr_t)words);
        htc__error(error, HTC_ENOEXEC, "%s: %s", words[0], strerror(errno));
        return -1;
    }
    pass_on(1, e->out);
    pass_on(2, e->err);
    if (e->status == HTC_OK || e->status == HTC_EEXIT)
        return e->exit_code;
    if (e->signal)
        return 128 + (int)e->signal;
    htc__error(error, e->status, "%s", e->reason[0] ? e->reason : htc_strerror(e->status));
    return -1;
}

int htc_agent_host_gang(const char *door, const char *node, const char *const *words, htc_error *error)
{
    uint8_t      head[4];
    htc_gang_end e;
    int          code = -1, fd;
    if (!node || !words || !words[0] || !words[0][0]) {
        htc__error(error, HTC_EINVAL, "a node and a command are needed");
        return -1;
    }
    if ((fd = dial(door, error)) < 0)
        return -1;
    if (ask(fd, node, words, error)) {
        uint32_t len = whole(fd, head, sizeof head, 0) ? length_of(head) : 0;
        uint8_t *bytes = len && len <= HTC_GANG_BODY_MAX ? malloc(len) : NULL;
        if (bytes && whole(fd, bytes, len, 0) && htc_gang_end_read((htc_bytes){ bytes, len }, &e) == HTC_OK)
            code = judge(&e, words, error);
        else
            htc__error(error, HTC_ECLOSED, "the agent of this task ends the connection: the task is over, or asks for too much at once");
        free(bytes);
    }
    close(fd);
    return code;
}
