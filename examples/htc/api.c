/* Requests to the gateway: doc/api.md says what they hold. The connection is opened by the first and kept. */
#include "htc.h"

#include "htcsched/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const htc_env plain = { .size = sizeof plain };

int valid_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < 64 && name[strspn(name, allowed)] == '\0';
}

static double answer_s(const cli *c)
{
    return c->timeout_s > 0 ? c->timeout_s : ANSWER_S;
}

/* Of several the one that serves: a lost connection may be followed by one to another. */
static htc_status open_gateway(cli *c, double hello_s)
{
    htc_status s = htc_access_client(c->access, time_ns(hello_s) + 1, &c->client, &c->error);
    if (s == HTC_ETIMEDOUT)
        snprintf(c->error.hint, sizeof c->error.hint, "nothing was asked; is the gateway stopped, or its host away?");
    return s;
}

static htc_status open_client(cli *c)
{
    htc_status s = system_look(c);
    if (s == HTC_OK)
        s = token_find(c);
    if (s != HTC_OK || c->client)
        return s;
    double hello_s = answer_s(c) < 10 ? answer_s(c) : 10;
    if (c->gateway)
        return open_gateway(c, hello_s);
    htc_state *state;
    htc_error  e = { 0 };
    s = htc_state_open(&plain, c->dir, 0, &state, &e);
    c->nowhere = s == HTC_ENOTFOUND;
    if (c->nowhere)
        return cli_error(c, HTC_EUNREACHABLE, c->dir, "start one with `htc up`", "no system runs here");
    if (s != HTC_OK && s != HTC_EDENIED) {
        c->error = e;
        return s;
    }
    /* A user who does not own the directory may still reach the socket, if its owner allows it. */
    char *path =
        s == HTC_OK ? must_dup(htc_state_path(state, HTC_STATE_GATEWAY_SOCKET)) : must_print("%s/gateway.sock", c->dir);
    /* Ended in order, or never begun: no supervisor that starts it again, and no socket that a killed one has left. */
    int ended = s == HTC_OK && !htc_state_holder(state) && access(path, F_OK) != 0;
    if (s == HTC_OK)
        htc_state_close(state);
    htc_client_options options = { .size = sizeof options, .path = path, .user = c->user, .token = c->token,
                                   .timeout_ns = time_ns(hello_s) + 1 };
    s = htc_client_open(&plain, &options, &c->client, &c->error);
    free(path);
    c->reached |= s == HTC_OK;
    if (s == HTC_EUNREACHABLE) {
        c->nowhere = ended && !c->reached;
        return cli_error(c, s, c->dir, "start one with `htc up`", "no system runs here");
    }
    if (s == HTC_ETIMEDOUT)
        return cli_error(c, s, c->dir, "nothing was asked; is htc-gateway stopped, or the machine overloaded?",
                         "the gateway does not answer, not even a greeting, within %.3g s", hello_s);
    return s;
}

void api_close(cli *c)
{
    htc_client_close(c->client);
    c->client = NULL;
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    free(c->own_user);
    c->token = c->own_user = NULL;
}

static void take_error_object(cli *c, const json_t *o, htc_status status)
{
    const json_t *where = json_object_get(o, "where");
    cli_error(c, status, j_str(where, "element"), j_str(o, "hint"), "%s", j_str(o, "message"));
    c->error.line = (uint32_t)j_u64(where, "line");
    c->error.column = (uint32_t)j_u64(where, "column");
    if (!c->error.text[0])
        snprintf(c->error.text, sizeof c->error.text, "%s", htc_strerror(status));
}

static htc_status not_utf8(cli *c)
{
    return cli_error(c, HTC_EUSAGE, "", "use UTF-8 only", "a word on the command line is not valid UTF-8");
}

/* request NULL: it could not be made of the words given. */
static htc_status ask_once(cli *c, const json_t *request, double timeout_s, json_t **answer)
{
    c->unanswered = c->silent = 0;
    if (!request)
        return not_utf8(c);
    htc_status s = open_client(c);
    c->silent = s == HTC_ETIMEDOUT;
    if (s != HTC_OK)
        return s;
    json_t *full = json_copy((json_t *)(uintptr_t)request);
    if (c->user && !json_object_get(full, "user"))
        j_add(&full, "user", c->user);
    if (c->token)
        j_add(&full, "token", c->token);
    char *text = full ? json_dumps(full, JSON_COMPACT) : NULL;
    json_decref(full);
    if (!text)
        return not_utf8(c);
    const char *reply = NULL;
    s = htc_client_request(c->client, text, time_ns(timeout_s > 0 ? timeout_s : answer_s(c)), &reply, &c->error);
    free(text);
    if (s != HTC_OK) {
        c->silent = s == HTC_ETIMEDOUT;
        c->unanswered = s == HTC_ETIMEDOUT || s == HTC_EUNREACHABLE || s == HTC_ECLOSED;
        if (s == HTC_ETIMEDOUT)
            cli_error(c, s, SYSTEM_OF(c), "is it stopped, or its store? --timeout waits longer", "the gateway does not answer within %.3g s",
                      timeout_s > 0 ? timeout_s : answer_s(c));
        if (s != HTC_ETIMEDOUT || c->gateway) { /* the next request dials again: another one may serve by then */
            htc_client_close(c->client);
            c->client = NULL;
        }
        return s;
    }
    json_error_t e;
    json_t      *o = json_loads(reply, JSON_ALLOW_NUL, &e);
    if (!json_is_object(o)) {
        json_decref(o);
        return cli_error(c, HTC_EPROTO, "gateway", "", "its answer is not a JSON object: %s", e.text);
    }
    const char *error = j_str(o, "error");
    if (error[0]) {
        s = htc_status_from_name(error);
        take_error_object(c, o, s);
        if (s == HTC_EUNREACHABLE && c->gateway) { /* it serves no more: another one may */
            htc_client_close(c->client);
            c->client = NULL;
        }
        json_decref(o);
        return s;
    }
    *answer = o;
    return HTC_OK;
}

/* Nobody has heard of the request. */
static int was_not_sent(const cli *c, htc_status s)
{
    return !c->unanswered && (s == HTC_EUNREACHABLE || s == HTC_ECLOSED || (s == HTC_ETIMEDOUT && !c->client));
}

htc_status api_call(cli *c, json_t *request, double timeout_s, json_t **answer)
{
    double     until = now_s() + (c->gateway ? answer_s(c) : 0);
    htc_error  before = c->error;
    htc_status s;
    while ((s = ask_once(c, request, timeout_s, answer)) != HTC_OK && was_not_sent(c, s) && now_s() < until)
        pause_ms(200);
    if (s == HTC_OK)
        c->error = before;
    json_decref(request);
    if (s != HTC_OK && c->unanswered)
        snprintf(c->error.hint, sizeof c->error.hint,
                 "the outcome is not known, it may be done all the same; the same command may be given again");
    return s;
}

/* One that does not answer may have been followed by another one. */
static int has_others(const cli *c)
{
    return c->gateway && strchr(c->gateway, ',');
}

htc_status api_ask(cli *c, json_t *request, double timeout_s, double patience_s, json_t **answer)
{
    double     until = now_s() + (c->timeout_s > 0 && c->timeout_s < patience_s ? c->timeout_s : patience_s);
    unsigned   pause = 50;
    htc_error  before = c->error; /* of attempts that failed nobody hears if one succeeds */
    htc_status s;
    for (;;) {
        s = ask_once(c, request, timeout_s, answer);
        if ((s != HTC_ECLOSED && s != HTC_EUNREACHABLE && s != HTC_EBUSY && s != HTC_AGAIN && (s != HTC_ETIMEDOUT || !has_others(c))) || c->nowhere ||
            now_s() >= until)
            break;
        double left_ms = (until - now_s()) * 1e3;
        pause_ms(left_ms < pause ? (unsigned)(left_ms > 0 ? left_ms : 0) + 1 : pause);
        pause = pause < 800 ? pause * 2 : 1000;
    }
    if (s == HTC_OK)
        c->error = before;
    json_decref(request);
    return s;
}

htc_status api_upload(cli *c, const char *path, char hex[65], progress *p)
{
    struct stat st;
    htc_status  s = open_client(c);
    if (s != HTC_OK)
        return s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        const char *why = fd < 0 ? strerror(errno) : S_ISDIR(st.st_mode) ? "it is a directory" : "not a plain file";
        s = cli_error(c, HTC_EINPUT, path, "check the name and its permissions", "cannot read the input: %s", why);
        if (fd >= 0)
            close(fd);
        return s;
    }
    progress_say(p, "uploading %s (%s)", path, show_size((double)st.st_size).s);
    uint8_t hash[32];
    s = htc_client_upload(c->client, fd, hash, &c->error);
    close(fd);
    if (s == HTC_OK)
        htc_content_hex(hash, hex);
    else if (s == HTC_ETIMEDOUT || s == HTC_EUNREACHABLE)
        snprintf(c->error.hint, sizeof c->error.hint, "nothing was submitted yet; the same command may be given again");
    if (s != HTC_OK && !c->error.where[0])
        snprintf(c->error.where, sizeof c->error.where, "%s", path);
    return s;
}

/* As one content, which is made in a file without a name. */
htc_status api_upload_tree(cli *c, const char *path, char hex[65], progress *p)
{
    uint8_t    hash[32];
    htc_status s = open_client(c);
    if (s != HTC_OK)
        return s;
    const char *tmp = getenv("TMPDIR");
    FILE       *f = NULL;
    int         fd = open(tmp && tmp[0] ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (f = tmpfile()))
        fd = fileno(f);
    if (fd < 0)
        return cli_error(c, HTC_EIO, path, "TMPDIR names the directory", "cannot make a temporary file: %s", strerror(errno));
    progress_say(p, "reading %s", path);
    s = htc_content_tree(path, fd, &c->error);
    struct stat st = { 0 };
    if (s == HTC_OK && fstat(fd, &st) == 0)
        progress_say(p, "uploading %s (%s)", path, show_size((double)st.st_size).s);
    if (s == HTC_OK)
        s = htc_client_upload(c->client, fd, hash, &c->error);
    if (f)
        fclose(f);
    else
        close(fd);
    if (s == HTC_OK)
        htc_content_hex(hash, hex);
    else if (s == HTC_EPATH && !c->error.hint[0])
        snprintf(c->error.hint, sizeof c->error.hint, "make it a relative link to something in the directory, or a copy");
    if (s != HTC_OK && !c->error.where[0])
        snprintf(c->error.where, sizeof c->error.where, "%s", path);
    return s;
}

htc_status api_download(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, int fd, uint64_t *size,
                        char hex[65])
{
    uint8_t    hash[32];
    htc_status s = open_client(c);
    if (s == HTC_OK)
        s = htc_client_download(c->client, job, task, attempt, name, fd, size, hash, &c->error);
    if (s == HTC_OK && hex)
        htc_content_hex(hash, hex);
    return s;
}

void api_ahead(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name)
{
    if (c->client)
        htc_client_ahead(c->client, job, task, attempt, name, NULL); /* what is wrong comes out when it is waited for */
}

htc_status api_read(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, uint64_t offset,
                    htc_bytes *bytes, uint64_t *size)
{
    htc_status s = open_client(c);
    if (s == HTC_OK)
        s = htc_client_read(c->client, job, task, attempt, name, offset, bytes, size, &c->error);
    if (s == HTC_EUNREACHABLE) { /* the next request dials again */
        htc_client_close(c->client);
        c->client = NULL;
    }
    return s;
}

htc_status api_one_job(cli *c, const selection *sel, json_t **job)
{
    json_t    *answer;
    selection  whole = *sel;
    const char *selector = sel->id;
    whole.id = must_print("%.*s", (int)strcspn(selector, "."), selector);
    htc_status s = api_ask(c, selection_request(&whole, "status"), 0, 30, &answer);
    free(whole.id);
    if (s != HTC_OK)
        return s;
    json_t *jobs = json_object_get(answer, "jobs");
    if (json_array_size(jobs) != 1)
        s = json_array_size(jobs) == 0
                ? cli_error(c, HTC_ENOTFOUND, selector, "htc status lists your jobs", "no such job")
                : cli_error(c, HTC_EUSAGE, selector, "name one job by its number", "this names %zu jobs",
                            json_array_size(jobs));
    else
        *job = json_incref(json_array_get(jobs, 0));
    json_decref(answer);
    return s;
}
