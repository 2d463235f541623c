/* fetch: the result set of a job as a directory or one archive, with a manifest; every file's hash is verified.
 *
 * A file appears under its name only when it is whole and right, and a second fetch takes only what is missing. */
#include "htc.h"
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fetch {
    cli        *c;
    progress    p;
    const char *dir; /* directory form */
    tar_writer *tar; /* archive form */
    const char *output, *error_output;
    uint64_t    job, count, tasks, files, bytes, kept, not_done, left_out;
    json_t     *entry; /* of the task that is being fetched: it may come in several answers */
    json_t     *links; /* made when its files are there */
    const char *user, *name;
    FILE       *manifest;
    char       *manifest_text;
    size_t      manifest_len;
} fetch;

/* Where an output goes, relative to the result set: its pattern, else INDEX/NAME. A pattern that would give many tasks
 * one name counts within each task's folder, so that none takes another's place. */
static htc_status place_of(fetch *f, uint64_t index, const char *name, char **place)
{
    const char *pattern = strcmp(name, "stdout") == 0   ? f->output
                          : strcmp(name, "stderr") == 0 ? f->error_output
                                                        : NULL;
    if (!path_stays(name))
        return cli_error(f->c, HTC_EPATH, name, "", "an output of task %" PRIu64 " leaves the result directory", index);
    if (pattern && pattern[0]) {
        const pattern_values v = { f->job, index, f->user, f->name };
        char                *expanded = NULL;
        htc_status           s = pattern_expand(f->c, pattern, &v, &expanded);
        if (s != HTC_OK)
            return s;
        if (f->count == 1 || pattern_names_task(pattern))
            *place = expanded;
        else {
            *place = must_print("%" PRIu64 "/%s", index, expanded);
            free(expanded);
        }
        return HTC_OK;
    }
    *place = must_print("%" PRIu64 "/%s", index, name);
    return HTC_OK;
}

static htc_status cannot_write(cli *c, const char *path, int why)
{
    htc_status s = write_status(why);
    return cli_error(c, s, path, s == HTC_ENOSPC ? "make room and fetch again" : "name another place",
                     "cannot write: %s", strerror(why));
}

/* 1 if path holds this content already. */
static int is_there(const char *path, uint64_t size, const char *hash)
{
    struct stat st;
    uint8_t     have[32];
    char        hex[65];
    uint64_t    len = 0;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), same = 0;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size &&
        htc_content_hash_fd(fd, have, &len) == HTC_OK) {
        htc_content_hex(have, hex);
        same = strcmp(hex, hash) == 0;
    }
    close(fd);
    return same;
}

static htc_status verify(cli *c, const char *place, uint64_t size, const char *hash, uint64_t got, const char *hex)
{
    if (got == size && strcmp(hash, hex) == 0)
        return HTC_OK;
    return cli_error(c, HTC_ECORRUPT, place, "fetch again; if it stays so the stored output is damaged",
                     "what came is not what was committed (%" PRIu64 " of %" PRIu64 " bytes)", got, size);
}

static htc_status fetch_to_file(fetch *f, uint64_t index, uint32_t attempt, const char *name, uint64_t size,
                                const char *hash, const char *place, int executable)
{
    char *path = must_print("%s/%s", f->dir, place), *slash = strrchr(path, '/');
    *slash = '\0';
    htc_status s = make_dirs(f->c, path);
    *slash = '/';
    if (s != HTC_OK || is_there(path, size, hash)) {
        f->kept += s == HTC_OK;
        free(path);
        return s;
    }
    char *part = must_print("%s.part", path);
    int   fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, executable ? 0777 : 0666);
    if (fd < 0)
        s = cannot_write(f->c, part, errno);
    else {
        uint64_t got = 0;
        char     hex[65];
        s = api_download(f->c, f->job, index, attempt, name, fd, &got, hex);
        if (s == HTC_OK)
            s = verify(f->c, place, size, hash, got, hex);
        if (close(fd) != 0 && s == HTC_OK)
            s = cannot_write(f->c, part, errno);
        if (s == HTC_OK && rename(part, path) != 0)
            s = cannot_write(f->c, path, errno);
        if (s != HTC_OK)
            unlink(part);
    }
    free(part);
    free(path);
    return s;
}

static htc_status fetch_to_tar(fetch *f, uint64_t index, uint32_t attempt, const char *name, uint64_t size,
                               const char *hash, const char *place, double when, int executable)
{
    uint64_t   got = 0;
    char       hex[65];
    htc_status s = HTC_OK;
    if (tar_begin(f->tar, place, size, (uint64_t)when, executable) != 0)
        return cannot_write(f->c, place, errno);
    s = api_download(f->c, f->job, index, attempt, name, tar_fd(f->tar), &got, hex);
    if (s == HTC_OK)
        s = verify(f->c, place, size, hash, got, hex);
    if (s == HTC_OK && tar_finish(f->tar) != 0)
        s = cannot_write(f->c, place, errno);
    return s;
}

static int is_executable(const json_t *output)
{
    return (strtoul(j_str(output, "mode"), NULL, 8) & 0111) != 0;
}

static htc_status fetch_file(fetch *f, const json_t *result, const json_t *output, const char *place)
{
    uint64_t    index = j_u64(result, "index"), size = j_u64(output, "size");
    uint32_t    attempt = (uint32_t)j_u64(result, "attempt");
    const char *name = j_str(output, "name"), *hash = j_str(output, "hash");
    progress_say(&f->p, "fetching task %" PRIu64 " of %" PRIu64 ", %s so far", index, f->count, show_size((double)f->bytes).s);
    htc_status s = f->tar ? fetch_to_tar(f, index, attempt, name, size, hash, place, j_num(result, "ended"), is_executable(output))
                          : fetch_to_file(f, index, attempt, name, size, hash, place, is_executable(output));
    f->files += s == HTC_OK;
    f->bytes += s == HTC_OK ? size : 0;
    return s;
}

static htc_status fetch_dir(fetch *f, const json_t *result, const char *place)
{
    if (f->tar)
        return tar_dir(f->tar, place, (uint64_t)j_num(result, "ended")) == 0 ? HTC_OK : cannot_write(f->c, place, errno);
    char      *path = must_print("%s/%s", f->dir, place);
    htc_status s = make_dirs(f->c, path);
    free(path);
    return s;
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

static htc_status make_link(fetch *f, const json_t *link)
{
    const char *place = j_str(link, "place"), *target = j_str(link, "target");
    char        is[4096];
    if (f->tar)
        return tar_link(f->tar, place, target, j_u64(link, "when")) == 0 ? HTC_OK : cannot_write(f->c, place, errno);
    char      *path = must_print("%s/%s", f->dir, place), *slash = strrchr(path, '/');
    *slash = '\0';
    htc_status s = make_dirs(f->c, path);
    *slash = '/';
    ssize_t n = readlink(path, is, sizeof is - 1);
    is[n > 0 ? n : 0] = '\0';
    if (s == HTC_OK && n > 0 && strcmp(is, target) != 0)
        unlink(path); /* a link of another fetch: never a file */
    if (s == HTC_OK && (n <= 0 || strcmp(is, target) != 0) && symlink(target, path) != 0)
        s = cannot_write(f->c, path, errno);
    free(path);
    return s;
}

/* One entry of a task's manifest. */
static htc_status fetch_output(fetch *f, const json_t *result, const json_t *output)
{
    const char *name = j_str(output, "name"), *type = j_str(output, "type"), *target = j_str(output, "target");
    json_t     *told = json_copy((json_t *)(uintptr_t)output);
    char       *place = NULL;
    htc_status  s = HTC_OK;
    f->left_out += json_object_get(output, "error") != NULL;
    if (json_object_get(output, "error") && !json_object_get(output, "hash"))
        s = HTC_OK; /* not stored: what the manifest says of it is all there is */
    else if ((s = place_of(f, j_u64(result, "index"), name, &place)) != HTC_OK)
        ;
    else if (strcmp(type, "f") == 0)
        s = fetch_file(f, result, output, place);
    else if (strcmp(type, "d") == 0)
        s = fetch_dir(f, result, place);
    else if (strcmp(type, "l") == 0 && link_stays(name, target))
        json_array_append_new(f->links, json_pack("{s:s, s:s, s:I}", "place", place, "target", target, "when",
                                                  (json_int_t)j_num(result, "ended")));
    if (place)
        json_object_set_new(told, "file", json_string(place));
    json_array_append_new(json_object_get(f->entry, "outputs"), told);
    free(place);
    return s;
}

/* The task is whole: its links, and its place in the manifest. */
static htc_status end_entry(fetch *f)
{
    size_t     i;
    json_t    *link;
    htc_status s = HTC_OK;
    json_array_foreach(f->links, i, link)
    {
        if (s == HTC_OK)
            s = make_link(f, link);
    }
    if (f->entry) {
        fputs(f->tasks ? ",\n" : "\n", f->manifest);
        json_dumpf(f->entry, f->manifest, JSON_COMPACT);
        f->tasks++;
    }
    json_decref(f->entry);
    json_decref(f->links);
    f->entry = f->links = NULL;
    return s;
}

static htc_status fetch_result(fetch *f, const json_t *result)
{
    json_t    *output;
    size_t     i;
    htc_status s = HTC_OK;
    if (f->entry && j_u64(f->entry, "index") != j_u64(result, "index"))
        s = end_entry(f);
    if (!f->entry) {
        f->entry = json_pack("{s:I, s:I, s:s, s:I, s:s, s:[]}", "index", (json_int_t)j_u64(result, "index"), "attempt",
                             (json_int_t)j_u64(result, "attempt"), "status", j_str(result, "status"), "exit_code",
                             (json_int_t)j_num(result, "exit_code"), "reason", j_str(result, "reason"), "outputs");
        f->links = json_array();
        f->not_done += strcmp(j_str(result, "status"), "HTC_OK") != 0;
    }
    if (s == HTC_OK && json_object_get(result, "outputs_error"))
        s = cli_error(f->c, HTC_ECORRUPT, "", "run the task again", "the list of outputs of task %" PRIu64 " cannot be read: %s",
                      j_u64(result, "index"), j_str(result, "outputs_error"));
    json_array_foreach(json_object_get(result, "outputs"), i, output)
    {
        if (s == HTC_OK)
            s = fetch_output(f, result, output);
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
        htc_status s = api_ask(f->c, json_pack("{s:s, s:s, s:I, s:I}", "op", "results", "id", selector, "from", (json_int_t)from,
                                               "from_output", (json_int_t)from_output), 0, 60, &answer);
        if (s != HTC_OK)
            return s;
        json_array_foreach(json_object_get(answer, "results"), i, result)
        {
            s = fetch_result(f, result);
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

static void begin_manifest(fetch *f, const json_t *job)
{
    f->manifest = must(open_memstream(&f->manifest_text, &f->manifest_len));
    json_t *head =
        json_pack("{s:I, s:s, s:s, s:s, s:I, s:f}", "job", (json_int_t)f->job, "name", f->name, "user", f->user,
                  "state", j_str(job, "state"), "count", (json_int_t)f->count, "submitted", j_num(job, "submitted"));
    char *text = json_dumps(head, JSON_COMPACT | JSON_REAL_PRECISION(15));
    text[strlen(text) - 1] = '\0';
    fprintf(f->manifest, "%s,\"tasks\":[", text);
    free(text);
    json_decref(head);
}

static htc_status end_manifest(fetch *f)
{
    fputs("\n]}\n", f->manifest);
    fclose(f->manifest);
    f->manifest = NULL;
    if (f->tar) {
        if (tar_begin(f->tar, "manifest.json", f->manifest_len, 0, 0) != 0 ||
            tar_write(f->tar, f->manifest_text, f->manifest_len) != 0 || tar_finish(f->tar) != 0)
            return cannot_write(f->c, "manifest.json", errno);
        return HTC_OK;
    }
    char *path = must_print("%s/manifest.json", f->dir), *part = must_print("%s.part", path);
    FILE *out = fopen(part, "we");
    int   ok = out && fwrite(f->manifest_text, 1, f->manifest_len, out) == f->manifest_len;
    ok = (!out || fclose(out) == 0) && ok && rename(part, path) == 0;
    htc_status s = ok ? HTC_OK : cannot_write(f->c, path, errno);
    free(part);
    free(path);
    return s;
}

static htc_status fetch_into(fetch *f, const char *selector, const json_t *job, const char *to, const char *archive)
{
    htc_status s = HTC_OK;
    char      *part = archive ? must_print("%s.part", archive) : NULL;
    begin_manifest(f, job);
    f->dir = to;
    if (archive && !(f->tar = tar_open(part)))
        s = cannot_write(f->c, part, errno);
    else if (!archive)
        s = make_dirs(f->c, to);
    if (s == HTC_OK)
        s = fetch_all(f, selector);
    if (s == HTC_OK)
        s = end_manifest(f);
    if (f->manifest)
        fclose(f->manifest);
    json_decref(f->entry);
    json_decref(f->links);
    free(f->manifest_text);
    if (f->tar && tar_close(f->tar) != 0 && s == HTC_OK)
        s = cannot_write(f->c, part, errno);
    if (archive && s == HTC_OK && rename(part, archive) != 0)
        s = cannot_write(f->c, archive, errno);
    if (archive && s != HTC_OK)
        unlink(part);
    free(part);
    return s;
}

htc_status run_fetch(cli *c, int argc, char **argv)
{
    const char *to = NULL, *archive = NULL, *output = NULL, *error_output = NULL;
    words       w;
    const opt   opts[] = {
          { "to", 0, OPT_TEXT, &to, "DIR", "into this directory (job-ID)" },
          { "tar", 0, OPT_TEXT, &archive, "FILE", "as one archive" },
          { "output", 'o', OPT_TEXT, &output, "PATTERN", "name of standard output (INDEX/stdout, or the job's own)" },
          { "error", 'e', OPT_TEXT, &error_output, "PATTERN", "name of standard error" },
    };
    const command *cmd = find_command("fetch");
    selection      sel = { 0 };
    json_t        *job = NULL;
    char          *own = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 4, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK && to && archive)
        s = cli_error(c, HTC_EUSAGE, "--tar", "name one of them", "--to and --tar together");
    if (s == HTC_OK)
        s = patterns_check(c, output, error_output);
    if (s == HTC_OK)
        s = selection_settle(c, w.at[0], &sel);
    if (s == HTC_OK)
        s = api_one_job(c, &sel, &job);
    if (s == HTC_OK) {
        fetch f = { .c = c,
                    .job = j_u64(job, "id"),
                    .count = j_u64(job, "count"),
                    .user = j_str(job, "user"),
                    .name = j_str(job, "name"),
                    .output = output ? output : j_str(job, "output"),
                    .error_output = error_output ? error_output : j_str(job, "error_output") };
        progress_begin(&f.p, c);
        if (!to && !archive)
            own = must_print("job-%" PRIu64, f.job);
        s = fetch_into(&f, sel.id, job, to ? to : own, archive);
        progress_end(&f.p);
        const char *where = archive ? archive : to ? to : own;
        if (s == HTC_OK && c->json) {
            json_t *o = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "job", (json_int_t)f.job, "to", where, "tasks",
                                  (json_int_t)f.tasks, "files", (json_int_t)f.files, "bytes", (json_int_t)f.bytes,
                                  "kept", (json_int_t)f.kept, "failed", (json_int_t)f.not_done, "not_stored",
                                  (json_int_t)f.left_out);
            put_json(c, o);
            json_decref(o);
        } else if (s == HTC_OK)
            printf("%s: %" PRIu64 " of %" PRIu64 " tasks, %" PRIu64 " files, %s%s\n", where, f.tasks, f.count, f.files,
                   show_size((double)f.bytes).s, f.not_done   ? " (some tasks failed: see manifest.json)"
                   : f.left_out ? " (some outputs are not stored: see manifest.json)"
                                : "");
    }
    selection_free(&sel);
    json_decref(job);
    free(own);
    words_free(&w);
    return s;
}
