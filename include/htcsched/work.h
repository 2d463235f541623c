/**
 * @file htcsched/work.h
 * @brief What work looks like: a job's specification, and any one task of it.
 *
 * A specification is one JSDL document: a template and, if there are sweeps, a generator. It is never expanded as a
 * whole: counting and showing task i cost the size of the document, not the number of tasks.
 *
 * Threads: a finished htc_spec or htc_task may be read by any thread.   Allocation: through env.
 */
#ifndef HTCSCHED_WORK_H
#define HTCSCHED_WORK_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_spec htc_spec;

typedef struct htc_spec_options {
    size_t   size;      /* sizeof(htc_spec_options) */
    uint64_t tasks_max; /* split.max_tasks; 0: 2^40 */
    size_t   bytes_max; /* longest document; 0: 15 MiB */
} htc_spec_options;

/** Read a JSDL 1.0 document with the POSIX application element and the parameter sweep extension.
 *
 * No network, no entity expansion. Refused with the element and its line in *error: not well-formed (HTC_EXML), against
 * the schema (HTC_ESCHEMA), valid but asking for what is not done here (HTC_EUNSUPPORTED), bad XPath (HTC_EXPATH), bad
 * sweep (HTC_ESWEEP), too many tasks or bytes (HTC_ETOOBIG), a staging name that leaves its directory (HTC_EPATH).
 * @param[in]  xml    borrowed.
 * @param[out] out    gives the specification: htc_spec_destroy.
 * @param[out] error  may be NULL. */
HTC_API htc_status htc_spec_parse(const htc_env *env, htc_bytes xml, const htc_spec_options *options, htc_spec **out,
                                  htc_error *error);
HTC_API void       htc_spec_destroy(htc_spec *spec);

/** The stored form, a few kilobytes for any number of tasks. Lent as long as the specification lives. */
HTC_API htc_bytes htc_spec_bytes(const htc_spec *spec);
/** Back from the stored form; HTC_ECORRUPT if it is not one. Copies. */
HTC_API htc_status htc_spec_from_bytes(const htc_env *env, htc_bytes bytes, htc_spec **out);

/** How many tasks; at least 1. */
HTC_API uint64_t htc_spec_count(const htc_spec *spec);
/** JobName, or "". Lent as long as the specification lives. */
HTC_API const char *htc_spec_name(const htc_spec *spec);
/** Warnings of the parse (ignored foreign elements), one a line, or "". Lent. */
HTC_API const char *htc_spec_warnings(const htc_spec *spec);

/** Limits of a task; 0 = none. Sizes in bytes, times in ns. */
typedef struct htc_limits {
    htc_ns   wall, cpu;
    uint64_t memory;         /* MemoryLimit: resident set of the whole process tree, watched by the agent */
    uint64_t virtual_memory; /* of each process (RLIMIT_AS) */
    uint64_t file_size, core_size, open_files, stack, data, processes;
    uint32_t cores; /* TotalCPUCount; at least 1 */
    /* core_size 0 means no core file unless core_is_set. */
    uint32_t core_is_set;
} htc_limits;

typedef enum htc_stage_flags {
    HTC_STAGE_OVERWRITE = 1,  /* CreationFlag; exactly one of the three */
    HTC_STAGE_APPEND = 2,
    HTC_STAGE_KEEP = 4,       /* dontOverwrite */
    HTC_STAGE_DELETE = 8,     /* DeleteOnTermination */
    HTC_STAGE_EXECUTABLE = 16 /* mark executable after staging */
} htc_stage_flags;

typedef struct htc_stage {
    const char *name; /* relative to the working directory; never leaves it */
    const char *uri;  /* file:/path, file:///path; of an input also htc:HASH (64 hex digits: uploaded content); of an
                         output also a relative name without scheme: its name in the result set */
    uint32_t    flags;
} htc_stage;

/** One task, ready to run. Everything is lent as long as the task lives. */
typedef struct htc_task {
    uint64_t           index;
    const char        *executable;
    const char *const *args; /* without the executable; NULL at the end */
    const char *const *env;  /* "NAME=value"; NULL at the end */
    const char        *input, *output, *error; /* standard streams, relative names or NULL */
    const char        *directory;              /* WorkingDirectory or NULL: the private scratch directory */
    const char        *values_json;            /* the assigned values by parameter, "{}" without a sweep */
    const htc_stage   *in, *out;
    size_t             n_args, n_env, n_in, n_out;
    htc_limits         limits;
    /* filters; NULL or 0 = any. host: one name, or several with commas between them */
    const char *host, *architecture, *system;
    uint64_t    memory_min; /* IndividualPhysicalMemory */
} htc_task;

/** Task index of the specification, expanded. Gives it: htc_task_destroy. HTC_EINVAL beyond the count; HTC_EPATH or
 *  HTC_ESWEEP if the assigned values make an impossible task, with the reason in *error. Cost: the document. */
HTC_API htc_status htc_spec_task(const htc_spec *spec, uint64_t index, htc_task **out, htc_error *error);
HTC_API void       htc_task_destroy(htc_task *task);

/** Encode a task for an agent. Gives *out: htc_work_free. */
HTC_API htc_status htc_task_to_bytes(const htc_env *env, const htc_task *task, htc_bytes *out);
/** Back from bytes that may come from anybody: HTC_EPROTO if they are not a task, or one with an impossible name. Gives
 *  *out: htc_task_destroy. Copies. */
HTC_API htc_status htc_task_from_bytes(const htc_env *env, htc_bytes bytes, htc_task **out);
HTC_API void       htc_work_free(const htc_env *env, htc_bytes bytes);

/** The JSDL of a command with parameters, in the manner of GNU parallel.
 *
 * words: a command with places, then sources. A place is {name}, {3} (the third source) or {} (the only source, or the
 * only one without a name), also inside a word ("--seed={seed}") and in env, input, outputs and staging; \{ is a brace,
 * and so is one that opens no place ("${HOME}", "{print $1}"). Sources:
 *
 *     ::: name=a,b,c            a list (\, is a comma); name=1:100[:step] a range, name=@file the lines of a file
 *     ::: a b c                 a list without a name
 *     :::: file...              lines of files (--each-line FILE is ":::: FILE")
 *     :::+ and ::::+            in lock-step with the source before it; otherwise every combination, the last fastest
 *
 * Without any place, sources without names become the last arguments. Empty lines of files are left out. */
typedef struct htc_command {
    size_t             size; /* sizeof(htc_command) */
    const char *const *words; /* command, then sources */
    size_t             n_words;
    const char        *name;     /* JobName or NULL */
    const char        *output, *error_output, *input;
    htc_limits         limits;
    const char *const *env; /* NAME=value; NULL at the end, or NULL */
    const htc_stage   *in, *out;
    size_t             n_in, n_out;
    /* Answers the content of a file named with @ (or --each-line); lent until the next call. NULL: files are refused. */
    htc_status (*read_file)(void *ctx, const char *path, htc_bytes *content);
    void *ctx;
    /* htc generate --pairs A B: two files (or the same one, B NULL), their places are {a} and {b}; every pair, or each
     * unordered pair i < j of one list once. */
    const char *pairs_a, *pairs_b;
    uint32_t    pairs_unordered;
} htc_command;

/** Write the document. Gives *xml: htc_work_free. HTC_EUSAGE, HTC_ESWEEP, HTC_EINPUT with the place in *error. */
HTC_API htc_status htc_command_to_jsdl(const htc_env *env, const htc_command *command, htc_bytes *xml, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
