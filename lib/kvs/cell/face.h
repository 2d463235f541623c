/* Between those who speak to connections (faces: the native session, RESP) and what executes (the backend).
 *
 * A backend answers at once, or later: exactly once, in any order among requests. It never looks into a connection: conn
 * and slot are the face's own names for where an answer belongs, and an answer for a connection that is gone is the
 * face's to drop. */
#ifndef HTC_KVS_FACE_H
#define HTC_KVS_FACE_H

#include "core/codec.h"
#include "htcsched/kv.h"

/* What makes a repeated change harmless; client 0: nobody repeats it. */
typedef struct htc__kv_stamp {
    uint64_t client, sequence, since;
    uint32_t fresh; /* 1: known to be the first transmission */
    uint32_t alone; /* 1: its client has asked nothing else, and before it does the face calls hurry: it may be kept waiting */
    uint64_t alive; /* a lease that was found to live after the request was asked; else 0. Between members alone */
} htc__kv_stamp;

typedef struct htc__kv_face {
    /* Lent until it returns. It does not call the backend. */
    void (*answer)(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result);
    void *ctx;
    /* 1: nobody waits for what is asked under this name any more: what takes long may be given up, and is answered all the same.
     * May be NULL. */
    int (*gone)(void *ctx, uint64_t conn);
    /* Right before an answer: another member had to be asked for it, which its client could have asked itself. May be NULL. */
    void (*elsewhere)(void *ctx, uint64_t conn);
} htc__kv_face;

typedef struct htc__kv_backend {
    /* A GET that is HTC_ENOTFOUND shows the version of the deletion, or one that no version of the key will be below; 0: not known. It is
     * not for users: to them what does not exist has version 0.
     * 1: *result is the answer, lent until the next call; 0: face->answer comes later with conn and slot. Then the
     * lengths in *result are what that answer will most likely take, as far as is known; nothing else in it counts. */
    int (*ask)(void *ctx, const htc_kv_request *request, const htc__kv_stamp *stamp, const htc__kv_face *face,
               uint64_t conn, uint64_t slot, htc_kv_result *result);
    /* 1: so much waits to be stored that a face does well to ask for no change before the next turn. */
    int (*busy)(void *ctx);
    /* 1: so much is in work for clients that one more request, with so many bytes of value, has to wait for the next turn; 0 bytes: any. May
     * be NULL. A read has as many as `read` says: so long its answer will be, as far as one can tell. */
    int (*full)(void *ctx, size_t bytes);
    size_t (*read)(void *ctx, htc_bytes key);
    /* These keys are asked for next: whoever has several at hand saves most of the waiting for memory. May be NULL. */
    void (*hint)(void *ctx, const htc_bytes *keys, size_t n);
    /* What was asked alone under this name is not to wait for others any more. May be NULL. */
    void (*hurry)(void *ctx, const htc__kv_face *face, uint64_t conn);
    /* 1: who is at the other end of this connection may change who keeps the store. May be NULL: everybody may. */
    int (*may_change)(void *ctx, uint32_t peer);
    /* Of one member alone; NULL, or HTC_EUNSUPPORTED, of several, where each key is a register of its own.
     * look: what a GET would be answered, also where it would have to wait until something is stored; lent until the next call.
     * together: what is asked from now on until this input ends takes effect as one, in memory and on the disk: so many changes of keys and
     * values of so many bytes in all, of which so many changes are no deletions. HTC_OK; HTC_EBUSY: not now, ask again in the next turn; HTC_ENOSPC; HTC_EFULL; HTC_ETOOBIG: never. */
    htc_status (*look)(void *ctx, htc_bytes key, htc_kv_result *result);
    htc_status (*together)(void *ctx, size_t changes, size_t puts, size_t keys, size_t values);
    /* Bytes of memory for what is kept, and how many they may be (0: as many as there are). Processor time of the process, in
     * user mode and in the kernel; 0: it is not known. May be NULL. */
    size_t (*used)(void *ctx, size_t *max);
    int (*cpu)(void *ctx, htc_ns *user, htc_ns *sys);
    /* Memory of the process as the system counts it; 0: not known. Keys whose ttl has ended, as far as this member has ended them. May be NULL. */
    size_t (*resident)(void *ctx);
    uint64_t (*expired)(void *ctx);
    /* For clients that ask the owners of keys themselves (owners_wire.h): what is known of them, and who this member is; 0: there is nobody
     * else. Then the KV_OWNERS of that id for a client that has that. May be NULL. */
    uint64_t (*have)(void *ctx, uint64_t *member);
    htc_status (*owners)(void *ctx, uint64_t id, uint64_t have, htc_buf *b);
    void *ctx;
} htc__kv_backend;

#endif
