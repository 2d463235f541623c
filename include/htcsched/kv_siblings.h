/**
 * @file htcsched/kv_siblings.h
 * @brief One value of several: what a client makes of a key in an eventual namespace that was changed in two places at once.
 *
 * A GET of such a key answers all values that no other was written on top of. htc_kv_reconcile makes one of them, by the rule that the
 * caller gives, and the PUT that writes it back: it replaces just those that were read, so two clients that do this at the same time
 * with a rule that does not depend on the order of values end with the same value.
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_KV_SIBLINGS_H
#define HTCSCHED_KV_SIBLINGS_H

#include "htcsched/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

/** More siblings than this are never answered. A PUT that would leave more than 16 is HTC_ECONFLICT. */
#define HTC_KV_SIBLINGS_MAX 256

/**
 * A rule: what several values become.
 *
 * @param[in]  ctx       as given to htc_kv_reconcile
 * @param[in]  key       of the values
 * @param[in]  siblings  n of them, in no order that means anything; borrowed
 * @param[in]  n         at least 2
 * @param[out] value     one of them, or bytes of ctx's own: they have to stay until the PUT was submitted
 * @return HTC_OK; anything else: htc_kv_reconcile answers it
 */
typedef htc_status (*htc_kv_merge)(void *ctx, htc_bytes key, const htc_kv_item *siblings, size_t n, htc_bytes *value);

/**
 * The rule "largest wins": the greatest by htc_bytes_compare. It is what a NULL rule means.
 *
 * @param[in]  ctx       not used
 * @param[in]  key       not used
 * @param[in]  siblings  borrowed
 * @param[in]  n         how many
 * @param[out] value     lends the greatest of them; untouched if there is none
 * @return HTC_OK; HTC_EINVAL without siblings
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_kv_merge_largest(void *ctx, htc_bytes key, const htc_kv_item *siblings, size_t n,
                                        htc_bytes *value);

/**
 * Make one value of what a GET has answered, and the request that writes it back.
 *
 * @param[in]  get     the request; what its key and namespace point to is borrowed by put
 * @param[in]  result  its answer; value and put borrow from it
 * @param[in]  merge   the rule; NULL: htc_kv_merge_largest
 * @param[in]  ctx     for the rule
 * @param[out] value   the value
 * @param[out] put     the PUT to submit; its op is 0 if there was one value alone: nothing is to be written
 * @return HTC_OK; HTC_ENOTFOUND: there is no value; what the rule answered; HTC_EINVAL for a result that is no GET of a
 *         namespace; HTC_EPROTO. Outputs are untouched on failure
 *
 * Cost: O(values), 10 KiB of stack.   Since: 0.2
 */
HTC_API htc_status htc_kv_reconcile(const htc_kv_request *get, const htc_kv_result *result, htc_kv_merge merge,
                                    void *ctx, htc_bytes *value, htc_kv_request *put);

#ifdef __cplusplus
}
#endif
#endif
