/* htc kv fsck and dump: a store that no member holds. Nothing in it is changed, and what is damaged keeps nothing else from being read. */
#include "kv.h"
#include "kv_apart.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../htc-kvd/namespaces.h"

typedef struct looking {
    kv_call  *k;
    FILE     *f; /* dump: a backup; NULL: no */
    kv_writer out;
    json_t   *problems;
    uint64_t  shown, taken; /* dump --json: records; dump: values */
    int       quiet, begun; /* dump: problems go to standard error; the head is written */
    int       why;          /* dump: the errno of a write that failed */
} looking;

static void on_problem(void *ctx, const htc_kv_problem *p)
{
    looking *l = ctx;
    if (l->problems) {
        json_array_append_new(l->problems, json_pack("{s:s, s:I, s:s, s:s, s:s}", "file", p->file, "offset", (json_int_t)p->offset,
                                                     "error", htc_status_name(p->status), "cause", p->text, "next", p->next));
        return;
    }
    char place[32] = "";
    if (p->offset) /* 0: the beginning, or nobody knows */
        snprintf(place, sizeof place, ", byte %" PRIu64, p->offset);
    fprintf(l->f || l->quiet ? stderr : stdout, "%s%s: %s -> %s\n", p->file, place, p->text, p->next);
}

static htc_status wrote(looking *l, int ok)
{
    if (!ok && !l->why)
        l->why = errno ? errno : EIO;
    return ok ? HTC_OK : HTC_EIO;
}

/* Nothing is written before it is known that there is a store. */
static htc_status begin(looking *l)
{
    int first = !l->begun;
    l->begun = 1;
    return first ? wrote(l, kv_writer_begin(&l->out, l->f)) : HTC_OK;
}

static htc_status on_item(void *ctx, const htc_kv_check_item *it)
{
    looking *l = ctx;
    if (l->k->space && !htc_bytes_equal(it->space, htc_bytes_of(l->k->space)))
        return HTC_OK;
    l->taken++;
    if (l->f && begin(l) != HTC_OK)
        return HTC_EIO;
    if (l->f)
        return wrote(l, kv_writer_put(&l->out, &(htc_kv_backup_item){ .size = sizeof(htc_kv_backup_item),
                                                                      .space = it->space,
                                                                      .key = it->key,
                                                                      .value = it->value,
                                                                      .version = it->version,
                                                                      .ttl = it->ttl,
                                                                      .leased = it->lease != 0 }));
    json_t *o = kv_json(it->key, &it->value, it->version);
    if (it->space.len) {
        kv_put_bytes(o, "namespace", it->space);
        json_object_del(o, "version");
    }
    if (it->ttl)
        json_object_set_new(o, "ttl_s", json_real((double)it->ttl / 1e9));
    if (it->lease)
        json_object_set_new(o, "leased", json_true());
    fputs(l->shown++ ? ",\n" : "[", stdout);
    json_dumpf(o, stdout, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(o);
    return wrote(l, !ferror(stdout));
}

/* The directory named is a state directory, or the store in it. */
static htc_status look(looking *l, int records, htc_kv_check_found *found)
{
    const char          *dir = l->k->w.at[0];
    char                *inner = must_print("%s/store", dir);
    htc_kv_check_options o = { .size = sizeof o,
                               .dir = access(inner, F_OK) == 0 ? inner : dir,
                               .item = records ? on_item : NULL,
                               .problem = on_problem,
                               .ctx = l };
    *found = (htc_kv_check_found){ .size = sizeof *found };
    htc_status s = kv_check_apart(&o, found, &l->k->c->error);
    if (s == HTC_ELOCKED)
        s = cli_error(l->k->c, s, dir, "end the member, or use htc kv backup", "a member holds this store");
    if (s == HTC_ENOTFOUND)
        s = cli_error(l->k->c, s, dir, "name a member's state directory (--dir of htc-kvd; DIR/N of a cluster, DIR/shard-N of shards) or the store in it",
                      "there is no store: neither here nor in store/ is a log of ours or a data.mdb");
    free(inner);
    return s;
}

/* Also where no key is lost: a script has to notice that the disk does not keep what it is given. next: where some are. */
static htc_status damage(kv_call *k, const htc_kv_check_found *found, const char *next)
{
    char lost[80];
    if (!found->problems)
        return HTC_OK;
    snprintf(lost, sizeof lost, "%" PRIu64 " key%s lost", found->lost, found->lost == 1 ? " is" : "s are");
    return cli_error(k->c, HTC_ECORRUPT, k->w.at[0], found->lost ? next : "each line above says what to do", "%" PRIu64 " problem%s, and %s", found->problems,
                     found->problems == 1 ? "" : "s", found->lost ? lost : "no key is known to be lost");
}

static const char *eventual_text(const htc_kv_check_found *found, char text[64])
{
    text[0] = 0;
    if (found->eventual)
        snprintf(text, 64, ", %" PRIu64 " of eventual namespaces", found->eventual);
    return text;
}

/* --dir DIR as all other commands have it, in place of the word. */
static htc_status take_dir(kv_call *k, size_t behind)
{
    if (k->own_dir) {
        words_add(&k->w, "");
        memmove(&k->w.at[1], &k->w.at[0], (k->w.count - 1) * sizeof *k->w.at);
        k->w.at[0] = k->own_dir;
    }
    if (k->w.count == 0)
        return cli_error(k->c, HTC_EUSAGE, "", "name a state directory, or the store in it", "whose files are to be looked at?");
    return k->w.count <= 1 + behind ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "", "DIR is either a word or --dir DIR", "'%.80s' is one word too many", k->w.at[1 + behind]);
}

htc_status kv_fsck(kv_call *k)
{
    if (take_dir(k, 0) != HTC_OK)
        return HTC_EUSAGE;
    looking            l = { .k = k, .problems = k->c->json ? json_array() : NULL };
    htc_kv_check_found found;
    char               spaces[64];
    htc_status         s = look(&l, 0, &found);
    if (s == HTC_OK && l.problems) {
        json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:O}", "engine", found.engine == HTC_KV_LOG ? "log" : "lmdb", "keys",
                              (json_int_t)found.keys, "eventual", (json_int_t)found.eventual, "lost", (json_int_t)found.lost, "batches", (json_int_t)found.batches, "problems",
                              l.problems);
        put_json(k->c, o);
        json_decref(o);
    } else if (s == HTC_OK && found.engine == HTC_KV_LOG) {
        printf("log: %" PRIu64 " key%s%s, %" PRIu64 " segment%s, %" PRIu64 " batch%s to %s, byte %" PRIu64 "%s\n", found.keys, found.keys == 1 ? "" : "s",
               eventual_text(&found, spaces), found.segments, found.segments == 1 ? "" : "s", found.batches, found.batches == 1 ? "" : "es",
               found.end_file, found.end_offset, found.problems ? "" : ": no damage");
    } else if (s == HTC_OK) {
        printf("lmdb: %" PRIu64 " key%s%s%s\n", found.keys, found.keys == 1 ? "" : "s", eventual_text(&found, spaces), found.problems ? "" : ": no damage");
    }
    json_decref(l.problems);
    return s == HTC_OK ? damage(k, &found, "htc kv dump DIR FILE saves what can be read") : s;
}

/* Whoever reads a dump by a pipe may have enough of it: that is no error of anybody's. */
static htc_status cannot_write(const looking *l, int why)
{
    if (why == EPIPE && l->k->w.count == 1) {
        clearerr(stdout);
        return HTC_OK;
    }
    return cli_error(l->k->c, write_status(why), l->k->w.count > 1 ? l->k->w.at[1] : "standard output",
                     why == EEXIST ? "name a file that does not exist yet" : "name another place", "cannot write: %s", strerror(why));
}

static htc_status dump_records(looking *l, htc_kv_check_found *found)
{
    htc_status s = look(l, 1, found);
    if (s == HTC_OK && l->k->space && !l->taken)
        s = cli_error(l->k->c, HTC_ENOTFOUND, l->k->w.at[0], "htc kv dump --json shows which there are", "no key of a namespace %.40s is there",
                      l->k->space[0] ? l->k->space : "default");
    if (s == HTC_OK && l->f)
        s = begin(l);
    if (s == HTC_OK && l->f)
        s = wrote(l, kv_writer_end(&l->out));
    htc_buf_free(&l->out.bytes);
    return l->why ? cannot_write(l, l->why) : s;
}

htc_status kv_dump(kv_call *k)
{
    if (take_dir(k, 1) != HTC_OK)
        return HTC_EUSAGE;
    looking            l = { .k = k, .quiet = 1 };
    htc_kv_check_found found = { .size = sizeof found };
    const char        *path = k->w.count > 1 ? k->w.at[1] : NULL;
    if (k->space && space_is_default(k->space, strlen(k->space)))
        k->space = ""; /* as its keys have it */
    if (path && out_is_stdout(path) && !k->c->json) {
        path = NULL;
        k->w.count = 1;
    }
    if (k->c->json && path)
        return cli_error(k->c, HTC_EUSAGE, "", "", "--json goes to standard output");
    if (!k->c->json && !path && isatty(STDOUT_FILENO))
        return cli_error(k->c, HTC_EUSAGE, "", "name a file, or give --json", "a dump is no text for a terminal");
    if (!k->c->json && !(l.f = path ? kv_create(path) : stdout))
        return cannot_write(&l, errno);
    htc_status s = dump_records(&l, &found);
    if (k->c->json && (s == HTC_OK || l.shown)) {
        puts(l.shown ? "]" : "[]");
        k->c->json_done = 1;
    }
    if (path) {
        int ok = fflush(l.f) == 0 && fsync(fileno(l.f)) == 0;
        ok = fclose(l.f) == 0 && ok;
        if (s == HTC_OK && !ok)
            s = cannot_write(&l, errno);
        if (s != HTC_OK)
            unlink(path);
    }
    char  next[160];
    snprintf(next, sizeof next, "what can be read %s%.120s", path ? "is in " : "was written", path ? path : "");
    return s == HTC_OK && l.why == 0 ? damage(k, &found, next) : s;
}
