/* htc keys: who is known, and by which key. Files of htcsched/keys.h; the daemons read them at their start and at SIGHUP. */
#include "htc.h"
#include "sub_options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "htcsched/keys.h"
#include "htcsched/store.h"

#define JOIN_S 5.0 /* until a refusal is believed; --timeout says otherwise */

typedef struct keys_call {
    cli        *c;
    words       w; /* behind the subcommand */
    const char *ring, *key, *once, *role_name, *server, *store;
    double      lasts; /* seconds */
    uint32_t    role, next, use, finish;
} keys_call;

typedef struct subcommand {
    const char *name, *args, *summary;
    size_t      words_min, words_max;
    htc_status (*run)(keys_call *k);
} subcommand;

static const char *const role_names[] = { "", "member", "host", "user" };
static const char *const state_names[] = { "", "current", "next", "revoked" };

static htc_status need(keys_call *k, const char *what, const char *value, const char *hint)
{
    return value ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "", hint, "%s is needed", what);
}

/* ---- key files ---- */

static htc_status say_public(keys_call *k, const char *path, const uint8_t *keys, size_t n)
{
    char    text[HTC_KEY_TEXT_MAX];
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        htc_key_write(HTC_KEY_PUBLIC, keys + i * HTC_KEY_BYTES, text);
        json_array_append_new(list, json_string(text));
        if (!k->c->json)
            puts(text);
    }
    if (k->c->json) {
        json_t *o = json_pack("{s:s,s:O}", "file", path, "public", list);
        put_json(k->c, o);
        json_decref(o);
    }
    json_decref(list);
    return HTC_OK;
}

static htc_status run_new(keys_call *k)
{
    uint8_t    public_key[HTC_KEY_BYTES];
    htc_status s = htc_keys_create(k->w.at[0], public_key, &k->c->error);
    if (s == HTC_EEXISTS)
        snprintf(k->c->error.hint, sizeof k->c->error.hint,
                 "htc keys show prints its public key, htc keys rotate adds one");
    return s == HTC_OK ? say_public(k, k->w.at[0], public_key, 1) : s;
}

/* The secrets do not leave this function. */
static htc_status publics_of(keys_call *k, const char *path, uint8_t *publics, size_t *n)
{
    uint8_t    secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    htc_status s = htc_keys_read(path, secrets, n, &k->c->error);
    for (size_t i = 0; s == HTC_OK && i < *n; i++)
        htc_key_public(secrets + i * HTC_KEY_BYTES, publics + i * HTC_KEY_BYTES);
    explicit_bzero(secrets, sizeof secrets);
    return s;
}

static htc_status run_show(keys_call *k)
{
    uint8_t    publics[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    size_t     n = 0;
    htc_status s = publics_of(k, k->w.at[0], publics, &n);
    return s == HTC_OK ? say_public(k, k->w.at[0], publics, n) : s;
}

/* A second key; --use: the second goes first; --finish: only the first stays. */
static htc_status run_rotate(keys_call *k)
{
    const char *path = k->w.at[0];
    uint8_t     secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES], first[HTC_KEY_BYTES];
    size_t      n = 0;
    if (k->use && k->finish)
        return cli_error(k->c, HTC_EUSAGE, "", "first --use, and --finish when nobody calls by the old key",
                         "one step at a time");
    htc_status s = htc_keys_read(path, secrets, &n, &k->c->error);
    if (s == HTC_OK && !k->use && !k->finish && n > 1)
        s = cli_error(k->c, HTC_EEXISTS, path, "htc keys rotate --use goes on", "there is a second key already");
    else if (s == HTC_OK && k->use && n < 2)
        s = cli_error(k->c, HTC_ENOTFOUND, path, "htc keys rotate makes one", "there is no second key");
    if (s == HTC_OK && k->use) {
        memcpy(first, secrets, sizeof first);
        memmove(secrets, secrets + HTC_KEY_BYTES, HTC_KEY_BYTES);
        memcpy(secrets + HTC_KEY_BYTES, first, sizeof first);
    } else if (s == HTC_OK && k->finish) {
        n = 1;
    } else if (s == HTC_OK) {
        s = htc_keys_random(secrets + HTC_KEY_BYTES, HTC_KEY_BYTES);
        n = 2;
    }
    if (s == HTC_OK)
        s = htc_keys_write(path, secrets, n, &k->c->error);
    explicit_bzero(secrets, sizeof secrets);
    explicit_bzero(first, sizeof first);
    return s == HTC_OK ? run_show(k) : s;
}

/* ---- ring files ---- */

typedef struct pin {
    keys_call  *k;
    const char *name;
    uint8_t     key[HTC_KEY_BYTES];
    size_t      n; /* changed */
} pin;

static htc_status pin_key(void *ctx, htc_keyring *ring)
{
    pin              *p = ctx;
    htc_keyring_entry e;
    htc_status s = htc_keyring_set(ring, p->name, p->k->role, p->k->next ? HTC_KEY_NEXT : HTC_KEY_CURRENT, p->key);
    if (s == HTC_EEXISTS && htc_keyring_find(ring, p->key, &e) == HTC_OK && strcmp(e.name, p->name) != 0)
        return cli_error(p->k->c, s, p->k->ring, "", "this key is pinned for %s", e.name);
    if (s == HTC_EEXISTS)
        return cli_error(p->k->c, s, p->k->ring, "take the same --role", "%s is pinned with another role", p->name);
    if (s == HTC_EDENIED)
        return cli_error(p->k->c, s, p->k->ring, "make another key", "this key was revoked, and does not come back");
    if (s == HTC_EFULL)
        return cli_error(p->k->c, s, p->k->ring, "htc keys revoke ends old ones", "%s has %d keys already", p->name,
                         HTC_KEYRING_LIVE_MAX);
    return s == HTC_EINVAL
               ? cli_error(p->k->c, HTC_EUSAGE, "", "", "a name has 1 to 63 of a-z, 0-9, dash, underscore and dot")
               : s;
}

static htc_status run_add(keys_call *k)
{
    pin        p = { .k = k, .name = k->w.at[0] };
    htc_error  why = { .status = 0 };
    htc_status s = need(k, "--ring FILE", k->ring, "the file of public keys, made if it is not there");
    if (s == HTC_OK && htc_key_read(HTC_KEY_PUBLIC, htc_bytes_of(k->w.at[1]), p.key, &why) != HTC_OK)
        s = cli_error(k->c, HTC_EUSAGE, "", "htc keys show prints it", "%s", why.text);
    if (s == HTC_OK)
        s = htc_keys_change_ring(k->ring, pin_key, &p, &k->c->error);
    if (s == HTC_OK && k->c->json) {
        json_t *o = json_pack("{s:s,s:s,s:s}", "name", p.name, "role", role_names[k->role], "state",
                              state_names[k->next ? HTC_KEY_NEXT : HTC_KEY_CURRENT]);
        put_json(k->c, o);
        json_decref(o);
    }
    return s;
}

/* A key, or all keys of a name: whoever had one of them could have announced the others. */
static htc_status revoke_keys(void *ctx, htc_keyring *ring)
{
    pin              *p = ctx;
    htc_keyring_entry e;
    uint8_t           key[HTC_KEY_BYTES];
    for (size_t i = 0; htc_keyring_at(ring, i, &e) == HTC_OK; i++) {
        if (e.state == HTC_KEY_REVOKED || (p->name ? strcmp(e.name, p->name) : memcmp(e.key, p->key, sizeof key)) != 0)
            continue;
        memcpy(key, e.key, sizeof key);
        htc_status s = htc_keyring_revoke(ring, key);
        if (s != HTC_OK)
            return s;
        p->n++;
    }
    return p->n ? HTC_OK
                : cli_error(p->k->c, HTC_ENOTFOUND, p->k->ring, "htc keys list shows them",
                            "no such key is in use there");
}

static htc_status run_revoke(keys_call *k)
{
    pin        p = { .k = k };
    htc_error  why = { .status = 0 };
    htc_status s = need(k, "--ring FILE", k->ring, "the file of public keys");
    if (strncmp(k->w.at[0], "pub-", 4) != 0)
        p.name = k->w.at[0];
    else if (s == HTC_OK && htc_key_read(HTC_KEY_PUBLIC, htc_bytes_of(k->w.at[0]), p.key, &why) != HTC_OK)
        s = cli_error(k->c, HTC_EUSAGE, "", "", "%s", why.text);
    if (s == HTC_OK)
        s = htc_keys_change_ring(k->ring, revoke_keys, &p, &k->c->error);
    if (s == HTC_OK && k->c->json) {
        json_t *o = json_pack("{s:I}", "revoked", (json_int_t)p.n);
        put_json(k->c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        printf("%zu revoked\n", p.n);
    }
    return s;
}

static htc_status run_list(keys_call *k)
{
    htc_keyring      *ring = NULL;
    htc_keyring_entry e;
    char              text[HTC_KEY_TEXT_MAX];
    table             t;
    json_t           *list = json_array();
    htc_status        s = need(k, "--ring FILE", k->ring, "the file of public keys");
    if (s == HTC_OK)
        s = htc_keyring_create(NULL, 0, &ring);
    if (s == HTC_OK)
        s = htc_keys_load_ring(k->ring, ring, &k->c->error);
    if (!k->c->json && s == HTC_OK)
        table_begin(&t, "ROLE", "NAME", "STATE", "KEY", NULL);
    for (size_t i = 0; s == HTC_OK && htc_keyring_at(ring, i, &e) == HTC_OK; i++) {
        htc_key_write(HTC_KEY_PUBLIC, e.key, text);
        if (k->c->json)
            json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "role", role_names[e.role], "name", e.name,
                                                  "state", state_names[e.state], "key", text));
        else
            table_row(&t, "%s\t%s\t%s\t%s", role_names[e.role], e.name, state_names[e.state], text);
    }
    if (k->c->json && s == HTC_OK)
        put_json(k->c, list);
    if (!k->c->json && s == HTC_OK)
        table_end(k->c, &t);
    json_decref(list);
    htc_keyring_destroy(ring);
    return s;
}

/* ---- enrolment ---- */

static htc_status run_enrol(keys_call *k)
{
    uint8_t    secret[HTC_KEY_BYTES];
    char       text[HTC_KEY_TEXT_MAX];
    double     lasts = k->lasts > 0 ? k->lasts : 3600;
    htc_status s =
        need(k, "--once FILE", k->once, "the file of open secrets that the daemon was given, made if it is not there");
    if (s == HTC_OK && lasts > 366 * 86400.0)
        s = cli_error(k->c, HTC_EUSAGE, "", "", "a secret is open for a year at most");
    if (s != HTC_OK)
        return s;
    uint64_t until = (uint64_t)time(NULL) + (uint64_t)(lasts < 1 ? 1 : lasts);
    s = htc_keys_once_add(k->once, k->w.at[0], k->role, (htc_ns)until * HTC_SECOND, secret, &k->c->error);
    if (s != HTC_OK)
        return s;
    htc_key_write(HTC_KEY_ONCE, secret, text);
    if (k->c->json) {
        json_t *o = json_pack("{s:s,s:s,s:I,s:s}", "name", k->w.at[0], "role", role_names[k->role], "expires",
                              (json_int_t)until, "secret", text);
        put_json(k->c, o);
        json_decref(o);
    } else {
        puts(text);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(text, sizeof text);
    return HTC_OK;
}

/* The first line of a file, or of standard input: a secret is no word of a command line, which all can see. */
static htc_status read_secret(keys_call *k, const char *path, uint8_t *secret)
{
    char      line[256] = "";
    htc_error why = { .status = 0 };
    FILE     *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    int       read = f && fgets(line, sizeof line, f);
    if (f && f != stdin)
        fclose(f);
    line[strcspn(line, "\r\n")] = 0;
    htc_status s = !read ? cli_error(k->c, HTC_EINPUT, path, "", "cannot be read")
                   : htc_key_read(HTC_KEY_ONCE, htc_bytes_of(line), secret, &why) != HTC_OK
                       ? cli_error(k->c, HTC_EINPUT, path, "htc keys enrol prints it over there", "%s", why.text)
                       : HTC_OK;
    explicit_bzero(line, sizeof line);
    return s;
}

/* As long as the whole command may last, or the library's own time for a connection. */
static htc_status join_once(keys_call *k, const htc_store_options *asked, double until)
{
    htc_store_options settled = *asked, *o = &settled;
    if (k->c->timeout_s > 0) {
        double left = until - now_s();
        settled.timeout_ns = left > 0 ? time_ns(left) + 1 : 1;
    }
    htc_store *store = NULL;
    if (strncmp(o->address, "tcp://", 6) == 0)
        return htc_keys_join(&(htc_keys_join_options){ .size = sizeof(htc_keys_join_options), .address = o->address + 6, .key_path = k->key, .ring_path = k->ring,
                                                       .server = k->server, .secret = o->once, .role = k->role, .timeout_ns = o->timeout_ns }, &k->c->error);
    htc_status s = htc_store_open(NULL, o, &store, &k->c->error);
    htc_store_close(store);
    return s;
}

/* A daemon knows a secret when it has looked at its files, up to a second after htc keys enrol, or was told to: who is refused before asks again. */
static htc_status join_patiently(keys_call *k, const htc_store_options *o)
{
    double     until = now_s() + (k->c->timeout_s > 0 ? k->c->timeout_s : JOIN_S);
    htc_status s = join_once(k, o, until);
    while (s == HTC_EDENIED && now_s() < until) {
        htc_error refusal = k->c->error;
        pause_ms(300);
        k->c->error = (htc_error){ .status = HTC_OK };
        s = join_once(k, o, until);
        if (s == HTC_ETIMEDOUT && k->c->timeout_s > 0) { /* the time was up: what was said before is why */
            k->c->error = refusal;
            return HTC_EDENIED;
        }
    }
    return s;
}

static htc_status run_join(keys_call *k)
{
    uint8_t           secret[HTC_KEY_BYTES] = { 0 };
    struct stat       st;
    htc_store_options o = { .size = sizeof o,
                            .address = k->w.at[0],
                            .key_path = k->key,
                            .ring_path = k->ring,
                            .server = k->server,
                            .role = k->role,
                            .once = secret };
    htc_status        s = need(k, "--key FILE", k->key, "one's own key file, made if it is not there");
    if (s == HTC_OK)
        s = need(k, "--ring FILE", k->ring, "the file of public keys, made if it is not there");
    if (s == HTC_OK)
        s = need(k, "--server NAME", k->server, "under which name its key is to be pinned here");
    if (s == HTC_OK)
        s = need(k, "--once FILE", k->once, "the secret that htc keys enrol printed over there; -: standard input");
    if (s == HTC_OK)
        s = read_secret(k, k->once, secret);
    if (s == HTC_OK && stat(k->key, &st) != 0)
        s = htc_keys_create(k->key, NULL, &k->c->error);
    if (s == HTC_OK)
        s = join_patiently(k, &o);
    explicit_bzero(secret, sizeof secret);
    if (s == HTC_OK && k->c->json) {
        json_t *reply = json_pack("{s:s,s:s}", "server", k->server, "ring", k->ring);
        put_json(k->c, reply);
        json_decref(reply);
    } else if (s == HTC_OK) {
        printf("%s is known in %s now, and knows this key\n", k->server, k->ring);
    }
    return s;
}

enum { KEYS_NEW, KEYS_SHOW, KEYS_ADD, KEYS_LIST, KEYS_REVOKE, KEYS_ROTATE, KEYS_ENROL, KEYS_JOIN, KEYS_COMMANDS };
#define OF(command) (1u << KEYS_##command)

static const subcommand subcommands[KEYS_COMMANDS] = {
    [KEYS_NEW] = { "new", "FILE", "Make a key file, and print its public key.", 1, 1, run_new },
    [KEYS_SHOW] = { "show", "FILE", "Print the public keys of a key file.", 1, 1, run_show },
    [KEYS_ADD] = { "add", "NAME PUBLIC --ring FILE [--role ROLE] [--next]", "Pin a public key.", 2, 2, run_add },
    [KEYS_LIST] = { "list", "--ring FILE", "List the keys of a ring.", 0, 0, run_list },
    [KEYS_REVOKE] = { "revoke", "NAME|PUBLIC --ring FILE", "Refuse a key, or all keys of a name, for ever.", 1, 1, run_revoke },
    [KEYS_ROTATE] = { "rotate", "FILE [--use | --finish]", "Add a second key; put it first; drop the old one.", 1, 1, run_rotate },
    [KEYS_ENROL] = { "enrol", "NAME --once FILE [--role ROLE] [--for TIME]", "Print a secret that lets somebody in once.", 1, 1,
      run_enrol },
    [KEYS_JOIN] = { "join", "ADDRESS --server NAME --once FILE ...", "Show such a secret: each side pins the other's key.", 1, 1,
      run_join },
};

static const char *keys_name(uint32_t which)
{
    return subcommands[which].name;
}

/* KEYS_COMMANDS: there is none of that name. */
static uint32_t find_subcommand(const char *name)
{
    uint32_t i = 0;
    while (i < KEYS_COMMANDS && strcmp(subcommands[i].name, name) != 0)
        i++;
    return i;
}

static void list_subcommands(void)
{
    puts("\nCommands:");
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        printf("  %-7s %-51s %s\n", subcommands[i].name, subcommands[i].args, subcommands[i].summary);
    puts("\nKey files and files of secrets are for their owner alone (0600); a ring is for all to read. Daemons read "
         "them anew at\n"
         "SIGHUP.");
}

static htc_status read_role(keys_call *k)
{
    for (uint32_t i = HTC_KEY_MEMBER; i <= HTC_KEY_USER; i++)
        if (strcmp(k->role_name ? k->role_name : "user", role_names[i]) == 0) {
            k->role = i;
            return HTC_OK;
        }
    return cli_error(k->c, HTC_EUSAGE, "", "take member, host or user", "there is no role %.40s", k->role_name);
}

/* Keys are kept in files: standard output is none, and a file of that name is what nobody means. */
static htc_status are_files(keys_call *k, const char *sub)
{
    const char *written[] = { strcmp(sub, "new") == 0 ? k->w.at[0] : NULL, k->ring, k->key, strcmp(sub, "enrol") == 0 ? k->once : NULL };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (written[i] && out_is_stdout(written[i]))
            return cli_error(k->c, HTC_EUSAGE, "-", "name a file", "keys are kept in a file");
    return HTC_OK;
}

static htc_status keys_parse(keys_call *k, const command *cmd, uint32_t which, int argc, char **argv)
{
    const sub_opt rows[] = {
        { OF(ADD) | OF(LIST) | OF(REVOKE) | OF(JOIN), { "ring", 0, OPT_TEXT, &k->ring, "FILE", "the public keys that are known" } },
        { OF(JOIN), { "key", 0, OPT_TEXT, &k->key, "FILE", "one's own key file" } },
        { OF(JOIN), { "server", 0, OPT_TEXT, &k->server, "NAME", "whose key it is that answers" } },
        { OF(ENROL), { "once", 0, OPT_TEXT, &k->once, "FILE", "open secrets" } },
        { OF(JOIN), { "once", 0, OPT_TEXT, &k->once, "FILE", "the secret (-: standard input)" } },
        { OF(ADD) | OF(ENROL) | OF(JOIN), { "role", 0, OPT_TEXT, &k->role_name, "ROLE", "member (of the store), host or user (default)" } },
        { OF(ENROL), { "for", 0, OPT_TIME, &k->lasts, "TIME", "how long the secret is good; default 1h" } },
        { OF(ADD), { "next", 0, OPT_FLAG, &k->next, NULL, "it will be in use, and is let in already" } },
        { OF(ROTATE), { "use", 0, OPT_FLAG, &k->use, NULL, "put the second key first" } },
        { OF(ROTATE), { "finish", 0, OPT_FLAG, &k->finish, NULL, "keep the first key alone" } },
    };
    const sub_opts all = { rows, sizeof rows / sizeof *rows, KEYS_COMMANDS, keys_name };
    return sub_opt_parse(k->c, cmd, &all, which, argc, argv, &k->w);
}

htc_status run_keys(cli *c, int argc, char **argv)
{
    keys_call         k = { .c = c };
    const char       *word = bring_forward(argc, argv);
    uint32_t          which = word ? find_subcommand(word) : KEYS_COMMANDS;
    const subcommand *sub = &subcommands[which < KEYS_COMMANDS ? which : 0];
    if (!word && wants_help(argc, argv)) {
        const command all = { "keys", "COMMAND [options]", "Keys of secure connections between machines.", run_keys };
        htc_status    told = keys_parse(&k, &all, KEYS_COMMANDS, argc, argv);
        list_subcommands();
        words_free(&k.w);
        return told;
    }
    if (which == KEYS_COMMANDS)
        return cli_error(c, HTC_EUSAGE, "", "htc keys --help lists the commands",
                         word ? "there is no command keys %.60s" : "a command is missing%.0s", word ? word : "");
    char          name[32];
    const command cmd = { name, sub->args, sub->summary, run_keys };
    snprintf(name, sizeof name, "keys %s", sub->name);
    htc_status s = keys_parse(&k, &cmd, which, argc - 1, argv + 1);
    if (s == HTC_OK)
        s = want_words(c, &cmd, &k.w, sub->words_min, sub->words_max);
    if (s == HTC_OK)
        s = read_role(&k);
    if (s == HTC_OK)
        s = are_files(&k, sub->name);
    if (s == HTC_OK)
        s = sub->run(&k);
    words_free(&k.w);
    return s;
}
