/* What is left of a flow, beside a slow model that asks for each task what its parents came to; and the new flow, run by a plain loop. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "property.h"
#include "roles/worker/resumption.h"

TestSuite(resumption);

enum { TASKS = 12 };

/* The last `inserted` tasks of those that were submitted stand between others. after[c][p]: 0, or 1 + the rule by which c waits for p. Parents stand in the order of their numbers. */
typedef struct model {
    uint32_t n, inserted, added; /* the added ones stand behind the inserted ones */
    uint32_t order[TASKS]; /* parents before their children */
    int      after[TASKS][TASKS];
    int      done[TASKS];
    int      reads[TASKS][TASKS]; /* c reads what p makes */
    int      again[TASKS]; /* done, and made again for who reads it */
    int      passes[TASKS]; /* inserted and done, and behind such a one */
    int      settled[TASKS]; /* done, and it stays so */
    int      never[TASKS]; /* it will not run: a parent that is settled forbids it */
    int      outer[TASKS]; /* 0, or a byte of one more parent: of a task that was settled before the old flow began */
} model;

static int is_inserted(const model *m, uint32_t task)
{
    return task < m->n - m->added && task >= m->n - m->added - m->inserted;
}


static int runs_again(const model *m, uint32_t t)
{
    return !m->settled[t] && !m->never[t];
}

/* Parents before their children. */
static void look_at(model *m, uint32_t c)
{
    int rule = m->outer[c] / 4, bit = m->outer[c] & 3, inserted = is_inserted(m, c), some_run = 0;
    int never = (rule == GRAPH_RULE_OK && bit == GRAPH_ENDED_BAD) || (rule == GRAPH_RULE_FAILED && bit == GRAPH_ENDED_OK);
    for (uint32_t p = 0; p < m->n; p++) {
        some_run |= m->after[c][p] && runs_again(m, p);
        never |= (m->after[c][p] == 1 + GRAPH_RULE_FAILED && m->settled[p]) || (m->after[c][p] == 1 + GRAPH_RULE_OK && m->never[p]);
        m->passes[c] |= inserted && m->done[c] && m->after[c][p] && (m->again[p] || m->passes[p]);
    }
    m->settled[c] = m->done[c] && !m->again[c] && !(inserted && some_run);
    m->never[c] = !m->done[c] && never;
}

static void work_out(model *m)
{
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t i = 0; i < m->n; i++)
            look_at(m, m->order[i]);
        for (uint32_t c = 0; c < m->n; c++)
            for (uint32_t p = 0; p < m->n; p++)
                if (m->reads[c][p] && m->done[p] && !m->again[p] && runs_again(m, c))
                    more = m->again[p] = 1;
    }
}

/* How a parent that will not tell, or will, stands in the new record. */
static int bit_of(const model *m, uint32_t t, uint32_t parent)
{
    if (m->again[t] && !m->again[parent] && !m->passes[parent]) /* what let it run once lets it run again */
        return m->after[t][parent] == 1 + GRAPH_RULE_FAILED ? GRAPH_ENDED_BAD : GRAPH_ENDED_OK;
    return m->settled[parent] ? GRAPH_ENDED_OK : m->never[parent] ? GRAPH_ENDED_BAD : GRAPH_NOT_TOLD;
}

/* Numbers are no order in which they run: a task may wait for one with a larger number. */
static model draw(htc_rng *rng)
{
    model    m = { .n = 1 + (uint32_t)htc_rng_below(rng, TASKS) };
    uint32_t *order = m.order;
    for (uint32_t i = 0; i < m.n; i++) {
        uint32_t at = (uint32_t)htc_rng_below(rng, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    m.inserted = htc_rng_below(rng, 2) ? 0 : (uint32_t)htc_rng_below(rng, m.n);
    m.added = htc_rng_below(rng, 2) ? 0 : (uint32_t)htc_rng_below(rng, m.n - m.inserted);
    for (uint32_t i = 0; i < m.n; i++) {
        m.done[i] = htc_rng_below(rng, 2) == 0;
        if (htc_rng_below(rng, 4) == 0)
            m.outer[i] = GRAPH_EDGE((int)htc_rng_below(rng, 3)) | (1 + (int)htc_rng_below(rng, 2));
        if (m.done[i] && m.outer[i]) /* it ran, so that let it */
            m.outer[i] = m.outer[i] / 4 * 4 + (m.outer[i] / 4 == GRAPH_RULE_FAILED ? GRAPH_ENDED_BAD : GRAPH_ENDED_OK);
        for (uint32_t k = 0; k < i; k++)
            if (htc_rng_below(rng, 3) == 0 && (m.reads[order[i]][order[k]] = htc_rng_below(rng, 3) == 0, 1))
                m.after[order[i]][order[k]] = htc_rng_below(rng, 2) ? 1 : 1 + (int)htc_rng_below(rng, 3);
    }
    for (uint32_t at = 0; at < m.n; at++) /* inserted ones have no files, and are done if their parents let them */
        for (uint32_t k = 0, i = order[at]; k < m.n && is_inserted(&m, i); k++) {
            m.reads[i][k] = m.reads[k][i] = 0;
            m.done[i] &= m.after[i][k] == 1 + GRAPH_RULE_OK ? m.done[k] : m.after[i][k] == 1 + GRAPH_RULE_FAILED ? !m.done[k] : 1;
        }
    work_out(&m);
    return m;
}

static uint32_t new_number(const model *m, uint32_t t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t; i++)
        n += (uint32_t)runs_again(m, i);
    return n;
}

static uint32_t which_parent(const model *m, uint32_t c, uint32_t p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p; i++)
        n += m->after[c][i] != 0;
    return n;
}

/* The record of a task as the old flow left it; the bytes lie in b. */
static graph_task record_of(const model *m, uint32_t t, htc_buf *b)
{
    static const graph_state others[] = { GRAPH_FAILED, GRAPH_CANCELLED, GRAPH_OPEN };
    uint8_t    parents[TASKS + 1];
    char       name[16];
    graph_task g = { .state = m->done[t] ? GRAPH_DONE : (uint8_t)others[t % 3], .home = 9, .failures = 2, .task = htc_bytes_of("what it runs"),
                     .outcome = { .worker = 5, .began = 1, .ended = 2, .reason = "a reason" } };
    htc_buf    children, reads;
    snprintf(name, sizeof name, "t%u", t);
    g.name = htc_bytes_of(name);
    g.makes = (htc_bytes){ "\3out", 4 };
    g.adds = t % 2 == 0;
    htc_buf_init(&children, NULL, 0);
    htc_buf_init(&reads, NULL, 0);
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->reads[t][i]) {
            htc_put_u64(&reads, i);
            htc_put_str(&reads, "out");
        }
        if (m->after[t][i])
            parents[g.parents.len++] = (uint8_t)(GRAPH_EDGE(m->after[t][i] - 1) | (i % 3));
        if (m->after[i][t]) {
            htc_put_u64(&children, i);
            htc_put_u32(&children, which_parent(m, i, t));
        }
    }
    if (m->outer[t])
        parents[g.parents.len++] = (uint8_t)m->outer[t];
    g.parents.data = parents;
    g.children = htc_buf_bytes(&children);
    g.reads = htc_buf_bytes(&reads);
    htc__graph_write(b, &g);
    htc_buf_free(&reads);
    htc_buf_free(&children);
    cr_assert(eq(int, htc__graph_read(htc_buf_bytes(b), &g), HTC_OK));
    return g;
}

static htc_status add_all(resumption *r, const model *m)
{
    htc_status status = HTC_OK;
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    for (uint32_t i = 0; i < m->n && status == HTC_OK; i++) {
        graph_task g = record_of(m, i, &b);
        status = htc__resumption_add(r, i, &g);
    }
    htc_buf_free(&b);
    return status;
}

typedef struct records {
    htc_buf    bytes[TASKS];
    graph_task t[TASKS];
    uint8_t    room[TASKS][GRAPH_PARENTS_MAX];
} records;

/* Every record of the new flow is what the model says. */
static void expect_records(const resumption *r, const model *m, records *made)
{
    htc_buf old;
    htc_buf_init(&old, NULL, 0);
    for (uint32_t t = 0; t < m->n; t++) {
        graph_task g = record_of(m, t, &old), *got;
        uint32_t   number = new_number(m, t), child = 0;
        char       name[16];
        if (!runs_again(m, t)) {
            htc_buf none;
            htc_buf_init(&none, NULL, 0);
            HOLDS(htc__resumption_task(r, t, &g, &none) == HTC_ENOTFOUND);
            continue;
        }
        HOLDS(htc__resumption_task(r, t, &g, &made->bytes[number]) == HTC_OK);
        got = &made->t[number];
        HOLDS(htc__graph_read(htc_buf_bytes(&made->bytes[number]), got) == HTC_OK);
        snprintf(name, sizeof name, "t%u", t);
        HOLDS(htc_bytes_equal(got->name, htc_bytes_of(name)) && htc_bytes_equal(got->task, htc_bytes_of("what it runs")));
        HOLDS(got->state == GRAPH_OPEN && got->failures == 0 && got->outcome.ended == 0 && got->home == number / r->home);
        HOLDS(htc_bytes_equal(got->makes, (htc_bytes){ "\3out", 4 }) && got->made.len == 0);
        HOLDS(got->adds == (t % 2 == 0 && !m->done[t]) && got->n_added == 0); /* what it has added is there */
        htc_reader reads = htc_reader_of(got->reads);
        uint64_t   maker;
        htc_bytes  file;
        for (uint32_t i = 0; i < m->n; i++)
            if (m->reads[t][i])
                HOLDS(htc__graph_next_read(&reads, &maker, &file) && maker == (runs_again(m, i) ? new_number(m, i) : GRAPH_NOBODY));
        HOLDS(!htc__graph_next_read(&reads, &maker, &file));
        const uint8_t *p = got->parents.data;
        for (uint32_t i = 0; i < m->n; i++) {
            if (m->after[t][i])
                HOLDS(*p++ == (GRAPH_EDGE(m->after[t][i] - 1) | bit_of(m, t, i)));
            if (m->after[i][t] && runs_again(m, i)) {
                uint64_t task;
                uint32_t parent;
                htc__graph_child(got, child++, &task, &parent);
                HOLDS(task == new_number(m, i) && parent == which_parent(m, i, t));
            }
        }
        if (m->outer[t])
            HOLDS(*p++ == m->outer[t]);
        HOLDS(p == (const uint8_t *)got->parents.data + got->parents.len && child == htc__graph_n_children(got));
    }
    htc_buf_free(&old);
}

/* With every task going well all come to an end, and none runs twice. */
static void run_plainly(records *made, uint32_t n)
{
    for (uint32_t ran = 1; ran;) {
        ran = 0;
        for (uint32_t t = 0; t < n; t++) {
            graph_task   *g = &made->t[t];
            graph_outcome o = { .worker = 1, .ended = 9 };
            uint8_t       before = g->state;
            if (!htc__graph_is_ready(g))
                continue;
            HOLDS(before == GRAPH_OPEN && htc__graph_end(g, 1, 0, 1, &o) == HTC_OK);
            ran = 1;
            for (uint32_t told = 1; told;) { /* and those that are cancelled by it tell theirs */
                told = 0;
                for (uint32_t p = 0; p < n; p++)
                    for (uint32_t i = 0; htc__graph_is_terminal(&made->t[p]) && i < htc__graph_n_children(&made->t[p]); i++) {
                        uint64_t child;
                        uint32_t parent;
                        htc__graph_child(&made->t[p], i, &child, &parent);
                        told |= htc__graph_tell(&made->t[child], made->room[child], parent, htc__graph_told_as(&made->t[p])) == HTC_OK;
                    }
            }
        }
    }
    for (uint32_t t = 0; t < n; t++)
        HOLDS(htc__graph_is_terminal(&made->t[t]));
}

Test(resumption, what_is_left_is_what_each_tasks_parents_came_to)
{
    uint64_t nothing = 0, some = 0, forbidden = 0, made_again = 0, passed = 0;
    PROPERTY(rng, 3000)
    {
        model      m = draw(&rng);
        records    made = { 0 };
        resumption r;
        uint32_t   again = 0, own = 0, added = 0, workers = (uint32_t)htc_rng_below(&rng, 4);
        for (uint32_t i = 0; i < TASKS; i++)
            htc_buf_init(&made.bytes[i], NULL, 0);
        for (uint32_t i = 0; i < m.n; i++) {
            again += (uint32_t)runs_again(&m, i);
            own += (uint32_t)(runs_again(&m, i) && !is_inserted(&m, i));
            added += (uint32_t)(runs_again(&m, i) && i >= m.n - m.added);
            forbidden += (uint64_t)m.never[i];
            passed += m.done[i] && !m.again[i] && runs_again(&m, i);
            made_again += (uint64_t)m.again[i];
        }
        htc__resumption_init(&r, NULL);
        HOLDS(add_all(&r, &m) == HTC_OK);
        HOLDS(htc__resumption_settle(&r, &(flow){ .tasks = m.n, .inserted = m.inserted, .added = m.added }, workers) == (own ? HTC_OK : HTC_EEXISTS));
        HOLDS(r.again == again && r.inserted == again - own && r.added == added);
        nothing += own == 0;
        some += own > 0;
        if (own) {
            uint64_t covered = 0;
            htc_buf  b;
            htc_buf_init(&b, NULL, 0);
            for (uint64_t i = 0; i < r.n_ledgers; i++) {
                ledger l;
                htc__resumption_ledger(&r, i, &b);
                HOLDS(htc__ledger_read(htc_buf_bytes(&b), &l) == HTC_OK && l.live.n == 1 && l.live.at[0].from == covered);
                covered = l.live.at[0].to;
            }
            HOLDS(covered == again);
            htc_buf_free(&b);
            expect_records(&r, &m, &made);
            run_plainly(&made, again);
        }
        for (uint32_t i = 0; i < TASKS; i++)
            htc_buf_free(&made.bytes[i]);
        htc__resumption_free(&r);
    }
    cr_expect(nothing > 10 && some > 100 && forbidden > 100 && made_again > 100 && passed > 10,
              "%lu with nothing left, %lu with something; %lu tasks were forbidden, %lu made again, %lu inserted ones pass on again", nothing, some, forbidden, made_again, passed);
}

/* A header of the old flow says how often tasks are tried, and for whom; the caller may say otherwise. */
Test(resumption, the_header_is_that_of_the_old_flow)
{
    resumption r;
    htc_buf    b;
    flow       old = { .state = FLOW_ENDED, .kind = FLOW_GRAPH, .tasks = 9, .job = 4, .tries = 3, .max_fails = 7, .user = "kim", .counts = { 1, 2, 3 }, .adds = 1, .added = 5,
                       .inputs = htc_bytes_of("/here") }, got;
    htc__resumption_init(&r, NULL);
    htc_buf_init(&b, NULL, 0);
    r.again = 2;
    r.inserted = r.added = 1;
    htc__flow_mark(&old, (ledger_span){ 0, 9 });
    htc__resumption_header(&r, &old, 8, 0, 0, &b);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(&b), &got), HTC_OK));
    cr_expect(got.state == FLOW_BUILDING && got.kind == FLOW_GRAPH && got.tasks == 2 && got.job == 0 && got.tries == 3 && got.max_fails == 7 && got.inserted == 1 && got.adds && got.added == 1);
    cr_expect(htc_bytes_equal(got.inputs, old.inputs) && got.n_drawn == 0 && got.from == 8);
    cr_expect(got.n_marks == 0 && got.counts.done + got.counts.failed + got.counts.cancelled == 0);
    cr_expect(eq(str, got.user, "kim"));
    htc__resumption_header(&r, &old, 8, 5, UINT64_MAX, &b);
    cr_assert(eq(int, htc__flow_read(htc_buf_bytes(&b), &got), HTC_OK));
    cr_expect(got.tries == 5 && got.max_fails == UINT64_MAX);
    htc_buf_free(&b);
}

/* Records that are no graph: a gap, a child that is none, a parent that is none or two tasks, a circle. */
Test(resumption, what_is_no_graph_is_refused)
{
    static const struct {
        uint64_t child[2];
        uint32_t parent[2];
        size_t   parents[2];
        uint64_t tasks;
    } bad[] = {
        { { 1, UINT64_MAX }, { 0, 0 }, { 0, 1 }, 3 }, /* one is not there */
        { { 7, UINT64_MAX }, { 0, 0 }, { 0, 1 }, 2 },
        { { 1, UINT64_MAX }, { 1, 0 }, { 0, 1 }, 2 },
        { { 1, 1 }, { 0, 0 }, { 0, 1 }, 2 }, /* both are its one parent */
        { { 1, 0 }, { 0, 0 }, { 1, 1 }, 2 },
        { { UINT64_MAX, UINT64_MAX }, { 0, 0 }, { 0, 1 }, 2 }, /* nobody is its parent */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        resumption r;
        uint8_t    rules[2] = { 0 };
        htc__resumption_init(&r, NULL);
        for (uint32_t t = 0; t < 2; t++) {
            uint8_t    child[GRAPH_CHILD_BYTES] = { 0 };
            graph_task g = { .state = GRAPH_FAILED, .parents = { rules, bad[i].parents[t] } };
            child[0] = (uint8_t)bad[i].child[t];
            child[8] = (uint8_t)bad[i].parent[t];
            if (bad[i].child[t] != UINT64_MAX)
                g.children = (htc_bytes){ child, sizeof child };
            cr_assert(eq(int, htc__resumption_add(&r, t, &g), HTC_OK));
        }
        cr_expect(eq(int, htc__resumption_settle(&r, &(flow){ .tasks = bad[i].tasks }, 1), HTC_ECORRUPT), "case %zu", i);
        htc__resumption_free(&r);
    }
    resumption r;
    htc__resumption_init(&r, NULL);
    cr_expect(eq(int, htc__resumption_add(&r, 1, &(graph_task){ .state = GRAPH_DONE }), HTC_ECORRUPT));
    cr_expect(eq(int, htc__resumption_settle(&r, &(flow){ .tasks = 0 }, 1), HTC_ECORRUPT));
    htc__resumption_free(&r);
}

/* Whichever allocation is refused, nothing leaks; and what was refused while records were added can be tried again. */
Test(resumption, runs_out_of_memory_anywhere)
{
    htc_rng  rng = { 3 };
    model    m = draw(&rng);
    uint64_t refusals = 0;
    for (uint32_t i = 0; i < m.n; i++)
        m.done[i] = 0;
    ALLOC_FAIL_EVERY(f, 100)
    {
        htc_env    env = alloc_fail_env(&f);
        resumption r;
        htc_buf    old, b;
        htc__resumption_init(&r, &env);
        htc_buf_init(&old, NULL, 0);
        htc_buf_init(&b, NULL, 0);
        htc_status status = add_all(&r, &m);
        if (status == HTC_OK)
            status = htc__resumption_settle(&r, &(flow){ .tasks = m.n }, 2);
        for (uint32_t i = 0; i < m.n && status == HTC_OK; i++) {
            graph_task g = record_of(&m, i, &old);
            status = htc__resumption_task(&r, i, &g, &b);
            status = status == HTC_ENOTFOUND ? HTC_OK : status;
        }
        refusals += f.refused > 0;
        cr_assert(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        htc__resumption_free(&r);
        htc_buf_free(&old);
        htc_buf_free(&b);
        cr_assert(eq(sz, f.live, 0));
    }
    cr_expect(refusals >= 4, "%lu refusals", refusals);
}
