/* Lists of texts, and the iterators over them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

static int add(text_list *l, char *text)
{
    if (text && l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 8;
        char **at = realloc(l->at, room * sizeof *at);
        if (at) {
            l->at = at;
            l->room = room;
        }
    }
    if (!text || l->count == l->room) {
        free(text);
        return 0;
    }
    l->at[l->count++] = text;
    return 1;
}

int htc__drmaa_list_add(text_list *l, const char *text)
{
    return add(l, strdup(text));
}

int htc__drmaa_list_print(text_list *l, const char *format, ...)
{
    char   *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    return add(l, n < 0 ? NULL : text);
}

void htc__drmaa_list_free(text_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->at[i]);
    free(l->at);
    *l = (text_list){ 0 };
}

static int next_text(text_list *l, char *value, size_t value_len)
{
    if (l->next == l->count)
        return DRMAA_ERRNO_NO_MORE_ELEMENTS;
    htc__drmaa_put(value, value_len, l->at[l->next++]);
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_next_attr_name(drmaa_attr_names_t *values, char *value, size_t value_len)
{
    return values ? next_text(&values->list, value, value_len) : DRMAA_ERRNO_INVALID_ARGUMENT;
}

int drmaa_get_next_attr_value(drmaa_attr_values_t *values, char *value, size_t value_len)
{
    return values ? next_text(&values->list, value, value_len) : DRMAA_ERRNO_INVALID_ARGUMENT;
}

int drmaa_get_next_job_id(drmaa_job_ids_t *values, char *value, size_t value_len)
{
    if (!values)
        return DRMAA_ERRNO_INVALID_ARGUMENT;
    if (values->next == values->count)
        return DRMAA_ERRNO_NO_MORE_ELEMENTS;
    if (value && value_len)
        snprintf(value, value_len, "%" PRIu64 ".%" PRIu64, values->job, values->next);
    values->next++;
    return DRMAA_ERRNO_SUCCESS;
}

static int number(int there, size_t *size, size_t count)
{
    if (!there || !size)
        return DRMAA_ERRNO_INVALID_ARGUMENT;
    *size = count;
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_num_attr_names(drmaa_attr_names_t *values, size_t *size)
{
    return number(values != NULL, size, values ? values->list.count : 0);
}

int drmaa_get_num_attr_values(drmaa_attr_values_t *values, size_t *size)
{
    return number(values != NULL, size, values ? values->list.count : 0);
}

int drmaa_get_num_job_ids(drmaa_job_ids_t *values, size_t *size)
{
    return number(values != NULL, size, values ? (size_t)values->count : 0);
}

void drmaa_release_attr_names(drmaa_attr_names_t *values)
{
    if (values)
        htc__drmaa_list_free(&values->list);
    free(values);
}

void drmaa_release_attr_values(drmaa_attr_values_t *values)
{
    if (values)
        htc__drmaa_list_free(&values->list);
    free(values);
}

void drmaa_release_job_ids(drmaa_job_ids_t *values)
{
    free(values);
}
