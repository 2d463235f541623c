/* The integral of sin(1/x), by as many tasks as it takes: a task that does not trust its estimate adds one for each half of its interval.
 *
 *     argument  "FROM TO DIRECTORY", 0 < FROM < TO
 *     output    two tasks; or nothing, then DIRECTORY/FROM has the area from there to TO
 *
 *     cc -shared -fPIC -O2 -o halves.so halves.c -lm
 *     mkdir areas
 *     echo "all: adds=output @call ./halves.so area '0.01 1 $PWD/areas'" > area.flow
 *     htc flow run area.flow
 *     find areas -type f | xargs awk '{ all += $1 } END { print all }'      0.503982 */
#include "htcsched/task_fn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

HTC_TASK_FN_OBJECT;

#define ERROR 1e-7 /* of the area, for each unit of length */

static double simpson(double from, double to)
{
    return (to - from) / 6 * (sin(1 / from) + 4 * sin(2 / (from + to)) + sin(1 / to));
}

/* The object is named as the task that adds them names it: from the directory of the flow. */
static int add_half(htc_fn_task *task, const char *name, double from, double to, const char *directory)
{
    char line[600];
    int  n = snprintf(line, sizeof line, "%s: adds=output @call ./halves.so area '%.17g %.17g %s'\n", name, from, to, directory);
    return task->append(task, line, (size_t)n);
}

static int write_area(htc_fn_task *task, double from, double area, const char *directory)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%.17g", directory, from);
    FILE *f = fopen(path, "w");
    int   bad = !f || fprintf(f, "%.17g\n", area) < 0;
    if (f && fclose(f) != 0)
        bad = 1;
    return bad ? task->fail(task, strerror(errno)) : 0;
}

HTC_TASK_FN int area(htc_fn_task *task)
{
    double from, to;
    char   directory[500];
    if (sscanf(task->argument, "%lf %lf %499s", &from, &to, directory) != 3 || !(from > 0 && from < to))
        return task->fail(task, "the argument is not FROM TO DIRECTORY");
    double middle = (from + to) / 2, rough = simpson(from, to), fine = simpson(from, middle) + simpson(middle, to);
    if (fabs(fine - rough) < 15 * ERROR * (to - from))
        return write_area(task, from, fine + (fine - rough) / 15, directory);
    return add_half(task, "left", from, middle, directory) || add_half(task, "right", middle, to, directory);
}
