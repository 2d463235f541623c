/* CLIENT: what a connection says about itself, and what it may know about others and do to them. */
#include <string.h>

#include "kvs/resp/resp_transaction.h"

static int say(htc__resp_call *x, const char *raw)
{
    htc__resp_raw(htc__resp_begin(x->f, x->c), raw);
    htc__resp_end(x->f, x->c);
    return 1;
}

static void put_lower(htc_buf *b, const char *name)
{
    for (; name && *name; name++)
        htc_put_u8(b, *name >= 'A' && *name <= 'Z' ? (uint8_t)(*name + 32) : (uint8_t)*name);
}

/* One line of CLIENT LIST. All clients are of this machine, and nobody here knows by which port they came: an address is local:ID. */
static void describe(const htc__resp *f, const htc__resp_conn *c, htc_buf *b)
{
    unsigned long long           id = (unsigned long long)htc__resp_conn_id(c);
    const htc__resp_transaction *tx = c->tx;
    htc_put_text(b, "id=%llu addr=local:%llu laddr=local:0 fd=-1 name=", id, id);
    htc_put_raw(b, (htc_bytes){ c->name, c->name_len });
    htc_put_text(b,
                 " age=%llu idle=%llu flags=%s db=0 sub=0 psub=0 ssub=0 multi=%d watch=%u qbuf=%zu qbuf-free=0 "
                 "multi-mem=%zu obl=%zu oll=0 omem=%zu events=r cmd=",
                 (unsigned long long)((f->now - c->opened) / HTC_SECOND),
                 (unsigned long long)((f->now - c->heard) / HTC_SECOND), tx && tx->multi ? "x" : "N",
                 tx && tx->multi ? (int)tx->count : -1, tx ? tx->watch_count : 0, c->in.len, tx ? tx->queue.len : 0,
                 c->out.len, c->out.len + c->expected);
    put_lower(b, c->command ? c->command->name : "NULL");
    htc_put_text(b, " user=default redir=-1 resp=%d\n", c->proto);
}

/* --- which of them --- */

typedef struct filter {
    int64_t   id;                   /* 0: any */
    htc_bytes address, local, user; /* without data: any */
    int       nobody, not_me, older;
    int64_t   age;
} filter;

static int fits(const htc__resp_call *x, const filter *w, const htc__resp_conn *c)
{
    char    text[40];
    htc_buf b;
    htc_buf_init(&b, &x->f->env, sizeof text);
    htc_put_text(&b, "local:%lld", (long long)htc__resp_conn_id(c));
    int same = !w->address.data || htc_bytes_equal(w->address, htc_buf_bytes(&b));
    htc_buf_free(&b);
    return same && !w->nobody && (!w->id || w->id == htc__resp_conn_id(c)) && !(w->not_me && c == x->c) &&
           (!w->local.data || htc_bytes_equal(w->local, htc_bytes_of("local:0"))) &&
           (!w->user.data || htc_bytes_equal(w->user, htc_bytes_of("default"))) &&
           (!w->older || (int64_t)((x->f->now - c->opened) / HTC_SECOND) >= w->age);
}

/* The option at argument i and its word; 0: it is none, or it is said what is wrong with it (*told). */
static int option(htc__resp_call *x, uint32_t i, filter *w, int *told)
{
    htc_bytes value = htc__resp_arg(x, i + 1);
    if (htc__resp_arg_is(x, i, "ID")) {
        if (htc__resp_number(value, &w->id) && w->id > 0)
            return 1;
        *told = htc__resp_error(x, "ERR client-id should be greater than 0");
        return 0;
    }
    if (htc__resp_arg_is(x, i, "TYPE")) {
        w->nobody |= !htc__resp_arg_is(x, i + 1, "NORMAL");
        return htc__resp_arg_is(x, i + 1, "NORMAL") || htc__resp_arg_is(x, i + 1, "MASTER") ||
               htc__resp_arg_is(x, i + 1, "SLAVE") || htc__resp_arg_is(x, i + 1, "REPLICA") ||
               htc__resp_arg_is(x, i + 1, "PUBSUB");
    }
    if (htc__resp_arg_is(x, i, "SKIPME")) {
        w->not_me = htc__resp_arg_is(x, i + 1, "YES");
        return w->not_me || htc__resp_arg_is(x, i + 1, "NO");
    }
    if (htc__resp_arg_is(x, i, "MAXAGE")) {
        w->older = 1;
        return htc__resp_number(value, &w->age);
    }
    htc_bytes *to = htc__resp_arg_is(x, i, "ADDR")    ? &w->address
                    : htc__resp_arg_is(x, i, "LADDR") ? &w->local
                    : htc__resp_arg_is(x, i, "USER")  ? &w->user
                                                      : NULL;
    if (!to)
        return 0;
    *to = value;
    if (!to->data)
        to->data = "";
    return 1;
}

/* --- CLIENT KILL --- */

static int64_t kill_those(htc__resp_call *x, const filter *w)
{
    int64_t count = 0;
    for (size_t i = 0; i < x->f->conns_cap; i++) {
        htc__resp_conn *c = x->f->conns[i];
        if (!c || c->killed || c->broken || !fits(x, w, c))
            continue;
        count++;
        if (c == x->c)
            c->closing = 1; /* when this is answered */
        else
            htc__resp_kill(x->f, c);
    }
    return count;
}

static int kill(htc__resp_call *x)
{
    filter w = { .not_me = x->r->argc > 3 };
    int    told = 0;
    if (x->r->argc == 3) { /* as it was before there were options */
        w.address = htc__resp_arg(x, 2);
        return kill_those(x, &w) ? say(x, "+OK\r\n") : htc__resp_error(x, "ERR No such client");
    }
    for (uint32_t i = 2; i < x->r->argc; i += 2)
        if (i + 1 == x->r->argc || !option(x, i, &w, &told))
            return told ? 1 : htc__resp_error(x, "ERR syntax error");
    int64_t count = kill_those(x, &w);
    htc__resp_integer(htc__resp_begin(x->f, x->c), count);
    htc__resp_end(x->f, x->c);
    return 1;
}

/* --- CLIENT LIST, CLIENT INFO --- */

/* Those that CLIENT LIST ID names: each client is looked for among them. */
#define IDS_MAX 1024
typedef struct listed {
    size_t  n;
    int64_t id[IDS_MAX];
} listed;

/* 0, or it is said what is wrong with them. */
static int read_ids(htc__resp_call *x, listed *l)
{
    if (x->r->argc - 3 > IDS_MAX)
        return htc__resp_error(x, "ERR CLIENT LIST ID takes at most 1024 ids");
    for (uint32_t i = 3; i < x->r->argc; i++)
        if (!htc__resp_number(htc__resp_arg(x, i), &l->id[l->n++]))
            return htc__resp_error(x, "ERR Invalid client ID");
    return 0;
}

static int is_listed(const listed *l, const htc__resp_conn *c)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->id[i] == htc__resp_conn_id(c))
            return 1;
    return 0;
}

static int answer_text(htc__resp_call *x, htc_buf *text)
{
    if (text->status == HTC_OK)
        htc__resp_bulk(htc__resp_begin(x->f, x->c), htc_buf_bytes(text));
    else
        htc__resp_failure(x->f, htc__resp_begin(x->f, x->c), text->status, HTC_KV_GET);
    htc__resp_end(x->f, x->c);
    htc_buf_free(text);
    return 1;
}

static int list(htc__resp_call *x)
{
    htc_buf text;
    filter  w = { 0 };
    listed  l = { .n = 0 };
    int     told = 0, ids = x->r->argc > 3 && htc__resp_arg_is(x, 2, "ID");
    if (x->r->argc > 2 && !ids && (x->r->argc != 4 || !htc__resp_arg_is(x, 2, "TYPE") || !option(x, 2, &w, &told)))
        return htc__resp_error(x, "ERR syntax error");
    if (ids && read_ids(x, &l))
        return 1;
    htc_buf_init(&text, &x->f->env, (size_t)32 << 20);
    for (size_t i = 0; i < x->f->conns_cap; i++)
        if (x->f->conns[i] && fits(x, &w, x->f->conns[i]) && (!ids || is_listed(&l, x->f->conns[i])))
            describe(x->f, x->f->conns[i], &text);
    return answer_text(x, &text);
}

static int info(htc__resp_call *x)
{
    htc_buf text;
    htc_buf_init(&text, &x->f->env, 4096);
    describe(x->f, x->c, &text);
    return answer_text(x, &text);
}

/* --- CLIENT --- */

static int get_name(htc__resp_call *x)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    if (x->c->name)
        htc__resp_bulk(b, (htc_bytes){ x->c->name, x->c->name_len });
    else
        htc__resp_null(x->c, b);
    htc__resp_end(x->f, x->c);
    return 1;
}

static int get_id(htc__resp_call *x)
{
    htc__resp_integer(htc__resp_begin(x->f, x->c), htc__resp_conn_id(x->c));
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_run_client(htc__resp_call *x)
{
    uint32_t argc = x->r->argc;
    if (htc__resp_arg_is(x, 1, "ID") && argc == 2)
        return get_id(x);
    if (htc__resp_arg_is(x, 1, "GETNAME") && argc == 2)
        return get_name(x);
    if (htc__resp_arg_is(x, 1, "INFO") && argc == 2)
        return info(x);
    if (htc__resp_arg_is(x, 1, "LIST"))
        return list(x);
    if (htc__resp_arg_is(x, 1, "KILL") && argc > 2)
        return kill(x);
    if (htc__resp_arg_is(x, 1, "SETNAME") && argc == 3)
        return htc__resp_set_name(x, htc__resp_arg(x, 2)) ? say(x, "+OK\r\n") : htc__resp_error(x, HTC__RESP_BAD_NAME);
    if (htc__resp_arg_is(x, 1, "SETINFO") && argc == 4)
        return htc__resp_arg_is(x, 2, "LIB-NAME") || htc__resp_arg_is(x, 2, "LIB-VER")
                   ? say(x, "+OK\r\n")
                   : htc__resp_error(x, "ERR Unrecognized option");
    if ((htc__resp_arg_is(x, 1, "NO-EVICT") || htc__resp_arg_is(x, 1, "NO-TOUCH")) && argc == 3)
        return htc__resp_arg_is(x, 2, "ON") || htc__resp_arg_is(x, 2, "OFF") ? say(x, "+OK\r\n")
                                                                             : htc__resp_error(x, "ERR syntax error");
    return htc__resp_error(x, "ERR unknown subcommand or wrong number of arguments for CLIENT; there are ID, INFO, "
                              "LIST, KILL, GETNAME, SETNAME, "
                              "SETINFO, NO-EVICT and NO-TOUCH");
}
