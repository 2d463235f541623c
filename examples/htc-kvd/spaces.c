#include "spaces.h"

#include <stdlib.h>
#include <string.h>

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

htc_status space_parse(const char *text, htc_kv_namespace *space)
{
    static const char kind[] = "eventual";
    const char       *sign = strchr(text, '='), *rest = sign ? sign + sizeof kind : NULL;
    uint32_t         *at[3] = { &space->n, &space->r, &space->w };
    *space = (htc_kv_namespace){ 0 };
    if (!sign || sign == text || (size_t)(sign - text) > HTC_KV_SPACE_MAX ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != (size_t)(sign - text) ||
        strncmp(sign + 1, kind, sizeof kind - 1) != 0 || strncmp(text, "default=", 8) == 0)
        return HTC_EUSAGE;
    space->name = (htc_bytes){ text, (size_t)(sign - text) };
    return *rest == 0 || (*rest == ':' && numbers(rest + 1, at)) ? HTC_OK : HTC_EUSAGE;
}
