/* Who has which key, as a member has told it, and so the connection that a part leaves by: that to the first owner of its bucket, which
 * proposes the key's changes; to the next one while that is silent or away; to home, or to whoever is there.
 *
 * Nothing depends on it being right: whoever is asked for what is another's hands it on, and says so; then the client asks again who
 * has which key. It is learned when a few requests have been made, so that a program which asks for one thing opens no more connections
 * than one. */
#include <string.h>

#include "core/util.h"
#include "kvs/client/client.h"
#include "kvs/wire/owners_wire.h"
#include "kvs/util/place.h"

/* Parts submitted before it is learned for the first time. */
#define PARTS_BEFORE 4u
/* Between two questions, in parts of retry_ns; where nothing was new, up to so many times it. */
#define PAUSE_PART 32u
#define PAUSE_MAX  8u

void htc__kv_owners_init(htc_kv_client *c)
{
    c->owners.pause = c->options.retry_ns / PAUSE_PART;
}

static void forget_address(htc_kv_client *c, htc__kv_at *at)
{
    htc__free(&c->env, at->address, at->len);
    *at = (htc__kv_at){ .link = HTC__KV_NO_LINK };
}

void htc__kv_owners_free(htc_kv_client *c)
{
    htc__kv_owners_known *o = &c->owners;
    for (uint32_t i = 0; i < o->count; i++)
        forget_address(c, &o->at[i]);
    htc__free(&c->env, o->at, o->room * sizeof *o->at);
    if (o->owner)
        htc__free(&c->env, o->owner, ((size_t)1 << o->bits) * sizeof *o->owner);
}

/* ---------------------------------------------------------------- where a key is */

/* What one register answers; an eventual key is answered by whoever is asked. */
static int has_owner(const htc_kv_request *q)
{
    return q->space.len == 0 && (q->op == HTC_KV_GET || htc__kv_is_change(q->op));
}

static const uint16_t *owners_of(const htc_kv_client *c, uint64_t place)
{
    return c->owners.owner[htc__kv_bucket(place, c->owners.bits)];
}

uint32_t htc__kv_owners_group(const htc_kv_client *c, const htc_kv_request *q)
{
    if (!c->owners.have || !has_owner(q))
        return 0;
    return owners_of(c, htc__kv_place(c->owners.seed, q->key))[0];
}

static int find_place(const htc_kv_client *c, htc__kv_part *part)
{
    htc_kv_request q = { .size = sizeof q };
    if (part->placed)
        return 1;
    htc_reader r = htc_reader_of((htc_bytes){ part->ops + part->ops_at, part->ops_len - part->ops_at });
    htc__kv_op_read(&r, &q);
    if (!has_owner(&q))
        return 0;
    part->place = htc__kv_place(c->owners.seed, q.key);
    part->placed = 1;
    return 1;
}

/* ---------------------------------------------------------------- the connection */

static uint32_t free_link(const htc_kv_client *c)
{
    for (uint32_t i = 1; i < c->link_count; i++)
        if (!c->links[i].called)
            return i;
    return HTC__KV_NO_LINK;
}

/* It is there when the driver says so. What this step has no room for is asked for with the next part. */
static void dial(htc_kv_client *c, htc__kv_at *at, htc_output *out)
{
    uint32_t number = at->len && !at->astray ? free_link(c) : HTC__KV_NO_LINK;
    if (number == HTC__KV_NO_LINK ||
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL,
                                           .op = HTC_KV_CLIENT_DIAL,
                                           .tag = c->links[number].peer,
                                           .body = { at->address, at->len } }) != HTC_OK)
        return;
    at->link = number;
    c->links[number].called = at->id;
}

static htc__kv_link *link_to(htc_kv_client *c, htc__kv_at *at, htc_output *out)
{
    htc__kv_link *home = &c->links[HTC__KV_HOME];
    if (home->member == at->id && home->session)
        return home;
    if (at->link == HTC__KV_NO_LINK && home->member != at->id)
        dial(c, at, out);
    htc__kv_link *link = at->link == HTC__KV_NO_LINK ? NULL : &c->links[at->link];
    return link && link->session ? link : NULL;
}

/* Home, where that speaks, or else anyone who does. */
static htc__kv_link *anyone(htc_kv_client *c, htc_ns now)
{
    htc__kv_link *found = NULL;
    for (uint32_t i = 0; i < c->link_count; i++) {
        htc__kv_link *link = &c->links[i];
        if (link->session && !htc__kv_link_silent(link, now))
            return link;
        found = link->session && !found ? link : found;
    }
    return found;
}

htc__kv_link *htc__kv_owners_route(htc_kv_client *c, htc__kv_part *part, htc_ns now, htc_output *out)
{
    if (c->owners.have && find_place(c, part)) {
        const uint16_t *owner = owners_of(c, part->place);
        for (uint32_t i = 0; i < HTC__KV_OWNERS_KEPT && owner[i]; i++) {
            htc__kv_at   *at = &c->owners.at[owner[i] - 1];
            htc__kv_link *link = at->id ? link_to(c, at, out) : NULL;
            if (link && !htc__kv_link_silent(link, now))
                return link;
        }
    }
    return anyone(c, now);
}

static void release(htc_kv_client *c, htc__kv_link *link)
{
    htc__kv_link_closed(c, link);
    link->called = 0;
}

void htc__kv_owners_astray(htc_kv_client *c, htc__kv_link *link)
{
    for (uint32_t i = 0; i < c->owners.count; i++) {
        htc__kv_at *at = &c->owners.at[i];
        if (at->id && at->link == (uint32_t)(link - c->links)) {
            htc__log(&c->env, HTC_LOG_WARN, "another one answers at the address of member %016llx -> ask others",
                     (unsigned long long)at->id);
            at->link = HTC__KV_NO_LINK;
            at->astray = 1;
        }
    }
    release(c, link);
}

/* ---------------------------------------------------------------- asking */

void htc__kv_owners_wanted(htc_kv_client *c, htc_ns now)
{
    htc__kv_owners_known *o = &c->owners;
    if (c->options.members == 0 || o->wanted)
        return;
    o->wanted = 1;
    if (o->due < now)
        o->due = now;
}

static htc__kv_link *who_knows(const htc_kv_client *c, htc_ns now)
{
    htc__kv_link *found = NULL;
    for (uint32_t i = 0; i < c->link_count; i++) {
        htc__kv_link *link = &c->links[i];
        if (link->session && link->knows && !htc__kv_link_silent(link, now))
            return link;
        found = link->session && link->knows && !found ? link : found;
    }
    return found;
}

static int somebody_knows(const htc_kv_client *c)
{
    for (uint32_t i = 0; i < c->link_count && c->sessions; i++)
        if (c->links[i].session && c->links[i].knows)
            return 1;
    return 0;
}

static int is_wanted(const htc_kv_client *c)
{
    const htc__kv_owners_known *o = &c->owners;
    return c->options.members && (o->wanted || (o->have == 0 && c->order >= PARTS_BEFORE)) && somebody_knows(c);
}

htc_status htc__kv_owners_send(htc_kv_client *c, htc_ns now, htc_output *out)
{
    htc__kv_owners_known *o = &c->owners;
    if (now < o->due || !is_wanted(c))
        return HTC_OK;
    htc__kv_owners_ask(&c->message, o->id + 1, o->have);
    htc_status status = htc__kv_client_send(c, who_knows(c, now), out);
    if (status != HTC_OK)
        return status == HTC_EFULL && htc_output_count(out) > 0 ? HTC_OK : status;
    o->id++;
    o->wanted = o->asked = 1;
    o->due = c->options.retry_ns > HTC_NEVER - now ? HTC_NEVER : now + c->options.retry_ns;
    return HTC_OK;
}

htc_ns htc__kv_owners_deadline(const htc_kv_client *c)
{
    return is_wanted(c) ? c->owners.due : HTC_NEVER;
}

/* ---------------------------------------------------------------- what is told */

static int make_room(htc_kv_client *c, const htc__kv_owners_head *head)
{
    htc__kv_owners_known *o = &c->owners;
    if (o->owner)
        return o->seed == head->seed && o->bits == head->bits; /* else it is another store */
    o->owner = htc__alloc(&c->env, ((size_t)1 << head->bits) * sizeof *o->owner);
    o->bits = head->bits;
    o->seed = head->seed;
    return o->owner != NULL;
}

static uint32_t place_of(htc__kv_owners_known *o, uint64_t id)
{
    uint32_t i = 0;
    while (i < o->count && o->at[i].id != id)
        i++;
    return i;
}

/* Who is new gets a place, and who has another address. 0: no memory. */
static int know_member(htc_kv_client *c, const htc__kv_owners_member *m, uint32_t *place)
{
    htc__kv_owners_known *o = &c->owners;
    uint32_t              i = place_of(o, m->id);
    if (i == o->count && (i = place_of(o, 0)) == o->count) {
        uint32_t    room = o->room ? 2 * o->room : 8;
        htc__kv_at *more = o->count < o->room ? o->at : htc__resize(&c->env, o->at, o->room * sizeof *more, room * sizeof *more);
        if (!more)
            return 0;
        o->room = o->count < o->room ? o->room : room;
        o->at = more;
        o->at[o->count++] = (htc__kv_at){ .link = HTC__KV_NO_LINK };
    }
    htc__kv_at *at = &o->at[i];
    *place = i;
    if (at->id == m->id && at->len == m->address.len && (at->len == 0 || memcmp(at->address, m->address.data, at->len) == 0))
        return 1;
    char *address = m->address.len ? htc__alloc(&c->env, m->address.len) : NULL;
    if (m->address.len && !address)
        return 0;
    htc__free(&c->env, at->address, at->len);
    if (address)
        memcpy(address, m->address.data, m->address.len);
    at->id = m->id;
    at->address = address;
    at->len = m->address.len;
    at->astray = 0;
    return 1;
}

/* Whoever is not named any more is called no more. What stands in buckets for it stands for nobody, until the place is another one's: then
 * none of them is its bucket any more. */
static void forget_others(htc_kv_client *c, const uint8_t *named, htc_output *out)
{
    htc__kv_owners_known *o = &c->owners;
    for (uint32_t i = 0; i < o->count; i++) {
        htc__kv_at *at = &o->at[i];
        if (at->id == 0 || named[i])
            continue;
        if (at->link != HTC__KV_NO_LINK) {
            htc__kv_link *link = &c->links[at->link];
            /* Without room in this step the connection stays, unused, until its number is needed. */
            (void)htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = link->peer, .status = HTC_OK });
            release(c, link);
        }
        forget_address(c, at);
    }
}

static void learn_buckets(htc__kv_owners_known *o, htc__kv_owners_at *from, const uint32_t *place)
{
    htc__kv_owners_bucket b;
    while (htc__kv_owners_bucket_read(from, &b)) {
        uint16_t *owner = o->owner[b.number];
        for (uint32_t i = 0; i < HTC__KV_OWNERS_KEPT; i++)
            owner[i] = i < b.n ? (uint16_t)(place[b.member[i]] + 1) : 0;
    }
}

/* 0: no memory; what was learned of members until then does no harm. */
static int learn(htc_kv_client *c, const htc__kv_owners_head *head, htc__kv_owners_at *from, htc_output *out)
{
    size_t    most = head->members + c->owners.count, i = 0;
    uint32_t *place = htc__alloc(&c->env, head->members * sizeof *place);
    uint8_t  *named = htc__alloc(&c->env, most);
    for (; place && named && i < head->members; i++) {
        htc__kv_owners_member m;
        htc__kv_owners_member_read(from, &m);
        if (!know_member(c, &m, &place[i]))
            break;
        named[place[i]] = 1;
    }
    int done = place && named && i == head->members;
    if (done) {
        forget_others(c, named, out);
        learn_buckets(&c->owners, from, place);
        c->owners.have = head->have;
    }
    htc__free(&c->env, place, head->members * sizeof *place);
    htc__free(&c->env, named, most);
    return done;
}

void htc__kv_owners_told(htc_kv_client *c, uint64_t id, htc_reader r, htc_ns now, htc_output *out)
{
    htc__kv_owners_known *o = &c->owners;
    htc__kv_owners_head   head;
    htc__kv_owners_at     at;
    if (!o->asked || id != o->id || htc__kv_owners_check(r) != HTC_OK)
        return; /* as if it had been lost */
    htc__kv_owners_read(r, &head, &at);
    int news = head.members > 0 && head.have > o->have;
    if (news && (!make_room(c, &head) || !learn(c, &head, &at, out)))
        return; /* it is asked for again */
    htc_ns least = c->options.retry_ns / PAUSE_PART;
    o->asked = o->wanted = 0;
    o->pause = news ? least : o->pause < PAUSE_MAX * c->options.retry_ns ? o->pause * 2 + 1 : o->pause;
    o->due = o->pause > HTC_NEVER - now ? HTC_NEVER : now + o->pause;
}
