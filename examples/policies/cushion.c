/* A management policy of nodes on lease: some idle nodes are kept for jobs that may come soon, one for each four that are busy. Less is asked for, and
 * jobs wait less, than under "perlease"; what it costs is the nodes that are kept. */
#include <htcsched/policy_file.h>
#include <htcsched/provision.h>

HTC_POLICY_FILE;

#define BUSY_FOR_ONE 4
#define LACKING      1000 /* why nodes are asked for: reasons of one's own begin here */

/* What waiting jobs lack. */
static uint64_t request(void *ctx, const htc_provision_view *view, uint32_t *reason)
{
    uint64_t waiting = view->demand->waiting_nodes;
    (void)ctx;
    *reason = LACKING;
    return waiting > view->idle ? waiting - view->idle : 0;
}

/* Idle nodes, but for those that waiting jobs need and those that are kept. More than the lease has is taken for that. */
static uint64_t release(void *ctx, const htc_provision_view *view, uint64_t leased)
{
    uint64_t keep = view->demand->waiting_nodes + view->demand->running_nodes / BUSY_FOR_ONE;
    (void)ctx;
    (void)leased;
    return view->idle > keep ? view->idle - keep : 0;
}

static const htc_provision_policy cushion = { .size = sizeof cushion, .name = "cushion", .request = request, .release = release };

htc_status htc_policy_register(htc_registry *registry)
{
    return htc_provision_register(registry, &cushion);
}
