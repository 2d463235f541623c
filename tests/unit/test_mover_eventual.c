/* Who moves a bucket with eventual keys: what is installed of them, when it waits for more owners than a majority, and when no longer. */
#include <stdio.h>

#include "alloc_fail.h"
#include "htcsched/kv.h"
#include "kvs/migrate/bucket_migration.h"
#include "property.h"

typedef struct heard {
    int      seals, eventual_seals, installs, pages, activated;
    uint32_t enough; /* of the owners that have shown, a bit each */
    char     image[256];
    size_t   len;
    uint64_t to;
} heard;

static void seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    (void)to, (void)bucket, (void)epoch, (void)after;
    ((heard *)ctx)->seals++;
}

static void install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last, const htc__kv_floors *floors,
                    htc_bytes entries)
{
    (void)to, (void)bucket, (void)number, (void)page, (void)last, (void)floors, (void)entries;
    ((heard *)ctx)->installs++;
}

static void activate(void *ctx, uint64_t number)
{
    (void)number;
    ((heard *)ctx)->activated++;
}

static void seal_eventual(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    (void)to, (void)bucket, (void)epoch, (void)after;
    ((heard *)ctx)->eventual_seals++;
}

/* What one of them is told, as text: key, state, and "." behind the last page. */
static void install_eventual(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                             const htc__kv_floors *floors, htc_bytes entries)
{
    heard     *h = ctx;
    htc_reader r = htc_reader_of(entries);
    htc_bytes  key, state;
    (void)bucket, (void)number, (void)page, (void)floors;
    if (to != h->to)
        return;
    h->pages++;
    while (htc__kv_eventual_entry_read(&r, &key, &state))
        h->len += (size_t)snprintf(h->image + h->len, sizeof h->image - h->len, "%.*s=%.*s ", (int)key.len - 2, (const char *)key.data + 2,
                                   (int)state.len, (const char *)state.data);
    h->len += (size_t)snprintf(h->image + h->len, sizeof h->image - h->len, last ? "." : "");
}

static int enough(void *ctx, const htc__kv_map_move *move, uint32_t shown)
{
    const heard *h = ctx;
    (void)move;
    return (shown & h->enough) == h->enough;
}

static htc_status mover_of(const htc_env *env, heard *h, size_t page_max, htc__kv_migration_eventual *e, htc__kv_migration **m)
{
    *e = (htc__kv_migration_eventual){ seal_eventual, install_eventual, enough, h, HTC_SECOND };
    htc__kv_migration_options o = { .page_max = page_max, .eventual = e };
    htc__kv_migration_host    host = { seal, install, activate, h };
    htc__kv_map_move      move = { .bucket = 1, .epoch = 1, .mover = 2, .from_n = 3, .to_n = 3, .from = { 1, 2, 3 }, .to = { 2, 3, 4 } };
    return htc__kv_migration_create(env, &o, &host, &move, 2, 0, m);
}

/* "a1 b" : of key a the state 1, of key b none, for it is damaged there. */
static htc_status show(htc__kv_migration *m, htc_ns now, uint64_t from, const char *what, int last)
{
    htc__kv_floors floors = { 0 };
    htc_bytes      none = { NULL, 0 };
    htc_buf        b;
    htc_status status = htc__kv_migration_shown(m, now, from, none, &floors, none, 1);
    htc_buf_init(&b, NULL, 0);
    for (const char *at = what; *at; at += strcspn(at, " "), at += *at == ' ') {
        char key[3] = { 'e', 0, at[0] };
        htc_put_bytes(&b, (htc_bytes){ key, sizeof key });
        htc_put_bytes(&b, (htc_bytes){ at + 1, strcspn(at, " ") - 1 });
    }
    if (status == HTC_OK)
        status = htc__kv_migration_shown_eventual(m, now, from, none, htc_buf_bytes(&b), last);
    htc_buf_free(&b);
    return status;
}

Test(mover_eventual, the_image_has_all_that_was_shown)
{
    heard                  h = { .to = 4 };
    htc__kv_migration_eventual e;
    htc__kv_migration         *m;
    cr_assert(mover_of(NULL, &h, 0, &e, &m) == HTC_OK);
    htc__kv_migration_timeout(m, 0);
    cr_expect(h.seals == 3 && h.eventual_seals == 0);
    cr_expect(show(m, 1, 1, "a1 b1 d4", 1) == HTC_OK && h.eventual_seals == 1 && h.installs == 0);
    cr_expect(show(m, 1, 3, "b2 c3 d a1", 1) == HTC_OK);
    cr_expect(show(m, 1, 2, "z9", 1) == HTC_OK); /* too late */
    /* The other keys first, none here; then each state of each key once. */
    cr_expect(h.installs == 3 && h.pages == 0);
    htc__kv_migration_installed(m, 1, 4, 2, 1);
    cr_expect(strcmp(h.image, "a=1 b=1 b=2 c=3 d=4 .") == 0);
    htc__kv_migration_installed(m, 1, 2, 2, 1);
    htc__kv_migration_installed(m, 1, 4, 2, 2);
    cr_expect(h.activated == 0);
    htc__kv_migration_installed(m, 1, 2, 2, 2);
    cr_expect(h.activated == 1);
    htc__kv_migration_destroy(m);
}

Test(mover_eventual, it_comes_in_pages)
{
    heard                  h = { .to = 4 };
    htc__kv_migration_eventual e;
    htc__kv_migration         *m;
    cr_assert(mover_of(NULL, &h, 1, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "a1", 0) == HTC_OK && h.eventual_seals == 2); /* what stands behind that */
    cr_expect(htc__kv_migration_shown_eventual(m, 1, 1, (htc_bytes){ "e\0a", 3 }, (htc_bytes){ "\3e\0c\0013", 6 }, 1) == HTC_OK);
    cr_expect(show(m, 1, 2, "", 1) == HTC_OK);
    for (uint32_t pages = 1; pages <= 3; pages++)
        htc__kv_migration_installed(m, 1, 4, 2, pages);
    cr_expect(strcmp(h.image, "a=1 c=3 .") == 0 && h.pages == 2);
    cr_expect(htc__kv_migration_shown_eventual(m, 1, 3, (htc_bytes){ NULL, 0 }, (htc_bytes){ NULL, 0 }, 0) == HTC_OK);
    htc__kv_migration_destroy(m);
    cr_assert(mover_of(NULL, &h, 1, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "", 0) == HTC_EPROTO); /* nothing, and there is more */
    cr_expect(htc__kv_migration_shown_eventual(m, 1, 1, (htc_bytes){ NULL, 0 }, (htc_bytes){ "\3exc\0013", 6 }, 1) == HTC_EPROTO);
    htc__kv_migration_destroy(m);
}

/* Whose records are not all whole is not one of those that are enough. */
Test(mover_eventual, it_waits_for_more_than_damaged_records)
{
    heard                  h = { .to = 4, .enough = 3 };
    htc__kv_migration_eventual e;
    htc__kv_migration         *m;
    cr_assert(mover_of(NULL, &h, 0, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "a1 b", 1) == HTC_OK && show(m, 1, 2, "a1", 1) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 2, 3, "b2", 1) == HTC_OK && h.installs == 3); /* there is nobody else */
    htc__kv_migration_installed(m, 2, 4, 2, 1);
    cr_expect(strcmp(h.image, "a=1 b=2 .") == 0);
    htc__kv_migration_destroy(m);
}

/* For the third one where a majority is not enough, but not for ever. */
Test(mover_eventual, it_waits_for_more_for_a_while)
{
    heard                  h = { .to = 4, .enough = 4 };
    htc__kv_migration_eventual e;
    htc__kv_migration         *m;
    cr_assert(mover_of(NULL, &h, 0, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "a1", 1) == HTC_OK && show(m, 1, 2, "a1", 1) == HTC_OK && h.installs == 0);
    cr_expect(show(m, 2, 3, "a2", 1) == HTC_OK && h.installs == 3);
    htc__kv_migration_destroy(m);
    h = (heard){ .to = 4, .enough = 4 };
    cr_assert(mover_of(NULL, &h, 0, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "a1", 1) == HTC_OK && show(m, 1, 2, "a1", 1) == HTC_OK);
    for (htc_ns now = 1; h.installs == 0; now = htc__kv_migration_deadline(m)) {
        cr_assert(now < 2 * HTC_SECOND);
        cr_assert(htc__kv_migration_timeout(m, now) == HTC_OK);
        cr_expect(h.installs == 0 || now > HTC_SECOND);
    }
    htc__kv_migration_destroy(m);
    h = (heard){ .to = 4, .enough = 1 };
    cr_assert(mover_of(NULL, &h, 0, &e, &m) == HTC_OK);
    cr_expect(show(m, 1, 1, "a1", 1) == HTC_OK && show(m, 1, 2, "a1", 1) == HTC_OK && h.installs == 3);
    htc__kv_migration_destroy(m);
}

Test(mover_eventual, memory_runs_out_anywhere)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env                env = alloc_fail_env(&f);
        heard                  h = { .to = 4 };
        htc__kv_migration_eventual e;
        htc__kv_migration         *m = NULL;
        htc_status             status = mover_of(&env, &h, 1, &e, &m);
        if (status == HTC_OK)
            status = show(m, 1, 1, "a1 b1 c1", 1);
        if (status == HTC_OK)
            status = show(m, 1, 2, "a2 b1", 1);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        htc__kv_migration_destroy(m);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
