/* Users: adding them, and logging in. A password is never on the command line, where everybody's `ps` would show it. */
#include "htc.h"
#include "sub_options.h"

#include "htcsched/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define PASSWORD_MAX 1024

static void forget(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

/* One line from the terminal, not shown. Gives it; NULL without a terminal. */
static char *ask_terminal(const char *prompt)
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return NULL;
    struct termios before, quiet;
    sigset_t       block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigaddset(&block, SIGTSTP);
    sigprocmask(SIG_BLOCK, &block, &old); /* the echo has to come back */
    char *line = NULL;
    if (tcgetattr(fd, &before) == 0) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(fd, TCSAFLUSH, &quiet);
        dprintf(fd, "%s", prompt);
        line = must(calloc(1, PASSWORD_MAX + 1));
        ssize_t got = read(fd, line, PASSWORD_MAX);
        line[got > 0 ? got : 0] = '\0';
        line[strcspn(line, "\r\n")] = '\0';
        dprintf(fd, "\n");
        tcsetattr(fd, TCSAFLUSH, &before);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(fd);
    return line;
}

static htc_status get_password(cli *c, const char *file, const char *user, uint32_t twice, char **password)
{
    if (file) {
        size_t     len;
        htc_status s = read_file(c, strcmp(file, "-") == 0 ? "/dev/stdin" : file, PASSWORD_MAX, password, &len);
        if (s != HTC_OK)
            return s;
        (*password)[strcspn(*password, "\r\n")] = '\0';
    } else {
        char *prompt = must_print("password of %s: ", user);
        *password = ask_terminal(prompt);
        free(prompt);
        if (!*password)
            return cli_error(c, HTC_EUSAGE, "", "--password-file FILE reads it from a file, - from standard input",
                             "no terminal to ask for the password");
        if (twice) {
            char *again = ask_terminal("once more: ");
            int   same = again && strcmp(again, *password) == 0;
            forget(again);
            if (!same) {
                forget(*password);
                *password = NULL;
                return cli_error(c, HTC_EUSAGE, "", "type them again", "the two passwords differ");
            }
        }
    }
    if (!(*password)[0]) {
        forget(*password);
        *password = NULL;
        return cli_error(c, HTC_EUSAGE, file ? file : "", "", "the password is empty");
    }
    return HTC_OK;
}

/* UID:GID, UID or the name of an account of this machine. text NULL: an account of the user's own name, if root's system is here. */
static htc_status find_uid(cli *c, const char *text, const char *name, json_t *request)
{
    struct stat    st;
    char          *end = NULL;
    uintmax_t      uid = text ? strtoumax(text, &end, 10) : 0, gid = 0;
    int            number = text && end != text && (*end == ':' || !*end);
    struct passwd *account = NULL;
    if (!text && (c->gateway || stat(c->dir, &st) != 0 || st.st_uid != 0 || !(account = getpwnam(name))))
        return HTC_OK;
    if (number && *end == ':') {
        const char *from = end + 1;
        gid = strtoumax(from, &end, 10);
        number = end != from && !*end;
    } else if (!account) {
        account = number ? uid < UINT32_MAX ? getpwuid((uid_t)uid) : NULL : getpwnam(text);
        number = 0;
    }
    if (account) {
        uid = account->pw_uid;
        gid = account->pw_gid;
    }
    if ((!number && !account) || uid >= UINT32_MAX || gid >= UINT32_MAX)
        return cli_error(c, HTC_EUSAGE, "--uid", "say an account's name, its UID, or UID:GID", "'%.60s' is no account of this machine", text);
    json_object_set_new(request, "uid", json_integer((json_int_t)uid));
    json_object_set_new(request, "gid", json_integer((json_int_t)gid));
    return HTC_OK;
}

static htc_status remove_user(cli *c, const char *name)
{
    json_t    *answer;
    htc_status s = api_call(c, json_pack("{s:s, s:s}", "op", "user.rm", "name", name), 0, &answer);
    if (s != HTC_OK)
        return s;
    if (c->json)
        put_json(c, answer);
    else
        printf("user %s is removed\n", name);
    json_decref(answer);
    return HTC_OK;
}

typedef struct user_call {
    const char *file, *uid;
    int64_t     weight; /* -1: not given */
    words       w;
} user_call;

enum { USER_ADD, USER_SET, USER_RM, USER_COMMANDS };
#define CHANGES (1u << USER_ADD | 1u << USER_SET)

static const struct {
    const char *name, *args, *summary;
} user_commands[USER_COMMANDS] = {
    [USER_ADD] = { "add", "NAME [--weight W] [--uid UID[:GID]] [--password-file F]", "Add a user (the operator only)." },
    [USER_SET] = { "set", "NAME [--weight W] [--uid UID[:GID]] [--password-file F]", "Change a user (the operator only)." },
    [USER_RM] = { "rm", "NAME", "Remove a user without jobs (the operator only)." },
};

static const char *user_name(uint32_t which)
{
    return user_commands[which].name;
}

static htc_status user_parse(cli *c, user_call *u, uint32_t which, int argc, char **argv)
{
    char          name[16];
    const command one = { name, which < USER_COMMANDS ? user_commands[which].args : "", which < USER_COMMANDS ? user_commands[which].summary : "", run_user };
    const sub_opt rows[] = {
        { CHANGES, { "weight", 0, OPT_COUNT, &u->weight, "W", "share relative to others (1)" } },
        { CHANGES, { "password-file", 0, OPT_TEXT, &u->file, "F", "read the password from a file; - standard input" } },
        { CHANGES, { "uid", 0, OPT_TEXT, &u->uid, "UID[:GID]", "the account whose uid the user's tasks get where root runs the system (NAME)" } },
    };
    const sub_opts all = { rows, sizeof rows / sizeof *rows, USER_COMMANDS, user_name };
    if (which == USER_COMMANDS)
        return sub_opt_parse(c, find_command("user"), &all, which, argc, argv, &u->w);
    snprintf(name, sizeof name, "user %s", user_name(which));
    htc_status s = sub_opt_parse(c, &one, &all, which, argc - 1, argv + 1, &u->w);
    return s == HTC_OK ? want_words(c, &one, &u->w, 1, 1) : s;
}

static htc_status change_user(cli *c, const user_call *u, const char *name, int set)
{
    char      *password = NULL;
    json_t    *answer;
    htc_status s = !set || u->file ? get_password(c, u->file, name, 1, &password) : HTC_OK;
    if (s != HTC_OK) {
        forget(password);
        return s;
    }
    json_t *r = json_pack("{s:s, s:s}", "op", set ? "user.set" : "user.add", "name", name);
    if (password)
        j_add(&r, "password", password);
    forget(password);
    if (u->weight >= 0)
        json_object_set_new(r, "weight", json_integer(u->weight));
    if (!set || u->uid)
        s = find_uid(c, u->uid, name, r);
    if (s != HTC_OK) {
        json_decref(r);
        return s;
    }
    s = api_call(c, r, 0, &answer);
    if (s != HTC_OK)
        return s;
    if (c->json)
        put_json(c, answer);
    else
        printf("user %s\n", name);
    put_warnings(answer);
    json_decref(answer);
    return s;
}

htc_status run_user(cli *c, int argc, char **argv)
{
    user_call   u = { .weight = -1 };
    const char *word = bring_forward(argc, argv);
    uint32_t    which = 0;
    while (which < USER_COMMANDS && (!word || strcmp(user_name(which), word) != 0))
        which++;
    htc_status s = user_parse(c, &u, which, argc, argv);
    if (s == HTC_OK && which == USER_COMMANDS)
        s = cli_error(c, HTC_EUSAGE, "user", "htc user add NAME, htc user set NAME --weight W, htc user rm NAME",
                      word ? "'%.60s' is not known" : "something is missing%.0s", word ? word : "");
    const char *name = s == HTC_OK ? u.w.at[0] : "";
    if (s == HTC_OK && !valid_name(name))
        s = cli_error(c, HTC_EUSAGE, "user", "letters, digits, - _ . and no more than 63 of them",
                      "'%.70s' cannot be a user's name", name);
    if (s == HTC_OK)
        s = which == USER_RM ? remove_user(c, name) : change_user(c, &u, name, which == USER_SET);
    words_free(&u.w);
    return s;
}

static htc_status keep_token(cli *c, const char *user, const char *token)
{
    char      *path = NULL;
    htc_status s = token_keep(c, user, token, &path);
    if (s == HTC_OK && !c->json)
        printf("logged in as %s; the token is in %s\n", user, path);
    free(path);
    return s;
}

htc_status run_login(cli *c, int argc, char **argv)
{
    const char    *file = NULL;
    words          w;
    const opt      opts[] = { { "password-file", 0, OPT_TEXT, &file, "F",
                                "read the password from a file; - standard input" } };
    const command *cmd = find_command("login");
    char          *password = NULL;
    json_t        *answer;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK && !valid_name(w.at[0]))
        s = cli_error(c, HTC_EUSAGE, "login", "", "'%.70s' cannot be a user's name", w.at[0]);
    if (s == HTC_OK)
        s = get_password(c, file, w.at[0], 0, &password);
    if (s == HTC_OK) {
        c->user = NULL;
        c->no_token = 1;
        s = api_call(c, json_pack("{s:s, s:s, s:s}", "op", "login", "name", w.at[0], "password", password), 0, &answer);
    }
    if (s == HTC_OK) {
        s = keep_token(c, w.at[0], j_str(answer, "token"));
        if (s == HTC_OK && c->json)
            put_json(c, answer);
        json_decref(answer);
    }
    forget(password);
    words_free(&w);
    return s;
}

htc_status run_logout(cli *c, int argc, char **argv)
{
    uint32_t       all = 0;
    words          w;
    const opt      opts[] = { { "all", 0, OPT_FLAG, &all, NULL, "every login of the user, on every machine and terminal" } };
    const command *cmd = find_command("logout");
    json_t        *answer;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 1);
    if (s == HTC_OK && w.count)
        c->user = w.at[0];
    if (s == HTC_OK)
        s = api_call(c, json_pack("{s:s, s:b}", "op", "logout", "all", (int)all), 0, &answer);
    /* One that does not count any more is of no use either. */
    if (s == HTC_OK || s == HTC_EAUTH || s == HTC_EEXPIRED)
        token_forget(c);
    if (s == HTC_OK) {
        if (c->json)
            put_json(c, answer);
        else
            printf("%s is logged out\n", j_str(answer, "name"));
        json_decref(answer);
    }
    words_free(&w);
    return s;
}
