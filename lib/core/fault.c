#include "core/fault.h"

#ifdef HTC_FAULTS
#include <string.h>

static int broken[HTC__BROKEN_COUNT];

int htc__fault(const htc_env *env, const char *name)
{
    return env && env->fault && env->fault->fires(env->fault->ctx, name);
}

int htc__broken_is(htc__broken what)
{
    return broken[what];
}

void htc__broken_set(htc__broken what, int on)
{
    broken[what] = on;
}

htc__broken htc__broken_find(const char *name)
{
#define NAME(name) #name,
    static const char *const names[] = { "", HTC__BROKEN_TABLE(NAME) };
#undef NAME
    for (int i = 1; i < HTC__BROKEN_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return (htc__broken)i;
    return HTC__BROKEN_NOTHING;
}
#endif
