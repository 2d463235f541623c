/* The JSDL of a command line in the manner of GNU parallel.
 *
 * A place is "{name}", "{}" or "{3}" in a word; the word stays in the template as it is written, and the sweep replaces
 * the place: the whole element, or substring() of it. "\{" is a brace, and so is every brace that opens no place:
 * "${HOME}", "{print $1}". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "work/command_private.h"
#include "work/wishes.h"
#include "work/xml_private.h"

typedef struct writer {
    const htc_env     *env;
    const htc_command *command;
    htc__sources      *sources;
    htc_buf            b;
    htc_error         *error;
    int                has_places;
} writer;

static void put(writer *w, const char *text)
{
    htc_put_raw(&w->b, htc_bytes_of(text));
}

void htc__put_escaped(htc_buf *b, htc_bytes text)
{
    const char *p = text.data;
    for (size_t i = 0; i < text.len; i++) {
        switch (p[i]) {
        case '&':
            htc_put_raw(b, htc_bytes_of("&amp;"));
            break;
        case '<':
            htc_put_raw(b, htc_bytes_of("&lt;"));
            break;
        case '>':
            htc_put_raw(b, htc_bytes_of("&gt;"));
            break;
        case '"':
            htc_put_raw(b, htc_bytes_of("&quot;"));
            break;
        case '\t':
        case '\n':
        case '\r':
            htc_put_text(b, "&#%d;", p[i]);
            break;
        default:
            htc_put_u8(b, (uint8_t)p[i]);
        }
    }
}

/* ---- places ---- */

static int is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The inside of a place that opens at p, else -1: only names and numbers are places, other braces are text. */
static int place_length(const char *p)
{
    int n = 0;
    while (is_name_char(p[1 + n]))
        n++;
    return p[1 + n] == '}' ? n : -1;
}

/* Forms that GNU parallel has and this has not: better said than taken as text. */
static const char *parallel_form(const char *p)
{
    static const char *const forms[] = { "{#}", "{%}", "{.}", "{/}", "{//}", "{/.}", NULL };
    for (const char *const *f = forms; *f; f++)
        if (strncmp(p, *f, strlen(*f)) == 0)
            return *f;
    return NULL;
}

static htc_status refuse_place(const writer *w, const char *word, htc_bytes name, const char *why, const char *hint)
{
    htc_status status = htc__refuse(w->error, HTC_EUSAGE, 0, word, "{%.*s} in %s %s", (int)name.len,
                                    (const char *)name.data, htc__quote(htc_bytes_of(word)).text, why);
    if (w->error)
        strcpy(w->error->hint, hint);
    return status;
}

static htc_status find_source(const writer *w, const char *word, htc_bytes name, htc__source **out)
{
    htc__sources *s = w->sources;
    htc__source  *only = NULL;
    uint64_t      number = 0;
    size_t        unnamed = 0;
    *out = NULL;
    for (size_t i = 0; i < s->n; i++) {
        if (name.len && htc_bytes_equal(name, htc_bytes_of(s->list[i].name)))
            *out = &s->list[i];
        if (!s->list[i].name[0] || s->n == 1) {
            unnamed++;
            only = &s->list[i];
        }
    }
    if (*out)
        return HTC_OK;
    if (name.len == 0 && unnamed == 1)
        *out = only;
    else if (name.len == 0)
        return refuse_place(w, word, name, unnamed ? "could mean several sources" : "has no source without a name",
                            "name the place: {1}, {2} or {name}");
    else if (htc__unsigned_parse(name, &number) == 1 && number >= 1 && number <= s->n)
        *out = &s->list[number - 1];
    else
        return refuse_place(w, word, name, "has no source of that name",
                            "add ::: name=a,b,c, or write \\{ for a brace that is text");
    return HTC_OK;
}

/* One occurrence: the source gets a DocumentNode that points at it. first and length in characters, 0: all of it. */
static void add_use(htc__source *s, const char *path, size_t first, size_t length)
{
    htc_buf *b = &s->uses;
    htc_put_text(b, "   <sweep:DocumentNode>"
                    "<sweep:NamespaceBinding ns=\"" HTC_JSDL_NS "\" prefix=\"j\"/>"
                    "<sweep:NamespaceBinding ns=\"" HTC_POSIX_NS "\" prefix=\"p\"/><sweep:Match>");
    if (first)
        htc_put_text(b, "substring(%s, %zu, %zu)", path, first, length);
    else
        htc_put_text(b, "%s", path);
    htc_put_text(b, "</sweep:Match></sweep:DocumentNode>\n");
    s->n_uses++;
}

static size_t characters(htc_bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += (((const unsigned char *)text.data)[i] & 0xc0) != 0x80;
    return n;
}

/* What stands in an element or attribute that values may go into. */
static htc_status put_text_with_places(writer *w, const char *word, const char *path)
{
    htc_buf    text;
    htc_status status = HTC_OK;
    if (!htc__xml_can_carry(htc_bytes_of(word)))
        return htc__refuse(w->error, HTC_EUSAGE, 0, word, "%s holds bytes that are no text",
                           htc__quote(htc_bytes_of(word)).text);
    htc_buf_init(&text, w->env, 0);
    for (const char *p = word; *p && status == HTC_OK; p++) {
        int length = *p == '{' ? place_length(p) : -1;
        int shell = p > word && p[-1] == '$';
        if (*p == '\\' && p[1] == '{') {
            htc_put_u8(&text, (uint8_t) * ++p);
            continue;
        }
        /* Without sources only a name can be a mistake: "{}" is find's, "{4}" a regular expression's. */
        int text_only = w->sources->n == 0 && (length <= 0 || (p[1] >= '0' && p[1] <= '9'));
        if (*p != '{' || shell || text_only) {
            htc_put_u8(&text, (uint8_t)*p);
            continue;
        }
        const char *form = parallel_form(p);
        if (form) {
            status = refuse_place(w, word, (htc_bytes){ form + 1, strlen(form) - 2 }, "is not done here",
                                  "the task's number is in $HTC_TASK_INDEX");
        } else if (length < 0) {
            htc_put_u8(&text, '{');
        } else {
            htc__source *s = NULL;
            status = find_source(w, word, (htc_bytes){ p + 1, (size_t)length }, &s);
            if (status != HTC_OK)
                break;
            size_t n = (size_t)length + 2;
            if (p == word && strlen(word) == n)
                add_use(s, path, 0, 0);
            else
                add_use(s, path, characters(htc_buf_bytes(&text)) + 1, n);
            w->has_places = 1;
            htc_put_raw(&text, (htc_bytes){ p, n });
            p += n - 1;
        }
    }
    if (status == HTC_OK)
        status = text.status;
    htc__put_escaped(&w->b, htc_buf_bytes(&text));
    htc_buf_free(&text);
    return status;
}

static htc_status put_element(writer *w, const char *indent, const char *name, const char *text, const char *path)
{
    htc_put_text(&w->b, "%s<%s%s>", indent, name,
                 strcmp(name, "posix:Argument") == 0 && strpbrk(text, "\t\r\n") ? " htc:literal=\"true\"" : "");
    htc_status status = put_text_with_places(w, text, path);
    htc_put_text(&w->b, "</%s>\n", name);
    return status;
}

/* ---- the template ---- */

static int all_unnamed(const htc__sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].name[0])
            return 0;
    return 1;
}

/* As GNU parallel does: without a place the values are the last arguments. n: words of the command. */
static htc_status put_values_last(writer *w, size_t n)
{
    char       path[48], place[32];
    htc_status status = HTC_OK;
    for (size_t i = 0; i < w->sources->n && status == HTC_OK; i++) {
        snprintf(path, sizeof path, "//p:Argument[%zu]", n + i);
        snprintf(place, sizeof place, "{%zu}", i + 1);
        status = put_element(w, "    ", "posix:Argument", place, path);
    }
    return status;
}

static htc_status put_words(writer *w, size_t n)
{
    char       path[48];
    htc_status status = put_element(w, "    ", "posix:Executable", w->command->words[0], "//p:Executable");
    for (size_t i = 1; i < n && status == HTC_OK; i++) {
        snprintf(path, sizeof path, "//p:Argument[%zu]", i);
        status = put_element(w, "    ", "posix:Argument", w->command->words[i], path);
    }
    if (status == HTC_OK && !w->has_places && all_unnamed(w->sources))
        status = put_values_last(w, n);
    return status;
}

static htc_status put_streams(writer *w)
{
    const htc_command *c = w->command;
    htc_status         status = HTC_OK;
    if (c->input)
        status = put_element(w, "    ", "posix:Input", c->input, "//p:Input");
    if (status == HTC_OK && c->output)
        status = put_element(w, "    ", "posix:Output", c->output, "//p:Output");
    if (status == HTC_OK && c->error_output)
        status = put_element(w, "    ", "posix:Error", c->error_output, "//p:Error");
    if (status == HTC_OK && c->directory)
        status = put_element(w, "    ", "posix:WorkingDirectory", c->directory, "//p:WorkingDirectory");
    return status;
}

/* xsd:NCName, as far as names of variables go. */
static int is_variable_name(htc_bytes name)
{
    const char *p = name.data;
    if (name.len == 0 || (p[0] >= '0' && p[0] <= '9') || p[0] == '-')
        return 0;
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_char(p[i]) && !(i > 0 && p[i] == '.'))
            return 0;
    return 1;
}

static htc_status put_environment(writer *w)
{
    htc_status status = HTC_OK;
    for (size_t i = 0; w->command->env && w->command->env[i] && status == HTC_OK; i++) {
        const char *entry = w->command->env[i];
        htc_bytes   name = { entry, strcspn(entry, "=") };
        char        path[48];
        if (entry[name.len] != '=' || !is_variable_name(name))
            return htc__refuse(w->error, HTC_EUSAGE, 0, entry, "%s is not NAME=value",
                               htc__quote(htc_bytes_of(entry)).text);
        snprintf(path, sizeof path, "//p:Environment[%zu]", i + 1);
        htc_put_text(&w->b, "    <posix:Environment name=\"%.*s\">", (int)name.len, entry);
        status = put_text_with_places(w, entry + name.len + 1, path);
        put(w, "</posix:Environment>\n");
    }
    return status;
}

static void put_limit(writer *w, const char *name, uint64_t value, int is_set)
{
    if (value || is_set)
        htc_put_text(&w->b, "    <posix:%s>%" PRIu64 "</posix:%s>\n", name, value, name);
}

static uint64_t seconds(htc_ns t)
{
    return t / HTC_SECOND + (t % HTC_SECOND != 0);
}

static void put_limits(writer *w)
{
    const htc_limits *l = &w->command->limits;
    put_limit(w, "WallTimeLimit", seconds(l->wall), 0);
    put_limit(w, "FileSizeLimit", l->file_size, 0);
    put_limit(w, "CoreDumpLimit", l->core_size, l->core_is_set != 0);
    put_limit(w, "DataSegmentLimit", l->data, 0);
    put_limit(w, "MemoryLimit", l->memory, 0);
    put_limit(w, "OpenDescriptorsLimit", l->open_files, 0);
    put_limit(w, "StackSizeLimit", l->stack, 0);
    put_limit(w, "CPUTimeLimit", seconds(l->cpu), 0);
    put_limit(w, "ProcessCountLimit", l->processes, 0);
    put_limit(w, "VirtualMemoryLimit", l->virtual_memory, 0);
}

/* The source of the places in a text; NULL: there is none, or *status says why not. */
static htc__source *source_of(const writer *w, const char *text, htc_status *status)
{
    htc__source *only = NULL;
    for (const char *p = text; *p && *status == HTC_OK; p++) {
        htc__source *s = NULL;
        int          length = *p == '{' && (p == text || (p[-1] != '\\' && p[-1] != '$')) && w->sources->n ? place_length(p) : -1;
        if (length < 0)
            continue;
        *status = find_source(w, text, (htc_bytes){ p + 1, (size_t)length }, &s);
        if (*status == HTC_OK && only && s != only)
            *status = refuse_place(w, text, (htc_bytes){ p + 1, (size_t)length }, "is of another source than the place before it", "one name of a file has places of one source");
        only = s;
    }
    return *status == HTC_OK ? only : NULL;
}

/* Its kth value, as the sweep will have it; p: the kth of a list. */
static void put_value(htc_buf *b, const htc__source *s, uint64_t k, const char *p)
{
    if (s->kind == HTC__SOURCE_LIST)
        htc_put_raw(b, htc_bytes_of(p));
    else
        htc_put_text(b, "%0*" PRId64, (int)s->width, s->start + (int64_t)k * s->step);
}

/* The text with the kth value in its places. */
static void put_with_value(htc_buf *b, const htc__source *s, const char *text, uint64_t k, const char *in_list)
{
    for (const char *p = text; *p; p++) {
        int length = *p == '{' && (p == text || p[-1] != '$') ? place_length(p) : -1;
        if (*p == '\\' && p[1] == '{') {
            htc_put_u8(b, (uint8_t) * ++p);
        } else if (length >= 0) {
            put_value(b, s, k, in_list);
            p += length + 1;
        } else {
            htc_put_u8(b, (uint8_t)*p);
        }
    }
}

/* One more assignment in lock-step with the source. What stands in the template is the first value: it is replaced like the others. */
static htc_status put_written_out(writer *w, htc__source *s, const char *text, const char *path)
{
    htc_buf     value, *b = &s->also;
    const char *in_list = (const char *)s->values.data;
    uint64_t    n = s->kind == HTC__SOURCE_LIST ? s->n_values : s->count;
    htc_put_text(b, "  <sweep:Assignment>\n   <sweep:DocumentNode><sweep:NamespaceBinding ns=\"" HTC_JSDL_NS "\" prefix=\"j\"/><sweep:Match>%s"
                    "</sweep:Match></sweep:DocumentNode>\n   <func:Values>\n", path);
    htc_buf_init(&value, w->env, HTC_XML_BYTES_MAX);
    for (uint64_t k = 0; k < n && b->status == HTC_OK && value.status == HTC_OK; k++) {
        htc_buf_clear(&value);
        put_with_value(&value, s, text, k, in_list);
        htc_put_raw(b, htc_bytes_of("    <func:Value>"));
        htc__put_escaped(b, htc_buf_bytes(&value));
        htc_put_raw(b, htc_bytes_of("</func:Value>\n"));
        if (k == 0) {
            put(w, "<jsdl:URI>");
            htc__put_escaped(&w->b, htc_buf_bytes(&value));
            put(w, "</jsdl:URI>");
        }
        if (s->kind == HTC__SOURCE_LIST)
            in_list += strlen(in_list) + 1;
    }
    htc_status status = value.status;
    htc_buf_free(&value);
    htc_put_raw(b, htc_bytes_of("   </func:Values>\n  </sweep:Assignment>\n"));
    s->n_uses++;
    return status == HTC_OK ? b->status : status;
}

/* A URI that is written out for each value: any text stands for it. */
static htc_status put_each(writer *w, const htc_stage *stage, const char *path, int *done)
{
    htc_status   status = HTC_OK;
    htc__source *s = w->command->in_each ? source_of(w, stage->uri, &status) : NULL;
    *done = s != NULL;
    if (!s)
        return status;
    if (s->kind != HTC__SOURCE_LIST && s->kind != HTC__SOURCE_INTEGER)
        return htc__refuse(w->error, HTC_EUSAGE, 0, stage->uri, "the places of %s are not of a list or of whole numbers", htc__quote(htc_bytes_of(stage->uri)).text);
    w->has_places = 1;
    return put_written_out(w, s, stage->uri, path);
}

static htc_status put_stage(writer *w, const htc_stage *s, size_t number, const char *end)
{
    int         each = 0;
    char        path[96];
    const char *flag = s->flags & HTC_STAGE_APPEND ? "append"
                       : s->flags & HTC_STAGE_KEEP ? "dontOverwrite"
                                                   : "overwrite";
    put(w, "  <jsdl:DataStaging>\n");
    snprintf(path, sizeof path, "//j:DataStaging[%zu]/j:FileName", number);
    htc_status status = put_element(w, "   ", "jsdl:FileName", s->name, path);
    htc_put_text(&w->b, "   <jsdl:CreationFlag>%s</jsdl:CreationFlag>\n", flag);
    if (s->flags & HTC_STAGE_DELETE)
        put(w, "   <jsdl:DeleteOnTermination>true</jsdl:DeleteOnTermination>\n");
    snprintf(path, sizeof path, "//j:DataStaging[%zu]/j:%s/j:URI", number, end);
    htc_put_text(&w->b, "   <jsdl:%s>", end);
    if (status == HTC_OK && strcmp(end, "Source") == 0)
        status = put_each(w, s, path, &each);
    if (status == HTC_OK && !each)
        status = put_element(w, "", "jsdl:URI", s->uri, path);
    htc_put_text(&w->b, "   </jsdl:%s>\n", end);
    if (s->flags & HTC_STAGE_EXECUTABLE)
        put(w, "   <htc:Executable>true</htc:Executable>\n");
    put(w, "  </jsdl:DataStaging>\n");
    return status;
}

static htc_status put_stages(writer *w)
{
    const htc_command *c = w->command;
    htc_status         status = HTC_OK;
    for (size_t i = 0; i < c->n_in && status == HTC_OK; i++)
        status = put_stage(w, &c->in[i], i + 1, "Source");
    for (size_t i = 0; i < c->n_out && status == HTC_OK; i++)
        status = put_stage(w, &c->out[i], c->n_in + i + 1, "Target");
    return status;
}

static htc_status put_hosts(writer *w, const char *list)
{
    put(w, "<jsdl:CandidateHosts>");
    for (const char *p = list;; p++) {
        htc_bytes name = { p, strcspn(p, ",") };
        if (name.len == 0 || strcspn(p, " \t\r\n,") != name.len || !htc__xml_can_carry(name))
            return htc__refuse(w->error, HTC_EUSAGE, 0, list, "%s is not a list of hosts with commas between them", htc__quote(htc_bytes_of(list)).text);
        put(w, "<jsdl:HostName>");
        htc__put_escaped(&w->b, name);
        put(w, "</jsdl:HostName>");
        p += name.len;
        if (!*p)
            break;
    }
    put(w, "</jsdl:CandidateHosts>");
    return HTC_OK;
}

/* Where it may run at all. */
static htc_status put_machine(writer *w)
{
    const htc_command *c = w->command;
    const char        *system = c->system ? htc__jsdl_system(c->system) : NULL, *architecture = c->architecture ? htc__jsdl_architecture(c->architecture) : NULL;
    if (c->system && !system)
        return htc__refuse(w->error, HTC_EUSAGE, 0, c->system, "%s is not the name of an operating system in JSDL; LINUX and MACOS are",
                           htc__quote(htc_bytes_of(c->system)).text);
    if (c->architecture && !architecture)
        return htc__refuse(w->error, HTC_EUSAGE, 0, c->architecture, "%s is not the name of an architecture in JSDL; x86_64, arm and powerpc are",
                           htc__quote(htc_bytes_of(c->architecture)).text);
    htc_status status = c->hosts ? put_hosts(w, c->hosts) : HTC_OK;
    if (system)
        htc_put_text(&w->b, "<jsdl:OperatingSystem><jsdl:OperatingSystemType><jsdl:OperatingSystemName>%s</jsdl:OperatingSystemName>"
                            "</jsdl:OperatingSystemType></jsdl:OperatingSystem>", system);
    if (architecture)
        htc_put_text(&w->b, "<jsdl:CPUArchitecture><jsdl:CPUArchitectureName>%s</jsdl:CPUArchitectureName></jsdl:CPUArchitecture>", architecture);
    return status;
}

static htc_status put_resources(writer *w)
{
    const htc_command *c = w->command;
    if (c->limits.cores <= 1 && !c->n_resources && !c->hosts && !c->architecture && !c->system)
        return HTC_OK;
    put(w, "  <jsdl:Resources>");
    htc_status status = put_machine(w);
    if (status != HTC_OK)
        return status;
    if (c->node_cores && c->node_cores < c->limits.cores)
        htc_put_text(&w->b, "<jsdl:IndividualCPUCount><jsdl:Exact>%u</jsdl:Exact></jsdl:IndividualCPUCount>", c->node_cores);
    if (c->limits.cores > 1)
        htc_put_text(&w->b, "<jsdl:TotalCPUCount><jsdl:Exact>%u</jsdl:Exact></jsdl:TotalCPUCount>", c->limits.cores);
    for (size_t i = 0; i < c->n_resources; i++) {
        if (!htc__resource_name_is_fine(c->resources[i].name))
            return htc__refuse(w->error, HTC_EUSAGE, 0, c->resources[i].name, "%s is not the name of a resource",
                               htc__quote(htc_bytes_of(c->resources[i].name)).text);
        htc_put_text(&w->b, "<htc:Resource name=\"%s\">%u</htc:Resource>", c->resources[i].name, c->resources[i].count);
    }
    put(w, "</jsdl:Resources>\n");
    return HTC_OK;
}

static htc_status put_identification(writer *w)
{
    const htc_command *c = w->command;
    if (!c->name && !c->project)
        return HTC_OK;
    if ((c->name && !htc__xml_can_carry(htc_bytes_of(c->name))) || (c->project && !htc__xml_can_carry(htc_bytes_of(c->project))))
        return htc__refuse(w->error, HTC_EUSAGE, 0, c->name ? c->name : c->project, "the name of the job or of its project holds bytes that are no text");
    put(w, "  <jsdl:JobIdentification>");
    if (c->name) {
        put(w, "<jsdl:JobName>");
        htc__put_escaped(&w->b, htc_bytes_of(c->name));
        put(w, "</jsdl:JobName>");
    }
    if (c->project) {
        put(w, "<jsdl:JobProject>");
        htc__put_escaped(&w->b, htc_bytes_of(c->project));
        put(w, "</jsdl:JobProject>");
    }
    put(w, "</jsdl:JobIdentification>\n");
    return HTC_OK;
}

static htc_status put_description(writer *w, size_t n_words)
{
    const htc_command *c = w->command;
    put(w, " <jsdl:JobDescription>\n");
    htc_status identified = put_identification(w);
    if (identified != HTC_OK)
        return identified;
    put(w, "  <jsdl:Application>\n   <posix:POSIXApplication>\n");
    htc_buf    before = w->b; /* inputs first: where a place is in one of them, values are no arguments */
    htc_buf_init(&w->b, w->env, HTC_XML_BYTES_MAX);
    htc_status status = put_stages(w);
    htc_buf    stages = w->b;
    w->b = before;
    if (status == HTC_OK)
        status = put_words(w, n_words);
    if (status == HTC_OK)
        status = put_streams(w);
    if (status == HTC_OK)
        status = put_environment(w);
    put_limits(w);
    put(w, "   </posix:POSIXApplication>\n");
    if (c->container && status == HTC_OK)
        status = put_element(w, "   ", "htc:Container", c->container, "//j:Application/*[2]");
    put(w, "  </jsdl:Application>\n");
    if (status == HTC_OK)
        status = put_resources(w);
    htc_put_raw(&w->b, htc_buf_bytes(&stages));
    if (status == HTC_OK)
        status = stages.status;
    htc_buf_free(&stages);
    if (status == HTC_OK)
        status = htc__wishes_write(&w->b, c->wishes, c->n_wishes, w->error);
    put(w, " </jsdl:JobDescription>\n");
    return status;
}

/* ---- the sweeps ---- */

static void put_values(writer *w, const htc__source *s, const char *element)
{
    const char *p = (const char *)s->values.data;
    for (size_t i = 0; i < s->n_values; i++, p += strlen(p) + 1) {
        htc_put_text(&w->b, "    <%s>", element);
        htc__put_escaped(&w->b, htc_bytes_of(p));
        htc_put_text(&w->b, "</%s>\n", element);
    }
}

static void put_function(writer *w, const htc__source *s, const char *name)
{
    char number[3][HTC__DOUBLE_TEXT_MAX];
    switch ((htc__source_kind)s->kind) {
    case HTC__SOURCE_LIST:
        htc_put_text(&w->b, "   <func:Values htc:name=\"%s\">\n", name);
        put_values(w, s, "func:Value");
        put(w, "   </func:Values>\n");
        break;
    case HTC__SOURCE_INTEGER:
        htc_put_text(&w->b,
                     "   <func:LoopInteger htc:name=\"%s\" start=\"%" PRId64 "\" end=\"%" PRId64 "\" step=\"%" PRId64 "\"",
                     name, s->start, s->end, s->step);
        if (s->width)
            htc_put_text(&w->b, " htc:width=\"%u\"", s->width);
        put(w, "/>\n");
        break;
    case HTC__SOURCE_DOUBLE:
        htc__double_text(s->start_real, number[0]);
        htc__double_text(s->end_real, number[1]);
        htc__double_text(s->step_real, number[2]);
        htc_put_text(&w->b, "   <func:LoopDouble htc:name=\"%s\" start=\"%s\" end=\"%s\" step=\"%s\"/>\n", name,
                     number[0], number[1], number[2]);
        break;
    case HTC__SOURCE_PAIR_FIRST:
    case HTC__SOURCE_PAIR_SECOND:
        break;
    }
}

static void put_assignment(writer *w, size_t i)
{
    const htc__source *s = &w->sources->list[i];
    char               number[24];
    snprintf(number, sizeof number, "%zu", i + 1);
    if (s->kind == HTC__SOURCE_PAIR_SECOND)
        return; /* written with the first */
    if (!s->uses.len && s->also.len) {
        htc_put_raw(&w->b, htc_buf_bytes(&s->also));
        return;
    }
    put(w, "  <sweep:Assignment>\n");
    htc_put_raw(&w->b, htc_buf_bytes(&s->uses));
    if (s->kind == HTC__SOURCE_PAIR_FIRST) {
        htc_put_raw(&w->b, htc_buf_bytes(&s[1].uses));
        htc_put_text(&w->b, "   <htc:Pairs second=\"%zu\" name=\"%s %s\">\n", s->n_uses + 1, s->name, s[1].name);
        put_values(w, s, "htc:Value");
        put(w, "   </htc:Pairs>\n");
    } else {
        put_function(w, s, s->name[0] ? s->name : number);
    }
    put(w, "  </sweep:Assignment>\n");
    htc_put_raw(&w->b, htc_buf_bytes(&s->also));
}

static htc_status put_sweeps(writer *w)
{
    size_t open = 0;
    for (size_t i = 0; i < w->sources->n; i++) {
        const htc__source *s = &w->sources->list[i];
        if (s->n_uses == 0) {
            htc_status status = htc__refuse(w->error, HTC_EUSAGE, 0, s->word, "no place uses the source %s",
                                            htc__quote(htc_bytes_of(s->name[0] ? s->name : s->word)).text);
            if (w->error)
                snprintf(w->error->hint, sizeof w->error->hint, "write {%.60s} where its values belong",
                         s->name[0] ? s->name : "1");
            return status;
        }
        if (s->uses.status != HTC_OK || s->also.status != HTC_OK)
            return s->uses.status != HTC_OK ? s->uses.status : s->also.status;
        if (!s->lock_step) {
            put(w, " <sweep:Sweep>\n");
            open++;
        }
        put_assignment(w, i);
    }
    while (open-- > 0)
        put(w, " </sweep:Sweep>\n");
    return HTC_OK;
}

static htc_status write_document(writer *w, size_t n_words)
{
    put(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
           "<jsdl:JobDefinition xmlns:jsdl=\"" HTC_JSDL_NS "\"\n  xmlns:posix=\"" HTC_POSIX_NS
           "\"\n  xmlns:sweep=\"" HTC_SWEEP_NS "\"\n  xmlns:func=\"" HTC_SWEEP_FUNCTIONS_NS
           "\"\n  xmlns:htc=\"" HTC_OWN_NS "\">\n");
    htc_status status = put_description(w, n_words);
    if (status == HTC_OK)
        status = put_sweeps(w);
    put(w, "</jsdl:JobDefinition>\n");
    return status == HTC_OK ? w->b.status : status;
}

static int is_whole(const htc_command *c)
{
    for (size_t i = 0; i < c->n_words; i++)
        if (!c->words || !c->words[i])
            return 0;
    for (size_t i = 0; i < c->n_in; i++)
        if (!c->in || !c->in[i].name || !c->in[i].uri)
            return 0;
    for (size_t i = 0; i < c->n_out; i++)
        if (!c->out || !c->out[i].name || !c->out[i].uri)
            return 0;
    for (size_t i = 0; i < c->n_wishes; i++)
        if (!c->wishes || !c->wishes[i].name || !c->wishes[i].value)
            return 0;
    for (size_t i = 0; i < c->n_resources; i++)
        if (!c->resources || !c->resources[i].name)
            return 0;
    return 1;
}

htc_status htc_command_to_jsdl(const htc_env *env, const htc_command *command, htc_bytes *xml, htc_error *error)
{
    htc_command c = { 0 };
    htc_error   ours = { .status = HTC_OK };
    size_t      n_words = 0;
    htc_status  status = htc__options_copy(&c, sizeof c, command, command ? command->size : 0, sizeof c.size);
    if (status == HTC_OK && !is_whole(&c))
        status = HTC_EINVAL;
    while (status == HTC_OK && n_words < c.n_words && !htc__source_begins(c.words[n_words]))
        n_words++;
    if (status == HTC_OK && (n_words == 0 || !c.words[0][0]))
        status = htc__refuse(&ours, HTC_EUSAGE, 0, "", "no command to run");
    htc__sources *sources = status == HTC_OK ? htc__alloc(env, sizeof *sources) : NULL;
    if (status == HTC_OK && !sources)
        status = HTC_ENOMEM;
    if (status == HTC_OK) {
        writer w = { .env = env, .command = &c, .sources = sources, .error = &ours };
        htc_buf_init(&w.b, env, HTC_XML_BYTES_MAX);
        status = htc__sources_read(env, &c, n_words, sources, &ours);
        if (status == HTC_OK)
            status = write_document(&w, n_words);
        if (status == HTC_OK)
            status = htc__take_bytes(env, &w.b, xml);
        htc_buf_free(&w.b);
        htc__sources_free(sources);
    }
    htc__free(env, sources, sizeof *sources);
    if (status == HTC_EFULL)
        status =
            htc__refuse(&ours, HTC_ETOOBIG, 0, "", "the document would have more than %zu bytes", HTC_XML_BYTES_MAX);
    if (status != HTC_OK && error) {
        if (ours.status == HTC_OK)
            htc__refuse(&ours, status, 0, "", "%s", htc_strerror(status));
        *error = ours;
    }
    return status;
}

htc_status htc_command_word(char **text, const char **word)
{
    if (!text || !*text || !word)
        return HTC_EINVAL;
    char *in = *text + strspn(*text, " \t\n"), *out = in, quote = 0;
    *text = in;
    if (!*in)
        return HTC_EMPTY;
    *word = in;
    for (; *in && (quote || !strchr(" \t\n", *in)); in++) {
        if (quote ? *in == quote : *in == '\'' || *in == '"')
            quote = quote ? 0 : *in;
        else
            *out++ = *in;
    }
    if (quote)
        return HTC_EUSAGE;
    *text = *in ? in + 1 : in;
    *out = '\0';
    return HTC_OK;
}
