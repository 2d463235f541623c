/* The breakpoints of a book: shelves of them in a B+ tree (Bayer and McCreight 1972) whose branches keep the sums over each
 * of their parts. */
#include "sched/allot/allot_breakpoints.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

void htc__sums_add(htc__breakpoint_sums *s, const htc__breakpoint_sums *more)
{
    s->high_slots += more->high_slots;
    s->high_weight += more->high_weight;
    s->low_slots += more->low_slots;
    s->low_weight += more->low_weight;
    s->high_users += more->high_users;
    s->shut_users += more->shut_users;
    s->low_users += more->low_users;
}

static htc__breakpoint_sums negative(const htc__breakpoint_sums *s)
{
    return (htc__breakpoint_sums){ .high_slots = 0 - s->high_slots,
                               .high_weight = 0 - s->high_weight,
                               .low_slots = 0 - s->low_slots,
                               .low_weight = 0 - s->low_weight,
                               .high_users = 0 - s->high_users,
                               .shut_users = 0 - s->shut_users,
                               .low_users = 0 - s->low_users };
}

static void add_own(htc__breakpoint_sums *s, const htc__breakpoint *c)
{
    if (c->high) {
        s->high_slots += c->slots;
        s->high_weight += c->weight;
        s->high_users++;
        s->shut_users += c->shut;
    } else {
        s->low_slots += c->slots;
        s->low_weight += c->weight;
        s->low_users++;
    }
}

htc__breakpoint_sums htc__breakpoint_own(const htc__breakpoint *c)
{
    htc__breakpoint_sums own = { 0 };
    add_own(&own, c);
    return own;
}

static int stands_before(const htc__breakpoint *x, const htc__breakpoint *y)
{
    int c = htc__compare_ratio(x->slots, x->weight, y->slots, y->weight);
    if (c)
        return c < 0;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->high < y->high;
}

/* ---- parts of the tree ---- */

static uint32_t take(htc__breakpoints *t, int is_shelf)
{
    htc__numbers *numbers = is_shelf ? &t->of_shelves : &t->of_branches;
    uint32_t      node = numbers->unused;
    if (!node)
        node = ++numbers->used;
    else
        numbers->unused = is_shelf ? t->shelves[node].next[1] : t->branches[node].part[0];
    if (is_shelf)
        t->shelves[node] = (htc__shelf){ 0 };
    else
        t->branches[node].n = 0;
    return node;
}

static void give_back(htc__breakpoints *t, uint32_t node, int is_shelf)
{
    htc__numbers *numbers = is_shelf ? &t->of_shelves : &t->of_branches;
    if (is_shelf)
        t->shelves[node].next[1] = numbers->unused;
    else
        t->branches[node].part[0] = numbers->unused;
    numbers->unused = node;
}

/* Where on the shelf c lies, or would. */
static uint32_t place_of(const htc__shelf *s, const htc__breakpoint *c)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (stands_before(&s->on[mid], c))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The first part whose last breakpoint does not stand before c, else the last of all. */
static uint32_t part_of(const htc__branch *b, const htc__breakpoint *c)
{
    uint32_t low = 0, high = b->n - 1U;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (stands_before(&b->last[mid], c))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Ask for all that a way through this part may look at. */
static void prefetch(const htc__breakpoints *t, uint32_t height, uint32_t part)
{
    const char *from = height ? (const char *)&t->branches[part] : (const char *)&t->shelves[part];
    size_t      bytes = height ? offsetof(htc__branch, part) : sizeof(htc__shelf);
    for (size_t i = 0; i < bytes; i += HTC__LINE)
        __builtin_prefetch(from + i, 1);
}

static htc__shelf *shelf_of(const htc__breakpoints *t, const htc__breakpoint *c)
{
    uint32_t at = t->root;
    for (uint32_t height = t->height; height > 0; height--) {
        const htc__branch *b = &t->branches[at];
        at = b->part[part_of(b, c)];
        prefetch(t, height - 1, at);
    }
    return &t->shelves[at];
}

/* Add what lies on a shelf, or on the parts of a branch, from one place up to another. */
static void add_on(htc__breakpoint_sums *sums, const htc__shelf *s, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        add_own(sums, &s->on[i]);
}

static void add_of(htc__breakpoint_sums *sums, const htc__branch *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        htc__sums_add(sums, &b->sums[i]);
}

/* The branch, which is so high, knows how many its part i has and which is the last of them. */
static void note(const htc__breakpoints *t, htc__branch *b, uint32_t height, uint32_t i)
{
    if (height > 1) {
        const htc__branch *part = &t->branches[b->part[i]];
        b->has[i] = part->n;
        b->last[i] = part->last[part->n - 1];
    } else {
        const htc__shelf *part = &t->shelves[b->part[i]];
        b->has[i] = (uint8_t)part->n;
        b->last[i] = part->on[part->n - 1];
    }
}

static void note_all(const htc__breakpoints *t, htc__branch *b, uint32_t height, uint32_t i)
{
    note(t, b, height, i);
    b->sums[i] = (htc__breakpoint_sums){ 0 };
    if (height > 1)
        add_of(&b->sums[i], &t->branches[b->part[i]], 0, b->has[i]);
    else
        add_on(&b->sums[i], &t->shelves[b->part[i]], 0, b->has[i]);
}

/* ---- parts that have too many or too few ---- */

/* So many of the parts of b from i on come to a, behind the first n. */
static void copy_parts(htc__branch *a, uint32_t n, const htc__branch *b, uint32_t i, uint32_t many)
{
    memmove(&a->has[n], &b->has[i], many * sizeof *a->has);
    memmove(&a->last[n], &b->last[i], many * sizeof *a->last);
    memmove(&a->part[n], &b->part[i], many * sizeof *a->part);
    memmove(&a->sums[n], &b->sums[i], many * sizeof *a->sums);
}

static void insert_part(htc__branch *b, uint32_t i, uint32_t part)
{
    copy_parts(b, i + 1, b, i, b->n - i);
    b->part[i] = part;
    b->n++;
}

static void remove_part(htc__branch *b, uint32_t i)
{
    assert(b->n > 0);
    b->n--;
    copy_parts(b, i, b, i + 1, b->n - i);
}

/* Of what x and its neighbour y behind it have, x shall have so many. */
static void share_out(htc__breakpoints *t, uint32_t x, uint32_t y, int are_shelves, uint32_t n)
{
    if (are_shelves) {
        htc__shelf *a = &t->shelves[x], *b = &t->shelves[y];
        uint32_t    all = a->n + b->n;
        if (n < a->n) {
            memmove(&b->on[a->n - n], &b->on[0], b->n * sizeof *b->on);
            memcpy(&b->on[0], &a->on[n], (a->n - n) * sizeof *b->on);
        } else {
            memcpy(&a->on[a->n], &b->on[0], (n - a->n) * sizeof *b->on);
            memmove(&b->on[0], &b->on[n - a->n], (all - n) * sizeof *b->on);
        }
        a->n = n;
        b->n = all - n;
    } else {
        htc__branch *a = &t->branches[x], *b = &t->branches[y];
        uint32_t     all = a->n + b->n;
        if (n < a->n) {
            copy_parts(b, a->n - n, b, 0, b->n);
            copy_parts(b, 0, a, n, a->n - n);
        } else {
            copy_parts(a, a->n, b, 0, n - a->n);
            copy_parts(b, 0, b, n - a->n, all - n);
        }
        a->n = (uint8_t)n;
        b->n = (uint8_t)(all - n);
    }
}

/* Part s of shelves gets a neighbour behind it, or loses it. */
static void link_behind(htc__breakpoints *t, uint32_t s, uint32_t new)
{
    htc__shelf *n = &t->shelves[new];
    n->next[0] = s;
    n->next[1] = t->shelves[s].next[1];
    t->shelves[s].next[1] = new;
    if (n->next[1])
        t->shelves[n->next[1]].next[0] = new;
}

static void unlink_behind(htc__breakpoints *t, uint32_t s)
{
    uint32_t behind = t->shelves[t->shelves[s].next[1]].next[1];
    t->shelves[s].next[1] = behind;
    if (behind)
        t->shelves[behind].next[0] = s;
}

/* Half of the full part i of a branch that is so high goes to a new one behind it. */
static void split(htc__breakpoints *t, htc__branch *b, uint32_t height, uint32_t i)
{
    int is_shelf = height == 1;
    uint32_t new = take(t, is_shelf);
    if (is_shelf)
        link_behind(t, b->part[i], new);
    share_out(t, b->part[i], new, is_shelf, is_shelf ? HTC__SHELF_CORNERS / 2 : HTC__BRANCH_PARTS / 2);
    insert_part(b, i + 1, new);
    note_all(t, b, height, i);
    note_all(t, b, height, i + 1);
}

/* Part i has too few: it and a neighbour become one, or share what they have. */
static void refill(htc__breakpoints *t, htc__branch *b, uint32_t height, uint32_t i)
{
    int      are_shelves = height == 1;
    uint32_t x = i + 1 < b->n ? i : i - 1, all = b->has[x] + b->has[x + 1];
    int      one = all <= (are_shelves ? HTC__SHELF_CORNERS : HTC__BRANCH_PARTS);
    share_out(t, b->part[x], b->part[x + 1], are_shelves, one ? all : all / 2);
    if (one) {
        if (are_shelves)
            unlink_behind(t, b->part[x]);
        give_back(t, b->part[x + 1], are_shelves);
        remove_part(b, x + 1);
    } else {
        note_all(t, b, height, x + 1);
    }
    note_all(t, b, height, x);
}

/* ---- changes ---- */

void htc__breakpoints_expect(const htc__breakpoints *t, const htc__breakpoint *c, uint32_t n)
{
    uint32_t at[HTC__CORNERS_EXPECTED];
    for (uint32_t i = 0; i < n; i++)
        at[i] = t->root;
    for (uint32_t height = t->height; height > 0; height--)
        for (uint32_t i = 0; i < n; i++) {
            const htc__branch *b = &t->branches[at[i]];
            at[i] = b->part[part_of(b, &c[i])];
            prefetch(t, height - 1, at[i]);
        }
}

uint32_t htc__shelves_for(uint64_t breakpoints)
{
    return (uint32_t)(breakpoints / HTC__SHELF_LEAST) + 2;
}

/* A sixth of them, a sixth of that, and so on, and a root; number 0 is none. */
uint32_t htc__branches_for(uint32_t shelves)
{
    return shelves / (HTC__BRANCH_LEAST - 1) + 8;
}

static void put(htc__breakpoints *t, uint32_t at, uint32_t height, const htc__breakpoint *c, const htc__breakpoint_sums *own)
{
    if (height == 0) {
        htc__shelf  *s = &t->shelves[at];
        htc__breakpoint *place = &s->on[place_of(s, c)];
        memmove(place + 1, place, (size_t)(&s->on[s->n] - place) * sizeof *place);
        *place = *c;
        s->n++;
        return;
    }
    htc__branch *b = &t->branches[at];
    uint32_t     i = part_of(b, c);
    if (b->has[i] == (height > 1 ? HTC__BRANCH_PARTS : HTC__SHELF_CORNERS)) {
        split(t, b, height, i);
        i = part_of(b, c);
    }
    put(t, b->part[i], height - 1, c, own);
    htc__sums_add(&b->sums[i], own);
    note(t, b, height, i);
}

void htc__breakpoints_insert(htc__breakpoints *t, const htc__breakpoint *c)
{
    htc__breakpoint_sums own = htc__breakpoint_own(c);
    if (!t->root)
        t->root = take(t, 1);
    int is_full = t->height ? t->branches[t->root].n == HTC__BRANCH_PARTS : t->shelves[t->root].n == HTC__SHELF_CORNERS;
    if (is_full) {
        uint32_t root = take(t, 0);
        insert_part(&t->branches[root], 0, t->root);
        t->root = root;
        t->height++;
        split(t, &t->branches[root], t->height, 0);
    }
    put(t, t->root, t->height, c, &own);
    htc__sums_add(&t->total, &own);
}

/* Answers what the breakpoint counted for, times -1. */
static htc__breakpoint_sums drop(htc__breakpoints *t, uint32_t at, uint32_t height, const htc__breakpoint *c)
{
    htc__breakpoint_sums gone;
    if (height == 0) {
        htc__shelf  *s = &t->shelves[at];
        htc__breakpoint *place = &s->on[place_of(s, c)];
        gone = htc__breakpoint_own(place);
        assert(s->n > 0);
        s->n--;
        memmove(place, place + 1, (size_t)(&s->on[s->n] - place) * sizeof *place);
        return negative(&gone);
    }
    htc__branch *b = &t->branches[at];
    uint32_t     i = part_of(b, c);
    gone = drop(t, b->part[i], height - 1, c);
    htc__sums_add(&b->sums[i], &gone);
    note(t, b, height, i);
    if (b->has[i] < (height > 1 ? HTC__BRANCH_LEAST : HTC__SHELF_LEAST))
        refill(t, b, height, i);
    return gone;
}

void htc__breakpoints_remove(htc__breakpoints *t, const htc__breakpoint *c)
{
    htc__breakpoint_sums gone = drop(t, t->root, t->height, c);
    uint32_t         root = t->root;
    htc__sums_add(&t->total, &gone);
    if (t->height > 0 && t->branches[root].n == 1) {
        t->root = t->branches[root].part[0];
        assert(t->height > 0);
        t->height--;
        give_back(t, root, 0);
    } else if (t->height == 0 && t->shelves[root].n == 0) {
        give_back(t, root, 1);
        t->root = 0;
    }
}

void htc__breakpoints_set_shut(htc__breakpoints *t, const htc__breakpoint *c, int shut)
{
    htc__shelf      *s = shelf_of(t, c);
    htc__breakpoint     *place = &s->on[place_of(s, c)];
    htc__breakpoint_sums changed = htc__breakpoint_own(place);
    changed = negative(&changed);
    place->shut = !!shut;
    add_own(&changed, place);
    uint32_t at = t->root;
    for (uint32_t height = t->height; height > 0; height--) {
        htc__branch *b = &t->branches[at];
        uint32_t     i = part_of(b, c);
        htc__sums_add(&b->sums[i], &changed);
        at = b->part[i];
    }
    htc__sums_add(&t->total, &changed);
}

static htc__breakpoint_sums mark(htc__breakpoints *t, uint32_t at, uint32_t height,
                             int (*is_shut)(const void *ctx, uint32_t user), const void *ctx)
{
    htc__breakpoint_sums sums = { 0 };
    if (height == 0) {
        htc__shelf *s = &t->shelves[at];
        for (uint32_t i = 0; i < s->n; i++)
            s->on[i].shut = s->on[i].high && is_shut(ctx, s->on[i].user);
        add_on(&sums, s, 0, s->n);
        return sums;
    }
    htc__branch *b = &t->branches[at];
    for (uint32_t i = 0; i < b->n; i++)
        b->sums[i] = mark(t, b->part[i], height - 1, is_shut, ctx);
    add_of(&sums, b, 0, b->n);
    return sums;
}

void htc__breakpoints_mark_all(htc__breakpoints *t, int (*is_shut)(const void *ctx, uint32_t user), const void *ctx)
{
    if (t->root)
        t->total = mark(t, t->root, t->height, is_shut, ctx);
}

/* ---- questions ---- */

htc__breakpoint_sums htc__breakpoints_before(const htc__breakpoints *t, const htc__breakpoint *c, htc__breakpoint_at *place)
{
    htc__breakpoint_sums before = { 0 };
    uint32_t         at = t->root, i;
    *place = (htc__breakpoint_at){ 0 };
    if (!at)
        return before;
    for (uint32_t height = t->height; height > 0; height--) {
        const htc__branch *b = &t->branches[at];
        i = part_of(b, c);
        prefetch(t, height - 1, b->part[i]);
        add_of(&before, b, 0, i);
        at = b->part[i];
    }
    i = place_of(&t->shelves[at], c);
    add_on(&before, &t->shelves[at], 0, i);
    if (i < t->shelves[at].n)
        *place = (htc__breakpoint_at){ at, i };
    return before;
}

htc__breakpoint_sums htc__breakpoints_row(const htc__breakpoints *t, htc__breakpoint_holds *holds, const void *ctx, htc__breakpoint_at *end)
{
    htc__breakpoint_sums row = { 0 }, less;
    uint32_t         at = t->root, i;
    *end = (htc__breakpoint_at){ 0 };
    for (uint32_t height = t->height; at && height > 0;
         height--) { /* it ends in the first part that is not all in it */
        const htc__branch *b = &t->branches[at];
        for (i = 0, at = 0; i < b->n && !at; i++) {
            htc__sums_add(&row, &b->sums[i]);
            if (!holds(ctx, &b->last[i], &row)) {
                less = negative(&b->sums[i]);
                htc__sums_add(&row, &less);
                at = b->part[i];
            }
        }
    }
    for (i = 0; at && i < t->shelves[at].n; i++) {
        const htc__breakpoint *c = &t->shelves[at].on[i];
        add_own(&row, c);
        if (!holds(ctx, c, &row)) {
            less = htc__breakpoint_own(c);
            less = negative(&less);
            htc__sums_add(&row, &less);
            *end = (htc__breakpoint_at){ at, i };
            break;
        }
    }
    return row;
}

const htc__breakpoint *htc__breakpoints_look(const htc__breakpoints *t, htc__breakpoint_at at)
{
    return at.shelf ? &t->shelves[at.shelf].on[at.place] : NULL;
}

htc__breakpoint_at htc__breakpoints_on(const htc__breakpoints *t, htc__breakpoint_at at)
{
    const htc__shelf *s = &t->shelves[at.shelf];
    return at.place + 1 < s->n ? (htc__breakpoint_at){ at.shelf, at.place + 1 } : (htc__breakpoint_at){ s->next[1], 0 };
}

static uint32_t last_shelf(const htc__breakpoints *t)
{
    uint32_t at = t->root;
    for (uint32_t height = t->height; height > 0; height--)
        at = t->branches[at].part[t->branches[at].n - 1];
    return at;
}

htc__breakpoint_at htc__breakpoints_back(const htc__breakpoints *t, htc__breakpoint_at at)
{
    uint32_t s = at.shelf;
    if (s && at.place > 0)
        return (htc__breakpoint_at){ s, at.place - 1 };
    s = s ? t->shelves[s].next[0] : last_shelf(t);
    return s ? (htc__breakpoint_at){ s, t->shelves[s].n - 1 } : (htc__breakpoint_at){ 0 };
}
