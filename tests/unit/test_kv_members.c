/* What a member says of the members, written and read again; and what is none of it. */
#include "expect.h"
#include <string.h>

#include "kvs/wire/kv_members.h"

static htc_buf value, members, table;

static void write_all(void)
{
    htc_buf_init(&value, NULL, 0);
    htc_buf_init(&members, NULL, 0);
    htc_buf_init(&table, NULL, 0);
    for (uint64_t id = 1; id <= 3; id++)
        htc__kv_members_member(&members, &(htc_kv_member_shown){ .id = id << 60,
                                                                 .process = id,
                                                                 .domain = 7,
                                                                 .weight = 65535,
                                                                 .state = (uint32_t)id,
                                                                 .heard = id == 2,
                                                                 .owned = 4096,
                                                                 .first = 1365,
                                                                 .planned = 0,
                                                                 .address = htc_bytes_of(id == 2 ? "" : "unix:/a/b") });
    for (uint64_t i = 0; i < 4; i++)
        htc__kv_members_bucket(&table, &(htc_kv_bucket_shown){ .epoch = 300 + i, .owners = 2, .owner = { i, UINT64_MAX } });
    htc__kv_members_write(&value, &(htc_kv_members){ .version = 300,
                                                     .epoch = 301,
                                                     .asked = UINT64_MAX,
                                                     .count = 3,
                                                     .buckets = 4,
                                                     .copies = 2,
                                                     .change = HTC_KV_CHANGE_REPLACE,
                                                     .back = 1,
                                                     .weight = 9,
                                                     .comer = 11,
                                                     .goer = 12,
                                                     .moved = 1,
                                                     .to_move = 3,
                                                     .driver = 13,
                                                     .keepers = 2,
                                                     .settles = 1,
                                                     .keeper = { 21, 22 },
                                                     .members_bytes = htc_buf_bytes(&members),
                                                     .buckets_bytes = htc_buf_bytes(&table) });
    cr_assert(value.status == HTC_OK && members.status == HTC_OK && table.status == HTC_OK);
}

static void free_all(void)
{
    htc_buf_free(&value);
    htc_buf_free(&members);
    htc_buf_free(&table);
}

Test(kv_members, what_is_written_is_read)
{
    htc_kv_members      all = { .size = sizeof all };
    htc_kv_member_shown m = { .size = sizeof m };
    htc_kv_bucket_shown b = { .size = sizeof b };
    size_t              at = 0, n = 0;
    write_all();
    cr_assert(eq(int, htc_kv_members_read(htc_buf_bytes(&value), &all), HTC_OK));
    cr_assert(all.version == 300 && all.epoch == 301 && all.asked == UINT64_MAX && all.count == 3 && all.buckets == 4 && all.copies == 2);
    cr_assert(all.change == HTC_KV_CHANGE_REPLACE && all.back == 1 && all.weight == 9 && all.comer == 11 && all.goer == 12);
    cr_assert(all.moved == 1 && all.to_move == 3 && all.driver == 13 && all.keepers == 2 && all.settles == 1);
    cr_assert(all.keeper[0] == 21 && all.keeper[1] == 22);
    while (htc_kv_members_next(&all, &at, &m) == HTC_OK) {
        n++;
        cr_assert(m.id == n << 60 && m.process == n && m.domain == 7 && m.weight == 65535 && m.state == n && m.heard == (n == 2));
        cr_assert(m.owned == 4096 && m.first == 1365 && m.planned == 0);
        cr_assert(htc_bytes_equal(m.address, htc_bytes_of(n == 2 ? "" : "unix:/a/b")));
    }
    cr_assert(n == 3 && htc_kv_members_next(&all, &at, &m) == HTC_ENOTFOUND);
    for (at = 0, n = 0; htc_kv_members_bucket(&all, &at, &b) == HTC_OK; n++)
        cr_assert(b.epoch == 300 + n && b.owners == 2 && b.owner[0] == n && b.owner[1] == UINT64_MAX);
    cr_assert(n == 4 && htc_kv_members_bucket(&all, &at, &b) == HTC_ENOTFOUND);
    free_all();
}

/* A caller of an older library gets what its struct has room for. */
Test(kv_members, a_shorter_struct_is_filled_as_far_as_it_goes)
{
    htc_kv_members      all = { .size = offsetof(htc_kv_members, asked) }, whole = { .size = sizeof whole };
    htc_kv_member_shown m = { .size = offsetof(htc_kv_member_shown, process) };
    size_t              at = 0;
    write_all();
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), &all) == HTC_OK);
    cr_assert(all.epoch == 301 && all.asked == 0 && all.count == 0 && all.size == offsetof(htc_kv_members, asked));
    cr_assert(htc_kv_members_next(&all, &at, &m) == HTC_EINVAL); /* it cannot know where they are */
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), &whole) == HTC_OK);
    cr_assert(htc_kv_members_next(&whole, &at, &m) == HTC_OK && m.id == UINT64_C(1) << 60 && m.process == 0 && m.weight == 0);
    free_all();
}

Test(kv_members, what_is_none_is_refused)
{
    htc_kv_members      all = { .size = sizeof all }, none = { .size = 0 };
    htc_kv_member_shown m = { .size = sizeof m };
    size_t              at = 0;
    write_all();
    for (size_t len = 0; len < value.len; len++)
        cr_assert(eq(int, htc_kv_members_read((htc_bytes){ value.data, len }, &all), HTC_EPROTO));
    cr_assert(all.version == 0); /* untouched */
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), NULL) == HTC_EINVAL);
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), &none) == HTC_EINVAL);
    cr_assert(htc_kv_members_next(NULL, &at, &m) == HTC_EINVAL);
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), &all) == HTC_OK);
    cr_assert(htc_kv_members_next(&all, &at, NULL) == HTC_EINVAL && htc_kv_members_next(&all, NULL, &m) == HTC_EINVAL);
    at = all.members_bytes.len + 1;
    cr_assert(htc_kv_members_next(&all, &at, &m) == HTC_EINVAL);
    for (size_t len = 1; len < all.members_bytes.len / 3; len++) {
        htc_kv_members cut = all;
        at = 0;
        cut.members_bytes.len = len;
        cr_assert(eq(int, htc_kv_members_next(&cut, &at, &m), HTC_EPROTO));
        cr_assert(at == 0);
    }
    value.data[0] = 2;
    cr_assert(htc_kv_members_read(htc_buf_bytes(&value), &all) == HTC_EVERSION);
    free_all();
}
