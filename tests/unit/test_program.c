/* A program that is run and heard to its end. */
#include "expect.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/util.h"
#include "net/files/proc.h"
#include "net/loop/program.h"

extern char **environ;

typedef struct heard {
    struct event_base *base;
    int                times, exit_code;
    size_t             len;
    char               printed[100000], error[5000];
} heard;

static void on_ended(void *ctx, int exit_code, htc_bytes printed, htc_bytes error)
{
    heard *h = ctx;
    h->times++;
    h->exit_code = exit_code;
    h->len = printed.len;
    cr_assert(printed.len < sizeof h->printed && error.len < sizeof h->error);
    if (printed.len)
        memcpy(h->printed, printed.data, printed.len);
    h->printed[printed.len] = '\0';
    if (error.len)
        memcpy(h->error, error.data, error.len);
    h->error[error.len] = '\0';
    event_base_loopbreak(h->base);
}

/* argv: words with a zero behind each, len bytes of them. */
static heard *run(const char *words, size_t len, const char *input, htc_ns within)
{
    static heard       h;
    htc__program_start s = { .words = { words, len }, .input = htc_bytes_of(input), .environ = (const char *const *)environ, .printed_max = 10000,
                             .within = within, .ended = on_ended, .ctx = &h };
    h = (heard){ .base = event_base_new() };
    errno = 0;
    htc__program *p = htc__program_run(h.base, &s);
    if (!p)
        h.exit_code = errno;
    else
        event_base_loop(h.base, EVLOOP_NO_EXIT_ON_EMPTY);
    event_base_free(h.base);
    return &h;
}

#define RUN(words, input, within) run(words, sizeof(words), input, within)

Test(program, is_given_its_input_and_heard)
{
    heard *h = RUN("sh\0-c\0cat; echo wrong >&2; exit 7", "a line\nanother", 100 * HTC_SECOND);
    cr_expect(eq(int, h->times, 1) && eq(int, h->exit_code, 7));
    cr_expect(eq(str, h->printed, "a line\nanother"));
    cr_expect(eq(str, h->error, "wrong\n"));
    h = RUN("sh\0-c\0echo \"$0|$1\"\0a word's\0", "", 100 * HTC_SECOND);
    cr_expect(eq(str, h->printed, "a word's|\n"));
}

Test(program, that_is_not_there_is_told_at_once)
{
    heard *h = RUN("no-such-program-here", "", HTC_SECOND);
    cr_expect(eq(int, h->times, 0) && eq(int, h->exit_code, ENOENT));
}

Test(program, that_prints_too_much_or_takes_too_long_is_ended)
{
    heard *h = RUN("sh\0-c\0while :; do echo more and more; done", "", 100 * HTC_SECOND);
    cr_expect(eq(int, h->exit_code, -1) && le(u64, (uint64_t)h->len, 10000));
    cr_expect(strstr(h->error, "more than 10000 bytes") != NULL, "%s", h->error);
    h = RUN("sh\0-c\0sleep 1000 & sleep 1000", "", 50 * HTC_MS);
    cr_expect(eq(int, h->exit_code, -1));
    cr_expect(strstr(h->error, "in time") != NULL, "%s", h->error);
    /* Of errors only the beginning is kept; nobody waits for a reader. */
    h = RUN("sh\0-c\0i=0; while [ $i -lt 20000 ]; do echo wrong >&2; i=$((i+1)); done; echo end", "", 100 * HTC_SECOND);
    cr_expect(eq(int, h->exit_code, 0) && eq(str, h->printed, "end\n") && eq(u64, (uint64_t)strlen(h->error), 4096));
}

/* What it leaves running holds its output open, and is not waited for. */
Test(program, ends_with_its_first_process)
{
    heard *h = RUN("sh\0-c\0sleep 1000 & echo $!", "", 100 * HTC_SECOND);
    cr_assert(eq(int, h->exit_code, 0) && h->len > 1);
    pid_t left = (pid_t)atoi(h->printed);
    htc__proc p;
    int       goes_on = 1;
    for (int i = 0; i < 10000 && (goes_on = htc__proc_read(left, &p) == 0 && !p.ended) != 0; i++)
        usleep(1000);
    cr_expect(!goes_on, "process %ld goes on", (long)left);
}

Test(program, that_nobody_waits_for_any_more_is_ended)
{
    heard              h = { .base = event_base_new() };
    static const char  words[] = "sleep\0001000";
    htc__program_start s = { .words = { words, sizeof words }, .environ = (const char *const *)environ, .printed_max = 10, .within = HTC_SECOND,
                             .ended = on_ended, .ctx = &h };
    htc__program *p = htc__program_run(h.base, &s);
    cr_assert(p != NULL);
    htc__program_free(p);
    htc__program_free(NULL);
    cr_expect(eq(int, h.times, 0));
    event_base_free(h.base);
}

/* A process that waits for a disk or a file server dies only when that answers. One that is traced to its exit does the same: it is killed, and does not end until it
 * is let go. Nobody else is held up by it. */
Test(program, that_cannot_die_is_not_waited_for)
{
    char  path[] = "/tmp/htc-test-pid-XXXXXX", words[200] = "sh";
    int   fd = mkstemp(path), ready[2], let_go[2], status;
    cr_assert(fd >= 0 && pipe(ready) == 0 && pipe(let_go) == 0);
    close(fd);
    pid_t tracer = fork();
    if (tracer == 0) {
        long pid = 0;
        char c = 0;
        close(let_go[1]);
        for (int i = 0; i < 20000 && pid == 0; i++, usleep(1000)) {
            FILE *f = fopen(path, "r");
            if (f && fscanf(f, "%ld\n", &pid) != 1)
                pid = 0;
            if (f)
                fclose(f);
        }
        c = pid > 0 && ptrace(PTRACE_SEIZE, (pid_t)pid, NULL, (void *)(uintptr_t)(PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL)) == 0 ? 'y' : 'n';
        if (write(ready[1], &c, 1) != 1)
            _exit(1);
        while (waitpid((pid_t)pid, &status, __WALL) == (pid_t)pid && !WIFEXITED(status) && !WIFSIGNALED(status) && read(let_go[0], &c, 1) >= 0)
            ptrace(PTRACE_CONT, (pid_t)pid, NULL, NULL);
        _exit(0);
    }
    memcpy(words + 3, "-c", 3);
    int                n = snprintf(words + 6, sizeof words - 6, "echo $$ > %s; exec sleep 1000", path) + 7;
    heard              h = { .base = event_base_new() };
    htc__program_start s = { .words = { words, (size_t)n }, .environ = (const char *const *)environ, .printed_max = 10, .within = 3 * HTC_SECOND, .ended = on_ended, .ctx = &h };
    char               traced = 'n';
    cr_assert(htc__program_run(h.base, &s) != NULL);
    cr_assert(read(ready[0], &traced, 1) == 1);
    event_base_loop(h.base, EVLOOP_NO_EXIT_ON_EMPTY);
    cr_expect(eq(int, h.times, 1) && eq(int, h.exit_code, -1));
    if (traced == 'y') /* else this process may trace nobody */
        cr_expect(strstr(h.error, "nor when it was killed") != NULL, "%s", h.error);
    /* It ends in the end, and is waited for. */
    close(let_go[1]);
    cr_assert(waitpid(tracer, &status, 0) == tracer);
    siginfo_t info;
    for (int i = 0; i < 500 && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0; i++) { /* until there is no child */
        struct timeval soon = { 0, 20000 };
        event_base_loopexit(h.base, &soon);
        event_base_loop(h.base, EVLOOP_NO_EXIT_ON_EMPTY);
    }
    cr_expect(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0, "it was not waited for");
    cr_expect(eq(int, h.times, 1), "it was told once");
    unlink(path);
    event_base_free(h.base);
}
