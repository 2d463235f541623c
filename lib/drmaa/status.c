/* How a job ended, in one number, and what the number says. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

#define CODE_MASK   0xff
#define SIGNAL_FROM 8

int htc__drmaa_stat(const json_t *result)
{
    const char *status = json_string_value(json_object_get(result, "status"));
    int         number = (int)json_integer_value(json_object_get(result, "signal"));
    int         code = (int)json_integer_value(json_object_get(result, "exit_code"));
    double      started = json_number_value(json_object_get(result, "started"));
    if (number > 0 && number <= CODE_MASK)
        return STAT_SIGNALED | number << SIGNAL_FROM;
    if (status && (strcmp(status, "HTC_OK") == 0 || strcmp(status, "HTC_EEXIT") == 0))
        return STAT_EXITED | (code & CODE_MASK);
    return started > 0 ? 0 : STAT_ABORTED;
}

static int say(int *out, int value, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!out)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the answer");
    *out = value;
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_wifexited(int *exited, int stat, char *error_diagnosis, size_t error_diag_len)
{
    return say(exited, (stat & STAT_EXITED) != 0, error_diagnosis, error_diag_len);
}

int drmaa_wexitstatus(int *exit_status, int stat, char *error_diagnosis, size_t error_diag_len)
{
    return say(exit_status, stat & CODE_MASK, error_diagnosis, error_diag_len);
}

int drmaa_wifsignaled(int *signaled, int stat, char *error_diagnosis, size_t error_diag_len)
{
    return say(signaled, (stat & STAT_SIGNALED) != 0, error_diagnosis, error_diag_len);
}

int drmaa_wcoredump(int *core_dumped, int stat, char *error_diagnosis, size_t error_diag_len)
{
    (void)stat; /* the gateway is not told of cores */
    return say(core_dumped, 0, error_diagnosis, error_diag_len);
}

int drmaa_wifaborted(int *aborted, int stat, char *error_diagnosis, size_t error_diag_len)
{
    return say(aborted, (stat & STAT_ABORTED) != 0, error_diagnosis, error_diag_len);
}

int drmaa_wtermsig(char *signal, size_t signal_len, int stat, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis   d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    int         number = stat >> SIGNAL_FROM & CODE_MASK;
    const char *name = sigabbrev_np(number);
    if (!signal || signal_len == 0)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the signal's name");
    if (!(stat & STAT_SIGNALED))
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "the job was not ended by a signal");
    if (name)
        snprintf(signal, signal_len, "SIG%s", name);
    else
        snprintf(signal, signal_len, "signal %d", number);
    return DRMAA_ERRNO_SUCCESS;
}
