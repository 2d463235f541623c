/* Six stores in three racks keep three copies of every key. One is replaced by a stronger one: which buckets move, and
 * to whom? */
#include <stdio.h>

#include "htcsched/ring.h"

/* Addresses stand beside the ring, by seat. */
static const char *const address[] = { "a1", "a2", "b1", "b2", "c1", "c2", "c3" };

static void show_owners(const htc_ring *ring, const char *key)
{
    uint32_t seats[HTC_RING_OWNERS_MAX];
    uint64_t hash = htc_hash64(htc_bytes_of(key), 0);
    uint32_t n = htc_ring_owners(ring, htc_ring_bucket(ring, hash), seats);
    printf("%s is on", key);
    for (uint32_t i = 0; i < n; i++)
        printf(i + 1 < n ? " %s" : " %s\n", address[seats[i]]);
}

static void show_shares(const htc_ring *ring)
{
    printf("epoch %u:", (unsigned)htc_ring_epoch(ring));
    for (uint32_t seat = 0; seat < htc_ring_seats(ring); seat++) {
        htc_ring_share share;
        if (htc_ring_share_at(ring, seat, &share) == HTC_OK)
            printf(" %s=%u/%u", address[seat], (unsigned)share.first, (unsigned)share.total);
    }
    printf("\n");
}

int main(void)
{
    htc_ring_member  store[6], strong = { .id = 107, .domain = 3, .weight = 2 };
    htc_ring_options options = HTC_RING_OPTIONS_INIT;
    htc_ring        *ring, *before;
    htc_ring_move    move;
    unsigned         moved = 0, needless = 0;
    options.bits = 10; /* 1024 buckets */
    for (uint64_t i = 0; i < 6; i++)
        store[i] = (htc_ring_member){ .id = 101 + i, .domain = 1 + i / 2, .weight = 1 };
    if (htc_ring_create(NULL, &options, store, 6, &ring) != HTC_OK)
        return 1;
    show_shares(ring);
    show_owners(ring, "job/17");
    if (htc_ring_copy(ring, NULL, &before) != HTC_OK || htc_ring_join(ring, &strong) != HTC_OK)
        return 1;
    for (uint32_t b = 0; htc_ring_move_next(before, ring, b, &move) == HTC_OK; b = move.bucket + 1) {
        moved += move.came_n > 0;
        needless += move.came_n > 0 && move.came[0] != strong.id;
    }
    printf("c3 joins: %u buckets are copied to it, %u to others\n", moved, needless);
    show_shares(ring);
    printf("the news is %zu bytes, all of the ring %zu\n", htc_ring_encoded_size(ring, 1),
           htc_ring_encoded_size(ring, 0));
    htc_ring_leave(ring, 106);
    show_shares(ring);
    htc_ring_destroy(ring);
    htc_ring_destroy(before);
    return 0;
}
