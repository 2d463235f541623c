/* Tasks of a graph beside a slow model: what a record says after steps in any order is what the words of its parents come to. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/env.h"
#include "property.h"
#include "roles/worker/graph_task.h"

TestSuite(graph_task);

enum { PARENTS = 6 };

typedef struct model {
    int      state;
    int      rules[PARENTS], bits[PARENTS]; /* as graph_rule, graph_bit */
    uint32_t n, failures;
} model;

static int lets_run(const model *m, uint32_t i)
{
    if (m->rules[i] == GRAPH_RULE_ANY)
        return m->bits[i] != GRAPH_NOT_TOLD;
    return m->bits[i] == (m->rules[i] == GRAPH_RULE_OK ? GRAPH_ENDED_OK : GRAPH_ENDED_BAD);
}

static int all_let_run(const model *m)
{
    int all = 1;
    for (uint32_t i = 0; i < m->n; i++)
        all &= lets_run(m, i);
    return all;
}

static void expect_same(const model *m, const graph_task *t)
{
    const uint8_t *p = t->parents.data;
    cr_assert(eq(int, t->state, m->state));
    cr_assert(eq(u32, t->failures, m->failures));
    for (uint32_t i = 0; i < m->n; i++)
        cr_assert(p[i] == m->rules[i] * 4 + m->bits[i], "parent %u", i);
    cr_assert(eq(int, htc__graph_is_ready(t), m->state == GRAPH_OPEN && all_let_run(m)));
}

/* Written, read, and written again: the same. t lies in b afterwards. */
static void through_bytes(htc_buf *b, graph_task *t)
{
    htc_buf second;
    htc_buf_init(&second, NULL, 0);
    htc__graph_write(&second, t);
    cr_assert(eq(int, second.status, HTC_OK));
    htc_buf_clear(b);
    htc_put_raw(b, htc_buf_bytes(&second));
    cr_assert(eq(int, htc__graph_read(htc_buf_bytes(b), t), HTC_OK));
    htc__graph_write(&second, t);
    cr_assert(htc_bytes_equal(htc_buf_bytes(b), htc_buf_bytes(&second)));
    htc_buf_free(&second);
}

Test(graph_task, every_step_is_what_its_words_come_to)
{
    uint64_t ends[GRAPH_CANCELLED + 1] = { 0 };
    PROPERTY(rng, 4000)
    {
        model      m = { .state = GRAPH_OPEN, .n = (uint32_t)htc_rng_below(&rng, PARENTS + 1) };
        uint8_t    first[PARENTS] = { 0 }, room[GRAPH_PARENTS_MAX];
        uint32_t   tries = 1 + (uint32_t)htc_rng_below(&rng, 3);
        htc_buf    b;
        for (uint32_t i = 0; i < m.n; i++) {
            m.rules[i] = htc_rng_below(&rng, 3) ? GRAPH_RULE_OK : (int)htc_rng_below(&rng, 3);
            first[i] = GRAPH_EDGE(m.rules[i]);
        }
        graph_task t = { .state = GRAPH_OPEN, .home = htc_rng_below(&rng, 9), .parents = { first, m.n }, .name = htc_bytes_of("name") };
        htc_buf_init(&b, NULL, 0);
        through_bytes(&b, &t);
        for (int step = 0; step < 12; step++) {
            uint32_t      i = (uint32_t)htc_rng_below(&rng, PARENTS + 1);
            int           bit = htc_rng_below(&rng, 6) ? GRAPH_ENDED_OK : GRAPH_ENDED_BAD, good = htc_rng_below(&rng, 2) == 0, open = m.state == GRAPH_OPEN;
            uint32_t      failures = m.failures + (htc_rng_below(&rng, 5) == 0);
            graph_outcome o = { .worker = 3, .epoch = 4, .attempt = 5, .began = 6, .ended = 7, .reason = "why" };
            htc_status    got, want;
            switch (htc_rng_below(&rng, 8)) {
            case 0:
                want = !open ? HTC_EEXISTS : !all_let_run(&m) || failures != m.failures ? HTC_EINVAL : HTC_OK;
                got = htc__graph_end(&t, good, failures, tries, &o);
                cr_assert(eq(int, got, want));
                if (want == HTC_OK && good)
                    m.state = GRAPH_DONE;
                else if (want == HTC_OK && ++m.failures >= tries)
                    m.state = GRAPH_FAILED;
                break;
            case 1:
                if (htc_rng_below(&rng, 4))
                    break;
                cr_assert(eq(int, htc__graph_cancel(&t, "wanted no more"), open ? HTC_OK : HTC_EEXISTS));
                m.state = open ? GRAPH_CANCELLED : m.state;
                break;
            default:
                want = i >= m.n ? HTC_EINVAL : !open || m.bits[i] != GRAPH_NOT_TOLD ? HTC_EEXISTS : HTC_OK;
                cr_assert(eq(int, htc__graph_tell(&t, room, i, (graph_bit)bit), want));
                if (want == HTC_OK) {
                    m.bits[i] = bit;
                    m.state = lets_run(&m, i) ? m.state : GRAPH_CANCELLED;
                }
                break;
            }
            through_bytes(&b, &t);
            expect_same(&m, &t);
        }
        ends[m.state]++;
        htc_buf_free(&b);
    }
    for (int s = GRAPH_OPEN; s <= GRAPH_CANCELLED; s++)
        cr_expect(ends[s] > 20, "%lu of state %d", ends[s], s);
}

/* ---- objects ---- */

static graph_object object_of(uint64_t n)
{
    graph_object o = { .size = n * 1000, .worker = n };
    memset(o.hash, (int)n, sizeof o.hash);
    return o;
}

/* Told of two of the three that it reads, in any order and again, it knows those; what is beyond GRAPH_KNOWN_MAX counts alone. */
Test(graph_task, what_it_reads_is_known_as_it_was_told)
{
    uint8_t    room[GRAPH_KNOWN_MAX * GRAPH_KNOWN_BYTES];
    htc_buf    reads, makes, made, b;
    graph_task parent = { .state = GRAPH_DONE, .made_by = 9 }, t = { .state = GRAPH_OPEN };
    htc_buf_init(&reads, NULL, 0);
    htc_buf_init(&makes, NULL, 0);
    htc_buf_init(&made, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    for (uint32_t i = 0; i < 100; i++) {
        char         name[16];
        graph_object o = object_of(i);
        snprintf(name, sizeof name, "f%u", i);
        htc_put_u64(&reads, i % 2 ? 5 : 4);
        htc_put_str(&reads, name);
        htc_put_str(&makes, name);
        htc__graph_put_made(&made, &o);
    }
    t.reads = htc_buf_bytes(&reads);
    parent.makes = htc_buf_bytes(&makes);
    parent.made = htc_buf_bytes(&made);
    through_bytes(&b, &t);
    htc__graph_inform(&t, room, 5, &parent);
    cr_expect(t.data == 2500000 && t.known.len == 50 * (size_t)GRAPH_KNOWN_BYTES);
    through_bytes(&b, &t);
    htc__graph_inform(&t, room, 5, &parent); /* again */
    cr_expect(t.data == 2500000 && t.known.len == 50 * (size_t)GRAPH_KNOWN_BYTES);
    htc__graph_inform(&t, room, 4, &parent);
    cr_expect(t.data == 4950000 && t.known.len == GRAPH_KNOWN_MAX * (size_t)GRAPH_KNOWN_BYTES);
    through_bytes(&b, &t);
    for (uint32_t i = 0; i < 100; i++) {
        graph_object o, want = object_of(i);
        int          known = i % 2 || i < 2 * (GRAPH_KNOWN_MAX - 50);
        cr_assert(htc__graph_known(&t, i, &o) == (known ? HTC_OK : HTC_ENOTFOUND), "%u", i);
        cr_assert(!known || (o.size == want.size && o.worker == 9 && memcmp(o.hash, want.hash, sizeof o.hash) == 0));
    }
    htc_buf_free(&reads);
    htc_buf_free(&makes);
    htc_buf_free(&made);
    htc_buf_free(&b);
}

Test(graph_task, one_makes_it_again)
{
    uint8_t    made[GRAPH_MADE_BYTES] = { 1 }, anew[GRAPH_MADE_BYTES] = { 2 };
    graph_task t = { .state = GRAPH_OPEN, .makes = { "\1a", 2 } };
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    cr_expect(htc__graph_claim(&t, 3, 7, 1) == HTC_EINVAL);
    t.state = GRAPH_DONE;
    t.made = (htc_bytes){ made, sizeof made };
    t.made_by = 8;
    through_bytes(&b, &t);
    cr_expect(htc__graph_redo(&t, 3, 7, (htc_bytes){ anew, sizeof anew }) == HTC_EINVAL && htc__graph_unclaim(&t, 0, 0) == HTC_EINVAL);
    cr_expect(htc__graph_claim(&t, 3, 7, 0) == HTC_OK && htc__graph_is_claimed_by(&t, 3, 7) && !htc__graph_is_claimed_by(&t, 3, 8));
    through_bytes(&b, &t);
    cr_expect(htc__graph_claim(&t, 4, 1, 0) == HTC_EEXISTS && htc__graph_claim(&t, 4, 1, 1) == HTC_OK); /* the second: the first is dead */
    cr_expect(htc__graph_unclaim(&t, 3, 7) == HTC_EINVAL && htc__graph_redo(&t, 3, 7, (htc_bytes){ anew, sizeof anew }) == HTC_EINVAL);
    cr_expect(htc__graph_redo(&t, 4, 1, (htc_bytes){ anew, sizeof anew }) == HTC_OK && t.made_by == 4 && t.redo_worker == 0);
    through_bytes(&b, &t);
    cr_expect(((const uint8_t *)t.made.data)[0] == 2);
    cr_expect(htc__graph_claim(&t, 4, 1, 0) == HTC_OK && htc__graph_unclaim(&t, 4, 1) == HTC_OK && t.redo_worker == 0);
    htc_buf_free(&b);
}

/* A record that was cut, or says what none can say, is refused. */
Test(graph_task, what_nobody_wrote_is_refused)
{
    uint8_t    parents[2] = { GRAPH_EDGE(GRAPH_RULE_ANY), GRAPH_EDGE(GRAPH_RULE_OK) | GRAPH_ENDED_OK }, children[2 * GRAPH_CHILD_BYTES] = { 0 };
    graph_task t = { .state = GRAPH_FAILED, .failures = 2, .parents = { parents, 2 }, .children = { children, sizeof children }, .name = htc_bytes_of("x"),
                     .task = htc_bytes_of("bytes"), .outcome = { .worker = 1, .status = HTC_EEXIT, .exit_code = 3, .ended = 9, .reason = "exit code 3" } };
    graph_task again;
    uint64_t   id;
    uint32_t   which;
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    children[0] = 7;  /* u64 7 */
    children[8] = 1;  /* u32 1 */
    htc__graph_write(&b, &t);
    cr_assert(eq(int, htc__graph_read(htc_buf_bytes(&b), &again), HTC_OK));
    cr_expect(eq(u32, again.outcome.exit_code, 3) && eq(str, again.outcome.reason, "exit code 3"));
    cr_assert(eq(u32, htc__graph_n_children(&again), 2));
    htc__graph_child(&again, 0, &id, &which);
    cr_expect(eq(u64, id, 7) && eq(u32, which, 1));
    for (size_t cut = 0; cut < b.len; cut++)
        cr_assert(eq(int, htc__graph_read((htc_bytes){ b.data, cut }, &again), HTC_ECORRUPT));
    parents[0] = 3; /* a bit that there is not */
    htc__graph_write(&b, &t);
    cr_expect(eq(int, htc__graph_read(htc_buf_bytes(&b), &again), HTC_ECORRUPT));
    parents[0] = GRAPH_EDGE(3);
    htc__graph_write(&b, &t);
    cr_expect(eq(int, htc__graph_read(htc_buf_bytes(&b), &again), HTC_ECORRUPT));
    parents[0] = 0;
    t.state = 9;
    htc__graph_write(&b, &t);
    cr_expect(eq(int, htc__graph_read(htc_buf_bytes(&b), &again), HTC_ECORRUPT));
    t.state = GRAPH_OPEN;
    t.children.len--;
    htc__graph_write(&b, &t);
    cr_expect(eq(int, htc__graph_read(htc_buf_bytes(&b), &again), HTC_ECORRUPT));
    htc_buf_free(&b);
}
