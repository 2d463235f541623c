/* Keys in files: what is written is read, and what others could have read or changed is refused by name. */
#include "expect.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/keys.h"

static char dir[] = "/tmp/htc-keys-XXXXXX";
static char path[64], other[64];

static void open_dir(void)
{
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/key", dir);
    snprintf(other, sizeof other, "%s/other", dir);
}

static void close_dir(void)
{
    unlink(path);
    unlink(other);
    cr_expect(rmdir(dir) == 0, "nothing else was left there");
}

TestSuite(keys, .init = open_dir, .fini = close_dir);

static uint8_t   secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
static size_t    count;
static htc_error error;

static void put(const char *where, const char *text, mode_t mode)
{
    int fd = open(where, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
    close(fd);
}

Test(keys, a_file_is_made_once)
{
    uint8_t public[32], again[32];
    struct stat st;
    cr_assert(eq(int, htc_keys_create(path, public, &error), HTC_OK), "%s", error.text);
    cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_nlink == 1);
    cr_assert(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(sz, count, 1));
    htc_key_public(secrets, again);
    cr_expect(memcmp(public, again, 32) == 0);
    cr_expect(eq(int, htc_keys_create(path, again, &error), HTC_EEXISTS));
    cr_expect(memcmp(public, again, 32) == 0, "untouched");
    cr_assert(eq(int, htc_keys_create(other, again, NULL), HTC_OK));
    cr_expect(memcmp(public, again, 32) != 0);
}

Test(keys, keys_rotate_in_a_file)
{
    uint8_t two[64], public[32];
    cr_assert(eq(int, htc_keys_create(path, public, NULL), HTC_OK));
    cr_assert(eq(int, htc_keys_read(path, secrets, &count, NULL), HTC_OK));
    cr_assert(eq(int, htc_keys_random(two, 32), HTC_OK));
    memcpy(two + 32, secrets, 32);
    cr_assert(eq(int, htc_keys_write(path, two, 2, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_OK), "%s", error.text);
    cr_expect(count == 2 && memcmp(secrets, two, 64) == 0);
    cr_expect(eq(int, htc_keys_write(path, two, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_keys_write(path, two, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_keys_write("/nowhere/at/all", two, 1, &error), HTC_EIO));
}

Test(keys, what_others_could_read_is_refused)
{
    htc_keyring *ring = NULL;
    cr_assert(eq(int, htc_keys_create(path, NULL, NULL), HTC_OK));
    static const mode_t modes[] = { 0640, 0604, 0620, 0601, 0666 };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        chmod(path, modes[i]);
        memset(secrets, 1, sizeof secrets);
        cr_expect(htc_keys_read(path, secrets, &count, &error) == HTC_EDENIED && strstr(error.text, path), "%o",
                  modes[i]);
        cr_expect(secrets[0] == 0 && secrets[sizeof secrets - 1] == 0);
    }
    chmod(path, 0600);
    cr_assert(symlink(path, other) == 0);
    cr_expect(eq(int, htc_keys_read(other, secrets, &count, &error), HTC_EDENIED));
    cr_expect(eq(int, htc_keys_read(dir, secrets, &count, &error), HTC_EDENIED));
    unlink(other);
    cr_assert(mkfifo(other, 0600) == 0);
    cr_expect(eq(int, htc_keys_read(other, secrets, &count, &error), HTC_EDENIED), "and it does not wait for a writer");
    unlink(other);
    cr_expect(eq(int, htc_keys_read(other, secrets, &count, &error), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_keyring_create(NULL, 0, &ring), HTC_OK));
    put(other, "# nobody\n", 0664);
    cr_expect(eq(int, htc_keys_load_ring(other, ring, &error), HTC_EDENIED));
    chmod(other, 0644);
    cr_expect(eq(int, htc_keys_load_ring(other, ring, &error), HTC_OK));
    htc_keyring_destroy(ring);
    if (geteuid() == 0) { /* root may look at what is another's, and a key of another's is still not root's key */
        cr_assert(chown(path, 12345, 12345) == 0);
        cr_expect(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_EDENIED));
        cr_expect(strstr(error.text, "belongs to somebody else") != NULL);
    }
}

Test(keys, a_wrong_file_is_told_where)
{
    char text[1024], key[HTC_KEY_TEXT_MAX], long_text[5000];
    memset(secrets, 3, sizeof secrets);
    htc_key_write(HTC_KEY_SECRET, secrets, key);
    put(path, "# nothing\n\n", 0600);
    cr_expect(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_ECONFIG));
    snprintf(text, sizeof text, "\n%s # now\n  \n\t%s\r\npub-1", key, key);
    put(path, text, 0600);
    cr_expect(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_ECONFIG));
    cr_expect(error.line == 5 && strcmp(error.where, path) == 0, "%u %s", error.line, error.text);
    text[strlen(text) - 6] = 0;
    put(path, text, 0600);
    cr_assert(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(sz, count, 2));
    snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n", key, key, key, key, key);
    put(path, text, 0600);
    cr_expect(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_ECONFIG));
    cr_expect(eq(u32, error.line, 5));
    memset(long_text, '#', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    put(path, long_text, 0600);
    cr_expect(eq(int, htc_keys_read(path, secrets, &count, &error), HTC_ECONFIG));
}

Test(keys, a_ring_in_a_file)
{
    htc_keyring      *a = NULL, *b = NULL;
    htc_keyring_entry e;
    uint8_t           key[32] = { 4 };
    char              name[16];
    struct stat       st;
    cr_assert(htc_keyring_create(NULL, 0, &a) == HTC_OK && htc_keyring_create(NULL, 0, &b) == HTC_OK);
    for (int i = 0; i < 300; i++) {
        key[1] = (uint8_t)i;
        key[2] = (uint8_t)(i >> 8);
        snprintf(name, sizeof name, "agent-%d", i);
        cr_assert(eq(int, htc_keyring_set(a, name, HTC_KEY_HOST, HTC_KEY_CURRENT, key), HTC_OK));
    }
    cr_assert(eq(int, htc_keys_save_ring(path, a, &error), HTC_OK), "%s", error.text);
    cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
    cr_assert(eq(int, htc_keys_load_ring(path, b, &error), HTC_OK), "%s", error.text);
    cr_expect(htc_keyring_at(b, 299, &e) == HTC_OK && strcmp(e.name, "agent-299") == 0 && memcmp(e.key, key, 32) == 0);
    cr_expect(eq(int, htc_keyring_at(b, 300, &e), HTC_ENOTFOUND));
    put(path, "host a current pub-1\n", 0600);
    cr_expect(eq(int, htc_keys_load_ring(path, b, &error), HTC_ECONFIG));
    cr_expect(error.line == 1 && strcmp(error.where, path) == 0);
    cr_expect(eq(int, htc_keyring_at(b, 299, &e), HTC_OK), "as it was");
    htc_keyring_destroy(a);
    htc_keyring_destroy(b);
}

Test(keys, random_bytes)
{
    uint8_t a[64] = { 0 }, b[64] = { 0 };
    cr_assert(htc_keys_random(a, 64) == HTC_OK && htc_keys_random(b, 64) == HTC_OK);
    cr_expect(memcmp(a, b, 64) != 0);
    cr_expect(eq(int, htc_keys_random(NULL, 1), HTC_EINVAL));
}
