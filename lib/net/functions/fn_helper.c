/* A helper's own process. Its first thread hears the executor and loads objects; what a function does to the process is noted before it is
 * gone, as far as that can be: whose signal it was, who called exit(). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/agent_host.h"
#include "htcsched/work.h"
#include "net/functions/fn_pool.h"
#include "roles/functions/fn_frames.h"

#define OBJECTS_MAX 256
#define STDERR_MAX (1 << 20)
#define EXIT_PROTOCOL 64 /* what came is not what an executor of this version says */
#define EXIT_CANNOT 65

/* A file that was loaded under a name. */
typedef struct object {
    char           *name;
    void           *handle;
    dev_t           device;
    ino_t           inode;
    off_t           size;
    struct timespec changed;
} object;

typedef struct helper {
    int             socket, event;
    htc__fn_shared *shared;
    htc__fn_pool   *pool;
    htc__fn_span    spans[HTC__FN_SPANS_MAX];
    char           *arguments[HTC__FN_SPANS_MAX];
    object          objects[OBJECTS_MAX];
    size_t          n_objects;
    uint8_t         frame[HTC__FN_FRAME_MAX + 1];
} helper;

/* What a handler can reach: the process has one helper in it. */
static htc__fn_shared *noted;
static pid_t           noted_pid;

static void note(htc__fn_how how)
{
    uint32_t nobody = 0, self = htc__fn_pool_self();
    if (!noted || getpid() != noted_pid || !self) /* a child that the function made says nothing */
        return;
    if (atomic_compare_exchange_strong(&noted->guilty, &nobody, self))
        atomic_store(&noted->how, (uint32_t)how);
}

static void on_signal(int number)
{
    note(FN_HOW_SIGNAL);
    raise(number); /* its action is the default one again, and it comes when this function returns */
}

static void on_exit_called(void)
{
    note(FN_HOW_EXIT);
}

static void __attribute__((noreturn)) give_up(int code, const char *why)
{
    if (noted)
        atomic_store(&noted->how, FN_HOW_HELPER);
    fprintf(stderr, "htc-fn: %s\n", why);
    _exit(code);
}

/* ---- what it is told, and tells ---- */

static void tell(void *ctx)
{
    const helper *h = ctx;
    uint64_t      one = 1;
    if (!atomic_exchange(&h->shared->told, 1))
        while (write(h->event, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

static void opened(const helper *h, uint32_t span, htc_status status, const char *reason)
{
    htc__fn_frame *f = calloc(1, sizeof *f);
    htc_buf        b;
    if (!f)
        give_up(EXIT_CANNOT, "out of memory");
    f->kind = FN_OPENED;
    f->span = span;
    f->status = status;
    snprintf(f->reason, sizeof f->reason, "%s", reason);
    htc_buf_init(&b, NULL, HTC__FN_FRAME_MAX);
    htc__fn_frame_write(&b, f);
    while (b.status == HTC_OK && send(h->socket, b.data, b.len, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
    htc_buf_free(&b);
    free(f);
}

/* One frame, and the descriptors that came with it; -1 where there are fewer. 0: the executor is gone. */
static size_t receive(helper *h, int fds[2])
{
    union {
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec  body = { h->frame, sizeof h->frame };
    struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
    ssize_t       n;
    fds[0] = fds[1] = -1;
    while ((n = recvmsg(h->socket, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < 2 * sizeof(int) ? c->cmsg_len - CMSG_LEN(0) : 2 * sizeof(int));
    return n > 0 ? (size_t)n : 0;
}

/* ---- objects ---- */

/* The same file under the same name; *before: how many others there were under it. */
static void *find_loaded(const helper *h, const char *name, const struct stat *st, size_t *before)
{
    *before = 0;
    for (size_t i = 0; i < h->n_objects; i++) {
        const object *o = &h->objects[i];
        if (strcmp(o->name, name) != 0)
            continue;
        if (o->device == st->st_dev && o->inode == st->st_ino && o->size == st->st_size && o->changed.tv_sec == st->st_mtim.tv_sec &&
            o->changed.tv_nsec == st->st_mtim.tv_nsec)
            return o->handle;
        ++*before;
    }
    return NULL;
}

/* The loader believes a name that it knows, whatever file is there now: a file that has taken another's place is told to it by another name of
 * the same directory, where $ORIGIN still leads. */
static int name_for_loader(const char *name, size_t before, char path[PATH_MAX])
{
    const char *base = strrchr(name, '/') + 1;
    size_t      n = (size_t)(base - name), len = strlen(base) + 1;
    if (n + 2 * before + len > PATH_MAX)
        return -1;
    memcpy(path, name, n);
    for (size_t i = 0; i < before; i++, n += 2)
        memcpy(path + n, "./", 2);
    memcpy(path + n, base, len);
    return 0;
}

/* What was loaded stays. fd: of an upload, and taken; -1: name is its path. NULL, with a sentence. */
static void *load(helper *h, const char *name, int fd, char *why, size_t room)
{
    char        path[PATH_MAX];
    struct stat st;
    size_t      before = 0;
    int         there = fd >= 0 ? fstat(fd, &st) == 0 : name[0] == '/' && stat(name, &st) == 0;
    void       *handle = there ? find_loaded(h, name, &st, &before) : NULL;
    if (handle) {
        if (fd >= 0)
            close(fd);
        return handle;
    }
    if (!there || h->n_objects == OBJECTS_MAX) {
        snprintf(why, room, "%.90s cannot be loaded: %.100s", name, there ? "the process has loaded as many objects as it takes" : strerror(errno));
        return NULL;
    }
    /* The descriptor of an upload stays open: its number would name another object to the loader. */
    if (fd >= 0)
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    else if (name_for_loader(name, before, path) != 0)
        snprintf(path, sizeof path, "%s", name);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *said = dlerror();
        snprintf(why, room, "%.90s cannot be loaded: %.140s", name, said ? said : "?");
        return NULL;
    }
    char *copy = strdup(name);
    if (!copy)
        give_up(EXIT_CANNOT, "out of memory");
    h->objects[h->n_objects++] = (object){ copy, handle, st.st_dev, st.st_ino, st.st_size, st.st_mtim };
    return handle;
}

static htc_status find_in_object(helper *h, const htc__fn_frame *f, int fd, htc_task_fn *fn, char *why, size_t room)
{
    void *handle = load(h, f->object, fd, why, room);
    if (!handle)
        return HTC_EINPUT;
    const uint32_t *abi = dlsym(handle, "htc_task_fn_abi");
    if (!abi) {
        snprintf(why, room, "%.120s has no htc_task_fn_abi: put HTC_TASK_FN_OBJECT; into one of its sources", f->object);
        return HTC_EVERSION;
    }
    if (*abi != HTC_TASK_FN_ABI) {
        snprintf(why, room, "%.100s is for version %u of htcsched/task_fn.h, and this is version %u: compile it anew", f->object, (unsigned)*abi,
                 (unsigned)HTC_TASK_FN_ABI);
        return HTC_EVERSION;
    }
    void *symbol = dlsym(handle, f->function);
    if (!symbol) {
        snprintf(why, room, "%.100s has no function %.80s: define it with HTC_TASK_FN in front", f->object, f->function);
        return HTC_ENOTFOUND;
    }
    memcpy(fn, &symbol, sizeof symbol);
    return HTC_OK;
}

static htc_status find_builtin(const htc__fn_frame *f, htc_task_fn *fn, char *why, size_t room)
{
    *fn = htc__fn_builtin(f->function);
    if (!*fn) {
        snprintf(why, room, "there is no builtin %.80s: noop, sleep, spin, read and write are", f->function);
        return HTC_ENOTFOUND;
    }
    const char *wants = htc__fn_builtin_wants(f->function, f->argument);
    if (wants)
        snprintf(why, room, "%.80s: %s", f->function, wants);
    return wants ? HTC_EINVAL : HTC_OK;
}

static void open_span(helper *h, const htc__fn_frame *f, int fd)
{
    char          why[HTC__FN_REASON_MAX] = "";
    htc__fn_span *s = &h->spans[f->span];
    htc_task_fn   fn = NULL;
    atomic_store(&h->shared->loading, f->span + 1);
    htc_status status = f->task_kind == HTC_TASK_BUILTIN ? find_builtin(f, &fn, why, sizeof why)
                                                         : find_in_object(h, f, fd, &fn, why, sizeof why);
    char *argument = strdup(f->argument);
    if (!argument)
        give_up(EXIT_CANNOT, "out of memory");
    free(h->arguments[f->span]);
    h->arguments[f->span] = argument;
    s->fn = fn;
    s->argument = argument;
    atomic_store(&s->stop, 0);
    htc__text_clean(why);
    opened(h, f->span, status, why);
    atomic_store(&h->shared->loading, 0);
}

/* What functions write there is for a look at what went wrong last; it must not fill the disk. */
static void cut_stderr(void)
{
    struct stat st;
    if (fstat(2, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > STDERR_MAX)
        (void)!ftruncate(2, 0);
}

static void put_portion(helper *h, const htc__fn_frame *f)
{
    uint8_t *input = f->with_input ? malloc(f->input.len + 1) : NULL;
    if (!h->spans[f->span].fn)
        give_up(EXIT_PROTOCOL, "a portion of a span that is not open");
    if (f->with_input && !input)
        give_up(EXIT_CANNOT, "out of memory");
    if (input && f->input.len)
        memcpy(input, f->input.data, f->input.len);
    cut_stderr();
    if (htc__fn_pool_put(h->pool, &h->spans[f->span], f->portion, f->from, f->n, input, f->input.len) != HTC_OK)
        give_up(EXIT_CANNOT, "a portion cannot be taken");
}

static void dispatch(helper *h, const htc__fn_frame *f, int fds[2])
{
    switch (f->kind) {
    case FN_OPEN:
        open_span(h, f, fds[0]);
        fds[0] = -1;
        break;
    case FN_PORTION: put_portion(h, f); break;
    case FN_STOP: atomic_store(&h->spans[f->span].stop, f->cancelled ? 2 : 1); break;
    case FN_CLOSE: h->spans[f->span].fn = NULL; break;
    default: give_up(EXIT_PROTOCOL, "a frame that nobody expects");
    }
}

/* ---- its beginning ---- */

/* pthread_exit() in a function. */
static void thread_ended(void)
{
    note(FN_HOW_THREAD_EXIT);
    _exit(EXIT_CANNOT);
}

static void hear_signals(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP, SIGXFSZ, SIGPIPE };
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_ONSTACK };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &a, NULL);
}

/* The socket leaves descriptor 0, and functions print into nothing. */
static int move_streams(int channel)
{
    int socket = fcntl(channel, F_DUPFD_CLOEXEC, 10), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int bad = socket < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0;
    if (null > 2)
        close(null);
    return bad ? -1 : socket;
}

static void greet(helper *h)
{
    struct stat    st;
    int            fds[2];
    size_t         n = receive(h, fds);
    htc__fn_frame *f = calloc(1, sizeof *f);
    if (!f || !n || htc__fn_frame_read((htc_bytes){ h->frame, n }, f) != HTC_OK || f->kind != FN_HELLO || f->version != HTC__FN_VERSION)
        give_up(EXIT_PROTOCOL, "whoever started this is no agent of this version");
    if (f->threads == 0 || f->threads > HTC__FN_THREADS_MAX || fds[1] < 0 || fstat(fds[0], &st) != 0 ||
        (uint64_t)st.st_size != htc__fn_shared_size(f->threads))
        give_up(EXIT_PROTOCOL, "the shared memory is not as it should be");
    void *at = mmap(NULL, htc__fn_shared_size(f->threads), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (at == MAP_FAILED)
        give_up(EXIT_CANNOT, "the shared memory cannot be mapped");
    close(fds[0]);
    h->shared = at;
    h->event = fds[1];
    noted = h->shared;
    noted_pid = getpid();
    if (htc__fn_pool_create(h->shared, f->threads, tell, thread_ended, h, &h->pool) != HTC_OK)
        give_up(EXIT_CANNOT, "threads cannot be started");
    free(f);
}

int htc_agent_host_help(int channel)
{
    helper        *h = calloc(1, sizeof *h);
    htc__fn_frame *f = calloc(1, sizeof *f);
    int            fds[2], socket = move_streams(channel), type = 0;
    socklen_t      len = sizeof type;
    if (!h || !f || socket < 0 || getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET) {
        fprintf(stderr, "an agent starts this program, people need not\n");
        free(h);
        free(f);
        return 1;
    }
    h->socket = socket;
    prctl(PR_SET_NAME, "htc-fn");
    hear_signals();
    atexit(on_exit_called);
    greet(h);
    for (size_t n; (n = receive(h, fds)) > 0;) {
        if (htc__fn_frame_read((htc_bytes){ h->frame, n }, f) != HTC_OK)
            give_up(EXIT_PROTOCOL, "a frame that cannot be read");
        dispatch(h, f, fds);
        for (int i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
    _exit(0); /* functions may still run: nothing of theirs is called any more */
}
