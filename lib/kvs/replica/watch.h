/* Watches in a store of several members.
 *
 * The member that watchers are connected to is their host: its hub (watch.h) knows who watches what, and asks for what is marked. Every
 * other member is told what a host watches, for any of them may own such a key now or with the next map; whoever accepts, installs or copies
 * a record of a watched key marks it, and says so until the host has heard it. Messages: watch_items.h.
 *
 *     hub: somebody watches ──▶ WATCH to all members ──▶ noted there; what is held of a key is marked at once
 *     an owner holds another record ──▶ mark ──MARKS──▶ needed here: key, version ──▶ hub ──▶ GET ──▶ told, if it is at or above that
 *                                        └── said again until it is taken                     └── else read again, then settled
 *
 * Why nothing is missed. What is final is held by a majority, so by an owner that the host can hear of, and each owner that is there ends up
 * having told the host of every record that it has held since the key was named to it, the one it held then first: a change that some
 * had accepted before and one makes final afterwards is among those. One owner's word may be ahead of what is final: the hub is answered
 * only with a version that is not below it. If no such version can be read the record was one that may or may not become final, and the
 * key is settled: a read that outbids whatever is under way, and writes back what it finds (register.h: a read that was "tried").
 *
 * A prefix is scanned instead of being marked key by key. Pages of a watch (cluster_scan.c) are made of lists of members that know the prefix
 * already; where those do not agree on a key it is settled. So what is final was listed, or is marked. A member that is there, knows the
 * prefix, and has not listed for each page as one that knows it without a gap, has the prefix start over: it may be the only one left that
 * holds something which no page has shown.
 *
 * A stream is what one member knows for one host without a gap. A member that has started anew, or had more marks than it keeps, does not
 * know it; the host then begins another one with all that it watches. Nothing of this is durable: a host that starts anew has no watchers.
 *
 * Memory: at a host HTC__KV_INTERESTS_MAX keys and prefixes and about as many that have ended (who has not heard of that by then is told all
 * anew), and needed versions up to NEEDED_MAX, beyond which every read is settled; at an owner, for each host, those names (no more than twice
 * as many, whatever it says) and watch_marks_max marks.
 *
 *   replica/watch.c  the host: what is watched here, who knows it, which versions are needed
 *   replica/watch_notify.c  the owner: what others watch, and what has changed of it */
#ifndef HTC_KVS_CLUSTER_WATCH_H
#define HTC_KVS_CLUSTER_WATCH_H

#include "kvs/replica/cluster_private.h"
#include "kvs/peer/watch_items.h"

#define HTC__KV_INTERESTS_MAX 65536

typedef struct htc__kv_watching_counts {
    uint64_t heard; /* marks */
    uint64_t again;       /* reads that were below what an owner had marked */
    uint64_t settled, streams, over;
} htc__kv_watching_counts;

/* An owner, perhaps this one, holds that. */
void htc__kv_cluster_marked(htc_kv_server *s, const htc__kv_marked *marked);

/* Pages of a watch: is it asked for one; what to say to a member that is to list for it, 0: that does not know the prefix yet; under which
 * stream (0: none) each member has listed for it. */
int  htc__kv_cluster_watch_asks(const htc_kv_server *s, const htc__kv_face *face);
int  htc__kv_cluster_watch_list(const htc_kv_server *s, uint32_t peer, htc__kv_list_ask *ask);
void htc__kv_cluster_watch_page(htc_kv_server *s, uint64_t conn, const uint64_t *streams, uint32_t n);

const htc__kv_watching_counts *htc__kv_cluster_watch_counted(const htc_kv_server *s);

/* replica/watch_notify.c */
typedef struct htc__kv_marking htc__kv_marking;
htc__kv_marking *htc__kv_cluster_marking_make(htc_kv_server *s); /* NULL: no memory */
void             htc__kv_cluster_marking_free(htc_kv_server *s);
/* This owner holds that cell of the key now; NULL: none. */
void htc__kv_cluster_changed(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell);
/* 1: it holds something of the key. */
int    htc__kv_cluster_held(htc_kv_server *s, htc_bytes key, htc__kv_marked *marked);
int    htc__kv_cluster_watch_known(const htc_kv_server *s, uint64_t host, const htc__kv_list_ask *ask);
uint64_t htc__kv_cluster_marks_said(const htc_kv_server *s);

#endif
