/**
 * @file htcsched/swf.h
 * @brief Logs of batch systems in the Standard Workload Format (SWF): read as a stream, and written.
 *
 * A log is text: lines that begin with `;` are comments, of which those of the form `; Key: value` describe the log; each other line is a job, 18
 * numbers with blanks between them. A reader keeps 64 KiB of the log, and the lines of its header:
 *
 *     htc_swf_options o = { .size = sizeof o, .name = "log.swf", .read = read_file, .ctx = file };
 *     htc_swf_job     job;
 *     htc_swf_open(NULL, &o, &log);
 *     while ((status = htc_swf_next(log, &job, &error)) == HTC_OK)
 *         use(&job);
 *     if (status != HTC_AGAIN)
 *         fprintf(stderr, "%s:%u: %s\n", error.where, error.line, error.text);
 *     htc_swf_close(log);
 *
 * Threads: owner.   Allocation: through env, 64 KiB and the header.   Source: Parallel Workloads Archive, version 2.2 of the format.
 */
#ifndef HTCSCHED_SWF_H
#define HTCSCHED_SWF_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A log that is read. */
typedef struct htc_swf htc_swf;

/** Fields of a job. */
#define HTC_SWF_FIELDS 18
/** The longest line that is read, in bytes. */
#define HTC_SWF_LINE_MAX 65535
/** The longest line that htc_swf_line writes, with its newline and a zero. */
#define HTC_SWF_LINE_ROOM 512

/** How a job ended. */
typedef enum htc_swf_status {
    HTC_SWF_UNKNOWN = -1, /**< the log does not say */
    HTC_SWF_FAILED = 0,
    HTC_SWF_COMPLETED = 1,
    HTC_SWF_PARTIAL = 2,        /**< a part of a job that goes on */
    HTC_SWF_LAST_COMPLETED = 3, /**< its last part: it has completed */
    HTC_SWF_LAST_FAILED = 4,    /**< its last part: it has failed */
    HTC_SWF_CANCELLED = 5       /**< before or after its start */
} htc_swf_status;

/** A job, field by field. -1: not known. */
typedef struct htc_swf_job {
    int64_t number;            /**< 1: from 1 on */
    double  submit_s;          /**< 2: since the beginning of the log; never before that of the job before it */
    double  wait_s;            /**< 3: from then until it began */
    double  run_s;             /**< 4: by the clock */
    int64_t processors;        /**< 5: that it was given */
    double  cpu_s;             /**< 6: that it used, on average of its processors */
    double  memory_kb;         /**< 7: that it used, on average of its processors */
    int64_t processors_asked;  /**< 8 */
    double  run_asked_s;       /**< 9: the estimate of its user */
    double  memory_asked_kb;   /**< 10: of a processor */
    int64_t status;            /**< 11: htc_swf_status */
    int64_t user;              /**< 12 */
    int64_t group;             /**< 13 */
    int64_t program;           /**< 14 */
    int64_t queue;             /**< 15 */
    int64_t partition;         /**< 16 */
    int64_t preceding;         /**< 17: the number of a job that it waited for */
    double  think_s;           /**< 18: from the end of that job until it was submitted */
} htc_swf_job;

/** Where a log comes from. */
typedef struct htc_swf_options {
    size_t      size; /**< sizeof(htc_swf_options) */
    const char *name; /**< of the file, for errors; copied; NULL: "" */
    /**
     * Give more of it.
     *
     * @param[in]  ctx   of the options
     * @param[out] data  where to
     * @param[in]  room  bytes, at least 1
     * @param[out] n     how many there are; 0: the log has ended
     * @return HTC_OK; anything else is what htc_swf_next answers
     */
    htc_status (*read)(void *ctx, void *data, size_t room, size_t *n);
    void    *ctx;       /**< handed to it */
    uint32_t any_order; /**< 1: a job may be submitted before the one that stands before it; 0: such a line is refused */
    uint32_t reserved;  /**< 0 */
} htc_swf_options;

/** What was read so far. */
typedef struct htc_swf_counts {
    size_t   size;    /**< sizeof(htc_swf_counts), set by the caller */
    uint64_t bytes;   /**< of the log */
    uint64_t lines;   /**< of it */
    uint64_t jobs;    /**< that htc_swf_next gave */
    uint64_t refused; /**< lines that it refused */
} htc_swf_counts;

/**
 * Begin to read a log.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc); kept
 * @param[in]  options  borrowed; ctx and read are kept
 * @param[out] out      gives the reader: htc_swf_close; untouched on failure
 * @return HTC_OK; HTC_EINVAL if something is missing; HTC_EABI; HTC_ENOMEM
 *
 * Cost: two allocations; nothing is read yet.   Since: 0.2
 */
HTC_API htc_status htc_swf_open(const htc_env *env, const htc_swf_options *options, htc_swf **out);

/**
 * Free a reader.
 *
 * @param[in] log  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_swf_close(htc_swf *log);

/**
 * Read the next job. Comments and empty lines are passed over, and so is a line that was refused: the next call goes on with the one after it.
 *
 * @param[in,out] log    the reader
 * @param[out]    job    untouched on failure
 * @param[out]    error  which line and field, why, and what to do; NULL is fine
 * @return HTC_OK; HTC_AGAIN: there are no more; HTC_ESCHEMA: the line is no job: not 18 numbers, a fraction of a thing that is counted, a number below -1
 *         or above 10^15, no time of submission, or one before that of the job before it; HTC_ETOOBIG: it is longer than HTC_SWF_LINE_MAX, and the log ends with it
 *         where it is 256 times as long; HTC_ENOMEM; what read answers; HTC_EINVAL
 *
 * Cost: some 100 ns.   Since: 0.2
 */
HTC_API htc_status htc_swf_next(htc_swf *log, htc_swf_job *job, htc_error *error);

/**
 * What the header says: the value of a key, as `MaxProcs`, `UnixStartTime`, `Computer`. Lines before the first job are the header; they are read if
 * they were not yet. The first 64 KiB of it are kept.
 *
 * @param[in,out] log    the reader
 * @param[in]     key    borrowed; upper and lower case are the same
 * @param[out]    value  of the first line that has it, without blanks around it; lent until htc_swf_close; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND; HTC_EINVAL; HTC_ETOOBIG: a line of the header is too long, and another call goes on with the next one; HTC_ENOMEM; what
 *         read answers
 *
 * Cost: O(header).   Since: 0.2
 */
HTC_API htc_status htc_swf_header(htc_swf *log, const char *key, const char **value);

/**
 * What was read so far.
 *
 * @param[in]  log     borrowed
 * @param[out] counts  filled as far as its size says
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_swf_count(const htc_swf *log, htc_swf_counts *counts);

/**
 * The nodes of a job: the processors that it was given, or else asked for, divided and rounded up.
 *
 * @param[in] job       borrowed
 * @param[in] per_node  processors of a node; 0: 1
 * @return nodes; 0: the log does not say
 *
 * Pure.   Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_swf_nodes(const htc_swf_job *job, uint64_t per_node);

/**
 * Write a job as a line. Times have as many digits behind the point as they need, at most six; what is not known is -1.
 *
 * @param[in]  job   borrowed
 * @param[out] line  ends with a newline and a zero; HTC_SWF_LINE_ROOM bytes
 * @return its length, without the zero; 0: a number is below -1, above 10^15 or none
 *
 * Pure.   Cost: some us.   Since: 0.2
 */
HTC_API size_t htc_swf_line(const htc_swf_job *job, char line[HTC_SWF_LINE_ROOM]);

#ifdef __cplusplus
}
#endif
#endif
