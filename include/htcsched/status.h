/**
 * @file htcsched/status.h
 * @brief Status codes: their numbers, names, texts and exit codes, in one table.
 *
 * 0 is success, negative an error, positive an ordinary outcome worth a branch. A number means the same for ever; a
 * retired one is never used again. The name (`HTC_ENOTFOUND`) is what stands in JSON errors.
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_STATUS_H
#define HTCSCHED_STATUS_H

#include <stddef.h>
#include <stdint.h>

/** In front of everything that the library exports. */
#if defined(__GNUC__)
#define HTC_API __attribute__((visibility("default")))
#else
#define HTC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Every status as X(name, number, exit code, text): for a table of one's own. Exit codes of every program: 0 ok, 1 usage,
 *  2 rejected input, 3 unreachable, 4 not found or denied, 5 tasks failed, 6 try again (full, locked, timed out), 70 our
 *  fault. */
#define HTC_STATUS_TABLE(X)                                                                                            \
    X(HTC_EMPTY, 3, 6, "nothing is there")                                                                             \
    X(HTC_MISMATCH, 2, 6, "the value was changed by somebody else")                                                    \
    X(HTC_AGAIN, 1, 6, "not now: try again")                                                                           \
    X(HTC_OK, 0, 0, "ok")                                                                                              \
    X(HTC_EINVAL, -1, 1, "invalid argument")                                                                           \
    X(HTC_ENOMEM, -2, 70, "out of memory")                                                                             \
    X(HTC_EABI, -3, 70, "an options struct is newer than this library")                                                \
    X(HTC_EUNSUPPORTED, -4, 2, "not supported")                                                                        \
    X(HTC_EUSAGE, -5, 1, "wrong use of the command line")                                                              \
    X(HTC_ECONFIG, -6, 1, "error in the configuration file")                                                           \
    X(HTC_EXML, -10, 2, "not well-formed XML")                                                                         \
    X(HTC_ESCHEMA, -11, 2, "the document breaks its schema")                                                           \
    X(HTC_EXPATH, -12, 2, "error in an XPath expression")                                                              \
    X(HTC_ESWEEP, -13, 2, "error in a parameter sweep")                                                                \
    X(HTC_ETOOBIG, -14, 2, "larger than what is allowed")                                                              \
    X(HTC_EPATH, -15, 2, "a path leaves the directory it belongs to")                                                  \
    X(HTC_EINPUT, -16, 2, "an input file is missing or cannot be read")                                                \
    X(HTC_ENOEXEC, -17, 2, "an executable is missing or may not be executed")                                          \
    X(HTC_EJSON, -18, 2, "not valid JSON")                                                                             \
    X(HTC_ECYCLE, -19, 2, "tasks wait for one another in a circle")                                                    \
    X(HTC_EUNREACHABLE, -30, 3, "nobody answers")                                                                      \
    X(HTC_ECLOSED, -31, 3, "the connection was closed")                                                                \
    X(HTC_EPROTO, -32, 3, "the peer broke the protocol")                                                               \
    X(HTC_EVERSION, -33, 3, "the peer speaks another version")                                                         \
    X(HTC_ENOTFOUND, -40, 4, "not found")                                                                              \
    X(HTC_EDENIED, -41, 4, "denied")                                                                                   \
    X(HTC_EAUTH, -42, 4, "wrong user name or password")                                                                \
    X(HTC_EEXPIRED, -43, 4, "the token has expired")                                                                   \
    X(HTC_EEXISTS, -44, 4, "exists already")                                                                           \
    X(HTC_ETASKS, -50, 5, "tasks failed")                                                                              \
    X(HTC_EEXIT, -51, 5, "the task ended with a non-zero exit code")                                                   \
    X(HTC_ESIGNAL, -52, 5, "the task was ended by a signal")                                                           \
    X(HTC_EOOM, -53, 5, "the task used more memory than its limit")                                                    \
    X(HTC_EWALLTIME, -54, 5, "the task ran longer than its wall-time limit")                                           \
    X(HTC_ELOST, -55, 5, "the task's node was lost")                                                                   \
    X(HTC_EREFUSED, -56, 5, "the node refused to start the task")                                                      \
    X(HTC_ESTAGEIN, -57, 5, "an input could not be staged in")                                                         \
    X(HTC_ESTAGEOUT, -58, 5, "an output could not be staged out")                                                      \
    X(HTC_ENOFIT, -59, 5, "the task can never fit any node")                                                           \
    X(HTC_ECANCELLED, -60, 5, "cancelled")                                                                             \
    X(HTC_EKILLED, -61, 5, "the task was killed from outside")                                                         \
    X(HTC_ESTOPPED, -62, 5, "the task was stopped by a signal such as SIGSTOP")                                        \
    X(HTC_EFULL, -70, 6, "a memory ceiling is reached")                                                                \
    X(HTC_ENOSPC, -71, 6, "the disk is full")                                                                          \
    X(HTC_ELOCKED, -72, 6, "in use by another process")                                                                \
    X(HTC_ETIMEDOUT, -73, 6, "timed out")                                                                              \
    X(HTC_EBUSY, -74, 6, "too much at once")                                                                           \
    X(HTC_EUNKNOWN, -75, 6, "the outcome of a repeated change is not known")                                           \
    X(HTC_ESTORE, -76, 6, "the store refuses changes")                                                                 \
    X(HTC_ECONFLICT, -77, 6, "too many values beside each other: read them and write one")                             \
    X(HTC_EIO, -90, 70, "input/output error")                                                                          \
    X(HTC_ECORRUPT, -91, 70, "stored data is damaged")                                                                 \
    X(HTC_EFORMAT, -92, 70, "the state directory has another format version")                                          \
    X(HTC_EINTERNAL, -99, 70, "internal error")

/** @cond */
#define HTC__ENUM(name, number, exit_code, text) name = (number),
/** @endcond */
/** What a call answers. */
typedef enum htc_status { HTC_STATUS_TABLE(HTC__ENUM) } htc_status;
#undef HTC__ENUM

/**
 * The one-line text of a status.
 *
 * @param[in] status  any number
 * @return lends a constant; "unknown status" for a number that is not in the table
 *
 * Cost: O(statuses).   Since: 0.1
 */
HTC_API const char *htc_strerror(htc_status status);

/**
 * The name of a status as it stands in JSON ("HTC_ENOTFOUND").
 *
 * @param[in] status  any number
 * @return lends a constant; "HTC_EINTERNAL" for a number that is not in the table
 *
 * Cost: O(statuses).   Since: 0.1
 */
HTC_API const char *htc_status_name(htc_status status);

/**
 * The status with a name.
 *
 * @param[in] name  borrowed; NULL is fine
 * @return the status; HTC_EINTERNAL if there is none of this name
 *
 * Cost: O(statuses).   Since: 0.1
 */
HTC_API htc_status htc_status_from_name(const char *name);

/**
 * The exit code that a program ends with for a status.
 *
 * @param[in] status  any number
 * @return 0, 1, 2, 3, 4, 5, 6 or 70; 70 for a number that is not in the table
 *
 * Cost: O(statuses).   Since: 0.1
 */
HTC_API int htc_exit_code(htc_status status);

/** Where and why something that a person wrote was refused. Filled by the callee, caller-allocated. */
typedef struct htc_error {
    htc_status status;     /**< what the call answered */
    uint32_t   line;       /**< from 1; 0 = not known */
    uint32_t   column;     /**< from 1; 0 = not known */
    char       where[160]; /**< element, key or file; may be empty */
    char       text[320];  /**< one sentence, no full stop, no newline */
    char       hint[160];  /**< the next step to take; may be empty */
} htc_error;

/**
 * Make text safe to show on a terminal, in place: valid UTF-8 without control characters (C0, DEL, C1 such as U+009B), line and
 * paragraph separators, and marks that change the direction of what follows; each is '?'.
 *
 * @param[in,out] text  ends with a zero; not longer afterwards
 *
 * Pure.   Cost: O(length).   Since: 0.2
 */
HTC_API void htc_text_show(char *text);

/**
 * Length of the character at p if a terminal may be given it.
 *
 * @param[in] p  n bytes
 * @param[in] n  how many may be read
 * @return bytes of one character of valid UTF-8; 0 if there is none, or it is one that htc_text_show replaces
 *
 * Pure.   Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_text_shown(const char *p, size_t n);

#ifdef __cplusplus
}
#endif
#endif
