/* Policies by kind and name: a sorted array, since there are tens of them and they are looked up at the start. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/registry/registry_private.h"

typedef struct entry {
    const void *what;
    uint32_t    kind;
    char        name[HTC_REGISTRY_NAME_MAX + 1];
} entry;

struct htc_registry {
    const htc_env *env;
    entry         *entries; /* by kind, then name */
    size_t         n, cap;
    uint32_t       refused_kind; /* the last that had its name already */
    char           refused[HTC_REGISTRY_NAME_MAX + 1];
};

static int name_ok(const char *name)
{
    size_t n = strnlen(name, HTC_REGISTRY_NAME_MAX + 1);
    return n > 0 && n <= HTC_REGISTRY_NAME_MAX && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

/* Where (kind, name) is, or would be. */
static size_t place_of(const htc_registry *r, uint32_t kind, const char *name)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t       mid = low + (high - low) / 2;
        const entry *e = &r->entries[mid];
        int          before = e->kind != kind ? e->kind < kind : strcmp(e->name, name) < 0;
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int is_at(const htc_registry *r, size_t at, uint32_t kind, const char *name)
{
    return at < r->n && r->entries[at].kind == kind && strcmp(r->entries[at].name, name) == 0;
}

htc_status htc_registry_create(const htc_env *env, htc_registry **out)
{
    if (!out)
        return HTC_EINVAL;
    htc_registry *r = htc__alloc(env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    r->env = env;
    *out = r;
    return HTC_OK;
}

void htc_registry_destroy(htc_registry *registry)
{
    if (!registry)
        return;
    htc__free(registry->env, registry->entries, registry->cap * sizeof *registry->entries);
    htc__free(registry->env, registry, sizeof *registry);
}

static htc_status reserve(htc_registry *r, size_t more)
{
    if (more > HTC_REGISTRY_ENTRIES_MAX - r->n)
        return HTC_EFULL;
    if (r->cap - r->n >= more)
        return HTC_OK;
    size_t cap = r->cap ? r->cap * 2 : 32;
    while (cap - r->n < more)
        cap *= 2;
    entry *grown = htc__resize(r->env, r->entries, r->cap * sizeof *grown, cap * sizeof *grown);
    if (!grown)
        return HTC_ENOMEM;
    r->entries = grown;
    r->cap = cap;
    return HTC_OK;
}

htc_status htc_registry_add(htc_registry *registry, uint32_t kind, const char *name, const void *what)
{
    if (!registry || kind == 0 || !name || !what || !name_ok(name))
        return HTC_EINVAL;
    size_t at = place_of(registry, kind, name);
    if (is_at(registry, at, kind, name)) {
        registry->refused_kind = kind;
        memcpy(registry->refused, registry->entries[at].name, sizeof registry->refused);
        return HTC_EEXISTS;
    }
    htc_status status = reserve(registry, 1);
    if (status != HTC_OK)
        return status;
    memmove(&registry->entries[at + 1], &registry->entries[at], (registry->n - at) * sizeof *registry->entries);
    registry->n++;
    entry *e = &registry->entries[at];
    memset(e, 0, sizeof *e);
    e->what = what;
    e->kind = kind;
    memcpy(e->name, name, strlen(name) + 1);
    return HTC_OK;
}

htc_status htc_registry_find(const htc_registry *registry, uint32_t kind, const char *name, const void **out)
{
    if (!registry || !name || !out)
        return HTC_EINVAL;
    size_t at = place_of(registry, kind, name);
    if (!is_at(registry, at, kind, name))
        return HTC_ENOTFOUND;
    *out = registry->entries[at].what;
    return HTC_OK;
}

const char *htc_registry_name(const htc_registry *registry, uint32_t kind, size_t i)
{
    if (!registry)
        return NULL;
    size_t first = place_of(registry, kind, "");
    if (i >= registry->n - first || registry->entries[first + i].kind != kind)
        return NULL;
    return registry->entries[first + i].name;
}

/* All or none: what could fail is done before the first is added. */
htc_status htc_registry_add_builtin(htc_registry *registry)
{
    size_t n = 0;
    if (!registry)
        return HTC_EINVAL;
    for (const htc__builtin *const *list = htc__builtin_lists; *list; list++)
        for (const htc__builtin *b = *list; b->name; b++, n++)
            if (is_at(registry, place_of(registry, b->kind, b->name), b->kind, b->name))
                return HTC_EEXISTS;
    htc_status status = reserve(registry, n);
    for (const htc__builtin *const *list = htc__builtin_lists; *list && status == HTC_OK; list++)
        for (const htc__builtin *b = *list; b->name && status == HTC_OK; b++)
            status = htc_registry_add(registry, b->kind, b->name, b->entry);
    return status;
}

htc_status htc__registry_copy(const htc_registry *from, htc_registry **out)
{
    htc_registry *copy;
    htc_status    status = htc_registry_create(from->env, &copy);
    if (status != HTC_OK)
        return status;
    status = reserve(copy, from->n);
    if (status != HTC_OK) {
        htc_registry_destroy(copy);
        return status;
    }
    if (from->n)
        memcpy(copy->entries, from->entries, from->n * sizeof *copy->entries);
    copy->n = from->n;
    *out = copy;
    return HTC_OK;
}

size_t htc__registry_take(htc_registry *to, htc_registry *from)
{
    htc_registry was = *to;
    assert(from->n >= to->n && from->env == to->env);
    *to = *from;
    *from = was;
    htc_registry_destroy(from);
    return to->n - was.n;
}

const char *htc__registry_refused(const htc_registry *r, uint32_t *kind)
{
    *kind = r->refused_kind;
    return r->refused;
}
