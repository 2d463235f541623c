/* Jobs that wait for other jobs of their user: after.c says how. */
#ifndef HTC_ROLES_GATEWAY_AFTER_H
#define HTC_ROLES_GATEWAY_AFTER_H

#include <jansson.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "htcsched/codec.h"

typedef struct htc_gateway htc_gateway;
typedef struct job         job;
typedef struct request     request;

typedef enum edge_rule {
    AFTER_OK = 0, /* the parent ends with every task done */
    AFTER_ANY,    /* it ends */
    AFTER_FAILED, /* it ends otherwise than well */
    AFTER_END,    /* it ends, and it is known how: of what runs at a job's end; no request says it */
    AFTER_RULES
} edge_rule;

typedef enum edge_outcome {
    PARENT_OPEN = 0,  /* as far as is known */
    PARENT_OK,        /* every task is done */
    PARENT_FAILED,    /* a task failed */
    PARENT_CANCELLED, /* no task failed, and one was cancelled */
    PARENT_GONE,      /* it was removed, and how it ended is not known */
    PARENT_OUTCOMES
} edge_outcome;

typedef struct edge {
    uint64_t parent;
    uint8_t  rule, outcome; /* edge_rule, edge_outcome: the first end of the parent that was seen, and no later one */
    uint8_t  linked;
    job     *job;
    struct edge *prev, *next; /* among those that wait for the same parent */
} edge;

/* A job that others wait for: until each of them has its outcome in its record. */
typedef struct awaited {
    uint64_t       id;
    edge          *edges;
    UT_hash_handle hh;
} awaited;

edge htc__gw_edge(const job *j, uint32_t i);             /* of a job that is kept, or was just read */
int  htc__gw_edge_is_met(const edge *e);
int  htc__gw_edge_is_broken(const edge *e);              /* it can never be met */
const char *htc__gw_edge_rule(const edge *e);            /* in the words of a request */
void htc__gw_edges_write(htc_buf *b, const job *j);
void htc__gw_edges_read(htc_reader *r, job *j, uint32_t least); /* least: 1, or 0 where there may be none */
void htc__gw_edges_keep(htc_gateway *gw, job *j);        /* who keeps a job that was read calls this while the bytes are there */
int  htc__gw_edges_parse(htc_gateway *gw, request *q, job *j); /* the "after" of a submission; 0: q has been answered */
/* Link j's edges, so that no end of a parent passes unseen, and look for parents that have ended already. Then fn, once: with the
 * status and parent of an edge that may not be, if ask is said (HTC_ENOTFOUND; HTC_EMPTY: it is removed, or another user's; or what the
 * store says); else HTC_OK. */
typedef void (*edges_fn)(htc_gateway *gw, void *ctx, htc_status status, uint64_t parent);
void htc__gw_edges_look(htc_gateway *gw, job *j, int ask, edges_fn fn, void *ctx);
void htc__gw_edges_opened(htc_gateway *gw, job *j);      /* it is among the open jobs now, and its record is durable */
void htc__gw_edges_written(htc_gateway *gw, job *j);     /* what is known of its edges is durable */
void htc__gw_edges_end(htc_gateway *gw, job *j);         /* nothing is waited for any more */
void htc__gw_edges_free(htc_gateway *gw, job *j);
void htc__gw_parent_ended(htc_gateway *gw, const job *j); /* its end is durable: tell those that wait for it */
const edge *htc__gw_awaited(const htc_gateway *gw, uint64_t id); /* of a job that waits for this one; NULL: none does */
json_t *htc__gw_edges_json(const job *j);
int  htc__gw_edges_why(const job *j, char *text, size_t cap);    /* what it waits for; 0: for nothing */
int  htc__gw_edges_broken(const job *j, char *text, size_t cap); /* why it was cancelled; 0: not for an edge */

#endif
