/* A ring file from anybody: refused with a place, and the ring is as it was; or read, and then it is written and read again. */
#include <string.h>

#include "check.h"
#include "htcsched/keyring.h"

#define ROOM (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char       text[ROOM], again[ROOM];
    uint8_t           key[HTC_KEY_BYTES];
    char              key_text[HTC_KEY_TEXT_MAX];
    htc_keyring      *ring = NULL, *copy = NULL;
    htc_keyring_entry e;
    htc_error         error = { .line = 0 };
    for (uint32_t kind = HTC_KEY_PUBLIC; kind <= HTC_KEY_ONCE; kind++)
        if (htc_key_read(kind, (htc_bytes){ data, size }, key, NULL) == HTC_OK)
            CHECK(htc_key_write(kind, key, key_text) == HTC_OK);
    CHECK(htc_keyring_create(NULL, 1000, &ring) == HTC_OK && htc_keyring_create(NULL, 1000, &copy) == HTC_OK);
    memset(key, 1, sizeof key);
    CHECK(htc_keyring_set(ring, "kept", HTC_KEY_USER, HTC_KEY_CURRENT, key) == HTC_OK);
    htc_status status = htc_keyring_load(ring, (htc_bytes){ data, size }, "fuzz", &error);
    if (status != HTC_OK) {
        CHECK(error.line > 0 && error.column > 0 && error.text[0]);
        CHECK(htc_keyring_find(ring, key, &e) == HTC_OK && strcmp(e.name, "kept") == 0);
    } else {
        size_t len = htc_keyring_text(ring, text, ROOM);
        CHECK(len <= ROOM && htc_keyring_load(copy, (htc_bytes){ text, len }, "", NULL) == HTC_OK);
        CHECK(htc_keyring_text(copy, again, ROOM) == len && memcmp(text, again, len) == 0);
        for (size_t i = 0; htc_keyring_at(ring, i, &e) == HTC_OK; i++)
            CHECK(htc_keyring_find(copy, e.key, &e) == HTC_OK);
    }
    htc_keyring_destroy(ring);
    htc_keyring_destroy(copy);
    return 0;
}
