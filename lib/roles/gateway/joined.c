/* Sites beyond this machine: a host that has joined launches the agents there (roles/runtime/joined_wire.h).
 *
 *   away     nobody speaks for the site: nothing is launched, its free slots are not divided   JOINED_HELLO            there
 *   there    slots as the host says, at most those of the configuration                        JOINED_HELLO, leaving   leaving
 *   leaving  nothing is launched, its agents drain                                             connection lost, silent away
 *
 * Agents of a host that is away go on: each is heard of by itself. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/keyring.h"
#include "roles/gateway/gateway.h"
#include "roles/runtime/joined_wire.h"

int htc__gw_site_serves(const htc_gateway *gw, const user *u, size_t at)
{
    const site *s = &gw->sites[at];
    if (!s->joins)
        return 1;
    for (size_t i = 0; i < s->n_users; i++)
        if (strcmp(s->users[i], u->name) == 0)
            return 1;
    return s->n_users == 0 && strcmp(u->name, gw->owner_name) == 0;
}

int htc__gw_site_is_of(const site *s, const conn *c)
{
    return c->info.transport == HTC_TRANSPORT_SECURE ? s->joins && c->key.role == HTC_KEY_HOST && strcmp(c->key.name, s->name) == 0
                                                     : !s->joins || c->info.transport == HTC_TRANSPORT_SIM;
}

static site *site_of(htc_gateway *gw, const conn *c)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].joins && htc__gw_site_is_of(&gw->sites[i], c))
            return &gw->sites[i];
    return NULL;
}

/* Slots that agents have stay, whatever the host has now. */
static void resize(htc_gateway *gw, site *s, uint32_t cores)
{
    uint32_t top = 0;
    for (uint32_t i = 0; i < s->cap; i++)
        top = s->slots[i].agent ? i + 1 : top;
    cores = cores < s->cap ? cores : s->cap;
    cores = cores > top ? cores : top;
    gw->slots += cores - s->cores;
    gw->free += cores - s->cores;
    s->cores = cores;
}

void htc__gw_joined_make_room(htc_gateway *gw, uint32_t at, uint32_t number)
{
    site *s = &gw->sites[at];
    if (s->joins && number < s->cap && number >= s->cores) {
        gw->slots += number + 1 - s->cores;
        gw->free += number + 1 - s->cores;
        s->cores = number + 1;
    }
}

static void go_away(htc_gateway *gw, site *s, const char *why)
{
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("site", s->name), HTC__TEXT("why", why)),
                  "the host of site %s %s -> nothing is launched there until it is back", s->name, why);
    s->host = 0;
    s->leaving = 0;
    s->not_before = HTC_NEVER;
    snprintf(s->reason, sizeof s->reason, "no host has joined as %s", s->name);
    resize(gw, s, 0);
    htc__gw_reallocate_soon(gw);
}

void htc__gw_joined_away(site *s)
{
    s->not_before = HTC_NEVER;
    snprintf(s->reason, sizeof s->reason, "no host has joined as %s", s->name);
}

/* ---- the host speaks ---- */

/* ring: NULL: the host has it. */
static void welcome(htc_gateway *gw, uint32_t peer, htc_status status, const char *text, uint64_t keys, const htc_buf *ring)
{
    htc_joined_welcome m = { .status = status, .heartbeat_ns = gw->options.heartbeat_ns, .lost_after_ns = gw->options.lost_after_ns, .keys = keys };
    snprintf(m.text, sizeof m.text, "%s", text);
    if (ring)
        m.ring = htc_buf_bytes(ring);
    htc_joined_welcome_write(&gw->scratch, &m);
    htc_runtime_send(gw->runtime, peer, &gw->scratch);
}

/* The keys by which hosts know each other, and what names them; 0: they are not told. */
static uint64_t host_keys(htc_gateway *gw, htc_buf *ring)
{
    uint64_t name = 0;
    size_t   len = gw->options.hosts ? gw->options.hosts(gw->options.hosts_ctx, NULL, 0) : 0;
    uint8_t *room = len ? htc_buf_extend(ring, len) : NULL;
    if (!room || gw->options.hosts(gw->options.hosts_ctx, (char *)room, len) != len)
        return 0;
    crypto_generichash((unsigned char *)&name, sizeof name, room, len, NULL, 0);
    return name | 1;
}

/* Those who have not heard of the newest ones are told, the speaker among them. */
static void greet_all(htc_gateway *gw, site *speaker, uint64_t has)
{
    htc_buf ring;
    htc_buf_init(&ring, &gw->env, HTC_WIRE_MESSAGE_MAX / 2);
    uint64_t keys = host_keys(gw, &ring);
    welcome(gw, speaker->host, HTC_OK, "", keys, keys && has != keys ? &ring : NULL);
    speaker->keys = keys;
    for (size_t i = 0; keys && i < gw->n_sites; i++) {
        site *s = &gw->sites[i];
        if (s->host && s->keys != keys)
            welcome(gw, s->host, HTC_OK, "", keys, &ring);
        s->keys = s->host ? keys : s->keys;
    }
    htc_buf_free(&ring);
}

static void kill_there(htc_gateway *gw, const site *s, uint64_t id)
{
    htc_joined_kill_write(&gw->scratch, id);
    htc_runtime_send(gw->runtime, s->host, &gw->scratch);
}

static int is_listed(const htc_joined_hello *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->agents[i] == id)
            return 1;
    return 0;
}

/* Agents that are not there any more, and agents that are nobody's. */
static void compare(htc_gateway *gw, const site *s, const htc_joined_hello *m)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    if (&gw->sites[a->site] == s && a->noted && a->launch_no <= m->launches && !is_listed(m, a->id))
        htc__gw_agent_ended(gw, a, "");
    for (uint32_t i = 0; i < m->count; i++) {
        a = htc__gw_agent(gw, m->agents[i]);
        if (!a || a->state == AGENT_LOST || &gw->sites[a->site] != s)
            kill_there(gw, s, m->agents[i]);
    }
}

/* One that waits in a queue is neither late nor silent: its time begins when it does not wait any more. */
static void take_phase(htc_gateway *gw, agent *a, htc_joined_phase phase)
{
    if (a->state < AGENT_READY) {
        if (a->waits || phase == HTC_JOINED_WAITS)
            a->since = a->heard = gw->now;
        htc__gw_agent_counts(gw, a, -1);
        a->waits = phase == HTC_JOINED_WAITS;
        htc__gw_agent_counts(gw, a, 1);
        const site *s = &gw->sites[a->site];
        if (a->waits && (a->draining || a->stop || gw->shutdown || s->closed || s->leaving)) {
            htc__gw_agent_cancel(gw, a, "it is to begin nothing more");
            return;
        }
    }
    if (phase != HTC_JOINED_EXPIRES || a->expires || a->stop || a->state >= AGENT_LEAVING)
        return;
    a->expires = 1;
    if (!a->draining)
        htc__gw_agent_drain(gw, a, 1);
}

static void take_phases(htc_gateway *gw, const site *s, const htc_joined_hello *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        agent *a = htc__gw_agent(gw, m->agents[i]);
        if (a && &gw->sites[a->site] == s)
            take_phase(gw, a, (htc_joined_phase)m->phases[i]);
    }
}

static void drain_all(htc_gateway *gw, const site *s)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    if (&gw->sites[a->site] == s && !a->draining && !a->stop && a->state < AGENT_LEAVING)
        htc__gw_agent_drain(gw, a, 1);
}

static void come(htc_gateway *gw, site *s, uint32_t peer, const htc_joined_hello *m)
{
    uint32_t before = s->host;
    s->host = peer;
    s->launches = 0;
    for (agent *a = gw->agents; a; a = a->hh.next)
        if (&gw->sites[a->site] == s)
            a->launch_no = 0;
    s->not_before = 0;
    s->failures = 0;
    s->reason[0] = '\0';
    if (before)
        htc_runtime_close(gw->runtime, before, HTC_ECLOSED);
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__TEXT("site", s->name), HTC__TEXT("node", m->node), HTC__NUMBER("slots", m->slots)),
                  "host %s joins with %u slot%s -> it is site %s", m->node, m->slots, htc__plural(m->slots), s->name);
}

/* What the host counts now; what it names no more it has no more. Devices are of one node: a batch system's are that system's to give. */
static void count(htc_gateway *gw, site *s, const htc_joined_hello *m)
{
    for (uint32_t i = 0; i < s->counted.n; i++)
        if (!s->counted.at[i].fixed)
            (void)htc__counted_set(&s->counted, s->counted.at[i].name, 0);
    for (uint32_t i = 0; i < m->n_resources; i++) {
        const char *name = m->resources[i].name;
        int         fixed = 0;
        for (uint32_t k = 0; k < s->counted.n; k++)
            fixed |= s->counted.at[k].fixed && strcmp(s->counted.at[k].name, name) == 0;
        if (!fixed && !(m->agent_slots && strcmp(name, HTC_RESOURCE_GPU) == 0))
            (void)htc__counted_set(&s->counted, name, m->resources[i].count); /* more names than can be counted are as good as none */
    }
    gw->site_nodes[s - gw->sites].unknown = 0;
}

static void measure(htc_gateway *gw, site *s, const htc_joined_hello *m)
{
    count(gw, s, m);
    uint64_t has = s->memory_set ? s->memory_set : m->memory;
    uint32_t most = gw->options.slots_max;
    s->agent_slots = m->agent_slots;
    gw->site_nodes[s - gw->sites].many = m->agent_slots != 0;
    if (m->agent_slots && m->agent_slots < most)
        most = m->agent_slots;
    gw->site_nodes[s - gw->sites].slots = s->cap < most ? s->cap : most;
    snprintf(s->node, sizeof s->node, "%s", m->node);
    snprintf(s->data, sizeof s->data, "%s", m->data);
    resize(gw, s, m->slots);
    s->memory.total = has > s->memory.reserved ? has : s->memory.reserved;
    if (!s->task_memory_set)
        s->task_memory = s->memory.total / s->cores;
}

static void hello(htc_gateway *gw, conn *c, const htc_joined_hello *m)
{
    site *s = site_of(gw, c);
    char  text[256];
    if (!s) {
        snprintf(text, sizeof text, "no site of this system is %s: htc.ini needs [site.%s] with adapter = join, and the system a new start", c->key.name, c->key.name);
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("key", c->key.name), HTC__TEXT("node", m->node)),
                      "host %s joins with the key of %s -> sent away: no site has that name", m->node, c->key.name);
        welcome(gw, c->peer, HTC_ENOTFOUND, text, 0, NULL);
        htc_runtime_close(gw->runtime, c->peer, HTC_ENOTFOUND);
        return;
    }
    if (s->host != c->peer) {
        come(gw, s, c->peer, m);
        if (!m->agent_slots) /* it may be another machine than before; a batch system has nodes beside this one */
            s->kinds.n = 0;
        htc__machine_add(&s->kinds, &c->machine);
    }
    s->heard = gw->now;
    measure(gw, s, m);
    compare(gw, s, m);
    take_phases(gw, s, m);
    if (m->leaving && !s->leaving) {
        s->leaving = 1;
        s->not_before = HTC_NEVER;
        snprintf(s->reason, sizeof s->reason, "its host leaves");
        drain_all(gw, s);
    }
    greet_all(gw, s, m->keys);
    htc__gw_reallocate_soon(gw);
}

/* It is the reason of its site where that is the agent's early end, of which nothing else is known yet. */
static void explained(const htc_gateway *gw, site *s, uint64_t id, htc_bytes how)
{
    char why[160];
    snprintf(why, sizeof why, "%.*s", how.len < sizeof why ? (int)how.len : (int)sizeof why - 1, how.len ? (const char *)how.data : "");
    htc__text_clean(why);
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("agent", id), HTC__TEXT("site", s->name), HTC__TEXT("why", why)), "agent %llu of site %s has ended: %s",
                  (unsigned long long)id, s->name, why);
    if (s->failures && s->reason_of == id && strncmp(s->reason, GW_ENDED_EARLY, strlen(GW_ENDED_EARLY)) == 0)
        snprintf(s->reason, sizeof s->reason, GW_ENDED_EARLY ": %s", why);
}

static void launched(htc_gateway *gw, const conn *c, htc_reader *r)
{
    site       *s = site_of(gw, c);
    uint64_t    id = 0;
    htc_status  status = HTC_OK;
    htc_bytes   body = { 0 };
    if (htc_joined_launched_read(r, &id, &status, &body) != HTC_OK || !s)
        return;
    agent *a = htc__gw_agent(gw, id);
    if (!a && status == HTC_EREFUSED)
        explained(gw, s, id, body);
    if (!a || &gw->sites[a->site] != s)
        return;
    if (a->state <= AGENT_STARTING && (!a->handle_len || status != HTC_OK))
        htc__gw_agent_launched(gw, a, status, body);
    else if (a->state > AGENT_STARTING && status == HTC_EREFUSED) { /* it has registered since, and its host says why it has ended */
        char how[160];
        snprintf(how, sizeof how, "%.*s", body.len < sizeof how ? (int)body.len : (int)sizeof how - 1, body.len ? (const char *)body.data : "");
        htc__gw_agent_ended(gw, a, how);
    }
}

void htc__gw_joined_message(htc_gateway *gw, conn *c, uint16_t type, htc_reader *r)
{
    htc_joined_hello *m;
    if (gw->phase != PHASE_READY)
        return; /* it says it again */
    if (type == HTC_WIRE_JOINED_LAUNCHED) {
        launched(gw, c, r);
        return;
    }
    if (type == HTC_WIRE_JOINED_ANSWER) {
        htc__gw_file_answer(gw, c, r);
        return;
    }
    if (type == HTC_WIRE_OBJECT_ASK) {
        htc__gw_content_piece(gw, c, r);
        return;
    }
    m = htc__alloc(&gw->env, sizeof *m);
    if (!m) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading a host's message");
        return;
    }
    if (type == HTC_WIRE_JOINED_HELLO && htc_joined_hello_read(r, m) == HTC_OK) {
        hello(gw, c, m);
    } else {
        htc_wire_error(&gw->scratch, 0, HTC_EPROTO, "this is not a message that a host sends");
        htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
        htc_runtime_close(gw->runtime, c->peer, HTC_EPROTO);
    }
    htc__free(&gw->env, m, sizeof *m);
}

void htc__gw_joined_closed(htc_gateway *gw, const conn *c)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].joins && gw->sites[i].host == c->peer)
            go_away(gw, &gw->sites[i], "is gone");
    htc__gw_files_closed(gw, c->peer);
    htc__gw_content_closed(gw, c->peer);
}

/* ---- it is spoken to ---- */

/* gw->scratch: JOINED_LAUNCH. */
void htc__gw_joined_launch(htc_gateway *gw, agent *a)
{
    site *s = &gw->sites[a->site];
    if (!s->host) {
        htc__gw_agent_launched(gw, a, HTC_EUNREACHABLE, htc_bytes_of("its host is not there"));
        return;
    }
    a->launch_no = ++s->launches;
    htc_runtime_send(gw->runtime, s->host, &gw->scratch);
}

void htc__gw_joined_kill(htc_gateway *gw, const agent *a)
{
    if (gw->sites[a->site].host)
        kill_there(gw, &gw->sites[a->site], a->id);
}

htc_ns htc__gw_joined_deadline(const htc_gateway *gw)
{
    htc_ns at = HTC_NEVER;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].host && gw->sites[i].heard + gw->options.lost_after_ns + 1 < at)
            at = gw->sites[i].heard + gw->options.lost_after_ns + 1;
    return at < gw->check_at ? gw->check_at : at;
}

void htc__gw_joined_check(htc_gateway *gw)
{
    for (size_t i = 0; i < gw->n_sites; i++) {
        site *s = &gw->sites[i];
        if (!s->joins)
            continue;
        uint32_t host = s->host;
        if (host && gw->now > s->heard + gw->options.lost_after_ns) {
            go_away(gw, s, "has been silent for too long");
            htc_runtime_close(gw->runtime, host, HTC_ETIMEDOUT);
        }
        if (!s->host)
            resize(gw, s, 0);
    }
}

int htc__gw_joined_awaited(const htc_gateway *gw)
{
    int never = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        never |= gw->sites[i].joins && !gw->sites[i].heard;
    return never && gw->now - gw->served_at <= gw->options.lost_after_ns;
}

/* ---- create and destroy ---- */

htc_status htc__gw_joined_init(htc_gateway *gw, site *s, const htc_site_options *from)
{
    size_t n = 0;
    while (from->users && from->users[n])
        n++;
    s->joins = 1;
    s->memory_set = from->memory;
    s->task_memory_set = from->task_memory;
    s->cores = 0;
    htc__gw_joined_away(s);
    s->users = htc__alloc(&gw->env, n * sizeof *s->users);
    if (n && !s->users)
        return HTC_ENOMEM;
    for (s->cap_users = n; s->n_users < n; s->n_users++)
    {
        char   name[NAME_MAX_BYTES]; /* what stands behind a colon is the store's affair */
        size_t len = strcspn(from->users[s->n_users], ":");
        if (len >= sizeof name)
            return HTC_EINVAL;
        memcpy(name, from->users[s->n_users], len);
        name[len] = '\0';
        if (!(s->users[s->n_users] = htc__strdup(&gw->env, name)))
            return HTC_ENOMEM;
    }
    return HTC_OK;
}

void htc__gw_joined_free(htc_gateway *gw, site *s)
{
    for (size_t i = 0; i < s->n_users; i++)
        htc__strfree(&gw->env, s->users[i]);
    htc__free(&gw->env, s->users, s->cap_users * sizeof *s->users);
}
