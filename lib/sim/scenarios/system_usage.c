/* What attempts have cost: added up from the records that became durable, and compared with what users are told. A sum is
 * exact after any number of kills, also of jobs that are removed. */
#include <string.h>

#include "sim/scenarios/system_private.h"

static sys_cost *cost_of(sys *s, uint64_t job, uint64_t chunk)
{
    sys_cost *c, find;
    memset(&find, 0, sizeof find);
    find.key.job = job;
    find.key.chunk = chunk;
    HASH_FIND(hh, s->costs, &find.key, sizeof find.key, c);
    if (c)
        return c;
    c = htc__sys_alloc(s, sizeof *c);
    if (!c)
        return &s->no_cost;
    c->key = find.key;
    HASH_ADD(hh, s->costs, key, sizeof c->key, c);
    if (!c->hh.tbl) {
        htc__free(&s->env, c, sizeof *c);
        htc__sys_no_memory(s);
        return &s->no_cost;
    }
    return c;
}

void htc__sys_usage_owner(sys *s, uint64_t job, const char *user)
{
    snprintf(cost_of(s, job, UINT64_MAX)->user, sizeof((sys_cost *)0)->user, "%s", user);
}

void htc__sys_usage_chunk(sys *s, uint64_t job, uint64_t index, uint64_t core_ns, htc_ns sure, htc_ns maybe)
{
    sys_cost *c = cost_of(s, job, index);
    if (core_ns < c->core_ns + sure || core_ns > c->core_ns + sure + maybe)
        htc__sys_fail(s, "chunk %llu of job %llu counts %llu ns: it had %llu, and %llu to %llu came to it", (unsigned long long)index,
                 (unsigned long long)job, (unsigned long long)core_ns, (unsigned long long)c->core_ns,
                 (unsigned long long)sure, (unsigned long long)(sure + maybe));
    c->core_ns = core_ns;
}

/* What a user has used and finished, as the disk has it. */
static void used_by(sys *s, const char *user, uint64_t *core_ns, uint64_t *done)
{
    *core_ns = *done = 0;
    for (const sys_cost *c = s->costs; c; c = c->hh.next)
        if (c->key.chunk != UINT64_MAX && strcmp(cost_of(s, c->key.job, UINT64_MAX)->user, user) == 0)
            *core_ns += c->core_ns;
    for (const sys_task *t = s->tasks; t; t = t->hh.next)
        *done += t->committed && strcmp(cost_of(s, t->key.job, UINT64_MAX)->user, user) == 0;
}

static void ask_again(htc_sim *w, void *ctx)
{
    (void)w;
    htc__sys_usage_ask(ctx);
}

static void told(sys_user *u, void *ctx, json_t *answer)
{
    sys     *s = ctx;
    json_t  *users = answer ? json_object_get(answer, "users") : NULL, *user;
    size_t   i;
    uint64_t core_ns, done;
    (void)u;
    if (!users) {
        htc__sys_after(s, 100 * HTC_MS, ask_again, s);
        return;
    }
    json_array_foreach(users, i, user)
    {
        const char *name = json_string_value(json_object_get(user, "name"));
        used_by(s, name, &core_ns, &done);
        double   core_s = json_number_value(json_object_get(user, "core_s"));
        uint64_t tasks = (uint64_t)json_integer_value(json_object_get(user, "tasks_done"));
        if (tasks != done || core_s < (double)core_ns / 1e9 - 1e-6 || core_s > (double)core_ns / 1e9 + 1e-6)
            htc__sys_fail(s, "%s is told %llu tasks and %.9f s; %llu tasks and %.9f s are stored", name, (unsigned long long)tasks,
                     core_s, (unsigned long long)done, (double)core_ns / 1e9);
    }
    s->usage_told = 1;
}

void htc__sys_usage_ask(sys *s)
{
    htc__sys_ask(s->operator_, json_pack("{s:s}", "op", "users"), told, s);
}

void htc__sys_usage_free(sys *s)
{
    sys_cost *c, *next;
    HASH_ITER(hh, s->costs, c, next)
    {
        HASH_DEL(s->costs, c);
        htc__free(&s->env, c, sizeof *c);
    }
}
