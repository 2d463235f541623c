/* Requests to a simulated disk: each takes its time, then takes effect at once, and is answered. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/engine/disk_private.h"

#define ROOM     (UINT64_C(1) << 40)
#define LATENCY  (100 * HTC_US)
#define SYNC     HTC_MS
#define SLOW     (100 * HTC_MS)
#define UNSYNCED 900000 /* as the power failures of the papers go: 80 to 100 % */

static int chance(htc_sim_disk *d, uint32_t ppm)
{
    return ppm && htc_rng_below(&d->rng, 1000000) < ppm;
}

htc_status htc_sim_disk_create(htc_sim *sim, const htc_sim_disk_options *options, htc_sim_disk **out)
{
    htc_sim_disk_options o = { .size = sizeof o };
    char                 name[SIM_NAME_MAX + 16];
    if (!sim || !out)
        return HTC_EINVAL;
    htc_status status = options ? htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (o.name && strlen(o.name) >= SIM_NAME_MAX)
        return HTC_EINVAL;
    htc_sim_disk *d = htc__alloc(&sim->env, sizeof *d);
    if (!d)
        return HTC_ENOMEM;
    snprintf(name, sizeof name, "disk/%s", o.name ? o.name : "disk");
    *d = (htc_sim_disk){ .sim = sim, .env = sim->env, .options = o, .rng = htc_rng_fork(&sim->root, name) };
    d->options.name = NULL;
    d->options.latency_ns = o.latency_ns ? o.latency_ns : LATENCY;
    d->options.jitter_ns = o.jitter_ns ? o.jitter_ns : LATENCY;
    d->options.sync_ns = o.sync_ns ? o.sync_ns : SYNC;
    d->room = o.bytes_max ? o.bytes_max : ROOM;
    htc_sim_disk_set_faults(d, NULL);
    *out = d;
    return HTC_OK;
}

static void op_free(htc_sim_disk *d, disk_op *op)
{
    htc__free(&d->env, op, op->size);
}

void htc_sim_disk_destroy(htc_sim_disk *d)
{
    if (!d)
        return;
    htc_env env = d->env;
    htc_sim_disk_wipe(d);
    while (d->ops) {
        disk_op *op = d->ops;
        d->ops = op->next;
        op_free(d, op);
    }
    htc__free(&env, d, sizeof *d);
}

htc_status htc_sim_disk_set_faults(htc_sim_disk *d, const htc_sim_disk_faults *faults)
{
    htc_sim_disk_faults f = { .unsynced_ppm = UNSYNCED };
    if (!d)
        return HTC_EINVAL;
    htc_status status = faults ? htc__options_copy(&f, sizeof f, faults, faults->size, sizeof f.size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    f.slow_ns = f.slow_ns ? f.slow_ns : SLOW;
    d->faults = f;
    return HTC_OK;
}

htc_status htc_sim_disk_full(htc_sim_disk *d, htc_ns span)
{
    if (!d)
        return HTC_EINVAL;
    d->full_until = span ? htc__sim_after(d->sim, span) : 0;
    return HTC_OK;
}

/* ---- what requests do ---- */

static int full(const htc_sim_disk *d)
{
    return d->full_until > d->sim->now;
}

static htc_status list(const htc_sim_disk *d, htc_buf *answer)
{
    uint8_t room[HTC_DISK_HEAD_MAX];
    for (const disk_file *f = d->files; f; f = f->next) {
        htc_disk_file file = { .name = htc_bytes_of(f->name), .length = f->length };
        htc_put_raw(answer, (htc_bytes){ room, htc_disk_file_encode(&file, room, sizeof room) });
    }
    return answer->status;
}

static htc_status create(htc_sim_disk *d, const htc_disk_request *q)
{
    if (htc__disk_find(d, q->name))
        return HTC_EEXISTS;
    if (full(d) || q->length > d->room)
        return HTC_ENOSPC;
    return htc__disk_make(d, q->name, q->length);
}

static htc_status read_piece(htc_sim_disk *d, disk_file *f, const htc_disk_request *q, htc_buf *answer)
{
    uint64_t there = q->offset < f->length ? f->length - q->offset : 0;
    size_t   n = (size_t)(q->length < there ? q->length : there);
    if (chance(d, d->faults.read_eio_ppm))
        return HTC_EIO;
    uint8_t *out = htc_buf_extend(answer, n);
    if (!out)
        return answer->status;
    htc__disk_read(f, q->offset, out, n);
    d->stats.reads++;
    return HTC_OK;
}

static htc_status sync_file(htc_sim_disk *d, disk_file *f, uint64_t asked)
{
    if (chance(d, d->faults.sync_eio_ppm)) {
        htc__disk_sync(f, asked, 1);
        d->broken = !d->faults.sync_lies;
        return HTC_EIO;
    }
    htc__disk_sync(f, asked, 0);
    d->stats.syncs++;
    return HTC_OK;
}

/* Some sectors of it, as a write that has failed, or was cut off, leaves them. */
static htc_status write_some(htc_sim_disk *d, disk_file *f, const htc_disk_request *q)
{
    const uint8_t *from = q->data.data;
    htc_status     status = HTC_OK;
    for (size_t at = 0; at < q->data.len && status == HTC_OK;) {
        size_t n = HTC_DISK_SECTOR - (size_t)((q->offset + at) % HTC_DISK_SECTOR);
        n = n < q->data.len - at ? n : q->data.len - at;
        if (htc_rng_below(&d->rng, 2))
            status = htc__disk_write(d, f, q->offset + at, (htc_bytes){ from + at, n }, 0);
        at += n;
    }
    return status;
}

static uint64_t elsewhere(htc_sim_disk *d, const disk_file *f, const htc_disk_request *q)
{
    uint64_t places = (f->length - q->data.len) / HTC_DISK_SECTOR + 1;
    return htc_rng_below(&d->rng, places) * HTC_DISK_SECTOR;
}

static htc_status write_piece(htc_sim_disk *d, disk_file *f, const htc_disk_request *q, uint64_t asked)
{
    uint64_t at = q->offset;
    int      lost = chance(d, d->faults.lose_ppm);
    if (q->offset > f->length || q->data.len > f->length - q->offset)
        return HTC_EINVAL;
    if (full(d))
        return HTC_ENOSPC;
    if (chance(d, d->faults.write_eio_ppm)) {
        htc_status status = write_some(d, f, q);
        return status == HTC_OK ? HTC_EIO : status;
    }
    if (chance(d, d->faults.misdirect_ppm)) {
        at = elsewhere(d, f, q);
        d->stats.misdirected += at != q->offset;
    }
    d->stats.lost += (uint64_t)lost;
    htc_status status = htc__disk_write(d, f, at, q->data, lost);
    if (status == HTC_OK && chance(d, d->faults.flip_ppm)) {
        d->stats.flipped++;
        uint64_t where = at + htc_rng_below(&d->rng, q->data.len);
        status = htc__disk_turn_bits(d, f, where, (uint8_t)(1u << htc_rng_below(&d->rng, 8)), 0);
    }
    d->stats.writes += status == HTC_OK;
    return status == HTC_OK && q->sync ? sync_file(d, f, asked) : status;
}

static int changes(uint32_t op)
{
    return op != HTC_DISK_LIST && op != HTC_DISK_READ;
}

/* asked: what had taken effect when this was asked for; all of it for a write's own sync. */
static htc_status carry_out(htc_sim_disk *d, const htc_disk_request *q, uint64_t asked, htc_buf *answer)
{
    d->count++;
    if (changes(q->op) && d->broken)
        return HTC_EIO;
    if (q->op == HTC_DISK_LIST)
        return list(d, answer);
    if (q->op == HTC_DISK_CREATE)
        return create(d, q);
    disk_file *f = htc__disk_find(d, q->name);
    if (!f)
        return HTC_ENOTFOUND;
    switch ((htc_disk_op)q->op) {
    case HTC_DISK_READ:
        return read_piece(d, f, q, answer);
    case HTC_DISK_WRITE:
        return write_piece(d, f, q, d->count);
    case HTC_DISK_SYNC:
        return sync_file(d, f, asked);
    case HTC_DISK_RENAME:
        return full(d) ? HTC_ENOSPC : htc__disk_rename(d, f, q->to);
    case HTC_DISK_REMOVE:
        htc__disk_remove(d, f);
        return HTC_OK;
    case HTC_DISK_LIST:
    case HTC_DISK_CREATE:
        break;
    }
    return HTC_EINVAL;
}

/* ---- their way ---- */

typedef struct due {
    htc_sim_disk *disk;
    uint64_t      id;
} due;

static disk_op *take_op(htc_sim_disk *d, uint64_t id)
{
    disk_op **at = &d->ops;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    disk_op *op = *at;
    if (op)
        *at = op->next;
    return op;
}

static void is_due(htc_sim *sim, void *ctx)
{
    htc_sim_disk    *d = ((due *)ctx)->disk;
    disk_op         *op = take_op(d, ((due *)ctx)->id);
    htc_disk_request q;
    htc_buf          answer;
    if (!op)
        return; /* the machine has ended, and the request with it */
    htc_buf_init(&answer, &d->env, 0);
    htc_status status = htc_disk_decode(op->effect.body, &q);
    status = status == HTC_OK ? carry_out(d, &q, op->asked, &answer) : status;
    d->stats.eio += status == HTC_EIO;
    d->stats.enospc += status == HTC_ENOSPC;
    if (status == HTC_ENOMEM)
        htc__sim_refused(sim);
    else if (op->node->incarnation == op->incarnation)
        htc_sim_result(op->node, 0, &op->effect, status, status == HTC_OK ? htc_buf_bytes(&answer) : (htc_bytes){ 0 });
    htc_buf_free(&answer);
    op_free(d, op);
}

static htc_ns time_of(htc_sim_disk *d, const htc_disk_request *q)
{
    htc_ns span = htc__sim_sum(d->options.latency_ns, htc__sim_up_to(&d->rng, d->options.jitter_ns));
    if (q->op == HTC_DISK_SYNC || q->op == HTC_DISK_CREATE || q->op == HTC_DISK_RENAME || q->op == HTC_DISK_REMOVE ||
        (q->op == HTC_DISK_WRITE && q->sync))
        span = htc__sim_sum(span, d->options.sync_ns);
    if (chance(d, d->faults.slow_ppm))
        span = htc__sim_sum(span, htc__sim_up_to(&d->rng, d->faults.slow_ns));
    return span;
}

htc_status htc_sim_disk_call(htc_sim_disk *d, htc_sim_node *node, const htc_effect *effect)
{
    htc_disk_request q;
    if (!d || !node || !effect)
        return HTC_EINVAL;
    if (effect->op < HTC_DISK_LIST || effect->op > HTC_DISK_REMOVE)
        return HTC_EUNSUPPORTED;
    if (htc_disk_decode(effect->body, &q) != HTC_OK || q.op != effect->op)
        return HTC_EINVAL;
    size_t   size = sizeof(disk_op) + effect->body.len;
    disk_op *op = htc__alloc(&d->env, size);
    if (!op)
        return htc__sim_refused(d->sim);
    *op = (disk_op){ .next = d->ops,
                     .id = ++d->last_op,
                     .asked = d->count,
                     .node = node,
                     .incarnation = node->incarnation,
                     .effect = *effect,
                     .size = size };
    memcpy(op->body, effect->body.data, effect->body.len);
    op->effect.body.data = op->body;
    d->ops = op;
    disk_file *f = q.op == HTC_DISK_SYNC ? htc__disk_find(d, q.name) : NULL;
    if (f)
        f->sync_asked = d->count;
    due when = { d, op->id };
    return htc_sim_at(d->sim, htc__sim_after(d->sim, time_of(d, &q)), is_due, &when, sizeof when);
}

/* ---- its end ---- */

/* A request that was on its way: done, not done, or half done. */
static htc_status cut_off(htc_sim_disk *d, const disk_op *op)
{
    htc_disk_request q;
    htc_buf          answer;
    htc_status       status = HTC_OK;
    d->stats.requests_cut_off++;
    if (htc_disk_decode(op->effect.body, &q) != HTC_OK || !changes(q.op) || htc_rng_below(&d->rng, 2))
        return HTC_OK;
    disk_file *f = htc__disk_find(d, q.name);
    if (q.op == HTC_DISK_WRITE) {
        if (f && q.offset <= f->length && q.data.len <= f->length - q.offset && !full(d) && !d->broken)
            status = write_some(d, f, &q);
    } else {
        if (q.op == HTC_DISK_CREATE)
            q.length = 1 + htc_rng_below(&d->rng, q.length);
        htc_buf_init(&answer, &d->env, 0);
        status = carry_out(d, &q, op->asked, &answer);
        htc_buf_free(&answer);
    }
    return status == HTC_ENOMEM ? htc__sim_refused(d->sim) : HTC_OK;
}

htc_status htc_sim_disk_crash(htc_sim_disk *d, int power)
{
    if (!d)
        return HTC_EINVAL;
    while (d->ops) {
        disk_op *op = d->ops;
        d->ops = op->next;
        cut_off(d, op);
        op_free(d, op);
    }
    for (disk_file *f = d->files; power && f; f = f->next)
        htc__disk_power(d, f);
    for (disk_file *f = d->files; d->broken && f; f = f->next)
        htc__disk_reread(f);
    d->broken = 0;
    return d->sim->status;
}

htc_status htc_sim_disk_wipe(htc_sim_disk *d)
{
    if (!d)
        return HTC_EINVAL;
    while (d->files)
        htc__disk_remove(d, d->files);
    d->broken = 0;
    return HTC_OK;
}

/* ---- for tests ---- */

htc_status htc_sim_disk_peek(const htc_sim_disk *d, htc_bytes name, uint64_t offset, void *out, size_t n)
{
    if (!d || !out)
        return HTC_EINVAL;
    const disk_file *f = htc__disk_find(d, name);
    if (!f)
        return HTC_ENOTFOUND;
    htc__disk_read(f, offset, out, n);
    return HTC_OK;
}

htc_status htc_sim_disk_flip(htc_sim_disk *d, htc_bytes name, uint64_t offset, uint32_t bits)
{
    if (!d || bits > UINT8_MAX)
        return HTC_EINVAL;
    disk_file *f = htc__disk_find(d, name);
    if (!f)
        return HTC_ENOTFOUND;
    return offset < f->length ? htc__disk_turn_bits(d, f, offset, (uint8_t)bits, 1) : HTC_EINVAL;
}

htc_status htc_sim_disk_stats_get(const htc_sim_disk *d, htc_sim_disk_stats *stats)
{
    if (!d || !stats)
        return HTC_EINVAL;
    *stats = d->stats;
    return HTC_OK;
}
