/* Bytes from anybody make a ring that keeps its promises, or none. Any history keeps them too, moves nothing
 * needlessly, agrees with a plain list of members, and is followed exactly through bytes. The first byte says which of
 * the two it is. */
#include "../tests/unit/ring_model.h"
#include "check.h"
#include "core/codec.h"

#define MEMBERS_MAX 12

static uint8_t *bytes_of(const htc_ring *r, uint32_t since, size_t *len)
{
    size_t   size = htc_ring_encoded_size(r, since);
    uint8_t *bytes = malloc(size);
    CHECK(bytes && htc_ring_encode(r, since, bytes, size, len) == HTC_OK && *len == size);
    return bytes;
}

/* What is taken comes out as it went in; what is not leaves the ring as it was. */
static void check_bytes(htc_bytes bytes)
{
    const uint8_t *p = bytes.data;
    htc_ring      *r = NULL, *again = NULL;
    size_t         len;
    if (bytes.len > 1 && p[1] > 10) /* big tables only cost time */
        return;
    if (htc_ring_decode(NULL, bytes, &r) != HTC_OK) {
        CHECK(r == NULL);
        return;
    }
    CHECK(htc_ring_members(r) > 256 || htc_ring_seats(r) > 512 || ring_check(r, p[2]) == NULL);
    uint8_t *copy = bytes_of(r, 0, &len);
    CHECK(len == bytes.len && memcmp(copy, bytes.data, len) == 0);
    CHECK(htc_ring_decode(NULL, (htc_bytes){ copy, len }, &again) == HTC_OK && ring_check_equal(r, again) == NULL);
    free(copy);
    htc_ring_destroy(r);
    htc_ring_destroy(again);
}

/* A difference of unknown origin, upon a ring that knows the beginning. */
static void check_difference(htc_bytes bytes)
{
    static const htc_ring_member m[] = { { 1, 1, 0, 1, 0 }, { 2, 1, 0, 2, 0 }, { 3, 2, 0, 1, 0 }, { 4, 0, 5, 3, 0 } };
    htc_ring_options             o = { sizeof o, 3, 2, 8, 0 };
    htc_ring                    *r, *was;
    CHECK(htc_ring_create(NULL, &o, m, 4, &r) == HTC_OK && htc_ring_copy(r, NULL, &was) == HTC_OK);
    if (htc_ring_apply(r, bytes) != HTC_OK)
        CHECK(ring_check_equal(r, was) == NULL);
    CHECK(ring_check(r, 2) == NULL);
    htc_ring_destroy(r);
    htc_ring_destroy(was);
}

typedef struct world {
    htc_ring       *ring, *follower, *earlier;
    htc_ring_member list[MEMBERS_MAX]; /* the model: who is a member */
    uint32_t        n, wanted, slots[64], units[MEMBERS_MAX];
    uint64_t        next_id;
} world;

static htc_ring_member newcomer(world *w, htc_reader *in)
{
    uint8_t         where = htc_get_u8(in);
    htc_ring_member m = { w->next_id++, where & 7, (where >> 3) & 7, 1 + htc_get_u8(in) % 20u, 0 };
    return m;
}

/* A process stands in one domain: what the ring has to refuse. */
static int fits(const world *w, const htc_ring_member *m)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (m->process != 0 && w->list[i].process == m->process && w->list[i].domain != m->domain)
            return 0;
    return 1;
}

static void check_list(const world *w)
{
    CHECK(htc_ring_members(w->ring) == w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        htc_ring_member m = { 0 };
        CHECK(htc_ring_member_at(w->ring, htc_ring_seat(w->ring, w->list[i].id), &m) == HTC_OK);
        CHECK(memcmp(&m, &w->list[i], sizeof m) == 0);
    }
}

/* One owner: the model says how many buckets move. */
static void check_count(const htc_ring *before, const world *w, uint64_t id, uint32_t weight)
{
    ring_crowd    crowd = ring_crowd_of(before);
    uint32_t      count[257] = { 0 }, weights[257] = { 0 }, at = crowd.n, moves = 0;
    htc_ring_move move;
    for (uint32_t i = 0; i < crowd.n; i++) {
        htc_ring_share share = { 0, 0 };
        htc_ring_share_at(before, crowd.seat[i], &share);
        count[i] = share.first;
        weights[i] = crowd.m[i].weight;
        at = crowd.m[i].id == id ? i : at;
    }
    uint32_t old = weights[at];
    weights[at] = weight;
    for (uint32_t b = 0; htc_ring_move_next(before, w->ring, b, &move) == HTC_OK; b = move.bucket + 1)
        moves++;
    uint32_t n = crowd.n + (at == crowd.n);
    CHECK(moves == (crowd.n == 0    ? htc_ring_buckets(before)
                    : weight == 0   ? count[at]
                    : weight >= old ? ring_model_gain(count, weights, n, at)
                                    : ring_model_loss(count, weights, n, at)));
}

static void change(world *w, uint8_t op, htc_reader *in)
{
    htc_ring *before;
    uint32_t  i = w->n ? (op >> 4) % w->n : 0, weight = 0;
    uint64_t  id = w->n ? w->list[i].id : 0;
    int       grows = 0;
    CHECK(htc_ring_copy(w->ring, NULL, &before) == HTC_OK);
    if (op % 4 == 0 || w->n == 0) {
        htc_ring_member m = newcomer(w, in);
        htc_status      status = htc_ring_join(w->ring, &m);
        CHECK(status == (w->n == MEMBERS_MAX ? HTC_EFULL : fits(w, &m) ? HTC_OK : HTC_EINVAL));
        if (status == HTC_OK)
            w->list[w->n++] = m;
        id = m.id;
        weight = status == HTC_OK ? m.weight : 0;
        grows = 1;
    } else if (op % 4 == 1) {
        CHECK(htc_ring_leave(w->ring, id) == HTC_OK && htc_ring_leave(w->ring, id) == HTC_ENOTFOUND);
        w->list[i] = w->list[--w->n];
    } else {
        weight = 1 + htc_get_u8(in) % 20u;
        CHECK(htc_ring_reweight(w->ring, id, weight) == HTC_OK);
        grows = weight > w->list[i].weight;
        w->list[i].weight = weight;
    }
    if (htc_ring_epoch(before) == htc_ring_epoch(w->ring))
        CHECK(ring_check_equal(before, w->ring) == NULL);
    else {
        CHECK(ring_check_moves(before, w->ring, id, grows) == NULL);
        if (w->wanted == 1)
            check_count(before, w, id, weight);
    }
    htc_ring_destroy(before);
}

static void other(world *w, uint8_t op, htc_reader *in)
{
    uint32_t i = w->n ? (op >> 4) % w->n : 0, since;
    size_t   len;
    uint8_t *bytes;
    switch (op % 4) {
    case 0:
        since = htc_get_u8(in) % (htc_ring_epoch(w->follower) + 1);
        bytes = bytes_of(w->ring, since, &len);
        CHECK(htc_ring_apply(w->follower, (htc_bytes){ bytes, len }) == HTC_OK);
        CHECK(ring_check_equal(w->ring, w->follower) == NULL);
        free(bytes);
        break;
    case 1:
        if (w->n == 0)
            break;
        CHECK(htc_ring_replace(w->ring, w->list[i].id, w->next_id) == HTC_OK);
        w->list[i].id = w->next_id++;
        break;
    case 2: {
        htc_ring_move move;
        CHECK(htc_ring_revert(w->ring, w->earlier) == HTC_OK);
        CHECK(htc_ring_move_next(w->ring, w->earlier, 0, &move) == HTC_ENOTFOUND);
        ring_crowd crowd = ring_crowd_of(w->ring);
        memcpy(w->list, crowd.m, sizeof w->list);
        w->n = crowd.n;
        break;
    }
    case 3:
        htc_ring_destroy(w->earlier);
        CHECK(htc_ring_copy(w->ring, NULL, &w->earlier) == HTC_OK);
    }
}

/* A change of one member's slots moves keys to or from that member only. */
static void check_dx(world *w, htc_reader *in)
{
    uint32_t before[64], member = htc_get_u8(in) % MEMBERS_MAX, units = htc_get_u8(in) % 16u, taken = 0;
    memcpy(before, w->slots, sizeof before);
    for (int i = 0; i < 64; i++)
        taken += before[i] != HTC_RING_NONE;
    htc_status status = htc_ring_dx_set(w->slots, 6, member, units);
    CHECK(status == (taken - w->units[member] + units <= 64 ? HTC_OK : HTC_EFULL));
    int grows = units > w->units[member];
    if (status == HTC_OK)
        w->units[member] = units;
    for (uint64_t hash = 0; hash < 32; hash++) {
        uint32_t old = htc_ring_dx_find(before, 6, hash), new = htc_ring_dx_find(w->slots, 6, hash);
        CHECK(old == new || (status == HTC_OK && (grows ? new : old) == member));
    }
}

static void check_history(htc_reader *in)
{
    world            w = { .next_id = 1 };
    htc_ring_options o = { sizeof o, 3 + htc_get_u8(in) % 5u, 1 + htc_get_u8(in) % 4u, 0, 0 };
    uint32_t         limit = 1u << o.bits;
    o.members_max = limit < MEMBERS_MAX ? limit : MEMBERS_MAX;
    w.wanted = o.owners;
    for (uint32_t n = htc_get_u8(in) % (o.members_max + 1); w.n < n;) {
        htc_ring_member m = newcomer(&w, in);
        if (fits(&w, &m))
            w.list[w.n++] = m;
        else
            n--;
    }
    memset(w.slots, 0xff, sizeof w.slots);
    CHECK(htc_ring_create(NULL, &o, w.list, w.n, &w.ring) == HTC_OK);
    CHECK(htc_ring_copy(w.ring, NULL, &w.follower) == HTC_OK && htc_ring_copy(w.ring, NULL, &w.earlier) == HTC_OK);
    for (int step = 0; step < 40 && htc_reader_left(in) > 0; step++) {
        uint8_t op = htc_get_u8(in);
        if (op & 8)
            other(&w, op, in);
        else if ((op & 7) == 7)
            check_dx(&w, in);
        else if (w.n < o.members_max || op % 4 != 0)
            change(&w, op, in);
        CHECK(ring_check(w.ring, w.wanted) == NULL && ring_check_dhondt(w.ring, w.wanted == 1 ? 0 : 128) == NULL);
        check_list(&w);
    }
    htc_ring_destroy(w.ring);
    htc_ring_destroy(w.follower);
    htc_ring_destroy(w.earlier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader in = htc_reader_of((htc_bytes){ data, size });
    uint8_t    kind = htc_get_u8(&in);
    if (kind % 4 == 0)
        check_bytes((htc_bytes){ in.p, htc_reader_left(&in) });
    else if (kind % 4 == 1)
        check_difference((htc_bytes){ in.p, htc_reader_left(&in) });
    else
        check_history(&in);
    return 0;
}
