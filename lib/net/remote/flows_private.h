/* What the files of htcsched/flows.h share: requests about the records of flows, one by one and by the hundred. */
#ifndef HTC_NET_REMOTE_FLOWS_PRIVATE_H
#define HTC_NET_REMOTE_FLOWS_PRIVATE_H

#include "htcsched/flows.h"
#include "roles/worker/flow.h"

#define FLOWS_TOGETHER 64 /* records in one request */
#define FLOWS_AHEAD    8  /* requests on their way */

typedef struct flows_header {
    htc_buf  bytes; /* f->task lies in there: htc_buf_free, also after a failure */
    flow     f;
    uint64_t version;
} flows_header;

/* One request; a status that is not HTC_OK is the answer, but for those that the caller knows what to do with. */
htc_status     htc__flows_ask(htc_store *store, const htc_kv_request *q, htc_kv_result *r, htc_error *error);
htc_kv_request htc__flows_of_key(uint32_t op, const flow_key *k);
htc_status     htc__flows_header_get(htc_store *store, uint64_t id, flows_header *h, htc_error *error); /* HTC_ENOTFOUND, HTC_ECORRUPT */
/* The header is changed by fn, on top of whatever others make of it meanwhile. fn answers HTC_OK: write it; HTC_EEXISTS: it is so already. */
htc_status     htc__flows_header_change(htc_store *store, uint64_t id, htc_status (*fn)(flow *f, const void *ctx, htc_error *error), const void *ctx,
                                        htc_error *error);
htc_status     htc__flows_draw(htc_store *store, uint32_t owner, uint64_t *id, htc_error *error);                     /* a number for a flow */
htc_status     htc__flows_put_header(htc_store *store, uint64_t id, htc_bytes bytes, htc_error *error);
/* Answers to what is on its way, until no more than most are. */
htc_status htc__flows_settle(htc_store *store, uint32_t *flying, uint32_t most, htc_error *error);

/* 1: go on; 0: enough. */
typedef int flows_item_fn(void *ctx, uint64_t number, const htc_kv_item *item);
/* After each page: the store may be used in here, and nothing else that the walk told of is lent any more. */
typedef htc_status flows_page_fn(void *ctx, htc_error *error);
/* All records behind a prefix, page by page. page: NULL is fine. */
htc_status htc__flows_walk(htc_store *store, const flow_key *prefix, flows_item_fn *fn, flows_page_fn *page, void *ctx, htc_error *error);

/* flows_bag.c: how the tasks of a bag ended. 1: go on; 0: enough. */
typedef int bag_entry_fn(void *ctx, const bag_outcome *o);
htc_status htc__flows_bag_walk(htc_store *store, uint64_t id, bag_entry_fn *fn, void *ctx, htc_error *error);
htc_status htc__flows_bag_tasks(htc_store *store, uint64_t id, const flow *f, htc_flows_task_fn fn, void *ctx, htc_error *error);

/* New records, many in a request: for each htc__flows_sending_room, and n counted up once key and bytes are in their room. */
typedef struct flows_sending {
    htc_store *store;
    size_t     n;
    uint32_t   flying;
    flow_key   k[FLOWS_TOGETHER];
    htc_buf    b[FLOWS_TOGETHER];
} flows_sending;

void       htc__flows_sending_begin(flows_sending *x, htc_store *store);
htc_status htc__flows_sending_room(flows_sending *x, flow_key **k, htc_buf **b, htc_error *error);
/* All of them, answers included: the store may be asked for something else then. */
htc_status htc__flows_sending_flush(flows_sending *x, htc_error *error);
/* status: HTC_OK, or why there are no more. The rest is sent, and every answer awaited. */
htc_status htc__flows_sending_end(flows_sending *x, htc_status status, htc_error *error);

#endif
