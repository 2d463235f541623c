/* A gateway that is refused memory, at each point of the life of a job, with agents of one slot and of several. */
#include "alloc_fail.h"
#include "gateway_hand.h"

/* One job through its life, whatever fails on the way. */
static void life(void)
{
    uint32_t p = operator_peer();
    htc_buf  b;
    json_t  *rq = json_pack("{s:s,s:s}", "op", "submit", "jsdl", SWEEP(2));
    char    *text = json_dumps(rq, 0);
    json_decref(rig_ask(&r, p, text));
    json_decref(rq);
    rig_pass(&r, 100 * HTC_MS);
    if (r.n_launched) {
        uint64_t        id = r.launched[0].agent;
        uint32_t        peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT);
        htc_agent_hello m = { .agent = id, .node = "node1", .slots = r.launched[0].slots, .cores = 4 };
        htc_buf_init(&b, NULL, 0);
        htc_agent_hello_write(&b, &m);
        rig_say(&r, peer, &b);
        htc_pull_write(&b, &(htc_pull){ .agent = id, .seq = 1, .want = 1 });
        rig_say(&r, peer, &b);
        json_decref(rig_ask(&r, p, text)); /* an agent of several slots grows */
        rig_pass(&r, 100 * HTC_MS);
        htc_task_result_write(
            &b, &(htc_task_result){ .agent = id, .attempt = { 1, 0, 1 }, .outcome = { .status = HTC_EEXIT } });
        rig_say(&r, peer, &b);
        htc_slots_held_write(&b, &(htc_slots_held){ .agent = id, .seq = 1, .slots = 1 });
        rig_say(&r, peer, &b);
        htc_buf_free(&b);
    }
    free(text);
    rig_pass(&r, 2 * HTC_SECOND);
    json_decref(rig_ask(&r, p, "{\"op\":\"results\",\"id\":1}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"cancel\",\"id\":1}"));
    json_decref(rig_ask(&r, p, "{\"op\":\"why\"}"));
}

static void several_slots(htc_gateway_options *o)
{
    o->slots_max = 64;
}

static void refuse_at_every_point(void (*change)(htc_gateway_options *o))
{
    for (size_t n = 1;; n++) {
        alloc_fail f = alloc_fail_at(0);
        htc_env    env = alloc_fail_env(&f);
        rig_begin_with(&r, env.alloc);
        rig_kill(&r);
        r.change = change;
        f.fail_at = f.calls + n;
        rig_start(&r);
        if (!r.has_stopped)
            life();
        int refused = f.refused != 0;
        if (refused)
            cr_assert(r.has_stopped && r.stopped == HTC_ENOMEM, "allocation %zu: %s", n,
                      r.has_stopped ? htc_status_name(r.stopped) : "it went on");
        rig_end(&r);
        cr_assert(eq(sz, f.live, 0), "allocation %zu leaks", n);
        cr_assert(eq(sz, f.wrong_sizes, 0), "allocation %zu: freed with another size", n);
        if (!refused)
            break;
    }
}

/* A gateway that is refused memory says so and ends; it leaks nothing, and the store has what the next one needs. */
Test(gateway_refused, every_point_ends_it_cleanly)
{
    refuse_at_every_point(NULL);
    refuse_at_every_point(several_slots);
}
