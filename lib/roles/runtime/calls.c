/* Names of the calls. */
#include "htcsched/calls.h"

#define CALLS(X)                                                                                                       \
    X(CALL_STAGE_IN) X(CALL_RUN) X(CALL_SIGNAL) X(CALL_STAGE_OUT) X(CALL_TAKE_BACK) X(CALL_SLOTS) X(CALL_DIAL) X(CALL_HANG_UP) X(CALL_CLEAN) X(CALL_RUN_SPAN) \
    X(CALL_LAUNCH) X(CALL_KILL_AGENT) X(CALL_WATCH_AGENT) X(CALL_HASH_PASSWORD) X(CALL_VERIFY_PASSWORD) X(CALL_RANDOM) X(CALL_BLOB_WRITE)                \
    X(CALL_BLOB_STAT) X(CALL_BLOB_READ) X(CALL_CONTENT_ADOPT) X(CALL_CONTENT_FETCH) X(CALL_OBJECT_GIVE) X(CALL_FILE_READ) X(CALL_DROP_JOB) X(CALL_DROP_OUTPUT) X(CALL_LIVE_READ) X(CALL_CONTENT_TOUCH)   \
    X(CALL_CONTENT_SWEEP) X(CALL_CONTENT_SUM) X(CALL_DISK_USE) X(CALL_JOB_PLACE) X(CALL_MAIL) X(CALL_OBJECT_ROOM) X(CALL_OBJECT_WRITE) \
    X(CALL_OBJECT_FINISH) X(CALL_OBJECT_READ) X(CALL_OBJECT_ADOPT) X(CALL_OBJECT_DROP) X(CALL_OBJECT_LIST) X(CALL_OBJECT_OUTPUT) \
    X(CALL_OUTPUT_READ) X(CALL_GANG_RUN) X(CALL_GANG_ANSWER) X(CALL_OUTPUTS_AT)
#define EVENTS(X)                                                                                                      \
    X(EVENT_STARTED) X(EVENT_AGENT_EXIT) X(EVENT_AGENT_STOPPED) X(EVENT_TASK_STOPPED) X(EVENT_SHUTDOWN) X(EVENT_DISK) X(EVENT_REFUSED) X(EVENT_AGENT_WAITS) X(EVENT_AGENT_EXPIRES) X(EVENT_GANG_ASKED) X(EVENT_GANG_LEFT)

static const char *after(const char *name)
{
    while (*name++ != '_')
        ;
    return name;
}

const char *htc_call_name(uint32_t op)
{
    /* Two switches over all of an enum: the compiler warns of one that is missing. */
#define CASE(name)                                                                                                     \
    case HTC_##name: return after(#name);
    switch ((htc_call)op) {
        CALLS(CASE)
    }
    switch ((htc_event)op) {
        EVENTS(CASE)
    }
#undef CASE
    return "?";
}
