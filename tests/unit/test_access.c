/* Which system is meant, and as whom: options before the environment before the user's configuration, and logins that lie apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

#include "htcsched/access.h"

static char        top[64], home[96], state[96];
static htc_access *a;
static htc_error   told;

static void run(const char *format, const char *path)
{
    char command[256];
    snprintf(command, sizeof command, format, path);
    cr_assert(eq(int, system(command), 0), "%s", command);
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char  path[256];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

static void begin(void)
{
    snprintf(top, sizeof top, "/tmp/htc-access-XXXXXX");
    cr_assert(mkdtemp(top) != NULL);
    cr_assert(eq(int, chdir(top), 0));
    snprintf(home, sizeof home, "%s/home", top);
    snprintf(state, sizeof state, "%s/state", top);
    run("mkdir -p %s/.config/htcsched", home);
    run("mkdir -p %s/tokens", state);
}

static void end(void)
{
    htc_access_close(a);
    a = NULL;
    cr_assert(eq(int, chdir("/"), 0));
    run("rm -rf %s", top);
}

TestSuite(access, .init = begin, .fini = end);

static htc_status look(htc_access_options o)
{
    o.size = sizeof o;
    if (!o.home)
        o.home = home;
    htc_access_close(a);
    a = NULL;
    told = (htc_error){ 0 };
    return htc_access_open(&o, &a, &told);
}

static const char *of(uint32_t what)
{
    const char *text = htc_access_text(a, what);
    return text ? text : "";
}

static void is(uint32_t what, const char *right)
{
    cr_expect(eq(str, (char *)(uintptr_t)of(what), (char *)(uintptr_t)right), "%u", what);
}

static const char *below(const char *folder, const char *name)
{
    static char text[256];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

Test(access, what_is_said_counts_before_the_environment_and_that_before_the_configuration)
{
    put_file(home, ".config/htcsched/htc.ini", "[client]\ngateway = own:1\n");
    cr_assert(eq(int, look((htc_access_options){ .gateway = "said:1", .env_gateway = "env:1", .env_dir = "envdir" }), HTC_OK));
    is(HTC_ACCESS_GATEWAY, "said:1");
    is(HTC_ACCESS_DIR, "");
    is(HTC_ACCESS_SOCKET, "");
    cr_assert(eq(int, look((htc_access_options){ .dir = state, .env_gateway = "env:1" }), HTC_OK));
    is(HTC_ACCESS_GATEWAY, "");
    is(HTC_ACCESS_SOCKET, below(state, "gateway.sock"));
    is(HTC_ACCESS_KEY, "");
    cr_assert(eq(int, look((htc_access_options){ .env_gateway = "env:1", .env_dir = "envdir" }), HTC_OK));
    is(HTC_ACCESS_GATEWAY, "env:1");
    cr_assert(eq(int, look((htc_access_options){ .env_dir = "envdir" }), HTC_OK));
    is(HTC_ACCESS_DIR, "envdir");
    cr_assert(eq(int, look((htc_access_options){ .env_dir = "", .env_gateway = "" }), HTC_OK));
    is(HTC_ACCESS_GATEWAY, "own:1");
    /* A system in this directory is nearer than the configuration. */
    cr_assert(eq(int, mkdir("htc-state", 0700), 0));
    cr_assert(eq(int, look((htc_access_options){ .env_dir = "" }), HTC_OK));
    is(HTC_ACCESS_GATEWAY, "");
    is(HTC_ACCESS_DIR, "./htc-state");
    cr_expect(eq(int, look((htc_access_options){ .dir = state, .gateway = "said:1" }), HTC_EUSAGE));
    cr_expect(a == NULL);
}

Test(access, keys_lie_beside_the_configuration_or_where_it_says)
{
    cr_assert(eq(int, look((htc_access_options){ .gateway = "g:1" }), HTC_OK));
    is(HTC_ACCESS_KEY, below(home, ".config/htcsched/key"));
    is(HTC_ACCESS_RING, below(home, ".config/htcsched/ring"));
    is(HTC_ACCESS_SERVER, "");
    put_file(home, ".config/htcsched/htc.ini", "[client]\nkey = mine/key\nring = /etc/ring\nserver = head\n");
    cr_assert(eq(int, look((htc_access_options){ .gateway = "g:1" }), HTC_OK));
    is(HTC_ACCESS_KEY, below(home, ".config/htcsched/mine/key"));
    is(HTC_ACCESS_RING, "/etc/ring");
    is(HTC_ACCESS_SERVER, "head");
    cr_assert(eq(int, look((htc_access_options){ .gateway = "g:1", .config_home = "relative" }), HTC_OK));
    is(HTC_ACCESS_RING, "/etc/ring");
    cr_assert(eq(int, look((htc_access_options){ .gateway = "g:1", .config_home = state }), HTC_OK));
    is(HTC_ACCESS_KEY, below(state, "htcsched/key"));
    cr_expect(eq(int, look((htc_access_options){ .gateway = "g:1", .home = "no/absolute/path" }), HTC_ENOTFOUND));
    put_file(home, ".config/htcsched/htc.ini", "[client]\ngatway = x\n");
    cr_expect(eq(int, look((htc_access_options){ .gateway = "g:1" }), HTC_ECONFIG));
    cr_expect(strstr(told.text, "gatway") != NULL || strstr(told.where, "gatway") != NULL, "%s %s", told.text, told.where);
    cr_expect(eq(int, look((htc_access_options){ .dir = state }), HTC_OK), "a directory does not need it");
}

Test(access, a_token_is_that_of_the_file_else_of_the_login_else_the_operators)
{
    put_file(state, "operator", "operators-token\n");
    put_file(state, "tokens/ada", "adas-token\n");
    put_file(state, "user", "ada\n");
    cr_assert(eq(int, look((htc_access_options){ .dir = state }), HTC_OK));
    is(HTC_ACCESS_LOGINS, state);
    /* Who owns the directory is the operator, whoever logged in there last. */
    cr_assert(eq(int, htc_access_login(a, NULL, NULL, &told), HTC_OK));
    is(HTC_ACCESS_USER, "");
    is(HTC_ACCESS_TOKEN, "operators-token");
    cr_assert(eq(int, htc_access_login(a, "ada", NULL, &told), HTC_OK));
    is(HTC_ACCESS_TOKEN, "adas-token");
    cr_assert(eq(int, htc_access_login(a, "bob", NULL, &told), HTC_OK));
    is(HTC_ACCESS_TOKEN, "operators-token");
    put_file(top, "token", "of-the-file\r\nmore\n");
    cr_assert(eq(int, htc_access_login(a, "ada", below(top, "token"), &told), HTC_OK));
    is(HTC_ACCESS_TOKEN, "of-the-file");
    put_file(top, "token", "");
    cr_expect(eq(int, htc_access_login(a, "ada", below(top, "token"), &told), HTC_OK));
    is(HTC_ACCESS_TOKEN, ""); /* one without a word: none is sent, not the operator's either */
    cr_expect(eq(int, htc_access_login(a, "ada", below(top, "none"), &told), HTC_EINPUT));
    cr_expect(strstr(told.text, "cannot read the token") != NULL, "%s", told.text);
    cr_expect(eq(int, htc_access_login(a, "../ada", NULL, &told), HTC_EINVAL));
    cr_expect(eq(int, htc_access_login(a, "", NULL, &told), HTC_EINVAL));
}

/* Logins of two gateways do not mix, nor do those of a gateway and a directory; none reads the operator's token of what is here. */
Test(access, logins_at_gateways_lie_apart)
{
    char first[160], command[600];
    cr_assert(eq(int, look((htc_access_options){ .gateway = "one:1" }), HTC_OK));
    snprintf(first, sizeof first, "%.150s", of(HTC_ACCESS_LOGINS));
    cr_expect(strncmp(first, below(home, ".local/state/htcsched/"), strlen(below(home, ".local/state/htcsched/"))) == 0, "%s", first);
    snprintf(command, sizeof command, "mkdir -p %s/tokens && echo bob > %s/user && echo bobs > %s/tokens/bob", first, first, first);
    cr_assert(eq(int, system(command), 0));
    put_file(state, "operator", "operators-token\n");
    cr_assert(eq(int, htc_access_login(a, NULL, NULL, &told), HTC_OK));
    is(HTC_ACCESS_USER, "bob");
    is(HTC_ACCESS_TOKEN, "bobs");
    cr_assert(eq(int, htc_access_login(a, "ada", NULL, &told), HTC_OK));
    is(HTC_ACCESS_TOKEN, "");
    cr_assert(eq(int, look((htc_access_options){ .gateway = "two:1" }), HTC_OK));
    cr_expect(ne(str, (char *)(uintptr_t)of(HTC_ACCESS_LOGINS), first));
    cr_assert(eq(int, htc_access_login(a, NULL, NULL, &told), HTC_OK));
    is(HTC_ACCESS_USER, "");
    is(HTC_ACCESS_TOKEN, "");
}

Test(access, a_gateway_is_not_asked_without_a_key)
{
    htc_client *c = NULL;
    cr_assert(eq(int, look((htc_access_options){ .gateway = "127.0.0.1:1" }), HTC_OK));
    cr_expect(eq(int, htc_access_client(a, HTC_SECOND, &c, &told), HTC_EDENIED));
    cr_expect(c == NULL && strstr(told.text, "with a key alone") && strstr(told.hint, "htc keys enrol"), "%s", told.text);
    cr_expect(strstr(told.where, "/.config/htcsched/key") != NULL, "%s", told.where);
}

Test(access, nonsense_is_refused)
{
    htc_access *got = NULL;
    cr_expect(eq(int, htc_access_open(NULL, &got, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_access_open(&(htc_access_options){ .size = 1 }, &got, NULL), HTC_EINVAL));
    cr_expect(got == NULL && htc_access_text(NULL, HTC_ACCESS_DIR) == NULL);
    cr_expect(eq(int, htc_access_login(NULL, NULL, NULL, NULL), HTC_EINVAL));
    cr_assert(eq(int, look((htc_access_options){ .dir = state }), HTC_OK));
    cr_expect(htc_access_text(a, 99) == NULL);
}
