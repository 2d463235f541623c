/* Requests to a disk and lists of its files: what is read is bounded, and written again it is the same bytes. */
#include <string.h>

#include "check.h"
#include "htcsched/disk.h"

static void request_of(const uint8_t *data, size_t size)
{
    htc_disk_request r;
    if (htc_disk_decode((htc_bytes){ data, size }, &r) != HTC_OK)
        return;
    CHECK(htc_disk_name_ok(r.name) || (r.op == HTC_DISK_LIST && r.name.len == 0));
    CHECK(r.data.len <= HTC_DISK_WRITE_MAX && r.offset <= HTC_DISK_FILE_MAX && r.length <= HTC_DISK_FILE_MAX);
    uint8_t *again = malloc(size);
    CHECK(again && htc_disk_encode(&r, again, size) == size && memcmp(again, data, size) == 0);
    free(again);
}

static void list_of(const uint8_t *data, size_t size)
{
    htc_disk_file file;
    size_t        at = 0, from = 0;
    uint8_t       again[HTC_DISK_HEAD_MAX];
    for (int more; (more = htc_disk_file_next((htc_bytes){ data, size }, &at, &file)) != 0; from = at) {
        if (more < 0) {
            CHECK(at == from);
            return;
        }
        CHECK(at > from && at <= size && htc_disk_file_encode(&file, again, sizeof again) == at - from);
        CHECK(memcmp(again, data + from, at - from) == 0);
    }
    CHECK(at == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    request_of(data, size);
    list_of(data, size);
    return 0;
}
