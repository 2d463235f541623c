/* How a transfer ended, and what that means: whether another try can help. It is the host's pause and the agent's count (data.stage_retry) that decide
 * when the next one is. Pure. */
#ifndef HTC_ROLES_TRANSFER_JUDGE_H
#define HTC_ROLES_TRANSFER_JUDGE_H

#include <stddef.h>

#include "htcsched/status.h"

typedef enum transfer_end {
    TRANSFER_DONE,     /* all of it, as far as the protocol tells */
    TRANSFER_ANSWERED, /* the server's code says what happened */
    TRANSFER_RESOLVE,  /* no address for the host's name */
    TRANSFER_CONNECT,  /* no connection: refused, no way there */
    TRANSFER_TIMEOUT,  /* nobody answered, or nothing came for too long */
    TRANSFER_BROKEN,   /* the connection ended, or less came than was said */
    TRANSFER_TLS,      /* the certificate is not to be trusted */
    TRANSFER_LOGIN,    /* the server wants another user or password */
    TRANSFER_LARGE,    /* larger than data.url_max */
    TRANSFER_ENDLESS,  /* the server does not say where the content ends, so a part of it would look like all of it */
    TRANSFER_CHANGED,  /* the content changed between two tries */
    TRANSFER_REDIRECT, /* it is said to be where it is not looked for */
    TRANSFER_MISSING,  /* not there */
    TRANSFER_FULL,     /* no room here */
    TRANSFER_DISK,     /* the disk here fails */
    TRANSFER_OTHER,    /* of the program's own making: out of memory, an option that libcurl lacks */
    TRANSFER_ENDS
} transfer_end;

/* The end of one transfer as a status for the agent. code: the last HTTP or FTP code, 0: none; is_ftp: of which. HTC_OK; HTC_EINPUT: trying again cannot
 * mend it; HTC_EBUSY, HTC_EUNREACHABLE, HTC_ECLOSED: it may pass; HTC_ENOSPC, HTC_EIO: this node's fault. */
htc_status htc__transfer_judge(transfer_end end, unsigned code, int is_ftp);

/* The same in words, a sentence's end as "HTTP 404: it is not there". up: of a file that is sent. */
void htc__transfer_words(transfer_end end, unsigned code, int is_ftp, int up, char *out, size_t room);

#endif
