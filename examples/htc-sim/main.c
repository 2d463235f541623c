/* htc-sim: the simulator from the command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "flow.h"
#include "fuzz.h"
#include "reproduce/reproduce.h"
#include "study/study_command.h"

#define PART 1000u /* seeds of one line of what is kept */

/* All at once; or, where it is kept, a thousand at a time. */
static int run(const fuzz_options *o, fuzz_sum *sum)
{
    uint64_t next = o->from;
    if (!o->kept)
        return fuzz_all(o, sum, fuzz_say_progress);
    fuzz_sum *part = malloc(sizeof *part);
    int       bad = !part || fuzz_kept_read(o, sum, &next) != 0;
    while (!bad && sum->seeds < o->to - o->from + 1) {
        fuzz_options some = *o;
        some.from = next;
        some.to = o->to - next < PART ? o->to : next + PART - 1;
        some.done = sum->seeds;
        some.failed = sum->failed;
        some.seeds = o->to - o->from + 1;
        next = some.to + 1;
        bad = fuzz_all(&some, part, fuzz_say_progress) != 0 || fuzz_kept_add(&some, part) != 0;
        fuzz_sum_add(sum, part);
    }
    free(part);
    return bad ? -1 : 0;
}

static int fuzz(const fuzz_options *o)
{
    fuzz_sum *sum = malloc(sizeof *sum);
    int       ends = EXIT_BROKEN;
    if (!sum) {
        fprintf(stderr, "htc-sim: no memory\n");
        return ends;
    }
    if (o->trace)
        fuzz_say_history(o, o->from);
    if (run(o, sum) == 0) {
        if (sum->failed && !sum->first.report.failed)
            fuzz_one(o, sum->first.seed, &sum->first); /* the file has its number alone */
        fuzz_say_sum(o, sum);
        if (sum->failed)
            fuzz_say_failure(o, &sum->first);
        ends = sum->failed ? EXIT_FAILED : EXIT_FINE;
    }
    free(sum);
    return ends;
}

/* What a full disk has swallowed may not end with 0. */
static int told(int ends)
{
    int now = fflush(stdout) != 0;
    if (!now && !ferror(stdout))
        return ends;
    fprintf(stderr, "htc-sim: standard output cannot be written: %s\n", now ? strerror(errno) : "a part of it is lost");
    fprintf(stderr, "htc-sim: next: send it to a file in a folder with room\n");
    return EXIT_BROKEN;
}

static int command(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "flow") == 0)
        return flow_command(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "calibrate") == 0)
        return calibrate_command(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "reproduce") == 0)
        return reproduce_command(argc - 1, argv + 1);
    if (argc > 1 && study_is_command(argv[1]))
        return study_command(argc - 1, argv + 1);
    fuzz_options o;
    int          done, ends = fuzz_options_read(argc, argv, &o, &done);
    return done ? ends : fuzz(&o);
}

int main(int argc, char **argv)
{
    return told(command(argc, argv));
}
