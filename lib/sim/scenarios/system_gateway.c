/* The gateway's node and its host: it launches, ends and watches agents, hashes passwords, draws random bytes. */
#include <string.h>

#include "roles/runtime/apart.h"
#include "sim/scenarios/system_private.h"

static void launch(sys *s, htc_sim_node *node, const htc_effect *effect)
{
    htc_reader r = htc_reader_of(effect->body);
    char       site_name[64], user_name[64];
    uint32_t   site_index = 0;
    htc_get_str(&r, site_name, sizeof site_name);
    uint64_t id = htc_get_u64(&r);
    uint32_t slot_number = htc_get_u32(&r);
    htc_get_str(&r, user_name, sizeof user_name);
    uint8_t place_kind = htc_get_u8(&r);
    (void)htc_get_u32(&r); /* uid and gid: of HTC_PLACE_UID alone */
    (void)htc_get_u32(&r);
    uint32_t slots = s->options.gateway.slots_max > 1 ? htc_get_u32(&r) : 1;
    if (place_kind != HTC_PLACE_CONFINED && place_kind != HTC_PLACE_OWNER)
        htc__sys_fail(s, "the gateway launches an agent of %s as %u", user_name, (unsigned)place_kind);
    while (site_index < s->options.n_sites && strcmp(s->options.sites[site_index].name, site_name) != 0)
        site_index++;
    if (htc_reader_done(&r) != HTC_OK || site_index == s->options.n_sites ||
        slot_number >= s->options.sites[site_index].cores || slots == 0 || (slots > 1 && slots > s->options.gateway.slots_max)) {
        htc__sys_fail(s, "the gateway launches an agent at %s, slot %u, with %u slots", site_name, (unsigned)slot_number, (unsigned)slots);
        return;
    }
    if (htc_rng_below(&s->rng_launch, 1000000) < s->options.launch_fail_ppm) {
        htc_sim_result(node, HTC_MS, effect, HTC_EBUSY, htc_bytes_of("no process could be started"));
        return;
    }
    sys_agent *a = htc__sys_agent_launch(s, node, id, site_index, slot_number, slots, user_name);
    htc_buf    b;
    if (!a)
        return;
    htc_buf_init(&b, NULL, 0);
    htc__sys_agent_put_handle(&b, a);
    htc_put_str(&b, "an agent of the world");
    htc_sim_result(node, HTC_MS, effect, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void kill_agent(sys *s, htc_reader *r)
{
    uint64_t   id = htc_get_u64(r);
    sys_agent *a = htc__sys_agent_find(s, id);
    if (!a || !a->alive || !htc__sys_agent_is(a, htc_get_bytes(r)))
        return;
    if (htc_sim_up(a->node)) {
        htc_sim_crash(a->node);
    } else { /* its process has only just begun */
        a->alive = 0;
        s->agents_alive--;
        htc__sys_agent_tell_exit(a);
    }
}

/* A gateway that has lost the answer to LAUNCH knows who speaks for the agent, and not its handle. */
static void watch_agent(sys *s, htc_sim_node *node, const htc_effect *effect)
{
    htc_reader r = htc_reader_of(effect->body);
    sys_agent *a = htc__sys_agent_find(s, htc_get_u64(&r));
    htc_bytes  handle = htc_get_bytes(&r);
    uint32_t   pid = htc_get_u32(&r);
    htc_buf    b;
    if (!a || !a->alive || !(handle.len ? htc__sys_agent_is(a, handle) : pid == a->pid)) {
        htc_sim_result(node, HTC_MS, effect, HTC_ENOTFOUND, htc_bytes_of(""));
        return;
    }
    a->watched = 1;
    a->watcher = htc_sim_incarnation(node);
    a->watched_by = node;
    htc_buf_init(&b, NULL, 0);
    htc__sys_agent_put_handle(&b, a);
    htc_put_str(&b, "an agent of the world");
    htc_sim_result(node, HTC_MS, effect, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void answer_with(htc_sim_node *node, const htc_effect *effect, htc_status status, htc_buf *b)
{
    htc_sim_result(node, HTC_MS, effect, status, htc_buf_bytes(b));
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    sys        *s = ctx;
    htc_reader  r = htc_reader_of(effect->body);
    htc_attempt attempt = { 0 };
    htc_buf     b;
    htc_buf_init(&b, NULL, 0);
    switch (effect->op) {
    case HTC_CALL_LAUNCH:
        launch(s, node, effect);
        break;
    case HTC_CALL_KILL_AGENT:
        kill_agent(s, &r);
        break;
    case HTC_CALL_WATCH_AGENT:
        watch_agent(s, node, effect);
        break;
    case HTC_CALL_HASH_PASSWORD:
        htc_put_str(&b, "verifier");
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_RANDOM:
        for (uint32_t n = htc_get_u32(&r); n > 0 && n <= 64; n--)
            htc_put_u8(&b, (uint8_t)htc_rng_next(&s->rng_random));
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_DROP_JOB:
        htc__sys_place_dropped(s, htc_get_u64(&r));
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_JOB_PLACE:
        htc__sys_place_made(s, htc_get_u64(&r));
        break;
    case HTC_CALL_DROP_OUTPUT:
        attempt.job = htc_get_u64(&r);
        attempt.task = htc_get_u64(&r);
        attempt.attempt = htc_get_u32(&r);
        htc__sys_output_dropped(s, &attempt);
        break;
    case HTC_CALL_CONTENT_SWEEP:
        htc_put_u64(&b, 0);
        htc_put_u64(&b, 0);
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_CONTENT_SUM:
    case HTC_CALL_CONTENT_ADOPT:
        htc_put_u64(&b, 0);
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_CONTENT_TOUCH:
    case HTC_CALL_VERIFY_PASSWORD:
    case HTC_CALL_BLOB_WRITE:
        answer_with(node, effect, HTC_OK, &b);
        break;
    case HTC_CALL_BLOB_STAT:
    case HTC_CALL_BLOB_READ:
    case HTC_CALL_FILE_READ:
    case HTC_CALL_LIVE_READ:
        answer_with(node, effect, HTC_ENOTFOUND, &b);
        break;
    default:
        htc__sys_fail(s, "the gateway asks for %s", htc_call_name(effect->op));
    }
    htc_buf_free(&b);
    return HTC_OK;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    sys                *s = ctx;
    htc_gateway_options o = s->options.gateway;
    htc_gateway        *machine;
    o.size = sizeof o;
    o.store_peer = SYS_PEER_STORE;
    o.store_client_id = s->instances[node == s->standby] = htc_rng_next(&s->rng_random);
    o.owner_uid = SYS_UID;
    o.owner_name = "operator";
    o.name = o.address = htc_sim_name(node);
    o.apart = HTC_APART_CONFINED;
    o.sites = s->options.sites;
    o.n_sites = s->options.n_sites;
    htc_status status = htc_gateway_create(htc_sim_env(node), &o, &machine);
    if (status != HTC_OK) {
        htc__sys_refused(s, status, "the gateway cannot be made");
        return status;
    }
    status = htc_sim_install(node, htc_gateway_ops(), machine);
    return status != HTC_OK ? status : htc_sim_dial(node, SYS_PEER_STORE, htc__sys_door(s, node), NULL);
}

static void boot_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc_sim_boot(ctx);
}

/* Another one is active, or the store could not be asked for so long. Nothing that an earlier gateway does ends the one that serves; and what a gateway
 * reads of a later one is no damage. */
static void start_again(sys *s, htc_sim_node *node, htc_status status)
{
    htc__sys_note(s, "%s has ended: %s", htc_sim_name(node), htc_status_name(status));
    if (status == HTC_ENOMEM)
        htc__sys_no_memory(s);
    else if (status != HTC_ELOCKED && status != HTC_ETIMEDOUT && status != HTC_EBUSY && status != HTC_ENOSPC && status != HTC_EUNKNOWN && status != HTC_ESTORE)
        htc__sys_fail(s, "%s has ended: %s", htc_sim_name(node), htc_status_name(status));
    if (status == HTC_ELOCKED && htc__sys_serves(s, s->instances[node == s->standby]))
        htc__sys_fail(s, "%s has ended for another one's sake, and is the active one", htc_sim_name(node));
    htc__sys_after(s, 100 * HTC_MS, boot_again, node);
}

static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    sys *s = ctx;
    if (!crashed && !s->standby)
        htc__sys_fail(s, "the gateway has ended: %s", htc_status_name(status));
    else if (!crashed)
        start_again(s, node, status);
    s->crashes++;
    s->disturbed_at = htc_sim_now(s->w);
    s->idle_since = HTC_NEVER;
}

static void checked(void *ctx, htc_sim_node *node)
{
    htc__sys_check(ctx, node);
}

htc_sim_node *htc__sys_some_gateway(const sys *s, htc_rng *rng)
{
    return s->standby && htc_rng_below(rng, 2) ? s->standby : s->gateway;
}

int htc__sys_is_gateway(const sys *s, const htc_sim_node *node)
{
    return node == s->gateway || node == s->standby;
}

htc_sim_node *htc__sys_gateway_add(sys *s, const char *name)
{
    static const htc_sim_host host = {
        .size = sizeof host, .boot = boot, .call = call, .ended = ended, .checked = checked
    };
    return htc__sys_node(s, name, &host, s, 0);
}
