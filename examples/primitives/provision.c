/* A runtime environment on a provider's nodes: it asks when its queue outgrows them, and returns a lease that has
 * become idle. */
#include <stdio.h>

#include "htcsched/provision.h"

#define MINUTE (60 * HTC_SECOND)
#define HOUR   (60 * MINUTE)

int main(void)
{
    htc_provision_options options =
        HTC_PROVISION_OPTIONS_INIT; /* jobs: B = 40, R = 1.2, a scan each minute, leases by the hour */
    htc_provision      *book;
    htc_provision_order order;
    htc_provision_usage usage;
    uint64_t            provider_free = 300, granted;

    if (htc_provision_create(NULL, &options, 0, &book) != HTC_OK)
        return 1;
    htc_provision_usage_at(book, 0, &usage);
    printf("at the start: %u nodes\n", (unsigned)usage.owned);

    /* Three jobs wait, for 90 nodes in all; 30 of the 40 nodes are busy. The demand is 120. */
    htc_provision_demand demand = {
        .waiting_jobs = 3, .waiting_nodes = 90, .waiting_largest = 50, .running_nodes = 30
    };
    if (htc_provision_scan(book, MINUTE, &demand, &order) == HTC_OK) {
        printf("asks for %u (DR%u)\n", (unsigned)order.nodes, (unsigned)order.reason);
        /* The provider decides; here this request is the only one. */
        htc_provision_request request = { .id = 1, .nodes = order.nodes };
        htc_provision_grant(NULL, NULL, provider_free, &request, 1, &granted);
        htc_provision_granted(book, MINUTE, granted);
        provider_free -= granted;
        htc_provision_change setup;
        htc_provision_set_up(NULL, 1, granted, &setup);
        printf("gets %u; setting them up takes %u node-seconds\n", (unsigned)granted,
               (unsigned)(setup.total_ns / HTC_SECOND));
    }

    /* An hour later 100 nodes are busy, two hours later 20. */
    for (htc_ns now = HOUR + MINUTE; now <= 2 * HOUR + MINUTE; now += HOUR) {
        demand = (htc_provision_demand){ .running_nodes = now < 2 * HOUR ? 100 : 20 };
        if (htc_provision_check(book, now, &demand, &order) == HTC_OK)
            printf("after %u h: returns %u\n", (unsigned)(now / HOUR), (unsigned)order.nodes);
        else
            printf("after %u h: keeps them\n", (unsigned)(now / HOUR));
    }
    htc_provision_end(book, 3 * HOUR, NULL);
    htc_provision_usage_at(book, 3 * HOUR, &usage);
    printf("charged: %u node-hours, at most %u nodes at a time\n", (unsigned)usage.node_units, (unsigned)usage.peak);
    htc_provision_destroy(book);
    return 0;
}
