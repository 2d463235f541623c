/* The live loop wakes a machine at its deadline, however that moves before: never earlier, and always. */
#include "expect.h"

#include <stdlib.h>

#include "htcsched/host.h"

/* At a deadline the machine sets the next one of its list, `set` from now, and asks for a call; when that is answered, by a thread and so in
 * another turn of the loop, it moves it to `moved` from then. */
typedef struct step_of {
    htc_ns set, moved; /* moved 0: it stays */
    int    behind;     /* the deadline is so already */
} step_of;

static const step_of steps[] = {
    { .set = HTC_MS },                                  /* near */
    { .set = 5 * HTC_MS },
    { .set = 100 * HTC_MS, .moved = 200 * HTC_MS },     /* later: what was set rings too early */
    { .set = 3600 * HTC_SECOND, .moved = 2 * HTC_MS },  /* nearer */
    { .set = HTC_NEVER, .moved = 100 * HTC_US },
    { .behind = 1 },
    { .set = 3600 * HTC_SECOND, .moved = 1 },
    { .set = HTC_MS },
};
#define STEPS (sizeof steps / sizeof steps[0])

typedef struct alarm_clock {
    htc_ns deadline;
    size_t next;      /* step */
    int    too_early; /* woken */
} alarm_clock;

static htc_ns after(htc_ns now, htc_ns wait)
{
    return wait == HTC_NEVER ? HTC_NEVER : now + wait;
}

static void go_on(alarm_clock *a, htc_ns now, htc_output *out)
{
    if (a->next == STEPS) {
        a->deadline = HTC_NEVER;
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        return;
    }
    const step_of *s = &steps[a->next++];
    a->deadline = s->behind ? 0 : after(now, s->set);
    if (s->moved)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = 1, .tag = a->next });
}

static htc_status alarm_step(void *self, const htc_input *in, htc_output *out)
{
    alarm_clock *a = self;
    switch ((htc_input_kind)in->kind) {
    case HTC_IN_START:
        go_on(a, in->now, out);
        return HTC_OK;
    case HTC_IN_TIMEOUT:
        a->too_early += in->now < a->deadline;
        go_on(a, in->now, out);
        return HTC_OK;
    case HTC_IN_RESULT:
        if (in->tag == a->next) /* else it came too late for its step */
            a->deadline = after(in->now, steps[a->next - 1].moved);
        return HTC_OK;
    case HTC_IN_TURN:
        return HTC_OK;
    default:
        return HTC_EUNSUPPORTED;
    }
}

static htc_ns alarm_deadline(const void *self)
{
    return ((const alarm_clock *)self)->deadline;
}

typedef struct asked {
    htc_host *host;
    uint64_t  tag;
} asked;

static void nothing(void *ctx)
{
    (void)ctx;
}

static void answer(void *ctx)
{
    asked *a = ctx;
    htc_host_answer(a->host, 1, a->tag, HTC_OK, (htc_bytes){ NULL, 0 });
    free(a);
}

static htc_status called(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    (void)ctx, (void)op, (void)body;
    asked *a = malloc(sizeof *a);
    *a = (asked){ host, tag };
    return htc_host_work(host, nothing, answer, a);
}

static void run(uint32_t flags)
{
    htc_machine_ops ops = { sizeof ops, alarm_step, alarm_deadline, NULL, flags };
    alarm_clock     a = { .deadline = HTC_NEVER };
    htc_host       *host;
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    htc_host_on_call(host, called, NULL);
    cr_expect(eq(int, htc_host_run(host, &ops, &a), HTC_OK));
    cr_expect(eq(sz, a.next, STEPS));
    cr_expect(eq(int, a.too_early, 0));
    htc_host_destroy(host);
}

Test(host_timer, a_machine_is_woken_at_its_deadline, .timeout = 60)
{
    run(0);
}

Test(host_timer, also_one_with_turns, .timeout = 60)
{
    run(HTC_MACHINE_TURNS);
}
