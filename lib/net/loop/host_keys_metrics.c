/* What came of connections through secure channels, for monitors. */
#include "htcsched/host_keys.h"

static void counter(htc_metrics *m, const char *name, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, name, "", help);
    htc_metrics_value(m, NULL, 0, value);
}

void htc_host_keys_metrics(const htc_host_keys *keys, htc_metrics *metrics)
{
    htc_host_keys_counts c;
    htc_host_keys_count(keys, &c);
    counter(metrics, "htc_channel_opened", "Connections whose ends have shown keys that the other one knows.", c.opened);
    counter(metrics, "htc_channel_refused", "Handshakes that failed, here or there, for whatever reason.", c.refused);
    counter(metrics, "htc_channel_busy", "Handshakes refused or sent away with a cookie: too many at once.", c.busy);
    counter(metrics, "htc_channel_rate_limited", "Handshakes refused: too many from one address.", c.rate_limited);
    counter(metrics, "htc_channel_crowded_out", "Strangers closed to make room for others.", c.crowded_out);
    counter(metrics, "htc_channel_disowned", "Open connections closed because their key was revoked or removed.", c.disowned);
    htc_metrics_family(metrics, HTC_METRIC_GAUGE, "htc_channel_strangers", "", "Connections on which no key has been shown yet.");
    htc_metrics_value(metrics, NULL, 0, c.strangers);
}
