/* LMDB follows what it finds in its pages wherever that leads. So a store of its kind is read by a child process, which says by a pipe what it
 * finds; if it dies of that, this is found, too. */
#include "kv_apart.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEM = 1, PROBLEM, END };

/* In front of three pieces of bytes. */
typedef struct head {
    uint32_t kind;
    int32_t  status;
    uint64_t len[3];
    uint64_t number[3];
} head;

/* Where the child is, for when it cannot say so any more. */
typedef struct progress {
    uint64_t keys;
    size_t   len;
    char     key[HTC_KV_KEY_MAX];
} progress;

typedef struct apart {
    const htc_kv_check_options *o;
    htc_kv_check_found         *found;
    htc_error                  *error;
    progress                   *at;
    int                         to; /* the child's end */
    FILE                       *from;
} apart;

/* ---------------------------------------------------------------- the child */

static int put(int fd, const void *bytes, size_t n)
{
    for (const char *p = bytes; n > 0;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR)
            return 0;
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 1;
}

static int say(const apart *a, head h, const htc_bytes pieces[3])
{
    for (int i = 0; i < 3; i++)
        h.len[i] = pieces[i].len;
    int ok = put(a->to, &h, sizeof h);
    for (int i = 0; ok && i < 3; i++)
        ok = put(a->to, pieces[i].data, pieces[i].len);
    return ok;
}

static htc_status say_item(void *ctx, const htc_kv_check_item *it)
{
    const apart *a = ctx;
    a->at->len = it->key.len < sizeof a->at->key ? it->key.len : sizeof a->at->key;
    memcpy(a->at->key, it->key.data, a->at->len);
    a->at->keys++;
    if (!a->o->item)
        return HTC_OK;
    head h = { .kind = ITEM, .number = { it->version, it->ttl, it->lease } };
    return say(a, h, (htc_bytes[]){ it->key, it->space, it->value }) ? HTC_OK : HTC_EIO;
}

static void say_problem(void *ctx, const htc_kv_problem *p)
{
    head h = { .kind = PROBLEM, .status = p->status, .number = { p->offset } };
    say(ctx, h, (htc_bytes[]){ htc_bytes_of(p->file), htc_bytes_of(p->text), htc_bytes_of(p->next) });
}

static void child(apart *a, pid_t parent)
{
    htc_error            error = { 0 };
    htc_kv_check_found   found = { .size = sizeof found };
    htc_kv_check_options o = *a->o;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(70);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    signal(SIGPIPE, SIG_IGN);
    o.item = say_item;
    o.problem = say_problem;
    o.ctx = a;
    htc_status status = htc_kv_check(&o, &found, &error);
    int ok = say(a, (head){ .kind = END, .status = status }, (htc_bytes[]){ { &found, sizeof found }, { &error, sizeof error }, { "", 0 } });
    _exit(ok ? 0 : 70);
}

/* ---------------------------------------------------------------- who asked for it */

static void tell_death(const apart *a, int code)
{
    char text[320], how[64], key[100];
    int  n = 0;
    for (size_t i = 0; i < a->at->len && i < sizeof key - 1; i++)
        key[n++] = a->at->key[i] >= ' ' && a->at->key[i] < 127 ? a->at->key[i] : '?';
    key[n] = 0;
    if (WIFSIGNALED(code))
        snprintf(how, sizeof how, "signal %d (%s)", WTERMSIG(code), strsignal(WTERMSIG(code)));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(code));
    if (a->at->keys)
        snprintf(text, sizeof text, "reading it ended with %s behind \"%s\", key %llu of what can be read", how, key, (unsigned long long)a->at->keys);
    else
        snprintf(text, sizeof text, "reading it ended with %s before the first key", how);
    htc_kv_problem p = { .status = HTC_ECORRUPT, .file = "data.mdb", .text = text,
                         .next = "htc kv dump DIR FILE saves the keys before, a backup has the others" };
    a->found->engine = HTC_KV_LMDB;
    a->found->keys = a->at->keys;
    a->found->problems++;
    if (a->o->problem)
        a->o->problem(a->o->ctx, &p);
}

static htc_status hear_end(const apart *a, const head *h, const char *bytes)
{
    size_t size = a->found->size;
    if (h->len[0] == sizeof *a->found)
        memcpy(a->found, bytes, size < sizeof *a->found ? size : sizeof *a->found);
    a->found->size = size;
    if (h->len[1] == sizeof *a->error)
        memcpy(a->error, bytes + h->len[0], sizeof *a->error);
    return (htc_status)h->status;
}

/* The pieces stand one behind the other, each with a zero at its end. */
static htc_status hear(const apart *a, const head *h, const char *bytes)
{
    const char *second = bytes + h->len[0] + 1, *third = second + h->len[1] + 1;
    if (h->kind == ITEM)
        return a->o->item(a->o->ctx, &(htc_kv_check_item){ .key = { bytes, h->len[0] }, .space = { second, h->len[1] }, .value = { third, h->len[2] },
                                                           .version = h->number[0], .ttl = h->number[1], .lease = h->number[2] });
    a->found->problems++;
    if (a->o->problem)
        a->o->problem(a->o->ctx, &(htc_kv_problem){ .status = (htc_status)h->status, .file = bytes, .offset = h->number[0], .text = second, .next = third });
    return HTC_OK;
}

/* HTC_AGAIN: it was the last that could be read. */
static htc_status hear_one(const apart *a, char **bytes, size_t *cap, int *ended)
{
    head h;
    if (fread(&h, sizeof h, 1, a->from) != 1)
        return HTC_AGAIN;
    size_t all = h.len[0] + h.len[1] + h.len[2] + 3, gap = h.kind != END;
    if (all > *cap) {
        char *more = realloc(*bytes, all);
        if (!more)
            return HTC_ENOMEM;
        *bytes = more;
        *cap = all;
    }
    char *p = *bytes;
    for (int i = 0; i < 3; i++) {
        if (h.len[i] && fread(p, h.len[i], 1, a->from) != 1)
            return HTC_AGAIN;
        p += h.len[i];
        if (gap)
            *p++ = 0;
    }
    *ended = h.kind == END;
    return *ended ? hear_end(a, &h, *bytes) : hear(a, &h, *bytes);
}

static htc_status listen_to(const apart *a, pid_t pid)
{
    char      *bytes = NULL;
    size_t     cap = 0;
    int        ended = 0, code = 0;
    htc_status status = HTC_OK;
    while (status == HTC_OK && !ended)
        status = hear_one(a, &bytes, &cap, &ended);
    free(bytes);
    if (!ended && status != HTC_AGAIN)
        kill(pid, SIGKILL);
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR)
        continue;
    if (ended || status != HTC_AGAIN)
        return status;
    tell_death(a, code);
    return HTC_OK;
}

static htc_status cannot(htc_error *error, const char *dir)
{
    snprintf(error->where, sizeof error->where, "%s", dir);
    snprintf(error->text, sizeof error->text, "no process to look at it with: %s", strerror(errno));
    error->status = HTC_EBUSY;
    return HTC_EBUSY;
}

static htc_status look_apart(apart *a)
{
    int   ends[2];
    pid_t parent = getpid();
    if (pipe(ends) != 0)
        return cannot(a->error, a->o->dir);
    fflush(NULL); /* or it would be written twice */
    a->to = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(a, parent);
    }
    close(ends[1]);
    a->from = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (a->from) {
        htc_status status = listen_to(a, pid);
        fclose(a->from);
        return status;
    }
    htc_status status = cannot(a->error, a->o->dir);
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return status;
}

static int is_lmdb(const char *dir)
{
    char path[4200];
    int  n = snprintf(path, sizeof path, "%s/data.mdb", dir);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

htc_status kv_check_apart(const htc_kv_check_options *options, htc_kv_check_found *found, htc_error *error)
{
    apart a = { .o = options, .found = found, .error = error };
    if (!is_lmdb(options->dir))
        return htc_kv_check(options, found, error);
    a.at = mmap(NULL, sizeof *a.at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a.at == MAP_FAILED)
        return cannot(error, options->dir);
    htc_status status = look_apart(&a);
    munmap(a.at, sizeof *a.at);
    return status;
}
