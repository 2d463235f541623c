/* Structs of the caller's: whoever was built with a shorter one gets no byte written behind it. */
#include "expect.h"
#include "htcsched/htcsched.h"

#define ROOM 1024
#define MARK 0xA5

/* What a binding does: memory of its own size, whatever the library's is. */
typedef void (*init_fn)(void *options, size_t size);
#define INIT(module) { #module, (init_fn)(void (*)(void))htc_##module##_options_init, sizeof(htc_##module##_options) }

static const struct {
    const char *name;
    init_fn     init;
    size_t      size;
} inits[] = { INIT(allot),    INIT(allot_book),       INIT(balance),   INIT(dag),  INIT(deque), INIT(fit), INIT(hierarchy),
              INIT(locality), INIT(locality_lengths), INIT(provision), INIT(ring), INIT(steal) };

/* Every length that a caller may have been built with, from nothing to longer than today's. */
Test(options, nothing_is_written_behind_the_caller_s_struct)
{
    for (size_t i = 0; i < sizeof inits / sizeof inits[0]; i++)
        for (size_t size = 0; size <= inits[i].size + 64; size++) {
            uint8_t room[ROOM];
            size_t  said = 0;
            memset(room, MARK, sizeof room);
            inits[i].init(room, size);
            size_t written = size < sizeof(size_t) ? 0 : size;
            for (size_t at = written; at < ROOM; at++)
                cr_assert(room[at] == MARK, "%s, %zu bytes: byte %zu was written", inits[i].name, size, at);
            if (written == 0)
                continue;
            memcpy(&said, room, sizeof said);
            cr_assert(said == size, "%s: its size is told as %zu", inits[i].name, said);
            for (size_t at = sizeof said; at < size; at++)
                cr_assert(room[at] == 0, "%s: byte %zu is no default", inits[i].name, at);
        }
}

/* ---- requests, answers and inputs of callers that are older or newer ---- */

typedef struct older_request { /* as in 0.1: it ends before flags */
    size_t    size;
    uint32_t  op, limit;
    htc_bytes key, value, seen, cursor;
    uint64_t  version;
    int64_t   delta;
    uint64_t  lease;
    htc_ns    ttl;
} older_request;

typedef struct newer_request {
    htc_kv_request known;
    uint64_t       unknown;
} newer_request;

static htc_kv_client *client_of(htc_output **out)
{
    htc_kv_client        *c = NULL;
    htc_kv_client_options options = { .size = sizeof options, .client_id = 7, .peer = 1 };
    cr_assert(htc_output_create(NULL, 0, out) == HTC_OK);
    cr_assert(htc_kv_client_create(NULL, &options, &c) == HTC_OK);
    return c;
}

Test(options, an_array_of_requests_is_walked_by_the_size_of_the_first)
{
    htc_output    *out;
    htc_kv_client *c = client_of(&out);
    older_request  old[2] = { { .size = sizeof old[0], .op = HTC_KV_GET, .key = { "a", 1 } },
                              { .size = sizeof old[0], .op = HTC_KV_GET, .key = { "b", 1 } } };
    newer_request  newer[2] = { { .known = { .size = sizeof newer[0], .op = HTC_KV_GET, .key = { "a", 1 } } },
                                { .known = { .size = sizeof newer[0], .op = HTC_KV_GET, .key = { "b", 1 } } } };
    cr_assert(sizeof old[0] < sizeof(htc_kv_request));
    cr_assert(htc_kv_client_submit(c, 0, (const htc_kv_request *)(const void *)old, 2, 1, out) == HTC_OK);
    cr_assert(htc_kv_client_submit(c, 0, &newer[0].known, 2, 2, out) == HTC_OK);
    cr_assert(htc_kv_client_pending(c) == 4);
    newer[1].unknown = 1; /* a wish that this library cannot grant */
    cr_assert(htc_kv_client_submit(c, 0, &newer[0].known, 2, 3, out) == HTC_EABI);
    newer[1].unknown = 0;
    newer[1].known.size = sizeof(htc_kv_request);
    cr_assert(htc_kv_client_submit(c, 0, &newer[0].known, 2, 4, out) == HTC_EINVAL);
    cr_assert(htc_kv_client_submit(c, 0, &(htc_kv_request){ .op = HTC_KV_GET, .key = { "a", 1 } }, 1, 5, out) == HTC_EINVAL);
    cr_assert(htc_kv_client_pending(c) == 4);
    htc_kv_client_destroy(c);
    htc_output_destroy(out);
}

/* An answer to a caller whose struct ends before ttl, and to one who forgot to say how long it is. */
Test(options, an_answer_is_written_no_further_than_the_caller_s_struct)
{
    htc_store     *store = NULL;
    htc_kv_request put = { .size = sizeof put, .op = HTC_KV_PUT, .key = { "k", 1 }, .value = { "v", 1 }, .ttl = HTC_SECOND };
    htc_kv_request get = { .size = sizeof get, .op = HTC_KV_GET, .key = { "k", 1 } };
    cr_assert(htc_store_open(NULL, &(htc_store_options){ .size = sizeof(htc_store_options), .address = "memory:" }, &store, NULL) == HTC_OK);
    union {
        htc_kv_result result;
        uint8_t       bytes[sizeof(htc_kv_result) + 64];
    } room;
    memset(&room, MARK, sizeof room);
    room.result.size = offsetof(htc_kv_result, ttl);
    cr_assert(htc_store_ask(store, &put, &room.result, NULL) == HTC_OK);
    cr_assert(htc_store_ask(store, &get, &room.result, NULL) == HTC_OK);
    cr_assert(room.result.value.len == 1 && room.result.size == offsetof(htc_kv_result, ttl));
    for (size_t at = offsetof(htc_kv_result, ttl); at < sizeof room; at++)
        cr_assert(room.bytes[at] == MARK);
    room.result.size = 0;
    cr_assert(htc_store_ask(store, &get, &room.result, NULL) == HTC_EINVAL);
    htc_store_close(store);
}

Test(options, an_input_without_its_size_is_refused)
{
    htc_output    *out;
    htc_kv_client *c = client_of(&out);
    struct {
        htc_input known;
        uint64_t  unknown;
    } newer = { .known = { .size = sizeof newer, .kind = HTC_IN_TIMEOUT } };
    cr_assert(htc_kv_client_step(c, &(htc_input){ .kind = HTC_IN_TIMEOUT }, out) == HTC_EINVAL);
    cr_assert(htc_kv_client_step(c, &newer.known, out) == HTC_OK);
    newer.unknown = 1;
    cr_assert(htc_kv_client_step(c, &newer.known, out) == HTC_EABI);
    htc_kv_client_destroy(c);
    htc_output_destroy(out);
}

/* A required field whose zero no caller can mean. Without an id of its own a client's repeated change would be made twice. */
Test(options, a_client_says_who_it_is_and_whom_it_asks)
{
    htc_kv_client        *c = NULL;
    htc_kv_client_options none = { .size = sizeof none, .peer = 1 }, nobody = { .size = sizeof nobody, .client_id = 7 };
    cr_assert(htc_kv_client_create(NULL, &none, &c) == HTC_EINVAL);
    cr_assert(htc_kv_client_create(NULL, &nobody, &c) == HTC_EINVAL);
    cr_assert(c == NULL);
}
