/* What the files of the gateway's host share. */
#ifndef HTC_NET_GATEWAY_PRIVATE_H
#define HTC_NET_GATEWAY_PRIVATE_H

#include <pthread.h>

#include "htcsched/gateway_host.h"
#include "net/host_private.h"
#include "roles/apart.h"
#include "roles/calls.h"

typedef struct htc__job   htc__job;
typedef struct htc__agent htc__agent;

struct htc_gateway_host {
    const htc_env     *env;
    htc_host          *host;
    htc__hook          hook;
    char              *state_dir, *agent_path, *config_path, *data_dir;
    const char *const *environ;
    uint32_t           durable;
    uint64_t           blob_bytes_max;
    uint32_t           apart; /* htc_apart */
    htc__agent        *agents;
    struct event      *look;       /* stopped agents, the disk */
    int                disk_full;
    uint32_t           jobs;       /* on the threads now */
    uint32_t           hashing;    /* passwords on the threads now */
    htc__job          *hash_first, **hash_last;
    uint32_t           hash_waiting;
    pthread_mutex_t    blobs;      /* one write of an upload at a time */
};

/* One call on its way through a worker thread. */
struct htc__job {
    htc_gateway_host *gateway;
    uint32_t          op;
    uint64_t          tag;
    htc_status        status;
    char              text[400]; /* why not HTC_OK */
    htc_buf           answer;
    htc__job         *next;
    size_t            len;
    uint8_t           body[];
};

/* gateway_files.c and gateway_secrets.c: on a worker thread */
void htc__gateway_files(htc__job *j);
void htc__gateway_secrets(htc__job *j);

/* gateway_agents.c */
htc_status htc__agent_launch(htc_gateway_host *g, uint64_t tag, htc_reader *body);
htc_status htc__agent_watch(htc_gateway_host *g, htc_reader *body);
htc_status htc__agent_kill(htc_gateway_host *g, htc_reader *body);
void       htc__agents_look(htc_gateway_host *g); /* for those that are stopped */
void       htc__agents_free(htc_gateway_host *g);
int        htc__agent_has_pid(const htc_gateway_host *g, pid_t pid); /* one of those that are watched */

/* gateway_places.c: directories that several uids pass through or own */
htc_status htc__places_share(const htc_gateway_host *g, htc_error *error);
htc_status htc__job_place(const htc_gateway_host *g, htc_reader *body);

#endif
