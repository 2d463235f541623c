/* htc-fn: calls functions for an agent, which starts it. All of it is in the library. */
#include "htcsched/agent_host.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("htc-fn %s\n", HTC_VERSION);
        return 0;
    }
    if (argc > 1) {
        fputs("usage: htc-fn [--help | --version]\n"
              "Calls the functions of function tasks. An agent starts it, people need not: htc-fn(8).\n"
              "  --help, --version\n",
              strcmp(argv[1], "--help") == 0 ? stdout : stderr);
        return strcmp(argv[1], "--help") == 0 ? 0 : 1;
    }
    return htc_agent_host_help(0);
}
