/* What a member of eventual namespaces has counted, for monitors. */
#include "htcsched/metrics.h"
#include "kvs/eventual/eventual.h"

static void counter(htc_metrics *m, const char *name, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, name, "", help);
    htc_metrics_value(m, NULL, 0, value);
}

static void gauge(htc_metrics *m, const char *name, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, name, "", help);
    htc_metrics_value(m, NULL, 0, value);
}

void htc__kv_eventual_metrics(const htc_kv_server *s, htc_metrics *m)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    if (!e)
        return;
    gauge(m, "htc_kv_eventual_records", "Keys of eventual namespaces that this member owns, deleted ones too.",
          e->index.count);
    gauge(m, "htc_kv_eventual_deleted", "Those of them that hold nothing but deletions.", e->deleted);
    gauge(m, "htc_kv_eventual_hints", "Changes that an owner may lack which was away.", e->hints.count);
    gauge(m, "htc_kv_eventual_requests_in_progress", "Requests that wait for owners.", e->seeking.count);
    counter(m, "htc_kv_eventual_hints_handed_over", "Hints whose owner has confirmed that it lacks nothing.",
            e->counts.handed_over);
    counter(m, "htc_kv_eventual_hints_dropped", "Hints dropped for lack of room.", e->counts.left_out);
    counter(m, "htc_kv_eventual_read_repairs", "Copies repaired because a read found them out of date.", e->counts.mended);
    counter(m, "htc_kv_eventual_compared", "Buckets compared with another owner.", e->counts.compared);
    counter(m, "htc_kv_eventual_copied", "Records sent to another owner as comparing found them to differ.",
            e->counts.copied);
    counter(m, "htc_kv_eventual_deletions_collected", "Deletions that all owners held and this one has removed.",
            e->counts.forgotten);
    gauge(m, "htc_kv_eventual_damaged", "Records that this member cannot read.", e->damaged.count);
    counter(m, "htc_kv_eventual_repaired", "Such records replaced by what the other owners had.", e->counts.repaired);
    gauge(m, "htc_kv_eventual_orphans", "Records of keys that this member no longer owns, kept until enough owners have them.", e->others);
    counter(m, "htc_kv_eventual_orphans_handed_off", "Records handed to their owners by this member, which no longer owns them.", e->counts.left);
    counter(m, "htc_kv_eventual_conflicts", "Changes refused since there were too many values.", e->counts.conflicts);
}
