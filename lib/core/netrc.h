/* Users and passwords by host, as .netrc has them: what is taken. Text alone. */
#ifndef HTC_CORE_NETRC_H
#define HTC_CORE_NETRC_H

#include "htcsched/bytes.h"

/** Bytes of such a text, at most: it travels with every attempt that fetches. */
#define HTC__NETRC_MAX 4096

/* What is wrong with it, for people: a constant that has nothing of the text in it. NULL: nothing. It has at least one "machine NAME" or "default"; each
 * with login, password or account and a value. Comments are lines that begin with #, values may stand in double quotes; macros are refused. Cost:
 * O(its length). */
const char *htc__netrc_wrong(htc_bytes text);

#endif
