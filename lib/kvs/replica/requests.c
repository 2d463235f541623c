/* Requests on their way: to this member's register or to another one's, until they are answered. */
#include <string.h>

#include "kvs/replica/cluster_private.h"
#include "kvs/util/digest.h"
#include "kvs/eventual/eventual.h"

/* A request that came before the map that it was sent by. */
#define EARLY_NS (20 * HTC_MS)

/* What other members have forwarded and this one has not answered: beyond this another one is refused. */
#define FORWARDED_BYTES ((size_t)128 << 20)

/* An owner that is heard is waited for twice as long as it took of late, and at least and at most so many times suspect_ns; this part of a
 * request's time is left for the next owner. */
#define SLOW_MIN  6u
#define SLOW_MAX  24u
#define LEFT_PART 4u

typedef htc__kv_pending request;

static void route(htc_kv_server *s, request *r);

struct htc__kv_asked {
    htc__table        requests; /* by tag */
    htc__wheel        wheel;
    htc__kv_passed_on passed_on;       /* by tag, and the member that did not answer in time */
    size_t            forwarded_bytes; /* of requests that other members have forwarded, and that are not answered yet */
    htc__kv_face      child_face;
};

static request *find(const htc_kv_server *s, uint64_t tag)
{
    htc__node *node = htc__table_find(&s->cluster->asked->requests, (htc_bytes){ &tag, sizeof tag });
    return node ? htc__node_value(node) : NULL;
}

/* In memory, about: the register has as much of it again while it is at work. */
static size_t cost_of(const request *r)
{
    return 2 * (sizeof *r + r->size);
}

static void forget(htc_kv_server *s, request *r)
{
    uint64_t tag = r->tag;
    if (!r->face)
        s->cluster->asked->forwarded_bytes -= cost_of(r);
    if (r->client)
        htc__kv_flight_leave(&s->flight, r->flies);
    htc__wheel_remove(&s->cluster->asked->wheel, &r->entry);
    htc__free(&s->env, r->bytes, r->size);
    htc__table_remove(&s->cluster->asked->requests, (htc_bytes){ &tag, sizeof tag });
}

static void take(uint8_t **at, htc_bytes *bytes)
{
    if (bytes->len)
        memcpy(*at, bytes->data, bytes->len);
    bytes->data = *at;
    *at += bytes->len;
}

static request *make(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         tag = c->last_tag + 1;
    size_t           size = q->key.len + q->value.len + q->seen.len;
    htc__node       *node = htc__table_make(&c->asked->requests, (htc_bytes){ &tag, sizeof tag }, sizeof(request));
    uint8_t         *at = node ? htc__alloc(&s->env, size) : NULL;
    if (!at) {
        htc__table_discard(&c->asked->requests, node);
        return NULL;
    }
    request *r = htc__node_value(node);
    *r = (request){ .tag = tag, .stamp = *stamp, .q = *q, .op = q->op, .arrived = s->now, .bytes = at, .size = size };
    r->q.cursor = (htc_bytes){ NULL, 0 };
    take(&at, &r->q.key);
    take(&at, &r->q.value);
    take(&at, &r->q.seen);
    htc__table_link(&c->asked->requests, node);
    c->last_tag = tag;
    return r;
}

static void due_at(htc_kv_server *s, request *r, htc_ns at)
{
    htc__wheel_remove(&s->cluster->asked->wheel, &r->entry);
    htc__wheel_add(&s->cluster->asked->wheel, &r->entry, at < r->until ? at : r->until);
}

/* A change that failed has changed nothing, but where it was sent more than once another copy of it may yet come to an owner,
 * when it would not fail any more. */
static int doubtful(const request *r, const htc_kv_result *a)
{
    return r->face && htc__kv_is_change(r->op) && a->status != HTC_OK && a->status != HTC_ETIMEDOUT &&
           r->stamp.client && (r->again || !r->stamp.fresh);
}

/* A lease that is gone may have been ended by this very request, by another owner or at an earlier try. */
static int ended_here(const request *r, htc_status status)
{
    return r->kind == HTC__KV_FORWARD_REVOKE && status == HTC_ENOTFOUND && (r->tried || r->again || !r->stamp.fresh);
}

/* A lease was granted before if its record names this very request. */
static htc_kv_result granted(const request *r, const htc_kv_result *a)
{
    htc__kv_lease_record record;
    htc_kv_result        result = { .size = sizeof result, .status = a->status, .lease = r->lease };
    if (a->status == HTC_MISMATCH)
        result.status = htc__kv_lease_record_read(a->value, &record) == HTC_OK && record.client == r->stamp.client &&
                                record.sequence == r->stamp.sequence
                            ? HTC_OK
                            : HTC_EBUSY;
    return result;
}

/* No owner has tried it, and it came here for the first time: if it was sent nowhere else it was not done, and may be asked for anew
 * with what is known now. Whether it was, its client alone knows: it may have left this member long ago. */
static int untried(const request *r, const htc__kv_forwarded *a)
{
    return a->result.status == HTC_EUNKNOWN && r->stamp.fresh && !r->tried && !r->again &&
           (r->ours || r->stamp.since < a->observed);
}

/* A change of a client that has no number of its own, such as Redis': as one of this member's it can be asked for at another owner
 * too, and takes place once. Its own client cannot repeat it, and what is newer at its key may come from another client: so a
 * number that was overtaken before anybody tried it is drawn anew. */
static void number_it(htc_kv_server *s, request *r)
{
    htc__kv_cluster *c = s->cluster;
    r->ours = 1;
    r->stamp.client = c->own_client;
    r->stamp.sequence = ++c->own_sequence;
    r->stamp.since = c->clock;
}

/* What one register does: what needs more is made of it (leases), or is cluster_scan.c's. */
static int possible(uint32_t op)
{
    return op == HTC_KV_GET || htc__kv_is_change(op);
}

/* To the face that asked, or to the member that forwarded it. */
static void tell(htc_kv_server *s, request *r, const htc__kv_forwarded *answer)
{
    htc__kv_cluster *c = s->cluster;
    if (answer->observed > c->clock && answer->observed <= HTC__KV_SINCE_MAX)
        c->clock = answer->observed;
    if (r->ours && untried(r, answer)) {
        number_it(s, r);
        route(s, r);
        return;
    }
    if (r->face) {
        htc_kv_result result = answer->result;
        if (r->op == HTC_KV_GET && result.status == HTC_ENOTFOUND)
            result.version = answer->observed; /* of the deletion: whoever watches the key has to know it */
        if (untried(r, answer))
            result = (htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_AGAIN };
        else if (r->op == HTC_KV_LEASE_GRANT)
            result = granted(r, &result);
        else if (r->kind >= HTC__KV_FORWARD_RENEW)
            result = (htc_kv_result){ .size = sizeof(htc_kv_result), .status = ended_here(r, result.status) ? HTC_EUNKNOWN : result.status,
                                      .lease = r->lease };
        else if (doubtful(r, &result))
            result = (htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_EUNKNOWN, .version = result.version };
        result.op = r->op;
        if (r->client)
            htc__kv_count_answer(&s->counts, r->op, result.status);
        if (r->client && r->op == HTC_KV_GET)
            htc__kv_flight_read(&s->flight, r->q.key, result.value.len);
        if (r->elsewhere && r->client && r->face->elsewhere && possible(r->op))
            r->face->elsewhere(r->face->ctx, r->conn);
        r->face->answer(r->face->ctx, r->conn, r->slot, &result);
    } else {
        htc__kv_forwarded back = *answer;
        back.tag = r->slot;
        htc_buf_clear(&c->scratch);
        htc__kv_forwarded_write(&c->scratch, &back);
        if (c->scratch.status == HTC_OK)
            htc__kv_cluster_say(s, r->conn, HTC__KV_ITEM_ANSWER, htc_buf_bytes(&c->scratch));
    }
    forget(s, r);
}

static void fail(htc_kv_server *s, request *r, htc_status status)
{
    tell(s, r, &(htc__kv_forwarded){ .tried = r->tried, .result = { .op = r->q.op, .status = status } });
}

/* Whoever calls is in the middle of something, and is not told anything meanwhile: so it is only noted, as something said to
 * oneself. */
static void note(htc_kv_server *s, uint64_t tag, const htc__kv_forwarded *answer)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_forwarded a = *answer;
    a.tag = tag;
    htc_buf_clear(&c->scratch);
    htc__kv_forwarded_write(&c->scratch, &a);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, c->id, HTC__KV_ITEM_ANSWER, htc_buf_bytes(&c->scratch));
    else
        htc__kv_cluster_broken(s, c->scratch.status);
}

/* The same where the one who asks may still be asking. */
static void refuse(htc_kv_server *s, request *r, htc_status status)
{
    r->target = s->cluster->id;
    htc__wheel_remove(&s->cluster->asked->wheel, &r->entry);
    note(s, r->tag, &(htc__kv_forwarded){ .tried = r->tried, .result = { .op = r->q.op, .status = status } });
}

/* ---------------------------------------------------------------- where it goes */

void htc__kv_pending_propose(htc_kv_server *s, request *r, const htc_kv_request *q)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, r->q.key, &bucket);
    uint64_t       tag = r->tag;
    r->target = s->cluster->id;
    r->listed = 0;
    htc__wheel_remove(&s->cluster->asked->wheel, &r->entry); /* the register answers in time */
    htc_status status = htc__kv_register_ask(s->cluster->reg, s->now, &owners, q, &r->stamp, r->tried, r->until, tag);
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    else if (status != HTC_OK && (r = find(s, tag)))
        refuse(s, r, status == HTC_EFULL ? HTC_EBUSY : status); /* too many are asked for */
}

/* Why a change is not begun here: the owners hold much the same, and have much the same room. What another owner may have begun
 * goes on, since "refused" would be no answer to it. */
static htc_status no_room(const htc_kv_server *s, const request *r)
{
    if (!htc__kv_is_change(r->q.op))
        return HTC_OK;
    if (s->options.memory_max && r->q.op != HTC_KV_DELETE && s->cells.ops->used(s->cells.ctx) > s->options.memory_max)
        return HTC_EFULL;
    if (r->tried)
        return HTC_OK;
    htc_status room = (r->q.op == HTC_KV_DELETE || r->q.op >= HTC__KV_EXPIRE ? htc__kv_room : htc__kv_room_to_grow)(s, r->q.key.len, r->q.value.len);
    return room == HTC_EBUSY ? HTC_OK : room;
}

/* Whoever writes the record of a lease keeps it. */
static void propose(htc_kv_server *s, request *r)
{
    htc_kv_request       q = r->q;
    htc__kv_lease_record record;
    uint64_t             lease;
    r->step = 0;
    htc_status room = no_room(s, r);
    if (room != HTC_OK) {
        refuse(s, r, room);
        return;
    }
    if (r->kind == HTC__KV_FORWARD_UNBIND) {
        q.op = HTC__KV_UNBIND;
        q.version = r->lease;
    }
    if (q.op != HTC_KV_PUT || !htc__kv_is_lease_key(q.key, &lease)) {
        htc__kv_pending_propose(s, r, &q);
        return;
    }
    if (htc__kv_leases_count(s) >= s->options.leases_max || htc__kv_lease_record_read(q.value, &record) != HTC_OK) {
        refuse(s, r, HTC_EBUSY);
        return;
    }
    record.keeper = s->cluster->id;
    htc_buf_clear(&s->scratch);
    htc__kv_lease_record_write(&s->scratch, &record);
    q.value = htc_buf_bytes(&s->scratch);
    htc__kv_pending_propose(s, r, &q);
}

/* It cannot answer before its own connection to this member is there, and an answer that is lost is not given twice. */
static int can_answer(const htc__kv_peer *peer)
{
    return peer->connected && peer->heard >= peer->opened;
}

static void forward(htc_kv_server *s, request *r, uint64_t to)
{
    htc__kv_cluster *c = s->cluster;
    r->target = to;
    r->unsent = !can_answer(htc__kv_cluster_peer(c, to));
    if (r->unsent) {
        due_at(s, r, s->now + c->suspect_ns / 16);
        return;
    }
    uint64_t        dropped = c->counts.dropped;
    htc__kv_forward f = { .tag = r->tag, .tried = r->tried, .kind = r->kind, .stamp = r->stamp, .request = r->q };
    f.epoch = htc__kv_bucket_epoch(c, htc__kv_cluster_bucket(c, r->q.key));
    f.lease = r->lease;
    r->elsewhere = 1;
    c->counts.forwarded++;
    htc_buf_clear(&c->scratch);
    htc__kv_forward_write(&c->scratch, &f);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, to, HTC__KV_ITEM_FORWARD, htc_buf_bytes(&c->scratch));
    r->given = s->now;
    r->unsent = c->counts.dropped > dropped; /* too much waits for that member */
    due_at(s, r, s->now + (r->unsent ? c->suspect_ns / 16 : c->suspect_ns + 2 * htc__kv_patience(r->q.value.len)));
}

/* Whoever handed it over knows another map than this member, which one of them will hear of; or nobody has room for it now. */
static void wait_a_little(htc_kv_server *s, request *r)
{
    r->target = 0;
    r->unsent = 1;
    due_at(s, r, s->now + s->cluster->suspect_ns / 16);
}

static int owns(const htc_kv_server *s, htc_bytes key)
{
    return htc__kv_route_has(s->cluster, htc__kv_cluster_bucket(s->cluster, key), s->cluster->id);
}

static void forward_or_propose(htc_kv_server *s, request *r, uint64_t to)
{
    if (r->q.op >= HTC__KV_EXPIRE)
        fail(s, r, HTC_ETIMEDOUT); /* an owner's own business: it tries again */
    else if (to == s->cluster->id ? !owns(s, r->q.key) : !htc__kv_cluster_peer(s->cluster, to))
        wait_a_little(s, r);
    else if (to == s->cluster->id)
        propose(s, r);
    else
        forward(s, r, to);
}

/* To the owner that is to propose; after one that did not answer, to the next. */
static void route(htc_kv_server *s, request *r)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, r->q.key, &bucket);
    uint32_t       at = (owners.first + r->attempt) % owners.n;
    for (uint32_t i = 0; i < owners.n; i++, at = (at + 1) % owners.n)
        if (!htc__kv_cluster_suspected(s, htc__kv_cluster_peer(s->cluster, owners.id[at])))
            break;
    forward_or_propose(s, r, owners.id[at]);
}

/* It was given to an owner that is there, or the only one, and may be slow: whoever writes to a slow disk is heard all the while. */
static int is_in_hand(const htc_kv_server *s, const request *r)
{
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, r->target);
    uint32_t            bucket;
    return (peer && !htc__kv_cluster_suspected(s, peer)) || htc__kv_cluster_owners(s, r->q.key, &bucket).n == 1;
}

/* Done twice it would be done twice, and whether it was done nobody could say. */
static int may_be_repeated(const request *r)
{
    return r->q.op == HTC_KV_GET || r->stamp.client || r->kind == HTC__KV_FORWARD_UNBIND;
}

/* Until when another owner is not asked: two that propose for one key overtake each other, and neither gets far where each write takes
 * long. Whoever is not heard any more, or has lost its connection since, may never have got it; who was left already, and has done nothing since,
 * is not slow; a renewal waits for no disk. */
static htc_ns is_left_at(const htc_kv_server *s, const request *r)
{
    const htc__kv_cluster *c = s->cluster;
    const htc__kv_peer    *peer = htc__kv_cluster_peer(c, r->target);
    if (!peer || htc__kv_cluster_suspected(s, peer) || peer->opened > r->given || peer->hailed > r->given ||
        peer->left > peer->answered || r->kind == HTC__KV_FORWARD_RENEW)
        return 0;
    htc_ns wait = 2 * htc__kv_latency_longest(&peer->pace, s->now, c->suspect_ns);
    wait = wait < SLOW_MIN * c->suspect_ns ? SLOW_MIN * c->suspect_ns : wait;
    wait = wait > SLOW_MAX * c->suspect_ns ? SLOW_MAX * c->suspect_ns : wait;
    wait += 2 * htc__kv_patience(r->q.value.len);
    if (peer->answered > r->given)
        return peer->answered + wait;
    htc_ns at = r->given + wait, last = r->until - (r->until - r->arrived) / LEFT_PART;
    return at < last ? at : last;
}

/* What one owner may have begun another one finishes; but a request that nobody may repeat is not asked for twice: it waits for the owner
 * that has it, and fails where that is gone. */
static void next_owner(htc_kv_server *s, request *r)
{
    if (r->unsent) {
        r->attempt++;
        route(s, r);
        return;
    }
    if (!may_be_repeated(r)) {
        if (is_in_hand(s, r))
            due_at(s, r, s->now + s->cluster->suspect_ns);
        else
            fail(s, r, HTC_ETIMEDOUT);
        return;
    }
    htc_ns left_at = is_left_at(s, r), look_at = s->now + s->cluster->suspect_ns;
    if (s->now < left_at) {
        due_at(s, r, left_at < look_at ? left_at : look_at);
        return;
    }
    htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, r->target);
    if (peer)
        peer->left = s->now;
    htc__kv_passed_note(&s->cluster->asked->passed_on, r->tag, r->target, r->given);
    r->attempt++;
    r->again = 1;
    s->cluster->counts.passed_on++;
    r->tried |= r->q.op != HTC_KV_GET;
    route(s, r);
}

/* Forwarded by a member that knew more of who owns it; by now this one should too. Nobody has tried it. */
static void place(htc_kv_server *s, request *r)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, r->q.key, &bucket);
    r->early = 0;
    if (htc__kv_route_has(s->cluster, bucket, s->cluster->id))
        propose(s, r);
    else
        tell(s, r, &(htc__kv_forwarded){ .tried = r->tried, .to = owners.id[owners.first] });
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    while (htc__wheel_next(&c->asked->wheel) <= s->now) {
        request *r = (request *)htc__wheel_take(&c->asked->wheel, s->now);
        if (!r)
            continue;
        if (r->until <= s->now)
            fail(s, r, HTC_ETIMEDOUT);
        else if (r->early)
            place(s, r);
        else
            next_owner(s, r);
    }
}

void htc__kv_pending_route(htc_kv_server *s, request *r)
{
    route(s, r);
}

void htc__kv_pending_give(htc_kv_server *s, request *r, uint64_t to)
{
    if (r->face)
        forward_or_propose(s, r, to);
    else
        tell(s, r, &(htc__kv_forwarded){ .tried = r->tried, .to = to });
}

void htc__kv_pending_tell(htc_kv_server *s, request *r, const htc__kv_forwarded *answer)
{
    tell(s, r, answer);
}

request *htc__kv_pending_own(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn,
                            uint64_t slot, htc_ns until)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    request                   *r = make(s, q, &nobody);
    if (!r) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return NULL;
    }
    r->face = face;
    r->conn = conn;
    r->slot = slot;
    r->until = until;
    return r;
}

/* ---------------------------------------------------------------- leases that have to be known first */

/* What is asked on behalf of a request that waits for it. */
typedef enum child { LEASE_NAMED = 1, LEASE_BOUND, UNBOUND } child;

static void child_answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    request       *r = find(s, conn), *next;
    int            gone = result->status == HTC_ENOTFOUND || (slot == UNBOUND && result->status == HTC_MISMATCH);
    if (!r)
        return;
    if (result->status != HTC_OK && !gone) {
        fail(s, r, result->status);
    } else if (slot == LEASE_NAMED && gone) {
        fail(s, r, HTC_ENOTFOUND);
    } else if (slot == LEASE_BOUND && gone) {
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = r->q.key };
        if ((next = htc__kv_pending_own(s, &q, &s->cluster->asked->child_face, r->tag, UNBOUND, r->until))) {
            next->kind = HTC__KV_FORWARD_UNBIND;
            next->lease = r->lease;
            route(s, next);
        }
    } else {
        r->stamp.alive = slot == LEASE_BOUND ? r->lease : 0;
        route(s, r);
    }
}

/* A lease lives if its record does. Found to live after r was asked, it lived while r was: then whatever r does to a key that is
 * bound to it may stand at that moment. */
static void look_at_lease(htc_kv_server *s, request *r, uint64_t lease, child what)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_lease_key key;
    htc_kv_request    q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc__kv_lease_key_of(&key, lease) };
    c->asked->child_face = (htc__kv_face){ .answer = child_answered, .ctx = s };
    htc__wheel_remove(&c->asked->wheel, &r->entry);
    request *look = htc__kv_pending_own(s, &q, &c->asked->child_face, r->tag, what, r->until);
    if (look)
        route(s, look);
}

/* ---------------------------------------------------------------- asked and answered */

/* As requests about the lease's record. */
static int ask_lease(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp, htc_kv_request *as,
                     htc__kv_lease_key *key, htc_buf *value, uint64_t *id)
{
    uint64_t words[2] = { stamp->client ? stamp->client : htc_rng_next(s->env.rng), stamp->sequence };
    *id = q->op == HTC_KV_LEASE_GRANT ? htc__digest_words(words, 2, 0) | 1 : q->lease;
    *as = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__kv_lease_key_of(key, *id) };
    if (q->op != HTC_KV_LEASE_GRANT)
        return q->op == HTC_KV_LEASE_RENEW ? HTC__KV_FORWARD_RENEW : HTC__KV_FORWARD_REVOKE;
    htc_buf_clear(value);
    htc__kv_lease_record_write(value, &(htc__kv_lease_record){ .client = stamp->client, .sequence = stamp->sequence });
    as->op = HTC_KV_PUT;
    as->flags = HTC_KV_NX;
    as->value = htc_buf_bytes(value);
    as->ttl = q->ttl < s->options.lease_ttl_min   ? s->options.lease_ttl_min
              : q->ttl > s->options.lease_ttl_max ? s->options.lease_ttl_max
                                                  : q->ttl;
    return HTC__KV_FORWARD_PLAIN;
}

static int ask(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn,
               uint64_t slot, htc_kv_result *result)
{
    if (q->space.len)
        return htc__kv_eventual_ask(s, q, stamp, face, conn, slot, result);
    if (q->op == HTC_KV_SCAN || q->op == HTC_KV_COUNT)
        return htc__kv_cluster_scan(s, q, face, conn, slot, result);
    htc_kv_request    as = *q;
    htc__kv_lease_key key;
    uint64_t          lease = 0;
    int               kind = HTC__KV_FORWARD_PLAIN;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = htc__kv_own_key(q->key) ? HTC_EINVAL : HTC_OK };
    if (result->status != HTC_OK)
        return 1;
    if (!possible(q->op))
        kind = ask_lease(s, q, stamp, &as, &key, &s->scratch, &lease);
    *(htc__kv_is_change(q->op) ? &s->stats.changes : &s->stats.reads) += 1;
    request *r = make(s, &as, stamp);
    if (!r) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        result->status = HTC_ENOMEM;
        return 1;
    }
    r->face = face;
    r->conn = conn;
    r->slot = slot;
    r->op = q->op;
    r->kind = (uint8_t)kind;
    r->lease = lease;
    r->client = !htc__kv_scans_asks(s, face);
    r->flies = r->op == HTC_KV_GET ? htc__kv_flight_guess(&s->flight, r->q.key) : r->size;
    r->until = s->now + s->cluster->request_ns + htc__kv_flight_patience(&s->flight, r->flies);
    if (r->client)
        htc__kv_flight_enter(&s->flight, r->flies);
    htc__kv_flight_asked(&s->flight, r->q.key, r->q.value.len);
    if (stamp->client == 0 && htc__kv_is_change(r->q.op))
        number_it(s, r);
    if (q->op == HTC_KV_PUT && q->lease)
        look_at_lease(s, r, q->lease, LEASE_NAMED);
    else
        route(s, r);
    return 0;
}

static void report(htc_kv_server *s, const htc_kv_request *q, htc_kv_result *result)
{
    s->stats.reads++;
    result->status = htc__kv_cluster_report(s, q->limit == 1, &result->value);
    if (result->status != HTC_OK)
        result->value = (htc_bytes){ NULL, 0 };
    if (result->status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, result->status);
}

int htc__kv_cluster_ask(htc_kv_server *s, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face,
                        uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    int told = 1;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_EBUSY };
    if (s->cluster->map && q->op == HTC_KV_MEMBERS)
        report(s, q, result);
    else if (s->cluster->map && q->op == HTC_KV_COUNT && q->flags)
        htc__kv_eventual_count(s, result);
    else if (s->cluster->map && q->op == HTC_KV_SCAN && q->flags & HTC_KV_EVENTUAL)
        htc__kv_eventual_list(s, q, result);
    else if (s->cluster->map && q->op == HTC_KV_CHANGE)
        told = htc__kv_cluster_change(s, q, face, conn, slot, result);
    else if (s->cluster->map) /* else it has not been let in yet */
        told = ask(s, q, stamp, face, conn, slot, result);
    if (told && !htc__kv_scans_asks(s, face))
        htc__kv_count_answer(&s->counts, q->op, result->status);
    return told;
}

/* It is not done here (a later version's; there are too many), but another owner may have tried it. */
static void not_here(htc_kv_server *s, uint64_t from, const htc__kv_forward *f, htc_status why)
{
    htc__kv_cluster  *c = s->cluster;
    htc__kv_forwarded back = { .tag = f->tag, .tried = f->tried, .result.status = f->tried ? HTC_EUNKNOWN : why };
    htc_buf_clear(&c->scratch);
    htc__kv_forwarded_write(&c->scratch, &back);
    if (c->scratch.status == HTC_OK)
        htc__kv_cluster_say(s, from, HTC__KV_ITEM_ANSWER, htc_buf_bytes(&c->scratch));
}

/* Asked by another member, which takes this one for the owner that is to propose. It is kept until it is answered, but no longer
 * than that member waits; one that arrives twice is asked for twice, which its stamp makes harmless. */
static void on_forward(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_forward f;
    htc_status      status = htc__kv_forward_read(item, &f);
    if (status == HTC_OK && s->cluster->asked->forwarded_bytes > FORWARDED_BYTES)
        status = HTC_EBUSY;
    if (status == HTC_EUNSUPPORTED || status == HTC_EBUSY)
        not_here(s, from, &f, status);
    if (status != HTC_OK || !possible(f.request.op))
        return;
    uint32_t bucket = htc__kv_cluster_bucket(s->cluster, f.request.key);
    int      same = htc__kv_cluster_epoch_is(s, from, bucket, f.epoch);
    request *r = make(s, &f.request, &f.stamp);
    if (!r) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    s->cluster->asked->forwarded_bytes += cost_of(r);
    r->conn = from;
    r->slot = f.tag;
    r->tried = f.tried;
    r->kind = f.kind;
    r->lease = f.lease;
    r->until = s->now + s->cluster->request_ns + htc__kv_flight_patience(&s->flight, r->q.value.len);
    if (same || f.epoch < htc__kv_bucket_epoch(s->cluster, bucket)) {
        place(s, r);
        return;
    }
    r->early = 1;
    due_at(s, r, s->now + EARLY_NS);
}

/* How long that member took, to whomever the request was given meanwhile. What is long takes longer, whoever answers. */
static void note_pace(htc_kv_server *s, uint64_t from, const request *r, const htc__kv_forwarded *a)
{
    htc__kv_cluster      *c = s->cluster;
    htc__kv_peer         *peer = htc__kv_cluster_peer(c, from);
    const htc__kv_passed *late = htc__kv_passed_find(&c->asked->passed_on, a->tag, from);
    if (!peer || peer->self || !(late || (r && r->target == from)) || a->result.status == HTC_ETIMEDOUT)
        return;
    if (!r || htc__kv_is_change(r->q.op))
        peer->answered = s->now;
    if (a->result.value.len <= HTC__KV_LONG_VALUE && !(r && r->q.value.len > HTC__KV_LONG_VALUE))
        htc__kv_latency_answered(&peer->pace, s->now, late ? late->given : r->given, c->suspect_ns);
}

/* An owner has too much in work, and has done nothing: it is asked again, or another one. A member that has too many leases says the same of a lease,
 * which is an answer. */
static int has_too_much(const request *r, const htc__kv_forwarded *a)
{
    uint64_t lease;
    return r->face && a->result.status == HTC_EBUSY && r->kind == HTC__KV_FORWARD_PLAIN && !htc__kv_is_lease_key(r->q.key, &lease);
}

/* An owner's word, or this member's own register's. Only who has the request now is believed: an earlier one may say that it failed
 * while this one makes it. */
static void on_answer(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_forwarded a;
    request          *r;
    if (htc__kv_forwarded_read(item, &a) != HTC_OK)
        return;
    r = find(s, a.tag);
    note_pace(s, from, r, &a);
    if (!r || r->target != from)
        return;
    r->tried |= a.tried;
    if (a.to) { /* it lost too often: it asks for another proposer */
        htc__kv_pending_give(s, r, a.to);
        return;
    }
    if (has_too_much(r, &a)) {
        wait_a_little(s, r);
        return;
    }
    if (from == s->cluster->id && r->kind >= HTC__KV_FORWARD_RENEW) {
        htc__kv_cluster_lease_answer(s, r, &a);
        return;
    }
    uint64_t lease;
    if (from == s->cluster->id && r->q.op == HTC_KV_PUT && a.result.status == HTC_OK && !r->listed &&
        htc__kv_is_lease_key(r->q.key, &lease))
        htc__kv_cluster_lease_begins(s, lease, a.result.version);
    if (from == s->cluster->id && r->q.op == HTC_KV_GET && htc__kv_is_lease_key(r->q.key, &lease))
        htc__kv_cluster_lease_read(s, lease, &a.result);
    if (a.result.status == HTC_AGAIN && r->face) {
        r->lease = a.result.lease;
        look_at_lease(s, r, r->lease, LEASE_BOUND);
        return;
    }
    tell(s, r, &a);
}

/* ---------------------------------------------------------------- what this member's register says */

/* A key that is not there has no value, which is more than one of no length. */
static int has_value(const htc_kv_result *a)
{
    return (a->op == HTC_KV_GET && a->status == HTC_OK) || (a->status == HTC_MISMATCH && a->version) || a->existed;
}

void htc__kv_cluster_done(void *ctx, uint64_t tag, const htc__kv_outcome *outcome)
{
    htc__kv_forwarded a = { .tried = outcome->tried, .observed = outcome->observed, .result = outcome->result };
    request          *r = a.result.ttl || outcome->listed ? find(ctx, tag) : NULL;
    if (!has_value(&a.result))
        a.result.value = (htc_bytes){ NULL, 0 };
    if (r)
        r->listed = outcome->listed;
    if (r && a.result.ttl)
        a.result.ttl = htc__kv_cluster_end_left(ctx, r->q.key, a.result.ttl);
    note(ctx, tag, &a);
}

void htc__kv_cluster_hand_over(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    note(ctx, tag, &(htc__kv_forwarded){ .tried = tried != 0, .to = to });
}

/* ---------------------------------------------------------------- the component */

size_t htc__kv_requests_count(const htc_kv_server *s)
{
    return s->cluster->asked->requests.count;
}

static htc_status load(htc_kv_server *s)
{
    htc__wheel_init(&s->cluster->asked->wheel, s->now, HTC_MS);
    return HTC_OK;
}

static htc_ns deadline(const htc_kv_server *s)
{
    return htc__wheel_next(&s->cluster->asked->wheel);
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (kind == HTC__KV_ITEM_FORWARD ? on_forward : on_answer)(s, from, item);
}

static htc_status make_asked(htc_kv_server *s)
{
    struct htc__kv_asked *x = s->cluster->asked = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    htc__table_init(&x->requests, &s->env);
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_asked *x = s->cluster->asked;
    if (!x)
        return;
    while (x->requests.head[0])
        forget(s, htc__node_value(x->requests.head[0]));
    htc__table_free(&x->requests);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->asked = NULL;
}

const htc__kv_component htc__kv_component_asked = { .make = make_asked, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .on_item = on_item,
                                          .items = { HTC__KV_ITEM_FORWARD, HTC__KV_ITEM_ANSWER } };
