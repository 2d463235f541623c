/* The attributes of a job template: their names, and which values they may have. */
#include <string.h>

#include "drmaa/drmaa_private.h"

static const char *const names[ATTR_COUNT] = {
    [ATTR_REMOTE_COMMAND] = DRMAA_REMOTE_COMMAND,
    [ATTR_JS_STATE] = DRMAA_JS_STATE,
    [ATTR_WD] = DRMAA_WD,
    [ATTR_JOB_CATEGORY] = DRMAA_JOB_CATEGORY,
    [ATTR_NATIVE_SPECIFICATION] = DRMAA_NATIVE_SPECIFICATION,
    [ATTR_BLOCK_EMAIL] = DRMAA_BLOCK_EMAIL,
    [ATTR_START_TIME] = DRMAA_START_TIME,
    [ATTR_JOB_NAME] = DRMAA_JOB_NAME,
    [ATTR_INPUT_PATH] = DRMAA_INPUT_PATH,
    [ATTR_OUTPUT_PATH] = DRMAA_OUTPUT_PATH,
    [ATTR_ERROR_PATH] = DRMAA_ERROR_PATH,
    [ATTR_JOIN_FILES] = DRMAA_JOIN_FILES,
    [ATTR_TRANSFER_FILES] = DRMAA_TRANSFER_FILES,
    [ATTR_WCT_HLIMIT] = DRMAA_WCT_HLIMIT,
    [ATTR_DURATION_HLIMIT] = DRMAA_DURATION_HLIMIT,
    [ATTR_V_ARGV] = DRMAA_V_ARGV,
    [ATTR_V_ENV] = DRMAA_V_ENV,
    [ATTR_V_EMAIL] = DRMAA_V_EMAIL,
};

const char *htc__drmaa_attribute_name(attribute a)
{
    return names[a];
}

attribute htc__drmaa_attribute_find(const char *name)
{
    attribute a = 0;
    while (a < ATTR_COUNT && strcmp(names[a], name) != 0)
        a++;
    return a;
}

int htc__drmaa_seconds(const char *text, double *seconds)
{
    double total = 0;
    for (int parts = 0; parts < 3; parts++) {
        size_t digits = strspn(text, "0123456789");
        double v = 0;
        if (digits == 0 || digits > 12)
            return 0;
        for (size_t i = 0; i < digits; i++)
            v = v * 10 + (text[i] - '0');
        total = total * 60 + v;
        text += digits;
        if (*text == '\0') {
            *seconds = total;
            return 1;
        }
        if (*text++ != ':')
            return 0;
    }
    return 0;
}

static int one_of(attribute a, const char *value, const char *one, const char *other, diagnosis *d)
{
    if (strcmp(value, one) == 0 || strcmp(value, other) == 0)
        return DRMAA_ERRNO_SUCCESS;
    return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is %s or %s, and not '%.100s'", names[a], one, other, value);
}

static int check_limit(attribute a, const char *value, diagnosis *d)
{
    double seconds;
    if (!htc__drmaa_seconds(value, &seconds))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, "%s is [[h:]m:]s, and not '%.100s'", names[a], value);
    if (seconds <= 0 || seconds >= 1e9)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is above 0 and below 1e9 seconds, and not '%.100s'", names[a], value);
    return DRMAA_ERRNO_SUCCESS;
}

/* A placeholder of a directory stands at the beginning, or nowhere. */
static int check_place(attribute a, const char *path, const char *placeholder, int may, diagnosis *d)
{
    const char *at = strstr(path, placeholder);
    if (at && (!may || at != path || strstr(at + 1, placeholder)))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, "%s: %s %s in '%.200s'", names[a], placeholder,
                               may ? "stands at the beginning of a path, and not elsewhere" : "means nothing", path);
    return DRMAA_ERRNO_SUCCESS;
}

static int check_path(attribute a, const char *path, diagnosis *d)
{
    int code = check_place(a, path, DRMAA_PLACEHOLDER_HD, 1, d);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = check_place(a, path, DRMAA_PLACEHOLDER_WD, a != ATTR_WD, d);
    if (code == DRMAA_ERRNO_SUCCESS && path[0] == '\0')
        code = htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s names no file", names[a]);
    return code;
}

/* [hostname]:path */
static int check_file(attribute a, const char *value, diagnosis *d)
{
    const char *colon = strchr(value, ':'), *slash = strchr(value, '/');
    if (!colon || (slash && slash < colon))
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, "%s is [hostname]:path, and not '%.200s': a colon stands before the path",
                               names[a], value);
    return check_path(a, colon + 1, d);
}

static int check_start_time(const char *value, diagnosis *d)
{
    time_t moment;
    int    code = htc__drmaa_start_time(value, time(NULL), &moment);
    if (code == DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT)
        return htc__drmaa_fail(d, code, "%s is [[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu], and not '%.100s'", names[ATTR_START_TIME], value);
    if (code != DRMAA_ERRNO_SUCCESS)
        return htc__drmaa_fail(d, code, "%s: there is no such moment as '%.100s'", names[ATTR_START_TIME], value);
    return code;
}

static int check_transfer(const char *value, diagnosis *d)
{
    for (const char *p = value; *p; p++)
        if (!strchr("ioe", *p) || strchr(p + 1, *p))
            return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s has each of i, o and e at most once, and is not '%.20s'",
                                   names[ATTR_TRANSFER_FILES], value);
    return DRMAA_ERRNO_SUCCESS;
}

int htc__drmaa_attribute_check(attribute a, const char *value, diagnosis *d)
{
    json_t *text = json_string(value); /* as what it travels */
    if (!text)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is not valid UTF-8", names[a]);
    json_decref(text);
    switch (a) {
    case ATTR_REMOTE_COMMAND:
    case ATTR_JOB_CATEGORY:
        return value[0] ? DRMAA_ERRNO_SUCCESS : htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is empty", names[a]);
    case ATTR_JS_STATE:
        return one_of(a, value, DRMAA_SUBMISSION_STATE_ACTIVE, DRMAA_SUBMISSION_STATE_HOLD, d);
    case ATTR_BLOCK_EMAIL:
        return one_of(a, value, "0", "1", d);
    case ATTR_JOIN_FILES:
        return one_of(a, value, "y", "n", d);
    case ATTR_WD:
        return check_path(a, value, d);
    case ATTR_INPUT_PATH:
    case ATTR_OUTPUT_PATH:
    case ATTR_ERROR_PATH:
        return check_file(a, value, d);
    case ATTR_START_TIME:
        return check_start_time(value, d);
    case ATTR_TRANSFER_FILES:
        return check_transfer(value, d);
    case ATTR_WCT_HLIMIT:
    case ATTR_DURATION_HLIMIT:
        return check_limit(a, value, d);
    case ATTR_V_ENV:
        if (value[0] == '=' || !strchr(value, '='))
            return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, "%s has NAME=VALUE, and not '%.100s'", names[a], value);
        return DRMAA_ERRNO_SUCCESS;
    default:
        return DRMAA_ERRNO_SUCCESS;
    }
}
