/* Usage of days of long ago, which is summed up: what reports say stays the same, wherever a gateway ends and whichever of two does it. */
#include "gateway_users.h"

#include "kvs/cell/cell.h"
#include "roles/gateway/gateway.h"

#define DAY (24 * HOUR)
#define LEASE (2 * HTC_SECOND)
#define TOTAL "{\"op\":\"report\"}"

static htc_ns keep; /* 0: for ever, as far as these tests go */
static int    shared;

static void options(htc_gateway_options *o)
{
    o->usage_keep_ns = keep ? keep : 4000 * DAY;
    if (shared) {
        o->lease_ns = LEASE;
        o->name = "head1";
        o->address = "10.0.0.1:7420";
    }
}

static void begin_fold(void)
{
    keep = 0;
    begin_users();
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    r.wall += 3 * HOUR; /* it is two hours before midnight: what runs for an hour does so on one day */
    r.change = options;
}

TestSuite(gateway_fold, .init = begin_fold, .fini = end);

static void start_with(htc_ns keep_ns)
{
    keep = keep_ns;
    start_again();
    rig_pass(&r, shared ? 3 * LEASE : 0);
}

/* Core hours of all; what the project of ann has used is the same as what she has. */
static double hours(void)
{
    double of_project = number_of("{\"op\":\"projects\"}", "projects.0.core_s"), of_ann = user_number("ann", "core_s");
    cr_expect(of_project == of_ann, "%g core seconds of the project, %g of ann", of_project, of_ann);
    return number_of(TOTAL, "total.core_hours");
}

static int is_of_day(void *ctx, htc_bytes at, htc_bytes value)
{
    const char  *k = at.data;
    htc__kv_cell cell;
    htc_bytes    payload;
    if (at.len > 3 && k[0] == 'k' && k[1] == 'y' && k[2] == '/' && htc__kv_unseal(value, at, &payload) == HTC_OK &&
        htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted)
        ++*(size_t *)ctx;
    return 1;
}

static size_t days_stored(void)
{
    size_t n = 0;
    r.engine.ops->scan(r.engine.ctx, htc_bytes_of(NULL), is_of_day, &n);
    return n;
}

/* So many days on each of which ann uses 4 core hours, and bob 4 on each second one. */
static double work_for(int days)
{
    double used = 0;
    for (int d = 0; d < days; d++) {
        submit_in("ann", "arc", SWEEP(4));
        used += run_once(HOUR);
        run_once(0);
        if (d % 2 == 0) {
            submit_in("bob", NULL, SWEEP(4));
            used += run_once(HOUR);
            run_once(0);
        }
        rig_pass(&r, 2 * HTC_SECOND);
        r.wall += DAY;
    }
    rig_pass(&r, 10 * HTC_SECOND);
    return used;
}

Test(gateway_fold, what_was_used_long_ago_is_one_sum)
{
    double used = work_for(6);
    cr_assert(used == 36, "%g", used);
    cr_expect(hours() == 36 && days_stored() == 9, "%g hours, %zu days", hours(), days_stored());
    start_with(2 * DAY);
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(hours() == 36, "%g hours", hours());
    cr_expect(days_stored() == 3, "%zu days are kept", days_stored());
    cr_expect(user_number("ann", "core_s") == 24 * 3600);
    char since[100];
    snprintf(since, sizeof since, "{\"op\":\"report\",\"since\":%llu}", (unsigned long long)((r.wall - 2 * DAY) / HTC_SECOND));
    cr_expect(number_of(since, "total.core_hours") == 12, "%g", number_of(since, "total.core_hours"));
    cr_expect(number_of(since, "summed_until") <= number_of(since, "since") && number_of(since, "summed_until") > 0);
    snprintf(since, sizeof since, "{\"op\":\"report\",\"since\":%llu}", (unsigned long long)((r.wall - 5 * DAY) / HTC_SECOND));
    cr_expect(number_of(since, "total.core_hours") == 12, "of what is one sum no part is told");
    start_with(2 * DAY);
    cr_expect(hours() == 36, "%g hours after a restart", hours());
    cr_expect(user_number("ann", "core_s") == 24 * 3600);
    used += work_for(3);
    cr_expect(hours() == used, "%g hours of %g", hours(), used);
    r.wall += 100 * DAY; /* the newest day of all is folded too */
    rig_pass(&r, 2 * HOUR);
    cr_expect(days_stored() == 0, "%zu days are kept", days_stored());
    cr_expect(hours() == used, "%g hours of %g", hours(), used);
    used += work_for(1);
    start_with(2 * DAY);
    cr_expect(hours() == used, "%g hours of %g", hours(), used);
}

/* So many messages further, and not one more. 0: nothing was left to do. */
static int go_on(int messages)
{
    htc_ns until = r.now + 12 * HTC_SECOND;
    r.busy = 1;
    while (messages > 0) {
        htc_ns at = htc_gateway_ops()->deadline(r.gateway);
        if (r.posts) {
            take_post();
            messages--;
        } else if (at > until) {
            break;
        } else {
            r.wall += at > r.now ? at - r.now : 0;
            r.now = at > r.now ? at : r.now;
            rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_TIMEOUT });
        }
    }
    r.busy = 0;
    return messages == 0;
}

/* A new start, and so many messages of it. */
static int start_and_go_on(htc_ns keep_ns, int messages)
{
    keep = keep_ns;
    rig_pass(&r, 2 * HTC_SECOND);
    rig_kill(&r);
    r.busy = 1; /* nothing is carried out yet */
    rig_start(&r);
    return go_on(messages);
}

/* Killed at each message while it folds: nothing is counted twice, nothing is lost, and the next one goes on with it. */
Test(gateway_fold, a_kill_at_any_message_changes_no_sum)
{
    int at = 1, killed = 1;
    for (; killed && at < 400; at++) {
        double used = work_for(3);
        killed = start_and_go_on(DAY, at);
        kill_now();
        op = operator_peer();
        cr_assert(hours() == used, "killed at %d: %g hours of %g", at, hours(), used);
        rig_pass(&r, 2 * HOUR);
        cr_assert(hours() == used && days_stored() == 2, "killed at %d: %g hours of %g, %zu days are left", at, hours(), used, days_stored());
        end();
        begin_fold();
    }
    cr_expect(at > 20 && !killed, "%d messages", at);
}

/* What another gateway has said to the store comes there only now. */
static void arrive(rig_post *late)
{
    rig_post **end = &r.posts;
    while (*end)
        end = &(*end)->next;
    while (late) {
        rig_post *next = late->next;
        late->next = NULL;
        if (late->to_store) {
            *end = late;
            end = &late->next;
        } else {
            free((void *)(uintptr_t)late->in.body.data);
            free(late);
        }
        late = next;
    }
    rig_run(&r);
}

/* Is one of them of a sum, or of the day of somebody? */
static int are_of_usage(const rig_post *late)
{
    for (; late; late = late->next)
        if (late->to_store && late->in.kind == HTC_IN_MESSAGE && (memmem(late->in.body.data, late->in.body.len, "/ann", 4) || memmem(late->in.body.data, late->in.body.len, "/bob", 4)) &&
            (memmem(late->in.body.data, late->in.body.len, "z/", 2) || memmem(late->in.body.data, late->in.body.len, "y/", 2)))
            return 1;
    return 0;
}

/* Another gateway goes on after its lease has ended, and what the first has said to the store comes after so many of the other's messages. */
static void takes_over(rig_post *late, int after, double used)
{
    r.store_as = 2;
    r.now += 2 * LEASE;
    r.wall += 2 * LEASE;
    rig_start(&r);
    go_on(after);
    arrive(late);
    rig_pass(&r, 4 * LEASE);
    if (r.has_stopped) { /* what it has read was changed meanwhile: before it serves, that is; it is started again */
        cr_assert(r.stopped == HTC_ELOCKED && r.gateway->phase != PHASE_READY, "after %d: %s", after, htc_status_name(r.stopped));
        rig_kill(&r);
        rig_start(&r);
        rig_pass(&r, 4 * LEASE);
    }
    op = operator_peer();
    cr_assert(hours() == used, "after %d: %g hours of %g", after, hours(), used);
    rig_pass(&r, 2 * HOUR);
    cr_assert(hours() == used && !r.has_stopped, "after %d: %g hours of %g", after, hours(), used);
    rig_kill(&r);
    rig_start(&r);
    rig_pass(&r, 4 * LEASE);
    op = operator_peer();
    cr_assert(hours() == used, "after %d: %g hours of %g after a restart", after, hours(), used);
}

Test(gateway_fold, of_two_gateways_the_late_one_changes_nothing)
{
    int more = 1, cases = 0;
    shared = 1;
    for (int at = 20, after = 0; more && at < 200; after = after < 72 ? after + 6 : 0, at += after == 0) {
        end();
        begin_fold();
        start_with(0);
        double used = work_for(2);
        more = start_and_go_on(DAY, at);
        rig_post    *late = r.posts;
        htc_gateway *first = r.gateway;
        r.posts = NULL;
        r.gateway = NULL;
        if (are_of_usage(late)) {
            takes_over(late, after, used);
            cases++;
        } else {
            after = 72;
            r.store_as = 2;
            arrive(late);
            rig_start(&r);
        }
        htc_gateway_ops()->destroy(first);
    }
    cr_expect(cases >= 40 && !more, "%d cases", cases);
    shared = 0;
}
