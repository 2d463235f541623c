/* usage: first_level SLOTS TASKS LENGTH [SERVICE [HOLD_RATE [SEED]]]
 * The emulated first-level scheduler alone: each of TASKS sleeps of LENGTH seconds is a job of its own on SLOTS cores, a real process. Prints one JSON object: makespan_s,
 * bound_s (whole rounds), efficiency (HTCaaS, equation 2), completed, held, tasks_per_s, response_s. What is held stays so: nobody acts. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/util.h"
#include "roles/batch/emu.h"

extern char **environ;

typedef struct running {
    pid_t    pid;
    uint64_t job;
} running;

static htc_ns now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

static void start(htc__emu *e, const htc__emu_action *a, running *all, const char *length)
{
    const char *argv[] = { "/bin/sleep", length, NULL };
    running    *r = all;
    while (r->pid)
        r++;
    if (posix_spawn(&r->pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0) {
        r->pid = 0;
        htc__emu_ended(e, a->job, a->step, 1, now());
        return;
    }
    r->job = a->job;
    htc__emu_started(e, a->job, a->step, (uint64_t)r->pid);
}

int main(int argc, char **argv)
{
    htc_env          env = { .size = sizeof env };
    htc__emu_cluster cluster = { .name = "emu" };
    htc__emu_options o = { .clusters = &cluster, .n = 1 };
    htc__emu_figures f;
    htc__emu        *e = NULL;
    sigset_t         ended;
    if (argc < 4) {
        fprintf(stderr, "usage: first_level SLOTS TASKS LENGTH [SERVICE [HOLD_RATE [SEED]]]\n");
        return 1;
    }
    uint64_t tasks = strtoull(argv[2], NULL, 10);
    double   length = strtod(argv[3], NULL), response = 0;
    cluster.cores = (uint32_t)strtoul(argv[1], NULL, 10);
    o.service_ns = (htc_ns)((argc > 4 ? strtod(argv[4], NULL) : 0.1) * 1e9);
    o.hold_rate = argc > 5 ? strtod(argv[5], NULL) : 0;
    o.seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1;
    running *all = calloc(cluster.cores + 1, sizeof *all);
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    if (!all || tasks == 0 || tasks > HTC__EMU_STEPS_MAX || htc__emu_create(&env, &o, &e) != HTC_OK)
        return 1;
    htc_ns begun = now(), last = begun;
    for (uint64_t i = 0; i < tasks; i++) {
        uint64_t     id;
        htc__emu_job job = { .name = "sleep", .steps = 1, .cores = 1 };
        if (htc__emu_submit(e, &job, begun, &id) != HTC_OK)
            return 1;
    }
    for (htc__emu_count(e, &f); f.ended + f.held < tasks; htc__emu_count(e, &f)) {
        htc__emu_action a;
        int             status;
        pid_t           pid;
        while (htc__emu_next(e, now(), &a))
            if (a.kind == HTC__EMU_START)
                start(e, &a, all, argv[3]);
        htc_ns          at = htc__emu_deadline(e), t = now(), wait = at == HTC_NEVER ? HTC_SECOND : at > t ? at - t : 0;
        struct timespec until = { (time_t)(wait / HTC_SECOND), (long)(wait % HTC_SECOND) };
        sigtimedwait(&ended, NULL, &until);
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            for (uint32_t i = 0; i < cluster.cores; i++)
                if (all[i].pid == pid) {
                    all[i].pid = 0;
                    last = now();
                    response += (double)(last - begun) / 1e9;
                    htc__emu_ended(e, all[i].job, 0, status != 0, last);
                }
    }
    double makespan = (double)(last - begun) / 1e9, used = (double)(tasks < cluster.cores ? tasks : cluster.cores), bound = ceil((double)tasks / used) * length;
    printf("{\"system\": \"emu alone\", \"makespan_s\": %.3f, \"bound_s\": %.3f, \"over_bound\": %.4f, \"efficiency\": %.4f, \"completed\": %.4f, \"held\": %" PRIu64
           ", \"tasks_per_s\": %.2f, \"response_s\": %.3f}\n",
           makespan, bound, makespan / bound, (double)f.ended * length / used / makespan, (double)f.ended / (double)tasks, f.held, (double)f.ended / makespan,
           response / (double)(f.ended ? f.ended : 1));
    htc__emu_destroy(e);
    free(all);
    return 0;
}
