/* Content hashes: BLAKE2b with 32 bytes, what uploads and outputs are known by. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "core/util.h"
#include "net/files/tree.h"

void htc_content_hash(htc_bytes bytes, uint8_t hash[32])
{
    crypto_generichash(hash, 32, bytes.len ? bytes.data : (const uint8_t *)"", bytes.len, NULL, 0);
}

htc_status htc_content_hash_fd(int fd, uint8_t hash[32], uint64_t *size)
{
    crypto_generichash_state state;
    uint8_t                  piece[65536];
    uint64_t                 at = 0;
    crypto_generichash_init(&state, NULL, 0, 32);
    for (;;) {
        ssize_t n = pread(fd, piece, sizeof piece, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return HTC_EIO;
        if (n == 0)
            break;
        crypto_generichash_update(&state, piece, (unsigned long long)n);
        at += (uint64_t)n;
    }
    crypto_generichash_final(&state, hash, 32);
    if (size)
        *size = at;
    return HTC_OK;
}

void htc_content_hex(const uint8_t hash[32], char hex[65])
{
    sodium_bin2hex(hex, 65, hash, 32);
}

htc_status htc_content_unhex(const char *hex, uint8_t hash[32])
{
    uint8_t bytes[32];
    size_t  n = 0;
    if (strlen(hex) != 64 || sodium_hex2bin(bytes, sizeof bytes, hex, 64, NULL, &n, NULL) != 0 || n != 32)
        return HTC_EINVAL;
    memcpy(hash, bytes, 32);
    return HTC_OK;
}

htc_status htc_content_of_uri(const char *uri, uint8_t hash[32], int *tree)
{
    char   hex[65];
    size_t n;
    if (!uri || strncmp(uri, "htc:", 4) != 0)
        return HTC_EINVAL;
    uri += 4 + strspn(uri + 4, "/");
    n = strlen(uri);
    int slash = n == 65 && uri[64] == '/';
    snprintf(hex, sizeof hex, "%s", n <= 65 ? uri : "");
    if (n != 64 && !slash)
        return HTC_EINVAL;
    if (tree)
        *tree = slash;
    return htc_content_unhex(hex, hash);
}

htc_status htc_content_tree(const char *dir, int out, htc_error *error)
{
    char why[400] = "";
    if (!dir || out < 0)
        return htc__error(error, HTC_EINVAL, "a directory and a file are needed");
    htc_status status = htc__tree_pack(dir, out, HTC__TREE_ENTRIES_MAX, why, sizeof why);
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "%s", why);
}
