/* htc.ini: one table of keys, what each allows and its default; inih splits the lines. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/config.h"
#include "htcsched/policy_file.h"
#include "net/loop/address.h"
#include "net/loop/host_private.h"
#include "net/files/proc.h"

#define FILE_MAX ((size_t)1 << 20)
#define SITES_MAX 256
#define LIST_MAX 1024

typedef enum kind { LOOPBACK = 1, ADDRESS, LIST, CHOICE, NUMBER, AUTO_NUMBER, SIZE, SECONDS, MILLISECONDS, REAL, TEXT } kind;

/* allowed: for people, and for CHOICE the very list (separated by |). min and max: NUMBER, SIZE; SECONDS in seconds. */
static const struct key {
    const char *name;
    uint32_t    kind;
    const char *fallback, *allowed;
    double      min, max;
} keys[] = {
    { "server.listen", LOOPBACK, "", "empty (Unix socket alone) or 127.0.0.1:PORT; nothing beyond loopback yet", 0, 0 },
    { "server.join", ADDRESS, "", "empty (no host joins) or the HOST:PORT of this machine where hosts with keys join, not 0.0.0.0", 0, 0 },
    { "server.portal", LOOPBACK, "off", "off (no web page) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "server.metrics", LOOPBACK, "", "empty (none) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "server.others", CHOICE, "off", "off|on", 0, 0 },
    { "server.connections_max", NUMBER, "1024", "16 to 65536", 16, 65536 },
    { "server.strangers_max", NUMBER, "0", "0 (three quarters of server.connections_max) to 65536", 0, 65536 },
    { "server.uid_connections_max", NUMBER, "64", "1 to 65536", 1, 65536 },
    { "server.idle_s", SECONDS, "300", "1 to 86400 seconds", 1, 86400 },
    { "server.token_life_s", SECONDS, "604800", "1 to 31536000 seconds", 1, 31536000 },
    { "fair.policy", CHOICE, "maxmin", "maxmin|eq1|static|fcfs", 0, 0 },
    { "fair.weight", CHOICE, "const", "const|profiled", 0, 0 },
    { "fair.gamma", REAL, "0", "-1 to 1", -1, 1 },
    { "fair.users", LIST, "", "user names separated by commas", 0, 0 },
    { "fair.min_agents", NUMBER, "1", "0 to 1000000", 0, 1000000 },
    { "fair.tick_s", SECONDS, "5", "0.01 to 3600 seconds", 0.01, 3600 },
    { "agent.heartbeat_s", SECONDS, "10", "0.01 to 3600 seconds", 0.01, 3600 },
    { "agent.lost_after_s", SECONDS, "30", "0.05 to 86400 seconds", 0.05, 86400 },
    { "agent.launch_timeout_s", SECONDS, "600", "0.1 to 86400 seconds", 0.1, 86400 },
    { "agent.max_relaunch", NUMBER, "5", "1 to 1000", 1, 1000 },
    { "agent.relaunch_backoff_s", SECONDS, "5", "0.01 to 3600 seconds", 0.01, 3600 },
    { "agent.slots_max", NUMBER, "64", "1 to 64", 1, 64 },
    { "agent.prefetch", AUTO_NUMBER, "auto", "auto or 1 to 64", 1, 64 },
    { "agent.kill_after_s", SECONDS, "10", "0.01 to 3600 seconds", 0.01, 3600 },
    { "agent.policy_from", LIST, "", "paths of shared objects separated by commas", 0, 0 },
    { "agent.orphan_after_s", SECONDS, "60", "0.1 to 86400 seconds", 0.1, 86400 },
    { "task.max_attempts", NUMBER, "3", "1 to 1000", 1, 1000 },
    { "task.max_lost", NUMBER, "20", "1 to 100000", 1, 100000 },
    { "task.retry_backoff_s", SECONDS, "1", "0.001 to 3600 seconds", 0.001, 3600 },
    { "task.retry_backoff_max_s", SECONDS, "300", "0.001 to 86400 seconds", 0.001, 86400 },
    { "task.wall_max_s", SECONDS, "0", "0 (any) to 31536000 seconds", 0, 31536000 },
    { "task.others_as_owner", CHOICE, "off", "off|confined", 0, 0 },
    { "task.confined_paths", LIST, "", "absolute paths separated by commas", 0, 0 },
    { "task.env_pass", LIST, "", "names of variables separated by commas", 0, 0 },
    { "task.memory_wait_s", SECONDS, "60", "0.01 to 31536000 seconds", 0.01, 31536000 },
    { "split.max_tasks", NUMBER, "1099511627776", "1 to 1099511627776", 1, 1099511627776.0 },
    { "db.mode", CHOICE, "interval", "sync|interval|memory|on|batch|off", 0, 0 },
    { "db.metrics", LOOPBACK, "", "empty (none) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "db.sync_ms", MILLISECONDS, "5", "0 to 60000 milliseconds", 0, 60000 },
    { "db.join", ADDRESS, "", "empty or the HOST:PORT of this machine where hosts that join reach the store, not 0.0.0.0", 0, 0 },
    { "data.stage_retry", NUMBER, "3", "0 to 100", 0, 100 },
    { "data.content_grace_s", SECONDS, "86400", "60 to 31536000 seconds", 60, 31536000 },
    { "data.cache_max", SIZE, "1G", "1M to 1024T", 1048576, 1125899906842624.0 },
    { "data.uploads_max", SIZE, "64G", "1M to 1024T", 1048576, 1125899906842624.0 },
    { "data.output", CHOICE, "local", "local", 0, 0 },
    { "batch.system", CHOICE, "none", "none|slurm|sge|ssh", 0, 0 },
    { "batch.hosts", TEXT, "", "empty or the file of a list of hosts", 0, 0 },
    { "batch.options", TEXT, "", "more words for the command that submits", 0, 0 },
    { "batch.cores", NUMBER, "1", "1 to 64", 1, 64 },
    { "batch.steps", NUMBER, "64", "1 to 1024", 1, 1024 },
    { "batch.submits_per_s", NUMBER, "1", "1 to 50", 1, 50 },
    { "batch.time_s", SECONDS, "0", "0 (what the batch system gives) to 31536000 seconds", 0, 31536000 },
    { "batch.drain_s", SECONDS, "0", "0 (a tenth of batch.time_s) to 31536000 seconds", 0, 31536000 },
    { "batch.period_s", SECONDS, "6", "0.1 to 3600 seconds", 0.1, 3600 },
    { "log.level", CHOICE, "info", "error|warn|info|debug", 0, 0 },
    { "log.bytes_max", SIZE, "8M", "4K to 1T", 4096, 1099511627776.0 },
    { "log.files_max", NUMBER, "4", "1 to 100", 1, 100 },
};
#define KEYS (sizeof keys / sizeof *keys)

static const struct key site_keys[] = {
    { "adapter", CHOICE, "fork", "fork|join", 0, 0 },
    { "cores", NUMBER, "0", "0 (what the other sites leave; adapter join: 64) to 100000", 0, 100000 },
    { "node_cores", NUMBER, "0", "0 (cores) to 100000", 0, 100000 },
    { "memory", SIZE, "0", "0 (what there is) to 1024T", 0, 1125899906842624.0 },
    { "task_memory", SIZE, "0", "0 (memory divided by cores) to memory", 0, 1125899906842624.0 },
    { "users", LIST, "", "adapter join: names of the users that the host serves, separated by commas; empty: the owner alone", 0, 0 },
    { "speed", REAL, "1", "0.01 to 1000", 0.01, 1000 },
};
enum { SITE_ADAPTER, SITE_CORES, SITE_NODE_CORES, SITE_MEMORY, SITE_TASK_MEMORY, SITE_USERS, SITE_SPEED, SITE_KEYS };
enum { ADAPTER_FORK, ADAPTER_JOIN };
static const char *const adapters[] = { "fork", "join" };
#define JOIN_CORES 64 /* that a host may join with, where nothing is said */

typedef struct list {
    const char **items; /* each a string of its own; NULL at the end */
    size_t       count;
} list;

typedef struct site {
    char *name;
    char *values[SITE_KEYS];
    list  users;
} site;

struct htc_config {
    const htc_env    *env;
    char             *values[KEYS]; /* NULL: the default */
    list              lists[KEYS];
    site              sites[SITES_MAX];
    size_t            sites_count;
    htc_site_options *gateway_sites; /* filled by htc_config_gateway */
    size_t            gateway_sites_count;
};

/* --- values --- */

static int number_of(const char *text, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno || !isfinite(v) || text[strspn(text, "0123456789.eE+-")])
        return -1;
    *out = v;
    return *end ? -1 : 0;
}

static int size_of(const char *text, double *out)
{
    static const char suffixes[] = "KMGT";
    char              digits[32];
    size_t            n = strlen(text);
    double            scale = 1;
    if (n == 0 || n >= sizeof digits)
        return -1;
    const char *suffix = strchr(suffixes, toupper((unsigned char)text[n - 1]));
    if (suffix)
        for (const char *s = suffixes; s <= suffix; s++)
            scale *= 1024;
    memcpy(digits, text, n + 1);
    if (suffix)
        digits[n - 1] = 0;
    if (number_of(digits, out) != 0)
        return -1;
    *out *= scale;
    return 0;
}

/* The place of text in "a|b|c", or -1. */
static int choice_of(const char *allowed, const char *text)
{
    size_t n = strlen(text);
    for (int i = 0;; i++) {
        size_t len = strcspn(allowed, "|");
        if (len == n && memcmp(allowed, text, n) == 0)
            return i;
        if (!allowed[len])
            return -1;
        allowed += len + 1;
    }
}

/* "ADDRESS:PORT" of this machine alone, or nothing; 0, or -1. */
static int loopback_of(const char *text)
{
    char        address[64];
    const char *colon = strrchr(text, ':');
    double      port;
    if (!text[0])
        return 0;
    if (!colon || (size_t)(colon - text) >= sizeof address || strlen(colon + 1) > 5 ||
        number_of(colon + 1, &port) != 0 || port < 1 || port > 65535 || port != floor(port))
        return -1;
    snprintf(address, sizeof address, "%.*s", (int)(colon - text), text);
    return htc__is_loopback(address) ? 0 : -1;
}

/* "HOST:PORT" that others can dial, or nothing; 0, or -1. */
static int address_of(const char *text)
{
    char     host[HTC__HOST_NAME_MAX];
    uint16_t port;
    if (!text[0])
        return 0;
    return htc__address_split(text, host, &port) && port && strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0 ? 0 : -1;
}

/* The value as a number in the unit of the key; -1 if it is not allowed. */
static int value_of(const struct key *k, const char *text, double *out)
{
    int choice;
    *out = 0;
    switch ((kind)k->kind) {
    case LIST:
    case TEXT:
        return 0;
    case LOOPBACK:
        return strcmp(text, k->fallback) == 0 ? 0 : loopback_of(text);
    case ADDRESS:
        return address_of(text);
    case CHOICE:
        choice = choice_of(k->allowed, text);
        *out = choice;
        return choice < 0 ? -1 : 0;
    case AUTO_NUMBER:
        if (strcmp(text, "auto") == 0)
            return 0;
        break;
    case SIZE:
        return size_of(text, out) == 0 && *out >= k->min && *out <= k->max && *out == floor(*out) ? 0 : -1;
    case SECONDS:
    case MILLISECONDS:
    case REAL:
        return number_of(text, out) == 0 && *out >= k->min && *out <= k->max ? 0 : -1;
    case NUMBER:
        break;
    }
    return number_of(text, out) == 0 && *out >= k->min && *out <= k->max && *out == floor(*out) ? 0 : -1;
}

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < KEYS && strcmp(keys[i].name, name) != 0)
        i++;
    return i;
}

/* --- lists --- */

static void list_free(const htc_env *env, list *l)
{
    for (size_t i = 0; i < l->count; i++)
        htc__strfree(env, (char *)(uintptr_t)l->items[i]);
    htc__free(env, l->items, (LIST_MAX + 1) * sizeof *l->items);
    *l = (list){ 0 };
}

static htc_status list_set(const htc_env *env, list *l, const char *value)
{
    list fresh = { 0 };
    list_free(env, l);
    fresh.items = htc__alloc(env, (LIST_MAX + 1) * sizeof *fresh.items);
    if (!fresh.items)
        return HTC_ENOMEM;
    while (*(value += strspn(value, ", \t"))) {
        size_t n = strcspn(value, ", \t");
        char  *word = fresh.count < LIST_MAX ? htc__alloc(env, n + 1) : NULL;
        if (!word)
            break;
        memcpy(word, value, n);
        fresh.items[fresh.count++] = word;
        value += n;
    }
    *l = fresh;
    return *value ? HTC_ENOMEM : HTC_OK;
}

/* --- setting --- */

static htc_status bad_value(const struct key *k, const char *name, const char *value, htc_error *error)
{
    return htc__error(error, HTC_ECONFIG, "%s = %.80s is not allowed: %s", name, value, k->allowed);
}

static htc_status keep(const htc_env *env, char **place, const char *value, htc_error *error)
{
    char *copy = htc__strdup(env, value);
    if (!copy)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc__strfree(env, *place);
    *place = copy;
    return HTC_OK;
}

static site *site_named(htc_config *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->sites_count; i++)
        if (strlen(c->sites[i].name) == len && memcmp(c->sites[i].name, name, len) == 0)
            return &c->sites[i];
    if (c->sites_count == SITES_MAX)
        return NULL;
    char *copy = htc__alloc(c->env, len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, name, len);
    c->sites[c->sites_count].name = copy;
    return &c->sites[c->sites_count++];
}

static htc_status set_site(htc_config *c, const char *key, const char *value, htc_error *error)
{
    const char *name = key + strlen("site."), *last = strrchr(name, '.');
    size_t      len = last ? (size_t)(last - name) : 0;
    double      number;
    if (len == 0 || len > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") < len)
        return htc__error(error, HTC_ECONFIG, "%.80s: a site is [site.NAME] with letters, digits, _ and -", key);
    for (size_t i = 0; i < SITE_KEYS; i++) {
        if (strcmp(site_keys[i].name, last + 1) != 0)
            continue;
        if (value_of(&site_keys[i], value, &number) != 0)
            return bad_value(&site_keys[i], key, value, error);
        site *s = site_named(c, name, len);
        if (!s)
            return htc__error(error, HTC_ECONFIG, "more than %d sites, or out of memory", SITES_MAX);
        if (i == SITE_USERS && list_set(c->env, &s->users, value) != HTC_OK)
            return htc__error(error, HTC_ECONFIG, "%.80s: more than %d words, or out of memory", key, LIST_MAX);
        return keep(c->env, &s->values[i], value, error);
    }
    return htc__error(error, HTC_ECONFIG, "unknown key %.80s: a site has adapter, cores, node_cores, memory, task_memory, users and speed", key);
}

/* The keys of the same section, for whoever mistyped one. */
static htc_status unknown(const char *key, htc_error *error)
{
    size_t      section = strcspn(key, "."), at = 0;
    htc_status  status = htc__error(error, HTC_ECONFIG, "unknown key %.80s", key);
    const char *before = "known here: ";
    if (!error)
        return status;
    for (size_t i = 0; i < KEYS && at < sizeof error->hint; i++)
        if (strncmp(keys[i].name, key, section + 1) == 0) {
            int n = snprintf(error->hint + at, sizeof error->hint - at, "%s%s", before, keys[i].name + section + 1);
            at += n > 0 ? (size_t)n : 0;
            before = ", ";
        }
    if (at == 0)
        snprintf(error->hint, sizeof error->hint,
                 "sections are server, fair, agent, task, split, db, data, batch, monitor, log and site.NAME");
    return status;
}

htc_status htc_config_set(htc_config *c, const char *key, const char *value, htc_error *error)
{
    double number;
    if (!c || !key || !value)
        return htc__error(error, HTC_EINVAL, "a key and a value are needed");
    if (strncmp(key, "site.", 5) == 0)
        return set_site(c, key, value, error);
    size_t i = find(key);
    if (i == KEYS)
        return unknown(key, error);
    if (value_of(&keys[i], value, &number) != 0)
        return bad_value(&keys[i], key, value, error);
    if (keys[i].kind == LIST && list_set(c->env, &c->lists[i], value) != HTC_OK)
        return htc__error(error, HTC_ECONFIG, "%s: more than %d words, or out of memory", key, LIST_MAX);
    return keep(c->env, &c->values[i], value, error);
}

/* --- reading --- */

typedef struct reading {
    htc_config *config;
    htc_error  *error;
    const char *name;
    const char *at, *end;
    uint32_t    line;
    htc_status  status;
} reading;

static htc_status fail_at(reading *r, htc_status status)
{
    if (r->error) {
        r->error->line = r->line;
        snprintf(r->error->where, sizeof r->error->where, "%.140s:%u", r->name, r->line);
    }
    return r->status = status;
}

/* inih's way to get a line. Blanks before it are dropped: for inih they would mean "goes on from the line before", and
 * an indented key would silently become part of another one's value. */
static char *next_line(char *out, int room, void *arg)
{
    reading *r = arg;
    if (r->at == r->end || r->status != HTC_OK)
        return NULL;
    r->line++;
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *stop = newline ? newline : r->end;
    const char *from = r->at;
    while (from < stop && (*from == ' ' || *from == '\t'))
        from++;
    size_t n = (size_t)(stop - from);
    r->at = newline ? newline + 1 : r->end;
    if (memchr(from, 0, n)) {
        htc__error(r->error, HTC_ECONFIG, "a zero byte in a line");
        fail_at(r, HTC_ECONFIG);
        return NULL;
    }
    if (n + 2 > (size_t)room) {
        htc__error(r->error, HTC_ECONFIG, "a line has more than %d characters", room - 2);
        fail_at(r, HTC_ECONFIG);
        return NULL;
    }
    memcpy(out, from, n);
    out[n] = '\n';
    out[n + 1] = 0;
    return out;
}

static int on_value(void *arg, const char *section, const char *name, const char *value)
{
    reading *r = arg;
    char     key[256];
    if (r->status != HTC_OK)
        return 1;
    int n = snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", name);
    if (n < 0 || (size_t)n >= sizeof key)
        htc__error(r->error, r->status = HTC_ECONFIG, "a key is too long");
    else
        r->status = htc_config_set(r->config, key, value, r->error);
    if (r->status != HTC_OK)
        fail_at(r, r->status);
    return 1;
}

static int is_joined(const site *s)
{
    return s && choice_of(site_keys[SITE_ADAPTER].allowed, s->values[SITE_ADAPTER] ? s->values[SITE_ADAPTER] : "") == ADAPTER_JOIN;
}

/* What one key alone cannot say. */
static htc_status check_sites(const htc_config *c, htc_error *error)
{
    for (size_t i = 0; i < c->sites_count; i++) {
        htc_config_site s = { .size = sizeof s };
        htc_config_site_get(c, i, &s);
        if (s.task_memory > s.memory && s.memory)
            return htc__error(error, HTC_ECONFIG, "site.%s.task_memory: a task would reserve %llu bytes, and the site has %llu", s.name,
                              (unsigned long long)s.task_memory, (unsigned long long)s.memory);
        int joins = is_joined(&c->sites[i]);
        if (joins && (!htc_config_text(c, "server.join")[0] || !htc_config_text(c, "db.join")[0]))
            return htc__error(error, HTC_ECONFIG, "site.%s.adapter = join needs server.join and db.join, where its host reaches this machine", s.name);
        if (!joins && c->sites[i].users.count)
            return htc__error(error, HTC_ECONFIG, "site.%s.users is for adapter = join", s.name);
    }
    return HTC_OK;
}

htc_status htc_config_parse(const htc_env *env, htc_bytes text, const char *name, htc_config **out, htc_error *error)
{
    if (!out)
        return htc__error(error, HTC_EINVAL, "no place for the answer");
    htc_config *c = htc__alloc(env, sizeof *c);
    if (!c)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    c->env = env;
    const char *bytes = text.len ? text.data : "";
    reading     r = { c, error, name ? name : "htc.ini", bytes, bytes + text.len, 0, HTC_OK };
    int         bad = ini_parse_stream(next_line, &r, on_value, &r);
    if (r.status == HTC_OK && bad > 0) {
        r.line = (uint32_t)bad;
        htc__error(error, HTC_ECONFIG, "the line is neither [section] nor key = value");
        fail_at(&r, HTC_ECONFIG);
    } else if (r.status == HTC_OK && bad < 0) {
        r.status = htc__error(error, HTC_ENOMEM, "out of memory");
    }
    if (r.status == HTC_OK && (r.status = check_sites(c, error)) != HTC_OK && error)
        snprintf(error->where, sizeof error->where, "%.140s", r.name);
    if (r.status != HTC_OK) {
        htc_config_destroy(c);
        return r.status;
    }
    *out = c;
    return HTC_OK;
}

htc_status htc_config_load(const htc_env *env, const char *path, htc_config **out, htc_error *error)
{
    struct stat st;
    if (!path)
        return htc_config_parse(env, (htc_bytes){ 0 }, NULL, out, error);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > FILE_MAX) {
        int why = fd < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
        return htc__error(error, HTC_EINPUT, "cannot read the configuration %s: %s", path,
                          why ? strerror(why) : "not a file of at most 1 MiB");
    }
    size_t size = (size_t)st.st_size, got = 0;
    char  *text = htc__alloc(env, size + 1);
    while (text && got < size) {
        ssize_t n = read(fd, text + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    if (!text)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_status status = htc_config_parse(env, (htc_bytes){ text, got }, path, out, error);
    htc__free(env, text, size + 1);
    return status;
}

void htc_config_destroy(htc_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < KEYS; i++) {
        htc__strfree(c->env, c->values[i]);
        list_free(c->env, &c->lists[i]);
    }
    for (size_t i = 0; i < c->sites_count; i++) {
        htc__strfree(c->env, c->sites[i].name);
        for (size_t k = 0; k < SITE_KEYS; k++)
            htc__strfree(c->env, c->sites[i].values[k]);
        list_free(c->env, &c->sites[i].users);
    }
    htc__free(c->env, c->gateway_sites, c->gateway_sites_count * sizeof *c->gateway_sites);
    htc__free(c->env, c, sizeof *c);
}

/* --- getting --- */

const char *htc_config_text(const htc_config *c, const char *key)
{
    size_t i = find(key);
    if (i == KEYS)
        return "";
    return c->values[i] ? c->values[i] : keys[i].fallback;
}

static double number(const htc_config *c, const char *key)
{
    size_t i = find(key);
    double v = 0;
    if (i < KEYS)
        value_of(&keys[i], htc_config_text(c, key), &v);
    return v;
}

uint64_t htc_config_number(const htc_config *c, const char *key)
{
    return (uint64_t)number(c, key);
}

htc_ns htc_config_ns(const htc_config *c, const char *key)
{
    size_t i = find(key);
    if (i == KEYS || (keys[i].kind != SECONDS && keys[i].kind != MILLISECONDS))
        return 0;
    return (htc_ns)llround(number(c, key) * (keys[i].kind == SECONDS ? 1e9 : 1e6));
}

const char *const *htc_config_list(const htc_config *c, const char *key)
{
    static const char *const none[] = { NULL };
    size_t                   i = find(key);
    return i < KEYS && c->lists[i].items ? c->lists[i].items : none;
}

const char *htc_config_item(const htc_config *c, const char *key, size_t item)
{
    size_t i = find(key);
    return i < KEYS && item < c->lists[i].count ? c->lists[i].items[item] : NULL;
}

const char *htc_config_key(size_t i, const char **allowed, const char **fallback)
{
    if (i >= KEYS)
        return NULL;
    if (allowed)
        *allowed = keys[i].allowed;
    if (fallback)
        *fallback = keys[i].fallback;
    return keys[i].name;
}

htc_status htc_config_policies(const htc_config *c, htc_registry **out, htc_error *error)
{
    htc_registry *r = NULL;
    const char   *file;
    if (!c || !out)
        return htc__error(error, HTC_EINVAL, "no configuration");
    htc_status status = htc_registry_create(c->env, &r);
    if (status == HTC_OK)
        status = htc_registry_add_builtin(r);
    if (status != HTC_OK)
        (void)htc__error(error, status, "%s", htc_strerror(status));
    for (size_t i = 0; status == HTC_OK && (file = htc_config_item(c, "agent.policy_from", i)); i++)
        status = htc_policy_load(r, file, HTC_POLICY_TRUSTED, error);
    if (status == HTC_OK)
        *out = r;
    else
        htc_registry_destroy(r);
    return status;
}

uint32_t htc_config_durability(const htc_config *c)
{
    static const uint32_t by_choice[] = { HTC_DURABLE_SYNC, HTC_DURABLE_INTERVAL, HTC_DURABLE_MEMORY,
                                          HTC_DURABLE_SYNC, HTC_DURABLE_INTERVAL, HTC_DURABLE_MEMORY };
    return by_choice[htc_config_number(c, "db.mode")];
}

/* --- sites --- */

static uint32_t machine_cores(void)
{
    cpu_set_t set;
    int       n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

size_t htc_config_sites(const htc_config *c)
{
    return c->sites_count ? c->sites_count : 1;
}

static double site_real(const site *s, size_t key)
{
    double v = 0;
    value_of(&site_keys[key], s && s->values[key] ? s->values[key] : site_keys[key].fallback, &v);
    return v;
}

static uint64_t site_number(const site *s, size_t key)
{
    return (uint64_t)site_real(s, key);
}

/* All sites but those that hosts join are this machine: those that name no slots divide what the others leave of it, the first ones one more; at least 1. */
static uint32_t site_cores(const htc_config *c, const site *s)
{
    uint32_t cores = (uint32_t)site_number(s, SITE_CORES), machine = machine_cores(), left = machine > 4 ? machine : 4;
    uint32_t unnamed = 0, at = 0;
    if (cores || is_joined(s))
        return cores ? cores : JOIN_CORES;
    for (size_t i = 0; s && i < c->sites_count; i++) {
        if (is_joined(&c->sites[i]))
            continue;
        uint32_t named = (uint32_t)site_number(&c->sites[i], SITE_CORES);
        left -= named < left ? named : left;
        at = &c->sites[i] == s ? unnamed : at;
        unnamed += named == 0;
    }
    cores = s ? left / unnamed + (at < left % unnamed) : left;
    return cores ? cores : 1;
}

/* All sites but those that hosts join are this machine: those that name no memory divide what the others leave, by their slots. */
static uint64_t unnamed_memory(const htc_config *c, const site *s, uint32_t cores)
{
    uint64_t left = htc__machine_memory(), all_cores = 0;
    for (size_t i = 0; s && i < c->sites_count; i++) {
        if (is_joined(&c->sites[i]))
            continue;
        uint64_t named = site_number(&c->sites[i], SITE_MEMORY);
        all_cores += named ? 0 : site_cores(c, &c->sites[i]);
        left -= named < left ? named : left;
    }
    return all_cores > cores ? left / all_cores * cores : left;
}

static const char *const no_users[] = { NULL };

htc_status htc_config_site_get(const htc_config *c, size_t i, htc_config_site *site_out)
{
    if (!c || !site_out || i >= htc_config_sites(c))
        return HTC_EINVAL;
    const site *s = c->sites_count ? &c->sites[i] : NULL;
    htc_config_site  known = { .size = sizeof known }, *out = &known;
    out->name = s ? s->name : "local";
    int joins = is_joined(s);
    out->adapter = adapters[joins ? ADAPTER_JOIN : ADAPTER_FORK];
    if (joins)
        out->users = s->users.items ? s->users.items : no_users;
    out->cores = site_cores(c, s);
    out->node_cores = (uint32_t)site_number(s, SITE_NODE_CORES);
    if (!out->node_cores)
        out->node_cores = out->cores;
    out->memory = site_number(s, SITE_MEMORY);
    if (!out->memory && !joins)
        out->memory = unnamed_memory(c, s, out->cores);
    out->task_memory = site_number(s, SITE_TASK_MEMORY);
    if (!out->task_memory)
        out->task_memory = out->memory / out->cores;
    out->speed = site_real(s, SITE_SPEED);
    return htc__options_give(site_out, out, sizeof *out, offsetof(htc_config_site, users));
}

htc_status htc_config_gateway(htc_config *c, htc_gateway_options *o)
{
    size_t n = htc_config_sites(c);
    htc__free(c->env, c->gateway_sites, c->gateway_sites_count * sizeof *c->gateway_sites);
    c->gateway_sites_count = 0;
    c->gateway_sites = htc__alloc(c->env, n * sizeof *c->gateway_sites);
    if (!c->gateway_sites)
        return HTC_ENOMEM;
    c->gateway_sites_count = n;
    for (size_t i = 0; i < n; i++) {
        htc_config_site s = { .size = sizeof s };
        htc_config_site_get(c, i, &s);
        c->gateway_sites[i] = (htc_site_options){ .size = sizeof(htc_site_options), .name = s.name, .cores = s.cores, .memory = s.memory, .node_cores = s.node_cores,
                                                   .task_memory = s.task_memory, .joins = s.users != NULL, .users = s.users, .speed = s.speed };
    }
    o->sites = c->gateway_sites;
    o->n_sites = n;
    o->store_join = htc_config_text(c, "db.join");
    o->policy = htc_config_text(c, "fair.policy");
    o->fair_users = htc_config_list(c, "fair.users");
    o->weight_profiled = strcmp(htc_config_text(c, "fair.weight"), "profiled") == 0;
    o->gamma = number(c, "fair.gamma");
    o->tick_ns = htc_config_ns(c, "fair.tick_s");
    o->heartbeat_ns = htc_config_ns(c, "agent.heartbeat_s");
    o->lost_after_ns = htc_config_ns(c, "agent.lost_after_s");
    o->launch_timeout_ns = htc_config_ns(c, "agent.launch_timeout_s");
    o->relaunch_backoff_ns = htc_config_ns(c, "agent.relaunch_backoff_s");
    o->max_relaunch = (uint32_t)htc_config_number(c, "agent.max_relaunch");
    o->max_attempts = (uint32_t)htc_config_number(c, "task.max_attempts");
    o->max_lost = (uint32_t)htc_config_number(c, "task.max_lost");
    o->retry_backoff_ns = htc_config_ns(c, "task.retry_backoff_s");
    o->retry_backoff_max_ns = htc_config_ns(c, "task.retry_backoff_max_s");
    o->tasks_max = htc_config_number(c, "split.max_tasks");
    o->token_life_ns = htc_config_ns(c, "server.token_life_s");
    o->idle_ns = htc_config_ns(c, "server.idle_s");
    o->content_grace_ns = htc_config_ns(c, "data.content_grace_s");
    o->slots_max = (uint32_t)htc_config_number(c, "agent.slots_max");
    o->prefetch_max = (uint32_t)htc_config_number(c, "agent.prefetch");
    uint64_t min_agents = htc_config_number(c, "fair.min_agents");
    o->min_agents = min_agents ? (uint32_t)min_agents : UINT32_MAX;
    o->task_wall_max_ns = htc_config_ns(c, "task.wall_max_s");
    o->memory_wait_ns = htc_config_ns(c, "task.memory_wait_s");
    return HTC_OK;
}
