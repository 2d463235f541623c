/* What the files of the etcd adapter share:
 *
 *   etcd.c       connections: opened, asked by HTTP, given up for another member
 *   etcd_ask.c   what becomes of a request: what to ask, what the answer means, what to do when none comes. No socket in sight
 *   etcd_text.c  the JSON of etcd's gateway: requests written, answers taken apart. Nothing else */
#ifndef HTC_NET_STORES_ETCD_H
#define HTC_NET_STORES_ETCD_H

#include "net/remote/window.h"

#define HTC__ETCD_PREFIX_MAX 65                /* with its slash */
#define HTC__ETCD_VALUE_MAX  ((size_t)1 << 20) /* etcd takes requests of 1.5 MiB unless told otherwise */
#define HTC__ETCD_BODY_MAX   ((size_t)8 << 20) /* an answer that is longer is not read */
#define HTC__ETCD_NODES_MAX  ((size_t)1 << 16) /* nor taken apart, if it has more values: they are larger in memory */
#define HTC__ETCD_PAGE_MAX   1000              /* records asked for at once */
#define HTC__ETCD_TRIES_MAX  256               /* of a change that others are faster than */
#define HTC__ETCD_NAME_MAX   (HTC__ETCD_PREFIX_MAX + HTC_KV_KEY_MAX + 1)

/* ---- etcd_text.c ---- */

/* What a change asks for beforehand; else nothing is changed, and the record is shown. */
typedef enum htc__etcd_if {
    HTC__ETCD_ALWAYS,
    HTC__ETCD_ABSENT,
    HTC__ETCD_PRESENT,
    HTC__ETCD_VERSION,
    HTC__ETCD_VALUE
} htc__etcd_if;

typedef struct htc__etcd_put {
    htc__etcd_if when;
    uint64_t     version; /* HTC__ETCD_VERSION; 0: absent */
    htc_bytes    seen;    /* HTC__ETCD_VALUE */
    htc_bytes    key, value;
    uint64_t     lease;
    int          keep_lease, want_old;
} htc__etcd_put;

/* Each writes the body of a request behind what b holds, and gives its path. prefix: what all keys begin with. */
const char *htc__etcd_write_get(htc_buf *b, const char *prefix, htc_bytes key);
const char *htc__etcd_write_page(htc_buf *b, const char *prefix, htc_bytes key, htc_bytes cursor, uint64_t limit);
const char *htc__etcd_write_count(htc_buf *b, const char *prefix);
const char *htc__etcd_write_put(htc_buf *b, const char *prefix, const htc__etcd_put *put);
const char *htc__etcd_write_delete(htc_buf *b, const char *prefix, htc_bytes key, int want_old);
const char *htc__etcd_write_delete_if(htc_buf *b, const char *prefix, htc_bytes key, uint64_t version);
const char *htc__etcd_write_grant(htc_buf *b, htc_ns ttl);
const char *htc__etcd_write_renew(htc_buf *b, uint64_t lease);
const char *htc__etcd_write_revoke(htc_buf *b, uint64_t lease);

typedef struct htc__etcd_answer {
    uint64_t  revision; /* never 0 */
    int       succeeded, more;
    uint64_t  count, deleted, id, ttl;
    uint32_t  items;
    htc_bytes items_bytes; /* htc_kv_item's, of keys that are ours; what is not is left out */
    htc_bytes cursor;      /* where a page behind these goes on; at most HTC_KV_KEY_MAX */
    int       code;        /* etcd refuses: its gRPC code, else 0 */
    char      text[160];   /* and says why; printable */
} htc__etcd_answer;

/* An HTTP answer taken apart; kept has its bytes, cleared first. HTC_OK, a refusal included; HTC_EPROTO: that is no answer of
 * etcd's; HTC_ETOOBIG; HTC_ENOMEM. */
htc_status htc__etcd_read(const char *prefix, int http, htc_bytes body, htc_buf *kept, htc__etcd_answer *answer);
/* What a refusal means. *done: 0: nothing was changed; 1: it may have been; HTC_AGAIN: ask another time, or another member. */
htc_status htc__etcd_meaning(const htc__etcd_answer *answer, int *done);

/* ---- etcd_ask.c ---- */

typedef struct htc__etcd_words {
    htc_env     env;
    htc__window window;
    char        prefix[HTC__ETCD_PREFIX_MAX + 1];
    htc_buf     kept, scratch;
    char        said[160]; /* the last thing that went wrong */
} htc__etcd_words;

/* How an ask goes on. */
typedef enum htc__etcd_next {
    HTC__ETCD_ANSWERED, /* the ask is answered, and no longer the connection's */
    HTC__ETCD_SEND,     /* ask again, at once */
    HTC__ETCD_LATER     /* not here, or not now */
} htc__etcd_next;

/* What to send for an ask that waits for no answer: body, and *path; *path NULL: it was answered without one. */
htc_status htc__etcd_say(htc__etcd_words *w, htc__ask *ask, htc_buf *body, const char **path);
/* http: the status; body: as it came. */
htc_status htc__etcd_heard(htc__etcd_words *w, htc__ask *ask, int http, htc_bytes body, htc__etcd_next *next);
/* No answer will come, or none that can be read (why: HTC_EPROTO, HTC_ETOOBIG). sent 0: nothing of it left this process. */
htc_status htc__etcd_lost(htc__etcd_words *w, htc__ask *ask, int sent, htc_status why, htc__etcd_next *next);

#endif
