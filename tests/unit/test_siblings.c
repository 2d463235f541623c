/* The values of an eventual key, against sets of writes: each replica knows a set of writes, and holds those of them that
 * nothing it knows has replaced. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "kvs/util/digest.h"
#include "kvs/util/place.h"
#include "kvs/cell/siblings.h"
#include "property.h"

#define REPLICAS 4
#define CLIENTS  4
#define WRITES   64 /* of one member, at most */

/* ---- The model ---- */

typedef struct model {
    uint8_t known[REPLICAS][WRITES + 1]; /* by member and number: this write, and so what it replaced, is known */
    uint8_t live[REPLICAS][WRITES + 1];
} model;

static unsigned live(const model *m)
{
    unsigned n = 0;
    for (int i = 0; i < REPLICAS; i++) {
        for (int w = 1; w <= WRITES; w++)
            n += m->live[i][w];
    }
    return n;
}

static void model_merge(model *a, const model *b)
{
    for (int i = 0; i < REPLICAS; i++) {
        for (int w = 1; w <= WRITES; w++) {
            a->live[i][w] = (a->live[i][w] && b->live[i][w]) || (a->live[i][w] && !b->known[i][w]) ||
                            (b->live[i][w] && !a->known[i][w]);
            a->known[i][w] |= b->known[i][w];
        }
    }
}

static int newest(const model *m, int member)
{
    int w = WRITES;
    while (w > 0 && !m->known[member][w])
        w--;
    return w;
}

/* A put of a client that had seen what `seen` knows: 0 if there would be too many values. */
static int model_put(model *m, const model *seen, int member)
{
    model after = *m, context = *seen;
    memset(context.live, 0, sizeof context.live);
    model_merge(&after, &context);
    int w = newest(&after, member) + 1;
    if (live(&after) >= HTC__SIBLINGS_MAX || w > WRITES)
        return 0;
    after.known[member][w] = after.live[member][w] = 1;
    *m = after;
    return w;
}

/* ---- A replica under test ---- */

typedef struct replica {
    htc_buf bytes;
    model   model;
} replica;

static void store(replica *r, const htc__siblings *s)
{
    htc_buf bytes; /* values are borrowed from the old ones */
    htc_buf_init(&bytes, NULL, 0);
    htc__siblings_write(&bytes, s);
    HOLDS(bytes.status == HTC_OK);
    htc_buf_free(&r->bytes);
    r->bytes = bytes;
}

static void load(const htc_buf *bytes, htc__siblings *s)
{
    HOLDS(htc__siblings_read(htc_buf_bytes(bytes), s) == HTC_OK);
}

static void agree(const replica *r)
{
    htc__siblings s;
    load(&r->bytes, &s);
    HOLDS(s.values == live(&r->model));
    for (uint32_t i = 0; i < s.values; i++) {
        int  member, number;
        char text[16];
        HOLDS(s.value[i].value.len < sizeof text);
        snprintf(text, sizeof text, "%.*s", (int)s.value[i].value.len, (const char *)s.value[i].value.data);
        HOLDS(sscanf(text, "%d:%d;", &member, &number) == 2);
        HOLDS(r->model.live[member][number] == 1);
        HOLDS(s.value[i].sequence == (uint64_t)number);
    }
    for (int m = 0; m < REPLICAS; m++) {
        uint64_t counter = 0;
        for (uint32_t i = 0; i < s.lines; i++)
            counter = s.line[i].member == (uint64_t)m + 1 ? s.line[i].counter : counter;
        HOLDS(counter == (uint64_t)newest(&r->model, m));
    }
}

static htc_status put(replica *r, int member, htc_bytes context_bytes, const model *seen)
{
    static htc__siblings s, context, after;
    char                 text[16] = "";
    load(&r->bytes, &s);
    HOLDS(htc__siblings_read(context_bytes, &context) == HTC_OK);
    int w = model_put(&r->model, seen, member);
    snprintf(text, sizeof text, "%d:%d;", member, w);
    htc__sibling value = { .client = 1, .sequence = (uint64_t)w, .value = { text, strlen(text) } };
    htc_status   status = htc__siblings_put(&after, &s, &context, (uint64_t)member + 1, &value);
    if (w == 0)
        return HTC_EFULL;
    HOLDS(status == HTC_OK);
    store(r, &after);
    return status;
}

static htc__causal model_compare(const model *a, const model *b)
{
    model ab = *a;
    model_merge(&ab, b);
    int before = memcmp(&ab, b, sizeof ab) == 0, after = memcmp(&ab, a, sizeof ab) == 0;
    return before  ? (after ? HTC__CAUSAL_SAME : HTC__CAUSAL_BEFORE)
           : after ? HTC__CAUSAL_AFTER
                   : HTC__CAUSAL_CONCURRENT;
}

Test(siblings, agree_with_sets_of_writes)
{
    PROPERTY(rng, 1500)
    {
        replica r[REPLICAS] = { 0 };
        htc_buf context[CLIENTS];
        model   seen[CLIENTS] = { 0 };
        for (int i = 0; i < REPLICAS; i++) {
            htc_buf_init(&r[i].bytes, NULL, 0);
            htc_buf_init(&context[i], NULL, 0);
        }
        for (int step = 0; step < 60; step++) {
            int                  a = (int)htc_rng_below(&rng, REPLICAS), b = (int)htc_rng_below(&rng, REPLICAS);
            int                  c = (int)htc_rng_below(&rng, CLIENTS);
            static htc__siblings s, t, both, other;
            switch (htc_rng_below(&rng, 4)) {
            case 0: /* a get: the context that the next put of this client carries */
                load(&r[a].bytes, &s);
                htc_buf_clear(&context[c]);
                htc__siblings_write_context(&context[c], &s);
                seen[c] = r[a].model;
                break;
            case 1:
            case 2:
                put(&r[a], a, htc_buf_bytes(&context[c]), &seen[c]);
                break;
            default:
                if (a == b)
                    break;
                load(&r[a].bytes, &s);
                load(&r[b].bytes, &t);
                HOLDS(htc__siblings_compare(&s, &t) == model_compare(&r[a].model, &r[b].model));
                HOLDS(htc__siblings_merge(&both, &s, &t) == HTC_OK);
                HOLDS(htc__siblings_merge(&other, &t, &s) == HTC_OK);
                HOLDS(htc__siblings_compare(&both, &other) == HTC__CAUSAL_SAME);
                store(&r[a], &both);
                model_merge(&r[a].model, &r[b].model);
            }
            agree(&r[a]);
        }
        for (int i = 0; i < REPLICAS; i++) {
            htc_buf_free(&r[i].bytes);
            htc_buf_free(&context[i]);
        }
    }
}

/* ---- By hand ---- */

static htc__sibling value_of(const char *text)
{
    return (htc__sibling){ .client = 7, .sequence = 1, .value = { text, strlen(text) } };
}

static htc__siblings must_put(const htc__siblings *s, const htc__siblings *context, uint64_t member, const char *text)
{
    htc__siblings out;
    htc__sibling  v = value_of(text);
    cr_assert(eq(int, htc__siblings_put(&out, s, context, member, &v), HTC_OK));
    return out;
}

static htc__siblings context_of(const htc__siblings *s)
{
    htc__siblings c;
    htc_buf       b;
    htc_buf_init(&b, NULL, 0);
    htc__siblings_write_context(&b, s);
    cr_assert(eq(int, htc__siblings_read(htc_buf_bytes(&b), &c), HTC_OK));
    htc_buf_free(&b);
    return c;
}

Test(siblings, two_writers_through_one_member_both_survive)
{
    htc__siblings empty = { 0 };
    htc__siblings first = must_put(&empty, &empty, 5, "old");
    htc__siblings seen = context_of(&first);
    htc__siblings one = must_put(&first, &seen, 5, "one");
    htc__siblings two = must_put(&one, &seen, 5, "two"); /* had not seen "one" */
    cr_assert(eq(u32, two.values, 2));
    cr_assert(eq(int, memcmp(two.value[0].value.data, "two", 3), 0));
    cr_assert(eq(int, memcmp(two.value[1].value.data, "one", 3), 0));
    htc__siblings all = context_of(&two), after = must_put(&two, &all, 6, "both");
    cr_assert(eq(u32, after.values, 1));
    cr_assert(eq(u32, after.lines, 2));
}

Test(siblings, the_seventeenth_value_is_refused)
{
    static htc__siblings s, out;
    htc__siblings        empty = { 0 };
    htc__sibling         v = value_of("x");
    s = empty;
    for (int i = 0; i < HTC__SIBLINGS_MAX; i++)
        s = must_put(&s, &empty, (uint64_t)(i % 3 + 1), "v");
    cr_assert(eq(u32, s.values, HTC__SIBLINGS_MAX));
    cr_assert(eq(int, htc__siblings_put(&out, &s, &empty, 1, &v), HTC_EFULL));
    htc__siblings seen = context_of(&s);
    cr_assert(eq(int, htc__siblings_put(&out, &s, &seen, 1, &v), HTC_OK));
    cr_assert(eq(u32, out.values, 1));
}

Test(siblings, what_no_honest_client_sends)
{
    htc__siblings s = { .lines = 1, .line = { { 9, HTC__SIBLINGS_COUNTER, 0, 0 } } }, empty = { 0 }, out;
    htc__sibling  v = value_of("x");
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &s, 9, &v), HTC_EINVAL));
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &s, 8, &v), HTC_OK));
    s.line[0].counter++; /* the floor of a store whose numbers are used up */
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &s, 9, &v), HTC_EINVAL));
    htc__siblings with = must_put(&empty, &empty, 1, "x");
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &with, 1, &v), HTC_EINVAL));
}

Test(siblings, a_context_far_above_all_that_is_held)
{
    htc__siblings held = { .lines = 1, .line = { { 9, 1000, 0, 0 } } }, empty = { 0 };
    htc__siblings at = { .lines = 2, .line = { { 8, HTC__SIBLINGS_LEAP + 7, 0, 0 }, { 9, HTC__SIBLINGS_LEAP + 1000, 0, 0 } } };
    cr_assert(not(htc__siblings_leaps(&at, &held, 7)) && htc__siblings_leaps(&at, &held, 6) && htc__siblings_leaps(&at, &empty, 7));
    cr_assert(not(htc__siblings_leaps(&at, &empty, 1000)) && not(htc__siblings_leaps(&empty, &held, 0)));
    at.line[1].counter++;
    cr_assert(htc__siblings_leaps(&at, &held, 7));
}

Test(siblings, more_lines_than_there_is_room_for)
{
    static htc__siblings a, b, out;
    htc__siblings        empty = { 0 };
    for (uint64_t m = 1; m <= HTC__SIBLINGS_LINES; m++) {
        a.line[a.lines++] = (htc__siblings_line){ m, 1, 0, 0 };
        b.line[b.lines++] = (htc__siblings_line){ m + 1, 1, 0, 0 };
    }
    htc__sibling v = value_of("x");
    cr_assert(eq(int, htc__siblings_merge(&out, &a, &b), HTC_EFULL));
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &a, HTC__SIBLINGS_LINES + 1, &v), HTC_EFULL));
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &a, HTC__SIBLINGS_LINES, &v), HTC_OK));
}

Test(siblings, largest_wins_and_a_deletion_loses)
{
    htc__siblings empty = { 0 }, s = must_put(&empty, &empty, 1, "a"), out;
    s = must_put(&s, &empty, 2, "c");
    s = must_put(&s, &empty, 3, "b");
    cr_assert(eq(int, memcmp(htc__siblings_largest(&s)->value.data, "c", 1), 0));
    htc__sibling gone = { .deleted = 1 };
    cr_assert(eq(int, htc__siblings_put(&out, &s, &empty, 4, &gone), HTC_OK));
    cr_assert(eq(int, htc__siblings_largest(&out)->deleted, 0));
    cr_assert(eq(int, htc__siblings_put(&out, &empty, &empty, 4, &gone), HTC_OK));
    cr_assert(eq(int, htc__siblings_largest(&out)->deleted, 1));
    cr_assert(!htc__siblings_largest(&empty));
    /* whichever of the two comes first */
    s = must_put(&empty, &empty, 2, "");
    cr_assert(eq(int, htc__siblings_put(&out, &s, &empty, 1, &gone), HTC_OK));
    cr_assert(eq(int, htc__siblings_largest(&out)->deleted, 0));
}

Test(siblings, who_knows_that_a_write_was_replaced_knows_more)
{
    htc__siblings empty = { 0 }, s = must_put(&empty, &empty, 1, "x"), bare = context_of(&s);
    cr_assert(eq(int, (int)htc__siblings_compare(&s, &bare), HTC__CAUSAL_BEFORE));
    cr_assert(eq(int, (int)htc__siblings_compare(&bare, &s), HTC__CAUSAL_AFTER));
    cr_assert(eq(int, (int)htc__siblings_compare(&empty, &s), HTC__CAUSAL_BEFORE));
    cr_assert(eq(int, (int)htc__siblings_compare(&s, &s), HTC__CAUSAL_SAME));
}

static htc_status read_of(htc_buf *b)
{
    htc__siblings s;
    htc_status    status = htc__siblings_read(htc_buf_bytes(b), &s);
    htc_buf_free(b);
    return status;
}

static void put_line(htc_buf *b, uint64_t member, uint64_t counter, unsigned count, unsigned flags)
{
    htc_put_u64(b, member);
    htc_put_varint(b, counter);
    htc_put_varint(b, count);
    for (unsigned i = 0; i < count; i++) {
        htc_put_u8(b, (uint8_t)flags);
        htc_put_u64(b, 7);
        htc_put_varint(b, 1);
        htc_put_bytes(b, htc_bytes_of("v"));
    }
}

Test(siblings, sets_that_cannot_be)
{
    static const struct {
        uint64_t   member[2], counter[2];
        unsigned   count, flags;
        htc_status status;
    } rows[] = {
        { { 1, 2 }, { 1, 1 }, 1, 0, HTC_OK },
        { { 2, 1 }, { 1, 1 }, 1, 0, HTC_EPROTO },                         /* out of order */
        { { 1, 1 }, { 1, 1 }, 1, 0, HTC_EPROTO },                         /* one member twice */
        { { 1, 2 }, { 1, 0 }, 0, 0, HTC_EPROTO },                         /* a line of nothing */
        { { 1, 2 }, { 1, 2 }, 2, 0, HTC_EPROTO },                         /* two values of one write */
        { { 1, 2 }, { 1, HTC__SIBLINGS_COUNTER }, 1, 0, HTC_OK },         /* the last counter */
        { { 1, 2 }, { 1, HTC__SIBLINGS_COUNTER + 1 }, 1, 0, HTC_EPROTO }, /* and beyond */
        { { 1, 2 }, { 1, 1 }, 1, 1, HTC_EPROTO },                         /* deleted, with a value */
        { { 1, 2 }, { 1, 1 }, 1, 2, HTC_EPROTO },                         /* an unknown flag */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc_put_varint(&b, 2);
        for (int j = 0; j < 2; j++)
            put_line(&b, rows[i].member[j], rows[i].counter[j], rows[i].count, rows[i].flags);
        cr_expect(eq(int, read_of(&b), rows[i].status), "row %zu", i);
    }
}

/* One byte of a good set changed: refused, or a set that is written as it was read. */
Test(siblings, bytes_from_anybody)
{
    PROPERTY(rng, 3000)
    {
        htc__siblings empty = { 0 }, s = must_put(&empty, &empty, 3, "abc"), t;
        htc_buf       b, again;
        s = must_put(&s, &empty, 9, "d");
        htc_buf_init(&b, NULL, 0);
        htc_buf_init(&again, NULL, 0);
        htc__siblings_write(&b, &s);
        b.data[htc_rng_below(&rng, b.len)] = (uint8_t)htc_rng_next(&rng);
        size_t len = htc_rng_below(&rng, 4) ? b.len : htc_rng_below(&rng, b.len);
        if (htc__siblings_read((htc_bytes){ b.data, len }, &t) == HTC_OK && len) {
            htc__siblings_write(&again, &t);
            HOLDS(again.len == len && memcmp(again.data, b.data, len) == 0);
        }
        htc_buf_free(&b);
        htc_buf_free(&again);
    }
}

/* ---- Comparing buckets ---- */

/* Two copies of a bucket: the leaves that differ are those of the keys that do. */
Test(digest, finds_just_the_leaves_that_differ)
{
    PROPERTY(rng, 500)
    {
        htc__digest a = { 0 }, b = { 0 };
        uint8_t     differs[HTC__DIGEST_LEAVES] = { 0 };
        uint32_t    k = 1 + (uint32_t)htc_rng_below(&rng, 30);
        for (int i = 0; i < 300; i++) {
            uint64_t  number = htc_rng_next(&rng), state = htc_rng_next(&rng);
            htc_bytes key = { &number, sizeof number };
            uint32_t  leaf = htc__digest_leaf(htc__kv_place(1, key), k);
            HOLDS(leaf < HTC__DIGEST_LEAVES);
            htc__digest_add(&a, leaf, htc__digest_record(key, (htc_bytes){ &state, sizeof state }));
            if (htc_rng_below(&rng, 30) == 0) {
                state++;
                differs[leaf] = 1;
            }
            htc__digest_add(&b, leaf, htc__digest_record(key, (htc_bytes){ &state, sizeof state }));
        }
        int any = 0;
        for (uint32_t i = 0; i < HTC__DIGEST_LEAVES; i++) {
            HOLDS(differs[i] == (a.leaf[i] != b.leaf[i]));
            any |= differs[i];
            if (differs[i])
                HOLDS(htc__digest_branch(&a, i / 16) != htc__digest_branch(&b, i / 16));
        }
        HOLDS(any == (htc__digest_root(&a) != htc__digest_root(&b)));
    }
}

Test(digest, order_does_not_count_and_what_is_removed_is_gone)
{
    htc__digest a = { 0 }, b = { 0 };
    uint64_t    one = htc__digest_record(htc_bytes_of("k"), htc_bytes_of("1"));
    uint64_t    two = htc__digest_record(htc_bytes_of("k"), htc_bytes_of("2"));
    cr_assert(ne(u64, one, two));
    cr_assert(ne(u64, one, htc__digest_record(htc_bytes_of("k1"), htc_bytes_of(""))));
    htc__digest_add(&a, 3, one);
    htc__digest_add(&a, 3, two);
    htc__digest_add(&b, 3, two);
    htc__digest_add(&b, 3, one);
    cr_assert(eq(u64, htc__digest_root(&a), htc__digest_root(&b)));
    htc__digest_remove(&a, 3, one);
    htc__digest_add(&a, 4, one);
    cr_assert(ne(u64, htc__digest_root(&a), htc__digest_root(&b)));
}

/* Keys of one bucket are spread over all leaves, wherever the bucket's bits end. */
Test(digest, leaves_are_used_evenly)
{
    for (uint32_t k = 1; k <= 30; k++) {
        unsigned count[HTC__DIGEST_LEAVES] = { 0 };
        for (uint64_t i = 0; i < 256 * 64; i++)
            count[htc__digest_leaf(htc__kv_place(k, (htc_bytes){ &i, sizeof i }), k)]++;
        for (int i = 0; i < HTC__DIGEST_LEAVES; i++)
            cr_assert(count[i] > 24 && count[i] < 120, "k %u, leaf %d: %u", k, i, count[i]);
    }
}

/* What members compute alike, whatever the order of bytes in their machines. */
Test(digest, words_are_hashed_as_they_stand_on_the_wire)
{
    const uint8_t  bytes[16] = { 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0xff };
    const uint64_t words[2] = { UINT64_C(0x0102030405060708), 0xff };
    cr_expect_eq(htc__digest_words(words, 2, 5), htc_hash64((htc_bytes){ bytes, sizeof bytes }, 5));
}
