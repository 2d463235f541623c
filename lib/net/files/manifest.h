/* The manifest of an attempt's outputs: one JSON object a line (doc/protocol.md), written while they are stored. */
#ifndef HTC_NET_MANIFEST_H
#define HTC_NET_MANIFEST_H

#include <stdio.h>

#include "net/files/files.h"
#include "roles/runtime/agent_wire.h"

typedef struct htc__entry {
    char               type;   /* as ls names it, f for a regular file */
    const char        *name;   /* below the task's result set, as the task wrote it */
    uint32_t           mode;   /* of permissions */
    const htc__copied *stored; /* of a regular file */
    const char        *target; /* of a link */
    const char        *was;    /* the name that it wanted, if another output has that */
    const char        *error;  /* why it is not stored, or not all of it; NULL */
} htc__entry;

/* A name as people and messages see it: control characters and what is not UTF-8 as %XX, and so is a % before two hex digits,
 * so that each name has one text and each text one name. -1: it does not fit. */
int htc__name_show(const char *name, char *out, size_t room);
/* The name that is shown as that. -1: it does not fit, or there is a NUL in it. */
int htc__name_of_shown(const char *shown, char *out, size_t room);

/* Append an entry, and count it in sums. A name that cannot be shown stands cut. */
htc_status htc__manifest_add(FILE *file, const htc__entry *entry, htc_outputs *sums);

#endif
