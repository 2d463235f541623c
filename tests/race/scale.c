/* A scale run whose parts go through their windows on two threads: they share nothing but what they hand over. */
#include "race.h"
#include "scale_crowd.h"

int main(void)
{
    static crowd     c;
    htc_scale_report alone = { .size = sizeof alone }, both = alone;
    for (int threads = 0; threads < 2; threads++) {
        pair           p;
        htc_scale_host host = { .size = sizeof host, .parallel = threads ? in_pair : NULL, .ctx = &p };
        c = (crowd){ .hops = 60, .hasty = NODES };
        race_check(!threads || pair_open(&p) == 0, "no thread");
        htc_scale *s = crowd_open(&c, 30, &host);
        race_check(s && htc_scale_run(s) == HTC_OK, "the run");
        htc_scale_report_get(s, threads ? &both : &alone);
        htc_scale_destroy(s);
        if (threads)
            pair_close(&p);
    }
    race_check(alone.hash == both.hash && !both.wrong[0], "two threads come to another run than one: %s", both.wrong);
    printf("%llu events on two threads\n", (unsigned long long)both.events);
    return 0;
}
