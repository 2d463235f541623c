/* Threads that a run is lent: pieces of it, each done once by whichever of them comes first. */
#ifndef HTC_SIM_STUDY_THREADS_H
#define HTC_SIM_STUDY_THREADS_H

#include <stdint.h>

typedef struct threads threads;

threads *threads_open(uint32_t n);   /* n with the caller's own; NULL: there are none */
void     threads_close(threads *t);  /* NULL is fine */
uint32_t threads_count(const threads *t); /* with the caller's own; 1 for NULL */
/* As htc_scale_host.parallel has it. */
void     threads_do(void *t, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg);

#endif
