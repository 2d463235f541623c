/* Sweep elements into the stored tree: where each Match points, how many values each function gives, and whether the
 * counts fit together. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/compile_private.h"

static htc_status bad(htc__compiler *c, const xmlNode *at, const char *why)
{
    return htc__compile_refuse(c, HTC_ESWEEP, at, why);
}

/* ---- functions ---- */

static htc_status values(htc__compiler *c, const xmlNode *function, uint64_t *count)
{
    uint64_t n = 0;
    for (const xmlNode *v = htc__xml_first(function); v; v = htc__xml_next(v))
        n++;
    htc_put_varint(&c->tree, n);
    for (const xmlNode *v = htc__xml_first(function); v; v = htc__xml_next(v)) {
        if (htc__xml_first(v))
            return htc__xml_refuse(c->error, HTC_EUNSUPPORTED, v,
                               "a Value that holds elements (%s) is not done here", htc__xml_name(htc__xml_first(v)));
        xmlChar *text = htc__xml_text(v);
        if (!text)
            return HTC_ENOMEM;
        htc_put_str(&c->tree, (const char *)text);
        xmlFree(text);
    }
    c->n_values += n;
    *count = n;
    return c->tree.status;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Steps to skip, sorted and each once. Those that the loop does not meet anyway were left out by the caller. */
static htc_status put_exceptions(htc__compiler *c, const xmlNode *function, uint64_t *steps, size_t n, uint64_t raw,
                                 uint64_t *count)
{
    size_t   kept = 0;
    uint64_t before = 0;
    if (n > 1)
        qsort(steps, n, sizeof *steps, compare_u64);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || steps[i] != steps[kept - 1])
            steps[kept++] = steps[i];
    htc_put_varint(&c->tree, kept);
    for (size_t i = 0; i < kept; i++) {
        htc_put_varint(&c->tree, steps[i] - before);
        before = steps[i];
    }
    c->n_exceptions += kept;
    *count = raw - kept;
    return *count ? HTC_OK : bad(c, function, "the loop is empty: its exceptions leave no value");
}

/* The raw step that gives value v, if one does. */
static int integer_step_of(int64_t v, int64_t start, int64_t step, uint64_t raw, uint64_t *k)
{
    if (step > 0 ? v < start : v > start)
        return 0;
    uint64_t distance = step > 0 ? (uint64_t)v - (uint64_t)start : (uint64_t)start - (uint64_t)v;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *k = distance / stride;
    return distance % stride == 0 && *k < raw;
}

static int double_step_of(double v, double start, double step, uint64_t raw, uint64_t *k)
{
    double at = round((v - start) / step);
    if (!(at >= 0) || !(at < (double)raw) || fabs(start + at * step - v) > 1e-9 * fabs(step))
        return 0;
    *k = (uint64_t)at;
    return 1;
}

typedef struct loop {
    int      is_double;
    int64_t  start, end, step;
    double   start_real, end_real, step_real;
    uint64_t raw;
} loop;

static htc_status exceptions(htc__compiler *c, const xmlNode *function, const loop *l, uint64_t *count)
{
    size_t n = 0, cap = 0;
    for (const xmlNode *e = htc__xml_first(function); e; e = htc__xml_next(e))
        cap++;
    uint64_t  *steps = htc__alloc(c->env, cap * sizeof *steps);
    htc_status status = steps ? HTC_OK : HTC_ENOMEM;
    for (const xmlNode *e = htc__xml_first(function); e && status == HTC_OK; e = htc__xml_next(e)) {
        xmlChar *text = htc__xml_text(e);
        int64_t  i = 0;
        double   d = 0;
        if (!text)
            status = HTC_ENOMEM;
        else if (l->is_double && htc__double_parse(htc_bytes_of((const char *)text), &d))
            n += (size_t)double_step_of(d, l->start_real, l->step_real, l->raw, &steps[n]);
        else if (!l->is_double && htc__integer_parse(htc_bytes_of((const char *)text), &i) == 1)
            n += (size_t)integer_step_of(i, l->start, l->step, l->raw, &steps[n]);
        xmlFree(text);
    }
    if (status == HTC_OK)
        status = put_exceptions(c, function, steps, n, l->raw, count);
    htc__free(c->env, steps, cap * sizeof *steps);
    return status;
}

/* An attribute's number. The schema has seen to its form; beyond 64 bits is what is left to refuse. */
static htc_status integer_attribute(htc__compiler *c, const xmlNode *node, const char *name, int64_t *out)
{
    xmlChar   *text = htc__xml_attribute(node, NULL, name);
    htc_status status = HTC_OK;
    if (text && htc__integer_parse(htc_bytes_of((const char *)text), out) != 1)
        status = htc__xml_refuse(c->error, HTC_ESWEEP, node,
                             "%s=%s of %s does not fit into 64 bits", name,
                             htc__quote(htc_bytes_of((const char *)text)).text, htc__xml_name(node));
    xmlFree(text);
    return status;
}

static htc_status double_attribute(htc__compiler *c, const xmlNode *node, const char *name, double *out)
{
    xmlChar   *text = htc__xml_attribute(node, NULL, name);
    htc_status status = HTC_OK;
    if (text && (!htc__double_parse(htc_bytes_of((const char *)text), out) || !isfinite(*out)))
        status = htc__xml_refuse(c->error, HTC_ESWEEP, node,
                             "%s=%s of %s is not a finite number", name,
                             htc__quote(htc_bytes_of((const char *)text)).text, htc__xml_name(node));
    xmlFree(text);
    return status;
}

static htc_status check_steps(htc__compiler *c, const xmlNode *node, const loop *l, htc_status status)
{
    char range[160], numbers[3][HTC__DOUBLE_TEXT_MAX];
    if (l->is_double) {
        htc__double_text(l->start_real, numbers[0]);
        htc__double_text(l->end_real, numbers[1]);
        htc__double_text(l->step_real, numbers[2]);
        snprintf(range, sizeof range, "from %s to %s by %s", numbers[0], numbers[1], numbers[2]);
    } else {
        snprintf(range, sizeof range, "from %" PRId64 " to %" PRId64 " by %" PRId64, l->start, l->end, l->step);
    }
    if (status != HTC_OK)
        return htc__xml_refuse(c->error, HTC_ETOOBIG, node,
                           "%s %s has more steps than can be counted", htc__xml_name(node), range);
    if (l->raw == 0)
        return htc__xml_refuse(c->error, HTC_ESWEEP, node, "%s %s is empty",
                           htc__xml_name(node), range);
    return HTC_OK;
}

/* htc:width: digits at least. */
static htc_status put_width(htc__compiler *c, const xmlNode *node)
{
    xmlChar   *text = htc__xml_attribute(node, HTC_OWN_NS, "width");
    uint64_t   width = 0;
    htc_status status = HTC_OK;
    if (text && (htc__unsigned_parse(htc_bytes_of((const char *)text), &width) != 1 || width > HTC__WIDTH_MAX))
        status = htc__xml_refuse(c->error, HTC_ESWEEP, node, "htc:width=%s is none of 0 to %u",
                             htc__quote(htc_bytes_of((const char *)text)).text, HTC__WIDTH_MAX);
    xmlFree(text);
    htc_put_varint(&c->tree, width);
    return status;
}

static htc_status loop_integer(htc__compiler *c, const xmlNode *node, uint64_t *count)
{
    loop       l = { .step = 1 };
    htc_status status = integer_attribute(c, node, "start", &l.start);
    if (status == HTC_OK)
        status = integer_attribute(c, node, "end", &l.end);
    if (status == HTC_OK)
        status = integer_attribute(c, node, "step", &l.step);
    if (status != HTC_OK)
        return status;
    if (l.step == 0)
        return bad(c, node, "step=\"0\" of LoopInteger never ends");
    status = check_steps(c, node, &l, htc__integer_steps(l.start, l.end, l.step, &l.raw));
    if (status != HTC_OK)
        return status;
    htc_put_u64(&c->tree, (uint64_t)l.start);
    htc_put_u64(&c->tree, (uint64_t)l.step);
    htc_put_u64(&c->tree, l.raw);
    status = put_width(c, node);
    return status == HTC_OK ? exceptions(c, node, &l, count) : status;
}

static htc_status loop_double(htc__compiler *c, const xmlNode *node, uint64_t *count)
{
    loop       l = { .is_double = 1 };
    htc_status status = double_attribute(c, node, "start", &l.start_real);
    if (status == HTC_OK)
        status = double_attribute(c, node, "end", &l.end_real);
    if (status == HTC_OK)
        status = double_attribute(c, node, "step", &l.step_real);
    if (status != HTC_OK)
        return status;
    if (l.step_real == 0)
        return bad(c, node, "step=\"0\" of LoopDouble never ends");
    status = check_steps(c, node, &l, htc__double_steps(l.start_real, l.end_real, l.step_real, &l.raw));
    if (status != HTC_OK)
        return status;
    htc_put_f64(&c->tree, l.start_real);
    htc_put_f64(&c->tree, l.step_real);
    htc_put_u64(&c->tree, l.raw);
    return exceptions(c, node, &l, count);
}

static htc_status put_function(htc__compiler *c, const xmlNode *node, uint64_t *count)
{
    const char        *name = htc__xml_name(node);
    htc__function      f = { .kind = HTC__FUNCTION_PAIRS };
    htc__function_kind kind = strcmp(name, "Values") == 0        ? HTC__FUNCTION_VALUES
                              : strcmp(name, "LoopInteger") == 0 ? HTC__FUNCTION_INTEGER
                              : strcmp(name, "LoopDouble") == 0  ? HTC__FUNCTION_DOUBLE
                                                                 : HTC__FUNCTION_PAIRS;
    htc_put_u8(&c->tree, (uint8_t)kind);
    htc_status status = kind == HTC__FUNCTION_INTEGER  ? loop_integer(c, node, count)
                        : kind == HTC__FUNCTION_DOUBLE ? loop_double(c, node, count)
                                                       : values(c, node, count);
    if (status != HTC_OK || kind != HTC__FUNCTION_PAIRS)
        return status;
    f.n_values = (size_t)*count;
    if (f.n_values < 2 || f.n_values > UINT32_MAX)
        return bad(c, node, "Pairs needs two values or more");
    *count = htc__function_count(&f);
    return HTC_OK;
}

/* ---- places ---- */

/* Answers how many elements it looked at. */
static size_t label_of(const xmlNode *node, char *out, size_t cap)
{
    size_t number = 1, same = 0, looked = 0;
    for (const xmlNode *n = htc__xml_first(node->parent); n; n = htc__xml_next(n), looked++)
        if (strcmp(htc__xml_name(n), htc__xml_name(node)) == 0) {
            same++;
            if (n == node)
                number = same;
        }
    int counted = same > 1 || strcmp(htc__xml_name(node), "Argument") == 0;
    snprintf(out, cap, counted ? "%s[%zu]" : "%s", htc__xml_name(node), number);
    return looked;
}

/* "Argument[2]", "DataStaging[1]/Source/URI", "Environment[3]/@name": the key of its values. */
static htc_status name_of(htc__compiler *c, const htc__place *place, const htc__selection *s, char out[128])
{
    static const char *const containers[] = { "JobDefinition",    "JobDescription", "Application",
                                              "POSIXApplication", "Resources",      "JobIdentification" };
    char                     label[64], rest[128];
    const xmlNode           *node = c->elements[place->element].node;
    size_t                   looked = label_of(node, out, 100);
    while (node->parent && node->parent->type == XML_ELEMENT_NODE) {
        node = node->parent;
        for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++)
            if (strcmp(htc__xml_name(node), containers[i]) == 0)
                node = NULL, i = sizeof containers;
        if (!node)
            break;
        looked += label_of(node, label, sizeof label);
        snprintf(rest, sizeof rest, "%s", out);
        snprintf(out, 128, "%s/%.*s", label, 60, rest);
    }
    size_t n = strlen(out);
    if (place->attribute)
        snprintf(out + n, 128 - n, "/@%s", place->attribute);
    else if (s->part)
        snprintf(out + n, 128 - n, ":%" PRIu64, s->first);
    return htc__compile_spend(c, c->elements[place->element].node, looked);
}

/* Bytes of a text before character n (from 1); the whole text if it is shorter. */
static size_t byte_of(const char *text, uint64_t n)
{
    size_t at = 0;
    while (text[at] && n > 1) {
        at++;
        while (((unsigned char)text[at] & 0xc0) == 0x80)
            at++;
        n--;
    }
    return at;
}

static htc_status make_active(htc__compiler *c, const xmlNode *match, const htc__param *p)
{
    htc_status status = htc__compile_spend(c, match, c->n_active);
    if (status != HTC_OK)
        return status;
    for (size_t i = 0; i < c->n_active; i++) {
        const htc__param *a = &c->active[i];
        if (a->slot == p->slot && (!a->part || !p->part || (a->start < p->end && p->start < a->end)))
            return bad(c, match, "Match selects a text that another assignment of the same tasks replaces, too");
    }
    if (c->n_active == c->cap_active) {
        size_t      cap = c->cap_active ? c->cap_active * 2 : 16;
        htc__param *more = htc__resize(c->env, c->active, c->cap_active * sizeof *more, cap * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        c->active = more;
        c->cap_active = cap;
    }
    c->active[c->n_active++] = *p;
    return HTC_OK;
}

static htc_status put_param(htc__compiler *c, const xmlNode *match, const htc__param *p, htc_buf *out)
{
    if (++c->n_params > HTC_PARAMS_MAX)
        return htc__compile_refuse(c, HTC_ETOOBIG, match, "the Match expressions select too many places");
    htc_put_varint(out, p->slot);
    htc_put_u8(out, p->part);
    htc_put_u8(out, p->which);
    htc_put_varint(out, p->start);
    htc_put_varint(out, p->end);
    htc_status status = make_active(c, match, p);
    return status == HTC_OK ? out->status : status;
}

static htc_status add_place(htc__compiler *c, const xmlNode *match, const htc__place *place, const htc__selection *s,
                            uint32_t which, htc_buf *out, size_t *n)
{
    const htc__element *e = &c->elements[place->element];
    uint32_t            slot = !place->attribute ? e->slot : strcmp(place->attribute, "name") == 0 ? e->name_slot : 0;
    if (!place->attribute && htc__xml_first(e->node))
        return htc__xml_refuse(c->error, HTC_ESWEEP, match,
                           "Match selects %s (line %u), which holds elements, not text", htc__xml_name(e->node),
                           htc__xml_line(e->node));
    if (!slot)
        return HTC_OK; /* a description, say: replacing it changes no task */
    xmlChar *text = place->attribute ? htc__xml_attribute(e->node, NULL, place->attribute) : htc__xml_text(e->node);
    if (!text)
        return HTC_ENOMEM;
    const char *t = (const char *)text;
    size_t      start = s->part ? byte_of(t, s->first) : 0, end = strlen(t);
    htc_status  status = htc__compile_spend(c, match, end);
    if (s->part && s->length < UINT64_MAX - 1)
        end = start + byte_of(t + start, s->length + 1);
    xmlFree(text);
    htc__param p = {
        .slot = slot, .part = (uint8_t)s->part, .which = (uint8_t)which, .start = (uint32_t)start, .end = (uint32_t)end
    };
    (*n)++;
    return status == HTC_OK ? put_param(c, match, &p, out) : status;
}

#define BINDINGS_MAX 64

typedef struct bindings {
    htc__binding list[BINDINGS_MAX];
    size_t       n;
} bindings;

static void free_bindings(bindings *b)
{
    for (size_t i = 0; i < b->n; i++) {
        xmlFree((void *)(uintptr_t)b->list[i].prefix);
        xmlFree((void *)(uintptr_t)b->list[i].ns);
    }
}

static htc_status read_bindings(htc__compiler *c, const xmlNode *document_node, bindings *b)
{
    for (const xmlNode *n = htc__xml_first(document_node); n; n = htc__xml_next(n)) {
        if (!htc__xml_is(n, HTC_SWEEP_NS, "NamespaceBinding"))
            continue;
        if (b->n == BINDINGS_MAX)
            return htc__compile_refuse(c, HTC_ETOOBIG, n, "too many NamespaceBinding elements");
        htc__binding *one = &b->list[b->n++];
        one->prefix = (char *)htc__xml_attribute(n, NULL, "prefix");
        one->ns = (char *)htc__xml_attribute(n, NULL, "ns");
        if (!one->prefix || !one->ns)
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

static htc_status select_places(htc__compiler *c, const xmlNode *match, const bindings *b, htc__selection *s)
{
    xmlChar *text = htc__xml_text(match);
    if (!text)
        return HTC_ENOMEM;
    /* A column counts in the expression itself, not in the blanks around it. */
    htc_bytes t = htc__trim(htc_bytes_of((const char *)text));
    char     *expression = (char *)(uintptr_t)t.data;
    expression[t.len] = '\0';
    htc_status status =
        htc__xpath_select(c->env, expression, b->list, b->n, c->elements, c->n_elements, &c->work, s, c->error);
    if (status != HTC_OK)
        c->error->line = htc__xml_line(match);
    if (status == HTC_OK && s->n == 0)
        status = htc__xml_refuse(c->error, HTC_ESWEEP, match, "Match %s selects nothing",
                             htc__quote(t).text);
    xmlFree(text);
    return status;
}

static htc_status document_node(htc__compiler *c, const xmlNode *node, uint32_t which, htc_buf *out, size_t *n,
                                char name[128])
{
    bindings       b = { .n = 0 };
    htc__selection s = { .n = 0 };
    const xmlNode *match = htc__xml_first(node);
    while (!htc__xml_is(match, HTC_SWEEP_NS, "Match"))
        match = htc__xml_next(match);
    if (++c->n_matches > HTC_MATCHES_MAX)
        return htc__compile_refuse(c, HTC_ETOOBIG, match, "too many Match elements");
    htc_status status = read_bindings(c, node, &b);
    if (status == HTC_OK)
        status = select_places(c, match, &b, &s);
    if (status == HTC_OK && !name[0])
        status = name_of(c, &s.places[0], &s, name);
    for (size_t i = 0; i < s.n && status == HTC_OK; i++)
        status = add_place(c, match, &s.places[i], &s, which, out, n);
    free_bindings(&b);
    htc__free(c->env, s.places, s.cap * sizeof *s.places);
    return status;
}

/* ---- assignments and sweeps ---- */

static const xmlNode *function_of(const xmlNode *assignment)
{
    const xmlNode *n = htc__xml_first(assignment);
    while (htc__xml_next(n))
        n = htc__xml_next(n);
    return n;
}

/* Pairs: parameters before this one (from 1) take the first of a pair. */
static htc_status second_of(htc__compiler *c, const xmlNode *assignment, const xmlNode *function, int64_t *second)
{
    int64_t n = 0;
    *second = 2;
    htc_status status = integer_attribute(c, function, "second", second);
    for (const xmlNode *p = htc__xml_first(assignment); p != function; p = htc__xml_next(p))
        n++;
    if (status == HTC_OK && (*second < 2 || *second > n))
        status = bad(c, function, "Pairs needs a parameter for each of the two values");
    return status;
}

/* The names that a generated document gives its parameters; "" where there is none. Two for Pairs. */
static void given_names(const xmlNode *function, char first[128], char second[128])
{
    int      pairs = htc__xml_is(function, HTC_OWN_NS, "Pairs");
    xmlChar *text = htc__xml_attribute(function, pairs ? NULL : HTC_OWN_NS, "name");
    first[0] = second[0] = '\0';
    if (!text)
        return;
    const char *t = (const char *)text;
    size_t      n = pairs ? strcspn(t, " ") : strlen(t);
    snprintf(first, 128, "%.*s", (int)(n > 100 ? 100 : n), t);
    if (t[n])
        snprintf(second, 128, "%.100s", t + n + 1);
    xmlFree(text);
}

static htc_status assignment(htc__compiler *c, const xmlNode *node, uint64_t *count)
{
    const xmlNode *function = function_of(node);
    int            pairs = htc__xml_is(function, HTC_OWN_NS, "Pairs");
    int64_t        second = 0, number = 1;
    size_t         n = 0;
    char           names[2][128];
    htc_buf        params;
    htc_status     status = pairs ? second_of(c, node, function, &second) : HTC_OK;
    given_names(function, names[0], names[1]);
    htc_buf_init(&params, c->env, 0);
    for (const xmlNode *p = htc__xml_first(node); p != function && status == HTC_OK; p = htc__xml_next(p), number++) {
        uint32_t which = pairs && number >= second ? 1 : 0;
        if (htc__xml_is(p, HTC_SWEEP_NS, "DocumentNode"))
            status = document_node(c, p, which, &params, &n, names[which]);
        else
            status = htc__compile_foreign(c, p); /* FileSweep */
    }
    htc_put_str(&c->tree, names[0]);
    if (status == HTC_OK)
        status = put_function(c, function, count);
    if (pairs)
        htc_put_str(&c->tree, names[1]);
    htc_put_varint(&c->tree, n);
    htc_put_raw(&c->tree, htc_buf_bytes(&params));
    htc_buf_free(&params);
    c->n_assignments++;
    return status == HTC_OK ? c->tree.status : status;
}

static htc_status assignments(htc__compiler *c, const xmlNode *sweep, uint64_t *steps)
{
    size_t n = 0;
    for (const xmlNode *a = htc__xml_first(sweep); a; a = htc__xml_next(a))
        n += htc__xml_is(a, HTC_SWEEP_NS, "Assignment");
    htc_put_varint(&c->tree, n);
    *steps = 0;
    for (const xmlNode *a = htc__xml_first(sweep); a; a = htc__xml_next(a)) {
        uint64_t count = 0;
        if (!htc__xml_is(a, HTC_SWEEP_NS, "Assignment"))
            continue;
        htc_status status = assignment(c, a, &count);
        if (status != HTC_OK)
            return status;
        if (*steps && count != *steps)
            return htc__xml_refuse(c->error, HTC_ESWEEP, a,
                               "assignments of one Sweep advance together, but one has %" PRIu64
                               " values and this one %" PRIu64,
                               *steps, count);
        *steps = count;
    }
    return HTC_OK;
}

htc_status htc__compile_sweep(htc__compiler *c, const xmlNode *sweep, uint32_t depth, uint64_t *size)
{
    uint64_t steps = 0, inner = 0, children = 0;
    size_t   around = c->n_active;
    if (depth > HTC_SWEEP_DEPTH_MAX || ++c->n_sweeps > HTC_SWEEPS_MAX)
        return htc__compile_refuse(c, HTC_ETOOBIG, sweep, "too many Sweep elements, or too deep in each other");
    htc_status status = assignments(c, sweep, &steps);
    for (const xmlNode *n = htc__xml_first(sweep); n; n = htc__xml_next(n))
        children += htc__xml_is(n, HTC_SWEEP_NS, "Sweep");
    htc_put_varint(&c->tree, children);
    for (const xmlNode *n = htc__xml_first(sweep); n && status == HTC_OK; n = htc__xml_next(n)) {
        uint64_t child = 0;
        if (htc__xml_is(n, HTC_SWEEP_NS, "Sweep"))
            status = htc__compile_sweep(c, n, depth + 1, &child);
        else if (!htc__xml_is(n, HTC_SWEEP_NS, "Assignment"))
            status = htc__compile_foreign(c, n);
        if (status == HTC_OK && __builtin_add_overflow(inner, child, &inner))
            status = htc__compile_refuse(c, HTC_ETOOBIG, n, "the document makes more than 2^64 tasks");
    }
    c->n_active = around;
    if (status != HTC_OK)
        return status;
    if (__builtin_mul_overflow(steps, inner ? inner : 1, size))
        return htc__compile_refuse(c, HTC_ETOOBIG, sweep, "the document makes more than 2^64 tasks");
    return HTC_OK;
}
