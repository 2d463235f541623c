/* All pairs: task k compares two of the files that are named in a list, one a line, and says in how many bytes they differ.
 *
 *     argument  the list
 *     number    0 for the files 0 and 1, 1 for 0 and 2, 2 for 1 and 2, 3 for 0 and 3, ...: n files have n (n - 1) / 2 tasks
 *     output    "I J BYTES\n", of compare; compare_into writes it as the kth line of the file LIST.pairs, all of whose lines have 48 bytes,
 *               so that tasks write beside each other and one that runs again writes the same
 *
 *     cc -shared -fPIC -O2 -o all_pairs.so all_pairs.c */
#include "htcsched/task_fn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

HTC_TASK_FN_OBJECT;

#define LINE 4096

/* Pair k is files i < j: in front of those with j are j (j - 1) / 2. */
static void pair_of(uint64_t k, uint64_t *i, uint64_t *j)
{
    uint64_t low = 1, high = UINT64_C(1) << 32;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (middle * (middle - 1) / 2 <= k)
            low = middle;
        else
            high = middle;
    }
    *j = low;
    *i = k - low * (low - 1) / 2;
}

/* The nth line of the list. 0, or -1: there is none. */
static int line_of(const char *list, uint64_t n, char line[LINE])
{
    FILE *f = fopen(list, "re");
    int   found = 0;
    for (uint64_t at = 0; f && !found && fgets(line, LINE, f); at++)
        found = at == n;
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    return found ? 0 : -1;
}

static FILE *open_line(htc_fn_task *task, uint64_t n)
{
    char  line[LINE] = "", why[HTC_TASK_FN_REASON_MAX];
    int   there = line_of(task->argument, n, line) == 0;
    FILE *f = there ? fopen(line, "re") : NULL;
    if (!there)
        snprintf(why, sizeof why, "the list %.150s has no line %llu", task->argument, (unsigned long long)n + 1);
    else if (!f)
        snprintf(why, sizeof why, "cannot open %.150s: %s", line, strerror(errno));
    if (!f)
        task->fail(task, why);
    return f;
}

/* What one has beyond the other's end differs too. */
static uint64_t differing(htc_fn_task *task, FILE *a, FILE *b)
{
    unsigned char x[65536], y[sizeof x];
    uint64_t      n = 0;
    for (size_t in_a = 1, in_b = 1; (in_a || in_b) && !task->cancelled(task);) {
        in_a = fread(x, 1, sizeof x, a);
        in_b = fread(y, 1, sizeof y, b);
        size_t both = in_a < in_b ? in_a : in_b;
        for (size_t i = 0; i < both; i++)
            n += x[i] != y[i];
        n += in_a + in_b - 2 * both;
    }
    return n;
}

/* 0, or -1 where the task has failed. */
static int compare_pair(htc_fn_task *task, unsigned long long *i, unsigned long long *j, unsigned long long *bytes)
{
    uint64_t first, second;
    pair_of(task->number, &first, &second);
    FILE *a = open_line(task, first), *b = a ? open_line(task, second) : NULL;
    if (b)
        *bytes = differing(task, a, b);
    *i = first;
    *j = second;
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return b ? 0 : -1;
}

HTC_TASK_FN int compare(htc_fn_task *task)
{
    char               line[80];
    unsigned long long i, j, bytes;
    if (compare_pair(task, &i, &j, &bytes) != 0)
        return -1;
    return task->append(task, line, (size_t)snprintf(line, sizeof line, "%llu %llu %llu\n", i, j, bytes));
}

HTC_TASK_FN int compare_into(htc_fn_task *task)
{
    char               path[LINE], line[80], why[HTC_TASK_FN_REASON_MAX];
    unsigned long long i, j, bytes;
    if (compare_pair(task, &i, &j, &bytes) != 0)
        return -1;
    snprintf(path, sizeof path, "%s.pairs", task->argument);
    int n = snprintf(line, sizeof line, "%8llu %8llu %29llu\n", i, j, bytes),
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    int written = fd >= 0 && pwrite(fd, line, (size_t)n, (off_t)task->number * n) == n;
    snprintf(why, sizeof why, "cannot write %.150s: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0)
        written = 0;
    return written ? 0 : task->fail(task, why);
}
