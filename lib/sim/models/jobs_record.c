/* Resource records of the partition controllers: each change is a pure transform of htcsched/record.h, and what it did is checked against the
 * ledger of nodes. Where no records are wanted, the free nodes are counted. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/jobs.h"

/* ---- memory of a transform ---- */

#define ALIGN(n) (((n) + 15) & ~(size_t)15)

static int inside(const jobs_arena *a, const void *p)
{
    return (const uint8_t *)p >= a->data && (const uint8_t *)p < a->data + a->room;
}

/* Pieces one after the other, all given back at once. */
static void *arena_resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    jobs_arena *a = ctx;
    if (p && !inside(a, p))
        return htc__resize_raw(a->behind, p, old_size, new_size);
    if (new_size == 0 || (p && new_size <= old_size))
        return new_size ? p : NULL;
    uint8_t *fresh = a->data + a->used;
    if (a->room - a->used >= ALIGN(new_size))
        a->used += ALIGN(new_size);
    else
        fresh = htc__alloc_raw(a->behind, new_size);
    if (p && fresh)
        memcpy(fresh, p, old_size);
    return fresh;
}

void htc__jobs_arena_open(jobs *m)
{
    jobs_arena *a = &m->arena;
    uint32_t    largest = m->options.partition < m->options.nodes ? m->options.partition : m->options.nodes;
    a->room = ALIGN(4096 + (size_t)largest * 2);
    a->data = htc__alloc_raw(&m->env, a->room);
    a->behind = &m->env;
    a->alloc = (htc_alloc){ arena_resize, a };
    a->env = (htc_env){ .size = sizeof a->env, .alloc = &a->alloc };
    a->room = a->data ? a->room : 0;
}

void htc__jobs_arena_close(jobs *m)
{
    htc__free(&m->env, m->arena.data, m->arena.room);
}

/* ---- changes ---- */

static htc_status keep(jobs *m, uint32_t p, htc_bytes next)
{
    jobs_part *part = &m->part[p];
    htc_status status = HTC_OK;
    if (next.len > part->room) {
        uint32_t room = (uint32_t)next.len + (m->options.partition > 64 ? 64 : 8);
        uint8_t *grown = htc__resize_raw(&m->env, part->record, part->room, room);
        status = grown ? HTC_OK : HTC_ENOMEM;
        if (grown) {
            part->record = grown;
            part->room = room;
        }
    }
    if (status == HTC_OK) {
        memcpy(part->record, next.data, next.len);
        part->len = (uint32_t)next.len;
        part->version++;
    }
    htc_record_free(&m->arena.env, next);
    m->arena.used = 0;
    return status;
}

htc_status htc__jobs_record_open(jobs *m, uint32_t p, uint32_t nodes, uint32_t down)
{
    htc_bytes next;
    if (!m->options.records) {
        m->part[p].version = down ? 2 : 1;
        m->part[p].free = nodes - down;
        return HTC_OK;
    }
    htc_status status = htc_record_create(&m->arena.env, nodes, 0, &next);
    if (status == HTC_OK)
        status = keep(m, p, next);
    htc_record_set_clear(m->got);
    if (status == HTC_OK && down)
        status = htc_record_set_add(m->got, 0, down);
    if (status == HTC_OK && down)
        status = htc_record_down(&m->arena.env, (htc_bytes){ m->part[p].record, m->part[p].len }, m->got, &next);
    if (status == HTC_OK && down)
        status = keep(m, p, next);
    m->part[p].free = nodes - down;
    return status;
}

/* Mark a run of nodes as held, or as free; 0: one of them was so before. */
static int mark(uint64_t *held, uint32_t first, uint32_t end, int takes)
{
    int right = 1;
    for (uint32_t at = first; at < end;) {
        uint32_t word = at / 64, bit = at % 64, n = end - at < 64 - bit ? end - at : 64 - bit;
        uint64_t mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << bit;
        right &= (held[word] & mask) == (takes ? 0 : mask);
        held[word] ^= mask;
        at += n;
    }
    return right;
}

/* What was got is taken, or given back. */
void htc__jobs_move_nodes(jobs *m, const htc_record_set *set, uint32_t p, int takes, uint32_t *moved)
{
    uint64_t *held = m->held + p * m->part_words;
    *moved = 0;
    for (uint32_t first, count, at = 0; htc_record_set_run(set, at, &first, &count) == HTC_OK; at = first + count, *moved += count)
        if (!mark(held, first, first + count, takes) && !m->wrong[0])
            snprintf(m->wrong, sizeof m->wrong, "a node of %u to %u in partition %u is %s twice", first, first + count - 1, p, takes ? "taken" : "given back");
}

/* A job's name in records. */
static htc_bytes name_of(const jobs *m, uint32_t s, uint8_t *name)
{
    uint64_t job = m->slot[s].job;
    for (int i = 0; i < 4; i++)
        name[i] = (uint8_t)(job >> (24 - 8 * i));
    return (htc_bytes){ name, 4 };
}

/* So many nodes fewer, or more, are free. */
static void count(jobs *m, jobs_part *part, uint32_t taken, uint32_t given)
{
    part->version++;
    part->free += given - taken;
    m->taken += (uint64_t)taken - given;
}

htc_status htc__jobs_record_take(jobs *m, uint32_t s, uint32_t p, uint32_t most, uint32_t *taken)
{
    uint8_t    name[4];
    jobs_part *part = &m->part[p];
    htc_bytes  next;
    if (!m->options.records) {
        *taken = most < part->free ? most : part->free;
        count(m, part, *taken, 0);
        return HTC_OK;
    }
    htc_record_ask ask = { .size = sizeof ask, .job = name_of(m, s, name), .attempt = 1, .most = most, .least = 1 };
    htc_status     status = htc_record_take(&m->arena.env, (htc_bytes){ part->record, part->len }, &ask, &next, m->got);
    if (status == HTC_OK)
        status = keep(m, p, next);
    m->arena.used = 0;
    if (status != HTC_OK)
        return status;
    htc__jobs_move_nodes(m, m->got, p, 1, taken);
    part->free -= *taken;
    m->taken += *taken;
    return HTC_OK;
}

htc_status htc__jobs_record_give(jobs *m, uint32_t s, uint32_t p)
{
    uint8_t    name[4];
    uint32_t   given;
    jobs_part *part = &m->part[p];
    htc_bytes  next;
    if (!m->options.records) {
        count(m, part, 0, m->holding[m->slot[s].holding].nodes);
        return HTC_OK;
    }
    htc_status status = htc_record_release(&m->arena.env, (htc_bytes){ part->record, part->len }, name_of(m, s, name), 1, &next, m->got);
    if (status == HTC_OK)
        status = keep(m, p, next);
    m->arena.used = 0;
    if (status != HTC_OK)
        return status;
    htc__jobs_move_nodes(m, m->got, p, 0, &given);
    if (given != m->holding[m->slot[s].holding].nodes && !m->wrong[0])
        snprintf(m->wrong, sizeof m->wrong, "job %llu gives back %u nodes of partition %u, and took %u", (unsigned long long)m->slot[s].job, given, p,
                 m->holding[m->slot[s].holding].nodes);
    part->free += given;
    m->taken -= given;
    return HTC_OK;
}
