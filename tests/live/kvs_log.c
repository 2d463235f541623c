/* The log over real files: processes are killed at any moment, and whatever they had been told was stored is there afterwards. A second
 * process is kept out. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/disk_host.h"
#include "kvs/storage/log.h"
#include "net/storage/log_check.h"

enum { COUNTERS = 16 };

static char dir[200];

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

typedef struct member {
    htc_disk_dir *disk;
    htc__cells    cells;
    htc_output   *out;
    int           ready;
} member;

/* Whatever was asked for is done at once. */
static void pump(member *m)
{
    while (htc_output_count(m->out)) {
        htc_effect all[8];
        uint8_t   *bodies[8];
        size_t     n = htc_output_count(m->out);
        must(n <= 8, "few requests at once");
        for (size_t i = 0; i < n; i++) {
            htc_output_get(m->out, i, &all[i]);
            bodies[i] = malloc(all[i].body.len);
            must(bodies[i] != NULL, "memory");
            memcpy(bodies[i], all[i].body.data, all[i].body.len);
        }
        htc_output_clear(m->out);
        for (size_t i = 0; i < n; i++) {
            htc_input in = { .size = sizeof in, .kind = HTC_IN_RESULT, .now = htc_host_now(), .op = all[i].op, .tag = all[i].tag };
            in.status = htc_disk_dir_do(m->disk, (htc_bytes){ bodies[i], all[i].body.len }, &in.body);
            must(m->cells.ops->step(m->cells.ctx, &in, m->out, &m->ready) == HTC_OK, "step");
            free(bodies[i]);
        }
    }
}

static void member_open(member *m)
{
    htc_error        error;
    htc__log_options o = { .durability = HTC__LOG_SYNC, .segment_bytes = 64 << 10, .ratio = 2, .member = 1, .seed = 2 };
    htc_status       status = htc_disk_dir_open(dir, &m->disk, &error);
    if (status != HTC_OK)
        fprintf(stderr, "%s\n", error.text);
    must(status == HTC_OK, "open");
    m->ready = 0;
    must(htc_output_create(NULL, 0, &m->out) == HTC_OK && htc__log_create(NULL, &o, &m->cells) == HTC_OK, "create");
    htc_input in = { .size = sizeof in, .kind = HTC_IN_START, .now = htc_host_now() };
    must(m->cells.ops->step(m->cells.ctx, &in, m->out, &m->ready) == HTC_OK, "start");
    pump(m);
    must(m->ready, "ready");
}

static void member_close(member *m)
{
    m->cells.ops->destroy(m->cells.ctx);
    htc_output_destroy(m->out);
    htc_disk_dir_close(m->disk);
}

static htc_bytes name(int i, char text[8])
{
    return (htc_bytes){ text, (size_t)snprintf(text, 8, "c%d", i) };
}

static uint64_t counter(member *m, int i)
{
    char      text[8];
    htc_bytes value;
    uint64_t  batch, n = 0;
    if (m->cells.ops->get(m->cells.ctx, name(i, text), &value, &batch) == HTC_OK)
        memcpy(&n, value.data, sizeof n);
    return n;
}

/* Count for ever, several counters a batch; each batch that is stored is one byte for each of its counters in the pipe. */
static void child(int pipe_end, uint64_t seed)
{
    member  m;
    htc_rng rng = { seed };
    char    text[8], padding[300] = { 0 };
    member_open(&m);
    for (;;) {
        uint8_t changed[COUNTERS];
        size_t  n = 1 + htc_rng_below(&rng, 4);
        for (size_t i = 0; i < n; i++) {
            changed[i] = (uint8_t)((htc_rng_below(&rng, COUNTERS / 4) * 4 + i) % COUNTERS);
            uint64_t next = counter(&m, changed[i]) + 1;
            memcpy(padding, &next, sizeof next);
            must(m.cells.ops->put(m.cells.ctx, name(changed[i], text), (htc_bytes){ padding, sizeof padding }) ==
                     HTC_OK,
                 "put");
        }
        must(m.cells.ops->commit(m.cells.ctx, m.out) == HTC_OK, "commit");
        pump(&m);
        must(m.cells.ops->stored(m.cells.ctx) + 1 == m.cells.ops->open(m.cells.ctx), "stored");
        if (write(pipe_end, changed, n) != (ssize_t)n)
            _exit(0);
    }
}

static void kills(int rounds)
{
    uint64_t told[COUNTERS] = { 0 }, checkpoints = 0;
    htc_rng  rng = { 42 };
    for (int round = 0; round < rounds; round++) {
        int     ends[2], status;
        uint8_t bytes[4096];
        ssize_t n;
        must(pipe(ends) == 0, "pipe");
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ends[0]);
            child(ends[1], 1000 + (uint64_t)round);
        }
        close(ends[1]);
        uint64_t until = htc_rng_below(&rng, 600), got = 0;
        for (; got < until && (n = read(ends[0], bytes, 1)) > 0; got++)
            told[bytes[0]]++;
        kill(pid, SIGKILL);
        while ((n = read(ends[0], bytes, sizeof bytes)) > 0)
            for (ssize_t i = 0; i < n; i++)
                told[bytes[i]]++;
        close(ends[0]);
        must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "the child was killed, it did not fail");
        member           m;
        htc__log_figures f;
        member_open(&m);
        htc__log_look(&m.cells, &f);
        checkpoints += f.segments < 4;
        for (int i = 0; i < COUNTERS; i++) {
            uint64_t kept = counter(&m, i);
            /* One more may have been stored and not told. */
            if (kept < told[i] || kept > told[i] + 1) {
                fprintf(stderr, "round %d counter %d: %llu stored, %llu told\n", round, i, (unsigned long long)kept,
                        (unsigned long long)told[i]);
                exit(1);
            }
            told[i] = kept;
        }
        member_close(&m);
    }
    must(checkpoints > 0, "the log was cut short at least once");
    printf("ok - %d kills\n", rounds);
}

static void one_process(void)
{
    htc_disk_dir *a, *b;
    htc_error     error;
    must(htc_disk_dir_open(dir, &a, NULL) == HTC_OK, "open");
    must(htc_disk_dir_open(dir, &b, &error) == HTC_ELOCKED, "a second one is kept out");
    htc_disk_dir_close(a);
    must(htc_disk_dir_open(dir, &a, NULL) == HTC_OK, "open again");
    htc_disk_dir_close(a);
    printf("ok - one process holds the directory\n");
}

static htc_status ask(htc_disk_dir *d, htc_disk_request q, htc_bytes *answer)
{
    static uint8_t body[4096];
    size_t         n = htc_disk_encode(&q, body, sizeof body);
    must(n > 0 && n <= sizeof body, "a request");
    return htc_disk_dir_do(d, (htc_bytes){ body, n }, answer);
}

/* Each request as htcsched/disk.h describes it. */
static void requests(void)
{
    htc_disk_dir *d;
    htc_bytes     a = htc_bytes_of("a"), b = htc_bytes_of("b"), answer;
    htc_disk_file file;
    size_t        at = 0, files = 0;
    must(htc_disk_dir_open(dir, &d, NULL) == HTC_OK, "open");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_CREATE, .name = a, .length = 1000 }, &answer) == HTC_OK, "create");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_CREATE, .name = a, .length = 1 }, &answer) == HTC_EEXISTS,
         "create twice");
    must(ask(d,
             (htc_disk_request){
                 .op = HTC_DISK_WRITE, .sync = 1, .name = a, .offset = 997, .data = htc_bytes_of("xyz") },
             &answer) == HTC_OK,
         "write");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_WRITE, .name = a, .offset = 998, .data = htc_bytes_of("xyz") },
             &answer) == HTC_EINVAL,
         "write beyond");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_SYNC, .name = a }, &answer) == HTC_OK, "sync");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_RENAME, .name = a, .to = b }, &answer) == HTC_OK, "rename");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_READ, .name = a, .length = 1 }, &answer) == HTC_ENOTFOUND,
         "read what is gone");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_READ, .name = b, .offset = 996, .length = 100 }, &answer) == HTC_OK,
         "read");
    must(htc_bytes_equal(answer, (htc_bytes){ "\0xyz", 4 }), "what was written, after zeros, to the end");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_LIST }, &answer) == HTC_OK, "list");
    while (htc_disk_file_next(answer, &at, &file) > 0)
        files += htc_bytes_equal(file.name, b) && file.length == 1000;
    must(files == 1, "the list has it");
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){ 1 << 20, before.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_CREATE, .name = a, .length = 2 << 20 }, &answer) == HTC_ENOSPC,
         "more than there is room for");
    setrlimit(RLIMIT_FSIZE, &before);
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_READ, .name = a, .length = 1 }, &answer) == HTC_ENOTFOUND,
         "nothing of it remains");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_REMOVE, .name = b }, &answer) == HTC_OK, "remove");
    must(ask(d, (htc_disk_request){ .op = HTC_DISK_REMOVE, .name = b }, &answer) == HTC_ENOTFOUND, "remove twice");
    htc_disk_dir_close(d);
    printf("ok - requests\n");
}

typedef struct looked {
    size_t   records, problems;
    char     file[64];
    uint64_t offset;
} looked;

static htc_status look_record(void *ctx, const htc__log_record *r)
{
    looked *l = ctx;
    l->records += r->key.len > 0;
    return HTC_OK;
}

static void look_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    looked *l = ctx;
    must(status != HTC_OK && text[0], "a problem says what");
    l->problems++;
    snprintf(l->file, sizeof l->file, "%s", file);
    l->offset = offset;
}

/* What is found by looking at all of it: nothing in a log that was killed, and one damaged frame in the middle by its place, with all the
 * records of the others. */
static void checks(void)
{
    htc_disk_dir  *d;
    looked         whole = { .records = 0 }, less = { .records = 0 };
    htc__log_sink  sink = { .record = look_record, .problem = look_problem, .ctx = &whole };
    htc__log_found found;
    member         m;
    char           text[8], value[600] = { 0 }, base[sizeof dir];
    snprintf(base, sizeof base, "%s", dir);
    must(snprintf(dir, sizeof dir, "%s/check", base) < (int)sizeof dir, "a short name");
    member_open(&m);
    for (int i = 0; i < 20; i++) {
        must(m.cells.ops->put(m.cells.ctx, name(i % COUNTERS, text), (htc_bytes){ value, sizeof value }) == HTC_OK,
             "put");
        must(m.cells.ops->commit(m.cells.ctx, m.out) == HTC_OK, "commit");
        pump(&m);
    }
    member_close(&m);
    must(htc_disk_dir_open(dir, &d, NULL) == HTC_OK, "open");
    must(htc__log_check(d, &sink, &found) == HTC_OK && whole.problems == 0 && whole.records >= 20, "a whole log");
    /* The head of the frame of the tenth of these: each has two sectors. */
    char file[64];
    snprintf(file, sizeof file, "log-%016llx", (unsigned long long)found.end_segment);
    uint64_t  at = found.end_offset - 11 * 1024;
    htc_bytes answer;
    must(ask(d,
             (htc_disk_request){ .op = HTC_DISK_WRITE,
                                 .sync = 1,
                                 .name = htc_bytes_of(file),
                                 .offset = at + 20,
                                 .data = htc_bytes_of("?") },
             &answer) == HTC_OK,
         "damage");
    sink.ctx = &less;
    must(htc__log_check(d, &sink, &found) == HTC_ECORRUPT && found.damaged == 1, "damage is found");
    must(less.problems == 1 && strcmp(less.file, file) == 0 && less.offset == at, "damage is named");
    must(less.records + 1 == whole.records, "all other records are read");
    htc_disk_dir_close(d);
    snprintf(dir, sizeof dir, "%s", base);
    printf("ok - checks\n");
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char        command[512];
    snprintf(dir, sizeof dir, "%s/kvs_log.XXXXXX", base ? base : "/tmp");
    must(mkdtemp(dir) != NULL, "a directory");
    one_process();
    requests();
    kills(getenv("HTC_TEST_FULL") ? 500 : 25);
    checks();
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : 1;
}
