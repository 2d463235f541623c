#include "namespaces.h"

#include <stdlib.h>
#include <string.h>

#include "htcsched/ring.h"

int space_is_default(const char *name, size_t len)
{
    return len == 7 && memcmp(name, "default", 7) == 0;
}

int space_named(const char *name, size_t len)
{
    return len > 0 && len <= HTC_KV_SPACE_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") >= len &&
           !space_is_default(name, len);
}

/* N, R, W between commas: N up to the owners of a key, R and W up to N. */
static int numbers(const char *text, uint32_t *at[3])
{
    for (int i = 0; i < 3; i++) {
        char         *end;
        unsigned long v = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
        if (v == 0 || v > SPACE_OWNERS || *end != (i < 2 ? ',' : 0))
            return 0;
        *at[i] = (uint32_t)v;
        text = end + 1;
    }
    return *at[1] <= *at[0] && *at[2] <= *at[0];
}

/* What stands behind "NAME=KIND", a colon or nothing; NULL: it is none of that kind, or has no name. */
static const char *behind(const char *text, const char *kind)
{
    const char *sign = strchr(text, '=');
    size_t      len = strlen(kind);
    if (!sign || !space_named(text, (size_t)(sign - text)) || strncmp(sign + 1, kind, len) != 0)
        return NULL;
    sign += 1 + len;
    return *sign == 0 || *sign == ':' ? sign : NULL;
}

htc_status space_parse(const char *text, htc_kv_namespace *space)
{
    const char *rest = behind(text, "eventual");
    uint32_t   *at[3] = { &space->n, &space->r, &space->w };
    *space = (htc_kv_namespace){ .size = sizeof(htc_kv_namespace) };
    if (!rest)
        return HTC_EUSAGE;
    space->name = (htc_bytes){ text, strcspn(text, "=") };
    return *rest == 0 || numbers(rest + 1, at) ? HTC_OK : HTC_EUSAGE;
}

/* A number from 1 to most; 0: it is none. */
static uint64_t number(const char *text, size_t len, uint64_t most)
{
    char *end;
    if (len == 0 || len > 19 || strspn(text, "0123456789") < len)
        return 0;
    unsigned long long v = strtoull(text, &end, 10);
    return end == text + len && v <= most ? v : 0;
}

static int copy_word(char *to, size_t cap, const char *text, size_t len)
{
    if (len == 0 || len >= cap || to[0])
        return 0;
    memcpy(to, text, len);
    return 1;
}

/* One of the words, each at most once. */
static int take_word(strong_policy *p, const char *text, size_t len)
{
    const char *sign = memchr(text, '=', len);
    size_t      name = sign ? (size_t)(sign - text) : 0, rest = sign ? len - name - 1 : 0;
#define IS(word) (name == sizeof word - 1 && memcmp(text, word, name) == 0)
    if (IS("n"))
        return p->n == 0 && (p->n = (uint32_t)number(sign + 1, rest, HTC_RING_OWNERS_MAX));
    if (IS("sync-ms"))
        return p->sync_ms == 0 && (p->sync_ms = (uint32_t)number(sign + 1, rest, 10000));
    if (IS("memory"))
        return p->memory == 0 && (p->memory = number(sign + 1, rest, UINT64_MAX >> 1));
    if (IS("engine"))
        return copy_word(p->engine, sizeof p->engine, sign + 1, rest);
    if (IS("durability"))
        return copy_word(p->durability, sizeof p->durability, sign + 1, rest);
#undef IS
    return 0;
}

htc_status space_parse_strong(const char *text, strong_policy *policy)
{
    const char *rest = behind(text, "strong");
    *policy = (strong_policy){ .n = 0 };
    if (!rest)
        return HTC_ENOTFOUND;
    memcpy(policy->name, text, strcspn(text, "="));
    for (int more = *rest == ':'; more;) {
        size_t len = strcspn(++rest, ",");
        if (!take_word(policy, rest, len))
            return HTC_EUSAGE;
        rest += len;
        more = *rest == ',';
    }
    return HTC_OK;
}
