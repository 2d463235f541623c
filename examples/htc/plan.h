/* What submit and generate may be told, and what a script's lines, an array and a time to begin make of it. */
#ifndef HTC_EXAMPLES_PLAN_H
#define HTC_EXAMPLES_PLAN_H

#include "htc.h"
#include "htcsched/script.h"
#include "staging.h"

typedef struct plan {
    const char *project;
    const char *name, *output, *error_output, *each_line, *compat, *out, *exe, *args, *pairs[2], *key;
    const char *array, *begin, *signal, *on_end, *credentials, *mail_to, *mail_on, *workdir, *standard_input, *container, *hosts, *arch, *os;
    double      time_s, begin_at; /* begin_at: seconds since 1970; 0: at once */
    uint64_t    memory;
    int64_t     retries, priority, max_running, cores, node_cores, gpus;
    uint32_t    wait, dry_run, paused, unordered;
    uint32_t    writes; /* htc generate: what submit says in its request stands in the document, and nothing is uploaded */
    uint32_t    written; /* the document says the tasks' limits and the job's name */
    uint32_t    script_mails; /* who is told by mail stands in its script */
    char       *end_xml; /* the document of on_end */
    uint32_t    script; /* the command is one, which goes with the job */
    words       inputs, targets, env, sweeps, after, res;
    char       *res_names[HTC_TASK_RESOURCES_MAX]; /* of --res and --gpus */
    htc_resource resources[HTC_TASK_RESOURCES_MAX];
    size_t      n_resources;
    words       kept;  /* texts that were made */
    htc_wish    wishes[80]; /* of the document */
    size_t      n_wishes;
    json_t     *edges; /* what after says */
    staging     staging;
    char       *files[64]; /* contents of @files; a command names no more */
    size_t      n_files;
    char       *split; /* --args, cut into words */
    words       command;
    htc_array   numbers; /* of the array */
} plan;

/* when.c: "now+1hour", "18:30", "2026-12-01T08:00", "tomorrow", as Slurm reads them, in local time. now: seconds since 1970.
 * HTC_EUSAGE: it is no time. */
htc_status when_parse(const char *text, double now, double *at);
/* The same of the past: 2h and 3d ago, 18:30 as it was last, yesterday, 2026-12-01. */
htc_status when_past(const char *text, double now, double *at);

/* wishes.c */
const char *plan_keep(plan *p, char *text); /* freed with the plan */
/* The lines of a script with options for a batch system: what an option of the command line does not say. */
htc_status  wishes_of_script(cli *c, plan *p, const opt *opts, size_t n, const char *path, const char *text, size_t len);
/* --array, --begin, --signal, --workdir, --env NAME: what they say in the command or in the request. */
htc_status  wishes_settle(cli *c, plan *p);
htc_status  wishes_command(cli *c, plan *p); /* into a command that is written: the array's source, the directory, standard input */
htc_status  wishes_end(cli *c, plan *p);     /* --on-end: its document, its program uploaded */
htc_status  wishes_document(cli *c, plan *p); /* as wishes of a document that is written */
/* The names of outputs that a document gives, where the command line gives none. */
void        wishes_read(plan *p, const htc_spec *spec);
void        wishes_request(const plan *p, json_t *request);
/* What is wrong with a document that was written of options: nobody has seen it, so the error names the option instead of a line. Gives s. */
htc_status  plan_error(cli *c, const plan *p, htc_status s);

/* credentials.c: those of --credentials, or the user's own if the document has a URL, into the request. */
htc_status  credentials_request(cli *c, const plan *p, const char *document, json_t *request);

#endif
