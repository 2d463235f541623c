/* usage: live_flow_mix TASK MILLISECONDS OUT IN...
 *        live_flow_mix --adds TASK MILLISECONDS OUT IN...
 *
 * A task of a random graph: reads the files IN, takes so long, and writes OUT, which follows from its number and what it has read. --adds: and adds a task to
 * the graph that reads OUT and makes "more-OUT". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow_mix.h"

static uint8_t bytes[FLOW_MIX_MAX + 1];

int main(int argc, char **argv)
{
    int adds = argc > 1 && strcmp(argv[1], "--adds") == 0;
    const char *program = argv[0];
    argv += adds;
    argc -= adds;
    if (argc < 4)
        return 2;
    uint64_t state = flow_mix(strtoull(argv[1], NULL, 10) + 1);
    for (int i = 4; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        state = flow_mix_read(state, bytes, fread(bytes, 1, sizeof bytes, f));
        if (ferror(f) || fclose(f) != 0)
            return 1;
    }
    usleep((useconds_t)atoi(argv[2]) * 1000);
    size_t n = flow_mix_write(state, bytes);
    FILE  *out = fopen(argv[3], "wb");
    if (!out || fwrite(bytes, 1, n, out) != n || fclose(out) != 0) {
        perror(argv[3]);
        return 1;
    }
    if (adds)
        printf("more: in=%s out=more-%s '%s' %llu %s more-%s %s\n", argv[3], argv[3], program, FLOW_MIX_MORE + strtoull(argv[1], NULL, 10), argv[2], argv[3], argv[3]);
    return 0;
}
