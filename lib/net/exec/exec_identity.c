/* An agent that root starts becomes the user whose tasks it runs, before it does anything for them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/agent_host.h"
#include "core/util.h"
#include "net/exec/exec_private.h"
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

#define OBJECTS_KEPT_S (24 * 3600) /* of users who have not been here since */

static int is_number(const char *name)
{
    return *name && strspn(name, "0123456789") == strlen(name);
}

/* A place of this user's own for objects (htcsched/agent_host.h), in a directory that is root's: what he made here stays from one agent of his to
 * the next, for a day. */
static int objects_for(const char *slot_dir, uid_t uid, gid_t gid)
{
    char           path[PATH_MAX], name[32];
    struct dirent *e;
    struct stat    st;
    if (snprintf(path, sizeof path, "%s.objects", slot_dir) >= (int)sizeof path || (mkdir(path, 0711) != 0 && errno != EEXIST))
        return -1;
    int  dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), list = dir >= 0 ? dup(dir) : -1;
    DIR *d = list >= 0 ? fdopendir(list) : NULL;
    int  bad = !d || fstat(dir, &st) != 0 || st.st_uid != 0 || fchmod(dir, 0711) != 0;
    snprintf(name, sizeof name, "%u", (unsigned)uid);
    time_t now = time(NULL);
    while (!bad && (e = readdir(d)))
        if (is_number(e->d_name) && strcmp(e->d_name, name) != 0 && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now - st.st_mtime > OBJECTS_KEPT_S)
            (void)htc__remove_below(dir, e->d_name);
    if (!bad && (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)) {
        int own = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bad = own < 0 || fchown(own, uid, gid) != 0;
        if (own >= 0)
            close(own);
    }
    if (d)
        closedir(d);
    else if (list >= 0)
        close(list);
    if (dir >= 0)
        close(dir);
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
    if (objects_for(slot_dir, uid, gid) != 0)
        return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot make %s.objects for uid %u: %s", slot_dir, uid, strerror(errno));
    if (htc__turns_make(slot_dir, uid, gid) != 0)
        return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot make the turns of uid %u beside %s: %s", uid, slot_dir, strerror(errno));
    if (take_groups(uid, gid, home, HTC_AGENT_HOST_HOME_MAX) != 0 || (uid != 0 && take_uid(uid, gid) != 0))
        return htc__error(error, HTC_EIO, "cannot become uid %u: %s", uid, strerror(errno));
    return HTC_OK;
}
