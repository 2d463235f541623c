/* Which of several gateways on one store is the active one.
 *
 *   waiting --the record has not changed for a lease, or was given up--> active (a new term) --another one took the term--> ends
 *
 * The record gateway/active is written by compare-and-swap alone: whoever writes it with a new term is active, and every later write of the
 * gateway before it fails. Leases only say when it is worth trying. What follows from that for all other records is in seal.c.
 *
 * The gate. A gateway that is active may have been asleep since it took its decision. So no effect of a step leaves with that step, but for
 * messages to the store. Effects wait until a read of the record that was asked for after them has shown that the term is still this
 * gateway's: then all that they rest on was written before any later term began, and the gateway of that one has read it. One read confirms
 * all that waits when it begins. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

#define ACTIVE_FORMAT 1
#define HELD_BYTES_MAX ((size_t)256 << 20)
#define LOOKS_OF_LEASE 4 /* looks at the record in one lease, while it is waited */
#define BEATS_OF_LEASE 3 /* renewals in one lease */
#define AGAIN (100 * HTC_MS)

/* ---- the record ---- */

void htc__gw_record_active_write(htc_buf *b, const active_claim *c)
{
    htc_runtime_record_begin(b, ACTIVE_FORMAT);
    htc_put_u64(b, c->term);
    htc_put_u64(b, c->sealed);
    htc_put_u64(b, c->instance);
    htc_put_u64(b, c->beat);
    htc_put_u64(b, c->lease);
    htc_put_u8(b, c->released);
    htc_put_str(b, c->name);
    htc_put_str(b, c->address);
}

htc_status htc__gw_record_active_read(htc_bytes bytes, active_claim *c)
{
    htc_reader r;
    memset(c, 0, sizeof *c);
    htc_runtime_record_open(bytes, ACTIVE_FORMAT, ACTIVE_FORMAT, &r);
    c->term = htc_get_u64(&r);
    c->sealed = htc_get_u64(&r);
    c->instance = htc_get_u64(&r);
    c->beat = htc_get_u64(&r);
    c->lease = htc_get_u64(&r);
    c->released = htc_get_u8(&r);
    htc_get_str(&r, c->name, sizeof c->name);
    htc_get_str(&r, c->address, sizeof c->address);
    if (c->term == 0 || c->sealed > c->term || c->released > 1)
        htc_reader_fail(&r);
    return htc_runtime_record_end(&r);
}

/* ---- create and destroy ---- */

htc_status htc__gw_active_init(htc_gateway *gw, const htc_gateway_options *o)
{
    active *a = &gw->active;
    if (!o->lease_ns)
        return HTC_OK;
    a->own.instance = o->store_client_id;
    a->own.lease = o->lease_ns;
    snprintf(a->data_id, sizeof a->data_id, "%s", o->data_id ? o->data_id : "");
    snprintf(a->own.name, sizeof a->own.name, "%s", o->name ? o->name : "");
    snprintf(a->own.address, sizeof a->own.address, "%s", o->address ? o->address : "");
    htc_status status = htc_output_create(&gw->env, HELD_BYTES_MAX, &a->step);
    if (status == HTC_OK)
        status = htc_output_create(&gw->env, HELD_BYTES_MAX, &a->held);
    return status == HTC_OK ? htc_output_create(&gw->env, HELD_BYTES_MAX, &a->covered) : status;
}

void htc__gw_active_free(htc_gateway *gw)
{
    active *a = &gw->active;
    htc_runtime_wake(gw->runtime, &a->confirm_now, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &a->confirm_next, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &a->writing, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &a->written, HTC_ECLOSED);
    htc_output_destroy(a->step);
    htc_output_destroy(a->held);
    htc_output_destroy(a->covered);
}

/* ---- while another one is active ---- */

static void note(htc_gateway *gw, const active_claim *c, uint64_t version)
{
    active *a = &gw->active;
    if (!a->known || version != a->version) {
        if (!a->known || a->seen.term != c->term)
            htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("term", c->term), HTC__TEXT("name", c->name)),
                          "gateway %s at %s is active (term %llu) -> wait", c->name, c->address, (unsigned long long)c->term);
        a->since = gw->now;
    }
    a->known = 1;
    a->version = version;
    a->seen = *c;
}

static void claimed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    active      *a = &gw->active;
    active_claim c;
    (void)ctx;
    a->busy = 0;
    a->look_at = gw->now + AGAIN;
    int other = r->status == HTC_MISMATCH && htc__gw_record_active_read(r->value, &c) == HTC_OK;
    int own = other && c.instance == a->own.instance && c.term == a->taking; /* the first answer was lost */
    if (r->status == HTC_OK || own) {
        a->version = r->version;
        a->own.term = a->taking;
        a->until = a->asked + a->own.lease;
        a->look_at = gw->now + a->own.lease / BEATS_OF_LEASE;
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("term", a->own.term)), "this gateway is active from now on (term %llu)",
                      (unsigned long long)a->own.term);
        htc__gw_recover(gw);
        return;
    }
    if (other)
        note(gw, &c, r->version);
}

static void claim_term(htc_gateway *gw)
{
    active *a = &gw->active;
    a->taking = a->seen.term + 1;
    a->own.sealed = a->sealed_before = a->seen.sealed;
    a->own.beat = 0;
    a->own.released = 0;
    a->busy = 1;
    a->asked = gw->now;
    active_claim c = a->own;
    c.term = a->taking;
    htc__gw_record_active_write(&gw->scratch, &c);
    key k = htc__gw_key_active();
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                       .value = htc__gw_record_bytes(gw, &gw->scratch), .version = a->version }, 1, claimed, NULL);
}

static void looked(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    active      *a = &gw->active;
    active_claim c = { 0 };
    (void)ctx;
    a->busy = 0;
    a->look_at = gw->now + AGAIN;
    if (r->status == HTC_ENOTFOUND) {
        a->version = 0;
        claim_term(gw);
        return;
    }
    if (r->status != HTC_OK)
        return;
    if (htc__gw_record_active_read(r->value, &c) != HTC_OK) {
        htc_runtime_break(gw->runtime, HTC_ECORRUPT, "reading which gateway is active");
        return;
    }
    note(gw, &c, r->version);
    htc_ns lease = c.lease > a->own.lease ? c.lease : a->own.lease;
    a->look_at = gw->now + a->own.lease / LOOKS_OF_LEASE;
    if (c.released || gw->now - a->since >= lease)
        claim_term(gw);
}

static void look(htc_gateway *gw)
{
    key k = htc__gw_key_active();
    gw->active.busy = 1;
    htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, looked, NULL);
}

/* Where uploads are kept is named once and for all: what another gateway has taken there would be missing here. */
static void data_named(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    active      *a = &gw->active;
    (void)ctx;
    if (r->status == HTC_OK && r->op != HTC_KV_GET) {
        look(gw);
    } else if (r->status == HTC_ENOTFOUND) {
        key k = htc__gw_key_data();
        htc_runtime_ask(gw->runtime,
                        &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                           .value = htc_bytes_of(a->data_id) }, 1, data_named, NULL);
    } else if (r->status != HTC_OK && r->status != HTC_MISMATCH) {
        a->busy = 0;
        htc__gw_active_begin(gw);
    } else if (htc_bytes_equal(r->value, htc_bytes_of(a->data_id))) {
        look(gw);
    } else {
        htc__log(&gw->env, HTC_LOG_ERROR, "data.shared is not the directory that the gateways of this system share: it has another shared-id");
        htc_runtime_break(gw->runtime, HTC_ECONFIG, "looking where uploads are kept");
    }
}

void htc__gw_active_begin(htc_gateway *gw)
{
    key k = htc__gw_key_data();
    gw->phase = PHASE_WAITING;
    gw->active.busy = 1;
    if (gw->active.data_id[0])
        htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, data_named, NULL);
    else
        look(gw);
}

/* ---- while this one is active ---- */

static void write_record(htc_gateway *gw);

/* Another one has written the record: whatever this one still has to say is void. */
static void is_over(htc_gateway *gw, const active_claim *c)
{
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("term", c->term), HTC__TEXT("name", c->name)),
                  "gateway %s at %s has become active (term %llu) -> this one ends and changes nothing more", c->name, c->address,
                  (unsigned long long)c->term);
    htc_runtime_break(gw->runtime, HTC_ELOCKED, "another gateway is active");
}

static void record_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    active      *a = &gw->active;
    active_claim c = { 0 };
    (void)ctx;
    a->busy = 0;
    if (r->status == HTC_MISMATCH && htc__gw_record_active_read(r->value, &c) == HTC_OK && c.instance == a->own.instance && !c.released) {
        a->version = r->version; /* one of its own, whose answer was lost */
    } else if (r->status == HTC_MISMATCH) {
        is_over(gw, &c);
        return;
    } else if (r->status == HTC_OK) {
        a->version = r->version;
        a->until = a->asked + a->own.lease;
        a->look_at = gw->now + a->own.lease / BEATS_OF_LEASE;
        htc_runtime_wake(gw->runtime, &a->writing, HTC_OK);
        if (a->again && htc_runtime_status(gw->runtime) == HTC_OK)
            write_record(gw);
        return;
    }
    /* Once more. */
    htc_runtime_waiter *later = a->written;
    a->written = a->writing;
    a->writing = NULL;
    htc_runtime_wait(&a->written, later);
    a->look_at = gw->now + AGAIN;
}

static void write_record(htc_gateway *gw)
{
    active *a = &gw->active;
    assert(!a->busy && a->own.term);
    a->busy = 1;
    a->asked = gw->now;
    a->again = 0;
    a->own.beat++;
    a->writing = a->written;
    a->written = NULL;
    htc__gw_record_active_write(&gw->scratch, &a->own);
    key k = htc__gw_key_active();
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                       .value = htc__gw_record_bytes(gw, &gw->scratch), .version = a->version }, 1, record_written, NULL);
}

void htc__gw_active_write(htc_gateway *gw, htc_runtime_wait_fn fn, void *ctx)
{
    active *a = &gw->active;
    htc_runtime_wait(&a->written, htc_runtime_waiter_new(gw->runtime, fn, ctx));
    a->again = 1;
    if (!a->busy && htc_runtime_status(gw->runtime) == HTC_OK)
        write_record(gw);
}

int htc__gw_active_holds(const htc_gateway *gw)
{
    return !htc__gw_shared(gw) || HTC__BROKEN(gateway_unconfirmed) || gw->now < gw->active.until;
}

void htc__gw_active_go(htc_gateway *gw)
{
    active *a = &gw->active;
    if (!htc__gw_shared(gw) || a->busy || gw->now < a->look_at)
        return;
    if (gw->phase == PHASE_WAITING)
        look(gw);
    else if (a->own.term && !a->own.released)
        write_record(gw);
}

htc_ns htc__gw_active_deadline(const htc_gateway *gw)
{
    const active *a = &gw->active;
    return htc__gw_shared(gw) && !a->busy && gw->phase != PHASE_NEW && gw->phase != PHASE_STOPPED ? a->look_at : HTC_NEVER;
}

/* ---- confirmations ---- */

static void ask(htc_gateway *gw);

static void confirmed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    active      *a = &gw->active;
    active_claim c = { 0 };
    (void)ctx;
    a->confirming = 0;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND) {
        ask(gw); /* the store is away for as long as it takes */
        return;
    }
    if (r->status == HTC_ENOTFOUND || htc__gw_record_active_read(r->value, &c) != HTC_OK || c.instance != a->own.instance) {
        is_over(gw, &c);
        return;
    }
    a->release = 1;
    htc_runtime_wake(gw->runtime, &a->confirm_now, HTC_OK);
}

static void ask(htc_gateway *gw)
{
    key k = htc__gw_key_active();
    gw->active.confirming = 1;
    htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, confirmed, NULL);
}

void htc__gw_confirm(htc_gateway *gw, htc_runtime_wait_fn fn, void *ctx)
{
    if (!htc__gw_shared(gw)) {
        fn(gw, ctx, HTC_OK);
        return;
    }
    htc_runtime_wait(&gw->active.confirm_next, htc_runtime_waiter_new(gw->runtime, fn, ctx));
}

static void unreadable_confirmed(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    (void)ctx;
    if (status == HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ECORRUPT, gw->active.unreadable);
}

void htc__gw_unreadable(htc_gateway *gw, const char *what)
{
    if (!htc__gw_shared(gw)) {
        htc_runtime_break(gw->runtime, HTC_ECORRUPT, what);
    } else if (!gw->active.unreadable) {
        gw->active.unreadable = what;
        htc__gw_confirm(gw, unreadable_confirmed, NULL);
    }
}

int htc__gw_reads(const htc_gateway *gw)
{
    return htc_runtime_status(gw->runtime) == HTC_OK && !gw->active.unreadable;
}

/* ---- the gate ---- */

htc_output *htc__gw_gate_begin(htc_gateway *gw, htc_output *out)
{
    if (!htc__gw_shared(gw))
        return out;
    htc_output_clear(gw->active.step);
    return gw->active.step;
}

static int passes(const htc_gateway *gw, const htc_effect *e)
{
    /* What a gateway says that is not active is that it is not. */
    return (e->kind == HTC_OUT_MESSAGE && e->peer == gw->options.store_peer) || e->kind == HTC_OUT_STOP || !gw->active.own.term ||
           HTC__BROKEN(gateway_unconfirmed);
}

static int waits(const htc_gateway *gw)
{
    htc_effect e;
    if (gw->active.confirm_next || htc_output_count(gw->active.held))
        return 1;
    for (size_t i = 0; i < htc_output_count(gw->active.step); i++)
        if (htc_output_get(gw->active.step, i, &e) == HTC_OK && !passes(gw, &e))
            return 1;
    return 0;
}

/* What of this step and before it waits is covered by the read that begins now. */
void htc__gw_gate_ask(htc_gateway *gw)
{
    active *a = &gw->active;
    if (!htc__gw_shared(gw) || !a->own.term || a->confirming || a->release || !waits(gw) || htc_runtime_status(gw->runtime) != HTC_OK)
        return;
    assert(!a->confirm_now && htc_output_count(a->covered) == 0);
    a->confirm_now = a->confirm_next;
    a->confirm_next = NULL;
    ask(gw);
    a->confirming = 2; /* what this step says is covered too */
}

static htc_status move(htc_output *from, htc_output *to)
{
    htc_effect e;
    htc_status status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && i < htc_output_count(from); i++)
        if ((status = htc_output_get(from, i, &e)) == HTC_OK)
            status = htc_output_add(to, &e);
    htc_output_clear(from);
    return status;
}

htc_status htc__gw_gate_end(htc_gateway *gw, htc_output *out)
{
    active    *a = &gw->active;
    htc_effect e;
    htc_status status = HTC_OK;
    if (!htc__gw_shared(gw))
        return HTC_OK;
    if (a->release)
        status = move(a->covered, out);
    a->release = 0;
    for (size_t i = 0; status == HTC_OK && i < htc_output_count(a->step); i++)
        if ((status = htc_output_get(a->step, i, &e)) == HTC_OK)
            status = htc_output_add(passes(gw, &e) ? out : a->held, &e);
    if (status == HTC_OK && a->confirming == 2) {
        status = move(a->held, a->covered);
        a->confirming = 1;
    }
    return status;
}

int htc__gw_gate_is_empty(const htc_gateway *gw)
{
    const active *a = &gw->active;
    return !htc__gw_shared(gw) || (!a->confirm_now && !a->confirm_next && !htc_output_count(a->held) && !htc_output_count(a->covered) && !htc_output_count(a->step));
}
