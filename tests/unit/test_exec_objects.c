/* Objects on the disk: written, checked, taken up again, made of outputs, listed, staged in; and what is not let happen. */
#include "exec_drive.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include "net/exec/objects.h"
#include "net/exec/objects_file.h"
#include "net/files/manifest.h"
#include "roles/runtime/objects_wire.h"

#define PIECE 1000u
#define SIZE  (5 * PIECE + 17)

/* A script of calls, each asked when all before it are answered, or at once. */
typedef struct ask {
    uint32_t   op;
    htc_buf    body;
    int        at_once; /* the next is asked before this one is answered */
    int        never;   /* it is not answered in this life */
    int        answered;
    htc_status status;
    htc_buf    answer;
} ask;

typedef struct bench_of {
    char     top[128], dir[200], own[256], data[200];
    uint8_t *bytes;
    uint8_t  hash[32];
    char     hex[65];
    ask      asks[64];
    int      n, asked, answered, gives;
} bench_of;

static void ask_next(bench_of *x, htc_output *out)
{
    for (int more = x->answered == x->asked; more && x->asked < x->n;) {
        ask *a = &x->asks[x->asked];
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = a->op, .tag = (uint64_t)++x->asked, .body = htc_buf_bytes(&a->body) });
        more = a->at_once;
        if (a->never) {
            a->answered = 1;
            x->answered++;
        }
    }
    if (x->answered == x->n)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
}

static htc_status script_step(void *self, const htc_input *in, htc_output *out)
{
    bench_of *x = self;
    if (in->kind == HTC_IN_RESULT) {
        ask *a = &x->asks[in->tag - 1];
        cr_assert(!a->answered && a->op == in->op);
        a->answered = 1;
        a->status = in->status;
        htc_put_raw(&a->answer, in->body);
        x->answered++;
    }
    if (in->kind == HTC_IN_START || in->kind == HTC_IN_RESULT)
        ask_next(x, out);
    return HTC_OK;
}

static htc_ns script_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static htc_status script_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body)
{
    (void)host;
    return htc__objects_host_call(ctx, op, tag, body);
}

static void open_bench(bench_of *x)
{
    memset(x, 0, sizeof *x);
    strcpy(x->top, "/tmp/htc test objects XXXXXX");
    cr_assert(mkdtemp(x->top) != NULL);
    snprintf(x->dir, sizeof x->dir, "%s/objects", x->top);
    snprintf(x->own, sizeof x->own, "%s/%u", x->dir, (unsigned)geteuid());
    snprintf(x->data, sizeof x->data, "%s/data", x->top);
    cr_assert(eq(int, htc__make_dirs(x->data), 0));
    x->bytes = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        x->bytes[i] = (uint8_t)(i * 31 + i / 256);
    htc_content_hash((htc_bytes){ x->bytes, SIZE }, x->hash);
    htc_content_hex(x->hash, x->hex);
}

static void forget(bench_of *x)
{
    for (int i = 0; i < x->n; i++) {
        htc_buf_free(&x->asks[i].body);
        htc_buf_free(&x->asks[i].answer);
    }
    memset(x->asks, 0, sizeof x->asks);
    x->n = x->asked = x->answered = 0;
}

static void close_bench(bench_of *x)
{
    forget(x);
    free(x->bytes);
    cr_expect(eq(int, htc__remove_tree(x->top), 0));
}

static ask *add(bench_of *x, uint32_t op)
{
    ask *a = &x->asks[x->n++];
    a->op = op;
    htc_buf_init(&a->body, NULL, 0);
    htc_buf_init(&a->answer, NULL, 0);
    if (op != HTC_CALL_OBJECT_LIST)
        htc_put_raw(&a->body, (htc_bytes){ x->hash, 32 });
    return a;
}

static ask *room(bench_of *x)
{
    ask *a = add(x, HTC_CALL_OBJECT_ROOM);
    htc_put_u64(&a->body, SIZE);
    return a;
}

static ask *piece_of(bench_of *x, uint64_t offset, const uint8_t *bytes, size_t n)
{
    ask *a = add(x, HTC_CALL_OBJECT_WRITE);
    htc_put_u64(&a->body, offset);
    htc_put_u64(&a->body, SIZE);
    htc_put_bytes(&a->body, (htc_bytes){ bytes, n });
    a->at_once = 1;
    return a;
}

static ask *piece(bench_of *x, uint64_t i)
{
    uint64_t at = i * PIECE;
    return piece_of(x, at, x->bytes + at, SIZE - at < PIECE ? SIZE - at : PIECE);
}

static ask *adopt(bench_of *x, const char *name, uint64_t size)
{
    ask *a = add(x, HTC_CALL_OBJECT_ADOPT);
    htc_put_u64(&a->body, size);
    htc_write_attempt(&a->body, &(htc_attempt){ 3, 7, 2 });
    htc_put_str(&a->body, name);
    return a;
}

/* In a life of its own. */
static void play(bench_of *x)
{
    htc_host          *host;
    htc__objects_host *objects;
    htc_error          error = { 0 };
    htc_machine_ops    ops = { sizeof ops, script_step, script_deadline, NULL, 0 };
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_assert(eq(int, htc__objects_host_open(host, x->dir, x->data, 1, &objects, &error), HTC_OK), "%s", error.text);
    htc_host_on_call(host, script_call, objects);
    if (x->gives)
        htc__objects_host_gives(objects);
    if (x->n)
        cr_assert(eq(int, htc_host_run(host, &ops, x), HTC_OK));
    htc_host_destroy(host);
    htc__objects_host_close(objects);
}

static void path_of(const bench_of *x, char path[400], const char *end)
{
    snprintf(path, 400, "%s/%s%s", x->own, x->hex, end);
}

static int is_whole(const bench_of *x)
{
    char        path[400];
    struct stat st;
    uint8_t     hash[32];
    uint64_t    size = 0;
    path_of(x, path, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    cr_assert(fstat(fd, &st) == 0 && htc_content_hash_fd(fd, hash, &size) == HTC_OK);
    close(fd);
    return size == SIZE && memcmp(hash, x->hash, 32) == 0;
}

static int is_there(const bench_of *x, const char *end)
{
    char path[400];
    path_of(x, path, end);
    return access(path, F_OK) == 0;
}

static uint64_t have_of(const ask *a)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&a->answer));
    uint64_t   have = htc_get_u64(&r);
    cr_assert(eq(int, htc_reader_done(&r), HTC_OK));
    return have;
}

/* Pieces come in any order and more than once; each is answered when all before it are written. */
Test(exec_objects, pieces_are_put_in_order_and_checked)
{
    static const int order[] = { 5, 3, 0, 3, 4, 1, 1, 2 };
    bench_of         x;
    struct stat      st;
    char             path[400];
    open_bench(&x);
    ask *r = room(&x);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        piece(&x, (uint64_t)order[i]);
    x.asks[x.n - 1].at_once = 0;
    ask *end = add(&x, HTC_CALL_OBJECT_FINISH), *again = room(&x), *read = add(&x, HTC_CALL_OBJECT_READ);
    htc_put_u64(&read->body, PIECE);
    htc_put_u32(&read->body, 10);
    htc_put_bytes(&read->body, htc_bytes_of("prefix"));
    ask *beyond = add(&x, HTC_CALL_OBJECT_READ);
    htc_put_u64(&beyond->body, SIZE);
    htc_put_u32(&beyond->body, 1);
    htc_put_bytes(&beyond->body, (htc_bytes){ 0 });
    ask *list = add(&x, HTC_CALL_OBJECT_LIST);
    play(&x);
    cr_expect(r->status == HTC_OK && eq(u64, have_of(r), 0));
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        cr_expect(eq(int, x.asks[1 + i].status, HTC_OK), "piece %d", order[i]);
    cr_expect(eq(int, end->status, HTC_OK) && eq(int, again->status, HTC_EEXISTS) && eq(int, beyond->status, HTC_EINPUT));
    cr_expect(is_whole(&x) && !is_there(&x, ".part"));
    path_of(&x, path, "");
    cr_expect(stat(path, &st) == 0 && (st.st_mode & 0777) == 0400);
    cr_expect(stat(x.own, &st) == 0 && (st.st_mode & 0777) == 0700);
    htc_reader a = htc_reader_of(htc_buf_bytes(&read->answer));
    cr_expect(memcmp(htc_get_raw(&a, 6).data, "prefix", 6) == 0 && memcmp(htc_get_raw(&a, 32).data, x.hash, 32) == 0);
    cr_expect(htc_get_u64(&a) == PIECE && htc_get_u64(&a) == SIZE);
    htc_bytes got = htc_get_bytes(&a);
    cr_expect(got.len == 10 && memcmp(got.data, x.bytes + PIECE, 10) == 0 && htc_reader_done(&a) == HTC_OK);
    a = htc_reader_of(htc_buf_bytes(&list->answer));
    cr_assert(eq(int, list->status, HTC_OK) && eq(sz, list->answer.len, 41));
    cr_expect(memcmp(htc_get_raw(&a, 32).data, x.hash, 32) == 0 && htc_get_u64(&a) == SIZE && htc_get_u8(&a) == 1 && htc_reader_done(&a) == HTC_OK);
    close_bench(&x);
}

Test(exec_objects, another_hash_is_refused_and_removed)
{
    bench_of x;
    open_bench(&x);
    room(&x);
    for (uint64_t i = 0; i < 5; i++)
        piece(&x, i);
    piece_of(&x, 5 * PIECE, (const uint8_t *)"not what was here", 17)->at_once = 0;
    ask *end = add(&x, HTC_CALL_OBJECT_FINISH), *late = piece(&x, 0);
    late->at_once = 0;
    ask *r = room(&x), *short_one = add(&x, HTC_CALL_OBJECT_FINISH);
    play(&x);
    cr_expect(eq(int, end->status, HTC_EINPUT) && eq(int, late->status, HTC_ENOTFOUND));
    cr_expect(r->status == HTC_OK && eq(u64, have_of(r), 0));
    cr_expect(eq(int, short_one->status, HTC_EINPUT), "it is not all there");
    cr_expect(!is_there(&x, "") && !is_there(&x, ".part"));
    close_bench(&x);
}

/* What a life before had written in order is gone on from; what waited behind a gap was never written. */
Test(exec_objects, a_part_is_taken_up_again)
{
    bench_of x;
    open_bench(&x);
    room(&x);
    piece(&x, 0);
    piece(&x, 3)->never = 1;
    piece(&x, 1)->at_once = 0;
    play(&x);
    forget(&x);
    ask *list = add(&x, HTC_CALL_OBJECT_LIST), *r = room(&x);
    for (uint64_t i = 2; i < 6; i++)
        piece(&x, i);
    x.asks[x.n - 1].at_once = 0;
    ask *end = add(&x, HTC_CALL_OBJECT_FINISH);
    play(&x);
    htc_reader a = htc_reader_of(htc_buf_bytes(&list->answer));
    cr_expect(memcmp(htc_get_raw(&a, 32).data, x.hash, 32) == 0 && htc_get_u64(&a) == 2 * PIECE && htc_get_u8(&a) == 0);
    cr_expect(eq(u64, have_of(r), 2 * PIECE) && eq(int, end->status, HTC_OK) && is_whole(&x));
    close_bench(&x);
}

/* A part that is longer than the whole is none; what was being made when somebody was killed goes, and so does what has no name of ours. */
Test(exec_objects, what_is_not_of_us_is_cleared_away)
{
    bench_of x;
    char     path[400];
    open_bench(&x);
    play(&x);
    path_of(&x, path, ".part");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && ftruncate(fd, SIZE + 1) == 0 && close(fd) == 0);
    path_of(&x, path, ".new");
    write_file(path, "half");
    snprintf(path, sizeof path, "%s/core", x.own);
    write_file(path, "dumped");
    add(&x, HTC_CALL_OBJECT_LIST);
    ask *r = room(&x);
    add(&x, HTC_CALL_OBJECT_DROP);
    ask *list = add(&x, HTC_CALL_OBJECT_LIST);
    play(&x);
    cr_expect(eq(u64, have_of(r), 0) && eq(sz, list->answer.len, 0));
    cr_expect(!is_there(&x, ".part") && !is_there(&x, ".new") && access(path, F_OK) != 0);
    close_bench(&x);
}

static void write_output(const bench_of *x, char path[400])
{
    snprintf(path, 400, "%s/out/3/0/7.2/files/sub", x->data);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, 400, "%s/out/3/0/7.2/files/sub/out", x->data);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0 && htc__write_all(fd, x->bytes, SIZE) == 0 && close(fd) == 0);
}

/* It shares its blocks with the output, or is the output by a second name; the output may go. */
Test(exec_objects, an_output_becomes_an_object)
{
    bench_of    x;
    char        path[400], whole[400];
    struct stat st, out;
    open_bench(&x);
    write_output(&x, path);
    room(&x);
    piece(&x, 0)->at_once = 0;
    ask *wrong = adopt(&x, "sub/out", SIZE - 1), *none = adopt(&x, "sub/none", SIZE), *away = adopt(&x, "../files/sub/out", SIZE),
        *right = adopt(&x, "sub/out", SIZE), *again = adopt(&x, "sub/out", SIZE), *late = piece(&x, 1);
    late->at_once = 0;
    play(&x);
    cr_expect(eq(int, wrong->status, HTC_EINPUT) && eq(int, none->status, HTC_ENOTFOUND) && eq(int, away->status, HTC_ENOTFOUND));
    cr_expect(eq(int, right->status, HTC_OK) && eq(int, again->status, HTC_OK) && eq(int, late->status, HTC_ENOTFOUND));
    path_of(&x, whole, "");
    cr_expect(stat(whole, &st) == 0 && stat(path, &out) == 0);
    cr_expect(st.st_ino == out.st_ino || st.st_nlink == 1, "it was copied though it is on the same file system");
    cr_assert(eq(int, unlink(path), 0));
    cr_expect(is_whole(&x) && !is_there(&x, ".part") && !is_there(&x, ".new"));
    close_bench(&x);
}

/* What an output is known by stands in its attempt's manifest. */
Test(exec_objects, the_hash_of_an_output_is_told)
{
    static const char *const names[] = { "sub/out", "cut", "dir", "none", "a \"b\"" };
    bench_of                 x;
    char                     path[400];
    ask                     *a[5];
    htc_outputs              sums = { 0 };
    htc__copied              c = { .size = SIZE };
    open_bench(&x);
    memcpy(c.hash, x.hash, 32);
    write_output(&x, path);
    snprintf(path, sizeof path, "%s/out/3/0/7.2/manifest", x.data);
    FILE *f = fopen(path, "w");
    cr_assert(f != NULL);
    htc__manifest_add(f, &(htc__entry){ .type = 'd', .name = "dir", .mode = 0755 }, &sums);
    htc__manifest_add(f, &(htc__entry){ .type = 'f', .name = "cut", .mode = 0644, .stored = &c, .error = "cut" }, &sums);
    htc__manifest_add(f, &(htc__entry){ .type = 'f', .name = "sub/out", .mode = 0644, .stored = &c }, &sums);
    htc__manifest_add(f, &(htc__entry){ .type = 'f', .name = "a \"b\"", .mode = 0644, .stored = &c }, &sums);
    fclose(f);
    for (int i = 0; i < 5; i++) {
        a[i] = add(&x, HTC_CALL_OBJECT_OUTPUT);
        htc_buf_clear(&a[i]->body);
        htc_write_attempt(&a[i]->body, &(htc_attempt){ 3, 7, 2 });
        htc_put_str(&a[i]->body, names[i]);
    }
    ask *other = add(&x, HTC_CALL_OBJECT_OUTPUT);
    htc_buf_clear(&other->body);
    htc_write_attempt(&other->body, &(htc_attempt){ 3, 7, 1 });
    htc_put_str(&other->body, "sub/out");
    play(&x);
    for (int i = 0; i < 5; i++)
        cr_expect(eq(int, a[i]->status, i == 0 || i == 4 ? HTC_OK : HTC_ENOTFOUND), "%s", names[i]);
    htc_reader r = htc_reader_of(htc_buf_bytes(&a[0]->answer));
    cr_expect(memcmp(htc_get_raw(&r, 32).data, x.hash, 32) == 0 && htc_get_u64(&r) == SIZE && htc_reader_done(&r) == HTC_OK);
    cr_expect(eq(int, other->status, HTC_ENOTFOUND), "another attempt");
    close_bench(&x);
}

/* A link in the place of an output leads nowhere. */
Test(exec_objects, a_link_is_no_output)
{
    bench_of x;
    char     path[400], other[400];
    open_bench(&x);
    write_output(&x, path);
    snprintf(other, sizeof other, "%s/secret", x.top);
    cr_assert(rename(path, other) == 0 && symlink(other, path) == 0);
    ask *a = adopt(&x, "sub/out", SIZE);
    play(&x);
    cr_expect(eq(int, a->status, HTC_ENOTFOUND));
    cr_expect(!is_there(&x, ""));
    close_bench(&x);
}

Test(exec_objects, malformed_calls_are_refused)
{
    bench_of x;
    open_bench(&x);
    room(&x);
    ask *large = add(&x, HTC_CALL_OBJECT_ROOM);
    htc_put_u64(&large->body, UINT64_MAX);
    ask *cut = add(&x, HTC_CALL_OBJECT_WRITE), *beyond = piece_of(&x, SIZE - 1, x.bytes, 2), *far = piece_of(&x, UINT64_MAX - 1, x.bytes, 2);
    beyond->at_once = far->at_once = 0;
    ask *nothing = add(&x, HTC_CALL_OBJECT_ADOPT), *much = add(&x, HTC_CALL_OBJECT_READ);
    htc_put_u64(&much->body, 0);
    htc_put_u32(&much->body, UINT32_MAX);
    htc_put_bytes(&much->body, (htc_bytes){ 0 });
    ask *more = add(&x, HTC_CALL_OBJECT_LIST);
    htc_put_u8(&more->body, 1);
    play(&x);
    cr_expect(large->status == HTC_EPROTO && cut->status == HTC_EPROTO && beyond->status == HTC_EPROTO && far->status == HTC_EPROTO);
    cr_expect(nothing->status == HTC_EPROTO && much->status == HTC_EPROTO && more->status == HTC_EPROTO);
    close_bench(&x);
}

/* A directory that others can read is not used, and each user has another one. */
Test(exec_objects, objects_are_their_user_s_alone)
{
    bench_of           x;
    htc_host          *host;
    htc__objects_host *objects;
    htc_error          error = { 0 };
    open_bench(&x);
    cr_assert(eq(int, htc__make_dirs(x.own), 0));
    cr_assert(eq(int, chmod(x.own, 0750), 0));
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_expect(eq(int, htc__objects_host_open(host, x.dir, x.data, 0, &objects, &error), HTC_EDENIED));
    cr_assert(rmdir(x.own) == 0 && symlink(x.data, x.own) == 0);
    cr_expect(htc__objects_host_open(host, x.dir, x.data, 0, &objects, &error) != HTC_OK);
    htc_host_destroy(host);
    cr_assert(eq(int, unlink(x.own), 0));
    room(&x);
    for (uint64_t i = 0; i < 6; i++)
        piece(&x, i);
    x.asks[x.n - 1].at_once = 0;
    add(&x, HTC_CALL_OBJECT_FINISH);
    play(&x);
    cr_assert(is_whole(&x));
    if (geteuid() == 0) {
        char path[400];
        path_of(&x, path, "");
        cr_assert(chmod(x.top, 0755) == 0 && chmod(x.dir, 0755) == 0);
        pid_t pid = fork();
        if (pid == 0)
            _exit(setresuid(65534, 65534, 65534) != 0 || open(path, O_RDONLY) >= 0 || errno != EACCES);
        int how = -1;
        cr_expect(waitpid(pid, &how, 0) == pid && how == 0, "another user reads it");
    }
    close_bench(&x);
}

/* The file that was given to a user under that content. */
static ino_t given(const bench_of *x, const char *who, const char *hex, nlink_t *links)
{
    char        path[700];
    struct stat st;
    snprintf(path, sizeof path, "%s/given/%s/%s", x->data, who, hex);
    if (lstat(path, &st) != 0)
        return 0;
    *links = st.st_nlink;
    return st.st_ino;
}

static ask *give(bench_of *x, const char *who, const uint8_t content[32])
{
    ask *a = add(x, HTC_CALL_OBJECT_GIVE);
    htc_put_str(&a->body, who);
    htc_put_raw(&a->body, (htc_bytes){ content, 32 });
    return a;
}

/* Two users with the same content: neither the file nor the number of its links tells one of the other. */
Test(exec_objects, what_has_a_name_is_one_users_own)
{
    static const char *who[] = { "ann", "ben" };
    bench_of           x;
    uint8_t            content[32], names[2][32];
    char               hex[65], path[700];
    nlink_t            links[2] = { 0 };
    open_bench(&x);
    x.gives = 1;
    memcpy(content, x.hash, 32);
    htc_content_hex(content, hex);
    ask *end[2], *gives[2];
    for (int k = 0; k < 2; k++) {
        memset(names[k], k + 1, 32);
        memcpy(x.hash, names[k], 32);
        room(&x);
        for (uint64_t i = 0; i < 6; i++)
            piece(&x, i);
        x.asks[x.n - 1].at_once = 0;
        end[k] = add(&x, HTC_CALL_OBJECT_FINISH);
        htc_put_raw(&end[k]->body, (htc_bytes){ content, 32 });
        gives[k] = give(&x, who[k], content);
    }
    play(&x);
    for (int k = 0; k < 2; k++)
        cr_expect(eq(int, end[k]->status, HTC_OK) && eq(int, gives[k]->status, HTC_OK));
    ino_t hers = given(&x, "ann", hex, &links[0]), his = given(&x, "ben", hex, &links[1]);
    cr_expect(hers && his && hers != his, "they share a file");
    cr_expect(links[0] == 2 && links[1] == 2, "links: %lu, %lu", (unsigned long)links[0], (unsigned long)links[1]);
    forget(&x);
    /* What he puts there himself gives way to what is brought for him; what is dropped takes back what was given of it and nothing else. */
    snprintf(path, sizeof path, "%s/given/ben", x.data);
    cr_assert(eq(int, mkdir(path, 0700), -1));
    ask *first = give(&x, "ben", content);
    play(&x); /* a life of its own begins with nothing given */
    cr_expect(eq(int, first->status, HTC_OK) && given(&x, "ben", hex, &links[1]) == his && !given(&x, "ann", hex, &links[0]));
    forget(&x);
    snprintf(path, sizeof path, "%s/given/ben/%s", x.data, hex);
    x.gives = 0;
    cr_assert(unlink(path) == 0);
    write_file(path, "planted");
    htc__objects_place p = { .dir = open(x.own, O_RDONLY | O_DIRECTORY), .data = open(x.data, O_PATH | O_DIRECTORY), .gives = 1 };
    cr_assert(p.dir >= 0 && p.data >= 0);
    cr_expect(eq(int, htc__object_give(&p, names[0], content, "ann"), HTC_OK) && eq(int, htc__object_give(&p, names[1], content, "ben"), HTC_OK));
    cr_expect(given(&x, "ben", hex, &links[1]) == his, "what was planted stays");
    char note[300];
    snprintf(note, sizeof note, "%s/seen", x.data);
    cr_assert(mkdir(note, 0700) == 0);
    snprintf(note, sizeof note, "%s/seen/%s", x.data, hex);
    write_file(note, "what an agent has found");
    htc__object_drop(&p, names[0], content);
    cr_expect(access(note, F_OK) != 0, "the note of what is dropped stays");
    cr_expect(!given(&x, "ann", hex, &links[0]) && given(&x, "ben", hex, &links[1]) == his);
    close(p.dir);
    close(p.data);
    close_bench(&x);
}

/* A disk that is full says so before anything is fetched; what it has set aside for an object nobody else gets. */
Test(exec_objects, a_full_disk_is_told)
{
    bench_of x;
    char     path[400];
    open_bench(&x);
    cr_assert(eq(int, htc__make_dirs(x.dir), 0));
    if (mount("none", x.dir, "tmpfs", 0, "size=64k,mode=755") != 0) {
        close_bench(&x);
        fprintf(stderr, "skipped: a small disk cannot be mounted here\n");
        cr_skip_test("a small disk cannot be mounted here");
    }
    snprintf(path, sizeof path, "%s/filler", x.dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, x.bytes, 4096) > 0)
        ;
    ask *full = room(&x), *late = piece(&x, 0);
    late->at_once = 0;
    play(&x);
    cr_expect(eq(int, full->status, HTC_ENOSPC) && eq(int, late->status, HTC_ENOTFOUND));
    forget(&x);
    cr_assert(eq(int, ftruncate(fd, 0), 0));
    ask *r = room(&x);
    play(&x);
    cr_expect(eq(int, r->status, HTC_OK));
    forget(&x);
    cr_assert(eq(int, (int)lseek(fd, 0, SEEK_SET), 0));
    while (write(fd, x.bytes, 4096) > 0)
        ;
    room(&x);
    for (uint64_t i = 0; i < 6; i++)
        piece(&x, i);
    x.asks[x.n - 1].at_once = 0;
    ask *end = add(&x, HTC_CALL_OBJECT_FINISH);
    play(&x);
    cr_expect(eq(int, end->status, HTC_OK) && is_whole(&x));
    close(fd);
    cr_assert(eq(int, umount(x.dir), 0));
    close_bench(&x);
}

/* ---- staged in ---- */

static void put_object(const drive *d, const char *dir, const char *text, uint8_t hash[32], char uri[80])
{
    char path[700], hex[65];
    (void)d;
    htc_content_hash(htc_bytes_of(text), hash);
    htc_content_hex(hash, hex);
    snprintf(uri, 80, "htc:%s", hex);
    snprintf(path, sizeof path, "%s/%u", dir, (unsigned)geteuid());
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/%u/%s", dir, (unsigned)geteuid(), hex);
    write_file(path, text);
}

/* A task has an object as a file of its own: it may write it, and the object is what it was. */
Test(exec_objects, a_task_cannot_change_an_object)
{
    drive    d;
    char     dir[400], uri[80], path[700], text[64];
    uint8_t  hash[32];
    drive_open(&d);
    snprintf(dir, sizeof dir, "%s/objects", d.dir);
    d.objects_dir = dir;
    put_object(&d, dir, "made elsewhere", hash, uri);
    htc_stage in = { "in", uri, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "cat in; echo changed > in; chmod 0 in; rm -f in");
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_OK), "%s %s", d.text, d.outcome.reason);
    expect_output(&d, "stdout", "made elsewhere");
    snprintf(path, sizeof path, "%s/%u/%s", dir, (unsigned)geteuid(), uri + 4);
    cr_expect(htc__read_text(path, text, sizeof text) > 0 && eq(str, text, "made elsewhere"));
    drive_close(&d);
}

/* One that is not any more what its name says is not given to a task. */
Test(exec_objects, a_spoilt_object_is_not_staged_in)
{
    drive   d;
    char    dir[400], uri[80], path[700];
    uint8_t hash[32];
    drive_open(&d);
    snprintf(dir, sizeof dir, "%s/objects", d.dir);
    d.objects_dir = dir;
    put_object(&d, dir, "made elsewhere", hash, uri);
    snprintf(path, sizeof path, "%s/%u/%s", dir, (unsigned)geteuid(), uri + 4);
    write_file(path, "made elsewherf");
    htc_stage in = { "in", uri, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "cat in");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_ECORRUPT) && d.ran == 0, "%s", d.text);
    drive_close(&d);
}

/* A directory that was uploaded as one content: unpacked; nothing of one that has another hash is left. */
Test(exec_objects, a_directory_is_staged_in_by_its_hash)
{
    static const char tree[] = "htc-tree 1\nx\3\0\0\0runI\0\0\0\0\0\0\0#!/bin/sh\n", rest[] = "echo a program in a directory that was uploaded as one content; pwd\n";
    drive   d;
    char    path[1024], hex[65], uri[100];
    uint8_t bytes[sizeof tree + sizeof rest], hash[32];
    size_t  len = sizeof tree - 1 + sizeof rest; /* with the zero at its end */
    memcpy(bytes, tree, sizeof tree - 1);
    memcpy(bytes + sizeof tree - 1, rest, sizeof rest);
    bytes[19] = (uint8_t)(10 + sizeof rest - 1);
    drive_open(&d);
    htc_content_hash((htc_bytes){ bytes, len }, hash);
    htc_content_hex(hash, hex);
    snprintf(path, sizeof path, "%s/blobs", d.data);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/blobs/%s", d.data, hex);
    snprintf(uri, sizeof uri, "htc:%s/", hex);
    FILE *f = fopen(path, "w");
    cr_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
    htc_stage in = { "tool", uri, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "tool/run | head -n 1");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    expect_output(&d, "stdout", "a program in a directory that was uploaded as one content\n");
    bytes[len - 5] = 'x';
    f = fopen(path, "w");
    cr_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
    d.ran = 0;
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_ECORRUPT));
    cr_expect(strstr(d.text, "staged in wrong") != NULL, "%s", d.text);
    cr_expect(eq(int, d.ran, 0));
    drive_close(&d);
}
