/* What brings faults about: for each kind a stream of its own, and an event that comes again after a drawn time. */
#include <stdio.h>

#include "core/util.h"
#include "htcsched/sim_faults.h"
#include "sim/engine/sim_private.h"

/* In the order of htc_sim_trouble_counts; the first two after CRASH are kinds of crashes and have no event of their own. */
enum { CLOG, PARTITION, BREAK, CRASH, POWER, WIPE, PAUSE, JUMP, FULL, KINDS };

struct htc_sim_trouble {
    htc_sim        *sim;
    htc_env         env;
    htc_sim_faults  faults;
    htc_sim_net     calm; /* what the net was before */
    htc_sim_target *targets;
    size_t          count;
    int             over;
    uint64_t        partitions; /* ever, for their names */
    htc_rng         rng[KINDS];
    uint64_t        counts[KINDS];
};

/* A fault, or its end. */
typedef struct due {
    htc_sim_trouble *t;
    uint32_t         kind, target;
    uint64_t         number;
} due;

/* At least 1: of no span and no gap is nothing left. */
static htc_ns draw(htc_rng *rng, htc_ns most)
{
    return htc__sim_sum(1, htc__sim_up_to(rng, most));
}

static int chance(htc_rng *rng, uint32_t ppm)
{
    return htc_rng_below(rng, 1000000) < ppm; /* drawn whatever the rate */
}

static void later(htc_sim_trouble *t, htc_ns delay, void (*fn)(htc_sim *sim, void *ctx), due d)
{
    htc_sim_at(t->sim, htc__sim_after(t->sim, delay), fn, &d, sizeof d);
}

static uint32_t pick(htc_sim_trouble *t, uint32_t kind)
{
    return (uint32_t)htc_rng_below(&t->rng[kind], t->count);
}

/* ---- what each kind does ---- */

static void clog_one(htc_sim_trouble *t)
{
    uint32_t a = pick(t, CLOG), b = pick(t, CLOG);
    t->counts[CLOG]++;
    htc_sim_clog(t->targets[a].node, t->targets[b].node, draw(&t->rng[CLOG], t->faults.clog_span_ns));
}

static void name_partition(char *name, size_t size, uint64_t number)
{
    snprintf(name, size, "trouble%llu", (unsigned long long)number);
}

static void partition_over(htc_sim *sim, void *ctx)
{
    char name[32];
    name_partition(name, sizeof name, ((due *)ctx)->number);
    htc_sim_heal(sim, name);
}

static void partition(htc_sim_trouble *t)
{
    htc_rng      *rng = &t->rng[PARTITION];
    htc_sim_node *inside[64];
    size_t        n = 0;
    char          name[32];
    uint32_t      first = pick(t, PARTITION);
    uint32_t ways = chance(rng, t->faults.one_way_ppm) ? HTC_SIM_OUT + (uint32_t)htc_rng_below(rng, 2) : HTC_SIM_BOTH;
    htc_ns   span = draw(rng, t->faults.partition_span_ns);
    for (uint32_t i = 0; i < t->count && n < 64; i++)
        if (htc_rng_below(rng, 2) || i == first)
            inside[n++] = t->targets[i].node;
    name_partition(name, sizeof name, ++t->partitions);
    if (htc_sim_partition(t->sim, name, inside, n, ways) != HTC_OK)
        return; /* there are as many as there can be */
    t->counts[PARTITION]++;
    later(t, span, partition_over, (due){ .t = t, .number = t->partitions });
}

static void break_some(htc_sim_trouble *t)
{
    uint32_t a = pick(t, BREAK), b = pick(t, BREAK);
    t->counts[BREAK]++;
    htc_sim_break(t->targets[a].node, t->targets[b].node);
}

static void boot_again(htc_sim *sim, void *ctx)
{
    const due      *d = ctx;
    htc_sim_target *target = &d->t->targets[d->target];
    htc_status      status = htc_sim_boot(target->node);
    if (status != HTC_OK && !target->node->options.survive)
        htc__sim_failf(sim, status, "%s does not start: %s", target->node->name, htc_status_name(status));
    else if (status != HTC_OK)
        later(d->t, HTC_SECOND, boot_again, *d);
}

static size_t down(const htc_sim_trouble *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += !t->targets[i].node->up;
    return n;
}

static void crash(htc_sim_trouble *t)
{
    htc_rng        *rng = &t->rng[CRASH];
    uint32_t        i = pick(t, CRASH);
    htc_sim_target *target = &t->targets[i];
    int             power = chance(rng, t->faults.power_ppm), wipe = chance(rng, t->faults.wipe_ppm);
    htc_ns          span = draw(rng, t->faults.crash_span_ns);
    if (target->safe || !target->node->up || (t->faults.down_max && down(t) >= t->faults.down_max))
        return;
    t->counts[CRASH]++;
    htc_sim_crash(target->node);
    if (target->disk) {
        t->counts[POWER] += (uint64_t)power;
        htc_sim_disk_crash(target->disk, power);
    }
    if (target->disk && target->damage && wipe) {
        t->counts[WIPE]++;
        htc_sim_disk_wipe(target->disk);
    }
    later(t, span, boot_again, (due){ .t = t, .target = i });
}

static void stop_one(htc_sim_trouble *t)
{
    htc_sim_target *target = &t->targets[pick(t, PAUSE)];
    htc_ns          span = draw(&t->rng[PAUSE], t->faults.pause_span_ns);
    if (target->safe || !target->node->up)
        return;
    t->counts[PAUSE]++;
    htc_sim_pause(target->node, span);
}

static void jump(htc_sim_trouble *t)
{
    htc_sim_target *target = &t->targets[pick(t, JUMP)];
    int64_t         by = (int64_t)htc__sim_up_to(&t->rng[JUMP], t->faults.jump_span_ns);
    t->counts[JUMP]++;
    htc_sim_jump(target->node, htc_rng_below(&t->rng[JUMP], 2) ? by : -by);
}

static void fill(htc_sim_trouble *t)
{
    htc_sim_target *target = &t->targets[pick(t, FULL)];
    htc_ns          span = draw(&t->rng[FULL], t->faults.full_span_ns);
    if (!target->disk)
        return;
    t->counts[FULL]++;
    htc_sim_disk_full(target->disk, span);
}

/* ---- when ---- */

static htc_ns gap_of(const htc_sim_trouble *t, uint32_t kind)
{
    const htc_sim_faults *f = &t->faults;
    const htc_ns          gaps[KINDS] = {
                 [CLOG] = f->clog_gap_ns,   [PARTITION] = f->partition_gap_ns, [BREAK] = f->break_gap_ns,
                 [CRASH] = f->crash_gap_ns, [PAUSE] = f->pause_gap_ns,         [JUMP] = f->jump_gap_ns,
                 [FULL] = f->full_gap_ns
    };
    return gaps[kind];
}

static void happens(htc_sim *sim, void *ctx)
{
    static void (*const what[KINDS])(
        htc_sim_trouble * t) = { [CLOG] = clog_one,  [PARTITION] = partition, [BREAK] = break_some, [CRASH] = crash,
                                 [PAUSE] = stop_one, [JUMP] = jump,           [FULL] = fill };
    due d = *(due *)ctx;
    (void)sim;
    if (d.t->over)
        return;
    if (d.number)
        what[d.kind](d.t);
    d.number = 1;
    htc_ns gap = gap_of(d.t, d.kind);
    later(d.t, draw(&d.t->rng[d.kind], htc__sim_sum(gap, gap)), happens, d);
}

static void drift(htc_sim_trouble *t, int on)
{
    htc_rng rng = htc_sim_rng(t->sim, "trouble/drift");
    for (size_t i = 0; i < t->count; i++) {
        int32_t by = (int32_t)htc_rng_below(&rng, 2 * (uint64_t)t->faults.drift_ppm + 1) - (int32_t)t->faults.drift_ppm;
        if (t->faults.drift_ppm)
            htc_sim_drift(t->targets[i].node, on ? by : 0);
    }
}

static void set_disks(htc_sim_trouble *t, int on)
{
    for (size_t i = 0; i < t->count; i++) {
        htc_sim_disk_faults f = t->faults.disk;
        if (!t->targets[i].disk)
            continue;
        f.size = sizeof f;
        if (!t->targets[i].damage)
            f.flip_ppm = f.lose_ppm = f.misdirect_ppm = 0;
        htc_sim_disk_set_faults(t->targets[i].disk, on ? &f : NULL);
        if (!on)
            htc_sim_disk_full(t->targets[i].disk, 0);
    }
}

static htc_status begin(htc_sim_trouble *t)
{
    static const char *const names[KINDS] = { "clog", "partition", "break", "crash", "power",
                                              "wipe", "pause",     "jump",  "full" };
    char                     name[32];
    t->faults.net.size = sizeof t->faults.net;
    htc_sim_set_net(t->sim, NULL, NULL, &t->faults.net);
    set_disks(t, 1);
    drift(t, 1);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        snprintf(name, sizeof name, "trouble/%s", names[kind]);
        t->rng[kind] = htc_sim_rng(t->sim, name);
        if (gap_of(t, kind))
            later(t, 0, happens, (due){ .t = t, .kind = kind });
    }
    return t->sim->status;
}

htc_status htc_sim_trouble_start(htc_sim *sim, const htc_sim_faults *faults, const htc_sim_target *targets,
                                 size_t count, htc_sim_trouble **out)
{
    htc_sim_faults f = { 0 };
    if (!sim || !faults || !targets || count == 0 || count > UINT32_MAX || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&f, sizeof f, faults, faults->size, sizeof f.size);
    for (size_t i = 0; i < count; i++)
        if (!targets[i].node || targets[i].node->sim != sim)
            status = HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (f.drift_ppm > 500000 || f.jump_span_ns > INT64_MAX)
        return HTC_EINVAL;
    htc_sim_trouble *t = htc__alloc(&sim->env, sizeof *t);
    if (!t)
        return HTC_ENOMEM;
    *t = (htc_sim_trouble){ .sim = sim, .env = sim->env, .faults = f, .calm = sim->net, .count = count };
    t->targets = htc__alloc(&sim->env, count * sizeof *targets);
    if (!t->targets) {
        htc__free(&sim->env, t, sizeof *t);
        return HTC_ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        t->targets[i] = targets[i];
    *out = t;
    return begin(t);
}

htc_status htc_sim_trouble_heal(htc_sim_trouble *t)
{
    htc_status status = HTC_OK;
    if (!t)
        return HTC_EINVAL;
    t->over = 1;
    t->calm.size = sizeof t->calm;
    htc_sim_set_net(t->sim, NULL, NULL, &t->calm);
    htc_sim_heal(t->sim, NULL);
    set_disks(t, 0);
    drift(t, 0);
    for (size_t i = 0; i < t->count; i++) {
        for (size_t j = 0; j < t->count; j++)
            htc_sim_clog(t->targets[i].node, t->targets[j].node, 0);
        htc_sim_resume(t->targets[i].node);
        htc_status booted = htc_sim_boot(t->targets[i].node);
        status = status == HTC_OK ? booted : status;
    }
    return t->sim->status != HTC_OK ? t->sim->status : status;
}

htc_status htc_sim_trouble_counts(const htc_sim_trouble *t, uint64_t counts[9])
{
    if (!t || !counts)
        return HTC_EINVAL;
    for (int i = 0; i < KINDS; i++)
        counts[i] = t->counts[i];
    return HTC_OK;
}

void htc_sim_trouble_destroy(htc_sim_trouble *t)
{
    if (!t)
        return;
    htc_env env = t->env;
    htc__free(&env, t->targets, t->count * sizeof *t->targets);
    htc__free(&env, t, sizeof *t);
}
