/* How an attempt ended, as the host saw it and in words that a person can act on. What the task itself says (its
 * output, its exit code's meaning) decides nothing here. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "roles/attempt/attempt.h"

static const struct {
    uint32_t    number;
    const char *name;
} signals[] = {
    { SIGHUP, "HUP" },   { SIGINT, "INT" },   { SIGQUIT, "QUIT" }, { SIGILL, "ILL" },   { SIGTRAP, "TRAP" },
    { SIGABRT, "ABRT" }, { SIGBUS, "BUS" },   { SIGFPE, "FPE" },   { SIGKILL, "KILL" }, { SIGUSR1, "USR1" },
    { SIGSEGV, "SEGV" }, { SIGUSR2, "USR2" }, { SIGPIPE, "PIPE" }, { SIGALRM, "ALRM" }, { SIGTERM, "TERM" },
    { SIGXCPU, "XCPU" }, { SIGXFSZ, "XFSZ" }, { SIGSYS, "SYS" },
};

static const char *signal_name(uint32_t number)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i].number == number)
            return signals[i].name;
    return "?";
}

void htc__attempt_outcome_set(const attempt_holder *h, attempt *t, htc_status status, const char *format, ...)
{
    va_list args;
    t->outcome.status = status;
    va_start(args, format);
    vsnprintf(t->outcome.reason, sizeof t->outcome.reason, format, args);
    va_end(args);
    memcpy(t->outcome.node, h->node, sizeof t->outcome.node);
}

static void seconds(char *text, size_t cap, htc_ns span)
{
    if (span % HTC_SECOND == 0)
        snprintf(text, cap, "%llu s", (unsigned long long)(span / HTC_SECOND));
    else
        snprintf(text, cap, "%llu.%03llu s", (unsigned long long)(span / HTC_SECOND),
                 (unsigned long long)(span % HTC_SECOND / HTC_MS));
}

void htc__attempt_outcome_words(attempt *t)
{
    htc_outcome *o = &t->outcome;
    char         span[48];
    if (o->reason[0] != '\0')
        return;
    switch (o->status) {
    case HTC_OK:
        break;
    case HTC_EEXIT:
        snprintf(o->reason, sizeof o->reason, "exit code %d", (int)o->exit_code);
        break;
    case HTC_ESIGNAL:
        snprintf(o->reason, sizeof o->reason, "killed by signal %u (%s)", (unsigned)o->signal, signal_name(o->signal));
        break;
    case HTC_EKILLED:
        snprintf(o->reason, sizeof o->reason, "killed from outside by signal %u (%s)", (unsigned)o->signal,
                 signal_name(o->signal));
        break;
    case HTC_EOOM:
        if (t->memory)
            snprintf(o->reason, sizeof o->reason, "memory limit of %llu bytes reached", (unsigned long long)t->memory);
        else
            snprintf(o->reason, sizeof o->reason, "out of memory");
        break;
    case HTC_EWALLTIME:
        seconds(span, sizeof span, t->wall);
        snprintf(o->reason, sizeof o->reason, "wall-time limit of %s reached", span);
        break;
    default:
        snprintf(o->reason, sizeof o->reason, "%s", htc_strerror(o->status));
        break;
    }
}

/* A process that ended after it was told to: the order is why, whatever it made of the signal. One that ended well
 * was faster than the order. */
static void obey_order(attempt *t)
{
    htc_outcome *o = &t->outcome;
    if (o->status == HTC_OK || o->status == HTC_EOOM)
        return;
    if (t->order == ORDER_WALL)
        o->status = HTC_EWALLTIME;
    else if (t->order == ORDER_CANCEL)
        o->status = HTC_ECANCELLED;
    else
        return;
    o->reason[0] = '\0';
}

void htc__attempt_outcome_read(const attempt_holder *h, attempt *t, const htc_input *in)
{
    htc_outcome *o = &t->outcome;
    htc_reader   r = htc_reader_of(in->body);
    if (in->status != HTC_OK) { /* it never ran */
        htc__attempt_outcome_set(h, t, in->status, "%.*s", (int)(in->body.len < 200 ? in->body.len : 200),
                               in->body.len ? (const char *)in->body.data : "");
        return;
    }
    if (htc_outcome_read(&r, o) != HTC_OK || htc_reader_done(&r) != HTC_OK) {
        memset(o, 0, sizeof *o);
        htc__attempt_outcome_set(h, t, HTC_EINTERNAL, "the host's answer cannot be read");
        return;
    }
    if (o->stderr_tail.len) {
        memcpy(t->tail, o->stderr_tail.data, o->stderr_tail.len);
        o->stderr_tail.data = t->tail;
    }
    if (o->status == HTC_OK)
        o->stderr_tail.len = 0; /* only kept for a failure */
    memcpy(o->node, h->node, sizeof o->node);
    obey_order(t);
}

/* The outputs of a task that has ended. One that failed keeps its own status and reason: what is wrong with its outputs is
 * the smaller news, and stands behind. */
void htc__attempt_outcome_stored(attempt *t, const htc_stored *s)
{
    htc_outcome *o = &t->outcome;
    o->outputs = s->outputs;
    if (s->status != HTC_OK && o->status == HTC_OK) {
        o->status = s->status;
        o->final = s->final;
        o->reason[0] = '\0';
    }
    htc__attempt_outcome_words(t);
    size_t n = strlen(o->reason);
    int    own = n && (o->status != s->status || s->status == HTC_OK);
    if (s->reason[0])
        snprintf(own ? o->reason + n : o->reason, sizeof o->reason - (own ? n : 0), "%s%s", own ? "; " : "", s->reason);
}
