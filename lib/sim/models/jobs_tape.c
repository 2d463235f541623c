/* Partition controllers: a checkpoint. Slots, holdings and partitions are arrays; what lib/sched knows of requests, controllers, the monitor and the
 * central queue has tapes of its own. */
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/jobs.h"

static uint64_t mix(uint64_t print, const void *data, size_t n)
{
    return htc_hash64((htc_bytes){ data, n }, print);
}

/* Of the options: another experiment's checkpoint is refused. */
static uint64_t print_of(const jobs *m)
{
    const htc_sim_jobs_options *o = &m->options;
    uint64_t numbers[] = { o->nodes, o->partition, o->jobs, o->sizes, o->nodes_min, o->nodes_max, o->central, o->tries, o->fanout, o->records, o->length.kind,
                           o->wait_ns, o->wait_ns_max, o->pull_ns, o->monitor_ns, o->tick_ns, o->latency_ns, o->pack_ns, o->store_ns, o->job_ns, o->node_ns, o->scan_ns,
                           o->launch_ns, o->node_bytes, m->sample };
    double   parts[] = { o->used, o->bandwidth, o->length.mean_ns, o->length.spread };
    uint64_t print = mix(mix(o->seed, numbers, sizeof numbers), parts, sizeof parts);
    const char *name = o->policy ? o->policy->name : "monitored";
    for (size_t i = 0; o->list && i < o->n_list; i++) {
        htc_sim_jobs_job j = { 0 };
        (void)htc__options_at(&j, sizeof j, o->list, i, sizeof j);
        uint64_t job[] = { j.controller, j.nodes, j.length };
        print = mix(print, job, sizeof job);
    }
    return name ? mix(print, name, strlen(name)) : print;
}

static htc_status move_numbers(jobs *m, const htc_scale_tape *tape)
{
    struct {
        void  *data;
        size_t n;
    } piece[] = { { &m->free_slot, sizeof m->free_slot }, { &m->free_holding, sizeof m->free_holding }, { &m->ended, sizeof m->ended }, { &m->left, sizeof m->left },
                  { &m->taken, sizeof m->taken }, { &m->census_serves, sizeof m->census_serves }, { &m->looks, sizeof m->looks }, { &m->look_target, sizeof m->look_target },
                  { &m->look_free, sizeof m->look_free }, { &m->serving, sizeof m->serving }, { &m->now, sizeof m->now }, { m->wrong, sizeof m->wrong } };
    htc_status status = HTC_OK;
    for (size_t i = 0; i < sizeof piece / sizeof *piece && status == HTC_OK; i++)
        status = tape->move(tape->ctx, piece[i].data, piece[i].n);
    return status;
}

static htc_status move_slot(jobs *m, const htc_scale_tape *tape, uint32_t s, uint32_t holdings)
{
    jobs_slot  slot = s < m->slots ? m->slot[s] : (jobs_slot){ .phase = JOBS_FREE };
    uint8_t    looks = slot.request != NULL;
    htc_status status = tape->move(tape->ctx, &looks, sizeof looks);
    htc_balance_request *request = slot.request;
    slot.request = NULL;
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &slot, sizeof slot);
    if (status == HTC_OK && tape->reads) {
        int is_free = slot.phase == JOBS_FREE; /* holding is then the next free slot */
        if (slot.phase > JOBS_COLLECTED || slot.controller >= m->parts || slot.request || (!is_free && slot.holding != JOBS_NONE && slot.holding >= holdings) ||
            (looks && (is_free || m->fit)))
            return HTC_ECORRUPT;
        m->slot[s] = slot;
        m->slots = s + 1;
        if (looks)
            status = htc_balance_begin(m->part[slot.controller].balance, slot.need, &m->slot[s].request);
        request = m->slot[s].request;
    }
    return status == HTC_OK && looks ? htc_balance_request_tape(request, tape) : status;
}

/* Room for as many as there were. */
static void *with_room(jobs *m, void *array, uint32_t *room, uint32_t n, size_t each)
{
    void *more = n > *room ? htc__resize_raw(&m->env, array, *room * each, n * each) : array;
    *room = more && n > *room ? n : *room;
    return more;
}

static htc_status move_slots(jobs *m, const htc_scale_tape *tape)
{
    uint32_t   n[] = { m->slots, m->holdings };
    htc_status status = tape->move(tape->ctx, n, sizeof n);
    if (status == HTC_OK && (n[0] > m->slots_max || n[1] > (uint64_t)m->options.nodes + m->slots_max))
        status = HTC_ECORRUPT;
    if (status == HTC_OK && tape->reads) {
        jobs_slot    *slot = with_room(m, m->slot, &m->slots_room, n[0], sizeof *slot);
        jobs_holding *holding = with_room(m, m->holding, &m->holdings_room, n[1], sizeof *holding);
        m->slot = slot ? slot : m->slot;
        m->holding = holding ? holding : m->holding;
        status = slot && holding ? HTC_OK : HTC_ENOMEM;
        m->slots = 0;
    }
    for (uint32_t s = 0; s < n[0] && status == HTC_OK; s++)
        status = move_slot(m, tape, s, n[1]);
    m->holdings = status == HTC_OK ? n[1] : m->holdings;
    return status == HTC_OK && n[1] ? tape->move(tape->ctx, m->holding, n[1] * sizeof *m->holding) : status;
}

/* Room is made for as much as the tape has, no more. */
static htc_status move_record(jobs *m, const htc_scale_tape *tape, jobs_part *part)
{
    uint32_t   len = part->len, n = 0;
    htc_status status = tape->move(tape->ctx, &len, sizeof len);
    for (uint32_t more; n < len && status == HTC_OK; n += more) {
        more = len - n < 4096 ? len - n : 4096;
        if (n + more > part->room) {
            uint8_t *grown = htc__resize_raw(&m->env, part->record, part->room, n + more);
            if (!grown)
                return HTC_ENOMEM;
            part->record = grown;
            part->room = n + more;
        }
        status = tape->move(tape->ctx, part->record + n, more);
    }
    part->len = status == HTC_OK ? len : 0;
    return status;
}

static htc_status move_parts(jobs *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    for (uint32_t c = 0; c < m->parts && status == HTC_OK; c++) {
        jobs_part *part = &m->part[c];
        uint64_t   numbers[] = { part->version, part->free, part->pulls, part->rng.state, part->next, part->busy, part->serves };
        status = tape->move(tape->ctx, numbers, sizeof numbers);
        part->version = (uint32_t)numbers[0];
        part->free = (uint32_t)numbers[1];
        part->pulls = (uint32_t)numbers[2];
        part->rng.state = numbers[3];
        part->next = numbers[4];
        part->busy = numbers[5];
        part->serves = numbers[6];
        if (status == HTC_OK && m->options.records)
            status = move_record(m, tape, part);
        if (status == HTC_OK && part->balance)
            status = htc_balance_tape(part->balance, tape);
    }
    return status;
}

static htc_status move_monitor(jobs *m, const htc_scale_tape *tape)
{
    uint64_t   len = m->census.len;
    htc_status status = htc_balance_monitor_tape(m->monitor, tape);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &len, sizeof len);
    if (status == HTC_OK && len > 8 + 8 * (uint64_t)m->parts)
        status = HTC_ECORRUPT;
    if (status == HTC_OK && tape->reads) {
        htc_buf_clear(&m->census);
        status = htc_buf_extend(&m->census, (size_t)len) || len == 0 ? HTC_OK : HTC_ENOMEM;
    }
    return status == HTC_OK && len ? tape->move(tape->ctx, m->census.data, (size_t)len) : status;
}

int htc__jobs_has_tape(const htc_sim_jobs_options *o)
{
    if (o->next_job)
        return 0;
    return o->central || !o->policy || (o->policy->size >= offsetof(htc_balance_policy, tape) + sizeof o->policy->tape && o->policy->tape);
}

htc_status htc__jobs_tape(jobs *m, const htc_scale_tape *tape)
{
    uint64_t   head[] = { print_of(m), sizeof *m, sizeof *m->slot, sizeof *m->part, sizeof m->now }, found[sizeof head / sizeof *head];
    uint8_t   *events = NULL;
    htc_status status = htc__tape_check(tape);
    memcpy(found, head, sizeof head);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = move_numbers(m, tape);
    if (status == HTC_OK)
        status = move_parts(m, tape);
    if (status == HTC_OK)
        status = move_slots(m, tape);
    if (status == HTC_OK && m->part_words)
        status = tape->move(tape->ctx, m->held, m->parts * m->part_words * sizeof *m->held);
    if (status == HTC_OK && m->monitor)
        status = move_monitor(m, tape);
    if (status == HTC_OK && m->fit)
        status = htc_fit_tape(m->fit, tape);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__jobs_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}
