/* What the tests of the gateway say again and again: as a user, and as an agent in the test's hand. One system, r. */
#ifndef HTC_TESTS_GATEWAY_HAND_H
#define HTC_TESTS_GATEWAY_HAND_H

#include "expect.h"

#include "gateway_rig.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* nobody uses all of it */

static rig r;

static void begin(void)
{
    rig_begin(&r);
}

static void end(void)
{
    rig_end(&r);
}

#define SWEEP(n)                                                                                                       \
    "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"                                        \
    " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep'" \
    " xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><jsdl:JobDescription><jsdl:Application>"            \
    "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument></px:POSIXApplication>"    \
    "</jsdl:Application></jsdl:JobDescription><sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"                       \
    "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/>"                           \
    "<sweep:Match>//p:Argument[1]</sweep:Match></sweep:DocumentNode><sf:LoopInteger start='1' end='" #n "'/>"            \
    "</sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>"

static uint32_t operator_peer(void)
{
    return rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER);
}

static uint64_t submit(uint32_t peer, const char *user, const char *jsdl)
{
    json_t *rq = json_pack("{s:s,s:s,s:s}", "op", "submit", "user", user, "jsdl", jsdl);
    char   *text = json_dumps(rq, 0);
    json_t *answer = rig_ask(&r, peer, text);
    free(text);
    json_decref(rq);
    cr_assert(json_object_get(answer, "id") != NULL, "submit: %s", json_string_value(json_object_get(answer, "message")));
    uint64_t id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    json_decref(answer);
    return id;
}

/* What the error object of this request names; "" if it was no error. The text is kept until the next call. */
static const char *refusal(uint32_t peer, const char *json)
{
    static char name[64];
    json_t     *answer = rig_ask(&r, peer, json);
    cr_assert(answer != NULL, "no answer to %s", json);
    const char *e = json_string_value(json_object_get(answer, "error"));
    snprintf(name, sizeof name, "%s", e ? e : "");
    json_decref(answer);
    return name;
}

static json_t *job_of(uint32_t peer, uint64_t id)
{
    char text[96];
    snprintf(text, sizeof text, "{\"op\":\"status\",\"id\":%llu}", (unsigned long long)id);
    json_t *answer = rig_ask(&r, peer, text);
    json_t *j = json_incref(json_array_get(json_object_get(answer, "jobs"), 0));
    json_decref(answer);
    return j;
}

static long long count_of(uint32_t peer, uint64_t id, const char *state)
{
    json_t   *j = job_of(peer, id), *tasks = json_object_get(j, "tasks"), *v;
    long long n = json_integer_value(json_object_get(tasks, state)), sum = 0;
    const char *key;
    json_object_foreach(tasks, key, v)
    sum += json_integer_value(v);
    cr_expect(eq(long, (long)sum, (long)json_integer_value(json_object_get(j, "count"))), "the counts do not add up");
    json_decref(j);
    return n;
}

/* ---- killed, or one message further ---- */

/* What was under way between it and the store is lost; the store goes on. */
static void kill_now(void)
{
    rig_post **at = &r.posts;
    while (*at) {
        rig_post *p = *at;
        if (p->to_store && p->in.kind == HTC_IN_STORED) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free((void *)(uintptr_t)p->in.body.data);
        free(p);
    }
    rig_kill(&r);
    rig_start(&r);
}

/* One message further; r.busy is set. */
static void take_post(void)
{
    rig_post *post = r.posts;
    r.posts = post->next;
    if (post->to_store)
        rig_store_step(&r, &post->in);
    else
        rig_gateway_step(&r, &post->in);
    free((void *)(uintptr_t)post->in.body.data);
    free(post);
}

/* ---- an agent in the test's hand ---- */

typedef struct hand {
    uint64_t id;
    uint32_t peer;
    uint64_t seq, beat, last_grant;
} hand;

static hand hello_on(uint64_t agent, const char *node)
{
    hand            h = { .id = agent, .peer = rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    htc_agent_hello m = { .agent = agent, .slots = 1, .cores = 4 };
    htc_buf         b;
    snprintf(m.node, sizeof m.node, "%s", node);
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    return h;
}

static hand hello(uint64_t agent)
{
    return hello_on(agent, "node1");
}

static htc_status welcome_of(const hand *h)
{
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_AGENT_WELCOME);
    cr_assert(m != NULL, "no welcome");
    htc_reader        in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    htc_agent_welcome w;
    cr_assert(eq(int, htc_agent_welcome_read(&in, &w), HTC_OK));
    return w.status;
}

/* Pull once: the kind of grant, and its first task. */
static uint32_t pull(hand *h, htc_attempt *at)
{
    static htc_grant g;
    htc_buf          b;
    htc_buf_init(&b, NULL, 0);
    htc_pull_write(&b, &(htc_pull){ .agent = h->id, .seq = ++h->seq, .want = 1, .last_grant = h->last_grant });
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_GRANT);
    cr_assert(m != NULL, "no grant");
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_grant_read(&in, &g), HTC_OK));
    cr_assert(eq(u64, g.seq, h->seq));
    if (g.kind == HTC_GRANT_TASKS) {
        *at = g.tasks[0].attempt;
        h->last_grant = g.grant;
    }
    return g.kind;
}

/* Report how an attempt ended; the verdict, HTC_AGAIN if none came. */
static uint64_t outputs_left; /* of those that report: without any a result is kept with its task, else in a record of its own */

static htc_status report_after(hand *h, const htc_attempt *at, htc_status status, htc_ns ran, const char *reason)
{
    htc_task_result m = { .agent = h->id, .attempt = *at,
                          .outcome = { .status = status, .exit_code = status == HTC_EEXIT, .started = r.wall - ran,
                                       .ended = r.wall, .node = "node1", .outputs = { .files = outputs_left } } };
    size_t          before = r.n_inbox;
    htc_buf         b;
    snprintf(m.outcome.reason, sizeof m.outcome.reason, "%s", reason);
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    const rig_message *v = rig_newest(&r, h->peer, HTC_WIRE_TASK_VERDICT);
    if (r.n_inbox == before || !v)
        return HTC_AGAIN;
    htc_reader       in = htc_reader_of((htc_bytes){ v->bytes, v->len });
    htc_task_verdict verdict;
    cr_assert(eq(int, htc_task_verdict_read(&in, &verdict), HTC_OK));
    return verdict.status;
}

static htc_status report(hand *h, const htc_attempt *at, htc_status status)
{
    return report_after(h, at, status, 10 * HTC_SECOND, "");
}

/* As long as report says that a task runs: no longer run is believed. */
static inline void ten_seconds(void)
{
    r.now += 10 * HTC_SECOND;
    r.wall += 10 * HTC_SECOND;
}

static void process_ended(uint64_t agent)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, agent);
    rig_put_handle(&b, agent);
    htc_put_str(&b, "signal 9");
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_EVENT, .op = HTC_EVENT_AGENT_EXIT, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

#endif
