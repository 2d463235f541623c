/* Policies in shared objects: what a file adds is there, and a file that is refused adds nothing and says why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/config.h"
#include "htcsched/policy_file.h"
#include "htcsched/steal.h"

#define OBJECT(name) OBJECT_DIR "/" name ".so"

static htc_registry *builtin(void)
{
    htc_registry *r = NULL;
    cr_assert(htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK);
    return r;
}

static size_t stealers(const htc_registry *r)
{
    size_t n = 0;
    while (htc_registry_name(r, HTC_REGISTRY_STEAL, n))
        n++;
    return n;
}

Test(policy_file, adds_all_that_a_file_has)
{
    htc_registry           *r = builtin(), *other = builtin();
    const htc_steal_policy *counting = NULL, *again = NULL;
    htc_error               e;
    size_t                  n = stealers(r);
    cr_assert(eq(int, htc_policy_load(r, OBJECT("policies_good"), 0, &e), HTC_OK), "%s", e.text);
    cr_expect(stealers(r) == n + 2);
    cr_assert(eq(int, htc_steal_find(r, "counting", &counting), HTC_OK));
    cr_expect(eq(int, htc_policy_load(other, OBJECT("policies_good"), 0, NULL), HTC_OK));
    cr_assert(eq(int, htc_steal_find(other, "counting", &again), HTC_OK));
    cr_expect(counting == again, "a file is loaded once");
    htc_registry_destroy(other);
    htc_registry_destroy(r);
}

static uint32_t asks_whom(const htc_steal_policy *policy)
{
    htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
    htc_steal_thief   thief;
    htc_rng           rng = { 1 };
    uint32_t          whom = 0, count = 0;
    o.policy = policy;
    cr_assert(htc_steal_start(8, 0, 0, &thief) == HTC_OK && htc_steal_ask(&thief, &o, 0, &rng, 1, &whom, &count) == HTC_OK && count == 1);
    return whom;
}

Test(policy_file, is_asked_anew_for_each_registry)
{
    htc_registry           *r = builtin(), *other = builtin();
    const htc_steal_policy *counting = NULL;
    cr_assert(htc_policy_load(r, OBJECT("policies_good"), 0, NULL) == HTC_OK && htc_steal_find(r, "counting", &counting) == HTC_OK);
    uint32_t first = asks_whom(counting), second = asks_whom(counting);
    cr_expect(first != second, "it remembers");
    cr_assert(htc_policy_load(other, OBJECT("policies_good"), 0, NULL) == HTC_OK && htc_steal_find(other, "counting", &counting) == HTC_OK);
    cr_expect(asks_whom(counting) == first, "and has forgotten it in another registry");
    htc_registry_destroy(other);
    htc_registry_destroy(r);
}

Test(policy_file, says_why_it_refuses_a_file)
{
    static const struct {
        const char *file;
        htc_status  status;
        const char *text, *hint;
    } cases[] = {
        { OBJECT("policies_no_abi"), HTC_EVERSION, "it has no htc_policy_abi", "HTC_POLICY_FILE;" },
        { OBJECT("policies_other_abi"), HTC_EVERSION, "it is for version 2 of htcsched/policy_file.h, and this is version 1", "compile it anew" },
        { OBJECT("policies_no_register"), HTC_ENOTFOUND, "it has no function htc_policy_register", "define it" },
        { OBJECT("policies_nothing"), HTC_EINPUT, "it adds no policy", "htc_steal_register" },
        { OBJECT("policies_taken"), HTC_EEXISTS, "there is a steal policy called random already", "another name" },
        { OBJECT("policies_newer"), HTC_EABI, "an options struct is newer than this library", "headers of this version" },
        { OBJECT("policies_other_library"), HTC_EVERSION, "it brings another copy of the library", "shared library" },
        { OBJECT_DIR "/there-is-none.so", HTC_EINPUT, "No such file or directory", "mine.so" },
        { OBJECT_DIR, HTC_EINPUT, "", "cc -shared -fPIC" },
        { SOURCE, HTC_EINPUT, "", "cc -shared -fPIC" },
    };
    htc_registry *r = builtin();
    size_t        n = stealers(r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_error e = { 0 };
        cr_expect(eq(int, htc_policy_load(r, cases[i].file, 0, &e), cases[i].status), "%s: %s", cases[i].file, e.text);
        cr_expect(e.status == cases[i].status && strstr(e.text, cases[i].text) && strstr(e.hint, cases[i].hint), "%s: %s -> %s", cases[i].file, e.text, e.hint);
        cr_expect(e.text[0] && strncmp(e.where, cases[i].file, sizeof e.where - 1) == 0, "%s: %s", cases[i].file, e.where);
        cr_expect(stealers(r) == n, "%s has added something", cases[i].file);
        cr_expect(eq(int, htc_policy_load(r, cases[i].file, 0, NULL), cases[i].status));
    }
    cr_expect(eq(int, htc_policy_load(NULL, OBJECT("policies_good"), 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_policy_load(r, NULL, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_policy_load(r, OBJECT("policies_good"), 2, NULL), HTC_EINVAL));
    htc_registry_destroy(r);
}

Test(policy_file, refuses_the_same_file_twice)
{
    htc_registry *r = builtin();
    htc_error     e;
    cr_assert(htc_policy_load(r, OBJECT("policies_good"), 0, &e) == HTC_OK);
    cr_expect(eq(int, htc_policy_load(r, OBJECT("policies_good"), 0, &e), HTC_EEXISTS));
    cr_expect(strcmp(e.text, "there is a steal policy called counting already") == 0, "%s", e.text);
    htc_registry_destroy(r);
}

static void copy_to(const char *path, mode_t mode)
{
    char command[1024];
    snprintf(command, sizeof command, "cp %s '%s'", OBJECT("policies_good"), path);
    cr_assert(system(command) == 0 && chmod(path, mode) == 0);
}

/* What htc.ini names: with the library's, in one registry. */
static void check_configured(const char *path)
{
    char                    text[200];
    htc_config             *config = NULL;
    htc_registry           *r = NULL;
    const htc_steal_policy *found;
    htc_error               e;
    snprintf(text, sizeof text, "[agent]\npolicy_from = %s\n", path);
    cr_assert(htc_config_parse(NULL, htc_bytes_of(text), "htc.ini", &config, &e) == HTC_OK);
    cr_assert(eq(int, htc_config_policies(config, &r, &e), HTC_OK), "%s", e.text);
    cr_expect(htc_steal_find(r, "counting", &found) == HTC_OK && htc_steal_find(r, "near", &found) == HTC_OK);
    htc_registry_destroy(r);
    htc_config_destroy(config);
    snprintf(text, sizeof text, "[agent]\npolicy_from = %s, %s/none.so\n", path, path);
    cr_assert(htc_config_parse(NULL, htc_bytes_of(text), "htc.ini", &config, &e) == HTC_OK);
    r = NULL;
    cr_expect(htc_config_policies(config, &r, &e) == HTC_EINPUT && !r && strstr(e.where, "/none.so") && e.text[0]);
    htc_config_destroy(config);
}

/* A daemon loads what nobody else can have written. */
Test(policy_file, trusts_what_others_cannot_write)
{
    char          dir[] = "/tmp/htc-policy.XXXXXX", path[64], link[64];
    htc_registry *r = builtin();
    htc_error     e;
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/good.so", dir);
    snprintf(link, sizeof link, "%s/link.so", dir);
    copy_to(path, 0755);
    cr_assert(symlink(path, link) == 0);
    cr_assert(chmod(path, 0775) == 0);
    cr_expect(eq(int, htc_policy_load(r, path, HTC_POLICY_TRUSTED, &e), HTC_EDENIED), "its group can write to it");
    cr_expect(strcmp(e.text, "it belongs to another user, or others can write to it") == 0 && strcmp(e.where, path) == 0 && strstr(e.hint, "chmod go-w"), "%s: %s -> %s", e.where, e.text, e.hint);
    cr_assert(chmod(path, 0757) == 0);
    cr_expect(eq(int, htc_policy_load(r, link, HTC_POLICY_TRUSTED, &e), HTC_EDENIED), "everybody can write to what the link leads to");
    cr_assert(chmod(path, 0755) == 0 && chmod(dir, 0777) == 0);
    cr_expect(eq(int, htc_policy_load(r, path, HTC_POLICY_TRUSTED, &e), HTC_EDENIED), "everybody can put another file in its place");
    cr_expect(strstr(e.text, dir) && strstr(e.text, "others can write to it"), "%s", e.text);
    cr_assert(chmod(dir, 0700) == 0);
    if (geteuid() == 0) {
        cr_assert(chown(path, 12345, 12345) == 0);
        cr_expect(eq(int, htc_policy_load(r, path, HTC_POLICY_TRUSTED, &e), HTC_EDENIED), "it is somebody else's");
        cr_assert(chown(path, 0, 0) == 0);
    }
    cr_expect(eq(int, htc_policy_load(r, path, HTC_POLICY_TRUSTED, &e), HTC_OK), "%s", e.text);
    check_configured(path);
    unlink(link);
    unlink(path);
    rmdir(dir);
    htc_registry_destroy(r);
}

Test(policy_file, leaves_the_registry_as_it_was_when_memory_is_short)
{
    ALLOC_FAIL_EVERY (f, 100) {
        htc_env       env = alloc_fail_env(&f);
        htc_registry *r = NULL;
        if (htc_registry_create(&env, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK) {
            size_t     n = stealers(r);
            htc_error  e;
            htc_status status = htc_policy_load(r, OBJECT("policies_good"), 0, &e);
            cr_expect(status == HTC_OK ? stealers(r) == n + 2 : status == HTC_ENOMEM && stealers(r) == n && e.text[0]);
            cr_expect(status == HTC_OK || f.refused);
        }
        htc_registry_destroy(r);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
