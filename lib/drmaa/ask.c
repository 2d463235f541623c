/* Requests to the gateway. Each thread that asks has a connection of its own while it does; a few are kept for the next. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drmaa/drmaa_private.h"

#define HELLO_S 10.0

static htc_ns in_ns(double seconds)
{
    return seconds < 9e9 ? (htc_ns)(seconds * 1e9) + 1 : HTC_NEVER;
}

static htc_status dial(const session *s, htc_client **out, htc_error *error)
{
    return htc_access_client(s->access, in_ns(s->timeout_s < HELLO_S ? s->timeout_s : HELLO_S), out, error);
}

static htc_status take(session *s, htc_client **out, htc_error *error)
{
    htc__drmaa_lock();
    *out = s->n_idle ? s->idle[--s->n_idle] : NULL;
    htc__drmaa_unlock();
    return *out ? HTC_OK : dial(s, out, error);
}

/* One that a failure may have left in the middle of a message is not used again. */
static void give_back(session *s, htc_client *client, htc_status status)
{
    int keep = status != HTC_EUNREACHABLE && status != HTC_ECLOSED && status != HTC_EPROTO && status != HTC_ENOMEM;
    htc__drmaa_lock();
    keep = keep && s->n_idle < IDLE_MAX && !s->ended;
    if (keep)
        s->idle[s->n_idle++] = client;
    htc__drmaa_unlock();
    if (!keep)
        htc_client_close(client);
}

void htc__drmaa_hang_up(session *s)
{
    while (s->n_idle)
        htc_client_close(s->idle[--s->n_idle]);
}

static const char *text_of(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));
    return text ? text : "";
}

static htc_status read_answer(const char *text, json_t **answer, htc_error *error)
{
    json_t *o = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        snprintf(error->text, sizeof error->text, "the gateway's answer is not a JSON object");
        return HTC_EPROTO;
    }
    const char *name = text_of(o, "error");
    if (!*name) {
        *answer = o;
        return HTC_OK;
    }
    htc_status status = htc_status_from_name(name);
    *error = (htc_error){ .status = status };
    snprintf(error->where, sizeof error->where, "%s", text_of(json_object_get(o, "where"), "element"));
    snprintf(error->text, sizeof error->text, "%s", text_of(o, "message"));
    snprintf(error->hint, sizeof error->hint, "%s", text_of(o, "hint"));
    json_decref(o);
    return status;
}

/* again: nobody can say that it was not heard of, or there may be room in a moment. */
static htc_status ask_once(session *s, const char *text, double answer_s, json_t **answer, htc_error *error, int *again)
{
    htc_client *client;
    const char *reply = NULL;
    *error = (htc_error){ .status = HTC_OK };
    htc_status status = take(s, &client, error);
    *again = status == HTC_EUNREACHABLE || status == HTC_ECLOSED;
    if (status != HTC_OK)
        return status;
    double patience = s->timeout_s + answer_s;
    status = htc_client_request(client, text, in_ns(patience), &reply, error);
    *again = status == HTC_EUNREACHABLE || status == HTC_ECLOSED;
    if (status == HTC_ETIMEDOUT) {
        *error = (htc_error){ .status = HTC_EUNREACHABLE };
        snprintf(error->text, sizeof error->text, "the gateway does not answer within %.3g s", patience);
        status = HTC_EUNREACHABLE;
    } else if (status == HTC_OK) {
        status = read_answer(reply, answer, error);
        *again = status == HTC_EBUSY || status == HTC_AGAIN;
        if (status == HTC_EUNREACHABLE || status == HTC_ECLOSED) { /* of something behind the gateway */
            give_back(s, client, HTC_OK);
            return status;
        }
    }
    give_back(s, client, status);
    return status;
}

htc_status htc__drmaa_ask(session *s, const json_t *request, double answer_s, json_t **answer, htc_error *error)
{
    json_t *full = request ? json_copy((json_t *)(uintptr_t)request) : NULL;
    const char *user = htc_access_text(s->access, HTC_ACCESS_USER), *token = htc_access_text(s->access, HTC_ACCESS_TOKEN);
    if (full && user)
        json_object_set_new(full, "user", json_string(user));
    if (full && token)
        json_object_set_new(full, "token", json_string(token));
    char *text = full ? json_dumps(full, JSON_COMPACT) : NULL;
    json_decref(full);
    *error = (htc_error){ .status = HTC_OK };
    if (!text)
        return HTC_ENOMEM;
    double     until = htc__drmaa_now() + s->timeout_s, pause = 0.02;
    htc_status status;
    int        again, ended = 0;
    while ((status = ask_once(s, text, answer_s, answer, error, &again)) != HTC_OK && again && !ended && htc__drmaa_now() < until) {
        htc__drmaa_lock();
        htc__drmaa_pause(s, pause);
        ended = s->ended;
        htc__drmaa_unlock();
        pause = pause < 0.5 ? pause * 2 : 1;
    }
    explicit_bzero(text, strlen(text));
    free(text);
    return status;
}

static htc_status bad_file(htc_error *error, const char *path, const char *what, int why)
{
    *error = (htc_error){ .status = HTC_EINPUT };
    snprintf(error->where, sizeof error->where, "%.150s", path);
    snprintf(error->text, sizeof error->text, "%s: %s", what, strerror(why));
    return HTC_EINPUT;
}

htc_status htc__drmaa_upload(session *s, const char *path, char hex[65], htc_error *error)
{
    struct stat st;
    uint8_t     hash[32];
    htc_client *client;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        if (fd >= 0)
            close(fd);
        return bad_file(error, path, "cannot read the input", why);
    }
    *error = (htc_error){ .status = HTC_OK };
    htc_status status = take(s, &client, error);
    if (status == HTC_OK) {
        status = htc_client_upload(client, fd, hash, error);
        give_back(s, client, status == HTC_ETIMEDOUT ? HTC_EUNREACHABLE : status);
    }
    close(fd);
    if (status == HTC_OK)
        htc_content_hex(hash, hex);
    return status;
}

htc_status htc__drmaa_fetch(session *s, uint64_t job, uint64_t task, const char *name, const char *path, htc_error *error)
{
    htc_client *client;
    int         fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0)
        return bad_file(error, path, "cannot write the output", errno);
    *error = (htc_error){ .status = HTC_OK };
    htc_status status = take(s, &client, error);
    if (status == HTC_OK) {
        status = htc_client_download(client, job, task, 0, name, fd, NULL, NULL, error);
        give_back(s, client, status == HTC_ETIMEDOUT ? HTC_EUNREACHABLE : status);
    }
    if (close(fd) != 0 && status == HTC_OK)
        status = bad_file(error, path, "cannot write the output", errno);
    return status == HTC_ENOTFOUND ? HTC_OK : status; /* it wrote nothing */
}
