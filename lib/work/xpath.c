/* The part of XPath 1.0 that a Match needs, and nothing that could cost more than elements times steps:
 *
 *   match     = path | "substring(" path "," number [ "," number ] ")"
 *   path      = [ "/" | "//" ] step { ("/" | "//") step }
 *   step      = test { predicate } | "@" test | "text()"
 *   test      = "*" | name | prefix ":" name | prefix ":*"
 *   predicate = "[" number "]" | "[" "@" name "=" literal "]"
 *
 * Node sets are marks on the elements in document order, so no set ever holds an element twice. */
#include <stdio.h>
#include <string.h>

#include "work/xml_private.h"

#define PREDICATES_MAX 4

typedef struct predicate {
    uint64_t  position; /* 0: an attribute's value */
    htc_bytes attribute, literal;
} predicate;

typedef struct step {
    int         descend; /* came after "//" */
    int         is_attribute, is_text;
    const char *ns; /* NULL: none; any_ns: whatever */
    int         any_ns;
    htc_bytes   name; /* "*" is any */
    predicate   predicates[PREDICATES_MAX];
    size_t      n_predicates;
} step;

typedef struct parser {
    const char         *text;
    size_t              at;
    const htc__binding *bindings;
    size_t              n_bindings;
    const htc__element *elements;
    size_t              n_elements;
    uint8_t            *marks, *next; /* of elements, now and after the step */
    uint32_t           *counts;       /* children seen that passed predicate p, by parent */
    uint64_t           *work;
    const htc_env      *env;
    htc__selection     *out;
    htc_error          *error;
} parser;

static htc_status refuse_at(parser *p, size_t at, const char *why)
{
    uint32_t column = 1;
    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)p->text[i] & 0xc0) != 0x80;
    htc_status status = htc__refuse(p->error, HTC_EXPATH, 0, "Match", "%s at column %u of %s", why, column,
                                    htc__quote(htc_bytes_of(p->text)).text);
    if (p->error)
        p->error->column = column;
    return status;
}

static void blanks(parser *p)
{
    while (strchr(" \t\r\n", p->text[p->at]) && p->text[p->at])
        p->at++;
}

static int take(parser *p, const char *token)
{
    size_t n = strlen(token);
    blanks(p);
    if (strncmp(p->text + p->at, token, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

static int name_char(unsigned char c, int first)
{
    int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

static int read_name(parser *p, htc_bytes *name)
{
    size_t begin = p->at;
    if (!name_char((unsigned char)p->text[p->at], 1))
        return 0;
    while (name_char((unsigned char)p->text[p->at], p->at == begin))
        p->at++;
    *name = (htc_bytes){ p->text + begin, p->at - begin };
    return 1;
}

static int read_number(parser *p, uint64_t *out)
{
    blanks(p);
    size_t begin = p->at;
    while (p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return htc__unsigned_parse((htc_bytes){ p->text + begin, p->at - begin }, out) == 1;
}

static const char *bound_to(const parser *p, htc_bytes prefix)
{
    for (size_t i = 0; i < p->n_bindings; i++)
        if (htc_bytes_equal(prefix, htc_bytes_of(p->bindings[i].prefix)))
            return p->bindings[i].ns;
    return NULL;
}

static htc_status read_test(parser *p, step *s)
{
    size_t    begin;
    htc_bytes prefix;
    blanks(p);
    begin = p->at;
    if (p->text[p->at] == '*') {
        p->at++;
        s->any_ns = 1;
        s->name = htc_bytes_of("*");
        return HTC_OK;
    }
    if (!read_name(p, &s->name))
        return refuse_at(p, p->at, "expected the name of an element");
    if (p->text[p->at] == ':' && p->text[p->at + 1] != ':') {
        p->at++;
        prefix = s->name;
        s->ns = bound_to(p, prefix);
        if (!s->ns)
            return refuse_at(p, begin, "no NamespaceBinding has the prefix that stands");
        if (p->text[p->at] == '*') {
            p->at++;
            s->name = htc_bytes_of("*");
        } else if (!read_name(p, &s->name)) {
            return refuse_at(p, p->at, "expected a name");
        }
    }
    if (p->text[p->at] == '(' || p->text[p->at] == ':')
        return refuse_at(p, begin, "only paths, substring() and text() are done here; something else stands");
    return HTC_OK;
}

static htc_status read_predicate(parser *p, step *s)
{
    predicate q = { 0 };
    size_t    begin = p->at;
    if (s->n_predicates == PREDICATES_MAX)
        return refuse_at(p, begin, "too many conditions");
    if (take(p, "@")) {
        char quote;
        if (!read_name(p, &q.attribute) || !take(p, "="))
            return refuse_at(p, p->at, "expected [@name='value']");
        blanks(p);
        quote = p->text[p->at];
        const char *end = quote == '\'' || quote == '"' ? strchr(p->text + p->at + 1, quote) : NULL;
        if (!end)
            return refuse_at(p, p->at, "expected a value in quotes");
        q.literal = (htc_bytes){ p->text + p->at + 1, (size_t)(end - (p->text + p->at + 1)) };
        p->at = (size_t)(end - p->text) + 1;
    } else if (!read_number(p, &q.position) || q.position == 0) {
        return refuse_at(p, begin, "expected a position from 1 or @name='value'");
    }
    if (!take(p, "]"))
        return refuse_at(p, p->at, "expected ]");
    s->predicates[s->n_predicates++] = q;
    return HTC_OK;
}

static htc_status read_step(parser *p, step *s)
{
    blanks(p);
    if (strncmp(p->text + p->at, "text()", 6) == 0) {
        p->at += 6;
        s->is_text = 1;
        return HTC_OK;
    }
    s->is_attribute = take(p, "@");
    htc_status status = read_test(p, s);
    while (status == HTC_OK && take(p, "["))
        status = s->is_attribute ? refuse_at(p, p->at - 1, "an attribute takes no condition; one stands")
                                 : read_predicate(p, s);
    return status;
}

/* ---- evaluation ---- */

static int matches_name(const step *s, const xmlNode *node)
{
    if (!s->any_ns && (s->ns ? !htc__xml_in(node, s->ns) : node->ns && node->ns->href))
        return 0;
    return htc_bytes_equal(s->name, htc_bytes_of("*")) || htc_bytes_equal(s->name, htc_bytes_of(htc__xml_name(node)));
}

static int has_value(const predicate *q, const xmlNode *node)
{
    for (const xmlAttr *a = node->properties; a; a = a->next) {
        if (a->ns || !htc_bytes_equal(q->attribute, htc_bytes_of((const char *)a->name)))
            continue;
        xmlChar *value = htc__xml_attribute(node, NULL, (const char *)a->name);
        int      same = value && htc_bytes_equal(q->literal, htc_bytes_of((const char *)value));
        xmlFree(value);
        return same;
    }
    return 0;
}

/* Positions count the siblings that passed what stands before, as XPath wants it. */
static int passes(parser *p, const step *s, size_t i)
{
    const htc__element *e = &p->elements[i];
    for (size_t k = 0; k < s->n_predicates; k++) {
        const predicate *q = &s->predicates[k];
        if (q->position ? ++p->counts[k * p->n_elements + e->parent] != q->position : !has_value(q, e->node))
            return 0;
    }
    return 1;
}

static void descend(parser *p)
{
    for (size_t i = 1; i < p->n_elements; i++)
        p->marks[i] |= p->marks[p->elements[i].parent];
}

static void step_to_children(parser *p, const step *s)
{
    memset(p->counts, 0, PREDICATES_MAX * p->n_elements * sizeof *p->counts);
    memset(p->next, 0, p->n_elements);
    for (size_t i = 1; i < p->n_elements; i++)
        if (p->marks[p->elements[i].parent] && matches_name(s, p->elements[i].node))
            p->next[i] = (uint8_t)passes(p, s, i);
    uint8_t *swap = p->marks;
    p->marks = p->next;
    p->next = swap;
}

static htc_status add_place(parser *p, size_t element, const char *attribute)
{
    htc__selection *o = p->out;
    if (o->n == o->cap) {
        size_t      cap = o->cap ? o->cap * 2 : 4;
        htc__place *more = htc__resize(p->env, o->places, o->cap * sizeof *more, cap * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        o->places = more;
        o->cap = cap;
    }
    o->places[o->n++] = (htc__place){ (uint32_t)element, attribute };
    return HTC_OK;
}

static htc_status collect(parser *p, const step *last)
{
    for (size_t i = 1; i < p->n_elements; i++) {
        htc_status status = HTC_OK;
        if (!p->marks[i])
            continue;
        if (!last->is_attribute)
            status = add_place(p, i, NULL);
        for (const xmlAttr *a = p->elements[i].node->properties; last->is_attribute && a && status == HTC_OK;
             a = a->next) {
            const char *ns = a->ns ? (const char *)a->ns->href : NULL;
            int         same_ns = last->any_ns || (ns && last->ns ? strcmp(ns, last->ns) == 0 : ns == last->ns);
            if (same_ns && (htc_bytes_equal(last->name, htc_bytes_of("*")) ||
                            htc_bytes_equal(last->name, htc_bytes_of((const char *)a->name))))
                status = add_place(p, i, (const char *)a->name);
        }
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status select_path(parser *p)
{
    step s = { 0 };
    memset(p->marks, 0, p->n_elements);
    p->marks[0] = 1;
    int descending = take(p, "//");
    if (!descending)
        (void)take(p, "/"); /* a relative path starts at the document, too */
    for (;;) {
        s = (step){ .descend = descending };
        htc_status status = read_step(p, &s);
        if (status != HTC_OK)
            return status;
        if (*p->work < p->n_elements)
            return htc__refuse(p->error, HTC_ETOOBIG, 0, "Match", "the Match expressions look at too many elements");
        *p->work -= p->n_elements;
        if (s.descend)
            descend(p);
        if (!s.is_attribute && !s.is_text)
            step_to_children(p, &s);
        descending = take(p, "//");
        if (!descending && !take(p, "/"))
            return collect(p, &s);
        if (s.is_attribute || s.is_text)
            return refuse_at(p, p->at, "nothing may follow an attribute or text(); something stands");
    }
}

static htc_status select_match(parser *p)
{
    htc_status status;
    size_t     begin;
    p->out->first = 1;
    p->out->length = UINT64_MAX;
    blanks(p);
    begin = p->at;
    p->out->part = take(p, "substring") && take(p, "(");
    if (!p->out->part)
        p->at = begin;
    status = select_path(p);
    if (status == HTC_OK && p->out->part) {
        if (!take(p, ",") || !read_number(p, &p->out->first) || p->out->first == 0)
            return refuse_at(p, p->at, "expected the first position, from 1,");
        if (take(p, ",") && !read_number(p, &p->out->length))
            return refuse_at(p, p->at, "expected a length");
        if (!take(p, ")"))
            return refuse_at(p, p->at, "expected )");
    }
    blanks(p);
    if (status == HTC_OK && p->text[p->at])
        return refuse_at(p, p->at, "expected the end of the expression");
    return status;
}

htc_status htc__xpath_select(const htc_env *env, const char *expression, const htc__binding *bindings,
                             size_t n_bindings, const htc__element *elements, size_t n_elements, uint64_t *work,
                             htc__selection *out, htc_error *error)
{
    size_t    counts = PREDICATES_MAX * n_elements * sizeof(uint32_t), size = counts + 2 * n_elements;
    uint32_t *block = htc__alloc(env, size);
    if (!block)
        return HTC_ENOMEM;
    parser     p = { .text = expression,
                     .bindings = bindings,
                     .n_bindings = n_bindings,
                     .elements = elements,
                     .n_elements = n_elements,
                     .counts = block,
                     .marks = (uint8_t *)block + counts,
                     .next = (uint8_t *)block + counts + n_elements,
                     .work = work,
                     .env = env,
                     .out = out,
                     .error = error };
    htc_status status = select_match(&p);
    htc__free(env, block, size);
    return status;
}
