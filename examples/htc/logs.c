/* logs: what tasks have written so far, also while they run. */
#include "htc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_PIECE    (256u << 10) /* of --json */
#define FOLLOWED_MAX 1000

/* One task's stream, as far as it was shown. */
typedef struct stream {
    uint64_t task, attempt, offset;
    uint32_t ended; /* nothing will be added */
} stream;

typedef struct logs {
    cli        *c;
    uint64_t    job, count;
    const char *name; /* of the stream */
    uint32_t    follow, titles;
    uint32_t    gone;   /* whoever read this has left: `| head` */
    uint64_t    titled; /* the task whose title was written last, and one more; 0: none */
    json_t     *list;   /* --json of several tasks */
    htc_status  first;  /* what the first task that could not be shown met */
    htc_error   why;
} logs;

/* Which tasks: "2-5,7" a range at a time. 0: there is no further one; the selector is the server's to judge. */
static int next_range(const char **at, uint64_t *from, uint64_t *to)
{
    char *end;
    if (!**at)
        return 0;
    *from = *to = strtoull(*at, &end, 10);
    if (*end == '-')
        *to = strtoull(end + 1, &end, 10);
    *at = *end == ',' ? end + 1 : end;
    return 1;
}

static void write_title(logs *l, const stream *t)
{
    if (!l->titles || l->titled == t->task + 1)
        return;
    printf("%s==> %" PRIu64 ".%" PRIu64 " <==\n", l->titled ? "\n" : "", l->job, t->task);
    l->titled = t->task + 1;
}

/* Everything from where it was shown to up to size. */
static htc_status show_rest(logs *l, stream *t, uint64_t size)
{
    htc_status s = HTC_OK;
    while (s == HTC_OK && t->offset < size && !l->gone) {
        htc_bytes piece = { 0 };
        uint64_t  now = size;
        s = api_read(l->c, l->job, t->task, (uint32_t)t->attempt, l->name, t->offset, &piece, &now);
        if (s != HTC_OK || !piece.len)
            break;
        write_title(l, t);
        if (fwrite(piece.data, 1, piece.len, stdout) != piece.len)
            l->gone = 1;
        t->offset += piece.len;
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        l->gone = 1;
    if (l->gone && errno == EPIPE)
        clearerr(stdout);
    return s;
}

static htc_status not_started(logs *l, const stream *t, int never)
{
    char id[48];
    snprintf(id, sizeof id, "%" PRIu64 ".%" PRIu64, l->job, t->task);
    return never ? cli_error(l->c, HTC_ENOTFOUND, id, "", "it was cancelled before it started")
                 : cli_error(l->c, HTC_ENOTFOUND, id, "htc why says what it waits for", "it has not started");
}

static htc_status ask_state(logs *l, uint64_t task, unsigned length, json_t **answer)
{
    char id[48];
    snprintf(id, sizeof id, "%" PRIu64 ".%" PRIu64, l->job, task);
    return api_ask(l->c,
                   json_pack("{s:s, s:s, s:s, s:i, s:i}", "op", "log", "id", id, "stream", l->name, "offset", 0,
                             "length", (int)length),
                   0, 60, answer);
}

/* A task that its memory has ended could not write so: the log alone would look whole. */
static void say_memory(logs *l, uint64_t task)
{
    char    id[48];
    json_t *answer;
    snprintf(id, sizeof id, "%" PRIu64 ".%" PRIu64, l->job, task);
    if (api_ask(l->c, json_pack("{s:s, s:s}", "op", "why", "id", id), 0, 10, &answer) != HTC_OK)
        return;
    char *why = shown(j_str(answer, "why"));
    fprintf(stderr, "htc: %s\n", why);
    free(why);
    json_decref(answer);
}

/* What a task has written since it was looked at last. */
static htc_status show_news(logs *l, stream *t)
{
    json_t    *answer;
    htc_status s = ask_state(l, t->task, 0, &answer);
    if (s != HTC_OK)
        return s;
    uint64_t attempt = j_u64(answer, "attempt"), size = j_u64(answer, "size");
    int      final = j_bool(answer, "final");
    int      no_memory = strcmp(j_str(answer, "status"), htc_status_name(HTC_EOOM)) == 0;
    json_decref(answer);
    if (!attempt && (final || !l->follow))
        return not_started(l, t, final);
    if (t->attempt && attempt != t->attempt) { /* it was tried again: from the start */
        fprintf(stderr, "htc: attempt %" PRIu64 " of %" PRIu64 ".%" PRIu64 "\n", attempt, l->job, t->task);
        t->offset = 0;
    }
    t->attempt = attempt;
    if (!l->follow)
        write_title(l, t);
    s = show_rest(l, t, size);
    if (s != HTC_OK && l->follow && !final) /* it is being tried again, or the gateway starts anew: the next look says */
        return s == HTC_ENOTFOUND || htc_exit_code(s) == 3 ? HTC_OK : s;
    t->ended = s == HTC_OK && final && t->offset >= size;
    if (t->ended && no_memory && !l->gone)
        say_memory(l, t->task);
    return s;
}

/* One task that cannot be shown does not stop the others. 1: go on. */
static int pass_over(logs *l, htc_status s)
{
    if (l->first == HTC_OK) {
        l->first = s;
        l->why = l->c->error;
    }
    return htc_exit_code(s) != 3 && htc_exit_code(s) != 70;
}

static htc_status json_one(logs *l, uint64_t task)
{
    json_t    *answer;
    htc_status s = ask_state(l, task, LOG_PIECE, &answer);
    if (s != HTC_OK)
        return s;
    if (!l->list)
        put_json(l->c, answer);
    else {
        json_object_set_new(answer, "task", json_integer((json_int_t)task));
        json_array_append(l->list, answer);
    }
    json_decref(answer);
    return HTC_OK;
}

static void show_once(logs *l, const char *tasks)
{
    uint64_t from, to;
    while (next_range(&tasks, &from, &to)) {
        for (uint64_t i = from; !l->gone && i <= to && (i < l->count || i == from); i++) {
            stream     t = { .task = i };
            htc_status s = l->c->json ? json_one(l, i) : show_news(l, &t);
            if (s != HTC_OK && !pass_over(l, s))
                return;
        }
    }
}

static stream *followed(logs *l, const char *tasks, size_t *n)
{
    uint64_t from, to;
    stream  *all = must(calloc(FOLLOWED_MAX, sizeof *all));
    *n = 0;
    while (next_range(&tasks, &from, &to)) {
        for (uint64_t i = from; i <= to && (i < l->count || i == from); i++) {
            if (*n == FOLLOWED_MAX) {
                free(all);
                l->first = cli_error(l->c, HTC_ETOOBIG, "--follow", "name fewer of them",
                                     "at most %d tasks are followed at once", FOLLOWED_MAX);
                l->why = l->c->error;
                return NULL;
            }
            all[(*n)++].task = i;
        }
    }
    return all;
}

/* All of them at once, as tail -f does. */
static void show_on(logs *l, const char *tasks)
{
    size_t  n, left;
    stream *all = followed(l, tasks, &n);
    int     on = all != NULL;
    while (on && !l->gone) {
        left = 0;
        for (size_t i = 0; i < n && on && !l->gone; i++) {
            if (all[i].ended)
                continue;
            htc_status s = show_news(l, &all[i]);
            if (s != HTC_OK)
                on = pass_over(l, s);
            all[i].ended |= s != HTC_OK;
            left += !all[i].ended;
        }
        on = on && left;
        if (on && !l->gone)
            pause_ms(300);
    }
    free(all);
}

static htc_status show(logs *l, const char *selector)
{
    const char *dot = strchr(selector, '.'), *tasks = dot ? dot + 1 : "0";
    uint64_t    from, to;
    const char *at = tasks;
    if (!dot && l->count > 1)
        return cli_error(l->c, HTC_EINVAL, selector, "name some as ID.0 or ID.0-9", "it has %" PRIu64 " tasks", l->count);
    l->titles = next_range(&at, &from, &to) && (from != to || *at);
    if (l->c->json && l->titles)
        l->list = json_array();
    if (l->follow && !l->c->json)
        show_on(l, tasks);
    else
        show_once(l, tasks);
    if (l->first == HTC_OK && l->list) {
        json_t *o = json_pack("{s:I, s:O}", "job", (json_int_t)l->job, "tasks", l->list);
        put_json(l->c, o);
        json_decref(o);
    }
    json_decref(l->list);
    if (l->first != HTC_OK)
        l->c->error = l->why;
    return l->first;
}

#define FAILED_MAX 10000

/* The selection names those of its tasks that failed, from now on. */
static htc_status name_failed(cli *c, selection *sel, uint64_t job)
{
    char      *ids = NULL;
    size_t     len = 0, n = 0, i;
    uint64_t   from = 0;
    json_t    *answer, *task;
    htc_status s = HTC_OK;
    FILE      *out = must(open_memstream(&ids, &len));
    fprintf(out, "%" PRIu64 ".", job);
    for (int more = 1; more;) {
        json_t *request = selection_request(sel, "tasks");
        if (request)
            json_object_update_new(request, json_pack("{s:I, s:b}", "from", (json_int_t)from, "failed", 1));
        s = api_ask(c, request, 0, 10, &answer);
        if (s != HTC_OK)
            break;
        json_array_foreach(json_object_get(answer, "tasks"), i, task)
            fprintf(out, "%s%" PRIu64, n++ ? "," : "", j_u64(task, "index"));
        more = json_is_integer(json_object_get(answer, "next")) && n <= FAILED_MAX;
        from = j_u64(answer, "next");
        json_decref(answer);
    }
    fclose(out);
    if (s == HTC_OK && n == 0)
        s = cli_error(c, HTC_ENOTFOUND, "--failed", "htc tasks lists all", "no task of job %" PRIu64 " has failed", job);
    if (s == HTC_OK && n > FAILED_MAX)
        s = cli_error(c, HTC_ETOOBIG, "--failed", "htc fetch --failed brings them all", "more than %d tasks have failed", FAILED_MAX);
    if (s == HTC_OK) {
        free(sel->id);
        sel->id = must(ids);
    } else {
        free(ids);
    }
    return s;
}

htc_status run_logs(cli *c, int argc, char **argv)
{
    uint32_t   from_stderr = 0, failed = 0;
    job_filter f = { 0 };
    words     w;
    logs      l = { .c = c };
    selection sel = { 0 };
    json_t   *job = NULL;
    const opt opts[] = {
        { "follow", 'f', OPT_FLAG, &l.follow, NULL, "go on as the tasks write, until they have ended" },
        { "stderr", 0, OPT_FLAG, &from_stderr, NULL, "standard error instead of standard output" },
        { "failed", 0, OPT_FLAG, &failed, NULL, "of the tasks that failed" },
        FILTER_OPTIONS(f),
    };
    const command *cmd = find_command("logs");
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    if (s == HTC_OK)
        s = selection_settle_of(c, w.at[0], &f, &sel);
    if (s == HTC_OK)
        s = api_one_job(c, &sel, &job);
    if (s == HTC_OK && failed)
        s = name_failed(c, &sel, j_u64(job, "id"));
    if (s == HTC_OK) {
        l.job = j_u64(job, "id");
        l.count = j_u64(job, "count");
        l.name = from_stderr ? "stderr" : "stdout";
        s = show(&l, sel.id);
    }
    json_decref(job);
    selection_free(&sel);
    words_free(&w);
    return s;
}
