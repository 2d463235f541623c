/* Two members of three, and a third that says anything: items of its own, items that it was told said back with other bytes, and messages that
 * are none. The input is a list of pieces: u8 what, u16 length, bytes. Whatever comes, no step of the two fails, what leaves has its form, one
 * commit at most is in flight, and what they hold in memory stays bounded. */
#include "check.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/peer/members.h"
#include "kvs/wire/watch_wire.h"

enum { TO_THIRD = 100, TO_OTHER, DIALLED, FROM_THIRD = 1000, FROM_OTHER, USER = 2000 };

#define THIRD        33u
#define MEMORY       ((size_t)48 << 20)
#define PACKETS_MAX  4000 /* carried between the two for one piece; more are lost */
#define AGAIN        32   /* times, where a piece says so */

typedef struct packet {
    struct packet *next;
    htc_input      in;
    int            to;
    uint8_t        bytes[];
} packet;

typedef struct member {
    htc_kv_engine  engine;
    htc_kv_server *s;
    htc_output    *out;
    htc_buf        commit;
    uint64_t       tag, session, serial, heard; /* of the commit in flight, 0: none; of the user's conversation; of the third's messages */
    uint32_t       dialled;
} member;

typedef struct world {
    htc_rng   rng;
    htc_env   env;
    htc_alloc alloc;
    size_t    used;
    htc_ns    now;
    member    m[2];
    packet   *first, **last;
    int       stalled, fails; /* disks; the next commits fail */
    htc_buf   message, item, said[256]; /* what the third was told last, by kind */
} world;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    world *w = ctx;
    w->used += new_size - old_size;
    if (new_size)
        return realloc(p, new_size);
    free(p);
    return NULL;
}

static void push(world *w, int to, htc_input in)
{
    packet *p = malloc(sizeof *p + in.body.len);
    CHECK(p);
    *p = (packet){ .in = in, .to = to };
    if (in.body.len)
        memcpy(p->bytes, in.body.data, in.body.len);
    p->in.body.data = p->bytes;
    *w->last = p;
    w->last = &p->next;
}

static void say(world *w, int to, uint32_t peer, htc_bytes body)
{
    push(w, to, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = peer, .body = body });
}

static void open_connection(world *w, int to, uint32_t peer)
{
    htc_buf info;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    push(w, to, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&info) });
    htc_buf_free(&info);
}

static void greet(world *w, int to, uint32_t peer, uint8_t role)
{
    open_connection(w, to, peer);
    htc_wire_hello(&w->message, role, HTC_WIRE_VERSION);
    say(w, to, peer, htc_buf_bytes(&w->message));
}

static void greet_as_user(world *w, int to)
{
    member *m = &w->m[to];
    m->serial = 1;
    greet(w, to, USER, HTC_WIRE_ROLE_STORE_CLIENT);
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, m->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .client = 7 });
    say(w, to, USER, htc_buf_bytes(&w->message));
}

static void note_what_is_said(world *w, htc_reader r)
{
    uint8_t   kind;
    htc_bytes item;
    (void)htc_get_u64(&r);
    (void)htc_get_u64(&r);
    while (htc__kv_members_next(&r, &kind, &item)) {
        htc_buf_clear(&w->said[kind]);
        htc_put_raw(&w->said[kind], item);
    }
    CHECK(r.status == HTC_OK);
}

static void carry(world *w, int from, const htc_effect *e)
{
    uint16_t            type;
    uint64_t            id;
    htc__kv_answer_head head;
    htc_reader          r = htc_wire_open(e->body, &type, &id);
    CHECK(r.status == HTC_OK && e->body.len <= HTC_WIRE_MESSAGE_MAX);
    if (e->peer == TO_OTHER || e->peer == FROM_OTHER)
        say(w, !from, e->peer == TO_OTHER ? FROM_OTHER : TO_OTHER, e->body);
    else if (type == HTC_WIRE_KV_MEMBERS)
        note_what_is_said(w, r);
    if (e->peer != USER || type != HTC_WIRE_KV_ANSWER)
        return;
    htc__kv_answer_read(&r, &head);
    w->m[from].session = head.session;
}

/* Whoever was turned out comes again. */
static void closed(world *w, int by, uint32_t peer)
{
    push(w, by, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = peer });
    if (peer == FROM_THIRD) {
        w->m[by].heard = 0;
        greet(w, by, peer, HTC_WIRE_ROLE_STORE_MEMBER);
    } else if (peer == USER) {
        greet_as_user(w, by);
    }
}

static void step(world *w, int at, htc_input in)
{
    member    *m = &w->m[at];
    htc_effect e;
    in.now = w->now;
    htc_output_clear(m->out);
    CHECK(htc_kv_server_ops()->step(m->s, &in, m->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(m->out, i, &e) == HTC_OK; i++) {
        CHECK(e.kind != HTC_OUT_STOP);
        if (e.kind == HTC_OUT_MESSAGE) {
            carry(w, at, &e);
        } else if (e.kind == HTC_OUT_CLOSE) {
            closed(w, at, e.peer);
        } else if (e.kind == HTC_OUT_COMMIT) {
            CHECK(m->tag == 0);
            m->tag = e.tag;
            htc_buf_clear(&m->commit);
            htc_put_raw(&m->commit, e.body);
        } else if (e.kind == HTC_OUT_CALL && e.op == HTC_KV_SERVER_DIAL) {
            uint8_t number[4] = { (uint8_t)(DIALLED + m->dialled++ % 64) };
            push(w, at, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = e.op, .tag = e.tag, .body = { number, sizeof number } });
        }
    }
}

static int store(world *w)
{
    int any = 0;
    for (int i = 0; i < 2; i++) {
        member  *m = &w->m[i];
        uint64_t tag = m->tag;
        if (!tag || w->stalled)
            continue;
        any = 1;
        m->tag = 0;
        htc_status status = w->fails ? HTC_ENOSPC : HTC_OK;
        w->fails -= w->fails > 0;
        if (status == HTC_OK)
            CHECK(m->engine.ops->apply(m->engine.ctx, htc_buf_bytes(&m->commit)) == HTC_OK);
        step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = status });
    }
    return any;
}

static void settle(world *w)
{
    int carried = 0;
    do {
        for (packet *p; (p = w->first); carried++) {
            if (!(w->first = p->next))
                w->last = &w->first;
            if (carried < PACKETS_MAX || p->in.kind != HTC_IN_MESSAGE)
                step(w, p->to, p->in);
            free(p);
        }
    } while (store(w));
    CHECK(w->used <= MEMORY);
}

/* ---------------------------------------------------------------- pieces */

static void begin(world *w, int to)
{
    htc__kv_members_begin(&w->message, ++w->m[to].heard, THIRD, to ? 22 : 11);
}

static void say_item(world *w, int to, uint8_t kind, htc_bytes item, int times, uint32_t at)
{
    for (int i = 0; i < times; i++) {
        htc_buf_clear(&w->item);
        htc_put_raw(&w->item, item);
        if (at + 8 <= w->item.len) /* another one each time, in some number of it */
            w->item.data[at] = (uint8_t)(w->item.data[at] + i);
        begin(w, to);
        htc_put_u8(&w->message, kind);
        htc_put_bytes(&w->message, htc_buf_bytes(&w->item));
        say(w, to, FROM_THIRD, htc_buf_bytes(&w->message));
    }
}

/* What it was told, said back: the first bytes of it and others behind them, or all of it with others in the middle. */
static void say_back(world *w, int to, htc_bytes bytes, int keep, int times)
{
    htc_reader r = htc_reader_of(bytes);
    uint8_t    told = htc_get_u8(&r), kind = htc_get_u8(&r);
    size_t     n = htc_get_u8(&r), more = htc_reader_left(&r);
    if (r.status != HTC_OK)
        return;
    htc_bytes said = htc_buf_bytes(&w->said[told]);
    htc_buf   b;
    htc_buf_init(&b, NULL, 0);
    n = n < said.len ? n : said.len;
    htc_put_raw(&b, (htc_bytes){ said.data, n });
    htc_put_raw(&b, htc_get_raw(&r, more));
    if (keep && b.len < said.len)
        htc_put_raw(&b, (htc_bytes){ (const uint8_t *)said.data + b.len, said.len - b.len });
    say_item(w, to, kind, htc_buf_bytes(&b), times, 0);
    htc_buf_free(&b);
}

static void ask(world *w, int to, htc_bytes op)
{
    member *m = &w->m[to];
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++m->serial);
    htc__kv_head_write(&w->message,
                       &(htc__kv_head){ .session = m->session, .client = 7, .since = 1, .sequence = m->serial * 4, .count = 1 });
    htc_put_raw(&w->message, op);
    say(w, to, USER, htc_buf_bytes(&w->message));
}

static void pass_time(world *w, htc_ns ns)
{
    w->now += ns;
    for (int i = 0; i < 2; i++)
        push(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

static void play(world *w, uint8_t what, htc_bytes bytes)
{
    const uint8_t *d = bytes.data;
    int            to = what >> 4 & 1, times = what & 32 ? AGAIN : 1;
    switch (what & 15) {
    case 0:
        begin(w, to);
        htc_put_raw(&w->message, bytes);
        say(w, to, FROM_THIRD, htc_buf_bytes(&w->message));
        break;
    case 1:
        if (bytes.len)
            say_item(w, to, d[0], (htc_bytes){ d + 1, bytes.len - 1 }, times, 8u * (what >> 6));
        break;
    case 2:
        say(w, to, FROM_THIRD, bytes);
        break;
    case 3:
    case 4:
        say_back(w, to, bytes, what & 4, times);
        break;
    case 5:
        ask(w, to, bytes);
        break;
    case 6:
        htc__kv_watch_begin(&w->message, ++w->m[to].serial, w->m[to].session, 0, 0);
        htc_put_raw(&w->message, bytes);
        say(w, to, USER, htc_buf_bytes(&w->message));
        break;
    case 7:
        pass_time(w, (bytes.len ? d[0] : 1) * 5 * HTC_MS);
        break;
    case 8:
        w->stalled = bytes.len ? d[0] & 1 : 0;
        w->fails = bytes.len ? d[0] >> 1 & 3 : 0;
        break;
    case 9:
        closed(w, to, FROM_THIRD);
        break;
    case 10:
        push(w, to, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = TO_THIRD });
        open_connection(w, to, TO_THIRD);
        break;
    case 11: /* on the connection to it, where only strangers are told something */
        say(w, to, TO_THIRD, bytes);
        break;
    default:
        break;
    }
    settle(w);
}

/* ---------------------------------------------------------------- life */

static void start(world *w, int at)
{
    htc_kv_namespace      space = { .size = sizeof space, .name = htc_bytes_of("e") };
    htc_kv_member         members[3] = { { .id = 11 }, { .id = 22 }, { .id = THIRD, .peer = TO_THIRD } };
    htc_kv_server_options o = { .size = sizeof o,
                                .self = at ? 22 : 11,
                                .members = members,
                                .member_count = 3,
                                .owners = 3,
                                .bits = 2,
                                .suspect_ns = 40 * HTC_MS,
                                .request_ns = 2 * HTC_SECOND,
                                .member_retry_ns = 4 * HTC_MS,
                                .compare_ns = 10 * HTC_MS,
                                .deleted_ns = 1,
                                .tombstones_max = 1,
                                .watches_max = 16,
                                .watch_marks_max = 4,
                                .namespaces = &space,
                                .namespace_count = 1 };
    member               *m = &w->m[at];
    members[at].peer = 0;
    members[!at].peer = TO_OTHER;
    htc_buf_init(&m->commit, NULL, 0);
    CHECK(htc_kv_memory_create(&w->env, &m->engine) == HTC_OK && htc_output_create(NULL, 0, &m->out) == HTC_OK);
    o.engine = m->engine;
    CHECK(htc_kv_server_create(&w->env, &o, &m->s) == HTC_OK);
    push(w, at, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
}

static void end(world *w)
{
    for (packet *p; (p = w->first); free(p))
        w->first = p->next;
    for (int i = 0; i < 2; i++) {
        htc_kv_server_destroy(w->m[i].s);
        w->m[i].engine.ops->destroy(w->m[i].engine.ctx);
        htc_output_destroy(w->m[i].out);
        htc_buf_free(&w->m[i].commit);
    }
    for (int i = 0; i < 256; i++)
        htc_buf_free(&w->said[i]);
    htc_buf_free(&w->message);
    htc_buf_free(&w->item);
    CHECK(w->used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world w;
    htc_reader   r = htc_reader_of((htc_bytes){ data, size });
    memset(&w, 0, sizeof w);
    w.rng.state = 1;
    w.now = HTC_SECOND;
    w.last = &w.first;
    w.alloc = (htc_alloc){ .resize = resize, .ctx = &w };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng, .alloc = &w.alloc };
    for (int i = 0; i < 256; i++)
        htc_buf_init(&w.said[i], NULL, 0);
    htc_buf_init(&w.message, NULL, 0);
    htc_buf_init(&w.item, NULL, 0);
    for (int i = 0; i < 2; i++)
        start(&w, i);
    for (int i = 0; i < 2; i++) {
        open_connection(&w, i, FROM_OTHER);
        open_connection(&w, i, TO_OTHER);
        open_connection(&w, i, TO_THIRD);
        greet(&w, i, FROM_THIRD, HTC_WIRE_ROLE_STORE_MEMBER);
        greet_as_user(&w, i);
    }
    settle(&w);
    for (int i = 0; i < 2; i++) { /* it is heard: the others say more to it */
        begin(&w, i);
        say(&w, i, FROM_THIRD, htc_buf_bytes(&w.message));
    }
    settle(&w);
    while (htc_reader_left(&r) >= 3) {
        uint8_t what = htc_get_u8(&r);
        size_t  len = htc_get_u16(&r), left = htc_reader_left(&r);
        play(&w, what, htc_get_raw(&r, len < left ? len : left));
    }
    end(&w);
    return 0;
}
