/* What a ring promises, said slowly: for the unit tests and the fuzzer. Each check answers NULL or what is wrong. */
#ifndef HTC_TESTS_RING_MODEL_H
#define HTC_TESTS_RING_MODEL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/ring.h"

typedef struct ring_crowd {
    htc_ring_member m[256];
    uint32_t        seat[256];
    uint32_t        n;
} ring_crowd;

static inline ring_crowd ring_crowd_of(const htc_ring *r)
{
    ring_crowd c = { .n = 0 };
    for (uint32_t s = 0; s < htc_ring_seats(r) && c.n < 256; s++)
        if (htc_ring_member_at(r, s, &c.m[c.n]) == HTC_OK)
            c.seat[c.n++] = s;
    return c;
}

static inline int ring_one_process(const htc_ring_member *a, const htc_ring_member *b)
{
    return a->id == b->id || (a->process != 0 && a->process == b->process);
}

static inline int ring_one_domain(const htc_ring_member *a, const htc_ring_member *b)
{
    return a->domain != 0 || b->domain != 0 ? a->domain == b->domain : ring_one_process(a, b);
}

/* How many groups of members there are. */
static inline uint32_t ring_groups(const htc_ring_member *m, uint32_t n,
                                   int (*one)(const htc_ring_member *, const htc_ring_member *))
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < i && !one(&m[i], &m[j]))
            j++;
        groups += j == i;
    }
    return groups;
}

static inline uint32_t ring_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Every bucket has min(N, members) distinct owners, as far apart as there are domains and processes; shares are what
 * the table says; ids are found where they sit. */
static inline const char *ring_check(const htc_ring *r, uint32_t wanted)
{
    ring_crowd crowd = ring_crowd_of(r);
    uint32_t   n = ring_min(wanted, crowd.n), owners[HTC_RING_OWNERS_MAX];
    uint32_t   domains = ring_min(n, ring_groups(crowd.m, crowd.n, ring_one_domain));
    uint32_t   processes = ring_min(n, ring_groups(crowd.m, crowd.n, ring_one_process));
    uint32_t   first[512] = { 0 }, total[512] = { 0 };
    if (crowd.n != htc_ring_members(r))
        return "number of members";
    for (uint32_t b = 0; b < htc_ring_buckets(r); b++) {
        htc_ring_member m[HTC_RING_OWNERS_MAX];
        if (htc_ring_owners(r, b, owners) != n)
            return "number of owners";
        for (uint32_t k = 0; k < n; k++) {
            if (htc_ring_member_at(r, owners[k], &m[k]) != HTC_OK)
                return "an owner that is no member";
            for (uint32_t j = 0; j < k; j++)
                if (m[j].id == m[k].id)
                    return "an owner twice";
            total[owners[k]]++;
        }
        if (n > 0) {
            uint64_t hash = (uint64_t)b * (UINT64_MAX / htc_ring_buckets(r) + 1);
            first[owners[0]]++;
            if (htc_ring_find(r, hash) != owners[0] ||
                htc_ring_find(r, hash - 1 + (UINT64_MAX / htc_ring_buckets(r) + 1)) != owners[0])
                return "find and owners differ";
        }
        if (ring_groups(m, n, ring_one_domain) != domains)
            return "not over as many domains as there are";
        if (ring_groups(m, n, ring_one_process) != processes)
            return "not over as many processes as there are";
        if (htc_ring_bucket_epoch(r, b) < 1 || htc_ring_bucket_epoch(r, b) > htc_ring_epoch(r))
            return "epoch of a bucket";
    }
    for (uint32_t i = 0; i < crowd.n; i++) {
        htc_ring_share share;
        if (htc_ring_share_at(r, crowd.seat[i], &share) != HTC_OK || share.first != first[crowd.seat[i]] ||
            share.total != total[crowd.seat[i]])
            return "share";
        if (htc_ring_seat(r, crowd.m[i].id) != crowd.seat[i])
            return "seat";
    }
    return NULL;
}

/* D'Hondt's rule: nobody's load is above what anybody else's would be with one bucket more. slack buckets are forgiven.
 */
static inline const char *ring_check_dhondt(const htc_ring *r, uint32_t slack)
{
    ring_crowd     crowd = ring_crowd_of(r);
    htc_ring_share a, b;
    for (uint32_t i = 0; i < crowd.n; i++)
        for (uint32_t j = 0; j < crowd.n; j++) {
            htc_ring_share_at(r, crowd.seat[i], &a);
            htc_ring_share_at(r, crowd.seat[j], &b);
            if ((uint64_t)a.first * crowd.m[j].weight > (uint64_t)(b.first + 1 + slack) * crowd.m[i].weight)
                return "first places are not divided by D'Hondt's rule";
        }
    return NULL;
}

static inline int ring_is_among(const uint64_t *ids, uint32_t n, uint64_t id)
{
    for (uint32_t k = 0; k < n; k++)
        if (ids[k] == id)
            return 1;
    return 0;
}

static inline uint32_t ring_ids(const htc_ring *r, uint32_t bucket, uint64_t *ids)
{
    uint32_t owners[HTC_RING_OWNERS_MAX], n = htc_ring_owners(r, bucket, owners);
    for (uint32_t k = 0; k < n; k++) {
        htc_ring_member m = { 0 };
        htc_ring_member_at(r, owners[k], &m);
        ids[k] = m.id;
    }
    return n;
}

/* No needless move in a change about member m, which grows (or joins) or shrinks (or leaves): rules 1 and 2 of the
 * header, bucket by bucket; and htc_ring_move_next tells exactly these buckets. */
static inline const char *ring_check_moves(const htc_ring *before, const htc_ring *after, uint64_t m, int grows)
{
    htc_ring_move move = { 0 };
    uint32_t      next = 0;
    int           more = htc_ring_move_next(before, after, 0, &move) == HTC_OK;
    for (uint32_t b = 0; b < htc_ring_buckets(before); b++) {
        uint64_t old[HTC_RING_OWNERS_MAX], new[HTC_RING_OWNERS_MAX];
        uint32_t old_n = ring_ids(before, b, old), new_n = ring_ids(after, b, new), came = 0, went = 0;
        int      had = ring_is_among(old, old_n, m), has = ring_is_among(new, new_n, m);
        if (old_n == new_n && memcmp(old, new, old_n * sizeof *old) == 0) {
            if (more && move.bucket == b)
                return "a move that is none";
            if (htc_ring_bucket_epoch(after, b) != htc_ring_bucket_epoch(before, b))
                return "an epoch without a change";
            continue;
        }
        if (!more || move.bucket != b || b < next)
            return "a move that is not told";
        if (htc_ring_bucket_epoch(after, b) != htc_ring_epoch(after))
            return "a change without an epoch";
        for (uint32_t k = 0; k < new_n; k++)
            if (!ring_is_among(old, old_n, new[k])) {
                if (grows ? new[k] != m : new[k] == m || !had || has)
                    return "a needless gain";
                if (move.came_n <= came || move.came[came] != new[k])
                    return "who came";
                came++;
            }
        for (uint32_t k = 0; k < old_n; k++)
            if (!ring_is_among(new, new_n, old[k])) {
                if (move.went_n <= went || move.went[went] != old[k])
                    return "who went";
                went++;
            }
        if (came > 1 || went > 1 || came != move.came_n || went != move.went_n)
            return "more than one came or went";
        if (had == has && !((old_n && old[0] == m) || (new_n && new[0] == m)))
            return "a needless change";
        if (move.first_changed != (uint32_t)(old_n == 0 || new_n == 0 || old[0] != new[0]))
            return "first_changed";
        next = b + 1;
        more = htc_ring_move_next(before, after, next, &move) == HTC_OK;
    }
    return more ? "a move behind the last bucket" : NULL;
}

/* Both say the same of everything. */
static inline const char *ring_check_equal(const htc_ring *a, const htc_ring *b)
{
    htc_ring_member x, y;
    uint64_t        p[HTC_RING_OWNERS_MAX], q[HTC_RING_OWNERS_MAX];
    if (htc_ring_epoch(a) != htc_ring_epoch(b) || htc_ring_buckets(a) != htc_ring_buckets(b) ||
        htc_ring_members(a) != htc_ring_members(b) || htc_ring_seats(a) != htc_ring_seats(b))
        return "numbers";
    for (uint32_t s = 0; s < htc_ring_seats(a); s++) {
        htc_status in_a = htc_ring_member_at(a, s, &x), in_b = htc_ring_member_at(b, s, &y);
        if (in_a != in_b || (in_a == HTC_OK && memcmp(&x, &y, sizeof x) != 0))
            return "members";
    }
    for (uint32_t k = 0; k < htc_ring_buckets(a); k++) {
        uint32_t n = ring_ids(a, k, p);
        if (ring_ids(b, k, q) != n || memcmp(p, q, n * sizeof *p) != 0)
            return "owners";
        if (htc_ring_bucket_epoch(a, k) != htc_ring_bucket_epoch(b, k))
            return "epochs of buckets";
    }
    return NULL;
}

/* D'Hondt one bucket after the other, over counts alone and N = 1: how many buckets m gains or gives. count[] and
 * weight[] are those before the change but for m's weight, which is the new one. */
static inline uint32_t ring_model_gain(const uint32_t *count, const uint32_t *weight, uint32_t n, uint32_t m)
{
    uint64_t c[256];
    uint32_t gained = 0;
    for (uint32_t i = 0; i < n; i++)
        c[i] = count[i];
    for (;;) {
        uint32_t best = m;
        for (uint32_t i = 0; i < n; i++)
            if (i != m && (best == m || c[i] * weight[best] > c[best] * weight[i]))
                best = i;
        if (best == m || c[best] * weight[m] <= (c[m] + 1) * weight[best])
            return gained;
        c[best]--;
        c[m]++;
        gained++;
    }
}

static inline uint32_t ring_model_loss(const uint32_t *count, const uint32_t *weight, uint32_t n, uint32_t m)
{
    uint64_t c[256];
    uint32_t lost = 0;
    for (uint32_t i = 0; i < n; i++)
        c[i] = count[i];
    for (;;) {
        uint32_t best = m;
        for (uint32_t i = 0; i < n; i++)
            if (i != m && (best == m || (c[i] + 1) * weight[best] < (c[best] + 1) * weight[i]))
                best = i;
        if (best == m || c[m] * weight[best] <= (c[best] + 1) * weight[m])
            return lost;
        c[best]++;
        c[m]--;
        lost++;
    }
}

#endif
