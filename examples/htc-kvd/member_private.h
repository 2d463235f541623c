/* What member.c and shards.c share: a member, from its options to its host. */
#ifndef HTC_EXAMPLES_MEMBER_PRIVATE_H
#define HTC_EXAMPLES_MEMBER_PRIVATE_H

#include "daemon.h"
#include "htcsched/host_keys.h"
#include "htcsched/kv_store.h"
#include "htcsched/metrics_host.h"
#include "htcsched/ring.h"
#include "huge.h"
#include "identity.h"
#include "namespaces.h"

enum { NATIVE_PORT = 1, RESP_PORT = 2, MEMBER_PORT = 3, PASSWORD_MAX = 512, CONNECTIONS_MAX = 65536, SHARDS_MAX = 64 };

typedef struct member_options {
    const char *dir, *resp, *metrics, *password_file, *engine, *durability;
    const char *listen, *key, *ring, *once;
    const char *join, *at, *proxy;
    uint64_t    domain;
    uint64_t    bytes_max, replaces, value_max;
    uint32_t    json, level, flush, draw, shards, weight, bits, sync_ms, huge_pages;
} member_options;

/* A connection to another member. */
typedef struct dialled {
    char     address[ADDRESS_MAX];
    uint32_t peer;
} dialled;

typedef struct member {
    htc_daemon      *d;
    member_options   o;
    htc_kv_store    *store;
    htc_host        *host;
    char             password[PASSWORD_MAX + 2];
    size_t           password_len;
    uint16_t         port, secure_port, metrics_port;
    huge             huge; /* with --huge-pages */
    htc_host_keys   *keys;
    uint32_t         engine, durability;
    uint64_t         id;    /* 0: the only one */
    uint64_t         process; /* one of several shards that join: the id of the first */
    uint32_t         alone; /* all members are shards of this process */
    uint32_t         count;
    member_address  *peers; /* MEMBERS_MAX */
    const member_address *named; /* as all members name them; NULL: peers */
    htc_kv_member    members[MEMBERS_MAX];
    uint32_t         dialled_count;
    dialled         *dialled;
    uint32_t         space_count; /* eventual */
    htc_kv_namespace spaces[SPACES_MAX];
    uint32_t         strong_count;
    strong_policy    strong[STRONG_MAX];
    const strong_policy *space; /* it is this namespace's; NULL: the store's own */
    uint32_t             copies; /* of each key; 0: as many as the server says */
    uint32_t             left;   /* it is no member any more */
    htc_status           refused; /* why it cannot become one */
    char                 strong_listen[320];
} member;

/* What waits for another member on one connection: several of the largest values at once. Clients are pushed back long before. */
#define MEMBER_WAITING ((size_t)256 << 20)

enum { LISTEN_NATIVE = 1, LISTEN_SECURE = 2, LISTEN_RESP = 4, LISTEN_METRICS = 8, LISTEN_ALL = 15 };

htc_status member_wrong(htc_daemon *d, htc_status status, const char *hint, const char *format, const char *arg);
/* Engine, durability and room as the options say. */
htc_status member_choose(member *m, htc_kv_store_options *so);
/* Memory in large pages from here on, if that was asked for. */
void       member_take_huge(member *m);
htc_status member_read_password(member *m);
htc_status member_open_state(const member *m, const char *dir, htc_state **out);
/* Whose directory m->d->state is, and whether that is one of those that were named. */
htc_status member_find_self(member *m);
/* At the places that what says. write: of the page for monitors. */
htc_status member_listen(member *m, uint32_t what, htc_host_metrics_fn write, void *ctx);
/* Its connections to the others, its store and the two together. Nothing is promised before member_promise. */
htc_status member_open(member *m, const htc_kv_store_options *so);
htc_status member_promise(member *m);
htc_status member_run(member *m);
void       member_show(void *ctx, htc_metrics *metrics); /* of htc_host_metrics_fn */
void       member_say_ready(void *ctx);
uint32_t   member_descriptors(void); /* as many as the system gives; 0: not known */

#endif
