/* The map and its steps. */
#include "kvs/map/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"

static int own_sound(const htc__kv_map_own *own)
{
    for (uint32_t i = 0; i < own->n; i++)
        for (uint32_t j = 0; j <= i; j++)
            if (own->id[i] == 0 || (j < i && own->id[j] == own->id[i]))
                return 0;
    return own->n >= 1 && own->n <= HTC_RING_OWNERS_MAX;
}

static int member_sound(const htc__kv_map_member *m)
{
    return m->id && m->weight >= 1 && m->weight <= HTC_RING_WEIGHT_MAX &&
           memchr(m->address, 0, sizeof m->address) != NULL;
}

static htc_ring_member ring_member(const htc__kv_map_member *m)
{
    return (htc_ring_member){ .id = m->id, .process = m->process, .domain = m->domain, .weight = m->weight };
}

/* Room for one more, so that a step that has begun cannot fail at its end. */
static htc_status grow(htc__kv_map *map)
{
    size_t n = map->member_room;
    if (map->members < n)
        return HTC_OK;
    htc__kv_map_member *more = htc__resize(map->env, map->member, n * sizeof *more, (n + 1) * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    map->member = more;
    map->member_room = n + 1;
    return HTC_OK;
}

static htc_status first_ring(const htc_env *env, const htc_ring_options *options, const htc__kv_map_member *members,
                             uint32_t n, htc_ring **out)
{
    htc_ring_member *list = htc__alloc(env, n * sizeof *list);
    if (!list)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        list[i] = ring_member(&members[i]);
    htc_status status = htc_ring_create(env, options, list, n, out);
    htc__free(env, list, n * sizeof *list);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const htc__kv_map_member *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Those with the lowest ids keep the map, as many as keep a bucket. */
void htc__kv_map_wanted(const htc__kv_map *map, uint64_t without, htc__kv_map_own *own)
{
    uint32_t seats[HTC_RING_OWNERS_MAX], wanted = htc_ring_owners(map->before, 0, seats);
    *own = (htc__kv_map_own){ .n = 0 };
    for (uint32_t i = 0; i < map->own.n && own->n < wanted; i++)
        if (map->own.id[i] != without && htc__kv_map_find(map, map->own.id[i]))
            own->id[own->n++] = map->own.id[i];
    for (uint32_t i = 0; i < map->members && own->n < wanted; i++) {
        uint32_t j = 0;
        while (j < own->n && own->id[j] != map->member[i].id)
            j++;
        if (j == own->n && map->member[i].id != without)
            own->id[own->n++] = map->member[i].id;
    }
}

htc_status htc__kv_map_create(const htc_env *env, uint64_t seed, uint32_t bits, uint32_t owners,
                              const htc__kv_map_member *members, uint32_t count, htc__kv_map **out)
{
    htc_ring_options options = HTC_RING_OPTIONS_INIT;
    options.bits = bits;
    options.owners = owners;
    for (uint32_t i = 0; i < count; i++)
        if (!member_sound(&members[i]))
            return HTC_EINVAL;
    if (count < 1 || bits < 1 || bits > HTC__KV_MAP_BITS)
        return HTC_EINVAL;
    /* Far more than is wise, so that this is never why somebody cannot join. */
    options.members_max = bits < 10 ? UINT32_C(1) << bits : HTC__KV_MAP_MEMBERS;
    htc__kv_map *map = htc__alloc(env, sizeof *map);
    if (!map)
        return HTC_ENOMEM;
    map->env = env;
    map->seed = seed;
    map->numbers = 1;
    map->own_epoch = 1;
    size_t     n = (size_t)1 << bits;
    htc_status status = first_ring(env, &options, members, count, &map->before);
    map->bucket = htc__alloc(env, n * sizeof *map->bucket);
    map->member = htc__alloc(env, count * sizeof *map->member);
    if (status == HTC_OK && (!map->bucket || !map->member))
        status = HTC_ENOMEM;
    if (status != HTC_OK) {
        htc__free(env, map->bucket, n * sizeof *map->bucket);
        htc__free(env, map->member, count * sizeof *map->member);
        htc_ring_destroy(map->before);
        htc__free(env, map, sizeof *map);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        map->bucket[i].epoch = 1;
    memcpy(map->member, members, count * sizeof *members);
    qsort(map->member, count, sizeof *map->member, by_id);
    map->members = count;
    map->member_room = count;
    htc__kv_map_wanted(map, 0, &map->own);
    *out = map;
    return HTC_OK;
}

void htc__kv_map_destroy(htc__kv_map *map)
{
    if (!map)
        return;
    htc__free(map->env, map->bucket, htc_ring_buckets(map->before) * sizeof *map->bucket);
    htc__free(map->env, map->member, map->member_room * sizeof *map->member);
    htc__free(map->env, map->space, map->namespaces * sizeof *map->space);
    htc_ring_destroy(map->before);
    htc_ring_destroy(map->after);
    htc__free(map->env, map, sizeof *map);
}

const htc__kv_map_member *htc__kv_map_find(const htc__kv_map *map, uint64_t id)
{
    for (uint32_t i = 0; i < map->members; i++)
        if (map->member[i].id == id)
            return &map->member[i];
    return NULL;
}

/* ---- who owns what ---- */

static uint32_t owners_in(const htc_ring *ring, uint32_t bucket, uint64_t *ids)
{
    uint32_t seats[HTC_RING_OWNERS_MAX], n = htc_ring_owners(ring, bucket, seats);
    for (uint32_t i = 0; i < n; i++) {
        htc_ring_member m = { .id = 0 };
        htc_ring_member_at(ring, seats[i], &m);
        ids[i] = m.id;
    }
    return n;
}

uint32_t htc__kv_map_owners(const htc__kv_map *map, uint32_t bucket, uint64_t *ids)
{
    return owners_in(map->after && bucket < map->moved ? map->after : map->before, bucket, ids);
}

static int is_renewed(const htc__kv_map *map, uint32_t bucket)
{
    uint32_t low = 0, high = map->renewed;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map->renew[middle] < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->renewed && map->renew[low] == bucket;
}

/* Does it change hands? Another order alone is nothing that anybody would have to copy. */
static int differs(const htc__kv_map *map, uint32_t bucket)
{
    if (map->kind == HTC__KV_RENEW)
        return is_renewed(map, bucket);
    uint64_t a[HTC_RING_OWNERS_MAX], b[HTC_RING_OWNERS_MAX];
    uint32_t n = owners_in(map->before, bucket, a), m = owners_in(map->after, bucket, b);
    if (n != m)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < m && b[j] != a[i])
            j++;
        if (j == m)
            return 1;
    }
    return 0;
}

/* The bucket at the border; HTC_RING_NONE: none is left. */
static uint32_t at_border(const htc__kv_map *map)
{
    if (map->back) {
        for (uint32_t b = map->moved; b-- > 0;)
            if (differs(map, b))
                return b;
        return HTC_RING_NONE;
    }
    for (uint32_t b = map->moved; b < htc_ring_buckets(map->before); b++)
        if (differs(map, b))
            return b;
    return HTC_RING_NONE;
}

void htc__kv_map_progress(const htc__kv_map *map, uint32_t *moved, uint32_t *of)
{
    *moved = *of = 0;
    for (uint32_t b = 0; map->after && b < htc_ring_buckets(map->before); b++) {
        if (!differs(map, b))
            continue;
        *of += 1;
        *moved += map->back ? b >= map->moved : b < map->moved;
    }
}

static void describe_move(const htc__kv_map *map, uint32_t b, htc__kv_map_move *move)
{
    *move = (htc__kv_map_move){
        .bucket = b, .epoch = map->bucket[b].epoch, .image = map->bucket[b].image, .mover = map->mover
    };
    move->from_n = owners_in(map->back ? map->after : map->before, b, move->from);
    move->to_n = owners_in(map->back ? map->before : map->after, b, move->to);
}

int htc__kv_map_next(const htc__kv_map *map, htc__kv_map_move *move)
{
    uint32_t b = map->after ? at_border(map) : HTC_RING_NONE;
    if (b == HTC_RING_NONE)
        return 0;
    describe_move(map, b, move);
    return 1;
}

/* Between the border and `until`, on whichever side that is. */
static uint32_t batch_from(const htc__kv_map *map)
{
    return map->back ? map->until : map->moved;
}

static uint32_t batch_to(const htc__kv_map *map)
{
    return map->back ? map->moved : map->until;
}

int htc__kv_map_batch(const htc__kv_map *map, uint32_t from, htc__kv_map_move *move)
{
    if (!map->after || !map->mover)
        return 0;
    for (uint32_t b = from > batch_from(map) ? from : batch_from(map); b < batch_to(map); b++)
        if (differs(map, b)) {
            describe_move(map, b, move);
            return 1;
        }
    return 0;
}

/* ---- a change begins and ends ---- */

/* The table after the change, from the one before. */
static htc_status compute_after(htc__kv_map *map)
{
    htc_ring_member comer = ring_member(&map->comer);
    htc_status      status = htc_ring_copy(map->before, map->env, &map->after);
    if (status != HTC_OK)
        return status;
    switch ((htc__kv_change_kind)map->kind) {
    case HTC__KV_STAY:
    case HTC__KV_BACK:
    case HTC__KV_RATE:
        status = HTC_EINVAL;
        break;
    case HTC__KV_JOIN:
        status = htc_ring_join(map->after, &comer);
        break;
    case HTC__KV_LEAVE:
        status = htc_ring_leave(map->after, map->leaver);
        break;
    case HTC__KV_REPLACE:
        status = htc_ring_replace(map->after, map->leaver, comer.id);
        break;
    case HTC__KV_REWEIGHT:
        status = htc_ring_reweight(map->after, map->leaver, comer.weight);
        break;
    case HTC__KV_RENEW:
        break;
    }
    if (status != HTC_OK) {
        htc_ring_destroy(map->after);
        map->after = NULL;
    }
    return status;
}

static void forget_change(htc__kv_map *map)
{
    map->kind = HTC__KV_STAY;
    map->back = 0;
    map->leaver = map->mover = 0;
    map->moved = map->until = map->renewed = 0;
    memset(&map->comer, 0, sizeof map->comer);
}

static htc__kv_map_member *member_of(htc__kv_map *map, uint64_t id)
{
    for (uint32_t i = 0; i < map->members; i++)
        if (map->member[i].id == id)
            return &map->member[i];
    return NULL;
}

static void drop_member(htc__kv_map *map, uint64_t id)
{
    htc__kv_map_member *m = member_of(map, id);
    if (!m)
        return;
    assert(map->members > 0);
    map->members--;
    memmove(m, m + 1, (size_t)(map->member + map->members - m) * sizeof *m);
}

/* Who comes is a member from the first bucket on, who goes until the last. */
static void end_change(htc__kv_map *map)
{
    uint8_t  kind = map->kind, back = map->back;
    uint64_t gone = back ? map->comer.id : map->leaver;
    htc_ring_destroy(back ? map->after : map->before);
    if (!back)
        map->before = map->after;
    map->after = NULL;
    if (kind == HTC__KV_REPLACE || kind == (back ? HTC__KV_JOIN : HTC__KV_LEAVE))
        drop_member(map, gone);
    if (kind == HTC__KV_REWEIGHT && !back)
        member_of(map, map->leaver)->weight = map->comer.weight;
    forget_change(map);
}

static htc_status begin(htc__kv_map *map, htc__kv_change_kind kind, uint64_t leaver, const htc__kv_map_member *comer)
{
    int comes = kind == HTC__KV_JOIN || kind == HTC__KV_REPLACE;
    if (map->after || map->own_next.n)
        return HTC_EBUSY;
    if (comes && !member_sound(comer))
        return HTC_EINVAL;
    if (comes && htc__kv_map_find(map, comer->id))
        return HTC_EEXISTS;
    if (kind != HTC__KV_JOIN && !htc__kv_map_find(map, leaver))
        return HTC_ENOTFOUND;
    if ((kind == HTC__KV_LEAVE && map->members == 1) || (comes && map->members >= HTC__KV_MAP_MEMBERS))
        return kind == HTC__KV_LEAVE ? HTC_EINVAL : HTC_EFULL;
    if (comes && grow(map) != HTC_OK)
        return HTC_ENOMEM;
    map->kind = (uint8_t)kind;
    map->leaver = leaver;
    if (comer)
        map->comer = *comer;
    if (kind == HTC__KV_REPLACE) { /* in the same place */
        const htc__kv_map_member *old = htc__kv_map_find(map, leaver);
        map->comer.process = old->process;
        map->comer.domain = old->domain;
        map->comer.weight = old->weight;
    }
    htc_status status = compute_after(map);
    if (status != HTC_OK) {
        forget_change(map);
        return status;
    }
    if (comes)
        map->member[map->members++] = map->comer;
    if (at_border(map) == HTC_RING_NONE) {
        map->numbers++; /* as every change takes one, by which it is known that there was one */
        end_change(map);
    }
    return HTC_OK;
}

htc_status htc__kv_map_begin_join(htc__kv_map *map, const htc__kv_map_member *member)
{
    return begin(map, HTC__KV_JOIN, 0, member);
}

htc_status htc__kv_map_begin_leave(htc__kv_map *map, uint64_t id)
{
    return begin(map, HTC__KV_LEAVE, id, NULL);
}

htc_status htc__kv_map_begin_replace(htc__kv_map *map, uint64_t id, const htc__kv_map_member *with)
{
    return begin(map, HTC__KV_REPLACE, id, with);
}

htc_status htc__kv_map_begin_reweight(htc__kv_map *map, uint64_t id, uint32_t weight)
{
    htc__kv_map_member as = { .weight = weight };
    return begin(map, HTC__KV_REWEIGHT, id, &as);
}

static int buckets_sound(const htc__kv_map *map, const uint32_t *buckets, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < HTC__KV_MAP_RENEWED; i++)
        if (buckets[i] >= htc_ring_buckets(map->before) || (i > 0 && buckets[i] <= buckets[i - 1]))
            return 0;
    return count >= 1 && count <= HTC__KV_MAP_RENEWED;
}

htc_status htc__kv_map_begin_renew(htc__kv_map *map, uint64_t id, const uint32_t *buckets, uint32_t count)
{
    if (map->after || map->own_next.n)
        return HTC_EBUSY;
    if (!buckets_sound(map, buckets, count))
        return HTC_EINVAL;
    memcpy(map->renew, buckets, count * sizeof *buckets);
    map->renewed = count;
    htc_status status = begin(map, HTC__KV_RENEW, id, NULL);
    if (status != HTC_OK)
        map->renewed = 0;
    return status;
}

/* ---- batch after batch ---- */

/* Every bucket there that changes hands gets those numbers; image 0: it keeps the one it has. */
static void renumber(htc__kv_map *map, uint32_t from, uint32_t to, uint64_t epoch, uint64_t image)
{
    for (uint32_t b = from; b < to; b++)
        if (differs(map, b))
            map->bucket[b] = (htc__kv_map_bucket){ .epoch = epoch, .image = image ? image : map->bucket[b].image };
}

/* The end of the next `most` buckets that change hands. */
static uint32_t end_of_batch(const htc__kv_map *map, uint32_t most)
{
    uint32_t end = map->moved, buckets = htc_ring_buckets(map->before);
    for (uint32_t b = map->moved; most > 0 && (map->back ? b > 0 : b < buckets); b = map->back ? b - 1 : b + 1) {
        uint32_t bucket = map->back ? b - 1 : b;
        if (!differs(map, bucket))
            continue;
        end = map->back ? bucket : bucket + 1;
        most--;
    }
    return end;
}

htc_status htc__kv_map_take(htc__kv_map *map, uint32_t most, uint64_t *number)
{
    if (map->own_next.n)
        return HTC_EBUSY;
    if (!map->after)
        return HTC_ENOTFOUND;
    uint32_t end = end_of_batch(map, most ? most : 1);
    *number = ++map->numbers;
    if (map->mover) /* what is left of the batch before */
        renumber(map, map->back ? map->until : end, map->back ? end : map->until, *number, 0);
    map->mover = *number;
    map->until = end;
    return HTC_OK;
}

static htc_status mine(const htc__kv_map *map, uint64_t number)
{
    if (map->own_next.n)
        return HTC_EBUSY;
    return map->after && number && map->mover == number ? HTC_OK : HTC_MISMATCH;
}

static void batch_over(htc__kv_map *map)
{
    map->until = map->moved;
    map->mover = 0;
    if (at_border(map) == HTC_RING_NONE)
        end_change(map);
}

htc_status htc__kv_map_activate(htc__kv_map *map, uint64_t number)
{
    htc_status status = mine(map, number);
    if (status != HTC_OK)
        return status;
    renumber(map, batch_from(map), batch_to(map), number, number);
    map->moved = map->until;
    batch_over(map);
    return HTC_OK;
}

htc_status htc__kv_map_roll_back(htc__kv_map *map, uint64_t number)
{
    htc_status status = mine(map, number);
    if (status != HTC_OK)
        return status;
    renumber(map, batch_from(map), batch_to(map), ++map->numbers, 0);
    if (map->kind == HTC__KV_RENEW) {
        end_change(map);
        return HTC_OK;
    }
    map->back = !map->back;
    batch_over(map);
    return HTC_OK;
}

/* ---- the rest ---- */

static int space_sound(const htc__kv_map_namespace *s)
{
    return memchr(s->name, 0, sizeof s->name) && s->eventual <= 1 && s->durability <= HTC__KV_INTERVAL && s->n >= 1 &&
           s->n <= HTC_RING_OWNERS_MAX && (!s->eventual || (s->r >= 1 && s->r <= s->n && s->w >= 1 && s->w <= s->n)) &&
           (s->durability != HTC__KV_INTERVAL || s->interval);
}

htc_status htc__kv_map_add_namespace(htc__kv_map *map, const htc__kv_map_namespace *space)
{
    if (map->own_next.n)
        return HTC_EBUSY;
    if (!space_sound(space))
        return HTC_EINVAL;
    for (uint32_t i = 0; i < map->namespaces; i++)
        if (strcmp(map->space[i].name, space->name) == 0)
            return HTC_EEXISTS;
    if (map->namespaces == HTC__KV_MAP_NAMESPACES)
        return HTC_EFULL;
    size_t                 n = map->namespaces;
    htc__kv_map_namespace *more = htc__resize(map->env, map->space, n * sizeof *more, (n + 1) * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    map->space = more;
    map->space[map->namespaces++] = *space;
    return HTC_OK;
}

htc_status htc__kv_map_name_next(htc__kv_map *map, const htc__kv_map_own *next)
{
    if (!own_sound(next))
        return HTC_EINVAL;
    if (map->own_next.n)
        return memcmp(&map->own_next, next, sizeof *next) == 0 ? HTC_OK : HTC_EBUSY;
    map->own_next = *next;
    return HTC_OK;
}

htc_status htc__kv_map_settle(htc__kv_map *map)
{
    if (!map->own_next.n)
        return HTC_ENOTFOUND;
    map->own = map->own_next;
    map->own_next = (htc__kv_map_own){ .n = 0 };
    map->own_epoch++;
    return HTC_OK;
}

/* ---- bytes ---- */

static void put_member(htc_buf *b, const htc__kv_map_member *m)
{
    htc_put_u64(b, m->id);
    htc_put_u64(b, m->process);
    htc_put_u64(b, m->domain);
    htc_put_varint(b, m->weight);
    htc_put_str(b, m->address);
}

static uint32_t get_u32(htc_reader *r)
{
    uint64_t v = htc_get_varint(r);
    if (v > UINT32_MAX)
        htc_reader_fail(r);
    return (uint32_t)v;
}

static void get_member(htc_reader *r, htc__kv_map_member *m)
{
    memset(m, 0, sizeof *m);
    m->id = htc_get_u64(r);
    m->process = htc_get_u64(r);
    m->domain = htc_get_u64(r);
    m->weight = get_u32(r);
    htc_get_str(r, m->address, sizeof m->address);
}

static void put_own(htc_buf *b, const htc__kv_map_own *own)
{
    htc_put_varint(b, own->n);
    for (uint32_t i = 0; i < own->n; i++)
        htc_put_u64(b, own->id[i]);
}

static void get_own(htc_reader *r, htc__kv_map_own *own)
{
    *own = (htc__kv_map_own){ .n = get_u32(r) };
    if (own->n > HTC_RING_OWNERS_MAX) {
        own->n = 0;
        htc_reader_fail(r);
    }
    for (uint32_t i = 0; i < own->n; i++)
        own->id[i] = htc_get_u64(r);
    if (own->n && !own_sound(own))
        htc_reader_fail(r);
}

/* Runs of buckets with the same numbers. */
static void put_buckets(htc_buf *b, const htc__kv_map *map)
{
    uint32_t n = htc_ring_buckets(map->before);
    for (uint32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && map->bucket[i + run].epoch == map->bucket[i].epoch &&
                      map->bucket[i + run].image == map->bucket[i].image;)
            run++;
        htc_put_varint(b, run);
        htc_put_varint(b, map->bucket[i].epoch);
        htc_put_varint(b, map->bucket[i].image);
    }
}

static void get_buckets(htc_reader *r, htc__kv_map *map)
{
    uint32_t n = htc_ring_buckets(map->before);
    for (uint32_t i = 0; i < n && r->status == HTC_OK;) {
        uint32_t           run = get_u32(r);
        htc__kv_map_bucket bucket = { .epoch = htc_get_varint(r) };
        bucket.image = htc_get_varint(r);
        if (run == 0 || run > n - i || bucket.epoch == 0 || bucket.epoch > map->numbers ||
            bucket.image > bucket.epoch ||
            (i > 0 && bucket.epoch == map->bucket[i - 1].epoch && bucket.image == map->bucket[i - 1].image))
            htc_reader_fail(r);
        while (r->status == HTC_OK && run--)
            map->bucket[i++] = bucket;
    }
}

static void put_ring(htc_buf *b, const htc_ring *ring)
{
    size_t size = htc_ring_encoded_size(ring, 0), len = 0;
    htc_put_varint(b, size);
    uint8_t *room = htc_buf_extend(b, size);
    if (room)
        htc_ring_encode(ring, 0, room, size, &len);
}

static void put_renewed(htc_buf *b, const htc__kv_map *map)
{
    htc_put_varint(b, map->renewed);
    for (uint32_t i = 0; i < map->renewed; i++)
        htc_put_varint(b, map->renew[i]);
}

static void get_renewed(htc_reader *r, htc__kv_map *map)
{
    uint32_t n = get_u32(r);
    if (n > HTC__KV_MAP_RENEWED)
        htc_reader_fail(r);
    for (uint32_t i = 0; r->status == HTC_OK && i < n; i++)
        map->renew[i] = get_u32(r);
    if (r->status == HTC_OK && !map->back && buckets_sound(map, map->renew, n))
        map->renewed = n;
    else
        htc_reader_fail(r);
}

void htc__kv_map_encode(htc_buf *b, const htc__kv_map *map)
{
    htc_put_u8(b, HTC__KV_MAP_FORMAT);
    htc_put_u64(b, map->seed);
    htc_put_varint(b, map->numbers);
    put_ring(b, map->before);
    put_buckets(b, map);
    htc_put_u8(b, map->kind);
    if (map->kind != HTC__KV_STAY) {
        htc_put_u8(b, map->back);
        htc_put_u64(b, map->leaver);
        put_member(b, &map->comer);
        htc_put_varint(b, map->moved);
        htc_put_varint(b, map->mover);
        if (map->mover)
            htc_put_varint(b, map->until);
        if (map->kind == HTC__KV_RENEW)
            put_renewed(b, map);
    }
    htc_put_varint(b, map->rate);
    htc_put_varint(b, map->members);
    for (uint32_t i = 0; i < map->members; i++)
        put_member(b, &map->member[i]);
    htc_put_varint(b, map->namespaces);
    for (uint32_t i = 0; i < map->namespaces; i++) {
        const htc__kv_map_namespace *s = &map->space[i];
        htc_put_str(b, s->name);
        htc_put_u8(b, s->eventual);
        htc_put_u8(b, s->durability);
        htc_put_varint(b, s->n);
        htc_put_varint(b, s->r);
        htc_put_varint(b, s->w);
        htc_put_varint(b, s->interval);
    }
    htc_put_varint(b, map->own_epoch);
    put_own(b, &map->own);
    put_own(b, &map->own_next);
}

/* Everybody in the tables is a member that is described, and nobody else is. */
static int members_sound(const htc__kv_map *map)
{
    const htc_ring *rings[2] = { map->before, map->after };
    uint32_t        known = htc_ring_members(map->before) + (map->kind == HTC__KV_JOIN || map->kind == HTC__KV_REPLACE);
    if (known != map->members || known == 0)
        return 0;
    for (uint32_t i = 0; i < map->members; i++) {
        const htc__kv_map_member *m = &map->member[i];
        if (!member_sound(m) || htc__kv_map_find(map, m->id) != m)
            return 0;
        if (htc_ring_seat(rings[0], m->id) == HTC_RING_NONE &&
            (!rings[1] || htc_ring_seat(rings[1], m->id) == HTC_RING_NONE))
            return 0;
    }
    return 1;
}

static htc_status get_lists(htc_reader *r, htc__kv_map *map)
{
    size_t n = htc_get_count(r, 26);
    if (r->status != HTC_OK || n == 0 || n > HTC__KV_MAP_MEMBERS)
        return HTC_EPROTO;
    map->member = htc__alloc(map->env, n * sizeof *map->member);
    if (!map->member)
        return HTC_ENOMEM;
    map->members = (uint32_t)n;
    map->member_room = n;
    for (size_t i = 0; i < n; i++)
        get_member(r, &map->member[i]);
    n = htc_get_count(r, 7);
    if (r->status != HTC_OK || n > HTC__KV_MAP_NAMESPACES)
        return HTC_EPROTO;
    map->space = n ? htc__alloc(map->env, n * sizeof *map->space) : NULL;
    if (n && !map->space)
        return HTC_ENOMEM;
    map->namespaces = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        htc__kv_map_namespace *s = &map->space[i];
        htc_get_str(r, s->name, sizeof s->name);
        s->eventual = htc_get_u8(r);
        s->durability = htc_get_u8(r);
        s->n = get_u32(r);
        s->r = get_u32(r);
        s->w = get_u32(r);
        s->interval = htc_get_varint(r);
        if (!space_sound(s))
            htc_reader_fail(r);
        for (size_t j = 0; j < i; j++)
            if (strcmp(s->name, map->space[j].name) == 0)
                htc_reader_fail(r);
    }
    return r->status == HTC_OK ? HTC_OK : HTC_EPROTO;
}

/* Who moves something moves one bucket at least, and the last of them is one that changes hands. */
static int batch_sound(const htc__kv_map *map)
{
    if (!map->mover)
        return 1;
    if (map->until > htc_ring_buckets(map->before) || batch_from(map) >= batch_to(map))
        return 0;
    return differs(map, map->back ? map->until : map->until - 1);
}

static htc_status get_change(htc_reader *r, htc__kv_map *map)
{
    map->kind = htc_get_u8(r);
    if (map->kind == HTC__KV_STAY)
        return HTC_OK;
    map->back = htc_get_u8(r);
    map->leaver = htc_get_u64(r);
    get_member(r, &map->comer);
    map->moved = get_u32(r);
    map->mover = htc_get_varint(r);
    map->until = map->mover ? get_u32(r) : map->moved;
    if (map->kind == HTC__KV_RENEW)
        get_renewed(r, map);
    if (r->status != HTC_OK || (map->kind > HTC__KV_REWEIGHT && map->kind != HTC__KV_RENEW) || map->back > 1 ||
        map->mover > map->numbers || map->moved > htc_ring_buckets(map->before))
        return HTC_EPROTO;
    htc_status status = compute_after(map);
    if (status != HTC_OK)
        return status == HTC_ENOMEM ? status : HTC_EPROTO;
    return at_border(map) != HTC_RING_NONE && batch_sound(map) ? HTC_OK : HTC_EPROTO;
}

static htc_status decode(htc_reader *r, htc__kv_map *map)
{
    map->seed = htc_get_u64(r);
    map->numbers = htc_get_varint(r);
    htc_status status = htc_ring_decode(map->env, htc_get_bytes(r), &map->before);
    if (r->status != HTC_OK || status != HTC_OK || map->numbers > HTC__KV_MAP_NUMBERS)
        return status == HTC_ENOMEM ? status : HTC_EPROTO;
    uint32_t n = htc_ring_buckets(map->before);
    if (n > UINT32_C(1) << HTC__KV_MAP_BITS)
        return HTC_EPROTO;
    map->bucket = htc__alloc(map->env, n * sizeof *map->bucket);
    if (!map->bucket)
        return HTC_ENOMEM;
    get_buckets(r, map);
    status = r->status == HTC_OK ? get_change(r, map) : HTC_EPROTO;
    if (status != HTC_OK)
        return status;
    map->rate = get_u32(r);
    status = get_lists(r, map);
    if (status != HTC_OK)
        return status;
    map->own_epoch = htc_get_varint(r);
    get_own(r, &map->own);
    get_own(r, &map->own_next);
    return htc_reader_done(r) == HTC_OK && map->own.n && members_sound(map) ? HTC_OK : HTC_EPROTO;
}

htc_status htc__kv_map_decode(const htc_env *env, htc_bytes bytes, htc__kv_map **out)
{
    htc_reader r = htc_reader_of(bytes);
    if (htc_get_u8(&r) != HTC__KV_MAP_FORMAT)
        return r.status == HTC_OK ? HTC_EVERSION : HTC_EPROTO;
    htc__kv_map *map = htc__alloc(env, sizeof *map);
    if (!map)
        return HTC_ENOMEM;
    map->env = env;
    htc_status status = decode(&r, map);
    if (status != HTC_OK) {
        htc__kv_map_destroy(map);
        return status;
    }
    *out = map;
    return HTC_OK;
}
