#include "roles/transfer/judge.h"

#include <stdio.h>

/* RFC 9110: what may be otherwise in a moment. 501 and 505 are about the server's kind. */
static int http_passes(unsigned code)
{
    return code == 408 || code == 425 || code == 429 || (code >= 500 && code != 501 && code != 505);
}

/* RFC 959: 4yz is for a while, 5yz for good. */
static int ftp_passes(unsigned code)
{
    return code >= 400 && code < 500;
}

htc_status htc__transfer_judge(transfer_end end, unsigned code, int is_ftp)
{
    switch (end) {
    case TRANSFER_DONE: return HTC_OK;
    case TRANSFER_ANSWERED: return (is_ftp ? ftp_passes(code) : http_passes(code)) ? HTC_EBUSY : HTC_EINPUT;
    case TRANSFER_LOGIN:
    case TRANSFER_MISSING: return is_ftp && ftp_passes(code) ? HTC_EBUSY : HTC_EINPUT; /* 450: busy, 421: too many */
    case TRANSFER_RESOLVE:
    case TRANSFER_CONNECT: return HTC_EUNREACHABLE;
    case TRANSFER_TIMEOUT: /* not HTC_ETIMEDOUT, which is storage here that many use: other staging need not pause */
    case TRANSFER_BROKEN: return HTC_ECLOSED;
    case TRANSFER_CHANGED:
    case TRANSFER_OTHER: return HTC_EBUSY;
    case TRANSFER_FULL: return HTC_ENOSPC;
    case TRANSFER_DISK: return HTC_EIO;
    case TRANSFER_TLS:
    case TRANSFER_LARGE:
    case TRANSFER_ENDLESS:
    case TRANSFER_REDIRECT:
    case TRANSFER_ENDS: break;
    }
    return HTC_EINPUT;
}

#define ANOTHER_LOGIN "the server wants another user and password (htc submit --credentials FILE)"

static const char *words_of_ftp(unsigned code, int up)
{
    switch (code) {
    case 530: return ANOTHER_LOGIN;
    case 550: return up ? "its directory is not there, or not for us to write" : "it is not there, or not for us";
    case 452:
    case 552: return "the server has no room for it";
    case 532:
    case 553: return "the server does not let us write there";
    default: return "";
    }
}

static const char *words_of_put(unsigned code)
{
    switch (code) {
    case 401: return ANOTHER_LOGIN;
    case 403: return "the server does not let us write there";
    case 404:
    case 409:
    case 410: return "its directory is not there";
    case 405:
    case 501: return "the server takes no files there (PUT)";
    case 413: return "it is too large for the server";
    case 429: return "the server was asked too often";
    case 503: return "the server has no time now";
    case 507: return "the server has no room for it";
    default: return "";
    }
}

static const char *words_of_get(unsigned code)
{
    switch (code) {
    case 401: return ANOTHER_LOGIN;
    case 403: return "the server does not give it to us";
    case 404:
    case 410: return "it is not there";
    case 429: return "the server was asked too often";
    case 503: return "the server has no time now";
    default: return "";
    }
}

/* Of an end that is otherwise when a file is sent. */
static const char *words_of_sent(transfer_end end)
{
    switch (end) {
    case TRANSFER_TIMEOUT: return "nothing went there, or no answer came, for too long";
    case TRANSFER_BROKEN: return "the connection ended before all was there";
    case TRANSFER_CHANGED: return "it changed while it was sent";
    case TRANSFER_REDIRECT: return "the server sends on to where nothing is sent";
    case TRANSFER_MISSING: return "its directory is not there";
    case TRANSFER_DISK: return "it cannot be read";
    default: return NULL;
    }
}

void htc__transfer_words(transfer_end end, unsigned code, int is_ftp, int up, char *out, size_t room)
{
    static const char *const words[TRANSFER_ENDS] = {
        [TRANSFER_DONE] = "done",
        [TRANSFER_RESOLVE] = "the host's name is not known",
        [TRANSFER_CONNECT] = "no connection to its host",
        [TRANSFER_TIMEOUT] = "nothing came for too long",
        [TRANSFER_BROKEN] = "the connection ended before all had come",
        [TRANSFER_TLS] = "the host's certificate is not to be trusted: data.url_ca names a file of more authorities",
        [TRANSFER_LOGIN] = "the server wants another user or password",
        [TRANSFER_LARGE] = "it is larger than data.url_max",
        [TRANSFER_ENDLESS] = "the server does not say where the content ends, so a part of it could not be told from all of it",
        [TRANSFER_CHANGED] = "it changed while it was fetched",
        [TRANSFER_REDIRECT] = "it is said to be where it is not looked for",
        [TRANSFER_MISSING] = "it is not there",
        [TRANSFER_FULL] = "no room for it",
        [TRANSFER_DISK] = "it cannot be written",
        [TRANSFER_OTHER] = "the transfer could not be done",
    };
    const char *sent = up ? words_of_sent(end) : NULL, *text = sent ? sent : end < TRANSFER_ENDS && words[end] ? words[end] : "";
    if (end == TRANSFER_ANSWERED || ((end == TRANSFER_MISSING || end == TRANSFER_LOGIN) && code)) {
        const char *said = is_ftp ? words_of_ftp(code, up) : up ? words_of_put(code) : words_of_get(code);
        text = said[0] ? said : text;
        snprintf(out, room, "%s %u%s%s", is_ftp ? "FTP" : "HTTP", code, text[0] ? ": " : "", text);
    } else {
        snprintf(out, room, "%s", text);
    }
}
