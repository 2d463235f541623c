#include "course.h"

#include <string.h>

static htc_status with_course(void *ctx, void *data, size_t n)
{
    course_tape *c = ctx;
    htc_status   status = c->kept ? HTC_OK : c->under->move(c->under->ctx, c->course, c->n);
    c->kept = 1;
    return status == HTC_OK ? c->under->move(c->under->ctx, data, n) : status;
}

const htc_scale_tape *course_tape_open(course_tape *c, const htc_scale_tape *under, void *course, size_t n)
{
    *c = (course_tape){ .tape = { .size = sizeof c->tape, .move = with_course, .ctx = c }, .under = under, .course = course, .n = n };
    return under ? &c->tape : NULL;
}

static void halve(const course_row *row, size_t n)
{
    char *at = row->of;
    for (size_t i = 1; i < n / 2; i++)
        memcpy(at + i * row->each, at + 2 * i * row->each, row->each);
}

int course_keeps(size_t *n, size_t room, uint64_t *every, uint64_t *seen, const course_row *rows, size_t n_rows)
{
    uint64_t number = (*seen)++;
    *every = *every ? *every : 1;
    if (number % *every)
        return 0;
    if (*n < room)
        return 1;
    for (size_t i = 0; i < n_rows; i++)
        halve(&rows[i], *n);
    *n /= 2;
    *every *= 2;
    return number % *every == 0;
}
