/* URLs of files elsewhere: which are taken, how they are shown, where an answer may send on to. No look-up, no request: text alone. */
#ifndef HTC_CORE_URL_H
#define HTC_CORE_URL_H

#include "htcsched/bytes.h"
#include "htcsched/status.h"

/** Bytes of a URL, at most. */
#define HTC__URL_MAX 4000
/** Answers "it is elsewhere" that are followed for one file, at most. */
#define HTC__URL_HOPS 5

/* 1 if the text begins as one of http:, https: and ftp: does, whatever follows: whoever wrote it meant one. */
int htc__url_is_web(htc_bytes text);

/* 1 if it begins as one of ftp: does. */
int htc__url_is_ftp(htc_bytes text);

/* What is wrong with it as the URL of an input or output, for people: a constant. NULL: nothing. It has http://, https:// or ftp:// in small
 * letters, a host, no user or password, printable ASCII without blanks alone, and at most HTC__URL_MAX bytes. */
const char *htc__url_wrong(htc_bytes url);

/* For people: without user and password, without the values behind a question mark (a signature may be among them), and without the fragment. At
 * most room bytes with the zero; what is cut ends with "...". Any text is fine. */
void htc__url_show(const char *url, char *out, size_t room);

/* May an answer of from, the hops-th of one file (from 0), send on to to? HTC_OK; HTC_EDENIED: another protocol, or from https to http, or with a user
 * or password, or no URL that is taken; HTC_ETOOBIG: there were HTC__URL_HOPS. */
htc_status htc__url_next(const char *from, const char *to, unsigned hops);

#endif
