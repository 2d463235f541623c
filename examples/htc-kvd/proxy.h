/* htc-kvd --proxy: no store, but the way to one for many clients. */
#ifndef HTC_EXAMPLES_PROXY_H
#define HTC_EXAMPLES_PROXY_H

#include "member_private.h"

/* The options that go with --proxy, and no others. */
htc_status proxy_check(const member *m);
htc_status proxy_serve(member *m);

#endif
