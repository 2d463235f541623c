/* Three users of one site of four slots, ann, bob and carl, the operator, and agents in the test's hand: for tests of projects, quotas and reports. */
#ifndef HTC_TESTS_GATEWAY_USERS_H
#define HTC_TESTS_GATEWAY_USERS_H

#include "gateway_hand.h"

#define HOUR (3600 * HTC_SECOND)

static uint32_t op; /* the operator */
static size_t   seen; /* agents that were launched before */
static hand     agents[64];
static uint32_t n_agents;

static void ok(const char *rq)
{
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, rq), ""), "%s", rq);
}

static void as_hour(htc_gateway_options *o)
{
    o->half_life_ns = HOUR;
}

static void begin_users(void)
{
    begin();
    r.change = as_hour;
    rig_kill(&r);
    rig_start(&r);
    op = operator_peer();
    ok("{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    ok("{\"op\":\"user.add\",\"name\":\"bob\",\"password\":\"x\"}");
    ok("{\"op\":\"user.add\",\"name\":\"carl\",\"password\":\"x\"}");
    seen = n_agents = 0;
}

static void start_again(void)
{
    rig_pass(&r, 2 * HTC_SECOND); /* what is used is written down */
    rig_kill(&r);
    rig_start(&r);
    op = operator_peer();
    for (uint32_t i = 0; i < n_agents; i++)
        if (agents[i].id)
            agents[i] = hello(agents[i].id);
}

/* The value of a path of names and indices, as "users.1.weight_used", of what a request answers. */
static json_t *asked(const char *rq, const char *path)
{
    char    text[200], *part, *rest = text;
    json_t *answer = rig_ask(&r, op, rq), *v = answer;
    snprintf(text, sizeof text, "%s", path);
    while ((part = strtok_r(rest, ".", &rest)) && v)
        v = *part >= '0' && *part <= '9' ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
    cr_assert(v != NULL, "%s has no %s: %s", rq, path, json_dumps(answer, 0));
    json_incref(v);
    json_decref(answer);
    return v;
}

static double number_of(const char *rq, const char *path)
{
    json_t *v = asked(rq, path);
    double  n = json_number_value(v);
    json_decref(v);
    return n;
}

static int is_text(const char *rq, const char *path, const char *text)
{
    json_t *v = asked(rq, path);
    int     same = json_is_string(v) && strstr(json_string_value(v), text);
    if (!same)
        cr_log_error("%s: %s is %s", rq, path, json_dumps(v, JSON_ENCODE_ANY));
    json_decref(v);
    return same;
}

static double user_number(const char *name, const char *field)
{
    json_t *users = asked("{\"op\":\"users\"}", "users"), *u;
    size_t  i;
    double  n = -1;
    char    text[80];
    snprintf(text, sizeof text, "%s", field);
    json_array_foreach(users, i, u) {
        if (strcmp(json_string_value(json_object_get(u, "name")), name) != 0)
            continue;
        json_t *v = u;
        for (char *rest = text, *part; (part = strtok_r(rest, ".", &rest));)
            v = json_object_get(v, part);
        n = json_number_value(v);
    }
    json_decref(users);
    return n;
}

static json_t *submission(const char *whose, const char *project_name, const char *jsdl)
{
    return json_pack("{s:s,s:s,s:s,s:s*}", "op", "submit", "user", whose, "jsdl", jsdl, "project", project_name);
}

/* The id, or 0: refused, and error has the message. */
static char error[400];

static uint64_t try_submit(const char *whose, const char *project_name, const char *jsdl)
{
    json_t *asking = submission(whose, project_name, jsdl);
    char   *text = json_dumps(asking, 0);
    json_t *answer = rig_ask(&r, op, text);
    free(text);
    json_decref(asking);
    uint64_t    id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    const char *name = json_string_value(json_object_get(answer, "error")), *message = json_string_value(json_object_get(answer, "message"));
    snprintf(error, sizeof error, "%s: %s", name ? name : "", message ? message : "");
    json_decref(answer);
    return id;
}

static uint64_t submit_in(const char *whose, const char *project_name, const char *jsdl)
{
    uint64_t id = try_submit(whose, project_name, jsdl);
    cr_assert(id != 0, "%s", error);
    return id;
}

/* Whatever was launched registers. */
static void let_register(void)
{
    rig_pass(&r, 200 * HTC_MS);
    for (; seen < r.n_launched; seen++)
        agents[n_agents++] = hello(r.launched[seen].agent);
}

/* Each agent that there is asks once; what it gets runs for so long and ends well. How many tasks ran. */
static uint32_t run_once(htc_ns ran)
{
    htc_attempt at[64];
    uint32_t    who[64], n = 0;
    let_register();
    for (uint32_t i = 0; i < n_agents; i++)
        if (agents[i].id && pull(&agents[i], &at[n]) == HTC_GRANT_TASKS)
            who[n++] = i;
        else if (agents[i].id) {
            process_ended(agents[i].id);
            agents[i].id = 0;
        }
    rig_pass(&r, 50 * HTC_MS);
    r.now += ran;
    r.wall += ran;
    for (uint32_t i = 0; i < n; i++)
        report_after(&agents[who[i]], &at[i], HTC_OK, ran, "");
    rig_pass(&r, 100 * HTC_MS);
    return n;
}

/* Agents that find nothing leave, and who waits gets their slots. */
static void let_leave(void)
{
    for (uint32_t i = 0; i < n_agents; i++) {
        htc_attempt at;
        if (!agents[i].id)
            continue;
        cr_assert(pull(&agents[i], &at) == HTC_GRANT_EXIT);
        process_ended(agents[i].id);
        agents[i].id = 0;
    }
}

#endif
