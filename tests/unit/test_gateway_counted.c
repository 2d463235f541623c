/* What sites count by name: the rules of counted.h against lists that are looked through anew each time, and what a gateway makes of them. */
#include "gateway_hand.h"

#include "htcsched/work.h"
#include "roles/gateway/counted.h"

/* ---- the rules ---- */

Test(counted, refuses_what_is_no_name_and_what_is_too_many)
{
    counted_pool c = { 0 };
    char         name[8];
    cr_expect(eq(int, htc__counted_set(&c, "Gpu", 1), HTC_EINVAL));
    cr_expect(eq(int, htc__counted_set(&c, "", 1), HTC_EINVAL));
    cr_expect(eq(int, htc__counted_set(&c, "9", 1), HTC_EINVAL));
    cr_expect(eq(int, htc__counted_set(&c, "a123456789012345678901234567890x", 1), HTC_EINVAL), "32 bytes");
    cr_expect(eq(int, htc__counted_set(&c, HTC_RESOURCE_GPU, COUNTED_DEVICES_MAX + 1), HTC_EINVAL));
    for (int i = 0; i < COUNTED_MAX; i++) {
        snprintf(name, sizeof name, "r%d", i);
        cr_expect(eq(int, htc__counted_set(&c, name, 2), HTC_OK));
    }
    cr_expect(eq(int, htc__counted_set(&c, "more", 1), HTC_ENOSPC));
    cr_expect(eq(int, htc__counted_set(&c, "more", 0), HTC_OK), "none of it is no resource");
    cr_expect(eq(int, htc__counted_set(&c, "r3", 7), HTC_OK));
    cr_expect(eq(u32, htc__counted_total(&c, "r3"), 7));
}

#define RUNNING 64
typedef struct running {
    uint32_t gpus, licences;
    uint64_t devices, ends;
} running;

/* Tasks of two resources that come, run and end at random; what runs is a list. Never more than there are, no device twice, what fits by the
 * list fits by the rules, and one that has waited long enough gets its turn though smaller ones never cease to come. */
Test(counted, never_more_than_there_are_and_nobody_starves)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        htc_rng      rng = { seed };
        counted_pool c = { 0 };
        running      list[RUNNING] = { { 0 } };
        uint32_t     gpus = 1 + (uint32_t)htc_rng_below(&rng, 8), licences = 1 + (uint32_t)htc_rng_below(&rng, 5);
        uint64_t     waits = 0, longest = 0;
        htc__counted_set(&c, HTC_RESOURCE_GPU, gpus);
        htc__counted_set(&c, "matlab", licences);
        for (uint64_t now = 1; now < 2000; now++) {
            uint32_t     sum_gpus = 0, sum_licences = 0;
            uint64_t     devices = 0;
            counted_need need;
            for (int i = 0; i < RUNNING; i++) {
                if (list[i].ends && list[i].ends <= now) {
                    htc__counted_need(&need, (htc_resource[]){ { HTC_RESOURCE_GPU, list[i].gpus }, { "matlab", list[i].licences } }, 2);
                    htc__counted_give_back(&c, &need, list[i].devices);
                    list[i] = (running){ 0 };
                }
                cr_assert(!(devices & list[i].devices), "seed %llu: a device twice", (unsigned long long)seed);
                devices |= list[i].devices;
                sum_gpus += list[i].gpus;
                sum_licences += list[i].licences;
            }
            cr_assert(sum_gpus <= gpus && sum_licences <= licences, "seed %llu", (unsigned long long)seed);
            cr_assert(eq(u64, c.devices, devices));
            cr_assert(devices < UINT64_C(1) << gpus, "devices that are not there");
            for (int k = 0; k < 3; k++) { /* job 9 wants all; job 1 wants what there is of it */
                uint64_t job = k == 0 ? 9 : 1;
                uint32_t g = k == 0 ? gpus : 1 + (uint32_t)htc_rng_below(&rng, gpus), l = k == 0 ? licences : 1 + (uint32_t)htc_rng_below(&rng, licences);
                int      at = 0, by_list = sum_gpus + g <= gpus && sum_licences + l <= licences;
                while (at < RUNNING && list[at].ends)
                    at++;
                htc__counted_need(&need, (htc_resource[]){ { HTC_RESOURCE_GPU, g }, { "matlab", l } }, 2);
                int fits = !htc__counted_lacks(&c, job, &need);
                cr_assert(fits == (by_list && (c.kept_for == 0 || c.kept_for == job)), "seed %llu, moment %llu", (unsigned long long)seed, (unsigned long long)now);
                if (k == 0 && !fits) {
                    waits = waits ? waits : now;
                    longest = now - waits > longest ? now - waits : longest;
                    if (now - waits >= 20)
                        htc__counted_keep(&c, job, &need);
                }
                if (!fits || at == RUNNING)
                    continue;
                list[at] = (running){ .gpus = g, .licences = l, .devices = htc__counted_take(&c, &need), .ends = now + 1 + htc_rng_below(&rng, 10) };
                cr_assert(eq(int, __builtin_popcountll(list[at].devices), (int)g));
                sum_gpus += g;
                sum_licences += l;
                if (k == 0) {
                    waits = 0;
                    htc__counted_keep(&c, 0, NULL);
                }
            }
        }
        cr_expect(longest <= 32, "seed %llu: it waited %llu moments", (unsigned long long)seed, (unsigned long long)longest);
    }
}

/* ---- a gateway: four slots, two GPUs, three licences ---- */

static const htc_resource two_gpus[] = { { HTC_RESOURCE_GPU, 2 }, { "matlab", 3 } };

static void with_gpus(htc_gateway_options *o)
{
    static htc_site_options site;
    site = (htc_site_options){ .size = sizeof site, .name = "local", .cores = 4, .memory = UINT64_C(8) << 30, .resources = two_gpus, .n_resources = 2 };
    o->sites = &site;
}

static void begin_counted(void)
{
    rig_begin(&r);
    rig_kill(&r);
    r.change = with_gpus;
    rig_start(&r);
}

TestSuite(gateway_counted, .init = begin_counted, .fini = end);

static uint64_t submit_counted(uint32_t peer, const char *user, const char *name, int count, int tasks)
{
    char jsdl[4000];
    snprintf(jsdl, sizeof jsdl,
             "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl' xmlns:h='urn:htcsched:jsdl'"
             " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep'"
             " xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><jsdl:JobDescription><jsdl:Application>"
             "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument></px:POSIXApplication>"
             "</jsdl:Application><jsdl:Resources><h:Resource name='%s'>%d</h:Resource></jsdl:Resources></jsdl:JobDescription>"
             "<sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"
             "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/>"
             "<sweep:Match>//p:Argument[1]</sweep:Match></sweep:DocumentNode><sf:LoopInteger start='1' end='%d'/>"
             "</sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>",
             name, count, tasks);
    return submit(peer, user, jsdl);
}

static void why_is(uint32_t peer, const char *request, const char *code, const char *text)
{
    json_t     *answer = rig_ask(&r, peer, request);
    const char *is = json_string_value(json_object_get(answer, "why"));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "code")), (char *)code), "%s", is);
    cr_expect(strstr(is, text) != NULL, "%s", is);
    json_decref(answer);
}

static void books_are_right(void)
{
    htc_gateway_books b = { .size = sizeof b };
    cr_expect(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""));
}

/* What the newest grant to it says of devices; "" if nothing. */
static const char *devices_of(const hand *h)
{
    static htc_grant   g;
    static char        text[256];
    htc_task          *t = NULL;
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_GRANT);
    htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    cr_assert(eq(int, htc_task_from_bytes(NULL, g.tasks[0].task, &t), HTC_OK));
    snprintf(text, sizeof text, "%s", t->devices ? t->devices : "");
    htc_task_destroy(t);
    return text;
}

static uint64_t used(uint32_t p, const char *name)
{
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"agents\"}");
    json_t  *site = json_array_get(json_object_get(answer, "sites"), 0);
    uint64_t n = (uint64_t)json_integer_value(json_object_get(json_object_get(json_object_get(site, "resources"), name), "used"));
    json_decref(answer);
    return n;
}

Test(gateway_counted, each_task_has_its_own_devices)
{
    uint32_t    p = operator_peer();
    htc_attempt at[3];
    hand        h[3];
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 4);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 2), "two fit, and no agent is there for the others");
    for (int i = 0; i < 2; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
        cr_expect(eq(str, (char *)devices_of(&h[i]), i ? "1" : "0"));
    }
    books_are_right();
    cr_expect(eq(u64, used(p, "gpu"), 2));
    rig_pass(&r, 5 * HTC_SECOND);
    why_is(p, "{\"op\":\"why\",\"id\":1}", "Counted", "asks for 1 of gpu, and at site local 0 of 2 are free");
    why_is(p, "{\"op\":\"why\",\"id\":\"1.3\"}", "Counted", "gpu");
    why_is(p, "{\"op\":\"why\",\"user\":\"olga\"}", "Counted", "job 1");
    cr_expect(eq(int, report(&h[0], &at[0], HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h[0], &at[0]), HTC_GRANT_TASKS));
    cr_expect(eq(str, (char *)devices_of(&h[0]), "0"), "what has fallen free");
    books_are_right();
}

/* Tasks that ask for none pass; one that asks for all gets room after a minute. */
Test(gateway_counted, those_that_ask_for_nothing_pass_and_long_waits_end)
{
    uint32_t    p = operator_peer();
    htc_attempt at[4];
    hand        h[4];
    uint64_t    small = submit_counted(p, "olga", "matlab", 1, 100);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 3));
    for (int i = 0; i < 3; i++) {
        h[i] = hello(r.launched[i].agent);
        cr_assert(eq(u32, pull(&h[i], &at[i]), HTC_GRANT_TASKS));
        cr_expect(eq(str, (char *)devices_of(&h[i]), ""), "a licence is no device");
    }
    uint64_t plain = submit(p, "olga", SWEEP(1));
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(sz, r.n_launched, 4), "the fourth slot is for one that asks for none");
    h[3] = hello(r.launched[3].agent);
    cr_assert(eq(u32, pull(&h[3], &at[3]), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at[3].job, plain));
    cr_expect(eq(int, report(&h[3], &at[3], HTC_OK), HTC_OK));
    cr_expect(eq(u32, pull(&h[3], &at[3]), HTC_GRANT_EXIT));
    process_ended(h[3].id);
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    uint64_t all = submit_counted(p, "ben", "matlab", 3, 1);
    rig_pass(&r, 5 * HTC_SECOND);
    why_is(p, "{\"op\":\"why\",\"id\":3}", "Counted", "pass it for");
    for (int k = 0; k < 6; k++) {
        rig_pass(&r, 5 * HTC_SECOND);
        cr_expect(eq(int, report(&h[k % 3], &at[k % 3], HTC_OK), HTC_OK));
        cr_assert(eq(u32, pull(&h[k % 3], &at[k % 3]), HTC_GRANT_TASKS), "turn %d", k);
        cr_expect(eq(u64, at[k % 3].job, small));
    }
    for (int k = 0; k < 8; k++) {
        rig_pass(&r, 5 * HTC_SECOND);
        for (int i = 0; i < 3; i++)
            hello(h[i].id); /* as a heartbeat would: they are there */
    }
    why_is(p, "{\"op\":\"why\",\"id\":3}", "Counted", "kept for it");
    books_are_right();
    (void)all;
}

/* A gateway that starts again knows which devices are taken, and by whom; what a lost agent's task has is taken until its process is gone. */
Test(gateway_counted, devices_outlive_the_gateway_and_lost_agents)
{
    uint32_t    p = operator_peer();
    htc_attempt at, more;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 9);
    rig_pass(&r, 100 * HTC_MS);
    hand h0 = hello(r.launched[0].agent), h1 = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&h0, &at), HTC_GRANT_TASKS));
    cr_assert(eq(u32, pull(&h1, &more), HTC_GRANT_TASKS));
    cr_expect(eq(int, report(&h0, &at, HTC_OK), HTC_OK));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(u64, used(p, "gpu"), 1));
    books_are_right();
    h0.peer = hello(h0.id).peer;
    h1.peer = hello(h1.id).peer;
    cr_assert(eq(u32, pull(&h0, &at), HTC_GRANT_TASKS));
    cr_expect(eq(str, (char *)devices_of(&h0), "0"), "the other one's is 1");
    rig_pass(&r, 20 * HTC_SECOND);
    hello(h0.id);
    rig_pass(&r, 15 * HTC_SECOND); /* h1 is lost */
    books_are_right();
    cr_expect(eq(u64, used(p, "gpu"), 2), "its process may run");
    process_ended(h1.id);
    books_are_right();
    cr_expect(eq(u64, used(p, "gpu"), 1));
    rig_kill(&r);
    rig_start(&r);
    books_are_right();
}

/* It comes back after it was lost, and its process of that attempt is still there. */
static void heartbeat_with(hand *h, const htc_attempt *at)
{
    static htc_heartbeat m;
    htc_buf              b;
    m = (htc_heartbeat){ .agent = h->id, .seq = ++h->beat, .last_grant = h->last_grant, .next = HTC_SECOND, .held = { .count = at != NULL } };
    if (at)
        m.held.held[0] = (htc_held){ *at, HTC_HELD_RUNNING };
    htc_buf_init(&b, NULL, 0);
    htc_heartbeat_write(&b, &m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
}

static hand hello_with(uint64_t agent, const htc_attempt *at)
{
    hand            h = { .id = agent, .peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    htc_agent_hello m = { .agent = agent, .slots = 1, .cores = 4, .node = "node1", .held = { .count = 1, .held = { { *at, HTC_HELD_RUNNING } } } };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    return h;
}

static uint32_t start_again(void)
{
    rig_kill(&r);
    rig_start(&r);
    books_are_right();
    return operator_peer();
}

/* What the task of a lost agent has outlives the gateway: until that agent is back and does not have the attempt any more. */
Test(gateway_counted, what_a_lost_agent_has_outlives_the_gateway)
{
    uint32_t    p = operator_peer();
    htc_attempt at, lost, other;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 9);
    rig_pass(&r, 100 * HTC_MS);
    hand h0 = hello(r.launched[0].agent), h1 = hello(r.launched[1].agent);
    cr_assert(eq(u32, pull(&h0, &at), HTC_GRANT_TASKS));
    cr_assert(eq(u32, pull(&h1, &lost), HTC_GRANT_TASKS));
    rig_pass(&r, 20 * HTC_SECOND);
    heartbeat_with(&h0, &at);
    rig_pass(&r, 15 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, lost.job, "waiting"), 8), "h1 is lost");
    for (int i = 0; i < 3; i++)
        p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 2), "what it had is nobody else's");
    uint32_t known = h1.peer;
    h0.peer = hello_with(h0.id, &at).peer;
    h1.peer = hello_with(h1.id, &lost).peer;
    cr_assert(h1.peer != known && welcome_of(&h1) == HTC_OK, "it is as any other");
    books_are_right();
    cr_expect(eq(int, report(&h0, &at, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h0, &at), HTC_GRANT_TASKS));
    cr_expect(eq(str, (char *)devices_of(&h0), "0"), "the other one's process has 1");
    p = start_again();
    h0.peer = hello_with(h0.id, &at).peer;
    h1.peer = hello_with(h1.id, &lost).peer;
    cr_expect(eq(u64, used(p, "gpu"), 2));
    heartbeat_with(&h1, &lost);
    cr_expect(eq(u64, used(p, "gpu"), 2), "it ends, and has not ended");
    heartbeat_with(&h1, NULL);
    cr_expect(eq(u64, used(p, "gpu"), 1));
    books_are_right();
    h1.seq = 0;
    cr_assert(eq(u32, pull(&h1, &other), HTC_GRANT_TASKS));
    cr_expect(eq(str, (char *)devices_of(&h1), "1"));
    p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 2), "by two tasks");
    books_are_right();
}

/* Likewise what is no device; and its process ends without a word of the agent. */
Test(gateway_counted, licences_of_a_lost_agent_outlive_the_gateway)
{
    uint32_t    p = operator_peer();
    htc_attempt lost;
    submit_counted(p, "olga", "matlab", 3, 2);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &lost), HTC_GRANT_TASKS));
    p = start_again();
    cr_expect(eq(u64, used(p, "matlab"), 3), "of one that is leased, once");
    rig_pass(&r, 31 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, lost.job, "waiting"), 2));
    cr_expect(eq(u64, used(p, "matlab"), 3));
    p = start_again();
    cr_expect(eq(u64, used(p, "matlab"), 3));
    process_ended(h.id);
    cr_expect(eq(u64, used(p, "matlab"), 0));
    p = start_again();
    cr_expect(eq(u64, used(p, "matlab"), 0));
}

static void with_gpus_and_one_gib(htc_gateway_options *o)
{
    static htc_site_options site;
    with_gpus(o);
    site = o->sites[0];
    site.memory = UINT64_C(1) << 30;
    o->sites = &site;
}

static uint64_t memory_reserved(uint32_t p)
{
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"agents\"}");
    uint64_t n = (uint64_t)json_integer_value(json_object_get(json_array_get(json_object_get(answer, "sites"), 0), "memory_reserved"));
    json_decref(answer);
    return n;
}

/* The next gateway is told that the site has less memory than the lost agent's task reserves: its GPUs are nobody else's all the same. */
Test(gateway_counted, devices_of_a_lost_agent_outlive_a_gateway_that_has_less_memory)
{
    uint32_t    p = operator_peer();
    htc_attempt lost;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 2, 2);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &lost), HTC_GRANT_TASKS));
    rig_pass(&r, 31 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, lost.job, "waiting"), 2), "it is lost");
    cr_assert(eq(u64, memory_reserved(p), UINT64_C(2) << 30));
    r.change = with_gpus_and_one_gib;
    for (int i = 0; i < 2; i++) {
        p = start_again();
        rig_pass(&r, 100 * HTC_MS);
        cr_expect(eq(u64, used(p, "gpu"), 2), "start %d: its process may run", i);
        cr_expect(eq(u64, memory_reserved(p), UINT64_C(1) << 30), "start %d: what is free", i);
        books_are_right();
    }
    r.change = with_gpus;
    p = start_again();
    cr_expect(eq(u64, memory_reserved(p), UINT64_C(2) << 30), "the record says what it was");
    process_ended(h.id);
    cr_expect(eq(u64, used(p, "gpu"), 0));
    cr_expect(eq(u64, memory_reserved(p), 0));
    p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 0), "nothing is left of it");
}

/* The gateway ended before it had deleted the record of an attempt that has ended. What that says is of no account as soon as another attempt has the device. */
Test(gateway_counted, a_record_that_is_left_over_takes_nothing_from_the_next_attempt)
{
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 2);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    r.lost = "h/0000";
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    r.lost = NULL;
    p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 1), "it is not known that nothing runs");
    h.peer = hello(h.id).peer;
    cr_expect(eq(u64, used(p, "gpu"), 0));
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    r.lost = "h/0000";
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    r.lost = NULL;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 1);
    rig_pass(&r, 100 * HTC_MS);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_expect(eq(str, (char *)devices_of(&h), "0"));
    p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 1));
    h.peer = hello_with(h.id, &at).peer;
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_expect(eq(u64, used(p, "gpu"), 0));
    books_are_right();
}

/* Likewise if the next attempt's agent is lost before the gateway ends: of two records of one device the newer one says who has it. */
Test(gateway_counted, a_record_that_is_left_over_does_not_hide_a_newer_one)
{
    char        record[64];
    uint32_t    p = operator_peer();
    htc_attempt at;
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 1, 2);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    snprintf(record, sizeof record, "h/%016llx/%016llx/%08x", (unsigned long long)at.job, (unsigned long long)at.task, at.attempt);
    r.lost = record; /* it is never deleted */
    cr_expect(eq(int, report(&h, &at, HTC_OK), HTC_OK));
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    cr_assert(eq(str, (char *)devices_of(&h), "0"), "as the first one had");
    rig_pass(&r, 35 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, at.job, "waiting"), 1), "its agent is lost");
    r.lost = NULL;
    p = start_again();
    cr_expect(eq(u64, used(p, "gpu"), 1));
    h.peer = hello_with(h.id, &at).peer;
    heartbeat_with(&h, &at);
    cr_expect(eq(u64, used(p, "gpu"), 1), "the newer one runs there");
    books_are_right();
}

static void with_gpus_shared(htc_gateway_options *o)
{
    with_gpus(o);
    o->lease_ns = 2 * HTC_SECOND;
    o->name = "head1";
    o->address = "10.0.0.1:7420";
}

/* Where other gateways may be, the agent's record says that it is lost. The one before ended between that and the record of the task. */
Test(gateway_counted, what_a_lost_agent_has_outlives_a_gateway_that_ended_half_way)
{
    htc_attempt at;
    r.change = with_gpus_shared;
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 6 * HTC_SECOND);
    uint32_t p = operator_peer();
    submit_counted(p, "olga", HTC_RESOURCE_GPU, 2, 1);
    rig_pass(&r, 100 * HTC_MS);
    hand h = hello(r.launched[0].agent);
    cr_assert(eq(u32, pull(&h, &at), HTC_GRANT_TASKS));
    r.lost = "c/0000";
    for (int i = 0; i < 60 && !r.killed; i++)
        rig_pass(&r, HTC_SECOND);
    cr_assert(eq(u64, r.killed, h.id));
    rig_kill(&r);
    r.lost = NULL;
    rig_start(&r);
    rig_pass(&r, 3 * HTC_SECOND);
    p = operator_peer();
    cr_assert(eq(int, (int)count_of(p, at.job, "waiting"), 1));
    cr_expect(eq(u64, used(p, "gpu"), 2));
    books_are_right();
    process_ended(h.id);
    cr_expect(eq(u64, used(p, "gpu"), 0));
    books_are_right();
}

static void is_refused(uint32_t p, const char *name, int count, const char *why)
{
    char request[2000];
    snprintf(request, sizeof request,
             "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"
             " xmlns:h='urn:htcsched:jsdl' xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'><jsdl:JobDescription><jsdl:Application>"
             "<px:POSIXApplication><px:Executable>/bin/true</px:Executable></px:POSIXApplication></jsdl:Application>"
             "<jsdl:Resources><h:Resource name='%s'>%d</h:Resource></jsdl:Resources></jsdl:JobDescription></jsdl:JobDefinition>\"}",
             name, count);
    json_t *answer = rig_ask(&r, p, request);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "error")), "HTC_ENOFIT"));
    cr_expect(strstr(json_string_value(json_object_get(answer, "message")), why) != NULL, "%s", json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
}

Test(gateway_counted, what_no_site_has_is_refused_by_name)
{
    uint32_t p = operator_peer();
    is_refused(p, HTC_RESOURCE_GPU, 3, "asks for 3 of gpu, and no site has more than 2");
    is_refused(p, "ansys", 1, "asks for 1 of ansys, and no site has it");
}
