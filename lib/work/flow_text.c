/* The text form: one task a line, words and quoting as in a shell, settings in front of the command. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

#define LINE_MAX_BYTES ((size_t)4 << 20)

/* One word: its bytes stand in text, and for each of them in mask whether it was quoted; behind it a zero. */
typedef struct word {
    size_t at, len;
} word;

/* A line, continued ones together. */
typedef struct text_reader {
    htc__flow_reader *r;
    const char       *p, *end;
    uint32_t          line, first_line; /* where we are, where the task began */
    const char       *line_begin;
    htc_buf           text, mask;
    htc__flow_list    words;     /* word */
    htc__flow_list    in, out;   /* htc_flow_file */
    htc__flow_list    env, args; /* const char * */
    htc__flow_list    after;     /* word */
    uint32_t          given;     /* bit of each setting */
    word              adds;      /* the value of that setting */
} text_reader;

static __attribute__((format(printf, 4, 5))) htc_status refuse(text_reader *t, htc_status status, const char *hint,
                                                               const char *format, ...)
{
    char    text[sizeof t->r->error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return htc__flow_refuse(t->r, status, t->first_line, "", hint, "%s", text);
}

/* The same, of the character at p. */
static htc_status refuse_here(text_reader *t, const char *p, const char *hint, const char *format, const char *what)
{
    htc__flow_refuse(t->r, HTC_ESCHEMA, t->line, "", hint, format, what);
    t->r->error->column = p - t->line_begin < 1000000 ? (uint32_t)(p - t->line_begin) + 1 : 0;
    return HTC_ESCHEMA;
}

/* ---- words ---- */

static void put(text_reader *t, char c, int quoted)
{
    htc_put_u8(&t->text, (uint8_t)c);
    htc_put_u8(&t->mask, (uint8_t)quoted);
}

static void next_line(text_reader *t)
{
    t->line++;
    t->line_begin = t->p;
}

/* A backslash at the end of a line: 0 if there is none here, else its length. */
static size_t continued(const text_reader *t)
{
    size_t left = (size_t)(t->end - t->p);
    if (left >= 2 && t->p[0] == '\\' && t->p[1] == '\n')
        return 2;
    return left >= 3 && t->p[0] == '\\' && t->p[1] == '\r' && t->p[2] == '\n' ? 3 : 0;
}

static int at_line_end(const text_reader *t)
{
    return t->p == t->end || *t->p == '\n' || (*t->p == '\r' && (t->p + 1 == t->end || t->p[1] == '\n'));
}

static void skip_blanks(text_reader *t)
{
    for (size_t n; t->p < t->end;) {
        if ((n = continued(t)) > 0) {
            t->p += n;
            next_line(t);
        } else if (*t->p == ' ' || *t->p == '\t') {
            t->p++;
        } else {
            break;
        }
    }
    if (t->p < t->end && *t->p == '#')
        while (!at_line_end(t))
            t->p++;
}

/* A character in quotes. */
static void take_quoted(text_reader *t)
{
    char c = *t->p++;
    put(t, c, 1);
    if (c == '\n')
        next_line(t);
}

static htc_status single_quotes(text_reader *t)
{
    const char *begin = t->p++;
    while (t->p < t->end && *t->p != '\'')
        take_quoted(t);
    if (t->p == t->end)
        return refuse_here(t, begin, "close it with another one", "a single quote is not closed%s", "");
    t->p++;
    return HTC_OK;
}

static htc_status refuse_dollar(text_reader *t)
{
    return refuse_here(t, t->p, "single quotes keep a $ as it is; sh -c '...' gives the line to a shell",
                       "nothing is put in for $%s", "");
}

/* A $ that a shell would put something in for. */
static int is_expansion(const text_reader *t)
{
    char next = t->p + 1 < t->end ? t->p[1] : ' ';
    return *t->p == '$' && (next == '_' || next == '{' || next == '(' || (next >= 'a' && next <= 'z') ||
                            (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9'));
}

static htc_status double_quotes(text_reader *t)
{
    const char *begin = t->p++;
    while (t->p < t->end && *t->p != '"') {
        size_t n = continued(t);
        if (n) {
            t->p += n;
            next_line(t);
            continue;
        }
        if (is_expansion(t))
            return refuse_dollar(t);
        if (*t->p == '`')
            return refuse_here(t, t->p, "sh -c '...' gives the line to a shell", "nothing is run for a backquote%s",
                               "");
        if (*t->p == '\\' && t->p + 1 < t->end && strchr("\"\\$`", t->p[1]))
            t->p++;
        take_quoted(t);
    }
    if (t->p == t->end)
        return refuse_here(t, begin, "close it with another one", "a double quote is not closed%s", "");
    t->p++;
    return HTC_OK;
}

static htc_status plain(text_reader *t)
{
    char shown[2] = { *t->p, '\0' };
    if (*t->p == '\\') {
        if (++t->p == t->end)
            return refuse_here(t, t->p - 1, "write '\\' for a plain one", "the file ends with a backslash%s", "");
        take_quoted(t);
        return HTC_OK;
    }
    if (is_expansion(t))
        return refuse_dollar(t);
    if (strchr("|&;<>()`", *t->p) && *t->p)
        return refuse_here(t, t->p, "put it in quotes, or give the line to a shell: sh -c '...'",
                           "%s means something to a shell, and none reads this", htc__quote(htc_bytes_of(shown)).text);
    if ((unsigned char)*t->p < 0x20 || *t->p == 0x7f)
        return refuse_here(t, t->p, "put it in quotes, or remove it", "there is a control character%s", "");
    put(t, *t->p++, 0);
    return HTC_OK;
}

static int at_word_end(const text_reader *t)
{
    return at_line_end(t) || *t->p == ' ' || *t->p == '\t';
}

static htc_status read_word(text_reader *t)
{
    word *w = htc__flow_list_add(t->r->env, &t->words);
    if (!w)
        return HTC_ENOMEM;
    if (t->words.n > HTC__FLOW_WORDS_MAX)
        return refuse(t, HTC_ETOOBIG, "put them into a file", "the task has more than %u words", HTC__FLOW_WORDS_MAX);
    w->at = t->text.len;
    while (!at_word_end(t)) {
        size_t     n = continued(t);
        htc_status status = HTC_OK;
        if (n) {
            t->p += n;
            next_line(t);
        } else {
            status = *t->p == '\'' ? single_quotes(t) : *t->p == '"' ? double_quotes(t) : plain(t);
        }
        if (status != HTC_OK)
            return status;
    }
    w->len = t->text.len - w->at;
    put(t, '\0', 1);
    if (t->text.status == HTC_EFULL || t->mask.status == HTC_EFULL)
        return refuse(t, HTC_ETOOBIG, "put them into a file", "the task has more than %zu bytes", LINE_MAX_BYTES);
    return t->text.status == HTC_OK ? t->mask.status : t->text.status;
}

static htc_status read_words(text_reader *t)
{
    htc_status status = HTC_OK;
    t->words.n = t->in.n = t->out.n = t->env.n = t->args.n = t->after.n = 0;
    t->given = 0;
    htc_buf_clear(&t->text);
    htc_buf_clear(&t->mask);
    for (skip_blanks(t); status == HTC_OK && !at_line_end(t); skip_blanks(t)) {
        if (t->words.n == 0)
            t->first_line = t->line;
        status = read_word(t);
    }
    return status;
}

/* ---- what the words mean ---- */

static word *word_at(const text_reader *t, size_t i)
{
    return (word *)t->words.items + i;
}

static char *text_of(const text_reader *t, word w)
{
    return (char *)t->text.data + w.at;
}

static htc_bytes bytes_of(const text_reader *t, word w)
{
    return (htc_bytes){ t->text.data + w.at, w.len };
}

static htc__quoted shown(const text_reader *t, word w)
{
    return htc__quote(bytes_of(t, w));
}

/* The first, or last, c of the word that is not quoted; SIZE_MAX: none. Counted from its begin. */
static size_t find_plain(const text_reader *t, word w, char c, int last)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < w.len && (last || found == SIZE_MAX); i++)
        if ((char)t->text.data[w.at + i] == c && !t->mask.data[w.at + i])
            found = i;
    return found;
}

static int is_all_plain(const text_reader *t, word w)
{
    for (size_t i = 0; i < w.len; i++)
        if (t->mask.data[w.at + i])
            return 0;
    return w.len > 0;
}

/* NAME of a variable as they are usually written: no lower case. */
static int is_variable(htc_bytes key)
{
    const char *p = key.data;
    for (size_t i = 0; i < key.len; i++)
        if (!((p[i] >= 'A' && p[i] <= 'Z') || p[i] == '_' || (i > 0 && p[i] >= '0' && p[i] <= '9')))
            return 0;
    return key.len > 0;
}

/* A name in front of the = of a setting or a variable: letters, digits, - and _. */
static int is_key(htc_bytes key)
{
    const char *p = key.data;
    for (size_t i = 0; i < key.len; i++)
        if (!((p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z') || p[i] == '_' ||
              (i > 0 && (p[i] == '-' || (p[i] >= '0' && p[i] <= '9')))))
            return 0;
    return key.len > 0;
}

enum { AFTER, CORES, MEMORY, TIME, KIND, RUN, COPIES, ADDS, IN, OUT, ENV, SETTINGS };
static const char *const setting_names[SETTINGS] = { "after", "cores", "memory", "time", "kind",
                                                     "run",   "count", "adds",   "in",   "out",
                                                     "env" };
#define SETTINGS_HINT                                                                                                  \
    "settings are after, cores, memory, time, in, out, env, adds, kind, run and count; quote the word if it is the "    \
    "command"

/* The part of a list up to an unquoted comma, and what is left behind it; 0: there was none, so this is the last one. */
static int next_item(const text_reader *t, word *rest, word *item)
{
    size_t comma = find_plain(t, *rest, ',', 0);
    *item = (word){ rest->at, comma == SIZE_MAX ? rest->len : comma };
    if (comma == SIZE_MAX)
        return 0;
    *rest = (word){ rest->at + comma + 1, rest->len - comma - 1 };
    return 1;
}

static htc_status set_after(text_reader *t, word value)
{
    word item;
    int  more;
    do {
        more = next_item(t, &value, &item);
        word *kept = htc__flow_list_add(t->r->env, &t->after);
        if (!kept)
            return HTC_ENOMEM;
        *kept = item;
        if (item.len == 0)
            return refuse(t, HTC_ESCHEMA, "write after=NAME, or after=NAME,NAME", "after= has an empty name");
    } while (more);
    return HTC_OK;
}

static htc_status set_files(text_reader *t, word value, htc__flow_list *list, const char *what)
{
    word item;
    int  more;
    do {
        more = next_item(t, &value, &item);
        size_t         colon = find_plain(t, item, ':', 1);
        htc_flow_file *file = htc__flow_list_add(t->r->env, list);
        if (!file)
            return HTC_ENOMEM;
        *file = (htc_flow_file){ text_of(t, item), 0 };
        if (item.len == 0 || colon == 0)
            return refuse(t, HTC_ESCHEMA, "write NAME, or NAME:SIZE, with commas between them", "%s= has an empty name",
                          what);
        if (colon != SIZE_MAX &&
            htc__flow_size_parse((htc_bytes){ text_of(t, item) + colon + 1, item.len - colon - 1 }, &file->bytes) != 1)
            return refuse(t, HTC_ESCHEMA, "write NAME:SIZE, as in reads.fq:2G; quote a name that has a colon",
                          "%s names no size behind the colon", shown(t, item).text);
        text_of(t, item)[colon == SIZE_MAX ? item.len : colon] = '\0';
    } while (more);
    return HTC_OK;
}

static htc_status set_env(text_reader *t, word value)
{
    const char **entry = htc__flow_list_add(t->r->env, &t->env);
    if (!entry)
        return HTC_ENOMEM;
    *entry = text_of(t, value);
    size_t equals = find_plain(t, value, '=', 0);
    if (equals == SIZE_MAX || equals == 0)
        return refuse(t, HTC_ESCHEMA, "write env=NAME=value", "env=%s is no variable", text_of(t, value));
    return HTC_OK;
}

/* When it is known what the task is. */
static htc_status check_adds(text_reader *t, const htc_flow_task *task)
{
    if (!task->adds || htc__flow_adds_is(task->builtin, text_of(t, t->adds)))
        return HTC_OK;
    return refuse(t, HTC_ESCHEMA,
                  task->builtin == HTC_FLOW_CALL ?
                      "write adds=output: what the function appends to its output is then tasks, written as here" :
                      "write adds=stdout: what the command prints is then tasks, written as here",
                  "adds=%.60s is not %s", text_of(t, t->adds), htc__flow_adds_word(task->builtin));
}

static htc_status set_number(text_reader *t, uint32_t which, word value, htc_flow_task *task)
{
    static const char *const hints[SETTINGS] = {
        [CORES] = "write a whole number, as in cores=4",
        [COPIES] = "write a whole number, as in count=100",
        [MEMORY] = "write bytes, or a number with K, M, G or T, as in memory=2G",
        [TIME] = "write seconds, or a number with ms, s, m, h or d, as in time=10m",
        [RUN] = "write seconds, or a number with ms, s, m, h or d, as in run=2.5s"
    };
    uint64_t  number = 0;
    htc_bytes text = bytes_of(t, value);
    int       ok = which == MEMORY                 ? htc__flow_size_parse(text, &number)
                   : which == TIME || which == RUN ? htc__flow_time_parse(text, &number)
                                                   : htc__unsigned_parse(text, &number);
    uint64_t  max = which == CORES ? UINT32_MAX : which == COPIES ? HTC_FLOW_TOTAL_MAX : INT64_MAX;
    if (ok == 1 && number > max)
        ok = -1;
    if (ok == 1 && number == 0 && which != RUN)
        return refuse(t, HTC_ESCHEMA, "leave it out to have the default", "%s=%s is not above 0", setting_names[which],
                      text_of(t, value));
    if (ok != 1)
        return refuse(t, HTC_ESCHEMA, hints[which],
                      ok == 0 ? "%s=%.60s is no number of these" : "%s=%.60s is too large", setting_names[which],
                      text_of(t, value));
    switch (which) {
    case CORES:
        task->cores = (uint32_t)number;
        break;
    case COPIES:
        task->count = number;
        break;
    case MEMORY:
        task->memory = number;
        break;
    case TIME:
        task->wall = number;
        break;
    default:
        task->run = number;
        break;
    }
    return HTC_OK;
}

static htc_status set(text_reader *t, uint32_t which, word value, htc_flow_task *task)
{
    if (t->given & 1u << which && which != AFTER && which < IN)
        return refuse(t, HTC_ESCHEMA, "leave one of them", "%s= is given twice", setting_names[which]);
    t->given |= 1u << which;
    switch (which) {
    case AFTER:
        return set_after(t, value);
    case KIND:
        task->kind = text_of(t, value);
        return HTC_OK;
    case ADDS:
        t->adds = value;
        task->adds = 1;
        return HTC_OK;
    case IN:
        return set_files(t, value, &t->in, "in");
    case OUT:
        return set_files(t, value, &t->out, "out");
    case ENV:
        return set_env(t, value);
    default:
        return set_number(t, which, value, task);
    }
}

/* Settings and variables from word *at on; *at is then the first word of the command. */
static htc_status read_settings(text_reader *t, size_t *at, htc_flow_task *task)
{
    for (htc_status status; *at < t->words.n; ++*at) {
        word      w = *word_at(t, *at);
        size_t    equals = find_plain(t, w, '=', 0);
        word      key = { w.at, equals == SIZE_MAX ? 0 : equals };
        htc_bytes name = bytes_of(t, key);
        uint32_t  which = 0;
        if (!is_all_plain(t, key) || !is_key(name))
            return HTC_OK;
        while (which < SETTINGS && !htc_bytes_equal(name, htc_bytes_of(setting_names[which])))
            which++;
        if (which < SETTINGS)
            status = set(t, which, (word){ w.at + equals + 1, w.len - equals - 1 }, task);
        else if (is_variable(name))
            status = set_env(t, w);
        else
            status = refuse(t, HTC_ESCHEMA, SETTINGS_HINT, "there is no setting %s; env=%.40s sets a variable",
                            shown(t, key).text, text_of(t, w));
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

/* @call OBJECT FUNCTION ARGUMENT */
static htc_status read_call(text_reader *t, size_t at, htc_flow_task *task)
{
    size_t values = t->words.n - at - 1;
    if (values < 2 || values > 3)
        return refuse(t, HTC_ESCHEMA,
                      "write @call ./object.so function, and an argument if it takes one; quote one that has blanks",
                      "@call takes two or three words");
    task->builtin = HTC_FLOW_CALL;
    task->object = text_of(t, *word_at(t, at + 1));
    task->function = text_of(t, *word_at(t, at + 2));
    task->argument = values == 3 ? text_of(t, *word_at(t, at + 3)) : NULL;
    return HTC_OK;
}

static htc_status read_builtin(text_reader *t, size_t at, htc_flow_task *task)
{
    word   w = *word_at(t, at), name = { w.at + 1, w.len - 1 };
    if (htc_bytes_equal(bytes_of(t, name), htc_bytes_of("call")))
        return read_call(t, at, task);
    int    builtin = htc__flow_builtin_of(bytes_of(t, name)), ok = 1;
    size_t values = t->words.n - at - 1, wanted = builtin == HTC_FLOW_NOOP || builtin == HTC_FLOW_INTAKE ? 0 : 1;
    if (builtin < 0)
        return refuse(t, HTC_ESCHEMA,
                      "builtins are @noop, @sleep, @spin, @read, @write and @intake, and @call calls a function; quote the word "
                      "if it is a program",
                      "there is no builtin %s", shown(t, w).text);
    task->builtin = (uint32_t)builtin;
    if (values != wanted)
        return refuse(t, HTC_ESCHEMA, "write @noop, @intake, @sleep 2s, @spin 10ms, @read 1M or @write 1M", "%s takes %s",
                      text_of(t, w), wanted ? "one word" : "no word");
    if (wanted) {
        htc_bytes text = bytes_of(t, *word_at(t, at + 1));
        ok = htc__flow_is_size(task->builtin) ? htc__flow_size_parse(text, &task->amount)
                                              : htc__flow_time_parse(text, &task->amount);
    }
    if (ok != 1)
        return refuse(t, HTC_ESCHEMA, "write a time as 2.5s or 10ms, a size as 1M", "%s is no %s that %s can take",
                      shown(t, *word_at(t, at + 1)).text, htc__flow_is_size(task->builtin) ? "size" : "time",
                      text_of(t, w));
    return HTC_OK;
}

static htc_status read_command(text_reader *t, size_t at, htc_flow_task *task)
{
    if (at == t->words.n)
        return refuse(t, HTC_ESCHEMA, "write the command behind it; @noop does nothing", "the line has no command");
    word w = *word_at(t, at);
    if (find_plain(t, (word){ w.at, w.len ? 1 : 0 }, '@', 0) == 0)
        return read_builtin(t, at, task);
    if (w.len == 0)
        return refuse(t, HTC_ESCHEMA, "write the command", "the program has an empty name");
    task->executable = text_of(t, w);
    for (size_t i = at + 1; i < t->words.n; i++) {
        const char **arg = htc__flow_list_add(t->r->env, &t->args);
        if (!arg)
            return HTC_ENOMEM;
        *arg = text_of(t, *word_at(t, i));
    }
    return HTC_OK;
}

static htc_status put_after(text_reader *t, uint32_t child)
{
    for (size_t i = 0; i < t->after.n; i++) {
        word   item = ((word *)t->after.items)[i];
        size_t colon = find_plain(t, item, ':', 1);
        int    rule = HTC_FLOW_OK;
        if (colon != SIZE_MAX) {
            rule = htc__flow_rule_of((htc_bytes){ text_of(t, item) + colon + 1, item.len - colon - 1 });
            if (rule < 0)
                return refuse(t, HTC_ESCHEMA, "write ok, any or failed behind the colon; quote a name that has a colon",
                              "%s names no rule", shown(t, item).text);
            item.len = colon;
        }
        htc_status status =
            htc__flow_put_after(t->r, child, bytes_of(t, item), (uint32_t)rule, t->first_line, NULL, 0, 0);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status read_task(text_reader *t)
{
    htc_flow_task task = HTC_FLOW_TASK_INIT;
    word          first = *word_at(t, 0);
    size_t        at = 0;
    uint32_t      id;
    char          number[16];
    snprintf(number, sizeof number, "%u", t->first_line);
    task.name = number;
    if (find_plain(t, first, ':', 1) == first.len - 1 && first.len) {
        if (first.len == 1)
            return refuse(t, HTC_ESCHEMA, "write NAME: COMMAND, or the command alone",
                          "there is no name in front of the colon");
        text_of(t, first)[first.len - 1] = '\0';
        task.name = text_of(t, first);
        at = 1;
    } else if (t->words.n > 1 && word_at(t, 1)->len == 1 && find_plain(t, *word_at(t, 1), ':', 0) == 0) {
        return refuse(t, HTC_ESCHEMA, "write NAME: COMMAND; quote the colon if it is a word of the command",
                      "a blank stands between the name and its colon");
    }
    htc_status status = read_settings(t, &at, &task);
    if (status == HTC_OK)
        status = read_command(t, at, &task);
    if (status == HTC_OK)
        status = check_adds(t, &task);
    if (status != HTC_OK)
        return status;
    task.args = t->args.items;
    task.n_args = t->args.n;
    task.env = t->env.items;
    task.n_env = t->env.n;
    task.in = t->in.items;
    task.n_in = t->in.n;
    task.out = t->out.items;
    task.n_out = t->out.n;
    status = htc__flow_put(t->r, &task, t->first_line, NULL, &id);
    return status == HTC_OK ? put_after(t, id) : status;
}

static htc_status read_lines(text_reader *t)
{
    const char *zero = t->end > t->p ? memchr(t->p, 0, (size_t)(t->end - t->p)) : NULL;
    if (zero)
        return htc__flow_refuse(t->r, HTC_ESCHEMA, 0, "", "flows are text: is it the right file?",
                                "there is a zero byte");
    while (t->p < t->end) {
        htc_status status = read_words(t);
        if (status == HTC_OK && t->words.n)
            status = read_task(t);
        if (status != HTC_OK)
            return status;
        if (t->p < t->end && *t->p == '\r')
            t->p++;
        if (t->p < t->end) {
            t->p++;
            next_line(t);
        }
    }
    return HTC_OK;
}

htc_status htc__flow_read_text(htc__flow_reader *r)
{
    const htc_env *env = r->env;
    text_reader    t = { .r = r,
                         .p = r->bytes.data,
                         .line = 1,
                         .words = { .item = sizeof(word) },
                         .in = { .item = sizeof(htc_flow_file) },
                         .out = { .item = sizeof(htc_flow_file) },
                         .env = { .item = sizeof(char *) },
                         .args = { .item = sizeof(char *) },
                         .after = { .item = sizeof(word) } };
    t.end = r->bytes.len ? t.p + r->bytes.len : t.p;
    t.line_begin = t.p;
    htc_buf_init(&t.text, env, LINE_MAX_BYTES);
    htc_buf_init(&t.mask, env, LINE_MAX_BYTES);
    htc_status status = read_lines(&t);
    htc_buf_free(&t.text);
    htc_buf_free(&t.mask);
    htc__flow_list *lists[] = { &t.words, &t.in, &t.out, &t.env, &t.args, &t.after };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        htc__flow_list_free(env, lists[i]);
    return status;
}
