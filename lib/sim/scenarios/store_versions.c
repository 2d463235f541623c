/* Programs of two versions beside each other: some members and clients speak the previous number of the protocol (core/wire.h), and some
 * members are killed and come back as the other version, as in an upgrade one by one, or on the way back from it. */
#include "core/wire.h"
#include "kvs/client/client.h"
#include "kvs/server/server.h"
#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

enum { NEWEST, PREVIOUS }; /* htc_sim_version of a node */

static uint16_t spoken_by(const htc_sim_node *node)
{
    return htc_sim_version(node) == PREVIOUS ? HTC_WIRE_VERSION - 1 : HTC_WIRE_VERSION;
}

void htc__store_speak(const store_member *m, htc_kv_server *server)
{
    htc__kv_server_speak(server, spoken_by(m->node));
}

void htc__store_client_speaks(const store_client *c)
{
    htc__kv_client_speak(c->kv, spoken_by(c->node));
}

void htc__store_versions_draw(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting/versions");
    int            is = htc_rng_below(&rng, 4) == 0;
    uint64_t       members = htc_rng_below(&rng, UINT64_C(1) << g->members), clients = htc_rng_below(&rng, UINT64_C(1) << g->clients);
    int            turns = htc_rng_below(&rng, 2) == 0;
    htc_ns         gap = (20 + htc_rng_below(&rng, 580)) * HTC_MS;
    if (!is)
        return;
    g->older_members = (uint32_t)members;
    g->older_clients = (uint32_t)clients;
    g->turn_gap = turns ? gap : 0;
}

uint32_t htc__store_version_at_first(uint32_t older, uint32_t i)
{
    return older >> i & 1 ? PREVIOUS : NEWEST;
}

/* A member at once, a client the next time that it starts. */
static void turn(htc_sim *sim, void *ctx)
{
    store    *s = *(store **)ctx;
    uint32_t  at = (uint32_t)htc_rng_below(&s->turning, s->setting.nodes + s->setting.clients);
    int       member = at < s->setting.nodes;
    if (s->phase != STORE_TROUBLE)
        return;
    htc_sim_node *node = member ? s->members[at].node : s->clients[at - s->setting.nodes].node;
    htc_sim_set_version(node, htc_sim_version(node) == PREVIOUS ? NEWEST : PREVIOUS);
    s->faults[HTC_SIM_STORE_TURNED]++;
    htc__sim_notef(sim, "%s is to speak version %u", htc_sim_name(node), spoken_by(node));
    if (member && htc_sim_up(node))
        htc__store_member_restart(&s->members[at]);
    htc_sim_at(sim, htc_sim_now(sim) + 1 + htc_rng_below(&s->turning, 2 * s->setting.turn_gap), turn, &s, sizeof s);
}

void htc__store_versions_turn(store *s)
{
    s->turning = htc_sim_rng(s->sim, "versions");
    s->faults[HTC_SIM_STORE_OLDER] += (uint64_t)__builtin_popcount(s->setting.older_members) +
                                      (uint64_t)__builtin_popcount(s->setting.older_clients);
    if (s->setting.turn_gap)
        htc_sim_at(s->sim, htc_sim_now(s->sim) + 1 + htc_rng_below(&s->turning, 2 * s->setting.turn_gap), turn, &s, sizeof s);
}
