/* Members that come and go while clients ask: whole members, as in test_kvs_cluster.c. Each seed draws who joins, leaves or is replaced,
 * and what goes wrong meanwhile; what clients were told is judged, and in the end every key is read and nothing is under way. */
#define NODES   9
#define BUCKETS 16
#include "cluster_world.h"
#include "htcsched/kv_members.h"
#include "kvs/client/client.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/wire/owners_wire.h"

static const faults calm = { 0 };
static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 300, .split = 120, .cut = 300 };

static world w;
static int   broken; /* a rule is left out: then a change may also not end */
static int   backs;  /* so many times is a leave given up on its way, before it is wished for again */
static int   went_back;

#include "moving_world.h"
#include "asked_changes.h"

/* What the newest map says of each bucket. */
typedef struct table {
    uint64_t epoch[BUCKETS], owners[BUCKETS];
} table;

static table look_up(void)
{
    const htc__kv_map *map = newest(NULL);
    table              t;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        uint64_t ids[HTC_RING_OWNERS_MAX];
        t.epoch[b] = map->bucket[b].epoch;
        t.owners[b] = 0;
        for (uint32_t i = 0, n = htc__kv_map_owners(map, b, ids); i < n; i++)
            t.owners[b] += htc_hash64((htc_bytes){ &ids[i], sizeof ids[i] }, 0); /* in any order */
    }
    return t;
}

/* Only the buckets that must move have moved. */
static void compare(const table *before)
{
    table after = look_up();
    for (uint32_t b = 0; b < BUCKETS; b++) {
        int other = before->owners[b] != after.owners[b];
        cr_assert(other == (before->epoch[b] != after.epoch[b]), "seed %llu: bucket %u was moved in vain", (unsigned long long)property_seed, b);
    }
}

/* The tables that some member has seen, one for each version. */
static struct past {
    uint64_t version, owner[BUCKETS][HTC__KV_OWNERS_KEPT];
} past[2000];
static size_t pasts;

static void remember(void)
{
    uint64_t           version;
    const htc__kv_map *map = newest(&version);
    if (!map || pasts == sizeof past / sizeof *past || (pasts && past[pasts - 1].version >= version))
        return;
    struct past *p = &past[pasts++];
    *p = (struct past){ .version = version };
    for (uint32_t b = 0; b < BUCKETS; b++) {
        uint64_t ids[HTC_RING_OWNERS_MAX];
        for (uint32_t i = 0, n = htc__kv_map_owners(map, b, ids); i < n && i < HTC__KV_OWNERS_KEPT; i++)
            p->owner[b][i] = ids[i];
    }
}

/* Whatever table a client has: with what member n tells it, it has the newest. */
static void differences_are_right(int n)
{
    remember();
    const struct past *last = &past[pasts - 1];
    for (size_t i = 0; i < pasts && cluster_of(n)->map_version == last->version; i++) {
        struct past           p = past[i];
        htc_buf               b;
        htc__kv_owners_head   head;
        htc__kv_owners_at     at;
        htc__kv_owners_member m;
        htc__kv_owners_bucket bucket;
        uint64_t              ids[NODES], id;
        uint16_t              type;
        htc_buf_init(&b, NULL, 0);
        HOLDS(htc__kv_cluster_tell_owners(w.node[n].server, 1, p.version + 1, &b) == HTC_OK);
        htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
        HOLDS(htc__kv_owners_check(r) == HTC_OK);
        htc__kv_owners_read(r, &head, &at);
        HOLDS(head.have == last->version + 1 && head.members <= NODES);
        for (size_t j = 0; j < head.members; j++) {
            htc__kv_owners_member_read(&at, &m);
            ids[j] = m.id;
        }
        while (htc__kv_owners_bucket_read(&at, &bucket))
            for (uint32_t j = 0; j < HTC__KV_OWNERS_KEPT; j++)
                p.owner[bucket.number][j] = j < bucket.n ? ids[bucket.member[j]] : 0;
        HOLDS(memcmp(p.owner, last->owner, sizeof p.owner) == 0);
        htc_buf_free(&b);
    }
}

/* Users ask all the while, at most so many more; until the change is over. */
static void carry_through(const htc__kv_change_request *wish, int comes, int asks)
{
    htc_ns until = w.now + (broken ? 20 : 300) * HTC_SECOND, told = 0;
    table  before;
    while (!newest(NULL))
        turn(&w);
    before = look_up();
    int    asked = w.asked + asks;
    if (comes >= 0 && wish == NULL && !w.node[comes].server)
        start(&w, comes);
    while (!has_come(wish, comes)) {
        if (w.now >= until && broken)
            return;
        cr_assert(w.now < until, "seed %llu: a change does not end", (unsigned long long)property_seed);
        if (wish && w.now >= told) {
            told = w.now + HTC_SECOND;
            tell(wish);
        }
        went_back |= moving() && newest(NULL)->back;
        if (backs && moving() && !newest(NULL)->back && chance(&w, 1, 100)) {
            backs--;
            tell(&(htc__kv_change_request){ .kind = HTC__KV_BACK });
        }
        for (int u = 0; u < CLIENTS; u++)
            if (!w.user[u].pending && w.asked < asked && chance(&w, 1, moving() ? 4 : 400))
                ask(&w, u);
        remember();
        turn(&w);
    }
    for (int n = 0; n < w.nodes; n++)
        w.node[n].outside = !listed(n);
    compare(&before);
}

static void join(int n, int asks)
{
    carry_through(NULL, n, asks);
}

static void leave(int n, int asks)
{
    htc__kv_change_request wish = { .kind = HTC__KV_LEAVE, .id = w.members[n].id };
    carry_through(&wish, -1, asks);
}

static void replace(int n, int by, int asks)
{
    w.node[by].replaces = w.members[n].id;
    carry_through(NULL, by, asks);
}

/* Nothing is left to do: every owner serves every bucket, and nobody else has any key. */
static void all_at_rest(void)
{
    run_until(&w, w.now + 5 * HTC_SECOND);
    for (int n = 0; n < w.nodes; n++) {
        htc__kv_cluster *c = cluster_of(n);
        if (!c || !listed(n))
            continue;
        for (uint32_t b = 0; b < c->buckets; b++)
            if (htc__kv_route_has(c, b, c->id))
                cr_assert(htc__kv_cluster_serves(w.node[n].server, b, c->route[b].epoch),
                          "seed %llu: member %d does not serve bucket %u", (unsigned long long)property_seed, n, b);
    }
}

static void every_key_can_be_read(void)
{
    for (int u = 0; u < CLIENTS; u++)
        for (int k = 0; k < KEYS; k++) {
            htc_status status =
                ask_one(&w, u, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = name_of(&w, w.key[k]) }).status;
            HOLDS(status == HTC_OK || status == HTC_ENOTFOUND);
        }
}

/* What a member says when it is asked is what the map is. */
static void all_are_shown(void)
{
    const htc__kv_map  *map = newest(NULL);
    htc_kv_members      all = { .size = sizeof all };
    htc_kv_member_shown m = { .size = sizeof m };
    htc_kv_bucket_shown b = { .size = sizeof b };
    uint32_t            count = 0, owned = 0, first = 0, n = 0;
    uint64_t            ids[HTC_RING_OWNERS_MAX], last = 0;
    htc_kv_result       r = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_MEMBERS, .limit = 1 });
    HOLDS(r.status == HTC_OK && htc_kv_members_read(r.value, &all) == HTC_OK);
    HOLDS(all.buckets == BUCKETS && all.change == HTC_KV_CHANGE_NONE && all.to_move == 0 && all.epoch == map->numbers);
    HOLDS(all.count == map->members && all.copies == (map->members < 3 ? map->members : 3) && all.keepers == map->own.n);
    for (size_t at = 0; htc_kv_members_next(&all, &at, &m) == HTC_OK; last = m.id) {
        HOLDS(m.id > last && htc__kv_map_find(map, m.id) && m.state == HTC_KV_MEMBER_IN && m.owned == m.planned);
        count++;
        owned += m.owned;
        first += m.first;
    }
    HOLDS(count == all.count && first == BUCKETS && owned == BUCKETS * all.copies);
    for (size_t at = 0; htc_kv_members_bucket(&all, &at, &b) == HTC_OK; n++) {
        HOLDS(b.owners == htc__kv_map_owners(map, n, ids) && b.epoch == map->bucket[n].epoch);
        HOLDS(memcmp(ids, b.owner, b.owners * sizeof *ids) == 0);
    }
    HOLDS(n == BUCKETS);
}

/* A client that asks has learned, by differences or whole tables, what the newest map says. */
static void clients_know(void)
{
    uint64_t           version;
    const htc__kv_map *map = newest(&version);
    for (int u = 0; w.direct && u < CLIENTS; u++)
        htc__kv_owners_wanted(w.user[u].client, w.now);
    run_until(&w, w.now + 3 * HTC_SECOND);
    for (int u = 0; w.direct && u < CLIENTS; u++) {
        const htc__kv_owners_known *o = &w.user[u].client->owners;
        HOLDS(o->have == version + 1);
        for (uint32_t b = 0; b < BUCKETS; b++) {
            uint64_t ids[HTC_RING_OWNERS_MAX];
            uint32_t n = htc__kv_map_owners(map, b, ids);
            for (uint32_t i = 0; i < HTC__KV_OWNERS_KEPT; i++)
                HOLDS(i < n ? o->owner[b][i] && o->at[o->owner[b][i] - 1].id == ids[i] : o->owner[b][i] == 0);
        }
    }
}

static uint64_t handed_on(void)
{
    uint64_t all = 0;
    for (int n = 0; n < w.nodes; n++)
        all += cluster_of(n) ? cluster_of(n)->counts.forwarded : 0;
    return all;
}

/* Whoever was handed on has been told, and asks the owners of now: not those of before. */
static void nothing_is_handed_on(void)
{
    for (int i = 0; i < 4; i++) {
        every_key_can_be_read();
        run_until(&w, w.now + HTC_SECOND); /* so long a client may wait that has asked in vain */
    }
    uint64_t before = handed_on();
    every_key_can_be_read();
    HOLDS(w.direct == 0 || handed_on() == before);
}

/* Clients that know who has which key ask nobody else: members hand nothing on any more, but for scans' reads. */
Test(kvs_moves, owners_are_asked_themselves)
{
    PROPERTY(rng, 20)
    {
        open_world(&w, rng.state, 5, calm);
        run(&w, 100, w.now + 20 * HTC_SECOND);
        uint64_t before = handed_on();
        for (int i = 0; i < 60; i++) {
            htc_kv_request q = { .size = sizeof q, .op = i % 3 ? HTC_KV_GET : HTC_KV_PUT, .key = name_of(&w, w.key[1 + i % 2]), .value = htc_bytes_of("v") };
            htc_status     status = ask_one(&w, i % CLIENTS, &q).status;
            HOLDS(status == HTC_OK || status == HTC_ENOTFOUND);
        }
        HOLDS(w.direct ? handed_on() == before : handed_on() > before);
        close_world(&w);
    }
}

/* One becomes three becomes five and three again, the first three are replaced one by one, and all is answered. */
Test(kvs_moves, a_store_grows_and_shrinks)
{
    PROPERTY(rng, 6)
    {
        open_growing(&w, rng.state, 8, 1, 1, calm);
        pasts = 0;
        run(&w, 20, w.now + 20 * HTC_SECOND);
        join(1, 30);
        join(2, 30);
        HOLDS(members() == 3 && newest(NULL)->own.n == 3);
        all_are_shown();
        clients_know();
        join(3, 30);
        join(4, 30);
        HOLDS(members() == 5);
        all_are_shown();
        differences_are_right(0);
        nothing_is_handed_on();
        clients_know();
        leave(3, 30);
        stop(3);
        leave(0, 30);
        stop(0);
        HOLDS(members() == 3);
        replace(1, 5, 30);
        stop(1);
        replace(2, 6, 30);
        stop(2);
        replace(4, 7, 30);
        stop(4);
        HOLDS(members() == 3 && newest(NULL)->own.n == 3);
        run(&w, w.asked + 20, w.now + 20 * HTC_SECOND);
        /* What was on its way to one that was stopped may not be known. */
        cr_expect(w.answered == w.asked && w.done + 5 >= w.answered, "seed %llu: %d asked, %d answered, %d known",
                  (unsigned long long)property_seed, w.asked, w.answered, w.done);
        all_at_rest();
        differences_are_right(5);
        nothing_is_handed_on();
        clients_know();
        judge(&w);
        close_world(&w);
    }
}

/* An owner that knows another map hands a request over to whoever does not own its key by its own: that one waits for what the map is, and
 * asks whoever owns it. It had said that the request is not possible. */
Test(kvs_moves, what_is_handed_to_the_wrong_member_waits)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    PROPERTY(rng, 10)
    {
        open_growing(&w, 4 * rng.state, 8, 4, 1, calm);
        HOLDS(w.direct == 0); /* any member is asked, not the owner */
        run(&w, 20, w.now + 20 * HTC_SECOND);
        while (w.user[0].pending || w.user[0].store < 0)
            turn(&w);
        htc__kv_cluster *c = cluster_of(w.user[0].store);
        char             name[16] = "";
        for (int i = 0; !name[0] || htc__kv_route_has(c, htc__kv_cluster_bucket(c, htc_bytes_of(name)), c->id); i++)
            snprintf(name, sizeof name, "x%d", i);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name), .value = htc_bytes_of("here") };
        htc_kv_result  result = { .size = sizeof result };
        uint64_t       before = c->last_tag;
        w.user[0].by_hand = 1;
        HOLDS(htc_kv_client_submit(w.user[0].client, w.now, &q, 1, 7, w.out) == HTC_OK);
        carry_out(&w, NODES);
        for (int turns = 0; c->last_tag == before; turns++) {
            HOLDS(turns < 100000);
            turn(&w);
        }
        htc__kv_forwarded wrong = { .tag = c->last_tag, .to = c->id };
        htc_buf_clear(&b);
        htc__kv_forwarded_write(&b, &wrong);
        for (uint32_t i = 0; i < c->count; i++) /* from the one that has it; no other is believed */
            if (c->peers[i].id != c->id)
                htc__kv_components_hear(w.node[w.user[0].store].server, c->peers[i].id, HTC__KV_ITEM_ANSWER, htc_buf_bytes(&b));
        for (int turns = 0; !htc_kv_client_next(w.user[0].client, &result); turns++) {
            HOLDS(turns < 100000);
            turn(&w);
        }
        HOLDS(result.status == HTC_OK);
        w.user[0].by_hand = 0;
        close_world(&w);
    }
    htc_buf_free(&b);
}

/* Some change that is possible now, of members that are alive; through whatever goes wrong. */
static void some_change(int *fresh, int asks)
{
    while (!newest(NULL)) /* all of them are down */
        turn(&w);
    int n, count = members();
    do
        n = (int)htc_rng_below(&w.rng, (uint64_t)w.nodes);
    while (!listed(n));
    int may_come = *fresh < w.nodes;
    if (may_come && (count < 3 || chance(&w, 1, 2))) {
        join((*fresh)++, asks);
    } else if (may_come && chance(&w, 1, 2)) {
        replace(n, (*fresh)++, asks);
        stop(n);
    } else if (count > 3) {
        leave(n, asks);
        stop(n);
    }
}

/* Loss, crashes, power failures and partitions while members join, leave and are replaced. */
static void go_through(uint64_t seed, faults f, int changes)
{
    int first = seed % 4 == 0 ? 1 : 3, fresh = first;
    open_growing(&w, seed, NODES, first, 1, f);
    run(&w, 10, w.now + 10 * HTC_SECOND);
    for (int i = 0; i < changes; i++)
        some_change(&fresh, 20);
}

Test(kvs_moves, every_history_is_linearizable)
{
    PROPERTY(rng, 60)
    {
        go_through(rng.state, bad, 3);
        w.no_faults = 1;
        run(&w, w.asked + 10, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == w.asked);
        all_at_rest();
        every_key_can_be_read();
        clients_know();
        judge(&w);
        close_world(&w);
    }
}

static int waits_in_vain(int n)
{
    return cluster_of(n)->moving && htc__kv_cluster_join_refused(w.node[n].server) == HTC_ENOTFOUND;
}

/* Who has left says so, once; who was replaced while it was away too, though the others do not know it any more; who wants to be in the
 * place of nobody is told. */
Test(kvs_moves, who_is_no_member_is_told)
{
    PROPERTY(rng, 10)
    {
        open_growing(&w, rng.state, 8, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        crash(&w, 1, HTC_NEVER);
        w.node[1].outside = 1;
        replace(1, 3, 10);
        for (int n = 0; n < 4; n++) /* the next lives have heard of members alone */
            if (n != 1) {
                crash(&w, n, HTC_MS);
                run_until(&w, w.now + 3 * HTC_SECOND);
            }
        HOLDS(0 == has_left(0) + has_left(2) + has_left(3));
        start(&w, 1);
        wait_for(has_left, 1, "its end");
        HOLDS(0 == listed(1));
        stop(1);
        leave(2, 10);
        wait_for(has_left, 2, "its end");
        w.node[4].replaces = w.members[1].id;
        start(&w, 4);
        wait_for(waits_in_vain, 4, "a reason");
        run_until(&w, w.now + 3 * HTC_SECOND);
        HOLDS(members() == 2 && w.node[1].left == 1 && w.node[2].left == 1 && has_left(0) + has_left(3) + has_left(4) == 0);
        judge(&w);
        close_world(&w);
    }
}

static uint32_t share_of(int n)
{
    htc_ring_share share = { 0 };
    const htc_ring *ring = newest(NULL)->before;
    htc_ring_share_at(ring, htc_ring_seat(ring, w.members[n].id), &share);
    return share.total;
}

/* As many buckets a minute as somebody wished for, and no more; the wish may come while they move. */
Test(kvs_moves, buckets_move_no_faster_than_they_may)
{
    PROPERTY(rng, 6)
    {
        int during = (int)(property_seed & 1);
        open_growing(&w, rng.state, 8, 4, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        if (!during)
            HOLDS(change(HTC_KV_CHANGE_RATE, -1, 30) == HTC_OK);
        htc_ns began = w.now;
        HOLDS(change(HTC_KV_CHANGE_WEIGHT, 3, 9) == HTC_OK);
        if (during) {
            htc_status status;
            while ((status = change(HTC_KV_CHANGE_RATE, -1, 30)) == HTC_EBUSY)
                run_until(&w, w.now + HTC_MS);
            HOLDS(status == HTC_OK);
        }
        uint32_t moved = 0, of = 0;
        if (moving())
            htc__kv_map_progress(newest(NULL), &moved, &of);
        uint32_t left = of - moved;
        wait_for(at_rest, -1, "rest");
        /* Two seconds behind each but the last; in the meantime the first batch may have been more than one. */
        HOLDS(left < 3 || w.now - began >= (left - 2) * 2 * HTC_SECOND);
        HOLDS(w.now - began <= (left + 4) * 4 * HTC_SECOND);
        HOLDS(newest(NULL)->rate == 30 && change(HTC_KV_CHANGE_RATE, -1, 30) == HTC_OK && change(HTC_KV_CHANGE_RATE, -1, 0) == HTC_OK);
        run_until(&w, w.now + HTC_SECOND);
        HOLDS(newest(NULL)->rate == 0);
        judge(&w);
        close_world(&w);
    }
}

/* Who moves the map itself goes on with what is left: nobody waits as long as for a mover that may have stopped. */
Test(kvs_moves, nothing_stalls_where_nothing_fails)
{
    PROPERTY(rng, 20)
    {
        open_growing(&w, rng.state, 5, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        for (int left = 2; left > 0; left--) {
            htc_ns began = w.now;
            leave(left, 0);
            HOLDS(w.now - began < 80 * HTC_MS); /* the least that one waits who would take over: twice suspect_ns */
            stop(left);
        }
        judge(&w);
        close_world(&w);
    }
}

/* What clients ask for: each kind of change, and each refusal. */
Test(kvs_moves, a_client_changes_the_members)
{
    PROPERTY(rng, 10)
    {
        open_growing(&w, rng.state, 8, 4, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        HOLDS(change(HTC_KV_CHANGE_LEAVE, 7, 0) == HTC_ENOTFOUND && change(HTC_KV_CHANGE_WEIGHT, 6, 3) == HTC_ENOTFOUND);
        HOLDS(change(HTC_KV_CHANGE_BACK, -1, 0) == HTC_ENOTFOUND);
        uint32_t before = share_of(3);
        HOLDS(change(HTC_KV_CHANGE_WEIGHT, 3, 1) == HTC_OK); /* it has that */
        wait_for(at_rest, -1, "rest");
        HOLDS(share_of(3) == before && change(HTC_KV_CHANGE_WEIGHT, 3, 3) == HTC_OK);
        wait_for(at_rest, -1, "rest");
        HOLDS(share_of(3) > before && htc__kv_map_find(newest(NULL), w.members[3].id)->weight == 3);
        HOLDS(change(HTC_KV_CHANGE_LEAVE, 0, 0) == HTC_OK);
        if (moving()) { /* again is the same, another one is refused */
            HOLDS(change(HTC_KV_CHANGE_LEAVE, 0, 0) == HTC_OK || !listed(0));
            htc_status other = change(HTC_KV_CHANGE_LEAVE, 1, 0);
            HOLDS(other == HTC_EBUSY || (other == HTC_OK && !listed(0)));
        }
        wait_for(at_rest, 0, "the end of a leave");
        w.node[0].outside = 1;
        run(&w, w.asked + 10, w.now + 20 * HTC_SECOND);
        wait_for(at_rest, 0, "rest");
        for (int n = 1; members() > 1; n++)
            if (listed(n)) {
                htc_status status;
                while ((status = change(HTC_KV_CHANGE_LEAVE, n, 0)) == HTC_EBUSY)
                    run_until(&w, w.now + 10 * HTC_MS);
                HOLDS(status == HTC_OK);
                wait_for(at_rest, n, "the end of a leave");
                w.node[n].outside = 1;
            }
        for (int n = 0; n < 4; n++)
            if (listed(n))
                HOLDS(change(HTC_KV_CHANGE_LEAVE, n, 0) == HTC_EINVAL && has_left(n) == 0);
        run(&w, w.asked + 10, w.now + 20 * HTC_SECOND);
        every_key_can_be_read();
        judge(&w);
        close_world(&w);
    }
}

/* Who has replaced one is let go at once, while others would have it keep the map. */
Test(kvs_moves, who_came_goes_again)
{
    PROPERTY(rng, 20)
    {
        open_growing(&w, rng.state, 8, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        replace(0, 3, 10);
        stop(0);
        run_until(&w, w.now + htc_rng_below(&rng, 3) * HTC_MS);
        htc_ns     asked = w.now;
        htc_status status;
        while ((status = change(HTC_KV_CHANGE_LEAVE, 3, 0)) == HTC_EBUSY)
            run_until(&w, w.now + HTC_MS);
        HOLDS(status == HTC_OK);
        wait_for(at_rest, 3, "the end of a leave");
        cr_assert(w.now - asked < HTC_SECOND, "seed %llu: it took %llu ms", (unsigned long long)property_seed,
                  (unsigned long long)((w.now - asked) / HTC_MS));
        w.node[3].outside = 1;
        run(&w, w.asked + 10, w.now + 20 * HTC_SECOND);
        every_key_can_be_read();
        judge(&w);
        close_world(&w);
    }
}

/* A change is given up: one that could not end, since who joins has died; one in the middle, under way while clients ask. What has moved goes
 * back, and all is as it was. */
Test(kvs_moves, a_change_is_given_up)
{
    PROPERTY(rng, 12)
    {
        int first = 1 + (int)htc_rng_below(&rng, 3), dies = htc_rng_below(&rng, 2) == 0;
        open_growing(&w, rng.state, 8, first, 1, calm);
        run(&w, 20, w.now + 20 * HTC_SECOND);
        while (!newest(NULL))
            turn(&w);
        table before = look_up();
        start(&w, first);
        wait_for(listed, first, "the beginning of a join");
        uint32_t moved = 0, of = 0, enough = (uint32_t)htc_rng_below(&rng, 6);
        while (moving() && moved < enough) {
            turn(&w);
            if (moving())
                htc__kv_map_progress(newest(NULL), &moved, &of);
        }
        if (dies && moving() && (first > 1 || moved == 0)) /* of one that is alone what has moved needs both */
            stop(first);
        if (moving()) {
            htc_status status; /* busy: whoever is asked has just tried to let the new one in, too */
            while ((status = change(HTC_KV_CHANGE_BACK, -1, 0)) == HTC_EBUSY)
                run_until(&w, w.now + HTC_MS);
            cr_assert(status == HTC_OK || (status == HTC_ENOTFOUND && !moving()), "seed %llu: given up: %s, first %d, moved %u", (unsigned long long)property_seed, htc_status_name(status), first, moved);
            wait_for(at_rest, -1, "rest");
        }
        if (!listed(first)) {
            table after = look_up();
            for (uint32_t b = 0; b < BUCKETS; b++)
                cr_assert(before.owners[b] == after.owners[b], "seed %llu: bucket %u is elsewhere", (unsigned long long)property_seed, b);
            w.node[first].outside = 1;
        }
        run(&w, w.asked + 20, w.now + 20 * HTC_SECOND);
        HOLDS(w.answered == w.asked);
        wait_for(at_rest, -1, "rest");
        all_at_rest();
        every_key_can_be_read();
        judge(&w);
        close_world(&w);
    }
}

/* The same through loss, crashes, power failures and partitions. */
Test(kvs_moves, given_up_through_faults)
{
    PROPERTY(rng, 30)
    {
        open_growing(&w, rng.state, 5, 5, 1, bad);
        run(&w, 10, w.now + 10 * HTC_SECOND);
        for (int n = 0; n < 2; n++) {
            backs = 3;
            leave(n, 20);
            backs = 0;
            stop(n);
        }
        w.no_faults = 1;
        run(&w, w.asked + 10, w.now + 60 * HTC_SECOND);
        HOLDS(w.answered == w.asked);
        all_at_rest();
        every_key_can_be_read();
        judge(&w);
        close_world(&w);
    }
    cr_assert(went_back);
}

/* Who keeps the map is a member, and there are so many of them, now and next. */
static void map_is_kept_by(uint32_t least)
{
    const htc__kv_map *map = newest(NULL);
    for (uint32_t i = 0; i < map->own.n; i++)
        HOLDS(htc__kv_map_find(map, map->own.id[i]) != NULL);
    HOLDS(map->own.n >= least && (map->own_next.n == 0 || map->own_next.n >= least));
}

/* The only member is replaced, and in every second store that is given up on its way: the map stays with who stays, so that others can join.
 * It was left to the one that had gone. */
Test(kvs_moves, the_only_member_is_replaced)
{
    PROPERTY(rng, 20)
    {
        int back = (int)(property_seed & 1);
        open_growing(&w, rng.state, 5, 1, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        w.node[1].replaces = w.members[0].id;
        start(&w, 1);
        wait_for(listed, 1, "the beginning of a replacement");
        run_until(&w, w.now + htc_rng_below(&rng, 8 * HTC_MS));
        if (back)
            give_up_now();
        wait_for(at_rest, -1, "rest");
        map_is_kept_by(1);
        w.node[1].outside = 0;
        for (int n = 1; n >= 0; n--)
            if (!listed(n))
                stop(n);
        HOLDS(members() == 1);
        join(2, 20);
        join(3, 20);
        map_is_kept_by(3);
        run(&w, w.asked + 10, w.now + 20 * HTC_SECOND);
        every_key_can_be_read();
        judge(&w);
        close_world(&w);
    }
}

/* One of three is replaced: all the while three keep the map, so that one of them may be lost. Two of them did, until the third had come. */
Test(kvs_moves, a_replacement_spares_the_map)
{
    PROPERTY(rng, 10)
    {
        int goes = (int)htc_rng_below(&rng, 3);
        open_growing(&w, rng.state, 5, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        w.node[3].replaces = w.members[goes].id;
        start(&w, 3);
        for (htc_ns until = w.now + 20 * HTC_SECOND; w.now < until && !(listed(3) && at_rest(goes));) {
            turn(&w);
            map_is_kept_by(3);
        }
        HOLDS(listed(3) && at_rest(goes));
        close_world(&w);
    }
}

/* Buckets of many pages, whose last keys are all of one length. The third page of one was refused, again and again. */
Test(kvs_moves, buckets_of_many_pages_move)
{
    static char value[30000];
    memset(value, 'v', sizeof value);
    open_growing(&w, 1, 5, 3, 1, calm);
    for (int i = 0; i < 160; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%04d", i);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name), .value = { value, sizeof value } };
        HOLDS(ask_one(&w, 0, &q).status == HTC_OK);
    }
    join(3, 0);
    leave(0, 0);
    for (int i = 0; i < 160; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%04d", i);
        htc_kv_result r = ask_one(&w, 1, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(name) });
        HOLDS(r.status == HTC_OK && r.value.len == sizeof value);
    }
    close_world(&w);
}

/* Every key that is there before a change and after it is shown once by every scan meanwhile. */
Test(kvs_moves, a_scan_shows_every_key_once)
{
    enum { KEPT = 200 };
    PROPERTY(rng, 3)
    {
        static uint8_t there[KEPT];
        int            fresh = 3;
        open_growing(&w, rng.state, NODES, 3, 1, calm);
        for (int i = 0; i < KEPT; i++) {
            char name[16];
            snprintf(name, sizeof name, "k%04d", i);
            there[i] = 1;
            htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name), .value = htc_bytes_of(name) };
            HOLDS(ask_until_known(&w, 0, &q) == HTC_OK);
        }
        for (int i = 0; i < 4; i++) {
            start(&w, fresh++);
            for (int scans = 0; scans < 4; scans++) {
                scan_all(&w, (int)htc_rng_below(&rng, CLIENTS), 1 + (uint32_t)htc_rng_below(&rng, 50), there, KEPT);
                run_until(&w, w.now + 3 * HTC_MS);
            }
            join(fresh - 1, 0);
        }
        leave(1, 0);
        stop(1);
        scan_all(&w, 0, 100, there, KEPT);
        close_world(&w);
    }
}

/* One page of a scan by user 1; how long it took. */
static htc_ns one_page(char *cursor, size_t *len, uint32_t *items)
{
    htc_ns         began = w.now;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = 20, .key = htc_bytes_of("k"), .cursor = { cursor, *len } };
    htc_kv_result  r = ask_one(&w, 1, &q);
    cr_assert(r.status == HTC_OK, "seed %llu: a page ends with %s", (unsigned long long)property_seed, htc_status_name(r.status));
    memcpy(cursor, r.cursor.len ? r.cursor.data : "", r.cursor.len);
    *len = r.cursor.len;
    *items += r.items;
    return w.now - began;
}

static void put_numbered(int keys)
{
    char name[16];
    for (int i = 0; i < keys; i++) {
        snprintf(name, sizeof name, "k%04d", i);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(name), .value = htc_bytes_of(name) };
        HOLDS(ask_until_known(&w, 0, &q) == HTC_OK);
    }
}

static void delete_numbered(int from, int to)
{
    char name[16];
    for (int i = from; i < to; i++) {
        snprintf(name, sizeof name, "k%04d", i);
        HOLDS(ask_until_known(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc_bytes_of(name) }) == HTC_OK);
    }
}

/* Buckets move all the while, one change behind the other, and slowly. A page waits for some that are sealed, and not for the end of a change:
 * many pages are shown during each. Every key is shown once, none that was deleted. */
Test(kvs_moves, a_scan_goes_on_while_buckets_move)
{
    enum { KEPT = 200, SCANS = 3, DELETED = 10 };
    PROPERTY(rng, 4)
    {
        int pages = 0, changes = 0;
        bucket_bits = 8;
        open_growing(&w, rng.state, 8, 6, 1, calm);
        bucket_bits = 4;
        put_numbered(KEPT);
        w.commit_ns = 30 * HTC_MS;
        for (int scans = 0; scans < SCANS; scans++) {
            char     cursor[HTC_KV_KEY_MAX];
            size_t   len = 0;
            uint32_t items = 0;
            do {
                if (!moving())
                    changes += change(HTC_KV_CHANGE_WEIGHT, 3, changes % 2 ? 1 : 9) == HTC_OK;
                cr_assert(one_page(cursor, &len, &items) < 1500 * HTC_MS, "seed %llu", (unsigned long long)property_seed);
                pages++;
            } while (len);
            HOLDS(items == (uint32_t)(KEPT - scans * DELETED));
            delete_numbered(scans * DELETED, (scans + 1) * DELETED);
        }
        cr_assert(2 * changes < pages, "seed %llu: %d pages during %d changes", (unsigned long long)property_seed, pages, changes);
        close_world(&w);
    }
}

/* A test that cannot fail proves nothing: with one rule left out, the checkers have to notice within 1500 seeds. */
static int noticed(uint64_t seed)
{
    htc_history_verdict linear, rising;
    property_seed = seed;
    go_through(seed, bad, 2);
    HOLDS(htc_history_linear(w.history, NULL, &linear) == HTC_OK);
    HOLDS(htc_history_rising(w.history, NULL, &rising) == HTC_OK);
    close_world(&w);
    return linear.answer == HTC_HISTORY_BROKEN || rising.answer == HTC_HISTORY_BROKEN;
}

Test(kvs_moves, a_broken_rule_is_noticed)
{
    static const char *const rules[] = { "unsealed_read", "images_mixed" };
    broken = 1;
    for (size_t i = 0; i < mistakes_of(sizeof rules / sizeof *rules); i++) {
        uint64_t seed = 1;
        htc__broken_set(htc__broken_find(rules[i]), 1);
        while (seed <= 1500 && !noticed(seed))
            seed++;
        htc__broken_set(htc__broken_find(rules[i]), 0);
        cr_assert(seed <= 1500, "%s was not noticed", rules[i]);
        if (getenv("HTC_TEST_TRACE"))
            fprintf(stderr, "%s: noticed at seed %llu\n", rules[i], (unsigned long long)seed);
    }
}
