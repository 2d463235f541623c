#include "sim/scenarios/progress.h"

#define EVERY (200 * HTC_MS)

void htc__progress_begin(progress *p, const htc_scale_host *host)
{
    p->begun = p->told = host->clock ? host->clock(host->ctx) : 0;
}

void htc__progress_tell(progress *p, const htc_scale_host *host, htc_scale_progress how)
{
    htc_ns now = host->clock && host->progress ? host->clock(host->ctx) : 0;
    if (!host->progress || (host->clock && now - p->told < (host->progress_ns ? host->progress_ns : EVERY)))
        return;
    p->told = now;
    how.size = sizeof how;
    how.spent = now - p->begun;
    if (how.spent)
        how.rate = (double)how.done * 1e9 / (double)how.spent;
    if (how.rate > 0 && how.total > how.done)
        how.left = (htc_ns)((double)(how.total - how.done) * 1e9 / how.rate);
    host->progress(host->ctx, &how);
}
