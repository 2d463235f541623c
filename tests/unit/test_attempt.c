/* One attempt in a holder's hand: what each order does in each phase, limits, staging that is tried again, and, over random walks,
 * that it ends once and asks its host for nothing out of turn. */
#include "expect.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "roles/attempt/attempt.h"

#define RUN 7

typedef struct rig {
    attempt_holder h; /* first */
    htc_rng        rng;
    htc_env        env;
    attempt        t;
    char           said[256]; /* a letter for each call and each end, in order */
    uint32_t       signal, ends, freed, node_failures;
    uint32_t       owed; /* the call that the host has not answered; 0: none */
} rig;

static void note(rig *r, char letter)
{
    size_t n = strlen(r->said);
    if (n + 1 < sizeof r->said)
        r->said[n] = letter;
}

static void ended(attempt_holder *h, attempt *t)
{
    (void)t;
    note((rig *)h, 'E');
    ((rig *)h)->ends++;
}

static void returned(attempt_holder *h, attempt *t)
{
    (void)t;
    note((rig *)h, 'R');
    ((rig *)h)->ends++;
}

static void dropped(attempt_holder *h, attempt *t)
{
    note((rig *)h, 'D');
    ((rig *)h)->ends++;
    ((rig *)h)->freed = 1;
    htc__attempt_free(h, t, 1);
}

static void node_failed(attempt_holder *h, htc_status status, const char *reason)
{
    cr_expect(eq(int, status, HTC_ENOSPC) && reason[0]);
    ((rig *)h)->node_failures++;
}

/* The calls since the last look. */
static void take_calls(rig *r)
{
    for (size_t i = 0; i < htc_output_count(r->h.out); i++) {
        htc_effect e;
        htc_output_get(r->h.out, i, &e);
        cr_assert(eq(u64, e.tag, RUN));
        htc_reader in = htc_reader_of(e.body);
        cr_assert(eq(u64, htc_get_u64(&in), RUN));
        switch (e.op) {
        case HTC_CALL_STAGE_IN: note(r, 'i'); r->owed = e.op; break;
        case HTC_CALL_RUN: note(r, 'r'); r->owed = e.op; break;
        case HTC_CALL_STAGE_OUT: note(r, 'o'); r->owed = e.op; break;
        case HTC_CALL_SIGNAL:
            r->signal = htc_get_u32(&in);
            note(r, r->signal == SIGTERM ? 't' : 'k');
            cr_expect(eq(u32, r->owed, HTC_CALL_RUN), "only a process gets signals");
            break;
        case HTC_CALL_TAKE_BACK: note(r, 'b'); break;
        case HTC_CALL_CLEAN: note(r, htc_get_u8(&in) ? 'c' : 'C'); break;
        default: cr_assert(0, "call %u", (unsigned)e.op);
        }
    }
    htc_output_clear(r->h.out);
}

static void begin(rig *r, htc_ns wall)
{
    static const attempt_holder_ops ops = { ended, returned, dropped, node_failed, NULL };
    memset(r, 0, sizeof *r);
    r->env = (htc_env){ .size = sizeof r->env };
    r->h = (attempt_holder){ .env = &r->env, .ops = &ops, .now = HTC_SECOND, .stage_retry = 2, .retry_ns = HTC_SECOND, .kill_after_ns = 10 * HTC_SECOND, .node = "n1" };
    htc_buf_init(&r->h.buf, &r->env, 1 << 20);
    cr_assert(eq(int, htc_output_create(NULL, 0, &r->h.out), HTC_OK));
    htc_task  task = { .executable = "/bin/true", .values_json = "{}", .limits = { .wall = wall, .memory = 4096, .cores = 1 } };
    htc_bytes bytes;
    cr_assert(eq(int, htc_task_to_bytes(&r->env, &task, &bytes), HTC_OK));
    htc_granted g = { .attempt = { 1, 2, 3 }, .count = 9, .task = bytes, .user = "olga" };
    cr_assert(eq(int, htc__attempt_init(&r->h, &r->t, &g, RUN), HTC_OK));
    htc_work_free(&r->env, bytes);
    htc__attempt_read(&r->h, &r->t);
    take_calls(r);
}

static void finish(rig *r)
{
    if (!r->freed) {
        htc__attempt_free(&r->h, &r->t, 0);
        take_calls(r);
    }
    htc_output_destroy(r->h.out);
    htc_buf_free(&r->h.buf);
}

static void answer(rig *r, htc_status status, const htc_outcome *o)
{
    htc_input in = { .size = sizeof in, .now = r->h.now, .kind = HTC_IN_RESULT, .op = r->owed, .tag = RUN, .status = status };
    htc_buf   b;
    htc_buf_init(&b, NULL, 0);
    if (status == HTC_OK && r->owed == HTC_CALL_RUN)
        htc_outcome_write(&b, o ? o : &(htc_outcome){ .status = HTC_OK });
    else if (status == HTC_OK && r->owed == HTC_CALL_STAGE_OUT)
        htc_stored_write(&b, &(htc_stored){ .status = HTC_OK });
    else if (status != HTC_OK)
        htc_put_text(&b, "because");
    in.body = htc_buf_bytes(&b);
    r->owed = 0;
    htc__attempt_result(&r->h, &r->t, &in);
    take_calls(r);
    htc_buf_free(&b);
}

static void order(rig *r, attempt_order what)
{
    htc__attempt_order(&r->h, &r->t, what);
    take_calls(r);
}

static void at(rig *r, htc_ns now)
{
    r->h.now = now;
    htc__attempt_timer(&r->h, &r->t);
    take_calls(r);
}

static void bring_to(rig *r, attempt_phase phase)
{
    if (phase == ATTEMPT_WAITING)
        return;
    if (phase == ATTEMPT_RETURNED) {
        order(r, ORDER_DRAIN);
        return;
    }
    htc__attempt_begin(&r->h, &r->t, 0);
    take_calls(r);
    if (phase == ATTEMPT_PAUSED_IN)
        answer(r, HTC_EBUSY, NULL);
    if (phase == ATTEMPT_STAGING_IN || phase == ATTEMPT_PAUSED_IN)
        return;
    answer(r, HTC_OK, NULL);
    if (phase == ATTEMPT_RUNNING)
        return;
    answer(r, HTC_OK, NULL);
    if (phase == ATTEMPT_STAGING_OUT)
        return;
    answer(r, phase == ATTEMPT_PAUSED_OUT ? HTC_EBUSY : HTC_OK, NULL);
}

/* ---- orders ---- */

/* What is said when the order comes, and behind "/" when the host answers that the process was killed, or OK. */
/* clang-format off */
static const char *const said[ORDER_COUNT][ATTEMPT_PHASES] = {
    /*                    WAITING STAGING_IN PAUSED_IN RUNNING STAGING_OUT PAUSED_OUT ENDED RETURNED */
    [ORDER_NONE]      = { "/",    "/r",      "/",      "/o",   "/E",       "/",       "/",  "/" },
    [ORDER_CANCEL]    = { "E/",   "b/E",     "E/",     "t/ob", "b/E",      "/",       "/",  "/" },
    [ORDER_WALL]      = { "/",    "/r",      "/",      "t/o",  "/E",       "/",       "/",  "/" },
    [ORDER_SUSPENDED] = { "/",    "/r",      "/",      "k/E",  "/E",       "/",       "/",  "/" },
    [ORDER_REVOKE]    = { "D/",   "b/Dc",    "Dc/",    "k/Dc", "b/Dc",     "Dc/",     "/",  "/" },
    [ORDER_STOP]      = { "R/",   "b/R",     "R/",     "k/R",  "b/E",      "/",       "/",  "/" },
    [ORDER_DRAIN]     = { "R/",   "/r",      "/",      "/o",   "/E",       "/",       "/",  "/" },
};
/* clang-format on */

Test(attempt, does_with_each_order_what_its_phase_allows)
{
    static rig r;
    for (int o = 0; o < ORDER_COUNT; o++)
        for (int p = 0; p < ATTEMPT_PHASES; p++) {
            begin(&r, 0);
            bring_to(&r, (attempt_phase)p);
            cr_assert(eq(int, r.t.phase, p));
            memset(r.said, 0, sizeof r.said);
            order(&r, (attempt_order)o);
            note(&r, '/');
            htc_outcome killed = { .status = HTC_ESIGNAL, .signal = SIGKILL };
            if (r.owed && !r.freed)
                answer(&r, HTC_OK, r.t.order != ORDER_NONE ? &killed : NULL);
            cr_expect(eq(str, r.said, (char *)(uintptr_t)said[o][p]), "order %d in phase %d", o, p);
            finish(&r);
        }
}

Test(attempt, says_why_it_ended)
{
    static const struct {
        attempt_order order;
        htc_outcome   told;
        htc_status    status;
        const char   *reason;
    } rows[] = {
        { ORDER_NONE, { .status = HTC_OK }, HTC_OK, "" },
        { ORDER_NONE, { .status = HTC_EEXIT, .exit_code = 3 }, HTC_EEXIT, "exit code 3" },
        { ORDER_NONE, { .status = HTC_ESIGNAL, .signal = SIGSEGV }, HTC_ESIGNAL, "killed by signal 11 (SEGV)" },
        { ORDER_NONE, { .status = HTC_EKILLED, .signal = SIGKILL }, HTC_EKILLED, "killed from outside by signal 9 (KILL)" },
        { ORDER_NONE, { .status = HTC_EOOM }, HTC_EOOM, "memory limit of 4096 bytes reached" },
        { ORDER_WALL, { .status = HTC_ESIGNAL, .signal = SIGTERM }, HTC_EWALLTIME, "wall-time limit of 30 s reached" },
        { ORDER_WALL, { .status = HTC_EEXIT, .exit_code = 143 }, HTC_EWALLTIME, "wall-time limit of 30 s reached" },
        { ORDER_WALL, { .status = HTC_OK }, HTC_OK, "" }, /* faster than the order */
        { ORDER_CANCEL, { .status = HTC_EEXIT, .exit_code = 1 }, HTC_ECANCELLED, NULL },
        { ORDER_CANCEL, { .status = HTC_EOOM }, HTC_EOOM, "memory limit of 4096 bytes reached" },
    };
    static rig r;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(&r, 30 * HTC_SECOND);
        bring_to(&r, ATTEMPT_RUNNING);
        order(&r, rows[i].order);
        answer(&r, HTC_OK, &rows[i].told);
        answer(&r, HTC_OK, NULL);
        cr_assert(eq(int, r.t.phase, ATTEMPT_ENDED));
        cr_expect(eq(int, r.t.outcome.status, rows[i].status), "row %zu", i);
        if (rows[i].reason)
            cr_expect(eq(str, r.t.outcome.reason, (char *)(uintptr_t)rows[i].reason), "row %zu", i);
        cr_expect(eq(str, r.t.outcome.node, "n1"));
        finish(&r);
    }
}

/* ---- time ---- */

Test(attempt, has_a_wall_time_from_its_start_on)
{
    static rig r;
    begin(&r, 30 * HTC_SECOND);
    bring_to(&r, ATTEMPT_RUNNING);
    cr_expect(eq(u64, (uint64_t)htc__attempt_deadline(&r.t), (uint64_t)HTC_NEVER), "it has not started");
    at(&r, 100 * HTC_SECOND);
    cr_expect(htc__attempt_started(&r.h, &r.t));
    cr_expect(eq(u64, (uint64_t)htc__attempt_deadline(&r.t), (uint64_t)(130 * HTC_SECOND)));
    at(&r, 110 * HTC_SECOND);
    cr_expect(htc__attempt_started(&r.h, &r.t), "said again, it counts from the first");
    at(&r, 130 * HTC_SECOND - 1);
    cr_expect(eq(str, r.said, "ir"));
    at(&r, 130 * HTC_SECOND);
    cr_expect(eq(str, r.said, "irt"));
    at(&r, 140 * HTC_SECOND - 1);
    cr_expect(eq(str, r.said, "irt"));
    at(&r, 140 * HTC_SECOND);
    cr_expect(eq(str, r.said, "irtk"));
    at(&r, 1000 * HTC_SECOND);
    cr_expect(eq(str, r.said, "irtk"), "once");
    cr_expect(eq(u64, (uint64_t)htc__attempt_deadline(&r.t), (uint64_t)HTC_NEVER));
    finish(&r);
}

/* Twice, after pauses that double; then it is the task's outcome, and what makes a node useless is not. */
/* Once, ahead of the limit, and it changes nothing of how the task ends. */
Test(attempt, sends_the_signal_that_was_asked_for)
{
    static const struct {
        htc_ns   wall;
        uint32_t before;
        htc_ns   at; /* after its start */
    } cases[] = { { 60 * HTC_SECOND, 20, 40 * HTC_SECOND }, { 60 * HTC_SECOND, 60, 0 }, { 60 * HTC_SECOND, 500, 0 }, { 0, 20, HTC_NEVER } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig r;
        begin(&r, cases[i].wall);
        r.t.signal = SIGUSR1;
        r.t.signal_s = cases[i].before;
        bring_to(&r, ATTEMPT_RUNNING);
        at(&r, 100 * HTC_SECOND);
        cr_expect(eq(u32, r.signal, 0), "not before its process runs");
        cr_expect(htc__attempt_started(&r.h, &r.t));
        cr_expect(eq(u64, htc__attempt_deadline(&r.t), cases[i].wall ? 100 * HTC_SECOND + cases[i].at : HTC_NEVER));
        if (cases[i].at && cases[i].wall) {
            at(&r, 100 * HTC_SECOND + cases[i].at - 1);
            cr_expect(eq(u32, r.signal, 0));
        }
        at(&r, 100 * HTC_SECOND + (cases[i].wall ? cases[i].at : 600 * HTC_SECOND));
        cr_expect(eq(u32, r.signal, cases[i].wall ? SIGUSR1 : 0));
        r.signal = 0;
        cr_expect(htc__attempt_started(&r.h, &r.t));
        at(&r, r.h.now + HTC_SECOND);
        cr_expect(eq(u32, r.signal, 0), "once");
        answer(&r, HTC_OK, NULL);
        answer(&r, HTC_OK, NULL);
        cr_expect(eq(int, r.t.outcome.status, HTC_OK));
        finish(&r);
    }
}

Test(attempt, tries_staging_again)
{
    static rig r;
    begin(&r, 0);
    bring_to(&r, ATTEMPT_PAUSED_IN);
    for (int i = 0; i < 2; i++) {
        htc_ns due = htc__attempt_deadline(&r.t);
        cr_expect(eq(u64, (uint64_t)(due - r.h.now), (uint64_t)(HTC_SECOND << i)));
        at(&r, due - 1);
        cr_expect(eq(int, r.t.phase, ATTEMPT_PAUSED_IN));
        at(&r, due);
        cr_assert(eq(u32, r.owed, HTC_CALL_STAGE_IN));
        answer(&r, HTC_EBUSY, NULL);
    }
    cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_ESTAGEIN));
    cr_expect(eq(str, r.t.outcome.reason, "because"));
    finish(&r);
    begin(&r, 0);
    bring_to(&r, ATTEMPT_STAGING_IN);
    answer(&r, HTC_ENOTFOUND, NULL);
    cr_expect(eq(int, r.t.outcome.status, HTC_EINPUT) && r.t.outcome.final == 0, "at once: somebody may make it");
    finish(&r);
    for (int i = 0; i < 2; i++) { /* where nobody makes inputs */
        begin(&r, 0);
        r.h.missing_is_final = 1;
        bring_to(&r, ATTEMPT_STAGING_IN);
        answer(&r, i ? HTC_EINPUT : HTC_ENOTFOUND, NULL);
        cr_expect(eq(int, r.t.outcome.status, HTC_ESTAGEIN) && r.t.outcome.final == 1, "at once, and for good");
        finish(&r);
    }
}

/* What a heartbeat says of it decides whether it is charged when it is given back: it runs from its start on, and was running still when it is returned. */
Test(attempt, is_said_to_run_when_its_process_does)
{
    for (int started = 0; started <= 1; started++) {
        rig r;
        begin(&r, 0);
        cr_expect(eq(int, htc__attempt_told(&r.t), HTC_HELD_WAITING));
        bring_to(&r, ATTEMPT_RUNNING);
        cr_expect(eq(int, htc__attempt_told(&r.t), HTC_HELD_WAITING), "it waits for a slot at the host");
        if (started) {
            cr_assert(htc__attempt_started(&r.h, &r.t));
            cr_expect(eq(int, htc__attempt_told(&r.t), HTC_HELD_RUNNING));
        }
        answer(&r, started ? HTC_EIO : HTC_AGAIN, NULL);
        cr_assert(eq(int, r.t.phase, ATTEMPT_RETURNED));
        cr_expect(eq(int, htc__attempt_told(&r.t), started ? HTC_HELD_RUNNING : HTC_HELD_WAITING));
        finish(&r);
    }
}

static void stored(rig *r, htc_status status, int final, const char *reason)
{
    htc_stored s = { .status = status, .final = final != 0, .outputs = { .files = 3 } };
    htc_input  in = { .size = sizeof in, .now = r->h.now, .kind = HTC_IN_RESULT, .op = r->owed, .tag = RUN, .status = HTC_OK };
    htc_buf    b;
    cr_assert(eq(u32, r->owed, HTC_CALL_STAGE_OUT));
    snprintf(s.reason, sizeof s.reason, "%s", reason);
    htc_buf_init(&b, NULL, 0);
    htc_stored_write(&b, &s);
    in.body = htc_buf_bytes(&b);
    r->owed = 0;
    htc__attempt_result(&r->h, &r->t, &in);
    take_calls(r);
    htc_buf_free(&b);
}

/* Outputs that go to URLs are stored first: whatever becomes of the rest, they are in the outcome. */
Test(attempt, sends_outputs_again)
{
    static rig r;
    for (int well = 0; well <= 1; well++) {
        begin(&r, 0);
        bring_to(&r, ATTEMPT_STAGING_OUT);
        for (int i = 0; i < 2; i++) {
            stored(&r, HTC_ECLOSED, 0, "not sent");
            cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_OUT));
            cr_expect(eq(u64, htc__attempt_deadline(&r.t) - r.h.now, HTC_SECOND << i));
            cr_expect(eq(u64, r.h.pace.pause, 0), "a server is no storage that others wait for");
            at(&r, htc__attempt_deadline(&r.t));
        }
        stored(&r, well ? HTC_OK : HTC_EUNREACHABLE, 0, well ? "" : "not sent: no connection");
        cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, well ? HTC_OK : HTC_ESTAGEOUT));
        cr_expect(eq(str, r.t.outcome.reason, well ? "" : "not sent: no connection"));
        cr_expect(r.t.outcome.final == 0 && r.t.outcome.outputs.files == 3);
        finish(&r);
    }
    begin(&r, 0);
    bring_to(&r, ATTEMPT_STAGING_OUT);
    stored(&r, HTC_ESTAGEOUT, 1, "HTTP 403");
    cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_ESTAGEOUT) && r.t.outcome.final == 1 && r.t.outcome.outputs.files == 3);
    finish(&r);
}

/* An upload may take hours: it ends where nobody wants it, and where the holder ends. */
Test(attempt, sends_nothing_that_nobody_wants)
{
    static rig r;
    for (int paused = 0; paused <= 1; paused++)
        for (int stops = 0; stops <= 1; stops++) {
            begin(&r, 0);
            bring_to(&r, ATTEMPT_STAGING_OUT);
            if (paused)
                stored(&r, HTC_EBUSY, 0, "HTTP 503");
            order(&r, stops ? ORDER_STOP : ORDER_CANCEL);
            if (!paused)
                stored(&r, HTC_ECANCELLED, 0, "nobody wants it");
            cr_expect(eq(int, r.t.phase, stops ? ATTEMPT_RETURNED : ATTEMPT_ENDED));
            if (!stops)
                cr_expect(eq(int, r.t.outcome.status, HTC_ECANCELLED) && eq(u64, r.t.outcome.outputs.files, 3));
            finish(&r);
        }
}

/* An order that comes before the sending, while nothing is stored yet, or while a try to store is under way that fails: the outputs are stored,
 * and every further try is told that they are not to be sent. */
Test(attempt, does_not_begin_to_send_what_nobody_wants)
{
    static const htc_status waits[] = { HTC_AGAIN, HTC_ENOSPC, HTC_EBUSY };
    static rig              r;
    for (int i = 0; i < 3 * 2 * 2 * 2; i++) {
        int under_way = i & 1, stops = i & 2, limit = i & 4;
        begin(&r, 30 * HTC_SECOND);
        bring_to(&r, ATTEMPT_RUNNING);
        if (limit)
            order(&r, ORDER_WALL); /* it was faster */
        answer(&r, HTC_OK, NULL);
        if (under_way)
            order(&r, stops ? ORDER_STOP : ORDER_CANCEL);
        answer(&r, waits[i / 8], NULL);
        cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_OUT));
        if (!under_way)
            order(&r, stops ? ORDER_STOP : ORDER_CANCEL);
        cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_OUT), "what it made is stored first");
        for (int n = 0; n < 2; n++) {
            memset(r.said, 0, sizeof r.said);
            at(&r, htc__attempt_deadline(&r.t));
            cr_expect(eq(str, r.said, "ob"), "case %d, try %d", i, n);
            if (n == 0)
                answer(&r, waits[i / 8], NULL);
        }
        stored(&r, HTC_ECANCELLED, 0, "nobody wants it");
        cr_expect(eq(int, r.t.phase, stops || limit ? ATTEMPT_RETURNED : ATTEMPT_ENDED), "case %d", i);
        finish(&r);
    }
}

Test(attempt, that_was_cancelled_and_ended_well_sends_nothing)
{
    static rig r;
    begin(&r, 0);
    bring_to(&r, ATTEMPT_RUNNING);
    order(&r, ORDER_CANCEL);
    memset(r.said, 0, sizeof r.said);
    answer(&r, HTC_OK, NULL);
    cr_expect(eq(str, r.said, "ob"));
    stored(&r, HTC_ECANCELLED, 0, "nobody wants it");
    cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_ECANCELLED));
    finish(&r);
}

/* It was faster than the order that its limit gave: what comes then is another one. */
Test(attempt, that_was_in_time_and_sends_is_given_back)
{
    static rig r;
    begin(&r, 30 * HTC_SECOND);
    bring_to(&r, ATTEMPT_RUNNING);
    order(&r, ORDER_WALL);
    answer(&r, HTC_OK, NULL);
    cr_assert(eq(int, r.t.phase, ATTEMPT_STAGING_OUT));
    order(&r, ORDER_STOP);
    stored(&r, HTC_ECANCELLED, 0, "nobody wants it");
    cr_expect(eq(int, r.t.phase, ATTEMPT_RETURNED));
    finish(&r);
}

/* "Scratch full" of HTCaaS, failure handling: the task is given back at once, and the node is left. */
/* HTCaaS 6: The scratch directory is full. */
Test(attempt, a_full_scratch_gives_the_task_back)
{
    static rig r;
    begin(&r, 0);
    bring_to(&r, ATTEMPT_STAGING_IN);
    answer(&r, HTC_ENOSPC, NULL);
    cr_expect(eq(int, r.t.phase, ATTEMPT_RETURNED) && eq(u32, r.node_failures, 1), "a full disk is not its fault");
    finish(&r);
}

/* "Shared storage overload": errors that such storage has are waited for, longer and longer; a task that has run keeps its outputs for a minute. */
Test(attempt, waits_for_storage_that_is_overloaded)
{
    static const htc_status trouble[] = { HTC_ENOSPC, HTC_EIO, HTC_ETIMEDOUT };
    static rig              r;
    for (size_t i = 0; i < 3; i++) {
        htc_ns pause = 0, began;
        begin(&r, 0);
        bring_to(&r, ATTEMPT_STAGING_OUT);
        began = r.h.now;
        for (int n = 0; n < 5; n++) {
            answer(&r, trouble[i], NULL);
            cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_OUT));
            htc_ns due = htc__attempt_deadline(&r.t);
            cr_expect(due - r.h.now > pause && due - r.h.now >= IO_PACE_FIRST << n && due - r.h.now <= (IO_PACE_FIRST << n) * 5 / 4, "pause %d", n);
            pause = due - r.h.now;
            at(&r, due - 1);
            cr_expect(eq(u32, r.owed, 0));
            at(&r, due);
            cr_assert(eq(u32, r.owed, HTC_CALL_STAGE_OUT));
        }
        if (i == 0) { /* it takes them again */
            answer(&r, HTC_OK, NULL);
            cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_OK) && eq(u32, r.node_failures, 0));
            cr_expect(r.h.pace.pause < IO_PACE_FIRST << 4, "it shrinks");
            finish(&r);
            continue;
        }
        while (r.h.now - began < 60 * HTC_SECOND) {
            answer(&r, trouble[i], NULL);
            cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_OUT));
            at(&r, htc__attempt_deadline(&r.t));
        }
        answer(&r, trouble[i], NULL);
        if (trouble[i] == HTC_ETIMEDOUT)
            cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_ESTAGEOUT));
        else
            cr_expect(eq(int, r.t.phase, ATTEMPT_RETURNED) && eq(u32, r.node_failures, 1));
        finish(&r);
    }
    for (size_t i = 1; i < 3; i++) { /* inputs: as often as any passing trouble */
        begin(&r, 0);
        bring_to(&r, ATTEMPT_STAGING_IN);
        for (int n = 0; n < 2; n++) {
            answer(&r, trouble[i], NULL);
            cr_assert(eq(int, r.t.phase, ATTEMPT_PAUSED_IN));
            cr_expect(eq(u64, htc__attempt_deadline(&r.t) - r.h.now, HTC_SECOND << n));
            at(&r, htc__attempt_deadline(&r.t));
        }
        answer(&r, trouble[i], NULL);
        cr_expect(eq(int, r.t.phase, trouble[i] == HTC_EIO ? ATTEMPT_RETURNED : ATTEMPT_ENDED));
        finish(&r);
    }
}

/* Trouble of one staging holds off all others of the holder. */
Test(attempt, does_not_stage_while_the_holders_staging_pauses)
{
    static rig r;
    begin(&r, 0);
    r.h.pace = (io_pace){ .pause = HTC_SECOND, .until = r.h.now + HTC_SECOND };
    htc__attempt_begin(&r.h, &r.t, 0);
    take_calls(&r);
    cr_expect(eq(str, r.said, "") && eq(int, r.t.phase, ATTEMPT_PAUSED_IN));
    htc_ns due = htc__attempt_deadline(&r.t);
    cr_expect(due >= r.h.pace.until && due <= r.h.pace.until + HTC_SECOND / 4);
    at(&r, due);
    cr_expect(eq(str, r.said, "i"));
    answer(&r, HTC_OK, NULL);
    r.h.pace = (io_pace){ .pause = HTC_SECOND, .until = r.h.now + HTC_SECOND };
    answer(&r, HTC_OK, NULL);
    cr_expect(eq(str, r.said, "ir") && eq(int, r.t.phase, ATTEMPT_PAUSED_OUT));
    at(&r, htc__attempt_deadline(&r.t));
    cr_expect(eq(str, r.said, "iro"));
    finish(&r);
}

/* Others have all turns: it asks again however often that is, and nothing counts against it. */
Test(attempt, waits_for_a_turn_to_stage)
{
    static rig r;
    begin(&r, 0);
    bring_to(&r, ATTEMPT_STAGING_IN);
    for (int n = 0; n < 50; n++) {
        int out = r.t.phase == ATTEMPT_STAGING_OUT;
        answer(&r, HTC_AGAIN, NULL);
        cr_assert(eq(int, r.t.phase, out ? ATTEMPT_PAUSED_OUT : ATTEMPT_PAUSED_IN));
        cr_expect(htc__attempt_deadline(&r.t) - r.h.now <= 40 * IO_PACE_FIRST);
        at(&r, htc__attempt_deadline(&r.t));
        if (n == 20) {
            answer(&r, HTC_OK, NULL);
            answer(&r, HTC_OK, NULL);
        }
    }
    answer(&r, HTC_OK, NULL);
    cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_OK) && eq(u64, r.h.pace.pause, 0));
    finish(&r);
}

Test(attempt, refuses_a_task_that_cannot_be_read)
{
    static rig  r;
    htc_granted g = { .attempt = { 1, 2, 3 }, .count = 9, .task = { "xyz", 3 } };
    begin(&r, 0);
    htc__attempt_free(&r.h, &r.t, 0);
    cr_assert(eq(int, htc__attempt_init(&r.h, &r.t, &g, RUN), HTC_OK));
    htc__attempt_read(&r.h, &r.t);
    cr_expect(eq(int, r.t.phase, ATTEMPT_ENDED) && eq(int, r.t.outcome.status, HTC_EREFUSED));
    finish(&r);
}

/* ---- random walks ---- */

static void one_step(rig *r)
{
    static const htc_status told[] = { HTC_OK, HTC_OK, HTC_OK, HTC_EBUSY, HTC_ENOTFOUND, HTC_ENOSPC, HTC_EIO, HTC_AGAIN };
    static const htc_status ran[] = { HTC_OK, HTC_EEXIT, HTC_ESIGNAL, HTC_EKILLED, HTC_EOOM };
    switch (htc_rng_below(&r->rng, 6)) {
    case 0:
        order(r, (attempt_order)htc_rng_below(&r->rng, ORDER_COUNT));
        break;
    case 1:
        if (r->t.phase == ATTEMPT_WAITING) {
            htc__attempt_begin(&r->h, &r->t, 0);
            take_calls(r);
        }
        break;
    case 2:
        htc__attempt_started(&r->h, &r->t);
        break;
    case 3:
        if (htc__attempt_deadline(&r->t) != HTC_NEVER)
            at(r, htc__attempt_deadline(&r->t) > r->h.now ? htc__attempt_deadline(&r->t) : r->h.now);
        break;
    default:
        if (r->owed)
            answer(r, told[htc_rng_below(&r->rng, 8)], &(htc_outcome){ .status = ran[htc_rng_below(&r->rng, 5)], .signal = SIGKILL });
    }
}

Test(attempt, ends_once_whatever_comes)
{
    static rig r;
    uint32_t   ended_by[128] = { 0 };
    htc_rng    seeds = { 11 };
    for (int i = 0; i < 20000; i++) {
        begin(&r, i % 2 ? HTC_SECOND : 0);
        r.rng = (htc_rng){ htc_rng_next(&seeds) };
        for (int n = 0; n < 60 && !r.freed; n++) {
            uint32_t ends = r.ends;
            size_t   calls = strlen(r.said);
            one_step(&r);
            cr_assert(r.ends <= 1, "walk %d: %s", i, r.said);
            cr_assert(!ends || strlen(r.said) == calls, "walk %d: after its end it asks for more: %s", i, r.said);
            if (!r.freed && !r.ends && r.t.phase != ATTEMPT_WAITING)
                cr_assert(r.owed || htc__attempt_deadline(&r.t) != HTC_NEVER, "walk %d: nothing will wake it: %s", i, r.said);
            if (!r.freed)
                cr_assert(eq(int, htc__attempt_is_over(&r.t), r.ends != 0));
        }
        int begun = strchr(r.said, 'i') != NULL;
        finish(&r);
        cr_assert(eq(int, begun, strchr(r.said, 'c') != NULL || strchr(r.said, 'C') != NULL), "walk %d: cleaned if and only if it was staged: %s", i, r.said);
        for (const char *c = r.said; *c; c++)
            ended_by[(unsigned char)*c]++;
    }
    for (const char *c = "irotkERDcC"; *c; c++)
        cr_expect(gt(u32, ended_by[(unsigned char)*c], 100), "%c is seldom", *c);
}

/* ---- ahead of a slot ---- */

Test(attempt, what_is_given_ahead_comes_back_when_no_slot_is_free_soon)
{
    for (int late = 0; late < 2; late++) { /* is it staged in only when it should be back already? */
        rig r;
        begin(&r, 0);
        htc__attempt_begin(&r.h, &r.t, 1);
        take_calls(&r);
        if (late)
            at(&r, r.h.now + HTC_SECOND);
        cr_expect(eq(str, r.said, "i"));
        answer(&r, HTC_OK, NULL);
        cr_expect(eq(str, r.said, "ir"));
        cr_expect(htc__attempt_deadline(&r.t) != HTC_NEVER);
        at(&r, htc__attempt_deadline(&r.t) > r.h.now ? htc__attempt_deadline(&r.t) : r.h.now);
        cr_expect(eq(str, r.said, "irb"));
        cr_expect(htc__attempt_deadline(&r.t) == HTC_NEVER);
        answer(&r, HTC_AGAIN, NULL);
        cr_expect(eq(str, r.said, "irbR"));
        finish(&r);
    }
}

Test(attempt, what_has_begun_is_not_taken_back)
{
    rig r;
    begin(&r, 0);
    htc__attempt_begin(&r.h, &r.t, 1);
    take_calls(&r);
    answer(&r, HTC_OK, NULL);
    cr_expect(htc__attempt_started(&r.h, &r.t));
    at(&r, r.h.now + 10 * HTC_SECOND);
    cr_expect(eq(str, r.said, "ir"));
    answer(&r, HTC_OK, NULL);
    finish(&r);
}

Test(attempt, short_commands_are_given_ahead)
{
    cr_expect(eq(u32, htc__attempt_most(0, 2), 2), "nothing is known yet");
    cr_expect(eq(u32, htc__attempt_most(1, 2), 18));
    cr_expect(eq(u32, htc__attempt_most(50 * HTC_MS, 2), 6));
    cr_expect(eq(u32, htc__attempt_most(ATTEMPT_AHEAD_SPAN, 2), 4));
    cr_expect(eq(u32, htc__attempt_most(ATTEMPT_AHEAD_SPAN + 1, 2), 2));
    cr_expect(eq(u32, htc__attempt_most(1, 0), 0));
    htc_outcome never = { .started = 0, .ended = 5 }, back = { .started = 9, .ended = 5 }, four = { .started = 1, .ended = 5 };
    cr_expect(eq(u64, htc__attempt_lately(7, &never), 7));
    cr_expect(eq(u64, htc__attempt_lately(0, &four), 5), "0 says that nothing is known");
    cr_expect(eq(u64, htc__attempt_lately(8, &four), 7));
    cr_expect(eq(u64, htc__attempt_lately(8, &back), 6), "of a clock that was set back");
}
