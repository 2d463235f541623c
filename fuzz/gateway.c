/* Whatever users and agents send, over a real store: nothing breaks the gateway, and its counts still add up.
 * Input: pieces of u8 who (0 the operator, 1 a stranger, 2 an agent that was launched, 3 time passes), u16 type, u16
 * length, payload. */
#include "gateway_pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rig r;
    rig_begin(&r);
    uint32_t peers[3] = { rig_open(&r, RIG_UID, HTC_WIRE_ROLE_USER), rig_open(&r, 2000, HTC_WIRE_ROLE_USER),
                          rig_open(&r, RIG_UID, HTC_WIRE_ROLE_AGENT) };
    send_pieces(&r, peers, data, size);
    rig_end(&r);
    return 0;
}
