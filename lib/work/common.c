/* Small things that several files of this layer need: refusals, names that stay inside, URIs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/url.h"
#include "work/work_private.h"

static const char *const slot_names[HTC__SLOT_KINDS] = {
    [HTC__SLOT_JOB_NAME] = "JobName",
    [HTC__SLOT_EXECUTABLE] = "Executable",
    [HTC__SLOT_ARGUMENT] = "Argument",
    [HTC__SLOT_INPUT] = "Input",
    [HTC__SLOT_OUTPUT] = "Output",
    [HTC__SLOT_ERROR] = "Error",
    [HTC__SLOT_DIRECTORY] = "WorkingDirectory",
    [HTC__SLOT_ENV_NAME] = "Environment/@name",
    [HTC__SLOT_ENV_VALUE] = "Environment",
    [HTC__SLOT_WALL] = "WallTimeLimit",
    [HTC__SLOT_FILE_SIZE] = "FileSizeLimit",
    [HTC__SLOT_CORE_SIZE] = "CoreDumpLimit",
    [HTC__SLOT_DATA] = "DataSegmentLimit",
    [HTC__SLOT_MEMORY] = "MemoryLimit",
    [HTC__SLOT_OPEN_FILES] = "OpenDescriptorsLimit",
    [HTC__SLOT_STACK] = "StackSizeLimit",
    [HTC__SLOT_CPU] = "CPUTimeLimit",
    [HTC__SLOT_PROCESSES] = "ProcessCountLimit",
    [HTC__SLOT_VIRTUAL_MEMORY] = "VirtualMemoryLimit",
    [HTC__SLOT_HOST] = "HostName",
    [HTC__SLOT_SYSTEM] = "OperatingSystemName",
    [HTC__SLOT_ARCHITECTURE] = "CPUArchitectureName",
    [HTC__SLOT_NODE_CORES] = "IndividualCPUCount",
    [HTC__SLOT_CORES] = "TotalCPUCount",
    [HTC__SLOT_MEMORY_MIN] = "IndividualPhysicalMemory",
    [HTC__SLOT_STAGE_NAME] = "FileName",
    [HTC__SLOT_STAGE_FLAG] = "CreationFlag",
    [HTC__SLOT_STAGE_DELETE] = "DeleteOnTermination",
    [HTC__SLOT_STAGE_SOURCE] = "Source/URI",
    [HTC__SLOT_STAGE_TARGET] = "Target/URI",
    [HTC__SLOT_STAGE_EXECUTABLE] = "Executable",
    [HTC__SLOT_EXCLUSIVE] = "ExclusiveExecution",
    [HTC__SLOT_RESOURCE_NAME] = "Resource/@name",
    [HTC__SLOT_RESOURCE] = "Resource",
    [HTC__SLOT_CONTAINER] = "Container",
};

int htc__resource_name_is_fine(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    return n > 0 && n <= HTC_RESOURCE_NAME_MAX && name[n] == '\0' && name[0] >= 'a' && name[0] <= 'z';
}

int htc__container_is_fine(const char *image)
{
    size_t n = strlen(image);
    if (n == 0 || n > 1023 || image[0] == '-')
        return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)image[i] <= ' ' || image[i] == 0x7f)
            return 0;
    return 1;
}

const char *htc__slot_name(uint32_t kind)
{
    return kind > 0 && kind < HTC__SLOT_KINDS ? slot_names[kind] : "";
}

/* One line, whole UTF-8 characters: what a person wrote may hold anything. */
static void clean(char *text)
{
    size_t n = strlen(text), cut = n;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
    while (cut > 0 && n - cut < 3 && ((unsigned char)text[cut - 1] & 0xc0) == 0x80)
        cut--;
    if (cut == 0)
        return;
    unsigned char lead = (unsigned char)text[cut - 1];
    size_t        need = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (need > n - cut)
        text[cut - 1] = '\0';
}

htc_status htc__refuse(htc_error *e, htc_status status, uint32_t line, const char *where, const char *format, ...)
{
    va_list args;
    if (!e)
        return status;
    memset(e, 0, sizeof *e);
    e->status = status;
    e->line = line;
    snprintf(e->where, sizeof e->where, "%s", where ? where : "");
    clean(e->where);
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    clean(e->text);
    return status;
}

/* Where the host of an address begins that stands at `at`: behind the last @ before a slash. */
static size_t host_of(htc_bytes text, size_t at)
{
    const char *p = text.data;
    size_t      host = at;
    for (; at < text.len && !strchr("/?# \t\r\n", p[at]); at++)
        host = p[at] == '@' ? at + 1 : host;
    return host;
}

/* What stands before the @ of an address is a name and a password. */
static size_t without_secret(htc_bytes text, char *out, size_t cap)
{
    const char *p = text.data;
    size_t      used = 0;
    for (size_t i = 0; i < text.len && used + 4 < cap;) {
        out[used++] = p[i++];
        size_t host = i >= 3 && memcmp(p + i - 3, "://", 3) == 0 ? host_of(text, i) : i;
        if (host > i) {
            memcpy(out + used, "***@", 4);
            used += 4;
            i = host;
        }
    }
    return used;
}

htc__quoted htc__quote(htc_bytes text)
{
    htc__quoted q;
    char        part[64], shown[512];
    text = (htc_bytes){ shown, without_secret(text, shown, sizeof shown) };
    size_t n = text.len > 60 ? 60 : text.len;
    if (n)
        memcpy(part, text.data, n);
    part[n] = '\0';
    clean(part);
    snprintf(q.text, sizeof q.text, "\"%s%s\"", part, text.len > n ? "…" : "");
    return q;
}

int htc__path_stays(htc_bytes path)
{
    const char *p = path.data;
    if (path.len == 0 || path.len > 4095 || p[0] == '/' || memchr(p, 0, path.len))
        return 0;
    int has_name = 0;
    for (size_t i = 0; i < path.len;) {
        const char *slash = memchr(p + i, '/', path.len - i);
        size_t      n = slash ? (size_t)(slash - (p + i)) : path.len - i;
        if (n == 2 && p[i] == '.' && p[i + 1] == '.')
            return 0;
        has_name |= n > 1 || (n == 1 && p[i] != '.');
        i += n + 1;
    }
    return has_name && p[path.len - 1] != '/';
}

static int starts(htc_bytes text, const char *prefix)
{
    size_t n = strlen(prefix);
    return text.len >= n && memcmp(text.data, prefix, n) == 0;
}

int htc__uri_is_upload(htc_bytes uri)
{
    const char *p = uri.data;
    if (uri.len != 68 || !starts(uri, "htc:"))
        return 0;
    for (size_t i = 4; i < uri.len; i++)
        if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
            return 0;
    return 1;
}

int htc__uri_is_tree(htc_bytes uri)
{
    return uri.len == 69 && ((const char *)uri.data)[68] == '/' && htc__uri_is_upload((htc_bytes){ uri.data, 68 });
}

int htc__uri_is_file(htc_bytes uri)
{
    return (starts(uri, "file:/") && !starts(uri, "file://")) || starts(uri, "file:///") ||
           starts(uri, "file://localhost/");
}

const char *htc__target_wrong(htc_bytes url, uint32_t flags)
{
    const char *wrong = htc__url_wrong(url);
    if (wrong)
        return wrong;
    if (flags & HTC_STAGE_APPEND)
        return "is a URL, and nothing can be appended there: CreationFlag is overwrite or dontOverwrite";
    if ((flags & HTC_STAGE_KEEP) && htc__url_is_ftp(url))
        return "is of FTP, whose servers cannot be told dontOverwrite";
    return NULL;
}

int htc__has_scheme(htc_bytes uri)
{
    const char *p = uri.data;
    for (size_t i = 0; i < uri.len; i++) {
        int letter = (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z');
        if (p[i] == ':')
            return i > 0;
        if (!letter && !(i > 0 && ((p[i] >= '0' && p[i] <= '9') || p[i] == '+' || p[i] == '-' || p[i] == '.')))
            return 0;
    }
    return 0;
}

htc_status htc__take_bytes(const htc_env *env, htc_buf *b, htc_bytes *out)
{
    htc_status status = b->status;
    void      *copy = status == HTC_OK ? htc__alloc(env, b->len) : NULL;
    if (copy && b->len)
        memcpy(copy, b->data, b->len);
    if (copy)
        *out = (htc_bytes){ copy, b->len };
    else if (status == HTC_OK)
        status = HTC_ENOMEM;
    htc_buf_free(b);
    return status;
}

void htc_work_free(const htc_env *env, htc_bytes bytes)
{
    /* Given out by take_bytes: the const is only the borrower's. */
    htc__free(env, (void *)(uintptr_t)bytes.data, bytes.len);
}
