/* Cells over an engine against three plain arrays: what is stored, what is on its way, what is staged on top. */
#include "expect.h"
#include <string.h>

#include "core/codec.h"
#include "kvs/storage/cells_overlay.h"
#include "property.h"

#define KEYS 12

typedef struct layer {
    int      value[KEYS]; /* 0: absent */
    uint64_t batch[KEYS]; /* of the newest change that is not stored; 0: stored */
} layer;

typedef struct checking {
    const layer *now;
    int          next;
} checking;

static htc_bytes key_of(int k, char text[2])
{
    text[0] = (char)('a' + k);
    return (htc_bytes){ text, 1 };
}

static int visit(void *visitor, htc_bytes key, htc_bytes value)
{
    checking *c = visitor;
    char      text[2];
    int       stored;
    while (c->next < KEYS && c->now->value[c->next] == 0)
        c->next++;
    HOLDS(c->next < KEYS && htc_bytes_equal(key, key_of(c->next, text)));
    memcpy(&stored, value.data, sizeof stored);
    HOLDS(stored == c->now->value[c->next]);
    c->next++;
    return 1;
}

static void check_all(const htc__cells *cells, const layer *now)
{
    char     text[2];
    uint64_t batch, newest = 0;
    for (int k = 0; k < KEYS; k++) {
        htc_bytes  value;
        htc_status status = cells->ops->get(cells->ctx, key_of(k, text), &value, &batch);
        HOLDS(status == (now->value[k] ? HTC_OK : HTC_ENOTFOUND));
        HOLDS(status != HTC_OK || memcmp(value.data, &now->value[k], sizeof(int)) == 0);
        HOLDS(batch == now->batch[k]);
        newest = now->batch[k] > newest ? now->batch[k] : newest;
    }
    checking c = { now, 0 };
    HOLDS(cells->ops->scan(cells->ctx, htc_bytes_of(""), visit, &c, &batch) == HTC_OK);
    while (c.next < KEYS && now->value[c.next] == 0)
        c.next++;
    HOLDS(c.next == KEYS);
    HOLDS(batch == newest);
}

typedef struct model {
    layer stored, sent, now;
    int   staged, in_flight;
} model;

static void settle(model *m, uint64_t batch)
{
    for (int k = 0; k < KEYS; k++)
        if (m->now.batch[k] == batch)
            m->now.batch[k] = 0;
    m->stored = m->sent;
    memset(m->stored.batch, 0, sizeof m->stored.batch);
    m->in_flight = 0;
}

/* A batch takes place as a whole or, with what was staged on top of it, not at all; meanwhile everybody here sees it. */
Test(cells_overlay, a_batch_is_seen_at_once_and_stored_or_undone_as_a_whole)
{
    PROPERTY(rng, 300)
    {
        htc_kv_engine engine;
        htc__cells    cells;
        htc_output   *out;
        htc_buf       body;
        htc_effect    e = { 0 };
        model         m = { 0 };
        int           ready = 0, undone = 0;
        htc_buf_init(&body, NULL, 0);
        HOLDS(htc_kv_memory_create(NULL, &engine) == HTC_OK);
        HOLDS(htc__cells_overlay(NULL, &engine, &cells) == HTC_OK);
        HOLDS(htc_output_create(NULL, 0, &out) == HTC_OK);
        cells.ops->step(cells.ctx, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START }, out, &ready);
        HOLDS(ready == 1);
        for (int i = 1; i < 400; i++) {
            char     text[2];
            int      k = (int)htc_rng_below(&rng, KEYS), what = (int)htc_rng_below(&rng, 10);
            uint64_t stored = cells.ops->stored(cells.ctx), open = cells.ops->open(cells.ctx);
            HOLDS(open == stored + 1 + (uint64_t)m.in_flight);
            if (what < 6) {
                htc_status status = what < 4 ? cells.ops->put(cells.ctx, key_of(k, text), (htc_bytes){ &i, sizeof i })
                                             : cells.ops->drop(cells.ctx, key_of(k, text));
                HOLDS(status == HTC_OK);
                m.now.value[k] = what < 4 ? i : 0;
                m.now.batch[k] = open;
                m.staged = 1;
            } else if (what < 8) {
                HOLDS(cells.ops->commit(cells.ctx, out) == HTC_OK);
                HOLDS(htc_output_count(out) == (m.staged && !m.in_flight));
                if (htc_output_count(out)) {
                    htc_output_get(out, 0, &e);
                    htc_buf_clear(&body);
                    htc_put_raw(&body, e.body);
                    m.sent = m.now;
                    m.staged = 0;
                    m.in_flight = 1;
                }
                htc_output_clear(out);
            } else if (m.in_flight) {
                htc_status how = htc_rng_below(&rng, 3) ? HTC_OK : HTC_ENOSPC;
                if (how == HTC_OK)
                    HOLDS(engine.ops->apply(engine.ctx, htc_buf_bytes(&body)) == HTC_OK);
                htc_input in = { .size = sizeof in, .kind = HTC_IN_STORED, .tag = e.tag, .status = how };
                HOLDS(cells.ops->step(cells.ctx, &in, out, &ready) == HTC_OK);
                HOLDS(cells.ops->undone(cells.ctx) == how);
                HOLDS(cells.ops->undone(cells.ctx) == HTC_OK); /* said once */
                if (how == HTC_OK) {
                    settle(&m, open - 1);
                } else {
                    m.now = m.stored;
                    m.staged = m.in_flight = 0;
                    undone++;
                }
                /* Told twice: the second time is about nothing. */
                HOLDS(cells.ops->step(cells.ctx, &in, out, &ready) == HTC_OK);
            }
            check_all(&cells, &m.now);
        }
        HOLDS(undone > 0);
        cells.ops->destroy(cells.ctx);
        engine.ops->destroy(engine.ctx);
        htc_output_destroy(out);
        htc_buf_free(&body);
    }
}
