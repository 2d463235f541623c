/* What a request does to a cell. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "kvs/cell/change.h"
#include "kvs/wire/kv_wire.h"
#include "property.h"

static htc_buf scratch;

static void setup(void)
{
    htc_buf_init(&scratch, NULL, 0);
}

static void teardown(void)
{
    htc_buf_free(&scratch);
}

TestSuite(change, .init = setup, .fini = teardown);

static htc_bytes B(const char *s)
{
    return htc_bytes_of(s);
}

static const htc__kv_stamp nobody = { 0 };

static htc__kv_changed ask(const htc__kv_cell *cell, htc_kv_request q, htc__kv_stamp stamp)
{
    htc__kv_changed out;
    htc__kv_change(cell, &q, &stamp, 0, &scratch, &out);
    return out;
}

static htc__kv_cell with(const char *value, uint64_t version)
{
    return (htc__kv_cell){ .present = 1, .version = version, .value = B(value) };
}

typedef struct row {
    const char    *name;
    const char    *before; /* NULL: absent */
    htc_kv_request q;
    htc_status     status;
    const char    *after; /* NULL: a tombstone; only if HTC_OK */
    int64_t        number;
} row;

Test(change, table)
{
    const row rows[] = {
        { "put", NULL, { .op = HTC_KV_PUT, .value = B("a") }, HTC_OK, "a", 0 },
        { "put over", "z", { .op = HTC_KV_PUT, .value = B("a") }, HTC_OK, "a", 0 },
        { "nx", NULL, { .op = HTC_KV_PUT, .value = B("a"), .flags = HTC_KV_NX }, HTC_OK, "a", 0 },
        { "nx there", "z", { .op = HTC_KV_PUT, .value = B("a"), .flags = HTC_KV_NX }, HTC_MISMATCH, NULL, 0 },
        { "xx", "z", { .op = HTC_KV_PUT, .value = B("a"), .flags = HTC_KV_XX }, HTC_OK, "a", 0 },
        { "xx missing", NULL, { .op = HTC_KV_PUT, .value = B("a"), .flags = HTC_KV_XX }, HTC_ENOTFOUND, NULL, 0 },
        { "touch", "z", { .op = HTC_KV_PUT, .value = B("a"), .flags = HTC_KV_TOUCH, .ttl = 5 }, HTC_OK, "z", 0 },
        { "touch missing", NULL, { .op = HTC_KV_PUT, .flags = HTC_KV_TOUCH, .ttl = 5 }, HTC_ENOTFOUND, NULL, 0 },
        { "persist", "z", { .op = HTC_KV_PUT, .flags = HTC_KV_TOUCH | HTC_KV_PERSIST }, HTC_ENOTFOUND, NULL, 0 },
        { "delete", "z", { .op = HTC_KV_DELETE }, HTC_OK, NULL, 0 },
        { "delete if_version", "z", { .op = HTC_KV_DELETE, .version = 5, .flags = HTC_KV_IF_VERSION }, HTC_OK, NULL, 0 },
        { "delete if_version other", "z", { .op = HTC_KV_DELETE, .version = 4, .flags = HTC_KV_IF_VERSION }, HTC_MISMATCH, NULL, 0 },
        { "delete if_version missing", NULL, { .op = HTC_KV_DELETE, .version = 4, .flags = HTC_KV_IF_VERSION }, HTC_MISMATCH, NULL, 0 },
        { "add 007", "007", { .op = HTC_KV_ADD, .delta = 1 }, HTC_EINVAL, NULL, 0 },
        { "add -0", "-0", { .op = HTC_KV_ADD, .delta = 1 }, HTC_EINVAL, NULL, 0 },
        { "add 0", "0", { .op = HTC_KV_ADD, .delta = 1 }, HTC_OK, "1", 1 },
        { "delete missing", NULL, { .op = HTC_KV_DELETE }, HTC_ENOTFOUND, NULL, 0 },
        { "append", "ab", { .op = HTC_KV_APPEND, .value = B("cd") }, HTC_OK, "abcd", 4 },
        { "append missing", NULL, { .op = HTC_KV_APPEND, .value = B("cd") }, HTC_OK, "cd", 2 },
        { "cas_version", "z", { .op = HTC_KV_CAS_VERSION, .version = 5, .value = B("a") }, HTC_OK, "a", 0 },
        { "cas_version other",
          "z",
          { .op = HTC_KV_CAS_VERSION, .version = 4, .value = B("a") },
          HTC_MISMATCH,
          NULL,
          0 },
        { "cas_version 0", NULL, { .op = HTC_KV_CAS_VERSION, .value = B("a") }, HTC_OK, "a", 0 },
        { "cas_version 0 there", "z", { .op = HTC_KV_CAS_VERSION, .value = B("a") }, HTC_MISMATCH, NULL, 0 },
        { "cas_value", "z", { .op = HTC_KV_CAS_VALUE, .seen = B("z"), .value = B("a") }, HTC_OK, "a", 0 },
        { "cas_value other", "y", { .op = HTC_KV_CAS_VALUE, .seen = B("z"), .value = B("a") }, HTC_MISMATCH, NULL, 0 },
        { "cas_value missing", NULL, { .op = HTC_KV_CAS_VALUE, .value = B("a") }, HTC_MISMATCH, NULL, 0 },
        { "add", "-7", { .op = HTC_KV_ADD, .delta = 10 }, HTC_OK, "3", 3 },
        { "add missing", NULL, { .op = HTC_KV_ADD, .delta = -2 }, HTC_OK, "-2", -2 },
        { "add no number", "7x", { .op = HTC_KV_ADD, .delta = 1 }, HTC_EINVAL, NULL, 0 },
        { "add too far", "9223372036854775807", { .op = HTC_KV_ADD, .delta = 1 }, HTC_ETOOBIG, NULL, 0 },
        { "expire without ttl", "z", { .op = HTC__KV_EXPIRE, .version = 5 }, HTC_MISMATCH, NULL, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row      *r = &rows[i];
        htc__kv_floors  floors = { .version = 5 };
        htc__kv_cell    cell = r->before ? with(r->before, 5) : htc__kv_cell_absent(&floors);
        htc__kv_changed out = ask(&cell, r->q, nobody);
        cr_expect(eq(int, out.result.status, r->status), "%s", r->name);
        if (r->status == HTC_OK) {
            cr_expect(eq(int, out.effect, HTC__KV_CHANGED), "%s", r->name);
            cr_expect(out.to.present && out.to.deleted == !r->after, "%s", r->name);
            cr_expect(htc_bytes_equal(out.to.value, B(r->after ? r->after : "")), "%s", r->name);
            cr_expect(eq(u64, out.to.version, 6), "%s", r->name);
            cr_expect(eq(u64, out.result.version, 6), "%s", r->name);
            cr_expect(eq(u64, out.to.forgot, r->before ? 0 : 5), "%s", r->name);
            cr_expect(eq(i64, out.result.number, r->number), "%s", r->name);
        } else {
            cr_expect(eq(int, out.effect, HTC__KV_UNCHANGED), "%s", r->name);
            cr_expect(eq(u64, out.observed, 5), "%s", r->name);
        }
        if (r->status == HTC_MISMATCH) {
            cr_expect(out.fields == HTC__KV_HAS_VALUE, "%s", r->name);
            cr_expect(eq(u64, out.result.version, r->before ? 5 : 0), "%s", r->name);
            cr_expect(htc_bytes_equal(out.result.value, B(r->before ? r->before : "")), "%s", r->name);
        }
    }
}

Test(change, a_repeated_change_is_answered)
{
    htc__kv_cell    cell = with("x", 5);
    htc__kv_stamp   stamp = { .client = 9, .sequence = 3 };
    htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_APPEND, .value = B("y") };
    htc__kv_changed first = ask(&cell, q, stamp);
    char            value[] = "xy";
    cell = first.to;
    cell.value = B(value);
    htc__kv_changed again = ask(&cell, q, stamp);
    cr_expect(eq(int, again.effect, HTC__KV_LISTED));
    cr_expect(eq(u64, again.result.version, 6));
    cr_expect(eq(i64, again.result.number, 2));
    stamp.sequence = 2; /* lower than the listed one */
    cr_expect(eq(int, ask(&cell, q, stamp).effect, HTC__KV_UNKNOWN));
    stamp.sequence = 4;
    cr_expect(eq(int, ask(&cell, q, stamp).effect, HTC__KV_CHANGED));
}

/* What it was is not kept. */
Test(change, a_repeated_change_says_whether_anything_was_there)
{
    for (int i = 0; i < 4; i++) {
        htc__kv_floors  floors = { .version = 5 };
        htc__kv_cell    cell = i & 1 ? with("x", 5) : htc__kv_cell_absent(&floors);
        htc__kv_stamp   stamp = { .client = 9, .sequence = 3, .since = 5 };
        htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_PUT, .value = B("y"), .flags = i & 2 ? HTC_KV_WANT_OLD : 0 };
        htc__kv_changed first = ask(&cell, q, stamp);
        cr_expect(first.result.existed == (i == 3) && first.result.number == 0);
        htc__kv_changed again = ask(&first.to, q, stamp);
        cr_expect(eq(int, again.effect, HTC__KV_LISTED));
        cr_expect(eq(u32, again.result.existed, 0));
        cr_expect(eq(i64, again.result.number, i == 3));
    }
}

Test(change, what_may_have_been_forgotten_is_unknown)
{
    htc__kv_cell   cell = with("x", 50);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .value = B("y") };
    cell.forgot = 20;
    htc__kv_changed out = ask(&cell, q, (htc__kv_stamp){ .client = 9, .sequence = 1, .since = 19 });
    cr_expect(eq(int, out.effect, HTC__KV_UNKNOWN));
    cr_expect(eq(int, out.result.status, HTC_EUNKNOWN));
    cr_expect(eq(u64, out.result.version, 50));
    cr_expect(
        eq(int, ask(&cell, q, (htc__kv_stamp){ .client = 9, .sequence = 1, .since = 20 }).effect, HTC__KV_CHANGED));
    out = ask(&cell, q, (htc__kv_stamp){ .client = 9, .sequence = 1, .since = 1, .fresh = 1 });
    cr_expect(eq(int, out.effect, HTC__KV_CHANGED));
    /* Above what its client has seen, wherever that was: so since may come from another key. */
    out = ask(&cell, q, (htc__kv_stamp){ .client = 9, .sequence = 1, .since = 1000 });
    cr_expect(eq(u64, out.to.version, 1001));
    out = ask(&cell, q, (htc__kv_stamp){ .client = 9, .sequence = 1, .since = UINT64_MAX });
    cr_expect(eq(int, out.result.status, HTC_EINVAL));
}

Test(change, a_put_says_how_long_a_key_lives)
{
    htc__kv_cell    cell = with("1", 5);
    htc__kv_changed out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .value = B("1"), .ttl = 70 }, nobody);
    cr_expect(eq(u64, out.to.ttl, 70));
    cr_expect(eq(u64, out.to.term, htc__kv_term(6, &nobody)));
    cell = out.to;
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .delta = 1 }, nobody); /* leaves it alone */
    cr_expect(eq(u64, out.to.term, cell.term));
    cr_expect(eq(u64, out.to.version, 7));
    cr_expect(eq(int, ask(&out.to, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__KV_EXPIRE, .version = 7 }, nobody).result.status,
                 HTC_MISMATCH));
    cr_expect(eq(int, ask(&out.to, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__KV_EXPIRE, .version = cell.term }, nobody).result.status,
                 HTC_OK));
    cr_expect(eq(int, ask(&out.to, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__KV_END, .version = 6 }, nobody).result.status, HTC_MISMATCH));
    cr_expect(eq(int, ask(&out.to, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__KV_END, .version = 7 }, nobody).result.status, HTC_OK));
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .value = B("2"), .flags = HTC_KV_KEEP_TTL }, nobody);
    cr_expect(eq(u64, out.to.ttl, 70));
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_TOUCH | HTC_KV_PERSIST }, nobody);
    cr_expect(eq(u64, out.to.ttl, 0));
    cr_expect(eq(u64, out.to.term, 0));
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .value = B("2") }, nobody);
    cr_expect(eq(u64, out.to.ttl, 0));
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE }, nobody);
    cr_expect(eq(u64, out.to.ttl, 0));
    out = ask(&cell, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .value = B("2"), .flags = HTC_KV_WANT_OLD }, nobody);
    cr_expect(out.fields == (HTC__KV_HAS_VALUE | HTC__KV_HAS_OLD) && htc_bytes_equal(out.result.value, B("1")));
    cr_expect(eq(u32, out.result.existed, 1));
    htc_kv_request cas = { .size = sizeof cas, .op = HTC_KV_CAS_VALUE, .seen = B("1"), .value = B("2") };
    cr_expect(eq(u64, ask(&cell, cas, nobody).to.ttl, 0));
    cas.flags = HTC_KV_KEEP_TTL;
    cr_expect(eq(u64, ask(&cell, cas, nobody).to.ttl, 70));
    cell.lease = 3;
    cell.ttl = cell.term = 0;
    cas.flags = 0;
    cr_expect(eq(u64, ask(&cell, cas, nobody).to.lease, 3));
    cas.ttl = 9;
    out = ask(&cell, cas, nobody);
    cr_expect(out.to.lease == 0 && out.to.ttl == 9 && out.to.term == htc__kv_term(out.to.version, &nobody));
}

/* Of a key that has one version at two owners the end of one's ttl is none of the other's. */
Test(change, a_term_is_of_one_change)
{
    htc__kv_cell   cell = with("1", 5);
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .value = B("2"), .ttl = 70 };
    htc__kv_cell   one = ask(&cell, put, (htc__kv_stamp){ .client = 1, .sequence = 1 }).to;
    htc__kv_cell   other = ask(&cell, put, (htc__kv_stamp){ .client = 2, .sequence = 1 }).to;
    htc__kv_cell   later = ask(&cell, put, (htc__kv_stamp){ .client = 1, .sequence = 2 }).to;
    htc__kv_cell   again = ask(&cell, put, (htc__kv_stamp){ .client = 1, .sequence = 1, .since = 3 }).to;
    cr_expect(one.version == other.version && one.version == later.version);
    cr_expect(one.term != other.term && one.term != later.term && one.term == again.term);
    htc_kv_request end = { .size = sizeof end, .op = HTC__KV_EXPIRE, .version = one.term };
    cr_expect(eq(int, ask(&one, end, nobody).result.status, HTC_OK));
    cr_expect(eq(int, ask(&other, end, nobody).result.status, HTC_MISMATCH));
}

Test(change, without_memory_nothing_is_changed)
{
    htc__kv_cell cell = with("12", 5);
    ALLOC_FAIL_EVERY(f, 100)
    {
        htc_env         env = alloc_fail_env(&f);
        htc_buf         b;
        htc__kv_changed out;
        htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_APPEND, .value = B("y") };
        htc_buf_init(&b, &env, 0);
        htc__kv_change(&cell, &q, &nobody, 0, &b, &out);
        cr_expect(out.effect == (f.refused ? HTC__KV_NO_MEMORY : HTC__KV_CHANGED));
        q.op = HTC_KV_ADD;
        htc__kv_change(&cell, &q, &nobody, 0, &b, &out);
        cr_expect(out.effect == (f.refused ? HTC__KV_NO_MEMORY : HTC__KV_CHANGED));
        htc_buf_free(&b);
        cr_expect(eq(sz, f.live, 0));
    }
}

/* No value becomes longer than a bound; one that is longer already stays as it is, and may become shorter. */
Test(change, values_have_a_bound)
{
    static const struct {
        htc_kv_request q;
        htc_status     status;
    } asks[] = {
        { { .op = HTC_KV_PUT, .value = { "1234", 4 } }, HTC_OK },
        { { .op = HTC_KV_PUT, .value = { "12345", 5 } }, HTC_ETOOBIG },
        { { .op = HTC_KV_APPEND, .value = { "34", 2 } }, HTC_OK },
        { { .op = HTC_KV_APPEND, .value = { "345", 3 } }, HTC_ETOOBIG },
        { { .op = HTC_KV_CAS_VERSION, .version = 5, .value = { "12345", 5 } }, HTC_ETOOBIG },
        { { .op = HTC_KV_CAS_VALUE, .seen = { "12", 2 }, .value = { "12345", 5 } }, HTC_ETOOBIG },
        { { .op = HTC_KV_ADD, .delta = 9000 }, HTC_OK },
        { { .op = HTC_KV_ADD, .delta = 10000 }, HTC_ETOOBIG },
        { { .op = HTC_KV_DELETE }, HTC_OK },
    };
    htc__kv_cell    cell = with("12", 5), long_one = with("123456", 5);
    htc__kv_changed out;
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        htc__kv_change_within(&cell, &asks[i].q, &nobody, 0, 4, &b, &out);
        cr_expect(out.result.status == asks[i].status, "%zu: %s", i, htc_strerror(out.result.status));
    }
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .flags = HTC_KV_TOUCH, .ttl = HTC_SECOND };
    htc__kv_change_within(&long_one, &q, &nobody, 0, 4, &b, &out);
    cr_expect(out.effect == HTC__KV_CHANGED && out.to.value.len == 6, "it stays");
    q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .value = { "12345", 5 } };
    htc__kv_change_within(&long_one, &q, &nobody, 0, 4, &b, &out);
    cr_expect(out.effect == HTC__KV_CHANGED, "and becomes shorter");
    htc_buf_free(&b);
}
