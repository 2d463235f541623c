/* What the programs here share. They are plain ones, each bounded in count; ThreadSanitizer is what looks at them, and
 * it sees one process: whoever is to race is a thread of it. */
#ifndef HTC_TESTS_RACE_H
#define HTC_TESTS_RACE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "net/files/files.h"

#define RACE_DIR 128

__attribute__((format(printf, 2, 3))) static inline void race_check(int ok, const char *format, ...)
{
    va_list args;
    if (ok)
        return;
    fprintf(stderr, "FAILED: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

static inline void race_said(const char *what)
{
    printf("ok - %s\n", what);
    fflush(stdout);
}

/* A directory of its own; race_dir_end removes it. */
static inline void race_dir(char dir[RACE_DIR])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, RACE_DIR, "%.90s/htc-race-XXXXXX", tmp ? tmp : "/tmp");
    race_check(mkdtemp(dir) != NULL, "no directory in %s", tmp ? tmp : "/tmp");
}

static inline void race_dir_end(const char *dir)
{
    race_check(htc__remove_tree(dir) == 0, "cannot remove %s", dir);
}

/* count threads of fn, each with its own piece of items; until all have ended. */
static inline void race_threads_join(pthread_t *threads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        race_check(pthread_join(threads[i], NULL) == 0, "join");
}

static inline void race_threads(pthread_t *threads, size_t count, void *(*fn)(void *), void *items, size_t item_bytes)
{
    for (size_t i = 0; i < count; i++)
        race_check(pthread_create(&threads[i], NULL, fn, (char *)items + i * item_bytes) == 0, "a thread");
}

/* A machine that is never woken by time. */
static inline htc_ns race_never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

#endif
