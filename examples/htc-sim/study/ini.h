/* An INI file of settings. */
#ifndef HTC_SIM_STUDY_INI_H
#define HTC_SIM_STUDY_INI_H

#include "settings.h"

/* 1; 0: the error has FILE:LINE in where, why and the next step. */
int ini_read(settings *s, const char *file, htc_error *error);

#endif
