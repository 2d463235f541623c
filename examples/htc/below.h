/* Files below a directory that is held open: what others put there meanwhile leads nowhere else. */
#ifndef HTC_EXAMPLES_BELOW_H
#define HTC_EXAMPLES_BELOW_H

#include <stdint.h>

/* A file that is being written: it appears under its name when it is whole. */
typedef struct below_file {
    int         dir, fd; /* its directory; the file, open for writing */
    const char *leaf;    /* its name in there */
    char        temporary[64];
} below_file;

/* The directory in which a place (relative, without "..") lies, made where it is missing and make is set; *leaf: its name there.
 * No link is followed. -1: errno says why. */
int below_dir(int top, const char *place, int make, const char **leaf);
/* Begin a file of that mode (less the umask) at that place: 0, or -1 with errno. EEXIST: something else than a plain file is there, which is not replaced. */
int below_begin(below_file *b, int top, const char *place, unsigned mode);
/* Give it its name (ok 1) or forget it. 0, or -1 with errno. */
int below_end(below_file *b, int ok);
/* A directory, or a link to that target, in the place of a link to another one and of nothing else. 0, or -1 with errno. */
int below_make_dir(int top, const char *place);
int below_link(int top, const char *place, const char *target);
/* Open a plain file at that place for reading; -1: there is none. */
int below_open(int top, const char *place);

#endif
