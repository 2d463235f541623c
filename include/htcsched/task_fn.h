/**
 * @file htcsched/task_fn.h
 * @brief What a shared object of function tasks is: for people who write one. Nothing of the library is linked.
 *
 * A function task is a call of a C function instead of a process. A helper process of the task's user loads the object once and calls the
 * function for one task number after another, in several threads at a time. The whole of a small object:
 *
 *     #include <htcsched/task_fn.h>
 *
 *     HTC_TASK_FN_OBJECT;
 *
 *     HTC_TASK_FN int square(htc_fn_task *task)
 *     {
 *         uint64_t y = task->number * task->number;
 *         return task->append(task, &y, sizeof y);
 *     }
 *
 *     cc -shared -fPIC -o square.so square.c
 *
 * A function returns 0 when all is well. Anything else, or a reason given to fail, is the failure of this task alone. So are a signal,
 * exit(), pthread_exit() and a time limit that is passed: other tasks that were under way in the process are run again. A task may therefore
 * run more than once; its outputs count once. In a flow the output of a task that adds tasks is those (doc/flows.md, adds=output).
 *
 * Threads: a function is called by several threads at once, each with an htc_fn_task of its own, which is valid until it returns.
 * Allocation: the function's own affair. Descriptors, the working directory, signal handlers and static variables are shared by all tasks
 * of the process; whatever a function changes of them stays.   Since: 0.2
 */
#ifndef HTCSCHED_TASK_FN_H
#define HTCSCHED_TASK_FN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface. An object of another version is not called. It grows by members at the end of htc_fn_task, without a new
 * number. */
#define HTC_TASK_FN_ABI UINT32_C(1)

/** Bytes of the input of one task, at most. */
#define HTC_TASK_FN_BYTES_MAX 4096

/** Bytes of the output of one task, at most. */
#define HTC_TASK_FN_OUTPUT_MAX (128 * 1024)

/** Bytes of a reason, with the zero; more is cut. */
#define HTC_TASK_FN_REASON_MAX 256

/** A name that C and C++ write the same way; for the macros below. */
#ifdef __cplusplus
#define HTC_TASK_FN_C extern "C"
#else
#define HTC_TASK_FN_C extern
#endif

/** Before the definition of a function that tasks name: it is seen from outside of the object, under its C name. */
#define HTC_TASK_FN HTC_TASK_FN_C __attribute__((visibility("default")))

/** Once in each object: its version, which is looked at before a function of it is called. */
#define HTC_TASK_FN_OBJECT                                                                                             \
    HTC_TASK_FN const uint32_t htc_task_fn_abi;                                                                        \
    const uint32_t htc_task_fn_abi = HTC_TASK_FN_ABI

/** One task, as its function sees it. */
typedef struct htc_fn_task htc_fn_task;

/** One task, as its function sees it. What is behind size bytes is not there. */
struct htc_fn_task {
    size_t      size;     /**< of this struct in the program that calls; a member that came later than 0.2 is there if it lies below */
    uint64_t    number;   /**< of the task */
    const void *in;       /**< its input, in_bytes of them; valid until the function returns */
    size_t      in_bytes; /**< 0: the task has its number alone */
    const char *argument; /**< the same for all tasks of one template; "" if there is none */
    /**
     * Add to the task's output.
     *
     * @param[in,out] task   the one that the function was given
     * @param[in]     bytes  copied
     * @param[in]     n      how many
     * @return 0; -1 if the output would be longer than HTC_TASK_FN_OUTPUT_MAX: then the task has failed with HTC_ETOOBIG. -1 too if there is
     *         no memory for it: then it has failed with HTC_EEXIT
     */
    int (*append)(htc_fn_task *task, const void *bytes, size_t n);
    /**
     * Say why the task has failed. The first reason counts.
     *
     * @param[in,out] task    the one that the function was given
     * @param[in]     reason  copied
     * @return -1, for `return task->fail(task, "...")`
     */
    int (*fail)(htc_fn_task *task, const char *reason);
    /**
     * Is the result still wanted? Long functions ask from time to time; who does not is ended with the process.
     *
     * @param[in] task  the one that the function was given
     * @return 1 if the task was cancelled: return soon, with anything; else 0
     */
    int (*cancelled)(const htc_fn_task *task);
};

/**
 * A function of an object.
 *
 * @param[in,out] task  lent until it returns
 * @return 0; anything else: the task has failed
 */
typedef int (*htc_task_fn)(htc_fn_task *task);

#ifdef __cplusplus
}
#endif
#endif
