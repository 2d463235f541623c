/* Members of answers: a missing or wrong one reads as empty, so that an older gateway's answer can still be shown. */
#include "htc.h"

#include <string.h>

const char *j_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

double j_num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

uint64_t j_u64(const json_t *o, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(o, key));
    return v > 0 ? (uint64_t)v : 0;
}

int j_bool(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

void j_add(json_t **request, const char *key, const char *word)
{
    if (*request && json_object_set_new(*request, key, json_string(word)) != 0) {
        json_decref(*request);
        *request = NULL;
    }
}

void put_json(cli *c, const json_t *value)
{
    /* There is no value where a name in it, of a directory say, is not UTF-8: JSON has no word for that. */
    if (!value || json_dumpf(value, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0)
        fputs("null", stdout);
    putchar('\n');
    c->json_done = 1;
}

shown_text show_id(const json_t *id)
{
    shown_text t;
    if (json_is_string(id))
        snprintf(t.s, sizeof t.s, "%.40s", json_string_value(id));
    else
        snprintf(t.s, sizeof t.s, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    return t;
}
