#include "roles/gateway/agent_figures.h"

#include <assert.h>

#define FILES_MAX UINT64_C(100000000)  /* of one attempt */
#define BYTES_MAX (UINT64_C(1) << 50)

const htc_ns htc__figures_bounds[FIGURES_BOUNDS] = { 100 * HTC_MS,      HTC_SECOND,        10 * HTC_SECOND,   60 * HTC_SECOND,
                                                     600 * HTC_SECOND, 3600 * HTC_SECOND, 36000 * HTC_SECOND };
const char *const htc__figures_names[FIGURES_ENDS] = { "done", "failed", "limit", "staging", "refused", "cancelled", "stopped", "lost", "other" };

static figures_end end_of(htc_status status)
{
    switch (status) {
    case HTC_OK: return FIGURES_DONE;
    case HTC_EEXIT:
    case HTC_ESIGNAL: return FIGURES_FAILED;
    case HTC_EOOM:
    case HTC_EWALLTIME: return FIGURES_LIMIT;
    case HTC_EINPUT:
    case HTC_ESTAGEIN:
    case HTC_ESTAGEOUT:
    case HTC_EPATH:
    case HTC_ENOSPC: return FIGURES_STAGING;
    case HTC_ENOEXEC:
    case HTC_EREFUSED:
    case HTC_ENOFIT:
    case HTC_EUNSUPPORTED: return FIGURES_REFUSED;
    case HTC_ECANCELLED: return FIGURES_CANCELLED;
    case HTC_EKILLED:
    case HTC_ESTOPPED: return FIGURES_STOPPED;
    case HTC_ELOST: return FIGURES_LOST;
    default: return FIGURES_OTHER;
    }
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

void htc__figures_add(agent_figures *f, const htc_outcome *o, uint32_t cores)
{
    assert(o->ended >= o->started && cores >= 1);
    htc_ns   ran = o->ended - o->started;
    uint32_t bucket = 0;
    f->ended[end_of(o->status)]++;
    if (!o->started)
        return; /* it never ran */
    while (bucket < FIGURES_BOUNDS && ran > htc__figures_bounds[bucket])
        bucket++;
    f->durations[bucket]++;
    f->run += ran;
    f->cpu += at_most(o->cpu_ns, ran > UINT64_MAX / cores ? ran : ran * cores);
    f->output_files += at_most(o->outputs.files, FILES_MAX);
    f->output_bytes += at_most(o->outputs.bytes, BYTES_MAX);
}
