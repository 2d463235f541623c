#include "core/netrc.h"

#include <string.h>

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A word, or what stands in double quotes. 1; 0: there is none; -1: a quotation does not end. */
static int next_word(const char **at, const char *end, htc_bytes *word)
{
    const char *p = *at;
    for (; p < end && (is_blank(*p) || *p == '#'); p++)
        if (*p == '#')
            while (p + 1 < end && p[1] != '\n')
                p++;
    const char *from = p;
    int         quoted = p < end && *p == '"';
    for (p += quoted; p < end && (quoted ? *p != '"' : !is_blank(*p)); p++)
        p += quoted && *p == '\\' && p + 1 < end;
    if (quoted && p >= end)
        return -1;
    p += quoted;
    *word = (htc_bytes){ from, (size_t)(p - from) };
    *at = p;
    return p > from;
}

static int is_word(htc_bytes w, const char *text)
{
    return w.len == strlen(text) && memcmp(w.data, text, w.len) == 0;
}

const char *htc__netrc_wrong(htc_bytes text)
{
    const char *at = text.len ? text.data : "", *end = at + text.len;
    htc_bytes   word, value;
    int         entries = 0, got;
    if (text.len > HTC__NETRC_MAX)
        return "it is longer than 4096 bytes";
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)at[i] < ' ' && !is_blank(at[i]))
            return "it has bytes in it that are no text";
    while (text.len && (got = next_word(&at, end, &word)) != 0) {
        if (got < 0)
            return "a quotation does not end";
        if (is_word(word, "macdef"))
            return "it has a macro in it (macdef), which is not taken";
        int machine = is_word(word, "machine"), begins = machine || is_word(word, "default");
        if (!begins && !is_word(word, "login") && !is_word(word, "password") && !is_word(word, "account"))
            return "a word is none of machine, default, login, password and account";
        entries += begins;
        if (!entries)
            return "a login or password stands before the first machine";
        if ((machine || !begins) && next_word(&at, end, &value) <= 0)
            return "a word has no value after it";
    }
    return entries ? NULL : "it names no machine";
}
