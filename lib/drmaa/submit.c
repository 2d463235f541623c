/* Submission: a template becomes a document and a request. A bulk submission is one job whose tasks differ by an index. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "drmaa/drmaa_private.h"

#define INDEX_PLACE "{i}"
#define STDIN_NAME  "drmaa.stdin" /* of a standard input that was transferred, in the task's directory */

/* What the job's directory and files are is known where it runs: a shell there goes to the directory, opens the files, and becomes the
 * command. Each place is "" (nothing to do), "h" and a path below the home directory, or "a" and a path; of standard input also "t", the
 * file that was transferred, and of standard error "j", standard output. */
static const char wrapper[] = "at() { case $1 in h*) p=$HOME/${1#h} ;; t) p=$HTC_SCRATCH/" STDIN_NAME " ;; *) p=${1#?} ;; esac; }\n"
                              "if [ -n \"$1\" ]; then at \"$1\"; cd -- \"$p\" || exit 126; fi\n"
                              "if [ -n \"$2\" ]; then at \"$2\"; exec < \"$p\" || exit 126; fi\n"
                              "if [ -n \"$3\" ]; then at \"$3\"; exec > \"$p\" || exit 126; fi\n"
                              "case $4 in '') ;; j) exec 2>&1 ;; *) at \"$4\"; exec 2> \"$p\" || exit 126 ;; esac\n"
                              "shift 4\n"
                              "exec \"$@\"\n";

/* A submission under way. */
typedef struct submission {
    session                    *s;
    const drmaa_job_template_t *t;
    wishes                      w;
    int                         bulk;
    int64_t                     start, end, incr;
    uint64_t                    count;
    text_list                   words, env;
    htc_stage                  *stages;
    size_t                      n_stages;
    text_list                   stage_words;
    char                       *hashes; /* of standard inputs that differ by the index, a source of values; NULL: none */
    char                       *files[2];
    int                         colons; /* a word of the command would be taken for a source of values */
    diagnosis                  *d;
} submission;

/* ---- words of the command ---- */

/* A brace that means a brace; the index's placeholder becomes its place, where it means something. Gives. */
static char *escaped(const submission *x, const char *text, int with_index)
{
    static const char placeholder[] = DRMAA_PLACEHOLDER_INCR;
    char             *out = NULL;
    size_t            len = 0;
    FILE             *f = open_memstream(&out, &len);
    if (!f)
        return NULL;
    for (const char *p = text; *p; p++) {
        if (with_index && strncmp(p, placeholder, sizeof placeholder - 1) == 0) {
            fputs(x->bulk ? INDEX_PLACE : "", f);
            p += sizeof placeholder - 2;
        } else {
            if (*p == '{')
                fputc('\\', f);
            fputc(*p, f);
        }
    }
    return fclose(f) == 0 ? out : NULL;
}

static int word(submission *x, const char *text, int with_index)
{
    char *w = escaped(x, text, with_index);
    int   source = strncmp(text, ":::", 3) == 0 && strspn(text + 3, ":+") == strlen(text + 3);
    int   good = w && (source ? htc__drmaa_list_print(&x->words, "{colons}%s", w + 2) : htc__drmaa_list_add(&x->words, w));
    x->colons |= source;
    free(w);
    return good;
}

/* A path as the wrapper reads it, with the index's place. */
static int place(submission *x, const char *path)
{
    static const char home[] = DRMAA_PLACEHOLDER_HD, here[] = DRMAA_PLACEHOLDER_WD;
    char              kind = 'a';
    char             *w = NULL;
    if (!path)
        return htc__drmaa_list_add(&x->words, "");
    if (strncmp(path, home, sizeof home - 1) == 0) {
        kind = 'h';
        path += sizeof home - 1;
    } else if (strncmp(path, here, sizeof here - 1) == 0) {
        path += sizeof here - 1;
        w = path[0] == '/' ? strdup(".") : strdup("");
    }
    char *rest = escaped(x, path, 1);
    int   good = rest && htc__drmaa_list_print(&x->words, "%c%s%s", kind, w ? w : "", rest);
    free(w);
    free(rest);
    return good;
}

static int transfers(const submission *x, char which)
{
    const char *value = x->t->value[ATTR_TRANSFER_FILES];
    return value && strchr(value, which);
}

static const char *path_of(const submission *x, attribute a)
{
    const char *value = x->t->value[a];
    return value ? strchr(value, ':') + 1 : NULL;
}

static int joins(const submission *x)
{
    const char *value = x->t->value[ATTR_JOIN_FILES];
    return value && *value == 'y';
}

/* A relative directory is one below the home directory. */
static int wrapper_words(submission *x)
{
    static const char home[] = DRMAA_PLACEHOLDER_HD;
    const char *wd = x->t->value[ATTR_WD], *in = path_of(x, ATTR_INPUT_PATH);
    const char *out = transfers(x, 'o') ? NULL : path_of(x, ATTR_OUTPUT_PATH);
    const char *err = joins(x) || transfers(x, 'e') ? NULL : path_of(x, ATTR_ERROR_PATH);
    int         moved = in && transfers(x, 'i');
    char       *below = NULL;
    if (!wd && !in && !out && !err && !joins(x))
        return 1;
    if (wd && wd[0] != '/' && wd[0] != '$' && asprintf(&below, "%s/%s", home, wd) < 0)
        return 0;
    int good = htc__drmaa_list_add(&x->words, "/bin/sh") && htc__drmaa_list_add(&x->words, "-c");
    char *script = escaped(x, wrapper, 0);
    good = good && script && htc__drmaa_list_add(&x->words, script) && htc__drmaa_list_add(&x->words, "drmaa") && place(x, below ? below : wd);
    good = good && (moved ? htc__drmaa_list_add(&x->words, "t") : place(x, in)) && place(x, out);
    good = good && (joins(x) ? htc__drmaa_list_add(&x->words, "j") : place(x, err));
    free(script);
    free(below);
    return good;
}

/* ---- inputs ---- */

/* Gives where a path of the template's is on this host. */
static char *path_here(const submission *x, const char *path)
{
    static const char home[] = DRMAA_PLACEHOLDER_HD, here[] = DRMAA_PLACEHOLDER_WD;
    char             *out = NULL, *base = NULL;
    if (strncmp(path, here, sizeof here - 1) == 0) {
        path += sizeof here - 1;
        base = x->t->value[ATTR_WD] ? path_here(x, x->t->value[ATTR_WD]) : getcwd(NULL, 0);
    } else if (strncmp(path, home, sizeof home - 1) == 0) {
        const char          *dir = getenv("HOME");
        struct passwd        entry, *found = NULL;
        char                 room[4096];
        if (!dir || dir[0] != '/')
            dir = getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 && found ? found->pw_dir : "/";
        path += sizeof home - 1;
        base = strdup(dir);
    } else
        return path[0] == '/' || !x->t->value[ATTR_WD] || x->t->value[ATTR_WD] == path ? strdup(path)
               : asprintf(&out, "%s/%s", x->t->value[ATTR_WD], path) < 0               ? NULL
                                                                                        : out;
    int n = base ? asprintf(&out, "%s%s%s", base, path[0] == '/' || !path[0] ? "" : "/", path) : -1;
    free(base);
    return n < 0 ? NULL : out;
}

static int stage(submission *x, const char *name, const char *uri, uint32_t flags)
{
    htc_stage *stages = realloc(x->stages, (x->n_stages + 1) * sizeof *stages);
    if (stages)
        x->stages = stages;
    if (!stages || !htc__drmaa_list_add(&x->stage_words, name) || !htc__drmaa_list_add(&x->stage_words, uri))
        return htc__drmaa_no_memory(x->d);
    x->stages[x->n_stages++] = (htc_stage){ x->stage_words.at[x->stage_words.count - 2], x->stage_words.at[x->stage_words.count - 1],
                                            HTC_STAGE_OVERWRITE | flags };
    return DRMAA_ERRNO_SUCCESS;
}

static int upload(submission *x, const char *path, char hex[65])
{
    htc_error  error = { .status = HTC_OK };
    htc_status status = htc__drmaa_upload(x->s, path, hex, &error);
    return status == HTC_OK ? DRMAA_ERRNO_SUCCESS : htc__drmaa_refused(x->d, SUBMITTING, status, &error);
}

/* [NAME=]FILE, as htc submit --input has it. */
static int add_input(submission *x, const char *value)
{
    const char *equals = strchr(value, '='), *path = equals && equals != value ? equals + 1 : value, *slash = strrchr(path, '/');
    char       *name = path != value ? strndup(value, (size_t)(equals - value)) : strdup(slash ? slash + 1 : path);
    char        hex[65], uri[80];
    int         code = name ? upload(x, path, hex) : htc__drmaa_no_memory(x->d);
    snprintf(uri, sizeof uri, "htc:%s", code == DRMAA_ERRNO_SUCCESS ? hex : "");
    char *plain = name ? escaped(x, name, 0) : NULL;
    if (code == DRMAA_ERRNO_SUCCESS)
        code = plain ? stage(x, plain, uri, access(path, X_OK) == 0 ? HTC_STAGE_EXECUTABLE : 0) : htc__drmaa_no_memory(x->d);
    free(plain);
    free(name);
    return code;
}

/* Gives path with the index for its placeholder. */
static char *with_index(const char *path, int64_t index)
{
    const char *at = strstr(path, DRMAA_PLACEHOLDER_INCR);
    char       *out = NULL, *rest = at ? with_index(at + strlen(DRMAA_PLACEHOLDER_INCR), index) : NULL;
    if (!at)
        return strdup(path);
    if (!rest || asprintf(&out, "%.*s%" PRId64 "%s", (int)(at - path), path, index, rest) < 0)
        out = NULL;
    free(rest);
    return out;
}

/* The hashes of all standard inputs, one for each index, as a list of values. */
static int upload_each(submission *x, const char *path)
{
    size_t len = 0;
    char   hex[65];
    FILE  *f = open_memstream(&x->hashes, &len);
    int    code = f ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(x->d);
    for (uint64_t k = 0; k < x->count && code == DRMAA_ERRNO_SUCCESS; k++) {
        char *one = with_index(path, x->start + (int64_t)k * x->incr);
        code = one ? upload(x, one, hex) : htc__drmaa_no_memory(x->d);
        if (code == DRMAA_ERRNO_SUCCESS)
            fprintf(f, "%s%s", k ? "," : "input=", hex);
        free(one);
    }
    if (f && fclose(f) != 0 && code == DRMAA_ERRNO_SUCCESS)
        code = htc__drmaa_no_memory(x->d);
    return code;
}

static int move_input(submission *x)
{
    const char *path = path_of(x, ATTR_INPUT_PATH);
    if (!path || !transfers(x, 'i'))
        return DRMAA_ERRNO_SUCCESS;
    char  hex[65], uri[80] = "htc:{input}", *here = path_here(x, path), *one = here ? with_index(here, x->start) : NULL;
    int   differ = here && x->bulk && strstr(here, DRMAA_PLACEHOLDER_INCR);
    int   code = !one ? htc__drmaa_no_memory(x->d) : differ ? upload_each(x, here) : upload(x, one, hex);
    if (code == DRMAA_ERRNO_SUCCESS && !differ)
        snprintf(uri, sizeof uri, "htc:%s", hex);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = stage(x, STDIN_NAME, uri, 0);
    free(one);
    free(here);
    return code;
}

static int note_files(submission *x)
{
    static const attribute which[] = { ATTR_OUTPUT_PATH, ATTR_ERROR_PATH };
    for (int i = 0; i < 2; i++) {
        const char *path = path_of(x, which[i]);
        if (!path || !transfers(x, "oe"[i]) || (i == 1 && joins(x)))
            continue;
        char *here = path_here(x, path);
        x->files[i] = here ? realpath(".", NULL) : NULL;
        if (x->files[i] && here[0] != '/') { /* the process may be elsewhere by then */
            char *full = NULL;
            int   n = asprintf(&full, "%s/%s", x->files[i], here);
            free(x->files[i]);
            x->files[i] = n < 0 ? NULL : full;
            free(here);
        } else {
            free(x->files[i]);
            x->files[i] = here;
        }
        if (!x->files[i])
            return htc__drmaa_no_memory(x->d);
    }
    return DRMAA_ERRNO_SUCCESS;
}

/* ---- the document ---- */

static int add_command(submission *x)
{
    const drmaa_job_template_t *t = x->t;
    const text_list            *argv = &t->list[ATTR_V_ARGV - ATTR_SCALARS];
    int                         good = wrapper_words(x) && word(x, t->value[ATTR_REMOTE_COMMAND], 0);
    for (size_t i = 0; good && i < argv->count; i++)
        good = word(x, argv->at[i], 0);
    if (good && x->bulk)
        good = htc__drmaa_list_add(&x->words, ":::") &&
               htc__drmaa_list_print(&x->words, "i=%" PRId64 ":%" PRId64 ":%" PRId64, x->start, x->end, x->incr);
    if (good && x->hashes)
        good = htc__drmaa_list_add(&x->words, ":::+") && htc__drmaa_list_add(&x->words, x->hashes);
    if (good && x->colons)
        good = htc__drmaa_list_add(&x->words, ":::") && htc__drmaa_list_add(&x->words, "colons=::");
    return good;
}

/* What other systems' environments say of a task of an array; the numbers are the indexes. */
static int add_array_env(submission *x)
{
    const char *compat = json_string_value(json_object_get(x->w.request, "compat"));
    int64_t     last = x->start + (int64_t)(x->count - 1) * x->incr;
    int         sge = compat && strcmp(compat, "sge") == 0, slurm = compat && strcmp(compat, "slurm") == 0;
    if (sge)
        return htc__drmaa_list_add(&x->env, "SGE_TASK_ID=" INDEX_PLACE) && htc__drmaa_list_print(&x->env, "SGE_TASK_FIRST=%" PRId64, x->start) &&
               htc__drmaa_list_print(&x->env, "SGE_TASK_LAST=%" PRId64, last) && htc__drmaa_list_print(&x->env, "SGE_TASK_STEPSIZE=%" PRId64, x->incr);
    if (slurm)
        return htc__drmaa_list_add(&x->env, "SLURM_ARRAY_TASK_ID=" INDEX_PLACE) &&
               htc__drmaa_list_print(&x->env, "SLURM_ARRAY_TASK_MIN=%" PRId64, x->incr > 0 ? x->start : last) &&
               htc__drmaa_list_print(&x->env, "SLURM_ARRAY_TASK_MAX=%" PRId64, x->incr > 0 ? last : x->start) &&
               htc__drmaa_list_print(&x->env, "SLURM_ARRAY_TASK_STEP=%" PRId64, x->incr);
    return 1;
}

static int add_env(submission *x)
{
    const text_list *from[] = { &x->w.env, &x->t->list[ATTR_V_ENV - ATTR_SCALARS] };
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < from[l]->count; i++) {
            char *plain = escaped(x, from[l]->at[i], 0);
            int   good = plain && htc__drmaa_list_add(&x->env, plain);
            free(plain);
            if (!good)
                return 0;
        }
    return !x->bulk || (htc__drmaa_list_add(&x->env, "DRMAA_INDEX=" INDEX_PLACE) && htc__drmaa_list_add(&x->env, "HTC_ARRAY_INDEX=" INDEX_PLACE) &&
                        add_array_env(x));
}

static int document(submission *x, htc_bytes *xml)
{
    htc_error error = { .status = HTC_OK };
    if (!add_command(x) || !add_env(x) || (x->env.at && !htc__drmaa_list_add(&x->env, "")))
        return htc__drmaa_no_memory(x->d);
    if (x->env.at) { /* a list that ends with NULL */
        free(x->env.at[--x->env.count]);
        x->env.at[x->env.count] = NULL;
    }
    htc_resource resources[HTC_TASK_RESOURCES_MAX];
    for (size_t i = 0; i < x->w.resources.count; i++)
        resources[i] = (htc_resource){ x->w.resources.at[i], x->w.counts[i] };
    htc_command command = { .size = sizeof command,
                            .words = (const char *const *)x->words.at,
                            .n_words = x->words.count,
                            .limits = { .cores = x->w.cores ? x->w.cores : 1 },
                            .env = (const char *const *)x->env.at,
                            .in = x->stages,
                            .n_in = x->n_stages,
                            .resources = resources,
                            .n_resources = x->w.resources.count,
                            .container = x->w.container,
                            .hosts = x->w.hosts,
                            .architecture = x->w.architecture,
                            .system = x->w.system,
                            .node_cores = x->w.node_cores };
    htc_status  status = htc_command_to_jsdl(NULL, &command, xml, &error);
    return status == HTC_OK ? DRMAA_ERRNO_SUCCESS : htc__drmaa_refused(x->d, SUBMITTING, status, &error);
}

/* ---- the request ---- */

static void set(submission *x, const char *member, json_t *value)
{
    json_object_set_new(x->w.request, member, value);
}

/* The shorter of the limits that there are; a job is never suspended, so both count the same time. */
static void add_limits(submission *x)
{
    static const attribute which[] = { ATTR_WCT_HLIMIT, ATTR_DURATION_HLIMIT };
    double                 least = 0, v;
    for (int i = 0; i < 2; i++)
        if (x->t->value[which[i]] && htc__drmaa_seconds(x->t->value[which[i]], &v) && (least == 0 || v < least))
            least = v;
    if (least > 0)
        set(x, "time_limit", json_real(least));
}

/* Where the gateway sends no mail the job is accepted all the same. */
static int add_mail(submission *x)
{
    const text_list *to = &x->t->list[ATTR_V_EMAIL - ATTR_SCALARS];
    const char      *block = x->t->value[ATTR_BLOCK_EMAIL];
    char            *all = NULL;
    size_t           len = 0;
    FILE            *f = to->count ? open_memstream(&all, &len) : NULL;
    for (size_t i = 0; f && i < to->count; i++)
        fprintf(f, "%s%s", i ? "," : "", to->at[i]);
    if (to->count && (!f || fclose(f) != 0)) {
        free(all);
        return htc__drmaa_no_memory(x->d);
    }
    if (all) {
        set(x, "mail_to", json_string(all));
        set(x, "mail_if_possible", json_true());
    }
    if (block && *block == '1')
        set(x, "mail_on", json_string("none"));
    free(all);
    return DRMAA_ERRNO_SUCCESS;
}

static int add_start_time(submission *x)
{
    const char *text = x->t->value[ATTR_START_TIME];
    time_t      now = time(NULL), moment = 0;
    if (!text)
        return DRMAA_ERRNO_SUCCESS;
    int code = htc__drmaa_start_time(text, now, &moment);
    if (code != DRMAA_ERRNO_SUCCESS) /* what was a moment when it was set is one no more */
        return htc__drmaa_fail(x->d, code, "%s: there is no such moment as '%.100s'", DRMAA_START_TIME, text);
    if (moment > now)
        set(x, "begin", json_real((double)moment));
    return code;
}

/* No two submissions have one, so that one whose answer is lost can be repeated. */
static int add_key(submission *x)
{
    uint8_t bytes[16];
    char    key[33];
    if (json_object_get(x->w.request, "key"))
        return DRMAA_ERRNO_SUCCESS;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return htc__drmaa_fail(x->d, DRMAA_ERRNO_INTERNAL_ERROR, "no source of randomness: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(key + 2 * i, "%02x", bytes[i]);
    set(x, "key", json_string(key));
    return DRMAA_ERRNO_SUCCESS;
}

/* Options first, then the template's own attributes, which overrule them. */
static int read_wishes(submission *x)
{
    const drmaa_job_template_t *t = x->t;
    const char                 *state = t->value[ATTR_JS_STATE];
    int                         code = DRMAA_ERRNO_SUCCESS;
    if (!t->value[ATTR_REMOTE_COMMAND])
        return htc__drmaa_fail(x->d, DRMAA_ERRNO_DENIED_BY_DRM, "%s is not set", DRMAA_REMOTE_COMMAND);
    x->w.request = json_pack("{s:s,s:i}", "op", "submit", "retries", 0);
    if (!x->w.request)
        return htc__drmaa_no_memory(x->d);
    if (t->value[ATTR_JOB_CATEGORY])
        code = htc__drmaa_category(x->s, &x->w, t->value[ATTR_JOB_CATEGORY], x->d);
    if (code == DRMAA_ERRNO_SUCCESS && t->value[ATTR_NATIVE_SPECIFICATION])
        code = htc__drmaa_native(x->s, &x->w, t->value[ATTR_NATIVE_SPECIFICATION], x->d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    if (t->value[ATTR_JOB_NAME])
        set(x, "name", json_string(t->value[ATTR_JOB_NAME]));
    if (state)
        set(x, "paused", json_boolean(strcmp(state, DRMAA_SUBMISSION_STATE_HOLD) == 0));
    if (x->w.after)
        set(x, "after", json_incref(x->w.after));
    if (x->bulk && x->incr > 0) {
        char numbers[64];
        snprintf(numbers, sizeof numbers, "%" PRId64 "-%" PRId64 ":%" PRId64, x->start, x->end, x->incr);
        set(x, "array", json_string(numbers));
    }
    char   *here = getcwd(NULL, 0);
    json_t *dir = json_string(here ? here : "");
    set(x, "submit_dir", dir ? dir : json_string(""));
    free(here);
    add_limits(x);
    code = add_start_time(x);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = add_mail(x);
    return code == DRMAA_ERRNO_SUCCESS ? add_key(x) : code;
}

static int send_request(submission *x, htc_bytes xml, uint64_t *id)
{
    htc_error error = { .status = HTC_OK };
    json_t   *answer = NULL, *text = json_stringn(xml.data, xml.len);
    if (!text)
        return htc__drmaa_fail(x->d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "an option or a path is not valid UTF-8");
    set(x, "jsdl", text);
    htc_status status = htc__drmaa_ask(x->s, x->w.request, 0, &answer, &error);
    *id = (uint64_t)json_integer_value(json_object_get(answer, "id"));
    json_decref(answer);
    return status == HTC_OK ? DRMAA_ERRNO_SUCCESS : htc__drmaa_refused(x->d, SUBMITTING, status, &error);
}

static int note_job(submission *x, uint64_t id)
{
    htc__drmaa_lock();
    drmaa_job *j = htc__drmaa_job_add(x->s, id, x->count);
    if (j) {
        j->bulk = (uint8_t)x->bulk;
        j->start = x->start;
        j->incr = x->incr;
        for (int i = 0; i < 2; i++)
            if (!j->files[i]) {
                j->files[i] = x->files[i];
                x->files[i] = NULL;
            }
    }
    htc__drmaa_unlock();
    return j ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(x->d);
}

static int submit(submission *x, uint64_t *id)
{
    htc_bytes xml = { NULL, 0 };
    int       code = read_wishes(x);
    for (size_t i = 0; code == DRMAA_ERRNO_SUCCESS && i < x->w.inputs.count; i++)
        code = add_input(x, x->w.inputs.at[i]);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = move_input(x);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = note_files(x);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = document(x, &xml);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = send_request(x, xml, id);
    htc_work_free(NULL, xml);
    return code == DRMAA_ERRNO_SUCCESS ? note_job(x, *id) : code;
}

static void submission_free(submission *x)
{
    htc__drmaa_wishes_free(&x->w);
    htc__drmaa_list_free(&x->words);
    htc__drmaa_list_free(&x->env);
    htc__drmaa_list_free(&x->stage_words);
    free(x->stages);
    free(x->hashes);
    free(x->files[0]);
    free(x->files[1]);
}

/* The template's jobs, of x->count of which the bounds are filled in. */
static int run(submission *x, const drmaa_job_template_t *jt, uint64_t *id)
{
    drmaa_job_template_t copy;
    session             *s = htc__drmaa_session();
    if (!s)
        return htc__drmaa_no_session(x->d);
    int code = htc__drmaa_template_copy(jt, &copy) ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(x->d);
    x->s = s;
    x->t = &copy;
    if (code == DRMAA_ERRNO_SUCCESS)
        code = submit(x, id);
    htc__drmaa_template_clear(&copy);
    submission_free(x);
    htc__drmaa_session_done(s);
    return code;
}

int drmaa_run_job(char *job_id, size_t job_id_len, const drmaa_job_template_t *jt, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis  d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    submission x = { .count = 1, .d = &d };
    uint64_t   id = 0;
    if (!jt || !job_id || job_id_len == 0)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no %s", jt ? "place for the job's id" : "template");
    int code = run(&x, jt, &id);
    if (code == DRMAA_ERRNO_SUCCESS)
        snprintf(job_id, job_id_len, "%" PRIu64, id);
    return code;
}

int drmaa_run_bulk_jobs(drmaa_job_ids_t **jobids, const drmaa_job_template_t *jt, int start, int end, int incr, char *error_diagnosis,
                        size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    int64_t   span = (int64_t)end - start;
    if (!jt || !jobids)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no %s", jt ? "place for the jobs' ids" : "template");
    if (start < 1 || end < 1 || incr == 0 || (span > 0 && incr < 0) || (span < 0 && incr > 0))
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "from %d to %d by %d: indexes are 1 or more, and the last is reached by the step", start,
                               end, incr);
    submission       x = { .bulk = 1, .start = start, .end = end, .incr = incr, .count = (uint64_t)(span / incr) + 1, .d = &d };
    drmaa_job_ids_t *ids = calloc(1, sizeof *ids);
    if (!ids)
        return htc__drmaa_no_memory(&d);
    ids->count = x.count;
    int code = run(&x, jt, &ids->job);
    if (code == DRMAA_ERRNO_SUCCESS)
        *jobids = ids;
    else
        free(ids);
    return code;
}
