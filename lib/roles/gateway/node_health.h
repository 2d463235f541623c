/* Which nodes fail everybody's tasks. Such a node eats the queues of all. One user's fast failures in a row may as well be the fault of the
 * job, which is slowed for them (health.h); when those of three users fail so on one node, it is set aside for ten minutes, unless it is the
 * only one there is. No clock: the moment is an argument. */
#ifndef HTC_ROLES_GATEWAY_NODE_HEALTH_H
#define HTC_ROLES_GATEWAY_NODE_HEALTH_H

#include "roles/gateway/health.h"

#define NODE_USERS 3u /* whose tasks fail fast there, five in a row of each */
#define NODE_ASIDE (600 * HTC_SECOND)

/* All zero: no node is known. */
typedef struct nodes {
    struct node *table;
    uint32_t     count;
} nodes;

typedef enum node_news {
    NODE_SAME = 0,
    NODE_FAILS_USER, /* the fifth failure in a row of this user's tasks */
    NODE_SET_ASIDE
} node_news;

/* There is such a node, however its tasks fare. HTC_OK; HTC_ENOMEM. */
htc_status htc__nodes_seen(nodes *all, const htc_env *env, const char *name);
/* A task of that user's has ended there. users: with NODE_SET_ASIDE, how many it fails. HTC_OK; HTC_ENOMEM. */
htc_status htc__nodes_ended(nodes *all, const htc_env *env, const char *name, const char *user, htc_status ended, htc_ns ran, htc_ns now,
                            node_news *news, uint32_t *users);
/* Is it set aside? *until: to when; 0: it never was. */
int  htc__nodes_aside(const nodes *all, const char *name, htc_ns now, htc_ns *until);
void htc__nodes_free(nodes *all, const htc_env *env);

#endif
