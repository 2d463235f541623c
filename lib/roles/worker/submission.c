#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/locality.h"
#include "htcsched/steal.h"
#include "htcsched/work.h"
#include "roles/worker/addition.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/submission.h"

static int adds(const htc_flow *f)
{
    int some = 0;
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        some |= htc_flow_get(f, i)->adds || htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE;
    return some;
}

/* The task whose number is the intake's, from 1; 0: there is none. */
static uint64_t intake_of(const htc_flow *f)
{
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        if (htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE)
            return htc_flow_first(f, i) + 1;
    return 0;
}

/* Tasks that are added have names with a slash. */
static htc_status check_names(const htc_flow *f, htc_error *error)
{
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        if (strchr(htc_flow_get(f, i)->name, '/'))
            return htc__error(error, HTC_EINVAL, "task %.100s has a slash in its name: where tasks add tasks, what is added is named TASK/NAME; give it another name",
                              htc_flow_get(f, i)->name);
    return HTC_OK;
}

#define DRAWN_SINGLY 65536 /* tasks: beyond, as many are each worker's as make no difference */

/* One entry that no other waits for stands for all its tasks. */
static int is_bag(const htc_flow *f)
{
    return htc_flow_count(f) == 1 && htc_flow_edges(f) == 0 && !adds(f);
}

/* What is executed. */
static htc_status task_of(const submission *s, uint32_t entry, uint64_t copy, htc_bytes *out)
{
    htc_task  *t = NULL;
    htc_bytes  bytes;
    htc_status status = htc_flow_task_bytes(s->env, s->flow, entry, copy, &bytes);
    uint32_t   builtin = htc_flow_get(s->flow, entry)->builtin;
    int        command = builtin == HTC_FLOW_PROGRAM || builtin == HTC_FLOW_INTAKE;
    if (status != HTC_OK)
        return status;
    if (command && !s->directory) {
        if (s->files)
            status = htc__submission_files_stage(s->files, entry, &bytes);
        if (status == HTC_OK)
            *out = bytes;
        else
            htc_work_free(s->env, bytes);
        return status;
    }
    status = htc_task_from_bytes(s->env, bytes, &t);
    htc_work_free(s->env, bytes);
    if (status != HTC_OK)
        return status;
    htc_task stored = *t;
    if (command || htc_flow_get(s->flow, entry)->adds) /* what a function adds runs there */
        stored.directory = s->directory;
    if (!command)
        stored.index = 0; /* so that equal functions are equal bytes: a worker asks for several at once, and says the numbers */
    status = htc_task_to_bytes(s->env, &stored, out);
    htc_task_destroy(t);
    return status;
}

/* Nothing but these tells two tasks of a builtin apart, as they are stored. */
static int same_builtin(const htc_flow_task *a, const htc_flow_task *b)
{
    return a->builtin == b->builtin && a->amount == b->amount && a->wall == b->wall && a->memory == b->memory && a->cores == b->cores && a->n_args == 0 &&
           b->n_args == 0 && a->n_env == 0 && b->n_env == 0;
}

/* Of a graph: of the task before, if it is the same: flows have thousands of equal ones. It is the submission's. */
static htc_status builtin_of(submission *s, uint32_t entry, htc_bytes *out)
{
    const htc_flow_task *t = htc_flow_get(s->flow, entry);
    htc_status           status = HTC_OK;
    if (!s->builtin.data || !same_builtin(t, htc_flow_get(s->flow, s->builtin_of))) {
        htc_bytes fresh;
        status = task_of(s, entry, 0, &fresh);
        if (status != HTC_OK)
            return status;
        if (s->builtin.data)
            htc_work_free(s->env, s->builtin);
        s->builtin = fresh;
        s->builtin_of = entry;
    }
    *out = s->builtin;
    return status;
}

const char *htc__submission_rule(uint32_t rule)
{
    const htc_locality_policy *policy = htc_locality_builtin(rule);
    return policy ? policy->name : "?";
}

/* policies NULL: the library's. */
static htc_status check_steal(const char *name, const htc_registry *policies, htc_error *error)
{
    const htc_steal_policy *unused;
    htc_registry           *r = NULL;
    htc_status              status = policies ? HTC_OK : htc_registry_create(NULL, &r);
    if (status == HTC_OK && !policies)
        status = htc_registry_add_builtin(r);
    if (status == HTC_OK && (strlen(name) >= sizeof((flow *)0)->steal || htc_steal_find(policies ? policies : r, name, &unused) != HTC_OK))
        status = htc__error(error, HTC_ENOTFOUND, "no policy of stealing is called %.40s: random, static, near, mesh-2d, mesh-3d, one, two, log2 and sqrt are known%s", name,
                            policies ? ", and those that were added" : "");
    htc_registry_destroy(r);
    return status;
}

htc_status htc__submission_policy(flow *f, const char *policy, const char *steal, const htc_registry *policies, htc_error *error)
{
    uint8_t rule = 0;
    while (policy && rule <= HTC_LOCALITY_MLB && strcmp(policy, htc_locality_builtin(rule)->name) != 0)
        rule++;
    if (rule > HTC_LOCALITY_MLB)
        return htc__error(error, HTC_ENOTFOUND, "no policy of placing tasks is called %.40s: flds, rlds, mdl and mlb are known", policy);
    htc_status status = steal && steal[0] ? check_steal(steal, policies, error) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (policy)
        f->places.rule = rule;
    if (steal) {
        memset(f->steal, 0, sizeof f->steal);
        memcpy(f->steal, steal, strnlen(steal, sizeof f->steal - 1));
    }
    return HTC_OK;
}

htc_status htc__submission_options(submission *s, const htc_flows_options *options, uint32_t *workers, htc_error *error)
{
    htc_flows_options o = HTC_FLOWS_OPTIONS_INIT;
    htc_status        status = options ? htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_flows_options, directory)) : HTC_OK;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of a flow: %s", htc_strerror(status));
    if (o.user && strlen(o.user) >= sizeof s->header.user)
        return htc__error(error, HTC_EINVAL, "the name of a flow's user is longer than %zu bytes", sizeof s->header.user - 1);
    if (o.user)
        memcpy(s->header.user, o.user, strlen(o.user) + 1);
    if (o.directory && o.directory[0] != '/')
        return htc__error(error, HTC_EINVAL, "the directory of a flow's commands is not absolute");
    if (o.inputs && o.inputs[0] != '/')
        return htc__error(error, HTC_EINVAL, "the directory of a flow's inputs is not absolute");
    status = htc__submission_policy(&s->header, o.policy, o.steal, o.policies, error);
    if (status != HTC_OK)
        return status;
    if (o.tt_rule > HTC_LOCALITY_TT_MOVE || o.tt_ns > (UINT64_C(1) << 62))
        return htc__error(error, HTC_EINVAL, "there is no such rule, or no such time, of the policy flds");
    s->header.places.tt_rule = (uint8_t)o.tt_rule;
    s->header.places.tt_ns = o.tt_ns;
    s->header.places.ratio = o.ratio;
    s->header.places.bytes_per_s = o.bytes_per_s;
    s->directory = o.directory;
    s->inputs = o.inputs;
    s->owner = o.owner;
    if (o.layout > HTC_FLOWS_RANDOM)
        return htc__error(error, HTC_EINVAL, "there is no such layout of a flow");
    s->layout = o.layout;
    s->header.tries = o.tries ? o.tries : 1;
    s->header.max_fails = o.max_fails ? o.max_fails : UINT64_MAX;
    *workers = o.workers;
    return HTC_OK;
}

/* How many each of so many workers has, when each task is any one's. The same for flows of as many tasks, so that runs can be compared. */
static void draw_ends(submission *s, uint64_t tasks, uint32_t workers)
{
    htc_rng  rng = { tasks };
    uint64_t end = 0, left = tasks;
    for (uint32_t i = 0; i < workers; i++) {
        uint64_t n = 0;
        if (left > DRAWN_SINGLY)
            n = i + 1 == workers ? left : left / (workers - i); /* as good as even */
        else
            for (uint64_t k = 0; k < left; k++)
                n += htc_rng_below(&rng, workers - i) == 0;
        end += n;
        left -= n;
        s->ends[i] = end;
    }
}

/* Which ledger has which tasks. Of a graph none has more than one may; a worker whose share is larger has several. */
static htc_status lay_out(submission *s, uint64_t tasks, uint32_t workers)
{
    uint64_t most = s->header.kind == FLOW_GRAPH ? LEDGER_HOME : tasks;
    uint32_t shares = s->layout == HTC_FLOWS_ONE ? 1 : workers;
    s->home = (tasks - 1) / shares + 1;
    s->home = s->home > most ? most : s->home;
    s->n_ledgers = (tasks - 1) / s->home + 1;
    if (s->layout != HTC_FLOWS_RANDOM || s->n_ledgers == 1 || s->n_ledgers > shares)
        return HTC_OK; /* where ledgers are full, they all are */
    s->ends = htc__alloc(s->env, shares * sizeof *s->ends);
    if (!s->ends)
        return HTC_ENOMEM;
    s->n_ledgers = shares;
    draw_ends(s, tasks, shares);
    for (uint32_t i = 0; i < shares; i++)
        if (s->ends[i] - (i ? s->ends[i - 1] : 0) > most) { /* by chance */
            htc__free(s->env, s->ends, shares * sizeof *s->ends);
            s->ends = NULL;
            s->n_ledgers = (tasks - 1) / s->home + 1;
            return HTC_OK;
        }
    return HTC_OK;
}

static ledger_span tasks_of(const submission *s, uint64_t number)
{
    uint64_t from = number * s->home, to = from + s->home;
    if (s->ends)
        return (ledger_span){ number ? s->ends[number - 1] : 0, s->ends[number] };
    return (ledger_span){ from, to < s->header.tasks ? to : s->header.tasks };
}

static uint64_t home_of(const submission *s, uint64_t task)
{
    uint64_t low = 0, high = s->n_ledgers - 1;
    if (!s->ends)
        return task / s->home;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->ends[middle] > task)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

htc_status htc__submission_init(submission *s, const htc_env *env, const htc_flow *given, uint64_t id, uint32_t workers, htc_error *error)
{
    s->env = env;
    s->flow = given;
    s->narrow = NULL;
    s->id = id;
    s->task = s->builtin = (htc_bytes){ NULL, 0 };
    s->entry = 0;
    if (htc_flow_total(given) == 0)
        return htc__error(error, HTC_EINVAL, "the flow has no task");
    uint32_t   children_max = GRAPH_CHILDREN_MAX - (adds(given) ? ADDITION_TASKS_MAX : 0); /* those that are added are children too */
    htc_status status = adds(given) ? check_names(given, error) : HTC_OK;
    if (status == HTC_OK)
        status = htc_flow_narrow(env, given, GRAPH_PARENTS_MAX, children_max, &s->narrow, error);
    if (status != HTC_OK)
        return status;
    s->flow = s->narrow ? s->narrow : given;
    uint64_t tasks = htc_flow_total(s->flow);
    s->header.tasks = tasks;
    s->header.inserted = tasks - htc_flow_total(given);
    s->header.kind = is_bag(given) ? FLOW_BAG : FLOW_GRAPH;
    status = lay_out(s, tasks, workers ? workers : 1);
    if (status != HTC_OK)
        return status;
    status = s->directory ? HTC_OK : htc__submission_files_create(env, s->flow, s->inputs, &s->files, error);
    s->header.adds = adds(given) != 0;
    s->header.intake = intake_of(s->flow);
    s->header.inputs = s->header.adds ? htc_bytes_of(s->inputs) : htc_bytes_of(NULL);
    s->header.data = s->header.kind == FLOW_GRAPH && (s->files != NULL || (s->header.adds && !s->directory));
    if (status == HTC_OK && s->header.kind == FLOW_BAG && (status = task_of(s, 0, 0, &s->task)) == HTC_EUNSUPPORTED)
        return htc__error(error, status, "nothing here executes what a task of the flow asks for");
    return status;
}

htc_status htc__submission_added(submission *s, const htc_env *env, const htc_flow *given, const flow *to, uint64_t id, uint64_t adder, const graph_task *task,
                                 uint64_t base, const char *directory, const char *inputs, htc_error *error)
{
    *s = (submission){ .env = env, .flow = given, .id = id, .home = 1, .directory = directory, .inputs = inputs, .base = base,
                       .ledger = task->added_home, .cancelled = task->added_cancelled, .adder = task->name, .adder_number = htc__flow_shown(to, adder) };
    s->header.kind = FLOW_GRAPH;
    s->header.tasks = htc_flow_total(given);
    htc_status status = directory ? HTC_OK : htc__submission_files_create(env, given, inputs, &s->files, error);
    if (s->files)
        htc__submission_files_outside(s->files, adder, task->makes);
    return status;
}

void htc__submission_free(submission *s)
{
    if (s->task.data)
        htc_work_free(s->env, s->task);
    if (s->builtin.data)
        htc_work_free(s->env, s->builtin);
    s->task = s->builtin = (htc_bytes){ NULL, 0 };
    htc__submission_files_destroy(s->files);
    s->files = NULL;
    htc__free(s->env, s->ends, s->ends ? s->n_ledgers * sizeof *s->ends : 0);
    s->ends = NULL;
    htc_flow_destroy(s->narrow);
    s->narrow = NULL;
}

void htc__submission_header(const submission *s, flow_state state, htc_buf *b)
{
    flow f = s->header;
    f.state = (uint8_t)state;
    f.task = s->task;
    htc__flow_write(b, &f);
}

uint64_t htc__submission_records(const submission *s)
{
    return s->n_ledgers + (s->header.kind == FLOW_GRAPH ? s->header.tasks : 0);
}

/* ---- tasks ---- */

static uint32_t which_parent(const htc_flow *f, uint32_t child, uint32_t parent)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_parents(f, child, &edges);
    uint32_t             i = 0;
    while (i < n && edges[i].task != parent)
        i++;
    return i;
}

static void put_children(const submission *s, uint32_t entry, htc_buf *b)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_children(s->flow, entry, &edges);
    for (size_t i = 0; i < n; i++) {
        htc_put_u64(b, s->base + htc_flow_first(s->flow, edges[i].task));
        htc_put_u32(b, which_parent(s->flow, edges[i].task, entry));
    }
}

static htc_status task_record(submission *s, uint64_t number, htc_buf *b)
{
    uint8_t              parents[GRAPH_PARENTS_MAX];
    const htc_flow_edge *edges;
    htc_buf              children, reads, makes, name;
    htc_bytes            task;
    uint32_t             n = htc_flow_count(s->flow);
    if (s->entry >= n || htc_flow_first(s->flow, s->entry) > number)
        s->entry = 0;
    while (s->entry + 1 < n && htc_flow_first(s->flow, s->entry + 1) <= number)
        s->entry++;
    const htc_flow_task *t = htc_flow_get(s->flow, s->entry);
    size_t               count = htc_flow_parents(s->flow, s->entry, &edges);
    for (size_t i = 0; i < count; i++)
        parents[i] = GRAPH_EDGE(edges[i].rule == HTC_FLOW_OK ? GRAPH_RULE_OK : edges[i].rule == HTC_FLOW_ANY ? GRAPH_RULE_ANY : GRAPH_RULE_FAILED);
    if (s->adder.len)
        parents[count++] = GRAPH_EDGE(GRAPH_RULE_OK) | GRAPH_ENDED_OK;
    int        intake = t->builtin == HTC_FLOW_INTAKE, builtin = !intake && t->builtin != HTC_FLOW_PROGRAM && t->builtin != HTC_FLOW_CALL;
    htc_status status = builtin ? builtin_of(s, s->entry, &task) : task_of(s, s->entry, number - htc_flow_first(s->flow, s->entry), &task);
    if (status != HTC_OK)
        return status;
    htc_buf_init(&children, s->env, 0);
    htc_buf_init(&reads, s->env, 0);
    htc_buf_init(&makes, s->env, 0);
    put_children(s, s->entry, &children);
    if (s->files)
        htc__submission_files_put(s->files, s->entry, s->base, &reads, &makes);
    htc_buf_init(&name, s->env, 0);
    if (s->adder.len + 1 + strlen(t->name) > ADDITION_NAME_MAX && s->adder.len && !intake)
        htc_put_text(&name, "#%llu/", (unsigned long long)s->adder_number);
    else if (s->adder.len && !intake) /* the next intake has its own */
        htc_put_text(&name, "%.*s/", (int)s->adder.len, (const char *)s->adder.data);
    htc_put_raw(&name, htc_bytes_of(t->name));
    graph_outcome outcome = { .status = s->cancelled ? (uint32_t)HTC_ECANCELLED : 0 };
    if (s->cancelled)
        (void)snprintf(outcome.reason, sizeof outcome.reason, "the task that adds it was cancelled");
    uint64_t home = s->adder.len ? s->ledger : home_of(s, number);
    htc__graph_write(b, &(graph_task){ .state = s->cancelled ? GRAPH_CANCELLED : GRAPH_OPEN, .outcome = outcome, .home = home,
                                       .name = htc_buf_bytes(&name), .adds = intake ? GRAPH_ADDS_INTAKE : t->adds != 0 ? GRAPH_ADDS_PRINTED : GRAPH_ADDS_NOTHING,
                                       .parents = { parents, count },
                                       .children = htc_buf_bytes(&children), .task = task, .kind = htc_bytes_of(t->kind),
                                       .reads = htc_buf_bytes(&reads), .makes = htc_buf_bytes(&makes) });
    status = children.status != HTC_OK ? children.status : reads.status != HTC_OK ? reads.status : makes.status != HTC_OK ? makes.status : name.status;
    htc_buf_free(&name);
    if (status == HTC_OK)
        status = b->status == HTC_EFULL ? HTC_ETOOBIG : b->status;
    htc_buf_free(&children);
    htc_buf_free(&reads);
    htc_buf_free(&makes);
    if (!builtin)
        htc_work_free(s->env, task);
    return status;
}

htc_status htc__submission_task(submission *s, uint64_t number, flow_key *key, htc_buf *b)
{
    *key = htc__flow_key_task(s->id, s->base + number);
    return task_record(s, number, b);
}

htc_status htc__submission_record(submission *s, uint64_t i, flow_key *key, htc_buf *b)
{
    if (i >= s->n_ledgers) {
        *key = htc__flow_key_task(s->id, i - s->n_ledgers);
        return task_record(s, i - s->n_ledgers, b);
    }
    ledger   l;
    htc__ledger_init(&l, tasks_of(s, i));
    *key = htc__flow_key_ledger(s->id, i);
    htc__ledger_write(b, &l);
    return b->status;
}

/* ---- for a client of one's own ---- */

struct htc_flows_records {
    htc_env    env;
    submission s;
    char      *directory, *inputs; /* copies */
    size_t     directory_len, inputs_len;
    flow_key   key;
    htc_buf    buf;
};

void htc_flows_options_init(htc_flows_options *options, size_t size)
{
    htc__options_init(options, size);
}

/* *text becomes a copy; NULL stays. */
static htc_status keep(const htc_env *env, const char **text, char **copy, size_t *len)
{
    if (!*text)
        return HTC_OK;
    *len = strlen(*text) + 1;
    *copy = htc__alloc(env, *len);
    if (!*copy)
        return HTC_ENOMEM;
    memcpy(*copy, *text, *len);
    *text = *copy;
    return HTC_OK;
}

htc_status htc_flows_records_create(const htc_env *env, const htc_flow *given, const htc_flows_options *options, uint64_t id, htc_flows_records **out,
                                    htc_error *error)
{
    static const htc_env malloc_env = { .size = sizeof malloc_env };
    uint32_t             workers = 0;
    if (!given || !out || id == 0)
        return htc__error(error, HTC_EINVAL, "no flow, or no number for it");
    htc_flows_records *r = htc__alloc(env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    r->env = env ? *env : malloc_env;
    htc_buf_init(&r->buf, &r->env, 0);
    htc_status status = htc__submission_options(&r->s, options, &workers, error);
    if (status == HTC_OK)
        status = keep(&r->env, &r->s.directory, &r->directory, &r->directory_len);
    if (status == HTC_OK)
        status = keep(&r->env, &r->s.inputs, &r->inputs, &r->inputs_len);
    if (status == HTC_OK)
        status = htc__submission_init(&r->s, &r->env, given, id, workers, error);
    if (status != HTC_OK) {
        htc_flows_records_destroy(r);
        return status;
    }
    *out = r;
    return HTC_OK;
}

void htc_flows_records_destroy(htc_flows_records *records)
{
    if (!records)
        return;
    htc_env env = records->env;
    htc__submission_free(&records->s);
    htc__free(&env, records->directory, records->directory_len);
    htc__free(&env, records->inputs, records->inputs_len);
    htc_buf_free(&records->buf);
    htc__free(&env, records, sizeof *records);
}

uint64_t htc_flows_records_count(const htc_flows_records *records)
{
    return htc__submission_records(&records->s) + 2;
}

htc_status htc_flows_records_get(htc_flows_records *records, uint64_t i, htc_kv_request *request)
{
    uint64_t last = htc_flows_records_count(records) - 1;
    if (i > last)
        return HTC_EINVAL;
    htc_status status = HTC_OK;
    if (i == 0 || i == last) {
        records->key = htc__flow_key_header(records->s.id);
        htc__submission_header(&records->s, i == 0 ? FLOW_BUILDING : FLOW_RUNNING, &records->buf);
    } else {
        status = htc__submission_record(&records->s, i - 1, &records->key, &records->buf);
    }
    if (status == HTC_OK)
        status = records->buf.status;
    if (status != HTC_OK)
        return status;
    *request = (htc_kv_request){ .size = sizeof *request,
                                 .op = i == last ? HTC_KV_CAS_VERSION : HTC_KV_PUT,
                                 .flags = i == last ? 0 : HTC_KV_NX,
                                 .key = htc__flow_key_bytes(&records->key),
                                 .value = htc_buf_bytes(&records->buf) };
    return HTC_OK;
}
