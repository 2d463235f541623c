/* Group commit of the log on real files, 1, 16, 64 and 256 records of 16 + 152 bytes a sync, beside the floor of the same minutes: a
 * write of the same bytes to a preallocated file and a sync, nothing else. The ratio counts: the disk of another minute is another. CPU is
 * this thread's, the kernel's part of it included; "table and frame" is what of it is ours, measured without a disk.
 *
 * In the directory TMPDIR, else the present one. */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"
#include "htcsched/disk_host.h"
#include "kvs/storage/log.h"

enum { KEY = 16, VALUE = 152, RECORDS = 100000 };

typedef struct member {
    htc_disk_dir *disk; /* NULL: every request succeeds at once */
    htc__cells    cells;
    htc_output   *out;
    int           ready;
    uint8_t      *body;
    uint64_t      bytes; /* written in all */
} member;

static void pump(member *m)
{
    while (htc_output_count(m->out)) {
        struct {
            uint32_t op;
            uint64_t tag;
            size_t   at, len;
        } all[8];
        size_t n = htc_output_count(m->out), used = 0;
        bench_must(n <= 8, "few requests");
        for (size_t i = 0; i < n; i++) {
            htc_effect e;
            htc_output_get(m->out, i, &e);
            all[i].op = e.op;
            all[i].tag = e.tag;
            all[i].at = used;
            all[i].len = e.body.len;
            memcpy(m->body + used, e.body.data, e.body.len);
            used += e.body.len;
        }
        htc_output_clear(m->out);
        for (size_t i = 0; i < n; i++) {
            htc_input in = { .size = sizeof in, .kind = HTC_IN_RESULT, .now = htc_host_now(), .op = all[i].op, .tag = all[i].tag };
            htc_bytes body = { m->body + all[i].at, all[i].len };
            if (m->disk)
                in.status = htc_disk_dir_do(m->disk, body, &in.body);
            else if (in.op == HTC_DISK_READ)
                in.status = HTC_ENOTFOUND;
            if (in.op == HTC_DISK_WRITE)
                m->bytes += body.len;
            bench_must(m->cells.ops->step(m->cells.ctx, &in, m->out, &m->ready) == HTC_OK, "step");
        }
    }
}

static void open_member(member *m, const char *dir)
{
    htc__log_options o = { .durability = HTC__LOG_SYNC, .member = 1, .seed = 2 };
    memset(m, 0, sizeof *m);
    if (dir)
        bench_must(htc_disk_dir_open(dir, &m->disk, NULL) == HTC_OK, "open");
    m->body = malloc((size_t)16 << 20);
    bench_must(m->body && htc_output_create(NULL, 0, &m->out) == HTC_OK &&
                   htc__log_create(NULL, &o, &m->cells) == HTC_OK,
               "create");
    htc_input in = { .size = sizeof in, .kind = HTC_IN_START, .now = htc_host_now() };
    bench_must(m->cells.ops->step(m->cells.ctx, &in, m->out, &m->ready) == HTC_OK, "start");
    pump(m);
    bench_must(m->ready, "ready");
}

static void close_member(member *m)
{
    m->cells.ops->destroy(m->cells.ctx);
    htc_output_destroy(m->out);
    htc_disk_dir_close(m->disk);
    free(m->body);
}

typedef struct cost {
    double seconds, cpu;
} cost;

static cost commits(member *m, size_t together, size_t n, htc_rng *rng)
{
    uint64_t key[2];
    char     value[VALUE] = { 0 };
    cost     c = { bench_seconds(), bench_cpu_seconds() };
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < together; j++) {
            key[0] = key[1] = htc_rng_below(rng, RECORDS) * UINT64_C(0x9e3779b97f4a7c15);
            value[0] = (char)i;
            bench_must(m->cells.ops->put(m->cells.ctx, (htc_bytes){ key, KEY }, (htc_bytes){ value, VALUE }) == HTC_OK,
                       "put");
        }
        bench_must(m->cells.ops->commit(m->cells.ctx, m->out) == HTC_OK, "commit");
        pump(m);
    }
    return (cost){ bench_seconds() - c.seconds, bench_cpu_seconds() - c.cpu };
}

static cost floor_of(int fd, size_t bytes, size_t n, uint64_t length)
{
    static char data[1 << 20];
    cost        c = { bench_seconds(), bench_cpu_seconds() };
    uint64_t    at = 0;
    for (size_t i = 0; i<n; i++, at = at + 2 * bytes> length ? 0 : at + bytes) {
        data[0] = (char)i;
        bench_must(pwrite(fd, data, bytes, (off_t)at) == (ssize_t)bytes && fdatasync(fd) == 0, "raw write");
    }
    return (cost){ bench_seconds() - c.seconds, bench_cpu_seconds() - c.cpu };
}

static int raw_file(const char *dir, uint64_t length)
{
    static const char zeros[1 << 20];
    char              path[600];
    snprintf(path, sizeof path, "%s/raw", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bench_must(fd >= 0 && posix_fallocate(fd, 0, (off_t)length) == 0, "raw file");
    for (uint64_t at = 0; at < length; at += sizeof zeros)
        bench_must(pwrite(fd, zeros, sizeof zeros, (off_t)at) == (ssize_t)sizeof zeros, "raw file");
    bench_must(fsync(fd) == 0, "raw file");
    return fd;
}

int main(int argc, char **argv)
{
    static const size_t together[] = { 1, 16, 64, 256 };
    const uint64_t      length = (uint64_t)64 << 20;
    bench               b = bench_open("log", argc, argv);
    const char         *base = getenv("TMPDIR");
    char                dir[512], store[600], command[700];
    member              m, none;
    htc_rng             rng = { 1 };
    snprintf(dir, sizeof dir, "%s/bench_log.XXXXXX", base ? base : ".");
    bench_must(mkdtemp(dir) != NULL, "directory");
    snprintf(store, sizeof store, "%s/store", dir);
    int fd = raw_file(dir, length);
    open_member(&m, store);
    open_member(&none, NULL);
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        enum { ROUNDS = 7 };
        size_t size = together[i], bytes = (64 + size * (18 + KEY + VALUE) + 511) / 512 * 512, n = (b.quick ? 60 : 400);
        double ratio[ROUNDS], rate[ROUNDS], cpu[ROUNDS], raw_cpu[ROUNDS], ours[ROUNDS];
        for (int r = 0; r < ROUNDS; r++) {
            cost   raw = floor_of(fd, bytes, n, length), log = commits(&m, size, n, &rng);
            cost   table = commits(&none, size, n, &rng);
            double records = (double)(n * size);
            ratio[r] = raw.seconds / log.seconds;
            rate[r] = records / log.seconds;
            cpu[r] = 1e9 * log.cpu / records;
            raw_cpu[r] = 1e9 * raw.cpu / records;
            ours[r] = 1e9 * table.cpu / records;
        }
        const bench_figure rows[] = {
            { "records a second", size, "1/s", bench_median(rate, ROUNDS), 0, 1 },
            { "of what the file allows", size, "1", bench_median(ratio, ROUNDS), 0, 1 },
            { "CPU a record", size, "ns", bench_median(cpu, ROUNDS), 0, 0 },
            { "CPU a record, the file alone", size, "ns", bench_median(raw_cpu, ROUNDS), 0, 0 },
            { "CPU a record, table and frame", size, "ns", bench_median(ours, ROUNDS), 0, 0 },
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            bench_row(&b, &rows[r]);
    }
    close_member(&m);
    close_member(&none);
    close(fd);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) != 0 || bench_close(&b);
}
