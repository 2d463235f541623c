/* A member among several: each key is a register on its N owners (register.h), which any member may be asked for.
 *
 *     a face asks ──▶ request, kept until it is answered ──▶ this member is to propose: its register
 *                         ▲     │                       └─▶ another one is: FORWARD ──▶ its register
 *                         └─────┴── nobody answers: the next owner ◀── ANSWER ◀──────────┘
 *
 *     register ── ASK ──▶ each owner's acceptor ── stored ──▶ REPLY ──▶ register
 *
 * What this member says to itself goes the same way as what it says to others. A reply leaves only when everything it shows
 * is stored. What a member says to another in one step leaves in one message; nothing is kept for one that is away, since
 * whatever is lost is said again.
 * What it stores: kvs/storage/schema.h. */
#ifndef HTC_KVS_CLUSTER_H
#define HTC_KVS_CLUSTER_H

#include "htcsched/metrics.h"
#include "kvs/peer/members.h"
#include "kvs/server/server.h"

/* All members are shards of one process: what one loses all lose, and there is nobody else who was promised anything. */
int        htc__kv_cluster_alone(const htc_kv_server_options *options);
htc_status htc__kv_cluster_create(htc_kv_server *s); /* s->options says how; HTC_EINVAL */
void       htc__kv_cluster_free(htc_kv_server *s);
/* HTC_EFORMAT: these cells are not of this member among these. */
htc_status htc__kv_cluster_load(htc_kv_server *s);

/* 1: no key was shown on this connection, or a member's: who is there may become a member, and change who is. */
int htc__kv_cluster_key_joins(const htc_kv_server *s, uint32_t number);
/* As htc__kv_backend.ask: it is always answered later, if not refused. */
int htc__kv_cluster_ask(htc_kv_server *s, const htc_kv_request *request, const htc__kv_stamp *stamp,
                        const htc__kv_face *face, uint64_t conn, uint64_t slot, htc_kv_result *result);

/* replica/clients.c: as htc__kv_backend.have and owners. */
uint64_t   htc__kv_cluster_have(const htc_kv_server *s, uint64_t *member);
htc_status htc__kv_cluster_tell_owners(htc_kv_server *s, uint64_t id, uint64_t have, htc_buf *b);

/* 1: it was for this one, which has taken it. OPENED, CLOSED, MESSAGE. */
int  htc__kv_cluster_input(htc_kv_server *s, const htc_input *in, htc_output *out);
void htc__kv_cluster_undone(htc_kv_server *s);
/* At the end of each step: timeouts, what it says to itself, and the messages to the others. */
htc_status htc__kv_cluster_finish(htc_kv_server *s, htc_output *out);
htc_ns     htc__kv_cluster_deadline(const htc_kv_server *s);
void       htc__kv_cluster_stats(const htc_kv_server *s, htc_kv_server_stats *stats);
void       htc__kv_cluster_metrics(const htc_kv_server *s, htc_metrics *m);
/* 1: it is a member, and of every key so many owners were heard of lately as an answer takes. */
int htc__kv_cluster_hears_enough(const htc_kv_server *s);
uint64_t   htc__kv_cluster_clock(const htc_kv_server *s); /* the newest version seen here */

#endif
