/* What a member answers about a bucket that moves, rule by rule; and a mover on its own. */
#include "expect.h"

#include "alloc_fail.h"
#include "kvs/map/bucket_state.h"
#include "kvs/migrate/bucket_migration.h"

#define STORED (HTC__KV_BUCKET_YES | HTC__KV_BUCKET_STORE)

Test(hold, sealed_it_serves_that_epoch_no_more)
{
    htc__kv_bucket_state h = htc__kv_bucket_state_first(5, 0);
    cr_expect(htc__kv_bucket_state_serves(&h, 5) && htc__kv_bucket_state_serves(&h, 4) == 0 && htc__kv_bucket_state_serves(&h, 6) == 0);
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 4), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 5), STORED));
    cr_expect(eq(int, htc__kv_bucket_state_serves(&h, 5), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 5), HTC__KV_BUCKET_YES)); /* the next mover asks again */
    /* Rolled back: the same image, under the next epoch. */
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 7, 0), HTC__KV_BUCKET_STORE));
    cr_expect(htc__kv_bucket_state_serves(&h, 7) && htc__kv_bucket_state_serves(&h, 5) == 0);
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 5), 0));
}

Test(hold, without_the_activated_image_it_answers_no_seal)
{
    htc__kv_bucket_state wiped = { 0 }, old = htc__kv_bucket_state_first(5, 0);
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&wiped, 5), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&wiped, 5, 0), HTC__KV_BUCKET_LATE));
    /* In both sets, and the image that was activated never came. */
    htc__kv_bucket_state_seal(&old, 5);
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&old, 6, 6), HTC__KV_BUCKET_LATE));
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&old, 6), 0));
    cr_expect(eq(int, htc__kv_bucket_state_serves(&old, 6), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_copied(&old, 6, 6), HTC__KV_BUCKET_STORE));
    cr_expect(htc__kv_bucket_state_serves(&old, 6) && htc__kv_bucket_state_copied(&old, 6, 6) == 0);
}

Test(hold, only_the_image_that_the_map_names_counts)
{
    htc__kv_bucket_state h = { 0 };
    cr_expect(
        eq(uint, htc__kv_bucket_state_install(&h, 6, 1, 0), HTC__KV_BUCKET_CLEAR | HTC__KV_BUCKET_STORE)); /* page 0 is missing */
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 6, 0, 0), STORED | HTC__KV_BUCKET_TAKE));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 6, 0, 0), STORED)); /* twice: taken once */
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 8, 0, 1), STORED | HTC__KV_BUCKET_CLEAR | HTC__KV_BUCKET_TAKE));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 6, 1, 1), 0)); /* a lower number overwrites nothing */
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 7, 7), HTC__KV_BUCKET_LATE));
    cr_expect(eq(int, htc__kv_bucket_state_serves(&h, 8), 0)); /* installed is not activated */
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 8, 8), HTC__KV_BUCKET_BECOME | HTC__KV_BUCKET_STORE));
    cr_expect(eq(int, htc__kv_bucket_state_serves(&h, 8), 1));
    /* Late and repeated installs change nothing at an owner that serves. */
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 8, 0, 1), HTC__KV_BUCKET_YES));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 7, 0, 1), HTC__KV_BUCKET_YES));
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 7, 7), 0));
    cr_expect(eq(int, htc__kv_bucket_state_serves(&h, 8), 1));
}

/* It may have confirmed anything in any epoch that there was: no image will do that it can ever have had. */
Test(hold, one_that_is_lost_takes_none_that_it_can_have_had)
{
    htc__kv_bucket_state h = htc__kv_bucket_state_lost();
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 9), HTC__KV_BUCKET_LOST | HTC__KV_BUCKET_STORE));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 12, 0, 1), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 12, 12), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_copied(&h, 12, 12), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_known(&h, 7), HTC__KV_BUCKET_STORE)); /* the map was read before epoch 9 began */
    cr_expect(eq(u64, h.sealed, 9));
    cr_expect(eq(uint, htc__kv_bucket_state_known(&h, 20), 0)); /* once */
    /* The bucket's epoch becomes another one, its image stays: what was confirmed before counts there. */
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 12, 9), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 9, 0, 1), 0));
    cr_expect(eq(uint, htc__kv_bucket_state_install(&h, 13, 0, 1), STORED | HTC__KV_BUCKET_CLEAR | HTC__KV_BUCKET_TAKE));
    cr_expect(htc__kv_bucket_state_serves(&h, 13) == 0 && htc__kv_bucket_state_has(&h, 13) == 0);
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 13, 13), HTC__KV_BUCKET_BECOME | HTC__KV_BUCKET_STORE));
    cr_expect(htc__kv_bucket_state_serves(&h, 13) && h.lost == 0);
    /* Or it is late, with an image that it has never had; but not once it was sealed for that. */
    h = htc__kv_bucket_state_lost();
    htc__kv_bucket_state_known(&h, 9);
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 14, 13), HTC__KV_BUCKET_LATE));
    cr_expect(eq(uint, htc__kv_bucket_state_seal(&h, 14), HTC__KV_BUCKET_LOST | HTC__KV_BUCKET_STORE));
    cr_expect(eq(uint, htc__kv_bucket_state_copied(&h, 14, 13), 0));
    cr_expect(htc__kv_bucket_state_serves(&h, 14) == 0);
}

Test(hold, an_image_that_is_not_whole_is_none)
{
    htc__kv_bucket_state h = { 0 };
    htc__kv_bucket_state_install(&h, 6, 0, 0);
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 6, 6), HTC__KV_BUCKET_LATE));
}

/* Seed 6218 of test_mover: an owner that was late had copied, served, and then the image was whole after all; after a roll-back
 * to that image it forgot what it had accepted since. */
Test(hold, an_image_takes_the_place_of_nothing_that_began_as_it)
{
    htc__kv_bucket_state h = { 0 };
    htc__kv_bucket_state_install(&h, 6, 0, 0);
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 6, 6), HTC__KV_BUCKET_LATE));
    htc__kv_bucket_state_install(&h, 6, 1, 1);
    cr_expect(eq(uint, htc__kv_bucket_state_copied(&h, 6, 6), HTC__KV_BUCKET_STORE));
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 8, 6), HTC__KV_BUCKET_STORE));
    h.arriving = 6; /* however it came there */
    h.complete = 1;
    cr_expect(eq(uint, htc__kv_bucket_state_learn(&h, 9, 6), HTC__KV_BUCKET_STORE));
}

Test(hold, bytes)
{
    htc__kv_bucket_state
        h = { .epoch = 300, .image = 200, .sealed = 300, .arriving = 400, .pages = 7, .held = 1, .complete = 1 },
        again;
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_bucket_state_write(&b, &h);
    cr_assert(htc__kv_bucket_state_read(htc_buf_bytes(&b), &again) == HTC_OK);
    cr_expect(again.epoch == 300 && again.image == 200 && again.sealed == 300 && again.arriving == 400 &&
              again.pages == 7);
    cr_expect(again.held && again.complete && !again.lost);
    for (size_t n = 0; n < b.len; n++)
        cr_expect(htc__kv_bucket_state_read((htc_bytes){ b.data, n }, &again) == HTC_ECORRUPT);
    htc_buf_clear(&b);
    h = htc__kv_bucket_state_lost();
    htc__kv_bucket_state_write(&b, &h);
    cr_assert(htc__kv_bucket_state_read(htc_buf_bytes(&b), &again) == HTC_OK && again.lost && !again.held && again.sealed == UINT64_MAX);
    b.data[0] |= 1; /* held and lost: no record is like that */
    cr_expect(htc__kv_bucket_state_read(htc_buf_bytes(&b), &again) == HTC_ECORRUPT);
    htc_buf_free(&b);
}

/* ---- a mover ---- */

typedef struct heard {
    unsigned seals, installs, activations;
    uint64_t image_version;
} heard;

static void seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    heard *h = ctx;
    (void)to;
    (void)bucket;
    (void)epoch;
    (void)after;
    h->seals++;
}

static void install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries)
{
    heard *h = ctx;
    (void)to;
    (void)bucket;
    (void)number;
    (void)page;
    (void)last;
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    h->installs++;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell))
        h->image_version = cell.version;
    cr_expect(r.status == HTC_OK && floors->version == 20);
}

static void activate(void *ctx, uint64_t number)
{
    heard *h = ctx;
    h->activations += number == 9;
}

static void entry(htc_buf *b, const char *key, uint64_t version, uint64_t counter)
{
    htc__kv_cell cell = {
        .present = 1, .version = version, .accepted = { 5, counter, 1 }, .promise = { 5, counter + 9, 2 }
    };
    htc__kv_entry_write(b, htc_bytes_of(key), &cell);
}

static htc_status move(const htc_env *env, heard *h)
{
    htc__kv_migration        *m;
    htc__kv_migration_options options = { 0 };
    htc__kv_migration_host    host = { seal, install, activate, h };
    htc__kv_map_move      to = { .epoch = 5, .from_n = 3, .from = { 1, 2, 3 }, .to_n = 3, .to = { 2, 3, 4 } };
    htc__kv_floors        floors = { .version = 20 };
    htc_bytes             none = { NULL, 0 };
    htc_buf               b;
    *h = (heard){ 0 };
    htc_status status = htc__kv_migration_create(env, &options, &host, &to, 9, 0, &m);
    if (status != HTC_OK)
        return status;
    htc_buf_init(&b, NULL, 0);
    htc__kv_migration_timeout(m, 0);
    cr_expect(eq(uint, h->seals, 3));
    entry(&b, "a", 4, 70);
    status = htc__kv_migration_shown(m, 1, 1, none, &floors, htc_buf_bytes(&b), 1);
    cr_expect(eq(uint, h->installs, 0)); /* one is no majority, nor is one twice, nor a stranger */
    htc__kv_migration_shown(m, 1, 1, none, &floors, htc_buf_bytes(&b), 1);
    htc__kv_migration_shown(m, 1, 8, none, &floors, htc_buf_bytes(&b), 1);
    cr_expect(eq(uint, h->installs, 0));
    htc_buf_clear(&b);
    entry(&b, "a", 3, 80);
    if (status == HTC_OK)
        status = htc__kv_migration_shown(m, 1, 2, none, &floors, htc_buf_bytes(&b), 1);
    if (status == HTC_OK) {
        cr_expect(eq(uint, h->installs, 3));
        cr_expect(eq(u64, h->image_version, 3)); /* the highest ballot counts, not the highest version */
        htc__kv_migration_installed(m, 2, 2, 9, 1);
        htc__kv_migration_installed(m, 2, 2, 9, 1);
        htc__kv_migration_installed(m, 2, 1, 9, 1);
        htc__kv_migration_installed(m, 2, 3, 8, 1);
        cr_expect(eq(uint, h->activations, 0));
        htc__kv_migration_installed(m, 2, 4, 9, 1);
        htc__kv_migration_installed(m, 2, 3, 9, 1);
        cr_expect(eq(uint, h->activations, 1));
    }
    htc__kv_migration_destroy(m);
    htc_buf_free(&b);
    return status;
}

Test(mover_alone, a_majority_sealed_then_a_majority_installed)
{
    heard h;
    cr_expect(move(NULL, &h) == HTC_OK);
}

Test(mover_alone, refuses_what_is_no_state)
{
    heard                 h = { 0 };
    htc__kv_migration        *m;
    htc__kv_migration_options options = { .bytes_max = 64 };
    htc__kv_migration_host    host = { seal, install, activate, &h };
    htc__kv_map_move      to = { .epoch = 5, .from_n = 1, .from = { 1 }, .to_n = 1, .to = { 2 } };
    htc__kv_floors        floors = { .version = 20 };
    htc_bytes             none = { NULL, 0 };
    htc_buf               b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(htc__kv_migration_create(NULL, &options, &host, &to, 9, 0, &m) == HTC_OK);
    entry(&b, "b", 1, 1);
    entry(&b, "a", 1, 1); /* not in order */
    cr_expect(htc__kv_migration_shown(m, 1, 1, none, &floors, htc_buf_bytes(&b), 1) == HTC_EPROTO);
    cr_expect(htc__kv_migration_shown(m, 1, 1, none, &floors, (htc_bytes){ b.data, b.len - 1 }, 1) == HTC_EPROTO);
    cr_expect(htc__kv_migration_shown(m, 1, 1, none, &floors, none, 0) == HTC_EPROTO); /* gets no further */
    htc_buf_clear(&b);
    for (char key[2] = "a"; key[0] < 'f'; key[0]++)
        entry(&b, key, 1, 1);
    cr_expect(htc__kv_migration_shown(m, 1, 1, none, &floors, htc_buf_bytes(&b), 1) == HTC_EFULL);
    htc__kv_migration_destroy(m);
    htc_buf_free(&b);
}

Test(mover_alone, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env    env = alloc_fail_env(&f);
        heard      h;
        htc_status status = move(&env, &h);
        cr_expect(status == HTC_OK ? h.activations == 1 : status == HTC_ENOMEM && f.refused);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
