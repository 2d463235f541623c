/* Connections of Redis' clients: what comes in, what goes out, who waits and why. */
#include "kvs/resp/resp.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "core/wire.h"
#include "kvs/resp/resp_private.h"
#include "kvs/wire/kv_wire.h"

#define OUT_MAX       ((size_t)48 << 20) /* of one connection: what can be said in one step */
#define FLUSH_MAX     ((size_t)8 << 20)  /* of all, in one step */
#define POOLED_MAX    ((size_t)64 << 10)
#define STRANGER_ARGS 10 /* of a request before AUTH, as Redis has it */
#define STRANGER_BULK 16384

/* --- connections --- */

static void input_free(htc__resp *f, htc__resp_conn *c)
{
    assert(f->input >= c->in.len);
    f->input -= c->in.len;
    htc_buf_free(&c->in);
    if (c->request) {
        htc__resp_request_free(c->request);
        htc__free(&f->env, c->request, sizeof *c->request);
        c->request = NULL;
    }
}

/* What it asks for next is executed behind what it has asked for. */
static void hurry(htc__resp *f, htc__resp_conn *c)
{
    if (c->alone && c->head != c->tail && f->backend.hurry)
        f->backend.hurry(f->backend.ctx, &f->face, c->id);
    c->alone = 0;
}

/* Memory of answers is for whoever speaks next: who is idle has none. */
static void output_free(htc__resp *f, htc__resp_conn *c)
{
    if (c->out.cap > 0 && c->out.cap <= POOLED_MAX && f->pool_count < sizeof f->pool / sizeof *f->pool) {
        htc_buf_clear(&c->out);
        f->pool[f->pool_count++] = c->out;
        htc_buf_init(&c->out, &f->env, OUT_MAX);
    } else {
        htc_buf_free(&c->out);
    }
    assert(f->output >= c->counted);
    htc__resp_count_output(f, c);
}

static void conn_free(htc__resp *f, htc__resp_conn *c)
{
    for (uint64_t i = c->head; i < c->tail; i++)
        htc__resp_slot_free(f, htc__resp_slot_of(c, i));
    htc__free(&f->env, c->slots, c->slots_cap * sizeof *c->slots);
    htc__resp_transaction_end(f, c);
    input_free(f, c);
    c->expected = 0;
    output_free(f, c);
    htc__free(&f->env, c->name, c->name_len);
    htc__free(&f->env, c, sizeof *c);
}

/* What it was sent last has left, or never will. */
static void left(htc__resp *f, htc__resp_conn *c)
{
    assert(f->output >= c->leaving);
    f->output -= c->leaving;
    c->leaving = 0;
    c->unsent = 0;
}

/* It is closed: freed now, or when the lists it stands in are next gone through. */
static void end(htc__resp *f, htc__resp_conn *c)
{
    hurry(f, c);
    left(f, c);
    htc__resp_conn_forget(f, c);
    htc__resp_jobs_forget(f, c->id);
    htc__resp_edits_forget(f, c->id);
    c->gone = 1;
    if (!c->dirty && !c->paused)
        conn_free(f, c);
}

void htc__resp_mark_dirty(htc__resp *f, htc__resp_conn *c)
{
    if (c->dirty)
        return;
    c->dirty = 1;
    c->next_dirty = NULL;
    *f->dirty_last = c;
    f->dirty_last = &c->next_dirty;
}

void htc__resp_break(htc__resp *f, htc__resp_conn *c)
{
    c->broken = 1;
    htc__resp_mark_dirty(f, c);
}

void htc__resp_kill(htc__resp *f, htc__resp_conn *c)
{
    c->killed = 1;
    htc__resp_break(f, c);
}

static void pause(htc__resp *f, htc__resp_conn *c)
{
    if (c->paused)
        return;
    c->paused = 1;
    c->next_paused = NULL;
    *f->paused_last = c;
    f->paused_last = &c->next_paused;
    htc__resp_mark_dirty(f, c);
}

static htc_status opened(htc__resp *f, uint32_t peer, htc_output *out)
{
    htc__resp_conn *c = htc__resp_find(f, peer);
    if (c)
        end(f, c);
    if (f->conns_count >= f->options.connections_max) {
        f->stats.refused++;
        htc__resp_tell(f, peer, HTC__RESP_NO_PLACE);
        htc_effect say = { .kind = HTC_OUT_BYTES,
                           .peer = peer,
                           .body = htc_bytes_of("-ERR max number of clients reached\r\n") };
        htc_effect shut = { .kind = HTC_OUT_CLOSE, .peer = peer, .status = HTC_EBUSY };
        htc_status status = htc_output_add(out, &say);
        return status == HTC_OK ? htc_output_add(out, &shut) : status;
    }
    c = htc__resp_conns_make_room(f) ? htc__alloc(&f->env, sizeof *c) : NULL;
    if (!c)
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = peer, .status = HTC_ENOMEM });
    c->id = ++f->serial << 32 | peer;
    c->opened = c->heard = f->now;
    c->proto = 2;
    c->authed = f->options.password.len == 0;
    htc_buf_init(&c->in, &f->env, f->options.request_max + HTC__RESP_INLINE_MAX * 2);
    htc_buf_init(&c->out, &f->env, OUT_MAX);
    htc__resp_conn_insert(f, c);
    f->conns_count++;
    f->stats.received++;
    return HTC_OK;
}

/* --- what comes in --- */

/* 1: done; 0: to be gone on with. */
static int execute(htc__resp_call *x, const htc__resp_command *command)
{
    uint32_t argc = x->r->argc;
    if (!command || x->r->by_line) {
        if (htc__resp_is_http(x))
            return htc__resp_end_http(x);
        if (!command) {
            htc__resp_transaction_failed(x->c);
            return htc__resp_unknown(x);
        }
    }
    if (command->arity > 0 ? argc != (uint32_t)command->arity : argc < (uint32_t)-command->arity) {
        htc__resp_transaction_failed(x->c);
        htc_buf *b = htc__resp_begin(x->f, x->c);
        htc__resp_raw(b, "-ERR wrong number of arguments for '");
        for (const char *p = command->name; *p; p++)
            htc_put_u8(b, (uint8_t)(*p + 32));
        htc__resp_raw(b, "' command\r\n");
        htc__resp_end(x->f, x->c);
        return 1;
    }
    if (!x->c->authed && !(command->flags & HTC__RESP_FREE))
        return htc__resp_error(x, "NOAUTH Authentication required.");
    x->c->command = command;
    if (x->c->tx && htc__resp_queues(x->c, command))
        return htc__resp_queue(x, command);
    if (!htc__resp_may_begin(x))
        return 0;
    int done = command->run(x) && !x->c->put_off;
    x->c->put_off = 0;
    htc__resp_count_output(x->f, x->c);
    return done;
}

/* Look at the requests that are there before the first of them is executed, and ask the memory for what they are about: one
 * after the other they would wait for it one by one. How many. */
static size_t look_ahead(htc__resp *f, const htc__resp_limits *limits, const uint8_t *p, size_t n)
{
    htc_bytes keys[HTC__RESP_AHEAD];
    size_t    count = 0, known = 0;
    for (size_t at = 0; count < HTC__RESP_AHEAD; count++) {
        htc__resp_ahead *a = &f->ahead[count];
        if (!(a->len = htc__resp_parse_few(&a->few, limits, p + at, n - at)))
            break;
        const htc__resp_place *name = a->few.args;
        a->command = htc__resp_command_find(f, (htc_bytes){ p + at + name->at, name->len });
        if (a->command && a->command->first == 1 && a->few.argc > 1) {
            const htc__resp_place *key = &a->few.args[1];
            keys[known++] = (htc_bytes){ p + at + key->at, key->len };
        }
        at += a->len;
    }
    if (known > 1 && f->backend.hint)
        f->backend.hint(f->backend.ctx, keys, known);
    return count;
}

/* Execute them; 0: the rest of them has to wait. */
static int run_ahead(htc__resp *f, htc__resp_conn *c, size_t count, const uint8_t *p, size_t n, size_t *at)
{
    for (size_t i = 0; i < count && !c->closing && !c->broken && c->authed; i++) {
        htc__resp_ahead *a = &f->ahead[i];
        htc__resp_call   x = { f, c, &f->view, p + *at, *at + a->len == n };
        f->view.argc = a->few.argc;
        f->view.args = a->few.args;
        if (!htc__resp_may_ask(f, c) || !execute(&x, a->command)) {
            if (!c->broken)
                pause(f, c);
            return 0;
        }
        f->stats.commands++;
        c->next_arg = 0;
        *at += a->len;
    }
    return 1;
}

/* Execute what is whole; how many bytes that were. */
static size_t run(htc__resp *f, htc__resp_conn *c, htc__resp_request *r, const uint8_t *p, size_t n)
{
    htc__resp_limits limits = { HTC__RESP_ARGS_MAX, f->options.request_max, f->options.request_max };
    htc__resp_limits stranger = { STRANGER_ARGS, STRANGER_BULK, STRANGER_ARGS * (STRANGER_BULK + 32) };
    size_t           at = 0;
    while (at < n && !c->closing && !c->broken) {
        size_t count = c->authed && r->at == 0 ? look_ahead(f, &limits, p + at, n - at) : 0;
        if (count > 0) {
            if (!run_ahead(f, c, count, p, n, &at))
                break;
            continue;
        }
        htc__resp_call x = { f, c, r, p + at, 0 };
        int            got = htc__resp_parse(r, c->authed ? &limits : &stranger, p + at, n - at);
        if (got == 0)
            break;
        if (got == -1)
            htc__resp_wrong(&x, r->wrong);
        if (got == -2)
            htc__resp_break(f, c);
        if (got < 0)
            break;
        x.last = at + r->at == n;
        if (r->argc > 0 &&
            (!htc__resp_may_ask(f, c) || !execute(&x, htc__resp_command_find(f, htc__resp_arg(&x, 0))))) {
            if (!c->broken)
                pause(f, c);
            break;
        }
        f->stats.commands += r->argc > 0;
        c->next_arg = 0;
        at += r->at;
        htc__resp_request_clear(r);
    }
    if (c->closing || c->broken) {
        htc__resp_request_clear(r);
        return n;
    }
    return at;
}

/* What is left over of bytes that were lent stays, with how far its request has been read. */
static void keep_rest(htc__resp *f, htc__resp_conn *c, htc_bytes rest)
{
    c->request = htc__alloc(&f->env, sizeof *c->request);
    htc_put_raw(&c->in, rest);
    f->input += c->in.len; /* what input_free gives back, also where there is no room for the request */
    if (!c->request || c->in.status != HTC_OK) {
        htc__resp_request_clear(&f->request);
        htc__resp_break(f, c);
        return;
    }
    *c->request = f->request;
    htc__resp_request_init(&f->request, &f->env);
}

static void go_on(htc__resp *f, htc__resp_conn *c)
{
    size_t used = run(f, c, c->request, c->in.data, c->in.len);
    if (used == c->in.len) {
        input_free(f, c);
        return;
    }
    assert(f->input >= used);
    f->input -= used;
    htc_buf_consume(&c->in, used);
}

/* Whole requests wait for this store, and hold much: those that come are read on when some of them are done. */
static int is_crowded(const htc__resp *f)
{
    return f->input > f->options.input_max / 2 && f->whole > 0;
}

/* Bytes of a request without its end, and of a transaction without its EXEC. Who speaks is not idle with the latter. */
static size_t holds(const htc__resp_conn *c, const htc__resp_conn *speaks)
{
    return c->in.len + (c == speaks ? 0 : htc__resp_transaction_bytes(c));
}

/* A connection's share of what all may hold is its own. */
static int holds_much(const htc__resp *f, const htc__resp_conn *c, const htc__resp_conn *speaks)
{
    return !c->paused && !c->closing && holds(c, speaks) > f->options.input_max / f->options.connections_max;
}

static double weight(const htc__resp *f, const htc__resp_conn *c, const htc__resp_conn *speaks)
{
    return (double)holds(c, speaks) * (double)(f->now - c->heard + HTC_MS);
}

int htc__resp_end_holder(htc__resp *f, const htc__resp_conn *speaks, int asks)
{
    htc__resp_conn *most = NULL;
    for (size_t i = 0; i < f->conns_cap; i++) {
        htc__resp_conn *c = f->conns[i];
        if (c && !(asks && c == speaks) && holds_much(f, c, speaks) && (!most || weight(f, c, speaks) > weight(f, most, speaks)))
            most = c;
    }
    if (!most)
        return 0;
    htc__resp_call x = { f, most, NULL, NULL, 0 };
    htc__resp_error(&x, "ERR too many bytes of unfinished requests and transactions are held for all clients, and most of them for longest "
                        "for this one");
    most->closing = 1;
    f->stats.unfinished++;
    htc__resp_mark_dirty(f, most);
    input_free(f, most);
    htc__resp_transaction_end(f, most);
    return 1;
}

static void bytes(htc__resp *f, htc__resp_conn *c, htc_bytes body)
{
    if (c->closing || c->broken || c->ended)
        return;
    hurry(f, c);
    c->heard = f->now;
    f->stats.input += body.len;
    if (body.len == 0) {
        c->ended = 1;
        htc__resp_mark_dirty(f, c);
        return;
    }
    while (f->input + f->queued + body.len > f->options.input_max && htc__resp_end_holder(f, c, 0))
        continue;
    if (c->closing)
        return;
    if (!c->request) {
        size_t used = run(f, c, &f->request, body.data, body.len);
        if (used < body.len)
            keep_rest(f, c, (htc_bytes){ (const uint8_t *)body.data + used, body.len - used });
        return;
    }
    htc_put_raw(&c->in, body);
    if (c->in.status != HTC_OK) {
        htc__resp_break(f, c);
        return;
    }
    f->input += body.len;
    if (!c->paused)
        go_on(f, c);
    if (c->request && !c->paused && is_crowded(f)) {
        c->uploads = 1;
        pause(f, c);
    }
}

void htc__resp_start(htc__resp *f, htc_ns now)
{
    f->started = f->sampled = now;
}

htc_status htc__resp_input(htc__resp *f, const htc_input *in, htc_output *out)
{
    htc__resp_conn *c = htc__resp_find(f, in->peer);
    f->now = in->now;
    f->wall = in->wall;
    if (in->kind == HTC_IN_OPENED)
        return opened(f, in->peer, out);
    if (!c)
        return HTC_OK;
    if (in->kind == HTC_IN_CLOSED)
        end(f, c);
    else if (in->kind == HTC_IN_BYTES)
        bytes(f, c, in->body);
    else if (in->kind == HTC_IN_SENT && in->tag == c->id)
        left(f, c);
    return HTC_OK;
}

/* --- what goes out --- */

static size_t count_whole(const htc__resp_conn *list)
{
    size_t n = 0;
    for (; list; list = list->next_paused)
        n += !list->uploads && !list->gone;
    return n;
}

/* Those who had to wait go on, as far as the reason is gone. */
static void resume(htc__resp *f)
{
    htc__resp_conn *list = f->paused, *newer;
    f->crowded = list->next_paused != NULL;
    f->whole = count_whole(list);
    f->paused = NULL;
    f->paused_last = &f->paused;
    while (list && (htc__resp_has_room(f, 0) || list->gone)) {
        htc__resp_conn *c = list;
        list = c->next_paused;
        c->paused = 0;
        if (c->gone) {
            if (!c->dirty)
                conn_free(f, c);
            continue;
        }
        if (c->uploads && is_crowded(f)) {
            pause(f, c);
            continue;
        }
        c->uploads = 0;
        if (!c->closing && !c->broken && c->request)
            go_on(f, c);
        htc__resp_mark_dirty(f, c);
        f->more |= c->paused && htc__resp_has_room(f, 0) && htc__resp_has_had_its_share(f, c);
    }
    if (!list)
        return;
    newer = f->paused; /* who waited longest goes on first */
    f->paused = list;
    while (list->next_paused)
        list = list->next_paused;
    list->next_paused = newer;
    if (!newer)
        f->paused_last = &list->next_paused;
}

static htc_status speak(htc__resp *f, htc__resp_conn *c, htc_output *out, size_t *sent)
{
    uint32_t   peer = (uint32_t)c->id;
    htc_status status = HTC_OK;
    if (c->out.len > 0) {
        htc_effect e = { .kind = HTC_OUT_BYTES, .peer = peer, .body = htc_buf_bytes(&c->out) };
        if (c->paused || c->out.len > HTC__KV_LONG_VALUE) {
            e.tag = c->id;
            c->unsent = 1;
            c->leaving += c->out.len;
            f->output += c->out.len;
        }
        status = htc_output_add(out, &e);
        *sent += c->out.len;
        f->stats.sent += c->out.len;
        output_free(f, c);
    }
    if (status == HTC_OK && c->held != c->paused) {
        c->held = c->paused;
        status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_HOLD, .peer = peer, .op = c->held });
    }
    return status;
}

/* 1: all that it asked for is answered, or nothing of it will be. */
static int is_over(const htc__resp_conn *c)
{
    return c->broken || ((c->closing || (c->ended && !c->paused)) && c->head == c->tail);
}

htc_status htc__resp_flush(htc__resp *f, htc_ns now, htc_ns wall, htc_output *out)
{
    htc_status status = HTC_OK;
    size_t     sent = 0;
    f->now = now;
    f->wall = wall;
    f->more = 0;
    f->turn++;
    f->whole = 0;
    htc__resp_sample(f, now);
    if (f->edits)
        htc__resp_edits_go_on(f);
    if (f->paused)
        resume(f);
    if (f->jobs)
        htc__resp_jobs_go_on(f);
    while (f->dirty && status == HTC_OK && sent < FLUSH_MAX) {
        htc__resp_conn *c = f->dirty;
        if (!(f->dirty = c->next_dirty))
            f->dirty_last = &f->dirty;
        c->dirty = 0;
        if (c->gone) {
            if (!c->paused)
                conn_free(f, c);
            continue;
        }
        c->broken |= c->out.status != HTC_OK;
        if (!c->broken)
            status = speak(f, c, out, &sent);
        if (status == HTC_OK && is_over(c)) {
            htc_status why = c->killed ? HTC_ECANCELLED : c->broken ? HTC_ENOMEM : HTC_OK;
            status =
                htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = (uint32_t)c->id, .status = why });
            end(f, c);
        }
    }
    f->more |= f->dirty != NULL;
    return status;
}

int htc__resp_more(const htc__resp *f)
{
    return f->more;
}

/* --- the face --- */

void htc__resp_stats_get(const htc__resp *f, htc__resp_stats *stats)
{
    *stats = f->stats;
    stats->connections = f->conns_count;
}

htc_status htc__resp_create(const htc_env *env, const htc__resp_options *options, htc__kv_backend backend,
                            htc__resp **out)
{
    if (options->password.len > HTC__RESP_PASSWORD_MAX)
        return HTC_EINVAL;
    htc__resp *f = htc__alloc(env, sizeof *f);
    if (!f)
        return HTC_ENOMEM;
    f->env = *env;
    f->options = *options;
    f->backend = backend;
    f->face = (htc__kv_face){ .answer = htc__resp_answer, .ctx = f, .gone = htc__resp_gone };
    f->dirty_last = &f->dirty;
    f->paused_last = &f->paused;
    if (!f->options.connections_max)
        f->options.connections_max = 65536;
    if (!f->options.pending_max)
        f->options.pending_max = 4096;
    if (!f->options.output_max)
        f->options.output_max = (size_t)1 << 20;
    if (!f->options.output_all)
        f->options.output_all = (size_t)96 << 20;
    if (!f->options.request_max)
        f->options.request_max = (size_t)64 << 20;
    if (!f->options.input_max)
        f->options.input_max = (size_t)256 << 20;
    if (!f->options.value_max)
        f->options.value_max = HTC_KV_VALUE_MAX;
    if (options->password.len)
        memcpy(f->password, options->password.data, options->password.len);
    f->options.password.data = f->password;
    htc__resp_request_init(&f->request, &f->env);
    htc__resp_request_init(&f->queued_request, &f->env);
    htc_buf_init(&f->scratch, &f->env, OUT_MAX);
    htc__resp_commands_init(f);
    *out = f;
    return HTC_OK;
}

void htc__resp_destroy(htc__resp *f)
{
    if (!f)
        return;
    htc_env env = f->env;
    htc__resp_jobs_forget(f, 0);
    htc__resp_edits_forget(f, 0);
    for (htc__resp_conn *c = f->dirty, *next; c; c = next) {
        next = c->next_dirty;
        c->dirty = 0;
        if (c->gone && !c->paused)
            conn_free(f, c);
    }
    for (htc__resp_conn *c = f->paused, *next; c; c = next) {
        next = c->next_paused;
        if (c->gone)
            conn_free(f, c);
    }
    for (size_t i = 0; i < f->conns_cap; i++)
        if (f->conns[i])
            conn_free(f, f->conns[i]);
    for (size_t i = 0; i < f->pool_count; i++)
        htc_buf_free(&f->pool[i]);
    htc__free(&env, f->conns, f->conns_cap * sizeof *f->conns);
    htc__free(&env, f->cursors, 1024 * sizeof *f->cursors);
    htc__resp_request_free(&f->request);
    htc__resp_request_free(&f->queued_request);
    htc_buf_free(&f->scratch);
    htc__free(&env, f, sizeof *f);
}
