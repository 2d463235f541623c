/* What one user has used on one day, by site and project: pure. Days are whole ones of UTC since 1970.
 *
 * A day is one record of the store, bounded. Beyond DAY_ROWS_MAX pairs of site and project sites are given up first: what a project has used at
 * several is one row, of site "*". So the sum of each project stays right, which its quota is held against. What comes beyond so many projects
 * is counted in one row of its own, "*" and "*". */
#ifndef HTC_ROLES_GATEWAY_DAY_USAGE_H
#define HTC_ROLES_GATEWAY_DAY_USAGE_H

#include "core/codec.h"
#include "core/util.h"

#define DAY_NAME_BYTES 64
#define DAY_ROWS_MAX 512
#define DAY_NS (UINT64_C(86400) * HTC_SECOND)

typedef struct day_sums {
    uint64_t core_ns; /* run time of attempts times their cores */
    uint64_t wait_ns; /* of the attempts begun: from when the task could begin, as far as its own job is concerned, until it was handed out */
    uint64_t begun;   /* attempts */
    uint64_t done, failed, lost; /* tasks done, tasks failed for good, attempts lost */
} day_sums;

typedef struct day_row {
    char        site[DAY_NAME_BYTES], project[DAY_NAME_BYTES]; /* project "": none */
    day_sums sums;
} day_row;

typedef struct day_usage {
    uint32_t    day;
    day_row *rows;
    uint32_t    n, cap;
} day_usage;

void       htc__day_sum(day_sums *to, const day_sums *more);
/* HTC_OK or HTC_ENOMEM, and then nothing has changed. Cost: O(rows), in a full one up to their square. */
htc_status htc__day_add(day_usage *l, const htc_env *env, const char *site, const char *project, const day_sums *more);
void       htc__day_free(day_usage *l, const htc_env *env);
void       htc__day_write(htc_buf *b, const day_usage *l); /* b is cleared first */
/* Into an empty one. HTC_OK; HTC_ECORRUPT for what cannot have been written; HTC_ENOMEM. After a failure l is empty. */
htc_status htc__day_read(day_usage *l, const htc_env *env, htc_bytes bytes);

#endif
