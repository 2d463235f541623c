/* A helper process as its executor sees it: started like a task, fed over a socket, read through shared memory. Who ended it: functions_judge.c. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/util.h"
#include "net/exec/functions.h"
#include "net/files/files.h"

#define FEED_BYTES (HTC__FN_FRAME_MAX - 64) /* of inputs in one portion */
#define AHEAD 2              /* portions of a span that are out, where they hold as many tasks as a portion can */
#define OPENS_MAX 200        /* objects and spans, then an idle process is ended: what it has loaded stays loaded */
#define IDLE_MAX (60 * HTC_SECOND)
#define END_PATIENCE (5 * HTC_SECOND)
#define OPEN_PATIENCE (60 * HTC_SECOND) /* for an object that is loaded, where its tasks have no smaller limit */
#define QUIET_MAX (10 * HTC_SECOND) /* portions are out, and no thread is at one of them: or as long as a task may take, if that is less */
#define TICK_LEAST (5 * HTC_MS)
#define TICK_MOST HTC_SECOND

_Static_assert(HTC__FN_SPANS_MAX * HTC__SPAN_PORTIONS <= HTC__FN_PORTIONS_MAX, "each portion of each span has a number");
_Static_assert(HTC__FN_INPUT_MAX == HTC__SPAN_INPUT_MAX && HTC__FN_OUTPUT_MAX == HTC__SPAN_OUTPUT_MAX, "what is asked can be sent");

/* ---- frames ---- */

static void send_unsent(htc__fn_process *p)
{
    while (p->unsent.len >= 4 && p->socket >= 0) {
        uint32_t n;
        memcpy(&n, p->unsent.data, sizeof n);
        assert(n <= p->unsent.len - 4);
        if (send(p->socket, p->unsent.data + 4, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            if (errno == EAGAIN)
                event_add(p->writable, NULL);
            return; /* else it is dead, which is told elsewhere */
        }
        memmove(p->unsent.data, p->unsent.data + 4 + n, p->unsent.len - 4 - n);
        p->unsent.len -= 4 + n;
    }
}

static void send_frame(htc__fn_process *p, const htc__fn_frame *f)
{
    htc_buf b;
    htc_buf_init(&b, p->agent->env, HTC__FN_FRAME_MAX);
    htc__fn_frame_write(&b, f);
    uint32_t n = (uint32_t)b.len;
    size_t   before = p->unsent.len;
    if (b.status == HTC_OK) {
        htc_put_raw(&p->unsent, (htc_bytes){ &n, sizeof n });
        htc_put_raw(&p->unsent, htc_buf_bytes(&b));
    }
    if (b.status != HTC_OK || p->unsent.status != HTC_OK) {
        p->unsent.len = before; /* not half of it */
        htc__process_kill(p);   /* with a frame that is missing it cannot go on */
    }
    htc_buf_free(&b);
    send_unsent(p);
}

static int send_with(const htc__fn_process *p, const htc__fn_frame *f, const int *fds, size_t n_fds)
{
    htc_buf b;
    union {
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr header;
    } control;
    htc_buf_init(&b, p->agent->env, HTC__FN_FRAME_MAX);
    htc__fn_frame_write(&b, f);
    struct iovec  body = { b.data, b.len };
    struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
    int bad = b.status != HTC_OK || sendmsg(p->socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0;
    htc_buf_free(&b);
    return bad ? -1 : 0;
}

static htc__fn_frame *new_frame(htc__fn_process *p, htc__fn_kind kind, uint32_t span)
{
    htc__fn_frame *f = calloc(1, sizeof *f);
    if (!f) {
        htc__process_kill(p);
        return NULL;
    }
    f->kind = kind;
    f->span = span;
    return f;
}

static void send_small(htc__fn_process *p, htc__fn_kind kind, uint32_t span, uint32_t cancelled)
{
    htc__fn_frame *f = p->run ? new_frame(p, kind, span) : NULL;
    if (f) {
        f->cancelled = cancelled;
        send_frame(p, f);
    }
    free(f);
}

/* ---- which spans it has ---- */

void htc__process_take(htc__fn_process *p, htc__span *s)
{
    uint32_t id = 0;
    while (p->spans[id])
        id++;
    assert(id < HTC__FN_SPANS_MAX && !s->process);
    if (!p->n_spans && !p->run) {
        htc_buf_clear(&p->key);
        htc_put_raw(&p->key, htc_buf_bytes(&s->key));
        p->deaths = 0;
    }
    p->spans[id] = s;
    p->n_spans++;
    s->process = p;
    s->id = id;
}

void htc__process_leave(htc__fn_process *p, htc__span *s)
{
    assert(p->spans[s->id] == s && p->n_spans > 0);
    p->spans[s->id] = NULL;
    p->n_spans--;
    p->idle_since = htc_host_now();
    if (s->phase == SPAN_RUNS && !p->agent->closing)
        send_small(p, FN_CLOSE, s->id, 0);
    s->process = NULL;
    if (!p->n_spans && p->opens >= OPENS_MAX && !p->agent->closing)
        htc__process_end(p);
}

void htc__process_stop(htc__fn_process *p, const htc__span *s)
{
    send_small(p, FN_STOP, s->id, s->why != HTC_AGAIN && s->why != HTC_EFULL);
}

/* ---- what comes back ---- */

/* What it says cannot be: it is not gone on with, and the user's tasks in it are run again as after any other death. */
static void broken(htc__fn_process *p, const char *what)
{
    htc__log(p->agent->env, HTC_LOG_WARN, "a process of functions says what cannot be: %s -> another one", what);
    htc__process_kill(p);
}

/* There is no room for it in the answer: the number is as one that was not run. */
static htc_status put_off(htc__span *s, uint32_t index, uint32_t offset, const char *reason)
{
    htc__span_stop(s, HTC_EFULL, reason);
    htc_status status = htc__span_book_put_off(s->book, index, offset);
    return status == HTC_EEXISTS ? HTC_OK : status;
}

static htc_status on_output(htc__span *s, uint32_t index, const htc__fn_record *r, htc_bytes bytes)
{
    if (s->outputs.len + bytes.len + 16 > HTC__SPAN_OUTPUTS_MAX)
        return put_off(s, index, r->offset, "the outputs are so many that an answer holds no more");
    uint64_t   number = htc__span_book_is_out(s->book, index, r->offset) ? htc__span_book_number(s->book, index, r->offset) : 0;
    htc_status status = htc__span_book_output(s->book, index, r->offset);
    if (status == HTC_OK) {
        htc__span_put_output(&s->outputs, number, bytes);
        s->n_outputs++;
    }
    return status == HTC_EEXISTS ? HTC_OK : status;
}

htc_status htc__process_failed(htc__span *s, uint32_t index, uint32_t offset, htc_status why, const char *reason)
{
    if (s->n_failed >= HTC__SPAN_FAILED_MAX)
        return put_off(s, index, offset, "");
    uint64_t   number = htc__span_book_is_out(s->book, index, offset) ? htc__span_book_number(s->book, index, offset) : 0;
    htc_status status = htc__span_book_failed(s->book, index, offset);
    if (status == HTC_OK)
        htc__span_failed(s, number, why, reason);
    return status == HTC_EEXISTS ? HTC_OK : status;
}

static htc_status on_failed(htc__span *s, uint32_t index, const htc__fn_record *r, htc_bytes bytes)
{
    char reason[HTC__FN_REASON_MAX];
    memcpy(reason, bytes.len ? bytes.data : "", bytes.len);
    reason[bytes.len] = '\0';
    return htc__process_failed(s, index, r->offset, (htc_status)r->status == HTC_ETOOBIG ? HTC_ETOOBIG : HTC_EEXIT, reason);
}

static htc_status on_record(htc__fn_process *p, const htc__fn_record *r, htc_bytes bytes)
{
    htc__span *s = p->spans[r->portion / HTC__SPAN_PORTIONS];
    uint32_t   index = r->portion % HTC__SPAN_PORTIONS;
    if (!s || s->phase != SPAN_RUNS)
        return HTC_EPROTO;
    uint64_t   before = htc__span_book_done(s->book) + htc__span_book_failures(s->book);
    htc_status status = r->kind == FN_ENDED     ? htc__span_book_ended(s->book, index, r->offset, r->count)
                        : r->kind == FN_SKIPPED ? htc__span_book_skipped(s->book, index, r->offset, r->count)
                        : r->kind == FN_OUTPUT  ? on_output(s, index, r, bytes)
                                                : on_failed(s, index, r, bytes);
    p->settled += htc__span_book_done(s->book) + htc__span_book_failures(s->book) - before;
    return status;
}

/* All of a thread's whole records. 0, or -1: they are none. */
static int read_ring(htc__fn_process *p, uint32_t thread)
{
    htc__fn_thread *t = &p->shared->thread[thread];
    uint8_t        *line = p->agent->functions->records;
    uint32_t        tail = p->tails[thread], n = atomic_load_explicit(&t->head, memory_order_acquire) - tail, place = tail % HTC__FN_RING;
    htc__fn_record  r;
    htc_bytes       bytes, rest = { line, n };
    htc_status      status = HTC_OK;
    if (n > HTC__FN_RING)
        return -1;
    uint32_t first = n < HTC__FN_RING - place ? n : HTC__FN_RING - place;
    memcpy(line, t->ring + place, first);
    memcpy(line + first, t->ring, n - first);
    p->tails[thread] = tail + n;
    atomic_store_explicit(&t->tail, tail + n, memory_order_release);
    while ((status = htc__fn_record_next(&rest, &r, &bytes)) == HTC_OK && (status = on_record(p, &r, bytes)) == HTC_OK)
        ;
    return status == HTC_EMPTY ? 0 : -1;
}

int htc__process_read(htc__fn_process *p)
{
    int bad = 0;
    for (uint32_t i = 0; i < p->threads && !bad; i++)
        bad = read_ring(p, i);
    return bad;
}

/* ---- what goes out ---- */

/* As many as their inputs fit into one frame. */
static uint32_t how_many(const htc__span *s, uint64_t first)
{
    uint32_t n = 0;
    if (!s->input_at)
        return HTC__FN_PORTION_TASKS;
    const size_t *at = &s->input_at[first - s->from];
    while (n < HTC__FN_PORTION_TASKS && first + n < s->to && at[n + 1] - at[0] <= FEED_BYTES)
        n++;
    return n;
}

/* 1: something went out. */
static int feed_one(htc__fn_process *p, htc__span *s)
{
    htc__span_portion next;
    uint64_t          first;
    if (s->phase != SPAN_RUNS || s->stopping || (!s->input_at && htc__span_book_out(s->book) >= AHEAD) || !htc__span_book_first(s->book, &first))
        return 0;
    htc_status status = htc__span_book_next(s->book, how_many(s, first), &next);
    if (status == HTC_ENOMEM || status == HTC_EFULL)
        htc__span_stop(s, HTC_ENOMEM, htc_strerror(HTC_ENOMEM)); /* settled by who feeds */
    htc__fn_frame *f = status == HTC_OK ? new_frame(p, FN_PORTION, s->id) : NULL;
    if (!f)
        return 0;
    f->portion = s->id * HTC__SPAN_PORTIONS + next.index;
    f->from = next.from;
    f->n = next.n;
    if (s->input_at) {
        const size_t *at = &s->input_at[next.from - s->from];
        f->with_input = 1;
        f->input = (htc_bytes){ s->input + at[0], at[next.n] - at[0] };
    }
    s->alone_is_out = next.alone != 0;
    s->alone = next.from;
    if (!s->begin)
        s->begin = htc_host_wall();
    send_frame(p, f);
    free(f);
    return 1;
}

static uint32_t count_out(const htc__fn_process *p, uint32_t *suspects)
{
    uint32_t out = 0;
    *suspects = 0;
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i]) {
            out += htc__span_book_out(p->spans[i]->book);
            *suspects += p->spans[i]->stopping ? 0 : htc__span_book_suspects(p->spans[i]->book);
        }
    return out;
}

static void settle_spans(htc__fn_process *p)
{
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i] && p->spans[i]->phase == SPAN_RUNS)
            htc__span_settle(p->spans[i]);
}

/* While there are suspects nothing else runs, and they one after the other. */
static void feed_all(htc__fn_process *p)
{
    uint32_t suspects, out = count_out(p, &suspects), some = 1;
    for (uint32_t i = 0; suspects && !out && i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i] && htc__span_book_suspects(p->spans[i]->book) && feed_one(p, p->spans[i]))
            return;
    if (suspects)
        return;
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i] && p->spans[i]->alone_is_out && htc__span_book_out(p->spans[i]->book))
            return; /* the last of them */
    while (some && p->run) {
        some = 0;
        for (uint32_t i = 0; i < HTC__FN_SPANS_MAX && p->run; i++)
            if (p->spans[i])
                some |= (uint32_t)feed_one(p, p->spans[i]);
    }
}

static void feed(htc__fn_process *p)
{
    feed_all(p);
    settle_spans(p);
}

static void open_span(htc__fn_process *p, htc__span *s)
{
    htc__fn_frame *f = s->opened_since ? NULL : new_frame(p, FN_OPEN, s->id);
    if (!f)
        return;
    s->opened_since = htc_host_now();
    p->opens++;
    f->task_kind = s->task->kind;
    snprintf(f->function, sizeof f->function, "%s", s->task->function);
    snprintf(f->argument, sizeof f->argument, "%s", s->task->argument ? s->task->argument : "");
    snprintf(f->object, sizeof f->object, "%s", s->task->object ? s->task->object : "");
    if (s->object_fd < 0) {
        send_frame(p, f);
    } else if (p->unsent.len || send_with(p, f, &s->object_fd, 1) != 0) {
        s->opened_since = 0; /* there is no room for it now */
        event_add(p->writable, NULL);
    }
    free(f);
}

/* What the threads have told. */
static void hear(htc__fn_process *p)
{
    atomic_store(&p->shared->told, 0);
    if (htc__process_read(p) != 0)
        broken(p, "what a thread tells");
    else
        feed(p);
}

/* ---- time ---- */

static htc_ns limit_of(const htc__span *s)
{
    return s->task->limits.wall;
}

static void arm_tick(htc__fn_process *p)
{
    htc_ns next = p->n_spans ? HTC_NEVER : TICK_MOST;
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i]) {
            htc_ns wall = limit_of(p->spans[i]), every = wall / 8 < TICK_LEAST ? TICK_LEAST : wall / 8 > TICK_MOST ? TICK_MOST : wall / 8;
            if (!wall)
                every = TICK_MOST;
            if (every < next)
                next = every;
        }
    if (!p->run || next == HTC_NEVER || evtimer_pending(p->tick, NULL))
        return;
    struct timeval tv = htc__timeval(next);
    event_add(p->tick, &tv);
}

htc__span *htc__process_span_at(const htc__fn_process *p, uint32_t where)
{
    htc__span *s = where >= 1 && where <= HTC__FN_PORTIONS_MAX && (where - 1) / HTC__SPAN_PORTIONS < HTC__FN_SPANS_MAX
                       ? p->spans[(where - 1) / HTC__SPAN_PORTIONS]
                       : NULL;
    return s && s->phase == SPAN_RUNS ? s : NULL;
}

/* A thread that was at the same task for longer than its limit. */
static void look_at(htc__fn_process *p, uint32_t thread, htc_ns now)
{
    htc__fn_thread *t = &p->shared->thread[thread];
    htc__fn_watch  *w = &p->watch[thread];
    uint64_t        begun = atomic_load(&t->begun);
    uint32_t        where = atomic_load(&t->where), at = atomic_load(&t->at);
    const htc__span *s = htc__process_span_at(p, where);
    if (atomic_load(&t->begun) != begun)
        s = NULL; /* it went on meanwhile: at is of another task */
    if (!s || begun != w->begun || where != w->where || !w->since) {
        *w = (htc__fn_watch){ begun, where, now };
        return;
    }
    if (!limit_of(s) || now - w->since <= limit_of(s) || !htc__span_book_is_out(s->book, (where - 1) % HTC__SPAN_PORTIONS, at))
        return;
    p->over_where = where;
    p->over_at = at;
    p->over_limit = limit_of(s);
    htc__process_kill(p);
}

/* Some thread is at a task that is out, or nothing is. */
static int some_work(const htc__fn_process *p)
{
    uint32_t suspects;
    for (uint32_t i = 0; i < p->threads; i++) {
        uint32_t         where = atomic_load(&p->shared->thread[i].where), at = atomic_load(&p->shared->thread[i].at);
        const htc__span *s = htc__process_span_at(p, where);
        if (s && htc__span_book_is_out(s->book, (where - 1) % HTC__SPAN_PORTIONS, at))
            return 1;
    }
    return count_out(p, &suspects) == 0;
}

/* What threads say they are at may have been overwritten, and what they wait for too. Then nothing would ever move again. */
static void look_for_quiet(htc__fn_process *p, htc_ns now)
{
    htc_ns most = QUIET_MAX;
    if (p->settled != p->quiet_settled || some_work(p) || !p->quiet_since) {
        p->quiet_settled = p->settled;
        p->quiet_since = now;
    }
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i] && limit_of(p->spans[i]) && limit_of(p->spans[i]) < most)
            most = limit_of(p->spans[i]);
    if (now - p->quiet_since > most)
        broken(p, "that tasks are under way, and that no thread has one");
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    htc__fn_process *p = arg;
    htc_ns           now = htc_host_now();
    (void)fd, (void)what;
    look_for_quiet(p, now);
    for (uint32_t i = 0; i < p->threads && !p->over_where && p->run; i++)
        look_at(p, i, now);
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++) {
        htc__span *s = p->spans[i];
        if (s && s->phase == SPAN_OPENS && s->opened_since && now - s->opened_since > (limit_of(s) > OPEN_PATIENCE ? limit_of(s) : OPEN_PATIENCE)) {
            htc__span_give_up(s, HTC_EINPUT, "its object has been loading for a minute: what it does when it is loaded does not end");
            htc__process_kill(p);
        }
    }
    if (p->ending && now - p->idle_since > END_PATIENCE)
        htc__process_kill(p);
    else if (!p->ending && !p->n_spans && p->run && now - p->idle_since > IDLE_MAX)
        htc__process_end(p);
    if (p->run)
        hear(p); /* also where nobody has told */
    arm_tick(p);
}

/* ---- its end ---- */

void htc__process_kill(htc__fn_process *p)
{
    if (p && p->run && !p->starting)
        htc__run_signal(p->run, SIGKILL);
}

void htc__process_slots(htc__fn_process *p)
{
    if (!p->shared)
        return;
    atomic_store(&p->shared->slots, p->agent->slots);
    syscall(SYS_futex, &p->shared->slots, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void htc__process_end(htc__fn_process *p)
{
    p->ending = 1;
    p->idle_since = htc_host_now();
    if (p->socket >= 0)
        shutdown(p->socket, SHUT_WR); /* it goes when it has read the end */
}

void htc__process_free(htc__fn_process *p)
{
    struct event **events[] = { &p->readable, &p->writable, &p->told, &p->tick };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (*events[i]) {
            event_free(*events[i]);
            *events[i] = NULL;
        }
    if (p->socket >= 0)
        close(p->socket);
    if (p->event_fd >= 0)
        close(p->event_fd);
    if (p->shared)
        munmap(p->shared, htc__fn_shared_size(p->threads));
    p->socket = p->event_fd = -1;
    p->shared = NULL;
    htc_buf_clear(&p->unsent);
}

/* ---- its beginning ---- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    htc__fn_process *p = arg;
    uint8_t          bytes[1024];
    htc__fn_frame   *f = malloc(sizeof *f);
    (void)what;
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    if (n <= 0 || !f) { /* its end is told by its process; no memory: later */
        if (n == 0)
            event_del(p->readable);
        free(f);
        return;
    }
    htc_status status = n <= (ssize_t)sizeof bytes ? htc__fn_frame_read((htc_bytes){ bytes, (size_t)n }, f) : HTC_EPROTO;
    htc__span *s = status == HTC_OK && f->kind == FN_OPENED ? p->spans[f->span] : NULL;
    if (status != HTC_OK || f->kind != FN_OPENED) {
        broken(p, "a frame");
    } else if (s && s->phase == SPAN_OPENS && s->opened_since) {
        s->phase = SPAN_RUNS;
        htc__text_clean(f->reason);
        if (f->status != HTC_OK)
            htc__span_give_up(s, f->status == HTC_EINVAL || f->status == HTC_ENOTFOUND || f->status == HTC_EVERSION ? f->status : HTC_EINPUT, f->reason);
        feed(p);
    }
    free(f);
    arm_tick(p);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    htc__fn_process *p = arg;
    (void)fd, (void)what;
    send_unsent(p);
    htc__process_attend(p);
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
    htc__fn_process *p = arg;
    uint64_t         n;
    (void)what;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
    hear(p);
}

/* The memory, and what wakes us. 0, or -1 and errno. */
static int make_shared(htc__fn_process *p, int *memory)
{
    *memory = memfd_create("htc-fn", MFD_CLOEXEC);
    p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*memory < 0 || p->event_fd < 0 || ftruncate(*memory, (off_t)htc__fn_shared_size(p->threads)) != 0)
        return -1;
    void *at = mmap(NULL, htc__fn_shared_size(p->threads), PROT_READ | PROT_WRITE, MAP_SHARED, *memory, 0);
    if (at == MAP_FAILED)
        return -1;
    p->shared = at;
    htc__process_slots(p);
    return 0;
}

static int make_events(htc__fn_process *p)
{
    struct event_base *base = p->agent->host->base;
    p->readable = event_new(base, p->socket, EV_READ | EV_PERSIST, on_readable, p);
    p->writable = event_new(base, p->socket, EV_WRITE, on_writable, p);
    p->told = event_new(base, p->event_fd, EV_READ | EV_PERSIST, on_told, p);
    p->tick = evtimer_new(base, on_tick, p);
    errno = ENOMEM;
    return p->readable && p->writable && p->told && p->tick && event_add(p->readable, NULL) == 0 && event_add(p->told, NULL) == 0 ? 0 : -1;
}

/* A task as any other, whose program is htc-fn. What is of each function task alone does not count for it. */
static htc_task *task_of(const htc__fn_process *p, const htc__span *s)
{
    htc_task  t = { .executable = p->agent->functions->program, .values_json = "{}", .env = s->task->env, .n_env = s->task->n_env, .limits = s->task->limits }, *out = NULL;
    htc_bytes bytes;
    t.limits.wall = t.limits.cpu = 0;
    if (htc_task_to_bytes(NULL, &t, &bytes) != HTC_OK)
        return NULL;
    htc_status status = htc_task_from_bytes(NULL, bytes, &out);
    htc_work_free(NULL, bytes);
    return status == HTC_OK ? out : NULL;
}

static htc_status start_run(htc__fn_process *p, const htc__span *s, int channel)
{
    htc_agent_host *a = p->agent;
    htc_attempt     attempt = { 0, ++a->functions->serial, 1 };
    htc_task       *task = task_of(p, s);
    htc__run       *r = task ? htc__run_new(a, 0, &attempt, task, 0) : NULL;
    if (!r) {
        htc_task_destroy(task);
        return HTC_ENOMEM;
    }
    memcpy(r->user, s->user, sizeof r->user);
    r->process = p;
    r->channel = channel;
    r->phase = RUN_READY;
    p->run = r;
    htc__stage_in(r);
    if (r->status != HTC_OK) {
        htc__run_refuse(r, r->status);
    } else {
        htc_status status = htc__run_start(r, 0);
        if (status != HTC_OK)
            htc__run_refuse(r, status);
    }
    r->channel = -1;
    if (r->phase == RUN_RUNNING)
        return HTC_OK;
    p->run = NULL;
    htc__exec_settle(r);
    return HTC_EREFUSED;
}

static void could_not(htc__fn_process *p, const char *what, int error)
{
    htc_outcome o = { .status = htc__status_of(error, HTC_EREFUSED) };
    snprintf(o.reason, sizeof o.reason, "%s: %s", what, strerror(error));
    htc__process_free(p);
    htc__process_give_up_all(p, &o);
}

static void start(htc__fn_process *p, const htc__span *s)
{
    int            ends[2] = { -1, -1 }, memory = -1;
    htc__fn_frame *hello = NULL;
    p->threads = p->agent->n_keepers > p->agent->slots ? p->agent->n_keepers : p->agent->slots; /* as many slots as it may come to have */
    if (p->threads > HTC__FN_THREADS_MAX)
        p->threads = HTC__FN_THREADS_MAX;
    memset(p->tails, 0, sizeof p->tails);
    memset(p->watch, 0, sizeof p->watch);
    p->over_where = p->over_at = p->opens = 0;
    p->ending = 0;
    p->settled_before = p->settled;
    p->quiet_since = 0;
    int bad = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0;
    p->socket = ends[0];
    if (bad || make_shared(p, &memory) != 0 || make_events(p) != 0 || !(hello = calloc(1, sizeof *hello))) {
        int why = errno;
        if (memory >= 0)
            close(memory);
        if (ends[1] >= 0)
            close(ends[1]);
        could_not(p, "a process cannot be prepared", why);
        return;
    }
    p->starting = 1;
    htc_status status = start_run(p, s, ends[1]);
    p->starting = 0;
    close(ends[1]);
    *hello = (htc__fn_frame){ .kind = FN_HELLO, .version = HTC__FN_VERSION, .threads = p->threads };
    if (status == HTC_OK && send_with(p, hello, (const int[]){ memory, p->event_fd }, 2) != 0)
        htc__process_kill(p);
    free(hello);
    close(memory);
    if (status == HTC_EREFUSED) {
        htc__process_free(p);
        htc__process_give_up_all(p, &p->outcome);
    } else if (status != HTC_OK) {
        could_not(p, "a process cannot be prepared", ENOMEM);
    }
}

void htc__process_attend(htc__fn_process *p)
{
    const htc__span *first = NULL;
    if (p->agent->closing)
        return;
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX && !first; i++)
        if (p->spans[i] && p->spans[i]->phase == SPAN_OPENS)
            first = p->spans[i];
    if (first && !p->run)
        start(p, first);
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX && p->run; i++)
        if (p->spans[i] && p->spans[i]->phase == SPAN_OPENS)
            open_span(p, p->spans[i]);
    if (p->run) {
        feed(p);
        arm_tick(p);
    }
}
