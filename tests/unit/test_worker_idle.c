/* A worker that has nothing to do, by hand: how often it wakes, and how soon it sees that another one is gone. */
#include "expect.h"

#include "core/codec.h"
#include "worker_rig.h"

TestSuite(worker_idle);

#define OTHER 2u

/* Another worker, with a lease that nobody renews, which answers for all tasks of the flow. Its number as a peer is the answer. */
static uint32_t put_other(rig *r, htc_ns ttl, uint64_t *epoch)
{
    htc_kv_result lease = { 0 };
    ledger        l;
    flow_key      k = htc__flow_key_ledger(RIG_FLOW, 0);
    htc_buf       b;
    cr_assert(rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = ttl }, &lease) == HTC_OK);
    *epoch = lease.lease;
    htc__ledger_init(&l, (ledger_span){ 0, 1 });
    htc__ledger_take(&l, OTHER, *epoch);
    htc_buf_init(&b, NULL, 0);
    htc__ledger_write(&b, &l);
    rig_put(r, &k, htc_buf_bytes(&b));
    htc_buf_free(&b);
    return rig_other_bound(r, OTHER, *epoch, *epoch);
}

static uint64_t steps_of(rig *r, htc_ns span)
{
    uint64_t before = r->steps;
    rig_pass(r, span);
    return r->steps - before;
}

/* Whoever looks for the end, and of a bag as of a graph: with the ceiling of 50 s nobody is asked any more after two minutes. Then there
 * is the lease alone, which is renewed after 60 s: once, and once it is answered. */
Test(worker_idle, it_wakes_twice_a_minute)
{
    for (int collects = 0; collects < 2; collects++)
        for (int graph = 0; graph < 2; graph++) {
            rig                r;
            htc_worker_options o = rig_options();
            uint64_t           epoch;
            rig_open(&r, 3);
            if (!collects)
                rig_put_collector(&r, OTHER, 99);
            put_other(&r, 3600 * HTC_SECOND, &epoch);
            rig_put_header(&r, FLOW_RUNNING, graph ? FLOW_GRAPH : FLOW_BAG, 1);
            rig_start(&r, &o, NULL);
            rig_pass(&r, 120 * HTC_SECOND);
            htc_worker_figures f = { .size = sizeof f };
            cr_assert(htc_worker_look(r.worker, &f) == HTC_OK);
            cr_assert(!r.ended && f.members == 2 && f.ledgers == 1);
            /* 60 s from any moment on: windows that begin 7 s apart meet every phase of what has a minute's period */
            for (int i = 0; i < 45; i++) {
                uint64_t n = steps_of(&r, 60 * HTC_SECOND - 1);
                cr_assert(n <= 2, "%d, %d: %llu steps in minute %d", collects, graph, (unsigned long long)n, i);
                rig_pass(&r, 7 * HTC_SECOND);
            }
            rig_close(&r);
        }
}

/* Who has more than it can run says so, and is asked in the step that hears it: nobody waits for a time to come. */
Test(worker_idle, after_a_nudge_it_asks_at_once)
{
    rig                r;
    htc_worker_options o = rig_options();
    uint64_t           epoch;
    rig_open(&r, 3);
    put_other(&r, 3600 * HTC_SECOND, &epoch);
    rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 1);
    rig_start(&r, &o, NULL);
    rig_pass(&r, 300 * HTC_SECOND);
    htc_ns   before = r.now;
    uint32_t n_said = r.n_said;
    rig_say(&r, 10 + r.last_peer, HTC_WIRE_WORKER_NUDGE, (worker_message){ 0 });
    cr_expect(r.now == before && r.n_said > n_said && rig_heard(&r, HTC_WIRE_WORKER_LOAD_ASK), "nobody is asked");
    rig_close(&r);
}

static void refuse(rig *r, uint32_t peer)
{
    uint8_t number[4];
    htc__le32_put(number, peer);
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_EVENT, .op = HTC_EVENT_REFUSED, .body = { number, sizeof number } });
    rig_run(r);
}

/* The lease of the dead one lasts an hour; its task runs within a second. */
Test(worker_idle, what_a_dead_worker_had_is_taken_at_once)
{
    rig                r;
    htc_worker_options o = rig_options();
    uint64_t           epoch;
    htc_kv_result      got = { 0 };
    flow               f;
    flow_key           k = htc__flow_key_worker(RIG_FLOW, OTHER);
    rig_open(&r, 3);
    put_other(&r, 3600 * HTC_SECOND, &epoch);
    rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 1);
    rig_start(&r, &o, NULL);
    rig_pass(&r, 300 * HTC_SECOND);
    refuse(&r, 77); /* nobody that it knows */
    rig_pass(&r, HTC_SECOND);
    cr_assert(rig_ask(&r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &got) == HTC_OK);
    refuse(&r, 10 + r.last_peer);
    rig_pass(&r, HTC_SECOND);
    cr_expect(rig_ask(&r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &got) == HTC_ENOTFOUND);
    cr_expect(rig_get_header(&r, &f) && f.state == FLOW_ENDED && f.counts.done == 1);
    rig_close(&r);
}

/* A process of the same address has taken the place of another: whoever was there before is gone. */
Test(worker_idle, another_process_at_the_address_of_a_worker)
{
    for (int other = 0; other < 2; other++) {
        rig                r;
        htc_worker_options o = rig_options();
        uint64_t           epoch;
        flow               f;
        htc_buf            b;
        rig_open(&r, 3);
        put_other(&r, 3600 * HTC_SECOND, &epoch);
        rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 1);
        rig_start(&r, &o, NULL);
        rig_pass(&r, HTC_SECOND);
        for (uint32_t pid = 100; pid < 102; pid++) {
            htc_buf_init(&b, NULL, 0);
            htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_UNIX, .pid = other ? pid : 100 });
            rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_CLOSED, .peer = 10 + r.last_peer });
            rig_post_to(&r, RIG_STORE, (htc_input){ .kind = HTC_IN_OPENED, .peer = 10 + r.last_peer, .body = htc_buf_bytes(&b) });
            rig_run(&r);
            htc_buf_free(&b);
        }
        rig_pass(&r, HTC_SECOND);
        cr_assert(rig_get_header(&r, &f));
        cr_expect(f.state == (other ? FLOW_ENDED : FLOW_RUNNING), "%d", other);
        rig_close(&r);
    }
}

/* A life before at this address, of another number: whoever listens there now knows that it has ended. */
Test(worker_idle, a_worker_of_our_own_address_is_gone)
{
    rig                r;
    htc_worker_options o = rig_options();
    uint64_t           epoch;
    flow               f;
    o.address = "there";
    rig_open(&r, 3);
    put_other(&r, 3600 * HTC_SECOND, &epoch);
    rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 1);
    rig_start(&r, &o, NULL);
    rig_pass(&r, HTC_SECOND);
    cr_expect(rig_get_header(&r, &f) && f.state == FLOW_ENDED);
    rig_close(&r);
}

/* Given up by mistake: it is not a minute before it knows. */
Test(worker_idle, who_is_given_up_ends_at_once)
{
    rig                r;
    htc_worker_options o = rig_options();
    uint64_t           epoch;
    flow_key           k = htc__flow_key_worker(RIG_FLOW, 1);
    htc_kv_result      got = { 0 };
    rig_open(&r, 3);
    put_other(&r, 3600 * HTC_SECOND, &epoch);
    rig_put_header(&r, FLOW_RUNNING, FLOW_BAG, 1);
    rig_start(&r, &o, NULL);
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(!r.ended && rig_ask(&r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &got) == HTC_OK && got.lease);
    cr_assert(rig_ask(&r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_REVOKE, .lease = got.lease }, NULL) == HTC_OK);
    rig_pass(&r, HTC_MS);
    cr_expect(r.ended && r.status == HTC_ELOST, "%d: %s", r.ended, htc_status_name(r.status));
    rig_close(&r);
}
