/* Job templates. */
#include <stdlib.h>
#include <string.h>

#include "drmaa/drmaa_private.h"

int drmaa_allocate_job_template(drmaa_job_template_t **jt, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!jt)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the template");
    if (!htc__drmaa_session_is_there())
        return htc__drmaa_no_session(&d);
    drmaa_job_template_t *t = calloc(1, sizeof *t);
    if (!t)
        return htc__drmaa_no_memory(&d);
    *jt = t;
    return DRMAA_ERRNO_SUCCESS;
}

void htc__drmaa_template_clear(drmaa_job_template_t *t)
{
    for (size_t i = 0; i < ATTR_SCALARS; i++)
        free(t->value[i]);
    for (size_t i = 0; i < ATTR_COUNT - ATTR_SCALARS; i++)
        htc__drmaa_list_free(&t->list[i]);
    memset(t, 0, sizeof *t);
}

int drmaa_delete_job_template(drmaa_job_template_t *jt, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!jt)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no template");
    htc__drmaa_template_clear(jt);
    free(jt);
    return DRMAA_ERRNO_SUCCESS;
}

static int list_copy(const text_list *from, text_list *to)
{
    if (!from->at)
        return 1;
    for (size_t i = 0; i < from->count; i++)
        if (!htc__drmaa_list_add(to, from->at[i]))
            return 0;
    if (!to->at) /* set, and empty */
        to->at = calloc(1, sizeof *to->at);
    to->room = to->count ? to->room : 1;
    return to->at != NULL;
}

int htc__drmaa_template_copy(const drmaa_job_template_t *from, drmaa_job_template_t *to)
{
    int whole = 1;
    memset(to, 0, sizeof *to);
    htc__drmaa_lock();
    for (size_t i = 0; i < ATTR_SCALARS; i++)
        if (from->value[i])
            whole &= (to->value[i] = strdup(from->value[i])) != NULL;
    for (size_t i = 0; i < ATTR_COUNT - ATTR_SCALARS; i++)
        whole &= list_copy(&from->list[i], &to->list[i]);
    htc__drmaa_unlock();
    if (!whole)
        htc__drmaa_template_clear(to);
    return whole;
}

/* The attribute of a call, or why it is none. list: it has to be one that is a list. */
static int which(const drmaa_job_template_t *jt, const char *name, int list, attribute *a, diagnosis *d)
{
    *a = ATTR_COUNT;
    if (!jt || !name)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no %s", jt ? "name" : "template");
    if (!htc__drmaa_session_is_there())
        return htc__drmaa_no_session(d);
    *a = htc__drmaa_attribute_find(name);
    if (*a == ATTR_COUNT)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no attribute '%.100s' here", name);
    if ((*a >= ATTR_SCALARS) != list)
        return htc__drmaa_fail(d, DRMAA_ERRNO_INVALID_ARGUMENT, "%s is %s", name, list ? "one value, and no list" : "a list, and not one value");
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_set_attribute(drmaa_job_template_t *jt, const char *name, const char *value, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    attribute a;
    int       code = which(jt, name, 0, &a, &d);
    if (code == DRMAA_ERRNO_SUCCESS && !value)
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no value for %s", name);
    if (code == DRMAA_ERRNO_SUCCESS)
        code = htc__drmaa_attribute_check(a, value, &d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    char *copy = strdup(value);
    if (!copy)
        return htc__drmaa_no_memory(&d);
    htc__drmaa_lock();
    free(jt->value[a]);
    jt->value[a] = copy;
    htc__drmaa_unlock();
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_attribute(drmaa_job_template_t *jt, const char *name, char *value, size_t value_len, char *error_diagnosis,
                        size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    attribute a;
    int       code = which(jt, name, 0, &a, &d);
    if (code == DRMAA_ERRNO_SUCCESS && (!value || value_len == 0))
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the value of %s", name);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    htc__drmaa_lock();
    if (jt->value[a])
        htc__drmaa_put(value, value_len, jt->value[a]);
    else
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is not set", name);
    htc__drmaa_unlock();
    return code;
}

int drmaa_set_vector_attribute(drmaa_job_template_t *jt, const char *name, const char *value[], char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    attribute a;
    text_list list = { 0 };
    int       code = which(jt, name, 1, &a, &d);
    if (code == DRMAA_ERRNO_SUCCESS && !value)
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there are no values for %s", name);
    for (size_t i = 0; code == DRMAA_ERRNO_SUCCESS && value[i]; i++)
        code = htc__drmaa_attribute_check(a, value[i], &d);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    size_t count = 0;
    while (value[count])
        count++;
    text_list given = { .at = (char **)(uintptr_t)value, .count = count };
    if (!list_copy(&given, &list)) {
        htc__drmaa_list_free(&list);
        return htc__drmaa_no_memory(&d);
    }
    htc__drmaa_lock();
    htc__drmaa_list_free(&jt->list[a - ATTR_SCALARS]);
    jt->list[a - ATTR_SCALARS] = list;
    htc__drmaa_unlock();
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_vector_attribute(drmaa_job_template_t *jt, const char *name, drmaa_attr_values_t **values, char *error_diagnosis,
                               size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    attribute a;
    int       code = which(jt, name, 1, &a, &d);
    if (code == DRMAA_ERRNO_SUCCESS && !values)
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the values of %s", name);
    if (code != DRMAA_ERRNO_SUCCESS)
        return code;
    drmaa_attr_values_t *found = calloc(1, sizeof *found);
    if (!found)
        return htc__drmaa_no_memory(&d);
    htc__drmaa_lock();
    const text_list *list = &jt->list[a - ATTR_SCALARS];
    if (!list->at)
        code = htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, "%s is not set", name);
    else if (!list_copy(list, &found->list))
        code = htc__drmaa_no_memory(&d);
    htc__drmaa_unlock();
    if (code == DRMAA_ERRNO_SUCCESS)
        *values = found;
    else
        drmaa_release_attr_values(found);
    return code;
}

static int names_of(attribute from, attribute to, drmaa_attr_names_t **values, char *error_diagnosis, size_t error_diag_len)
{
    diagnosis d = htc__drmaa_diagnosis(error_diagnosis, error_diag_len);
    if (!values)
        return htc__drmaa_fail(&d, DRMAA_ERRNO_INVALID_ARGUMENT, "there is no place for the names");
    if (!htc__drmaa_session_is_there())
        return htc__drmaa_no_session(&d);
    drmaa_attr_names_t *found = calloc(1, sizeof *found);
    for (attribute a = from; found && a < to; a++)
        if (!htc__drmaa_list_add(&found->list, htc__drmaa_attribute_name(a))) {
            drmaa_release_attr_names(found);
            found = NULL;
        }
    if (!found)
        return htc__drmaa_no_memory(&d);
    *values = found;
    return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_attribute_names(drmaa_attr_names_t **values, char *error_diagnosis, size_t error_diag_len)
{
    return names_of(0, ATTR_SCALARS, values, error_diagnosis, error_diag_len);
}

int drmaa_get_vector_attribute_names(drmaa_attr_names_t **values, char *error_diagnosis, size_t error_diag_len)
{
    return names_of(ATTR_SCALARS, ATTR_COUNT, values, error_diagnosis, error_diag_len);
}
