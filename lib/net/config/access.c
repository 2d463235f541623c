/* Where a user's gateway is, and by what it knows the user. */
#include "htcsched/access.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/config.h"

#define TOKEN_MAX     4096
#define SYSTEM_DIGITS 16 /* of the hash of what names the system */
#define HERE          "./htc-state"

struct htc_access {
    char *at[HTC_ACCESS_TOKEN + 1];
    int   owns; /* the state directory is the caller's */
};

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static htc_status no_memory(htc_error *error)
{
    return htc__error(error, HTC_ENOMEM, "out of memory");
}

static void put(htc_access *a, htc_access_what what, char *text)
{
    if (a->at[what])
        explicit_bzero(a->at[what], strlen(a->at[what]));
    free(a->at[what]);
    a->at[what] = text;
}

static int put_print(htc_access *a, htc_access_what what, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* 0: no memory */
static int put_print(htc_access *a, htc_access_what what, const char *format, ...)
{
    va_list args;
    char   *text = NULL;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    put(a, what, n < 0 ? NULL : text);
    return n >= 0;
}

/* ---- the user's own folders ---- */

/* Gives NAME in BASE, else in BELOW of HOME; NULL: there is neither (*none), or no memory. */
static char *own_folder(const char *base, const char *home, const char *below, int *none)
{
    char *path = NULL;
    int   n;
    *none = 0;
    if (base && base[0] == '/')
        n = asprintf(&path, "%s/htcsched", base);
    else if (home && home[0] == '/')
        n = asprintf(&path, "%s/%s/htcsched", home, below);
    else
        return (*none = 1, NULL);
    return n < 0 ? NULL : path;
}

/* The user's configuration; one that is not there says nothing. */
static htc_status read_own(const char *folder, htc_config **out, htc_error *error)
{
    char *path = NULL;
    if (asprintf(&path, "%s/htc.ini", folder) < 0)
        return no_memory(error);
    htc_status status = htc_config_load(NULL, access(path, F_OK) == 0 ? path : NULL, out, error);
    free(path);
    return status;
}

/* A file that is named in the configuration, from the configuration's folder on; or its default there. */
static int put_file(htc_access *a, htc_access_what what, const char *folder, const char *named, const char *otherwise)
{
    return *named == '/' ? put_print(a, what, "%s", named) : put_print(a, what, "%s/%s", folder, *named ? named : otherwise);
}

/* ---- which system ---- */

static htc_status settle_keys(htc_access *a, const char *folder, const htc_config *own, htc_error *error)
{
    const char *server = htc_config_text(own, "client.server");
    int         ok = put_file(a, HTC_ACCESS_KEY, folder, htc_config_text(own, "client.key"), "key") &&
             put_file(a, HTC_ACCESS_RING, folder, htc_config_text(own, "client.ring"), "ring") &&
             (!*server || put_print(a, HTC_ACCESS_SERVER, "%s", server));
    return ok ? HTC_OK : no_memory(error);
}

/* What of the system is on this machine: nothing is told of a directory that is not there. */
static htc_status settle_dir(htc_access *a, const char *dir, htc_error *error)
{
    struct stat st;
    a->owns = stat(dir, &st) == 0 && st.st_uid == geteuid();
    return put_print(a, HTC_ACCESS_DIR, "%s", dir) && put_print(a, HTC_ACCESS_SOCKET, "%s/gateway.sock", dir) ? HTC_OK : no_memory(error);
}

static htc_status settle(htc_access *a, const htc_access_options *o, htc_error *error)
{
    const char *gateway = text_or_null(o->gateway), *dir = text_or_null(o->dir);
    int         none;
    char       *folder = NULL;
    htc_config *own = NULL;
    htc_status  status = HTC_OK;
    if (gateway && dir)
        return htc__error(error, HTC_EUSAGE, "a directory of this machine and a gateway of another one are two systems: name one of them");
    if (!gateway && !dir && !(gateway = text_or_null(o->env_gateway)) && !(dir = text_or_null(o->env_dir)) && access(HERE, F_OK) == 0)
        dir = HERE;
    if (!dir) {
        folder = own_folder(o->config_home, o->home, ".config", &none);
        status = folder ? read_own(folder, &own, error) : none ? HTC_OK : no_memory(error);
    }
    if (!gateway && own)
        gateway = text_or_null(htc_config_text(own, "client.gateway"));
    if (status == HTC_OK && gateway && !own)
        status = htc__error(error, HTC_ENOTFOUND, "%s: there is no home directory with a key in .config/htcsched", gateway);
    else if (status == HTC_OK && gateway)
        status = put_print(a, HTC_ACCESS_GATEWAY, "%s", gateway) ? settle_keys(a, folder, own, error) : no_memory(error);
    else if (status == HTC_OK)
        status = settle_dir(a, dir ? dir : HERE, error);
    htc_config_destroy(own);
    free(folder);
    return status;
}

/* The state directory itself, or a folder of the user's by a hash of what names the system. */
static htc_status settle_logins(htc_access *a, const htc_access_options *o, htc_error *error)
{
    char        hex[65];
    uint8_t     hash[32];
    int         none;
    char       *real = a->at[HTC_ACCESS_DIR] ? realpath(a->at[HTC_ACCESS_DIR], NULL) : strdup(a->at[HTC_ACCESS_GATEWAY]);
    if (a->at[HTC_ACCESS_DIR] && (a->owns || !real)) {
        free(real);
        return put_print(a, HTC_ACCESS_LOGINS, "%s", a->at[HTC_ACCESS_DIR]) ? HTC_OK : no_memory(error);
    }
    char *folder = own_folder(o->state_home, o->home, ".local/state", &none);
    htc_content_hash(htc_bytes_of(real ? real : ""), hash);
    htc_content_hex(hash, hex);
    int ok = real && (folder ? put_print(a, HTC_ACCESS_LOGINS, "%s/%.*s", folder, SYSTEM_DIGITS, hex) : none);
    free(real);
    free(folder);
    return ok ? HTC_OK : no_memory(error);
}

htc_status htc_access_open(const htc_access_options *options, htc_access **out, htc_error *error)
{
    htc_access_options o = { .size = 0 };
    if (!options || !out || htc__options_copy(&o, sizeof o, options, options->size, sizeof(size_t)) != HTC_OK)
        return htc__error(error, HTC_EINVAL, "options and a place for the answer are needed");
    htc_access *a = calloc(1, sizeof *a);
    if (!a)
        return no_memory(error);
    htc_status status = settle(a, &o, error);
    if (status == HTC_OK)
        status = settle_logins(a, &o, error);
    if (status != HTC_OK) {
        htc_access_close(a);
        return status;
    }
    *out = a;
    return HTC_OK;
}

void htc_access_close(htc_access *a)
{
    if (!a)
        return;
    for (uint32_t i = 0; i <= HTC_ACCESS_TOKEN; i++)
        put(a, i, NULL);
    free(a);
}

const char *htc_access_text(const htc_access *a, uint32_t what)
{
    return a && what <= HTC_ACCESS_TOKEN ? a->at[what] : NULL;
}

/* ---- who, and by which token ---- */

/* Gives the first line of a file; NULL: there is none (errno), or no memory. */
static char *first_line(const char *path)
{
    char  line[TOKEN_MAX] = "";
    FILE *f = fopen(path, "re");
    int   read = f && fgets(line, sizeof line, f);
    int   why = read ? 0 : f && !ferror(f) ? ENODATA : errno;
    char *got = read ? strndup(line, strcspn(line, "\r\n")) : NULL;
    if (f)
        fclose(f);
    explicit_bzero(line, sizeof line);
    errno = why;
    return got;
}

static char *line_of(const char *folder, const char *between, const char *name)
{
    char *path = NULL, *line = NULL;
    if (folder && asprintf(&path, "%s%s%s", folder, between, name) >= 0) {
        line = first_line(path);
        free(path);
    }
    return line;
}

/* Of a user, fit for a file name. */
static int is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < 64 && name[strspn(name, allowed)] == '\0';
}

static htc_status take_file(htc_access *a, const char *path, htc_error *error)
{
    put(a, HTC_ACCESS_TOKEN, first_line(path));
    if (a->at[HTC_ACCESS_TOKEN] || errno == ENODATA)
        return HTC_OK;
    htc__error(error, HTC_EINPUT, "cannot read the token: %s", strerror(errno));
    if (error) {
        snprintf(error->where, sizeof error->where, "%.150s", path);
        snprintf(error->hint, sizeof error->hint, "htc login NAME writes one");
    }
    return HTC_EINPUT;
}

htc_status htc_access_login(htc_access *a, const char *user, const char *token_file, htc_error *error)
{
    if (!a || (user && !is_name(user)))
        return htc__error(error, HTC_EINVAL, "'%.70s' cannot be a user's name: letters, digits, - _ . and no more than 63 of them", user ? user : "");
    put(a, HTC_ACCESS_TOKEN, NULL);
    put(a, HTC_ACCESS_USER, NULL);
    if (user && !put_print(a, HTC_ACCESS_USER, "%s", user))
        return no_memory(error);
    if (token_file)
        return take_file(a, token_file, error);
    const char *logins = a->at[HTC_ACCESS_LOGINS];
    if (!user && !a->owns) {
        put(a, HTC_ACCESS_USER, line_of(logins, "/", "user"));
        if (a->at[HTC_ACCESS_USER] && !is_name(a->at[HTC_ACCESS_USER]))
            put(a, HTC_ACCESS_USER, NULL);
    }
    if (a->at[HTC_ACCESS_USER])
        put(a, HTC_ACCESS_TOKEN, line_of(logins, "/tokens/", a->at[HTC_ACCESS_USER]));
    if (!a->at[HTC_ACCESS_TOKEN] && a->at[HTC_ACCESS_DIR])
        put(a, HTC_ACCESS_TOKEN, line_of(a->at[HTC_ACCESS_DIR], "/", "operator"));
    return HTC_OK;
}

htc_status htc_access_client(const htc_access *a, htc_ns timeout_ns, htc_client **out, htc_error *error)
{
    if (!a)
        return htc__error(error, HTC_EINVAL, "a way is needed");
    htc_client_options o = { .size = sizeof o, .path = a->at[HTC_ACCESS_SOCKET], .gateway = a->at[HTC_ACCESS_GATEWAY], .key_path = a->at[HTC_ACCESS_KEY],
                             .ring_path = a->at[HTC_ACCESS_RING], .server = a->at[HTC_ACCESS_SERVER], .user = a->at[HTC_ACCESS_USER],
                             .token = a->at[HTC_ACCESS_TOKEN], .timeout_ns = timeout_ns };
    if (o.gateway && access(o.key_path, F_OK) != 0) {
        htc__error(error, HTC_EDENIED, "%s is reached with a key alone, and there is none", o.gateway);
        if (error) {
            snprintf(error->where, sizeof error->where, "%.150s", o.key_path);
            snprintf(error->hint, sizeof error->hint, "on the gateway's machine: htc keys enrol NAME --once DIR/once; here: htc keys join with what it prints");
        }
        return HTC_EDENIED;
    }
    return htc_client_open(NULL, &o, out, error);
}
