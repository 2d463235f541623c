/* Changes of membership: begun by a member that is told to, and driven by it batch after batch (kvs/map/map.h, kvs/migrate/migration_batch.h).
 *
 *     told ──▶ begin ──▶ take ──▶ a batch ──▶ activate and take the next ──▶ ... ──▶ the map is kept by those that stay ──▶ done
 *                          ▲
 *     any member that has seen nothing go on for a while
 *
 * Each arrow is a compare-and-swap of the map's register. Whoever loses one lets the winner go on. If it is not known what has become
 * of one, the number that was to be taken by it is used by nobody. A mover whose messages are heard is at work; how long one that is not
 * heard is waited for is drawn at random, and doubles with each that was overtaken, so that a bucket that takes long is moved at last.
 *
 * The map's own register moves in the same way, but that needs no number: all who help say the same. It names its next owners, after
 * which it cannot change any more; as many of the old ones as meet every majority are sealed, and a majority of the next ones gets what
 * follows from it, under the next version. Who goes lets go of it before the change begins if somebody else can have it at once, else before the
 * last batch: by then whoever comes in its place is a member. */
#include <string.h>

#include "htcsched/kv_members.h"
#include "kvs/migrate/migration_batch.h"
#include "kvs/migrate/buckets.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/eventual/migration.h"

#define PAGE_BYTES   ((size_t)32 << 10)
#define STALLED_MAX  6
#define HOLDS_BACK   (20 * HTC_MS)
#define MEND         8 /* times as long, before somebody else mends the list of who keeps the map */

typedef struct htc__kv_moving {
    htc__kv_change_request   wish;
    uint64_t       wish_numbers; /* JOIN, REPLACE: those of the map when it was wished for */
    int            driving, asking; /* asking: for a change of the map, or for the map */
    uint64_t       asked;           /* which of these it was */
    htc__kv_map   *next;            /* as it is to be */
    uint64_t       taken;           /* the number that it takes; 0: none */
    uint32_t       moved;           /* it activates so many images */
    int            granted;         /* it begins what was wished */
    uint64_t       number;          /* of this member, if the map names it; 0: none */
    htc__kv_migration_batch *batch;
    uint32_t       most;            /* buckets of the next one */
    int            own, ready;      /* it moves the map itself; it is to be activated */
    htc_buf        image;           /* own: the entry to be installed */
    int            tell, read;      /* all others are told; the map is read first */
    htc_ns         at;              /* nothing is begun before */
    htc_ns         heard_at;        /* an owner has answered this member's batch */
    int            lost;            /* a key of it has been lost by too many; or it is more than can be moved (large) */
    int            large;
    htc_ns         seen_at, patience;
    uint64_t       seen, seen_number; /* the member that was last heard moving a bucket, and under which number */
    uint32_t       stalled, seen_moved;
    htc_status     join_status; /* of who has asked last to be let in */
    uint64_t       turned_away, turned_away_map; /* who asked, and cannot be let in as the map of that version is; 0: nobody */
    htc_status     turned_away_why;
    htc__kv_face   face;
    htc__kv_face   asker; /* whose wish it is, to be answered; answer NULL: no client's */
    uint64_t       asker_conn, asker_slot;
    htc_ns         asker_until;
    int64_t        granted_buckets; /* that move */
    uint64_t       granted_version; /* of the map that says so */
} moving;

/* ---------------------------------------------------------------- how long nobody else does it */

static htc_ns random_up_to(htc_kv_server *s, htc_ns span)
{
    return htc_rng_below(s->env.rng, span + 1);
}

static void wait_for_others(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    htc_ns           base = 2 * c->suspect_ns;
    if (c->map && c->map->rate)
        base += 120 * HTC_SECOND / c->map->rate;
    m->seen_at = s->now;
    m->patience = (base + random_up_to(s, base)) << m->stalled;
}

static void pause(htc_kv_server *s)
{
    s->cluster->moving->at = s->now + HTC_MS + random_up_to(s, s->cluster->suspect_ns / 4);
}

/* The epochs of the map itself are counted by themselves: its move has a number that says nothing of those of the buckets. */
void htc__kv_cluster_moving_heard(htc_kv_server *s, uint64_t from, uint32_t bucket, uint64_t number)
{
    const htc__kv_map *map = s->cluster->map;
    moving            *m = s->cluster->moving;
    if (bucket == HTC__KV_OWN_BUCKET) {
        m->seen_at = number > map->own_epoch ? s->now : m->seen_at;
        return;
    }
    if (number < map->mover)
        return;
    m->seen_at = s->now;
    m->seen_number = number;
    m->seen = from;
}

/* Numbers are taken one after the other by the same member, so who has had the last one has most likely this one too. */
uint64_t htc__kv_cluster_driver(const htc_kv_server *s)
{
    const moving *m = s->cluster->moving;
    if (m->number && m->number == s->cluster->map->mover)
        return s->cluster->id;
    return m->seen_number && m->seen_number + 1 >= s->cluster->map->mover ? m->seen : 0;
}

/* Somebody moves a bucket under a number that the map does not have here: that one may have died before it told of it, and what it has
 * sealed is served by nobody until another one goes on. */
static int map_is_behind(const htc_kv_server *s)
{
    return s->cluster->moving->seen_number > s->cluster->map->numbers;
}

/* ---------------------------------------------------------------- what is wished for */

static htc_kv_result outcome(const moving *m, const htc__kv_change_request *wish, htc_status status)
{
    htc_kv_result result = { .size = sizeof result, .op = HTC_KV_CHANGE, .status = status };
    if (status != HTC_OK) {
        result.value = htc_bytes_of(htc__kv_change_request_reason(wish, status));
        return result;
    }
    result.number = m->granted_buckets;
    result.version = m->granted_version;
    return result;
}

static void answer_asker(htc_kv_server *s, htc_status status)
{
    moving       *m = s->cluster->moving;
    htc__kv_face  asker = m->asker;
    htc_kv_result result = outcome(m, &m->wish, status);
    m->asker = (htc__kv_face){ 0 };
    if (!asker.answer)
        return;
    htc__kv_count_answer(&s->counts, HTC_KV_CHANGE, status);
    asker.answer(asker.ctx, m->asker_conn, m->asker_slot, &result);
}

static void end_wish(htc_kv_server *s, htc_status status)
{
    answer_asker(s, status);
    s->cluster->moving->wish.kind = HTC__KV_STAY;
}

/* A client hears in time what has become of its wish. */
static void look_at_wish(htc_kv_server *s)
{
    const htc__kv_map *map = s->cluster->map;
    moving            *m = s->cluster->moving;
    if (!m->asker.answer)
        return;
    if (htc__kv_change_request_under_way(map, &m->wish)) {
        m->granted_version = s->cluster->map_version;
        end_wish(s, HTC_OK);
    } else if (map->after && !htc__kv_change_request_any_time(&m->wish))
        end_wish(s, HTC_EBUSY);
    else if (s->now >= m->asker_until)
        end_wish(s, HTC_ETIMEDOUT);
}

/* ---------------------------------------------------------------- compare-and-swap */

static void drop_batch(moving *m)
{
    htc__kv_migration_batch_destroy(m->batch);
    m->batch = NULL;
    m->ready = 0;
}

/* A second's worth at most, where there is a limit. */
static uint32_t most_at_once(const moving *m, const htc__kv_map *map)
{
    uint32_t most = m->most ? m->most : 1, limit = map->rate < 60 ? 1 : map->rate / 60;
    return map->rate && limit < most ? limit : most;
}

static void changed(htc_kv_server *s, const htc_kv_result *result)
{
    moving *m = s->cluster->moving;
    m->number = m->taken;
    m->driving = 1;
    m->tell = 1;
    s->cluster->counts.moved += m->moved;
    m->granted_version = result->version;
    if (m->granted)
        end_wish(s, HTC_OK);
    if (m->moved && s->cluster->map->rate)
        m->at = s->now + m->moved * 60 * HTC_SECOND / s->cluster->map->rate;
    htc__kv_cluster_map_offer(s, m->next, result->version);
    m->next = NULL;
}

static void not_changed(htc_kv_server *s, const htc_kv_result *result)
{
    moving *m = s->cluster->moving;
    m->driving = 0;
    m->number = 0;
    m->most = 1;
    pause(s);
    wait_for_others(s);
    if (result->status == HTC_MISMATCH && result->version)
        htc__kv_cluster_map_offer_bytes(s, result->value, result->version);
    else
        m->read = 1; /* nobody knows what has become of it */
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    moving        *m = s->cluster->moving;
    (void)slot;
    if (conn != m->asked || !m->asking)
        return;
    m->asking = 0;
    drop_batch(m);
    if (!m->next) { /* it was read */
        if (result->status == HTC_OK)
            htc__kv_cluster_map_offer_bytes(s, result->value, result->version);
        if (map_is_behind(s))
            wait_for_others(s);
        m->read = (result->status != HTC_OK && result->status != HTC_ENOTFOUND) || !htc__kv_lost_known(s, result);
        if (m->read)
            pause(s);
        return;
    }
    if (result->status == HTC_OK)
        changed(s, result);
    else
        not_changed(s, result);
    htc__kv_map_destroy(m->next);
    m->next = NULL;
}

static void ask(htc_kv_server *s, const htc_kv_request *q)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    m->face = (htc__kv_face){ .answer = answered, .ctx = s };
    m->asking = 1;
    htc__kv_pending *r = htc__kv_pending_own(s, q, &m->face, ++m->asked, 0, s->now + c->request_ns);
    if (r)
        htc__kv_pending_route(s, r);
}

static void read_map(htc_kv_server *s)
{
    ask(s, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__kv_map_key() });
}

/* m->next is to be the map. */
static void swap_map(htc_kv_server *s)
{
    moving        *m = s->cluster->moving;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_CAS_VERSION, .key = htc__kv_map_key(), .version = s->cluster->map_version };
    htc_buf        value;
    htc_buf_init(&value, &s->env, 0);
    htc__kv_map_encode(&value, m->next);
    q.value = htc_buf_bytes(&value);
    if (value.status == HTC_OK)
        ask(s, &q);
    else
        htc__kv_cluster_broken(s, value.status);
    htc_buf_free(&value);
}

/* A copy of the map, to be changed. 0: no memory. */
static int draft(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    htc_buf bytes;
    m->taken = 0;
    m->moved = m->granted = 0;
    htc_buf_init(&bytes, &s->env, 0);
    htc__kv_map_encode(&bytes, s->cluster->map);
    htc_status status = bytes.status;
    if (status == HTC_OK)
        status = htc__kv_map_decode(&s->env, htc_buf_bytes(&bytes), &m->next);
    htc_buf_free(&bytes);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
    return status == HTC_OK;
}

static void discard(moving *m)
{
    htc__kv_map_destroy(m->next);
    m->next = NULL;
}

/* ---------------------------------------------------------------- steps */

static void take(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    if (!draft(s))
        return;
    m->driving = 1;
    if (htc__kv_map_take(m->next, most_at_once(m, m->next), &m->taken) == HTC_OK)
        swap_map(s);
    else
        discard(m);
}

static void activate(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    if (!draft(s))
        return;
    m->moved = htc__kv_migration_batch_count(m->batch);
    m->most = htc__kv_migration_batch_next(m->moved, htc__kv_migration_batch_bytes(m->batch));
    if (htc__kv_map_activate(m->next, m->number) != HTC_OK) {
        discard(m);
        drop_batch(m);
        m->number = 0;
        return;
    }
    if (m->next->after && !m->next->rate)
        (void)htc__kv_map_take(m->next, most_at_once(m, m->next), &m->taken);
    swap_map(s);
}

/* 1: the map's register is to be kept by others first, and that is under way. */
static int name_next(htc_kv_server *s, uint64_t without)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    htc__kv_map_own  wanted;
    htc__kv_map_wanted(c->map, without, &wanted);
    if (wanted.n == 0 || memcmp(&wanted, &c->map->own, sizeof wanted) == 0 || !draft(s))
        return 0;
    if (htc__kv_map_name_next(m->next, &wanted) != HTC_OK) {
        discard(m);
        return 0;
    }
    swap_map(s);
    return 1;
}

static int keeps(const htc__kv_map *map, uint64_t id)
{
    for (uint32_t i = 0; i < map->own.n; i++)
        if (map->own.id[i] == id)
            return 1;
    return 0;
}

/* It keeps the map, and would be no member any more when that is the map; 0: nobody. */
static uint64_t keeper_that_goes(const htc__kv_map *next)
{
    for (uint32_t i = 0; i < next->own.n; i++)
        if (!htc__kv_map_find(next, next->own.id[i]))
            return next->own.id[i];
    return 0;
}

/* 1: who goes with this batch, the last one, hands over what only it holds first, and lets go of the map. */
static int goes_later(htc_kv_server *s)
{
    const htc__kv_map *map = s->cluster->map;
    moving            *m = s->cluster->moving;
    if (!s->cluster->eventual && !keeps(map, map->leaver) && !keeps(map, map->comer.id))
        return 0;
    if (!draft(s))
        return 1;
    htc_status status = htc__kv_map_activate(m->next, m->number);
    uint64_t   goes = status == HTC_OK ? keeper_that_goes(m->next) : 0;
    int        holds_back = status == HTC_OK && htc__kv_eventual_holds_back(s, m->next);
    discard(m);
    if (holds_back)
        m->at = s->now + HOLDS_BACK;
    return holds_back || (goes && name_next(s, goes));
}

/* The map would be kept by no fewer without it. */
static int can_be_spared(const htc__kv_map *map, uint64_t id)
{
    htc__kv_map_own wanted;
    htc__kv_map_wanted(map, id, &wanted);
    return wanted.n >= map->own.n;
}

/* 1: who goes by what is wished would be gone at once, as nothing has to move for that, and holds back. */
static int goes_too_soon(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    if (!s->cluster->eventual || !draft(s))
        return 0;
    int holds_back = htc__kv_change_request_begin(m->next, &m->wish) == HTC_OK && !m->next->after && htc__kv_eventual_holds_back(s, m->next);
    discard(m);
    if (holds_back)
        m->at = s->now + HOLDS_BACK;
    return holds_back;
}

static void grant(htc_kv_server *s)
{
    moving  *m = s->cluster->moving;
    uint64_t goes = m->wish.kind == HTC__KV_LEAVE || m->wish.kind == HTC__KV_REPLACE ? m->wish.id : 0;
    if (goes && goes_too_soon(s))
        return;
    if (goes && htc__kv_map_find(s->cluster->map, goes) && can_be_spared(s->cluster->map, goes) && name_next(s, goes))
        return;
    if (s->broken != HTC_OK || !draft(s))
        return;
    m->granted = 1;
    htc_status status = htc__kv_change_request_begin(m->next, &m->wish);
    if (status != HTC_OK) { /* it is so already, or cannot be; if memory was short it is asked for once more */
        m->turned_away = status == HTC_ENOMEM ? 0 : m->wish.member.id;
        m->turned_away_map = s->cluster->map_version;
        m->turned_away_why = status;
        end_wish(s, status);
        discard(m);
        return;
    }
    uint64_t keeper = keeper_that_goes(m->next);
    if (keeper) { /* nothing has to move, or not any more */
        discard(m);
        (void)name_next(s, keeper);
        return;
    }
    uint32_t moved = 0, to_move = 0;
    htc__kv_map_progress(m->next, &moved, &to_move);
    m->granted_buckets = to_move - moved;
    m->most = 1;
    if (m->next->after)
        (void)htc__kv_map_take(m->next, m->most, &m->taken);
    swap_map(s);
}

htc_status htc__kv_cluster_change_request(htc_kv_server *s, const htc__kv_change_request *wish)
{
    moving *m = s->cluster->moving;
    if (m->wish.kind != HTC__KV_STAY)
        return HTC_EBUSY;
    m->wish = *wish;
    return HTC_OK;
}

int htc__kv_cluster_change(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn, uint64_t slot,
                           htc_kv_result *result)
{
    static const uint8_t kinds[] = { [HTC_KV_CHANGE_LEAVE] = HTC__KV_LEAVE,
                                     [HTC_KV_CHANGE_WEIGHT] = HTC__KV_REWEIGHT,
                                     [HTC_KV_CHANGE_BACK] = HTC__KV_BACK,
                                     [HTC_KV_CHANGE_RATE] = HTC__KV_RATE };
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    htc__kv_change_request     wish = { .kind = kinds[q->limit], .id = q->version, .member = { .weight = (uint32_t)q->delta } };
    htc_status       status = HTC_OK;
    if (htc__kv_change_request_under_way(c->map, &wish)) { /* asked for again */
        uint32_t moved, to_move;
        htc__kv_map_progress(c->map, &moved, &to_move);
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .version = c->map_version, .number = to_move - moved };
        return 1;
    }
    if (!m->asker.answer && !m->asking) /* who wants to be let in asks again */
        m->wish.kind = HTC__KV_STAY;
    if (m->asker.answer && htc__kv_change_request_same(&m->wish, &wish))
        answer_asker(s, HTC_EBUSY); /* the same client, which listens to its last try alone */
    else if (c->map->after && !htc__kv_change_request_any_time(&wish))
        status = HTC_EBUSY;
    else
        status = htc__kv_cluster_change_request(s, &wish);
    if (status != HTC_OK) {
        *result = outcome(m, &wish, status);
        return 1;
    }
    m->asker = *face;
    m->asker_conn = conn;
    m->asker_slot = slot;
    m->asker_until = s->now + c->request_ns;
    m->at = s->now;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    return 0;
}

/* Who knows the others by their addresses alone has to be told all of these. */
static int addresses_known(const htc__kv_map *map)
{
    for (uint32_t i = 0; i < map->members; i++)
        if (!map->member[i].address[0])
            return 0;
    return 1;
}

/* What it has wished for is as good as begun, or it hears why not, and asks again. A JOIN may be late: it was granted since, and who came has
 * left, or the change was given up. Each change takes a number, so it was asked as of another map then. */
void htc__kv_cluster_on_join(htc_kv_server *s, htc_bytes item, uint64_t as_of)
{
    const htc__kv_map *map = s->cluster->map;
    moving            *m = s->cluster->moving;
    htc__kv_change_request       wish = { 0 };
    htc_status         status = htc__kv_join_read(item, &wish.member, &wish.id);
    wish.kind = wish.id ? HTC__KV_REPLACE : HTC__KV_JOIN;
    if (status != HTC_OK || !map || htc__kv_map_find(map, wish.member.id))
        return;
    int same = m->wish.kind == wish.kind && m->wish.member.id == wish.member.id;
    if (m->turned_away == wish.member.id && m->turned_away_map == s->cluster->map_version)
        status = m->turned_away_why;
    else if (wish.member.address[0] && !addresses_known(map))
        status = HTC_EINVAL;
    else if (wish.id && !htc__kv_map_find(map, wish.id))
        status = HTC_ENOTFOUND;
    else if (map->after)
        status = HTC_EBUSY;
    else if (as_of != HTC__KV_UNSAID && as_of != map->numbers)
        status = HTC_AGAIN;
    else if (!same)
        status = htc__kv_cluster_change_request(s, &wish);
    if (status == HTC_OK)
        m->wish_numbers = map->numbers;
    m->join_status = status;
}

htc_status htc__kv_cluster_join_waits(const htc_kv_server *s)
{
    return s->cluster->moving->join_status;
}

/* ---------------------------------------------------------------- the mover's words */

void htc__kv_say_seal(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *ask)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc__kv_seal_ask_write(&c->scratch, ask);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, to, HTC__KV_ITEM_SEAL, htc_buf_bytes(&c->scratch));
}

void htc__kv_say_install(htc_kv_server *s, uint64_t to, const htc__kv_page *page)
{
    htc__kv_cluster *c = s->cluster;
    htc_buf_clear(&c->scratch);
    htc__kv_install_write(&c->scratch, page);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, to, HTC__KV_ITEM_INSTALL, htc_buf_bytes(&c->scratch));
}

static void say_seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    htc_kv_server *s = ctx;
    const moving  *m = s->cluster->moving;
    htc__kv_say_seal(s, to, &(htc__kv_seal_ask){ m->own ? epoch + 1 : m->number, epoch, bucket, after, 0 });
}

static void say_install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                        const htc__kv_floors *floors, htc_bytes entries)
{
    htc_kv_server *s = ctx;
    const moving  *m = s->cluster->moving;
    htc__kv_page   p = { .number = number, .bucket = bucket, .page = page, .last = last != 0, .floors = *floors };
    p.entries = m->own ? htc_buf_bytes(&m->image) : entries;
    htc__kv_say_install(s, to, &p);
}

static void say_ready(void *ctx, uint64_t number)
{
    htc_kv_server *s = ctx;
    (void)number;
    s->cluster->moving->ready = 1;
}

static void create_batch(htc_kv_server *s, const htc__kv_map_move *moves, uint32_t count, uint64_t number, int own)
{
    moving               *m = s->cluster->moving;
    htc__kv_migration_host    host = { .seal = say_seal, .install = say_install, .activate = say_ready, .ctx = s };
    htc__kv_migration_options o = { .retry_ns = 4 * s->options.member_retry_ns, .page_max = htc__kv_cluster_page(s, PAGE_BYTES) };
    if (!own)
        o.eventual = htc__kv_eventual_migration(s);
    m->own = own;
    m->ready = m->lost = m->large = 0;
    m->heard_at = s->now;
    htc_status status = htc__kv_migration_batch_create(&s->env, &o, &host, moves, count, number, s->now, &m->batch);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

static void begin_move(htc_kv_server *s)
{
    const htc__kv_map *map = s->cluster->map;
    uint32_t           count = 0;
    htc__kv_map_move  *moves = htc__alloc(&s->env, HTC__KV_MOVERS_BUCKETS * sizeof *moves);
    if (!moves) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    /* This member has taken it, so it is no larger than that. */
    for (uint32_t from = 0; count < HTC__KV_MOVERS_BUCKETS && htc__kv_map_batch(map, from, &moves[count]); count++)
        from = moves[count].bucket + 1;
    create_batch(s, moves, count, s->cluster->moving->number, 0);
    htc__free(&s->env, moves, HTC__KV_MOVERS_BUCKETS * sizeof *moves);
}

/* What follows from the map once its next owners are named; m->next is that. */
static htc_status write_image(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    htc_buf          value;
    htc_buf_init(&value, &s->env, 0);
    htc_buf_clear(&m->image);
    htc__kv_map_encode(&value, m->next);
    htc__kv_cell cell = { .present = 1, .version = c->map_version + 1, .value = htc_buf_bytes(&value) };
    cell.accepted = cell.promise = (htc__kv_ballot){ .epoch = m->next->own_epoch };
    htc__kv_entry_write(&m->image, htc__kv_map_key(), &cell);
    htc_status status = value.status == HTC_OK ? m->image.status : value.status;
    htc_buf_free(&value);
    return status;
}

static void move_map(htc_kv_server *s)
{
    htc__kv_cluster   *c = s->cluster;
    moving            *m = c->moving;
    const htc__kv_map *map = c->map;
    htc__kv_map_move   move = { .bucket = HTC__KV_OWN_BUCKET, .epoch = map->own_epoch };
    move.from_n = map->own.n;
    move.to_n = map->own_next.n;
    memcpy(move.from, map->own.id, sizeof move.from);
    memcpy(move.to, map->own_next.id, sizeof move.to);
    if (!draft(s))
        return;
    htc_status status = htc__kv_map_settle(m->next);
    if (status == HTC_OK)
        status = write_image(s);
    discard(m);
    if (status == HTC_OK)
        create_batch(s, &move, 1, map->own_epoch + 1, 1);
    else
        htc__kv_cluster_broken(s, status);
}

/* A majority of the next owners has it. */
static void map_has_moved(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    drop_batch(m);
    if (!draft(s))
        return;
    if (htc__kv_map_settle(m->next) == HTC_OK) {
        m->tell = 1;
        htc__kv_cluster_map_offer(s, m->next, s->cluster->map_version + 1);
        m->next = NULL;
    }
    discard(m);
}

/* With fewer buckets; what is too large alone may be moved by a member that has more room. */
static void too_large(htc_kv_server *s)
{
    moving  *m = s->cluster->moving;
    uint32_t count = htc__kv_migration_batch_count(m->batch);
    m->large = count == 1;
    m->lost |= m->large;
    if (m->lost && s->cluster->map->kind == HTC__KV_RENEW)
        return; /* it is given up */
    drop_batch(m);
    m->number = 0;
    m->most = count > 4 ? count / 4 : 1;
    if (count > 1)
        return;
    m->driving = 0;
    pause(s);
}

static void look_at_batch(htc_kv_server *s, htc_status status)
{
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    else if (status == HTC_EFULL)
        too_large(s);
    else if (status == HTC_ECORRUPT)
        s->cluster->moving->lost = 1;
}

static void on_shown(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    moving      *m = s->cluster->moving;
    htc__kv_page page;
    if (htc__kv_shown_read(item, &page) != HTC_OK || !m->batch)
        return;
    uint64_t number = m->own ? s->cluster->map->own_epoch + 1 : m->number;
    if (page.number != number || (page.bucket == HTC__KV_OWN_BUCKET) != m->own)
        return;
    m->heard_at = s->now;
    if (page.last == HTC__KV_PAGE_LOST)
        look_at_batch(s, htc__kv_migration_batch_lost(m->batch, s->now, from, page.bucket));
    else if (page.eventual)
        look_at_batch(s, htc__kv_migration_batch_shown_eventual(m->batch, s->now, from, page.bucket, page.after, page.entries, page.last));
    else
        look_at_batch(s, htc__kv_migration_batch_shown(m->batch, s->now, from, page.bucket, page.after, &page.floors, page.entries, page.last));
}

static void on_installed(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    moving      *m = s->cluster->moving;
    htc__kv_page page;
    if (htc__kv_installed_read(item, &page) != HTC_OK || !m->batch || (page.bucket == HTC__KV_OWN_BUCKET) != m->own)
        return;
    m->heard_at = s->now;
    htc__kv_migration_batch_installed(m->batch, s->now, from, page.bucket, page.number, page.page);
}

/* ---------------------------------------------------------------- the map is another one */

void htc__kv_cluster_moving_adopted(htc_kv_server *s)
{
    htc__kv_cluster   *c = s->cluster;
    moving            *m = c->moving;
    const htc__kv_map *map = c->map;
    if (map->moved != m->seen_moved || !map->after)
        m->stalled = 0;
    else if (m->stalled < STALLED_MAX)
        m->stalled++;
    m->seen_moved = map->moved;
    wait_for_others(s);
    if (m->batch && m->own && map->own_next.n == 0) {
        /* A next owner has said so before this member found that it is done: it goes on with what that was for. */
        m->tell = 1;
        drop_batch(m);
    }
    if (m->batch && !m->own && map->mover != m->number)
        drop_batch(m);
    if (map->mover != m->number)
        m->number = 0;
    if ((m->wish.kind == HTC__KV_JOIN || m->wish.kind == HTC__KV_REPLACE) && m->wish_numbers != map->numbers)
        m->wish.kind = HTC__KV_STAY; /* it may have been let in since, and left: who still waits asks again */
    if (m->tell)
        htc__kv_cluster_say_map(s, 0);
    else
        m->driving = 0; /* somebody else does something: who mended the map's keepers now would be in the way of who lets one go */
    m->tell = 0;
}

/* ---------------------------------------------------------------- time */

static htc_ns turn_at(const moving *m)
{
    return m->driving ? m->at : m->seen_at + m->patience > m->at ? m->seen_at + m->patience : m->at;
}

static htc_ns begins_at(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const moving          *m = c->moving;
    if (c->map->own_next.n) /* nothing newer can be read before it has moved */
        return turn_at(m);
    if (m->read || (m->wish.kind != HTC__KV_STAY && (!c->map->after || htc__kv_change_request_any_time(&m->wish))))
        return m->at;
    if (c->map->after)
        return m->number && m->number == c->map->mover ? m->at : turn_at(m);
    if (map_is_behind(s))
        return turn_at(m);
    if (!htc__kv_keeping_to_mend(s)) {
        htc_ns repair = htc__kv_repair_at(s);
        return repair > m->at ? repair : m->at;
    }
    return m->driving ? m->at : m->seen_at + MEND * m->patience;
}

/* What this member has lost is taken from those that have it. */
static void renew(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    if (!draft(s))
        return;
    m->most = 1;
    htc_status status = htc__kv_repair_begin(s, m->next);
    if (status == HTC_OK && m->next->after)
        status = htc__kv_map_take(m->next, m->most, &m->taken);
    if (status == HTC_OK)
        swap_map(s);
    else
        discard(m);
}

static void begin_something(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    if (c->map->own_next.n)
        move_map(s);
    else if (m->read)
        read_map(s);
    else if (htc__kv_change_request_any_time(&m->wish))
        grant(s);
    else if (c->map->after && m->number && m->number == c->map->mover) {
        if (!goes_later(s))
            begin_move(s);
    } else if (c->map->after)
        take(s);
    else if (m->wish.kind != HTC__KV_STAY)
        grant(s);
    else if (map_is_behind(s))
        read_map(s);
    else if (htc__kv_keeping_to_mend(s))
        (void)name_next(s, 0);
    else
        renew(s);
}

/* Its owners wait while a bucket is renewed, so that goes on only as long as it gets somewhere. */
static int in_vain(const htc_kv_server *s)
{
    const moving *m = s->cluster->moving;
    return m->batch && !m->own && !m->ready && s->cluster->map->kind == HTC__KV_RENEW &&
           (m->lost || s->now - m->heard_at > 2 * s->cluster->suspect_ns);
}

static void give_up(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    htc__kv_repair_given_up(s, m->large ? HTC_EFULL : m->lost ? HTC_ECORRUPT : HTC_ETIMEDOUT);
    drop_batch(m);
    if (!draft(s))
        return;
    if (htc__kv_map_roll_back(m->next, m->number) == HTC_OK)
        swap_map(s);
    else
        discard(m);
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    moving          *m = c->moving;
    if (!c->map || m->asking || htc__kv_keeping_is_offered(s))
        return;
    look_at_wish(s);
    if (htc__kv_change_request_any_time(&m->wish) && m->batch && !m->own)
        drop_batch(m);
    if (m->batch && m->ready && m->own)
        map_has_moved(s);
    else if (m->batch && m->ready)
        activate(s);
    else if (in_vain(s))
        give_up(s);
    else if (m->batch && htc__kv_migration_batch_deadline(m->batch) <= s->now)
        look_at_batch(s, htc__kv_migration_batch_timeout(m->batch, s->now));
    else if (!m->batch && begins_at(s) <= s->now)
        begin_something(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const moving          *m = c->moving;
    htc_ns                 at = HTC_NEVER;
    if (c->map && !m->asking && !htc__kv_keeping_is_offered(s))
        at = !m->batch ? begins_at(s) : m->ready ? 0 : htc__kv_migration_batch_deadline(m->batch);
    if (c->map && !m->asking && m->asker.answer && m->asker_until < at)
        at = m->asker_until;
    return at;
}

/* ---------------------------------------------------------------- life */

void htc__kv_cluster_moving_read(htc_kv_server *s)
{
    s->cluster->moving->read = 1;
}

/* What this member has stored of the map may be older than all that it has done since. Where there is no trace of a change it asks
 * nobody: a majority of those that keep the map has one, if there was any, and tells. */
static htc_status load(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_name     name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, htc__kv_map_key());
    htc_bytes        bytes;
    c->moving->read |= c->map && (c->map_version || htc__kv_buckets_sealed(s) ||
                                  htc__kv_read(s, htc__kv_name_bytes(&name), &bytes) != HTC_ENOTFOUND);
    if (c->moving->read)
        wait_for_others(s);
    return HTC_OK;
}

static htc_status make_moving(htc_kv_server *s)
{
    moving *m = htc__alloc(&s->env, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    htc_buf_init(&m->image, &s->env, 0);
    s->cluster->moving = m;
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    moving *m = s->cluster->moving;
    if (!m)
        return;
    drop_batch(m);
    htc__kv_map_destroy(m->next);
    htc_buf_free(&m->image);
    htc__free(&s->env, m, sizeof *m);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (kind == HTC__KV_ITEM_SHOWN ? on_shown : on_installed)(s, from, item);
}

const htc__kv_component htc__kv_component_moving = { .make = make_moving, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .on_item = on_item,
                                           .items = { HTC__KV_ITEM_SHOWN, HTC__KV_ITEM_INSTALLED } };
