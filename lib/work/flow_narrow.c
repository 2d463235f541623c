/* A flow in which no task has too many dependencies: trees of empty tasks stand between.
 *
 *     before a task with many parents        behind a task with many children
 *
 *     a  b  c   d  e  f   g  h  i                     p
 *      \ | /     \ | /     \ | /            ok  /   ok |   \ any
 *       (1)       (2)       (3)               (4)     (5)     (6)
 *         \ ok     | ok    / ok             ok / \   ok / \   ok / \
 *          +------ t -----+                  u   v    w   x    y   z
 *
 * A task that gathers keeps the rules of the dependencies that it takes over, and is waited for to succeed. So it is done when all of them
 * are as they have to be, and cancelled by the first that cannot be any more, as its child would have been. A task that scatters stands for
 * children of one rule and waits by it; they wait for it to succeed. So it is cancelled only if they all are.
 *
 * Tasks that wait alike, as all reducers do for all mappers, share a tree: it has one root, and they wait for that. So of m mappers and r
 * reducers m + r dependencies are left, and not m * r. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/flow_private.h"

#define PARENTS_LEAST  2
#define CHILDREN_LEAST 3 /* one for each rule */
#define RULES          3

/* The children of one rule, or the parents: spread evenly over the leaves of a tree. */
typedef struct fan {
    uint32_t n, placed;
    uint32_t leaves, first; /* 0: no tree; number of the first leaf */
} fan;

/* Tasks with too many parents that wait alike: the first of them stands for all. */
typedef struct alike {
    uint32_t first, count;
    fan      behind; /* the root of their tree */
} alike;

typedef struct narrowing {
    const htc_flow *given;
    htc_flow       *out;
    uint32_t        parents_max, children_max;
    uint32_t       *behind; /* of each task of the given flow: one more than the place of its fans in fans; 0: it has none */
    fan (*fans)[RULES];
    uint32_t        n_fans;
    uint32_t       *group;  /* of each task: one more than the place in groups; 0: it has not too many parents */
    alike          *groups;
    uint32_t        n_groups;
    uint32_t       *table;  /* of groups by what they wait for: place + 1, or 0 */
    size_t          table_size;
    htc_error      *error;
} narrowing;

static uint32_t parts(uint32_t n, uint32_t of)
{
    return n / of + (n % of != 0);
}

/* Which of m parts, equal but for one, has item i of n. */
static uint32_t part_of(uint32_t i, uint32_t n, uint32_t m)
{
    return (uint32_t)((uint64_t)i * m / n);
}

/* Its number is in its name, so that no other inserted task has it; what the given flow has of such names is gone round. */
static htc_status insert(narrowing *x, const char *what)
{
    char          name[64];
    htc_flow_task t = { .size = sizeof t, .name = name, .builtin = HTC_FLOW_NOOP };
    uint32_t      id = htc_flow_count(x->out), again = 0, other;
    snprintf(name, sizeof name, "%s-%u", what, id);
    while (htc_flow_find(x->out, name, &other) == HTC_OK)
        snprintf(name, sizeof name, "%s-%u.%u", what, id, ++again);
    return htc_flow_add(x->out, &t, NULL, x->error);
}

static htc_status after(narrowing *x, uint32_t child, uint32_t parent, uint32_t rule)
{
    htc_status status = htc_flow_after(x->out, child, parent, rule);
    return status == HTC_OK ? status : htc__refuse(x->error, status, 0, "", "a dependency cannot be kept: %s", htc_strerror(status));
}

/* One more level of inserted tasks above n that begin at *first, or above what is not there yet (inserted: 0). Its own come to *first and *n. */
static htc_status level(narrowing *x, const char *what, uint32_t *first, uint32_t *n, int inserted, uint32_t most)
{
    uint32_t   above = htc_flow_count(x->out), m = parts(*n, most);
    htc_status status = HTC_OK;
    int        gathers = what[0] == 'g';
    for (uint32_t i = 0; i < m && status == HTC_OK; i++)
        status = insert(x, what);
    for (uint32_t i = 0; inserted && i < *n && status == HTC_OK; i++) {
        uint32_t below = *first + i, over = above + part_of(i, *n, m);
        status = gathers ? after(x, over, below, HTC_FLOW_OK) : after(x, below, over, HTC_FLOW_OK);
    }
    *first = above;
    *n = m;
    return status;
}

/* ---- behind a task ---- */

static uint32_t widest(const uint32_t *width)
{
    uint32_t r = 0;
    for (uint32_t i = 1; i < RULES; i++)
        r = width[i] > width[r] ? i : r;
    return r;
}

/* How many dependencies on it are left by each rule, when all that wait alike count once. */
static uint64_t count_children(const narrowing *x, uint32_t id, fan *fans)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_children(x->given, id, &edges);
    uint64_t             all = 0;
    for (size_t k = 0; k < n; k++) {
        uint32_t at = x->group[edges[k].task];
        if (at && x->groups[at - 1].first != edges[k].task)
            continue;
        fans[edges[k].rule].n++;
        all++;
    }
    return all;
}

/* A level more for whichever rule has most, until what is left fits. */
static htc_status scatter(narrowing *x, uint32_t parent, fan *fans)
{
    uint32_t   width[RULES], first[RULES] = { 0 };
    uint64_t   sum = 0;
    htc_status status = HTC_OK;
    for (uint32_t r = 0; r < RULES; r++)
        sum += width[r] = fans[r].n;
    while (sum > x->children_max && status == HTC_OK) {
        uint32_t r = widest(width);
        sum -= width[r];
        status = level(x, "scatter", &first[r], &width[r], fans[r].leaves > 0, x->children_max);
        sum += width[r];
        if (fans[r].leaves == 0) {
            fans[r].leaves = width[r];
            fans[r].first = first[r];
        }
    }
    for (uint32_t r = 0; r < RULES; r++)
        for (uint32_t i = 0; fans[r].leaves && i < width[r] && status == HTC_OK; i++)
            status = after(x, first[r] + i, parent, r);
    return status;
}

static htc_status scatter_all(narrowing *x)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < htc_flow_count(x->given) && status == HTC_OK; i++) {
        fan fans[RULES] = { { 0 } };
        if (htc_flow_children(x->given, i, NULL) <= x->children_max || count_children(x, i, fans) <= x->children_max)
            continue;
        memcpy(x->fans[x->n_fans++], fans, sizeof fans);
        x->behind[i] = x->n_fans;
        status = scatter(x, i, x->fans[x->n_fans - 1]);
    }
    return status;
}

/* ---- before a task ---- */

/* Which group it is of, if one waits alike; else it begins one. */
static uint32_t group_of(narrowing *x, uint32_t id)
{
    const htc_flow_edge *edges, *others;
    size_t               n = htc_flow_parents(x->given, id, &edges);
    size_t               at = (size_t)htc_hash64((htc_bytes){ edges, n * sizeof *edges }, x->out->seed) & (x->table_size - 1);
    for (; x->table[at]; at = (at + 1) & (x->table_size - 1)) {
        alike *g = &x->groups[x->table[at] - 1];
        if (htc_flow_parents(x->given, g->first, &others) == n && memcmp(edges, others, n * sizeof *edges) == 0) {
            g->count++;
            return x->table[at];
        }
    }
    x->groups[x->n_groups++] = (alike){ .first = id, .count = 1 };
    return x->table[at] = x->n_groups;
}

static void group_all(narrowing *x)
{
    for (uint32_t i = 0; i < htc_flow_count(x->given); i++)
        x->group[i] = htc_flow_parents(x->given, i, NULL) > x->parents_max ? group_of(x, i) : 0;
}

/* Behind the root of a tree that tasks share. */
static htc_status share(narrowing *x, alike *g, uint32_t root)
{
    fan        fans[RULES] = { [HTC_FLOW_OK] = { .n = g->count } };
    htc_status status = scatter(x, root, fans);
    g->behind = fans[HTC_FLOW_OK];
    if (!g->behind.leaves)
        g->behind.first = root;
    return status;
}

static htc_status gather(narrowing *x, uint32_t child, fan *f, alike *g)
{
    uint32_t   width = f->n, first = 0, most = g && g->count > 1 ? 1 : x->parents_max;
    htc_status status = HTC_OK;
    while (width > most && status == HTC_OK) {
        status = level(x, "gather", &first, &width, f->leaves > 0, x->parents_max);
        if (f->leaves == 0) {
            f->leaves = width;
            f->first = first;
        }
    }
    if (status == HTC_OK && g && g->count > 1)
        return share(x, g, first);
    for (uint32_t i = 0; f->leaves && i < width && status == HTC_OK; i++)
        status = after(x, child, first + i, HTC_FLOW_OK);
    return status;
}

/* The next one that takes this place in the tree; where there is none, itself. */
static uint32_t leaf(fan *f, uint32_t itself)
{
    return f && f->leaves ? f->first + part_of(f->placed++, f->n, f->leaves) : itself;
}

static htc_status join(narrowing *x)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < htc_flow_count(x->given) && status == HTC_OK; i++) {
        const htc_flow_edge *edges;
        fan                  before = { .n = (uint32_t)htc_flow_parents(x->given, i, &edges) };
        alike               *g = x->group[i] ? &x->groups[x->group[i] - 1] : NULL;
        if (!g || g->first == i)
            status = gather(x, i, &before, g);
        if (status == HTC_OK && g && g->count > 1)
            status = after(x, i, leaf(&g->behind, g->behind.first), HTC_FLOW_OK);
        if (g && g->first != i)
            continue;
        for (uint32_t k = 0; k < before.n && status == HTC_OK; k++) {
            uint32_t parent = edges[k].task, at = x->behind[parent], from = leaf(at ? &x->fans[at - 1][edges[k].rule] : NULL, parent);
            status = after(x, leaf(&before, i), from, from == parent ? edges[k].rule : HTC_FLOW_OK);
        }
    }
    return status;
}

/* ---- the whole ---- */

/* How many tasks have too many parents, too many children. */
static void look(const htc_flow *f, uint32_t parents_max, uint32_t children_max, uint32_t *parents, uint32_t *children)
{
    for (uint32_t i = 0; i < htc_flow_count(f); i++) {
        *children += htc_flow_children(f, i, NULL) > children_max;
        *parents += htc_flow_parents(f, i, NULL) > parents_max;
    }
}

static size_t table_for(uint32_t n)
{
    size_t size = 2;
    while (size < (size_t)n * 2)
        size *= 2;
    return size;
}

static htc_status copy(narrowing *x, const htc_env *env)
{
    htc_flow_options o = { sizeof o, HTC_FLOW_TASKS_MAX, HTC_FLOW_EDGES_MAX, SIZE_MAX };
    htc_status       status = htc_flow_create(env, &o, &x->out);
    for (uint32_t i = 0; i < htc_flow_count(x->given) && status == HTC_OK; i++)
        status = htc_flow_add(x->out, htc_flow_get(x->given, i), NULL, x->error);
    return status;
}

static htc_status build(narrowing *x, const htc_env *env)
{
    htc_status status = copy(x, env);
    if (status == HTC_OK) {
        group_all(x);
        status = scatter_all(x);
    }
    if (status == HTC_OK)
        status = join(x);
    return status == HTC_OK ? htc_flow_check(x->out, x->error) : status;
}

htc_status htc_flow_narrow(const htc_env *env, const htc_flow *flow, uint32_t parents_max, uint32_t children_max, htc_flow **out, htc_error *error)
{
    narrowing x = { .given = flow, .parents_max = parents_max, .children_max = children_max, .error = error };
    uint32_t  parents = 0, children = 0, tasks = htc_flow_count(flow);
    if (!flow || !out || !flow->checked)
        return htc__refuse(error, HTC_EINVAL, 0, "", "no flow, or one that is not checked");
    if (parents_max < PARENTS_LEAST || children_max < CHILDREN_LEAST)
        return htc__refuse(error, HTC_EINVAL, 0, "", "at least %d parents and %d children have to be allowed", PARENTS_LEAST, CHILDREN_LEAST);
    look(flow, parents_max, children_max, &parents, &children);
    if (parents + children == 0) {
        *out = NULL;
        return HTC_OK;
    }
    x.table_size = table_for(parents);
    x.behind = htc__alloc(env, tasks * sizeof *x.behind);
    x.group = htc__alloc(env, tasks * sizeof *x.group);
    x.fans = htc__alloc(env, (children + (size_t)1) * sizeof *x.fans);
    x.groups = htc__alloc(env, (parents + (size_t)1) * sizeof *x.groups);
    x.table = htc__alloc(env, x.table_size * sizeof *x.table);
    htc_status status = x.behind && x.group && x.fans && x.groups && x.table ? build(&x, env) : HTC_ENOMEM;
    assert(x.n_fans <= children && x.n_groups <= parents);
    htc__free(env, x.behind, tasks * sizeof *x.behind);
    htc__free(env, x.group, tasks * sizeof *x.group);
    htc__free(env, x.fans, (children + (size_t)1) * sizeof *x.fans);
    htc__free(env, x.groups, (parents + (size_t)1) * sizeof *x.groups);
    htc__free(env, x.table, x.table_size * sizeof *x.table);
    if (status == HTC_ENOMEM)
        htc__refuse(error, status, 0, "", "%s", htc_strerror(status));
    if (status != HTC_OK) {
        htc_flow_destroy(x.out);
        return status;
    }
    *out = x.out;
    return HTC_OK;
}
