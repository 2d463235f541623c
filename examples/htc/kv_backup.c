/* htc kv backup and restore: every key and value in one file.
 *
 * The file: "HTCKVB02", then for each value u32 length of the key (1 to HTC_KV_KEY_MAX), u32 length of the value, u64 version, u64 what is
 * left of its ttl in nanoseconds (0: it has none), u8 kind, key, value, u64 XXH3 of all of that; at the end a head of zeros but for the
 * version, which is how many there were, and its XXH3. Integers are little-endian. Kinds: 0 a key, 1 a key that is bound to a lease, 2 a
 * sibling in an eventual namespace: its key is the namespace, a zero byte, the key. "HTCKVB01" has neither ttl nor kind.
 *
 * The file appears under its name when it is complete and on the disk; it is read to its end before the first key of it is restored.
 * Each key is as it was at some moment of the backup; versions are for people: a restored key gets a new one. */
#include "kv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[] = "HTCKVB02", magic_1[] = "HTCKVB01";

#define HEAD   25
#define HEAD_1 16
#define WINDOW 64 /* requests on their way at once */
/* And values: a slow disk has to take them while one of them has time (--timeout). A longer one goes alone. */
#define WINDOW_BYTES ((size_t)4 << 20)

enum { PLAIN, LEASED, SIBLING };

typedef struct item {
    uint32_t key_len, value_len;
    uint64_t version, ttl;
    uint32_t kind, head; /* head: its length in this file */
    uint8_t *bytes;      /* head, key, value */
    size_t   cap;
} item;

static void put_number(uint8_t *at, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_number(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static void reserve(uint8_t **bytes, size_t *cap, size_t size)
{
    if (size <= *cap)
        return;
    *bytes = must(realloc(*bytes, size));
    *cap = size;
}

/* ---- backup ---- */

static int write_item(kv_writer *w, uint32_t kind, const htc_kv_check_item *it)
{
    uint8_t sum[8];
    size_t  before = kind == SIBLING ? it->space.len + 1 : 0, key_len = before + it->key.len;
    size_t  len = HEAD + key_len + it->value.len;
    reserve(&w->bytes, &w->cap, len);
    put_number(w->bytes, key_len, 4);
    put_number(w->bytes + 4, it->value.len, 4);
    put_number(w->bytes + 8, it->version, 8);
    put_number(w->bytes + 16, it->ttl, 8);
    w->bytes[24] = (uint8_t)kind;
    if (before) {
        memcpy(w->bytes + HEAD, it->space.data, it->space.len);
        w->bytes[HEAD + it->space.len] = 0;
    }
    if (it->key.len)
        memcpy(w->bytes + HEAD + before, it->key.data, it->key.len);
    if (it->value.len)
        memcpy(w->bytes + HEAD + key_len, it->value.data, it->value.len);
    put_number(sum, htc_hash64((htc_bytes){ w->bytes, len }, 0), 8);
    return fwrite(w->bytes, 1, len, w->f) == len && fwrite(sum, 1, sizeof sum, w->f) == sizeof sum;
}

FILE *kv_create(const char *path)
{
    int   fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

int kv_writer_begin(kv_writer *w, FILE *f)
{
    *w = (kv_writer){ .f = f };
    return fwrite(magic, 1, 8, f) == 8;
}

int kv_writer_put(kv_writer *w, const htc_kv_check_item *it)
{
    w->count++;
    w->leased += it->lease != 0;
    w->ending += it->ttl != 0;
    w->siblings += it->space.len != 0;
    return write_item(w, it->space.len ? SIBLING : it->lease ? LEASED : PLAIN, it);
}

int kv_writer_end(kv_writer *w)
{
    return write_item(w, PLAIN, &(htc_kv_check_item){ .version = w->count }) && fflush(w->f) == 0;
}

static int speaks(const kv_call *k, const char *scheme)
{
    return k->address && strncmp(k->address, scheme, strlen(scheme)) == 0;
}

/* Has it eventual namespaces that are to be in the backup? */
static htc_status has_namespaces(kv_call *k, int *has)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_COUNT, .flags = HTC_KV_EVENTUAL };
    htc_kv_result  r = { .size = sizeof r };
    *has = 0;
    if (k->without_spaces || speaks(k, "redis:") || speaks(k, "etcd:"))
        return HTC_OK;
    htc_status s = kv_ask(k, &q, &r);
    *has = s == HTC_OK && (r.version || r.number);
    return s;
}

/* The keys of a page once more, for a page says neither their ttl nor their lease. Those that are gone by now are left out. */
static htc_status write_in_full(kv_call *k, kv_writer *w, const htc_kv_request *get, size_t n, int *ok)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    s = htc_store_submit(k->store, get, n, 1);
    for (size_t i = 0; s == HTC_OK && i < n; i++) {
        s = htc_store_next(k->store, HTC_NEVER, &r);
        s = s == HTC_OK ? r.status : s;
        if (s == HTC_OK && *ok)
            *ok = kv_writer_put(w, &(htc_kv_check_item){ .key = get[r.index].key,
                                                         .value = r.value,
                                                         .version = r.version,
                                                         .ttl = r.ttl,
                                                         .lease = r.lease });
        s = s == HTC_ENOTFOUND ? HTC_OK : s;
    }
    return s;
}

static htc_status write_page(kv_call *k, kv_writer *w, const htc_kv_result *page, int *ok)
{
    uint8_t       *bytes = must(malloc(page->items_bytes.len + 1));
    htc_kv_result  own = *page; /* the store's is lent until it is asked again */
    htc_kv_request get[WINDOW];
    htc_kv_item    found;
    htc_status     s = HTC_OK;
    size_t         at = 0, n = 0;
    memcpy(bytes, page->items_bytes.len ? page->items_bytes.data : "", page->items_bytes.len);
    own.items_bytes.data = bytes;
    for (uint32_t i = 0; s == HTC_OK && *ok && i < own.items; i++) {
        s = htc_kv_result_item(&own, &at, &found);
        if (s == HTC_OK && speaks(k, "etcd:")) { /* which has no ttl, and a request of its own for each GET */
            *ok = kv_writer_put(w, &(htc_kv_check_item){ .key = found.key, .value = found.value, .version = found.version });
            continue;
        }
        if (s == HTC_OK)
            get[n++] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = found.key };
        if (s == HTC_OK && (n == WINDOW || i + 1 == own.items)) {
            s = write_in_full(k, w, get, n, ok);
            n = 0;
        }
    }
    free(bytes);
    return s;
}

static htc_status write_all(kv_call *k, const char *path, kv_writer *w, int spaces)
{
    char           cursor[HTC_KV_KEY_MAX];
    progress       p;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s;
    int            ok = kv_writer_begin(w, w->f);
    progress_begin(&p, k->c);
    do {
        s = kv_ask(k, &q, &r);
        if (s != HTC_OK || !ok || r.cursor.len > sizeof cursor)
            break;
        memcpy(cursor, r.cursor.len ? r.cursor.data : "", r.cursor.len);
        q.cursor = (htc_bytes){ cursor, r.cursor.len };
        s = write_page(k, w, &r, &ok);
        progress_say(&p, "%" PRIu64 " keys", w->count);
    } while (s == HTC_OK && ok && q.cursor.len);
    if (s == HTC_OK && ok && spaces)
        s = kv_backup_spaces(k, w, &ok);
    if (s == HTC_OK && ok)
        ok = kv_writer_end(w);
    progress_end(&p);
    free(w->bytes);
    if (s == HTC_OK && !ok)
        s = cli_error(k->c, write_status(errno), path, "", "cannot write: %s", strerror(errno));
    return s;
}

static void say_written(kv_call *k, const kv_writer *w, FILE *to)
{
    if (k->c->json) {
        json_t *o = json_pack("{s:I, s:I, s:I, s:I}", "keys", (json_int_t)(w->count - w->siblings), "leased", (json_int_t)w->leased,
                              "with_ttl", (json_int_t)w->ending, "siblings", (json_int_t)w->siblings);
        put_json(k->c, o);
        json_decref(o);
        return;
    }
    fprintf(to, "%" PRIu64 " key%s", w->count - w->siblings, w->count - w->siblings == 1 ? "" : "s");
    if (w->siblings)
        fprintf(to, ", %" PRIu64 " value%s of eventual namespaces", w->siblings, w->siblings == 1 ? "" : "s");
    if (w->ending)
        fprintf(to, ", %" PRIu64 " with a ttl", w->ending);
    if (w->leased)
        fprintf(to, ", %" PRIu64 " bound to a lease", w->leased);
    putc('\n', to);
}

htc_status kv_backup(kv_call *k)
{
    out_file   out = { 0 };
    int        spaces, to_stdout = out_is_stdout(k->w.at[0]);
    htc_status s = HTC_OK;
    if (to_stdout && isatty(STDOUT_FILENO))
        return cli_error(k->c, HTC_EUSAGE, "", "name a file", "a backup is no text for a terminal");
    if (!to_stdout)
        s = out_check(k->c, k->w.at[0]);
    if (s == HTC_OK)
        s = has_namespaces(k, &spaces);
    if (s == HTC_OK)
        s = out_open(k->c, &out, k->w.at[0], 0600);
    kv_writer w = { .f = out.f };
    if (s == HTC_OK)
        s = out_close(k->c, &out, write_all(k, k->w.at[0], &w, spaces));
    if (s == HTC_OK)
        say_written(k, &w, to_stdout ? stderr : stdout);
    return s;
}

/* ---- restore ---- */

static htc_status damaged(kv_call *k, const char *path, long at, const char *what)
{
    return cli_error(k->c, HTC_ECORRUPT, path, "nothing was restored", "%s at byte %ld", what, at);
}

/* The next key; *end: there is none, and the file is whole. */
static htc_status read_item(kv_call *k, FILE *f, const char *path, item *it, uint64_t before, int *end)
{
    long    at = ftell(f);
    uint8_t sum[8];
    reserve(&it->bytes, &it->cap, HEAD);
    memset(it->bytes, 0, HEAD);
    if (fread(it->bytes, 1, it->head, f) != it->head)
        return damaged(k, path, at, "it ends too early");
    it->key_len = (uint32_t)get_number(it->bytes, 4);
    it->value_len = (uint32_t)get_number(it->bytes + 4, 4);
    it->version = get_number(it->bytes + 8, 8);
    it->ttl = get_number(it->bytes + 16, 8);
    it->kind = it->bytes[24];
    if (it->key_len > HTC_KV_KEY_MAX || it->value_len > HTC_KV_VALUE_MAX || it->kind > SIBLING)
        return damaged(k, path, at, "it is damaged");
    size_t len = (size_t)it->key_len + it->value_len;
    reserve(&it->bytes, &it->cap, it->head + len);
    if (fread(it->bytes + it->head, 1, len, f) != len || fread(sum, 1, sizeof sum, f) != sizeof sum)
        return damaged(k, path, at, "it ends too early");
    if (get_number(sum, 8) != htc_hash64((htc_bytes){ it->bytes, it->head + len }, 0))
        return damaged(k, path, at, "it is damaged");
    *end = it->key_len == 0;
    if (*end && (it->version != before || fgetc(f) != EOF))
        return damaged(k, path, at, "keys are missing or added");
    return HTC_OK;
}

static htc_status rewind_to_first(kv_call *k, FILE *f, const char *path, item *it)
{
    char head[8];
    rewind(f);
    size_t n = fread(head, 1, sizeof head, f);
    it->head = n == sizeof head && memcmp(head, magic, n) == 0 ? HEAD : n == sizeof head && memcmp(head, magic_1, n) == 0 ? HEAD_1 : 0;
    if (!it->head && n == sizeof head && memcmp(head, magic, 6) == 0)
        return cli_error(k->c, HTC_EFORMAT, path, "take the htc of the version that made it", "this is a backup of another version");
    if (!it->head)
        return cli_error(k->c, HTC_EINPUT, path, "htc kv backup makes one, and htc kv dump", "this is no backup");
    return HTC_OK;
}

static htc_status check(kv_call *k, FILE *f, const char *path, item *it, uint64_t *count)
{
    htc_status s = rewind_to_first(k, f, path, it);
    int        end = 0;
    for (*count = 0; s == HTC_OK; ++*count) {
        s = read_item(k, f, path, it, *count, &end);
        if (end)
            break;
    }
    return s;
}

typedef struct restoring {
    kv_call *k;
    uint64_t count, kept, leased; /* in the file; there already; left out */
    uint64_t waiting;             /* requests on their way */
    uint64_t bytes;               /* of their values; each has its own as its tag */
    uint8_t  last[HTC_KV_KEY_MAX]; /* of a namespace: the key of the value before */
    size_t   last_len;
    int      keep;
} restoring;

/* The next answer. */
static htc_status take_answer(restoring *x)
{
    htc_kv_result r = { .size = sizeof r };
    htc_status    s = htc_store_next(x->k->store, HTC_NEVER, &r);
    x->waiting--;
    x->bytes -= s == HTC_OK ? r.tag : 0;
    if (s == HTC_OK && r.status == HTC_MISMATCH)
        x->kept++;
    else if (s == HTC_OK)
        s = r.status;
    const char *next = s == HTC_ECORRUPT ? "some keys were restored; one over there is damaged: stop it, and htc kv fsck DIR says what to do" : "some keys were restored: try again";
    return s == HTC_OK ? s : cli_error(x->k->c, s, "", next, "%s", htc_strerror(s));
}

static htc_status take_all(restoring *x)
{
    htc_status s = HTC_OK;
    while (s == HTC_OK && x->waiting)
        s = take_answer(x);
    return s;
}

/* Siblings of a key stand behind each other. */
static htc_status put_sibling(restoring *x, const item *it, htc_bytes key, htc_bytes value)
{
    const uint8_t *end = memchr(key.data, 0, key.len);
    size_t         len = end ? (size_t)(end - (const uint8_t *)key.data) : 0;
    int            first = !htc_bytes_equal(key, (htc_bytes){ x->last, x->last_len });
    htc_status     s = take_all(x);
    if (s != HTC_OK)
        return s;
    if (len == 0 || len > HTC_KV_SPACE_MAX || it->key_len == len + 1)
        return cli_error(x->k->c, HTC_ECORRUPT, "", "some keys were restored", "the backup has a key in no namespace");
    memcpy(x->last, key.data, key.len);
    x->last_len = key.len;
    s = kv_space_restore(x->k, (htc_bytes){ key.data, len }, (htc_bytes){ end + 1, key.len - len - 1 }, value, first, &x->keep);
    x->kept += s == HTC_OK && x->keep;
    return s;
}

static htc_status put_back(restoring *x, const item *it)
{
    htc_kv_request q = { .size = sizeof q, .op = x->k->replace ? HTC_KV_PUT : HTC_KV_CAS_VERSION,
                         .key = { it->bytes + it->head, it->key_len },
                         .value = { it->bytes + it->head + it->key_len, it->value_len },
                         .ttl = it->ttl };
    if (it->kind == SIBLING)
        return put_sibling(x, it, q.key, q.value);
    if (it->kind == LEASED && !x->k->leased) {
        x->leased++;
        return HTC_OK;
    }
    htc_status s = x->waiting == WINDOW ? take_answer(x) : HTC_OK;
    while (s == HTC_OK && x->waiting && x->bytes + it->value_len > WINDOW_BYTES)
        s = take_answer(x);
    if (s == HTC_OK)
        s = htc_store_submit(x->k->store, &q, 1, it->value_len);
    x->waiting += s == HTC_OK;
    x->bytes += s == HTC_OK ? it->value_len : 0;
    return s;
}

static htc_status restore_all(restoring *x, FILE *f, const char *path)
{
    item       it = { 0 };
    progress   p;
    int        end = 0;
    htc_status s = check(x->k, f, path, &it, &x->count);
    progress_begin(&p, x->k->c);
    if (s == HTC_OK)
        s = rewind_to_first(x->k, f, path, &it);
    for (uint64_t i = 0; s == HTC_OK; i++) {
        s = read_item(x->k, f, path, &it, i, &end);
        if (s != HTC_OK || end)
            break;
        s = put_back(x, &it);
        progress_say(&p, "%" PRIu64 " of %" PRIu64 " keys", i + 1, x->count);
    }
    if (s == HTC_OK)
        s = take_all(x);
    progress_end(&p);
    free(it.bytes);
    return s;
}

static void say_restored(kv_call *k, const restoring *x)
{
    uint64_t restored = x->count - x->kept - x->leased;
    if (k->c->json) {
        json_t *o = json_pack("{s:I, s:I, s:I}", "restored", (json_int_t)restored, "kept", (json_int_t)x->kept, "leased",
                              (json_int_t)x->leased);
        put_json(k->c, o);
        json_decref(o);
        return;
    }
    printf("%" PRIu64 " key%s restored", restored, restored == 1 && !x->kept ? "" : "s");
    if (x->kept)
        printf(", %" PRIu64 " exist and were kept (--replace overwrites them)", x->kept);
    if (x->leased)
        printf(", %" PRIu64 " were bound to a lease and are left out (--leased takes them, for good)", x->leased);
    putchar('\n');
}

htc_status kv_restore(kv_call *k)
{
    const char *path = k->w.at[0];
    FILE       *f = fopen(path, "rbe");
    restoring   x = { .k = k };
    if (!f)
        return cli_error(k->c, HTC_EINPUT, path, "", "cannot read: %s", strerror(errno));
    htc_status s = restore_all(&x, f, path);
    fclose(f);
    if (s == HTC_OK)
        say_restored(k, &x);
    return s;
}
