/* htc-kvd as one whole member in the foreground. */
#ifndef HTC_EXAMPLES_MEMBER_H
#define HTC_EXAMPLES_MEMBER_H

#include "daemon.h"

int        member_wanted(int argc, char **argv); /* 1: an option of its own, or --help, is there */
htc_status member_main(htc_daemon *d, int argc, char **argv);

#endif
