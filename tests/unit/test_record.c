/* Resource records: every change against a list of what each node is, the life of a taking, sizes, wrong use, short
 * memory. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/record.h"
#include "property.h"

static htc_bytes job(const char *name)
{
    return htc_bytes_of(name);
}

static htc_record_set *new_set(void)
{
    htc_record_set *set = NULL;
    cr_assert(htc_record_set_create(NULL, &set) == HTC_OK);
    return set;
}

static htc_record_set *range_of(uint32_t first, uint32_t count)
{
    htc_record_set *set = new_set();
    cr_assert(htc_record_set_add(set, first, count) == HTC_OK);
    return set;
}

static htc_record_ask ask_for(const char *name, uint64_t attempt, uint32_t least, uint32_t most)
{
    htc_record_ask ask = HTC_RECORD_ASK_INIT;
    ask.job = job(name);
    ask.attempt = attempt;
    ask.least = least;
    ask.most = most;
    return ask;
}

/* The result of a change in place of the record it was made from. */
static void replace(htc_bytes *record, htc_bytes next)
{
    htc_record_free(NULL, *record);
    *record = next;
}

static htc_record_summary count(htc_bytes record)
{
    htc_record_summary s = { 0 };
    cr_assert(eq(int, htc_record_count(NULL, record, &s), HTC_OK));
    return s;
}

/* ---- Sets ---- */

#define MODEL_NODES 200

static void check_set(const htc_record_set *set, const uint8_t *model)
{
    uint32_t n = 0, runs = 0, listed = 0;
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        HOLDS(htc_record_set_has(set, i) == model[i]);
        n += model[i];
        runs += model[i] && (i == 0 || !model[i - 1]);
    }
    HOLDS(htc_record_set_count(set) == n);
    for (uint32_t first, count, at = 0; htc_record_set_run(set, at, &first, &count) == HTC_OK; at = first + count) {
        HOLDS(count > 0 && first >= at && (listed == 0 || first > at));
        for (uint32_t i = 0; i < count; i++)
            HOLDS(model[first + i]);
        n -= count;
        listed++;
    }
    HOLDS(n == 0 && listed == runs);
}

static void check_written(const htc_record_set *set)
{
    htc_record_set *again = new_set();
    htc_bytes       bytes, twice;
    HOLDS(htc_record_set_add(again, 7, 3) == HTC_OK);
    HOLDS(htc_record_set_write(NULL, set, &bytes) == HTC_OK);
    HOLDS(htc_record_set_read(bytes, again) == HTC_OK);
    HOLDS(htc_record_set_equal(set, again));
    HOLDS(htc_record_set_write(NULL, again, &twice) == HTC_OK);
    HOLDS(htc_bytes_equal(bytes, twice), "equal sets, equal bytes");
    htc_record_free(NULL, bytes);
    htc_record_free(NULL, twice);
    htc_record_set_destroy(again);
}

/* Every operation against an array that has a place for each number. */
Test(record, sets_agree_with_an_array)
{
    PROPERTY(rng, 1500)
    {
        htc_record_set *sets[2] = { new_set(), new_set() };
        uint8_t         model[2][MODEL_NODES] = { { 0 } };
        for (int step = 0; step < 24; step++) {
            size_t   k = htc_rng_below(&rng, 2);
            uint32_t first = (uint32_t)htc_rng_below(&rng, MODEL_NODES);
            uint32_t n = (uint32_t)htc_rng_below(&rng, htc_rng_below(&rng, 2) ? 4 : MODEL_NODES - first + 1);
            n = n > MODEL_NODES - first ? MODEL_NODES - first : n;
            switch (htc_rng_below(&rng, 6)) {
            case 0:
            case 1:
                HOLDS(htc_record_set_add(sets[k], first, n) == HTC_OK);
                memset(model[k] + first, 1, n);
                break;
            case 2:
                HOLDS(htc_record_set_remove(sets[k], first, n) == HTC_OK);
                memset(model[k] + first, 0, n);
                break;
            case 3:
                HOLDS(htc_record_set_join(sets[k], sets[1 - k]) == HTC_OK);
                for (int i = 0; i < MODEL_NODES; i++)
                    model[k][i] |= model[1 - k][i];
                break;
            case 4:
                HOLDS(htc_record_set_subtract(sets[k], sets[1 - k]) == HTC_OK);
                for (int i = 0; i < MODEL_NODES; i++)
                    model[k][i] &= !model[1 - k][i];
                break;
            default:
                HOLDS(htc_record_set_intersect(sets[k], sets[1 - k]) == HTC_OK);
                for (int i = 0; i < MODEL_NODES; i++)
                    model[k][i] &= model[1 - k][i];
            }
            check_set(sets[k], model[k]);
            HOLDS(htc_record_set_equal(sets[0], sets[1]) == (memcmp(model[0], model[1], MODEL_NODES) == 0));
        }
        check_written(sets[0]);
        check_written(sets[1]);
        htc_record_set_destroy(sets[0]);
        htc_record_set_destroy(sets[1]);
    }
}

Test(record, a_set_joined_with_itself_stays)
{
    htc_record_set *set = range_of(100, 1000);
    cr_expect(eq(int, htc_record_set_join(set, set), HTC_OK));
    cr_expect(eq(int, htc_record_set_intersect(set, set), HTC_OK));
    cr_expect(eq(u32, htc_record_set_count(set), 1000));
    cr_expect(eq(int, htc_record_set_subtract(set, set), HTC_OK));
    cr_expect(eq(u32, htc_record_set_count(set), 0));
    htc_record_set_destroy(set);
}

/* What is written is the same for ever: records outlive the library that wrote them. */
Test(record, sets_are_written_as_documented)
{
    static const struct {
        uint32_t runs[8][2];
        size_t   len;
        uint8_t  bytes[16];
    } table[] = {
        { { { 0 } }, 1, { 0 } },
        { { { 0, 1 } }, 3, { 1 << 1 | 1, 0, 0x01 } },
        { { { 2, 3 } }, 3, { 1 << 1 | 1, 0, 0x1c } },
        { { { 0, 1 }, { 9, 1 } }, 4, { 2 << 1 | 1, 0, 0x01, 0x02 } },
        { { { 64, 1 } }, 3, { 1 << 1 | 1, 1, 0x01 } },
        { { { 60, 8 } }, 3, { 1 << 1, 60, 8 } }, /* 9 bytes of bits: one range is shorter */
        { { { 0, 25 } }, 3, { 1 << 1, 0, 25 } }, /* 4 bytes: a range from here on */
        { { { 0, 24 } }, 5, { 3 << 1 | 1, 0, 255, 255, 255 } },
        { { { 0, 65536 } }, 5, { 1 << 1, 0, 0x80, 0x80, 4 } },
        { { { 0, 1 }, { 60, 4 } }, 5, { 2 << 1, 0, 1, 59, 4 } },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_set *set = new_set();
        htc_bytes       bytes;
        for (int k = 0; k < 8; k++)
            cr_assert(eq(int, htc_record_set_add(set, table[i].runs[k][0], table[i].runs[k][1]), HTC_OK));
        cr_assert(eq(int, htc_record_set_write(NULL, set, &bytes), HTC_OK));
        cr_expect(htc_bytes_equal(bytes, (htc_bytes){ table[i].bytes, table[i].len }), "row %zu: %zu bytes", i,
                  bytes.len);
        htc_record_free(NULL, bytes);
        htc_record_set_destroy(set);
    }
}

/* Two forms of one set would make two records of one state, and a compare-and-swap by value fail for nothing. */
Test(record, other_forms_of_a_set_are_refused)
{
    static const struct {
        const char *what;
        size_t      len;
        uint8_t     bytes[16];
    } table[] = {
        { "nothing", 0, { 0 } },
        { "no ranges", 1, { 1 } },
        { "bits without bits", 2, { 1, 0 } },
        { "a range where bits are shorter", 3, { 1 << 1, 0, 1 } },
        { "bits where ranges are shorter", 10, { 8 << 1 | 1, 0, 255, 255, 255, 255, 255, 255, 255, 255 } },
        { "bits that end in a zero byte", 4, { 2 << 1 | 1, 0, 1, 0 } },
        { "bits that begin with eight zero bytes", 11, { 9 << 1 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x55 } },
        { "two ranges that are one", 5, { 2 << 1, 0, 30, 0, 34 } },
        { "an empty range", 5, { 2 << 1, 0, 1, 62, 0 } },
        { "a range too far", 7, { 1 << 1, 0xff, 0xff, 0x3f, 0xff, 0xff, 0x3f } },
        { "a range that wraps", 12, { 1 << 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 } },
        { "bits too far", 5, { 1 << 1 | 1, 0x80, 0x80, 0x01, 1 } },
        { "more bits than bytes", 4, { 8 << 1 | 1, 0, 1, 1 } },
        { "a long form of a number", 4, { 1 << 1 | 1, 0x80, 0, 1 } },
        { "a byte too many", 4, { 1 << 1 | 1, 0, 1, 0 } },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_set *set = range_of(3, 4), *before = range_of(3, 4);
        htc_status      status = htc_record_set_read((htc_bytes){ table[i].bytes, table[i].len }, set);
        cr_expect(eq(int, status, HTC_ECORRUPT), "%s", table[i].what);
        cr_expect(htc_record_set_equal(set, before), "%s: as it was", table[i].what);
        htc_record_set_destroy(set);
        htc_record_set_destroy(before);
    }
}

static void fragment(htc_rng *rng, htc_record_set *set, uint32_t nodes, uint64_t up_to)
{
    for (uint32_t at = (uint32_t)htc_rng_below(rng, up_to); at < nodes;) {
        uint32_t n = 1 + (uint32_t)htc_rng_below(rng, up_to);
        n = n > nodes - at ? nodes - at : n;
        cr_assert(htc_record_set_add(set, at, n) == HTC_OK);
        at += n + 1 + (uint32_t)htc_rng_below(rng, up_to);
    }
}

/* The promise of the header: 65,536 nodes, however fragmented, in 8 KiB and 64 bytes. Lengths and gaps are drawn up to
 * every scale from 1 (every second node) to all nodes, where the form changes in between. */
Test(record, stays_small_however_fragmented)
{
    size_t most = 0;
    PROPERTY(rng, 400)
    {
        htc_record_set *set = new_set();
        htc_bytes       record, next, alone;
        fragment(&rng, set, 65536, UINT64_C(1) << property_seed % 17);
        HOLDS(htc_record_create(NULL, 65536, UINT64_MAX, &record) == HTC_OK);
        HOLDS(record.len <= 64, "all free: %zu bytes", record.len);
        htc_record_ask ask = ask_for("a", 1, 0, htc_record_set_count(set));
        ask.among = set;
        HOLDS(htc_record_take(NULL, record, &ask, &next, NULL) == HTC_OK);
        replace(&record, next);
        HOLDS(htc_record_settle(NULL, record, job("a"), 1, &next) == HTC_OK);
        replace(&record, next);
        HOLDS(record.len <= 8192 + 64, "%zu bytes", record.len);
        HOLDS(htc_record_set_write(NULL, set, &alone) == HTC_OK);
        HOLDS(alone.len <= 8192 + 16, "%zu bytes", alone.len);
        most = record.len > most ? record.len : most;
        htc_record_free(NULL, alone);
        htc_record_free(NULL, record);
        htc_record_set_destroy(set);
    }
    cr_expect(most > 8000 || getenv("HTC_TEST_SEED"), "the worst cases were among them");
}

/* ---- Records ---- */

Test(record, a_taking_lives_as_the_header_says)
{
    htc_record_set *got = new_set(), *want = range_of(0, 3);
    htc_bytes       record, next;
    cr_assert(eq(int, htc_record_create(NULL, 8, 4, &record), HTC_OK));
    htc_record_ask ask = ask_for("mpi-7", 2, 0, 3);

    cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, got), HTC_OK));
    replace(&record, next);
    cr_expect(htc_record_set_equal(got, want), "lowest numbers first");
    htc_record_summary s = count(record);
    cr_expect(s.nodes == 8 && s.free == 5 && s.taken == 3 && s.takings == 1 && s.settled == 0 && s.list == 4);

    htc_record_taking t;
    cr_assert(eq(int, htc_record_taking_at(NULL, record, 0, &t, got), HTC_OK));
    cr_expect(htc_bytes_equal(t.job, job("mpi-7")) && t.attempt == 2 && t.nodes == 3);
    cr_expect(htc_record_set_equal(got, want));
    cr_expect(eq(int, htc_record_taking_at(NULL, record, 1, &t, NULL), HTC_ENOTFOUND));

    cr_assert(eq(int, htc_record_settle(NULL, record, job("mpi-7"), 2, &next), HTC_OK));
    replace(&record, next);
    s = count(record);
    cr_expect(s.free == 5 && s.taken == 0 && s.takings == 0 && s.settled == 3);
    cr_expect(eq(int, htc_record_settle(NULL, record, job("mpi-7"), 2, &next), HTC_ENOTFOUND), "overtaken");

    cr_assert(eq(int, htc_record_unsettle(NULL, record, job("mpi-7"), 2, got, &next), HTC_OK));
    replace(&record, next);
    cr_assert(eq(int, htc_record_unsettle(NULL, record, job("mpi-7"), 2, got, &next), HTC_OK), "after a crash: again");
    cr_expect(htc_bytes_equal(record, next));
    replace(&record, next);
    cr_expect(eq(int, htc_record_give(NULL, record, got, &next), HTC_MISMATCH), "in a taking");
    htc_record_set_clear(got);
    cr_assert(eq(int, htc_record_release(NULL, record, job("mpi-7"), 2, &next, got), HTC_OK));
    replace(&record, next);
    cr_expect(htc_record_set_equal(got, want));
    cr_expect(eq(u32, count(record).free, 8));
    cr_expect(eq(int, htc_record_release(NULL, record, job("mpi-7"), 2, &next, got), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_give(NULL, record, got, &next), HTC_MISMATCH), "given back twice");
    htc_record_free(NULL, record);
    htc_record_set_destroy(got);
    htc_record_set_destroy(want);
}

/* min(missing, free), or all or nothing (Algorithms 4 and 5). */
Test(record, takes_as_many_as_there_are_but_no_fewer_than_least)
{
    static const struct {
        uint32_t   least, most;
        htc_status status;
        uint32_t   taken;
    } table[] = {
        { 0, 10, HTC_OK, 10 },  { 0, 11, HTC_AGAIN, 0 },  { 1, 11, HTC_OK, 10 },
        { 10, 40, HTC_OK, 10 }, { 11, 40, HTC_AGAIN, 0 }, { 1, UINT32_MAX, HTC_OK, 10 },
    };
    htc_bytes record, next;
    cr_assert(eq(int, htc_record_create(NULL, 10, 0, &record), HTC_OK));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_set *got = new_set();
        htc_record_ask  ask = ask_for("a", 1, table[i].least, table[i].most);
        htc_status      status = htc_record_take(NULL, record, &ask, &next, got);
        cr_expect(eq(int, status, table[i].status), "row %zu", i);
        cr_expect(eq(u32, htc_record_set_count(got), table[i].taken), "row %zu", i);
        if (status == HTC_OK)
            htc_record_free(NULL, next);
        htc_record_set_destroy(got);
    }
    htc_record_free(NULL, record);
}

/* "Its name leaves the record until it returns" (spec, section 4), also when it died under a job that gives it back
 * later. */
Test(record, a_node_that_is_down_is_taken_by_nobody)
{
    htc_record_set *got = new_set(), *dead = range_of(1, 2);
    htc_bytes       record, next;
    cr_assert(eq(int, htc_record_create(NULL, 4, 0, &record), HTC_OK));
    htc_record_ask ask = ask_for("a", 1, 0, 2);
    cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, NULL), HTC_OK)); /* 0 and 1 */
    replace(&record, next);
    cr_assert(eq(int, htc_record_down(NULL, record, dead, &next), HTC_OK)); /* 1 and 2 */
    replace(&record, next);
    cr_expect(eq(u32, count(record).free, 1));
    cr_expect(eq(u32, count(record).down, 2));
    cr_assert(eq(int, htc_record_release(NULL, record, job("a"), 1, &next, got), HTC_OK));
    replace(&record, next);
    cr_expect(eq(u32, count(record).free, 2), "1 died while it was held");
    ask = ask_for("b", 1, 1, 4);
    cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, got), HTC_OK));
    replace(&record, next);
    cr_expect(htc_record_set_has(got, 0) && htc_record_set_has(got, 3) && htc_record_set_count(got) == 2);
    cr_assert(eq(int, htc_record_up(NULL, record, dead, &next), HTC_OK));
    replace(&record, next);
    cr_assert(eq(int, htc_record_nodes(NULL, record, HTC_RECORD_FREE, got), HTC_OK));
    cr_expect(htc_record_set_equal(got, dead));
    htc_record_free(NULL, record);
    htc_record_set_destroy(got);
    htc_record_set_destroy(dead);
}

Test(record, a_later_attempt_ends_the_earlier_ones)
{
    htc_bytes record, next;
    cr_assert(eq(int, htc_record_create(NULL, 100, 0, &record), HTC_OK));
    const struct {
        const char *job;
        uint64_t    attempt;
        htc_status  status;
    } table[] = { { "b", 5, HTC_OK },  { "b", 4, HTC_MISMATCH }, { "b", 5, HTC_OK },       { "a", 1, HTC_OK },
                  { "ba", 1, HTC_OK }, { "b", 6, HTC_OK },       { "b", 5, HTC_MISMATCH }, { "c", 1, HTC_OK } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_ask ask = ask_for(table[i].job, table[i].attempt, 0, 2);
        htc_status     status = htc_record_take(NULL, record, &ask, &next, NULL);
        cr_expect(eq(int, status, table[i].status), "row %zu", i);
        if (status == HTC_OK)
            replace(&record, next);
    }
    cr_expect(eq(u32, count(record).takings, 5));
    cr_expect(eq(u32, count(record).taken, 12));
    htc_record_free(NULL, record);
}

/* The table of the header: what the sweeper reads in the job's record decides, never how long it waited. */
Test(record, a_sweeper_tells_an_orphan_from_a_slow_controller)
{
    static const struct {
        const char *what;
        uint64_t    attempt, job_attempt;
        uint32_t    job, verdict;
    } table[] = {
        { "no such job: it was deleted after its end", 1, 0, HTC_RECORD_JOB_GONE, HTC_RECORD_RELEASE },
        { "whatever attempt it had", 1, 1, HTC_RECORD_JOB_GONE, HTC_RECORD_RELEASE },
        { "requeued", 1, 2, HTC_RECORD_JOB_WAITING, HTC_RECORD_RELEASE },
        { "the next attempt was faster", 1, 2, HTC_RECORD_JOB_COMMITTED, HTC_RECORD_RELEASE },
        { "and has ended", 1, 2, HTC_RECORD_JOB_ENDED, HTC_RECORD_RELEASE },
        { "at work, or slow", 2, 2, HTC_RECORD_JOB_WAITING, HTC_RECORD_WAIT },
        { "died before it settled", 2, 2, HTC_RECORD_JOB_COMMITTED, HTC_RECORD_SETTLE },
        { "died on the way back", 2, 2, HTC_RECORD_JOB_ENDED, HTC_RECORD_GO_BACK },
        { "an old answer about the job: ask again", 3, 2, HTC_RECORD_JOB_ENDED, HTC_RECORD_WAIT },
        { "no state of a job", 3, 3, 77, HTC_RECORD_WAIT },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect(eq(u32, htc_record_judge(table[i].attempt, table[i].job_attempt, table[i].job), table[i].verdict),
                  "%s", table[i].what);
}

Test(record, grows_at_the_end_of_its_list)
{
    htc_record_set *got = new_set(), *want = range_of(60, 70);
    htc_bytes       record, next;
    cr_assert(eq(int, htc_record_create(NULL, 60, 1, &record), HTC_OK));
    htc_record_ask ask = ask_for("a", 1, 0, 60);
    cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, NULL), HTC_OK));
    replace(&record, next);
    cr_expect(eq(int, htc_record_grow(NULL, record, 59, 2, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_grow(NULL, record, HTC_RECORD_NODES_MAX + 1, 2, &next), HTC_EINVAL));
    cr_assert(eq(int, htc_record_grow(NULL, record, 130, 2, &next), HTC_OK));
    replace(&record, next);
    cr_assert(eq(int, htc_record_nodes(NULL, record, HTC_RECORD_FREE, got), HTC_OK));
    cr_expect(htc_record_set_equal(got, want));
    cr_expect(count(record).list == 2 && count(record).nodes == 130);
    htc_record_free(NULL, record);
    htc_record_set_destroy(got);
    htc_record_set_destroy(want);
}

Test(record, is_full_at_its_limit)
{
    htc_record_set *got = new_set();
    htc_bytes       record, next;
    char            name[16];
    cr_assert(eq(int, htc_record_create(NULL, HTC_RECORD_TAKINGS_MAX + 10, 0, &record), HTC_OK));
    for (int i = 0; i < HTC_RECORD_TAKINGS_MAX; i++) {
        snprintf(name, sizeof name, "j%d", i);
        htc_record_ask ask = ask_for(name, 1, 0, 1);
        cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, NULL), HTC_OK));
        replace(&record, next);
    }
    htc_record_ask more = ask_for("one-more", 1, 0, 1), same = ask_for("j7", 1, 0, 1);
    cr_expect(eq(int, htc_record_take(NULL, record, &more, &next, got), HTC_EFULL));
    cr_assert(eq(int, htc_record_take(NULL, record, &same, &next, got), HTC_OK), "a taking that is there may grow");
    htc_record_free(NULL, next);
    htc_record_free(NULL, record);
    htc_record_set_destroy(got);
}

/* ---- Against a model: what each node is, and nothing else ---- */

enum { NODES = 150, JOBS = 5, ATTEMPTS = 3, IDLE = 0, SETTLED = 1, TAKEN = 2 /* and 3 * job + attempt - 1 */ };

typedef struct model {
    int     state[NODES];
    uint8_t down[NODES];
} model;

static char job_names[JOBS][2] = { "a", "b", "c", "d", "e" };

static int taken_by(uint32_t j, uint64_t attempt)
{
    return TAKEN + (int)(3 * j + attempt - 1);
}

static void check_model(const model *m, htc_bytes record)
{
    htc_record_summary s = { 0 }, want = { .nodes = NODES, .list = 9 };
    htc_record_set    *set = new_set();
    htc_record_taking  t;
    uint32_t           listed = 0;
    for (int i = 0; i < NODES; i++) {
        want.free += m->state[i] == IDLE && !m->down[i];
        want.down += m->down[i];
        want.settled += m->state[i] == SETTLED;
        want.taken += m->state[i] >= TAKEN;
    }
    for (uint32_t j = 0; j < JOBS; j++)
        for (uint64_t a = 1; a <= ATTEMPTS; a++) {
            uint32_t n = 0;
            for (int i = 0; i < NODES; i++)
                n += m->state[i] == taken_by(j, a);
            if (n == 0)
                continue;
            HOLDS(htc_record_taking_at(NULL, record, listed++, &t, set) == HTC_OK);
            HOLDS(t.nodes == n && t.attempt == a && htc_bytes_equal(t.job, job(job_names[j])));
            HOLDS(htc_record_set_count(set) == n);
            for (uint32_t i = 0; i < NODES; i++)
                HOLDS(htc_record_set_has(set, i) == (m->state[i] == taken_by(j, a)));
        }
    HOLDS(htc_record_taking_at(NULL, record, listed, &t, set) == HTC_ENOTFOUND);
    want.takings = listed;
    HOLDS(htc_record_count(NULL, record, &s) == HTC_OK);
    HOLDS(memcmp(&s, &want, sizeof s) == 0);
    for (uint32_t part = HTC_RECORD_FREE; part <= HTC_RECORD_SETTLED; part++) {
        HOLDS(htc_record_nodes(NULL, record, part, set) == HTC_OK);
        for (uint32_t i = 0; i < NODES + 64; i++) {
            int is = i < NODES && (part == HTC_RECORD_FREE      ? m->state[i] == IDLE && !m->down[i]
                                   : part == HTC_RECORD_IDLE    ? m->state[i] == IDLE
                                   : part == HTC_RECORD_DOWN    ? m->down[i]
                                   : part == HTC_RECORD_SETTLED ? m->state[i] == SETTLED
                                                                : m->state[i] >= TAKEN);
            HOLDS(htc_record_set_has(set, i) == is);
        }
    }
    htc_record_set_destroy(set);
}

static htc_status model_take(model *m, uint32_t j, uint64_t attempt, const htc_record_ask *ask, htc_record_set *got)
{
    uint32_t n = 0;
    for (int i = 0; i < NODES; i++)
        if (m->state[i] >= taken_by(j, attempt + 1) && m->state[i] <= taken_by(j, ATTEMPTS))
            return HTC_MISMATCH;
    for (uint32_t i = 0; i < NODES; i++)
        n += m->state[i] == IDLE && !m->down[i] && (!ask->among || htc_record_set_has(ask->among, i));
    if (n < (ask->least ? ask->least : ask->most))
        return HTC_AGAIN;
    uint32_t left = ask->most;
    for (uint32_t i = 0; i < NODES && left > 0; i++)
        if (m->state[i] == IDLE && !m->down[i] && (!ask->among || htc_record_set_has(ask->among, i))) {
            m->state[i] = taken_by(j, attempt);
            HOLDS(htc_record_set_add(got, i, 1) == HTC_OK);
            left--;
        }
    return HTC_OK;
}

/* Nodes from one state to another; how many there were. */
static uint32_t model_move(model *m, int from, int to, htc_record_set *got)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (m->state[i] == from) {
            m->state[i] = to;
            n++;
            HOLDS(got == NULL || htc_record_set_add(got, i, 1) == HTC_OK);
        }
    return n;
}

static int model_all(const model *m, const htc_record_set *set, int state)
{
    for (uint32_t i = 0; i < NODES; i++)
        if (htc_record_set_has(set, i) && m->state[i] != state)
            return 0;
    return 1;
}

static htc_status model_unsettle(model *m, uint32_t j, uint64_t attempt, const htc_record_set *set)
{
    int there = 0, same = 1;
    for (uint32_t i = 0; i < NODES; i++) {
        if (m->state[i] > taken_by(j, attempt) && m->state[i] <= taken_by(j, ATTEMPTS))
            return HTC_MISMATCH;
        there |= m->state[i] == taken_by(j, attempt);
        same &= (m->state[i] == taken_by(j, attempt)) == htc_record_set_has(set, i);
    }
    if (there)
        return same ? HTC_OK : HTC_MISMATCH;
    if (!model_all(m, set, SETTLED))
        return HTC_MISMATCH;
    for (uint32_t i = 0; i < NODES; i++)
        if (htc_record_set_has(set, i))
            m->state[i] = taken_by(j, attempt);
    return HTC_OK;
}

static htc_status model_step(htc_rng *rng, model *m, htc_bytes record, htc_bytes *next, htc_status *got_status)
{
    uint32_t        j = (uint32_t)htc_rng_below(rng, JOBS);
    uint64_t        attempt = 1 + htc_rng_below(rng, ATTEMPTS);
    htc_record_set *set = new_set(), *got = new_set(), *want = new_set();
    htc_status      expected = HTC_OK, status;
    fragment(rng, set, NODES, 1 + htc_rng_below(rng, 60));
    switch (htc_rng_below(rng, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: {
        htc_record_ask ask = ask_for(job_names[j], attempt, 0, 1 + (uint32_t)htc_rng_below(rng, 40));
        ask.least = (uint32_t)htc_rng_below(rng, ask.most + 1);
        ask.among = htc_rng_below(rng, 2) ? set : NULL;
        status = htc_record_take(NULL, record, &ask, next, got);
        expected = model_take(m, j, attempt, &ask, want);
        break;
    }
    case 4:
        status = htc_record_settle(NULL, record, job(job_names[j]), attempt, next);
        expected = model_move(m, taken_by(j, attempt), SETTLED, NULL) ? HTC_OK : HTC_ENOTFOUND;
        break;
    case 5:
        status = htc_record_release(NULL, record, job(job_names[j]), attempt, next, got);
        expected = model_move(m, taken_by(j, attempt), IDLE, want) ? HTC_OK : HTC_ENOTFOUND;
        break;
    case 6:
    case 7: {
        /* Mostly what is settled, so that it succeeds at times. */
        htc_record_set *settled = new_set();
        HOLDS(htc_record_nodes(NULL, record, HTC_RECORD_SETTLED, settled) == HTC_OK);
        if (htc_rng_below(rng, 4))
            htc_record_set_intersect(set, settled);
        htc_record_set_destroy(settled);
        if (htc_rng_below(rng, 2)) {
            status = htc_record_give(NULL, record, set, next);
            expected = model_all(m, set, SETTLED) ? HTC_OK : HTC_MISMATCH;
            for (uint32_t i = 0; i < NODES && expected == HTC_OK; i++)
                if (htc_record_set_has(set, i))
                    m->state[i] = IDLE;
        } else {
            status = htc_record_unsettle(NULL, record, job(job_names[j]), attempt, set, next);
            expected = htc_record_set_count(set) ? model_unsettle(m, j, attempt, set) : HTC_EINVAL;
        }
        break;
    }
    case 8:
        status = htc_record_down(NULL, record, set, next);
        for (uint32_t i = 0; i < NODES; i++)
            m->down[i] |= htc_record_set_has(set, i);
        break;
    default:
        status = htc_record_up(NULL, record, set, next);
        for (uint32_t i = 0; i < NODES; i++)
            m->down[i] &= !htc_record_set_has(set, i);
    }
    HOLDS(htc_record_set_equal(got, want));
    htc_record_set_destroy(set);
    htc_record_set_destroy(got);
    htc_record_set_destroy(want);
    *got_status = status;
    return expected;
}

Test(record, agrees_with_a_list_of_what_each_node_is)
{
    PROPERTY(rng, 1200)
    {
        model     m = { { 0 }, { 0 } };
        htc_bytes record, next;
        HOLDS(htc_record_create(NULL, NODES, 9, &record) == HTC_OK);
        for (int step = 0; step < 40; step++) {
            htc_status status, expected = model_step(&rng, &m, record, &next, &status);
            HOLDS(status == expected, "step %d: %s, expected %s", step, htc_status_name(status),
                  htc_status_name(expected));
            if (status == HTC_OK)
                replace(&record, next);
            if (step % 8 == 7)
                check_model(&m, record);
        }
        htc_record_free(NULL, record);
    }
}

/* A damaged record is refused, or it is another record: never anything that is neither. */
Test(record, damaged_bytes_are_refused_or_are_a_record)
{
    uint32_t refused = 0;
    PROPERTY_ALL(rng, 3000)
    {
        htc_record_set *set = new_set();
        htc_bytes       record, next;
        fragment(&rng, set, 100, 1 + htc_rng_below(&rng, 30));
        HOLDS(htc_record_create(NULL, 100, 3, &record) == HTC_OK);
        htc_record_ask ask = ask_for("job", 1, 1, 100);
        ask.among = set;
        if (htc_record_take(NULL, record, &ask, &next, NULL) == HTC_OK)
            replace(&record, next);
        ask = ask_for("job", 2, 1, 9);
        if (htc_record_take(NULL, record, &ask, &next, NULL) == HTC_OK)
            replace(&record, next);
        uint8_t *bytes = malloc(record.len);
        memcpy(bytes, record.data, record.len);
        size_t len = htc_rng_below(&rng, 4) ? record.len : htc_rng_below(&rng, record.len);
        for (uint64_t n = htc_rng_below(&rng, 3); n > 0 && len > 0; n--)
            bytes[htc_rng_below(&rng, len)] ^= (uint8_t)(1u << htc_rng_below(&rng, 8));
        htc_bytes          damaged = { bytes, len };
        htc_record_summary s = { 0 };
        htc_status         status = htc_record_count(NULL, damaged, &s);
        HOLDS(status == HTC_OK || status == HTC_ECORRUPT || (status == HTC_EVERSION && bytes[0] > 1));
        refused += status != HTC_OK;
        if (status == HTC_OK) {
            htc_record_set_clear(set);
            HOLDS(s.free <= s.nodes && s.taken + s.settled <= s.nodes);
            HOLDS(htc_record_up(NULL, damaged, set, &next) == HTC_OK);
            HOLDS(htc_bytes_equal(damaged, next), "a change of nothing gives the same bytes");
            htc_record_free(NULL, next);
        }
        free(bytes);
        htc_record_free(NULL, record);
        htc_record_set_destroy(set);
    }
    cr_expect(refused > 500 || getenv("HTC_TEST_SEED"));
}

/* No node is in two places. Idle are 0 and 1, and of two takings the second one has this set as its bits. */
Test(record, a_node_is_in_one_place)
{
    static const struct {
        uint8_t    bits;
        htc_status status;
    } table[] = { { 8, HTC_OK }, { 2, HTC_ECORRUPT }, { 3, HTC_ECORRUPT }, { 4, HTC_ECORRUPT }, { 12, HTC_ECORRUPT } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const uint8_t      bytes[] = { 1, 64,         7, 1 << 1 | 1, 0, 3,   0, 2,          1, 'a',
                                       5, 1 << 1 | 1, 0, 4,          1, 'b', 5, 1 << 1 | 1, 0, table[i].bits };
        htc_record_summary s;
        cr_expect(eq(int, htc_record_count(NULL, (htc_bytes){ bytes, sizeof bytes }, &s), table[i].status), "%u",
                  table[i].bits);
    }
}

/* Format 1, byte for byte: what is in stores today is read for ever. */
Test(record, is_written_as_documented)
{
    htc_record_set *dead = range_of(63, 1);
    htc_bytes       record, next;
    const uint8_t   golden[] = { 1,          64,  7,                                      /* format, nodes, list */
                                 1 << 1,     3,   61,                                     /* idle: 3 .. 63 */
                                 8 << 1 | 1, 0,   0,   0, 0,          0, 0,   0, 0, 0x80, /* down: 63 */
                                 1,                                                       /* one taking */
                                 2,          'j', '1', 5, 1 << 1 | 1, 0, 0x07 };
    cr_assert(eq(int, htc_record_create(NULL, 64, 7, &record), HTC_OK));
    htc_record_ask ask = ask_for("j1", 5, 0, 3);
    cr_assert(eq(int, htc_record_take(NULL, record, &ask, &next, NULL), HTC_OK));
    replace(&record, next);
    cr_assert(eq(int, htc_record_down(NULL, record, dead, &next), HTC_OK));
    replace(&record, next);
    /* One bit in eight bytes: a range is shorter. */
    const uint8_t shorter[] = { 1, 64, 7, 1 << 1, 3, 61, 1 << 1, 63, 1, 1, 2, 'j', '1', 5, 1 << 1 | 1, 0, 0x07 };
    cr_expect(htc_bytes_equal(record, (htc_bytes){ shorter, sizeof shorter }));
    htc_record_summary s;
    cr_expect(eq(int, htc_record_count(NULL, (htc_bytes){ golden, sizeof golden }, &s), HTC_ECORRUPT), "one form only");
    htc_record_free(NULL, record);
    htc_record_set_destroy(dead);
}

Test(record, refuses_wrong_use)
{
    htc_record_set *set = range_of(5, 1), *outside = range_of(10, 1), *empty = new_set();
    htc_bytes record, next, long_job = { "0123456789012345678901234567890123456789012345678901234567890123456789", 65 };
    htc_record_summary s;
    htc_record_taking  t;
    uint32_t           first, n;
    htc_record_ask     ask = ask_for("a", 1, 0, 1), bad;
    cr_assert(eq(int, htc_record_create(NULL, 10, 0, &record), HTC_OK));
    cr_expect(eq(int, htc_record_create(NULL, 0, 0, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_create(NULL, HTC_RECORD_NODES_MAX + 1, 0, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_create(NULL, 1, 0, NULL), HTC_EINVAL));
#define BAD(...)                                                                                                       \
    bad = ask;                                                                                                         \
    __VA_ARGS__;                                                                                                       \
    cr_expect(eq(int, htc_record_take(NULL, record, &bad, &next, NULL), HTC_EINVAL), #__VA_ARGS__)
    BAD(bad.size = 0);
    BAD(bad.most = 0);
    BAD(bad.least = 2);
    BAD(bad.attempt = 0);
    BAD(bad.job.len = 0);
    BAD(bad.job.data = NULL);
    BAD(bad.job = long_job);
    BAD(bad.among = outside);
    struct {
        htc_record_ask ask;
        uint64_t       newer;
    } later = { ask, 1 };
    later.ask.size = sizeof later;
    cr_expect(eq(int, htc_record_take(NULL, record, &later.ask, &next, NULL), HTC_EABI));
    later.newer = 0;
    cr_assert(eq(int, htc_record_take(NULL, record, &later.ask, &next, NULL), HTC_OK));
    htc_record_free(NULL, next);
    cr_expect(eq(int, htc_record_take(NULL, record, NULL, &next, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_take(NULL, record, &ask, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_take(NULL, (htc_bytes){ NULL, 0 }, &ask, &next, NULL), HTC_ECORRUPT));
    cr_expect(eq(int, htc_record_take(NULL, (htc_bytes){ "\2", 1 }, &ask, &next, NULL), HTC_EVERSION));
    cr_expect(eq(int, htc_record_give(NULL, record, outside, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_give(NULL, record, set, &next), HTC_MISMATCH));
    cr_expect(eq(int, htc_record_give(NULL, record, NULL, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_give(NULL, record, set, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_down(NULL, record, outside, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_up(NULL, record, outside, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_unsettle(NULL, record, job("a"), 1, empty, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_unsettle(NULL, record, job("a"), 1, outside, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_settle(NULL, record, job(""), 1, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_settle(NULL, record, job("a"), 0, &next), HTC_EINVAL));
    cr_expect(eq(int, htc_record_release(NULL, record, long_job, 1, &next, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_count(NULL, record, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_nodes(NULL, record, 0, set), HTC_EINVAL));
    cr_expect(eq(int, htc_record_nodes(NULL, record, 6, set), HTC_EINVAL));
    cr_expect(eq(int, htc_record_nodes(NULL, record, HTC_RECORD_FREE, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_taking_at(NULL, record, 0, NULL, set), HTC_EINVAL));
    cr_expect(eq(int, htc_record_taking_at(NULL, record, UINT32_MAX, &t, set), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_count(NULL, (htc_bytes){ "\1\1", 2 }, &s), HTC_ECORRUPT));
    cr_expect(eq(int, htc_record_set_create(NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_add(set, HTC_RECORD_NODES_MAX, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_add(set, 1, UINT32_MAX), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_remove(set, UINT32_MAX, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_add(set, HTC_RECORD_NODES_MAX, 0), HTC_OK));
    cr_expect(eq(int, htc_record_set_add(NULL, 0, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_join(set, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_run(set, 6, &first, &n), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_set_run(set, UINT32_MAX, &first, &n), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_set_run(NULL, 0, &first, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_record_set_has(set, UINT32_MAX), 0));
    cr_expect(eq(int, htc_record_set_has(NULL, 5), 0));
    cr_expect(eq(u32, htc_record_set_count(NULL), 0));
    cr_expect(eq(int, htc_record_set_equal(NULL, empty), 1));
    cr_expect(eq(int, htc_record_set_equal(NULL, set), 0));
    cr_expect(eq(u32, htc_record_set_count(set), 1), "as it was after all of this");
    htc_record_set_clear(NULL);
    htc_record_ask_init(NULL);
    htc_record_ask_init(&bad);
    cr_expect(bad.size == sizeof bad && bad.most == 0 && bad.among == NULL);
    htc_record_free(NULL, (htc_bytes){ NULL, 0 });
    htc_record_free(NULL, record);
    htc_record_set_destroy(set);
    htc_record_set_destroy(outside);
    htc_record_set_destroy(empty);
    htc_record_set_destroy(NULL);
}

/* ---- Short memory ---- */

/* A whole life of a taking. Whatever fails, the record that went in and the sets are as they were. */
static void live_once(alloc_fail *f, const htc_env *env)
{
    htc_record_set *got = NULL, *some = NULL;
    htc_bytes       record = { NULL, 0 }, next, written;
    htc_record_ask  ask = ask_for("a", 1, 0, 100);
    htc_status      status = htc_record_set_create(env, &got);
    if (status == HTC_OK)
        status = htc_record_set_create(env, &some);
    if (status == HTC_OK)
        status = htc_record_set_add(some, 100, 900);
    if (status == HTC_OK)
        status = htc_record_create(env, 1000, 1, &record);
    ask.among = some;
#define STEP(call)                                                                                                     \
    if (status == HTC_OK && (status = (call)) == HTC_OK) {                                                             \
        htc_record_free(env, record);                                                                                  \
        record = next;                                                                                                 \
    }
    if (status == HTC_OK) {
        status = htc_record_take(env, record, &ask, &next, got);
        cr_expect(eq(u32, htc_record_set_count(got), status == HTC_OK ? 100 : 0));
        if (status == HTC_OK) {
            htc_record_free(env, record);
            record = next;
        }
    }
    STEP(htc_record_take(env, record, &ask, &next, got))
    STEP(htc_record_settle(env, record, ask.job, 1, &next))
    STEP(htc_record_unsettle(env, record, ask.job, 1, got, &next))
    STEP(htc_record_down(env, record, some, &next))
    STEP(htc_record_release(env, record, ask.job, 1, &next, some))
    STEP(htc_record_grow(env, record, 2000, 2, &next))
    if (status == HTC_OK)
        status = htc_record_nodes(env, record, HTC_RECORD_IDLE, got);
    if (status == HTC_OK && (status = htc_record_set_write(env, got, &written)) == HTC_OK) {
        status = htc_record_set_read(written, some);
        cr_expect(eq(u32, htc_record_set_count(some), status == HTC_OK ? 1900 : 100));
        htc_record_free(env, written);
    }
    cr_expect(eq(int, status, f->refused ? HTC_ENOMEM : HTC_OK));
    if (f->refused && record.data) {
        /* Still usable, now that there is memory. */
        htc_record_summary s;
        cr_expect(eq(int, htc_record_count(NULL, record, &s), HTC_OK));
    }
    htc_record_free(env, record);
    htc_record_set_destroy(got);
    htc_record_set_destroy(some);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(record, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 300)
    {
        htc_env env = alloc_fail_env(&f);
        live_once(&f, &env);
    }
    ALLOC_FAIL_ONCE(f, 300)
    {
        htc_env env = alloc_fail_env(&f);
        live_once(&f, &env);
    }
}
