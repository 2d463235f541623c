/* The blocking client: one socket, one request at a time, but for outputs that are asked for ahead. Beyond this machine the bytes go through a secure
 * channel (client_way.c opens it). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire.h"
#include "htcsched/client.h"
#include "net/loop/client_way.h"
#include "net/loop/host_private.h"

#define PIECE ((size_t)512 << 10)
#define READ_PIECE (1u << 20)
#define SEALED_PIECE ((size_t)64 << 10)
#define TOKEN_LEN HTC_HOST_TOKEN_LEN

/* The beginning of an output that was asked for ahead, and its answer when that has come. */
typedef struct ahead {
    uint64_t id, job, task;
    uint32_t attempt;
    char    *name;
    int      answered;
    htc_buf  answer;
} ahead;

struct htc_client {
    const htc_env *env;
    int            fd;
    htc__sealed   *sealed;   /* NULL: what is sent is sent as it is */
    htc_buf        got, give; /* of the channel: opened and not taken yet, not sealed yet */
    size_t         got_at;   /* so much of got is taken */
    char          *name; /* of the other side, for sentences */
    char          *user, *token;
    htc_ns         timeout_ns;
    uint64_t       id;
    htc_buf        in, out;
    ahead          ahead[HTC_CLIENT_AHEAD_MAX];
    size_t         n_ahead;
    htc_error     *error; /* of the present call */
};

static htc_status lost(htc_client *c, const char *what)
{
    htc_status status = htc__error(c->error, HTC_EUNREACHABLE, "%s: %s", c->name, what);
    if (c->error)
        snprintf(c->error->hint, sizeof c->error->hint, "is it running? htc up starts it");
    return status;
}

/* Wait for fd; HTC_ETIMEDOUT after end (HTC_NEVER: wait for ever). */
static htc_status wait_for(htc_client *c, short what, htc_ns end)
{
    for (;;) {
        htc_ns now = htc_host_now();
        if (end != HTC_NEVER && now >= end)
            return htc__error(c->error, HTC_ETIMEDOUT, "%s does not answer in time", c->name);
        htc_ns        left = end == HTC_NEVER ? 3600 * HTC_SECOND : end - now;
        struct pollfd p = { c->fd, what, 0 };
        int n = poll(&p, 1, (int)((left > 3600 * HTC_SECOND ? 3600 * HTC_SECOND : left) / HTC_MS) + 1);
        if (n > 0)
            return HTC_OK;
        if (n < 0 && errno != EINTR)
            return lost(c, strerror(errno));
    }
}

/* What is in c->give. */
static htc_status write_sealed(htc_client *c, htc_ns end)
{
    for (;;) {
        htc_status status = c->give.status == HTC_OK ? htc__sealed_give(c->sealed, &c->give) : HTC_ENOMEM;
        if (status != HTC_OK)
            return htc__error(c->error, status, "%s: %s", c->name, status == HTC_ENOMEM ? "out of memory" : htc__sealed_reason(c->sealed));
        htc_bytes b = htc__sealed_output(c->sealed);
        if (b.len == 0 && c->give.len == 0)
            return HTC_OK;
        ssize_t n = send(c->fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            htc__sealed_sent(c->sealed, (size_t)n);
        else if (errno == EAGAIN && (status = wait_for(c, POLLOUT, end)) != HTC_OK)
            return status;
        else if (errno != EAGAIN && errno != EINTR)
            return lost(c, strerror(errno));
    }
}

/* What a piece of the channel carries is added to c->got. */
static htc_status read_sealed(htc_client *c, htc_ns end)
{
    uint8_t piece[SEALED_PIECE];
    int     opened = 0;
    ssize_t n = recv(c->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return wait_for(c, POLLIN, end);
    if (n < 0 && errno == EINTR)
        return HTC_OK;
    if (n <= 0)
        return lost(c, n == 0 ? "the connection was closed" : strerror(errno));
    htc_status status = htc__sealed_take(c->sealed, (htc_bytes){ piece, (size_t)n }, &c->got, &opened);
    if (status == HTC_ECLOSED)
        return lost(c, "the connection was closed");
    return status == HTC_OK ? HTC_OK : htc__error(c->error, status, "%s: %s", c->name, status == HTC_ENOMEM ? "out of memory" : htc__sealed_reason(c->sealed));
}

static htc_status take_sealed(htc_client *c, uint8_t *p, size_t len, htc_ns end)
{
    htc_status status = HTC_OK;
    while (len > 0 && status == HTC_OK) {
        size_t have = c->got.len - c->got_at, n = have < len ? have : len;
        if (n == 0) {
            htc_buf_clear(&c->got);
            c->got_at = 0;
            status = read_sealed(c, end);
            continue;
        }
        memcpy(p, c->got.data + c->got_at, n);
        c->got_at += n;
        p += n;
        len -= n;
    }
    return status;
}

static htc_status write_all(htc_client *c, const void *data, size_t len, htc_ns end)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = send(c->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            htc_status status = wait_for(c, POLLOUT, end);
            if (status != HTC_OK)
                return status;
            continue;
        }
        if (n < 0)
            return lost(c, strerror(errno));
        p += n;
        len -= (size_t)n;
    }
    return HTC_OK;
}

static htc_status read_all(htc_client *c, void *data, size_t len, htc_ns end)
{
    uint8_t *p = data;
    if (c->sealed)
        return take_sealed(c, p, len, end);
    while (len > 0) {
        ssize_t n = recv(c->fd, p, len, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            htc_status status = wait_for(c, POLLIN, end);
            if (status != HTC_OK)
                return status;
            continue;
        }
        if (n <= 0)
            return lost(c, n == 0 ? "the connection was closed" : strerror(errno));
        p += n;
        len -= (size_t)n;
    }
    return HTC_OK;
}

static htc_status send_frame(htc_client *c, htc_bytes message, htc_ns end)
{
    uint8_t header[4];
    if (message.len > HTC_WIRE_MESSAGE_MAX)
        return htc__error(c->error, HTC_ETOOBIG, "a message of %zu bytes is too long", message.len);
    for (int i = 0; i < 4; i++)
        header[i] = (uint8_t)(message.len >> (8 * i));
    if (c->sealed) {
        htc_put_raw(&c->give, (htc_bytes){ header, sizeof header });
        htc_put_raw(&c->give, message);
        return write_sealed(c, end);
    }
    htc_status status = write_all(c, header, sizeof header, end);
    return status == HTC_OK ? write_all(c, message.data, message.len, end) : status;
}

/* The next message, in c->in with a zero byte behind it. */
static htc_status receive_frame(htc_client *c, htc_ns end)
{
    uint8_t    header[4];
    uint32_t   len = 0;
    htc_status status = read_all(c, header, sizeof header, end);
    if (status != HTC_OK)
        return status;
    for (int i = 0; i < 4; i++)
        len |= (uint32_t)header[i] << (8 * i);
    if (len < 10 || len > HTC_WIRE_MESSAGE_MAX)
        return htc__error(c->error, HTC_EPROTO, "%s sends a frame of %u bytes: not one of ours", c->name, len);
    htc_buf_clear(&c->in);
    uint8_t *p = htc_buf_extend(&c->in, (size_t)len + 1);
    if (!p)
        return htc__error(c->error, HTC_ENOMEM, "out of memory");
    p[len] = 0;
    c->in.len = len;
    return read_all(c, p, len, end);
}

/* Take an ERROR message apart. */
static htc_status refused(htc_client *c, htc_reader *r)
{
    char       text[256];
    htc_status status = (htc_status)(int32_t)htc_get_u32(r);
    htc_get_str(r, text, sizeof text);
    if (htc_reader_done(r) != HTC_OK || status >= 0)
        return htc__error(c->error, HTC_EPROTO, "%s answers nonsense", c->name);
    return htc__error(c->error, status, "%s: %s", c->name, *text ? text : htc_strerror(status));
}

/* --- answers that came before they were waited for --- */

static void ahead_end(htc_client *c, ahead *a)
{
    htc__strfree(c->env, a->name);
    htc_buf_free(&a->answer);
    *a = c->ahead[--c->n_ahead];
}

/* What is in c->in is the answer to id: keep it if that was asked ahead. */
static void ahead_keep(htc_client *c, uint64_t id)
{
    for (size_t i = 0; i < c->n_ahead; i++)
        if (c->ahead[i].id == id) {
            htc_buf_free(&c->ahead[i].answer);
            c->ahead[i].answer = c->in;
            c->ahead[i].answered = 1;
            htc_buf_init(&c->in, c->env, HTC_WIRE_MESSAGE_MAX + 1);
            return;
        }
}

/* The answer to request id: of type a or b. Answers to older requests, given up by a timeout, are dropped. */
static htc_status receive_answer(htc_client *c, uint64_t id, htc_ns end, uint16_t *type, htc_reader *r)
{
    for (;;) {
        uint64_t   got;
        htc_status status = receive_frame(c, end);
        if (status != HTC_OK)
            return status;
        *r = htc_wire_open(htc_buf_bytes(&c->in), type, &got);
        if (*type == HTC_WIRE_ERROR && (got == id || got == 0))
            return refused(c, r);
        if (got == id)
            return HTC_OK;
        ahead_keep(c, got);
    }
}

/* The answer to what was asked ahead, as receive_answer gives it. */
static htc_status ahead_take(htc_client *c, ahead *a, htc_ns end, uint16_t *type, htc_reader *r)
{
    uint64_t   id = a->id;
    htc_status status = HTC_OK;
    if (a->answered) {
        htc_buf_free(&c->in);
        c->in = a->answer;
        htc_buf_init(&a->answer, c->env, 0);
        *r = htc_wire_open(htc_buf_bytes(&c->in), type, &id);
    }
    int answered = a->answered;
    ahead_end(c, a); /* nobody else takes it */
    if (!answered)
        status = receive_answer(c, id, end, type, r);
    else if (*type == HTC_WIRE_ERROR)
        status = refused(c, r);
    return status;
}

static htc_ns end_of(htc_ns timeout_ns)
{
    htc_ns now = htc_host_now();
    return timeout_ns > HTC_NEVER - now ? HTC_NEVER : now + timeout_ns;
}

/* --- opening --- */

/* A listener whose queue is full answers EAGAIN: it is asked again, for as long as a greeting may take. */
static htc_status dial_unix(htc_client *c, const char *path)
{
    htc_ns end = end_of(c->timeout_ns);
    for (;;) {
        c->fd = htc__unix_connect(path, SOCK_NONBLOCK);
        if (c->fd >= 0)
            return HTC_OK;
        if (errno != EAGAIN && errno != EINTR)
            break;
        if (htc_host_now() >= end)
            return htc__error(c->error, HTC_ETIMEDOUT, "%s takes no connection", c->name);
        poll(NULL, 0, 20);
    }
    int why = errno;
    if (why == EACCES || why == EPERM)
        return htc__error(c->error, HTC_EDENIED, "%s: %s", path, strerror(why));
    return lost(c, why == ENOENT ? "nobody listens there" : strerror(why));
}

static htc_status dial_tcp(htc_client *c, uint16_t port, const char *token_path)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    char               token[TOKEN_LEN + 1] = "";
    int                one = 1, fd = token_path ? open(token_path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t            n = fd >= 0 ? read(fd, token, TOKEN_LEN) : -1;
    if (fd >= 0)
        close(fd);
    if (n != TOKEN_LEN)
        return htc__error(c->error, HTC_EDENIED, "cannot read the token %s", token_path ? token_path : "(none given)");
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0 || (connect(c->fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS))
        return lost(c, strerror(errno));
    int       why = 0;
    socklen_t len = sizeof why;
    htc_status connected = wait_for(c, POLLOUT, end_of(c->timeout_ns));
    if (connected != HTC_OK)
        return connected;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0 || why != 0)
        return lost(c, strerror(why ? why : errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    htc_status status = send_frame(c, (htc_bytes){ token, TOKEN_LEN }, end_of(c->timeout_ns));
    sodium_memzero(token, sizeof token);
    return status;
}

static htc_status greet(htc_client *c)
{
    uint16_t   type;
    htc_reader r;
    htc_ns     end = end_of(c->timeout_ns);
    htc_wire_hello(&c->out, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    if (c->out.status != HTC_OK)
        return htc__error(c->error, HTC_ENOMEM, "out of memory");
    htc_status status = send_frame(c, htc_buf_bytes(&c->out), end);
    /* Whoever turned us away may have said why before it closed: what it said is read even if sending failed. */
    htc_error  first = c->error ? *c->error : (htc_error){ 0 };
    htc_status answer = receive_answer(c, 0, end, &type, &r);
    if (status != HTC_OK && answer == HTC_EUNREACHABLE && c->error)
        *c->error = first;
    if (answer != HTC_OK)
        return answer;
    if (type != HTC_WIRE_WELCOME)
        return htc__error(c->error, HTC_EPROTO, "%s does not welcome us", c->name);
    uint16_t version;
    if (htc_wire_read_welcome(&r, HTC_WIRE_VERSION, &version) != HTC_OK)
        return htc__error(c->error, HTC_EVERSION, "%s speaks version %u, this program %d to %d", c->name, version, HTC_WIRE_VERSION_MIN,
                          HTC_WIRE_VERSION);
    return HTC_OK;
}

/* Its greeting is over then. */
static htc_status find_way(htc_client *c, const htc_client_options *o)
{
    htc__way         way = { .fd = -1 };
    htc__way_options wo = { .addresses = o->gateway, .key_path = o->key_path, .ring_path = o->ring_path, .server = o->server, .timeout_ns = c->timeout_ns };
    htc_status       status = htc__way_find(c->env, &wo, &way, c->error);
    char            *name = status == HTC_OK ? htc__strdup(c->env, way.address) : NULL;
    if (status == HTC_OK && !name) {
        htc__way_end(&way);
        return htc__error(c->error, HTC_ENOMEM, "out of memory");
    }
    if (status != HTC_OK)
        return status;
    htc__strfree(c->env, c->name);
    c->name = name;
    c->fd = way.fd;
    c->sealed = way.sealed;
    c->got = way.in;
    c->id = way.id;
    return HTC_OK;
}

htc_status htc_client_identify(htc_client *c, const char *user, const char *token)
{
    char *u = htc__strdup(c->env, user ? user : ""), *t = htc__strdup(c->env, token ? token : "");
    if (!u || !t) {
        htc__strfree(c->env, u);
        htc__strfree(c->env, t);
        return HTC_ENOMEM;
    }
    htc__strfree(c->env, c->user);
    htc__strfree(c->env, c->token);
    c->user = u;
    c->token = t;
    return HTC_OK;
}

htc_status htc_client_open(const htc_env *env, const htc_client_options *options, htc_client **out, htc_error *error)
{
    htc_client_options o = { 0 };
    char               tcp_name[32];
    if (!options || !out || htc__options_copy(&o, sizeof o, options, options->size, sizeof(size_t)) != HTC_OK ||
        (!o.path && !o.gateway && (!o.tcp_port || !o.token_path)))
        return htc__error(error, HTC_EINVAL, "a socket's path, a gateway's address, or a port and the file with its token, are needed");
    if (!o.path && o.gateway && (!o.key_path || (!o.ring_path && !o.server)))
        return htc__error(error, HTC_EINVAL, "%s: another machine's gateway is reached with keys alone: a key file, and a ring file or the gateway's key", o.gateway);
    if (sodium_init() < 0)
        return htc__error(error, HTC_EINTERNAL, "no source of randomness");
    htc_client *c = htc__alloc(env, sizeof *c);
    if (!c)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    snprintf(tcp_name, sizeof tcp_name, "127.0.0.1:%u", (unsigned)o.tcp_port);
    c->env = env;
    c->fd = -1;
    c->error = error;
    c->timeout_ns = o.timeout_ns ? o.timeout_ns : 10 * HTC_SECOND;
    htc_buf_init(&c->in, env, HTC_WIRE_MESSAGE_MAX + 1);
    htc_buf_init(&c->out, env, HTC_WIRE_MESSAGE_MAX + 1);
    htc_buf_init(&c->got, env, 0);
    htc_buf_init(&c->give, env, 0);
    c->name = htc__strdup(env, o.path ? o.path : o.gateway ? o.gateway : tcp_name);
    htc_status status = c->name ? htc_client_identify(c, o.user, o.token) : HTC_ENOMEM;
    if (status == HTC_OK)
        status = o.path ? dial_unix(c, o.path) : o.gateway ? find_way(c, &o) : dial_tcp(c, o.tcp_port, o.token_path);
    else
        htc__error(error, HTC_ENOMEM, "out of memory");
    if (status == HTC_OK && !c->sealed)
        status = greet(c);
    if (status != HTC_OK) {
        htc_client_close(c);
        return status;
    }
    *out = c;
    return HTC_OK;
}

void htc_client_close(htc_client *c)
{
    if (!c)
        return;
    htc__way_end(&(htc__way){ .fd = c->fd, .sealed = c->sealed, .in = c->got });
    htc_buf_free(&c->give);
    htc__strfree(c->env, c->name);
    htc__strfree(c->env, c->user);
    htc__strfree(c->env, c->token);
    while (c->n_ahead)
        ahead_end(c, &c->ahead[0]);
    htc_buf_free(&c->in);
    htc_buf_free(&c->out);
    htc__free(c->env, c, sizeof *c);
}

/* --- requests --- */

/* Send what is in c->out and wait for a JSON answer. */
static htc_status exchange(htc_client *c, htc_ns timeout_ns, const char **answer)
{
    uint16_t   type;
    htc_reader r;
    htc_ns     end = end_of(timeout_ns);
    if (c->out.status != HTC_OK)
        return htc__error(c->error, c->out.status == HTC_EFULL ? HTC_ETOOBIG : HTC_ENOMEM, "the request is too long");
    htc_status status = send_frame(c, htc_buf_bytes(&c->out), end);
    if (status == HTC_OK)
        status = receive_answer(c, c->id, end, &type, &r);
    if (status != HTC_OK)
        return status;
    if (type != HTC_WIRE_USER_ANSWER)
        return htc__error(c->error, HTC_EPROTO, "%s answers with something else", c->name);
    *answer = (const char *)r.p;
    return HTC_OK;
}

htc_status htc_client_request(htc_client *c, const char *json, htc_ns timeout_ns, const char **answer, htc_error *error)
{
    if (!c || !json || !answer)
        return htc__error(error, HTC_EINVAL, "a request is needed");
    c->error = error;
    htc_wire_begin(&c->out, HTC_WIRE_USER_REQUEST, ++c->id);
    htc_put_raw(&c->out, htc_bytes_of(json));
    return exchange(c, timeout_ns, answer);
}

/* HTC_OK if the answer is no error object; else its status and sentence. */
static htc_status verdict(htc_client *c, const char *answer)
{
    json_t     *o = json_loads(answer, 0, NULL);
    const char *name = json_string_value(json_object_get(o, "error"));
    const char *text = json_string_value(json_object_get(o, "message"));
    htc_status  status = HTC_OK;
    if (!json_is_object(o))
        status = htc__error(c->error, HTC_EPROTO, "%s answers something that is not JSON", c->name);
    else if (name)
        status = htc__error(c->error, htc_status_from_name(name), "%s", text ? text : name);
    json_decref(o);
    return status;
}

/* Is this content there already? HTC_OK, HTC_ENOTFOUND, or an error. */
static htc_status ask_blob(htc_client *c, const uint8_t hash[32])
{
    char        hex[65];
    const char *answer;
    htc_content_hex(hash, hex);
    json_t *o = json_pack("{s:s,s:s}", "op", "blob", "hash", hex);
    if (o && *c->user)
        json_object_set_new(o, "user", json_string(c->user));
    if (o && *c->token)
        json_object_set_new(o, "token", json_string(c->token));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return htc__error(c->error, HTC_ENOMEM, "out of memory");
    htc_status status = htc_client_request(c, text, c->timeout_ns * 6, &answer, c->error);
    free(text);
    return status == HTC_OK ? verdict(c, answer) : status;
}

static htc_status read_piece(int fd, uint8_t *piece, size_t len, uint64_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, piece + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return HTC_EIO;
        done += (size_t)n;
    }
    return HTC_OK;
}

static htc_status send_piece(htc_client *c, int fd, const uint8_t hash[32], uint64_t size, uint64_t at)
{
    size_t      len = size - at < PIECE ? (size_t)(size - at) : PIECE;
    const char *answer;
    htc_wire_begin(&c->out, HTC_WIRE_UPLOAD, ++c->id);
    htc_put_str(&c->out, c->user);
    htc_put_str(&c->out, c->token);
    htc_put_raw(&c->out, (htc_bytes){ hash, 32 });
    htc_put_u64(&c->out, size);
    htc_put_u64(&c->out, at);
    htc_put_varint(&c->out, len);
    uint8_t *piece = htc_buf_extend(&c->out, len);
    if (!piece && len)
        return htc__error(c->error, HTC_ENOMEM, "out of memory");
    if (read_piece(fd, piece, len, at) != HTC_OK)
        return htc__error(c->error, HTC_EINPUT, "the file changed while it was read");
    htc_status status = exchange(c, c->timeout_ns * 6, &answer);
    return status == HTC_OK ? verdict(c, answer) : status;
}

htc_status htc_client_upload(htc_client *c, int fd, uint8_t hash[32], htc_error *error)
{
    uint64_t size = 0, at = 0;
    if (!c || fd < 0)
        return htc__error(error, HTC_EINVAL, "a file is needed");
    c->error = error;
    if (htc_content_hash_fd(fd, hash, &size) != HTC_OK)
        return htc__error(error, HTC_EINPUT, "the file cannot be read: %s", strerror(errno));
    htc_status status = ask_blob(c, hash);
    if (status != HTC_ENOTFOUND)
        return status;
    if (error)
        *error = (htc_error){ .status = HTC_OK }; /* that was an answer */
    do {
        status = send_piece(c, fd, hash, size, at);
        at += PIECE;
    } while (status == HTC_OK && at < size);
    return status;
}

/* --- downloads --- */

static htc_status write_fd(htc_client *c, int fd, htc_bytes bytes)
{
    const uint8_t *p = bytes.data;
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = write(fd, p + done, bytes.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return htc__error(c->error, errno == ENOSPC || errno == EDQUOT ? HTC_ENOSPC : HTC_EIO, "cannot write: %s",
                              strerror(errno));
        done += (size_t)n;
    }
    return HTC_OK;
}

typedef struct download {
    uint64_t    job, task;
    uint32_t    attempt;
    const char *name;
    uint64_t    at, size;
} download;

static htc_status ask_piece(htc_client *c, const download *d, htc_ns end)
{
    htc_wire_begin(&c->out, HTC_WIRE_DOWNLOAD, ++c->id);
    htc_put_str(&c->out, c->user);
    htc_put_str(&c->out, c->token);
    htc_put_u64(&c->out, d->job);
    htc_put_u64(&c->out, d->task);
    htc_put_u32(&c->out, d->attempt);
    htc_put_str(&c->out, d->name);
    htc_put_u64(&c->out, d->at);
    htc_put_u32(&c->out, READ_PIECE);
    return c->out.status != HTC_OK ? htc__error(c->error, HTC_ENOMEM, "out of memory") : send_frame(c, htc_buf_bytes(&c->out), end);
}

static ahead *ahead_of(htc_client *c, const download *d)
{
    for (size_t i = 0; d->at == 0 && i < c->n_ahead; i++) {
        ahead *a = &c->ahead[i];
        if (a->job == d->job && a->task == d->task && a->attempt == d->attempt && strcmp(a->name, d->name) == 0)
            return a;
    }
    return NULL;
}

htc_status htc_client_ahead(htc_client *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, htc_error *error)
{
    download d = { job, task, attempt, name, 0, 0 };
    if (!c || !name)
        return htc__error(error, HTC_EINVAL, "a name is needed");
    c->error = error;
    if (c->n_ahead == HTC_CLIENT_AHEAD_MAX || ahead_of(c, &d))
        return HTC_OK;
    ahead *a = &c->ahead[c->n_ahead];
    *a = (ahead){ .id = c->id + 1, .job = job, .task = task, .attempt = attempt, .name = htc__strdup(c->env, name) };
    if (!a->name)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_buf_init(&a->answer, c->env, 0);
    c->n_ahead++;
    htc_status status = ask_piece(c, &d, end_of(c->timeout_ns));
    if (status != HTC_OK)
        ahead_end(c, a);
    return status;
}

/* One piece; the first answer fixes the attempt, so that a newer one cannot be mixed in. */
static htc_status fetch_piece(htc_client *c, download *d, htc_bytes *bytes)
{
    uint16_t   type;
    htc_reader r;
    htc_ns     end = end_of(c->timeout_ns * 6);
    ahead     *asked = ahead_of(c, d);
    htc_status status = asked ? ahead_take(c, asked, end, &type, &r) : ask_piece(c, d, end);
    if (status == HTC_OK && !asked)
        status = receive_answer(c, c->id, end, &type, &r);
    if (status != HTC_OK)
        return status;
    if (type == HTC_WIRE_USER_ANSWER) {
        status = verdict(c, (const char *)r.p);
        return status == HTC_OK ? htc__error(c->error, HTC_EPROTO, "%s sends no file", c->name) : status;
    }
    uint64_t at = htc_get_u64(&r);
    d->size = htc_get_u64(&r);
    d->attempt = htc_get_u32(&r);
    *bytes = htc_get_bytes(&r);
    if (type != HTC_WIRE_FILE_BYTES || htc_reader_done(&r) != HTC_OK || at != d->at || at + bytes->len > d->size ||
        (bytes->len == 0 && at < d->size))
        return htc__error(c->error, HTC_EPROTO, "%s sends no sound piece of %s", c->name, d->name);
    return HTC_OK;
}

htc_status htc_client_read(htc_client *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name,
                           uint64_t offset, htc_bytes *bytes, uint64_t *size, htc_error *error)
{
    download d = { job, task, attempt, name, offset, 0 };
    if (!c || !name || !bytes)
        return htc__error(error, HTC_EINVAL, "a name and a place for the answer are needed");
    c->error = error;
    htc_status status = fetch_piece(c, &d, bytes);
    if (status == HTC_OK && size)
        *size = d.size;
    return status;
}

htc_status htc_client_download(htc_client *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, int fd,
                               uint64_t *size, uint8_t hash[32], htc_error *error)
{
    crypto_generichash_state state;
    download                 d = { job, task, attempt, name, 0, 0 };
    htc_status               status;
    if (!c || !name || fd < 0)
        return htc__error(error, HTC_EINVAL, "a name and a file are needed");
    c->error = error;
    crypto_generichash_init(&state, NULL, 0, 32);
    do {
        htc_bytes bytes = { 0 };
        status = fetch_piece(c, &d, &bytes);
        if (status == HTC_OK)
            status = write_fd(c, fd, bytes);
        if (status == HTC_OK && bytes.len)
            crypto_generichash_update(&state, bytes.data, bytes.len);
        d.at += bytes.len;
    } while (status == HTC_OK && d.at < d.size);
    if (status != HTC_OK)
        return status;
    if (size)
        *size = d.size;
    if (hash)
        crypto_generichash_final(&state, hash, 32);
    return HTC_OK;
}
