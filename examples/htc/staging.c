#include "staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    s->n_words = s->count = s->n_out = 0;
}

static const char *keep(staging *s, char *word)
{
    s->words[s->n_words++] = word;
    return word;
}

static int is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The URI that stands for a local file, or a directory. */
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
        *uri = must_print("file:%s%s", real, is_dir(path) ? "/" : "");
        free(real);
        return HTC_OK;
    }
    char       hex[65];
    htc_status status = (is_dir(path) ? api_upload_tree : api_upload)(c, path, hex, &s->p);
    if (status == HTC_OK)
        *uri = must_print("htc:%s%s", hex, is_dir(path) ? "/" : ""); /* a slash behind it: a directory */
    return status;
}

static int runs(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Names that the values of a sweep go into: which files they are is known when these are. */
static int has_place(const char *word)
{
    for (const char *p = word; (p = strchr(p, '{')); p++) {
        size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
        if (p[1 + n] == '}' && (p == word || (p[-1] != '$' && p[-1] != '\\')))
            return 1;
    }
    return 0;
}

/* What is elsewhere: the agent fetches it. */
static int is_url(const char *path)
{
    return strncmp(path, "http://", 7) == 0 || strncmp(path, "https://", 8) == 0 || strncmp(path, "ftp://", 6) == 0;
}

/* Of another kind: s3://..., or http:// misspelt. */
static int is_strange_url(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n && strncmp(path + n, "://", 3) == 0 && !is_url(path) && access(path, F_OK) != 0;
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
    if (is_strange_url(path))
        return cli_error(c, HTC_EUNSUPPORTED, path, "http://, https:// and ftp:// in small letters, or a file", "a URL of this kind is not read");
    char      *uri = is_url(path) ? must_dup(path) : has_place(path) ? must_print("file:%s", path) : NULL;
    htc_status status = uri ? HTC_OK : uri_of(c, s, path, &uri);
    if (status != HTC_OK)
        return status;
    s->each |= has_place(path) && !is_url(path);
    if (!is_url(path) && runs(path))
        flags |= HTC_STAGE_EXECUTABLE; /* as it is here, so it is there */
    s->stage[s->count++] = (htc_stage){ keep(s, must_dup(name)), keep(s, uri), HTC_STAGE_OVERWRITE | flags };
    return HTC_OK;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* dir/ is dir. Gives. */
static char *without_slashes(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return must(strndup(path, n));
}

/* Is it in a directory that is an input? */
static int is_in_input(const staging *s, const char *word)
{
    word += strncmp(word, "./", 2) == 0 ? 2 : 0;
    for (size_t i = 0; i < s->count; i++) {
        const char *name = s->stage[i].name, *uri = s->stage[i].uri;
        size_t      n = strlen(name);
        if (uri[strlen(uri) - 1] == '/' && strncmp(word, name, n) == 0 && word[n] == '/')
            return 1;
    }
    return 0;
}

/* NAME of https://host/dir/NAME?words. */
static htc_status add_url(cli *c, staging *s, const char *url)
{
    const char *path = strstr(url, "://") + 3;
    size_t      end = strcspn(path, "?#"), from = end;
    while (from > 0 && path[from - 1] != '/')
        from--;
    char      *name = must(strndup(path + from, end - from));
    htc_status status = from == 0 || !name[0] ? cli_error(c, HTC_EUSAGE, "--input", "name it: --input NAME=URL", "the URL has no file's name at its end")
                                              : add(c, s, name, url, 0);
    free(name);
    return status;
}

htc_status staging_input(cli *c, staging *s, const char *word)
{
    const char *equals = strchr(word, '=');
    if (is_url(word))
        return add_url(c, s, word);
    if (!equals || equals == word) {
        char      *plain = without_slashes(word);
        htc_status added = add(c, s, last_part(plain), word, 0);
        free(plain);
        return added;
    }
    char      *name = must(strndup(word, (size_t)(equals - word)));
    htc_status status = add(c, s, name, equals + 1, 0);
    free(name);
    return status;
}

htc_status staging_target(cli *c, staging *s, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || !is_url(equals + 1)) /* not shown: there may be a password in it */
        return cli_error(c, HTC_EUSAGE, "--target", "write --target NAME=URL; a URL begins with http://, https:// or ftp://", "an output and where it goes are needed");
    if (s->n_out == STAGES_MAX)
        return cli_error(c, HTC_ETOOBIG, "--target", "pack them into an archive", "more than %d outputs", STAGES_MAX);
    char *name = must(strndup(word, (size_t)(equals - word)));
    if (!path_stays(name)) {
        htc_status status = cli_error(c, HTC_EPATH, name, "use a relative name without ..", "the output's name leaves the task's directory");
        free(name);
        return status;
    }
    s->out[s->n_out++] = (htc_stage){ keep(s, name), keep(s, must_dup(equals + 1)), HTC_STAGE_OVERWRITE };
    return HTC_OK;
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

htc_status staging_script(cli *c, staging *s, const char **word)
{
    const char *w = *word;
    htc_status  status = check_interpreter(c, w);
    if (status == HTC_OK)
        status = add(c, s, last_part(w), w, HTC_STAGE_EXECUTABLE);
    if (status == HTC_OK)
        *word = keep(s, must_print("./%s", last_part(w)));
    return status;
}

/* A program of this installation: every node has its own, and a copy from here would look for its library beside itself. */
static int is_installed(const char *name, const char *path)
{
    static const char *const programs[] = { "htc", "htc-gang", "htc-fn", "htc-sim", "htc-kvd", "htc-agent", "htc-gateway", "htc-transfer" };
    struct stat own, st;
    int         known = 0, same = 0;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        known |= strcmp(name, programs[i]) == 0;
    if (known) {
        char *dir = own_directory(), *full = path_join(dir, name);
        same = stat(full, &own) == 0 && (stat(path, &st) == 0 ? own.st_dev == st.st_dev && own.st_ino == st.st_ino : !strchr(path, '/'));
        free(full);
        free(dir);
    }
    return same;
}

htc_status staging_executable(cli *c, staging *s, const char **word)
{
    const char *w = *word;
    char       *found = NULL;
    struct stat st;
    if (is_in_input(s, w) || strchr(w, '{')) /* known only task by task: the agent says so if it is missing */
        return HTC_OK;
    if (w[0] == '/') {
        if (!runs(w))
            return cli_error(c, HTC_ENOEXEC, w, "check its name and that it is executable", "no such program");
        return check_interpreter(c, w);
    }
    if (is_installed(last_part(w), w)) {
        *word = last_part(w);
        return HTC_OK;
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
    *word = w;
    return staging_script(c, s, word);
}

/* Who answers for the files of a document. */
typedef struct beside {
    cli        *c;
    staging    *s;
    const char *base; /* where it stands */
    char       *uri;  /* the last answer */
    int         at_line; /* what is wrong is what stands at this line */
} beside;

static htc_status file_beside(void *ctx, const char *name, const char **uri, uint32_t *flags)
{
    beside *b = ctx;
    char   *path = path_join(b->base, name);
    free(b->uri);
    b->uri = NULL;
    htc_status status = uri_of(b->c, b->s, path, &b->uri);
    b->at_line = status != HTC_OK;
    if (status == HTC_OK && runs(path))
        *flags |= HTC_STAGE_EXECUTABLE;
    *uri = b->uri;
    free(path);
    return status;
}

static htc_status program_beside(void *ctx, const char *name, const char **uri)
{
    beside     *b = ctx;
    const char *relative = strncmp(name, "./", 2) == 0 ? name + 2 : name;
    char       *path = path_join(b->base, name);
    int         is_here = name[0] != '/' && runs(path) && path_stays(relative);
    htc_status  status = HTC_OK;
    free(b->uri);
    b->uri = NULL;
    if (is_here) {
        status = check_interpreter(b->c, path);
        if (status == HTC_OK)
            status = uri_of(b->c, b->s, path, &b->uri);
    } else if (name[0] == '/' ? !runs(name) : strchr(name, '/') || !is_in_system(name)) {
        b->at_line = 1;
        status = cli_error(b->c, HTC_ENOEXEC, name, "check its name and that it is executable", "no such program");
    }
    *uri = b->uri;
    free(path);
    return status;
}

htc_status staging_document(cli *c, staging *s, const char *base, htc_bytes xml, char **out, size_t *out_len)
{
    beside      b = { .c = c, .s = s, .base = base ? base : "" };
    htc_staging asked = { .size = sizeof asked, .file = file_beside, .program = program_beside, .ctx = &b };
    htc_error   e = { .status = HTC_OK };
    htc_bytes   made;
    c->error = (htc_error){ .status = HTC_OK };
    htc_status status = htc_jsdl_stage(NULL, xml, &asked, &made, &e);
    free(b.uri);
    if (status != HTC_OK) {
        if (c->error.status == HTC_OK)
            c->error = e;
        else if (b.at_line && base)
            c->error.line = e.line;
        return status;
    }
    *out = must(strndup(made.data, made.len));
    *out_len = made.len;
    htc_work_free(NULL, made);
    return HTC_OK;
}
