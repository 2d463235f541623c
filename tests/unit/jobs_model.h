/* The slow, obvious form of partition controllers (htcsched/sim_jobs.h) for small machines: events in an unsorted list, each node with its owner by
 * name, and clients that copy a whole record, change the copy, and have it compared node by node. Of the library it asks htc_balance_step alone. */
#ifndef HTC_TESTS_JOBS_MODEL_H
#define HTC_TESTS_JOBS_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/sim_jobs.h"
#include "sim/scale/draw.h"

#define SLOW_NODES 64
#define SLOW_JOBS  128

typedef struct slow_record {
    int      version, owner[SLOW_NODES]; /* owner: job + 1; 0: free */
    unsigned n;
} slow_record;

typedef struct slow_job {
    htc_balance_request *request;
    uint64_t             begun, at; /* at: its next event; UINT64_MAX: none */
    unsigned             id, controller, need, want, target, place;
    int                  giving, swapped, state;
    unsigned             took, order[SLOW_NODES], orders; /* order: partitions held, in the order of their first taking */
    slow_record          copy, seen;
} slow_job;

typedef struct slow_model {
    const htc_sim_jobs_options *o;
    unsigned     parts, n_jobs, next_id, freed[SLOW_JOBS], n_freed;
    slow_record  part[SLOW_NODES];
    htc_balance *balance[SLOW_NODES];
    htc_rng      rng[SLOW_NODES];
    uint64_t     busy[SLOW_NODES], serves[SLOW_NODES], now;
    slow_job     job[SLOW_JOBS];
    uint64_t     latency, requests, swaps, conflicts, steals, rounds, makespan, ended;
} slow_model;

enum { SLOW_PARSED, SLOW_LOOKS, SLOW_LOOKED, SLOW_SWAPS, SLOW_SWAPPED, SLOW_INSERTS, SLOW_INSERTED, SLOW_WAITED, SLOW_RAN, SLOW_COLLECTED };

static uint64_t slow_us(htc_ns ns)
{
    return (ns + 500) / 1000;
}

static uint64_t slow_message(const slow_model *m, unsigned nodes)
{
    double bytes = (double)nodes * m->o->node_bytes;
    return slow_us(m->o->latency_ns + 2 * m->o->pack_ns + (m->o->bandwidth > 0 ? (htc_ns)(bytes * (1e9 / m->o->bandwidth)) : 0));
}

static unsigned slow_free(const slow_record *r)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n; i++)
        n += r->owner[i] == 0;
    return n;
}

static uint64_t slow_levels(const slow_model *m, unsigned nodes)
{
    uint64_t levels = 0;
    for (unsigned deepest = nodes; deepest > 0; deepest = (deepest - 1 + m->o->fanout - 1) / m->o->fanout) /* the parent of node n - 1 is (n - 2) / fanout */
        levels++;
    return levels;
}

static void slow_later(slow_model *m, slow_job *j, uint64_t us, int state)
{
    j->state = state;
    j->at = m->now + us;
}

static void slow_ask(slow_model *m, slow_job *j, unsigned nodes, int state)
{
    m->requests++;
    slow_later(m, j, j->target == j->controller ? 0 : slow_message(m, nodes), state);
}

static void slow_answer(slow_model *m, slow_job *j, unsigned nodes, int state)
{
    uint64_t *serves = &m->serves[j->target];
    *serves = (*serves > m->now ? *serves : m->now) + slow_us(m->o->store_ns);
    slow_later(m, j, *serves - m->now + (j->target == j->controller ? 0 : slow_message(m, nodes)), state);
}

/* The copy becomes the next record. */
static void slow_change(slow_model *m, slow_job *j)
{
    (void)m;
    j->copy = j->seen;
    j->took = 0;
    for (unsigned i = 0; i < j->copy.n; i++) {
        if (j->giving && j->copy.owner[i] == (int)(j - m->job) + 1)
            j->copy.owner[i] = 0;
        else if (!j->giving && j->copy.owner[i] == 0 && j->took < j->want) {
            j->copy.owner[i] = (int)(j - m->job) + 1;
            j->took++;
        }
    }
}

static void slow_swap(slow_model *m, slow_job *j)
{
    slow_change(m, j);
    slow_ask(m, j, slow_free(&j->seen) + slow_free(&j->copy), SLOW_SWAPS);
}

static void slow_give(slow_model *m, slow_job *j)
{
    j->giving = 1;
    j->target = j->order[j->orders - 1];
    slow_ask(m, j, 0, SLOW_LOOKS);
}

static void slow_insert(slow_model *m, slow_job *j)
{
    uint64_t bits = htc__scale_draw(htc__scale_stream(m->o->seed, 2), (uint64_t)(j - m->job) << 24 ^ j->want);
    j->target = (unsigned)(((bits >> 32) * m->parts) >> 32);
    slow_ask(m, j, 0, SLOW_INSERTS);
}

static void slow_step(slow_model *m, slow_job *j, const htc_balance_answer *answer)
{
    for (;;) {
        htc_balance_action a;
        if (htc_balance_step(j->request, m->now * 1000, &m->rng[j->controller], answer, &a) != HTC_OK)
            abort();
        answer = NULL;
        if (a.kind == HTC_BALANCE_TAKE) {
            j->want = a.nodes;
            j->target = a.partition;
            slow_ask(m, j, 0, SLOW_LOOKS);
        } else if (a.kind == HTC_BALANCE_RELEASE) {
            slow_give(m, j);
        } else if (a.kind == HTC_BALANCE_WAIT) {
            if ((a.until + 999) / 1000 <= m->now)
                continue;
            slow_later(m, j, (a.until + 999) / 1000 - m->now, SLOW_WAITED);
        } else {
            htc_balance_progress p;
            (void)htc_balance_progress_of(j->request, &p);
            m->steals += p.steals;
            m->rounds += p.rounds;
            htc_balance_end(j->request);
            j->request = NULL;
            j->want = 2 + j->orders;
            slow_insert(m, j);
        }
        return;
    }
}

static void slow_next(slow_model *m, unsigned c)
{
    for (unsigned i = 0; i < m->n_jobs; i++) {
        slow_job *j = &m->job[i];
        if (j->controller != c || j->need)
            continue;
        j->need = m->o->list[i].nodes;
        j->id = m->n_freed ? m->freed[--m->n_freed] : m->next_id++;
        j->begun = m->now;
        m->busy[c] = (m->busy[c] > m->now ? m->busy[c] : m->now) + slow_us(m->o->job_ns + m->o->node_ns * j->need);
        slow_later(m, j, m->busy[c] - m->now, SLOW_PARSED);
        return;
    }
}

static void slow_happens(slow_model *m, slow_job *j)
{
    uint64_t           levels = slow_levels(m, j->need), hop = slow_message(m, 0);
    htc_balance_answer got = { 0, 0 };
    slow_record       *r = &m->part[j->target];
    j->at = UINT64_MAX;
    switch (j->state) {
    case SLOW_PARSED:
        if (htc_balance_begin(m->balance[j->controller], j->need, &j->request) != HTC_OK)
            abort();
        slow_step(m, j, NULL);
        break;
    case SLOW_WAITED:
        slow_step(m, j, NULL);
        break;
    case SLOW_LOOKS:
        j->seen = *r;
        slow_answer(m, j, slow_free(r), SLOW_LOOKED);
        break;
    case SLOW_LOOKED:
        if (j->giving || slow_free(&j->seen))
            slow_swap(m, j);
        else
            slow_step(m, j, &got);
        break;
    case SLOW_SWAPS:
        m->swaps++;
        j->swapped = r->version == j->seen.version;
        m->conflicts += !j->swapped;
        if (j->swapped) {
            if (memcmp(r->owner, j->seen.owner, sizeof r->owner) != 0)
                abort();
            *r = j->copy;
            r->version++;
        }
        j->seen = *r;
        slow_answer(m, j, j->swapped ? 0 : slow_free(r), SLOW_SWAPPED);
        break;
    case SLOW_SWAPPED:
        if (!j->swapped && (j->giving || slow_free(&j->seen))) {
            slow_swap(m, j);
        } else if (j->giving) {
            (void)htc_balance_learn(m->balance[j->controller], j->target, slow_free(&j->seen));
            if (--j->orders) {
                slow_give(m, j);
            } else if (j->request) {
                j->giving = 0;
                slow_step(m, j, NULL);
            } else {
                m->freed[m->n_freed++] = j->id;
                m->ended++;
            }
        } else {
            unsigned i = 0;
            while (i < j->orders && j->order[i] != j->target)
                i++;
            if (j->swapped && i == j->orders)
                j->order[j->orders++] = j->target;
            got = (htc_balance_answer){ j->swapped ? j->took : 0, slow_free(&j->seen) };
            slow_step(m, j, &got);
        }
        break;
    case SLOW_INSERTS:
        slow_answer(m, j, 0, SLOW_INSERTED);
        break;
    case SLOW_INSERTED:
        if (--j->want) {
            slow_insert(m, j);
            break;
        }
        m->latency += m->now - j->begun;
        slow_later(m, j, levels * (2 * hop + slow_us(m->o->launch_ns)) + slow_us(m->o->list[j - m->job].length), SLOW_RAN);
        slow_next(m, j->controller);
        break;
    case SLOW_RAN:
        m->makespan = m->now;
        slow_later(m, j, levels * hop, SLOW_COLLECTED);
        break;
    default:
        slow_give(m, j);
        break;
    }
}

/* The list is of at most SLOW_JOBS jobs, the machine of SLOW_NODES nodes, a tick of 1 us. */
static void slow_run(slow_model *m, const htc_sim_jobs_options *o)
{
    memset(m, 0, sizeof *m);
    m->o = o;
    m->n_jobs = (unsigned)o->n_list;
    m->parts = (o->nodes + o->partition - 1) / o->partition;
    for (unsigned c = 0; c < m->parts; c++) {
        htc_balance_options b = HTC_BALANCE_OPTIONS_INIT;
        b.policy = o->policy;
        b.partitions = m->parts;
        b.own = c;
        b.tries = o->tries;
        b.wait_ns = o->wait_ns;
        b.wait_ns_max = o->wait_ns_max;
        if (htc_balance_create(NULL, &b, &m->balance[c]) != HTC_OK)
            abort();
        m->rng[c].state = htc__scale_draw(htc__scale_stream(o->seed, 3), c);
        m->part[c].n = o->nodes - c * o->partition < o->partition ? o->nodes - c * o->partition : o->partition;
    }
    for (unsigned i = 0; i < m->n_jobs; i++) {
        m->job[i].controller = o->list[i].controller;
        m->job[i].at = UINT64_MAX;
    }
    for (unsigned c = 0; c < m->parts; c++)
        slow_next(m, c);
    for (;;) {
        slow_job *first = NULL;
        for (slow_job *j = m->job; j < m->job + m->n_jobs; j++)
            if (j->at != UINT64_MAX && (!first || j->at < first->at || (j->at == first->at && j->id < first->id)))
                first = j;
        if (!first)
            break;
        m->now = first->at;
        slow_happens(m, first);
    }
    for (unsigned c = 0; c < m->parts; c++)
        htc_balance_destroy(m->balance[c]);
}

#endif
