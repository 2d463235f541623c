/* Workers inside a program with a loop of its own (loop.h): a store and three workers in one process run a small flow, whose tasks are
 * carried out by this program. A writer submits it (writer.h). The workers find each other in the store, and those that are idle take tasks
 * from the others. */
#include <stdio.h>
#include <string.h>

#include <htcsched/htcsched.h>

#include "loop.h"
#include "writer.h"

enum { FLOW = 1, WORKERS = 3, TASK_TIME = 10 * 1000 * 1000 };

static const char text[] = "begin: say square\n"
                           "s1: after=begin square 1\ns2: after=begin square 2\ns3: after=begin square 3\ns4: after=begin square 4\n"
                           "s5: after=begin square 5\ns6: after=begin square 6\ns7: after=begin square 7\ns8: after=begin square 8\n"
                           "sum: after=s1,s2,s3,s4,s5,s6,s7,s8 sum\n";

static party   *store, *writer, *workers[WORKERS];
static unsigned total, begun, links_made;

/* ---- what a worker asks of its host ---- */

static struct staged {
    uint64_t run;
    char     words[64];
} staged[64];

/* The task comes with STAGE_IN; RUN names the run alone. */
static void stage_in(const htc_effect *call)
{
    htc_task   *task = NULL;
    char        user[64];
    htc_reader  r = htc_reader_of(call->body);
    uint64_t    run = htc_get_u64(&r);
    for (int i = 0; i < 3; i++)
        (void)htc_get_varint(&r); /* job, task, attempt */
    htc_get_str(&r, user, sizeof user);
    (void)htc_get_u64(&r);
    (void)htc_get_u32(&r);
    if (htc_task_from_bytes(NULL, htc_get_bytes(&r), &task) != HTC_OK)
        abort();
    struct staged *s = &staged[begun++ % 64];
    s->run = run;
    snprintf(s->words, sizeof s->words, "%s %s", task->executable, task->n_args ? task->args[0] : "");
    htc_task_destroy(task);
}

static void run(const party *p, uint64_t number)
{
    unsigned n = 0, i = 0;
    while (i < 64 && (staged[i].run != number || !staged[i].words[0]))
        i++;
    if (i == 64)
        abort();
    printf("%3u ms  %s: %s\n", (unsigned)((now - HTC_SECOND) / HTC_MS), p->name, staged[i].words);
    if (sscanf(staged[i].words, "square %u", &n) == 1)
        total += n * n;
    else if (strcmp(staged[i].words, "sum ") == 0)
        printf("        the sum is %u\n", total);
    staged[i].words[0] = 0;
}

static void zeros(htc_buf *b, int n)
{
    while (n--)
        htc_put_u8(b, 0);
}

static void worker_call(party *p, const htc_effect *call)
{
    htc_reader r = htc_reader_of(call->body);
    htc_buf    b;
    char       address[64];
    htc_buf_init(&b, NULL, 0);
    if (call->op == HTC_CALL_DIAL) {
        htc_get_str(&r, address, sizeof address);
        htc_put_u32(&b, 10 + links_made);
        answer(0, p, call, HTC_OK, htc_buf_bytes(&b));
        for (int i = 0; i < WORKERS; i++)
            if (strcmp(workers[i]->name, address) == 0)
                connect_to(p, 10 + links_made++, workers[i]);
    } else if (call->op == HTC_CALL_STAGE_IN) {
        stage_in(call);
        answer(0, p, call, HTC_OK, htc_bytes_of(NULL));
    } else if (call->op == HTC_CALL_RUN) { /* outcome: status, exit code, signal, CPU time, memory; begin, end; no words, no outputs */
        run(p, htc_get_u64(&r));
        zeros(&b, 4 + 4 + 4 + 8 + 8);
        htc_put_u64(&b, now);
        htc_put_u64(&b, now + TASK_TIME);
        zeros(&b, 3 + 1 + 6);
        answer(TASK_TIME, p, call, HTC_OK, htc_buf_bytes(&b));
    } else if (call->op == HTC_CALL_STAGE_OUT) { /* stored: status, final, no words, no outputs */
        zeros(&b, 4 + 1 + 1 + 6);
        answer(0, p, call, HTC_OK, htc_buf_bytes(&b));
    }
    htc_buf_free(&b);
}

int main(void)
{
    static const char *const names[WORKERS] = { "ada", "bob", "cyd" };
    htc_kv_server_options    memory = { .size = sizeof memory };
    htc_worker_figures       figures = { .size = sizeof figures };
    htc_kv_server           *server = NULL;
    htc_flow                *flow = NULL;
    if (htc_flow_read(NULL, htc_bytes_of(text), HTC_FLOW_TEXT, NULL, &flow, NULL) != HTC_OK)
        return 1;
    store = party_new("store");
    writer = party_new("writer");
    if (htc_kv_server_create(&store->env, &memory, &server) != HTC_OK)
        return 1;
    party_start(store, htc_kv_server_ops(), server);
    writer_start(writer, store, flow, FLOW);
    for (int i = 0; i < WORKERS; i++) {
        htc_worker        *w = NULL;
        htc_worker_options o = HTC_WORKER_OPTIONS_INIT;
        workers[i] = party_new(names[i]);
        workers[i]->call = worker_call;
        o.flow = FLOW;
        o.id = (uint64_t)i + 1;
        o.address = names[i];
        o.store_client_id = 100 + (uint64_t)i;
        o.store_peer = STORE;
        if (htc_worker_create(&workers[i]->env, &o, &w) != HTC_OK)
            return 1;
        party_start(workers[i], htc_worker_ops(), w);
        connect_to(workers[i], STORE, store);
    }
    while (loop_once(HTC_SECOND * 600) && !(workers[0]->ended && workers[1]->ended && workers[2]->ended))
        ;
    htc_worker_look(workers[0]->self, &figures);
    printf("%u tasks are done: %s\n", (unsigned)figures.done, htc_status_name(workers[0]->status));
    loop_end();
    writer_end();
    htc_flow_destroy(flow);
    return figures.done == 10 ? 0 : 1;
}
