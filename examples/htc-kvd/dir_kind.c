#include "dir_kind.h"

#include <stdio.h>
#include <unistd.h>

static int has(const char *dir, const char *name)
{
    char path[4200];
    int  n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

int dir_is_cluster_alone(const char *dir)
{
    return has(dir, "cluster") && !has(dir, "format");
}

dir_kind dir_kind_of(const char *dir)
{
    return has(dir, "cluster") ? DIR_CLUSTER : has(dir, "format") ? DIR_STATE : DIR_FREE;
}
