/* generate and validate: the document of a command with parameters, as `htc generate` writes it, and how many tasks a document has. Nothing is
 * stored and nobody else is asked. It is done at once, so that what is read, and what is written, is bounded (admission.h). */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define WORDS_MAX 4096

/* What a request says of a command. */
typedef struct plan {
    htc_gateway *gw;
    request     *q;
    const char  *words[WORDS_MAX];
    size_t       n_words;
    const char **env;
    size_t       n_env;
    char        *args; /* cut into words */
    size_t       args_size;
    size_t       given; /* bytes of files, each as often as it is named */
} plan;

/* 0: q has been answered. */
static int add(plan *p, const char *word)
{
    if (p->n_words == WORDS_MAX) {
        htc__gw_req_fail(p->gw, p->q, HTC_ETOOBIG, "put the values into a file", "the command has more than %d words", WORDS_MAX);
        return 0;
    }
    p->words[p->n_words++] = word;
    return 1;
}

/* 0: q has been answered. what: "the document"; instead: the program that does the same. */
static int admitted(htc_gateway *gw, request *q, size_t bytes, const char *what, const char *instead)
{
    htc_status status = htc__admission_of_look(bytes, gw->submitting);
    char       hint[80];
    snprintf(hint, sizeof hint, "%s does it on your machine", instead);
    if (status == HTC_ETOOBIG)
        htc__gw_req_fail(gw, q, status, hint, "%s has %zu bytes, and %zu are looked at here", what, bytes, ADMISSION_LOOK_BYTES);
    else if (status != HTC_OK)
        htc__gw_req_fail(gw, q, status, "try again in a moment", "too many large jobs are being submitted");
    return status == HTC_OK;
}

/* A list of texts; NULL: it is not there. 0: q has been answered. */
static int list_of(plan *p, const char *name, const json_t **list)
{
    size_t        i;
    const json_t *word;
    *list = json_object_get(p->q->body, name);
    json_array_foreach(*list, i, word)
        if (!json_is_string(word)) {
            htc__gw_req_fail(p->gw, p->q, HTC_EINVAL, "see doc/api.md", "\"%s\" is a list of texts", name);
            return 0;
        }
    if (!*list || json_is_array(*list))
        return 1;
    htc__gw_req_fail(p->gw, p->q, HTC_EINVAL, "see doc/api.md", "\"%s\" is a list of texts", name);
    return 0;
}

static int add_args(plan *p, const char *text)
{
    const char *word;
    p->args_size = strlen(text) + 1;
    if (!(p->args = htc__alloc(&p->gw->env, p->args_size))) {
        htc_runtime_break(p->gw->runtime, HTC_ENOMEM, "reading a command");
        return 0;
    }
    memcpy(p->args, text, p->args_size);
    char      *left = p->args;
    htc_status status;
    while ((status = htc_command_word(&left, &word)) == HTC_OK)
        if (!add(p, word))
            return 0;
    if (status == HTC_EMPTY)
        return 1;
    htc__gw_req_fail(p->gw, p->q, status, "close the quotation", "a quotation in the arguments does not end");
    return 0;
}

/* The words in the order in which htc generate puts them: "words", or "exe" and "args"; then a source for each of "sweeps". */
static int gather(plan *p)
{
    const json_t *words, *sweeps, *word;
    size_t        i;
    const char   *exe = htc__gw_req_str(p->q, "exe"), *args = htc__gw_req_str(p->q, "args");
    if (!list_of(p, "words", &words) || !list_of(p, "sweeps", &sweeps))
        return 0;
    if (exe && exe[0] && !add(p, exe))
        return 0;
    if (args && !add_args(p, args))
        return 0;
    json_array_foreach(words, i, word)
        if (!add(p, json_string_value(word)))
            return 0;
    if (p->n_words == 0 || (args && !(exe && exe[0]))) {
        htc__gw_req_fail(p->gw, p->q, HTC_EUSAGE, "name the executable", "there is no command");
        return 0;
    }
    json_array_foreach(sweeps, i, word)
        if (!add(p, ":::") || !add(p, json_string_value(word)))
            return 0;
    return 1;
}

static int gather_env(plan *p)
{
    const json_t *list, *word;
    size_t        i;
    if (!list_of(p, "env", &list))
        return 0;
    if (!json_array_size(list))
        return 1;
    p->n_env = json_array_size(list) + 1;
    if (!(p->env = htc__alloc(&p->gw->env, p->n_env * sizeof *p->env))) {
        htc_runtime_break(p->gw->runtime, HTC_ENOMEM, "reading a command");
        return 0;
    }
    json_array_foreach(list, i, word) {
        p->env[i] = json_string_value(word);
        if (!strchr(p->env[i], '=') || p->env[i][0] == '=') {
            htc__gw_req_fail(p->gw, p->q, HTC_EUSAGE, "write NAME=VALUE", "'%.80s' is not NAME=VALUE", p->env[i]);
            return 0;
        }
    }
    return 1;
}

/* The files that a source names are in the request. */
static htc_status read_file(void *ctx, const char *path, htc_bytes *content)
{
    plan         *p = ctx;
    const json_t *text = json_object_get(json_object_get(p->q->body, "files"), path);
    if (!json_is_string(text))
        return HTC_ENOTFOUND;
    p->given += json_string_length(text);
    if (p->given > ADMISSION_LOOK_BYTES)
        return HTC_ETOOBIG;
    *content = (htc_bytes){ json_string_value(text), json_string_length(text) };
    return HTC_OK;
}

static json_t *counted(htc_gateway *gw, htc_bytes xml, htc_error *error)
{
    htc_spec_options limits = { .size = sizeof limits, .tasks_max = gw->options.tasks_max };
    htc_spec        *spec = NULL;
    error->status = htc_spec_parse(&gw->env, xml, &limits, &spec, error);
    if (error->status != HTC_OK)
        return NULL;
    json_t *o = json_pack("{s:I,s:s,s:o}", "count", (json_int_t)htc_spec_count(spec), "name", htc_spec_name(spec), "warnings",
                          htc__gw_spec_warnings(spec));
    htc_spec_destroy(spec);
    return o;
}

static void answer(htc_gateway *gw, request *q, json_t *o, const htc_error *error)
{
    if (o)
        htc__gw_req_answer(gw, q, o);
    else if (error->status != HTC_OK)
        htc__gw_req_error(gw, q, error);
    else
        htc__gw_req_fail(gw, q, HTC_EINTERNAL, "", "the answer could not be written down");
}

/* Of all that the document is made of. */
static size_t bytes_of(const json_t *value)
{
    const char   *name;
    const json_t *one;
    size_t        i, sum = json_is_string(value) ? json_string_length(value) : 0;
    if (json_is_array(value)) {
        json_array_foreach(value, i, one)
            sum += bytes_of(one);
    } else if (json_is_object(value)) {
        json_object_foreach((json_t *)(uintptr_t)value, name, one)
            sum += bytes_of(one);
    }
    return sum;
}

static void write_document(plan *p)
{
    htc_error     error = { .status = HTC_OK };
    htc_bytes     xml = { NULL, 0 };
    double        time_s = htc__gw_req_num(p->q, "time_limit", 0);
    uint64_t      cores = htc__gw_req_u64(p->q, "cores", 1);
    const json_t *pairs = json_object_get(p->q->body, "pairs");
    if (!(time_s >= 0 && time_s <= 1e9) || cores < 1 || cores > UINT32_MAX) {
        htc__gw_req_fail(p->gw, p->q, HTC_EINVAL, "see doc/api.md", "the limits of a task are out of range");
        return;
    }
    htc_command command = {
        .size = sizeof command,
        .words = p->words,
        .n_words = p->n_words,
        .name = htc__gw_req_str(p->q, "name"),
        .limits = { .wall = (htc_ns)(time_s * 1e9), .memory = htc__gw_req_u64(p->q, "memory", 0), .cores = (uint32_t)cores },
        .env = p->env,
        .read_file = read_file,
        .ctx = p,
        .pairs_a = json_string_value(json_object_get(pairs, "a")),
        .pairs_b = json_string_value(json_object_get(pairs, "b")),
        .pairs_unordered = json_is_true(json_object_get(pairs, "unordered")),
    };
    error.status = htc_command_to_jsdl(&p->gw->env, &command, &xml, &error);
    int files = admitted(p->gw, p->q, p->given, "what it reads", "htc generate");
    if (!files || (error.status == HTC_OK && !admitted(p->gw, p->q, xml.len, "the document", "htc generate"))) {
        htc_work_free(&p->gw->env, xml);
        return;
    }
    json_t *o = error.status == HTC_OK ? counted(p->gw, xml, &error) : NULL;
    if (o)
        json_object_set_new(o, "jsdl", json_stringn(xml.data, xml.len));
    htc_work_free(&p->gw->env, xml);
    answer(p->gw, p->q, o, &error);
}

static void generate(htc_gateway *gw, request *q)
{
    if (!admitted(gw, q, bytes_of(q->body), "the request", "htc generate"))
        return;
    plan *p = htc__alloc(&gw->env, sizeof *p);
    if (!p) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading a command");
        return;
    }
    p->gw = gw;
    p->q = q;
    if (gather(p) && gather_env(p))
        write_document(p);
    htc__free(&gw->env, p->args, p->args_size);
    htc__free(&gw->env, p->env, p->n_env * sizeof *p->env);
    htc__free(&gw->env, p, sizeof *p);
}

void htc__gw_api_generate(htc_gateway *gw, request *q)
{
    const json_t *text = json_object_get(q->body, "jsdl");
    htc_error     error = { .status = HTC_OK };
    if (strcmp(q->op, "generate") == 0)
        generate(gw, q);
    else if (!json_is_string(text))
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "validate needs a \"jsdl\" document");
    else if (admitted(gw, q, json_string_length(text), "the document", "htc validate")) {
        json_t *o = counted(gw, (htc_bytes){ json_string_value(text), json_string_length(text) }, &error);
        answer(gw, q, o, &error);
    }
}
