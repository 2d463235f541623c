/* What the files of the flow model share: flow.c builds, flow_check.c checks and lists, flow_units.c knows words. */
#ifndef HTC_WORK_FLOW_PRIVATE_H
#define HTC_WORK_FLOW_PRIVATE_H

#include "htcsched/flow.h"
#include "work/work_private.h"

#define HTC__FLOW_WORDS_MAX 65536u /* of one task, in each of its lists */

/* Texts and lists of tasks; what was taken last can be given back. */
typedef struct htc__flow_piece {
    struct htc__flow_piece *before;
    size_t                  size, used; /* of bytes */
    _Alignas(max_align_t) unsigned char bytes[];
} htc__flow_piece;

typedef struct htc__flow_entry {
    uint32_t child, parent, rule;
} htc__flow_entry;

struct htc_flow {
    const htc_env   *env;
    uint32_t         tasks_max, edges_max;
    size_t           texts_max;
    htc_flow_task   *tasks;
    uint64_t        *first; /* place of each task */
    uint32_t         n, cap, first_cap;
    uint64_t         total;
    htc__flow_piece *last;
    size_t           texts;
    uint32_t        *table; /* of names: id + 1, or 0 */
    size_t           table_size;
    uint64_t         seed;
    uint32_t         scattered; /* how often the seed was changed */
    htc__flow_entry *log;       /* dependencies as they were added */
    uint32_t         logged, log_cap;
    /* After a check; parents of task i are parents[parents_at[i]] to parents_at[i + 1], and children likewise. */
    int            checked;
    uint32_t       edges;
    uint32_t      *parents_at, *children_at;
    htc_flow_edge *parents, *children;
};

/* The flow changes: parents and children are no longer listed. */
void htc__flow_forget(htc_flow *f);

/* Words for HTC_FLOW_SLEEP and its like, and for rules; NULL, or -1, if there is none. */
const char *htc__flow_builtin_name(uint32_t builtin);
int         htc__flow_builtin_of(htc_bytes word);
const char *htc__flow_rule_name(uint32_t rule);
int         htc__flow_rule_of(htc_bytes word);
/* Is it one line of UTF-8 that a terminal may be given, of 1 .. max bytes? */
int htc__flow_name_is_fine(const char *text, size_t max);
#endif
