/* The inside of a run of a whole store (htcsched/sim_store.h).
 *
 *   store_run.c      what the seed draws, trouble, healing, the report
 *   store_members.c  members: boots, disks, ends
 *   store_log.c      what a log writes, and what becomes of it later
 *   store_rot.c      what rots of it
 *   store_clients.c  clients: whom they ask, and how long they wait
 *   store_proxies.c  proxies between clients and members
 *   store_redis.c    clients of Redis' protocol
 *   store_ask.c      what they ask of keys, and what they note; the last reads
 *   store_pages.c    pages of scans, and counts
 *   store_leases.c   leases, keys that are bound to them, and keys with a ttl
 *   store_moves.c    members that come, go, are replaced and get another weight
 *   store_map.c      what the map of the members may become, and whether all is at rest
 *   store_watch.c    what members store
 *   store_watchers.c clients that watch keys and prefixes
 *   store_eventual.c an eventual namespace
 *   store_versions.c members and clients that speak the previous version
 *   store_judge.c    the rules of htcsched/history.h, one after the other
 */
#ifndef HTC_SIM_STORE_PRIVATE_H
#define HTC_SIM_STORE_PRIVATE_H

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/history.h"
#include "htcsched/kv_proxy.h"
#include "htcsched/kv_server.h"
#include "htcsched/ring.h"
#include "htcsched/sim_store.h"
#include "kvs/cell/siblings.h"

#define STORE_FIRST   7  /* members at the beginning, at most */
#define STORE_MEMBERS 12 /* and with those that come later */
#define STORE_CLIENTS 6
#define STORE_PROXIES 2
#define STORE_CALLS   7 /* connections of a client to the owners of keys, at once */
#define STORE_BITS    3 /* of a key's place that name its bucket */
#define STORE_BUCKETS (1 << STORE_BITS)
#define STORE_KEYS    256
#define STORE_VALUE   1024
#define STORE_BATCH   5  /* requests of one message */
#define STORE_LEASES  48 /* and keys with a ttl, ever */
#define STORE_BOUND   2  /* keys of one lease, ever */
#define STORE_NAME    16
#define STORE_VIEWS   3 /* watches of one client */
#define STORE_COPIES 32 /* eventual keys, ever */
#define STORE_OLD    32 /* writes to a log that are remembered */
#define STORE_RESP    6379 /* the port of Redis' clients */
#define STORE_NONE    UINT32_MAX
/* When all is well, a lease whose keeper is gone has ended so long after its ttl: whoever comes next has begun to count by then. A key's own
 * end is tried again and again, each time after twice as long, and may have been tried all through the trouble. */
#define STORE_TAKEOVER (20 * HTC_SECOND)

/* What a seed draws beside faults. */
typedef struct store_setting {
    uint32_t members, owners, clients;
    uint32_t keys, turnover; /* keys in use at once, operations until they are others */
    uint32_t old_keys;       /* 1: the others are asked for now and then */
    uint32_t operations;
    uint32_t cells;
    uint32_t damaged;    /* the member whose disk may be damaged for good */
    int      uncompared; /* members do not catch up by comparing what they hold */
    uint32_t wipe_ppm;   /* cells in memory: of its crashes */
    uint32_t rot_ppm;    /* a log: of its writes */
    int      rot_old;    /* of these any, not the newest alone */
    int      rot_eventual; /* of these mostly what is of an eventual key */
    uint32_t super_ppm;  /* a log: of its writes: a superblock rots */
    int      super_both; /* and the other one with it, now and then */
    uint64_t segment;    /* a log: bytes of a file */
    uint32_t tombstones; /* before they are collected; 0: never, and answers are judged by their versions */
    htc_ns   retry, suspect, request;     /* of members */
    htc_ns   again, give_up, patience;    /* of clients: repeat, HTC_ETIMEDOUT, ask another member */
    htc_ns   think;                       /* between two operations, at most */
    htc_ns   commit;                      /* cells in memory: until it is durable, at most */
    htc_ns   blackout_gap, blackout_span; /* the power fails for all members; 0: never */
    uint32_t crash_ppm;                   /* of a member's steps: it is killed behind it */
    uint32_t crash_one;                   /* that happens to this member alone; STORE_NONE: to all */
    htc_ns   crash_span;
    uint32_t loss_ppm; /* at least */
    uint32_t points_ppm;
    int      storm;
    uint32_t batch;     /* requests of one message, at most */
    uint32_t value;     /* bytes of some values, at most; 0: all are short */
    uint32_t pages_ppm; /* of requests: pages and counts */
    uint32_t leases_ppm;
    htc_ns   ttl;         /* of leases, at most */
    htc_ns   interval;    /* a log: it is synced so often, and the power fails for the damaged member alone; 0: for each batch */
    uint32_t mate;        /* this member and the one before share a machine; 0: nobody does */
    uint32_t refused_ppm; /* of a member's allocations */
    uint32_t watches_ppm; /* of requests: a watch begins or ends before it */
    uint32_t redis;       /* so many clients speak Redis' protocol */
    uint32_t direct;      /* 1: clients ask the owners of keys themselves */
    uint32_t proxies;     /* so many there are */
    uint32_t behind, mixed; /* clients that ask through them; of these, that ask members as well: a bit each */
    htc_ns   linger, forget; /* of proxies */
    uint32_t hidden;      /* members that no client reaches for that, a bit each */
    uint32_t older_members, older_clients; /* that speak the previous version at first, a bit each */
    htc_ns   turn_gap;    /* between two of them that change to the other one; 0: nobody does */
    uint32_t eventual_ppm; /* of requests: they are about eventual keys */
    uint32_t eventual_keys, way; /* of these in use at once; how their copies come to agree */
    htc_ns   compare;
    htc_kv_namespace space;
    int      spared;  /* no disk is lost or damaged */
    int      lasting; /* no member ends */
    htc_ns   apart;   /* members are cut off now and then, for about so long; 0: as drawn */
    int      unversioned; /* answers are judged by what they say, not by their versions */
    uint32_t moves;       /* changes of the members; 0: they stay who they are */
    uint32_t nodes;       /* members that there ever are */
    uint32_t least;       /* fewer members than so many nobody wishes for */
    uint32_t mover_ppm;   /* of the steps of who moves buckets or gets them: it is killed behind it */
    uint32_t lose_ppm, back_ppm, rate_ppm; /* of the looks at a change: a disk is lost, it is given up, it gets another rate */
} store_setting;

typedef struct store      store;
typedef struct store_mark store_mark;

/* Where something was written. */
typedef struct store_place {
    char     file[HTC_DISK_NAME_MAX + 1];
    uint64_t offset, length;
    uint64_t eventual, eventual_length; /* of these the newest record of an eventual key, without its name; no length: there is none */
} store_place;

typedef struct store_member {
    store        *s;
    uint32_t      at;
    uint64_t      id;
    htc_sim_node *node;
    htc_sim_disk *disk;   /* of cells that are a log */
    htc_kv_engine engine; /* of cells in memory: what is durable */
    htc_buf       commit; /* on its way there */
    uint64_t      commit_tag;
    int           commit_pending;
    htc_alloc     alloc;  /* refuses now and then */
    htc_rng       memory;
    uint64_t      refused;   /* since it was started */
    uint64_t      boots;     /* of its machine */
    int           unpowered; /* the power has failed for what was not synced */
    store_place   places[3]; /* of cells that are a log: where the newest batches are; [0] is the last */
    store_place   old[STORE_OLD]; /* and where older ones were, of earlier lives too */
    uint32_t      old_n, rotten;  /* rotten: batches */
    int           nameless; /* neither superblock could be read when it was started */
    int           begun;     /* it has kept something */
    int           gone;      /* its disk was lost or damaged: nobody answers under its name any more */
    int           outside;   /* it does not run: nobody has started it yet, or it has left */
    int           left;      /* it says so */
    uint64_t      keeps, keeping; /* the newest epoch of the map itself that it has for good; that it has */
    uint64_t      keeping_batch;  /* which that is stored with */
    uint64_t      replaces;  /* whose place it is to take; 0: nobody's */
    uint32_t      dialled;   /* whom it keeps a connection to, a bit a member */
} store_member;

/* What the newest map says that any member has taken up. */
typedef struct store_map {
    int      known;
    uint64_t version;
    uint32_t members;
    uint64_t id[STORE_MEMBERS];
    uint32_t weight[STORE_MEMBERS];
    uint64_t epoch[STORE_BUCKETS], owners[STORE_BUCKETS]; /* owners: in any order */
    uint8_t  moves[STORE_BUCKETS]; /* it changes hands in the change that is under way */
    int      changing, back;
    uint32_t kind;    /* HTC__KV_JOIN, ... */
    uint32_t keepers; /* of the map itself; the fewer of now and next */
    uint64_t own_epoch, keeper[HTC_RING_OWNERS_MAX]; /* of now */
    uint32_t keeper_n;
    int      settling; /* it is on its way to other keepers */
} store_map;

/* The change that is wished for. */
typedef struct store_moves {
    htc_rng  rng;
    uint32_t left;   /* changes to be begun */
    uint32_t begun;
    uint32_t fresh;  /* the next one that has never been a member */
    uint32_t kind;   /* htc_kv_change_kind; HTC_KV_CHANGE_NONE: there is none */
    uint64_t id;     /* whom it is about */
    uint32_t weight; /* that it is to get */
    uint32_t comer;  /* who is to join */
    int      granted; /* it has begun, and is to end without being asked for again */
    uint32_t backs;  /* so many times has anything been given up */
    uint32_t harmed; /* the member whose disk has rotted, or lost what was not synced; STORE_NONE */
    uint32_t also;   /* HTC_KV_CHANGE_BACK or _RATE: asked for beside it */
    htc_ns   again;  /* nothing is asked for before */
} store_moves;

/* The key that all clients know. */
typedef struct store_key {
    uint32_t number; /* in the history */
    char     type;   /* r, v: put, delete, compare-and-swap; c: add; d: add, delete; l: append, delete */
    int      used;
    uint64_t version; /* newest that somebody saw */
    char     seen[STORE_VALUE];
    char     name[STORE_NAME];
    int      there; /* as it was read last */
    uint64_t last;
    htc_history_value value;
} store_key;

/* What a watch has told of a key. */
typedef struct store_known {
    uint64_t          version;
    htc_history_value value;
    int               there, noted; /* noted: the history knows that it is watched */
} store_known;

typedef struct store_view {
    int         used, prefix, current;
    uint64_t    tag;
    char        what[STORE_NAME];
    store_known known[STORE_KEYS];
} store_view;

/* A lease; or a key with a ttl, which is a lease of its own. */
typedef struct store_lease {
    uint32_t number; /* in the history */
    int      is_key;
    uint64_t id;
    htc_ns   ttl;
    htc_ns   known_at; /* when its grant was acknowledged; 0: not yet */
    uint32_t bound;    /* keys that somebody has bound to it */
    htc_ns   bound_at[STORE_BOUND]; /* when that was acknowledged; 0: not yet */
} store_lease;

/* A key of the eventual namespace. */
typedef struct store_copies {
    int      used;
    uint32_t number; /* in the history */
    char     name[STORE_NAME];
} store_copies;

/* What a client was given with what it has seen of such a key. */
typedef struct store_context {
    size_t  len;
    uint8_t bytes[HTC_KV_CONTEXT_MAX];
} store_context;

/* One request on its way. */
typedef struct store_asked {
    enum { STORE_OF_KEY, STORE_OF_LEASE, STORE_OF_ALL, STORE_OF_SPACE } what;
    uint32_t op;
    uint32_t at;      /* the key, or the lease */
    uint32_t bound;   /* which key of the lease; STORE_BOUND: it itself */
    size_t   history; /* its operation there; of all: none */
    htc_ns   invoked;
    uint32_t prefix; /* of a page: that of its keys; 0: none */
    char     after[STORE_NAME];
    uint32_t limit;
} store_asked;

typedef struct store_client {
    store         *s;
    uint32_t       at;
    htc_sim_node  *node;
    htc_rng        rng;
    htc_kv_client *kv;
    htc_output    *inner;
    uint8_t        info[64]; /* body of the newest OPENED */
    size_t         info_len;
    uint32_t       open;   /* connections, a bit a member */
    uint32_t       member; /* whom it asks; STORE_NONE */
    uint32_t       called[STORE_CALLS]; /* the member that it called by each of its numbers for that; STORE_NONE */
    uint32_t       answering; /* of the connections for that those that are open, a bit a member */
    uint8_t        infos[STORE_MEMBERS][64]; /* bodies of the newest OPENED of those */
    size_t         infos_len[STORE_MEMBERS];
    htc_ns         now, moved, next;
    uint32_t       moves; /* since something was answered */
    store_asked    asked[STORE_BATCH];
    char           text[STORE_BATCH][STORE_VALUE];
    uint32_t       pending;   /* of these not answered */
    uint32_t       done;      /* answered since all is well */
    uint32_t       reading;   /* last reads: the next key, and behind the keys the next lease, then all keys by pages, their count */
    char           cursor[STORE_NAME]; /* of the next page */
    int            redis;
    int            keeper; /* it changes the members, and asks nothing else */
    uint32_t       sent, told; /* of Redis' commands */
    htc_buf        heard;
    char           seen[STORE_BATCH][STORE_VALUE]; /* what a compare-and-swap expects */
    store_view     views[STORE_VIEWS];
    store_context  contexts[STORE_COPIES];
} store_client;

typedef struct store_proxy {
    store             *s;
    uint32_t           at;
    htc_sim_node      *node;
    htc_kv_proxy      *machine; /* NULL: it is down */
    htc_kv_proxy_stats now;     /* of this life */
} store_proxy;

/* STORE_AGREE: eventual keys are read once more, so that their copies agree. */
typedef enum store_phase { STORE_TROUBLE, STORE_WELL, STORE_LAST, STORE_READ, STORE_AGREE } store_phase;

struct store {
    htc_env               env;
    htc_sim_store_options options;
    htc_sim_store_report *report;
    store_setting         setting;
    htc_sim              *sim;
    htc_sim_trouble      *trouble;
    htc_history          *history;
    store_member          members[STORE_MEMBERS];
    htc_kv_member         listed[STORE_MEMBERS];
    store_client          clients[STORE_CLIENTS + 1]; /* behind the others who changes the members, if anybody does */
    store_proxy           proxies[STORE_PROXIES];
    uint64_t              proxied, packs; /* of proxies that have ended: what they passed on, in so many messages */
    store_key             keys[STORE_KEYS];
    store_lease           leases[STORE_LEASES];
    store_copies          copies[STORE_COPIES];
    htc__siblings         set, kept; /* of one of them, while it is looked at */
    uint32_t              leases_n;
    uint32_t              found; /* keys that were there when they were read last */
    int                   miscounted; /* a count behind that has said another number */
    htc_rng               rng; /* of what happens to members */
    htc_rng               turning; /* of versions */
    htc_rng               rotting;
    store_phase           phase;
    htc_ns                healed; /* when the trouble was over */
    htc_ns                under_way; /* so much longer what was sent before may hold up what is sent behind it */
    uint32_t              asked, known;
    uint64_t              watches, told; /* watches that were begun; what they told */
    store_mark           *marks; /* of store_watch.c */
    uint32_t              marks_count;
    uint64_t              faults[HTC_SIM_STORE_FAULTS];
    store_map             map;
    store_moves           moves;
    uint64_t              changes, moved; /* of the members, that have ended as they were wished; buckets in all changes */
    char                  undecided[2048]; /* what the first checker says that could not decide */
};

static inline uint64_t between(htc_rng *rng, uint64_t from, uint64_t to)
{
    return from + htc_rng_next(rng) % (to - from + 1);
}

/* Both draws are always made, so that one thing more or less shifts nothing behind it. */
static inline uint64_t maybe(htc_rng *rng, uint64_t one_in, uint64_t from, uint64_t to)
{
    int      is = htc_rng_next(rng) % one_in == 0;
    uint64_t value = between(rng, from, to);
    return is ? value : 0;
}

void htc__store_fail(store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* store_moves.c */
void       htc__store_moves_draw(store *s);
htc_status htc__store_moves_begin(store *s);
uint32_t   htc__store_moves_operations(const store *s); /* that may have been asked by now */
int        htc__store_moves_want(const store *s);       /* something is to be asked for */
htc_status htc__store_moves_ask(store_client *c, htc_output *out);
void       htc__store_moves_answered(store_client *c, const htc_kv_result *r);
void       htc__store_moves_step(store_member *m); /* behind each step of a member */
int        htc__store_moves_may_harm(store_member *m); /* what its disk holds: then nobody else's before it has left */
int        htc__store_moves_over(const store *s);  /* nothing more is wished for, and that has come */
void       htc__store_moves_settle(store *s, htc_ns span); /* by then it is so, all know it, and have what they own */

/* store_map.c */
void htc__store_map_look(store *s, store_member *m);
int  htc__store_map_listed(const store *s, uint64_t id);
int  htc__store_map_kept_without(const store *s, uint64_t id); /* a majority of those that keep the map has it, and is without this one */
/* NULL: nothing is under way, each member serves what it owns, and who is none has been told; else what is not so, and of whom. */
const char *htc__store_map_unrest(const store *s, uint32_t *member);

/* store_members.c */
void       htc__store_member_start(store_member *m);
void       htc__store_member_kill(store_member *m); /* in the middle of its trouble */
void       htc__store_member_lose(store_member *m, int wiped); /* for good, with its disk or by itself */
const char *htc__store_address(uint32_t member); /* where clients reach it */
htc_status htc__store_members_add(store *s);
void       htc__store_members_free(store *s);
void       htc__store_blackouts(store *s);
void       htc__store_member_restart(store_member *m); /* killed by whoever runs it */

/* store_log.c: cells that are a log on a simulated disk */
typedef void store_log_put(void *ctx, store_member *m, htc_bytes key, htc_bytes value);
/* What the batches of a write put, as the log would read them. */
void htc__store_log_puts(store_member *m, htc_bytes data, store_log_put *put, void *ctx);
htc_status htc__store_log_call(store_member *m, htc_sim_node *node, const htc_effect *effect);
int        htc__store_log_empty(const store_member *m); /* there is nothing on its disk */

/* store_rot.c: what is drawn; the log writes; it serves, from now on; it is about to be read */
void htc__store_rot_draw(store *s);
void htc__store_rot_written(store_member *m, const htc_disk_request *q);
void htc__store_rot_begins(store_member *m);
void htc__store_rot_boots(store_member *m);

/* store_ask.c: one message's requests are made; an answer is noted */
htc_status htc__store_ask(store_client *c, htc_output *out);
void       htc__store_answered(store_client *c, const htc_kv_result *r);
int        htc__store_read_all(const store *s); /* nothing is left of the last reads */
void       htc__store_note(store_client *c, const store_asked *a, htc_history_op *answer);

/* store_pages.c */
void htc__store_page_ask(store_client *c, store_asked *a, htc_kv_request *q);
void htc__store_page_answered(store_client *c, const store_asked *a, const htc_kv_result *r);

/* store_leases.c: a request about some lease, or 0: there is none to ask about; one that looks whether it is there */
int  htc__store_lease_ask(store_client *c, store_asked *a, char text[STORE_VALUE], htc_kv_request *q);
void htc__store_lease_look(store_client *c, store_asked *a, uint32_t lease, char text[STORE_VALUE], htc_kv_request *q);
void htc__store_lease_answered(store_client *c, const store_asked *a, const htc_kv_result *r);
/* The name of its key, of all it may have: 0, or behind the last. */
int htc__store_lease_key(const store *s, uint32_t lease, uint32_t bound, char name[STORE_NAME]);
/* Somebody has seen that it is there, or that the key that was there before is not. */
void htc__store_lease_seen(store_client *c, uint32_t lease, uint32_t bound, htc_ns invoked, int is);

/* store_clients.c */
htc_status htc__store_clients_add(store *s);
htc_status htc__store_clients_dial(store *s, uint32_t member); /* one that has come */
uint32_t   htc__store_clients_count(const store *s); /* who changes the members included */
htc_status htc__store_submit(store_client *c, const htc_kv_request *q, uint32_t n, htc_output *out);
void       htc__store_clients_free(store *s);
int        htc__store_wants(const store_client *c); /* it is to ask for something */
int        htc__store_clients_done(void *s); /* each has gone on since all is well */
int        htc__store_clients_idle(void *s);
int        htc__store_clients_read(void *s); /* all was read at the end */

/* store_proxies.c: what is drawn; this client asks through them; it asks members; the rest as its name says */
void       htc__store_proxies_draw(store *s);
int        htc__store_is_behind(const store *s, uint32_t client);
int        htc__store_is_mixed(const store *s, uint32_t client);
htc_status htc__store_proxies_add(store *s);
htc_status htc__store_proxies_dial(store *s, uint32_t member); /* one that has come */
void       htc__store_proxies_heal(store *s);
void       htc__store_proxies_report(const store *s, htc_sim_store_report *report);

/* store_redis.c */
htc_status htc__store_redis_submit(store_client *c, const htc_kv_request *q, uint32_t n, htc_output *out);
htc_status htc__store_redis_step(void *self, const htc_input *in, htc_output *out);
htc_ns     htc__store_redis_deadline(const void *self);

/* store_watchers.c: begin or end one, perhaps; take what is told; the client knows nothing of its watches any more; all is told */
htc_status htc__store_views_change(store_client *c);
void       htc__store_views_look(store_client *c);
void       htc__store_views_forget(store_client *c);
int        htc__store_views_know(void *s);

/* store_watch.c: a member is about to have this for good */
void       htc__store_watch(store *s, const store_member *m, htc_bytes name, htc_bytes bytes);
htc_status htc__store_watch_open(store *s);
void       htc__store_watch_close(store *s);

/* store_versions.c: what is drawn; of a node, when it is made; each, when it starts; in the midst of the run */
void     htc__store_versions_draw(store *s);
uint32_t htc__store_version_at_first(uint32_t older, uint32_t i);
void     htc__store_speak(const store_member *m, htc_kv_server *server);
void     htc__store_client_speaks(const store_client *c);
void     htc__store_versions_turn(store *s);

/* store_eventual.c: what is drawn; for members; a request by this lot, or 0; its answer: 1: it is known what became of it; a program starts anew */
void htc__store_eventual_draw(store *s);
int  htc__store_eventual_may_move(const store *s); /* the members may change */
void htc__store_eventual_moves(store *s);          /* and they do */
void htc__store_eventual_options(const store *s, htc_kv_server_options *o);
void htc__store_eventual_faults(const store *s, htc_sim_faults *f);
int  htc__store_eventual_ask(store_client *c, uint64_t lot, store_asked *a, char text[STORE_VALUE], htc_kv_request *q);
int  htc__store_eventual_answered(store_client *c, const store_asked *a, const htc_kv_result *r);
void htc__store_eventual_forget(store_client *c);
/* Each is to be read once more; they were; the next one; all owners hold the same; in the end */
int  htc__store_eventual_reads(const store *s);
int  htc__store_eventual_read(const store *s);
void htc__store_eventual_read_next(store_client *c, store_asked *a, htc_kv_request *q);
int  htc__store_eventual_agrees(void *s);
htc_status htc__store_eventual_judge(store *s, htc_history_verdict *v);

/* store_judge.c */
htc_status htc__store_judge(store *s);
uint64_t   htc__store_hash(const store *s); /* when it has been judged */

#endif
