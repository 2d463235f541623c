/* The answer to HTC_KV_MEMBERS from arbitrary bytes: the readers end, stay inside, and move on. */
#include <stdlib.h>

#include "kvs/wire/kv_members.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_kv_members      all = { .size = sizeof all };
    htc_kv_member_shown m = { .size = sizeof m };
    htc_kv_bucket_shown b = { .size = sizeof b };
    size_t              at = 0, before = 0;
    if (htc_kv_members_read((htc_bytes){ data, size }, &all) != HTC_OK)
        return 0;
    must(all.change <= HTC_KV_CHANGE_RENEW && all.back <= 1 && all.settles <= 1 && all.keepers <= HTC_RING_OWNERS_MAX);
    for (; htc_kv_members_next(&all, &at, &m) == HTC_OK; before = at)
        must(at > before && at <= all.members_bytes.len && m.state <= HTC_KV_MEMBER_GOING && m.heard <= 1 && m.address.len < size);
    for (at = before = 0; htc_kv_members_bucket(&all, &at, &b) == HTC_OK; before = at)
        must(at > before && at <= all.buckets_bytes.len && b.owners <= HTC_RING_OWNERS_MAX);
    return 0;
}
