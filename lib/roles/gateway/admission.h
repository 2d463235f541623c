/* What is taken on while much is on its way: requests, logins, and specifications of jobs. Each bound keeps one connection, one user of the
 * machine, or all of them from taking what others need; whoever is refused may come again. Pure: the counts are arguments. */
#ifndef HTC_ROLES_GATEWAY_ADMISSION_H
#define HTC_ROLES_GATEWAY_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/status.h"

#define ADMISSION_OF_ONE 64      /* requests of one connection that are not answered */
#define ADMISSION_ALL 4096       /* of all */
#define ADMISSION_OF_UID 256     /* of all connections of one uid that is not the owner's */
#define ADMISSION_OF_OTHERS 3072 /* of all such uids */
#define ADMISSION_LOGINS 4u      /* of one known uid that are not answered: what is unknown waits among all (logins.h) */
#define ADMISSION_SPEC_BYTES ((size_t)32 << 20) /* of specifications on their way to the store: after a break all is sent again at once */

#define ADMISSION_LOOK_BYTES ((size_t)1 << 20)  /* of a document that is only looked at: it is read at once, while everybody else waits */

/* Requests that are not answered, without the one that comes. */
typedef struct admission {
    uint32_t all, of_one, of_uid, of_others;
} admission;

/* owner: it comes from the owner's uid. */
int htc__admission_of_request(const admission *now, int owner);
int htc__admission_of_login(uint32_t of_uid);
/* HTC_OK; HTC_ETOOBIG: never, it is more than one record holds; HTC_EBUSY: not now. */
htc_status htc__admission_of_spec(size_t bytes, size_t under_way);
/* The same of a document that is looked at and not kept. */
htc_status htc__admission_of_look(size_t bytes, size_t under_way);

#endif
