/* Policies in a shared object (htcsched/policy_file.h). What it registers goes into a copy of the registry first. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/policy_file.h"
#include "sched/registry/registry_private.h"

/* Texts of the system come with names in them. */
static htc_status refuse(htc_error *error, htc_status status, const char *hint, const char *text)
{
    if (!error)
        return status;
    error->status = status;
    snprintf(error->text, sizeof error->text, "%s", text);
    snprintf(error->hint, sizeof error->hint, "%s", hint);
    htc_text_show(error->text);
    htc_text_show(error->hint);
    return status;
}

/* ---- who can write to it ---- */

/* A folder in which nobody replaces what is others' will do, as /tmp. */
static int is_trusted(const char *path, int folder)
{
    struct stat st;
    if (stat(path, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
        return 0;
    return (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (folder && (st.st_mode & S_ISVTX));
}

/* path: absolute, without links. The file and every folder above it. */
static htc_status check_trusted(char *path, htc_error *error)
{
    char text[300];
    int  folder = 0;
    for (size_t n = strlen(path); n > 0; folder = 1) {
        char kept = path[n];
        path[n] = '\0';
        int good = is_trusted(path, folder);
        snprintf(text, sizeof text, "%.200s belongs to another user, or others can write to it", folder ? path : "it");
        path[n] = kept;
        if (!good)
            return refuse(error, HTC_EDENIED, "chown it to root or to the user of this process, and chmod go-w", text);
        while (n > 0 && path[--n] != '/')
            ;
    }
    return HTC_OK;
}

/* ---- what it is ---- */

static htc_status open_file(const char *path, void **handle, htc_error *error)
{
    const char *said;
    size_t      n = strlen(path);
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*handle)
        return HTC_OK;
    said = dlerror();
    said = said ? said : "?";
    if (strncmp(said, path, n) == 0 && strncmp(said + n, ": ", 2) == 0)
        said += n + 2; /* its name is told already */
    return refuse(error, HTC_EINPUT,
                  strstr(said, "undefined symbol") ? "link it with what it uses: $(pkg-config --libs htcsched)" : "build it with cc -shared -fPIC, for this machine", said);
}

/* A registry is what this library makes of it: no other copy may look into one. */
static int has_other_library(void *handle)
{
    static const char here = 0;
    const void       *add = dlsym(handle, "htc_registry_add");
    Dl_info           theirs, ours;
    return add && (!dladdr(add, &theirs) || !dladdr(&here, &ours) || theirs.dli_fbase != ours.dli_fbase);
}

static htc_status check_version(void *handle, htc_error *error)
{
    char            text[160];
    const uint32_t *abi = dlsym(handle, "htc_policy_abi");
    if (!abi)
        return refuse(error, HTC_EVERSION, "put HTC_POLICY_FILE; into one of its sources", "it has no htc_policy_abi");
    if (*abi != HTC_POLICY_ABI) {
        snprintf(text, sizeof text, "it is for version %u of htcsched/policy_file.h, and this is version %u", (unsigned)*abi, (unsigned)HTC_POLICY_ABI);
        return refuse(error, HTC_EVERSION, "compile it anew, with the headers of this version", text);
    }
    if (has_other_library(handle))
        return refuse(error, HTC_EVERSION, "link it with the shared library htcsched that this program has loaded", "it brings another copy of the library htcsched");
    return HTC_OK;
}

/* ---- what it adds ---- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { [HTC_REGISTRY_STEAL] = "steal",     [HTC_REGISTRY_WEIGHT] = "weight", [HTC_REGISTRY_BALANCE] = "balance",
                                         [HTC_REGISTRY_LOCALITY] = "locality", [HTC_REGISTRY_PROVISION] = "provision", [HTC_REGISTRY_FIT] = "fit",
                                         [HTC_REGISTRY_GRANT] = "grant",     [HTC_REGISTRY_SETUP] = "setup" };
    return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "other";
}

static htc_status not_added(const htc_registry *r, htc_status status, htc_error *error)
{
    char        text[200];
    uint32_t    kind;
    const char *name = htc__registry_refused(r, &kind);
    if (status == HTC_EEXISTS && name[0]) {
        snprintf(text, sizeof text, "there is a %s policy called %s already", kind_name(kind), name);
        return refuse(error, status, "give it another name", text);
    }
    snprintf(text, sizeof text, "its htc_policy_register fails: %s", htc_strerror(status));
    return refuse(error, status, status == HTC_EABI ? "compile it with the headers of this version" : status == HTC_EINVAL ? "look at size, name and the functions of its policies" : "", text);
}

static htc_status add(htc_registry *registry, void *handle, htc_error *error)
{
    htc_status (*function)(htc_registry *);
    htc_registry *copy = NULL;
    void         *symbol = dlsym(handle, "htc_policy_register");
    if (!symbol)
        return refuse(error, HTC_ENOTFOUND, "define it as htcsched/policy_file.h has it; in C++ include that header", "it has no function htc_policy_register");
    memcpy(&function, &symbol, sizeof function);
    htc_status status = htc__registry_copy(registry, &copy);
    if (status != HTC_OK)
        return refuse(error, status, "", htc_strerror(status));
    status = function(copy);
    if (status != HTC_OK) {
        status = not_added(copy, status, error);
        htc_registry_destroy(copy);
        return status;
    }
    if (htc__registry_take(registry, copy) == 0)
        return refuse(error, HTC_EINPUT, "call htc_steal_register, or that of another kind, in htc_policy_register", "it adds no policy");
    return HTC_OK;
}

htc_status htc_policy_load(htc_registry *registry, const char *path, uint32_t how, htc_error *error)
{
    char  full[PATH_MAX];
    void *handle;
    if (error)
        *error = (htc_error){ .status = HTC_OK };
    if (!registry || !path || (how & ~HTC_POLICY_TRUSTED))
        return HTC_EINVAL;
    if (error) {
        snprintf(error->where, sizeof error->where, "%s", path);
        htc_text_show(error->where);
    }
    if (!realpath(path, full))
        return refuse(error, HTC_EINPUT, "give the name of a shared object, as mine.so", strerror(errno));
    htc_status status = how & HTC_POLICY_TRUSTED ? check_trusted(full, error) : HTC_OK;
    if (status == HTC_OK)
        status = open_file(full, &handle, error);
    if (status == HTC_OK)
        status = check_version(handle, error);
    return status == HTC_OK ? add(registry, handle, error) : status;
}
