/* Several members of one store in one program: what carries their messages and loses, doubles, delays and reorders them, their disks and
 * crashes, the groups that cannot hear each other, and the users whose answers become a history. */
#ifndef HTC_TESTS_CLUSTER_WORLD_H
#define HTC_TESTS_CLUSTER_WORLD_H

#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/history.h"
#include "htcsched/keyring.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/server/server.h"
#include "narrow_cells.h"
#include "property.h"

#ifndef NODES
#define NODES 5
#endif
#define CLIENTS   3
#define KEYS      3
#define TO_MEMBER 100u  /* + node: the number of a member's connection to another */
#define FROM_NODE 1000u /* + node: of the other end of it */
#define FROM_USER 2000u /* + client; + CLIENTS: of its connections to the owners of keys */
#define STORE     1u    /* a client's number of its connection */
#define OWNER     10u   /* its number of the first of those to owners */
#define CALLERS   (NODES + 2 * CLIENTS)

typedef struct packet {
    struct packet *next;
    htc_ns         at;
    int            from, to; /* nodes; clients count from NODES */
    unsigned       link;     /* of the pair */
    size_t         len;
    uint8_t        data[];
} packet;

typedef struct node {
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_buf        commit;
    uint64_t       commit_tag;
    htc_ns         commit_at, down_until;
    uint8_t        knows[NODES]; /* whom it keeps a connection to */
    uint64_t       replaces;
    int            outside;      /* not let in yet, or gone for good: nobody asks it */
    int            left;         /* it has said that it is no member any more */
    htc_ns         due;          /* its server's deadline, unless that was stepped since */
    int            stepped;
} node;

typedef struct user {
    htc_kv_client *client;
    int            store;            /* the node it is connected to; -1 */
    htc_ns         again;            /* when it connects */
    size_t         asked;            /* in the history */
    size_t         shown[KEYS];      /* of a scan: a get of each key */
    char           behind[8];        /* its cursor */
    int            pending, by_hand; /* by_hand: its answers are ask_one's */
    int            called[NODES];    /* whom it called by each number from OWNER on; -1 */
    htc_ns         due;              /* as of a node */
    int            stepped;
} user;

typedef struct faults {
    unsigned lose, doubled, late; /* in 1000 */
    unsigned crash, split, cut;   /* in 100000 turns */
} faults;

typedef struct world {
    htc_rng       rng;
    htc_env       env;
    faults        f;
    htc_ns        now;
    int           nodes, first; /* first: so many are members from the beginning */
    node          node[NODES];
    user          user[CLIENTS];
    htc_kv_member members[NODES];
    unsigned      link[CALLERS][NODES]; /* a number of the connection from the first to the second; 0: none */
    unsigned      links;
    htc_ns        arrives[CALLERS][CALLERS]; /* the newest that is on its way */
    uint8_t       apart[NODES][NODES];
    htc_ns        heal_at;
    packet       *packets;
    htc_output   *out;
    htc_history  *history;
    uint32_t      key[KEYS];
    int           asked, answered, done; /* done: with something to tell */
    int           no_faults, slow_disks;
    int           direct; /* clients ask the owners of keys themselves */
    htc_ns        commit_ns; /* until a batch is stored, at least */
    uint32_t      tombstones; /* remembered one by one */
    uint32_t      watch_marks_max;
    size_t        memory_max;
    int           narrow; /* batches hold little */
    /* Eventual namespaces, the same for all. */
    htc_kv_namespace spaces[2];
    uint32_t         space_count, hints_max;
    htc_ns           compare_ns, deleted_ns;
} world;

/* Members compare what they hold so often, where a world says nothing itself: 0: as they do. */
static htc_ns compared_after;
/* 1: members and clients of the next worlds have the times that they take where nobody says any, else shorter ones. */
static int default_times;
/* Of the number of buckets of the next worlds. */
static uint32_t bucket_bits = 4;

static int chance(world *w, unsigned of, unsigned base)
{
    return htc_rng_below(&w->rng, base) < of;
}

/* ---------------------------------------------------------------- what carries messages */

static void post(world *w, int from, int to, unsigned link, htc_bytes body, htc_ns delay)
{
    packet *p = malloc(sizeof *p + body.len), **at = &w->packets;
    *p = (packet){ .at = w->now + delay, .from = from, .to = to, .link = link, .len = body.len };
    memcpy(p->data, body.data, body.len);
    while (*at && (*at)->at <= p->at)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static int is_greeting(htc_bytes body)
{
    uint16_t type;
    uint64_t id;
    htc_wire_open(body, &type, &id);
    return type == HTC_WIRE_HELLO;
}

static void travel(world *w, int from, int to, unsigned link, htc_bytes body)
{
    if (!link)
        return;
    if (is_greeting(body)) { /* the first on its connection, and there before anything else */
        post(w, from, to, link, body, 0);
        return;
    }
    if (chance(w, w->no_faults ? 0 : w->f.lose, 1000))
        return;
    for (int copies = 1 + chance(w, w->f.doubled, 1000); copies--;) {
        htc_ns delay = 50 * HTC_US + htc_rng_below(&w->rng, 500 * HTC_US);
        if (!w->f.late) { /* in order, as TCP would have it */
            htc_ns *last = &w->arrives[from][to];
            *last = w->now + delay > *last ? w->now + delay : *last;
            delay = *last - w->now;
        }
        post(w, from, to, link, body, chance(w, w->f.late, 1000) ? delay * 300 : delay);
    }
}

static void node_input(world *w, int n, htc_input in);
static void dial(world *w, int from, const htc_effect *e);
static void user_input(world *w, int u, htc_input in);

static int user_of(int caller)
{
    return (caller - NODES) % CLIENTS;
}

/* Its number of that connection; 0: it knows of none any more. */
static uint32_t users_number(const world *w, int caller, int to)
{
    const user *x = &w->user[user_of(caller)];
    for (uint32_t i = 0; caller >= NODES + CLIENTS && i < NODES; i++)
        if (x->called[i] == to)
            return OWNER + i;
    return caller < NODES + CLIENTS ? STORE : 0;
}

static void tell_user(world *w, int caller, int to, uint32_t kind, htc_bytes body)
{
    uint32_t number = users_number(w, caller, to);
    if (number)
        user_input(w, user_of(caller), (htc_input){ .size = sizeof(htc_input), .kind = kind, .peer = number, .body = body });
}

/* The end of the connection from a to node b, at both. */
static void hang_up(world *w, int a, int b)
{
    if (!w->link[a][b])
        return;
    w->link[a][b] = 0;
    if (a < NODES)
        node_input(w, a, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = TO_MEMBER + (uint32_t)b });
    else
        tell_user(w, a, b, HTC_IN_CLOSED, (htc_bytes){ NULL, 0 });
    node_input(w, b,
               (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED,
                            .peer = a < NODES ? FROM_NODE + (uint32_t)a : FROM_USER + (uint32_t)(a - NODES) });
}

static void call(world *w, int a, int b)
{
    htc_buf info;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    htc_bytes body = htc_buf_bytes(&info);
    w->link[a][b] = ++w->links;
    node_input(w, b,
               (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED,
                            .peer = a < NODES ? FROM_NODE + (uint32_t)a : FROM_USER + (uint32_t)(a - NODES),
                            .body = body });
    if (a < NODES)
        node_input(w, a, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = TO_MEMBER + (uint32_t)b, .body = body });
    else
        tell_user(w, a, b, HTC_IN_OPENED, body);
    htc_buf_free(&info);
}

static const char *address_of(int n)
{
    static const char *const names[] = { "node 0", "node 1", "node 2", "node 3", "node 4", "node 5", "node 6", "node 7", "node 8" };
    _Static_assert(NODES <= sizeof names / sizeof *names, "a name for each");
    return names[n];
}

/* What a client says, and whom it calls. */
static void carry_out_of_user(world *w, int u, const htc_effect *e)
{
    user    *x = &w->user[u];
    uint32_t number = e->kind == HTC_OUT_CALL ? (uint32_t)e->tag : e->peer, i = number - OWNER;
    int      caller = number == STORE ? NODES + u : NODES + CLIENTS + u;
    int      to = number == STORE ? x->store : x->called[i];
    if (e->kind == HTC_OUT_MESSAGE) {
        if (to >= 0)
            travel(w, caller, to, w->link[caller][to], e->body);
        return;
    }
    HOLDS(number != STORE);
    x->called[i] = -1;
    if (to >= 0)
        hang_up(w, caller, to);
    for (int n = 0; e->kind == HTC_OUT_CALL && n < w->nodes; n++)
        if (htc_bytes_equal(e->body, htc_bytes_of(address_of(n))))
            x->called[i] = n;
}

static void carry_out(world *w, int from)
{
    htc_output *out = w->out;
    HOLDS(htc_output_create(NULL, 0, &w->out) == HTC_OK);
    for (size_t i = 0; i < htc_output_count(out); i++) {
        htc_effect e;
        htc_output_get(out, i, &e);
        HOLDS(e.kind != HTC_OUT_STOP);
        if (from >= NODES) {
            carry_out_of_user(w, from - NODES, &e);
        } else if (e.kind == HTC_OUT_CALL && e.op == HTC_KV_SERVER_DIAL) {
            dial(w, from, &e);
        } else if (e.kind == HTC_OUT_CALL && e.op == HTC_KV_SERVER_LEFT) {
            w->node[from].left++;
        } else if (e.kind == HTC_OUT_COMMIT) {
            node *n = &w->node[from];
            HOLDS(n->commit_at == HTC_NEVER);
            htc_buf_clear(&n->commit);
            htc_put_raw(&n->commit, e.body);
            n->commit_tag = e.tag;
            n->commit_at = w->now + w->commit_ns + 20 * HTC_US +
                           htc_rng_below(&w->rng, w->slow_disks ? 5 * HTC_MS : 300 * HTC_US);
        } else if (e.kind == HTC_OUT_MESSAGE || e.kind == HTC_OUT_CLOSE) {
            int a = e.peer >= FROM_USER ? NODES + (int)(e.peer - FROM_USER) : (int)(e.peer - FROM_NODE);
            HOLDS(e.kind == HTC_OUT_MESSAGE || e.peer >= FROM_NODE);
            if (e.kind == HTC_OUT_CLOSE)
                hang_up(w, a, from);
            else if (e.peer >= FROM_NODE)
                travel(w, from, a, w->link[a][from], e.body);
            else
                travel(w, from, (int)(e.peer - TO_MEMBER), w->link[from][e.peer - TO_MEMBER], e.body);
        }
    }
    htc_output_destroy(out);
}

static void node_input(world *w, int n, htc_input in)
{
    in.now = w->now;
    if (!w->node[n].server)
        return;
    w->node[n].stepped = 1;
    HOLDS(htc_kv_server_ops()->step(w->node[n].server, &in, w->out) == HTC_OK);
    carry_out(w, n);
}

/* A member that was not named at the start. */
static void dial(world *w, int from, const htc_effect *e)
{
    for (int n = 0; n < w->nodes; n++) {
        uint8_t number[4] = { (uint8_t)(TO_MEMBER + (uint32_t)n) };
        if (w->members[n].id != e->tag)
            continue;
        w->node[from].knows[n] = 1;
        node_input(w, from,
                   (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = e->op, .tag = e->tag, .body = { number, sizeof number } });
    }
}

static void user_input(world *w, int u, htc_input in)
{
    in.now = w->now;
    w->user[u].stepped = 1;
    HOLDS(htc_kv_client_step(w->user[u].client, &in, w->out) == HTC_OK);
    carry_out(w, NODES + u);
}

/* ---------------------------------------------------------------- members */

static void start(world *w, int n)
{
    htc_kv_member         joins[NODES];
    const char           *addresses[NODES] = { NULL };
    htc_kv_server_options o = { .size = sizeof o,
                                .engine = w->node[n].engine,
                                .self = w->members[n].id,
                                .members = w->members,
                                .member_count = (uint32_t)w->first,
                                .owners = 3,
                                .bits = bucket_bits,
                                .suspect_ns = 40 * HTC_MS,
                                .request_ns = 2 * HTC_SECOND,
                                .tombstones_max = w->tombstones,
                                .memory_max = w->memory_max,
                                .watch_marks_max = w->watch_marks_max,
                                .namespaces = w->spaces,
                                .namespace_count = w->space_count,
                                .hints_max = w->hints_max,
                                .compare_ns = w->compare_ns ? w->compare_ns : compared_after,
                                .deleted_ns = w->deleted_ns,
                                .member_retry_ns = 4 * HTC_MS };
    if (default_times)
        o.suspect_ns = o.request_ns = o.member_retry_ns = 0;
    w->node[n].commit_at = HTC_NEVER;
    memset(w->node[n].knows, 0, sizeof w->node[n].knows);
    for (int i = 0; i < NODES; i++)
        addresses[i] = w->direct ? address_of(i) : NULL;
    o.member_addresses = addresses;
    for (int i = 0; i < w->first && n < w->first; i++)
        w->node[n].knows[i] = i != n;
    if (n >= w->first) {
        o.member_count = 1;
        joins[0] = w->members[n];
        addresses[0] = w->direct ? address_of(n) : NULL;
        for (int i = 0; i < w->nodes; i++) {
            w->node[n].knows[i] = i != n && !w->node[i].outside;
            if (w->node[n].knows[i])
                joins[o.member_count++] = (htc_kv_member){ .peer = w->members[i].peer };
        }
        o.members = joins;
        o.join = 1;
        o.replaces = w->node[n].replaces;
    }
    HOLDS(htc_kv_server_create(&w->env, &o, &w->node[n].server) == HTC_OK);
    if (w->narrow)
        narrow(w->node[n].server, n);
    node_input(w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
}

/* A commit on its way is on the disk or is not. */
static void crash(world *w, int n, htc_ns away)
{
    node *x = &w->node[n];
    htc_kv_server_destroy(x->server);
    x->server = NULL;
    if (x->commit_at != HTC_NEVER && chance(w, 1, 2))
        HOLDS(x->engine.ops->apply(x->engine.ctx, htc_buf_bytes(&x->commit)) == HTC_OK);
    x->commit_at = HTC_NEVER;
    x->down_until = away == HTC_NEVER ? HTC_NEVER : w->now + away;
    for (int a = 0; a < CALLERS; a++) {
        if (a < NODES)
            hang_up(w, n, a);
        hang_up(w, a, n);
    }
}

/* Of so many, `first` are members from the beginning; the others are started by whoever wants them to join. shards: of each process; 1:
 * each is one of its own. */
static void open_growing(world *w, uint64_t seed, int nodes, int first, int shards, faults f)
{
    static const char *const names[KEYS] = { "one", "two", "three" };
    memset(w, 0, sizeof *w);
    w->rng.state = seed;
    w->tombstones = 1 + (uint32_t)(seed % 3 == 0); /* so few that they are collected all the time */
    w->f = f;
    w->nodes = nodes;
    w->first = first;
    w->env = (htc_env){ .size = sizeof w->env, .rng = &w->rng };
    w->now = HTC_SECOND;
    w->heal_at = HTC_NEVER;
    w->direct = seed % 4 != 0;
    w->slow_disks = f.crash && chance(w, 1, 2);
    HOLDS(htc_output_create(NULL, 0, &w->out) == HTC_OK);
    HOLDS(htc_history_create(NULL, NULL, &w->history) == HTC_OK);
    for (int k = 0; k < KEYS; k++)
        HOLDS(htc_history_key(w->history, htc_bytes_of(names[k]), &w->key[k]) == HTC_OK);
    for (int n = 0; n < nodes; n++) {
        w->members[n] = (htc_kv_member){ .id = htc_rng_next(&w->rng) | 1, .peer = TO_MEMBER + (uint32_t)n };
        w->members[n].process = shards > 1 ? w->members[n / shards * shards].id : 0;
        htc_buf_init(&w->node[n].commit, NULL, 0);
        HOLDS(htc_kv_memory_create(NULL, &w->node[n].engine) == HTC_OK);
    }
    for (int u = 0; u < CLIENTS; u++) {
        htc_kv_client_options o = {
            .size = sizeof o, .client_id = seed * 100 + (uint64_t)u + 1, .peer = STORE, .retry_ns = default_times ? 0 : 60 * HTC_MS
        };
        o.members = w->direct ? NODES : 0;
        o.member_peer = OWNER;
        for (int n = 0; n < NODES; n++)
            w->user[u].called[n] = -1;
        HOLDS(htc_kv_client_create(&w->env, &o, &w->user[u].client) == HTC_OK);
        w->user[u].store = -1;
    }
    for (int n = 0; n < nodes; n++) {
        w->node[n].down_until = HTC_NEVER;
        w->node[n].outside = n >= first;
        if (n < first)
            start(w, n);
    }
}

static inline void open_shards(world *w, uint64_t seed, int nodes, int shards, faults f)
{
    open_growing(w, seed, nodes, nodes, shards, f);
}

static inline void open_world(world *w, uint64_t seed, int nodes, faults f)
{
    open_shards(w, seed, nodes, 1, f);
}

static void close_world(world *w)
{
    for (packet *p; (p = w->packets);) {
        w->packets = p->next;
        free(p);
    }
    for (int n = 0; n < w->nodes; n++) {
        htc_kv_server_destroy(w->node[n].server);
        w->node[n].engine.ops->destroy(w->node[n].engine.ctx);
        htc_buf_free(&w->node[n].commit);
    }
    for (int u = 0; u < CLIENTS; u++)
        htc_kv_client_destroy(w->user[u].client);
    htc_output_destroy(w->out);
    htc_history_destroy(w->history);
}

/* ---------------------------------------------------------------- users */

static htc_bytes name_of(world *w, uint32_t key)
{
    return htc_history_key_bytes(w->history, key);
}

/* A page of a scan is a get of each key it goes over. */
static void ask_page(world *w, int u)
{
    user          *x = &w->user[u];
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = 1 + (uint32_t)htc_rng_below(&w->rng, KEYS), .key = { "t", 0 } };
    if (chance(w, 1, 4))
        q.key.len = 1; /* two, three */
    snprintf(x->behind, sizeof x->behind, "%s", chance(w, 1, 3) ? "one" : "");
    q.cursor = htc_bytes_of(x->behind);
    for (int k = 0; k < KEYS; k++) {
        htc_bytes      name = name_of(w, w->key[k]);
        htc_history_op op = HTC_HISTORY_OP_INIT;
        x->shown[k] = SIZE_MAX;
        if (htc_bytes_compare(name, q.cursor) <= 0 || (q.key.len && ((const char *)name.data)[0] != 't'))
            continue;
        op.kind = HTC_HISTORY_GET;
        op.key = w->key[k];
        op.process = (uint64_t)u;
        op.invoked = w->now;
        HOLDS(htc_history_add(w->history, &op, &x->shown[k]) == HTC_OK);
    }
    x->pending = 1;
    w->asked++;
    HOLDS(htc_kv_client_submit(x->client, w->now, &q, 1, 7, w->out) == HTC_OK);
    carry_out(w, NODES + u);
}

static void note_page(world *w, int u, const htc_kv_result *r)
{
    htc_kv_item item;
    int         seen[KEYS] = { 0 };
    w->done += r->status == HTC_OK;
    cr_assert(r->status == HTC_OK || r->status == HTC_ETIMEDOUT || (r->status == HTC_EBUSY && w->nodes != w->first),
              "seed %llu: a page: %s",
              (unsigned long long)property_seed, htc_status_name(r->status));
    if (r->status != HTC_OK)
        return;
    for (size_t at = 0; htc_kv_result_item(r, &at, &item) == HTC_OK;)
        for (int k = 0; k < KEYS; k++) {
            if (!htc_bytes_equal(item.key, name_of(w, w->key[k])))
                continue;
            htc_history_op op = HTC_HISTORY_OP_INIT;
            HOLDS(seen[k] == 0 && w->user[u].shown[k] != SIZE_MAX);
            seen[k] = 1;
            op.outcome = HTC_HISTORY_DONE;
            op.returned = w->now;
            op.version = item.version;
            op.observed = htc_history_value_of(item.value);
            HOLDS(htc_history_answer(w->history, w->user[u].shown[k], &op) == HTC_OK);
        }
    for (int k = 0; k < KEYS; k++) {
        htc_history_op op = HTC_HISTORY_OP_INIT;
        if (seen[k] || w->user[u].shown[k] == SIZE_MAX ||
            (r->cursor.len && htc_bytes_compare(name_of(w, w->key[k]), r->cursor) > 0))
            continue;
        op.outcome = HTC_HISTORY_MISSED;
        op.returned = w->now;
        op.observed.length = HTC_HISTORY_ABSENT;
        HOLDS(htc_history_answer(w->history, w->user[u].shown[k], &op) == HTC_OK);
    }
}

static void ask(world *w, int u)
{
    static const uint32_t kinds[][2] = { { HTC_KV_GET, HTC_HISTORY_GET },
                                         { HTC_KV_GET, HTC_HISTORY_GET },
                                         { HTC_KV_PUT, HTC_HISTORY_PUT },
                                         { HTC_KV_DELETE, HTC_HISTORY_DELETE },
                                         { HTC_KV_CAS_VALUE, HTC_HISTORY_CAS_VALUE },
                                         { HTC_KV_CAS_VERSION, HTC_HISTORY_CAS_VERSION },
                                         { HTC_KV_ADD, HTC_HISTORY_ADD },
                                         { HTC_KV_ADD, HTC_HISTORY_ADD } };
    char                  text[24], seen[24];
    uint32_t              k = (uint32_t)htc_rng_below(&w->rng, KEYS), kind = (uint32_t)htc_rng_below(&w->rng, 8);
    htc_history_op        op = HTC_HISTORY_OP_INIT;
    if (chance(w, 1, 6)) {
        ask_page(w, u);
        return;
    }
    kind = k == 0 ? (kind < 3 ? 0 : 6) : kind % 6; /* the first key is a counter */
    snprintf(text, sizeof text, "v%d", ++w->asked);
    snprintf(seen, sizeof seen, "v%d", w->asked - 1 - (int)htc_rng_below(&w->rng, 6));
    htc_kv_request q = { .size = sizeof q, .op = kinds[kind][0], .key = name_of(w, w->key[k]) };
    op.kind = kinds[kind][1];
    op.key = w->key[k];
    op.process = (uint64_t)u;
    op.invoked = w->now;
    if (q.op == HTC_KV_PUT || q.op == HTC_KV_CAS_VALUE || q.op == HTC_KV_CAS_VERSION) {
        q.value = htc_bytes_of(text);
        op.argument = htc_history_value_of(q.value);
    }
    if (q.op == HTC_KV_CAS_VALUE) {
        q.seen = htc_bytes_of(seen);
        op.seen = htc_history_value_of(q.seen);
    }
    if (q.op == HTC_KV_ADD)
        q.delta = op.delta = 1 + (int64_t)htc_rng_below(&w->rng, 9);
    for (size_t i = htc_history_count(w->history); q.op == HTC_KV_CAS_VERSION && i-- > 0;) {
        const htc_history_op *before = htc_history_at(w->history, i);
        if (before->key == op.key && before->version && chance(w, 1, 2)) {
            q.version = op.expected = before->version;
            break;
        }
    }
    HOLDS(htc_history_add(w->history, &op, &w->user[u].asked) == HTC_OK);
    w->user[u].pending = 1;
    HOLDS(htc_kv_client_submit(w->user[u].client, w->now, &q, 1, 7, w->out) == HTC_OK);
    carry_out(w, NODES + u);
}

static void note_answers(world *w, int u)
{
    htc_kv_result r = { .size = sizeof r };
    while (!w->user[u].by_hand && htc_kv_client_next(w->user[u].client, &r)) {
        w->user[u].stepped = 1;
        htc_history_op op = HTC_HISTORY_OP_INIT;
        HOLDS(w->user[u].pending && r.tag == 7);
        w->user[u].pending = 0;
        w->answered++;
        if (r.op == HTC_KV_SCAN) {
            note_page(w, u, &r);
            continue;
        }
        if (r.status == HTC_EBUSY && w->nodes != w->first)
            continue; /* a member that has come, and has not heard of it */
        if (r.status == HTC_EUNKNOWN || r.status == HTC_ETIMEDOUT)
            continue; /* it may have been done, or may still be */
        w->done++;
        op.returned = w->now;
        op.version = r.version;
        cr_assert(r.status == HTC_OK || r.status == HTC_MISMATCH || r.status == HTC_ENOTFOUND, "seed %llu: %s",
                  (unsigned long long)property_seed, htc_status_name(r.status));
        op.outcome = r.status == HTC_OK ? HTC_HISTORY_DONE : HTC_HISTORY_MISSED;
        if (r.op == HTC_KV_ADD && r.status == HTC_OK)
            op.number = r.number;
        if (r.value.data)
            op.observed = htc_history_value_of(r.value);
        else if (r.status == HTC_MISMATCH || (r.op == HTC_KV_GET && r.status == HTC_ENOTFOUND))
            op.observed.length = HTC_HISTORY_ABSENT;
        HOLDS(htc_history_answer(w->history, w->user[u].asked, &op) == HTC_OK);
    }
}

/* ---------------------------------------------------------------- time */

static void deliver(world *w)
{
    packet *p = w->packets;
    w->packets = p->next;
    int member = p->from < NODES && p->to < NODES, to_user = p->to >= NODES;
    /* The caller is the one that opened the connection: of two members either may be. */
    int a = to_user ? p->to : p->from, b = to_user ? p->from : p->to;
    if (member && (w->link[p->from][p->to] == p->link ? 0 : w->link[p->to][p->from] == p->link)) {
        a = p->to;
        b = p->from;
    }
    int       lost = w->link[a][b] != p->link || (member && w->apart[p->from][p->to]);
    htc_input in = { .size = sizeof in, .kind = HTC_IN_MESSAGE, .body = { p->data, p->len } };
    if (!lost && to_user) {
        tell_user(w, p->to, p->from, HTC_IN_MESSAGE, in.body);
    } else if (!lost) {
        in.peer = p->from >= NODES ? FROM_USER + (uint32_t)(p->from - NODES)
                  : a == p->from   ? FROM_NODE + (uint32_t)p->from
                                   : TO_MEMBER + (uint32_t)p->from;
        node_input(w, p->to, in);
    }
    free(p);
}

static void some_fault(world *w)
{
    int n = (int)htc_rng_below(&w->rng, (uint64_t)w->nodes);
    if (w->no_faults)
        return;
    if (chance(w, w->f.crash, 100000) && w->node[n].server) {
        /* Now and then the power fails, for all of them. */
        int all = chance(w, 1, 3);
        for (int i = 0; i < w->nodes; i++)
            if ((all || i == n) && w->node[i].server)
                crash(w, i, htc_rng_below(&w->rng, all ? 5 * HTC_MS : 200 * HTC_MS));
    }
    if (chance(w, w->f.split, 100000) && w->heal_at == HTC_NEVER) {
        /* Two groups; sometimes only one way. */
        int side[NODES], one_way = chance(w, 1, 3);
        for (int i = 0; i < w->nodes; i++)
            side[i] = chance(w, 1, 2);
        for (int i = 0; i < w->nodes; i++)
            for (int j = 0; j < w->nodes; j++)
                w->apart[i][j] = side[i] != side[j] && !(one_way && side[i]);
        w->heal_at = w->now + htc_rng_below(&w->rng, 300 * HTC_MS);
    }
    int u = (int)htc_rng_below(&w->rng, CLIENTS);
    if (chance(w, w->f.cut, 100000) && w->user[u].store >= 0) {
        int store = w->user[u].store;
        w->user[u].store = -1;
        w->user[u].again = w->now + HTC_MS;
        hang_up(w, NODES + u, store);
    }
    if (chance(w, w->direct ? w->f.cut : 0, 100000))
        hang_up(w, NODES + CLIENTS + u, n);
}

static void reconnect(world *w, int u)
{
    user *x = &w->user[u];
    if (x->store >= 0 && !w->link[NODES + u][x->store]) {
        x->store = -1;
        x->again = w->now + HTC_MS;
    }
    if (x->store >= 0 || x->again > w->now)
        return;
    int n = (int)htc_rng_below(&w->rng, (uint64_t)w->nodes);
    if (!w->node[n].server || w->node[n].outside) {
        x->again = w->now + HTC_MS;
        return;
    }
    x->store = n;
    call(w, NODES + u, n);
}

/* Whoever was called is there when it is up. */
static void reconnect_to_owners(world *w, int u)
{
    for (int i = 0; i < NODES; i++) {
        int n = w->user[u].called[i];
        if (n >= 0 && w->node[n].server && !w->node[n].outside && !w->link[NODES + CLIENTS + u][n])
            call(w, NODES + CLIENTS + u, n);
    }
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

/* Deadlines are most of the work of a turn: they are asked for anew where a machine was stepped, by go_on or by a test's own hand. */
static htc_ns server_deferred(node *x)
{
    if (x->stepped)
        x->due = htc_kv_server_ops()->deadline(x->server);
    x->stepped = 0;
    return x->due;
}

static htc_ns client_due(user *x)
{
    if (x->stepped)
        x->due = htc_kv_client_deadline(x->client);
    x->stepped = 0;
    return x->due;
}

static void anybody_was_stepped(world *w)
{
    for (int n = 0; n < w->nodes; n++)
        w->node[n].stepped = 1;
    for (int u = 0; u < CLIENTS; u++)
        w->user[u].stepped = 1;
}

static htc_ns soonest(world *w)
{
    htc_ns at = w->packets ? w->packets->at : HTC_NEVER;
    at = earlier(at, w->heal_at);
    for (int n = 0; n < w->nodes; n++) {
        node *x = &w->node[n];
        at = earlier(at, x->server ? earlier(x->commit_at, server_deferred(x)) : x->down_until);
    }
    for (int u = 0; u < CLIENTS; u++) {
        at = earlier(at, client_due(&w->user[u]));
        at = earlier(at, w->user[u].store < 0 ? w->user[u].again : HTC_NEVER);
    }
    return at;
}

static inline htc_ns next_event(world *w)
{
    anybody_was_stepped(w);
    return soonest(w);
}

static void go_on(world *w)
{
    some_fault(w);
    htc_ns at = soonest(w);
    w->now = at != HTC_NEVER && at > w->now ? at : w->now;
    if (w->packets && w->packets->at <= w->now)
        deliver(w);
    if (w->heal_at <= w->now) {
        memset(w->apart, 0, sizeof w->apart);
        w->heal_at = HTC_NEVER;
    }
    for (int n = 0; n < w->nodes; n++) {
        node *x = &w->node[n];
        if (!x->server && x->down_until <= w->now)
            start(w, n);
        if (x->server && x->commit_at <= w->now) {
            x->commit_at = HTC_NEVER;
            HOLDS(x->engine.ops->apply(x->engine.ctx, htc_buf_bytes(&x->commit)) == HTC_OK);
            node_input(w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = x->commit_tag });
        }
        if (x->server && server_deferred(x) <= w->now)
            node_input(w, n, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    }
    for (int a = 0; a < w->nodes; a++)
        for (int b = 0; b < w->nodes; b++)
            if (w->node[a].server && w->node[b].server && w->node[a].knows[b] && !w->link[a][b])
                call(w, a, b);
    for (int u = 0; u < CLIENTS; u++) {
        reconnect(w, u);
        reconnect_to_owners(w, u);
        if (client_due(&w->user[u]) <= w->now)
            user_input(w, u, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        note_answers(w, u);
    }
}

/* One moment in which something is to happen. */
static void turn(world *w)
{
    anybody_was_stepped(w);
    go_on(w);
}

static void run_until(world *w, htc_ns until)
{
    anybody_was_stepped(w);
    while (soonest(w) <= until)
        go_on(w);
    w->now = w->now > until ? w->now : until;
}

/* Everybody asks until `asked` were, or for so long. */
static inline void run(world *w, int asked, htc_ns until)
{
    while (w->now < until) {
        int busy = 0;
        for (int u = 0; u < CLIENTS; u++) {
            if (!w->user[u].pending && w->asked < asked && chance(w, 1, 4))
                ask(w, u);
            busy += w->user[u].pending;
        }
        if (!busy && w->asked >= asked)
            return;
        turn(w);
    }
}

static inline void judge(world *w)
{
    htc_history_verdict v;
    HOLDS(htc_history_linear(w->history, NULL, &v) == HTC_OK);
    if (v.answer != HTC_HISTORY_HOLDS && getenv("HTC_TEST_TRACE")) {
        char line[512];
        for (size_t i = 0; i < htc_history_count(w->history); i++)
            if (htc_history_at(w->history, i)->key == v.key) {
                htc_history_line(w->history, i, line, sizeof line);
                fprintf(stderr, "#%zu %s", i, line);
            }
    }
    cr_assert(v.answer == HTC_HISTORY_HOLDS, "seed %llu: %s", (unsigned long long)property_seed, v.text);
    HOLDS(htc_history_rising(w->history, NULL, &v) == HTC_OK);
    cr_assert(v.answer == HTC_HISTORY_HOLDS, "seed %llu: %s", (unsigned long long)property_seed, v.text);
}

/* One request, to the end; its answer is lent until the next. */
static htc_kv_result ask_one(world *w, int u, const htc_kv_request *q)
{
    htc_kv_result r = { .size = sizeof r };
    for (int turns = 0; w->user[u].pending && !w->user[u].by_hand; turns++) { /* or its answer would be taken for this one's */
        HOLDS(turns < 100000);
        turn(w);
    }
    w->user[u].by_hand = 1;
    HOLDS(htc_kv_client_submit(w->user[u].client, w->now, q, 1, 7, w->out) == HTC_OK);
    carry_out(w, NODES + u);
    for (int turns = 0; !htc_kv_client_next(w->user[u].client, &r); turns++) {
        HOLDS(turns < 100000);
        turn(w);
    }
    w->user[u].by_hand = 0;
    return r;
}

/* As a client that may ask for the same twice: where it is not known what became of it, once more. What was to go may be gone then. */
static inline htc_status ask_until_known(world *w, int u, const htc_kv_request *q)
{
    htc_status status = ask_one(w, u, q).status;
    for (int tries = 0; tries < 20 && status == HTC_EUNKNOWN; tries++) {
        status = ask_one(w, u, q).status;
        status = status == HTC_ENOTFOUND && q->op == HTC_KV_DELETE ? HTC_OK : status;
    }
    return status;
}

/* Pages of whatever size show every key once, in order, whoever is asked; a deleted one not. With a member away as well, and
 * COUNT says how many there are. */
static inline void scan_all(world *w, int u, uint32_t limit, const uint8_t *there, int keys)
{
    char          name[16], cursor[HTC_KV_KEY_MAX];
    htc_kv_item   item;
    int           next = 0, count = 0;
    htc_kv_result r = { .size = sizeof r };
    do {
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .limit = limit, .key = htc_bytes_of("k") };
        q.cursor = (htc_bytes){ cursor, r.cursor.len };
        r = ask_one(w, u, &q);
        HOLDS(r.status == HTC_OK && r.items <= limit);
        for (size_t at = 0; htc_kv_result_item(&r, &at, &item) == HTC_OK; next++, count++) {
            while (next < keys && !there[next])
                next++;
            snprintf(name, sizeof name, "k%04d", next);
            cr_assert(htc_bytes_equal(item.key, htc_bytes_of(name)), "seed %llu: %.*s instead of %s",
                      (unsigned long long)property_seed, (int)item.key.len, (const char *)item.key.data, name);
            HOLDS(htc_bytes_equal(item.value, item.key));
        }
        memcpy(cursor, r.cursor.len ? r.cursor.data : "", r.cursor.len);
    } while (r.cursor.len);
    while (next < keys && !there[next])
        next++;
    HOLDS(next == keys);
    r = ask_one(w, u, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
    HOLDS(r.status == HTC_OK && r.number == count);
}

#endif
