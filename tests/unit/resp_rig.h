/* The RESP face over the store of resp_model.h, with two connections: what it was sent and what it has said. */
#ifndef HTC_TESTS_RESP_RIG_H
#define HTC_TESTS_RESP_RIG_H

#include "expect.h"

#include "core/wire.h"
#include "kvs/resp/resp.h"
#include "resp_model.h"

typedef struct rig {
    htc_env     env;
    model       m;
    htc__resp  *f;
    htc_output *out;
    htc_buf     said[3]; /* to each peer */
    int         closed[3], held[3];
    uint64_t    tag[3];
} rig;

static inline void rig_collect(rig *r)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        cr_assert(e.peer < 3 && !r->closed[e.peer]);
        if (e.kind == HTC_OUT_BYTES) {
            htc_put_raw(&r->said[e.peer], e.body);
            if (e.tag)
                r->tag[e.peer] = e.tag;
        } else if (e.kind == HTC_OUT_CLOSE) {
            r->closed[e.peer] = 1;
        } else {
            cr_assert(e.kind == HTC_OUT_HOLD && r->held[e.peer] != (int)e.op);
            r->held[e.peer] = (int)e.op;
        }
    }
    htc_output_clear(r->out);
}

static inline htc_status rig_input(rig *r, uint32_t kind, uint32_t peer, htc_bytes body, uint64_t tag)
{
    htc_input in = { .size = sizeof in, .now = 1000 * HTC_SECOND, .wall = 2000 * HTC_SECOND, .kind = kind, .peer = peer, .tag = tag, .body = body
    };
    htc_status status = htc__resp_input(r->f, &in, r->out);
    rig_collect(r);
    return status;
}

static inline htc_status rig_flush(rig *r)
{
    htc_status status = htc__resp_flush(r->f, 1000 * HTC_SECOND, 2000 * HTC_SECOND, r->out);
    rig_collect(r);
    return status;
}

static inline void rig_sent(rig *r, uint32_t peer)
{
    uint64_t tag = r->tag[peer];
    r->tag[peer] = 0;
    if (tag && !r->closed[peer])
        rig_input(r, HTC_IN_SENT, peer, (htc_bytes){ NULL, 0 }, tag);
}

static inline void rig_open(rig *r, uint32_t peer)
{
    cr_assert(rig_input(r, HTC_IN_OPENED, peer, (htc_bytes){ NULL, 0 }, 0) == HTC_OK);
}

static inline void rig_make(rig *r, const htc__resp_options *options, htc_rng *rng)
{
    memset(r, 0, sizeof *r);
    r->env = (htc_env){ .size = sizeof r->env };
    model_init(&r->m, rng);
    for (int i = 0; i < 3; i++)
        htc_buf_init(&r->said[i], NULL, (size_t)256 << 20);
    cr_assert(htc_output_create(NULL, 0, &r->out) == HTC_OK);
    cr_assert(htc__resp_create(&r->env, options, model_backend(&r->m), &r->f) == HTC_OK);
    rig_open(r, 1);
}

static inline void rig_free(rig *r)
{
    htc__resp_destroy(r->f);
    htc_output_destroy(r->out);
    model_free(&r->m);
    for (int i = 0; i < 3; i++)
        htc_buf_free(&r->said[i]);
}

/* Everything that is on its way arrives. */
static inline void rig_settle(rig *r)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        while (model_answer_one(&r->m))
            quiet = 0;
        cr_assert(rig_flush(r) == HTC_OK);
        for (uint32_t p = 1; p < 3; p++)
            if (r->tag[p]) {
                rig_sent(r, p);
                quiet = 0;
            }
        if (htc__resp_more(r->f))
            quiet = 0;
    }
}

/* What is said is answered with this, word for word. */
static inline void converse(rig *r, const char *said, const char *answered)
{
    htc_buf_clear(&r->said[1]);
    cr_assert(rig_input(r, HTC_IN_BYTES, 1, htc_bytes_of(said), 0) == HTC_OK);
    rig_settle(r);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r->said[1]), htc_bytes_of(answered)),
              "<%s> is answered <%.*s> instead of <%s>", said, (int)r->said[1].len, (char *)r->said[1].data, answered);
}

#endif
