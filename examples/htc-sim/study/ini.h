/* An INI file of settings. */
#ifndef HTC_SIM_STUDY_INI_H
#define HTC_SIM_STUDY_INI_H

#include "settings.h"

/* What a file says, read once: it may be standard input. */
typedef struct ini_text ini_text;

const char *experiments_folder(void); /* that of the source if it is the current folder, else where they are installed */
ini_text *ini_open(const char *file, htc_error *error); /* -: standard input. NULL: error has why and the next step */
void      ini_close(ini_text *text);                    /* NULL is fine */
/* The value of a key in a section, before anything is checked. 1; 0: it is not there. */
int ini_find(const ini_text *text, const char *section, const char *key, char *out, size_t room);
/* A section begins at this line: key and value are NULL. Or a value is set. 1; 0: error says why, but for where. */
typedef int (*ini_taker)(void *ctx, uint32_t line, const char *section, const char *key, const char *value, htc_error *error);
/* All of it in its order, until the first mistake. 1; 0: the error has FILE:LINE in where, why and the next step. */
int ini_each(const ini_text *text, ini_taker taker, void *ctx, htc_error *error);
/* [reproduce], [series.NAME] and [claim.NAME]: of what is compared, not of a run. */
int ini_is_of_experiment(const char *section);
/* All settings of a run. 1; 0 as ini_each. */
int ini_read(settings *s, const ini_text *text, htc_error *error);

#endif
