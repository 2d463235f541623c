/* What attempts take of what their site counts (counted.h): from the grant until the result, or until the process of a lost agent is gone, or until
 * an agent that was told to end its part of a gang says that it has. As long as anything is owed, memory stays reserved too.
 *
 * What an attempt has, and at which agent, stands in a record of its own, written before its chunk's. A gateway that starts again gives it to
 * nobody else, also if the attempt was lost: then its agent owes it until the agent says that it does not have the attempt, or is gone. What an attempt
 * reserves of memory follows from its lease; one that is lost without anything else has a record from then on. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

/* The record: u8 HOLD_MEMORY, count of agents (more than one: a gang, the leader first), of each u64, u64 its devices and varint bytes of memory, then
 * what each of them takes: count, of each name and count. Where no memory is counted u8 HOLD, without these; of a gang that takes nothing then u8 GANG,
 * count of agents, u64 each. Earlier versions wrote, of one agent, u8 DEVICES, u64 devices, and of a gang with devices u8 GANG_DEVICES, count of
 * agents, of each u64 and u64 its devices. */
#define DEVICES 1
#define GANG    2
#define GANG_DEVICES 3
#define HOLD    4
#define HOLD_MEMORY 5

#define ATTEMPT_BYTES (offsetof(htc_attempt, attempt) + sizeof(uint32_t)) /* as a key: no padding after them */

/* A record that a new start has read, of an attempt that nobody holds yet. */
struct hold_left {
    htc_attempt    attempt;
    uint64_t       version;
    counted_need   need; /* of each agent */
    UT_hash_handle hh;
    uint32_t       n; /* agents; 0: not known which one, and its devices are the first */
    struct {
        uint64_t agent, devices, memory;
    } of[];
};

/* An attempt of which agents owe something. */
struct owed_attempt {
    htc_attempt    attempt;
    uint32_t       n; /* holds */
    UT_hash_handle hh;
};

/* ---- does it fit ---- */

static int could_at(const htc_gateway *gw, size_t at, const counted_need *need)
{
    return gw->site_nodes[at].unknown || !htc__counted_never(&gw->sites[at].counted, need);
}

static int could_somewhere(const htc_gateway *gw, const counted_need *need)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (could_at(gw, i, need))
            return 1;
    return 0;
}

void htc__gw_counted_waits(htc_gateway *gw, job *j)
{
    if (!j->counted_since) {
        j->counted_since = gw->now;
        htc__gw_reallocate_soon(gw); /* it asks for no slot any more */
    }
    gw->counted_waits = 1;
}

int htc__gw_counted_fits(htc_gateway *gw, size_t at, job *j, const counted_need *need)
{
    if (!need->n || !htc__counted_lacks(&gw->sites[at].counted, j->id, need))
        return 1;
    if (!could_somewhere(gw, need))
        return 1; /* it fails when it is handed out, and says why */
    htc__gw_counted_waits(gw, j);
    return 0;
}

/* ---- room for those who have waited for long ---- */

static job *longest_wait(htc_gateway *gw, size_t at)
{
    job *best = NULL;
    for (job *j = gw->jobs; j; j = j->hh.next) {
        int kept = 0;
        if (!j->counted_since || gw->now < j->counted_since + gw->options.memory_wait_ns || !j->in_ready || !htc__gw_quota_room(j) || !htc__gw_job_may(gw, j, at) ||
            !htc__gw_site_serves(gw, j->user, at))
            continue;
        htc__gw_job_needs(gw, j);
        for (size_t i = 0; i < gw->n_sites; i++)
            kept |= gw->sites[i].counted.kept_for == j->id;
        if (kept || htc__counted_never(&gw->sites[at].counted, &j->counts))
            continue;
        if (!best || j->counted_since < best->counted_since || (j->counted_since == best->counted_since && j->id < best->id))
            best = j;
    }
    return best;
}

/* The one that room is kept for may have been given a task elsewhere, or be gone, or its next task asks for something else. */
static void keep_at(htc_gateway *gw, size_t at)
{
    counted_pool *c = &gw->sites[at].counted;
    job     *j = c->kept_for ? htc__gw_job(gw, c->kept_for) : NULL;
    if (j)
        htc__gw_job_needs(gw, j);
    if (!j || !j->counted_since || !j->in_ready || !htc__gw_quota_room(j) || !htc__gw_job_may(gw, j, at) || htc__counted_never(c, &j->counts))
        j = gw->counted_waits ? longest_wait(gw, at) : NULL;
    htc__counted_keep(c, j ? j->id : 0, j ? &j->counts : NULL);
}

void htc__gw_counted_keep(htc_gateway *gw)
{
    int waits = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].counted.n)
            keep_at(gw, i);
    for (const job *j = gw->counted_waits ? gw->jobs : NULL; j && !waits; j = j->hh.next)
        waits = j->counted_since != 0;
    gw->counted_waits = waits != 0;
}

void htc__gw_counted_handed(htc_gateway *gw, job *j)
{
    j->counted_since = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].counted.kept_for == j->id) {
            htc__counted_keep(&gw->sites[i].counted, 0, NULL);
            htc__gw_reallocate_soon(gw);
        }
}

/* ---- taking and giving back ---- */

static task_hold *taken_new(htc_gateway *gw, uint32_t at, const htc_attempt *attempt, const counted_need *need)
{
    task_hold *k = htc__alloc(&gw->env, sizeof *k);
    if (!k) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what a task takes");
        return NULL;
    }
    htc__counted_need_copy(&k->need, need);
    k->site = at;
    k->attempt = *attempt;
    return k;
}

task_hold *htc__gw_take(htc_gateway *gw, uint32_t at, const htc_attempt *attempt, const counted_need *need)
{
    task_hold *k = need->n ? taken_new(gw, at, attempt, need) : NULL;
    if (k)
        k->devices = htc__counted_take(&gw->sites[at].counted, need);
    return k;
}

void htc__gw_hold_write(htc_buf *b, uint32_t n, const uint64_t *agents, const uint64_t *devices, const uint64_t *bytes, const counted_need *need)
{
    uint8_t form = need->n ? HOLD : GANG;
    for (uint32_t i = 0; i < n; i++)
        form = bytes[i] ? HOLD_MEMORY : form;
    htc_put_u8(b, form);
    htc_put_varint(b, n);
    for (uint32_t i = 0; i < n; i++) {
        htc_put_u64(b, agents[i]);
        if (form != GANG)
            htc_put_u64(b, devices[i]);
        if (form == HOLD_MEMORY)
            htc_put_varint(b, bytes[i]);
    }
    if (form != GANG)
        htc_put_varint(b, need->n);
    for (uint32_t i = 0; i < need->n; i++) {
        htc_put_str(b, need->of[i].name);
        htc_put_varint(b, need->of[i].count);
    }
}

void htc__gw_taken_note(htc_gateway *gw, chunk *c, uint64_t agent_id, const task_hold *k)
{
    htc_buf b;
    if (!k)
        return;
    htc_buf_init(&b, &gw->env, 0);
    htc__gw_hold_write(&b, 1, &agent_id, &k->devices, &k->memory, &k->need);
    htc__gw_chunk_put(gw, c, htc__gw_key_taken(&k->attempt), &b);
    htc_buf_free(&b);
}

typedef struct forgetting {
    htc_attempt attempt;
    uint64_t    version; /* of its record; 0: not known */
} forgetting;

static int same(const htc_attempt *a, const htc_attempt *b)
{
    return a->job == b->job && a->task == b->task && a->attempt == b->attempt;
}

static hold_left *left_of(const htc_gateway *gw, const htc_attempt *at)
{
    hold_left *l;
    HASH_FIND(hh, gw->found, at, ATTEMPT_BYTES, l);
    return l;
}

static owed_attempt *owed_of(const htc_gateway *gw, const htc_attempt *at)
{
    owed_attempt *o;
    HASH_FIND(hh, gw->owed, at, ATTEMPT_BYTES, o);
    return o;
}

/* Of a gang one agent may be lost while the others have ended: all of them are in one record. What a new start has found is not settled yet: its
 * sweep notes who owes it, or forgets it. */
static int is_owed(const htc_gateway *gw, const htc_attempt *at)
{
    return owed_of(gw, at) || left_of(gw, at);
}

static void may_forget(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    forgetting  *f = ctx;
    if (status == HTC_OK && !is_owed(gw, &f->attempt))
        htc__gw_delete(gw, htc__gw_key_taken(&f->attempt));
    if (status != HTC_ECLOSED)
        htc_runtime_context_free(gw->runtime, ctx);
}

static void is_durable(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    forgetting  *f = ctx;
    if (status == HTC_OK && !f->version) {
        htc__gw_confirm(gw, may_forget, f); /* which frees it, perhaps at once */
        return;
    }
    if (status == HTC_OK && !is_owed(gw, &f->attempt))
        htc__gw_delete_of(gw, htc__gw_key_taken(&f->attempt), f->version);
    if (status != HTC_ECLOSED)
        htc_runtime_context_free(gw->runtime, f);
}

/* First the chunk has to say that the attempt has ended: a gateway that starts before that would go on with it, without knowing what it has. And where other
 * gateways may be, one whose term is over may be wrong about who has what. */
void htc__gw_taken_forget(htc_gateway *gw, const htc_attempt *at, uint64_t version)
{
    forgetting *f = htc_runtime_context(gw->runtime, sizeof *f);
    if (!f)
        return;
    *f = (forgetting){ *at, version };
    if (HTC__BROKEN(gateway_forgets_early))
        is_durable(gw, f, HTC_OK);
    else
        htc__gw_task_durable(gw, at, is_durable, f);
}

void htc__gw_taken_end(htc_gateway *gw, task_hold *k)
{
    if (!k)
        return;
    htc__counted_give_back(&gw->sites[k->site].counted, &k->need, k->devices);
    htc__gw_taken_forget(gw, &k->attempt, 0);
    htc__free(&gw->env, k, sizeof *k);
    htc__gw_reallocate_soon(gw);
}

static void add_owed(htc_gateway *gw, agent *a, task_hold *k)
{
    owed_attempt *o = owed_of(gw, &k->attempt);
    if (!o && (o = htc__alloc(&gw->env, sizeof *o)) != NULL) {
        o->attempt = k->attempt;
        HASH_ADD(hh, gw->owed, attempt, ATTEMPT_BYTES, o);
    }
    if (o)
        o->n++;
    else
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what a lost task had");
    k->next = a->owed;
    a->owed = k;
    htc__gw_memory_reserve(gw, a);
}

/* The record of an attempt that has none, before its chunk says that it is lost. A gang has one, of all its members. */
static void note_lost(htc_gateway *gw, const agent *a, const task_hold *k)
{
    if (htc__gw_gang_leader(gw, &k->attempt))
        return;
    job         *j = htc__gw_job(gw, k->attempt.job);
    chunk       *c = j && k->attempt.task < j->count ? htc__gw_chunk(j, k->attempt.task / CHUNK_TASKS) : NULL;
    const task *t = c ? &c->tasks[k->attempt.task % CHUNK_TASKS] : NULL;
    if (t && t->state == TASK_LEASED && t->attempt == k->attempt.attempt && t->agent == a->id)
        htc__gw_taken_note(gw, c, a->id, k);
}

/* As long as its processes may run, nobody else has them. */
void htc__gw_taken_owe(htc_gateway *gw, agent *a, const held *h, int lost)
{
    const counted_need nothing = { 0 };
    uint64_t           bytes = gw->sites[a->site].memory.total ? h->memory : 0;
    task_hold         *k = h->taken ? h->taken : bytes ? taken_new(gw, a->site, &h->attempt, &nothing) : NULL;
    if (!k)
        return;
    k->memory = bytes;
    k->grant = lost ? 0 : h->grant;
    if (lost && !h->taken)
        note_lost(gw, a, k);
    add_owed(gw, a, k);
}

void htc__gw_taken_owe_again(htc_gateway *gw, agent *a, const htc_attempt *at, uint64_t bytes)
{
    if (!left_of(gw, at)) /* else that says what it is */
        htc__gw_taken_owe(gw, a, &(held){ .attempt = *at, .memory = bytes }, 1);
}

static void owes_less(htc_gateway *gw, const htc_attempt *at)
{
    owed_attempt *o = owed_of(gw, at);
    assert(!o || o->n > 0); /* none: memory was short */
    if (!o || --o->n)
        return;
    HASH_DEL(gw->owed, o);
    htc__free(&gw->env, o, sizeof *o);
}

static void settle(htc_gateway *gw, task_hold **at)
{
    task_hold *k = *at;
    *at = k->next;
    owes_less(gw, &k->attempt);
    htc__gw_taken_end(gw, k);
}

void htc__gw_taken_settle(htc_gateway *gw, agent *a)
{
    while (a->owed)
        settle(gw, &a->owed);
    htc__gw_memory_reserve(gw, a);
}

/* One that does not have an attempt may still get it, by a grant that was on its way. */
void htc__gw_taken_heard(htc_gateway *gw, agent *a, const htc_heartbeat *m)
{
    task_hold **at = &a->owed;
    while (*at) {
        if (!htc__gw_listed(&m->held, &(*at)->attempt) && (*at)->grant <= m->last_grant)
            settle(gw, at);
        else
            at = &(*at)->next;
    }
    htc__gw_memory_reserve(gw, a);
}

void htc__gw_taken_free(htc_gateway *gw, agent *a)
{
    for (uint32_t i = 0; i < a->n_held; i++)
        htc__free(&gw->env, a->held[i].taken, sizeof *a->held[i].taken);
    while (a->owed) {
        task_hold *k = a->owed;
        a->owed = k->next;
        owes_less(gw, &k->attempt);
        htc__free(&gw->env, k, sizeof *k);
    }
}

/* ---- a new start ---- */

static int read_hex(const char *text, size_t digits, uint64_t *out)
{
    char  copy[17], *end;
    memcpy(copy, text, digits);
    copy[digits] = '\0';
    *out = strtoull(copy, &end, 16);
    return *end == '\0';
}

static void need_read(htc_reader *r, uint64_t least, counted_need *need)
{
    uint64_t n = htc_get_varint(r);
    if (n < least || n > HTC_TASK_RESOURCES_MAX)
        htc_reader_fail(r);
    for (need->n = 0; r->status == HTC_OK && need->n < n; need->n++) {
        char *name = need->names[need->n];
        htc_get_str(r, name, sizeof need->names[0]);
        uint64_t count = htc_get_varint(r);
        need->of[need->n] = (htc_resource){ name, (uint32_t)count };
        if (!name[0] || count < 1 || count > UINT32_MAX)
            htc_reader_fail(r);
    }
}

static void agents_read(htc_reader *r, uint8_t form, hold_found *f)
{
    size_t count = htc_get_count(r, form == GANG ? 8 : form == HOLD_MEMORY ? 17 : 16);
    if (count < (form == HOLD || form == HOLD_MEMORY ? 1 : 2) || count > HTC_TASK_NODES_MAX)
        htc_reader_fail(r);
    uint64_t any = 0;
    for (f->n = 0; r->status == HTC_OK && f->n < count; f->n++) {
        f->agents[f->n] = htc_get_u64(r);
        f->devices[f->n] = form == GANG ? 0 : htc_get_u64(r);
        f->memory[f->n] = form == HOLD_MEMORY ? htc_get_varint(r) : 0;
        any |= f->memory[f->n];
    }
    if (form == HOLD_MEMORY && !any)
        htc_reader_fail(r); /* it would be another form */
    else if (form == HOLD || form == HOLD_MEMORY)
        need_read(r, form == HOLD, &f->need);
    else if (form == GANG_DEVICES && !f->devices[0])
        htc_reader_fail(r); /* it would be the other form */
    else if (form == GANG_DEVICES) /* each has as many of them; what else it takes is not known */
        htc__counted_need(&f->need, &(htc_resource){ HTC_RESOURCE_GPU, (uint32_t)__builtin_popcountll(f->devices[0]) }, 1);
}

htc_status htc__gw_taken_read(htc_bytes name, htc_bytes value, hold_found *f)
{
    uint64_t    n = 0;
    const char *text = name.data;
    htc_reader  r = htc_reader_of(value);
    *f = (hold_found){ .n = 0 };
    if (name.len != 2 + 16 + 1 + 16 + 1 + 8 || !read_hex(text + 2, 16, &f->attempt.job) || !read_hex(text + 19, 16, &f->attempt.task) || !read_hex(text + 36, 8, &n))
        return HTC_ECORRUPT;
    f->attempt.attempt = (uint32_t)n;
    uint8_t form = htc_get_u8(&r);
    if (form == DEVICES)
        f->devices[0] = htc_get_u64(&r); /* whose they are is not known */
    else if (form == GANG || form == GANG_DEVICES || form == HOLD || form == HOLD_MEMORY)
        agents_read(&r, form, f);
    else
        return HTC_ECORRUPT;
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

void htc__gw_taken_found(htc_gateway *gw, const htc_kv_item *item)
{
    hold_found f;
    if (htc__gw_taken_read(item->key, item->value, &f) != HTC_OK) {
        htc__gw_unreadable(gw, "reading what a task has taken");
        return;
    }
    uint32_t   n = f.n ? f.n : 1;
    hold_left *l = htc__alloc(&gw->env, sizeof *l + n * sizeof l->of[0]);
    if (!l) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading what tasks have taken");
        return;
    }
    l->attempt = f.attempt;
    l->version = item->version;
    htc__counted_need_copy(&l->need, &f.need);
    l->n = f.n;
    for (uint32_t i = 0; i < n; i++) {
        l->of[i].agent = f.agents[i];
        l->of[i].devices = f.devices[i];
        l->of[i].memory = f.memory[i];
    }
    HASH_ADD(hh, gw->found, attempt, ATTEMPT_BYTES, l);
}

static void left_free(htc_gateway *gw, hold_left *l)
{
    HASH_DEL(gw->found, l);
    htc__free(&gw->env, l, sizeof *l + (l->n ? l->n : 1) * sizeof l->of[0]);
}

void htc__gw_taken_claim(htc_gateway *gw, const htc_attempt *at)
{
    hold_left *l = left_of(gw, at);
    if (l)
        left_free(gw, l);
}

int htc__gw_gang_found(htc_gateway *gw, gang *g)
{
    const hold_left *l = left_of(gw, &g->attempt);
    if (!l)
        return 0;
    g->n = l->n;
    for (uint32_t i = 0; i < l->n; i++) {
        g->agents[i] = l->of[i].agent;
        g->devices[i] = l->of[i].devices;
    }
    return 1;
}

/* One that takes nothing may have a record, of a loss that was not written: it goes when the attempt ends. */
void htc__gw_take_again(htc_gateway *gw, agent *a, const htc_attempt *at, const counted_need *need)
{
    hold_left *l = left_of(gw, at);
    if (need->n || l)
        htc__gw_retake(gw, a, at, need, need->n && l ? l->of[0].devices : 0);
    if (l)
        left_free(gw, l);
}

void htc__gw_retake(htc_gateway *gw, agent *a, const htc_attempt *at, const counted_need *need, uint64_t devices)
{
    held      *h = htc__gw_agent_held(a, at);
    task_hold *k = h ? taken_new(gw, a->site, at, need) : NULL;
    if (!k)
        return;
    k->devices = devices;
    htc__counted_retake(&gw->sites[a->site].counted, need, k->devices);
    h->taken = k;
}

static int owes_already(const agent *a, const htc_attempt *at)
{
    for (const task_hold *k = a->owed; k; k = k->next)
        if (same(&k->attempt, at))
            return 1;
    return 0;
}

/* Of an attempt that has ended or is lost. Its processes may still run at an agent that is not gone. If another attempt has one of its devices, or it had
 * nothing but memory and there is too little beside what others have reserved, it had ended, and only its record was still to be deleted. That memory is
 * short says nothing of its devices: the site may have less than before. NULL: this agent owes nothing of it. */
static task_hold *hold_again(htc_gateway *gw, const agent *a, const hold_left *l, uint32_t i)
{
    uint64_t bytes = l->of[i].memory, room = htc__gw_memory_room(gw, a);
    if ((gw->sites[a->site].counted.devices & l->of[i].devices) || (!l->need.n && (bytes == 0 || bytes > room)))
        return NULL;
    task_hold *k = taken_new(gw, a->site, &l->attempt, &l->need);
    if (!k)
        return NULL;
    k->devices = l->of[i].devices;
    k->memory = bytes < room ? bytes : room;
    htc__counted_retake(&gw->sites[a->site].counted, &k->need, k->devices);
    return k;
}

/* 0: nobody owes anything of it. */
static int owe_again(htc_gateway *gw, const hold_left *l)
{
    int owes = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        agent     *a = htc__gw_agent(gw, l->of[i].agent);
        int        already = a && owes_already(a, &l->attempt); /* a gang is not whole any more */
        task_hold *k = a && !already ? hold_again(gw, a, l, i) : NULL;
        if (k)
            add_owed(gw, a, k);
        owes |= already || k;
    }
    return owes;
}

/* Of two that nobody holds and that have one device, the one that was written first has ended. A store of one member, and etcd, count their versions
 * over all keys. Those of a store of several members tell nothing of two keys: there any of the two is taken. */
static int newest_first(const hold_left *a, const hold_left *b)
{
    return a->version < b->version ? 1 : a->version > b->version ? -1 : 0;
}

/* What is left is of attempts that nobody holds any more. */
void htc__gw_taken_sweep(htc_gateway *gw, int forget)
{
    hold_left *l, *next;
    HASH_SORT(gw->found, newest_first);
    HASH_ITER(hh, gw->found, l, next)
    {
        if (forget && !owe_again(gw, l))
            htc__gw_taken_forget(gw, &l->attempt, l->version);
        left_free(gw, l);
    }
}

/* ---- the books ---- */

typedef struct sums {
    uint32_t used[COUNTED_MAX];
    uint64_t devices;
    int      twice; /* one device */
} sums;

static void add_up(sums *s, const counted_pool *c, uint32_t at, const task_hold *k)
{
    if (!k || k->site != at)
        return;
    s->twice |= (s->devices & k->devices) != 0;
    s->devices |= k->devices;
    for (uint32_t x = 0; x < c->n; x++)
        for (uint32_t y = 0; y < k->need.n; y++)
            s->used[x] += strcmp(c->at[x].name, k->need.names[y]) == 0 ? k->need.of[y].count : 0;
}

const char *htc__gw_taken_audit(const htc_gateway *gw)
{
    for (uint32_t i = 0; i < gw->n_sites; i++) {
        const counted_pool *c = &gw->sites[i].counted;
        sums                s = { .twice = 0 };
        for (const agent *a = gw->agents; a; a = a->hh.next) {
            for (uint32_t n = 0; n < a->n_held; n++)
                add_up(&s, c, i, a->held[n].taken);
            for (const task_hold *k = a->owed; k; k = k->next)
                add_up(&s, c, i, k);
        }
        if (s.twice)
            return "two tasks have one device";
        if (s.devices != c->devices)
            return "the devices that tasks have are not those that are taken";
        for (uint32_t x = 0; x < c->n; x++)
            if (s.used[x] != c->at[x].used)
                return "what tasks take of a counted resource is not what is counted";
    }
    return NULL;
}
