/* A directory as one content, from a stranger: it is unpacked below a directory of its own, and what lies beside that stays as it was. What can be unpacked into an
 * empty directory is packed again, and that comes back the same. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "net/files/files.h"
#include "net/files/tree.h"

static char top[64];

static void clean(void)
{
    (void)htc__remove_tree(top);
}

static htc_status unpack(int fd, int dir, const char *name, uint8_t hash[32])
{
    char why[400];
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    htc_status status = htc__tree_unpack(fd, dir, name, hash, why, sizeof why);
    CHECK(status == HTC_OK || status == HTC_EINPUT || status == HTC_EPATH || status == HTC_ESTAGEIN);
    return status;
}

static int pack(const char *name)
{
    char path[100], why[400];
    int  fd = memfd_create("tree", MFD_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", top, name);
    CHECK(fd >= 0 && htc__tree_pack(path, fd, HTC__TREE_ENTRIES_MAX, why, sizeof why) == HTC_OK);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t     one[32], two[32];
    char        path[100];
    if (!top[0]) {
        snprintf(top, sizeof top, "/tmp/htc-fuzz-tree-XXXXXX");
        CHECK(mkdtemp(top) != NULL && atexit(clean) == 0);
    }
    snprintf(path, sizeof path, "%s/beside", top);
    int dir = open(top, O_RDONLY | O_DIRECTORY), fd = memfd_create("content", MFD_CLOEXEC);
    CHECK(dir >= 0 && fd >= 0 && write(fd, data, size) == (ssize_t)size && (mkdir(path, 0755) == 0 || access(path, F_OK) == 0));
    if (unpack(fd, dir, "in/tree", one) == HTC_OK) {
        int again = pack("in/tree");
        CHECK(unpack(again, dir, "in/again", one) == HTC_OK);
        close(again);
        again = pack("in/again");
        CHECK(unpack(again, dir, "in/third", two) == HTC_OK && memcmp(one, two, 32) == 0);
        close(again);
    }
    CHECK(htc__remove_below(dir, "in") == 0);
    CHECK(rmdir(path) == 0 && rmdir(top) == 0 && mkdir(top, 0700) == 0); /* else something was written beside it */
    close(fd);
    close(dir);
    return 0;
}
