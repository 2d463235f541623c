#include "net/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/codec.h"
#include "net/files/files.h"

#define MAGIC       "htc-tree 1\n"
#define NAME_ROOM   4096
#define DEPTH_MAX   128 /* directories below each other: each one holds a descriptor while it is read */
#define ENTRIES_MAX UINT64_C(1000000)
#define PIECE       65536

/* ---- packing ---- */

typedef struct packer {
    int      out;
    char    *why;
    size_t   room;
    uint64_t entries;
    char     name[NAME_ROOM]; /* below the directory */
    size_t   used;
    uint8_t  buf[PIECE];
} packer;

#define WHY(p, ...) snprintf((p)->why, (p)->room, __VA_ARGS__)

static htc_status flush(packer *p)
{
    for (size_t done = 0; done < p->used;) {
        ssize_t n = write(p->out, p->buf + done, p->used - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n < 0 ? errno : ENOSPC;
            WHY(p, "cannot write: %s", strerror(why));
            return htc__status_of(why, HTC_EIO);
        }
        done += (size_t)n;
    }
    p->used = 0;
    return HTC_OK;
}

static htc_status put(packer *p, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    htc_status     status = HTC_OK;
    while (len && status == HTC_OK) {
        size_t n = len < sizeof p->buf - p->used ? len : sizeof p->buf - p->used;
        memcpy(p->buf + p->used, from, n);
        p->used += n;
        from += n;
        len -= n;
        if (p->used == sizeof p->buf)
            status = flush(p);
    }
    return status;
}

static htc_status put_text(packer *p, const char *text)
{
    uint8_t    len[4];
    htc__le32_put(len, (uint32_t)strlen(text));
    htc_status status = put(p, len, sizeof len);
    return status == HTC_OK ? put(p, text, strlen(text)) : status;
}

static htc_status put_entry(packer *p, char type)
{
    if (++p->entries > ENTRIES_MAX) {
        WHY(p, "more than %d files: pack them into an archive", (int)ENTRIES_MAX);
        return HTC_ETOOBIG;
    }
    htc_status status = put(p, &type, 1);
    return status == HTC_OK ? put_text(p, p->name) : status;
}

static htc_status unreadable(packer *p, int why)
{
    WHY(p, "cannot read %.200s: %s", p->name, strerror(why));
    return HTC_EINPUT;
}

static htc_status pack_file(packer *p, int at, const char *name)
{
    struct stat st;
    uint8_t     size[8], piece[8192];
    int         fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : EINVAL;
        if (fd >= 0)
            close(fd);
        return unreadable(p, why);
    }
    uint64_t   left = (uint64_t)st.st_size;
    htc_status status = put_entry(p, st.st_mode & 0111 ? 'x' : 'f');
    htc__le64_put(size, left);
    if (status == HTC_OK)
        status = put(p, size, sizeof size);
    while (status == HTC_OK && left) {
        ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            status = n < 0 ? unreadable(p, errno) : HTC_EINPUT;
            if (n == 0)
                WHY(p, "%.200s was cut while it was read", p->name);
            break;
        }
        status = put(p, piece, (size_t)n);
        left -= (uint64_t)n;
    }
    close(fd);
    return status;
}

static htc_status pack_link(packer *p, int at, const char *name, unsigned depth)
{
    char    target[NAME_ROOM];
    ssize_t n = readlinkat(at, name, target, sizeof target);
    if (n < 0 || (size_t)n >= sizeof target)
        return unreadable(p, n < 0 ? errno : ENAMETOOLONG);
    target[n] = '\0';
    if (!htc__link_stays(target, depth)) {
        WHY(p, "the symbolic link %.150s leads outside the directory, to %.100s", p->name, target);
        return HTC_EPATH;
    }
    htc_status status = put_entry(p, 'l');
    return status == HTC_OK ? put_text(p, target) : status;
}

static int is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Not by the user's language: the order is part of the content. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static htc_status pack_dir(packer *p, int fd, size_t len, unsigned depth);

static htc_status pack_one(packer *p, int at, const char *name, size_t len, unsigned depth)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return unreadable(p, errno);
    if (S_ISREG(st.st_mode))
        return pack_file(p, at, name);
    if (S_ISLNK(st.st_mode))
        return pack_link(p, at, name, depth);
    if (!S_ISDIR(st.st_mode)) {
        WHY(p, "%.200s is neither a file, a directory nor a symbolic link", p->name);
        return HTC_EINPUT;
    }
    if (depth + 1 >= DEPTH_MAX) {
        WHY(p, "more than %d directories below each other", DEPTH_MAX);
        return HTC_ETOOBIG;
    }
    htc_status status = put_entry(p, 'd');
    if (status != HTC_OK)
        return status;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? unreadable(p, errno) : pack_dir(p, fd, len, depth + 1);
}

/* fd is taken; len: of its name. */
static htc_status pack_dir(packer *p, int fd, size_t len, unsigned depth)
{
    struct dirent **list = NULL;
    htc_status      status = HTC_OK;
    int             n = scandirat(fd, ".", &list, is_entry, by_bytes);
    if (n < 0)
        status = unreadable(p, errno);
    for (int i = 0; i < n; i++) {
        int m = snprintf(p->name + len, sizeof p->name - len, "%s%s", len ? "/" : "", list[i]->d_name);
        if (status == HTC_OK && len + (size_t)m >= sizeof p->name) {
            WHY(p, "a name is longer than %d bytes", NAME_ROOM - 1);
            status = HTC_EINPUT;
        } else if (status == HTC_OK) {
            status = pack_one(p, fd, list[i]->d_name, len + (size_t)m, depth);
        }
        p->name[len] = '\0';
        free(list[i]);
    }
    free(list);
    close(fd);
    return status;
}

htc_status htc__tree_pack(const char *dir, int out, char *why, size_t room)
{
    packer *p = malloc(sizeof *p);
    if (!p) {
        snprintf(why, room, "out of memory");
        return HTC_ENOMEM;
    }
    p->out = out;
    p->why = why;
    p->room = room;
    p->entries = p->used = 0;
    p->name[0] = '\0';
    int        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    htc_status status = fd < 0 ? HTC_EINPUT : put(p, MAGIC, strlen(MAGIC));
    if (fd < 0)
        WHY(p, "cannot read the directory: %s", strerror(errno));
    else if (status == HTC_OK)
        status = pack_dir(p, fd, 0, 0);
    else
        close(fd);
    if (status == HTC_OK)
        status = put(p, "", 1);
    if (status == HTC_OK)
        status = flush(p);
    free(p);
    return status;
}

/* ---- unpacking ---- */

typedef struct unpacker {
    int                      from, root;
    htc_status               broken; /* of reading */
    int                      ended;
    size_t                   at, have;
    crypto_generichash_state hash;
    char                    *why;
    size_t                   room;
    char                     name[NAME_ROOM], target[NAME_ROOM];
    uint8_t                  buf[PIECE];
} unpacker;

/* The next bytes, hashed; 0: there are none, or broken says why. */
static size_t fill(unpacker *u)
{
    while (u->at == u->have && !u->ended) {
        ssize_t n = read(u->from, u->buf, sizeof u->buf);
        if (n < 0 && errno == EINTR)
            continue;
        u->ended = n <= 0;
        if (n < 0) {
            u->broken = htc__status_of(errno, HTC_EIO);
            WHY(u, "cannot read it: %s", strerror(errno));
        }
        u->at = 0;
        u->have = n > 0 ? (size_t)n : 0;
        if (u->have)
            crypto_generichash_update(&u->hash, u->buf, u->have);
    }
    return u->have - u->at;
}

static htc_status no_tree(unpacker *u)
{
    if (u->broken == HTC_OK)
        WHY(u, "it is no directory that was uploaded");
    return u->broken != HTC_OK ? u->broken : HTC_EINPUT;
}

static htc_status get(unpacker *u, void *to, size_t len)
{
    uint8_t *p = to;
    while (len) {
        size_t n = fill(u);
        n = n < len ? n : len;
        if (n == 0)
            return no_tree(u);
        memcpy(p, u->buf + u->at, n);
        u->at += n;
        p += n;
        len -= n;
    }
    return HTC_OK;
}

static htc_status get_text(unpacker *u, char text[NAME_ROOM])
{
    uint8_t    len[4];
    htc_status status = get(u, len, sizeof len);
    uint32_t   n = status == HTC_OK ? htc__le32_get(len) : 0;
    if (status == HTC_OK && (n == 0 || n >= NAME_ROOM))
        return no_tree(u);
    if (status == HTC_OK)
        status = get(u, text, n);
    text[n] = '\0';
    return status == HTC_OK && strlen(text) != n ? no_tree(u) : status;
}

static htc_status in_the_way(unpacker *u, int why)
{
    WHY(u, "%.200s: %s", u->name, why == ELOOP || why == ENOTDIR ? "it leaves the directory" : why == ENXIO || why == EISDIR || why == EEXIST ? "what is there is in its way" : strerror(why));
    return why == ELOOP || why == ENOTDIR || why == ENXIO || why == EISDIR || why == EEXIST || why == EPERM ? HTC_EPATH : htc__status_of(why, HTC_ESTAGEIN);
}

static htc_status make_dir(unpacker *u)
{
    int fd = htc__make_below(u->root, u->name), why = errno;
    if (fd < 0)
        return in_the_way(u, why);
    close(fd);
    return HTC_OK;
}

static htc_status write_all(unpacker *u, int to, uint64_t left)
{
    while (left) {
        size_t n = fill(u);
        if (n == 0)
            return no_tree(u);
        n = n < left ? n : (size_t)left;
        ssize_t done = write(to, u->buf + u->at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return in_the_way(u, done < 0 ? errno : ENOSPC);
        u->at += (size_t)done;
        left -= (uint64_t)done;
    }
    return HTC_OK;
}

static htc_status make_file(unpacker *u, int executable)
{
    struct stat st;
    uint8_t     size[8];
    htc_status  status = get(u, size, sizeof size);
    if (status != HTC_OK)
        return status;
    int to = htc__open_below(u->root, u->name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY, 0644, 1), why = errno;
    if (to < 0)
        return in_the_way(u, why);
    if (fstat(to, &st) != 0 || !S_ISREG(st.st_mode))
        status = in_the_way(u, ENXIO);
    if (status == HTC_OK)
        status = write_all(u, to, htc__le64_get(size));
    if (status == HTC_OK && fchmod(to, executable ? 0755 : 0644) != 0)
        status = in_the_way(u, errno);
    if (close(to) != 0 && status == HTC_OK)
        status = in_the_way(u, errno);
    return status;
}

static unsigned depth_of(const char *name)
{
    unsigned n = 0;
    for (; *name; name++)
        n += *name == '/';
    return n;
}

/* Nothing is written through it: names are opened through no symbolic link. */
static htc_status make_link(unpacker *u)
{
    char        above[NAME_ROOM];
    htc_status  status = get_text(u, u->target);
    const char *slash = strrchr(u->name, '/');
    if (status == HTC_OK && !htc__link_stays(u->target, depth_of(u->name))) {
        WHY(u, "the symbolic link %.150s leads outside the directory", u->name);
        return HTC_EPATH;
    }
    if (status != HTC_OK)
        return status;
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - u->name) : 0, u->name);
    int in = slash ? htc__make_below(u->root, above) : u->root;
    if (in < 0)
        return in_the_way(u, errno);
    const char *name = slash ? slash + 1 : u->name;
    int         made = symlinkat(u->target, in, name), why = errno;
    if (made != 0 && why == EEXIST && unlinkat(in, name, 0) == 0) {
        made = symlinkat(u->target, in, name);
        why = errno;
    }
    if (slash)
        close(in);
    return made == 0 ? HTC_OK : in_the_way(u, why);
}

static htc_status make_all(unpacker *u)
{
    char       magic[sizeof MAGIC - 1], type;
    htc_status status = get(u, magic, sizeof magic);
    if (status == HTC_OK && memcmp(magic, MAGIC, sizeof magic) != 0)
        status = no_tree(u);
    for (uint64_t n = 0; status == HTC_OK; n++) {
        status = get(u, &type, 1);
        if (status != HTC_OK || type == 0)
            break;
        status = get_text(u, u->name);
        if (status != HTC_OK)
            break;
        if (n == ENTRIES_MAX || !htc__name_stays(u->name)) {
            WHY(u, "%s", n == ENTRIES_MAX ? "more than a million files" : "a name in it leaves the directory");
            return n == ENTRIES_MAX ? HTC_ETOOBIG : HTC_EPATH;
        }
        switch (type) {
        case 'd': status = make_dir(u); break;
        case 'f': status = make_file(u, 0); break;
        case 'x': status = make_file(u, 1); break;
        case 'l': status = make_link(u); break;
        default: status = no_tree(u); break;
        }
    }
    return status == HTC_OK && fill(u) ? no_tree(u) : status; /* something stands behind its end */
}

htc_status htc__tree_unpack(int from, int dir, const char *name, uint8_t hash[32], char *why, size_t room)
{
    unpacker *u = malloc(sizeof *u);
    memset(hash, 0, 32);
    if (!u) {
        snprintf(why, room, "out of memory");
        return HTC_ENOMEM;
    }
    u->from = from;
    u->broken = HTC_OK;
    u->ended = 0;
    u->at = u->have = 0;
    u->why = why;
    u->room = room;
    crypto_generichash_init(&u->hash, NULL, 0, 32);
    u->root = htc__make_below(dir, name);
    snprintf(u->name, sizeof u->name, "%s", name);
    htc_status status = u->root < 0 ? in_the_way(u, errno) : make_all(u);
    for (u->at = u->have; fill(u); u->at = u->have)
        ; /* to the end, for the hash */
    crypto_generichash_final(&u->hash, hash, 32);
    if (u->root >= 0)
        close(u->root);
    free(u);
    return status;
}
