/* A text file to which somebody else adds lines, as a batch system does for each job that has ended: what is new in it since the reading before.
 *
 * It may be cut short, or be moved away and begun anew: then one reading tells of both files. Of each it takes the newest HTC__RECORDS_MAX bytes at most; so does the first
 * reading, which knows of none before.
 *
 * Threads: owner. */
#ifndef HTC_NET_GATEWAY_RECORDS_FILE_H
#define HTC_NET_GATEWAY_RECORDS_FILE_H

#include "core/util.h"

#define HTC__RECORDS_MAX ((size_t)1 << 20)

typedef struct htc__records_file htc__records_file;

/* Nothing is opened yet. path: copied. NULL: no memory. */
htc__records_file *htc__records_create(const htc_env *env, const char *path);
void               htc__records_free(htc__records_file *f);

/* Whole lines that are new; lent until the next call; empty: none, or the file cannot be read, which is logged once. */
htc_bytes htc__records_read(htc__records_file *f);

#endif
