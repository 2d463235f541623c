/* What the server of several members is made of shares this: cluster.c (members, messages, time) and the components that
 * components.c lists, each of which begins by saying what it is for. */
#ifndef HTC_KVS_CLUSTER_PRIVATE_H
#define HTC_KVS_CLUSTER_PRIVATE_H

#include "core/util.h"
#include "htcsched/keyring.h"
#include "htcsched/ring.h"
#include "kvs/replica/cluster.h"
#include "kvs/map/bucket_state.h"
#include "kvs/map/map.h"
#include "kvs/peer/map_items.h"
#include "kvs/util/latency_estimate.h"
#include "kvs/util/place.h"
#include "kvs/register/register.h"

/* What the log has said of a member last: replica/member_log.c. */
enum { HTC__KV_NOTICED_NOTHING, HTC__KV_NOTICED_HERE, HTC__KV_NOTICED_SILENT };

typedef struct htc__kv_peer {
    uint64_t id;             /* 0: not known yet; whoever wants to join knows others by their addresses alone */
    uint32_t number;         /* of the driver's connection to it; 0: this member, or none was asked for yet */
    uint32_t connected, met; /* met: heard in this life */
    uint32_t away;           /* it was, when eventual/anti_entropy.c looked last */
    uint32_t caught_up;      /* what it had accepted is being taken, or was: migrate/catchup.c */
    uint8_t  self, listed;   /* listed: the map names it */
    uint8_t  dialling;       /* the driver was asked for a connection to it */
    uint8_t  missed;         /* eventual/orphan_handoff.c: records are kept until it is heard */
    uint8_t  noticed;        /* HTC__KV_NOTICED_HERE, … */
    htc_ns   noticed_at;     /* since then */
    htc_ns   heard, said;    /* when last */
    htc_ns   opened;         /* when the connection to it was */
    htc_ns   hailed;         /* when it first spoke on one of its own to this member: what it said on another is lost */
    htc__kv_latency pace;       /* how long it takes to answer what is handed to it */
    htc_ns   answered;       /* when it last did a change that was */
    htc_ns   left;           /* when one was last given to another owner in its stead */
    uint64_t settled;        /* it holds no eventual record that only others own, by the map of this version, less one: eventual/orphan_handoff.c */
    uint64_t map_said;       /* which map it was sent, plus one, and when */
    htc_ns   map_said_at;
    htc_ns   have_said;      /* when it was last told which map this member has */
    uint64_t messages;       /* sent on this connection */
    char     name[HTC_PEER_NAME_MAX]; /* of the key that alone speaks as it; "": any member's does */
    htc_buf  items;
} htc__kv_peer;

/* What is known of a connection that has greeted as a member's: the last message heard on it, and from whom. */
typedef struct htc__kv_greeting {
    uint64_t last, as;
    htc_ns   told; /* when whoever is no member was last told what the members know */
} htc__kv_greeting;

/* A request on its way: to this member's register or to another member's, until it is answered. */
typedef struct htc__kv_pending {
    htc__wheel_entry    entry; /* first: the wheel knows nothing else */
    uint64_t            tag;
    const htc__kv_face *face;       /* NULL: another member has forwarded it */
    uint64_t            conn, slot; /* of the face; else the member and its tag */
    htc__kv_stamp       stamp;
    htc_kv_request      q;
    uint32_t            op;           /* as it was asked, before it became q */
    uint8_t             kind, step;   /* htc__kv_forward_kind; replica/lease.c: what the register is asked for now */
    uint64_t            lease;        /* of the kind; the one that the key was found bound to */
    uint64_t            target;       /* who has it now */
    uint32_t            attempt;      /* how many had it before */
    uint8_t             tried, again; /* again: another owner had it, and did not answer */
    uint8_t             unsent;       /* it waits for the one that is to have it: nobody got it */
    uint8_t             client;       /* its answer is one to a client */
    size_t              flies;        /* then: so many bytes that are in work for it */
    uint8_t             early;        /* this member does not know yet who owns the key */
    uint8_t             ours;         /* it came without a client's number and got one of this member's */
    uint8_t             elsewhere;    /* another member was asked */
    uint8_t             listed;       /* this member's register found it done: perhaps by another owner */
    htc_ns              arrived, until, given; /* given: when target got it */
    uint8_t            *bytes; /* that q points into */
    size_t              size;
} htc__kv_pending;

/* Who keeps a bucket, as the newest map says. */
typedef struct htc__kv_route {
    uint64_t epoch, image;
    uint64_t since; /* the version of the map that first said so here */
    uint64_t turned; /* the same of its owners and their order */
    uint32_t n;
    uint16_t peer[HTC_RING_OWNERS_MAX];
} htc__kv_route;

/* For monitors. */
typedef struct htc__kv_cluster_counts {
    uint64_t sent, sent_bytes, heard; /* messages to other members, and from them */
    uint64_t dropped;                 /* items that did not leave: their member was away, or too much waited for it */
    uint64_t repeated;                /* messages that had been heard, or overtaken */
    uint64_t forwarded, passed_on;    /* requests to another owner, at first and after one that did not answer */
    uint64_t moved, copied;           /* buckets that this member has moved, and that it has copied, being late */
} htc__kv_cluster_counts;

#define HTC__KV_ITEMS_MAX 12 /* kinds that one component hears */

/* A part of a member with a state of its own, which its file alone knows. NULL: it does not do that. */
typedef struct htc__kv_component {
    htc_status (*make)(htc_kv_server *s);             /* before the members are known. HTC_ENOMEM, HTC_EINVAL */
    void (*free)(htc_kv_server *s);                   /* also if it was not made */
    htc_status (*load)(htc_kv_server *s);             /* from the cells; the map and the buckets are known */
    void (*tick)(htc_kv_server *s);                   /* once a step */
    htc_ns (*deadline)(const htc_kv_server *s);       /* when tick is to be called next */
    void (*on_item)(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item); /* of these kinds; items that cannot be read are nothing */
    uint8_t items[HTC__KV_ITEMS_MAX];
    uint8_t needs_map; /* tick asks who owns a key */
} htc__kv_component;

extern const htc__kv_component htc__kv_component_acceptors, htc__kv_component_asked, htc__kv_component_buckets, htc__kv_component_catching,
    htc__kv_component_ends, htc__kv_component_eventual_keys, htc__kv_component_hosting, htc__kv_component_joining,
    htc__kv_component_keeping, htc__kv_component_keys, htc__kv_component_lease_sweep, htc__kv_component_leases,
    htc__kv_component_lost, htc__kv_component_member_log, htc__kv_component_moving, htc__kv_component_notifying,
    htc__kv_component_registers, htc__kv_component_repairing, htc__kv_component_report, htc__kv_component_scans,
    htc__kv_component_tombstones;

typedef struct htc__kv_cluster {
    /* what all components look at: who the members are, and where keys are */
    htc__kv_map             *map;         /* the newest seen; NULL: none yet */
    uint64_t                 map_version; /* of its register; 0: it is the first, which all compute alike */
    htc__kv_route           *route;       /* by bucket */
    uint32_t                 buckets;
    htc__kv_bucket_state    *hold, own_hold; /* by bucket; of the map itself */
    htc__kv_peer            *peers;          /* they only become more */
    uint32_t                 count, self;    /* self: which of them this member is */
    htc__kv_map_member       description;    /* of this member, for a map */
    uint64_t                 seed, id, fingerprint;
    htc_ns                   suspect_ns, request_ns;
    htc__kv_register        *reg;
    uint64_t                 last_tag;
    uint64_t                 own_client, own_sequence; /* of what this life writes for itself and for clients without a number */
    uint64_t                 clock;
    htc__kv_cluster_counts   counts;
    htc_buf                  scratch, here; /* here: what this member has said to itself, while that is read */
    htc__table               greeted;       /* connections of other members: replica/dispatch.c */
    uint32_t                 told;          /* that it serves */
    uint32_t                 left;          /* told that it is no member any more */
    int                      spaces_unknown; /* and it was said that others are not */
    int                      ending;         /* a fault point says so: the member ends when it has sent what it has to say */

    /* what they have for themselves */
    struct htc__kv_acceptors     *acceptors;   /* replica/acceptor_host.c */
    struct htc__kv_asked         *asked;       /* replica/requests.c */
    struct htc__kv_bucket_states *holding;     /* migrate/buckets.c */
    struct htc__kv_catchup       *catching;    /* migrate/catchup.c */
    struct htc__kv_ends          *ends;        /* replica/key_ttl.c */
    struct htc__kv_eventual      *eventual;    /* eventual.h; NULL: every namespace is strong */
    struct htc__kv_hosting       *hosting;     /* replica/watch.c */
    struct htc__kv_joining       *joining;     /* migrate/join.c */
    struct htc__kv_keeping       *keeping;     /* replica/map_keeper.c */
    struct htc__kv_keys          *keys;        /* replica/keys.c */
    struct htc__kv_lease_sweep   *lease_sweep; /* replica/lease_gc.c */
    struct htc__kv_held_leases        *leases;      /* replica/lease.c */
    struct htc__kv_lost          *lost;        /* migrate/lost_bucket.c */
    struct htc__kv_marking       *marking;     /* replica/watch_notify.c */
    struct htc__kv_member_log    *member_log;  /* replica/member_log.c */
    struct htc__kv_moving        *moving;      /* migrate/driver.c */
    struct htc__kv_repairing     *repairing;   /* migrate/repair.c */
    struct htc__kv_report        *report;      /* replica/report.c */
    struct htc__kv_scans         *scans;       /* cluster_scan.c */
    struct htc__kv_tombstones    *tombstones;  /* replica/tombstone_gc.c */
} htc__kv_cluster;

/* What others ask of a component's state. */
uint64_t htc__kv_tombstones_count(const htc_kv_server *s);
size_t   htc__kv_leases_count(const htc_kv_server *s);
size_t   htc__kv_requests_count(const htc_kv_server *s);
size_t   htc__kv_acceptors_floors(const htc_kv_server *s);   /* buckets that have any */
uint64_t htc__kv_acceptors_reserved(const htc_kv_server *s); /* numbers up to this one may be used; 0: none yet */
int      htc__kv_keeping_is_offered(const htc_kv_server *s); /* a map, to be adopted at the next step */
int      htc__kv_keeping_to_mend(const htc_kv_server *s);    /* who keeps the map should be as many as keep anything else, and members */
int      htc__kv_lost_is_all(const htc_kv_server *s);        /* a part of the log was lost, in this life */
size_t   htc__kv_scans_count(const htc_kv_server *s);
int      htc__kv_scans_asks(const htc_kv_server *s, const htc__kv_face *face); /* it is theirs */

/* replica/components.c: all of them, in the order in which a step goes through them. */
htc_status htc__kv_components_make(htc_kv_server *s);
void       htc__kv_components_free(htc_kv_server *s);
htc_status htc__kv_components_load(htc_kv_server *s);
void       htc__kv_components_tick(htc_kv_server *s);
htc_ns     htc__kv_components_deadline(const htc_kv_server *s);
void       htc__kv_components_hear(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item);

/* cluster.c */
void           htc__kv_cluster_say(htc_kv_server *s, uint64_t to, uint8_t kind, htc_bytes item);
htc__kv_peer  *htc__kv_cluster_peer(const htc__kv_cluster *c, uint64_t id); /* NULL: no member */
/* For good; NULL: no memory. Pointers to peers end. */
htc__kv_peer  *htc__kv_cluster_add_peer(htc_kv_server *s, uint64_t id, uint32_t number);
void           htc__kv_cluster_say_to(htc_kv_server *s, htc__kv_peer *peer, uint8_t kind, htc_bytes item);
/* To all that there is a connection to. */
void           htc__kv_cluster_say_all(htc_kv_server *s, uint8_t kind, htc_bytes item);
htc__kv_owners htc__kv_cluster_owners(const htc_kv_server *s, htc_bytes key, uint32_t *bucket);
int            htc__kv_cluster_suspected(const htc_kv_server *s, const htc__kv_peer *peer);
void           htc__kv_cluster_broken(htc_kv_server *s, htc_status why);
/* So much waits for that member that more is dropped. */
int            htc__kv_cluster_much_waits(const htc__kv_peer *peer);
htc_status     htc__kv_cluster_post(htc_kv_server *s, uint32_t number, htc_output *out); /* s->scratch, to that connection */
/* What the register says to owners. */
void htc__kv_cluster_send(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask);

/* replica/dispatch.c; cluster.h: htc__kv_cluster_input */
void       htc__kv_dispatch_self(htc_kv_server *s);                  /* and what it says to itself about that */
htc_status htc__kv_cluster_dial(htc_kv_server *s, htc_output *out); /* members that the map names */

/* replica/map_keeper.c: whose key speaks as it: NAME of tcp://NAME@HOST:PORT. */
void htc__kv_cluster_name_key(htc__kv_peer *peer, const char *address);

/* replica/keys.c */
htc_status htc__kv_cluster_key_shown(htc_kv_server *s, uint32_t number, htc_bytes opened); /* by that connection, if any */
void       htc__kv_cluster_key_gone(htc_kv_server *s, uint32_t number);
int        htc__kv_cluster_key_speaks_as(const htc_kv_server *s, uint32_t number, const htc__kv_peer *peer);
/* One that is to become a member says where it answers: by its own key's name, not by another one's. */
int        htc__kv_cluster_key_answers_at(const htc_kv_server *s, uint32_t number, const htc__kv_map_member *member);

/* cluster.c */
uint32_t   htc__kv_cluster_copies(const htc_kv_server_options *o);
/* replica/map_keeper.c */
htc_bytes  htc__kv_map_key(void); /* of the register that holds the map */
uint32_t   htc__kv_cluster_bucket(const htc__kv_cluster *c, htc_bytes key); /* HTC__KV_OWN_BUCKET: of the map */
int        htc__kv_route_has(const htc__kv_cluster *c, uint32_t bucket, uint64_t id);
uint64_t   htc__kv_bucket_epoch(const htc__kv_cluster *c, uint32_t bucket);
htc_status htc__kv_cluster_map_first(htc_kv_server *s); /* from the options; HTC_EINVAL, HTC_ENOMEM */
htc_status htc__kv_cluster_map_load(htc_kv_server *s);
/* It is known to be final. Takes the map. */
void htc__kv_cluster_map_offer(htc_kv_server *s, htc__kv_map *map, uint64_t version);
void htc__kv_cluster_map_offer_bytes(htc_kv_server *s, htc_bytes bytes, uint64_t version);
/* Stages a copy. */
htc_status htc__kv_cluster_map_keep(htc_kv_server *s, htc_bytes bytes, uint64_t version);
/* Say to that member which map there is here; ask it for its own; send it the map. */
void htc__kv_cluster_say_have(htc_kv_server *s, uint64_t to);
void htc__kv_cluster_say_want(htc_kv_server *s, uint64_t to);
void htc__kv_cluster_say_map(htc_kv_server *s, uint64_t to); /* 0: to all */
void htc__kv_cluster_on_map(htc_kv_server *s, htc_bytes item);
/* It was a member, and the newest map does not name it. */
int htc__kv_cluster_has_left(const htc__kv_cluster *c);
/* The epoch of a bucket that another member has named: who is behind is told. 1: both know the same. */
int    htc__kv_cluster_epoch_is(htc_kv_server *s, uint64_t from, uint32_t bucket, uint64_t epoch);

/* migrate/buckets.c; migrate/backfill.c: htc__kv_cluster_on_copied */
htc_status htc__kv_buckets_load(htc_kv_server *s);
htc_status htc__kv_buckets_make(htc_kv_server *s); /* room for all buckets */
void       htc__kv_cluster_learn(htc_kv_server *s, uint32_t bucket); /* its route has changed */
int        htc__kv_cluster_serves(htc_kv_server *s, uint32_t bucket, uint64_t epoch);
int        htc__kv_buckets_sealed(const htc_kv_server *s); /* a bucket is, or was, for a change of members */
size_t     htc__kv_cluster_page(const htc_kv_server *s, size_t most); /* bytes of a bucket at once, at most so many */
void       htc__kv_cluster_on_seal(htc_kv_server *s, uint64_t from, htc_bytes item, int copy);
void       htc__kv_cluster_on_install(htc_kv_server *s, uint64_t from, htc_bytes item);
void       htc__kv_cluster_on_copied(htc_kv_server *s, uint64_t from, htc_bytes item);
/* What a batch that failed had changed is read again. */
void       htc__kv_buckets_undone(htc_kv_server *s);
htc_status htc__kv_cluster_stage_first(htc_kv_server *s); /* which buckets it has held from the beginning */

/* migrate/driver.c */
void       htc__kv_cluster_moving_read(htc_kv_server *s); /* the map is to be read, by a majority, before anything else is done */
/* as_of: what its AS_OF says, or HTC__KV_UNSAID. */
void       htc__kv_cluster_on_join(htc_kv_server *s, htc_bytes item, uint64_t as_of);
/* A mover is at work, and that member is it. */
void       htc__kv_cluster_moving_heard(htc_kv_server *s, uint64_t from, uint32_t bucket, uint64_t number);
uint64_t   htc__kv_cluster_driver(const htc_kv_server *s); /* who moves buckets; 0: this member has not heard */
void       htc__kv_cluster_moving_adopted(htc_kv_server *s);                /* the map is another one */

/* What a member is told to change. */
typedef struct htc__kv_change_request {
    uint8_t            kind; /* htc__kv_change_kind; STAY: nothing */
    uint64_t           id;   /* LEAVE, REPLACE, REWEIGHT: of whom */
    htc__kv_map_member member; /* JOIN, REPLACE; REWEIGHT: only the weight */
} htc__kv_change_request;
/* migrate/change_request.c */
const char *htc__kv_change_request_reason(const htc__kv_change_request *wish, htc_status status); /* why it cannot be, in words */
int         htc__kv_change_request_any_time(const htc__kv_change_request *wish);                  /* whatever is under way */
int         htc__kv_change_request_under_way(const htc__kv_map *map, const htc__kv_change_request *wish); /* it is what is under way */
int         htc__kv_change_request_same(const htc__kv_change_request *a, const htc__kv_change_request *b);
htc_status  htc__kv_change_request_begin(htc__kv_map *map, const htc__kv_change_request *wish); /* as of the map's steps */

/* migrate/driver.c */
/* HTC_OK: it will be begun, and driven to its end; HTC_EBUSY: another one is waiting here; HTC_EUNSUPPORTED. */
htc_status htc__kv_cluster_change_request(htc_kv_server *s, const htc__kv_change_request *wish);
/* A client's (HTC_KV_CHANGE): 1: *result says why it cannot be; 0: the face is answered when it has begun. */
int        htc__kv_cluster_change(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn, uint64_t slot,
                                  htc_kv_result *result);
/* Why whoever has asked to be let in is not yet: HTC_OK: it will be now; HTC_AGAIN: it is to ask as of the map that is now. */
htc_status htc__kv_cluster_join_waits(const htc_kv_server *s);

/* migrate/join.c */
void       htc__kv_cluster_on_refused(htc_kv_server *s, htc_bytes item);
void       htc__kv_cluster_on_as_of(htc_kv_server *s, htc_bytes item);
htc_status htc__kv_cluster_join_refused(const htc_kv_server *s); /* why this one is not, as it was told last */
htc_status htc__kv_join_tell(htc_kv_server *s, htc_output *out); /* whoever runs it, once, that it cannot be let in */

/* replica/report.c: the value of an answer to HTC_KV_MEMBERS, in c->scratch. HTC_ENOMEM, HTC_EFULL. */
htc_status htc__kv_cluster_report(htc_kv_server *s, int buckets, htc_bytes *value);

/* replica/requests.c */
/* What the register says of a request. */
void htc__kv_cluster_done(void *ctx, uint64_t tag, const htc__kv_outcome *outcome);
void htc__kv_cluster_hand_over(void *ctx, uint64_t tag, uint64_t to, int tried);

/* One of this member's own, answered to that face; here: to this member's register, else to the owner that is to propose.
 * NULL: no memory, and the machine is broken. */
htc__kv_pending *htc__kv_pending_own(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn,
                                   uint64_t slot, htc_ns until);
void            htc__kv_pending_route(htc_kv_server *s, htc__kv_pending *r);
/* To this member's register, as that request. */
void htc__kv_pending_propose(htc_kv_server *s, htc__kv_pending *r, const htc_kv_request *q);
void htc__kv_pending_give(htc_kv_server *s, htc__kv_pending *r, uint64_t to); /* another owner is to have it */
void htc__kv_pending_tell(htc_kv_server *s, htc__kv_pending *r, const htc__kv_forwarded *answer);

/* migrate/catchup.c */
typedef struct htc__kv_catchup_counts {
    uint64_t compared;     /* keys, with the same key of another owner */
    uint64_t given, taken; /* records sent to who catches up; accepted, being it */
    uint64_t rounds;       /* members that were gone through */
    uint64_t left;         /* that are yet to be */
} htc__kv_catchup_counts;
void       htc__kv_catchup_counted(const htc_kv_server *s, htc__kv_catchup_counts *counts);

/* migrate/lost_bucket.c */
int  htc__kv_lost_frames(const htc_kv_server *s); /* nothing that this member remembers is sure to be the newest: log.h */
void htc__kv_lost_all(htc_kv_server *s);
void htc__kv_lost_found(htc_kv_server *s, uint32_t bucket); /* what is remembered of it is damaged: map/bucket_state.h */
/* The map was read. 0: there is no room to store what follows: once more. */
int  htc__kv_lost_known(htc_kv_server *s, const htc_kv_result *read);
int  htc__kv_lost_may_be_renewed(const htc_kv_server *s, uint32_t bucket);
/* That bucket is sealed here, durably, and what there was cannot be shown. */
void htc__kv_lost_say(htc_kv_server *s, uint64_t to, const htc__kv_seal_ask *seal);

/* migrate/repair.c */
typedef struct htc__kv_repair_counts {
    uint64_t damaged;           /* buckets of which this member has damaged records now */
    uint64_t renewed, given_up; /* that were, and are whole again; renewals that this member has given up */
} htc__kv_repair_counts;
htc_status htc__kv_repair_make(htc_kv_server *s); /* room for all buckets */
void       htc__kv_repair_free(htc_kv_server *s);
void       htc__kv_repair_found(htc_kv_server *s, htc_bytes key); /* this member's record of that key cannot be read */
void       htc__kv_repair_bucket(htc_kv_server *s, uint32_t bucket); /* as if a record of it could not be */
int        htc__kv_repair_may_say(htc_kv_server *s); /* one line more of it: so many in a life */
/* Nothing of that bucket is as it was; renewed: by what others had of it. */
void       htc__kv_repair_whole(htc_kv_server *s, uint32_t bucket, int renewed);
/* This member has given up a renewal. HTC_ECORRUPT: too many owners have lost the same key; HTC_EFULL: it is too large; HTC_ETIMEDOUT. */
void        htc__kv_repair_given_up(htc_kv_server *s, htc_status why);
const char *htc__kv_repair_why(htc_status why); /* in words */
htc_ns     htc__kv_repair_at(const htc_kv_server *s); /* when the next renewal is to begin */
/* In this copy of the map. HTC_ENOTFOUND: there is nothing that can be renewed now; else as of the map's steps. */
htc_status htc__kv_repair_begin(htc_kv_server *s, htc__kv_map *map);
void       htc__kv_repair_counted(const htc_kv_server *s, htc__kv_repair_counts *counts);

/* replica/lease.c */
typedef struct htc__kv_lease_record {
    uint64_t keeper, client, sequence; /* who counts its time; who asked for it */
} htc__kv_lease_record;
typedef struct htc__kv_lease_key {
    uint8_t bytes[16];
} htc__kv_lease_key;
htc_bytes  htc__kv_lease_key_of(htc__kv_lease_key *key, uint64_t id); /* lends key */
int        htc__kv_is_lease_key(htc_bytes key, uint64_t *id);
void       htc__kv_lease_record_write(htc_buf *b, const htc__kv_lease_record *record);
htc_status htc__kv_lease_record_read(htc_bytes bytes, htc__kv_lease_record *record); /* HTC_EPROTO */
/* This owner holds this of a lease's record now. */
void htc__kv_cluster_lease_held(htc_kv_server *s, uint64_t id, const htc__kv_cell *cell, int loading);
/* This member has read the record: it may be its keeper, and not know it. */
void htc__kv_cluster_lease_read(htc_kv_server *s, uint64_t id, const htc_kv_result *read);
/* A new term is final, and this member has written it: it was not found done before. */
void       htc__kv_cluster_lease_begins(htc_kv_server *s, uint64_t id, uint64_t term);
void       htc__kv_cluster_lease_answer(htc_kv_server *s, htc__kv_pending *r, const htc__kv_forwarded *a);

/* replica/key_ttl.c */
/* This owner holds a key with this ttl (0: none, or no key) of this term now; it had one before. Stages what finds it again. */
htc_status htc__kv_cluster_end_held(htc_kv_server *s, htc_bytes key, htc_ns ttl, uint64_t term, int had);
htc_ns     htc__kv_cluster_end_left(const htc_kv_server *s, htc_bytes key, htc_ns ttl);

/* replica/tombstone_gc.c */
/* This owner held a tombstone of the key (had), and holds one now (has). Stages what finds it again. */
htc_status htc__kv_cluster_tombstone(htc_kv_server *s, htc_bytes key, int had, int has);

/* replica/lease_gc.c */
/* This owner held the key bound to lease had (0: to none), and holds it bound to has now. Stages what finds it again. */
htc_status htc__kv_cluster_bound(htc_kv_server *s, htc_bytes key, uint64_t had, uint64_t has);

/* cluster_scan.c */
int    htc__kv_cluster_scan(htc_kv_server *s, const htc_kv_request *request, const htc__kv_face *face, uint64_t conn,
                            uint64_t slot, htc_kv_result *result);
void   htc__kv_cluster_scans_hurry(htc_kv_server *s, const htc__kv_face *face); /* its lists can be asked for now */

/* replica/acceptor_host.c */
/* This owner holds that cell of the key from now on (NULL: none), with all that hangs on it. There is room for it. */
htc_status htc__kv_cluster_put(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell);
htc_status htc__kv_cluster_floors_put(htc_kv_server *s, uint32_t bucket, const htc__kv_floors *floors);
htc_status htc__kv_cluster_floors_load(htc_kv_server *s, uint32_t bucket, htc__kv_floors *floors);
/* What stands in c->scratch, to that member: now, or when what this step has looked at is stored (s->touched). */
void htc__kv_cluster_reply(htc_kv_server *s, uint64_t to, uint8_t kind);
/* An accept that is answered to nobody. 1: it was taken; 0: refused, or there is no room. */
int  htc__kv_cluster_accept_late(htc_kv_server *s, uint64_t from, const htc__kv_ask *ask);
void htc__kv_cluster_reserve(void *ctx, uint64_t counter);

#endif
