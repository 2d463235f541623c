/* htc kv backup and restore: every key and value in one file.
 *
 * The file: "HTCKVB01", then for each key u32 length of the key (1 to HTC_KV_KEY_MAX), u32 length of the value, u64 version, key,
 * value, u64 XXH3 of all of that; at the end u32 0, u32 0, u64 how many there were, u64 XXH3 of these sixteen bytes. Integers are
 * little-endian. The file appears under its name when it is complete and on the disk; it is read to its end before the first
 * key of it is restored. Each key is as it was at some moment of the backup; versions are for people: a restored key gets a new one. */
#include "kv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[] = "HTCKVB01";

#define HEAD 16

typedef struct item {
    uint32_t key_len, value_len;
    uint64_t version;
    uint8_t *bytes; /* head, key, value */
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

static int write_item(kv_writer *w, uint32_t key_len, uint32_t value_len, uint64_t number, htc_bytes key, htc_bytes value)
{
    uint8_t sum[8];
    size_t  len = HEAD + (size_t)key_len + value_len;
    reserve(&w->bytes, &w->cap, len);
    put_number(w->bytes, key_len, 4);
    put_number(w->bytes + 4, value_len, 4);
    put_number(w->bytes + 8, number, 8);
    if (key_len)
        memcpy(w->bytes + HEAD, key.data, key_len);
    if (value_len)
        memcpy(w->bytes + HEAD + key_len, value.data, value_len);
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

int kv_writer_put(kv_writer *w, htc_bytes key, uint64_t version, htc_bytes value)
{
    w->count++;
    return write_item(w, (uint32_t)key.len, (uint32_t)value.len, version, key, value);
}

int kv_writer_end(kv_writer *w)
{
    return write_item(w, 0, 0, w->count, (htc_bytes){ NULL, 0 }, (htc_bytes){ NULL, 0 }) && fflush(w->f) == 0;
}

static htc_status write_all(kv_call *k, FILE *f, const char *path, uint64_t *count)
{
    char           cursor[HTC_KV_KEY_MAX];
    progress       p;
    kv_writer      w;
    htc_kv_request q = { .op = HTC_KV_SCAN };
    htc_kv_result  r;
    htc_status     s;
    int            ok = kv_writer_begin(&w, f);
    progress_begin(&p, k->c);
    do {
        size_t      at = 0;
        htc_kv_item found;
        s = kv_ask(k, &q, &r);
        for (uint32_t i = 0; s == HTC_OK && ok && i < r.items; i++) {
            s = htc_kv_result_item(&r, &at, &found);
            ok = s == HTC_OK && kv_writer_put(&w, found.key, found.version, found.value);
        }
        if (s != HTC_OK || !ok || r.cursor.len > sizeof cursor)
            break;
        progress_say(&p, "%" PRIu64 " keys", w.count);
        memcpy(cursor, r.cursor.len ? r.cursor.data : "", r.cursor.len);
        q.cursor = (htc_bytes){ cursor, r.cursor.len };
    } while (q.cursor.len);
    if (s == HTC_OK && ok)
        ok = kv_writer_end(&w);
    *count = w.count;
    progress_end(&p);
    free(w.bytes);
    if (s == HTC_OK && !ok)
        s = cli_error(k->c, errno == ENOSPC ? HTC_ENOSPC : HTC_EIO, path, "", "cannot write: %s", strerror(errno));
    return s;
}

htc_status kv_backup(kv_call *k)
{
    const char *path = k->w.at[0];
    char       *temporary = must_print("%s.%ld", path, (long)getpid());
    FILE       *f = kv_create(temporary);
    uint64_t    count = 0;
    htc_status  s;
    if (!f) {
        s = cli_error(k->c, HTC_EIO, path, "name another place", "cannot write: %s", strerror(errno));
        free(temporary);
        return s;
    }
    s = write_all(k, f, path, &count);
    int ok = fflush(f) == 0 && fsync(fileno(f)) == 0;
    ok = fclose(f) == 0 && ok;
    if (s == HTC_OK && !(ok && rename(temporary, path) == 0))
        s = cli_error(k->c, errno == ENOSPC ? HTC_ENOSPC : HTC_EIO, path, "", "cannot write: %s", strerror(errno));
    if (s != HTC_OK)
        unlink(temporary);
    free(temporary);
    if (s == HTC_OK && k->c->json) {
        json_t *o = json_pack("{s:I}", "keys", (json_int_t)count);
        put_json(k->c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        printf("%" PRIu64 " key%s\n", count, count == 1 ? "" : "s");
    }
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
    if (fread(it->bytes, 1, HEAD, f) != HEAD)
        return damaged(k, path, at, "it ends too early");
    it->key_len = (uint32_t)get_number(it->bytes, 4);
    it->value_len = (uint32_t)get_number(it->bytes + 4, 4);
    it->version = get_number(it->bytes + 8, 8);
    if (it->key_len > HTC_KV_KEY_MAX || it->value_len > HTC_KV_VALUE_MAX)
        return damaged(k, path, at, "it is damaged");
    size_t len = (size_t)it->key_len + it->value_len;
    reserve(&it->bytes, &it->cap, HEAD + len);
    if (fread(it->bytes + HEAD, 1, len, f) != len || fread(sum, 1, sizeof sum, f) != sizeof sum)
        return damaged(k, path, at, "it ends too early");
    if (get_number(sum, 8) != htc_hash64((htc_bytes){ it->bytes, HEAD + len }, 0))
        return damaged(k, path, at, "it is damaged");
    *end = it->key_len == 0;
    if (*end && (it->version != before || fgetc(f) != EOF))
        return damaged(k, path, at, "keys are missing or added");
    return HTC_OK;
}

static htc_status rewind_to_first(kv_call *k, FILE *f, const char *path)
{
    char head[8];
    rewind(f);
    if (fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, magic, sizeof head) != 0)
        return cli_error(k->c, HTC_EFORMAT, path, "htc kv backup makes one", "this is no backup of this version");
    return HTC_OK;
}

static htc_status check(kv_call *k, FILE *f, const char *path, item *it, uint64_t *count)
{
    htc_status s = rewind_to_first(k, f, path);
    int        end = 0;
    for (*count = 0; s == HTC_OK; ++*count) {
        s = read_item(k, f, path, it, *count, &end);
        if (end)
            break;
    }
    return s;
}

/* Requests on their way at once. */
#define WINDOW 64

/* The next answer; *kept counts keys that were there already and stay. */
static htc_status take_answer(kv_call *k, uint64_t *kept)
{
    htc_kv_result r;
    htc_status    s = htc_store_next(k->store, HTC_NEVER, &r);
    if (s == HTC_OK && r.status == HTC_MISMATCH)
        ++*kept;
    else if (s == HTC_OK)
        s = r.status;
    return s == HTC_OK ? s : cli_error(k->c, s, "", "some keys were restored: try again", "%s", htc_strerror(s));
}

static htc_status put_back(kv_call *k, const item *it, uint64_t i, uint64_t *kept)
{
    htc_kv_request q = { .op = k->replace ? HTC_KV_PUT : HTC_KV_CAS_VERSION,
                         .key = { it->bytes + HEAD, it->key_len },
                         .value = { it->bytes + HEAD + it->key_len, it->value_len } };
    htc_status     s = i >= WINDOW ? take_answer(k, kept) : HTC_OK;
    if (s == HTC_OK)
        s = htc_store_submit(k->store, &q, 1, i);
    return s;
}

static htc_status restore_all(kv_call *k, FILE *f, const char *path, uint64_t *kept, uint64_t *count)
{
    item       it = { 0 };
    progress   p;
    int        end = 0;
    htc_status s = check(k, f, path, &it, count);
    progress_begin(&p, k->c);
    if (s == HTC_OK)
        s = rewind_to_first(k, f, path);
    for (uint64_t i = 0; s == HTC_OK; i++) {
        s = read_item(k, f, path, &it, i, &end);
        if (s != HTC_OK || end)
            break;
        s = put_back(k, &it, i, kept);
        progress_say(&p, "%" PRIu64 " of %" PRIu64 " keys", i + 1, *count);
    }
    for (uint64_t left = *count < WINDOW ? *count : WINDOW; s == HTC_OK && left > 0; left--)
        s = take_answer(k, kept);
    progress_end(&p);
    free(it.bytes);
    return s;
}

htc_status kv_restore(kv_call *k)
{
    const char *path = k->w.at[0];
    FILE       *f = fopen(path, "rbe");
    uint64_t    count = 0, kept = 0;
    if (!f)
        return cli_error(k->c, HTC_EINPUT, path, "", "cannot read: %s", strerror(errno));
    htc_status s = restore_all(k, f, path, &kept, &count);
    fclose(f);
    if (s != HTC_OK)
        return s;
    if (k->c->json) {
        json_t *o = json_pack("{s:I, s:I}", "restored", (json_int_t)(count - kept), "kept", (json_int_t)kept);
        put_json(k->c, o);
        json_decref(o);
    } else if (kept) {
        printf("%" PRIu64 " keys restored, %" PRIu64 " exist and were kept (--replace overwrites them)\n", count - kept,
               kept);
    } else {
        printf("%" PRIu64 " key%s restored\n", count, count == 1 ? "" : "s");
    }
    return HTC_OK;
}
