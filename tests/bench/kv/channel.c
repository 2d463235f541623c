/* What the secure channel costs, both ends in one thread. One JSON line a figure:
 *   records     ns to write, seal, carry and open messages of 256 bytes, one or 16 a turn, and long ones, a KiB; beside libsodium's
 *               encrypt and decrypt of as many bytes alone, in turns in the same run: the ratio is what counts
 *   handshakes  how many a second, both ends together
 *   strangers   ns for a caller that is turned away, from the channel's creation to its end, and for one that is answered */
#include <sodium.h>

#include "bench.h"
#include "htcsched/channel.h"

enum { CALLER, SERVER };

typedef struct end {
    htc_identity *identity;
    htc_keyring  *ring;
    htc_channel  *channel;
    uint8_t public[HTC_KEY_BYTES];
} end;

static end            e[2];
static htc_enrolment *enrolment;
static htc_gate      *gate;
static uint8_t        once[HTC_KEY_BYTES];
static uint64_t       drawn = 1;

static void must(htc_status status)
{
    bench_must(status == HTC_OK, htc_strerror(status));
}

static void open_ends(int known)
{
    uint8_t secret[HTC_KEY_BYTES];
    for (int i = 0; i < 2; i++) {
        randombytes_buf(secret, sizeof secret);
        must(htc_identity_create(NULL, secret, 1, &e[i].identity));
        must(htc_identity_public(e[i].identity, 0, e[i].public));
        must(htc_keyring_create(NULL, 0, &e[i].ring));
    }
    if (!known)
        return;
    must(htc_keyring_set(e[CALLER].ring, "store-1", HTC_KEY_MEMBER, HTC_KEY_CURRENT, e[SERVER].public));
    must(htc_keyring_set(e[SERVER].ring, "agent-7", HTC_KEY_HOST, HTC_KEY_CURRENT, e[CALLER].public));
}

static void close_ends(void)
{
    for (int i = 0; i < 2; i++) {
        htc_identity_destroy(e[i].identity);
        htc_keyring_destroy(e[i].ring);
    }
}

static void begin(int side, uint32_t only_xx, const uint8_t *secret)
{
    htc_channel_options o = { .size = sizeof o, .identity = e[side].identity, .ring = e[side].ring };
    o.side = side == CALLER ? HTC_CHANNEL_CALLER : HTC_CHANNEL_ANSWERER;
    o.role = HTC_KEY_HOST;
    o.peer = "store-1";
    o.only_xx = only_xx;
    o.secret = side == CALLER ? secret : NULL;
    o.enrolment = side == SERVER ? enrolment : NULL;
    o.gate = side == SERVER ? gate : NULL;
    o.source = (htc_bytes){ "10.1.2.3", 8 };
    memcpy(o.random, &drawn, sizeof drawn); /* unlike, that is enough here */
    drawn++;
    must(htc_channel_create(NULL, &o, 0, &e[side].channel));
}

/* What one end says to the other; answers how many bytes of data came of it. */
static size_t carry(int from)
{
    htc_bytes         bytes;
    htc_channel_event event;
    size_t            data = 0;
    htc_channel_output(e[from].channel, &bytes);
    size_t n = bytes.len;
    while (htc_channel_read(e[1 - from].channel, 0, &bytes, &event) == HTC_OK && event.kind)
        data += event.kind == HTC_CHANNEL_DATA ? event.bytes.len : 0;
    htc_channel_sent(e[from].channel, n);
    return data;
}

static void hang_up(void)
{
    htc_channel_destroy(e[CALLER].channel);
    htc_channel_destroy(e[SERVER].channel);
}

static void handshake(uint32_t only_xx, const uint8_t *secret)
{
    htc_channel_peer_info peer;
    begin(CALLER, only_xx, secret);
    begin(SERVER, 0, NULL);
    for (int i = 0; i < 5; i++)
        carry(i % 2);
    must(htc_channel_peer(e[SERVER].channel, &peer));
    must(htc_channel_peer(e[CALLER].channel, &peer));
}

static double ours(size_t size, size_t together, size_t turns)
{
    static uint8_t bytes[HTC_CHANNEL_RECORD_MAX];
    size_t         got = 0;
    double         start = bench_cpu_seconds();
    for (size_t i = 0; i < turns; i++) {
        for (size_t k = 0; k < together; k++)
            must(htc_channel_write(e[CALLER].channel, (htc_bytes){ bytes, size }));
        got += carry(CALLER);
    }
    bench_must(got == size * together * turns, "every byte");
    return (bench_cpu_seconds() - start) / (double)(turns * together);
}

static double theirs(size_t size, size_t together, size_t turns)
{
    static uint8_t bytes[HTC_CHANNEL_RECORD_MAX], sealed[HTC_CHANNEL_RECORD_MAX + 16], key[32];
    uint8_t        nonce[12] = { 0 };
    double         start = bench_cpu_seconds();
    for (size_t i = 0; i < turns; i++) {
        memcpy(nonce + 4, &i, sizeof i);
        crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, bytes, size * together, NULL, 0, NULL, nonce, key);
        bench_must(crypto_aead_chacha20poly1305_ietf_decrypt(bytes, NULL, NULL, sealed, size * together + 16, NULL, 0,
                                                             nonce, key) == 0,
                   "decrypt");
    }
    return (bench_cpu_seconds() - start) / (double)(turns * together);
}

static void records(const bench *b, const char *name, size_t size, size_t together, double per)
{
    enum { ROUNDS = 21 };
    double a[ROUNDS], c[ROUNDS], ratio[ROUNDS];
    size_t turns = (b->quick ? 1u << 20 : 1u << 24) / (size * together) + 1;
    char   what[96];
    for (int i = 0; i < ROUNDS; i++) {
        a[i] = ours(size, together, turns) * 1e9 * per / (double)size;
        c[i] = theirs(size, together, turns) * 1e9 * per / (double)size;
        ratio[i] = a[i] / c[i];
    }
    snprintf(what, sizeof what, "seal and open, %s", name);
    bench_row(b, &(bench_figure){ .what = what, .n = size, .unit = "ns", .value = bench_median(a, ROUNDS) });
    snprintf(what, sizeof what, "libsodium alone, %s", name);
    bench_row(b, &(bench_figure){ .what = what, .n = size, .unit = "ns", .value = bench_median(c, ROUNDS) });
    snprintf(what, sizeof what, "ratio, %s", name);
    bench_row(b, &(bench_figure){ .what = what, .n = size, .unit = "1", .value = bench_median(ratio, ROUNDS) });
}

static void handshakes(const bench *b, const char *name, uint32_t only_xx)
{
    size_t n = b->quick ? 200 : 5000;
    double start = bench_cpu_seconds();
    for (size_t i = 0; i < n; i++) {
        handshake(only_xx, NULL);
        hang_up();
    }
    bench_row(b,
              &(bench_figure){
                  .what = name, .n = n, .unit = "1/s", .value = (double)n / (bench_cpu_seconds() - start), .more = 1 });
}

static void enrolments(const bench *b)
{
    size_t n = b->quick ? 100 : 2000;
    double spent = 0;
    must(htc_enrolment_create(NULL, 0, &enrolment));
    for (size_t i = 0; i < n; i++) {
        open_ends(0);
        randombytes_buf(once, sizeof once);
        must(htc_enrolment_open(enrolment, 0, once, "agent-7", HTC_KEY_HOST, 1));
        double start = bench_cpu_seconds();
        handshake(0, once);
        hang_up();
        spent += bench_cpu_seconds() - start;
        close_ends();
    }
    htc_enrolment_destroy(enrolment);
    enrolment = NULL;
    bench_row(b, &(bench_figure){ .what = "enrolments", .n = n, .unit = "1/s", .value = (double)n / spent, .more = 1 });
}

/* A caller's first frame, to servers that are new each time. answered: the gate lets it in. */
static void strangers(const bench *b, const char *name, htc_gate_options *o, size_t fill, htc_status expected)
{
    size_t            n = b->quick ? 500 : 20000;
    htc_channel     **filling = calloc(fill + 1, sizeof *filling);
    htc_channel_event event;
    htc_bytes         hello, in, out;
    o->size = sizeof *o;
    o->secret[0] = 1;
    must(htc_gate_create(NULL, o, &gate));
    begin(CALLER, 0, NULL);
    htc_channel_output(e[CALLER].channel, &hello);
    for (size_t i = 0; i < fill; i++) {
        begin(SERVER, 0, NULL);
        in = hello;
        must(htc_channel_read(e[SERVER].channel, 0, &in, &event));
        filling[i] = e[SERVER].channel;
    }
    double start = bench_cpu_seconds();
    for (size_t i = 0; i < n; i++) {
        begin(SERVER, 0, NULL);
        in = hello;
        bench_must(htc_channel_read(e[SERVER].channel, 0, &in, &event) == expected, name);
        htc_channel_output(e[SERVER].channel, &out);
        htc_channel_destroy(e[SERVER].channel);
    }
    bench_row(b, &(bench_figure){
                     .what = name, .n = n, .unit = "ns", .value = (bench_cpu_seconds() - start) * 1e9 / (double)n });
    for (size_t i = 0; i < fill; i++)
        htc_channel_destroy(filling[i]);
    free(filling);
    htc_channel_destroy(e[CALLER].channel);
    htc_gate_destroy(gate);
    gate = NULL;
}

int main(int argc, char **argv)
{
    bench b = bench_open("channel", argc, argv);
    bench_must(sodium_init() >= 0, "libsodium");
    open_ends(1);
    handshake(0, NULL);
    records(&b, "256 B, 1 a turn", 256, 1, 256);
    records(&b, "256 B, 16 a turn", 256, 16, 256);
    records(&b, "a KiB of full records", HTC_CHANNEL_RECORD_MAX, 1, 1024);
    hang_up();
    handshakes(&b, "handshakes, IK", 0);
    handshakes(&b, "handshakes, XX", 1);
    strangers(&b, "stranger turned away: cookie", &(htc_gate_options){ .inflight_free = 1, .burst = UINT32_MAX }, 1,
              HTC_EBUSY);
    strangers(&b, "stranger turned away: in flight", &(htc_gate_options){ .inflight_max = 1, .burst = UINT32_MAX }, 1,
              HTC_EBUSY);
    strangers(&b, "stranger turned away: rate", &(htc_gate_options){ .burst = 1 }, 1, HTC_EBUSY);
    strangers(&b, "known caller answered with IK", &(htc_gate_options){ .burst = UINT32_MAX }, 0, HTC_OK);
    close_ends();
    enrolments(&b);
    return bench_close(&b);
}
