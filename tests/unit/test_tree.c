/* A directory as one content: what comes back, that the same files make the same content, and that neither a directory nor a content of a stranger
 * leads anywhere else. */
#include "expect.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "net/files/files.h"
#include "net/files/tree.h"

static uint64_t most = HTC__TREE_ENTRIES_MAX; /* each test is a process of its own */
static char    top[64], why[400];
static uint8_t hash[32];

static void begin(void)
{
    snprintf(top, sizeof top, "/tmp/htc-test-tree-XXXXXX");
    cr_assert(mkdtemp(top) != NULL && chdir(top) == 0);
}

static void end(void)
{
    cr_expect(chdir("/") == 0 && htc__remove_tree(top) == 0);
}

TestSuite(tree, .init = begin, .fini = end);

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

static int packed(const char *dir, htc_status want)
{
    char name[] = "packed-XXXXXX";
    int  fd = mkstemp(name);
    cr_assert(fd >= 0 && unlink(name) == 0);
    htc_status status = htc__tree_pack(dir, fd, most, why, sizeof why);
    cr_expect(eq(int, status, want), "%s", why);
    cr_assert(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static htc_status unpack(int fd, const char *name)
{
    int        dir = open(".", O_PATH | O_DIRECTORY);
    htc_status status = htc__tree_unpack(fd, dir, name, hash, why, sizeof why);
    close(dir);
    close(fd);
    return status;
}

static int is(const char *path, const char *text)
{
    char    has[64];
    ssize_t n = htc__read_text(path, has, sizeof has);
    return n == (ssize_t)strlen(text) && strcmp(has, text) == 0;
}

static void make(const char *dir)
{
    char path[100];
    cr_assert(mkdir(dir, 0755) == 0);
    for (const char *const *d = (const char *const[]){ "sub", "sub/deep", "empty", NULL }; *d; d++) {
        snprintf(path, sizeof path, "%s/%s", dir, *d);
        cr_assert(mkdir(path, 0755) == 0);
    }
    snprintf(path, sizeof path, "%s/b", dir);
    put(path, "bytes\n", 0600);
    snprintf(path, sizeof path, "%s/a run", dir);
    put(path, "#!/bin/sh\n", 0700);
    snprintf(path, sizeof path, "%s/sub/none", dir);
    put(path, "", 0644);
    snprintf(path, sizeof path, "%s/sub/deep/link", dir);
    cr_assert(symlink("../../b", path) == 0);
}

Test(tree, what_is_packed_comes_back)
{
    struct stat st;
    uint8_t     whole[32];
    char        target[20] = "";
    make("from");
    int fd = packed("from", HTC_OK);
    cr_assert(eq(int, htc_content_hash_fd(fd, whole, NULL), HTC_OK));
    cr_expect(eq(int, unpack(fd, "a/b"), HTC_OK), "%s", why);
    cr_expect(memcmp(hash, whole, 32) == 0);
    cr_expect(is("a/b/b", "bytes\n") && is("a/b/sub/none", "") && is("a/b/sub/deep/link", "bytes\n"));
    cr_expect(stat("a/b/a run", &st) == 0 && (st.st_mode & 0777) == 0755);
    cr_expect(stat("a/b/b", &st) == 0 && (st.st_mode & 0777) == 0644);
    cr_expect(stat("a/b/empty", &st) == 0 && S_ISDIR(st.st_mode));
    cr_expect(readlink("a/b/sub/deep/link", target, sizeof target - 1) == 7 && strcmp(target, "../../b") == 0);
    /* Once more over what is there. */
    put("a/b/b", "longer than it was\n", 0644);
    cr_expect(eq(int, unpack(packed("from", HTC_OK), "a/b"), HTC_OK), "%s", why);
    cr_expect(is("a/b/b", "bytes\n"));
}

Test(tree, the_same_files_are_the_same_content)
{
    uint8_t one[32], two[32];
    make("from");
    make("again");
    int fd = packed("from", HTC_OK), other = packed("again", HTC_OK);
    cr_assert(htc_content_hash_fd(fd, one, NULL) == HTC_OK && htc_content_hash_fd(other, two, NULL) == HTC_OK);
    cr_expect(memcmp(one, two, 32) == 0);
    close(fd);
    close(other);
    cr_assert(chmod("again/b", 0755) == 0);
    other = packed("again", HTC_OK);
    cr_assert(htc_content_hash_fd(other, two, NULL) == HTC_OK);
    cr_expect(memcmp(one, two, 32) != 0, "one may be executed");
    close(other);
}

Test(tree, what_leads_outside_or_is_no_file_is_not_packed)
{
    static const char *const targets[] = { "/etc/passwd", "../out", "sub/../../out", "x/../..", NULL };
    for (size_t i = 0; targets[i]; i++) {
        cr_assert(mkdir("from", 0755) == 0 && symlink(targets[i], "from/link") == 0);
        close(packed("from", HTC_EPATH));
        cr_expect(strstr(why, "link") != NULL && strstr(why, "outside") != NULL, "%s", why);
        cr_assert(unlink("from/link") == 0 && rmdir("from") == 0);
    }
    cr_assert(mkdir("from", 0755) == 0 && mkfifo("from/pipe", 0600) == 0);
    close(packed("from", HTC_EINPUT));
    cr_expect(strstr(why, "pipe") != NULL, "%s", why);
    close(packed("nothing", HTC_EINPUT));
}

static htc_status copy(const char *from, const char *name)
{
    int        in = open(from, O_RDONLY | O_DIRECTORY), dir = open(".", O_PATH | O_DIRECTORY);
    htc_status status = htc__tree_copy(in, dir, name, most, why, sizeof why);
    close(in);
    close(dir);
    return status;
}

/* A copy is what its content would be unpacked as. */
Test(tree, what_is_copied_is_the_same)
{
    uint8_t one[32], two[32];
    make("from");
    cr_expect(eq(int, copy("from", "a/b"), HTC_OK), "%s", why);
    int fd = packed("from", HTC_OK), other = packed("a/b", HTC_OK);
    cr_assert(htc_content_hash_fd(fd, one, NULL) == HTC_OK && htc_content_hash_fd(other, two, NULL) == HTC_OK);
    cr_expect(memcmp(one, two, 32) == 0);
    close(fd);
    close(other);
    put("a/b/b", "longer than it was\n", 0644);
    put("a/b/own", "stays\n", 0644);
    cr_expect(eq(int, copy("from", "a/b"), HTC_OK), "%s", why);
    cr_expect(is("a/b/b", "bytes\n") && is("a/b/own", "stays\n"));
}

Test(tree, a_copy_leads_nowhere_else)
{
    make("from");
    cr_assert(mkdir("other", 0755) == 0 && mkdir("to", 0755) == 0 && symlink("../other", "to/sub") == 0);
    cr_expect(eq(int, copy("from", "to"), HTC_EPATH), "%s", why);
    cr_expect(access("other/none", F_OK) != 0, "written through a link");
    cr_assert(symlink("/etc/passwd", "from/zz") == 0);
    cr_expect(eq(int, copy("from", "x"), HTC_EPATH));
    cr_expect(strstr(why, "zz") != NULL && strstr(why, "outside") != NULL, "%s", why);
    cr_assert(unlink("from/zz") == 0 && mkfifo("from/zz", 0600) == 0);
    cr_expect(eq(int, copy("from", "y"), HTC_EINPUT) && strstr(why, "zz") != NULL, "%s", why);
}

/* Neither a copy of itself in itself, without end, nor a file that is emptied before it is read. */
Test(tree, a_copy_onto_its_source_costs_nothing)
{
    make("from");
    cr_expect(eq(int, copy("from", "from/sub/here"), HTC_EINPUT));
    cr_expect(strstr(why, "in it, as sub/here") != NULL, "%s", why);
    cr_expect(eq(int, copy("from", "from"), HTC_OK), "%s", why);
    cr_expect(is("from/b", "bytes\n") && is("from/a run", "#!/bin/sh\n"));
    cr_assert(mkdir("to", 0755) == 0 && link("from/b", "to/b") == 0);
    cr_expect(eq(int, copy("from", "to"), HTC_OK), "%s", why);
    cr_expect(is("from/b", "bytes\n") && is("to/a run", "#!/bin/sh\n"));
}

/* A content of a stranger: entries as they are given, each a type, a name and what follows. */
static int written(const char *bytes, size_t len)
{
    char name[] = "content-XXXXXX";
    int  fd = mkstemp(name);
    cr_assert(fd >= 0 && unlink(name) == 0 && write(fd, "htc-tree 1\n", 11) == 11 && write(fd, bytes, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

#define GIVEN(text) written(text, sizeof text - 1)
#define FILE_OF_1 "\1\0\0\0\0\0\0\0x"

Test(tree, a_content_does_not_write_elsewhere)
{
    cr_assert(mkdir("out", 0755) == 0);
    put("out/x", "kept", 0644);
    cr_expect(eq(int, unpack(GIVEN("f\6\0\0\0../a/x" FILE_OF_1 "\0"), "in"), HTC_EPATH));
    cr_expect(eq(int, unpack(GIVEN("f\6\0\0\0/out/x" FILE_OF_1 "\0"), "in"), HTC_EPATH));
    cr_expect(eq(int, unpack(GIVEN("l\1\0\0\0d\6\0\0\0../out\0"), "in"), HTC_EPATH));
    cr_expect(eq(int, unpack(GIVEN("l\1\0\0\0d\4\0\0\0/out\0"), "in"), HTC_EPATH));
    /* Behind a link that stays in the tree nothing is written either, nor behind one that was there. */
    cr_expect(eq(int, unpack(GIVEN("d\1\0\0\0s" "l\1\0\0\0d\1\0\0\0s" "f\3\0\0\0d/x" FILE_OF_1 "\0"), "in"), HTC_EPATH));
    cr_expect(access("in/s/x", F_OK) != 0);
    cr_assert(mkdir("has", 0755) == 0 && symlink("../out", "has/d") == 0 && symlink("../out/x", "has/x") == 0);
    cr_expect(eq(int, unpack(GIVEN("f\3\0\0\0d/x" FILE_OF_1 "\0"), "has"), HTC_EPATH));
    cr_expect(eq(int, unpack(GIVEN("f\1\0\0\0x" FILE_OF_1 "\0"), "has"), HTC_EPATH));
    cr_assert(symlink("out", "root") == 0);
    cr_expect(eq(int, unpack(GIVEN("f\1\0\0\0x" FILE_OF_1 "\0"), "root"), HTC_EPATH));
    cr_expect(is("out/x", "kept"));
}

Test(tree, what_is_no_tree_is_refused)
{
    char   name[] = "content-XXXXXX";
    int    fd = mkstemp(name);
    size_t n = 0;
    cr_assert(fd >= 0 && write(fd, "something else", 14) == 14 && lseek(fd, 0, SEEK_SET) == 0);
    cr_expect(eq(int, unpack(fd, "in"), HTC_EINPUT));
    cr_expect(eq(int, unpack(GIVEN("z\1\0\0\0x\0"), "in"), HTC_EINPUT));
    cr_expect(eq(int, unpack(GIVEN("d\0\0\0\0\0"), "in"), HTC_EINPUT));
    cr_expect(eq(int, unpack(GIVEN("d\377\377\377\377x\0"), "in"), HTC_EINPUT));
    cr_expect(eq(int, unpack(GIVEN("d\3\0\0\0a\0b\0"), "in"), HTC_EINPUT));
    cr_expect(eq(int, unpack(GIVEN("d\1\0\0\0a\0and more"), "in"), HTC_EINPUT));
    /* Every beginning of a good one. */
    static const char good[] = "d\1\0\0\0s" "x\3\0\0\0s/x" FILE_OF_1 "l\1\0\0\0l\1\0\0\0s";
    for (n = 0; n < sizeof good; n++) /* the zero of the end is the one behind the text */
        cr_expect(eq(int, unpack(written(good, n), "cut"), HTC_EINPUT), "%zu bytes", n);
    cr_expect(eq(int, unpack(written(good, n), "cut"), HTC_OK), "%s", why);
}

/* What has too many entries is known for that when they are listed: before any is packed, and with no more of them in memory. */
Test(tree, what_has_too_many_entries_is_not_begun)
{
    char        text[1025], name[64];
    struct stat st;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_assert(mkdir("many", 0700) == 0 && mkdir("many/z", 0700) == 0);
    for (int i = 0; i < 99; i++) {
        snprintf(name, sizeof name, "many/%s%d", i < 50 ? "" : "z/", i);
        put(name, text, 0600);
    }
    most = 100;
    cr_expect(eq(int, unpack(packed("many", HTC_OK), "there"), HTC_OK), "%s", why);
    cr_expect(access("there/z/98", F_OK) == 0);
    put("many/z/99", text, 0600);
    close(packed("many", HTC_ETOOBIG)); /* also where they are in several directories */
    cr_expect(strcmp(why, "more than 100 files: pack them into an archive") == 0, "%s", why);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "many/a%d", i);
        put(name, text, 0600);
    }
    int fd = packed("many", HTC_ETOOBIG);
    cr_expect(fstat(fd, &st) == 0 && st.st_size == 0, "%lld bytes were packed", (long long)st.st_size);
    close(fd);
    int from = open("many", O_RDONLY | O_DIRECTORY), to = open(".", O_RDONLY | O_DIRECTORY);
    cr_expect(eq(int, htc__tree_copy(from, to, "copy", most, why, sizeof why), HTC_ETOOBIG));
    cr_expect(access("copy/a0", F_OK) != 0);
    close(from);
    close(to);
}

Test(tree, a_uri_says_whether_it_is_a_directory)
{
    int  tree = 7;
    char uri[80];
    snprintf(uri, sizeof uri, "htc:%064d", 5);
    cr_expect(htc_content_of_uri(uri, hash, &tree) == HTC_OK && tree == 0);
    strcat(uri, "/");
    cr_expect(htc_content_of_uri(uri, hash, &tree) == HTC_OK && tree == 1);
    strcat(uri, "/");
    cr_expect(eq(int, htc_content_of_uri(uri, hash, &tree), HTC_EINVAL));
    cr_expect(eq(int, htc_content_of_uri("htc:12/", hash, &tree), HTC_EINVAL));
    cr_expect(eq(int, htc_content_of_uri("file:/x/", hash, &tree), HTC_EINVAL));
}
