/* What the readers of JSON share (flow_json.c). */
#ifndef HTC_WORK_FLOW_JSON_H
#define HTC_WORK_FLOW_JSON_H

#include <jansson.h>

#include "work/flow_private.h"

/* The object that is one task, while it is read. */
typedef struct htc__flow_object {
    htc__flow_reader *r;
    json_t           *json;
    uint32_t          line; /* 0: not known */
    const char       *list; /* it is list[i] of the document; NULL: it is the line */
    uint32_t          i;
    htc_flow_task     task;
    const char       *adds; /* the value of that key */
    htc__flow_list    args, env, in, out; /* const char *, and htc_flow_file */
    htc_buf           text;               /* of env: entries with their ends */
} htc__flow_object;

/* A key that may stand there, and what reads its value. */
typedef struct htc__flow_key {
    const char *name;
    htc_status (*read)(htc__flow_object *o, const char *key, const json_t *value);
} htc__flow_key;

/* Read an object by its keys and add the task, then what it waits for: the array under the key after, if there is one. Keys that are not named are
 * refused; hint says which there are. name has to be there if it is not NULL. */
htc_status htc__flow_object_read(htc__flow_object *o, const htc__flow_key *keys, size_t n, const char *hint,
                                 const char *name);
/* Readers of values, for lists of keys. */
htc_status htc__flow_key_name(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_env(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_args(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_cores(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_wall(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_executable(htc__flow_object *o, const char *key, const json_t *value);
htc_status htc__flow_key_later(htc__flow_object *o, const char *key, const json_t *value);

/* As htc__flow_refuse, of the value under a key of the object. */
htc_status htc__flow_object_refuse(const htc__flow_object *o, htc_status status, const char *key, const char *hint,
                                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Documents of one object; root is borrowed. */
htc_status htc__flow_read_jobs(htc__flow_reader *r, const json_t *root);
htc_status htc__flow_read_wfcommons(htc__flow_reader *r, const json_t *root);

#endif
