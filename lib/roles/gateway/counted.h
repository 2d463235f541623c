/* What a site counts by name beside slots and memory: GPUs, licences, disks. A task names how many of each it takes, and never more
 * are taken than there are. GPUs are devices, numbered from 0, and each task has its own. Whatever fits starts, past a task that asks for
 * more; once such a task has waited for long enough, room is kept for it, as for memory (memory.h). Memory alone: no clock, no allocation. */
#ifndef HTC_ROLES_GATEWAY_COUNTED_H
#define HTC_ROLES_GATEWAY_COUNTED_H

#include "htcsched/machine.h"
#include "htcsched/work.h"

#define COUNTED_MAX 16         /* resources of one site */
#define COUNTED_DEVICES_MAX 64u /* of one site: a bit each */

typedef struct counted_kind {
    char     name[HTC_RESOURCE_NAME_MAX + 1];
    uint32_t total, used; /* used: above total where a host came back with less */
    uint8_t  fixed;       /* by the configuration, whatever the host says */
} counted_kind;

typedef struct counted_pool {
    uint32_t     n;
    counted_kind at[COUNTED_MAX];
    uint64_t     devices;           /* that tasks have: bit I is number I */
    uint64_t     kept_for;          /* the job whose next task room is kept for; 0: none */
    uint32_t     kept[COUNTED_MAX]; /* for it, at most total */
} counted_pool;

/* What one task takes. */
typedef struct counted_need {
    uint32_t     n;
    htc_resource of[HTC_TASK_RESOURCES_MAX]; /* names: point into names */
    char         names[HTC_TASK_RESOURCES_MAX][HTC_RESOURCE_NAME_MAX + 1];
} counted_need;

/* A copy of what a task names; at most HTC_TASK_RESOURCES_MAX. */
void htc__counted_need(counted_need *need, const htc_resource *list, uint32_t n);
void htc__counted_need_copy(counted_need *to, const counted_need *from);
/* So many there are now; what is taken stays so. HTC_ENOSPC: it has COUNTED_MAX others; HTC_EINVAL: that is no name, or more devices than can be. */
htc_status htc__counted_set(counted_pool *c, const char *name, uint32_t total);
uint32_t   htc__counted_total(const counted_pool *c, const char *name); /* 0: it has none */
uint32_t   htc__counted_free(const counted_pool *c, const char *name);
/* Could it ever run here? NULL: yes; else the first of need that there is too little of. */
const htc_resource *htc__counted_never(const counted_pool *c, const counted_need *need);
/* Could a task of this job begin now? NULL: yes; else the first that it waits for. */
const htc_resource *htc__counted_lacks(const counted_pool *c, uint64_t job, const counted_need *need);
/* How often need is there at all, or (now) could be taken now by tasks of this job, one beside the other; UINT32_MAX: it is of nothing. */
uint32_t htc__counted_times(const counted_pool *c, uint64_t job, const counted_need *need, int now);
/* Take them. The task has fitted (else devices are short). Answers the devices, lowest numbers first. */
uint64_t htc__counted_take(counted_pool *c, const counted_need *need);
/* As a gateway before has taken them. */
void     htc__counted_retake(counted_pool *c, const counted_need *need, uint64_t devices);
void     htc__counted_give_back(counted_pool *c, const counted_need *need, uint64_t devices);
/* Keep room for a job's next task, which could run here; job 0: for none. */
void     htc__counted_keep(counted_pool *c, uint64_t job, const counted_need *need);
/* Numbers with commas between; "" for none. Room: 3 bytes a device. */
void     htc__counted_devices(uint64_t devices, char *text, size_t cap);

#endif
