/* Any bytes as a message about objects: they are read or refused, and what is read is within its bounds and written back as the same bytes. */
#include <stdlib.h>

#include "roles/runtime/objects_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes      bytes = { data, size };
    object_message m;
    uint16_t       type;
    uint64_t       id;
    htc_buf        b;
    htc_reader     r = htc_wire_open(bytes, &type, &id);
    if (r.status != HTC_OK || id != 0 || htc__object_read(&r, type, &m) != HTC_OK)
        return 0;
    if (m.size > OBJECT_SIZE_MAX || m.len > OBJECT_PIECE_MAX || m.bytes.len > OBJECT_PIECE_MAX ||
        (type == HTC_WIRE_OBJECT_BYTES && (m.offset > m.size || m.bytes.len > m.size - m.offset)))
        abort();
    htc_buf_init(&b, NULL, 0);
    htc__object_write(&b, type, &m);
    if (!htc_bytes_equal(htc_buf_bytes(&b), bytes))
        abort();
    htc_buf_free(&b);
    return 0;
}
