/* The portal over sockets, with a machine that only notes what it hears: what a request becomes, who asks it, and how it is answered. */
#include "expect.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire.h"
#include "htcsched/gateway_host.h"
#include "net/portal/portal_private.h"

#define TOKEN "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SESSION "Cookie: a=b; htc_session=" TOKEN "\r\n"
#define OURS "X-HTC-Portal: 1\r\nContent-Type: application/json\r\n"

typedef struct ear {
    htc_host   *host;
    uint16_t    port;
    atomic_uint opened, closed, others; /* others: peers that are not strangers of a loopback port */
    char        last[512];              /* the last request: read when its answer has come */
    unsigned    flood;                  /* answers to "status", each another one and long; 0: short ones */
    htc_ns      patience;
    int         room;                   /* of the other side to receive into, bytes; 0: as usual */
    htc_buf     out;
} ear;

static void answer(ear *e, htc_output *out, uint32_t peer, uint64_t id, const char *text)
{
    htc_wire_begin(&e->out, HTC_WIRE_USER_ANSWER, id);
    htc_put_raw(&e->out, htc_bytes_of(text));
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&e->out) });
}

/* Of a file that does not end. */
static void piece(ear *e, htc_output *out, uint32_t peer, uint64_t id, htc_reader r)
{
    static const uint8_t zeros[1 << 20];
    char                 text[128];
    htc_get_str(&r, text, sizeof text);
    htc_get_str(&r, text, sizeof text);
    (void)htc_get_u64(&r), (void)htc_get_u64(&r), (void)htc_get_u32(&r), (void)htc_get_bytes(&r);
    uint64_t offset = htc_get_u64(&r);
    uint32_t len = htc_get_u32(&r);
    cr_assert(eq(int, htc_reader_done(&r), HTC_OK) && le(u32, len, sizeof zeros));
    htc_wire_begin(&e->out, HTC_WIRE_FILE_BYTES, id);
    htc_put_u64(&e->out, offset);
    htc_put_u64(&e->out, UINT64_C(1) << 40);
    htc_put_u32(&e->out, 1);
    htc_put_bytes(&e->out, (htc_bytes){ zeros, len });
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&e->out) });
}

static void long_answer(ear *e, htc_output *out, uint32_t peer, uint64_t id)
{
    htc_wire_begin(&e->out, HTC_WIRE_USER_ANSWER, id);
    htc_put_text(&e->out, "{\"n\":%u,\"x\":\"", e->flood++);
    memset(htc_buf_extend(&e->out, (size_t)12 << 20), 'x', (size_t)12 << 20);
    htc_put_text(&e->out, "\"}");
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = htc_buf_bytes(&e->out) });
}

static void message(ear *e, const htc_input *in, htc_output *out)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(in->body, &type, &id);
    if (type == HTC_WIRE_HELLO) {
        htc_wire_welcome(&e->out, id, HTC_WIRE_VERSION);
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_buf_bytes(&e->out) });
        return;
    }
    if (type == HTC_WIRE_DOWNLOAD) {
        piece(e, out, in->peer, id, r);
        return;
    }
    snprintf(e->last, sizeof e->last, "%.*s", (int)htc_reader_left(&r), (const char *)r.p);
    if (strstr(e->last, "\"login\""))
        answer(e, out, in->peer, id, "{\"token\":\"" TOKEN "\",\"user\":\"u\",\"expires\":1.0}");
    else if (e->flood && strstr(e->last, "\"op\":\"status\""))
        long_answer(e, out, in->peer, id);
    else if (strstr(e->last, "\"nobody\""))
        answer(e, out, in->peer, id, "{\"error\":\"HTC_ENOTFOUND\",\"message\":\"no\"}");
    else if (strstr(e->last, "\"elsewhere\""))
        answer(e, out, in->peer, id, "{\"error\":\"HTC_EUNREACHABLE\",\"message\":\"this gateway waits: b at 10.0.0.2:7420 is active\"}");
    else if (strstr(e->last, "\"go\""))
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_EPROTO });
    else if (strstr(e->last, "\"end\""))
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    else if (!strstr(e->last, "\"wait\""))
        answer(e, out, in->peer, id, "{\"good\":1}");
}

static htc_status ear_step(void *self, const htc_input *in, htc_output *out)
{
    ear          *e = self;
    htc_peer_info info = { .transport = 0 };
    if (in->kind == HTC_IN_OPENED) {
        e->opened++;
        e->others += htc_peer_info_read(in->body, &info) != HTC_OK || info.transport != HTC_TRANSPORT_TCP || info.uid != UINT32_MAX || info.pid != 0 || info.port != 5;
    } else if (in->kind == HTC_IN_CLOSED) {
        e->closed++;
    } else if (in->kind == HTC_IN_MESSAGE) {
        message(e, in, out);
    }
    return HTC_OK;
}

static htc_ns ear_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

/* ---- the other side ---- */

static int dial(const ear *e)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(e->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->room)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &e->room, sizeof e->room);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void say(int fd, const char *text, size_t at_once)
{
    for (size_t at = 0, n = strlen(text); at < n;) {
        size_t  left = n - at < at_once ? n - at : at_once;
        ssize_t sent = send(fd, text + at, left, MSG_NOSIGNAL);
        cr_assert(sent > 0);
        at += (size_t)sent;
    }
}

static void write_request(const ear *e, char *out, size_t cap, const char *first, const char *fields, const char *body)
{
    snprintf(out, cap, "%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%sContent-Length: %zu\r\n\r\n%s", first, (unsigned)e->port, fields, strlen(body), body);
}

static void read_all(int fd, char got[4096])
{
    size_t  len = 0;
    ssize_t n;
    while (len < 4095 && (n = recv(fd, got + len, 4095 - len, 0)) > 0)
        len += (size_t)n;
    got[len] = '\0';
    close(fd);
}

static void ask(const ear *e, const char *first, const char *fields, const char *body, size_t at_once, char got[4096])
{
    char text[2048];
    int  fd = dial(e);
    write_request(e, text, sizeof text, first, fields, body);
    say(fd, text, at_once);
    read_all(fd, got);
}

static int starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void becomes(ear *e, const char *body, size_t at_once, const char *want)
{
    char got[4096];
    ask(e, "POST /api/ping", SESSION OURS, body, at_once, got);
    cr_expect(starts(got, "HTTP/1.1 200 "), "%s", got);
    cr_expect(strstr(got, "\r\n\r\n{\"good\":1}") != NULL, "%s", got);
    cr_expect(eq(str, e->last, (char *)want));
}

static void finish(const ear *e)
{
    char    text[2048];
    ssize_t n = 1;
    while (n > 0) { /* with little patience it may be told that it came too late */
        int fd = dial(e);
        write_request(e, text, sizeof text, "POST /api/ping", SESSION OURS, "{\"x\":\"end\"}");
        say(fd, text, 4096);
        n = recv(fd, text, 1, 0);
        close(fd);
    }
}

static void *browse(void *ctx)
{
    ear *e = ctx;
    char got[4096], text[2048];
    for (size_t at_once = 1; at_once < 4096; at_once *= 64) { /* also of who sends byte by byte */
        becomes(e, "{\"a\":1}", at_once, "{\"op\":\"ping\",\"token\":\"" TOKEN "\",\"a\":1}");
        becomes(e, " { } ", at_once, "{\"op\":\"ping\",\"token\":\"" TOKEN "\"} ");
    }
    becomes(e, "{\"token\":1}", 4096, "{\"op\":\"ping\",\"token\":\"" TOKEN "\",\"token\":1}");

    ask(e, "POST /login", OURS, "{\"name\":\"u\",\"password\":\"p\"}", 4096, got);
    cr_expect(eq(str, e->last, "{\"op\":\"login\",\"name\":\"u\",\"password\":\"p\"}"));
    cr_expect(strstr(got, "\r\nSet-Cookie: htc_session=" TOKEN "; Path=/; HttpOnly; SameSite=Strict\r\n") != NULL, "%s", got);
    cr_expect(strstr(got, "\r\n\r\n{\"user\":\"u\",\"expires\":1.0}") != NULL, "%s", got);

    /* Nothing of these is heard. */
    static const struct {
        const char *first, *fields, *answer;
    } refused[] = {
        { "POST /api/ping", OURS, "HTTP/1.1 401 " },
        { "POST /api/ping", SESSION "Content-Type: application/json\r\n", "HTTP/1.1 403 " },
        { "POST /api/ping", SESSION OURS "Origin: http://127.0.0.1\r\n", "HTTP/1.1 403 " },
        { "POST /api/ping", SESSION OURS "Host: 127.0.0.1\r\n", "HTTP/1.1 421 " },
        { "POST /api/wait", SESSION OURS, "HTTP/1.1 404 " },
        { "POST /api/ping", SESSION OURS "Transfer-Encoding: chunked\r\n", "HTTP/1.1 411 " },
        { "POST /api/ping", SESSION OURS "Content-Length: 2\r\n", "HTTP/1.1 411 " },
        { "POST /api/ping", SESSION SESSION OURS, "HTTP/1.1 401 " },
        { "PUT /api/ping", SESSION OURS, "HTTP/1.1 405 " },
        { "POST /api/ping", SESSION OURS "Origin: https://portal.example\r\n", "HTTP/1.1 403 " }, /* that of the other Host */
        { "POST /api/ping", SESSION OURS "Sec-Fetch-Site: same-site\r\n", "HTTP/1.1 403 " },
        { "POST /api/ping", SESSION OURS "Sec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n", "HTTP/1.1 403 " },
        { "POST /api/ping", "Cookie: __Host-htc_session=" TOKEN "\r\n" OURS, "HTTP/1.1 401 " },
        { "GET /events", "", "HTTP/1.1 401 " },
    };
    unsigned before = e->opened;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ask(e, refused[i].first, refused[i].fields, "{}", 4096, got);
        cr_expect(starts(got, refused[i].answer), "%s, %s is answered %s", refused[i].first, refused[i].fields, got);
        cr_expect(strstr(got, "\r\n\r\n{\"error\":\"HTC_E") != NULL, "%s", got);
    }
    ask(e, "POST /api/ping", SESSION OURS, "[]", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 400 "), "%s", got);
    cr_expect(eq(u32, e->opened, before));

    ask(e, "POST /api/ping", SESSION OURS, "{\"x\":\"nobody\"}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 404 "), "%s", got);
    ask(e, "POST /api/ping", SESSION OURS, "{\"x\":\"go\"}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 503 "), "%s", got);
    ask(e, "POST /api/ping", SESSION OURS, "{\"x\":\"elsewhere\"}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 503 ") && strstr(got, "b at 10.0.0.2:7420 is active"), "a gateway that waits: %s", got);

    /* Whoever goes away takes along what was asked. */
    unsigned closed = e->closed;
    int      fd = dial(e), half = dial(e);
    write_request(e, text, sizeof text, "POST /api/ping", SESSION OURS, "{\"x\":\"wait\"}");
    say(fd, text, 4096);
    text[strlen(text) - 3] = '\0';
    say(half, text, 4096);
    while (e->opened == before + 2)
        usleep(1000);
    close(fd);
    close(half);
    while (e->closed == closed)
        usleep(1000);

    finish(e);
    return NULL;
}

static void show(ear *e, void *(*browser)(void *ctx))
{
    htc_machine_ops         ops = { sizeof ops, ear_step, ear_deadline, NULL, 0 };
    htc_host_portal_options options = { .size = sizeof options, .address = "127.0.0.1:0", .port = 5, .patience = e->patience };
    htc_error               error;
    pthread_t               thread;
    htc_buf_init(&e->out, NULL, 0);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &e->host), HTC_OK));
    options.address = "0.0.0.0:0";
    cr_expect(eq(int, htc_host_listen_portal(e->host, &options, NULL, &error), HTC_EDENIED));
    options.address = "unix:portal";
    cr_expect(eq(int, htc_host_listen_portal(e->host, &options, NULL, &error), HTC_EINVAL));
    options.address = "127.0.0.1:0";
    options.origin = "https://a/";
    cr_expect(eq(int, htc_host_listen_portal(e->host, &options, NULL, &error), HTC_EINVAL));
    options.origin = "https://portal.example";
    cr_assert(eq(int, htc_host_listen_portal(e->host, &options, &e->port, &error), HTC_OK));
    cr_assert(eq(int, pthread_create(&thread, NULL, browser, e), 0));
    cr_expect(eq(int, htc_host_run(e->host, &ops, e), HTC_OK));
    htc_host_destroy(e->host);
    pthread_join(thread, NULL);
    cr_expect(eq(u32, e->others, 0));
    htc_buf_free(&e->out);
}

Test(portal, a_request_becomes_one_of_a_stranger, .timeout = 300)
{
    static ear e;
    show(&e, browse);
}

Test(portal, an_origin_is_a_name_behind_https)
{
    static const char *const good[] = { "https://a", "https://htc.example.org", "https://10.0.0.1:8443", "https://[::1]", "https://[fe80::1]:443" };
    static const char *const bad[] = { "", "https://", "http://a", "https://a/", "https://a?b", "https://u@a", "https://a:", "https://a:x", "https://a:123456",
                                       "https://[::1", "https://[]x", "https://a b", "https://a\r\nb", "HTTPS://a" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(htc__address_is_origin(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(not(htc__address_is_origin(bad[i])), "%s", bad[i]);
}

/* ---- bounds ---- */

static int begin(const ear *e, const char *first, const char *fields, const char *body)
{
    char text[2048];
    int  fd = dial(e);
    write_request(e, text, sizeof text, first, fields, body);
    say(fd, text, 4096);
    return fd;
}

/* It is asked again as often as the portal finds it too late. */
static int begin_heard(ear *e, const char *first, const char *fields, const char *body)
{
    for (;;) {
        unsigned      before = e->opened;
        int           fd = begin(e, first, fields, body);
        struct pollfd said = { .fd = fd, .events = POLLIN };
        while (e->opened == before && poll(&said, 1, 1) == 0)
            ;
        if (e->opened != before)
            return fd;
        close(fd);
    }
}

#define OUTPUT "GET /output?job=1&task=0&name=a"

static void *hold_on(void *ctx)
{
    ear     *e = ctx;
    char     got[4096];
    int      fds[PORTAL_ASKS_OF_SESSION];
    uint32_t n = sizeof fds / sizeof *fds;
    for (uint32_t i = 0; i < n; i++)
        fds[i] = begin(e, i % 2 ? OUTPUT : "POST /api/ping", i % 2 ? SESSION : SESSION OURS, i % 2 ? "" : "{\"x\":\"wait\"}");
    while (e->opened < n)
        usleep(1000);
    ask(e, OUTPUT, SESSION, "", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 503 "), "%.300s", got);
    ask(e, "POST /api/ping", SESSION OURS, "{}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 503 "), "%s", got);
    ask(e, "POST /api/ping", "Cookie: htc_session=" OTHER "\r\n" OURS, "{}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 200 "), "others are answered: %s", got);
    ask(e, "POST /login", SESSION OURS, "{\"name\":\"u\",\"password\":\"p\"}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 200 "), "and a login is: %s", got);
    unsigned closed = e->closed;
    close(fds[0]);
    while (e->closed == closed)
        usleep(1000);
    ask(e, "POST /api/ping", SESSION OURS, "{}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 200 "), "there is room again: %s", got);
    for (uint32_t i = 1; i < n; i++)
        close(fds[i]);

    /* All places, by many logins of one user. */
    int      held[PORTAL_VISITORS_MAX];
    unsigned before = e->opened;
    e->room = 1 << 16;
    while (e->closed < e->opened)
        usleep(1000);
    for (uint32_t i = 0; i < PORTAL_VISITORS_MAX; i++) {
        char session[128];
        snprintf(session, sizeof session, "Cookie: htc_session=%064x\r\n", i / PORTAL_ASKS_OF_SESSION);
        held[i] = begin(e, OUTPUT, session, "");
    }
    while (e->opened < before + PORTAL_VISITORS_MAX)
        usleep(1000);
    ask(e, "POST /api/ping", SESSION OURS, "{}", 4096, got);
    cr_expect(starts(got, "HTTP/1.1 200 "), "one of them has to go: %s", got);
    for (uint32_t i = 0; i < PORTAL_VISITORS_MAX; i++)
        close(held[i]);
    finish(e);
    return NULL;
}

Test(portal, a_session_has_no_more_than_its_share, .timeout = 300)
{
    static ear e;
    show(&e, hold_on);
}

/* Each of them is closed by the portal; one that is not makes this wait for ever. */
static void *dawdle(void *ctx)
{
    static char buf[1 << 17];
    ear        *e = ctx;
    char        got[4096];
    ssize_t     n = 1;
    int         fd = dial(e);
    say(fd, "POST /login HTTP/1.1\r\n", 4096);
    read_all(fd, got);
    cr_expect(starts(got, "HTTP/1.1 408 "), "a request that does not come: %s", got);
    read_all(begin_heard(e, "POST /api/ping", SESSION OURS, "{\"x\":\"wait\"}"), got);
    cr_expect(starts(got, "HTTP/1.1 503 "), "a gateway that does not answer: %s", got);

    unsigned closed = e->closed;
    fd = begin_heard(e, OUTPUT, SESSION, "");
    while (e->closed == closed)
        usleep(1000);
    close(fd);

    closed = e->closed;
    fd = begin_heard(e, "GET /events", SESSION, "");
    while (e->closed == closed)
        usleep(1000);
    close(fd);

    /* A piece in less than the patience, but all of it too slowly. */
    e->room = 1 << 16;
    fd = begin_heard(e, OUTPUT, SESSION, "");
    for (int steps = 0; n > 0; steps++) {
        n = recv(fd, buf, sizeof buf, MSG_WAITALL);
        usleep((useconds_t)(e->patience / 1000 / 12));
        cr_assert(lt(int, steps, 1000), "a slow download goes on");
    }
    close(fd);
    finish(e);
    return NULL;
}

Test(portal, who_does_not_read_is_closed, .timeout = 120)
{
    static ear e;
    e.patience = HTC_SECOND / 4;
    e.flood = 1;
    show(&e, dawdle);
}

Test(portal, browsers_leave_port_80_out)
{
    static const struct {
        const char *host, *value;
        int         is;
    } rows[] = {
        { "127.0.0.1:80", "127.0.0.1", 1 },      { "127.0.0.1:80", "127.0.0.1:80", 1 }, { "localhost:80", "LocalHost", 1 },
        { "[::1]:80", "[::1]", 1 },              { "[::1]:80", "[:", 0 },               { "127.0.0.1:80", "127.0.0.1:", 0 },
        { "127.0.0.1:80", "127.0.0.2", 0 },      { "127.0.0.1:8080", "127.0.0.1", 0 },  { "127.0.0.1:8080", "127.0.0.1:80", 0 },
        { "127.0.0.1:7071", "127.0.0.1", 0 },    { "127.0.0.1:80", "", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(htc__portal_is_host(rows[i].host, htc_bytes_of(rows[i].value)) == rows[i].is, "row %zu", i);
}
