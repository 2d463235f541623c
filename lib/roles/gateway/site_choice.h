/* At which site a task may run at all, and at which a user's next agent is started. Pure: the sites are an argument. */
#ifndef HTC_ROLES_GATEWAY_SITE_CHOICE_H
#define HTC_ROLES_GATEWAY_SITE_CHOICE_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/bytes.h"
#include "htcsched/status.h"
#include "roles/gateway/counted.h"
#include "roles/gateway/offers.h"

/* What a task asks for. */
typedef struct site_wish {
    const machine_wish *asks; /* NULL: any machine */
    uint64_t    memory; /* bytes; 0: nothing named */
    uint32_t    cores;
    double      wall_s;
    const counted_need *counts; /* NULL: nothing that sites count */
} site_wish;

/* What one site has. */
typedef struct site_nodes {
    const char *name;
    uint64_t    memory; /* of its largest node; 0: it is not counted_pool */
    uint32_t    cores;  /* of its largest node */
    uint32_t    slots;  /* of one agent there, at most */
    const counted_pool *counted; /* NULL: nothing */
    uint8_t     unknown; /* what it counts has not been told yet */
    uint8_t     many;    /* nodes of a batch system */
    const char *node;    /* its name; "", NULL: not known, or many */
    const machine_kinds *kinds; /* NULL: not known */
} site_nodes;

offer htc__site_offers(const machine_wish *w, const site_nodes *s);

/* Can it run at one of them, ever? A site that may turn out to be the machine that it asks for counts. wall_max_s: the longest that sites allow, 0: any. HTC_OK; HTC_ENOFIT, and why: in words. */
htc_status htc__site_fits(const site_wish *wish, const site_nodes *sites, size_t n, double wall_max_s, char *why, size_t cap);

/* A site, as one user sees it now. */
typedef struct site_now {
    uint32_t free;      /* slots without an agent */
    uint8_t  usable;    /* it launches agents */
    uint64_t startable; /* tasks of the user that could start there */
    uint64_t takers;    /* slots of the user's agents there that are about to be filled */
} site_now;

/* How many more slots there would be filled by tasks of the user: none without a free one. */
uint64_t htc__site_wants_slots(const site_now *s);

/* A site where a user's next agent could start. */
typedef struct site_rank {
    double   speed;    /* of its cores, relative to others' */
    uint32_t free;     /* slots without an agent */
    htc_ns   start_ns; /* from an agent's launch to its first word, as seen lately; 0: none was seen */
    htc_ns   waits_ns; /* how long the oldest agent that has not begun waits already; 0: none does */
    uint64_t there;    /* bytes of the uploads that the user's next task reads which are there already, as far as is known */
} site_rank;

/* The best one first: those where agents begin at once, the fastest, then the one with most of the inputs, then the one with most free slots; then those
 * where they wait in a queue, the shortest wait for its speed first, then the one with most of the inputs. Equal ones stay in their order. order: n
 * places; gets indices of sites.
 *
 * Inputs only decide between sites that are equally fast, since speed counts for the whole of every task, and an input, of some MB at most, is brought
 * to a site once. They go before free slots: one is enough for the agent that is launched, and with the next one the sites are ordered anew. */
void htc__site_order(const site_rank *sites, uint32_t n, uint32_t *order);

#endif
