/* htc-kvd --namespace NAME=eventual[:N,R,W]: what a member is told of namespaces. */
#ifndef HTC_KVD_SPACES_H
#define HTC_KVD_SPACES_H

#include "htcsched/kv_server.h"

#define SPACES_MAX   64
#define SPACE_OWNERS 3 /* of a key: the server's default */

/* text has to stay. HTC_OK; HTC_EUSAGE. What is not named is 0: the default. */
htc_status space_parse(const char *text, htc_kv_namespace *space);

#endif
