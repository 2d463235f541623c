/* htc-kvd --namespace: the sets of keys beside the store itself, each with a policy of its own.
 *
 *     NAME=eventual[:N,R,W]      a part of the store: its members keep it (htc_kv_namespace)
 *     NAME=strong[:WORD,...]     a store of its own in the same processes (strong.h)
 *
 * The words of a strong one are n=N, engine=E, durability=D, sync-ms=MS and memory=BYTES, each as the option of the process that it is
 * named after, which holds where nothing is said. */
#ifndef HTC_KVD_SPACES_H
#define HTC_KVD_SPACES_H

#include "htcsched/kv_server.h"

#define SPACES_MAX   64
#define STRONG_MAX   16 /* each is a thread */
#define SPACE_OWNERS 3  /* of a key: the server's default */

typedef struct strong_policy {
    char     name[HTC_KV_SPACE_MAX + 1];
    char     engine[8], durability[12]; /* "": as the process' */
    uint32_t n, sync_ms;                /* 0: not said */
    uint64_t memory;                    /* bytes; 0: no bound */
} strong_policy;

/* text has to stay. HTC_OK; HTC_EUSAGE. What is not named is 0: the default. */
htc_status space_parse(const char *text, htc_kv_namespace *space);
/* HTC_ENOTFOUND: it says none that is strong; HTC_EUSAGE. */
htc_status space_parse_strong(const char *text, strong_policy *policy);
/* 1: it may be the name of a namespace, of len bytes, beside the store itself. */
int space_named(const char *name, size_t len);
/* 1: it is what the store itself is called among its namespaces. */
int space_is_default(const char *name, size_t len);

#endif
