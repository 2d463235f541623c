/* What the files of the gateway's host share. */
#ifndef HTC_NET_GATEWAY_PRIVATE_H
#define HTC_NET_GATEWAY_PRIVATE_H

#include <pthread.h>

#include "htcsched/gateway_host.h"
#include "net/loop/host_private.h"
#include "net/exec/objects.h"
#include "roles/runtime/apart.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"
#include "roles/batch/ssh_hosts.h"

typedef struct htc__job   htc__job;
typedef struct htc__agent htc__agent;
typedef struct htc__batch_host htc__batch_host;

/* An upload that is not complete. What it is announced to take is set aside for it. */
typedef struct htc__upload {
    char                user[64];
    uint8_t             hash[32];
    uint64_t            size, reached; /* reached: where its pieces have come to */
    htc_ns              at;            /* of the last piece that took it further */
    struct htc__upload *next;
} htc__upload;

/* What the uploads of a user come to. */
typedef struct htc__stored {
    char                user[64];
    uint64_t            bytes;
    int                 known; /* they were counted, */
    htc_ns              counted; /* then last */
    struct htc__stored *next;
} htc__stored;

struct htc_gateway_host {
    const htc_env     *env;
    htc_host          *host;
    htc__hook          hook;
    char              *state_dir, *agent_path, *config_path, *data_dir;
    const char *const *environ, *const *agent_args;
    uint32_t           durable;
    int                shared;  /* other gateways may write in data_dir */
    uint64_t           blob_bytes_max;
    uint32_t           apart; /* htc_apart */
    char              *mail_command; /* NULL: none */
    struct htc__mailing *mailing;    /* that is on its way; NULL: none */
    htc__agent        *agents;
    htc__batch_host   *batch;      /* NULL: agents are processes of this machine, or of */
    htc__ssh_hosts        *hosts;      /* these; NULL: there is no list */
    char              *ssh_words;
    char              *ssh_config; /* that ssh reads first; NULL: its own */
    htc__objects_host *objects;    /* NULL: there are none */
    struct event      *look;       /* stopped agents, the disk */
    int                disk_full;
    int                place_missing; /* a place of outputs could not be made: the gateway is to ask again */
    uint32_t           jobs;       /* on the threads now */
    uint32_t           hashing;    /* passwords on the threads now */
    htc__job          *hash_first, **hash_last;
    uint32_t           hash_waiting;
    pthread_mutex_t    blobs;      /* one write of an upload at a time; also of what follows */
    uint64_t           uploads_max; /* bytes that unfinished uploads may come to */
    htc__upload       *uploads;     /* unfinished, the oldest first */
    htc__stored       *stored;      /* finished, by user */
    uint64_t           told;        /* answers that said what uploads come to */
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

/* gateway_files.c and gateway_host.c: on a worker thread */
void htc__gateway_files(htc__job *j);
void htc__gateway_secrets(htc__job *j);
void htc__uploads_forget(htc_gateway_host *g); /* those that nobody goes on with */
void htc__uploads_end(htc_gateway_host *g);

/* gateway_stored.c: on a worker thread, and blobs is held */
htc_status htc__stored_room(htc__job *j, const char *user, uint64_t size, uint64_t most); /* may an upload of that size begin? HTC_EDENIED: no, and left */
void       htc__stored_add(htc_gateway_host *g, const char *user, uint64_t bytes, int removed);
void       htc__stored_forget(htc_gateway_host *g, const char *user); /* it is counted anew when it is asked for */
htc_status htc__stored_tell(htc__job *j, const char *user);           /* into the answer */
void       htc__stored_end(htc_gateway_host *g);
htc_status htc__stored_sum(htc__job *j, htc_reader *r);               /* HTC_CALL_CONTENT_SUM; takes blobs itself */

/* gateway_content.c: on a worker thread */
void       htc__content_touch(int blobs, const char *hex);
htc_status htc__content_touch_all(htc__job *j, htc_reader *r);
htc_status htc__content_sweep(htc__job *j, htc_reader *r);
htc_status htc__content_adopt(htc__job *j, htc_reader *r);
htc_status htc__disk_use(htc__job *j, htc_reader *r);
int        htc__content_user_ok(const char *user); /* it is the name of a directory below data/blobs */

/* What HTC_CALL_LAUNCH asks for, and the command line of htc-agent that does it. */
typedef struct htc__launch {
    uint64_t    id;
    uint32_t    slots_n;
    uint32_t    place; /* htc__place_kind */
    char        agent[32], slot[16], slots[16], site[128], user[128], uid[16], gid[16];
    const char *argv[26 + HTC_GATEWAY_HOST_ARGS_MAX];
} htc__launch;

/* l is not to be moved: argv points into it. HTC_EPROTO; HTC_EDENIED: this host cannot keep that user's tasks apart. */
/* Why HTC_EDENIED: the gateway's host is another one, whose configuration says who is let in. */
#define HTC__NO_OTHERS "no tasks of other users there (task.others_as_owner in its configuration)"
htc_status htc__launch_read(const htc_gateway_host *g, htc_reader *body, htc__launch *l);

/* agents_batch.c: agents as jobs of a batch system */
htc_status htc__batch_host_create(htc_gateway_host *g, const htc_gateway_host_options *options, htc_error *error);
void       htc__batch_host_free(htc_gateway_host *g);
htc_status htc__batch_host_launch(htc_gateway_host *g, uint64_t tag, htc_reader *body);
htc_status htc__batch_host_kill(htc_gateway_host *g, htc_reader *body);

/* gateway_mail.c */
typedef struct htc__mailing htc__mailing;
htc_status htc__gateway_mail(htc_gateway_host *g, uint64_t tag, htc_reader *body);
void       htc__gateway_mail_end(htc_gateway_host *g);

/* agents_fork.c */
htc_status htc__agent_launch(htc_gateway_host *g, uint64_t tag, htc_reader *body);
htc_status htc__agent_watch(htc_gateway_host *g, uint64_t tag, htc_reader *body);
htc_status htc__agent_kill(htc_gateway_host *g, htc_reader *body);
void       htc__agents_look(htc_gateway_host *g); /* for those that are stopped */
void       htc__agents_free(htc_gateway_host *g);
int        htc__agent_has_pid(const htc_gateway_host *g, pid_t pid); /* one of those that are watched */

/* gateway_places.c: directories that several uids pass through or own */
htc_status htc__places_share(const htc_gateway_host *g, htc_error *error);
htc_status htc__job_place(htc_gateway_host *g, htc_reader *body);
/* The user's agents, which have that uid, read the user's uploads. 0, or -1 and errno. */
int        htc__content_place(const htc_gateway_host *g, const char *user, uint32_t uid, uint32_t gid);

/* gateway_credentials.c: as whom the site's agents are started. lines: of the scripts of a batch system, if there are any. HTC_EDENIED: others can read the file. */
htc_status htc__gateway_credentials(htc_gateway_host *g, const htc_gateway_host_batch *b, htc_buf *lines, htc_error *error);

#endif
