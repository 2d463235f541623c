/* The options of qsub(1), as Grid Engine 8 has them: what each means here. */
#include <stdio.h>
#include <string.h>

#include "work/script_private.h"

static htc_status array(htc__script *s, const char *value)
{
    htc_array a = { .size = sizeof a };
    if (strpbrk(value, ",%") || htc_array_parse(value, &a, NULL) != HTC_OK || htc_array_at(&a, 0) == 0)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no N, N-M or N-M:STEP, from 1 on", value);
    return htc__script_tell(s, "array", value, NULL);
}

/* SECONDS or H:M:S; each of them may be empty. */
static int seconds_of(const char *text, uint64_t *out)
{
    uint64_t part = 0, sum = 0, parts = 1;
    for (; *text; text++) {
        if (*text == ':') {
            sum = (sum + part) * 60;
            part = 0;
            parts++;
        } else if (*text >= '0' && *text <= '9' && part < 1000000000) {
            part = part * 10 + (uint64_t)(*text - '0');
        } else {
            return 0;
        }
    }
    *out = sum + part;
    return parts == 1 || parts == 3;
}

static htc_status run_time(htc__script *s, const char *value)
{
    uint64_t n;
    if (strcmp(value, "INFINITY") == 0)
        return HTC_OK;
    if (!seconds_of(value, &n) || n == 0)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no time: SECONDS or H:M:S", value);
    snprintf(s->made, sizeof s->made, "%llus", (unsigned long long)n);
    return htc__script_tell(s, "time", s->made, NULL);
}

static htc_status memory(htc__script *s, const char *value)
{
    if (!htc__script_size(value, 1, 1000, &s->memory_per_core) || !s->memory_per_core)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no size", value);
    s->memory_line = s->line;
    return HTC_OK;
}

static htc_status gpus(htc__script *s, const char *value)
{
    return htc__script_gpus(s, HTC__SCRIPT_GPUS_GRES, value);
}

/* What every Grid Engine has: attributes of its nodes and queues, which are no numbers of something that a task takes. */
static int is_attribute(const char *name)
{
    static const char *const names[] = { "arch", "calendar", "cpu", "display_win_gui", "min_cpu_interval", "num_proc", "qname", "q", "rerun", "re",
                                         "seq_no", "slots", "tmpdir" };
    static const char *const begins[] = { "load_", "np_load_", "m_", "mem_", "swap_", "virtual_", "s_", "h_" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return 1;
    return 0;
}

static htc_status resource(htc__script *s, char *word)
{
    static const struct {
        const char *name;
        uint8_t     kind;
        const char *means;
        htc_status (*fn)(htc__script *s, const char *value);
    } known[] = {
        { "h_rt", HTC__SCRIPT_DO, NULL, run_time },
        { "h_vmem", HTC__SCRIPT_DO, NULL, memory },
        { "mem_free", HTC__SCRIPT_WARN, "a node's memory is reserved for its tasks: h_vmem says how much", NULL },
        { "virtual_free", HTC__SCRIPT_WARN, "a node's memory is reserved for its tasks: h_vmem says how much", NULL },
        { "s_rt", HTC__SCRIPT_WARN, "--signal sends one ahead of the limit", NULL },
        { "s_vmem", HTC__SCRIPT_WARN, "memory has one limit, h_vmem", NULL },
        { "hostname", HTC__SCRIPT_REFUSE, "htc submit --hosts names hosts", NULL },
        { "h", HTC__SCRIPT_REFUSE, "htc submit --hosts names hosts", NULL },
        { "gpu", HTC__SCRIPT_DO, NULL, gpus },
        { "exclusive", HTC__SCRIPT_REFUSE, "a node is shared: ask for its cores with -c", NULL },
    };
    char *equals = strchr(word, '=');
    if (equals)
        *equals = '\0';
    snprintf(s->said, sizeof s->said, "-l %.50s", word);
    if (s->soft)
        return htc__script_warn(s, "what need not be met is not asked for");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, word) != 0)
            continue;
        htc__script_option o = { .kind = known[i].kind, .means = known[i].means, .fn = known[i].fn };
        if (o.fn == gpus && !equals)
            return gpus(s, "1");
        if (o.kind == HTC__SCRIPT_DO && !equals)
            return htc__script_refuse(s, HTC_EUSAGE, "its value is missing");
        return htc__script_option_do(s, &o, equals ? equals + 1 : "");
    }
    uint64_t number;
    if (equals && !is_attribute(word) && htc__script_number(equals + 1, &number))
        return htc__script_count(s, 'l', word, equals + 1); /* a licence, or what else a site has so many of */
    return htc__script_warn(s, "sites are chosen by cores, memory, time and what they count; this request has no meaning here");
}

/* For each part of a list with commas. */
static htc_status each(htc__script *s, const char *value, htc_status (*fn)(htc__script *s, char *word))
{
    char       list[HTC_SCRIPT_LINE_MAX + 1];
    htc_status status = HTC_OK;
    snprintf(list, sizeof list, "%s", value);
    for (char *word = list; word && status == HTC_OK;) {
        char *next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        status = *word ? fn(s, word) : HTC_OK;
        word = next;
    }
    return status;
}

static htc_status resources(htc__script *s, const char *value)
{
    return each(s, value, resource);
}

static htc_status variable(htc__script *s, char *word)
{
    return htc__script_tell(s, "env", word, NULL);
}

static htc_status variables(htc__script *s, const char *value)
{
    return each(s, value, variable);
}

static htc_status hold_one(htc__script *s, char *word)
{
    uint64_t id;
    if (!htc__script_number(word, &id) || id == 0)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': jobs are waited for by their number (htc status), and not by their name", word);
    snprintf(s->made, sizeof s->made, "%llu:any", (unsigned long long)id);
    return htc__script_tell(s, "after", s->made, NULL);
}

static htc_status hold_for(htc__script *s, const char *value)
{
    return each(s, value, hold_one);
}

static htc_status cores(htc__script *s, const char *both)
{
    const char *range = both + strlen(both) + 1;
    size_t      n = strspn(range, "0123456789");
    char        first[16];
    if (n == 0 || n > 5 || (range[n] && range[n] != '-'))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.40s' is no number of slots", range);
    snprintf(first, sizeof first, "%.*s", (int)n, range);
    if (!htc__script_number(first, &s->cpus) || s->cpus == 0)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.40s' is no number of slots", range);
    s->cores_line = s->line;
    return range[n] ? htc__script_warn(s, "a task has a fixed number of cores: the first of the range is taken") : HTC_OK;
}

/* A name for a stream, in the letters of htc submit. */
static htc_status stream(htc__script *s, const char *option, const char *value)
{
    static const struct {
        const char *sge, *ours;
    } names[] = { { "$JOB_ID", "%j" }, { "$TASK_ID", "%a" }, { "$JOB_NAME", "%n" }, { "$USER", "%u" } };
    size_t      n = 0, i;
    const char *host = strchr(value, ':'), *path = host ? host + 1 : value, *from = path[0] == '/' ? htc__script_base(path) : path;
    if (strcmp(path, "/dev/null") == 0 || !*from)
        return htc__script_warn(s, "what a task writes is kept: htc fetch brings it to a directory of your choice");
    for (const char *p = from; *p && n + 4 < sizeof s->made;) {
        for (i = 0; i < sizeof names / sizeof names[0] && strncmp(p, names[i].sge, strlen(names[i].sge)) != 0; i++)
            ;
        if (i < sizeof names / sizeof names[0]) {
            n += (size_t)snprintf(s->made + n, sizeof s->made - n, "%s", names[i].ours);
            p += strlen(names[i].sge);
        } else if (*p == '$') {
            return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.20s' has no meaning here: $JOB_ID, $TASK_ID, $JOB_NAME, $USER", p);
        } else {
            if (*p == '%')
                s->made[n++] = '%';
            s->made[n++] = *p++;
        }
    }
    s->made[n] = '\0';
    return htc__script_tell(s, option, s->made, from != value ? "outputs are fetched with htc fetch, into a directory of your choice: the path before the name is left out" : NULL);
}

static htc_status output(htc__script *s, const char *value)
{
    return stream(s, "output", value);
}

static htc_status error_output(htc__script *s, const char *value)
{
    return stream(s, "error", value);
}

static htc_status join(htc__script *s, const char *value)
{
    return value[0] == 'y' ? htc__script_warn(s, "standard error stays a file of its own") : HTC_OK;
}

/* [[CC]YY]MMDDhhmm[.SS], without the year: this one, which htc submit knows. */
static htc_status start_at(htc__script *s, const char *value)
{
    size_t n = strspn(value, "0123456789");
    if ((n != 8 && n != 10 && n != 12) || (value[n] && (value[n] != '.' || strspn(value + n + 1, "0123456789") != 2 || value[n + 3])))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no [[CC]YY]MMDDhhmm[.SS]", value);
    const char *d = value + n - 8;
    const char *seconds = value[n] ? value + n + 1 : "00";
    if (n == 8)
        snprintf(s->made, sizeof s->made, "%.2s/%.2s-%.2s:%.2s:%s", d, d + 2, d + 4, d + 6, seconds);
    else
        snprintf(s->made, sizeof s->made, "%s%.*s-%.2s-%.2sT%.2s:%.2s:%s", n == 10 ? "20" : "", (int)(n - 8), value, d, d + 2, d + 4, d + 6, seconds);
    return htc__script_tell(s, "begin", s->made, NULL);
}

static htc_status mail_on(htc__script *s, const char *value)
{
    s->mail_said = 1;
    s->mail_end |= strchr(value, 'e') != NULL;
    s->mail_fail |= strchr(value, 'a') != NULL;
    if (strspn(value, "beasn") != strlen(value))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.20s': b, e, a, s or n", value);
    return strpbrk(value, "bs") ? htc__script_warn(s, "mail is sent when a job has ended (e) or has ended with failures (a)") : HTC_OK;
}

static htc_status priority(htc__script *s, const char *value)
{
    uint64_t n;
    int      down = value[0] == '-';
    if (!htc__script_number(value + down, &n))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no number", value);
    snprintf(s->made, sizeof s->made, "%s%llu", down ? "-" : "", (unsigned long long)(n < 1000 ? n : 1000));
    return htc__script_tell(s, "priority", s->made, n > 1000 ? "priorities end at 1000" : NULL);
}

static htc_status binary(htc__script *s, const char *value)
{
    return value[0] == 'y' ? htc__script_refuse(s, HTC_EUNSUPPORTED, "the script is the command") : HTC_OK;
}

static htc_status synchronous(htc__script *s, const char *value)
{
    return value[0] == 'y' ? htc__script_tell(s, "wait", "", NULL) : HTC_OK;
}

static htc_status soft(htc__script *s, const char *value)
{
    (void)value;
    s->soft = 1;
    return HTC_OK;
}

static htc_status hard(htc__script *s, const char *value)
{
    (void)value;
    s->soft = 0;
    return HTC_OK;
}

static htc_status here(htc__script *s, const char *value)
{
    (void)value;
    return htc__script_tell(s, "workdir", "here", NULL);
}

#define QUEUE "sites are chosen by what tasks ask for; there is no queue, project or account to name"

static const htc__script_option options[] = {
    { "-A", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-C", 0, 1, HTC__SCRIPT_REFUSE, "lines with options begin with #$", NULL },
    { "-M", 0, 1, HTC__SCRIPT_DO, NULL, htc__script_mail_to },
    { "-N", 0, 1, HTC__SCRIPT_TAKE, "name", NULL },
    { "-P", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-R", 0, 1, HTC__SCRIPT_WARN, "slots are kept for wide tasks by themselves", NULL },
    { "-S", 0, 1, HTC__SCRIPT_WARN, "the script is run by its own first line (#!)", NULL },
    { "-V", 0, 0, HTC__SCRIPT_WARN, "the submitter's environment does not go with a job: name the variables that it needs (-v NAME)", NULL },
    { "-a", 0, 1, HTC__SCRIPT_DO, NULL, start_at },
    { "-ac", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-b", 0, 1, HTC__SCRIPT_DO, NULL, binary },
    { "-binding", 0, 1, HTC__SCRIPT_WARN, "where on a node a task runs is the node's to decide", NULL },
    { "-ckpt", 0, 1, HTC__SCRIPT_WARN, "a task is not moved: --signal warns it ahead of its limit", NULL },
    { "-clear", 0, 0, HTC__SCRIPT_QUIET, NULL, NULL },
    { "-cwd", 0, 0, HTC__SCRIPT_DO, NULL, here },
    { "-dc", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-dl", 0, 1, HTC__SCRIPT_WARN, "a job has no deadline: a task has a wall-time limit (-l h_rt)", NULL },
    { "-e", 0, 1, HTC__SCRIPT_DO, NULL, error_output },
    { "-h", 0, 0, HTC__SCRIPT_FLAG, "hold", NULL },
    { "-hard", 0, 0, HTC__SCRIPT_DO, NULL, hard },
    { "-hold_jid", 0, 1, HTC__SCRIPT_DO, NULL, hold_for },
    { "-hold_jid_ad", 0, 1, HTC__SCRIPT_REFUSE, "a job waits for whole jobs, and not task by task", NULL },
    { "-i", 0, 1, HTC__SCRIPT_TAKE, "stdin", NULL },
    { "-j", 0, 1, HTC__SCRIPT_DO, NULL, join },
    { "-js", 0, 1, HTC__SCRIPT_WARN, "among your own jobs -p counts", NULL },
    { "-l", 0, 1, HTC__SCRIPT_DO, NULL, resources },
    { "-m", 0, 1, HTC__SCRIPT_DO, NULL, mail_on },
    { "-masterq", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-notify", 0, 0, HTC__SCRIPT_WARN, "a task that is ended gets SIGTERM first; --signal sends one ahead of the limit", NULL },
    { "-now", 0, 1, HTC__SCRIPT_WARN, "a job waits until there is room", NULL },
    { "-o", 0, 1, HTC__SCRIPT_DO, NULL, output },
    { "-p", 0, 1, HTC__SCRIPT_DO, NULL, priority },
    { "-pe", 0, 3, HTC__SCRIPT_DO, NULL, cores },
    { "-q", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-r", 0, 1, HTC__SCRIPT_WARN, "a task that is lost with its node is always run again; --retries N is for those that fail", NULL },
    { "-sc", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "-shell", 0, 1, HTC__SCRIPT_WARN, "the script is run by its own first line (#!)", NULL },
    { "-soft", 0, 0, HTC__SCRIPT_DO, NULL, soft },
    { "-sync", 0, 1, HTC__SCRIPT_DO, NULL, synchronous },
    { "-t", 0, 1, HTC__SCRIPT_DO, NULL, array },
    { "-tc", 0, 1, HTC__SCRIPT_TAKE, "max-running", NULL },
    { "-terse", 0, 0, HTC__SCRIPT_QUIET, NULL, NULL },
    { "-v", 0, 1, HTC__SCRIPT_DO, NULL, variables },
    { "-verify", 0, 0, HTC__SCRIPT_FLAG, "dry-run", NULL },
    { "-w", 0, 1, HTC__SCRIPT_WARN, "a job that fits nowhere is always refused", NULL },
    { "-wd", 0, 1, HTC__SCRIPT_TAKE, "workdir", NULL },
};

static const htc__script_option *find(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static htc_status one(htc__script *s, char *word, char **rest, int *bad)
{
    const htc__script_option *o = find(word);
    char                      both[HTC_SCRIPT_LINE_MAX + 2];
    const char               *value = "";
    snprintf(s->said, sizeof s->said, "%.60s", word);
    if (++s->options > HTC_SCRIPT_OPTIONS_MAX)
        return htc__script_refuse(s, HTC_ETOOBIG, "more than %d options", HTC_SCRIPT_OPTIONS_MAX);
    if (!o)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, word[0] == '-' ? "this is no option of qsub that is known here" : "an option begins with a dash");
    if (o->takes)
        value = htc__script_word(rest, bad);
    if (o->takes && (!value || !*value))
        return htc__script_refuse(s, HTC_EUSAGE, "its value is missing");
    if (o->takes == 3) {
        const char *second = htc__script_word(rest, bad);
        if (!second)
            return htc__script_refuse(s, HTC_EUSAGE, "it takes two words");
        size_t n = strlen(value), m = strlen(second);
        memcpy(both, value, n + 1);
        memcpy(both + n + 1, second, m + 1);
        value = both;
    }
    return htc__script_option_do(s, o, value);
}

htc_status htc__script_sge(htc__script *s, char *p)
{
    htc_status status = HTC_OK;
    int        bad = 0;
    for (char *word; status == HTC_OK && (word = htc__script_word(&p, &bad)) != NULL;)
        status = one(s, word, &p, &bad);
    return status == HTC_OK && bad ? htc__script_refuse(s, HTC_EUSAGE, "a quotation does not end") : status;
}
