#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/codec.h"
#include "core/wire.h"

/* What is written is what is read, and nothing is left over. */
Test(codec, reads_back_what_was_written)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u8(&b, 7);
    htc_put_u64(&b, UINT64_MAX);
    htc_put_varint(&b, UINT64_MAX);
    htc_put_str(&b, "grid");
    htc_put_f64(&b, 0.5);
    cr_assert(eq(int, b.status, HTC_OK));
    htc_reader r = htc_reader_of(htc_buf_bytes(&b));
    char       s[8];
    cr_expect(eq(u8, htc_get_u8(&r), 7));
    cr_expect(eq(u64, htc_get_u64(&r), UINT64_MAX));
    cr_expect(eq(u64, htc_get_varint(&r), UINT64_MAX));
    htc_get_str(&r, s, sizeof s);
    cr_expect(eq(str, s, "grid"));
    cr_expect(htc_get_f64(&r) == 0.5);
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
    htc_buf_free(&b);
}
