/* What the tests of flows share: reading from a string, and whether two flows are the same. */
#ifndef HTC_TESTS_FLOW_READ_H
#define HTC_TESTS_FLOW_READ_H

#include "expect.h"
#include <stdlib.h>

#include "../data.h"
#include "htcsched/flow.h"
#include "htcsched/work.h"

/* NULL, and why, if it is refused. */
static inline htc_flow *flow_of(const char *text, uint32_t format, htc_error *error)
{
    htc_flow *f = NULL;
    htc_flow_read(NULL, htc_bytes_of(text), format, NULL, &f, error);
    return f;
}

/* A document that is refused, and what is said of it. */
typedef struct refusal {
    const char *text;
    htc_status  status;
    uint32_t    line;
    const char *where, *part; /* part of the sentence */
} refusal;

static inline void flow_refuses(const refusal *r, size_t n, uint32_t format)
{
    for (size_t i = 0; i < n; i++) {
        htc_error  e = { .status = HTC_OK };
        htc_flow  *f = NULL;
        htc_status status = htc_flow_read(NULL, htc_bytes_of(r[i].text), format, NULL, &f, &e);
        cr_expect(status == r[i].status && !f, "%s: %s, %s", r[i].text, htc_status_name(status), e.text);
        cr_expect(e.status == status && e.line == r[i].line && strstr(e.text, r[i].part) != NULL, "%s: line %u, %s",
                  r[i].text, e.line, e.text);
        cr_expect(e.hint[0] || status == HTC_EXML, "%s: no next step", r[i].text);
        cr_expect(!r[i].where || strcmp(e.where, r[i].where) == 0, "%s: at %s", r[i].text, e.where);
        cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of(r[i].text), format, NULL, &f, NULL), r[i].status));
        htc_flow_destroy(f);
    }
}

static inline int flow_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static inline int flow_same_files(const htc_flow_file *a, const htc_flow_file *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].bytes != b[i].bytes)
            return 0;
    return 1;
}

static inline int flow_same_words(const char *const *a, const char *const *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0)
            return 0;
    return 1;
}

static inline int flow_same_task(const htc_flow_task *a, const htc_flow_task *b)
{
    return strcmp(a->name, b->name) == 0 && flow_same_text(a->kind, b->kind) &&
           flow_same_text(a->executable, b->executable) && flow_same_text(a->object, b->object) &&
           flow_same_text(a->function, b->function) && flow_same_text(a->argument, b->argument) &&
           a->n_args == b->n_args && a->n_env == b->n_env && a->n_in == b->n_in && a->n_out == b->n_out &&
           a->builtin == b->builtin && a->adds == b->adds && a->cores == b->cores && a->amount == b->amount && a->memory == b->memory &&
           a->wall == b->wall && a->run == b->run && a->count == b->count &&
           flow_same_words(a->args, b->args, a->n_args) && flow_same_words(a->env, b->env, a->n_env) &&
           flow_same_files(a->in, b->in, a->n_in) && flow_same_files(a->out, b->out, a->n_out);
}

/* The first task in which they differ; UINT32_MAX: they are the same. */
static inline uint32_t flow_difference(const htc_flow *a, const htc_flow *b)
{
    uint32_t n = htc_flow_count(a);
    for (uint32_t t = 0; t < n || t < htc_flow_count(b); t++) {
        const htc_flow_edge *ours = NULL, *theirs = NULL;
        size_t               edges = htc_flow_parents(a, t, &ours);
        if (t >= n || t >= htc_flow_count(b) || !flow_same_task(htc_flow_get(a, t), htc_flow_get(b, t)) ||
            htc_flow_parents(b, t, &theirs) != edges)
            return t;
        for (size_t i = 0; i < edges; i++)
            if (ours[i].task != theirs[i].task || ours[i].rule != theirs[i].rule)
                return t;
    }
    return UINT32_MAX;
}

/* The content of a file, with a zero behind it: free; NULL: it is not there. */
static inline char *flow_content(FILE *file, size_t *len)
{
    char  *content = malloc(8 << 20);
    size_t n = file && content ? fread(content, 1, (8 << 20) - 1, file) : 0;
    if (file)
        fclose(file);
    if (!n) {
        free(content);
        return NULL;
    }
    content[n] = '\0';
    *len = n;
    return content;
}

#endif
