/* What the files of the hierarchy share. A queue is an array in the order of arrival with what a scan looks at; what a scan does not
 * need stands with the job. A job that has left its place leaves a hole: holes go when the array would have to grow, or when they
 * are most of it. Whatever memory a decision could need is there before the decision is made. */
#ifndef HTC_SCHED_HIERARCHY_PRIVATE_H
#define HTC_SCHED_HIERARCHY_PRIVATE_H

#include "htcsched/hierarchy.h"

#define HIER_NONE UINT32_MAX
/* No CPU is faster, configured or measured: KFlop/s. */
#define HIER_KFLOPS_MAX 1e15

/* A job's place in a queue. */
enum { HIER_HOLE = 0, HIER_HERE, HIER_LEAVING };

typedef struct hier_entry {
    double   left;    /* KFlop still to do, running tasks in full; 0: not known */
    htc_ns   arrived; /* by the queue's clock */
    htc_ns   started; /* likewise; if has_started */
    uint32_t job;
    uint32_t cpus;    /* N of this job for C_e and 2b */
    uint32_t running; /* tasks */
    uint8_t  place;
    uint8_t  has_started;
    uint8_t  overstays;
} hier_entry;

typedef struct hier_job {
    uint64_t id;
    uint64_t features;
    uint32_t memory_mb;
    uint32_t queue;
    uint32_t at;   /* index of its entry; HIER_NONE: it waits outside */
    uint32_t to;   /* HTC_HIERARCHY_NOWHERE: to its end */
    uint32_t cpus; /* as in its entry */
    uint8_t  state; /* HTC_HIERARCHY_ESTIMATING, _QUEUED (also when it runs) or _LEAVING; 0: not in use */
    uint8_t  reason;
    uint8_t  returned;
    uint8_t  known; /* its complexity: 0 left then means that nothing is */
    htc_ns   until; /* of its estimation; a scan that tells it to leave looks no further */
    double   left;  /* while it waits outside the queue's array; else its entry's counts */
    htc_ns   arrived; /* likewise */
    uint64_t bytes;
    htc_ns   hold_until;
    double   pledged; /* to the queue it is pushed to */
    uint32_t split, tasks, tasks_first;
    uint32_t first_task; /* of those that run; HIER_NONE: none */
    uint32_t moves;
    uint32_t next_free;
} hier_job;

/* A running task; those of a job are a list. */
typedef struct hier_task {
    double   kflop;
    htc_ns   started;
    uint32_t job, task, grid;
    uint32_t next, prev;
} hier_task;

typedef struct hier_grid {
    htc_hierarchy_grid spec;
    double             latency_s, cpus, avail, kflops; /* averages; 0 latency and kflops: nothing known */
    uint32_t           sampled, unreachable;
    uint64_t           lost;
    htc_ns             busy_ns;
} hier_grid;

typedef struct hier_queue {
    htc_hierarchy_queue spec; /* defaults filled in; grids points nowhere */
    uint8_t             grid[HTC_HIERARCHY_GRIDS_MAX];
    uint64_t            grids;    /* the same as a set */
    uint32_t            policies; /* in force */
    uint32_t            peers;    /* other queues of its level */
    htc_ns              period_ns; /* of enforcement */
    double              unit;     /* P * beta */
    double              te_s, tq_s; /* the limits in seconds */
    double              factor;   /* te_factor */
    hier_entry         *entries;
    size_t              first, end, cap; /* of the array */
    size_t              live;            /* entries that are no holes */
    size_t              leaving;         /* of those */
    size_t              waiting;         /* jobs outside the array: each has room at its end */
    double              load;            /* Q */
    double              incoming;        /* pledged by pushes on their way here */
    size_t              incoming_n;
    double              peer_load; /* remote */
    uint32_t            running;
    uint32_t            running_on[HTC_HIERARCHY_GRIDS_MAX];
    uint32_t            frozen;
    htc_ns              frozen_since, frozen_ns;
    htc_ns              enforce_at, share_at;
    htc_ns              differs_since; /* HTC_NEVER: it does not */
    uint64_t            out[HTC_HIERARCHY_REASONS];
    uint64_t            shared_in, bad_bounds;
    htc_ns              busy_ns, lost_ns;
} hier_queue;

/* From 64-bit keys to numbers below HIER_NONE: open addressing, half full at most. */
typedef struct hier_cell {
    uint64_t key;
    uint32_t value;
    uint32_t filled;
} hier_cell;

typedef struct hier_index {
    hier_cell *cells;
    size_t     cap, n;
} hier_index;

struct htc_hierarchy {
    const htc_env          *env;
    htc_hierarchy_options   options; /* defaults filled in; its pointers point nowhere */
    htc_ns                  now;
    hier_grid               grids[HTC_HIERARCHY_GRIDS_MAX];
    hier_queue             *queues;
    hier_job               *jobs;
    size_t                  jobs_cap, jobs_n;
    uint32_t                free_job;
    hier_index              by_id;
    hier_task              *tasks;
    size_t                  tasks_cap, tasks_n;
    uint32_t                free_task; /* by next */
    hier_index              by_task;
    htc_hierarchy_decision *decisions; /* one for each job there is room for */
    size_t                  decisions_cap;
    htc_hierarchy_proposal *proposals; /* one a queue */
};

/* hierarchy_index.c */
htc_status htc__hierarchy_index_grow(const htc_env *env, hier_index *index);
void       htc__hierarchy_index_close(hier_index *index, size_t hole); /* others move into an empty cell, if they have to */
void       htc__hierarchy_index_free(const htc_env *env, hier_index *index);

static inline size_t htc__hierarchy_index_home(const hier_index *x, uint64_t key)
{
    key = (key ^ (key >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ (key >> 32)) & (x->cap - 1);
}
/* Where the key is, or the empty cell where it would be. There is room for one (htc__hierarchy_index_reserve). */
static inline size_t htc__hierarchy_index_place(const hier_index *x, uint64_t key)
{
    size_t at = htc__hierarchy_index_home(x, key);
    while (x->cells[at].filled && x->cells[at].key != key)
        at = (at + 1) & (x->cap - 1);
    return at;
}
/* Room for one more. HTC_ENOMEM. */
static inline htc_status htc__hierarchy_index_reserve(const htc_env *env, hier_index *index)
{
    return index->n < index->cap / 2 ? HTC_OK : htc__hierarchy_index_grow(env, index);
}
/* Into the empty cell of the key. */
static inline void htc__hierarchy_index_fill(hier_index *index, size_t at, uint64_t key, uint32_t value)
{
    index->cells[at] = (hier_cell){ key, value, 1 };
    index->n++;
}
/* The cell is empty then, and others may have moved. */
static inline void htc__hierarchy_index_clear(hier_index *index, size_t at)
{
    index->n--;
    index->cells[at].filled = 0;
    if (index->cells[(at + 1) & (index->cap - 1)].filled)
        htc__hierarchy_index_close(index, at);
}
/* HIER_NONE: not there. */
static inline uint32_t htc__hierarchy_index_find(const hier_index *index, uint64_t key)
{
    if (index->cap == 0)
        return HIER_NONE;
    const hier_cell *c = &index->cells[htc__hierarchy_index_place(index, key)];
    return c->filled ? c->value : HIER_NONE;
}

/* hierarchy_check.c: what was read of a tape can be; both indexes are filled anew. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__hierarchy_check(htc_hierarchy *h);

/* Small things that every file uses. */
static inline htc_ns htc__hierarchy_now(htc_hierarchy *h, htc_ns now) /* never backwards */
{
    h->now = now > h->now ? now : h->now;
    return h->now;
}
static inline htc_ns htc__hierarchy_clock(const hier_queue *q, htc_ns now) /* stands still while frozen */
{
    return (q->frozen ? q->frozen_since : now) - q->frozen_ns;
}
static inline htc_ns htc__hierarchy_after(htc_ns now, htc_ns delay) /* HTC_NEVER at most */
{
    return now > HTC_NEVER - delay ? HTC_NEVER : now + delay;
}
static inline hier_queue *htc__hierarchy_queue(const htc_hierarchy *h, uint32_t queue) /* NULL: none, or a remote one */
{
    return queue < h->options.queue_count && !(h->queues[queue].spec.flags & HTC_HIERARCHY_REMOTE) ? &h->queues[queue] : NULL;
}
static inline int htc__hierarchy_suits(const hier_grid *g, const hier_job *j)
{
    return g->spec.memory_mb >= j->memory_mb && (j->features & ~g->spec.features) == 0;
}
static inline uint32_t htc__hierarchy_find(const htc_hierarchy *h, uint64_t id) /* HIER_NONE: no such job */
{
    return htc__hierarchy_index_find(&h->by_id, id);
}

/* hierarchy.c */
double      htc__hierarchy_cpus_now(const htc_hierarchy *h, const hier_queue *q); /* what phi counts at most */
double      htc__hierarchy_largest_ce(const htc_hierarchy *h);
void        htc__hierarchy_refresh(htc_hierarchy *h); /* what follows from the queues' specs, for queues and jobs */
uint32_t    htc__hierarchy_cpus_for(const htc_hierarchy *h, const hier_queue *q, const hier_job *j);

/* hierarchy_jobs.c */
htc_status  htc__hierarchy_add(htc_hierarchy *h, uint32_t queue, const htc_hierarchy_job *job, htc_ns now, uint32_t *out);
htc_status  htc__hierarchy_check_job(const htc_hierarchy_job *in, htc_hierarchy_job *out);
void        htc__hierarchy_wake(const htc_hierarchy *h, hier_queue *q, htc_ns now); /* it has a job: its periods run */
void        htc__hierarchy_look_anew(htc_hierarchy *h); /* levels or limits have changed: at every queue with a job */
void        htc__hierarchy_joined(htc_hierarchy *h, hier_queue *q, htc_ns now); /* it waits outside: room is reserved */
htc_status  htc__hierarchy_reserve(htc_hierarchy *h, hier_queue *q); /* room in the array for one more that waits */
void        htc__hierarchy_append(htc_hierarchy *h, uint32_t job);   /* one that waits */
void        htc__hierarchy_detach(htc_hierarchy *h, uint32_t job);   /* from its queue; its tasks are forgotten */
void        htc__hierarchy_forget(htc_hierarchy *h, uint32_t job);   /* altogether */
void        htc__hierarchy_compact(htc_hierarchy *h, hier_queue *q);
void        htc__hierarchy_unpledge(htc_hierarchy *h, hier_job *j);
hier_entry *htc__hierarchy_entry_of(const htc_hierarchy *h, const hier_job *j); /* NULL: it waits outside */
double      htc__hierarchy_left(const htc_hierarchy *h, const hier_job *j);
double      htc__hierarchy_remaining(const htc_hierarchy *h, const hier_queue *q, const hier_entry *e, htc_ns now); /* 2a */

/* hierarchy_limits.c */
static inline int htc__hierarchy_on(const hier_queue *q, uint32_t reason)
{
    return (q->policies >> reason) & 1;
}
/* phi(T) with a number of CPUs and P * beta. */
static inline double htc__hierarchy_phi(htc_ns t, double cpus, double unit)
{
    return (double)t / 1e9 * (cpus * unit);
}
static inline double htc__hierarchy_least(double a, double b)
{
    return a < b ? a : b;
}
double htc__hierarchy_ce(const htc_hierarchy *h, const hier_queue *q, uint32_t cpus);
double htc__hierarchy_cq(const htc_hierarchy *h, const hier_queue *q);
/* The job is told to go to queue to, or to its end (HTC_HIERARCHY_NOWHERE). */
void htc__hierarchy_leave(htc_hierarchy *h, uint32_t job, uint32_t reason, uint32_t to, htc_hierarchy_decision *out);
void htc__hierarchy_decided(const htc_hierarchy *h, uint32_t job, uint32_t action, htc_hierarchy_decision *out);
/* A leaving job stays. */
void htc__hierarchy_unleave(htc_hierarchy *h, uint32_t job, htc_ns now);
/* ProcessNewTask for a job that waits outside its queue's array. */
void htc__hierarchy_process(htc_hierarchy *h, uint32_t job, htc_ns now, htc_hierarchy_decision *out);

/* hierarchy_share.c */
void htc__hierarchy_freeze(htc_hierarchy *h, htc_ns now); /* which queues' clocks stand still */
/* ECT in seconds of a job in queue q behind before KFlop. */
double htc__hierarchy_ect(const htc_hierarchy *h, const hier_queue *q, const hier_job *j, double before, double left);
/* What stands before it where it is. */
double htc__hierarchy_ahead(const htc_hierarchy *h, const hier_job *j, htc_ns now);
/* What a job has to do where it is, less the progress of its running tasks, and elsewhere, where that would be lost. */
typedef struct hier_work {
    double left, whole;
} hier_work;
/* Is it worth being in queue to instead of home, with ahead before it at home? */
int htc__hierarchy_pays(const htc_hierarchy *h, const hier_job *j, const hier_work *work, const hier_queue *home, double ahead,
                        const hier_queue *to);
#endif
