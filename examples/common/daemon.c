#include "daemon.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/keys.h"

static const htc_env plain = { .size = sizeof plain };

static const struct {
    struct option option;
    const char   *arg, *help;
} known[] = {
    { { "dir", required_argument, NULL, 'd' }, "DIR", "state directory ($HTC_DIR, else ./htc-state)" },
    { { "config", required_argument, NULL, 'c' }, "FILE", "configuration (DIR/htc.ini if there is one)" },
    { { "slots", required_argument, NULL, 's' }, "N", "tasks run at once on this machine" },
    { { "agent", required_argument, NULL, 'a' }, "ID", "number the gateway gave it" },
    { { "slot", required_argument, NULL, 'n' }, "N", "which slot of its site" },
    { { "user", required_argument, NULL, 'u' }, "NAME", "whose tasks it runs" },
    { { "site", required_argument, NULL, 'i' }, "NAME", "site it belongs to; with --join: agents are jobs as [site.NAME] says, instead of [batch]" },
    { { "uid", required_argument, NULL, 'U' }, "UID", "become this user (root alone)" },
    { { "gid", required_argument, NULL, 'G' }, "GID", "with this group" },
    { { "confine", no_argument, NULL, 'C' }, "", "its tasks are another user's with this uid: confine them" },
    { { "join", required_argument, NULL, 'J' }, "HOST:PORT", "join the system whose gateway is there (its server.join); of several, HOST:PORT,..., the active one" },
    { { "gateway", required_argument, NULL, 'g' }, "HOST:PORT", "of an agent of a host that has joined: where the gateway is, or HOST:PORT,..." },
    { { "key", required_argument, NULL, 'k' }, "FILE", "this host's secret key (htc keys new)" },
    { { "ring", required_argument, NULL, 'r' }, "FILE", "the public keys that are known here; read anew when it changes" },
    { { "server", required_argument, NULL, 'N' }, "NAME", "whose key the gateway has to show; default: any member's in the ring" },
    { { "batch", required_argument, NULL, 'B' }, "SYSTEM", "with --join: agents are jobs of a batch system, slurm, sge or emu, or go by ssh (default: batch.system)" },
    { { "gpus", required_argument, NULL, 'p' }, "N", "with --join: GPUs of this host; each task that asks for some has its own" },
    { { "res", required_argument, NULL, 'R' }, "NAME=N", "with --join: what this host counts, as licences; may be repeated" },
    { { "at", required_argument, NULL, 'A' }, "HOST", "where other hosts reach this one; default: the address from which the gateway is reached" },
};
#define KNOWN (sizeof known / sizeof known[0])

static void help(const htc_daemon *d, const char *allowed)
{
    printf("usage: %s [options]\n\n", d->name);
    for (size_t i = 0; i < KNOWN; i++)
        if (strchr(allowed, known[i].option.val))
            printf("  --%-8s %-9s %s\n", known[i].option.name, known[i].arg, known[i].help);
    printf("  --help, --version\n");
}

static htc_status number(htc_daemon *d, const char *name, uint64_t *out)
{
    char *end;
    *out = strtoull(optarg, &end, 10);
    if (end != optarg && !*end && optarg[0] != '-')
        return HTC_OK;
    snprintf(d->error.text, sizeof d->error.text, "--%s %.40s is not a number", name, optarg);
    return HTC_EUSAGE;
}

htc_status htc_daemon_parse(htc_daemon *d, int argc, char **argv, const char *allowed, htc_daemon_options *o)
{
    struct option table[KNOWN + 3] = { { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' } };
    size_t        n = 2;
    uint64_t      slot = 0, uid = 0, gid = 0;
    htc_status    s = HTC_OK;
    for (size_t i = 0; i < KNOWN; i++)
        if (strchr(allowed, known[i].option.val))
            table[n++] = known[i].option;
    opterr = 0; /* one line for every error, ours */
    for (int letter; s == HTC_OK && (letter = getopt_long(argc, argv, "+", table, NULL)) != -1;) {
        switch (letter) {
        case 'd':
            o->dir = optarg;
            break;
        case 'c':
            o->config = optarg;
            break;
        case 's':
            o->slots = optarg;
            break;
        case 'u':
            o->user = optarg;
            break;
        case 'i':
            o->site = optarg;
            break;
        case 'a':
            s = number(d, "agent", &o->agent);
            break;
        case 'n':
            s = number(d, "slot", &slot);
            o->slot = (uint32_t)slot;
            break;
        case 'U':
            s = number(d, "uid", &uid);
            o->uid = (uint32_t)uid;
            o->become = 1;
            break;
        case 'G':
            s = number(d, "gid", &gid);
            o->gid = (uint32_t)gid;
            break;
        case 'C':
            o->confine = 1;
            break;
        case 'J':
            o->join = optarg;
            break;
        case 'g':
            o->gateway = optarg;
            break;
        case 'k':
            o->key = optarg;
            break;
        case 'r':
            o->ring = optarg;
            break;
        case 'N':
            o->server = optarg;
            break;
        case 'A':
            o->at = optarg;
            break;
        case 'B':
            o->batch = optarg;
            break;
        case 'p':
            s = number(d, "gpus", &o->gpus);
            break;
        case 'R':
            if (o->n_res < sizeof o->res / sizeof o->res[0])
                o->res[o->n_res++] = optarg;
            else
                s = HTC_EUSAGE;
            if (s != HTC_OK)
                snprintf(d->error.text, sizeof d->error.text, "--res may be repeated 15 times");
            break;
        case 'h':
            help(d, allowed);
            return HTC_AGAIN;
        case 'V':
            printf("%s " HTC_VERSION "\n", d->name);
            return HTC_AGAIN;
        default:
            snprintf(d->error.text, sizeof d->error.text, "'%.60s' is no option, or lacks its value", argv[optind - 1]);
            s = HTC_EUSAGE;
        }
    }
    if (s == HTC_OK && optind < argc) {
        snprintf(d->error.text, sizeof d->error.text, "'%.60s' is one word too many", argv[optind]);
        s = HTC_EUSAGE;
    }
    if (s != HTC_OK)
        snprintf(d->error.hint, sizeof d->error.hint, "%.40s --help lists the options", d->name);
    return s;
}

htc_status htc_daemon_open(htc_daemon *d, const htc_daemon_options *o, const char *log_name)
{
    const char           *wanted = getenv("HTC_DIR"); /* an empty candidate is passed over, NULL ends them */
    const char *const     candidates[] = { o->dir ? o->dir : "", wanted ? wanted : "", "./htc-state", NULL };
    static const uint32_t levels[] = { HTC_LOG_ERROR, HTC_LOG_WARN, HTC_LOG_INFO, HTC_LOG_DEBUG };
    char                  path[4200];
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored by who started it, the ends of children would be lost */
    htc_status s = htc_state_open(&plain, htc_state_find(candidates), o->create, &d->state, &d->error);
    if (s != HTC_OK)
        return s;
    const char *config = o->config ? o->config : htc_state_path(d->state, HTC_STATE_CONFIG);
    FILE       *there = o->config ? NULL : fopen(config, "re");
    s = htc_config_load(&plain, o->config || there ? config : NULL, &d->config, &d->error);
    if (there)
        fclose(there);
    if (s != HTC_OK)
        return s;
    snprintf(path, sizeof path, "%s/%s.log", htc_state_path(d->state, HTC_STATE_LOG), log_name);
    htc_logfile_options options = { .size = sizeof options,
                                    .path = path,
                                    .name = d->name,
                                    .level = levels[htc_config_number(d->config, "log.level") & 3],
                                    .bytes_max = htc_config_number(d->config, "log.bytes_max"),
                                    .files_max = (uint32_t)htc_config_number(d->config, "log.files_max"),
                                    .in_place = o->become && o->uid != 0 };
    s = htc_logfile_open(&options, &d->log, &d->error);
    if (s != HTC_OK)
        return s;
    htc_host_random(&d->rng.state, sizeof d->rng.state);
    d->env = (htc_env){ .size = sizeof d->env, .rng = &d->rng, .log = htc_logfile_log(d->log) };
    return HTC_OK;
}

htc_status htc_daemon_check_policies(htc_daemon *d)
{
    htc_registry *unused = NULL;
    htc_status    s = htc_config_policies(d->config, &unused, &d->error);
    htc_registry_destroy(unused);
    return s;
}

htc_status htc_daemon_keys(htc_daemon *d, htc_host *host, uint32_t once, htc_host_keys **out)
{
    const char           *key = htc_state_path(d->state, HTC_STATE_KEY), *ring = htc_state_path(d->state, HTC_STATE_RING);
    htc_host_keys_options o = { .size = sizeof o, .key_path = key, .ring_path = ring, .look_ns = HTC_SECOND,
                                .once_path = once ? htc_state_path(d->state, HTC_STATE_ONCE) : NULL };
    htc_status            s = access(key, F_OK) == 0 ? HTC_OK : htc_keys_create(key, NULL, &d->error);
    if (s == HTC_EEXISTS) /* another daemon was faster */
        s = HTC_OK;
    int fd = s == HTC_OK ? open(ring, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    if (fd >= 0)
        close(fd);
    return s == HTC_OK ? htc_host_keys_open(host, &o, out, &d->error) : s;
}

int htc_daemon_close(htc_daemon *d, htc_status status)
{
    if (status == HTC_AGAIN) /* help was printed */
        status = HTC_OK;
    if (status != HTC_OK) {
        static const htc_error none;
        char                   line[800];
        /* What was told of something else, and got over, is not why it ends. */
        const htc_error *e = d->error.status == HTC_OK || d->error.status == status ? &d->error : &none;
        snprintf(line, sizeof line, "%s%s%s%s%s", e->where, e->where[0] ? ": " : "",
                 e->text[0] ? e->text : htc_strerror(status), e->hint[0] ? ": " : "", e->hint);
        if (!(d->log && d->log_is_stderr))
            fprintf(stderr, "%s: %s\n", d->name, line);
        if (d->log)
            htc_logfile_log(d->log)->write(htc_logfile_log(d->log)->ctx, HTC_LOG_ERROR, line);
    }
    htc_logfile_close(d->log);
    htc_config_destroy(d->config);
    htc_state_close(d->state);
    return htc_exit_code(status);
}
