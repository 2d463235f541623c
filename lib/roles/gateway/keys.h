/* Under which keys the gateway keeps what it keeps, and how it writes there. */
#ifndef HTC_ROLES_GATEWAY_KEYS_H
#define HTC_ROLES_GATEWAY_KEYS_H

#include <stddef.h>

#include "htcsched/gateway.h"
#include "htcsched/runtime.h"
#include "roles/runtime/agent_wire.h"

typedef struct key {
    char   text[64];
    size_t len;
} key;
key htc__gw_key_user(const char *name);
key htc__gw_key_token(const char *hash_hex);
key htc__gw_key_open(uint64_t id);
key htc__gw_key_job(uint64_t id);
key htc__gw_key_spec(uint64_t id);
key htc__gw_key_chunk(uint64_t id, uint64_t index);
key htc__gw_key_chunks(uint64_t id);
key htc__gw_key_result(uint64_t id, uint64_t index, uint32_t attempt);
key htc__gw_key_results(uint64_t id);
key htc__gw_key_agent(uint64_t id);
key htc__gw_key_site(const char *name);
key htc__gw_key_node(const char *name);
key htc__gw_key_removal(uint64_t id);
key htc__gw_key_content(uint64_t id);
key htc__gw_key_mail(uint64_t id);
key htc__gw_key_credentials(uint64_t id);
key htc__gw_key_taken(const htc_attempt *at);
int htc__gw_key_content_id(htc_bytes k, uint64_t *id); /* 0: it is none */
htc_bytes htc__gw_key_bytes(const key *k);

key htc__gw_key_project(const char *name);
key htc__gw_key_quota(const char *user_name);
key htc__gw_key_day(uint32_t day, const char *user_name); /* "": what keys of all users have in common */
key htc__gw_key_fold(const char *user_name);
/* What keys of as many days as can be have in common: from first on, and none after last; *to: the last one of them. So few prefixes cover any span. */
key htc__gw_key_days(uint32_t first, uint32_t last, uint32_t *to);
/* Likewise of jobs, newest first: from newest on, which is the first of its prefix; *oldest: the last one, 0: there are no older ones. */
key htc__gw_key_jobs(uint64_t newest, uint64_t *oldest);
#define DAY_KEY_USER 11 /* where the name begins */

key htc__gw_key_active(void);
key htc__gw_key_data(void);

/* When nobody waits for it: a failure is logged. Where other gateways may be, only what no gateway can need again is deleted without a version. */
void htc__gw_put(htc_gateway *gw, key k, htc_bytes value);
void htc__gw_delete(htc_gateway *gw, key k);

/* ---- where other gateways may be, every write is of the version that was read ---- */

int htc__gw_shared(const htc_gateway *gw); /* other gateways may be */
/* Write one record: version is that of what is there, 0: nothing. Without other gateways it is not looked at. */
void htc__gw_write(htc_gateway *gw, key k, htc_bytes value, uint64_t version, htc_runtime_store_fn fn, void *ctx);
/* The same; one write of a version whose outcome is not known is made again until it is, so that fn is never told of that (unless the gateway is
 * shut down). Its bytes are copied. */
void htc__gw_ask_write(htc_gateway *gw, const htc_kv_request *rq, htc_runtime_store_fn fn, void *ctx);
/* 1: a write that was answered so may be made, or made later: its next try may find the version that it made itself. */
int  htc__gw_outcome_unknown(const htc_gateway *gw, htc_status status);
/* The same as one operation of several. */
htc_kv_request htc__gw_write_op(const htc_gateway *gw, const key *k, htc_bytes value, uint64_t version);
htc_kv_request htc__gw_delete_op(const htc_gateway *gw, const key *k, uint64_t version);
/* Delete it if it still has that version: else another gateway is active, and this one ends. */
void htc__gw_delete_of(htc_gateway *gw, key k, uint64_t version);
/* 1: another gateway has changed the record; this one ends. */
int htc__gw_fenced(htc_gateway *gw, const htc_kv_result *r);

#endif
