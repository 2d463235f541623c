/* A command's sources of values (command_source.c) and the document written of it (command.c). */
#ifndef HTC_WORK_COMMAND_PRIVATE_H
#define HTC_WORK_COMMAND_PRIVATE_H

#include "work/work_private.h"

#define HTC_SOURCES_MAX 64u

typedef enum htc__source_kind {
    HTC__SOURCE_LIST = 1,
    HTC__SOURCE_INTEGER,
    HTC__SOURCE_DOUBLE,
    HTC__SOURCE_PAIR_FIRST, /* a list whose pairs are made; the next source is the second of them */
    HTC__SOURCE_PAIR_SECOND
} htc__source_kind;

typedef struct htc__source {
    uint8_t     kind;
    uint8_t     lock_step; /* with the source before it */
    char        name[64];  /* "" = only its number */
    const char *word;      /* as it was written, for messages */
    htc_buf     values;    /* LIST: strings, each with its end */
    size_t      n_values;
    int64_t     start, end, step;
    uint32_t    width; /* INTEGER: typed with zeros in front */
    double      start_real, end_real, step_real;
    uint64_t    count;
    htc_buf     also; /* assignments in lock-step with it: texts that are written out */
    htc_buf     uses; /* DocumentNode elements */
    size_t      n_uses;
} htc__source;

typedef struct htc__sources {
    htc__source list[HTC_SOURCES_MAX];
    size_t      n;
} htc__sources;

/* Read the sources from word first on, which is one of ":::", ":::+", "::::", "::::+" (or the end), and the pairs. */
htc_status htc__sources_read(const htc_env *env, const htc_command *command, size_t first, htc__sources *out,
                             htc_error *error);
void       htc__sources_free(htc__sources *s);
/* Is this word the beginning of a source? */
int htc__source_begins(const char *word);
void htc__put_escaped(htc_buf *b, htc_bytes text);
/* 1 if every character may stand in XML. */
int htc__xml_can_carry(htc_bytes text);

#endif
