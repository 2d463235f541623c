/* Users and passwords for the URLs of a job: a file that --credentials names, else the user's own, where the document has a URL at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"

#define TEXT_MAX 4096 /* as doc/api.md says */

/* $XDG_CONFIG_HOME/htcsched/credentials; NULL without a home. */
static char *own_file(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && config[0] == '/')
        return must_print("%s/htcsched/credentials", config);
    return home && home[0] == '/' ? must_print("%s/.config/htcsched/credentials", home) : NULL;
}

static htc_status read_secret(cli *c, int fd, const char *path, char text[TEXT_MAX + 1])
{
    struct stat st;
    size_t      len = 0;
    ssize_t     n = 1;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return cli_error(c, HTC_EINPUT, path, "name a file", "the credentials are no regular file");
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return cli_error(c, HTC_EDENIED, path, "chmod 600 FILE, and own it", "others may read or write the credentials");
    while (n > 0 && len <= TEXT_MAX) {
        n = read(fd, text + len, TEXT_MAX + 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0 || len > TEXT_MAX)
        return cli_error(c, n < 0 ? HTC_EIO : HTC_ETOOBIG, path, "keep those that this job needs in a file of its own", n < 0 ? "the credentials cannot be read" : "the credentials have more than %d bytes", TEXT_MAX);
    text[len] = '\0';
    return strlen(text) == len ? HTC_OK : cli_error(c, HTC_EINPUT, path, "write 'machine HOST login USER password PASSWORD', a line each", "the credentials are no text");
}

static int has_url(const char *document)
{
    return document && (strstr(document, "http://") || strstr(document, "https://") || strstr(document, "ftp://"));
}

htc_status credentials_request(cli *c, const plan *p, const char *document, json_t *request)
{
    char       *own = p->credentials ? NULL : own_file();
    const char *path = p->credentials ? p->credentials : own;
    char        text[TEXT_MAX + 1];
    htc_status  s = HTC_OK;
    int         fd = path && (p->credentials || has_url(document) || has_url(p->end_xml)) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0 && p->credentials)
        s = cli_error(c, HTC_EINPUT, path, "check the name and its permissions", "cannot read the credentials: %s", strerror(errno));
    if (fd >= 0) {
        s = read_secret(c, fd, path, text);
        if (s == HTC_OK)
            json_object_set_new(request, "credentials", json_string(text));
        explicit_bzero(text, sizeof text);
        close(fd);
    }
    free(own);
    return s;
}
