/* Whatever a host that has joined sends, and a second one of its name, over a real store, while tasks wait for its slots: nothing breaks the
 * gateway. Input: pieces of u8 who (0 the host, 1 the second one, 2 the operator, 3 time passes), u16 type, u16 length, payload. */
#include "gateway_pieces.h"

#include "htcsched/keyring.h"
#include "roles/runtime/joined_wire.h"

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 1, .memory = UINT64_C(8) << 30 },
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1 } };
    o->sites = all;
    o->n_sites = 2;
    o->slots_max = 64;
}

static uint32_t open_host(rig *r)
{
    htc_buf           b;
    uint32_t          peer = ++r->last_peer;
    htc_peer_identity key = { .role = HTC_KEY_HOST, .name = "far" };
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SECURE, .uid = UINT32_MAX });
    htc_peer_identity_write(&b, &key);
    rig_gateway(r, &(htc_input){ .size = sizeof(htc_input), .now = r->now, .wall = r->wall, .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_wire_hello(&b, HTC_WIRE_ROLE_JOINED, HTC_WIRE_VERSION);
    rig_say(r, peer, &b);
    htc_buf_free(&b);
    return peer;
}

/* It is in, with four slots. */
static void hello(rig *r, uint32_t peer)
{
    htc_buf          b;
    htc_joined_hello m = { .slots = 4, .cores = 4, .memory = UINT64_C(4) << 30, .node = "node", .data = "/srv/data" };
    htc_buf_init(&b, NULL, 0);
    htc_joined_hello_write(&b, &m);
    rig_say(r, peer, &b);
    htc_buf_free(&b);
    rig_pass(r, 100 * HTC_MS);
}

static void submit(rig *r, uint32_t peer)
{
    json_t *o = json_pack("{s:s,s:s}", "op", "submit", "jsdl",
                          "<JobDefinition xmlns='http://schemas.ggf.org/jsdl/2005/11/jsdl'><JobDescription><Application>"
                          "<POSIXApplication xmlns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'><Executable>true</Executable></POSIXApplication>"
                          "</Application></JobDescription></JobDefinition>");
    char   *text = json_dumps(o, 0);
    for (int i = 0; i < 4; i++)
        json_decref(rig_ask(r, peer, text));
    free(text);
    json_decref(o);
    rig_pass(r, 100 * HTC_MS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rig r;
    rig_begin(&r);
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
    uint32_t peers[3] = { open_host(&r), open_host(&r), rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER) };
    hello(&r, peers[0]);
    submit(&r, peers[2]);
    send_pieces(&r, peers, data, size);
    rig_end(&r);
    return 0;
}
