#include "staging.h"

#include <errno.h>
#include <fcntl.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JSDL  "http://schemas.ggf.org/jsdl/2005/11/jsdl"
#define POSIX "http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
#define OWN   "urn:htcsched:jsdl"
#define SWEEP "http://schemas.ogf.org/jsdl/2009/03/sweep"
/* Where a task finds programs: its PATH. */
static const char *const system_path[] = { "/usr/local/bin", "/usr/bin", "/bin" };

void staging_begin(cli *c, staging *s, uint32_t upload)
{
    *s = (staging){ .upload = upload };
    progress_begin(&s->p, c);
}

void staging_end(staging *s)
{
    progress_end(&s->p);
    for (size_t i = 0; i < s->n_words; i++)
        free(s->words[i]);
    s->n_words = s->count = 0;
}

static const char *keep(staging *s, char *word)
{
    s->words[s->n_words++] = word;
    return word;
}

/* The URI that stands for a local file. */
static htc_status uri_of(cli *c, staging *s, const char *path, char **uri)
{
    if (!s->upload) {
        char *real = realpath(path, NULL);
        if (!real || access(real, R_OK) != 0) {
            int why = errno;
            free(real);
            return cli_error(c, HTC_EINPUT, path, "check the name and its permissions", "cannot read the input: %s",
                             strerror(why));
        }
        *uri = must_print("file:%s", real);
        free(real);
        return HTC_OK;
    }
    char       hex[65];
    htc_status status = api_upload(c, path, hex, &s->p);
    if (status == HTC_OK)
        *uri = must_print("htc:%s", hex);
    return status;
}

static int runs(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static htc_status add(cli *c, staging *s, const char *name, const char *path, uint32_t flags)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->stage[i].name, name) == 0)
            return cli_error(c, HTC_EUSAGE, name, "name it otherwise: --input NAME=FILE", "two inputs with one name");
    if (s->count == STAGES_MAX)
        return cli_error(c, HTC_ETOOBIG, path, "pack them into an archive", "more than %d inputs", STAGES_MAX);
    if (!path_stays(name))
        return cli_error(c, HTC_EPATH, name, "use a relative name without ..",
                         "the input's name leaves the task's directory");
    char      *uri;
    htc_status status = uri_of(c, s, path, &uri);
    if (status != HTC_OK)
        return status;
    if (runs(path))
        flags |= HTC_STAGE_EXECUTABLE; /* as it is here, so it is there */
    s->stage[s->count++] = (htc_stage){ keep(s, must_dup(name)), keep(s, uri), HTC_STAGE_OVERWRITE | flags };
    return HTC_OK;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

htc_status staging_input(cli *c, staging *s, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return add(c, s, last_part(word), word, 0);
    char      *name = must(strndup(word, (size_t)(equals - word)));
    htc_status status = add(c, s, name, equals + 1, 0);
    free(name);
    return status;
}

/* A word of the first line; 0: there is none. */
static size_t next_word(const char **at, const char **word)
{
    *word = *at + strspn(*at, " \t");
    size_t n = strcspn(*word, " \t\n");
    *at = *word + n;
    return n;
}

static int is_in_system(const char *name)
{
    int found = 0;
    for (size_t i = 0; i < sizeof system_path / sizeof system_path[0] && !found; i++) {
        char *full = path_join(system_path[i], name);
        found = runs(full);
        free(full);
    }
    return found;
}

/* What its first line asks for is there: else each of its tasks would find out. */
static htc_status check_interpreter(cli *c, const char *path)
{
    char        line[256] = "", name[256];
    const char *at = line + 2, *word;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t     got = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    if (got < 2 || line[0] != '#' || line[1] != '!')
        return HTC_OK;
    char *end = strchr(line, '\n');
    if (end && end[-1] == '\r')
        return cli_error(c, HTC_ENOEXEC, path, "sed -i 's/\\r$//' FILE mends it", "its lines end with CR LF: no interpreter has a name that ends with CR");
    if (end)
        *end = '\0';
    size_t n = next_word(&at, &word);
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (n && !runs(name))
        return cli_error(c, HTC_ENOEXEC, path, "install it, or correct the first line", "its interpreter %.200s is not there, or cannot be executed", name);
    n = strcmp(name, "/usr/bin/env") == 0 ? next_word(&at, &word) : 0;
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (n && name[0] != '-' && !strchr(name, '=') && !strchr(name, '/') && !is_in_system(name))
        return cli_error(c, HTC_ENOEXEC, path, "tasks look in /usr/local/bin, /usr/bin and /bin; name it with its path", "its interpreter %.200s is not there", name);
    return HTC_OK;
}

static int on_path(const char *path, const char *const *dirs, size_t n, const char *word, char **found)
{
    for (size_t i = 0; i < n; i++) {
        char *full = path_join(dirs[i], word);
        if (runs(full)) {
            *found = full;
            return 1;
        }
        free(full);
    }
    /* The caller's own PATH, for programs that have to be staged in. */
    for (const char *p = path; p && *p;) {
        size_t len = strcspn(p, ":");
        char  *full = must_print("%.*s/%s", (int)len, p, word);
        if (len && runs(full)) {
            *found = full;
            return 1;
        }
        free(full);
        p += len + (p[len] == ':');
    }
    return 0;
}

htc_status staging_executable(cli *c, staging *s, const char **word)
{
    const char *w = *word;
    char       *found = NULL;
    struct stat st;
    if (strchr(w, '{')) /* known only task by task: the agent says so if it is missing */
        return HTC_OK;
    if (w[0] == '/') {
        if (!runs(w))
            return cli_error(c, HTC_ENOEXEC, w, "check its name and that it is executable", "no such program");
        return check_interpreter(c, w);
    }
    int local = stat(w, &st) == 0 && S_ISREG(st.st_mode);
    if (!strchr(w, '/') && !(local && runs(w))) {
        if (on_path(NULL, system_path, sizeof system_path / sizeof system_path[0], w, &found)) {
            free(found);
            return HTC_OK;
        }
        if (!local && on_path(getenv("PATH"), NULL, 0, w, &found)) {
            keep(s, found);
            w = found;
            local = 1;
        }
    }
    if (!local)
        return cli_error(c, HTC_ENOEXEC, w,
                         strchr(w, ' ') ? "a command in one word? Write its words apart, or sh -c '...'"
                                        : "check its name: it is looked for here and on PATH",
                         "no such program");
    if (!runs(w))
        return cli_error(c, HTC_ENOEXEC, w, "make it executable with chmod +x", "the program is not executable");
    htc_status status = check_interpreter(c, w);
    if (status == HTC_OK)
        status = add(c, s, last_part(w), w, HTC_STAGE_EXECUTABLE);
    if (status == HTC_OK)
        *word = keep(s, must_print("./%s", last_part(w)));
    return status;
}

static int is(const xmlNode *n, const char *ns, const char *name)
{
    return n->type == XML_ELEMENT_NODE && n->ns && strcmp((const char *)n->ns->href, ns) == 0 &&
           strcmp((const char *)n->name, name) == 0;
}

/* The next element in document order. */
static xmlNode *after(xmlNode *n, const xmlNode *root)
{
    if (n->children)
        return n->children;
    while (n != root && !n->next)
        n = n->parent;
    return n == root ? NULL : n->next;
}

static char *content_of(xmlNode *n)
{
    xmlChar *raw = xmlNodeGetContent(n);
    char    *s = must_dup(raw ? (const char *)raw : "");
    xmlFree(raw);
    char *start = s + strspn(s, " \t\r\n"), *end = start + strlen(start);
    while (end > start && strchr(" \t\r\n", end[-1]))
        *--end = '\0';
    memmove(s, start, strlen(start) + 1);
    return s;
}

/* file:NAME, file:/NAME and file:///NAME, relative to base. Gives the path; NULL if it is no file: URI. */
static char *file_of(const char *uri, const char *base)
{
    if (strncmp(uri, "file:", 5) != 0)
        return NULL;
    const char *name = uri + 5;
    if (strncmp(name, "//localhost/", 12) == 0)
        name += 11;
    else if (strncmp(name, "///", 3) == 0)
        name += 2;
    return path_join(base, name);
}

/* JSDL has no word for it: an element of our own namespace says that the staged file may be run. */
static void mark_executable(xmlNode *stage)
{
    for (xmlNode *n = stage->children; n; n = n->next)
        if (is(n, OWN, "Executable"))
            return;
    xmlNs *own = xmlNewNs(stage, (const xmlChar *)OWN, (const xmlChar *)"htc");
    xmlNewTextChild(stage, own, (const xmlChar *)"Executable", (const xmlChar *)"true");
}

static htc_status replace_uri(cli *c, staging *s, const char *base, xmlNode *n)
{
    char      *uri = content_of(n), *path = file_of(uri, base), *renamed = NULL;
    htc_status status = HTC_OK;
    if (path) {
        status = uri_of(c, s, path, &renamed);
        if (status == HTC_OK) {
            xmlNodeSetContent(n, (const xmlChar *)renamed);
            if (is(n, JSDL, "URI") && runs(path))
                mark_executable(n->parent->parent);
        } else
            c->error.line = (uint32_t)xmlGetLineNo(n);
    }
    free(renamed);
    free(path);
    free(uri);
    return status;
}

/* Values of a sweep go into a URI if one of the assignment's expressions names one. */
static int feeds_a_uri(xmlNode *value)
{
    xmlNode *assignment = value->parent ? value->parent->parent : NULL;
    if (!assignment || !is(assignment, SWEEP, "Assignment"))
        return 0;
    for (xmlNode *n = assignment->children; n; n = after(n, assignment))
        if (is(n, SWEEP, "Match")) {
            char *match = content_of(n);
            int   yes = strstr(match, "URI") != NULL;
            free(match);
            if (yes)
                return 1;
        }
    return 0;
}

static htc_status stage_executable_of(cli *c, staging *s, const char *base, xmlDoc *doc, xmlNode *executable,
                                      xmlNode *description)
{
    xmlNode   *root = xmlDocGetRootElement(doc);
    char      *name = content_of(executable), *path = path_join(base, name), *uri = NULL, *found = NULL;
    htc_status status = HTC_OK;
    int        staged = name[0] == '\0', swept = 0, checked = 1;
    for (xmlNode *n = root; n; n = after(n, root)) {
        char *content = is(n, JSDL, "FileName") || is(n, SWEEP, "Match") ? content_of(n) : NULL;
        if (content && is(n, JSDL, "FileName")) {
            if (strcmp(content, strncmp(name, "./", 2) == 0 ? name + 2 : name) == 0) {
                staged = 1;
                mark_executable(n->parent);
            }
        } else if (content)
            swept |= strstr(content, "Executable") != NULL;
        free(content);
    }
    if (!staged && !swept) {
        const char *relative = strncmp(name, "./", 2) == 0 ? name + 2 : name;
        if (name[0] == '/')
            status = runs(name) ? HTC_OK : HTC_ENOEXEC;
        else if (runs(path) && path_stays(relative)) {
            status = check_interpreter(c, path);
            checked = status == HTC_OK;
            if (checked)
                status = uri_of(c, s, path, &uri);
            if (status == HTC_OK) {
                xmlNode *stage = xmlNewChild(description, description->ns, (const xmlChar *)"DataStaging", NULL);
                xmlNewTextChild(stage, description->ns, (const xmlChar *)"FileName", (const xmlChar *)relative);
                xmlNewTextChild(stage, description->ns, (const xmlChar *)"CreationFlag", (const xmlChar *)"overwrite");
                xmlNode *source = xmlNewChild(stage, description->ns, (const xmlChar *)"Source", NULL);
                xmlNewTextChild(source, description->ns, (const xmlChar *)"URI", (const xmlChar *)uri);
                mark_executable(stage);
                char *here = must_print("./%s", relative);
                xmlNodeSetContent(executable, (const xmlChar *)here);
                free(here);
            }
        } else if (strchr(name, '/') ||
                   !on_path(NULL, system_path, sizeof system_path / sizeof system_path[0], name, &found))
            status = HTC_ENOEXEC;
        if (status == HTC_ENOEXEC && checked) {
            cli_error(c, status, name, "check its name and that it is executable", "no such program");
            c->error.line = (uint32_t)xmlGetLineNo(executable);
        }
    }
    free(found);
    free(uri);
    free(path);
    free(name);
    return status;
}

htc_status staging_document(cli *c, staging *s, const char *base, htc_bytes xml, char **out, size_t *out_len)
{
    xmlDoc *doc = xmlReadMemory(xml.data, (int)xml.len, NULL, NULL,
                                XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_BIG_LINES);
    if (!doc)
        return cli_error(c, HTC_EXML, "", "", "%s", htc_strerror(HTC_EXML));
    xmlNode   *root = xmlDocGetRootElement(doc), *executable = NULL, *description = NULL;
    htc_status status = HTC_OK;
    for (xmlNode *n = root; n && status == HTC_OK; n = after(n, root)) {
        if (is(n, JSDL, "JobDescription"))
            description = n;
        else if (is(n, POSIX, "Executable"))
            executable = n;
        else if (is(n, JSDL, "URI") && n->parent && is(n->parent, JSDL, "Source"))
            status = replace_uri(c, s, base, n);
        else if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, "Value") == 0 && feeds_a_uri(n))
            status = replace_uri(c, s, base, n);
    }
    if (status == HTC_OK && executable && description)
        status = stage_executable_of(c, s, base, doc, executable, description);
    if (status == HTC_OK) {
        xmlChar *text;
        int      len = 0;
        xmlDocDumpMemory(doc, &text, &len);
        *out = must(strndup(text ? (const char *)text : "", (size_t)len));
        *out_len = strlen(*out);
        xmlFree(text);
    }
    xmlFreeDoc(doc);
    return status;
}
