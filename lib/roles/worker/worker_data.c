/* What a task reads is brought here before it begins, and what it makes is an object before its end is stored.
 *
 *     reads: looked up -> wanted -> here: the task begins
 *              ^            |
 *              +---- lost --+      who has it is looked up again where it was made; if nobody does, it is made again (worker_remake.c)
 *     makes: hash and size asked of the host -> kept as an object -> the end is stored with it
 *
 * While it waits for what it reads a task holds its slot; if that is lost it gives the slot up. */
#include <stdio.h>
#include <string.h>

#include "htcsched/client.h"
#include "htcsched/work.h"
#include "roles/objects/objects.h"
#include "roles/worker/worker_private.h"

#define LOSSES_MAX  2 /* of one copy, while the worker that is to have it lives */
#define SPOILT_MAX  3 /* times that what was here could not be staged in */

typedef struct data_read {
    uint64_t     maker;
    htc_bytes    name; /* in data->reads */
    uint8_t      known;  /* the object is what was said of it last */
    uint8_t      absent; /* its maker has not succeeded: there is none */
    uint8_t      lost;   /* the object was looked for in vain */
    uint8_t      losses;
    uint32_t     n_workers;
    uint64_t     workers[OBJECT_SOURCES_MAX]; /* who is asked */
    uint8_t      of_all; /* all others are asked: some may have it from before */
    graph_object object;
} data_read;

typedef struct data_made {
    htc_bytes    name; /* in data->makes */
    uint8_t      adopting;
    graph_object object;
} data_made;

struct run_data {
    htc_bytes  reads, makes; /* copies, as in the record */
    uint32_t   n_reads, n_makes;
    data_read *read;
    data_made *made;
    uint32_t   looks;   /* requests under way */
    uint32_t   unkept;  /* of made */
    uint8_t    wanted;  /* there is a want */
    uint64_t   needed, moved; /* bytes of what it reads; of these, not here when it was wanted */
    uint8_t    lacking; /* of what was looked up: lacks is to be made again */
    uint8_t    failed;  /* something that it made could not be kept */
    uint64_t   lacks;
    graph_object lost;
};

static htc_status copy_of(const htc_env *env, htc_bytes from, htc_bytes *to)
{
    uint8_t *bytes = from.len ? htc__alloc(env, from.len) : NULL;
    if (from.len && !bytes)
        return HTC_ENOMEM;
    if (from.len)
        memcpy(bytes, from.data, from.len);
    *to = (htc_bytes){ bytes, from.len };
    return HTC_OK;
}

void htc__worker_data_free(htc_worker *w, running *x)
{
    run_data *d = x->data;
    if (!d)
        return;
    if (d->wanted && w->objects)
        htc__objects_release(w->objects, x->attempt.run, 0);
    htc__free(&w->env, (void *)(uintptr_t)d->reads.data, d->reads.len);
    htc__free(&w->env, (void *)(uintptr_t)d->makes.data, d->makes.len);
    htc__free(&w->env, d->read, d->n_reads * sizeof *d->read);
    htc__free(&w->env, d->made, d->n_makes * sizeof *d->made);
    htc__free(&w->env, d, sizeof *d);
    x->data = NULL;
}

/* What the record says of its files. */
static htc_status data_new(htc_worker *w, running *x, const graph_task *t)
{
    run_data    *d = htc__alloc(&w->env, sizeof *d);
    htc_bytes    name;
    uint64_t     maker;
    htc_status   status = d ? copy_of(&w->env, t->reads, &d->reads) : HTC_ENOMEM;
    if (!d)
        return status;
    x->data = d;
    if (status == HTC_OK)
        status = copy_of(&w->env, t->makes, &d->makes);
    if (status != HTC_OK)
        return status;
    uint32_t   n_reads = 0, n_makes = htc__graph_n_makes(t);
    htc_reader r = htc_reader_of(d->reads);
    while (htc__graph_next_read(&r, &maker, &name))
        n_reads++;
    d->read = n_reads ? htc__alloc(&w->env, n_reads * sizeof *d->read) : NULL;
    d->made = n_makes ? htc__alloc(&w->env, n_makes * sizeof *d->made) : NULL;
    d->n_reads = d->read ? n_reads : 0;
    d->n_makes = d->made ? n_makes : 0;
    if (d->n_reads < n_reads || d->n_makes < n_makes)
        return HTC_ENOMEM;
    r = htc_reader_of(d->reads);
    for (uint32_t i = 0; htc__graph_next_read(&r, &maker, &name); i++) {
        d->read[i] = (data_read){ .maker = maker, .name = name, .absent = maker == GRAPH_NOBODY };
        d->read[i].known = htc__graph_known(t, i, &d->read[i].object) == HTC_OK;
    }
    r = htc_reader_of(d->makes);
    for (uint32_t i = 0; i < n_makes; i++)
        d->made[i].name = htc_get_bytes(&r);
    return HTC_OK;
}

/* ---- what it reads is here ---- */

#define URI_LEN (sizeof "htc:" + 64)

/* The name and URI of an input, at *text. */
static htc_stage input_of(const data_read *r, char **text)
{
    htc_stage s = { .name = *text, .uri = *text + r->name.len + 1, .flags = HTC_STAGE_OVERWRITE };
    memcpy(*text, r->name.data, r->name.len);
    (*text)[r->name.len] = 0;
    *text += r->name.len + 1;
    memcpy(*text, "htc:", 4);
    htc_content_hex(r->object.hash, *text + 4);
    *text += URI_LEN;
    return s;
}

/* The task with its inputs, each by the hash of its content. */
static htc_status with_inputs(htc_worker *w, const run_data *d, htc_bytes from, htc_bytes *bytes)
{
    htc_task  *t = NULL;
    size_t     room = 0, n;
    htc_status status = htc_task_from_bytes(&w->env, from, &t);
    if (status != HTC_OK)
        return status == HTC_ENOMEM ? status : HTC_ECORRUPT;
    for (uint32_t i = 0; i < d->n_reads; i++)
        room += d->read[i].name.len + 1 + URI_LEN;
    htc_task   copy = *t;
    size_t     cap = t->n_in + d->n_reads;
    htc_stage *in = htc__alloc(&w->env, cap * sizeof *in);
    char      *texts = htc__alloc(&w->env, room), *text = texts;
    status = in && texts ? HTC_OK : HTC_ENOMEM;
    for (n = 0; status == HTC_OK && n < t->n_in; n++)
        in[n] = t->in[n];
    for (uint32_t i = 0; status == HTC_OK && i < d->n_reads; i++)
        if (d->read[i].known)
            in[n++] = input_of(&d->read[i], &text);
    copy.in = in;
    copy.n_in = n;
    if (status == HTC_OK)
        status = htc_task_to_bytes(&w->env, &copy, bytes);
    htc__free(&w->env, texts, room);
    htc__free(&w->env, in, cap * sizeof *in);
    htc_task_destroy(t);
    return status;
}

static void begin_with_inputs(htc_worker *w, running *x)
{
    htc_bytes bytes;
    if (!w->ahead && w->n_runs - x->slots >= w->options.slots) { /* it was to begin ahead, and that is over */
        htc__worker_give_up(w, x);
        return;
    }
    htc_status status = with_inputs(w, x->data, x->attempt.task, &bytes);
    if (status == HTC_OK) {
        status = htc__attempt_task(&w->holder, &x->attempt, bytes);
        htc_work_free(&w->env, bytes);
    }
    if (status == HTC_OK)
        htc__attempt_begin(&w->holder, &x->attempt, w->n_runs > w->options.slots);
    else
        htc_runtime_break(w->runtime, status, "bringing a task its inputs");
}

/* ---- looked up, wanted ---- */

/* Who is asked for it: whoever is to have it, or some of all. */
static uint32_t sources_of(const htc_worker *w, const data_read *r, uint64_t *workers)
{
    uint32_t n = 0, first = w->n_members ? (uint32_t)(w->id % w->n_members) : 0;
    if (!r->of_all) {
        workers[0] = r->object.worker;
        return htc__worker_peer(w, r->object.worker) != 0;
    }
    for (uint32_t i = 0; i < w->n_members && n < OBJECT_SOURCES_MAX; i++) {
        const member *m = &w->members[(first + i) % w->n_members];
        if (m->peer)
            workers[n++] = m->id;
    }
    return n;
}

static void look_up(htc_worker *w, running *x);

static void want(htc_worker *w, running *x)
{
    run_data    *d = x->data;
    uint32_t     n = 0;
    htc__object *objects = d->n_reads ? htc__alloc(&w->env, d->n_reads * sizeof *objects) : NULL;
    htc_status   status = objects || !d->n_reads ? HTC_OK : HTC_ENOMEM;
    d->needed = d->moved = 0;
    for (uint32_t i = 0; objects && i < d->n_reads; i++) {
        data_read *r = &d->read[i];
        if (!r->known)
            continue;
        r->n_workers = sources_of(w, r, r->workers);
        objects[n] = (htc__object){ .size = r->object.size, .workers = r->workers, .n_workers = r->n_workers };
        memcpy(objects[n++].hash, r->object.hash, sizeof r->object.hash);
        d->needed += r->object.size;
        d->moved += htc__objects_has(w->objects, r->object.hash) ? 0 : r->object.size;
    }
    if (status == HTC_OK && n) {
        status = htc__objects_want(w->objects, x->attempt.run, objects, n);
        d->wanted = status == HTC_OK;
    }
    htc__free(&w->env, objects, d->n_reads * sizeof *objects);
    if (status == HTC_EINVAL)
        htc__attempt_refuse(&w->holder, &x->attempt, HTC_EINPUT, 0, "what it reads is said to have two sizes");
    else if (status != HTC_OK)
        htc_runtime_break(w->runtime, status, "wanting what a task reads");
    else if (!n)
        begin_with_inputs(w, x);
}

typedef struct looks {
    uint64_t run;
    uint32_t n, which[READS_MAX];
} looks;

/* What its maker's record says. HTC_OK: it is known, absent, or lacking; HTC_EBUSY: its maker has not ended. */
static htc_status maker_says(const htc_worker *w, run_data *d, data_read *r, htc_bytes record)
{
    graph_task   t;
    graph_object o;
    if (htc__graph_read(record, &t) != HTC_OK)
        return HTC_ECORRUPT;
    if (!htc__graph_is_terminal(&t))
        return HTC_EBUSY;
    r->absent = t.state != GRAPH_DONE || htc__graph_made(&t, r->name, &o) != HTC_OK;
    if (r->absent)
        return HTC_OK;
    int same = r->lost && o.worker == r->object.worker && memcmp(o.hash, r->object.hash, sizeof o.hash) == 0;
    int may_have = o.worker != w->id && htc__worker_peer(w, o.worker) && r->losses < LOSSES_MAX;
    r->losses = same ? r->losses : 0;
    if (same && !may_have && !r->of_all && w->n_members) {
        r->of_all = 1;
    } else if (same && !may_have) {
        d->lacking = 1;
        d->lacks = r->maker;
        d->lost = o;
        return HTC_OK;
    }
    r->of_all &= same != 0;
    r->known = 1;
    r->lost = 0;
    r->object = o;
    return HTC_OK;
}

static void looked_up(void *role, void *ctx, const htc_kv_result *result)
{
    htc_worker *w = role;
    looks      *a = ctx;
    running    *x = htc__worker_run(w, a->run);
    run_data   *d = x ? x->data : NULL;
    data_read  *r = d ? &d->read[a->which[result->index]] : NULL;
    htc_status  status = result->status;
    int         last = result->last != 0;
    if (last)
        htc_runtime_context_free(w->runtime, a);
    if (!x || x->attempt.phase != ATTEMPT_WAITING)
        return;
    d->looks -= last != 0;
    if (status == HTC_OK)
        status = maker_says(w, d, r, result->value);
    else if (status == HTC_ENOTFOUND) {
        r->absent = 1;
        status = HTC_OK;
    }
    if (status == HTC_ECORRUPT)
        htc_runtime_break(w->runtime, status, "reading a task");
    else if (status == HTC_EBUSY)
        htc__attempt_refuse(&w->holder, &x->attempt, HTC_EINPUT, 1, "it reads what task %llu makes, and does not wait for it: name that behind after=",
                            (unsigned long long)r->maker);
    else if (status != HTC_OK)
        htc__worker_give_up(w, x);
    else if (last && !d->looks)
        look_up(w, x);
}

static void ask_makers(htc_worker *w, running *x, looks *a)
{
    htc_kv_request q[READS_MAX];
    flow_key       k[READS_MAX];
    for (uint32_t i = 0; i < a->n; i++) {
        k[i] = htc__flow_key_task(w->options.flow, x->data->read[a->which[i]].maker);
        q[i] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k[i]) };
    }
    x->data->looks++;
    htc_runtime_ask(w->runtime, q, a->n, looked_up, a);
}

/* When all of it is known it is wanted. */
static void look_up(htc_worker *w, running *x)
{
    run_data *d = x->data;
    looks    *a = NULL;
    if (d->lacking) {
        htc__worker_lacks(w, x, d->lacks, &d->lost);
        return;
    }
    for (uint32_t i = 0; i < d->n_reads; i++) {
        if (d->read[i].known || d->read[i].absent)
            continue;
        if (!a)
            a = htc_runtime_context(w->runtime, sizeof *a);
        if (!a)
            return;
        a->run = x->attempt.run;
        a->which[a->n++] = i;
        if (a->n == READS_MAX) {
            ask_makers(w, x, a);
            a = NULL;
        }
    }
    if (a)
        ask_makers(w, x, a);
    if (!d->looks)
        want(w, x);
}

void htc__worker_data_begin(htc_worker *w, running *x, const graph_task *t)
{
    htc_status status = data_new(w, x, t);
    if (status != HTC_OK)
        htc_runtime_break(w->runtime, status, "bringing a task its inputs");
    else
        look_up(w, x);
}

/* The which-th of those that were wanted. */
static data_read *wanted(run_data *d, uint32_t which)
{
    for (uint32_t i = 0; i < d->n_reads; i++)
        if (d->read[i].known && which-- == 0)
            return &d->read[i];
    return NULL;
}

static void inputs_ready(void *role, uint64_t run, htc_status status, uint32_t which)
{
    htc_worker *w = role;
    running    *x = htc__worker_run(w, run);
    if (!x || !x->data || x->attempt.phase != ATTEMPT_WAITING)
        return; /* what is forgotten has released its want; what was cancelled meanwhile does so when END is answered */
    data_read *r = wanted(x->data, which);
    if (status == HTC_OK) {
        begin_with_inputs(w, x);
        return;
    }
    x->data->wanted = 0;
    if (status == HTC_ELOST && r) {
        r->known = 0;
        r->lost = 1;
        r->losses++;
        look_up(w, x);
    } else if (status == HTC_EIO) { /* the node is at fault, as where staging fails so */
        htc__worker_give_up(w, x);
        w->holder.ops->node_failed(&w->holder, status, "what tasks read cannot be kept here");
    } else {
        htc__attempt_refuse(&w->holder, &x->attempt, status, 0, "what it reads cannot be brought to %s: %s", w->holder.node[0] ? w->holder.node : "this node",
                            status == HTC_ENOSPC ? "it is more than may be kept there, or the disk is full" : htc_strerror(status));
    }
}

int htc__worker_data_staged(htc_worker *w, running *x, const htc_input *in)
{
    node *n;
    if (in->op != HTC_CALL_STAGE_IN || !x->data || !x->data->wanted)
        return 0;
    int spoilt = in->status == HTC_ENOTFOUND || in->status == HTC_ECORRUPT;
    htc__objects_release(w->objects, x->attempt.run, spoilt);
    x->data->wanted = 0;
    uint8_t *times = x->remake ? htc__worker_remake_spoilt(w, x) : NULL;
    if (!x->remake && (n = htc__worker_node(w, x->id)) && n->run == x->attempt.run)
        times = &n->spoilt;
    if (!spoilt || !times || ++*times > SPOILT_MAX)
        return 0;
    htc__worker_give_up(w, x);
    return 1;
}

void htc__worker_data_read(const running *x, uint64_t *needed, uint64_t *moved)
{
    *needed = x->data ? x->data->needed : 0;
    *moved = x->data ? x->data->moved : 0;
}

/* ---- what it made ---- */

typedef struct keeping {
    uint64_t run;
    uint32_t which;
} keeping;

static void all_kept(htc_worker *w, running *x)
{
    if (x->remake)
        htc__worker_remade(w, x);
    else
        htc__worker_node_ended(w, htc__worker_node(w, x->id));
}

static void one_kept(htc_worker *w, running *x, const data_made *m, htc_status status)
{
    run_data *d = x->data;
    if (status != HTC_OK && !d->failed) {
        d->failed = 1;
        x->attempt.outcome.status = HTC_OK; /* or the words would stay those of before */
        htc__attempt_outcome_set(&w->holder, &x->attempt, HTC_ESTAGEOUT, "%.*s, which it made, could not be kept: %s", m->name.len < 100 ? (int)m->name.len : 100,
                                 (const char *)m->name.data, htc_strerror(status));
    }
    if (--d->unkept == 0)
        all_kept(w, x);
}

static void output_known(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_worker *w = role;
    keeping     k = *(keeping *)ctx;
    htc_reader  r = htc_reader_of(body);
    running    *x = htc__worker_run(w, k.run);
    char        name[HTC_OUTPUT_NAME_MAX];
    htc_runtime_context_free(w->runtime, ctx);
    if (!x || !x->data || x->data->failed)
        status = x && x->data ? HTC_ECANCELLED : HTC_EINVAL;
    if (status == HTC_EINVAL && (!x || !x->data))
        return;
    data_made *m = &x->data->made[k.which];
    if (status == HTC_OK) {
        htc_bytes hash = htc_get_raw(&r, sizeof m->object.hash);
        m->object.size = htc_get_u64(&r);
        m->object.worker = w->id;
        status = htc_reader_done(&r) == HTC_OK && m->name.len < sizeof name ? HTC_OK : HTC_EPROTO;
        if (status == HTC_OK) {
            memcpy(m->object.hash, hash.data, sizeof m->object.hash);
            memcpy(name, m->name.data, m->name.len);
            name[m->name.len] = 0;
            m->adopting = 1;
            status = htc__objects_made(w->objects, &x->attempt.id, name, m->object.hash, m->object.size);
        }
    }
    if (status == HTC_OK)
        return;
    m->adopting = 0;
    one_kept(w, x, m, status);
}

/* Several may wait for the same content: each answer is one's. */
static void object_made(void *role, const uint8_t hash[32], htc_status status)
{
    htc_worker *w = role;
    running    *x;
    DL_FOREACH(w->over_runs, x)
    for (uint32_t i = 0; x->data && i < x->data->n_makes; i++) {
        data_made *m = &x->data->made[i];
        if (!m->adopting || memcmp(m->object.hash, hash, sizeof m->object.hash) != 0)
            continue;
        m->adopting = 0;
        one_kept(w, x, m, status);
        return;
    }
}

int htc__worker_data_keep(htc_worker *w, running *x, const graph_task *t)
{
    uint64_t run = x->attempt.run;
    uint32_t n = htc__graph_n_makes(t);
    if (!n)
        return 0;
    htc_status status = x->data ? HTC_OK : data_new(w, x, t);
    if (status != HTC_OK || x->data->n_makes != n) {
        htc_runtime_break(w->runtime, status != HTC_OK ? status : HTC_ECORRUPT, "keeping what a task made");
        return 0;
    }
    x->data->unkept = n;
    for (uint32_t i = 0; i < n; i++) {
        keeping *k = htc_runtime_context(w->runtime, sizeof *k);
        if (!k)
            return 1;
        *k = (keeping){ run, i };
        htc_buf_clear(&w->buf);
        htc_write_attempt(&w->buf, &x->attempt.id);
        htc_put_bytes(&w->buf, x->data->made[i].name);
        if (htc__worker_written(w, "keeping what a task made"))
            htc_runtime_call(w->runtime, HTC_CALL_OBJECT_OUTPUT, htc_buf_bytes(&w->buf), output_known, k);
    }
    return 1;
}

void htc__worker_data_put_made(const running *x, htc_buf *b)
{
    for (uint32_t i = 0; x->data && i < x->data->n_makes; i++)
        htc__graph_put_made(b, &x->data->made[i].object);
}

/* ---- the objects of this worker ---- */

static uint32_t peer_of(void *role, uint64_t worker)
{
    return htc__worker_peer(role, worker);
}

void htc__worker_objects(htc_worker *w)
{
    htc__objects_options o = { .runtime = w->runtime, .role = w, .self = w->id, .scope = w->options.flow, .peer_of = peer_of, .ready = inputs_ready,
                               .made = object_made, .cache_bytes = w->options.cache_bytes };
    if (w->objects || !w->flow.data)
        return;
    htc_status status = htc__objects_create(&w->env, &o, &w->objects);
    if (status != HTC_OK)
        htc_runtime_break(w->runtime, status, "keeping what tasks make");
    else
        htc__objects_start(w->objects);
}

void htc__worker_objects_heard(htc_worker *w, uint32_t peer, uint16_t type, htc_reader *r)
{
    object_message m;
    if (w->objects) {
        htc__objects_heard(w->objects, peer, type, r);
    } else if (htc__object_read(r, type, &m) == HTC_OK && type == HTC_WIRE_OBJECT_ASK && m.scope == w->options.flow) {
        m.status = HTC_EBUSY; /* what is here is not known yet */
        htc__object_write(&w->buf, HTC_WIRE_OBJECT_NONE, &m);
        htc_runtime_send(w->runtime, peer, &w->buf);
    }
}

void htc__worker_objects_end(htc_worker *w)
{
    if (w->objects)
        htc__objects_unpin(w->objects, w->flow.job ? w->flow.job : w->options.flow);
}
