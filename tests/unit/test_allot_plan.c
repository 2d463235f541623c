/* Who gets and who gives: the worked example of the specification (section 3.5) played event by event, the rotation of
 * odd slots, and single decisions. */
#include "expect.h"
#include <stdlib.h>

#include "htcsched/allot.h"

#define SLOTS_MAX 128
#define A         0
#define B         1
#define C         2

typedef struct slot {
    int  user; /* -1: free */
    int  draining;
    long ends; /* of its task */
} slot;

typedef struct world {
    htc_allot_options options;
    int               n_slots, n_users;
    slot              slots[SLOTS_MAX];
    long              now, length[5], done_at[5];
    uint64_t          queued[5], left[5], last_served[5], arrival[5], served;
    htc_allot_change  changes[5];
} world;

static world world_with(uint32_t policy, int n_slots, int n_users)
{
    world w = { .options = { .size = sizeof w.options, .policy = policy, .fixed_users = 2 },
                .n_slots = n_slots,
                .n_users = n_users };
    for (int i = 0; i < n_slots; i++)
        w.slots[i].user = -1;
    return w;
}

static int count(const world *w, int user, int draining)
{
    int n = 0;
    for (int i = 0; i < w->n_slots; i++)
        n += w->slots[i].user == user && w->slots[i].draining == draining;
    return n;
}

static int held(const world *w, int user)
{
    return count(w, user, 0) + count(w, user, 1);
}

/* Mark k agents, those that finish first; or take the mark off the k that finish last. */
static void mark(world *w, int user, uint64_t k, int draining)
{
    for (; k > 0; k--) {
        slot *best = NULL;
        for (int i = 0; i < w->n_slots; i++) {
            slot *s = &w->slots[i];
            if (s->user == user && s->draining != draining && (!best || (s->ends < best->ends) == draining))
                best = s;
        }
        cr_assert(ne(ptr, best, NULL), "marks for agents that are not there");
        best->draining = draining;
    }
}

static void pull(world *w, slot *s)
{
    w->queued[s->user]--;
    s->ends = w->now + w->length[s->user];
}

static void start(world *w, int user, uint64_t k)
{
    for (; k > 0; k--) {
        slot *s = w->slots;
        while (s < w->slots + w->n_slots && s->user != -1)
            s++;
        cr_assert(s < w->slots + w->n_slots, "granted a slot that is not free");
        *s = (slot){ .user = user };
        w->last_served[user] = ++w->served;
        pull(w, s); /* no launch latency */
    }
}

static void plan(world *w)
{
    htc_allot_user u[5];
    for (int i = 0; i < w->n_users; i++)
        u[i] = (htc_allot_user){ .weight = 1,
                                 .queued = w->queued[i],
                                 .running = (uint64_t)held(w, i),
                                 .agents = (uint64_t)count(w, i, 0),
                                 .draining = (uint64_t)count(w, i, 1),
                                 .last_served = w->last_served[i],
                                 .arrival = w->arrival[i],
                                 .id = (uint64_t)i,
                                 .fixed = i < 2 };
    cr_assert(eq(int,
                 htc_allot_plan(NULL, &w->options, u, (size_t)w->n_users, (uint64_t)w->n_slots,
                                (uint64_t)count(w, -1, 0), w->changes),
                 HTC_OK));
    for (int i = 0; i < w->n_users; i++)
        mark(w, i, w->changes[i].undrain, 0);
    for (int i = 0; i < w->n_users; i++)
        start(w, i, w->changes[i].grant);
    for (int i = 0; i < w->n_users; i++)
        mark(w, i, w->changes[i].drain, 1);
}

/* All tasks that end now do; their agents pull the next one, or leave. */
static void end_tasks(world *w)
{
    for (int i = 0; i < w->n_slots; i++) {
        slot *s = &w->slots[i];
        if (s->user == -1 || s->ends != w->now)
            continue;
        if (--w->left[s->user] == 0)
            w->done_at[s->user] = w->now;
        if (s->draining || w->queued[s->user] == 0)
            *s = (slot){ .user = -1 };
        else
            pull(w, s);
    }
}

static void submit(world *w, int user, uint64_t tasks, long length)
{
    w->queued[user] = w->left[user] = tasks;
    w->length[user] = length;
    w->arrival[user] = (uint64_t)w->now;
    plan(w);
}

/* To the next end of a task; 0 if nothing runs. */
static int advance(world *w)
{
    long next = 0;
    for (int i = 0; i < w->n_slots; i++)
        if (w->slots[i].user != -1 && (next == 0 || w->slots[i].ends < next))
            next = w->slots[i].ends;
    if (next == 0)
        return 0;
    w->now = next;
    end_tasks(w);
    plan(w);
    return 1;
}

static void expect_row(const world *w, long now, const int row[7])
{
    cr_assert(eq(long, w->now, now));
    for (int user = 0; user < 3; user++) {
        cr_expect(eq(int, (int)w->queued[user], row[2 * user]), "queued of user %d at %ld", user, now);
        cr_expect(eq(int, held(w, user), row[2 * user + 1]), "agents of user %d at %ld", user, now);
    }
    cr_expect(eq(int, count(w, -1, 0), row[6]), "free at %ld", now);
}
#define ROW(now, ...) expect_row(&w, now, (const int[7]){ __VA_ARGS__ })

static void play_worked_example(uint32_t policy)
{
    int   maxmin = policy == HTC_ALLOT_MAXMIN;
    world w = world_with(policy, 100, 3);
    submit(&w, A, 200, 100);
    ROW(0, 100, 100, 0, 0, 0, 0, 0);
    w.now = 50;
    submit(&w, B, 50, 60);
    ROW(50, 100, 100, 50, 0, 0, 0, 0);
    cr_expect(eq(int, count(&w, A, 1), 50));
    cr_expect(w.changes[A].share.ra == 50 && w.changes[B].share.ra == 50);
    plan(&w); /* the marks are counted: no more of them */
    cr_expect(eq(int, count(&w, A, 1), 50));
    advance(&w);
    ROW(100, 50, 50, 0, 50, 0, 0, 0);
    w.now = 150;
    submit(&w, C, 20, 100);
    ROW(150, 50, 50, 0, 50, 20, 0, 0);
    cr_expect(eq(int, count(&w, A, 1), maxmin ? 10 : 0));
    cr_expect(eq(u64, w.changes[A].share.base, maxmin ? 40 : 50));
    cr_expect(eq(u64, w.changes[B].share.ra, maxmin ? 40 : 0));
    cr_expect(eq(u64, w.changes[C].share.ra, 20));
    advance(&w);
    ROW(160, 20, 80, 0, 0, 0, 20, 0);
    cr_expect(eq(int, count(&w, A, 1), 0), "marks that nobody waits for come off");
    advance(&w);
    ROW(200, 0, 50, 0, 0, 0, 20, 30);
    advance(&w);
    ROW(260, 0, 20, 0, 0, 0, 0, 80);
    advance(&w);
    ROW(300, 0, 0, 0, 0, 0, 0, 100);
    cr_expect(eq(int, advance(&w), 0));
    cr_expect(w.done_at[A] == 300 && w.done_at[B] - 50 == 110 && w.done_at[C] - 150 == 110);
}

Test(allot_plan, worked_example_eq1)
{
    play_worked_example(HTC_ALLOT_EQ1);
}

Test(allot_plan, worked_example_maxmin)
{
    play_worked_example(HTC_ALLOT_MAXMIN);
}

/* Static shares: half each, never adjusted, though the other half is idle. */
Test(allot_plan, static_shares_are_never_adjusted)
{
    world w = world_with(HTC_ALLOT_STATIC, 100, 2);
    submit(&w, A, 200, 100);
    ROW(0, 150, 50, 0, 0, 0, 0, 50);
    w.now = 50;
    submit(&w, B, 50, 60);
    ROW(50, 150, 50, 0, 50, 0, 0, 0);
    cr_expect(eq(int, count(&w, A, 1), 0));
    while (advance(&w))
        cr_expect(held(&w, A) <= 50 && held(&w, B) <= 50);
    cr_expect(w.done_at[A] == 400 && w.done_at[B] == 110);
}

/* Without sharing the second waits for the whole bag of the first. */
Test(allot_plan, fcfs_never_drains)
{
    world w = world_with(HTC_ALLOT_FCFS, 100, 2);
    submit(&w, A, 200, 100);
    w.now = 50;
    submit(&w, B, 50, 60);
    ROW(50, 100, 100, 50, 0, 0, 0, 0);
    cr_expect(eq(int, count(&w, A, 1), 0));
    while (advance(&w))
        continue;
    cr_expect(w.done_at[A] == 200 && w.done_at[B] == 260);
}

/* Five users, three slots: the slots go round, a task at a time, and everybody is served alike. */
Test(allot_plan, too_few_slots_go_round)
{
    world    w = world_with(HTC_ALLOT_EQ1, 3, 5);
    uint64_t least = 1000, most = 0;
    for (int u = 0; u < 5; u++)
        submit(&w, u, 1000, 10 + u % 2);
    for (int k = 0; k < 200; k++) {
        advance(&w);
        cr_assert(eq(int, count(&w, -1, 0), 0), "no slot is idle while somebody waits");
    }
    for (int u = 0; u < 5; u++) {
        uint64_t done = 1000 - w.left[u];
        least = done < least ? done : least;
        most = done > most ? done : most;
    }
    cr_expect(most - least <= 4, "%d to %d tasks", (int)least, (int)most);
}

/* ---- random days: launches take time, users come and go, marks fall on agents that have not started first ---- */

typedef struct day {
    world w;
    long  launch;
    int   starting[SLOTS_MAX];
    int   launches, tasks, wasted; /* wasted: agents that left without a task though their user had some */
} day;

static int starting_of(const day *d, int user)
{
    int n = 0;
    for (int i = 0; i < d->w.n_slots; i++)
        n += d->w.slots[i].user == user && d->starting[i] && !d->w.slots[i].draining;
    return n;
}

static int running_of(const day *d, int user)
{
    int n = 0;
    for (int i = 0; i < d->w.n_slots; i++)
        n += d->w.slots[i].user == user && !d->starting[i];
    return n;
}

/* As a gateway would that has not read why marks prefer agents that are about to finish: the worst one to serve. */
static void mark_worst(day *d, int user, uint64_t k, int draining)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < d->w.n_slots && k > 0; i++) {
            slot *s = &d->w.slots[i];
            if (s->user == user && s->draining != draining && (pass || d->starting[i])) {
                s->draining = draining;
                k--;
            }
        }
    cr_assert(eq(u64, k, 0), "marks for agents that are not there");
}

static void launch(day *d, int user, uint64_t k)
{
    for (int i = 0; i < d->w.n_slots && k > 0; i++)
        if (d->w.slots[i].user == -1) {
            d->w.slots[i] = (slot){ .user = user, .ends = d->w.now + d->launch };
            d->starting[i] = 1;
            d->w.last_served[user] = ++d->w.served;
            d->launches++;
            k--;
        }
    cr_assert(eq(u64, k, 0), "granted a slot that is not free");
}

static void plan_day(day *d)
{
    world         *w = &d->w;
    htc_allot_user u[5];
    for (int i = 0; i < w->n_users; i++)
        u[i] = (htc_allot_user){ .weight = 1 + (uint64_t)i % 2,
                                 .queued = w->queued[i],
                                 .running = (uint64_t)running_of(d, i),
                                 .agents = (uint64_t)count(w, i, 0),
                                 .draining = (uint64_t)count(w, i, 1),
                                 .starting = (uint64_t)starting_of(d, i),
                                 .last_served = w->last_served[i],
                                 .arrival = w->arrival[i],
                                 .id = (uint64_t)i,
                                 .fixed = 1 };
    cr_assert(eq(int,
                 htc_allot_plan(NULL, &w->options, u, (size_t)w->n_users, (uint64_t)w->n_slots,
                                (uint64_t)count(w, -1, 0), w->changes),
                 HTC_OK));
    for (int i = 0; i < w->n_users; i++)
        mark_worst(d, i, w->changes[i].undrain, 0);
    for (int i = 0; i < w->n_users; i++)
        launch(d, i, w->changes[i].grant);
    for (int i = 0; i < w->n_users; i++)
        mark_worst(d, i, w->changes[i].drain, 1);
    /* No slot is free while somebody has tasks that no agent is on its way to. */
    for (int i = 0; count(w, -1, 0) > 0 && i < w->n_users; i++)
        cr_assert(w->queued[i] <= (uint64_t)starting_of(d, i), "slots idle at %ld while user %d waits", w->now, i);
}

static void run_slot(day *d, int i)
{
    world *w = &d->w;
    slot  *s = &w->slots[i];
    if (!d->starting[i])
        w->left[s->user]--;
    if (s->draining || w->queued[s->user] == 0) {
        d->wasted += d->starting[i] && w->queued[s->user] > 0;
        s->user = -1;
        s->draining = 0;
    } else {
        pull(w, s);
        d->tasks++;
    }
    d->starting[i] = 0;
}

/* Tasks of 50 to 150, arrivals at random, until all is done. The tick recomputes between the events too. */
static day play_day(htc_rng *rng, uint32_t policy)
{
    day d = { .w = world_with(policy, 4 + (int)htc_rng_below(rng, 12), 5), .launch = (long)htc_rng_below(rng, 30) + 1 };
    int submitted = 0;
    long arrives[5];
    for (int u = 0; u < 5; u++)
        arrives[u] = (long)htc_rng_below(rng, 1000);
    for (uint64_t left = 1; submitted < 5 || left > 0; d.w.now++) {
        cr_assert(d.w.now < 100000, "tasks are never done");
        for (int u = 0; u < 5; u++)
            if (arrives[u] == d.w.now) {
                d.w.queued[u] = d.w.left[u] = htc_rng_below(rng, 60) + 1;
                d.w.length[u] = 50 + (long)htc_rng_below(rng, 100);
                d.w.arrival[u] = (uint64_t)d.w.now;
                submitted++;
            }
        for (int i = 0; i < d.w.n_slots; i++)
            if (d.w.slots[i].user != -1 && d.w.slots[i].ends == d.w.now)
                run_slot(&d, i);
        plan_day(&d);
        left = 0;
        for (int u = 0; u < 5; u++)
            left += d.w.left[u];
    }
    return d;
}

Test(allot_plan, random_days, .timeout = 120)
{
    const uint64_t seed = 4711;
    htc_rng        rng = { seed };
    int            launches = 0, wasted = 0, tasks = 0;
    for (int k = 0; k < 200; k++) {
        day d = play_day(&rng, k % 2 ? HTC_ALLOT_EQ1 : HTC_ALLOT_MAXMIN);
        launches += d.launches;
        wasted += d.wasted;
        tasks += d.tasks;
    }
    cr_log_info("seed %d: %d tasks, %d launches, %d wasted", (int)seed, tasks, launches, wasted);
    /* Slots that go round cost a launch each time, but hardly ever one for nothing. */
    cr_expect(wasted * 30 < launches && launches * 2 < tasks, "%d tasks, %d launches, %d wasted", tasks, launches,
              wasted);
}

/* ---- single decisions ---- */

static htc_allot_change decide_for(htc_allot_user *u, size_t n, uint64_t slots, uint64_t free_slots, size_t who)
{
    htc_allot_change c[8];
    for (size_t i = 0; i < n; i++) {
        u[i].weight = u[i].weight ? u[i].weight : 1;
        u[i].id = i;
    }
    cr_assert(eq(int, htc_allot_plan(NULL, NULL, u, n, slots, free_slots, c), HTC_OK));
    return c[who];
}

/* An agent that is starting will take a queued task: no second one is started for it. */
Test(allot_plan, no_more_agents_than_tasks)
{
    htc_allot_user u[] = { { .queued = 3, .running = 4, .agents = 6, .starting = 2 } };
    cr_expect(eq(u64, decide_for(u, 1, 100, 94, 0).grant, 1));
    u[0].starting = 3;
    cr_expect(eq(u64, decide_for(u, 1, 100, 94, 0).grant, 0));
}

/* No user gives back for one that has agents on their way to all its tasks, even if that one is below its share. */
Test(allot_plan, nobody_drains_for_what_cannot_be_used)
{
    htc_allot_user u[] = { { .queued = 50, .running = 8, .agents = 8 },
                           { .queued = 1, .running = 10, .agents = 1, .starting = 1 } };
    cr_expect(eq(u64, decide_for(u, 2, 10, 0, 0).drain, 0));
    u[1].queued = 2;
    cr_expect(eq(u64, decide_for(u, 2, 10, 0, 0).drain, 1));
}

/* The marks of a user come off before anything is started or any agent drained for that user. */
Test(allot_plan, own_marks_come_off_first)
{
    htc_allot_user   u[] = { { .queued = 50, .running = 6, .agents = 2, .draining = 4 },
                             { .queued = 50, .running = 4, .agents = 4 } };
    htc_allot_change c = decide_for(u, 2, 10, 0, 0);
    cr_expect(c.undrain == 3 && c.grant == 0 && c.drain == 0);
    c = decide_for(u, 2, 10, 0, 1);
    cr_expect(c.undrain == 0 && c.grant == 0 && c.drain == 0);
}

/* 3 marks, and one slot is still waited for: no more than 2 come off, whoever has them. */
Test(allot_plan, marks_that_are_waited_for_stay)
{
    htc_allot_user   u[] = { { .weight = 1, .running = 4, .agents = 3, .draining = 1, .id = 1 },
                             { .weight = 1, .queued = 3, .running = 7, .agents = 7, .id = 2 },
                             { .weight = 1, .running = 5, .agents = 3, .draining = 2, .id = 3 } };
    htc_allot_change c[3];
    cr_assert(eq(int, htc_allot_plan(NULL, NULL, u, 3, 18, 2, c), HTC_OK));
    cr_expect(c[1].grant == 2 && c[1].undrain == 0);
    cr_expect(eq(u64, c[0].undrain + c[2].undrain, 2));
}

/* The user furthest above the entitlement, for the weight, gives first. */
Test(allot_plan, richest_for_his_weight_gives)
{
    htc_allot_user u[] = { { .weight = 2, .queued = 50, .running = 8, .agents = 8 },
                           { .weight = 1, .queued = 50, .running = 4, .agents = 4 },
                           { .weight = 1, .queued = 1 } };
    /* 12 slots: 6, 3, 3 -> base 6, 3, 1: one is owed; 2/2 above against 1/1 above: the tie goes to the first. */
    cr_expect(eq(u64, decide_for(u, 3, 12, 0, 0).drain, 1));
    u[0].agents = u[0].running = 7;
    u[1].agents = u[1].running = 5;
    cr_expect(eq(u64, decide_for(u, 3, 12, 0, 1).drain, 1));
}

/* Slots are not taken back from one who just got them, before they have run a task. */
Test(allot_plan, a_starting_agent_keeps_the_odd_slot)
{
    htc_allot_user u[] = { { .queued = 50, .running = 3, .agents = 4, .starting = 1, .last_served = 9 },
                           { .queued = 50, .running = 3, .agents = 3, .last_served = 1 },
                           { .queued = 50, .running = 3, .agents = 3, .last_served = 2 } };
    cr_expect(eq(u64, decide_for(u, 3, 10, 0, 0).drain, 0));
    u[0].starting = 0;
    u[0].running = 4;
    cr_expect(eq(u64, decide_for(u, 3, 10, 0, 0).drain, 1));
    /* Marked once is enough, and the mark stays with that user. */
    u[0].agents = 3;
    u[0].draining = 1;
    htc_allot_change c = decide_for(u, 3, 10, 0, 0);
    cr_expect(c.drain == 0 && c.undrain == 0);
    cr_expect(eq(u64, decide_for(u, 3, 10, 0, 1).drain, 0));
}

/* Marks are counted whatever they add up to: here to 2^64, of which a sum of 64 bits sees nothing. */
Test(allot_plan, more_marks_than_64_bits)
{
    enum { N = (1 << 16) + 1 };
    htc_allot_user   *u = calloc(N, sizeof *u);
    htc_allot_change *c = calloc(N, sizeof *c);
    uint64_t          drained = 0;
    cr_assert(u && c);
    for (int i = 0; i < N; i++)
        u[i] = (htc_allot_user){ .weight = 1, .queued = 9, .running = 9, .agents = 9, .id = (uint64_t)i,
                                 .draining = i ? HTC_ALLOT_SLOTS_MAX : 0 };
    u[0].agents = u[0].running = 0;
    cr_assert(eq(int, htc_allot_plan(NULL, NULL, u, N, N, 0, c), HTC_OK));
    for (int i = 0; i < N; i++)
        drained += c[i].drain;
    cr_expect(eq(u64, drained, 0));
    free(u);
    free(c);
}

Test(allot_plan, wrong_use)
{
    htc_allot_user   u = { .weight = 1, .queued = 1 };
    htc_allot_change c = { .grant = 77 };
    cr_expect(eq(int, htc_allot_plan(NULL, NULL, &u, 1, 5, 6, &c), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_plan(NULL, NULL, &u, 1, 5, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_plan(NULL, NULL, NULL, 1, 5, 5, &c), HTC_EINVAL));
    cr_expect(eq(u64, c.grant, 77));
    cr_expect(eq(int, htc_allot_plan(NULL, NULL, NULL, 0, 5, 5, NULL), HTC_OK));
}
