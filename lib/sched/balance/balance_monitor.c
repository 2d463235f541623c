/* The monitoring service (Algorithm 6), the census that it writes, and why it is needed. */
#include <assert.h>
#include <math.h>

#include "core/util.h"
#include "sched/balance/balance_private.h"

#define FORMAT 1

/* ---- The census ---- */

void htc__census_write(htc_buf *b, const uint32_t *free, uint32_t n)
{
    htc_put_u8(b, FORMAT);
    htc_put_varint(b, n);
    for (uint32_t i = 0; i < n; i++)
        htc_put_varint(b, free[i] == HTC_BALANCE_UNKNOWN ? 0 : (uint64_t)free[i] + 1);
}

/* Most counts take two bytes. */
static uint64_t get_count(htc_reader *r)
{
    const uint8_t *p = r->p;
    if (htc_reader_left(r) < 2 || p[0] < 0x80 || p[1] >= 0x80 || p[1] == 0)
        return htc_get_varint(r);
    r->p += 2;
    return (p[0] & 0x7f) | (uint64_t)p[1] << 7;
}

htc_status htc__census_read(htc_bytes census, uint32_t *free, uint32_t n)
{
    htc_reader r = htc_reader_of(census);
    uint8_t    format = htc_get_u8(&r);
    if (r.status == HTC_OK && format > FORMAT)
        return HTC_EVERSION;
    size_t count = htc_get_count(&r, 1);
    if (r.status != HTC_OK || format != FORMAT || count > HTC_BALANCE_PARTITIONS_MAX)
        return HTC_ECORRUPT;
    for (uint32_t i = 0; i < n; i++)
        free[i] = HTC_BALANCE_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = get_count(&r);
        if (v > HTC_BALANCE_FREE_MAX + UINT64_C(1))
            htc_reader_fail(&r);
        else if (i < n && v > 0)
            free[i] = (uint32_t)(v - 1);
    }
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

/* ---- The service ---- */

struct htc_balance_monitor {
    const htc_env *env;
    uint32_t      *free;
    uint32_t       partitions;
    uint32_t       at; /* the partition that is looked at */
    htc_ns         interval_ns;
    htc_ns         until;
    uint32_t       last; /* htc_balance_kind of the last action; 0: none yet */
    htc_buf        census;
};

htc_status htc_balance_monitor_create(const htc_env *env, uint32_t partitions, htc_ns interval_ns,
                                      htc_balance_monitor **out)
{
    if (partitions == 0 || partitions > HTC_BALANCE_PARTITIONS_MAX || !out)
        return HTC_EINVAL;
    htc_balance_monitor *m = htc__alloc(env, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    m->env = env;
    m->partitions = partitions;
    m->interval_ns = interval_ns ? interval_ns : HTC__BALANCE_PAUSE_NS;
    htc_buf_init(&m->census, env, 0);
    m->free = htc__alloc(env, partitions * sizeof *m->free);
    /* The longest census at once: no step is left without memory. */
    if (!m->free || !htc_buf_extend(&m->census, 8 + 4 * (size_t)partitions)) {
        htc_balance_monitor_destroy(m);
        return HTC_ENOMEM;
    }
    *out = m;
    return HTC_OK;
}

void htc_balance_monitor_destroy(htc_balance_monitor *monitor)
{
    if (!monitor)
        return;
    htc__free(monitor->env, monitor->free, monitor->partitions * sizeof *monitor->free);
    htc_buf_free(&monitor->census);
    htc__free(monitor->env, monitor, sizeof *monitor);
}

static void look_at(htc_balance_monitor *m, uint32_t partition, htc_balance_action *action)
{
    m->at = partition;
    m->last = HTC_BALANCE_LOOK;
    *action = (htc_balance_action){ .kind = HTC_BALANCE_LOOK, .partition = partition };
}

static void publish(htc_balance_monitor *m, htc_balance_action *action)
{
    htc_buf_clear(&m->census);
    htc__census_write(&m->census, m->free, m->partitions);
    assert(m->census.status == HTC_OK); /* there was room for the longest from the beginning */
    m->last = HTC_BALANCE_PUBLISH;
    *action = (htc_balance_action){ .kind = HTC_BALANCE_PUBLISH, .body = htc_buf_bytes(&m->census) };
}

htc_status htc_balance_monitor_step(htc_balance_monitor *monitor, htc_ns now, const htc_balance_answer *answer,
                                    htc_balance_action *action)
{
    htc_balance_monitor *m = monitor;
    if (!m || !action)
        return HTC_EINVAL;
    if (m->last == HTC_BALANCE_LOOK) {
        if (!answer || (answer->free > HTC_BALANCE_FREE_MAX && answer->free != HTC_BALANCE_UNKNOWN))
            return HTC_EINVAL;
        assert(m->at < m->partitions);
        m->free[m->at] = answer->free;
        if (m->at + 1 < m->partitions)
            look_at(m, m->at + 1, action);
        else
            publish(m, action);
        return HTC_OK;
    }
    if (m->last == HTC_BALANCE_PUBLISH) {
        m->until = htc__later(now, m->interval_ns);
        m->last = HTC_BALANCE_WAIT;
    }
    if (m->last == HTC_BALANCE_WAIT && now < m->until)
        *action = (htc_balance_action){ .kind = HTC_BALANCE_WAIT, .until = m->until };
    else
        look_at(m, 0, action);
    return HTC_OK;
}

htc_status htc_balance_monitor_tape(htc_balance_monitor *monitor, const htc_tape *tape)
{
    htc_balance_monitor *m = monitor;
    htc_status           status = m ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint64_t state[] = { m->partitions, m->at, m->last, m->until };
    status = tape->move(tape->ctx, state, sizeof state);
    if (status == HTC_OK && state[0] != m->partitions)
        status = HTC_EFORMAT;
    if (status == HTC_OK && state[1] >= m->partitions)
        status = HTC_ECORRUPT;
    if (status != HTC_OK)
        return status;
    m->at = (uint32_t)state[1];
    m->last = (uint32_t)state[2];
    m->until = state[3];
    status = tape->move(tape->ctx, m->free, m->partitions * sizeof *m->free);
    for (uint32_t i = 0; i < m->partitions && status == HTC_OK; i++)
        status = m->free[i] <= HTC_BALANCE_FREE_MAX || m->free[i] == HTC_BALANCE_UNKNOWN ? HTC_OK : HTC_ECORRUPT;
    return status;
}

/* ---- Why random stealing fails ---- */

/* By logarithms: thousands of factors would leave the range of a double on the way to a product that is in it. */
htc_status htc_balance_blocked(const uint64_t *held, size_t steps, uint64_t nodes, double *p)
{
    double log_p = 0;
    if ((!held && steps) || nodes == 0 || !p)
        return HTC_EINVAL;
    for (size_t i = 0; i < steps; i++)
        if (held[i] > nodes)
            return HTC_EINVAL;
    for (size_t i = 0; i < steps; i++)
        log_p += log((double)held[i]) - log((double)nodes);
    *p = exp(log_p);
    return HTC_OK;
}
