/* The compiled form of a specification, and what the files of this layer share.
 *
 * A document is compiled once into a stored form: its *slots* (every text of the template that matters, in document
 * order) and its *sweeps* (a tree of loops whose values go into slots). htc_spec is that form with its parts found;
 * there is no other way to make one, so what was parsed and what was read back from the store cannot differ. */
#ifndef HTC_WORK_PRIVATE_H
#define HTC_WORK_PRIVATE_H

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/work.h"

#define HTC_JSDL_NS            "http://schemas.ggf.org/jsdl/2005/11/jsdl"
#define HTC_POSIX_NS           "http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
#define HTC_HPCP_NS            "http://schemas.ggf.org/jsdl/2006/07/jsdl-hpcpa"
#define HTC_SPMD_NS            "http://schemas.ogf.org/jsdl/2007/02/jsdl-spmd"
#define HTC_SWEEP_NS           "http://schemas.ogf.org/jsdl/2009/03/sweep"
#define HTC_SWEEP_FUNCTIONS_NS "http://schemas.ogf.org/jsdl/2009/03/sweep/functions"
#define HTC_FILE_SWEEP_NS      "http://schemas.ogf.org/jsdl/2009/03/file-sweep"
#define HTC_SWEEP_DRAFT_NS     "http://schemas.ogf.org/jsdl/2007/01/jsdl-sweep"
/* Ours: Pairs, Executable (of a staged file), Resource, Container, and the attributes name and literal. */
#define HTC_OWN_NS "urn:htcsched:jsdl"

#define HTC_TASKS_MAX       (UINT64_C(1) << 40)
#define HTC_XML_BYTES_MAX   ((size_t)15 << 20)
#define HTC_TASK_TEXTS_MAX  ((size_t)4 << 20) /* of one task, expanded; a system hands at most about half of it to a program */
/* What Linux hands to a program with 8 MiB of stack: words and environment together, with a pointer each, less what a task is told besides;
 * and of one of them. */
#define HTC_TASK_HANDED_MAX (((size_t)2 << 20) - ((size_t)64 << 10))
#define HTC_TASK_WORD_MAX   (((size_t)128 << 10) - 1)
#define HTC_SWEEPS_MAX      4096u  /* of one document, nested or not */
#define HTC_SWEEP_DEPTH_MAX 32u    /* of nesting */
#define HTC_MATCHES_MAX     4096u  /* Match elements */
#define HTC_PARAMS_MAX      65536u /* places that values go into */
#define HTC_SLOTS_MAX       65536u
#define HTC_MATCH_WORK_MAX  200000000u /* elements looked at by all Match expressions together */

/* What the text of a slot means to a task. */
typedef enum htc__slot_kind {
    HTC__SLOT_JOB_NAME = 1,
    HTC__SLOT_EXECUTABLE,
    HTC__SLOT_ARGUMENT,
    HTC__SLOT_INPUT,
    HTC__SLOT_OUTPUT,
    HTC__SLOT_ERROR,
    HTC__SLOT_DIRECTORY,
    HTC__SLOT_ENV_NAME, /* followed by its value */
    HTC__SLOT_ENV_VALUE,
    HTC__SLOT_WALL,
    HTC__SLOT_FILE_SIZE,
    HTC__SLOT_CORE_SIZE,
    HTC__SLOT_DATA,
    HTC__SLOT_MEMORY,
    HTC__SLOT_OPEN_FILES,
    HTC__SLOT_STACK,
    HTC__SLOT_CPU,
    HTC__SLOT_PROCESSES,
    HTC__SLOT_VIRTUAL_MEMORY,
    HTC__SLOT_HOST,
    HTC__SLOT_SYSTEM,
    HTC__SLOT_ARCHITECTURE,
    HTC__SLOT_NODE_CORES, /* IndividualCPUCount */
    HTC__SLOT_CORES,      /* TotalCPUCount */
    HTC__SLOT_MEMORY_MIN,
    HTC__SLOT_STAGE_NAME, /* begins a staging; what follows belongs to it */
    HTC__SLOT_STAGE_FLAG,
    HTC__SLOT_STAGE_DELETE,
    HTC__SLOT_STAGE_SOURCE,
    HTC__SLOT_STAGE_TARGET,
    HTC__SLOT_STAGE_EXECUTABLE,
    HTC__SLOT_EXCLUSIVE, /* ExclusiveExecution: only false is done */
    HTC__SLOT_RESOURCE_NAME, /* followed by its count */
    HTC__SLOT_RESOURCE,
    HTC__SLOT_CONTAINER,
    HTC__SLOT_KINDS
} htc__slot_kind;

/* Element name of a slot kind, for messages. */
const char *htc__slot_name(uint32_t kind);

typedef struct htc__slot {
    uint8_t   kind;
    htc_bytes text;
} htc__slot;

typedef enum htc__function_kind {
    HTC__FUNCTION_VALUES = 1,
    HTC__FUNCTION_INTEGER,
    HTC__FUNCTION_DOUBLE,
    HTC__FUNCTION_PAIRS
} htc__function_kind;

/* A loop or list. Loops run over raw steps 0 .. raw-1 less the exceptions, which are ascending raw steps. */
typedef struct htc__function {
    uint8_t          kind;
    int64_t          start, step;
    uint32_t         width; /* INTEGER: digits at least, with zeros in front; 0: as many as there are */
    double           start_real, step_real;
    uint64_t         raw;
    const uint64_t  *exceptions;
    size_t           n_exceptions;
    const htc_bytes *values; /* VALUES and PAIRS */
    size_t           n_values;
} htc__function;

/* How many values the function gives. */
uint64_t htc__function_count(const htc__function *f);
/* Append the text of value k (k < count) to out; which is 0, or 1 for the second member of a pair. */
void htc__function_value(const htc__function *f, uint64_t k, uint32_t which, htc_buf *out);
/* Raw step number of value k: skips the exceptions by arithmetic. */
uint64_t htc__function_step(const htc__function *f, uint64_t k);
/* Pair k of n things, i < j, in the order (0,1) (0,2) … (1,2) …; n below 2^32. */
void htc__pair_at(uint64_t n, uint64_t k, uint64_t *i, uint64_t *j);
/* Steps of a loop with both ends; 0 if it is empty. HTC_ETOOBIG beyond 2^64 - 1. step is not 0. */
htc_status htc__integer_steps(int64_t start, int64_t end, int64_t step, uint64_t *steps);
htc_status htc__double_steps(double start, double end, double step, uint64_t *steps);

/* Shortest text that reads back as the same number, "1e+22" only beyond 16 digits; no locale. */
#define HTC__DOUBLE_TEXT_MAX 40
void htc__double_text(double v, char out[HTC__DOUBLE_TEXT_MAX]);
/* start + k * step, in decimal, where they are short enough; else as the sum of doubles is. */
void htc__double_step_text(double start, double step, uint64_t k, char out[HTC__DOUBLE_TEXT_MAX]);
/* The lexical forms of xsd:double and xsd:integer, whole text, blanks around allowed. 0 if it is none. */
int htc__double_parse(htc_bytes text, double *out);
/* 1 ok, 0 not an integer, -1 an integer beyond 64 bits. */
int       htc__integer_parse(htc_bytes text, int64_t *out);
int       htc__unsigned_parse(htc_bytes text, uint64_t *out);
htc_bytes htc__trim(htc_bytes text);

/* Where a value goes: all of a slot's text, or bytes start .. end of it. */
typedef struct htc__param {
    uint32_t slot;  /* number + 1; 0: matched something that no task looks at */
    uint8_t  part;  /* 0: the whole text */
    uint8_t  which; /* member of a pair */
    uint32_t start, end;
} htc__param;

typedef struct htc__assignment {
    htc__function function;
    htc_bytes     keys[2]; /* in values_json; the second one only of Pairs */
    size_t        param_first, n_params;
} htc__assignment;

/* Sweeps stand in preorder: the first child is the next sweep, the next sibling is `next`. */
typedef struct htc__sweep {
    size_t   assignment_first, n_assignments;
    size_t   next;
    uint64_t steps, inner, size; /* inner: sum over children, or 1; size: steps * inner */
} htc__sweep;

struct htc_spec {
    htc_env          env;
    uint8_t         *bytes;
    size_t           len;
    char            *name, *warnings;
    char            *project; /* of a document that was parsed; NULL: none */
    htc_wish        *wishes; /* likewise */
    size_t           n_wishes;
    uint64_t         count;
    htc__slot       *slots;
    htc__sweep      *sweeps;
    htc__assignment *assignments;
    htc__param      *params;
    htc_bytes       *values;
    uint64_t        *exceptions;
    size_t           n_slots, n_sweeps, n_assignments, n_params, n_values, n_exceptions;
};

/* Of a list of this length, which may be NULL. */
void htc__wishes_free(const htc_env *env, htc_wish *list, size_t count);

/* htc_spec_task; *slot is the number of the slot that made it fail, SIZE_MAX if none did. */
htc_status htc__spec_expand(const htc_spec *spec, uint64_t index, htc_task **out, size_t *slot, htc_error *error);

#define HTC__SPEC_MAGIC UINT32_C(0x32535748) /* "HWS2" */
#define HTC__WIDTH_MAX  64u
#define HTC__TASK_MAGIC UINT32_C(0x31545748) /* "HWT1" */

/* A name that stays below the directory it is taken in: relative, no "..", not empty. */
int htc__path_stays(htc_bytes path);
/* 64 lower-case hex digits after "htc:". */
int htc__uri_is_upload(htc_bytes uri);
int htc__uri_is_tree(htc_bytes uri); /* the same with a slash behind it: a directory */
int htc__uri_is_file(htc_bytes uri);
int htc__has_scheme(htc_bytes uri);
/* What is wrong with a URL as that of an output, with its HTC_STAGE_...: a constant. NULL: nothing. */
const char *htc__target_wrong(htc_bytes url, uint32_t flags);

/* Take a finished buffer's bytes as memory of exactly their length (htc_work_free); HTC_ENOMEM or the buffer's error.
 */
htc_status htc__take_bytes(const htc_env *env, htc_buf *b, htc_bytes *out);

/* A printf that fills *e with a place; text is cleaned of control characters. */
htc_status htc__refuse(htc_error *e, htc_status status, uint32_t line, const char *where, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Text for a message: at most 60 bytes of it, quoted, cleaned. */
typedef struct htc__quoted {
    char text[72];
} htc__quoted;
htc__quoted htc__quote(htc_bytes text);

/* Of a counted resource. */
int htc__resource_name_is_fine(const char *name);
/* Of an image: no control characters, not too long, none that a program could take for an option. */
int htc__container_is_fine(const char *image);

/* What is wrong with a function of a shared object and its argument; NULL: nothing. Each may be NULL. */
const char *htc__function_refuse(const char *object, const char *function, const char *argument);
#endif
