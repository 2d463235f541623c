/* The version, as the headers have it. */
#include "htcsched/version.h"

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

uint32_t htc_version(void)
{
    return HTC_VERSION_NUMBER;
}

const char *htc_version_text(void)
{
    return TEXT(HTC_VERSION_MAJOR) "." TEXT(HTC_VERSION_MINOR) "." TEXT(HTC_VERSION_PATCH);
}
