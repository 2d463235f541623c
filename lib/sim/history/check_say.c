/* What a checker says to somebody who has to find the mistake: the rule that is broken, then the operations, a line each. */
#include "sim/history/history_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"

static const char *const kind_names[] = { "?",           "get",       "put",     "delete", "append",
                                          "cas_version", "cas_value", "add",     "grant",  "renew",
                                          "revoke",      "look",      "watch",   "event",  "restart",
                                          "unwatch",     "write",     "sibling", "down",   "current" };
static const char *const outcome_names[] = { "outcome unknown", "done", "missed", "refused" };

void htc__history_holds(htc_history_verdict *v)
{
    *v = (htc_history_verdict){ .answer = HTC_HISTORY_HOLDS };
}

htc_status htc__history_rules(const htc_history_rules *in, htc_history_rules *out)
{
    *out = (htc_history_rules){ .size = sizeof *out };
    htc_status status =
        in ? htc__options_copy(out, sizeof *out, in, in->size, offsetof(htc_history_rules, bytes_max)) : HTC_OK;
    out->search_max = out->search_max ? out->search_max : 1000000;
    out->bytes_max = out->bytes_max ? out->bytes_max : (size_t)64 << 20;
    return status;
}

static void put(htc_history_verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put_list(htc_history_verdict *v, const char *format, va_list list)
{
    size_t len = strlen(v->text);
    vsnprintf(v->text + len, sizeof v->text - len, format, list);
}

static void put(htc_history_verdict *v, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    put_list(v, format, list);
    va_end(list);
}

/* What can be printed of a key, and not too much of it. */
static void put_key(const htc_history *h, htc_history_verdict *v, uint32_t key)
{
    htc_bytes      bytes = htc_history_key_bytes(h, key);
    const uint8_t *p = bytes.data;
    for (size_t i = 0; i < bytes.len && i < 80; i++)
        if (p[i] > ' ' && p[i] < 127 && p[i] != '%')
            put(v, "%c", p[i]);
        else
            put(v, "%%%02x", p[i]);
    if (bytes.len > 80)
        put(v, "...");
}

static void put_value(htc_history_verdict *v, const char *what, htc_history_value value)
{
    if (value.length == HTC_HISTORY_UNSAID)
        return;
    put(v, " %s ", what);
    if (htc__history_absent(value))
        put(v, "nothing");
    else if (value.number != HTC_HISTORY_NO_NUMBER)
        put(v, "\"%lld\"", (long long)value.number);
    else
        put(v, "%llx:%llu", (unsigned long long)value.hash, (unsigned long long)value.length);
}

void htc__history_say(const htc_history *h, htc_history_verdict *v, uint32_t answer, uint32_t key, const char *format,
                      ...)
{
    va_list list;
    v->answer = answer;
    v->key = key;
    v->involved = 0;
    v->text[0] = 0;
    put(v, "key ");
    put_key(h, v, key);
    put(v, ": ");
    va_start(list, format);
    put_list(v, format, list);
    va_end(list);
}

static void put_question(htc_history_verdict *v, const htc_history_op *o)
{
    put(v, "%s", kind_names[o->kind]);
    if (o->kind == HTC_HISTORY_CAS_VERSION)
        put(v, " expecting version %llu", (unsigned long long)o->expected);
    if (o->kind == HTC_HISTORY_ADD)
        put(v, " %lld", (long long)o->delta);
    if (o->kind == HTC_HISTORY_GRANT)
        put(v, " ttl %llu", (unsigned long long)o->expected);
    put_value(v, "seen", o->seen);
    put_value(v, "value", o->argument);
}

static void put_answer(htc_history_verdict *v, const htc_history_op *o)
{
    put(v, " -> %s", outcome_names[o->outcome]);
    if (o->kind == HTC_HISTORY_WRITE || o->kind == HTC_HISTORY_SIBLING)
        put(v, ", dot %llu.%llu", (unsigned long long)o->expected, (unsigned long long)o->version);
    else if (o->version)
        put(v, ", version %llu", (unsigned long long)o->version);
    if (o->number != HTC_HISTORY_NO_NUMBER)
        put(v, ", number %lld", (long long)o->number);
    put_value(v, "observed", o->observed);
}

void htc__history_tell(const htc_history *h, htc_history_verdict *v, size_t index)
{
    const htc_history_op *o = &h->ops[index];
    for (uint32_t i = 0; i < v->involved; i++)
        if (v->ops[i] == index)
            return;
    if (v->involved < sizeof v->ops / sizeof *v->ops)
        v->ops[v->involved++] = index;
    put(v, "\n  #%zu process %llu, ", index, (unsigned long long)o->process);
    if (o->returned == HTC_NEVER)
        put(v, "from %llu on: ", (unsigned long long)o->invoked);
    else
        put(v, "%llu to %llu: ", (unsigned long long)o->invoked, (unsigned long long)o->returned);
    put_question(v, o);
    put_answer(v, o);
    if (o->line)
        put(v, " (line %u)", o->line);
}
