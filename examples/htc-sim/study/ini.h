/* An INI file of settings. */
#ifndef HTC_SIM_STUDY_INI_H
#define HTC_SIM_STUDY_INI_H

#include "settings.h"

/* What a file says, read once: it may be standard input. */
typedef struct ini_text ini_text;

ini_text *ini_open(const char *file, htc_error *error); /* -: standard input. NULL: error has why and the next step */
void      ini_close(ini_text *text);                    /* NULL is fine */
/* The value of a key in a section, before anything is checked. 1; 0: it is not there. */
int ini_find(const ini_text *text, const char *section, const char *key, char *out, size_t room);
/* 1; 0: the error has FILE:LINE in where, why and the next step. */
int ini_read(settings *s, const ini_text *text, htc_error *error);

#endif
