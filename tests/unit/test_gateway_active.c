/* Two gateways on one store: who waits, when the other one goes on and with what, and what the records of that say. */
#include "expect.h"

#include "gateway_rig.h"
#include "roles/gateway/gateway.h"

#define LEASE (2 * HTC_SECOND)

static void lease(htc_gateway_options *o)
{
    o->lease_ns = LEASE;
    o->name = "head1";
    o->address = "10.0.0.1:7420";
}

static rig r;

/* What a gateway without a lease has left, with one. */
static void begin(void)
{
    rig_begin(&r);
    rig_kill(&r);
    r.change = lease;
    rig_start(&r);
}

static void end(void)
{
    rig_end(&r);
}

TestSuite(gateway_active, .init = begin, .fini = end);

/* The answer's field; "": it has none. Lent until the next call. */
static const char *ask(const char *json, const char *field)
{
    static char text[400];
    json_t     *answer = rig_ask(&r, rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER), json);
    const char *value = json_string_value(json_object_get(answer, field));
    snprintf(text, sizeof text, "%s", value ? value : "");
    json_decref(answer);
    return text;
}

static int serves(void)
{
    return ask("{\"op\":\"status\",\"id\":\"all\"}", "error")[0] == '\0' && !r.has_stopped;
}

Test(gateway_active, goes_on_from_a_state_without_terms)
{
    cr_expect(serves());
}

Test(gateway_active, waits_for_a_lease_of_one_that_was_killed)
{
    rig_kill(&r);
    rig_start(&r); /* which passes a second */
    cr_expect(eq(str, (char *)ask("{\"op\":\"ping\"}", "active"), "head1"));
    cr_expect(eq(str, (char *)ask("{\"op\":\"status\",\"id\":\"all\"}", "error"), "HTC_EUNREACHABLE"));
    rig_pass(&r, LEASE + HTC_SECOND);
    cr_expect(serves());
}

Test(gateway_active, goes_on_at_once_when_the_term_was_given_up)
{
    ask("{\"op\":\"shutdown\"}", "error");
    rig_pass(&r, HTC_SECOND);
    cr_assert(r.has_stopped && r.stopped == HTC_OK);
    rig_kill(&r);
    rig_start(&r);
    cr_expect(serves());
}

Test(gateway_active, ends_when_another_one_has_the_term)
{
    htc_gateway *first = r.gateway;
    r.gateway = NULL;
    rig_start(&r);
    rig_pass(&r, LEASE + HTC_SECOND);
    cr_assert(serves());
    htc_gateway *second = r.gateway;
    r.gateway = first; /* it wakes: its connection to the store is another's by now, and is opened anew */
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SIM });
    for (int closed = 1; closed >= 0; closed--) {
        htc_input in = { .size = sizeof in, .now = r.now, .wall = r.wall, .kind = closed ? HTC_IN_CLOSED : HTC_IN_OPENED, .peer = RIG_STORE, .body = htc_buf_bytes(&b) };
        rig_store(&r, &in);
        rig_gateway(&r, &in);
    }
    htc_buf_free(&b);
    size_t said = r.n_inbox;
    uint32_t peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER);
    json_decref(rig_ask(&r, peer, "{\"op\":\"ping\"}"));
    rig_pass(&r, LEASE);
    cr_expect(r.has_stopped && r.stopped == HTC_ELOCKED, "it goes on: %s", htc_status_name(r.stopped));
    cr_expect(eq(sz, r.n_inbox, said), "it says something to those who ask it");
    htc_gateway_ops()->destroy(second);
}

Test(gateway_active, its_record_reads_back_and_is_refused)
{
    active_claim c = { .term = 7, .sealed = 6, .instance = 99, .beat = 3, .lease = LEASE, .name = "head1", .address = "10.0.0.1:7420" }, read;
    htc_buf      b;
    htc_buf_init(&b, NULL, 0);
    htc__gw_record_active_write(&b, &c);
    cr_assert(eq(int, htc__gw_record_active_read(htc_buf_bytes(&b), &read), HTC_OK));
    cr_expect(read.term == 7 && read.sealed == 6 && read.instance == 99 && read.beat == 3 && read.lease == LEASE && !read.released);
    cr_expect(eq(str, read.name, "head1") && eq(str, read.address, "10.0.0.1:7420"));
    for (size_t n = 0; n < b.len; n++)
        cr_expect(eq(int, htc__gw_record_active_read((htc_bytes){ b.data, n }, &read), HTC_ECORRUPT), "%zu bytes", n);
    c.sealed = 8;
    htc__gw_record_active_write(&b, &c);
    cr_expect(eq(int, htc__gw_record_active_read(htc_buf_bytes(&b), &read), HTC_ECORRUPT), "sealed before it began");
    htc_buf_free(&b);
}

Test(gateway_active, a_mark_without_a_term_counts)
{
    htc_buf  b;
    uint64_t term = 9;
    int      again = 0;
    htc_buf_init(&b, NULL, 0);
    htc__gw_record_open_read(htc_bytes_of("1"), &term, &again);
    cr_expect(term == 0 && again == 1);
    htc__gw_record_open_write(&b, 5, 0);
    htc__gw_record_open_read(htc_buf_bytes(&b), &term, &again);
    cr_expect(term == 5 && again == 0);
    htc_buf_free(&b);
}
