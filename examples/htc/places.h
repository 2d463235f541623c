/* Where outputs go in a result set: no two at one place, and none where another's folder is. */
#ifndef HTC_EXAMPLES_PLACES_H
#define HTC_EXAMPLES_PLACES_H

#include <stddef.h>
#include <stdint.h>

typedef struct places places;

#define PLACES_MAX ((size_t)16000000) /* in 256 MiB */

/* For max names of files and folders; a place that begins below that may end above it. */
places *places_new(size_t max);
void    places_free(places *p);
int     places_full(const places *p); /* 1: no more places can be taken */
/* Take a place; if it is taken or cannot be, one below INDEX~ instead. Gives; *renamed: it is another one. NULL: full. */
char *places_take(places *p, const char *wanted, uint64_t index, const char *name, int *renamed);
/* The same for a directory, which others of its task may share. */
char *places_take_dir(places *p, const char *wanted, uint64_t index, const char *name, int *renamed);
/* 1: both cannot be files of one result set: they are one, or one lies below the other. */
int places_meet(const char *a, const char *b);
/* A name that an output has, with %XX for what no terminal should see; gives. */
char *places_shown(const char *name);

#endif
