/* Hosts that agents are started on by ssh: which one gets the next agent. Pure.
 *
 * A list is text as for GNU parallel: one host a line, "SLOTS/" in front of it or else one slot, "#" begins a comment.
 *
 * Threads: owner.   Allocation: through env. */
#ifndef HTC_ROLES_SSH_HOSTS_H
#define HTC_ROLES_SSH_HOSTS_H

#include "htcsched/env.h"
#include "htcsched/status.h"

#define HTC__SSH_HOSTS_MAX     1024
#define HTC__HOST_NAME_LEN 256

typedef struct htc__ssh_hosts htc__ssh_hosts;

/* HTC_ECONFIG with line and cause in error; HTC_ENOMEM. cores: of one agent, at least 1: a host has room for slots / cores agents. */
htc_status htc__ssh_hosts_read(const htc_env *env, htc_bytes text, uint32_t cores, htc__ssh_hosts **out, htc_error *error);
void       htc__ssh_hosts_free(htc__ssh_hosts *h);

uint32_t    htc__ssh_hosts_slots(const htc__ssh_hosts *h); /* of all agents that there is room for */
const char *htc__ssh_hosts_name(const htc__ssh_hosts *h, uint32_t host);

/* The host for an agent: the one with most room of those that did not fail lately, and has a place again when it is given back. HTC_EBUSY: there is none. */
htc_status htc__ssh_hosts_take(htc__ssh_hosts *h, htc_ns now, uint32_t *host);
/* failed: it could not be reached: it gets no agent for 5 s, then 10, at most 300. */
void htc__ssh_hosts_give(htc__ssh_hosts *h, uint32_t host, int failed, htc_ns now);

#endif
