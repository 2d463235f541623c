/* Options by table: the same table is read by the parser and printed by --help, so they cannot differ. */
#include "htc.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 64 /* of a table: bits of cli.said */

void words_add(words *w, const char *word)
{
    w->at = must(realloc(w->at, (w->count + 1) * sizeof *w->at));
    w->at[w->count++] = word;
}

void words_free(words *w)
{
    free(w->at);
    *w = (words){ 0 };
}

htc_ns time_ns(double seconds)
{
    return seconds < (double)INT64_MAX / 1e9 ? (htc_ns)(seconds * 1e9) : (htc_ns)INT64_MAX;
}

static const opt *find_opt(const opt *opts, size_t n, const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < n; i++)
        if (letter ? opts[i].letter == letter : strlen(opts[i].name) == len && memcmp(opts[i].name, name, len) == 0)
            return &opts[i];
    return NULL;
}

/* But those that the command says something else of. */
static void print_options(const opt *opts, size_t n, const opt *said, size_t n_said)
{
    for (size_t i = 0; i < n; i++) {
        char left[64];
        if (opts[i].kind == OPT_ELSEWHERE || find_opt(said, n_said, opts[i].name, strlen(opts[i].name), 0))
            continue;
        snprintf(left, sizeof left, "%s%c%s--%s %s", opts[i].letter ? "-" : " ", opts[i].letter ? opts[i].letter : ' ',
                 opts[i].letter ? ", " : "  ", opts[i].name, opts[i].arg ? opts[i].arg : "");
        const char *alone = opts[i].kind == OPT_TIME ? "; a number is seconds" : opts[i].kind == OPT_WALLTIME ? "; a number is minutes" : "";
        printf("  %-30s %s%s\n", left, opts[i].help, alone);
    }
}

static htc_status store(cli *c, const opt *o, const char *value)
{
    htc_status s = HTC_OK;
    char      *end;
    switch (o->kind) {
    case OPT_FLAG:
        *(uint32_t *)o->into = 1;
        return HTC_OK;
    case OPT_TEXT:
        *(const char **)o->into = value;
        return HTC_OK;
    case OPT_LIST:
        words_add(o->into, value);
        return HTC_OK;
    case OPT_PAIR:
    case OPT_ELSEWHERE:
        return HTC_OK;
    case OPT_COUNT:
    case OPT_AMOUNT:
    case OPT_NUMBER:
        errno = 0;
        *(int64_t *)o->into = strtoll(value, &end, 10);
        s = errno || end == value || *end || (o->kind == OPT_COUNT && *(int64_t *)o->into < 0) ? HTC_EUSAGE : HTC_OK;
        if (o->kind == OPT_AMOUNT && (*(int64_t *)o->into < 1 || *(int64_t *)o->into > UINT32_MAX))
            s = HTC_EUSAGE;
        break;
    case OPT_TIME:
    case OPT_WALLTIME:
        s = htc_command_time(value, o->kind == OPT_TIME ? 1 : 60, o->into);
        break;
    case OPT_SIZE:
        s = htc_command_size(value, o->into);
        if (s == HTC_OK && *(uint64_t *)o->into == 0) /* as good as no option, and not what was meant */
            s = HTC_EUSAGE;
        break;
    case OPT_FACTOR: {
        char *behind;
        *(double *)o->into = strtod(value, &behind);
        s = *behind || behind == value || !(*(double *)o->into > 0 && *(double *)o->into < 1e12) ? HTC_EUSAGE : HTC_OK;
        break;
    }
    }
    if (s != HTC_OK) {
        char where[96];
        snprintf(where, sizeof where, "--%s", o->name);
        return cli_error(c, HTC_EUSAGE, where,
                         o->kind == OPT_TIME       ? "write 90s, 5m, 2h, 1d, HH:MM:SS or D-HH:MM:SS; a number is seconds"
                         : o->kind == OPT_WALLTIME ? "write 90s, 5m, 2h, 1d, HH:MM:SS or D-HH:MM:SS; a number is minutes"
                         : o->kind == OPT_SIZE ? "write 512M, 4G or a number of MiB"
                         : o->kind == OPT_FACTOR ? "write a number above 0, such as 0.01"
                                                 : "write a number",
                         "'%.80s' is not a %s", value,
                         o->kind == OPT_TIME || o->kind == OPT_WALLTIME ? "time"
                         : o->kind == OPT_SIZE   ? "size above 0"
                         : o->kind == OPT_FACTOR ? "factor"
                         : o->kind == OPT_NUMBER ? "whole number"
                         : o->kind == OPT_AMOUNT ? "number from 1 to 4294967295"
                                                 : "count");
    }
    return HTC_OK;
}

htc_status opt_set(cli *c, const opt *o, const char *value)
{
    return store(c, o, value);
}

int opt_was_said(const cli *c, size_t k)
{
    return k < OPTIONS_MAX && (c->said >> k & 1);
}

/* -5 and -.5 are values: no option is named by a digit. */
static int is_number(const char *word)
{
    const char *digit = word[1] == '.' ? word + 2 : word + 1;
    return word[0] == '-' && isdigit((unsigned char)*digit);
}

/* These are about a directory of this machine: its processes, files, store. */
static int works_here(const command *cmd)
{
    static const char *const names[] = { "up", "down", "flow", "kv", "keys" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(cmd->name, names[i], len) == 0 && (cmd->name[len] == ' ' || !cmd->name[len]))
            return 1;
    }
    return 0;
}

htc_status opt_parse(cli *c, const command *cmd, int argc, char **argv, const opt *opts, size_t n, words *rest)
{
    uint32_t  help = 0;
    int       here = works_here(cmd);
    const opt common[] = {
        { "dir", 0, OPT_TEXT, &c->said_dir, "DIR", "the system's state directory ($HTC_DIR, else ./htc-state)" },
        { "gateway", 0, here ? OPT_ELSEWHERE : OPT_TEXT, &c->said_gateway, "HOST:PORT", here ? "commands that ask a gateway alone" : "ask the gateway there, of several (HOST:PORT,...) the active one ($HTC_GATEWAY)" },
        { "user", 'u', OPT_TEXT, &c->user, "NAME", "act for this user" },
        { "token-file", 0, OPT_TEXT, &c->token_file, "FILE", "file with the token to send (that of `htc login`, else the operator's)" },
        { "timeout", 0, OPT_TIME, &c->timeout_s, "TIME", "give up where no answer comes for so long (30s)" },
        { "json", 0, OPT_FLAG, &c->json, NULL, "one JSON value on standard output, also for errors" },
        { "help", 'h', OPT_FLAG, &help, NULL, "this text" },
    };
    size_t n_common = sizeof common / sizeof common[0];
    *rest = (words){ .dashed = SIZE_MAX };
    c->said_dir = c->said_gateway = NULL;
    c->said = 0;
    assert(n <= OPTIONS_MAX);
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--") == 0) {
            rest->dashed = rest->count;
            for (i++; i < argc; i++)
                words_add(rest, argv[i]);
            break;
        }
        if (a[0] != '-' || a[1] == '\0' || is_number(a)) {
            words_add(rest, a);
            continue;
        }
        int         is_long = a[1] == '-';
        const char *equals = is_long ? strchr(a, '=') : NULL;
        size_t      len = is_long ? (equals ? (size_t)(equals - a) - 2 : strlen(a) - 2) : 0;
        const opt  *o = find_opt(opts, n, a + 2, len, is_long ? 0 : a[1]);
        const opt  *own = o;
        if (!o)
            o = find_opt(common, n_common, a + 2, len, is_long ? 0 : a[1]);
        char hint[160];
        snprintf(hint, sizeof hint, "htc %s --help lists its options%s", cmd->name, o ? "" : "; what is none, and begins with a dash, stands behind --");
        if (!o)
            return cli_error(c, HTC_EUSAGE, cmd->name, hint, "unknown option %.80s", a);
        if (o->kind == OPT_ELSEWHERE)
            return cli_error(c, HTC_EUSAGE, cmd->name, hint, "--%s is no option of it, but of %s", o->name, o->help);
        const char *value = is_long ? (equals ? equals + 1 : NULL) : (a[2] ? a + 2 : NULL);
        if (o->kind == OPT_FLAG && value)
            return cli_error(c, HTC_EUSAGE, a, hint, "this option takes no value");
        if (o->kind == OPT_PAIR) {
            if (value || i + 2 >= argc)
                return cli_error(c, HTC_EUSAGE, a, hint, "this option takes two words after it");
            ((const char **)o->into)[0] = argv[++i];
            ((const char **)o->into)[1] = argv[++i];
            continue;
        }
        if (o->kind != OPT_FLAG && !value) {
            if (i + 1 >= argc)
                return cli_error(c, HTC_EUSAGE, a, hint, "this option needs a value");
            value = argv[++i];
        }
        htc_status s = store(c, o, value);
        if (s != HTC_OK)
            return s;
        if (own && o->kind != OPT_LIST) /* a value of 0 is said, too */
            c->said |= UINT64_C(1) << (own - opts);
    }
    if (help) {
        printf("usage: htc %s%s%s\n\n%s\n\n", cmd->name, cmd->args[0] ? " " : "", cmd->args, cmd->summary);
        print_options(opts, n, NULL, 0);
        print_options(common, n_common, opts, n);
        return HTC_AGAIN;
    }
    if (here && c->said_dir)
        c->dir = c->said_dir;
    return here ? HTC_OK : system_settle(c, 0);
}

htc_status want_words(cli *c, const command *cmd, const words *w, size_t min, size_t max)
{
    if (w->count >= min && w->count <= max)
        return HTC_OK;
    char hint[160];
    snprintf(hint, sizeof hint, "usage: htc %s %s", cmd->name, cmd->args);
    if (w->count > max)
        return cli_error(c, HTC_EUSAGE, cmd->name, hint, "'%.80s' is one word too many", w->at[max]);
    return cli_error(c, HTC_EUSAGE, cmd->name, hint, "something is missing");
}

const char *bring_forward(int argc, char **argv)
{
    static const char *const with_word[] = { "--dir", "--gateway", "--user",    "-u",          "--token-file", "--store", "--namespace",
                                             "--key", "--ring",    "--server",    "--once",       "--role",
                                             "--for", "--members", "--base-port", "--engine",     "--durability", "--password-file",
                                             "--weight", "--uid", "--timeout", "--ttl", "--limit", "--file", "--seen", "--prefix",
                                             "--count", "--from", "--context", "--shards", "--patience" };
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            char *name = argv[i];
            memmove(&argv[2], &argv[1], (size_t)(i - 1) * sizeof *argv);
            return argv[1] = name;
        }
        for (size_t j = 0; j < sizeof with_word / sizeof *with_word; j++) {
            if (strcmp(argv[i], with_word[j]) == 0) {
                i++;
                break;
            }
        }
    }
    return NULL;
}

int wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return 1;
    }
    return 0;
}
