/* What clients were told, held against every rule that speaks of strong keys. */
#include <stdio.h>
#include <string.h>

#include "core/codec.h"
#include "sim/scenarios/store_private.h"

/* A search is for short histories: with more operations of a key, versions alone decide. */
#define SEARCH_OPS   40
#define SEARCH_STEPS 20000

typedef htc_status (*checker)(const htc_history *history, const htc_history_rules *rules, htc_history_verdict *verdict);

static void hear(store *s, const char *rule, const htc_history_verdict *v)
{
    if (v->answer == HTC_HISTORY_BROKEN)
        htc__store_fail(s, "%s: %s", rule, v->text);
    s->report->undecided += v->answer == HTC_HISTORY_UNDECIDED;
    if (v->answer == HTC_HISTORY_UNDECIDED && s->report->undecided == 1)
        snprintf(s->undecided, sizeof s->undecided, "%s, undecided: %s", rule, v->text);
}

static size_t operations_of(const store *s, uint32_t key)
{
    size_t n = 0;
    for (size_t i = 0; i < htc_history_count(s->history); i++)
        n += htc_history_at(s->history, i)->key == key && htc_history_at(s->history, i)->kind <= HTC_HISTORY_ADD;
    return n;
}

static htc_status search(store *s, htc_history_verdict *v)
{
    htc_history_rules rules = { .size = sizeof rules, .search_max = SEARCH_STEPS, .bytes_max = (size_t)8 << 20 };
    htc_status        status = HTC_OK;
    for (uint32_t k = 0; k < htc_history_keys(s->history) && status == HTC_OK; k++)
        if (s->options.search || operations_of(s, k) <= SEARCH_OPS) {
            status = htc_history_search(s->history, k, &rules, v);
            if (v->answer == HTC_HISTORY_BROKEN)
                htc__store_fail(s, "search: %s", v->text);
        }
    return status;
}

static void say(store *s)
{
    char line[1024];
    for (size_t i = 0; s->options.history && i < htc_history_count(s->history); i++)
        if (htc_history_line(s->history, i, line, sizeof line))
            s->options.history(s->options.trace_ctx, line);
}

/* While there was trouble no majority may have been there: then nothing ends. */
static htc_status note_trouble(store *s)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = HTC_HISTORY_DOWN;
    op.outcome = HTC_HISTORY_DONE;
    op.invoked = HTC_SIM_BEGIN;
    op.returned = s->healed ? s->healed : htc_sim_now(s->sim);
    htc_status status = htc_history_key(s->history, htc_bytes_of("trouble"), &op.key);
    return status == HTC_OK ? htc_history_add(s->history, &op, NULL) : status;
}

htc_status htc__store_judge(store *s)
{
    static const struct {
        const char *name;
        checker     check;
    } rules[] = { { "linearizable", htc_history_linear },
                  { "versions rise", htc_history_rising },
                  { "leases", htc_history_leased },
                  { "watches", htc_history_watched },
                  { "nothing acknowledged is lost", htc_history_kept },
                  { "counters are exact", htc_history_counted } };
    htc_history_rules   limits = { .size = sizeof limits, .search_max = 1000000, .bytes_max = (size_t)128 << 20 };
    htc_history_verdict v = { 0 };
    limits.takeover_ns = STORE_TAKEOVER;
    limits.settle_ns = HTC_NEVER; /* that the last state has come is seen in the end (store_watchers.c) */
    htc_status status = s->leases_n ? note_trouble(s) : HTC_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && status == HTC_OK; i++) {
        if (i >= 4 && s->phase < STORE_READ)
            break; /* there are no last reads */
        if (rules[i].check == htc_history_kept && s->setting.unversioned)
            continue; /* it goes by versions. An order was searched for with the last reads in it: they lack nothing */
        status = rules[i].check(s->history, &limits, &v);
        if (status == HTC_OK)
            hear(s, rules[i].name, &v);
    }
    if (status == HTC_OK && s->setting.eventual_ppm && !s->report->failed && htc_sim_status(s->sim) == HTC_OK) {
        status = htc__store_eventual_judge(s, &v);
        if (status == HTC_OK)
            hear(s, "eventual keys", &v);
    }
    /* The slow way on a sample: both have to say the same. */
    if (status == HTC_OK && !s->report->failed && (s->options.search || s->options.seed % 8 == 0))
        status = search(s, &v);
    if (s->report->undecided && !s->report->failed)
        snprintf(s->report->text, sizeof s->report->text, "%s", s->undecided);
    say(s);
    return status;
}

/* All that the rules look at, and what they have said of it: one hash, one verdict. */
uint64_t htc__store_hash(const store *s)
{
    _Static_assert(sizeof(htc_history_op) == 6 * sizeof(uint32_t) + 7 * sizeof(uint64_t) + 3 * sizeof(htc_history_value),
                   "an operation has no padding");
    uint64_t sum = htc_sim_hash(s->sim);
    for (size_t i = 0; i < htc_history_count(s->history); i++)
        sum = htc_hash64((htc_bytes){ htc_history_at(s->history, i), sizeof(htc_history_op) }, sum);
    return htc_hash64(htc_bytes_of(s->report->text), sum + s->report->failed + s->report->undecided * 2);
}
