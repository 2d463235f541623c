/* Gangs: the plans of gang.h against all plans there are, its choice and its pauses; and gateways whose tasks need several nodes at once.
 * Row 25 of the specification's section 7: k cores held at once, k counted in RA, never more than A in all; two users' gangs on too few cores
 * both finish. */
#include "gateway_gang_hand.h"

#include "roles/gateway/gang.h"
#include "roles/runtime/gang_wire.h"

/* ---- the rules ---- */

/* Is there any plan? Every group, every way to take from its sites. */
static int any_plan(const gang_site *s, size_t n, size_t at, uint32_t group, uint32_t left, int at_once)
{
    if (left == 0)
        return 1;
    if (at == n)
        return 0;
    uint32_t most = s[at].group == group && !s[at].taken ? at_once ? s[at].now : s[at].most : 0;
    for (uint32_t k = 0; k <= most && k <= left; k++)
        if (any_plan(s, n, at + 1, group, left - k, at_once))
            return 1;
    return 0;
}

Test(gang, a_plan_is_found_where_there_is_one)
{
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        htc_rng   rng = { seed };
        gang_site s[5];
        uint32_t  parts[5], sum = 0, group = 0, largest = 0;
        size_t    n = 1 + htc_rng_below(&rng, 5);
        for (size_t i = 0; i < n; i++) {
            s[i] = (gang_site){ .group = (uint32_t)htc_rng_below(&rng, 3), .most = (uint32_t)htc_rng_below(&rng, 4), .taken = htc_rng_below(&rng, 5) == 0 };
            s[i].now = (uint32_t)htc_rng_below(&rng, s[i].most + 1);
        }
        uint32_t members = 1 + (uint32_t)htc_rng_below(&rng, 6);
        int      at_once = (int)htc_rng_below(&rng, 2), is = 0;
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t its = 0;
            is |= any_plan(s, n, 0, g, members, at_once);
            for (size_t i = 0; i < n; i++)
                its += s[i].group == g ? s[i].most : 0;
            largest = its > largest ? its : largest;
        }
        cr_assert(eq(u32, htc__gang_most(s, n), largest));
        cr_assert(eq(int, htc__gang_plan(s, n, members, at_once, parts), is), "seed %llu", (unsigned long long)seed);
        for (size_t i = 0, first = 1; i < n; i++) {
            cr_assert(parts[i] <= (at_once ? s[i].now : s[i].most) && !(parts[i] && s[i].taken), "seed %llu", (unsigned long long)seed);
            cr_assert(!parts[i] || first || s[i].group == group, "of two groups");
            group = parts[i] && first ? s[i].group : group;
            first &= !parts[i];
            sum += parts[i];
        }
        cr_assert(eq(u32, sum, is ? members : 0));
    }
}

Test(gang, members_are_chosen_when_all_are_there)
{
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        htc_rng    rng = { seed };
        gang_agent a[8];
        uint32_t   parts[3], members[24], has[3] = { 0 }, got[3] = { 0 }, wanted = 0, part = 1 + (uint32_t)htc_rng_below(&rng, 3);
        size_t     n = htc_rng_below(&rng, 9);
        for (size_t i = 0; i < n; i++) {
            a[i] = (gang_agent){ (uint32_t)htc_rng_below(&rng, 3), (uint32_t)htc_rng_below(&rng, 5) };
            has[a[i].site] += a[i].room >= part;
        }
        int is = 1;
        for (int s = 0; s < 3; s++) {
            parts[s] = (uint32_t)htc_rng_below(&rng, 3);
            wanted += parts[s];
            is &= has[s] >= parts[s];
        }
        uint32_t lead = (uint32_t)htc_rng_below(&rng, 9), count = htc__gang_choose(a, n, lead, part, parts, 3, members);
        cr_assert(eq(u32, count, is ? wanted : 0), "seed %llu", (unsigned long long)seed);
        for (uint32_t i = 0; i < count; i++) {
            cr_assert(members[i] < n && a[members[i]].room >= part);
            got[a[members[i]].site]++;
            for (uint32_t k = 0; k < i; k++)
                cr_assert(members[i] != members[k], "one agent twice");
        }
        for (int s = 0; s < 3 && count; s++)
            cr_assert(eq(u32, got[s], parts[s]));
        if (count && lead < n && a[lead].room >= part && parts[a[lead].site])
            cr_assert(eq(u32, members[0], lead));
    }
}

Test(gang, pauses_double_to_a_bound)
{
    gang_watch w = { 0 };
    htc_ns     now = 1000, pause = 60;
    for (int i = 0; i < 10; i++) {
        cr_assert(!htc__gang_rests(&w, now));
        htc__gang_begin(&w, now);
        cr_assert(!htc__gang_is_late(&w, now + 59, 60) && htc__gang_is_late(&w, now + 60, 60));
        now += 60;
        htc__gang_give_up(&w, now, 60);
        cr_assert(htc__gang_rests(&w, now + pause - 1) && !htc__gang_rests(&w, now + pause) && !htc__gang_is_late(&w, now + pause, 60));
        now += pause;
        pause = i < GANG_DOUBLINGS ? pause * 2 : pause;
    }
    htc__gang_done(&w);
    htc__gang_begin(&w, now);
    htc__gang_give_up(&w, now, 60);
    cr_assert(htc__gang_rests(&w, now + 59) && !htc__gang_rests(&w, now + 60), "from the beginning");
}

/* ---- a gateway: three hosts of two slots each ---- */

static void three_hosts(htc_gateway_options *o)
{
    static htc_site_options sites[3];
    static const char *const names[] = { "a", "b", "c" };
    for (int i = 0; i < 3; i++)
        sites[i] = (htc_site_options){ .size = sizeof sites[0], .name = names[i], .cores = 2, .memory = UINT64_C(8) << 30 };
    o->sites = sites;
    o->n_sites = 3;
    o->slots_max = 4;
    o->gang_collect_ns = 10 * HTC_SECOND;
}

static void begin_gangs(void)
{
    rig_begin(&r);
    rig_kill(&r);
    r.change = three_hosts;
    rig_start(&r);
}

TestSuite(gateway_gangs, .init = begin_gangs, .fini = end);

/* Agents that have a part of the attempt at once; leads: of them, who leads. */
static uint32_t parts_of(uint64_t job, uint32_t *leads)
{
    uint32_t n = 0;
    *leads = 0;
    for (uint32_t i = 0; i < n_hands; i++)
        for (uint32_t k = 0; hands[i].alive && k < hands[i].n_held; k++)
            if (hands[i].held[k].job == job) {
                n++;
                *leads += hands[i].member[k] == 0;
            }
    return n;
}

static int has_ended(uint32_t p, uint64_t job)
{
    json_t *j = job_of(p, job);
    int     ended = json_integer_value(json_object_get(j, "ended")) != 0 || json_real_value(json_object_get(j, "ended")) > 0;
    json_decref(j);
    return ended;
}

Test(gateway_gangs, all_members_begin_and_end_together)
{
    uint32_t p = operator_peer(), leads, seen = 0;
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(6, 2, 2));
    for (int i = 0; i < 60 && count_of(p, job, "done") < 2; i++) {
        turn_all(3 * HTC_SECOND);
        uint32_t n = parts_of(job, &leads);
        cr_assert(n == 0 || (n == 3 && leads == 1) || leads == 0, "%u members, %u lead", n, leads);
        seen += n == 3;
    }
    cr_expect(eq(int, (int)count_of(p, job, "done"), 2));
    cr_expect(seen > 3, "it was never seen at work");
    cr_expect(eq(u32, together_most, 6));
    json_t *users = rig_ask(&r, p, "{\"op\":\"users\"}");
    json_decref(users);
}

/* Two users' gangs of four of six slots, beside one-slot tasks of both: each waits for its own halves alone. All end; never more than six. */
Test(gateway_gangs, two_users_on_too_few_cores_both_finish)
{
    uint32_t p = operator_peer();
    begin_hands();
    cr_assert(eq(str, (char *)refusal(p, "{\"op\":\"user.add\",\"name\":\"ben\",\"password\":\"x\"}"), ""));
    uint64_t small = submit(p, "olga", SWEEP(6)), one = submit(p, "olga", WIDE(4, 2, 3)), two = submit(p, "ben", WIDE(4, 2, 3));
    int      i = 0;
    for (; i < 1200 && count_of(p, one, "done") + count_of(p, two, "done") + count_of(p, small, "done") < 12; i++)
        turn_all(2 * HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, one, "done"), 3), "after %d turns", i);
    cr_expect(eq(int, (int)count_of(p, two, "done"), 3), "after %d turns", i);
    cr_expect(eq(int, (int)count_of(p, small, "done"), 6));
}

/* A member's agent is lost: the gang ends, its task waits again, and another user's task goes on. */
/* HTCaaS 6: A member of a gang is lost. */
Test(gateway_gangs, a_lost_member_takes_the_gang_with_it)
{
    uint32_t p = operator_peer(), leads;
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
    for (int i = 0; i < 60 && !parts_of(job, &leads); i++)
        turn_all(1000 * HTC_SECOND);
    for (int i = 0; i < 3; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 3));
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].n_held && hands[i].member[0] == 1) {
            hands[i].alive = 0;
            process_ended(hands[i].h.id);
            break;
        }
    books_are_right();
    cr_expect(eq(int, (int)count_of(p, job, "waiting"), 1));
    for (uint32_t i = 0; i < n_hands; i++)
        hear(&hands[i], 0);
    cr_expect(eq(u32, parts_of(job, &leads), 0), "the others have heard of it");
    for (int i = 0; i < 100 && count_of(p, job, "done") < 1; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1), "it ran again");
}

/* Said by one agent: does another hear of it? */
static int passed_on(const gang_hand *from, const gang_hand *to, htc_gang_word m)
{
    htc_buf b;
    size_t  before = r.n_inbox;
    int     heard = 0;
    m.agent = from->h.id;
    htc_buf_init(&b, NULL, 0);
    htc_gang_word_write(&b, &m);
    rig_say(&r, from->h.peer, &b);
    htc_buf_free(&b);
    for (size_t i = before; i < r.n_inbox; i++) {
        const rig_message *got = &r.inbox[i % 256];
        heard += got->type == HTC_WIRE_GANG_WORD && got->peer == to->h.peer;
        cr_assert(got->type != HTC_WIRE_GANG_WORD || got->peer == to->h.peer, "somebody else is told");
    }
    return heard;
}

/* The leader asks members and members answer the leader: of their own attempt, and nothing else. */
Test(gateway_gangs, words_of_a_gang_are_passed_on)
{
    uint32_t   p = operator_peer(), leads, n = 0;
    gang_hand *of[3] = { NULL };
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 3; i++)
        turn_all(1000 * HTC_SECOND);
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].alive && hands[i].n_held) {
            of[hands[i].member[0]] = &hands[i];
            n++;
        }
    cr_assert(eq(u32, n, 3));
    htc_gang_word start = { .attempt = of[0]->held[0], .member = 1, .start = 1, .kind = HTC_GANG_START, .body = { "true", 5 } };
    htc_gang_word runs = start, end = start, other = start, nobody = start;
    runs.kind = HTC_GANG_RUNS;
    end.kind = HTC_GANG_ENDED;
    other.attempt.attempt++;
    nobody.member = 3;
    cr_expect(eq(int, passed_on(of[0], of[1], start), 1));
    cr_expect(eq(int, passed_on(of[1], of[0], runs), 1));
    cr_expect(eq(int, passed_on(of[1], of[0], end), 1));
    cr_expect(eq(int, passed_on(of[1], of[2], start), 0), "a member asks for nothing");
    cr_expect(eq(int, passed_on(of[2], of[0], end), 0), "nor does one speak for another");
    cr_expect(eq(int, passed_on(of[0], of[1], runs), 0));
    cr_expect(eq(int, passed_on(of[0], of[1], other), 0), "another attempt");
    cr_expect(eq(int, passed_on(of[0], of[1], nobody), 0), "there is no such member");
    r.speaks = HTC_WIRE_VERSION_GANGS - 1;
    of[1]->h.peer = hello(of[1]->h.id).peer;
    cr_expect(eq(int, passed_on(of[0], of[0], start), 1), "an agent that knows nothing of it: the leader is told so");
    r.speaks = 0;
    for (uint32_t i = 0; i < 3; i++)
        of[i]->ends[0] = r.now;
    for (int i = 0; i < 4; i++)
        turn_all(0);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
    cr_expect(eq(int, passed_on(of[0], of[2], start), 0), "it is over");
}

/* A gateway that starts again knows the gang, whoever of it comes back first. */
Test(gateway_gangs, a_gang_outlives_the_gateway)
{
    uint32_t p = operator_peer(), leads;
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 3; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 3));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    books_are_right();
    for (uint32_t i = n_hands; i-- > 0;)
        if (hands[i].alive) {
            gang_hand *g = &hands[i];
            g->read = r.n_inbox;
            g->h.peer = hello(g->h.id).peer;
        }
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].alive)
            beat(&hands[i]);
    for (int i = 0; i < 8; i++)
        turn_all(1000 * HTC_SECOND);
    cr_expect(eq(u32, parts_of(job, &leads), 3), "it goes on");
    for (uint32_t i = 0; i < n_hands; i++)
        for (uint32_t k = 0; k < hands[i].n_held; k++)
            hands[i].ends[k] = r.now;
    for (int i = 0; i < 8; i++)
        turn_all(0);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
    books_are_right();
}

/* A node is another task's: of the gang's three members two are there, and wait. */
static uint64_t half_collected(uint32_t p)
{
    uint64_t other = submit(p, "olga", SWEEP(1)), job;
    uint32_t leads;
    for (int i = 0; i < 20 && !parts_of(other, &leads); i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(other, &leads), 1));
    job = submit(p, "olga", WIDE(6, 2, 1));
    for (int i = 0; i < 8; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 0), "it is not together");
    json_t *why = rig_ask(&r, p, "{\"op\":\"why\",\"id\":2}");
    cr_assert(strstr(json_string_value(json_object_get(why, "why")), "kept for it"), "%s", json_string_value(json_object_get(why, "why")));
    json_decref(why);
    return job;
}

static void end_of_all_tasks(void)
{
    for (uint32_t i = 0; i < n_hands; i++)
        for (uint32_t k = 0; k < hands[i].n_held; k++)
            hands[i].ends[k] = r.now;
}

static void come_back(void)
{
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].alive) {
            hands[i].read = r.n_inbox;
            hands[i].asked = 0;
            hands[i].h.peer = hello(hands[i].h.id).peer;
            beat(&hands[i]);
        }
}

/* One that waits for the others to come ends: another one takes its place. */
Test(gateway_gangs, a_member_is_lost_while_they_are_collected)
{
    uint32_t p = operator_peer(), lost = 0;
    begin_hands();
    uint64_t job = half_collected(p);
    for (uint32_t i = 0; i < n_hands && !lost; i++)
        if (hands[i].alive == 1 && hands[i].n_held == 0) {
            hands[i].alive = 0;
            process_ended(hands[i].h.id);
            lost = 1;
        }
    cr_assert(eq(u32, lost, 1), "none waits");
    books_are_right();
    end_of_all_tasks();
    for (int i = 0; i < 200 && count_of(p, job, "done") < 1; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
}

/* What was collected is no record: the next gateway collects anew, from agents that wait. */
Test(gateway_gangs, a_gateway_starts_while_they_are_collected)
{
    uint32_t p = operator_peer();
    begin_hands();
    uint64_t job = half_collected(p);
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    come_back();
    books_are_right();
    end_of_all_tasks();
    for (int i = 0; i < 200 && count_of(p, job, "done") < 1; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
}

/* At any turn from the submission to the end: the task ends once, and is never in two gangs. */
Test(gateway_gangs, a_gateway_starts_at_any_turn)
{
    uint32_t p = operator_peer(), leads;
    begin_hands();
    for (int at = 0; at < 8; at++) {
        uint64_t job = submit(p, "olga", WIDE(6, 2, 1));
        for (int i = 0; i < at; i++)
            turn_all(HTC_SECOND);
        rig_kill(&r);
        rig_start(&r);
        p = operator_peer();
        come_back();
        books_are_right();
        for (int i = 0; i < 200 && count_of(p, job, "done") < 1; i++) {
            turn_all(HTC_SECOND);
            cr_assert(parts_of(job, &leads) <= 3 && leads <= 1, "killed at turn %d", at);
        }
        cr_assert(eq(int, (int)count_of(p, job, "done"), 1), "killed at turn %d", at);
        cr_assert(n_hands < 28);
    }
}

Test(gateway_gangs, what_no_site_has_is_refused)
{
    uint32_t p = operator_peer();
    char     request[4000];
    snprintf(request, sizeof request, "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"%s\"}", WIDE(8, 2, 1));
    cr_expect(eq(str, (char *)refusal(p, request), "HTC_ETOOBIG"), "four nodes of three");
    snprintf(request, sizeof request, "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"%s\"}", WIDE(9, 3, 1));
    cr_expect(eq(str, (char *)refusal(p, request), "HTC_ETOOBIG"), "three cores of two");
}

/* ---- what is counted: each member takes its own ---- */

static void hosts_with_gpus(htc_gateway_options *o)
{
    static const htc_resource has[] = { { HTC_RESOURCE_GPU, 1 }, { "matlab", 1 } };
    three_hosts(o);
    for (int i = 0; i < 2; i++) {
        htc_site_options *s = (htc_site_options *)(uintptr_t)&o->sites[i];
        s->resources = has;
        s->n_resources = i == 0 ? 2 : 1;
    }
}

/* The document, and each of its tasks takes so many of that on each node. */
static const char *taking(const char *jsdl, const char *name, uint32_t count)
{
    static char text[8000];
    const char *at = strstr(jsdl, "</jsdl:Resources>");
    snprintf(text, sizeof text, "%.*s<h:Resource xmlns:h='urn:htcsched:jsdl' name='%s'>%u</h:Resource>%s", (int)(at - jsdl), jsdl, name, count, at);
    return text;
}

/* Of all three sites. */
static uint32_t used_of(uint32_t p, const char *name)
{
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"agents\"}"), *s;
    uint32_t n = 0;
    size_t   i;
    json_array_foreach(json_object_get(answer, "sites"), i, s)
    n += (uint32_t)json_integer_value(json_object_get(json_object_get(json_object_get(s, "resources"), name), "used"));
    json_decref(answer);
    return n;
}

static uint32_t begin_with_gpus(void)
{
    rig_kill(&r);
    r.change = hosts_with_gpus;
    rig_start(&r);
    begin_hands();
    return operator_peer();
}

/* Two of the three nodes have a GPU each: gangs of two members run there one after the other, and each member has its node's. */
Test(gateway_gangs, each_member_takes_what_is_counted_at_its_site)
{
    uint32_t p = begin_with_gpus(), leads, used_most = 0;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 2), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 80 && count_of(p, job, "done") < 2; i++) {
        turn_all(3 * HTC_SECOND);
        uint32_t n = parts_of(job, &leads), used = used_of(p, HTC_RESOURCE_GPU);
        cr_assert(n <= 2 && used <= 2);
        used_most = used > used_most ? used : used_most;
    }
    cr_expect(eq(int, (int)count_of(p, job, "done"), 2));
    cr_expect(eq(u32, used_most, 2));
    cr_expect(eq(u32, first_devices, 4), "each member of both has device 0 of its node");
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
}

Test(gateway_gangs, a_member_waits_for_what_another_task_has)
{
    uint32_t p = begin_with_gpus(), leads;
    uint64_t one = submit(p, "olga", taking(WIDE(2, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 20 && !parts_of(one, &leads); i++)
        turn_all(1000 * HTC_SECOND);
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 12; i++)
        turn_all(1000 * HTC_SECOND);
    cr_expect(eq(u32, parts_of(job, &leads), 0), "one of two GPUs is another task's, though two nodes are free");
    end_of_all_tasks();
    for (int i = 0; i < 200 && count_of(p, job, "done") < 1; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
}

/* The record says which devices each member has: the next gateway gives them to nobody else. */
Test(gateway_gangs, devices_of_members_outlive_the_gateway)
{
    uint32_t p = begin_with_gpus(), leads;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 2));
    books_are_right();
    come_back();
    for (int i = 0; i < 8; i++)
        turn_all(1000 * HTC_SECOND);
    end_of_all_tasks();
    for (int i = 0; i < 60 && count_of(p, job, "done") < 1; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
    books_are_right();
}

/* The hand of that member. */
static gang_hand *member_hand(uint32_t number)
{
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].alive && hands[i].n_held && hands[i].member[0] == number)
            return &hands[i];
    cr_fatal("there is no member %u", number);
}

/* The task has ended, and a member's processes have been told to: as long as they have not, no other task has that member's device. */
Test(gateway_gangs, a_member_has_its_devices_until_it_has_ended)
{
    uint32_t p = begin_with_gpus(), leads;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 2), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    gang_hand  *member = member_hand(1);
    htc_attempt first = member->held[0];
    ends_late = 1;
    end_of_all_tasks();
    for (int i = 0; i < 8; i++)
        turn_all(1000 * HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 1));
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1), "the member's processes run");
    cr_expect(eq(u32, first_devices, 2), "the second task has not begun");
    cr_expect(eq(int, (int)count_of(p, job, "waiting"), 1));
    drop_held(member, &first);
    beat(member);
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0), "it has said that they do not");
    ends_late = 0;
    end_of_all_tasks();
    for (int i = 0; i < 200 && count_of(p, job, "done") < 2; i++)
        turn_all(HTC_SECOND);
    cr_expect(eq(int, (int)count_of(p, job, "done"), 2));
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
}

/* Likewise for the next gateway, until each has said so. */
Test(gateway_gangs, devices_of_a_member_that_ends_late_outlive_the_gateway)
{
    uint32_t p = begin_with_gpus(), leads;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    ends_late = 1;
    end_of_all_tasks();
    for (int i = 0; i < 4; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, job, "done"), 1));
    for (int i = 0; i < 2; i++) {
        rig_kill(&r);
        rig_start(&r);
        p = operator_peer();
        cr_expect(used_of(p, HTC_RESOURCE_GPU) > 0, "start %d", i);
        books_are_right();
    }
    come_back(); /* with nothing in their hands */
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
    books_are_right();
}

/* Of all three sites. */
static uint64_t reserved(uint32_t p)
{
    json_t  *answer = rig_ask(&r, p, "{\"op\":\"agents\"}"), *s;
    uint64_t n = 0;
    size_t   i;
    json_array_foreach(json_object_get(answer, "sites"), i, s)
    n += (uint64_t)json_integer_value(json_object_get(s, "memory_reserved"));
    json_decref(answer);
    return n;
}

/* As its devices: each member's task has 8 GiB. */
Test(gateway_gangs, memory_of_a_member_is_reserved_until_it_has_ended)
{
    uint32_t p = operator_peer(), leads;
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(4, 2, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    cr_expect(eq(u64, reserved(p), UINT64_C(16) << 30));
    gang_hand *member = member_hand(1);
    ends_late = 1;
    end_of_all_tasks();
    for (int i = 0; i < 4; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, job, "done"), 1));
    cr_expect(eq(u64, reserved(p), UINT64_C(8) << 30), "the member's processes run");
    p = (rig_kill(&r), rig_start(&r), operator_peer());
    cr_expect(reserved(p) >= UINT64_C(8) << 30, "they may still");
    books_are_right();
    member->n_held = 0;
    come_back();
    cr_expect(eq(u64, reserved(p), 0));
    books_are_right();
}

/* The leader's agent is lost, and the gang takes nothing but memory: its record goes on to name the members too, whose processes may run. */
Test(gateway_gangs, memory_of_a_gang_whose_leader_is_lost_outlives_the_gateway)
{
    uint32_t p = operator_peer(), leads;
    begin_hands();
    uint64_t job = submit(p, "olga", WIDE(4, 2, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    gang_hand *leader = member_hand(0);
    ends_late = 1;
    leader->alive = 0; /* it says nothing */
    for (int i = 0; i < 80 && count_of(p, job, "waiting") == 0; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, job, "waiting"), 1), "for two nodes");
    cr_expect(eq(u64, reserved(p), UINT64_C(16) << 30), "the processes of both may run");
    for (int i = 0; i < 2; i++) {
        p = (rig_kill(&r), rig_start(&r), operator_peer());
        cr_expect(eq(u64, reserved(p), UINT64_C(16) << 30), "start %d", i);
        books_are_right();
    }
    process_ended(leader->h.id);
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(u64, reserved(p), UINT64_C(8) << 30), "start %d: the member has not said that it has ended", i);
        books_are_right();
        p = (rig_kill(&r), rig_start(&r), operator_peer());
    }
    come_back(); /* with nothing in their hands */
    cr_expect(eq(u64, reserved(p), 0));
    p = (rig_kill(&r), rig_start(&r), operator_peer());
    cr_expect(eq(u64, reserved(p), 0), "nothing is left of it");
    books_are_right();
}

/* That an agent does not have an attempt whose grant may still be on its way does not say that it has ended. */
Test(gateway_gangs, a_heartbeat_from_before_the_grant_gives_no_devices_back)
{
    uint32_t p = begin_with_gpus(), leads;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    gang_hand *leader = member_hand(0), *member = member_hand(1);
    leader->alive = 0;
    process_ended(leader->h.id);
    cr_assert(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1));
    member->n_held = 0;
    member->h.last_grant--;
    beat(member);
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1), "it has not read its grant");
    member->h.last_grant++;
    beat(member);
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
    books_are_right();
}

/* A member's agent is lost, which ends the gang; its process may still be there when the next gateway begins, and the next one. */
Test(gateway_gangs, devices_of_a_lost_member_outlive_the_gateway)
{
    uint32_t p = begin_with_gpus(), leads, lost = UINT32_MAX;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    for (uint32_t i = 0; i < n_hands; i++)
        lost = hands[i].n_held && hands[i].member[0] == 1 ? i : lost;
    cr_assert(lost < n_hands);
    hands[lost].alive = 0; /* it says nothing */
    for (int i = 0; i < 80 && count_of(p, job, "waiting") == 0; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(int, (int)count_of(p, job, "waiting"), 1), "for two GPUs");
    for (uint32_t i = 0; i < n_hands; i++)
        if (hands[i].alive) {
            hear(&hands[i], 0);
            beat(&hands[i]); /* the leader says that it has ended */
        }
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1), "its process may run");
    for (int i = 0; i < 2; i++) {
        rig_kill(&r);
        rig_start(&r);
        p = operator_peer();
        cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 2), "the leader has not said yet that it has ended");
        books_are_right();
        come_back();
        cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1), "that of the lost one");
    }
    process_ended(hands[lost].h.id);
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
    books_are_right();
    rig_kill(&r);
    rig_start(&r);
    cr_expect(eq(u32, used_of(operator_peer(), HTC_RESOURCE_GPU), 0), "nothing is left of it");
}

/* The record of a member's agent is gone, and the gateway ends before it has written that the task is lost: the next one begins a gang that
 * is not whole. Its leader owes what it has, for the gateway after that too. */
Test(gateway_gangs, devices_of_a_gang_that_is_not_whole_outlive_two_gateways)
{
    uint32_t p = begin_with_gpus(), leads, lost = UINT32_MAX;
    uint64_t job = submit(p, "olga", taking(WIDE(4, 2, 1), HTC_RESOURCE_GPU, 1));
    for (int i = 0; i < 60 && parts_of(job, &leads) < 2; i++)
        turn_all(1000 * HTC_SECOND);
    cr_assert(eq(u32, parts_of(job, &leads), 2));
    for (uint32_t i = 0; i < n_hands; i++)
        lost = hands[i].n_held && hands[i].member[0] == 1 ? i : lost;
    cr_assert(lost < n_hands);
    for (int i = 0; i < 8; i++)
        submit(p, "olga", WIDE(6, 2, 1)); /* they are read after it */
    r.lost = "c/0000";
    hands[lost].alive = 0;
    process_ended(hands[lost].h.id);
    for (int i = 0; i < 3; i++) {
        rig_kill(&r);
        r.lost = NULL;
        rig_start(&r);
        p = operator_peer();
        cr_expect(eq(int, (int)count_of(p, job, "waiting"), 1));
        cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 1), "start %d: the leader has not said that it has ended", i);
        books_are_right();
    }
    come_back();
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0));
    books_are_right();
    p = (rig_kill(&r), rig_start(&r), operator_peer());
    cr_expect(eq(u32, used_of(p, HTC_RESOURCE_GPU), 0), "nothing is left of it");
}

Test(gateway_gangs, more_members_than_nodes_that_have_it_are_refused)
{
    uint32_t p = begin_with_gpus();
    char     request[8200];
    snprintf(request, sizeof request, "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"%s\"}", taking(WIDE(6, 2, 1), HTC_RESOURCE_GPU, 1));
    cr_expect(eq(str, (char *)refusal(p, request), "HTC_ETOOBIG"), "two nodes have a GPU");
    snprintf(request, sizeof request, "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"%s\"}", taking(WIDE(4, 2, 1), "matlab", 1));
    cr_expect(eq(str, (char *)refusal(p, request), "HTC_ETOOBIG"), "a licence for each of two members, and there is one");
    snprintf(request, sizeof request, "{\"op\":\"submit\",\"user\":\"olga\",\"jsdl\":\"%s\"}", taking(WIDE(4, 2, 1), "fluent", 1));
    cr_expect(eq(str, (char *)refusal(p, request), "HTC_ENOFIT"), "nobody has it");
}
