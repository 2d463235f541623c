/* The gateway's host: its calls, which of them go to worker threads, and what it looks at once a second. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/files/files.h"
#include "net/gateway/gateway_private.h"

#define JOBS_MAX 512
#define HASHING_MAX 2         /* each takes 64 MiB and a core for a moment: without a bound, logins would be an attack */
#define HASH_WAITING_MAX 64   /* the role looks at two logins at once; the rest is of operators and users who set a password */
#define LOOK_EVERY HTC_SECOND
#define PROBE_BYTES 65536

/* --- passwords --- */

static htc_status hash_password(htc__job *j, htc_reader *r)
{
    char      verifier[crypto_pwhash_STRBYTES];
    htc_bytes password = htc_get_bytes(r);
    if (htc_reader_done(r) != HTC_OK || password.len > 1024)
        return HTC_EPROTO;
    if (crypto_pwhash_str(verifier, password.len ? password.data : "", password.len,
                          crypto_pwhash_OPSLIMIT_INTERACTIVE, crypto_pwhash_MEMLIMIT_INTERACTIVE) != 0)
        return HTC_ENOMEM;
    htc_put_str(&j->answer, verifier);
    return HTC_OK;
}

static htc_status verify_password(htc_reader *r)
{
    char verifier[crypto_pwhash_STRBYTES];
    htc_get_str(r, verifier, sizeof verifier);
    htc_bytes password = htc_get_bytes(r);
    if (htc_reader_done(r) != HTC_OK || password.len > 1024)
        return HTC_EPROTO;
    return crypto_pwhash_str_verify(verifier, password.len ? password.data : "", password.len) == 0 ? HTC_OK : HTC_EAUTH;
}

void htc__gateway_secrets(htc__job *j)
{
    htc_reader r = htc_reader_of((htc_bytes){ j->body, j->len });
    j->status = j->op == HTC_CALL_HASH_PASSWORD ? hash_password(j, &r) : verify_password(&r);
    sodium_memzero(j->body, j->len);
}

/* --- jobs on the threads --- */

static int is_secret(uint32_t op)
{
    return op == HTC_CALL_HASH_PASSWORD || op == HTC_CALL_VERIFY_PASSWORD;
}

static void job_free(htc__job *j)
{
    if (is_secret(j->op))
        sodium_memzero(j->body, j->len);
    htc_buf_free(&j->answer);
    free(j);
}

static void disk(htc_gateway_host *g, int full)
{
    if (full == g->disk_full)
        return;
    g->disk_full = full;
    htc__log(g->env, full ? HTC_LOG_ERROR : HTC_LOG_INFO, full ? "the disk is full -> tell the gateway"
                                                               : "the disk can be written again -> tell the gateway");
    htc_host_event(g->host, HTC_EVENT_DISK, full ? HTC_ENOSPC : HTC_OK, (htc_bytes){ 0 });
}

static void job_work(void *arg)
{
    htc__job *j = arg;
    if (is_secret(j->op))
        htc__gateway_secrets(j);
    else
        htc__gateway_files(j);
}

static void start_hashing(htc_gateway_host *g);

static void job_done(void *arg)
{
    htc__job         *j = arg;
    htc_gateway_host *g = j->gateway;
    g->jobs--;
    if (j->status == HTC_OK)
        j->status = j->answer.status;
    if (j->status == HTC_ENOSPC)
        disk(g, 1);
    if (j->op != HTC_CALL_DROP_OUTPUT)
        htc_host_answer(g->host, j->op, j->tag, j->status,
                        j->status == HTC_OK ? htc_buf_bytes(&j->answer) : htc_bytes_of(j->text));
    if (is_secret(j->op)) {
        g->hashing--;
        start_hashing(g);
    }
    job_free(j);
}

static htc_status job_start(htc__job *j)
{
    htc_gateway_host *g = j->gateway;
    htc_status        status = g->jobs < JOBS_MAX ? htc_host_work(g->host, job_work, job_done, j) : HTC_EBUSY;
    if (status == HTC_OK)
        g->jobs++;
    return status;
}

static void start_hashing(htc_gateway_host *g)
{
    while (g->hash_first && g->hashing < HASHING_MAX) {
        htc__job *j = g->hash_first;
        g->hash_first = j->next;
        if (!g->hash_first)
            g->hash_last = &g->hash_first;
        g->hash_waiting--;
        htc_status status = job_start(j);
        if (status == HTC_OK) {
            g->hashing++;
            continue;
        }
        htc_host_answer(g->host, j->op, j->tag, status, (htc_bytes){ 0 });
        job_free(j);
    }
}

static htc_status job_new(htc_gateway_host *g, uint32_t op, uint64_t tag, htc_bytes body)
{
    if (is_secret(op) && g->hash_waiting >= HASH_WAITING_MAX)
        return HTC_EBUSY;
    htc__job *j = calloc(1, sizeof *j + body.len);
    if (!j)
        return HTC_ENOMEM;
    j->gateway = g;
    j->op = op;
    j->tag = tag;
    j->len = body.len;
    if (body.len)
        memcpy(j->body, body.data, body.len);
    htc_buf_init(&j->answer, NULL, 0);
    if (is_secret(op)) {
        *g->hash_last = j;
        g->hash_last = &j->next;
        g->hash_waiting++;
        start_hashing(g);
        return HTC_OK;
    }
    htc_status status = job_start(j);
    if (status != HTC_OK)
        job_free(j);
    return op == HTC_CALL_DROP_OUTPUT ? HTC_OK : status;
}

/* --- calls --- */

static htc_status random_bytes(htc_gateway_host *g, uint64_t tag, htc_reader *r)
{
    uint8_t  bytes[64];
    uint32_t n = htc_get_u32(r);
    if (htc_reader_done(r) != HTC_OK || n > sizeof bytes)
        return HTC_EPROTO;
    randombytes_buf(bytes, n);
    htc_status status = htc_host_answer(g->host, HTC_CALL_RANDOM, tag, HTC_OK, (htc_bytes){ bytes, n });
    sodium_memzero(bytes, sizeof bytes);
    return status;
}

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    htc_gateway_host *g = ctx;
    htc_reader        r = htc_reader_of(body);
    (void)host;
    if (htc__objects_host_is_call(op))
        return g->objects ? htc__objects_host_call(g->objects, op, tag, body) : HTC_EUNSUPPORTED;
    switch (op) {
    case HTC_CALL_LAUNCH: return g->batch ? htc__batch_host_launch(g, tag, &r) : htc__agent_launch(g, tag, &r);
    case HTC_CALL_KILL_AGENT: return g->batch ? htc__batch_host_kill(g, &r) : htc__agent_kill(g, &r);
    case HTC_CALL_WATCH_AGENT: return htc__agent_watch(g, tag, &r);
    case HTC_CALL_JOB_PLACE: return htc__job_place(g, &r);
    case HTC_CALL_RANDOM: return random_bytes(g, tag, &r);
    case HTC_CALL_MAIL: return htc__gateway_mail(g, tag, &r);
    case HTC_CALL_HASH_PASSWORD:
    case HTC_CALL_VERIFY_PASSWORD:
    case HTC_CALL_BLOB_WRITE:
    case HTC_CALL_BLOB_STAT:
    case HTC_CALL_BLOB_READ:
    case HTC_CALL_CONTENT_ADOPT:
    case HTC_CALL_FILE_READ:
    case HTC_CALL_DROP_JOB:
    case HTC_CALL_DROP_OUTPUT:
    case HTC_CALL_CONTENT_TOUCH:
    case HTC_CALL_CONTENT_SWEEP:
    case HTC_CALL_CONTENT_SUM:
    case HTC_CALL_DISK_USE:
    case HTC_CALL_LIVE_READ: return job_new(g, op, tag, body);
    default: return HTC_EUNSUPPORTED;
    }
}

/* --- what is looked at --- */

/* Only writing tells whether a disk can be written: free blocks may be reserved, or a quota may be used up. */
static int can_write(const htc_gateway_host *g)
{
    static const uint8_t zeros[PROBE_BYTES];
    char                 path[PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/tmp/probe", g->data_dir);
    int     fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t n = fd < 0 ? -1 : write(fd, zeros, sizeof zeros);
    if (fd >= 0 && close(fd) != 0)
        n = -1;
    unlink(path);
    return n == (ssize_t)sizeof zeros;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    htc_gateway_host *g = arg;
    struct timeval    tv = htc__timeval(LOOK_EVERY);
    (void)fd, (void)what;
    htc__agents_look(g);
    if (g->disk_full && can_write(g))
        disk(g, 0);
    else if (g->place_missing && !g->disk_full && can_write(g))
        htc_host_event(g->host, HTC_EVENT_DISK, HTC_OK, (htc_bytes){ 0 });
    g->place_missing = g->disk_full && g->place_missing;
    event_add(g->look, &tv);
}

/* Another gateway may be writing it. */
static int is_forgotten(const struct stat *st)
{
    htc_ns changed = (htc_ns)st->st_mtim.tv_sec * HTC_SECOND, now = htc_host_wall();
    return changed < now && now - changed > 86400 * HTC_SECOND;
}

/* Uploads that the gateway before this one did not see the end of: who goes on begins anew. */
static void remove_unfinished(const htc_gateway_host *g)
{
    char           path[PATH_MAX];
    struct dirent *e;
    struct stat    st;
    snprintf(path, sizeof path, "%.3900s/tmp", g->data_dir);
    DIR *d = opendir(path);
    while (d && (e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (!g->shared || is_forgotten(&st)))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static int is_agent_process(void *ctx, uint32_t pid)
{
    return htc__agent_has_pid(ctx, (pid_t)pid);
}

/* --- life --- */

static void on_host_end(void *ctx)
{
    htc_gateway_host *g = ctx;
    if (g->host)
        g->host->is_known = NULL;
    htc__agents_free(g);
    htc__batch_host_free(g);
    htc__gateway_mail_end(g);
    if (g->look)
        event_free(g->look);
    g->look = NULL;
    while (g->hash_first) {
        htc__job *j = g->hash_first;
        g->hash_first = j->next;
        job_free(j);
    }
}

static htc_status make_places(htc_gateway_host *g, htc_error *error)
{
    static const char *const names[] = { "blobs", "tmp", "out" };
    char                     path[PATH_MAX];
    if (!g->data_dir && asprintf(&g->data_dir, "%s/data", g->state_dir) < 0) {
        g->data_dir = NULL;
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", g->data_dir, names[i]);
        if (n >= PATH_MAX - 100)
            return htc__error(error, HTC_EINVAL, "the path of the state directory is too long");
        if (htc__make_dirs(path) != 0)
            return htc__error(error, htc__status_of(errno, HTC_EIO), "cannot create %s: %s", path, strerror(errno));
    }
    snprintf(path, sizeof path, "%s/log", g->state_dir);
    htc__make_dirs(path);
    return HTC_OK;
}

/* The slots of all hosts are told to whoever asked. */
static htc_status take_hosts(htc_gateway_host *g, htc_gateway_host_batch *b, htc_error *error)
{
    size_t     room = (size_t)1 << 19;
    char      *text = malloc(room);
    ssize_t    n = text && b->hosts ? htc__read_text(b->hosts, text, room) : -1;
    htc_status status = HTC_OK;
    if (!(g->ssh_words = strdup(b->words ? b->words : "")) || !text)
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    else if (!b->hosts)
        status = htc__error(error, HTC_ECONFIG, "agents by ssh need a list of hosts (batch.hosts)");
    else if (n < 0)
        status = htc__error(error, HTC_ECONFIG, "cannot read the list of hosts %.200s: %s", b->hosts, strerror(errno));
    if (status == HTC_OK && (status = htc__ssh_hosts_read(g->env, (htc_bytes){ text, (size_t)n }, b->cores, &g->hosts, error)) != HTC_OK && error)
        snprintf(error->where, sizeof error->where, "%.140s", b->hosts);
    free(text);
    if (status == HTC_OK)
        status = htc__gateway_credentials(g, b, NULL, error);
    b->slots = status == HTC_OK ? htc__ssh_hosts_slots(g->hosts) : 0;
    return status;
}

htc_status htc_gateway_host_create(const htc_env *env, htc_host *host, const htc_gateway_host_options *options,
                                   htc_gateway_host **out, htc_error *error)
{
    htc_gateway_host_options o = { 0 };
    if (!host || !out || !options || htc__options_copy(&o, sizeof o, options, options->size, sizeof(size_t)) != HTC_OK ||
        !o.state_dir || !o.agent_path || !o.environ)
        return htc__error(error, HTC_EINVAL, "a state directory, a program and an environment are needed");
    htc_gateway_host *g = calloc(1, sizeof *g);
    if (!g)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    g->env = env;
    g->hash_last = &g->hash_first;
    g->durable = o.durable;
    g->blob_bytes_max = o.blob_bytes_max ? o.blob_bytes_max : (uint64_t)1 << 40;
    g->uploads_max = o.uploads_max ? o.uploads_max : (uint64_t)64 << 30;
    g->environ = o.environ;
    g->agent_args = o.agent_args;
    g->apart = o.apart;
    pthread_mutex_init(&g->blobs, NULL);
    g->agent_path = strdup(o.agent_path);
    g->mail_command = o.mail_command && o.mail_command[0] ? strdup(o.mail_command) : NULL;
    g->config_path = o.config_path ? realpath(o.config_path, NULL) : NULL; /* agents may begin elsewhere */
    htc_status status = HTC_OK;
    if (o.config_path && !g->config_path)
        status = htc__error(error, HTC_ECONFIG, "cannot read the configuration %s: %s", o.config_path, strerror(errno));
    g->state_dir = realpath(o.state_dir, NULL);
    g->shared = o.data_dir != NULL;
    g->data_dir = o.data_dir ? realpath(o.data_dir, NULL) : NULL;
    if (status == HTC_OK && o.data_dir && !g->data_dir)
        status = htc__error(error, HTC_ECONFIG, "no directory %s: %s", o.data_dir, strerror(errno));
    else if (status == HTC_OK && !g->state_dir)
        status = htc__error(error, HTC_ENOTFOUND, "no state directory %s: %s", o.state_dir, strerror(errno));
    else if (status == HTC_OK && (!g->agent_path || (o.mail_command && o.mail_command[0] && !g->mail_command)))
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    if (status == HTC_OK)
        status = make_places(g, error);
    if (status == HTC_OK && g->apart == HTC_APART_UID)
        status = htc__places_share(g, error);
    g->host = host;
    if (status == HTC_OK && o.objects_dir)
        status = htc__objects_host_open(host, o.objects_dir, g->data_dir, 1, &g->objects, error);
    if (status == HTC_OK && o.objects_dir)
        htc__objects_host_gives(g->objects);
    if (status == HTC_OK && o.batch)
        status = strcmp(o.batch->system, "ssh") == 0 ? take_hosts(g, o.batch, error) : htc__batch_host_create(g, &o, error);
    struct timeval tv = htc__timeval(LOOK_EVERY);
    if (status == HTC_OK && (!(g->look = evtimer_new(host->base, on_look, g)) || event_add(g->look, &tv) != 0))
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    if (status != HTC_OK) {
        on_host_end(g);
        htc_gateway_host_destroy(g);
        return status;
    }
    remove_unfinished(g);
    g->hook = (htc__hook){ on_host_end, g, NULL };
    htc__host_hook(host, &g->hook);
    htc_host_on_call(host, on_call, g);
    host->is_known = is_agent_process;
    host->known_ctx = g;
    *out = g;
    return HTC_OK;
}

void htc_gateway_host_destroy(htc_gateway_host *g)
{
    if (!g)
        return;
    htc__uploads_end(g);
    htc__stored_end(g);
    htc__objects_host_close(g->objects);
    pthread_mutex_destroy(&g->blobs);
    free(g->state_dir);
    free(g->agent_path);
    free(g->mail_command);
    free(g->config_path);
    free(g->data_dir);
    free(g->ssh_config);
    free(g->ssh_words);
    htc__ssh_hosts_free(g->hosts);
    free(g);
}

static ssize_t read_id(int dir, char id[HTC_GATEWAY_HOST_DATA_ID])
{
    int     fd = openat(dir, "shared-id", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, id, HTC_GATEWAY_HOST_DATA_ID - 1);
    if (fd >= 0)
        close(fd);
    id[n > 0 ? n : 0] = '\0';
    return n;
}

/* Complete before it has its name: of two that draw one at once, the later finds the other's. */
static int write_id(int dir)
{
    unsigned char bytes[32];
    char          hex[HTC_GATEWAY_HOST_DATA_ID], name[HTC_GATEWAY_HOST_DATA_ID + 16];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
    snprintf(name, sizeof name, "shared-id.%.16s", hex);
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int good = fd >= 0 && write(fd, hex, sizeof hex - 1) == sizeof hex - 1 && fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        good = 0;
    good = good && (linkat(dir, name, dir, "shared-id", 0) == 0 || errno == EEXIST);
    if (fd >= 0)
        unlinkat(dir, name, 0);
    return good && fsync(dir) == 0;
}

htc_status htc_gateway_host_data_id(const char *dir, char id[HTC_GATEWAY_HOST_DATA_ID], htc_error *error)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return htc__error(error, HTC_ENOTFOUND, "data.shared: cannot open the directory %.200s: %s", dir, strerror(errno));
    ssize_t n = read_id(fd, id);
    if (n < 0 && errno == ENOENT && write_id(fd))
        n = read_id(fd, id);
    int why = errno;
    close(fd);
    if (n < 0)
        return htc__error(error, HTC_EIO, "data.shared: cannot use %.200s/shared-id: %s", dir, strerror(why));
    if (n != HTC_GATEWAY_HOST_DATA_ID - 1 || strspn(id, "0123456789abcdef") != HTC_GATEWAY_HOST_DATA_ID - 1)
        return htc__error(error, HTC_ECORRUPT, "data.shared: %.200s/shared-id is no name of a shared directory", dir);
    return HTC_OK;
}
