/* The search for the gateway that serves.
 *
 *   CONNECTING --connected--> SHAKING --each knows the other's key--> ASKED (greeting and ping) --"I serve"--> taken
 *        \______________________\_______________________________________\--anything else----------> OVER, with what was said */
#include "net/loop/client_way.h"

#include <errno.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util.h"
#include "core/wire.h"
#include "htcsched/keys.h"
#include "net/loop/host_private.h"

#define PING_ID  1
#define PIECE    ((size_t)16 << 10)
#define SILENT_S 12 /* of a connection whose other end's kernel acknowledges nothing, until it is lost */
#define IN_MAX   ((size_t)64 << 10) /* of what a gateway says before it is taken */

typedef enum stage { CONNECTING = 1, SHAKING, ASKED, OVER } stage;

typedef struct way {
    char         address[HTC__HOST_NAME_MAX + 8];
    stage        stage;
    uint32_t     nth, count; /* of the addresses that its name has */
    uint32_t     repeated;   /* with a cookie */
    uint32_t     greeted;    /* it is a caller that is known there */
    int          fd;
    htc__sealed *sealed;
    htc_buf      in, out;
    htc_status   status;
    char         said[200];
} way;

typedef struct search {
    const htc_env          *env;
    const htc__way_options *o;
    way                     ways[HTC__WAYS_MAX];
    uint32_t                n;
    way                    *taken;
} search;

/* ---- the end of one ---- */

/* Who is told that nothing follows takes it for no fault. What does not fit into the socket is not said. */
static void say_last(int fd, htc__sealed *sealed)
{
    htc_bytes b = htc__sealed_last(sealed);
    if (b.len > 0)
        (void)!send(fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hang_up(way *w)
{
    if (w->fd >= 0 && w->greeted)
        say_last(w->fd, w->sealed);
    w->greeted = 0;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if (w->sealed)
        htc__sealed_end(w->sealed);
    htc_buf_clear(&w->in);
    htc_buf_clear(&w->out);
}

static void over(way *w, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void over(way *w, htc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->said, sizeof w->said, format, args);
    va_end(args);
    htc__text_clean(w->said);
    w->status = status;
    w->stage = OVER;
    hang_up(w);
}

static void way_free(way *w)
{
    hang_up(w);
    htc__sealed_close(w->sealed);
    w->sealed = NULL;
    htc_buf_free(&w->in);
    htc_buf_free(&w->out);
}

/* ---- its beginning ---- */

/* The next address that the name has. */
static void dial(way *w)
{
    char                    host[HTC__HOST_NAME_MAX];
    uint16_t                port;
    struct sockaddr_storage to;
    socklen_t               len;
    const char             *fault = "no HOST:PORT";
    w->stage = CONNECTING;
    if (!htc__address_split(w->address, host, &port) || port == 0 || (fault = htc__address_find(host, port, w->nth, &to, &len, &w->count)) != NULL) {
        over(w, HTC_EUNREACHABLE, "%s", fault);
        return;
    }
    w->nth++;
    w->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->fd < 0 || (connect(w->fd, (const struct sockaddr *)&to, len) != 0 && errno != EINPROGRESS))
        over(w, HTC_EUNREACHABLE, "%s", strerror(errno));
}

/* Another address of the name, if it has one that was not tried. */
static void not_connected(way *w, int why)
{
    hang_up(w);
    if (w->nth < w->count)
        dial(w);
    else
        over(w, HTC_EUNREACHABLE, "%s", strerror(why));
}

static int is_there(const search *s, const char *address, size_t len)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (strlen(s->ways[i].address) == len && memcmp(s->ways[i].address, address, len) == 0)
            return 1;
    return 0;
}

/* One that is there already, or for which there is no room, is passed over. */
static htc_status add(search *s, const char *address, size_t len, htc_error *error)
{
    if (s->n == HTC__WAYS_MAX || len == 0 || len >= sizeof s->ways[0].address || is_there(s, address, len))
        return HTC_OK;
    way              *w = &s->ways[s->n];
    htc_store_options o = { .size = sizeof o, .address = w->address, .timeout_ns = s->o->timeout_ns, .key_path = s->o->key_path,
                            .ring_path = s->o->ring_path, .server = s->o->server, .role = s->o->role, .once = s->o->once };
    *w = (way){ .fd = -1 };
    memcpy(w->address, address, len);
    htc_buf_init(&w->in, s->env, 0);
    htc_buf_init(&w->out, s->env, 0);
    htc_status status = htc__sealed_open(s->env, &o, &w->sealed, error);
    if (status != HTC_OK)
        return status;
    s->n++;
    dial(w);
    return HTC_OK;
}

/* ---- what is said ---- */

static void put_frame(way *w, htc_buf *message)
{
    if (message->status != HTC_OK) {
        over(w, HTC_ENOMEM, "out of memory");
        return;
    }
    htc_put_u32(&w->out, (uint32_t)message->len);
    htc_put_raw(&w->out, htc_buf_bytes(message));
}

/* Greeting and question leave together: who is refused is told so in place of the answer. */
static void greet(const search *s, way *w)
{
    htc_buf message;
    htc_buf_init(&message, s->env, 0);
    htc_wire_hello(&message, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    put_frame(w, &message);
    htc_wire_begin(&message, HTC_WIRE_USER_REQUEST, PING_ID);
    htc_put_raw(&message, htc_bytes_of("{\"op\":\"ping\"}"));
    if (w->stage != OVER)
        put_frame(w, &message);
    htc_buf_free(&message);
    w->greeted = 1;
    if (w->stage != OVER)
        w->stage = ASKED;
}

static const char *text_of(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));
    return text ? text : "";
}

static void judge(search *s, way *w, const char *bytes, size_t len)
{
    json_t     *o = json_loadb(bytes, len, 0, NULL);
    const char *refused = text_of(o, "error"), *name = text_of(o, "active"), *at = text_of(o, "at");
    if (!json_is_object(o)) {
        over(w, HTC_EPROTO, "it answers something that is not JSON");
    } else if (*refused) {
        over(w, htc_status_from_name(refused), "%s", *text_of(o, "message") ? text_of(o, "message") : refused);
    } else if (json_is_true(json_object_get(o, "waiting"))) {
        over(w, HTC_EUNREACHABLE, *at ? "it waits: %s at %s is active" : "it waits, and does not know yet who is active%s%s", *at ? name : "", at);
        (void)add(s, at, strlen(at), NULL);
    } else {
        s->taken = w;
    }
    json_decref(o);
}

static void take_message(search *s, way *w, htc_bytes message)
{
    uint16_t   type, version;
    uint64_t   id;
    char       text[160];
    htc_reader r = htc_wire_open(message, &type, &id);
    if (type == HTC_WIRE_ERROR) {
        htc_status status = (htc_status)(int32_t)htc_get_u32(&r);
        htc_get_str(&r, text, sizeof text);
        over(w, status < 0 ? status : HTC_EPROTO, "%s", r.status == HTC_OK && *text ? text : htc_strerror(status < 0 ? status : HTC_EPROTO));
    } else if (type == HTC_WIRE_WELCOME && htc_wire_read_welcome(&r, HTC_WIRE_VERSION, &version) != HTC_OK) {
        over(w, HTC_EVERSION, "it speaks version %u, this program %d to %d", version, HTC_WIRE_VERSION_MIN, HTC_WIRE_VERSION);
    } else if (type == HTC_WIRE_USER_ANSWER && id == PING_ID) {
        judge(s, w, (const char *)r.p, htc_reader_left(&r));
    }
}

static void take_frames(search *s, way *w)
{
    while (!s->taken && w->stage == ASKED && w->in.len >= 4) {
        const uint8_t *p = w->in.data;
        size_t         len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (len < 10 || len > IN_MAX) {
            over(w, HTC_EPROTO, "it sends a frame of %zu bytes: not one of ours", len);
            return;
        }
        if (w->in.len - 4 < len)
            return;
        take_message(s, w, (htc_bytes){ p + 4, len });
        if (w->stage == ASKED)
            htc_buf_consume(&w->in, 4 + len);
    }
    if (!s->taken && w->in.len > IN_MAX + 4)
        over(w, HTC_EPROTO, "it says more than was asked");
}

/* ---- bytes ---- */

static void flush(way *w)
{
    if (w->stage == ASKED && htc__sealed_give(w->sealed, &w->out) != HTC_OK) {
        over(w, HTC_ENOMEM, "out of memory");
        return;
    }
    for (htc_bytes b = htc__sealed_output(w->sealed); b.len > 0; b = htc__sealed_output(w->sealed)) {
        ssize_t n = send(w->fd, b.data, b.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                over(w, HTC_EUNREACHABLE, "%s", strerror(errno));
            return;
        }
        htc__sealed_sent(w->sealed, (size_t)n);
    }
}

static void connected(way *w)
{
    int       why = 0, one = 1;
    socklen_t len = sizeof why;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = errno;
    if (why) {
        not_connected(w, why);
        return;
    }
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    htc__socket_watch(w->fd, SILENT_S, 1);
    htc_status status = htc__sealed_begin(w->sealed);
    if (status != HTC_OK) {
        over(w, status == HTC_ENOTFOUND ? HTC_EDENIED : status, "%s", *htc__sealed_reason(w->sealed) ? htc__sealed_reason(w->sealed) : htc_strerror(status));
        return;
    }
    w->stage = SHAKING;
    flush(w);
}

/* Who has too many callers gives a cookie for the next try. */
static void failed(way *w, htc_status status)
{
    char reason[160];
    snprintf(reason, sizeof reason, "%s", *htc__sealed_reason(w->sealed) ? htc__sealed_reason(w->sealed) : status == HTC_ECLOSED ? "it hangs up" : htc_strerror(status));
    if (status != HTC_EBUSY || w->repeated) {
        over(w, status == HTC_ECLOSED ? HTC_EUNREACHABLE : status, "%s", reason);
        return;
    }
    w->repeated = 1;
    w->nth--;
    hang_up(w);
    dial(w);
}

static void readable(search *s, way *w)
{
    uint8_t piece[PIECE];
    int     opened = 0;
    ssize_t n = recv(w->fd, piece, sizeof piece, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        over(w, HTC_EUNREACHABLE, "%s", strerror(errno));
        return;
    }
    if (n == 0) {
        failed(w, HTC_ECLOSED);
        return;
    }
    htc_status status = htc__sealed_take(w->sealed, (htc_bytes){ piece, (size_t)n }, &w->in, &opened);
    if (opened && w->stage == SHAKING && !s->o->once)
        greet(s, w);
    if (w->stage == ASKED)
        take_frames(s, w);
    if (w->stage == OVER || s->taken)
        return;
    if (status != HTC_OK) {
        failed(w, status);
        return;
    }
    flush(w);
    if (opened && s->o->once && w->stage != OVER)
        s->taken = w;
}

/* ---- all of them ---- */

static void turn(search *s, htc_ns end)
{
    struct pollfd polled[HTC__WAYS_MAX];
    way          *whose[HTC__WAYS_MAX];
    nfds_t        n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        way *w = &s->ways[i];
        if (w->stage == OVER)
            continue;
        int writes = w->stage == CONNECTING || htc__sealed_output(w->sealed).len > 0;
        polled[n] = (struct pollfd){ w->fd, (short)((w->stage == CONNECTING ? 0 : POLLIN) | (writes ? POLLOUT : 0)), 0 };
        whose[n++] = w;
    }
    htc_ns now = htc_host_now(), ms = now < end ? (end - now) / HTC_MS + 1 : 0;
    if (poll(polled, n, ms > 60000 ? 60000 : (int)ms) <= 0)
        return;
    for (nfds_t i = 0; i < n && !s->taken; i++) {
        if (!polled[i].revents)
            continue;
        if (whose[i]->stage == CONNECTING)
            connected(whose[i]);
        else if (polled[i].revents & (POLLIN | POLLHUP | POLLERR))
            readable(s, whose[i]);
        else
            flush(whose[i]);
    }
}

static int all_over(const search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->ways[i].stage != OVER)
            return 0;
    return 1;
}

/* That a key is not let in counts more than that nobody answers, for it does not change by itself. */
static htc_status verdict(const search *s)
{
    static const htc_status order[] = { HTC_EDENIED, HTC_EVERSION, HTC_EPROTO, HTC_ENOMEM, HTC_ETIMEDOUT };
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (uint32_t i = 0; i < s->n; i++)
            if (s->ways[i].status == order[k])
                return order[k];
    return HTC_EUNREACHABLE;
}

static htc_status say(const search *s, htc_error *error)
{
    htc_status status = verdict(s);
    char       text[sizeof error->text];
    size_t     len = 0;
    if (s->n > 1)
        len = (size_t)snprintf(text, sizeof text, "no gateway serves: ");
    for (uint32_t i = 0; i < s->n && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s: %s", i ? "; " : "", s->ways[i].address, s->ways[i].said);
    htc__error(error, status, "%s", text);
    if (error)
        snprintf(error->hint, sizeof error->hint, "%s",
                 status == HTC_EDENIED && s->o->once ? "htc keys enrol prints a secret over there, good once and for its time; htc-kvd knows it after SIGHUP; a key that was revoked there needs another --key"
                 : status == HTC_EDENIED ? "on the gateway's machine: htc keys enrol NAME --once DIR/once; here: htc keys join with what it prints, and a new --key if this one was revoked"
                 : s->n > 1              ? "try again in a moment: one that waits goes on when the active one has ended"
                 : s->o->once            ? "is it running, and is this its db.join or server.join, or the --listen of a member?"
                                         : "is it running, and is this its server.join?");
    return status;
}

htc_status htc__way_find(const htc_env *env, const htc__way_options *options, htc__way *out, htc_error *error)
{
    static const htc_env plain = { .size = sizeof plain };
    search     s = { .env = env ? env : &plain, .o = options };
    htc_ns     now = htc_host_now(), end = options->timeout_ns > HTC_NEVER - now ? HTC_NEVER : now + options->timeout_ns;
    htc_status status = HTC_OK;
    for (const char *at = options->addresses; status == HTC_OK && *at;) {
        size_t len = strcspn(at, ",");
        if (len == 0 || len >= sizeof s.ways[0].address || s.n == HTC__WAYS_MAX)
            status = htc__error(error, HTC_EINVAL, "\"%.200s\" is no list of HOST:PORT with commas between, at most %d", options->addresses, HTC__WAYS_MAX);
        else
            status = add(&s, at, len, error);
        at += at[len] ? len + 1 : len;
    }
    if (status == HTC_OK && s.n == 0)
        status = htc__error(error, HTC_EINVAL, "no address of a gateway is given");
    while (status == HTC_OK && !s.taken && !all_over(&s) && htc_host_now() < end)
        turn(&s, end);
    for (uint32_t i = 0; i < s.n; i++)
        if (s.ways[i].stage != OVER && &s.ways[i] != s.taken)
            over(&s.ways[i], HTC_ETIMEDOUT, "no answer within %.3g s", (double)options->timeout_ns / 1e9);
    if (status == HTC_OK && s.taken) {
        *out = (htc__way){ .fd = s.taken->fd, .sealed = s.taken->sealed, .in = s.taken->in, .id = PING_ID };
        memcpy(out->address, s.taken->address, sizeof out->address);
        s.taken->fd = -1;
        s.taken->sealed = NULL;
        htc_buf_init(&s.taken->in, s.env, 0);
    } else if (status == HTC_OK) {
        status = say(&s, error);
    }
    for (uint32_t i = 0; i < s.n; i++)
        way_free(&s.ways[i]);
    return status;
}

void htc__way_end(htc__way *w)
{
    if (w->fd >= 0 && w->sealed)
        say_last(w->fd, w->sealed);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    htc__sealed_close(w->sealed);
    w->sealed = NULL;
    htc_buf_free(&w->in);
}

htc_status htc_keys_join(const htc_keys_join_options *options, htc_error *error)
{
    htc_keys_join_options o = { .size = 0 };
    htc__way              found = { .fd = -1 };
    if (!options || htc__options_copy(&o, sizeof o, options, options->size, sizeof(size_t)) != HTC_OK || !o.address || !o.key_path || !o.ring_path ||
        !o.server || !o.secret || o.role > HTC_KEY_USER || strchr(o.address, ','))
        return htc__error(error, HTC_EINVAL, "one address, a key file, a ring file, the server's name and a secret are needed");
    htc__way_options wo = { .addresses = o.address, .key_path = o.key_path, .ring_path = o.ring_path, .server = o.server, .once = o.secret, .role = o.role,
                            .timeout_ns = o.timeout_ns ? o.timeout_ns : 10 * HTC_SECOND };
    htc_status status = htc__way_find(NULL, &wo, &found, error);
    htc__way_end(&found);
    return status;
}
