/* htc kv cluster: several members of one store on this machine, in the background.
 *
 * DIR/cluster says what was asked for and who the members are, DIR/N is the state directory of the Nth, DIR/N/pid names its process
 * together with when that began, so that a number that is used again is nobody's. Those that began the store are started with each other's ids
 * for good, whoever has left meanwhile ("first" in that file); who came later finds the others by their addresses. A member that has left
 * does not come back: its directory becomes DIR/left-ID. */
#include "../at_work.h"
#include "kv.h"
#include "pid_file.h"
#include "../../htc-kvd/dir_kind.h"
#include "../../htc-kvd/member_file.h"
#include "../../htc-kvd/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/state.h"
#include "../supervisor.h"

#define MEMBERS_MAX      KV_CLUSTER_MAX
#define SHARDS_MAX       64
#define SHARDS_MAX_IN_ALL 256 /* of htc-kvd */
#define START_PATIENCE_S 30.0 /* without anything being done */
#define LOOK_S           0.2  /* between two looks at what is */
#define STOP_PATIENCE_S  15.0

typedef struct member {
    char     id[17 * SHARDS_MAX]; /* of each of its shards */
    char     dir[4000], out[4100];
    uint32_t port;
    pid_t    pid; /* 0: it does not run */
    int      ours, ready;
    int      left; /* it is no member of the store any more: its place is free */
    off_t    heard; /* of what it says, until it is ready */
    work_done worked; /* when it was last seen to be at work */
} member;

typedef struct cluster {
    cli        *c;
    const char *engine, *durability, *space;
    int64_t     members, base_port, shards;
    double      patience;
    char        dir[3900], engine_text[16], durability_text[16], space_text[120];
    int         lock;
    uint32_t    count, first_count;
    char        first[MEMBERS_MAX][17 * SHARDS_MAX]; /* ids of those that began */
    member      m[MEMBERS_MAX];
} cluster;

/* ---------------------------------------------------------------- what a member says */

/* What it said last. */
static void last_words(const member *m, char *line, size_t cap)
{
    char buffer[1024];
    int  fd = open(m->out, O_RDONLY | O_CLOEXEC);
    line[0] = 0;
    if (fd < 0)
        return;
    off_t   size = lseek(fd, 0, SEEK_END), from = size > (off_t)sizeof buffer - 1 ? size - (off_t)sizeof buffer + 1 : 0;
    ssize_t n = pread(fd, buffer, sizeof buffer - 1, from);
    close(fd);
    buffer[n > 0 ? n : 0] = 0;
    for (size_t len = strlen(buffer); len && buffer[len - 1] == '\n';)
        buffer[--len] = 0;
    char *start = strrchr(buffer, '\n');
    snprintf(line, cap, "%s", start ? start + 1 : buffer);
    htc_text_show(line);
}

/* However much it says before: each record that is damaged is a line. */
static int says_ready(member *m)
{
    char   *line = NULL;
    size_t  room = 0;
    ssize_t n;
    int     ready = 0;
    FILE   *f = fopen(m->out, "re");
    if (!f)
        return 0;
    if (fseeko(f, m->heard, SEEK_SET) == 0)
        while (!ready && (n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n') {
            m->heard += n;
            ready = strncmp(line, "ready: ", 7) == 0;
        }
    free(line);
    fclose(f);
    return ready;
}

/* ---------------------------------------------------------------- the directory */

static void name_places(cluster *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        member *m = &k->m[i];
        snprintf(m->dir, sizeof m->dir, "%s/%" PRIu32, k->dir, i + 1);
        snprintf(m->out, sizeof m->out, "%s/%" PRIu32 "/member.out", k->dir, i + 1);
        m->port = (uint32_t)k->base_port + i;
        m->pid = pid_file_running(m->dir);
    }
}

static void all_are_first(cluster *k)
{
    k->first_count = k->count;
    for (uint32_t i = 0; i < k->count; i++)
        memcpy(k->first[i], k->m[i].id, sizeof k->first[i]);
}

/* Without such a list nobody has come or gone. */
static void read_first(cluster *k, const json_t *first)
{
    if (!first) {
        all_are_first(k);
        return;
    }
    k->first_count = (uint32_t)json_array_size(first);
    for (uint32_t i = 0; i < k->first_count; i++) {
        const char *id = json_string_value(json_array_get(first, i));
        snprintf(k->first[i], sizeof k->first[i], "%s", id ? id : "");
    }
}

/* HTC_ENOTFOUND: there is no cluster here. */
static htc_status read_cluster(cluster *k)
{
    char         path[4000];
    json_error_t why;
    const char  *engine = "", *durability = "", *space = "";
    int          format = 0;
    json_int_t   port = 0, shards = 1;
    json_t      *ids = NULL, *first = NULL;
    snprintf(path, sizeof path, "%s/cluster", k->dir);
    if (access(path, F_OK) != 0)
        return HTC_ENOTFOUND;
    json_t *o = json_load_file(path, 0, &why);
    int     bad = !o || json_unpack(o, "{s:i, s:I, s?:I, s?:s, s:s, s:s, s:o, s?:o}", "format", &format, "base_port", &port, "shards",
                                    &shards, "namespace", &space, "engine", &engine, "durability", &durability, "ids",
                                    &ids, "first", &first) != 0;
    if (bad || format != 1 || shards < 1 || shards > SHARDS_MAX || json_array_size(ids) == 0 || json_array_size(ids) > MEMBERS_MAX ||
        json_array_size(first) > MEMBERS_MAX) {
        htc_status s = cli_error(k->c, HTC_EFORMAT, path, "take another directory",
                                 "this is no cluster of this version%s%.80s", o ? "" : ": ", o ? "" : why.text);
        json_decref(o);
        return s;
    }
    k->base_port = port;
    k->shards = shards;
    k->count = (uint32_t)json_array_size(ids);
    snprintf(k->engine_text, sizeof k->engine_text, "%s", engine);
    snprintf(k->durability_text, sizeof k->durability_text, "%s", durability);
    snprintf(k->space_text, sizeof k->space_text, "%s", space);
    for (uint32_t i = 0; i < k->count; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        snprintf(k->m[i].id, sizeof k->m[i].id, "%s", id ? id : "");
    }
    read_first(k, first);
    json_decref(o);
    name_places(k);
    return HTC_OK;
}

static htc_status write_cluster(cluster *k)
{
    char    path[4000];
    json_t *ids = json_array(), *first = json_array();
    for (uint32_t i = 0; i < k->count; i++)
        json_array_append_new(ids, json_string(k->m[i].id));
    for (uint32_t i = 0; i < k->first_count; i++)
        json_array_append_new(first, json_string(k->first[i]));
    json_t *o = json_pack("{s:i, s:I, s:I, s:s, s:s, s:s, s:o, s:o}", "format", 1, "base_port", (json_int_t)k->base_port, "shards",
                          (json_int_t)k->shards, "namespace", k->space_text, "engine", k->engine_text, "durability", k->durability_text, "ids", ids, "first", first);
    char   *text = must(json_dumps(o, JSON_COMPACT));
    snprintf(path, sizeof path, "%s/cluster", k->dir);
    htc_status s = htc_state_write_file(path, htc_bytes_of(text), 0600, &k->c->error);
    free(text);
    json_decref(o);
    return s;
}

/* ---------------------------------------------------------------- who has left */

static char *left_dir(const cluster *k, const member *m)
{
    return must_print("%s/left-%.16s", k->dir, m->id);
}

/* It has written so into its directory, or that was set aside already. */
static int has_left(const cluster *k, const member *m)
{
    member_file who;
    htc_status  s = member_file_read(m->dir, &who);
    if (s != HTC_ENOTFOUND)
        return s == HTC_OK && who.left;
    char *aside = left_dir(k, m);
    int   is = access(aside, F_OK) == 0;
    free(aside);
    return is;
}

static htc_status set_aside(const cluster *k, const member *m)
{
    char *aside = left_dir(k, m);
    int   bad = rename(m->dir, aside) != 0 && errno != ENOENT, why = errno;
    free(aside);
    return bad ? cli_error(k->c, HTC_EINPUT, m->dir, "move it away", "%s", strerror(why)) : HTC_OK;
}

/* Places behind the last member are none. */
static htc_status forget_free_end(cluster *k)
{
    while (k->count > 1 && k->m[k->count - 1].left)
        k->count--;
    return write_cluster(k);
}

/* By htc kv leave, or by this command before it was cut off. */
static htc_status find_left(cluster *k)
{
    htc_status s = HTC_OK;
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++) {
        member *m = &k->m[i];
        m->left = !m->pid && has_left(k, m);
        if (m->left)
            s = set_aside(k, m);
    }
    return s == HTC_OK && k->m[k->count - 1].left ? forget_free_end(k) : s;
}

static uint32_t members_of(const cluster *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->count; i++)
        n += !k->m[i].left;
    return n;
}

/* Any that is in the store, other than that one. */
static const member *one_of(const cluster *k, const member *but)
{
    const member *m = k->m;
    while ((m->left || m == but) && m < k->m + k->count - 1)
        m++;
    return m;
}

static htc_status open_dir(cluster *k, int create)
{
    char *lock;
    if (create) {
        htc_status s = make_dirs(k->c, k->c->dir);
        if (s != HTC_OK)
            return s;
    }
    char *real = realpath(k->c->dir, NULL);
    if (!real)
        return errno == ENOENT ? HTC_ENOTFOUND
                               : cli_error(k->c, HTC_EINPUT, k->c->dir, "give another --dir", "%s", strerror(errno));
    int fits = (size_t)snprintf(k->dir, sizeof k->dir, "%s", real) < sizeof k->dir;
    free(real);
    if (!fits)
        return cli_error(k->c, HTC_EUSAGE, k->c->dir, "give a shorter --dir", "this name is too long");
    lock = must_print("%s/cluster.lock", k->dir);
    k->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int held = k->lock >= 0 && flock(k->lock, LOCK_EX | LOCK_NB) == 0, why = errno;
    free(lock);
    if (held)
        return HTC_OK;
    return why == EWOULDBLOCK ? cli_error(k->c, HTC_ELOCKED, k->dir, "try again when it is done",
                                          "another htc kv cluster is at work here")
                              : cli_error(k->c, HTC_EINPUT, k->dir, "give another --dir", "%s", strerror(why));
}

/* ---------------------------------------------------------------- starting */

static htc_status draw_id(cluster *k, const char *program, member *m)
{
    char   shards[24], text[600 + sizeof m->id] = "";
    char  *argv[] = { "htc-kvd", "--dir", m->dir, "--new-member", "--shards", shards, NULL };
    int    from = -1, status = 0;
    size_t have = 0;
    snprintf(shards, sizeof shards, "%" PRId64, k->shards);
    pid_t pid = start_program(program, argv, NULL, &from);
    if (pid < 0)
        return cli_error(k->c, HTC_EBUSY, m->dir, "end some processes", "cannot start htc-kvd: %s", strerror(errno));
    for (ssize_t n; have < sizeof text - 1 && (n = read(from, text + have, sizeof text - 1 - have)) > 0;)
        have += (size_t)n;
    close(from);
    waitpid(pid, &status, 0);
    text[strcspn(text, "\n")] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) || strlen(text) != 17 * (size_t)k->shards - 1)
        return cli_error(k->c, HTC_EINPUT, m->dir, "the line above says why", "htc-kvd could not make a member here");
    memcpy(m->id, text, strlen(text) + 1); /* it fits: looked at above */
    return HTC_OK;
}

static int began_it(const cluster *k, const member *m)
{
    uint32_t i = (uint32_t)(m - k->m);
    return i < k->first_count && strcmp(k->first[i], m->id) == 0;
}

/* Where the store answers: those of the others that are in it already. */
static char *addresses(const cluster *k, const member *m)
{
    char *all = must(strdup(""));
    for (const member *x = k->m; x < k->m + k->count; x++) {
        if (x == m || x->left || (x > m && !x->pid))
            continue;
        char *more = must_print("%s%sunix:%s/kvd.sock", all, all[0] ? "," : "", x->dir);
        free(all);
        all = more;
    }
    if (all[0])
        return all;
    free(all); /* it is the only one left, and asks nobody */
    return must_print("unix:%s/kvd.sock", m->dir);
}

static htc_status start_member(cluster *k, const char *program, member *m)
{
    char        at[MEMBERS_MAX][4200 + sizeof m->id];
    char        resp[40], shards[24], *others = NULL;
    char       *argv[20 + 2 * MEMBERS_MAX];
    int         n = 0;
    snprintf(shards, sizeof shards, "%" PRId64, k->shards);
    snprintf(resp, sizeof resp, "127.0.0.1:%" PRIu32, m->port);
    argv[n++] = "htc-kvd";
    argv[n++] = "--dir";
    argv[n++] = m->dir;
    argv[n++] = "--resp";
    argv[n++] = resp;
    argv[n++] = "--shards";
    argv[n++] = shards;
    argv[n++] = "--engine";
    argv[n++] = k->engine_text;
    argv[n++] = "--durability";
    argv[n++] = k->durability_text;
    if (k->space_text[0]) {
        argv[n++] = "--namespace";
        argv[n++] = k->space_text;
    }
    if (began_it(k, m)) {
        for (uint32_t i = 0; i < k->first_count; i++) {
            snprintf(at[i], sizeof at[i], "%s@unix:%s/%" PRIu32 "/kvd.sock", k->first[i], k->dir, i + 1);
            argv[n++] = "--member";
            argv[n++] = at[i];
        }
    } else {
        argv[n++] = "--join";
        argv[n++] = others = addresses(k, m);
    }
    argv[n] = NULL;
    m->heard = m->ready = 0; /* a free place may be one that was ready */
    m->pid = start_program(program, argv, m->out, NULL);
    free(others);
    if (m->pid < 0) {
        m->pid = 0;
        return cli_error(k->c, HTC_EBUSY, m->dir, "end some processes", "cannot start htc-kvd: %s", strerror(errno));
    }
    m->ours = 1;
    return pid_file_write(m->dir, m->pid, &k->c->error);
}

static void end_ours(cluster *k)
{
    for (uint32_t i = 0; i < k->count; i++)
        if (k->m[i].ours && k->m[i].pid) { /* our child, not waited for: its number is its own */
            kill(k->m[i].pid, SIGKILL);
            waitpid(k->m[i].pid, NULL, 0);
        }
}

/* Any of those that are not ready: the others wait for it. read: what they have, in all. */
static int some_work(cluster *k, uint64_t *read)
{
    int some = 0;
    *read = 0;
    for (member *m = k->m; m < k->m + k->count; m++) {
        if (m->ready)
            continue;
        work_done now = work_of(m->pid);
        *read += now.read;
        if (has_worked(&now, &m->worked, k->patience)) {
            m->worked = now;
            some = 1;
        }
    }
    return some;
}

/* However long they read what they have stored: only who does nothing is given up. */
static htc_status wait_until_ready(cluster *k)
{
    double   worked = now_s(), looked = 0;
    uint32_t ready = 0;
    uint64_t read = 0;
    progress p;
    progress_begin(&p, k->c);
    while (ready < k->count) {
        ready = 0;
        for (uint32_t i = 0; i < k->count; i++) {
            member *m = &k->m[i];
            char    line[300];
            if (m->ours && waitpid(m->pid, NULL, WNOHANG) == m->pid) {
                m->pid = 0;
                progress_end(&p);
                last_words(m, line, sizeof line);
                return cli_error(k->c, HTC_EUNREACHABLE, m->dir, "member.out there says more",
                                 "a member did not start: %s", line[0] ? line : "it said nothing");
            }
            m->ready = m->ready || !m->ours || says_ready(m);
            ready += (uint32_t)m->ready;
        }
        if (ready < k->count && now_s() - looked >= LOOK_S) {
            looked = now_s();
            worked = some_work(k, &read) ? looked : worked;
        }
        if (ready < k->count && looked - worked > k->patience) {
            progress_end(&p);
            return cli_error(k->c, HTC_ETIMEDOUT, k->dir, "the files N/member.out there say more",
                             "%" PRIu32 " of %" PRIu32 " members are not ready, and have done nothing for %.0f seconds", k->count - ready,
                             k->count, k->patience);
        }
        progress_say(&p, "starting ... %" PRIu32 " of %" PRIu32 ", %s read", ready, k->count, show_size((double)read).s);
        if (ready < k->count)
            pause_ms(10);
    }
    progress_end(&p);
    return HTC_OK;
}

static void say_running(const cluster *k, int all_before)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < k->count; i++) {
        const member *m = &k->m[i];
        char          resp[40], shards[40] = "";
        if (m->left)
            continue;
        snprintf(resp, sizeof resp, "127.0.0.1:%" PRIu32, m->port);
        if (k->shards > 1)
            snprintf(shards, sizeof shards, ", %" PRId64 " shards", k->shards);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "id", m->id, "shards", (json_int_t)k->shards, "pid", (json_int_t)m->pid, "resp", resp));
        if (!k->c->json)
            printf("member %.16s: RESP on %s, process %ld%s\n", m->id, resp, (long)m->pid, shards);
    }
    json_t *o = json_pack("{s:o}", "members", list);
    if (k->c->json)
        put_json(k->c, o);
    else if (all_before)
        printf("they ran already, in %s\n", k->dir);
    else
        printf("the cluster runs in %s\n", k->dir);
    json_decref(o);
}

/* As each member says in its member.out, where nobody looks while all is well. Once: not of those that ran already. */
static void warn_of_open_ports(const cluster *k)
{
    int began = 0;
    for (const member *m = k->m; m < k->m + k->count; m++)
        began |= m->ours && !m->left;
    fflush(stdout);
    if (began)
        fputs("no password: every local user can read and change everything at these ports; htc-kvd --resp-password-file asks for one\n", stderr);
}

static htc_status check_ports(const cluster *k)
{
    return k->base_port > 0 && k->base_port + k->count <= 65536
               ? HTC_OK
               : cli_error(k->c, HTC_EUSAGE, "--base-port", "give --base-port P: Redis' clients come to P, P + 1, ...", "%s",
                           k->base_port < 0 ? "it is missing" : "this is no port, or too high");
}

static int is_free(uint32_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, taken = 0;
    if (fd < 0)
        return 1; /* a member will say what is wrong */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    taken = bind(fd, (struct sockaddr *)&at, sizeof at) != 0 && errno == EADDRINUSE;
    close(fd);
    return !taken;
}

/* Before anything is made: a member that ran for a moment may not be able to begin again. */
static htc_status port_is_free(const cluster *k, uint32_t port, const char *next)
{
    return is_free(port) ? HTC_OK
                         : cli_error(k->c, HTC_ELOCKED, "--base-port", next, "port %" PRIu32 " of 127.0.0.1 is in use by another process", port);
}

static htc_status ports_are_free(const cluster *k)
{
    htc_status s = HTC_OK;
    for (const member *m = k->m; s == HTC_OK && m < k->m + k->count; m++)
        s = port_is_free(k, m->port, "give another one");
    return s;
}

/* Members know each other by their sockets: where Redis' clients come may be chosen anew at each start of them all. */
static htc_status take_ports(cluster *k, const cluster *asked)
{
    if (asked->base_port < 0 || asked->base_port == k->base_port)
        return HTC_OK;
    for (uint32_t i = 0; i < k->count; i++)
        if (k->m[i].pid)
            return HTC_OK; /* then it differs, as other settings do */
    k->base_port = asked->base_port;
    name_places(k);
    return check_ports(k);
}

/* What is there must be what is asked for. */
static htc_status same_settings(cluster *k, const cluster *asked)
{
    const char *what = asked->base_port >= 0 && asked->base_port != k->base_port               ? "--base-port"
                       : asked->shards >= 0 && asked->shards != k->shards                         ? "--shards"
                       : asked->engine && strcmp(asked->engine, k->engine_text) != 0             ? "--engine"
                       : asked->durability && strcmp(asked->durability, k->durability_text) != 0 ? "--durability"
                       : asked->space && strcmp(asked->space, k->space_text) != 0                ? "--namespace"
                                                                                                 : NULL;
    return what ? cli_error(k->c, HTC_EEXISTS, k->dir, "leave it out, or give another --dir",
                            "there is a cluster of %" PRIu32 " member%s, base port %" PRId64
                            ", engine %s, durability %s here: %s differs",
                            k->count, plural(k->count), k->base_port, k->engine_text, k->durability_text, what)
                : HTC_OK;
}

static htc_status make_cluster(cluster *k, const char *program)
{
    htc_kv_namespace space;
    strong_policy    strong;
    char             socket[4200];
    k->count = k->members < 0 ? 3 : (uint32_t)k->members;
    k->shards = k->shards < 0 ? 1 : k->shards;
    snprintf(k->engine_text, sizeof k->engine_text, "%s", k->engine ? k->engine : "log");
    snprintf(k->durability_text, sizeof k->durability_text, "%s", k->durability ? k->durability : "sync");
    if (k->space && space_is_default(k->space, strcspn(k->space, "=")))
        return cli_error(k->c, HTC_EUSAGE, "--namespace", "--engine and --durability say its policy", "default is the store itself");
    if (k->space && ((space_parse_strong(k->space, &strong) != HTC_OK && space_parse(k->space, &space) != HTC_OK) ||
                     strlen(k->space) >= sizeof k->space_text))
        return cli_error(k->c, HTC_EUSAGE, "--namespace", "take NAME=strong, NAME=eventual or NAME=eventual:N,R,W", "'%.60s' says no namespace",
                         k->space);
    snprintf(k->space_text, sizeof k->space_text, "%s", k->space ? k->space : "");
    if (k->members == 0 || k->members > MEMBERS_MAX)
        return cli_error(k->c, HTC_EUSAGE, "--members", "", "a local cluster has 1 to %d members", MEMBERS_MAX);
    if (k->shards == 0 || k->shards > SHARDS_MAX || k->shards * k->count > SHARDS_MAX_IN_ALL)
        return cli_error(k->c, HTC_EUSAGE, "--shards", "", "a member has 1 to %d shards, and all members %d", SHARDS_MAX,
                         SHARDS_MAX_IN_ALL);
    if (check_ports(k) != HTC_OK)
        return HTC_EUSAGE;
    if (strcmp(k->engine_text, "memory") == 0)
        return cli_error(k->c, HTC_EUSAGE, "--engine", "take log, with --durability memory if need be",
                         "one of several members has to find its promises again: it cannot be engine memory");
    if (strcmp(k->engine_text, "log") != 0 && strcmp(k->engine_text, "lmdb") != 0)
        return cli_error(k->c, HTC_EUSAGE, "--engine", "take log or lmdb", "there is no engine %.14s", k->engine_text);
    if (strcmp(k->durability_text, "sync") != 0 && strcmp(k->durability_text, "interval") != 0 &&
        strcmp(k->durability_text, "memory") != 0)
        return cli_error(k->c, HTC_EUSAGE, "--durability", "take sync, interval or memory",
                         "there is no durability %.14s", k->durability_text);
    if (dir_kind_of(k->dir) == DIR_STATE)
        return cli_error(k->c, HTC_EEXISTS, k->dir, "give another --dir", "there is the store of htc up, or of an htc-kvd, here");
    name_places(k);
    for (uint32_t i = 0; i < k->count; i++) {
        member *m = &k->m[i];
        if ((size_t)snprintf(socket, sizeof socket, "%s/kvd.sock", m->dir) > 4000)
            return cli_error(k->c, HTC_EUSAGE, k->dir, "give a shorter --dir", "this name is too long");
    }
    htc_status s = ports_are_free(k);
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++)
        s = draw_id(k, program, &k->m[i]);
    if (s != HTC_OK)
        return s;
    all_are_first(k);
    return write_cluster(k);
}

/* ---------------------------------------------------------------- other members */

static htc_status may_resize(const cluster *k, int64_t wanted)
{
    strong_policy strong;
    int           is_strong = k->space_text[0] && space_parse_strong(k->space_text, &strong) == HTC_OK;
    const char   *why = wanted < 1 || wanted > MEMBERS_MAX ? "a local cluster has 1 to 16 members"
                      : k->base_port + wanted > 65536    ? "its ports would be too high"
                      : is_strong ? "a cluster with a strong namespace does not change its members yet"
                                  : NULL;
    return why ? cli_error(k->c, HTC_EUSAGE, "--members", "leave it out, or copy what is there into a new one: htc kv backup, htc kv restore",
                           "%s", why)
               : HTC_OK;
}

/* htc kv WORD ID: what it says is told, unless it is asked for in another form. nth: of the member's shards. */
static htc_status tell_of_shard(cluster *k, const char *word, const member *m, int64_t nth, const member *asked)
{
    char    id[17], *store = must_print("unix:%s/kvd.sock", asked->dir), text[400] = "";
    char   *argv[] = { "htc", "kv", (char *)word, id, "--store", store, NULL };
    int     from = -1, status = 0;
    size_t  have = 0;
    ssize_t n;
    snprintf(id, sizeof id, "%.16s", m->id + 17 * nth);
    pid_t pid = start_program("/proc/self/exe", argv, NULL, &from);
    free(store);
    if (pid < 0)
        return cli_error(k->c, HTC_EBUSY, m->dir, "end some processes", "cannot start htc: %s", strerror(errno));
    while (have < sizeof text - 1 && (n = read(from, text + have, sizeof text - 1 - have)) > 0)
        have += (size_t)n;
    close(from);
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return cli_error(k->c, HTC_EUNREACHABLE, m->dir, "the line above says why; the same command goes on from here",
                         "the members could not be changed");
    if (!k->c->json)
        fputs(text, stdout);
    return HTC_OK;
}

static htc_status tell_store(cluster *k, const char *word, const member *m, const member *asked)
{
    htc_status s = HTC_OK;
    for (int64_t i = 0; s == HTC_OK && i < k->shards; i++)
        s = tell_of_shard(k, word, m, i, asked);
    return s;
}

/* It is written down before it joins: a command that is cut off goes on with the same one. */
static htc_status add_member(cluster *k, const char *program)
{
    uint32_t at = 0;
    while (at < k->count && !k->m[at].left)
        at++;
    member    *m = &k->m[at];
    htc_status s;
    snprintf(m->dir, sizeof m->dir, "%s/%" PRIu32, k->dir, at + 1);
    if ((s = port_is_free(k, (uint32_t)k->base_port + at, "end what holds it; or htc kv cluster --stop, and start it with another one")) != HTC_OK ||
        (s = draw_id(k, program, m)) != HTC_OK)
        return s;
    m->left = 0;
    k->count += at == k->count;
    name_places(k);
    if ((s = write_cluster(k)) == HTC_OK)
        s = start_member(k, program, m);
    if (s == HTC_OK)
        s = wait_until_ready(k);
    return s == HTC_OK ? tell_store(k, "join", m, one_of(k, m)) : s;
}

static int gone(const member *m, int pidfd, double until);

static htc_status drop_member(cluster *k)
{
    member    *m = &k->m[k->count - 1];
    htc_status s = tell_store(k, "leave", m, one_of(k, m));
    if (s != HTC_OK)
        return s;
    if (m->ours && m->pid)
        waitpid(m->pid, NULL, 0);
    else if (!gone(m, -1, now_s() + STOP_PATIENCE_S))
        return cli_error(k->c, HTC_ETIMEDOUT, m->dir, "look at what holds it", "process %ld has left the store and does not end", (long)m->pid);
    m->pid = 0;
    if ((s = set_aside(k, m)) != HTC_OK)
        return s;
    m->left = 1;
    return forget_free_end(k);
}

/* One after the other, as the store takes them; all members run. */
static htc_status resize(cluster *k, const char *program, int64_t wanted)
{
    htc_status s = wanted < 0 || wanted == members_of(k) ? HTC_OK : may_resize(k, wanted);
    while (s == HTC_OK && wanted > members_of(k))
        s = add_member(k, program);
    while (s == HTC_OK && wanted >= 0 && wanted < members_of(k))
        s = drop_member(k);
    return s;
}

/* A member that was killed holds its socket and its directory until the disk has answered it: another one cannot begin before. */
static htc_status wait_for_ending(cluster *k)
{
    double until = now_s() + STOP_PATIENCE_S;
    for (member *m = k->m; m < k->m + k->count; m++) {
        life how = LIFE_NONE;
        while ((m->pid = pid_file_read(m->dir, &how)) && how == LIFE_ENDING && now_s() < until)
            pause_ms(10);
        if (m->pid && how == LIFE_ENDING)
            return cli_error(k->c, HTC_ETIMEDOUT, m->dir, "look at what holds it", "process %ld was ended and is still there", (long)m->pid);
    }
    return HTC_OK;
}

static htc_status start(cluster *k)
{
    cluster *there = must(calloc(1, sizeof *there));
    char     path[4096];
    ssize_t  n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    char      *program = find_program(path, "htc-kvd");
    int64_t    wanted = k->members;
    htc_status s = open_dir(k, 1);
    if (!program)
        s = cli_error(k->c, HTC_EUNSUPPORTED, path, "install all programs in one directory",
                      "htc-kvd is neither here nor on PATH");
    memcpy(there, k, sizeof *k);
    if (s == HTC_OK)
        s = read_cluster(there);
    int64_t port = there->base_port;
    if (s == HTC_OK)
        s = wait_for_ending(there);
    if (s == HTC_OK && (s = take_ports(there, k)) == HTC_OK && (s = same_settings(there, k)) == HTC_OK) {
        memcpy(k, there, sizeof *k);
        s = k->base_port == port ? HTC_OK : write_cluster(k);
    } else if (s == HTC_ENOTFOUND) {
        s = make_cluster(k, program);
    }
    if (s == HTC_OK)
        s = find_left(k);
    uint32_t before = 0;
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++)
        before += k->m[i].pid != 0 || k->m[i].left;
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++)
        if (!k->m[i].pid && !k->m[i].left)
            s = start_member(k, program, &k->m[i]);
    if (s == HTC_OK)
        s = wait_until_ready(k);
    if (s == HTC_OK)
        s = resize(k, program, wanted);
    else
        end_ours(k);
    if (s == HTC_OK) {
        say_running(k, before == k->count);
        warn_of_open_ports(k);
    }
    free(program);
    free(there);
    return s;
}

/* ---------------------------------------------------------------- stopping */

static int gone(const member *m, int pidfd, double until)
{
    while (pid_file_running(m->dir) && now_s() < until)
        pause_ms(10);
    if (pidfd >= 0)
        close(pidfd);
    return pid_file_running(m->dir) == 0;
}

static htc_status stop(cluster *k)
{
    int        fds[MEMBERS_MAX];
    uint32_t   there = 0;
    htc_status s = open_dir(k, 0);
    if (s == HTC_ENOTFOUND)
        return cli_error(k->c, s, k->c->dir, "name that of the cluster with --dir", "there is no such directory");
    if (s == HTC_OK)
        s = read_cluster(k);
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++) {
        fds[i] = k->m[i].pid ? pid_file_signal(k->m[i].dir, k->m[i].pid, SIGTERM) : -1;
        there += k->m[i].pid != 0;
    }
    if (s == HTC_ENOTFOUND || (s == HTC_OK && there == 0))
        return cli_error(k->c, HTC_EUNREACHABLE, k->c->dir, "there is nothing to stop", "no cluster runs here");
    double until = now_s() + STOP_PATIENCE_S;
    for (uint32_t i = 0; s == HTC_OK && i < k->count; i++) {
        member *m = &k->m[i];
        if (m->pid && !gone(m, fds[i], until)) {
            int fd = pid_file_signal(m->dir, m->pid, SIGKILL);
            if (!gone(m, fd, now_s() + 5))
                s = cli_error(k->c, HTC_ETIMEDOUT, m->dir, "look at what holds it", "process %ld does not end",
                              (long)m->pid);
        }
        char path[4100];
        snprintf(path, sizeof path, "%s/pid", m->dir);
        if (s == HTC_OK)
            (void)unlink(path);
    }
    if (s == HTC_OK && k->c->json) {
        json_t *o = json_pack("{s:s, s:s}", "dir", k->dir, "state", "stopped");
        put_json(k->c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        printf("stopped\n");
    }
    return s;
}

htc_status kv_cluster(kv_call *k)
{
    cluster *x = must(calloc(1, sizeof *x));
    x->c = k->c;
    x->lock = -1;
    x->members = k->members;
    x->base_port = k->base_port;
    x->shards = k->shards;
    x->engine = k->engine;
    x->durability = k->durability;
    x->space = k->space;
    x->patience = k->patience > 0 ? k->patience : START_PATIENCE_S;
    htc_status s = k->stop ? stop(x) : start(x);
    if (x->lock >= 0)
        close(x->lock);
    free(x);
    return s;
}
