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

static const char *words_of_code(unsigned code, int is_ftp)
{
    if (is_ftp)
        return code == 550 ? "it is not there, or not for us" : code == 530 ? "the server wants another user and password (htc submit --credentials FILE)" : "";
    switch (code) {
    case 401: return "the server wants another user and password (htc submit --credentials FILE)";
    case 403: return "the server does not give it to us";
    case 404:
    case 410: return "it is not there";
    case 429: return "the server was asked too often";
    case 503: return "the server has no time now";
    default: return "";
    }
}

void htc__transfer_words(transfer_end end, unsigned code, int is_ftp, char *out, size_t room)
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
    const char *text = end < TRANSFER_ENDS && words[end] ? words[end] : "";
    if (end == TRANSFER_ANSWERED || ((end == TRANSFER_MISSING || end == TRANSFER_LOGIN) && code)) {
        const char *said = words_of_code(code, is_ftp);
        text = said[0] ? said : text;
        snprintf(out, room, "%s %u%s%s", is_ftp ? "FTP" : "HTTP", code, text[0] ? ": " : "", text);
    } else {
        snprintf(out, room, "%s", text);
    }
}
