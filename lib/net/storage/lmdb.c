/* The engine on disk: LMDB, one transaction a batch.
 *
 * The map is made as large as addresses allow and the file grows in it, so the map never has to be moved under a reader.
 * LMDB's own lock table lets the loop read while a worker commits; a lock of ours keeps a second process out. */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "kvs/storage/schema.h"
#include "net/storage/lmdb.h"

#define LMDB_FORMAT "htcsched-store 2"
#define MAP_MIN ((uint64_t)64 << 20)
#define MAP_MAX ((uint64_t)1 << 40)
/* More than LMDB wants for its table of readers: taken at once, for a full disk found later would be a SIGBUS. */
#define LOCK_TABLE_BYTES (16 << 10)
#define PROBE_BYTES ((size_t)1 << 20)
#define DATA_NAME "data.mdb"

typedef struct lmdb {
    htc_env  env;
    MDB_env *mdb;
    MDB_dbi  dbi;
    MDB_txn *reader; /* of the server's thread; reset between calls but for what a get has lent */
    int      reading;
    int      lock;
} lmdb;

static htc_status status_of(int rc)
{
    switch (rc) {
    case MDB_SUCCESS: return HTC_OK;
    case MDB_NOTFOUND: return HTC_ENOTFOUND;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return HTC_ENOSPC;
    case ENOMEM: return HTC_ENOMEM;
    case EACCES:
    case EPERM:
    case EROFS: return HTC_EDENIED;
    case MDB_VERSION_MISMATCH: return HTC_EFORMAT;
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND: return HTC_ECORRUPT;
    default: return HTC_EIO;
    }
}

static htc_status read_begin(lmdb *l)
{
    if (l->reading)
        mdb_txn_reset(l->reader);
    l->reading = 0;
    int rc = l->reader ? mdb_txn_renew(l->reader) : mdb_txn_begin(l->mdb, NULL, MDB_RDONLY, &l->reader);
    l->reading = rc == 0;
    return status_of(rc);
}

static MDB_val val_of(htc_bytes bytes)
{
    return (MDB_val){ bytes.len, (void *)(uintptr_t)bytes.data };
}

static htc_status lmdb_get(void *ctx, htc_bytes key, htc_bytes *value)
{
    lmdb      *l = ctx;
    MDB_val    k = val_of(key), v;
    htc_status status = read_begin(l);
    if (status == HTC_OK)
        status = status_of(mdb_get(l->reader, l->dbi, &k, &v));
    if (status == HTC_OK)
        *value = (htc_bytes){ v.mv_data, v.mv_size };
    return status;
}

static htc_status lmdb_scan(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    lmdb       *l = ctx;
    MDB_cursor *cursor;
    MDB_val     k = val_of(from), v;
    htc_status  status = read_begin(l);
    if (status != HTC_OK)
        return status;
    int rc = mdb_cursor_open(l->reader, l->dbi, &cursor);
    if (rc != 0)
        return status_of(rc);
    for (rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE); rc == 0; rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT))
        if (!visit(visitor, (htc_bytes){ k.mv_data, k.mv_size }, (htc_bytes){ v.mv_data, v.mv_size }))
            break;
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? HTC_OK : status_of(rc);
}

/* Of records whose keys are bytes in order; visit NULL: only counted. */
typedef struct walk {
    htc_kv_visit visit;
    void        *visitor;
    uint64_t     seen, astray;
    uint8_t      before[HTC_KV_ENGINE_KEY_MAX + 1];
    size_t       before_len;
} walk;

static void place(const lmdb *l, walk *w, MDB_val key, MDB_val value)
{
    MDB_val   again = key, found;
    htc_bytes k = { key.mv_data, key.mv_size }, before = { w->before, w->before_len };
    int       wrong = key.mv_size == 0 || key.mv_size > HTC_KV_ENGINE_KEY_MAX || (w->seen && htc_bytes_compare(before, k) >= 0);
    wrong |= mdb_get(l->reader, l->dbi, &again, &found) != 0 || found.mv_data != value.mv_data;
    w->astray += (uint64_t)wrong;
    w->before_len = key.mv_size < sizeof w->before ? key.mv_size : sizeof w->before;
    memcpy(w->before, key.mv_data, w->before_len);
}

static int walk_all(const lmdb *l, MDB_dbi dbi, walk *w)
{
    MDB_cursor *cursor;
    MDB_val     k, v;
    int         rc = mdb_cursor_open(l->reader, dbi, &cursor);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &k, &v, MDB_FIRST); rc == 0; rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        if (w->visit) {
            place(l, w, k, v);
            if (!w->visit(w->visitor, (htc_bytes){ k.mv_data, k.mv_size }, (htc_bytes){ v.mv_data, v.mv_size }))
                break;
        }
        w->seen++;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

#define FREE_LIST ((MDB_dbi)0)

htc_status htc__lmdb_walk(const htc_kv_engine *engine, htc_kv_visit visit, void *visitor, htc__lmdb_walked *walked)
{
    lmdb      *l = engine->ctx;
    walk       w = { .visit = visit, .visitor = visitor }, spare = { .seen = 0 };
    MDB_stat   all = { 0 }, list = { 0 };
    htc_status status = read_begin(l);
    if (status != HTC_OK)
        return status;
    int rc = mdb_stat(l->reader, l->dbi, &all);
    if (rc == 0)
        rc = walk_all(l, l->dbi, &w);
    int free_rc = mdb_stat(l->reader, FREE_LIST, &list);
    if (free_rc == 0)
        free_rc = walk_all(l, FREE_LIST, &spare);
    *walked = (htc__lmdb_walked){ all.ms_entries, w.seen, w.astray, list.ms_entries, spare.seen };
    return status_of(rc ? rc : free_rc);
}

static int put_all(lmdb *l, MDB_txn *txn, htc_bytes batch, int *more)
{
    htc_kv_change change;
    size_t        at = 0;
    int           rc = 0;
    while (rc == 0 && (*more = htc_kv_batch_next(batch, &at, &change)) > 0) {
        MDB_val k = val_of(change.key), v = val_of(change.value);
        rc = change.drop ? mdb_del(txn, l->dbi, &k, NULL) : mdb_put(txn, l->dbi, &k, &v, 0);
        if (change.drop && rc == MDB_NOTFOUND)
            rc = 0;
    }
    return rc;
}

/* LMDB says EIO when the disk took a part of what it wrote, that is, when it was full. The transaction is off then, and
 * nothing that is stored refers to it; so ask for the room it wanted. A disk that has it has failed in earnest. */
static htc_status full_or_failed(lmdb *l, size_t wanted)
{
    struct stat file;
    int         fd;
    if (mdb_env_get_fd(l->mdb, &fd) != 0 || fstat(fd, &file) != 0)
        return HTC_EIO;
    int rc = posix_fallocate(fd, file.st_size, (off_t)(2 * wanted + PROBE_BYTES));
    return status_of(rc) == HTC_ENOSPC ? HTC_ENOSPC : HTC_EIO;
}

/* As of a log: what is wrong, where, why, and what to do. */
static void say_failed(const lmdb *l, int rc)
{
    const char *dir = "";
    mdb_env_get_path(l->mdb, &dir);
    htc__log_with(&l->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("dir", dir), HTC__TEXT("file", DATA_NAME)),
                  "store %s/" DATA_NAME ": a batch cannot be written (%s): what is on the disk is not known -> end; look at the disk, then "
                  "start again: what was acknowledged is there", dir, mdb_strerror(rc));
}

static htc_status lmdb_apply(void *ctx, htc_bytes batch)
{
    lmdb    *l = ctx;
    MDB_txn *txn;
    int      more = 0, rc = mdb_txn_begin(l->mdb, NULL, 0, &txn);
    if (rc != 0)
        return status_of(rc);
    rc = put_all(l, txn, batch, &more);
    if (rc != 0 || more < 0) {
        mdb_txn_abort(txn);
        return rc != 0 ? status_of(rc) : HTC_ECORRUPT;
    }
    rc = mdb_txn_commit(txn);
    htc_status status = rc == EIO ? full_or_failed(l, batch.len) : status_of(rc);
    if (status == HTC_EIO)
        say_failed(l, rc);
    return status;
}

static size_t lmdb_used(const void *ctx)
{
    (void)ctx;
    return 0;
}

static void lmdb_destroy(void *ctx)
{
    lmdb *l = ctx;
    if (!l)
        return;
    htc_env env = l->env;
    if (l->reader)
        mdb_txn_abort(l->reader);
    if (l->mdb)
        mdb_env_close(l->mdb);
    if (l->lock >= 0)
        close(l->lock);
    htc__free(&env, l, sizeof *l);
}

htc_status htc_kv_lmdb_sync(const htc_kv_engine *engine)
{
    lmdb *l = engine->ctx;
    return status_of(mdb_env_sync(l->mdb, 1));
}

/* Under "fr": one byte, htc_kv_durability, and what names the start of the machine. */
typedef struct run {
    uint8_t durability;
    char    boot[HTC_HOST_BOOT_MAX];
} run;

static int write_run(lmdb *l, const run *now)
{
    MDB_txn *txn;
    MDB_val  k = val_of(htc_bytes_of("fr")), v = { sizeof *now, (void *)(uintptr_t)now };
    int      rc = mdb_env_sync(l->mdb, 1); /* first what was written before, however it was */
    if (rc == 0)
        rc = mdb_txn_begin(l->mdb, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    rc = mdb_put(txn, l->dbi, &k, &v, 0);
    if (rc != 0)
        mdb_txn_abort(txn);
    else if ((rc = mdb_txn_commit(txn)) == 0)
        rc = mdb_env_sync(l->mdb, 1);
    return rc;
}

htc_status htc__lmdb_runs(const htc_kv_engine *engine, uint32_t durability, const char boot[HTC_HOST_BOOT_MAX], int *lost)
{
    lmdb      *l = engine->ctx;
    run        now = { .durability = (uint8_t)durability }, then;
    htc_bytes  found = { NULL, 0 };
    htc_status status = lmdb_get(l, htc_bytes_of("fr"), &found);
    memcpy(now.boot, boot, sizeof now.boot);
    *lost = 0;
    if (status != HTC_OK && status != HTC_ENOTFOUND)
        return status;
    if (status == HTC_OK && found.len != sizeof then)
        return HTC_ECORRUPT;
    then = (run){ .durability = HTC_KV_SYNC }; /* as whoever has always synced, and has nothing to write down on a full disk */
    if (status == HTC_OK)
        memcpy(&then, found.data, sizeof then);
    *lost = then.durability != HTC_KV_SYNC && memcmp(then.boot, now.boot, sizeof now.boot) != 0;
    int same = then.durability == now.durability &&
               (now.durability == HTC_KV_SYNC || memcmp(then.boot, now.boot, sizeof now.boot) == 0);
    return *lost || same ? HTC_OK : status_of(write_run(l, &now));
}

/* ---------------------------------------------------------------- opening */

static htc_status failed(htc_error *error, htc_status status, const char *dir, const char *what)
{
    return htc__error(error, status, "store %s: %s", dir, what);
}

static htc_status failed_rc(htc_error *error, const char *dir, int rc)
{
    return failed(error, status_of(rc), dir, mdb_strerror(rc));
}

/* The directory, our lock, and the place of LMDB's lock table. */
static htc_status take(lmdb *l, const char *dir, htc_error *error)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return failed_rc(error, dir, errno);
    int at = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (at < 0)
        return failed_rc(error, dir, errno);
    int rc = 0, table = -1;
    l->lock = openat(at, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l->lock < 0 || flock(l->lock, LOCK_EX | LOCK_NB) != 0)
        rc = errno;
    if (rc == 0 && (table = openat(at, "lock.mdb", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
        rc = errno;
    if (table >= 0) {
        rc = posix_fallocate(table, 0, LOCK_TABLE_BYTES);
        /* A file system that cannot reserve is no reason to refuse. */
        if (rc == EOPNOTSUPP || rc == EINVAL)
            rc = 0;
        close(table);
    }
    close(at);
    if (rc == EWOULDBLOCK)
        return failed(error, HTC_ELOCKED, dir, "in use by another process");
    return rc == 0 ? HTC_OK : failed_rc(error, dir, rc);
}

/* As large as there is room for addresses. Valgrind says by EINVAL that there is none. */
static int open_map(lmdb *l, const char *dir, unsigned flags, uint64_t bytes_max)
{
    int rc = ENOMEM;
    for (uint64_t size = bytes_max < SIZE_MAX ? bytes_max : SIZE_MAX; rc == ENOMEM || rc == EINVAL; size /= 2) {
        if ((rc = mdb_env_create(&l->mdb)) != 0)
            return rc;
        if ((rc = mdb_env_set_mapsize(l->mdb, (size_t)size)) == 0)
            rc = mdb_env_open(l->mdb, dir, flags, 0600);
        if (rc != 0) {
            mdb_env_close(l->mdb);
            l->mdb = NULL;
        }
        if (size < MAP_MIN)
            break;
    }
    return rc;
}

/* A file that was cut short would be a SIGBUS at the first read beyond its end. Zeros are found to be no page, or by a
 * record's checksum. (It is not always damage: LMDB counts pages that it never had to write.) */
static int mend_length(lmdb *l)
{
    MDB_envinfo info;
    MDB_stat    stat;
    struct stat file;
    int         fd, rc;
    if ((rc = mdb_env_info(l->mdb, &info)) != 0 || (rc = mdb_env_stat(l->mdb, &stat)) != 0 ||
        (rc = mdb_env_get_fd(l->mdb, &fd)) != 0)
        return rc;
    off_t length = ((off_t)info.me_last_pgno + 1) * (off_t)stat.ms_psize;
    return fstat(fd, &file) == 0 && (file.st_size >= length || ftruncate(fd, length) == 0) ? 0 : errno;
}

static htc_status check_format(lmdb *l, MDB_txn *txn, const char *dir, htc_error *error)
{
    MDB_val  k = val_of(htc__schema_name(HTC__SCHEMA_FORMAT)), v;
    MDB_stat stat;
    int      rc = mdb_get(txn, l->dbi, &k, &v);
    if (rc == 0) {
        htc_bytes found = { v.mv_data, v.mv_size };
        if (htc_bytes_equal(found, htc_bytes_of(LMDB_FORMAT)))
            return HTC_OK;
        return htc__error(error, HTC_EFORMAT, "store %s: format \"%.*s\", this program reads \"%s\"", dir,
                          (int)(v.mv_size < 64 ? v.mv_size : 64), (const char *)v.mv_data, LMDB_FORMAT);
    }
    if (rc != MDB_NOTFOUND || (rc = mdb_stat(txn, l->dbi, &stat)) != 0)
        return failed_rc(error, dir, rc);
    if (stat.ms_entries != 0)
        return failed(error, HTC_ECORRUPT, dir, "an LMDB file, but not of a store");
    v = val_of(htc_bytes_of(LMDB_FORMAT));
    rc = mdb_put(txn, l->dbi, &k, &v, 0);
    return rc == 0 ? HTC_OK : failed_rc(error, dir, rc);
}

static htc_status open_store(lmdb *l, const char *dir, const htc_kv_lmdb_options *o, htc_error *error)
{
    htc_status status = take(l, dir, error);
    if (status != HTC_OK)
        return status;
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (o->durability == HTC_KV_SYNC ? 0 : MDB_NOSYNC);
    MDB_txn *txn = NULL;
    int      rc = open_map(l, dir, flags, o->bytes_max ? o->bytes_max : MAP_MAX);
    if (rc == 0)
        rc = mend_length(l);
    if (rc == 0 && mdb_env_get_maxkeysize(l->mdb) < HTC_KV_ENGINE_KEY_MAX)
        return failed(error, HTC_EUNSUPPORTED, dir, "this LMDB takes no keys of our length");
    if (rc == 0)
        rc = mdb_txn_begin(l->mdb, NULL, 0, &txn);
    if (rc == 0)
        rc = mdb_dbi_open(txn, NULL, 0, &l->dbi);
    if (rc == 0) {
        if ((status = check_format(l, txn, dir, error)) != HTC_OK) {
            mdb_txn_abort(txn);
            return status;
        }
        rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    if (txn)
        mdb_txn_abort(txn);
    return rc == 0 ? HTC_OK : failed_rc(error, dir, rc);
}

htc_status htc_kv_lmdb_open(const htc_env *env, const htc_kv_lmdb_options *options, htc_kv_engine *engine,
                            htc_error *error)
{
    static const htc_kv_engine_ops ops = {
        .size = sizeof ops,
        .get = lmdb_get,
        .scan = lmdb_scan,
        .apply = lmdb_apply,
        .used = lmdb_used,
        .destroy = lmdb_destroy,
    };
    htc_kv_lmdb_options o = { 0 };
    if (!options || !engine)
        return htc__error(error, HTC_EINVAL, "no options");
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_kv_lmdb_options, durability));
    o.durability = o.durability ? o.durability : HTC_KV_SYNC;
    if (status == HTC_OK && (!o.dir || !o.dir[0] || o.durability > HTC_KV_MEMORY))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "%s", htc_strerror(status));
    lmdb *l = htc__alloc(env, sizeof *l);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "%s", htc_strerror(HTC_ENOMEM));
    if (env)
        l->env = *env;
    l->lock = -1;
    status = open_store(l, o.dir, &o, error);
    if (status != HTC_OK) {
        lmdb_destroy(l);
        return status;
    }
    *engine = (htc_kv_engine){ &ops, l };
    return HTC_OK;
}
