/* What a client does with HTC_AGAIN, the answer to a change that no owner has tried: sent once, it is sent anew as if for the first
 * time; sent more often, its outcome is unknown. The server here says what comes to its mind, and remembers. */
#include "kvs/wire/kv_wire.h"
#include "property.h"

#define PEER 7u
#define OPS  40

typedef struct operation {
    uint64_t sequence, since; /* of its newest transmission; sequence 0: never sent */
    uint64_t floor;           /* the clock when it was last told to come anew */
    uint32_t sent;            /* transmissions since then that may have executed it, for all that its client knows */
    uint32_t answer;          /* htc_status + 1 of the answer that counts; 0: none */
    uint32_t told;
} operation;

typedef struct world {
    htc_rng       *rng;
    htc_kv_client *client;
    htc_output    *out;
    size_t         seen; /* effects of it */
    htc_buf        message;
    htc_ns         now;
    uint64_t       clock;
    operation      op[OPS];
    uint32_t       given, anew, unknown, told;
} world;

static void step(world *w, htc_input_kind kind, htc_bytes body)
{
    htc_input in = { .size = sizeof in, .kind = kind, .peer = PEER, .now = w->now, .body = body };
    HOLDS(htc_kv_client_step(w->client, &in, w->out) == HTC_OK);
}

static world world_of(htc_rng *rng, const htc_env *env)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = 1, .peer = PEER, .retry_ns = HTC_MS };
    world                 w = { .rng = rng, .clock = 10 };
    htc_buf_init(&w.message, NULL, 0);
    HOLDS(htc_output_create(env, 0, &w.out) == HTC_OK && htc_kv_client_create(env, &o, &w.client) == HTC_OK);
    step(&w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
    return w;
}

static void world_end(world *w)
{
    htc_kv_client_destroy(w->client);
    htc_output_destroy(w->out);
    htc_buf_free(&w->message);
}

/* What the client said next; 0: nothing more. */
static int hear(world *w, uint16_t *type, uint64_t *id, htc_reader *r)
{
    htc_effect e;
    if (w->seen == htc_output_count(w->out)) {
        htc_output_clear(w->out);
        w->seen = 0;
        return 0;
    }
    HOLDS(htc_output_get(w->out, w->seen++, &e) == HTC_OK && e.kind == HTC_OUT_MESSAGE);
    htc_buf_clear(&w->message);
    htc_put_raw(&w->message, e.body);
    *r = htc_wire_open(htc_buf_bytes(&w->message), type, id);
    return 1;
}

static void say(world *w, htc_buf *b)
{
    HOLDS(b->status == HTC_OK);
    step(w, HTC_IN_MESSAGE, htc_buf_bytes(b));
}

/* One transmission: each operation of it is done, or to come anew, or the rest of them is "not executed". */
static void serve(world *w, uint64_t serial, htc_reader r, htc_buf *b)
{
    htc__kv_head head;
    htc__kv_head_read(&r, &head);
    size_t keep = head.count, done = 0;
    if (htc_rng_below(w->rng, 4) == 0)
        keep = htc_rng_below(w->rng, head.count + 1);
    int lost = htc_rng_below(w->rng, 6) == 0; /* this one, or its answer */
    htc_status say_of[OPS];
    operation *of[OPS];
    for (; done < head.count; done++) {
        htc_kv_request q = { .size = sizeof q };
        htc__kv_op_read(&r, &q);
        HOLDS(r.status == HTC_OK && q.value.len == 1);
        operation *o = of[done] = &w->op[*(const uint8_t *)q.value.data];
        uint64_t   sequence = head.sequence + done;
        HOLDS(!o->answer && "sent after its answer");
        HOLDS((!o->sequence || o->sequence == sequence) && "it keeps its number");
        HOLDS(((head.flags & HTC__KV_REPEATED) != 0) == (o->sent > 0) && "said to be repeated if it may have been executed");
        HOLDS((o->sent == 0 || o->since == head.since) && "a repetition says what the first one said");
        HOLDS(head.since >= o->floor && "anew with what is known now");
        o->sequence = sequence;
        o->since = head.since;
        o->sent += done < keep || lost;
        say_of[done] = htc_rng_below(w->rng, 3) ? HTC_OK : HTC_AGAIN;
    }
    w->clock += htc_rng_below(w->rng, 100);
    htc__kv_answer_begin(b, serial, &(htc__kv_answer_head){ .clock = w->clock, .session = 1 });
    for (size_t i = 0; i < keep; i++)
        htc__kv_result_write(b, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = say_of[i], .version = w->clock });
    htc__kv_answer_end(b, (uint32_t)keep, 0);
    if (lost)
        return;
    for (size_t i = 0; i < keep; i++) {
        if (say_of[i] == HTC_AGAIN && of[i]->sent == 1) {
            of[i]->floor = w->clock;
            of[i]->sent = 0;
            w->anew++;
        } else {
            of[i]->answer = 1u + (say_of[i] == HTC_AGAIN ? (uint32_t)HTC_EUNKNOWN : (uint32_t)HTC_OK);
            w->unknown += say_of[i] == HTC_AGAIN;
        }
    }
    say(w, b);
}

static void serve_all(world *w)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r;
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    while (hear(w, &type, &id, &r)) {
        if (type == HTC_WIRE_HELLO) {
            htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
            say(w, &b);
        } else {
            serve(w, id, r, &b);
        }
    }
    htc_buf_free(&b);
}

static void read_answers(world *w)
{
    htc_kv_result r = { .size = sizeof r };
    while (htc_kv_client_next(w->client, &r)) {
        operation *o = &w->op[r.tag + r.index];
        HOLDS(!o->told++ && o->answer && r.op == HTC_KV_PUT);
        HOLDS((uint32_t)r.status == o->answer - 1);
        w->told++;
    }
}

/* A few at once, of few keys: many wait for each other. */
static void submit_some(world *w)
{
    htc_kv_request q[8];
    char           key[8][8];
    uint8_t        number[8];
    size_t         n = 1 + htc_rng_below(w->rng, 8);
    n = n < OPS - w->given ? n : OPS - w->given;
    for (size_t i = 0; i < n; i++) {
        snprintf(key[i], sizeof key[i], "k%u", (unsigned)htc_rng_below(w->rng, 12));
        number[i] = (uint8_t)(w->given + i);
        q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of(key[i]), .value = { &number[i], 1 } };
    }
    if (n)
        HOLDS(htc_kv_client_submit(w->client, w->now, q, n, w->given, w->out) == HTC_OK);
    w->given += (uint32_t)n;
}

Test(kvs_anew, once_sent_is_sent_anew_and_twice_is_unknown)
{
    uint32_t anew = 0, unknown = 0;
    PROPERTY_ALL(rng, 1000)
    {
        htc_env env = { .size = sizeof env, .rng = &rng };
        world   w = world_of(&rng, &env);
        for (int i = 0; i < 100000 && w.told < OPS; i++) {
            submit_some(&w);
            serve_all(&w);
            read_answers(&w);
            w.now += htc_rng_below(&rng, HTC_MS);
            step(&w, HTC_IN_TIMEOUT, (htc_bytes){ NULL, 0 });
        }
        HOLDS(w.told == OPS && htc_kv_client_pending(w.client) == 0);
        anew += w.anew;
        unknown += w.unknown;
        world_end(&w);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(anew > 1000 && unknown > 100, "%u anew, %u unknown", anew, unknown);
}

/* It is not asked for without end. */
Test(kvs_anew, ends_after_a_while)
{
    htc_rng        rng = { 1 };
    htc_env        env = { .size = sizeof env, .rng = &rng };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc_bytes_of("a") };
    world          w = world_of(&rng, &env);
    htc_kv_result  result = { .size = sizeof result };
    uint16_t       type;
    uint64_t       id;
    htc_reader     r;
    htc_buf        b;
    int            asked = 0;
    htc_buf_init(&b, NULL, 0);
    cr_assert(htc_kv_client_submit(w.client, 0, &q, 1, 0, w.out) == HTC_OK);
    while (hear(&w, &type, &id, &r)) {
        htc__kv_head head = { 0 };
        if (type == HTC_WIRE_HELLO) {
            htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
        } else {
            htc__kv_head_read(&r, &head);
            cr_expect(head.flags == 0);
            htc__kv_answer_begin(&b, id, &(htc__kv_answer_head){ .clock = 1, .session = 1 });
            for (size_t i = 0; i < head.count; i++, asked++)
                htc__kv_result_write(&b, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_AGAIN });
            htc__kv_answer_end(&b, (uint32_t)head.count, 0);
        }
        say(&w, &b);
    }
    cr_expect(asked > 1 && asked < 100);
    cr_assert(htc_kv_client_next(w.client, &result));
    cr_expect(result.status == HTC_EUNKNOWN && result.last);
    htc_buf_free(&b);
    world_end(&w);
}

static uint32_t lines;
static char     newest[300];

static void keep_line(void *ctx, uint32_t level, const char *line)
{
    (void)ctx, (void)level;
    lines++;
    snprintf(newest, sizeof newest, "%s", line);
}

/* Its door is there and nobody behind it, as while a store starts: so the host is turned away 50 times a second. */
static void turned_away(world *w, htc_status why)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r;
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    while (hear(w, &type, &id, &r))
        if (type == HTC_WIRE_HELLO) {
            htc_wire_error(&b, id, why, "");
            say(w, &b);
        }
    htc_buf_free(&b);
    step(w, HTC_IN_CLOSED, (htc_bytes){ NULL, 0 });
    w->now += 20 * HTC_MS;
    step(w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
}

Test(kvs_anew, what_a_store_refuses_with_again_and_again_is_said_at_growing_intervals)
{
    htc_log        log = { .write = keep_line, .level = HTC_LOG_WARN };
    htc_rng        rng = { 1 };
    htc_env        env = { .size = sizeof env, .rng = &rng, .log = &log };
    world          w = world_of(&rng, &env);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc_bytes_of("a") };
    for (int i = 0; i < 3000; i++) /* a minute */
        turned_away(&w, HTC_EUNREACHABLE);
    cr_expect(eq(u32, lines, 6), "%u lines", lines); /* at 0, 1, 3, 7, 15, 31 s */
    cr_expect(strstr(newest, "store says: ") && strstr(newest, "(it has said so 799 more times)"), "%s", newest);
    turned_away(&w, HTC_EVERSION);
    cr_expect(eq(u32, lines, 7), "something else is said at once");
    cr_assert(htc_kv_client_submit(w.client, w.now, &q, 1, 0, w.out) == HTC_OK);
    uint16_t   type;
    uint64_t   id;
    htc_reader r;
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    while (hear(&w, &type, &id, &r)) {
        if (type == HTC_WIRE_HELLO) {
            htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
        } else {
            htc__kv_answer_begin(&b, id, &(htc__kv_answer_head){ .clock = 1, .session = 1 });
            htc__kv_answer_end(&b, 0, 0);
        }
        say(&w, &b);
        if (type != HTC_WIRE_HELLO)
            break;
    }
    htc_buf_free(&b);
    step(&w, HTC_IN_CLOSED, (htc_bytes){ NULL, 0 });
    step(&w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
    turned_away(&w, HTC_EVERSION);
    cr_expect(eq(u32, lines, 8), "after an answer it is news again");
    world_end(&w);
}
