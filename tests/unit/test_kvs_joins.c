/* Who asks to be let in, as of which map: what it said before it was let in, and what comes late, does not let it in again. */
#define NODES 5
#include "cluster_world.h"
#include "htcsched/kv_members.h"
#include "kvs/replica/cluster_private.h"

static const faults calm = { 0 };

static world w;

#include "moving_world.h"
#include "asked_changes.h"

#define COMER  3
#define NOBODY 4 /* is never started: at the other end of a connection that a test has opened */

/* ---------------------------------------------------------------- what it says */

typedef struct asking {
    int      joins;
    uint64_t as_of; /* of the JOIN; HTC__KV_UNSAID */
} asking;

static asking asking_in(htc_bytes message)
{
    asking     a = { .as_of = HTC__KV_UNSAID };
    uint16_t   type;
    uint64_t   id;
    uint8_t    kind;
    htc_bytes  item;
    htc_reader r = htc_wire_open(message, &type, &id);
    htc_get_u64(&r);
    htc_get_u64(&r);
    while (type == HTC_WIRE_KV_MEMBERS && htc__kv_members_next(&r, &kind, &item)) {
        if (kind == HTC__KV_ITEM_AS_OF)
            HOLDS(htc__kv_as_of_read(item, &a.as_of) == HTC_OK);
        a.joins += kind == HTC__KV_ITEM_JOIN;
    }
    return a;
}

/* Its messages that ask, each once. */
static struct late {
    size_t  len;
    uint8_t data[512];
} late[64];
static size_t lates;

static void catch_what_it_asks(void)
{
    for (const packet *p = w.packets; p; p = p->next) {
        size_t i = 0;
        if (p->from != COMER || !asking_in((htc_bytes){ p->data, p->len }).joins)
            continue;
        while (i < lates && (late[i].len != p->len || memcmp(late[i].data, p->data, p->len) != 0))
            i++;
        HOLDS(i < sizeof late / sizeof *late && p->len <= sizeof late[i].data);
        late[i].len = p->len;
        memcpy(late[i].data, p->data, p->len);
        lates = i == lates ? i + 1 : lates;
    }
}

static void until_it_is_listed(void)
{
    htc_ns until = w.now + 60 * HTC_SECOND;
    while (!listed(COMER)) {
        HOLDS(w.now < until);
        turn(&w);
        catch_what_it_asks();
    }
}

/* On a connection of its own, of which nothing else was heard. */
static void say_to(int n, htc_bytes message)
{
    htc_buf   b;
    htc_input in = { .size = sizeof in, .kind = HTC_IN_OPENED, .peer = FROM_NODE + NOBODY };
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    in.body = htc_buf_bytes(&b);
    node_input(&w, n, in);
    in.kind = HTC_IN_MESSAGE;
    htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_MEMBER, HTC_WIRE_VERSION);
    in.body = htc_buf_bytes(&b);
    node_input(&w, n, in);
    in.body = message;
    node_input(&w, n, in);
    node_input(&w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = FROM_NODE + NOBODY });
    htc_buf_free(&b);
}

/* Its JOIN as an older version has it. */
static void join_without_as_of(htc_buf *b)
{
    htc_buf item;
    htc_buf_init(&item, NULL, 0);
    htc__kv_join_write(&item, &(htc__kv_map_member){ .id = w.members[COMER].id, .weight = 1 }, 0);
    htc__kv_members_begin(b, 1, w.members[COMER].id, 0);
    htc_put_u8(b, HTC__KV_ITEM_JOIN);
    htc_put_bytes(b, htc_buf_bytes(&item));
    htc_buf_free(&item);
}

/* ---------------------------------------------------------------- tests */

/* A join is given up, and who came is told and goes. Another member, which had been asked to let it in too, let it in again. */
Test(kvs_joins, a_join_given_up_stays_so)
{
    PROPERTY(rng, 10)
    {
        open_growing(&w, rng.state, NODES, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        start(&w, COMER);
        wait_for(listed, COMER, "the beginning of a join");
        give_up_now();
        if (!listed(COMER))
            wait_for(has_left, COMER, "its end");
        run_until(&w, w.now + 5 * HTC_SECOND);
        HOLDS(listed(COMER) != has_left(COMER));
        close_world(&w);
    }
}

/* What it had said before it was let in comes late, by a connection that was slow: it was given up meanwhile, with a member to be replaced or
 * without, or has left. It was let in again, by members that were there all the time and by such as were started anew. */
Test(kvs_joins, what_comes_late_lets_nobody_in)
{
    int given_up = 0;
    PROPERTY_ALL (rng, 24)
    {
        int how = (int)(property_seed % 3), anew = (int)(property_seed / 3 % 2);
        open_growing(&w, rng.state, NODES, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        lates = 0;
        w.node[COMER].replaces = how == 1 ? w.members[0].id : 0;
        start(&w, COMER);
        until_it_is_listed();
        if (how < 2)
            give_up_now();
        wait_for(at_rest, -1, "rest");
        given_up += how < 2 && !listed(COMER);
        if (listed(COMER)) {
            w.node[COMER].outside = 0;
            HOLDS(change(HTC_KV_CHANGE_LEAVE, COMER, 0) == HTC_OK);
        }
        wait_for(has_left, COMER, "its end");
        stop(COMER);
        wait_for(at_rest, COMER, "that the others know it too");
        for (int n = 0; anew && n < 3; n++)
            if (listed(n)) {
                crash(&w, n, HTC_MS);
                run_until(&w, w.now + 3 * HTC_SECOND);
            }
        HOLDS(lates > 0);
        for (size_t i = 0; i < lates; i++)
            for (int n = 0; n < 3; n++) {
                say_to(n, (htc_bytes){ late[i].data, late[i].len });
                run_until(&w, w.now + 200 * HTC_MS);
                cr_assert(!listed(COMER), "seed %llu: it is a member again, by message %zu of %zu", (unsigned long long)property_seed, i, lates);
            }
        close_world(&w);
    }
    cr_assert(given_up);
}

/* Who was let in, and given up before it heard of it, has nothing of a member. It asks as of the map that is, which is another wish. */
Test(kvs_joins, who_has_not_heard_of_it_may_ask_anew)
{
    PROPERTY(rng, 5)
    {
        open_growing(&w, rng.state, NODES, 3, 1, calm);
        run(&w, 10, w.now + 20 * HTC_SECOND);
        start(&w, COMER);
        wait_for(listed, COMER, "the beginning of a join");
        HOLDS(cluster_of(COMER)->map == NULL);
        crash(&w, COMER, HTC_NEVER);
        give_up_now();
        wait_for(at_rest, -1, "rest");
        if (listed(COMER)) /* it was too late for that */
            HOLDS(change(HTC_KV_CHANGE_LEAVE, COMER, 0) == HTC_OK);
        wait_for(at_rest, COMER, "its end");
        start(&w, COMER);
        wait_for(listed, COMER, "the beginning of a join");
        wait_for(at_rest, -1, "rest");
        HOLDS(listed(COMER) && !has_left(COMER));
        close_world(&w);
    }
}

/* An older version does not say as of which map it asks, and is let in as ever; what it does not know is an item of its own. */
Test(kvs_joins, an_older_version_is_let_in)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    open_growing(&w, 1, NODES, 3, 1, calm);
    run(&w, 10, w.now + 20 * HTC_SECOND);
    join_without_as_of(&b);
    say_to(1, htc_buf_bytes(&b));
    wait_for(listed, COMER, "the beginning of a join");
    close_world(&w);
    htc_buf_free(&b);
}

/* What COMER is told at the other end of its connection to a member. */
static void tell_comer(uint64_t id, uint64_t as_of, htc_status why)
{
    htc_buf b, item;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&item, NULL, 0);
    htc__kv_members_begin(&b, id, w.members[0].id, w.members[COMER].id);
    if (as_of != HTC__KV_UNSAID) {
        htc__kv_as_of_write(&item, as_of);
        htc_put_u8(&b, HTC__KV_ITEM_AS_OF);
        htc_put_bytes(&b, htc_buf_bytes(&item));
        htc_buf_clear(&item);
    }
    htc_put_u32(&item, (uint32_t)why);
    htc_put_u8(&b, HTC__KV_ITEM_REFUSED);
    htc_put_bytes(&b, htc_buf_bytes(&item));
    node_input(&w, COMER, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = TO_MEMBER, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    htc_buf_free(&item);
}

/* Of what has been said since, all JOINs ask as of that; how many there are. */
static int asked_as_of(uint64_t as_of)
{
    int count = 0;
    catch_what_it_asks();
    for (size_t i = 0; i < lates; i++) {
        asking a = asking_in((htc_bytes){ late[i].data, late[i].len });
        HOLDS(a.joins == 1 && a.as_of == as_of);
        count++;
    }
    lates = 0;
    while (w.packets) {
        packet *p = w.packets;
        w.packets = p->next;
        free(p);
    }
    return count;
}

/* It asks at once as of a newer map, and of an older one it takes no notice, nor of one that cannot be. A member that says nothing of it is
 * asked as any other: it passes over what it does not know. */
Test(kvs_joins, it_asks_as_of_the_newest_map)
{
    open_growing(&w, 1, NODES, 1, 1, calm);
    lates = 0;
    start(&w, COMER);
    call(&w, COMER, 0);
    w.now += HTC_SECOND;
    node_input(&w, COMER, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    HOLDS(asked_as_of(0) == 1);
    tell_comer(1, 7, HTC_AGAIN);
    HOLDS(asked_as_of(7) == 1);
    tell_comer(2, 7, HTC_AGAIN);
    tell_comer(3, 5, HTC_AGAIN);
    tell_comer(4, HTC__KV_MAP_NUMBERS + 1, HTC_AGAIN);
    tell_comer(5, HTC__KV_UNSAID, HTC_EBUSY);
    HOLDS(asked_as_of(7) == 0);
    HOLDS(htc__kv_cluster_join_refused(w.node[COMER].server) == HTC_EBUSY); /* to be told how to ask is no reason */
    tell_comer(6, 9, HTC_EBUSY);
    HOLDS(asked_as_of(9) == 1);
    w.now += HTC_SECOND;
    node_input(&w, COMER, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    HOLDS(asked_as_of(9) == 1);
    close_world(&w);
}

/* ---------------------------------------------------------------- what is said of it */

/* As a client asks it; the value is lent. */
static htc_kv_members shown_by(int n)
{
    static const htc_kv_request q = { .size = sizeof q, .op = HTC_KV_MEMBERS };
    static const htc__kv_stamp  nobody = { .fresh = 1 };
    htc_kv_members              all = { .size = sizeof all };
    htc_kv_result               r = { .size = sizeof r };
    HOLDS(htc__kv_cluster_ask(w.node[n].server, &q, &nobody, NULL, 0, 0, &r) && r.status == HTC_OK);
    HOLDS(htc_kv_members_read(r.value, &all) == HTC_OK);
    node_input(&w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    return all;
}

/* Those of them that have the map in its newest epoch, on their disks. */
static uint32_t have_it_stored(const htc_kv_members *all)
{
    uint32_t count = 0;
    uint64_t epoch = newest(NULL)->own_epoch;
    for (uint32_t i = 0; i < all->keepers; i++)
        for (int n = 0; n < w.nodes; n++)
            count += w.members[n].id == all->keeper[i] && cluster_of(n) && cluster_of(n)->own_hold.epoch >= epoch &&
                     w.node[n].commit_at == HTC_NEVER;
    return count;
}

/* Whoever has just got it as one of the first says that it settles: those that kept it before are needed still. In the end all say that it is settled,
 * in their next lives too. */
Test(kvs_joins, the_map_is_settled_when_a_majority_has_it)
{
    int waited = 0;
    PROPERTY_ALL (rng, 8)
    {
        open_growing(&w, rng.state, 3, 2, 1, calm);
        w.commit_ns = 20 * HTC_MS;
        run_until(&w, w.now + 500 * HTC_MS);
        start(&w, 2);
        int said = 0;
        for (htc_ns until = w.now + 60 * HTC_SECOND; said < 3;) {
            HOLDS(w.now < until);
            turn(&w);
            said = 0;
            for (int n = 0; n < 3; n++) {
                uint32_t stored = 0;
                if (!cluster_of(n)->map || cluster_of(n)->map->own.n < 3)
                    continue;
                htc_kv_members all = shown_by(n);
                stored = have_it_stored(&all);
                waited += all.settles && stored < 2;
                cr_assert(all.settles || stored >= 2, "seed %llu: %d says so, and %u have it", (unsigned long long)property_seed, n, stored);
                said += !all.settles;
            }
        }
        crash(&w, 0, HTC_MS);
        run_until(&w, w.now + HTC_SECOND);
        HOLDS(shown_by(0).settles);
        run_until(&w, w.now + HTC_SECOND);
        HOLDS(!shown_by(0).settles);
        close_world(&w);
    }
    cr_expect(waited > 0, "nobody had it before the others");
}

/* ---------------------------------------------------------------- who keeps the map */

static int names_next(int n)
{
    return cluster_of(n) && cluster_of(n)->map && cluster_of(n)->map->own_next.n > 0;
}

/* Two keep the map, and name three. When the first one knows that this is so, and nobody is sealed yet, one of the two is lost: the other one
 * is of each majority of them, so the map goes on to those that are left. */
Test(kvs_joins, one_of_two_keepers_is_lost_while_the_map_moves)
{
    PROPERTY(rng, 8)
    {
        htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .key = htc_bytes_of("one") }, put = get;
        put.op = HTC_KV_PUT;
        put.value = htc_bytes_of("v");
        open_growing(&w, rng.state, 3, 2, 1, calm);
        HOLDS(ask_one(&w, 0, &put).status == HTC_OK);
        start(&w, 2);
        htc_ns until = w.now + 60 * HTC_SECOND;
        while (!names_next(0) && !names_next(1) && !names_next(2)) {
            HOLDS(w.now < until);
            turn(&w);
        }
        int victim = names_next(0) ? 1 : 0;
        HOLDS(names_next(0) + names_next(1) + names_next(2) == 1);
        HOLDS(cluster_of(0)->own_hold.sealed < cluster_of(0)->own_hold.epoch + 1 && newest(NULL)->own.n == 2);
        crash(&w, victim, HTC_NEVER);
        until = w.now + 60 * HTC_SECOND;
        while (newest(NULL)->own_next.n) {
            HOLDS(w.now < until);
            turn(&w);
        }
        HOLDS(newest(NULL)->own.n == 3);
        w.node[victim].down_until = w.now + HTC_SECOND;
        while (!has_come(NULL, 2)) {
            HOLDS(w.now < until);
            turn(&w);
        }
        for (int u = 0; u < CLIENTS; u++)
            HOLDS(ask_one(&w, u, &get).status == HTC_OK);
        close_world(&w);
    }
}
