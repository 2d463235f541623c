/* Weights by what a user's tasks will take (fair.weight = profiled; htcaas 3.8), as the gateway makes them of limits and of what it has seen. */
#include "gateway_hand.h"

TestSuite(gateway_weights);

static void profiled(htc_gateway_options *o)
{
    static const htc_site_options site = { .size = sizeof site, .name = "local", .cores = 10 };
    o->sites = &site;
    o->n_sites = 1;
    o->policy = "eq1";
    o->weight_profiled = 1;
    o->gamma = -1; /* short bags come first */
}

static void add(uint32_t op, const char *name)
{
    char text[96];
    snprintf(text, sizeof text, "{\"op\":\"user.add\",\"name\":\"%s\",\"password\":\"x\"}", name);
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, text), ""));
}

static double weight_of(uint32_t op, const char *name)
{
    json_t *answer = rig_ask(&r, op, "{\"op\":\"users\"}"), *u;
    double  w = -1;
    size_t  i;
    json_array_foreach(json_object_get(answer, "users"), i, u)
        if (strcmp(json_string_value(json_object_get(u, "name")), name) == 0)
            w = json_number_value(json_object_get(u, "weight_used"));
    json_decref(answer);
    return w;
}

static void submit_limited(uint32_t op, const char *user, double limit)
{
    json_t *rq = json_pack("{s:s,s:s,s:s,s:f}", "op", "submit", "user", user, "jsdl", SWEEP(100), "time_limit", limit);
    char   *text = json_dumps(rq, 0);
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, text), ""));
    free(text);
    json_decref(rq);
}

static int is_about(double is, double wanted)
{
    return is > wanted * 0.99 && is < wanted * 1.01;
}

#define LIMITED                                                                                                                                         \
    "<j:JobDefinition xmlns:j='http://schemas.ggf.org/jsdl/2005/11/jsdl' xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' "                      \
    "xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep' xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><j:JobDescription><j:Application>" \
    "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument><px:WallTimeLimit>400</px:WallTimeLimit>"                 \
    "</px:POSIXApplication></j:Application></j:JobDescription><sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"                                      \
    "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/><sweep:Match>//p:Argument[1]</sweep:Match>"                \
    "</sweep:DocumentNode><sf:LoopInteger start='1' end='100'/></sweep:Assignment></sweep:Sweep></j:JobDefinition>"

/* Of nobody anything is known but limits: 100 tasks of 100 s by an option, 100 of 400 s by the document. Their work over the median, 25,000 s, to the power
 * of -1 is 2.5 and 0.625. Then ann's tasks take 10 s: what is seen counts, and not the limit. eve names no limit: the mean of those seen stands for hers. */
Test(gateway_weights, a_limit_stands_for_a_run_time_that_is_not_known)
{
    htc_attempt at;
    r.change = NULL;
    begin();
    rig_kill(&r);
    r.change = profiled;
    rig_start(&r);
    uint32_t op = operator_peer();
    add(op, "ann");
    add(op, "eve");
    submit_limited(op, "olga", 100);
    submit(op, "ann", LIMITED);
    rig_pass(&r, HTC_SECOND);
    cr_expect(is_about(weight_of(op, "olga"), 2.5), "olga %f", weight_of(op, "olga"));
    cr_expect(is_about(weight_of(op, "ann"), 0.625), "ann %f", weight_of(op, "ann"));
    for (size_t i = 0, n = r.n_launched; i < n; i++) {
        hand h = hello(r.launched[i].agent);
        if (pull(&h, &at) != HTC_GRANT_TASKS || strcmp(r.launched[i].user, "ann") != 0)
            continue;
        ten_seconds();
        cr_assert(eq(int, report(&h, &at, HTC_OK), HTC_OK));
        break;
    }
    submit(op, "eve", SWEEP(100));
    rig_pass(&r, 10 * HTC_SECOND);
    /* olga 100 x 100 s, ann 99 x 10 s, eve 100 x 10 s: the median is eve's 1,000 s. */
    cr_expect(is_about(weight_of(op, "eve"), 1), "eve %f", weight_of(op, "eve"));
    cr_expect(is_about(weight_of(op, "olga"), 1.0 / 8), "olga %f", weight_of(op, "olga"));
    cr_expect(is_about(weight_of(op, "ann"), 1000.0 / 990), "ann %f", weight_of(op, "ann"));
    end();
}
