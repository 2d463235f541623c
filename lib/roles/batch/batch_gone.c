#include "roles/batch/batch_gone.h"

#include <stdio.h>
#include <string.h>

void htc__batch_gone_add(batch_gone *g, const batch_gone_one *one, const char *job, htc_ns now, htc_ns period)
{
    if (g->n == BATCH_GONE_MAX)
        return;
    if (g->n == 0 && g->ask_at < now + BATCH_ASK_FIRST * period)
        g->ask_at = now + BATCH_ASK_FIRST * period;
    g->at[g->n] = *one;
    snprintf(g->at[g->n++].job, sizeof g->at[0].job, "%s", job);
}

htc_ns htc__batch_gone_due(const batch_gone *g)
{
    return g->n ? g->ask_at : HTC_NEVER;
}

void htc__batch_gone_ask(batch_gone *g, const batch_system *system, const char *user, htc_buf *words)
{
    uint64_t submission = g->at[0].submission;
    uint32_t first = g->at[0].index, last = first;
    for (uint32_t i = 0; i < g->n; i++) {
        batch_gone_one *one = &g->at[i];
        if (one->submission != submission)
            continue;
        first = one->index < first ? one->index : first;
        last = one->index > last ? one->index : last;
        one->asks++;
    }
    g->asked = submission;
    system->ask(words, user, g->at[0].job, first, last);
}

typedef struct answer {
    batch_gone *gone;
    void (*told)(void *ctx, const batch_gone_one *one, const char *how);
    void *ctx;
} answer;

static void drop(batch_gone *g, uint32_t i)
{
    memmove(&g->at[i], &g->at[i + 1], (--g->n - i) * sizeof g->at[0]);
}

static void on_end(void *ctx, const batch_end *end)
{
    answer     *a = ctx;
    batch_gone *g = a->gone;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->at[i].submission == end->submission && g->at[i].index == end->index && strcmp(g->at[i].job, end->job) == 0) {
            a->told(a->ctx, &g->at[i], end->how);
            drop(g, i);
            return;
        }
}

static int goes_before(const batch_gone *g, const batch_gone_one *one, const batch_gone_one *other)
{
    if (one->asks != other->asks)
        return one->asks < other->asks;
    return one->submission != g->asked && other->submission == g->asked;
}

/* The next question is about a job that was asked about least, and not about the same again if there is another one such. */
static void put_next_first(batch_gone *g)
{
    uint32_t next = 0;
    for (uint32_t i = 1; i < g->n; i++)
        if (goes_before(g, &g->at[i], &g->at[next]))
            next = i;
    while (next--) {
        batch_gone_one one = g->at[0];
        drop(g, 0);
        g->at[g->n++] = one;
    }
}

void htc__batch_gone_answer(batch_gone *g, const batch_system *system, const char *prefix, const char *user, int exit_code, htc_bytes printed, htc_ns now, htc_ns period,
                            void (*told)(void *ctx, const batch_gone_one *one, const char *how), void *ctx)
{
    answer a = { g, told, ctx };
    if (exit_code == 0)
        system->read_ends(printed, prefix, user, on_end, &a);
    for (uint32_t i = g->n; i-- > 0;)
        if (g->at[i].asks >= BATCH_ASKS_MAX)
            drop(g, i);
    put_next_first(g);
    g->ask_at = now + (exit_code < 0 ? BATCH_ASK_BACKOFF : BATCH_ASK_EVERY * period);
}
