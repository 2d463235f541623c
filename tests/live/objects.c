/* Objects between processes: each a host, a machine of objects and a directory, over Unix sockets. Two have three objects of 10 MB, one wants
 * them. Those who send and the one who fetches are killed (-9) in the middle, again and again, and come back: it goes on where it was, and in
 * the end every byte is right. Then what a full file system and a spoilt object do. Prints its seed; HTC_TEST_SEED repeats one,
 * HTC_TEST_LIGHT=1 does less. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/client.h"
#include "htcsched/host.h"
#include "net/exec/objects.h"
#include "net/files/files.h"
#include "objects_peer.h"

#define OBJECTS  3
#define HAVE     2 /* processes that have them: workers 2 and 3; the one that wants is worker 1 */
#define SIZE     (10u << 20)
#define PATIENCE (300 * HTC_SECOND)

static char        top[200];
static htc__object object[OBJECTS];
static uint64_t    workers[HAVE] = { 2, 3 };
static pid_t       has[HAVE], wants;

static void end_all(void)
{
    for (int i = 0; i < HAVE; i++)
        if (has[i] > 0)
            kill(has[i], SIGKILL);
    if (wants > 0)
        kill(wants, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list ap;
    fprintf(stderr, "FAILED: ");
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, " (in %s)\n", top);
    end_all();
    exit(1);
}

/* ---- one process ---- */

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    (void)host;
    return htc__objects_host_is_call(op) ? htc__objects_host_call(ctx, op, tag, body) : HTC_EUNSUPPORTED;
}

/* Worker `self`; one that wants ends when it has all (0), and says the status of what it has not (100 minus it). */
static int be(uint64_t self, uint32_t n_wants, const char *dir)
{
    char               path[300];
    htc_host          *host = NULL;
    htc__objects_host *objects = NULL;
    htc_error          error = { 0 };
    htc_rng            rng = { (uint64_t)getpid() << 20 ^ htc_host_now() };
    htc_env            env = { .size = sizeof env, .rng = &rng };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (htc_host_create(&env, NULL, &host) != HTC_OK || htc__objects_host_open(host, dir, top, 0, &objects, &error) != HTC_OK)
        return 2;
    htc_host_on_call(host, on_call, objects);
    objects_peer *p = objects_peer_create(&env, self, (htc__objects_options){ .patience_ns = 20 * HTC_SECOND });
    if (!p)
        return 3;
    snprintf(path, sizeof path, "%s/%u.sock", top, (unsigned)self);
    htc_status status = htc_host_listen_unix(host, path, 0600, 0, &error);
    for (uint32_t i = 0; n_wants && i < HAVE && status == HTC_OK; i++) {
        snprintf(path, sizeof path, "%s/%u.sock", top, (unsigned)workers[i]);
        p->to[i].worker = workers[i];
        status = htc_host_dial_unix(host, path, 0, &p->to[i].peer, &error);
        p->n_to++;
    }
    p->want = object;
    p->n_wants = n_wants;
    p->ends = n_wants > 0;
    if (status == HTC_OK)
        status = htc_host_run(host, &objects_peer_ops, p);
    htc_host_destroy(host);
    htc__objects_host_close(objects);
    objects_peer_ops.destroy(p);
    return status == HTC_OK ? 0 : 100 - (int)status;
}

static pid_t start(uint64_t self, uint32_t n_wants, const char *name)
{
    char dir[300];
    snprintf(dir, sizeof dir, "%s/%s", top, name);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(be(self, n_wants, dir));
    if (pid < 0)
        fail("fork");
    return pid;
}

static void start_having(int i)
{
    char name[16];
    snprintf(name, sizeof name, "has%d", i);
    has[i] = start(workers[i], 0, name);
}

static void kill_one(pid_t *pid)
{
    kill(*pid, SIGKILL);
    if (waitpid(*pid, NULL, 0) != *pid)
        fail("waiting for a process that was killed");
    *pid = 0;
}

/* ---- files ---- */

static void path_of(char path[500], const char *name, int i, const char *end)
{
    char hex[65];
    htc_content_hex(object[i].hash, hex);
    snprintf(path, 500, "%s/%s/%u/%s%s", top, name, (unsigned)geteuid(), hex, end);
}

static uint8_t *bytes_of(int i)
{
    uint8_t *bytes = malloc(SIZE);
    htc_rng  rng = { (uint64_t)i + 1 };
    for (size_t k = 0; bytes && k < SIZE; k += 8) {
        uint64_t v = htc_rng_next(&rng);
        memcpy(bytes + k, &v, 8);
    }
    if (!bytes)
        fail("memory");
    return bytes;
}

static void write_object(const char *name, int i, const uint8_t *bytes)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s/%u", top, name, (unsigned)geteuid());
    htc__make_dirs(path);
    path_of(path, name, i, "");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || htc__write_all(fd, bytes, SIZE) != 0 || close(fd) != 0)
        fail("writing %s", path);
}

static void make_objects(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        uint8_t *bytes = bytes_of(i);
        htc_content_hash((htc_bytes){ bytes, SIZE }, object[i].hash);
        object[i] = (htc__object){ .size = SIZE, .workers = workers, .n_workers = HAVE };
        htc_content_hash((htc_bytes){ bytes, SIZE }, object[i].hash);
        write_object("has0", i, bytes);
        write_object("has1", i, bytes);
        free(bytes);
    }
}

static uint64_t bytes_there(const char *name)
{
    uint64_t    n = 0;
    char        path[500];
    struct stat st;
    for (int i = 0; i < OBJECTS; i++) {
        path_of(path, name, i, "");
        int there = stat(path, &st) == 0;
        if (!there) {
            path_of(path, name, i, ".part");
            there = stat(path, &st) == 0;
        }
        n += there ? (uint64_t)st.st_size : 0;
    }
    return n;
}

static void check_bytes(const char *name)
{
    char path[500];
    for (int i = 0; i < OBJECTS; i++) {
        uint8_t *is = malloc(SIZE + 1), *should = bytes_of(i);
        path_of(path, name, i, "");
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (!is || fd < 0 || read(fd, is, SIZE + 1) != SIZE || memcmp(is, should, SIZE) != 0)
            fail("%s is not what it should be", path);
        close(fd);
        free(is);
        free(should);
    }
}

/* 0: it still runs; 1: it has ended, how is in *code. */
static int has_ended(int *code)
{
    int   status;
    pid_t pid = waitpid(wants, &status, WNOHANG);
    if (pid == 0)
        return 0;
    if (pid != wants || !WIFEXITED(status))
        fail("the one that fetches has ended with %d", status);
    wants = 0;
    *code = WEXITSTATUS(status);
    return 1;
}

static int wait_for_it(void)
{
    int    code;
    htc_ns begun = htc_host_now();
    while (!has_ended(&code)) {
        if (htc_host_now() > begun + PATIENCE)
            fail("it takes too long");
        usleep(1000);
    }
    return code;
}

/* ---- what is tried ---- */

static void killed_in_the_middle(htc_rng *rng, int light)
{
    uint32_t kills[2] = { 0 }, most = light ? 4 : 12;
    int      code;
    uint64_t next = 1, seen = 0;
    htc_ns   begun = htc_host_now();
    wants = start(1, OBJECTS, "wants");
    while (!has_ended(&code)) {
        uint64_t there = bytes_there("wants");
        if (htc_host_now() > begun + PATIENCE)
            fail("it takes too long: %llu bytes are there", (unsigned long long)there);
        if (there < seen) /* one was renamed between two looks, or it has begun anew */
            there = bytes_there("wants");
        if (there < seen)
            fail("%llu bytes were there, and now %llu are", (unsigned long long)seen, (unsigned long long)there);
        seen = there;
        if (there < next || kills[0] + kills[1] >= most)
            continue;
        next = there + htc_rng_below(rng, 4u << 20); /* so many bytes later once more */
        if (htc_rng_below(rng, 2)) {
            int i = (int)htc_rng_below(rng, HAVE);
            kill_one(&has[i]);
            start_having(i);
            kills[0]++;
        } else {
            if (has_ended(&code))
                break;
            kill_one(&wants);
            wants = start(1, OBJECTS, "wants");
            kills[1]++;
        }
    }
    if (code != 0)
        fail("fetching has ended with %d", code);
    check_bytes("wants");
    printf("%u kills of who sends, %u of who fetches; what was there was never fetched again\n", kills[0], kills[1]);
}

/* Both have another content under that name: it is lost, and what is wrong is not kept. */
static void spoilt(void)
{
    char     path[500];
    uint8_t *bytes = bytes_of(OBJECTS);
    for (int i = 0; i < HAVE; i++)
        kill_one(&has[i]);
    write_object("has0", 0, bytes);
    write_object("has1", 0, bytes);
    free(bytes);
    for (int i = 0; i < HAVE; i++)
        start_having(i);
    wants = start(1, OBJECTS, "spoilt");
    int code = wait_for_it();
    if (code != 100 - HTC_ELOST)
        fail("a spoilt object ends with %d", code);
    path_of(path, "spoilt", 0, "");
    if (access(path, F_OK) == 0)
        fail("a spoilt object is kept");
    path_of(path, "spoilt", 1, "");
    if (access(path, F_OK) != 0)
        fail("with a spoilt object the others are lost");
}

/* Room for one of three: they come one after the other, each in the place of the one before. On a disk with room for none it is told. */
static void full_disk(const char *size, int code_wanted, uint64_t wanted)
{
    char dir[300], how[60];
    snprintf(dir, sizeof dir, "%s/small", top);
    snprintf(how, sizeof how, "size=%s,mode=755", size);
    htc__make_dirs(dir);
    if (mount("none", dir, "tmpfs", 0, how) != 0) {
        printf("a full disk is not tried: a small one cannot be mounted here\n");
        return;
    }
    wants = start(1, OBJECTS, "small");
    int      code = wait_for_it();
    uint64_t there = bytes_there("small");
    if (umount(dir) != 0)
        fail("unmounting %s", dir);
    if (code != code_wanted || there != wanted)
        fail("a disk of %s ends with %d, and %llu bytes are there", size, code, (unsigned long long)there);
}

int main(void)
{
    int         light = getenv("HTC_TEST_LIGHT") != NULL;
    const char *given = getenv("HTC_TEST_SEED");
    htc_rng     rng = { given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32 };
    printf("seed %llu\n", (unsigned long long)rng.state);
    strcpy(top, "/tmp/htc-objects-XXXXXX");
    if (!mkdtemp(top))
        fail("a directory");
    make_objects();
    for (int i = 0; i < HAVE; i++)
        start_having(i);
    killed_in_the_middle(&rng, light);
    full_disk("15m", 0, SIZE);
    full_disk("5m", 100 - HTC_ENOSPC, 0);
    spoilt();
    end_all();
    htc__remove_tree(top);
    printf("ok\n");
    return 0;
}
