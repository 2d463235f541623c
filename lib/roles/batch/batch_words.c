/* Words of commands, and what is found in the text that they print. */
#include "roles/batch/batch.h"

#include <string.h>

void htc__batch_word(htc_buf *words, const char *word)
{
    htc_put_raw(words, (htc_bytes){ word, strlen(word) + 1 });
}

void htc__batch_words(htc_buf *words, const char *text)
{
    while (text && *(text += strspn(text, " \t"))) {
        size_t n = strcspn(text, " \t");
        htc_put_raw(words, (htc_bytes){ text, n });
        htc_put_u8(words, 0);
        text += n;
    }
}

char htc__batch_last_number(htc_bytes printed, char number[HTC__BATCH_NAME_MAX])
{
    const char *p = printed.len ? printed.data : "", *end = p + printed.len;
    size_t      n = 0;
    while (end > p && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    const char *line = end;
    while (line > p && line[-1] != '\n')
        line--;
    while (line + n < end && line[n] >= '0' && line[n] <= '9' && n < 20)
        n++;
    if (n)
        memcpy(number, line, n);
    number[n] = '\0';
    return line + n < end ? line[n] : '\0';
}

void htc__batch_quote(htc_buf *out, const char *const *argv)
{
    for (size_t i = 0; argv[i]; i++) {
        htc_put_raw(out, htc_bytes_of(i ? " '" : "'"));
        for (const char *p = argv[i]; *p; p++)
            htc_put_raw(out, *p == '\'' ? htc_bytes_of("'\\''") : (htc_bytes){ p, 1 });
        htc_put_raw(out, htc_bytes_of("'"));
    }
}

int htc__batch_number(const char *name, size_t len, const char *prefix, uint64_t *number)
{
    size_t   n = strlen(prefix);
    uint64_t v = 0;
    if (len <= n || len > n + 18 || memcmp(name, prefix, n) != 0)
        return 0;
    for (size_t i = n; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        v = v * 10 + (uint64_t)(name[i] - '0');
    }
    *number = v;
    return 1;
}
