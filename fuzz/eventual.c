/* A member of an eventual namespace, told anything by another one. The input is a list of pieces: u8 kind, u8 length, bytes; kind 0 asks
 * this member itself, with bytes as an operation. Whatever comes, no step fails, what leaves has its form, and one commit at most is
 * in flight. */
#include <stdlib.h>

#include "kvs/eventual/eventual.h"

enum { OTHER = 100, USER = 300 };

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint64_t tag; /* of the commit in flight; 0: none */

static void step(htc_kv_server *s, htc_output *out, htc_input in)
{
    htc_effect e;
    must(htc_kv_server_ops()->step(s, &in, out) == HTC_OK);
    for (size_t i = 0; htc_output_get(out, i, &e) == HTC_OK; i++) {
        uint16_t type;
        uint64_t id;
        if (e.kind == HTC_OUT_COMMIT) {
            must(tag == 0);
            tag = e.tag;
        } else if (e.kind == HTC_OUT_MESSAGE) {
            must(e.body.len <= HTC_WIRE_MESSAGE_MAX && htc_wire_open(e.body, &type, &id).status == HTC_OK);
        }
    }
    htc_output_clear(out);
}

static void answer(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    (void)conn, (void)slot;
    must(result->items <= HTC__SIBLINGS_VALUES && result->context.len <= HTC_KV_CONTEXT_MAX);
    ++*(size_t *)ctx;
}

static void ask(htc_kv_server *s, htc_bytes bytes, uint64_t sequence)
{
    static size_t             answers;
    static const htc__kv_face face = { .answer = answer, .ctx = &answers };
    htc_reader                r = htc_reader_of(bytes);
    htc_kv_request            q = { .size = sizeof q };
    htc_kv_result             result = { .size = sizeof result };
    htc__kv_op_read(&r, &q);
    if (r.status == HTC_OK && q.space.len)
        htc__kv_eventual_ask(s, &q, &(htc__kv_stamp){ .client = 7, .sequence = sequence, .fresh = 1 }, &face, 1, 1,
                             &result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_rng               rng = { 1 };
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_kv_namespace      space = { .size = sizeof space, .name = htc_bytes_of("e") };
    htc_kv_member         members[2] = { { .id = 11, .peer = 99 }, { .id = 22, .peer = OTHER } };
    htc_kv_server_options o = { .size = sizeof o,
                                .self = 11,
                                .members = members,
                                .member_count = 2,
                                .bits = 4,
                                .request_ns = 20 * HTC_MS,
                                .compare_ns = HTC_MS,
                                .deleted_ns = 1,
                                .namespaces = &space,
                                .namespace_count = 1 };
    htc_kv_server        *s = NULL;
    htc_output           *out = NULL;
    htc_reader            r = htc_reader_of((htc_bytes){ data, size });
    htc_ns                now = 1;
    tag = 0;
    must(htc_kv_memory_create(&env, &o.engine) == HTC_OK && htc_output_create(&env, 0, &out) == HTC_OK);
    must(htc_kv_server_create(&env, &o, &s) == HTC_OK);
    step(s, out, (htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_START });
    step(s, out, (htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_OPENED, .peer = OTHER });
    while (htc_reader_left(&r) >= 2) {
        uint8_t   kind = htc_get_u8(&r);
        size_t    len = htc_get_u8(&r);
        htc_bytes piece = htc_get_raw(&r, len < htc_reader_left(&r) ? len : htc_reader_left(&r));
        if (kind == 0)
            ask(s, piece, now);
        else
            htc__kv_component_eventual_keys.on_item(s, 22, kind, piece);
        now += HTC_MS;
        step(s, out, (htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_TIMEOUT });
        uint64_t done = tag;
        tag = 0;
        if (done)
            step(s, out,
                 (htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_STORED, .tag = done, .status = len % 16 ? HTC_OK : HTC_ENOSPC });
    }
    htc_kv_server_destroy(s);
    o.engine.ops->destroy(o.engine.ctx);
    htc_output_destroy(out);
    return 0;
}
