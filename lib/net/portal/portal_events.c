/* Streams of events. Once a second the gateway is asked what the open pages show, once for all pages of one login that look at the same job; what
 * differs from the last answer is told. Nothing is kept for a page that reads slowly but a bit for each topic: it is told the newest. */
#include "net/portal/portal_private.h"

#include <stdio.h>
#include <string.h>

#define TOPICS 5u
#define ALIVE_EVERY (15 * HTC_SECOND) /* a line that says nothing, so that who is gone is noticed */
#define ANSWER_NS (30 * HTC_SECOND)   /* an answer is not waited for longer */

/* The last two are of the job that the page looks at. */
static const struct {
    const char *event, *op, *of, *more; /* more: of the request */
} topics[TOPICS] = { { "jobs", "status", "", "" }, { "users", "users", "", "" }, { "agents", "agents", "", ",\"limit\":200" }, { "job", "status", "id", "" }, { "why", "why", "id", "" } };

struct feed {
    portal       *portal;
    feed         *next;
    visitor      *listeners;
    htc__guest    guest;
    struct event *later;
    uint64_t      job; /* 0: none */
    htc_buf       last[TOPICS];
    htc_ns        asked[TOPICS]; /* 0: not under way */
    uint64_t      round;         /* of the last question, in the ids of the messages */
    uint64_t      id[TOPICS];
    uint32_t      news;
    int           known, over; /* the token counts; it does not (any more) */
    int           welcomed;    /* all was asked for once */
    char          token[PORTAL_TOKEN_LEN + 1];
};

int htc__portal_number(htc_bytes text, uint64_t *number)
{
    const char *p = text.data;
    uint64_t    n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9' || n >= (UINT64_C(1) << 53) / 10)
            return 0;
        n = n * 10 + (uint64_t)(p[i] - '0');
    }
    *number = n;
    return text.len > 0;
}

/* ---- asking ---- */

static void hear(void *ctx, htc_bytes message)
{
    static const char auth[] = "{\"error\":\"HTC_EAUTH\"", expired[] = "{\"error\":\"HTC_EEXPIRED\"", busy[] = "{\"error\":\"HTC_EBUSY\"";
    feed             *f = ctx;
    uint16_t          type;
    uint64_t          id;
    htc_reader        r = htc_wire_open(message, &type, &id);
    htc_bytes         text = { r.p, htc_reader_left(&r) };
    uint32_t          i = 0;
    if (type != HTC_WIRE_USER_ANSWER)
        return;
    while (i < TOPICS && f->id[i] != id)
        i++;
    if (i == TOPICS)
        return;
    f->asked[i] = 0;
    f->id[i] = 0;
    if (text.len > sizeof busy && memcmp(text.data, busy, sizeof busy - 1) == 0)
        return; /* the next answer says more */
    if (text.len > sizeof expired && (memcmp(text.data, auth, sizeof auth - 1) == 0 || memcmp(text.data, expired, sizeof expired - 1) == 0))
        f->over = 1;
    else
        f->known = 1;
    if (!f->over && htc_bytes_equal(text, htc_buf_bytes(&f->last[i])))
        return;
    htc_buf_clear(&f->last[i]);
    htc_put_raw(&f->last[i], text);
    f->news |= 1u << i;
    event_active(f->later, EV_TIMEOUT, 0);
}

static void gone(void *ctx, htc_status why)
{
    feed *f = ctx;
    (void)why;
    memset(f->asked, 0, sizeof f->asked); /* the next look opens another */
    memset(f->id, 0, sizeof f->id);
}

static void ask(feed *f, uint32_t i, htc_ns now)
{
    htc_buf message;
    htc_buf_init(&message, f->portal->host->env, 4096);
    f->id[i] = ++f->round;
    f->asked[i] = now;
    htc_wire_begin(&message, HTC_WIRE_USER_REQUEST, f->id[i]);
    htc_put_text(&message, "{\"op\":\"%s\",\"token\":\"%s\"%s", topics[i].op, f->token, topics[i].more);
    if (topics[i].of[0])
        htc_put_text(&message, ",\"id\":\"%llu\"", (unsigned long long)f->job);
    htc_put_text(&message, "}");
    if (message.status == HTC_OK)
        htc__guest_say(&f->guest, htc_buf_bytes(&message));
    if (message.len)
        explicit_bzero(message.data, message.len);
    htc_buf_free(&message);
}

static void look(feed *f)
{
    htc_ns now = htc_host_now();
    if (!f->guest.peer) {
        f->guest = (htc__guest){ .hear = hear, .gone = gone, .ctx = f };
        if (htc__guest_open(f->portal->host, &f->guest, &f->portal->info) != HTC_OK)
            return;
        htc__portal_hello(&f->guest);
    }
    for (uint32_t i = 0; i < TOPICS && !f->over; i++) {
        if ((i > 0 && !f->known) || (topics[i].of[0] && !f->job))
            continue;
        if (f->asked[i] == 0 || now - f->asked[i] > ANSWER_NS)
            ask(f, i, now);
    }
}

/* ---- telling ---- */

static void put_event(visitor *v, const char *event, htc_bytes data)
{
    htc_put_text(&v->out, "event: %s\ndata: ", event);
    htc_put_raw(&v->out, data);
    htc_put_text(&v->out, "\n\n");
}

void htc__portal_speak(visitor *v)
{
    const feed *f = v->feed;
    if (v->out.len) { /* and then what it has not been told */
        htc__portal_push(v);
        return;
    }
    if (!f || (!v->dirty && !f->over))
        return;
    for (uint32_t i = 0; i < TOPICS && !f->over; i++)
        if (v->dirty & 1u << i)
            put_event(v, topics[i].event, htc_buf_bytes(&f->last[i]));
    v->dirty = 0;
    if (f->over) {
        put_event(v, "over", htc_bytes_of("{}"));
        htc__portal_unlisten(v);
        v->state = VISITOR_TAKES;
        htc__portal_patience(v);
    }
    v->said_at = htc_host_now();
    if (v->out.status != HTC_OK)
        htc__portal_free(v);
    else
        htc__portal_push(v);
}

static void on_news(evutil_socket_t fd, short what, void *arg)
{
    feed    *f = arg;
    uint32_t news = f->news;
    (void)fd, (void)what;
    f->news = 0;
    if (f->known && !f->welcomed) { /* the rest at once, not with the next look */
        f->welcomed = 1;
        look(f);
    }
    for (visitor *v = f->listeners, *next; v; v = next) { /* the feed may go with the last of them */
        next = v->next_listener;
        v->dirty |= news;
        htc__portal_speak(v);
    }
}

/* ---- who listens ---- */

static feed *feed_new(portal *p, const char *token, uint64_t job)
{
    feed *f = htc__alloc(p->host->env, sizeof *f);
    if (!f)
        return NULL;
    f->portal = p;
    f->job = job;
    memcpy(f->token, token, sizeof f->token);
    for (uint32_t i = 0; i < TOPICS; i++)
        htc_buf_init(&f->last[i], p->host->env, HTC_WIRE_MESSAGE_MAX);
    f->later = evtimer_new(p->host->base, on_news, f);
    if (!f->later) {
        htc__free(p->host->env, f, sizeof *f);
        return NULL;
    }
    f->next = p->feeds;
    p->feeds = f;
    return f;
}

static void feed_free(feed *f)
{
    portal *p = f->portal;
    feed  **at = &p->feeds;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    htc__guest_close(&f->guest);
    event_free(f->later);
    for (uint32_t i = 0; i < TOPICS; i++)
        htc_buf_free(&f->last[i]);
    explicit_bzero(f->token, sizeof f->token);
    htc__free(p->host->env, f, sizeof *f);
}

void htc__portal_unlisten(visitor *v)
{
    feed     *f = v->feed;
    visitor **at = &f->listeners;
    while (*at != v)
        at = &(*at)->next_listener;
    *at = v->next_listener;
    v->feed = NULL;
    v->next_listener = NULL;
    v->portal->streams--;
    if (!f->listeners)
        feed_free(f);
}

static uint32_t streams_of(const portal *p, const char *token)
{
    uint32_t n = 0;
    for (const visitor *v = p->first; v; v = v->next)
        n += v->feed && strcmp(v->token, token) == 0;
    return n;
}

void htc__portal_listen(visitor *v, htc_bytes query)
{
    portal   *p = v->portal;
    uint64_t  job = 0;
    htc_bytes text;
    if (htc__http_request_argument(query, "job", &text) && !htc__portal_number(text, &job)) {
        htc__portal_refuse(v, HTC_EINVAL, "say job=ID", "this names no job");
        return;
    }
    if (p->streams >= PORTAL_STREAMS_MAX || streams_of(p, v->token) >= PORTAL_STREAMS_OF_SESSION) {
        htc__portal_refuse(v, HTC_EBUSY, "close one of them", "too many pages are open");
        return;
    }
    feed *f = p->feeds;
    while (f && (f->job != job || f->over || strcmp(f->token, v->token) != 0))
        f = f->next;
    int fresh = !f;
    if (!f && !(f = feed_new(p, v->token, job))) {
        htc__portal_refuse(v, HTC_ENOMEM, "", "out of memory");
        return;
    }
    v->feed = f;
    v->next_listener = f->listeners;
    f->listeners = v;
    p->streams++;
    for (uint32_t i = 0; i < TOPICS; i++)
        v->dirty |= f->last[i].len ? 1u << i : 0;
    v->state = VISITOR_STREAMS;
    v->said_at = htc_host_now();
    event_del(v->timer);
    htc__portal_head(v, 200, "text/event-stream", UINT64_MAX, "X-Accel-Buffering: no\r\n"); /* a proxy holds nothing back */
    event_active(v->later, EV_TIMEOUT, 0);
    if (fresh)
        look(f);
}

void htc__portal_tick(evutil_socket_t fd, short what, void *arg)
{
    portal *p = arg;
    htc_ns  now = htc_host_now();
    (void)fd, (void)what;
    for (feed *f = p->feeds; f; f = f->next)
        look(f);
    for (visitor *v = p->first, *next; v; v = next) {
        next = v->next;
        if (v->state != VISITOR_STREAMS)
            continue;
        if (v->out.len && now - v->said_at > p->patience) { /* it does not read */
            htc__portal_free(v);
        } else if (!v->out.len && now - v->said_at > ALIVE_EVERY) {
            htc_put_text(&v->out, ":\n\n");
            v->said_at = now;
            htc__portal_push(v);
        }
    }
}
