#include "net/storage/log_check.h"

#include <stdlib.h>
#include <string.h>

/* One request after the other. */
static htc_status drive(htc_disk_dir *dir, htc__log_reader *r, htc_output *out)
{
    htc_status status = htc__log_reader_start(r, out);
    while (status == HTC_AGAIN) {
        htc_effect e;
        htc_bytes  answer;
        uint8_t    body[HTC_DISK_HEAD_MAX];
        /* A request to read is never longer than its head. */
        if (htc_output_get(out, 0, &e) != HTC_OK || e.body.len > sizeof body)
            return HTC_EINTERNAL;
        memcpy(body, e.body.data, e.body.len);
        size_t len = e.body.len;
        htc_output_clear(out);
        status = htc_disk_dir_do(dir, (htc_bytes){ body, len }, &answer);
        status = htc__log_reader_answer(r, status, answer, out);
    }
    return status;
}

htc_status htc__log_check(htc_disk_dir *dir, const htc__log_sink *sink, htc__log_found *found)
{
    htc__log_reader r;
    htc_output     *out;
    htc_status      status = htc_output_create(NULL, 0, &out);
    if (status != HTC_OK)
        return status;
    htc__log_reader_init(&r, NULL, sink, 0);
    r.lenient = r.salvage = 1;
    status = drive(dir, &r, out);
    if (status == HTC_OK)
        status = r.fresh ? HTC_ENOTFOUND : r.damaged ? HTC_ECORRUPT : HTC_OK;
    if (found)
        *found = (htc__log_found){ .segments = r.files_count,
                                   .frames = r.frames,
                                   .damaged = r.damaged,
                                   .end_segment = r.files_count ? r.files[r.end_file].number : 0,
                                   .end_offset = r.end_offset,
                                   .member = r.super.member,
                                   .epoch = r.last.epoch,
                                   .sequence = r.last.sequence };
    htc__log_reader_free(&r);
    htc_output_destroy(out);
    return status;
}
