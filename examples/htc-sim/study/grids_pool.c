/* Pools of processes: one task each. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grids_live.h"

#define FUNCTIONS 24u

/* The value of function f of a job at these values of its three variables. */
static uint64_t value_of(uint64_t job, uint32_t f, uint32_t values)
{
    uint32_t a = f % POOL_VARIABLES, b = (5 * f + 1) % POOL_VARIABLES, c = (11 * f + 7) % POOL_VARIABLES;
    htc_rng  rng = { job << 16 ^ (uint64_t)f << 8 ^ (values >> a & 1) ^ (values >> b & 1) << 1 ^ (values >> c & 1) << 2 };
    return htc_rng_next(&rng) | 1;
}

uint64_t pool_sum(uint64_t job, const uint16_t *parts, size_t n)
{
    uint32_t each = (1u << POOL_VARIABLES) / POOL_PARTS;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t values = parts[i] * each; values < (parts[i] + 1u) * each; values++) {
            uint64_t product = 1;
            for (uint32_t f = 0; f < FUNCTIONS; f++)
                product *= value_of(job, f, values);
            sum += product;
        }
    return sum;
}

static void sleep_until(htc_ns at)
{
    struct timespec t = { (time_t)(at / HTC_SECOND), (long)(at % HTC_SECOND) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

int pool_start(pool_task *t, uint64_t job, const uint16_t *parts, size_t n, htc_ns zero)
{
    int ends[2];
    if (pipe(ends) != 0)
        return 0;
    t->pid = fork();
    if (t->pid == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        sleep_until(zero + t->begin);
        uint64_t sum = pool_sum(job, parts, n);
        sleep_until(zero + t->begin + t->length);
        _exit(write(ends[1], &sum, sizeof sum) == (ssize_t)sizeof sum ? 0 : 1);
    }
    close(ends[1]);
    t->fd = ends[0];
    if (t->pid < 0)
        close(ends[0]);
    return t->pid > 0;
}

static int gone(pool_task *t)
{
    int status = -1;
    close(t->fd);
    t->fd = -1;
    while (waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

int pool_result(pool_task *t, uint64_t *sum)
{
    ssize_t n;
    while ((n = read(t->fd, sum, sizeof *sum)) < 0 && errno == EINTR)
        ;
    return gone(t) && n == (ssize_t)sizeof *sum;
}

void pool_stop(pool_task *t)
{
    kill(t->pid, SIGKILL);
    (void)gone(t);
}
