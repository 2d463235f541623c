/* Policies of one's own, asked through a check. Each forwards what is asked, and looks at the answer. */
#include "sim/models/asked.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/util.h"
#include "htcsched/registry.h"

/* The library's own, by name and place. */
static int is_builtin(uint32_t kind, const char *name, const void *p)
{
    htc_registry *r = NULL;
    const void   *found = NULL;
    if (name && htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK)
        (void)htc_registry_find(r, kind, name, &found);
    htc_registry_destroy(r);
    return found == p;
}

/* "the steal policy NAME answers ..." */
static __attribute__((format(printf, 4, 5))) void say(char *text, const char *kind, const char *name, const char *format, ...)
{
    va_list args;
    if (text[0])
        return;
    int n = snprintf(text, ASKED_TEXT, "the %s policy \"%.63s\" answers ", kind, name ? name : "without a name");
    va_start(args, format);
    vsnprintf(text + n, ASKED_TEXT - (size_t)n, format, args);
    va_end(args);
}

static void say_status(char *text, const char *kind, const char *name, htc_status status)
{
    if (status < 0)
        say(text, kind, name, "with an error: %s", htc_strerror(status));
}

/* ---- steal ---- */

static htc_status choose_victims(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    asked_steal *a = ctx;
    htc_status   status = a->of.choose(a->of.ctx, view, rng, cap, out, count);
    if (status != HTC_OK) {
        say_status(a->text, "steal", a->of.name, status);
        if (status > 0)
            say(a->text, "steal", a->of.name, "%s; HTC_OK with a count of 0 means that nobody is to be asked", htc_strerror(status));
    } else if (*count > cap) {
        say(a->text, "steal", a->of.name, "%u workers to ask, and at most %u can be", *count, cap);
    }
    for (uint32_t i = 0; status == HTC_OK && i < *count && *count <= cap; i++)
        if (out[i] >= view->n || out[i] == view->self)
            say(a->text, "steal", a->of.name, "worker %u to worker %u; workers are 0 to %u, and nobody asks itself", out[i], view->self, view->n - 1);
    return status;
}

static htc_ns wait_for(void *ctx, const htc_steal_view *view)
{
    const asked_steal *a = ctx;
    return a->of.wait(a->of.ctx, view);
}

static uint64_t amount_of(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle)
{
    const asked_steal *a = ctx;
    return a->of.amount(a->of.ctx, options, waiting, idle);
}

static void is_settled(void *ctx, const htc_steal_view *view, uint32_t victim, uint64_t got)
{
    const asked_steal *a = ctx;
    a->of.settled(a->of.ctx, view, victim, got);
}

const htc_steal_policy *htc__asked_steal(asked_steal *a, const htc_steal_policy *p, char *text)
{
    *a = (asked_steal){ .text = text };
    if (!p || htc__options_copy(&a->of, sizeof a->of, p, p->size, offsetof(htc_steal_policy, settled)) != HTC_OK || !a->of.choose ||
        is_builtin(HTC_REGISTRY_STEAL, a->of.name, p))
        return p;
    a->policy = (htc_steal_policy){ .size = sizeof a->policy, .name = a->of.name, .ctx = a, .choose = choose_victims, .wait = a->of.wait ? wait_for : NULL,
                                    .amount = a->of.amount ? amount_of : NULL, .settled = a->of.settled ? is_settled : NULL };
    return &a->policy;
}

/* ---- locality ---- */

static htc_status place_task(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out)
{
    asked_locality *a = ctx;
    htc_status      status = a->of.place(a->of.ctx, view, task, out);
    say_status(a->text, "locality", a->of.name, status);
    if (status == HTC_OK && out->queue > HTC_LOCALITY_PUSH)
        say(a->text, "locality", a->of.name, "queue %u; queues are those of htc_locality_queue, 0 to %u", out->queue, (unsigned)HTC_LOCALITY_PUSH);
    if (status == HTC_OK && out->queue == HTC_LOCALITY_PUSH && out->worker >= a->workers)
        say(a->text, "locality", a->of.name, "that a task is pushed to worker %u; workers are 0 to %llu", out->worker, (unsigned long long)a->workers - 1);
    return status;
}

static uint64_t move_tasks(void *ctx, const htc_locality_view *view)
{
    const asked_locality *a = ctx;
    return a->of.move(a->of.ctx, view);
}

const htc_locality_policy *htc__asked_locality(asked_locality *a, const htc_locality_policy *p, uint64_t workers, char *text)
{
    *a = (asked_locality){ .workers = workers, .text = text };
    if (!p || htc__options_copy(&a->of, sizeof a->of, p, p->size, sizeof a->of) != HTC_OK || !a->of.place || is_builtin(HTC_REGISTRY_LOCALITY, a->of.name, p))
        return p;
    a->policy = (htc_locality_policy){ .size = sizeof a->policy, .name = a->of.name, .ctx = a, .rule = a->of.rule, .place = place_task, .move = a->of.move ? move_tasks : NULL };
    return &a->policy;
}

/* ---- balance: each controller has a state ---- */

typedef struct asked_state {
    const asked_balance *asked;
    const htc_env       *env;
    void                *state;
} asked_state;

static htc_status open_state(void *ctx, const htc_env *env, const htc_balance_options *options, void **state)
{
    const asked_balance *a = ctx;
    asked_state         *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    *s = (asked_state){ .asked = a, .env = env, .state = a->of.ctx };
    htc_status status = a->of.open ? a->of.open(a->of.ctx, env, options, &s->state) : HTC_OK;
    if (status == HTC_OK)
        *state = s;
    else
        htc__free(env, s, sizeof *s);
    return status;
}

static void close_state(void *state)
{
    asked_state *s = state;
    if (s->asked->of.close)
        s->asked->of.close(s->state);
    htc__free(s->env, s, sizeof *s);
}

static htc_status pick_partition(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    asked_state         *s = state;
    const asked_balance *a = s->asked;
    htc_status           status = a->of.pick(s->state, view, rng, partition);
    say_status(a->text, "balance", a->of.name, status);
    if (status == HTC_OK && *partition >= view->partitions)
        say(a->text, "balance", a->of.name, "partition %u; partitions are 0 to %u", *partition, view->partitions - 1);
    return status;
}

static void learn_of(void *state, uint32_t partition, uint32_t free)
{
    asked_state *s = state;
    s->asked->of.learn(s->state, partition, free);
}

static htc_status pull_census(void *state, const uint32_t *free, uint32_t n, htc_rng *rng)
{
    asked_state *s = state;
    htc_status   status = s->asked->of.pull(s->state, free, n, rng);
    say_status(s->asked->text, "balance", s->asked->of.name, status);
    return status;
}

static htc_status tape_state(void *state, const htc_tape *tape)
{
    asked_state *s = state;
    return s->asked->of.tape(s->state, tape);
}

const htc_balance_policy *htc__asked_balance(asked_balance *a, const htc_balance_policy *p, char *text)
{
    *a = (asked_balance){ .text = text };
    if (!p || htc__options_copy(&a->of, sizeof a->of, p, p->size, offsetof(htc_balance_policy, tape)) != HTC_OK || !a->of.pick || a->of.tries == 0 ||
        (a->of.open && !a->of.close) || is_builtin(HTC_REGISTRY_BALANCE, a->of.name, p))
        return p;
    a->policy = (htc_balance_policy){ .size = sizeof a->policy, .name = a->of.name, .ctx = a, .tries = a->of.tries, .waits = a->of.waits, .open = open_state, .close = close_state,
                                      .pick = pick_partition, .learn = a->of.learn ? learn_of : NULL, .pull = a->of.pull ? pull_census : NULL,
                                      .tape = a->of.tape ? tape_state : NULL };
    return &a->policy;
}

/* ---- fit ---- */

static htc_status choose_job(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    asked_fit *a = ctx;
    htc_status status = a->of.choose(a->of.ctx, fit, now, id);
    say_status(a->text, "order", a->of.name, status);
    a->answered = *id;
    return status;
}

void htc__asked_fit_refused(const asked_fit *a)
{
    if (a->policy.choose)
        say(a->text, "order", a->of.name, "job %llu, which does not wait, or may not start now: htc_fit_candidate tells those that may", (unsigned long long)a->answered);
}

static uint64_t key_of(void *ctx, const htc_fit_info *job)
{
    const asked_fit *a = ctx;
    return a->of.key(a->of.ctx, job);
}

const htc_fit_policy *htc__asked_fit(asked_fit *a, const htc_fit_policy *p, char *text)
{
    *a = (asked_fit){ .text = text };
    if (!p || htc__options_copy(&a->of, sizeof a->of, p, p->size, offsetof(htc_fit_policy, choose)) != HTC_OK || !a->of.choose)
        return p;
    a->policy = a->of;
    a->policy.size = sizeof a->policy;
    a->policy.ctx = a;
    a->policy.choose = choose_job;
    a->policy.key = a->of.key ? key_of : NULL;
    return &a->policy;
}

/* ---- grants ---- */

static htc_status grant_nodes(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *r, size_t n, uint64_t *granted)
{
    asked_granter *a = ctx;
    htc_status     status = a->of.grant(a->of.ctx, env, free_nodes, r, n, granted);
    uint64_t       left = free_nodes;
    say_status(a->text, "grant", a->of.name, status);
    for (size_t i = 0; i < n && status == HTC_OK; i++) {
        if (granted[i] > r[i].nodes)
            say(a->text, "grant", a->of.name, "%llu nodes to a request for %llu", (unsigned long long)granted[i], (unsigned long long)r[i].nodes);
        else if (granted[i] > left)
            say(a->text, "grant", a->of.name, "more than the %llu nodes that are free", (unsigned long long)free_nodes);
        else if (r[i].initial && granted[i] > 0 && granted[i] < r[i].nodes)
            say(a->text, "grant", a->of.name, "%llu of %llu initial nodes; these are granted all or none", (unsigned long long)granted[i], (unsigned long long)r[i].nodes);
        left -= granted[i] <= left ? granted[i] : left;
    }
    return status;
}

const htc_provision_granter *htc__asked_granter(asked_granter *a, const htc_provision_granter *p, char *text)
{
    *a = (asked_granter){ .text = text };
    if (!p || htc__options_copy(&a->of, sizeof a->of, p, p->size, sizeof a->of) != HTC_OK || !a->of.grant || is_builtin(HTC_REGISTRY_GRANT, a->of.name, p))
        return p;
    a->policy = (htc_provision_granter){ .size = sizeof a->policy, .name = a->of.name, .ctx = a, .grant = grant_nodes };
    return &a->policy;
}

htc_status htc__asked_error(htc_error *error, htc_status status, const char *text)
{
    htc__error(error, status, "%s", text);
    if (error)
        snprintf(error->hint, sizeof error->hint, "mend the policy, or choose another one");
    return status;
}
