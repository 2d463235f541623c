/* What a member's log tells an operator of the others: lib/kvs/replica/member_log.c. */
#include "cluster_world.h"
#include "kvs/storage/batch.h"

static world        w;
static const faults calm;

typedef struct last_line {
    uint32_t lines, level;
    uint64_t member, silent_ms, away_ms, waiting; /* of the newest line; UINT64_MAX: it has no such value */
} last_line;

static uint64_t value_of(const htc_log_field *field, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(field[i].name, name) == 0)
            return field[i].number;
    return UINT64_MAX;
}

static void keep_fields(void *ctx, uint32_t level, const char *line, const htc_log_field *field, size_t n)
{
    last_line *t = ctx;
    if (getenv("HTC_TEST_TRACE"))
        fprintf(stderr, "%.6f %s\n", (double)w.now / 1e9, line);
    *t = (last_line){ .lines = t->lines + 1,
                 .level = level,
                 .member = value_of(field, n, "member"),
                 .silent_ms = value_of(field, n, "silent_ms"),
                 .away_ms = value_of(field, n, "away_ms"),
                 .waiting = value_of(field, n, "buckets_waiting") };
}

static void keep_line(void *ctx, uint32_t level, const char *line)
{
    keep_fields(ctx, level, line, NULL, 0);
}

/* Each silence and each return is one line, and says when keys have too few owners left. */
Test(kvs_told, silence_and_return_are_told_once)
{
    last_line          t = { 0 };
    htc_log_structured log = { { keep_line, &t, HTC_LOG_INFO | HTC_LOG_FIELDS }, keep_fields };
    open_world(&w, 7, 3, calm);
    w.env.log = &log.log;
    crash(&w, 0, HTC_MS); /* the one that is to speak */
    run_until(&w, w.now + HTC_SECOND);
    cr_assert(t.lines == 2 && t.level == HTC_LOG_INFO && t.away_ms == 0, "%u lines: the two others are here", t.lines);
    crash(&w, 1, HTC_NEVER);
    run_until(&w, w.now + HTC_SECOND);
    cr_assert(t.lines == 3 && t.level == HTC_LOG_WARN, "%u lines", t.lines);
    cr_expect(t.member == w.members[1].id && t.silent_ms <= 100 && t.waiting == 0);
    crash(&w, 2, HTC_NEVER);
    run_until(&w, w.now + HTC_SECOND);
    cr_assert(t.lines == 4 && t.level == HTC_LOG_WARN, "%u lines", t.lines);
    cr_expect(t.member == w.members[2].id && t.waiting == 16);
    w.env.log = NULL; /* of those that start from here on */
    w.node[1].down_until = w.now;
    run_until(&w, w.now + HTC_SECOND);
    cr_assert(t.lines == 5 && t.level == HTC_LOG_INFO, "%u lines", t.lines);
    cr_expect(t.member == w.members[1].id && t.away_ms >= 1900 && t.away_ms <= 2100, "%llu ms", (unsigned long long)t.away_ms);
    close_world(&w);
}

/* Overwrite what the engine has under that name with bytes that no seal fits. */
static void damage(int n, const char *name)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, htc_bytes_of(name), htc_bytes_of("what was here is lost"));
    cr_assert(eq(int, w.node[n].engine.ops->apply(w.node[n].engine.ctx, htc_buf_bytes(&b)), HTC_OK));
    htc_buf_free(&b);
}

/* One owner's copy of each key is damaged: the others answer for it, and the member says so once of each bucket. */
Test(kvs_told, a_damaged_copy_is_left_to_the_others)
{
    static const char *const names[] = { "kone", "ktwo", "kthree" };
    last_line                t = { 0 };
    htc_log_structured       log = { { keep_line, &t, HTC_LOG_ERROR | HTC_LOG_FIELDS }, keep_fields };
    open_world(&w, 8, 3, calm);
    run(&w, 20, w.now + 20 * HTC_SECOND);
    cr_assert(eq(int, w.done, 20));
    w.env.log = &log.log;
    crash(&w, 0, HTC_MS);
    for (size_t i = 0; i < 3; i++)
        damage(0, names[i]);
    run_until(&w, w.now + HTC_SECOND);
    run(&w, 60, w.now + 60 * HTC_SECOND);
    cr_expect(w.answered == w.asked && w.done >= 58, "%d of %d", w.done, w.asked);
    cr_expect(t.lines >= 1 && t.lines <= 3 && t.level == HTC_LOG_ERROR, "%u lines", t.lines);
    judge(&w);
    close_world(&w);
}
