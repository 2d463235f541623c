/* htc kv: the store from the command line. */
#include "kv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/state.h"
#include "../../htc-kvd/dir_kind.h"
#include "../../htc-kvd/namespaces.h"

#define TIMEOUT_MAX_S (366 * 86400)

typedef struct subcommand {
    const char *name, *args, *summary;
    size_t      words_min, words_max;
    htc_status (*run)(kv_call *k);
    int offline; /* it looks at files, not at a member */
} subcommand;

/* ---- asking ---- */

static htc_status no_such_key(kv_call *k, htc_bytes key)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(key.len < sizeof name ? key.len : sizeof name - 1),
             key.len ? (const char *)key.data : "");
    htc_text_show(name);
    return cli_error(k->c, HTC_ENOTFOUND, name, "", "there is no such key");
}

htc_status kv_ask(kv_call *k, const htc_kv_request *request, htc_kv_result *result)
{
    htc_status s = htc_store_ask(k->store, request, result, &k->c->error);
    if (s != HTC_OK)
        return s;
    s = result->status;
    if (s == HTC_OK || s == HTC_MISMATCH)
        return HTC_OK;
    if (s == HTC_ENOTFOUND && request->op != HTC_KV_SCAN)
        return no_such_key(k, request->key);
    if (s == HTC_ETIMEDOUT)
        snprintf(k->c->error.hint, sizeof k->c->error.hint, "a store of several members answers while a majority of them runs; --timeout waits longer%s",
                 request->op == HTC_KV_GET || request->op == HTC_KV_SCAN || request->op == HTC_KV_COUNT ? "" : "; the change may have been made all the same");
    return s;
}

htc_status kv_key(kv_call *k, const char *word, htc_bytes *key)
{
    *key = htc_bytes_of(word);
    if (key->len == 0 || key->len > HTC_KV_KEY_MAX)
        return cli_error(k->c, HTC_EUSAGE, "", "", "a key has 1 to %d bytes, this one %zu", HTC_KV_KEY_MAX, key->len);
    return HTC_OK;
}

/* ---- showing ---- */

void kv_put_bytes(json_t *o, const char *name, htc_bytes bytes)
{
    json_t *text = json_stringn(bytes.len ? bytes.data : "", bytes.len);
    char    hex_name[32];
    if (text) {
        json_object_set_new(o, name, text);
        return;
    }
    char *hex = must(malloc(2 * bytes.len + 1));
    for (size_t i = 0; i < bytes.len; i++)
        sprintf(hex + 2 * i, "%02x", ((const uint8_t *)bytes.data)[i]);
    snprintf(hex_name, sizeof hex_name, "%s_hex", name);
    json_object_set_new(o, hex_name, json_stringn(hex, 2 * bytes.len));
    free(hex);
}

json_t *kv_json(htc_bytes key, const htc_bytes *value, uint64_t version)
{
    json_t *o = json_object();
    kv_put_bytes(o, "key", key);
    if (value)
        kv_put_bytes(o, "value", *value);
    json_object_set_new(o, "version", json_integer((json_int_t)version));
    return o;
}

static htc_status say_version(kv_call *k, htc_bytes key, const htc_kv_result *r)
{
    if (k->c->json) {
        json_t *o = kv_json(key, NULL, r->version);
        put_json(k->c, o);
        json_decref(o);
    } else {
        printf("version %" PRIu64 "\n", r->version);
    }
    return HTC_OK;
}

/* The value as it is; a line's end only for eyes. */
static htc_status show_value(kv_call *k, htc_bytes key, const htc_kv_result *r)
{
    if (k->c->json) {
        json_t *o = kv_json(key, &r->value, r->version);
        put_json(k->c, o);
        json_decref(o);
        return HTC_OK;
    }
    fwrite(r->value.len ? r->value.data : "", 1, r->value.len, stdout);
    if (isatty(STDOUT_FILENO))
        putchar('\n');
    return HTC_OK;
}

/* ---- values of the command line ---- */

/* The word, or the file named with --file ("-": standard input); *taken is to be freed. */
static htc_status value_of(kv_call *k, const char *word, htc_bytes *value, char **taken)
{
    *taken = NULL;
    if ((word != NULL) == (k->file != NULL))
        return cli_error(k->c, HTC_EUSAGE, "", "", "one value is needed: a word, or --file FILE");
    if (word) {
        *value = htc_bytes_of(word);
        return HTC_OK;
    }
    FILE *f = strcmp(k->file, "-") == 0 ? stdin : fopen(k->file, "rb");
    if (!f)
        return cli_error(k->c, HTC_EINPUT, k->file, "", "cannot read: %s", strerror(errno));
    char  *data = must(malloc(HTC_KV_VALUE_MAX + 1));
    size_t n = fread(data, 1, HTC_KV_VALUE_MAX + 1, f);
    int    bad = ferror(f);
    if (f != stdin)
        fclose(f);
    *taken = data;
    *value = (htc_bytes){ data, n };
    if (bad)
        return cli_error(k->c, HTC_EINPUT, k->file, "", "cannot read: %s", strerror(errno));
    if (n > HTC_KV_VALUE_MAX)
        return cli_error(k->c, HTC_ETOOBIG, k->file, "", "a value has at most %u bytes", HTC_KV_VALUE_MAX);
    return HTC_OK;
}

/* ---- the subcommands ---- */

static htc_status get(kv_call *k)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = kv_key(k, k->w.at[0], &q.key);
    if (s == HTC_OK && k->space)
        return kv_space_get(k, q.key);
    if (s == HTC_OK)
        s = kv_ask(k, &q, &r);
    return s == HTC_OK ? show_value(k, q.key, &r) : s;
}

/* put, append, cas: a key and a value */
static htc_status change(kv_call *k, htc_kv_request *q)
{
    char         *taken = NULL;
    htc_kv_result r = { .size = sizeof r };
    htc_status    s = kv_key(k, k->w.at[0], &q->key);
    if (s == HTC_OK)
        s = value_of(k, k->w.count > 1 ? k->w.at[1] : NULL, &q->value, &taken);
    if (s == HTC_OK && k->space) {
        s = kv_space_change(k, q->op, q->key, q->value);
        free(taken);
        return s;
    }
    if (s == HTC_OK)
        s = kv_ask(k, q, &r);
    if (s == HTC_OK && r.status == HTC_MISMATCH) {
        k->c->found = kv_json(q->key, r.version ? &r.value : NULL, r.version);
        s = r.version ? cli_error(k->c, HTC_MISMATCH, k->w.at[0], "htc kv get shows it",
                                  "it is at version %" PRIu64 " now", r.version)
                      : cli_error(k->c, HTC_MISMATCH, k->w.at[0], "--version 0 makes it", "there is no such key");
    } else if (s == HTC_OK) {
        say_version(k, q->key, &r);
    }
    free(taken);
    return s;
}

static htc_status put(kv_call *k)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT };
    if (k->ttl >= 0 && k->ttl < 1e-3)
        return cli_error(k->c, HTC_EUSAGE, "--ttl", "90s, 5m, 2h, 1d", "a ttl is a millisecond or more");
    if (k->ttl >= 0 && k->space)
        return cli_error(k->c, HTC_EUSAGE, "--ttl", "leave out --namespace", "keys of an eventual namespace have no ttl");
    if (k->ttl >= 0)
        q.ttl = time_ns(k->ttl);
    htc_status s = change(k, &q);
    return s == HTC_EUNSUPPORTED && q.ttl ? cli_error(k->c, s, "--ttl", "leave it out", "this store has no ttl") : s;
}

static htc_status append(kv_call *k)
{
    return change(k, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_APPEND });
}

static htc_status cas(kv_call *k)
{
    if ((k->version >= 0) == (k->seen != NULL))
        return cli_error(k->c, HTC_EUSAGE, "", "", "cas needs either --version N (0: must not exist) or --seen VALUE");
    if (k->seen)
        return change(k, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VALUE, .seen = htc_bytes_of(k->seen) });
    return change(k, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .version = (uint64_t)k->version });
}

static htc_status delete (kv_call *k)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = kv_key(k, k->w.at[0], &q.key);
    if (s == HTC_OK && k->space)
        return kv_space_change(k, q.op, q.key, q.value);
    if (s == HTC_OK)
        s = kv_ask(k, &q, &r);
    return s == HTC_OK ? say_version(k, q.key, &r) : s;
}

static htc_status add(kv_call *k)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .delta = 1 };
    htc_kv_result  r = { .size = sizeof r };
    char          *end = NULL;
    htc_status     s = kv_key(k, k->w.at[0], &q.key);
    errno = 0;
    if (k->w.count > 1)
        q.delta = strtoll(k->w.at[1], &end, 10);
    if (s == HTC_OK && end && (*end || end == k->w.at[1] || errno))
        return cli_error(k->c, HTC_EUSAGE, "", "", "'%s' is no whole number of 64 bits", k->w.at[1]);
    if (s == HTC_OK)
        s = kv_ask(k, &q, &r);
    if (s == HTC_EINVAL)
        return cli_error(k->c, HTC_EINPUT, k->w.at[0], "htc kv get shows its value, htc kv put sets it",
                         "its value is no number in decimal");
    if (s == HTC_ETOOBIG)
        return cli_error(k->c, HTC_EINPUT, k->w.at[0], "htc kv get shows its value, htc kv put sets it", "the sum would leave 64 bits");
    if (s != HTC_OK)
        return s;
    if (k->c->json) {
        json_t *o = kv_json(q.key, NULL, r.version);
        json_object_set_new(o, "number", json_integer(r.number));
        put_json(k->c, o);
        json_decref(o);
    } else {
        printf("%" PRId64 "\n", r.number);
    }
    return HTC_OK;
}

/* One line a key, its control characters replaced; --json has the bytes. */
static void show_item(kv_call *k, json_t *list, const htc_kv_item *item)
{
    if (list) {
        json_array_append_new(list, kv_json(item->key, k->values ? &item->value : NULL, item->version));
        return;
    }
    char *text = must(malloc(item->key.len + item->value.len + 2));
    memcpy(text, item->key.data, item->key.len);
    text[item->key.len] = 0;
    htc_text_show(text);
    printf("%s", text);
    if (k->values) {
        memcpy(text, item->value.len ? item->value.data : "", item->value.len);
        text[item->value.len] = 0;
        htc_text_show(text);
        printf("\t%s", text);
    }
    putchar('\n');
    free(text);
}

static htc_status scan(kv_call *k)
{
    char           cursor[HTC_KV_KEY_MAX];
    int64_t        left = k->limit;
    json_t        *list = k->c->json ? json_array() : NULL;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .key = htc_bytes_of(k->w.count ? k->w.at[0] : "") };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s;
    do {
        size_t      at = 0;
        htc_kv_item item;
        q.limit = left > 0 && left < 1000 ? (uint32_t)left : 1000;
        s = kv_ask(k, &q, &r);
        for (uint32_t i = 0; s == HTC_OK && i < r.items; i++) {
            s = htc_kv_result_item(&r, &at, &item);
            if (s == HTC_OK)
                show_item(k, list, &item);
        }
        if (s != HTC_OK || (k->limit > 0 && (left -= r.items) <= 0) || r.cursor.len > sizeof cursor)
            break;
        memcpy(cursor, r.cursor.len ? r.cursor.data : "", r.cursor.len);
        q.cursor = (htc_bytes){ cursor, r.cursor.len };
    } while (q.cursor.len);
    if (list && s == HTC_OK)
        put_json(k->c, list);
    json_decref(list);
    return s;
}

static const subcommand subcommands[] = {
    [KV_GET] = { "get", "KEY", "Write the value of a key to standard output.", 1, 1, get, 0 },
    [KV_PUT] = { "put", "KEY VALUE | KEY --file FILE [--ttl TIME]", "Set a key.", 1, 2, put, 0 },
    [KV_DELETE] = { "delete", "KEY", "Remove a key.", 1, 1, delete, 0 },
    [KV_APPEND] = { "append", "KEY VALUE | KEY --file FILE", "Add bytes to the end of a value.", 1, 2, append, 0 },
    [KV_ADD] = { "add", "KEY [NUMBER]", "Add to a counter (1 if no number is given), and print it.", 1, 2, add, 0 },
    [KV_CAS] = { "cas", "KEY VALUE --version N | --seen OLD", "Set a key only if it is still as it was seen.", 1, 2, cas, 0 },
    [KV_SCAN] = { "scan", "[PREFIX] [--values] [--limit N]", "List the keys with a prefix.", 0, 1, scan, 0 },
    [KV_WATCH] = { "watch", "KEY | --prefix P [--count N] [--from V]", "Tell how a key is, and what becomes of it.", 0, 1, kv_watch, 0 },
    [KV_BACKUP] = { "backup", "FILE [--without-namespaces]", "Write all keys and values to a file.", 1, 1, kv_backup, 0 },
    [KV_RESTORE] = { "restore", "FILE [--replace] [--leased]", "Put back what a backup holds.", 1, 1, kv_restore, 0 },
    [KV_FSCK] = { "fsck", "DIR", "Look for damage in the files of a store that is not running.", 0, 1, kv_fsck, 1 },
    [KV_DUMP] = { "dump", "DIR [FILE] [--namespace NAME]", "Write what can be read there as a backup (--json: as text).", 0, 2, kv_dump, 1 },
    [KV_MEMBERS] = { "members", "[--buckets]", "Who keeps the store, what each of them keeps, and what changes.", 0, 0, kv_members, 0 },
    [KV_JOIN] = { "join", "[ID]", "Wait until a member is in; without ID: how one is added.", 0, 1, kv_join, 0 },
    [KV_LEAVE] = { "leave", "ID [--no-wait]", "Let a member go; its part of the keys moves to the others.", 1, 1, kv_leave, 0 },
    [KV_REPLACE] = { "replace", "OLD NEW [--no-wait]", "Wait until NEW has the place of OLD, which a member takes that is started with --replaces OLD.", 2, 2, kv_replace, 0 },
    [KV_REBALANCE] = { "rebalance", "ID --weight W [--no-wait]", "Give a member another share of the keys.", 1, 1, kv_rebalance, 0 },
    [KV_UNDO] = { "undo", "[--no-wait]", "Give up the change of members that is under way.", 0, 0, kv_undo, 0 },
    [KV_RATE] = { "rate", "BUCKETS", "How many buckets may move in a minute; 0: as many as can.", 1, 1, kv_rate, 0 },
    [KV_CLUSTER] = { "cluster", "--members N --base-port P | --stop", "Start or end members of one store, on this machine.", 0, 0, kv_cluster, 1 },
};

const char *kv_name(uint32_t which)
{
    return subcommands[which].name;
}

/* KV_COMMANDS: there is none of that name. */
static uint32_t find_subcommand(const char *name)
{
    uint32_t i = 0;
    while (i < KV_COMMANDS && strcmp(subcommands[i].name, name) != 0)
        i++;
    return i;
}

/* Behind what the options say of themselves. */
static void list_subcommands(void)
{
    puts("\nCommands:");
    for (size_t i = 0; i < KV_COMMANDS; i++)
        printf("  %-9s %-38s%s %s\n", subcommands[i].name, subcommands[i].args,
               strlen(subcommands[i].args) > 38 ? "\n                                                  " : "", subcommands[i].summary);
    puts("\nADDRESS is unix:PATH, tcp://HOST:PORT (with --key), redis://HOST:PORT or etcd://HOST:PORT. Several\n"
         "members of one store: unix:PATH,unix:PATH, tcp://HOST:PORT,HOST:PORT or etcd://HOST:PORT,HOST:PORT.\n"
         "Exit codes: 0 ok, 1 usage, 2 the value or the file is not what the command needs, or the store cannot do it,\n"
         "3 unreachable, 4 no such key, not allowed, or there already, 6 not now: no answer in time, no room, somebody else\n"
         "was faster (cas), or holds the files; 70 damaged.");
}

/* What a strong namespace has beside each socket of that list: a store of its own (htc-kvd/strong.h). NULL: there is none, or it cannot be
 * seen from here. */
static char *strong_addresses(const char *list, const char *space)
{
    char *all = must(strdup("")), *copy = must(strdup(list)), *more, *rest = copy;
    for (char *one; (one = strsep(&rest, ",")) && all;) {
        const char *path = strncmp(one, "unix:", 5) == 0 ? one + 5 : one, *slash = strrchr(path, '/');
        int         dir = slash ? (int)(slash - path) + 1 : 0;
        char       *place = must_print("%.*sspace-%s", dir, path, space);
        int         there = access(place, F_OK) == 0 && (path != one || all[0]);
        more = there ? must_print("%s%sunix:%s/%s", all, all[0] ? "," : "", place, path + dir) : NULL;
        free(place);
        free(all);
        all = more;
    }
    free(copy);
    return all;
}

/* One that is strong is reached as a store is; one that is eventual is named in each request. */
static htc_status choose_space(kv_call *k, uint32_t which, const char *address, char **strong)
{
    size_t len = k->space ? strlen(k->space) : 0;
    int    itself = k->space && space_is_default(k->space, len);
    if (!k->space || (!itself && !space_named(k->space, len)))
        return HTC_OK; /* eventual ones are told what is wrong by the store */
    *strong = itself ? must(strdup(address)) : strong_addresses(address, k->space);
    k->without_spaces |= (uint32_t)itself; /* who names one is given no other */
    if (!*strong && which != KV_GET && which != KV_PUT && which != KV_DELETE)
        return cli_error(k->c, HTC_EUSAGE, "--namespace", "an eventual namespace has get, put and delete; one of another host is reached at its own port by --store",
                         "there is no strong namespace %.40s at %.200s", k->space, address);
    if (*strong && (k->context || k->reconcile))
        return cli_error(k->c, HTC_EUSAGE, k->context ? "--context" : "--reconcile", "leave it out", "%.40s is strong: a key has one value there", k->space);
    if (*strong)
        k->space = NULL;
    return HTC_OK;
}

static htc_status nobody_answers(kv_call *k)
{
    char next[160];
    snprintf(next, sizeof next, "htc kv cluster --dir %.120s starts it", k->c->dir);
    return cli_error(k->c, HTC_EUNREACHABLE, k->c->dir, next, "no member of the cluster of this directory answers");
}

/* The members of a local cluster have their sockets one level below its directory. NULL: this is none; "": it does not run. */
static char *cluster_addresses(const char *dir)
{
    char *path, *all = dir_kind_of(dir) == DIR_CLUSTER ? must(strdup("")) : NULL;
    for (int i = 1; all && i <= KV_CLUSTER_MAX; i++) {
        path = must_print("%s/%d/kvd.sock", dir, i);
        if (access(path, F_OK) == 0) {
            char *more = must_print("%s%sunix:%s", all, all[0] ? "," : "", path);
            free(all);
            all = more;
        }
        free(path);
    }
    return all;
}

htc_store_options kv_reached(const kv_call *k, const char *address)
{
    return (htc_store_options){ .size = sizeof(htc_store_options),
                                .address = address,
                                .timeout_ns = k->timeout > 0 ? (htc_ns)(k->timeout * HTC_SECOND) : 0,
                                .key_path = k->key,
                                .password_path = k->password,
                                .ring_path = k->ring,
                                .server = k->server };
}

/* The store of the state directory, unless one is named. */
static htc_status open_store(kv_call *k, uint32_t which)
{
    char             *own = NULL, *strong = NULL;
    htc_store_options o = kv_reached(k, k->address);
    if (!k->address)
        own = cluster_addresses(k->c->dir);
    int cluster = own != NULL;
    if (!k->address && !own)
        own = must_print("unix:%s/kvd.sock", k->c->dir);
    o.address = own ? own : o.address;
    htc_status s = o.address[0] ? choose_space(k, which, o.address, &strong) : HTC_EUNREACHABLE;
    o.address = strong ? strong : o.address;
    if (s == HTC_OK)
        s = htc_store_open(NULL, &o, &k->store, &k->c->error);
    if (s == HTC_EUNREACHABLE && cluster)
        s = nobody_answers(k);
    k->places = s == HTC_OK ? must(strdup(o.address)) : NULL;
    free(strong);
    free(own);
    return s;
}

static htc_status check_options(const kv_call *k)
{
    if (k->timeout == 0 || k->timeout > TIMEOUT_MAX_S)
        return cli_error(k->c, HTC_EUSAGE, "--timeout", "10s is the default", "it is more than 0 and at most a year");
    if (k->limit == 0)
        return cli_error(k->c, HTC_EUSAGE, "--limit", "leave it out for all", "it is 1 or more");
    if (k->count == 0)
        return cli_error(k->c, HTC_EUSAGE, "--count", "leave it out for a watch without end", "it is 1 or more");
    if ((k->context || k->reconcile) && !k->space)
        return cli_error(k->c, HTC_EUSAGE, k->context ? "--context" : "--reconcile", "", "it goes with --namespace NAME");
    return HTC_OK;
}

htc_status kv_turn_to_next(kv_call *k)
{
    const char *next = k->places ? strchr(k->places, ',') : NULL;
    htc_store  *store;
    if (!next || strncmp(next + 1, "unix:", 5) != 0)
        return HTC_ENOTFOUND;
    char             *rest = must(strdup(next + 1));
    htc_store_options o = kv_reached(k, rest);
    free(k->places);
    k->places = rest;
    htc_status s = htc_store_open(NULL, &o, &store, &k->c->error);
    if (s != HTC_OK)
        return s;
    htc_store_close(k->store);
    k->store = store;
    return HTC_OK;
}

/* Trying again does not help, and the record is not to be written over: what is left is the way around it. */
static void say_way_around(cli *c)
{
    if (c->error.status != HTC_ECORRUPT) /* it is none, or of a place that was asked before */
        cli_error(c, HTC_ECORRUPT, "", "", "%s", htc_strerror(HTC_ECORRUPT));
    if (!c->error.hint[0])
        snprintf(c->error.hint, sizeof c->error.hint, "stop it: htc kv fsck DIR names the key, and what to do; htc kv dump DIR FILE saves the others");
}

htc_status run_kv(cli *c, int argc, char **argv)
{
    kv_call           k = { .c = c, .version = -1, .ttl = -1, .weight = -1, .members = -1, .base_port = -1, .shards = -1, .patience = -1, .timeout = -1, .count = -1, .from = -1, .limit = -1 };
    const char       *word = bring_forward(argc, argv);
    uint32_t          which = word ? find_subcommand(word) : KV_COMMANDS;
    const subcommand *sub = &subcommands[which < KV_COMMANDS ? which : 0];
    if (!word && wants_help(argc, argv)) {
        const command all = { "kv", "COMMAND [options]", "The key-value store, from the command line.", run_kv };
        htc_status    told = kv_parse(&k, &all, KV_COMMANDS, argc, argv);
        list_subcommands();
        words_free(&k.w);
        return told;
    }
    if (!word)
        return cli_error(c, HTC_EUSAGE, "", "htc kv --help lists the commands", "a command is missing");
    if (which == KV_COMMANDS)
        return cli_error(c, HTC_EUSAGE, "", "htc kv --help lists the commands", "there is no command kv %.60s", word);
    char          name[32];
    const command cmd = { name, sub->args, sub->summary, run_kv };
    snprintf(name, sizeof name, "kv %s", sub->name);
    htc_status s = kv_parse(&k, &cmd, which, argc - 1, argv + 1);
    if (s == HTC_OK)
        s = want_words(c, &cmd, &k.w, sub->words_min, sub->words_max);
    if (s == HTC_OK)
        s = check_options(&k);
    if (s == HTC_OK && !sub->offline)
        s = open_store(&k, which);
    if (s == HTC_OK)
        s = sub->run(&k);
    if (s == HTC_ECORRUPT && !sub->offline)
        say_way_around(c);
    htc_store_close(k.store);
    free(k.places);
    words_free(&k.w);
    return s;
}
