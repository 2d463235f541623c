/* Hosts that join, in the test's hand, beside those of gateway_hand.h: the connections of hosts and of their agents, with keys of a site's name. */
#ifndef HTC_TESTS_GATEWAY_FAR_H
#define HTC_TESTS_GATEWAY_FAR_H

#include "gateway_hand.h"

#include "htcsched/keyring.h"
#include "roles/runtime/joined_wire.h"

static uint32_t open_key_speaking(const char *name, uint32_t key_role, uint8_t role, uint16_t version)
{
    htc_buf           b;
    uint32_t          peer = ++r.last_peer;
    htc_peer_identity key = { .role = key_role };
    snprintf(key.name, sizeof key.name, "%s", name);
    snprintf((char *)key.key, sizeof key.key, "%s", name); /* each name has one of its own */
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SECURE, .uid = UINT32_MAX });
    htc_peer_identity_write(&b, &key);
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_wire_hello_machine(&b, role, version, &r.machine);
    rig_say(&r, peer, &b);
    htc_buf_free(&b);
    return peer;
}

static uint32_t open_key(const char *name, uint32_t key_role, uint8_t role)
{
    return open_key_speaking(name, key_role, role, HTC_WIRE_VERSION);
}

typedef struct far_host {
    uint32_t         peer;
    htc_joined_hello m;
} far_host;

static void say_hello(far_host *h)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_joined_hello_write(&b, &h->m);
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    rig_pass(&r, 100 * HTC_MS);
}

static far_host *join(const char *name, uint32_t slots)
{
    static far_host hosts[16];
    static int      n;
    far_host       *h = &hosts[n++ % 16];
    *h = (far_host){ .peer = open_key(name, HTC_KEY_HOST, HTC_WIRE_ROLE_JOINED), .m = { .slots = slots, .cores = slots, .memory = UINT64_C(4) << 30 } };
    snprintf(h->m.node, sizeof h->m.node, "node-%s", name);
    snprintf(h->m.data, sizeof h->m.data, "/srv/%s/data", name);
    say_hello(h);
    return h;
}

static htc_joined_welcome answer_to(const far_host *h)
{
    htc_joined_welcome w = { .status = HTC_EINTERNAL };
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_JOINED_WELCOME);
    htc_reader         in = htc_reader_of((htc_bytes){ m ? m->bytes : NULL, m ? m->len : 0 });
    cr_assert(m && htc_joined_welcome_read(&in, &w) == HTC_OK, "no welcome");
    return w;
}

/* The agent of the newest JOINED_LAUNCH, its slots and its user; 0: none was said. */
static uint64_t asked(const far_host *h, uint32_t *slots, char user[64])
{
    char               site[64];
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_JOINED_LAUNCH);
    if (!m)
        return 0;
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    htc_get_str(&in, site, sizeof site);
    uint64_t agent = htc_get_u64(&in);
    (void)htc_get_u32(&in);
    htc_get_str(&in, user, 64);
    (void)htc_get_u8(&in), (void)htc_get_u32(&in), (void)htc_get_u32(&in);
    *slots = htc_reader_left(&in) ? htc_get_u32(&in) : 1;
    cr_assert(eq(int, htc_reader_done(&in), HTC_OK));
    return agent;
}

/* The host has launched it. */
static void launched(far_host *h, uint64_t agent)
{
    htc_buf body, b;
    htc_buf_init(&body, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    htc_put_str(&body, "h");
    htc_put_str(&body, "process 7");
    htc_joined_launched_write(&b, agent, HTC_OK, htc_buf_bytes(&body));
    rig_say(&r, h->peer, &b);
    htc_buf_free(&b);
    htc_buf_free(&body);
    h->m.launches++;
    h->m.agents[h->m.count++] = agent;
    rig_pass(&r, 100 * HTC_MS);
}

static hand register_speaking(uint64_t agent, const char *key, uint32_t slots, uint16_t version)
{
    hand            h = { .id = agent, .peer = open_key_speaking(key, HTC_KEY_HOST, HTC_WIRE_ROLE_AGENT, version) };
    htc_agent_hello m = { .agent = agent, .slots = slots, .cores = 4, .node = "node-far" };
    htc_buf         b;
    htc_buf_init(&b, NULL, 0);
    htc_agent_hello_write(&b, &m);
    rig_say(&r, h.peer, &b);
    htc_buf_free(&b);
    return h;
}

static hand register_on(uint64_t agent, const char *key, uint32_t slots)
{
    return register_speaking(agent, key, slots, HTC_WIRE_VERSION);
}

static void books(void)
{
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_expect(eq(str, b.wrong, ""));
}

#endif
