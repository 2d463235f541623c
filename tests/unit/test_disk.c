/* Requests to a disk as bytes: both ways, one way to write each, and everything refused that is none. */
#include "expect.h"
#include <string.h>

#include "htcsched/disk.h"
#include "property.h"

static htc_bytes of(const char *text)
{
    return htc_bytes_of(text);
}

/* One of each kind, as they are meant. */
static const struct {
    uint32_t    op, sync;
    const char *name, *to, *data;
    uint64_t    offset, length;
} examples[] = {
    { .op = HTC_DISK_LIST },
    { .op = HTC_DISK_CREATE, .name = "log-0000000000000001", .length = HTC_DISK_FILE_MAX },
    { .op = HTC_DISK_READ, .name = "a", .offset = 7, .length = HTC_DISK_READ_MAX },
    { .op = HTC_DISK_READ, .name = "a.b_c-9", .length = 1 },
    { .op = HTC_DISK_WRITE, .name = "a", .offset = HTC_DISK_FILE_MAX, .data = "x" },
    { .op = HTC_DISK_WRITE, .sync = 1, .name = "a", .data = "what lasts" },
    { .op = HTC_DISK_SYNC, .name = "a" },
    { .op = HTC_DISK_RENAME, .name = "a", .to = "b" },
    { .op = HTC_DISK_REMOVE, .name = "a" },
};

static htc_disk_request example(size_t i)
{
    return (htc_disk_request){ .op = examples[i].op,
                               .sync = examples[i].sync,
                               .name = of(examples[i].name),
                               .to = of(examples[i].to),
                               .data = of(examples[i].data),
                               .offset = examples[i].offset,
                               .length = examples[i].length };
}

Test(disk, requests_come_back_as_they_were)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        htc_disk_request r = example(i), back;
        uint8_t          body[256], head[HTC_DISK_HEAD_MAX];
        size_t           n = htc_disk_encode(&r, body, sizeof body);
        cr_assert(n > 0 && n <= sizeof body);
        cr_expect(eq(sz, htc_disk_encode(&r, NULL, 0), n));
        cr_assert(eq(int, htc_disk_decode((htc_bytes){ body, n }, &back), HTC_OK));
        cr_expect(back.op == r.op && back.sync == r.sync && back.offset == r.offset && back.length == r.length);
        cr_expect(htc_bytes_equal(back.name, r.name) && htc_bytes_equal(back.to, r.to));
        cr_expect(htc_bytes_equal(back.data, r.data));
        /* The head alone is what stands before the data. */
        size_t len = r.data.len;
        r.data.data = NULL;
        cr_expect(eq(sz, htc_disk_encode(&r, head, sizeof head), n - len));
        cr_expect(memcmp(head, body, n - len) == 0);
        /* Cut anywhere before the data, it is no request; without its data neither. */
        for (size_t cut = 0; cut <= n - len - (len == 0); cut++)
            cr_expect(eq(int, htc_disk_decode((htc_bytes){ body, cut }, &back), HTC_EPROTO), "%zu of %zu", cut, n);
    }
}

/* The bytes stand in traces and between processes: they stay. */
Test(disk, golden_bytes)
{
    static const uint8_t expected[] = { 103, 1, 0, 2, 0, 0, 0,   0,   0,   0, 0,   0,  0,
                                        0,   0, 0, 0, 0, 3, 'l', 'o', 'g', 0, 'h', 'i' };
    uint8_t              body[64];
    htc_disk_request     r = { .op = HTC_DISK_WRITE, .sync = 1, .name = of("log"), .offset = 512, .data = of("hi") };
    cr_assert(eq(sz, htc_disk_encode(&r, body, sizeof body), sizeof expected));
    cr_expect(memcmp(body, expected, sizeof expected) == 0);
}

Test(disk, what_an_op_does_not_use_is_refused)
{
    static const char *bad[] = { "", ".", "..", ".a", "a/b", "A", "a b", "\xc3\xa4" };
    uint8_t            body[256];
    char               longest[HTC_DISK_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    cr_expect(htc_disk_name_ok(of(longest)) == 0 && htc_disk_name_ok(of(longest + 1)));
    cr_expect(0 == htc_disk_name_ok((htc_bytes){ "a\0b", 3 }));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(htc_disk_name_ok(of(bad[i])) == 0, "%s", bad[i]);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        htc_disk_request r = example(i);
        for (int field = 0; field < 6; field++) {
            htc_disk_request q = r;
            switch (field) {
            case 0:
                q.sync = r.op == HTC_DISK_WRITE ? 2 : 1;
                break;
            case 1:
                q.name = r.name.len ? of("") : of("a");
                break;
            case 2:
                q.to = r.to.len ? of("..") : of("b");
                break;
            case 3:
                q.offset = r.op == HTC_DISK_READ || r.op == HTC_DISK_WRITE ? HTC_DISK_FILE_MAX + 1 : 1;
                break;
            case 4:
                q.length = r.length ? HTC_DISK_FILE_MAX + 1 : 1;
                break;
            default:
                q.data = r.data.len ? of("") : of("x");
                break;
            }
            cr_expect(eq(sz, htc_disk_encode(&q, body, sizeof body), 0), "op %u field %d", r.op, field);
        }
    }
    cr_expect(eq(sz, htc_disk_encode(&(htc_disk_request){ .op = 99 }, body, sizeof body), 0));
    cr_expect(eq(sz, htc_disk_encode(&(htc_disk_request){ .op = 107 }, body, sizeof body), 0));
}

/* Whatever the bytes: a request that is read is written back to the same bytes. */
Test(disk, there_is_one_way_to_write_a_request)
{
    size_t read = 0;
    PROPERTY(rng, 20000)
    {
        htc_disk_request r = example(htc_rng_below(&rng, sizeof examples / sizeof *examples)), back;
        uint8_t          body[256], again[256];
        size_t           n = htc_disk_encode(&r, body, sizeof body);
        for (uint64_t flips = htc_rng_below(&rng, 3); flips > 0; flips--)
            body[htc_rng_below(&rng, n)] ^= (uint8_t)(1 << htc_rng_below(&rng, 8));
        if (htc_disk_decode((htc_bytes){ body, n }, &back) != HTC_OK)
            continue;
        read++;
        HOLDS(htc_disk_encode(&back, again, sizeof again) == n && memcmp(again, body, n) == 0);
    }
    cr_expect(read > 0);
}

Test(disk, lists_of_files)
{
    static const struct {
        const char *name;
        uint64_t    length;
    } files[] = { { "log-1", 1 << 20 }, { "super.0", 4096 }, { "x", HTC_DISK_FILE_MAX } };
    uint8_t       body[256];
    size_t        n = 0, at = 0;
    htc_disk_file f;
    for (size_t i = 0; i < 3; i++)
        n += htc_disk_file_encode(&(htc_disk_file){ of(files[i].name), files[i].length }, body + n, sizeof body - n);
    for (size_t i = 0; i < 3; i++) {
        cr_assert(eq(int, htc_disk_file_next((htc_bytes){ body, n }, &at, &f), 1));
        cr_expect(htc_bytes_equal(f.name, of(files[i].name)) && f.length == files[i].length);
    }
    cr_expect(eq(int, htc_disk_file_next((htc_bytes){ body, n }, &at, &f), 0));
    at = 0;
    cr_expect(eq(int, htc_disk_file_next((htc_bytes){ body, 5 }, &at, &f), -1));
    cr_expect(eq(sz, htc_disk_file_encode(&(htc_disk_file){ of(".."), 1 }, body, sizeof body), 0));
    cr_expect(eq(sz, htc_disk_file_encode(&(htc_disk_file){ of("a"), HTC_DISK_FILE_MAX + 1 }, body, sizeof body), 0));
}
