/* The process's session: contact strings, its beginning and end, its lock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/version.h"

#include "drmaa/drmaa_private.h"

#define TIMEOUT_S 30.0

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static session        *current;
static int             begins; /* a thread is in drmaa_init */

void htc__drmaa_lock(void)
{
    pthread_mutex_lock(&lock);
}

void htc__drmaa_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

double htc__drmaa_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void htc__drmaa_pause(session *s, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long long ns = until.tv_nsec + (long long)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&s->changed, &lock, &until);
}

int htc__drmaa_session_is_there(void)
{
    htc__drmaa_lock();
    int there = current != NULL;
    htc__drmaa_unlock();
    return there;
}

session *htc__drmaa_session(void)
{
    htc__drmaa_lock();
    session *s = current;
    if (s)
        s->users++;
    htc__drmaa_unlock();
    return s;
}

static void session_free(session *s)
{
    htc__drmaa_hang_up(s);
    htc__drmaa_jobs_free(s);
    pthread_cond_destroy(&s->changed);
    htc_access_close(s->access);
    free(s->dir);
    free(s->gateway);
    free(s->user);
    free(s->token_file);
    free(s->categories);
    free(s);
}

void htc__drmaa_session_done(session *s)
{
    htc__drmaa_lock();
    int last = --s->users == 0;
    htc__drmaa_unlock();
    if (last)
        session_free(s);
}

static session *session_new(void)
{
    session           *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return NULL;
    s->users = 1;
    s->timeout_s = TIMEOUT_S;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

/* ---- contact strings ---- */

/* The way that the environment and the user's configuration say, where the contact names neither a directory nor a gateway. */
static htc_status find_way(const char *dir, const char *gateway, htc_access **out, htc_error *error)
{
    htc_access_options o = { .size = sizeof o, .dir = dir, .gateway = gateway };
    o.env_dir = getenv("HTC_DIR");
    o.env_gateway = getenv("HTC_GATEWAY");
    o.home = getenv("HOME");
    o.config_home = getenv("XDG_CONFIG_HOME");
    o.state_home = getenv("XDG_STATE_HOME");
    return htc_access_open(&o, out, error);
}

/* Gives what drmaa_init(NULL) stands for. */
static char *default_contact(void)
{
    const char *contact = getenv("HTC_DRMAA_CONTACT");
    char       *text = NULL;
    htc_access *access = NULL;
    if (contact && *contact)
        return strdup(contact);
    const char *gateway = find_way(NULL, NULL, &access, NULL) == HTC_OK ? htc_access_text(access, HTC_ACCESS_GATEWAY) : NULL;
    const char *dir = gateway ? NULL : htc_access_text(access, HTC_ACCESS_DIR);
    int         n = asprintf(&text, "%s=%s", gateway ? "gateway" : "dir", gateway ? gateway : dir ? dir : "./htc-state");
    htc_access_close(access);
    return n < 0 ? NULL : text;
}

static int take_part(session *s, char *part, diagnosis *d)
{
    char *value = strchr(part, '='), **into = NULL;
    *value++ = '\0';
    if (strcmp(part, "timeout") == 0) {
        if (htc_command_time(value, 1, &s->timeout_s) == HTC_OK && s->timeout_s > 0 && s->timeout_s < 1e9)
            return DRMAA_ERRNO_SUCCESS;
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "timeout is a time such as 30s, and not '%.60s'", value);
    }
    into = strcmp(part, "dir") == 0          ? &s->dir
           : strcmp(part, "gateway") == 0    ? &s->gateway
           : strcmp(part, "user") == 0       ? &s->user
           : strcmp(part, "token_file") == 0 ? &s->token_file
           : strcmp(part, "categories") == 0 ? &s->categories
                                             : NULL;
    if (!into)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "a contact has dir, gateway, user, token_file, timeout and categories, and not '%.60s'",
                               part);
    if (*into || !*value)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "%s %s", part, *into ? "stands twice in the contact: it may once" : "has no value: write NAME=VALUE");
    *into = strdup(value);
    return *into ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
}

static int take_contact(session *s, const char *contact, diagnosis *d)
{
    if (strlen(contact) >= sizeof s->contact)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "the contact is longer than %zu bytes", sizeof s->contact - 1);
    strcpy(s->contact, contact);
    if (!strchr(contact, '=')) {
        s->dir = strdup(*contact ? contact : "./htc-state");
        return s->dir ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
    }
    char *copy = strdup(contact), *left = copy, *part;
    int   code = copy ? DRMAA_ERRNO_SUCCESS : htc__drmaa_no_memory(d);
    while (code == DRMAA_ERRNO_SUCCESS && (part = strsep(&left, ";")))
        if (*part)
            code = strchr(part, '=') ? take_part(s, part, d)
                                     : htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "'%.100s' is no NAME=VALUE", part);
    free(copy);
    return code;
}

/* The directory under a name that stays what it is. */
static int settle_dir(session *s, diagnosis *d)
{
    char *real = realpath(s->dir, NULL);
    if (!real)
        return htc__drmaa_fail(d, errno == ENOMEM ? DRMAA_ERRNO_NO_MEMORY : DRMAA_ERRNO_INVALID_CONTACT_STRING, "no system is in %.300s: %s; htc up starts one there, and dir=DIR in the contact or HTC_DIR names another",
                               s->dir, strerror(errno));
    free(s->dir);
    s->dir = real;
    return DRMAA_ERRNO_SUCCESS;
}

static int no_way(diagnosis *d, htc_status status, const htc_error *error)
{
    if (status == HTC_ENOMEM)
        return htc__drmaa_no_memory(d);
    return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_CONTACT_STRING, "%s%s%s%s%s (%s)", error->where, error->where[0] ? ": " : "", error->text,
                           error->hint[0] ? "; " : "", error->hint, htc_status_name(status));
}

/* Where the gateway is, and whose login is sent: that which htc would send. */
static int settle(session *s, diagnosis *d)
{
    htc_error  error = { .status = HTC_OK };
    htc_status status = HTC_OK;
    int        code = DRMAA_ERRNO_SUCCESS;
    if (!s->dir) {
        status = find_way(NULL, s->gateway, &s->access, &error);
        const char *dir = htc_access_text(s->access, HTC_ACCESS_DIR);
        if (dir && !(s->dir = strdup(dir)))
            return htc__drmaa_no_memory(d);
    }
    if (status == HTC_OK && s->dir && (code = settle_dir(s, d)) != DRMAA_ERRNO_SUCCESS)
        return code;
    if (status == HTC_OK && s->dir) {
        htc_access_close(s->access);
        s->access = NULL;
        status = find_way(s->dir, s->gateway, &s->access, &error);
    }
    if (status == HTC_OK)
        status = htc_access_login(s->access, s->user, s->token_file, &error);
    return status == HTC_OK ? DRMAA_ERRNO_SUCCESS : no_way(d, status, &error);
}

/* Whether the gateway is there, and knows the token. */
static int greet(session *s, diagnosis *d)
{
    htc_error  error = { .status = HTC_OK };
    json_t    *answer = NULL, *request = json_pack("{s:s,s:i}", "op", "status", "limit", 1);
    htc_status status = htc__drmaa_ask(s, request, 0, &answer, &error);
    json_decref(request);
    json_decref(answer);
    if (status == HTC_OK)
        return DRMAA_ERRNO_SUCCESS;
    int code = htc__drmaa_refused(d, ASKING, status, &error);
    /* What is not found when nothing is named is the user. */
    return code == DRMAA_ERRNO_INVALID_JOB ? DRMAA_ERRNO_AUTH_FAILURE : code == DRMAA_ERRNO_INTERNAL_ERROR ? DRMAA_ERRNO_DRMS_INIT_FAILED : code;
}

static int begin(session *s, const char *contact, diagnosis *d)
{
    char *given = contact ? strdup(contact) : default_contact();
    int   code = given ? take_contact(s, given, d) : htc__drmaa_no_memory(d);
    free(given);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = settle(s, d);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = greet(s, d);
    if (!contact && (code == DRMAA_ERRNO_INVALID_CONTACT_STRING || code == DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE))
        code = DRMAA_ERRNO_DEFAULT_CONTACT_STRING_ERROR;
    return code;
}

int drmaa_init(const char *contact, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    htc__drmaa_lock();
    int busy = current || begins;
    begins |= !busy;
    htc__drmaa_unlock();
    if (busy)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_ALREADY_ACTIVE_SESSION, "this process has a session already: drmaa_exit ends it");
    session *s = session_new();
    int      code = s ? begin(s, contact, &d) : htc__drmaa_no_memory(&d);
    htc__drmaa_lock();
    begins = 0;
    if (code == DRMAA_ERRNO_SUCCESS)
        current = s;
    htc__drmaa_unlock();
    if (code != DRMAA_ERRNO_SUCCESS && s)
        session_free(s);
    return code;
}

int drmaa_exit(char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    htc__drmaa_lock();
    session *s = current;
    current = NULL;
    if (s) {
        s->ended = 1;
        pthread_cond_broadcast(&s->changed);
    }
    htc__drmaa_unlock();
    if (!s)
        return htc__drmaa_no_session(&d);
    htc__drmaa_session_done(s);
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_contact(char *contact, size_t contact_len, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    session  *s = htc__drmaa_session();
    char     *text = s ? NULL : default_contact();
    int       code = DRMAA_ERRNO_SUCCESS;
    if (!contact || contact_len == 0)
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the contact");
    else if (!s && !text)
        code = htc__drmaa_no_memory(&d);
    else
        htc__drmaa_put(contact, contact_len, s ? s->contact : text);
    free(text);
    if (s)
        htc__drmaa_session_done(s);
    return code;
}

int drmaa_version(unsigned int *major, unsigned int *minor, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!major || !minor)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the version");
    *major = 1;
    *minor = 0;
    return DRMAA_ERRNO_SUCCESS;
}

static int name_with_version(const char *name, char *to, size_t len, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!to || len == 0)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the name");
    snprintf(to, len, "%s %s", name, htc_version_text());
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_DRM_system(char *drm_system, size_t drm_system_len, char *error_diagnosis, size_t error_diag_len)
{
    return name_with_version("htcsched", drm_system, drm_system_len, error_diagnosis, error_diag_len);
}

int drmaa_get_DRMAA_implementation(char *drmaa_impl, size_t drmaa_impl_len, char *error_diagnosis, size_t error_diag_len)
{
    return name_with_version("htc-drmaa", drmaa_impl, drmaa_impl_len, error_diagnosis, error_diag_len);
}
