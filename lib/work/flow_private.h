/* What the files of the flow model share: flow.c builds, flow_check.c checks and lists, flow_read.c and a file for each
 * form read, flow_units.c knows times and sizes. */
#ifndef HTC_WORK_FLOW_PRIVATE_H
#define HTC_WORK_FLOW_PRIVATE_H

#include "htcsched/flow.h"
#include "work/work_private.h"

#define HTC__FLOW_INTAKE_PROGRAM "htc:intake" /* no executor has it */
#define HTC__FLOW_READ_MAX  ((size_t)256 << 20)
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
/* Whence a task adds tasks: what a program prints, what a function leaves as its output. */
const char *htc__flow_adds_word(uint32_t builtin);
/* Whether it is that word. Of a builtin that adds none any word is. */
int htc__flow_adds_is(uint32_t builtin, const char *word);
/* Whether the amount of a builtin is a size, not a time. */
int htc__flow_is_size(uint32_t builtin);

/* "1.5h", "90": seconds, minutes and so on as ns; "2G": bytes. 1; 0: malformed; -1: 2^63 or more. */
int htc__flow_time_parse(htc_bytes text, uint64_t *ns);
int htc__flow_size_parse(htc_bytes text, uint64_t *bytes);
/* Shortest text with one unit that reads back the same. */
#define HTC__FLOW_UNIT_TEXT_MAX 32
void htc__flow_time_text(uint64_t ns, char out[HTC__FLOW_UNIT_TEXT_MAX]);
void htc__flow_size_text(uint64_t bytes, char out[HTC__FLOW_UNIT_TEXT_MAX]);
/* value * unit * scale, rounded. 1; 0: negative or not a number; -1: 2^63 or more. */
int htc__flow_scale(double value, double unit, double scale, uint64_t *out);

/* A dependency whose parent was not known when it was read. */
typedef struct htc__flow_wait {
    size_t      name_at; /* in names, with its end */
    uint32_t    child, rule, line, i, k;
    const char *list; /* of the i-th task, for the k-th of its parents: a constant; NULL: no path */
} htc__flow_wait;

/* Where in a document something stands: line, or path. */
typedef struct htc__flow_place {
    uint32_t    line;
    const char *list; /* "jobs[%u].after[%u]" without the numbers: "jobs", then item; NULL: only the line is known */
    const char *item;
    uint32_t    i, k;
} htc__flow_place;

/* One file that is read. */
typedef struct htc__flow_reader {
    const htc_env          *env;
    htc_bytes               bytes;
    const htc_flow_reading *o;
    htc_flow               *flow;
    htc_error              *error; /* never NULL */
    htc__flow_wait         *waits;
    size_t                  n_waits, waits_cap;
    htc_buf                 names, object;
    uint32_t               *lines; /* of the tasks, where lines are known */
    size_t                  lines_cap;
} htc__flow_reader;

htc_status htc__flow_read_text(htc__flow_reader *r);
htc_status htc__flow_read_jsonl(htc__flow_reader *r);
htc_status htc__flow_read_dax(htc__flow_reader *r);
/* Either dialect of one JSON object; HTC_FLOW_AUTO: whichever it is. */
htc_status htc__flow_read_json(htc__flow_reader *r, uint32_t format);

/* As htc__refuse, with the next step. hint may be NULL. */
htc_status htc__flow_refuse(htc__flow_reader *r, htc_status status, uint32_t line, const char *where, const char *hint,
                            const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Add a task that stands at a line (0: not known) or, in where, at a path. What is wrong with it is the document's mistake. */
htc_status htc__flow_put(htc__flow_reader *r, const htc_flow_task *task, uint32_t line, const char *where,
                         uint32_t *id);
/* Let child wait for the task of this name, which may come later. k numbers the parents where list is given: "list[i].item[k]" is the place. */
htc_status htc__flow_put_after(htc__flow_reader *r, uint32_t child, htc_bytes name, uint32_t rule, uint32_t line,
                               const char *list, uint32_t i, uint32_t k);
/* What a task of this kind does that took run ns (known or not): a program of the options, or sleep. */
htc_status htc__flow_replay(htc__flow_reader *r, htc_flow_task *task, int run_is_known, uint32_t line,
                            const char *where);

/* Bytes that grow, for lists of pointers and the like while one task is read. */
typedef struct htc__flow_list {
    void  *items;
    size_t n, cap, item;
} htc__flow_list;
/* A new zeroed item at the end; NULL: no memory. The list begins as { .item = sizeof(type) }. */
void *htc__flow_list_add(const htc_env *env, htc__flow_list *l);
void  htc__flow_list_free(const htc_env *env, htc__flow_list *l);

/* Is it one line of UTF-8 that a terminal may be given, of 1 .. max bytes? */
int htc__flow_name_is_fine(const char *text, size_t max);
#endif
