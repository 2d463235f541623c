/* The log: a part of it that is gone is missed. Segments are cut, emptied, zeroed, removed and lengthened. */
#include "log_rig.h"

/* It ends as a member does that was told to. */
static void stop_clean(rig *r)
{
    int ended = 0;
    for (int i = 0; i < 100 && !ended; i++) {
        cr_assert(eq(int, r->cells.ops->end(r->cells.ctx, r->out, &ended), HTC_OK));
        log_disk_take(&r->disk, r->out);
        pump(r);
    }
    cr_assert(ended);
    stop(r);
}

enum { CUT, EMPTIED, ZEROED, ZEROED_FROM, REMOVED, GROWN, HARMS };

/* Something happens to a file; answers where it begins. */
static uint64_t harm(rig *r, log_disk_file *f, unsigned how, htc_rng *rng)
{
    uint64_t from = how == CUT || how == ZEROED_FROM ? htc_rng_below(rng, f->length) : 0;
    if (how == ZEROED || how == ZEROED_FROM)
        memset(f->data + from, 0, f->length - from);
    else if (how == REMOVED)
        log_disk_drop(&r->disk, f);
    else if (how == GROWN) {
        f->data = realloc(f->data, f->length + 1024);
        f->durable = realloc(f->durable, f->length + 1024);
        f->dirty = realloc(f->dirty, f->length / 512 + 8);
        memset(f->dirty, 0, f->length / 512 + 8);
        memset(f->data + f->length, 0, 1024);
        f->length += 1024;
    } else
        f->length = from;
    return from;
}

static uint64_t number_of(const log_disk_file *f)
{
    return htc__log_segment_number(htc_bytes_of(f->name));
}

/* The segment of the last frame, or any that the log is in. */
static log_disk_file *pick_segment(rig *r, int last, htc_rng *rng)
{
    size_t         length;
    const uint8_t *at = last_frame(r, &length);
    log_disk_file *end = NULL, *any[LOG_DISK_FILES];
    size_t         n = 0;
    for (size_t i = 0; i < r->disk.count; i++)
        if (at >= r->disk.files[i].data && at < r->disk.files[i].data + r->disk.files[i].length)
            end = &r->disk.files[i];
    for (size_t i = 0; i < r->disk.count; i++)
        if (number_of(&r->disk.files[i]) && number_of(&r->disk.files[i]) <= number_of(end))
            any[n++] = &r->disk.files[i];
    return last ? end : any[htc_rng_below(rng, n)];
}

/* But for the values that are known to be lost. */
static int is_state_as_far_as_known(rig *r, const state *s)
{
    for (size_t i = 0; i < KEYS; i++) {
        char       text[8];
        uint8_t    bytes[4096];
        uint64_t   batch;
        htc_bytes  value;
        htc_status status = r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch);
        if (status != HTC_ECORRUPT && status != (s->stamp[i] ? HTC_OK : HTC_ENOTFOUND))
            return 0;
        if (status == HTC_OK && !htc_bytes_equal(value, value_of(s->stamp[i], bytes)))
            return 0;
    }
    return 1;
}

/* After a clean end nothing that happens to a segment goes unnoticed: all is there, or it is refused and that file is named. One of several
 * members starts, and knows that something is lost, in each life until all is written anew. */
static void segment_is_harmed(rig *r, htc_rng *rng, int last, size_t counts[2])
{
    begin(r);
    fill(r, 5 + (int)htc_rng_below(rng, 80));
    uint64_t newest = r->cells.ops->stored(r->cells.ctx);
    stop_clean(r);
    if (htc_rng_below(rng, 3) == 0) { /* killed before it has written anything */
        HOLDS(start(r) == HTC_OK);
        stop(r);
    }
    log_disk_file *f = pick_segment(r, last, rng);
    unsigned       how = (unsigned)htc_rng_below(rng, HARMS);
    char           name[sizeof f->name];
    memcpy(name, f->name, sizeof name);
    uint64_t where = harm(r, f, how, rng);
    if (getenv("HTC_TEST_TRACE"))
        fprintf(stderr, "%s: harm %u from %llu\n", name, how, (unsigned long long)where);
    r->problems = 0;
    r->options.others = (int)htc_rng_below(rng, 2);
    htc_status status = start(r);
    int        damaged = status == HTC_ECORRUPT || (status == HTC_OK && htc__log_is_damaged(&r->cells));
    HOLDS(status == (damaged && !r->options.others ? HTC_ECORRUPT : HTC_OK));
    HOLDS(damaged || is_state_as_far_as_known(r, &r->states[newest]));
    HOLDS(!damaged || how != GROWN);
    HOLDS(r->problems > 0 || (!damaged && (how == ZEROED_FROM || how == ZEROED)));
    HOLDS(!damaged || !last || strcmp(r->where, name) == 0);
    counts[damaged]++;
    stop(r);
}

static void segments_are_harmed(int last)
{
    rig   *r = malloc(sizeof *r);
    size_t counts[2] = { 0, 0 };
    PROPERTY(rng, 800)
    {
        rig_init(r, htc_rng_next(&rng), htc_rng_below(&rng, 2) ? HTC__LOG_SYNC : HTC__LOG_INTERVAL);
        segment_is_harmed(r, &rng, last, counts);
        rig_free(r);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (counts[0] && counts[1]));
    printf("# %zu times nothing was lost, %zu times it was damage\n", counts[0], counts[1]);
    free(r);
}

Test(log, a_last_segment_that_is_harmed_after_a_clean_end_is_damage)
{
    segments_are_harmed(1);
}

Test(log, any_segment_that_is_harmed_after_a_clean_end_is_damage)
{
    segments_are_harmed(0);
}

/* Where the power failed nothing says how much was in the last segment, but that there is one, and how long it is. */
Test(log, a_segment_that_was_begun_is_missed)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 300)
    {
        static const unsigned hows[] = { CUT, EMPTIED, REMOVED };
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        begin(r);
        fill(r, 5 + (int)htc_rng_below(&rng, 80));
        stop(r);
        log_disk_cut(&r->disk, &rng);
        log_disk_file *f = pick_segment(r, 1, &rng);
        char           name[sizeof f->name];
        memcpy(name, f->name, sizeof name);
        harm(r, f, hows[htc_rng_below(&rng, 3)], &rng);
        r->problems = 0;
        HOLDS(start(r) == HTC_ECORRUPT && r->problems > 0 && strcmp(r->where, name) == 0);
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* It stays known until the cells say what is lost, and all of them have been written anew. */
Test(log, what_is_lost_is_known_until_it_is_repaired)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 100)
    {
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        r->options.others = 1;
        begin(r);
        fill(r, 40 + (int)htc_rng_below(&rng, 60));
        stop_clean(r);
        harm(r, pick_segment(r, (int)htc_rng_below(&rng, 2), &rng), REMOVED, &rng);
        for (int life = 0; life < 2; life++) {
            begin(r);
            HOLDS(htc__log_is_damaged(&r->cells));
            fill(r, 30);
            HOLDS(htc__log_is_damaged(&r->cells));
            r->cells.ops->destroy(r->cells.ctx);
            log_disk_cut(&r->disk, &rng);
        }
        begin(r);
        htc__log_repaired(&r->cells);
        for (int i = 0; i < 200 && htc__log_is_damaged(&r->cells); i++) {
            fill(r, 1);
            r->now += HTC_MS;
        }
        HOLDS(!htc__log_is_damaged(&r->cells));
        fill(r, 2);
        uint64_t newest = r->cells.ops->stored(r->cells.ctx);
        state    kept = r->states[newest];
        for (size_t i = 0; i < KEYS; i++) { /* of those that were there before this life, as they were found */
            char      text[8];
            uint64_t  batch;
            htc_bytes value;
            if (kept.stamp[i] == 0 && r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch) == HTC_OK)
                kept.stamp[i] = UINT32_MAX;
        }
        stop(r);
        r->problems = 0;
        HOLDS(start(r) == HTC_OK && !htc__log_is_damaged(&r->cells) && r->problems == 0);
        for (size_t i = 0; i < KEYS; i++) {
            char      text[8];
            uint8_t   bytes[4096];
            uint64_t  batch;
            htc_bytes value;
            int       there = r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch) == HTC_OK;
            HOLDS(there == (kept.stamp[i] != 0));
            HOLDS(!there || kept.stamp[i] == UINT32_MAX || htc_bytes_equal(value, value_of(kept.stamp[i], bytes)));
        }
        stop(r);
        rig_free(r);
    }
    free(r);
}
