#include "roles/batch/site_credentials.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct entry {
    const char *system, *name, *option; /* option: of the command, as it stands in a script */
    size_t      at, room;
} entry;

#define AT(field) offsetof(site_credentials, field), sizeof((site_credentials *)0)->field
static const entry entries[] = {
    { "ssh", "user", NULL, AT(user) },
    { "ssh", "identity", NULL, AT(identity) },
    { "slurm", "account", "#SBATCH --account=", AT(account) },
    { "slurm", "qos", "#SBATCH --qos=", AT(qos) },
    { "sge", "project", "#$ -P ", AT(project) },
    { "sge", "account", "#$ -A ", AT(account) },
};
#define ENTRIES (sizeof entries / sizeof *entries)

static const entry *find(const char *system, const char *name, size_t len)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(entries[i].system, system) == 0 && strlen(entries[i].name) == len && memcmp(entries[i].name, name, len) == 0)
            return &entries[i];
    return NULL;
}

static htc_status refuse(htc_error *e, uint32_t line, const char *why, const char *hint)
{
    htc_status status = htc__error(e, HTC_ECONFIG, "line %u of the credentials %s", line, why);
    if (e)
        snprintf(e->hint, sizeof e->hint, "%s", hint);
    return status;
}

static size_t trim(const char **p, size_t n)
{
    while (n && strchr(" \t\r", **p)) {
        ++*p;
        n--;
    }
    while (n && strchr(" \t\r", (*p)[n - 1]))
        n--;
    return n;
}

/* A path, or a word that means nothing more to a batch system or to ssh. */
static int is_fine(const entry *e, const char *value, size_t n)
{
    if (n == 0 || n >= e->room || (e->at == offsetof(site_credentials, identity) && value[0] != '/'))
        return 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)value[i];
        int           word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_.@+-", c) != NULL;
        if (c < ' ' || c == 127 || (value[0] == '/' ? c == '"' || c == '%' || c == '\\' : !word || value[0] == '-'))
            return 0;
    }
    return value[0] != '/' || e->at == offsetof(site_credentials, identity);
}

static htc_status one_line(const char *p, size_t n, uint32_t line, const char *system, site_credentials *out, htc_error *error)
{
    const char *equals = memchr(p, '=', n), *value = equals ? equals + 1 : NULL;
    size_t      len = equals ? (size_t)(equals - p) : 0, rest = equals ? n - len - 1 : 0;
    if (!equals)
        return refuse(error, line, "is not name = value", "man htc.ini has the names");
    len = trim(&p, len);
    rest = trim(&value, rest);
    const entry *e = find(system, p, len);
    if (!e && len == 4 && memcmp(p, "user", 4) == 0 && strcmp(system, "emu") != 0)
        return refuse(error, line, "names a user", "a batch system runs jobs as whoever submits them: start the site's broker as that user (htc-agent --join)");
    if (!e)
        return refuse(error, line, "has a name that means nothing to this adapter", "ssh: user, identity; slurm: account, qos; sge: project, account");
    if (!is_fine(e, value, rest))
        return refuse(error, line, "has a value that cannot be one", "letters, digits, _ . @ + and -; an identity is a path from /");
    char *to = (char *)out + e->at;
    if (to[0])
        return refuse(error, line, "says something a second time", "leave one of them");
    memcpy(to, value, rest);
    return HTC_OK;
}

htc_status htc__site_credentials_read(htc_bytes text, const char *system, site_credentials *out, htc_error *error)
{
    const char *p = text.data, *end = p + text.len;
    uint32_t    line = 0, said = 0;
    memset(out, 0, sizeof *out);
    if (text.len > SITE_CREDENTIALS_MAX || (text.len && memchr(p, 0, text.len)))
        return htc__error(error, HTC_ECONFIG, "the credentials are no text of at most %d bytes", SITE_CREDENTIALS_MAX);
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *word = p;
        size_t      n = (size_t)((stop ? stop : end) - p);
        line++;
        p += n + (stop != NULL);
        n = trim(&word, n);
        if (n == 0 || *word == '#')
            continue;
        said++;
        htc_status status = one_line(word, n, line, system, out, error);
        if (status != HTC_OK) {
            memset(out, 0, sizeof *out);
            return status;
        }
    }
    return said ? HTC_OK : htc__error(error, HTC_ECONFIG, "the credentials say nothing");
}

void htc__site_credentials_lines(const site_credentials *c, const char *system, htc_buf *out)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        const char *value = (const char *)c + entries[i].at;
        if (entries[i].option && strcmp(entries[i].system, system) == 0 && value[0])
            htc_put_text(out, "%s%s\n", entries[i].option, value);
    }
}

void htc__site_credentials_ssh(const site_credentials *c, htc_buf *out)
{
    if (c->user[0])
        htc_put_text(out, "User %s\n", c->user);
    if (c->identity[0])
        htc_put_text(out, "IdentityFile \"%s\"\nIdentitiesOnly yes\n", c->identity);
    htc_put_text(out, "Include ~/.ssh/config\nInclude /etc/ssh/ssh_config\n");
}
