/* An experiment: names of the form SECTION.KEY, or SECTION.NAME.KEY where a section may stand several times, with their values as text. Which
 * names there are and what they may be is a table. */
#ifndef HTC_SIM_STUDY_SETTINGS_H
#define HTC_SIM_STUDY_SETTINGS_H

#include <stddef.h>

#include "htcsched/sim_scale.h"

typedef enum setting_kind { SET_COUNT = 1, SET_COUNTS, SET_REAL, SET_SIZE, SET_SPAN, SET_SPAN_OR_AUTO, SET_LAW, SET_CHOICE, SET_WORD, SET_FILE, SET_POLICY } setting_kind;

typedef struct setting {
    const char *name; /* user.*.weight: of each [user.NAME] */
    setting_kind kind;
    const char *fallback; /* NULL: none */
    double      min, max; /* of SET_COUNT, SET_COUNTS and SET_REAL; of SET_SPAN min, in ns; of SET_POLICY min is the htc_registry_kind */
    const char *takes;    /* in words; of SET_CHOICE the words themselves, with | between them; of SET_POLICY words beside the names, or NULL */
} setting;

typedef struct settings settings;

settings *settings_create(const setting *table); /* ends with a name NULL; NULL: no memory */
settings *settings_copy(const settings *s);
void      settings_destroy(settings *s);

/* From now on a relative name of a file (SET_FILE) is one beside this file, as experiments have it; NULL, or a name without a folder: it is as it is. 1; 0: no
 * memory. */
int settings_beside(settings *s, const char *file);

/* The last one holds. 1; 0: why stands in error, with the next step in hint; where is the caller's. */
int settings_set(settings *s, const char *name, const char *value, htc_error *error);

/* What was set last stands there, FILE:LINE; else it is of the command line. */
void settings_stands(settings *s, const char *file, uint32_t line);

/* Values that contradict each other, or that a model refuses: if the error does not say where, it is said where the first key stands that it names, else which
 * file they are of. Nothing, if they are of the command line. */
void settings_place(const settings *s, htc_error *error);

/* A section begins: one with a name is there, though nothing is set in it. 1; 0 as above. */
int settings_section_begins(settings *s, const char *section, htc_error *error);

/* The value, or the fallback; "": neither. */
const char *settings_text(const settings *s, const char *name);
uint64_t    settings_count(const settings *s, const char *name);
double      settings_real(const settings *s, const char *name);
uint64_t    settings_size(const settings *s, const char *name);
htc_ns      settings_span(const settings *s, const char *name);
htc_scale_law settings_law(const settings *s, const char *name);
uint32_t    settings_choice(const settings *s, const char *name); /* its place */
void        settings_counts(const settings *s, const char *name, uint64_t *min, uint64_t *max);

/* How many sections of this kind there are. */
size_t settings_sections(const settings *s, const char *kind);
/* Why an experiment cannot be run, and the next step. 0. */
/* A name into a place of its own; 0: it is refused, since it is too long. */
int settings_keep(const settings *s, const char *name, char *into, size_t room, htc_error *error);
int settings_refuse(htc_error *error, htc_status status, const char *text, const char *hint);
/* Section number i of this kind, in the order in which they came first; NULL: there are no more. */
const char *settings_section(const settings *s, const char *kind, size_t i);
/* For a file: section number i of any kind; name number i that was set, and its value. NULL: there are no more. */
const char *settings_any_section(const settings *s, size_t i);
const char *settings_item(const settings *s, size_t i, const char **value);
/* 1: the value of this name is what it is where it is not set. */
int settings_is_fallback(const settings *s, const char *name);
/* KIND.NAME.KEY, lent until the next call. */
const char *settings_in(settings *s, const char *kind, const char *name, const char *key);

#endif
