/* ping, users, agents, and why: what waits, and for what, in the words of the rules that decide. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

/* ---- lists ---- */

static json_t *user_json(htc_gateway *gw, const request *q, const user *u)
{
    json_t *o = json_pack("{s:s,s:I,s:f,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:I}", "name", u->name, "weight", (json_int_t)u->weight,
                     "weight_used", (double)(u->weight_used ? u->weight_used : u->weight * HTC_ALLOT_WEIGHT_ONE) / (double)HTC_ALLOT_WEIGHT_ONE,
                     "demanding", u->queued > 0, "queued", (json_int_t)htc__gw_queued(u), "running", (json_int_t)u->running, "agents",
                     (json_int_t)(u->agents + u->draining + u->leaving), "draining", (json_int_t)u->draining, "ra", (json_int_t)u->ra, "base",
                     (json_int_t)u->base, "jobs", (json_int_t)u->open_jobs, "core_s", (double)u->core_ns / 1e9,
                     "tasks_done", (json_int_t)u->tasks_done);
    if (o && (q->operator_ || q->user == u)) {
        json_object_set_new(o, "project", json_string(u->project ? u->project->name : ""));
        json_object_set_new(o, "quota", htc__gw_quota_json(gw, u, NULL));
    }
    return o;
}

static void list_users(htc_gateway *gw, request *q)
{
    json_t *list = json_array();
    for (const user *u = gw->users; u; u = u->hh.next)
        json_array_append_new(list, user_json(gw, q, u));
    htc__gw_req_answer(gw, q, json_pack("{s:o}", "users", list));
}

static const char *const apart_names[] = { "refused", "confined", "uid" };

static json_t *agent_json(const htc_gateway *gw, const request *q, const agent *a)
{
    char        text[64];
    double      since = round(((double)gw->wall - (double)(gw->now - a->since)) / 1e8) / 10; /* two clocks: what is below that changes by itself */
    htc_ns      until;
    const site *s = &gw->sites[a->site];
    const char *reason = a->reason;
    if (!reason[0] && a->node[0] && htc__gw_node_aside(gw, a->node, &until))
        reason = "its node fails everybody's tasks fast and is set aside";
    conn *c;
    HASH_FIND(hh, gw->conns, &a->peer, sizeof a->peer, c);
    json_t *o = json_pack("{s:I,s:s,s:s,s:I,s:s,s:s,s:f,s:s,s:I,s:I,s:s}", "id", (json_int_t)a->id, "user", a->user->name, "site",
                          s->name, "slot", (json_int_t)a->slots[0], "node", a->node, "state", htc__gw_agent_state_name(a), "since", since,
                          "launched_as", a->handle_name, "pid", (json_int_t)(c ? c->info.pid : 0), "tasks_done", (json_int_t)a->tasks_done, "reason", reason);
    char as[200];
    htc__gw_place_text(gw, a->user, as, sizeof as);
    if (o)
        json_object_set_new(o, "as", json_string(as));
    if (o) {
        json_object_set_new(o, "slots", json_integer(a->n_slots));
        json_object_set_new(o, "system", json_string(a->kind.of[0].system));
        json_object_set_new(o, "machine", json_string(a->kind.of[0].machine));
        json_object_set_new(o, "slots_filled", json_integer(htc__gw_slots_filled(a)));
        if (a->outputs)
            json_object_set_new(o, "outputs", json_string(a->outputs == OUTPUTS_SHARED ? "shared" : "local"));
    }
    if (o && a->n_held && (q->operator_ || q->user == a->user)) {
        snprintf(text, sizeof text, "%llu.%llu", (unsigned long long)a->held[0].attempt.job,
                 (unsigned long long)a->held[0].attempt.task);
        json_object_set_new(o, "task", json_string(text));
        json_object_set_new(o, "held", json_integer(a->n_held));
    }
    return o;
}

static const char *site_state(const htc_gateway *gw, const site *s)
{
    return s->closed                 ? "drained"
           : htc__gw_host_closed(gw, s) ? "drained"
           : s->joins && !s->host    ? "away"
           : s->leaving              ? "leaving"
           : s->not_before > gw->now ? "paused"
                                     : "open";
}

static json_t *counted_json(const site *s)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < s->counted.n; i++)
        json_object_set_new(o, s->counted.at[i].name, json_pack("{s:I,s:I}", "total", (json_int_t)s->counted.at[i].total, "used", (json_int_t)s->counted.at[i].used));
    return o;
}

static json_t *kinds_json(const machine_kinds *k)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < k->n; i++)
        json_array_append_new(list, json_pack("{s:s,s:s}", "system", k->of[i].system, "machine", k->of[i].machine));
    return list;
}

static json_t *site_json(const htc_gateway *gw, const site *s)
{
    uint64_t    agents = 0, waits = 0;
    char        text[240];
    const agent *apart = NULL; /* the newest that keeps outputs where it runs though they are to be stored here */
    const char *reason = s->closed ? s->closed_for : htc__gw_host_closed(gw, s) ? htc__gw_host_closed(gw, s) : s->reason;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if (&gw->sites[a->site] == s) {
            agents++;
            waits += (uint64_t)htc__gw_agent_waits(a);
            apart = a->outputs == OUTPUTS_THERE && (!apart || a->id > apart->id) ? a : apart;
        }
    json_t *o = json_pack("{s:s,s:I,s:I,s:b,s:s,s:I,s:I}", "name", s->name, "slots", (json_int_t)s->cores, "used", (json_int_t)s->used, "paused",
                          !htc__gw_site_open(gw, s), "reason", reason, "memory", (json_int_t)s->memory.total, "memory_reserved",
                          (json_int_t)s->memory.reserved);
    if (!o)
        return NULL;
    json_object_set_new(o, "state", json_string(site_state(gw, s)));
    json_object_set_new(o, "disk_failed", json_boolean(s->disk_failed != 0));
    json_object_set_new(o, "speed", json_real(s->speed));
    json_object_set_new(o, "org", json_string(s->org));
    json_object_set_new(o, "type", json_string(s->type));
    json_object_set_new(o, "os", json_string(s->os));
    json_object_set_new(o, "agents", json_integer((json_int_t)agents));
    json_object_set_new(o, "queued", json_integer((json_int_t)waits));
    json_object_set_new(o, "agent_slots", json_integer(s->agent_slots));
    json_object_set_new(o, "resources", counted_json(s));
    json_object_set_new(o, "machines", kinds_json(&s->kinds));
    json_object_set_new(o, "node", json_string(s->joins ? s->node : ""));
    if (apart) {
        snprintf(text, sizeof text, "node %.60s: %s", apart->node, apart->outputs_why);
        json_object_set_new(o, "outputs_apart", json_string(text));
    }
    if (s->not_before > gw->now && s->not_before != HTC_NEVER && !s->closed)
        json_object_set_new(o, "pause_s", json_real((double)(s->not_before - gw->now) / 1e9));
    return o;
}

static void list_agents(htc_gateway *gw, request *q)
{
    json_t  *list = json_array(), *sites = json_array();
    uint64_t left = htc__gw_req_u64(q, "limit", UINT64_MAX);
    for (const agent *a = gw->agents; a && left; a = a->hh.next, left--)
        json_array_append_new(list, agent_json(gw, q, a));
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        json_array_append_new(sites, site_json(gw, s));
    }
    char apart[256];
    htc__gw_apart_text(gw, apart, sizeof apart);
    htc__gw_req_answer(gw, q, json_pack("{s:o,s:I,s:o,s:o,s:I,s:I,s:b,s:s,s:s}", "agents", list, "count", (json_int_t)HASH_COUNT(gw->agents), "sites", sites, "nodes_drained", htc__gw_nodes_json(gw), "slots", (json_int_t)gw->slots,
                                "free", (json_int_t)gw->free, "durable", !gw->options.not_durable, "apart", apart_names[gw->options.apart], "apart_text", apart));
}

static const char *const policy_names[] = { "eq1", "static", "maxmin", "fcfs" };

static void ping(htc_gateway *gw, request *q)
{
    char apart[256];
    htc__gw_apart_text(gw, apart, sizeof apart);
    htc__gw_req_answer(gw, q,
                       json_pack("{s:s,s:i,s:f,s:s,s:I,s:s,s:s,s:s}", "version", HTC_VERSION, "protocol", HTC_WIRE_VERSION, "uptime",
                         (double)(gw->wall - gw->started_wall) / 1e9, "policy", policy_names[gw->policy], "slots",
                         (json_int_t)gw->slots, "store", htc_status_name(gw->store_status), "apart",
                         apart_names[gw->options.apart], "apart_text", apart));
}

void htc__gw_api_listing(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "users") == 0)
        list_users(gw, q);
    else if (strcmp(q->op, "agents") == 0)
        list_agents(gw, q);
    else
        ping(gw, q);
}

/* ---- why ---- */

static void why_answer(htc_gateway *gw, request *q, const char *code, const char *text)
{
    htc__gw_req_answer(gw, q, json_pack("{s:s,s:s}", "why", text, "code", code));
}

static const site *paused_site(const htc_gateway *gw)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].closed || htc__gw_host_closed(gw, &gw->sites[i]) || (gw->sites[i].not_before > gw->now && gw->sites[i].not_before != HTC_NEVER))
            return &gw->sites[i];
    return NULL;
}

/* The user that holds more than the base, and by how much: a new user waits for that one. */
static const user *over_base(const htc_gateway *gw, const user *except)
{
    const user *best = NULL;
    for (const user *u = gw->users; u; u = u->hh.next) {
        uint64_t held_now = (uint64_t)u->agents + u->draining;
        if (u != except && held_now > u->base && (!best || held_now - u->base > (uint64_t)best->agents + best->draining - best->base))
            best = u;
    }
    return best;
}

/* It waits, and not for a slot: as many run as may. 1: the sentence is in text. */
static int why_full(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    (void)gw;
    if (!htc__gw_job_is_full(j))
        return 0;
    snprintf(text, cap, "agents hold %llu of its tasks, which is its limit (--max-running)", (unsigned long long)j->now.leased);
    return 1;
}

/* Likewise: its tasks fail fast. */
static int why_slowed(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    htc_ns until = htc__gw_job_slowed_until(j);
    if (!until || !htc__gw_job_waiting(j))
        return 0;
    snprintf(text, cap, "its tasks fail fast one after the other, so they get slots slowly: the next in %.1f s",
             until > gw->now ? (double)(until - gw->now) / 1e9 : 0.0);
    return 1;
}

/* Where its next task could have room one day, the site that has most of it. */
static const site *roomiest(const htc_gateway *gw, const job *j)
{
    const site *best = NULL;
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        if (s->memory.total && htc__site_needs(s, j->need, j->width.part) <= s->memory.total &&
            (!best || s->memory.kept_for == j->id || htc__memory_free(&s->memory) > htc__memory_free(&best->memory)))
            best = s;
        if (best && best->memory.kept_for == j->id)
            break;
    }
    return best;
}

#define GIB (double)(1 << 30)

/* Its next task waits for memory. 1: the sentence is in text. */
static int why_memory(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    const site *s = j->memory_since ? roomiest(gw, j) : NULL;
    htc_ns      until = j->memory_since + gw->options.memory_wait_ns;
    if (!s)
        return 0;
    int n = snprintf(text, cap, "its next task asks for %.1f GiB of memory%s, and at site %s %.1f of %.1f GiB are free; ",
                     (double)htc__site_needs(s, j->need, j->width.part) / GIB, j->need ? "" : " (what a task gets that names none)", s->name,
                     (double)htc__memory_free(&s->memory) / GIB, (double)s->memory.total / GIB);
    if (n < 0 || (size_t)n >= cap)
        return 1;
    if (s->memory.kept_for == j->id)
        snprintf(text + n, cap - (size_t)n, "room is kept for it");
    else
        snprintf(text + n, cap - (size_t)n, "smaller tasks pass it for %.0f s more", until > gw->now ? (double)(until - gw->now) / 1e9 : 0.0);
    return 1;
}

/* Its next task waits for what sites count. 1: the sentence is in text. */
static int why_counted(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    htc_ns until = j->counted_since + gw->options.memory_wait_ns;
    for (size_t i = 0; j->counted_since && i < gw->n_sites; i++) {
        const counted_pool      *c = &gw->sites[i].counted;
        const htc_resource *lack = htc__counted_never(c, &j->counts) ? NULL : htc__counted_lacks(c, j->id, &j->counts);
        if (!lack)
            continue;
        int n = snprintf(text, cap, "its next task asks for %u of %s, and at site %s %u of %u are free; ", lack->count, lack->name, gw->sites[i].name,
                         htc__counted_free(c, lack->name), htc__counted_total(c, lack->name));
        if (n < 0 || (size_t)n >= cap)
            return 1;
        if (c->kept_for == j->id)
            snprintf(text + n, cap - (size_t)n, "those that fall free are kept for it");
        else
            snprintf(text + n, cap - (size_t)n, "tasks that ask for less pass it for %.0f s more", until > gw->now ? (double)(until - gw->now) / 1e9 : 0.0);
        return 1;
    }
    return 0;
}

/* Agents of an earlier version are there, which cannot be told of its signal or its credentials, and no others. 1: the sentence is in text. */
static int why_version(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    const agent *old = NULL;
    for (const agent *a = j->in_ready ? gw->agents : NULL; a; a = a->hh.next) {
        if (a->user != j->user || a->state != AGENT_READY || !a->peer || htc__gw_job_may(gw, j, a->site) == 0)
            continue;
        if (htc__gw_job_readable(j, a))
            return 0;
        old = a;
    }
    if (old)
        snprintf(text, cap, "its tasks %s, and the agents that are there, as %llu on %s, are of an earlier version, which does not know that",
                 j->wishes.signal[0]     ? "are sent a signal before they end (--signal)"
                 : j->wishes.credentials ? "have users and passwords for URLs (--credentials)"
                                         : "ask for an architecture or an operating system (--arch, --os)",
                 (unsigned long long)old->id, old->node);
    return old != NULL;
}

/* No site is the machine that its next task asks for, as far as anybody knows. 1: the sentence is in text. */
static int why_machine(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    char   asks[200];
    size_t at = 0;
    if (!j->in_ready || !htc__machine_wish_any(&j->asks))
        return 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (htc__gw_site_offers(gw, &j->asks, i) == OFFER_YES)
            return 0;
    htc__machine_wish_text(&j->asks, asks, sizeof asks);
    at += (size_t)snprintf(text, cap, "its next task asks for %s, and no agent offers that:", asks);
    for (size_t i = 0; i < gw->n_sites && at < cap; i++) {
        const site *s = &gw->sites[i];
        at += (size_t)snprintf(text + at, cap - at, "%s site %s %s", i ? "," : "", s->name, s->kinds.n ? "is" : "has not said what it is");
        for (uint32_t k = 0; k < s->kinds.n && at < cap; k++)
            at += (size_t)snprintf(text + at, cap - at, "%s %s %s", k ? " and" : "", s->kinds.of[k].system, s->kinds.of[k].machine);
        if (s->node[0] && !s->agent_slots && at < cap)
            at += (size_t)snprintf(text + at, cap - at, " (%s)", s->node);
    }
    return 1;
}

/* Its next task takes several slots and waits for them. 1: the sentence is in text. */
static int why_wide(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    if (!j->in_ready || j->width.slots <= 1)
        return 0;
    char what[100];
    if (j->width.members > 1)
        snprintf(what, sizeof what, "%u slot%s on each of %u nodes", j->width.part, htc__plural(j->width.part), j->width.members);
    else
        snprintf(what, sizeof what, "%u slots of one agent", j->width.slots);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (htc__gw_wide_at(gw, i) == j && j->id == gw->reserved) {
            snprintf(text, cap, "its next task takes %s at once and has waited for %.0f s, so at site %s%s nothing else begins, and what falls free is its alone", what,
                     (double)(gw->now - j->wide_since) / 1e9, gw->sites[i].name, j->width.members > 1 ? ", among others," : "");
            return 1;
        }
    for (size_t i = 0; i < gw->n_sites; i++)
        if (htc__gw_wide_at(gw, i) == j) {
            snprintf(text, cap, "its next task takes %s at once, and at site %s%s those that fall free are kept for it", what, gw->sites[i].name,
                     j->width.members > 1 ? ", among others," : "");
            return 1;
        }
    if (htc__gang_rests(&j->gang, gw->now))
        snprintf(text, cap, "its next task takes %s at once, and they were not together in time; it is tried again in %.0f s", what,
                 (double)(j->gang.not_before - gw->now) / 1e9);
    else if (j->width.slots > j->user->fits_slots)
        snprintf(text, cap, "its next task takes %s at once, and the share of %s is %u now; it starts when that many are free", what, j->user->name,
                 j->user->fits_slots);
    else
        snprintf(text, cap, "its next task takes %s at once, and others come first", what);
    return 1;
}

static int why_after(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    (void)gw;
    return htc__gw_edges_why(j, text, cap);
}

static int why_begin(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    return htc__gw_begin_why(gw, j, text, cap);
}

static int why_quota(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    return htc__gw_quota_why(gw, j, text, cap);
}

/* What a job itself waits for, rather than for its turn. The first cause that holds is told. */
typedef int (*why_fn)(htc_gateway *gw, const job *j, char *text, size_t cap);

static const struct {
    const char *code;
    why_fn      why;
    uint32_t    unbegun; /* nothing of the job has begun then */
} causes[] = {
    { "After", why_after, 1 },
    { "Begin", why_begin, 1 },
    { "Quota", why_quota, 0 },
    { "MaxRunning", why_full, 0 },
    { "FailingFast", why_slowed, 0 },
    { "Machine", why_machine, 0 },
    { "AgentVersion", why_version, 0 },
    { "Memory", why_memory, 0 },
    { "Counted", why_counted, 0 },
    { "Cores", why_wide, 0 },
};
#define CAUSES (sizeof causes / sizeof causes[0])

static size_t cause_of(htc_gateway *gw, const job *j, char *text, size_t cap)
{
    size_t i = 0;
    while (i < CAUSES && !causes[i].why(gw, j, text, cap))
        i++;
    return i;
}

/* A user's job for which it holds. */
static const job *any_job(htc_gateway *gw, const user *u, why_fn why, char *text, size_t cap)
{
    for (const job *j = gw->jobs; j; j = j->hh.next)
        if (j->user == u && !j->paused && why(gw, j, text, cap))
            return j;
    return NULL;
}

/* Of those with tasks that could be handed out. */
static const job *ready_job(htc_gateway *gw, const user *u, why_fn why, char *text, size_t cap)
{
    for (const job *j = u->ready; j; j = j->ready_next)
        if (why(gw, j, text, cap))
            return j;
    return NULL;
}

/* Why a user who has tasks to hand out does not have more agents; the code, and the sentence in text. */
static const char *why_user(htc_gateway *gw, const user *u, char *text, size_t cap)
{
    const char *name = u->name;
    uint64_t    mine = u->agents + u->draining;
    const site *paused = paused_site(gw);
    const user *other = over_base(gw, u);
    const job  *slow;
    char        slow_text[320];
    if (gw->shutdown) {
        snprintf(text, cap, "the system is ending, so nothing new is started");
        return "Ending";
    }
    if (gw->store_status != HTC_OK) {
        snprintf(text, cap, "the store takes no changes now (%s), so nothing new is handed out", htc_strerror(gw->store_status));
        return "Store";
    }
    if (htc__gw_place(gw, u) == HTC_PLACE_REFUSED) {
        char why[200];
        htc__gw_place_text(gw, u, why, sizeof why);
        snprintf(text, cap, "tasks of %s are refused: %s", name, why);
        return "Refused";
    }
    static const struct {
        const char *code;
        why_fn      why;
        const char *waits;   /* behind "job N of U" */
        uint32_t    at_rest; /* only of a user of whom nothing runs */
    } queues_nothing[] = { { "Quota", why_quota, "waits", 0 },
                           { "FailingFast", why_slowed, "waits", 0 },
                           { "MaxRunning", why_full, "waits", 0 },
                           { "After", why_after, "waits for other jobs", 1 },
                           { "Begin", why_begin, "waits for its time", 1 } };
    for (size_t i = 0; u->queued == 0 && i < sizeof queues_nothing / sizeof queues_nothing[0]; i++) {
        int tells = !queues_nothing[i].at_rest || (u->running == 0 && u->retrying == 0);
        if (tells && (slow = any_job(gw, u, queues_nothing[i].why, slow_text, sizeof slow_text)) != NULL) {
            snprintf(text, cap, "job %llu of %s %s: %s", (unsigned long long)slow->id, name, queues_nothing[i].waits,
                     slow_text);
            return queues_nothing[i].code;
        }
    }
    if (u->queued == 0 && u->running == 0 && u->retrying == 0) {
        snprintf(text, cap, "%s has no unfinished task", name);
        return "Idle";
    }
    if (u->queued == 0 && u->retrying && !u->running) {
        snprintf(text, cap, u->retrying == 1 ? "%llu task of %s failed and pauses before it is tried again" : "%llu tasks of %s failed and pause before they are tried again",
                 (unsigned long long)u->retrying, name);
        return "RetryWait";
    }
    if (u->queued == 0) {
        snprintf(text, cap, "nothing of %s waits: %llu task%s run%s", name, (unsigned long long)u->running, htc__plural(u->running), htc__verb(u->running));
        return "Satisfied";
    }
    if (u->waits && !u->agents) {
        snprintf(text, cap, "the agents of %u slot%s of %s wait in the queues of batch systems: htc sites, htc agents", u->waits, htc__plural(u->waits), name);
        return "Starting";
    }
    if (u->starting) {
        snprintf(text, cap, "the agents of %u slot%s of %s are starting", u->starting, htc__plural(u->starting), name);
        return "Starting";
    }
    for (const agent *a = gw->agents; a; a = a->hh.next) {
        htc_ns until;
        if (a->user != u || a->n_held || a->state != AGENT_READY || !htc__gw_node_aside(gw, a->node, &until))
            continue;
        snprintf(text, cap, "node %s fails everybody's tasks fast and is set aside for %.0f s more", a->node,
                 (double)(until - gw->now) / 1e9);
        return "NodeAside";
    }
    static const struct {
        const char *code;
        why_fn      why;
    } needs[] = { { "Machine", why_machine }, { "Memory", why_memory }, { "Counted", why_counted } };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if ((slow = ready_job(gw, u, needs[i].why, slow_text, sizeof slow_text)) != NULL) {
            snprintf(text, cap, "job %llu of %s waits: %s", (unsigned long long)slow->id, name, slow_text);
            return needs[i].code;
        }
    if (gw->free && paused && paused->closed) {
        snprintf(text, cap, "%u slot%s %s free, but site %s is out of service: %s; htc resume %s, by the operator, launches there again", gw->free, htc__plural(gw->free), htc__are(gw->free), paused->name,
                 paused->closed_for, paused->name);
        return "Site";
    }
    if (gw->free && paused && htc__gw_host_closed(gw, paused)) {
        snprintf(text, cap, "%u slot%s %s free, but node %s of site %s is out of service: %s; htc resume %s, by the operator, launches there again", gw->free, htc__plural(gw->free), htc__are(gw->free), paused->node,
                 paused->name, htc__gw_host_closed(gw, paused), paused->node);
        return "Site";
    }
    if (gw->free && paused) {
        snprintf(text, cap, "%u slot%s %s free, but site %s launches nothing for %.0f s more: %s", gw->free, htc__plural(gw->free), htc__are(gw->free), paused->name,
                 (double)(paused->not_before - gw->now) / 1e9, paused->reason[0] ? paused->reason : "an agent failed there before");
        return "Site";
    }
    if (mine >= u->ra && u->ra > 0) {
        snprintf(text, cap, "%s holds %llu of %u slot%s, which is their share now (RA = %llu); %llu task%s wait%s for one of them", name,
                 (unsigned long long)mine, gw->slots, htc__plural(gw->slots), (unsigned long long)u->ra, (unsigned long long)htc__gw_queued(u), htc__plural(htc__gw_queued(u)), htc__verb(htc__gw_queued(u)));
        return "Share";
    }
    if (other) {
        snprintf(text, cap, "%s is due %llu of %u slot%s and holds %llu; the others are freed as soon as tasks of %s end", name,
                 (unsigned long long)(u->ra ? u->ra : u->base), gw->slots, htc__plural(gw->slots), (unsigned long long)mine, other->name);
        return "Resources";
    }
    snprintf(text, cap, "%s holds %llu of %u slot%s and waits for the next one to be free", name, (unsigned long long)mine, gw->slots, htc__plural(gw->slots));
    return "Resources";
}

typedef struct asking {
    request *q;
    job     *job;
    uint64_t index;
    task     task; /* as it was when its last result was asked for */
} asking;

/* What follows "cancelled": the job that it waited for in vain. */
static void cancelled_text(const job *j, char *text, size_t cap)
{
    char why[300];
    text[0] = '\0';
    if (htc__gw_edges_broken(j, why, sizeof why))
        snprintf(text, cap, ": %s", why);
}

/* With the limit that ended it, it would end so again. */
static const char *retry_text(htc_status status)
{
    return status == HTC_EOOM        ? " --mem SIZE tries again with more"
           : status == HTC_EWALLTIME ? " --time TIME tries again with more"
                                     : " tries again";
}

/* Its own tries are with that limit: those of a task that has failed may be with another one. */
static void same_limit_text(const job *j, const task *t, char *text, size_t cap)
{
    text[0] = '\0';
    if (t->status == HTC_EOOM || t->status == HTC_EWALLTIME)
        snprintf(text, cap, "; with the same limit: once it has failed, htc retry %llu --failed%s", (unsigned long long)j->id, retry_text((htc_status)t->status));
}

/* reason: how its last attempt ended, in the words of who saw it. */
static void explain_task(htc_gateway *gw, request *q, const job *j, uint64_t index, const task *t, const char *reason)
{
    char        text[960], user_text[800];
    const char *code = "None";
    size_t      cause;
    unsigned long long id = j->id, i = index;
    const agent *a = t->state == TASK_LEASED ? htc__gw_agent(gw, t->agent) : NULL;
    switch ((task_state)t->state) {
    case TASK_NEW:
    case TASK_WAITING:
        if (j->cancelled) {
            cancelled_text(j, user_text, sizeof user_text);
            snprintf(text, sizeof text, "%llu.%llu was cancelled%s", id, i, user_text);
        } else if (j->paused) {
            snprintf(text, sizeof text, "%llu.%llu waits because its job is paused", id, i);
            code = "Paused";
        } else if ((cause = cause_of(gw, j, user_text, sizeof user_text)) < CAUSES) {
            snprintf(text, sizeof text, "%llu.%llu waits with its job: %s", id, i, user_text);
            code = causes[cause].code;
        } else {
            unsigned long long ahead = 0;
            for (const job *o = j->user->ready; o && htc__gw_job_turn(o, j) < 0; o = o->ready_next)
                ahead += htc__gw_job_ready(o);
            if (t->state == TASK_NEW && index > j->next)
                ahead += index - j->next;
            code = why_user(gw, j->user, user_text, sizeof user_text);
            snprintf(text, sizeof text, "%llu.%llu waits with %llu task%s before it: %s", id, i, ahead, htc__plural(ahead), user_text);
        }
        break;
    case TASK_LEASED:
        htc__gw_place_text(gw, j->user, user_text, sizeof user_text);
        snprintf(text, sizeof text, "%llu.%llu is with agent %llu%s%s: attempt %u, as %s", id, i, (unsigned long long)t->agent,
                 a ? " on " : "", a ? a->node : "", t->attempt, user_text);
        if (a && (a->suspected || a->state == AGENT_UNKNOWN)) {
            snprintf(text, sizeof text, "%llu.%llu is with agent %llu, which has not been heard for %.0f s", id, i,
                     (unsigned long long)t->agent, (double)(gw->now - a->heard) / 1e9);
            code = "Suspected";
        }
        break;
    case TASK_RETRY_WAIT:
        same_limit_text(j, t, user_text, sizeof user_text);
        snprintf(text, sizeof text, "%llu.%llu is tried again in %.1f s: %s, %u of %u attempts used%.200s", id, i,
                 t->since > gw->now ? (double)(t->since - gw->now) / 1e9 : 0.0, reason, t->tries,
                 j->max_attempts, user_text);
        code = "RetryWait";
        break;
    case TASK_DONE: snprintf(text, sizeof text, "%llu.%llu is done", id, i); break;
    case TASK_FAILED:
        snprintf(text, sizeof text, "%llu.%llu has failed: %s; htc retry %llu --failed%s", id, i, reason, id, retry_text((htc_status)t->status));
        code = "Failed";
        break;
    case TASK_CANCELLED: snprintf(text, sizeof text, "%llu.%llu was cancelled", id, i); break;
    }
    why_answer(gw, q, code, text);
}

static void outcome_known(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    asking      w = *(asking *)ctx;
    htc_outcome o = { 0 };
    char        reason[sizeof o.reason + 80];
    htc_status  status = r->status == HTC_OK ? htc__gw_record_result_read(r->value, &o) : r->status;
    const char *text = htc_strerror((htc_status)w.task.status);
    htc_runtime_context_free(gw->runtime, ctx);
    snprintf(reason, sizeof reason, "%s", text);
    if (status == HTC_OK && o.reason[0] && strcmp(o.reason, text) != 0)
        snprintf(reason, sizeof reason, "%s: %s", text, o.reason);
    explain_task(gw, w.q, w.job, w.index, &w.task, reason);
    htc__gw_job_release(gw, w.job);
}

static void task_known(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status)
{
    asking           *w = ctx;
    static const task untouched = { .state = TASK_NEW };
    const task       *t = c ? &c->tasks[w->index % CHUNK_TASKS] : &untouched;
    if (status == HTC_OK && (t->state == TASK_FAILED || t->state == TASK_RETRY_WAIT)) {
        key k = htc__gw_key_result(j->id, w->index, t->attempt);
        w->task = *t;
        htc_runtime_ask(gw->runtime,
                        &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, outcome_known, w);
        return;
    }
    if (status != HTC_OK)
        htc__gw_req_fail(gw, w->q, status, "", "the task could not be read: %s", htc_strerror(status));
    else
        explain_task(gw, w->q, j, w->index, t, "");
    htc_runtime_context_free(gw->runtime, w);
    htc__gw_job_release(gw, j);
}

static void why_job(htc_gateway *gw, request *q, job *j)
{
    char        text[960], user_text[800];
    const char *code;
    if (q->select.has_tasks || j->count == 1) {
        uint64_t index = q->select.has_tasks ? q->select.ranges[0].from : 0;
        asking  *w = index < j->count ? htc_runtime_context(gw->runtime, sizeof *w) : NULL;
        if (!w) {
            htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "its tasks count from 0", "job %llu has no task %llu", (unsigned long long)j->id,
                             (unsigned long long)index);
            return;
        }
        *w = (asking){ .q = q, .job = j, .index = index };
        htc__gw_job_hold(j);
        htc__gw_chunk_load(gw, j, index / CHUNK_TASKS, task_known, w);
        return;
    }
    size_t   cause;
    uint64_t waiting = htc__gw_job_waiting(j);
    if (!j->open || j->finished) {
        cancelled_text(j, user_text, sizeof user_text);
        snprintf(text, sizeof text, "job %llu has ended: %s%s", (unsigned long long)j->id, htc__gw_job_state(j), user_text);
        code = "None";
    } else if (j->paused) {
        snprintf(text, sizeof text, "job %llu is paused", (unsigned long long)j->id);
        code = "Paused";
    } else if ((cause = cause_of(gw, j, user_text, sizeof user_text)) < CAUSES) {
        if (causes[cause].unbegun)
            snprintf(text, sizeof text, "job %llu has not begun: %s", (unsigned long long)j->id, user_text);
        else
            snprintf(text, sizeof text, "%llu task%s of job %llu wait%s: %s", (unsigned long long)waiting, htc__plural(waiting),
                     (unsigned long long)j->id, htc__verb(waiting), user_text);
        code = causes[cause].code;
    } else if (waiting == 0 && j->now.retry_wait) {
        snprintf(text, sizeof text, "nothing of job %llu waits for a slot: %llu task%s run%s, %llu failed and pause%s before the next try",
                 (unsigned long long)j->id, (unsigned long long)j->now.leased, htc__plural(j->now.leased), htc__verb(j->now.leased), (unsigned long long)j->now.retry_wait,
                 htc__verb(j->now.retry_wait));
        code = "RetryWait";
    } else if (waiting == 0) {
        snprintf(text, sizeof text, j->now.leased == 1 ? "nothing of job %llu waits: its last %llu task runs" : "nothing of job %llu waits: its last %llu tasks run",
                 (unsigned long long)j->id, (unsigned long long)j->now.leased);
        code = "Running";
    } else {
        unsigned long long ahead = 0;
        for (const job *o = j->user->ready; o && htc__gw_job_turn(o, j) < 0; o = o->ready_next)
            ahead += htc__gw_job_ready(o);
        code = why_user(gw, j->user, user_text, sizeof user_text);
        if (ahead)
            snprintf(text, sizeof text, "%llu task%s of job %llu wait%s, with %llu of other jobs before %s: %s",
                     (unsigned long long)waiting, htc__plural(waiting), (unsigned long long)j->id, htc__verb(waiting), ahead, waiting == 1 ? "it" : "them", user_text);
        else
            snprintf(text, sizeof text, "%llu task%s of job %llu wait%s: %s", (unsigned long long)waiting, htc__plural(waiting),
                     (unsigned long long)j->id, htc__verb(waiting), user_text);
    }
    why_answer(gw, q, code, text);
}

static void why_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    if (n == 1)
        htc__gw_with_job(gw, q, ids[0], why_job);
    else
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one job or task", "why explains one thing at a time");
}

void htc__gw_api_why(htc_gateway *gw, request *q)
{
    char text[800];
    if (json_object_get(q->body, "id")) {
        htc__gw_select(gw, q, why_selected);
        return;
    }
    const char *code = why_user(gw, q->user, text, sizeof text);
    why_answer(gw, q, code, text);
}
