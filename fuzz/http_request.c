/* What comes to the page for monitors: the head of a request, whole or cut anywhere, says the same. */
#include <stdlib.h>
#include <string.h>

#include "net/loop/http_request.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

static int inside(htc_bytes part, const char *whole, size_t size)
{
    const char *p = part.data;
    return part.len > 0 && p >= whole && p + part.len <= whole + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc__http_request r, piece;
    char             *copy = malloc(size + 1); /* of its own length: a read behind it is seen */
    if (!copy || size > 4096) {
        free(copy);
        return 0;
    }
    if (size)
        memcpy(copy, data, size);
    int status = htc__http_request_read((htc_bytes){ copy, size }, &r);
    must(status == 0 || status == 200 || status == 400 || status == 505);
    if (status == 200) {
        must(inside(r.method, copy, size) && inside(r.path, copy, size));
        must(((const char *)r.path.data)[0] == '/' && !memchr(r.path.data, '?', r.path.len) &&
             !memchr(r.path.data, '\n', r.path.len));
        must(r.length <= size && (r.fields.len == 0 || inside(r.fields, copy, size)) && (r.query.len == 0 || inside(r.query, copy, size)));
        static const char *const names[] = { "Host", "content-length", "COOKIE" };
        for (size_t i = 0; i < 3; i++) {
            htc_bytes value;
            size_t    n = htc__http_request_field(&r, names[i], &value);
            must(n <= size && (value.len == 0 || (n > 0 && inside(value, copy, size) && !memchr(value.data, '\n', value.len))));
        }
        htc_bytes value;
        if (htc__http_request_argument(r.query, "job", &value))
            must(value.len == 0 || (inside(value, copy, size) && !memchr(value.data, '&', value.len)));
    }
    /* Once something is said of a beginning, what follows changes nothing. */
    int said = 0;
    for (size_t n = 0; n <= size; n++) {
        int now = htc__http_request_read((htc_bytes){ copy, n }, &piece);
        must(said == 0 || now == said);
        if (now == 200)
            must(piece.path.len == r.path.len && piece.path.data == r.path.data);
        said = now;
    }
    must(said == status);
    free(copy);
    return 0;
}
