/* "htc-kvd member 1", "id ID", once it has run "ran DURABILITY BOOT", and when it is none any more "left". */
#include "member_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/state.h"

static void name_file(const char *dir, char *path, size_t cap)
{
    snprintf(path, cap, "%s/member", dir);
}

htc_status member_file_read(const char *dir, member_file *who)
{
    char path[4200], line[200], id[17] = "";
    int  format = 0;
    name_file(dir, path, sizeof path);
    *who = (member_file){ .id = 0 };
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? HTC_ENOTFOUND : HTC_EINPUT;
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "htc-kvd member %d", &format);
        sscanf(line, "id %16[0-9a-f]", id);
        sscanf(line, "ran %15s %63s", who->durability, who->boot);
        who->left |= strcmp(line, "left\n") == 0;
    }
    fclose(f);
    who->id = strtoull(id, NULL, 16);
    return format == 1 && strlen(id) == 16 && who->id ? HTC_OK : HTC_EFORMAT;
}

htc_status member_file_write(const char *dir, const member_file *who, htc_error *error)
{
    char path[4200], text[300];
    int  n = snprintf(text, sizeof text, "htc-kvd member 1\nid %016" PRIx64 "\n", who->id);
    if (who->durability[0])
        n += snprintf(text + n, sizeof text - (size_t)n, "ran %s %s\n", who->durability, who->boot);
    if (who->left)
        snprintf(text + n, sizeof text - (size_t)n, "left\n");
    name_file(dir, path, sizeof path);
    return htc_state_write_file(path, htc_bytes_of(text), 0600, error);
}
