/* The corners of a book: shelves of them in an AVL tree (Adelson-Velsky and Landis 1962) whose nodes keep the sums of
 * their left subtrees, so that neither a change nor a question has to look at siblings. */
#include "allot_corners.h"

#include <string.h>

void htc__sums_add(htc__corner_sums *s, const htc__corner_sums *more)
{
    s->high_slots += more->high_slots;
    s->high_weight += more->high_weight;
    s->shut_weight += more->shut_weight;
    s->low_slots += more->low_slots;
    s->low_weight += more->low_weight;
    s->high_users += more->high_users;
    s->shut_users += more->shut_users;
    s->low_users += more->low_users;
    s->low_shut_users += more->low_shut_users;
}

static htc__corner_sums negative(const htc__corner_sums *s)
{
    return (htc__corner_sums){ .high_slots = 0 - s->high_slots,
                               .high_weight = 0 - s->high_weight,
                               .shut_weight = 0 - s->shut_weight,
                               .low_slots = 0 - s->low_slots,
                               .low_weight = 0 - s->low_weight,
                               .high_users = 0 - s->high_users,
                               .shut_users = 0 - s->shut_users,
                               .low_users = 0 - s->low_users,
                               .low_shut_users = 0 - s->low_shut_users };
}

htc__corner_sums htc__corner_own(const htc__corner *c)
{
    if (c->high)
        return (htc__corner_sums){ .high_slots = c->slots,
                                   .high_weight = c->weight,
                                   .shut_weight = c->shut ? c->weight : 0,
                                   .high_users = 1,
                                   .shut_users = c->shut };
    return (
        htc__corner_sums){ .low_slots = c->slots, .low_weight = c->weight, .low_users = 1, .low_shut_users = c->shut };
}

static void add_own(htc__corner_sums *s, const htc__corner *c)
{
    htc__corner_sums own = htc__corner_own(c);
    htc__sums_add(s, &own);
}

static int stands_before(const htc__corner *x, const htc__corner *y)
{
    int c = htc__compare_ratio(x->slots, x->weight, y->slots, y->weight);
    if (c)
        return c < 0;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->high < y->high;
}

/* ---- the tree of shelves ---- */

/* Over the left subtree of s and s itself. */
static htc__corner_sums sums_to(const htc__corners *t, uint32_t s)
{
    const htc__shelf *k = &t->shelves[s];
    htc__corner_sums sums = { .high_slots = k->high_slots, .high_weight = k->high_weight, .high_users = k->high_users };
    if (t->more) {
        const htc__shelf_more *m = &t->more[s];
        sums.shut_weight = m->shut_weight;
        sums.low_slots = m->low_slots;
        sums.low_weight = m->low_weight;
        sums.shut_users = m->shut_users;
        sums.low_users = m->low_users;
        sums.low_shut_users = m->low_shut_users;
    }
    return sums;
}

static void set_sums(htc__corners *t, uint32_t s, const htc__corner_sums *sums)
{
    htc__shelf *k = &t->shelves[s];
    k->high_slots = sums->high_slots;
    k->high_weight = sums->high_weight;
    k->high_users = sums->high_users;
    if (t->more)
        t->more[s] = (htc__shelf_more){ sums->shut_weight, sums->low_slots, sums->low_weight,
                                        sums->shut_users,  sums->low_users, sums->low_shut_users };
}

static void gain(htc__corners *t, uint32_t s, const htc__corner_sums *gained)
{
    htc__corner_sums sums = sums_to(t, s);
    htc__sums_add(&sums, gained);
    set_sums(t, s, &sums);
}

static int side_of(const htc__corners *t, uint32_t parent, uint32_t s)
{
    return t->shelves[parent].child[1] == s;
}

/* s has gained this: so have all above it, up to end, that have it on their left. */
static void gain_up(htc__corners *t, uint32_t s, uint32_t end, const htc__corner_sums *gained)
{
    gain(t, s, gained);
    for (uint32_t p = t->shelves[s].parent; p != end; s = p, p = t->shelves[s].parent)
        if (side_of(t, p, s) == 0)
            gain(t, p, gained);
}

/* b (or nothing) hangs where a hung. */
static void replace(htc__corners *t, uint32_t a, uint32_t b)
{
    uint32_t parent = t->shelves[a].parent;
    if (parent)
        t->shelves[parent].child[side_of(t, parent, a)] = b;
    else
        t->root = b;
    if (b)
        t->shelves[b].parent = parent;
}

/* x goes down to that side, its other child takes its place. */
static uint32_t rotate(htc__corners *t, uint32_t x, int side)
{
    htc__shelf      *down = &t->shelves[x];
    uint32_t         y = down->child[!side];
    htc__shelf      *up = &t->shelves[y];
    uint32_t         between = up->child[side];
    htc__corner_sums moved = sums_to(t, side == 0 ? x : y);
    replace(t, x, y);
    down->child[!side] = between;
    if (between)
        t->shelves[between].parent = x;
    up->child[side] = x;
    down->parent = y;
    if (side == 0) {
        gain(t, y, &moved);
        down->balance = (int8_t)(down->balance - 1 - (up->balance > 0 ? up->balance : 0));
        up->balance = (int8_t)(up->balance - 1 + (down->balance < 0 ? down->balance : 0));
    } else {
        moved = negative(&moved);
        gain(t, x, &moved);
        down->balance = (int8_t)(down->balance + 1 - (up->balance < 0 ? up->balance : 0));
        up->balance = (int8_t)(up->balance + 1 + (down->balance > 0 ? down->balance : 0));
    }
    return y;
}

/* One side of x is too high by one: answers who hangs there then. */
static uint32_t straighten(htc__corners *t, uint32_t x)
{
    const htc__shelf *k = &t->shelves[x];
    int               high = k->balance > 0, inner = t->shelves[k->child[high]].balance;
    if (high ? inner < 0 : inner > 0)
        rotate(t, k->child[high], high);
    return rotate(t, x, !high);
}

/* Hang the empty shelf s behind another, or as the only one if that is 0. */
static void hang(htc__corners *t, uint32_t s, uint32_t before)
{
    uint32_t parent = before;
    int      side = 1;
    if (before && t->shelves[before].child[1])
        for (parent = t->shelves[before].child[1], side = 0; t->shelves[parent].child[0];)
            parent = t->shelves[parent].child[0];
    t->shelves[s].parent = parent;
    if (!parent) {
        t->root = s;
        return;
    }
    t->shelves[parent].child[side] = s;
    for (; parent; s = parent, parent = t->shelves[s].parent) { /* the subtree of s has become higher */
        htc__shelf *p = &t->shelves[parent];
        p->balance = (int8_t)(p->balance + (p->child[1] == s ? 1 : -1));
        if (p->balance == 0)
            return;
        if (p->balance == 2 || p->balance == -2) {
            straighten(t, parent);
            return;
        }
    }
}

/* That side of parent has become lower. */
static void lowered(htc__corners *t, uint32_t parent, int side)
{
    while (parent) {
        htc__shelf *p = &t->shelves[parent];
        p->balance = (int8_t)(p->balance + (side ? -1 : 1));
        uint32_t top = p->balance == 2 || p->balance == -2 ? straighten(t, parent) : parent;
        if (t->shelves[top].balance != 0)
            return;
        parent = t->shelves[top].parent;
        side = parent ? side_of(t, parent, top) : 0;
    }
}

/* Over what lies on shelf s. */
static htc__corner_sums sums_on(const htc__corners *t, uint32_t s)
{
    htc__corner_sums sums = { 0 };
    for (uint32_t i = 0; i < t->shelves[s].n; i++)
        add_own(&sums, &t->on[s][i]);
    return sums;
}

/* Take down shelf s, which counts for nothing any more. */
static void take_down(htc__corners *t, uint32_t s)
{
    htc__shelf *k = &t->shelves[s];
    if (!k->child[0] || !k->child[1]) {
        uint32_t parent = k->parent;
        int      side = parent ? side_of(t, parent, s) : 0;
        replace(t, s, k->child[0] ? k->child[0] : k->child[1]);
        lowered(t, parent, side);
        return;
    }
    /* The one behind s takes its place, and counts for what s did besides itself. */
    uint32_t heir = k->child[1];
    while (t->shelves[heir].child[0])
        heir = t->shelves[heir].child[0];
    htc__shelf      *h = &t->shelves[heir];
    uint32_t         parent = h->parent == s ? heir : h->parent;
    int              side = h->parent == s;
    htc__corner_sums own = sums_on(t, heir), gone = negative(&own), left = sums_to(t, s);
    gain_up(t, heir, s, &gone);
    htc__sums_add(&own, &left);
    if (parent != heir) {
        replace(t, heir, h->child[1]);
        h->child[1] = k->child[1];
        t->shelves[h->child[1]].parent = heir;
    }
    h->child[0] = k->child[0];
    t->shelves[h->child[0]].parent = heir;
    set_sums(t, heir, &own);
    h->balance = k->balance;
    replace(t, s, heir);
    lowered(t, parent, side);
}

/* The shelf behind s (side 1) or before it (side 0); 0: there is none. */
static uint32_t neighbour(const htc__corners *t, uint32_t s, int side)
{
    uint32_t at = t->shelves[s].child[side];
    if (at) {
        while (t->shelves[at].child[!side])
            at = t->shelves[at].child[!side];
        return at;
    }
    for (at = t->shelves[s].parent; at && side_of(t, at, s) == side; at = t->shelves[s].parent)
        s = at;
    return at;
}

/* ---- the shelves ---- */

uint32_t htc__shelves_for(uint64_t corners)
{
    return (uint32_t)(2 * corners / (HTC__SHELF_CORNERS * 3 / 4 + 1)) + 3;
}

static uint32_t new_shelf(htc__corners *t)
{
    uint32_t s = t->unused;
    if (s)
        t->unused = t->shelves[s].parent;
    else
        s = ++t->used;
    t->shelves[s] = (htc__shelf){ 0 };
    set_sums(t, s, &(htc__corner_sums){ 0 });
    return s;
}

static void give_back(htc__corners *t, uint32_t s)
{
    t->shelves[s] = (htc__shelf){ .parent = t->unused };
    t->unused = s;
}

static htc__corner last_on(const htc__shelf *s)
{
    return (
        htc__corner){ .slots = s->slots, .weight = s->weight, .arrival = s->arrival, .high = s->high, .shut = s->shut };
}

/* Shelf s, which is not empty, knows its last corner. */
static void note_last(htc__corners *t, uint32_t s)
{
    htc__shelf        *k = &t->shelves[s];
    const htc__corner *last = &t->on[s][k->n - 1];
    k->slots = last->slots;
    k->weight = last->weight;
    k->arrival = last->arrival;
    k->high = (uint8_t)last->high;
    k->shut = (uint8_t)last->shut;
}

/* The first shelf whose last corner does not stand before c, else the last of all. before: sums over the shelves before
 * it. */
static uint32_t shelf_of(const htc__corners *t, const htc__corner *c, htc__corner_sums *before)
{
    uint32_t at = t->root, found = 0, last = 0;
    while (at) {
        htc__corner its = last_on(&t->shelves[at]);
        int         right = stands_before(&its, c);
        if (!right)
            found = at;
        else if (before) {
            htc__corner_sums sums = sums_to(t, at);
            htc__sums_add(before, &sums);
        }
        last = at;
        at = t->shelves[at].child[right];
    }
    found = found ? found : last;
    for (uint32_t i = 0; found && i < t->shelves[found].n; i += 2) /* two on a line of the cache: ask for all at once */
        __builtin_prefetch(&t->on[found][i], 1);
    return found;
}

/* Where on shelf s c lies, or would. */
static uint32_t place_of(const htc__corners *t, uint32_t s, const htc__corner *c)
{
    uint32_t low = 0, high = t->shelves[s].n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (stands_before(&t->on[s][mid], c))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Move all from place on, on shelf from, to the end of shelf to. */
static void move(htc__corners *t, uint32_t from, uint32_t place, uint32_t to)
{
    htc__shelf      *f = &t->shelves[from], *o = &t->shelves[to];
    htc__corner_sums moved = { 0 }, gone;
    uint32_t         n = f->n - place;
    for (uint32_t i = place; i < f->n; i++)
        add_own(&moved, &t->on[from][i]);
    memcpy(t->on[to] + o->n, t->on[from] + place, n * sizeof **t->on);
    o->n = (uint8_t)(o->n + n);
    f->n = (uint8_t)place;
    note_last(t, to);
    if (f->n > 0)
        note_last(t, from);
    gone = negative(&moved);
    gain_up(t, from, 0, &gone);
    gain_up(t, to, 0, &moved);
}

/* What lies on a shelf and its neighbour behind it comes on one, if that leaves room. */
static void merge(htc__corners *t, uint32_t s, uint32_t behind)
{
    if (!s || !behind || t->shelves[s].n + t->shelves[behind].n > HTC__SHELF_CORNERS * 3 / 4)
        return;
    move(t, behind, 0, s);
    take_down(t, behind);
    give_back(t, behind);
}

/* Half of a full shelf goes to a new one, and then there may be room for a neighbour. */
static void split(htc__corners *t, uint32_t s)
{
    uint32_t new = new_shelf(t);
    hang(t, new, s);
    move(t, s, HTC__SHELF_CORNERS / 2, new);
    merge(t, new, neighbour(t, new, 1));
    merge(t, neighbour(t, s, 0), s);
}

void htc__corners_insert(htc__corners *t, const htc__corner *c)
{
    htc__corner_sums own = htc__corner_own(c);
    uint32_t         s = shelf_of(t, c, NULL);
    if (!s)
        hang(t, s = new_shelf(t), 0);
    else if (t->shelves[s].n == HTC__SHELF_CORNERS) {
        split(t, s);
        s = shelf_of(t, c, NULL);
    }
    htc__shelf  *k = &t->shelves[s];
    uint32_t     at = place_of(t, s, c);
    htc__corner *place = &t->on[s][at];
    memmove(place + 1, place, (k->n - at) * sizeof *place);
    *place = *c;
    k->n++;
    note_last(t, s);
    gain_up(t, s, 0, &own);
    htc__sums_add(&t->total, &own);
}

void htc__corners_remove(htc__corners *t, const htc__corner *c)
{
    uint32_t         s = shelf_of(t, c, NULL), at = place_of(t, s, c);
    htc__shelf      *k = &t->shelves[s];
    htc__corner     *place = &t->on[s][at];
    htc__corner_sums gone = htc__corner_own(place);
    gone = negative(&gone);
    k->n--;
    memmove(place, place + 1, (k->n - at) * sizeof *place);
    gain_up(t, s, 0, &gone);
    htc__sums_add(&t->total, &gone);
    if (k->n == 0) {
        take_down(t, s);
        give_back(t, s);
        return;
    }
    note_last(t, s);
    if (k->n <= HTC__SHELF_CORNERS * 3 / 4) {
        merge(t, s, neighbour(t, s, 1));
        merge(t, neighbour(t, s, 0), s);
    }
}

void htc__corners_set_shut(htc__corners *t, const htc__corner *c, int shut)
{
    uint32_t         s = shelf_of(t, c, NULL);
    htc__corner     *place = &t->on[s][place_of(t, s, c)];
    htc__corner_sums changed = htc__corner_own(place);
    changed = negative(&changed);
    place->shut = !!shut;
    add_own(&changed, place);
    note_last(t, s);
    gain_up(t, s, 0, &changed);
    htc__sums_add(&t->total, &changed);
}

/* Sums over a subtree. As deep as the tree is high: at most 1.44 log2 of the shelves. */
static htc__corner_sums recount(htc__corners *t, uint32_t s)
{
    htc__corner_sums sums = { 0 }, own, behind;
    if (!s)
        return sums;
    sums = recount(t, t->shelves[s].child[0]);
    own = sums_on(t, s);
    htc__sums_add(&sums, &own);
    set_sums(t, s, &sums);
    behind = recount(t, t->shelves[s].child[1]);
    htc__sums_add(&sums, &behind);
    return sums;
}

void htc__corners_mark_all(htc__corners *t, int (*is_shut)(const void *ctx, uint32_t user), const void *ctx)
{
    for (uint32_t s = 1; s <= t->used; s++) {
        for (uint32_t i = 0; i < t->shelves[s].n; i++)
            t->on[s][i].shut = !!is_shut(ctx, t->on[s][i].user);
        if (t->shelves[s].n > 0)
            note_last(t, s);
    }
    t->total = recount(t, t->root);
}

htc__corner_sums htc__corners_before(const htc__corners *t, const htc__corner *c)
{
    htc__corner_sums before = { 0 };
    uint32_t         s = shelf_of(t, c, &before), n = s ? place_of(t, s, c) : 0;
    for (uint32_t i = 0; i < n; i++)
        add_own(&before, &t->on[s][i]);
    return before;
}

htc__corner_sums htc__corners_row(const htc__corners *t, htc__corner_holds *holds, const void *ctx, htc__corner *next,
                                  int *has_next)
{
    htc__corner_sums row = { 0 }, up_to;
    uint32_t         at = t->root, end = 0, i = 0;
    while (at) { /* the row ends on the first shelf that is not all in it */
        htc__corner      last = last_on(&t->shelves[at]);
        htc__corner_sums sums = sums_to(t, at);
        up_to = row;
        htc__sums_add(&up_to, &sums);
        int held = holds(ctx, &last, &up_to);
        if (held)
            row = up_to;
        else
            end = at;
        at = t->shelves[at].child[held];
    }
    for (; end; i++) {
        up_to = row;
        add_own(&up_to, &t->on[end][i]);
        if (!holds(ctx, &t->on[end][i], &up_to))
            break;
        row = up_to;
    }
    if (has_next)
        *has_next = end != 0;
    if (next && end)
        *next = t->on[end][i];
    return row;
}
