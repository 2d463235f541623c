/* A stranger's program for DRMAA: the standard's header, found by pkg-config. */
#include <drmaa.h>
#include <stdio.h>

int main(void)
{
    unsigned major = 0, minor = 9;
    char     text[DRMAA_ERROR_STRING_BUFFER] = "";
    int      code = drmaa_exit(text, sizeof text);
    if (drmaa_version(&major, &minor, NULL, 0) != DRMAA_ERRNO_SUCCESS || major != 1 || minor != 0) {
        printf("version %u.%u\n", major, minor);
        return 1;
    }
    if (code != DRMAA_ERRNO_NO_ACTIVE_SESSION || !text[0]) {
        printf("drmaa_exit: %d, \"%s\"\n", code, text);
        return 1;
    }
    return 0;
}
