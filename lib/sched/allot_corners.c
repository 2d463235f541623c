/* The corners of a book: an AVL tree (Adelson-Velsky and Landis 1962) whose nodes keep the sums of their left subtrees,
 * so that neither a change nor a question has to look at siblings. */
#include "allot_corners.h"

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

htc__corner_sums htc__corner_own(const htc__corners *t, htc__corner_id c)
{
    const htc__corner *k = htc__corner_at(t, c);
    if (c & 1)
        return (htc__corner_sums){ .high_slots = k->slots,
                                   .high_weight = k->weight,
                                   .shut_weight = k->shut ? k->weight : 0,
                                   .high_users = 1,
                                   .shut_users = k->shut };
    return (
        htc__corner_sums){ .low_slots = k->slots, .low_weight = k->weight, .low_users = 1, .low_shut_users = k->shut };
}

htc__corner_sums htc__corner_left(const htc__corners *t, htc__corner_id c)
{
    const htc__corner *k = htc__corner_at(t, c);
    htc__corner_sums   left = { k->high_slots, k->high_weight, .high_users = k->high_users };
    if (t->more[c & 1]) {
        const htc__corner_more *m = &t->more[c & 1][c / 2 - 1];
        left.shut_weight = m->shut_weight;
        left.low_slots = m->low_slots;
        left.low_weight = m->low_weight;
        left.shut_users = m->shut_users;
        left.low_users = m->low_users;
        left.low_shut_users = m->low_shut_users;
    }
    return left;
}

static void set_left(htc__corners *t, htc__corner_id c, const htc__corner_sums *left)
{
    htc__corner *k = htc__corner_at(t, c);
    k->high_slots = left->high_slots;
    k->high_weight = left->high_weight;
    k->high_users = left->high_users;
    if (t->more[c & 1])
        t->more[c & 1][c / 2 - 1] = (htc__corner_more){ left->shut_weight, left->low_slots, left->low_weight,
                                                        left->shut_users,  left->low_users, left->low_shut_users };
}

/* The left subtree of c has gained this. */
static void gain(htc__corners *t, htc__corner_id c, const htc__corner_sums *gained)
{
    htc__corner_sums left = htc__corner_left(t, c);
    htc__sums_add(&left, gained);
    set_left(t, c, &left);
}

static int stands_before(const htc__corners *t, htc__corner_id a, htc__corner_id b)
{
    const htc__corner *x = htc__corner_at(t, a), *y = htc__corner_at(t, b);
    int                c = htc__compare_ratio(x->slots, x->weight, y->slots, y->weight);
    if (c)
        return c < 0;
    return x->arrival != y->arrival ? x->arrival < y->arrival : a < b;
}

static int side_of(const htc__corners *t, htc__corner_id parent, htc__corner_id c)
{
    return htc__corner_at(t, parent)->child[1] == c;
}

/* b (or nothing) stands where a stood. */
static void replace(htc__corners *t, htc__corner_id a, htc__corner_id b)
{
    htc__corner_id parent = htc__corner_at(t, a)->parent;
    if (parent)
        htc__corner_at(t, parent)->child[side_of(t, parent, a)] = b;
    else
        t->root = b;
    if (b)
        htc__corner_at(t, b)->parent = parent;
}

/* x goes down to that side, its other child takes its place. */
static htc__corner_id rotate(htc__corners *t, htc__corner_id x, int side)
{
    htc__corner     *down = htc__corner_at(t, x);
    htc__corner_id   y = down->child[!side];
    htc__corner     *up = htc__corner_at(t, y);
    htc__corner_id   between = up->child[side];
    htc__corner_sums lower;
    replace(t, x, y);
    down->child[!side] = between;
    if (between)
        htc__corner_at(t, between)->parent = x;
    up->child[side] = x;
    down->parent = y;
    if (side == 0) {
        lower = htc__corner_own(t, x);
        gain(t, y, &lower);
        lower = htc__corner_left(t, x);
        gain(t, y, &lower);
        down->balance = (int8_t)(down->balance - 1 - (up->balance > 0 ? up->balance : 0));
        up->balance = (int8_t)(up->balance - 1 + (down->balance < 0 ? down->balance : 0));
    } else {
        htc__corner_sums gone = htc__corner_own(t, y);
        lower = htc__corner_left(t, y);
        htc__sums_add(&gone, &lower);
        gone = negative(&gone);
        gain(t, x, &gone);
        down->balance = (int8_t)(down->balance + 1 - (up->balance < 0 ? up->balance : 0));
        up->balance = (int8_t)(up->balance + 1 + (down->balance > 0 ? down->balance : 0));
    }
    return y;
}

/* One side of x is too high by one: answers who stands there then. */
static htc__corner_id straighten(htc__corners *t, htc__corner_id x)
{
    htc__corner *k = htc__corner_at(t, x);
    int          high = k->balance > 0;
    int8_t       inner = htc__corner_at(t, k->child[high])->balance;
    if (high ? inner < 0 : inner > 0)
        rotate(t, k->child[high], high);
    return rotate(t, x, !high);
}

void htc__corners_insert(htc__corners *t, htc__corner_id c)
{
    htc__corner     *k = htc__corner_at(t, c);
    htc__corner_sums own = htc__corner_own(t, c);
    htc__corner_id   parent = 0;
    int              side = 0;
    for (htc__corner_id at = t->root; at; at = htc__corner_at(t, at)->child[side]) {
        parent = at;
        side = stands_before(t, at, c);
        if (side == 0)
            gain(t, at, &own);
    }
    k->parent = parent;
    k->child[0] = k->child[1] = 0;
    k->balance = 0;
    set_left(t, c, &(htc__corner_sums){ 0 });
    htc__sums_add(&t->total, &own);
    if (!parent) {
        t->root = c;
        return;
    }
    htc__corner_at(t, parent)->child[side] = c;
    for (; parent; c = parent, parent = htc__corner_at(t, c)->parent) { /* the subtree of c has become higher */
        htc__corner *p = htc__corner_at(t, parent);
        p->balance = (int8_t)(p->balance + (p->child[1] == c ? 1 : -1));
        if (p->balance == 0)
            return;
        if (p->balance == 2 || p->balance == -2) {
            straighten(t, parent);
            return;
        }
    }
}

/* That side of parent has become lower. */
static void lowered(htc__corners *t, htc__corner_id parent, int side)
{
    while (parent) {
        htc__corner *p = htc__corner_at(t, parent);
        p->balance = (int8_t)(p->balance + (side ? -1 : 1));
        htc__corner_id top = p->balance == 2 || p->balance == -2 ? straighten(t, parent) : parent;
        if (htc__corner_at(t, top)->balance != 0)
            return;
        parent = htc__corner_at(t, top)->parent;
        side = parent ? side_of(t, parent, top) : 0;
    }
}

/* All between c and end that have c on their left have gained this. */
static void gain_above(htc__corners *t, htc__corner_id c, htc__corner_id end, const htc__corner_sums *gained)
{
    for (htc__corner_id p = htc__corner_at(t, c)->parent; p != end; c = p, p = htc__corner_at(t, c)->parent)
        if (side_of(t, p, c) == 0)
            gain(t, p, gained);
}

void htc__corners_remove(htc__corners *t, htc__corner_id c)
{
    htc__corner     *k = htc__corner_at(t, c);
    htc__corner_sums own = htc__corner_own(t, c);
    own = negative(&own);
    gain_above(t, c, 0, &own);
    htc__sums_add(&t->total, &own);
    if (!k->child[0] || !k->child[1]) {
        htc__corner_id parent = k->parent;
        int            side = parent ? side_of(t, parent, c) : 0;
        replace(t, c, k->child[0] ? k->child[0] : k->child[1]);
        lowered(t, parent, side);
        return;
    }
    /* The one behind c takes its place. */
    htc__corner_id heir = k->child[1];
    while (htc__corner_at(t, heir)->child[0])
        heir = htc__corner_at(t, heir)->child[0];
    htc__corner     *h = htc__corner_at(t, heir);
    htc__corner_sums moved = htc__corner_own(t, heir), left = htc__corner_left(t, c);
    htc__corner_id   parent = h->parent == c ? heir : h->parent;
    int              side = h->parent == c;
    moved = negative(&moved);
    gain_above(t, heir, c, &moved);
    if (parent != heir) {
        replace(t, heir, h->child[1]);
        h->child[1] = k->child[1];
        htc__corner_at(t, h->child[1])->parent = heir;
    }
    h->child[0] = k->child[0];
    htc__corner_at(t, h->child[0])->parent = heir;
    set_left(t, heir, &left);
    h->balance = k->balance;
    replace(t, c, heir);
    lowered(t, parent, side);
}

void htc__corners_set_shut(htc__corners *t, htc__corner_id c, int shut)
{
    htc__corner *k = htc__corner_at(t, c);
    if (k->shut == !!shut)
        return;
    htc__corner_sums was = htc__corner_own(t, c);
    k->shut = !!shut;
    htc__corner_sums is = htc__corner_own(t, c);
    was = negative(&was);
    htc__sums_add(&is, &was);
    htc__sums_add(&t->total, &is);
    gain_above(t, c, 0, &is);
}

/* As deep as the tree is high: at most 1.44 log2 of 2^21 corners. */
static htc__corner_sums recount(htc__corners *t, htc__corner_id c)
{
    htc__corner_sums sums = { 0 };
    if (!c)
        return sums;
    htc__corner_sums left = recount(t, htc__corner_at(t, c)->child[0]), behind;
    set_left(t, c, &left);
    sums = htc__corner_own(t, c);
    htc__sums_add(&sums, &left);
    behind = recount(t, htc__corner_at(t, c)->child[1]);
    htc__sums_add(&sums, &behind);
    return sums;
}

void htc__corners_recount(htc__corners *t)
{
    t->total = recount(t, t->root);
}

htc__corner_sums htc__corners_before(const htc__corners *t, htc__corner_id c)
{
    htc__corner_sums sums = htc__corner_left(t, c);
    for (htc__corner_id p = htc__corner_at(t, c)->parent; p; c = p, p = htc__corner_at(t, c)->parent)
        if (side_of(t, p, c)) {
            htc__corner_sums own = htc__corner_own(t, p), left = htc__corner_left(t, p);
            htc__sums_add(&sums, &left);
            htc__sums_add(&sums, &own);
        }
    return sums;
}

htc__corner_sums htc__corners_row(const htc__corners *t, htc__corner_holds *holds, const void *ctx,
                                  htc__corner_id *next)
{
    htc__corner_sums row = { 0 };
    htc__corner_id   at = t->root, behind = 0;
    while (at) {
        const htc__corner *k = htc__corner_at(t, at);
        htc__corner_sums   up_to = row, own = htc__corner_own(t, at), left = htc__corner_left(t, at);
        htc__sums_add(&up_to, &left);
        htc__sums_add(&up_to, &own);
        int held = holds(ctx, k, &up_to);
        if (held)
            row = up_to;
        else
            behind = at;
        at = k->child[held];
    }
    if (next)
        *next = behind;
    return row;
}
