/* Policies by name: the library's, and those of the files that --policy-from names. */
#ifndef HTC_SIM_POLICIES_H
#define HTC_SIM_POLICIES_H

#include "htcsched/registry.h"

/* One more file. 1; 0: error has it, the cause and the next step. file: kept. */
int policies_from(const char *file, htc_error *error);
/* 1: there are policies of files. */
int policies_are_added(void);

/* For one run, so that none knows what a policy learnt in another: htc_registry_destroy. NULL: error. */
htc_registry *policies_open(htc_error *error);

/* 1: there is one of this htc_registry_kind. */
int policies_have(uint32_t kind, const char *name);
/* "central, monitored or random": all of a kind. first: NULL, or names of something else that comes before them, with | between them. */
void policies_list(uint32_t kind, const char *first, char *out, size_t room);

#endif
