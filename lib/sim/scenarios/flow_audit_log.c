/* What the logs of a bag say of its tasks, beside what its ledgers have counted. */
#include <string.h>

#include "core/util.h"
#include "roles/worker/outcome_log.h"
#include "sim/scenarios/flow_audit_private.h"

struct audited_block {
    uint64_t       ledger, number;
    size_t         len;
    uint8_t       *bytes;
    audited_block *next;
};

static const audited_block *block_of(const flow_audit *a, uint64_t of, uint64_t number)
{
    const audited_block *b = a->blocks;
    while (b && (b->ledger != of || b->number != number))
        b = b->next;
    return b;
}

int htc__flow_audit_block(flow_audit *a, uint64_t number_of_ledger, uint64_t number, htc_bytes value)
{
    const audited_block *known = block_of(a, number_of_ledger, number);
    htc_bytes            entries;
    uint64_t             before;
    if (htc__outcome_block_read(value, &before, &entries) != HTC_OK || before >= number)
        htc__flow_audit_fail(a, "block %llu of the log of ledger %llu cannot be read", (unsigned long long)number, (unsigned long long)number_of_ledger);
    if (known && !htc_bytes_equal((htc_bytes){ known->bytes, known->len }, value))
        htc__flow_audit_fail(a, "block %llu of the log of ledger %llu was written again, and says something else", (unsigned long long)number,
                             (unsigned long long)number_of_ledger);
    if (known)
        return 0;
    audited_block *b = htc__alloc(&a->env, sizeof *b);
    uint8_t       *bytes = b ? htc__alloc(&a->env, value.len) : NULL;
    if (!bytes) {
        htc__free(&a->env, b, sizeof *b);
        return HTC_ENOMEM;
    }
    memcpy(bytes, value.data, value.len);
    *b = (audited_block){ number_of_ledger, number, value.len, bytes, a->blocks };
    a->blocks = b;
    return 0;
}

void htc__flow_audit_blocks_free(flow_audit *a)
{
    while (a->blocks) {
        audited_block *b = a->blocks;
        a->blocks = b->next;
        htc__free(&a->env, b->bytes, b->len);
        htc__free(&a->env, b, sizeof *b);
    }
}

static void see_entries(flow_audit *a, uint64_t number, htc_bytes entries, ledger_counts *c)
{
    htc_reader r = htc_reader_of(entries);
    bag_outcome o = { 0 };
    while (r.status == HTC_OK && htc_reader_left(&r)) {
        htc__outcome_get(&r, &o);
        for (uint64_t id = o.from; id < o.to && id < a->tasks; id++) {
            if (a->task[id].named)
                htc__flow_audit_fail(a, "task %llu has ended twice, as the log of ledger %llu says", (unsigned long long)id, (unsigned long long)number);
            a->task[id].named = 1;
        }
        c->done += o.how == GRAPH_DONE ? o.to - o.from : 0;
        c->failed += o.how == GRAPH_FAILED ? o.to - o.from : 0;
        c->cancelled += o.how == GRAPH_CANCELLED ? o.to - o.from : 0;
        if (o.how != GRAPH_CANCELLED && !o.worker)
            htc__flow_audit_fail(a, "task %llu has ended, and the log does not say whose it was", (unsigned long long)o.from);
    }
}

static void see_log(flow_audit *a, uint64_t number)
{
    const ledger *l = a->ledgers[number];
    ledger_counts c = { .done = number ? 0 : a->before };
    see_entries(a, number, (htc_bytes){ l->log.bytes, l->log.len }, &c);
    for (uint64_t at = l->log.block; at;) {
        const audited_block *b = block_of(a, number, at);
        htc_bytes            entries;
        if (!b || htc__outcome_block_read((htc_bytes){ b->bytes, b->len }, &at, &entries) != HTC_OK) {
            htc__flow_audit_fail(a, "the log of ledger %llu has a block that is not there", (unsigned long long)number);
            return;
        }
        see_entries(a, number, entries, &c);
    }
    if (c.done != l->counts.done || c.failed != l->counts.failed || c.cancelled != l->counts.cancelled)
        htc__flow_audit_fail(a, "the log of ledger %llu has %llu done, %llu failed and %llu cancelled; counted are %llu, %llu and %llu",
                             (unsigned long long)number, (unsigned long long)c.done, (unsigned long long)c.failed, (unsigned long long)c.cancelled,
                             (unsigned long long)l->counts.done, (unsigned long long)l->counts.failed, (unsigned long long)l->counts.cancelled);
}

void htc__flow_audit_logs(flow_audit *a)
{
    for (uint64_t id = 0; id < a->tasks; id++)
        a->task[id].named = a->task[id].fate == FLOW_DONE_BEFORE;
    for (uint64_t j = 0; j < a->n_ledgers; j++)
        see_log(a, j);
    for (uint64_t id = 0; id < a->tasks; id++)
        if (!a->task[id].named)
            htc__flow_audit_fail(a, "of task %llu no log says how it ended", (unsigned long long)id);
}
