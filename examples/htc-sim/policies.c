#include "policies.h"

#include <stdio.h>
#include <string.h>

#include "htcsched/policy_file.h"

#define FILES_MAX 64

static const char   *files[FILES_MAX];
static size_t        n_files;
static htc_registry *known; /* of names: no run uses its policies */

static int refuse(htc_error *e, htc_status status, const char *text, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->text, sizeof e->text, "%s", text);
    snprintf(e->hint, sizeof e->hint, "%s", hint);
    return 0;
}

static htc_registry *builtin(void)
{
    htc_registry *r = NULL;
    if (htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK)
        return r;
    htc_registry_destroy(r);
    return NULL;
}

static htc_registry *names(void)
{
    if (!known)
        known = builtin();
    return known;
}

int policies_from(const char *file, htc_error *error)
{
    if (n_files == FILES_MAX)
        return refuse(error, HTC_EFULL, "there are too many files of policies", "--policy-from takes 64 files: put several policies into one");
    if (!names())
        return refuse(error, HTC_ENOMEM, "no memory for the policies", "");
    if (htc_policy_load(known, file, 0, error) != HTC_OK)
        return 0;
    files[n_files++] = file;
    return 1;
}

int policies_are_added(void)
{
    return n_files > 0;
}

htc_registry *policies_open(htc_error *error)
{
    htc_registry *r = builtin();
    if (!r) {
        refuse(error, HTC_ENOMEM, "no memory for the policies", "make the experiment smaller");
        return NULL;
    }
    for (size_t i = 0; i < n_files; i++)
        if (htc_policy_load(r, files[i], 0, error) != HTC_OK) {
            htc_registry_destroy(r);
            return NULL;
        }
    return r;
}

int policies_have(uint32_t kind, const char *name)
{
    const void *there;
    return names() && htc_registry_find(known, kind, name, &there) == HTC_OK;
}

static void append(char *out, size_t room, size_t *n, const char *text, size_t len, const char *between)
{
    if (*n < room)
        *n += (size_t)snprintf(out + *n, room - *n, "%s%.*s", *n ? between : "", (int)len, text);
}

void policies_list(uint32_t kind, const char *first, char *out, size_t room)
{
    size_t      n = 0, i = 0;
    const char *name;
    out[0] = '\0';
    while (first && *first) {
        size_t len = strcspn(first, "|");
        append(out, room, &n, first, len, ", ");
        first += len + (first[len] == '|');
    }
    for (; names() && (name = htc_registry_name(known, kind, i)); i++)
        append(out, room, &n, name, strlen(name), htc_registry_name(known, kind, i + 1) ? ", " : " or ");
}
