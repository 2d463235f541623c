/* Members of ours behind sockets: the client machine in a small loop of its own. A lost connection is dialled again, at the next
 * member if there are several, and the client repeats what was not answered: the members of a store know a repetition, whoever of
 * them had the first. Beside that one it has connections to the owners of keys that it asks for. */
#include "net/remote/native.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/util.h"
#include "kvs/client/client.h"
#include "net/loop/host_private.h"
#include "net/remote/stores.h"

/* ---- the kind ---- */

static void close_native(void *ctx)
{
    htc__native *c = ctx;
    htc_env      env = c->env;
    htc__native_end(c);
    htc_kv_client_destroy(c->client);
    htc_output_destroy(c->effects);
    for (uint32_t i = 0; i < c->count; i++)
        htc__strfree(&env, c->places[i].path);
    htc__strfree(&env, c->token_path);
    htc__strfree(&env, c->key_path);
    htc__strfree(&env, c->ring_path);
    htc__free(&env, c, sizeof *c);
}

/* By TCP without a key and without the token of a host. */
static htc_status shows_nothing(const htc_store_options *options, htc_error *error)
{
    htc__error(error, HTC_EDENIED, "%s: a TCP port lets in those who show a key, and none is given", options->address);
    if (error)
        snprintf(error->hint, sizeof error->hint, "--key FILE and --ring FILE at a port of --listen (htc keys --help); one of --resp is redis://HOST:PORT");
    return HTC_EDENIED;
}

static htc_status not_there(const htc__native *c, const htc_store_options *options, int why, htc_error *error)
{
    if (why == EACCES && !c->places[c->at].path && !c->links[0].sealed && !c->token_path)
        return shows_nothing(options, error);
    const char *reason = c->links[0].sealed ? htc__sealed_reason(c->links[0].sealed) : "";
    htc_status  status = why == EACCES || why == EPERM ? HTC_EDENIED : HTC_EUNREACHABLE;
    htc__error(error, status, "%s: %s", options->address,
               *reason         ? reason
               : why == ENOENT ? "nobody listens there"
                               : strerror(why));
    if (error && status == HTC_EUNREACHABLE)
        snprintf(error->hint, sizeof error->hint, "is it running? htc up, or htc-kvd --dir DIR, starts one");
    return status;
}

/* Whatever does not answer a handshake is likely another service. */
static const char no_keys_there[] = "is it the port of a member's --listen? what has no keys answers no handshake; a port of --resp is redis://HOST:PORT";

static htc_status turned_away(const htc__native *c, const htc_store_options *options, htc_error *error)
{
    const char *reason = c->links[0].sealed ? htc__sealed_reason(c->links[0].sealed) : "";
    htc__error(error, c->refused ? c->refused : HTC_ECLOSED, "%s: %s", options->address,
               *reason      ? reason
               : c->refused ? htc_strerror(c->refused)
                            : "it hangs up without a word");
    if (error && c->links[0].sealed && c->refused == HTC_EDENIED)
        snprintf(error->hint, sizeof error->hint, "%s",
                 options->once
                     ? "htc keys enrol prints a secret over there, good once and for its time; htc-kvd knows it after SIGHUP; a key that was revoked there needs another --key"
                     : "each side's ring needs the other's key; htc keys show prints one's own, htc keys add pins it");
    if (error && c->links[0].sealed && (c->refused == HTC_ETIMEDOUT || c->refused == HTC_EPROTO || c->refused == HTC_OK))
        snprintf(error->hint, sizeof error->hint, "%s", no_keys_there);
    return c->refused ? c->refused : HTC_ECLOSED;
}

static htc_status too_late(const htc__native *c, const htc_store_options *options, htc_error *error)
{
    htc__error(error, HTC_ETIMEDOUT, "%s: does not answer in time", options->address);
    if (error && c->links[0].sealed && !c->links[0].open)
        snprintf(error->hint, sizeof error->hint, "%s", no_keys_there);
    return HTC_ETIMEDOUT;
}

static htc_status greeted_by(htc__native *c, const htc_store_options *options, htc_error *error)
{
    htc_ns end = htc__store_end(c->patience);
    c->links[0].redial = htc_host_now();
    if (htc__native_dial(c) != 0)
        return not_there(c, options, errno, error);
    htc_status status = htc__native_greet(c);
    while (status == HTC_OK && !htc_kv_client_connected(c->client)) {
        /* Who has too many callers at the moment may have given a cookie for the next try. */
        if (c->links[0].fd < 0 && (c->refused != HTC_EBUSY || c->count > 1))
            return turned_away(c, options, error);
        if (htc_host_now() >= end)
            return c->links[0].fd < 0 ? turned_away(c, options, error) : too_late(c, options, error);
        status = htc__native_turn(c, end);
    }
    c->refused = HTC_OK;
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "%s: %s", options->address, htc_strerror(status));
}

/* Whichever member answers first, in their order; they share the patience. */
static htc_status greeted(htc__native *c, const htc_store_options *options, htc_error *error)
{
    htc_status status = HTC_EUNREACHABLE;
    for (uint32_t i = 0; i < c->count && status != HTC_OK && status != HTC_ENOMEM; i++) {
        if (htc__native_hang_up(&c->links[0]) != HTC_OK)
            return htc__error(error, HTC_ENOMEM, "out of memory");
        c->at = i;
        c->refused = HTC_OK;
        status = greeted_by(c, options, error);
    }
    return status;
}

static htc_status keep_text(const htc__native *c, const char *text, char **copy)
{
    return !text || (*copy = htc__strdup(&c->env, text)) ? HTC_OK : HTC_ENOMEM;
}

static htc_status prepare(htc__native *c, const htc_store_options *options)
{
    htc_kv_client_options o = { .size = sizeof o,
                                .peer = HTC__NATIVE_HOME,
                                .members = HTC__NATIVE_MEMBERS,
                                .member_peer = HTC__NATIVE_HOME + 1,
                                .timeout_ns = options->timeout_ns };
    htc_host_random(&o.client_id, sizeof o.client_id);
    c->role = options->role;
    htc_status status = htc_kv_client_create(&c->env, &o, &c->client);
    if (status == HTC_OK)
        status = htc_output_create(&c->env, 0, &c->effects);
    if (status == HTC_OK)
        status = keep_text(c, options->token_path, &c->token_path);
    if (status == HTC_OK)
        status = keep_text(c, options->key_path, &c->key_path);
    return status == HTC_OK ? keep_text(c, options->ring_path, &c->ring_path) : status;
}

/* Takes the place of c, also on failure; status: of what was done to it so far. */
static htc_status open_native(htc__native *c, const htc_store_options *options, htc_status status, void **ctx,
                              htc_error *error)
{
    if (status == HTC_OK && (status = prepare(c, options)) != HTC_OK)
        htc__error(error, status, "out of memory");
    if (status == HTC_OK && !c->places[0].path && options->key_path)
        status = htc__sealed_open(&c->env, options, &c->links[0].sealed, error);
    if (status == HTC_OK)
        status = greeted(c, options, error);
    if (status != HTC_OK) {
        close_native(c);
        return status;
    }
    *ctx = c;
    return HTC_OK;
}

static htc__native *new_native(const htc_env *env, htc_error *error)
{
    htc__native *c = htc__alloc(env, sizeof *c);
    if (!c) {
        htc__error(error, HTC_ENOMEM, "out of memory");
        return NULL;
    }
    c->env = *env;
    htc__native_init(c);
    return c;
}

/* One address of several: up to the next, which begins behind a comma with the scheme again (a path may have commas of its own). */
static size_t one_of(const char *list, const char *between)
{
    const char *next = strstr(list, between);
    return next ? (size_t)(next - list) : strlen(list);
}

static htc_status open_unix(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                            htc_error *error)
{
    static const char between[] = ",unix:";
    htc__native *c = new_native(env, error);
    htc_status        status = HTC_OK;
    if (!c)
        return HTC_ENOMEM;
    for (int more = 1; more && status == HTC_OK;) {
        size_t len = one_of(rest, between);
        char  *path = c->count < HTC__NATIVE_PLACES_MAX ? htc__alloc(env, len + 1) : NULL;
        if (!path) {
            status = c->count < HTC__NATIVE_PLACES_MAX ? HTC_ENOMEM : HTC_EINVAL;
            htc__error(error, status, "%s: %s", options->address, htc_strerror(status));
            break;
        }
        memcpy(path, rest, len);
        c->places[c->count++].path = path;
        more = rest[len] != 0;
        rest += len + (more ? sizeof between - 1 : 0);
    }
    c->patience = c->count ? options->timeout_ns / c->count : 0;
    return open_native(c, options, status, ctx, error);
}

static htc_status tcp_place(const htc_store_options *options, const char *text, htc__place *p, htc_error *error)
{
    struct sockaddr_storage where;
    socklen_t               len;
    if (!htc__address_split(text, p->host, &p->port) || p->port == 0)
        return htc__error(error, HTC_EINVAL, "%s: tcp://HOST:PORT is expected, or tcp://HOST:PORT,HOST:PORT",
                          options->address);
    if (strcmp(p->host, "localhost") == 0)
        snprintf(p->host, sizeof p->host, "127.0.0.1");
    if (!options->key_path && !(htc__address_ip(p->host, p->port, &where, &len) && htc__address_is_loopback(&where))) {
        htc__error(error, HTC_EDENIED, "%s: another machine is reached with keys alone", options->address);
        if (error)
            snprintf(error->hint, sizeof error->hint, "htc keys new makes one; then --key FILE and --ring FILE");
        return HTC_EDENIED;
    }
    return HTC_OK;
}

static htc_status open_tcp(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                           htc_error *error)
{
    char       one[HTC__HOST_NAME_MAX + 8];
    htc__native *c = new_native(env, error);
    htc_status status = HTC_OK;
    if (!c)
        return HTC_ENOMEM;
    for (int more = 1; more && status == HTC_OK;) {
        size_t len = strcspn(rest, ",");
        if (len >= sizeof one || c->count == HTC__NATIVE_PLACES_MAX) {
            status =
                htc__error(error, HTC_EINVAL, "%s: too long, or more than %d members", options->address, HTC__NATIVE_PLACES_MAX);
            break;
        }
        snprintf(one, sizeof one, "%.*s", (int)len, rest);
        status = tcp_place(options, one, &c->places[c->count++], error);
        more = rest[len] != 0;
        rest += len + (size_t)more;
    }
    c->patience = c->count ? options->timeout_ns / c->count : 0;
    return open_native(c, options, status, ctx, error);
}

/* An output belongs to a step: what was submitted leaves at once. What does not fit into the buffer is as lost as on a broken
 * line: the client sends it again. */
static htc_status submit(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    htc__native *c = ctx;
    htc_status status = htc_kv_client_submit(c->client, htc_host_now(), requests, n, tag, c->effects);
    htc__native_carry_out(c);
    return status;
}

static htc_status watch(void *ctx, const htc_kv_watch *w)
{
    htc__native *c = ctx;
    htc_status status = htc_kv_client_watch(c->client, htc_host_now(), w, c->effects);
    htc__native_carry_out(c);
    return status;
}

static htc_status unwatch(void *ctx, uint64_t tag)
{
    htc__native *c = ctx;
    htc_status status = htc_kv_client_unwatch(c->client, htc_host_now(), tag, c->effects);
    htc__native_carry_out(c);
    return status;
}

/* Turns until there is a result, or else an event. */
static htc_status until_told(htc__native *c, htc_ns end, htc_kv_result *result, htc_kv_event *event)
{
    htc_status status = HTC_OK;
    for (int first = 1; status == HTC_OK; first = 0) {
        for (uint32_t i = 0; i <= HTC__NATIVE_MEMBERS && status == HTC_OK; i++)
            if (c->links[i].out.status != HTC_OK)
                status = htc__native_hang_up(&c->links[i]);
        if (result ? htc_kv_client_next(c->client, result) : htc_kv_client_event(c->client, event)) {
            if (htc_kv_client_connected(c->client)) /* what was given up says nothing of the other side */
                htc__native_answered(c);
            return status;
        }
        if (!first && htc_host_now() >= end)
            return HTC_ETIMEDOUT;
        if (status == HTC_OK)
            status = htc__native_turn(c, end);
    }
    return status;
}

static htc_status next(void *ctx, htc_ns end, htc_kv_result *result)
{
    return until_told(ctx, end, result, NULL);
}

static htc_status next_event(void *ctx, htc_ns end, htc_kv_event *event)
{
    return until_told(ctx, end, NULL, event);
}

static uint32_t sockets(const void *ctx, htc__poll_socket *list, uint64_t *dials)
{
    const htc__native *c = ctx;
    *dials = c->dials;
    return htc__native_sockets(c, list);
}

static htc_ns deadline(const void *ctx)
{
    const htc__native *c = ctx;
    return htc__kv_client_tells(c->client) ? 0 : htc__native_deadline(c);
}

#define EVERYTHING                                                                                                     \
    (HTC_STORE_LINEARIZABLE | HTC_STORE_SAFE_RETRIES | HTC_STORE_LEASES | HTC_STORE_ORDERED_SCAN |                     \
     HTC_STORE_FINE_LEASES | HTC_STORE_LARGE_VALUES | HTC_STORE_WATCHES)

const htc__store_kind htc__store_unix = { "unix:", EVERYTHING, open_unix, submit, next, close_native, watch, unwatch, next_event, sockets, deadline };
const htc__store_kind htc__store_tcp = { "tcp://", EVERYTHING, open_tcp, submit, next, close_native, watch, unwatch, next_event, sockets, deadline };
