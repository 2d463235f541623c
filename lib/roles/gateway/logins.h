/* Logins that are not answered: in which order their passwords are looked at, and when those that fail are told. A hash takes long, so that
 * LOGINS_HASHED run at once and one of a name; a name with failures is looked at, and told of the next failure, after a pause that grows. A name is
 * counted for each uid, or key, alone: who guesses over the network does not keep its owner out of a login by the socket. Names that nobody has count as
 * others. Pure: time is an argument. Threads: none of its own. */
#ifndef HTC_ROLES_GATEWAY_LOGINS_H
#define HTC_ROLES_GATEWAY_LOGINS_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/bytes.h"

#define LOGINS_MAX 48u     /* not answered, of all */
#define LOGINS_OF_NAME 16u /* and of one name */
#define LOGINS_HASHED 2u
#define LOGIN_NAMES 256u   /* that have failed or are at hand: more than LOGINS_MAX */
#define LOGIN_NAME_BYTES 64
#define LOGIN_PAUSE (HTC_SECOND / 2) /* after the first failure; it doubles with each */
#define LOGIN_PAUSE_MAX (30 * HTC_SECOND)
#define LOGIN_FORGET (900 * HTC_SECOND) /* without a failure for so long, the earlier ones are forgotten */

typedef struct login_name {
    char     name[LOGIN_NAME_BYTES];
    uint32_t uid, failures, logins; /* logins: of it, that are not answered */
    htc_ns   until;                 /* its pause */
    uint8_t  used, hashed;          /* hashed: one of its logins is */
} login_name;

typedef enum login_state { LOGIN_WAITS = 1, LOGIN_HASHED, LOGIN_FAILED } login_state;

typedef struct login_turn {
    void    *login;
    uint32_t name;  /* in names */
    uint32_t state; /* login_state; FAILED: to be told when its name's pause ends */
} login_turn;

typedef struct logins {
    login_name names[LOGIN_NAMES];
    login_turn turns[LOGINS_MAX]; /* the oldest first */
    uint32_t   n, hashed;
} logins;

/* right: earlier failures are forgotten; unknown: nothing was found out. */
typedef enum login_outcome { LOGIN_RIGHT = 1, LOGIN_WRONG, LOGIN_UNKNOWN } login_outcome;

/* Takes a login on; name has less than LOGIN_NAME_BYTES bytes. Returns which one is not in there and is to be refused: NULL: none; one whose place it
 * takes; login itself. Of a full name the oldest one that waits goes; else one with a longer pause than its own. Cost: O(LOGIN_NAMES). */
void *htc__logins_add(logins *all, void *login, uint32_t uid, const char *name, htc_ns now);
/* The one whose password is looked at next; NULL: none now. The names take turns by their oldest login; of one name the newest goes first, so
 * that a user does not stand behind all who guess. */
void *htc__logins_next(logins *all, htc_ns now);
/* Of one that next has given. It is in there no more, but for a wrong one: htc__logins_due gives it when its pause is over. */
void  htc__logins_looked_at(logins *all, const void *login, login_outcome outcome, htc_ns now);
/* Nobody waits for it any more. 1: it is in there no more; 0: it is not there, or its password is being looked at. */
int   htc__logins_leave(logins *all, const void *login);
void *htc__logins_due(logins *all, htc_ns now);        /* a wrong one that is told now, and is in there no more; NULL: none */
htc_ns htc__logins_deadline(const logins *all);        /* when next or due may give one; HTC_NEVER */

#endif
