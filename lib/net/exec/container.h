/* Tasks in containers: by which program of the node, and with which words. The run's directory is inside under the same path, and so are the
 * task's scratch, inputs and outputs; of the rest of the machine nothing is but what the image has, /proc and /dev. */
#ifndef HTC_NET_EXEC_CONTAINER_H
#define HTC_NET_EXEC_CONTAINER_H

#include <stddef.h>

typedef enum htc__container_kind {
    HTC__CONTAINER_NONE = 0,
    HTC__CONTAINER_APPTAINER,
    HTC__CONTAINER_PODMAN,
    HTC__CONTAINER_BWRAP /* an image is a directory, which is the root of all but what the task writes */
} htc__container_kind;

/* The program of this name along path, absolute, in found. 0: there is none. */
int htc__container_program(const char *path, const char *name, char *found, size_t room);
/* Which of them the node has, of those that allowed names: one of them, auto (the first of apptainer, podman and bwrap that is there) or off. */
htc__container_kind htc__container_find(const char *allowed, const char *path, char *found, size_t room);

typedef struct htc__container {
    const char        *program, *image;
    const char        *dir;  /* of the run, absolute: with work and out; there is a directory tmp in it, which is /tmp inside */
    const char        *work; /* where it begins, absolute; below dir or not */
    const char *const *argv; /* the task's: NULL at the end */
    int                gpus; /* it has some: their devices are to be inside */
} htc__container;

/* A path, of c, that this program cannot be told, since it takes a colon (podman), a colon, a comma or a backslash (apptainer) for the end of it;
 * NULL: there is none. */
const char *htc__container_refuses(htc__container_kind kind, const htc__container *c);

/* The words of a command that runs it, each and the list of them malloc'd, NULL at the end (htc__strings_free). NULL and errno: no memory; the
 * image cannot be looked into, as bwrap's has to be (ENOENT, ENOTDIR, EACCES), or has too much in it (E2BIG). */
char **htc__container_words(htc__container_kind kind, const htc__container *c);

#endif
