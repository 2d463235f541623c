#include "net/portal/tar_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/codec.h"

#define SHORT 100u /* what a text has room for in the head itself */

static void put_zeros(htc_buf *out, size_t n)
{
    static const char zeros[2 * TAR_BLOCK];
    htc_put_raw(out, (htc_bytes){ zeros, n });
}

void htc__tar_pad(htc_buf *out, uint64_t size)
{
    if (size % TAR_BLOCK)
        put_zeros(out, TAR_BLOCK - (size_t)(size % TAR_BLOCK));
}

void htc__tar_end(htc_buf *out)
{
    put_zeros(out, sizeof(char[2 * TAR_BLOCK]));
}

/* Beyond 8 GiB eleven octal digits are too few: base 256, as every tar of today reads. */
static void put_size(char *field, uint64_t size)
{
    if (size < UINT64_C(1) << 33) {
        snprintf(field, 12, "%011" PRIo64, size);
        return;
    }
    memset(field, 0, 12);
    field[0] = (char)0x80;
    for (int i = 11; size; i--, size >>= 8)
        field[i] = (char)(size & 0xFF);
}

static void put_block(htc_buf *out, const tar_entry *e, unsigned mode)
{
    char     h[TAR_BLOCK] = { 0 };
    unsigned sum = 0;
    memcpy(h, e->name, strnlen(e->name, SHORT));
    snprintf(h + 100, 8, "%07o", mode);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    put_size(h + 124, e->size);
    snprintf(h + 136, 12, "%011" PRIo64, e->mtime & UINT64_C(0x1FFFFFFFF));
    memset(h + 148, ' ', 8);
    h[156] = e->type;
    memcpy(h + 157, e->target, strnlen(e->target, SHORT));
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum & 0777777);
    htc_put_raw(out, (htc_bytes){ h, sizeof h });
}

/* How long the record "LENGTH KEY=VALUE\n" is, whose length counts itself; 0: none is needed. */
static size_t record_len(const char *key, const char *value)
{
    size_t body = strlen(key) + strlen(value) + strlen(" =\n"), len = body + 1;
    if (strlen(value) <= SHORT)
        return 0;
    for (int i = 0; i < 4; i++)
        len = body + (size_t)snprintf(NULL, 0, "%zu", len);
    return len;
}

void htc__tar_head(htc_buf *out, const tar_entry *e)
{
    const struct {
        const char *key, *value;
        size_t      len;
    } more[] = { { "path", e->name, record_len("path", e->name) }, { "linkpath", e->target, record_len("linkpath", e->target) } };
    size_t all = more[0].len + more[1].len;
    if (all) {
        put_block(out, &(tar_entry){ "pax", "", all, e->mtime, 'x', 0 }, 0644);
        for (size_t i = 0; i < 2; i++)
            if (more[i].len)
                htc_put_text(out, "%zu %s=%s\n", more[i].len, more[i].key, more[i].value);
        htc__tar_pad(out, all);
    }
    put_block(out, e, e->type == '2' ? 0777 : e->type == '5' || e->executable ? 0755 : 0644);
}
