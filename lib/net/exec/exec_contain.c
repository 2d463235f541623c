/* A task that asks for a container is started as the command of whatever the node has for that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/container.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"

/* What the image is to execute: what was staged in goes before what the image has. */
static const char *program_inside(const htc__run *r, char *room, size_t cap)
{
    const char *name = r->task->executable;
    struct stat st;
    int         n = snprintf(room, cap, "%s/%s", r->work, name);
    if (name[0] == '/' || n < 0 || (size_t)n >= cap)
        return name;
    return strchr(name, '/') || (stat(room, &st) == 0 && S_ISREG(st.st_mode)) ? room : name;
}

static htc_status refuse(htc__run *r, htc_status status, const char *why)
{
    snprintf(r->text, sizeof r->text, "container %.200s: %.200s", r->task->container, why);
    return status;
}

static int is_directory(const char *path)
{
    struct stat st;
    return path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

htc_status htc__child_contain(htc__child *c, htc__run *r)
{
    const htc_agent_host *a = r->agent;
    char                  inside[PATH_MAX], own[PATH_MAX], why[300];
    if (!r->task->container)
        return HTC_OK;
    if (htc__run_no_paths(r))
        return refuse(r, HTC_EPATH, htc__run_no_paths(r));
    htc__container_kind kind = htc__container_find(a->container, a->path, c->program, sizeof c->program);
    if (kind == HTC__CONTAINER_NONE && strcmp(a->container, "off") == 0)
        return refuse(r, HTC_EUNSUPPORTED, "this site runs none (site.NAME.container = off)");
    if (kind == HTC__CONTAINER_NONE) {
        snprintf(why, sizeof why, "node %.60s of site %.60s has no %s", a->node, a->site,
                 strcmp(a->container, "auto") == 0 ? "apptainer, podman or bwrap" : a->container);
        return refuse(r, HTC_EUNSUPPORTED, why);
    }
    if (kind == HTC__CONTAINER_BWRAP && !is_directory(r->task->container))
        return refuse(r, HTC_EINPUT, "bwrap wants an image that is a directory of the node, by its absolute path");
    snprintf(own, sizeof own, "%s/tmp", r->dir);
    if (mkdir(own, 0700) != 0 && errno != EEXIST) {
        int why_not = errno;
        refuse(r, HTC_EIO, strerror(why_not));
        return htc__status_of(why_not, HTC_EREFUSED);
    }
    char *executable = c->argv[0];
    c->argv[0] = (char *)(uintptr_t)program_inside(r, inside, sizeof inside);
    htc__container of = { .program = c->program, .image = r->task->container, .dir = r->dir, .work = r->work, .argv = (const char *const *)c->argv,
                          .gpus = r->task->devices != NULL };
    const char *odd = htc__container_refuses(kind, &of);
    if (odd) {
        c->argv[0] = executable;
        snprintf(why, sizeof why, "%s takes a ':' or ',' for the end of a path, as in %.100s -> take a directory without", kind == HTC__CONTAINER_PODMAN ? "podman" : "apptainer", odd);
        return refuse(r, HTC_EPATH, why);
    }
    char **words = htc__container_words(kind, &of);
    c->argv[0] = executable;
    if (!words)
        return errno == ENOMEM ? HTC_ENOMEM : refuse(r, HTC_EINPUT, strerror(errno));
    free(c->argv);
    c->argv = words;
    c->own_words = 1;
    r->behind = kind == HTC__CONTAINER_BWRAP;
    return HTC_OK;
}
