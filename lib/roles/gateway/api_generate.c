/* generate and validate: the document of a command with parameters, as `htc generate` writes it, and how many tasks a document has. Nothing is
 * stored and nobody else is asked. It is done at once, so that what is read, and what is written, is bounded (admission.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/script.h"
#include "roles/gateway/gateway.h"

json_t *htc__gw_spec_warnings(const htc_spec *spec)
{
    json_t     *warnings = json_array();
    const char *line = spec ? htc_spec_warnings(spec) : "";
    while (*line) {
        size_t n = strcspn(line, "\n");
        json_array_append_new(warnings, json_stringn(line, n));
        line += n + (line[n] == '\n');
    }
    return warnings;
}

#define WORDS_MAX 4096
#define INPUTS_MAX 256

/* What a request says of a command. */
typedef struct plan {
    htc_gateway *gw;
    request     *q;
    const char  *words[WORDS_MAX];
    size_t       n_words;
    const char **env;
    size_t       n_env;
    htc_stage   *in;
    char       (*uris)[sizeof "htc:" + 64]; /* what they point to */
    size_t       n_in, cap_in;
    char        *args; /* cut into words */
    size_t       args_size;
    size_t       given; /* bytes of files, each as often as it is named */
    htc_resource res[HTC_TASK_RESOURCES_MAX]; /* GPUs among them */
    char         res_names[HTC_TASK_RESOURCES_MAX][HTC_RESOURCE_NAME_MAX + 1];
    size_t       n_res;
    htc_array    numbers;
    htc_buf      array; /* its source */
    char         at_once[24];
    htc_wish     wishes[2];
    size_t       n_wishes;
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

#define ARRAY_VALUES_MAX 1000000 /* of one with several ranges: they stand in the document one by one */

/* The numbers of an array are the first source, as htc generate has it, and in the document beside how many of its tasks run at once. 0: q has been answered. */
static int add_array(plan *p, const char *text)
{
    htc_error  error = { .status = HTC_OK };
    htc_array *a = &p->numbers;
    a->size = sizeof *a;
    if (htc_array_parse(text, a, &error) != HTC_OK) {
        htc__gw_req_error(p->gw, p->q, &error);
        return 0;
    }
    if (a->n_ranges > 1 && a->count > ARRAY_VALUES_MAX) {
        htc__gw_req_fail(p->gw, p->q, HTC_ETOOBIG, "submit it in parts", "an array of several ranges has at most %d numbers", ARRAY_VALUES_MAX);
        return 0;
    }
    if (a->n_ranges == 1 && a->count > 1)
        htc_put_text(&p->array, "array=%llu:%llu:%llu", (unsigned long long)a->range[0].first, (unsigned long long)a->range[0].last,
                     (unsigned long long)a->range[0].step);
    else
        for (uint64_t k = 0; k < a->count; k++)
            htc_put_text(&p->array, "%s%llu", k ? "," : "array=", (unsigned long long)htc_array_at(a, k));
    htc_put_u8(&p->array, 0);
    if (p->array.status != HTC_OK) {
        htc_runtime_break(p->gw->runtime, HTC_ENOMEM, "reading a command");
        return 0;
    }
    p->wishes[p->n_wishes++] = (htc_wish){ "array", text };
    snprintf(p->at_once, sizeof p->at_once, "%llu", (unsigned long long)a->at_once);
    if (a->at_once)
        p->wishes[p->n_wishes++] = (htc_wish){ "max_running", p->at_once };
    return add(p, ":::") && add(p, (const char *)p->array.data);
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
    const char *array = htc__gw_req_str(p->q, "array");
    json_array_foreach(words, i, word) {
        if (array && array[0] && !p->n_wishes && strncmp(json_string_value(word), ":::", 3) == 0 && !add_array(p, array))
            return 0;
        if (!add(p, json_string_value(word)))
            return 0;
    }
    if (array && array[0] && p->n_words && !p->n_wishes && !add_array(p, array))
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
    if (!json_array_size(list) && !p->n_wishes)
        return 1;
    p->n_env = json_array_size(list) + 2;
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
    if (p->n_wishes)
        p->env[json_array_size(list)] = "HTC_ARRAY_INDEX={array}";
    return 1;
}

/* What sites count: "gpus", then "res", a list of NAME=N, as htc generate has it. */
static int gather_resources(plan *p)
{
    const json_t *list, *word;
    size_t        i;
    uint64_t      gpus = htc__gw_req_u64(p->q, "gpus", 0), number = 0;
    if (!list_of(p, "res", &list))
        return 0;
    if (json_array_size(list) + (gpus > 0) > HTC_TASK_RESOURCES_MAX) {
        htc__gw_req_fail(p->gw, p->q, HTC_ETOOBIG, "", "a task takes at most %d resources", HTC_TASK_RESOURCES_MAX);
        return 0;
    }
    if (gpus)
        p->res[p->n_res++] = (htc_resource){ HTC_RESOURCE_GPU, (uint32_t)gpus };
    json_array_foreach(list, i, word) {
        const char *text = json_string_value(word), *equals = strchr(text, '=');
        size_t      len = equals ? (size_t)(equals - text) : 0;
        char       *end = NULL;
        number = equals ? strtoull(equals + 1, &end, 10) : 0;
        if (len == 0 || len > HTC_RESOURCE_NAME_MAX || equals[1] < '0' || equals[1] > '9' || *end || number < 1 || number > UINT32_MAX) {
            htc__gw_req_fail(p->gw, p->q, HTC_EUSAGE, "write NAME=N, as matlab=1", "'%.80s' is not NAME=N", text);
            return 0;
        }
        memcpy(p->res_names[p->n_res], text, len);
        p->res[p->n_res] = (htc_resource){ p->res_names[p->n_res], (uint32_t)number };
        p->n_res++;
    }
    return 1;
}

/* Files that every task gets: uploaded before, and named by their content. */
static int gather_inputs(plan *p)
{
    const json_t *list = json_object_get(p->q->body, "inputs"), *one;
    size_t        i;
    if (!list)
        return 1;
    p->cap_in = json_array_size(list);
    if (!json_is_array(list) || p->cap_in > INPUTS_MAX) {
        htc__gw_req_fail(p->gw, p->q, json_is_array(list) ? HTC_ETOOBIG : HTC_EINVAL, "see doc/api.md", "\"inputs\" is a list of at most %d files", INPUTS_MAX);
        return 0;
    }
    p->in = htc__alloc(&p->gw->env, (p->cap_in + 1) * sizeof *p->in);
    p->uris = htc__alloc(&p->gw->env, (p->cap_in + 1) * sizeof *p->uris);
    if (!p->in || !p->uris) {
        htc_runtime_break(p->gw->runtime, HTC_ENOMEM, "reading a command");
        return 0;
    }
    json_array_foreach(list, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")), *hash = json_string_value(json_object_get(one, "hash"));
        int         stays = name && htc__gw_name_stays(name);
        if (!stays || !hash || strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64) {
            htc__gw_req_fail(p->gw, p->q, name && !stays ? HTC_EPATH : HTC_EINVAL, "a relative name without .., and 64 hex digits", "an input has a \"name\" and a \"hash\"");
            return 0;
        }
        for (size_t k = 0; k < p->n_in; k++)
            if (strcmp(p->in[k].name, name) == 0) {
                htc__gw_req_fail(p->gw, p->q, HTC_EUSAGE, "name one of them otherwise", "two inputs are called '%.80s'", name);
                return 0;
            }
        snprintf(p->uris[i], sizeof p->uris[i], "htc:%s", hash);
        p->in[p->n_in++] = (htc_stage){ name, p->uris[i], HTC_STAGE_OVERWRITE | (json_is_true(json_object_get(one, "executable")) ? HTC_STAGE_EXECUTABLE : 0) };
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
    uint64_t      cores = htc__gw_req_u64(p->q, "cores", 1), gpus = htc__gw_req_u64(p->q, "gpus", 0), each = htc__gw_req_u64(p->q, "node_cores", 0);
    const json_t *pairs = json_object_get(p->q->body, "pairs");
    const char   *directory = htc__gw_req_str(p->q, "workdir");
    if (!(time_s >= 0 && time_s <= 1e9) || cores < 1 || cores > UINT32_MAX || gpus > UINT32_MAX || each > UINT32_MAX) {
        htc__gw_req_fail(p->gw, p->q, HTC_EINVAL, "see doc/api.md", "the limits of a task are out of range");
        return;
    }
    if (directory && (directory[0] != '/' || strchr(directory, '{'))) {
        htc__gw_req_fail(p->gw, p->q, HTC_EPATH, "write a path from / that the nodes have", "'%.80s' is no working directory", directory);
        return;
    }
    htc_command  command = {
        .size = sizeof command,
        .words = p->words,
        .n_words = p->n_words,
        .name = htc__gw_req_str(p->q, "name"),
        .limits = { .wall = (htc_ns)(time_s * 1e9), .memory = htc__gw_req_u64(p->q, "memory", 0), .cores = (uint32_t)cores },
        .env = p->env,
        .resources = p->res,
        .n_resources = p->n_res,
        .node_cores = (uint32_t)each,
        .directory = directory,
        .input = htc__gw_req_str(p->q, "stdin"),
        .wishes = p->wishes,
        .n_wishes = p->n_wishes,
        .container = htc__gw_req_str(p->q, "container"),
        .hosts = htc__gw_req_str(p->q, "hosts"),
        .architecture = htc__gw_req_str(p->q, "arch"),
        .system = htc__gw_req_str(p->q, "os"),
        .project = htc__gw_req_str(p->q, "project"),
        .in = p->in,
        .n_in = p->n_in,
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
    htc_buf_init(&p->array, &gw->env, ADMISSION_LOOK_BYTES);
    if (gather(p) && gather_env(p) && gather_inputs(p) && gather_resources(p))
        write_document(p);
    htc_buf_free(&p->array);
    htc__free(&gw->env, p->args, p->args_size);
    htc__free(&gw->env, p->env, p->n_env * sizeof *p->env);
    htc__free(&gw->env, p->in, (p->cap_in + 1) * sizeof *p->in);
    htc__free(&gw->env, p->uris, (p->cap_in + 1) * sizeof *p->uris);
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
