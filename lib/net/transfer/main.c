/* htc-transfer: fetches files from URLs, and sends them there, for an agent, which starts it. */
#include "net/transfer/transfer.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("htc-transfer %s\n", HTC_VERSION);
        return 0;
    }
    if (argc > 1) {
        fputs("usage: htc-transfer [--help | --version]\n"
              "Fetches inputs of tasks from URLs, and sends outputs there. An agent starts it, people need not: htc-transfer(8).\n"
              "  --help, --version\n",
              strcmp(argv[1], "--help") == 0 ? stdout : stderr);
        return strcmp(argv[1], "--help") == 0 ? 0 : 1;
    }
    return htc__transfer_main(0, 1);
}
