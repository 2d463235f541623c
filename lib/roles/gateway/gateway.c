/* The gateway's door: one step for each thing that happened, and what time alone brings about. */
#include "htcsched/keyring.h"
#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

#include <stdio.h>
#include <string.h>

#define TICK_CHECK (250 * HTC_MS) /* how often silence is looked for */

/* ---- create and destroy ---- */

static htc_ns or_default(htc_ns value, htc_ns otherwise)
{
    return value ? value : otherwise;
}

static void defaults(htc_gateway_options *o)
{
    o->tick_ns = or_default(o->tick_ns, 5 * HTC_SECOND);
    o->heartbeat_ns = or_default(o->heartbeat_ns, 10 * HTC_SECOND);
    o->lost_after_ns = or_default(o->lost_after_ns, 30 * HTC_SECOND);
    o->launch_timeout_ns = or_default(o->launch_timeout_ns, 600 * HTC_SECOND);
    o->relaunch_backoff_ns = or_default(o->relaunch_backoff_ns, 5 * HTC_SECOND);
    o->max_relaunch = o->max_relaunch ? o->max_relaunch : 5;
    o->max_attempts = o->max_attempts ? o->max_attempts : 3;
    o->max_lost = o->max_lost ? o->max_lost : 20;
    o->retry_backoff_ns = or_default(o->retry_backoff_ns, HTC_SECOND);
    o->retry_backoff_max_ns = or_default(o->retry_backoff_max_ns, 300 * HTC_SECOND);
    o->slots_max = o->slots_max == 0 ? 1 : o->slots_max < AGENT_SLOTS_MAX ? o->slots_max : AGENT_SLOTS_MAX;
    o->gang_collect_ns = or_default(o->gang_collect_ns, 60 * HTC_SECOND);
    o->wide_wait_ns = or_default(o->wide_wait_ns, 300 * HTC_SECOND);
    o->memory_wait_ns = or_default(o->memory_wait_ns, 60 * HTC_SECOND);
    o->tasks_max = o->tasks_max ? o->tasks_max : UINT64_C(1) << 40;
    o->idle_ns = or_default(o->idle_ns, 300 * HTC_SECOND);
    o->content_grace_ns = or_default(o->content_grace_ns, 86400 * HTC_SECOND);
    o->usage_keep_ns = or_default(o->usage_keep_ns, 365 * 86400 * HTC_SECOND);
    o->half_life_ns = or_default(o->half_life_ns, 7 * 86400 * HTC_SECOND);
    o->token_life_ns = or_default(o->token_life_ns, 7 * 86400 * HTC_SECOND);
}

static void destroy(void *self)
{
    htc_gateway *gw = self;
    user        *u, *un;
    conn        *c, *cn;
    request     *q, *qn;
    if (!gw)
        return;
    htc_env env = gw->env;
    htc__gw_agents_free(gw);
    htc__gw_taken_sweep(gw, 0);
    htc__gw_jobs_free(gw);
    HASH_ITER(hh, gw->users, u, un)
    {
        HASH_DEL(gw->users, u);
        htc_runtime_wake(gw->runtime, &u->folded, HTC_ECLOSED);
        htc__gw_user_free(gw, u);
    }
    HASH_ITER(hh, gw->conns, c, cn)
    {
        HASH_DEL(gw->conns, c);
        htc__free(&env, c, sizeof *c);
    }
    htc__nodes_free(&gw->nodes, &env);
    htc__gw_nodes_closed_free(gw);
    htc__gw_projects_free(gw);
    htc__gw_usage_free(gw);
    htc_registry_destroy(gw->registry);
    DL_FOREACH_SAFE(gw->requests, q, qn)
    htc__gw_req_free(gw, q);
    htc__gw_changing_free(gw);
    htc__gw_removals_free(gw);
    htc__gw_known_keys_free(gw);
    htc__gw_content_free(gw);
    htc__gw_mails_free(gw);
    htc_buf_free(&gw->marks);
    for (size_t i = 0; i < gw->n_sites; i++)
    {
        htc__free(&env, gw->sites[i].slots, gw->sites[i].cap * sizeof *gw->sites[i].slots);
        htc__gw_joined_free(gw, &gw->sites[i]);
    }
    htc__free(&env, gw->sites, gw->n_sites * sizeof *gw->sites);
    htc__free(&env, gw->site_nodes, gw->n_sites * sizeof *gw->site_nodes);
    htc__free(&env, gw->gang_sites, gw->n_sites * sizeof *gw->gang_sites);
    htc__free(&env, gw->reservation_sites, gw->n_sites * sizeof *gw->reservation_sites);
    htc__free(&env, gw->parts, gw->n_sites * sizeof *gw->parts);
    htc__gw_gangs_free(gw);
    htc__free(&env, gw->ranks, gw->n_sites * sizeof *gw->ranks);
    htc__free(&env, gw->order, gw->n_sites * sizeof *gw->order);
    for (size_t i = 0; i < gw->n_fair_users; i++)
        htc__strfree(&env, gw->fair_users[i]);
    htc__free(&env, gw->fair_users, gw->n_fair_users * sizeof *gw->fair_users);
    htc__free(&env, gw->dues, gw->cap_dues * sizeof *gw->dues);
    htc__gw_active_free(gw);
    htc_runtime_destroy(gw->runtime);
    htc_buf_free(&gw->scratch);
    htc__free(&env, gw, sizeof *gw);
}

static void take_label(char *label, size_t room, const char *text)
{
    snprintf(label, room, "%s", text ? text : "");
    htc__text_clean(label);
}

static void own_machine(site *s, const htc_gateway_options *o)
{
    htc_wire_machine m = { 0 };
    take_label(m.system, sizeof m.system, o->system);
    take_label(m.machine, sizeof m.machine, o->machine);
    htc__machine_add(&s->kinds, &m);
    take_label(s->node, sizeof s->node, o->name);
}

static htc_status copy_sites(htc_gateway *gw, const htc_gateway_options *o)
{
    gw->sites = htc__alloc(&gw->env, o->n_sites * sizeof *gw->sites);
    if (!gw->sites)
        return HTC_ENOMEM;
    gw->n_sites = o->n_sites;
    gw->site_nodes = htc__alloc(&gw->env, o->n_sites * sizeof *gw->site_nodes);
    gw->ranks = htc__alloc(&gw->env, o->n_sites * sizeof *gw->ranks);
    gw->order = htc__alloc(&gw->env, o->n_sites * sizeof *gw->order);
    gw->gang_sites = htc__alloc(&gw->env, o->n_sites * sizeof *gw->gang_sites);
    gw->parts = htc__alloc(&gw->env, o->n_sites * sizeof *gw->parts);
    gw->reservation_sites = htc__alloc(&gw->env, o->n_sites * sizeof *gw->reservation_sites);
    if (!gw->reservation_sites || !gw->site_nodes || !gw->ranks || !gw->order || !gw->gang_sites || !gw->parts)
        return HTC_ENOMEM;
    for (size_t i = 0; i < o->n_sites; i++) {
        htc_site_options  copy = { 0 };
        htc_site_options *from = &copy;
        site             *s = &gw->sites[i];
        htc_status        status = htc__options_at(from, sizeof *from, o->sites, i, offsetof(htc_site_options, joins));
        if (status != HTC_OK)
            return status;
        if (!from->name || strlen(from->name) >= sizeof s->name || from->cores == 0 || from->cores > 1u << 20)
            return HTC_EINVAL;
        for (size_t j = 0; j < i; j++)
            if (strcmp(gw->sites[j].name, from->name) == 0)
                return HTC_EINVAL;
        snprintf(s->name, sizeof s->name, "%s", from->name);
        s->slots = htc__alloc(&gw->env, from->cores * sizeof *s->slots);
        if (!s->slots)
            return HTC_ENOMEM;
        s->cores = s->cap = from->cores;
        s->node_cores = from->node_cores ? from->node_cores : from->cores;
        s->memory.total = from->memory;
        s->speed = from->speed > 0 ? from->speed : 1;
        take_label(s->org, sizeof s->org, from->org);
        take_label(s->type, sizeof s->type, from->type);
        take_label(s->os, sizeof s->os, from->os);
        s->task_memory = from->task_memory ? from->task_memory : from->memory / from->cores;
        if (from->memory && s->task_memory > from->memory)
            return HTC_EINVAL;
        gw->site_nodes[i] = (site_nodes){ .name = s->name, .memory = from->memory, .cores = s->node_cores,
                                           .slots = s->cores < o->slots_max ? s->cores : o->slots_max };
        gw->site_nodes[i].counted = &s->counted;
        gw->site_nodes[i].node = s->node;
        gw->site_nodes[i].kinds = &s->kinds;
        if (!from->joins)
            own_machine(s, o);
        for (size_t k = 0; k < from->n_resources; k++) {
            uint32_t before = s->counted.n;
            if (from->resources[k].count == 0)
                continue;
            if (htc__counted_set(&s->counted, from->resources[k].name, from->resources[k].count) != HTC_OK || s->counted.n == before)
                return HTC_EINVAL;
            s->counted.at[s->counted.n - 1].fixed = 1;
        }
        gw->site_nodes[i].unknown = from->joins != 0;
        if (from->joins && (status = htc__gw_joined_init(gw, s, from)) != HTC_OK)
            return status;
        gw->slots += s->cores;
    }
    gw->free = gw->slots;
    return HTC_OK;
}

static htc_status copy_fair_users(htc_gateway *gw, const char *const *names)
{
    size_t n = 0;
    while (names && names[n])
        n++;
    gw->fair_users = htc__alloc(&gw->env, n * sizeof *gw->fair_users);
    if (!gw->fair_users)
        return HTC_ENOMEM;
    for (; gw->n_fair_users < n; gw->n_fair_users++)
        if (!(gw->fair_users[gw->n_fair_users] = htc__strdup(&gw->env, names[gw->n_fair_users])))
            return HTC_ENOMEM;
    return gw->policy == HTC_ALLOT_STATIC && n == 0 ? HTC_EINVAL : HTC_OK;
}

htc_status htc_gateway_create(const htc_env *env, const htc_gateway_options *options, htc_gateway **out)
{
    htc_gateway_options o = { 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_gateway_options, tick_ns));
    if (status != HTC_OK)
        return status;
    if (!(o.gamma >= -1 && o.gamma <= 1) || !o.owner_name || !htc__gw_user_name_ok(o.owner_name) || o.n_sites == 0 || !o.sites || o.store_peer == 0 || o.apart > HTC_APART_UID)
        return HTC_EINVAL;
    htc_gateway *gw = htc__alloc(env, sizeof *gw);
    if (!gw)
        return HTC_ENOMEM;
    if (env)
        gw->env = *env;
    htc_buf_init(&gw->scratch, env, HTC_WIRE_MESSAGE_MAX);
    snprintf(gw->owner_name, sizeof gw->owner_name, "%s", o.owner_name);
    status = htc_allot_policy_from_name(o.policy ? o.policy : "maxmin", &gw->policy);
    defaults(&o);
    if (status == HTC_OK)
        status = copy_sites(gw, &o);
    if (status == HTC_OK)
        status = copy_fair_users(gw, o.fair_users);
    htc_kv_client_options kv = { .size = sizeof kv, .client_id = o.store_client_id, .peer = o.store_peer,
                                 .inflight_max = 1u << 16, .bytes_max = (size_t)256 << 20 };
    htc_runtime_options runtime = { .size = sizeof runtime, .role = gw, .store = &kv, .name = "gateway" };
    if (status == HTC_OK)
        status = htc_runtime_create(env, &runtime, &gw->runtime);
    if (status == HTC_OK)
        status = htc__gw_active_init(gw, &o);
    if (status == HTC_OK)
        status = htc_runtime_ids_create(gw->runtime, htc_bytes_of("g/agent"), 256, htc__gw_agent_ids_ready, NULL, &gw->agent_ids);
    if (status == HTC_OK)
        status = htc_registry_create(env, &gw->registry);
    if (status == HTC_OK)
        status = htc_registry_add_builtin(gw->registry);
    if (status == HTC_OK)
        status = htc_allot_find(gw->registry, "fair-share", &gw->fair_share);
    if (status != HTC_OK) {
        destroy(gw);
        return status;
    }
    gw->site_quota = (quota_limits){ { o.quota_core_ns + 1, o.quota_bytes + 1, o.quota_tasks + 1, o.quota_processes + 1 } };
    gw->usage_at = HTC_NEVER;
    o.sites = NULL;
    o.fair_users = NULL;
    o.name = o.address = o.data_id = NULL;
    o.owner_name = gw->owner_name;
    if (o.operator_token)
        htc__gw_token_hash(o.operator_token, gw->operator_hash);
    o.operator_token = NULL;
    snprintf(gw->apart_why, sizeof gw->apart_why, "%s", o.apart_why ? o.apart_why : "");
    o.apart_why = NULL;
    if (o.store_join && o.store_join[0])
        snprintf(gw->store_join, sizeof gw->store_join, "tcp://%s", o.store_join);
    o.store_join = NULL;
    if (o.outputs && o.outputs_id) {
        snprintf(gw->outputs, sizeof gw->outputs, "%s", o.outputs);
        snprintf(gw->outputs_id, sizeof gw->outputs_id, "%s", o.outputs_id);
    }
    o.outputs = o.outputs_id = NULL;
    o.policy = NULL;
    gw->options = o;
    gw->store_retry_at = HTC_NEVER;
    gw->expected = HTC_NEVER;
    gw->idle_at = HTC_NEVER;
    *out = gw;
    return HTC_OK;
}

/* ---- connections ---- */

static int is_stranger(const htc_gateway *gw, const conn *c)
{
    return c->info.transport == HTC_TRANSPORT_TCP || (c->info.transport == HTC_TRANSPORT_SECURE && c->key.role == HTC_KEY_USER) ||
           (c->info.transport == HTC_TRANSPORT_UNIX && c->info.uid != gw->options.owner_uid);
}

static int asks(const htc_gateway *gw, uint32_t peer)
{
    const request *q;
    DL_FOREACH(gw->requests, q)
    if (q->peer == peer)
        return 1;
    return 0;
}

/* Strangers who ask nothing give their places back; agents and who waits for an answer keep theirs. */
static void close_idle(htc_gateway *gw)
{
    conn *c, *next;
    gw->idle_at = HTC_NEVER;
    HASH_ITER(hh, gw->conns, c, next)
    {
        htc_ns at = c->heard + gw->options.idle_ns;
        if (!is_stranger(gw, c) || c->agent)
            continue;
        if (asks(gw, c->peer))
            at = gw->now + gw->options.idle_ns;
        if (at <= gw->now) {
            htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("uid", c->info.uid), HTC__NUMBER("peer", c->peer)),
                          "a connection of uid %u asks nothing -> close it", c->info.uid);
            htc_runtime_close(gw->runtime, c->peer, HTC_ETIMEDOUT);
            at = gw->now + gw->options.idle_ns;
        }
        if (at < gw->idle_at)
            gw->idle_at = at;
    }
}

static void opened(htc_gateway *gw, const htc_input *in)
{
    conn *c;
    HASH_FIND(hh, gw->conns, &in->peer, sizeof in->peer, c);
    if (c)
        return;
    c = htc__alloc(&gw->env, sizeof *c);
    if (!c) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "taking a connection");
        return;
    }
    c->peer = in->peer;
    c->info.uid = UINT32_MAX;
    htc_peer_info_read(in->body, &c->info);
    (void)htc_peer_identity_read(in->body, &c->key);
    c->heard = gw->now;
    if (is_stranger(gw, c) && gw->idle_at == HTC_NEVER)
        gw->idle_at = gw->now + gw->options.idle_ns;
    HASH_ADD(hh, gw->conns, peer, sizeof c->peer, c);
    if (!c->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "taking a connection");
}

static void closed(htc_gateway *gw, uint32_t peer)
{
    conn *c;
    HASH_FIND(hh, gw->conns, &peer, sizeof peer, c);
    if (!c)
        return;
    htc__gw_agent_closed(gw, c);
    htc__gw_joined_closed(gw, c);
    htc__gw_requests_closed(gw, peer);
    HASH_DEL(gw->conns, c);
    htc__free(&gw->env, c, sizeof *c);
}

static void refuse(htc_gateway *gw, conn *c, uint64_t id, htc_status status, const char *why)
{
    htc_wire_error(&gw->scratch, id, status, why);
    htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
    htc_runtime_close(gw->runtime, c->peer, status);
}

static void greet(htc_gateway *gw, conn *c, uint64_t id, htc_reader *r)
{
    uint8_t    role = 0;
    uint16_t   version = 0;
    htc_status status = htc_wire_read_hello_machine(r, HTC_WIRE_VERSION, &role, &version, &c->machine);
    int        local = c->info.transport == HTC_TRANSPORT_UNIX, far = c->info.transport == HTC_TRANSPORT_SECURE;
    if (status != HTC_OK) {
        refuse(gw, c, id, status, "this is the gateway of libhtcsched; your greeting is not one of its protocol");
    } else if (role != HTC_WIRE_ROLE_USER && role != HTC_WIRE_ROLE_AGENT && role != HTC_WIRE_ROLE_JOINED) {
        refuse(gw, c, id, HTC_EPROTO, "the gateway serves users, agents and hosts that join");
    } else if (far && role == HTC_WIRE_ROLE_USER && c->key.role != HTC_KEY_USER) {
        refuse(gw, c, id, HTC_EDENIED, "the key of a host is no user's: htc keys enrol NAME --role user");
    } else if (far && role != HTC_WIRE_ROLE_USER && c->key.role != HTC_KEY_HOST) {
        refuse(gw, c, id, HTC_EDENIED, "the key of a user is no host's: htc keys enrol NAME --role host");
    } else if (!far && role == HTC_WIRE_ROLE_JOINED && c->info.transport != HTC_TRANSPORT_SIM) {
        refuse(gw, c, id, HTC_EDENIED, "a host joins with its key, at the address of server.join");
    } else if (role == HTC_WIRE_ROLE_AGENT && local && c->info.uid != gw->options.owner_uid && gw->options.apart != HTC_APART_UID) {
        refuse(gw, c, id, HTC_EDENIED, "an agent runs as the owner of the state directory");
    } else if (role == HTC_WIRE_ROLE_USER && local && c->info.uid != gw->options.owner_uid && gw->options.owner_only) {
        refuse(gw, c, id, HTC_EDENIED, "this system serves its owner alone (server.others)");
    } else if (gw->phase == PHASE_WAITING && role != HTC_WIRE_ROLE_USER) {
        htc_runtime_close(gw->runtime, c->peer, HTC_EUNREACHABLE); /* it tries the next address */
    } else {
        c->role = role;
        c->speaks = version;
        htc_wire_welcome(&gw->scratch, id, version);
        htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
    }
}

static void message(htc_gateway *gw, const htc_input *in)
{
    conn *c;
    HASH_FIND(hh, gw->conns, &in->peer, sizeof in->peer, c);
    if (!c)
        return;
    c->heard = gw->now;
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    if (r.status != HTC_OK)
        refuse(gw, c, 0, HTC_EPROTO, "a message is shorter than its header");
    else if (type == HTC_WIRE_HELLO)
        greet(gw, c, id, &r);
    else if (c->role == HTC_WIRE_ROLE_AGENT)
        htc__gw_agent_message(gw, c, type, &r);
    else if (c->role == HTC_WIRE_ROLE_JOINED)
        htc__gw_joined_message(gw, c, type, &r);
    else if (c->role == HTC_WIRE_ROLE_USER)
        htc__gw_user_message(gw, c, type, id, (htc_bytes){ r.p, htc_reader_left(&r) });
    else
        refuse(gw, c, id, HTC_EPROTO, "the first message has to be a greeting");
}

/* ---- time ---- */

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

/* A gateway that was itself asleep (stopped, swapped out) has heard nobody: it must not blame them for it. */
static void notice_stall(htc_gateway *gw)
{
    agent *a, *next;
    if (gw->expected == HTC_NEVER || gw->now <= gw->expected + gw->options.heartbeat_ns)
        return;
    htc_ns stall = gw->now - gw->expected;
    htc__log(&gw->env, HTC_LOG_WARN, "this gateway was stalled for %.1f s -> nobody's silence counts during it",
             (double)stall / 1e9);
    HASH_ITER(hh, gw->agents, a, next)
    {
        a->heard = earlier(a->heard + stall, gw->now);
        a->since = earlier(a->since + stall, gw->now);
    }
    for (size_t i = 0; i < gw->n_sites; i++)
        gw->sites[i].heard = earlier(gw->sites[i].heard + stall, gw->now);
}

static void run_time(htc_gateway *gw)
{
    if (gw->now >= gw->store_retry_at)
        gw->store_retry_at = HTC_NEVER;
    htc__gw_active_go(gw);
    if (gw->phase != PHASE_READY || !htc__gw_active_holds(gw))
        return;
    htc__gw_dues_run(gw);
    htc__gw_removals_go(gw);
    htc__gw_mails_go(gw);
    htc__gw_logins_go(gw);
    if (gw->now >= gw->idle_at)
        close_idle(gw);
    if (gw->now >= gw->check_at) {
        htc__gw_agents_check(gw);
        htc__gw_joined_check(gw);
        htc__gw_waits_check(gw);
        gw->check_at = gw->now + TICK_CHECK;
    }
    if (gw->now >= gw->tick_at) {
        gw->tick_at = gw->now + gw->options.tick_ns;
        htc__gw_tokens_sweep(gw);
        htc__gw_quotas_look(gw);
        htc__gw_content_look(gw);
        htc__gw_usage_fold(gw);
        htc__gw_reallocate_soon(gw);
    }
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].not_before && gw->now >= gw->sites[i].not_before) {
            gw->sites[i].not_before = 0;
            htc__gw_reallocate_soon(gw);
        }
    if (gw->reallocate_wanted && gw->now >= gw->reallocated + REALLOCATE_GAP)
        htc__gw_reallocate(gw);
}

static htc_ns deadline(const void *self)
{
    const htc_gateway *gw = self;
    htc_ns             at = htc_runtime_deadline(gw->runtime);
    at = earlier(at, gw->store_retry_at);
    at = earlier(at, htc__gw_active_deadline(gw));
    if (gw->phase != PHASE_READY || !htc__gw_active_holds(gw))
        return at;
    at = earlier(at, htc__gw_mails_deadline(gw));
    at = earlier(at, gw->idle_at);
    if (gw->store_status == HTC_OK)
        at = earlier(at, gw->usage_at);
    at = earlier(at, htc__logins_deadline(&gw->logins));
    if (gw->n_dues)
        at = earlier(at, gw->dues[0].at);
    if (gw->removals && !gw->removing)
        at = earlier(at, gw->remove_at);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].not_before)
            at = earlier(at, gw->sites[i].not_before);
    if (gw->reallocate_wanted)
        at = earlier(at, gw->reallocated + REALLOCATE_GAP);
    if (HASH_COUNT(gw->agents) || gw->requests)
        at = earlier(at, gw->check_at);
    at = earlier(at, htc__gw_joined_deadline(gw));
    return earlier(at, gw->tick_at);
}

void htc__gw_shutdown(htc_gateway *gw, int at_once)
{
    if (!gw->shutdown)
        htc__log(&gw->env, HTC_LOG_INFO, "asked to end -> %s", at_once ? "end all tasks" : "let running tasks finish");
    gw->shutdown = 1;
    gw->stop_now |= at_once != 0;
    if (htc__gw_shared(gw) && !gw->stop_now && gw->phase == PHASE_READY)
        gw->phase = PHASE_HANDING; /* another one goes on with the agents */
    else if (gw->phase != PHASE_HANDING && gw->phase != PHASE_WAITING)
        htc__gw_agents_stop(gw, gw->stop_now);
}

static void released(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    (void)ctx;
    if (status != HTC_OK)
        return;
    gw->phase = PHASE_STOPPED;
    htc_runtime_stop(gw->runtime, HTC_OK);
}

static void check_shutdown(htc_gateway *gw)
{
    int waits = gw->phase == PHASE_WAITING && !gw->active.own.term, hands = gw->phase == PHASE_HANDING;
    if (!gw->shutdown || gw->phase == PHASE_STOPPED || gw->active.own.released)
        return;
    if (!waits && ((!hands && HASH_COUNT(gw->agents)) || gw->dirty_chunks || gw->dirty_jobs || htc__gw_usage_busy(gw) || htc_runtime_pending(gw->runtime) || !htc__gw_gate_is_empty(gw)))
        return;
    if (gw->active.own.term) {
        gw->active.own.released = 1;
        htc__gw_active_write(gw, released, NULL);
        return;
    }
    gw->phase = PHASE_STOPPED;
    htc_runtime_stop(gw->runtime, HTC_OK);
}

static void event(htc_gateway *gw, const htc_input *in)
{
    switch (in->op) {
    case HTC_EVENT_AGENT_EXIT:
    case HTC_EVENT_AGENT_STOPPED: htc__gw_agent_event(gw, in); break;
    case HTC_EVENT_DISK:
        if (in->status == HTC_OK)
            htc__gw_job_places(gw); /* those that could not be made */
        break;
    case HTC_EVENT_SHUTDOWN: htc__gw_shutdown(gw, in->status != HTC_OK); break;
    default: break;
    }
}

static htc_status step(void *self, const htc_input *given, htc_output *out)
{
    htc_gateway *gw = self;
    htc_input    room;
    htc_status   unknown;
    const htc_input *in = htc__input_known(given, &room, &unknown);
    if (!in)
        return unknown;
    htc_status broken = htc_runtime_begin(gw->runtime, in, htc__gw_gate_begin(gw, out));
    if (broken != HTC_OK)
        return broken;
    int from_store = in->peer == gw->options.store_peer;
    gw->now = in->now;
    gw->wall = in->wall;
    notice_stall(gw);
    htc__gw_history_go(gw);
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_START:
        gw->started_wall = in->wall;
        htc__history_begin(&gw->history, in->now);
        gw->reallocated = 0;
        if (htc__gw_shared(gw))
            htc__gw_active_begin(gw);
        else
            htc__gw_recover(gw);
        break;
    case HTC_IN_MESSAGE:
        if (!from_store)
            message(gw, in);
        break;
    case HTC_IN_OPENED:
        if (!from_store)
            opened(gw, in);
        break;
    case HTC_IN_CLOSED:
        if (!from_store)
            closed(gw, in->peer);
        break;
    case HTC_IN_TIMEOUT: break;
    case HTC_IN_RESULT: break;
    case HTC_IN_EVENT: event(gw, in); break;
    case HTC_IN_STORED:
    case HTC_IN_BYTES:
    case HTC_IN_SENT:
    case HTC_IN_TURN:
    case HTC_IN_FRAMES: break;
    default: return HTC_EUNSUPPORTED;
    }
    htc_runtime_input(gw->runtime, in);
    if (htc_runtime_status(gw->runtime) == HTC_OK)
        run_time(gw);
    if (gw->jobs_ended)
        htc__gw_waits_check(gw);
    gw->jobs_ended = 0;
    gw->turns |= in->kind == HTC_IN_TURN;
    if (!gw->turns || in->kind == HTC_IN_TURN)
        htc__gw_flush(gw); /* once for all that came together */
    if (gw->phase == PHASE_READY || gw->phase == PHASE_HANDING)
        htc__gw_usage_flush(gw);
    if (htc_runtime_status(gw->runtime) == HTC_OK)
        htc__gw_seal_check(gw);
    if (htc_runtime_status(gw->runtime) == HTC_OK)
        check_shutdown(gw);
    htc__gw_gate_ask(gw);
    /* What is due already is expected now, not back then: a deadline may be older than the step that has set it. */
    gw->expected = deadline(gw);
    if (gw->expected < gw->now)
        gw->expected = gw->now;
    broken = htc_runtime_end(gw->runtime, in);
    return broken == HTC_OK ? htc__gw_gate_end(gw, out) : broken;
}

const htc_machine_ops *htc_gateway_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, destroy, HTC_MACHINE_TURNS };
    return &ops;
}
