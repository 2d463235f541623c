#include "sim/scenarios/twin.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/util.h"
#include "sim/models/asked.h"

#define LOOK_EVERY 1024 /* events between two looks at the host */

void htc__twin_open(twin *t, const htc_env *env)
{
    *t = (twin){ .begin = HTC_NEVER, .host.size = sizeof t->host };
    htc__counted_open(&t->memory, env, 0);
}

htc_status htc__twin_host(twin *t, const htc_scale_host *host)
{
    htc_status status = host ? htc__options_copy(&t->host, sizeof t->host, host, host->size, sizeof(size_t)) : HTC_OK;
    t->memory.max = t->host.memory_max;
    htc__progress_begin(&t->progress, &t->host);
    return status;
}

static void fail(twin *t, htc_status status, const char *format, va_list args)
{
    if (!htc__twin_is_good(t))
        return;
    t->why.status = t->memory.too_big ? HTC_ETOOBIG : status;
    vsnprintf(t->why.text, sizeof t->why.text, format, args);
    if (t->answer && t->answer[0])
        (void)htc__asked_error(&t->why, t->why.status, t->answer);
}

void htc__twin_fail(twin *t, htc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(t, status, format, args);
    va_end(args);
}

htc_status htc__twin_refuse(twin *t, htc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(t, status, format, args);
    va_end(args);
    return status;
}

htc_ns htc__twin_now(const twin *t)
{
    htc_ns now = htc_sim_now(t->w);
    return now > t->begin ? now - t->begin : 0;
}

int htc__twin_step(twin *t)
{
    htc_status status = htc_sim_next(t->w);
    if (status != HTC_OK && status != HTC_EMPTY)
        htc__twin_fail(t, status, "%s", htc_sim_failure(t->w) ? htc_sim_failure(t->w) : htc_strerror(status));
    return status == HTC_OK;
}

int htc__twin_is_stopped(twin *t, uint64_t events, uint64_t done, uint64_t total)
{
    const htc_scale_host *h = &t->host;
    if (events % LOOK_EVERY != 0 && !h->stop_after)
        return 0;
    htc__progress_tell(&t->progress, h, (htc_scale_progress){ .done = done, .total = total, .events = htc_sim_events(t->w), .at = htc__twin_now(t) });
    return (h->stop && *h->stop) || (h->stop_after && events >= h->stop_after);
}
