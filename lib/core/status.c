#include "htcsched/status.h"

#include <string.h>

static const struct {
    htc_status  status;
    int         exit_code;
    const char *name, *text;
} table[] = {
#define ROW(name, number, exit_code, text) { name, exit_code, #name, text },
    HTC_STATUS_TABLE(ROW)
#undef ROW
};

#define ROWS (sizeof table / sizeof table[0])

static size_t find(htc_status status)
{
    for (size_t i = 0; i < ROWS; i++)
        if (table[i].status == status)
            return i;
    return ROWS;
}

const char *htc_strerror(htc_status status)
{
    size_t i = find(status);
    return i < ROWS ? table[i].text : "unknown status";
}

const char *htc_status_name(htc_status status)
{
    size_t i = find(status);
    return i < ROWS ? table[i].name : "HTC_EINTERNAL";
}

htc_status htc_status_from_name(const char *name)
{
    for (size_t i = 0; name && i < ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].status;
    return HTC_EINTERNAL;
}

int htc_exit_code(htc_status status)
{
    size_t i = find(status);
    return i < ROWS ? table[i].exit_code : 70;
}
