/* htc report --by: what was used, by whom, where and for what. */
#ifndef HTC_EXAMPLES_REPORT_USAGE_H
#define HTC_EXAMPLES_REPORT_USAGE_H

#include "htc.h"

typedef struct usage_asked {
    const char *by, *since, *until, *project; /* NULL: not said */
    uint32_t    csv;
} usage_asked;

void report_mode(int durable); /* 0: a line says that db.mode is off */
htc_status report_usage(cli *c, const usage_asked *asked);

#endif
