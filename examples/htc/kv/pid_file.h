/* Programs in the background, and the file DIR/pid that names one of them: its number together with when it began, so that a number that is
 * used again is nobody's. */
#ifndef HTC_PID_FILE_H
#define HTC_PID_FILE_H

#include <sys/types.h>

#include "htcsched/status.h"

typedef enum life { LIFE_NONE, LIFE_ENDING, LIFE_RUNS } life;

/* The process that DIR/pid names, unless it has ended; 0: there is none. */
pid_t pid_file_read(const char *dir, life *how);
pid_t pid_file_running(const char *dir);
htc_status pid_file_write(const char *dir, pid_t of, htc_error *error);
/* A signal to exactly that process; a descriptor of it, or -1. */
int pid_file_signal(const char *dir, pid_t pid, int signal);

/* argv with its program in front. Its output goes to the file out, or (from not NULL) comes back through that descriptor. */
pid_t start_program(const char *program, char *const *argv, const char *out, int *from);

#endif
