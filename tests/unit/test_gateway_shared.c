/* A gateway on a store that others use too: what it does when the store has no room, and when its term has ended and it does not know. */
#include "gateway_bad_engine.h"
#include "kvs/cell/cell.h"

#define LEASE (2 * HTC_SECOND)

static void lease(htc_gateway_options *o)
{
    o->lease_ns = LEASE;
    o->name = "head1";
    o->address = "10.0.0.1:7420";
}

static void begin_shared(void)
{
    begin();
    r.change = lease;
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, LEASE + HTC_SECOND);
}

TestSuite(gateway_shared, .init = begin_shared, .fini = end);

static int is_of_a_job(void *ctx, htc_bytes key, htc_bytes value)
{
    const char  *k = key.data;
    htc__kv_cell cell;
    htc_bytes    payload;
    if (key.len > 3 && k[0] == 'k' && k[2] == '/' && strchr("crsojbm", k[1]) && htc__kv_unseal(value, key, &payload) == HTC_OK &&
        htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted)
        ++*(size_t *)ctx;
    return 1;
}

static size_t records_of_jobs(void)
{
    size_t n = 0;
    whole->scan(r.engine.ctx, htc_bytes_of(NULL), is_of_a_job, &n);
    return n;
}

/* The store is full from any of the writes on that a submission takes, of a job and what runs at its end. It is refused, and nothing of it is left. */
/* HTCaaS 6: The disk of the state is full, or its files are damaged. */
Test(gateway_shared, a_submission_with_an_end_is_refused_by_a_full_store)
{
    uint32_t p = over_a_bad_engine();
    rig_pass(&r, LEASE + HTC_SECOND);
    json_t *rq = json_pack("{s:s,s:s,s:s,s:s}", "op", "submit", "jsdl", SWEEP(2), "on_end", SWEEP(1), "key", "once");
    char    *text = json_dumps(rq, 0);
    int      room = 0, accepted = 0;
    for (; room < 20 && !accepted; room++) {
        is_full = 1;
        room_left = room;
        json_t     *answer = rig_ask(&r, p, text);
        const char *error = json_string_value(json_object_get(answer, "error"));
        cr_assert(!r.has_stopped && answer, "with room for %d writes it ends: %s", room, htc_status_name(r.stopped));
        accepted = !error;
        is_full = 0;
        rig_pass(&r, LEASE);
        cr_assert(accepted || strcmp(error, "HTC_ENOSPC") == 0, "with room for %d writes it answers %s", room, error);
        cr_assert(accepted || records_of_jobs() == 0, "with room for %d writes %zu records are left", room, records_of_jobs());
        json_decref(answer);
    }
    cr_expect(room > 5, "it was full at too few of the writes: %d", room);
    json_t *all = rig_ask(&r, p, "{\"op\":\"status\"}");
    cr_expect(eq(sz, json_array_size(json_object_get(all, "jobs")), 2), "what was accepted is a job and what runs at its end");
    json_decref(all);
    json_decref(rq);
    free(text);
}

/* Two gateways in turns over one store: it, that is not r.gateway now. */
static htc_gateway *turn(htc_gateway *it)
{
    htc_gateway *other = r.gateway;
    htc_buf      b;
    r.gateway = it;
    r.has_stopped = 0;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SIM });
    for (int closed = 1; closed >= 0; closed--) {
        htc_input in = { .size = sizeof in, .now = r.now, .wall = r.wall, .kind = closed ? HTC_IN_CLOSED : HTC_IN_OPENED, .peer = RIG_STORE, .body = htc_buf_bytes(&b) };
        rig_store(&r, &in);
        rig_gateway(&r, &in);
    }
    htc_buf_free(&b);
    return other;
}

/* It has lost its term and does not know: what it reads now is of the later one, and it must not write on it. */
Test(gateway_shared, an_ended_job_is_not_opened_by_one_whose_term_is_over)
{
    htc_attempt at;
    uint32_t    p = operator_peer();
    json_t     *rq = json_pack("{s:s,s:s,s:i}", "op", "submit", "jsdl", SWEEP(1), "retries", 0);
    char       *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, p, text));
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[r.n_launched - 1].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(int, report(&h, &at, HTC_EEXIT), HTC_OK));
    process_ended(h.id);
    cr_assert(eq(long, (long)count_of(p, 1, "failed"), 1));
    json_decref(rq);
    free(text);

    htc_gateway *first = r.gateway;
    htc_ns       then = r.now;
    r.gateway = NULL;
    rig_start(&r);
    rig_pass(&r, LEASE + HTC_SECOND);
    htc_ns later = r.now;
    r.now = then; /* by its own clock nothing is due: a host's clock may stand still */
    htc_gateway *second = turn(first);
    json_decref(rig_ask(&r, p, "{\"op\":\"retry\",\"id\":1,\"failed\":true}"));
    cr_expect(r.has_stopped && r.stopped == HTC_ELOCKED, "it goes on: %s", htc_status_name(r.stopped));
    r.now = later;
    htc_gateway_ops()->destroy(turn(second));
    uint32_t q = operator_peer();
    json_t  *j = job_of(q, 1);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(j, "state")), "done_with_failures"), "it has written that the job is open");
    json_decref(j);
    json_decref(rig_ask(&r, q, "{\"op\":\"retry\",\"id\":1,\"failed\":true}")); /* it may */
    cr_expect(eq(long, (long)count_of(q, 1, "failed"), 0));
}

static void impatient(htc_gateway_options *o)
{
    lease(o);
    o->launch_timeout_ns = 2 * HTC_SECOND;
}

/* The store does not hear of an agent before the gateway has given it up: what says so is written after what notes it, and on it. */
Test(gateway_shared, an_agent_that_is_given_up_before_it_is_noted_ends_no_gateway)
{
    r.change = impatient;
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 3 * LEASE);
    r.lost = "a/0000";
    submit(operator_peer(), "olga", SWEEP(1));
    rig_pass(&r, 3 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0));
    r.lost = NULL;
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(!r.has_stopped, "it ends: %s", htc_status_name(r.stopped));
    cr_expect(r.n_launched > 0, "another one is launched");
}
