/* Clusters of an experiment of fair sharing: sections [cluster.NAME]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fairshare.h"

static htc_sim_fairshare_cluster cluster_of(settings *s, const char *name)
{
#define IN(key) settings_in(s, "cluster", name, key)
    return (htc_sim_fairshare_cluster){ .size = sizeof(htc_sim_fairshare_cluster), .cores = settings_count(s, IN("cores")), .speed = settings_real(s, IN("speed")),
                                        .service_ns = settings_span(s, IN("service")), .batch = (uint32_t)settings_count(s, IN("batch")),
                                        .hold = settings_real(s, IN("hold")), .hold_rate = settings_real(s, IN("hold_rate")), .life_ns = settings_span(s, IN("life")),
                                        .others = settings_count(s, IN("others")), .others_gap = settings_law(s, IN("others_gap")),
                                        .others_length = settings_law(s, IN("others_length")) };
#undef IN
}

int fairshare_clusters(fairshare *f, settings *s, htc_error *error)
{
    size_t n = 0;
    while (settings_section(s, "cluster", n))
        n++;
    if (n > HTC_SIM_FAIRSHARE_CLUSTERS_MAX)
        return settings_refuse(error, HTC_ECONFIG, "there are too many clusters", "write at most 256 sections [cluster.NAME]");
    f->on = calloc(n + 1, sizeof *f->on);
    f->clusters = calloc(n + 1, sizeof *f->clusters);
    f->cluster_names = calloc(n + 1, sizeof *f->cluster_names);
    if (!f->on || !f->clusters || !f->cluster_names)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the clusters", "make the experiment smaller");
    for (size_t k = 0; k < n; k++) {
        const char *name = settings_section(s, "cluster", k);
        if (strlen(name) >= sizeof *f->cluster_names)
            return settings_refuse(error, HTC_ECONFIG, "the name of a cluster is too long", "names have at most 47 bytes");
        f->clusters[k] = cluster_of(s, name);
        snprintf(f->cluster_names[k], sizeof *f->cluster_names, "%s", name);
        if (f->clusters[k].others > f->clusters[k].cores) {
            settings_refuse(error, HTC_ECONFIG, "", "lower it, or raise the cores");
            snprintf(error->text, sizeof error->text, "cluster.%.60s.others is more than its cores", name);
            return 0;
        }
    }
    if (n) { /* cluster.cores is that of a cluster without a name */
        f->options.clusters = f->clusters;
        f->options.n_clusters = n;
        f->options.cores = 0;
    }
    return 1;
}
