/* Partition controllers, message by message: a controller and the life of its jobs. Where a job looks for nodes is htc_balance_step's decision, which nodes it takes
 * that of htc_record_take; the store compares and swaps. */
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "sim/scenarios/jobs_exact.h"

#define WAITS_MAX 64 /* that are over at once, one after the other */

/* ---- places of jobs ---- */

static size_t bytes_of_job(const jobs_exact *x)
{
    return sizeof(jobs_exact_job) + x->m.parts * sizeof(uint32_t);
}

static htc_status more_room(jobs_exact_caller *c)
{
    uint32_t         room = c->room ? 2 * c->room : 16;
    jobs_exact_job **job = htc__resize_raw(&c->x->t.memory.env, c->job, c->room * sizeof *job, room * sizeof *job);
    if (!job)
        return HTC_ENOMEM;
    c->job = job;
    c->room = room;
    return HTC_OK;
}

static htc_status job_open(jobs_exact_caller *c, uint32_t *place)
{
    const htc_env *env = &c->x->t.memory.env;
    if (c->free_job != JOBS_NONE) {
        *place = c->free_job;
        c->free_job = c->job[*place]->next;
        return HTC_OK;
    }
    if (c->jobs == c->room && more_room(c) != HTC_OK)
        return HTC_ENOMEM;
    jobs_exact_job *j = htc__alloc(env, bytes_of_job(c->x));
    if (!j)
        return HTC_ENOMEM;
    c->job[*place = c->jobs++] = j;
    return htc_record_set_create(env, &j->got);
}

static void job_close(jobs_exact_caller *c, uint32_t place)
{
    c->job[place]->phase = JOBS_EXACT_FREE;
    c->job[place]->next = c->free_job;
    c->free_job = place;
}

static htc_status later(jobs_exact_caller *c, uint32_t place, htc_ns span, jobs_exact_phase phase)
{
    c->job[place]->phase = phase;
    return htc_sim_event(c->node, span, JOBS_EXACT_JOB + place, HTC_OK, (htc_bytes){ 0 });
}

/* ---- taking and giving back ---- */

static htc_status ask(jobs_exact_caller *c, uint32_t place, const htc_kv_request *q, jobs_exact_phase phase)
{
    jobs_exact_job *j = c->job[place];
    j->phase = phase;
    j->asked++;
    c->x->m.now.requests++;
    return htc__jobs_exact_ask(c, j->target, q, JOBS_EXACT_JOB + place);
}

static htc_status look(jobs_exact_caller *c, uint32_t place, uint32_t partition)
{
    char key[JOBS_EXACT_KEY];
    c->job[place]->target = partition;
    htc__jobs_exact_key(key, "partition", partition);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = htc_bytes_of(key) };
    return ask(c, place, &q, JOBS_EXACT_LOOKED);
}

static htc_status give_next(jobs_exact_caller *c, uint32_t place)
{
    jobs_exact_job *j = c->job[place];
    uint32_t        p = 0;
    while (p < c->x->m.parts && !j->held[p])
        p++;
    if (p == c->x->m.parts)
        return htc__twin_refuse(&c->x->t, HTC_EINTERNAL, "job %llu holds nothing and gives back", (unsigned long long)j->number);
    j->gives = 1;
    j->given = 0;
    return look(c, place, p);
}

static htc_status take(jobs_exact_caller *c, const jobs_exact_job *j, htc_bytes record, htc_bytes name, htc_bytes *next)
{
    htc_record_ask wanted = HTC_RECORD_ASK_INIT;
    wanted.job = name;
    wanted.attempt = 1;
    wanted.most = j->want;
    wanted.least = 1;
    return htc_record_take(&c->x->t.memory.env, record, &wanted, next, j->got);
}

/* From the moment at which it is said on, whoever the store lets may have them. */
static void book_given(jobs_exact_caller *c, jobs_exact_job *j)
{
    jobs    *m = &c->x->m;
    uint32_t given;
    if (j->given++)
        return;
    htc__jobs_move_nodes(m, j->got, j->target, 0, &given);
    m->taken -= given;
    if (given != j->held[j->target] && !m->wrong[0])
        snprintf(m->wrong, sizeof m->wrong, "job %llu gives back %u nodes of partition %u, and took %u", (unsigned long long)j->number, given, j->target, j->held[j->target]);
}

static htc_status step(jobs_exact_caller *c, uint32_t place, const htc_balance_answer *got);

static htc_status took(jobs_exact_caller *c, uint32_t place, uint32_t taken)
{
    jobs_exact_job    *j = c->job[place];
    htc_balance_answer got = { .taken = taken, .free = j->free };
    j->holdings += taken && !j->held[j->target];
    j->held[j->target] += taken;
    return step(c, place, &got);
}

/* The next record is a pure function of the one that was seen. */
static htc_status swap(jobs_exact_caller *c, uint32_t place, htc_bytes record, uint64_t version)
{
    jobs_exact_job *j = c->job[place];
    jobs_exact     *x = c->x;
    char            key[JOBS_EXACT_KEY], name[JOBS_EXACT_KEY];
    htc_bytes       next = { 0 };
    htc__jobs_exact_key(key, "partition", j->target);
    htc__jobs_exact_key(name, "job", j->number);
    htc_status status = htc__jobs_exact_free_in(x, record, &j->free);
    if (status != HTC_OK)
        return status;
    status = j->gives ? htc_record_release(&x->t.memory.env, record, htc_bytes_of(name), 1, &next, j->got) : take(c, j, record, htc_bytes_of(name), &next);
    if (status == HTC_AGAIN)
        return took(c, place, 0);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "job %llu cannot %s nodes of partition %u: %s", (unsigned long long)j->number, j->gives ? "give back" : "take", j->target, htc_strerror(status));
    j->taken = htc_record_set_count(j->got);
    if (j->gives)
        book_given(c, j);
    status = htc__jobs_exact_free_in(x, next, &j->free);
    htc_kv_request q = { .size = sizeof q, .op = HTC__BROKEN(swap_unseen) ? HTC_KV_PUT : HTC_KV_CAS_VERSION, .key = htc_bytes_of(key), .value = next, .version = HTC__BROKEN(swap_unseen) ? 0 : version };
    if (status == HTC_OK)
        status = ask(c, place, &q, JOBS_EXACT_SWAPPED);
    htc_record_free(&x->t.memory.env, next);
    return status;
}

static htc_status over(jobs_exact_caller *c, uint32_t place)
{
    c->x->m.ended++;
    job_close(c, place);
    return HTC_OK;
}

static htc_status gave(jobs_exact_caller *c, uint32_t place)
{
    jobs_exact_job *j = c->job[place];
    j->held[j->target] = 0;
    j->holdings--;
    htc_status status = htc_balance_learn(c->balance, j->target, j->free);
    if (status != HTC_OK || (j->holdings && !(HTC__BROKEN(part_not_given) && !j->request)))
        return status != HTC_OK ? status : give_next(c, place);
    if (!j->request)
        return over(c, place);
    j->gives = 0;
    return step(c, place, NULL);
}

static htc_status swapped(jobs_exact_caller *c, uint32_t place, const htc_kv_result *r)
{
    jobs_exact_job *j = c->job[place];
    jobs           *m = &c->x->m;
    m->now.swaps++;
    m->now.conflicts += r->status == HTC_MISMATCH;
    if (r->status == HTC_MISMATCH)
        return swap(c, place, r->value, r->version);
    if (j->gives)
        return gave(c, place);
    htc__jobs_move_nodes(m, j->got, j->target, 1, &j->taken);
    m->taken += j->taken;
    return took(c, place, j->taken);
}

/* ---- a job's life ---- */

/* Its id, its id and origin, and one for each partition that takes part. They lie anywhere. */
static htc_status write_next(jobs_exact_caller *c, uint32_t place)
{
    jobs_exact_job *j = c->job[place];
    char            key[JOBS_EXACT_KEY], value[16];
    uint32_t        at = 2 + j->holdings - j->want, p = 0;
    snprintf(value, sizeof value, "%u", (unsigned)c->number);
    if (at == 0)
        htc__jobs_exact_key(key, "job", j->number);
    else if (at == 1)
        snprintf(key, sizeof key, "job/%llu/%u", (unsigned long long)j->number, (unsigned)c->number);
    else {
        for (uint32_t seen = 0; seen < at - 1; p++)
            seen += j->held[p] > 0;
        snprintf(key, sizeof key, "job/%llu/%u/%u", (unsigned long long)j->number, (unsigned)c->number, (unsigned)(p - 1));
    }
    j->target = htc__jobs_place(&c->x->m, j->number, j->want);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = htc_bytes_of(value) };
    return ask(c, place, &q, JOBS_EXACT_WRITTEN);
}

static htc_status has_nodes(jobs_exact_caller *c, uint32_t place)
{
    jobs_exact_job      *j = c->job[place];
    htc_balance_progress p;
    if (htc_balance_progress_of(j->request, &p) == HTC_OK) {
        c->x->m.now.steals += p.steals;
        c->x->m.now.rounds += p.rounds;
    }
    htc_balance_end(j->request);
    j->request = NULL;
    j->want = 2 + j->holdings;
    return write_next(c, place);
}

static htc_status step(jobs_exact_caller *c, uint32_t place, const htc_balance_answer *got)
{
    jobs_exact_job    *j = c->job[place];
    htc_balance_action a = { 0 };
    for (uint32_t waits = 0; waits < WAITS_MAX; waits++) {
        htc_status status = htc_balance_step(j->request, htc__twin_now(&c->x->t), &c->rng, got, &a);
        if (status != HTC_OK)
            return htc__twin_refuse(&c->x->t, status, "a controller cannot go on: %s", htc_strerror(status));
        got = NULL;
        switch ((htc_balance_kind)a.kind) {
        case HTC_BALANCE_TAKE:
            j->want = a.nodes;
            return look(c, place, a.partition);
        case HTC_BALANCE_RELEASE:
            return give_next(c, place);
        case HTC_BALANCE_WAIT:
            if (a.until > htc__twin_now(&c->x->t))
                return later(c, place, a.until - htc__twin_now(&c->x->t), JOBS_EXACT_WAITED);
            break;
        case HTC_BALANCE_DONE:
            return has_nodes(c, place);
        case HTC_BALANCE_LOOK:
        case HTC_BALANCE_PUBLISH:
        default:
            return HTC_EINTERNAL;
        }
    }
    return htc__twin_refuse(&c->x->t, HTC_EINTERNAL, "waits end at once");
}

/* The controller begins with a job when it is there, and with one after the other. */
static htc_status begin(jobs_exact_caller *c, uint64_t number, uint32_t need, uint64_t length, htc_ns at)
{
    jobs      *m = &c->x->m;
    jobs_part *part = &m->part[c->number];
    uint32_t   place = JOBS_NONE;
    htc_status status = job_open(c, &place);
    if (status != HTC_OK)
        return status;
    jobs_exact_job *j = c->job[place];
    *j = (jobs_exact_job){ .number = number, .need = need, .length = length, .begun = at, .got = j->got };
    memset(j->held, 0, m->parts * sizeof *j->held);
    m->now.submitted++;
    part->busy = (part->busy > at ? part->busy : at) + m->options.job_ns + m->options.node_ns * need;
    return later(c, place, part->busy - htc__twin_now(&c->x->t), JOBS_EXACT_PARSED);
}

static htc_status next_of_source(jobs_exact_caller *c)
{
    jobs            *m = &c->x->m;
    htc_sim_jobs_job j = { .size = sizeof j };
    htc_ns           now = htc__twin_now(&c->x->t);
    if (m->jobs != HTC_SIM_JOBS_MAX)
        return HTC_OK;
    htc_status status = m->options.next_job(m->options.ctx, &j);
    if (status == HTC_AGAIN) { /* now it is known how many there are */
        m->left -= m->jobs - m->now.submitted;
        m->jobs = m->now.submitted;
        return HTC_OK;
    }
    if (status != HTC_OK)
        return htc__twin_refuse(&c->x->t, status, "the source of jobs: %s", htc_strerror(status));
    if (j.nodes < 1 || j.nodes > m->usable || j.arrival < c->x->source_at || m->now.submitted + 1 == HTC_SIM_JOBS_MAX)
        return htc__twin_refuse(&c->x->t, HTC_EINVAL, "job %llu of the source needs %u nodes, of which there are %llu, or arrives before the one before it",
                                    (unsigned long long)m->now.submitted, j.nodes, (unsigned long long)m->usable);
    c->x->source_at = j.arrival;
    return begin(c, m->now.submitted, j.nodes, htc__scale_rounded(j.length, m->tick_ns), j.arrival > now ? j.arrival : now);
}

static htc_status next_job(jobs_exact_caller *c)
{
    jobs      *m = &c->x->m;
    jobs_part *part = &m->part[c->number];
    uint64_t   number = part->next;
    if (m->options.next_job)
        return next_of_source(c);
    if (number >= m->jobs)
        return HTC_OK;
    part->next = m->after ? m->after[number] : number + m->parts;
    return begin(c, number, htc__jobs_need(m, number), htc__jobs_length_of(m, number), htc__twin_now(&c->x->t));
}

static htc_ns hop_of(const htc_sim_jobs_options *o)
{
    return o->latency_ns + 2 * o->pack_ns;
}

/* Down the tree, acknowledged up the tree; then all begin. */
static htc_status granted(jobs_exact_caller *c, uint32_t place)
{
    jobs_exact_job             *j = c->job[place];
    jobs_exact                 *x = c->x;
    const htc_sim_jobs_options *o = &x->m.options;
    htc_ns                      now = htc__twin_now(&c->x->t);
    htc__jobs_count_granted(&x->m, j->need, now - j->begun, j->asked);
    j->starts = now + htc__jobs_levels(&x->m, j->need) * (2 * hop_of(o) + o->launch_ns);
    x->m.now.node_ticks += j->length * j->need;
    x->work += j->length;
    x->longest = j->length > x->longest ? j->length : x->longest;
    htc_status status = later(c, place, j->starts - now + j->length * o->tick_ns, JOBS_EXACT_RAN);
    return status == HTC_OK ? next_job(c) : status;
}

static htc_status ran(jobs_exact_caller *c, uint32_t place)
{
    const jobs_exact_job *j = c->job[place];
    jobs                 *m = &c->x->m;
    htc_ns                now = htc__twin_now(&c->x->t);
    if (m->options.ended)
        m->options.ended(m->options.ctx, &(htc_sim_jobs_ended){ .size = sizeof(htc_sim_jobs_ended), .job = j->number, .controller = c->number, .nodes = j->need, .submitted = j->begun,
                                                                .started = j->starts, .ended = now });
    c->x->worked += (now - j->starts) / m->tick_ns * j->need;
    c->x->last_end = now;
    m->left--;
    m->now.running--;
    m->now.busy -= j->need;
    return later(c, place, htc__jobs_levels(m, j->need) * hop_of(&m->options), JOBS_EXACT_KNOWN);
}

static htc_status parsed(jobs_exact_caller *c, uint32_t place)
{
    htc_status status = htc_balance_begin(c->balance, c->job[place]->need, &c->job[place]->request);
    return status == HTC_OK ? step(c, place, NULL) : status;
}

static htc_status job_happened(jobs_exact_caller *c, uint32_t place)
{
    switch (c->job[place]->phase) {
    case JOBS_EXACT_PARSED:
        return parsed(c, place);
    case JOBS_EXACT_WAITED:
        return step(c, place, NULL);
    case JOBS_EXACT_RAN:
        return ran(c, place);
    case JOBS_EXACT_KNOWN:
        return give_next(c, place);
    default:
        return HTC_EINTERNAL;
    }
}

static htc_status job_answered(jobs_exact_caller *c, uint32_t place, const htc_kv_result *r)
{
    jobs_exact_job *j = c->job[place];
    if (r->status != HTC_OK && !(r->status == HTC_MISMATCH && j->phase == JOBS_EXACT_SWAPPED))
        return htc__twin_refuse(&c->x->t, r->status, "the store answers: %s", htc_strerror(r->status));
    switch (j->phase) {
    case JOBS_EXACT_LOOKED:
        return swap(c, place, r->value, r->version);
    case JOBS_EXACT_SWAPPED:
        return swapped(c, place, r);
    case JOBS_EXACT_WRITTEN:
        return --j->want ? write_next(c, place) : granted(c, place);
    default:
        return HTC_EINTERNAL;
    }
}

/* ---- before and after ---- */

static htc_status write_record(jobs_exact_caller *c)
{
    const htc_env *env = &c->x->t.memory.env;
    jobs          *m = &c->x->m;
    char           key[JOBS_EXACT_KEY];
    htc_bytes      record = { 0 }, down = { 0 };
    uint32_t       out_of_use = htc__jobs_down_of(&m->options, c->number);
    htc_status     status = htc_record_create(env, htc__jobs_nodes_of(&m->options, c->number), 1, &record);
    htc_record_set_clear(m->got);
    if (status == HTC_OK && out_of_use)
        status = htc_record_set_add(m->got, 0, out_of_use);
    if (status == HTC_OK && out_of_use)
        status = htc_record_down(env, record, m->got, &down);
    htc__jobs_exact_key(key, "partition", c->number);
    if (status == HTC_OK)
        status = htc__jobs_exact_write(c, c->number, key, out_of_use ? down : record, JOBS_EXACT_MEET);
    htc_record_free(env, record);
    htc_record_free(env, down);
    return status;
}

/* Its record, and a request to each other member. */
static htc_status meet(jobs_exact_caller *c)
{
    htc_status status = write_record(c);
    c->x->met++;
    for (uint32_t p = 0; p < c->x->callers && status == HTC_OK; p++)
        if (p != c->number)
            status = htc__jobs_exact_read(c, p, "census", JOBS_EXACT_MEET);
    return status;
}

static htc_status audit(jobs_exact_caller *c)
{
    char key[JOBS_EXACT_KEY];
    htc__jobs_exact_key(key, "partition", c->number);
    return htc__jobs_exact_read(c, c->number, key, JOBS_EXACT_AUDIT);
}

static htc_status audited(jobs_exact_caller *c, const htc_kv_result *r)
{
    jobs      *m = &c->x->m;
    uint32_t   free = 0, all = htc__jobs_nodes_of(&m->options, c->number) - htc__jobs_down_of(&m->options, c->number);
    htc_status status = r->status == HTC_OK ? htc__jobs_exact_free_in(c->x, r->value, &free) : r->status;
    c->x->audited++;
    if (status == HTC_OK && free != all && !m->wrong[0])
        snprintf(m->wrong, sizeof m->wrong, "in the end %u nodes of partition %u are free by its record, of %u", free, c->number, all);
    return status;
}

static htc_status happened(jobs_exact_caller *c, uint32_t event)
{
    if (event >= JOBS_EXACT_JOB)
        return job_happened(c, event - JOBS_EXACT_JOB);
    switch (event) {
    case JOBS_EXACT_MEET:
        return meet(c);
    case JOBS_EXACT_AUDIT:
        return audit(c);
    case JOBS_EXACT_PULL:
        return htc__jobs_exact_pull(c);
    default:
        return next_job(c);
    }
}

static htc_status answered(jobs_exact_caller *c, const htc_kv_result *r)
{
    if (r->tag >= JOBS_EXACT_JOB)
        return job_answered(c, (uint32_t)r->tag - JOBS_EXACT_JOB, r);
    return r->tag == JOBS_EXACT_AUDIT ? audited(c, r) : r->tag == JOBS_EXACT_PULL ? htc__jobs_exact_pulled(c, r) : HTC_OK;
}

htc_status htc__jobs_exact_control_open(jobs_exact_caller *c)
{
    const htc_sim_jobs_options *o = &c->x->m.options;
    htc_balance_options         b = HTC_BALANCE_OPTIONS_INIT;
    char                        name[32];
    c->happened = happened;
    c->answered = answered;
    c->free_job = JOBS_NONE;
    snprintf(name, sizeof name, "balance%u", (unsigned)c->number);
    c->rng = htc_sim_rng(c->x->t.w, name);
    b.policy = o->policy;
    b.partitions = c->x->m.parts;
    b.own = c->number;
    b.tries = o->tries;
    b.wait_ns = o->wait_ns;
    b.wait_ns_max = o->wait_ns_max;
    b.pull_ns = o->pull_ns;
    return htc_balance_create(&c->x->t.memory.env, &b, &c->balance);
}

void htc__jobs_exact_control_close(jobs_exact_caller *c)
{
    const htc_env *env = &c->x->t.memory.env;
    for (uint32_t i = 0; i < c->jobs; i++) {
        htc_balance_end(c->job[i]->request);
        htc_record_set_destroy(c->job[i]->got);
        htc__free(env, c->job[i], bytes_of_job(c->x));
    }
    htc__free(env, c->job, c->room * sizeof *c->job);
    htc_balance_destroy(c->balance);
}
