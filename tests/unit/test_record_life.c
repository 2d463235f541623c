/* The life of a taking, as record.h tells it: controllers that take, commit, run and give back, sweepers that tidy up, all of them as
 * slow as can be (each access to the store is a step, and steps of all interleave at random), and all may die at any step. No node
 * ever runs two jobs, and when all jobs are gone and a sweeper has been round all nodes are free.
 *
 * Each rule of the header is then left out, and the same test has to see it. */
#include "expect.h"
#include <string.h>

#include "htcsched/record.h"
#include "property.h"

enum { NODES = 6, JOBS = 4, CONTROLLERS = 4, ACTORS = 6 /* the others are sweepers */, ATTEMPTS_MAX = 6 };

/* What may be left out. */
typedef enum rule {
    ALL,
    VERSION_ON_SETTLE,
    VERSION_ON_THE_WAY_BACK,
    COMMIT_BY_ATTEMPT,
    FENCE_BEFORE_RELEASE,
    ENTRY_AFTER_RECORD
} rule;

typedef struct job_record {
    uint64_t attempt;
    uint32_t state; /* htc_record_job */
    int      started;
} job_record;

typedef struct entry {
    uint64_t        attempt; /* 0: there is none */
    uint64_t        version;
    htc_record_set *set;
} entry;

typedef enum step {
    IDLE,
    TAKE_READ,
    TAKE_SWAP,
    ENTRY_READ,
    ENTRY_WRITE,
    COMMIT,
    SETTLE_READ,
    SETTLE_JOB,
    SETTLE_SWAP,
    START,
    END,
    BACK_READ,
    BACK_ENTRY,
    BACK_READ_LATE,
    UNSETTLE,
    REMOVE,
    RELEASE,
    FINISH,
    SWEEP_READ,
    SWEEP_JOB,
    SWEEP_RELEASE,
    SWEEP_FENCE
} step;

/* A worker: where it is, and what it has read. */
typedef struct actor {
    step            at;
    int             sweeper;
    uint64_t        asleep; /* for so many turns */
    uint32_t        job;
    uint64_t        attempt;
    htc_bytes       seen; /* its copy of the partition's record */
    uint64_t        version;
    uint64_t        entry_version;
    htc_record_set *set;
} actor;

typedef struct world {
    htc_rng    *rng;
    rule        left_out;
    htc_bytes   record;
    uint64_t    version;
    job_record  jobs[JOBS];
    entry       entries[JOBS];
    actor       actors[ACTORS];
    int         runs[NODES]; /* job + 1 */
    const char *broken;      /* what went wrong first */
} world;

static htc_bytes name_of(uint32_t job)
{
    static const char names[JOBS] = { 'a', 'b', 'c', 'd' };
    return (htc_bytes){ &names[job], 1 };
}

static void break_rule(world *w, const char *what)
{
    if (!w->broken)
        w->broken = what;
}

/* ---- The store ---- */

static htc_bytes copy(htc_bytes bytes)
{
    htc_record_set *none = NULL;
    htc_bytes       same = { NULL, 0 };
    cr_assert(htc_record_set_create(NULL, &none) == HTC_OK);
    cr_assert(htc_record_up(NULL, bytes, none, &same) == HTC_OK);
    htc_record_set_destroy(none);
    return same;
}

static void read_record(world *w, actor *a)
{
    htc_record_free(NULL, a->seen);
    a->seen = copy(w->record);
    a->version = w->version;
}

/* Takes next. By version; by value where that rule is left out. */
static int swap(world *w, actor *a, htc_bytes next, int by_version)
{
    int same = by_version ? a->version == w->version : htc_bytes_equal(a->seen, w->record);
    htc_record_free(NULL, same ? w->record : next);
    if (same) {
        w->record = next;
        w->version++;
    }
    return same;
}

static int has_taking(htc_bytes record, uint32_t job, uint64_t attempt)
{
    htc_record_taking t;
    for (uint32_t i = 0; htc_record_taking_at(NULL, record, i, &t, NULL) == HTC_OK; i++)
        if (t.attempt == attempt && htc_bytes_equal(t.job, name_of(job)))
            return 1;
    return 0;
}

static int is(const world *w, const actor *a, uint32_t state)
{
    return w->jobs[a->job].attempt == a->attempt && w->jobs[a->job].state == state;
}

/* ---- Controllers ---- */

static void choose(world *w, actor *a)
{
    a->job = (uint32_t)htc_rng_below(w->rng, JOBS);
    job_record *j = &w->jobs[a->job];
    if (j->state == HTC_RECORD_JOB_WAITING && j->attempt < ATTEMPTS_MAX) {
        j->attempt++; /* by compare-and-swap: who begins anew ends the attempt before */
        a->at = TAKE_READ;
    } else if (j->state == HTC_RECORD_JOB_COMMITTED) {
        a->at = SETTLE_READ; /* of a controller that died */
    } else if (j->state == HTC_RECORD_JOB_ENDED) {
        a->at = BACK_READ;
    }
    a->attempt = j->attempt;
}

static void take_swap(world *w, actor *a)
{
    htc_record_ask ask = HTC_RECORD_ASK_INIT;
    htc_bytes      next;
    ask.job = name_of(a->job);
    ask.attempt = a->attempt;
    ask.most = 1 + (uint32_t)htc_rng_below(w->rng, NODES / 2);
    htc_record_set_clear(a->set);
    a->at = IDLE; /* nothing free, or a later attempt is at work */
    if (htc_record_take(NULL, a->seen, &ask, &next, a->set) == HTC_OK)
        a->at = swap(w, a, next, 0) ? ENTRY_READ : TAKE_READ; /* by value is enough: nothing but the record decides */
}

static void entry_read(world *w, actor *a)
{
    const entry *e = &w->entries[a->job];
    a->entry_version = e->version;
    a->at = e->attempt > a->attempt ? IDLE : ENTRY_WRITE;
}

static void entry_write(world *w, actor *a)
{
    entry *e = &w->entries[a->job];
    a->at = e->version == a->entry_version ? COMMIT : ENTRY_READ;
    if (a->at == COMMIT) {
        htc_record_set_clear(e->set);
        cr_assert(htc_record_set_join(e->set, a->set) == HTC_OK);
        e->attempt = a->attempt;
        e->version++;
    }
}

static void commit(world *w, actor *a)
{
    int may = w->left_out == COMMIT_BY_ATTEMPT ? w->jobs[a->job].state == HTC_RECORD_JOB_WAITING
                                               : is(w, a, HTC_RECORD_JOB_WAITING);
    a->at = may ? SETTLE_READ : IDLE;
    if (may) {
        w->jobs[a->job].state = HTC_RECORD_JOB_COMMITTED;
        w->jobs[a->job].attempt = a->attempt;
        w->jobs[a->job].started = 0;
    }
}

static void settle_swap(world *w, actor *a)
{
    htc_bytes  next;
    htc_status status = htc_record_settle(NULL, a->seen, name_of(a->job), a->attempt, &next);
    int        done = status == HTC_ENOTFOUND || swap(w, a, next, w->left_out != VERSION_ON_SETTLE);
    a->at = !done ? (a->sweeper ? IDLE : SETTLE_READ) : a->sweeper ? IDLE : START;
}

static void start(world *w, actor *a)
{
    job_record *j = &w->jobs[a->job];
    a->at = IDLE;
    if (!is(w, a, HTC_RECORD_JOB_COMMITTED))
        return;
    a->at = END;
    if (j->started)
        return; /* by the controller before this one */
    j->started = 1;
    for (uint32_t i = 0; i < NODES; i++)
        if (htc_record_set_has(w->entries[a->job].set, i)) {
            if (w->runs[i])
                break_rule(w, "a node runs two jobs");
            w->runs[i] = (int)a->job + 1;
        }
}

static void end(world *w, actor *a)
{
    a->at = IDLE;
    if (!is(w, a, HTC_RECORD_JOB_COMMITTED))
        return;
    for (int i = 0; i < NODES; i++)
        if (w->runs[i] == (int)a->job + 1)
            w->runs[i] = 0;
    w->jobs[a->job].state = HTC_RECORD_JOB_ENDED;
    a->at = BACK_READ;
}

/* ---- The way back, of controllers and sweepers ---- */

static void back_entry(world *w, actor *a)
{
    const entry *e = &w->entries[a->job];
    if (!is(w, a, HTC_RECORD_JOB_ENDED)) {
        a->at = IDLE; /* somebody has finished it */
    } else if (e->attempt == a->attempt) {
        htc_record_set_clear(a->set);
        cr_assert(htc_record_set_join(a->set, e->set) == HTC_OK);
        a->at = w->left_out == ENTRY_AFTER_RECORD ? BACK_READ_LATE : UNSETTLE;
    } else {
        a->at = has_taking(a->seen, a->job, a->attempt) ? RELEASE : FINISH;
    }
}

static void unsettle(world *w, actor *a)
{
    htc_bytes  next;
    htc_status status = htc_record_unsettle(NULL, a->seen, name_of(a->job), a->attempt, a->set, &next);
    a->at = BACK_READ;
    if (status == HTC_OK && swap(w, a, next, w->left_out != VERSION_ON_THE_WAY_BACK))
        a->at = REMOVE;
    else if (status != HTC_OK && a->version == w->version)
        break_rule(w, "an entry names nodes that are not the job's");
}

static void remove_entry(world *w, actor *a)
{
    entry *e = &w->entries[a->job];
    if (e->attempt == a->attempt) {
        e->attempt = 0;
        e->version++;
    }
    a->at = BACK_READ;
}

static void release(world *w, actor *a)
{
    htc_bytes  next;
    htc_status status = htc_record_release(NULL, a->seen, name_of(a->job), a->attempt, &next, NULL);
    if (status == HTC_OK)
        swap(w, a, next, 1);
    a->at = a->at == RELEASE ? BACK_READ : IDLE;
}

static void finish(world *w, actor *a)
{
    job_record *j = &w->jobs[a->job];
    a->at = IDLE;
    if (!is(w, a, HTC_RECORD_JOB_ENDED))
        return;
    if (htc_rng_below(w->rng, 2) && j->attempt < ATTEMPTS_MAX) {
        j->attempt++; /* requeued */
        j->state = HTC_RECORD_JOB_WAITING;
    } else {
        j->state = HTC_RECORD_JOB_GONE;
    }
}

/* ---- Sweepers ---- */

static void sweep_read(world *w, actor *a)
{
    static const uint32_t states = JOBS;
    htc_record_summary    s;
    htc_record_taking     t;
    read_record(w, a);
    a->at = IDLE;
    cr_assert(htc_record_count(NULL, a->seen, &s) == HTC_OK);
    if (s.takings == 0)
        return;
    cr_assert(htc_record_taking_at(NULL, a->seen, (uint32_t)htc_rng_below(w->rng, s.takings), &t, NULL) == HTC_OK);
    a->attempt = t.attempt;
    for (a->job = 0; a->job < states && !htc_bytes_equal(t.job, name_of(a->job)); a->job++)
        ;
    a->at = SWEEP_JOB;
}

static void sweep_job(world *w, actor *a)
{
    const job_record *j = &w->jobs[a->job];
    switch (htc_record_judge(a->attempt, j->attempt, j->state)) {
    case HTC_RECORD_RELEASE:
        a->at = SWEEP_RELEASE;
        break;
    case HTC_RECORD_SETTLE:
        a->at = SETTLE_SWAP;
        break;
    case HTC_RECORD_GO_BACK:
        a->at = BACK_READ;
        break;
    default:
        a->at = htc_rng_below(w->rng, 4) ? IDLE : w->left_out == FENCE_BEFORE_RELEASE ? SWEEP_RELEASE : SWEEP_FENCE;
    }
}

static void sweep_fence(world *w, actor *a)
{
    if (is(w, a, HTC_RECORD_JOB_WAITING))
        w->jobs[a->job].attempt++;
    a->at = IDLE;
}

/* ---- All of them ---- */

static void act(world *w, actor *a)
{
    switch (a->at) {
    case IDLE:
        if (a->sweeper)
            a->at = SWEEP_READ;
        else
            choose(w, a);
        break;
    case TAKE_READ:
        read_record(w, a);
        a->at = TAKE_SWAP;
        break;
    case TAKE_SWAP:
        take_swap(w, a);
        break;
    case ENTRY_READ:
        entry_read(w, a);
        break;
    case ENTRY_WRITE:
        entry_write(w, a);
        break;
    case COMMIT:
        commit(w, a);
        break;
    case SETTLE_READ:
        read_record(w, a);
        a->at = SETTLE_JOB;
        break;
    case SETTLE_JOB:
        a->at = is(w, a, HTC_RECORD_JOB_COMMITTED) ? SETTLE_SWAP : IDLE;
        break;
    case SETTLE_SWAP:
        settle_swap(w, a);
        break;
    case START:
        start(w, a);
        break;
    case END:
        end(w, a);
        break;
    case BACK_READ:
        read_record(w, a);
        a->at = BACK_ENTRY;
        break;
    case BACK_ENTRY:
        back_entry(w, a);
        break;
    case BACK_READ_LATE:
        read_record(w, a);
        a->at = UNSETTLE;
        break; /* what the entry says may be over by now */
    case UNSETTLE:
        unsettle(w, a);
        break;
    case REMOVE:
        remove_entry(w, a);
        break;
    case RELEASE:
    case SWEEP_RELEASE:
        release(w, a);
        break;
    case FINISH:
        finish(w, a);
        break;
    case SWEEP_READ:
        sweep_read(w, a);
        break;
    case SWEEP_JOB:
        sweep_job(w, a);
        break;
    case SWEEP_FENCE:
        sweep_fence(w, a);
        break;
    }
}

static void open_world(world *w, htc_rng *rng, rule left_out)
{
    *w = (world){ .rng = rng, .left_out = left_out };
    cr_assert(htc_record_create(NULL, NODES, 0, &w->record) == HTC_OK);
    for (int i = 0; i < JOBS; i++) {
        w->jobs[i] = (job_record){ 0, HTC_RECORD_JOB_WAITING, 0 };
        cr_assert(htc_record_set_create(NULL, &w->entries[i].set) == HTC_OK);
    }
    for (int i = 0; i < ACTORS; i++) {
        w->actors[i].sweeper = i >= CONTROLLERS;
        cr_assert(htc_record_set_create(NULL, &w->actors[i].set) == HTC_OK);
    }
}

static void close_world(world *w)
{
    for (int i = 0; i < JOBS; i++)
        htc_record_set_destroy(w->entries[i].set);
    for (int i = 0; i < ACTORS; i++) {
        htc_record_set_destroy(w->actors[i].set);
        htc_record_free(NULL, w->actors[i].seen);
    }
    htc_record_free(NULL, w->record);
}

/* A while of everybody at once; then all jobs are led to their end and the sweepers go round. */
static const char *run_world(htc_rng *rng, rule left_out)
{
    world              w;
    htc_record_summary s = { .nodes = NODES };
    open_world(&w, rng, left_out);
    for (int i = 0; i < 600 && !w.broken; i++) {
        actor *a = &w.actors[htc_rng_below(rng, ACTORS)];
        if (a->asleep)
            a->asleep--;
        else if (htc_rng_below(rng, 60) == 0)
            a->at = IDLE; /* dies; somebody else takes over */
        else if (htc_rng_below(rng, 12) == 0)
            a->asleep = htc_rng_below(rng, 40); /* the others do a lot meanwhile */
        else
            act(&w, a);
    }
    for (int i = 0; i < ACTORS; i++)
        w.actors[i].asleep = 0;
    for (int i = 0; i < 2000 && !w.broken; i++) {
        for (int j = 0; j < JOBS; j++)
            if (w.jobs[j].state == HTC_RECORD_JOB_WAITING) {
                w.jobs[j].attempt = ATTEMPTS_MAX + 1; /* cancelled: nobody may begin it or commit it */
                w.jobs[j].state = HTC_RECORD_JOB_GONE;
            }
        act(&w, &w.actors[htc_rng_below(rng, ACTORS)]);
    }
    cr_assert(htc_record_count(NULL, w.record, &s) == HTC_OK);
    if (s.free != NODES)
        break_rule(&w, "nodes are lost");
    close_world(&w);
    return w.broken;
}

Test(record_life, no_node_is_given_to_two_and_none_is_lost)
{
    PROPERTY(rng, 3000)
    {
        const char *broken = run_world(&rng, ALL);
        HOLDS(broken == NULL, "%s", broken ? broken : "");
    }
}

/* A rule that could be left out unseen would be no rule, or this test no test. Each shows within some thousand lives. */
Test(record_life, every_rule_is_needed)
{
    static const struct {
        rule        left_out;
        const char *what;
    } table[] = { { VERSION_ON_SETTLE, "settle by version" },
                  { VERSION_ON_THE_WAY_BACK, "unsettle by version" },
                  { COMMIT_BY_ATTEMPT, "commit by attempt" },
                  { FENCE_BEFORE_RELEASE, "raise the attempt before a release" },
                  { ENTRY_AFTER_RECORD, "read the entry after the record" } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *broken = NULL;
        uint64_t    seed = 1;
        for (; seed <= 20000 && !broken; seed++) {
            htc_rng rng = { seed };
            broken = run_world(&rng, table[i].left_out);
        }
        cr_expect(broken != NULL, "%s: nobody would notice", table[i].what);
        cr_log_info("%s: seed %llu, %s", table[i].what, (unsigned long long)seed - 1, broken ? broken : "");
    }
}
