#include "places.h"

#include "htc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A set of paths, the files and the folders above them: open addressing, of each 63 bits of its hash, and one that says whether
 * it is a folder; 0: empty. Two paths of one hash count as one, so that the later one gets another name: nothing is lost. */
struct places {
    uint64_t *at;
    size_t    n, cap, max; /* cap: a power of two */
};

#define FOLDER 1u

static uint64_t hash_of(const char *path, size_t len)
{
    uint64_t h = htc_hash64((htc_bytes){ path, len }, 0) & ~(uint64_t)FOLDER;
    return h ? h : 2;
}

/* Where it is, or would be. */
static uint64_t *find(const places *p, uint64_t hash)
{
    size_t i = (size_t)(hash >> 1) & (p->cap - 1);
    while (p->at[i] && (p->at[i] & ~(uint64_t)FOLDER) != hash)
        i = (i + 1) & (p->cap - 1);
    return &p->at[i];
}

static void grow(places *p)
{
    places old = *p;
    p->cap = old.cap ? old.cap * 2 : 64;
    p->at = must(calloc(p->cap, sizeof *p->at));
    for (size_t i = 0; i < old.cap; i++)
        if (old.at[i])
            *find(p, old.at[i] & ~(uint64_t)FOLDER) = old.at[i];
    free(old.at);
}

static void add(places *p, const char *path, size_t len, unsigned folder)
{
    if (p->n * 2 >= p->cap)
        grow(p);
    uint64_t hash = hash_of(path, len), *t = find(p, hash);
    if (*t)
        return;
    *t = hash | folder;
    p->n++;
}

static int is_free(const places *p, const char *path, int folder)
{
    if (!p->n)
        return 1;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        uint64_t above = *find(p, hash_of(path, (size_t)(slash - path)));
        if (above && !(above & FOLDER))
            return 0;
    }
    uint64_t t = *find(p, hash_of(path, strlen(path)));
    return !t || (folder && (t & FOLDER));
}

static void take(places *p, const char *path, int folder)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        add(p, path, (size_t)(slash - path), FOLDER);
    add(p, path, strlen(path), folder ? FOLDER : 0);
}

places *places_new(size_t max)
{
    places *p = must(calloc(1, sizeof *p));
    p->max = max;
    take(p, "manifest.json", 0);
    return p;
}

void places_free(places *p)
{
    if (p)
        free(p->at);
    free(p);
}

int places_full(const places *p)
{
    return p->n >= p->max;
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
    char *place = NULL;
    *renamed = 0;
    if (places_full(p))
        return NULL;
    place = must_dup(wanted);
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
    char *shown = must(malloc(3 * strlen(name) + 1)), *to = shown;
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
