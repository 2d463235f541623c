/* Tokens: where a login keeps one, and which one a command sends (htcsched/access.h says both). Who owns the state directory keeps them in it; others
 * keep theirs in a directory of their own, by the system. */
#include "htc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int owns(const char *dir)
{
    struct stat st;
    return dir && stat(dir, &st) == 0 && st.st_uid == geteuid();
}

static htc_status no_home(cli *c)
{
    return cli_error(c, HTC_EDENIED, "", "name a file with --token-file", "there is no home directory for the token");
}

static htc_status settle(cli *c, const char *dir, const char *gateway, int here_alone)
{
    const char        *own_dir = getenv("HTC_DIR"), *own_gateway = getenv("HTC_GATEWAY"), *home = getenv("HOME");
    const char        *config_home = getenv("XDG_CONFIG_HOME"), *state_home = getenv("XDG_STATE_HOME");
    htc_access_options o = { .size = sizeof o, .dir = dir, .gateway = gateway, .env_dir = own_dir, .env_gateway = here_alone ? NULL : own_gateway,
                             .home = home, .config_home = config_home, .state_home = state_home };
    if (here_alone && !dir)
        o.dir = own_dir && own_dir[0] ? own_dir : HERE;
    htc_access *a = NULL;
    htc_status  s = htc_access_open(&o, &a, &c->error);
    if (s == HTC_EUSAGE)
        snprintf(c->error.hint, sizeof c->error.hint, "give --dir or --gateway");
    if (s != HTC_OK)
        return s;
    htc_access_close(c->access);
    c->access = a;
    c->gateway = htc_access_text(a, HTC_ACCESS_GATEWAY);
    if (!c->gateway)
        c->dir = htc_access_text(a, HTC_ACCESS_DIR);
    return HTC_OK;
}

htc_status system_settle(cli *c, int here_alone)
{
    return settle(c, c->said_dir, here_alone ? NULL : c->said_gateway, here_alone);
}

/* A command may have gone on to another directory. */
htc_status system_look(cli *c)
{
    const char *dir = htc_access_text(c->access, HTC_ACCESS_DIR);
    if (c->access && (c->gateway || (dir && strcmp(dir, c->dir) == 0)))
        return HTC_OK;
    char      *copy = must_dup(c->dir);
    htc_status s = settle(c, copy, NULL, 1);
    free(copy);
    return s;
}

htc_status token_keep(cli *c, const char *user, const char *token, char **path)
{
    const char *base = c->token_file ? NULL : htc_access_text(c->access, HTC_ACCESS_LOGINS);
    *path = c->token_file ? must_dup(c->token_file) : NULL;
    if (!c->token_file && !base)
        return no_home(c);
    htc_status s = HTC_OK;
    if (base) {
        char *folder = must_print("%s/tokens", base), *last = must_print("%s/user", base);
        s = make_private_dirs(c, folder);
        if (s == HTC_OK && (c->gateway || !owns(c->dir)))
            s = write_secret(c, last, user);
        *path = must_print("%s/%s", folder, user);
        free(folder);
        free(last);
    }
    return s == HTC_OK ? write_secret(c, *path, token) : s;
}

htc_status token_find(cli *c)
{
    if (c->token || c->no_token)
        return HTC_OK;
    if (c->user && !valid_name(c->user))
        return cli_error(c, HTC_EUSAGE, "--user", "letters, digits, - _ . and no more than 63 of them",
                         "'%.70s' cannot be a user's name", c->user);
    htc_status  s = htc_access_login(c->access, c->user, c->token_file, &c->error);
    const char *user = htc_access_text(c->access, HTC_ACCESS_USER), *token = htc_access_text(c->access, HTC_ACCESS_TOKEN);
    if (s == HTC_OK && user && !c->user)
        c->user = c->own_user = must_dup(user);
    if (s == HTC_OK && token)
        c->token = must_dup(token);
    return s;
}

htc_status token_forget(cli *c)
{
    const char *base = htc_access_text(c->access, HTC_ACCESS_LOGINS);
    char       *path = c->token_file ? must_dup(c->token_file) : base && c->user ? must_print("%s/tokens/%s", base, c->user) : NULL;
    if (path)
        unlink(path);
    free(path);
    return HTC_OK;
}
