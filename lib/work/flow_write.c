/* Writing flows: as a person types them, one JSON object a line, or for Graphviz. */
#include <string.h>

#include "work/flow_private.h"

#define BYTES_MAX ((size_t)4 << 30)

/* ---- text ---- */

/* Characters that mean nothing, wherever they stand in a word. */
static int is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_-./+%", c));
}

/* A word; also holds what else needs no quotes where it stands. */
static void put_word(htc_buf *b, htc_bytes word, const char *also)
{
    const char *p = word.data;
    size_t      plain = 0;
    while (plain < word.len && (is_plain(p[plain]) || strchr(also, p[plain])))
        plain++;
    if (plain && plain == word.len) {
        htc_put_raw(b, word);
        return;
    }
    htc_put_u8(b, '\'');
    for (size_t i = 0; i < word.len; i++)
        if (p[i] == '\'')
            htc_put_raw(b, htc_bytes_of("'\\''"));
        else
            htc_put_u8(b, (uint8_t)p[i]);
    htc_put_u8(b, '\'');
}

static void put_time(htc_buf *b, const char *before, uint64_t ns)
{
    char text[HTC__FLOW_UNIT_TEXT_MAX];
    htc__flow_time_text(ns, text);
    htc_put_text(b, "%s%s", before, text);
}

static void put_size(htc_buf *b, const char *before, uint64_t bytes)
{
    char text[HTC__FLOW_UNIT_TEXT_MAX];
    htc__flow_size_text(bytes, text);
    htc_put_text(b, "%s%s", before, text);
}

static void put_parents(htc_buf *b, const htc_flow *f, uint32_t id)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = htc_flow_parents(f, id, &edges);
    for (size_t i = 0; i < n; i++) {
        htc_put_raw(b, htc_bytes_of(i ? "," : " after="));
        put_word(b, htc_bytes_of(htc_flow_get(f, edges[i].task)->name), "");
        if (edges[i].rule != HTC_FLOW_OK)
            htc_put_text(b, ":%s", htc__flow_rule_name(edges[i].rule));
    }
}

static void put_files(htc_buf *b, const char *before, const htc_flow_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        htc_put_raw(b, htc_bytes_of(i ? "," : before));
        put_word(b, htc_bytes_of(files[i].name), "");
        if (files[i].bytes)
            put_size(b, ":", files[i].bytes);
    }
}

static void put_env(htc_buf *b, const char *entry)
{
    size_t name = strcspn(entry, "=");
    htc_put_raw(b, htc_bytes_of(" env="));
    put_word(b, (htc_bytes){ entry, name }, "");
    htc_put_u8(b, '=');
    if (entry[name + 1])
        put_word(b, htc_bytes_of(entry + name + 1), "=,:@");
}

static void put_settings(htc_buf *b, const htc_flow *f, uint32_t id, const htc_flow_task *t)
{
    put_parents(b, f, id);
    if (t->cores != 1)
        htc_put_text(b, " cores=%u", t->cores);
    if (t->memory)
        put_size(b, " memory=", t->memory);
    if (t->wall)
        put_time(b, " time=", t->wall);
    if (t->run)
        put_time(b, " run=", t->run);
    if (t->count != 1)
        htc_put_text(b, " count=%llu", (unsigned long long)t->count);
    if (t->kind) {
        htc_put_raw(b, htc_bytes_of(" kind="));
        put_word(b, htc_bytes_of(t->kind), "");
    }
    if (t->adds)
        htc_put_text(b, " adds=%s", htc__flow_adds_word(t->builtin));
    put_files(b, " in=", t->in, t->n_in);
    put_files(b, " out=", t->out, t->n_out);
    for (size_t i = 0; i < t->n_env; i++)
        put_env(b, t->env[i]);
}

static void put_call(htc_buf *b, const htc_flow_task *t)
{
    htc_put_raw(b, htc_bytes_of("@call "));
    put_word(b, htc_bytes_of(t->object), "=,:@");
    htc_put_text(b, " %s", t->function);
    if (t->argument) {
        htc_put_u8(b, ' ');
        put_word(b, htc_bytes_of(t->argument), "=,:@");
    }
}

static void put_line(htc_buf *b, const htc_flow *f, uint32_t id, const htc_flow_task *t)
{
    put_word(b, htc_bytes_of(t->name), "");
    htc_put_u8(b, ':');
    put_settings(b, f, id, t);
    htc_put_u8(b, ' ');
    if (t->builtin == HTC_FLOW_PROGRAM)
        put_word(b, htc_bytes_of(t->executable), "");
    else if (t->builtin == HTC_FLOW_CALL)
        put_call(b, t);
    else
        htc_put_text(b, "@%s", htc__flow_builtin_name(t->builtin));
    if (htc__flow_is_size(t->builtin))
        put_size(b, " ", t->amount);
    else if (t->builtin == HTC_FLOW_SLEEP || t->builtin == HTC_FLOW_SPIN)
        put_time(b, " ", t->amount);
    for (size_t i = 0; i < t->n_args; i++) {
        htc_put_u8(b, ' ');
        put_word(b, htc_bytes_of(t->args[i]), "=,:@");
    }
    htc_put_u8(b, '\n');
}

/* ---- JSON ---- */

static void put_json(htc_buf *b, const char *text)
{
    htc_put_u8(b, '"');
    for (const char *p = text; *p; p++)
        if (*p == '"' || *p == '\\')
            htc_put_text(b, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            htc_put_text(b, "\\u%04x", (unsigned char)*p);
        else
            htc_put_u8(b, (uint8_t)*p);
    htc_put_u8(b, '"');
}

static void put_json_member(htc_buf *b, const char *key, const char *text)
{
    htc_put_text(b, ", \"%s\": ", key);
    put_json(b, text);
}

static void put_texts(htc_buf *b, const char *key, const char *first, const char *const *list, size_t n)
{
    if (!first && !n)
        return;
    htc_put_text(b, ", \"%s\": [", key);
    if (first)
        put_json(b, first);
    for (size_t i = 0; i < n; i++) {
        if (i || first)
            htc_put_raw(b, htc_bytes_of(", "));
        put_json(b, list[i]);
    }
    htc_put_u8(b, ']');
}

static void put_json_files(htc_buf *b, const char *key, const htc_flow_file *files, size_t n)
{
    if (!n)
        return;
    htc_put_text(b, ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        htc_put_raw(b, htc_bytes_of(i ? ", {\"name\": " : "{\"name\": "));
        put_json(b, files[i].name);
        htc_put_text(b, ", \"bytes\": %llu}", (unsigned long long)files[i].bytes);
    }
    htc_put_u8(b, ']');
}

static void put_json_parents(htc_buf *b, const htc_flow *f, uint32_t id)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = htc_flow_parents(f, id, &edges);
    if (!n)
        return;
    htc_put_raw(b, htc_bytes_of(", \"after\": ["));
    for (size_t i = 0; i < n; i++) {
        int is_plain_name = edges[i].rule == HTC_FLOW_OK;
        htc_put_raw(b, htc_bytes_of(i ? ", " : ""));
        htc_put_raw(b, htc_bytes_of(is_plain_name ? "" : "{\"task\": "));
        put_json(b, htc_flow_get(f, edges[i].task)->name);
        if (!is_plain_name)
            htc_put_text(b, ", \"rule\": \"%s\"}", htc__flow_rule_name(edges[i].rule));
    }
    htc_put_u8(b, ']');
}

/* Times are text with a unit: exact, where a number of seconds might not be. */
static void put_json_time(htc_buf *b, const char *key, uint64_t ns)
{
    char text[HTC__FLOW_UNIT_TEXT_MAX];
    htc__flow_time_text(ns, text);
    if (ns)
        htc_put_text(b, ", \"%s\": \"%s\"", key, text);
}

static void put_json_number(htc_buf *b, const char *key, uint64_t value, uint64_t by_default)
{
    if (value != by_default)
        htc_put_text(b, ", \"%s\": %llu", key, (unsigned long long)value);
}

static void put_object(htc_buf *b, const htc_flow *f, uint32_t id, const htc_flow_task *t)
{
    htc_put_raw(b, htc_bytes_of("{\"name\": "));
    put_json(b, t->name);
    put_json_parents(b, f, id);
    put_texts(b, "command", t->executable, t->args, t->n_args);
    if (t->builtin == HTC_FLOW_CALL) {
        put_json_member(b, "object", t->object);
        put_json_member(b, "function", t->function);
        if (t->argument)
            put_json_member(b, "argument", t->argument);
    } else if (t->builtin != HTC_FLOW_PROGRAM) {
        put_json_member(b, "builtin", htc__flow_builtin_name(t->builtin));
    }
    if (htc__flow_is_size(t->builtin))
        put_json_number(b, "amount", t->amount, 0);
    else
        put_json_time(b, "amount", t->amount);
    put_json_number(b, "cores", t->cores, 1);
    put_json_number(b, "memory", t->memory, 0);
    put_json_time(b, "time", t->wall);
    put_json_time(b, "run", t->run);
    put_json_number(b, "count", t->count, 1);
    if (t->kind)
        put_json_member(b, "kind", t->kind);
    if (t->adds)
        put_json_member(b, "adds", htc__flow_adds_word(t->builtin));
    put_json_files(b, "in", t->in, t->n_in);
    put_json_files(b, "out", t->out, t->n_out);
    put_texts(b, "env", NULL, t->env, t->n_env);
    htc_put_raw(b, htc_bytes_of("}\n"));
}

/* ---- DOT ---- */

static void put_node(htc_buf *b, const htc_flow *f, uint32_t id, const htc_flow_task *t)
{
    const htc_flow_edge *edges = NULL;
    size_t               n = htc_flow_children(f, id, &edges);
    htc_put_raw(b, htc_bytes_of("  "));
    put_json(b, t->name);
    if (t->count != 1)
        htc_put_text(b, " [xlabel=\"%llu times\"]", (unsigned long long)t->count);
    htc_put_raw(b, htc_bytes_of(";\n"));
    for (size_t i = 0; i < n; i++) {
        htc_put_raw(b, htc_bytes_of("  "));
        put_json(b, t->name);
        htc_put_raw(b, htc_bytes_of(" -> "));
        put_json(b, htc_flow_get(f, edges[i].task)->name);
        if (edges[i].rule != HTC_FLOW_OK)
            htc_put_text(b, " [label=\"%s\", style=dashed]", htc__flow_rule_name(edges[i].rule));
        htc_put_raw(b, htc_bytes_of(";\n"));
    }
}

htc_status htc_flow_write(const htc_env *env, const htc_flow *flow, uint32_t format, htc_bytes *out)
{
    htc_buf b;
    if (!flow || !out || !flow->checked ||
        (format != HTC_FLOW_TEXT && format != HTC_FLOW_JSONL && format != HTC_FLOW_DOT))
        return HTC_EINVAL;
    htc_buf_init(&b, env, BYTES_MAX);
    if (format == HTC_FLOW_DOT)
        htc_put_raw(&b, htc_bytes_of("digraph flow {\n"));
    for (uint32_t id = 0; id < flow->n && b.status == HTC_OK; id++) {
        const htc_flow_task *t = &flow->tasks[id];
        if (format == HTC_FLOW_TEXT)
            put_line(&b, flow, id, t);
        else if (format == HTC_FLOW_JSONL)
            put_object(&b, flow, id, t);
        else
            put_node(&b, flow, id, t);
    }
    if (format == HTC_FLOW_DOT)
        htc_put_raw(&b, htc_bytes_of("}\n"));
    htc_status status = htc__take_bytes(env, &b, out);
    htc_buf_free(&b);
    return status == HTC_EFULL ? HTC_ETOOBIG : status;
}
