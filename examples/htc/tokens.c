/* Tokens: where a login keeps one, and which one a command sends. Who owns the state directory keeps them in it; others
 * keep theirs in a directory of their own, by the system's directory. */
#include "htc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_DIGITS 16 /* of the hash of the state directory's path */

static int owns(const char *dir)
{
    struct stat st;
    return stat(dir, &st) == 0 && st.st_uid == geteuid();
}

/* Gives DIR, or $XDG_STATE_HOME/htcsched/HASH; NULL without a home. */
static char *token_base(const cli *c)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char        hex[65], *real = realpath(c->dir, NULL), *path = NULL;
    uint8_t     hash[32];
    if (!real || owns(real)) {
        free(real);
        return must_dup(c->dir);
    }
    htc_content_hash((htc_bytes){ real, strlen(real) }, hash);
    htc_content_hex(hash, hex);
    hex[SYSTEM_DIGITS] = '\0';
    if (state && state[0] == '/')
        path = must_print("%s/htcsched/%s", state, hex);
    else if (home && home[0] == '/')
        path = must_print("%s/.local/state/htcsched/%s", home, hex);
    free(real);
    return path;
}

static htc_status no_home(cli *c)
{
    return cli_error(c, HTC_EDENIED, "", "name a file with --token-file", "there is no home directory for the token");
}

htc_status token_keep(cli *c, const char *user, const char *token, char **path)
{
    char *base = c->token_file ? NULL : token_base(c);
    *path = c->token_file ? must_dup(c->token_file) : NULL;
    if (!c->token_file && !base)
        return no_home(c);
    htc_status s = HTC_OK;
    if (base) {
        char *folder = must_print("%s/tokens", base), *last = must_print("%s/user", base);
        s = make_private_dirs(c, folder);
        if (s == HTC_OK && !owns(c->dir))
            s = write_secret(c, last, user);
        *path = must_print("%s/%s", folder, user);
        free(folder);
        free(last);
        free(base);
    }
    return s == HTC_OK ? write_secret(c, *path, token) : s;
}

static htc_status read_line(cli *c, const char *path, char **line)
{
    size_t     len = 0;
    htc_status s = read_file(c, path, 4096, line, &len);
    if (s == HTC_OK)
        (*line)[strcspn(*line, "\r\n")] = '\0';
    return s;
}

/* Who logged in here last, where nobody is named. */
static void name_last_user(cli *c, const char *base)
{
    char *path = must_print("%s/user", base), *name = NULL;
    if (!c->user && !owns(c->dir) && access(path, R_OK) == 0 && read_line(c, path, &name) == HTC_OK && valid_name(name)) {
        c->user = c->own_user = name;
        name = NULL;
    }
    free(name);
    free(path);
}

/* Gives the file of the token to send; NULL: none. */
static char *token_path(cli *c)
{
    char *base = token_base(c), *path = NULL;
    if (base)
        name_last_user(c, base);
    if (base && c->user)
        path = must_print("%s/tokens/%s", base, c->user);
    free(base);
    if (path && access(path, R_OK) == 0)
        return path;
    free(path);
    path = must_print("%s/operator", c->dir); /* its owner alone can read it */
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

htc_status token_find(cli *c)
{
    if (c->token || c->no_token)
        return HTC_OK;
    if (c->user && !valid_name(c->user))
        return cli_error(c, HTC_EUSAGE, "--user", "letters, digits, - _ . and no more than 63 of them",
                         "'%.70s' cannot be a user's name", c->user);
    char      *path = c->token_file ? must_dup(c->token_file) : token_path(c);
    htc_status s = path ? read_line(c, path, &c->token) : HTC_OK;
    free(path);
    return s;
}

htc_status token_forget(cli *c)
{
    char *base = token_base(c), *path = c->token_file ? must_dup(c->token_file) : NULL;
    if (!path && base && c->user)
        path = must_print("%s/tokens/%s", base, c->user);
    if (path)
        unlink(path);
    free(path);
    free(base);
    return HTC_OK;
}
