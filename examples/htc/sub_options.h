/* The options of a command with commands of its own: one table parses, refuses what another of them has, and is printed by --help. */
#ifndef HTC_EXAMPLES_SUB_OPTIONS_H
#define HTC_EXAMPLES_SUB_OPTIONS_H

#include "htc.h"

#define SUB_ROWS_MAX 40

typedef struct sub_opt {
    uint32_t of; /* bit I: the command numbered I has it */
    opt      o;
} sub_opt;

typedef struct sub_opts {
    const sub_opt *rows; /* two may have one name, with another meaning for other commands */
    size_t         n;    /* at most SUB_ROWS_MAX */
    uint32_t       count; /* of commands, at most 31 */
    const char *(*name)(uint32_t which);
} sub_opts;

/* As opt_parse, of the command numbered which; all->count: --help of all of them, which says of each option whose it is. */
htc_status sub_opt_parse(cli *c, const command *cmd, const sub_opts *all, uint32_t which, int argc, char **argv, words *rest);

#endif
