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
#include "net/config/config_private.h"
#include "net/loop/address.h"
#include "net/loop/host_private.h"
#include "net/files/proc.h"

#define FILE_MAX ((size_t)1 << 20)

static const config_key keys[] = {
    { "server.listen", LOOPBACK, "", "empty (Unix socket alone) or 127.0.0.1:PORT; nothing beyond loopback yet", 0, 0 },
    { "server.join", ADDRESS, "", "empty (no host joins) or the HOST:PORT of this machine where hosts with keys join, not 0.0.0.0", 0, 0 },
    { "server.lease_s", SECONDS, "10", "0.5 to 3600 seconds", 0.5, 3600 },
    { "server.portal", LOOPBACK, "off", "off (no web page) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "server.portal_origin", ORIGIN, "", "empty or the https://NAME[:PORT] of a proxy with TLS in front of the portal", 0, 0 },
    { "server.metrics", LOOPBACK, "", "empty (none) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "server.mail_command", TEXT, "", "empty (no mail) or a program and its words, such as /usr/sbin/sendmail -i -t", 0, 0 },
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
    { "fair.half_life", SECONDS, "604800", "1 to 315360000 seconds", 1, 315360000 },
    { "fair.min_agents", NUMBER, "1", "0 to 1000000", 0, 1000000 },
    { "fair.tick_s", SECONDS, "5", "0.01 to 3600 seconds", 0.01, 3600 },
    { "gang.collect_s", SECONDS, "60", "0.1 to 86400 seconds", 0.1, 86400 },
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
    { "task.wide_wait_s", SECONDS, "300", "0.01 to 31536000 seconds", 0.01, 31536000 },
    { "quota.core_hours", REAL, "0", "0 (any) to 5000000", 0, 5e6 },
    { "quota.bytes", SIZE, "0", "0 (any) to 1024T", 0, 1125899906842624.0 },
    { "quota.tasks", NUMBER, "0", "0 (any) to 1099511627776", 0, 1099511627776.0 },
    { "quota.processes", NUMBER, "0", "0 (any) to 1000000", 0, 1000000 },
    { "split.max_tasks", NUMBER, "1099511627776", "1 to 1099511627776", 1, 1099511627776.0 },
    { "db.mode", CHOICE, "interval", "sync|interval|memory|on|batch|off", 0, 0 },
    { "db.metrics", LOOPBACK, "", "empty (none) or 127.0.0.1:PORT; nothing beyond loopback", 0, 0 },
    { "db.sync_ms", MILLISECONDS, "5", "0 to 60000 milliseconds", 0, 60000 },
    { "db.usage_keep_s", SECONDS, "31536000", "86400 to 3153600000 seconds", 86400, 3153600000.0 },
    { "db.store", TEXT, "", "empty (a store of this system's own) or where another store answers: tcp://[NAME@]HOST:PORT or unix:PATH, several members of one store with commas between; etcd://HOST:PORT,HOST:PORT/PREFIX; redis://HOST:PORT/PREFIX or redis+unix:PATH", 0, 0 },
    { "db.join", ADDRESS, "", "empty or the HOST:PORT of this machine where hosts that join reach the store, not 0.0.0.0", 0, 0 },
    { "client.gateway", TEXT, "", "empty or the server.join of the gateways to ask, HOST:PORT, with commas between", 0, 0 },
    { "client.key", TEXT, "", "empty (key) or a file", 0, 0 },
    { "client.ring", TEXT, "", "empty (ring) or a file", 0, 0 },
    { "client.server", TEXT, "", "empty (any member of the ring) or a name in it", 0, 0 },
    { "data.stage_retry", NUMBER, "3", "0 to 100", 0, 100 },
    { "data.url_max", SIZE, "16G", "1 to 1024T", 1, 1125899906842624.0 },
    { "data.url_connect_s", SECONDS, "30", "0.1 to 3600 seconds", 0.1, 3600 },
    { "data.url_stall_s", SECONDS, "60", "1 to 86400 seconds", 1, 86400 },
    { "data.url_ca", TEXT, "", "empty (the system's authorities alone) or the file of certificates of more", 0, 0 },
    { "data.url_proxy", TEXT, "", "empty (none, whatever the environment says) or the URL of a proxy", 0, 0 },
    { "data.link_min", SIZE, "16M", "1 to 1024T", 1, 1125899906842624.0 },
    { "data.max_concurrent_stage", NUMBER, "64", "1 to 1024", 1, 1024 },
    { "data.io_backoff_ms", MILLISECONDS, "50", "1 to 30000 milliseconds", 1, 30000 },
    { "data.content_grace_s", SECONDS, "86400", "60 to 31536000 seconds", 60, 31536000 },
    { "data.cache_max", SIZE, "1G", "1M to 1024T", 1048576, 1125899906842624.0 },
    { "data.uploads_max", SIZE, "64G", "1M to 1024T", 1048576, 1125899906842624.0 },
    { "data.shared", TEXT, "", "empty (uploads are refused where db.store is set) or a directory that all gateways of the system share", 0, 0 },
    { "data.output", CHOICE, "local", "local|shared", 0, 0 },
    { "data.output_dir", TEXT, "", "empty (the path that the gateway says) or an absolute path", 0, 0 },
    { "batch.system", CHOICE, "none", "none|slurm|sge|ssh|emu", 0, 0 },
    { "batch.hosts", TEXT, "", "empty or the file of a list of hosts", 0, 0 },
    { "batch.credentials", TEXT, "", "empty or a file that only its owner can read", 0, 0 },
    { "batch.options", TEXT, "", "more words for the command that submits", 0, 0 },
    { "batch.cores", NUMBER, "1", "1 to 64", 1, 64 },
    { "batch.steps", NUMBER, "64", "1 to 1024", 1, 1024 },
    { "batch.submits_per_s", NUMBER, "1", "1 to 50", 1, 50 },
    { "batch.time_s", SECONDS, "0", "0 (what the batch system gives) to 31536000 seconds", 0, 31536000 },
    { "batch.drain_s", SECONDS, "0", "0 (a tenth of batch.time_s) to 31536000 seconds", 0, 31536000 },
    { "batch.period_s", SECONDS, "6", "0.1 to 3600 seconds", 0.1, 3600 },
    { "batch.running_max", NUMBER, "0", "0 (any) to 100000", 0, 100000 },
    { "batch.queued_max", NUMBER, "0", "0 (any) to 100000", 0, 100000 },
    { "batch.jobcomp", TEXT, "", "empty (none is read) or the absolute path of the file of JobCompLoc", 0, 0 },
    { "emu.clusters", LIST, "", "empty (one, of all cores) or NAME:CORES separated by commas", 0, 0 },
    { "emu.cluster_metric", CHOICE, "free_cores", "free_cores|queue", 0, 0 },
    { "emu.service_s", SECONDS, "0.1", "0 to 3600 seconds", 0, 3600 },
    { "emu.hold", REAL, "0", "0 to 1", 0, 1 },
    { "emu.hold_rate", REAL, "0", "0 to 1", 0, 1 },
    { "emu.fail", REAL, "0", "0 to 1", 0, 1 },
    { "emu.seed", NUMBER, "1", "0 to 1e15", 0, 1e15 },
    { "monitor.stall_s", SECONDS, "0", "0 (only the stopped state) to 31536000 seconds", 0, 31536000 },
    { "log.level", CHOICE, "info", "error|warn|info|debug", 0, 0 },
    { "log.bytes_max", SIZE, "8M", "4K to 1T", 4096, 1099511627776.0 },
    { "log.files_max", NUMBER, "4", "1 to 100", 1, 100 },
};
#define KEYS (sizeof keys / sizeof *keys)
_Static_assert(KEYS <= CONFIG_KEYS_MAX, "room for what is set");

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
int htc__config_choice(const char *allowed, const char *text)
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
int htc__config_value(const config_key *k, const char *text, double *out)
{
    int choice;
    *out = 0;
    switch ((kind)k->kind) {
    case LIST:
    case TEXT:
        return 0;
    case LOOPBACK:
        return strcmp(text, k->fallback) == 0 ? 0 : loopback_of(text);
    case ADDRESS: return address_of(text);
    case ORIGIN: return !text[0] || htc__address_is_origin(text) ? 0 : -1;
    case CHOICE:
        choice = htc__config_choice(k->allowed, text);
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

htc_status htc__config_list_set(const htc_env *env, list *l, const char *value)
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

htc_status htc__config_bad_value(const config_key *k, const char *name, const char *value, htc_error *error)
{
    return htc__error(error, HTC_ECONFIG, "%s = %.80s is not allowed: %s", name, value, k->allowed);
}

htc_status htc__config_keep(const htc_env *env, char **place, const char *value, htc_error *error)
{
    char *copy = htc__strdup(env, value);
    if (!copy)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc__strfree(env, *place);
    *place = copy;
    return HTC_OK;
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
                 "sections are server, fair, gang, agent, task, split, db, data, batch, emu, monitor, log and site.NAME");
    return status;
}

htc_status htc_config_set(htc_config *c, const char *key, const char *value, htc_error *error)
{
    double number;
    if (!c || !key || !value)
        return htc__error(error, HTC_EINVAL, "a key and a value are needed");
    if (strncmp(key, "site.", 5) == 0)
        return htc__config_set_site(c, key, value, error);
    size_t i = find(key);
    if (i == KEYS)
        return unknown(key, error);
    if (htc__config_value(&keys[i], value, &number) != 0)
        return htc__config_bad_value(&keys[i], key, value, error);
    if (strcmp(key, "batch.jobcomp") == 0 && value[0] && value[0] != '/')
        return htc__config_bad_value(&keys[i], key, value, error);
    if (keys[i].kind == LIST && htc__config_list_set(c->env, &c->lists[i], value) != HTC_OK)
        return htc__error(error, HTC_ECONFIG, "%s: more than %d words, or out of memory", key, LIST_MAX);
    return htc__config_keep(c->env, &c->values[i], value, error);
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
    if (r.status == HTC_OK) {
        r.status = htc__config_check_sites(c, error);
        if (r.status == HTC_OK)
            r.status = htc__config_check_periods(c, error);
        if (r.status != HTC_OK && error)
            snprintf(error->where, sizeof error->where, "%.140s", r.name);
    }
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
        for (size_t k = 0; k < c->sites[i].n_resources; k++)
            htc__strfree(c->env, (char *)(uintptr_t)c->sites[i].resources[k].name);
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

double htc__config_real(const htc_config *c, const char *key)
{
    size_t i = find(key);
    double v = 0;
    if (i < KEYS)
        htc__config_value(&keys[i], htc_config_text(c, key), &v);
    return v;
}

int htc__config_names(const htc_config *c, const char *key)
{
    size_t i = find(key);
    return i < KEYS && c->values[i];
}

uint64_t htc_config_number(const htc_config *c, const char *key)
{
    return (uint64_t)htc__config_real(c, key);
}

htc_ns htc_config_ns(const htc_config *c, const char *key)
{
    size_t i = find(key);
    if (i == KEYS || (keys[i].kind != SECONDS && keys[i].kind != MILLISECONDS))
        return 0;
    return (htc_ns)llround(htc__config_real(c, key) * (keys[i].kind == SECONDS ? 1e9 : 1e6));
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
