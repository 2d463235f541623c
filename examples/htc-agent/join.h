/* htc-agent --join: this machine becomes a site of a system on another one (htcsched/joined.h). */
#ifndef HTC_EXAMPLES_JOIN_H
#define HTC_EXAMPLES_JOIN_H

#include "daemon.h"

htc_status join_check(htc_daemon *d, const htc_daemon_options *o);
htc_status join_serve(htc_daemon *d, const htc_daemon_options *o);

#endif
