/* A file from its URL, whole or not at all, as far as the server tells:
 *
 *   NAME.part, NAME.tag ──▶ ask ──▶ 200: from its beginning ──▶ as long as was said ──▶ NAME
 *        ▲      what it is   │      206: from where it broke off, if it is still the same
 *        │                   ├────▶ elsewhere: ask there, without what is meant for this host
 *        └── broken off ◀────┘
 *
 * NAME.tag says of which URL the part is, and by what the server knows the content (ETag, Last-Modified; with FTP size and time). Without it
 * there is no going on: the next try begins anew. */
#include "net/transfer/transfer.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/url.h"
#include "net/files/files.h"
#include "roles/transfer/judge.h"
#include "roles/transfer/transfer_wire.h"

#define REQUEST_MAX (8u << 20)
#define TAG_MAX     512     /* of what a server knows its content by */
#define SLOW        100L    /* bytes a second on the average of the time that is allowed for nothing to come */
#define IGNORED_MAX 1048576 /* of the body of an answer that is not the content */
#define CA_PATH     "/etc/ssl/certs"

typedef struct transfer {
    CURL            *curl;
    transfer_request r;
    int              dir, netrc; /* descriptors; netrc -1: none */
    char             netrc_path[64], ca[4096], proxy[4096];
    /* of the one that is on its way */
    char     url[HTC__URL_MAX + 1]; /* where it is now */
    char     name[80], part[88], tag_name[88];
    int      is_ftp, no_login; /* no_login: it is another host than the user named */
    int      fd;
    uint64_t at;     /* where the next byte goes */
    uint64_t resume; /* bytes of it that were here */
    char     known[TAG_MAX]; /* what the server called these; "": nothing */
    int      begun;  /* a byte of the content has come */
    uint64_t ignored;
    transfer_end own; /* why we have ended it; TRANSFER_DONE: we have not */
    /* of its answer */
    char     etag[TAG_MAX], modified[64], location[16];
    int      chunked, old_http;
    int64_t  range_from; /* of 206; -1 */
    unsigned code;
    char     text[1024];
} transfer;

/* ---- the part ---- */

static void write_tag(transfer *t, const char *known)
{
    char    text[HTC__URL_MAX + TAG_MAX + 8];
    int     n = snprintf(text, sizeof text, "%s\n%s\n", t->url, known);
    int     fd = *known ? openat(t->dir, t->tag_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || n < 0 || (size_t)n >= sizeof text || htc__write_all(fd, text, (size_t)n) != 0)
        unlinkat(t->dir, t->tag_name, 0);
    if (fd >= 0)
        close(fd);
}

/* What is here of this URL's content: t->resume and t->known; 0 and "" if it cannot be gone on with. */
static void read_tag(transfer *t)
{
    char        text[HTC__URL_MAX + TAG_MAX + 8];
    struct stat st;
    ssize_t     n = htc__read_text_below(t->dir, t->tag_name, text, sizeof text);
    char       *line = n > 0 ? strchr(text, '\n') : NULL, *end = line ? strchr(line + 1, '\n') : NULL;
    t->resume = 0;
    t->known[0] = '\0';
    if (!end || fstat(t->fd, &st) != 0)
        return;
    *line = *end = '\0';
    if (strcmp(text, t->url) != 0 || strlen(line + 1) >= sizeof t->known)
        return;
    t->resume = (uint64_t)st.st_size;
    snprintf(t->known, sizeof t->known, "%s", line + 1);
}

static void drop_part(transfer *t)
{
    unlinkat(t->dir, t->tag_name, 0);
    t->resume = 0;
    t->known[0] = '\0';
}

static size_t give_up(transfer *t, transfer_end why)
{
    t->own = why;
    return 0; /* which is not what libcurl has given us: it ends the transfer */
}

/* ---- what comes ---- */

/* The rest of a header line after its name; NULL: it is another. */
static const char *header_is(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    transfer   *t = ctx;
    char        line[1024];
    size_t      n = size * count, len = n < sizeof line - 1 ? n : sizeof line - 1;
    const char *value;
    memcpy(line, bytes, len);
    line[len] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (t->is_ftp)
        return n;
    if (strncmp(line, "HTTP/", 5) == 0) { /* of another answer, as after 100 */
        t->etag[0] = t->modified[0] = '\0';
        t->chunked = 0;
        t->range_from = -1;
        t->old_http = strncmp(line, "HTTP/0", 6) == 0 || strncmp(line, "HTTP/1", 6) == 0;
    } else if ((value = header_is(line, "ETag")) && value[0] == '"' && strlen(value) < sizeof t->etag) { /* W/"...": not byte for byte the same */
        snprintf(t->etag, sizeof t->etag, "%s", value);
    } else if ((value = header_is(line, "Last-Modified")) && strlen(value) < sizeof t->modified) {
        snprintf(t->modified, sizeof t->modified, "%s", value);
    } else if ((value = header_is(line, "Transfer-Encoding"))) {
        t->chunked = strcasestr(value, "chunked") != NULL;
    } else if ((value = header_is(line, "Content-Range"))) {
        long long from;
        t->range_from = sscanf(value, "bytes %lld-", &from) == 1 && from >= 0 ? from : -1;
    }
    return n;
}

/* What an FTP server knows a file by. */
static void ftp_known(transfer *t, char known[TAG_MAX])
{
    curl_off_t left = -1, when = -1;
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &left);
    curl_easy_getinfo(t->curl, CURLINFO_FILETIME_T, &when);
    known[0] = '\0';
    if (left >= 0 && when > 0)
        snprintf(known, TAG_MAX, "ftp %lld %lld", (long long)left + (long long)t->resume, (long long)when);
}

/* The first byte: is it of what is here, or a new beginning? 0: it is of something else. */
static int begin_content(transfer *t)
{
    char known[TAG_MAX];
    int  goes_on;
    if (t->is_ftp) {
        ftp_known(t, known);
        if (t->resume && strcmp(known, t->known) != 0)
            return 0;
        goes_on = t->resume > 0;
    } else {
        snprintf(known, sizeof known, "%s", t->etag[0] ? t->etag : t->modified);
        goes_on = t->code == 206;
        if (goes_on && (!t->resume || t->range_from != (int64_t)t->resume || strcmp(known, t->known) != 0))
            return 0;
    }
    t->at = goes_on ? t->resume : 0;
    t->begun = 1;
    if (ftruncate(t->fd, (off_t)t->at) != 0 || lseek(t->fd, (off_t)t->at, SEEK_SET) < 0) {
        t->own = errno == ENOSPC || errno == EDQUOT ? TRANSFER_FULL : TRANSFER_DISK;
        return 0;
    }
    if (!goes_on)
        write_tag(t, known);
    return 1;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    transfer *t = ctx;
    size_t    n = size * count;
    long      code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->code = (unsigned)code;
    if (!t->is_ftp && code != 200 && code != 206) { /* words beside an answer that is no content */
        t->ignored += n;
        return t->ignored > IGNORED_MAX ? give_up(t, TRANSFER_ANSWERED) : n;
    }
    if (!t->begun && !begin_content(t))
        return give_up(t, t->own != TRANSFER_DONE ? t->own : TRANSFER_CHANGED);
    if (t->at + n > t->r.bytes_max)
        return give_up(t, TRANSFER_LARGE);
    if (htc__write_all(t->fd, bytes, n) != 0)
        return give_up(t, errno == ENOSPC || errno == EDQUOT ? TRANSFER_FULL : TRANSFER_DISK);
    t->at += n;
    return n;
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

/* 0: libcurl lacks something. */
static int set_common(transfer *t)
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
    bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK || curl_easy_setopt(c, CURLOPT_HEADERDATA, t) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) != CURLE_OK || curl_easy_setopt(c, CURLOPT_WRITEDATA, t) != CURLE_OK;
    if (t->netrc >= 0 && !t->no_login)
        bad |= curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL) != CURLE_OK || curl_easy_setopt(c, CURLOPT_NETRC_FILE, t->netrc_path) != CURLE_OK ||
               curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) != CURLE_OK;
    return !bad;
}

static transfer_end end_of(CURLcode why)
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

/* Ask for it once. */
static transfer_end ask(transfer *t)
{
    char               text[64], if_range[TAG_MAX + 16];
    struct curl_slist *headers = NULL;
    long               code = 0;
    t->begun = t->chunked = t->old_http = 0;
    t->ignored = 0;
    t->range_from = -1;
    t->etag[0] = t->modified[0] = '\0';
    t->own = TRANSFER_DONE;
    t->is_ftp = strncmp(t->url, "ftp:", 4) == 0;
    read_tag(t);
    int fine = set_common(t) && curl_easy_setopt(t->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->r.bytes_max) == CURLE_OK;
    if (t->is_ftp) {
        fine = fine && curl_easy_setopt(t->curl, CURLOPT_FILETIME, 1L) == CURLE_OK &&
               curl_easy_setopt(t->curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->resume) == CURLE_OK;
    } else if (t->resume) {
        snprintf(text, sizeof text, "%llu-", (unsigned long long)t->resume);
        snprintf(if_range, sizeof if_range, "If-Range: %s", t->known);
        headers = curl_slist_append(NULL, if_range);
        fine = fine && headers && curl_easy_setopt(t->curl, CURLOPT_RANGE, text) == CURLE_OK && curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK;
    }
    CURLcode why = fine ? curl_easy_perform(t->curl) : CURLE_FAILED_INIT;
    curl_slist_free_all(headers);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->code = (unsigned)code;
    return t->own != TRANSFER_DONE ? t->own : end_of(why);
}

/* Has all of it come, as libcurl says: then does the server's answer let it know that? */
static transfer_end check_whole(transfer *t)
{
    curl_off_t length = -1;
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (t->is_ftp ? 0 : t->code != 200 && t->code != 206)
        return TRANSFER_ANSWERED;
    if (!t->is_ftp && t->old_http && length < 0 && !t->chunked)
        return TRANSFER_ENDLESS;
    if (!t->begun && t->resume && (t->is_ftp || t->code == 206)) /* nothing was left of it: is it the same, then? Nobody has said so */
        return TRANSFER_CHANGED;
    if (!t->begun && ftruncate(t->fd, 0) != 0)
        return TRANSFER_DISK;
    return TRANSFER_DONE;
}

static int is_elsewhere(unsigned code)
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

/* Where the last answer sends on to. 0: not followed. */
static int follow(transfer *t, const char *first, unsigned hops)
{
    char *to = NULL;
    if (curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to || htc__url_next(t->url, to, hops) != HTC_OK)
        return 0;
    snprintf(t->url, sizeof t->url, "%s", to);
    t->no_login |= !same_host(first, t->url);
    return 1;
}

/* ---- one file ---- */

static void say(transfer *t, transfer_end end, const char *first)
{
    char shown[400], words[256];
    htc__transfer_words(end, t->code, t->is_ftp, words, sizeof words);
    htc__url_show(first, shown, sizeof shown);
    snprintf(t->text, sizeof t->text, "%s: %s", shown, words);
}

static transfer_end fetch(transfer *t, const char *first)
{
    int anew = 0; /* once */
    for (unsigned hops = 0;;) {
        transfer_end end = ask(t);
        if (end == TRANSFER_DONE && !t->is_ftp && is_elsewhere(t->code)) {
            if (!follow(t, first, hops++))
                return TRANSFER_REDIRECT;
            continue;
        }
        if (end == TRANSFER_DONE)
            end = check_whole(t);
        int gone = end == TRANSFER_CHANGED || (end == TRANSFER_ANSWERED && t->code == 416 && t->resume);
        if (!gone || anew++)
            return end;
        drop_part(t);
    }
}

static htc_status fetch_one(transfer *t, const transfer_one *one)
{
    char        first[HTC__URL_MAX + 1];
    struct stat st;
    snprintf(first, sizeof first, "%.*s", (int)one->url.len, (const char *)one->url.data);
    snprintf(t->url, sizeof t->url, "%s", first);
    snprintf(t->name, sizeof t->name, "%.*s", (int)one->name.len, (const char *)one->name.data);
    snprintf(t->part, sizeof t->part, "%s.part", t->name);
    snprintf(t->tag_name, sizeof t->tag_name, "%s.tag", t->name);
    if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return HTC_OK; /* of a try before this one, which failed at another */
    t->no_login = t->is_ftp = 0;
    t->code = 0;
    t->fd = openat(t->dir, t->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->fd < 0) {
        int why = errno;
        snprintf(t->text, sizeof t->text, "cannot create a file for an input: %s", strerror(why));
        return htc__status_of(why, HTC_ESTAGEIN);
    }
    transfer_end end = fetch(t, first);
    if (close(t->fd) != 0 && end == TRANSFER_DONE)
        end = errno == ENOSPC || errno == EDQUOT ? TRANSFER_FULL : TRANSFER_DISK;
    if (end == TRANSFER_DONE && renameat(t->dir, t->part, t->dir, t->name) != 0)
        end = TRANSFER_DISK;
    if (end == TRANSFER_DONE)
        unlinkat(t->dir, t->tag_name, 0);
    else
        say(t, end, first);
    return htc__transfer_judge(end, t->code, t->is_ftp);
}

/* ---- all of it ---- */

static htc_status do_all(transfer *t)
{
    transfer_one one;
    htc_status   status = HTC_OK;
    for (size_t i = 0; i < t->r.count && status == HTC_OK; i++) {
        status = htc__transfer_one_read(&t->r, &one);
        if (status == HTC_OK)
            status = one.up ? HTC_EUNSUPPORTED : fetch_one(t, &one);
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
        snprintf(t->text, sizeof t->text, "the place for inputs cannot be used: %s", strerror(errno));
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
