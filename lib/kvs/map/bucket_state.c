#include "kvs/map/bucket_state.h"

#include "core/fault.h"

htc__kv_bucket_state htc__kv_bucket_state_first(uint64_t epoch, uint64_t image)
{
    return (htc__kv_bucket_state){ .epoch = epoch, .image = image, .held = 1 };
}

htc__kv_bucket_state htc__kv_bucket_state_lost(void)
{
    if (HTC__BROKEN(lost_is_late))
        return (htc__kv_bucket_state){ 0 };
    return (htc__kv_bucket_state){ .sealed = UINT64_MAX, .lost = 1 };
}

unsigned htc__kv_bucket_state_known(htc__kv_bucket_state *hold, uint64_t numbers)
{
    if (!hold->lost || hold->sealed != UINT64_MAX)
        return 0;
    hold->sealed = numbers > hold->epoch ? numbers : hold->epoch;
    return HTC__KV_BUCKET_STORE;
}

/* Of that image it may have confirmed what it knows nothing of any more. */
static int is_lost(const htc__kv_bucket_state *hold, uint64_t image)
{
    return hold->lost && image <= hold->sealed;
}

int htc__kv_bucket_state_serves(const htc__kv_bucket_state *hold, uint64_t epoch)
{
    return hold->held && hold->epoch == epoch && epoch > hold->sealed;
}

int htc__kv_bucket_state_has(const htc__kv_bucket_state *hold, uint64_t epoch)
{
    return hold->held && hold->epoch == epoch;
}

unsigned htc__kv_bucket_state_seal(htc__kv_bucket_state *hold, uint64_t epoch)
{
    if (hold->lost) {
        hold->epoch = hold->epoch > epoch ? hold->epoch : epoch;
        hold->sealed = hold->sealed > epoch ? hold->sealed : epoch;
        return HTC__KV_BUCKET_LOST | HTC__KV_BUCKET_STORE;
    }
    if ((!hold->held || hold->epoch != epoch) && !HTC__BROKEN(wiped_same_name))
        return 0;
    if (hold->sealed >= epoch || HTC__BROKEN(unsealed_read))
        return HTC__KV_BUCKET_YES;
    hold->sealed = epoch;
    return HTC__KV_BUCKET_YES | HTC__KV_BUCKET_STORE;
}

unsigned htc__kv_bucket_state_install(htc__kv_bucket_state *hold, uint64_t number, uint32_t page, int last)
{
    unsigned duties = HTC__KV_BUCKET_YES;
    if (hold->held && hold->epoch >= number)
        return HTC__KV_BUCKET_YES;
    if (is_lost(hold, number))
        return 0;
    if (number < hold->arriving && !HTC__BROKEN(images_mixed))
        return 0;
    if (number > hold->arriving) {
        if (!HTC__BROKEN(images_mixed) || !hold->complete) {
            hold->pages = 0;
            hold->complete = 0;
            duties |= HTC__KV_BUCKET_CLEAR;
        }
        hold->arriving = number;
    }
    if (hold->complete || page < hold->pages)
        return duties | HTC__KV_BUCKET_STORE;
    if (page > hold->pages)
        return (duties & ~(unsigned)HTC__KV_BUCKET_YES) | HTC__KV_BUCKET_STORE;
    hold->pages++;
    hold->complete = last != 0;
    return duties | HTC__KV_BUCKET_STORE | HTC__KV_BUCKET_TAKE;
}

static void arrived(htc__kv_bucket_state *hold)
{
    hold->arriving = 0;
    hold->pages = 0;
    hold->complete = 0;
}

unsigned htc__kv_bucket_state_learn(htc__kv_bucket_state *hold, uint64_t epoch, uint64_t image)
{
    unsigned duties = HTC__KV_BUCKET_STORE;
    if ((hold->held && hold->epoch >= epoch) || is_lost(hold, image))
        return 0;
    /* Rolled back. What it has began as that image and has grown since: the image itself, should it have arrived once more,
     * must not take its place. */
    if (hold->held && hold->image == image) {
        hold->epoch = epoch;
        return duties;
    }
    if (hold->complete && (hold->arriving == image || HTC__BROKEN(images_mixed))) {
        arrived(hold);
        duties |= HTC__KV_BUCKET_BECOME;
    } else if (!HTC__BROKEN(wiped_same_name)) {
        return HTC__KV_BUCKET_LATE;
    }
    hold->held = 1;
    hold->lost = 0;
    hold->epoch = epoch;
    hold->image = image;
    return duties;
}

unsigned htc__kv_bucket_state_copied(htc__kv_bucket_state *hold, uint64_t epoch, uint64_t image)
{
    if ((hold->held && hold->epoch >= epoch) || is_lost(hold, image))
        return 0;
    if (hold->arriving <= epoch)
        arrived(hold);
    hold->held = 1;
    hold->lost = 0;
    hold->epoch = epoch;
    hold->image = image;
    return HTC__KV_BUCKET_STORE;
}

void htc__kv_bucket_state_write(htc_buf *b, const htc__kv_bucket_state *hold)
{
    htc_put_u8(b, (uint8_t)(hold->held | hold->complete << 1 | hold->lost << 2));
    htc_put_varint(b, hold->epoch);
    htc_put_varint(b, hold->image);
    htc_put_varint(b, hold->sealed);
    htc_put_varint(b, hold->arriving);
    htc_put_varint(b, hold->pages);
}

htc_status htc__kv_bucket_state_read(htc_bytes bytes, htc__kv_bucket_state *hold)
{
    htc_reader r = htc_reader_of(bytes);
    uint8_t    flags = htc_get_u8(&r);
    *hold = (htc__kv_bucket_state){ .held = flags & 1, .complete = flags >> 1 & 1, .lost = flags >> 2 & 1 };
    hold->epoch = htc_get_varint(&r);
    hold->image = htc_get_varint(&r);
    hold->sealed = htc_get_varint(&r);
    hold->arriving = htc_get_varint(&r);
    uint64_t pages = htc_get_varint(&r);
    hold->pages = (uint32_t)pages;
    if (htc_reader_done(&r) != HTC_OK || flags > 7 || (hold->held && hold->lost) || pages > UINT32_MAX || hold->image > hold->epoch)
        return HTC_ECORRUPT;
    return HTC_OK;
}
