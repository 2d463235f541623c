/* Fields that have no default: a zero of any of them is refused when the thing is made, not taken and found out later. */
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "htcsched/htcsched.h"

/* Make it with the field of that number left out; 0: with all of them. */
typedef htc_status make_fn(int missing);

static htc_rng     rng = { 1 };
static htc_env     env;
static char       *environ_of[] = { NULL };
static const char *dir = "/proc/nowhere"; /* cannot be made */

#define LEFT_OUT(number, value) (missing == (number) ? 0 : (value))

static htc_status make_agent(int missing)
{
    htc_agent        *agent = NULL;
    htc_agent_options o = { .size = sizeof o, .agent = LEFT_OUT(1, 7), .peer = LEFT_OUT(2, 1), .node = "n1" };
    htc_status        status = htc_agent_create(&env, &o, &agent);
    if (status == HTC_OK)
        htc_agent_ops()->destroy(agent);
    return status;
}

static htc_status make_gateway(int missing)
{
    htc_gateway        *gateway = NULL;
    htc_site_options    site = { .size = LEFT_OUT(7, sizeof site), .name = LEFT_OUT(5, "here"), .cores = LEFT_OUT(6, 2) };
    htc_gateway_options o = { .size = sizeof o, .store_peer = LEFT_OUT(1, 1), .store_client_id = LEFT_OUT(2, 9), .owner_name = LEFT_OUT(3, "olga"),
                              .sites = &site, .n_sites = LEFT_OUT(4, 1) };
    htc_status          status = htc_gateway_create(&env, &o, &gateway);
    if (status == HTC_OK)
        htc_gateway_ops()->destroy(gateway);
    return status;
}

static htc_status make_client(int missing)
{
    htc_kv_client        *client = NULL;
    htc_kv_client_options o = { .size = sizeof o, .client_id = LEFT_OUT(1, 7), .peer = LEFT_OUT(2, 1) };
    htc_status            status = htc_kv_client_create(&env, &o, &client);
    htc_kv_client_destroy(client);
    return status;
}

static htc_status make_server(int missing)
{
    htc_kv_server        *server = NULL;
    htc_kv_engine         engine = { 0 };
    htc_kv_member         members[3] = { { .id = LEFT_OUT(1, 11) }, { .id = LEFT_OUT(2, 12), .peer = LEFT_OUT(3, 2) }, { .id = 13, .peer = 3 } };
    htc_kv_server_options o = { .size = sizeof o, .self = 11, .members = missing == 4 ? NULL : members, .member_count = LEFT_OUT(5, 3) };
    if (htc_kv_memory_create(&env, &engine) != HTC_OK)
        return HTC_ENOMEM;
    o.engine = engine;
    htc_status status = htc_kv_server_create(&env, &o, &server);
    htc_kv_server_destroy(server);
    engine.ops->destroy(engine.ctx);
    return status;
}

static htc_status make_gate(int missing)
{
    htc_gate        *gate = NULL;
    htc_gate_options o = { .size = sizeof o };
    memset(o.secret, LEFT_OUT(1, 5), sizeof o.secret);
    htc_status status = htc_gate_create(&env, &o, &gate);
    htc_gate_destroy(gate);
    return status;
}

static htc_status make_channel(int missing)
{
    htc_channel        *channel = NULL;
    htc_keyring        *ring = NULL;
    htc_identity       *identity = NULL;
    uint8_t             secret[HTC_KEY_BYTES];
    memset(secret, 7, sizeof secret);
    if (htc_keyring_create(&env, 4, &ring) != HTC_OK || htc_identity_create(&env, secret, 1, &identity) != HTC_OK)
        return HTC_ENOMEM;
    htc_channel_options o = { .size = sizeof o, .side = LEFT_OUT(1, HTC_CHANNEL_CALLER), .role = LEFT_OUT(2, HTC_KEY_USER),
                              .identity = missing == 3 ? NULL : identity, .ring = missing == 4 ? NULL : ring };
    memset(o.random, LEFT_OUT(5, 3), sizeof o.random);
    htc_status status = htc_channel_create(&env, &o, 0, &channel);
    htc_channel_destroy(channel);
    htc_keyring_destroy(ring);
    htc_identity_destroy(identity);
    return status;
}

static htc_status make_logfile(int missing)
{
    htc_logfile        *file = NULL;
    htc_logfile_options o = { .size = sizeof o, .fd = LEFT_OUT(1, STDERR_FILENO) };
    htc_status          status = htc_logfile_open(&o, &file, NULL);
    htc_logfile_close(file);
    return status;
}

/* What opens something is only asked whether it refuses. */
static htc_status open_agent_host(int missing)
{
    htc_host               *host = NULL;
    htc_agent_host         *made = NULL;
    htc_agent_host_options  o = { .size = sizeof o, .slot_dir = LEFT_OUT(1, dir), .data_dir = LEFT_OUT(2, dir), .agent = LEFT_OUT(3, 7) };
    cr_assert(htc_host_create(&env, NULL, &host) == HTC_OK);
    htc_status status = htc_agent_host_create(&env, host, &o, &made, NULL);
    htc_host_destroy(host);
    return status;
}

static htc_status open_gateway_host(int missing)
{
    htc_host                 *host = NULL;
    htc_gateway_host         *made = NULL;
    htc_gateway_host_options  o = { .size = sizeof o, .state_dir = LEFT_OUT(1, dir), .agent_path = LEFT_OUT(2, "/bin/true"),
                                    .environ = missing == 3 ? NULL : (const char *const *)environ_of };
    cr_assert(htc_host_create(&env, NULL, &host) == HTC_OK);
    htc_status status = htc_gateway_host_create(&env, host, &o, &made, NULL);
    htc_host_destroy(host);
    return status;
}

static htc_status open_keys(int missing)
{
    htc_host              *host = NULL;
    htc_host_keys         *keys = NULL;
    htc_host_keys_options  o = { .size = sizeof o, .key_path = LEFT_OUT(1, dir), .ring_path = LEFT_OUT(2, dir) };
    cr_assert(htc_host_create(&env, NULL, &host) == HTC_OK);
    htc_status status = htc_host_keys_open(host, &o, &keys, NULL);
    htc_host_destroy(host);
    return status;
}

static htc_status open_lmdb(int missing)
{
    htc_kv_engine       engine;
    htc_kv_lmdb_options o = { .size = sizeof o, .dir = LEFT_OUT(1, "/proc/nowhere") };
    return htc_kv_lmdb_open(&env, &o, &engine, NULL);
}

static htc_status open_kv_store(int missing)
{
    htc_kv_store         *store = NULL;
    htc_kv_store_options  o = { .size = sizeof o, .dir = LEFT_OUT(1, "/proc/nowhere") };
    return htc_kv_store_open(&env, &o, &store, NULL);
}

static htc_status open_store(int missing)
{
    htc_store         *store = NULL;
    htc_store_options  o = { .size = sizeof o, .address = LEFT_OUT(1, "unix:/proc/nowhere/kvd.sock"), .timeout_ns = HTC_MS };
    return htc_store_open(&env, &o, &store, NULL);
}

static htc_status open_client(int missing)
{
    htc_client         *client = NULL;
    htc_client_options  o = { .size = sizeof o, .tcp_port = LEFT_OUT(1, 1), .token_path = LEFT_OUT(2, dir) };
    return htc_client_open(&env, &o, &client, NULL);
}

static htc_status listen_on(int missing)
{
    htc_host *host = NULL;
    cr_assert(htc_host_create(&env, NULL, &host) == HTC_OK);
    htc_status status = htc_host_listen_unix(host, LEFT_OUT(1, "/proc/nowhere/x.sock"), 0600, 1, NULL);
    if (missing == 2 || missing == 3)
        status = htc_host_listen_tcp(host, LEFT_OUT(2, "127.0.0.1"), 0, LEFT_OUT(3, dir), 1, NULL, NULL);
    if (missing == 4)
        status = htc_host_listen_stream(host, &(htc_host_stream_options){ .size = sizeof(htc_host_stream_options) }, NULL, NULL);
    if (missing == 5)
        status = htc_host_dial_unix(host, NULL, 1, &(uint32_t){ 0 }, NULL);
    htc_host_destroy(host);
    return status;
}

static const struct {
    const char *what;
    make_fn    *make;
    int         fields, opens;
} table[] = {
    { "an agent: agent, peer", make_agent, 2, 0 },
    { "a gateway: store_peer, store_client_id, owner_name, n_sites, a site's name, its cores", make_gateway, 7, 0 },
    { "a client: client_id, peer", make_client, 2, 0 },
    { "a server: its own id, a member's id, its peer, members, member_count", make_server, 5, 0 },
    { "a gate: secret", make_gate, 1, 0 },
    { "a channel: side, role, identity, ring, random", make_channel, 5, 0 },
    { "a log file: fd without a path", make_logfile, 1, 0 },
    { "an agent's host: slot_dir, data_dir, agent", open_agent_host, 3, 1 },
    { "a gateway's host: state_dir, agent_path, environ", open_gateway_host, 3, 1 },
    { "keys: key_path, ring_path", open_keys, 2, 1 },
    { "LMDB: dir", open_lmdb, 1, 1 },
    { "a member's store: dir", open_kv_store, 1, 1 },
    { "a store: address", open_store, 1, 1 },
    { "a client of a role: tcp_port or path, token_path", open_client, 2, 1 },
    { "a host's places: path, address, token_path, a stream's address, whom to dial", listen_on, 5, 1 },
};

Test(required, a_field_without_a_default_has_to_be_set)
{
    env = (htc_env){ .size = sizeof env, .rng = &rng };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_status whole = table[i].make(0);
        cr_expect(table[i].opens ? whole != HTC_EINVAL : whole == HTC_OK, "%s: all of them: %s", table[i].what, htc_status_name(whole));
        for (int field = 1; field <= table[i].fields; field++) {
            htc_status status = table[i].make(field);
            cr_expect(status == HTC_EINVAL, "%s: number %d is left out: %s", table[i].what, field, htc_status_name(status));
        }
    }
}

/* An array of a caller that is newer: the stride is what its first element says, and what this library does not know has to be zero. */
Test(required, sites_of_a_newer_caller_are_read)
{
    struct {
        htc_site_options known;
        uint64_t         unknown;
    } sites[2] = { { { .size = sizeof *sites, .name = "here", .cores = 2 }, 0 }, { { .size = sizeof *sites, .name = "there", .cores = 2 }, 0 } };
    htc_gateway        *gateway = NULL;
    htc_gateway_options o = { .size = sizeof o, .store_peer = 1, .store_client_id = 9, .owner_name = "olga", .sites = &sites[0].known, .n_sites = 2 };
    cr_assert(htc_gateway_create(&env, &o, &gateway) == HTC_OK);
    htc_gateway_ops()->destroy(gateway);
    sites[1].unknown = 1;
    cr_expect(htc_gateway_create(&env, &o, &gateway) == HTC_EABI);
    sites[1].unknown = 0;
    sites[1].known.size = sizeof sites[1].known;
    cr_expect(htc_gateway_create(&env, &o, &gateway) == HTC_EINVAL, "of another size than the first");
}
