/* The state directory: its format, its lock, its places. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/state.h"
#include "net/loop/host_private.h"

#define PLACES HTC_STATE_ONCE

struct htc_state {
    const htc_env *env;
    char          *dir;
    char          *places[PLACES + 1];
    int            lock_fd;
};

static const struct place {
    const char *name;
    int         directory;
} place_table[PLACES + 1] = {
    [HTC_STATE_GATEWAY_SOCKET] = { "gateway.sock", 0 }, [HTC_STATE_STORE_SOCKET] = { "kvd.sock", 0 },
    [HTC_STATE_TCP_TOKEN] = { "tcp-token", 0 },         [HTC_STATE_STORE] = { "store", 1 },
    [HTC_STATE_DATA] = { "data", 1 },                   [HTC_STATE_SLOTS] = { "slots", 1 },
    [HTC_STATE_LOG] = { "log", 1 },                     [HTC_STATE_RUN] = { "run", 1 },
    [HTC_STATE_CONFIG] = { "htc.ini", 0 },              [HTC_STATE_OPERATOR] = { "operator", 0 },
    [HTC_STATE_KEY] = { "key", 0 },                     [HTC_STATE_RING] = { "ring", 0 },
    [HTC_STATE_ONCE] = { "once", 0 },
};

const char *htc_state_find(const char *const *candidates)
{
    for (; candidates && *candidates; candidates++)
        if (**candidates)
            return *candidates;
    return NULL;
}

/* dir/name; NULL when out of memory. */
static char *join(const htc_env *env, const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char  *path = htc__alloc(env, n);
    if (path)
        snprintf(path, n, "%s/%s", dir, name);
    return path;
}

/* The absolute name of a directory that exists. */
static char *absolute(const htc_env *env, const char *dir)
{
    char *real = realpath(dir, NULL), *copy = real ? htc__strdup(env, real) : NULL;
    free(real);
    return copy;
}

htc_status htc_state_write_file(const char *path, htc_bytes content, uint32_t mode, htc_error *error)
{
    char       *temporary = NULL;
    const char *bytes = content.data;
    size_t      done = 0;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) /* several processes may begin at once, each with a file of its own */
        return htc__error(error, HTC_ENOMEM, "out of memory");
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0 && fchmod(fd, (mode_t)mode) != 0) {
        close(fd);
        unlink(temporary);
        fd = -1;
    }
    while (fd >= 0 && done < content.len) {
        ssize_t n = write(fd, bytes + done, content.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    int ok = fd >= 0 && done == content.len && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (ok && rename(temporary, path) != 0) {
        ok = 0;
        why = errno;
    }
    if (!ok)
        unlink(temporary);
    free(temporary);
    if (ok)
        return HTC_OK;
    return htc__error(error, why == ENOSPC || why == EDQUOT ? HTC_ENOSPC : HTC_EIO, "cannot write %s: %s", path,
                      strerror(why));
}

static htc_status write_format(const char *path, htc_error *error)
{
    char text[32];
    snprintf(text, sizeof text, "htcsched %d\n", HTC_STATE_FORMAT);
    return htc_state_write_file(path, htc_bytes_of(text), 0600, error);
}

/* Read the version; a directory without the file is new if it is empty, else it is not ours to touch. */
static htc_status check_format(htc_state *s, uint32_t create, htc_error *error)
{
    char  text[64] = "";
    char *path = join(s->env, s->dir, "format");
    long  version = 0;
    if (!path)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    int        fd = open(path, O_RDONLY | O_CLOEXEC);
    int        why = errno;
    htc_status status = HTC_OK;
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n < 0 || sscanf(text, "htcsched %ld", &version) != 1)
            status = htc__error(error, HTC_EFORMAT, "%s is not the format file of a state directory", path);
        else if (version != HTC_STATE_FORMAT)
            status = htc__error(error, HTC_EFORMAT,
                                "%s has format version %ld, this program knows version %d", s->dir, version,
                                HTC_STATE_FORMAT);
    } else if (why != ENOENT) {
        status = htc__error(error, HTC_EDENIED, "cannot read %s: %s", path, strerror(why));
    } else if (!create) {
        status = htc__error(error, HTC_ENOTFOUND, "there is no state in %s", s->dir);
    } else {
        status = write_format(path, error);
    }
    if (error && status == HTC_ENOTFOUND)
        snprintf(error->hint, sizeof error->hint, "htc up creates it; --dir or HTC_DIR name another one");
    htc__strfree(s->env, path);
    return status;
}

static htc_status check_owner(const char *dir, htc_error *error)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return htc__error(error, HTC_EIO, "cannot look at %s: %s", dir, strerror(errno));
    if (st.st_uid != geteuid() && geteuid() != 0)
        return htc__error(error, HTC_EDENIED, "%s belongs to another user", dir);
    if (st.st_mode & 022)
        return htc__error(error, HTC_EDENIED, "%s can be written by others: chmod go-w it first", dir);
    return HTC_OK;
}

/* mkdir -p; only the last one is made 0700. */
static int make_directories(const char *dir)
{
    char  *copy = strdup(dir);
    int    result = 0;
    size_t len = copy ? strlen(copy) : 0;
    if (!copy)
        return -1;
    for (size_t i = 1; i < len && result == 0; i++)
        if (copy[i] == '/') {
            copy[i] = 0;
            if (mkdir(copy, 0755) != 0 && errno != EEXIST)
                result = -1;
            copy[i] = '/';
        }
    if (result == 0 && mkdir(copy, 0700) != 0 && errno != EEXIST)
        result = -1;
    free(copy);
    return result;
}

/* A place that may not be written is the caller's mistake, not a disk that fails. */
static htc_status not_created(const char *path, int why, htc_error *error)
{
    int denied = why == EACCES || why == EPERM || why == EROFS || why == ENOTDIR || why == ENAMETOOLONG || why == ELOOP;
    htc__error(error, denied ? HTC_EDENIED : why == ENOSPC || why == EDQUOT ? HTC_ENOSPC : HTC_EIO, "cannot create %s: %s", path, strerror(why));
    if (error && denied)
        snprintf(error->hint, sizeof error->hint, "give a --dir that you may write");
    return denied ? HTC_EDENIED : why == ENOSPC || why == EDQUOT ? HTC_ENOSPC : HTC_EIO;
}

static htc_status make_places(htc_state *s, uint32_t create, htc_error *error)
{
    for (int i = 1; i <= PLACES; i++) {
        s->places[i] = join(s->env, s->dir, place_table[i].name);
        if (!s->places[i])
            return htc__error(error, HTC_ENOMEM, "out of memory");
        if (create && place_table[i].directory && mkdir(s->places[i], 0700) != 0 && errno != EEXIST)
            return not_created(s->places[i], errno, error);
    }
    return HTC_OK;
}

htc_status htc_state_open(const htc_env *env, const char *dir, uint32_t create, htc_state **out, htc_error *error)
{
    if (!dir || !*dir || !out)
        return htc__error(error, HTC_EINVAL, "a state directory needs a name");
    if (create && make_directories(dir) != 0)
        return not_created(dir, errno, error);
    htc_state *s = htc__alloc(env, sizeof *s);
    if (!s)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    s->env = env;
    s->lock_fd = -1;
    s->dir = absolute(env, dir);
    htc_status status = HTC_OK;
    if (!s->dir) {
        status = htc__error(error, HTC_ENOTFOUND, "there is no state in %s: %s", dir, strerror(errno));
        if (error)
            snprintf(error->hint, sizeof error->hint, "htc up creates it; --dir or HTC_DIR name another one");
    }
    if (status == HTC_OK)
        status = check_owner(s->dir, error);
    if (status == HTC_OK)
        status = check_format(s, create, error);
    if (status == HTC_OK)
        status = make_places(s, create, error);
    if (status != HTC_OK) {
        htc_state_close(s);
        return status;
    }
    *out = s;
    return HTC_OK;
}

void htc_state_close(htc_state *s)
{
    if (!s)
        return;
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    for (int i = 1; i <= PLACES; i++)
        htc__strfree(s->env, s->places[i]);
    htc__strfree(s->env, s->dir);
    htc__free(s->env, s, sizeof *s);
}

const char *htc_state_dir(const htc_state *state)
{
    return state->dir;
}

const char *htc_state_path(const htc_state *state, uint32_t place)
{
    return place >= 1 && place <= PLACES ? state->places[place] : NULL;
}

htc_status htc_state_operator(const htc_state *state, char token[HTC_STATE_TOKEN_LEN + 1], htc_error *error)
{
    _Static_assert(HTC_STATE_TOKEN_LEN == HTC_HOST_TOKEN_LEN, "one kind of token");
    if (!state || !token)
        return htc__error(error, HTC_EINVAL, "a state directory and room for the token are needed");
    return htc__token_file(state->places[HTC_STATE_OPERATOR], token, error);
}

/* The first directory on the way that not everybody may enter, cut off at its end; NULL: there is none. */
static const char *first_closed(char *path)
{
    size_t      n = strlen(path);
    struct stat st;
    for (size_t i = 1; i <= n; i++)
        if (path[i] == '/' || path[i] == 0) {
            char kept = path[i];
            path[i] = 0;
            if (stat(path, &st) != 0 || !(st.st_mode & S_IXOTH))
                return path;
            path[i] = kept;
        }
    return NULL;
}

/* May others pass through the directory? */
static htc_status set_entry(const htc_state *s, uint32_t others, htc_error *error)
{
    struct stat st;
    /* Looked at and changed by one descriptor: at the path somebody may put a link between the two. */
    int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), why = 0;
    int seen = fd >= 0 && fstat(fd, &st) == 0;
    if (!seen)
        why = errno;
    mode_t mode = seen ? st.st_mode & 07777 : 0, wanted = others ? mode | 0011 : mode == 0711 ? 0700 : mode;
    if (seen && wanted != mode && fchmod(fd, wanted) != 0)
        why = errno;
    if (fd >= 0)
        close(fd);
    if (why)
        return htc__error(error, seen ? HTC_EDENIED : HTC_EIO, seen ? "cannot change the mode of %s: %s" : "cannot look at %s: %s",
                          s->dir, strerror(why));
    return HTC_OK;
}

htc_status htc_state_share(htc_state *s, uint32_t others, htc_error *error)
{
    if (!s)
        return htc__error(error, HTC_EINVAL, "a state directory is needed");
    htc_status opened = set_entry(s, others, error);
    if (opened != HTC_OK)
        return opened;
    char       *way = others ? htc__strdup(s->env, s->dir) : NULL;
    const char *closed = way ? first_closed(way) : NULL;
    htc_status  status = others && !way ? htc__error(error, HTC_ENOMEM, "out of memory") : HTC_OK;
    if (closed) {
        status = htc__error(error, HTC_EDENIED, "other users cannot enter %s on the way to the socket", closed);
        if (error)
            snprintf(error->hint, sizeof error->hint, "chmod o+x it, or take a --dir that they can reach, such as /var/lib/htc");
    }
    if (way) {
        memcpy(way, s->dir, strlen(s->dir) + 1); /* whole again: its length is what is given back */
        htc__strfree(s->env, way);
    }
    return status;
}

/* A lock of the open file, not of the process: closing another descriptor of the same file does not lose it. */
static const struct flock whole_file = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

static int open_lock(const htc_state *s, int flags)
{
    char *path = join(s->env, s->dir, "lock");
    int   fd = path ? open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    htc__strfree(s->env, path);
    return fd;
}

static uint32_t pid_in(int fd)
{
    char    text[32] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    return n > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

htc_status htc_state_lock(htc_state *s, htc_error *error)
{
    char text[32];
    if (s->lock_fd >= 0)
        return HTC_OK;
    int fd = open_lock(s, O_RDWR | O_CREAT);
    if (fd < 0)
        return htc__error(error, HTC_EIO, "cannot open the lock of %s: %s", s->dir, strerror(errno));
    if (fcntl(fd, F_OFD_SETLK, &whole_file) != 0) {
        uint32_t pid = pid_in(fd);
        close(fd);
        htc_status status = htc__error(error, HTC_ELOCKED, "%s is in use by process %u", s->dir, pid);
        if (error)
            snprintf(error->hint, sizeof error->hint, "htc down stops it");
        return status;
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        /* The lock is what counts; its text is for people, and a full disk must not keep the system down. */
    }
    s->lock_fd = fd;
    return HTC_OK;
}

uint32_t htc_state_holder(const htc_state *s)
{
    if (s->lock_fd >= 0)
        return (uint32_t)getpid();
    int fd = open_lock(s, O_RDONLY);
    if (fd < 0)
        return 0;
    uint32_t pid = 0;
    /* Asking takes no lock: taking one for a moment would turn away an htc up that starts right now. */
    struct flock seen = whole_file;
    if (fcntl(fd, F_OFD_GETLK, &seen) == 0 && seen.l_type != F_UNLCK)
        pid = pid_in(fd);
    close(fd);
    return pid;
}
