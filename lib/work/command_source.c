/* Sources of values: what stands behind ":::", in files, and in ranges. */
#include <string.h>

#include "work/command_private.h"

int htc__source_begins(const char *word)
{
    return strcmp(word, ":::") == 0 || strcmp(word, ":::+") == 0 || strcmp(word, "::::") == 0 ||
           strcmp(word, "::::+") == 0;
}

/* Length of the UTF-8 character at p if XML 1.0 has it (no overlong form, surrogate or control character), else 0. */
static size_t xml_character(const unsigned char *p, size_t left)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    if (n == 1)
        return p[0] >= 0x20 || p[0] == '\t' || p[0] == '\n' || p[0] == '\r';
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || c == 0xfffe || c == 0xffff ? 0 : n;
}

int htc__xml_can_carry(htc_bytes text)
{
    const unsigned char *p = text.data;
    for (size_t at = 0; at < text.len;) {
        size_t n = xml_character(p + at, text.len - at);
        if (n == 0)
            return 0;
        at += n;
    }
    return 1;
}

static htc_status add_value(htc__source *s, htc_bytes text, htc_error *error)
{
    if (!htc__xml_can_carry(text))
        return htc__refuse(error, HTC_EUSAGE, 0, s->word, "value %zu of %s holds bytes that are no text: %s",
                           s->n_values + 1, htc__quote(htc_bytes_of(s->word)).text, htc__quote(text).text);
    htc_put_raw(&s->values, text);
    htc_put_u8(&s->values, 0);
    s->n_values++;
    s->count = s->n_values;
    return s->values.status;
}

/* Each line that is not empty; a line may end with CR LF. */
static htc_status add_lines(const htc_command *command, const char *path, htc__source *s, htc_error *error)
{
    htc_bytes content = { NULL, 0 };
    if (!command->read_file)
        return htc__refuse(error, HTC_EUSAGE, 0, path, "files of values cannot be read here: %s", path);
    htc_status status = command->read_file(command->ctx, path, &content);
    if (status != HTC_OK)
        return htc__refuse(error, HTC_EINPUT, 0, path, "cannot read %s: %s", path, htc_strerror(status));
    const char *p = content.data;
    size_t      line = 1;
    for (size_t at = 0; at < content.len; line++) {
        const char *end = memchr(p + at, '\n', content.len - at);
        size_t      n = end ? (size_t)(end - (p + at)) : content.len - at;
        size_t      text = n && p[at + n - 1] == '\r' ? n - 1 : n;
        if (text && !htc__xml_can_carry((htc_bytes){ p + at, text })) {
            status = htc__refuse(error, HTC_EINPUT, (uint32_t)line, path, "line %zu of %s holds bytes that are no text",
                                 line, path);
            return status;
        }
        status = text ? add_value(s, (htc_bytes){ p + at, text }, error) : HTC_OK;
        if (status != HTC_OK)
            return status;
        at += n + 1;
    }
    return s->n_values ? HTC_OK : htc__refuse(error, HTC_ESWEEP, 0, path, "%s has no lines", path);
}

/* a,b,c where a backslash takes the next character as it is. */
static htc_status add_list(const htc_env *env, const char *text, htc__source *s, htc_error *error)
{
    htc_buf    one;
    htc_status status = HTC_OK;
    htc_buf_init(&one, env, 0);
    for (const char *p = text; status == HTC_OK; p++) {
        if (*p == ',' || *p == '\0') {
            status = one.status != HTC_OK ? one.status : add_value(s, htc_buf_bytes(&one), error);
            htc_buf_clear(&one);
            if (*p == '\0')
                break;
        } else {
            if (*p == '\\' && p[1])
                p++;
            htc_put_u8(&one, (uint8_t)*p);
        }
    }
    htc_buf_free(&one);
    return status;
}

/* Digits of a number; *zeros: there are some in front that mean nothing but how many there are to be. */
static uint32_t digits_of(htc_bytes number, int *zeros)
{
    const char *p = number.data;
    size_t      sign = number.len && (*p == '-' || *p == '+');
    *zeros |= number.len > sign + 1 && p[sign] == '0';
    return (uint32_t)(number.len - sign);
}

/* 001:010, as a shell and seq -w have it: as many digits as the longer of both. */
static uint32_t width_of(const htc_bytes part[2])
{
    int      zeros = 0;
    uint32_t first = digits_of(part[0], &zeros), last = digits_of(part[1], &zeros), most = first > last ? first : last;
    return !zeros ? 0 : most < HTC__WIDTH_MAX ? most : HTC__WIDTH_MAX;
}

/* first:last[:step] of numbers; 0 if the text is something else. */
static int read_range(const char *text, htc__source *s)
{
    htc_bytes   part[3];
    size_t      n = 0;
    const char *p = text;
    for (; n < 3; n++) {
        size_t len = strcspn(p, ":");
        part[n] = (htc_bytes){ p, len };
        p += len;
        if (*p == '\0') {
            n++;
            break;
        }
        p++;
    }
    if (n < 2 || *p != '\0' || p[-1] == ':' || strpbrk(text, " \t\r\n"))
        return 0;
    s->step = 1;
    s->step_real = 1;
    if (htc__integer_parse(part[0], &s->start) == 1 && htc__integer_parse(part[1], &s->end) == 1 &&
        (n == 2 || htc__integer_parse(part[2], &s->step) == 1)) {
        s->kind = HTC__SOURCE_INTEGER;
        s->width = width_of(part);
        return 1;
    }
    if (!htc__double_parse(part[0], &s->start_real) || !htc__double_parse(part[1], &s->end_real) ||
        (n == 3 && !htc__double_parse(part[2], &s->step_real)))
        return 0;
    double sum = s->start_real + s->end_real + s->step_real;
    s->kind = HTC__SOURCE_DOUBLE;
    return sum - sum == 0; /* INF and NaN are words, not numbers to count with */
}

static htc_status count_range(htc__source *s, htc_error *error)
{
    int        is_integer = s->kind == HTC__SOURCE_INTEGER;
    htc_status status = HTC_OK;
    if (is_integer ? s->step == 0 : s->step_real == 0)
        return htc__refuse(error, HTC_ESWEEP, 0, s->word, "%s has step 0 and never ends", s->word);
    status = is_integer ? htc__integer_steps(s->start, s->end, s->step, &s->count)
                        : htc__double_steps(s->start_real, s->end_real, s->step_real, &s->count);
    if (status != HTC_OK)
        return htc__refuse(error, HTC_ETOOBIG, 0, s->word, "%s has more steps than can be counted", s->word);
    if (s->count == 0) {
        status = htc__refuse(error, HTC_ESWEEP, 0, s->word, "%s is empty", s->word);
        if (error)
            strcpy(error->hint, "to count down, give a negative step: 10:1:-1");
    }
    return status;
}

static int letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* NAME= at the beginning: the length of NAME, else 0. */
static size_t named(const char *word)
{
    size_t n = 0;
    while (letter(word[n]) || (n && ((word[n] >= '0' && word[n] <= '9') || word[n] == '-')))
        n++;
    return word[n] == '=' && n < 64 ? n : 0;
}

static htc_status read_named(const htc_env *env, const htc_command *command, const char *text, htc__source *s,
                             htc_error *error)
{
    if (*text == '@')
        return add_lines(command, text + 1, s, error);
    if (read_range(text, s))
        return count_range(s, error);
    s->kind = HTC__SOURCE_LIST;
    return add_list(env, text, s, error);
}

static htc_status new_source(const htc_env *env, htc__sources *out, const char *word, int lock_step,
                             htc__source **source, htc_error *error)
{
    if (out->n == HTC_SOURCES_MAX)
        return htc__refuse(error, HTC_EUSAGE, 0, word, "too many sources, more than %u", HTC_SOURCES_MAX);
    htc__source *s = &out->list[out->n++];
    s->kind = HTC__SOURCE_LIST;
    s->lock_step = (uint8_t)lock_step;
    s->word = word;
    htc_buf_init(&s->values, env, 0);
    htc_buf_init(&s->uses, env, 0);
    htc_buf_init(&s->also, env, HTC_XML_BYTES_MAX);
    *source = s;
    return HTC_OK;
}

static htc_status check_name(const htc__sources *out, const htc__source *s, htc_error *error)
{
    for (size_t i = 0; i < out->n; i++)
        if (&out->list[i] != s && s->name[0] && strcmp(out->list[i].name, s->name) == 0)
            return htc__refuse(error, HTC_EUSAGE, 0, s->word, "two sources are named %s", s->name);
    return HTC_OK;
}

/* ":::" and its words: one NAME=… word is a named source, any other words are a list. */
static htc_status read_words(const htc_env *env, const htc_command *command, size_t at, size_t end, int lock_step,
                             htc__sources *out, htc_error *error)
{
    const char *const *words = command->words;
    htc__source       *s = NULL;
    size_t             n = end - at == 1 ? named(words[at]) : 0;
    htc_status         status = new_source(env, out, words[at], lock_step, &s, error);
    if (status == HTC_OK && n) {
        memcpy(s->name, words[at], n);
        status = check_name(out, s, error);
        return status == HTC_OK ? read_named(env, command, words[at] + n + 1, s, error) : status;
    }
    for (; at < end && status == HTC_OK; at++)
        status = add_value(s, htc_bytes_of(words[at]), error);
    return status;
}

/* "::::" and its words: each a file, a source of its own. */
static htc_status read_files(const htc_env *env, const htc_command *command, size_t at, size_t end, int lock_step,
                             htc__sources *out, htc_error *error)
{
    htc_status status = HTC_OK;
    for (; at < end && status == HTC_OK; at++) {
        htc__source *s = NULL;
        status = new_source(env, out, command->words[at], lock_step, &s, error);
        if (status == HTC_OK)
            status = add_lines(command, command->words[at], s, error);
    }
    return status;
}

static htc_status read_pairs(const htc_env *env, const htc_command *command, htc__sources *out, htc_error *error)
{
    const char  *paths[2] = { command->pairs_a, command->pairs_b ? command->pairs_b : command->pairs_a };
    htc__source *s[2];
    if (!paths[0])
        return HTC_OK;
    for (int i = 0; i < 2; i++) {
        const char *path = paths[i] + (paths[i][0] == '@');
        htc_status  status = new_source(env, out, path, 0, &s[i], error);
        if (status == HTC_OK)
            status = add_lines(command, path, s[i], error);
        if (status != HTC_OK)
            return status;
        s[i]->name[0] = (char)('a' + i);
    }
    if (!command->pairs_unordered)
        return HTC_OK;
    if (!htc_bytes_equal(htc_buf_bytes(&s[0]->values), htc_buf_bytes(&s[1]->values)))
        return htc__refuse(error, HTC_EUSAGE, 0, paths[1],
                           "unordered pairs are made of one list, and %s is another than %s", paths[1], paths[0]);
    if (s[0]->n_values < 2 || s[0]->n_values > UINT32_MAX)
        return htc__refuse(error, HTC_ESWEEP, 0, paths[0], "unordered pairs need two lines or more in %s", paths[0]);
    htc__function f = { .kind = HTC__FUNCTION_PAIRS, .n_values = s[0]->n_values };
    s[0]->kind = HTC__SOURCE_PAIR_FIRST;
    s[1]->kind = HTC__SOURCE_PAIR_SECOND;
    s[1]->lock_step = 1;
    s[0]->count = s[1]->count = htc__function_count(&f);
    return HTC_OK;
}

static htc_status check_counts(const htc__sources *s, htc_error *error)
{
    size_t groups = 0;
    for (size_t i = 0; i < s->n; i++) {
        groups += !s->list[i].lock_step;
        if (s->list[i].lock_step && s->list[i].count != s->list[i - 1].count)
            return htc__refuse(error, HTC_ESWEEP, 0, s->list[i].word,
                               "%s has %llu value%s and goes in lock-step with %s, which has %llu", s->list[i].word,
                               (unsigned long long)s->list[i].count, htc__plural(s->list[i].count), s->list[i - 1].word,
                               (unsigned long long)s->list[i - 1].count);
    }
    if (groups > HTC_SWEEP_DEPTH_MAX)
        return htc__refuse(error, HTC_EUSAGE, 0, ":::", "more than %u sources are combined", HTC_SWEEP_DEPTH_MAX);
    return HTC_OK;
}

htc_status htc__sources_read(const htc_env *env, const htc_command *command, size_t first, htc__sources *out,
                             htc_error *error)
{
    htc_status status = read_pairs(env, command, out, error);
    for (size_t at = first; at < command->n_words && status == HTC_OK;) {
        const char *mark = command->words[at];
        int         lock_step = mark[strlen(mark) - 1] == '+';
        size_t      end = at + 1;
        while (end < command->n_words && !htc__source_begins(command->words[end]))
            end++;
        if (end == at + 1)
            return htc__refuse(error, HTC_EUSAGE, 0, mark, "no values behind %s", mark);
        if (lock_step && out->n == 0)
            return htc__refuse(error, HTC_EUSAGE, 0, mark, "%s has no source before it to go along with", mark);
        status = (mark[3] == ':' ? read_files : read_words)(env, command, at + 1, end, lock_step, out, error);
        at = end;
    }
    return status == HTC_OK ? check_counts(out, error) : status;
}

void htc__sources_free(htc__sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        htc_buf_free(&s->list[i].values);
        htc_buf_free(&s->list[i].uses);
        htc_buf_free(&s->list[i].also);
    }
}
