/* Tasks that ask for a host, an operating system or an architecture: the rules of offers.h, and where a gateway has them run. */
#include "gateway_far.h"

#include "htcsched/work.h"
#include "roles/gateway/offers.h"

/* ---- the rules ---- */

static const machine_kinds linux64 = { 1, { { "Linux", "x86_64" } } }, linux_arm = { 1, { { "Linux", "aarch64" } } }, mac = { 1, { { "Darwin", "arm64" } } }, none,
                           mixed = { 2, { { "Linux", "x86_64" }, { "Linux", "ppc64le" } } };

Test(machines, a_machine_is_what_it_says_and_what_is_not_said_is_not_known)
{
    static const struct {
        const char          *hosts, *system, *architecture;
        const char          *node;
        const machine_kinds *kinds;
        uint8_t              many;
        offer                is;
    } rows[] = {
        { NULL, "", "", "", &none, 0, OFFER_YES },
        { NULL, "LINUX", "x86_64", "n1", &linux64, 0, OFFER_YES },
        { NULL, "LINUX", "", "n1", &linux64, 0, OFFER_YES },
        { NULL, "MACOS", "", "n1", &linux64, 0, OFFER_NO },
        { NULL, "MACOS", "arm", "n1", &mac, 0, OFFER_YES },
        { NULL, "", "arm", "n1", &linux_arm, 0, OFFER_YES },
        { NULL, "", "x86_64", "n1", &linux_arm, 0, OFFER_NO },
        { NULL, "", "x86_32", "n1", &linux64, 0, OFFER_NO },
        { NULL, "", "x86", "n1", &linux64, 0, OFFER_YES },
        { NULL, "", "other", "n1", &linux64, 0, OFFER_NO },
        { NULL, "", "powerpc", "", &mixed, 1, OFFER_YES },
        { NULL, "", "sparc", "", &mixed, 1, OFFER_UNKNOWN }, /* a node that has not been seen */
        { NULL, "", "x86_64", "n1", &none, 0, OFFER_UNKNOWN },
        { NULL, "LINUX", "", "n1", &none, 0, OFFER_UNKNOWN },
        { "here", "", "", "", &none, 0, OFFER_YES }, /* the site */
        { "other,here", "", "", "", &none, 0, OFFER_YES },
        { "her", "", "", "n1", &none, 0, OFFER_NO },
        { "n1", "", "", "n1", &none, 0, OFFER_YES },
        { "n2,n1,n3", "", "", "n1", &none, 0, OFFER_YES },
        { "n1", "", "", "n1.example.org", &none, 0, OFFER_YES },
        { "N1.Example.org", "", "", "n1.example.org", &none, 0, OFFER_YES },
        { "n1.example", "", "", "n1.example.org", &none, 0, OFFER_NO },
        { "n1.example.org", "", "", "n1", &none, 0, OFFER_NO },
        { "n", "", "", "n1", &none, 0, OFFER_NO },
        { "n1", "", "", "", &none, 0, OFFER_UNKNOWN },
        { "n1", "", "", "n1", &none, 1, OFFER_UNKNOWN }, /* a batch system's login node is none of its nodes */
        { "n1", "", "arm", "n1", &linux64, 0, OFFER_NO },
        { "n2", "", "arm", "n1", &none, 0, OFFER_NO },
        { "n1", "LINUX", "x86_64", "n1", &linux64, 0, OFFER_YES },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        machine_wish w = { 0 };
        htc_task     t = { .host = rows[i].hosts, .system = rows[i].system[0] ? rows[i].system : NULL,
                           .architecture = rows[i].architecture[0] ? rows[i].architecture : NULL };
        cr_assert(eq(int, htc__machine_wish_set(NULL, &w, &t), HTC_OK));
        cr_expect(eq(int, htc__machine_wish_any(&w), i != 0));
        offer is = htc__machine_offers(&w, &(machine_offer){ "here", rows[i].node, rows[i].kinds, rows[i].many });
        cr_expect(is == rows[i].is, "row %zu: %d", i, (int)is);
        htc__machine_wish_free(NULL, &w);
    }
}

Test(machines, kinds_are_noted_once_and_not_without_end)
{
    machine_kinds    k = { 0 };
    htc_wire_machine m = { "Linux", "" };
    htc__machine_add(&k, &m);
    cr_expect(eq(u32, k.n, 0));
    for (int i = 0; i < 3 * MACHINES_MAX; i++) {
        snprintf(m.machine, sizeof m.machine, "m%d", i / 2);
        htc__machine_add(&k, &m);
    }
    cr_expect(eq(u32, k.n, MACHINES_MAX));
    cr_expect(eq(str, k.of[MACHINES_MAX - 1].machine, "m7"));
}

Test(machines, what_is_asked_for_is_said_in_words)
{
    static const struct {
        const char *hosts, *system, *architecture, *text;
    } rows[] = {
        { NULL, NULL, "arm", "architecture arm" },
        { NULL, "LINUX", "arm", "architecture arm and operating system LINUX" },
        { "a", NULL, NULL, "host a" },
        { "a,b", "LINUX", NULL, "operating system LINUX and one of the hosts a,b" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char         text[100];
        machine_wish w = { 0 };
        htc__machine_wish_set(NULL, &w, &(htc_task){ .host = rows[i].hosts, .system = rows[i].system, .architecture = rows[i].architecture });
        htc__machine_wish_text(&w, text, sizeof text);
        cr_expect(eq(str, text, (char *)rows[i].text));
        htc__machine_wish_free(NULL, &w);
    }
}

/* ---- a gateway: a slot here, and up to six at the site far ---- */

static void two_sites(htc_gateway_options *o)
{
    static htc_site_options list[2];
    list[0] = (htc_site_options){ .size = sizeof list[0], .name = "local", .cores = 1, .memory = UINT64_C(4) << 30 };
    list[1] = (htc_site_options){ .size = sizeof list[0], .name = "far", .cores = 6, .joins = 1 };
    o->sites = list;
    o->n_sites = 2;
    o->slots_max = 4;
    o->name = "head";
    o->system = "Linux";
    o->machine = "x86_64";
}

static void begin_machines(void)
{
    begin();
    rig_kill(&r);
    r.change = two_sites;
    r.machine = (htc_wire_machine){ "Linux", "x86_64" };
    rig_start(&r);
}

TestSuite(gateway_machines, .init = begin_machines, .fini = end);

static const char *asking(const char *resources, int tasks)
{
    static char jsdl[4000];
    snprintf(jsdl, sizeof jsdl,
             "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"
             " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep'"
             " xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><jsdl:JobDescription><jsdl:Application>"
             "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument></px:POSIXApplication>"
             "</jsdl:Application><jsdl:Resources>%s</jsdl:Resources></jsdl:JobDescription>"
             "<sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"
             "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/>"
             "<sweep:Match>//p:Argument[1]</sweep:Match></sweep:DocumentNode><sf:LoopInteger start='1' end='%d'/>"
             "</sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>",
             resources, tasks);
    return jsdl;
}

#define HOST(name)  "<jsdl:CandidateHosts><jsdl:HostName>" name "</jsdl:HostName></jsdl:CandidateHosts>"
#define ARCH(name)  "<jsdl:CPUArchitecture><jsdl:CPUArchitectureName>" name "</jsdl:CPUArchitectureName></jsdl:CPUArchitecture>"
#define SYSTEM(name)                                                                                                   \
    "<jsdl:OperatingSystem><jsdl:OperatingSystemType><jsdl:OperatingSystemName>" name                                 \
    "</jsdl:OperatingSystemName></jsdl:OperatingSystemType></jsdl:OperatingSystem>"

static void why_is(const char *code, const char *text)
{
    json_t     *answer = rig_ask(&r, operator_peer(), "{\"op\":\"why\"}");
    const char *is = json_string_value(json_object_get(answer, "why"));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "code")), (char *)code), "%s", is);
    cr_expect(strstr(is, text) != NULL, "%s", is);
    json_decref(answer);
}

static uint64_t newest(const far_host *h)
{
    uint32_t slots;
    char     user[64];
    return asked(h, &slots, user);
}

/* It is launched, on this node, and registers. */
static hand there(far_host *h, uint64_t agent, const char *node)
{
    htc_buf b;
    launched(h, agent);
    hand            a = { .id = agent, .peer = open_key("far", HTC_KEY_HOST, HTC_WIRE_ROLE_AGENT) };
    htc_agent_hello m = { .agent = agent, .slots = 1, .cores = 4 };
    snprintf(m.node, sizeof m.node, "%s", node);
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, a.peer, &b);
    htc_buf_free(&b);
    return a;
}

Test(gateway_machines, a_host_is_where_its_tasks_run_and_nowhere_else)
{
    htc_attempt at;
    uint64_t    far_job = submit(operator_peer(), "olga", asking(HOST("node-far"), 1));
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0), "it does not run here");
    why_is("Machine", "its next task asks for host node-far, and no agent offers that: site local is Linux x86_64 (head), site far has not said what it is");
    uint64_t here_job = submit(operator_peer(), "olga", asking("<jsdl:CandidateHosts><jsdl:HostName>nowhere</jsdl:HostName><jsdl:HostName>head</jsdl:HostName></jsdl:CandidateHosts>", 1));
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 1));
    hand here = hello_on(r.launched[0].agent, "head");
    cr_expect(eq(u32, pull(&here, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, here_job), "the one that came first waits for another host");
    far_host *h = join("far", 2);
    uint64_t  agent = newest(h);
    cr_assert(agent != 0);
    hand far = there(h, agent, "node-far");
    cr_expect(eq(u32, pull(&far, &at), HTC_GRANT_TASKS));
    cr_expect(eq(u64, at.job, far_job));
}

Test(gateway_machines, an_architecture_is_waited_for_until_a_host_has_it)
{
    htc_attempt at;
    (void)submit(operator_peer(), "olga", asking(SYSTEM("LINUX") ARCH("arm"), 1));
    far_host *h = join("far", 2); /* as the own machine is */
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(r.n_launched == 0 && newest(h) == 0);
    why_is("Machine", "asks for architecture arm and operating system LINUX, and no agent offers that: site local is Linux x86_64 (head), site far is Linux x86_64 (node-far)");
    r.machine = (htc_wire_machine){ "Linux", "aarch64" };
    h = join("far", 2);
    uint64_t agent = newest(h);
    cr_assert(agent != 0);
    hand a = there(h, agent, "node-far");
    cr_expect(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    cr_expect(eq(sz, r.n_launched, 0));
}

Test(gateway_machines, what_no_site_can_be_is_refused_at_once)
{
    far_host *h = join("far", 2);
    json_t   *rq = json_pack("{s:s,s:s}", "op", "submit", "jsdl", asking(ARCH("sparc"), 1));
    char     *text = json_dumps(rq, 0);
    json_t   *answer = rig_ask(&r, operator_peer(), text);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "error")), "HTC_ENOFIT"));
    cr_expect(strstr(json_string_value(json_object_get(answer, "message")), "the task asks for architecture sparc, and no site is that") != NULL);
    cr_expect(strstr(json_string_value(json_object_get(answer, "hint")), "ask for what a site has") != NULL);
    json_decref(answer);
    h->m.agent_slots = 2; /* a batch system's, whose nodes may be anything */
    say_hello(h);
    answer = rig_ask(&r, operator_peer(), text);
    cr_expect(json_object_get(answer, "id") != NULL);
    json_decref(answer);
    json_decref(rq);
    free(text);
}

Test(gateway_machines, an_agent_that_does_not_say_what_it_is_on_gets_none_that_ask)
{
    htc_attempt at;
    (void)submit(operator_peer(), "olga", asking(ARCH("x86_64"), 1));
    rig_pass(&r, HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 1));
    r.machine = (htc_wire_machine){ "", "" };
    hand old = hello_on(r.launched[0].agent, "head");
    cr_expect(eq(u32, pull(&old, &at), HTC_GRANT_WAIT));
    json_t *answer = rig_ask(&r, operator_peer(), "{\"op\":\"why\",\"id\":1}");
    cr_expect(eq(str, (char *)json_string_value(json_object_get(answer, "code")), "AgentVersion"));
    cr_expect(strstr(json_string_value(json_object_get(answer, "why")), "its tasks ask for an architecture or an operating system") != NULL);
    json_decref(answer);
    r.machine = (htc_wire_machine){ "Linux", "x86_64" };
    hand again = hello_on(r.launched[0].agent, "head");
    again.seq = old.seq;
    cr_expect(eq(u32, pull(&again, &at), HTC_GRANT_TASKS));
}

Test(gateway_machines, a_node_of_another_kind_makes_its_batch_system_wait)
{
    htc_attempt at;
    far_host   *h = join("far", 2);
    h->m.agent_slots = 2;
    say_hello(h);
    r.change = NULL;
    (void)submit(operator_peer(), "olga", asking(HOST("far") ARCH("x86_64"), 1));
    rig_pass(&r, HTC_SECOND);
    uint64_t agent = newest(h);
    cr_assert(agent != 0);
    r.machine = (htc_wire_machine){ "Linux", "ppc64le" };
    hand a = there(h, agent, "p1");
    cr_expect(eq(u32, pull(&a, &at), HTC_GRANT_EXIT));
    json_t     *list = rig_ask(&r, operator_peer(), "{\"op\":\"agents\"}"), *site = json_array_get(json_object_get(list, "sites"), 1);
    const char *reason = json_string_value(json_object_get(site, "reason"));
    cr_expect(eq(str, (char *)reason, "an agent began on node p1, and tasks that ask for architecture x86_64 and host far do not run there"));
    cr_expect(eq(sz, json_array_size(json_object_get(site, "machines")), 2));
    json_decref(list);
    cr_expect(eq(u64, newest(h), agent), "none is submitted at once");
}
