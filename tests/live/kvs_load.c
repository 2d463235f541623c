/* usage: kvs_load DIR SECONDS SEED [CLIENTS]
 * The clients of kvs_load.h, of a store whose members come and go: DIR/where has an address a line, and is put in place anew when they
 * change. They go on until standard input ends; then what they were told is judged. SECONDS: how long that may be, at most, for keys
 * are taken in turn. CLIENTS: six, if not said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "htcsched/env.h"

#define LOAD_ADDRESS  200
#define LOAD_PATIENCE (3000 * HTC_MS)
#define LOAD_GROWS    1

static char     dir[160];
static uint64_t seed;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAILED: %s (in %s, seed %llu)\n", what, dir, (unsigned long long)seed);
    exit(1);
}

/* The line of that number, or how many there are if there is none. */
static int line_of(int number, char address[LOAD_ADDRESS])
{
    char  path[sizeof dir + 8], line[LOAD_ADDRESS];
    int   count = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/where", dir);
    check((f = fopen(path, "re")) != NULL, "where the store answers");
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (count++ == number)
            strcpy(address, line);
    }
    fclose(f);
    return count;
}

static int load_members(void)
{
    char address[LOAD_ADDRESS];
    return line_of(-1, address);
}

static int load_where(int number, char address[LOAD_ADDRESS])
{
    return line_of(number, address) > number;
}

static htc_ns load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

#include "kvs_load.h"

int main(int argc, char **argv)
{
    int clients = argc == 5 ? atoi(argv[4]) : 6;
    check(argc >= 4 && argc <= 5 && strlen(argv[1]) < sizeof dir && clients > 0 && clients <= CLIENTS, "usage: kvs_load DIR SECONDS SEED [CLIENTS]");
    strcpy(dir, argv[1]);
    seed = strtoull(argv[3], NULL, 10);
    htc_ns lasts = strtoull(argv[2], NULL, 10) * HTC_SECOND;
    ages = lasts / AGE + 2 < AGES ? (uint32_t)(lasts / AGE) + 2 : AGES;
    clients_run(STDIN_FILENO, clients);
    printf("\n");
    return 0;
}
