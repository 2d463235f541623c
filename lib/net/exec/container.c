#include "net/exec/container.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 4096
#define DEPTH_MAX 32

static const char *const programs[] = { [HTC__CONTAINER_APPTAINER] = "apptainer", [HTC__CONTAINER_PODMAN] = "podman", [HTC__CONTAINER_BWRAP] = "bwrap" };

int htc__container_program(const char *path, const char *name, char *found, size_t room)
{
    for (const char *p = path; *p; p += strspn(p, ":")) {
        size_t      n = strcspn(p, ":");
        struct stat st;
        int         len = n ? snprintf(found, room, "%.*s/%s", (int)n, p, name) : 0;
        p += n;
        if (len > 0 && (size_t)len < room && found[0] == '/' && stat(found, &st) == 0 && S_ISREG(st.st_mode) && access(found, X_OK) == 0)
            return 1;
    }
    return 0;
}

htc__container_kind htc__container_find(const char *allowed, const char *path, char *found, size_t room)
{
    for (int kind = HTC__CONTAINER_APPTAINER; kind <= HTC__CONTAINER_BWRAP; kind++)
        if ((strcmp(allowed, "auto") == 0 || strcmp(allowed, programs[kind]) == 0) && htc__container_program(path, programs[kind], found, room))
            return (htc__container_kind)kind;
    return HTC__CONTAINER_NONE;
}

/* ---- a list of words ---- */

typedef struct list {
    char **at;
    size_t n;
    int    failed; /* errno */
} list;

static void add(list *l, const char *word)
{
    char *copy = l->n + 1 < WORDS_MAX ? strdup(word) : NULL;
    if (!copy) {
        l->failed = l->n + 1 < WORDS_MAX ? ENOMEM : E2BIG;
        return;
    }
    l->at[l->n++] = copy;
}

static void add_three(list *l, const char *one, const char *two, const char *three)
{
    add(l, one);
    add(l, two);
    add(l, three);
}

/* ---- bwrap ---- */

/* What is put there from outside the image, or is made anew. */
typedef struct places {
    const char *at[8];
    size_t      n;
} places;

static int is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

static int is_taken(const places *p, const char *path)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->at[i], path) == 0)
            return 1;
    return 0;
}

static int leads_on(const places *p, const char *path)
{
    for (size_t i = 0; i < p->n; i++)
        if (is_below(p->at[i], path))
            return 1;
    return 0;
}

/* Nothing can be put into what is bound read-only: a directory on the way to such a place is made anew, and what is in it is bound one by one. */
static void show_image(list *l, const places *p, const char *image, const char *inside, int depth)
{
    char           source[PATH_MAX], path[PATH_MAX], target[PATH_MAX];
    struct dirent *e;
    struct stat    st;
    snprintf(source, sizeof source, "%s%s", image, inside);
    DIR *d = depth < DEPTH_MAX ? opendir(source) : NULL;
    if (!d) {
        l->failed = depth < DEPTH_MAX ? errno : ELOOP;
        return;
    }
    while (!l->failed && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", inside, e->d_name), m = snprintf(source, sizeof source, "%s%s", image, path);
        if (n < 0 || m < 0 || (size_t)n >= sizeof path || (size_t)m >= sizeof source || is_taken(p, path) || lstat(source, &st) != 0)
            continue;
        if (S_ISLNK(st.st_mode)) {
            ssize_t len = readlink(source, target, sizeof target - 1);
            target[len > 0 ? len : 0] = '\0';
            if (len > 0 && !leads_on(p, path))
                add_three(l, "--symlink", target, path);
        } else if (S_ISDIR(st.st_mode) && leads_on(p, path)) {
            show_image(l, p, image, path, depth + 1);
        } else {
            add_three(l, "--ro-bind", source, path);
        }
    }
    closedir(d);
}

static void add_bwrap(list *l, const htc__container *c)
{
    char   own[PATH_MAX];
    places p = { { "/proc", "/dev", "/sys", "/tmp", c->dir }, 5 };
    int    apart = strcmp(c->work, c->dir) != 0 && !is_below(c->work, c->dir);
    if (apart)
        p.at[p.n++] = c->work;
    add(l, "--die-with-parent");
    show_image(l, &p, strcmp(c->image, "/") == 0 ? "" : c->image, "", 0);
    add_three(l, "--ro-bind", "/proc", "/proc");
    if (c->gpus) {
        add_three(l, "--dev-bind", "/dev", "/dev");
        add_three(l, "--ro-bind", "/sys", "/sys"); /* where drivers look for them */
    } else {
        add(l, "--dev");
        add(l, "/dev");
    }
    snprintf(own, sizeof own, "%s/tmp", c->dir);
    add_three(l, "--bind", own, "/tmp");
    if (apart)
        add_three(l, "--bind", c->work, c->work);
    add_three(l, "--bind", c->dir, c->dir); /* last: /tmp may be on the way to it */
    add(l, "--chdir");
    add(l, c->work);
    add(l, "--");
}

/* ---- the others ---- */

static void add_apptainer(list *l, const htc__container *c)
{
    static const char *const words[] = { "--silent", "exec", "--contain", "--no-home" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        add(l, words[i]);
    if (c->gpus)
        add(l, "--nv");
    add(l, "--bind");
    add(l, c->dir);
    if (!is_below(c->work, c->dir)) {
        add(l, "--bind");
        add(l, c->work);
    }
    add(l, "--pwd");
    add(l, c->work);
    add(l, c->image);
}

static void add_volume(list *l, const char *dir)
{
    char both[2 * PATH_MAX + 2];
    snprintf(both, sizeof both, "%s:%s", dir, dir);
    add(l, "--volume");
    add(l, both);
}

static void add_podman(list *l, const htc__container *c)
{
    static const char *const words[] = { "run", "--rm", "--network", "host", "--cgroups", "disabled", "--log-driver", "none", "--env-host" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        add(l, words[i]);
    if (geteuid() != 0) {
        add(l, "--userns");
        add(l, "keep-id");
    }
    if (c->gpus) {
        add(l, "--device");
        add(l, "nvidia.com/gpu=all"); /* CUDA_VISIBLE_DEVICES says which */
    }
    add_volume(l, c->dir);
    if (!is_below(c->work, c->dir))
        add_volume(l, c->work);
    add(l, "--workdir");
    add(l, c->work);
    add(l, c->image);
}

const char *htc__container_refuses(htc__container_kind kind, const htc__container *c)
{
    const char *parts = kind == HTC__CONTAINER_PODMAN ? ":" : kind == HTC__CONTAINER_APPTAINER ? ":,\\" : "";
    return strpbrk(c->dir, parts) ? c->dir : strpbrk(c->work, parts) ? c->work : NULL;
}

char **htc__container_words(htc__container_kind kind, const htc__container *c)
{
    list l = { calloc(WORDS_MAX + 1, sizeof *l.at), 0, 0 };
    if (!l.at)
        return NULL;
    add(&l, c->program);
    switch (kind) {
    case HTC__CONTAINER_BWRAP: add_bwrap(&l, c); break;
    case HTC__CONTAINER_APPTAINER: add_apptainer(&l, c); break;
    case HTC__CONTAINER_PODMAN: add_podman(&l, c); break;
    case HTC__CONTAINER_NONE: l.failed = ENOSYS; break;
    }
    for (const char *const *w = c->argv; !l.failed && *w; w++)
        add(&l, *w);
    if (!l.failed)
        return l.at;
    for (size_t i = 0; i < l.n; i++)
        free(l.at[i]);
    free(l.at);
    errno = l.failed;
    return NULL;
}
