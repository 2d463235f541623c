/* The manifest of a task's outputs, as its executor stored it: one JSON object a line (doc/protocol.md). It was written where
 * tasks run, so nothing of it is believed that was not looked at. */
#include <string.h>

#include "roles/gateway/gateway.h"

#define TEXT_MAX (2 * HTC_OUTPUT_NAME_MAX)

/* A name that stays in its directory: relative, without "..". */
int htc__gw_name_stays(const char *name)
{
    if (!name[0] || name[0] == '/')
        return 0;
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        p += n;
        if (*p == '/' && *++p == '\0')
            return 0;
    }
    return 1;
}

/* A text of the entry without control characters; NULL: there is none. */
static const char *text_of(const json_t *entry, const char *field)
{
    const char *s = json_string_value(json_object_get(entry, field));
    size_t      n = s ? strlen(s) : 0;
    if (!s || n > TEXT_MAX || n != json_string_length(json_object_get(entry, field)))
        return NULL;
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return NULL;
    return s;
}

static int is_hash(const char *s)
{
    return s && strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

/* What has to be there for an entry of its type; an error takes the place of content. */
static int is_whole(const json_t *entry)
{
    const char *type = text_of(entry, "type"), *name = text_of(entry, "name"), *error = text_of(entry, "error");
    if (!type || !type[0] || type[1] || !strchr("fdlpsbc", type[0]) || !name || !htc__gw_name_stays(name))
        return 0;
    if (error)
        return 1;
    const json_t *size = json_object_get(entry, "size");
    switch (type[0]) {
    case 'f': return json_is_integer(size) && json_integer_value(size) >= 0 && is_hash(text_of(entry, "hash"));
    case 'l': return text_of(entry, "target") != NULL;
    default: return type[0] == 'd';
    }
}

/* The entry with what is known of it; NULL: it is damaged. */
static json_t *entry_of(const char *line, size_t len)
{
    static const char *const texts[] = { "type", "name", "mode", "hash", "target", "was", "error" };
    json_t                  *read = json_loadb(line, len, 0, NULL), *entry = NULL;
    if (json_is_object(read) && is_whole(read) && (entry = json_object())) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (text_of(read, texts[i]))
                json_object_set(entry, texts[i], json_object_get(read, texts[i]));
        if (json_is_integer(json_object_get(read, "size")))
            json_object_set(entry, "size", json_object_get(read, "size"));
    }
    json_decref(read);
    return entry;
}

htc_status htc__gw_manifest_entries(htc_bytes piece, json_t *list, size_t *taken)
{
    const char *p = (const char *)piece.data, *end = p + piece.len, *line_end;
    *taken = 0;
    while (p < end && (line_end = memchr(p, '\n', (size_t)(end - p)))) {
        json_t *entry = entry_of(p, (size_t)(line_end - p));
        if (!entry)
            return HTC_ECORRUPT;
        json_array_append_new(list, entry);
        p = line_end + 1;
        *taken = (size_t)(p - (const char *)piece.data);
    }
    return *taken ? HTC_OK : HTC_ECORRUPT;
}
