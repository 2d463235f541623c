#include "places.h"

#include "htc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A set of paths: open addressing, the files and the folders above them. */
typedef struct taken {
    char *path;
    int   folder;
} taken;

struct places {
    taken *at;
    size_t n, cap; /* a power of two */
};

static taken *find(const places *p, const char *path, size_t len)
{
    size_t i = (size_t)htc_hash64((htc_bytes){ path, len }, 0) & (p->cap - 1);
    while (p->at[i].path && (strncmp(p->at[i].path, path, len) != 0 || p->at[i].path[len] != '\0'))
        i = (i + 1) & (p->cap - 1);
    return &p->at[i];
}

static void grow(places *p)
{
    places old = *p;
    p->cap = old.cap ? old.cap * 2 : 64;
    p->at = must(calloc(p->cap, sizeof *p->at));
    for (size_t i = 0; i < old.cap; i++)
        if (old.at[i].path)
            *find(p, old.at[i].path, strlen(old.at[i].path)) = old.at[i];
    free(old.at);
}

static void add(places *p, const char *path, size_t len, int folder)
{
    if (p->n * 2 >= p->cap)
        grow(p);
    taken *t = find(p, path, len);
    if (t->path)
        return;
    *t = (taken){ must_print("%.*s", (int)len, path), folder };
    p->n++;
}

static int is_free(const places *p, const char *path, int folder)
{
    if (!p->n)
        return 1;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        const taken *t = find(p, path, (size_t)(slash - path));
        if (t->path && !t->folder)
            return 0;
    }
    const taken *t = find(p, path, strlen(path));
    return !t->path || (folder && t->folder);
}

static void take(places *p, const char *path, int folder)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        add(p, path, (size_t)(slash - path), 1);
    add(p, path, strlen(path), folder);
}

places *places_new(void)
{
    places *p = must(calloc(1, sizeof *p));
    take(p, "manifest.json", 0);
    return p;
}

void places_free(places *p)
{
    for (size_t i = 0; p && i < p->cap; i++)
        free(p->at[i].path);
    if (p)
        free(p->at);
    free(p);
}

/* What a file system takes: no part of it longer than a name may be. */
static int can_be(const char *path)
{
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
        if (slash - path > 255)
            return 0;
    return strlen(path) <= 255;
}

static char *take_as(places *p, const char *wanted, uint64_t index, const char *name, int folder, int *renamed)
{
    char *place = must_dup(wanted);
    *renamed = 0;
    for (int tildes = 1; !can_be(place) || !is_free(p, place, folder); tildes++) {
        free(place);
        *renamed = 1;
        place = must_print("%" PRIu64 "%.*s/%s", index, tildes, "~~~~~~~~~~~~~~~~", name);
        if (tildes == 16) /* it is too long by itself, which the file system will say */
            break;
    }
    take(p, place, folder);
    return place;
}

char *places_take(places *p, const char *wanted, uint64_t index, const char *name, int *renamed)
{
    return take_as(p, wanted, index, name, 0, renamed);
}

char *places_take_dir(places *p, const char *wanted, uint64_t index, const char *name, int *renamed)
{
    return take_as(p, wanted, index, name, 1, renamed);
}

int places_meet(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), len = n < m ? n : m;
    return strncmp(a, b, len) == 0 && (n == m || (n < m ? b : a)[len] == '/');
}

char *places_shown(const char *name)
{
    char  *shown = must(malloc(3 * strlen(name) + 1)), *to = shown;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        int c1 = p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0; /* control characters beyond ASCII, in UTF-8 */
        if (c1) {
            to += sprintf(to, "%%%02X%%%02X", p[0], p[1]);
            p++;
        } else if (*p < 0x20 || *p == 0x7F)
            to += sprintf(to, "%%%02X", *p);
        else
            *to++ = (char)*p;
    }
    *to = '\0';
    return shown;
}
