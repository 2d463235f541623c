/* What is claimed of runs: MEASURE of SERIES [at VALUE], several of them with / * + or - between them, or several such sums with > or < between them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../study/values.h"
#include "experiment.h"

static int refuse(htc_error *error, const char *what, const char *text, const char *hint)
{
    *error = (htc_error){ .status = HTC_ECONFIG };
    snprintf(error->text, sizeof error->text, "%.60s: %.120s", what, text);
    snprintf(error->hint, sizeof error->hint, "%s", hint);
    return 0;
}

int measure_of(series *s, const char *name)
{
    for (size_t i = 0; i < s->n_measures; i++)
        if (strcmp(s->measure[i], name) == 0)
            return (int)i;
    if (s->n_measures == MEASURES_MAX)
        return -1;
    snprintf(s->measure[s->n_measures], sizeof s->measure[0], "%.63s", name);
    return (int)s->n_measures++;
}

static int parse_term(experiment *e, term *t, const char *text, htc_error *error)
{
    static const char *const words[] = { "", "", "min ", "max ", "mean " };
    const char              *hint = "a term is a number, MEASURE of SERIES, MEASURE of SERIES at VALUE, or max, min or mean MEASURE of SERIES";
    char                     what[64], name[64], at[64];
    char                    *end;
    t->kind = TERM_VALUE;
    t->number = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(t->number)) {
        t->kind = TERM_NUMBER;
        return 1;
    }
    for (int k = TERM_MIN; k <= TERM_MEAN; k++)
        if (strncmp(text, words[k], strlen(words[k])) == 0) {
            t->kind = (term_kind)k;
            text += strlen(words[k]);
            break;
        }
    int n = sscanf(text, "%63s of %63s at %63s", what, name, at);
    if (n < 2)
        return refuse(error, "value", text, hint);
    for (t->series = 0; t->series < e->n_series && strcmp(e->series[t->series].name, name) != 0;)
        t->series++;
    if (t->series == e->n_series)
        return refuse(error, "there is no series", name, "name a [series.NAME] of this file");
    series *s = &e->series[t->series];
    if (n == 3) {
        for (t->point = 0; t->point < s->n && strcmp(s->point[t->point], at) != 0;)
            t->point++;
        if (t->point == s->n || t->kind != TERM_VALUE)
            return refuse(error, "there is no such value of what varies", at, "write it as vary has it; max, min and mean are of all values");
    } else if (t->kind == TERM_VALUE && s->n > 1) {
        return refuse(error, "at which value", text, "the series varies: MEASURE of SERIES at VALUE");
    }
    int m = measure_of(s, what);
    t->measure = m < 0 ? 0 : (size_t)m;
    return m >= 0 || refuse(error, "too many measures", what, "divide the series into two");
}

/* The operator that comes next, without the space before it; NULL: none. */
static char *next_operator(char *text)
{
    for (; *text; text++)
        if (*text == ' ' && text[1] && strchr("/-+*<>", text[1]) && text[2] == ' ')
            return text + 1;
    return NULL;
}

int claim_parse(experiment *e, claim *c, const char *text, htc_error *error)
{
    char copy[800], *at = copy;
    char joins = 0; /* what is between this term and the one before */
    snprintf(copy, sizeof copy, "%s", text);
    c->terms = 0;
    c->op = 0;
    while (at) {
        char *op = next_operator(at), order = joins == '<' || joins == '>' ? joins : 0;
        if (c->terms == TERMS_MAX || (order && c->op && c->op != order))
            return refuse(error, "value", text, "up to 16 terms, with / * + or - between them; of such sums several with > or < between them, all the same");
        if (op)
            op[-1] = '\0';
        if (!parse_term(e, &c->term[c->terms], at, error))
            return 0;
        c->term[c->terms++].joins = order ? 0 : joins;
        c->op = order ? order : c->op;
        joins = op ? *op : 0;
        at = op ? op + 2 : NULL;
    }
    c->has_value = 1;
    return 1;
}

int must_parse(claim *c, const char *text, htc_error *error)
{
    char  end;
    float number;
    snprintf(c->must_text, sizeof c->must_text, "%s", text);
    c->allowed = 0;
    if (strcmp(text, "at least") == 0)
        c->must = MUST_LEAST;
    else if (strcmp(text, "at most") == 0)
        c->must = MUST_MOST;
    else if (strcmp(text, "exactly") == 0)
        c->must = MUST_EXACT;
    else if (sscanf(text, "within factor %f%c", &number, &end) == 1 && number >= 1 && isfinite(number))
        c->must = MUST_FACTOR, c->allowed = (double)number;
    else if (sscanf(text, "within %f%%%c", &number, &end) == 1 && strchr(text, '%') && !strchr(text, '%')[1] && number >= 0 && isfinite(number))
        c->must = MUST_PART, c->allowed = (double)number / 100;
    else if (sscanf(text, "within %f%c", &number, &end) == 1 && number >= 0 && isfinite(number))
        c->must = MUST_DISTANCE, c->allowed = (double)number;
    else
        return refuse(error, "must", text, "within 10%, within 0.05, within factor 2, at least, at most, or exactly");
    return 1;
}

/* ---- when all has run ---- */

/* A number and how sure it is: half of its 95 % interval, 0 of one run. Errors of several count as independent. */
static estimate joined(char op, estimate a, estimate b)
{
    switch (op) {
    case '/':
        return b.mean != 0 ? (estimate){ a.mean / b.mean, hypot(a.half, b.half * a.mean / b.mean) / fabs(b.mean) } : (estimate){ NAN, 0 };
    case '*':
        return (estimate){ a.mean * b.mean, hypot(a.half * b.mean, b.half * a.mean) };
    case '-':
        return (estimate){ a.mean - b.mean, hypot(a.half, b.half) };
    default:
        return (estimate){ a.mean + b.mean, hypot(a.half, b.half) };
    }
}

/* 1; 0: it has not run. */
static int value_of(const experiment *e, const term *t, estimate *out)
{
    const series *s = &e->series[t->series];
    size_t        n = 0;
    *out = (estimate){ t->number, 0 };
    if (t->kind == TERM_NUMBER)
        return 1;
    if (t->kind == TERM_VALUE) {
        *out = s->found[t->point][t->measure];
        return s->ran[t->point];
    }
    for (size_t i = 0; i < s->n; i++) {
        estimate v = s->found[i][t->measure];
        if (!s->ran[i])
            continue;
        if (n == 0 || (t->kind == TERM_MIN && v.mean < out->mean) || (t->kind == TERM_MAX && v.mean > out->mean))
            *out = v;
        else if (t->kind == TERM_MEAN)
            *out = joined('+', *out, v);
        n++;
    }
    if (t->kind == TERM_MEAN && n)
        *out = (estimate){ out->mean / (double)n, out->half / (double)n };
    return n > 0;
}

static int holds(const claim *c)
{
    double p = c->published, distance = fabs(c->ours - p);
    switch (c->must) {
    case MUST_PART:
        return distance <= c->allowed * fabs(p) + 1e-12;
    case MUST_DISTANCE:
        return distance <= c->allowed + 1e-12;
    case MUST_FACTOR:
        return c->ours <= p * c->allowed && c->ours >= p / c->allowed;
    case MUST_LEAST:
        return c->ours >= p;
    case MUST_MOST:
        return c->ours <= p;
    case MUST_EXACT:
        return distance <= 1e-9 * fmax(1, fabs(p));
    }
    return 0;
}

/* One value is above the other; *close: by no more than chance may do. */
static int above(estimate a, estimate b, int *close)
{
    int more = isfinite(a.mean) && isfinite(b.mean) && a.mean > b.mean;
    *close = *close || (more && a.mean - b.mean < hypot(a.half, b.half));
    return more;
}

static void judge(const experiment *e, claim *c)
{
    estimate value[TERMS_MAX] = { { 0, 0 } }, found;
    size_t   n = 0, last;
    int      ordered = 1;
    c->verdict = VERDICT_NOT_RUN;
    c->close = c->moved = 0;
    for (size_t i = 0; i < c->terms; i = last) { /* a product, which is all of a value, or joins the sum before it */
        char joins = c->term[i].joins;
        if (!value_of(e, &c->term[i], &found))
            return;
        for (last = i + 1; last < c->terms && (c->term[last].joins == '*' || c->term[last].joins == '/'); last++) {
            estimate factor;
            if (!value_of(e, &c->term[last], &factor))
                return;
            found = joined(c->term[last].joins, found, factor);
        }
        if (joins)
            value[n - 1] = joined(joins, value[n - 1], found);
        else
            value[n++] = found;
    }
    for (size_t i = 1; i < n; i++)
        ordered = (c->op == '>' ? above(value[i - 1], value[i], &c->close) : above(value[i], value[i - 1], &c->close)) && ordered;
    c->close = c->close && ordered;
    c->ours = value[0].mean;
    c->half = c->op ? 0 : value[0].half;
    c->verdict = (c->op ? ordered && !c->close : isfinite(c->ours) && holds(c)) ? VERDICT_HOLDS : VERDICT_FAILS;
    c->moved = c->has_known && !(fabs(c->ours - c->known) <= fmax(0.1 * fabs(c->known), c->half)); /* what is no number has moved, too */
}

void claims_judge(experiment *e)
{
    for (size_t i = 0; i < e->n_claims; i++)
        judge(e, &e->claims[i]);
}
