/* Connections of the portal: each is one request and its answer. */
#include "net/portal/portal_private.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop/http_answer.h"

#define READ_AT_ONCE ((size_t)64 << 10)
#define TICK HTC_SECOND

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
                             "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/* What a body counts for among the larger ones. */
static size_t counted(size_t length)
{
    return length > PORTAL_BODY_SMALL ? length : 0;
}

/* ---- the end of a connection ---- */

void htc__portal_free(visitor *v)
{
    portal   *p = v->portal;
    visitor **at = &p->first;
    if (v->feed)
        htc__portal_unlisten(v);
    htc__guest_close(&v->guest);
    htc__portal_archive_free(v);
    while (*at && *at != v)
        at = &(*at)->next;
    if (*at) {
        *at = v->next;
        p->count--;
    }
    p->bodies -= counted(v->announced);
    struct event *events[] = { v->read, v->write, v->timer, v->later };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    close(v->fd);
    explicit_bzero(v->token, sizeof v->token);
    if (v->in.len)
        explicit_bzero(v->in.data, v->in.len); /* passwords and sessions */
    if (v->out.len)
        explicit_bzero(v->out.data, v->out.len);
    htc_buf_free(&v->in);
    htc_buf_free(&v->out);
    htc_buf_free(&v->answer);
    htc_buf_free(&v->name);
    htc__free(p->host->env, v, sizeof *v);
}

void htc__portal_patience(visitor *v)
{
    htc_ns all = v->portal->patience, left = all, passed = v->begun ? htc_host_now() - v->began : 0, steps = v->offset / PORTAL_STEP;
    if (v->begun && passed / all >= steps)
        left = passed < all * (steps + 1) ? all * (steps + 1) - passed : 0;
    struct timeval tv = htc__timeval(left < all ? left : all);
    event_add(v->timer, &tv);
}

/* ---- answers ---- */

int htc__portal_http_status(htc_status status)
{
    switch (status) {
    case HTC_OK: return 200;
    case HTC_EAUTH:
    case HTC_EEXPIRED: return 401;
    case HTC_EDENIED: return 403;
    case HTC_ENOTFOUND: return 404;
    case HTC_ETOOBIG: return 413;
    case HTC_EBUSY:
    case HTC_ETIMEDOUT:
    case HTC_ECLOSED:
    case HTC_EUNREACHABLE: /* another gateway is active, or a host is away */
    case HTC_ESTORE: return 503;
    case HTC_EINTERNAL:
    case HTC_ENOMEM: return 500;
    default: return 400;
    }
}

void htc__portal_head(visitor *v, int status, const char *type, uint64_t length, const char *more)
{
    htc_put_text(&v->out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", status, htc__http_reason(status), type);
    if (length != UINT64_MAX)
        htc_put_text(&v->out, "Content-Length: %llu\r\n", (unsigned long long)length);
    htc_put_text(&v->out, "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                          "X-Frame-Options: DENY\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
                          "Content-Security-Policy: %s\r\n", policy);
    htc_put_raw(&v->out, htc_bytes_of(more));
    htc_put_text(&v->out, "\r\n");
}

void htc__portal_answer(visitor *v, int status, const char *type, htc_bytes body, const char *cookie)
{
    char more[256] = "";
    if (cookie[0])
        snprintf(more, sizeof more, "Set-Cookie: %s\r\n", cookie);
    htc__portal_head(v, status, type, body.len, more);
    if (!v->head_only)
        htc_put_raw(&v->out, body);
    explicit_bzero(more, sizeof more);
    v->state = VISITOR_TAKES;
    htc__portal_patience(v);
    event_active(v->later, EV_TIMEOUT, 0);
}

/* An HTTP status that is none of a gateway's. */
static void refuse_as(visitor *v, int http, htc_status status, const char *message, const char *hint)
{
    char text[512];
    int  n = snprintf(text, sizeof text, "{\"error\":\"%s\",\"message\":\"%s\",\"hint\":\"%s\"}", htc_status_name(status), message, hint);
    htc__portal_answer(v, http, "application/json", (htc_bytes){ text, n > 0 && (size_t)n < sizeof text ? (size_t)n : 0 }, "");
}

/* format and hint make no text that JSON would have to escape. */
void htc__portal_refuse(visitor *v, htc_status status, const char *hint, const char *format, ...)
{
    char    text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    refuse_as(v, htc__portal_http_status(status), status, text, hint);
}

void htc__portal_push(visitor *v)
{
    htc__http_push_end end = htc__http_push(v->fd, htc_buf_bytes(&v->out), &v->sent, v->write);
    if (end == HTC__HTTP_BROKEN)
        htc__portal_free(v);
    if (end != HTC__HTTP_ALL)
        return;
    v->sent = 0;
    htc_buf_clear(&v->out);
    if (v->state == VISITOR_STREAMS && v->dirty)
        htc__portal_speak(v);
    else if (v->state == VISITOR_TAKES)
        htc__portal_taken(v);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    htc__portal_push(arg);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    visitor *v = arg;
    (void)fd, (void)what;
    if (v->out.status != HTC_OK)
        htc__portal_free(v);
    else if (v->state == VISITOR_ASKS)
        htc__portal_ask_go_on(v);
    else if (v->state == VISITOR_STREAMS)
        htc__portal_speak(v);
    else
        htc__portal_push(v);
}

/* ---- who may ask what ---- */

static int same_text(htc_bytes value, const char *text)
{
    return value.len == strlen(text) && strncasecmp(value.data, text, value.len) == 0;
}

int htc__portal_is_host(const char *host, htc_bytes value)
{
    static const char usual[] = ":80";
    size_t            n = strlen(host), m = sizeof usual - 1;
    int               bare = n > m && value.len == n - m && strcmp(host + n - m, usual) == 0;
    return same_text(value, host) || (bare && strncasecmp(value.data, host, value.len) == 0);
}

static int is_local(const portal *p, htc_bytes value)
{
    return htc__portal_is_host(p->hosts[0], value) || htc__portal_is_host(p->hosts[1], value);
}

/* Host names this portal; which of its names is noted. */
static int host_is_ours(visitor *v, htc_bytes value)
{
    const portal *p = v->portal;
    v->is_public = p->origin[0] && same_text(value, p->origin + strlen("https://"));
    return v->is_public || is_local(p, value);
}

static int origin_is_ours(const visitor *v, htc_bytes value)
{
    static const char http[] = "http://";
    size_t            n = sizeof http - 1;
    if (v->is_public)
        return same_text(value, v->portal->origin);
    return value.len > n && memcmp(value.data, http, n) == 0 && is_local(v->portal, (htc_bytes){ (const char *)value.data + n, value.len - n });
}

/* A browser that says where a request comes from says: from the page. */
static int is_from_page(const htc__http_request *r)
{
    htc_bytes from;
    size_t    n = htc__http_request_field(r, "Sec-Fetch-Site", &from);
    return n == 0 || (n == 1 && (same_text(from, "same-origin") || same_text(from, "none")));
}

static const char *cookie_name(const visitor *v)
{
    return v->is_public ? "__Host-htc_session" : "htc_session";
}

void htc__portal_cookie(const visitor *v, const char *token, char *out, size_t cap)
{
    snprintf(out, cap, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s", cookie_name(v), token, v->is_public ? "; Secure" : "", token[0] ? "" : "; Max-Age=0");
}

/* The session's cookie: 64 hex digits, once. */
static void read_session(visitor *v, const htc__http_request *r)
{
    const char *name = cookie_name(v);
    char       *token = v->token;
    htc_bytes   value;
    size_t      found = 0, len = strlen(name) + 1;
    token[0] = '\0';
    if (htc__http_request_field(r, "Cookie", &value) != 1)
        return;
    const char *p = value.data, *end = p + value.len;
    while (p < end) {
        const char *semicolon = memchr(p, ';', (size_t)(end - p)), *stop = semicolon ? semicolon : end;
        size_t      n = (size_t)(stop - p);
        int         named = n >= len && memcmp(p, name, len - 1) == 0 && p[len - 1] == '=';
        if (named && n == len + PORTAL_TOKEN_LEN) {
            memcpy(token, p + len, PORTAL_TOKEN_LEN);
            token[PORTAL_TOKEN_LEN] = '\0';
            found++;
        } else if (named) {
            found = 2;
        }
        for (p = semicolon ? semicolon + 1 : end; p < end && *p == ' '; p++)
            ;
    }
    if (found != 1 || strspn(token, "0123456789abcdef") != PORTAL_TOKEN_LEN)
        token[0] = '\0';
}

/* What a user may ask for by the page. Who may do it is the gateway's to say. */
static const char *const ops[] = { "agents", "blob", "cancel", "du", "generate", "history", "hold", "log", "ping", "quota", "release",
                                   "results", "resubmit", "retry", "rm", "status", "submit", "tasks", "users", "validate", "why" };

static const char *op_of(htc_bytes path)
{
    static const char before[] = "/api/";
    size_t            n = sizeof before - 1;
    for (size_t i = 0; path.len > n && memcmp(path.data, before, n) == 0 && i < sizeof ops / sizeof *ops; i++)
        if (path.len - n == strlen(ops[i]) && memcmp((const char *)path.data + n, ops[i], path.len - n) == 0)
            return ops[i];
    return NULL;
}

static int is_path(const htc__http_request *r, const char *path)
{
    return htc_bytes_equal(r->path, htc_bytes_of(path));
}

/* Of one session no more are open at once. 0: it has been answered. */
static int has_room(visitor *v)
{
    uint32_t n = 0;
    for (const visitor *w = v->portal->first; w; w = w->next)
        n += w != v && !w->feed && w->state != VISITOR_ENDS && strcmp(w->token, v->token) == 0;
    if (n < PORTAL_ASKS_OF_SESSION)
        return 1;
    htc__portal_refuse(v, HTC_EBUSY, "wait for one of them", "%d requests of this session are open", PORTAL_ASKS_OF_SESSION);
    return 0;
}

/* One of the page's own files? 1: it has been answered. */
static int answer_file(visitor *v, const htc__http_request *r)
{
    static const char script[] = "text/javascript; charset=utf-8";
    const struct {
        const char      *path, *type;
        const htc_bytes *bytes;
    } files[] = { { "/", "text/html; charset=utf-8", &htc__portal_index_html },
                  { "/portal.css", "text/css; charset=utf-8", &htc__portal_portal_css },
                  { "/blake2b.js", script, &htc__portal_blake2b_js },
                  { "/portal.js", script, &htc__portal_portal_js },
                  { "/portal_jobs.js", script, &htc__portal_portal_jobs_js },
                  { "/portal_submit.js", script, &htc__portal_portal_submit_js },
                  { "/portal_system.js", script, &htc__portal_portal_system_js } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (is_path(r, files[i].path)) {
            htc__portal_answer(v, 200, files[i].type, *files[i].bytes, "");
            return 1;
        }
    return 0;
}

static void get(visitor *v, const htc__http_request *r)
{
    int session = v->token[0] != '\0';
    if (answer_file(v, r))
        return;
    if (!is_path(r, "/events") && !is_path(r, "/output") && !is_path(r, "/archive")) {
        htc__portal_refuse(v, HTC_ENOTFOUND, "see doc/portal.md", "there is no such page");
    } else if (!is_from_page(r)) {
        htc__portal_refuse(v, HTC_EDENIED, "open the portal itself", "the request comes from another site");
    } else if (!session) {
        htc__portal_refuse(v, HTC_EAUTH, "log in", "there is no session");
    } else if (v->head_only) {
        htc__portal_head(v, 200, "application/octet-stream", UINT64_MAX, "");
        v->state = VISITOR_TAKES;
        event_active(v->later, EV_TIMEOUT, 0);
    } else if (is_path(r, "/events")) {
        htc__portal_listen(v, r->query);
    } else if (has_room(v) && is_path(r, "/archive")) {
        if (v->user[0])
            htc__portal_archive(v, r->query);
        else
            htc__portal_ask_who(v);
    } else if (v->state == VISITOR_READS) {
        htc__portal_download(v, r->query);
    }
}

static void post(visitor *v, const htc__http_request *r, htc_bytes body)
{
    const char *op = op_of(r->path);
    if (is_path(r, "/login"))
        htc__portal_ask(v, PORTAL_ASK_LOGIN, "login", body);
    else if (is_path(r, "/logout"))
        htc__portal_ask(v, PORTAL_ASK_LOGOUT, "logout", body);
    else if (is_path(r, "/upload"))
        htc__portal_upload(v, r->query, body);
    else
        htc__portal_ask(v, PORTAL_ASK_API, op, body);
}

static size_t bodies_of_user(const visitor *v)
{
    size_t n = 0;
    for (const visitor *w = v->portal->first; w; w = w->next)
        n += strcmp(w->user, v->user) == 0 ? counted(w->announced) : 0;
    return n < PORTAL_BODIES_OF_USER ? n : PORTAL_BODIES_OF_USER;
}

/* What is wrong with the head of a request that wants to change something or to ask; 1: nothing, and how long the body is. */
static int post_is_ours(visitor *v, const htc__http_request *r, uint64_t *length)
{
    htc_bytes origin, header, type, text, other;
    int       upload = is_path(r, "/upload"), known = upload || is_path(r, "/login") || is_path(r, "/logout") || op_of(r->path) != NULL;
    size_t    origins = htc__http_request_field(r, "Origin", &origin);
    int       session = v->token[0] != '\0';
    size_t    most = !session || is_path(r, "/login") ? PORTAL_BODY_STRANGER : upload ? PORTAL_UPLOAD_PIECE : PORTAL_BODY_MAX;
    if (!known)
        htc__portal_refuse(v, HTC_ENOTFOUND, "see doc/portal.md", "there is no such request");
    else if (origins > 1 || (origins == 1 && !origin_is_ours(v, origin)) || !is_from_page(r))
        htc__portal_refuse(v, HTC_EDENIED, "open the portal itself", "the request comes from another site");
    else if (htc__http_request_field(r, "X-HTC-Portal", &header) != 1 || !same_text(header, "1"))
        htc__portal_refuse(v, HTC_EDENIED, "send X-HTC-Portal: 1", "the request does not come from the page");
    else if (htc__http_request_field(r, "Content-Type", &type) != 1 || !same_text(type, upload ? "application/octet-stream" : "application/json"))
        refuse_as(v, 415, HTC_EINVAL, upload ? "the body is no piece of a file" : "the body is no JSON",
                  upload ? "send Content-Type: application/octet-stream" : "send Content-Type: application/json");
    else if (htc__http_request_field(r, "Transfer-Encoding", &other) || htc__http_request_field(r, "Content-Length", &text) != 1 ||
             !htc__portal_number(text, length))
        refuse_as(v, 411, HTC_EINVAL, "a body has one Content-Length and no Transfer-Encoding", "");
    else if (!session && !is_path(r, "/login"))
        htc__portal_refuse(v, HTC_EAUTH, "log in", "there is no session");
    else if (*length > most)
        htc__portal_refuse(v, HTC_ETOOBIG, "", "a body has at most %zu bytes", most);
    else if (counted((size_t)*length) && !v->user[0]) {
        event_del(v->read); /* what comes has no room yet */
        htc__portal_ask_who(v);
    } else if (counted((size_t)*length) > PORTAL_BODIES_MAX - v->portal->bodies || counted((size_t)*length) > PORTAL_BODIES_OF_USER - bodies_of_user(v))
        htc__portal_refuse(v, HTC_EBUSY, "try again in a moment", "too many large requests are on their way");
    else
        return is_path(r, "/login") || has_room(v);
    return 0;
}

/* The head is whole. */
static void head_is_read(visitor *v, const htc__http_request *r)
{
    htc_bytes host;
    uint64_t  length = 0;
    int       is_get = htc_bytes_equal(r->method, htc_bytes_of("GET")), is_post = htc_bytes_equal(r->method, htc_bytes_of("POST"));
    v->head_only = htc_bytes_equal(r->method, htc_bytes_of("HEAD"));
    v->plain = r->plain;
    int is_ours = htc__http_request_field(r, "Host", &host) == 1 && host_is_ours(v, host);
    read_session(v, r);
    if (!is_ours) {
        refuse_as(v, 421, HTC_EDENIED, "Host is not the address of this portal", "open it by the address of server.portal or server.portal_origin");
    } else if (!is_get && !is_post && !v->head_only) {
        refuse_as(v, 405, HTC_EINVAL, "only GET, HEAD and POST are known", "");
    } else if (!is_post) {
        get(v, r);
    } else if (post_is_ours(v, r, &length)) {
        if (v->announced == 0) {
            v->announced = (size_t)length;
            v->portal->bodies += counted(v->announced);
        }
        if (v->in.len - r->length >= length)
            post(v, r, (htc_bytes){ v->in.data + r->length, (size_t)length });
        else
            return; /* more of the body is to come */
    }
    assert(v->state != VISITOR_READS);
}

static void bytes_came(visitor *v)
{
    htc__http_request r;
    if (v->announced) { /* the head was read and found good */
        int status = htc__http_request_read(htc_buf_bytes(&v->in), &r);
        if (status == 200 && v->in.len - r.length >= v->announced)
            post(v, &r, (htc_bytes){ v->in.data + r.length, v->announced });
        return;
    }
    int status = htc__http_request_read(htc_buf_bytes(&v->in), &r);
    if (status == 0 ? v->in.len > PORTAL_HEAD_MAX : status == 200 && r.length > PORTAL_HEAD_MAX)
        status = 431;
    if (status == 200)
        head_is_read(v, &r);
    else if (status != 0)
        refuse_as(v, status, HTC_EPROTO, "this is not a request that is understood", "");
}

void htc__portal_known(visitor *v)
{
    if (event_add(v->read, NULL) != 0) {
        htc__portal_free(v);
        return;
    }
    v->state = VISITOR_READS;
    htc__portal_patience(v);
    bytes_came(v);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    visitor *v = arg;
    char     more[4096]; /* behind the request: it is read, so that the end is seen, and dropped */
    (void)what;
    if (v->state != VISITOR_READS) {
        ssize_t n = read(fd, more, sizeof more);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            htc__portal_free(v);
        return;
    }
    size_t   len = v->in.len;
    uint8_t *room = htc_buf_extend(&v->in, READ_AT_ONCE);
    if (!room) {
        htc__portal_free(v);
        return;
    }
    ssize_t n = read(fd, room, READ_AT_ONCE);
    v->in.len = len + (n > 0 ? (size_t)n : 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        htc__portal_free(v);
    else
        bytes_came(v);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    visitor *v = arg;
    (void)fd, (void)what;
    if (v->state == VISITOR_READS && v->in.len) {
        refuse_as(v, 408, HTC_ETIMEDOUT, "the request did not come in time", "");
        htc__portal_patience(v);
    } else if (v->state == VISITOR_ASKS) {
        htc__guest_close(&v->guest);
        v->answered = -1;
        event_active(v->later, EV_TIMEOUT, 0);
        htc__portal_patience(v);
    } else {
        htc__portal_free(v);
    }
}

/* Room for one more: the oldest one goes that has not said what it wants, or has been told all; else the oldest that does not take its answer. */
static int make_room(portal *p)
{
    visitor *v = p->first;
    if (p->count < PORTAL_VISITORS_MAX + PORTAL_STREAMS_MAX && p->count - p->streams < PORTAL_VISITORS_MAX)
        return 1;
    while (v && v->state != VISITOR_READS && v->state != VISITOR_ENDS)
        v = v->next;
    for (visitor *w = p->first; w && !v; w = w->next)
        v = w->state == VISITOR_TAKES ? w : NULL;
    if (v)
        htc__portal_free(v);
    return v != NULL;
}

static void visit(void *ctx, int fd)
{
    portal  *p = ctx;
    visitor *v = make_room(p) ? htc__alloc(p->host->env, sizeof *v) : NULL;
    if (!v) {
        close(fd);
        return;
    }
    v->portal = p;
    v->fd = fd;
    v->state = VISITOR_READS;
    htc_buf_init(&v->in, p->host->env, PORTAL_HEAD_MAX + PORTAL_BODY_MAX + 2 * READ_AT_ONCE);
    htc_buf_init(&v->out, p->host->env, (size_t)20 << 20);
    htc_buf_init(&v->answer, p->host->env, (size_t)20 << 20);
    htc_buf_init(&v->name, p->host->env, 8192);
    v->read = event_new(p->host->base, fd, EV_READ | EV_PERSIST, on_read, v);
    v->write = event_new(p->host->base, fd, EV_WRITE, on_write, v);
    v->timer = evtimer_new(p->host->base, on_time, v);
    v->later = evtimer_new(p->host->base, on_later, v);
    visitor **last = &p->first;
    while (*last)
        last = &(*last)->next;
    *last = v;
    p->count++;
    if (!v->read || !v->write || !v->timer || !v->later || event_add(v->read, NULL) != 0) {
        htc__portal_free(v);
        return;
    }
    htc__portal_patience(v);
}

/* ---- life ---- */

/* Its listener is freed later, but the loop does not run any more. */
static void portal_free(void *ctx)
{
    portal *p = ctx;
    while (p->first)
        htc__portal_free(p->first);
    if (p->tick)
        event_free(p->tick);
    htc__free(p->host->env, p, sizeof *p);
}

static void name_hosts(portal *p, const char *address, uint16_t port)
{
    char     node[HTC__HOST_NAME_MAX];
    uint16_t given;
    (void)htc__address_split(address, node, &given);
    if (strchr(node, ':'))
        snprintf(p->hosts[0], sizeof p->hosts[0], "[%.60s]:%u", node, (unsigned)port);
    else
        snprintf(p->hosts[0], sizeof p->hosts[0], "%.60s:%u", node, (unsigned)port);
    snprintf(p->hosts[1], sizeof p->hosts[1], "localhost:%u", (unsigned)port);
}

htc_status htc_host_listen_portal(htc_host *host, const htc_host_portal_options *options, uint16_t *bound, htc_error *error)
{
    htc_host_portal_options o = { 0 };
    uint16_t                port = 0;
    struct timeval          tv = htc__timeval(TICK);
    if (!host || !options || !options->address)
        return htc__error(error, HTC_EINVAL, "an address is needed");
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_portal_options, port));
    if (status != HTC_OK)
        return htc__error(error, status, "options of a portal: %s", htc_strerror(status));
    if (strncmp(o.address, "unix:", 5) == 0)
        return htc__error(error, HTC_EINVAL, "the portal is at an address, not a path");
    if (o.origin && o.origin[0] && !htc__address_is_origin(o.origin))
        return htc__error(error, HTC_EINVAL, "'%.100s' is no origin: https://NAME or https://NAME:PORT, and nothing behind it", o.origin);
    portal *p = htc__alloc(host->env, sizeof *p);
    if (!p)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    p->host = host;
    snprintf(p->origin, sizeof p->origin, "%s", o.origin ? o.origin : "");
    p->patience = o.patience ? o.patience : PORTAL_PATIENCE;
    p->info = (htc_peer_info){ .transport = HTC_TRANSPORT_TCP, .uid = UINT32_MAX, .port = o.port };
    p->tick = event_new(host->base, -1, EV_PERSIST, htc__portal_tick, p);
    if (!p->tick || event_add(p->tick, &tv) != 0)
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    if (status == HTC_OK)
        status = htc__listen_visitors(host, o.address, 0, visit, p, &port, error);
    if (status != HTC_OK) {
        portal_free(p);
        return status;
    }
    name_hosts(p, o.address, port);
    if (bound)
        *bound = port;
    p->hook = (htc__hook){ portal_free, p, NULL };
    htc__host_hook(host, &p->hook);
    return HTC_OK;
}
