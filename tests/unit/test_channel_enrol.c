/* Enrolment: a one-time secret makes two strangers know each other, once, and neither believes before the other has shown that it
 * knows the secret. */
#include "channel_pair.h"

#include <sodium.h>

#include "property.h"

static uint8_t once[32];

/* Two strangers; the server has a secret open for the host "agent-7". */
static void strangers(pair *p, uint64_t seed)
{
    pair_open(p, seed, 0);
    pair_draw(&p->rng, once, sizeof once);
    cr_assert(eq(int, htc_enrolment_create(NULL, 4, &p->enrolment), HTC_OK));
    cr_assert(eq(int, htc_enrolment_open(p->enrolment, p->now, once, "agent-7", HTC_KEY_HOST, p->now + 60 * HTC_SECOND),
                 HTC_OK));
    p->o[CALLER].secret = once;
}

static size_t pins(const pair *p, int which)
{
    htc_keyring_entry e;
    size_t            n = 0;
    while (htc_keyring_at(p->e[which].ring, n, &e) == HTC_OK)
        n++;
    return n;
}

static void expect_denied(pair *p, const char *why)
{
    pair_dial(p);
    pair_pump(p);
    cr_expect(eq(int, p->e[SERVER].status, HTC_EDENIED));
    cr_expect(strcmp(htc_channel_reason(p->e[SERVER].channel), why) == 0, "%s",
              htc_channel_reason(p->e[SERVER].channel));
    cr_expect(eq(int, p->e[CALLER].status, HTC_EDENIED));
    cr_expect(pins(p, CALLER) == 0 && pins(p, SERVER) == 0);
}

Test(enrolment, both_are_pinned_and_know_each_other_afterwards)
{
    pair              p;
    htc_keyring_entry e;
    strangers(&p, 1);
    pair_connect(&p);
    cr_expect(p.e[CALLER].channel->pattern == HTC__NOISE_XXPSK3);
    cr_expect(p.e[CALLER].pinned && p.e[SERVER].pinned && strcmp(p.e[CALLER].given, "agent-7") == 0);
    cr_assert(eq(int, htc_keyring_find(p.e[CALLER].ring, p.e[SERVER].public, &e), HTC_OK));
    cr_expect(strcmp(e.name, "store-1") == 0 && e.role == HTC_KEY_MEMBER && e.state == HTC_KEY_CURRENT);
    cr_assert(eq(int, htc_keyring_find(p.e[SERVER].ring, p.e[CALLER].public, &e), HTC_OK));
    cr_expect(strcmp(e.name, "agent-7") == 0 && e.role == HTC_KEY_HOST && e.state == HTC_KEY_CURRENT);
    cr_expect(eq(sz, htc_enrolment_count(p.enrolment, p.now), 0));
    cr_expect(sodium_is_zero(p.e[CALLER].channel->secret, 32) && sodium_is_zero(p.e[SERVER].channel->secret, 32));
    pair_write(&p, CALLER, "at once");
    pair_pump(&p);
    cr_expect(pair_got(&p, SERVER, "at once"));
    /* From now on without it. */
    pair_hang_up(&p);
    p.o[CALLER].secret = NULL;
    pair_connect(&p);
    cr_expect(p.e[CALLER].channel->pattern == HTC__NOISE_IK && !p.e[CALLER].pinned);
    pair_close(&p);
}

Test(enrolment, a_secret_is_good_once_and_for_a_time)
{
    static const char *why = "the one-time secret is unknown, used, expired or for another role";
    pair               p;
    strangers(&p, 2);
    pair_connect(&p);
    pair_hang_up(&p);
    pair_new_key(&p, CALLER, NULL);
    pair_dial(&p);
    pair_pump(&p);
    cr_expect(p.e[SERVER].status == HTC_EDENIED && p.e[CALLER].status == HTC_EDENIED && pins(&p, SERVER) == 1, "used");
    pair_close(&p);
    strangers(&p, 3);
    p.now += 60 * HTC_SECOND;
    expect_denied(&p, why);
    pair_close(&p);
    strangers(&p, 4);
    cr_expect(eq(sz, htc_enrolment_cancel(p.enrolment, "agent-8"), 0));
    cr_expect(eq(sz, htc_enrolment_cancel(p.enrolment, "agent-7"), 1));
    expect_denied(&p, why);
    pair_close(&p);
    strangers(&p, 5);
    p.o[CALLER].role = HTC_KEY_MEMBER;
    expect_denied(&p, why);
    pair_close(&p);
    strangers(&p, 6);
    once[7] ^= 1; /* one that nobody opened */
    expect_denied(&p, why);
    pair_close(&p);
    strangers(&p, 7);
    htc_enrolment_destroy(p.enrolment);
    p.enrolment = NULL; /* a server that enrols nobody */
    expect_denied(&p, why);
    pair_close(&p);
}

/* An end that names the secret but does not know it gets nowhere: the caller's last message does not open at the server, or the
 * server's first record at the caller; and nothing is pinned. */
Test(enrolment, naming_the_secret_is_not_knowing_it)
{
    pair p;
    strangers(&p, 8);
    uint8_t hint[8];
    htc__once_hint(once, hint);
    htc__enrolment_find(p.enrolment, p.now, hint)->secret[0] ^= 1;
    pair_dial(&p);
    pair_pump(&p);
    cr_expect(eq(int, p.e[SERVER].status, HTC_EPROTO));
    cr_expect(p.e[CALLER].opened == 0 && pins(&p, CALLER) == 0 && pins(&p, SERVER) == 0);
    cr_expect(eq(sz, htc_enrolment_count(p.enrolment, p.now), 1), "whoever only names a secret does not use it up");
    pair_close(&p);
}

/* Step by step: who pins when. */
Test(enrolment, keys_are_pinned_after_the_servers_first_record_opens)
{
    pair p;
    strangers(&p, 9);
    pair_dial(&p);
    for (int i = 0; i < 3; i++) { /* HELLO, ANSWER, FINISH */
        pair_say(&p, i % 2 ? SERVER : CALLER, SIZE_MAX);
        cr_assert(eq(int, pair_carry(&p, i % 2 ? CALLER : SERVER, SIZE_MAX), HTC_OK));
    }
    pair_say(&p, SERVER, SIZE_MAX);
    cr_expect(pins(&p, CALLER) == 0 && pins(&p, SERVER) == 0 && !p.e[CALLER].opened);
    cr_expect(eq(int, htc_channel_write(p.e[CALLER].channel, htc_bytes_of("early")), HTC_EINVAL));
    wire *w = &p.e[SERVER].out;
    cr_assert(eq(int, pair_carry(&p, CALLER, w->len - w->at - 1), HTC_OK));
    cr_expect(pins(&p, CALLER) == 0);
    cr_assert(eq(int, pair_carry(&p, CALLER, 1), HTC_OK));
    cr_expect(pins(&p, CALLER) == 1 && p.e[CALLER].opened && pins(&p, SERVER) == 0);
    pair_write(&p, CALLER, "first");
    pair_say(&p, CALLER, SIZE_MAX);
    cr_expect(pins(&p, SERVER) == 0);
    cr_assert(eq(int, pair_carry(&p, SERVER, SIZE_MAX), HTC_OK));
    cr_expect(pins(&p, SERVER) == 1 && p.e[SERVER].opened && pair_got(&p, SERVER, "first"));
    pair_close(&p);
}

/* The line breaks after each byte of an enrolment; then the same caller tries again with the same secret and key. It works until
 * the server has pinned it, and from then on the ordinary way does. */
Test(enrolment, a_line_that_breaks_uses_nothing_up)
{
    for (size_t cut = 0;; cut++) {
        pair   p;
        size_t carried = 0;
        strangers(&p, 10 + cut);
        pair_dial(&p);
        for (int i = 0; i < 12; i++) {
            int to = i % 2 ? CALLER : SERVER;
            pair_say(&p, 1 - to, SIZE_MAX);
            wire  *w = &p.e[1 - to].out;
            size_t n = w->len - w->at < cut - carried ? w->len - w->at : cut - carried;
            cr_assert(eq(int, pair_carry(&p, to, n), HTC_OK));
            carried += n;
        }
        int whole = p.e[SERVER].opened;
        cr_expect(pins(&p, SERVER) == (size_t)whole && pins(&p, CALLER) == p.e[CALLER].opened);
        cr_expect(whole || htc_channel_end(p.e[SERVER].channel) == HTC_ECLOSED);
        pair_hang_up(&p);
        cr_expect(eq(sz, htc_enrolment_count(p.enrolment, p.now), !whole));
        if (whole)
            p.o[CALLER].secret = NULL;
        pair_connect(&p);
        cr_expect(pins(&p, CALLER) == 1 && pins(&p, SERVER) == 1);
        pair_close(&p);
        if (whole)
            break;
    }
}

/* Two callers with one secret at once: the first to prove that it knows it has it. */
Test(enrolment, one_secret_two_callers)
{
    pair p, q;
    strangers(&p, 200);
    pair_open(&q, 201, 0);
    q.o[CALLER].secret = once;
    q.enrolment = p.enrolment;
    pair *both[] = { &p, &q };
    for (int k = 0; k < 2; k++)
        pair_dial(both[k]);
    for (int i = 0; i < 2; i++) /* HELLO, ANSWER for both */
        for (int k = 0; k < 2; k++) {
            pair_say(both[k], i, SIZE_MAX);
            cr_assert(eq(int, pair_carry(both[k], 1 - i, SIZE_MAX), HTC_OK));
        }
    for (int k = 0; k < 2; k++) {
        pair_say(both[k], CALLER, SIZE_MAX);
        pair_carry(both[k], SERVER, SIZE_MAX);
    }
    pair_pump(&p);
    pair_pump(&q);
    cr_expect(p.e[SERVER].opened && p.e[CALLER].opened);
    cr_expect(eq(int, q.e[SERVER].status, HTC_EDENIED));
    cr_expect(eq(int, q.e[CALLER].status, HTC_EDENIED));
    cr_expect(q.e[CALLER].opened == 0 && pins(&q, CALLER) == 0);
    q.enrolment = NULL;
    pair_close(&q);
    pair_close(&p);
}

/* Cancelled between the caller's proof and the pinning. */
Test(enrolment, cancelled_on_the_way)
{
    pair p;
    strangers(&p, 300);
    pair_dial(&p);
    for (int i = 0; i < 4; i++) {
        pair_say(&p, i % 2, SIZE_MAX);
        cr_assert(eq(int, pair_carry(&p, 1 - i % 2, SIZE_MAX), HTC_OK));
    }
    cr_expect(eq(sz, htc_enrolment_cancel(p.enrolment, NULL), 1));
    pair_pump(&p);
    cr_expect(p.e[SERVER].status == HTC_EDENIED &&
              strcmp(htc_channel_reason(p.e[SERVER].channel), "the secret was cancelled") == 0);
    cr_expect(pins(&p, SERVER) == 0);
    pair_close(&p);
}

/* A key that is somebody else's already, or revoked, is not pinned anew. */
Test(enrolment, old_keys_are_not_taken_for_new_ones)
{
    for (uint32_t revoked = 0; revoked < 2; revoked++)
        for (int at = 0; at < 2; at++) {
            pair p;
            strangers(&p, 400);
            htc_keyring_set(p.e[at].ring, at == SERVER ? "agent-6" : "store-0",
                            at == SERVER ? HTC_KEY_HOST : HTC_KEY_MEMBER, revoked ? HTC_KEY_REVOKED : HTC_KEY_CURRENT,
                            p.e[1 - at].public);
            pair_dial(&p);
            pair_pump(&p);
            cr_expect(p.e[at].status == HTC_EDENIED && !p.e[0].opened && !p.e[1].opened);
            cr_expect(strcmp(htc_channel_reason(p.e[at].channel),
                             revoked ? "the peer's key was revoked"
                                     : "the peer's key is pinned for another name or role") == 0);
            cr_expect(pins(&p, at) == 1 && pins(&p, 1 - at) == 0);
            pair_close(&p);
        }
}

Test(enrolment, the_table_is_bounded)
{
    htc_enrolment *e = NULL;
    uint8_t        secret[32] = { 1 };
    cr_expect(eq(int, htc_enrolment_create(NULL, 4097, &e), HTC_EINVAL));
    cr_assert(eq(int, htc_enrolment_create(NULL, 2, &e), HTC_OK));
    cr_expect(eq(int, htc_enrolment_open(e, 10, secret, "a", HTC_KEY_USER, 10), HTC_EINVAL), "expired when it is made");
    cr_expect(eq(int, htc_enrolment_open(e, 10, secret, "A", HTC_KEY_USER, 20), HTC_EINVAL));
    cr_expect(eq(int, htc_enrolment_open(e, 10, secret, "a", 0, 20), HTC_EINVAL));
    cr_assert(eq(int, htc_enrolment_open(e, 10, secret, "a", HTC_KEY_USER, 20), HTC_OK));
    cr_expect(eq(int, htc_enrolment_open(e, 10, secret, "b", HTC_KEY_USER, 20), HTC_EEXISTS));
    secret[0] = 2;
    cr_assert(eq(int, htc_enrolment_open(e, 10, secret, "b", HTC_KEY_USER, 30), HTC_OK));
    secret[0] = 3;
    cr_expect(eq(int, htc_enrolment_open(e, 19, secret, "c", HTC_KEY_USER, 30), HTC_EFULL));
    cr_expect(eq(sz, htc_enrolment_count(e, 20), 1));
    cr_expect(eq(int, htc_enrolment_open(e, 20, secret, "c", HTC_KEY_USER, 30), HTC_OK), "what has expired makes room");
    htc_enrolment_destroy(e);
    htc_enrolment_destroy(NULL);
    memset(secret, 0, sizeof secret);
    cr_assert(eq(int, htc_enrolment_create(NULL, 0, &e), HTC_OK));
    cr_expect(eq(int, htc_enrolment_open(e, 0, secret, "z", HTC_KEY_USER, 20), HTC_EINVAL), "zeros are no secret");
    htc_enrolment_destroy(e);
}
