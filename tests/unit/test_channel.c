/* The secure channel: that what is written arrives, in order and whole, from whom it says; and that whatever else a wire may do is
 * found out, named, and the end of the channel. */
#include "channel_pair.h"

#include <sodium.h>

#include "alloc_fail.h"
#include "property.h"

static void check_names(pair *p)
{
    htc_channel_peer_info a, b;
    cr_assert(eq(int, htc_channel_peer(p->e[CALLER].channel, &a), HTC_OK));
    cr_assert(eq(int, htc_channel_peer(p->e[SERVER].channel, &b), HTC_OK));
    cr_expect(strcmp(a.name, "store-1") == 0 && a.role == HTC_KEY_MEMBER &&
              memcmp(a.key, p->e[SERVER].public, 32) == 0);
    cr_expect(strcmp(b.name, "agent-7") == 0 && b.role == HTC_KEY_HOST && memcmp(b.key, p->e[CALLER].public, 32) == 0);
    cr_expect(memcmp(a.hash, b.hash, 32) == 0);
}

static uint32_t pattern(const pair *p)
{
    return p->e[CALLER].channel->pattern;
}

Test(channel, a_known_server_is_called_with_ik)
{
    pair p;
    pair_open(&p, 1, 1);
    pair_connect(&p);
    cr_expect(eq(u32, pattern(&p), HTC__NOISE_IK));
    check_names(&p);
    pair_write(&p, CALLER, "get a");
    pair_write(&p, CALLER, "get b");
    pair_pump(&p);
    pair_write(&p, SERVER, "a is 1, b is 2");
    pair_pump(&p);
    cr_expect(pair_got(&p, SERVER, "get aget b") && pair_got(&p, CALLER, "a is 1, b is 2"));
    cr_expect(htc_channel_deadline(p.e[CALLER].channel) == HTC_NEVER);
    /* Each direction ends for itself. */
    cr_assert(eq(int, htc_channel_close(p.e[CALLER].channel), HTC_OK));
    cr_assert(eq(int, htc_channel_close(p.e[CALLER].channel), HTC_OK));
    cr_expect(eq(int, htc_channel_write(p.e[CALLER].channel, htc_bytes_of("x")), HTC_EINVAL));
    pair_pump(&p);
    cr_expect(p.e[SERVER].closed == 1 && p.e[CALLER].closed == 0);
    cr_expect(eq(int, htc_channel_end(p.e[SERVER].channel), HTC_OK));
    pair_write(&p, SERVER, ".");
    cr_assert(eq(int, htc_channel_close(p.e[SERVER].channel), HTC_OK));
    pair_pump(&p);
    cr_expect(p.e[CALLER].closed == 1 && pair_got(&p, CALLER, "a is 1, b is 2."));
    cr_expect(eq(int, htc_channel_end(p.e[CALLER].channel), HTC_OK));
    pair_close(&p);
}

/* Anybody of a role may answer: the key is not known before, so XX. And only_xx. */
Test(channel, an_unnamed_server_is_called_with_xx)
{
    for (uint32_t only = 0; only < 2; only++) {
        pair p;
        pair_open(&p, 2, 1);
        p.o[CALLER].peer = only ? "store-1" : NULL;
        p.o[CALLER].only_xx = only;
        pair_connect(&p);
        cr_expect(eq(u32, pattern(&p), HTC__NOISE_XX));
        check_names(&p);
        pair_write(&p, CALLER, "hello");
        pair_pump(&p);
        cr_expect(pair_got(&p, SERVER, "hello"));
        pair_close(&p);
    }
}

/* Whatever the wire cuts the stream into, however the ends write, seal and send: what arrives is what was written. Keys change
 * after few records, so that the change falls everywhere. */
Test(channel, what_is_written_arrives)
{
    PROPERTY(rng, 300)
    {
        pair     p;
        uint8_t *said[2] = { NULL, NULL };
        size_t   said_len[2] = { 0, 0 };
        pair_open(&p, htc_rng_next(&rng), 1);
        p.o[CALLER].only_xx = htc_rng_below(&rng, 2);
        for (int i = 0; i < 2; i++) {
            p.o[i].rekey_records = 1 + (uint32_t)htc_rng_below(&rng, 6);
            p.o[i].rekey_bytes = 1 + htc_rng_below(&rng, 100000);
        }
        pair_dial(&p);
        for (int i = 0; i < 200; i++) {
            int    k = (int)htc_rng_below(&rng, 2);
            size_t n = htc_rng_below(&rng, htc_rng_below(&rng, 20) ? 600 : 150000);
            switch (htc_rng_below(&rng, 4)) {
            case 0:
                if (p.e[k].opened) {
                    said[k] = realloc(said[k], said_len[k] + n + 1);
                    pair_draw(&rng, said[k] + said_len[k], n);
                    HOLDS(htc_channel_write(p.e[k].channel, (htc_bytes){ said[k] + said_len[k], n }) == HTC_OK);
                    said_len[k] += n;
                }
                break;
            case 1:
                pair_say(&p, k, n);
                break;
            default:
                HOLDS(pair_carry(&p, k, n) == HTC_OK);
            }
            HOLDS(p.e[1 - k].got_len <= said_len[k]);
        }
        pair_pump(&p);
        for (int k = 0; k < 2; k++)
            HOLDS(htc_channel_close(p.e[k].channel) == HTC_OK);
        pair_pump(&p);
        for (int k = 0; k < 2; k++) {
            HOLDS(p.e[k].got_len == said_len[1 - k]);
            HOLDS(said_len[1 - k] == 0 || memcmp(p.e[k].got, said[1 - k], said_len[1 - k]) == 0);
            HOLDS(p.e[k].closed == 1 && htc_channel_end(p.e[k].channel) == HTC_OK);
            free(said[1 - k]);
        }
        pair_close(&p);
    }
}

/* A turn's writes are one record; a long one is as few as it fits into. */
Test(channel, sealing_is_by_batch)
{
    static uint8_t many[3 * HTC_CHANNEL_RECORD_MAX + 5];
    pair           p;
    htc_bytes      out;
    pair_open(&p, 3, 1);
    pair_connect(&p);
    for (int i = 0; i < 16; i++)
        cr_assert(eq(int, htc_channel_write(p.e[CALLER].channel, (htc_bytes){ many, 256 }), HTC_OK));
    cr_assert(eq(int, htc_channel_output(p.e[CALLER].channel, &out), HTC_OK));
    cr_expect(eq(sz, out.len, 16 * 256 + 19));
    htc_channel_sent(p.e[CALLER].channel, out.len);
    cr_assert(eq(int, htc_channel_write(p.e[CALLER].channel, (htc_bytes){ many, sizeof many }), HTC_OK));
    cr_assert(eq(int, htc_channel_output(p.e[CALLER].channel, &out), HTC_OK));
    cr_expect(eq(sz, out.len, sizeof many + 4 * 19));
    htc_channel_sent(p.e[CALLER].channel, out.len);
    cr_assert(eq(int, htc_channel_output(p.e[CALLER].channel, &out), HTC_OK));
    cr_expect(eq(sz, out.len, 0));
    pair_close(&p);
}

/* Both ends have the same keys after each record, and another one when records or bytes say so. */
Test(channel, keys_change_by_count_and_by_bytes)
{
    static const struct {
        uint32_t records;
        uint64_t bytes;
        int      changes; /* after 12 records that seal 11 bytes each */
    } cases[] = { { 1, 0, 12 },    { 2, 0, 6 },    { 5, 0, 2 },    { 13, 0, 0 },
                  { 100, 11, 12 }, { 100, 12, 6 }, { 100, 33, 4 }, { 3, 22, 6 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair    p;
        uint8_t before[32];
        int     changes = 0;
        pair_open(&p, 4 + i, 1);
        p.o[SERVER].rekey_records = cases[i].records;
        p.o[SERVER].rekey_bytes = cases[i].bytes;
        pair_connect(&p);
        for (int k = 0; k < 12; k++) {
            memcpy(before, p.e[SERVER].channel->send.key, 32);
            pair_write(&p, SERVER, "ten bytes.");
            pair_pump(&p);
            changes += memcmp(before, p.e[SERVER].channel->send.key, 32) != 0;
            cr_expect(memcmp(p.e[CALLER].channel->receive.key, p.e[SERVER].channel->send.key, 32) == 0);
        }
        cr_expect(changes == cases[i].changes, "case %zu: %d changes", i, changes);
        cr_expect(eq(sz, p.e[CALLER].got_len, 120));
        pair_close(&p);
    }
}

/* A record's place on the wire. */
static size_t frame_at(const wire *w, size_t start, size_t number)
{
    size_t at = start;
    while (number--)
        at += 2 + (size_t)(w->data[at] | w->data[at + 1] << 8);
    return at;
}

/* Ten records of the caller's, numbered; then the wire does something to them. What was delivered is the beginning of what was said
 * and no more, and the stream is not taken for a whole one. */
Test(channel, whatever_the_wire_does_is_found_out)
{
    enum { RECORDS = 10 };
    PROPERTY(rng, 3000)
    {
        pair    p;
        uint8_t said[RECORDS * 40], changed[2 * sizeof said + 2048];
        size_t  said_len = 0, at[RECORDS + 2], n, first;
        pair_open(&p, htc_rng_next(&rng), 1);
        p.o[CALLER].rekey_records = 1 + (uint32_t)htc_rng_below(&rng, 5);
        pair_connect(&p);
        wire *w = &p.e[CALLER].out;
        first = w->len;
        for (int i = 0; i < RECORDS; i++) {
            size_t len = 1 + htc_rng_below(&rng, 40);
            pair_draw(&rng, said + said_len, len);
            HOLDS(htc_channel_write(p.e[CALLER].channel, (htc_bytes){ said + said_len, len }) == HTC_OK);
            said_len += len;
            pair_say(&p, CALLER, SIZE_MAX);
        }
        HOLDS(htc_channel_close(p.e[CALLER].channel) == HTC_OK);
        pair_say(&p, CALLER, SIZE_MAX);
        for (size_t i = 0; i < RECORDS + 2; i++)
            at[i] = i <= RECORDS ? frame_at(w, first, i) : w->len;
        n = w->len - first;
        size_t a = htc_rng_below(&rng, RECORDS + 1), b = htc_rng_below(&rng, RECORDS + 1), len;
        memcpy(changed, w->data + first, n);
        uint64_t how = htc_rng_below(&rng, 6);
        switch (how) {
        case 0: /* a bit */
            changed[htc_rng_below(&rng, n)] ^= (uint8_t)(1u << htc_rng_below(&rng, 8));
            break;
        case 1: /* cut off */
            n = htc_rng_below(&rng, n);
            break;
        case 2: /* a record is lost: not the last, which is case 1 */
            len = at[a + 1] - at[a];
            memmove(changed + at[a] - first, changed + at[a] - first + len, n - (at[a] - first) - len);
            n -= len;
            break;
        case 3: /* a record comes twice */
            len = at[a + 1] - at[a];
            memmove(changed + at[a] - first + len, changed + at[a] - first, n - (at[a] - first));
            n += len;
            break;
        case 4: /* two change places */
            if (a == b)
                b = (a + 1) % (RECORDS + 1);
            if (a > b) {
                size_t t = a;
                a = b;
                b = t;
            }
            n = 0;
            for (size_t i = 0; i < RECORDS + 1; i++) {
                size_t k = i == a ? b : i == b ? a : i;
                memcpy(changed + n, w->data + at[k], at[k + 1] - at[k]);
                n += at[k + 1] - at[k];
            }
            break;
        default: /* something comes behind the end */
            changed[n++] = (uint8_t)htc_rng_next(&rng);
            changed[n++] = (uint8_t)htc_rng_next(&rng);
            changed[n++] = (uint8_t)htc_rng_next(&rng);
        }
        htc_status status = pair_hear(&p, SERVER, (htc_bytes){ changed, n });
        if (status == HTC_OK && how != 5)
            status = htc_channel_end(p.e[SERVER].channel);
        if (how == 5 &&
            status ==
                HTC_OK) /* the rest of that frame does not come: reading said all there was, and more was behind */
            HOLDS(p.e[SERVER].closed == 1 && p.e[SERVER].channel->in.len > 0);
        else
            HOLDS(status == HTC_EPROTO || status == HTC_ECLOSED);
        HOLDS(htc_channel_reason(p.e[SERVER].channel)[0] != 0 || how == 5);
        HOLDS(p.e[SERVER].got_len <= said_len &&
              memcmp(said, p.e[SERVER].got ? p.e[SERVER].got : said, p.e[SERVER].got_len) == 0);
        HOLDS(status == HTC_OK || sodium_is_zero((uint8_t *)&p.e[SERVER].channel->receive, sizeof(htc__noise_cipher)));
        pair_close(&p);
    }
}

/* One bit of the handshake changes: who hears it never opens, and nothing that was written is handed over. */
Test(channel, a_changed_handshake_opens_nothing)
{
    PROPERTY(rng, 1500)
    {
        pair   p;
        size_t heard = 0;
        pair_open(&p, htc_rng_next(&rng), 1);
        p.o[CALLER].only_xx = htc_rng_below(&rng, 2);
        /* What each side hears until it is open: caller the ANSWER; server HELLO and PROOF (IK) or FINISH (XX). */
        static const size_t lengths[2][2] = { { 51, 99 }, { 114 + 19, 50 + 67 } };
        int                 victim = (int)htc_rng_below(&rng, 2);
        size_t              bad = htc_rng_below(&rng, lengths[victim][p.o[CALLER].only_xx]);
        pair_dial(&p);
        for (int i = 0; i < 8 && p.e[CALLER].status == HTC_OK && p.e[SERVER].status == HTC_OK; i++) {
            int   to = i % 2 ? CALLER : SERVER;
            wire *w = &p.e[1 - to].out;
            if (p.e[CALLER].opened && i < 4)
                pair_write(&p, CALLER, "a request");
            pair_say(&p, 1 - to, SIZE_MAX);
            if (to == victim) {
                if (bad >= heard && bad < heard + w->len - w->at)
                    w->data[w->at + bad - heard] ^= (uint8_t)(1u << htc_rng_below(&rng, 8));
                heard += w->len - w->at;
            }
            pair_carry(&p, to, SIZE_MAX);
        }
        HOLDS(heard > bad);
        /* The hint says which key is meant: changed, it is one that the server has not, and both begin anew with XX, unharmed. */
        if (victim == SERVER && bad >= 2 + HTC__HELLO_HINT && bad < 2 + HTC__HELLO_HEAD && !p.o[CALLER].only_xx) {
            HOLDS(p.e[SERVER].channel->retried && p.e[SERVER].channel->pattern == HTC__NOISE_XX);
            pair_close(&p);
            continue;
        }
        HOLDS(p.e[victim].opened == 0 && p.e[victim].got_len == 0);
        if (p.e[victim].status == HTC_OK) /* a length was made longer: it waits, and not for ever */
            HOLDS(htc_channel_timeout(p.e[victim].channel, p.now + 10 * HTC_SECOND) == HTC_ETIMEDOUT);
        pair_close(&p);
    }
}

/* All that a caller has ever said, said again to the same server: it gets no further than the handshake. */
Test(channel, a_replayed_caller_opens_nothing)
{
    for (uint32_t xx = 0; xx < 2; xx++) {
        pair p;
        wire kept;
        pair_open(&p, 5 + xx, 1);
        p.o[CALLER].only_xx = xx;
        pair_connect(&p);
        pair_write(&p, CALLER, "add 1");
        pair_pump(&p);
        cr_assert(pair_got(&p, SERVER, "add 1"));
        kept = p.e[CALLER].out;
        p.e[CALLER].out = (wire){ NULL, 0, 0 };
        pair_hang_up(&p);
        cr_assert(eq(int, pair_begin(&p, SERVER, NULL), HTC_OK));
        cr_expect(eq(int, pair_hear(&p, SERVER, (htc_bytes){ kept.data, kept.len }), HTC_EPROTO));
        cr_expect(p.e[SERVER].opened == 0 && p.e[SERVER].got_len == 0);
        /* Its first message alone: an answer, which says nothing, and then the clock. */
        pair_hang_up(&p);
        cr_assert(eq(int, pair_begin(&p, SERVER, NULL), HTC_OK));
        cr_expect(eq(int, pair_hear(&p, SERVER, (htc_bytes){ kept.data, frame_at(&kept, 0, 1) }), HTC_OK));
        cr_expect(p.e[SERVER].opened == 0);
        cr_expect(eq(int, htc_channel_write(p.e[SERVER].channel, htc_bytes_of("x")), HTC_EINVAL));
        cr_expect(htc_channel_deadline(p.e[SERVER].channel) == p.now + 10 * HTC_SECOND);
        p.now += 10 * HTC_SECOND;
        cr_expect(eq(int, pair_hear(&p, SERVER, (htc_bytes){ NULL, 0 }), HTC_ETIMEDOUT));
        free(kept.data);
        pair_close(&p);
    }
}

/* And the server's answers, played to a caller that calls anew. */
Test(channel, a_replayed_server_opens_nothing)
{
    for (uint32_t xx = 0; xx < 2; xx++) {
        pair p;
        wire kept;
        pair_open(&p, 7 + xx, 1);
        p.o[CALLER].only_xx = xx;
        pair_connect(&p);
        kept = p.e[SERVER].out;
        p.e[SERVER].out = (wire){ NULL, 0, 0 };
        pair_hang_up(&p);
        cr_assert(eq(int, pair_begin(&p, CALLER, NULL), HTC_OK));
        cr_expect(eq(int, pair_hear(&p, CALLER, (htc_bytes){ kept.data, kept.len }), HTC_EPROTO));
        cr_expect(p.e[CALLER].opened == 0);
        free(kept.data);
        pair_close(&p);
    }
}

static void expect_failures(pair *p, htc_status caller, const char *caller_says, htc_status server,
                            const char *server_says)
{
    pair_dial(p);
    pair_pump(p);
    const char *said[2] = { htc_channel_reason(p->e[CALLER].channel), htc_channel_reason(p->e[SERVER].channel) };
    cr_expect(p->e[CALLER].status == caller && strcmp(said[CALLER], caller_says) == 0, "the caller: %d %s",
              p->e[CALLER].status, said[CALLER]);
    cr_expect(p->e[SERVER].status == server && strcmp(said[SERVER], server_says) == 0, "the server: %d %s",
              p->e[SERVER].status, said[SERVER]);
    cr_expect(p->e[SERVER].opened == 0 && p->e[SERVER].got_len == 0);
    pair_close(p);
}

/* Each way of not being who one has to be. */
Test(channel, wrong_pins_are_refused_and_named)
{
    for (uint32_t xx = 0; xx < 2; xx++) {
        pair    p;
        uint8_t other[32];
        /* IK's refusal is in the clear, XX's is sealed: the words differ a little. */
        const char *told = xx ? "the peer does not know our key, or does not let it in"
                              : "the peer says that it does not know our key, or does not let it in";
        pair_open(&p, 10, 1);
        p.o[CALLER].only_xx = xx;
        htc_keyring_forget(p.e[SERVER].ring, p.e[CALLER].public);
        expect_failures(&p, HTC_EDENIED, told, HTC_EDENIED, "the peer's key is not pinned");
        pair_open(&p, 11, 1);
        p.o[CALLER].only_xx = xx;
        htc_keyring_revoke(p.e[SERVER].ring, p.e[CALLER].public);
        expect_failures(&p, HTC_EDENIED, told, HTC_EDENIED, "the peer's key was revoked");
        pair_open(&p, 12, 1);
        p.o[CALLER].only_xx = xx;
        p.o[CALLER].role = HTC_KEY_MEMBER;
        expect_failures(&p, HTC_EDENIED, told, HTC_EDENIED, "the peer's key is pinned with another role");
        pair_open(&p, 13, 1);
        p.o[CALLER].only_xx = xx;
        p.o[SERVER].accept = 1u << HTC_KEY_MEMBER;
        expect_failures(&p, HTC_EDENIED, "the peer says that it does not know our key, or does not let it in",
                        HTC_EDENIED, "the caller's role is not let in here");
        /* Another machine at the server's address: it has not the key; what it has is nobody's, or another's. */
        pair_open(&p, 14, 1);
        p.o[CALLER].only_xx = xx;
        memcpy(other, p.e[SERVER].public, 32);
        pair_new_key(&p, SERVER, NULL);
        expect_failures(&p, HTC_EDENIED, "the peer's key is not pinned", HTC_OK, "");
        pair_open(&p, 15, 1);
        p.o[CALLER].only_xx = xx;
        pair_new_key(&p, SERVER, NULL);
        htc_keyring_set(p.e[CALLER].ring, "store-2", HTC_KEY_MEMBER, HTC_KEY_CURRENT, p.e[SERVER].public);
        expect_failures(&p, HTC_EDENIED, "the peer's key is pinned for another name", HTC_OK, "");
        pair_open(&p, 16, 1);
        p.o[CALLER].only_xx = xx;
        pair_new_key(&p, SERVER, NULL);
        htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_REVOKED, p.e[SERVER].public);
        expect_failures(&p, HTC_EDENIED, "the peer's key was revoked", HTC_OK, "");
        /* A user's key does not make a server, whatever it is called. */
        pair_open(&p, 17, 1);
        p.o[CALLER].peer = NULL;
        htc_keyring_forget(p.e[CALLER].ring, p.e[SERVER].public);
        htc_keyring_set(p.e[CALLER].ring, "mallory", HTC_KEY_USER, HTC_KEY_CURRENT, p.e[SERVER].public);
        expect_failures(&p, HTC_EDENIED, "the peer's key is pinned with another role", HTC_OK, "");
    }
}

/* The owner of a key changes it while others call: first announced, then used, then the old one is revoked. Nobody is turned away,
 * and what the old key has opened ends with it. */
Test(channel, keys_rotate_without_a_stop)
{
    pair              p;
    uint8_t           old[32], next_secret[32], next[32], both[64];
    htc_keyring_entry e;
    pair_open(&p, 20, 1);
    pair_connect(&p);
    memcpy(old, p.e[SERVER].public, 32);
    memcpy(both + 32, p.e[SERVER].secret, 32);
    pair_draw(&p.rng, next_secret, 32);
    memcpy(both, next_secret, 32);
    htc_key_public(next_secret, next);
    cr_assert(eq(int, htc_channel_announce(p.e[SERVER].channel, next), HTC_OK));
    pair_pump(&p);
    cr_assert(memcmp(p.e[CALLER].next, next, 32) == 0);
    cr_assert(eq(int, htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_NEXT, next), HTC_OK));
    /* The server has both, the new one first: the open channel goes on, an IK for the old key is answered. */
    cr_assert(eq(int, htc_identity_set(p.e[SERVER].identity, both, 2), HTC_OK));
    pair_write(&p, CALLER, "1");
    pair_pump(&p);
    cr_expect(pair_got(&p, SERVER, "1"));
    pair_hang_up(&p);
    pair_connect(&p);
    cr_expect(eq(u32, pattern(&p), HTC__NOISE_IK));
    /* It has only the new one: the caller falls back to XX on the same connection, and finds it under the name. */
    cr_assert(eq(int, htc_identity_set(p.e[SERVER].identity, both, 1), HTC_OK));
    pair_hang_up(&p);
    pair_connect(&p);
    cr_expect(eq(u32, pattern(&p), HTC__NOISE_XX));
    cr_expect(p.e[CALLER].channel->retried && p.e[SERVER].channel->retried);
    pair_write(&p, CALLER, "2");
    pair_pump(&p);
    cr_expect(pair_got(&p, SERVER, "2"));
    /* The new one counts, the old one is revoked: IK again. */
    cr_assert(eq(int, htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_CURRENT, next), HTC_OK));
    cr_assert(eq(int, htc_keyring_revoke(p.e[CALLER].ring, old), HTC_OK));
    cr_expect(eq(int, htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_NEXT, old), HTC_EDENIED));
    pair_write(&p, CALLER, "3");
    pair_pump(&p);
    cr_expect(pair_got(&p, SERVER, "23"), "this channel was opened by the new key");
    pair_hang_up(&p);
    pair_connect(&p);
    cr_expect(eq(u32, pattern(&p), HTC__NOISE_IK));
    cr_assert(eq(int, htc_keyring_find(p.e[CALLER].ring, next, &e), HTC_OK));
    /* Somebody has stolen the new key too. */
    cr_assert(eq(int, htc_keyring_revoke(p.e[CALLER].ring, next), HTC_OK));
    cr_expect(eq(int, htc_channel_write(p.e[CALLER].channel, htc_bytes_of("4")), HTC_EDENIED));
    cr_expect(strcmp(htc_channel_reason(p.e[CALLER].channel), "the peer's key was revoked") == 0);
    cr_expect(sodium_is_zero((uint8_t *)&p.e[CALLER].channel->send, sizeof(htc__noise_cipher)));
    pair_hang_up(&p);
    cr_expect(eq(int, pair_begin(&p, CALLER, NULL), HTC_ENOTFOUND));
    pair_close(&p);
}

/* The ring changes under open channels; each end looks again when it is used next, even with nothing to read. */
Test(channel, a_revoked_peer_is_out_at_once)
{
    static const char *const reasons[] = { "the peer's key was revoked", "the peer's key is not pinned any more",
                                           "the peer's key is pinned for somebody else now" };
    for (int how = 0; how < 3; how++) {
        pair p;
        pair_open(&p, 30, 1);
        pair_connect(&p);
        pair_write(&p, CALLER, "too late");
        pair_say(&p, CALLER, SIZE_MAX);
        htc_keyring *ring = p.e[SERVER].ring;
        if (how == 0)
            htc_keyring_revoke(ring, p.e[CALLER].public);
        if (how > 0)
            htc_keyring_forget(ring, p.e[CALLER].public);
        if (how == 2)
            htc_keyring_set(ring, "agent-8", HTC_KEY_HOST, HTC_KEY_CURRENT, p.e[CALLER].public);
        cr_expect(eq(int, pair_hear(&p, SERVER, (htc_bytes){ NULL, 0 }), HTC_EDENIED));
        cr_expect(strcmp(htc_channel_reason(p.e[SERVER].channel), reasons[how]) == 0);
        cr_expect(eq(int, pair_carry(&p, SERVER, SIZE_MAX), HTC_EDENIED));
        cr_expect(eq(sz, p.e[SERVER].got_len, 0));
        pair_close(&p);
    }
}

/* Revoked between IK's first message and the record that proves the caller. */
Test(channel, revoked_during_the_handshake)
{
    pair p;
    pair_open(&p, 31, 1);
    pair_dial(&p);
    pair_say(&p, CALLER, SIZE_MAX);
    pair_carry(&p, SERVER, SIZE_MAX);
    htc_keyring_revoke(p.e[SERVER].ring, p.e[CALLER].public);
    pair_pump(&p);
    cr_expect(p.e[SERVER].status == HTC_EDENIED && p.e[SERVER].opened == 0);
    pair_close(&p);
}

Test(channel, half_open_connections_end)
{
    pair              p;
    htc_bytes         out;
    htc_channel_event event;
    pair_open(&p, 40, 1);
    pair_dial(&p);
    cr_expect(eq(int, htc_channel_end(p.e[SERVER].channel), HTC_ECLOSED));
    cr_expect(strcmp(htc_channel_reason(p.e[SERVER].channel), "the stream ended in the handshake") == 0);
    cr_expect(eq(int, htc_channel_timeout(p.e[CALLER].channel, p.now + 10 * HTC_SECOND - 1), HTC_OK));
    cr_expect(eq(int, htc_channel_timeout(p.e[CALLER].channel, p.now + 10 * HTC_SECOND), HTC_ETIMEDOUT));
    out = (htc_bytes){ "x", 1 };
    cr_expect(eq(int, htc_channel_read(p.e[CALLER].channel, p.now, &out, &event), HTC_ETIMEDOUT));
    cr_expect(eq(int, htc_channel_write(p.e[CALLER].channel, out), HTC_ETIMEDOUT));
    pair_close(&p);
}

/* What is no first frame of ours costs no memory and no waiting. */
Test(channel, strangers_talk_of_something_else)
{
    static const struct {
        const char *bytes;
        size_t      len;
    } said[] = { { "GET / HTTP/1.1\r\n", 16 },
                 { "\0\0", 2 },
                 { "\x01\x01", 2 },
                 { "\x04\0htcd", 6 },
                 { "\x10\0\x01htc\x01\x01\x02\0\0\0\0\0\0\0\0\0", 18 },
                 { "\xff\xff", 2 } };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        pair p;
        pair_open(&p, 50, 1);
        cr_assert(eq(int, pair_begin(&p, SERVER, NULL), HTC_OK));
        cr_expect(pair_hear(&p, SERVER, (htc_bytes){ said[i].bytes, said[i].len }) == HTC_EPROTO, "case %zu", i);
        pair_close(&p);
    }
}

Test(channel, another_version_is_told)
{
    pair p;
    pair_open(&p, 51, 1);
    pair_dial(&p);
    pair_say(&p, CALLER, SIZE_MAX);
    p.e[CALLER].out.data[2 + HTC__HELLO_VERSION] = 2;
    cr_expect(eq(int, pair_carry(&p, SERVER, SIZE_MAX), HTC_EVERSION));
    pair_pump(&p);
    cr_expect(eq(int, p.e[CALLER].status, HTC_EVERSION));
    pair_close(&p);
}

/* The header is in the clear, and still nobody changes it: here to a role that the key is pinned with. */
Test(channel, what_hello_says_is_proven)
{
    for (uint32_t xx = 0; xx < 2; xx++) {
        pair p;
        pair_open(&p, 52, 1);
        p.o[CALLER].only_xx = xx;
        p.o[CALLER].role = HTC_KEY_USER;
        pair_dial(&p);
        pair_say(&p, CALLER, SIZE_MAX);
        p.e[CALLER].out.data[2 + HTC__HELLO_ROLE] = HTC_KEY_HOST;
        pair_carry(&p, SERVER, SIZE_MAX);
        pair_pump(&p);
        cr_expect(p.e[SERVER].opened == 0 && p.e[CALLER].opened == 0);
        cr_expect(p.e[SERVER].status == HTC_EPROTO || p.e[CALLER].status == HTC_EPROTO);
        pair_close(&p);
    }
}

/* A caller that is sent back to XX shows another ephemeral key: one that was used with IK is used up. */
Test(channel, an_ephemeral_key_is_used_once)
{
    pair p;
    pair_open(&p, 53, 1);
    htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_NEXT, p.e[CALLER].public);
    pair_new_key(&p, SERVER, NULL);
    htc_keyring_set(p.e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_NEXT, p.e[SERVER].public);
    pair_connect(&p);
    cr_assert(p.e[CALLER].channel->retried == 1);
    const uint8_t *said = p.e[CALLER].out.data, *again = said + frame_at(&p.e[CALLER].out, 0, 1);
    cr_expect(memcmp(said + 2 + HTC__HELLO_HEAD, again + 2 + HTC__HELLO_HEAD, 32) != 0);
    pair_close(&p);
}

/* A peer that goes on after its last record has lost its way, even if what it says is well sealed. */
Test(channel, nothing_comes_behind_the_last_record)
{
    pair p;
    pair_open(&p, 54, 1);
    pair_connect(&p);
    cr_assert(eq(int, htc_channel_close(p.e[CALLER].channel), HTC_OK));
    p.e[CALLER].channel->we_closed = 0;
    pair_write(&p, CALLER, "one more thing");
    pair_say(&p, CALLER, SIZE_MAX);
    cr_expect(eq(int, pair_carry(&p, SERVER, SIZE_MAX), HTC_EPROTO));
    cr_expect(strcmp(htc_channel_reason(p.e[SERVER].channel), "something came behind the peer's last record") == 0);
    cr_expect(p.e[SERVER].closed == 1 && p.e[SERVER].got_len == 0);
    pair_close(&p);
}

Test(channel, what_waits_is_bounded)
{
    static uint8_t many[100000];
    pair           p;
    htc_bytes      out;
    pair_open(&p, 60, 1);
    p.o[CALLER].queue_max = 200000;
    pair_connect(&p);
    htc_channel *c = p.e[CALLER].channel;
    cr_expect(eq(int, htc_channel_write(c, (htc_bytes){ many, sizeof many }), HTC_OK));
    cr_expect(eq(int, htc_channel_write(c, (htc_bytes){ many, sizeof many }), HTC_EFULL));
    cr_assert(eq(int, htc_channel_output(c, &out), HTC_OK));
    cr_expect(eq(sz, out.len, sizeof many + 2 * 19));
    htc_channel_sent(c, 50000);
    cr_expect(eq(int, htc_channel_write(c, (htc_bytes){ many, sizeof many }), HTC_OK));
    pair_pump(&p);
    cr_expect(eq(sz, p.e[SERVER].channel->in.cap <= 1 << 17, 1));
    pair_close(&p);
}

Test(channel, wrong_uses_are_refused)
{
    pair         p;
    htc_channel *c = NULL;
    htc_bytes    none = { NULL, 0 };
    uint8_t      cookie[16];
    pair_open(&p, 70, 1);
    htc_channel_options good = p.o[CALLER], o;
    good.identity = p.e[CALLER].identity;
    good.ring = p.e[CALLER].ring;
    cr_expect(eq(int, htc_channel_create(NULL, &good, 0, &c), HTC_EINVAL), "the random bytes were forgotten");
    memset(good.random, 1, sizeof good.random);
#define REFUSED(field, value, status)                                                                                  \
    do {                                                                                                               \
        o = good;                                                                                                      \
        o.field = value;                                                                                               \
        cr_expect(eq(int, htc_channel_create(NULL, &o, 0, &c), status));                                               \
    } while (0)
    REFUSED(side, 0, HTC_EINVAL);
    REFUSED(side, 3, HTC_EINVAL);
    REFUSED(size, 0, HTC_EINVAL);
    REFUSED(role, 0, HTC_EINVAL);
    REFUSED(role, 4, HTC_EINVAL);
    REFUSED(identity, NULL, HTC_EINVAL);
    REFUSED(ring, NULL, HTC_EINVAL);
    REFUSED(peer, "", HTC_EINVAL);
    REFUSED(peer, "Store", HTC_EINVAL);
    REFUSED(peer, "store-9", HTC_ENOTFOUND);
    REFUSED(peer_role, HTC_KEY_HOST, HTC_ENOTFOUND);
    REFUSED(source.len, 33, HTC_EINVAL);
    o = good;
    o.peer = NULL;
    o.secret = p.e[CALLER].secret;
    cr_expect(eq(int, htc_channel_create(NULL, &o, 0, &c), HTC_EINVAL), "enrolling with nobody");
    cr_expect(eq(int, htc_channel_create(NULL, NULL, 0, &c), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_create(NULL, &good, 0, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_channel_create(NULL, &good, 0, &c), HTC_OK));
    htc_channel_peer_info peer;
    cr_expect(eq(int, htc_channel_peer(c, &peer), HTC_EMPTY));
    cr_expect(eq(int, htc_channel_write(c, htc_bytes_of("early")), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_announce(c, p.e[CALLER].public), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_close(c), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_read(c, 0, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_output(c, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_write(NULL, none), HTC_EINVAL));
    cr_expect(eq(int, htc_channel_end(NULL), HTC_EINVAL));
    cr_expect(htc_channel_deadline(NULL) == HTC_NEVER && htc_channel_cookie(c, cookie) == 0);
    htc_channel_destroy(c);
    htc_channel_destroy(NULL);
    pair_close(&p);
}

/* Every allocation of a conversation is refused once, and the call repeated: nothing is lost, nothing is said twice. */
static void conversation(alloc_fail *f)
{
    pair           p;
    htc_env        env = alloc_fail_env(f);
    size_t         total = 0;
    static uint8_t bytes[70000];
    pair_open(&p, 80, 1);
    pair_draw(&p.rng, bytes, sizeof bytes);
    for (int i = 0; i < 2; i++)
        while (pair_begin(&p, i, &env) == HTC_ENOMEM)
            ;
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 2; k++) {
            pair_say(&p, k, SIZE_MAX);
            wire     *w = &p.e[k].out;
            htc_bytes in = { w->data ? w->data + w->at : NULL, w->len - w->at };
            w->at = w->len;
            htc_channel_event event = { 1, 0, { NULL, 0 } };
            while (event.kind) {
                htc_status status = htc_channel_read(p.e[1 - k].channel, p.now, &in, &event);
                cr_assert(status == HTC_OK || (status == HTC_ENOMEM && event.kind == 0));
                if (status == HTC_ENOMEM)
                    event.kind = HTC_CHANNEL_NEXT_KEY;
                else if (event.kind == HTC_CHANNEL_DATA) {
                    cr_assert(memcmp(event.bytes.data, bytes + total % sizeof bytes, event.bytes.len) == 0);
                    total += event.bytes.len;
                } else
                    p.e[1 - k].opened |= event.kind == HTC_CHANNEL_OPEN;
            }
        }
        if (p.e[CALLER].opened && i > 4) {
            htc_status status;
            while ((status = htc_channel_write(p.e[CALLER].channel, (htc_bytes){ bytes, sizeof bytes })) == HTC_ENOMEM)
                ;
            cr_assert(eq(int, status, HTC_OK));
        }
    }
    cr_expect(total >= 3 * sizeof bytes && total % sizeof bytes == 0);
    pair_close(&p);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(channel, a_refused_allocation_loses_nothing)
{
    ALLOC_FAIL_ONCE(f, 100)
    conversation(&f);
}

Test(channel, without_memory_there_is_no_channel)
{
    ALLOC_FAIL_EVERY(f, 100)
    {
        pair    p;
        htc_env env = alloc_fail_env(&f);
        pair_open(&p, 81, 1);
        htc_status status = pair_begin(&p, CALLER, &env);
        cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        pair_close(&p);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
