/* The connection to Redis, and the kind of store that it makes. */
#include "net/remote/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/util.h"
#include "net/loop/host_private.h"
#include "net/remote/quiet.h"

#define REDIAL      (50 * HTC_MS)
#define REDIAL_MAX  (2 * HTC_SECOND)
#define TIMEOUT_MAX (1800 * HTC_SECOND)

static htc_status begin_all(redis *r)
{
    htc_status status = HTC_OK;
    for (htc__ask *ask = r->window.open; status == HTC_OK && ask;) {
        htc__ask *next = ask->next; /* an ask that is refused at once leaves the list */
        if (ask->started && ask->state == 0)
            status = htc__redis_begin(r, ask);
        ask = next;
    }
    for (htc__ask *ask; status == HTC_OK && (ask = htc__window_start(&r->window));)
        status = htc__redis_begin(r, ask);
    return status;
}

/* ---- the connection ---- */

static void hang_up(redis *r)
{
    if (!r->context)
        return;
    redisFree(r->context);
    r->context = NULL;
    r->fifo_first = r->fifo_count = 0;
    htc__window_restart(&r->window);
    r->redial = htc_host_now() + r->pause;
    r->pause = 2 * r->pause > REDIAL_MAX ? REDIAL_MAX : 2 * r->pause;
}

static htc_status no_redis(htc_error *error)
{
    htc__error(error, HTC_EPROTO, "redis: this is no Redis");
    if (error)
        snprintf(error->hint, sizeof error->hint, "a port of htc-kvd's --listen speaks with keys: tcp://HOST:PORT, with --key and --ring");
    return HTC_EPROTO;
}

/* While the connection is new, one command at a time. Gives the reply: freeReplyObject. */
static htc_status first_words(redisContext *c, redisReply **reply, htc_error *error, const char *format, const char *a,
                              const char *b)
{
    *reply = redisCommand(c, format, a, b);
    if (!*reply && c->err == REDIS_ERR_PROTOCOL)
        return no_redis(error);
    if (!*reply)
        return htc__error(error, c->err == REDIS_ERR_OOM ? HTC_ENOMEM : HTC_EUNREACHABLE, "redis: %s", c->errstr);
    if ((*reply)->type != REDIS_REPLY_ERROR)
        return HTC_OK;
    htc_status status = htc__error(error, htc__redis_meaning((*reply)->str), "redis says: %s", (*reply)->str);
    if (error && status == HTC_EDENIED)
        snprintf(error->hint, sizeof error->hint, "the password is the first line of a file: htc kv --password-file FILE; a member of our own store is at unix:DIR/kvd.sock too");
    freeReplyObject(*reply);
    *reply = NULL;
    return status;
}

static htc_status is_set(redisContext *c, const char *name, const char *to, htc_error *error)
{
    redisReply *reply = NULL;
    htc_status  status = first_words(c, &reply, error, "CONFIG GET %s", name, "");
    if (status != HTC_OK && error && !error->hint[0])
        snprintf(error->hint, sizeof error->hint, "it has to be asked how it keeps what it is given: let this user run CONFIG GET");
    if (status != HTC_OK)
        return status;
    int is = is_array(reply, 2) && is_text(reply->element[1]) && strcmp(reply->element[1]->str, to) == 0;
    freeReplyObject(reply);
    if (is)
        return HTC_OK;
    htc__error(error, HTC_ESTORE, "redis: %s is not %s: what it has answered may be lost when it ends", name, to);
    if (error)
        snprintf(error->hint, sizeof error->hint, "redis-cli CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG REWRITE");
    return HTC_ESTORE;
}

static htc_status greet(redis *r, redisContext *c, htc_error *error)
{
    redisReply *reply = NULL;
    htc_status  status = HTC_OK;
    if (r->password) {
        status = first_words(c, &reply, error, "AUTH %s", r->password, "");
        if (reply)
            freeReplyObject(reply);
    }
    if (status == HTC_OK)
        status = first_words(c, &reply, error, "ROLE", "", "");
    if (status == HTC_OK) {
        /* A replica shows what was, and takes no changes. */
        int primary = is_array(reply, 1) && is_text(reply->element[0]) && strcmp(reply->element[0]->str, "master") == 0;
        freeReplyObject(reply);
        if (!primary)
            status = htc__error(error, HTC_ESTORE, "redis: this is a replica; name its primary");
    }
    if (status == HTC_OK && r->durable)
        status = is_set(c, "appendonly", "yes", error);
    if (status == HTC_OK && r->durable)
        status = is_set(c, "appendfsync", "always", error);
    for (int i = 0; status == HTC_OK && i < SCRIPTS; i++) {
        status = first_words(c, &reply, error, "SCRIPT LOAD %s", htc__redis_scripts[i], "");
        if (status != HTC_OK && error && !error->hint[0])
            snprintf(error->hint, sizeof error->hint,
                     "it has to run scripts; a member of our own store (htc-kvd) is reached by %s",
                     "unix:DIR/kvd.sock or tcp://HOST:PORT");
        if (status != HTC_OK)
            break;
        if (reply->type == REDIS_REPLY_STRING && reply->len == SHA_LEN)
            memcpy(r->sha[i], reply->str, SHA_LEN);
        else
            status = no_redis(error);
        freeReplyObject(reply);
    }
    return status;
}

static htc_status unreachable(const redis *r, const redisContext *c, htc_error *error)
{
    const char *open = r->host && strchr(r->host, ':') ? "[" : "", *close = *open ? "]" : "";
    if (c->err == REDIS_ERR_OOM)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    if (r->path)
        htc__error(error, HTC_EUNREACHABLE, "redis+unix:%s: %s", r->path, c->errstr);
    else
        htc__error(error, HTC_EUNREACHABLE, "redis://%s%s%s:%d: %s", open, r->host, close, r->port, c->errstr);
    if (error && r->path)
        snprintf(error->hint, sizeof error->hint, "look whether Redis or Valkey runs there: redis-cli -s %s ping", r->path);
    else if (error)
        snprintf(error->hint, sizeof error->hint, "look whether Redis or Valkey runs there: redis-cli -h %s -p %d ping", r->host, r->port);
    return HTC_EUNREACHABLE;
}

static htc_status connected(redis *r, htc_ns patience, htc_error *error)
{
    struct timeval t = htc__timeval(patience);
    redisContext  *c = r->path ? redisConnectUnixWithTimeout(r->path, t) : redisConnectWithTimeout(r->host, r->port, t);
    if (!c)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    htc_status status = HTC_OK;
    if (c->err)
        status = unreachable(r, c, error);
    if (status == HTC_OK) {
        redisSetTimeout(c, t);
        status = greet(r, c, error);
    }
    if (status != HTC_OK) {
        redisFree(c);
        return status;
    }
    c->flags &= ~REDIS_BLOCK;
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    r->context = c;
    r->dials++;
    return HTC_OK;
}

static htc_status dial(redis *r, htc_ns patience, htc_error *error)
{
    htc__quiet q;
    htc__quiet_begin(&q);
    htc_status status = connected(r, patience, error);
    htc__quiet_end(&q);
    return status;
}

static void redial(redis *r)
{
    if (r->context || htc_host_now() < r->redial)
        return;
    if (dial(r, HTC_SECOND, NULL) != HTC_OK) {
        r->redial = htc_host_now() + r->pause;
        r->pause = 2 * r->pause > REDIAL_MAX ? REDIAL_MAX : 2 * r->pause;
    }
}

static htc_status take_all(redis *r)
{
    while (r->context) {
        void *reply = NULL;
        if (redisGetReplyFromReader(r->context, &reply) != REDIS_OK || (reply && r->fifo_count == 0)) {
            if (reply)
                freeReplyObject(reply);
            hang_up(r);
            return HTC_OK;
        }
        if (!reply)
            return HTC_OK;
        htc__ask *ask = r->fifo[r->fifo_first].ask;
        r->fifo_first = (r->fifo_first + 1) % r->fifo_cap;
        r->fifo_count--;
        uint32_t   before = r->window.started;
        htc_status status = htc__redis_take(r, ask, reply);
        freeReplyObject(reply);
        if (r->window.started < before)
            r->pause = REDIAL; /* a request has its answer: one that only greets, or keeps none of the scripts, is dialled ever more rarely */
        if (status == HTC_AGAIN)
            hang_up(r);
        else if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static void write_out(redis *r)
{
    htc__quiet q;
    htc__quiet_begin(&q);
    for (int done = 0; r->context && !done;) {
        size_t before = sdslen(r->context->obuf);
        if (redisBufferWrite(r->context, &done) != REDIS_OK)
            hang_up(r);
        else if (sdslen(r->context->obuf) == before)
            break; /* the socket is full: poll says when it is not */
    }
    htc__quiet_end(&q);
}

static short waits_for(const redisContext *c)
{
    return (short)(POLLIN | (sdslen(c->obuf) > 0 ? POLLOUT : 0));
}

static htc_ns wake_at(const redis *r)
{
    htc_ns until = htc__window_deadline(&r->window);
    return !r->context && r->redial < until ? r->redial : until;
}

/* One turn: until something can be read or written, or the moment has come. */
static htc_status turn(redis *r, htc_ns end)
{
    redial(r);
    htc_status status = r->context ? begin_all(r) : HTC_OK;
    if (status != HTC_OK || r->window.done)
        return status;
    write_out(r);
    htc_ns now = htc_host_now(), until = wake_at(r);
    until = end < until ? end : until;
    htc_ns          span = until <= now ? 0 : until - now > 3600 * HTC_SECOND ? 3600 * HTC_SECOND : until - now;
    struct timespec wait = { (time_t)(span / HTC_SECOND), (long)(span % HTC_SECOND) };
    struct pollfd   p = { r->context ? r->context->fd : -1, (short)(r->context ? waits_for(r->context) : 0), 0 };
    if (ppoll(&p, 1, &wait, NULL) > 0 && p.revents & (POLLIN | POLLERR | POLLHUP)) {
        if (redisBufferRead(r->context) != REDIS_OK)
            hang_up(r);
        status = take_all(r);
    }
    /* Whoever owes an answer this long is asked anew, on another connection. */
    if (status == HTC_OK && htc__window_expire(&r->window, htc_host_now()))
        hang_up(r);
    return status;
}

/* ---- the kind ---- */

static void close_redis(void *ctx)
{
    redis  *r = ctx;
    htc_env env = r->env;
    if (r->context)
        redisFree(r->context);
    htc__window_free(&r->window);
    htc__free(&env, r->fifo, r->fifo_cap * sizeof *r->fifo);
    htc__strfree(&env, r->host);
    htc__strfree(&env, r->path);
    if (r->password)
        explicit_bzero(r->password, strlen(r->password));
    htc__strfree(&env, r->password);
    htc_buf_free(&r->scratch);
    htc_buf_free(&r->record);
    htc__free(&env, r, sizeof *r);
}

static htc_status read_password(redis *r, const char *path, htc_error *error)
{
    char  line[512] = "";
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!path)
        return HTC_OK;
    char *got = file ? fgets(line, sizeof line, file) : NULL;
    if (file)
        fclose(file);
    if (!got)
        return htc__error(error, HTC_EDENIED, "%s: cannot read the password: %s", path, strerror(errno));
    line[strcspn(line, "\r\n")] = 0;
    r->password = htc__strdup(&r->env, line);
    explicit_bzero(line, sizeof line);
    return r->password ? HTC_OK : htc__error(error, HTC_ENOMEM, "out of memory");
}

static htc_status finish_open(redis *r, const htc_store_options *options, void **ctx, htc_status status,
                              htc_error *error)
{
    if (status == HTC_OK)
        status = read_password(r, options->password_path, error);
    if (status == HTC_OK)
        status = dial(r, options->timeout_ns, error);
    if (status != HTC_OK) {
        close_redis(r);
        return status;
    }
    *ctx = r;
    return HTC_OK;
}

static redis *new_redis(const htc_env *env, const htc_store_options *options, htc_error *error)
{
    redis *r = htc__alloc(env, sizeof *r);
    if (!r) {
        htc__error(error, HTC_ENOMEM, "out of memory");
        return NULL;
    }
    r->env = *env;
    r->pause = REDIAL;
    r->durable = options->durable;
    snprintf(r->prefix, sizeof r->prefix, "htc");
    htc__window_init(&r->window, env, options->window,
                     options->timeout_ns < TIMEOUT_MAX ? options->timeout_ns : TIMEOUT_MAX);
    htc_buf_init(&r->scratch, env, 2 * (size_t)HTC_KV_VALUE_MAX);
    htc_buf_init(&r->record, env, 2 * (size_t)HTC_KV_VALUE_MAX);
    return r;
}

static htc_status open_tcp(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                           htc_error *error)
{
    htc__address address;
    htc_status   status = htc__address_parse(rest, 6379, &address);
    if (status != HTC_OK)
        return htc__error(error, status, "%s: redis://HOST:PORT/PREFIX is expected", options->address);
    redis *r = new_redis(env, options, error);
    if (!r)
        return HTC_ENOMEM;
    if (*address.prefix)
        snprintf(r->prefix, sizeof r->prefix, "%s", address.prefix);
    r->port = address.port;
    r->host = htc__strdup(env, address.host);
    return finish_open(r, options, ctx, r->host ? HTC_OK : htc__error(error, HTC_ENOMEM, "out of memory"), error);
}

static htc_status open_unix(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                            htc_error *error)
{
    redis *r = new_redis(env, options, error);
    if (!r)
        return HTC_ENOMEM;
    r->path = htc__strdup(env, rest);
    return finish_open(r, options, ctx, r->path ? HTC_OK : htc__error(error, HTC_ENOMEM, "out of memory"), error);
}

static htc_status submit(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    redis *r = ctx;
    return htc__window_submit(&r->window, requests, n, tag);
}

static htc_status next(void *ctx, htc_ns end, htc_kv_result *result)
{
    redis *r = ctx;
    for (int first = 1;; first = 0) {
        if (htc__window_next(&r->window, result))
            return HTC_OK;
        if (!first && htc_host_now() >= end)
            return HTC_ETIMEDOUT;
        htc_status status = turn(r, end);
        if (status != HTC_OK)
            return status;
    }
}

static uint32_t sockets(const void *ctx, htc__poll_socket *list, uint64_t *dials)
{
    const redis *r = ctx;
    *dials = r->dials;
    if (!r->context)
        return 0;
    list[0] = (htc__poll_socket){ r->context->fd, (uint32_t)waits_for(r->context) };
    return 1;
}

static htc_ns deadline(const void *ctx)
{
    const redis *r = ctx;
    return r->window.done ? 0 : wake_at(r);
}

/* One Redis is linearizable; what a fail-over to a replica loses, it loses without a word. */
#define ABILITIES                                                                                                      \
    (HTC_STORE_LINEARIZABLE | HTC_STORE_SAFE_RETRIES | HTC_STORE_LEASES | HTC_STORE_ORDERED_SCAN |                     \
     HTC_STORE_FINE_LEASES | HTC_STORE_LARGE_VALUES)

const htc__store_kind htc__store_redis = { "redis://", ABILITIES, open_tcp, submit, next, close_redis, NULL, NULL, NULL, sockets, deadline };
const htc__store_kind htc__store_redis_unix = { "redis+unix:", ABILITIES, open_unix, submit, next, close_redis, NULL, NULL, NULL, sockets, deadline };
