/* Two things in one input, by its first byte.
 *
 * 0: the rest are the bytes of a record, from anybody. They are refused, or they are a record: its numbers add up, its
 * takings are where the sum says, every change of it is a record again, and a change of nothing gives the same bytes. Or they are a
 * set: written again it is the same bytes, whatever it was read over.
 *
 * Else: the container fuzzer. The rest are changes of a record of up to 256 nodes, and a plain array, which says for
 * each node what it is, goes along. */
#include "htcsched/record.h"
#include "check.h"
#include "core/codec.h"

#define NODES_MAX 256
#define IDLE      0
#define SETTLED   1
#define TAKEN     2 /* and on: 4 * job + attempt - 1 */
#define JOBS      3
#define ATTEMPTS  4

static const char *const jobs[JOBS] = { "a", "ab", "b" };

static htc_record_set *new_set(void)
{
    htc_record_set *set = NULL;
    CHECK(htc_record_set_create(NULL, &set) == HTC_OK);
    return set;
}

/* ---- Bytes from anybody ---- */

static void check_takings(htc_bytes record, const htc_record_summary *s)
{
    htc_record_set   *all = new_set(), *one = new_set(), *part = new_set();
    htc_record_taking t;
    uint32_t          nodes = 0;
    for (uint32_t i = 0; i < s->takings; i++) {
        htc_bytes next;
        CHECK(htc_record_taking_at(NULL, record, i, &t, one) == HTC_OK);
        CHECK(t.nodes > 0 && t.nodes == htc_record_set_count(one));
        nodes += t.nodes;
        CHECK(htc_record_set_join(all, one) == HTC_OK);
        CHECK(i > 8 || htc_record_settle(NULL, record, t.job, t.attempt, &next) == HTC_OK);
        if (i <= 8)
            htc_record_free(NULL, next);
    }
    CHECK(htc_record_taking_at(NULL, record, s->takings, &t, one) == HTC_ENOTFOUND);
    CHECK(nodes == s->taken && htc_record_set_count(all) == nodes);
    CHECK(htc_record_nodes(NULL, record, HTC_RECORD_TAKEN, part) == HTC_OK && htc_record_set_equal(part, all));
    CHECK(htc_record_nodes(NULL, record, HTC_RECORD_IDLE, part) == HTC_OK);
    htc_record_set_intersect(part, all);
    CHECK(htc_record_set_count(part) == 0);
    htc_record_set_destroy(all);
    htc_record_set_destroy(one);
    htc_record_set_destroy(part);
}

static void check_bytes(htc_bytes record)
{
    htc_record_summary s, t;
    htc_bytes          next;
    htc_status         status = htc_record_count(NULL, record, &s);
    if (status != HTC_OK) {
        CHECK(status == HTC_ECORRUPT || status == HTC_EVERSION);
        return;
    }
    htc_record_set *set = new_set();
    CHECK(htc_record_up(NULL, record, set, &next) == HTC_OK && htc_bytes_equal(record, next));
    htc_record_free(NULL, next);
    check_takings(record, &s);
    htc_record_ask ask = HTC_RECORD_ASK_INIT;
    ask.job = htc_bytes_of("fuzz");
    ask.attempt = UINT64_MAX;
    ask.most = UINT32_MAX;
    ask.least = 1;
    status = htc_record_take(NULL, record, &ask, &next, set);
    CHECK(status == (s.takings == HTC_RECORD_TAKINGS_MAX && s.free ? HTC_EFULL : s.free ? HTC_OK : HTC_AGAIN));
    if (status == HTC_OK) {
        CHECK(htc_record_count(NULL, next, &t) == HTC_OK);
        CHECK(t.free == 0 && t.taken == s.taken + s.free && htc_record_set_count(set) == s.free);
        htc_record_free(NULL, next);
    }
    htc_record_set_destroy(set);
}

static void check_set(htc_bytes bytes)
{
    htc_record_set *set = new_set(), *same = new_set();
    htc_bytes       again;
    uint32_t        count = 0, first, many;
    CHECK(htc_record_set_add(set, 3, 1000) == HTC_OK);
    htc_status status = htc_record_set_read(bytes, set);
    CHECK(status == HTC_OK || status == HTC_ECORRUPT);
    if (status == HTC_OK) {
        CHECK(htc_record_set_write(NULL, set, &again) == HTC_OK && htc_bytes_equal(bytes, again));
        htc_record_free(NULL, again);
        for (uint32_t at = 0; htc_record_set_run(set, at, &first, &many) == HTC_OK; at = first + many) {
            CHECK(many > 0 && first >= at && htc_record_set_has(set, first) && htc_record_set_has(set, first + many - 1));
            CHECK(htc_record_set_add(same, first, many) == HTC_OK);
            count += many;
        }
        CHECK(count == htc_record_set_count(set) && htc_record_set_equal(set, same));
    } else {
        CHECK(htc_record_set_count(set) == 1000); /* as it was */
    }
    htc_record_set_destroy(set);
    htc_record_set_destroy(same);
}

/* ---- Changes beside an array ---- */

typedef struct model {
    uint32_t nodes;
    uint32_t state[NODES_MAX];
    uint8_t  down[NODES_MAX];
} model;

static void check_model(const model *m, htc_bytes record)
{
    htc_record_set    *set = new_set();
    htc_record_summary s, want = { .nodes = m->nodes };
    CHECK(htc_record_count(NULL, record, &s) == HTC_OK);
    for (uint32_t part = HTC_RECORD_FREE; part <= HTC_RECORD_SETTLED; part++) {
        CHECK(htc_record_nodes(NULL, record, part, set) == HTC_OK);
        for (uint32_t i = 0; i < NODES_MAX; i++) {
            uint32_t x = m->state[i];
            int      idle = x == IDLE, is = part == HTC_RECORD_FREE      ? idle && !m->down[i]
                                            : part == HTC_RECORD_IDLE    ? idle
                                            : part == HTC_RECORD_DOWN    ? m->down[i]
                                            : part == HTC_RECORD_SETTLED ? x == SETTLED
                                                                         : x >= TAKEN;
            CHECK(htc_record_set_has(set, i) == (i < m->nodes && is));
        }
    }
    for (uint32_t i = 0; i < m->nodes; i++) {
        want.free += m->state[i] == IDLE && !m->down[i];
        want.down += m->down[i];
        want.settled += m->state[i] == SETTLED;
        want.taken += m->state[i] >= TAKEN;
    }
    for (uint32_t who = TAKEN; who < TAKEN + JOBS * ATTEMPTS; who++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < m->nodes; i++)
            n += m->state[i] == who;
        if (n == 0)
            continue;
        htc_record_taking t;
        CHECK(htc_record_taking_at(NULL, record, want.takings++, &t, NULL) == HTC_OK);
        CHECK(t.nodes == n && t.attempt == (who - TAKEN) % ATTEMPTS + 1);
        CHECK(htc_bytes_equal(t.job, htc_bytes_of(jobs[(who - TAKEN) / ATTEMPTS])));
    }
    CHECK(s.free == want.free && s.down == want.down && s.settled == want.settled && s.taken == want.taken);
    CHECK(s.takings == want.takings && s.nodes == want.nodes);
    htc_record_set_destroy(set);
}

static int later_attempt(const model *m, uint32_t who)
{
    for (uint32_t i = 0; i < m->nodes; i++)
        if (m->state[i] > who && (m->state[i] - TAKEN) / ATTEMPTS == (who - TAKEN) / ATTEMPTS)
            return 1;
    return 0;
}

static htc_status model_take(model *m, uint32_t who, const htc_record_ask *ask, const uint8_t *in)
{
    uint32_t n = 0, left = ask->most, least = ask->least ? ask->least : ask->most;
    for (uint32_t i = 0; i < m->nodes; i++)
        n += m->state[i] == IDLE && !m->down[i] && (!ask->among || in[i]);
    if (later_attempt(m, who))
        return HTC_MISMATCH;
    if (n < least)
        return HTC_AGAIN;
    for (uint32_t i = 0; i < m->nodes && left > 0; i++)
        if (m->state[i] == IDLE && !m->down[i] && (!ask->among || in[i])) {
            m->state[i] = who;
            left--;
        }
    return HTC_OK;
}

static htc_status model_move(model *m, uint32_t from, uint32_t to)
{
    htc_status status = HTC_ENOTFOUND;
    for (uint32_t i = 0; i < m->nodes; i++)
        if (m->state[i] == from) {
            m->state[i] = to;
            status = HTC_OK;
        }
    return status;
}

/* Settled nodes to another state, all or none. */
static htc_status model_from_settled(model *m, const uint8_t *in, uint32_t to)
{
    for (uint32_t i = 0; i < m->nodes; i++)
        if (in[i] && m->state[i] != SETTLED)
            return HTC_MISMATCH;
    for (uint32_t i = 0; i < m->nodes; i++)
        if (in[i])
            m->state[i] = to;
    return HTC_OK;
}

static htc_status model_unsettle(model *m, uint32_t who, const uint8_t *in)
{
    int there = 0, same = 1, any = 0;
    for (uint32_t i = 0; i < m->nodes; i++) {
        any |= in[i];
        there |= m->state[i] == who;
        same &= (m->state[i] == who) == in[i];
    }
    if (!any)
        return HTC_EINVAL;
    if (later_attempt(m, who) || (there && !same))
        return HTC_MISMATCH;
    return there ? HTC_OK : model_from_settled(m, in, who);
}

/* Up to three ranges. */
static void read_set(htc_reader *r, const model *m, htc_record_set *set, uint8_t *in)
{
    for (uint8_t n = htc_get_u8(r) % 4; n > 0; n--) {
        uint32_t first = htc_get_u8(r) % m->nodes, count = htc_get_u8(r) % (m->nodes - first + 1);
        CHECK(htc_record_set_add(set, first, count) == HTC_OK);
        for (uint32_t i = 0; i < count; i++)
            in[first + i] = 1;
    }
}

static void step(htc_reader *r, model *m, htc_bytes *record)
{
    uint8_t         op = htc_get_u8(r), in[NODES_MAX] = { 0 };
    uint32_t        j = (op >> 3) % JOBS, attempt = (op >> 5) % ATTEMPTS + 1, who = TAKEN + j * ATTEMPTS + attempt - 1;
    htc_bytes       job = htc_bytes_of(jobs[j]), next;
    htc_record_set *set = new_set();
    htc_status      status = HTC_OK, expected = HTC_OK;
    read_set(r, m, set, in);
    switch (op % 8) {
    case 0:
    case 1: {
        htc_record_ask ask = HTC_RECORD_ASK_INIT;
        ask.job = job;
        ask.attempt = attempt;
        ask.most = htc_get_u8(r) + 1u;
        ask.least = htc_get_u8(r) % (ask.most + 1);
        ask.among = op % 8 ? set : NULL;
        status = htc_record_take(NULL, *record, &ask, &next, set);
        expected = model_take(m, who, &ask, in);
        break;
    }
    case 2:
        status = htc_record_settle(NULL, *record, job, attempt, &next);
        expected = model_move(m, who, SETTLED);
        break;
    case 3:
        status = htc_record_release(NULL, *record, job, attempt, &next, NULL);
        expected = model_move(m, who, IDLE);
        break;
    case 4:
        status = htc_record_give(NULL, *record, set, &next);
        expected = model_from_settled(m, in, IDLE);
        break;
    case 5:
        status = htc_record_unsettle(NULL, *record, job, attempt, set, &next);
        expected = model_unsettle(m, who, in);
        break;
    case 6:
        status = op & 0x80 ? htc_record_up(NULL, *record, set, &next) : htc_record_down(NULL, *record, set, &next);
        for (uint32_t i = 0; i < m->nodes; i++)
            m->down[i] = in[i] ? !(op & 0x80) : m->down[i];
        break;
    default: {
        uint32_t more = htc_get_u8(r) % (NODES_MAX - m->nodes + 1);
        status = htc_record_grow(NULL, *record, m->nodes + more, op, &next);
        m->nodes += more;
    }
    }
    CHECK(status == expected);
    if (status == HTC_OK) {
        htc_record_free(NULL, *record);
        *record = next;
    }
    htc_record_set_destroy(set);
}

static void check_changes(htc_reader *r)
{
    model     m = { .nodes = htc_get_u8(r) + 1u };
    htc_bytes record;
    CHECK(htc_record_create(NULL, m.nodes, 1, &record) == HTC_OK);
    for (int i = 0; i < 64 && htc_reader_left(r) > 0; i++)
        step(r, &m, &record);
    check_model(&m, record);
    htc_record_free(NULL, record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader r = htc_reader_of((htc_bytes){ data, size });
    if (htc_get_u8(&r))
        check_changes(&r);
    else if (size > 0) {
        check_bytes((htc_bytes){ data + 1, size - 1 });
        check_set((htc_bytes){ data + 1, size - 1 });
    }
    return 0;
}
