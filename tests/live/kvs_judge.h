/* The verdict on what clients of a real store were told: every rule of htcsched/history.h that speaks of strong keys, by versions, and the
 * search for an order, key by key, which needs no versions and knows nothing of the other way. Then the same history with one answer
 * made wrong, which both have to find: a judge who would let that pass has said nothing about the first.
 *
 * Whoever includes this says first `check`, `dir` and has a `history`. */
#ifndef HTC_TESTS_KVS_JUDGE_H
#define HTC_TESTS_KVS_JUDGE_H

#include <stdio.h>

#include "htcsched/history.h"

/* Of a key; a place takes 32 bytes. A key with few outcomes unknown needs about as many steps as it has operations. */
#define JUDGE_STEPS 1000000
#define JUDGE_BYTES ((size_t)64 << 20)
/* Where that does not decide: a slow machine has more of them. */
#define JUDGE_MORE 20

static htc_history *history;

/* For whoever wants to know why: htc_history_read reads it. */
static void keep_history(void)
{
    char  path[sizeof dir + 16], line[2048];
    FILE *f;
    snprintf(path, sizeof path, "%s/history", dir);
    if (!(f = fopen(path, "we")))
        return;
    for (size_t i = 0; i < htc_history_count(history); i++)
        if (htc_history_line(history, i, line, sizeof line))
            fprintf(f, "%s\n", line);
    fclose(f);
    fprintf(stderr, "the history is in %s\n", path);
}

static htc_history_rules judge_rules(void)
{
    return (htc_history_rules){ .size = sizeof(htc_history_rules),
                                .search_max = JUDGE_STEPS,
                                .bytes_max = JUDGE_BYTES,
                                .takeover_ns = 600 * HTC_SECOND }; /* lateness has a test of its own */
}

static void hear(const char *rule, const htc_history_verdict *v, int holds)
{
    if (!holds) {
        fprintf(stderr, "%s: %s\n", rule, v->text);
        keep_history();
    }
    check(holds, rule);
}

static void judge(const char *rule,
                  htc_status (*checker)(const htc_history *, const htc_history_rules *, htc_history_verdict *))
{
    htc_history_verdict v;
    htc_history_rules   rules = judge_rules();
    check(checker(history, &rules, &v) == HTC_OK, rule);
    if (v.answer == HTC_HISTORY_UNDECIDED) {
        rules.search_max *= JUDGE_MORE;
        rules.bytes_max *= JUDGE_MORE;
        check(checker(history, &rules, &v) == HTC_OK, rule);
    }
    /* Of what no search decides nothing is known; the other keys hold. How often a client was not answered is the machine's doing. */
    int open = v.answer == HTC_HISTORY_UNDECIDED && checker == htc_history_linear;
    if (open)
        printf("%s: %s\n", rule, v.text);
    hear(rule, &v, v.answer == HTC_HISTORY_HOLDS || open);
}

static int is_of_record(const htc_history_op *op)
{
    return op->kind >= HTC_HISTORY_GET && op->kind <= HTC_HISTORY_ADD;
}

/* Operations of each key whose value is looked at; calloc'ed. */
static uint32_t *count_operations(void)
{
    uint32_t *of = calloc(htc_history_keys(history) + 1, sizeof *of);
    check(of != NULL, "memory");
    for (size_t i = 0; i < htc_history_count(history); i++)
        of[htc_history_at(history, i)->key] += (uint32_t)is_of_record(htc_history_at(history, i));
    return of;
}

/* Beyond its bound a search says nothing: how many keys that were is printed, and one at least must have been decided. */
static void judge_by_search(void)
{
    htc_history_rules rules = judge_rules();
    uint32_t         *of = count_operations(), decided = 0, keys_used = 0;
    uint64_t          ops = 0, all = 0, steps = 0;
    for (uint32_t k = 0; k < htc_history_keys(history); k++) {
        htc_history_verdict v;
        if (of[k] == 0)
            continue;
        check(htc_history_search(history, k, &rules, &v) == HTC_OK, "the search");
        hear("an order is found by search", &v, v.answer != HTC_HISTORY_BROKEN);
        keys_used++;
        all += of[k];
        steps += v.work;
        if (v.answer == HTC_HISTORY_HOLDS) {
            decided++;
            ops += of[k];
        }
    }
    free(of);
    printf("searched: %u of %u keys decided, %llu of %llu operations, %llu steps\n", (unsigned)decided, (unsigned)keys_used,
           (unsigned long long)ops, (unsigned long long)all, (unsigned long long)steps);
    check(decided > 0, "one key at least is decided by search");
}

/* ---------------------------------------------------------------- a history that is wrong */

static int is_told(const htc_history_op *op)
{
    return op->outcome == HTC_HISTORY_DONE && op->version != 0;
}

/* A read that comes to say what was there before a change that was answered before it was asked. 0: there is none. */
static int stale_read(size_t *at, htc_history_op *wrong)
{
    for (size_t g = htc_history_count(history); g-- > 0;) {
        const htc_history_op *get = htc_history_at(history, g), *newer = NULL;
        if (get->kind != HTC_HISTORY_GET || !is_told(get))
            continue;
        for (size_t i = g; i-- > 0;) {
            const htc_history_op *op = htc_history_at(history, i);
            if (op->key != get->key || op->kind != HTC_HISTORY_ADD || !is_told(op))
                continue;
            if (!newer && op->returned < get->invoked)
                newer = op;
            else if (newer && op->returned < newer->invoked && op->version < newer->version) {
                char text[24];
                snprintf(text, sizeof text, "%lld", (long long)op->number);
                *at = g;
                *wrong = *get;
                wrong->version = op->version;
                wrong->observed = htc_history_value_of(htc_bytes_of(text));
                return 1;
            }
        }
    }
    return 0;
}

/* An addition that comes to have been answered with one too many. */
static int off_by_one(size_t *at, htc_history_op *wrong)
{
    for (size_t i = htc_history_count(history); i-- > 0;)
        if (htc_history_at(history, i)->kind == HTC_HISTORY_ADD && is_told(htc_history_at(history, i))) {
            *at = i;
            *wrong = *htc_history_at(history, i);
            wrong->number++;
            return 1;
        }
    return 0;
}

static htc_history *copy_with(size_t at, const htc_history_op *wrong)
{
    htc_history *copy;
    uint32_t     key;
    check(htc_history_create(NULL, NULL, &copy) == HTC_OK, "a history");
    for (uint32_t k = 0; k < htc_history_keys(history); k++)
        check(htc_history_key(copy, htc_history_key_bytes(history, k), &key) == HTC_OK && key == k, "a key");
    for (size_t i = 0; i < htc_history_count(history); i++)
        check(htc_history_add(copy, i == at ? wrong : htc_history_at(history, i), NULL) == HTC_OK, "an operation");
    return copy;
}

static void judge_the_wrong(const char *what, int (*make)(size_t *, htc_history_op *))
{
    htc_history_rules   rules = judge_rules();
    htc_history_verdict v;
    htc_history_op      wrong;
    size_t              at;
    char                line[600];
    check(make(&at, &wrong), what);
    htc_history *copy = copy_with(at, &wrong);
    snprintf(line, sizeof line, "%s is found by versions", what);
    check(htc_history_linear(copy, &rules, &v) == HTC_OK && v.answer == HTC_HISTORY_BROKEN && v.key == wrong.key, line);
    /* Out of many unknown outcomes it may not come to an end; but it finds no order. */
    snprintf(line, sizeof line, "%s is found by search", what);
    check(htc_history_search(copy, wrong.key, &rules, &v) == HTC_OK && v.answer != HTC_HISTORY_HOLDS, line);
    printf("%s: %s by search\n", what, v.answer == HTC_HISTORY_BROKEN ? "found" : "no order found");
    htc_history_destroy(copy);
}

/* ---------------------------------------------------------------- all of it */

static void judge_all(void)
{
    judge("linearizable", htc_history_linear);
    judge("versions rise", htc_history_rising);
    judge("nothing acknowledged is lost", htc_history_kept);
    judge("no counter is off", htc_history_counted);
    judge("no lease ended early or came back", htc_history_leased);
    judge_by_search();
    judge_the_wrong("a stale read", stale_read);
    judge_the_wrong("a counter that is off by one", off_by_one);
}

#endif
