/* A file to its URL: HTTP PUT, or STOR of FTP. What the server has kept of one that broke off is not known, so each try begins anew.
 *
 *   NAME ──▶ put ──▶ 2xx: it is there ──▶ NAME goes, and no further try sends it
 *             ▲ ├──▶ 412, where nothing is to be replaced: something is there ──▶ NAME goes
 *             │ └──▶ elsewhere: put there, without what is meant for this host
 *             └──────────┘ */
#include "net/transfer/transfer_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The next bytes of the file. It is as long as it was said to be: a server cannot tell one that was cut from a whole one. */
static size_t on_wanted(char *room, size_t size, size_t count, void *ctx)
{
    transfer *t = ctx;
    uint64_t  left = t->length - t->at;
    size_t    want = left < size * count ? (size_t)left : size * count;
    ssize_t   n;
    do
        n = want ? read(t->fd, room, want) : 0;
    while (n < 0 && errno == EINTR);
    if (n < 0 || (n == 0 && want)) {
        t->own = n < 0 ? TRANSFER_DISK : TRANSFER_CHANGED;
        return CURL_READFUNC_ABORT;
    }
    t->at += (uint64_t)n;
    return (size_t)n;
}

/* libcurl begins anew, as after an answer that came before all was sent. */
static int on_seek(void *ctx, curl_off_t to, int from)
{
    transfer *t = ctx;
    if (from != SEEK_SET || to < 0 || (uint64_t)to > t->length || lseek(t->fd, (off_t)to, SEEK_SET) < 0)
        return CURL_SEEKFUNC_FAIL;
    t->at = (uint64_t)to;
    return CURL_SEEKFUNC_OK;
}

/* Words beside the answer. */
static size_t on_words(char *bytes, size_t size, size_t count, void *ctx)
{
    transfer *t = ctx;
    (void)bytes;
    t->ignored += size * count;
    return t->ignored > IGNORED_MAX ? htc__transfer_give_up(t, TRANSFER_ANSWERED) : size * count;
}

static int set_upload(transfer *t)
{
    CURL *c = t->curl;
    int   bad = !htc__transfer_set(t);
    bad |= curl_easy_setopt(c, CURLOPT_UPLOAD, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->length) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_READFUNCTION, on_wanted) != CURLE_OK || curl_easy_setopt(c, CURLOPT_READDATA, t) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek) != CURLE_OK || curl_easy_setopt(c, CURLOPT_SEEKDATA, t) != CURLE_OK;
    bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_words) != CURLE_OK || curl_easy_setopt(c, CURLOPT_WRITEDATA, t) != CURLE_OK;
    return !bad;
}

/* Once, to t->url. */
static transfer_end put(transfer *t, int keep)
{
    struct curl_slist *headers = keep ? curl_slist_append(NULL, "If-None-Match: *") : NULL; /* RFC 9110, 13.1.2: only where nothing is */
    long               code = 0;
    curl_off_t         sent = 0;
    t->own = TRANSFER_DONE;
    t->ignored = t->at = 0;
    t->is_ftp = strncmp(t->url, "ftp:", 4) == 0;
    if (lseek(t->fd, 0, SEEK_SET) < 0)
        return TRANSFER_DISK;
    int      fine = set_upload(t) && (!keep || (headers && curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK));
    CURLcode why = fine ? curl_easy_perform(t->curl) : CURLE_FAILED_INIT;
    curl_slist_free_all(headers);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->code = (unsigned)code;
    int answered = t->own == TRANSFER_ANSWERED || (t->own == TRANSFER_DONE && (why == CURLE_OK || why == CURLE_HTTP_RETURNED_ERROR));
    if (t->is_ftp || !answered)
        return t->own != TRANSFER_DONE ? t->own : htc__transfer_end_of(why);
    if (keep && t->code == 412)
        return TRANSFER_DONE;
    if (t->code < 200 || t->code >= 300)
        return TRANSFER_ANSWERED;
    /* Some answer before they have read all of it, and close: nobody can have the rest. */
    return curl_easy_getinfo(t->curl, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK && (uint64_t)sent == t->length ? TRANSFER_DONE : TRANSFER_BROKEN;
}

static transfer_end send_to(transfer *t, const char *first, int keep)
{
    for (unsigned hops = 0;;) {
        transfer_end end = put(t, keep);
        if (end != TRANSFER_ANSWERED || t->is_ftp || !htc__transfer_is_elsewhere(t->code) || t->code == 303) /* 303: something else is to be read there */
            return end;
        if (!htc__transfer_follow(t, first, hops++))
            return TRANSFER_REDIRECT;
    }
}

htc_status htc__transfer_send_one(transfer *t, const transfer_one *one)
{
    char        first[HTC__URL_MAX + 1];
    struct stat st;
    snprintf(first, sizeof first, "%.*s", (int)one->url.len, (const char *)one->url.data);
    snprintf(t->url, sizeof t->url, "%s", first);
    snprintf(t->name, sizeof t->name, "%.*s", (int)one->name.len, (const char *)one->name.data);
    t->no_login = t->is_ftp = 0;
    t->code = 0;
    t->fd = openat(t->dir, t->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (t->fd < 0 && errno == ENOENT)
        return HTC_OK; /* it went there in a try before this one, which failed at another */
    if (t->fd < 0 || fstat(t->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int why = errno;
        if (t->fd >= 0)
            close(t->fd);
        snprintf(t->text, sizeof t->text, "cannot read an output that is to be sent: %s", strerror(why));
        return HTC_EIO;
    }
    t->length = (uint64_t)st.st_size;
    transfer_end end = send_to(t, first, one->up == TRANSFER_UP_NEW);
    close(t->fd);
    if (end == TRANSFER_DONE)
        (void)unlinkat(t->dir, t->name, 0); /* if that fails, another try sends the same again */
    else
        htc__transfer_say(t, end, first);
    return htc__transfer_judge(end, t->code, t->is_ftp);
}
