/* JSDL written in tests: the head with every prefix that the tests use, and a parse that shows why it failed. */
#ifndef HTC_TESTS_JSDL_TEXT_H
#define HTC_TESTS_JSDL_TEXT_H

#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "htcsched/work.h"
#include "work/work_private.h"

/* On one line, so that the lines of errors are those of what comes behind it, plus none. */
#define JSDL_HEAD                                                                                                      \
    "<j:JobDefinition xmlns:j=\"" HTC_JSDL_NS "\" xmlns:p=\"" HTC_POSIX_NS "\" xmlns:s=\"" HTC_SWEEP_NS                \
    "\" xmlns:f=\"" HTC_SWEEP_FUNCTIONS_NS "\" xmlns:h=\"" HTC_OWN_NS "\" xmlns:x=\"urn:strange\">"
#define JSDL_APP(inside)                                                                                               \
    "<j:JobDescription><j:Application><p:POSIXApplication>" inside                                                     \
    "</p:POSIXApplication></j:Application></j:JobDescription>"
#define JSDL_DOC(inside, sweeps) JSDL_HEAD JSDL_APP(inside) sweeps "</j:JobDefinition>"
#define NODE(match)                                                                                                    \
    "<s:DocumentNode><s:NamespaceBinding ns=\"" HTC_POSIX_NS "\" prefix=\"p\"/><s:NamespaceBinding ns=\"" HTC_JSDL_NS  \
    "\" prefix=\"j\"/><s:Match>" match "</s:Match></s:DocumentNode>"
#define SWEEP(inside) "<s:Sweep>" inside "</s:Sweep>"
#define ASSIGN(match, function) "<s:Assignment>" NODE(match) function "</s:Assignment>"
#define VALUES(list) "<f:Values>" list "</f:Values>"
#define V(text) "<f:Value>" text "</f:Value>"
#define LOOP(start, end, step) "<f:LoopInteger start=\"" start "\" end=\"" end "\" step=\"" step "\"/>"
#define RUN "<p:Executable>run</p:Executable>"
#define ARG(text) "<p:Argument>" text "</p:Argument>"

static inline htc_spec *jsdl_parse_env(const htc_env *env, const char *text)
{
    htc_spec  *spec = NULL;
    htc_error  error = { .status = HTC_OK };
    htc_status status = htc_spec_parse(env, htc_bytes_of(text), NULL, &spec, &error);
    cr_assert(status == HTC_OK, "%s line %u [%s] %s\n%s", htc_status_name(status), error.line, error.where, error.text,
              text);
    return spec;
}

static inline htc_spec *jsdl_parse(const char *text)
{
    return jsdl_parse_env(NULL, text);
}

/* "run a b" of a task; in a buffer of the caller's. */
static inline const char *jsdl_line(const htc_spec *spec, uint64_t index, char *out, size_t cap)
{
    htc_task  *t = NULL;
    htc_error  error = { .status = HTC_OK };
    htc_status status = htc_spec_task(spec, index, &t, &error);
    cr_assert(status == HTC_OK, "task %llu: %s", (unsigned long long)index, error.text);
    size_t n = (size_t)snprintf(out, cap, "%s", t->executable);
    for (size_t i = 0; i < t->n_args && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, " %s", t->args[i]);
    htc_task_destroy(t);
    return out;
}

#endif
