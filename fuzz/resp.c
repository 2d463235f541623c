/* The RESP face against arbitrary bytes in arbitrary pieces: it never fails, what it says begins with a type of RESP, and
 * whoever is closed is heard no more. First byte: 1 a password, 2 answers come late, 4 small bounds, 8 a store
 * that knows places, 16 one member alone; then pieces: u8 length,
 * bytes; a length of 0: what is late arrives. */
#include "kvs/resp/resp.h"
#include "check.h"

#include "../tests/unit/resp_model.h"

typedef struct world {
    htc__resp  *f;
    htc_output *out;
    int         closed, begun;
    uint64_t    tag;
} world;

static void effects(world *w)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        CHECK(e.peer == 1 && !w->closed);
        if (e.kind == HTC_OUT_CLOSE)
            w->closed = 1;
        if (e.kind != HTC_OUT_BYTES || e.body.len == 0)
            continue;
        CHECK(w->begun || strchr("+-:$*%_", ((const char *)e.body.data)[0]));
        w->begun = 1;
        w->tag = e.tag ? e.tag : w->tag;
    }
    htc_output_clear(w->out);
}

static void flush(world *w)
{
    CHECK(htc__resp_flush(w->f, HTC_SECOND, HTC_SECOND, w->out) == HTC_OK);
    effects(w);
}

static void input(world *w, uint32_t kind, htc_bytes body, uint64_t tag)
{
    htc_input in = { .size = sizeof in, .kind = kind, .peer = 1, .now = HTC_SECOND, .wall = HTC_SECOND, .tag = tag, .body = body };
    CHECK(htc__resp_input(w->f, &in, w->out) == HTC_OK);
    effects(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static model_key  keys[MODEL_KEYS];
    htc_rng           rng = { 1 };
    htc_env           env = { .size = sizeof env };
    htc__resp_options o = { .flush = 1 };
    world             w = { 0 };
    model             m = { .keys = keys };
    uint8_t           how = size ? data[0] : 0;
    htc_buf_init(&m.old, NULL, 0);
    htc_buf_init(&m.items, NULL, 0);
    htc_buf_init(&m.cursor, NULL, 0);
    m.rng = how & 2 ? &rng : NULL;
    m.places = how >> 3 & 1;
    m.alone = how >> 4 & 1;
    m.room = SIZE_MAX;
    if (how & 1)
        o.password = htc_bytes_of("pw");
    if (how & 4)
        o.pending_max = 2, o.output_max = 40, o.request_max = 300;
    CHECK(htc_output_create(NULL, 0, &w.out) == HTC_OK);
    CHECK(htc__resp_create(&env, &o, model_backend(&m), &w.f) == HTC_OK);
    input(&w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 }, 0);
    for (size_t at = 1; at < size && !w.closed;) {
        size_t n = data[at++];
        if (n == 0) {
            model_answer_one(&m);
            flush(&w);
            input(&w, HTC_IN_SENT, (htc_bytes){ NULL, 0 }, w.tag);
            continue;
        }
        n = n < size - at ? n : size - at;
        input(&w, HTC_IN_BYTES, (htc_bytes){ data + at, n }, 0);
        at += n;
    }
    for (int i = 0; i < 20 && !w.closed; i++) {
        model_answer_one(&m);
        flush(&w);
        if (!w.closed)
            input(&w, HTC_IN_SENT, (htc_bytes){ NULL, 0 }, w.tag);
    }
    htc__resp_destroy(w.f);
    htc_output_destroy(w.out);
    m.keys = NULL;
    for (size_t i = 0; i < m.count; i++)
        free(keys[i].value);
    m.count = 0;
    model_free(&m);
    return 0;
}
