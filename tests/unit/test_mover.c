/* Buckets on the move while registers in them are at work: joins, leaves and replacements, two movers at once, movers that die,
 * roll-backs, owners that die and come back. What registers promise holds, and each rule that is left out is noticed. */
#include "alloc_fail.h"
#include "kvs/map/map.h"
#include "kvs/migrate/bucket_migration.h"
#include "property.h"
#include "register_world.h"

#define BUCKET 2 /* of 16, where the keys lie: others go before it, with it, or are left when it goes */

typedef struct at_work {
    htc__kv_migration *mover;
    uint64_t       number;
    int            slot;
    struct world  *w;
} at_work;

typedef struct moves {
    htc__kv_map *map; /* the strong register: each step is one compare-and-swap */
    at_work      at[2];
    unsigned     moved, rolled_back, taken_over, let_go, copied, lost;
} moves;

static htc__kv_map_member a_member(uint64_t id)
{
    return (htc__kv_map_member){ .id = id, .weight = 1, .address = "here" };
}

static packet *other(void (*arrive)(world *, packet *), uint32_t from, uint32_t to, const htc_buf *b)
{
    packet *p = packet_of(OTHER, htc_buf_bytes(b));
    p->arrive = arrive;
    p->from = from;
    p->to = to;
    return p;
}

static void answer_when_synced(world *w, owner *o, packet *p)
{
    packet **at = &o->waiting;
    while (*at)
        at = &(*at)->next;
    *at = p;
    sync_soon(w, o);
}

static void put_floors(htc_buf *b, const htc__kv_floors *floors)
{
    htc_put_varint(b, floors->version);
    htc__kv_ballot_write(b, &floors->ballot);
}

static htc__kv_floors get_floors(htc_reader *r)
{
    htc__kv_floors floors = { .version = htc_get_varint(r) };
    floors.ballot = htc__kv_ballot_read(r);
    return floors;
}

static void put_key(htc_buf *b, const owner *o, int k)
{
    htc__kv_cell cell;
    if (o->now.key[k].len == 0)
        return;
    cr_assert(htc__kv_cell_read((htc_bytes){ o->now.key[k].cell, o->now.key[k].len }, NULL, &cell) == HTC_OK);
    htc__kv_entry_write(b, key_name(k), &cell);
}

static void take_entries(htc_bytes entries, stored *into, htc_buf *scratch)
{
    htc_reader   r = htc_reader_of(entries);
    htc_bytes    key, bytes;
    htc__kv_cell cell;
    while (htc__kv_entry_read(&r, &key, &bytes, &cell))
        write_cell(&into[((const char *)key.data)[0] == 'n'], &cell, scratch);
    cr_assert(r.status == HTC_OK);
}

/* ---- what members hear of the map ---- */

static void owners_known(void *ctx, htc_bytes key, htc__kv_owners *owners)
{
    owner *o = ctx;
    (void)key;
    *owners = owners_now(o->w, o->at);
}

static int owns(const htc__kv_owners *owners, uint32_t at)
{
    for (uint32_t i = 0; i < owners->n; i++)
        if (owners->id[i] == at + 1)
            return 1;
    return 0;
}

static void copy_came(world *w, packet *p)
{
    owner     *o = &w->o[p->to];
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    uint64_t   epoch = htc_get_varint(&r), image = htc_get_varint(&r);
    if (!o->up || !(htc__kv_bucket_state_copied(&o->now.hold, epoch, image) & HTC__KV_BUCKET_STORE))
        return;
    o->now.floors = get_floors(&r);
    memset(o->now.key, 0, sizeof o->now.key);
    take_entries(htc_get_raw(&r, htc_reader_left(&r)), o->now.key, &w->b);
    ((moves *)w->moves)->copied++;
    sync_soon(w, o);
}

static void copy_asked(world *w, packet *p)
{
    owner     *o = &w->o[p->to];
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    uint64_t   epoch = htc_get_varint(&r);
    if (!o->up || !htc__kv_bucket_state_has(&o->now.hold, epoch))
        return;
    htc_buf_clear(&w->b);
    htc_put_varint(&w->b, epoch);
    htc_put_varint(&w->b, o->now.hold.image);
    put_floors(&w->b, &o->now.floors);
    for (int k = 0; k < KEYS; k++)
        put_key(&w->b, o, k);
    travel(w, other(copy_came, o->at, p->from, &w->b), 1);
}

static void map_came(world *w, packet *p)
{
    owner         *o = &w->o[p->to];
    htc_reader     r = htc_reader_of((htc_bytes){ p->data, p->len });
    htc__kv_owners owners = { .epoch = htc_get_varint(&r) };
    uint64_t       image = htc_get_varint(&r);
    owners.n = htc_get_u8(&r);
    for (uint32_t i = 0; i < owners.n; i++)
        owners.id[i] = htc_get_u64(&r);
    if (!o->up || owners.epoch < o->known.epoch)
        return;
    o->known = owners;
    if (owns(&owners, o->at)) {
        unsigned duties = htc__kv_bucket_state_learn(&o->now.hold, owners.epoch, image);
        if (duties & HTC__KV_BUCKET_BECOME) {
            memcpy(o->now.key, o->now.image, sizeof o->now.key);
            o->now.floors = o->now.image_floors;
        }
        if (duties & HTC__KV_BUCKET_STORE)
            sync_soon(w, o);
        if (duties & HTC__KV_BUCKET_LATE) {
            htc_buf_clear(&w->b);
            htc_put_varint(&w->b, owners.epoch);
            travel(w, other(copy_asked, o->at, (uint32_t)owners.id[htc_rng_below(&w->rng, owners.n)] - 1, &w->b), 1);
        }
    }
    if (o->reg)
        htc__kv_register_moved(o->reg, w->now, owners_known, o);
}

static void tell_map(world *w, uint32_t to)
{
    moves   *mv = w->moves;
    uint64_t ids[HTC_RING_OWNERS_MAX];
    uint32_t n = htc__kv_map_owners(mv->map, BUCKET, ids);
    htc_buf_clear(&w->b);
    htc_put_varint(&w->b, mv->map->bucket[BUCKET].epoch);
    htc_put_varint(&w->b, mv->map->bucket[BUCKET].image);
    htc_put_u8(&w->b, (uint8_t)n);
    for (uint32_t i = 0; i < n; i++)
        htc_put_u64(&w->b, ids[i]);
    travel(w, other(map_came, OWNERS, to, &w->b), 1);
}

static void restarted(world *w, owner *o)
{
    memset(&o->known, 0, sizeof o->known);
    tell_map(w, o->at);
}

static int serves(world *w, owner *o, const htc__kv_ask *ask)
{
    (void)w;
    return htc__kv_bucket_state_serves(&o->now.hold, ask->epoch);
}

static uint32_t whom(world *w)
{
    uint64_t ids[HTC_RING_OWNERS_MAX];
    uint32_t n = htc__kv_map_owners(((moves *)w->moves)->map, BUCKET, ids);
    return chance(w, 850) ? (uint32_t)ids[chance(w, 600) ? 0 : htc_rng_below(&w->rng, n)] - 1
                          : (uint32_t)htc_rng_below(&w->rng, OWNERS);
}

/* ---- movers ---- */

static at_work *at_work_of(world *w, uint64_t number)
{
    moves *mv = w->moves;
    for (int i = 0; i < 2; i++)
        if (mv->at[i].mover && mv->at[i].number == number)
            return &mv->at[i];
    return NULL;
}

static void shown_came(world *w, packet *p)
{
    htc_reader     r = htc_reader_of((htc_bytes){ p->data, p->len });
    at_work       *a = at_work_of(w, htc_get_varint(&r));
    htc_bytes      after = htc_get_bytes(&r);
    int            last = htc_get_u8(&r);
    htc__kv_floors floors = get_floors(&r);
    if (a)
        cr_assert(htc__kv_migration_shown(a->mover, w->now, p->from + 1, after, &floors,
                                      htc_get_raw(&r, htc_reader_left(&r)), last) == HTC_OK);
}

static void seal_came(world *w, packet *p)
{
    owner     *o = &w->o[p->to];
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    uint64_t   number = htc_get_varint(&r), epoch = htc_get_varint(&r);
    htc_bytes  after = htc_get_bytes(&r);
    if (!o->up || !(htc__kv_bucket_state_seal(&o->now.hold, epoch) & HTC__KV_BUCKET_YES))
        return;
    /* A page for each key, "n" before "s". */
    int first = after.len == 0 && o->now.key[1].len != 0;
    htc_buf_clear(&w->b);
    htc_put_varint(&w->b, number);
    htc_put_bytes(&w->b, after);
    htc_put_u8(&w->b, !first);
    put_floors(&w->b, &o->now.floors);
    if (after.len == 0 || ((const char *)after.data)[0] == 'n')
        put_key(&w->b, o, first);
    answer_when_synced(w, o, other(shown_came, o->at, OWNERS, &w->b));
}

static void installed_came(world *w, packet *p)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    uint64_t   number = htc_get_varint(&r);
    at_work   *a = at_work_of(w, number);
    if (a)
        htc__kv_migration_installed(a->mover, w->now, p->from + 1, number, (uint32_t)htc_get_varint(&r));
}

static void install_came(world *w, packet *p)
{
    owner     *o = &w->o[p->to];
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    uint64_t   number = htc_get_varint(&r);
    uint32_t   page = (uint32_t)htc_get_varint(&r);
    int        last = htc_get_u8(&r);
    if (!o->up)
        return;
    unsigned duties = htc__kv_bucket_state_install(&o->now.hold, number, page, last);
    if (duties & HTC__KV_BUCKET_CLEAR) {
        memset(o->now.image, 0, sizeof o->now.image);
        memset(&o->now.image_floors, 0, sizeof o->now.image_floors);
    }
    if (duties & HTC__KV_BUCKET_TAKE) {
        o->now.image_floors = get_floors(&r);
        take_entries(htc_get_raw(&r, htc_reader_left(&r)), o->now.image, &w->b);
    }
    if (duties & HTC__KV_BUCKET_STORE)
        sync_soon(w, o);
    if (!(duties & HTC__KV_BUCKET_YES))
        return;
    htc_buf_clear(&w->b);
    htc_put_varint(&w->b, number);
    htc_put_varint(&w->b, o->now.hold.pages);
    answer_when_synced(w, o, other(installed_came, o->at, OWNERS, &w->b));
}

static void send_seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    at_work *a = ctx;
    htc_buf  b;
    (void)bucket;
    htc_buf_init(&b, NULL, 0);
    htc_put_varint(&b, a->number);
    htc_put_varint(&b, epoch);
    htc_put_bytes(&b, after);
    travel(a->w, other(seal_came, OWNERS, (uint32_t)to - 1, &b), 1);
    htc_buf_free(&b);
}

static void send_install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                         const htc__kv_floors *floors, htc_bytes entries)
{
    at_work *a = ctx;
    htc_buf  b;
    (void)bucket;
    htc_buf_init(&b, NULL, 0);
    htc_put_varint(&b, number);
    htc_put_varint(&b, page);
    htc_put_u8(&b, (uint8_t)last);
    put_floors(&b, floors);
    htc_put_raw(&b, entries);
    travel(a->w, other(install_came, OWNERS, (uint32_t)to - 1, &b), 1);
    htc_buf_free(&b);
}

static void cas_came(world *w, packet *p)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->data, p->len });
    moves     *mv = w->moves;
    uint64_t   number = htc_get_varint(&r);
    int        back = htc_get_u8(&r);
    htc_status status = back ? htc__kv_map_roll_back(mv->map, number) : htc__kv_map_activate(mv->map, number);
    mv->moved += status == HTC_OK && !back;
    mv->rolled_back += status == HTC_OK && back;
    mv->lost += status != HTC_OK;
    at_work *a = at_work_of(w, number);
    if (a) {
        htc__kv_migration_destroy(a->mover);
        a->mover = NULL;
    }
    for (uint32_t i = 0; i < OWNERS && status == HTC_OK; i++)
        tell_map(w, i);
}

static void cas(world *w, uint64_t number, int back)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_varint(&b, number);
    htc_put_u8(&b, (uint8_t)back);
    post(w, other(cas_came, OWNERS, OWNERS, &b), delay(w));
    htc_buf_free(&b);
}

static void activate(void *ctx, uint64_t number)
{
    at_work *a = ctx;
    cas(a->w, number, !a->w->quiet && chance(a->w, 100));
}

static int is_in_batch(const htc__kv_map *map, htc__kv_map_move *move)
{
    return htc__kv_map_batch(map, BUCKET, move) && move->bucket == BUCKET;
}

/* The next batch, whoever is at work on it. Where the keys are not in it, nothing lies in it; and if they were in the one before, their old
 * owners go on. */
static void begin_batch(world *w, at_work *a)
{
    moves                *mv = w->moves;
    htc__kv_migration_host    host = { send_seal, send_install, activate, a };
    htc__kv_migration_options options = { .retry_ns = 30 * HTC_MS, .page_max = 1 };
    htc__kv_map_move      move;
    uint64_t              number, epoch = mv->map->bucket[BUCKET].epoch;
    mv->taken_over += is_in_batch(mv->map, &move);
    cr_assert(htc__kv_map_take(mv->map, 1 + (uint32_t)htc_rng_below(&w->rng, 4), &number) == HTC_OK);
    if (mv->map->bucket[BUCKET].epoch != epoch) {
        mv->let_go++;
        for (uint32_t i = 0; i < OWNERS; i++)
            tell_map(w, i);
    }
    if (!is_in_batch(mv->map, &move)) {
        if (chance(w, 700))
            cr_assert(htc__kv_map_activate(mv->map, number) == HTC_OK);
        return;
    }
    htc__kv_migration_destroy(a->mover); /* dead, if there was one */
    a->number = number;
    cr_assert(htc__kv_migration_create(NULL, &options, &host, &move, number, w->now, &a->mover) == HTC_OK);
}

static void begin_change(world *w)
{
    moves             *mv = w->moves;
    uint64_t           id = 1 + htc_rng_below(&w->rng, OWNERS);
    uint64_t           member = mv->map->member[htc_rng_below(&w->rng, mv->map->members)].id;
    htc__kv_map_member m = a_member(id);
    if (htc__kv_map_find(mv->map, id) && mv->map->members > 3)
        htc__kv_map_begin_leave(mv->map, member);
    else if (chance(w, 500))
        htc__kv_map_begin_join(mv->map, &m);
    else
        htc__kv_map_begin_replace(mv->map, member, &m);
}

static void tick(world *w, packet *p)
{
    moves           *mv = w->moves;
    htc__kv_map_move next;
    (void)p;
    for (int i = 0; i < 2; i++)
        if (mv->at[i].mover)
            htc__kv_migration_timeout(mv->at[i].mover, w->now);
    if (!mv->map->after && !w->quiet && chance(w, 300))
        begin_change(w);
    int idle = 1;
    for (int i = 0; i < 2; i++)
        idle &= !mv->at[i].mover || mv->at[i].number != mv->map->mover;
    for (int i = 0; i < 8 && htc__kv_map_next(mv->map, &next) && idle; i++) {
        begin_batch(w, &mv->at[htc_rng_below(&w->rng, 2)]);
        idle = !is_in_batch(mv->map, &next);
    }
    if (htc__kv_map_next(mv->map, &next) && chance(w, w->quiet ? 5 : 60))
        begin_batch(w, &mv->at[htc_rng_below(&w->rng, 2)]);
    if (chance(w, 500))
        tell_map(w, (uint32_t)htc_rng_below(&w->rng, OWNERS));
    packet *again = packet_of(OTHER, (htc_bytes){ NULL, 0 });
    again->arrive = tick;
    again->to = OWNERS;
    post(w, again, 15 * HTC_MS);
}

/* ---- */

static world *moving_world(uint64_t seed, const setting *s)
{
    world             *w = world_new(seed, s);
    moves             *mv = calloc(1, sizeof *mv);
    htc__kv_map_member m = a_member(1);
    uint64_t           number, ids[HTC_RING_OWNERS_MAX];
    w->moves = mv;
    w->serves = serves;
    w->started = restarted;
    w->whom = whom;
    cr_assert(htc__kv_map_create(NULL, 1, 4, 3, &m, 1, &mv->map) == HTC_OK);
    for (m.id = 2; m.id <= 3; m.id++) {
        cr_assert(htc__kv_map_begin_join(mv->map, &m) == HTC_OK);
        while (htc__kv_map_take(mv->map, 3, &number) == HTC_OK)
            htc__kv_map_activate(mv->map, number);
    }
    for (uint32_t i = 0, n = htc__kv_map_owners(mv->map, BUCKET, ids); i < n; i++)
        w->o[ids[i] - 1].durable.hold = htc__kv_bucket_state_first(mv->map->bucket[BUCKET].epoch, mv->map->bucket[BUCKET].image);
    for (int i = 0; i < 2; i++)
        mv->at[i] = (at_work){ .slot = i, .w = w };
    for (uint32_t i = 0; i < OWNERS; i++)
        w->o[i].w = w, w->o[i].at = i;
    tick(w, NULL);
    world_live(w);
    return w;
}

static void moving_free(world *w)
{
    moves *mv = w->moves;
    for (int i = 0; i < 2; i++)
        htc__kv_migration_destroy(mv->at[i].mover);
    htc__kv_map_destroy(mv->map);
    world_free(w);
    free(mv);
}

static setting some_setting(htc_rng *rng)
{
    return (setting){ .owners = OWNERS,
                      .proposers = OWNERS,
                      .lose = 10 + (unsigned)htc_rng_below(rng, 60),
                      .doubled = (unsigned)htc_rng_below(rng, 80),
                      .kill = (unsigned)htc_rng_below(rng, 60),
                      .collect = (unsigned)htc_rng_below(rng, 200),
                      .wipe = 500,
                      .once = htc_rng_below(rng, 2) ? 0 : (unsigned)htc_rng_below(rng, 500),
                      .number_of_requests = 50,
                      .block = 64 };
}

Test(mover, registers_stay_linearizable, .timeout = 900)
{
    unsigned moved = 0, rolled_back = 0, taken_over = 0, let_go = 0, copied = 0, lost = 0;
    PROPERTY(rng, 1000)
    {
        setting     s = some_setting(&rng);
        world      *w = moving_world(htc_rng_next(&rng), &s);
        const char *wrong = verdict(w);
        moves      *mv = w->moves;
        if (wrong)
            fprintf(stderr, "%s\n", wrong);
        HOLDS(wrong == NULL);
        moved += mv->moved;
        rolled_back += mv->rolled_back;
        taken_over += mv->taken_over;
        let_go += mv->let_go;
        copied += mv->copied;
        lost += mv->lost;
        moving_free(w);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(moved > 500 && rolled_back > 50 && taken_over > 50 && let_go > 50 && copied > 50 && lost > 10,
                  "%u moved, %u rolled back, %u taken over, %u let go, %u copied, %u lost", moved, rolled_back, taken_over,
                  let_go, copied, lost);
}

static void is_noticed(const char *rule)
{
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        htc_rng rng = { seed };
        setting s = some_setting(&rng);
        htc__broken_set(htc__broken_find(rule), 1);
        world *w = moving_world(htc_rng_next(&rng), &s);
        htc__broken_set(htc__broken_find(rule), 0);
        const char *wrong = verdict(w);
        moving_free(w);
        if (wrong && !strstr(wrong, "nobody answers")) {
            fprintf(stderr, "%s: seed %u: %s\n", rule, (unsigned)seed, wrong);
            return;
        }
    }
    cr_assert(0, "nobody notices that %s", rule);
}

#define NOTICED(rule)                                                                                                  \
    Test(mover_without, rule, .timeout = 250)                                                                          \
    {                                                                                                                  \
        is_noticed(#rule);                                                                                             \
    }

NOTICED(unsealed_read)
NOTICED(images_mixed)
NOTICED(wiped_same_name)
