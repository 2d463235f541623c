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
 * children of one rule and waits by it; they wait for it to succeed. So it is cancelled only if they all are. */
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

typedef struct narrowing {
    const htc_flow *given;
    htc_flow       *out;
    uint32_t        parents_max, children_max;
    uint32_t       *behind; /* of each task of the given flow: one more than the place of its fans in fans; 0: it has none */
    fan (*fans)[RULES];
    uint32_t        n_fans;
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
        const htc_flow_edge *edges;
        size_t               n = htc_flow_children(x->given, i, &edges);
        if (n <= x->children_max)
            continue;
        fan *fans = x->fans[x->n_fans++];
        x->behind[i] = x->n_fans;
        for (size_t k = 0; k < n; k++)
            fans[edges[k].rule].n++;
        status = scatter(x, i, fans);
    }
    return status;
}

/* ---- before a task ---- */

static htc_status gather(narrowing *x, uint32_t child, fan *f)
{
    uint32_t   width = f->n, first = 0;
    htc_status status = HTC_OK;
    while (width > x->parents_max && status == HTC_OK) {
        status = level(x, "gather", &first, &width, f->leaves > 0, x->parents_max);
        if (f->leaves == 0) {
            f->leaves = width;
            f->first = first;
        }
    }
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
        status = gather(x, i, &before);
        for (uint32_t k = 0; k < before.n && status == HTC_OK; k++) {
            uint32_t parent = edges[k].task, at = x->behind[parent], from = leaf(at ? &x->fans[at - 1][edges[k].rule] : NULL, parent);
            status = after(x, leaf(&before, i), from, from == parent ? edges[k].rule : HTC_FLOW_OK);
        }
    }
    return status;
}

/* ---- the whole ---- */

/* How many tasks have too many children; *wide: whether any has too much of either. */
static uint32_t look(const htc_flow *f, uint32_t parents_max, uint32_t children_max, int *wide)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < htc_flow_count(f); i++) {
        n += htc_flow_children(f, i, NULL) > children_max;
        *wide |= htc_flow_parents(f, i, NULL) > parents_max;
    }
    *wide |= n > 0;
    return n;
}

static htc_status copy(narrowing *x, const htc_env *env)
{
    htc_flow_options o = { sizeof o, HTC_FLOW_TASKS_MAX, HTC_FLOW_EDGES_MAX, SIZE_MAX };
    htc_status       status = htc_flow_create(env, &o, &x->out);
    for (uint32_t i = 0; i < htc_flow_count(x->given) && status == HTC_OK; i++)
        status = htc_flow_add(x->out, htc_flow_get(x->given, i), NULL, x->error);
    return status;
}

htc_status htc_flow_narrow(const htc_env *env, const htc_flow *flow, uint32_t parents_max, uint32_t children_max, htc_flow **out, htc_error *error)
{
    narrowing x = { .given = flow, .parents_max = parents_max, .children_max = children_max, .error = error };
    int       wide = 0;
    if (!flow || !out || !flow->checked)
        return htc__refuse(error, HTC_EINVAL, 0, "", "no flow, or one that is not checked");
    if (parents_max < PARENTS_LEAST || children_max < CHILDREN_LEAST)
        return htc__refuse(error, HTC_EINVAL, 0, "", "at least %d parents and %d children have to be allowed", PARENTS_LEAST, CHILDREN_LEAST);
    uint32_t n = look(flow, parents_max, children_max, &wide);
    if (!wide) {
        *out = NULL;
        return HTC_OK;
    }
    size_t behind = htc_flow_count(flow) * sizeof *x.behind, fans = (n + (size_t)1) * sizeof *x.fans;
    x.behind = htc__alloc(env, behind);
    x.fans = htc__alloc(env, fans);
    htc_status status = x.behind && x.fans ? copy(&x, env) : HTC_ENOMEM;
    if (status == HTC_OK)
        status = scatter_all(&x);
    if (status == HTC_OK)
        status = join(&x);
    if (status == HTC_OK)
        status = htc_flow_check(x.out, error);
    assert(status != HTC_OK || x.n_fans == n);
    htc__free(env, x.behind, behind);
    htc__free(env, x.fans, fans);
    if (status == HTC_ENOMEM)
        htc__refuse(error, status, 0, "", "%s", htc_strerror(status));
    if (status != HTC_OK) {
        htc_flow_destroy(x.out);
        return status;
    }
    *out = x.out;
    return HTC_OK;
}
