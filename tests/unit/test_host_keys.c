/* Connections of a live host through secure channels: who is let in, who is told why not, and what strangers can do. */
#include "host_keys_rig.h"
#include "openmetrics.h"

#include <errno.h>
#include <netdb.h>

#include "net/loop/secure.h"

static void open_rig(rig *r, caller *friend, htc_host_keys_options *o)
{
    rig_make(r, o, NULL);
    caller_friend(friend, r, "agent-7");
    rig_listen(r, o);
    rig_start(r);
}

Test(host_keys, who_is_known_comes_in_and_is_named)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { 0 };
    char                 *big = calloc(1, (60 << 10) + 1);
    open_rig(&r, &c, &o);
    caller_connect(&c, &r);
    caller_ask(&c, "first");
    memset(big, 'x', 60 << 10);
    caller_ask(&c, big);
    for (int i = 0; i < 100; i++)
        caller_ask(&c, "again");
    cr_expect(eq(str, r.last.name, "agent-7"));
    cr_expect(eq(u32, r.last.role, HTC_KEY_HOST));
    cr_expect(memcmp(r.last.key, c.public, sizeof c.public) == 0);
    free(big);
    rig_close(&r, &c);
    cr_expect(r.opened == 2 && r.messages == 104);
}

Test(host_keys, what_the_server_says_last_arrives_and_ends_with_a_last_record)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { 0 };
    uint64_t              id;
    htc_bytes             text;
    open_rig(&r, &c, &o);
    caller_connect(&c, &r);
    caller_say(&c, 3, htc_bytes_of("bye"));
    cr_assert(caller_hear(&c, &id, &text));
    cr_expect(id == 3);
    cr_expect(caller_hear(&c, &id, &text) == 0);
    cr_expect(eq(int, c.status, HTC_OK), "no cut: %s", htc_channel_reason(c.channel));
    rig_close(&r, &c);
}

/* Who is not known, is another one than expected, or is called by one who is not known: told, and never shown to the machine. */
Test(host_keys, who_is_not_known_is_told_so)
{
    rig                   r;
    caller                c, stranger;
    htc_host_keys_options o = { 0 };
    htc_channel_options   xx = { .only_xx = 1 }, as_user = { .role = HTC_KEY_USER };
    open_rig(&r, &c, &o);
    caller_make(&stranger);
    htc_keyring_set(stranger.ring, "server", HTC_KEY_MEMBER, HTC_KEY_CURRENT, r.public);
    caller_dial(&stranger, &r, 1, &(htc_channel_options){ .size = 0 });
    cr_expect(caller_open(&stranger) == 0);
    cr_expect(eq(int, stranger.status, HTC_EDENIED));
    caller_hang_up(&stranger);
    caller_dial(&stranger, &r, 1, &xx);
    while (caller_read(&stranger)) /* in XX it hears so under seal */
        ;
    cr_expect(eq(int, stranger.status, HTC_EDENIED), "%s", htc_channel_reason(stranger.channel));
    caller_end(&stranger);
    caller_dial(&c, &r, 1, &as_user);
    cr_expect(caller_open(&c) == 0 && c.status == HTC_EDENIED, "another role");
    caller_hang_up(&c);
    /* The one that is called has not the key that the caller knows. */
    uint8_t other[HTC_KEY_BYTES] = { 9 };
    cr_assert(eq(int, htc_keyring_set(c.ring, "other", HTC_KEY_MEMBER, HTC_KEY_CURRENT, other), HTC_OK));
    caller_dial(&c, &r, 1, &(htc_channel_options){ .peer = "other" });
    cr_expect(caller_open(&c) == 0 && c.status == HTC_EDENIED, "another server: %s", htc_channel_reason(c.channel));
    rig_close(&r, &c);
    cr_expect(eq(u32, r.opened, 1));
}

Test(host_keys, a_revoked_key_ends_the_connection_and_both_hear_why)
{
    rig                   r;
    caller                c, victim;
    htc_host_keys_options o = { 0 };
    uint64_t              id;
    htc_bytes             text;
    htc_host_keys_counts  counts;
    rig_make(&r, &o, NULL);
    caller_friend(&c, &r, "agent-7");
    caller_friend(&victim, &r, "agent-8");
    rig_listen(&r, &o);
    rig_start(&r);
    caller_connect(&c, &r);
    caller_connect(&victim, &r);
    caller_ask(&victim, "in");
    rig_pin(&r, "agent-8", HTC_KEY_HOST, HTC_KEY_REVOKED, victim.public);
    caller_say(&c, 2, htc_bytes_of("load"));
    cr_assert(caller_hear(&c, &id, &text) && id == 2);
    cr_expect(text.len == 6 && memcmp(text.data, "HTC_OK", 6) == 0);
    cr_expect(caller_hear(&victim, &id, &text) == 0);
    cr_expect(eq(int, victim.status, HTC_EDENIED), "%s", htc_channel_reason(victim.channel));
    caller_hang_up(&victim);
    caller_dial(&victim, &r, 1, &(htc_channel_options){ .size = 0 });
    cr_expect(caller_open(&victim) == 0 && victim.status == HTC_EDENIED);
    caller_end(&victim);
    caller_ask(&c, "the others go on");
    /* A file that cannot be read changes nothing. */
    cr_assert(eq(int, truncate(r.ring, 10), 0));
    caller_say(&c, 2, htc_bytes_of("load"));
    cr_assert(caller_hear(&c, &id, &text) && id == 2);
    cr_expect(text.len > 6, "%.*s", (int)text.len, (const char *)text.data);
    caller_ask(&c, "and go on");
    htc_host_keys_count(r.keys, &counts);
    cr_expect(eq(u64, counts.disowned, 1));
    caller_hang_up(&c);
    rig_close(&r, &c);
    cr_expect(eq(u32, r.opened, 3));
}

Test(host_keys, a_one_time_secret_lets_in_once)
{
    rig                   r;
    caller                c, fresh, late;
    htc_host_keys_options o = { 0 };
    uint8_t               secret[HTC_KEY_BYTES];
    htc_error             error = { 0 };
    htc_keyring          *ring;
    htc_keyring_entry     e;
    rig_make(&r, &o, NULL);
    o.once_path = r.once;
    caller_friend(&c, &r, "agent-7");
    cr_assert(eq(int,
                 htc_keys_once_add(r.once, "agent-9", HTC_KEY_HOST, htc_host_wall() + 60 * HTC_SECOND, secret, &error),
                 HTC_OK),
              "%s", error.text);
    rig_listen(&r, &o);
    rig_start(&r);
    caller_make(&fresh);
    caller_dial(&fresh, &r, 1, &(htc_channel_options){ .secret = secret });
    cr_assert(caller_open(&fresh), "%s", htc_channel_reason(fresh.channel));
    caller_ask(&fresh, "enrolled");
    cr_expect(eq(str, r.last.name, "agent-9"));
    caller_hang_up(&fresh);
    caller_connect(&fresh, &r); /* from now on by its key */
    caller_ask(&fresh, "known");
    caller_end(&fresh);
    caller_make(&late);
    caller_dial(&late, &r, 1, &(htc_channel_options){ .secret = secret });
    cr_expect(caller_open(&late) == 0 && late.status == HTC_EDENIED, "it is used up");
    caller_end(&late);
    memcpy(late.public, r.last.key, sizeof late.public);
    /* Stopped, the host has written what it pinned. */
    caller_connect(&c, &r);
    caller_say(&c, 1, htc_bytes_of("stop"));
    cr_assert(eq(int, pthread_join(r.thread, NULL), 0));
    caller_end(&c);
    htc_host_destroy(r.host);
    cr_assert(eq(int, htc_keyring_create(NULL, 0, &ring), HTC_OK));
    cr_assert(eq(int, htc_keys_load_ring(r.ring, ring, &error), HTC_OK), "%s", error.text);
    cr_expect(htc_keyring_of(ring, "agent-9", 0, &e) == HTC_OK && e.role == HTC_KEY_HOST && e.state == HTC_KEY_CURRENT);
    cr_expect(htc_keyring_of(ring, "agent-7", 0, &e) == HTC_OK);
    htc_keyring_destroy(ring);
    size_t left = 7;
    cr_expect(eq(int, htc_keys_once_drop(r.once, "agent-9", 0, &left, &error), HTC_OK));
    cr_expect(eq(sz, left, 0), "the secret is gone from its file");
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", r.dir);
    cr_assert(eq(int, system(command), 0));
}

/* All that somebody said, once more: it opens nothing and nothing of it is carried out. */
Test(host_keys, what_is_said_again_is_not_heard)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { 0 };
    open_rig(&r, &c, &o);
    caller_connect(&c, &r);
    caller_ask(&c, "once");
    uint8_t *said = malloc(c.sent_len), bytes[4096];
    size_t   len = c.sent_len;
    memcpy(said, c.sent, len);
    int fd = rig_socket(&r, 1);
    cr_assert(send(fd, said, len, MSG_NOSIGNAL) == (ssize_t)len);
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        ;
    close(fd);
    free(said);
    rig_close(&r, &c);
    cr_expect(r.opened == 2 && r.messages == 3, "%u opened, %u messages", r.opened, r.messages);
}

/* Cut after each byte, and each byte changed in turn: what the machine gets is what was said, or less. */
Test(host_keys, streams_cut_and_changed_at_every_byte)
{
    rig                   r;
    caller                c, other;
    htc_host_keys_options o = { .rate = 1000000, .burst = 1000000 };
    uint64_t              id;
    htc_bytes             text;
    rig_make(&r, &o, NULL);
    caller_friend(&c, &r, "agent-7");
    caller_friend(&other, &r, "agent-8");
    rig_listen(&r, &o);
    rig_start(&r);
    for (int how = 0; how < 2; how++) {
        for (size_t at = 0; at < 400; at += 3) {
            caller_dial(&other, &r, 1, &(htc_channel_options){ .only_xx = 1 });
            if (how == 0 && at < other.sent_len) { /* cut in the handshake */
                caller_hang_up(&other);
                int fd = rig_socket(&r, 1);
                cr_assert(send(fd, "\0\0\0\0", at % 4, MSG_NOSIGNAL) == (ssize_t)(at % 4));
                close(fd);
                continue;
            }
            if (!caller_open(&other)) {
                caller_hang_up(&other);
                continue;
            }
            /* The record of a message, cut or changed on its way. */
            htc_bytes bytes;
            uint8_t   copy[512], frame[34] = { 30, 0, 0, 0, TYPE_ECHO & 255, TYPE_ECHO >> 8, 55 };
            cr_assert(eq(int, htc_channel_write(other.channel, (htc_bytes){ frame, sizeof frame }), HTC_OK));
            htc_channel_output(other.channel, &bytes);
            cr_assert(bytes.len < sizeof copy);
            memcpy(copy, bytes.data, bytes.len);
            size_t place = at % bytes.len, n = how == 0 ? place : bytes.len;
            if (how == 1)
                copy[place] ^= (uint8_t)(1 + at % 255);
            cr_assert(send(other.fd, copy, n, MSG_NOSIGNAL) == (ssize_t)n);
            htc_channel_sent(other.channel, bytes.len);
            shutdown(other.fd, SHUT_WR);
            while (caller_hear(&other, &id, &text))
                cr_expect(0, "an answer to nothing that was said");
            caller_hang_up(&other);
        }
    }
    caller_end(&other);
    rig_close(&r, &c);
    cr_expect(eq(u32, r.messages, 2), "those of the operator alone");
}

/* Any bytes: the other end is told that this is no secure channel, and closed; nothing comes of it. */
Test(host_keys, any_bytes_of_a_stranger)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { .rate = 1000000, .burst = 1000000 };
    htc_rng               rng = { 99 };
    static const char    *fixed[] = { "GET / HTTP/1.1\r\n\r\n", "\x20\0\0\0HELLO", "PING\r\n", "\xff\xff",
                                      "\x01\x00\x01" };
    open_rig(&r, &c, &o);
    for (int i = 0; i < 300; i++) {
        uint8_t bytes[700], got[256];
        size_t  n = 1 + (size_t)htc_rng_below(&rng, sizeof bytes);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)htc_rng_next(&rng);
        if (i % 3 == 0) { /* a whole frame */
            size_t len = (size_t)htc_rng_below(&rng, 256);
            bytes[0] = (uint8_t)len;
            bytes[1] = 0;
            n = len + 2;
        }
        if (i < 5) {
            n = i == 1 ? 9 : strlen(fixed[i]) + (i == 4 ? 2 : 0);
            memcpy(bytes, fixed[i], n);
        }
        int fd = rig_socket(&r, 1);
        cr_assert(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
        shutdown(fd, SHUT_WR);
        ssize_t first = recv(fd, got, sizeof got, 0);
        cr_expect(first <= 0 || (first >= 4 && got[2] == 6), "round %d: a refusal or the end", i);
        if (i == 0 || i == 2) /* the others begin as a frame may */
            cr_expect(first == 4 && memcmp(got, "\x02\0\x06\x05", 4) == 0, "round %d", i);
        close(fd);
    }
    rig_close(&r, &c);
    cr_expect(eq(u32, r.opened, 1));
}

/* Half-open connections from one address, more than there is room for: they cost a bounded number of places, and who comes from
 * elsewhere meanwhile is served. */
Test(host_keys, a_flood_of_half_open_handshakes)
{
    enum { FLOOD = 300 };
    rig                   r;
    caller                c, other;
    htc_host_keys_options o = { .strangers_max = 16 };
    htc_host_options      ho = { .size = sizeof ho, .connections_max = 40 };
    htc_host_keys_counts  counts;
    int                   fds[FLOOD], asked = 0;
    static const uint8_t  half[] = { 48, 0, 1, 'h', 't', 'c', 1, 1, 2 };
    rig_make(&r, &o, &ho);
    caller_friend(&c, &r, "agent-7");
    caller_friend(&other, &r, "agent-8");
    rig_listen(&r, &o);
    rig_start(&r);
    caller_connect(&c, &r);
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = rig_socket(&r, 2);
        if (i % 2)
            cr_assert(send(fds[i], half, sizeof half, MSG_NOSIGNAL) > 0 || errno);
        caller_ask(&c, "open ones are served");
        if (i % 30 == 17) {
            caller_connect(&other, &r);
            caller_ask(&other, "new ones too");
            caller_hang_up(&other);
        }
    }
    do { /* the last ones may not have been let in yet */
        caller_ask(&c, "and still are");
        htc_host_keys_count(r.keys, &counts);
    } while (counts.crowded_out + counts.strangers < FLOOD && asked++ < 10000);
    cr_expect(counts.strangers_top <= 16 && counts.crowded_out >= FLOOD - 16, "%u at once, %lu crowded out",
              counts.strangers_top, (unsigned long)counts.crowded_out);
    htc_metrics *page;
    htc_bytes    text;
    om           said;
    cr_assert(eq(int, htc_metrics_create(NULL, 0, &page), HTC_OK));
    htc_host_keys_metrics(r.keys, page);
    cr_assert(eq(int, htc_metrics_end(page, &text), HTC_OK));
    cr_assert(om_read(&said, text), "line %zu: %s", said.line, said.wrong);
    const om_sample *out = om_find(&said, "htc_channel_crowded_out_total"), *opened = om_find(&said, "htc_channel_opened_total");
    cr_assert(out && opened && om_find(&said, "htc_channel_strangers") && om_find(&said, "htc_channel_busy_total") &&
              om_find(&said, "htc_channel_refused_total") && om_find(&said, "htc_channel_rate_limited_total") &&
              om_find(&said, "htc_channel_disowned_total"));
    cr_expect(strtoull(out->number, NULL, 10) >= counts.crowded_out && strtoull(opened->number, NULL, 10) >= counts.opened &&
              counts.opened > 0);
    om_free(&said);
    htc_metrics_destroy(page);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    caller_end(&other);
    rig_close(&r, &c);
}

/* Who is slow is told so when the time is over, whatever byte it has come to. */
Test(host_keys, who_takes_too_long_is_told_and_closed)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { .handshake_ns = 300 * HTC_MS };
    uint8_t               got[64];
    open_rig(&r, &c, &o);
    int fd = rig_socket(&r, 1), mute = rig_socket(&r, 1);
    cr_assert(send(fd, "\x30", 1, MSG_NOSIGNAL) == 1);
    ssize_t n = recv(fd, got, sizeof got, 0);
    cr_expect(n == 4 && memcmp(got, "\x02\0\x06\x06", 4) == 0, "%zd", n);
    n = recv(mute, got, sizeof got, 0);
    cr_expect(n == 4 && memcmp(got, "\x02\0\x06\x06", 4) == 0, "%zd", n);
    close(fd);
    close(mute);
    rig_close(&r, &c);
    cr_expect(eq(u32, r.opened, 1));
}

/* Too many handshakes from one address are refused; those from others are not. */
Test(host_keys, the_rate_of_an_address)
{
    rig                   r;
    caller                c;
    htc_host_keys_options o = { .rate = 1, .burst = 3 };
    int                   busy = 0;
    open_rig(&r, &c, &o);
    for (int i = 0; i < 10; i++) {
        caller_dial(&c, &r, 9, &(htc_channel_options){ .size = 0 });
        if (!caller_open(&c))
            busy += c.status == HTC_EBUSY;
        caller_hang_up(&c);
    }
    cr_expect(busy >= 3, "%d", busy);
    rig_close(&r, &c);
}

static uint32_t asking, asking_top; /* questions at once */

/* In the place of the C library's: two.test has two addresses, and nobody listens at the first. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo **last = out;
    uint32_t          now = __atomic_add_fetch(&asking, 1, __ATOMIC_SEQ_CST);
    (void)hints;
    if (now > __atomic_load_n(&asking_top, __ATOMIC_SEQ_CST))
        __atomic_store_n(&asking_top, now, __ATOMIC_SEQ_CST);
    usleep(5000); /* so that others that may come do */
    __atomic_sub_fetch(&asking, 1, __ATOMIC_SEQ_CST);
    *out = NULL;
    if (strcmp(node, "two.test") != 0)
        return EAI_NONAME;
    for (uint32_t i = 0; i < 2; i++, last = &(*last)->ai_next) {
        struct sockaddr_in *in = calloc(1, sizeof *in);
        *last = calloc(1, sizeof **last);
        cr_assert(in && *last);
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)atoi(service));
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 - i);
        (*last)->ai_addr = (struct sockaddr *)in;
        (*last)->ai_addrlen = sizeof *in;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list->ai_addr);
        free(list);
        list = next;
    }
}

Test(host_keys, the_addresses_of_a_name_take_turns)
{
    static const uint32_t   wants[] = { INADDR_LOOPBACK + 1, INADDR_LOOPBACK, INADDR_LOOPBACK + 1 };
    struct sockaddr_storage to;
    socklen_t               len;
    uint32_t                count;
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(htc__address_find("two.test", 99, i, &to, &len, &count) == NULL);
        const struct sockaddr_in *in = (const struct sockaddr_in *)&to;
        cr_expect(eq(u32, ntohl(in->sin_addr.s_addr), wants[i]));
        cr_expect(eq(u32, count, 2));
        cr_expect(eq(u32, ntohs(in->sin_port), 99));
    }
    cr_expect(htc__address_find("none.test", 99, 0, &to, &len, &count) != NULL);
    cr_expect(htc__address_find("127.0.0.9", 99, 7, &to, &len, &count) == NULL && count == 1);
}

/* Two hosts: one calls the other, by its name, and again when the connection is lost; its second key is announced and pinned. */
Test(host_keys, a_host_calls_another_and_announces_its_next_key)
{
    rig                        r, d;
    caller                     c;
    htc_host_keys_options      o = { 0 }, od = { 0 };
    htc_host_options           fast = { .size = sizeof fast, .redial_max_ns = 50 * HTC_MS };
    htc_host_keys_dial_options to = { .size = sizeof to, .name = "server", .port = 6 };
    uint8_t                    secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES], next[HTC_KEY_BYTES];
    char                       address[64], name[64];
    size_t                     n;
    htc_error                  error = { 0 };
    rig_make(&r, &o, NULL);
    rig_make(&d, &od, &fast);
    caller_friend(&c, &r, "agent-7");
    rig_pin(&r, "store-2", HTC_KEY_MEMBER, HTC_KEY_CURRENT, d.public);
    rig_pin(&d, "server", HTC_KEY_MEMBER, HTC_KEY_CURRENT, r.public);
    cr_assert(eq(int, htc_keys_read(d.key, secrets, &n, &error), HTC_OK));
    cr_assert(eq(int, htc_keys_random(secrets + HTC_KEY_BYTES, HTC_KEY_BYTES), HTC_OK));
    htc_key_public(secrets + HTC_KEY_BYTES, next);
    cr_assert(eq(int, htc_keys_write(d.key, secrets, 2, &error), HTC_OK));
    rig_listen(&r, &o);
    cr_assert(eq(int, htc_host_keys_open(d.host, &od, &d.keys, &error), HTC_OK), "%s", error.text);
    snprintf(address, sizeof address, "127.0.0.1:%u", r.port);
    snprintf(name, sizeof name, "two.test:%u", r.port); /* nobody answers at the first of its addresses */
    to.address = name;
    d.enough = 2;
    cr_assert(eq(int, htc_host_keys_dial(d.keys, &to, &d.dialled, &error), HTC_OK), "%s", error.text);
    rig_start(&d); /* nobody runs there yet */
    rig_start(&r);
    while (__atomic_load_n(&d.greeted, __ATOMIC_SEQ_CST) < 1)
        usleep(1000);
    cr_expect(eq(str, d.last.name, "server"));
    /* The one that was called is gone, and comes back. */
    caller_connect(&c, &r);
    caller_say(&c, 1, htc_bytes_of("stop"));
    cr_assert(eq(int, pthread_join(r.thread, NULL), 0));
    htc_host_destroy(r.host);
    caller_hang_up(&c);
    htc_keyring      *ring;
    htc_keyring_entry e;
    cr_assert(eq(int, htc_keyring_create(NULL, 0, &ring), HTC_OK));
    cr_assert(eq(int, htc_keys_load_ring(r.ring, ring, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_keyring_find(ring, next, &e), HTC_OK), "its next key is pinned, and in the file");
    cr_expect(e.state == HTC_KEY_NEXT && strcmp(e.name, "store-2") == 0);
    htc_keyring_destroy(ring);
    while (__atomic_load_n(&d.closed, __ATOMIC_SEQ_CST) < 1)
        usleep(1000);
    cr_expect(eq(int, d.why, HTC_ECLOSED));
    cr_assert(eq(int, htc_host_create(NULL, NULL, &r.host), HTC_OK));
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = address, .port = 5 };
    cr_assert(eq(int, htc_host_keys_open(r.host, &o, &r.keys, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_host_keys_listen(r.keys, &lo, NULL, &error), HTC_OK), "%s", error.text);
    rig_start(&r);
    cr_assert(eq(int, pthread_join(d.thread, NULL), 0));
    cr_expect(eq(u32, d.greeted, 2));
    rig_close(&r, &c);
    htc_host_destroy(d.host);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", d.dir);
    cr_assert(eq(int, system(command), 0));
}

static void put_text(const char *path, const char *mode, const char *text)
{
    FILE *f = fopen(path, mode);
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Whichever file is damaged, of the others nothing is taken: neither a secret, nor a key that is pinned, nor an own one. */
Test(host_keys, all_files_or_nothing_of_them)
{
    rig                   r;
    htc_host_keys_options o = { 0 };
    htc_error             error = { 0 };
    uint8_t               secret[HTC_KEY_BYTES], own[HTC_IDENTITY_MAX * HTC_KEY_BYTES], wants[HTC_KEY_BYTES], has[HTC_KEY_BYTES];
    char                  command[512];
    size_t                n;
    htc_keyring_entry     e;
    rig_make(&r, &o, NULL);
    o.once_path = r.once;
    rig_listen(&r, &o);
    /* All three files say something new. */
    cr_assert(eq(int, htc_keys_once_add(r.once, "agent-9", HTC_KEY_HOST, htc_host_wall() + 60 * HTC_SECOND, secret, &error), HTC_OK));
    cr_assert(eq(int, htc_keys_random(secret, sizeof secret), HTC_OK));
    rig_pin(&r, "agent-8", HTC_KEY_HOST, HTC_KEY_CURRENT, secret);
    cr_assert(eq(int, htc_keys_read(r.key, own, &n, &error), HTC_OK));
    cr_assert(eq(int, htc_keys_random(own, HTC_KEY_BYTES), HTC_OK));
    htc_key_public(own, wants);
    cr_assert(eq(int, htc_keys_write(r.key, own, 1, &error), HTC_OK));
    const char *const files[] = { r.key, r.ring, r.once };
    for (size_t i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "cp -p '%s' '%s/good'", files[i], r.dir);
        cr_assert(eq(int, system(command), 0));
        put_text(files[i], "a", "nonsense\n");
        cr_expect(eq(int, htc_host_keys_load(r.keys, &error), HTC_ECONFIG), "%s", files[i]);
        cr_expect(eq(str, error.where, (char *)files[i]));
        cr_expect(eq(sz, htc_enrolment_count(r.keys->enrolment, htc_host_now()), 0), "%s", files[i]);
        cr_expect(eq(int, htc_keyring_find(r.keys->ring, secret, &e), HTC_ENOTFOUND), "%s", files[i]);
        cr_assert(eq(int, htc_identity_public(r.keys->identity, 0, has), HTC_OK));
        cr_expect(memcmp(has, r.public, sizeof has) == 0, "%s", files[i]);
        snprintf(command, sizeof command, "mv '%s/good' '%s'", r.dir, files[i]);
        cr_assert(eq(int, system(command), 0));
    }
    cr_assert(eq(int, htc_host_keys_load(r.keys, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(sz, htc_enrolment_count(r.keys->enrolment, htc_host_now()), 1));
    cr_expect(eq(int, htc_keyring_find(r.keys->ring, secret, &e), HTC_OK));
    cr_assert(eq(int, htc_identity_public(r.keys->identity, 0, has), HTC_OK));
    cr_expect(memcmp(has, wants, sizeof has) == 0);
    htc_host_destroy(r.host);
    snprintf(command, sizeof command, "rm -rf '%s'", r.dir);
    cr_assert(eq(int, system(command), 0));
}

/* The workers are there for syncs too. */
Test(host_keys, one_name_is_asked_for_at_a_time)
{
    enum { DIALLED = 12 };
    rig                        r, d;
    caller                     c, operator;
    htc_host_keys_options      o = { 0 }, od = { 0 };
    htc_host_options           fast = { .size = sizeof fast, .redial_max_ns = 50 * HTC_MS };
    htc_host_keys_dial_options to = { .size = sizeof to, .name = "server", .port = 6 };
    char                       name[64];
    uint32_t                   peer;
    htc_error                  error = { 0 };
    rig_make(&r, &o, NULL);
    rig_make(&d, &od, &fast);
    caller_friend(&c, &r, "agent-7");
    caller_friend(&operator, &d, "agent-7");
    rig_pin(&r, "store-2", HTC_KEY_MEMBER, HTC_KEY_CURRENT, d.public);
    rig_pin(&d, "server", HTC_KEY_MEMBER, HTC_KEY_CURRENT, r.public);
    rig_listen(&r, &o);
    rig_listen(&d, &od);
    snprintf(name, sizeof name, "two.test:%u", r.port);
    to.address = name;
    for (uint32_t i = 0; i < DIALLED; i++)
        cr_assert(eq(int, htc_host_keys_dial(d.keys, &to, &peer, &error), HTC_OK), "%s", error.text);
    rig_start(&d);
    rig_start(&r);
    while (__atomic_load_n(&d.opened, __ATOMIC_SEQ_CST) < DIALLED)
        usleep(1000);
    cr_expect(eq(u32, __atomic_load_n(&asking_top, __ATOMIC_SEQ_CST), 1));
    rig_close(&d, &operator);
    rig_close(&r, &c);
}

Test(host_keys, options_and_files_that_are_refused)
{
    rig                          r;
    htc_host_keys_options        o = { 0 };
    htc_host_keys               *keys = NULL;
    htc_host_keys_listen_options lo = { .size = sizeof lo };
    htc_host_keys_dial_options   to = { .size = sizeof to };
    htc_error                    error = { 0 };
    uint32_t                     peer;
    rig_make(&r, &o, NULL);
    cr_expect(eq(int, htc_host_keys_open(NULL, &o, &keys, &error), HTC_EINVAL));
    o.ring_path = NULL;
    cr_expect(eq(int, htc_host_keys_open(r.host, &o, &keys, &error), HTC_EINVAL));
    o.ring_path = r.once; /* not there */
    cr_expect(eq(int, htc_host_keys_open(r.host, &o, &keys, &error), HTC_ENOTFOUND));
    cr_expect(strstr(error.text, r.once) != NULL, "%s", error.text);
    o.ring_path = r.ring;
    cr_assert(eq(int, chmod(r.key, 0644), 0));
    cr_expect(eq(int, htc_host_keys_open(r.host, &o, &keys, &error), HTC_EDENIED));
    cr_assert(eq(int, chmod(r.key, 0600), 0));
    cr_assert(eq(int, htc_host_keys_open(r.host, &o, &keys, &error), HTC_OK), "%s", error.text);
    static const char *const bad[] = { "", "localhost:1", "127.0.0.1", "0.0.0.0:65536", "unix:/tmp/x", "::1:5" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lo.address = bad[i];
        cr_expect(eq(int, htc_host_keys_listen(keys, &lo, NULL, &error), HTC_EINVAL), "%s", bad[i]);
    }
    to.address = "127.0.0.1:0";
    cr_expect(eq(int, htc_host_keys_dial(keys, &to, &peer, &error), HTC_EINVAL));
    to.address = "127.0.0.1:5";
    to.name = "No Name";
    cr_expect(eq(int, htc_host_keys_dial(keys, &to, &peer, &error), HTC_EINVAL));
    htc_host_destroy(r.host);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", r.dir);
    cr_assert(eq(int, system(command), 0));
}
