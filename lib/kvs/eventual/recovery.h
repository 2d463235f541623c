/* Damaged records of eventual keys: eventual/recovery.c. */
#ifndef HTC_KVS_EVENTUAL_MEND_H
#define HTC_KVS_EVENTUAL_MEND_H

#include "kvs/eventual/eventual.h"

/* This member's record of the key cannot be read; loaded: it could not when the member started. HTC_ENOMEM. Nothing, if that is known. */
htc_status htc__kv_recovery_found(htc_kv_server *s, htc_bytes key, int loaded);
/* It is gone, or another one is in its place. */
void htc__kv_recovery_over(htc_kv_server *s, htc_bytes key);
/* Nobody has given so many numbers, from that floor on. */
uint64_t htc__kv_recovery_above(uint64_t floor);
/* No number that this member ever gave in that record is above this one. */
uint64_t htc__kv_recovery_floor(const htc_kv_server *s, htc_bytes key);
void     htc__kv_recovery_tick(htc_kv_server *s);
htc_ns   htc__kv_recovery_deadline(const htc_kv_server *s);
/* What the owner at that place holds; no bytes: nothing. */
void htc__kv_recovery_fetched(htc_kv_server *s, htc__kv_seeking *x, uint32_t place, htc_bytes state);
void htc__kv_recovery_late(htc_kv_server *s, htc__kv_seeking *x);

#endif
