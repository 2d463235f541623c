/* A fit and its model, told the same: any sequence of numbers is a sequence of events. */
#ifndef HTC_TESTS_FIT_TWINS_H
#define HTC_TESTS_FIT_TWINS_H

#include "fit_model.h"

typedef struct twins {
    htc_fit *fit;
    model    model;
    int      now;
    uint64_t next_id;
} twins;

/* Where the twins differ, the words say so; NULL: they agree. */
#define TWINS_AGREE(x)                                                                                                 \
    do {                                                                                                               \
        if (!(x))                                                                                                      \
            return #x;                                                                                                 \
    } while (0)

static inline htc_status twins_open(twins *t, const htc_env *env, uint32_t promise, uint32_t nodes)
{
    htc_fit_policy  policy = { .size = sizeof policy, .promise = promise };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = nodes };
    *t = (twins){ .model = model_of(promise, (int)nodes), .next_id = 1 };
    return htc_fit_create(env, &options, &t->fit);
}

static inline htc_fit_job twins_job(const model_job *j)
{
    return (htc_fit_job){
        .id = j->id, .estimate = model_ns(j->estimate), .nodes = (uint32_t)j->nodes, .priority = (uint32_t)j->priority
    };
}

/* Both decide until nothing starts. */
static inline const char *twins_decide(twins *t)
{
    htc_fit_job job;
    model_job  *j;
    while ((j = model_next(&t->model, t->now))) {
        TWINS_AGREE(htc_fit_next(t->fit, model_ns(t->now), &job) == HTC_OK);
        TWINS_AGREE(job.id == j->id && job.nodes == (uint32_t)j->nodes);
        TWINS_AGREE(j->nodes <= model_free(&t->model));
        model_run(&t->model, t->now, j);
    }
    TWINS_AGREE(htc_fit_next(t->fit, model_ns(t->now), &job) == HTC_AGAIN);
    return NULL;
}

/* The order of model.shortest, as a policy says it; ctx counts how often it was asked. */
static inline uint64_t twins_shortest(void *ctx, const htc_fit_info *job)
{
    ++*(uint64_t *)ctx;
    return job->job.estimate;
}

static inline htc_status twins_open_shortest(twins *t, uint32_t promise, uint32_t nodes, uint64_t *asked)
{
    htc_fit_policy  policy = { .size = sizeof policy, .promise = promise, .ctx = asked, .key = twins_shortest };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = nodes };
    *t = (twins){ .model = model_of(promise, (int)nodes), .next_id = 1 };
    t->model.shortest = 1;
    return htc_fit_create(NULL, &options, &t->fit);
}

/* Numbers, order and reasons. */
static inline const char *twins_compare(const twins *t)
{
    model          m = t->model;
    model_job     *queue[MODEL_JOBS];
    htc_fit_counts c;
    htc_fit_job    job;
    htc_fit_reason r;
    size_t         n = model_queue(&m, queue);
    int            widest = 0, wanted = 0;
    htc_fit_count(t->fit, &c);
    for (size_t i = 0; i < n; i++) {
        widest = queue[i]->nodes > widest ? queue[i]->nodes : widest;
        wanted += queue[i]->nodes;
        TWINS_AGREE(htc_fit_at(t->fit, i, &job) == HTC_OK && job.id == queue[i]->id);
        TWINS_AGREE(htc_fit_explain(t->fit, model_ns(t->now), job.id, &r) == HTC_OK && r.before == i);
        TWINS_AGREE((r.why == HTC_FIT_WHY_TOO_WIDE) == (queue[i]->nodes > m.nodes));
        TWINS_AGREE((r.why == HTC_FIT_WHY_NODES) == (queue[i]->nodes <= m.nodes && queue[i]->nodes > model_free(&m)));
        TWINS_AGREE(r.text[0] && memchr(r.text, 0, sizeof r.text));
    }
    TWINS_AGREE(htc_fit_at(t->fit, n, &job) == HTC_ENOTFOUND);
    TWINS_AGREE(c.waiting == n && c.running == m.n - n && c.nodes == (uint32_t)m.nodes);
    TWINS_AGREE(c.busy == (uint32_t)model_busy(&m) && c.free == (uint32_t)model_free(&m));
    TWINS_AGREE(c.waiting_nodes == (uint64_t)wanted && c.widest == (uint32_t)widest);
    return NULL;
}

/* When will so many nodes be free, and when does everybody start? */
static inline const char *twins_foresee(const twins *t, uint64_t draw)
{
    int        at[MODEL_JOBS], nodes = (int)(draw % (uint64_t)(t->model.nodes + 1)), spare;
    htc_ns     starts[MODEL_JOBS], when;
    uint32_t   got, reserved;
    model      m = t->model;
    model_job *queue[MODEL_JOBS];
    size_t     n = model_queue(&m, queue);
    int        shadow = model_shadow(&m, t->now, nodes, &spare);
    TWINS_AGREE(htc_fit_shadow(t->fit, model_ns(t->now), (uint32_t)nodes, &when, &got) == HTC_OK);
    TWINS_AGREE(when == model_ns(shadow) && got == (uint32_t)spare);
    TWINS_AGREE(htc_fit_shadow(t->fit, model_ns(t->now), (uint32_t)m.nodes + 1, &when, &got) == HTC_ENOFIT);
    model_forecast(&m, t->now, at);
    TWINS_AGREE(htc_fit_forecast(t->fit, model_ns(t->now), starts, n) == HTC_OK);
    for (size_t i = 0; i < n; i++) {
        TWINS_AGREE(starts[i] == model_ns(at[i]));
        TWINS_AGREE(htc_fit_when(t->fit, model_ns(t->now), queue[i]->id, &when, &reserved) == HTC_OK);
        TWINS_AGREE(when == starts[i]);
        if (m.promise == HTC_FIT_PROMISE_ALL)
            TWINS_AGREE(reserved == (when != HTC_NEVER));
    }
    return NULL;
}

static inline const char *twins_arrive(twins *t, uint64_t draw)
{
    int nodes = (int)(draw >> 8 & 7) + 1, estimate = (int)(draw >> 16 & 15) + 1, priority = (int)(draw >> 24 & 3);
    htc_fit_job job;
    if (t->model.n == MODEL_JOBS)
        return NULL;
    estimate = (draw >> 32 & 31) == 0 ? MODEL_NEVER : estimate;
    priority = priority == 3;
    model_submit(&t->model, t->now, t->next_id, nodes, estimate, priority);
    job = twins_job(&t->model.job[t->model.n - 1]);
    TWINS_AGREE(htc_fit_submit(t->fit, model_ns(t->now), &job) == HTC_OK);
    TWINS_AGREE(htc_fit_submit(t->fit, model_ns(t->now), &job) == HTC_EEXISTS);
    t->next_id++;
    return NULL;
}

/* Something happens to some job. */
static inline const char *twins_touch(twins *t, uint64_t draw)
{
    htc_ns now = model_ns(t->now);
    if (t->model.n == 0)
        return NULL;
    model_job  *j = &t->model.job[(draw >> 8) % t->model.n];
    uint64_t    id = j->id;
    htc_fit_job job = twins_job(j);
    int         was_running = j->running, fits = j->nodes <= model_free(&t->model);
    switch (draw >> 40 & 7) {
    case 0: /* an operator starts it */
        TWINS_AGREE(htc_fit_start(t->fit, now, id) == (was_running ? HTC_EINVAL : fits ? HTC_OK : HTC_AGAIN));
        if (!was_running && fits)
            model_run(&t->model, t->now, j);
        break;
    case 1: /* it loses its nodes */
        TWINS_AGREE(htc_fit_requeue(t->fit, now, id) == (was_running ? HTC_OK : HTC_EINVAL));
        if (was_running)
            model_requeue(&t->model, t->now, j);
        break;
    case 2: /* it is changed */
    case 3:
        job.estimate = model_ns((draw >> 44 & 31) == 0 ? MODEL_NEVER : (int)(draw >> 44 & 31));
        job.priority = draw >> 50 & 1;
        if (!was_running)
            job.nodes = (uint32_t)(draw >> 52 & 7) + 1;
        TWINS_AGREE(htc_fit_change(t->fit, now, &job) == HTC_OK);
        model_change(&t->model, t->now, j, (int)job.nodes,
                     job.estimate == HTC_NEVER ? MODEL_NEVER : (int)(draw >> 44 & 31), (int)job.priority);
        break;
    default: /* it is over, or cancelled */
        TWINS_AGREE(htc_fit_end(t->fit, now, id) == HTC_OK);
        TWINS_AGREE(htc_fit_end(t->fit, now, id) == HTC_ENOTFOUND);
        model_over(&t->model, t->now, j);
    }
    return NULL;
}

/* Jobs whose estimate is over end, but for one in so many that runs on. */
static inline const char *twins_due(twins *t, uint64_t draw)
{
    for (size_t i = t->model.n; i > 0; i--) {
        model_job *j = &t->model.job[i - 1];
        if (!j->running || model_later(j->started, j->estimate) > t->now || (draw >> (i % 32) & 7) == 0)
            continue;
        TWINS_AGREE(htc_fit_end(t->fit, model_ns(t->now), j->id) == HTC_OK);
        model_over(&t->model, t->now, j);
    }
    return NULL;
}

/* One event, whatever the number. */
static inline const char *twins_step(twins *t, uint64_t draw)
{
    const char *wrong = NULL;
    uint32_t    nodes = (uint32_t)(draw >> 8 & 3);
    switch (draw & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
        t->now += (int)(draw >> 8 & 7); /* time passes */
        wrong = twins_due(t, draw >> 12);
        break;
    case 4:
    case 5:
        wrong = twins_touch(t, draw);
        break;
    case 6: /* nodes come up */
        if (t->model.nodes < 16) {
            TWINS_AGREE(htc_fit_add_nodes(t->fit, model_ns(t->now), nodes) == HTC_OK);
            t->model.nodes += (int)nodes;
            t->model.loose |= nodes > 0;
        }
        break;
    case 7: /* nodes go down */
        if ((int)nodes > t->model.nodes) {
            TWINS_AGREE(htc_fit_remove_nodes(t->fit, model_ns(t->now), nodes) == HTC_EINVAL);
        } else {
            TWINS_AGREE(htc_fit_remove_nodes(t->fit, model_ns(t->now), nodes) == HTC_OK);
            t->model.nodes -= (int)nodes;
            t->model.broken |= nodes > 0;
        }
        break;
    case 8:
        wrong = twins_foresee(t, draw >> 8);
        break;
    default:
        wrong = twins_arrive(t, draw);
    }
    if (!wrong && draw >> 60 != 0) /* now and then more happens before the next decision */
        wrong = twins_decide(t);
    return wrong ? wrong : twins_compare(t);
}

#endif
