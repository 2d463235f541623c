/* lib/core: the codec from both sides and every way it fails, the effects of a step, the status table, random numbers,
 * hashes, options. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "core/codec.h"
#include "core/util.h"
#include "core/wire.h"

/* ---- codec ---- */

/* What is written is what is read, and nothing is left over. */
Test(codec, reads_back_what_was_written)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u8(&b, 7);
    htc_put_u16(&b, 0xfffe);
    htc_put_u32(&b, 0xfffffffe);
    htc_put_u64(&b, UINT64_MAX);
    htc_put_varint(&b, UINT64_MAX);
    htc_put_str(&b, "grid");
    htc_put_str(&b, NULL);
    htc_put_bytes(&b, (htc_bytes){ "a\0b", 3 });
    htc_put_raw(&b, (htc_bytes){ "raw", 3 });
    htc_put_f64(&b, 0.5);
    cr_assert(eq(int, b.status, HTC_OK));
    htc_reader r = htc_reader_of(htc_buf_bytes(&b));
    char       s[8];
    cr_expect(eq(u8, htc_get_u8(&r), 7));
    cr_expect(eq(u16, htc_get_u16(&r), 0xfffe));
    cr_expect(eq(u32, htc_get_u32(&r), 0xfffffffe));
    cr_expect(eq(u64, htc_get_u64(&r), UINT64_MAX));
    cr_expect(eq(u64, htc_get_varint(&r), UINT64_MAX));
    htc_get_str(&r, s, sizeof s);
    cr_expect(eq(str, s, "grid"));
    htc_get_str(&r, s, sizeof s);
    cr_expect(eq(str, s, ""));
    cr_expect(eq(int, htc_bytes_equal(htc_get_bytes(&r), (htc_bytes){ "a\0b", 3 }), 1));
    cr_expect(eq(int, htc_bytes_equal(htc_get_raw(&r, 3), (htc_bytes){ "raw", 3 }), 1));
    cr_expect(htc_get_f64(&r) == 0.5);
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
    htc_buf_free(&b);
}

/* The bytes are the same on every machine: they are stored and sent. */
Test(codec, golden_bytes)
{
    static const uint8_t expected[] = { 0x02, 0x01, 0x04, 0x03, 0x02, 0x01, 0xac, 0x02, 0x01,
                                        'x',  0,    0,    0,    0,    0,    0,    0xe0, 0x3f };
    htc_buf              b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u16(&b, 0x0102);
    htc_put_u32(&b, 0x01020304);
    htc_put_varint(&b, 300);
    htc_put_str(&b, "x");
    htc_put_f64(&b, 0.5);
    cr_assert(eq(sz, b.len, sizeof expected));
    cr_expect(eq(int, memcmp(b.data, expected, sizeof expected), 0));
    htc_buf_free(&b);
}

Test(codec, varints_have_one_form)
{
    htc_rng rng = { 3 };
    for (int i = 0; i < 20000; i++) {
        uint64_t v = htc_rng_next(&rng) >> htc_rng_below(&rng, 64);
        htc_buf  b;
        htc_buf_init(&b, NULL, 0);
        htc_put_varint(&b, v);
        htc_reader r = htc_reader_of(htc_buf_bytes(&b));
        cr_assert(eq(u64, htc_get_varint(&r), v));
        cr_assert(eq(int, htc_reader_done(&r), HTC_OK));
        /* One byte fewer is no varint, and a longer form of the same number neither. */
        r = htc_reader_of((htc_bytes){ b.data, b.len - 1 });
        htc_get_varint(&r);
        cr_assert(eq(int, r.status, HTC_EPROTO));
        b.data[b.len - 1] |= 0x80;
        htc_put_u8(&b, 0);
        r = htc_reader_of(htc_buf_bytes(&b));
        htc_get_varint(&r);
        cr_assert(eq(int, r.status, HTC_EPROTO));
        htc_buf_free(&b);
    }
}

static htc_reader reader_of(const char *bytes, size_t n)
{
    return htc_reader_of((htc_bytes){ bytes, n });
}

/* After the first thing that does not fit every read is harmless and answers nothing. */
static void expect_failed(htc_reader *r, const char *what)
{
    char s[4] = "zzz";
    cr_expect(eq(int, r->status, HTC_EPROTO), "%s", what);
    cr_expect(eq(sz, htc_reader_left(r), 0), "%s", what);
    cr_expect(eq(u8, htc_get_u8(r), 0));
    cr_expect(eq(u64, htc_get_u64(r), 0));
    cr_expect(eq(u64, htc_get_varint(r), 0));
    cr_expect(eq(sz, htc_get_bytes(r).len, 0));
    cr_expect(eq(sz, htc_get_raw(r, 0).len, 0));
    cr_expect(eq(sz, htc_get_count(r, 1), 0));
    htc_get_str(r, s, sizeof s);
    cr_expect(eq(str, s, ""));
    cr_expect(eq(int, htc_reader_done(r), HTC_EPROTO), "%s", what);
}

#define FAILS(bytes, call)                                                                                             \
    do {                                                                                                               \
        htc_reader r = reader_of(bytes, sizeof(bytes) - 1);                                                            \
        char       text[4];                                                                                            \
        (void)text;                                                                                                    \
        (void)(call);                                                                                                  \
        expect_failed(&r, #call);                                                                                      \
    } while (0)

Test(codec, whatever_does_not_fit_fails)
{
    FAILS("", htc_get_u8(&r));
    FAILS("1", htc_get_u16(&r));
    FAILS("123", htc_get_u32(&r));
    FAILS("1234567", htc_get_u64(&r));
    FAILS("1234567", htc_get_f64(&r));
    FAILS("", htc_get_varint(&r));
    FAILS("\x80", htc_get_varint(&r));
    FAILS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", htc_get_varint(&r));
    FAILS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01", htc_get_varint(&r));
    FAILS("\x03"
          "ab",
          htc_get_bytes(&r));
    FAILS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
          "ab",
          htc_get_bytes(&r));
    FAILS("ab", htc_get_raw(&r, 3));
    FAILS("ab", htc_get_raw(&r, SIZE_MAX));
    FAILS("\x04"
          "four",
          (htc_get_str(&r, text, sizeof text), 0));
    FAILS("\x02"
          "a\0",
          (htc_get_str(&r, text, sizeof text), 0));
    FAILS("\x03"
          "12345678",
          htc_get_count(&r, 3));
    FAILS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
          "1",
          htc_get_count(&r, 0));
}

Test(codec, a_byte_left_over_is_an_error)
{
    htc_reader r = reader_of("ab", 2);
    htc_get_u8(&r);
    cr_expect(eq(int, r.status, HTC_OK));
    cr_expect(eq(int, htc_reader_done(&r), HTC_EPROTO));
    r = htc_reader_of((htc_bytes){ NULL, 0 });
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
    htc_reader_fail(&r);
    expect_failed(&r, "htc_reader_fail");
}

Test(codec, counts_that_can_be_there)
{
    htc_reader r = reader_of("\x02"
                             "123456",
                             7);
    cr_expect(eq(sz, htc_get_count(&r, 3), 2));
    r = reader_of("\x00", 1);
    cr_expect(eq(sz, htc_get_count(&r, 100), 0));
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
}

/* ---- buffers ---- */

Test(buf, a_full_one_stays_as_it_was)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 10);
    htc_put_u64(&b, 1);
    htc_put_u32(&b, 2); /* does not fit */
    cr_expect(eq(int, b.status, HTC_EFULL));
    cr_expect(eq(sz, b.len, 8));
    htc_put_u8(&b, 3); /* would fit, but comes after an error */
    cr_expect(eq(sz, b.len, 8));
    cr_expect(eq(ptr, htc_buf_extend(&b, 1), NULL));
    htc_patch_u32(&b, 0, 77);
    cr_expect(eq(u8, b.data[0], 1));
    htc_buf_clear(&b);
    htc_put_raw(&b, (htc_bytes){ "0123456789", 10 });
    cr_expect(eq(int, b.status, HTC_OK));
    htc_put_u8(&b, 0);
    cr_expect(eq(int, b.status, HTC_EFULL));
    htc_buf_free(&b);
    htc_buf_free(&b);
}

Test(buf, text_patch_and_consume)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, 0);
    htc_put_text(&b, "%s %d", "task", 7);
    cr_expect(eq(sz, b.len, 10));
    htc_patch_u32(&b, 0, 0x01020304);
    htc_patch_u32(&b, 7, 0xffffffff); /* beyond the end: ignored */
    htc_reader r = htc_reader_of(htc_buf_bytes(&b));
    cr_expect(eq(u32, htc_get_u32(&r), 0x01020304));
    cr_expect(eq(int, htc_bytes_equal(htc_get_raw(&r, 6), htc_bytes_of("task 7")), 1));
    htc_buf_consume(&b, 4);
    cr_expect(eq(int, htc_bytes_equal(htc_buf_bytes(&b), htc_bytes_of("task 7")), 1));
    htc_buf_consume(&b, 6);
    cr_expect(eq(sz, b.len, 0));
    htc_buf_free(&b);
}

Test(buf, out_of_memory_at_every_point)
{
    ALLOC_FAIL_EVERY(f, 100)
    {
        htc_env env = alloc_fail_env(&f);
        htc_buf b;
        htc_buf_init(&b, &env, 0);
        uint32_t written = 0;
        for (uint32_t i = 0; i < 1000; i++) {
            htc_put_u32(&b, i);
            written += b.status == HTC_OK;
        }
        cr_expect(eq(int, b.status, f.refused ? HTC_ENOMEM : HTC_OK));
        cr_expect(eq(sz, b.len, 4 * (size_t)written));
        htc_reader r = htc_reader_of(htc_buf_bytes(&b));
        for (uint32_t i = 0; i < written; i++)
            cr_assert(eq(u32, htc_get_u32(&r), i), "what was written before is still there");
        cr_expect(f.refused <= 1, "a sticky buffer does not ask again");
        htc_buf_free(&b);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}

/* ---- effects of a step ---- */

Test(output, out_of_memory_at_every_point)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env     env = alloc_fail_env(&f);
        htc_output *out = NULL;
        uint64_t    tags[100];
        size_t      n = 0;
        htc_status  status = htc_output_create(&env, 0, &out);
        for (uint64_t i = 0; status == HTC_OK && i < 100; i++) {
            htc_effect e = { .kind = HTC_OUT_MESSAGE, .tag = i, .body = { &i, sizeof i } };
            if (htc_output_add(out, &e) == HTC_OK)
                tags[n++] = i;
            cr_assert(eq(sz, htc_output_count(out), n));
        }
        for (size_t k = 0; k < n; k++) {
            htc_effect e;
            cr_assert(eq(int, htc_output_get(out, k, &e), HTC_OK));
            cr_assert(eq(u64, e.tag, tags[k]));
            cr_assert(eq(int, memcmp(e.body.data, &tags[k], sizeof tags[k]), 0));
        }
        cr_expect(f.refused > 0 || n == 100);
        htc_output_destroy(out);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}

Test(output, bounded_and_as_it_was_when_full)
{
    htc_output *out;
    htc_effect  e = { .kind = HTC_OUT_MESSAGE, .tag = 1, .body = { "0123456789", 10 } }, got;
    cr_expect(eq(int, htc_output_create(NULL, 0, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_output_create(NULL, 15, &out), HTC_OK));
    cr_expect(eq(int, htc_output_add(out, &e), HTC_OK));
    cr_expect(eq(int, htc_output_add(out, &e), HTC_EFULL));
    e.body.len = 5;
    cr_expect(eq(int, htc_output_add(out, &e), HTC_OK));
    e.body.len = 0;
    cr_expect(eq(int, htc_output_add(out, &e), HTC_OK));
    cr_expect(eq(sz, htc_output_count(out), 3));
    cr_expect(eq(int, htc_output_get(out, 2, &got), HTC_OK));
    cr_expect(got.body.len == 0 && got.body.data == NULL);
    cr_expect(eq(int, htc_output_get(out, 3, &got), HTC_EINVAL));
    htc_output_clear(out);
    cr_expect(eq(sz, htc_output_count(out), 0));
    cr_expect(eq(int, htc_output_get(out, 0, &got), HTC_EINVAL));
    htc_output_destroy(out);
    htc_output_destroy(NULL);
}

/* ---- messages ---- */

/* What reads a greeting whose version and length were tampered with; *spoken: what both speak. */
static htc_status greeted(uint8_t version, size_t more, uint16_t highest, uint16_t *spoken)
{
    htc_buf  b;
    uint16_t type;
    uint64_t id;
    uint8_t  role = 0;
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_AGENT, version);
    for (size_t i = 0; i < more; i++)
        htc_put_u8(&b, 7);
    htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    htc_status status = htc_wire_read_hello(&r, highest, &role, spoken);
    cr_expect(status != HTC_OK || role == HTC_WIRE_ROLE_AGENT);
    htc_buf_free(&b);
    return status;
}

Test(wire, hello)
{
    htc_buf  b;
    uint16_t type, version;
    uint64_t id;
    uint8_t  role;
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION);
    htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_expect(type == HTC_WIRE_HELLO && id == 0);
    cr_expect(eq(int, htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version), HTC_OK));
    cr_expect(eq(u8, role, HTC_WIRE_ROLE_AGENT));
    cr_expect(eq(u16, version, HTC_WIRE_VERSION));
    for (size_t n = 0; n < b.len; n++) {
        r = htc_wire_open((htc_bytes){ b.data, n }, &type, &id);
        cr_expect(eq(int, htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version), HTC_EPROTO), "%zu bytes", n);
    }
    b.data[10]++; /* the magic number */
    r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_expect(eq(int, htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version), HTC_EPROTO));
    htc_buf_free(&b);
}

Test(wire, hello_of_a_machine)
{
    static const htc_wire_machine says = { "Linux", "x86_64" }, half = { "Linux", "" };
    htc_buf          b;
    uint16_t         type, version;
    uint64_t         id;
    uint8_t          role;
    htc_wire_machine m;
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello_machine(&b, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION, &says);
    htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_expect(eq(int, htc_wire_read_hello_machine(&r, HTC_WIRE_VERSION, &role, &version, &m), HTC_OK));
    cr_expect(eq(str, m.system, "Linux"));
    cr_expect(eq(str, m.machine, "x86_64"));
    r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_expect(eq(int, htc_wire_read_hello_machine(&r, HTC_WIRE_VERSION_GANGS, &role, &version, &m), HTC_OK), "an earlier one passes it over");
    cr_expect(eq(str, m.system, ""));
    for (size_t n = 17; n < b.len; n++) { /* from behind the role on */
        r = htc_wire_open((htc_bytes){ b.data, n }, &type, &id);
        cr_expect(eq(int, htc_wire_read_hello_machine(&r, HTC_WIRE_VERSION, &role, &version, &m), n == 17 ? HTC_OK : HTC_EPROTO), "%zu bytes", n);
    }
    htc_wire_hello_machine(&b, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION_GANGS, &says);
    cr_expect(eq(sz, b.len, 17), "what an earlier one says has no tail");
    htc_wire_hello_machine(&b, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION, &half);
    cr_expect(eq(sz, b.len, 17));
    htc_wire_hello(&b, HTC_WIRE_ROLE_AGENT, HTC_WIRE_VERSION); /* of 32 bytes */
    htc_put_str(&b, "12345678901234567890123456789012");
    htc_put_str(&b, "x");
    r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
    cr_expect(eq(int, htc_wire_read_hello_machine(&r, HTC_WIRE_VERSION, &role, &version, &m), HTC_EPROTO));
    htc_buf_free(&b);
}

/* The lower of both; of a later version what stands behind the role is not read, of any other it may not be there. */
Test(wire, both_speak_the_lower_version)
{
    uint16_t spoken = 0;
    cr_expect(greeted(HTC_WIRE_VERSION + 1, 0, HTC_WIRE_VERSION, &spoken) == HTC_OK && spoken == HTC_WIRE_VERSION);
    cr_expect(greeted(200, 9, HTC_WIRE_VERSION, &spoken) == HTC_OK && spoken == HTC_WIRE_VERSION);
    cr_expect(greeted(HTC_WIRE_VERSION - 1, 0, HTC_WIRE_VERSION, &spoken) == HTC_OK && spoken == HTC_WIRE_VERSION - 1);
    cr_expect(greeted(HTC_WIRE_VERSION, 0, HTC_WIRE_VERSION - 1, &spoken) == HTC_OK && spoken == HTC_WIRE_VERSION - 1);
    cr_expect(greeted(HTC_WIRE_VERSION, 1, HTC_WIRE_VERSION, &spoken) == HTC_EPROTO);
    cr_expect(greeted(HTC_WIRE_VERSION - 1, 1, HTC_WIRE_VERSION, &spoken) == HTC_EPROTO);
    cr_expect(greeted(HTC_WIRE_VERSION_MIN - 1, 0, HTC_WIRE_VERSION, &spoken) == HTC_EVERSION);
}

/* Who is welcomed with a version that it has not announced was not welcomed. */
Test(wire, welcome)
{
    for (uint16_t said = 0; said <= HTC_WIRE_VERSION + 1; said++) {
        htc_buf  b;
        uint16_t type, version;
        uint64_t id;
        htc_buf_init(&b, NULL, 0);
        htc_wire_welcome(&b, 5, said);
        htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
        cr_expect(type == HTC_WIRE_WELCOME && id == 5);
        htc_status status = htc_wire_read_welcome(&r, HTC_WIRE_VERSION, &version);
        cr_expect(eq(int, status, said >= HTC_WIRE_VERSION_MIN && said <= HTC_WIRE_VERSION ? HTC_OK : HTC_EVERSION), "%u", said);
        r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
        cr_expect(htc_wire_read_welcome(&r, HTC_WIRE_VERSION - 1, &version) != HTC_OK || said < HTC_WIRE_VERSION);
        htc_buf_free(&b);
    }
}

Test(wire, every_type_has_a_name)
{
#define NAMED(name, number) cr_expect(eq(str, (char *)htc_wire_name(number), #name));
    HTC_WIRE_TABLE(NAMED)
#undef NAMED
    cr_expect(eq(str, (char *)htc_wire_name(0), "?"));
    cr_expect(eq(str, (char *)htc_wire_name(UINT16_MAX), "?"));
}

Test(wire, peer_info)
{
    htc_peer_info in = { HTC_TRANSPORT_UNIX, 1000, 4242, 3 }, out;
    htc_buf       b;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &in);
    cr_expect(eq(int, htc_peer_info_read(htc_buf_bytes(&b), &out), HTC_OK));
    cr_expect(eq(int, memcmp(&in, &out, sizeof in), 0));
    cr_expect(eq(int, htc_peer_info_read((htc_bytes){ b.data, b.len - 1 }, &out), HTC_EPROTO));
    htc_buf_free(&b);
}

/* ---- status ---- */

typedef struct status_row {
    int         number, exit_code;
    const char *name, *text;
} status_row;

static const status_row status_rows[] = {
#define ROW(name, number, exit_code, text) { number, exit_code, #name, text },
    HTC_STATUS_TABLE(ROW)
#undef ROW
};
#define STATUS_ROWS (sizeof status_rows / sizeof *status_rows)

Test(status, names_and_numbers_are_unique_and_complete)
{
    for (size_t i = 0; i < STATUS_ROWS; i++) {
        const status_row *x = &status_rows[i];
        for (size_t j = 0; j < i; j++)
            cr_expect(status_rows[j].number != x->number && strcmp(status_rows[j].name, x->name) != 0, "%s", x->name);
        cr_expect(eq(str, (char *)htc_status_name((htc_status)x->number), (char *)x->name));
        cr_expect(eq(int, htc_status_from_name(x->name), x->number));
        cr_expect(eq(str, (char *)htc_strerror((htc_status)x->number), (char *)x->text));
        cr_expect(eq(int, htc_exit_code((htc_status)x->number), x->exit_code));
        cr_expect(x->text[0] != '\0' && !strpbrk(x->text, "\n."), "%s: one line, no full stop", x->name);
    }
}

Test(status, exit_codes_are_the_documented_ones)
{
    static const int allowed[] = { 0, 1, 2, 3, 4, 5, 6, 70 };
    for (size_t i = 0; i < STATUS_ROWS; i++) {
        int known = 0;
        for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
            known |= status_rows[i].exit_code == allowed[k];
        cr_expect(eq(int, known, 1), "%s", status_rows[i].name);
        cr_expect(eq(int, status_rows[i].exit_code == 0, status_rows[i].number == HTC_OK));
    }
}

Test(status, unknown_ones)
{
    cr_expect(eq(str, (char *)htc_strerror((htc_status)-12345), "unknown status"));
    cr_expect(eq(str, (char *)htc_status_name((htc_status)-12345), "HTC_EINTERNAL"));
    cr_expect(eq(int, htc_exit_code((htc_status)-12345), 70));
    cr_expect(eq(int, htc_status_from_name("HTC_ENOSUCH"), HTC_EINTERNAL));
    cr_expect(eq(int, htc_status_from_name(NULL), HTC_EINTERNAL));
}

/* ---- random numbers and hashes ---- */

Test(rng, same_seed_same_stream)
{
    /* The published first outputs of SplitMix64 for the seed 1234567. */
    htc_rng rng = { 1234567 };
    cr_expect(eq(u64, htc_rng_next(&rng), UINT64_C(6457827717110365317)));
    cr_expect(eq(u64, htc_rng_next(&rng), UINT64_C(3203168211198807973)));
    cr_expect(eq(u64, htc_rng_next(&rng), UINT64_C(9817491932198370423)));
}

/* Chi-square with n - 1 degrees of freedom stays within five standard deviations of its mean. */
Test(rng, below_is_even)
{
    static const uint64_t ns[] = { 2, 3, 7, 10, 100 };
    htc_rng               rng = { 99 };
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        uint64_t n = ns[k], hits[100] = { 0 }, draws = 20000 * n;
        double   chi = 0, freedom = (double)(n - 1);
        for (uint64_t i = 0; i < draws; i++) {
            uint64_t x = htc_rng_below(&rng, n);
            cr_assert(x < n);
            hits[x]++;
        }
        for (uint64_t x = 0; x < n; x++)
            chi += ((double)hits[x] - 20000.0) * ((double)hits[x] - 20000.0) / 20000.0;
        double off = chi - freedom;
        cr_expect(off * off < 25 * 2 * freedom, "n = %d: chi square %f", (int)n, chi);
    }
    cr_expect(eq(u64, htc_rng_below(&rng, 0), 0));
    cr_expect(eq(u64, htc_rng_below(&rng, 1), 0));
    /* Two thirds of 2^64: taking the remainder alone would give the lower half twice as often. */
    uint64_t n = UINT64_MAX / 3 * 2, low = 0;
    for (int i = 0; i < 30000; i++)
        low += htc_rng_below(&rng, n) < n / 2;
    cr_expect(low > 14500 && low < 15500, "%d of 30000 in the lower half", (int)low);
}

Test(rng, forks_are_independent)
{
    htc_rng parent = { 5 }, a = htc_rng_fork(&parent, "agents"), b = htc_rng_fork(&parent, "network"),
            again = htc_rng_fork(&parent, "agents");
    cr_expect(eq(u64, parent.state, 5), "forking draws nothing");
    cr_expect(eq(u64, a.state, again.state));
    cr_expect(ne(u64, a.state, b.state));
    cr_expect(ne(u64, htc_rng_next(&a), htc_rng_next(&b)));
}

/* Stored rings and traces depend on these numbers. */
Test(hash, golden_values)
{
    cr_expect(eq(u64, htc_hash64((htc_bytes){ NULL, 0 }, 0), UINT64_C(0x2d06800538d394c2)));
    cr_expect(eq(u64, htc_hash64(htc_bytes_of("a"), 0), UINT64_C(0xe6c632b61e964e1f)));
    cr_expect(eq(u64, htc_hash64(htc_bytes_of("abc"), 0), UINT64_C(0x78af5f94892f3950)));
    cr_expect(ne(u64, htc_hash64(htc_bytes_of("abc"), 1), htc_hash64(htc_bytes_of("abc"), 0)));
}

Test(bytes, order_is_a_prefix_first)
{
    cr_expect(htc_bytes_compare(htc_bytes_of("ab"), htc_bytes_of("abc")) < 0);
    cr_expect(htc_bytes_compare(htc_bytes_of("b"), htc_bytes_of("abc")) > 0);
    cr_expect(htc_bytes_compare((htc_bytes){ "\xff", 1 }, (htc_bytes){ "\x01", 1 }) > 0);
    cr_expect(eq(int, htc_bytes_compare(htc_bytes_of(NULL), htc_bytes_of("")), 0));
    cr_expect(eq(int, htc_bytes_equal(htc_bytes_of("ab"), htc_bytes_of("abc")), 0));
    cr_expect(eq(int, htc_bytes_equal(htc_bytes_of(NULL), htc_bytes_of("")), 1));
}

/* ---- options, errors, memory, log ---- */

typedef struct old_options {
    size_t   size;
    uint32_t a;
} old_options;

typedef struct options {
    size_t   size;
    uint32_t a, b;
    uint64_t c;
} options;

typedef struct new_options {
    options  known;
    uint64_t newer[2];
} new_options;

Test(util, options_older_same_newer)
{
    options     out = { 0 };
    old_options older = { sizeof older, 1 };
    options     same = { sizeof same, 2, 3, 4 };
    new_options newer = { { sizeof newer, 5, 6, 7 }, { 0, 0 } };
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, NULL, 0, sizeof(size_t)), HTC_OK));
    cr_expect(out.a == 0 && out.c == 0);
    cr_expect(
        eq(int, htc__options_copy(&out, sizeof out, &older, offsetof(old_options, a) + 4, sizeof(size_t)), HTC_OK));
    cr_expect(out.a == 1 && out.b == 0 && out.c == 0);
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, &same, sizeof same, sizeof(size_t)), HTC_OK));
    cr_expect(out.a == 2 && out.b == 3 && out.c == 4);
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, &newer, sizeof newer, sizeof(size_t)), HTC_OK));
    cr_expect(out.a == 5 && out.b == 6 && out.c == 7);
    newer.newer[1] = 1;
    newer.known.a = 8;
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, &newer, sizeof newer, sizeof(size_t)), HTC_EABI));
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, &same, 0, sizeof(size_t)), HTC_EINVAL));
    cr_expect(eq(int, htc__options_copy(&out, sizeof out, &same, sizeof(size_t) - 1, sizeof(size_t)), HTC_EINVAL));
    cr_expect(out.a == 5, "untouched on failure");
}

Test(util, error_is_cut_never_overrun)
{
    htc_error e;
    char      longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    memset(&e, 0xff, sizeof e);
    cr_expect(eq(int, htc__error(&e, HTC_ESWEEP, "%s", longer), HTC_ESWEEP));
    cr_expect(e.status == HTC_ESWEEP && e.line == 0 && e.column == 0 && e.where[0] == '\0' && e.hint[0] == '\0');
    cr_expect(eq(sz, strlen(e.text), sizeof e.text - 1));
    cr_expect(eq(int, htc__error(NULL, HTC_EXML, "nobody listens"), HTC_EXML));
}

Test(util, memory_is_zeroed_and_sizes_are_told)
{
    alloc_fail     f = alloc_fail_at(0);
    htc_env        env = alloc_fail_env(&f);
    unsigned char *p = htc__alloc(&env, 10);
    for (int i = 0; i < 10; i++)
        cr_expect(eq(u8, p[i], 0));
    p[9] = 7;
    p = htc__resize(&env, p, 10, 20);
    cr_expect(p[9] == 7 && p[10] == 0 && p[19] == 0);
    htc__free(&env, p, 20);
    htc__free(&env, NULL, 5);
    char *s = htc__strdup(&env, "copy");
    cr_expect(eq(str, s, "copy"));
    htc__strfree(&env, s);
    htc__strfree(&env, NULL);
    htc__free(&env, htc__alloc(&env, 0), 0);
    cr_expect(f.live == 0 && f.wrong_sizes == 0);
}

static void keep_line(void *ctx, uint32_t level, const char *line)
{
    char *kept = ctx;
    snprintf(kept, 2000, "%u %s", level, line);
}

Test(util, log_lines_are_bounded_and_filtered)
{
    char    kept[2000] = "", longer[3000];
    htc_log log = { keep_line, kept, HTC_LOG_WARN };
    htc_env env = { .size = sizeof env, .log = &log };
    htc__log(&env, HTC_LOG_INFO, "not wanted");
    cr_expect(eq(str, kept, ""));
    htc__log(&env, HTC_LOG_WARN, "agent %d is silent -> suspected", 7);
    cr_expect(eq(str, kept, "2 agent 7 is silent -> suspected"));
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    htc__log(&env, HTC_LOG_ERROR, "%s", longer);
    cr_expect(strlen(kept) > 500 && strlen(kept) < 1100);
    htc__log(NULL, HTC_LOG_ERROR, "nobody listens");
}

static void keep_fields(void *ctx, uint32_t level, const char *line, const htc_log_field *field, size_t n)
{
    char  *kept = ctx;
    size_t len = (size_t)snprintf(kept, 2000, "%u %s", level, line);
    for (size_t i = 0; i < n && len < 2000; i++)
        len += field[i].text ? (size_t)snprintf(kept + len, 2000 - len, " %s=%s", field[i].name, field[i].text)
                             : (size_t)snprintf(kept + len, 2000 - len, field[i].hex ? " %s=%llx" : " %s=%llu", field[i].name,
                                                (unsigned long long)field[i].number);
}

/* A log gets a line's values if it says that it takes them, else the line alone. */
Test(util, log_lines_have_values_for_those_who_take_them)
{
    char               kept[2000] = "";
    htc_log_structured log = { { keep_line, kept, HTC_LOG_WARN | HTC_LOG_FIELDS }, keep_fields };
    htc_env            env = { .size = sizeof env, .log = &log.log };
    for (int takes = 1; takes >= 0; takes--) {
        htc__log_with(&env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", 7), HTC__ID("member", 255), HTC__STATUS(HTC_EPROTO)),
                      "peer %u -> close", 7u);
        cr_expect(eq(str, kept, takes ? "2 peer 7 -> close peer=7 member=ff status=HTC_EPROTO" : "2 peer 7 -> close"));
        htc__log_with(&env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("peer", 8)), "not wanted");
        htc__log(&env, HTC_LOG_INFO, "not wanted");
        htc__log(&env, HTC_LOG_ERROR, "no value");
        cr_expect(eq(str, kept, "1 no value"));
        log.log.level = HTC_LOG_WARN;
    }
}

/* Whole characters and both ends, whatever the room. */
Test(util, a_text_that_is_too_long_loses_its_middle)
{
    static const char text[] = "/hom\xc3\xa9/\xe2\x82\xac/of/a/user/\xf0\x9f\x90\x8c/w\xc3\xb6rk";
    char              out[64];
    cr_expect(eq(str, (char *)(uintptr_t)htc__text_fit("/home/work", out, 11), "/home/work"));
    cr_expect(eq(str, (char *)(uintptr_t)htc__text_fit("/home/work", out, 10), "/ho...ork"));
    cr_expect(eq(str, (char *)(uintptr_t)htc__text_fit("/home/work", out, 8), "/h...rk"));
    for (size_t room = 8; room <= sizeof text; room++) {
        memset(out, 'x', sizeof out);
        size_t n = strlen(htc__text_fit(text, out, room));
        cr_expect(n < room && n + 7 > room - 1, "%zu of %zu: %s", n, room, out);
        for (size_t i = 0, len; i < n; i += len)
            cr_assert((len = htc__utf8_len(out + i, n - i)) != 0, "%zu: %s", room, out);
        cr_expect(strstr(text, strstr(out, "...") ? strstr(out, "...") + 3 : out) != NULL);
    }
}
