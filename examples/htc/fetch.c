/* fetch: the result set of a job as a directory or one archive, with a manifest; every file's hash is verified.
 *
 * A file appears under its name only when it is whole and right, and a second fetch takes only what is missing. What cannot be
 * fetched is named in the manifest, and stops nothing else. The manifest and the links of a task are written as they come: a
 * million outputs take no more memory than a page of them, beside up to 32 bytes a name where patterns could make two meet. */
#include "below.h"
#include "htc.h"
#include "htcsched/script.h"
#include "places.h"
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fetch {
    cli        *c;
    progress    p;
    int         top; /* directory form: the directory, held open */
    tar_writer *tar; /* archive form */
    int         to_stdout;
    places     *places;
    const char *output, *error_output;
    uint64_t    named, open; /* tasks that are to be fetched; that had not ended before */
    uint64_t    job, count, tasks, files, bytes, kept, not_done, left_out, lost, renamed;
    int         begun;   /* the entry of a task, whose outputs may come in several answers, */
    uint64_t    index;   /* of this one, */
    uint64_t    listed;  /* with so many of them so far, */
    json_t     *why;     /* and why not all can be */
    FILE       *links;   /* of that task, made when its files are there; NULL: none */
    char       *example; /* of those that were renamed */
    htc_error   first;   /* of those that are lost */
    uint64_t    mixed;   /* the job whose results were there before; 0: no other one's */
    int         stop;    /* nothing more can be written */
    uint32_t    failed;  /* only tasks that failed */
    const char *user, *name;
    htc_array   numbers; /* of its array; count 0: it has none */
    FILE       *manifest;
    below_file  manifest_at; /* directory form */
} fetch;

/* One output of one task, and where it goes. */
typedef struct item {
    uint64_t    index, size;
    uint32_t    attempt;
    const char *name, *hash;
    double      when;
    char       *place;
    int         renamed, executable;
} item;

static const char *pattern_of(const fetch *f, const char *name)
{
    const char *pattern = strcmp(name, "stdout") == 0   ? f->output
                          : strcmp(name, "stderr") == 0 ? f->error_output
                                                        : "";
    return pattern ? pattern : "";
}

/* What a pattern calls a task: its index, or its number in the array; an array comes before all other sources. */
static uint64_t number_of(const fetch *f, uint64_t index)
{
    uint64_t each = f->numbers.count ? f->count / f->numbers.count : 0;
    return each ? htc_array_at(&f->numbers, index / each) : index;
}

/* Several tasks of one number are told apart by their folders. */
static int tells_tasks_apart(const fetch *f, const char *pattern)
{
    return f->count == 1 || (pattern_names_task(pattern) && (f->numbers.count == 0 || f->numbers.count == f->count));
}

/* Where an output is wanted, relative to the result set: its pattern, else INDEX/NAME. A pattern that would give many tasks
 * one name counts within each task's folder, so that none takes another's place. */
static char *wanted_place(fetch *f, uint64_t index, const char *name)
{
    const pattern_values v = { f->job, number_of(f, index), f->user, f->name };
    const char          *pattern = pattern_of(f, name);
    char                *expanded = NULL, *place;
    if (!pattern[0] || pattern_expand(f->c, pattern, &v, &expanded) != HTC_OK)
        return must_print("%" PRIu64 "/%s", index, name);
    if (tells_tasks_apart(f, pattern))
        return expanded;
    place = must_print("%" PRIu64 "/%s", index, expanded);
    free(expanded);
    return place;
}

/* Nothing more can be told apart from what came, so nothing more comes. */
static htc_status too_many(fetch *f)
{
    f->stop = 1;
    return cli_error(f->c, HTC_EFULL, "", "fetch fewer tasks at once (ID.0-999999), each part into a directory of its own",
                     "more than %zu files and folders, whose names could meet by a pattern", PLACES_MAX);
}

static htc_status settle_place(fetch *f, item *it, int folder)
{
    char *shown = places_shown(it->name), *wanted = wanted_place(f, it->index, shown);
    if (path_stays(shown) && path_stays(wanted))
        it->place = (folder ? places_take_dir : places_take)(f->places, wanted, it->index, shown, &it->renamed);
    if (it->renamed && !f->renamed++)
        f->example = must_dup(it->place);
    free(wanted);
    htc_status s = it->place                ? HTC_OK
                   : places_full(f->places) ? too_many(f)
                                            : cli_error(f->c, HTC_EPATH, shown, "", "an output of task %" PRIu64 " leaves the result directory",
                                         it->index);
    free(shown);
    return s;
}

static htc_status cannot_write(cli *c, const char *path, int why)
{
    htc_status s = write_status(why);
    return cli_error(c, s, path, s == HTC_ENOSPC ? "make room and fetch again" : "name another place",
                     why == EEXIST || why == ENOTDIR || why == ELOOP ? "something else is there already (%s)"
                                                                     : "cannot write: %s",
                     strerror(why));
}

/* 1 if this file of the result set holds this content already. */
static int is_there(const fetch *f, const item *it)
{
    struct stat st;
    uint8_t     have[32];
    char        hex[65];
    uint64_t    len = 0;
    int         fd = below_open(f->top, it->place), same = 0;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size == it->size && htc_content_hash_fd(fd, have, &len) == HTC_OK) {
        htc_content_hex(have, hex);
        same = strcmp(hex, it->hash) == 0;
    }
    close(fd);
    return same;
}

/* Is it empty? Then its hash says all that could be asked. */
static int is_empty(const item *it)
{
    uint8_t hash[32];
    char    hex[65];
    htc_content_hash((htc_bytes){ NULL, 0 }, hash);
    htc_content_hex(hash, hex);
    return it->size == 0 && strcmp(it->hash, hex) == 0;
}

/* Its bytes into fd, verified. */
static htc_status download(fetch *f, const item *it, int fd)
{
    uint64_t got = 0;
    char     hex[65];
    if (is_empty(it))
        return HTC_OK;
    htc_status s = api_download(f->c, f->job, it->index, it->attempt, it->name, fd, &got, hex);
    if (s != HTC_OK || (got == it->size && strcmp(it->hash, hex) == 0))
        return s;
    return cli_error(f->c, HTC_ECORRUPT, it->place, "fetch again; if it stays so the stored output is damaged",
                     "what came is not what was committed (%" PRIu64 " of %" PRIu64 " bytes)", got, it->size);
}

static htc_status fetch_to_file(fetch *f, const item *it)
{
    below_file b;
    if (is_there(f, it)) {
        f->kept++;
        return HTC_OK;
    }
    if (below_begin(&b, f->top, it->place, it->executable ? 0777 : 0666) != 0)
        return cannot_write(f->c, it->place, errno);
    htc_status s = download(f, it, b.fd);
    if (below_end(&b, s == HTC_OK) != 0 && s == HTC_OK)
        s = cannot_write(f->c, it->place, errno);
    return s;
}

static htc_status tar_failed(fetch *f, const item *it)
{
    f->stop = 1;
    return cannot_write(f->c, it->place, errno);
}

/* What went out to a pipe cannot be taken back: a file is complete here before its head goes out. */
static htc_status fetch_to_stdout(fetch *f, const item *it)
{
    char       buffer[1 << 16];
    FILE      *spool = tmpfile();
    size_t     n;
    htc_status s = spool ? download(f, it, fileno(spool)) : cannot_write(f->c, "temporary file", errno);
    if (s == HTC_OK && tar_begin(f->tar, it->place, it->size, (uint64_t)it->when, it->executable) != 0)
        s = tar_failed(f, it);
    if (spool)
        rewind(spool);
    while (s == HTC_OK && (n = fread(buffer, 1, sizeof buffer, spool)) > 0)
        if (tar_write(f->tar, buffer, n) != 0)
            s = tar_failed(f, it);
    if (s == HTC_OK && (ferror(spool) || tar_finish(f->tar) != 0))
        s = tar_failed(f, it);
    if (spool)
        fclose(spool);
    return s;
}

static htc_status fetch_to_tar(fetch *f, const item *it)
{
    off_t begin = lseek(tar_fd(f->tar), 0, SEEK_CUR);
    if (f->to_stdout)
        return fetch_to_stdout(f, it);
    if (begin < 0 || tar_begin(f->tar, it->place, it->size, (uint64_t)it->when, it->executable) != 0)
        return tar_failed(f, it);
    htc_status s = download(f, it, tar_fd(f->tar));
    if (s == HTC_OK)
        return tar_finish(f->tar) == 0 ? s : tar_failed(f, it);
    if (ftruncate(tar_fd(f->tar), begin) != 0 || lseek(tar_fd(f->tar), begin, SEEK_SET) != begin)
        return tar_failed(f, it);
    return s;
}

/* What does not go away with the next output: nobody answers, no room. */
static int ends_all(const fetch *f, htc_status s)
{
    return f->stop || htc_exit_code(s) == 3 || s == HTC_ENOSPC || s == HTC_ETIMEDOUT || s == HTC_ENOMEM;
}

static htc_status fetch_file(fetch *f, const item *it)
{
    progress_say(&f->p, "fetching task %" PRIu64 " of %" PRIu64 ", %s so far", it->index, f->count,
                 show_size((double)f->bytes).s);
    htc_status s = f->tar ? fetch_to_tar(f, it) : fetch_to_file(f, it);
    f->files += s == HTC_OK;
    f->bytes += s == HTC_OK ? it->size : 0;
    return s;
}

static htc_status fetch_dir(fetch *f, const item *it)
{
    if (f->tar)
        return tar_dir(f->tar, it->place, (uint64_t)it->when) == 0 ? HTC_OK : tar_failed(f, it);
    return below_make_dir(f->top, it->place) == 0 ? HTC_OK : cannot_write(f->c, it->place, errno);
}

/* A link goes up only at the beginning of its target, and no further than its task's own directory. */
static int link_stays(const char *name, const char *target)
{
    size_t depth = 0, up = 0, named = 0;
    for (const char *p = name; *p; p++)
        depth += *p == '/';
    if (!target[0] || target[0] == '/')
        return 0;
    for (const char *p = target; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        int    is_up = n == 2 && p[0] == '.' && p[1] == '.';
        if (is_up && (named || ++up > depth))
            return 0;
        named |= !is_up && (n != 1 || p[0] != '.');
        p += n;
    }
    return 1;
}

/* What cannot be fetched is named and stops nothing, unless nothing else could be fetched either. */
static htc_status lose(fetch *f, json_t *told, htc_status s)
{
    json_t *why = json_string(f->c->error.text);
    if (told)
        json_object_set_new(told, "error", why ? why : json_string(htc_strerror(s)));
    else
        json_decref(why);
    if (!f->lost++)
        f->first = f->c->error;
    return ends_all(f, s) ? s : HTC_OK;
}

static htc_status make_link(fetch *f, const json_t *link)
{
    item        it = { .place = (char *)(uintptr_t)j_str(link, "file"), .when = j_num(link, "when") };
    const char *target = j_str(link, "target");
    if (f->tar && tar_link(f->tar, it.place, target, (uint64_t)it.when) == 0)
        return HTC_OK;
    if (f->tar) /* too long for an archive: nothing of it was written */
        return errno == ENAMETOOLONG ? cannot_write(f->c, it.place, errno) : tar_failed(f, &it);
    return below_link(f->top, it.place, target) == 0 ? HTC_OK : cannot_write(f->c, it.place, errno);
}

static htc_status keep_link(fetch *f, const json_t *told, const item *it)
{
    json_t *link = json_copy((json_t *)(uintptr_t)told);
    json_object_set_new(link, "when", json_real(it->when));
    if (!f->links)
        f->links = tmpfile();
    int bad = !f->links || json_dumpf(link, f->links, JSON_COMPACT) != 0 || fputc('\n', f->links) == EOF;
    json_decref(link);
    return bad ? cannot_write(f->c, "temporary file", errno) : HTC_OK;
}

static htc_status make_links(fetch *f)
{
    json_t    *link;
    htc_status s = HTC_OK;
    rewind(f->links);
    while (s == HTC_OK && (link = json_loadf(f->links, JSON_DISABLE_EOF_CHECK, NULL))) {
        s = make_link(f, link);
        if (s != HTC_OK)
            s = lose(f, NULL, s);
        json_decref(link);
    }
    if (s == HTC_OK && ferror(f->links))
        s = cannot_write(f->c, "temporary file", errno);
    fclose(f->links);
    f->links = NULL;
    return s;
}

/* What there is of one entry of a task's manifest. */
static htc_status fetch_typed(fetch *f, const json_t *output, item *it, json_t *told)
{
    const char *type = j_str(output, "type"), *target = j_str(output, "target");
    int         is_dir = strcmp(type, "d") == 0, is_link = strcmp(type, "l") == 0;
    if ((is_link && !link_stays(it->name, target)) || (!is_dir && !is_link && strcmp(type, "f") != 0))
        return HTC_OK; /* the manifest says what it was */
    htc_status s = settle_place(f, it, is_dir);
    if (s == HTC_OK && !is_link)
        s = is_dir ? fetch_dir(f, it) : fetch_file(f, it);
    if (s != HTC_OK)
        return s;
    json_object_set_new(told, "file", json_string(it->place));
    if (it->renamed)
        json_object_set_new(told, "renamed", json_true());
    return is_link ? keep_link(f, told, it) : HTC_OK;
}

static htc_status fetch_output(fetch *f, const json_t *result, const json_t *output)
{
    item it = { .index = j_u64(result, "index"),
                .attempt = (uint32_t)j_u64(result, "attempt"),
                .name = j_str(output, "name"),
                .hash = j_str(output, "hash"),
                .size = j_u64(output, "size"),
                .when = j_num(result, "ended"),
                .executable = (strtoul(j_str(output, "mode"), NULL, 8) & 0111) != 0 };
    json_t    *told = json_copy((json_t *)(uintptr_t)output);
    htc_status s = HTC_OK;
    f->left_out += json_object_get(output, "error") != NULL;
    if (!json_object_get(output, "error") || json_object_get(output, "hash")) /* else it is not stored */
        s = fetch_typed(f, output, &it, told);
    if (s != HTC_OK)
        s = lose(f, told, s);
    fputs(f->listed++ ? "," : "", f->manifest);
    json_dumpf(told, f->manifest, JSON_COMPACT);
    json_decref(told);
    free(it.place);
    return s;
}

/* The task is whole: its links, and the end of its entry. */
static htc_status end_entry(fetch *f)
{
    htc_status s = f->links ? make_links(f) : HTC_OK;
    if (f->begun) {
        fputs("]", f->manifest);
        if (f->why) {
            fputs(",\"error\":", f->manifest);
            json_dumpf(f->why, f->manifest, JSON_COMPACT | JSON_ENCODE_ANY);
        }
        fputs("}", f->manifest);
        f->tasks++;
    }
    json_decref(f->why);
    f->why = NULL;
    f->begun = 0;
    if (!f->output[0] && !f->error_output[0]) { /* each task has a folder of its own: what others have is not in its way */
        places_free(f->places);
        f->places = places_new(PLACES_MAX);
    }
    return s;
}

static void begin_entry(fetch *f, const json_t *result)
{
    json_t *head = json_pack("{s:I, s:I, s:s, s:I, s:s}", "index", (json_int_t)j_u64(result, "index"), "attempt",
                             (json_int_t)j_u64(result, "attempt"), "status", j_str(result, "status"), "exit_code",
                             (json_int_t)j_num(result, "exit_code"), "reason", j_str(result, "reason"));
    char   *text = must(json_dumps(head, JSON_COMPACT));
    text[strlen(text) - 1] = '\0';
    fprintf(f->manifest, "%s%s,\"outputs\":[", f->tasks ? ",\n" : "\n", text);
    free(text);
    json_decref(head);
    f->begun = 1;
    f->index = j_u64(result, "index");
    f->listed = 0;
    f->not_done += strcmp(j_str(result, "status"), "HTC_OK") != 0;
}

/* The list of the task's outputs cannot be had. */
static htc_status lose_list(fetch *f, const json_t *result)
{
    json_t     *told = json_object();
    const char *why = j_str(result, "outputs_error");
    int         away = strcmp(why, htc_status_name(HTC_EUNREACHABLE)) == 0;
    htc_status  s = lose(f, told,
                         cli_error(f->c, away ? HTC_ENOTFOUND : HTC_ECORRUPT, "", away ? "htc agents shows when it is back" : "run the task again",
                                   away ? "the outputs of task %" PRIu64 " are on node %s, whose host is away" : "the list of outputs of task %" PRIu64 " cannot be read: %s",
                                   j_u64(result, "index"), away ? j_str(result, "node") : why));
    json_decref(f->why);
    f->why = json_incref(json_object_get(told, "error"));
    json_decref(told);
    return s;
}

#define AHEAD_BYTES (64 << 10)

/* Small outputs that come next are asked for already, those of the tasks that follow in the answer too; not those that seem to be there. */
typedef struct ahead {
    const json_t *results;
    size_t        result, output; /* the next one to ask for */
    uint64_t      asked, done;    /* outputs before that one; that are fetched */
} ahead;

static void ask_for(const fetch *f, const json_t *result, const json_t *o)
{
    struct stat st;
    const char *name = j_str(o, "name");
    uint64_t    size = j_u64(o, "size");
    if (strcmp(j_str(o, "type"), "f") != 0 || !json_object_get(o, "hash") || !size || size > AHEAD_BYTES || pattern_of(f, name)[0])
        return;
    char *place = must_print("%" PRIu64 "/%s", j_u64(result, "index"), name);
    if (f->tar || fstatat(f->top, place, &st, AT_SYMLINK_NOFOLLOW) != 0)
        api_ahead(f->c, f->job, j_u64(result, "index"), (uint32_t)j_u64(result, "attempt"), name);
    free(place);
}

static void ask_ahead(const fetch *f, ahead *a)
{
    while (a->asked < a->done + HTC_CLIENT_AHEAD_MAX && a->result < json_array_size(a->results)) {
        const json_t *result = json_array_get(a->results, a->result), *outputs = json_object_get(result, "outputs");
        if (a->output >= json_array_size(outputs)) {
            a->result++;
            a->output = 0;
            continue;
        }
        if (a->asked++ >= a->done)
            ask_for(f, result, json_array_get(outputs, a->output));
        a->output++;
    }
}

static htc_status fetch_result(fetch *f, const json_t *result, ahead *a)
{
    json_t    *output;
    size_t     i;
    htc_status s = HTC_OK;
    if (f->begun && f->index != j_u64(result, "index"))
        s = end_entry(f);
    if (!f->begun)
        begin_entry(f, result);
    if (s == HTC_OK && json_object_get(result, "outputs_error"))
        s = lose_list(f, result);
    for (int named = 0; named < 2; named++) /* a pattern takes no place from a file of its task */
        json_array_foreach(json_object_get(result, "outputs"), i, output)
            if (s == HTC_OK && (pattern_of(f, j_str(output, "name"))[0] != '\0') == named) {
                ask_ahead(f, a);
                s = fetch_output(f, result, output);
                a->done++;
            }
    return s;
}

static htc_status fetch_all(fetch *f, const char *selector)
{
    uint64_t from = 0, from_output = 0;
    int      more = 1;
    while (more) {
        json_t    *answer, *result, *next;
        size_t     i;
        htc_status s = api_ask(f->c, json_pack("{s:s, s:s, s:I, s:I, s:b}", "op", "results", "id", selector, "from", (json_int_t)from,
                                               "from_output", (json_int_t)from_output, "failed", (int)f->failed), 0, 60, &answer);
        if (s != HTC_OK)
            return s;
        ahead a = { .results = json_object_get(answer, "results") };
        json_array_foreach(a.results, i, result)
        {
            s = fetch_result(f, result, &a);
            if (s != HTC_OK) {
                json_decref(answer);
                return s;
            }
        }
        next = json_object_get(answer, "next");
        more = json_is_integer(next);
        from = (uint64_t)json_integer_value(next);
        from_output = j_u64(answer, "next_output");
        json_decref(answer);
    }
    return end_entry(f);
}

/* What is there already may be another job's, also one of the same number from another system: outputs of both are mixed then. */
static void look_for_another(fetch *f, const json_t *job)
{
    static const char begin[] = ",\"tasks\":[";
    char              head[4096];
    int               fd = below_open(f->top, "manifest.json");
    ssize_t           n = fd < 0 ? 0 : read(fd, head, sizeof head - 1);
    if (fd >= 0)
        close(fd);
    head[n > 0 ? n : 0] = '\0';
    char *end = strstr(head, begin); /* in a name it would stand with backslashes */
    if (!end)
        return;
    snprintf(end, sizeof begin, "}");
    json_t *old = json_loads(head, 0, NULL);
    if (old && (j_u64(old, "job") != f->job || fabs(j_num(old, "submitted") - j_num(job, "submitted")) > 1e-3))
        f->mixed = j_u64(old, "job");
    json_decref(old);
}

static htc_status begin_manifest(fetch *f, const json_t *job)
{
    if (f->tar)
        f->manifest = tmpfile(); /* an archive wants to know its length first */
    else if (below_begin(&f->manifest_at, f->top, "manifest.json", 0666) != 0)
        return cannot_write(f->c, "manifest.json", errno);
    else
        f->manifest = fdopen(dup(f->manifest_at.fd), "w");
    if (!f->manifest) {
        htc_status s = cannot_write(f->c, "manifest.json", errno);
        if (!f->tar)
            below_end(&f->manifest_at, 0);
        return s;
    }
    json_t *head =
        json_pack("{s:I, s:s, s:s, s:s, s:I, s:f}", "job", (json_int_t)f->job, "name", f->name, "user", f->user,
                  "state", j_str(job, "state"), "count", (json_int_t)f->count, "submitted", j_num(job, "submitted"));
    char *text = must(json_dumps(head, JSON_COMPACT | JSON_REAL_PRECISION(15)));
    text[strlen(text) - 1] = '\0';
    fprintf(f->manifest, "%s,\"tasks\":[", text);
    free(text);
    json_decref(head);
    return HTC_OK;
}

static int manifest_to_tar(fetch *f)
{
    char   buffer[1 << 16];
    size_t n;
    long   len = fflush(f->manifest) == 0 ? ftell(f->manifest) : -1;
    if (len < 0 || ferror(f->manifest))
        return -1;
    rewind(f->manifest);
    int bad = tar_begin(f->tar, "manifest.json", (uint64_t)len, 0, 0) != 0;
    while (!bad && (n = fread(buffer, 1, sizeof buffer, f->manifest)) > 0)
        bad = tar_write(f->tar, buffer, n) != 0;
    return bad || ferror(f->manifest) || tar_finish(f->tar) != 0 ? -1 : 0;
}

/* Its end, if all went well so far; else it is forgotten. */
static htc_status end_manifest(fetch *f, htc_status s)
{
    if (s == HTC_OK)
        fputs("\n]}\n", f->manifest);
    if (s == HTC_OK && f->tar && manifest_to_tar(f) != 0)
        s = cannot_write(f->c, "manifest.json", errno);
    int bad = ferror(f->manifest);
    if ((fclose(f->manifest) != 0 || bad) && s == HTC_OK && !f->tar)
        s = cannot_write(f->c, "manifest.json", errno);
    if (!f->tar && below_end(&f->manifest_at, s == HTC_OK) != 0 && s == HTC_OK)
        s = cannot_write(f->c, "manifest.json", errno);
    return s;
}

static htc_status open_target(fetch *f, const char *to, const char *archive, out_file *out)
{
    htc_status s;
    if (archive) {
        f->to_stdout = out_is_stdout(archive);
        if (f->to_stdout && isatty(STDOUT_FILENO))
            return cli_error(f->c, HTC_EUSAGE, archive, "name a file, or lead it into a command",
                             "an archive is no text for a terminal");
        s = out_open(f->c, out, archive, 0666);
        if (s == HTC_OK)
            f->tar = tar_open(fileno(out->f));
        return s == HTC_OK && !f->tar ? cannot_write(f->c, archive, errno) : s;
    }
    s = make_dirs(f->c, to);
    f->top = s == HTC_OK ? open(to, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    return s == HTC_OK && f->top < 0 ? cannot_write(f->c, to, errno) : s;
}

static htc_status some_are_lost(fetch *f)
{
    htc_error why = f->first;
    return cli_error(f->c, why.status, why.where, why.hint, "%" PRIu64 " output%s could not be fetched, the first: %.150s", f->lost,
                     f->lost == 1 ? "" : "s", why.text);
}

static htc_status fetch_into(fetch *f, const char *selector, const json_t *job, const char *to, const char *archive)
{
    out_file   out = { 0 };
    htc_status s;
    f->places = places_new(PLACES_MAX);
    f->top = -1;
    s = open_target(f, to, archive, &out);
    if (s == HTC_OK && !f->tar)
        look_for_another(f, job);
    if (s == HTC_OK)
        s = begin_manifest(f, job);
    if (s == HTC_OK)
        s = fetch_all(f, selector);
    if (f->manifest)
        s = end_manifest(f, s);
    json_decref(f->why);
    if (f->links)
        fclose(f->links);
    if (f->tar && tar_close(f->tar) != 0 && s == HTC_OK)
        s = cannot_write(f->c, archive, errno);
    s = out_close(f->c, &out, s);
    if (f->top >= 0)
        close(f->top);
    places_free(f->places);
    return s;
}

/* The one line, or object, about what came. */
static void say_fetched(fetch *f, const char *where)
{
    if (f->c->json) {
        json_t *o = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "job", (json_int_t)f->job, "to", where,
                              "tasks", (json_int_t)f->tasks, "files", (json_int_t)f->files, "bytes",
                              (json_int_t)f->bytes, "kept", (json_int_t)f->kept, "failed", (json_int_t)f->not_done,
                              "renamed", (json_int_t)f->renamed, "lost", (json_int_t)f->lost, "not_stored",
                              (json_int_t)f->left_out);
        put_json(f->c, o);
        json_decref(o);
        return;
    }
    fprintf(f->to_stdout ? stderr : stdout, "%s: %" PRIu64 " of %" PRIu64 " task%s, %" PRIu64 " file%s, %s%s\n", where, f->tasks,
            f->count, plural(f->count), f->files, plural(f->files), show_size((double)f->bytes).s, f->not_done   ? " (some tasks failed: see manifest.json)"
            : f->left_out ? " (some outputs are not stored: see manifest.json)"
                          : "");
    if (f->renamed)
        fprintf(stderr, "htc: warning: %" PRIu64 " output%s another name, for something else was in the way: %s (manifest.json has all)\n",
                f->renamed, f->renamed == 1 ? " has" : "s have", f->example);
}

static void say_mixed(const fetch *f, const char *where)
{
    if (!f->mixed)
        return;
    char *text = must_print("%.200s had results of another job (%" PRIu64 "), and files of both are there now: remove it, and fetch each with --to into a directory of its own",
                            where, f->mixed);
    put_warning(text);
    free(text);
}

/* Tasks that are named, and how many of these go on, before anything is fetched. */
static htc_status count_named(fetch *f, const selection *sel, const json_t *job)
{
    const json_t *n = json_object_get(job, "tasks");
    f->named = f->count;
    f->open = f->count - (j_u64(n, "done") + j_u64(n, "failed") + j_u64(n, "cancelled"));
    return f->open && strchr(sel->id, '.') ? count_tasks(f->c, sel, &f->named, &f->open) : HTC_OK;
}

/* What comes of a job that goes on is not all. Of a task that was cancelled there is a result too. */
static void say_unended(const fetch *f, const char *selector)
{
    if (f->failed || !f->open || f->tasks >= f->named)
        return;
    char *text = strchr(selector, '.') && f->open == f->named && !f->tasks
                     ? must_print("no task of %.80s has ended yet: htc fetch %.80s --wait fetches when they have", selector, selector)
                     : must_print("%" PRIu64 " of %" PRIu64 " tasks have not ended yet: htc fetch %.80s --wait fetches when they have", f->open, f->named, selector);
    put_warning(text);
    free(text);
}

htc_status run_fetch(cli *c, int argc, char **argv)
{
    const char *to = NULL, *archive = NULL, *output = NULL, *error_output = NULL;
    uint32_t    failed = 0, wait = 0;
    job_filter  filter = { 0 };
    words       w;
    const opt   opts[] = {
          { "wait", 'w', OPT_FLAG, &wait, NULL, "when the job, or the tasks named, have ended, however they did" },
          { "to", 0, OPT_TEXT, &to, "DIR", "into this directory (job-ID)" },
          { "tar", 0, OPT_TEXT, &archive, "FILE", "as one archive; - is standard output" },
          { "output", 'o', OPT_TEXT, &output, "PATTERN", "name of standard output (INDEX/stdout, or the job's own)" },
          { "error", 'e', OPT_TEXT, &error_output, "PATTERN", "name of standard error" },
          { "failed", 0, OPT_FLAG, &failed, NULL, "only of tasks that failed" },
          FILTER_OPTIONS(filter),
    };
    const command *cmd = find_command("fetch");
    selection      sel = { 0 };
    json_t        *job = NULL;
    char          *own = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK && to && archive)
        s = cli_error(c, HTC_EUSAGE, "--tar", "name one of them", "--to and --tar together");
    if (s == HTC_OK)
        s = patterns_check(c, output, error_output);
    if (s == HTC_OK)
        s = selection_settle_of(c, w.at[0], &filter, &sel);
    if (s == HTC_OK)
        s = api_one_job(c, &sel, &job);
    if (s == HTC_OK && wait && (s = wait_until_ended(c, &sel)) == HTC_OK) {
        json_decref(job); /* as it is by now */
        job = NULL;
        s = api_one_job(c, &sel, &job);
    }
    if (s == HTC_OK && (output || error_output))
        s = patterns_meet(c, output, error_output, j_str(job, "name"), j_u64(job, "count") > 1);
    if (s == HTC_OK) {
        fetch f = { .c = c,
                    .job = j_u64(job, "id"),
                    .count = j_u64(job, "count"),
                    .user = j_str(job, "user"),
                    .name = j_str(job, "name"),
                    .failed = failed,
                    .numbers = { .size = sizeof f.numbers },
                    .output = output ? output : j_str(job, "output"),
                    .error_output = error_output ? error_output : j_str(job, "error_output") };
        (void)htc_array_parse(j_str(job, "array"), &f.numbers, NULL); /* "": it has none */
        progress_begin(&f.p, c);
        if (!to && !archive)
            own = must_print("job-%" PRIu64, f.job);
        if (!wait && !failed)
            s = count_named(&f, &sel, job);
        if (s == HTC_OK)
            s = fetch_into(&f, sel.id, job, to ? to : own, archive);
        progress_end(&f.p);
        if (s == HTC_OK)
            say_fetched(&f, archive ? archive : to ? to : own);
        if (s == HTC_OK)
            say_mixed(&f, archive ? archive : to ? to : own);
        if (s == HTC_OK && !wait)
            say_unended(&f, sel.id);
        if (s == HTC_OK && f.lost)
            s = some_are_lost(&f);
        free(f.example);
    }
    selection_free(&sel);
    json_decref(job);
    free(own);
    words_free(&w);
    return s;
}
