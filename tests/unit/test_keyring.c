/* Whose keys are whose: keys as text, the ring against a plain list, its file and what is said about a wrong one. */
#include "expect.h"
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/keyring.h"
#include "property.h"

static void draw(htc_rng *rng, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)htc_rng_next(rng);
}

/* The digits of the first bytes are easily worked out by hand: 0x00 0x44 0x32 0x14 0xc7 are 0 1 2 3 4 5 6 7. */
Test(keyring, keys_as_text)
{
    uint8_t key[32] = { 0x00, 0x44, 0x32, 0x14, 0xc7 }, again[32];
    char    text[HTC_KEY_TEXT_MAX];
    cr_assert(eq(int, htc_key_write(HTC_KEY_PUBLIC, key, text), HTC_OK));
    cr_expect(strncmp(text, "pub-01234567-00000000-00000000-00000000-00000000-00000000-000", 61) == 0, "%s", text);
    cr_expect(eq(sz, strlen(text), 66));
    cr_assert(eq(int, htc_key_write(HTC_KEY_ONCE, key, text), HTC_OK));
    cr_expect(eq(sz, strlen(text), 67));
    cr_assert(eq(int, htc_key_read(HTC_KEY_ONCE, htc_bytes_of(text), again, NULL), HTC_OK));
    cr_expect(memcmp(key, again, 32) == 0);
    cr_expect(eq(int, htc_key_write(0, key, text), HTC_EINVAL));
    cr_expect(eq(int, htc_key_write(4, key, text), HTC_EINVAL));
}

Test(keyring, keys_as_people_type_them)
{
    PROPERTY(rng, 2000)
    {
        uint8_t  key[32], again[32];
        char     text[HTC_KEY_TEXT_MAX], typed[2 * HTC_KEY_TEXT_MAX];
        uint32_t kind = 1 + (uint32_t)htc_rng_below(&rng, 3);
        size_t   n = 0, head;
        draw(&rng, key, 32);
        htc_key_write(kind, key, text);
        head = strcspn(text, "-") + 1;
        for (size_t i = 0; text[i]; i++) {
            char c = text[i];
            if (i >= head && c == '-' && htc_rng_below(&rng, 2))
                continue;
            if (i >= head && c == '0' && htc_rng_below(&rng, 2))
                c = 'O';
            if (i >= head && c == '1' && htc_rng_below(&rng, 2))
                c = htc_rng_below(&rng, 2) ? 'l' : 'I';
            if (c >= 'a' && c <= 'z' && htc_rng_below(&rng, 2))
                c = (char)(c - 'a' + 'A');
            typed[n++] = c;
        }
        HOLDS(htc_key_read(kind, (htc_bytes){ typed, n }, again, NULL) == HTC_OK && memcmp(key, again, 32) == 0);
        /* One digit another, one left out, one too many: not taken for a key, and the output is as it was. */
        memset(again, 1, 32);
        size_t   at = head + htc_rng_below(&rng, n - head);
        uint64_t how = htc_rng_below(&rng, 3);
        if (typed[at] == '-')
            at++;
        if (how == 0) {
            static const char digits[] = "23456789abcdefghjkmnpqrstvwxyz";
            char              was = typed[at];
            do
                typed[at] = digits[htc_rng_below(&rng, 30)];
            while (typed[at] == was || typed[at] == was - 'A' + 'a');
        } else if (how == 1)
            memmove(typed + at, typed + at + 1, --n - at);
        else
            typed[n++] = '7';
        HOLDS(htc_key_read(kind, (htc_bytes){ typed, n }, again, NULL) == HTC_EINVAL && again[0] == 1 &&
              again[31] == 1);
    }
}

Test(keyring, what_is_no_key_is_told_why)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "a public key (pub-) is needed" },
        { "pub-", "the key is too short" },
        { "key-01234567", "a public key (pub-) is needed, this is a secret key (key-)" },
        { "once-01234567", "a public key (pub-) is needed, this is a one-time secret (once-)" },
        { "pub-0123u567", "a key has only 0 to 9 and letters without u, in groups of eight" },
        { "pub-0123--567", "a key has only 0 to 9 and letters without u, in groups of eight" },
        { "pub--01234567", "a key has only 0 to 9 and letters without u, in groups of eight" },
        { "pub-00000000-00000000-00000000-00000000-00000000-00000000-00000000-0",
          "a key has only 0 to 9 and letters without u, in groups of eight" },
        { "pub-00000000-00000000-00000000-00000000-00000000-00000000-000000000", "the key is too long" },
        { "pub-00000000-00000000-00000000-00000000-00000000-00000000-00000000",
          "the key's checksum is wrong: a character is not as it was" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_error error = { .text = "" };
        uint8_t   key[32];
        cr_expect(eq(int, htc_key_read(HTC_KEY_PUBLIC, htc_bytes_of(cases[i].text), key, &error), HTC_EINVAL));
        cr_expect(strcmp(error.text, cases[i].why) == 0, "%s: %s", cases[i].text, error.text);
    }
}

/* The ring against a plain list. */
typedef struct listed {
    uint8_t  key[32];
    char     name[8];
    uint32_t role, state;
} listed;

static htc_status list_set(listed *list, size_t *n, const listed *x)
{
    size_t live = 0;
    for (size_t i = 0; i < *n; i++)
        if (memcmp(list[i].key, x->key, 32) == 0) {
            if (strcmp(list[i].name, x->name) != 0 || list[i].role != x->role)
                return HTC_EEXISTS;
            if (list[i].state == HTC_KEY_REVOKED && x->state != HTC_KEY_REVOKED)
                return HTC_EDENIED;
            list[i].state = x->state;
            return HTC_OK;
        }
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i].name, x->name) == 0) {
            if (list[i].role != x->role)
                return HTC_EEXISTS;
            live += list[i].state != HTC_KEY_REVOKED;
        }
    if ((x->state != HTC_KEY_REVOKED && live >= HTC_KEYRING_LIVE_MAX) || *n == 40)
        return HTC_EFULL;
    list[(*n)++] = *x;
    return HTC_OK;
}

static void list_compare(const htc_keyring *ring, const listed *list, size_t n)
{
    htc_keyring_entry e, f;
    for (size_t i = 0; i < n; i++) {
        size_t before = 0;
        HOLDS(htc_keyring_at(ring, i, &e) == HTC_OK && memcmp(e.key, list[i].key, 32) == 0);
        HOLDS(strcmp(e.name, list[i].name) == 0 && e.role == list[i].role && e.state == list[i].state);
        HOLDS(htc_keyring_find(ring, list[i].key, &f) == HTC_OK && f.key == e.key);
        for (size_t k = 0; k < i; k++)
            before += strcmp(list[k].name, list[i].name) == 0;
        HOLDS(htc_keyring_of(ring, list[i].name, before, &f) == HTC_OK && f.key == e.key);
    }
    HOLDS(htc_keyring_at(ring, n, &e) == HTC_ENOTFOUND);
}

Test(keyring, agrees_with_a_list)
{
    PROPERTY(rng, 500)
    {
        listed       list[64];
        size_t       n = 0;
        htc_keyring *ring = NULL, *copy = NULL;
        static char  text[8192];
        HOLDS(htc_keyring_create(NULL, 40, &ring) == HTC_OK && htc_keyring_create(NULL, 40, &copy) == HTC_OK);
        for (int i = 0; i < 120; i++) {
            uint64_t epoch = htc_keyring_epoch(ring), k = htc_rng_below(&rng, 60);
            listed   x = { .role = 1 + (uint32_t)(k % 3), .state = 1 + (uint32_t)htc_rng_below(&rng, 3) };
            snprintf(x.name, sizeof x.name, "n%u", (unsigned)(k % 12));
            x.key[0] = (uint8_t)k;
            x.key[31] = 1;
            if (htc_rng_below(&rng, 8) == 0)
                x.role = 1 + (uint32_t)htc_rng_below(&rng, 3);
            switch (htc_rng_below(&rng, 8)) {
            case 0: {
                size_t at = 0;
                while (at < n && memcmp(list[at].key, x.key, 32) != 0)
                    at++;
                HOLDS(htc_keyring_forget(ring, x.key) == (at < n ? HTC_OK : HTC_ENOTFOUND));
                if (at < n)
                    memmove(&list[at], &list[at + 1], (--n - at) * sizeof *list);
                break;
            }
            case 1: {
                size_t at = 0;
                while (at < n && memcmp(list[at].key, x.key, 32) != 0)
                    at++;
                HOLDS(htc_keyring_revoke(ring, x.key) == (at < n ? HTC_OK : HTC_ENOTFOUND));
                if (at < n)
                    list[at].state = HTC_KEY_REVOKED;
                break;
            }
            default: {
                htc_status expected = list_set(list, &n, &x);
                HOLDS(htc_keyring_set(ring, x.name, x.role, x.state, x.key) == expected);
                HOLDS(expected == HTC_OK || htc_keyring_epoch(ring) == epoch);
            }
            }
        }
        list_compare(ring, list, n);
        /* Written, and read by another ring. */
        size_t len = htc_keyring_text(ring, text, sizeof text);
        HOLDS(len <= sizeof text && htc_keyring_text(ring, NULL, 0) == len);
        HOLDS(htc_keyring_load(copy, (htc_bytes){ text, len }, "ring", NULL) == HTC_OK);
        list_compare(copy, list, n);
        htc_keyring_destroy(ring);
        htc_keyring_destroy(copy);
    }
}

/* Each fault is told with its line and column, and leaves the ring as it was. */
Test(keyring, a_wrong_file_is_told_where)
{
    char    keys[6][HTC_KEY_TEXT_MAX], text[1024];
    uint8_t key[32] = { 9 };
    for (int i = 0; i < 6; i++) {
        key[1] = (uint8_t)i;
        htc_key_write(HTC_KEY_PUBLIC, key, keys[i]);
    }
    static const struct {
        const char *text; /* %1 to %6 are keys */
        uint32_t    line, column;
        const char *why;
    } cases[] = {
        { "user a current", 1, 1, "a line is: ROLE NAME STATE KEY" },
        { "\n# all\nuser a current %1 x", 3, 1, "a line is: ROLE NAME STATE KEY" },
        { "  root a current %1", 1, 3, "the role is member, host or user" },
        { "user A current %1", 1, 6, "a name has 1 to 63 of a-z, 0-9, dash, underscore and dot" },
        { "user -a current %1", 1, 6, "a name has 1 to 63 of a-z, 0-9, dash, underscore and dot" },
        { "user a old %1", 1, 8, "the state is current, next or revoked" },
        { "user a current pub-1", 1, 16, "the key is too short" },
        { "user a current %1\nuser b current %1", 2, 16, "this key stands further up already" },
        { "user a current %1\nhost a next %2\n", 2, 1, "further up this name has another role" },
        { "user a next %1\nuser a next %2\nuser a next %3\nuser a next %4\n\tuser a next %5", 5, 7,
          "a name has at most 4 keys that are not revoked" },
        { "user a next %1\nuser b next %2\nuser c next %3\nuser d next %4\nuser e next %5\nuser f next %6", 6, 1,
          "there are more keys than this ring may hold" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_keyring *ring = NULL;
        htc_error    error = { .line = 0 };
        size_t       n = 0;
        for (const char *p = cases[i].text; *p; p++)
            if (*p == '%')
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", keys[*++p - '1']);
            else
                text[n++] = *p;
        htc_keyring_create(NULL, 5, &ring);
        key[1] = 77;
        htc_keyring_set(ring, "kept", HTC_KEY_USER, HTC_KEY_CURRENT, key);
        uint64_t   epoch = htc_keyring_epoch(ring);
        htc_status status = htc_keyring_load(ring, (htc_bytes){ text, n }, "ring.txt", &error);
        cr_expect(status == (i + 1 < sizeof cases / sizeof *cases ? HTC_ECONFIG : HTC_EFULL), "case %zu", i);
        cr_expect(error.line == cases[i].line && error.column == cases[i].column &&
                      strcmp(error.text, cases[i].why) == 0 && strcmp(error.where, "ring.txt") == 0,
                  "case %zu: %u:%u %s", i, error.line, error.column, error.text);
        htc_keyring_entry e;
        cr_expect(htc_keyring_find(ring, key, &e) == HTC_OK && htc_keyring_epoch(ring) == epoch);
        htc_keyring_destroy(ring);
    }
}

Test(keyring, a_file_as_people_write_it)
{
    char              key[2][HTC_KEY_TEXT_MAX], text[1024], longest[600];
    uint8_t           k[32] = { 5 };
    htc_keyring      *ring = NULL;
    htc_keyring_entry e;
    htc_error         error;
    for (int i = 0; i < 2; i++) {
        k[1] = (uint8_t)i;
        htc_key_write(HTC_KEY_PUBLIC, k, key[i]);
    }
    int n = snprintf(text, sizeof text,
                     "# whom we know\r\n\r\n\tmember\tstore-1  current %s   # rack 3\r\nuser x.y_z revoked %s", key[0],
                     key[1]);
    htc_keyring_create(NULL, 0, &ring);
    cr_assert(eq(int, htc_keyring_load(ring, (htc_bytes){ text, (size_t)n }, NULL, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_keyring_find(ring, k, &e), HTC_OK));
    cr_expect(e.role == HTC_KEY_USER && e.state == HTC_KEY_REVOKED && strcmp(e.name, "x.y_z") == 0);
    cr_expect(eq(int, htc_keyring_load(ring, (htc_bytes){ NULL, 0 }, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_keyring_at(ring, 0, &e), HTC_ENOTFOUND));
    memset(longest, ' ', sizeof longest);
    cr_expect(eq(int, htc_keyring_load(ring, (htc_bytes){ longest, sizeof longest }, NULL, &error), HTC_ECONFIG));
    cr_expect(eq(int, htc_keyring_load(ring, (htc_bytes){ "user a\0b", 8 }, NULL, &error), HTC_ECONFIG));
    cr_expect(eq(int, htc_keyring_set(ring, "a", 1, 4, k), HTC_EINVAL));
    cr_expect(eq(int, htc_keyring_set(ring, "", 1, 1, k), HTC_EINVAL));
    cr_expect(eq(int, htc_keyring_create(NULL, ((size_t)1 << 24) + 1, &ring), HTC_EINVAL));
    htc_keyring_destroy(ring);
    htc_keyring_destroy(NULL);
}

Test(keyring, a_refused_allocation_changes_nothing)
{
    ALLOC_FAIL_ONCE(f, 200)
    {
        htc_env           env = alloc_fail_env(&f);
        htc_keyring      *ring = NULL;
        htc_identity     *identity = NULL;
        htc_keyring_entry e;
        char              name[8], text[4096];
        htc_status        status = htc_keyring_create(&env, 0, &ring);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        for (size_t i = 0; status == HTC_OK && i < 40; i++) {
            uint8_t key[32] = { (uint8_t)i, 1 };
            snprintf(name, sizeof name, "n%zu", i);
            while ((status = htc_keyring_set(ring, name, 1, 1, key)) == HTC_ENOMEM)
                cr_expect(htc_keyring_find(ring, key, &e) == HTC_ENOTFOUND &&
                          htc_keyring_at(ring, i, &e) == HTC_ENOTFOUND);
        }
        if (ring) {
            size_t n = htc_keyring_text(ring, text, sizeof text);
            while ((status = htc_keyring_load(ring, (htc_bytes){ text, n }, "", NULL)) == HTC_ENOMEM)
                cr_expect(htc_keyring_at(ring, 39, &e) == HTC_OK);
            cr_expect(status == HTC_OK && htc_keyring_at(ring, 39, &e) == HTC_OK);
        }
        uint8_t secret[32] = { 1 };
        status = htc_identity_create(&env, secret, 1, &identity);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f.refused));
        htc_identity_destroy(identity);
        htc_keyring_destroy(ring);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}

Test(keyring, an_identity_has_up_to_four_pairs)
{
    uint8_t       secrets[5 * 32] = { 0 }, public[32], expected[32];
    htc_identity *identity = NULL;
    cr_expect(eq(int, htc_identity_create(NULL, secrets, 1, &identity), HTC_EINVAL), "zeros are no key");
    for (int i = 0; i < 5; i++)
        secrets[i * 32] = (uint8_t)(8 * (i + 1));
    cr_expect(eq(int, htc_identity_create(NULL, secrets, 0, &identity), HTC_EINVAL));
    cr_expect(eq(int, htc_identity_create(NULL, secrets, 5, &identity), HTC_EINVAL));
    cr_assert(eq(int, htc_identity_create(NULL, secrets, 4, &identity), HTC_OK));
    for (size_t i = 0; i < 4; i++) {
        htc_key_public(secrets + i * 32, expected);
        cr_expect(htc_identity_public(identity, i, public) == HTC_OK && memcmp(public, expected, 32) == 0);
    }
    cr_expect(eq(int, htc_identity_public(identity, 4, public), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_identity_set(identity, secrets + 128, 1), HTC_OK));
    htc_key_public(secrets + 128, expected);
    cr_expect(htc_identity_public(identity, 0, public) == HTC_OK && memcmp(public, expected, 32) == 0);
    cr_expect(eq(int, htc_identity_public(identity, 1, public), HTC_ENOTFOUND));
    htc_identity_destroy(identity);
    htc_identity_destroy(NULL);
}
