/* One request of a user to the gateway, by a guest of its own: whoever goes away takes what was asked along. */
#include "net/portal/portal_private.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PIECE (1u << 20)
#define NAME_LEN 4095
#define TO_END (5 * HTC_SECOND) /* for who has been told all, to close */

/* ---- what is said and heard ---- */

void htc__portal_hello(htc__guest *guest)
{
    htc_buf b;
    htc_buf_init(&b, guest->host->env, 256);
    htc_wire_hello(&b, HTC_WIRE_ROLE_USER, HTC_WIRE_VERSION);
    if (b.status == HTC_OK)
        htc__guest_say(guest, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static void hear(void *ctx, htc_bytes message)
{
    visitor   *v = ctx;
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(message, &type, &id);
    if (type == HTC_WIRE_WELCOME || v->answered)
        return;
    if ((type == HTC_WIRE_USER_ANSWER || type == HTC_WIRE_FILE_BYTES) && id == 1) {
        htc_put_u8(&v->answer, type == HTC_WIRE_FILE_BYTES);
        htc_put_raw(&v->answer, (htc_bytes){ r.p, htc_reader_left(&r) });
    }
    v->answered = v->answer.len && v->answer.status == HTC_OK ? 1 : -1;
    event_active(v->later, EV_TIMEOUT, 0);
}

static void gone(void *ctx, htc_status why)
{
    visitor *v = ctx;
    (void)why;
    if (!v->answered)
        v->answered = -1;
    event_active(v->later, EV_TIMEOUT, 0);
}

/* message is of this request alone and may hold a password. */
static void say(visitor *v, htc_buf *message)
{
    htc_buf_clear(&v->answer);
    v->answered = 0;
    v->state = VISITOR_ASKS;
    htc__portal_patience(v);
    if (!v->guest.peer) {
        v->guest = (htc__guest){ .hear = hear, .gone = gone, .ctx = v };
        if (htc__guest_open(v->portal->host, &v->guest, &v->portal->info) == HTC_OK)
            htc__portal_hello(&v->guest);
    }
    if (message->status == HTC_OK && v->guest.peer) {
        htc__guest_say(&v->guest, htc_buf_bytes(message));
    } else if (!v->answered) {
        v->answered = -1;
        event_active(v->later, EV_TIMEOUT, 0);
    }
    if (message->len)
        explicit_bzero(message->data, message->len);
    htc_buf_free(message);
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

void htc__portal_ask(visitor *v, uint32_t kind, const char *op, htc_bytes body)
{
    htc_buf     message;
    const char *end = (const char *)body.data + body.len, *p = skip_blanks(body.data, end);
    v->ask = kind;
    if (p == end || *p != '{') {
        htc__portal_refuse(v, HTC_EJSON, "see doc/api.md", "the body is no object of JSON");
        return;
    }
    /* A second "op" or "token" in the body makes the gateway refuse the object: no name stands twice. */
    htc_buf_init(&message, v->portal->host->env, HTC_WIRE_MESSAGE_MAX);
    htc_wire_begin(&message, HTC_WIRE_USER_REQUEST, 1);
    htc_put_text(&message, "{\"op\":\"%s\"", op);
    if (kind != PORTAL_ASK_LOGIN)
        htc_put_text(&message, ",\"token\":\"%s\"", v->token);
    p = skip_blanks(p + 1, end);
    if (p < end && *p != '}')
        htc_put_u8(&message, ',');
    htc_put_raw(&message, (htc_bytes){ p, (size_t)(end - p) });
    say(v, &message);
}

void htc__portal_ask_who(visitor *v)
{
    htc__portal_ask(v, PORTAL_ASK_WHO, "quota", htc_bytes_of("{}"));
}

/* ---- answers ---- */

/* The error of an answer, by its name; HTC_OK: it is none. */
static htc_status error_of(htc_bytes json)
{
    static const char before[] = "{\"error\":\"";
    char              name[40];
    const char       *p = json.data;
    size_t            n = 0;
    if (json.len < sizeof before || memcmp(p, before, sizeof before - 1) != 0)
        return HTC_OK;
    p += sizeof before - 1;
    while (n < sizeof name - 1 && n + sizeof before - 1 < json.len && p[n] != '"') {
        name[n] = p[n];
        n++;
    }
    name[n] = '\0';
    return htc_status_from_name(name);
}

/* The token goes into the cookie and nowhere else. */
static void answer_login(visitor *v, htc_bytes json)
{
    char        cookie[200];
    json_t     *o = json_loadb(json.data, json.len, 0, NULL);
    const char *token = json_string_value(json_object_get(o, "token"));
    if (token && strlen(token) == PORTAL_TOKEN_LEN) {
        htc__portal_cookie(v, token, cookie, sizeof cookie);
        json_object_del(o, "token");
        char *text = json_dumps(o, JSON_COMPACT);
        if (text)
            htc__portal_answer(v, 200, "application/json", htc_bytes_of(text), cookie);
        else
            htc__portal_refuse(v, HTC_ENOMEM, "", "out of memory");
        free(text);
        explicit_bzero(cookie, sizeof cookie);
    } else {
        htc__portal_refuse(v, HTC_EINTERNAL, "", "the gateway answers nonsense");
    }
    json_decref(o);
}

static void heard_who(visitor *v, htc_bytes json)
{
    json_t     *o = json_loadb(json.data, json.len, 0, NULL);
    const char *name = json_string_value(json_object_get(o, "name"));
    int         known = error_of(json) == HTC_OK && name && name[0] && strlen(name) < sizeof v->user;
    if (known)
        strcpy(v->user, name);
    json_decref(o);
    if (known) {
        htc__portal_known(v);
        return;
    }
    event_add(v->read, NULL);
    if (error_of(json) != HTC_OK)
        htc__portal_answer_json(v, json);
    else
        htc__portal_refuse(v, HTC_EAUTH, "log in", "this is no user's session");
}

void htc__portal_answer_json(visitor *v, htc_bytes json)
{
    char       cookie[200] = "";
    htc_status error = error_of(json);
    if (v->ask == PORTAL_ASK_LOGIN && error == HTC_OK) {
        answer_login(v, json);
        return;
    }
    if (v->ask == PORTAL_ASK_LOGOUT && (error == HTC_OK || error == HTC_EAUTH || error == HTC_EEXPIRED))
        htc__portal_cookie(v, "", cookie, sizeof cookie);
    htc__portal_answer(v, htc__portal_http_status(error), "application/json", json, cookie);
}

/* ---- downloads ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "%XX" decoded; 0: it is no name. */
static int read_name(htc_buf *out, htc_bytes text)
{
    const char *p = text.data;
    for (size_t i = 0; i < text.len; i++) {
        int high = p[i] == '%' && i + 2 < text.len ? hex_digit(p[i + 1]) : -1, low = high >= 0 ? hex_digit(p[i + 2]) : -1;
        if (p[i] == '%' && (low < 0 || high * 16 + low == 0))
            return 0;
        htc_put_u8(out, p[i] == '%' ? (uint8_t)(high * 16 + low) : (uint8_t)p[i]);
        i += p[i] == '%' ? 2 : 0;
    }
    return out->status == HTC_OK && out->len > 0 && out->len <= NAME_LEN;
}

void htc__portal_ask_piece(visitor *v, uint32_t kind, const portal_piece *piece)
{
    htc_buf message;
    v->ask = kind;
    htc_buf_init(&message, v->portal->host->env, 16384);
    htc_wire_begin(&message, HTC_WIRE_DOWNLOAD, 1);
    htc_put_str(&message, "");
    htc_put_str(&message, v->token);
    htc_put_u64(&message, piece->job);
    htc_put_u64(&message, piece->task);
    htc_put_u32(&message, piece->attempt);
    htc_put_bytes(&message, piece->name);
    htc_put_u64(&message, piece->offset);
    htc_put_u32(&message, piece->length);
    say(v, &message);
}

static void ask_for_piece(visitor *v)
{
    uint64_t left = v->begun ? v->size - v->offset : PIECE;
    htc__portal_ask_piece(v, PORTAL_ASK_DOWNLOAD, &(portal_piece){ v->job, v->task, 0, htc_buf_bytes(&v->name), v->offset, left < PIECE ? (uint32_t)left : PIECE });
}

void htc__portal_download(visitor *v, htc_bytes query)
{
    htc_bytes job, task, name;
    v->ask = PORTAL_ASK_DOWNLOAD;
    if (htc__http_request_argument(query, "job", &job) && htc__portal_number(job, &v->job) && htc__http_request_argument(query, "task", &task) &&
        htc__portal_number(task, &v->task) && htc__http_request_argument(query, "name", &name) && read_name(&v->name, name))
        ask_for_piece(v);
    else
        htc__portal_refuse(v, HTC_EINVAL, "say job=ID&task=N&name=NAME", "this names no output");
}

/* What stands behind the last slash, of letters that no header minds. */
static void put_disposition(visitor *v, char *out, size_t cap)
{
    const char *p = (const char *)v->name.data, *slash = memrchr(p, '/', v->name.len);
    size_t      skip = slash ? (size_t)(slash + 1 - p) : 0, n = 0;
    char        file[101];
    for (size_t i = skip; i < v->name.len && n < sizeof file - 1; i++)
        file[n++] = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", p[i]) ? p[i] : '_';
    file[n] = '\0';
    snprintf(out, cap, "Content-Disposition: attachment; filename=\"%llu.%llu-%s\"\r\n", (unsigned long long)v->job, (unsigned long long)v->task,
             file);
}

static void answer_piece(visitor *v, htc_bytes body)
{
    char       more[256];
    htc_reader r = htc_reader_of(body);
    uint64_t   offset = htc_get_u64(&r), size = htc_get_u64(&r);
    (void)htc_get_u32(&r);
    htc_bytes bytes = htc_get_bytes(&r);
    if (htc_reader_done(&r) != HTC_OK || offset != v->offset) {
        htc__portal_free(v);
        return;
    }
    if (!v->begun) {
        v->begun = 1;
        v->began = htc_host_now();
        v->size = size; /* of a running task it may grow: what was there at first is sent */
        put_disposition(v, more, sizeof more);
        htc__portal_head(v, 200, "application/octet-stream", size, more);
    }
    if (bytes.len > v->size - v->offset)
        bytes.len = (size_t)(v->size - v->offset);
    if (bytes.len == 0 && v->offset < v->size) { /* it has shrunk: the length tells that something is missing */
        htc__portal_free(v);
        return;
    }
    htc_put_raw(&v->out, bytes);
    v->offset += bytes.len;
    v->state = VISITOR_TAKES;
    htc__portal_patience(v);
    htc__portal_push(v);
}

/* ---- uploads ---- */

/* 64 hex digits; 0: they are not. */
static int read_hash(htc_bytes text, uint8_t hash[32])
{
    const char *p = text.data;
    for (size_t i = 0; i < 64 && text.len == 64; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return 0;
        hash[i / 2] = (uint8_t)(i % 2 ? hash[i / 2] << 4 | digit : digit);
    }
    return text.len == 64;
}

void htc__portal_upload(visitor *v, htc_bytes query, htc_bytes piece)
{
    htc_bytes text;
    htc_buf   message;
    uint8_t   hash[32];
    uint64_t  size, offset;
    v->ask = PORTAL_ASK_API;
    if (!htc__http_request_argument(query, "hash", &text) || !read_hash(text, hash) || !htc__http_request_argument(query, "size", &text) ||
        !htc__portal_number(text, &size) || !htc__http_request_argument(query, "offset", &text) || !htc__portal_number(text, &offset)) {
        htc__portal_refuse(v, HTC_EINVAL, "say hash=HEX&size=N&offset=N", "this is no piece of an upload");
        return;
    }
    htc_buf_init(&message, v->portal->host->env, PORTAL_UPLOAD_PIECE + 16384);
    htc_wire_begin(&message, HTC_WIRE_UPLOAD, 1);
    htc_put_str(&message, "");
    htc_put_str(&message, v->token);
    htc_put_raw(&message, (htc_bytes){ hash, sizeof hash });
    htc_put_u64(&message, size);
    htc_put_u64(&message, offset);
    htc_put_bytes(&message, piece);
    say(v, &message);
}

/* ---- what follows ---- */

void htc__portal_ask_go_on(visitor *v)
{
    if (!v->answered)
        return;
    htc_bytes answer = htc_buf_bytes(&v->answer);
    if (v->answered < 0 && v->begun)
        htc__portal_free(v);
    else if (v->answered < 0)
        htc__portal_refuse(v, HTC_EBUSY, "try again in a moment", "the gateway does not answer");
    else if (v->ask == PORTAL_ASK_ARCHIVE)
        htc__portal_archive_heard(v, answer);
    else if (v->ask == PORTAL_ASK_WHO)
        heard_who(v, (htc_bytes){ (const uint8_t *)answer.data + 1, answer.len - 1 });
    else if (((const uint8_t *)answer.data)[0])
        answer_piece(v, (htc_bytes){ (const uint8_t *)answer.data + 1, answer.len - 1 });
    else if (v->begun)
        htc__portal_free(v);
    else
        htc__portal_answer_json(v, (htc_bytes){ (const uint8_t *)answer.data + 1, answer.len - 1 });
}

void htc__portal_taken(visitor *v)
{
    struct timeval tv = htc__timeval(TO_END);
    if (v->ask == PORTAL_ASK_DOWNLOAD && v->begun && v->offset < v->size) {
        ask_for_piece(v);
        return;
    }
    if (htc__portal_archive_taken(v))
        return;
    htc__guest_close(&v->guest);
    shutdown(v->fd, SHUT_WR);
    v->state = VISITOR_ENDS;
    event_add(v->timer, &tv);
}
