/* Bytes that come to a connection through a secure channel. The first byte says who says them: a stranger; a stranger behind a
 * good first frame; somebody who is known, in place of records; or in records, as what they carry. Whatever they are: nobody is
 * shown to the machine whose key was not, messages are whole and of the length that they announced, and who is told of is let go. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "htcsched/keys.h"
#include "listener.h"
#include "net/files/files.h"
#include "net/loop/secure.h"

/* Made once: key pairs and files. */
static char          key_path[64], ring_path[64];
static uint8_t       server_public[HTC_KEY_BYTES];
static htc_identity *identity;
static htc_keyring  *ring;

static int is_friend(const htc_input *opened)
{
    htc_peer_identity who;
    return htc_peer_identity_read(opened->body, &who) == HTC_OK && strcmp(who.name, "friend") == 0;
}

static htc_status pin_friend(void *ctx, htc_keyring *r)
{
    return htc_keyring_set(r, "friend", HTC_KEY_HOST, HTC_KEY_CURRENT, ctx);
}

static char dir[] = "/tmp/htc-fuzz-secure-XXXXXX";

static void clean_up(void)
{
    htc__remove_tree(dir);
    htc_identity_destroy(identity);
    htc_keyring_destroy(ring);
}

static void make_once(void)
{
    uint8_t secret[HTC_KEY_BYTES] = { 7 }, public[HTC_KEY_BYTES];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(key_path, sizeof key_path, "%s/key", dir);
    snprintf(ring_path, sizeof ring_path, "%s/ring", dir);
    htc_key_public(secret, public);
    CHECK(htc_keys_create(key_path, server_public, NULL) == HTC_OK);
    CHECK(htc_keys_change_ring(ring_path, pin_friend, public, NULL) == HTC_OK);
    atexit(clean_up);
    CHECK(htc_identity_create(NULL, secret, 1, &identity) == HTC_OK && htc_keyring_create(NULL, 0, &ring) == HTC_OK);
    CHECK(htc_keyring_set(ring, "server", HTC_KEY_MEMBER, HTC_KEY_CURRENT, server_public) == HTC_OK);
}

/* What is there, both ways. */
static void turn(listener *w, int fd, htc_channel *c)
{
    uint8_t           bytes[65536];
    htc_channel_event event;
    event_base_loop(w->host->base, EVLOOP_NONBLOCK);
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
        htc_bytes in = { bytes, (size_t)n };
        while (c && htc_channel_read(c, 1, &in, &event) == HTC_OK && event.kind)
            ;
    }
}

static void flush(int fd, htc_channel *c)
{
    htc_bytes out;
    htc_channel_output(c, &out);
    ssize_t n = out.len ? send(fd, out.data, out.len, MSG_NOSIGNAL) : 0;
    htc_channel_sent(c, n > 0 ? (size_t)n : 0);
}

static htc_channel *caller(uint32_t only_xx)
{
    htc_channel        *c;
    htc_channel_options o = { .size = sizeof o,
                              .side = HTC_CHANNEL_CALLER,
                              .role = HTC_KEY_HOST,
                              .identity = identity,
                              .ring = ring,
                              .peer = "server",
                              .only_xx = only_xx };
    memset(o.random, 5, sizeof o.random);
    CHECK(htc_channel_create(NULL, &o, 1, &c) == HTC_OK);
    return c;
}

static void say(listener *w, int fd, htc_channel *c, int in_records, const uint8_t *data, size_t size, size_t piece)
{
    for (size_t at = 0; at < size; at += piece) {
        piece = size - at < piece ? size - at : piece;
        if (in_records) {
            if (htc_channel_write(c, (htc_bytes){ data + at, piece }) != HTC_OK)
                return;
            flush(fd, c);
        } else if (send(fd, data + at, piece, MSG_NOSIGNAL) <= 0) {
            return;
        }
        turn(w, fd, in_records ? c : NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int                   pair[2], how;
    listener              w = { .knows = is_friend };
    htc_host_keys        *keys;
    htc_channel          *c;
    htc_host_keys_options o = { .size = sizeof o, .key_path = key_path, .ring_path = ring_path };
    htc_host_keys_counts  counts;
    if (!identity)
        make_once();
    if (size < 1 || size > 60000 || htc_host_create(NULL, NULL, &w.host) != HTC_OK)
        return 0;
    how = data[0] & 3;
    w.welcomes = data[0] >> 2 & 1;
    CHECK(htc_host_keys_open(w.host, &o, &keys, NULL) == HTC_OK);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    /* What htc_host_run does, with the loop in our hands. */
    w.host->ops = &listener_ops;
    w.host->machine = &w;
    w.host->running = 1;
    CHECK(htc__secure_accept(keys, pair[0], &(htc_peer_info){ .port = 1 }, 0) == HTC_OK);
    c = caller(data[0] >> 3 & 1);
    if (how >= 1)
        flush(pair[1], c);
    for (int i = 0; how >= 2 && i < 3; i++) {
        turn(&w, pair[1], c);
        flush(pair[1], c);
    }
    turn(&w, pair[1], how >= 2 ? c : NULL);
    CHECK(w.open == (how >= 2));
    say(&w, pair[1], c, how == 3, data + 1, size - 1, (size_t)(data[0] >> 4) * 64 + 1);
    CHECK(how == 3 || w.taken == 0);
    CHECK(w.taken <= size);
    close(pair[1]);
    event_base_loop(w.host->base, EVLOOP_NONBLOCK);
    event_base_loop(w.host->base, EVLOOP_NONBLOCK);
    CHECK(!w.open);
    htc_host_keys_count(keys, &counts);
    CHECK(counts.strangers == 0);
    htc_channel_destroy(c);
    htc_host_destroy(w.host);
    return 0;
}
