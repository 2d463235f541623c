/* A worker over a real store, whatever it is told: by other workers and by nobody, by its host, by a store whose answers are changed, and by
 * records that somebody else has written. No assertion fails, nothing is lost of memory, and where it was told no untruth no task is counted
 * twice.
 * Input: u8 (1: a chain, else a bag), then pieces of u8 what, u8 length, payload. what:
 *
 *     0 time passes, u8 times 100 ms          4 a record is deleted: u8 which
 *     1 a message of a member: u8 type, rest  5 the answer with this number (u8) of the store is u8 status
 *     2 the same of nobody                    6 an event: u8 which, rest
 *     3 a record is written: u8 which, rest   7 a call is answered: u8 which, u8 status, rest */
#include "../tests/unit/worker_rig.h"

#define TASKS 8

typedef struct told {
    rig        r;
    uint32_t   answers, at;
    htc_status status;
    int        untruth; /* it was told something that others are believed in */
} told;

static const htc_status statuses[] = { HTC_OK,       HTC_EUNKNOWN, HTC_ENOSPC,   HTC_EFULL,   HTC_ETIMEDOUT, HTC_ENOTFOUND,
                                       HTC_MISMATCH, HTC_EINVAL,   HTC_ECORRUPT, HTC_ETOOBIG, HTC_ESTAGEIN,  HTC_AGAIN };

static htc_status status_of(uint8_t which)
{
    return statuses[which % (sizeof statuses / sizeof *statuses)];
}

static htc_status answered(void *ctx, uint32_t i, htc_status status)
{
    told *t = ctx;
    (void)i;
    return t->answers++ == t->at ? t->status : status;
}

static flow_key key_of(uint8_t which)
{
    switch (which % 6) {
    case 0: return htc__flow_key_header(RIG_FLOW);
    case 1: return htc__flow_key_ledger(RIG_FLOW, which / 6 % 4);
    case 2: return htc__flow_key_task(RIG_FLOW, which / 6 % TASKS);
    case 3: return htc__flow_key_worker(RIG_FLOW, 1 + which / 6 % 3);
    case 4: return htc__flow_key_collector(RIG_FLOW);
    default: return htc__flow_key_ledger(RIG_FLOW, which);
    }
}

static void message(told *t, uint32_t peer, uint8_t type, htc_bytes rest)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, (uint16_t)(HTC_WIRE_WORKER_LOAD_ASK + type % 13), 0);
    htc_put_raw(&b, rest);
    t->untruth = 1;
    rig_post_to(&t->r, RIG_STORE, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_run(&t->r);
}

static void event(told *t, uint8_t which, htc_bytes rest)
{
    static const uint32_t ops[] = { HTC_EVENT_STARTED, HTC_EVENT_TASK_STOPPED, HTC_EVENT_SHUTDOWN, HTC_EVENT_DISK };
    htc_buf               b;
    htc_buf_init(&b, NULL, 0);
    if (which & 4) /* of a run that there is */
        htc_put_u64(&b, t->r.calls[which / 8 % RIG_KEPT].tag);
    htc_put_raw(&b, rest);
    rig_post_to(&t->r, RIG_STORE,
                (htc_input){ .kind = HTC_IN_EVENT, .op = ops[which % 4], .status = which & 8 ? HTC_EKILLED : HTC_OK, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_run(&t->r);
}

static void piece(told *t, uint32_t peer, uint8_t what, htc_bytes payload)
{
    htc_reader r = htc_reader_of(payload);
    uint8_t    first = htc_get_u8(&r);
    if (r.status != HTC_OK)
        return;
    uint8_t   second = what % 8 == 5 || what % 8 == 7 ? htc_get_u8(&r) : 0;
    htc_bytes rest = htc_get_raw(&r, htc_reader_left(&r));
    flow_key  k = key_of(first);
    switch (what % 8) {
    case 0: rig_pass(&t->r, first * (100 * HTC_MS)); break;
    case 1: message(t, peer, first, rest); break;
    case 2: message(t, 77, first, rest); break;
    case 3:
        t->untruth = 1;
        rig_put(&t->r, &k, rest);
        break;
    case 4:
        t->untruth = 1;
        rig_delete(&t->r, &k);
        break;
    case 5:
        t->answers = 0;
        t->at = first;
        t->status = status_of(second);
        break;
    case 6: event(t, first, rest); break;
    case 7: rig_answer(&t->r, &t->r.calls[first], status_of(second), rest); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static told        t;
    alloc_fail         f = alloc_fail_at(0);
    htc_worker_options o = rig_options();
    ledger             l;
    flow               header;
    if (size == 0)
        return 0;
    t.untruth = 0;
    t.answers = 0;
    t.at = UINT32_MAX;
    rig_open(&t.r, 3);
    if (data[0] == 1)
        rig_put_chain(&t.r, TASKS);
    else
        rig_put_bag(&t.r, TASKS);
    htc__ledger_init(&l, (ledger_span){ 0, 0 });
    htc__ledger_take(&l, 2, 99);
    rig_put_ledger(&t.r, 1, &l);
    t.r.left = 1;
    t.r.answers = answered;
    t.r.ctx = &t;
    rig_start(&t.r, &o, &f);
    uint32_t peer = rig_other_worker(&t.r, 2, 99);
    data++;
    size--;
    for (int pieces = 0; size >= 2 && pieces < 64; pieces++) {
        size_t n = data[1] < size - 2 ? data[1] : size - 2;
        piece(&t, peer, data[0], (htc_bytes){ data + 2, n });
        data += 2 + n;
        size -= 2 + n;
    }
    t.r.left = 0;
    rig_pass(&t.r, 30 * HTC_SECOND);
    if (!t.untruth && rig_get_header(&t.r, &header) && header.counts.done + header.counts.failed + header.counts.cancelled > TASKS)
        abort();
    rig_close(&t.r);
    if (f.live || f.wrong_sizes)
        abort();
    return 0;
}
