/* The options of sbatch(1), as Slurm 24 has them: what each means here. An option is refused where the job would be another without it; what only
 * chooses a queue, a price or a place among equals is told and passed over. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "work/script_private.h"

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
        status = fn(s, word);
        word = next;
    }
    return status;
}

static htc_status count(htc__script *s, const char *value, uint64_t *into)
{
    if (!htc__script_number(value, into) || *into == 0 || *into > 65535)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no number of cores", value);
    s->cores_line = s->line;
    return HTC_OK;
}

static htc_status ntasks(htc__script *s, const char *value)
{
    return count(s, value, &s->ntasks);
}

static htc_status cpus(htc__script *s, const char *value)
{
    return count(s, value, &s->cpus);
}

static htc_status ntasks_per_node(htc__script *s, const char *value)
{
    return count(s, value, &s->ntasks_per_node);
}

static htc_status cpus_per_gpu(htc__script *s, const char *value)
{
    return count(s, value, &s->cpus_per_gpu);
}

/* N, or the least of N-M. */
static htc_status nodes(htc__script *s, const char *value)
{
    size_t   n = strspn(value, "0123456789");
    char     first[16];
    uint64_t most = 0;
    if (n == 0 || n > 5 || (value[n] && (value[n] != '-' || !htc__script_number(value + n + 1, &most))))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s' is no N or N-M nodes", value);
    snprintf(first, sizeof first, "%.*s", (int)n, value);
    if (!htc__script_number(first, &s->nodes) || s->nodes == 0 || (most && most < s->nodes))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no number of nodes", value);
    s->cores_line = s->line;
    return most > s->nodes ? htc__script_warn(s, "a task has a fixed number of nodes: the first of the range is taken") : HTC_OK;
}

/* [TYPE:]N */
static htc_status gpus_of(htc__script *s, uint32_t way, const char *value)
{
    const char *colon = strchr(value, ':');
    if (colon || strchr(value, ','))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': GPUs are counted without their types: write their number alone", value);
    if (value[0] < '0' || value[0] > '9')
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': write the number of GPUs", value);
    return htc__script_gpus(s, way, value);
}

static htc_status gpus(htc__script *s, const char *value)
{
    return gpus_of(s, HTC__SCRIPT_GPUS, value);
}

static htc_status gpus_per_node(htc__script *s, const char *value)
{
    return gpus_of(s, HTC__SCRIPT_GPUS_NODE, value);
}

static htc_status gpus_per_task(htc__script *s, const char *value)
{
    return gpus_of(s, HTC__SCRIPT_GPUS_TASK, value);
}

/* NAME, NAME:N, NAME:TYPE:N, NAME:TYPE */
static htc_status one_gres(htc__script *s, char *word)
{
    char *name = strncmp(word, "gres/", 5) == 0 ? word + 5 : word, *number = strpbrk(name, ":="), *type = NULL;
    if (number) {
        *number++ = '\0';
        type = number[strspn(number, "0123456789")] || !*number ? number : NULL;
    }
    if (type)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': what is counted has no types: write %.32s:N", type, name);
    return strcmp(name, "gpu") == 0 ? htc__script_gpus(s, HTC__SCRIPT_GPUS_GRES, number ? number : "1") : htc__script_count(s, 'g', name, number);
}

static htc_status gres(htc__script *s, const char *value)
{
    htc__script_uncount(s, 'g'); /* of two the later one holds */
    s->gpus[HTC__SCRIPT_GPUS_GRES].count = 0;
    return strcasecmp(value, "none") == 0 ? HTC_OK : each(s, value, one_gres);
}

/* NAME, NAME:N, NAME=N, NAME@SERVER:N */
static htc_status one_licence(htc__script *s, char *word)
{
    char *number = strpbrk(word, ":="), *server = strchr(word, '@');
    if (number)
        *number++ = '\0';
    if (server)
        *server = '\0';
    htc_status status = htc__script_count(s, 'L', word, number);
    return status == HTC_OK && server ? htc__script_warn(s, "the server of a licence is left out: sites count licences by their names") : status;
}

static htc_status licences(htc__script *s, const char *value)
{
    htc__script_uncount(s, 'L');
    if (strpbrk(value, ";|"))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "a task takes all that it names, and not one of them");
    return each(s, value, one_licence);
}

/* A bundle has its root in a directory of its own beside config.json, where the standard's own tools put it. */
static htc_status container(htc__script *s, const char *value)
{
    size_t n = strlen(value);
    while (n > 1 && value[n - 1] == '/')
        n--;
    if (value[0] != '/')
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no absolute path of an OCI bundle", value);
    snprintf(s->made, sizeof s->made, "%.*s/rootfs", (int)n, value);
    return htc__script_tell(s, "container", s->made, "the task runs in the bundle's directory rootfs; its config.json is not read");
}

static htc_status memory(htc__script *s, const char *value)
{
    s->memory_per_core = s->memory_per_gpu = 0; /* each of the three undoes the others, as in Slurm */
    if (!htc__script_size(value, UINT64_C(1) << 20, 1024, &s->memory))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no size", value);
    s->memory_line = s->line;
    return s->memory ? HTC_OK : htc__script_warn(s, "0 is all memory of a node in Slurm: here a task gets what the site gives one that names none");
}

static htc_status memory_per_cpu(htc__script *s, const char *value)
{
    s->memory = s->memory_per_gpu = 0;
    if (!htc__script_size(value, UINT64_C(1) << 20, 1024, &s->memory_per_core) || !s->memory_per_core)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no size", value);
    s->memory_line = s->line;
    return HTC_OK;
}

static htc_status memory_per_gpu(htc__script *s, const char *value)
{
    s->memory = s->memory_per_core = 0;
    if (!htc__script_size(value, UINT64_C(1) << 20, 1024, &s->memory_per_gpu) || !s->memory_per_gpu)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no size", value);
    s->memory_line = s->line;
    return HTC_OK;
}

static htc_status time_limit(htc__script *s, const char *value)
{
    if (strcmp(value, "0") == 0 || strcmp(value, "UNLIMITED") == 0 || strcmp(value, "INFINITE") == 0)
        return HTC_OK;
    return htc__script_tell(s, "time", value, NULL);
}

/* afterok:5:6,afterany:7 */
static htc_status one_dependency(htc__script *s, char *word)
{
    static const struct {
        const char *slurm, *rule;
    } rules[] = { { "afterok", "" }, { "afterany", ":any" }, { "afternotok", ":failed" } };
    char  *ids = strchr(word, ':');
    size_t i = 0;
    if (!ids) {
        uint64_t id;
        if (htc__script_number(word, &id)) { /* a number alone is afterany */
            snprintf(s->made, sizeof s->made, "%.40s:any", word);
            return htc__script_tell(s, "after", s->made, NULL);
        }
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': here a job waits for the end of others: afterok, afterany, afternotok", word);
    }
    *ids++ = '\0';
    while (i < 3 && strcmp(word, rules[i].slurm) != 0)
        i++;
    if (i == 3)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s': here a job waits for the end of others: afterok, afterany, afternotok", word);
    for (char *id = ids; id;) {
        char    *next = strchr(id, ':');
        uint64_t number;
        if (next)
            *next++ = '\0';
        if (!htc__script_number(id, &number) || number == 0)
            return htc__script_refuse(s, HTC_EUNSUPPORTED, "'%.60s' is no job of this system (htc status)", id);
        snprintf(s->made, sizeof s->made, "%llu%s", (unsigned long long)number, rules[i].rule);
        htc_status status = htc__script_tell(s, "after", s->made, NULL);
        if (status != HTC_OK)
            return status;
        id = next;
    }
    return HTC_OK;
}

static htc_status dependency(htc__script *s, const char *value)
{
    if (strchr(value, '?'))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "a job waits for all that it names, and not for one of them");
    return each(s, value, one_dependency);
}

/* NAME, NAME=VALUE, ALL, NONE, with commas between them. */
static htc_status one_variable(htc__script *s, char *word)
{
    if (strcmp(word, "ALL") == 0)
        return htc__script_warn(s, "the submitter's environment does not go with a job: name the variables that it needs (--env NAME)");
    return *word && strcmp(word, "NONE") != 0 && strcmp(word, "NIL") != 0 ? htc__script_tell(s, "env", word, NULL) : HTC_OK;
}

static htc_status export_variables(htc__script *s, const char *value)
{
    return each(s, value, one_variable);
}

/* A pattern for file names, in the letters of htc submit. */
static htc_status stream(htc__script *s, const char *option, const char *value)
{
    static const char slurm[] = "jAaux%", ours[] = "jjaun%";
    size_t            n = 0;
    const char       *from = value[0] == '/' ? htc__script_base(value) : value;
    if (strcmp(value, "/dev/null") == 0)
        return htc__script_warn(s, "what a task writes is kept: htc fetch leaves it out where nobody asks");
    while (strncmp(from, "./", 2) == 0)
        from += 2;
    for (const char *p = from; *p && n + 2 < sizeof s->made; p++) {
        s->made[n++] = *p;
        if (*p != '%')
            continue;
        for (p++; *p >= '0' && *p <= '9' && n + 2 < sizeof s->made; p++)
            s->made[n++] = *p;
        const char *letter = *p ? strchr(slurm, *p) : NULL;
        if (!letter)
            return htc__script_refuse(s, HTC_EUNSUPPORTED, "%%%c has no meaning here: %%j job, %%a index, %%u user, %%x name", *p ? *p : ' ');
        s->made[n++] = ours[letter - slurm];
    }
    s->made[n] = '\0';
    return htc__script_tell(s, option, s->made, value[0] == '/' ? "outputs are fetched with htc fetch, into a directory of your choice: the path before the name is left out" : NULL);
}

static htc_status output(htc__script *s, const char *value)
{
    return stream(s, "output", value);
}

static htc_status error_output(htc__script *s, const char *value)
{
    return stream(s, "error", value);
}

static htc_status input(htc__script *s, const char *value)
{
    if (strchr(value, '%'))
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "one file is the standard input of all tasks: a name with %% is not done");
    return htc__script_tell(s, "stdin", value, NULL);
}

static htc_status nice(htc__script *s, const char *value)
{
    uint64_t n = 100;
    int      up = value[0] == '-';
    if (value[0] && (!htc__script_number(value + up, &n)))
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no number", value);
    snprintf(s->made, sizeof s->made, "%s%llu", up ? "" : "-", (unsigned long long)(n < 1000 ? n : 1000));
    return htc__script_tell(s, "priority", s->made, n > 1000 ? "priorities end at 1000" : NULL);
}

static htc_status signal_before(htc__script *s, const char *value)
{
    uint32_t number, seconds;
    if (strncmp(value, "R:", 2) == 0 || htc_signal_parse(value, &number, &seconds) != HTC_OK)
        return htc__script_refuse(s, HTC_EUSAGE, "'%.60s' is no [B:]SIGNAL[@SECONDS]", value);
    return htc__script_tell(s, "signal", value, value[0] == 'B' ? NULL : "it goes to the script itself, as with B: in Slurm");
}

static htc_status one_mail_type(htc__script *s, char *word)
{
    if (strcmp(word, "END") == 0 || strcmp(word, "ALL") == 0)
        s->mail_end = 1;
    else if (strcmp(word, "FAIL") == 0)
        s->mail_fail = 1;
    else if (strcmp(word, "NONE") != 0)
        return htc__script_warn(s, "mail is sent when a job has ended (END) or has ended with failures (FAIL)");
    return HTC_OK;
}

static htc_status mail_type(htc__script *s, const char *value)
{
    s->mail_said = 1;
    return each(s, value, one_mail_type);
}

#define QUEUE  "sites are chosen by what tasks ask for; there is no queue, account or quality of service to name"
#define PLACE  "where on a node a task runs is the node's to decide"
#define FILTER "a task asks for cores, memory and time; htc submit --hosts names hosts"

static const htc__script_option options[] = {
    { "account", 'A', 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "acctg-freq", 0, 1, HTC__SCRIPT_WARN, "what a task uses is always measured (htc report)", NULL },
    { "array", 'a', 1, HTC__SCRIPT_TAKE, "array", NULL },
    { "batch", 0, 1, HTC__SCRIPT_WARN, FILTER, NULL },
    { "bb", 0, 1, HTC__SCRIPT_REFUSE, "there is no burst buffer", NULL },
    { "bbf", 0, 1, HTC__SCRIPT_REFUSE, "there is no burst buffer", NULL },
    { "begin", 'b', 1, HTC__SCRIPT_TAKE, "begin", NULL },
    { "chdir", 'D', 1, HTC__SCRIPT_TAKE, "workdir", NULL },
    { "clusters", 'M', 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "comment", 0, 1, HTC__SCRIPT_QUIET, NULL, NULL },
    { "constraint", 'C', 1, HTC__SCRIPT_REFUSE, FILTER, NULL },
    { "container", 0, 1, HTC__SCRIPT_DO, NULL, container },
    { "container-id", 0, 1, HTC__SCRIPT_REFUSE, "a container begins and ends with its task: --container names a bundle", NULL },
    { "contiguous", 0, 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "core-spec", 'S', 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "cores-per-socket", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "cpu-freq", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "cpus-per-gpu", 0, 1, HTC__SCRIPT_DO, NULL, cpus_per_gpu },
    { "cpus-per-task", 'c', 1, HTC__SCRIPT_DO, NULL, cpus },
    { "deadline", 0, 1, HTC__SCRIPT_WARN, "a job has no deadline: a task has a wall-time limit (--time)", NULL },
    { "delay-boot", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "dependency", 'd', 1, HTC__SCRIPT_DO, NULL, dependency },
    { "distribution", 'm', 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "error", 'e', 1, HTC__SCRIPT_DO, NULL, error_output },
    { "exclude", 'x', 1, HTC__SCRIPT_WARN, "a node that fails everybody's tasks is set aside by itself (htc agents)", NULL },
    { "exclusive", 0, 2, HTC__SCRIPT_REFUSE, "a node is shared: ask for its cores with -c", NULL },
    { "export", 0, 1, HTC__SCRIPT_DO, NULL, export_variables },
    { "export-file", 0, 1, HTC__SCRIPT_REFUSE, "name the variables that the job needs (--env)", NULL },
    { "extra-node-info", 'B', 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "get-user-env", 0, 2, HTC__SCRIPT_WARN, "name the variables that the job needs (--env)", NULL },
    { "gid", 0, 1, HTC__SCRIPT_REFUSE, "a task runs as its user", NULL },
    { "gpu-bind", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "gpu-freq", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "gpus", 'G', 1, HTC__SCRIPT_DO, NULL, gpus },
    { "gpus-per-node", 0, 1, HTC__SCRIPT_DO, NULL, gpus_per_node },
    { "gpus-per-socket", 0, 1, HTC__SCRIPT_REFUSE, "sockets are not known: say --gpus", NULL },
    { "gpus-per-task", 0, 1, HTC__SCRIPT_DO, NULL, gpus_per_task },
    { "gres", 0, 1, HTC__SCRIPT_DO, NULL, gres },
    { "gres-flags", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "hint", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "hold", 'H', 0, HTC__SCRIPT_FLAG, "hold", NULL },
    { "ignore-pbs", 0, 0, HTC__SCRIPT_QUIET, NULL, NULL },
    { "input", 'i', 1, HTC__SCRIPT_DO, NULL, input },
    { "job-name", 'J', 1, HTC__SCRIPT_TAKE, "name", NULL },
    { "kill-on-invalid-dep", 0, 1, HTC__SCRIPT_WARN, "a job that waits for what cannot come is cancelled", NULL },
    { "licenses", 'L', 1, HTC__SCRIPT_DO, NULL, licences },
    { "mail-type", 0, 1, HTC__SCRIPT_DO, NULL, mail_type },
    { "mail-user", 0, 1, HTC__SCRIPT_DO, NULL, htc__script_mail_to },
    { "mcs-label", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "mem", 0, 1, HTC__SCRIPT_DO, NULL, memory },
    { "mem-bind", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "mem-per-cpu", 0, 1, HTC__SCRIPT_DO, NULL, memory_per_cpu },
    { "mem-per-gpu", 0, 1, HTC__SCRIPT_DO, NULL, memory_per_gpu },
    { "mincpus", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "nice", 0, 2, HTC__SCRIPT_DO, NULL, nice },
    { "no-kill", 'k', 2, HTC__SCRIPT_WARN, "a task that is lost with its node is run again", NULL },
    { "no-requeue", 0, 0, HTC__SCRIPT_WARN, "a task that is lost with its node is run again; --retries 0 is for those that fail", NULL },
    { "nodefile", 'F', 1, HTC__SCRIPT_REFUSE, FILTER, NULL },
    { "nodelist", 'w', 1, HTC__SCRIPT_REFUSE, FILTER, NULL },
    { "nodes", 'N', 1, HTC__SCRIPT_DO, NULL, nodes },
    { "ntasks", 'n', 1, HTC__SCRIPT_DO, NULL, ntasks },
    { "ntasks-per-core", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "ntasks-per-node", 0, 1, HTC__SCRIPT_DO, NULL, ntasks_per_node },
    { "ntasks-per-socket", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "open-mode", 0, 1, HTC__SCRIPT_WARN, "each attempt has outputs of its own", NULL },
    { "output", 'o', 1, HTC__SCRIPT_DO, NULL, output },
    { "overcommit", 'O', 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "oversubscribe", 's', 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "parsable", 0, 0, HTC__SCRIPT_WARN, "htc submit --json is for programs", NULL },
    { "partition", 'p', 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "power", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "prefer", 0, 1, HTC__SCRIPT_WARN, FILTER, NULL },
    { "priority", 0, 1, HTC__SCRIPT_WARN, "among your own jobs --priority counts, from -1000 to 1000; --nice is taken", NULL },
    { "profile", 0, 1, HTC__SCRIPT_WARN, "what a task uses is always measured (htc report)", NULL },
    { "propagate", 0, 2, HTC__SCRIPT_WARN, "limits are those that the job asks for", NULL },
    { "qos", 'q', 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "quiet", 'Q', 0, HTC__SCRIPT_QUIET, NULL, NULL },
    { "reboot", 0, 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "requeue", 0, 0, HTC__SCRIPT_WARN, "a task that is lost with its node is always run again; --retries N is for those that fail", NULL },
    { "reservation", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "signal", 0, 1, HTC__SCRIPT_DO, NULL, signal_before },
    { "sockets-per-node", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "spread-job", 0, 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "switches", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "test-only", 0, 0, HTC__SCRIPT_FLAG, "dry-run", NULL },
    { "thread-spec", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "threads-per-core", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "time", 't', 1, HTC__SCRIPT_DO, NULL, time_limit },
    { "time-min", 0, 1, HTC__SCRIPT_WARN, "a limit is not made shorter to fit a gap", NULL },
    { "tmp", 0, 1, HTC__SCRIPT_WARN, "room on a disk is not asked for: a task that finds none is run elsewhere", NULL },
    { "tres-bind", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "tres-per-task", 0, 1, HTC__SCRIPT_REFUSE, "say --cpus-per-task, --gpus-per-task or --licenses", NULL },
    { "uid", 0, 1, HTC__SCRIPT_REFUSE, "a task runs as its user", NULL },
    { "use-min-nodes", 0, 0, HTC__SCRIPT_WARN, PLACE, NULL },
    { "verbose", 'v', 0, HTC__SCRIPT_QUIET, NULL, NULL },
    { "wait", 'W', 0, HTC__SCRIPT_FLAG, "wait", NULL },
    { "wait-all-nodes", 0, 1, HTC__SCRIPT_WARN, PLACE, NULL },
    { "wckey", 0, 1, HTC__SCRIPT_WARN, QUEUE, NULL },
    { "wrap", 0, 1, HTC__SCRIPT_REFUSE, "the script is the command", NULL },
};

static const htc__script_option *find(const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (letter ? options[i].letter == letter : strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return &options[i];
    return NULL;
}

/* --name=value, --name value, -nvalue, -n value. */
static htc_status one(htc__script *s, char *word, char **rest, int *bad)
{
    int                       is_long = word[0] == '-' && word[1] == '-';
    char                     *equals = is_long ? strchr(word, '=') : NULL;
    size_t                    len = is_long ? (equals ? (size_t)(equals - word) : strlen(word)) - 2 : 1;
    const htc__script_option *o = word[0] != '-' || !word[1] || !len ? NULL : find(word + 2, len, is_long ? 0 : word[1]);
    const char               *value = equals ? equals + 1 : !is_long && word[1] && word[2] ? word + 2 : NULL;
    snprintf(s->said, sizeof s->said, "%.*s", (int)(len + 2 < 60 ? (is_long ? len + 2 : 2) : 60), word);
    if (++s->options > HTC_SCRIPT_OPTIONS_MAX)
        return htc__script_refuse(s, HTC_ETOOBIG, "more than %d options", HTC_SCRIPT_OPTIONS_MAX);
    if (!o)
        return htc__script_refuse(s, HTC_EUNSUPPORTED, word[0] == '-' ? "this is no option of sbatch that is known here" : "an option begins with a dash");
    if (o->takes == 0 && value)
        return htc__script_refuse(s, HTC_EUSAGE, "it takes no value");
    if (o->takes == 1 && !value)
        value = htc__script_word(rest, bad);
    if (o->takes == 1 && (!value || !*value))
        return htc__script_refuse(s, HTC_EUSAGE, "its value is missing");
    return htc__script_option_do(s, o, value ? value : "");
}

htc_status htc__script_slurm(htc__script *s, char *p)
{
    htc_status status = HTC_OK;
    int        bad = 0;
    for (char *word; status == HTC_OK && (word = htc__script_word(&p, &bad)) != NULL;)
        status = one(s, word, &p, &bad);
    return status == HTC_OK && bad ? htc__script_refuse(s, HTC_EUSAGE, "a quotation does not end") : status;
}
