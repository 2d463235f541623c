/* Codes and texts: what the library answers, and what it makes of the gateway's answers. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

static const char *const texts[DRMAA_NO_ERRNO] = {
    [DRMAA_ERRNO_SUCCESS] = "success",
    [DRMAA_ERRNO_INTERNAL_ERROR] = "internal error of the DRMAA library",
    [DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE] = "the gateway cannot be reached",
    [DRMAA_ERRNO_AUTH_FAILURE] = "not allowed",
    [DRMAA_ERRNO_INVALID_ARGUMENT] = "invalid argument",
    [DRMAA_ERRNO_NO_ACTIVE_SESSION] = "no session is active",
    [DRMAA_ERRNO_NO_MEMORY] = "out of memory",
    [DRMAA_ERRNO_INVALID_CONTACT_STRING] = "invalid contact string",
    [DRMAA_ERRNO_DEFAULT_CONTACT_STRING_ERROR] = "the default contact string leads to no gateway",
    [DRMAA_ERRNO_NO_DEFAULT_CONTACT_STRING_SELECTED] = "no default contact string was selected",
    [DRMAA_ERRNO_DRMS_INIT_FAILED] = "the session could not be begun",
    [DRMAA_ERRNO_ALREADY_ACTIVE_SESSION] = "a session is active already",
    [DRMAA_ERRNO_DRMS_EXIT_ERROR] = "the session could not be ended",
    [DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT] = "the attribute's value is not in its format",
    [DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE] = "the attribute cannot have this value",
    [DRMAA_ERRNO_CONFLICTING_ATTRIBUTE_VALUES] = "attributes contradict each other",
    [DRMAA_ERRNO_TRY_LATER] = "not now: try again later",
    [DRMAA_ERRNO_DENIED_BY_DRM] = "the gateway rejects the job",
    [DRMAA_ERRNO_INVALID_JOB] = "no such job",
    [DRMAA_ERRNO_RESUME_INCONSISTENT_STATE] = "the job is not suspended",
    [DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE] = "the job cannot be suspended",
    [DRMAA_ERRNO_HOLD_INCONSISTENT_STATE] = "the job cannot be held",
    [DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE] = "the job is not held",
    [DRMAA_ERRNO_EXIT_TIMEOUT] = "the time is over, and the jobs have not ended",
    [DRMAA_ERRNO_NO_RUSAGE] = "the job has ended, and how is not known",
    [DRMAA_ERRNO_NO_MORE_ELEMENTS] = "no more elements",
};

const char *drmaa_strerror(int drmaa_errno)
{
    return drmaa_errno >= 0 && drmaa_errno < DRMAA_NO_ERRNO ? texts[drmaa_errno] : NULL;
}

void htc__drmaa_put(char *to, size_t len, const char *text)
{
    if (to && len)
        snprintf(to, len, "%s", text);
}

diagnosis htc__drmaa_diagnosis(char *text, size_t len)
{
    htc__drmaa_put(text, len, "");
    return (diagnosis){ text, len };
}

int htc__drmaa_fail(diagnosis *d, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (d->text && d->len)
        vsnprintf(d->text, d->len, format, args);
    va_end(args);
    return code;
}

int htc__drmaa_no_memory(diagnosis *d)
{
    return htc__drmaa_fail(d, DRMAA_ERRNO_NO_MEMORY, "out of memory");
}

int htc__drmaa_no_session(diagnosis *d)
{
    return htc__drmaa_fail(d, DRMAA_ERRNO_NO_ACTIVE_SESSION, "no session is active: drmaa_init begins one");
}

static int code_of(purpose what, htc_status status)
{
    switch (status) {
    case HTC_OK:
        return DRMAA_ERRNO_SUCCESS;
    case HTC_ENOMEM:
        return DRMAA_ERRNO_NO_MEMORY;
    case HTC_EUNREACHABLE:
    case HTC_ECLOSED:
    case HTC_EPROTO:
    case HTC_EVERSION:
    case HTC_ETIMEDOUT:
        return DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
    case HTC_EAUTH:
    case HTC_EEXPIRED:
        return DRMAA_ERRNO_AUTH_FAILURE;
    case HTC_AGAIN:
    case HTC_EBUSY:
    case HTC_EFULL:
    case HTC_ENOSPC:
    case HTC_ELOCKED:
    case HTC_ESTORE:
        return what == SUBMITTING ? DRMAA_ERRNO_TRY_LATER : DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
    case HTC_EIO:
    case HTC_ECORRUPT:
    case HTC_EINTERNAL:
        return DRMAA_ERRNO_INTERNAL_ERROR;
    case HTC_ENOTFOUND:
        return what == SUBMITTING ? DRMAA_ERRNO_DENIED_BY_DRM : DRMAA_ERRNO_INVALID_JOB;
    case HTC_EDENIED: /* that the token is good was seen when the session began */
        return what == SUBMITTING ? DRMAA_ERRNO_DENIED_BY_DRM : DRMAA_ERRNO_AUTH_FAILURE;
    default:
        return what == SUBMITTING ? DRMAA_ERRNO_DENIED_BY_DRM : DRMAA_ERRNO_INTERNAL_ERROR;
    }
}

int htc__drmaa_refused(diagnosis *d, purpose what, htc_status status, const htc_error *error)
{
    const char *text = error->text[0] ? error->text : htc_strerror(status);
    return htc__drmaa_fail(d, code_of(what, status), "%s%s%s%s%s (%s)", error->where, error->where[0] ? ": " : "", text,
                           error->hint[0] ? "; " : "", error->hint, htc_status_name(status));
}
