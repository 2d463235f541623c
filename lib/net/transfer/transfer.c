/* The program htc-transfer: what it is asked for is done one after the other, and each is a request or some of them by libcurl. */
#include "net/transfer/transfer_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/files/files.h"

#define REQUEST_MAX (8u << 20)
#define SLOW        100L /* bytes a second on the average of the time that is allowed for nothing to come or go */
#define CA_PATH     "/etc/ssl/certs"

size_t htc__transfer_give_up(transfer *t, transfer_end why)
{
    t->own = why;
    return 0; /* which is not what libcurl has given us: it ends the transfer */
}

/* Not for programs that anybody starts meanwhile. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)ctx, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- one request ---- */

static long ms(htc_ns span)
{
    return (long)(span / HTC_MS ? span / HTC_MS : 1);
}

static long seconds(htc_ns span)
{
    return (long)((span + HTC_SECOND - 1) / HTC_SECOND);
}

int htc__transfer_set(transfer *t)
{
    CURL *c = t->curl;
    int   bad = 0;
    curl_easy_reset(c);
    bad |= curl_easy_setopt(c, CURLOPT_URL, t->url) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https,ftp") != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) != CURLE_OK; /* htc__url_next decides */
    bad |= curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_PROXY, t->proxy) != CURLE_OK; /* "": none, whatever the environment says */
    bad |= curl_easy_setopt(c, CURLOPT_NOPROXY, "") != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) != CURLE_OK || curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) != CURLE_OK;
    if (t->ca[0]) /* beside the system's */
        bad |= curl_easy_setopt(c, CURLOPT_CAINFO, t->ca) != CURLE_OK || curl_easy_setopt(c, CURLOPT_CAPATH, CA_PATH) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, ms(t->r.connect)) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, SLOW) != CURLE_OK || curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, seconds(t->r.stall)) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_FTP_RESPONSE_TIMEOUT, seconds(t->r.stall)) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_USERAGENT, "htcsched") != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) != CURLE_OK;
    if (t->netrc >= 0 && !t->no_login)
        bad |= curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL) != CURLE_OK || curl_easy_setopt(c, CURLOPT_NETRC_FILE, t->netrc_path) != CURLE_OK ||
               curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) != CURLE_OK;
    return !bad;
}

transfer_end htc__transfer_end_of(CURLcode why)
{
    switch (why) {
    case CURLE_OK: return TRANSFER_DONE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return TRANSFER_RESOLVE;
    case CURLE_COULDNT_CONNECT:
    case CURLE_FTP_CANT_GET_HOST: return TRANSFER_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_FTP_ACCEPT_TIMEOUT: return TRANSFER_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS: return TRANSFER_TLS;
    case CURLE_LOGIN_DENIED: return TRANSFER_LOGIN;
    case CURLE_REMOTE_FILE_NOT_FOUND:
    case CURLE_REMOTE_ACCESS_DENIED: return TRANSFER_MISSING;
    case CURLE_HTTP_RETURNED_ERROR:
    case CURLE_FTP_COULDNT_RETR_FILE:
    case CURLE_UPLOAD_FAILED:
    case CURLE_REMOTE_DISK_FULL:
    case CURLE_QUOTE_ERROR: return TRANSFER_ANSWERED;
    case CURLE_FILESIZE_EXCEEDED: return TRANSFER_LARGE;
    case CURLE_UNSUPPORTED_PROTOCOL: return TRANSFER_REDIRECT;
    case CURLE_RANGE_ERROR:
    case CURLE_BAD_DOWNLOAD_RESUME:
    case CURLE_FTP_COULDNT_USE_REST: return TRANSFER_CHANGED;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_READ_ERROR: return TRANSFER_OTHER;
    default: return TRANSFER_BROKEN; /* whatever else a server does: it may do better the next time */
    }
}

int htc__transfer_is_elsewhere(unsigned code)
{
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

/* scheme://host:port of both are the same. */
static int same_host(const char *a, const char *b)
{
    const char *path = strstr(a, "://");
    size_t      n = path ? (size_t)(path + 3 - a) + strcspn(path + 3, "/?#") : 0;
    return n > 0 && strncmp(a, b, n) == 0 && (b[n] == '\0' || strchr("/?#", b[n]));
}

int htc__transfer_follow(transfer *t, const char *first, unsigned hops)
{
    char *to = NULL;
    if (curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to || htc__url_next(t->url, to, hops) != HTC_OK)
        return 0;
    snprintf(t->url, sizeof t->url, "%s", to);
    t->no_login |= !same_host(first, t->url);
    return 1;
}

void htc__transfer_say(transfer *t, transfer_end end, const char *first)
{
    char shown[120], words[256]; /* a reason has 200 bytes: the end of a long URL is the less of news */
    htc__transfer_words(end, t->code, t->is_ftp, t->up, words, sizeof words);
    htc__url_show(first, shown, sizeof shown);
    snprintf(t->text, sizeof t->text, "%s: %s", shown, words);
}

/* ---- all of it ---- */

static htc_status do_all(transfer *t)
{
    transfer_one one;
    char         text[sizeof t->text] = "";
    htc_status   status = HTC_OK;
    for (size_t i = 0; i < t->r.count && (status == HTC_OK || t->up); i++) { /* one output that cannot be sent costs no other one */
        htc_status was = status;
        status = htc__transfer_one_read(&t->r, &one);
        if (status != HTC_OK)
            return status;
        t->up = one.up != TRANSFER_DOWN;
        status = t->up ? htc__transfer_send_one(t, &one) : htc__transfer_fetch_one(t, &one);
        if (was != HTC_OK && (status == HTC_OK || was == HTC_EINPUT || status != HTC_EINPUT)) { /* the first, but for one that no other try mends */
            status = was;
            snprintf(t->text, sizeof t->text, "%s", text);
        }
        snprintf(text, sizeof text, "%s", t->text);
    }
    return status;
}

/* The end of memory that holds users and passwords: nobody else reads it, no file of it is left. */
static int keep_netrc(transfer *t)
{
    t->netrc = -1;
    if (t->r.netrc.len == 0)
        return 1;
    t->netrc = memfd_create("htc-netrc", MFD_CLOEXEC);
    snprintf(t->netrc_path, sizeof t->netrc_path, "/proc/self/fd/%d", t->netrc);
    return t->netrc >= 0 && htc__write_all(t->netrc, t->r.netrc.data, t->r.netrc.len) == 0;
}

static void text_of(htc_bytes b, char *out, size_t room)
{
    snprintf(out, room, "%.*s", (int)(b.len < room ? b.len : room - 1), b.len ? (const char *)b.data : "");
}

static htc_status serve(transfer *t)
{
    char dir[4096];
    text_of(t->r.dir, dir, sizeof dir);
    text_of(t->r.ca, t->ca, sizeof t->ca);
    text_of(t->r.proxy, t->proxy, sizeof t->proxy);
    t->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->dir < 0 || !keep_netrc(t)) {
        snprintf(t->text, sizeof t->text, "the place for its files cannot be used: %s", strerror(errno));
        return HTC_EIO;
    }
    if (t->ca[0] && access(t->ca, R_OK) != 0) {
        snprintf(t->text, sizeof t->text, "data.url_ca: %.300s: %s", t->ca, strerror(errno));
        return HTC_EBUSY;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(t->curl = curl_easy_init())) {
        snprintf(t->text, sizeof t->text, "libcurl does not begin");
        return HTC_EBUSY;
    }
    htc_status status = do_all(t);
    curl_easy_cleanup(t->curl);
    curl_global_cleanup();
    return status;
}

/* All that there is, within a bound. NULL: more, or it cannot be read. */
static void *read_all(int fd, size_t *len)
{
    size_t room = 65536;
    char  *bytes = malloc(room);
    *len = 0;
    while (bytes) {
        ssize_t n = read(fd, bytes + *len, room - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return bytes;
        *len += n > 0 ? (size_t)n : 0;
        char *more = n < 0 || *len > REQUEST_MAX ? NULL : *len < room ? bytes : realloc(bytes, 2 * room);
        if (!more)
            break;
        room = more == bytes && *len < room ? room : 2 * room;
        bytes = more;
    }
    free(bytes);
    return NULL;
}

int htc__transfer_main(int in, int out)
{
    static transfer t;
    size_t          len;
    htc_buf         b;
    const struct rlimit none = { 0, 0 };
    void           *bytes = read_all(in, &len);
    if (!bytes || htc__transfer_request_read((htc_bytes){ bytes, len }, &t.r) != HTC_OK)
        return 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0); /* nobody traces it, or reads what it has open: other tasks may have its uid */
    if (getppid() != (pid_t)t.r.parent)
        return 1;
    setrlimit(RLIMIT_CORE, &none); /* passwords would be in it */
    signal(SIGPIPE, SIG_IGN);
    htc_status status = serve(&t);
    htc_buf_init(&b, NULL, HTC__TRANSFER_ANSWER_MAX);
    htc__transfer_answer_write(&b, status, t.text);
    int wrong = b.status != HTC_OK || htc__write_all(out, b.data, b.len) != 0;
    htc_buf_free(&b);
    free(bytes);
    return wrong ? 2 : 0;
}
