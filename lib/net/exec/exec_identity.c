/* An agent that root starts becomes the user whose tasks it runs, before it does anything for them. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/agent_host.h"
#include "core/util.h"
#include "net/files/files.h"

#define ACCOUNT_BYTES 16384

/* The slot may have been another user's, who can have left anything in it. Its name is root's to give. */
static int slot_for(const char *slot_dir, uid_t uid, gid_t gid)
{
    if (htc__remove_tree(slot_dir) != 0 || mkdir(slot_dir, 0700) != 0)
        return -1;
    int fd = open(slot_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int bad = fd < 0 || fchown(fd, uid, gid) != 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return bad ? -1 : 0;
}

static int take_groups(uid_t uid, gid_t gid, char *home, size_t room)
{
    char           bytes[ACCOUNT_BYTES];
    struct passwd  account, *found = NULL;
    int            known = getpwuid_r(uid, &account, bytes, sizeof bytes, &found) == 0 && found;
    snprintf(home, room, "%s", known && found->pw_dir[0] == '/' ? found->pw_dir : "/");
    return known ? initgroups(found->pw_name, gid) : setgroups(1, &gid);
}

static int take_uid(uid_t uid, gid_t gid)
{
    uid_t real, effective, saved;
    if (setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0 || getresuid(&real, &effective, &saved) != 0)
        return -1;
    errno = EPERM;
    return real == uid && effective == uid && saved == uid && setresuid((uid_t)-1, 0, (uid_t)-1) != 0 ? 0 : -1;
}

htc_status htc_agent_host_become(const char *slot_dir, uint32_t uid, uint32_t gid, char home[HTC_AGENT_HOST_HOME_MAX],
                                 htc_error *error)
{
    if (!slot_dir || !home)
        return htc__error(error, HTC_EINVAL, "a slot and room for the home directory are needed");
    if (geteuid() != 0)
        return htc__error(error, HTC_EDENIED, "only root can become uid %u", uid);
    if (slot_for(slot_dir, uid, gid) != 0)
        return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot make %s for uid %u: %s", slot_dir, uid, strerror(errno));
    if (take_groups(uid, gid, home, HTC_AGENT_HOST_HOME_MAX) != 0 || (uid != 0 && take_uid(uid, gid) != 0))
        return htc__error(error, HTC_EIO, "cannot become uid %u: %s", uid, strerror(errno));
    return HTC_OK;
}
