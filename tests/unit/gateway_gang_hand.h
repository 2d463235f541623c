/* Agents in a test's hand that do as agents do, over several sites: tasks of several slots, and gangs. */
#ifndef HTC_TESTS_GATEWAY_GANG_HAND_H
#define HTC_TESTS_GATEWAY_GANG_HAND_H

#include "gateway_hand.h"

#include "htcsched/work.h"

#define WIDE(total, each, tasks)                                                                                       \
    "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl'"                                        \
    " xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' xmlns:sweep='http://schemas.ogf.org/jsdl/2009/03/sweep'" \
    " xmlns:sf='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><jsdl:JobDescription><jsdl:Application>"            \
    "<px:POSIXApplication><px:Executable>/bin/true</px:Executable><px:Argument>0</px:Argument></px:POSIXApplication>"    \
    "</jsdl:Application><jsdl:Resources><jsdl:IndividualCPUCount><jsdl:Exact>" #each "</jsdl:Exact></jsdl:IndividualCPUCount>"  \
    "<jsdl:TotalCPUCount><jsdl:Exact>" #total "</jsdl:Exact></jsdl:TotalCPUCount></jsdl:Resources></jsdl:JobDescription>" \
    "<sweep:Sweep><sweep:Assignment><sweep:DocumentNode>"                                                              \
    "<sweep:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/>"                           \
    "<sweep:Match>//p:Argument[1]</sweep:Match></sweep:DocumentNode><sf:LoopInteger start='1' end='" #tasks "'/>"        \
    "</sweep:Assignment></sweep:Sweep></jsdl:JobDefinition>"

static void books_are_right(void)
{
    htc_gateway_books b = { .size = sizeof b };
    cr_assert(eq(int, htc_gateway_audit(r.gateway, 1, &b), HTC_OK));
    cr_assert(eq(str, b.wrong, ""));
}

/* An agent in the test's hand that does as agents do: it fills the slots that it is told of, holds what it is granted, and lists it. */
typedef struct gang_hand {
    hand        h;
    uint32_t    slots, n_held;
    uint64_t    slots_seq;
    size_t      read; /* of the inbox */
    int         alive, asked;
    htc_attempt held[8];
    uint32_t    member[8], cores[8];
    htc_ns      ends[8]; /* of what it leads */
} gang_hand;

static gang_hand hands[64];
static uint32_t  n_hands, together_most; /* slots that tasks were in at once */
static uint32_t  first_devices;          /* grants of parts that have device 0 and no other */
static uint32_t  hands_slots = 6;        /* of all sites */
static int       ends_late;              /* what is revoked stays, as if its processes took their time */

static void drop_held(gang_hand *g, const htc_attempt *at)
{
    for (uint32_t i = 0; i < g->n_held; i++)
        if (g->held[i].job == at->job && g->held[i].task == at->task && g->held[i].attempt == at->attempt) {
            g->n_held--;
            g->held[i] = g->held[g->n_held];
            g->member[i] = g->member[g->n_held];
            g->cores[i] = g->cores[g->n_held];
            g->ends[i] = g->ends[g->n_held];
            return;
        }
}

static void take_grant(gang_hand *g, htc_reader *in, htc_ns span)
{
    static htc_grant m;
    cr_assert(eq(int, htc_grant_read(in, &m), HTC_OK));
    g->asked &= m.seq != g->h.seq;
    if (m.kind == HTC_GRANT_EXIT && g->n_held == 0 && m.seq == g->h.seq)
        g->alive = 2;
    if (m.kind != HTC_GRANT_TASKS || m.grant <= g->h.last_grant)
        return;
    g->h.last_grant = m.grant;
    for (uint32_t i = 0; i < m.count; i++) {
        htc_task *t = NULL;
        cr_assert(eq(int, htc_task_from_bytes(NULL, m.tasks[i].task, &t), HTC_OK));
        cr_assert(g->n_held < 8);
        g->held[g->n_held] = m.tasks[i].attempt;
        g->member[g->n_held] = t->member;
        g->cores[g->n_held] = t->limits.cores;
        first_devices += t->devices && strcmp(t->devices, "0") == 0;
        g->ends[g->n_held++] = r.now + span;
        htc_task_destroy(t);
    }
}

static void hear(gang_hand *g, htc_ns span)
{
    for (; g->read < r.n_inbox; g->read++) {
        const rig_message *m = &r.inbox[g->read % 256];
        htc_reader         in = htc_reader_of((htc_bytes){ m->bytes, m->len });
        htc_attempt        at;
        htc_slots          s;
        if (m->peer != g->h.peer)
            continue;
        if (m->type == HTC_WIRE_GRANT)
            take_grant(g, &in, span);
        else if (m->type == HTC_WIRE_REVOKE && !ends_late && htc_revoke_read(&in, &at) == HTC_OK)
            drop_held(g, &at);
        else if (m->type == HTC_WIRE_NUDGE)
            g->asked = 0;
        else if (m->type == HTC_WIRE_SLOTS && htc_slots_read(&in, &s) == HTC_OK) {
            uint32_t filled = 0;
            for (uint32_t i = 0; i < g->n_held; i++)
                filled += g->cores[i];
            g->slots = s.slots;
            g->slots_seq = s.seq;
            htc_buf b;
            htc_buf_init(&b, NULL, 0);
            htc_slots_held_write(&b, &(htc_slots_held){ .agent = g->h.id, .seq = s.seq, .slots = s.slots > filled ? s.slots : filled });
            rig_say(&r, g->h.peer, &b);
            htc_buf_free(&b);
        }
    }
}

static void beat(gang_hand *g)
{
    static htc_heartbeat m;
    htc_buf              b;
    m = (htc_heartbeat){ .agent = g->h.id, .seq = ++g->h.beat, .last_grant = g->h.last_grant, .next = HTC_SECOND };
    m.held.count = g->n_held;
    for (uint32_t i = 0; i < g->n_held; i++)
        m.held.held[i] = (htc_held){ g->held[i], HTC_HELD_RUNNING };
    htc_buf_init(&b, NULL, 0);
    htc_heartbeat_write(&b, &m);
    rig_say(&r, g->h.peer, &b);
    htc_buf_free(&b);
}

static void ask_more(gang_hand *g)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_pull_write(&b, &(htc_pull){ .agent = g->h.id, .seq = ++g->h.seq, .want = 8, .last_grant = g->h.last_grant });
    g->asked = 1;
    rig_say(&r, g->h.peer, &b);
    htc_buf_free(&b);
}

static uint32_t filled(const gang_hand *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_held; i++)
        n += g->cores[i];
    return n;
}

/* Half a second of all agents: those that were launched register, tasks of span end, and who has room asks. */
static void turn_all(htc_ns span)
{
    uint32_t all = 0;
    cr_assert(r.n_launched <= 64);
    for (; n_hands < r.n_launched; n_hands++) {
        hands[n_hands] = (gang_hand){ .read = r.n_inbox, .alive = 1, .slots = r.launched[n_hands].slots };
        hands[n_hands].h = hello(r.launched[n_hands].agent);
    }
    for (uint32_t i = 0; i < n_hands; i++) {
        gang_hand *g = &hands[i];
        if (!g->alive)
            continue;
        hear(g, span);
        for (uint32_t k = 0; k < g->n_held; k++)
            if (g->member[k] == 0 && r.now >= g->ends[k]) {
                htc_attempt at = g->held[k];
                cr_assert(eq(int, report_after(&g->h, &at, HTC_OK, HTC_SECOND, ""), HTC_OK));
                drop_held(g, &at);
                k--;
            }
        for (uint32_t k = 0; k < n_hands; k++)
            hear(&hands[k], span);
        beat(g);
        if (filled(g) < g->slots)
            ask_more(g);
        hear(g, span);
        if (g->alive == 2) {
            g->alive = 0;
            process_ended(g->h.id);
        }
        books_are_right();
    }
    for (uint32_t i = 0; i < n_hands; i++)
        hear(&hands[i], span);
    for (uint32_t i = 0; i < n_hands; i++)
        all += hands[i].alive ? filled(&hands[i]) : 0;
    cr_assert(all <= hands_slots, "%u slots of %u at once", all, hands_slots);
    together_most = all > together_most ? all : together_most;
    rig_pass(&r, 500 * HTC_MS);
}

static void begin_hands(void)
{
    n_hands = together_most = first_devices = 0;
    ends_late = 0;
}

#endif
