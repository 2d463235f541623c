/* The directory of a gateway on another host that is seen here too: outputs are stored there instead of being sent. */
#ifndef HTC_NET_EXEC_OUTPUTS_AT_H
#define HTC_NET_EXEC_OUTPUTS_AT_H

#include <pthread.h>
#include <stdint.h>

#define HTC__OUTPUTS_ID_NAME 24 /* room for the name of its file */

typedef struct htc__outputs_at {
    pthread_mutex_t lock;
    int             fd;  /* O_PATH; -1: there is none */
    uint64_t        seq; /* of the newest call */
} htc__outputs_at;

void htc__outputs_at_open(htc__outputs_at *at);
void htc__outputs_at_close(htc__outputs_at *at);
/* A descriptor of it, the caller's to close; -1: there is none. at: NULL is fine. Threads: any. */
int  htc__outputs_at_dup(htc__outputs_at *at);
/* The file below the directory that holds the id. */
void htc__outputs_id_name(const char *id, char name[HTC__OUTPUTS_ID_NAME]);
/* A descriptor of dir (O_PATH), if what lies there under the id is that id. -1, and why. */
int  htc__outputs_at_find(const char *dir, const char *id, char *why, size_t room);

#endif
