#include "course.h"

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
