/* A file from its URL, whole or not at all, as far as the server tells:
 *
 *   NAME.part, NAME.tag ──▶ ask ──▶ 200: from its beginning ──▶ as long as was said ──▶ NAME
 *        ▲      what it is   │      206: from where it broke off, if it is still the same
 *        │                   ├────▶ elsewhere: ask there, without what is meant for this host
 *        └── broken off ◀────┘
 *
 * NAME.tag says of which URL the part is, and by what the server knows the content (ETag, Last-Modified; with FTP size and time). Without it
 * there is no going on: the next try begins anew. */
#include "net/transfer/transfer_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/files/files.h"

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
        return t->ignored > IGNORED_MAX ? htc__transfer_give_up(t, TRANSFER_ANSWERED) : n;
    }
    if (!t->begun && !begin_content(t))
        return htc__transfer_give_up(t, t->own != TRANSFER_DONE ? t->own : TRANSFER_CHANGED);
    if (t->at + n > t->r.bytes_max)
        return htc__transfer_give_up(t, TRANSFER_LARGE);
    if (htc__write_all(t->fd, bytes, n) != 0)
        return htc__transfer_give_up(t, errno == ENOSPC || errno == EDQUOT ? TRANSFER_FULL : TRANSFER_DISK);
    t->at += n;
    return n;
}

/* ---- one file ---- */

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
    int fine = htc__transfer_set(t) && curl_easy_setopt(t->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->r.bytes_max) == CURLE_OK &&
               curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK && curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, t) == CURLE_OK &&
               curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK && curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t) == CURLE_OK;
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
    return t->own != TRANSFER_DONE ? t->own : htc__transfer_end_of(why);
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

static transfer_end fetch(transfer *t, const char *first)
{
    int anew = 0; /* once */
    for (unsigned hops = 0;;) {
        transfer_end end = ask(t);
        if (end == TRANSFER_DONE && !t->is_ftp && htc__transfer_is_elsewhere(t->code)) {
            if (!htc__transfer_follow(t, first, hops++))
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

htc_status htc__transfer_fetch_one(transfer *t, const transfer_one *one)
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
        htc__transfer_say(t, end, first);
    return htc__transfer_judge(end, t->code, t->is_ftp);
}
