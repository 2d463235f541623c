/* Members that come and go: how this one gets in, whom it is told to call, and its end. */
#ifndef HTC_EXAMPLES_JOIN_H
#define HTC_EXAMPLES_JOIN_H

#include "member_private.h"

/* --join, --replaces, --weight and --at go together, and with what else? */
htc_status join_check(const member *m);
/* This member and the addresses of --join become m->peers. */
htc_status join_find_self(member *m);
/* How long the first address of a list is; the next begins behind a comma with its scheme. */
size_t join_one_of(const char *list);
/* It has a connection to that one. */
void join_note(member *m, const member_address *to, uint32_t peer);
/* As htc_kv_store_options: dial, left and refused; ctx: the member. */
htc_status join_dial(void *ctx, const char *address, uint32_t *peer);
void       join_left(void *ctx);
void       join_refused(void *ctx, htc_status why, const char *reason);

#endif
