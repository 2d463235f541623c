/* What the files of the command htc share: one struct for a call of the program, and a function for each thing done
 * twice.
 *
 * Every function that can fail answers an htc_status and leaves the reason in cli.error; main prints it, once, as one
 * line (or one JSON object). Nothing else writes to stderr but progress on a terminal. */
#ifndef HTC_EXAMPLES_HTC_H
#define HTC_EXAMPLES_HTC_H

#include "../common/plural.h"
#include "htcsched/access.h"
#include "htcsched/client.h"
#include "htcsched/status.h"
#include "htcsched/work.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct cli {
    const char *program; /* argv[0], to find the daemons beside it */
    const char *dir;     /* state directory */
    const char *gateway; /* addresses of gateways on other machines, which are asked instead of that of the directory; NULL: none */
    const char *said_dir, *said_gateway; /* --dir, --gateway */
    uint64_t    said; /* a bit for each option of the command's table that the command line has */
    htc_access *access;  /* the way there */
    const char *user;    /* act for this user, or NULL */
    const char *token_file;
    uint32_t    json;      /* --json: one JSON value on stdout */
    uint32_t    json_done; /* that value has been written */
    uint32_t    colour;    /* stdout is a terminal that may have colours */
    uint32_t    progress;  /* stderr is a terminal */
    htc_error   error;
    const char *file; /* that the error is about, where error.where is a place in it, or NULL */
    json_t     *found; /* what the object of an error has beside it, or NULL; main's */
    double      timeout_s;  /* --timeout: how long an answer may take; 0: ANSWER_S */
    uint32_t    unanswered; /* the last request was sent, perhaps, and not answered */
    uint32_t    silent;     /* the gateway let the time pass, be it that of the greeting */
    uint32_t    nowhere; /* no state directory, or one whose system had ended before this command: nothing that could come back */
    uint32_t    reached; /* a gateway has answered: if it ends, the next one is waited for */
    htc_client *client;  /* opened by the first request */
    char       *token;
    char       *own_user; /* user, where a login of the caller names it */
    uint32_t    no_token; /* send none: this is a login */
} cli;

typedef struct command {
    const char *name, *args, *summary;
    htc_status (*run)(cli *c, int argc, char **argv);
} command;

/* Fill cli.error and answer status. where: file, job or option; hint: the next step; either may be "". */
htc_status cli_error(cli *c, htc_status status, const char *where, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void cli_print_error(cli *c, htc_status status); /* on standard error, and with --json as an object */

/* options.c */
typedef enum opt_kind {
    OPT_FLAG = 1, /* uint32_t */
    OPT_TEXT,     /* const char * */
    OPT_LIST,     /* words: may be repeated */
    OPT_PAIR,     /* const char *[2]: takes two words */
    OPT_COUNT,    /* int64_t, 0 or more */
    OPT_AMOUNT,   /* int64_t, 1 to UINT32_MAX */
    OPT_NUMBER,   /* int64_t */
    OPT_TIME,     /* double, seconds; a number alone is seconds */
    OPT_WALLTIME, /* the same; a number alone is minutes, as batch systems have it */
    OPT_SIZE,     /* uint64_t, bytes */
    OPT_FACTOR,   /* double, above 0 */
    OPT_ELSEWHERE /* refused here, and no part of --help: other commands have it, which help names */
} opt_kind;

typedef struct opt {
    const char *name;
    char        letter; /* 0: none */
    opt_kind    kind;
    void       *into;
    const char *arg, *help;
} opt;

typedef struct words {
    const char **at;
    size_t       count;
    size_t       dashed; /* how many stood before "--"; SIZE_MAX: there was none */
} words;

/* Reads argv[1..] of the command by its table (and the options that every command has). HTC_AGAIN: help was printed. */
htc_status opt_parse(cli *c, const command *cmd, int argc, char **argv, const opt *opts, size_t n, words *rest);
htc_status opt_set(cli *c, const opt *o, const char *value); /* as if the command line had it */
int        opt_was_said(const cli *c, size_t k);             /* of the table's k-th: the command line has it, whatever its value; 0: a list */
void       words_add(words *w, const char *word);
void       words_free(words *w);
/* At most 292 years, the longest there is. */
htc_ns time_ns(double seconds);
/* For commands with commands of their own. Options may stand before the inner one (htc --dir X kv get a): it is moved to the front,
 * and answered; NULL: there is none. */
const char *bring_forward(int argc, char **argv);
int         wants_help(int argc, char **argv);
htc_status want_words(cli *c, const command *cmd, const words *w, size_t min, size_t max);

/* print.c */
#define TABLE_COLUMNS 16
typedef struct table {
    size_t   columns, rows, cap;
    char   **cells;
    uint32_t right[TABLE_COLUMNS]; /* 1: flush right */
} table;

/* Titles, NULL at the end; one that begins with '>' is flush right. */
void table_begin(table *t, ...) __attribute__((sentinel));
/* One printf for the whole row, cells divided by tabs. Control characters of strangers are replaced. */
void        table_row(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void        table_end(cli *c, table *t); /* prints and frees */
void        table_drop(table *t);        /* frees; also one that was not begun */
const char *colour_state(const cli *c, const char *state);
const char *colour_end(const cli *c);

typedef struct shown_text {
    char s[48];
} shown_text;
shown_text show_seconds(double seconds); /* "1h02m", "12.3s", "-" if negative */
shown_text show_size(double bytes);      /* "1.2 GiB" */
shown_text show_time(double epoch);      /* local "2026-01-31 12:00:00", "-" if 0 */
shown_text show_clock(double epoch);     /* "12:00:00" */
shown_text show_count(double n);
/* Every text that somebody else wrote goes through htc_text_show before it is printed: table_row, progress_say, put_json and
 * main's line of an error do so themselves. */
char *shown(const char *text);     /* gives a copy that a terminal may be given */
void  put_warning(const char *warning); /* on standard error */
void  put_warnings(const json_t *answer); /* those that a gateway's answer has */
void  put_line(const char *text);  /* shown, with a newline, on standard output */

/* Progress of what takes longer than two seconds, on a terminal's stderr only. */
typedef struct progress {
    cli   *c;
    double started, shown;
} progress;
void   progress_begin(progress *p, cli *c);
void   progress_say(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void   progress_end(progress *p);
double now_s(void); /* monotonic */
void   pause_ms(unsigned ms);

/* json.c: members of answers, whatever they hold */
const char *j_str(const json_t *o, const char *key);  /* "" if missing */
double      j_num(const json_t *o, const char *key);  /* 0 */
uint64_t    j_u64(const json_t *o, const char *key);  /* 0 */
int         j_bool(const json_t *o, const char *key); /* 0 */
shown_text  show_id(const json_t *id);                /* a number or a string */
/* Add a word to a request; one that is not UTF-8 makes the request NULL, which api_call refuses with the reason. */
void j_add(json_t **request, const char *key, const char *word);
void put_json(cli *c, const json_t *value); /* the one value of --json */

/* What "last", "all" or a number means from now on, however many requests follow and whatever is submitted meanwhile. */
/* Which jobs of "all" and "last": as the options say; NULL: any. */
typedef struct job_filter {
    const char *state, *name, *since, *until;
} job_filter;

#define FILTER_BY_TIME(f)                                                                                                \
    { "name", 0, OPT_TEXT, &(f).name, "PATTERN", "of last or all: jobs of such a name, with * and ?" },                  \
        { "since", 0, OPT_TEXT, &(f).since, "TIME", "of last or all: submitted since: 2h (ago), 18:30, yesterday, 2026-12-01" }, \
    { "until", 0, OPT_TEXT, &(f).until, "TIME", "of last or all: submitted before" }
#define FILTER_OPTIONS(f)                                                                                                \
    { "state", 's', OPT_TEXT, &(f).state, "STATE", "of last or all: queued, waiting, running, done, done_with_failures, cancelled, paused, open, ended" }, \
    FILTER_BY_TIME(f)

typedef struct selection {
    json_t  *filter; /* what a request has of it; NULL: nothing */
    char    *id;     /* "17", "17.1-10": never "last"; or "all" */
    uint64_t before; /* of "all": the jobs with smaller numbers; of the page at hand */
    uint32_t all;
} selection;

/* api.c */
#define ANSWER_S 30.0 /* of --timeout */
#define SYSTEM_OF(c) ((c)->gateway ? (c)->gateway : (c)->dir) /* for sentences */
/* Send a request (taken), wait for its answer (given). An error object becomes the status and cli.error.
 * timeout_s 0: that of --timeout. One that is not answered may have been carried out: the error says so. One that could not be sent is
 * tried again for as long, where gateways of other machines are asked: another one of them may go on. */
htc_status api_call(cli *c, json_t *request, double timeout_s, json_t **answer);
/* The same for requests that change nothing: a gateway that is being restarted is waited for, up to patience_s. */
htc_status api_ask(cli *c, json_t *request, double timeout_s, double patience_s, json_t **answer);
/* Make sure that the gateway has the file's content; hex: its BLAKE2b-256. */
htc_status api_upload(cli *c, const char *path, char hex[65], progress *p);
htc_status api_upload_tree(cli *c, const char *path, char hex[65], progress *p); /* a directory */
/* One stored output into fd, from its present position: size and hash (may be NULL) of what was written. */
htc_status api_download(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, int fd, uint64_t *size,
                        char hex[65]);
/* A piece of what a task has written to "stdout" or "stderr", from offset on; lent until the next request. size: of all. */
/* Ask for an output that is to be downloaded soon. */
void       api_ahead(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name);
htc_status api_read(cli *c, uint64_t job, uint64_t task, uint32_t attempt, const char *name, uint64_t offset,
                    htc_bytes *bytes, uint64_t *size);
/* The one job that it names, or whose tasks; given. */
htc_status api_one_job(cli *c, const selection *sel, json_t **job);
void       api_close(cli *c);

/* select.c */
htc_status selection_settle(cli *c, const char *selector, selection *sel); /* then selection_free */
htc_status selection_settle_of(cli *c, const char *selector, const job_filter *f, selection *sel);
htc_status filter_request(cli *c, const job_filter *f, json_t **out); /* gives its members; NULL if there are none */
void       selection_free(selection *sel);
json_t    *selection_request(const selection *sel, const char *op); /* of the page at hand; gives, or NULL as j_add */
int        selection_next(selection *sel, const json_t *answer);    /* 1: there is a page after this answer's */

int        valid_name(const char *name); /* of a user, fit for a file name */

/* tokens.c */
#define HERE "./htc-state"
/* Which system is meant, as the options, the environment and the user's configuration say; here_alone: by its directory, whatever else is said. */
htc_status system_settle(cli *c, int here_alone);
htc_status system_look(cli *c); /* so that cli.access is of the system at hand */
htc_status token_find(cli *c); /* into cli.token: the one named, that of a login, or the operator's */
htc_status token_keep(cli *c, const char *user, const char *token, char **path); /* gives where, also on failure, or NULL */
htc_status token_forget(cli *c); /* that of cli.user */

/* fileutil.c */
htc_status read_file(cli *c, const char *path, size_t max, char **data,
                     size_t *len);                                   /* gives, with a zero at the end */
htc_status write_secret(cli *c, const char *path, const char *data); /* 0600, replaced as a whole */
char      *path_join(const char *a, const char *b);                  /* gives */
char      *own_directory(void);                                      /* of this program; gives */
htc_status
write_status(int why); /* what an errno of a failed write means: a full disk, a place that cannot be, our fault */
htc_status make_dirs(cli *c, const char *path); /* as mkdir -p */
htc_status make_private_dirs(cli *c, const char *path); /* the same, mode 0700 */
int        write_fully(int fd, const char *data, size_t len); /* 0, or -1 with errno */
void      *must(void *p);                       /* out of memory ends the program with 70 */
char      *must_dup(const char *s);
char      *must_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* out_file.c: a file that the user names. It appears when it is whole, and replaces a plain file and nothing else; "-" is standard
 * output, which cannot be had beside --json. */
typedef struct out_file {
    FILE       *f;
    const char *path;
    char       *temporary; /* NULL: standard output */
} out_file;
int        out_is_stdout(const char *path);
htc_status out_check(cli *c, const char *path); /* may a file of this name be written? */
htc_status out_open(cli *c, out_file *o, const char *path, mode_t mode);
/* Put it in its place if s is HTC_OK, else remove what there is of it; answers s, or why it failed. Does nothing where nothing was opened. */
htc_status out_close(cli *c, out_file *o, htc_status s);

/* pattern.c: names of outputs. %j job, %a index, %u user, %n job name, %% percent; %4a pads with zeros. */
typedef struct pattern_values {
    uint64_t    job, index;
    const char *user, *name;
} pattern_values;
/* HTC_EUSAGE for an unknown letter, HTC_EPATH if the result leaves its directory. Gives *out. */
htc_status pattern_expand(cli *c, const char *pattern, const pattern_values *v, char **out);
int        pattern_names_task(const char *pattern); /* it has a %a, so that no two tasks get one name */
/* Either may be NULL: is each a good pattern? */
htc_status patterns_check(cli *c, const char *output, const char *error_output);
/* HTC_EUSAGE where two files of one task certainly get one place: standard output, standard error, the manifest. many: the job has
 * several tasks. name: the job's, "" if it is not known yet. */
htc_status patterns_meet(cli *c, const char *output, const char *error_output, const char *name, int many);
int        path_stays(const char *path); /* 1: relative, not empty, no "..", no control characters */

/* The commands, one file a group. */
extern const command commands[];
extern const size_t  n_commands;
const command       *find_command(const char *name);
htc_status           run_submit(cli *c, int argc, char **argv);
htc_status           run_generate(cli *c, int argc, char **argv);
htc_status           run_validate(cli *c, int argc, char **argv);
htc_status           run_status(cli *c, int argc, char **argv);
htc_status           run_tasks(cli *c, int argc, char **argv);
htc_status           run_why(cli *c, int argc, char **argv);
htc_status           run_users(cli *c, int argc, char **argv);
htc_status           run_agents(cli *c, int argc, char **argv);
htc_status           run_sites(cli *c, int argc, char **argv);
htc_status           run_drain(cli *c, int argc, char **argv);
htc_status           run_resume(cli *c, int argc, char **argv);
htc_status           run_wait(cli *c, int argc, char **argv);
htc_status           run_cancel(cli *c, int argc, char **argv);
htc_status           run_hold(cli *c, int argc, char **argv);
htc_status           run_release(cli *c, int argc, char **argv);
htc_status           run_retry(cli *c, int argc, char **argv);
htc_status           run_resubmit(cli *c, int argc, char **argv);
htc_status           run_rm(cli *c, int argc, char **argv);
htc_status           run_du(cli *c, int argc, char **argv);
htc_status           run_logs(cli *c, int argc, char **argv);
htc_status           run_fetch(cli *c, int argc, char **argv);
htc_status           run_user(cli *c, int argc, char **argv);
htc_status           run_login(cli *c, int argc, char **argv);
htc_status           run_logout(cli *c, int argc, char **argv);
htc_status           run_project(cli *c, int argc, char **argv);
htc_status           run_quota(cli *c, int argc, char **argv);
htc_status           run_report(cli *c, int argc, char **argv);
htc_status           run_flow(cli *c, int argc, char **argv);
htc_status           run_kv(cli *c, int argc, char **argv);
htc_status           run_keys(cli *c, int argc, char **argv);
htc_status           run_up(cli *c, int argc, char **argv);
htc_status           run_down(cli *c, int argc, char **argv);
/* Wait until the selected jobs are terminal; HTC_ETASKS if tasks failed. Ctrl-C leaves the jobs alone and says so.
 * timeout_s below 0: as long as it takes. */
htc_status wait_for_jobs(cli *c, const char *selector, double timeout_s);
/* Until the job, or those tasks of it, have ended, however they did. Ctrl-C: HTC_ETIMEDOUT. */
htc_status wait_until_ended(cli *c, const selection *sel);
/* How many tasks a selection like 7.0-9 has, and how many of these have not ended. */
htc_status count_tasks(cli *c, const selection *sel, uint64_t *count, uint64_t *open);

#endif
