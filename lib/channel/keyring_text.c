/* The key ring as a file: a line a key. */
#include <stdio.h>
#include <string.h>

#include "channel/keyring.h"
#include "core/util.h"

#define LINE_BYTES_MAX 512
#define WORDS          4

static const char *const roles[] = { NULL, "member", "host", "user" };
static const char *const states[] = { NULL, "current", "next", "revoked" };

typedef struct word {
    const char *p;
    size_t      len;
} word;

typedef struct place {
    const char *where;
    uint32_t    line;
    const char *start; /* of the line */
    htc_error  *error;
} place;

static htc_status refuse(const place *at, const char *p, htc_status status, const char *text)
{
    htc__error(at->error, status, "%s", text);
    if (at->error) {
        at->error->line = at->line;
        at->error->column = (uint32_t)(p - at->start) + 1;
        snprintf(at->error->where, sizeof at->error->where, "%s", at->where);
    }
    return status;
}

static int blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* How many words there are, of which at most room are noted. */
static size_t split(const char *p, const char *end, word *words, size_t room)
{
    size_t n = 0;
    while (p < end) {
        const char *start = p;
        while (p < end && !blank(*p))
            p++;
        if (p > start && n < room)
            words[n] = (word){ start, (size_t)(p - start) };
        n += p > start;
        while (p < end && blank(*p))
            p++;
    }
    return n;
}

static uint32_t number_of(word w, const char *const *names, uint32_t last)
{
    for (uint32_t i = 1; i <= last; i++)
        if (w.len == strlen(names[i]) && memcmp(w.p, names[i], w.len) == 0)
            return i;
    return 0;
}

static htc_status set(htc_keyring *ring, const place *at, const word *w, uint32_t role, uint32_t state)
{
    char              name[HTC_KEY_NAME_MAX + 1] = { 0 };
    uint8_t           key[HTC_KEY_BYTES];
    htc_error         why;
    htc_keyring_entry known;
    if (htc_key_read(HTC_KEY_PUBLIC, (htc_bytes){ w[3].p, w[3].len }, key, &why) != HTC_OK)
        return refuse(at, w[3].p, HTC_ECONFIG, why.text);
    memcpy(name, w[1].p, w[1].len);
    if (htc_keyring_find(ring, key, &known) == HTC_OK)
        return refuse(at, w[3].p, HTC_ECONFIG, "this key stands further up already");
    switch (htc_keyring_set(ring, name, role, state, key)) {
    case HTC_OK:
        return HTC_OK;
    case HTC_EEXISTS:
        return refuse(at, w[0].p, HTC_ECONFIG, "further up this name has another role");
    case HTC_EFULL:
        if (htc_keyring_at(ring, htc__keyring_max(ring) - 1, &known) == HTC_OK)
            return refuse(at, w[0].p, HTC_EFULL, "there are more keys than this ring may hold");
        return refuse(at, w[1].p, HTC_ECONFIG, "a name has at most 4 keys that are not revoked");
    case HTC_ENOMEM:
        return refuse(at, w[0].p, HTC_ENOMEM, "out of memory");
    default:
        return refuse(at, w[0].p, HTC_ECONFIG, "this line cannot be kept");
    }
}

static htc_status line_of(htc_keyring *ring, const place *at, const char *end)
{
    word        w[WORDS];
    const char *comment = memchr(at->start, '#', (size_t)(end - at->start));
    if (end - at->start > LINE_BYTES_MAX)
        return refuse(at, at->start, HTC_ECONFIG, "the line is longer than 512 bytes");
    size_t n = split(at->start, comment ? comment : end, w, WORDS);
    if (n == 0)
        return HTC_OK;
    if (n != WORDS)
        return refuse(at, at->start, HTC_ECONFIG, "a line is: ROLE NAME STATE KEY");
    uint32_t role = number_of(w[0], roles, HTC_KEY_USER), state = number_of(w[2], states, HTC_KEY_REVOKED);
    if (!role)
        return refuse(at, w[0].p, HTC_ECONFIG, "the role is member, host or user");
    if (!htc__key_name_ok(w[1].p, w[1].len))
        return refuse(at, w[1].p, HTC_ECONFIG, "a name has 1 to 63 of a-z, 0-9, dash, underscore and dot");
    if (!state)
        return refuse(at, w[2].p, HTC_ECONFIG, "the state is current, next or revoked");
    return set(ring, at, w, role, state);
}

htc_status htc_keyring_load(htc_keyring *ring, htc_bytes text, const char *where, htc_error *error)
{
    const char  *p = text.data, *behind = text.len ? p + text.len : p;
    place        at = { where ? where : "", 0, p, error };
    htc_keyring *fresh = NULL;
    if (!ring || (text.len && !p))
        return htc__error(error, HTC_EINVAL, "a ring and a text are needed");
    htc_status status = htc_keyring_create(htc__keyring_env(ring), htc__keyring_max(ring), &fresh);
    if (status != HTC_OK)
        return htc__error(error, status, "out of memory");
    while (status == HTC_OK && p < behind) {
        const char *newline = memchr(p, '\n', (size_t)(behind - p));
        const char *end = newline ? newline : behind;
        at.line++;
        at.start = p;
        status = line_of(fresh, &at, end);
        p = newline ? newline + 1 : behind;
    }
    if (status == HTC_OK)
        htc__keyring_swap(ring, fresh);
    htc_keyring_destroy(fresh);
    return status;
}

typedef struct sink {
    char  *out;
    size_t room, len;
} sink;

static void put(sink *s, const char *text)
{
    for (; *text; text++, s->len++)
        if (s->len < s->room)
            s->out[s->len] = *text;
}

size_t htc_keyring_text(const htc_keyring *ring, char *out, size_t room)
{
    sink              s = { out, out ? room : 0, 0 };
    char              key[HTC_KEY_TEXT_MAX];
    htc_keyring_entry e;
    for (size_t i = 0; htc_keyring_at(ring, i, &e) == HTC_OK; i++) {
        htc_key_write(HTC_KEY_PUBLIC, e.key, key);
        const char *const words[] = { roles[e.role], " ", e.name, " ", states[e.state], " ", key, "\n" };
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            put(&s, words[k]);
    }
    return s.len;
}
