/* Input of a fuzzer that sends to a gateway: pieces of u8 who (0 to 2 one of three peers, 3 time passes), u16 type, u16 length, payload. */
#ifndef HTC_FUZZ_GATEWAY_PIECES_H
#define HTC_FUZZ_GATEWAY_PIECES_H

#include "../tests/unit/gateway_rig.h"

static void piece(rig *r, const uint32_t peers[3], uint8_t who, uint16_t type, const uint8_t *data, size_t size)
{
    htc_buf b;
    if (who % 4 == 3) {
        rig_pass(r, (htc_ns)type * 10 * HTC_MS);
        return;
    }
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, type, 5);
    htc_put_raw(&b, (htc_bytes){ data, size });
    rig_say(r, peers[who % 4], &b);
    htc_buf_free(&b);
}

/* Aborts if the gateway ends by it. */
static void send_pieces(rig *r, const uint32_t peers[3], const uint8_t *data, size_t size)
{
    for (int pieces = 0; size >= 5 && pieces < 64; pieces++) {
        size_t n = (size_t)(data[3] | data[4] << 8);
        if (n > size - 5)
            n = size - 5;
        piece(r, peers, data[0], (uint16_t)(data[1] | data[2] << 8), data + 5, n);
        data += 5 + n;
        size -= 5 + n;
    }
    if (r->has_stopped && r->stopped != HTC_OK)
        abort();
}

#endif
