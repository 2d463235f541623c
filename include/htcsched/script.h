/**
 * @file htcsched/script.h
 * @brief Words of batch systems: arrays ("1-100:2%5"), signals ahead of a limit ("USR1@60"), and the `#SBATCH` and `#$` lines of a script.
 *
 * Nothing here asks anybody: texts are read, and what they wish for is told in the words of `htc submit`.
 *
 * Threads: any.   Allocation: none.   Source: the manuals sbatch(1) of Slurm 24 and qsub(1) of Grid Engine.
 */
#ifndef HTCSCHED_SCRIPT_H
#define HTCSCHED_SCRIPT_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parts of an array's text, divided by commas. */
#define HTC_ARRAY_RANGES_MAX 64
/** The largest number of an array. */
#define HTC_ARRAY_NUMBER_MAX UINT64_C(999999999)

/** Numbers from first to last in steps. */
typedef struct htc_array_range {
    uint64_t first; /**< the first number */
    uint64_t last;  /**< one that the range has, not below first */
    uint64_t step;  /**< from 1 */
} htc_array_range;

/** The numbers of an array, one a task. */
typedef struct htc_array {
    size_t          size;     /**< sizeof(htc_array) */
    uint64_t        count;    /**< of all ranges, from 1 */
    uint64_t        at_once;  /**< behind '%': so many tasks at once; 0: any number */
    uint32_t        n_ranges; /**< from 1 */
    htc_array_range range[HTC_ARRAY_RANGES_MAX]; /**< in the order of the text */
} htc_array;

/**
 * Read "1-100:2,200,210-220%5": numbers, ranges, steps, and how many run at once.
 *
 * @param[in]  text   borrowed
 * @param[out] out    its size is set by the caller; the rest is filled in; untouched on failure
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_EUSAGE: it is no array, or has a number twice; HTC_ETOOBIG: more than HTC_ARRAY_RANGES_MAX parts or a number
 *         above HTC_ARRAY_NUMBER_MAX; HTC_EINVAL; HTC_EABI
 *
 * Cost: O(length + parts^2).   Since: 0.2
 */
HTC_API htc_status htc_array_parse(const char *text, htc_array *out, htc_error *error);

/**
 * The number of task k.
 *
 * @param[in] array  borrowed; as htc_array_parse filled it in
 * @param[in] k      from 0, below its count
 * @return the number; 0 beyond the count
 *
 * Cost: O(parts).   Since: 0.2
 */
HTC_API uint64_t htc_array_at(const htc_array *array, uint64_t k);

/**
 * Read "[B:]SIG@SECONDS": USR1@60, SIGTERM@300, 10@60, "@60" (USR1), "USR1" (60 seconds).
 *
 * @param[in]  text     borrowed
 * @param[out] number   of the signal, as Linux numbers it: 1 to 64
 * @param[out] seconds  before the wall-time limit: 1 to 65,535
 * @return HTC_OK; HTC_EUSAGE: it is something else; HTC_EINVAL
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_signal_parse(const char *text, uint32_t *number, uint32_t *seconds);

/** Whose lines a script has. */
typedef enum htc_script_dialect {
    HTC_SCRIPT_NONE = 0,  /**< none of either */
    HTC_SCRIPT_SLURM = 1, /**< `#SBATCH` */
    HTC_SCRIPT_SGE = 2    /**< `#$` */
} htc_script_dialect;

/** The longest line of a script that holds options, in bytes. */
#define HTC_SCRIPT_LINE_MAX 4095
/** Options of one script, at most. */
#define HTC_SCRIPT_OPTIONS_MAX 512

/** What one option of a script means here. Texts are lent until the function that is told it returns. */
typedef struct htc_script_wish {
    size_t      size;   /**< sizeof(htc_script_wish) */
    uint32_t    line;   /**< of the script, from 1 */
    uint32_t    reserved; /**< 0 */
    const char *said;   /**< the option, as the script has it: "--time", "-l h_vmem" */
    const char *option; /**< the option of `htc submit` that means it, without dashes; NULL: none, and note says why */
    const char *value;  /**< of that option; "" of one that takes none */
    const char *note;   /**< what its author should know: why it has no meaning here, or what is different; NULL: nothing */
} htc_script_wish;

/**
 * Read the options of a batch system in a script. Of Slurm those before its first command count, of Grid Engine all. A script with lines of both is
 * refused.
 *
 * @param[in]  script   borrowed
 * @param[in]  wish     is told each, in their order; what several options say together (cores, nodes, memory, GPUs, licences) comes last. A failure ends the reading
 * @param[in]  ctx      handed to wish
 * @param[out] dialect  htc_script_dialect; NULL is fine
 * @param[out] error    why, with the line; NULL is fine
 * @return HTC_OK; HTC_EUNSUPPORTED: an option is not known, or the job would not be what it asks for without it; HTC_EUSAGE: an option
 *         lacks its value or has an impossible one; HTC_ETOOBIG: a line or the number of options; what wish answers; HTC_EINVAL
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_script_read(htc_bytes script, htc_status (*wish)(void *ctx, const htc_script_wish *wish), void *ctx, uint32_t *dialect,
                                   htc_error *error);

#ifdef __cplusplus
}
#endif

#endif
