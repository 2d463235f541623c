/* The directories of a system in which each user's agents have a uid of their own: all may pass through those of the
 * system, none can list or change them; a job's outputs belong to its user. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/exec_confine.h"
#include "net/files/files.h"
#include "net/gateway/gateway_private.h"

htc_status htc__places_share(const htc_gateway_host *g, htc_error *error)
{
    static const char *const names[] = { "slots", "data", "data/blobs", "data/given", "data/out" };
    char                     path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", g->state_dir, names[i]);
        if (n >= PATH_MAX || htc__make_dirs(path) != 0 || chmod(path, 0711) != 0)
            return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot open %s to agents: %s", path, strerror(errno));
    }
    return HTC_OK;
}

/* Only we can make names in data/out, so the directory that is opened is the one that was made. -1 and errno. */
static int give_place(const char *path, uint32_t uid, uint32_t gid)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result = fd < 0 || fchown(fd, uid, gid) != 0 || fchmod(fd, 0700) != 0 ? -1 : 0, why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return result;
}

int htc__content_place(const htc_gateway_host *g, const char *user, uint32_t uid, uint32_t gid)
{
    char path[PATH_MAX];
    int  n = snprintf(path, sizeof path, "%s/%s/%s", g->data_dir, g->objects ? "given" : "blobs", user);
    if (n >= PATH_MAX || !htc__content_user_ok(user)) {
        errno = EINVAL;
        return -1;
    }
    return mkdir(path, 0700) != 0 && errno != EEXIST ? -1 : give_place(path, uid, gid);
}

htc_status htc__job_place(htc_gateway_host *g, htc_reader *body)
{
    char     path[PATH_MAX];
    uint64_t job = htc_get_u64(body);
    uint32_t uid = htc_get_u32(body), gid = htc_get_u32(body);
    if (htc_reader_done(body) != HTC_OK)
        return HTC_OK; /* no answer */
    int n = snprintf(path, sizeof path, "%s/out/%" PRIu64, g->data_dir, job);
    int made = n < PATH_MAX ? htc__make_dirs(path) : -1;
    if (made == 0 && uid != 0 && g->apart == HTC_APART_UID)
        made = give_place(path, uid, gid);
    if (made != 0) {
        htc__log(g->env, HTC_LOG_ERROR, "cannot make %s: %s -> its outputs cannot be stored, try again", path,
                 n < PATH_MAX ? strerror(errno) : "its name is too long");
        g->place_missing = 1;
    }
    return HTC_OK;
}

uint32_t htc_gateway_host_apart(const char *state_dir, uint32_t allowed, uint32_t reachable, char why[HTC_GATEWAY_HOST_WHY_MAX])
{
    char             dir[PATH_MAX], text[120] = "";
    const char      *missing = "";
    htc__apart_facts f = { .root = geteuid() == 0, .reachable = reachable != 0, .allowed = allowed != 0 };
    int              n = state_dir ? snprintf(dir, sizeof dir, "%s/run", state_dir) : -1;
    if (!f.root && f.allowed && n > 0 && n < PATH_MAX)
        f.confinable = htc__confine_probe(dir, text, sizeof text) == 0;
    uint32_t level = htc__apart_level(&f, &missing);
    snprintf(why, HTC_GATEWAY_HOST_WHY_MAX, "%s%s%s%s", missing, text[0] ? " (" : "", text, text[0] ? ")" : "");
    return level;
}
