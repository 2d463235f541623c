/* The options of htc kv: which subcommands each belongs to. The same table parses, refuses, and is printed by --help. */
#include "kv.h"

#include <string.h>

#define OF(command) (1u << KV_##command)
#define OFFLINE (OF(FSCK) | OF(DUMP) | OF(CLUSTER))
#define ONLINE  (~0u & ~OFFLINE) /* those that speak to a member */
#define WAITING (ONLINE & ~OF(WATCH)) /* but not for ever */
#define ROWS_MAX 40

typedef struct row {
    uint32_t of; /* OF(...): the subcommands that have it */
    opt      o;
} row;

typedef struct sheet {
    opt  at[ROWS_MAX];
    char text[ROWS_MAX][200]; /* who has it, for those that the subcommand has not */
} sheet;

/* "get, put and delete" */
static void name_commands(uint32_t of, char *text, size_t cap)
{
    size_t len = 0;
    text[0] = 0;
    for (uint32_t i = 0; of && i < KV_COMMANDS && len < cap; of &= ~(1u << i), i++) {
        if (of & 1u << i)
            len += (size_t)snprintf(text + len, cap - len, "%s%s", !len ? "" : of == 1u << i ? " and " : ", ", kv_name(i));
    }
}

/* Two rows may have one name, with another meaning for other subcommands. */
static uint32_t all_of(const row *rows, size_t n, const char *name)
{
    uint32_t of = 0;
    for (size_t i = 0; i < n; i++)
        of |= strcmp(rows[i].o.name, name) == 0 ? rows[i].of : 0;
    return of & ((1u << KV_COMMANDS) - 1);
}

/* Every command has it, and some say something else of it. */
static int is_everywhere(const row *r)
{
    return strcmp(r->o.name, "dir") == 0;
}

/* Its own in front, for the first of a name is found. */
static size_t fill(sheet *s, const row *rows, size_t n, uint32_t which)
{
    size_t filled = 0;
    for (size_t i = 0; i < n; i++)
        if (which == KV_COMMANDS ? !is_everywhere(&rows[i]) : (rows[i].of & 1u << which) != 0)
            s->at[filled++] = rows[i].o;
    for (size_t i = 0; i < n && which != KV_COMMANDS; i++) {
        if (rows[i].of & 1u << which || is_everywhere(&rows[i]))
            continue;
        name_commands(all_of(rows, n, rows[i].o.name), s->text[filled], sizeof s->text[filled]);
        s->at[filled] = (opt){ rows[i].o.name, 0, OPT_ELSEWHERE, NULL, NULL, s->text[filled] };
        filled++;
    }
    return filled;
}

/* With no subcommand --help says of each option whose it is. */
static void say_whose(sheet *s, const row *rows, size_t n)
{
    char names[120];
    for (size_t i = 0; i < n; i++) {
        if (rows[i].of == ONLINE || rows[i].of == WAITING || is_everywhere(&rows[i]))
            continue;
        name_commands(rows[i].of, names, sizeof names);
        snprintf(s->text[i], sizeof s->text[i], "%s: %s", names, rows[i].o.help);
        s->at[i].help = s->text[i];
    }
}

htc_status kv_parse(kv_call *k, const command *cmd, uint32_t which, int argc, char **argv)
{
    const row rows[] = {
        { ONLINE, { "store", 0, OPT_TEXT, &k->address, "ADDRESS", "another store than that of the state directory" } },
        { ONLINE, { "key", 0, OPT_TEXT, &k->key, "FILE", "tcp: one's own key file (htc keys new)" } },
        { ONLINE, { "ring", 0, OPT_TEXT, &k->ring, "FILE", "tcp: the public keys that are known (htc keys add)" } },
        { ONLINE, { "server", 0, OPT_TEXT, &k->server, "NAME|pub-...", "tcp: who has to answer; default: any member of the ring" } },
        { ONLINE, { "password-file", 0, OPT_TEXT, &k->password, "FILE", "redis: its first line is the password" } },
        { WAITING, { "timeout", 0, OPT_TIME, &k->timeout, "TIME", "give up where no answer comes for so long (10s)" } },
        { OF(WATCH), { "timeout", 0, OPT_TIME, &k->timeout, "TIME", "say so where no answer comes for so long, and wait on (10s)" } },
        { OF(PUT) | OF(APPEND) | OF(CAS), { "file", 0, OPT_TEXT, &k->file, "FILE", "the value is in this file; -: standard input" } },
        { OF(PUT), { "ttl", 0, OPT_TIME, &k->ttl, "TIME", "the key vanishes after this: 90s, 5m, 2h, 1d" } },
        { OF(CAS), { "version", 0, OPT_COUNT, &k->version, "N", "the version seen; 0: the key must not exist" } },
        { OF(CAS), { "seen", 0, OPT_TEXT, &k->seen, "OLD", "the value seen" } },
        { OF(SCAN), { "values", 0, OPT_FLAG, &k->values, NULL, "values too" } },
        { OF(SCAN), { "limit", 0, OPT_COUNT, &k->limit, "N", "at most so many keys" } },
        { ONLINE, { "namespace", 0, OPT_TEXT, &k->space, "NAME", "in this namespace (default: the store itself); one that is eventual has get, put and delete" } },
        { OF(DUMP), { "namespace", 0, OPT_TEXT, &k->space, "NAME", "what this eventual namespace holds, or the store itself (default), and nothing else" } },
        { OF(CLUSTER), { "namespace", 0, OPT_TEXT, &k->space, "NAME=...", "strong[:WORD,...] or eventual[:N,R,W]: they have this namespace" } },
        { OF(PUT) | OF(DELETE), { "context", 0, OPT_TEXT, &k->context, "HEX", "with --namespace: replace what that get has shown (get --json)" } },
        { OF(GET), { "reconcile", 0, OPT_FLAG, &k->reconcile, NULL, "with --namespace: of several values the largest, written back" } },
        { OF(WATCH), { "prefix", 0, OPT_TEXT, &k->prefix, "P", "all keys that begin with P; \"\": all that there are" } },
        { OF(WATCH), { "count", 0, OPT_COUNT, &k->count, "N", "end after so many values and deletions" } },
        { OF(WATCH), { "from", 0, OPT_COUNT, &k->from, "V", "only what is newer than version V of the key" } },
        { OF(RESTORE), { "replace", 0, OPT_FLAG, &k->replace, NULL, "also keys that exist" } },
        { OF(RESTORE), { "leased", 0, OPT_FLAG, &k->leased, NULL, "also keys that were bound to a lease: they live for ever then" } },
        { OF(BACKUP), { "without-namespaces", 0, OPT_FLAG, &k->without_spaces, NULL, "leave out what eventual namespaces hold" } },
        { OF(CLUSTER), { "members", 0, OPT_COUNT, &k->members, "N", "how many (3)" } },
        { OF(CLUSTER), { "base-port", 0, OPT_COUNT, &k->base_port, "P", "Redis' clients come to 127.0.0.1, ports P, P + 1, ..." } },
        { OF(CLUSTER), { "shards", 0, OPT_COUNT, &k->shards, "S", "threads of each member, a part of the keys each (1)" } },
        { OF(CLUSTER), { "engine", 0, OPT_TEXT, &k->engine, "ENGINE", "log (default) or lmdb" } },
        { OF(CLUSTER), { "durability", 0, OPT_TEXT, &k->durability, "HOW", "sync (default), interval or memory" } },
        { OF(CLUSTER), { "patience", 0, OPT_TIME, &k->patience, "TIME", "give up where members that start do nothing for so long (30s)" } },
        { OF(CLUSTER), { "stop", 0, OPT_FLAG, &k->stop, NULL, "end the members that run in --dir" } },
        { OF(MEMBERS), { "buckets", 0, OPT_FLAG, &k->buckets, NULL, "with --json: the owners of each bucket too" } },
        { OF(JOIN) | OF(LEAVE) | OF(REPLACE) | OF(REBALANCE) | OF(UNDO),
          { "no-wait", 0, OPT_FLAG, &k->no_wait, NULL, "do not wait for the end" } },
        { OF(REBALANCE), { "weight", 0, OPT_COUNT, &k->weight, "W", "its share is in proportion to this, 1 to 65535" } },
        /* The last, so that the others have the same places in a sheet without them. */
        { OF(FSCK) | OF(DUMP), { "dir", 0, OPT_TEXT, &k->own_dir, "DIR", "in place of the word DIR: a member's state directory, or the store in it" } },
        { OF(CLUSTER), { "dir", 0, OPT_TEXT, &k->c->dir, "DIR", "the cluster's own directory ($HTC_DIR, else ./htc-state)" } },
    };
    size_t n = sizeof rows / sizeof *rows;
    sheet  s;
    _Static_assert(sizeof rows / sizeof *rows <= ROWS_MAX, "ROWS_MAX");
    size_t filled = fill(&s, rows, n, which);
    if (which == KV_COMMANDS)
        say_whose(&s, rows, n);
    return opt_parse(k->c, cmd, argc, argv, s.at, filled, &k->w);
}
