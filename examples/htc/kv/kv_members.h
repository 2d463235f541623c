/* What the commands about members of a store share. */
#ifndef HTC_EXAMPLES_KV_MEMBERS_H
#define HTC_EXAMPLES_KV_MEMBERS_H

#include "htcsched/kv_members.h"
#include "kv.h"

/* The newest map that whoever answers has seen; lent until the next request. buckets: with the owners of each. */
htc_status kv_members_ask(kv_call *k, int buckets, htc_kv_members *all);
json_t    *kv_members_json(const htc_kv_members *all); /* given */
/* "ID leaves" */
void kv_members_change_text(const htc_kv_members *all, char *text, size_t cap);

#endif
