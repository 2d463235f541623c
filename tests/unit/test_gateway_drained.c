/* What people read of sites and nodes that the operator takes out of service. The own machine has one slot; site far is a host of its own. */
#include "gateway_far.h"

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 1, .memory = UINT64_C(8) << 30, .speed = 2 },
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1 } };
    o->sites = all;
    o->n_sites = 2;
    o->slots_max = 64;
    o->store_join = "10.0.0.1:7421";
}

static void begin_drained(void)
{
    begin();
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
}

TestSuite(gateway_drained, .init = begin_drained, .fini = end);

static json_t *far_of(json_t **answer)
{
    *answer = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}");
    return json_array_get(json_object_get(*answer, "sites"), 1);
}

/* One is no plural. */
Test(gateway_drained, one_task_that_waits_for_the_only_slot_is_singular)
{
    (void)submit(operator_peer(), "olga", SWEEP(2));
    rig_pass(&r, HTC_SECOND);
    hand here = hello(r.launched[0].agent);
    cr_expect(eq(int, welcome_of(&here), HTC_OK));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"cancel\",\"id\":\"1.1\"}")); /* the other one waits */
    json_t     *why = rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"id\":\"1\"}");
    const char *said = json_string_value(json_object_get(why, "why"));
    cr_expect(strstr(said, "olga holds 1 of 1 slot, which is their share now (RA = 1); 1 task waits for one of them") != NULL, "%s", said);
    json_decref(why);
}

/* Where nothing is launched, people read why in all cases, whole, and who did it if nothing else was said. */
Test(gateway_drained, what_is_drained_says_for_what_or_by_whom)
{
    char     request[512], reason[302];
    json_t  *answer, *why;
    (void)join("far", 1);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"node.drain\",\"node\":\"node-far\"}"));
    (void)submit(operator_peer(), "olga", SWEEP(9));
    rig_pass(&r, HTC_SECOND);
    hand here = hello(r.launched[0].agent);
    cr_expect(eq(int, welcome_of(&here), HTC_OK));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"cancel\",\"id\":\"1.1-9\"}")); /* but one, which waits */
    why = rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"id\":\"1\"}");
    cr_expect(strstr(json_string_value(json_object_get(why, "why")), "1 task of job 1 waits: 1 slot is free, but node node-far of site far is out of service: drained by the operator (olga), without a reason; htc resume node-far") != NULL,
              "%s", json_string_value(json_object_get(why, "why")));
    json_decref(why);
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"node.resume\",\"node\":\"node-far\"}"));
    json_decref(rig_ask(&r, operator_peer(), "{\"op\":\"site.drain\",\"site\":\"far\"}"));
    why = rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"user\":\"olga\"}");
    cr_expect(strstr(json_string_value(json_object_get(why, "why")), "site far is out of service: drained by the operator (olga), without a reason; htc resume far") != NULL,
              "%s", json_string_value(json_object_get(why, "why")));
    json_decref(why);
    memset(reason, 'x', 301);
    for (int length = 301; length >= 300; length--) { /* none is cut: it is refused, or all of it is there, also after a restart */
        reason[length] = '\0';
        snprintf(request, sizeof request, "{\"op\":\"site.drain\",\"site\":\"far\",\"reason\":\"%s\"}", reason);
        answer = rig_ask(&r, operator_peer(), request);
        cr_expect(eq(int, json_object_get(answer, "error") != NULL, length == 301), "%d", length);
        json_decref(answer);
    }
    for (int i = 0; i < 2; i++) {
        cr_expect(strcmp(json_string_value(json_object_get(far_of(&answer), "reason")), reason) == 0, "%s", i ? "after a restart" : "at once");
        json_decref(answer);
        if (i == 0)
            kill_now();
    }
}
