/* Messages between owners: what is taken for one is written back to the same bytes, and no owner or proposer falls over it. */
#include <string.h>

#include "check.h"
#include "kvs/register/register.h"

/* But for a cell of the format before, at the end of it: that is written as of today. */
static void same(const htc_buf *b, htc_bytes bytes)
{
    const uint8_t *p = bytes.data;
    size_t         i = 0;
    while (i < b->len && i < bytes.len && b->data[i] == p[i])
        i++;
    if (i == b->len && i == bytes.len)
        return;
    htc__kv_cell was, is;
    CHECK(i < b->len && i < bytes.len && p[i] == 2 && b->data[i] == HTC__KV_CELL_FORMAT);
    CHECK(htc__kv_cell_read((htc_bytes){ p + i, bytes.len - i }, NULL, &was) == HTC_OK);
    CHECK(htc__kv_cell_read((htc_bytes){ b->data + i, b->len - i }, NULL, &is) == HTC_OK);
    CHECK(htc__kv_cell_same(&was, &is) && htc__kv_ballot_compare(&was.promise, &is.promise) == 0);
}

static void send(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask)
{
    (void)owners;
    (void)mask;
    *(uint64_t *)ctx = ask->round;
}

static void done(void *ctx, uint64_t tag, const htc__kv_outcome *outcome)
{
    (void)ctx;
    (void)tag;
    (void)outcome;
}

static void hand_over(void *ctx, uint64_t tag, uint64_t to, int tried)
{
    (void)ctx;
    (void)tag;
    (void)to;
    (void)tried;
}

static void reserve(void *ctx, uint64_t counter)
{
    (void)ctx;
    (void)counter;
}

/* A proposer in the middle of a change gets this from two owners, as an answer to whatever it asked. */
static void answered(const htc__kv_reply *reply)
{
    uint64_t                 round = 0;
    htc__kv_register        *reg;
    htc__kv_register_host    host = { send, done, hand_over, reserve, &round };
    htc__kv_register_options options = { .self = 1 };
    htc__kv_owners           owners = { .epoch = 1, .n = 3, .id = { 1, 2, 3 } };
    htc_kv_request           q = { .size = sizeof q, .op = HTC_KV_APPEND, .key = reply->key, .value = { "x", 1 } };
    htc__kv_stamp            stamp = { .client = 1, .sequence = 1 };
    CHECK(htc__kv_register_create(NULL, &options, &host, &reg) == HTC_OK);
    htc__kv_register_reserved(reg, 0, UINT64_C(1) << 40);
    CHECK(htc__kv_register_ask(reg, 0, &owners, &q, &stamp, 0, HTC_NEVER, 1) == HTC_OK);
    for (uint64_t from = 1; from <= 3; from++) {
        htc__kv_reply again = *reply;
        again.round = round;
        htc__kv_register_reply(reg, from, from, &again);
    }
    htc__kv_register_timeout(reg, HTC_SECOND);
    htc__kv_register_destroy(reg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes     bytes = { data, size };
    htc__kv_ask   ask;
    htc__kv_reply reply;
    htc_buf       b;
    htc_buf_init(&b, NULL, 0);
    if (htc__kv_ask_read(bytes, 0, &ask) == HTC_OK) {
        htc__kv_floors floors = { 0 };
        htc__kv_cell   cell = htc__kv_cell_absent(&floors);
        htc__kv_ask_write(&b, &ask);
        same(&b, bytes);
        unsigned duties = htc__kv_acceptor_step(&cell, &floors, &ask, &reply);
        CHECK(!(duties & HTC__KV_STORE_CELL) || !htc__kv_cell_empty(&cell));
        CHECK(htc__kv_ballot_compare(&cell.promise, &cell.accepted) >= 0);
    }
    htc_buf_clear(&b);
    if (htc__kv_reply_read(bytes, &reply) == HTC_OK) {
        htc__kv_reply_write(&b, &reply);
        same(&b, bytes);
        htc_buf_clear(&b);
        htc_bytes held = reply.held;
        reply.held = (htc_bytes){ NULL, 0 };
        htc__kv_reply_write(&b, &reply); /* from the cell */
        same(&b, bytes);
        reply.held = held;
        answered(&reply);
    }
    htc_buf_free(&b);
    return 0;
}
