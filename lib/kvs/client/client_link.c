/* Connections: a greeting, then a name for the session, asked for until it is answered. A part that left by a connection which is gone leaves
 * once more, by whichever is there then: the members of a store know a repetition, whoever of them had the first. */
#include <stdio.h>

#include "core/util.h"
#include "kvs/client/client.h"
#include "kvs/wire/owners_wire.h"

/* After so many misses in a row a silent one is left alone for no longer. */
#define MISSES_MAX 4u
/* Who is slow is waited for at most so many times retry_ns. */
#define SLOW_MAX 8u

static htc_ns later(htc_ns now, htc_ns pause)
{
    return pause > HTC_NEVER - now ? HTC_NEVER : now + pause;
}

void htc__kv_client_speak(htc_kv_client *c, uint16_t version)
{
    c->speaks = version;
}

htc_status htc__kv_links_make(htc_kv_client *c)
{
    c->speaks = HTC_WIRE_VERSION;
    c->link_count = 1 + c->options.members;
    c->links = htc__alloc(&c->env, c->link_count * sizeof *c->links);
    if (!c->links)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < c->link_count; i++)
        c->links[i] = (htc__kv_link){ .peer = i == HTC__KV_HOME ? c->options.peer : c->options.member_peer + i - 1,
                                      .greet_due = HTC_NEVER };
    return HTC_OK;
}

void htc__kv_links_free(htc_kv_client *c)
{
    htc__free(&c->env, c->links, c->link_count * sizeof *c->links);
}

htc__kv_link *htc__kv_link_of(htc_kv_client *c, uint32_t peer)
{
    uint32_t at = peer - c->options.member_peer;
    if (peer == c->options.peer)
        return &c->links[HTC__KV_HOME];
    return peer >= c->options.member_peer && at < c->options.members && c->links[at + 1].called ? &c->links[at + 1] : NULL;
}

/* Greet, or ask for the session's name: whatever the server has not answered yet. */
static htc_status greet(htc_kv_client *c, htc__kv_link *link, htc_ns now, htc_output *out)
{
    if (!link->welcomed) {
        htc_wire_hello(&c->message, HTC_WIRE_ROLE_STORE_CLIENT, c->speaks);
    } else {
        htc_wire_begin(&c->message, HTC_WIRE_KV_REQUEST, ++c->serial);
        htc__kv_head_write(&c->message, &(htc__kv_head){ .client = c->options.client_id });
    }
    link->greet_due = later(now, link->greet_pause);
    link->greet_pause = link->greet_pause < 8 * c->options.retry_ns ? link->greet_pause * 2 : 16 * c->options.retry_ns;
    return htc__kv_client_send(c, link, out);
}

void htc__kv_link_session(htc_kv_client *c, htc__kv_link *link, uint64_t session)
{
    uint32_t at = (uint32_t)(link - c->links);
    c->sessions = c->sessions - (link->session != 0) + (session != 0);
    link->session = session;
    link->greet_due = HTC_NEVER;
    htc__kv_client_send_again(c, at);
    if (at == HTC__KV_HOME)
        htc__kv_watched_session(c);
}

void htc__kv_link_closed(htc_kv_client *c, htc__kv_link *link)
{
    link->connected = link->welcomed = link->knows = 0;
    link->member = 0;
    link->misses = 0;
    link->silent_until = 0;
    link->pace = (htc__kv_latency){ 0 };
    htc__kv_link_session(c, link, 0);
}

htc_status htc__kv_link_opened(htc_kv_client *c, htc__kv_link *link, htc_ns now, htc_output *out)
{
    htc__kv_link_closed(c, link);
    link->connected = 1;
    link->serial_first = c->serial + 1;
    link->greet_pause = c->options.retry_ns;
    return greet(c, link, now, out);
}

htc_status htc__kv_link_welcomed(htc_kv_client *c, htc__kv_link *link, htc_reader r, htc_ns now, htc_output *out)
{
    uint64_t   have;
    htc_status spoken = htc__kv_welcome_read(r, c->speaks, &have, &link->member);
    if (spoken != HTC_OK) {
        htc__log_with(&c->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(spoken)), "a welcome with a version that was not announced -> not heard");
        return HTC_OK;
    }
    link->knows = have != 0;
    if (link != &c->links[HTC__KV_HOME] && link->member != link->called) {
        htc__kv_owners_astray(c, link);
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = link->peer, .status = HTC_EPROTO });
    }
    link->welcomed = 1;
    link->greet_pause = c->options.retry_ns;
    return greet(c, link, now, out);
}

#define REFUSED_GAP HTC_SECOND
#define REFUSED_GAP_MAX (300 * HTC_SECOND)

/* A host makes a connection that was ended anew at once, so that this may come many times a second. */
void htc__kv_refused(htc_kv_client *c, htc_status why, htc_ns now)
{
    htc__kv_refusals *f = &c->refusals;
    int               goes_on = f->gap && f->why == why;
    char              times[60] = "";
    if (goes_on && now - f->said < f->gap) {
        f->unsaid++;
        return;
    }
    if (f->unsaid)
        snprintf(times, sizeof times, " (it has said so %u more times)", f->unsaid);
    htc__log_with(&c->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(why), HTC__NUMBER("more", f->unsaid)), "store says: %s -> wait for a new connection%s", htc_strerror(why), times);
    f->gap = !goes_on ? REFUSED_GAP : f->gap * 2 < REFUSED_GAP_MAX ? f->gap * 2 : REFUSED_GAP_MAX;
    f->why = why;
    f->said = now;
    f->unsaid = 0;
}

void htc__kv_heard(htc_kv_client *c)
{
    htc__kv_refusals *f = &c->refusals;
    if (f->gap)
        htc__log(&c->env, HTC_LOG_INFO, "the store answers again -> go on");
    *f = (htc__kv_refusals){ 0 };
}

/* It has not answered in time: others are asked for a while. What else it has not answered is the same silence. */
void htc__kv_link_missed(htc_kv_client *c, htc__kv_link *link, htc_ns now)
{
    if (htc__kv_link_silent(link, now))
        return;
    link->silent_until = later(now, c->options.retry_ns << (link->misses < MISSES_MAX ? link->misses : MISSES_MAX));
    link->misses++;
}

/* Twice what it took of late: another one would be asked for what this one is at, and what was asked for twice may have to be called unknown. */
htc_ns htc__kv_link_patience(const htc_kv_client *c, const htc__kv_link *link, htc_ns now)
{
    htc_ns usual = c->options.retry_ns, slow = 2 * htc__kv_latency_longest(&link->pace, now, usual);
    return slow < usual ? usual : slow > SLOW_MAX * usual ? SLOW_MAX * usual : slow;
}

htc_status htc__kv_links_timeout(htc_kv_client *c, htc_ns now, htc_output *out)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < c->link_count && status == HTC_OK; i++)
        if (c->links[i].connected && now >= c->links[i].greet_due)
            status = greet(c, &c->links[i], now, out);
    return status;
}

htc_ns htc__kv_links_deadline(const htc_kv_client *c)
{
    htc_ns due = HTC_NEVER;
    for (uint32_t i = 0; i < c->link_count; i++)
        if (c->links[i].connected && c->links[i].greet_due < due)
            due = c->links[i].greet_due;
    return due;
}
