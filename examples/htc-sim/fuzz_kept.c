/* What has run is kept in a file, a line for each thousand seeds, so that millions of them need not run at once: whoever asks for the same
 * seeds again gets what is there, and the rest is run. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One line: these words, then numbers in this order, hash in hexadecimal. */
#define FIRST_WORDS "seeds of stores and systems " HTC_VERSION

typedef struct line {
    uint64_t number[24 + HTC_KV_COUNT + 1 + HTC_SIM_STORE_FAULTS];
    size_t   n;
} line;

enum { FROM, TO, OPTIONS, FAILED, FIRST, OPERATIONS, KNOWN, EVENTS, UNDECIDED, SPAN, WATCHES, TOLD, EVENTUAL_READS, EVENTUAL_WRITES, SIBLINGS, CONFLICTS, CHANGES, MOVED, PROXIED, PACKS, TASKS, AGENTS, CRASHES, IDLE, ASKED };

/* Seeds with other options are other seeds. */
static uint64_t options_of(const fuzz_options *o)
{
    return (uint64_t)o->scenario << 60 | (uint64_t)o->operations << 32 | (uint64_t)o->members << 8 | (uint64_t)o->cells << 1 | (o->search != 0);
}

static int parse(char *text, line *l, uint64_t *hash)
{
    char *at = text + sizeof FIRST_WORDS - 1, *end;
    if (strncmp(text, FIRST_WORDS " ", sizeof FIRST_WORDS) != 0)
        return 0;
    for (l->n = 0; l->n < sizeof l->number / sizeof *l->number; l->n++, at = end) {
        errno = 0;
        l->number[l->n] = strtoull(at, &end, 10);
        if (errno || end == at)
            return 0;
    }
    errno = 0;
    *hash = strtoull(at, &end, 16);
    return !errno && end != at && strcmp(end, "\n") == 0;
}

static void sum_of(const line *l, uint64_t hash, fuzz_sum *sum)
{
    const uint64_t *n = l->number;
    *sum = (fuzz_sum){ .seeds = n[TO] - n[FROM] + 1,
                       .failed = n[FAILED],
                       .operations = n[OPERATIONS],
                       .known = n[KNOWN],
                       .events = n[EVENTS],
                       .undecided = n[UNDECIDED],
                       .span = n[SPAN],
                       .watches = n[WATCHES],
                       .told = n[TOLD],
                       .eventual_reads = n[EVENTUAL_READS],
                       .eventual_writes = n[EVENTUAL_WRITES],
                       .siblings = n[SIBLINGS],
                       .conflicts = n[CONFLICTS],
                       .changes = n[CHANGES],
                       .moved = n[MOVED],
                       .proxied = n[PROXIED],
                       .packs = n[PACKS],
                       .tasks = n[TASKS],
                       .agents = n[AGENTS],
                       .crashes = n[CRASHES],
                       .idle_longest = n[IDLE],
                       .hash = hash,
                       .first.seed = n[FIRST] };
    memcpy(sum->asked, n + ASKED, sizeof sum->asked);
    memcpy(sum->faults, n + ASKED + HTC_KV_COUNT + 1, sizeof sum->faults);
}

/* 0; -1: it cannot be read, or says what this program does not write. */
static int take(FILE *f, const fuzz_options *o, fuzz_sum *sum, uint64_t *next)
{
    static fuzz_sum part;
    char            text[2048];
    line            l;
    uint64_t        hash;
    while (fgets(text, sizeof text, f)) {
        if (!strchr(text, '\n'))
            return feof(f) ? 0 : -1; /* cut off: it was being written, and its seeds run again */
        if (!parse(text, &l, &hash))
            return -1;
        if (l.number[OPTIONS] != options_of(o) || l.number[FROM] != *next || l.number[TO] < *next || l.number[TO] > o->to)
            continue; /* of other seeds */
        sum_of(&l, hash, &part);
        fuzz_sum_add(sum, &part);
        *next = l.number[TO] + 1;
    }
    return ferror(f) ? -1 : 0;
}

int fuzz_kept_read(const fuzz_options *o, fuzz_sum *sum, uint64_t *next)
{
    struct stat st;
    memset(sum, 0, sizeof *sum);
    *next = o->from;
    if (lstat(o->kept, &st) != 0 && errno == ENOENT)
        return 0;
    if (!S_ISREG(st.st_mode)) {
        fprintf(stderr, "htc-sim: %s is no plain file\n", o->kept);
        return -1;
    }
    FILE *f = fopen(o->kept, "r");
    int bad = !f || take(f, o, sum, next) != 0;
    if (!f)
        fprintf(stderr, "htc-sim: %s: %s\n", o->kept, strerror(errno));
    else if (bad)
        fprintf(stderr, "htc-sim: %s is no file of this version of htc-sim\n", o->kept);
    if (f)
        fclose(f);
    return bad ? -1 : 0;
}

/* A file of ours, or none yet: nothing is written through a link, and a FIFO would hold the seeds for ever. */
static FILE *open_kept(const char *path)
{
    struct stat st;
    int         fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    int         plain = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    FILE       *f = plain ? fdopen(fd, "a") : NULL;
    if (fd >= 0 && !f) {
        close(fd);
        errno = plain ? ENOMEM : ENXIO;
    }
    return f;
}

int fuzz_kept_add(const fuzz_options *part, const fuzz_sum *sum)
{
    FILE *f = open_kept(part->kept);
    if (f) {
        fprintf(f, FIRST_WORDS " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, part->from, part->to,
                options_of(part), sum->failed, sum->first.seed);
        fprintf(f, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, sum->operations, sum->known, sum->events,
                sum->undecided, sum->span);
        fprintf(f, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, sum->watches, sum->told, sum->eventual_reads,
                sum->eventual_writes, sum->siblings, sum->conflicts);
        fprintf(f, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, sum->changes, sum->moved, sum->proxied, sum->packs);
        fprintf(f, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, sum->tasks, sum->agents, sum->crashes, sum->idle_longest);
        for (size_t i = 0; i <= HTC_KV_COUNT; i++)
            fprintf(f, " %" PRIu64, sum->asked[i]);
        for (size_t i = 0; i < HTC_SIM_STORE_FAULTS; i++)
            fprintf(f, " %" PRIu64, sum->faults[i]);
        fprintf(f, " %016" PRIx64 "\n", sum->hash);
    }
    if (!f || ferror(f) || fclose(f) != 0) {
        fprintf(stderr, "htc-sim: %s: %s\n", part->kept, strerror(errno));
        return -1;
    }
    return 0;
}

void fuzz_sum_add(fuzz_sum *sum, const fuzz_sum *part)
{
    if (part->failed && !sum->failed)
        sum->first = part->first;
    sum->seeds += part->seeds;
    sum->failed += part->failed;
    sum->operations += part->operations;
    sum->known += part->known;
    sum->events += part->events;
    sum->undecided += part->undecided;
    sum->span += part->span;
    sum->watches += part->watches;
    sum->told += part->told;
    sum->eventual_reads += part->eventual_reads;
    sum->eventual_writes += part->eventual_writes;
    sum->siblings += part->siblings;
    sum->conflicts += part->conflicts;
    sum->changes += part->changes;
    sum->moved += part->moved;
    sum->proxied += part->proxied;
    sum->packs += part->packs;
    sum->tasks += part->tasks;
    sum->agents += part->agents;
    sum->crashes += part->crashes;
    sum->idle_longest = part->idle_longest > sum->idle_longest ? part->idle_longest : sum->idle_longest;
    sum->hash += part->hash;
    for (size_t i = 0; i <= HTC_KV_COUNT; i++)
        sum->asked[i] += part->asked[i];
    for (size_t i = 0; i < HTC_SIM_STORE_FAULTS; i++)
        sum->faults[i] += part->faults[i];
}
