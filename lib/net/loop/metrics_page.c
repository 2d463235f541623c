/* The page for monitors: one request a connection, an answer, the end. Whoever holds on is closed by the clock, or by the next one. */
#include "htcsched/metrics_host.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop/host_private.h"
#include "net/loop/http_answer.h"
#include "net/loop/http_request.h"

#define HEAD_MAX     8192
#define VISITORS_MAX 16
#define PATIENCE     (10 * HTC_SECOND) /* for all of a request and its answer */

typedef struct page page;

typedef struct visitor {
    struct visitor *next; /* a later one */
    page           *page;
    int             fd;
    struct event   *read, *write, *timer;
    htc_buf         out;
    size_t          sent, head_len;
    int             answered, ended; /* ended: it says nothing more */
    char            head[HEAD_MAX];
} visitor;

struct page {
    htc_host           *host;
    htc_host_metrics_fn write;
    void               *ctx;
    htc_metrics        *text;
    visitor            *first; /* the oldest */
    uint32_t            count;
    htc__hook           hook;
};

static void visitor_free(visitor *v)
{
    htc_host *h = v->page->host;
    visitor **at = &v->page->first;
    while (*at && *at != v)
        at = &(*at)->next;
    if (*at) {
        *at = v->next;
        v->page->count--;
    }
    struct event *events[] = { v->read, v->write, v->timer };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    close(v->fd);
    htc_buf_free(&v->out);
    htc__free(h->env, v, sizeof *v);
}

static void put_answer(visitor *v, int status, const char *type, htc_bytes body, int head_only)
{
    htc_put_text(&v->out, "HTTP/1.1 %d %s\r\n%sContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                 status, htc__http_reason(status), status == 405 ? "Allow: GET\r\n" : "", type, body.len);
    if (!head_only)
        htc_put_raw(&v->out, body);
}

static void put_refusal(visitor *v, int status, int head_only)
{
    char text[64];
    evutil_snprintf(text, sizeof text, "%d %s\n", status, htc__http_reason(status));
    put_answer(v, status, "text/plain; charset=utf-8", htc_bytes_of(text), head_only);
}

static void put_page(visitor *v)
{
    page     *p = v->page;
    htc_bytes text;
    htc_metrics_clear(p->text);
    p->write(p->ctx, p->text);
    htc_status status = htc_metrics_end(p->text, &text);
    if (status == HTC_OK) {
        put_answer(v, 200, HTC_METRICS_CONTENT_TYPE, text, 0);
        return;
    }
    htc__log(p->host->env, HTC_LOG_ERROR, "the page for monitors: %s -> answer 500", htc_strerror(status));
    put_refusal(v, 500, 0);
}

/* The other side closes when it has read all: our close first would throw away what it has sent and we have not read. */
static void push(visitor *v)
{
    htc__http_push_end end = htc__http_push(v->fd, htc_buf_bytes(&v->out), &v->sent, v->write);
    if (end == HTC__HTTP_BROKEN)
        visitor_free(v);
    if (end != HTC__HTTP_ALL)
        return;
    shutdown(v->fd, SHUT_WR);
    if (v->ended)
        visitor_free(v);
}

static void answer(visitor *v, int status)
{
    htc__http_request r;
    int               read = htc__http_request_read((htc_bytes){ v->head, v->head_len }, &r);
    int               head_only = read == 200 && htc_bytes_equal(r.method, htc_bytes_of("HEAD"));
    if (status == 200 && !htc_bytes_equal(r.path, htc_bytes_of("/metrics")))
        status = 404;
    else if (status == 200 && !htc_bytes_equal(r.method, htc_bytes_of("GET")))
        status = 405;
    v->answered = 1;
    if (status == 200)
        put_page(v);
    else
        put_refusal(v, status, head_only);
    if (v->out.status != HTC_OK)
        visitor_free(v);
    else
        push(v);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    push(arg);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    visitor          *v = arg;
    htc__http_request r;
    char              more[4096]; /* behind the request: it is read, so that the end is seen, and dropped */
    (void)what;
    ssize_t n = v->answered ? read(fd, more, sizeof more) : read(fd, v->head + v->head_len, HEAD_MAX - v->head_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 && !(n == 0 && v->answered && v->sent < v->out.len)) {
        visitor_free(v);
        return;
    }
    if (n == 0) { /* it has said all, and reads on */
        v->ended = 1;
        event_del(v->read);
        return;
    }
    if (v->answered)
        return;
    int line_ends = memchr(v->head + v->head_len, '\n', (size_t)n) != NULL;
    v->head_len += (size_t)n;
    int status = line_ends ? htc__http_request_read((htc_bytes){ v->head, v->head_len }, &r) : 0;
    if (status == 0 && v->head_len == HEAD_MAX)
        status = 431;
    if (status != 0)
        answer(v, status);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    visitor *v = arg;
    (void)fd, (void)what;
    if (v->answered || v->head_len == 0) {
        visitor_free(v);
        return;
    }
    struct timeval a_second = { 1, 0 };
    event_add(v->timer, &a_second); /* to take the answer in */
    answer(v, 408);
}

static void visit(void *ctx, int fd)
{
    page          *p = ctx;
    htc_host      *h = p->host;
    struct timeval patience = htc__timeval(PATIENCE);
    if (p->count == VISITORS_MAX)
        visitor_free(p->first);
    visitor *v = htc__alloc(h->env, sizeof *v);
    if (!v) {
        close(fd);
        return;
    }
    v->page = p;
    v->fd = fd;
    htc_buf_init(&v->out, h->env, (size_t)2 << 20);
    v->read = event_new(h->base, fd, EV_READ | EV_PERSIST, on_read, v);
    v->write = event_new(h->base, fd, EV_WRITE, on_write, v);
    v->timer = evtimer_new(h->base, on_time, v);
    if (!v->read || !v->write || !v->timer || event_add(v->read, NULL) != 0 || event_add(v->timer, &patience) != 0) {
        visitor_free(v);
        return;
    }
    visitor **last = &p->first;
    while (*last)
        last = &(*last)->next;
    *last = v;
    p->count++;
}

/* Its listener is freed later, but the loop does not run any more. */
static void page_free(void *ctx)
{
    page *p = ctx;
    while (p->first)
        visitor_free(p->first);
    htc_metrics_destroy(p->text);
    htc__free(p->host->env, p, sizeof *p);
}

htc_status htc_host_listen_metrics(htc_host *host, const htc_host_metrics_options *options, uint16_t *bound,
                                   htc_error *error)
{
    htc_host_metrics_options o = { 0 };
    if (!host || !options || !options->address || !options->write)
        return htc__error(error, HTC_EINVAL, "an address and what writes the page are needed");
    htc_status status =
        htc__options_copy(&o, sizeof o, options, options->size, offsetof(htc_host_metrics_options, mode));
    if (status != HTC_OK)
        return htc__error(error, status, "options of a page for monitors: %s", htc_strerror(status));
    page *p = htc__alloc(host->env, sizeof *p);
    if (!p || htc_metrics_create(host->env, 0, &p->text) != HTC_OK) {
        htc__free(host->env, p, sizeof *p);
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    p->host = host;
    p->write = o.write;
    p->ctx = o.ctx;
    status = htc__listen_visitors(host, o.address, o.mode, visit, p, bound, error);
    if (status != HTC_OK) {
        page_free(p);
        return status;
    }
    p->hook = (htc__hook){ page_free, p, NULL };
    htc__host_hook(host, &p->hook);
    return HTC_OK;
}
