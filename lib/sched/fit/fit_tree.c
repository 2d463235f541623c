/* A treap (Aragon, Seidel 1989) through the job slots. The order of the heap is a hash of the sequence number; every
 * subtree knows its sums, so that a search passes by what cannot be meant.
 *
 * A few jobs are a list, which is a tree without left sides: who looks for something does not notice, and on the way
 * through a small treap the processor guesses every second turn wrong. It becomes a treap when it has more than
 * LIST_MOST, and a list again with LIST_FEW. */
#include <assert.h>

#include "sched/fit/fit_private.h"

#define LIST_MOST 32u
#define LIST_FEW  16u

/* Of one that waits, alone. */
static inline fit_sum one(const fit_slot *s)
{
    return (fit_sum){ .nodes = s->job.nodes, .shortest = s->job.estimate, .reserved = s->reserved, .narrowest = s->job.nodes, .widest = s->job.nodes, .count = 1 };
}

static inline void include(fit_sum *sum, const fit_sum *part)
{
    sum->nodes += part->nodes;
    sum->count += part->count;
    sum->shortest = part->shortest < sum->shortest ? part->shortest : sum->shortest;
    sum->reserved = part->reserved < sum->reserved ? part->reserved : sum->reserved;
    sum->narrowest = part->narrowest < sum->narrowest ? part->narrowest : sum->narrowest;
    sum->widest = part->widest > sum->widest ? part->widest : sum->widest;
}

/* Of running jobs nobody asks for more than these two. */
static void add_up_running(fit_slot *slots, uint32_t at)
{
    fit_slot *s = &slots[at];
    uint64_t  nodes = s->job.nodes;
    uint32_t  count = 1;
    if (s->left != FIT_NONE) {
        nodes += slots[s->left].sum.nodes;
        count += slots[s->left].sum.count;
    }
    if (s->right != FIT_NONE) {
        nodes += slots[s->right].sum.nodes;
        count += slots[s->right].sum.count;
    }
    s->sum.nodes = nodes;
    s->sum.count = count;
}

static int runs(const fit_slot *s)
{
    return s->started != HTC_NEVER;
}

static void add_up(fit_slot *slots, uint32_t at)
{
    fit_slot *s = &slots[at];
    if (runs(s)) {
        add_up_running(slots, at);
        return;
    }
    s->sum = one(s);
    if (s->left != FIT_NONE)
        include(&s->sum, &slots[s->left].sum);
    if (s->right != FIT_NONE)
        include(&s->sum, &slots[s->right].sum);
}

/* One job more below at: no sum of a child is looked at. */
static void add_one(fit_slot *slots, uint32_t at, uint32_t more)
{
    const fit_slot *s = &slots[more];
    if (runs(s)) {
        slots[at].sum.nodes += s->job.nodes;
        slots[at].sum.count++;
        return;
    }
    const fit_sum sum = one(s);
    include(&slots[at].sum, &sum);
}

/* A waiting one less: what it was the least or the most of is looked for again. */
static void take_one(fit_slot *slots, uint32_t at, uint32_t gone)
{
    fit_sum        *sum = &slots[at].sum;
    const fit_slot *s = &slots[gone];
    int             least_time = (s->job.estimate == sum->shortest && s->job.estimate != HTC_NEVER) || (s->reserved == sum->reserved && s->reserved != HTC_NEVER);
    if (least_time || s->job.nodes == sum->narrowest || s->job.nodes == sum->widest) {
        add_up(slots, at);
        return;
    }
    sum->nodes -= s->job.nodes;
    sum->count--;
}

/* Into what stands before the job at and what stands behind it. */
static void split(fit_slot *slots, uint32_t root, uint32_t at, uint32_t *before, uint32_t *behind)
{
    if (root == FIT_NONE) {
        *before = *behind = FIT_NONE;
        return;
    }
    if (htc__fit_before(slots, root, at)) {
        *before = root;
        split(slots, slots[root].right, at, &slots[root].right, behind);
    } else {
        *behind = root;
        split(slots, slots[root].left, at, before, &slots[root].left);
    }
    add_up(slots, root);
}

/* All of a stands before all of b. */
static uint32_t join(fit_slot *slots, uint32_t a, uint32_t b)
{
    if (a == FIT_NONE || b == FIT_NONE)
        return a == FIT_NONE ? b : a;
    if (slots[a].heap > slots[b].heap) {
        slots[a].right = join(slots, slots[a].right, b);
        add_up(slots, a);
        return a;
    }
    slots[b].left = join(slots, a, slots[b].left);
    add_up(slots, b);
    return b;
}

/* ---- lists ---- */

static uint32_t in_order(const fit_slot *slots, uint32_t root, uint32_t *out, uint32_t n)
{
    if (root == FIT_NONE)
        return n;
    n = in_order(slots, slots[root].left, out, n);
    out[n] = root;
    return in_order(slots, slots[root].right, out, n + 1);
}

static uint32_t make_treap(fit_slot *slots, uint32_t list)
{
    uint32_t root = FIT_NONE;
    for (uint32_t at = list, next; at != FIT_NONE; at = next) {
        next = slots[at].right;
        slots[at].right = FIT_NONE;
        slots[at].listed = 0;
        add_up(slots, at);
        root = join(slots, root, at);
    }
    return root;
}

static uint32_t make_list(fit_slot *slots, uint32_t root)
{
    uint32_t order[LIST_FEW], next = FIT_NONE;
    assert(slots[root].sum.count <= LIST_FEW);
    for (uint32_t n = in_order(slots, root, order, 0); n-- > 0; next = order[n]) {
        slots[order[n]].left = FIT_NONE;
        slots[order[n]].right = next;
        slots[order[n]].listed = 1;
        add_up(slots, order[n]);
    }
    return next;
}

static void insert_listed(fit_slot *slots, uint32_t *root, uint32_t at)
{
    fit_slot *s = &slots[at];
    uint32_t  next = *root, before = FIT_NONE, nodes = s->job.nodes;
    if (runs(s)) {
        for (; next != FIT_NONE && htc__fit_before(slots, next, at); next = slots[next].right) {
            slots[next].sum.nodes += nodes;
            slots[next].sum.count++;
            before = next;
        }
        s->sum.nodes = nodes + (next != FIT_NONE ? slots[next].sum.nodes : 0);
        s->sum.count = 1 + (next != FIT_NONE ? slots[next].sum.count : 0);
    } else {
        const fit_sum mine = one(s);
        for (; next != FIT_NONE && htc__fit_before(slots, next, at); next = slots[next].right) {
            include(&slots[next].sum, &mine);
            before = next;
        }
        s->sum = mine;
        if (next != FIT_NONE)
            include(&s->sum, &slots[next].sum);
    }
    s->left = FIT_NONE;
    s->right = next;
    s->listed = 1;
    *(before == FIT_NONE ? root : &slots[before].right) = at;
    if (slots[*root].sum.count > LIST_MOST)
        *root = make_treap(slots, *root);
}

/* ---- jobs come and go ---- */

void htc__fit_insert(fit_slot *slots, uint32_t *root, uint32_t at)
{
    if (*root == FIT_NONE || slots[*root].listed) {
        insert_listed(slots, root, at);
        return;
    }
    slots[at].listed = 0;
    uint32_t heap = slots[at].heap;
    while (*root != FIT_NONE && slots[*root].heap >= heap) {
        add_one(slots, *root, at);
        root = htc__fit_before(slots, at, *root) ? &slots[*root].left : &slots[*root].right;
    }
    split(slots, *root, at, &slots[at].left, &slots[at].right);
    *root = at;
    add_up(slots, at);
}

/* Of a job that runs: nothing has to be looked for again. */
static void remove_running(fit_slot *slots, uint32_t *root, uint32_t at)
{
    while (*root != at) {
        slots[*root].sum.nodes -= slots[at].job.nodes;
        slots[*root].sum.count--;
        root = htc__fit_before(slots, at, *root) ? &slots[*root].left : &slots[*root].right;
    }
    *root = join(slots, slots[at].left, slots[at].right);
}

static void remove_waiting(fit_slot *slots, uint32_t *root, uint32_t at)
{
    if (*root == at) {
        *root = join(slots, slots[at].left, slots[at].right);
        return;
    }
    remove_waiting(slots, htc__fit_before(slots, at, *root) ? &slots[*root].left : &slots[*root].right, at);
    take_one(slots, *root, at);
}

void htc__fit_remove(fit_slot *slots, uint32_t *root, uint32_t at)
{
    if (runs(&slots[at]))
        remove_running(slots, root, at);
    else
        remove_waiting(slots, root, at);
    if (*root != FIT_NONE && !slots[*root].listed && slots[*root].sum.count <= LIST_FEW)
        *root = make_list(slots, *root);
}

void htc__fit_touch(fit_slot *slots, uint32_t root, uint32_t at)
{
    if (root != at)
        htc__fit_touch(slots, htc__fit_before(slots, at, root) ? slots[root].left : slots[root].right, at);
    add_up(slots, root);
}

void htc__fit_touch_all(fit_slot *slots, uint32_t root)
{
    if (root == FIT_NONE)
        return;
    htc__fit_touch_all(slots, slots[root].left);
    htc__fit_touch_all(slots, slots[root].right);
    add_up(slots, root);
}

fit_sum htc__fit_sum(const fit_slot *slots, uint32_t root)
{
    static const fit_sum nothing = { .shortest = HTC_NEVER, .reserved = HTC_NEVER, .narrowest = UINT32_MAX };
    return root == FIT_NONE ? nothing : slots[root].sum;
}

int htc__fit_within(const htc_fit_job *job, htc_ns reserved, const fit_bounds *b)
{
    return job->nodes <= b->nodes && (job->nodes <= b->spare || job->estimate <= b->estimate) &&
           reserved <= b->reserved;
}

static int may_hold(const fit_sum *sum, const fit_bounds *b)
{
    return sum->narrowest <= b->nodes && (sum->narrowest <= b->spare || sum->shortest <= b->estimate) &&
           sum->reserved <= b->reserved;
}

uint32_t htc__fit_first(const fit_slot *slots, uint32_t root, uint32_t after, const fit_bounds *bounds)
{
    if (root == FIT_NONE || !may_hold(&slots[root].sum, bounds))
        return FIT_NONE;
    const fit_slot *s = &slots[root];
    if (after == FIT_NONE || htc__fit_before(slots, after, root)) {
        uint32_t found = s->left == FIT_NONE ? FIT_NONE : htc__fit_first(slots, s->left, after, bounds);
        if (found != FIT_NONE)
            return found;
        if (htc__fit_within(&s->job, s->reserved, bounds))
            return root;
        after = FIT_NONE;
    }
    return htc__fit_first(slots, s->right, after, bounds);
}

static uint32_t count(const fit_slot *slots, uint32_t root)
{
    return root == FIT_NONE ? 0 : slots[root].sum.count;
}

uint32_t htc__fit_nth(const fit_slot *slots, uint32_t root, size_t i)
{
    while (root != FIT_NONE) {
        size_t before = count(slots, slots[root].left);
        if (i == before)
            return root;
        if (i < before) {
            root = slots[root].left;
        } else {
            i -= before + 1;
            root = slots[root].right;
        }
    }
    return FIT_NONE;
}

uint32_t htc__fit_rank(const fit_slot *slots, uint32_t root, uint32_t at)
{
    uint32_t before = 0;
    while (root != at) {
        if (htc__fit_before(slots, at, root)) {
            root = slots[root].left;
        } else {
            before += count(slots, slots[root].left) + 1;
            root = slots[root].right;
        }
    }
    return before + count(slots, slots[at].left);
}

uint32_t htc__fit_from(const fit_slot *slots, uint32_t root, uint64_t key)
{
    uint32_t found = FIT_NONE;
    while (root != FIT_NONE) {
        if (slots[root].key >= key) {
            found = root;
            root = slots[root].left;
        } else {
            root = slots[root].right;
        }
    }
    return found;
}

uint64_t htc__fit_nodes_through(const fit_slot *slots, uint32_t root, uint64_t key)
{
    uint64_t sum = 0;
    while (root != FIT_NONE) {
        const fit_slot *s = &slots[root];
        if (s->key <= key) {
            sum += htc__fit_sum(slots, s->left).nodes + s->job.nodes;
            root = s->right;
        } else {
            root = s->left;
        }
    }
    return sum;
}

uint32_t htc__fit_reaching(const fit_slot *slots, uint32_t root, uint64_t nodes)
{
    if (htc__fit_sum(slots, root).nodes < nodes)
        return FIT_NONE;
    for (;;) {
        const fit_slot *s = &slots[root];
        uint64_t        before = htc__fit_sum(slots, s->left).nodes;
        if (before >= nodes && s->left != FIT_NONE) {
            root = s->left;
        } else if (before + s->job.nodes >= nodes || s->right == FIT_NONE) {
            return root;
        } else {
            nodes -= before + s->job.nodes;
            root = s->right;
        }
    }
}
