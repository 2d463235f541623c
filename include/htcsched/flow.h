/**
 * @file htcsched/flow.h
 * @brief Tasks and what each of them waits for: built, read from a file, generated, checked, written.
 *
 * A flow is a set of tasks with dependencies, or a plain bag of tasks. It is built in memory, checked as a whole, and then handed to
 * whatever submits or simulates it:
 *
 *     htc_flow_create, htc_flow_read or htc_flow_generate
 *     htc_flow_add, htc_flow_after     each as often as there are tasks and dependencies
 *     htc_flow_check                   no cycle, no unknown task: from here on parents and children are listed
 *     htc_flow_after_files             who reads a file waits for who makes it
 *     htc_flow_get, htc_flow_parents, htc_flow_children, htc_flow_task_bytes, htc_flow_write
 *
 * What htc_flow_read and htc_flow_generate give is checked. Tasks are numbered from 0 in the order in which they were added. A task with
 * a count stands for that many equal tasks, for the memory of one; nothing may wait for it, and it waits for nothing.
 *
 * Threads: owner; a checked flow may be read by any thread.   Allocation: through env, 180 to 340 bytes a task and its texts, and 28
 * bytes a dependency. The parsers of XML and JSON take memory from malloc while they read.   Source: doc/flows.md.
 */
#ifndef HTCSCHED_FLOW_H
#define HTCSCHED_FLOW_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Tasks that wait for tasks. */
typedef struct htc_flow htc_flow;

/** Numbers of tasks are below this, whatever the options. */
#define HTC_FLOW_TASKS_MAX (UINT32_C(1) << 28)
/** No more dependencies than this, whatever the options. */
#define HTC_FLOW_EDGES_MAX (UINT32_C(1) << 30)
/** The longest name of a task, and the longest kind, in bytes. */
#define HTC_FLOW_NAME_MAX 255
/** A task with a count stands for no more tasks than this, and all tasks of a flow together are no more. */
#define HTC_FLOW_TOTAL_MAX (UINT64_C(1) << 40)

/** Bounds. Every field's zero is its default. */
typedef struct htc_flow_options {
    size_t   size;      /**< sizeof(htc_flow_options) */
    uint32_t tasks_max; /**< 0: 2^24; at most HTC_FLOW_TASKS_MAX */
    uint32_t edges_max; /**< 0: 2^26; at most HTC_FLOW_EDGES_MAX; one that is added twice counts twice */
    size_t   texts_max; /**< bytes of all names, words and lists together; 0: 2 GiB */
} htc_flow_options;

/** Options with every default. */
#define HTC_FLOW_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(htc_flow_options), 0, 0, 0                                                                              \
    }

/** What a task does where it runs no program. */
typedef enum htc_flow_builtin {
    HTC_FLOW_PROGRAM = 0, /**< it runs its executable */
    HTC_FLOW_NOOP,        /**< nothing */
    HTC_FLOW_SLEEP,       /**< waits for amount ns */
    HTC_FLOW_SPIN,        /**< computes for amount ns */
    HTC_FLOW_READ,        /**< reads amount bytes */
    HTC_FLOW_WRITE,       /**< writes amount bytes */
    HTC_FLOW_CALL,        /**< calls function of object with argument: htcsched/task_fn.h */
    HTC_FLOW_INTAKE       /**< nothing runs: it stands where tasks are added from outside while the flow runs (htc_flows_add). A flow that is
                               submitted has one at most; nothing waits for it, and it for nothing */
} htc_flow_builtin;

/** How a parent has to end so that the child may run. */
typedef enum htc_flow_rule {
    HTC_FLOW_OK = 0, /**< it succeeds */
    HTC_FLOW_ANY,    /**< it ends, however */
    HTC_FLOW_FAILED  /**< it fails */
} htc_flow_rule;

/** A data object that a task reads or makes. */
typedef struct htc_flow_file {
    const char *name;  /**< 1 to 4095 bytes, no control characters */
    uint64_t    bytes; /**< 0: not known */
} htc_flow_file;

/** A task. All texts are UTF-8. Every field's zero is its default, but that there is an executable or a builtin. */
typedef struct htc_flow_task {
    size_t size; /**< sizeof(htc_flow_task) */
    const char
        *name; /**< unique, 1 to HTC_FLOW_NAME_MAX bytes, no control characters; NULL: "t" and its number, as t17 */
    const char *kind; /**< of which program or step of the work it is, for estimates of run time; NULL: not known */
    const char *executable;       /**< a path, or a name to be looked for in PATH; NULL: see builtin */
    const char *const   *args;    /**< n_args words without the executable */
    const char *const   *env;     /**< n_env times "NAME=value" */
    const htc_flow_file *in;      /**< n_in files that it reads */
    const htc_flow_file *out;     /**< n_out files that it makes */
    size_t               n_args;  /**< of args */
    size_t               n_env;   /**< of env */
    size_t               n_in;    /**< of in */
    size_t               n_out;   /**< of out */
    uint32_t             builtin; /**< htc_flow_builtin; HTC_FLOW_PROGRAM if and only if there is an executable */
    uint32_t             cores;   /**< that it takes; 0: 1 */
    uint64_t             amount;  /**< of the builtin, in ns or bytes, below 2^63 */
    uint64_t             memory;  /**< that it may use, in bytes, below 2^63; 0: no limit */
    htc_ns               wall;    /**< that it may run, below 2^63; 0: no limit */
    htc_ns               run;     /**< that it took when it was recorded, below 2^63; 0: not known */
    uint64_t             count;   /**< so many equal tasks; 0: 1; at most HTC_FLOW_TOTAL_MAX */
    const char          *object;  /**< of HTC_FLOW_CALL alone: an absolute path, or an upload, htc:HASH */
    const char          *function; /**< of HTC_FLOW_CALL alone: letters, digits and _, at most HTC_TASK_FUNCTION_MAX */
    const char          *argument; /**< of HTC_FLOW_CALL alone: at most HTC_TASK_ARGUMENT_MAX bytes; NULL: "" */
    uint32_t             adds;     /**< 1: what it prints, or of HTC_FLOW_CALL its output, is a flow, as text or JSON lines:
                                        when it has succeeded, those tasks are added to its own flow. Of a program or a
                                        call. 0: it is output */
} htc_flow_task;

/** A task with nothing in it: set at least executable or builtin. */
#define HTC_FLOW_TASK_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(htc_flow_task), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                        \
    }

/** The other end of a dependency. */
typedef struct htc_flow_edge {
    uint32_t task; /**< the parent's number in a list of parents, the child's in a list of children */
    uint32_t rule; /**< htc_flow_rule */
} htc_flow_edge;

/**
 * Fill in every default, for languages that cannot use HTC_FLOW_OPTIONS_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flow_options_init(htc_flow_options *options, size_t size);

/**
 * Fill in every default, for languages that cannot use HTC_FLOW_TASK_INIT.
 *
 * @param[out] task  NULL is fine
 * @param[in]  size  sizeof *task as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flow_task_init(htc_flow_task *task, size_t size);

/**
 * Create an empty flow.
 *
 * @param[in]  env      kept; NULL: malloc. With an rng, names that are made to collide in its table cannot be worked out beforehand
 * @param[in]  options  borrowed; NULL: every default
 * @param[out] out      gives the flow: htc_flow_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if out is NULL or a bound too large; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_flow_create(const htc_env *env, const htc_flow_options *options, htc_flow **out);

/**
 * Free a flow and what it lent.
 *
 * @param[in] flow  NULL is fine
 *
 * Cost: O(bytes of texts / 64 KiB).   Since: 0.2
 */
HTC_API void htc_flow_destroy(htc_flow *flow);

/**
 * Add a task.
 *
 * @param[in,out] flow   as it was on failure; its tasks and lists that were lent are no longer valid
 * @param[in]     task   copied with all that it points to
 * @param[out]    id     its number; NULL is fine; untouched on failure
 * @param[out]    error  what is wrong with it; NULL is fine
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a field out of range; HTC_EEXISTS if another task has its name; HTC_EFULL beyond a bound
 *         of the options; HTC_ETOOBIG if its own texts have more than 4 MiB; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(its texts), amortised.   Since: 0.2
 */
HTC_API htc_status htc_flow_add(htc_flow *flow, const htc_flow_task *task, uint32_t *id, htc_error *error);

/**
 * Let child run after parent. Either may be added later. The same dependency again changes nothing.
 *
 * @param[in,out] flow    as it was on failure; lists that were lent are no longer valid
 * @param[in]     child   the task that waits
 * @param[in]     parent  the task that it waits for
 * @param[in]     rule    htc_flow_rule
 * @return HTC_OK; HTC_EINVAL if flow is NULL or the rule none; HTC_ECYCLE if both are the same; HTC_EFULL beyond tasks_max or edges_max;
 *         HTC_ENOMEM
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_flow_after(htc_flow *flow, uint32_t child, uint32_t parent, uint32_t rule);

/**
 * Is it a flow that can run to its end? If so, its parents and children are listed from now on, until it is changed.
 *
 * @param[in,out] flow   as it was on failure
 * @param[out]    error  why not, with the names of the tasks: all of a cycle, as far as there is room; NULL is fine
 * @return HTC_OK; HTC_ECYCLE; HTC_ENOTFOUND if a dependency names a task that was not added; HTC_EINVAL if flow is NULL, a task with a
 *         count has a dependency, or two tasks have two dependencies with different rules; HTC_ENOMEM
 *
 * Cost: O(tasks + dependencies); 8 bytes a task while it runs.   Since: 0.2
 */
HTC_API htc_status htc_flow_check(htc_flow *flow, htc_error *error);

/**
 * Let each task wait for those that make the files it reads (in, out of htc_flow_task), by the rule HTC_FLOW_OK. One that waits for them
 * already, by whatever rule, waits as before; one that reads what it makes itself does not wait for that.
 *
 * @param[in,out] flow   checked, and checked again on success; on failure some of that may be added, and it is not checked
 * @param[out]    error  why not, with the names of the tasks; NULL is fine
 * @return HTC_OK; HTC_ECYCLE; HTC_ESCHEMA: two tasks make one file; HTC_EINVAL if flow is NULL or not checked, or one of the two tasks has
 *         a count; HTC_EFULL beyond edges_max; HTC_ENOMEM
 *
 * Cost: O(tasks + files + dependencies); 72 bytes a file that is made and 12 a file that is read while it runs.   Since: 0.2
 */
HTC_API htc_status htc_flow_after_files(htc_flow *flow, htc_error *error);

/**
 * How many tasks were added.
 *
 * @param[in] flow  NULL is fine
 * @return their number: ids are below it
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_flow_count(const htc_flow *flow);

/**
 * How many tasks there are if a task with a count is as many as it says.
 *
 * @param[in] flow  NULL is fine
 * @return their number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_flow_total(const htc_flow *flow);

/**
 * How many dependencies a checked flow has.
 *
 * @param[in] flow  NULL is fine
 * @return their number; 0 if the flow is not checked
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_flow_edges(const htc_flow *flow);

/**
 * A task.
 *
 * @param[in] flow  NULL is fine
 * @param[in] id    its number
 * @return lends the task until the flow is changed: its name is set, cores and count are at least 1; NULL beyond the last one
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_flow_task *htc_flow_get(const htc_flow *flow, uint32_t id);

/**
 * The place of a task among all of htc_flow_total: those with a count before it take as many places as they say.
 *
 * @param[in] flow  NULL is fine
 * @param[in] id    its number
 * @return the place of it, or of the first of those that it stands for; htc_flow_total beyond the last one
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_flow_first(const htc_flow *flow, uint32_t id);

/**
 * What a task of a checked flow waits for, in the order in which it was added.
 *
 * @param[in]  flow   NULL is fine
 * @param[in]  id     its number
 * @param[out] edges  lends the parents until the flow is changed; untouched if there are none; NULL is fine
 * @return how many; 0 if the flow is not checked
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_flow_parents(const htc_flow *flow, uint32_t id, const htc_flow_edge **edges);

/**
 * What waits for a task of a checked flow, by number.
 *
 * @param[in]  flow   NULL is fine
 * @param[in]  id     its number
 * @param[out] edges  lends the children until the flow is changed; untouched if there are none; NULL is fine
 * @return how many; 0 if the flow is not checked
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_flow_children(const htc_flow *flow, uint32_t id, const htc_flow_edge **edges);

/**
 * The task with a name.
 *
 * @param[in]  flow  borrowed
 * @param[in]  name  borrowed
 * @param[out] id    its number; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1) expected.   Since: 0.2
 */
HTC_API htc_status htc_flow_find(const htc_flow *flow, const char *name, uint32_t *id);

/**
 * A task as whoever executes it takes it: the bytes of htc_task_to_bytes. Its index is its place (htc_flow_first) plus copy. Of its files nothing is
 * staged: they are for placement and for simulations.
 *
 * @param[in]  env   where the bytes come from; NULL: malloc
 * @param[in]  flow  borrowed
 * @param[in]  id    its number
 * @param[in]  copy  which one of a task with a count, below the count; else 0
 * @param[out] out   gives the bytes: htc_work_free; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, or id or copy too large; HTC_EUNSUPPORTED for the builtin read, which
 *         executors have of files alone; HTC_ENOMEM
 *
 * Cost: O(size of the task).   Since: 0.2
 */
HTC_API htc_status htc_flow_task_bytes(const htc_env *env, const htc_flow *flow, uint32_t id, uint64_t copy,
                                       htc_bytes *out);

/* ---- files ---- */

/** In which form a flow is written down: doc/flows.md. */
typedef enum htc_flow_format {
    HTC_FLOW_AUTO = 0,  /**< read only: known by the content */
    HTC_FLOW_TEXT,      /**< one task a line, as a person types it */
    HTC_FLOW_JSONL,     /**< one JSON object a line */
    HTC_FLOW_DAX,       /**< read only: the XML of Pegasus, 2.1 and 3.x */
    HTC_FLOW_WFCOMMONS, /**< read only: WfFormat 1.4 and 1.5 */
    HTC_FLOW_JOBS,      /**< read only: a JSON object with jobs */
    HTC_FLOW_DOT        /**< write only: for Graphviz */
} htc_flow_format;

/** Which program runs the tasks of a kind. */
typedef struct htc_flow_program {
    const char *kind;    /**< the name of the transformation as the file has it */
    const char *program; /**< a path, or a name to be looked for in PATH */
} htc_flow_program;

/** How a file is read. Every field's zero is its default. */
typedef struct htc_flow_reading {
    size_t      size;       /**< sizeof(htc_flow_reading) */
    const char *file;       /**< what errors call the file, in front of the place; NULL: nothing */
    double      time_scale; /**< recorded run times of DAX and WfFormat times this; above 0; 0: 1 */
    double      size_scale; /**< sizes of their files times this; above 0; 0: 1 */
    const htc_flow_program
          *programs; /**< of DAX and WfFormat: what runs each kind; NULL: each task sleeps for its recorded run time */
    size_t n_programs;              /**< of programs */
    size_t bytes_max;               /**< longest file; 0: 256 MiB */
    const htc_flow_options *bounds; /**< of the flow; NULL: every default */
    const char             *directory; /**< absolute: relative paths of objects begin here; NULL: they are refused */
} htc_flow_reading;

/**
 * Fill in every default of the options of htc_flow_read.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flow_reading_init(htc_flow_reading *options, size_t size);

/**
 * Read a flow. No network, no files, no entity expansion; what it names is not looked at.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  bytes    borrowed: the content of the file
 * @param[in]  format   htc_flow_format, one that can be read
 * @param[in]  options  borrowed; NULL: every default
 * @param[out] out      gives the flow, checked: htc_flow_destroy; untouched on failure
 * @param[out] error    why not, with line, element or JSON path, and what to do about it; NULL is fine
 * @return HTC_OK; HTC_ESCHEMA if it breaks the rules of its form: unknown words, parents that are not there, names that are there twice,
 *         negative times; HTC_EXML; HTC_EJSON; HTC_ECYCLE; HTC_EUNSUPPORTED for another dialect or version, triggers, sub-workflows, and tasks
 *         for which neither a program nor a run time is known; HTC_ETOOBIG beyond a bound; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_flow_read(const htc_env *env, htc_bytes bytes, uint32_t format, const htc_flow_reading *options,
                                 htc_flow **out, htc_error *error);

/**
 * Write a flow. What is written as text or JSON lines reads back as an equal flow.
 *
 * @param[in]  env     where the bytes come from; NULL: malloc
 * @param[in]  flow    borrowed; checked
 * @param[in]  format  HTC_FLOW_TEXT, HTC_FLOW_JSONL or HTC_FLOW_DOT
 * @param[out] out     gives the bytes: htc_work_free; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, the flow not checked, or the format none of these; HTC_ETOOBIG beyond 4 GiB; HTC_ENOMEM
 *
 * Cost: O(bytes written).   Since: 0.2
 */
HTC_API htc_status htc_flow_write(const htc_env *env, const htc_flow *flow, uint32_t format, htc_bytes *out);

/* ---- narrow flows ---- */

/**
 * The same flow without a task that waits for too many others, or that too many wait for: trees of inserted tasks stand between. Flows in a
 * store are stored so by themselves (htcsched/flows.h).
 *
 * The tasks keep their numbers, their names and all else; inserted ones, of the builtin noop, come behind them, under names that none of
 * them has: "gather-N" before a task, "scatter-N" behind one. Each task may run when the same tasks have ended in the same ways as in the given
 * flow, and is cancelled for the same. An inserted task runs and is done, or is cancelled; that only if all tasks of the given flow that
 * wait for something through it are cancelled too.
 *
 * @param[in]  env           kept by the new flow; NULL: malloc
 * @param[in]  flow          borrowed; checked (htc_flow_check)
 * @param[in]  parents_max   so many tasks may be waited for, at least 2
 * @param[in]  children_max  so many may wait for one, at least 3
 * @param[out] out           gives the new flow, checked: htc_flow_destroy; NULL: no task of the given one has more; untouched on failure
 * @param[out] error         why not; NULL is fine
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, the flow not checked, or a bound too small; HTC_EFULL if there are HTC_FLOW_TASKS_MAX tasks or
 *         HTC_FLOW_EDGES_MAX dependencies then; HTC_ENOMEM
 *
 * Of n dependencies in one direction, with m allowed, a way is longer by the least k with m^(k+1) >= n inserted tasks; there are about n / m of
 * them. Children with different rules are counted apart, which may be one more. Tasks that wait for the same tasks, too many of them, by the same
 * rules, added in the same order, share one tree, a level higher: so of m mappers and r reducers m + r dependencies are left and not m * r.
 *
 * Cost: O(tasks + dependencies); O(tasks) and no memory where none has more.   Since: 0.2
 */
HTC_API htc_status htc_flow_narrow(const htc_env *env, const htc_flow *flow, uint32_t parents_max, uint32_t children_max,
                                   htc_flow **out, htc_error *error);

/* ---- generated flows ---- */

/** Shapes of flows for experiments. With degree d: */
typedef enum htc_flow_shape {
    HTC_FLOW_BAG = 1,  /**< no dependencies */
    HTC_FLOW_FANOUT,   /**< the children of task i are i*d+1 .. i*d+d */
    HTC_FLOW_FANIN,    /**< its mirror: the parents of task n-1-i are n-1-(i*d+1) .. n-1-(i*d+d) */
    HTC_FLOW_PIPELINE, /**< chains of d tasks */
    HTC_FLOW_MAPREDUCE /**< the last d tasks wait for all others */
} htc_flow_shape;

/** What to generate. Every field's zero is its default, but shape and tasks. */
typedef struct htc_flow_generator {
    size_t   size;   /**< sizeof(htc_flow_generator) */
    uint32_t shape;  /**< htc_flow_shape */
    uint32_t degree; /**< d; 0: 2, of HTC_FLOW_MAPREDUCE 1 */
    uint64_t tasks;  /**< at least 1 */
    htc_ns
        length_min; /**< each task sleeps for a time drawn from length_min .. length_max, both included, below 2^63 */
    htc_ns                  length_max; /**< not below length_min, but 0: length_min */
    uint64_t                data_min; /**< each task makes one file of a size drawn likewise, which its children read */
    uint64_t                data_max; /**< not below data_min, but 0: data_min; no files if both are 0 */
    uint64_t                seed;     /**< of what is drawn: the same seed, the same flow */
    const htc_flow_options *bounds;   /**< of the flow; NULL: every default */
} htc_flow_generator;

/**
 * Fill in every default of the options of htc_flow_generate.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_flow_generator_init(htc_flow_generator *options, size_t size);

/**
 * Generate a flow of sleeping tasks. A bag in which nothing is drawn is one task with a count.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed
 * @param[out] out      gives the flow, checked: htc_flow_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a field out of range; HTC_EFULL beyond a bound; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(tasks + dependencies); O(1) for a bag in which nothing is drawn.   Since: 0.2
 */
HTC_API htc_status htc_flow_generate(const htc_env *env, const htc_flow_generator *options, htc_flow **out);

#ifdef __cplusplus
}
#endif
#endif
