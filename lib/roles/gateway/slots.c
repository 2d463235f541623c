/* The slots of an agent: which of its site's it has, how many it may fill, and how it is told.
 *
 *   n_slots   it has these: nobody else is given them. The first names its directory, and is its own until its process is gone
 *   noted     so many of them are in its durable record, which a gateway that starts again believes
 *   want      so many it is to fill: the others are draining
 *   told      the smaller of noted and want, as SLOTS said last
 *
 * More: slots are taken, the record is written, then the agent is told. Fewer: the agent is told, and each slot is free when it says
 * that it is. So an agent never fills a slot that somebody else could be given. */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

/* ---- the site's table ---- */

uint32_t htc__gw_slots_find(const htc_gateway *gw, agent *a, uint32_t n)
{
    const site *s = &gw->sites[a->site];
    uint32_t    found = 0, left = s->cores - s->used;
    n = n < left ? n : left;
    n = n < AGENT_SLOTS_MAX - a->n_slots ? n : AGENT_SLOTS_MAX - a->n_slots;
    for (uint32_t i = 0; i < s->cores && found < n; i++)
        if (!s->slots[i].agent)
            a->slots[a->n_slots + found++] = i;
    return found;
}

/* The slots from the first-th on are its. */
static void occupy(htc_gateway *gw, agent *a, uint32_t first)
{
    site *s = &gw->sites[a->site];
    for (uint32_t i = first; i < a->n_slots; i++) {
        assert(a->slots[i] < s->cores && !s->slots[a->slots[i]].agent && gw->free > 0);
        s->slots[a->slots[i]].agent = a;
        s->used++;
        gw->free--;
    }
}

static void vacate(htc_gateway *gw, agent *a, uint32_t at)
{
    site *s = &gw->sites[a->site];
    assert(s->slots[a->slots[at]].agent == a && s->used > 0 && gw->free < gw->slots);
    s->slots[a->slots[at]].agent = NULL;
    s->used--;
    gw->free++;
    memmove(&a->slots[at], &a->slots[at + 1], (--a->n_slots - at) * sizeof a->slots[0]);
    a->noted = a->noted < a->n_slots ? a->noted : a->n_slots;
    a->want = a->want < a->n_slots ? a->want : a->n_slots;
}

void htc__gw_slots_seat(htc_gateway *gw, agent *a)
{
    occupy(gw, a, 0);
}

void htc__gw_slots_leave(htc_gateway *gw, agent *a)
{
    while (a->n_slots)
        vacate(gw, a, a->n_slots - 1);
}

void htc__gw_slots_lose(htc_gateway *gw, agent *a, uint32_t number)
{
    for (uint32_t i = 1; i < a->n_slots; i++)
        if (a->slots[i] == number) {
            htc__gw_agent_counts(gw, a, -1);
            vacate(gw, a, i);
            htc__gw_agent_counts(gw, a, 1);
            return;
        }
}

uint32_t htc__gw_slots_filled(const agent *a)
{
    return a->held_slots < a->n_slots ? a->held_slots : a->n_slots;
}

uint32_t htc__gw_slots_idle(const agent *a)
{
    uint32_t filled = htc__gw_slots_filled(a);
    return !a->draining && !a->stop && a->state <= AGENT_READY && a->want > filled ? a->want - filled : 0;
}

/* ---- its record ---- */

typedef struct saving {
    uint64_t agent, claim;
    uint32_t slots;
    int      ending; /* the record says that it is lost */
} saving;

static void saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    saving       s = *(saving *)ctx;
    agent       *a = htc__gw_agent(gw, s.agent);
    htc_runtime_context_free(gw->runtime, ctx);
    if (htc__gw_fenced(gw, r))
        return;
    if (!a) {
        if (r->status == HTC_OK && htc__gw_shared(gw)) /* it went meanwhile */
            htc__gw_delete_of(gw, htc__gw_key_agent(s.agent), r->version);
        return;
    }
    a->saving = 0;
    if (r->status == HTC_OK)
        a->version = r->version;
    if (s.claim == a->claim) { /* else it has other slots by now, and their own write follows */
        uint32_t known = s.slots < a->n_slots ? s.slots : a->n_slots;
        if (r->status == HTC_OK)
            a->noted = known > a->noted ? known : a->noted;
        htc__gw_agent_counts(gw, a, -1);
        while (r->status != HTC_OK && a->n_slots > a->noted) /* what could not be noted was not told either */
            vacate(gw, a, a->n_slots - 1);
        htc__gw_agent_counts(gw, a, 1);
        if (r->status != HTC_OK &&
            a->state != AGENT_LOST) /* what a lost one reserved is free when its process is gone */
            htc__gw_memory_reserve(gw, a);
    }
    if (a->ending && r->status == HTC_OK && s.ending)
        htc__gw_agent_end_process(gw, a);
    if (a->save_again)
        htc__gw_agent_save(gw, a);
    htc__gw_slots_tell(gw, a);
}

void htc__gw_agent_save(htc_gateway *gw, agent *a)
{
    a->save_again = a->saving;
    saving *s = a->saving ? NULL : htc_runtime_context(gw->runtime, sizeof *s);
    if (!s)
        return;
    *s = (saving){ a->id, a->claim, a->n_slots, a->given_up };
    a->saving = 1;
    key k = htc__gw_key_agent(a->id);
    htc__gw_record_agent_write(&gw->scratch, a);
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), a->version, saved, s);
}

/* ---- more and fewer ---- */

int htc__gw_slots_may_grow(const htc_gateway *gw, const agent *a)
{
    return a->one_slot == 0 && !gw->sites[a->site].agent_slots && !a->draining && !a->stop && (a->state == AGENT_STARTING || a->state == AGENT_READY) &&
           a->n_slots < gw->options.slots_max;
}

uint32_t htc__gw_slots_grow(htc_gateway *gw, agent *a, uint32_t n)
{
    uint32_t left = gw->options.slots_max - a->n_slots, before = a->n_slots;
    assert(htc__gw_slots_may_grow(gw, a));
    n = htc__gw_slots_find(gw, a, n < left ? n : left);
    if (!n || !htc__gw_memory_fits_slots(gw, a, before + n))
        return 0;
    htc__gw_agent_counts(gw, a, -1);
    a->n_slots += n;
    a->want += n;
    a->claim = ++gw->claims;
    occupy(gw, a, before);
    htc__gw_agent_counts(gw, a, 1);
    htc__gw_memory_reserve(gw, a);
    htc__gw_agent_save(gw, a);
    return n;
}

void htc__gw_slots_want(htc_gateway *gw, agent *a, uint32_t n)
{
    assert(n > 0 && n <= a->n_slots);
    if (n == a->want)
        return;
    htc__gw_agent_counts(gw, a, -1);
    if (n < a->want)
        a->drain_order = ++gw->drains;
    a->want = n;
    htc__gw_agent_counts(gw, a, 1);
    a->tell = 1;
}

/* ---- telling ---- */

uint32_t htc__gw_slots_may_fill(const agent *a)
{
    return a->want < a->noted ? a->want : a->noted;
}

static void send(htc_gateway *gw, const agent *a)
{
    htc_slots_write(&gw->scratch, &(htc_slots){ a->slots_seq, a->told });
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
}

static void tell_anew(htc_gateway *gw, agent *a)
{
    a->told = htc__gw_slots_may_fill(a);
    a->slots_seq++;
    a->tell = 0;
    assert(a->told > 0);
    send(gw, a);
}

void htc__gw_slots_tell(htc_gateway *gw, agent *a)
{
    a->tell = 0;
    if (a->peer && a->state == AGENT_READY && !a->one_slot && (a->told != htc__gw_slots_may_fill(a)))
        tell_anew(gw, a);
}

void htc__gw_slots_tell_all(htc_gateway *gw)
{
    for (agent *a = gw->agents; a; a = a->hh.next)
        if (a->tell)
            htc__gw_slots_tell(gw, a);
}

void htc__gw_slots_greet(htc_gateway *gw, agent *a, uint32_t fills)
{
    a->told = fills;
    if (!a->one_slot && a->state == AGENT_READY && (fills != htc__gw_slots_may_fill(a) || a->n_slots > a->want))
        tell_anew(gw, a);
}

void htc__gw_slots_remind(htc_gateway *gw, agent *a)
{
    if (a->slots_seq && a->state == AGENT_READY && (a->slots_heard != a->slots_seq || a->n_slots > a->want))
        send(gw, a);
}

void htc__gw_slots_heard(htc_gateway *gw, agent *a, const htc_slots_held *m)
{
    if (a->one_slot || m->seq < a->slots_seq)
        return;                  /* it answers the newest too */
    if (m->seq > a->slots_seq) { /* of a gateway before this one */
        a->slots_seq = m->seq;
        if (a->state == AGENT_READY)
            tell_anew(gw, a);
        return;
    }
    uint32_t keeps = m->slots > a->want ? m->slots : a->want, before = a->n_slots;
    a->slots_heard = m->seq;
    if (before <= keeps)
        return;
    htc__gw_agent_counts(gw, a, -1);
    while (a->n_slots > keeps)
        vacate(gw, a, a->n_slots - 1);
    htc__gw_agent_counts(gw, a, 1);
    htc__gw_memory_reserve(gw, a);
    htc__gw_agent_save(gw, a);
    htc__gw_reallocate_soon(gw);
}
