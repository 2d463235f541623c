/* htc kv backup and restore: every key and value in one file (htcsched/kv_backup.h).
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

#define WINDOW 64 /* requests on their way at once */
/* And values: a slow disk has to take them while one of them has time (--timeout). A longer one goes alone. */
#define WINDOW_BYTES ((size_t)4 << 20)

/* ---- backup ---- */

/* What was put into the buffer goes to the file. s: of what put it there. */
static int write_out(kv_writer *w, htc_status s)
{
    if (s != HTC_OK)
        errno = s == HTC_ENOMEM ? ENOMEM : s == HTC_EFULL || s == HTC_ETOOBIG ? EMSGSIZE : EINVAL;
    int ok = s == HTC_OK && fwrite(w->bytes.data, 1, w->bytes.len, w->f) == w->bytes.len;
    htc_buf_clear(&w->bytes);
    return ok;
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
    *w = (kv_writer){ .f = f, .counts.size = sizeof w->counts };
    htc_buf_init(&w->bytes, NULL, 0);
    return write_out(w, htc_kv_backup_begin(&w->bytes, &w->counts));
}

int kv_writer_put(kv_writer *w, const htc_kv_backup_item *it)
{
    return write_out(w, htc_kv_backup_put(&w->bytes, &w->counts, it));
}

int kv_writer_end(kv_writer *w)
{
    return write_out(w, htc_kv_backup_end(&w->bytes, &w->counts)) && fflush(w->f) == 0;
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
            *ok = kv_writer_put(w, &(htc_kv_backup_item){ .size = sizeof(htc_kv_backup_item),
                                                          .key = get[r.index].key,
                                                          .value = r.value,
                                                          .version = r.version,
                                                          .ttl = r.ttl,
                                                          .leased = r.lease != 0 });
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
            *ok = kv_writer_put(w, &(htc_kv_backup_item){ .size = sizeof(htc_kv_backup_item),
                                                          .key = found.key,
                                                          .value = found.value,
                                                          .version = found.version });
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
        progress_say(&p, "%" PRIu64 " key%s", w->counts.items, plural(w->counts.items));
    } while (s == HTC_OK && ok && q.cursor.len);
    if (s == HTC_OK && ok && spaces)
        s = kv_backup_spaces(k, w, &ok);
    if (s == HTC_OK && ok)
        ok = kv_writer_end(w);
    progress_end(&p);
    htc_buf_free(&w->bytes);
    if (s == HTC_OK && !ok)
        s = cli_error(k->c, write_status(errno), path, "", "cannot write: %s", strerror(errno));
    return s;
}

static void say_written(kv_call *k, const htc_kv_backup_counts *n, FILE *to)
{
    uint64_t keys = n->items - n->siblings;
    if (k->c->json) {
        json_t *o = json_pack("{s:I, s:I, s:I, s:I}", "keys", (json_int_t)keys, "leased", (json_int_t)n->leased, "with_ttl",
                              (json_int_t)n->with_ttl, "siblings", (json_int_t)n->siblings);
        put_json(k->c, o);
        json_decref(o);
        return;
    }
    fprintf(to, "%" PRIu64 " key%s", keys, keys == 1 ? "" : "s");
    if (n->siblings)
        fprintf(to, ", %" PRIu64 " value%s of eventual namespaces", n->siblings, n->siblings == 1 ? "" : "s");
    if (n->with_ttl)
        fprintf(to, ", %" PRIu64 " with a ttl", n->with_ttl);
    if (n->leased)
        fprintf(to, ", %" PRIu64 " bound to a lease", n->leased);
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
        say_written(k, &w.counts, to_stdout ? stderr : stdout);
    return s;
}

/* ---- restore ---- */

/* A backup that is read from its beginning. */
typedef struct backup_file {
    FILE                *f;
    const char          *path;
    htc_kv_backup_reader reader;
    htc_kv_backup_item   item;
    uint8_t             *bytes; /* of the item */
    size_t               have, cap;
    int                  last;
} backup_file;

static void from_the_first(backup_file *b)
{
    rewind(b->f);
    b->reader = (htc_kv_backup_reader){ .size = sizeof b->reader };
    b->item = (htc_kv_backup_item){ .size = sizeof b->item };
    b->have = 0;
    b->last = 0;
}

static htc_status refused(kv_call *k, const backup_file *b, htc_status s)
{
    const char *what = b->reader.wrong;
    if (s == HTC_ECORRUPT)
        return cli_error(k->c, s, b->path, "nothing was restored", "%s at byte %" PRIu64, what, b->reader.wrong_at);
    return cli_error(k->c, s, b->path, s == HTC_EFORMAT ? "take the htc of the version that made it" : "htc kv backup makes one, and htc kv dump", "%s",
                     what ? what : htc_strerror(s));
}

/* The next item; *end: there is none, and the file is whole. */
static htc_status read_item(kv_call *k, backup_file *b, int *end)
{
    htc_status s;
    while ((s = htc_kv_backup_read(&b->reader, (htc_bytes){ b->bytes, b->have }, b->last, &b->item)) == HTC_AGAIN) {
        if (b->reader.need > b->cap) {
            b->bytes = must(realloc(b->bytes, b->reader.need));
            b->cap = b->reader.need;
        }
        b->have += fread(b->bytes + b->have, 1, b->reader.need - b->have, b->f);
        b->last = b->have < b->reader.need;
    }
    b->have = 0; /* no more was read than the item takes */
    *end = s == HTC_EMPTY;
    return s == HTC_OK || *end ? HTC_OK : refused(k, b, s);
}

static htc_status check(kv_call *k, backup_file *b)
{
    htc_status s;
    int        end = 0;
    from_the_first(b);
    do
        s = read_item(k, b, &end);
    while (s == HTC_OK && !end);
    return s;
}

typedef struct restoring {
    kv_call *k;
    uint64_t count, kept, leased; /* in the file; there already; left out */
    uint64_t waiting;             /* requests on their way */
    uint64_t bytes;               /* of their values; each has its own as its tag */
    /* Of a namespace: that of the value before, and its key. */
    uint8_t last_space[HTC_KV_SPACE_MAX], last_key[HTC_KV_KEY_MAX];
    size_t  last_space_len, last_key_len;
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
static htc_status put_sibling(restoring *x, const htc_kv_backup_item *it)
{
    int        first = !htc_bytes_equal(it->key, (htc_bytes){ x->last_key, x->last_key_len }) ||
                !htc_bytes_equal(it->space, (htc_bytes){ x->last_space, x->last_space_len });
    htc_status s = take_all(x);
    if (s != HTC_OK)
        return s;
    memcpy(x->last_space, it->space.data, it->space.len);
    memcpy(x->last_key, it->key.data, it->key.len);
    x->last_space_len = it->space.len;
    x->last_key_len = it->key.len;
    s = kv_space_restore(x->k, it->space, it->key, it->value, first, &x->keep);
    x->kept += s == HTC_OK && x->keep;
    return s;
}

static htc_status put_back(restoring *x, const htc_kv_backup_item *it)
{
    htc_kv_request q = { .size = sizeof q, .op = x->k->replace ? HTC_KV_PUT : HTC_KV_CAS_VERSION, .key = it->key, .value = it->value, .ttl = it->ttl };
    if (it->space.len)
        return put_sibling(x, it);
    if (it->leased && !x->k->leased) {
        x->leased++;
        return HTC_OK;
    }
    htc_status s = x->waiting == WINDOW ? take_answer(x) : HTC_OK;
    while (s == HTC_OK && x->waiting && x->bytes + it->value.len > WINDOW_BYTES)
        s = take_answer(x);
    if (s == HTC_OK)
        s = htc_store_submit(x->k->store, &q, 1, it->value.len);
    x->waiting += s == HTC_OK;
    x->bytes += s == HTC_OK ? it->value.len : 0;
    return s;
}

static htc_status restore_all(restoring *x, backup_file *b)
{
    progress   p;
    int        end = 0;
    htc_status s = check(x->k, b);
    x->count = b->reader.items;
    progress_begin(&p, x->k->c);
    if (s == HTC_OK)
        from_the_first(b);
    while (s == HTC_OK) {
        s = read_item(x->k, b, &end);
        if (s != HTC_OK || end)
            break;
        s = put_back(x, &b->item);
        progress_say(&p, "%" PRIu64 " of %" PRIu64 " key%s", b->reader.items, x->count, plural(x->count));
    }
    if (s == HTC_OK)
        s = take_all(x);
    progress_end(&p);
    free(b->bytes);
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
    backup_file b = { .f = fopen(k->w.at[0], "rbe"), .path = k->w.at[0] };
    restoring   x = { .k = k };
    if (!b.f)
        return cli_error(k->c, HTC_EINPUT, b.path, "", "cannot read: %s", strerror(errno));
    htc_status s = restore_all(&x, &b);
    fclose(b.f);
    if (s == HTC_OK)
        say_restored(k, &x);
    return s;
}
