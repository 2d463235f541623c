/* The connections to etcd's JSON gateway, and the kind of store that they make.
 *
 * A few connections, each with one request at a time; all go to one member, and to the next one when that fails. libevent
 * speaks HTTP; whether anything of a request had left when its connection failed is seen from what is still unwritten. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/util.h"
#include "kvs/wire/kv_wire.h"
#include "net/loop/address.h"
#include "net/loop/host_private.h"
#include "net/remote/etcd.h"
#include "net/remote/quiet.h"

#define SLOTS       8
#define MEMBERS_MAX 16
#define HEAD_MAX    ((size_t)16 << 10)
#define PAUSE       (50 * HTC_MS)
#define PAUSE_MAX   (2 * HTC_SECOND)
#define FAR         (3600 * HTC_SECOND)

typedef struct etcd etcd;

/* A connection, and what is asked through it. */
typedef struct slot {
    etcd                     *owner;
    struct evhttp_connection *connection; /* NULL: none */
    struct evhttp_request    *request;    /* NULL: nothing is on its way */
    htc__ask                 *ask;
    uint32_t                  round;  /* of the handle, when the connection was made */
    int                       broken; /* it is to be closed, and the next member to be asked */
    int                       too_long;
    htc_ns                    until; /* then another member may know more */
} slot;

struct etcd {
    htc__etcd_words    words;
    struct event_base *base;
    struct event      *timer;
    slot               slots[SLOTS];
    htc__address       members[MEMBERS_MAX];
    uint32_t           count, member;      /* of members; the one that is asked */
    uint32_t           nth, addresses_max; /* of a member with several addresses */
    uint32_t           round;              /* grows whenever another member's turn comes */
    uint32_t           failures;           /* since somebody answered last */
    htc_ns             resume, pause, share;
    htc_ns             begun; /* when asks were last looked for that may begin */
    htc_buf            body;
    htc_status         status; /* of a callback */
};

/* ---- one request on its way ---- */

static void hang_up(slot *s)
{
    struct evhttp_connection *c = s->connection;
    s->connection = NULL;
    s->request = NULL;
    s->broken = 0;
    if (c)
        evhttp_connection_free(c); /* with the request, if one is on its way; nobody is called */
}

static int unwritten(struct evhttp_request *request)
{
    return evbuffer_get_length(evhttp_request_get_output_buffer(request)) > 0;
}

static void go_on(slot *s, htc__etcd_next next, htc_status status)
{
    if (status != HTC_OK)
        s->owner->status = status;
    if (status != HTC_OK || next != HTC__ETCD_SEND)
        s->ask = NULL;
}

static void lost(slot *s, int sent, htc_status why)
{
    htc__etcd_next next = HTC__ETCD_LATER;
    htc_status     status = htc__etcd_lost(&s->owner->words, s->ask, sent, why, &next);
    s->broken = 1;
    go_on(s, next, status);
}

static void too_long(enum evhttp_request_error error, void *ctx)
{
    slot *s = ctx;
    s->too_long = error == EVREQ_HTTP_DATA_TOO_LONG;
}

/* Called once for each request, also from inside evhttp_make_request. No status: there was no connection, or it broke. */
static void heard(struct evhttp_request *request, void *ctx)
{
    slot          *s = ctx;
    etcd          *e = s->owner;
    int            http = request ? evhttp_request_get_response_code(request) : 0;
    htc__etcd_next next = HTC__ETCD_LATER;
    s->request = NULL;
    if (http == 0) {
        lost(s, !(request && unwritten(request)), s->too_long ? HTC_ETOOBIG : HTC_ECLOSED);
        return;
    }
    struct evbuffer *in = evhttp_request_get_input_buffer(request);
    htc_bytes        body = { evbuffer_pullup(in, -1), evbuffer_get_length(in) };
    htc_status status = body.len && !body.data ? HTC_ENOMEM : htc__etcd_heard(&e->words, s->ask, http, body, &next);
    if (next == HTC__ETCD_LATER) {
        s->broken = 1;
    } else {
        e->failures = 0;
        e->pause = PAUSE;
    }
    go_on(s, next, status);
}

/* ---- connections ---- */

static htc_status connect_slot(etcd *e, slot *s)
{
    static const struct timeval never = { 24 * 3600, 0 }; /* slots have their own moments */
    const htc__address         *member = &e->members[e->member];
    struct sockaddr_storage     to;
    socklen_t                   len = 0;
    uint32_t                    count = 1;
    char                        ip[NI_MAXHOST];
    const char                 *why = htc__address_find(member->host, member->port, e->nth, &to, &len, &count);
    if (why || getnameinfo((struct sockaddr *)&to, len, ip, sizeof ip, NULL, 0, NI_NUMERICHOST) != 0) {
        snprintf(e->words.said, sizeof e->words.said, "%.100s: %s", member->host, why ? why : "no address");
        return HTC_EUNREACHABLE;
    }
    e->addresses_max = count > e->addresses_max ? count : e->addresses_max;
    s->connection = evhttp_connection_base_new(e->base, NULL, ip, member->port);
    if (!s->connection)
        return HTC_ENOMEM;
    evhttp_connection_set_timeout_tv(s->connection, &never);
    evhttp_connection_set_max_body_size(s->connection, (ev_ssize_t)HTC__ETCD_BODY_MAX);
    evhttp_connection_set_max_headers_size(s->connection, (ev_ssize_t)HEAD_MAX);
    return HTC_OK;
}

static struct evhttp_request *new_request(const etcd *e, slot *s)
{
    char                   host[sizeof e->members->host + 8];
    struct evhttp_request *request = evhttp_request_new(heard, s);
    struct evkeyvalq      *head = request ? evhttp_request_get_output_headers(request) : NULL;
    snprintf(host, sizeof host, "%s:%u", e->members[e->member].host, (unsigned)e->members[e->member].port);
    if (!request)
        return NULL;
    evhttp_request_set_error_cb(request, too_long);
    if (evhttp_add_header(head, "Host", host) == 0 &&
        evhttp_add_header(head, "Content-Type", "application/json") == 0 &&
        evbuffer_add(evhttp_request_get_output_buffer(request), e->body.data, e->body.len) == 0)
        return request;
    evhttp_request_free(request);
    return NULL;
}

static htc_status send_body(etcd *e, slot *s, const char *path)
{
    htc_status status = HTC_OK;
    if (s->round != e->round)
        hang_up(s);
    s->round = e->round;
    if (!s->connection)
        status = connect_slot(e, s);
    if (status == HTC_EUNREACHABLE) {
        lost(s, 0, HTC_ECLOSED);
        e->resume = htc_host_now() + e->pause; /* a name that is not found is not looked for once for each slot */
        return HTC_OK;
    }
    struct evhttp_request *request = status == HTC_OK ? new_request(e, s) : NULL;
    if (!request)
        return HTC_ENOMEM;
    s->request = request;
    s->too_long = 0;
    s->until = htc__store_end(e->share);
    if (evhttp_make_request(s->connection, request, EVHTTP_REQ_POST, path) != 0 && s->ask)
        lost(s, 0, HTC_ECLOSED);
    return e->status;
}

static htc_status begin(etcd *e, slot *s, htc__ask *ask)
{
    const char *path = NULL;
    htc_buf_clear(&e->body);
    s->ask = ask;
    htc_status status = htc__etcd_say(&e->words, ask, &e->body, &path);
    if (status != HTC_OK || !path) {
        s->ask = NULL;
        return status;
    }
    return send_body(e, s, path);
}

static slot *slot_of(etcd *e, const htc__ask *ask)
{
    for (slot *s = e->slots; s < e->slots + SLOTS; s++) {
        if (s->ask == ask && !(ask == NULL && s->broken))
            return s;
    }
    return NULL;
}

static htc__ask *next_ask(etcd *e)
{
    for (htc__ask *ask = e->words.window.open; ask; ask = ask->next) {
        if (ask->started && ask->state == 0 && !slot_of(e, ask))
            return ask; /* given back by a connection that broke */
    }
    return htc__window_start(&e->words.window);
}

static htc_status begin_all(etcd *e)
{
    htc__ask *ask;
    slot     *s;
    e->begun = htc_host_now();
    for (s = e->slots; e->status == HTC_OK && s < e->slots + SLOTS; s++) {
        if (s->ask && !s->request && !s->broken)
            e->status = begin(e, s, s->ask);
    }
    while (e->status == HTC_OK && e->begun >= e->resume && (s = slot_of(e, NULL)) && (ask = next_ask(e)))
        e->status = begin(e, s, ask);
    return e->status;
}

/* Broken connections are closed here, outside of what libevent calls; the next member is asked after a moment. */
static void close_broken(etcd *e)
{
    for (slot *s = e->slots; s < e->slots + SLOTS; s++) {
        if (!s->broken)
            continue;
        if (s->round == e->round) {
            e->round++;
            e->member = (e->member + 1) % e->count;
            e->nth += e->member == 0;
            e->failures++;
            e->resume = htc_host_now() + e->pause;
            e->pause = 2 * e->pause > PAUSE_MAX ? PAUSE_MAX : 2 * e->pause;
        }
        hang_up(s);
    }
}

/* A read that one member owes for so long is asked of another; so is what never left. A change is waited for. */
static void give_up(etcd *e, htc_ns now)
{
    for (slot *s = e->slots; s < e->slots + SLOTS; s++) {
        if (!s->ask || !s->request)
            continue;
        int sent = !unwritten(s->request);
        if (s->ask->give_up <= now) {
            s->request = NULL;
            s->ask = NULL; /* the window answers it */
            s->broken = 1;
        } else if (s->until <= now && sent && htc__kv_is_change(s->ask->request.op)) {
            s->until = s->ask->give_up;
        } else if (s->until <= now) {
            s->request = NULL;
            lost(s, sent, HTC_ECLOSED);
        }
    }
    htc__window_expire(&e->words.window, now);
}

/* One turn: until something is heard, or the moment has come. */
static htc_ns wake_at(const etcd *e, htc_ns end)
{
    htc_ns until = htc__window_deadline(&e->words.window);
    until = end < until ? end : until;
    for (const slot *s = e->slots; s < e->slots + SLOTS; s++) {
        if (s->request && s->until < until)
            until = s->until;
    }
    /* Something may wait for the pause to end. */
    return e->resume > htc_host_now() && e->resume < until ? e->resume : until;
}

static htc_status run_loop(etcd *e, htc_ns until)
{
    htc_ns         now = htc_host_now();
    struct timeval wait = htc__timeval(until <= now ? 0 : until - now > FAR ? FAR : until - now + HTC_MS);
    int            flags = until <= now ? EVLOOP_NONBLOCK : EVLOOP_ONCE;
    if (event_add(e->timer, &wait) != 0 || event_base_loop(e->base, flags) < 0)
        return HTC_ENOMEM;
    event_del(e->timer);
    return e->status;
}

static htc_status quiet_turn(etcd *e, htc_ns end)
{
    htc_status status = begin_all(e);
    close_broken(e);
    if (status != HTC_OK || e->words.window.done)
        return status;
    status = run_loop(e, wake_at(e, end));
    give_up(e, htc_host_now());
    close_broken(e);
    return status;
}

static htc_status turn(etcd *e, htc_ns end)
{
    htc__quiet q;
    htc__quiet_begin(&q);
    htc_status status = quiet_turn(e, end);
    htc__quiet_end(&q);
    return status;
}

/* What the connections of asks wait for; one without an ask is looked at with the others' turns. */
static uint32_t sockets(const void *ctx, htc__poll_socket *list, uint64_t *dials)
{
    const etcd *e = ctx;
    uint32_t    n = 0;
    *dials = 0; /* evhttp connects, and connects anew, by itself */
    for (const slot *s = e->slots; s < e->slots + SLOTS; s++) {
        struct bufferevent *b = s->connection && s->request ? evhttp_connection_get_bufferevent(s->connection) : NULL;
        int                 fd = b ? (int)bufferevent_getfd(b) : -1;
        if (fd < 0)
            continue;
        int unsaid = unwritten(s->request) || evbuffer_get_length(bufferevent_get_output(b)) > 0;
        list[n++] = (htc__poll_socket){ fd, EPOLLIN | (unsaid ? (uint32_t)EPOLLOUT : 0) };
    }
    return n;
}

static htc_ns deadline(const void *ctx)
{
    const etcd *e = ctx;
    if (e->words.window.done || event_base_get_num_events(e->base, EVENT_BASE_COUNT_ACTIVE) > 0)
        return 0;
    for (const slot *s = e->slots; s < e->slots + SLOTS; s++) {
        if (s->ask && !s->request && !s->broken)
            return 0;
    }
    htc_ns until = wake_at(e, HTC_NEVER);
    return e->words.window.open && e->resume > e->begun && e->resume < until ? e->resume : until;
}

/* ---- the kind ---- */

static void woken(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd, (void)what, (void)ctx;
}

static void close_etcd(void *ctx)
{
    etcd      *e = ctx;
    htc_env    env = e->words.env;
    htc__quiet q;
    htc__quiet_begin(&q);
    for (slot *s = e->slots; s < e->slots + SLOTS; s++)
        hang_up(s);
    if (e->timer)
        event_free(e->timer);
    if (e->base)
        event_base_free(e->base);
    htc__quiet_end(&q);
    htc__window_free(&e->words.window);
    htc_buf_free(&e->words.kept);
    htc_buf_free(&e->words.scratch);
    htc_buf_free(&e->body);
    htc__free(&env, e, sizeof *e);
}

static htc_status submit(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    etcd *e = ctx;
    return htc__window_submit(&e->words.window, requests, n, tag);
}

static htc_status next(void *ctx, htc_ns end, htc_kv_result *result)
{
    etcd *e = ctx;
    for (int first = 1;; first = 0) {
        if (htc__window_next(&e->words.window, result))
            return HTC_OK;
        if (!first && htc_host_now() >= end)
            return HTC_ETIMEDOUT;
        htc_status status = turn(e, end);
        if (status != HTC_OK)
            return status;
    }
}

static htc_status parse(etcd *e, const char *rest)
{
    const char *slash = strchr(rest, '/');
    const char *end = slash ? slash : rest + strlen(rest);
    while (rest < end) {
        size_t     len = strcspn(rest, ",/");
        char       one[sizeof e->members->host + 8];
        htc_status status = len < sizeof one && e->count < MEMBERS_MAX ? HTC_OK : HTC_EINVAL;
        snprintf(one, sizeof one, "%.*s", (int)len, rest);
        if (status == HTC_OK)
            status = htc__address_parse(one, 2379, &e->members[e->count++]);
        if (status != HTC_OK || (rest[len] == ',' && rest + len + 1 == end))
            return HTC_EINVAL;
        rest += len + (rest[len] == ',');
    }
    /* The prefix is checked where addresses are. */
    char         last[8 + HTC__ETCD_PREFIX_MAX] = "h";
    htc__address prefix = { .prefix = "" };
    if (slash &&
        (strlen(slash) >= sizeof last - 1 || !strcat(last, slash) || htc__address_parse(last, 1, &prefix) != HTC_OK))
        return HTC_EINVAL;
    snprintf(e->words.prefix, sizeof e->words.prefix, "%s/", *prefix.prefix ? prefix.prefix : "htc");
    return e->count ? HTC_OK : HTC_EINVAL;
}

static htc_status prepare(etcd *e, const htc_env *env, const htc_store_options *options)
{
    struct event_config *config = event_config_new();
    e->words.env = *env;
    e->pause = PAUSE;
    e->addresses_max = 1;
    e->share = e->count ? options->timeout_ns / e->count : 0;
    htc__window_init(&e->words.window, env, options->window < SLOTS ? options->window : SLOTS, options->timeout_ns);
    htc_buf_init(&e->words.kept, env, 3 * HTC__ETCD_BODY_MAX);
    htc_buf_init(&e->words.scratch, env, 2 * HTC__ETCD_BODY_MAX);
    htc_buf_init(&e->body, env, 2 * HTC__ETCD_BODY_MAX);
    for (slot *s = e->slots; s < e->slots + SLOTS; s++)
        s->owner = e;
    if (config && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
        e->base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    e->timer = e->base ? evtimer_new(e->base, woken, NULL) : NULL;
    return e->timer ? HTC_OK : HTC_ENOMEM;
}

static htc_status turned_away(const etcd *e, const char *address, htc_status why, htc_error *error)
{
    htc__error(error, why, "%s: %s", address, *e->words.said ? e->words.said : "nobody answers there as etcd does");
    if (error)
        snprintf(error->hint, sizeof error->hint, "%s",
                 why == HTC_EDENIED
                     ? "users and passwords of etcd are not supported here: give this program a member without them"
                 : why == HTC_EPROTO ? "is it etcd 3.4 or later, with its gateway (--enable-grpc-gateway)?"
                                     : "is it running? curl http://HOST:PORT/health asks it; TLS is not supported");
    return why;
}

/* One read of a key that does not exist: a member that answers it has a majority. */
static htc_status ask_first(etcd *e, const htc_store_options *options, htc_error *error)
{
    htc_kv_request probe = { .size = sizeof probe, .op = HTC_KV_GET, .key = htc_bytes_of("?") };
    htc_kv_result  result = { .size = sizeof result };
    htc_status     status = submit(e, &probe, 1, 0);
    while (status == HTC_OK && !htc__window_next(&e->words.window, &result)) {
        if (e->failures >= e->count * e->addresses_max)
            return turned_away(e, options->address, HTC_EUNREACHABLE, error);
        status = turn(e, htc__store_end(HTC_SECOND));
    }
    if (status != HTC_OK)
        return htc__error(error, status, "%s: %s", options->address, htc_strerror(status));
    if (result.status != HTC_OK && result.status != HTC_ENOTFOUND)
        return turned_away(e, options->address, result.status, error);
    return HTC_OK;
}

static htc_status open_etcd(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                            htc_error *error)
{
    etcd *e = htc__alloc(env, sizeof *e);
    if (!e)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_status status = parse(e, rest);
    if (status != HTC_OK)
        htc__error(error, status, "%s: etcd://HOST:PORT,HOST:PORT/PREFIX is expected", options->address);
    htc_status prepared = prepare(e, env, options);
    if (status == HTC_OK && prepared != HTC_OK)
        status = htc__error(error, prepared, "out of memory");
    if (status == HTC_OK)
        status = ask_first(e, options, error);
    if (status != HTC_OK) {
        close_etcd(e);
        return status;
    }
    *ctx = e;
    return HTC_OK;
}

#define ABILITIES (HTC_STORE_LINEARIZABLE | HTC_STORE_LEASES | HTC_STORE_ORDERED_SCAN)

const htc__store_kind htc__store_etcd = { "etcd://", ABILITIES, open_etcd, submit, next, close_etcd, NULL, NULL, NULL, sockets, deadline };
