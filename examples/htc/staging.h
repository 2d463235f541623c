/* Getting a job's local files to the gateway: what is named in a command or a document, hashed and uploaded once. */
#ifndef HTC_EXAMPLES_STAGING_H
#define HTC_EXAMPLES_STAGING_H

#include "htc.h"

#define STAGES_MAX 256

typedef struct staging {
    htc_stage stage[STAGES_MAX];
    size_t    count;
    htc_stage out[STAGES_MAX]; /* what goes to URLs */
    size_t    n_out;
    uint32_t
           upload; /* 1: content goes to the gateway and is named htc:HASH; 0: named file:/path (generate, --dry-run) */
    char  *words[6 * STAGES_MAX]; /* what the stages point to */
    size_t n_words;
    int    each; /* a name of an input has places: the document says which files they are */
    progress p;
} staging;

void staging_begin(cli *c, staging *s, uint32_t upload);
void staging_end(staging *s);
/* FILE or NAME=FILE: an input of every task. HTC_EINPUT, HTC_EPATH. */
htc_status staging_input(cli *c, staging *s, const char *word);
/* NAME=URL: what every task leaves under that name goes there. HTC_EUSAGE, HTC_EPATH. */
htc_status staging_target(cli *c, staging *s, const char *word);
/* The command's first word: a local file is staged in as an executable and *word becomes its name there; a program of
 * the system stays as it is. HTC_ENOEXEC if there is no such program. */
htc_status staging_executable(cli *c, staging *s, const char **word);
/* The same of a file that need not be executable here, wherever it is. */
htc_status staging_script(cli *c, staging *s, const char **word);
/* Documents: file: sources are uploaded and renamed htc:HASH; a relative Executable that is not staged by the document
 * itself is staged in. base: directory that relative names start from; NULL: it was written of options, and no error names a line of it. Gives *out. */
htc_status staging_document(cli *c, staging *s, const char *base, htc_bytes xml, char **out, size_t *out_len);

#endif
