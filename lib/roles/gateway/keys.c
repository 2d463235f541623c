/* Under which keys the gateway keeps what it keeps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

static key make(const char *format, ...) __attribute__((format(printf, 1, 2)));

static key make(const char *format, ...)
{
    key     k;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(k.text, sizeof k.text, format, args);
    va_end(args);
    k.len = n < 0 ? 0 : (size_t)n < sizeof k.text ? (size_t)n : sizeof k.text - 1;
    return k;
}

/* Numbers are 16 hex digits, so that the order of keys is the order of numbers. Jobs count down: a scan meets the newest
 * first. */
#define DOWN(id) ((unsigned long long)(UINT64_MAX - (id)))
#define UP(id) ((unsigned long long)(id))

key htc__gw_key_user(const char *name)
{
    key k = { .len = 2 };
    memcpy(k.text, "u/", 2);
    size_t n = strlen(name);
    if (n > sizeof k.text - 3)
        n = sizeof k.text - 3;
    memcpy(k.text + 2, name, n);
    k.len += n;
    return k;
}

key htc__gw_key_token(const char *hash_hex)
{
    key k = { .len = 2 };
    memcpy(k.text, "t/", 2);
    size_t n = strlen(hash_hex);
    if (n > 60)
        n = 60;
    memcpy(k.text + 2, hash_hex, n);
    k.len += n;
    return k;
}

key htc__gw_key_open(uint64_t id)
{
    return make("o/%016llx", UP(id));
}

key htc__gw_key_job(uint64_t id)
{
    return make("j/%016llx", DOWN(id));
}

key htc__gw_key_spec(uint64_t id)
{
    return make("s/%016llx", UP(id));
}

key htc__gw_key_chunk(uint64_t id, uint64_t index)
{
    return make("c/%016llx/%016llx", UP(id), UP(index));
}

key htc__gw_key_chunks(uint64_t id)
{
    return make("c/%016llx/", UP(id));
}

key htc__gw_key_result(uint64_t id, uint64_t index, uint32_t attempt)
{
    return make("r/%016llx/%016llx/%08x", UP(id), UP(index), attempt);
}

key htc__gw_key_results(uint64_t id)
{
    return make("r/%016llx/", UP(id));
}

key htc__gw_key_agent(uint64_t id)
{
    return make("a/%016llx", UP(id));
}

key htc__gw_key_site(const char *name)
{
    return make("e/%.63s", name);
}

key htc__gw_key_removal(uint64_t id)
{
    return make("d/%016llx", UP(id));
}

key htc__gw_key_content(uint64_t id)
{
    return make("b/%016llx", UP(id));
}

htc_bytes htc__gw_key_bytes(const key *k)
{
    return (htc_bytes){ k->text, k->len };
}

void htc__gw_put(htc_gateway *gw, key k, htc_bytes value)
{
    htc_runtime_put(gw->runtime, htc__gw_key_bytes(&k), value);
}

void htc__gw_delete(htc_gateway *gw, key k)
{
    htc_runtime_delete(gw->runtime, htc__gw_key_bytes(&k));
}
