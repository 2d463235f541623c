/* The swarm: which faults exist in a run. The ranges began as those of VOPR's dials (doc/testing.md). */
#include "htcsched/sim_faults.h"

/* Both draws are always made, so that one kind more or less shifts nothing behind it. */
static uint64_t maybe(htc_rng *rng, uint64_t from, uint64_t to)
{
    uint64_t is = htc_rng_next(rng) >> 63, value = from + (htc_rng_next(rng) >> 1) % (to - from + 1);
    return is ? value : 0;
}

/* Small rates as likely as large ones: up to max, halved up to seven times. */
static uint32_t rate(htc_rng *rng, uint32_t max)
{
    uint64_t value = maybe(rng, 1, max), halved = htc_rng_next(rng) >> 61;
    return (uint32_t)(value ? (value >> halved) + 1 : 0);
}

static htc_ns gap(htc_rng *rng)
{
    return maybe(rng, 200, 20000) * HTC_MS;
}

static htc_ns span(htc_rng *rng)
{
    uint64_t value = htc_rng_next(rng) >> 1, halved = htc_rng_next(rng) >> 61;
    return HTC_MS + value % (5 * HTC_SECOND) / (UINT64_C(1) << halved);
}

htc_status htc_sim_faults_draw(htc_rng *rng, htc_sim_faults *f)
{
    if (!rng || !f)
        return HTC_EINVAL;
    *f = (htc_sim_faults){ .size = sizeof *f };
    f->net = (htc_sim_net){ .size = sizeof f->net };
    f->net.latency_ns = 10 * HTC_US + htc_rng_next(rng) % (5 * HTC_MS);
    f->net.jitter_ns = maybe(rng, 1, 10 * HTC_MS);
    f->net.bytes_per_s = maybe(rng, 1000000, 1000000000);
    f->net.loss_ppm = rate(rng, 300000);
    f->net.duplicate_ppm = rate(rng, 500000);
    f->net.reorder_ppm = rate(rng, 200000);
    f->net.reorder_ns = span(rng) / 10;
    f->net.delay_ppm = rate(rng, 200000);
    f->net.delay_ns = span(rng) / 10;
    f->net.break_ppm = rate(rng, 1000);
    f->net.cut_ppm = (uint32_t)maybe(rng, 500000, 1000000);
    f->clog_gap_ns = gap(rng);
    f->clog_span_ns = span(rng);
    f->partition_gap_ns = gap(rng);
    f->partition_span_ns = span(rng);
    f->one_way_ppm = (uint32_t)maybe(rng, 100000, 900000);
    f->break_gap_ns = gap(rng);
    f->crash_gap_ns = gap(rng);
    f->crash_span_ns = span(rng);
    f->power_ppm = (uint32_t)maybe(rng, 100000, 1000000);
    f->wipe_ppm = (uint32_t)maybe(rng, 100000, 500000);
    f->pause_gap_ns = gap(rng);
    f->pause_span_ns = span(rng);
    f->jump_gap_ns = gap(rng);
    f->jump_span_ns = maybe(rng, 1, 3600) * HTC_SECOND;
    f->drift_ppm = (uint32_t)maybe(rng, 1, 1000);
    f->full_gap_ns = gap(rng);
    f->full_span_ns = span(rng);
    f->disk = (htc_sim_disk_faults){ .size = sizeof f->disk };
    f->disk.read_eio_ppm = rate(rng, 10000);
    f->disk.write_eio_ppm = rate(rng, 10000);
    f->disk.sync_eio_ppm = rate(rng, 10000);
    f->disk.unsynced_ppm = (uint32_t)(800000 + (htc_rng_next(rng) >> 1) % 200001);
    f->disk.flip_ppm = rate(rng, 10000);
    f->disk.lose_ppm = rate(rng, 10000);
    f->disk.misdirect_ppm = rate(rng, 10000);
    f->disk.slow_ppm = rate(rng, 100000);
    f->disk.slow_ns = span(rng) / 10;
    return HTC_OK;
}
