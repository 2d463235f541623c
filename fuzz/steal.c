/* Any group, shape, settings and order of calls: neighbours are distinct others, nearest first where it is said so,
 * amounts are never more than there is, one round at a time, and no thief asks before its time. */
#include "htcsched/steal.h"
#include "check.h"
#include "core/codec.h"

#define CAP 64

static void check_others(const uint32_t *out, uint32_t count, uint32_t n, uint32_t self)
{
    for (uint32_t i = 0; i < count; i++) {
        CHECK(out[i] < n && out[i] != self);
        for (uint32_t j = 0; j < i; j++)
            CHECK(out[i] != out[j]);
    }
}

static void fuzz_mesh(htc_reader *r)
{
    htc_steal_shape s = { htc_get_u8(r), htc_get_u8(r), htc_get_u8(r) % 16, htc_get_u8(r) % 4 };
    uint32_t        n = htc_get_u32(r) % (1 << 16), self = htc_get_u32(r) % (1 << 16), hops = htc_get_u8(r);
    uint32_t        cap = htc_get_u8(r) % (CAP + 1), out[CAP], count = CAP + 1, d, last = 1;
    htc_status      status = htc_steal_mesh(&s, n, self, hops, cap, out, &count);
    uint64_t        points = (uint64_t)s.x * s.y * (s.z ? s.z : 1);
    CHECK(status == (n <= points && self < n && s.wrap <= 1 && hops > 0 && cap > 0 ? HTC_OK : HTC_EINVAL));
    if (status != HTC_OK) {
        CHECK(count == CAP + 1);
        return;
    }
    CHECK(count <= cap);
    check_others(out, count, n, self);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(htc_steal_hops(&s, self, out[i], &d) == HTC_OK && d >= last && d <= hops);
        last = d;
    }
}

static void fuzz_pick(htc_reader *r)
{
    htc_rng  rng = { htc_get_u64(r) };
    uint32_t n = htc_get_u32(r), out[255];
    n >>= htc_get_u8(r) % 32;
    uint32_t self = htc_get_u32(r), k = htc_get_u8(r);
    int      fits = self < n && k > 0 && k < n;
    CHECK(htc_steal_pick(&rng, n, self, k, out) == (fits ? HTC_OK : HTC_EINVAL));
    if (fits)
        check_others(out, k, n, self);
    uint32_t   count = 256, most = k < HTC_STEAL_NUDGES_MAX ? k : HTC_STEAL_NUDGES_MAX;
    htc_status status = htc_steal_whom_to_nudge(&rng, n, self, k, out, &count);
    CHECK(status == (self >= n || k == 0 ? HTC_EINVAL : n < 2 ? HTC_AGAIN : HTC_OK));
    CHECK(status == HTC_OK ? count > 0 && count <= most : count == 256);
    if (status == HTC_OK)
        check_others(out, count, n, self);
    CHECK(htc_steal_nearest(n, self, k, out) == (fits ? HTC_OK : HTC_EINVAL));
    if (fits)
        check_others(out, k, n, self);
}

static void fuzz_thief(htc_reader *r)
{
    htc_registry     *registry;
    htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
    htc_steal_thief   t;
    htc_rng           rng = { htc_get_u64(r) };
    htc_ns            now = 0;
    uint32_t          n = htc_get_u16(r) % 3000 + 1, self = htc_get_u16(r) % n, out[CAP], count;
    uint64_t          amount, waiting = htc_get_u8(r), idle = htc_get_u8(r) % 4;
    int               asking = 0;
    CHECK(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    const char *name = htc_registry_name(registry, HTC_REGISTRY_STEAL, htc_get_u8(r) % 9);
    CHECK(name && htc_steal_find(registry, name, &o.policy) == HTC_OK);
    o.neighbours = htc_get_u8(r);
    o.degree = htc_get_u8(r) % 6;
    o.amount = htc_get_u8(r) % 6;
    o.near_workers = htc_get_u8(r);
    o.hops = htc_get_u8(r) % 40;
    o.poll_ns = htc_get_u16(r);
    o.poll_ns_max = htc_get_u32(r);
    o.at_ceiling = htc_get_u8(r) % 2;
    o.shape = (htc_steal_shape){ htc_get_u8(r), htc_get_u8(r), htc_get_u8(r) % 8, htc_get_u8(r) % 2 };
    CHECK(htc_steal_give(&o, waiting, idle, &amount) == HTC_OK);
    CHECK(amount <= waiting && amount + (idle < waiting ? idle : waiting) <= waiting);
    CHECK(amount > 0 || idle > 0 || waiting == 0);
    CHECK(htc_steal_start(n, self, now, &t) == HTC_OK);
    while (htc_reader_left(r) > 0 && r->status == HTC_OK) {
        uint8_t what = htc_get_u8(r);
        htc_ns  due = htc_steal_due(&t);
        CHECK(!asking || due == HTC_NEVER);
        now += (uint64_t)(what >> 2) << what % 32;
        if (what % 4 == 0)
            htc_steal_nudge(&t, now);
        else if (what % 4 == 1) {
            CHECK(htc_steal_settle(&t, &o, now, (self + 1) % n == self ? HTC_STEAL_NOBODY : (self + 1) % n, what & 4) == (asking ? HTC_OK : HTC_EINVAL));
            asking = 0;
        } else {
            uint32_t   cap = what % 4 == 2 ? 1 : CAP;
            htc_status status = htc_steal_ask(&t, &o, now, &rng, cap, out, &count);
            if (due > now || asking)
                CHECK(status == HTC_AGAIN);
            if (status != HTC_OK)
                continue;
            CHECK(count > 0 && count <= cap);
            check_others(out, count, n, self);
            asking = 1;
        }
    }
    htc_registry_destroy(registry);
}

static void fuzz_least(htc_reader *r)
{
    uint64_t bytes[CAP];
    uint32_t out[CAP];
    size_t   n = htc_get_u8(r) % (CAP + 1), amount = htc_get_u8(r);
    for (size_t i = 0; i < n; i++)
        bytes[i] = htc_get_u8(r);
    CHECK(htc_steal_least(bytes, n, amount, out) == (amount <= n ? HTC_OK : HTC_EINVAL));
    if (amount > n)
        return;
    char given[CAP] = { 0 };
    for (size_t i = 0; i < amount; i++) {
        CHECK(out[i] < n && !given[out[i]]);
        CHECK(i == 0 || bytes[out[i - 1]] < bytes[out[i]] ||
              (bytes[out[i - 1]] == bytes[out[i]] && out[i - 1] < out[i]));
        given[out[i]] = 1;
    }
    for (size_t i = 0; i < n && amount > 0; i++)
        CHECK(given[i] || bytes[i] >= bytes[out[amount - 1]]);
}

static void fuzz_name(htc_reader *r)
{
    char     name[16];
    uint32_t rule = 99;
    htc_get_str(r, name, sizeof name);
    if (r->status == HTC_OK)
        CHECK((htc_steal_rule_from_name(name, &rule) == HTC_OK) == (rule >= HTC_STEAL_ONE && rule <= HTC_STEAL_HALF));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parts[])(htc_reader *) = { fuzz_mesh, fuzz_pick, fuzz_thief, fuzz_least, fuzz_name };
    htc_reader r = htc_reader_of((htc_bytes){ data, size });
    parts[htc_get_u8(&r) % 5](&r);
    return 0;
}
