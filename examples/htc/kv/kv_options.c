/* The options of htc kv: which subcommands each belongs to. The same table parses, refuses, and is printed by --help. */
#include "kv.h"
#include "../sub_options.h"

#define OF(command) (1u << KV_##command)
#define OFFLINE (OF(FSCK) | OF(DUMP) | OF(CLUSTER))
#define ONLINE  (~0u & ~OFFLINE) /* those that speak to a member */
#define WAITING (ONLINE & ~OF(WATCH)) /* but not for ever */

htc_status kv_parse(kv_call *k, const command *cmd, uint32_t which, int argc, char **argv)
{
    const sub_opt rows[] = {
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
    const sub_opts all = { rows, sizeof rows / sizeof *rows, KV_COMMANDS, kv_name };
    _Static_assert(sizeof rows / sizeof *rows <= SUB_ROWS_MAX, "SUB_ROWS_MAX");
    return sub_opt_parse(k->c, cmd, &all, which, argc, argv, &k->w);
}
