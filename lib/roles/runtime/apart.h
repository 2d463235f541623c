/* What keeps the tasks of different users apart: decided here from what the host finds out, carried out by lib/net. */
#ifndef HTC_ROLES_APART_H
#define HTC_ROLES_APART_H

#include <stdint.h>

#include "htcsched/gateway.h"

/* What the host finds out of its system; all 0 or 1. */
typedef struct htc__apart_facts {
    uint8_t root;       /* it was started by root: a task can run with any uid */
    uint8_t reachable;  /* every uid can pass to the state directory */
    uint8_t allowed;    /* the operator lets tasks of others run with the owner's uid (task.others_as_owner) */
    uint8_t confinable; /* the kernel takes sockets, store and files out of a task's reach */
} htc__apart_facts;

/* The htc_apart that is reached; *why: what others' tasks are refused for, in one sentence, "" if they are not. */
uint32_t htc__apart_level(const htc__apart_facts *f, const char **why);

/* How the tasks of one user run. */
typedef enum htc__place_kind {
    HTC_PLACE_REFUSED = 0,
    HTC_PLACE_OWNER,    /* as whoever started the system */
    HTC_PLACE_CONFINED, /* with the owner's uid, confined */
    HTC_PLACE_UID       /* with the user's own uid */
} htc__place_kind;

#define HTC_NO_UID UINT32_MAX

uint32_t htc__place_of(uint32_t apart, int is_owner, uint32_t uid);

#endif
