/* A script's options for a batch system: lines, words, and what both systems have in common. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "work/script_private.h"

/* ---- what is told ---- */

htc_status htc__script_refuse(htc__script *s, htc_status status, const char *format, ...)
{
    char    text[300];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    htc__refuse(s->error, status, s->line, "", "%s: %s", s->said, text);
    if (s->error)
        strcpy(s->error->hint, "take the option out of the script, or give the options of htc submit");
    return status;
}

htc_status htc__script_tell(htc__script *s, const char *option, const char *value, const char *note)
{
    htc_script_wish w = { .size = sizeof w, .line = s->line, .said = s->said, .option = option, .value = value, .note = note };
    return s->wish(s->ctx, &w);
}

htc_status htc__script_warn(htc__script *s, const char *note)
{
    return htc__script_tell(s, NULL, "", note);
}

htc_status htc__script_mail_to(htc__script *s, const char *value)
{
    s->mail_to = 1;
    return htc__script_tell(s, "mail-to", value, NULL);
}

htc_status htc__script_option_do(htc__script *s, const htc__script_option *o, const char *value)
{
    switch ((htc__script_kind)o->kind) {
    case HTC__SCRIPT_TAKE:
        return htc__script_tell(s, o->means, value, NULL);
    case HTC__SCRIPT_FLAG:
        return htc__script_tell(s, o->means, "", NULL);
    case HTC__SCRIPT_QUIET:
        return HTC_OK;
    case HTC__SCRIPT_WARN:
        return htc__script_warn(s, o->means);
    case HTC__SCRIPT_REFUSE:
        return htc__script_refuse(s, HTC_EUNSUPPORTED, "%s", o->means);
    case HTC__SCRIPT_DO:
        break;
    }
    return o->fn(s, value);
}

/* ---- words ---- */

int htc__script_number(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 15 || text[n])
        return 0;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = *out * 10 + (uint64_t)(text[i] - '0');
    return 1;
}

int htc__script_size(const char *text, uint64_t unit, uint64_t thousand, uint64_t *out)
{
    static const char upper[] = "KMGT", lower[] = "kmgt";
    size_t            n = strspn(text, "0123456789");
    uint64_t          v = 0;
    if (n == 0 || n > 12)
        return 0;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    if (text[n]) {
        const char *large = strchr(upper, text[n]), *small = strchr(lower, text[n]);
        if ((!large && !small) || (text[n + 1] && strcmp(text + n + 1, "B") != 0))
            return 0;
        unit = 1;
        for (long power = large ? large - upper : small - lower; power >= 0; power--)
            unit *= large ? 1024 : thousand;
    }
    if (v && unit > (UINT64_C(1) << 60) / v)
        return 0;
    *out = v * unit;
    return 1;
}

const char *htc__script_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *htc__script_word(char **p, int *bad)
{
    char *at = *p + strspn(*p, " \t"), *word = at, *to = at, quote = 0;
    if (*at == '\0' || *at == '#') {
        *p = at;
        return NULL;
    }
    for (; *at && (quote || (*at != ' ' && *at != '\t')); at++) {
        if (*at == '\\' && at[1] && quote != '\'')
            *to++ = *++at;
        else if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? 0 : *at;
        else
            *to++ = *at;
    }
    *bad |= quote != 0;
    *p = *at ? at + 1 : at;
    *to = '\0';
    return word;
}

/* ---- lines ---- */

/* 1: the line has options, from *options on; of both systems. */
static uint32_t dialect_of(const char *line, size_t n, size_t *options)
{
    if (n >= 7 && memcmp(line, "#SBATCH", 7) == 0 && (n == 7 || line[7] == ' ' || line[7] == '\t')) {
        *options = 7;
        return HTC_SCRIPT_SLURM;
    }
    if (n >= 2 && memcmp(line, "#$", 2) == 0 && (n == 2 || line[2] == ' ' || line[2] == '\t')) {
        *options = 2;
        return HTC_SCRIPT_SGE;
    }
    return HTC_SCRIPT_NONE;
}

static int is_command(const char *line, size_t n)
{
    size_t at = 0;
    while (at < n && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at < n && line[at] != '#';
}

static htc_status read_line(htc__script *s, const char *line, size_t n, int commands)
{
    size_t   at = 0;
    uint32_t dialect = dialect_of(line, n, &at);
    char     words[HTC_SCRIPT_LINE_MAX + 1];
    if (dialect == HTC_SCRIPT_NONE || (dialect == HTC_SCRIPT_SLURM && commands))
        return HTC_OK; /* as sbatch does, which reads no further than the first command */
    snprintf(s->said, sizeof s->said, "%s", dialect == HTC_SCRIPT_SLURM ? "#SBATCH" : "#$");
    if (s->dialect != HTC_SCRIPT_NONE && s->dialect != dialect)
        return htc__script_refuse(s, HTC_EUSAGE, "the script has lines of Slurm and of Grid Engine, which may contradict each other");
    s->dialect = dialect;
    if (n > HTC_SCRIPT_LINE_MAX)
        return htc__script_refuse(s, HTC_ETOOBIG, "the line has more than %d bytes", HTC_SCRIPT_LINE_MAX);
    if (memchr(line, '\0', n))
        return htc__script_refuse(s, HTC_EUSAGE, "the line is no text");
    memcpy(words, line + at, n - at);
    words[n - at] = '\0';
    return dialect == HTC_SCRIPT_SLURM ? htc__script_slurm(s, words) : htc__script_sge(s, words);
}

htc_status htc_script_read(htc_bytes script, htc_status (*wish)(void *ctx, const htc_script_wish *wish), void *ctx, uint32_t *dialect,
                           htc_error *error)
{
    htc__script s = { .wish = wish, .ctx = ctx, .error = error };
    const char *p = script.data;
    int         commands = 0;
    htc_status  status = HTC_OK;
    if (!wish || (script.len && !script.data))
        return HTC_EINVAL;
    for (size_t at = 0; at < script.len && status == HTC_OK;) {
        const char *end = memchr(p + at, '\n', script.len - at);
        size_t      n = end ? (size_t)(end - (p + at)) : script.len - at;
        size_t      text = n && p[at + n - 1] == '\r' ? n - 1 : n;
        s.line++;
        commands |= is_command(p + at, text);
        status = read_line(&s, p + at, text, commands);
        at += n + 1;
    }
    if (status == HTC_OK)
        status = htc__script_finish(&s);
    if (dialect)
        *dialect = s.dialect;
    return status;
}
