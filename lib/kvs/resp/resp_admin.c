/* What a client says about itself, and what it wants to know about the server. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log.h"
#include "kvs/resp/resp_private.h"

#define VERSION "7.0.0" /* of Redis, whose commands these are: clients choose their own by it */

static int say(htc__resp_call *x, const char *raw)
{
    htc__resp_raw(htc__resp_begin(x->f, x->c), raw);
    htc__resp_end(x->f, x->c);
    return 1;
}

/* The time it takes says how long the given one is, and nothing about ours. */
static int is_password(const htc__resp *f, htc_bytes given)
{
    const uint8_t   *own = f->password, *p = given.data;
    size_t           n = f->options.password.len;
    volatile uint8_t different = given.len != n;
    for (size_t i = 0; i < given.len; i++)
        different |= (uint8_t)(p[i] ^ own[i % n]);
    return !different;
}

#define WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."

static int authenticate(htc__resp_call *x, htc_bytes user, htc_bytes password)
{
    static const char name[] = "default";
    if (!htc_bytes_equal(user, htc_bytes_of(name)) || !is_password(x->f, password)) {
        htc__resp_tell(x->f, (uint32_t)x->c->id, HTC__RESP_WRONG_PASSWORD);
        return 0;
    }
    x->c->authed = 1;
    return 1;
}

int htc__resp_run_auth(htc__resp_call *x)
{
    uint32_t argc = x->r->argc;
    if (argc > 3)
        return htc__resp_error(x, "ERR syntax error");
    if (x->f->options.password.len == 0 && argc == 2)
        return htc__resp_error(
            x, "ERR AUTH <password> called without any password configured for the default user. Are you "
               "sure your configuration is correct?");
    if (x->f->options.password.len == 0)
        return say(x, "+OK\r\n");
    if (!authenticate(x, argc == 3 ? htc__resp_arg(x, 1) : htc_bytes_of("default"), htc__resp_arg(x, argc - 1)))
        return htc__resp_error(x, WRONGPASS);
    return say(x, "+OK\r\n");
}

int htc__resp_set_name(htc__resp_call *x, htc_bytes name)
{
    const uint8_t *p = name.data;
    if (name.len > HTC__RESP_NAME_MAX)
        return 0;
    for (size_t i = 0; i < name.len; i++)
        if (p[i] < '!' || p[i] > '~')
            return 0;
    char *copy = name.len ? htc__alloc(&x->f->env, name.len) : NULL;
    if (name.len && !copy)
        return 0;
    htc__free(&x->f->env, x->c->name, x->c->name_len);
    x->c->name = copy;
    x->c->name_len = (uint16_t)name.len;
    if (copy)
        memcpy(copy, name.data, name.len);
    return 1;
}

static void greet(htc__resp_call *x)
{
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_map(x->c, b, 7);
    htc__resp_text(b, "server");
    htc__resp_text(b, "redis");
    htc__resp_text(b, "version");
    htc__resp_text(b, VERSION);
    htc__resp_text(b, "proto");
    htc__resp_integer(b, x->c->proto);
    htc__resp_text(b, "id");
    htc__resp_integer(b, htc__resp_conn_id(x->c));
    htc__resp_text(b, "mode");
    htc__resp_text(b, "standalone");
    htc__resp_text(b, "role");
    htc__resp_text(b, "master");
    htc__resp_text(b, "modules");
    htc__resp_head(b, '*', 0);
    htc__resp_end(x->f, x->c);
}

int htc__resp_run_hello(htc__resp_call *x)
{
    uint32_t  argc = x->r->argc, i = 2;
    int64_t   version = x->c->proto;
    htc_bytes name = { NULL, 0 };
    int       named = 0, authed = x->c->authed;
    if (argc > 1 && !htc__resp_number(htc__resp_arg(x, 1), &version))
        return htc__resp_error(x, "ERR Protocol version is not an integer or out of range");
    if (version < 2 || version > 3)
        return htc__resp_error(x, "NOPROTO unsupported protocol version");
    while (i < argc) {
        if (htc__resp_arg_is(x, i, "AUTH") && i + 2 < argc) {
            if (x->f->options.password.len && !authenticate(x, htc__resp_arg(x, i + 1), htc__resp_arg(x, i + 2)))
                return htc__resp_error(x, WRONGPASS);
            authed = 1;
            i += 3;
        } else if (htc__resp_arg_is(x, i, "SETNAME") && i + 1 < argc) {
            name = htc__resp_arg(x, i + 1);
            named = 1;
            i += 2;
        } else {
            return htc__resp_error(x, "ERR Syntax error in HELLO option");
        }
    }
    if (!authed)
        return htc__resp_error(
            x, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
               "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
               "RESP protocol version at the same time");
    if (named && !htc__resp_set_name(x, name))
        return htc__resp_error(x, HTC__RESP_BAD_NAME);
    x->c->proto = (uint8_t)version;
    greet(x);
    return 1;
}

int htc__resp_run_ping(htc__resp_call *x)
{
    if (x->r->argc == 1)
        return say(x, "+PONG\r\n");
    if (x->r->argc > 2)
        return htc__resp_error(x, "ERR wrong number of arguments for 'ping' command");
    return htc__resp_run_echo(x);
}

int htc__resp_run_echo(htc__resp_call *x)
{
    htc__resp_bulk(htc__resp_begin(x->f, x->c), htc__resp_arg(x, 1));
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_run_select(htc__resp_call *x)
{
    int64_t n;
    if (!htc__resp_number(htc__resp_arg(x, 1), &n))
        return htc__resp_error(x, "ERR value is not an integer or out of range");
    return n == 0 ? say(x, "+OK\r\n") : htc__resp_error(x, "ERR DB index is out of range: this store has database 0 alone");
}

int htc__resp_run_time(htc__resp_call *x)
{
    char     text[32];
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_head(b, '*', 2);
    snprintf(text, sizeof text, "%llu", (unsigned long long)(x->f->wall / HTC_SECOND));
    htc__resp_text(b, text);
    snprintf(text, sizeof text, "%llu", (unsigned long long)(x->f->wall % HTC_SECOND / HTC_US));
    htc__resp_text(b, text);
    htc__resp_end(x->f, x->c);
    return 1;
}

/* One whom changes can be sent to, and whom nobody follows: what a member is to Redis' clients. */
int htc__resp_run_role(htc__resp_call *x)
{
    return say(x, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
}

int htc__resp_run_quit(htc__resp_call *x)
{
    x->c->closing = 1;
    return say(x, "+OK\r\n");
}

int htc__resp_run_reset(htc__resp_call *x)
{
    (void)htc__resp_set_name(x, (htc_bytes){ NULL, 0 });
    htc__resp_transaction_end(x->f, x->c);
    x->c->proto = 2;
    x->c->authed = x->f->options.password.len == 0;
    return say(x, "+RESET\r\n");
}

typedef enum section { SERVER = 1, CLIENTS = 2, PERSISTENCE = 4, STATS = 8, REPLICATION = 16, CLUSTER = 32, KEYSPACE = 64, CPU = 128, MEMORY = 256, EVERYTHING = 511 } section;

static const struct {
    const char *name;
    section     bit;
} sections[] = { { "SERVER", SERVER },           { "CLIENTS", CLIENTS }, { "PERSISTENCE", PERSISTENCE }, { "STATS", STATS },
                 { "REPLICATION", REPLICATION }, { "CLUSTER", CLUSTER }, { "KEYSPACE", KEYSPACE },       { "DEFAULT", EVERYTHING },
                 { "CPU", CPU },                 { "MEMORY", MEMORY },   { "ALL", EVERYTHING },          { "EVERYTHING", EVERYTHING } };

/* As Redis' clients know it: when what was answered is on the disk. */
static const char *fsync_word(const htc__resp *f)
{
    return f->options.durability == HTC__LOG_SYNC ? "always" : f->options.durability == HTC__LOG_INTERVAL ? "everysec" : "no";
}

static void head(htc_buf *text, const char *name)
{
    htc_put_text(text, "%s# %s\r\n", text->len ? "\r\n" : "", name);
}

/* A section that is empty would say that there are none. How many of them have an end nobody counts; an average of 0 is one that is not
 * known, to Redis' clients. */
static void say_keys(htc_buf *text, htc_status counted, int64_t keys)
{
    head(text, "Keyspace");
    if (counted != HTC_OK)
        htc_put_text(text, "# not counted: %s\r\n", htc_strerror(counted));
    else if (keys)
        htc_put_text(text, "db0:keys=%lld,avg_ttl=0\r\n", (long long)keys);
}

static size_t note_memory(htc__resp *f)
{
    size_t max = 0, used = f->backend.used ? f->backend.used(f->backend.ctx, &max) : 0;
    f->used_peak = used > f->used_peak ? used : f->used_peak;
    return used;
}

void htc__resp_sample(htc__resp *f, htc_ns now)
{
    if (now < f->sampled + HTC_SECOND)
        return;
    f->rate = (f->stats.commands - f->sampled_commands) * HTC_SECOND / (now - f->sampled);
    f->sampled_commands = f->stats.commands;
    f->sampled = now;
    note_memory(f);
}

static void say_cpu(const htc__resp *f, htc_buf *text)
{
    htc_ns user = 0, sys = 0;
    if (!f->backend.cpu || !f->backend.cpu(f->backend.ctx, &user, &sys))
        return;
    head(text, "CPU");
    htc_put_text(text,
                 "used_cpu_sys:%llu.%06llu\r\nused_cpu_user:%llu.%06llu\r\nused_cpu_sys_children:0.000000\r\n"
                 "used_cpu_user_children:0.000000\r\n",
                 (unsigned long long)(sys / HTC_SECOND), (unsigned long long)(sys % HTC_SECOND / HTC_US),
                 (unsigned long long)(user / HTC_SECOND), (unsigned long long)(user % HTC_SECOND / HTC_US));
}

static void say_memory(htc__resp *f, htc_buf *text)
{
    size_t max = 0, resident = f->backend.resident ? f->backend.resident(f->backend.ctx) : 0;
    if (!f->backend.used)
        return;
    size_t used = note_memory(f);
    (void)f->backend.used(f->backend.ctx, &max);
    head(text, "Memory");
    htc_put_text(text, "used_memory:%zu\r\nused_memory_peak:%zu\r\nmaxmemory:%zu\r\nmaxmemory_policy:noeviction\r\n", used, f->used_peak, max);
    if (resident)
        htc_put_text(text, "used_memory_rss:%zu\r\n", resident);
}

static void say_sections(htc__resp *f, uint32_t which, htc_buf *text)
{
    uint64_t up = f->now > f->started ? (f->now - f->started) / HTC_SECOND : 0;
    if (which & SERVER) {
        head(text, "Server");
        htc_put_text(text,
                     "redis_version:" VERSION "\r\nredis_mode:standalone\r\nserver_name:htcsched\r\n"
                     "engine:%s\r\nuptime_in_seconds:%llu\r\nuptime_in_days:%llu\r\n",
                     f->options.engine ? f->options.engine : "memory", (unsigned long long)up, (unsigned long long)(up / 86400));
    }
    if (which & CLIENTS) {
        head(text, "Clients");
        htc_put_text(text, "connected_clients:%zu\r\nmaxclients:%u\r\nblocked_clients:0\r\n", f->conns_count, f->options.connections_max);
    }
    if (which & MEMORY)
        say_memory(f, text);
    if (which & PERSISTENCE) {
        head(text, "Persistence");
        htc_put_text(text, "loading:0\r\naof_enabled:%d\r\n", f->options.durability != 0);
    }
    if (which & STATS) {
        head(text, "Stats");
        htc_put_text(text,
                     "total_connections_received:%llu\r\ntotal_commands_processed:%llu\r\ninstantaneous_ops_per_sec:%llu\r\n"
                     "total_net_input_bytes:%llu\r\ntotal_net_output_bytes:%llu\r\nrejected_connections:%llu\r\nevicted_keys:0\r\nexpired_keys:%llu\r\n"
                     "keyspace_hits:%llu\r\nkeyspace_misses:%llu\r\npubsub_channels:0\r\npubsub_patterns:0\r\n",
                     (unsigned long long)f->stats.received, (unsigned long long)f->stats.commands, (unsigned long long)f->rate,
                     (unsigned long long)f->stats.input, (unsigned long long)f->stats.sent, (unsigned long long)f->stats.refused,
                     (unsigned long long)(f->backend.expired ? f->backend.expired(f->backend.ctx) : 0),
                     (unsigned long long)f->stats.hits, (unsigned long long)f->stats.misses);
    }
    if (which & REPLICATION) {
        head(text, "Replication");
        htc_put_text(text, "role:master\r\nconnected_slaves:0\r\n");
    }
    if (which & CPU)
        say_cpu(f, text);
    if (which & CLUSTER) {
        head(text, "Cluster");
        htc_put_text(text, "cluster_enabled:0\r\n");
    }
}

void htc__resp_info(htc__resp *f, uint32_t which, htc_status counted, int64_t keys, htc_buf *b)
{
    htc_buf text;
    htc_buf_init(&text, &f->env, 8192);
    say_sections(f, which, &text);
    if (which & KEYSPACE)
        say_keys(&text, counted, keys);
    if (text.status != HTC_OK)
        htc__resp_raw(b, "-ERR out of memory\r\n");
    else
        htc__resp_bulk(b, htc_buf_bytes(&text));
    htc_buf_free(&text);
}

/* To count the keys takes a while where there are several members: who wants other sections names them. */
int htc__resp_run_info(htc__resp_call *x)
{
    uint32_t which = x->r->argc == 1 ? EVERYTHING : 0;
    for (uint32_t i = 1; i < x->r->argc; i++)
        for (size_t k = 0; k < sizeof sections / sizeof *sections; k++)
            if (htc__resp_arg_is(x, i, sections[k].name))
                which |= sections[k].bit;
    if (which & KEYSPACE)
        return htc__resp_job_info(x, which);
    htc__resp_info(x->f, which, HTC_OK, 0, htc__resp_begin(x->f, x->c));
    htc__resp_end(x->f, x->c);
    return 1;
}

/* --- CONFIG GET: what tools ask for before they begin --- */

int htc__resp_run_config(htc__resp_call *x)
{
    const char *pairs[][2] = { { "save", "" }, /* there are no snapshots: every change is written by itself */
                               { "appendonly", x->f->options.durability ? "yes" : "no" },
                               { "appendfsync", fsync_word(x->f) },
                               { "databases", "1" },
                               { "maxmemory-policy", "noeviction" } };
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    int     meant[PAIRS] = { 0 };
    int64_t count = 0;
    if (!htc__resp_arg_is(x, 1, "GET") || x->r->argc < 3)
        return htc__resp_error(x, "ERR only CONFIG GET is there: a store is configured by its command line");
    for (uint32_t i = 2; i < x->r->argc; i++) {
        char   pattern[64];
        size_t n = 0;
        for (htc_bytes a = htc__resp_arg(x, i); n < a.len && n < sizeof pattern; n++) {
            uint8_t c = ((const uint8_t *)a.data)[n];
            pattern[n] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        }
        for (size_t k = 0; k < PAIRS; k++)
            if (!meant[k] && htc__resp_glob((htc_bytes){ pattern, n }, htc_bytes_of(pairs[k][0])))
                meant[k] = 1, count++;
    }
    htc_buf *b = htc__resp_begin(x->f, x->c);
    htc__resp_map(x->c, b, count);
    for (size_t k = 0; k < PAIRS; k++)
        if (meant[k]) {
            htc__resp_text(b, pairs[k][0]);
            htc__resp_text(b, pairs[k][1]);
        }
    htc__resp_end(x->f, x->c);
    return 1;
}

/* --- COMMAND --- */

static void lower(htc_buf *b, const char *name)
{
    char   text[16];
    size_t n = 0;
    for (; name[n] && n < sizeof text; n++)
        text[n] = (char)(name[n] + 32);
    htc__resp_bulk(b, (htc_bytes){ text, n });
}

static void describe(htc_buf *b, const htc__resp_command *k)
{
    htc__resp_head(b, '*', 6);
    lower(b, k->name);
    htc__resp_integer(b, k->arity);
    htc__resp_head(b, '*', 1);
    htc__resp_raw(b, k->flags & HTC__RESP_WRITES ? "+write\r\n" : "+readonly\r\n");
    htc__resp_integer(b, k->first);
    htc__resp_integer(b, k->last);
    htc__resp_integer(b, k->step);
}

static void document(const htc__resp_conn *c, htc_buf *b, const htc__resp_command *k)
{
    lower(b, k->name);
    htc__resp_map(c, b, 2);
    htc__resp_text(b, "summary");
    htc__resp_text(b, k->summary);
    htc__resp_text(b, "group");
    htc__resp_text(b, k->first ? "string" : "server");
}

static int all_commands(htc__resp_call *x, int documents)
{
    int64_t count = 0;
    while (htc__resp_command_at((size_t)count))
        count++;
    htc_buf *b = htc__resp_begin(x->f, x->c);
    if (documents)
        htc__resp_map(x->c, b, count);
    else
        htc__resp_head(b, '*', count);
    for (size_t i = 0; i < (size_t)count; i++)
        if (documents)
            document(x->c, b, htc__resp_command_at(i));
        else
            describe(b, htc__resp_command_at(i));
    htc__resp_end(x->f, x->c);
    return 1;
}

static int some_commands(htc__resp_call *x, int documents)
{
    int64_t known = 0;
    for (uint32_t i = 2; i < x->r->argc; i++)
        known += htc__resp_command_find(x->f, htc__resp_arg(x, i)) != NULL;
    htc_buf *b = htc__resp_begin(x->f, x->c);
    if (documents)
        htc__resp_map(x->c, b, known);
    else
        htc__resp_head(b, '*', x->r->argc - 2);
    for (uint32_t i = 2; i < x->r->argc; i++) {
        const htc__resp_command *k = htc__resp_command_find(x->f, htc__resp_arg(x, i));
        if (k && documents)
            document(x->c, b, k);
        else if (k)
            describe(b, k);
        else if (!documents)
            htc__resp_raw(b, x->c->proto == 3 ? "_\r\n" : "*-1\r\n");
    }
    htc__resp_end(x->f, x->c);
    return 1;
}

int htc__resp_run_command(htc__resp_call *x)
{
    int64_t count = 0;
    if (x->r->argc == 1)
        return all_commands(x, 0);
    if (htc__resp_arg_is(x, 1, "COUNT") && x->r->argc == 2) {
        while (htc__resp_command_at((size_t)count))
            count++;
        htc__resp_integer(htc__resp_begin(x->f, x->c), count);
        htc__resp_end(x->f, x->c);
        return 1;
    }
    int documents = htc__resp_arg_is(x, 1, "DOCS");
    if (!documents && !htc__resp_arg_is(x, 1, "INFO"))
        return htc__resp_error(x, "ERR unknown subcommand of COMMAND; there are COUNT, DOCS and INFO");
    if (x->r->argc == 2)
        return all_commands(x, documents);
    return some_commands(x, documents);
}
