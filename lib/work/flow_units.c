/* Words of the flow model. */
#include "work/flow_private.h"

static const char *const builtin_names[] = { [HTC_FLOW_NOOP] = "noop",
                                             [HTC_FLOW_SLEEP] = "sleep",
                                             [HTC_FLOW_SPIN] = "spin",
                                             [HTC_FLOW_READ] = "read",
                                             [HTC_FLOW_WRITE] = "write" };
static const char *const rule_names[] = { [HTC_FLOW_OK] = "ok", [HTC_FLOW_ANY] = "any", [HTC_FLOW_FAILED] = "failed" };

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int index_of(htc_bytes word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] && htc_bytes_equal(word, htc_bytes_of(names[i])))
            return (int)i;
    return -1;
}

const char *htc__flow_builtin_name(uint32_t builtin)
{
    return builtin < COUNT(builtin_names) ? builtin_names[builtin] : NULL;
}

int htc__flow_builtin_of(htc_bytes word)
{
    return index_of(word, builtin_names, COUNT(builtin_names));
}

const char *htc__flow_rule_name(uint32_t rule)
{
    return rule < COUNT(rule_names) ? rule_names[rule] : NULL;
}

int htc__flow_rule_of(htc_bytes word)
{
    return index_of(word, rule_names, COUNT(rule_names));
}
