/**
 * @file htcsched/kv.h
 * @brief The key-value store's client: requests in, answers out, no socket in sight.
 *
 * The client is embedded in a role (or a program): it turns requests into messages for one peer, repeats them until
 * they are answered, and never lets a change be applied twice: each carries (client id, sequence, since), see
 * doc/architecture.md, "The store". Requests on different keys may be in flight together; changes of one key are sent
 * one after another, in the order they were submitted.
 *
 * Keys are 1 to HTC_KV_KEY_MAX bytes, values 0 to HTC_KV_VALUE_MAX (for CAS_VALUE: seen and value together). Versions
 * grow with every change of a key, over deletion and re-creation too; they do not count by one. 0 means "does not exist",
 * where a version is expected and where one is answered: a CAS on a missing key is HTC_MISMATCH with version 0, unless it
 * expects version 0.
 *
 * A request with a namespace (space) is for that one, which is eventual: GET, PUT and DELETE alone, and a key may have several
 * values beside each other, its siblings. A GET answers all of them, as items, and a context; a PUT or DELETE that carries that
 * context replaces just those, and one without a context replaces nothing. htcsched/kv_siblings.h makes one value of several and
 * the request that writes it back; doc/consistency.md says what is promised.
 *
 * A store of several members answers whoever is asked. A client whose driver can make connections to them (options.members) learns who has which
 * key, once it has asked for a few, and sends each request to the owner that will carry it out; where that one is silent or cannot be
 * reached, to the next one, or to peer as before. Nothing else changes.
 *
 * What a client reads, it reads after its own changes that were submitted before. A page of a SCAN is consistent for each
 * key, not across keys. HTC_EUNKNOWN is rare and means what it says: the change was repeated, and whether it was made cannot
 * be told; read the key.
 *
 * A watch tells how a key, or every key with a prefix, is, and from then on what becomes of it, until it is ended. It is of state, not
 * of history: what changes faster than it is told is merged, but the last state always comes, and versions of a key only rise:
 *
 *     htc_kv_watch watch = { .size = sizeof watch, .key = htc_bytes_of("jobs/"), .prefix = 1 };
 *     htc_kv_event e;
 *     htc_kv_client_watch(client, now, &watch, out);
 *     ...                                                            after each step of the client:
 *     while (htc_kv_client_event(client, &e))
 *         if (e.kind == HTC_KV_EVENT_VALUE)
 *             printf("%.*s is at version %llu\n", (int)e.key.len, (const char *)e.key.data, (unsigned long long)e.version);
 *
 * Threads: owner.   Allocation: through env; at most inflight_max requests and bytes_max bytes are held, and for watches
 * watches_max, the keys of watched prefixes (watch_keys_max) and some messages of the server.
 */
#ifndef HTCSCHED_KV_H
#define HTCSCHED_KV_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The longest key, in bytes. */
#define HTC_KV_KEY_MAX 400
/** The longest value, in bytes. */
#define HTC_KV_VALUE_MAX (16u << 20)
/** The longest name of a namespace, in bytes: a-z, 0-9, dash, underscore, dot. It counts, with one more, into the key's. */
#define HTC_KV_SPACE_MAX 31
/** The longest value in an eventual namespace, in bytes: all siblings that there can ever be fit into one message. */
#define HTC_KV_SIBLING_MAX (64u << 10)
/** The longest context, in bytes. */
#define HTC_KV_CONTEXT_MAX 1280

/** What can be asked of the store. */
typedef enum htc_kv_op {
    HTC_KV_GET = 1,     /**< key -> value, version */
    HTC_KV_PUT,         /**< key, value[, lease or ttl] -> version */
    HTC_KV_DELETE,      /**< key[, version with HTC_KV_IF_VERSION] -> HTC_OK or HTC_ENOTFOUND */
    HTC_KV_APPEND,      /**< key, value -> version, number = new length */
    HTC_KV_CAS_VERSION, /**< key, version (0: must not exist), value -> version; HTC_MISMATCH with value and version */
    HTC_KV_CAS_VALUE,   /**< key, seen, value -> version; HTC_MISMATCH with value and version (Algorithm 4) */
    HTC_KV_ADD,         /**< key, delta -> version, number; a missing key counts as 0; no decimal number as ADD writes it: HTC_EINVAL; a sum
                             beyond 64 bits: HTC_ETOOBIG */
    HTC_KV_SCAN,        /**< key = prefix, cursor (empty: from the start), limit -> items, cursor (empty: no more) */
    HTC_KV_LEASE_GRANT, /**< ttl -> lease */
    HTC_KV_LEASE_RENEW, /**< lease -> HTC_OK or HTC_ENOTFOUND */
    HTC_KV_LEASE_REVOKE, /**< lease -> HTC_OK or HTC_ENOTFOUND; its keys are gone */
    HTC_KV_COUNT,        /**< -> number: how many keys there are; with HTC_KV_EVENTUAL others */
    HTC_KV_MEMBERS,      /**< limit (0, 1: with the owners of each bucket) -> value, for htc_kv_members_read (htcsched/kv_members.h).
                              HTC_EUNSUPPORTED by a store that is not of several members. Since: 0.2 */
    HTC_KV_CHANGE        /**< limit (htc_kv_change_kind: LEAVE, WEIGHT or BACK), version (the id of the member), delta (its weight): change who
                              keeps the store -> HTC_OK: that has begun, with the map of this version; number: so many buckets move. HTC_EBUSY: another change is under
                              way; HTC_ENOTFOUND: no such member, or nothing to give up; HTC_EINVAL: it is the last member;
                              HTC_EUNSUPPORTED; HTC_EDENIED: over a channel, by a key that is no member's;
                              value: the reason in words. Since: 0.2 */
} htc_kv_op;

/** Conditions and wishes of a request, or-ed. A member that does not know them answers HTC_EUNSUPPORTED. */
typedef enum htc_kv_flag {
    HTC_KV_NX = 1,       /**< PUT: only a key that does not exist; else HTC_MISMATCH with value and version */
    HTC_KV_XX = 2,       /**< PUT: only a key that exists; else HTC_ENOTFOUND */
    HTC_KV_WANT_OLD = 4, /**< PUT, DELETE: value is what was there before, and existed whether anything was; not in an answer to a
                              repeated request: a store of the library's own then has number 1 if anything was */
    HTC_KV_KEEP_TTL = 8, /**< PUT, CAS_VERSION, CAS_VALUE: ttl and lease of the key stay as they are; not with ttl or lease */
    HTC_KV_PERSIST = 16, /**< with TOUCH: no ttl and no lease from now on; HTC_ENOTFOUND if there was none */
    HTC_KV_TOUCH = 32,   /**< PUT without a value: only ttl and lease are changed, the value stays; a missing key is HTC_ENOTFOUND */
    HTC_KV_PLACES = 64,  /**< SCAN: in the order of places, not of keys; key is empty, a cursor has 8 bytes. A page never ends
                              between two keys of one place. HTC_EUNSUPPORTED where records are in order of keys alone */
    HTC_KV_EVENTUAL = 256, /**< COUNT: number: keys of eventual namespaces that the member that is asked holds; version: how many such
                                namespaces it has. SCAN: these keys, deleted ones too, each as its namespace, a zero byte and the key, without
                                values; version: the id of that member, what others hold is not among them. Since: 0.2 */
    HTC_KV_IF_VERSION = 512 /**< DELETE: only while the key has version, of the request; else HTC_MISMATCH with value and version. Since: 0.2 */
} htc_kv_flag;

/** One request. All bytes are copied. */
typedef struct htc_kv_request {
    size_t    size;  /**< sizeof(htc_kv_request); in an array, the first one's is the distance to the next, and all have the same */
    uint32_t  op;    /**< htc_kv_op */
    uint32_t  limit; /**< SCAN: 1 to 10000; 0: 1000. MEMBERS: 0 or 1. CHANGE: its kind */
    htc_bytes key;     /**< what it is about */
    htc_bytes value;   /**< PUT, APPEND, CAS_VERSION, CAS_VALUE */
    htc_bytes seen;    /**< CAS_VALUE */
    htc_bytes cursor;  /**< SCAN */
    uint64_t  version; /**< CAS_VERSION; DELETE with HTC_KV_IF_VERSION, not 0. CHANGE: a member */
    int64_t   delta;   /**< ADD. CHANGE: a weight */
    uint64_t  lease;   /**< PUT: the key vanishes with it; 0 none. RENEW, REVOKE */
    htc_ns    ttl;     /**< LEASE_GRANT; PUT, CAS_VERSION, CAS_VALUE: the key vanishes after this, 0: never */
    uint32_t  flags;   /**< htc_kv_flag, several by |. Since: 0.2 */
    htc_bytes space;   /**< GET, PUT, DELETE: the eventual namespace; empty: the one that is strong. Since: 0.2 */
    htc_bytes context; /**< PUT, DELETE with a namespace: of the GET whose values it replaces; empty: it replaces none. Since: 0.2 */
} htc_kv_request;

/** One answer. What it points to is lent by htc_kv_client_next, and until when is said there. */
typedef struct htc_kv_result {
    size_t     size;  /**< set by the caller: sizeof(htc_kv_result). No more than this is written */
    uint64_t   tag;   /**< as submitted */
    uint32_t   index; /**< which request of the submit, from 0 */
    uint32_t   last;  /**< 1: this was the last answer to that submit */
    uint32_t   op;    /**< htc_kv_op of the request */
    htc_status status; /**< HTC_OK, HTC_ENOTFOUND, HTC_MISMATCH, HTC_EUNKNOWN, HTC_EFULL, HTC_ENOSPC, HTC_ETIMEDOUT, … */
    uint64_t   version;     /**< of the key: after a change, as read, or as it is on a HTC_MISMATCH */
    uint64_t   lease;       /**< LEASE_GRANT: its number. GET, HTC_MISMATCH: that the key is bound to (not by etcd); 0: none */
    int64_t    number;      /**< ADD: the new number; APPEND: the new length; COUNT; CHANGE */
    htc_bytes  value;       /**< GET, HTC_MISMATCH: what is stored; with WANT_OLD what was. MEMBERS; CHANGE that failed */
    htc_bytes  cursor;      /**< SCAN: for the next page; empty: no more */
    uint32_t   items;       /**< SCAN, GET with a namespace: how many; read them with htc_kv_result_item */
    htc_bytes  items_bytes; /**< for htc_kv_result_item alone */
    htc_ns     ttl;         /**< GET, HTC_MISMATCH: what is left of the key's own ttl; 0: it has none. Since: 0.2 */
    uint32_t   existed;     /**< WANT_OLD: 1: value is what was there, 0: nothing was. Since: 0.2 */
    htc_bytes  context; /**< with a namespace: GET: covers the items. PUT, DELETE: covers what was written; empty if that has siblings:
                             GET them first. Since: 0.2 */
    uint64_t   member;  /**< PUT, DELETE with a namespace: who coordinated it; version counts its writes of that key. Since: 0.2 */
} htc_kv_result;

/** One record of a SCAN's answer, or one sibling of a key; lent as long as the answer. */
typedef struct htc_kv_item {
    htc_bytes key;     /**< of the record; of a sibling: empty */
    htc_bytes value;   /**< what is stored */
    uint64_t  version; /**< of the key; of a sibling: 0 */
} htc_kv_item;

/** How a client works; every field's zero is its default but for client_id and peer. */
typedef struct htc_kv_client_options {
    size_t   size;         /**< sizeof(htc_kv_client_options) */
    uint64_t client_id;    /**< never used before by any client: draw 64 secret-quality random bits */
    uint32_t peer;         /**< the driver's number of the connection to the server */
    uint32_t inflight_max; /**< requests held at once; 0: 4096. Beyond: HTC_EFULL */
    size_t   bytes_max;    /**< bytes held at once; 0: 64 MiB. Beyond: HTC_EFULL */
    htc_ns   retry_ns;     /**< repeat what is not answered after this, or after twice what answers took of late (eight times this at
                                most), doubling to 16 times this; 0: 1 s */
    htc_ns   timeout_ns;   /**< give up with HTC_ETIMEDOUT after this; 0: never */
    uint32_t watches_max;  /**< watches at once; 0: 1024. Beyond: HTC_EFULL. Since: 0.2 */
    uint32_t watch_keys_max; /**< keys of one watched prefix whose versions are remembered; 0: 262144. Beyond: the watch ends with
                                  HTC_EFULL. Since: 0.2 */
    uint32_t members;     /**< connections that the driver makes to members of the store beside peer, at most, when it is asked to
                               (HTC_KV_CLIENT_DIAL); at most 1024. 0: none, everything goes to peer. Since: 0.2 */
    uint32_t member_peer; /**< the driver's number of the first of them; those of the others count on from it. Since: 0.2 */
} htc_kv_client_options;

/** HTC_OUT_CALL with this op, the driver's number of a connection as the tag and the address of a member in body (as the store was told it:
 *  unix:PATH, or tcp://[NAME@]HOST:PORT, where NAME is whose key it shows): keep a connection to it under that number, as the one to
 *  htc_kv_client_options.peer is kept, with the keys that are trusted there, and hand on what becomes of it; until HTC_OUT_CLOSE of that number, after
 *  which it may be asked for with another address. It needs no answer: an address that cannot be reached is never opened, and the client goes on
 *  without it. */
#define HTC_KV_CLIENT_DIAL 69

/** What a watch tells. */
typedef enum htc_kv_event_kind {
    HTC_KV_EVENT_VALUE = 1,  /**< the key has this value, of this version */
    HTC_KV_EVENT_DELETED,    /**< the key is not there; version: above that of its last value; 0: nothing is known of it */
    HTC_KV_EVENT_CURRENT,    /**< all that there was when the watch began, or began anew, has been told */
    HTC_KV_EVENT_START_OVER, /**< of a prefix: forget what it has told. All that is there is told anew, and then CURRENT: what has not been
                                  told by then is not there */
    HTC_KV_EVENT_ENDED       /**< the watch has ended, status says why; its tag is free again */
} htc_kv_event_kind;

/** What is to be watched. The key is copied. Since: 0.2 */
typedef struct htc_kv_watch {
    size_t    size;    /**< sizeof(htc_kv_watch) */
    htc_bytes key;     /**< 1 to HTC_KV_KEY_MAX bytes; of a prefix also none: all keys */
    uint64_t  tag;     /**< the caller's name of it, of no other watch of the client; comes back with each event */
    uint32_t  prefix;  /**< 1: all keys that begin with key */
    uint64_t  version; /**< of a single key: what the caller holds already; only newer states are told. 0: nothing */
} htc_kv_watch;

/** One thing that a watch tells. What it points to is lent by htc_kv_client_event, and until when is said there. Since: 0.2 */
typedef struct htc_kv_event {
    uint64_t   tag;     /**< of the watch */
    uint32_t   kind;    /**< htc_kv_event_kind */
    htc_status status;  /**< ENDED: HTC_EUNSUPPORTED: this store has no watches; HTC_EFULL: too many watches, or too many keys under a
                             prefix; HTC_EINVAL: no client watches this key (the store's own); HTC_ENOMEM */
    htc_bytes  key;     /**< VALUE, DELETED: which */
    htc_bytes  value;   /**< VALUE */
    uint64_t   version; /**< VALUE, DELETED */
} htc_kv_event;

/** The requests of one role, on their way. */
typedef struct htc_kv_client htc_kv_client;

/**
 * Create a client that holds nothing yet.
 *
 * @param[in]  env      what it points to is kept; NULL: malloc
 * @param[in]  options  borrowed
 * @param[out] out      gives the client: htc_kv_client_destroy
 * @return HTC_OK; HTC_EINVAL: a pointer is NULL, or client_id or peer is 0; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.1
 */
HTC_API htc_status htc_kv_client_create(const htc_env *env, const htc_kv_client_options *options, htc_kv_client **out);

/**
 * Free a client; what is not answered yet will not be.
 *
 * @param[in] client  NULL is fine
 *
 * Cost: O(requests held).   Since: 0.1
 */
HTC_API void htc_kv_client_destroy(htc_kv_client *client);

/**
 * Send requests as one message; to several owners of keys, one to each.
 *
 * More than one are no transaction: each succeeds or fails alone, in order. Answers come from htc_kv_client_next, each with
 * this tag. Without a connection they wait for one. Requests that do not fit into one message, or change one key twice, leave
 * as several.
 *
 * @param[in,out] client    as it was on failure
 * @param[in]     now       the moment, on the clock of the machine's inputs
 * @param[in]     requests  n of them, each as long as the first one's size says; copied with all their bytes
 * @param[in]     n         at least 1
 * @param[in]     tag       the caller's, comes back with each answer
 * @param[in,out] out       messages are appended
 * @return HTC_OK; HTC_EINVAL for a wrong request or one without size, and none is sent; HTC_EABI: a field is set that this library does not know; HTC_EFULL beyond inflight_max or bytes_max; HTC_ENOMEM
 *
 * Cost: O(bytes), amortised.   Since: 0.1
 */
HTC_API htc_status htc_kv_client_submit(htc_kv_client *client, htc_ns now, const htc_kv_request *requests, size_t n,
                                        uint64_t tag, htc_output *out);

/**
 * Hand over an input of the role: messages, opening and closing of the client's peers, timeouts. Others are ignored.
 *
 * @param[in,out] client  whose peer it may be
 * @param[in]     in      borrowed
 * @param[in,out] out     messages are appended
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_EUNSUPPORTED for an unknown kind of input; HTC_ENOMEM and HTC_EFULL of
 *         out: the role is broken
 *
 * Cost: O(bytes), amortised.   Since: 0.1
 */
HTC_API htc_status htc_kv_client_step(htc_kv_client *client, const htc_input *in, htc_output *out);

/**
 * When the client wants an HTC_IN_TIMEOUT.
 *
 * @param[in] client  borrowed
 * @return a moment on the clock of the inputs; HTC_NEVER if it waits for nothing
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_ns htc_kv_client_deadline(const htc_kv_client *client);

/**
 * Take the next answer. Call until 0 after every step.
 *
 * @param[in,out] client  borrowed
 * @param[in,out] result  its size is the caller's; what it points to is lent until the next call of a function that takes the client and is not
 *                        const; untouched if there is none
 * @return 1: there was one; 0: none now, or there can be none: a pointer is NULL, or result has no size
 *
 * Cost: O(1), amortised.   Since: 0.1
 */
HTC_API int htc_kv_client_next(htc_kv_client *client, htc_kv_result *result);

/**
 * The next record of a SCAN's answer, or sibling of a key: call result->items times.
 *
 * @param[in]     result  borrowed
 * @param[in,out] at      the place in the answer: 0 before the first
 * @param[out]    item    lent as long as result; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND behind the last; HTC_EINVAL; HTC_EPROTO
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_kv_result_item(const htc_kv_result *result, size_t *at, htc_kv_item *item);

/**
 * Watch a key, or all keys with a prefix.
 *
 * Told is first how things are (of a single key: what is newer than watch->version), then CURRENT, then what changes. After each change
 * that is final the state that it made is told, or a later one of that key; versions of a key rise strictly, over deletion and
 * re-creation too. The deletion of a key may be told again with a higher version. When the connection is lost, the watch goes on with the
 * next one: of a single key as if nothing had happened, of a prefix with START_OVER.
 *
 * What the caller does not take (htc_kv_client_event) waits at the server, merged, and costs a bounded amount of memory.
 *
 * @param[in,out] client  as it was on failure
 * @param[in]     now     the moment, on the clock of the machine's inputs
 * @param[in]     watch   copied
 * @param[in,out] out     messages are appended
 * @return HTC_OK; HTC_EINVAL, HTC_EABI for a wrong watch; HTC_EEXISTS: there is one of this tag; HTC_EFULL beyond watches_max; HTC_ENOMEM
 *
 * Cost: O(watches).   Since: 0.2
 */
HTC_API htc_status htc_kv_client_watch(htc_kv_client *client, htc_ns now, const htc_kv_watch *watch, htc_output *out);

/**
 * End a watch: no event of it comes any more.
 *
 * @param[in,out] client  borrowed
 * @param[in]     now     the moment
 * @param[in]     tag     of the watch; free again
 * @param[in,out] out     messages are appended
 * @return HTC_OK; HTC_ENOTFOUND: there is none; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(watches and keys that it has told).   Since: 0.2
 */
HTC_API htc_status htc_kv_client_unwatch(htc_kv_client *client, htc_ns now, uint64_t tag, htc_output *out);

/**
 * Take the next event of any watch. Call until 0 after every step: the server sends no more before, and what it merges is not told.
 *
 * @param[in,out] client  borrowed
 * @param[out]    event   what it points to is lent until the next call of a function that takes the client and is not const;
 *                        untouched if there is none
 * @return 1: there was one; 0: none now
 *
 * Cost: O(log of the keys that the watch has told).   Since: 0.2
 */
HTC_API int htc_kv_client_event(htc_kv_client *client, htc_kv_event *event);

/**
 * How many requests are not answered yet.
 *
 * @param[in] client  borrowed
 * @return their number, without those whose answers wait for htc_kv_client_next
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API size_t htc_kv_client_pending(const htc_kv_client *client);

/**
 * Is the server there?
 *
 * @param[in] client  borrowed
 * @return 1 while it is connected and has welcomed this client, else 0
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API int htc_kv_client_connected(const htc_kv_client *client);

#ifdef __cplusplus
}
#endif
#endif
