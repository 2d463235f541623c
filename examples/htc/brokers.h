/* Sites whose brokers this system starts itself: htc-agent --join on this machine, with keys that are made for it (doc/sites.md). */
#ifndef HTC_EXAMPLES_BROKERS_H
#define HTC_EXAMPLES_BROKERS_H

#include "htcsched/config.h"
#include "htcsched/state.h"

typedef struct broker {
    char *site, *dir, *key, *ring; /* dir: of the broker, where its nodes find it too */
} broker;

typedef struct brokers {
    broker *list;
    size_t  n;
    char   *join; /* where they dial: server.join */
} brokers;

/* Directories and keys of all of them are made where they are missing: each broker's key is pinned in the system's ring under the name of its site, and the
 * system's keys in the broker's. config: absolute, or NULL: there are none. The caller holds the lock of state. */
htc_status brokers_prepare(htc_state *state, const char *config, brokers *out, htc_error *error);
void       brokers_free(brokers *b);

#endif
