/* The reading of a script's options: one struct for the walk, and a table of options for each batch system. */
#ifndef HTC_WORK_SCRIPT_PRIVATE_H
#define HTC_WORK_SCRIPT_PRIVATE_H

#include "htcsched/script.h"
#include "work/work_private.h"

/* The ways in which a script says how many GPUs it wants. */
enum { HTC__SCRIPT_GPUS, HTC__SCRIPT_GPUS_NODE, HTC__SCRIPT_GPUS_TASK, HTC__SCRIPT_GPUS_GRES, HTC__SCRIPT_GPUS_WAYS };

#define HTC__SCRIPT_COUNTED_MAX 16

/* So many of what sites count by a name. */
typedef struct htc__script_counted {
    char     name[HTC_RESOURCE_NAME_MAX + 1];
    uint8_t  from; /* of the option it is from: a later one with the same letter replaces it. 'L' licences, 'g' --gres, 'l' -l */
    uint64_t count;
    uint32_t line;
} htc__script_counted;

typedef struct htc__script {
    htc_status (*wish)(void *ctx, const htc_script_wish *wish);
    void      *ctx;
    htc_error *error;
    uint32_t   line;
    uint32_t   dialect;
    uint32_t   options; /* that were read */
    char       said[64];
    char       made[HTC_SCRIPT_LINE_MAX + 64]; /* a value that is not the script's own */
    /* what several options say together; 0: not said */
    uint64_t ntasks, cpus, cpus_per_gpu, nodes, ntasks_per_node;
    uint64_t memory, memory_per_core, memory_per_gpu; /* bytes */
    uint32_t memory_line, cores_line;
    struct {
        uint64_t count; /* of devices */
        uint32_t line;
    } gpus[HTC__SCRIPT_GPUS_WAYS];
    htc__script_counted counted[HTC__SCRIPT_COUNTED_MAX];
    uint32_t            n_counted;
    uint8_t  soft;        /* SGE: requests that need not be met */
    uint8_t  mail_end, mail_fail, mail_said, mail_to;
} htc__script;

/* How a word of a table is meant. */
typedef enum htc__script_kind {
    HTC__SCRIPT_TAKE = 1, /* it is the option `means` with the same value */
    HTC__SCRIPT_FLAG,     /* it is the option `means`, which takes none */
    HTC__SCRIPT_QUIET,    /* nothing to do, nothing to say */
    HTC__SCRIPT_WARN,     /* it has no meaning here, and the job is what it is without it: why is in `means` */
    HTC__SCRIPT_REFUSE,   /* without it the job is another: why is in `means` */
    HTC__SCRIPT_DO        /* a function */
} htc__script_kind;

typedef struct htc__script_option {
    const char *name;
    char        letter;
    uint8_t     takes; /* 0: no value, 1: one, 2: one behind '=' or none; 3: two words */
    uint8_t     kind;
    const char *means;
    htc_status (*fn)(htc__script *s, const char *value); /* of 3: both words, one zero between them */
} htc__script_option;

htc_status htc__script_tell(htc__script *s, const char *option, const char *value, const char *note);
htc_status htc__script_warn(htc__script *s, const char *note);
htc_status htc__script_refuse(htc__script *s, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
htc_status htc__script_mail_to(htc__script *s, const char *value);
htc_status htc__script_option_do(htc__script *s, const htc__script_option *o, const char *value);
/* Of what sites count, so many by this name; count: their text, NULL: 1. from: as in htc__script_counted. */
htc_status htc__script_count(htc__script *s, char from, const char *name, const char *count);
/* What was counted so far by options with this letter does not count: the option is there anew. */
void htc__script_uncount(htc__script *s, char from);
/* GPUs, one way (HTC__SCRIPT_GPUS...) to say it; 0 of them is none. */
htc_status htc__script_gpus(htc__script *s, uint32_t way, const char *count);
/* What was gathered: cores, nodes, memory, GPUs, what else is counted, mail. */
htc_status htc__script_finish(htc__script *s);

/* The options of one line, from p on, which is cut into words in place. */
htc_status htc__script_slurm(htc__script *s, char *p);
htc_status htc__script_sge(htc__script *s, char *p);

/* The next word of a line: blanks divide, ' and " keep together, a backslash takes the next character as it is; a word that begins with # ends the
 * line. NULL: there is none; *bad: a quotation does not end. */
char *htc__script_word(char **p, int *bad);
/* A whole number; 0: it is none, or too large. */
int htc__script_number(const char *text, uint64_t *out);
/* A number and a unit, bytes. unit: of a number alone. 0: it is none. */
int htc__script_size(const char *text, uint64_t unit, uint64_t thousand, uint64_t *out);
/* What stands behind the last slash. */
const char *htc__script_base(const char *path);

#endif
