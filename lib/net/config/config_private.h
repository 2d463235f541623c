/* What the files of the configuration share: config.c has the table of keys and reads files, config_sites.c what stands in [site.NAME]. */
#ifndef HTC_NET_CONFIG_PRIVATE_H
#define HTC_NET_CONFIG_PRIVATE_H

#include "htcsched/config.h"

#define SITES_MAX 256
#define LIST_MAX 1024
#define RESOURCES_MAX 15 /* of a site, beside its GPUs */
#define CONFIG_KEYS_MAX 160

typedef enum kind { LOOPBACK = 1, ADDRESS, LIST, CHOICE, NUMBER, AUTO_NUMBER, SIZE, SECONDS, MILLISECONDS, REAL, TEXT, ORIGIN } kind;

/* allowed: for people, and for CHOICE the very list (separated by |). min and max: NUMBER, SIZE; SECONDS in seconds. */
typedef struct config_key {
    const char *name;
    uint32_t    kind;
    const char *fallback, *allowed;
    double      min, max;
} config_key;

enum { SITE_ADAPTER, SITE_CORES, SITE_NODE_CORES, SITE_MEMORY, SITE_TASK_MEMORY, SITE_USERS, SITE_SPEED, SITE_ORG, SITE_TYPE, SITE_OS, SITE_CONTAINER, SITE_GPUS, SITE_DIR, SITE_OPTIONS,
       SITE_HOSTS, SITE_CREDENTIALS, SITE_AGENT_CORES, SITE_STEPS, SITE_SUBMITS, SITE_TIME, SITE_DRAIN, SITE_PERIOD, SITE_RUNNING_MAX, SITE_QUEUED_MAX, SITE_JOBCOMP, SITE_KEYS };
enum { ADAPTER_FORK, ADAPTER_JOIN, ADAPTER_BATCH }; /* from ADAPTER_BATCH on: this system starts the site's broker */

typedef struct list {
    const char **items; /* each a string of its own; NULL at the end */
    size_t       count;
} list;

typedef struct site {
    char *name;
    char *values[SITE_KEYS];
    list  users;
    htc_resource resources[RESOURCES_MAX + 1]; /* each name a string of its own; GPUs among them */
    size_t       n_resources;
} site;

struct htc_config {
    const htc_env    *env;
    char             *values[CONFIG_KEYS_MAX]; /* NULL: the default */
    list              lists[CONFIG_KEYS_MAX];
    site              sites[SITES_MAX];
    size_t            sites_count;
    htc_site_options *gateway_sites; /* filled by htc_config_gateway */
    size_t            gateway_sites_count;
};

/* config.c */
int         htc__config_value(const config_key *k, const char *text, double *out); /* the value as a number in the unit of the key; -1: it is not allowed */
int         htc__config_choice(const char *allowed, const char *text);             /* the place of text in "a|b|c", or -1 */
htc_status  htc__config_bad_value(const config_key *k, const char *name, const char *value, htc_error *error);
htc_status  htc__config_keep(const htc_env *env, char **place, const char *value, htc_error *error);
htc_status  htc__config_list_set(const htc_env *env, list *l, const char *value);
double      htc__config_real(const htc_config *c, const char *key);
int         htc__config_names(const htc_config *c, const char *key); /* it has a value of its own, which may be the default */

/* config_sites.c */
htc_status  htc__config_set_site(htc_config *c, const char *key, const char *value, htc_error *error);
htc_status  htc__config_check_sites(const htc_config *c, htc_error *error); /* what one key alone cannot say */

/* config_periods.c */
htc_status  htc__config_check_periods(const htc_config *c, htc_error *error);

#endif
