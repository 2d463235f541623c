/* The disk behind a store with a log: its directory, the words for what goes wrong there, and when it is ready. */
#ifndef HTC_NET_STORE_LOG_H
#define HTC_NET_STORE_LOG_H

#include "htcsched/disk_host.h"
#include "htcsched/host.h"
#include "htcsched/kv_store.h"

typedef struct htc__store_log {
    const htc_env       *env;
    const htc_kv_server *server;
    htc_disk_dir  *disk;
    char          *dir;
    void (*ready)(void *ctx);
    void *ready_ctx;
    int   several; /* members: it is ready when it serves with them */
    htc_kv_store_options members; /* of dial, left and member_ctx alone */
    char  boot[HTC_HOST_BOOT_MAX];
} htc__store_log;

/* Open the directory of options, and say in so that the server keeps a log there. env and l outlive the server. On failure there is
 * nothing to close. */
htc_status htc__store_log_open(htc__store_log *l, const htc_env *env, const htc_kv_store_options *options,
                               htc_kv_server_options *so, htc_error *error);
/* The host carries the requests of that server out, and lets nobody in before it is ready. */
void htc__store_log_attach(htc__store_log *l, const htc_kv_server *server, htc_host *host);
void htc__store_log_close(htc__store_log *l);

/* What is asked for by one of several members: connections, and its end. 1: it was that, and *status answers it. */
int htc__store_member_call(const htc_kv_store_options *options, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body,
                           htc_status *status);

/* What names this start of the machine, and no other. */
void htc__store_boot(char boot[HTC_HOST_BOOT_MAX]);
/* Which engine the store in dir was made with; 0: there is none. */
uint32_t htc__store_engine_of(const char *dir);
/* HTC_EINVAL if the store in dir was made by another engine than this one. */
htc_status htc__store_engine_check(const char *dir, uint32_t engine, htc_error *error);

#endif
