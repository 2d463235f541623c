/* The log: what was acknowledged is there after every kind of stop, nothing else is, and no batch is there by halves; damage is
 * found and named; a full disk is said before anything changes. Over a disk in memory that keeps no more than it has to. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "log_golden.h"
#include "log_rig.h"

static void set_area(rig *r)
{
    uint8_t  area[HTC__LOG_AREA] = { 0 };
    uint64_t ticket;
    uint64_t next = r->area_asked + 1;
    memcpy(area, &next, sizeof next);
    htc_status status = htc__log_area_set(&r->cells, area, r->out, &ticket);
    log_disk_take(&r->disk, r->out);
    HOLDS(status == HTC_OK);
    r->area_asked = next;
    r->area_ticket = ticket;
}

/* Some time in the life of a member, until the power goes or the process is killed. */
static void live(rig *r, int steps)
{
    for (; steps > 0 && r->status == HTC_OK; steps--) {
        switch (htc_rng_below(&r->rng, 8)) {
        case 0:
        case 1:
            change(r);
            break;
        case 2:
            HOLDS(r->cells.ops->commit(r->cells.ctx, r->out) == HTC_OK);
            log_disk_take(&r->disk, r->out);
            break;
        case 3:
            if (htc_rng_below(&r->rng, 10) == 0)
                set_area(r);
            break;
        case 4:
            r->now += htc_rng_below(&r->rng, 20) * HTC_MS;
            if (r->now >= r->cells.ops->deadline(r->cells.ctx))
                input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
            break;
        default:
            if (r->disk.waiting_count)
                answer_one(r);
            break;
        }
        HOLDS(r->cells.ops->stored(r->cells.ctx) <= r->batches);
    }
}

/* Which state this is after it was opened again: the newest that fits, from the first allowed one on. */
static int find_state(rig *r, uint64_t least, uint64_t most, uint64_t *found)
{
    for (uint64_t b = most + 1; b > least; b--)
        if (is_state(r, &r->states[b - 1])) {
            *found = b - 1;
            return 1;
        }
    return 0;
}

static void stops_at_random(uint32_t durability, uint64_t seeds)
{
    uint64_t checkpoints = 0, openings = 0;
    rig     *r = malloc(sizeof *r);
    PROPERTY(rng, seeds)
    {
        rig_init(r, htc_rng_next(&rng), durability);
        for (int life = 0; life < 6; life++) {
            HOLDS(start(r) == HTC_OK && r->ready);
            HOLDS(life > 0 || is_state(r, &r->states[0]));
            uint64_t area;
            memcpy(&area, htc__log_area(&r->cells), sizeof area);
            HOLDS(area >= r->area_stored && area <= r->area_asked);
            r->area = r->area_stored = r->area_asked = area;
            uint64_t first_area = area;
            r->states[1] = r->states[0];
            r->batches = 1;
            openings++;
            live(r, 20 + (int)htc_rng_below(&rng, 400));
            HOLDS(r->status == HTC_OK);
            uint64_t stored = r->cells.ops->stored(r->cells.ctx), found;
            int      kill = htc_rng_below(&rng, 3) == 0;
            r->area_stored = first_area + htc__log_area_stored(&r->cells);
            HOLDS(r->area_stored <= r->area_asked);
            htc__log_figures f;
            htc__log_look(&r->cells, &f);
            checkpoints += f.checkpoints;
            r->cells.ops->destroy(r->cells.ctx);
            if (kill)
                log_disk_kill(&r->disk, &r->rng);
            else
                log_disk_cut(&r->disk, &r->rng);
            /* What it is now: some batch from the last acknowledged one on. */
            uint64_t least = kill || durability == HTC__LOG_SYNC ? stored : 0;
            HOLDS(start(r) == HTC_OK && r->ready);
            HOLDS(find_state(r, least, r->batches, &found));
            r->states[0] = r->states[found];
            r->cells.ops->destroy(r->cells.ctx);
            /* And again, in the middle of opening. */
            log_disk_cut(&r->disk, &r->rng);
        }
        rig_free(r);
    }
    cr_expect(getenv("HTC_TEST_SEED") || checkpoints > property_times(seeds), "%llu checkpoints in %llu openings",
              (unsigned long long)checkpoints, (unsigned long long)openings);
    printf("# %llu openings, %llu checkpoints\n", (unsigned long long)openings, (unsigned long long)checkpoints);
    free(r);
}

Test(log, everything_acknowledged_survives_the_power_going)
{
    stops_at_random(HTC__LOG_SYNC, 600);
}

Test(log, interval_keeps_whole_batches_in_order)
{
    stops_at_random(HTC__LOG_INTERVAL, 300);
}

Test(log, unsynced_keeps_whole_batches_in_order)
{
    stops_at_random(HTC__LOG_UNSYNCED, 200);
}

/* One bit of what was acknowledged is another: the member refuses to start and names the place, or says which record is lost, or it
 * was the very last batch, which cannot be told from one that was being written. Never is something served that was not written. */
Test(log, a_flipped_bit_is_never_served)
{
    rig   *r = malloc(sizeof *r);
    size_t refused = 0, lost = 0, cut = 0, whole = 0;
    PROPERTY(rng, 1500)
    {
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        begin(r);
        fill(r, 20 + (int)htc_rng_below(&rng, 60));
        uint64_t newest = r->cells.ops->stored(r->cells.ctx);
        stop(r);
        log_disk_file *f = &r->disk.files[htc_rng_below(&rng, r->disk.count)];
        uint64_t       bit = htc_rng_below(&rng, f->length * 8);
        f->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        r->problems = 0;
        htc_status status = start(r);
        HOLDS(status == HTC_OK || status == HTC_ECORRUPT || status == HTC_EFORMAT);
        if (status != HTC_OK) {
            HOLDS(r->problems > 0 && strcmp(r->where, f->name) == 0);
            HOLDS(r->where_offset <= bit / 8);
            refused++;
            stop(r);
            rig_free(r);
            continue;
        }
        htc__log_figures figures;
        htc__log_look(&r->cells, &figures);
        size_t missing = 0;
        for (size_t i = 0; i < KEYS; i++) {
            char       text[8];
            uint8_t    bytes[4096];
            uint64_t   batch;
            htc_bytes  value;
            htc_status got = r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch);
            uint32_t   now = r->states[newest].stamp[i], before = r->states[newest - 1].stamp[i];
            missing += got == HTC_ECORRUPT;
            HOLDS(got == HTC_ECORRUPT || got == (now ? HTC_OK : HTC_ENOTFOUND) ||
                  got == (before ? HTC_OK : HTC_ENOTFOUND));
            HOLDS(got != HTC_OK || (now && htc_bytes_equal(value, value_of(now, bytes))) ||
                  (before && htc_bytes_equal(value, value_of(before, bytes))));
        }
        HOLDS(missing == figures.lost && (missing == 0 || r->problems > 0));
        lost += missing;
        if (is_state(r, &r->states[newest]))
            whole++;
        else if (!missing)
            cut++;
        stop(r);
        rig_free(r);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (refused && lost && whole));
    printf("# %zu refused, %zu records lost, %zu cut at the end, %zu no matter\n", refused, lost, cut, whole);
    free(r);
}

/* With a copy of all that lives the segments before it go, and the frame it ends with may be the last: what is in it was acknowledged long
 * before, so damage to it is not where the log ends. */
Test(log, damage_to_the_end_of_a_copy_is_no_end)
{
    rig   *r = malloc(sizeof *r);
    size_t refused = 0, lost = 0;
    PROPERTY(rng, 400)
    {
        htc__log_figures figures = { 0 };
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        begin(r);
        for (int i = 0; i < 200 && figures.checkpoints == 0; i++) {
            fill(r, 1);
            htc__log_look(&r->cells, &figures);
        }
        HOLDS(figures.checkpoints > 0);
        uint64_t newest = r->cells.ops->stored(r->cells.ctx);
        stop(r);
        size_t   length = 0;
        uint8_t *frame = last_frame(r, &length);
        HOLDS(frame != NULL);
        frame[htc_rng_below(&rng, length)] ^= (uint8_t)(1 << htc_rng_below(&rng, 8));
        r->problems = 0;
        htc_status status = start(r);
        HOLDS(r->problems > 0 && (status == HTC_OK || status == HTC_ECORRUPT));
        refused += status != HTC_OK;
        for (size_t i = 0; status == HTC_OK && i < KEYS; i++) {
            char       text[8];
            uint8_t    bytes[4096];
            uint64_t   batch;
            htc_bytes  value;
            htc_status got = r->cells.ops->get(r->cells.ctx, key_of(i, text), &value, &batch);
            uint32_t   stamp = r->states[newest].stamp[i];
            lost += got == HTC_ECORRUPT;
            HOLDS(got == HTC_ECORRUPT || got == (stamp ? HTC_OK : HTC_ENOTFOUND));
            HOLDS(got != HTC_OK || htc_bytes_equal(value, value_of(stamp, bytes)));
        }
        stop(r);
        rig_free(r);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (refused && lost));
    free(r);
}

/* A log that has only its superblocks is a new one, unless these know better. */
Test(log, segments_that_are_gone_are_missed)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 20)
    {
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        begin(r);
        for (htc__log_figures f = { 0 }; f.sequence == 0; htc__log_look(&r->cells, &f))
            fill(r, 1);
        stop(r);
        HOLDS(start(r) == HTC_OK);
        stop(r);
        for (size_t i = r->disk.count; i-- > 0;)
            if (strncmp(r->disk.files[i].name, "log-", 4) == 0)
                log_disk_drop(&r->disk, &r->disk.files[i]);
        HOLDS(r->disk.count == 2);
        r->problems = 0;
        HOLDS(start(r) == HTC_ECORRUPT && r->problems == 1 && strcmp(r->where, "log-0000000000000001") == 0);
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* It is named by its own file, though the frames before it end in another one, with room behind them or without. */
Test(log, a_segment_s_own_frame_is_named)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 200)
    {
        htc__log_figures figures = { 0 };
        size_t           length = 0;
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        begin(r);
        while (figures.segments < 2) {
            fill(r, 1);
            htc__log_look(&r->cells, &figures);
        }
        for (uint64_t before = figures.sequence; figures.sequence == before; htc__log_look(&r->cells, &figures))
            fill(r, 1); /* the frame that says that those before were durable */
        uint8_t *frame = last_frame(r, &length);
        stop(r);
        size_t i = 0;
        while (frame < r->disk.files[i].data || frame >= r->disk.files[i].data + r->disk.files[i].length)
            i++;
        log_disk_file *f = &r->disk.files[i];
        f->data[htc_rng_below(&rng, HTC__LOG_HEAD + HTC__LOG_SEGMENT_PAYLOAD)] ^= (uint8_t)(1 << htc_rng_below(&rng, 8));
        HOLDS(start(r) == HTC_ECORRUPT && strcmp(r->where, f->name) == 0 && r->where_offset == 0);
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* Every request of a life fails in turn, with every failure: the member ends with EIO, or goes on where it may, and what it has
 * acknowledged is there afterwards. */
static void fails(htc_status with)
{
    rig *r = malloc(sizeof *r);
    int  reached = 1;
    for (uint64_t at = 1; reached; at++) {
        property_seed = at;
        rig_init(r, 5, HTC__LOG_SYNC);
        r->disk.fail_at = at;
        r->disk.fail_with = with;
        reached = 0;
        uint64_t   stored = 0, found;
        htc_status status = start(r);
        r->states[1] = r->states[0];
        r->batches = 1;
        if (status == HTC_OK && r->ready) {
            live(r, 1500);
            stored = r->cells.ops->stored(r->cells.ctx);
            status = r->status;
        }
        reached = r->disk.done >= at;
        HOLDS(status == HTC_OK || status == with || status == HTC_EIO);
        if (status != HTC_OK && r->ready == 0 && r->cells.ops->open(r->cells.ctx) > 1) {
            char text[8];
            HOLDS(r->cells.ops->put(r->cells.ctx, key_of(1, text), htc_bytes_of("x")) == HTC_EIO);
        }
        r->cells.ops->destroy(r->cells.ctx);
        r->disk.fail_at = 0;
        log_disk_cut(&r->disk, &r->rng);
        HOLDS(start(r) == HTC_OK && r->ready);
        HOLDS(find_state(r, stored, r->batches, &found));
        stop(r);
        rig_free(r);
        if (at > 5000)
            break;
    }
    free(r);
}

Test(log, a_failed_request_ends_it_without_loss)
{
    fails(HTC_EIO);
}

Test(log, no_room_at_any_request_loses_nothing)
{
    fails(HTC_ENOSPC);
}

/* The disk is full when the next segment is to be made: changes are refused before they are made, reads go on, and so does everything
 * once there is room. */
Test(log, a_full_disk_refuses_changes_and_goes_on)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 200)
    {
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        r->disk.room = 2 * 512 + 8192 * (3 + htc_rng_below(&rng, 3));
        r->options.ratio = 100; /* nothing is freed */
        begin(r);
        char       text[8];
        htc_status status = HTC_OK;
        uint8_t    value[1000] = { 0 };
        size_t     n = 0;
        htc_bytes  got;
        uint64_t   batch;
        for (; status == HTC_OK && n < 1000; n++) {
            status = r->cells.ops->put(r->cells.ctx, key_of(n % KEYS, text), (htc_bytes){ value, sizeof value });
            HOLDS(r->cells.ops->commit(r->cells.ctx, r->out) == HTC_OK);
            log_disk_take(&r->disk, r->out);
            pump(r);
            HOLDS(r->status == HTC_OK);
        }
        HOLDS(status == HTC_ENOSPC && n > 8);
        HOLDS(r->cells.ops->get(r->cells.ctx, key_of(0, text), &got, &batch) == HTC_OK && got.len == sizeof value);
        /* Opened again it still reads, and still refuses or has room by what it cleared. */
        stop(r);
        r->ready = 0;
        HOLDS(start(r) == HTC_OK && r->ready);
        HOLDS(r->cells.ops->get(r->cells.ctx, key_of(0, text), &got, &batch) == HTC_OK && got.len == sizeof value);
        r->disk.room += 8192 * 4;
        for (int i = 0; i < 5; i++) {
            r->now += 2 * HTC_SECOND;
            input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
            pump(r);
        }
        HOLDS(r->cells.ops->put(r->cells.ctx, key_of(0, text), (htc_bytes){ value, sizeof value }) == HTC_OK);
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* As a server asks: what may grow is refused where the disk is full, a deletion never is. Answers how often the first was. */
static size_t churn(rig *r, int changes)
{
    size_t refused = 0;
    for (int i = 0; i < changes; i++) {
        char       text[8];
        uint8_t    value[2000];
        size_t     k = htc_rng_below(&r->rng, KEYS), n = 500 + htc_rng_below(&r->rng, 1500);
        htc_bytes  key = key_of(k, text);
        int        drop = htc_rng_below(&r->rng, 3) == 0;
        htc_status status;
        memset(value, (int)k, sizeof value);
        while ((status = drop ? r->cells.ops->room(r->cells.ctx, htc__cells_cost(key.len, 0))
                              : r->cells.ops->room_to_grow(r->cells.ctx, htc__cells_cost(key.len, n))) == HTC_EBUSY) {
            r->now += HTC_MS;
            input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
            pump(r);
        }
        HOLDS(status == HTC_OK || (status == HTC_ENOSPC && !drop));
        refused += status == HTC_ENOSPC;
        if (status == HTC_OK)
            HOLDS((drop ? r->cells.ops->drop(r->cells.ctx, key) : r->cells.ops->put(r->cells.ctx, key, (htc_bytes){ value, n })) == HTC_OK);
        HOLDS(r->cells.ops->commit(r->cells.ctx, r->out) == HTC_OK);
        log_disk_take(&r->disk, r->out);
        pump(r);
        r->now += HTC_SECOND / 4; /* it tries again after a second */
        input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        pump(r);
        HOLDS(r->status == HTC_OK);
    }
    return refused;
}

/* Room is set aside for what gives room back: a disk full of live data takes deletions, and the log is copied with it. */
Test(log, a_full_disk_takes_deletions)
{
    rig   *r = malloc(sizeof *r);
    size_t refused = 0;
    PROPERTY(rng, 100)
    {
        rig_init(r, htc_rng_next(&rng), HTC__LOG_SYNC);
        r->disk.room = 2 * 512 + 8192 * (4 + htc_rng_below(&rng, 8));
        begin(r);
        refused += churn(r, 300);
        stop(r);
        r->ready = 0;
        HOLDS(start(r) == HTC_OK && r->ready);
        refused += churn(r, 100);
        stop(r);
        rig_free(r);
    }
    cr_expect(refused > 50 || getenv("HTC_TEST_SEED"), "the disk was full %zu times", refused);
    free(r);
}

/* One segment to write and two to delete with: a disk without room for them is named at the start, not by the first change. */
Test(log, the_smallest_disk_is_named_at_the_start)
{
    for (uint64_t segments = 0; segments < 6; segments++) {
        rig *r = malloc(sizeof *r);
        rig_init(r, 5, HTC__LOG_SYNC);
        r->disk.room = 2 * 512 + 8192 * segments;
        htc_status status = start(r);
        if (segments < 3)
            cr_expect(status == HTC_ENOSPC && !r->ready && r->problems == 1, "%lu segments", segments);
        else
            cr_expect(status == HTC_OK && r->ready && r->problems == 0 && r->cells.ops->room_to_grow(r->cells.ctx, 100) == HTC_OK, "%lu segments", segments);
        stop(r);
        rig_free(r);
        free(r);
    }
}

/* However long it lives, what is read at the next opening stays a multiple of what is kept. */
Test(log, the_log_stays_bounded)
{
    rig *r = malloc(sizeof *r);
    rig_init(r, 3, HTC__LOG_SYNC);
    size_t most = 0;
    begin(r);
    for (int i = 0; i < 3000; i++) {
        htc__log_figures f;
        fill(r, 1);
        r->states[0] = r->states[r->batches];
        r->now += HTC_MS;
        input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        pump(r);
        cr_assert(eq(int, r->status, HTC_OK));
        htc__log_look(&r->cells, &f);
        most = f.segments > most ? f.segments : most;
    }
    /* At most 24 records of some 230 bytes: under one segment. Twice that, two more, and one for the copy. */
    cr_expect(most <= 6, "%zu segments", most);
    cr_expect(is_state(r, &r->states[r->batches]));
    stop(r);
    rig_free(r);
    free(r);
}

/* While a segment is being made, or cannot be, or a sync lasts, there is nothing to do: then nothing is due. */
Test(log, waits_for_the_disk_without_being_busy)
{
    rig *r = malloc(sizeof *r);
    PROPERTY(rng, 100)
    {
        uint64_t checkpoints = 0;
        rig_init(r, htc_rng_next(&rng), property_seed % 2 ? HTC__LOG_SYNC : HTC__LOG_INTERVAL);
        begin(r);
        for (int i = 0; i < 1500; i++) {
            char             text[8];
            uint8_t          bytes[4096];
            htc__log_figures f;
            r->now += HTC_MS / 2;
            r->cells.ops->put(r->cells.ctx, key_of(htc_rng_below(&rng, KEYS), text), value_of((uint32_t)i, bytes));
            HOLDS(r->cells.ops->commit(r->cells.ctx, r->out) == HTC_OK);
            log_disk_take(&r->disk, r->out);
            int slow = htc_rng_below(&rng, 40) != 0;
            for (size_t at = 0; at < r->disk.waiting_count;) {
                uint32_t op = r->disk.waiting[at].op;
                if (slow && (op == HTC_DISK_CREATE || op == HTC_DISK_SYNC)) {
                    at++;
                    continue;
                }
                answer_one_of(r, at);
                at = 0;
            }
            r->now += HTC_MS;
            for (int again = 0; again < 3; again++) { /* one thing may lead to another */
                input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
                HOLDS(r->cells.ops->commit(r->cells.ctx, r->out) == HTC_OK); /* as a server does behind every input */
                log_disk_take(&r->disk, r->out);
            }
            HOLDS(r->status == HTC_OK && r->cells.ops->deadline(r->cells.ctx) > r->now);
            htc__log_look(&r->cells, &f);
            checkpoints = f.checkpoints;
        }
        HOLDS(checkpoints > 3);
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* Memory is refused at any point: a change is refused or the opening fails; nothing is half. */
Test(log, refused_memory)
{
    rig *r = malloc(sizeof *r);
    ALLOC_FAIL_ONCE(f, 20000)
    {
        htc_env env = alloc_fail_env(&f);
        property_seed = f.fail_at;
        rig_init(r, 4, HTC__LOG_SYNC);
        r->env = &env;
        htc__cells cells;
        if (htc__log_create(&env, &r->options, &cells) != HTC_OK) {
            rig_free(r);
            continue;
        }
        r->cells = cells;
        r->states[1] = r->states[0];
        r->batches = 1;
        input(r, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
        pump(r);
        for (int i = 0; i < 60 && r->status == HTC_OK && r->ready; i++) {
            char     text[8];
            uint8_t  bytes[4096];
            uint32_t stamp = ++r->stamp;
            if (r->batches != cells.ops->open(cells.ctx)) {
                r->states[r->batches + 1] = r->states[r->batches];
                r->batches++;
            }
            htc_status status = cells.ops->put(cells.ctx, key_of(stamp % KEYS, text), value_of(stamp, bytes));
            HOLDS(status == HTC_OK || status == HTC_ENOMEM);
            if (status == HTC_OK)
                r->states[r->batches].stamp[stamp % KEYS] = stamp;
            status = cells.ops->commit(cells.ctx, r->out);
            HOLDS(status == HTC_OK || status == HTC_ENOMEM);
            log_disk_take(&r->disk, r->out);
            pump(r);
        }
        HOLDS(r->status == HTC_OK || r->status == HTC_ENOMEM);
        uint64_t stored = cells.ops->stored(cells.ctx), found;
        stop(r);
        HOLDS(f.live == 0 && f.wrong_sizes == 0);
        r->env = NULL;
        HOLDS(start(r) == HTC_OK && find_state(r, stored, r->batches, &found));
        stop(r);
        rig_free(r);
    }
    free(r);
}

/* ---- the format ---- */

static void put_sector(uint8_t at[512], const char *hex)
{
    memset(at, 0, 512);
    for (size_t i = 0; hex[2 * i]; i++) {
        unsigned byte;
        cr_assert(eq(int, sscanf(hex + 2 * i, "%2x", &byte), 1));
        at[i] = (uint8_t)byte;
    }
}

static void golden_rig(rig *r)
{
    rig_init(r, 1, HTC__LOG_SYNC);
    r->options.member = 0x1122334455667788;
    memcpy(r->options.boot, "boot", 4);
}

/* What this program writes is what version 2 is. */
Test(log, writes_version_2)
{
    rig     *r = malloc(sizeof *r);
    uint8_t  sector[512], area[HTC__LOG_AREA] = "area";
    uint64_t ticket;
    golden_rig(r);
    begin(r);
    const htc__cells *c = &r->cells;
    cr_assert(eq(int, htc__log_area_set(c, area, r->out, &ticket), HTC_OK));
    log_disk_take(&r->disk, r->out);
    pump(r);
    cr_assert(c->ops->put(c->ctx, htc_bytes_of("alpha"), htc_bytes_of("1")) == HTC_OK);
    cr_assert(c->ops->put(c->ctx, htc_bytes_of("beta"), htc_bytes_of("")) == HTC_OK);
    cr_assert(eq(int, c->ops->commit(c->ctx, r->out), HTC_OK));
    log_disk_take(&r->disk, r->out);
    pump(r);
    cr_assert(eq(int, c->ops->drop(c->ctx, htc_bytes_of("beta")), HTC_OK));
    cr_assert(eq(int, c->ops->put(c->ctx, htc_bytes_of("gamma"), htc_bytes_of("three")), HTC_OK));
    cr_assert(eq(int, c->ops->commit(c->ctx, r->out), HTC_OK));
    log_disk_take(&r->disk, r->out);
    pump(r);
    const log_disk_file *super = log_disk_find(&r->disk, htc_bytes_of("super.0"));
    const log_disk_file *twin = log_disk_find(&r->disk, htc_bytes_of("super.1"));
    const log_disk_file *segment = log_disk_find(&r->disk, htc_bytes_of("log-0000000000000001"));
    put_sector(sector, golden_super);
    cr_expect(memcmp(super->data, sector, 512) == 0 && memcmp(twin->data, sector, 512) == 0);
    for (size_t s = 0; s < 4; s++) {
        put_sector(sector, golden_segment[s]);
        cr_expect(memcmp(segment->data + 512 * s, sector, 512) == 0, "sector %zu", s);
    }
    stop(r);
    rig_free(r);
    free(r);
}

/* And what it was then can be read now. */
Test(log, reads_version_2)
{
    rig      *r = malloc(sizeof *r);
    htc_bytes value;
    uint64_t  batch;
    golden_rig(r);
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "super.%d", i);
        log_disk_create(&r->disk, htc_bytes_of(name), 512);
        put_sector(log_disk_find(&r->disk, htc_bytes_of(name))->data, golden_super);
    }
    log_disk_create(&r->disk, htc_bytes_of("log-0000000000000001"), 8192);
    for (size_t s = 0; s < 4; s++)
        put_sector(log_disk_find(&r->disk, htc_bytes_of("log-0000000000000001"))->data + 512 * s, golden_segment[s]);
    begin(r);
    const htc__cells *c = &r->cells;
    cr_expect(eq(sz, c->ops->count(c->ctx), 2));
    cr_expect(c->ops->get(c->ctx, htc_bytes_of("alpha"), &value, &batch) == HTC_OK &&
              htc_bytes_equal(value, htc_bytes_of("1")));
    cr_expect(c->ops->get(c->ctx, htc_bytes_of("gamma"), &value, &batch) == HTC_OK &&
              htc_bytes_equal(value, htc_bytes_of("three")));
    cr_expect(eq(int, c->ops->get(c->ctx, htc_bytes_of("beta"), &value, &batch), HTC_ENOTFOUND));
    cr_expect(strcmp((const char *)htc__log_area(c), "area") == 0);
    const htc__log_super *super = htc__log_super_of(c);
    cr_expect(super->seed == 99 && super->epoch == 1 && strcmp((const char *)super->boot, "boot") == 0 &&
              super->durability == 1);
    stop(r);
    /* Another version is refused by its number. */
    for (int i = 0; i < 2; i++) {
        log_disk_file *f = log_disk_find(&r->disk, htc_bytes_of(i ? "super.1" : "super.0"));
        f->data[4] = 1;
        uint64_t sum = htc_hash64((htc_bytes){ f->data, 504 }, 0x4c435448);
        memcpy(f->data + 504, &sum, 8);
    }
    cr_expect(eq(int, start(r), HTC_EFORMAT));
    stop(r);
    rig_free(r);
    free(r);
}
