/* Requests for nodes: Algorithms 5 and 8, which differ in where they look and in whether they wait between two tries.
 */
#include "htcsched/balance.h"

#include <string.h>

#include "core/util.h"
#include "sched/balance/balance_private.h"

#define NEED_MAX (UINT64_C(1) << 40)

struct htc_balance {
    const htc_env      *env;
    htc_balance_options options; /* complete; near is the caller's and not looked at */
    htc_balance_policy  policy;  /* the known part */
    void               *state;
    htc_ns              pull_due;
    uint32_t            asking; /* 1: its policy is being asked; nothing changes meanwhile */
};

/* What the last action was, and what comes when it is over:
 *
 *     state      action    next
 *     FRESH      -         OWN, or SEEK if there is no own partition
 *     OWN        take      SEEK, DONE
 *     SEEK       -         STEAL; PAUSE if nobody is known to have nodes, which counts as a fruitless try
 *     STEAL      take      SEEK, DONE; after a fruitless try PAUSE (policy->waits) or SEEK; after too many
 *                          RELEASE, or REST if nothing is held
 *     RELEASE    release   REST
 *     PAUSE      wait      SEEK
 *     REST       wait      FRESH
 *     DONE       done      DONE
 */
typedef enum state { FRESH, OWN, SEEK, STEAL, RELEASE, PAUSE, REST, DONE } state;

struct htc_balance_request {
    htc_balance         *balance;
    htc_balance_progress progress;
    uint32_t             state;
    uint32_t             pauses; /* since the last success */
    htc_balance_action   action; /* the last one */
};

/* ---- A controller's knowledge ---- */

void htc_balance_options_init(htc_balance_options *options, size_t size)
{
    htc__options_init(options, size);
}

static htc_status check_near(const htc_env *env, const htc_balance_options *o)
{
    htc_status status = HTC_OK;
    if (o->near_count == 0)
        return HTC_OK;
    if (!o->near || o->near_count > o->partitions)
        return HTC_EINVAL;
    uint8_t *seen = htc__alloc(env, o->partitions);
    if (!seen)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < o->near_count && status == HTC_OK; i++) {
        if (o->near[i] >= o->partitions || seen[o->near[i]])
            status = HTC_EINVAL;
        else
            seen[o->near[i]] = 1;
    }
    htc__free(env, seen, o->partitions);
    return status;
}

static htc_status complete(const htc_env *env, htc_balance_options *o, htc_balance_policy *policy)
{
    if (o->partitions == 0 || o->partitions > HTC_BALANCE_PARTITIONS_MAX ||
        (o->own != HTC_BALANCE_NONE && o->own >= o->partitions))
        return HTC_EINVAL;
    o->policy = o->policy ? o->policy : &htc__balance_monitored;
    htc_status status = htc__options_copy(policy, sizeof *policy, o->policy, o->policy->size, offsetof(htc_balance_policy, tape));
    if (status != HTC_OK)
        return status;
    if (!policy->pick || policy->tries == 0 || (policy->open && !policy->close))
        return HTC_EINVAL;
    o->tries = o->tries ? o->tries : policy->tries;
    o->wait_ns = o->wait_ns ? o->wait_ns : HTC_MS;
    if (o->wait_ns_max == 0)
        o->wait_ns_max = o->wait_ns > 100 * HTC_MS ? o->wait_ns : 100 * HTC_MS;
    o->pull_ns = o->pull_ns ? o->pull_ns : HTC__BALANCE_PAUSE_NS;
    return o->wait_ns_max < o->wait_ns ? HTC_EINVAL : check_near(env, o);
}

htc_status htc_balance_create(const htc_env *env, const htc_balance_options *options, htc_balance **out)
{
    htc_balance_options o = HTC_BALANCE_OPTIONS_INIT;
    htc_balance_policy  policy = { .size = 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_balance_options, near));
    if (status == HTC_OK)
        status = complete(env, &o, &policy);
    if (status != HTC_OK)
        return status;
    htc_balance *b = htc__alloc(env, sizeof *b);
    if (!b)
        return HTC_ENOMEM;
    *b = (htc_balance){ .env = env, .options = o, .policy = policy, .pull_due = policy.pull ? 0 : HTC_NEVER };
    b->state = policy.ctx;
    status = policy.open ? policy.open(policy.ctx, env, &o, &b->state) : HTC_OK;
    if (status == HTC_OK)
        *out = b;
    else
        htc__free(env, b, sizeof *b);
    return status;
}

void htc_balance_destroy(htc_balance *balance)
{
    if (!balance || balance->asking)
        return;
    if (balance->policy.close)
        balance->policy.close(balance->state);
    htc__free(balance->env, balance, sizeof *balance);
}

static void learn(htc_balance *b, uint32_t partition, uint32_t free)
{
    if (!b->policy.learn)
        return;
    b->asking = 1;
    b->policy.learn(b->state, partition, free);
    b->asking = 0;
}

static int free_ok(uint32_t free)
{
    return free <= HTC_BALANCE_FREE_MAX || free == HTC_BALANCE_UNKNOWN;
}

htc_status htc_balance_learn(htc_balance *balance, uint32_t partition, uint32_t free)
{
    if (!balance || balance->asking || partition >= balance->options.partitions || !free_ok(free))
        return HTC_EINVAL;
    learn(balance, partition, free);
    return HTC_OK;
}

htc_status htc_balance_pull(htc_balance *balance, htc_ns now, htc_rng *rng, htc_bytes census)
{
    if (!balance || balance->asking || !rng || (!census.data && census.len))
        return HTC_EINVAL;
    if (!balance->policy.pull)
        return HTC_EUNSUPPORTED;
    uint32_t  n = balance->options.partitions;
    uint32_t *free = htc__alloc(balance->env, n * sizeof *free);
    if (!free)
        return HTC_ENOMEM;
    htc_status status = htc__census_read(census, free, n);
    balance->asking = 1;
    if (status == HTC_OK)
        status = balance->policy.pull(balance->state, free, n, rng);
    balance->asking = 0;
    if (status == HTC_OK)
        balance->pull_due = htc__later(now, balance->options.pull_ns);
    htc__free(balance->env, free, n * sizeof *free);
    return status;
}

htc_ns htc_balance_pull_due(const htc_balance *balance)
{
    return balance ? balance->pull_due : HTC_NEVER;
}

htc_status htc_balance_tape(htc_balance *balance, const htc_tape *tape)
{
    htc_status status = balance && !balance->asking ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (!balance->policy.tape)
        return HTC_EUNSUPPORTED;
    uint64_t head[] = { balance->options.partitions, balance->options.own }, found[] = { head[0], head[1] };
    status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && (found[0] != head[0] || found[1] != head[1]))
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &balance->pull_due, sizeof balance->pull_due);
    balance->asking = 1;
    if (status == HTC_OK)
        status = balance->policy.tape(balance->state, tape);
    balance->asking = 0;
    return status;
}

/* ---- Waiting ---- */

htc_ns htc__later(htc_ns now, htc_ns by)
{
    return by < HTC_NEVER - 1 - (now < HTC_NEVER ? now : HTC_NEVER - 1) ? now + by : HTC_NEVER - 1;
}

htc_ns htc_balance_pause(htc_ns first_ns, htc_ns max_ns, uint32_t n, htc_rng *rng)
{
    htc_ns pause = first_ns < max_ns ? first_ns : max_ns;
    for (; n > 0 && pause > 0 && pause < max_ns; n--)
        pause = pause > max_ns / 2 ? max_ns : 2 * pause;
    return rng && pause < HTC_NEVER ? pause - htc_rng_below(rng, pause / 2 + 1) : pause;
}

static void wait(htc_balance_request *r, htc_ns now, htc_rng *rng, state how, uint32_t n)
{
    const htc_balance_options *o = &r->balance->options;
    r->state = how;
    r->action = (htc_balance_action){ .kind = HTC_BALANCE_WAIT,
                                      .until = htc__later(now, htc_balance_pause(o->wait_ns, o->wait_ns_max, n, rng)) };
}

/* ---- Requests ---- */

htc_status htc_balance_begin(htc_balance *balance, uint64_t need, htc_balance_request **out)
{
    if (!balance || balance->asking || need == 0 || need > NEED_MAX || !out)
        return HTC_EINVAL;
    htc_balance_request *r = htc__alloc(balance->env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    *r = (htc_balance_request){ .balance = balance, .progress.need = need, .state = FRESH };
    *out = r;
    return HTC_OK;
}

void htc_balance_end(htc_balance_request *request)
{
    if (!request || request->balance->asking)
        return;
    if (request->state == STEAL)
        learn(request->balance, request->action.partition, HTC_BALANCE_UNKNOWN);
    htc__free(request->balance->env, request, sizeof *request);
}

htc_status htc_balance_progress_of(const htc_balance_request *request, htc_balance_progress *progress)
{
    if (!request || !progress)
        return HTC_EINVAL;
    *progress = request->progress;
    return HTC_OK;
}

htc_status htc_balance_request_tape(htc_balance_request *request, const htc_tape *tape)
{
    htc_status status = request && !request->balance->asking ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_balance_request r = *request;
    r.balance = NULL;
    status = tape->move(tape->ctx, &r, sizeof r);
    if (status == HTC_OK && (r.state > DONE || r.progress.taken > r.progress.need || !r.progress.need || r.progress.need > NEED_MAX ||
                             r.action.partition >= request->balance->options.partitions || r.action.nodes > HTC_BALANCE_FREE_MAX))
        status = HTC_ECORRUPT;
    r.balance = request->balance;
    r.action.body = (htc_bytes){ NULL, 0 }; /* a request's actions have none */
    if (status == HTC_OK)
        *request = r;
    return status;
}

static void ask(htc_balance_request *r, state how, uint32_t partition)
{
    uint64_t missing = r->progress.need - r->progress.taken;
    r->state = how;
    r->action =
        (htc_balance_action){ .kind = HTC_BALANCE_TAKE,
                              .partition = partition,
                              .nodes = missing < HTC_BALANCE_FREE_MAX ? (uint32_t)missing : HTC_BALANCE_FREE_MAX };
}

/* "Release everything held for this job, or two half-satisfied jobs would wait on each other for ever." */
static void end_round(htc_balance_request *r, htc_ns now, htc_rng *rng)
{
    if (r->progress.taken > 0) {
        r->state = RELEASE;
        r->action = (htc_balance_action){ .kind = HTC_BALANCE_RELEASE };
    } else {
        wait(r, now, rng, REST, r->progress.rounds++);
    }
}

static void fail(htc_balance_request *r, htc_ns now, htc_rng *rng, int must_wait)
{
    r->progress.fruitless++;
    if (r->progress.fruitless >= r->balance->options.tries)
        end_round(r, now, rng);
    else if (must_wait)
        wait(r, now, rng, PAUSE, r->pauses++);
    else
        r->state = SEEK;
}

static htc_status seek(htc_balance_request *r, htc_ns now, htc_rng *rng)
{
    htc_balance     *b = r->balance;
    htc_balance_view view = { .missing = r->progress.need - r->progress.taken,
                              .taken = r->progress.taken,
                              .partitions = b->options.partitions,
                              .own = b->options.own,
                              .fruitless = r->progress.fruitless,
                              .tries = b->options.tries };
    uint32_t         partition = HTC_BALANCE_NONE;
    b->asking = 1;
    htc_status status = b->policy.pick(b->state, &view, rng, &partition);
    b->asking = 0;
    if (status == HTC_OK && partition >= b->options.partitions)
        return HTC_EINVAL;
    if (status == HTC_OK)
        ask(r, STEAL, partition);
    else if (status == HTC_AGAIN && b->policy.waits)
        fail(r, now, rng, 1);
    else if (status == HTC_AGAIN) /* a wait would keep from others what is held: it is given back first */
        end_round(r, now, rng);
    else
        return status;
    return HTC_OK;
}

static void take_in(htc_balance_request *r, htc_ns now, htc_rng *rng, const htc_balance_answer *answer)
{
    int stealing = r->state == STEAL;
    learn(r->balance, r->action.partition, answer->free);
    r->progress.taken += answer->taken;
    r->progress.steals += (uint64_t)stealing;
    if (r->progress.taken == r->progress.need) {
        r->state = DONE;
        r->action = (htc_balance_action){ .kind = HTC_BALANCE_DONE };
    } else if (stealing && answer->taken == 0) {
        fail(r, now, rng, r->balance->policy.waits != 0);
    } else {
        r->state = SEEK;
    }
    if (answer->taken > 0)
        r->progress.fruitless = r->pauses = 0;
}

/* What the last action was is over, if it is. */
static void finish(htc_balance_request *r, htc_ns now, htc_rng *rng, const htc_balance_answer *answer)
{
    switch ((state)r->state) {
    case OWN:
    case STEAL:
        take_in(r, now, rng, answer);
        break;
    case RELEASE:
        r->progress.taken = 0;
        wait(r, now, rng, REST, r->progress.rounds++);
        break;
    case PAUSE:
        if (now >= r->action.until)
            r->state = SEEK;
        break;
    case REST:
        if (now >= r->action.until) {
            r->progress.fruitless = r->pauses = 0;
            r->state = FRESH;
        }
        break;
    case FRESH:
    case SEEK:
    case DONE:
        break;
    }
}

htc_status htc_balance_step(htc_balance_request *request, htc_ns now, htc_rng *rng, const htc_balance_answer *answer,
                            htc_balance_action *action)
{
    htc_balance_request *r = request;
    if (!r || r->balance->asking || !rng || !action)
        return HTC_EINVAL;
    if ((r->state == OWN || r->state == STEAL) &&
        (!answer || answer->taken > r->action.nodes || !free_ok(answer->free)))
        return HTC_EINVAL;
    finish(r, now, rng, answer);
    if (r->state == FRESH) {
        if (r->balance->options.own != HTC_BALANCE_NONE)
            ask(r, OWN, r->balance->options.own);
        else
            r->state = SEEK;
    }
    htc_status status = r->state == SEEK ? seek(r, now, rng) : HTC_OK;
    if (status == HTC_OK) /* word by word: so it has just been written */
        *action = (htc_balance_action){ .kind = r->action.kind, .partition = r->action.partition, .nodes = r->action.nodes, .until = r->action.until, .body = r->action.body };
    return status;
}
