/* htc-kvd --resp, --engine, --durability: one whole member of a store in the foreground, for Redis' clients and the store's
 * own. What it has to say goes to standard error, one line on standard output says that it is ready. */
#include "member.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "member_private.h"
#include "join.h"
#include "proxy.h"
#include "strong.h"
#include "shards.h"

#define SYNC_MS_MAX 10000

static const char usage[] = /* in two, for no compiler has to take longer ones */
    "usage: htc-kvd [options]\n"
    "\n"
    "  --dir DIR             state directory ($HTC_DIR, else ./htc-state)\n"
    "  --config FILE         configuration (DIR/htc.ini if there is one)\n"
    "\n"
    "one whole member in the foreground, without a configuration:\n"
    "  --resp ADDRESS        Redis' clients come here: 127.0.0.1:PORT, [::1]:PORT or unix:PATH\n"
    "  --resp-password-file FILE\n"
    "                        its first line is the password that they have to show (AUTH)\n"
    "  --resp-allow-flush    FLUSHALL and FLUSHDB delete everything\n"
    "  --engine ENGINE       memory (keeps nothing), log (in memory, with a log in DIR/store), or lmdb (default; DIR/store)\n"
    "  --durability HOW      sync (default), interval: a power failure may take what --sync-ms says, or memory: never synced\n"
    "                        (engine memory: always)\n"
    "  --sync-ms N           durability interval: sync every N ms (1 to 10000, default 100)\n"
    "  --new-member          draw the id of one of several members into a fresh DIR, print it, and end\n"
    "  --member ID@unix:PATH one of the members of the store, and where it answers; once for each, this one too: the same for\n"
    "                        all of them, and for good. ID@tcp://[NAME@]HOST:PORT: on another host, where --listen of that\n"
    "                        member is; NAME: whose key it is in the ring, which alone speaks as this member. ID,ID,...@ for\n"
    "                        the shards of one process. Behind it ,domain=NAME: no two copies of a key in one rack, if there are\n"
    "                        enough; ,weight=W: its share is in proportion to this (1 to 65535, default 1)\n"
    "  --buckets B           with --member: keys are moved between members in so many parts (64 to 65536, a power of two; default\n"
    "                        4096): fewer divide less evenly; the same for all members\n"
    "  --join ADDRESS        be added to a store that runs: ADDRESS is where one of its members answers (unix:PATH, or with --listen\n"
    "                        tcp://[NAME@]HOST:PORT), or several with commas between. DIR has an id of --new-member. Ready when it is in;\n"
    "                        started again with the same it goes on as that member\n"
    "  --replaces ID         with --join: in the place of that member, which leaves\n"
    "  --weight W            with --join: its share is in proportion to this (1 to 65535, default 1)\n"
    "  --domain NAME         with --join: the rack that it is in\n"
    "  --at ADDRESS          with --join: where the others reach this one; default: what --listen says, else DIR/kvd.sock.\n"
    "                        With --proxy: unix:PATH, where its clients come\n"
    "  --proxy ADDRESS       keep nothing, and pass the requests of many clients on to the store whose member answers there (unix:PATH or\n"
    "                        tcp://[NAME@]HOST:PORT, for that --key and --ring; several members of it with commas between), those that\n"
    "                        wait together in one message; or on to etcd://HOST:PORT or redis://HOST:PORT. Clients come at --at and --listen; with no option of a store\n"
    "";
static const char usage_more[] =
    "  --namespace NAME=strong[:WORD,...]\n"
    "                        a set of keys with a policy of its own, beside those of the store: n=N copies (3), engine=ENGINE,\n"
    "                        durability=HOW, sync-ms=N, memory=BYTES; what is not said is as the options here say. The same for all members\n"
    "  --namespace NAME=eventual[:N,R,W]\n"
    "                        with --member: a set of keys whose changes are answered by W of N owners and reads by R (3,2,2), and\n"
    "                        that may have several values at once; the same for all members\n"
    "  --shards S            the store runs on S threads, each with a part of the keys in DIR/shard-1 to DIR/shard-S (1 to 64,\n"
    "                        default 1; for good). With --new-member: draw an id for each, print them as one word\n"
    "  --memory BYTES        engines memory and log: changes that need more are refused (default: no bound)\n"
    "  --value-max BYTES     no value becomes longer (default and most: 16777216); the same for all members\n"
    "  --huge-pages          engines memory and log: records in pages of 2 MiB, for millions of them: less processor time\n"
    "                        for each, and a pause now and then while they become more\n"
    "  --metrics ADDRESS     what it has counted, as OpenMetrics text: http://ADDRESS/metrics; 127.0.0.1:PORT, [::1]:PORT or\n"
    "                        unix:PATH\n"
    "  --listen ADDRESS      those whose key is known come here from anywhere, with the store's own protocol, "
    "encrypted:\n"
    "                        0.0.0.0:PORT, [::]:PORT or one address; needs --key and --ring (htc keys --help).\n"
    "                        Shard N is at PORT+N-1\n"
    "  --key FILE            this member's secret key (htc keys new)\n"
    "  --ring FILE           the public keys that are known; read anew at SIGHUP\n"
    "  --once FILE           one-time secrets that are open (htc keys enrol)\n"
    "  --log-format FORMAT   of what goes to standard error: text (default) or json, an object a line\n"
    "  --log-level LEVEL     how much of it: error, warn, info (default) or debug\n"
    "  --help, --version\n";

htc_status member_wrong(htc_daemon *d, htc_status status, const char *hint, const char *format, const char *arg)
{
    snprintf(d->error.text, sizeof d->error.text, format, arg);
    snprintf(d->error.hint, sizeof d->error.hint, "%s", hint);
    return status;
}

int member_wanted(int argc, char **argv)
{
    static const char *const words[] = { "--resp",    "--engine",     "--durability", "--mem", "--sync-ms", "--value-max",
                                         "--metrics", "--log-", "--huge-pages", "--new-member", "--listen",
                                         "--shards",  "--join",       "--proxy",      "--help" };
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strncmp(argv[i], words[k], strlen(words[k])) == 0)
                return 1;
    return 0;
}

static htc_status take_level(member *m, const char *text)
{
    static const char *const levels[] = { "error", "warn", "info", "debug" };
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(text, levels[i]) == 0) {
            m->o.level = HTC_LOG_ERROR + i;
            return HTC_OK;
        }
    return member_wrong(m->d, HTC_EUSAGE, "take error, warn, info or debug", "there is no log level %.40s", text);
}

static int name_is_taken(const member *m, const char *text)
{
    htc_bytes name = { text, strcspn(text, "=") };
    for (uint32_t i = 0; i < m->space_count; i++)
        if (htc_bytes_equal(m->spaces[i].name, name))
            return 1;
    for (uint32_t i = 0; i < m->strong_count; i++)
        if (htc_bytes_equal(htc_bytes_of(m->strong[i].name), name))
            return 1;
    return 0;
}

void member_take_huge(member *m)
{
    if (!m->o.huge_pages)
        return;
    huge_init(&m->huge);
    m->d->env.alloc = &m->huge.alloc;
}

static htc_status take_space(member *m, const char *text)
{
    strong_policy    policy;
    htc_kv_namespace space;
    htc_status       strong = space_parse_strong(text, &policy);
    if (space_is_default(text, strcspn(text, "=")))
        return member_wrong(m->d, HTC_EUSAGE, "--engine, --durability, --sync-ms and --memory say its policy",
                            "--namespace %.80s: default is the store itself", text);
    if (strong == HTC_EUSAGE)
        return member_wrong(m->d, HTC_EUSAGE, "strong:n=N,engine=ENGINE,durability=HOW,sync-ms=N,memory=BYTES, any of them",
                            "--namespace %.80s: what stands behind strong is no policy", text);
    if (strong != HTC_OK && space_parse(text, &space) != HTC_OK)
        return member_wrong(m->d, HTC_EUSAGE,
                            "NAME=strong, NAME=eventual or NAME=eventual:N,R,W with N up to 3, R and W up to N; a name has a-z, 0-9, -, _, .",
                            "--namespace %.80s says no namespace", text);
    if (name_is_taken(m, text))
        return member_wrong(m->d, HTC_EUSAGE, "name each once", "--namespace %.80s has the name of another one", text);
    if (strong == HTC_OK ? m->strong_count == STRONG_MAX : m->space_count == SPACES_MAX)
        return member_wrong(m->d, HTC_EUSAGE, "htc-kvd --help lists the options", "--namespace %.60s is one too many", text);
    if (strong == HTC_OK)
        m->strong[m->strong_count++] = policy;
    else
        m->spaces[m->space_count++] = space;
    return HTC_OK;
}

static htc_status parse(member *m, int argc, char **argv)
{
    static const struct option table[] = { { "dir", required_argument, NULL, 'd' },
                                           { "resp", required_argument, NULL, 'r' },
                                           { "resp-password-file", required_argument, NULL, 'p' },
                                           { "resp-allow-flush", no_argument, NULL, 'f' },
                                           { "engine", required_argument, NULL, 'e' },
                                           { "durability", required_argument, NULL, 'u' },
                                           { "sync-ms", required_argument, NULL, 's' },
                                           { "memory", required_argument, NULL, 'm' },
                                           { "value-max", required_argument, NULL, 'X' },
                                           { "huge-pages", no_argument, NULL, 'H' },
                                           { "metrics", required_argument, NULL, 'x' },
                                           { "log-format", required_argument, NULL, 'j' },
                                           { "log-level", required_argument, NULL, 'v' },
                                           { "member", required_argument, NULL, 'M' },
                                           { "shards", required_argument, NULL, 'S' },
                                           { "new-member", no_argument, NULL, 'n' },
                                           { "buckets", required_argument, NULL, 'b' },
                                           { "join", required_argument, NULL, 'J' },
                                           { "proxy", required_argument, NULL, 'y' },
                                           { "replaces", required_argument, NULL, 'P' },
                                           { "weight", required_argument, NULL, 'w' },
                                           { "domain", required_argument, NULL, 'D' },
                                           { "at", required_argument, NULL, 'a' },
                                           { "namespace", required_argument, NULL, 'N' },
                                           { "listen", required_argument, NULL, 'l' },
                                           { "key", required_argument, NULL, 'k' },
                                           { "ring", required_argument, NULL, 'R' },
                                           { "once", required_argument, NULL, 'o' },
                                           { "config", required_argument, NULL, 'C' },
                                           { "help", no_argument, NULL, 'h' },
                                           { "version", no_argument, NULL, 'V' },
                                           { NULL, 0, NULL, 0 } };
    static const char          hint[] = "htc-kvd --help lists the options";
    char                      *end;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, "+", table, NULL)) != -1;) {
        switch (letter) {
        case 'd':
            m->o.dir = optarg;
            break;
        case 'r':
            m->o.resp = optarg;
            break;
        case 'p':
            m->o.password_file = optarg;
            break;
        case 'f':
            m->o.flush = 1;
            break;
        case 'e':
            m->o.engine = optarg;
            break;
        case 'u':
            m->o.durability = optarg;
            break;
        case 's':
            m->o.sync_ms = (uint32_t)strtoul(optarg, &end, 10);
            if (*end || !strchr("123456789", optarg[0]) || strlen(optarg) > 5 || m->o.sync_ms > SYNC_MS_MAX)
                return member_wrong(m->d, HTC_EUSAGE, "take 1 to 10000", "--sync-ms %.40s is no number of milliseconds", optarg);
            break;
        case 'm':
            m->o.bytes_max = strtoull(optarg, &end, 10);
            if (end == optarg || *end || optarg[0] == '-')
                return member_wrong(m->d, HTC_EUSAGE, hint, "--memory %.40s is not a number of bytes", optarg);
            break;
        case 'X':
            m->o.value_max = strtoull(optarg, &end, 10);
            if (*end || !strchr("123456789", optarg[0]) || m->o.value_max > HTC_KV_VALUE_MAX)
                return member_wrong(m->d, HTC_EUSAGE, "take 1 to 16777216", "--value-max %.40s is no number of bytes", optarg);
            break;
        case 'H':
            m->o.huge_pages = 1;
            break;
        case 'M':
            if (identity_parse(m->d, optarg, m->peers, &m->count) != HTC_OK)
                return HTC_EUSAGE;
            break;
        case 'S':
            m->o.shards = (uint32_t)strtoul(optarg, &end, 10);
            if (*end || !strchr("123456789", optarg[0]) || strlen(optarg) > 2 || m->o.shards > SHARDS_MAX)
                return member_wrong(m->d, HTC_EUSAGE, "take 1 to 64", "--shards %.40s is no number of shards", optarg);
            break;
        case 'b':
            for (m->o.bits = 6; m->o.bits <= 16 && strtoul(optarg, NULL, 10) != 1ul << m->o.bits;)
                m->o.bits++;
            if (m->o.bits > 16 || strspn(optarg, "0123456789") != strlen(optarg))
                return member_wrong(m->d, HTC_EUSAGE, "take a power of two from 64 to 65536", "--buckets %.40s is no number of buckets", optarg);
            break;
        case 'J':
            m->o.join = optarg;
            break;
        case 'y':
            m->o.proxy = optarg;
            break;
        case 'P':
            if (strlen(optarg) != 16 || strspn(optarg, "0123456789abcdef") != 16 || !(m->o.replaces = strtoull(optarg, NULL, 16)))
                return member_wrong(m->d, HTC_EUSAGE, "htc kv members shows them", "--replaces %.40s is no id of a member", optarg);
            break;
        case 'w':
            if (!(m->o.weight = identity_weight(optarg)))
                return member_wrong(m->d, HTC_EUSAGE, "take 1 to 65535", "--weight %.40s is no weight", optarg);
            break;
        case 'D':
            if (!(m->o.domain = identity_domain(optarg)))
                return member_wrong(m->d, HTC_EUSAGE, "a name has a-z, A-Z, 0-9, -, _, . and at most 63 of them", "--domain %.70s is no name", optarg);
            break;
        case 'a':
            m->o.at = optarg;
            break;
        case 'n':
            m->o.draw = 1;
            break;
        case 'N':
            if (take_space(m, optarg) != HTC_OK)
                return HTC_EUSAGE;
            break;
        case 'l':
            m->o.listen = optarg;
            break;
        case 'k':
            m->o.key = optarg;
            break;
        case 'R':
            m->o.ring = optarg;
            break;
        case 'o':
            m->o.once = optarg;
            break;
        case 'j':
            m->o.json = strcmp(optarg, "json") == 0;
            if (!m->o.json && strcmp(optarg, "text") != 0)
                return member_wrong(m->d, HTC_EUSAGE, "take text or json", "there is no log format %.40s", optarg);
            break;
        case 'v':
            if (take_level(m, optarg) != HTC_OK)
                return HTC_EUSAGE;
            break;
        case 'x':
            m->o.metrics = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            fputs(usage_more, stdout);
            return HTC_AGAIN;
        case 'V':
            puts("htc-kvd " HTC_VERSION);
            return HTC_AGAIN;
        case 'C':
            return member_wrong(m->d, HTC_EUSAGE, "leave out one of them", "%s", "--config is for the store of htc up: it does not go with --engine, --resp and the like");
        default:
            return member_wrong(m->d, HTC_EUSAGE, hint, "'%.60s' is no option, or lacks its value", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return member_wrong(m->d, HTC_EUSAGE, hint, "'%.60s' is one word too many", argv[optind]);
    if (m->o.proxy)
        return proxy_check(m);
    if (m->space_count && m->count == 0 && !m->o.join)
        return member_wrong(m->d, HTC_EUSAGE, "one member is enough: --new-member, then --member", "%s",
                     "--namespace NAME=eventual is for a store of members");
    if (m->o.listen && (!m->o.key || !m->o.ring))
        return member_wrong(m->d, HTC_EUSAGE, "htc keys new makes a key, htc keys add a ring",
                     "--listen %.60s needs --key and --ring", m->o.listen);
    if (!m->o.listen && (m->o.key || m->o.ring || m->o.once))
        return member_wrong(m->d, HTC_EUSAGE, "give --listen HOST:PORT", "%s is for those who come in by --listen",
                     m->o.key ? "--key" : m->o.ring ? "--ring" : "--once");
    if (m->o.bits && m->count == 0)
        return member_wrong(m->d, HTC_EUSAGE, m->o.join ? "leave it out: it is the store's" : "give --member for each of them", "%s",
                            "--buckets is for members that begin a store together");
    htc_status strong = strong_check(m);
    return strong == HTC_OK ? join_check(m) : strong;
}

static const char *const engines[] = { "", "memory", "lmdb", "log" };
static const char *const hows[] = { "", "sync", "interval", "memory" };

/* What engine and durability mean together. */
htc_status member_choose(member *m, htc_kv_store_options *so)
{
    const char *engine = m->o.engine ? m->o.engine : "lmdb";
    const char *how = m->o.durability ? m->o.durability : strcmp(engine, "memory") == 0 ? "memory" : "sync";
    for (uint32_t i = HTC_KV_SYNC; i <= HTC_KV_MEMORY; i++)
        if (strcmp(how, hows[i]) == 0)
            so->durability = i;
    for (uint32_t i = HTC_KV_IN_MEMORY; i <= HTC_KV_LOG; i++)
        if (strcmp(engine, engines[i]) == 0)
            so->engine = i;
    if (!so->engine)
        return member_wrong(m->d, HTC_EUSAGE, "take memory, log or lmdb", "there is no engine %.40s", engine);
    if (!so->durability)
        return member_wrong(m->d, HTC_EUSAGE, "take sync, interval or memory", "there is no durability %.40s", how);
    if (so->engine == HTC_KV_IN_MEMORY && so->durability != HTC_KV_MEMORY)
        return member_wrong(m->d, HTC_EUSAGE, "take --engine log or lmdb, or --durability memory",
                     "engine memory keeps nothing: it cannot be %.40s", how);
    if (m->o.bytes_max && so->engine == HTC_KV_LMDB)
        return member_wrong(m->d, HTC_EUSAGE, "leave it out", "--memory is not for engine %.40s", engine);
    if (m->o.sync_ms && so->durability != HTC_KV_INTERVAL)
        return member_wrong(m->d, HTC_EUSAGE, "leave it out, or give --durability interval", "--sync-ms is not for durability %.40s", how);
    so->bytes_max = m->o.bytes_max;
    so->interval_ns = m->o.sync_ms * HTC_MS;
    return HTC_OK;
}

/* ---- one of several ---- */

static htc_status draw(member *m)
{
    char       id[17];
    htc_status s = m->o.dir ? member_open_state(m, m->o.dir, &m->d->state)
                            : member_wrong(m->d, HTC_EUSAGE, "give --dir DIR", "%s", "--new-member needs a directory of its own");
    if (s == HTC_OK)
        s = shards_check(m);
    if (s == HTC_OK && m->o.shards > 1)
        return shards_draw(m);
    if (s == HTC_OK)
        s = identity_draw(m->d, id);
    if (s == HTC_OK)
        puts(id);
    return s == HTC_OK ? HTC_AGAIN : s;
}

htc_status member_find_self(member *m)
{
    uint64_t                 id = 0;
    uint32_t                 own = 0;
    if (m->o.join)
        return join_find_self(m);
    htc_status               s = m->d->state ? identity_read(m->d, &id) : HTC_ENOTFOUND;
    if (s == HTC_ENOTFOUND && m->count == 0)
        return HTC_OK;
    if (s == HTC_ENOTFOUND)
        return member_wrong(m->d, s, "htc-kvd --dir DIR --new-member draws one into an empty directory",
                     "--member is for one of several members, and %.200s has no id",
                     m->d->state ? htc_state_dir(m->d->state) : "this one");
    if (s == HTC_OK && m->count == 0)
        return member_wrong(m->d, HTC_EUSAGE, "give --member for each of them",
                     "%.200s is the directory of one of several members", htc_state_dir(m->d->state));
    for (uint32_t i = 0; s == HTC_OK && i < m->count; i++) {
        own += m->peers[i].id == id;
        for (uint32_t j = 0; j < i; j++)
            if (m->peers[i].id == m->peers[j].id)
                return member_wrong(m->d, HTC_EUSAGE, "name each member once", "--member %.100s has the id of another one",
                             m->peers[i].path[0] ? m->peers[i].path : m->peers[i].address);
        if (m->peers[i].address[0] && !m->o.listen)
            return member_wrong(m->d, HTC_EUSAGE, "give --listen, --key and --ring",
                         "--member %.100s is reached with keys alone, and this member has none", m->peers[i].address);
    }
    if (s == HTC_OK && own != 1)
        return member_wrong(m->d, HTC_EUSAGE, "a member that lost its directory is another one, and does not come back as the old",
                     "the member of %.200s is none of those named by --member", htc_state_dir(m->d->state));
    m->id = id;
    return s == HTC_OK && !m->alone ? identity_check(m->d) : s;
}

/* Where it answers the others, and where they answer. */
static htc_status meet(member *m)
{
    htc_status s = HTC_OK;
    for (uint32_t i = 0; s == HTC_OK && m->id && i < m->count; i++) {
        const char *path = m->peers[i].path;
        m->members[i].id = m->peers[i].id;
        m->members[i].process = m->peers[i].process;
        m->members[i].domain = m->peers[i].domain;
        m->members[i].weight = m->peers[i].weight;
        htc_host_keys_dial_options to = { .size = sizeof to, .address = m->peers[i].address, .port = MEMBER_PORT };
        to.name = m->members[i].name = m->peers[i].name[0] ? m->peers[i].name : NULL;
        if (m->peers[i].address[0] && m->peers[i].id == m->id)
            continue; /* --listen is where it answers */
        if (m->peers[i].address[0])
            s = htc_host_keys_dial(m->keys, &to, &m->members[i].peer, &m->d->error);
        else if (m->peers[i].id != m->id)
            s = htc_host_dial_unix(m->host, path, MEMBER_PORT, &m->members[i].peer, &m->d->error);
        else if (strcmp(path, htc_state_path(m->d->state, HTC_STATE_STORE_SOCKET)) != 0)
            s = htc_host_listen_unix(m->host, path, 0600, NATIVE_PORT, &m->d->error);
        if (s == HTC_OK && m->members[i].peer)
            join_note(m, &m->peers[i], m->members[i].peer);
    }
    return s;
}

/* The first line of a file that nobody else may read. */
htc_status member_read_password(member *m)
{
    struct stat st;
    const char *path = m->o.password_file;
    int         fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (!path)
        return HTC_OK;
    if (fd < 0)
        return member_wrong(m->d, HTC_EINPUT, "make it: one line, mode 0600", "the password file %.200s cannot be read", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077)) {
        close(fd);
        return member_wrong(m->d, HTC_EDENIED, "chmod 0600 it", "others may read the password file %.200s", path);
    }
    ssize_t n = read(fd, m->password, sizeof m->password - 1);
    close(fd);
    m->password_len = n > 0 ? strcspn(m->password, "\r\n") : 0;
    if (m->password_len == 0 || m->password_len > PASSWORD_MAX)
        return member_wrong(m->d, HTC_EINPUT, "its first line is the password",
                     "the password file %.200s has no line of 1 to 512 bytes", path);
    return HTC_OK;
}

/* A connection is a descriptor: as many as the system gives. */
uint32_t member_descriptors(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    if (files.rlim_cur < files.rlim_max && files.rlim_cur < CONNECTIONS_MAX + 256) {
        files.rlim_cur = files.rlim_max < CONNECTIONS_MAX + 256 ? files.rlim_max : CONNECTIONS_MAX + 256;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur > CONNECTIONS_MAX + 256 ? CONNECTIONS_MAX + 256 : (uint32_t)files.rlim_cur;
}

/* For those whose key is known, from anywhere. */
static htc_status listen_secure(member *m)
{
    htc_host_keys_options ko = {
        .size = sizeof ko, .key_path = m->o.key, .ring_path = m->o.ring, .once_path = m->o.once
    };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = m->o.listen, .port = NATIVE_PORT };
    htc_status                   s = htc_host_keys_open(m->host, &ko, &m->keys, &m->d->error);
    return s == HTC_OK ? htc_host_keys_listen(m->keys, &lo, &m->secure_port, &m->d->error) : s;
}

void member_show(void *ctx, htc_metrics *metrics)
{
    const member *m = ctx;
    htc_metrics_family(metrics, HTC_METRIC_INFO, "htc_kv_member", "", "Which program this is, and how it keeps records.");
    htc_metrics_value(metrics,
                      (htc_metric_label[]){ { "engine", htc_bytes_of(engines[m->engine]) },
                                            { "version", htc_bytes_of(HTC_VERSION) },
                                            { "namespace", htc_bytes_of(m->space ? m->space->name : "") } },
                      m->space ? 3 : 2, 1);
    htc_kv_server_metrics(htc_kv_store_server(m->store), metrics);
    if (m->keys)
        htc_host_keys_metrics(m->keys, metrics);
}

htc_status member_listen(member *m, uint32_t what, htc_host_metrics_fn write, void *ctx)
{
    htc_host_metrics_options mo = { .size = sizeof mo, .address = m->o.metrics, .write = write, .ctx = ctx };
    htc_host_stream_options so = {
        .size = sizeof so, .address = m->o.resp, .port = RESP_PORT, .refusal = "-ERR max number of clients reached\r\n"
    };
    htc_status s = HTC_OK;
    if (what & LISTEN_NATIVE && m->d->state)
        s = htc_host_listen_unix(m->host, htc_state_path(m->d->state, HTC_STATE_STORE_SOCKET), 0600, NATIVE_PORT,
                                 &m->d->error);
    if (s == HTC_ELOCKED) /* the socket of the directory: what runs there has it */
        snprintf(m->d->error.hint, sizeof m->d->error.hint, "end the htc-kvd that runs there, or give another --dir");
    if (s == HTC_OK && what & LISTEN_SECURE && m->o.listen)
        s = listen_secure(m);
    if (s == HTC_OK && what & LISTEN_RESP && m->o.resp)
        s = htc_host_listen_stream(m->host, &so, &m->port, &m->d->error);
    if (s == HTC_OK && what & LISTEN_METRICS && m->o.metrics)
        s = htc_host_listen_metrics(m->host, &mo, &m->metrics_port, &m->d->error);
    if (s == HTC_ELOCKED && m->d->error.hint[0] == 0)
        snprintf(m->d->error.hint, sizeof m->d->error.hint, "end the other one, or take another address");
    return s;
}

static void warn(const member *m, const char *address)
{
    char line[400];
    snprintf(line, sizeof line,
             "no password: every local user can read and change everything at %.200s; give --resp-password-file, or "
             "listen on unix:PATH",
             address);
    if (m->o.json)
        m->d->env.log->write(m->d->env.log->ctx, HTC_LOG_WARN, line);
    else
        fprintf(stderr, "htc-kvd: %s\n", line);
}

void member_say_ready(void *ctx)
{
    const member *m = ctx;
    const char   *engine = engines[m->engine];
    const char  *address = m->o.resp;
    int          tcp = address && strncmp(address, "unix:", 5) != 0;
    if (tcp && m->password_len == 0)
        warn(m, address);
    printf("ready: ");
    if (tcp)
        printf("RESP on %.*s:%u, ", (int)(strrchr(address, ':') - address), address, m->port);
    else if (address)
        printf("RESP on %s, ", address);
    printf("engine %s, pid %ld", engine, (long)getpid());
    if (m->metrics_port)
        printf(", metrics on %.*s:%u", (int)(strrchr(m->o.metrics, ':') - m->o.metrics), m->o.metrics, m->metrics_port);
    else if (m->o.metrics)
        printf(", metrics on %s", m->o.metrics);
    if (m->o.shards > 1)
        printf(", %" PRIu32 " shards", m->o.shards);
    if (m->strong_count)
        printf(", %" PRIu32 " strong namespace%s", m->strong_count, m->strong_count == 1 ? "" : "s");
    if (m->o.join)
        printf(", member %016" PRIx64 ", joined", m->id);
    else if (m->id && !m->alone)
        printf(", member %016" PRIx64 " of %" PRIu32, m->id, m->count);
    if (m->o.listen)
        printf(", with keys on %.*s:%u", (int)(strrchr(m->o.listen, ':') - m->o.listen), m->o.listen, m->secure_port);
    putchar('\n');
    fflush(stdout);
}

htc_status member_open_state(const member *m, const char *dir, htc_state **out)
{
    const char       *wanted = getenv("HTC_DIR");
    const char *const candidates[] = { dir ? dir : "", wanted ? wanted : "", "./htc-state", NULL };
    const char       *found = htc_state_find(candidates);
    htc_status        s = identity_may_be_in(m->d, found);
    return s == HTC_OK ? htc_state_open(NULL, found, 1, out, &m->d->error) : s;
}

static htc_ns time_of(const struct timeval *t)
{
    return (htc_ns)t->tv_sec * HTC_SECOND + (htc_ns)t->tv_usec * HTC_US;
}

static void cpu_used(void *ctx, htc_ns *user, htc_ns *sys)
{
    struct rusage u;
    (void)ctx;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return;
    *user = time_of(&u.ru_utime);
    *sys = time_of(&u.ru_stime);
}

/* Pages that are in memory, of /proc/self/statm: the second number. */
static size_t memory_resident(void *ctx)
{
    unsigned long all = 0, resident = 0;
    FILE         *f = fopen("/proc/self/statm", "re");
    (void)ctx;
    if (f && fscanf(f, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

htc_status member_open(member *m, const htc_kv_store_options *chosen)
{
    static const char    *at[MEMBERS_MAX]; /* lent to the store while it opens, by one thread */
    static char           text[MEMBERS_MAX][ADDRESS_MAX];
    htc_status            s = meet(m);
    for (uint32_t i = 0; i < m->count; i++)
        at[i] = identity_address(m->named ? &m->named[i] : &m->peers[i], text[i]) ? text[i] : NULL;
    htc_kv_store_options  so = *chosen;
    htc_kv_server_options server = { .size = sizeof server,
                                     .connections_max = CONNECTIONS_MAX,
                                     .resp_port = m->o.resp ? RESP_PORT : 0,
                                     .resp_password = { m->password, m->password_len },
                                     .resp_flush = m->o.flush,
                                     .cpu = cpu_used,
                                     .resident = memory_resident,
                                     .value_max = (size_t)m->o.value_max,
                                     .self = m->id,
                                     .members = m->members,
                                     .member_count = m->count,
                                     .member_addresses = at,
                                     .join = m->o.join != NULL,
                                     .replaces = m->o.replaces,
                                     .owners = m->copies,
                                     .namespaces = m->spaces,
                                     .namespace_count = m->space_count };
    /* Some 50 buckets for each, so that they have much the same. */
    server.bits = m->o.bits ? m->o.bits : m->count > 4096 / HTC_RING_BUCKETS_A_MEMBER ? 14 : 0;
    so.dir = m->d->state ? htc_state_path(m->d->state, HTC_STATE_STORE) : NULL;
    so.server = &server;
    so.dial = join_dial;
    so.left = join_left;
    so.refused = join_refused;
    so.member_ctx = m;
    m->engine = so.engine;
    m->durability = so.durability;
    return s == HTC_OK ? htc_kv_store_open(&m->d->env, &so, &m->store, &m->d->error) : s;
}

/* Whoever does not get this far promises nothing. */
htc_status member_promise(member *m)
{
    return m->id && !m->alone ? identity_ran(m->d, m->id, hows[m->durability]) : HTC_OK;
}

htc_status member_run(member *m)
{
    htc_kv_store_attach(m->store, m->host);
    htc_status s = htc_host_run(m->host, htc_kv_server_ops(), htc_kv_store_server(m->store));
    return s == HTC_OK ? m->refused : s;
}

static htc_status serve(member *m)
{
    htc_daemon          *d = m->d;
    htc_kv_store_options so = { .size = sizeof so, .ready = member_say_ready, .ready_ctx = m };
    htc_status           s = member_choose(m, &so);
    if (s == HTC_OK)
        s = member_read_password(m);
    if (s == HTC_OK && (m->o.dir || so.engine != HTC_KV_IN_MEMORY || m->o.shards > 1 || m->strong_count))
        s = member_open_state(m, m->o.dir, &d->state);
    if (s == HTC_OK)
        s = shards_check(m);
    if (s == HTC_OK && (m->o.shards > 1 || m->strong_count))
        return shards_serve(m, &so);
    if (s == HTC_OK)
        s = member_find_self(m);
    if (s != HTC_OK)
        return s;
    htc_host_options ho = { .size = sizeof ho, .handle_signals = 1 };
    ho.connections_max = member_descriptors() ? CONNECTIONS_MAX : 0;
    ho.output_bytes_max = MEMBER_WAITING;
    s = htc_host_create(&d->env, &ho, &m->host);
    if (s == HTC_OK)
        s = member_listen(m, LISTEN_ALL, member_show, m);
    if (s == HTC_OK)
        s = member_open(m, &so);
    if (s == HTC_OK)
        s = member_promise(m);
    return s == HTC_OK ? member_run(m) : s;
}

htc_status member_main(htc_daemon *d, int argc, char **argv)
{
    static member       m; /* large */
    htc_logfile_options lo = { .size = sizeof lo, .name = d->name, .fd = STDERR_FILENO };
    m.d = d;
    m.peers = calloc(MEMBERS_MAX, sizeof *m.peers);
    htc_status s = m.peers ? parse(&m, argc, argv) : HTC_ENOMEM;
    lo.json = m.o.json;
    lo.level = m.o.level;
    d->log_is_stderr = m.o.json != 0;
    m.o.shards = m.o.shards ? m.o.shards : 1;
    if (s == HTC_OK && m.o.draw)
        s = draw(&m);
    if (s == HTC_OK)
        s = htc_logfile_open(&lo, &d->log, &d->error);
    if (s != HTC_OK) {
        free(m.peers);
        return s;
    }
    htc_host_random(&d->rng.state, sizeof d->rng.state);
    d->env = (htc_env){ .size = sizeof d->env, .rng = &d->rng, .log = htc_logfile_log(d->log) };
    member_take_huge(&m);
    s = m.o.proxy ? proxy_serve(&m) : serve(&m);
    htc_host_destroy(m.host);
    htc_kv_store_close(m.store);
    free(m.peers);
    free(m.dialled);
    if (d->log_is_stderr)
        return s;
    /* The line that says why is on standard error already. */
    htc_logfile_close(d->log);
    d->log = NULL;
    return s;
}
