#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../study/study.h"
#include "reproduce.h"

const char *verdict_word(const claim *c)
{
    static const char *const holds[] = { "yes", "fitted", "ours", "pilot" };
    return c->verdict == VERDICT_HOLDS ? holds[c->rests_on] : c->verdict == VERDICT_FAILS ? "no" : "not run";
}

int reason_qualifies(const claim *c)
{
    return c->verdict == VERDICT_HOLDS && c->rests_on != BASIS_PUBLISHED && c->why[0];
}

void number_text(double v, const char *unit, char *out, size_t room)
{
    int    part = strcmp(unit, "%") == 0;
    double shown = part ? 100 * v : v, size = fabs(shown);
    if (!isfinite(v))
        snprintf(out, room, "none");
    else if (size >= 1e15 || (size > 0 && size < 1e-4))
        snprintf(out, room, "%.3g%s", shown, part ? " %" : "");
    else if (shown == floor(shown) || size >= 10000)
        snprintf(out, room, "%.0f%s", shown, part ? " %" : "");
    else
        snprintf(out, room, "%.*f%s", size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4, shown, part ? " %" : "");
}

void claim_texts(const claim *c, char *published, char *ours, char *difference, size_t room)
{
    int  order = c->op == '>' || c->op == '<';
    char half[32] = "";
    snprintf(published, room, "-");
    snprintf(ours, room, "-");
    snprintf(difference, room, "-");
    if (!order)
        number_text(c->published, c->unit, published, room);
    if (c->verdict == VERDICT_NOT_RUN)
        return;
    if (order) {
        snprintf(ours, room, "%s", c->verdict == VERDICT_HOLDS ? "in order" : c->close ? "too close" : "not in order");
        return;
    }
    number_text(c->ours, c->unit, ours, room);
    if (c->half > 1e-6 * fabs(c->ours)) {
        size_t n = strlen(ours);
        number_text(c->half, c->unit, half, sizeof half);
        snprintf(ours + n, room - n, " \u00b1 %s", half);
    }
    if (c->published != 0 && c->must != MUST_DISTANCE)
        snprintf(difference, room, "%+.1f %%", 100 * (c->ours - c->published) / fabs(c->published));
    else if (strcmp(c->unit, "%") == 0) /* of two percentages: it is not a part of either */
        snprintf(difference, room, "%+.2f points", 100 * (c->ours - c->published));
    else
        number_text(c->ours - c->published, c->unit, difference, room);
}

const char *must_words(const claim *c, char *room, size_t size)
{
    if (c->op == '>' || c->op == '<')
        return "in order";
    if (c->must != MUST_DISTANCE || strcmp(c->unit, "%") != 0)
        return c->must_text;
    snprintf(room, size, "within %.4g points", 100 * c->allowed);
    return room;
}

typedef struct sum {
    size_t holds, other, fails, explained, not_run, moved, bad; /* other: hold, and rest on fitted numbers or on our own */
} sum;

static void count(const experiment *e, sum *s)
{
    for (size_t i = 0; i < e->n_claims; i++) {
        const claim *c = &e->claims[i];
        s->holds += c->verdict == VERDICT_HOLDS && c->rests_on == BASIS_PUBLISHED;
        s->other += c->verdict == VERDICT_HOLDS && c->rests_on != BASIS_PUBLISHED;
        s->fails += c->verdict == VERDICT_FAILS;
        s->explained += c->verdict == VERDICT_FAILS && c->why[0];
        s->moved += c->moved && (c->verdict == VERDICT_HOLDS || c->why[0]); /* the others are bad anyway */
        s->not_run += c->verdict == VERDICT_NOT_RUN;
    }
    for (size_t i = 0; i < e->n_series; i++)
        s->bad += e->series[i].error.text[0] != '\0';
}

static void say_experiment(const experiment *e)
{
    char published[64], ours[64], difference[64], must[48];
    printf("%s: %s, %s: %s (%" PRIu64 " run%s, %.1f s)\n", e->id, e->paper, e->name, e->about, e->runs, plural(e->runs), e->seconds);
    for (size_t i = 0; i < e->n_claims; i++) {
        const claim *c = &e->claims[i];
        claim_texts(c, published, ours, difference, sizeof ours);
        if (c->op == '>' || c->op == '<')
            printf("  %-8s %-52s  %s\n", verdict_word(c), c->about, c->verdict == VERDICT_NOT_RUN ? "an order" : ours);
        else
            printf("  %-8s %-52s  %s %s%s%s, ours %s%s%s (%s)\n", verdict_word(c), c->about, c->rests_on == BASIS_OURS ? "bound" : c->rests_on == BASIS_PILOT ? "pilot" : "published", published,
                   c->unit[0] && c->unit[0] != '%' ? " " : "", c->unit[0] != '%' ? c->unit : "", ours, strcmp(difference, "-") != 0 ? ", " : "",
                   strcmp(difference, "-") != 0 ? difference : "", must_words(c, must, sizeof must));
        if ((c->verdict == VERDICT_FAILS && c->why[0]) || reason_qualifies(c))
            printf("           %s\n", c->why);
        if (c->moved) {
            number_text(c->known, c->unit, published, sizeof published);
            printf("           ours was %s when the file was written, and has moved by more than 10 %%\n", published);
        }
        if (c->verdict == VERDICT_HOLDS && c->why[0] && !reason_qualifies(c))
            printf("           it holds; the file says why it should not: %s\n", c->why);
    }
    if (e->cut[0])
        printf("  cut: %s\n", e->cut);
}

static void json_text(const char *name, const char *value, const char *behind)
{
    printf("\"%s\":", name);
    say_text(value);
    fputs(behind, stdout);
}

static void json_number(const char *name, double v, int known, const char *behind)
{
    if (known && isfinite(v))
        printf("\"%s\":%.9g%s", name, v, behind);
    else
        printf("\"%s\":null%s", name, behind);
}

static void json_experiment(const experiment *e)
{
    putchar('{');
    json_text("id", e->id, ",");
    json_text("paper", e->paper, ",");
    json_text("name", e->name, ",");
    json_text("about", e->about, ",");
    json_text("cut", e->cut, ",");
    printf("\"runs\":%" PRIu64 ",\"seconds\":%.3f,\"claims\":[", e->runs, e->seconds);
    for (size_t i = 0; i < e->n_claims; i++) {
        const claim *c = &e->claims[i];
        int          order = c->op == '>' || c->op == '<';
        printf("%s{", i ? "," : "");
        json_text("about", c->about, ",");
        json_number("published", c->published, !order, ",");
        json_number("ours", c->ours, !order && c->verdict != VERDICT_NOT_RUN, ",");
        json_number("half", c->half, !order && c->verdict != VERDICT_NOT_RUN, ",");
        json_text("unit", c->unit, ",");
        json_text("must", order ? "in order" : c->must_text, ",");
        json_text("verdict", verdict_word(c), ",");
        if (c->has_known)
            printf("\"known\":%.9g,\"moved\":%s,", c->known, c->moved ? "true" : "false");
        json_text("why", c->why, "}");
    }
    printf("],\"errors\":[");
    int first = 1;
    for (size_t i = 0; i < e->n_series; i++)
        if (e->series[i].error.text[0]) {
            printf("%s{", first ? "" : ",");
            json_text("series", e->series[i].name, ",");
            json_text("text", e->series[i].error.text, "}");
            first = 0;
        }
    printf("]}");
}

static void say_errors(const experiment *e)
{
    for (size_t i = 0; i < e->n_series; i++) {
        htc_error shown = e->series[i].error;
        if (!shown.text[0])
            continue;
        if (!shown.where[0])
            snprintf(shown.where, sizeof shown.where, "%.100s, series %.40s", e->file, e->series[i].name);
        say_error(&shown);
    }
}

size_t reproduction_say(const reproduction *r)
{
    sum s = { 0 };
    if (r->json)
        printf("{\"interrupted\":%s,\"full\":%s,\"experiments\":[", r->interrupted ? "true" : "false", r->full ? "true" : "false");
    for (size_t i = 0; i < r->n; i++) {
        count(r->experiment[i], &s);
        if (r->json && i)
            putchar(',');
        (r->json ? json_experiment : say_experiment)(r->experiment[i]);
        say_errors(r->experiment[i]);
    }
    if (r->json)
        printf("],\"holds\":%zu,\"fitted_or_ours\":%zu,\"fails\":%zu,\"explained\":%zu,\"moved\":%zu,\"not_run\":%zu,\"failed_series\":%zu}\n", s.holds, s.other, s.fails, s.explained, s.moved,
               s.not_run, s.bad);
    else
        printf("%s%zu experiment%s: %zu claim%s hold%s, %zu more with fitted numbers or numbers of our own, %zu do%s not (%zu with a reason in the file), %zu %s not run%s\n",
               r->interrupted ? "interrupted; what there was until then:\n" : "", r->n, r->n == 1 ? "" : "s", s.holds, s.holds == 1 ? "" : "s",
               s.holds == 1 ? "s" : "", s.other, s.fails, s.fails == 1 ? "es" : "", s.explained, s.not_run, s.not_run == 1 ? "was" : "were",
               s.moved ? "; values of ours have moved" : "");
    return s.fails - s.explained + s.moved + s.bad;
}
