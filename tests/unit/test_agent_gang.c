/* Processes on the nodes of a gang: two real agents, the leader and a member, whose words to each other are lost, doubled and late, and whose
 * connections break. Whatever happens: what was asked for is begun once, its end is told once and is the right one, what nobody waits for any more
 * ends, and a member that is revoked gives its slots back only when nothing runs in them. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/agent.h"
#include "htcsched/calls.h"
#include "htcsched/work.h"
#include "roles/runtime/gang_wire.h"

#define GATEWAY 5
#define ASKS    8
#define LATER   64

static const htc_attempt AT = { 3, 0, 1 };

typedef struct later {
    htc_ns  at; /* 0: free */
    int     to;
    uint8_t bytes[512];
    size_t  len;
} later;

typedef struct process {
    uint64_t run;
    int      code, begun, runs, cleaned;
    htc_ns   ends;
} process;

typedef struct side {
    htc_agent *agent;
    htc_rng    rng;
    htc_env    env;
    uint64_t   run; /* of its attempt; 0: not staged in */
    int        started, cleaned, given_back, connected;
} side;

typedef struct world {
    htc_rng     rng;
    htc_ns      now;
    side        sides[2];
    htc_output *out;
    htc_buf     body;
    later       net[LATER];
    process     processes[ASKS];
    int         asked[ASKS], left[ASKS], answers[ASKS], code[ASKS];
    htc_status  status[ASKS];
    uint32_t    lossy;
    uint16_t    version;
} world;

static void step(world *w, int i, htc_input in);

static void hears(world *w, int i)
{
    uint8_t copy[4096];
    cr_assert(w->body.status == HTC_OK && w->body.len <= sizeof copy);
    memcpy(copy, w->body.data, w->body.len);
    step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = GATEWAY, .body = { copy, w->body.len } });
}

static void answered(world *w, int i, uint32_t op, uint64_t tag, htc_bytes bytes)
{
    uint8_t copy[1024];
    cr_assert(bytes.len <= sizeof copy);
    if (bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = op, .tag = tag, .body = { copy, bytes.len } });
}

static void open_side(world *w, int i)
{
    w->sides[i].connected = 1;
    step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = GATEWAY });
    htc_wire_welcome(&w->body, 0, w->version);
    hears(w, i);
    htc_agent_welcome_write(&w->body, &(htc_agent_welcome){ HTC_OK, 10 * HTC_SECOND, 600 * HTC_SECOND, "", "", "" });
    hears(w, i);
}

/* As the gateway passes words on, over two connections that may break. */
static void pass_on(world *w, int from, htc_bytes message)
{
    uint32_t copies = htc_rng_below(&w->rng, 10) < w->lossy ? 0 : htc_rng_below(&w->rng, 10) < w->lossy ? 2 : 1;
    for (uint32_t c = 0; c < copies; c++)
        for (int k = 0; k < LATER; k++)
            if (!w->net[k].at) {
                cr_assert(message.len <= sizeof w->net[k].bytes);
                w->net[k] = (later){ .at = w->now + 1 + htc_rng_below(&w->rng, w->lossy ? 3 * HTC_SECOND : 2), .to = !from, .len = message.len };
                memcpy(w->net[k].bytes, message.data, message.len);
                break;
            }
}

static void message(world *w, int i, htc_bytes bytes)
{
    static htc_heartbeat beat;
    static htc_give_back back;
    uint16_t   type;
    uint64_t   id;
    htc_pull   pull;
    htc_reader r = htc_wire_open(bytes, &type, &id);
    if (type == HTC_WIRE_GANG_WORD) {
        pass_on(w, i, bytes);
    } else if (type == HTC_WIRE_HEARTBEAT && htc_heartbeat_read(&r, &beat) == HTC_OK) {
        static htc_heartbeat_answer answer;
        answer = (htc_heartbeat_answer){ .seq = beat.seq };
        htc_heartbeat_answer_write(&w->body, &answer);
        hears(w, i);
    } else if (type == HTC_WIRE_PULL && htc_pull_read(&r, &pull) == HTC_OK) {
        static htc_grant g;
        g = (htc_grant){ .seq = pull.seq, .kind = HTC_GRANT_WAIT, .retry_ns = 3600 * HTC_SECOND };
        htc_grant_write(&w->body, &g);
        hears(w, i);
    } else if (type == HTC_WIRE_GIVE_BACK && htc_give_back_read(&r, &back) == HTC_OK) {
        w->sides[i].given_back = 1;
    }
}

static process *process_of(world *w, uint64_t run)
{
    for (int k = 0; k < ASKS; k++)
        if (w->processes[k].run == run && run)
            return &w->processes[k];
    return NULL;
}

static void gang_run(world *w, htc_reader *r, uint64_t number)
{
    htc_task *task = NULL;
    cr_assert(eq(u64, htc_get_u64(r), w->sides[1].run));
    cr_assert(eq(u64, htc_get_u64(r), number));
    cr_assert(eq(int, htc_task_from_bytes(NULL, htc_get_bytes(r), &task), HTC_OK));
    cr_assert(eq(str, (char *)(uintptr_t)task->executable, "end"));
    cr_assert(task->n_args == 1 && task->n_in == 0 && !task->output && task->limits.wall == 0 && task->member == 1);
    int k = task->args[0][0] - '0';
    cr_assert(k >= 0 && k < ASKS);
    w->processes[k].begun++;
    cr_assert(w->processes[k].begun == 1, "start %d is begun twice", k);
    w->processes[k] = (process){ .run = number, .code = k, .begun = 1, .runs = 1, .ends = w->now + htc_rng_below(&w->rng, 20 * HTC_SECOND) };
    htc_task_destroy(task);
}

static void call(world *w, int i, const htc_effect *e)
{
    htc_reader r = htc_reader_of(e->body);
    process   *p = process_of(w, e->tag);
    switch (e->op) {
    case HTC_CALL_STAGE_IN:
        w->sides[i].run = e->tag;
        answered(w, i, e->op, e->tag, (htc_bytes){ 0 });
        break;
    case HTC_CALL_RUN: cr_assert(i == 0, "a member runs nothing of its own"); break;
    case HTC_CALL_GANG_RUN: gang_run(w, &r, e->tag); break;
    case HTC_CALL_GANG_ANSWER: {
        htc_gang_end end;
        cr_assert(i == 0 && htc_get_u64(&r) == w->sides[0].run);
        uint64_t k = htc_get_u64(&r) - 1;
        cr_assert(k < ASKS && htc_gang_end_read(htc_get_raw(&r, htc_reader_left(&r)), &end) == HTC_OK);
        w->answers[k]++;
        w->code[k] = end.exit_code;
        w->status[k] = end.status;
        break;
    }
    case HTC_CALL_SIGNAL:
        cr_assert(p, "a signal to nothing");
        p->code = 99;
        p->ends = w->now + htc_rng_below(&w->rng, HTC_SECOND);
        break;
    case HTC_CALL_CLEAN:
        if (p) {
            cr_assert(!p->runs);
            p->cleaned++;
        } else {
            cr_assert(eq(u64, e->tag, w->sides[i].run));
            for (int k = 0; i == 1 && k < ASKS; k++)
                cr_assert(!w->processes[k].runs, "its directory goes while something runs in it");
            w->sides[i].cleaned++;
        }
        break;
    default: break;
    }
}

static void step(world *w, int i, htc_input in)
{
    htc_output *out;
    htc_effect  e;
    cr_assert(eq(int, htc_output_create(NULL, 0, &out), HTC_OK));
    in.now = w->now;
    cr_assert(eq(int, htc_agent_ops()->step(w->sides[i].agent, &in, out), HTC_OK));
    for (size_t k = 0; htc_output_get(out, k, &e) == HTC_OK; k++) {
        if (e.kind == HTC_OUT_MESSAGE && w->sides[i].connected)
            message(w, i, e.body);
        else if (e.kind == HTC_OUT_CALL)
            call(w, i, &e);
    }
    htc_output_destroy(out);
}

static void grant(world *w, int i)
{
    static htc_grant g;
    htc_stage  in = { .name = "in", .uri = "file:///in", .flags = HTC_STAGE_OVERWRITE };
    htc_task   task = { .executable = "/bin/lead", .values_json = "{}", .in = &in, .n_in = 1, .output = "out", .limits = { .cores = 2, .wall = 1000 * HTC_SECOND },
                        .nodes = "a b", .member = (uint32_t)i };
    htc_bytes  bytes = { 0 };
    cr_assert(eq(int, htc_task_to_bytes(NULL, &task, &bytes), HTC_OK));
    g = (htc_grant){ .seq = 1, .grant = 1, .kind = HTC_GRANT_TASKS, .count = 1 };
    g.tasks[0] = (htc_granted){ .attempt = AT, .count = 1, .user = "ada", .task = bytes };
    htc_grant_write(&w->body, &g);
    htc_work_free(NULL, bytes);
    hears(w, i);
}

static void begin(world *w, uint64_t seed, uint32_t lossy, uint16_t version)
{
    memset(w, 0, sizeof *w);
    w->rng = (htc_rng){ seed };
    w->now = 1000 * HTC_SECOND;
    w->lossy = lossy;
    w->version = version;
    htc_buf_init(&w->body, NULL, 0);
    for (int i = 0; i < 2; i++) {
        side             *s = &w->sides[i];
        htc_agent_options o = { .size = sizeof o, .agent = (uint64_t)(11 + i), .peer = GATEWAY, .slots = 2, .node = i ? "b" : "a" };
        s->rng = (htc_rng){ seed + (uint64_t)i };
        s->env = (htc_env){ .size = sizeof s->env, .rng = &s->rng };
        cr_assert(eq(int, htc_agent_create(&s->env, &o, &s->agent), HTC_OK));
        step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
        open_side(w, i);
    }
}

static void end(world *w)
{
    for (int i = 0; i < 2; i++)
        htc_agent_ops()->destroy(w->sides[i].agent);
    htc_buf_free(&w->body);
}

static void event(world *w, uint32_t op, uint64_t request, const htc_gang_command *c)
{
    uint8_t copy[512];
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, w->sides[0].run);
    htc_put_u64(&b, request);
    if (c)
        htc_gang_command_write(&b, c);
    cr_assert(b.status == HTC_OK && b.len <= sizeof copy);
    memcpy(copy, b.data, b.len);
    step(w, 0, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = op, .body = { copy, b.len } });
    htc_buf_free(&b);
}

static void ask(world *w, int k, const char *node)
{
    char             words[8];
    htc_gang_command c = { .words = { words, 6 } };
    snprintf(c.node, sizeof c.node, "%s", node);
    memcpy(words, "end", 4);
    words[4] = (char)('0' + k);
    words[5] = 0;
    w->asked[k] = 1;
    event(w, HTC_EVENT_GANG_ASKED, (uint64_t)k + 1, &c);
}

static void process_ends(world *w, process *p)
{
    htc_gang_end e = { .status = p->code ? HTC_EEXIT : HTC_OK, .exit_code = p->code, .out = htc_bytes_of("said") };
    htc_buf      b;
    htc_buf_init(&b, NULL, 0);
    htc_gang_end_write(&b, &e);
    p->runs = 0;
    answered(w, 1, HTC_CALL_GANG_RUN, p->run, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* To the next thing that happens, at most until then. */
static void pass(world *w, htc_ns until)
{
    htc_ns at = until;
    for (int i = 0; i < 2; i++)
        at = htc_agent_ops()->deadline(w->sides[i].agent) < at ? htc_agent_ops()->deadline(w->sides[i].agent) : at;
    for (int k = 0; k < LATER; k++)
        at = w->net[k].at && w->net[k].at < at ? w->net[k].at : at;
    for (int k = 0; k < ASKS; k++)
        at = w->processes[k].runs && w->processes[k].ends < at ? w->processes[k].ends : at;
    w->now = at > w->now ? at : w->now;
    for (int k = 0; k < LATER; k++)
        if (w->net[k].at && w->net[k].at <= w->now) {
            later l = w->net[k];
            w->net[k].at = 0;
            if (w->sides[l.to].connected)
                step(w, l.to, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = GATEWAY, .body = { l.bytes, l.len } });
        }
    for (int k = 0; k < ASKS; k++)
        if (w->processes[k].runs && w->processes[k].ends <= w->now)
            process_ends(w, &w->processes[k]);
    for (int i = 0; i < 2; i++)
        if (htc_agent_ops()->deadline(w->sides[i].agent) <= w->now)
            step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

static void pass_until(world *w, htc_ns until)
{
    for (int n = 0; w->now < until; n++) {
        cr_assert(n < 100000, "time does not pass");
        pass(w, until);
    }
}

static void lead(world *w)
{
    grant(w, 0);
    cr_assert(w->sides[0].run);
    uint8_t run[8] = { 0 };
    htc__le64_put(run, w->sides[0].run);
    step(w, 0, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_EVENT, .op = HTC_EVENT_STARTED, .body = { run, sizeof run } });
}

static void break_some(world *w)
{
    int i = (int)htc_rng_below(&w->rng, 2);
    if (htc_rng_below(&w->rng, 4))
        return;
    step(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = GATEWAY });
    w->sides[i].connected = 0;
    pass_until(w, w->now + htc_rng_below(&w->rng, 5 * HTC_SECOND));
    open_side(w, i);
}

Test(agent_gang, each_start_begins_once_and_its_end_is_told_once)
{
    uint32_t stopped = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world w;
        begin(&w, seed, 4, HTC_WIRE_VERSION);
        lead(&w);
        int late = (int)htc_rng_below(&w.rng, 2);
        if (!late)
            grant(&w, 1);
        for (int k = 0; k < ASKS; k++) {
            ask(&w, k, k % 2 ? "b" : "#1");
            pass_until(&w, w.now + htc_rng_below(&w.rng, 4 * HTC_SECOND));
            break_some(&w);
            if (late && k == 2)
                grant(&w, 1);
            if (htc_rng_below(&w.rng, 4) == 0 && !w.answers[k]) {
                event(&w, HTC_EVENT_GANG_LEFT, (uint64_t)k + 1, NULL);
                w.left[k] = 1;
            }
        }
        pass_until(&w, w.now + 200 * HTC_SECOND);
        for (int k = 0; k < ASKS; k++) {
            cr_assert(eq(int, w.answers[k], !w.left[k]), "seed %llu: start %d", (unsigned long long)seed, k);
            cr_assert(w.processes[k].begun == 1 || (w.left[k] && w.processes[k].begun == 0), "seed %llu: start %d", (unsigned long long)seed, k);
            cr_assert(!w.processes[k].runs && w.processes[k].cleaned == w.processes[k].begun);
            cr_assert(w.left[k] || eq(int, w.code[k], k), "seed %llu: start %d ends with %d", (unsigned long long)seed, k, w.code[k]);
            stopped += w.left[k] && w.processes[k].code == 99;
        }
        end(&w);
    }
    cr_expect(stopped > 50, "%u were stopped while they ran", stopped);
}

/* What runs is killed, and only then the member says that it has nothing any more. */
Test(agent_gang, a_revoked_member_ends_what_runs)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world w;
        begin(&w, seed, 0, HTC_WIRE_VERSION);
        lead(&w);
        grant(&w, 1);
        for (int k = 0; k < 4; k++)
            ask(&w, k, "b");
        pass_until(&w, w.now + HTC_MS);
        uint32_t runs = 0;
        for (int k = 0; k < 4; k++) {
            runs += w.processes[k].runs;
            w.processes[k].ends = HTC_NEVER;
        }
        cr_assert(eq(u32, runs, 4));
        htc_revoke_write(&w.body, &AT);
        hears(&w, 1);
        cr_assert(!w.sides[1].cleaned);
        pass_until(&w, w.now + 2 * HTC_SECOND);
        for (int k = 0; k < 4; k++)
            cr_assert(!w.processes[k].runs && w.processes[k].code == 99 && w.processes[k].cleaned == 1);
        cr_assert(eq(int, w.sides[1].cleaned, 1));
        end(&w);
    }
}

Test(agent_gang, what_cannot_be_started_is_answered_at_once)
{
    world w;
    begin(&w, 1, 0, HTC_WIRE_VERSION);
    lead(&w);
    grant(&w, 1);
    ask(&w, 0, "c");
    cr_expect(w.answers[0] == 1 && w.status[0] == HTC_ENOTFOUND);
    ask(&w, 1, "#2");
    cr_expect(w.answers[1] == 1 && w.status[1] == HTC_ENOTFOUND);
    ask(&w, 2, "a"); /* itself */
    cr_expect(w.answers[2] == 1 && w.status[2] == HTC_OK);
    end(&w);
    begin(&w, 1, 0, HTC_WIRE_VERSION_GANGS - 1); /* a gateway that knows no such word would end the connection */
    lead(&w);
    grant(&w, 1);
    ask(&w, 0, "b");
    cr_expect(w.answers[0] == 1 && w.status[0] == HTC_EUNSUPPORTED);
    pass_until(&w, w.now + HTC_SECOND);
    cr_expect(eq(int, w.processes[0].begun, 0));
    end(&w);
}

/* ---- words ---- */

Test(agent_gang, words_are_read_as_they_were_written)
{
    htc_buf       b;
    htc_gang_word m = { .agent = 7, .attempt = { 1, 2, 3 }, .member = 5, .start = 9, .kind = HTC_GANG_START, .body = { "a\0bc", 5 } }, back;
    uint16_t      type;
    uint64_t      id;
    htc_buf_init(&b, NULL, 0);
    for (uint8_t kind = 0; kind <= HTC_GANG_ENDED + 1; kind++) {
        m.kind = kind;
        htc_gang_word_write(&b, &m);
        htc_reader r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
        htc_status status = htc_gang_word_read(&r, &back);
        cr_assert((status == HTC_OK) == (kind >= HTC_GANG_START && kind <= HTC_GANG_ENDED), "kind %u", kind);
        if (status != HTC_OK)
            continue;
        cr_expect(back.agent == 7 && back.attempt.task == 2 && back.member == 5 && back.start == 9 && back.kind == kind);
        cr_expect(eq(sz, back.body.len, kind == HTC_GANG_START || kind == HTC_GANG_ENDED ? 5 : 0));
        for (size_t cut = 10; cut < b.len; cut++) {
            r = htc_wire_open((htc_bytes){ b.data, cut }, &type, &id);
            cr_assert(htc_gang_word_read(&r, &back) != HTC_OK, "%zu of %zu bytes", cut, b.len);
        }
    }
    static const struct {
        const char *bytes;
        size_t      len, n;
    } words[] = { { "a\0bc", 5, 2 }, { "a", 2, 1 }, { "a\0", 3, 2 }, { "", 1, 0 }, { "\0a", 3, 0 }, { "ab", 2, 0 }, { "", 0, 0 } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(eq(sz, htc_gang_words((htc_bytes){ words[i].bytes, words[i].len }), words[i].n), "%zu", i);
    htc_buf_free(&b);
}

Test(agent_gang, a_name_means_the_member_that_has_least_to_do)
{
    static const struct {
        const char *nodes, *name;
        uint32_t    busy[4], member;
    } cases[] = { { "a b c", "b", { 0 }, 1 }, { "a b b", "b", { 0, 1, 0 }, 2 }, { "a b b", "b", { 0, 2, 2 }, 1 }, { "a b", "ab", { 0 }, HTC_GANG_NONE },
                  { "aa a", "a", { 0 }, 1 }, { "a b", "#1", { 0, 9 }, 1 }, { "a b", "#2", { 0 }, HTC_GANG_NONE }, { "a b", "#", { 0 }, HTC_GANG_NONE },
                  { "a b", "#0x", { 0 }, HTC_GANG_NONE }, { "a b", "#99999999999", { 0 }, HTC_GANG_NONE }, { "a a", "a", { 0, 0 }, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(eq(u32, htc_gang_member(cases[i].nodes, cases[i].name, cases[i].busy, 4), cases[i].member), "case %zu", i);
}
