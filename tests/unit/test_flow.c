/* What is in work at once is bounded, whoever asks for how much: by counts of requests and bytes, and of whose turn it is. */
#include "expect.h"

#include "core/util.h"
#include "kvs/front/flight.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/resp/resp.h"
#include "property.h"

/* ---------------------------------------------------------------- the budget by itself */

#define LENGTHS 400

/* Against a list of what is in work, added up anew each time. */
Test(flow, the_budget_agrees_with_a_list)
{
    PROPERTY(rng, 300)
    {
        htc__kv_flight f = { .count_max = 1 + (uint32_t)htc_rng_below(&rng, 100) };
        size_t         in[LENGTHS], n = 0;
        for (int step = 0; step < LENGTHS; step++) {
            static const size_t most[] = { 1, 100, HTC__KV_LONG_VALUE + 2, (size_t)4 << 20, HTC_KV_VALUE_MAX };
            size_t              bytes = htc_rng_below(&rng, most[htc_rng_below(&rng, 5)] + 1), longs = 0, shorts = 0;
            for (size_t i = 0; i < n; i++)
                *(in[i] > HTC__KV_LONG_VALUE ? &longs : &shorts) += in[i];
            int full = n >= f.count_max || (bytes > HTC__KV_LONG_VALUE ? longs && longs + bytes > HTC__KV_FLIGHT_LONG
                                                                     : shorts + bytes > HTC__KV_FLIGHT_SHORT);
            HOLDS(htc__kv_flight_full(&f, bytes) == full);
            if (!full) {
                htc__kv_flight_enter(&f, bytes);
                in[n++] = bytes;
            } else if (n) {
                size_t i = htc_rng_below(&rng, n);
                htc__kv_flight_leave(&f, in[i]);
                in[i] = in[--n];
            }
        }
    }
}

/* Who reads long values does not make short reads count as long. */
Test(flow, a_read_counts_as_long_as_its_key_was)
{
    htc__kv_flight f = { .count_max = 1000 };
    htc_bytes      written = htc_bytes_of("written"), read = htc_bytes_of("read"), other = htc_bytes_of("other");
    htc__kv_flight_asked(&f, written, HTC_KV_VALUE_MAX);
    for (int i = 0; i < 100; i++) {
        htc__kv_flight_read(&f, written, HTC_KV_VALUE_MAX);
        htc__kv_flight_read(&f, other, 100);
    }
    cr_expect(htc__kv_flight_guess(&f, written) == HTC_KV_VALUE_MAX && htc__kv_flight_guess(&f, other) <= 100);
    htc__kv_flight_read(&f, read, HTC_KV_VALUE_MAX);
    cr_expect(htc__kv_flight_guess(&f, read) == HTC_KV_VALUE_MAX, "as the last answer was");
    cr_expect(htc__kv_flight_guess(&f, other) > HTC__KV_LONG_VALUE, "long values that nothing was known of: there may be more");
    htc__kv_flight_read(&f, read, 5);
    cr_expect(htc__kv_flight_guess(&f, read) == f.read, "it is short now");
    htc__kv_flight_asked(&f, written, 5);
    cr_expect(htc__kv_flight_guess(&f, written) == HTC_KV_VALUE_MAX, "a short value may be one that is appended");
}

/* No deadline is shorter than what is queued before it. */
Test(flow, a_short_request_has_patience_with_the_long_ones_before_it)
{
    htc__kv_flight f = { .count_max = 1000 };
    cr_expect(htc__kv_flight_patience(&f, 100) == 0);
    htc__kv_flight_enter(&f, HTC_KV_VALUE_MAX);
    cr_expect(htc__kv_flight_patience(&f, 100) >= 4 * htc__kv_patience(HTC_KV_VALUE_MAX));
    cr_expect(htc__kv_flight_patience(&f, HTC_KV_VALUE_MAX) >= 8 * htc__kv_patience(HTC_KV_VALUE_MAX));
    htc__kv_flight_leave(&f, HTC_KV_VALUE_MAX);
    cr_expect(htc__kv_flight_patience(&f, 100) == 0);
}

/* ---------------------------------------------------------------- connections before a backend that answers later */

enum { PEERS = 64, IN_WORK = 100 };

typedef struct in_work {
    const htc__kv_face *face;
    uint64_t            conn, slot;
    size_t              bytes;
    uint32_t            op;
} in_work;

typedef struct rig {
    htc_env        env;
    htc__kv_flight flight;
    in_work        list[IN_WORK];
    size_t         n, most, most_long;
    uint64_t       asked, answered;
    htc__resp     *f;
    htc_output    *out;
    htc_ns         now;
    htc_bytes      value; /* what a read shows, at once; none: later, nothing */
    htc_buf        said[PEERS];
    uint64_t       tag[PEERS];
    int            held[PEERS], closed[PEERS];
} rig;

static int later(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn, uint64_t slot,
                 htc_kv_result *result)
{
    rig *r = ctx;
    (void)stamp;
    if (q->op == HTC_KV_GET && r->value.len) {
        *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .value = r->value };
        if (q->key.len == 1)
            result->value.len = 1;
        return 1;
    }
    cr_assert(r->n < IN_WORK, "more than the budget is in work");
    size_t bytes = q->op == HTC_KV_GET ? htc__kv_flight_guess(&r->flight, q->key) : q->value.len;
    r->list[r->n++] = (in_work){ face, conn, slot, bytes, q->op };
    htc__kv_flight_enter(&r->flight, bytes);
    r->most = r->n > r->most ? r->n : r->most;
    r->most_long = r->flight.long_bytes > r->most_long ? r->flight.long_bytes : r->most_long;
    r->asked++;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    return 0;
}

static int full(void *ctx, size_t bytes)
{
    return htc__kv_flight_full(&((rig *)ctx)->flight, bytes);
}

static int busy(void *ctx)
{
    return full(ctx, 0);
}

static size_t read_bytes(void *ctx, htc_bytes key)
{
    return htc__kv_flight_guess(&((rig *)ctx)->flight, key);
}

static void collect(rig *r)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_BYTES) {
            htc_put_raw(&r->said[e.peer], e.body);
            r->tag[e.peer] = e.tag ? e.tag : r->tag[e.peer];
        } else if (e.kind == HTC_OUT_HOLD) {
            r->held[e.peer] = e.op == 1;
        } else {
            r->closed[e.peer] = 1;
        }
    }
    htc_output_clear(r->out);
}

static void input(rig *r, uint32_t kind, uint32_t peer, htc_bytes body, uint64_t tag)
{
    htc_input in = { .size = sizeof in, .now = r->now, .wall = HTC_SECOND, .kind = kind, .peer = peer, .tag = tag, .body = body };
    cr_assert(htc__resp_input(r->f, &in, r->out) == HTC_OK);
    collect(r);
}

static void flush(rig *r)
{
    cr_assert(htc__resp_flush(r->f, r->now, r->now, r->out) == HTC_OK);
    collect(r);
}

/* The end of a turn; all that was sent has been read. */
static void turn(rig *r)
{
    flush(r);
    for (uint32_t p = 0; p < PEERS; p++) {
        uint64_t tag = r->tag[p];
        r->tag[p] = 0;
        if (tag)
            input(r, HTC_IN_SENT, p, (htc_bytes){ NULL, 0 }, tag);
    }
}

/* What is in work now is answered, in the order it was asked. */
static void answer(rig *r)
{
    in_work list[IN_WORK];
    size_t  n = r->n;
    memcpy(list, r->list, n * sizeof *list);
    r->n = 0;
    for (size_t i = 0; i < n; i++) {
        htc_kv_result a = { .size = sizeof a, .op = list[i].op };
        htc__kv_flight_leave(&r->flight, list[i].bytes);
        list[i].face->answer(list[i].face->ctx, list[i].conn, list[i].slot, &a);
        r->answered++;
    }
}

/* Until nobody has anything left to ask for. */
static void finish(rig *r)
{
    for (int idle = 0; idle < 4; idle++) {
        idle = r->n > 0 || htc__resp_more(r->f) ? 0 : idle;
        answer(r);
        turn(r);
    }
}

static void rig_make(rig *r, uint32_t in_work_max, htc__resp_options o)
{
    htc__kv_backend   b = { .ask = later, .busy = busy, .full = full, .read = read_bytes, .ctx = r };
    memset(r, 0, sizeof *r);
    r->env = (htc_env){ .size = sizeof r->env };
    r->flight.count_max = in_work_max;
    r->now = HTC_SECOND;
    for (int i = 0; i < PEERS; i++)
        htc_buf_init(&r->said[i], NULL, 0);
    cr_assert(htc_output_create(NULL, 0, &r->out) == HTC_OK && htc__resp_create(&r->env, &o, b, &r->f) == HTC_OK);
    for (uint32_t p = 1; p < PEERS; p++)
        input(r, HTC_IN_OPENED, p, (htc_bytes){ NULL, 0 }, 0);
}

static void rig_free(rig *r)
{
    htc__resp_destroy(r->f);
    htc_output_destroy(r->out);
    for (int i = 0; i < PEERS; i++)
        htc_buf_free(&r->said[i]);
}

static int was_told(const rig *r, uint32_t peer, const char *text)
{
    return htc_bytes_equal(htc_buf_bytes(&r->said[peer]), htc_bytes_of(text));
}

/* As a driver hands them over: 64 KiB at a time, while it reads. */
static size_t hand_over(rig *r, uint32_t peer, const htc_buf *wire, size_t at)
{
    size_t n = wire->len - at < 65536 ? wire->len - at : 65536;
    if (n && !r->held[peer])
        input(r, HTC_IN_BYTES, peer, (htc_bytes){ wire->data + at, n }, 0);
    return n && !r->held[peer] ? at + n : at;
}

static void many_keys(htc_buf *b, const char *name, int n, const char *value)
{
    htc_put_text(b, "*%d\r\n$%zu\r\n%s\r\n", 1 + n * (value ? 2 : 1), strlen(name), name);
    for (int i = 0; i < n; i++) {
        htc_put_text(b, "$6\r\n%06d\r\n", i);
        if (value)
            htc_put_text(b, "$%zu\r\n%s\r\n", strlen(value), value);
    }
}

/* One command of 100,000 keys is worked in slices: somebody else's is asked for in the next turn. */
static void slices(const char *name, const char *value, const char *told)
{
    rig     r;
    htc_buf wire;
    size_t  at = 0;
    htc_buf_init(&wire, NULL, 0);
    rig_make(&r, 80, (htc__resp_options){ 0 });
    many_keys(&wire, name, 100000, value);
    while (at < wire.len) {
        at = hand_over(&r, 1, &wire, at);
        turn(&r);
    }
    for (int i = 0; i < 5; i++) {
        answer(&r);
        turn(&r);
    }
    uint64_t before = r.asked;
    input(&r, HTC_IN_BYTES, 2, htc_bytes_of("SET a b\r\n"), 0);
    turn(&r);
    answer(&r);
    turn(&r);
    answer(&r);
    turn(&r);
    cr_expect(was_told(&r, 2, "+OK\r\n"), "%s: another one waits behind it: %lu asked meanwhile", name, r.asked - before);
    while (r.said[1].len == 0) {
        cr_assert(r.n > 0 || htc__resp_more(r.f), "%s goes on", name);
        answer(&r);
        turn(&r);
    }
    cr_expect(was_told(&r, 1, told) && r.asked == 100001 && r.most <= 80, "%s: %.*s", name, (int)r.said[1].len, (char *)r.said[1].data);
    htc_buf_free(&wire);
    rig_free(&r);
}

Test(flow, a_command_of_many_keys_is_worked_in_slices)
{
    slices("MSET", "v", "+OK\r\n");
    slices("DEL", NULL, ":100000\r\n");
    slices("EXISTS", NULL, ":100000\r\n");
}

/* Whoever comes waits for everybody's share of a turn, not for all that they have asked for. */
Test(flow, a_newcomer_waits_for_a_share_of_each)
{
    rig     r;
    htc_buf wire;
    rig_make(&r, 80, (htc__resp_options){ 0 });
    htc_buf_init(&wire, NULL, 0);
    for (int i = 0; i < 2000; i++)
        htc_put_text(&wire, "SET k v\r\n");
    for (uint32_t p = 1; p <= 50; p++) {
        hand_over(&r, p, &wire, 0);
        turn(&r);
    }
    input(&r, HTC_IN_BYTES, 60, htc_bytes_of("SET a b\r\n"), 0);
    uint64_t before = r.answered;
    while (r.said[60].len == 0) {
        turn(&r);
        answer(&r);
    }
    cr_expect(r.answered - before <= 52 * 64 + 80, "%lu were answered before", r.answered - before);
    finish(&r);
    cr_expect(r.asked == 50 * 2000 + 1, "all are answered: %lu", r.asked);
    for (uint32_t p = 1; p <= 50; p++)
        cr_expect(r.said[p].len == 2000 * 5 && !r.held[p] && !r.closed[p], "peer %u: %zu bytes, held %d, closed %d", p, r.said[p].len, r.held[p], r.closed[p]);
    htc_buf_free(&wire);
    rig_free(&r);
}

/* Long values wait for each other, and nobody waits for them. */
Test(flow, short_requests_pass_long_ones)
{
    enum { WRITERS = 10, LENGTH = 5 << 20 };
    rig     r;
    htc_buf wire;
    size_t  at[WRITERS + 1] = { 0 };
    rig_make(&r, 80, (htc__resp_options){ 0 });
    htc_buf_init(&wire, NULL, (size_t)64 << 20);
    htc_put_text(&wire, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", LENGTH);
    memset(htc_buf_extend(&wire, LENGTH), 'x', LENGTH);
    htc_put_text(&wire, "\r\n");
    for (int going = 1; going;) {
        going = 0;
        for (uint32_t p = 1; p <= WRITERS; p++) {
            at[p] = hand_over(&r, p, &wire, at[p]);
            going |= at[p] < wire.len;
        }
        turn(&r);
    }
    size_t in = r.n;
    cr_expect(in == HTC__KV_FLIGHT_LONG / LENGTH && r.most_long <= HTC__KV_FLIGHT_LONG, "%zu are in work", in);
    input(&r, HTC_IN_BYTES, 60, htc_bytes_of("SET a b\r\n"), 0);
    cr_expect(r.n == in + 1, "a short one is let in");
    finish(&r);
    for (uint32_t p = 1; p <= WRITERS; p++)
        cr_expect(was_told(&r, p, "+OK\r\n"), "no writer is refused");
    htc_buf_free(&wire);
    rig_free(&r);
}

/* So do reads of keys that are known to be long. */
Test(flow, short_reads_pass_long_ones)
{
    rig r;
    rig_make(&r, 80, (htc__resp_options){ 0 });
    htc__kv_flight_asked(&r.flight, htc_bytes_of("long"), HTC_KV_VALUE_MAX);
    for (uint32_t p = 1; p <= 3; p++) {
        input(&r, HTC_IN_BYTES, p, htc_bytes_of("MGET long\r\nGET long\r\n"), 0);
        turn(&r);
    }
    cr_expect(r.n == 1 && r.flight.long_bytes == HTC_KV_VALUE_MAX, "%zu are in work, %zu bytes", r.n, r.flight.long_bytes);
    input(&r, HTC_IN_BYTES, 60, htc_bytes_of("GET a\r\nMGET a b\r\n"), 0);
    turn(&r);
    cr_expect(r.n == 4, "%zu: a short one is let in", r.n);
    finish(&r);
    for (uint32_t p = 1; p <= 3; p++)
        cr_expect(was_told(&r, p, "*1\r\n$0\r\n\r\n$0\r\n\r\n"), "all are answered: %.*s", (int)r.said[p].len, (char *)r.said[p].data);
    rig_free(&r);
}

/* ---------------------------------------------------------------- who does not finish, who does not read */

static int closed_count(const rig *r)
{
    int n = 0;
    for (int i = 0; i < PEERS; i++)
        n += r->closed[i];
    return n;
}

/* Half of a request, and nothing more. */
static void begin(rig *r, uint32_t peer, size_t half)
{
    htc_buf wire;
    htc_buf_init(&wire, NULL, 0);
    htc_put_text(&wire, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", 2 * half);
    memset(htc_buf_extend(&wire, half), 'x', half);
    for (size_t at = 0, next; at < wire.len && !r->closed[peer]; at = next) {
        next = hand_over(r, peer, &wire, at);
        cr_assert(next > at, "it is read");
    }
    flush(r);
    htc_buf_free(&wire);
}

/* Those who hold halves of requests are ended for one who comes with a whole one, who has held them for longest first. */
Test(flow, whoever_does_not_finish_is_ended_and_not_who_comes)
{
    rig     r;
    htc_buf wire;
    rig_make(&r, 80, (htc__resp_options){ .input_max = 10 << 20 });
    for (uint32_t p = 1; p <= 10; p++) {
        r.now += HTC_SECOND;
        begin(&r, p, (1 << 20) - 200);
    }
    cr_expect(closed_count(&r) == 0, "as much as there is room for");
    htc_buf_init(&wire, NULL, 0);
    htc_put_text(&wire, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", 1 << 20);
    memset(htc_buf_extend(&wire, 1 << 20), 'x', 1 << 20);
    htc_put_text(&wire, "\r\n");
    for (size_t at = 0; at < wire.len;) {
        at = hand_over(&r, 20, &wire, at);
        flush(&r);
    }
    finish(&r);
    cr_expect(was_told(&r, 20, "+OK\r\n") && !r.closed[20], "who comes is served");
    cr_expect(closed_count(&r) == 1 && r.closed[1], "who has held most for longest is ended: %d are", closed_count(&r));
    htc_buf_free(&wire);
    rig_free(&r);
}

/* Long answers that nobody takes are bounded in all. Who wants a short one is not kept waiting, and who has taken theirs makes room. */
Test(flow, unread_answers_are_bounded)
{
    enum { READERS = 30, LENGTH = 1 << 20, MOST = 8 << 20 };
    rig      r;
    uint8_t *value = calloc(1, LENGTH);
    rig_make(&r, 80, (htc__resp_options){ .output_all = MOST });
    r.value = (htc_bytes){ value, LENGTH };
    for (uint32_t p = 1; p <= READERS; p++)
        input(&r, HTC_IN_BYTES, p, htc_bytes_of("GET long\r\n"), 0);
    flush(&r);
    size_t sent = 0;
    for (uint32_t p = 1; p <= READERS; p++)
        sent += r.said[p].len;
    cr_expect(sent <= MOST && sent > MOST - 2 * LENGTH, "%zu bytes", sent);
    input(&r, HTC_IN_BYTES, 40, htc_bytes_of("GET s\r\n"), 0);
    flush(&r);
    cr_expect(r.said[40].len == 7, "a short one is answered");
    for (uint32_t p = 1; p <= 3; p++) /* some are ended by their host */
        input(&r, HTC_IN_CLOSED, p, (htc_bytes){ NULL, 0 }, 0);
    r.tag[1] = r.tag[2] = r.tag[3] = 0;
    for (int i = 0; i < READERS; i++)
        turn(&r);
    for (uint32_t p = 4; p <= READERS; p++)
        cr_expect(r.said[p].len == LENGTH + 12 && !r.held[p] && !r.closed[p], "reader %u: %zu", p, r.said[p].len);
    rig_free(&r);
    free(value);
}
