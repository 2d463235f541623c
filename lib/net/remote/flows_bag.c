/* How the tasks of a bag ended: from the logs of its ledgers (roles/worker/outcome_log.h), the newest entries of each first. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/work.h"
#include "net/remote/flows_private.h"
#include "roles/worker/graph_task.h"

typedef struct bag_walk {
    htc_store    *store;
    uint64_t      id;
    bag_entry_fn *fn;
    void         *ctx;
    htc_buf       ledgers; /* of a page: number, newest block, entries of each */
    int           more;
} bag_walk;

static int note_ledger(void *ctx, uint64_t number, const htc_kv_item *item)
{
    bag_walk *b = ctx;
    ledger    l;
    if (htc__ledger_read(item->value, &l) != HTC_OK)
        return 1;
    htc_put_u64(&b->ledgers, number);
    htc_put_u64(&b->ledgers, l.log.block);
    htc_put_bytes(&b->ledgers, (htc_bytes){ l.log.bytes, l.log.len });
    return 1;
}

static void tell(bag_walk *b, htc_bytes entries)
{
    htc_reader  r = htc_reader_of(entries);
    bag_outcome o = { 0 };
    while (b->more && htc_reader_left(&r)) {
        htc__outcome_get(&r, &o);
        b->more = r.status == HTC_OK && b->fn(b->ctx, &o);
    }
}

/* A block that is lost takes those before it along: the counts do not depend on them. */
static htc_status tell_blocks(bag_walk *b, uint64_t of, uint64_t block, htc_error *error)
{
    htc_status status = HTC_OK;
    while (b->more && block && status == HTC_OK) {
        htc_kv_result  r;
        htc_bytes      entries;
        flow_key       k = htc__flow_key_block(b->id, of, block);
        htc_kv_request q = htc__flows_of_key(HTC_KV_GET, &k);
        uint64_t       before = 0;
        status = htc__flows_ask(b->store, &q, &r, error);
        if (status == HTC_ENOTFOUND)
            return HTC_OK;
        if (status == HTC_OK && (htc__outcome_block_read(r.value, &before, &entries) != HTC_OK || before >= block))
            status = htc__error(error, HTC_ECORRUPT, "a block of the log of flow %llu cannot be read", (unsigned long long)b->id);
        if (status == HTC_OK)
            tell(b, entries);
        block = before;
    }
    return status;
}

static htc_status tell_page(void *ctx, htc_error *error)
{
    bag_walk  *b = ctx;
    htc_status status = b->ledgers.status;
    htc_reader r = htc_reader_of(htc_buf_bytes(&b->ledgers));
    while (status == HTC_OK && b->more && htc_reader_left(&r)) {
        uint64_t of = htc_get_u64(&r), block = htc_get_u64(&r);
        tell(b, htc_get_bytes(&r));
        status = tell_blocks(b, of, block, error);
    }
    htc_buf_clear(&b->ledgers);
    return status;
}

htc_status htc__flows_bag_walk(htc_store *store, uint64_t id, bag_entry_fn *fn, void *ctx, htc_error *error)
{
    bag_walk b = { .store = store, .id = id, .fn = fn, .ctx = ctx, .more = 1 };
    flow_key k = htc__flow_key_ledgers(id);
    htc_buf_init(&b.ledgers, NULL, 0);
    htc_status status = htc__flows_walk(store, &k, note_ledger, tell_page, &b, error);
    htc_buf_free(&b.ledgers);
    return status;
}

/* ---- as tasks ---- */

typedef struct bag_tasks {
    htc_flows_task_fn fn;
    void             *ctx;
    char              name[256];
} bag_tasks;

/* Of several that were called together each has its share of their time, one after the other. */
static htc_ns part_of(const bag_outcome *o, uint64_t i)
{
    uint64_t n = o->to - o->from, all = (o->ended_us - o->began_us) * 1000;
    return (htc_ns)(o->began_us * 1000 + all / n * i + all % n * i / n);
}

static int tell_tasks(void *ctx, const bag_outcome *o)
{
    bag_tasks *b = ctx;
    int        more = 1;
    for (uint64_t id = o->from; id < o->to && more; id++) {
        htc_flows_task t = { .size = sizeof t, .number = id, .stored = id, .name = b->name, .kind = b->name, .reason = o->status ? htc_strerror(o->status) : "",
                             .state = o->how == GRAPH_DONE ? "done" : o->how == GRAPH_FAILED ? "failed" : "cancelled", .attempt = o->attempt,
                             .status = o->status, .exit_code = o->exit_code, .signal = o->signal, .worker = o->how == GRAPH_CANCELLED && !o->ended_us ? 0 : o->worker };
        if (o->ended_us) {
            t.began = part_of(o, id - o->from);
            t.ended = part_of(o, id - o->from + 1);
        }
        more = b->fn(b->ctx, &t);
    }
    return more;
}

/* The program, without its directory, or the function. */
static htc_status name_of(htc_bytes bytes, char *name, size_t room)
{
    htc_task  *t = NULL;
    htc_status status = htc_task_from_bytes(NULL, bytes, &t);
    if (status != HTC_OK)
        return status;
    const char *program = t->kind == HTC_TASK_COMMAND ? t->executable : t->function;
    const char *slash = program ? strrchr(program, '/') : NULL;
    (void)snprintf(name, room, "%s", slash ? slash + 1 : program ? program : "");
    htc_task_destroy(t);
    return HTC_OK;
}

htc_status htc__flows_bag_tasks(htc_store *store, uint64_t id, const flow *f, htc_flows_task_fn fn, void *ctx, htc_error *error)
{
    bag_tasks  b = { .fn = fn, .ctx = ctx };
    htc_status status = name_of(f->task, b.name, sizeof b.name);
    if (status != HTC_OK)
        return htc__error(error, status, "the task of flow %llu cannot be read", (unsigned long long)id);
    return htc__flows_bag_walk(store, id, tell_tasks, &b, error);
}
