/* Members of answers: a missing or wrong one reads as empty, so that an older gateway's answer can still be shown. */
#include "htc.h"

#include <stdlib.h>
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

/* JSON as it is, but for characters that a terminal must not be given: outside of strings there are none, and in them they may
 * stand by number. */
static void put_escaped(const char *text)
{
    for (size_t left = strlen(text), len; left; text += len, left -= len) {
        len = *text == '\n' ? 1 : htc_text_shown(text, left);
        if (len) {
            fwrite(text, 1, len, stdout);
            continue;
        }
        const unsigned char *u = (const unsigned char *)text;
        len = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : 3; /* none of them has more */
        unsigned v = len == 1 ? u[0] : len == 2 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                                                : (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
        printf("\\u%04x", v);
    }
}

void put_json(cli *c, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    /* There is no value where a name in it, of a directory say, is not UTF-8: JSON has no word for that. */
    put_escaped(text ? text : "null");
    putchar('\n');
    free(text);
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
