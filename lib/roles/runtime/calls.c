/* Names of the calls. */
#include "roles/runtime/calls.h"

const char *htc_call_name(uint32_t op)
{
    switch (op) {
#define CASE(name, number)                                                                                             \
    case number:                                                                                                       \
        return #name;
        HTC_CALL_TABLE(CASE)
        HTC_EVENT_TABLE(CASE)
#undef CASE
    }
    return "?";
}
