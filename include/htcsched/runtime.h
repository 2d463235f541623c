/**
 * @file htcsched/runtime.h
 * @brief What a role needs beside its decisions: requests to the store and calls to the host, and what goes on when they are answered.
 *
 * A role is a state machine (htcsched/machine.h) that keeps its records in the store and asks its host for what it may not do
 * itself. A runtime belongs to one role: it owns the client of the store, remembers which function goes on when an answer comes, and
 * writes effects. A role that counts how often it was greeted, whatever happens to it:
 *
 *     static void counted(void *role, void *ctx, const htc_kv_result *r)
 *     {
 *         struct greeter *g = role;
 *         htc_runtime_send(g->runtime, *(uint32_t *)ctx, answer_of(g, r->number));
 *         htc_runtime_context_free(g->runtime, ctx);
 *     }
 *
 *     static htc_status step(void *self, const htc_input *in, htc_output *out)
 *     {
 *         struct greeter *g = self;
 *         if (htc_runtime_begin(g->runtime, in, out) == HTC_OK && in->kind == HTC_IN_MESSAGE && in->peer != STORE) {
 *             uint32_t *peer = htc_runtime_context(g->runtime, sizeof *peer);
 *             if (peer) {
 *                 *peer = in->peer;
 *                 htc_runtime_ask(g->runtime, &add_one, 1, counted, peer);
 *             }
 *         }
 *         return htc_runtime_end(g->runtime, in);
 *     }
 *
 * Nothing here fails one by one: a failure that leaves the role without its continuation (memory, a store that speaks
 * nonsense) breaks the runtime. It is said once, nothing goes on after it, and htc_runtime_end answers it, so that the host ends the
 * role; the next one starts from the store. So what the outside may rely on is said only when the record that holds it is stored.
 *
 * examples/embed/role.c is a whole role.
 *
 * Threads: owner.   Allocation: through env, a small piece for each request, call and context.   Since: 0.2
 */
#ifndef HTCSCHED_RUNTIME_H
#define HTCSCHED_RUNTIME_H

#include "htcsched/codec.h"
#include "htcsched/kv.h"
#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A runtime: opaque. */
typedef struct htc_runtime htc_runtime;

/** Goes on when the store has answered: once for each operation of the request, result->last with the last. The result is lent for the
 *  call. A continuation may ask, call and send; it does not call htc_runtime_begin, _end or _destroy. */
typedef void (*htc_runtime_store_fn)(void *role, void *context, const htc_kv_result *result);

/** Goes on when the host has answered a call, once. The body is lent for the call. */
typedef void (*htc_runtime_call_fn)(void *role, void *context, htc_status status, htc_bytes body);

/** Goes on with each event of a watch, up to and with HTC_KV_EVENT_ENDED. The event is lent for the call. A continuation may ask, call and
 *  send; it does not watch anew, nor call htc_runtime_begin, _end or _destroy. */
typedef void (*htc_runtime_watch_fn)(void *role, void *context, const htc_kv_event *event);
/** Goes on when what was waited for has come about, or failed: once. */
typedef void (*htc_runtime_wait_fn)(void *role, void *context, htc_status status);

/** How a runtime works. */
typedef struct htc_runtime_options {
    size_t size; /**< sizeof(htc_runtime_options) */
    void  *role; /**< first argument of each continuation; kept, not used otherwise */
    const htc_kv_client_options
        *store; /**< of the client of the store; borrowed. NULL: the role has no store, and asks for nothing of it */
    const char *name; /**< of the role, in what is logged; copied; NULL: "role" */
    uint64_t calls_from; /**< calls of the host bear tags above this: where several roles share a host, no two share any */
} htc_runtime_options;

/**
 * Create a runtime.
 *
 * @param[in]  env      copied, allocator and log are kept; NULL: malloc, no log
 * @param[in]  options  borrowed; not NULL
 * @param[out] out      gives the runtime: htc_runtime_destroy; not NULL
 * @return HTC_OK; HTC_EINVAL, also for what htc_kv_client_create refuses; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.2
 */
HTC_API htc_status htc_runtime_create(const htc_env *env, const htc_runtime_options *options, htc_runtime **out);

/**
 * Free a runtime, its contexts and its ids; what has not been answered goes on no more.
 *
 * @param[in] runtime  NULL is fine
 *
 * Cost: O(what is under way).   Since: 0.2
 */
HTC_API void htc_runtime_destroy(htc_runtime *runtime);

/* ---- a step ---- */

/**
 * The begin of a step: from here to htc_runtime_end effects go to out, and the time is that of the input.
 *
 * @param[in] runtime  not NULL
 * @param[in] in       borrowed for the call; not NULL
 * @param[in] out      lent until htc_runtime_end; not NULL
 * @return HTC_OK; what the runtime is broken by: then do nothing and answer it
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_runtime_begin(htc_runtime *runtime, const htc_input *in, htc_output *out);

/**
 * What the runtime itself makes of an input: an answer of the host or of the store goes on with its continuation. A role calls it
 * after it has looked at the input itself, and before what time alone brings about.
 *
 * @param[in] runtime  between htc_runtime_begin and htc_runtime_end
 * @param[in] in       as given to htc_runtime_begin
 * @return HTC_OK; what the runtime is broken by
 *
 * Cost: the continuations'.   Since: 0.2
 */
HTC_API htc_status htc_runtime_input(htc_runtime *runtime, const htc_input *in);

/**
 * The end of a step: htc_runtime_input if that was not called, and what the step answers.
 *
 * @param[in] runtime  after htc_runtime_begin, whatever that answered
 * @param[in] in       as given to htc_runtime_begin
 * @return HTC_OK; what the runtime is broken by
 *
 * Cost: O(1), and the continuations'.   Since: 0.2
 */
HTC_API htc_status htc_runtime_end(htc_runtime *runtime, const htc_input *in);

/**
 * When the client of the store wants to be stepped: a role's deadline is the earlier of this and its own.
 *
 * @param[in] runtime  not NULL
 * @return on the clock of htc_input.now; HTC_NEVER
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_runtime_deadline(const htc_runtime *runtime);

/**
 * Is there a connection to the store, and has it greeted?
 *
 * @param[in] runtime  not NULL
 * @return 1 or 0; 0 without a store
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_runtime_connected(const htc_runtime *runtime);

/**
 * Requests to the store that are not answered yet.
 *
 * @param[in] runtime  not NULL
 * @return operations
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_runtime_pending(const htc_runtime *runtime);

/**
 * Is it broken?
 *
 * @param[in] runtime  not NULL
 * @return HTC_OK: no; else by what
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_runtime_status(const htc_runtime *runtime);

/**
 * Break it: the role cannot go on. The first time it is logged, with what was being done; later ones change nothing.
 *
 * @param[in] runtime  not NULL
 * @param[in] status   not HTC_OK
 * @param[in] doing    what could not be done, for people: "reading a job"; borrowed; not NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_runtime_break(htc_runtime *runtime, htc_status status, const char *doing);

/* ---- contexts ---- */

/**
 * What a continuation is to remember: zeroed memory that it gives back, or that goes with the runtime.
 *
 * @param[in] runtime  not NULL
 * @param[in] size     bytes
 * @return gives it: htc_runtime_context_free; NULL: out of memory, and the runtime is broken
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API void *htc_runtime_context(htc_runtime *runtime, size_t size);

/**
 * Give a context back.
 *
 * @param[in] runtime  not NULL
 * @param[in] context  of htc_runtime_context; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_runtime_context_free(htc_runtime *runtime, void *context);

/* ---- the store ---- */

/**
 * Ask the store; n operations of one request, executed in order, each answered.
 *
 * @param[in] runtime   between htc_runtime_begin and htc_runtime_end, with a store
 * @param[in] requests  borrowed for the call, as htc_kv_client_submit takes them; their tags are set here
 * @param[in] n         operations, not 0
 * @param[in] fn        goes on with each answer; NULL: nobody does
 * @param[in] context   its second argument; kept
 *
 * Cost: one small allocation and the bytes.   Since: 0.2
 */
HTC_API void htc_runtime_ask(htc_runtime *runtime, const htc_kv_request *requests, size_t n, htc_runtime_store_fn fn,
                             void *context);

/**
 * Write a key when nobody waits for that: a failure is logged, and nothing else.
 *
 * @param[in] runtime  as in htc_runtime_ask
 * @param[in] key      borrowed for the call
 * @param[in] value    borrowed for the call
 *
 * Cost: as htc_runtime_ask.   Since: 0.2
 */
HTC_API void htc_runtime_put(htc_runtime *runtime, htc_bytes key, htc_bytes value);

/**
 * Delete a key when nobody waits for that: a failure is logged, and nothing else.
 *
 * @param[in] runtime  as in htc_runtime_ask
 * @param[in] key      borrowed for the call
 *
 * Cost: as htc_runtime_ask.   Since: 0.2
 */
HTC_API void htc_runtime_delete(htc_runtime *runtime, htc_bytes key);

/**
 * Watch a key, or all keys with a prefix, for as long as the runtime lives: what there is, then HTC_KV_EVENT_CURRENT, then what changes
 * (htc_kv_client_watch).
 *
 * @param[in] runtime  as in htc_runtime_ask
 * @param[in] key      borrowed for the call
 * @param[in] prefix   1: all keys that begin with key
 * @param[in] fn       goes on with each event
 * @param[in] context  its second argument; kept
 *
 * Cost: as htc_kv_client_watch.   Since: 0.2
 */
HTC_API void htc_runtime_watch(htc_runtime *runtime, htc_bytes key, uint32_t prefix, htc_runtime_watch_fn fn,
                               void *context);
/** Where a scan goes on: a copy, since a page is lent for its continuation only. len 0: at the first key; after a page: there is no
 *  other. */
typedef struct htc_runtime_cursor {
    size_t  len;                       /**< bytes of text */
    uint8_t text[HTC_KV_KEY_MAX + 16]; /**< as the store gave it */
} htc_runtime_cursor;

/**
 * Ask for one page of the keys that begin with prefix.
 *
 * @param[in] runtime  as in htc_runtime_ask
 * @param[in] prefix   borrowed for the call
 * @param[in] from     where it begins; borrowed for the call; NULL: with the first key
 * @param[in] limit    items, at most; 0: the store's own limit
 * @param[in] fn       goes on with the page
 * @param[in] context  its second argument; kept
 *
 * Cost: as htc_runtime_ask.   Since: 0.2
 */
HTC_API void htc_runtime_scan(htc_runtime *runtime, htc_bytes prefix, const htc_runtime_cursor *from, uint32_t limit,
                              htc_runtime_store_fn fn, void *context);

/**
 * Where the page after this one begins.
 *
 * @param[in] runtime  not NULL; a cursor that no store can have given breaks it
 * @param[in] page     the answer to a scan
 * @return gives the cursor; len 0: there is no other page
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_runtime_cursor htc_runtime_next_page(htc_runtime *runtime, const htc_kv_result *page);

/* ---- the host and the connections ---- */

/**
 * Ask the host for something: an HTC_OUT_CALL.
 *
 * @param[in] runtime  between htc_runtime_begin and htc_runtime_end
 * @param[in] op       what
 * @param[in] body     its argument; copied into the output
 * @param[in] fn       goes on with the answer; NULL: the call has none, and its tag is 0
 * @param[in] context  its second argument; kept
 *
 * Cost: one small allocation and the bytes.   Since: 0.2
 */
HTC_API void htc_runtime_call(htc_runtime *runtime, uint32_t op, htc_bytes body, htc_runtime_call_fn fn, void *context);

/**
 * Send a message that was written into a buffer: a buffer with an error breaks the runtime.
 *
 * @param[in] runtime  between htc_runtime_begin and htc_runtime_end
 * @param[in] peer     the driver's number of the connection; 0: nobody
 * @param[in] message  borrowed for the call; not NULL
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API void htc_runtime_send(htc_runtime *runtime, uint32_t peer, const htc_buf *message);

/**
 * Close a connection.
 *
 * @param[in] runtime  between htc_runtime_begin and htc_runtime_end
 * @param[in] peer     the driver's number of it
 * @param[in] status   why
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_runtime_close(htc_runtime *runtime, uint32_t peer, htc_status status);

/**
 * End the driver's loop: the role is done.
 *
 * @param[in] runtime  between htc_runtime_begin and htc_runtime_end
 * @param[in] status   HTC_OK, or why
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_runtime_stop(htc_runtime *runtime, htc_status status);

/* ---- what several wait for ---- */

/** One that waits, or the list of those who wait for one thing, in the order they came; NULL: nobody. It belongs to whoever holds it, and
 *  only htc_runtime_wake ends it: a role that is destroyed wakes those who still wait with HTC_ECLOSED. */
typedef struct htc_runtime_waiter htc_runtime_waiter;

/**
 * One that waits, for htc_runtime_wait.
 *
 * @param[in] runtime  not NULL
 * @param[in] fn       goes on when the list is woken
 * @param[in] context  its second argument; kept
 * @return gives it: htc_runtime_wait; NULL: out of memory, and the runtime is broken
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_runtime_waiter *htc_runtime_waiter_new(htc_runtime *runtime, htc_runtime_wait_fn fn, void *context);

/**
 * One more waits, or all of another list.
 *
 * @param[in,out] list  takes them at its end; not NULL
 * @param[in]     more  taken; NULL: nobody
 *
 * Cost: O(those who wait).   Since: 0.2
 */
HTC_API void htc_runtime_wait(htc_runtime_waiter **list, htc_runtime_waiter *more);

/**
 * All who wait go on. Who comes to wait in the course of it is in the emptied list, and waits for the next time.
 *
 * @param[in]     runtime  not NULL
 * @param[in,out] list     takes all; not NULL
 * @param[in]     status   what they learn
 *
 * Cost: the continuations'.   Since: 0.2
 */
HTC_API void htc_runtime_wake(htc_runtime *runtime, htc_runtime_waiter **list, htc_status status);

/* ---- ids that are never used twice ---- */

/** Numbers of a counter in the store, of which some are had at hand: each is drawn once, by whoever draws from that counter. Those that a
 *  role has at hand when it ends are lost. */
typedef struct htc_runtime_ids htc_runtime_ids;

/**
 * Draw ids from a counter in the store.
 *
 * @param[in]  runtime  with a store; not NULL
 * @param[in]  key      of the counter; copied
 * @param[in]  at_once  ids that are had at hand, 1 to 2^32 - 1: one request to the store for so many
 * @param[in]  ready    goes on with HTC_OK when there are ids again, else with why not; NULL: nobody does
 * @param[in]  context  its second argument; kept
 * @param[out] out      gives the ids, until the runtime is destroyed; not NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: two allocations.   Since: 0.2
 */
HTC_API htc_status htc_runtime_ids_create(htc_runtime *runtime, htc_bytes key, uint32_t at_once,
                                          htc_runtime_wait_fn ready, void *context, htc_runtime_ids **out);

/**
 * The next id. If none is at hand the store is asked for more, once at a time.
 *
 * @param[in] ids  between htc_runtime_begin and htc_runtime_end
 * @return an id that nobody was given before, from 1; 0: none now
 *
 * Cost: O(1); once in at_once calls a request.   Since: 0.2
 */
HTC_API uint64_t htc_runtime_id(htc_runtime_ids *ids);

/**
 * Ids at hand.
 *
 * @param[in] ids  not NULL
 * @return ids
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_runtime_ids_left(const htc_runtime_ids *ids);

/**
 * See to it that ids are at hand, before the first is needed.
 *
 * @param[in] ids  as in htc_runtime_id
 *
 * Cost: at most a request.   Since: 0.2
 */
HTC_API void htc_runtime_ids_reserve(htc_runtime_ids *ids);

/* ---- records with a format ---- */

/**
 * Begin a record: the buffer is cleared, and its first byte is the record's format.
 *
 * @param[in] record  not NULL
 * @param[in] format  1 to 255
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_runtime_record_begin(htc_buf *record, uint8_t format);

/**
 * Open a record of one of the formats that the caller can read.
 *
 * @param[in]  record  lent as long as the reader is used
 * @param[in]  oldest  format, 1 to newest
 * @param[in]  newest  format
 * @param[out] r       behind the format; it has failed if the record has none of these
 * @return the format; 0: none of these
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint8_t htc_runtime_record_open(htc_bytes record, uint8_t oldest, uint8_t newest, htc_reader *r);

/**
 * The end of a record that was read: nothing is left, and nothing was missing.
 *
 * @param[in] r  not NULL
 * @return HTC_OK; HTC_ECORRUPT
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_runtime_record_end(const htc_reader *r);

#ifdef __cplusplus
}
#endif
#endif
