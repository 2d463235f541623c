#include "net/files/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/client.h"

static int hex_of(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static int is_escape(const char *s)
{
    return s[0] == '%' && hex_of(s[1]) >= 0 && hex_of(s[2]) >= 0;
}

/* U+0080 to U+009F are control characters of two bytes. */
static int is_control(const char *s, size_t len)
{
    unsigned char c = (unsigned char)s[0];
    return (len == 1 && (c < ' ' || c == 0x7F)) || (len == 2 && c == 0xC2 && (unsigned char)s[1] < 0xA0);
}

int htc__name_show(const char *name, char *out, size_t room)
{
    size_t n = strlen(name), at = 0, len;
    for (size_t i = 0; i < n; i += len) {
        len = htc__utf8_len(name + i, n - i);
        int as_is = len && !is_control(name + i, len) && !is_escape(name + i);
        if (!len)
            len = 1;
        if (at + (as_is ? len : 3 * len) >= room) {
            out[at] = '\0';
            return -1;
        }
        for (size_t k = 0; k < len; k++) {
            if (as_is)
                out[at++] = name[i + k];
            else
                at += (size_t)snprintf(out + at, room - at, "%%%02X", (unsigned char)name[i + k]);
        }
    }
    out[at] = '\0';
    return 0;
}

int htc__name_of_shown(const char *shown, char *out, size_t room)
{
    size_t at = 0;
    for (const char *p = shown; *p; p++) {
        int escape = is_escape(p);
        if (at + 1 >= room || (escape && hex_of(p[1]) == 0 && hex_of(p[2]) == 0))
            return -1;
        out[at++] = escape ? (char)(hex_of(p[1]) * 16 + hex_of(p[2])) : *p;
        p += escape ? 2 : 0;
    }
    out[at] = '\0';
    return 0;
}

static void put_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, ",\"%s\":\"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void put_name(FILE *file, const char *key, const char *name)
{
    char shown[HTC_OUTPUT_NAME_MAX];
    if (name && htc__name_show(name, shown, sizeof shown) != 0 && shown[0] && shown[strlen(shown) - 1] == '/')
        shown[strlen(shown) - 1] = '\0';
    if (name)
        put_text(file, key, shown);
}

static void count(htc_outputs *sums, const htc__entry *e)
{
    sums->errors += e->error != NULL;
    if (e->error && !e->stored)
        return;
    sums->files += e->type == 'f';
    sums->dirs += e->type == 'd';
    sums->links += e->type == 'l';
    sums->bytes += e->stored ? e->stored->size : 0;
}

htc_status htc__manifest_add(FILE *file, const htc__entry *e, htc_outputs *sums)
{
    char hex[65];
    fprintf(file, "{\"type\":\"%c\"", e->type);
    put_name(file, "name", e->name);
    fprintf(file, ",\"mode\":\"%04o\"", (unsigned)(e->mode & 0777));
    if (e->stored) {
        htc_content_hex(e->stored->hash, hex);
        fprintf(file, ",\"size\":%" PRIu64, e->stored->size);
        put_text(file, "hash", hex);
    }
    put_name(file, "target", e->target);
    put_name(file, "was", e->was);
    put_name(file, "error", e->error);
    fputs("}\n", file);
    count(sums, e);
    return ferror(file) ? htc__status_of(errno, HTC_EIO) : HTC_OK;
}
