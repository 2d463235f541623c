/* A steal policy as "random", which leaves a file NAME.so.asked beside its own file when it is asked: so a test sees that agents use it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "htcsched/policy_file.h"
#include "htcsched/steal.h"

HTC_POLICY_FILE;

static htc_status choose(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    static const char here = 0;
    char              path[4200];
    Dl_info           info;
    (void)ctx;
    if (dladdr(&here, &info)) {
        snprintf(path, sizeof path, "%s.asked", info.dli_fname);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    *count = cap > 0;
    return htc_steal_pick(rng, view->n, view->self, 1, out);
}

static const htc_steal_policy mine = { .size = sizeof mine, .name = "site.used", .choose = choose };

htc_status htc_policy_register(htc_registry *registry)
{
    return htc_steal_register(registry, &mine);
}
