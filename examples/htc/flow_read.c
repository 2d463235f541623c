/* The flow that a command is about: a file in any of the forms, standard input, or one that is generated. */
#include "flow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)256 << 20)

static const struct {
    const char *name;
    uint32_t    format;
} formats[] = { { "text", HTC_FLOW_TEXT },           { "jsonl", HTC_FLOW_JSONL }, { "dax", HTC_FLOW_DAX },
                { "wfcommons", HTC_FLOW_WFCOMMONS }, { "jobs", HTC_FLOW_JOBS },   { "dot", HTC_FLOW_DOT } };

static const struct {
    const char *name;
    uint32_t    shape;
} shapes[] = { { "bot", HTC_FLOW_BAG },           { "fanout", HTC_FLOW_FANOUT },      { "fanin", HTC_FLOW_FANIN },
               { "pipeline", HTC_FLOW_PIPELINE }, { "mapreduce", HTC_FLOW_MAPREDUCE } };

static htc_status find_format(flow_call *k, const char *option, const char *name, uint32_t *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) {
            *format = formats[i].format;
            return HTC_OK;
        }
    return cli_error(k->c, HTC_EUSAGE, option, "text, jsonl, dax, wfcommons, jobs or dot", "there is no form called '%.40s'", name);
}

/* ---- generated ---- */

int flow_time(const char *text, htc_ns *ns)
{
    static const struct {
        const char *name;
        double      seconds;
    } units[] = { { "", 1 }, { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
    char  *unit;
    double n = strtod(text, &unit);
    for (size_t i = 0; unit != text && n >= 0 && n < 1e15 && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *ns = time_ns(n * units[i].seconds);
            return 1;
        }
    return 0;
}

/* "10ms" or "0:100ms", both ends included. */
static htc_status range_of_times(flow_call *k, const char *text, htc_ns *low, htc_ns *high)
{
    char *copy = must_dup(text), *colon = strchr(copy, ':');
    if (colon)
        *colon = '\0';
    int good = flow_time(copy, low);
    *high = *low;
    good = good && (!colon || flow_time(colon + 1, high)) && *high >= *low;
    free(copy);
    return good ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "--length", "10ms, or 0:100ms for any length between", "'%.40s' is no time", text);
}

static htc_status range_of_sizes(flow_call *k, const char *text, uint64_t *low, uint64_t *high)
{
    char      *copy = must_dup(text), *colon = strchr(copy, ':');
    htc_status s;
    if (colon)
        *colon = '\0';
    s = htc_command_size(copy, low);
    *high = *low;
    if (s == HTC_OK && colon)
        s = htc_command_size(colon + 1, high);
    free(copy);
    return s != HTC_OK || *high < *low ? cli_error(k->c, HTC_EUSAGE, "--data", "1M, or 0:10M for any size between", "'%.40s' is no size", text) : HTC_OK;
}

static htc_status generate(flow_call *k, htc_flow **out)
{
    htc_flow_generator g;
    htc_status         s = HTC_OK;
    htc_flow_generator_init(&g, sizeof g);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, k->shape) == 0)
            g.shape = shapes[i].shape;
    if (!g.shape)
        return cli_error(k->c, HTC_EUSAGE, "--shape", "bot, fanout, fanin, pipeline or mapreduce", "there is no shape called '%.40s'", k->shape);
    if (k->tasks < 1)
        return cli_error(k->c, HTC_EUSAGE, "--shape", "--tasks N says how many", "a shape needs a number of tasks");
    g.tasks = (uint64_t)k->tasks;
    g.degree = k->degree > 0 && k->degree < INT32_MAX ? (uint32_t)k->degree : 0;
    g.seed = (uint64_t)k->seed;
    if (k->length)
        s = range_of_times(k, k->length, &g.length_min, &g.length_max);
    if (s == HTC_OK && k->data)
        s = range_of_sizes(k, k->data, &g.data_min, &g.data_max);
    if (s != HTC_OK)
        return s;
    s = htc_flow_generate(NULL, &g, out);
    return s == HTC_OK ? s : cli_error(k->c, s, "--shape", "", "the flow cannot be generated: %s", htc_strerror(s));
}

/* ---- read ---- */

static htc_status read_input(cli *c, char **data, size_t *len)
{
    size_t cap = 1 << 16, n = 0;
    char  *text = must(malloc(cap));
    for (;;) {
        if (n == cap)
            text = must(realloc(text, cap *= 2));
        ssize_t got = read(STDIN_FILENO, text + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || n + (size_t)got > FILE_MAX) {
            free(text);
            return got < 0 ? cli_error(c, HTC_EIO, "standard input", "", "cannot be read: %s", strerror(errno)) :
                             cli_error(c, HTC_ETOOBIG, "standard input", "", "is longer than %zu MiB", FILE_MAX >> 20);
        }
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *data = text;
    *len = n;
    return HTC_OK;
}

static htc_status read_flow(flow_call *k, htc_flow **out)
{
    htc_flow_reading  o;
    htc_flow_program *programs = k->programs.count ? must(calloc(k->programs.count, sizeof *programs)) : NULL;
    char             *data = NULL, **copies = programs ? must(calloc(k->programs.count, sizeof *copies)) : NULL;
    const char       *path = k->w.at[0];
    size_t            len = 0;
    uint32_t          format = HTC_FLOW_AUTO;
    int               from_input = strcmp(path, "-") == 0;
    htc_status        s = k->format ? find_format(k, "--format", k->format, &format) : HTC_OK;
    htc_flow_reading_init(&o, sizeof o);
    o.file = from_input ? "standard input" : path;
    o.time_scale = k->time_scale;
    o.size_scale = k->size_scale;
    for (size_t i = 0; s == HTC_OK && i < k->programs.count; i++) {
        copies[i] = must_dup(k->programs.at[i]);
        char *equals = strchr(copies[i], '=');
        if (!equals) {
            s = cli_error(k->c, HTC_EUSAGE, "--program", "--program mAdd=./madd.sh", "'%.40s' is not KIND=PROGRAM", copies[i]);
            break;
        }
        *equals = '\0';
        programs[i] = (htc_flow_program){ copies[i], equals + 1 };
    }
    char *directory = getcwd(NULL, 0);
    o.directory = directory;
    o.programs = programs;
    o.n_programs = k->programs.count;
    if (s == HTC_OK)
        s = from_input ? read_input(k->c, &data, &len) : read_file(k->c, path, FILE_MAX, &data, &len);
    if (s == HTC_OK)
        s = htc_flow_read(NULL, (htc_bytes){ data, len }, format, &o, out, &k->c->error);
    free(data);
    free(directory);
    for (size_t i = 0; copies && i < k->programs.count; i++)
        free(copies[i]);
    free(copies);
    free(programs);
    return s;
}

htc_status flow_read(flow_call *k, htc_flow **out)
{
    if (k->shape && k->w.count)
        return cli_error(k->c, HTC_EUSAGE, "--shape", "leave one of them out", "a file and a shape are two flows");
    if (!k->shape && k->w.count != 1)
        return cli_error(k->c, HTC_EUSAGE, "", "a file, - for standard input, or --shape", "one flow is needed");
    if (k->time_scale < 0 || k->size_scale < 0 || !isfinite(k->time_scale) || !isfinite(k->size_scale))
        return cli_error(k->c, HTC_EUSAGE, k->time_scale < 0 ? "--time-scale" : "--size-scale", "0.01 makes it a hundredth", "it is above 0");
    return k->shape ? generate(k, out) : read_flow(k, out);
}

/* ---- without running it ---- */

htc_status flow_check(flow_call *k)
{
    htc_flow  *flow = NULL;
    htc_status s = flow_read(k, &flow);
    if (s == HTC_OK && k->c->json)
        flow_put_json(k, json_pack("{s:I, s:I}", "tasks", (json_int_t)htc_flow_total(flow), "edges", (json_int_t)htc_flow_edges(flow)));
    else if (s == HTC_OK)
        printf("%llu task%s, %zu dependenc%s\n", (unsigned long long)htc_flow_total(flow), htc_flow_total(flow) == 1 ? "" : "s", htc_flow_edges(flow),
               htc_flow_edges(flow) == 1 ? "y" : "ies");
    htc_flow_destroy(flow);
    return s;
}

htc_status flow_convert(flow_call *k)
{
    htc_flow  *flow = NULL;
    htc_bytes  text = { NULL, 0 };
    uint32_t   format = HTC_FLOW_TEXT;
    out_file   out = { 0 };
    htc_status s = k->to ? find_format(k, "--to", k->to, &format) : HTC_OK;
    if (s == HTC_OK)
        s = out_check(k->c, k->out ? k->out : "-");
    if (s == HTC_OK)
        s = flow_read(k, &flow);
    if (s == HTC_OK) {
        s = htc_flow_write(NULL, flow, format, &text);
        if (s != HTC_OK)
            s = cli_error(k->c, s, "--to", "text, jsonl or dot", "it is not written in that form: %s", htc_strerror(s));
    }
    if (s == HTC_OK)
        s = out_open(k->c, &out, k->out ? k->out : "-", 0666);
    if (s == HTC_OK)
        fwrite(text.data, 1, text.len, out.f);
    s = out_close(k->c, &out, s);
    if (text.data)
        htc_work_free(NULL, text);
    htc_flow_destroy(flow);
    return s;
}
