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

/** A job's specification, compiled. */
typedef struct htc_spec htc_spec;

/** What a specification may ask for; every field's zero is its default. */
typedef struct htc_spec_options {
    size_t   size;      /**< sizeof(htc_spec_options) */
    uint64_t tasks_max; /**< split.max_tasks; 0: 2^40 */
    size_t   bytes_max; /**< longest document; 0: 15 MiB */
} htc_spec_options;

/**
 * Read a JSDL 1.0 document with the POSIX application element and the parameter sweep extension.
 *
 * No network, no entity expansion.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  xml      borrowed
 * @param[in]  options  borrowed; NULL: the defaults
 * @param[out] out      gives the specification: htc_spec_destroy; untouched on failure
 * @param[out] error    why, with the element and its line; NULL is fine
 * @return HTC_OK; HTC_EXML if it is not well-formed; HTC_ESCHEMA against the schema; HTC_EUNSUPPORTED if it is valid but asks for
 *         what is not done here; HTC_EXPATH; HTC_ESWEEP; HTC_ETOOBIG for too many tasks or bytes; HTC_EPATH for a staging name
 *         that leaves its directory; HTC_ENOEXEC without an executable; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(size), whatever the number of tasks.   Since: 0.1
 */
HTC_API htc_status htc_spec_parse(const htc_env *env, htc_bytes xml, const htc_spec_options *options, htc_spec **out,
                                  htc_error *error);

/**
 * Free a specification and what it lent.
 *
 * @param[in] spec  NULL is fine
 *
 * Cost: O(size).   Since: 0.1
 */
HTC_API void htc_spec_destroy(htc_spec *spec);

/**
 * The stored form: a few kilobytes for any number of tasks.
 *
 * @param[in] spec  borrowed
 * @return lends the bytes as long as the specification lives
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_bytes htc_spec_bytes(const htc_spec *spec);

/**
 * Back from the stored form.
 *
 * @param[in]  env    kept; NULL: malloc
 * @param[in]  bytes  copied
 * @param[out] out    gives the specification: htc_spec_destroy; untouched on failure
 * @return HTC_OK; HTC_ECORRUPT if it is not one; HTC_ENOMEM
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_status htc_spec_from_bytes(const htc_env *env, htc_bytes bytes, htc_spec **out);

/**
 * How many tasks it has.
 *
 * @param[in] spec  borrowed
 * @return their number, at least 1
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API uint64_t htc_spec_count(const htc_spec *spec);

/**
 * JobName.
 *
 * @param[in] spec  borrowed
 * @return lends the name as long as the specification lives; "" if there is none
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const char *htc_spec_name(const htc_spec *spec);

/**
 * The first JobProject of the document, without space around it. It is no part of the tasks, and so not of htc_spec_bytes.
 *
 * @param[in] spec  borrowed
 * @return lends the text as long as the specification lives; "" if there is none, or the specification was made from bytes
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_spec_project(const htc_spec *spec);

/** What a document says of its job beside its tasks: a member of a request to submit (doc/api.md), as text. Since: 0.2 */
typedef struct htc_wish {
    const char *name;  /**< "array", "retries", "priority", "max_running", "begin" (seconds since 1970), "signal", "paused" ("true", "false"), "after"
                            ("12:any", as often as there are jobs), "output", "error_output", "compat", "on_end" (a document), "mail_to", "mail_on" */
    const char *value; /**< of it */
} htc_wish;

/**
 * The element Submission of the document. It is no part of the tasks, and so not of htc_spec_bytes.
 *
 * @param[in]  spec    borrowed
 * @param[out] wishes  lends them, in the document's order, as long as the specification lives
 * @return their number; 0 if there are none, or the specification was made from bytes
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_spec_wishes(const htc_spec *spec, const htc_wish **wishes);

/**
 * What the parse found odd but took: foreign elements that are ignored, for one.
 *
 * @param[in] spec  borrowed
 * @return lends the warnings, one a line, as long as the specification lives; "" if there are none
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const char *htc_spec_warnings(const htc_spec *spec);

/** The program of a task that is a seat at a flow: whoever runs it is a worker of the flow that its one argument numbers, until the flow
 *  has ended. */
#define HTC_FLOW_EXECUTABLE "htc:flow"

/** Whose flow has this number: 0: of whoever started the system; else the uid, on the system's machine, of the user. Of nobody else a
 *  seat at it is run, and in a store the keys of all flows of a user begin with the same (f/ or w/ and this number in eight hexadecimal
 *  digits). Since: 0.2 */
#define HTC_FLOW_USER(number) ((uint32_t)((uint64_t)(number) >> 32))

/** Limits of a task; 0 = none. Sizes in bytes, times in ns. */
typedef struct htc_limits {
    htc_ns   wall;           /**< WallTimeLimit */
    htc_ns   cpu;            /**< CPUTimeLimit, of each process */
    uint64_t memory;         /**< MemoryLimit: resident set of the whole process tree, watched by the agent */
    uint64_t virtual_memory; /**< of each process (RLIMIT_AS) */
    uint64_t file_size;      /**< FileSizeLimit */
    uint64_t core_size;      /**< CoreDumpLimit, if core_is_set */
    uint64_t open_files;     /**< OpenDescriptorsLimit */
    uint64_t stack;          /**< StackSizeLimit */
    uint64_t data;           /**< DataSegmentLimit */
    uint64_t processes;      /**< ProcessCountLimit */
    uint32_t cores;          /**< TotalCPUCount; at least 1; on how many nodes: htc_task.node_cores */
    uint32_t core_is_set;    /**< 1: core_size counts, 0 too; 0: no core file */
} htc_limits;

/** What to do with a staged file. */
typedef enum htc_stage_flags {
    HTC_STAGE_OVERWRITE = 1,  /**< CreationFlag; exactly one of the three */
    HTC_STAGE_APPEND = 2,     /**< behind what is there */
    HTC_STAGE_KEEP = 4,       /**< dontOverwrite */
    HTC_STAGE_DELETE = 8,     /**< DeleteOnTermination */
    HTC_STAGE_EXECUTABLE = 16 /**< mark executable after staging */
} htc_stage_flags;

/** One file to bring in or to take out. */
typedef struct htc_stage {
    const char *name; /**< relative to the working directory; never leaves it */
    const char *uri;  /**< file:/path, file:///path, or a URL of http, https or ftp; of an input also htc:HASH (64 hex digits:
                           uploaded content); of an output also a relative name without scheme: its name in the result set */
    uint32_t    flags; /**< htc_stage_flags */
} htc_stage;

/** What a task is. */
typedef enum htc_task_kind {
    HTC_TASK_COMMAND = 0,  /**< a process: executable, args and all that goes with it */
    HTC_TASK_BUILTIN = 1,  /**< a function that the system has: function and argument (htcsched/calls.h, RUN_SPAN) */
    HTC_TASK_FUNCTION = 2  /**< a function of a shared object (htcsched/task_fn.h): object, function and argument */
} htc_task_kind;

/** Bytes of the name of a counted resource, at most, without the zero. Since: 0.2 */
#define HTC_RESOURCE_NAME_MAX 31
/** Counted resources of one task, at most. Since: 0.2 */
#define HTC_TASK_RESOURCES_MAX 8
/** The resource that is counted in devices, each of which one task has for itself. Since: 0.2 */
#define HTC_RESOURCE_GPU "gpu"
/** Nodes of one task, at most. Since: 0.2 */
#define HTC_TASK_NODES_MAX 128

/** So many of something that a site counts: GPUs, licences. Since: 0.2 */
typedef struct htc_resource {
    const char *name;  /**< lower-case letters, digits, _ . and -, a letter first */
    uint32_t    count; /**< at least 1 */
} htc_resource;

/** Bytes of the name of a function, at most, without the zero. */
#define HTC_TASK_FUNCTION_MAX 255
/** Bytes of the argument of a function, at most, without the zero. */
#define HTC_TASK_ARGUMENT_MAX 1023

/** One task, ready to run. Everything is lent as long as the task lives. */
typedef struct htc_task {
    uint64_t           index;      /**< from 0 */
    const char        *executable; /**< a path, or a name to be looked for in PATH */
    const char *const *args; /**< without the executable; NULL at the end */
    const char *const *env;  /**< "NAME=value"; NULL at the end */
    const char        *input;        /**< standard input: a relative name, or NULL */
    const char        *output;       /**< standard output: a relative name, or NULL */
    const char        *error;        /**< standard error: a relative name, or NULL */
    const char        *directory;    /**< WorkingDirectory or NULL: the private scratch directory */
    const char        *values_json;  /**< the assigned values by parameter, "{}" without a sweep */
    const htc_stage   *in;           /**< n_in files to bring in */
    const htc_stage   *out;          /**< n_out files to take out */
    size_t             n_args;       /**< of args */
    size_t             n_env;        /**< of env */
    size_t             n_in;         /**< of in */
    size_t             n_out;        /**< of out */
    htc_limits         limits;       /**< what it may use */
    const char        *host;         /**< filter: one name, or several with commas between them; NULL: any */
    const char        *architecture; /**< filter: CPUArchitectureName; NULL: any */
    const char        *system;       /**< filter: OperatingSystemName; NULL: any */
    uint64_t           memory_min;   /**< filter: IndividualPhysicalMemory in bytes; 0: any */
    uint32_t           kind;         /**< htc_task_kind; of a function executable may be NULL or "", and args are not looked at */
    const char        *function;     /**< the builtin, or the symbol in object: letters, digits and _, no digit first; NULL of a command */
    const char        *argument;     /**< of the function; NULL: "" */
    const char        *object;       /**< htc:HASH (64 hex digits: uploaded content) or an absolute path; NULL but of HTC_TASK_FUNCTION */
    const htc_resource *resources;   /**< n_resources that are counted, no name twice. Since: 0.2 */
    const char        *container;    /**< image that it runs in; NULL: none. Since: 0.2 */
    uint32_t           n_resources;  /**< of resources, at most HTC_TASK_RESOURCES_MAX. Since: 0.2 */
    uint32_t           node_cores;   /**< cores on each of limits.cores / node_cores nodes, IndividualCPUCount; 0: all on one node. Since: 0.2 */
    const char        *devices;      /**< as it was handed out: the numbers of its GPUs, commas between; NULL: none. Since: 0.2 */
    const char        *nodes;        /**< as it was handed out: the names of its nodes, blanks between, the first one leads; limits.cores are those of
                                          this node then; NULL: one node. Since: 0.2 */
    uint32_t           member;       /**< which of nodes this one is, from 0. Since: 0.2 */
    const char        *credentials;  /**< as it was handed out: users and passwords by host for its URLs, in the syntax of .netrc, at most 4096 bytes;
                                          nobody is to see them; NULL: none. Since: 0.2 */
} htc_task;

/**
 * Expand one task of a specification.
 *
 * @param[in]  spec   borrowed
 * @param[in]  index  from 0, below htc_spec_count
 * @param[out] out    gives the task: htc_task_destroy; untouched on failure
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_EINVAL beyond the count; HTC_EPATH, HTC_ESWEEP and others of htc_spec_parse if the assigned values make an
 *         impossible task; HTC_ENOMEM
 *
 * Cost: O(size of the document), whatever the index.   Since: 0.1
 */
HTC_API htc_status htc_spec_task(const htc_spec *spec, uint64_t index, htc_task **out, htc_error *error);

/**
 * Free a task and what it lent.
 *
 * @param[in] task  NULL is fine
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_task_destroy(htc_task *task);

/**
 * Encode a task for an agent.
 *
 * @param[in]  env   where the bytes come from; NULL: malloc
 * @param[in]  task  borrowed
 * @param[out] out   gives the bytes: htc_work_free; untouched on failure
 * @return HTC_OK; HTC_EINVAL if the task is not whole; HTC_ENOMEM; HTC_EFULL
 *
 * Cost: O(size).   Since: 0.1
 */
HTC_API htc_status htc_task_to_bytes(const htc_env *env, const htc_task *task, htc_bytes *out);

/**
 * Back from bytes that may come from anybody.
 *
 * @param[in]  env    what it points to is kept; NULL: malloc
 * @param[in]  bytes  copied
 * @param[out] out    gives the task: htc_task_destroy; untouched on failure
 * @return HTC_OK; HTC_EPROTO if they are not a task, or one with an impossible name; HTC_ENOMEM
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_status htc_task_from_bytes(const htc_env *env, htc_bytes bytes, htc_task **out);

/**
 * Free bytes that this header gave.
 *
 * @param[in] env    with which they were made
 * @param[in] bytes  an empty run is fine
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_work_free(const htc_env *env, htc_bytes bytes);

/** The JSDL of a command with parameters, in the manner of GNU parallel.
 *
 * words: a command with places, then sources. A place is {name}, {3} (the third source) or {} (the only source, or the
 * only one without a name), also inside a word ("--seed={seed}") and in env, input, outputs and staging; a backslash in front
 * makes it a plain brace, and so is one that opens no place ("${HOME}", "{print $1}"). Sources:
 *
 *     ::: name=a,b,c            a list (a comma with a backslash in front belongs to a value)
 *     ::: name=1:100[:step]     a range
 *     ::: name=@file            the lines of a file
 *     ::: a b c                 a list without a name
 *     :::: file...              lines of files (--each-line FILE is ":::: FILE")
 *     :::+ and ::::+            in lock-step with the source before it; otherwise every combination, the last fastest
 *
 * Without any place, sources without names become the last arguments. Empty lines of files are left out. */
typedef struct htc_command {
    size_t             size; /**< sizeof(htc_command) */
    const char *const *words; /**< command, then sources */
    size_t             n_words; /**< of words */
    const char        *name;     /**< JobName or NULL */
    const char        *output;       /**< name for standard output, or NULL */
    const char        *error_output; /**< name for standard error, or NULL */
    const char        *input;        /**< name for standard input, or NULL */
    htc_limits         limits;       /**< of each task */
    const char *const *env; /**< NAME=value; NULL at the end, or NULL */
    const htc_stage   *in;    /**< n_in files to bring in */
    const htc_stage   *out;   /**< n_out files to take out */
    size_t             n_in;  /**< of in */
    size_t             n_out; /**< of out */
    /**
     * Reads a file named with @ or behind ::::. NULL: files are refused.
     *
     * @param[in]  ctx      of the command
     * @param[in]  path     borrowed
     * @param[out] content  lends the content until it is called again
     * @return HTC_OK; anything else ends htc_command_to_jsdl with HTC_EINPUT
     */
    htc_status (*read_file)(void *ctx, const char *path, htc_bytes *content);
    void       *ctx;             /**< handed to read_file */
    const char *pairs_a;         /**< htc generate --pairs: a file whose lines are for the place {a}; NULL: no pairs */
    const char *pairs_b;         /**< the file for the place {b}; NULL: the same */
    uint32_t    pairs_unordered; /**< 1: each unordered pair i < j of one list once; 0: every pair */
    uint32_t    reserved;        /**< 0 */
    const char *directory;       /**< WorkingDirectory or NULL: the private scratch directory. Since: 0.2 */
    uint32_t    node_cores;      /**< cores on each node, below limits.cores; 0: all on one. Since: 0.2 */
    const htc_resource *resources; /**< n_resources that each task takes of what sites count. Since: 0.2 */
    size_t      n_resources;     /**< of resources. Since: 0.2 */
    const char *container;       /**< image that tasks run in; NULL: none. Since: 0.2 */
    const char *project;         /**< JobProject or NULL. Since: 0.2 */
    const htc_wish *wishes;      /**< n_wishes of the element Submission, in any order. Since: 0.2 */
    size_t      n_wishes;        /**< of wishes. Since: 0.2 */
    uint32_t    in_each;         /**< 1: the URI of an input that has a place is written out, a value for each of the source's, so that htc_jsdl_stage can
                                      replace each: all its places are of one source, a list or a range of whole numbers. Since: 0.2 */
    const char *hosts;           /**< CandidateHosts: names with commas between them; NULL: any. Since: 0.2 */
    const char *architecture;    /**< CPUArchitectureName, in any case ("x86_64"); NULL: any. Since: 0.2 */
    const char *system;          /**< OperatingSystemName, likewise ("linux"); NULL: any. Since: 0.2 */
} htc_command;

/**
 * Write the document of a command.
 *
 * @param[in]  env      where the bytes come from; NULL: malloc
 * @param[in]  command  borrowed
 * @param[out] xml      gives the document: htc_work_free; untouched on failure
 * @param[out] error    why, with the place; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EUSAGE; HTC_ESWEEP; HTC_EINPUT if a file cannot be read; HTC_ETOOBIG; HTC_ENOMEM
 *
 * Cost: O(size of the document).   Since: 0.1
 */
HTC_API htc_status htc_command_to_jsdl(const htc_env *env, const htc_command *command, htc_bytes *xml, htc_error *error);

/**
 * The next word of a text such as `htc generate --args` takes: blanks, tabs and line ends divide words, and what stands in ' or " belongs
 * together, without the quotation marks.
 *
 * @param[in,out] text  what is left of it; the words are made in place, so that what was read is changed
 * @param[out]    word  lends a word of the text
 * @return HTC_OK; HTC_EMPTY: there is none; HTC_EUSAGE: a quotation does not end; HTC_EINVAL
 *
 * Cost: O(length of the word).   Since: 0.2
 */
HTC_API htc_status htc_command_word(char **text, const char **word);

/**
 * A time as it stands behind an option: 90s, 5m, 2h, 1d (also with a decimal point), MM:SS, HH:MM:SS, D-HH[:MM[:SS]], or a number alone.
 *
 * @param[in]  text     borrowed
 * @param[in]  alone    seconds that a number alone counts in, above 0: 1, or 60 as batch systems have it
 * @param[out] seconds  0 or more; untouched on failure
 * @return HTC_OK; HTC_EUSAGE: it is something else; HTC_EINVAL
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_command_time(const char *text, double alone, double *seconds);

/**
 * A size as it stands behind an option: 900B, 100K, 512M, 4G, 1T (also with a decimal point, in either case, with B or iB behind it),
 * in powers of 1024, or a number alone, which counts MiB.
 *
 * @param[in]  text   borrowed
 * @param[out] bytes  below 9e18; untouched on failure
 * @return HTC_OK; HTC_EUSAGE: it is something else; HTC_EINVAL
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_command_size(const char *text, uint64_t *bytes);

/** Who knows the files that a document names where it was written. */
typedef struct htc_staging {
    size_t size; /**< sizeof(htc_staging) */
    /**
     * A file that is brought in: a Source's URI, or a value of a sweep that becomes one.
     *
     * @param[in]     ctx    as given
     * @param[in]     name   what stands behind file: there; relative to the document, or from the root
     * @param[out]    uri    lends what is to stand there instead, until one of both is called again; NULL, as it comes: it stays as it is
     * @param[in,out] flags  HTC_STAGE_EXECUTABLE: it may be run, as a value of a sweep cannot say
     * @return HTC_OK; a failure ends htc_jsdl_stage with it
     */
    htc_status (*file)(void *ctx, const char *name, const char **uri, uint32_t *flags);
    /**
     * The program, where the document does not bring it itself and no sweep names it.
     *
     * @param[in]  ctx   as given
     * @param[in]  name  as it stands there
     * @param[out] uri   lends from where it is brought in, under its name and executable, until one of both is called again; NULL, as it comes:
     *                   it is found where tasks run
     * @return HTC_OK; a failure ends htc_jsdl_stage with it
     */
    htc_status (*program)(void *ctx, const char *name, const char **uri);
    void *ctx; /**< handed to both */
} htc_staging;

/**
 * Make a document that was written beside its files into one that is understood elsewhere.
 *
 * Sources `file:NAME` are replaced by what file answers, and a program that stands beside the document is brought in. All else stays as
 * it was written; the encoding becomes UTF-8. htc_spec_parse says whether it is a specification.
 *
 * @param[in]  env      where the bytes come from; NULL: malloc
 * @param[in]  xml      borrowed
 * @param[in]  staging  borrowed
 * @param[out] out      gives the document: htc_work_free; untouched on failure
 * @param[out] error    why, with element and line; NULL is fine
 * @return HTC_OK; HTC_EXML; HTC_ETOOBIG; HTC_EPATH: the program that is to be brought in has a name that leaves the task's directory; what file or
 *         program answered; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(size), and what file and program take.   Since: 0.2
 */
HTC_API htc_status htc_jsdl_stage(const htc_env *env, htc_bytes xml, const htc_staging *staging, htc_bytes *out, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
