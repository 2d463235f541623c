#include "net/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/codec.h"
#include "net/files/files.h"

#define MAGIC       "htc-tree 1\n"
#define NAME_ROOM   4096
#define DEPTH_MAX   128 /* directories below each other: each one holds a descriptor while it is read */
#define PIECE       65536

/* ---- walking ---- */

typedef struct walker walker;

/* What becomes of each entry, which has walker.name. */
typedef struct walker_ops {
    htc_status (*dir)(walker *w, int fd);
    htc_status (*file)(walker *w, int fd, const struct stat *st);
    htc_status (*link)(walker *w, const char *target);
} walker_ops;

struct walker {
    const walker_ops *ops;
    char             *why;
    size_t            room;
    uint64_t          entries, most;
    char              name[NAME_ROOM]; /* below the directory */
};

#define WHY(w, ...) snprintf((w)->why, (w)->room, __VA_ARGS__)

static htc_status unreadable(walker *w, int why)
{
    WHY(w, "cannot read %.200s: %s", w->name, strerror(why));
    return htc__status_of(why, HTC_EINPUT);
}

static htc_status count_entry(walker *w)
{
    if (++w->entries <= w->most)
        return HTC_OK;
    WHY(w, "more than %llu files: pack them into an archive", (unsigned long long)w->most);
    return HTC_ETOOBIG;
}

static htc_status walk_file(walker *w, int at, const char *name)
{
    struct stat st;
    int         fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    htc_status  status = HTC_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        status = unreadable(w, errno);
    else if (!S_ISREG(st.st_mode))
        status = unreadable(w, EINVAL);
    if (status == HTC_OK)
        status = w->ops->file(w, fd, &st);
    if (fd >= 0)
        close(fd);
    return status;
}

static htc_status walk_link(walker *w, int at, const char *name, unsigned depth)
{
    char    target[NAME_ROOM];
    ssize_t n = readlinkat(at, name, target, sizeof target);
    if (n < 0 || (size_t)n >= sizeof target)
        return unreadable(w, n < 0 ? errno : ENAMETOOLONG);
    target[n] = '\0';
    if (htc__link_stays(target, depth))
        return w->ops->link(w, target);
    WHY(w, "the symbolic link %.150s leads outside the directory, to %.100s", w->name, target);
    return HTC_EPATH;
}

/* ---- the names in one directory ---- */

typedef struct names {
    char  *bytes; /* one behind the other, each with a zero */
    size_t len, cap;
    size_t n;
    char **sorted;
} names;

static htc_status out_of_memory(walker *w)
{
    WHY(w, "out of memory for the names in %.200s", w->name[0] ? w->name : "the directory");
    return HTC_ENOMEM;
}

static htc_status add_name(walker *w, names *l, const char *name)
{
    size_t     len = strlen(name) + 1;
    htc_status status = count_entry(w);
    if (status == HTC_OK && l->cap - l->len < len) {
        size_t cap = 2 * l->cap + len;
        char  *bytes = realloc(l->bytes, cap);
        if (!bytes)
            return out_of_memory(w);
        l->bytes = bytes;
        l->cap = cap;
    }
    if (status != HTC_OK)
        return status;
    memcpy(l->bytes + l->len, name, len);
    l->len += len;
    l->n++;
    return HTC_OK;
}

/* Not by the user's language: the order is part of the content. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static htc_status sort_names(walker *w, names *l)
{
    char *at = l->bytes;
    if (l->n == 0)
        return HTC_OK;
    l->sorted = malloc(l->n * sizeof *l->sorted);
    if (!l->sorted)
        return out_of_memory(w);
    for (size_t i = 0; i < l->n; i++, at += strlen(at) + 1)
        l->sorted[i] = at;
    qsort(l->sorted, l->n, sizeof *l->sorted, by_bytes);
    return HTC_OK;
}

/* Each name counts when it is listed, so that all that are held at a time, below each other too, are no more than may be packed. */
static htc_status list_names(walker *w, int dir, names *l)
{
    int            fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e = NULL;
    htc_status     status = HTC_OK;
    if (!d) {
        status = unreadable(w, errno);
        if (fd >= 0)
            close(fd);
        return status;
    }
    for (errno = 0; status == HTC_OK && (e = readdir(d)) != NULL; errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = add_name(w, l, e->d_name);
    if (status == HTC_OK && errno)
        status = unreadable(w, errno);
    closedir(d);
    return status == HTC_OK ? sort_names(w, l) : status;
}

static void free_names(names *l)
{
    free(l->bytes);
    free(l->sorted);
}

/* ---- */

static htc_status walk_dir(walker *w, int fd, size_t len, unsigned depth);

static htc_status walk_one(walker *w, int at, const char *name, size_t len, unsigned depth)
{
    struct stat st;
    htc_status  status;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return unreadable(w, errno);
    if (S_ISREG(st.st_mode))
        return walk_file(w, at, name);
    if (S_ISLNK(st.st_mode))
        return walk_link(w, at, name, depth);
    if (!S_ISDIR(st.st_mode)) {
        WHY(w, "%.200s is neither a file, a directory nor a symbolic link", w->name);
        return HTC_EINPUT;
    }
    if (depth + 1 >= DEPTH_MAX) {
        WHY(w, "more than %d directories below each other", DEPTH_MAX);
        return HTC_ETOOBIG;
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return unreadable(w, errno);
    status = w->ops->dir(w, fd);
    if (status != HTC_OK) {
        close(fd);
        return status;
    }
    return walk_dir(w, fd, len, depth + 1);
}

/* fd is taken; len: of its name. */
static htc_status walk_dir(walker *w, int fd, size_t len, unsigned depth)
{
    names      l = { 0 };
    htc_status status = list_names(w, fd, &l);
    for (size_t i = 0; i < l.n && status == HTC_OK; i++) {
        int m = snprintf(w->name + len, sizeof w->name - len, "%s%s", len ? "/" : "", l.sorted[i]);
        if (len + (size_t)m >= sizeof w->name) {
            WHY(w, "a name is longer than %d bytes", NAME_ROOM - 1);
            status = HTC_EINPUT;
        } else {
            status = walk_one(w, fd, l.sorted[i], len + (size_t)m, depth);
        }
        w->name[len] = '\0';
    }
    free_names(&l);
    close(fd);
    return status;
}

/* ---- packing ---- */

typedef struct packer {
    walker  w; /* first */
    int     out;
    size_t  used;
    uint8_t buf[PIECE];
} packer;

static htc_status flush(packer *p)
{
    for (size_t done = 0; done < p->used;) {
        ssize_t n = write(p->out, p->buf + done, p->used - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n < 0 ? errno : ENOSPC;
            WHY(&p->w, "cannot write: %s", strerror(why));
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
    htc_status status = put(p, &type, 1);
    return status == HTC_OK ? put_text(p, p->w.name) : status;
}

static htc_status pack_dir(walker *w, int fd)
{
    (void)fd;
    return put_entry((packer *)w, 'd');
}

static htc_status pack_file(walker *w, int fd, const struct stat *st)
{
    packer    *p = (packer *)w;
    uint8_t    size[8], piece[8192];
    uint64_t   left = (uint64_t)st->st_size;
    htc_status status = put_entry(p, st->st_mode & 0111 ? 'x' : 'f');
    htc__le64_put(size, left);
    if (status == HTC_OK)
        status = put(p, size, sizeof size);
    while (status == HTC_OK && left) {
        ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            status = n < 0 ? unreadable(w, errno) : HTC_EINPUT;
            if (n == 0)
                WHY(w, "%.200s was cut while it was read", w->name);
            break;
        }
        status = put(p, piece, (size_t)n);
        left -= (uint64_t)n;
    }
    return status;
}

static htc_status pack_link(walker *w, const char *target)
{
    htc_status status = put_entry((packer *)w, 'l');
    return status == HTC_OK ? put_text((packer *)w, target) : status;
}

htc_status htc__tree_pack(const char *dir, int out, uint64_t most, char *why, size_t room)
{
    static const walker_ops ops = { pack_dir, pack_file, pack_link };
    packer                 *p = malloc(sizeof *p);
    if (!p) {
        snprintf(why, room, "out of memory");
        return HTC_ENOMEM;
    }
    p->w = (walker){ .ops = &ops, .most = most, .why = why, .room = room };
    p->out = out;
    p->used = 0;
    int        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    htc_status status = fd < 0 ? HTC_EINPUT : put(p, MAGIC, strlen(MAGIC));
    if (fd < 0)
        WHY(&p->w, "cannot read the directory: %s", strerror(errno));
    else if (status == HTC_OK)
        status = walk_dir(&p->w, fd, 0, 0);
    else
        close(fd);
    if (status == HTC_OK)
        status = put(p, "", 1);
    if (status == HTC_OK)
        status = flush(p);
    free(p);
    return status;
}

/* ---- making ---- */

/* Where entries are made, and the one that is. */
typedef struct maker {
    int         root;
    const char *name; /* below root */
    char       *why;
    size_t      room;
} maker;

static htc_status in_the_way(maker *m, int why)
{
    WHY(m, "%.200s: %s", m->name, why == ELOOP || why == ENOTDIR ? "it leaves the directory" : why == ENXIO || why == EISDIR || why == EEXIST ? "what is there is in its way" : strerror(why));
    return why == ELOOP || why == ENOTDIR || why == ENXIO || why == EISDIR || why == EEXIST || why == EPERM ? HTC_EPATH : htc__status_of(why, HTC_ESTAGEIN);
}

static htc_status make_dir(maker *m)
{
    int fd = htc__make_below(m->root, m->name), why = errno;
    if (fd < 0)
        return in_the_way(m, why);
    close(fd);
    return HTC_OK;
}

/* An empty one, in *to; -1: it is not there. from: what it is to be a copy of, or NULL; HTC_EEXISTS: it is that already, under another name. */
static htc_status begin_file(maker *m, const struct stat *from, int *to)
{
    struct stat st;
    *to = htc__open_below(m->root, m->name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY, 0644, 1);
    if (*to < 0)
        return in_the_way(m, errno);
    if (fstat(*to, &st) != 0 || !S_ISREG(st.st_mode))
        return in_the_way(m, ENXIO);
    if (from && from->st_dev == st.st_dev && from->st_ino == st.st_ino)
        return HTC_EEXISTS;
    return ftruncate(*to, 0) == 0 ? HTC_OK : in_the_way(m, errno);
}

/* status: how it was filled. */
static htc_status end_file(maker *m, int to, int executable, htc_status status)
{
    if (status == HTC_OK && fchmod(to, executable ? 0755 : 0644) != 0)
        status = in_the_way(m, errno);
    if (to >= 0 && close(to) != 0 && status == HTC_OK)
        status = in_the_way(m, errno);
    return status;
}

/* Nothing is written through it: names are opened through no symbolic link. */
static htc_status make_link(maker *m, const char *target)
{
    char        above[NAME_ROOM];
    const char *slash = strrchr(m->name, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - m->name) : 0, m->name);
    int in = slash ? htc__make_below(m->root, above) : m->root;
    if (in < 0)
        return in_the_way(m, errno);
    const char *name = slash ? slash + 1 : m->name;
    int         made = symlinkat(target, in, name), why = errno;
    if (made != 0 && why == EEXIST && unlinkat(in, name, 0) == 0) {
        made = symlinkat(target, in, name);
        why = errno;
    }
    if (slash)
        close(in);
    return made == 0 ? HTC_OK : in_the_way(m, why);
}

/* ---- copying ---- */

typedef struct copier {
    walker      w; /* first */
    maker       m;
    struct stat to; /* the directory that is made */
} copier;

static int is_same(int fd, const struct stat *as)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_dev == as->st_dev && st.st_ino == as->st_ino;
}

static htc_status copy_dir(walker *w, int fd)
{
    copier *c = (copier *)w;
    if (is_same(fd, &c->to)) {
        WHY(w, "the place of the copy is in it, as %.200s", w->name);
        return HTC_EINPUT;
    }
    return make_dir(&c->m);
}

static htc_status copy_file(walker *w, int fd, const struct stat *st)
{
    copier     *c = (copier *)w;
    htc__copied copied;
    int         to;
    htc_status  status = begin_file(&c->m, st, &to);
    if (status == HTC_OK && ioctl(to, FICLONE, fd) != 0 && (status = htc__copy(fd, to, UINT64_MAX, &copied)) != HTC_OK) {
        status = status == HTC_ESTAGEOUT ? HTC_ESTAGEIN : status;
        WHY(w, "copying %.200s: %s", w->name, htc_strerror(status));
    }
    status = end_file(&c->m, to, (st->st_mode & 0111) != 0, status);
    return status == HTC_EEXISTS ? HTC_OK : status;
}

static htc_status copy_link(walker *w, const char *target)
{
    return make_link(&((copier *)w)->m, target);
}

htc_status htc__tree_copy(int from, int dir, const char *name, uint64_t most, char *why, size_t room)
{
    static const walker_ops ops = { copy_dir, copy_file, copy_link };
    copier                 *c = malloc(sizeof *c);
    int                     in = -1;
    htc_status              status = HTC_OK;
    if (!c) {
        snprintf(why, room, "out of memory");
        return HTC_ENOMEM;
    }
    c->w = (walker){ .ops = &ops, .most = most, .why = why, .room = room };
    c->m = (maker){ .root = htc__make_below(dir, name), .name = name, .why = why, .room = room };
    if (c->m.root < 0 || fstat(c->m.root, &c->to) != 0)
        status = in_the_way(&c->m, errno);
    c->m.name = c->w.name;
    if (status == HTC_OK && (in = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        status = unreadable(&c->w, errno);
    if (status == HTC_OK && is_same(in, &c->to))
        close(in); /* it is there already */
    else if (status == HTC_OK)
        status = walk_dir(&c->w, in, 0, 0);
    if (c->m.root >= 0)
        close(c->m.root);
    free(c);
    return status;
}

/* ---- unpacking ---- */

typedef struct unpacker {
    maker                    m;
    int                      from;
    htc_status               broken; /* of reading */
    int                      ended;
    size_t                   at, have;
    crypto_generichash_state hash;
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
            WHY(&u->m, "cannot read it: %s", strerror(errno));
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
        WHY(&u->m, "it is no directory that was uploaded");
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
            return in_the_way(&u->m, done < 0 ? errno : ENOSPC);
        u->at += (size_t)done;
        left -= (uint64_t)done;
    }
    return HTC_OK;
}

static htc_status get_file(unpacker *u, int executable)
{
    uint8_t    size[8];
    int        to;
    htc_status status = get(u, size, sizeof size);
    if (status != HTC_OK)
        return status;
    status = begin_file(&u->m, NULL, &to);
    if (status == HTC_OK)
        status = write_all(u, to, htc__le64_get(size));
    return end_file(&u->m, to, executable, status);
}

static unsigned depth_of(const char *name)
{
    unsigned n = 0;
    for (; *name; name++)
        n += *name == '/';
    return n;
}

static htc_status get_link(unpacker *u)
{
    htc_status status = get_text(u, u->target);
    if (status != HTC_OK)
        return status;
    if (htc__link_stays(u->target, depth_of(u->name)))
        return make_link(&u->m, u->target);
    WHY(&u->m, "the symbolic link %.150s leads outside the directory", u->name);
    return HTC_EPATH;
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
        if (n == HTC__TREE_ENTRIES_MAX || !htc__name_stays(u->name)) {
            WHY(&u->m, "%s", n == HTC__TREE_ENTRIES_MAX ? "more than a million files" : "a name in it leaves the directory");
            return n == HTC__TREE_ENTRIES_MAX ? HTC_ETOOBIG : HTC_EPATH;
        }
        switch (type) {
        case 'd': status = make_dir(&u->m); break;
        case 'f': status = get_file(u, 0); break;
        case 'x': status = get_file(u, 1); break;
        case 'l': status = get_link(u); break;
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
    u->m = (maker){ .root = htc__make_below(dir, name), .name = u->name, .why = why, .room = room };
    int made = errno;
    crypto_generichash_init(&u->hash, NULL, 0, 32);
    snprintf(u->name, sizeof u->name, "%s", name);
    htc_status status = u->m.root < 0 ? in_the_way(&u->m, made) : make_all(u);
    for (u->at = u->have; fill(u); u->at = u->have)
        ; /* to the end, for the hash */
    crypto_generichash_final(&u->hash, hash, 32);
    if (u->m.root >= 0)
        close(u->m.root);
    free(u);
    return status;
}
