/* The gateway's host with real files and processes: agents (here a shell script that sleeps), uploads, stored outputs, live
 * logs, passwords. The machine is a list of calls; each answer is kept, and the next call is made. */
#include "expect.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/client.h"
#include "htcsched/gateway_host.h"
#include "net/files/files.h"
#include "roles/runtime/apart.h"
#include "htcsched/calls.h"
#include "net/gateway/gateway_private.h"
#include "roles/runtime/agent_wire.h"

#define CALLS_MAX 640

typedef struct play play;

struct play {
    char       dir[128], agent[200];
    htc_buf    bodies[CALLS_MAX];
    uint32_t   ops[CALLS_MAX], count, next, answered;
    void (*acts[CALLS_MAX])(play *p); /* instead of a call */
    int        at_once; /* all calls in the first step */
    uint32_t   wait_events;
    uint64_t   uploads_max;
    htc_gateway_host *host;
    htc_status status[CALLS_MAX];
    char       text[CALLS_MAX][300];
    size_t     len[CALLS_MAX];
    /* events */
    uint32_t   exits, stops, exit_pid;
    char       exit_how[64];
};

static htc_buf *add(play *p, uint32_t op)
{
    htc_buf *b = &p->bodies[p->count];
    htc_buf_init(b, NULL, 0);
    p->ops[p->count++] = op;
    return b;
}

static void act(play *p, void (*what)(play *p))
{
    p->acts[p->count] = what;
    add(p, 0);
}

static uint32_t pid_of(htc_bytes handle)
{
    htc_reader r = htc_reader_of(handle);
    return htc_get_u32(&r);
}

static int answered(uint32_t op)
{
    return op != HTC_CALL_KILL_AGENT && op != HTC_CALL_DROP_OUTPUT && op != HTC_CALL_JOB_PLACE;
}

/* So much time passes for uploads. */
static void let_pass(htc_gateway_host *g, htc_ns span)
{
    pthread_mutex_lock(&g->blobs);
    for (htc__upload *u = g->uploads; u; u = u->next)
        u->at -= span;
    for (htc__stored *s = g->stored; s; s = s->next)
        s->counted -= span;
    pthread_mutex_unlock(&g->blobs);
}

static void go_on(play *p, htc_output *out)
{
    while (p->next < p->count && (p->at_once || p->answered == p->next)) {
        uint32_t i = p->next++;
        if (p->acts[i]) {
            p->acts[i](p);
            p->answered++;
            continue;
        }
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = p->ops[i], .tag = i, .body = htc_buf_bytes(&p->bodies[i]) });
        if (!answered(p->ops[i]))
            p->answered++;
    }
    if (p->answered == p->count && p->exits + p->stops >= p->wait_events)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    play      *p = self;
    htc_reader r = htc_reader_of(in->body);
    if (in->kind == HTC_IN_RESULT) {
        p->status[in->tag] = in->status;
        p->len[in->tag] = in->body.len;
        memcpy(p->text[in->tag], in->body.len ? in->body.data : "", in->body.len < 299 ? in->body.len : 299);
        p->answered++;
    } else if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_AGENT_EXIT) {
        p->exits++;
        htc_get_u64(&r);
        p->exit_pid = pid_of(htc_get_bytes(&r));
        htc_get_str(&r, p->exit_how, sizeof p->exit_how);
        cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
    } else if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_AGENT_STOPPED) {
        p->stops++;
    }
    go_on(p, out);
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static const htc_machine_ops ops = { sizeof ops, step, never, NULL, 0 };

static void play_open(play *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "/tmp/htc-test-gw-XXXXXX");
    cr_assert(mkdtemp(p->dir) != NULL);
    snprintf(p->agent, sizeof p->agent, "%s/agent program", p->dir);
}

static void script(play *p, const char *text)
{
    int fd = open(p->agent, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void play_run(play *p)
{
    static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
    htc_gateway_host_options o = { .size = sizeof o, .state_dir = p->dir, .agent_path = p->agent, .environ = env,
                                   .blob_bytes_max = 1 << 20, .durable = 1, .uploads_max = p->uploads_max };
    htc_gateway_host *g;
    htc_host         *h;
    htc_error         e = { 0 };
    cr_assert(eq(int, htc_host_create(NULL, NULL, &h), HTC_OK));
    cr_assert(eq(int, htc_gateway_host_create(NULL, h, &o, &g, &e), HTC_OK), "%s", e.text);
    p->host = g;
    cr_expect(eq(int, htc_host_run(h, &ops, p), HTC_OK));
    htc_host_destroy(h);
    htc_gateway_host_destroy(g);
    for (uint32_t i = 0; i < p->count; i++)
        htc_buf_free(&p->bodies[i]);
}

static uint32_t get_pid(const play *p, uint32_t i)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->text[i], p->len[i] });
    uint32_t   pid = pid_of(htc_get_bytes(&r));
    char       name[64], want[64];
    htc_get_str(&r, name, sizeof name);
    snprintf(want, sizeof want, "process %u", pid);
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK) && eq(str, name, want));
    return pid;
}

static void put_handle(htc_buf *b, pid_t pid)
{
    htc_put_varint(b, 4);
    htc_put_u32(b, (uint32_t)pid);
}

static void launch(play *p, uint64_t agent)
{
    htc_buf *b = add(p, HTC_CALL_LAUNCH);
    htc_put_str(b, "local");
    htc_put_u64(b, agent);
    htc_put_u32(b, 3);
    htc_put_str(b, "ada");
    htc_put_u8(b, HTC_PLACE_OWNER);
    htc_put_u32(b, HTC_NO_UID);
    htc_put_u32(b, HTC_NO_UID);
    if (agent == 42) /* else one */
        htc_put_u32(b, 9);
}

Test(gateway_host, an_agent_gets_its_arguments_and_its_end_is_told)
{
    play p;
    char path[200], text[1000], want[400];
    play_open(&p);
    script(&p, "#!/bin/sh\necho \"$@\"\nread -r a b c d e sid rest < /proc/$$/stat\necho $sid\nexit 7\n");
    launch(&p, 42);
    p.wait_events = 1;
    play_run(&p);
    cr_assert(eq(int, p.status[0], HTC_OK), "%s", p.text[0]);
    cr_expect(eq(u32, p.exit_pid, get_pid(&p, 0)));
    cr_expect(eq(str, p.exit_how, "exit code 7"));
    snprintf(path, sizeof path, "%s/log/agent-local.3.out", p.dir);
    cr_assert(htc__read_text(path, text, sizeof text) > 0);
    snprintf(want, sizeof want, "--dir %s --agent 42 --slot 3 --slots 9 --user ada --site local\n", p.dir);
    cr_expect(strncmp(text, want, strlen(want)) == 0, "%s", text);
    cr_expect(eq(u32, (uint32_t)atoi(text + strlen(want)), get_pid(&p, 0)), "a session of its own");
    htc__remove_tree(p.dir);
}

Test(gateway_host, a_missing_agent_program_is_told)
{
    play p;
    play_open(&p);
    launch(&p, 42);
    play_run(&p);
    cr_expect(eq(int, p.status[0], HTC_ENOEXEC));
    cr_expect(strstr(p.text[0], p.agent) != NULL, "%s", p.text[0]);
    htc__remove_tree(p.dir);
}

/* A process is killed and watched only if it is the agent of that number: here first with a wrong number, then right. */
Test(gateway_host, only_agents_are_killed_and_watched)
{
    play     p;
    htc_buf *b;
    play_open(&p);
    script(&p, "#!/bin/sh\nexec sh -c 'while :; do sleep 1; done' agent \"$@\"\n");
    launch(&p, 42);
    play_run(&p);
    cr_assert(eq(int, p.status[0], HTC_OK));
    pid_t pid = (pid_t)get_pid(&p, 0);
    cr_expect(eq(int, kill(pid, 0), 0), "the agent outlives its gateway");
    /* Stopped for good before anybody looks: in the middle of an exec a process has no arguments to be known by. */
    int stopped;
    kill(pid, SIGSTOP);
    cr_assert(waitpid(pid, &stopped, WUNTRACED) == pid && WIFSTOPPED(stopped));
    /* the next gateway */
    p.count = p.next = p.answered = 0;
    b = add(&p, HTC_CALL_KILL_AGENT);
    htc_put_u64(b, 41);
    put_handle(b, pid);
    b = add(&p, HTC_CALL_WATCH_AGENT);
    htc_put_u64(b, 41);
    put_handle(b, pid);
    htc_put_u32(b, 0);
    b = add(&p, HTC_CALL_WATCH_AGENT);
    htc_put_u64(b, 42);
    put_handle(b, pid);
    htc_put_u32(b, 0);
    p.wait_events = 1; /* 42 is stopped */
    play_run(&p);
    cr_expect(eq(u32, p.exits, 0));
    cr_expect(eq(int, p.status[1], HTC_ENOTFOUND) && eq(int, p.status[2], HTC_OK));
    cr_expect(eq(u32, get_pid(&p, 2), (uint32_t)pid));
    cr_expect(eq(u32, p.stops, 1));
    cr_assert(waitpid(pid, NULL, WNOHANG) == 0, "a process that is not agent 41 was killed");
    p.count = p.next = p.answered = p.exits = p.stops = 0;
    b = add(&p, HTC_CALL_WATCH_AGENT); /* as by whoever does not know its handle */
    htc_put_u64(b, 42);
    htc_put_bytes(b, htc_bytes_of(""));
    htc_put_u32(b, (uint32_t)pid);
    b = add(&p, HTC_CALL_KILL_AGENT);
    htc_put_u64(b, 42);
    put_handle(b, pid);
    p.wait_events = 1;
    play_run(&p);
    cr_expect(eq(str, p.exit_how, "signal 9"));
    htc__remove_tree(p.dir);
}

static void piece_of(play *p, const char *user, const uint8_t hash[32], uint64_t size, uint64_t at, const char *text)
{
    htc_buf *b = add(p, HTC_CALL_BLOB_WRITE);
    htc_put_str(b, user);
    htc_put_raw(b, (htc_bytes){ hash, 32 });
    htc_put_u64(b, size);
    htc_put_u64(b, at);
    htc_put_str(b, text);
}

static void piece(play *p, const uint8_t hash[32], uint64_t size, uint64_t at, const char *text)
{
    piece_of(p, "ann", hash, size, at, text);
}

Test(gateway_host, uploads_are_kept_only_with_their_hash)
{
    play    p;
    uint8_t hash[32];
    char    hex[65], path[300], text[100];
    play_open(&p);
    htc_content_hash(htc_bytes_of("hello world"), hash);
    htc_content_hex(hash, hex);
    htc_buf *b = add(&p, HTC_CALL_BLOB_STAT);
    htc_put_str(b, "ann");
    htc_put_raw(b, (htc_bytes){ hash, 32 });
    piece(&p, hash, 11, 6, "world"); /* out of turn */
    piece(&p, hash, 11, 0, "hello ");
    piece(&p, hash, 11, 6, "w0rld"); /* damaged: all of it is forgotten */
    piece(&p, hash, 11, 0, "hello ");
    piece(&p, hash, 11, 0, "hello "); /* said twice */
    piece(&p, hash, 11, 6, "world");
    piece(&p, hash, 11, 6, "world"); /* said twice, after its end */
    b = add(&p, HTC_CALL_BLOB_STAT);
    htc_put_str(b, "ann");
    htc_put_raw(b, (htc_bytes){ hash, 32 });
    piece(&p, hash, 5, 3, "world");
    piece(&p, hash, (1 << 20) + 1, 0, "x");
    htc_put_u8(add(&p, HTC_CALL_BLOB_WRITE), 1);
    play_run(&p);
    static const htc_status want[] = { HTC_ENOTFOUND, HTC_EINPUT, HTC_OK, HTC_EINPUT, HTC_OK, HTC_OK, HTC_OK, HTC_OK,
                                       HTC_OK, HTC_EINPUT, HTC_ETOOBIG, HTC_EPROTO };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(eq(int, p.status[i], want[i]), "call %zu: %s", i, p.text[i]);
    snprintf(path, sizeof path, "%s/data/blobs/ann/%s", p.dir, hex);
    cr_assert(htc__read_text(path, text, sizeof text) == 11);
    cr_expect(eq(str, text, "hello world"));
    htc__remove_tree(p.dir);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    cr_assert(eq(int, htc__make_dirs(dir), 0));
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void age(const char *dir, const char *hex, time_t seconds)
{
    char            path[400];
    struct timespec times[2] = { { .tv_sec = time(NULL) - seconds }, { .tv_sec = time(NULL) - seconds } };
    snprintf(path, sizeof path, "%s/data/blobs/ann/%s", dir, hex);
    cr_assert(eq(int, utimensat(AT_FDCWD, path, times, 0), 0));
}

static int is_there(const char *dir, const char *hex)
{
    char path[400];
    snprintf(path, sizeof path, "%s/data/blobs/ann/%s", dir, hex);
    return access(path, F_OK) == 0;
}

/* Three uploads, all of them old: one is named by a job, one was just asked for, one is neither. */
Test(gateway_host, sweeps_uploads_that_are_neither_named_nor_asked_for)
{
    static const char *const texts[] = { "named", "asked", "other" };
    play                     p;
    uint8_t                  hash[3][32];
    char                     hex[3][65], path[300];
    play_open(&p);
    for (int i = 0; i < 3; i++) {
        htc_content_hash(htc_bytes_of(texts[i]), hash[i]);
        htc_content_hex(hash[i], hex[i]);
        piece(&p, hash[i], 5, 0, texts[i]);
    }
    play_run(&p);
    for (int i = 0; i < 3; i++)
        age(p.dir, hex[i], 1000);
    p.count = p.next = p.answered = 0;
    htc_buf *b = add(&p, HTC_CALL_BLOB_STAT);
    htc_put_str(b, "ann");
    htc_put_raw(b, (htc_bytes){ hash[1], 32 });
    b = add(&p, HTC_CALL_CONTENT_SWEEP);
    htc_put_u64(b, 500 * HTC_SECOND);
    htc_put_raw(b, (htc_bytes){ hash[0], 32 });
    b = add(&p, HTC_CALL_DISK_USE);
    htc_put_u64(b, 7);
    htc_put_str(b, "ann");
    htc_put_raw(b, (htc_bytes){ hash[0], 32 });
    htc_put_raw(b, (htc_bytes){ hash[2], 32 });
    snprintf(path, sizeof path, "%s/data/out/7/0", p.dir);
    put_file(path, "result", "123456789");
    play_run(&p);
    cr_expect(is_there(p.dir, hex[0]));
    cr_expect(is_there(p.dir, hex[1]));
    cr_expect(!is_there(p.dir, hex[2]));
    htc_reader r = htc_reader_of((htc_bytes){ p.text[1], p.len[1] });
    cr_expect(eq(u64, htc_get_u64(&r), 1));
    cr_expect(eq(u64, htc_get_u64(&r), 5));
    r = htc_reader_of((htc_bytes){ p.text[2], p.len[2] });
    cr_expect(eq(u64, htc_get_u64(&r), 9), "the outputs of job 7");
    cr_expect(eq(u64, htc_get_u64(&r), 1));
    cr_expect(eq(sz, htc_reader_left(&r), 40), "one of the two is there");
    htc__remove_tree(p.dir);
}

/* Killed while it swept, a gateway has left an upload without its name; and agents have noted what they have read. */
Test(gateway_host, what_a_sweep_has_left_is_found_at_a_start_and_notes_go_with_what_they_are_of)
{
    play    p;
    uint8_t hash[2][32];
    char    hex[2][65], path[300], to[400], name[80];
    play_open(&p);
    for (int i = 0; i < 2; i++) {
        htc_content_hash(htc_bytes_of(i ? "aside" : "named"), hash[i]);
        htc_content_hex(hash[i], hex[i]);
        piece(&p, hash[i], 5, 0, i ? "aside" : "named");
        snprintf(path, sizeof path, "%s/data/seen", p.dir);
        put_file(path, hex[i], "note");
    }
    play_run(&p);
    age(p.dir, hex[1], 1000);
    for (int i = 0; i < 2; i++) { /* of one both names are there */
        snprintf(path, sizeof path, "%s/data/blobs/ann/%s", p.dir, hex[i]);
        snprintf(to, sizeof to, "%s/data/blobs/ann/.%s.old", p.dir, hex[i]);
        cr_assert(eq(int, i ? rename(path, to) : link(path, to), 0));
    }
    p.count = p.next = p.answered = 0;
    htc_put_u8(add(&p, HTC_CALL_CONTENT_ADOPT), HTC_ADOPT_COUNT);
    play_run(&p);
    cr_expect(eq(int, p.status[0], HTC_OK));
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, ".%.64s.old", hex[i]);
        cr_expect(is_there(p.dir, hex[i]) && !is_there(p.dir, name), "%d", i);
    }
    p.count = p.next = p.answered = 0;
    htc_buf *b = add(&p, HTC_CALL_CONTENT_SWEEP);
    htc_put_u64(b, 500 * HTC_SECOND);
    htc_put_raw(b, (htc_bytes){ hash[0], 32 });
    play_run(&p);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/data/seen/%s", p.dir, hex[i]);
        cr_expect(is_there(p.dir, hex[i]) == !i && (access(path, F_OK) == 0) == !i, "%d", i);
    }
    htc__remove_tree(p.dir);
}

/* 12 bytes are all that unfinished uploads of one may come to; what is announced is what counts. */
Test(gateway_host, bounds_what_unfinished_uploads_may_take)
{
    play    p;
    uint8_t hash[3][32];
    play_open(&p);
    p.uploads_max = 24;
    for (uint8_t i = 0; i < 3; i++)
        memset(hash[i], i + 1, 32);
    htc_content_hash(htc_bytes_of("abcd"), hash[2]);
    piece(&p, hash[0], 6, 0, "ab");
    piece(&p, hash[1], 8, 0, "ab"); /* no room beside the first */
    piece(&p, hash[2], 4, 0, "ab");
    piece(&p, hash[2], 4, 2, "cd"); /* complete: its room is free */
    piece(&p, hash[0], 6, 0, "ab"); /* begun anew, in its own room */
    piece(&p, hash[1], 4, 0, "ab");
    piece(&p, hash[2], 13, 0, "ab"); /* there already */
    piece(&p, hash[0], 6, 2, "cdef"); /* not what was announced: forgotten */
    piece(&p, hash[0], 6, 2, "cdef");
    memset(hash[2], 9, 32);
    piece(&p, hash[2], 13, 0, "ab");
    piece(&p, hash[1], 1 << 20, 2, "cd"); /* begun as one of 4 bytes */
    play_run(&p);
    static const htc_status want[] = { HTC_OK, HTC_EBUSY, HTC_OK, HTC_OK, HTC_OK, HTC_OK, HTC_OK, HTC_EINPUT, HTC_EINPUT, HTC_ETOOBIG, HTC_EINPUT };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(eq(int, p.status[i], want[i]), "call %zu: %s", i, p.text[i]);
    htc__remove_tree(p.dir);
}

/* A user's unfinished uploads take no more than they leave free, in bytes and in places: who holds all that one may leaves others room, and so
 * do several who do. */
Test(gateway_host, unfinished_uploads_of_one_leave_room_for_others)
{
    play                    p;
    uint8_t                 hash[32] = { 0 };
    static const char *const users[] = { "mal", "mallory", "ann", "ann", "mal", "bob" };
    static const uint64_t    sizes[] = { 50, 25, 12, 1, 1, 6 };
    static const htc_status  want[] = { HTC_OK, HTC_OK, HTC_OK, HTC_EBUSY, HTC_EBUSY, HTC_OK };
    play_open(&p);
    p.uploads_max = 100;
    for (uint8_t i = 0; i < 6; i++) {
        hash[0] = i;
        piece_of(&p, users[i], hash, sizes[i], 0, "-");
    }
    play_run(&p);
    for (size_t i = 0; i < 6; i++)
        cr_expect(eq(int, p.status[i], want[i]), "call %zu: %s", i, p.text[i]);
    cr_expect(strstr(p.text[4], "those of mal hold 50 bytes in 1 upload ") && !strstr(p.text[4], "100"), "%s: nothing of others", p.text[4]);
    htc__remove_tree(p.dir);
}

Test(gateway_host, unfinished_uploads_of_one_leave_places_for_others)
{
    play    p;
    uint8_t hash[32] = { 0 };
    play_open(&p);
    for (uint32_t i = 0; i < 515; i++) { /* of 1,024 */
        hash[0] = (uint8_t)i, hash[1] = (uint8_t)(i >> 8);
        piece_of(&p, i == 513 ? "ann" : "mal", hash, 1000, 0, "-");
    }
    play_run(&p);
    for (uint32_t i = 0; i < 515; i++)
        cr_expect(eq(int, p.status[i], i == 512 || i == 514 ? HTC_EBUSY : HTC_OK), "call %u: %s", i, p.text[i]);
    htc__remove_tree(p.dir);
}

static void piece_of_quota(play *p, const uint8_t hash[32], uint64_t size, uint64_t at, const char *text, uint64_t most)
{
    uint32_t i = p->count;
    piece(p, hash, size, at, text);
    htc_put_u64(&p->bodies[i], most);
}

/* What the answer to a call says of a user's uploads: finished and unfinished ones. */
static void expect_sums(const play *p, uint32_t i, uint64_t bytes, uint64_t unfinished)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->text[i], p->len[i] });
    if (p->ops[i] == HTC_CALL_CONTENT_SUM) {
        char user[64];
        cr_expect(htc_get_u64(&r) > 0);
        htc_get_str(&r, user, sizeof user);
        cr_expect(eq(str, user, "ann"));
    }
    cr_expect(htc_get_u64(&r) > 0);
    cr_expect(eq(u64, htc_get_u64(&r), bytes), "call %u", i);
    cr_expect(eq(u64, htc_get_u64(&r), unfinished), "call %u", i);
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
}

/* All of ann's may come to 10 bytes, as they are announced: two that begin at the same time do not come to more. */
Test(gateway_host, sums_up_uploads_of_a_user_and_bounds_them)
{
    static const char *const texts[] = { "abcd", "efgh", "ijkl" };
    play                     p;
    uint8_t                  hash[3][32];
    char                     hex[3][65], path[300];
    play_open(&p);
    for (int i = 0; i < 3; i++) {
        htc_content_hash(htc_bytes_of(texts[i]), hash[i]);
        htc_content_hex(hash[i], hex[i]);
    }
    piece_of_quota(&p, hash[0], 4, 0, "ab", 10);
    piece_of_quota(&p, hash[1], 4, 0, "ef", 10);
    piece_of_quota(&p, hash[2], 4, 0, "ij", 10); /* no room beside these two */
    piece_of_quota(&p, hash[0], 4, 2, "cd", 10);
    piece_of_quota(&p, hash[2], 4, 0, "ij", 10);
    piece_of_quota(&p, hash[1], 4, 2, "gh", 3); /* what has begun ends */
    piece_of_quota(&p, hash[1], 4, 0, "ef", 3); /* there already: it takes nothing */
    add(&p, HTC_CALL_CONTENT_SUM);
    play_run(&p);
    static const htc_status want[] = { HTC_OK, HTC_OK, HTC_EDENIED, HTC_OK, HTC_EDENIED, HTC_OK, HTC_OK, HTC_OK };
    static const uint64_t   sums[][2] = { { 0, 4 }, { 0, 8 }, { 0 }, { 4, 4 }, { 0 }, { 8, 0 }, { 8, 0 }, { 8, 0 } };
    for (uint32_t i = 0; i < sizeof want / sizeof *want; i++) {
        cr_expect(eq(int, p.status[i], want[i]), "call %u: %s", i, p.text[i]);
        if (want[i] == HTC_OK)
            expect_sums(&p, i, sums[i][0], sums[i][1]);
    }
    cr_expect(strncmp(p.text[2], "2 bytes are left", 16) == 0, "%s", p.text[2]);
    /* What is swept is free again, and what another gateway has stored meanwhile counts. */
    age(p.dir, hex[1], 1000);
    p.count = p.next = p.answered = 0;
    piece_of_quota(&p, hash[2], 4, 0, "ij", 10);
    htc_buf *b = add(&p, HTC_CALL_CONTENT_SWEEP);
    htc_put_u64(b, 500 * HTC_SECOND);
    piece_of_quota(&p, hash[2], 4, 0, "ij", 10);
    play_run(&p);
    cr_expect(eq(int, p.status[0], HTC_EDENIED));
    cr_expect(eq(int, p.status[2], HTC_OK), "%s", p.text[2]);
    expect_sums(&p, 2, 4, 4);
    snprintf(path, sizeof path, "%s/data/blobs/ann", p.dir);
    put_file(path, hex[1], "efgh");
    p.count = p.next = p.answered = 0;
    add(&p, HTC_CALL_CONTENT_SUM);
    play_run(&p);
    expect_sums(&p, 0, 8, 0);
    htc__remove_tree(p.dir);
}

static void wait_half_a_minute(play *p)
{
    let_pass(p->host, 30 * HTC_SECOND);
}

static void wait_a_minute(play *p)
{
    let_pass(p->host, 61 * HTC_SECOND);
}

static void remove_by_hand(play *p)
{
    char    hex[65], path[300];
    uint8_t hash[32];
    htc_content_hash(htc_bytes_of("abcd"), hash);
    htc_content_hex(hash, hex);
    snprintf(path, sizeof path, "%s/data/blobs/ann/%s", p->dir, hex);
    cr_expect(eq(int, unlink(path), 0));
}

/* Who is at the limit may be refused again and again. Others wait while all of its uploads are counted: for that at most once in 30 s. */
Test(gateway_host, counts_uploads_seldom_for_refusals)
{
    play    p;
    uint8_t hash[2][32];
    char    hex[65], path[300];
    play_open(&p);
    for (int i = 0; i < 2; i++)
        htc_content_hash(htc_bytes_of(i ? "efgh" : "abcd"), hash[i]);
    htc_content_hex(hash[0], hex);
    snprintf(path, sizeof path, "%s/data/blobs/ann", p.dir);
    put_file(path, hex, "abcd");
    piece_of_quota(&p, hash[1], 4, 0, "ef", 6);
    act(&p, remove_by_hand);
    piece_of_quota(&p, hash[1], 4, 0, "ef", 6);
    act(&p, wait_half_a_minute);
    piece_of_quota(&p, hash[1], 4, 0, "ef", 6);
    play_run(&p);
    for (uint32_t i = 0; i <= 2; i += 2) {
        cr_expect(eq(int, p.status[i], HTC_EDENIED), "call %u", i);
        cr_expect(strncmp(p.text[i], "2 bytes are left", 16) == 0, "call %u: %s", i, p.text[i]);
    }
    cr_expect(eq(int, p.status[4], HTC_OK), "%s", p.text[4]);
    htc__remove_tree(p.dir);
}

/* An upload that nobody goes on with yields to the next one of its user, and to nobody else's before all room is taken. */
Test(gateway_host, an_upload_that_broke_off_yields_to_its_user)
{
    play    p;
    uint8_t hash[2][32];
    play_open(&p);
    for (uint8_t i = 0; i < 2; i++)
        memset(hash[i], i + 1, 32);
    piece_of_quota(&p, hash[0], 6, 0, "ab", 10);
    piece_of_quota(&p, hash[1], 6, 0, "cd", 10); /* no room beside it */
    add(&p, HTC_CALL_CONTENT_SUM);
    htc_put_str(&p.bodies[2], "ann");
    act(&p, wait_a_minute);
    piece_of_quota(&p, hash[1], 6, 0, "cd", 10);
    piece(&p, hash[0], 6, 2, "ab"); /* it is forgotten */
    play_run(&p);
    cr_expect(eq(int, p.status[0], HTC_OK) && eq(int, p.status[1], HTC_EDENIED) && eq(int, p.status[4], HTC_OK) && eq(int, p.status[5], HTC_EINPUT), "%s", p.text[4]);
    cr_expect(strncmp(p.text[1], "4 bytes are left", 16) == 0, "%s", p.text[1]);
    cr_expect(eq(int, p.status[2], HTC_OK));
    htc_reader r = htc_reader_of((htc_bytes){ p.text[2], p.len[2] });
    char       user[64];
    cr_expect(eq(u64, htc_get_u64(&r), 0), "nothing is said of other users");
    htc_get_str(&r, user, sizeof user);
    cr_expect(eq(str, user, "ann"));
    cr_expect(htc_get_u64(&r) > 0 && htc_get_u64(&r) == 0 && htc_get_u64(&r) == 6 && htc_reader_done(&r) == HTC_OK);
    expect_sums(&p, 4, 0, 6);
    htc__remove_tree(p.dir);
}

static void read_call(play *p, uint32_t attempt, const char *name, uint64_t offset, uint32_t len)
{
    htc_buf *b = add(p, HTC_CALL_FILE_READ);
    htc_put_u64(b, 3);
    htc_put_u64(b, 2000);
    htc_put_u32(b, attempt);
    htc_put_str(b, name);
    htc_put_u64(b, offset);
    htc_put_u32(b, len);
}

static void expect_bytes(const play *p, uint32_t i, uint64_t size, const char *bytes)
{
    htc_reader r = htc_reader_of((htc_bytes){ p->text[i], p->len[i] });
    cr_expect(eq(u64, htc_get_u64(&r), size), "call %u", i);
    cr_expect(htc_bytes_equal(htc_get_bytes(&r), htc_bytes_of(bytes)), "call %u", i);
    cr_expect(eq(int, htc_reader_done(&r), HTC_OK));
}

Test(gateway_host, outputs_are_read_dropped_and_never_left)
{
    play     p;
    char     dir[300];
    htc_buf *b;
    play_open(&p);
    snprintf(dir, sizeof dir, "%s/data/out/3/1/2000.2/files/sub", p.dir);
    put_file(dir, "file", "0123456789");
    snprintf(dir, sizeof dir, "%s/slots/one.1/scratch/3.2000.2", p.dir);
    put_file(dir, "stdout", "live");
    snprintf(dir, sizeof dir, "%s/slots/two.1/scratch/3.2000.2", p.dir); /* the slot of that number at another site */
    put_file(dir, "stdout", "other");
    read_call(&p, 2, "sub/file", 3, 4);
    read_call(&p, 2, "sub/file", 100, 4);
    read_call(&p, 2, "../../../../../etc/passwd", 0, 4);
    read_call(&p, 1, "sub/file", 0, 4);
    read_call(&p, 2, "sub", 0, 4);
    b = add(&p, HTC_CALL_LIVE_READ);
    htc_put_str(b, "one");
    htc_put_u32(b, 1);
    htc_write_attempt(b, &(htc_attempt){ 3, 2000, 2 });
    htc_put_str(b, "stdout");
    htc_put_u64(b, 1);
    htc_put_u32(b, 100);
    b = add(&p, HTC_CALL_LIVE_READ);
    htc_put_str(b, "one");
    htc_put_u32(b, 2);
    htc_write_attempt(b, &(htc_attempt){ 3, 2000, 2 });
    htc_put_str(b, "stdout");
    htc_put_u64(b, 1);
    htc_put_u32(b, 100);
    htc_put_u64(add(&p, HTC_CALL_DROP_JOB), 3);
    read_call(&p, 2, "sub/file", 3, 4);
    htc_put_u64(add(&p, HTC_CALL_DROP_JOB), 3);
    play_run(&p);
    static const htc_status want[] = { HTC_OK, HTC_OK, HTC_EPATH, HTC_ENOTFOUND, HTC_ENOTFOUND, HTC_OK, HTC_ENOTFOUND,
                                       HTC_OK, HTC_ENOTFOUND, HTC_OK };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(eq(int, p.status[i], want[i]), "call %zu: %s", i, p.text[i]);
    expect_bytes(&p, 0, 10, "3456");
    expect_bytes(&p, 1, 10, "");
    expect_bytes(&p, 5, 4, "ive");
    htc__remove_tree(p.dir);
}

/* Nobody else makes it: what is stored late finds no place. */
Test(gateway_host, a_job_has_its_place_until_it_is_dropped)
{
    play p;
    char dir[300];
    play_open(&p);
    snprintf(dir, sizeof dir, "%s/data/out/3", p.dir);
    htc_buf *b = add(&p, HTC_CALL_JOB_PLACE);
    htc_put_u64(b, 3);
    htc_put_u32(b, 0);
    htc_put_u32(b, 0);
    b = add(&p, HTC_CALL_DISK_USE); /* an answer to wait for */
    htc_put_u64(b, 0);
    play_run(&p);
    cr_expect(eq(int, access(dir, F_OK), 0));
    p.count = p.next = p.answered = 0;
    htc_put_u64(add(&p, HTC_CALL_DROP_JOB), 3);
    play_run(&p);
    cr_expect(access(dir, F_OK) != 0);
    htc__remove_tree(p.dir);
}

/* What lies below out/JOB and in a slot may be made by a user's processes: links are not followed, a FIFO holds nobody. */
Test(gateway_host, links_of_users_lead_nowhere)
{
    play        p;
    char        dir[300], path[400];
    struct stat st;
    play_open(&p);
    snprintf(dir, sizeof dir, "%s/away/2000.2/files", p.dir);
    put_file(dir, "file", "secret");
    snprintf(dir, sizeof dir, "%s/data/out/3", p.dir);
    cr_assert(eq(int, htc__make_dirs(dir), 0));
    snprintf(path, sizeof path, "%s/1", dir);
    snprintf(dir, sizeof dir, "%s/away", p.dir);
    cr_assert(eq(int, symlink(dir, path), 0));
    snprintf(dir, sizeof dir, "%s/slots/one.1", p.dir);
    snprintf(path, sizeof path, "%s/scratch/3.2000.2", dir);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    strcat(path, "/stdout");
    cr_assert(eq(int, mkfifo(path, 0600), 0));
    read_call(&p, 2, "file", 0, 6);
    htc_buf *b = add(&p, HTC_CALL_LIVE_READ);
    htc_put_str(b, "one");
    htc_put_u32(b, 1);
    htc_write_attempt(b, &(htc_attempt){ 3, 2000, 2 });
    htc_put_str(b, "stdout");
    htc_put_u64(b, 0);
    htc_put_u32(b, 100);
    htc_put_u64(add(&p, HTC_CALL_DROP_JOB), 3);
    play_run(&p);
    static const htc_status want[] = { HTC_ENOTFOUND, HTC_ENOTFOUND, HTC_OK };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(eq(int, p.status[i], want[i]), "call %zu: %s", i, p.text[i]);
    snprintf(path, sizeof path, "%s/away/2000.2/files/file", p.dir);
    cr_expect(eq(int, stat(path, &st), 0), "removed through a link");
    htc__remove_tree(p.dir);
}

Test(gateway_host, passwords_are_verified_and_their_hashing_is_bounded)
{
    play     p;
    htc_buf *b;
    play_open(&p);
    htc_put_str(add(&p, HTC_CALL_HASH_PASSWORD), "correct horse");
    htc_put_u32(add(&p, HTC_CALL_RANDOM), 32);
    htc_put_u32(add(&p, HTC_CALL_RANDOM), 65);
    play_run(&p);
    cr_assert(eq(int, p.status[0], HTC_OK));
    cr_expect(eq(sz, p.len[1], 32));
    cr_expect(eq(int, p.status[2], HTC_EPROTO));
    char       verifier[200];
    htc_reader r = htc_reader_of((htc_bytes){ p.text[0], p.len[0] });
    htc_get_str(&r, verifier, sizeof verifier);
    cr_expect(strncmp(verifier, "$argon2id$", 10) == 0, "%s", verifier);
    p.count = p.next = p.answered = 0;
    for (int i = 0; i < 2; i++) {
        b = add(&p, HTC_CALL_VERIFY_PASSWORD);
        htc_put_str(b, verifier);
        htc_put_str(b, i ? "battery staple" : "correct horse");
    }
    play_run(&p);
    cr_expect(eq(int, p.status[0], HTC_OK));
    cr_expect(eq(int, p.status[1], HTC_EAUTH));
    /* A flood: two at a time and 64 waiting are taken, the rest is told to come again. The verifier is no verifier, so
     * that the test costs no minutes. */
    uint32_t refused = 0;
    p.count = p.next = p.answered = 0;
    p.at_once = 1;
    for (int i = 0; i < 100; i++) {
        b = add(&p, HTC_CALL_VERIFY_PASSWORD);
        htc_put_str(b, "none");
        htc_put_str(b, "x");
    }
    play_run(&p);
    for (int i = 0; i < 100; i++) {
        cr_expect(p.status[i] == HTC_EAUTH || p.status[i] == HTC_EBUSY, "%d", p.status[i]);
        refused += p.status[i] == HTC_EBUSY;
    }
    cr_expect(eq(u32, refused, 34));
    htc__remove_tree(p.dir);
}
