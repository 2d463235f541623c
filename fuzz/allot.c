/* Any users: the division keeps its promises, agrees with a slow model that knows nothing of its shortcuts, and the
 * plan never gives what is not there nor takes what nobody is owed. */
#include "htcsched/allot.h"
#include "check.h"
#include "core/codec.h"

#define USERS_MAX 12

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t over(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static int divided_for(uint32_t policy, const htc_allot_user *u)
{
    return policy == HTC_ALLOT_EQ1 ? u->queued > 0 : u->queued + u->running > 0;
}

/* maxmin, one slot after the other: the next goes to the user that has least for the weight, counting the slot. With
 * weights that are all 1 this is the division itself, but for which of the equals get the odd slots. */
static void check_even_maxmin(const htc_allot_user *u, size_t n, uint64_t slots, const htc_allot_share *s)
{
    uint64_t model[USERS_MAX] = { 0 };
    for (uint64_t left = slots; left > 0; left--) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (model[i] < u[i].queued + u[i].running && (best == n || model[i] < model[best]))
                best = i;
        if (best == n)
            break;
        model[best]++;
    }
    for (size_t i = 0; i < n; i++)
        CHECK(over(s[i].ra, model[i]) <= 1 && over(model[i], s[i].ra) <= 1);
}

static void check_division(uint32_t policy, const htc_allot_user *u, size_t n, uint64_t slots, const htc_allot_share *s)
{
    uint64_t sum = 0, demand = 0;
    for (size_t i = 0; i < n; i++) {
        sum += s[i].ra;
        CHECK(s[i].ra <= u[i].queued + u[i].running && s[i].base <= s[i].ra);
        if (divided_for(policy, &u[i]))
            demand += u[i].queued + u[i].running;
        else
            CHECK(s[i].ra == 0);
    }
    CHECK(sum <= slots);
    if (policy != HTC_ALLOT_STATIC)
        CHECK(sum == min64(slots, demand));
    for (size_t i = 0; i < n && policy != HTC_ALLOT_FCFS && policy != HTC_ALLOT_STATIC; i++)
        for (size_t j = 0; j < n; j++)
            if (u[i].weight == u[j].weight && divided_for(policy, &u[i]) && divided_for(policy, &u[j]) &&
                s[j].ra < u[j].queued + u[j].running)
                CHECK(s[i].ra <= s[j].ra + 1);
}

static void check_plan(uint32_t policy, const htc_allot_user *u, size_t n, uint64_t free_slots,
                       const htc_allot_change *c)
{
    uint64_t granted = 0, drained = 0, owed = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t agents = u[i].agents + c[i].undrain + c[i].grant;
        granted += c[i].grant;
        drained += c[i].drain;
        CHECK(c[i].undrain <= u[i].draining);
        if (c[i].grant > 0)
            CHECK(agents <= c[i].share.ra && u[i].starting + c[i].grant <= u[i].queued && c[i].drain == 0);
        if (c[i].drain > 0)
            CHECK(agents - c[i].drain >= c[i].share.base && policy != HTC_ALLOT_FCFS);
        if (divided_for(policy, &u[i]))
            owed += min64(over(c[i].share.base, agents), over(u[i].queued, u[i].starting + c[i].grant));
    }
    CHECK(granted <= free_slots);
    CHECK(drained <= owed);
    /* No slot is idle while somebody could use it. */
    for (size_t i = 0; i < n && granted < free_slots; i++)
        if (divided_for(policy, &u[i]))
            CHECK(u[i].agents + c[i].undrain + c[i].grant >= c[i].share.ra ||
                  u[i].starting + c[i].grant >= u[i].queued);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader        r = htc_reader_of((htc_bytes){ data, size });
    htc_allot_options o = { .size = sizeof o, .policy = htc_get_u8(&r) % 4, .fixed_users = 3 };
    uint64_t          slots = htc_get_u16(&r) % 1024, free_slots = htc_get_u16(&r) % (slots + 1);
    uint8_t           flags = htc_get_u8(&r);
    size_t            n = htc_get_u8(&r) % USERS_MAX + 1;
    htc_allot_user    users[USERS_MAX], scaled[USERS_MAX];
    htc_allot_share   shares[USERS_MAX], again[USERS_MAX];
    htc_allot_change  changes[USERS_MAX];
    int               even = flags & 1;
    o.min_agents = flags & 2 ? HTC_ALLOT_NO_MINIMUM : (flags >> 2) % 4;
    for (size_t i = 0; i < n; i++) {
        htc_allot_user *u = &users[i];
        *u = (htc_allot_user){ .weight = even ? 1 : (uint64_t)htc_get_u32(&r) % 100000 + 1,
                               .queued = htc_get_u16(&r) % 2048,
                               .running = htc_get_u8(&r),
                               .agents = htc_get_u8(&r),
                               .draining = htc_get_u8(&r) % 16,
                               .starting = 0,
                               .last_served = htc_get_u8(&r),
                               .arrival = htc_get_u8(&r),
                               .id = i,
                               .fixed = i < 3 };
        u->starting = u->agents ? htc_get_u8(&r) % (u->agents + 1) : 0;
        scaled[i] = *u;
        scaled[i].weight *= 7919;
    }
    CHECK(htc_allot(NULL, &o, users, n, slots, shares) == HTC_OK);
    check_division(o.policy, users, n, slots, shares);
    if (even && o.policy == HTC_ALLOT_MAXMIN)
        check_even_maxmin(users, n, slots, shares);
    CHECK(htc_allot(NULL, &o, scaled, n, slots, again) == HTC_OK);
    for (size_t i = 0; i < n; i++)
        CHECK(shares[i].ra == again[i].ra && shares[i].base == again[i].base);
    CHECK(htc_allot_plan(NULL, &o, users, n, slots, free_slots, changes) == HTC_OK);
    check_plan(o.policy, users, n, free_slots, changes);
    return 0;
}
