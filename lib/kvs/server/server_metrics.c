/* What a server has counted, for monitors. doc/metrics.md lists the families. */
#include "htcsched/metrics.h"
#include "kvs/replica/cluster.h"
#include "kvs/storage/log.h"

const htc_ns htc__kv_commit_bounds[HTC__KV_COMMIT_BOUNDS] = { 100 * HTC_US,  250 * HTC_US,   500 * HTC_US, HTC_MS,
                                                              2500 * HTC_US, 5 * HTC_MS,     10 * HTC_MS,  25 * HTC_MS,
                                                              50 * HTC_MS,   100 * HTC_MS,   250 * HTC_MS, HTC_SECOND,
                                                              2500 * HTC_MS, 10 * HTC_SECOND };

htc__kv_fate htc__kv_fate_of(htc_status status)
{
    switch (status) {
    case HTC_OK:
        return HTC__KV_FATE_OK;
    case HTC_ENOTFOUND:
        return HTC__KV_FATE_NOT_FOUND;
    case HTC_MISMATCH:
        return HTC__KV_FATE_MISMATCH;
    case HTC_EFULL:
        return HTC__KV_FATE_MEMORY_FULL;
    case HTC_ENOSPC:
        return HTC__KV_FATE_DISK_FULL;
    case HTC_EBUSY:
        return HTC__KV_FATE_BUSY;
    case HTC_ETIMEDOUT:
        return HTC__KV_FATE_TIMED_OUT;
    case HTC_EUNKNOWN:
        return HTC__KV_FATE_UNKNOWN;
    default:
        return HTC__KV_FATE_ERROR;
    }
}

void htc__kv_count_commit(htc__kv_counts *c, htc_ns now)
{
    htc_ns took = now - c->begun;
    size_t i = 0;
    while (i < HTC__KV_COMMIT_BOUNDS && took > htc__kv_commit_bounds[i])
        i++;
    c->commits[i]++;
    c->commits_sum += took;
    c->committed += c->on_way;
}

static void counter(htc_metrics *m, const char *name, const char *unit, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, name, unit, help);
    htc_metrics_value(m, NULL, 0, value);
}

static void gauge(htc_metrics *m, const char *name, const char *unit, const char *help, uint64_t value)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, name, unit, help);
    htc_metrics_value(m, NULL, 0, value);
}

#define OK    (1u << HTC__KV_FATE_OK)
#define READ  (OK | 1u << HTC__KV_FATE_TIMED_OUT | 1u << HTC__KV_FATE_ERROR)
#define FOUND (READ | 1u << HTC__KV_FATE_NOT_FOUND)
#define LEASE (FOUND | 1u << HTC__KV_FATE_UNKNOWN | 1u << HTC__KV_FATE_DISK_FULL)
#define WRITE ((1u << HTC__KV_FATES) - 1)

/* Those that can be are shown from the beginning, so that a monitor sees the first one as a change; others when they have been. */
static void operations(const htc__kv_counts *c, htc_metrics *m)
{
    static const struct {
        const char *name;
        uint32_t    fates;
    } ops[HTC__KV_OPS] = {
        [HTC_KV_GET] = { "get", FOUND },
        [HTC_KV_PUT] = { "put", WRITE },
        [HTC_KV_DELETE] = { "delete", WRITE },
        [HTC_KV_APPEND] = { "append", WRITE },
        [HTC_KV_CAS_VERSION] = { "cas_version", WRITE },
        [HTC_KV_CAS_VALUE] = { "cas_value", WRITE },
        [HTC_KV_ADD] = { "add", WRITE },
        [HTC_KV_SCAN] = { "scan", READ },
        [HTC_KV_LEASE_GRANT] = { "lease_grant", LEASE | 1u << HTC__KV_FATE_BUSY },
        [HTC_KV_LEASE_RENEW] = { "lease_renew", LEASE },
        [HTC_KV_LEASE_REVOKE] = { "lease_revoke", LEASE },
        [HTC_KV_COUNT] = { "count", READ },
        [HTC_KV_MEMBERS] = { "members", OK },
        [HTC_KV_CHANGE] = { "change", OK },
    };
    static const char *const fates[] = { "ok",   "not_found", "mismatch", "memory_full", "disk_full",
                                         "busy", "timed_out", "unknown",  "error" };
    htc_metrics_family(m, HTC_METRIC_COUNTER, "htc_kv_operations", "",
                       "Operations that were answered, by what was asked and what became of it.");
    for (uint32_t op = HTC_KV_GET; op < HTC__KV_OPS; op++)
        for (uint32_t f = 0; f < HTC__KV_FATES; f++) {
            htc_metric_label labels[] = { { "operation", htc_bytes_of(ops[op].name) },
                                          { "outcome", htc_bytes_of(fates[f]) } };
            if ((ops[op].fates >> f & 1) || c->answers[op][f])
                htc_metrics_value(m, labels, 2, c->answers[op][f]);
        }
}

static void clients(const htc_kv_server *s, const htc_kv_server_stats *now, htc_metrics *m)
{
    htc__resp_stats resp = { 0 };
    if (s->resp)
        htc__resp_stats_get(s->resp, &resp);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "htc_kv_connections", "",
                       "Connections of clients that are open, by what they speak.");
    htc_metrics_value(m, &(htc_metric_label){ "protocol", htc_bytes_of("native") }, 1, now->connections);
    htc_metrics_value(m, &(htc_metric_label){ "protocol", htc_bytes_of("resp") }, 1, resp.connections);
    counter(m, "htc_kv_requests", "", "Messages with requests of the store's own clients that arrived.", now->messages);
    counter(m, "htc_kv_packs", "", "Messages of proxies with requests of several clients.", s->native.packs);
    counter(m, "htc_kv_packed_requests", "", "The requests in them, which htc_kv_requests counts as well.", s->native.packed);
    counter(m, "htc_kv_requests_pushed_back", "", "Those that were to be sent again: too much at once.",
            now->pushed_back);
    counter(m, "htc_kv_requests_deduplicated", "", "Retried changes answered from the record of the first try.",
            now->answered_from_list);
    counter(m, "htc_kv_cas_contended", "", "Compare-and-swaps delayed because others of the same key were in progress.",
            s->counts.contended);
    const htc__kv_watches *w = &s->native.watches;
    gauge(m, "htc_kv_watches", "", "Keys and prefixes that are watched, each watcher's own.", w->count);
    counter(m, "htc_kv_watch_events", "", "Values and deletions that were told to watchers.", w->events);
    counter(m, "htc_kv_watch_merged", "", "Changes that joined one that a watcher had not been told yet.", w->merged);
    counter(m, "htc_kv_watch_restarts", "", "Watches of prefixes started again because too much had changed.", w->started_over);
    counter(m, "htc_kv_resp_commands", "", "Commands of Redis' clients.", resp.commands);
    counter(m, "htc_kv_resp_connections_refused", "", "Connections of Redis' clients that there was no room for.",
            resp.refused);
    counter(m, "htc_kv_received_bytes", "bytes", "Bytes that arrived, those of other members too.", s->counts.received);
    counter(m, "htc_kv_sent_bytes", "bytes", "Bytes of answers to clients.", s->native.sent + w->sent + resp.sent);
}

static void records(const htc_kv_server *s, const htc_kv_server_stats *now, htc_metrics *m)
{
    if (!s->cluster)
        gauge(m, "htc_kv_keys", "", "Keys that there are.", s->keys);
    gauge(m, "htc_kv_memory_used_bytes", "bytes", "Memory for records; with LMDB for changes that are not stored yet.",
          s->cells.ops->used(s->cells.ctx));
    gauge(m, "htc_kv_memory_limit_bytes", "bytes", "Growing changes beyond it are refused; 0: there is none.",
          s->options.memory_max);
    gauge(m, "htc_kv_tombstones", "", "Deletions that are remembered one by one.", now->tombstones);
    gauge(m, "htc_kv_leases", "", "Leases that run.", now->leases);
    gauge(m, "htc_kv_clock", "", "The newest version.", now->clock);
}

static void batches(const htc_kv_server *s, const htc_kv_server_stats *now, htc_metrics *m)
{
    counter(m, "htc_kv_batches", "", "Batches of changes that were stored.", now->commits);
    counter(m, "htc_kv_batches_failed", "", "Batches that could not be stored, and were undone.", now->commits_failed);
    counter(m, "htc_kv_batches_bytes", "bytes", "Bytes of changes in the batches that were stored.",
            s->counts.committed);
    gauge(m, "htc_kv_staged_bytes", "bytes", "Changes that wait for the next batch.", htc__kv_staged(s));
    gauge(m, "htc_kv_waiting_bytes", "bytes", "Changes that wait for room in a batch.", s->delayed_bytes);
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "htc_kv_commit_seconds", "seconds",
                       "How long batches took until they were stored.");
    htc_metrics_histogram(m, NULL, 0,
                          &(htc_metric_durations){ htc__kv_commit_bounds, s->counts.commits, HTC__KV_COMMIT_BOUNDS,
                                                   s->counts.commits_sum });
}

static void the_log(const htc_kv_server *s, htc_metrics *m)
{
    htc__log_figures f;
    htc__log_look(&s->cells, &f);
    gauge(m, "htc_kv_log_segments", "", "Files of the log.", f.segments);
    gauge(m, "htc_kv_log_damaged_records", "", "Records that are known only to be damaged.", f.lost);
    counter(m, "htc_kv_log_checkpoints", "", "Copies of all records to the end of the log.", f.checkpoints);
}

void htc_kv_server_metrics(const htc_kv_server *s, htc_metrics *m)
{
    htc_kv_server_stats now = { .size = sizeof now };
    if (!m || htc_kv_server_stats_get(s, &now) != HTC_OK)
        return;
    gauge(m, "htc_kv_serving", "", "1: all that is stored has been read, a majority of each key's owners is heard, and it answers.",
          s->serving && !s->stopping && !s->stopped && (!s->cluster || htc__kv_cluster_hears_enough(s)));
    operations(&s->counts, m);
    clients(s, &now, m);
    records(s, &now, m);
    batches(s, &now, m);
    if (!s->options.engine.ops && s->options.log_durability)
        the_log(s, m);
    if (s->cluster)
        htc__kv_cluster_metrics(s, m);
}
