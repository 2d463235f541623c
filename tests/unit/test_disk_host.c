/* Requests of machines carried out with files, by threads and in the loop's own: each is answered once, with what a slow model says. */
#include "expect.h"
#include <stdio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "htcsched/disk_host.h"
#include "net/storage/direct.h"
#include "net/storage/disk_private.h"
#include "net/storage/patience.h"
#include "property.h"

#define LENGTH 8192
#define TAGS   4096

typedef struct asked {
    uint32_t   op;
    uint64_t   offset, length;
    htc_status expected;
    uint8_t   *before; /* READ: what must come back */
    int        maybe; /* there may be no such file */
    int        open;
} asked;

typedef struct machine {
    htc_rng       rng;
    htc_disk_dir *disk;
    htc_host     *host;
    uint8_t       file[LENGTH];
    asked         a[TAGS];
    uint64_t      next, answered, here;
    uint64_t      limit;
    uint32_t      busy;    /* on their way */
    int           writing; /* the file is to be changed, or is: nothing else is asked about it, for there would be no order */
    int           here_too;
    int           as_log; /* writes are all like a log's */
    int           wrong;
} machine;

static void ask(machine *m, htc_output *out, const htc_disk_request *q, asked a)
{
    uint8_t *bytes = malloc(HTC_DISK_HEAD_MAX + q->data.len);
    size_t   n = htc_disk_encode(q, bytes, HTC_DISK_HEAD_MAX + q->data.len);
    a.op = q->op;
    a.open = 1;
    m->a[m->next] = a;
    m->busy++;
    cr_assert(n > 0 && htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = q->op, .tag = m->next,
                                                          .body = { bytes, n } }) == HTC_OK);
    m->next++;
    free(bytes);
}

static void ask_write(machine *m, htc_output *out)
{
    static uint8_t data[LENGTH];
    uint64_t       offset = htc_rng_below(&m->rng, LENGTH), length = 1 + htc_rng_below(&m->rng, 2000);
    int            as_log = m->as_log || htc_rng_below(&m->rng, 2);
    if (as_log) { /* what may go past the page cache */
        offset = offset / HTC__DIRECT_UNIT * HTC__DIRECT_UNIT;
        length = (1 + length / HTC__DIRECT_UNIT) * HTC__DIRECT_UNIT;
    }
    int            fits = offset + length <= LENGTH;
    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)htc_rng_next(&m->rng);
    if (fits)
        memcpy(m->file + offset, data, length);
    m->writing = 2;
    ask(m, out,
        &(htc_disk_request){ .op = HTC_DISK_WRITE, .sync = m->as_log || htc_rng_below(&m->rng, 2) != 0, .name = htc_bytes_of("f"),
                             .offset = offset, .data = { data, length } },
        (asked){ .expected = fits ? HTC_OK : HTC_EINVAL });
}

static void ask_read(machine *m, htc_output *out)
{
    uint64_t offset = htc_rng_below(&m->rng, LENGTH), length = 1 + htc_rng_below(&m->rng, 3000);
    uint64_t there = length < LENGTH - offset ? length : LENGTH - offset;
    asked    a = { .offset = offset, .length = there, .before = malloc(there) };
    memcpy(a.before, m->file + offset, there);
    ask(m, out,
        &(htc_disk_request){ .op = HTC_DISK_READ, .name = htc_bytes_of("f"), .offset = offset, .length = length }, a);
}

static void ask_more(machine *m, htc_output *out)
{
    if (m->writing == 1 && m->busy == 0)
        ask_write(m, out);
    while (m->next < m->limit && !m->writing && m->busy < 4) {
        uint64_t what = htc_rng_below(&m->rng, 8);
        char     name[16];
        if (what == 0) {
            snprintf(name, sizeof name, "n%llu", (unsigned long long)m->next);
            ask(m, out, &(htc_disk_request){ .op = HTC_DISK_CREATE, .name = htc_bytes_of(name), .length = 1000 },
                (asked){ 0 });
        } else if (what == 1) {
            ask(m, out, &(htc_disk_request){ .op = HTC_DISK_SYNC, .name = htc_bytes_of(htc_rng_below(&m->rng, 2) ? "f" : "g") },
                (asked){ .maybe = 1 });
        } else if (what < 5) {
            ask_read(m, out);
        } else {
            m->writing = 1;
            if (m->busy == 0)
                ask_write(m, out);
        }
    }
}

static void check(machine *m, const htc_input *in)
{
    asked *a = &m->a[in->tag];
    m->wrong |= !a->open || a->op != in->op;
    if (a->maybe)
        m->wrong |= in->status != HTC_OK && in->status != HTC_ENOTFOUND;
    else
        m->wrong |= in->status != a->expected;
    if (a->before)
        m->wrong |= in->body.len != a->length || memcmp(in->body.data, a->before, a->length) != 0;
    free(a->before);
    a->open = 0;
    if (a->op == HTC_DISK_WRITE)
        m->writing = 0;
    m->busy--;
    m->answered++;
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    machine *m = self;
    if (in->kind == HTC_IN_RESULT)
        check(m, in);
    ask_more(m, out);
    if (m->wrong || (m->answered >= m->limit && m->busy == 0))
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    return HTC_OK;
}

static htc_ns deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static htc_status call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    machine *m = ctx;
    int      here = m->here_too && htc_rng_below(&m->rng, 4) > 0;
    m->here += here && op == HTC_DISK_WRITE;
    return (here ? htc_disk_dir_call_here : htc_disk_dir_call)(m->disk, host, op, tag, body);
}

static htc__disk_ways ways;

static void run(htc_rng *rng, int here_too, int as_log)
{
    static machine         m;
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    char                   dir[] = "/tmp/disk_host.XXXXXX", command[64];
    htc_bytes              none;
    uint8_t                bytes[HTC_DISK_HEAD_MAX];
    m = (machine){ .rng = { htc_rng_next(rng) }, .limit = 300, .here_too = here_too, .as_log = as_log };
    HOLDS(mkdtemp(dir) != NULL);
    HOLDS(htc_disk_dir_open(dir, &m.disk, NULL) == HTC_OK);
    size_t n = htc_disk_encode(&(htc_disk_request){ .op = HTC_DISK_CREATE, .name = htc_bytes_of("f"), .length = LENGTH }, bytes,
                               sizeof bytes);
    HOLDS(htc_disk_dir_do(m.disk, (htc_bytes){ bytes, n }, &none) == HTC_OK);
    HOLDS(htc_host_create(NULL, NULL, &m.host) == HTC_OK);
    htc_host_on_call(m.host, call, &m);
    HOLDS(htc_host_run(m.host, &ops, &m) == HTC_OK);
    HOLDS(m.wrong == 0 && m.answered >= m.limit && m.busy == 0);
    HOLDS(m.here > 20 || here_too == 0);
    htc_host_destroy(m.host);
    htc__disk_ways gone;
    htc__disk_dir_ways(m.disk, &gone);
    ways.buffered += gone.buffered;
    ways.direct += gone.direct;
    htc_disk_dir_close(m.disk);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    HOLDS(system(command) == 0);
}

Test(disk_host, threads_do_what_is_asked)
{
    PROPERTY (rng, 5)
        run(&rng, 0, 0);
}

Test(disk_host, so_does_the_loop_itself_beside_them)
{
    PROPERTY (rng, 5)
        run(&rng, 1, 0);
}

/* ---------------------------------------------------------------- past the page cache */

/* A file that can be written so; -1: none here. */
static int direct_file(char path[64])
{
    snprintf(path, 64, "/tmp/disk_host.XXXXXX");
    void *data = aligned_alloc(4096, 4096);
    int   fd = mkstemp(path);
    memset(data, 0, 4096);
    cr_assert(fd >= 0 && ftruncate(fd, LENGTH) == 0 && fsync(fd) == 0);
    close(fd);
    fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (fd >= 0 && (!htc__direct_is_kept(fd) || htc__direct_write(fd, data, HTC__DIRECT_UNIT, 0) != 0)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        unlink(path);
    free(data);
    return fd;
}

/* Both ways, each what a model says (above): none of them is left out where the file system has it. */
Test(disk_host, writes_go_past_the_page_cache_where_they_may)
{
    char path[64];
    int  fd = direct_file(path);
    if (fd < 0)
        cr_skip_test("no writes past the page cache that are kept in /tmp: another file system, or longer sectors");
    close(fd);
    unlink(path);
    PROPERTY_ALL (rng, 3) {
        run(&rng, 0, 0);
        run(&rng, 0, 1);
        run(&rng, 1, 1);
    }
    cr_expect(ways.buffered > 100 && ways.direct > 100, "%llu, %llu", (unsigned long long)ways.buffered, (unsigned long long)ways.direct);
}

/* What went wrong is told apart from what only cannot be done this way. */
Test(disk_host, how_a_direct_write_ended_is_told)
{
    static const struct { uint64_t offset; size_t n; rlim_t limit; int error; } cases[] = {
        { 512, 1024, RLIM_INFINITY, 0 },
        { 512, 1000, RLIM_INFINITY, EINVAL }, /* or there: a file system may not mind */
        { 4096, 1024, 4096, EFBIG },
        { 3072, 2048, 4096, EAGAIN }, /* in part */
    };
    char     path[64];
    uint8_t *data = aligned_alloc(4096, 4096), there[1024];
    int      fd = direct_file(path);
    if (fd < 0)
        cr_skip_test("no writes past the page cache that are kept in /tmp: another file system, or longer sectors");
    memset(data, 7, 4096);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rlimit before, now;
        getrlimit(RLIMIT_FSIZE, &before);
        now = before;
        now.rlim_cur = cases[i].limit;
        setrlimit(RLIMIT_FSIZE, &now);
        int error = htc__direct_write(fd, data, cases[i].n, cases[i].offset);
        setrlimit(RLIMIT_FSIZE, &before);
        cr_expect(error == cases[i].error || (cases[i].error == EINVAL && error == 0), "case %zu: %s", i, strerror(error));
        cr_expect(htc__direct_is_no_way(error) == (error == EINVAL || error == EAGAIN));
    }
    int back = open(path, O_RDONLY | O_CLOEXEC);
    cr_expect(back >= 0 && pread(back, there, sizeof there, 512) == sizeof there && memcmp(there, data, sizeof there) == 0);
    close(back);
    close(fd);
    unlink(path);
    free(data);
}

static void went(htc_disk_dir *disk, htc__disk_ways *before, const htc_disk_request *q, int direct)
{
    uint8_t        bytes[HTC_DISK_HEAD_MAX + 1024];
    htc_bytes      none;
    htc__disk_ways now;
    size_t         n = htc_disk_encode(q, bytes, sizeof bytes);
    cr_assert(n > 0 && htc_disk_dir_do(disk, (htc_bytes){ bytes, n }, &none) == HTC_OK);
    htc__disk_dir_ways(disk, &now);
    cr_expect(now.direct - before->direct == (uint64_t)direct && now.buffered - before->buffered == (uint64_t)!direct);
    *before = now;
}

/* A write with sync covers each one before it, and one past the page cache would cover itself alone: so it goes that way only where nothing waits in
 * memory. Nobody knows that of a file that was opened and not made. */
Test(disk_host, what_waits_in_memory_is_synced_too)
{
    static const char      data[512];
    const htc_disk_request create = { .op = HTC_DISK_CREATE, .name = htc_bytes_of("f"), .length = LENGTH };
    const htc_disk_request synced = { .op = HTC_DISK_WRITE, .sync = 1, .name = htc_bytes_of("f"), .data = { data, sizeof data } };
    const htc_disk_request unsynced = { .op = HTC_DISK_WRITE, .name = htc_bytes_of("f"), .data = { data, sizeof data } };
    const htc_disk_request odd = { .op = HTC_DISK_WRITE, .sync = 1, .name = htc_bytes_of("f"), .data = { data, 500 } };
    char                   path[64], dir[] = "/tmp/disk_host.XXXXXX", command[64];
    uint8_t                bytes[HTC_DISK_HEAD_MAX];
    htc_bytes              none;
    htc_disk_dir          *disk;
    htc__disk_ways         w = { 0 };
    int                    fd = direct_file(path);
    if (fd < 0)
        cr_skip_test("no writes past the page cache that are kept in /tmp: another file system, or longer sectors");
    close(fd);
    unlink(path);
    cr_assert(mkdtemp(dir) != NULL && htc_disk_dir_open(dir, &disk, NULL) == HTC_OK);
    size_t n = htc_disk_encode(&create, bytes, sizeof bytes);
    cr_assert(htc_disk_dir_do(disk, (htc_bytes){ bytes, n }, &none) == HTC_OK);
    went(disk, &w, &synced, 1);
    went(disk, &w, &unsynced, 0);
    went(disk, &w, &synced, 0);
    went(disk, &w, &synced, 1);
    went(disk, &w, &odd, 0);
    went(disk, &w, &synced, 1);
    went(disk, &w, &unsynced, 0);
    n = htc_disk_encode(&(htc_disk_request){ .op = HTC_DISK_SYNC, .name = htc_bytes_of("f") }, bytes, sizeof bytes);
    cr_assert(htc_disk_dir_do(disk, (htc_bytes){ bytes, n }, &none) == HTC_OK);
    went(disk, &w, &synced, 1);
    htc_disk_dir_close(disk);
    cr_assert(htc_disk_dir_open(dir, &disk, NULL) == HTC_OK);
    w = (htc__disk_ways){ 0 };
    went(disk, &w, &synced, 0);
    went(disk, &w, &synced, 1);
    htc_disk_dir_close(disk);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    cr_assert(system(command) == 0);
}

/* ---------------------------------------------------------------- waits in the loop */

typedef struct waits {
    htc_ns   every, took, slow; /* how far they are apart; as a rule; the slow ones */
    unsigned slow_every;        /* one of so many is */
} waits;

/* How many of 10,000 are risked, and what share of the time the loop stands still in slow ones. */
static unsigned risked(const waits *w, double *share)
{
    htc__patience p = { 0 };
    htc_ns        now = 3600 * HTC_SECOND, begun = now, stood = 0;
    unsigned      here = 0;
    for (unsigned i = 0; i < 10000; i++, now += w->every) {
        htc_ns took = i % w->slow_every ? w->took : w->slow;
        if (!htc__patience_lasts(&p, now))
            continue;
        htc__patience_spend(&p, now + took, took);
        stood += took > HTC__PATIENCE_SLOW ? took : 0;
        here++;
    }
    *share = (double)stood / (double)(now - begun);
    return here;
}

/* A sync of 2 ms in a second of quick ones sent those of the next 200 ms to a thread. Where waking a thread is dear they cost twice
 * the time there: the most of what a durable write of one client took. */
Test(disk_host, one_slow_moment_of_a_disk_changes_nothing)
{
    double share;
    cr_expect(risked(&(waits){ 300 * HTC_US, 250 * HTC_US, 2 * HTC_MS, 3000 }, &share) == 10000);
    cr_expect(risked(&(waits){ HTC_MS, HTC_MS, HTC_MS, 1 }, &share) == 10000, "as quick as it may be");
}

/* 10,000 of 5 ms every 10 ms, half of all the time: 1 % of 100 s and 100 ms more are 220 of them, and one may be under way. */
Test(disk_host, a_disk_that_stays_slow_is_left_to_the_threads)
{
    double   share;
    unsigned here = risked(&(waits){ 10 * HTC_MS, 5 * HTC_MS, 5 * HTC_MS, 1 }, &share);
    cr_expect(here >= 218 && here <= 222, "%u", here);
    cr_expect(share < 0.0112, "%g", share);
    /* One that hangs: each costs more than may be owed. */
    here = risked(&(waits){ 40 * HTC_SECOND, 20 * HTC_SECOND, 20 * HTC_SECOND, 1 }, &share);
    cr_expect(share < 0.0101, "%u, %g", here, share);
}

/* ---------------------------------------------------------------- what stays in memory */

#define MANY (256u << 10)

static void must(htc_disk_dir *disk, const htc_disk_request *q)
{
    uint8_t   bytes[HTC_DISK_HEAD_MAX + 1024];
    htc_bytes none;
    size_t    n = htc_disk_encode(q, bytes, sizeof bytes);
    cr_assert(n > 0 && htc_disk_dir_do(disk, (htc_bytes){ bytes, n }, &none) == HTC_OK);
}

/* Pages of it that are in memory. */
static size_t in_memory(const char *dir)
{
    char          path[300];
    unsigned char pages[MANY / 4096];
    size_t        n = 0;
    snprintf(path, sizeof path, "%s/f", dir);
    int   fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, MANY, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert(fd >= 0 && at != MAP_FAILED && mincore(at, MANY, pages) == 0);
    for (size_t i = 0; i < sizeof pages; i++)
        n += pages[i] & 1;
    munmap(at, MANY);
    close(fd);
    return n;
}

/* A write of a part of a block reads the rest of it: of a file that was just made it is there, so that nothing waits for the disk.
 * A process that opens a file that it has not made does not believe what memory says of it. (There are file systems without a disk.) */
Test(disk_host, what_was_just_made_is_not_read_again)
{
    static const char data[700];
    const char       *top = getenv("TMPDIR");
    char              dir[256], command[300];
    htc_disk_request  create = { .op = HTC_DISK_CREATE, .name = htc_bytes_of("f"), .length = MANY };
    htc_disk_request  write = { .op = HTC_DISK_WRITE, .sync = 1, .name = htc_bytes_of("f"), .data = { data, sizeof data } };
    htc_disk_dir     *disk;
    snprintf(dir, sizeof dir, "%s/disk_host.XXXXXX", top ? top : "/tmp");
    cr_assert(mkdtemp(dir) != NULL && htc_disk_dir_open(dir, &disk, NULL) == HTC_OK);
    must(disk, &create);
    must(disk, &write);
    size_t made = in_memory(dir);
    cr_expect(made > MANY / 4096 / 2, "%zu pages", made);
    htc_disk_dir_close(disk);
    cr_assert(htc_disk_dir_open(dir, &disk, NULL) == HTC_OK);
    must(disk, &write);
    size_t found = in_memory(dir);
    cr_expect(found <= made);
    htc_disk_dir_close(disk);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    cr_assert(system(command) == 0);
}
