/**
 * @file htcsched/flows.h
 * @brief Flows in a store: submitted, looked at, cancelled, removed.
 *
 * A flow (htcsched/flow.h) becomes records in a store: a header, ledgers that say who answers for its tasks, and, if tasks wait for tasks, a
 * record for each. Workers that know the flow's number run it from there; whoever submitted it need not stay.
 *
 *     uint64_t id;
 *     htc_flows_submit(store, flow, NULL, &id, &error);   // nobody runs it yet
 *     htc_flows_start(store, id, 0, &error);              // from here on workers do
 *     htc_flows_view view = { .size = sizeof view };
 *     while (htc_flows_look(store, id, &view, &error) == HTC_OK && view.state == HTC_FLOWS_RUNNING)
 *         wait_a_little();
 *     printf("%llu done, %llu failed\n", (unsigned long long)view.done, (unsigned long long)view.failed);
 *
 * Those who have no htc_store, but a client of the store in a machine of their own (htcsched/kv.h), write the records themselves:
 * htc_flows_records_create, _count, _get.
 *
 * Tasks may add tasks while their flow runs (adds of htc_flow_task): its number of tasks grows. An open flow, one with an intake
 * (HTC_FLOW_INTAKE), takes tasks from outside too, of several clients at once, until it is closed:
 *
 *     while ((status = htc_flows_add(store, id, more, NULL, name, &error)) == HTC_AGAIN)
 *         wait_a_little();
 *     status = htc_flows_add(store, id, NULL, &(htc_flows_adding){ .size = sizeof(htc_flows_adding), .close = 1 }, NULL, &error);
 *
 * A task that waits for more than 1,024 others, or that more than 4,096 wait for, is stored with trees of inserted tasks before or behind it
 * (htc_flow_narrow). They have the last numbers. Counts are of the tasks that were submitted.
 *
 * doc/design/workers.md says what is stored, and why nothing is lost or counted twice.
 *
 * Threads: owner of the store, of records their owner.   Allocation: through env where it is named, else malloc.
 */
#ifndef HTCSCHED_FLOWS_H
#define HTCSCHED_FLOWS_H

#include "htcsched/flow.h"
#include "htcsched/registry.h"
#include "htcsched/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How a flow is submitted; every field's zero is its default. */
typedef enum htc_flows_layout {
    HTC_FLOWS_EACH = 0, /**< every worker that is expected has as many (of a graph at most 2048 together) */
    HTC_FLOWS_ONE,      /**< one worker has all, or as many of a graph as one ledger has; the others steal */
    HTC_FLOWS_RANDOM    /**< each task is any worker's, so that some have more than others */
} htc_flows_layout;

/** How a flow is run. Every field's zero is its default. */
typedef struct htc_flows_options {
    size_t      size;      /**< sizeof(htc_flows_options) */
    const char *user;      /**< whose tasks they are, at most 63 bytes; NULL: "" */
    uint32_t    tries;     /**< how often a task is run at most, if it fails; 0: once */
    uint32_t    workers;   /**< so many are expected: the tasks are laid out for them, and spread by stealing all the same; 0: 1 */
    uint64_t    max_fails; /**< beyond so many failed tasks all that has not ended is cancelled; 0: never */
    const char *directory; /**< where its commands run, absolute, and find their files themselves; NULL: each in a private scratch
                                directory, to which the files are brought that it reads (htc_flow_task.in), and of which those are kept
                                that it makes (out). Builtins have none */
    const char *inputs;    /**< without directory: where files lie that commands read and no task of the flow makes, absolute, on each node; NULL:
                                such files are not looked for */
    const char *policy;    /**< where tasks wait that read files: "flds", "rlds", "mdl" or "mlb" (htcsched/locality.h); NULL: "flds" */
    const char *steal;     /**< whom idle workers ask for tasks: a policy of htcsched/steal.h by its name, at most 31 bytes; NULL: the default */
    uint32_t    tt_rule;   /**< htc_locality_tt_rule, of "flds" */
    htc_ns      tt_ns;     /**< where the time threshold of "flds" begins; 0: its default */
    uint64_t    ratio;     /**< of "flds" and "rlds", in millionths; 0: 500,000 */
    uint64_t    bytes_per_s; /**< between two nodes, for these policies; 0: 125,000,000 */
    uint32_t    owner;     /**< HTC_FLOW_USER of its number (htcsched/work.h) */
    uint32_t    layout;    /**< htc_flows_layout: where tasks are at first */
    const htc_registry *policies; /**< names that steal may be; its workers have to know them too (htc_worker_options.policies); borrowed. NULL: those of the library */
} htc_flows_options;

/** Options that are all default. */
#define HTC_FLOWS_OPTIONS_INIT { sizeof(htc_flows_options), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL }

/** Where a flow stands. */
typedef enum htc_flows_state {
    HTC_FLOWS_BUILDING = 1, /**< its records are being written */
    HTC_FLOWS_RUNNING,      /**< workers may run it */
    HTC_FLOWS_ENDED,        /**< each of its tasks is done, failed or cancelled */
    HTC_FLOWS_ABORTED       /**< its submitter went away before it was complete */
} htc_flows_state;

/** A flow as it stands. */
typedef struct htc_flows_view {
    size_t   size;      /**< sizeof(htc_flows_view) */
    uint32_t state;     /**< htc_flows_state */
    uint32_t graph;     /**< 1: tasks wait for tasks, and each has a record; 0: a bag */
    uint64_t job;       /**< number by which its outputs are stored; 0: its own */
    uint64_t tasks;     /**< that were submitted, and those that tasks have added since */
    uint64_t done;      /**< counted so far */
    uint64_t failed;    /**< counted so far */
    uint64_t cancelled; /**< counted so far */
    uint64_t ledgers;   /**< records that share out the tasks */
    uint32_t workers;   /**< that live */
    uint32_t slots;     /**< of all these */
    uint32_t tries;     /**< how often a task is run at most */
    char     user[64];  /**< whose it is */
    uint64_t max_fails; /**< beyond so many failed tasks all that has not ended is cancelled; 0: never */
    uint32_t data;      /**< 1: some of its tasks read what others make */
    char     policy[8]; /**< where tasks wait that read files */
    char     steal[32]; /**< whom idle workers ask; "": the default */
    uint64_t inserted;  /**< tasks that stand between these, as they were stored; not among the counts */
    uint64_t added;     /**< of tasks: those that tasks have added */
    uint32_t adds;      /**< 1: some of its tasks add tasks */
    uint64_t from;      /**< the flow that this one goes on (htc_flows_resume); 0: none. What was done there of a bag is among the counts here */
    uint32_t open;      /**< 1: it takes tasks (htc_flows_add). Each of its intakes is a task, and counts as one */
} htc_flows_view;

/** A worker of a flow. What it points to is lent for the call. */
typedef struct htc_flows_worker {
    size_t      size;    /**< sizeof(htc_flows_worker) */
    uint64_t    number;  /**< of those that live its own */
    uint32_t    slots;   /**< tasks that it runs at once */
    const char *node;    /**< the name of its host; "": not known */
    const char *address; /**< where other workers reach it */
} htc_flows_worker;

/**
 * Called for each worker.
 *
 * @param[in] ctx     as given
 * @param[in] worker  lent for the call
 * @return 1: go on; 0: enough
 */
typedef int (*htc_flows_worker_fn)(void *ctx, const htc_flows_worker *worker);

/** How tasks are added to a flow that runs. Every field's zero is its default. */
typedef struct htc_flows_adding {
    size_t   size;   /**< sizeof(htc_flows_adding) */
    uint64_t worker; /**< the worker that is to begin with them (htc_flows_workers): a wish, which is not fulfilled if that is gone,
                          or has some 2,048 tasks that have not ended; the others steal. 0: the one that has the flow's intake */
    uint32_t close;  /**< 1: the flow takes no tasks after these, and ends when all of its tasks have */
} htc_flows_adding;

/** Options with every default. */
#define HTC_FLOWS_ADDING_INIT { sizeof(htc_flows_adding), 0, 0 }

/** What a task waits for, as it knows it. */
typedef struct htc_flows_parent {
    uint32_t rule;  /**< htc_flow_rule */
    uint32_t ended; /**< 0: it has not, as far as is known here; 1: well; 2: otherwise */
} htc_flows_parent;

/** A task that waits for another one. */
typedef struct htc_flows_child {
    uint64_t task;   /**< its number */
    uint64_t parent; /**< which of its parents that other one is, from 0 */
} htc_flows_child;

/** A file that a task makes, of a flow whose tasks have directories of their own. */
typedef struct htc_flows_file {
    const char *name;  /**< as it was submitted; also of the output that is stored */
    uint64_t    bytes; /**< 0: not known */
    uint32_t    read;  /**< 1: another task reads it; 0: it is a result */
} htc_flows_file;

/** How a task stands, and ended. What it points to is lent for the call. */
typedef struct htc_flows_task {
    size_t      size;      /**< sizeof(htc_flows_task) */
    uint64_t    number;    /**< from 0: as they were submitted, as they were added, as they were inserted */
    const char *name;      /**< as it was submitted */
    const char *state;     /**< "waiting", "ready" (also while it runs), "done", "failed", "cancelled" */
    const char *reason;    /**< of a failure or cancellation; "" */
    uint32_t    parents;   /**< that it waits for, or waited for */
    uint32_t    untold;    /**< of these, those that have not ended, as far as is known here */
    uint32_t    failures;  /**< attempts that failed and were repeated */
    uint32_t    attempt;   /**< the one whose end counts; of its outputs */
    htc_status  status;    /**< of that: HTC_OK, HTC_EEXIT, ... */
    uint32_t    exit_code; /**< of that */
    uint32_t    signal;    /**< of that; 0: none */
    uint64_t    worker;    /**< whose it was; 0: it never ran */
    htc_ns      began;     /**< wall clock; 0: it never ran */
    htc_ns      ended;     /**< wall clock */
    const htc_flows_parent *waits;      /**< one for each of parents, in the order in which they were submitted; their numbers: children of others */
    const htc_flows_child  *children;   /**< n_children tasks that wait for it */
    uint32_t                n_children; /**< of children */
    const char             *kind;       /**< of which program or step it is; "": not known */
    const htc_flows_file   *files;      /**< n_files that it makes, or is to */
    uint32_t                n_files;    /**< of files */
    uint64_t                data;       /**< bytes that it reads of what others make, as far as it is known */
    uint32_t                inserted;   /**< 1: it was not submitted, and stands between tasks that were */
    uint64_t                stored;     /**< the number by which its outputs are stored */
    uint64_t                moved;      /**< of data: bytes that came from other workers for the attempt that has ended */
    uint32_t                intake;     /**< 1: nobody runs it: it stands where tasks are added (htc_flows_add) */
} htc_flows_task;

/**
 * Called for each task.
 *
 * @param[in] ctx   as given
 * @param[in] task  lent for the call
 * @return 1: go on; 0: enough
 */
typedef int (*htc_flows_task_fn)(void *ctx, const htc_flows_task *task);

/**
 * Fill in every default, for languages that cannot use HTC_FLOWS_OPTIONS_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flows_options_init(htc_flows_options *options, size_t size);

/**
 * Write the records of a flow. Workers leave it alone until htc_flows_start.
 *
 * @param[in,out] store    nothing outstanding
 * @param[in]     flow     checked (htc_flow_check); borrowed
 * @param[in]     options  borrowed; NULL: every default
 * @param[out]    id       its number, never used before in this store; set as soon as anything is stored, also on failure: htc_flows_remove
 * @param[out]    error    why, and the next step; NULL is fine
 * @return HTC_OK; HTC_EINVAL for an empty flow or options out of range; HTC_ETOOBIG: the record of a task is longer than 256 KiB;
 *         HTC_EUNSUPPORTED: a task that nothing here can execute, or that reads what a builtin is to make; HTC_ESCHEMA: two tasks make one
 *         file, or one that has a count makes what is read; HTC_EPATH: a file's name leaves the task's directory; as htc_flow_narrow; as
 *         htc_store_ask; HTC_ENOMEM
 *
 * Cost: a request for each 64 tasks of a graph; of a bag one for each worker. A copy of the flow where tasks are inserted.   Since: 0.2
 */
HTC_API htc_status htc_flows_submit(htc_store *store, const htc_flow *flow, const htc_flows_options *options, uint64_t *id,
                                    htc_error *error);

/**
 * Write the records of a flow that goes on where another one has ended: its tasks that are not done, under their names. What is done is not run
 * again, and lets what waits for it run, unless a task that is run reads what it has made (htc_flow_task.in). Neither is a task that was to run only if one fails which is done, nor what needs it. Workers leave the
 * new flow alone until htc_flows_start; the old one stays as it is.
 *
 * A bag keeps the numbers of its tasks: the new flow has as many, of which those that are done are counted as done from the beginning.
 *
 * @param[in,out] store    nothing outstanding
 * @param[in]     from     the flow that has ended
 * @param[in]     options  borrowed; NULL: every default. Here 0 of tries and of max_fails means: as it was in the old flow. user, directory and
 *                         inputs are those of the old flow: NULL
 * @param[out]    id       the number of the new one; set as soon as anything is stored, also on failure: htc_flows_remove
 * @param[out]    tasks    that it runs; NULL is fine; untouched on failure
 * @param[out]    error    why, and the next step; NULL is fine
 * @return HTC_OK; HTC_EEXISTS: nothing is left to be run; HTC_ENOTFOUND; HTC_EBUSY: it has not ended; HTC_ETOOBIG: the missing
 *         tasks of a bag lie in more than 524,288 pieces (numbers in a row are one), or in fewer with numbers far apart; HTC_EINVAL for options out
 *         of range; HTC_ECORRUPT: records that cannot be read, are no graph, or do not say of all tasks of a bag how they ended; as htc_store_ask;
 *         HTC_ENOMEM
 *
 * Cost: of a graph two scans of the old tasks and a request for each 64 new ones; about 32 bytes of memory a task and 8 a dependency. Of a bag its
 * log is read; 24 bytes of memory a piece.   Since: 0.2
 */
HTC_API htc_status htc_flows_resume(htc_store *store, uint64_t from, const htc_flows_options *options, uint64_t *id, uint64_t *tasks,
                                    htc_error *error);

/**
 * Let workers run it.
 *
 * @param[in,out] store  nothing outstanding
 * @param[in]     id     of htc_flows_submit
 * @param[in]     job    number by which its outputs are stored; 0: the flow's own
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK, also if it runs already; HTC_ENOTFOUND; HTC_EBUSY: it has ended; as htc_store_ask
 *
 * Cost: two round trips.   Since: 0.2
 */
HTC_API htc_status htc_flows_start(htc_store *store, uint64_t id, uint64_t job, htc_error *error);

/**
 * Put other policies in force. Workers follow at once; tasks that wait already stay where they are, unless the new policy moves them.
 *
 * @param[in,out] store   nothing outstanding
 * @param[in]     id      its number
 * @param[in]     policy  as htc_flows_options.policy; NULL: as it is
 * @param[in]     steal   as htc_flows_options.steal; "": the default; NULL: as it is
 * @param[out]    error   why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND: no such flow, or no such policy; HTC_EBUSY: it has ended; as htc_store_ask
 *
 * Cost: two round trips.   Since: 0.2
 */
HTC_API htc_status htc_flows_set(htc_store *store, uint64_t id, const char *policy, const char *steal, htc_error *error);

/**
 * htc_flows_set with names of a registry.
 *
 * @param[in,out] store     as htc_flows_set
 * @param[in]     id        as htc_flows_set
 * @param[in]     policy    as htc_flows_set
 * @param[in]     steal     a steal policy of the registry; "": the default; NULL: as it is
 * @param[in]     policies  as htc_flows_options.policies
 * @param[out]    error     as htc_flows_set
 * @return as htc_flows_set
 *
 * Cost: as htc_flows_set.   Since: 0.2
 */
HTC_API htc_status htc_flows_set_of(htc_store *store, uint64_t id, const char *policy, const char *steal, const htc_registry *policies, htc_error *error);

/**
 * How a flow stands. Counts of one that runs may be behind what has happened, never ahead; with inserted tasks each by so many more.
 *
 * @param[in,out] store  nothing outstanding
 * @param[in]     id     its number
 * @param[out]    view   filled as far as its size says; untouched on failure
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EINVAL; as htc_store_ask
 *
 * Cost: a round trip; of one that runs a scan of its ledgers; of one that has ended with tasks that were inserted and some that are not done
 * a request for each 64 of the inserted ones.   Since: 0.2
 */
HTC_API htc_status htc_flows_look(htc_store *store, uint64_t id, htc_flows_view *view, htc_error *error);

/**
 * Tell of each task of a graph, in the order of their numbers, and then of those that were inserted; of a bag of those that have ended, in any
 * order. A bag's tasks have no records of their own: their ledgers' logs say of each how it ended, which attempt, whose, and when. Of function
 * tasks that were called together each has its share of the call's time. name and kind are the program or function.
 *
 * @param[in,out] store  nothing outstanding; not to be used by fn
 * @param[in]     id     its number
 * @param[in]     fn     called for each
 * @param[in]     ctx    handed to fn
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EINVAL; HTC_ECORRUPT: a record that cannot be read; as htc_store_ask
 *
 * Cost: a scan of its tasks; of a bag one of its ledgers, and a request for each 1 KiB of their logs.   Since: 0.2
 */
HTC_API htc_status htc_flows_tasks(htc_store *store, uint64_t id, htc_flows_task_fn fn, void *ctx, htc_error *error);

/**
 * Cancel tasks that have not ended: those that wait never run, those that run are ended, and what can no longer run because of them is
 * cancelled too. It is stored when this answers, and carried out by the workers.
 *
 * @param[in,out] store  nothing outstanding
 * @param[in]     id     its number
 * @param[in]     from   first task
 * @param[in]     to     behind the last one; UINT64_MAX: all from there on
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EBUSY: it has ended; HTC_EINVAL: no such tasks; HTC_EFULL: 256 ranges that do not touch are cancelled already; as
 *         htc_store_ask
 *
 * Cost: two round trips, more if others change the flow at the same time.   Since: 0.2
 */
HTC_API htc_status htc_flows_cancel(htc_store *store, uint64_t id, uint64_t from, uint64_t to, htc_error *error);

/**
 * Fill in every default, for languages that cannot use HTC_FLOWS_ADDING_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flows_adding_init(htc_flows_adding *options, size_t size);

/**
 * Add tasks to an open flow that runs: all of them, or none. Several clients may do so at the same moment. The tasks may wait for each other, and
 * for no others. Their names begin with that of the intake which they came through: intake.2/NAME.
 *
 * @param[in,out] store    nothing outstanding
 * @param[in]     id       its number
 * @param[in]     flow     checked (htc_flow_check), without an intake, at most 1,023 tasks, in 128 KiB as JSON lines; NULL: none, to close
 * @param[in]     options  borrowed; NULL: every default
 * @param[out]    intake   the name of that intake, HTC_FLOW_NAME_MAX + 1 bytes; NULL is fine
 * @param[out]    error    why, and the next step; NULL is fine
 * @return HTC_OK; HTC_AGAIN: what was added before, by anybody, is still being taken up by a worker: again in some ms, or when the flow has a
 *         worker; HTC_EBUSY: the flow has ended, was closed or cancelled, or has not been started; HTC_EUNSUPPORTED: it was not submitted with an intake,
 *         or nothing here executes a task; HTC_ETOOBIG: too many tasks or bytes: add some of them first; HTC_EFULL: 2^24 tasks were
 *         added to the flow; HTC_EINVAL; HTC_ENOTFOUND: no such flow; as htc_flows_submit; as htc_store_ask: whether they were added is not known then
 *
 * Cost: three round trips; every record is made once, to see that it can be.   Since: 0.2
 */
HTC_API htc_status htc_flows_add(htc_store *store, uint64_t id, const htc_flow *flow, const htc_flows_adding *options, char *intake, htc_error *error);

/**
 * Tell of each worker of a flow that lives.
 *
 * @param[in,out] store  nothing outstanding; not to be used by fn
 * @param[in]     id     its number
 * @param[in]     fn     called for each
 * @param[in]     ctx    handed to fn
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK, also if there is no such flow; HTC_EINVAL; as htc_store_ask
 *
 * Cost: a scan of the workers.   Since: 0.2
 */
HTC_API htc_status htc_flows_workers(htc_store *store, uint64_t id, htc_flows_worker_fn fn, void *ctx, htc_error *error);

/**
 * Remove the records of a flow that has ended, or was never started. Its outputs are the job's.
 *
 * @param[in,out] store  nothing outstanding
 * @param[in]     id     its number
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EBUSY: it runs; as htc_store_ask
 *
 * Cost: a request for each 64 records.   Since: 0.2
 */
HTC_API htc_status htc_flows_remove(htc_store *store, uint64_t id, htc_error *error);

/* ---- records, for a client of one's own ---- */

/** The records of a flow. */
typedef struct htc_flows_records htc_flows_records;

/**
 * The records of a flow, to be written by a client of one's own. Pure: no store is asked.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  flow     checked (htc_flow_check); kept, and not changed meanwhile
 * @param[in]  options  copied; NULL: every default
 * @param[in]  id       the flow's number, not 0; never used before in that store: htc_flows_submit draws them by adding 1 to the key "g/flow"
 * @param[out] out      gives the records: htc_flows_records_destroy; untouched on failure
 * @param[out] error    why, and the next step; NULL is fine
 * @return HTC_OK; as htc_flows_submit for the flow and the options; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(tasks).   Since: 0.2
 */
HTC_API htc_status htc_flows_records_create(const htc_env *env, const htc_flow *flow, const htc_flows_options *options, uint64_t id,
                                            htc_flows_records **out, htc_error *error);

/**
 * Free records.
 *
 * @param[in] records  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flows_records_destroy(htc_flows_records *records);

/**
 * How many records there are.
 *
 * @param[in] records  not NULL
 * @return at least 3
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_flows_records_count(const htc_flows_records *records);

/**
 * One record, as a request. Write the first one, and when it is answered those between, in any order, many at a time. When all of these are
 * answered write the last one: from then on workers run the flow.
 *
 * The first is the header as one that is being built; HTC_MISMATCH: there is a flow of that number. Those between are answered with
 * HTC_MISMATCH where they are there already. The last is the header as one that runs; its version is the caller's to set, to what the answer
 * to the first said. HTC_MISMATCH: somebody has cancelled or removed the flow meanwhile.
 *
 * @param[in,out] records  not NULL
 * @param[in]     i        from 0, below their count; in order each costs least
 * @param[out]    request  all but its version; key and value are lent until the next call for these records; untouched on failure; not NULL
 * @return HTC_OK; HTC_EINVAL: no such record; HTC_ETOOBIG: the record of a task is longer than 256 KiB; HTC_EUNSUPPORTED: a task that nothing
 *         here can execute; HTC_ENOMEM
 *
 * Cost: O(its bytes), and O(parents) for each child.   Since: 0.2
 */
HTC_API htc_status htc_flows_records_get(htc_flows_records *records, uint64_t i, htc_kv_request *request);

#ifdef __cplusplus
}
#endif
#endif
