/* Watches of whole members: watchers at any of them, through messages that are lost, doubled and late, members that crash, come back and
 * move their buckets, connections that are cut. What each watch has told in the end is what is there, and what it told on the way is judged by
 * the rule for watches. One seed, one history. */
#define NODES 5
#include "cluster_world.h"
#include "htcsched/metrics.h"
#include "kvs/replica/watch.h"

#define VIEWS 4
#define REST  (15 * HTC_SECOND) /* of members that retry after 4 ms, and of a hub and clients that do after 100, 128 times as long at most */

typedef struct known {
    uint64_t          version;
    int               there;
    htc_history_value value;
} known;

/* What one watch has told. */
typedef struct view {
    int      used, prefix, current;
    uint64_t tag;
    char     key[8];
    known    known[KEYS];
} view;

typedef struct story {
    view   views[CLIENTS][VIEWS];
    size_t events, overs;
    uint64_t tags;
} story;

static world w;
static story s;

static const faults calm = { 0 };
static const faults bad = { .lose = 30, .doubled = 30, .late = 20, .crash = 250, .split = 150, .cut = 200 };

static int watched(const view *v, int k)
{
    htc_bytes name = name_of(&w, w.key[k]);
    size_t    len = strlen(v->key);
    return v->prefix ? name.len >= len && memcmp(name.data, v->key, len) == 0 : htc_bytes_equal(name, htc_bytes_of(v->key));
}

static void note(const view *v, int k, uint32_t kind, uint64_t version, htc_history_value observed)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = kind;
    op.outcome = HTC_HISTORY_DONE;
    op.key = w.key[k];
    op.process = v->tag + 1000;
    op.invoked = op.returned = w.now;
    op.version = version;
    op.observed = observed;
    HOLDS(htc_history_add(w.history, &op, NULL) == HTC_OK);
}

static void note_all(const view *v, uint32_t kind)
{
    for (int k = 0; k < KEYS; k++)
        if (watched(v, k))
            note(v, k, kind, 0, (htc_history_value){ 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER });
}

static void told(int u, const htc_kv_event *e)
{
    view *v = NULL;
    for (int i = 0; i < VIEWS; i++)
        if (s.views[u][i].used && s.views[u][i].tag == e->tag)
            v = &s.views[u][i];
    HOLDS(v && e->kind != HTC_KV_EVENT_ENDED);
    s.events++;
    if (e->kind == HTC_KV_EVENT_START_OVER) {
        HOLDS(v->prefix);
        memset(v->known, 0, sizeof v->known);
        v->current = 0;
        s.overs++;
        note_all(v, HTC_HISTORY_RESTART);
        return;
    }
    if (e->kind == HTC_KV_EVENT_CURRENT) {
        v->current = 1;
        if (v->prefix)
            note_all(v, HTC_HISTORY_CURRENT);
        return;
    }
    for (int k = 0; k < KEYS; k++) {
        known            *n = &v->known[k];
        int               deleted = e->kind == HTC_KV_EVENT_DELETED;
        htc_history_value value = { 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };
        if (!htc_bytes_equal(e->key, name_of(&w, w.key[k])))
            continue;
        HOLDS(watched(v, k));
        HOLDS(e->version > n->version || (deleted && e->version == 0 && n->version == 0 && !n->there));
        if (!deleted)
            value = htc_history_value_of(e->value);
        if (e->version)
            note(v, k, HTC_HISTORY_EVENT, e->version, value);
        *n = (known){ e->version, !deleted, value };
        return;
    }
    cr_fatal("a key that nobody wrote");
}

static void look(int u)
{
    htc_kv_event e;
    while (htc_kv_client_event(w.user[u].client, &e))
        told(u, &e);
}

static view *begin(int u, const char *key, int prefix)
{
    for (int i = 0; i < VIEWS; i++) {
        view *v = &s.views[u][i];
        if (v->used)
            continue;
        *v = (view){ .used = 1, .prefix = prefix, .tag = ++s.tags };
        snprintf(v->key, sizeof v->key, "%s", key);
        htc_kv_watch x = { .size = sizeof x, .key = htc_bytes_of(v->key), .prefix = (uint32_t)prefix, .tag = v->tag };
        HOLDS(htc_kv_client_watch(w.user[u].client, w.now, &x, w.out) == HTC_OK);
        carry_out(&w, NODES + u);
        note_all(v, HTC_HISTORY_WATCH);
        return v;
    }
    return NULL;
}

static void end(int u, view *v)
{
    v->used = 0;
    HOLDS(htc_kv_client_unwatch(w.user[u].client, w.now, v->tag, w.out) == HTC_OK);
    carry_out(&w, NODES + u);
    note_all(v, HTC_HISTORY_UNWATCH);
}

static void begin_or_end(int u)
{
    static const char *const names[] = { "one", "two", "three", "", "t", "o" };
    view                    *v = &s.views[u][htc_rng_below(&w.rng, VIEWS)];
    int                      name = (int)htc_rng_below(&w.rng, 6);
    if (v->used)
        end(u, v);
    else
        begin(u, names[name], name >= 3);
}

/* Everybody asks and watches until so many were asked, or for so long. */
static void live(int asked, htc_ns until)
{
    while (w.now < until && w.asked < asked) {
        int u = (int)htc_rng_below(&w.rng, CLIENTS);
        if (!w.user[u].pending && chance(&w, 1, 8))
            ask(&w, u);
        if (chance(&w, 1, 60))
            begin_or_end(u);
        if (chance(&w, 1, 4))
            look(u);
        turn(&w);
    }
}

static void look_until(htc_ns until)
{
    while (w.now < until) {
        htc_ns at = next_event(&w);
        if (at > until)
            w.now = until;
        else
            turn(&w);
        for (int u = 0; u < CLIENTS; u++)
            look(u);
    }
}

static int same(const known *n, const htc_kv_result *r)
{
    if (r->status != HTC_OK)
        return r->status == HTC_ENOTFOUND && !n->there;
    htc_history_value value = htc_history_value_of(r->value);
    return n->there && n->version == r->version && n->value.hash == value.hash && n->value.length == value.length;
}

static void judge_watches(void)
{
    htc_history_verdict v;
    htc_history_rules   rules = { .size = sizeof rules, .settle_ns = 3600 * HTC_SECOND };
    w.now += 7200 * HTC_SECOND;
    for (int k = 0; k < KEYS; k++) { /* with this every key ends: whoever watches it still knows all by now */
        htc_history_op op = HTC_HISTORY_OP_INIT;
        op.kind = HTC_HISTORY_PUT;
        op.outcome = HTC_HISTORY_REFUSED;
        op.key = w.key[k];
        op.invoked = op.returned = w.now;
        HOLDS(htc_history_add(w.history, &op, NULL) == HTC_OK);
    }
    HOLDS(htc_history_watched(w.history, &rules, &v) == HTC_OK);
    if (v.answer == HTC_HISTORY_BROKEN)
        cr_fatal("seed %llu: %s", (unsigned long long)property_seed, v.text);
}

/* All is well again, for so long: what has been told then is all that there is. */
static void at_rest(htc_ns rest)
{
    w.no_faults = 1;
    look_until(w.now + rest);
    for (int k = 0; k < KEYS; k++) {
        htc_kv_result r = ask_one(&w, 0, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = name_of(&w, w.key[k]) });
        HOLDS(r.status == HTC_OK || r.status == HTC_ENOTFOUND);
        for (int u = 0; u < CLIENTS; u++)
            for (int i = 0; i < VIEWS; i++)
                if (s.views[u][i].used && watched(&s.views[u][i], k)) {
                    HOLDS(s.views[u][i].current);
                    HOLDS(same(&s.views[u][i].known[k], &r));
                }
    }
    w.no_faults = 0;
}

static void open_story(uint64_t seed, int nodes, int first, faults f)
{
    open_growing(&w, seed, nodes, first, 1, f);
    s = (story){ .tags = 0 };
}

static void run_story(uint64_t seed, uint32_t marks_max)
{
    int nodes = 3 + 2 * (int)(seed & 1);
    open_story(seed, nodes, nodes, bad);
    w.watch_marks_max = marks_max;
    for (int i = 0; i < 6; i++) {
        live(w.asked + 8, w.now + 10 * HTC_SECOND);
        at_rest(REST);
    }
    judge_watches();
    close_world(&w);
}

/* The newest map that any living member has seen names that member. */
static int listed(int n)
{
    const htc__kv_map *map = NULL;
    uint64_t           best = 0;
    int                settled = 1;
    for (int i = 0; i < w.nodes; i++) {
        const htc__kv_cluster *c = w.node[i].server ? w.node[i].server->cluster : NULL;
        if (!c || !c->map || (map && c->map_version <= best))
            continue;
        map = c->map;
        best = c->map_version;
    }
    settled = map && !map->after && !map->own_next.n;
    return settled ? htc__kv_map_find(map, w.members[n].id) != NULL : -1;
}

/* Members come and go, one after the other, while all goes on. */
static void change_members(int comes, int goes)
{
    htc__kv_change_request leave = { .kind = HTC__KV_LEAVE };
    htc_ns       until = w.now + 600 * HTC_SECOND, again = 0; /* members die in the middle of it all the time: it took 148 s once */
    if (comes >= 0)
        start(&w, comes);
    if (goes >= 0)
        leave.id = w.members[goes].id;
    while (comes >= 0 ? listed(comes) != 1 : listed(goes) != 0) {
        int some = (int)htc_rng_below(&w.rng, (uint64_t)w.nodes);
        cr_assert(w.now < until, "seed %llu: a change does not end", (unsigned long long)property_seed);
        if (goes >= 0 && w.now >= again && w.node[some].server && w.node[some].server->cluster->map) {
            again = w.now + HTC_SECOND;
            htc__kv_cluster_change_request(w.node[some].server, &leave);
        }
        live(w.asked + 2, w.now + 20 * HTC_MS);
    }
    if (comes >= 0)
        w.node[comes].outside = 0;
    if (goes < 0)
        return;
    w.node[goes].outside = 1;
    if (w.node[goes].server)
        crash(&w, goes, HTC_NEVER);
    w.node[goes].down_until = HTC_NEVER;
}

static void run_moves(uint64_t seed)
{
    open_story(seed, 5, 3, bad);
    live(20, w.now + 10 * HTC_SECOND);
    change_members(3, -1);
    at_rest(REST);
    change_members(-1, (int)htc_rng_below(&w.rng, 3));
    change_members(4, -1);
    at_rest(REST);
    judge_watches();
    close_world(&w);
}

/* ---------------------------------------------------------------- an example */

static htc_kv_event next_event_of(int u)
{
    htc_kv_event e = { 0 };
    for (int turns = 0; !htc_kv_client_event(w.user[u].client, &e); turns++) {
        HOLDS(turns < 100000);
        turn(&w);
    }
    return e;
}

static uint64_t put(const char *key, const char *value)
{
    return ask_one(&w, 2, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = htc_bytes_of(value) }).version;
}

/* Whichever member a watcher is connected to. */
Test(kvs_cluster_watch, a_key_is_told_as_it_is_and_as_it_becomes)
{
    PROPERTY(rng, 10)
    {
        open_story(rng.state, 3, 3, calm);
        uint64_t one = put("one", "v1");
        begin(0, "one", 0);
        htc_kv_event e = next_event_of(0);
        HOLDS(e.kind == HTC_KV_EVENT_VALUE && e.version == one && htc_bytes_equal(e.value, htc_bytes_of("v1")));
        HOLDS(next_event_of(0).kind == HTC_KV_EVENT_CURRENT);
        for (int i = 0; i < 5; i++) {
            uint64_t two = put("one", i & 1 ? "v2" : "v3");
            e = next_event_of(0);
            HOLDS(e.kind == HTC_KV_EVENT_VALUE && e.version == two);
        }
        htc_kv_result gone = ask_one(&w, 2, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc_bytes_of("one") });
        e = next_event_of(0);
        HOLDS(e.kind == HTC_KV_EVENT_DELETED && e.version == gone.version);
        uint64_t three = put("one", "v4");
        e = next_event_of(0);
        HOLDS(e.kind == HTC_KV_EVENT_VALUE && e.version == three && three > gone.version);
        close_world(&w);
    }
}

Test(kvs_cluster_watch, a_prefix_is_told_whole_and_does_not_start_over_while_all_is_well)
{
    PROPERTY(rng, 10)
    {
        open_story(rng.state, 3, 3, calm);
        char key[16];
        for (int i = 0; i < 30; i++) {
            snprintf(key, sizeof key, "p/%02d", i);
            put(key, "v");
        }
        run_until(&w, w.now + HTC_SECOND);
        htc_kv_watch x = { .size = sizeof x, .key = htc_bytes_of("p/"), .prefix = 1, .tag = 5 };
        HOLDS(htc_kv_client_watch(w.user[0].client, w.now, &x, w.out) == HTC_OK);
        carry_out(&w, NODES);
        for (int i = 0; i < 30; i++) {
            htc_kv_event e = next_event_of(0);
            snprintf(key, sizeof key, "p/%02d", i);
            HOLDS(e.kind == HTC_KV_EVENT_VALUE && htc_bytes_equal(e.key, htc_bytes_of(key)));
        }
        HOLDS(next_event_of(0).kind == HTC_KV_EVENT_CURRENT);
        for (int i = 0; i < 30; i += 3) {
            snprintf(key, sizeof key, "p/%02d", i);
            uint64_t     version = put(key, "another");
            htc_kv_event e = next_event_of(0);
            HOLDS(e.kind == HTC_KV_EVENT_VALUE && htc_bytes_equal(e.key, htc_bytes_of(key)) && e.version == version);
        }
        close_world(&w);
    }
}

/* ---------------------------------------------------------------- one owner's word */

typedef enum moment { BEFORE, BEHIND, RESTARTED, APART, AWAY } moment;

static htc__kv_cell newer;
static int          host, owner, third;

static void cut_off(int n)
{
    w.apart[host][n] = w.apart[n][host] = 1;
}

static void owner_holds_it(moment when)
{
    if (when == RESTARTED) {
        crash(&w, owner, HTC_MS);
        run_until(&w, w.now + 500 * HTC_MS);
    }
    if (when == APART)
        cut_off(owner);
    HOLDS(htc__kv_cluster_put(w.node[owner].server, htc_bytes_of("one"), &newer) == HTC_OK);
    run_until(&w, w.now + 200 * HTC_MS);
    w.apart[host][owner] = w.apart[owner][host] = 0;
    if (when == AWAY)
        crash(&w, owner, HTC_NEVER);
}

static void ask_owner(int n, const htc__kv_ask *ask)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_ask_write(&b, ask);
    htc__kv_components_hear(w.node[n].server, w.members[owner].id, HTC__KV_ITEM_ASK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* What the accept rests on. */
static void all_promise(uint64_t epoch)
{
    htc__kv_ask ask = { .kind = HTC__KV_PREPARE, .round = 1, .epoch = epoch, .ballot = newer.accepted, .key = htc_bytes_of("one") };
    for (int n = 0; n < 3; n++)
        ask_owner(n, &ask);
    run_until(&w, w.now + HTC_SECOND);
}

/* The accept that the owner has had comes to the third one too, unless something was promised to others there, and that one is never heard of
 * again: what was final then is known to the owner alone. */
static void third_accepts_and_is_gone(uint64_t epoch)
{
    htc__kv_ask ask = { .kind = HTC__KV_ACCEPT, .round = 1, .epoch = epoch, .ballot = newer.accepted, .key = htc_bytes_of("one"), .cell = newer };
    ask_owner(third, &ask);
    run_until(&w, w.now + 200 * HTC_MS);
    crash(&w, third, HTC_NEVER);
}

/* An accept has reached one owner: before a watch begins; behind that; behind that and another start of the owner; while the owner and the host
 * cannot hear each other; before that, and the owner is away until all else has happened. Later it reaches another owner, whom the host cannot hear.
 * 1: what was told in the end is what is there. */
static int one_owners_word_counts(uint64_t seed, moment when, int prefix)
{
    uint32_t bucket;
    int      early = when == BEFORE || when == AWAY;
    open_story(seed, 3, 3, calm);
    put("one", "v1");
    run_until(&w, w.now + HTC_SECOND);
    host = w.user[0].store;
    owner = (host + 1 + (int)(seed & 1)) % 3;
    third = 3 - host - owner;
    htc__kv_owners owners = htc__kv_cluster_owners(w.node[host].server, htc_bytes_of("one"), &bucket);
    newer = (htc__kv_cell){ .present = 1, .version = 50, .value = htc_bytes_of("v50") };
    newer.accepted = newer.promise = (htc__kv_ballot){ owners.epoch, 1000, w.members[owner].id };
    all_promise(owners.epoch);
    if (when != AWAY)
        cut_off(third);
    if (early)
        owner_holds_it(when);
    const view *v = begin(0, prefix ? "o" : "one", prefix);
    look_until(w.now + HTC_SECOND);
    cut_off(third);
    if (!early)
        owner_holds_it(when);
    third_accepts_and_is_gone(owners.epoch);
    if (when == AWAY)
        w.node[owner].down_until = w.now;
    look_until(w.now + HTC_SECOND);
    htc_kv_result r = ask_one(&w, 1, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("one") });
    int           right = r.status == HTC_OK && v->current && same(&v->known[0], &r);
    close_world(&w);
    return right;
}

Test(kvs_cluster_watch, what_one_owner_holds_is_told)
{
    PROPERTY(rng, 10)
        for (int when = BEFORE; when <= AWAY; when++)
            for (int prefix = 0; prefix < 2; prefix++)
                cr_assert(one_owners_word_counts(rng.state, (moment)when, prefix), "seed %llu, moment %d, %s",
                          (unsigned long long)rng.state, when, prefix ? "prefix" : "key");
}

/* What would be a mistake is one that these scenes see. */
Test(kvs_cluster_watch, a_broken_rule_is_noticed)
{
    static const struct {
        const char *rule;
        moment      when;
        int         prefix;
    } rules[] = { { "mark_not_needed", BEHIND, 0 }, { "mark_unrepeated", APART, 0 },  { "held_unmarked", BEFORE, 0 },
                  { "image_unmarked", BEHIND, 0 },  { "stream_kept", RESTARTED, 0 }, { "page_unsettled", BEFORE, 1 },
                  { "page_not_anew", AWAY, 1 } };
    compared_after = HTC_NEVER / 4; /* or what was not said is heard when its member catches up */
    for (size_t i = 0; i < mistakes_of(sizeof rules / sizeof *rules); i++) {
        uint64_t seed = 1;
        htc__broken_set(htc__broken_find(rules[i].rule), 1);
        while (seed <= 100 && one_owners_word_counts(seed, rules[i].when, rules[i].prefix))
            seed++;
        htc__broken_set(htc__broken_find(rules[i].rule), 0);
        if (getenv("HTC_TEST_TRACE"))
            fprintf(stderr, "%s is noticed with seed %llu\n", rules[i].rule, (unsigned long long)seed);
        cr_expect(seed <= 100, "%s was not noticed", rules[i].rule);
    }
}

/* What an owner has shown was outbid before it was read: no read finds it, and once one has outbid all that was about no other is needed. The
 * marks of its own write-back are no reason for another. */
Test(kvs_cluster_watch, what_was_outbid_is_looked_for_once)
{
    PROPERTY(rng, 20)
    {
        open_story(rng.state, 3, 3, calm);
        uint64_t    one = put("one", "v1"), settled = 0;
        const view *v = begin(0, "one", 0), *other = begin(1, "o", 1);
        look_until(w.now + HTC_SECOND);
        for (int n = 0; n < 3; n++) {
            const htc__kv_marked never = { .key = htc_bytes_of("one"), .version = one + 5, .digest = 77 };
            htc__kv_cluster_marked(w.node[n].server, &never);
        }
        look_until(w.now + 2 * HTC_SECOND);
        for (int n = 0; n < 3; n++)
            settled += htc__kv_cluster_watch_counted(w.node[n].server)->settled;
        HOLDS(settled >= 1 && settled <= 4);
        uint64_t two = put("one", "v2");
        look_until(w.now + HTC_SECOND);
        HOLDS(v->current && v->known[0].version == two && other->current && other->known[0].version == two);
        close_world(&w);
    }
}

/* The store's own keys are nobody's to watch. */
Test(kvs_cluster_watch, the_stores_own_keys_are_not_watched)
{
    open_story(3, 3, 3, calm);
    htc_kv_watch x = { .size = sizeof x, .key = { "\0htc\0l12345678", 14 }, .tag = 5 };
    HOLDS(htc_kv_client_watch(w.user[0].client, w.now, &x, w.out) == HTC_OK);
    carry_out(&w, NODES);
    htc_kv_event e = next_event_of(0);
    HOLDS(e.kind == HTC_KV_EVENT_ENDED && e.status == HTC_EINVAL && e.tag == 5);
    close_world(&w);
}

/* ---------------------------------------------------------------- stories */

Test(kvs_cluster_watch, the_last_state_always_comes)
{
    size_t events = 0, overs = 0;
    PROPERTY(rng, 30)
    {
        run_story(rng.state, 0);
        events += s.events;
        overs += s.overs;
    }
    cr_expect(events > property_times(1000) && overs > property_times(10), "%zu events, %zu of them to start over", events, overs);
}

/* So few marks that owners forget whole hosts again and again. */
Test(kvs_cluster_watch, owners_may_have_too_many_marks)
{
    PROPERTY(rng, 10)
        run_story(rng.state + 2000, 2);
}

/* A member is one of three, then of four, then three of them are others. */
Test(kvs_cluster_watch, the_last_state_comes_while_buckets_move)
{
    PROPERTY(rng, 10)
        run_moves(rng.state + 4000);
}
