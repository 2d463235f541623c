/* What a member among several has counted, for monitors: the others, and the rounds of its register. */
#include "htcsched/metrics.h"
#include "kvs/replica/watch.h"
#include "kvs/eventual/eventual.h"

static void counter(htc_metrics *m, const char *name, const char *unit, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, name, unit, help);
    htc_metrics_value(m, NULL, 0, value);
}

static void gauge(htc_metrics *m, const char *name, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, name, "", help);
    htc_metrics_value(m, NULL, 0, value);
}

static void members(const htc_kv_server *s, htc_metrics *m)
{
    const htc__kv_cluster *c = s->cluster;
    uint64_t               connected = 0, suspected = 0, waiting = 0, listed = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        listed += c->peers[i].listed;
        if (i == c->self || !c->peers[i].listed)
            continue;
        connected += c->peers[i].connected != 0;
        suspected += htc__kv_cluster_suspected(s, &c->peers[i]) != 0;
        waiting += c->peers[i].items.len;
    }
    gauge(m, "htc_kv_members", "Members of the store, this one too.", listed);
    gauge(m, "htc_kv_members_connected", "Other members to which there is a connection.", connected);
    gauge(m, "htc_kv_members_suspected", "Other members that were not heard of for too long.", suspected);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_kv_members_waiting_bytes", "bytes",
                       "What waits to be sent to other members.");
    htc_metrics_value(m, NULL, 0, waiting);
    counter(m, "htc_kv_members_messages_sent", "", "Messages to other members.", c->counts.sent);
    counter(m, "htc_kv_members_sent_bytes", "bytes", "Bytes of messages to other members.", c->counts.sent_bytes);
    counter(m, "htc_kv_members_messages_received", "", "Messages received from other members.", c->counts.heard);
    counter(m, "htc_kv_members_messages_repeated", "", "Messages received twice or out of order, and ignored.",
            c->counts.repeated);
    counter(m, "htc_kv_members_dropped", "", "What was to be said to a member that was away, or had too much waiting.",
            c->counts.dropped);
}

static void requests(const htc_kv_server *s, htc_metrics *m)
{
    const htc__kv_cluster *c = s->cluster;
    gauge(m, "htc_kv_requests_in_progress", "Requests on their way to owners of their keys.", htc__kv_requests_count(s));
    gauge(m, "htc_kv_scans_in_progress", "Pages of scans, and counts, that all members are asked for.", htc__kv_scans_count(s));
    counter(m, "htc_kv_requests_forwarded", "", "Requests that another owner was asked to carry out.",
            c->counts.forwarded);
    counter(m, "htc_kv_buckets_moved", "", "Buckets that this member has moved to other owners.", c->counts.moved);
    counter(m, "htc_kv_buckets_copied", "", "Buckets that this member, being late, has copied from another owner.",
            c->counts.copied);
    htc__kv_repair_counts repair;
    htc__kv_repair_counted(s, &repair);
    gauge(m, "htc_kv_buckets_damaged", "Buckets of which this member has records that are damaged.", repair.damaged);
    counter(m, "htc_kv_buckets_renewed", "", "Buckets of which it had damaged records, and has none any more.", repair.renewed);
    counter(m, "htc_kv_renewals_failed", "", "Renewals of damaged buckets that failed here.", repair.given_up);
    counter(m, "htc_kv_requests_passed_on", "", "Requests given to the next owner, since one did not answer.",
            c->counts.passed_on);
}

static void watches(const htc_kv_server *s, htc_metrics *m)
{
    const htc__kv_watching_counts *w = htc__kv_cluster_watch_counted(s);
    counter(m, "htc_kv_watch_notices_sent", "", "Changes of keys that another member watches, sent to it.",
            htc__kv_cluster_marks_said(s));
    counter(m, "htc_kv_watch_notices_received", "", "Changes of keys that are watched here, received from other members.", w->heard);
    counter(m, "htc_kv_watch_reads_repeated", "", "Reads for watchers that were behind what a member had said.", w->again);
    counter(m, "htc_kv_watch_reads_settled", "", "Of these, those that outbid whatever was under way.", w->settled);
    counter(m, "htc_kv_watch_streams", "", "Members to which all that is watched here was said from the beginning.", w->streams);
}

static void catching(const htc_kv_server *s, htc_metrics *m)
{
    htc__kv_catchup_counts t;
    htc__kv_catchup_counted(s, &t);
    gauge(m, "htc_kv_catch_up_members", "Other members whose records are yet to be compared with this one's.", t.left);
    counter(m, "htc_kv_catch_up_rounds", "", "Members whose records were, to the end.", t.rounds);
    counter(m, "htc_kv_catch_up_keys", "", "Keys that were compared.", t.compared);
    counter(m, "htc_kv_catch_up_records", "", "Records that were newer at another member, and taken.", t.taken);
    counter(m, "htc_kv_catch_up_records_sent", "", "Records that were sent to members that catch up.", t.given);
}

void htc__kv_cluster_metrics(const htc_kv_server *s, htc_metrics *m)
{
    members(s, m);
    catching(s, m);
    requests(s, m);
    watches(s, m);
    htc__kv_eventual_metrics(s, m);
    if (!s->cluster->reg)
        return; /* it has not read its cells yet */
    const htc__kv_register_counts *r = htc__kv_register_counted(s->cluster->reg);
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_kv_rounds", "",
                       "Rounds that owners of keys were asked for, by their phase.");
    htc_metrics_value(m, &(htc_metric_label){ "phase", htc_bytes_of("read") }, 1, r->reads);
    htc_metrics_value(m, &(htc_metric_label){ "phase", htc_bytes_of("prepare") }, 1, r->prepares);
    htc_metrics_value(m, &(htc_metric_label){ "phase", htc_bytes_of("accept") }, 1, r->accepts);
    counter(m, "htc_kv_rounds_lost", "", "Rounds that a higher ballot has outbid.", r->lost);
    counter(m, "htc_kv_rounds_timed_out", "", "Rounds that too few owners answered in time.", r->overdue);
    counter(m, "htc_kv_round_messages_retransmitted", "", "Messages of rounds sent again to owners that had not answered.",
            r->said_again);
    counter(m, "htc_kv_requests_handed_over", "", "Requests given to another owner after lost rounds.", r->handed_over);
    counter(m, "htc_kv_requests_timed_out", "", "Requests that no majority answered in time.", r->given_up);
}
