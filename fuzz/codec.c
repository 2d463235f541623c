/* The codec and the message header: what is read stays inside its bytes, and what was read is written back the same. */
#include <string.h>

#include "check.h"
#include "core/codec.h"
#include "core/wire.h"

#define OPS_MAX 64

/* Reads one thing of the kind that op names and writes it again. */
static void read_and_write(uint8_t op, htc_reader *r, htc_buf *b)
{
    char      text[32];
    htc_bytes bytes;
    switch (op % 9) {
    case 0:
        htc_put_u8(b, htc_get_u8(r));
        break;
    case 1:
        htc_put_u16(b, htc_get_u16(r));
        break;
    case 2:
        htc_put_u32(b, htc_get_u32(r));
        break;
    case 3:
        htc_put_u64(b, htc_get_u64(r));
        break;
    case 4:
        htc_put_varint(b, htc_get_varint(r));
        break;
    case 5:
        bytes = htc_get_bytes(r);
        htc_put_bytes(b, bytes);
        break;
    case 6:
        htc_get_str(r, text, sizeof text);
        CHECK(strlen(text) < sizeof text);
        htc_put_str(b, text);
        break;
    case 7:
        bytes = htc_get_raw(r, op / 9);
        htc_put_raw(b, bytes);
        break;
    case 8: {
        size_t n = htc_get_count(r, 3);
        CHECK(n <= htc_reader_left(r) / 3);
        htc_put_varint(b, n);
    }
    }
}

static void codec(const uint8_t *ops, size_t n_ops, htc_bytes body)
{
    htc_reader r = htc_reader_of(body);
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    for (size_t i = 0; i < n_ops; i++) {
        size_t left = htc_reader_left(&r), before = b.len;
        read_and_write(ops[i], &r, &b);
        CHECK(htc_reader_left(&r) <= left);
        if (r.status != HTC_OK) {
            CHECK(r.status == HTC_EPROTO && htc_reader_left(&r) == 0);
            b.len = before;
            break;
        }
        /* There is one way to write a thing: reading and writing gives the bytes that were read. */
        CHECK(b.len == body.len - htc_reader_left(&r));
    }
    if (r.status == HTC_OK)
        CHECK(b.len == 0 || memcmp(b.data, body.data, b.len) == 0);
    htc_buf_free(&b);
}

/* Behind the four numbers whose key it is, where one was shown. */
static void peer(htc_bytes body, const htc_peer_info *info)
{
    htc_peer_identity identity;
    htc_status        status = htc_peer_identity_read(body, &identity);
    if (info->transport != HTC_TRANSPORT_SECURE) {
        CHECK(status == HTC_EMPTY && body.len == 16);
        return;
    }
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_peer_identity_write(&b, &identity);
    CHECK(status == HTC_OK && b.len == body.len - 16);
    CHECK(memcmp(b.data, (const uint8_t *)body.data + 16, b.len) == 0);
    htc_buf_free(&b);
}

static void wire(htc_bytes message)
{
    uint16_t      type;
    uint64_t      id;
    uint8_t       role;
    htc_peer_info info;
    htc_reader    r = htc_wire_open(message, &type, &id);
    CHECK(htc_wire_name(type) != NULL);
    uint16_t      version;
    if (htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version) == HTC_OK)
        CHECK(message.len >= 17 && version >= HTC_WIRE_VERSION_MIN && version <= HTC_WIRE_VERSION);
    htc_wire_machine m;
    r = htc_wire_open(message, &type, &id);
    if (htc_wire_read_hello_machine(&r, HTC_WIRE_VERSION, &role, &version, &m) == HTC_OK)
        CHECK(memchr(m.system, 0, sizeof m.system) && memchr(m.machine, 0, sizeof m.machine) && (version >= HTC_WIRE_VERSION_MACHINE || !m.system[0]));
    if (htc_peer_info_read(message, &info) == HTC_OK)
        peer(message, &info);
}

/* u8 count of operations, the operations, the bytes they read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wire((htc_bytes){ data, size });
    if (size == 0)
        return 0;
    size_t n = data[0] % OPS_MAX;
    if (n > size - 1)
        n = size - 1;
    codec(data + 1, n, (htc_bytes){ data + 1 + n, size - 1 - n });
    return 0;
}
