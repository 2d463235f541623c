/* Whatever users and agents send, over a real store: nothing breaks the gateway, and its counts still add up.
 * Input: pieces of u8 who (0 the operator, 1 a stranger, 2 an agent that was launched, 3 time passes), u16 type, u16
 * length, payload. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rig r;
    rig_begin(&r);
    uint32_t peers[3] = { rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER), rig_open(&r, 2000, HTC_WIRE_ROLE_USER),
                          rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    for (int pieces = 0; size >= 5 && pieces < 64; pieces++) {
        size_t n = (size_t)(data[3] | data[4] << 8);
        if (n > size - 5)
            n = size - 5;
        piece(&r, peers, data[0], (uint16_t)(data[1] | data[2] << 8), data + 5, n);
        data += 5 + n;
        size -= 5 + n;
    }
    if (r.has_stopped && r.stopped != HTC_OK)
        abort();
    rig_end(&r);
    return 0;
}
