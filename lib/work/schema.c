/* The schema: our own writing of what JSDL 1.0, its POSIX application, the parameter sweep and our one extension may
 * look like, and the walk that holds a document against it.
 *
 * A content model is a list of names in order, each with ? (may be missing), * (any number) or + (at least one);
 * "any" stands for elements of other namespaces, "Parameter" and "Function" for what may stand in an Assignment.
 * An attribute list has ? behind an optional one; "other" allows attributes of other namespaces. Elements of other
 * namespaces are looked into as far as we know them, like the published schemas do. */
#include <libxml/uri.h>
#include <libxml/valid.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "work/xml_private.h"

typedef enum text_type {
    TEXT_NONE = 0, /* holds elements */
    TEXT_STRING,
    TEXT_NCNAME,
    TEXT_URI,
    TEXT_BOOLEAN,
    TEXT_DOUBLE,
    TEXT_INTEGER,
    TEXT_COUNT, /* nonNegativeInteger */
    TEXT_CREATION,
    TEXT_ARCHITECTURE,
    TEXT_SYSTEM,
    TEXT_FILE_SYSTEM,
    TEXT_ANYTHING /* any text, elements and attributes */
} text_type;

typedef struct declaration {
    const char *ns, *name;
    text_type   text;
    const char *content;
    const char *attributes;
    int         local; /* known only inside its parent, under this type name */
} declaration;

#define RANGE "UpperBoundedRange? LowerBoundedRange? Exact* Range*"

static const declaration declarations[] = {
    { HTC_JSDL_NS, "JobDefinition", TEXT_NONE, "JobDescription any*", "id:NCName? other", 0 },
    { HTC_JSDL_NS, "JobDescription", TEXT_NONE, "JobIdentification? Application? Resources? DataStaging* any*", "other",
      0 },
    { HTC_JSDL_NS, "JobIdentification", TEXT_NONE, "JobName? Description? JobAnnotation* JobProject* any*", "other",
      0 },
    { HTC_JSDL_NS, "JobName", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "Description", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "JobAnnotation", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "JobProject", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "Application", TEXT_NONE, "ApplicationName? ApplicationVersion? Description? any*", "other", 0 },
    { HTC_JSDL_NS, "ApplicationName", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "ApplicationVersion", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "Resources", TEXT_NONE,
      "CandidateHosts? FileSystem* ExclusiveExecution? OperatingSystem? CPUArchitecture? IndividualCPUSpeed? "
      "IndividualCPUTime? IndividualCPUCount? IndividualNetworkBandwidth? IndividualPhysicalMemory? "
      "IndividualVirtualMemory? IndividualDiskSpace? TotalCPUTime? TotalCPUCount? TotalPhysicalMemory? "
      "TotalVirtualMemory? TotalDiskSpace? TotalResourceCount? any*",
      "other", 0 },
    { HTC_JSDL_NS, "CandidateHosts", TEXT_NONE, "HostName+", "", 0 },
    { HTC_JSDL_NS, "HostName", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "FileSystem", TEXT_NONE, "FileSystemType? Description? MountPoint? DiskSpace? any*",
      "name:NCName other", 0 },
    { HTC_JSDL_NS, "FileSystemType", TEXT_FILE_SYSTEM, "", "", 0 },
    { HTC_JSDL_NS, "MountPoint", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "DiskSpace", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "ExclusiveExecution", TEXT_BOOLEAN, "", "", 0 },
    { HTC_JSDL_NS, "OperatingSystem", TEXT_NONE, "OperatingSystemType? OperatingSystemVersion? Description? any*",
      "other", 0 },
    { HTC_JSDL_NS, "OperatingSystemType", TEXT_NONE, "OperatingSystemName any*", "other", 0 },
    { HTC_JSDL_NS, "OperatingSystemName", TEXT_SYSTEM, "", "", 0 },
    { HTC_JSDL_NS, "OperatingSystemVersion", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "CPUArchitecture", TEXT_NONE, "CPUArchitectureName any*", "other", 0 },
    { HTC_JSDL_NS, "CPUArchitectureName", TEXT_ARCHITECTURE, "", "", 0 },
    { HTC_JSDL_NS, "IndividualCPUSpeed", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualCPUTime", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualCPUCount", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualNetworkBandwidth", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualPhysicalMemory", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualVirtualMemory", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "IndividualDiskSpace", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalCPUTime", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalCPUCount", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalPhysicalMemory", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalVirtualMemory", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalDiskSpace", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "TotalResourceCount", TEXT_NONE, RANGE, "other", 0 },
    { HTC_JSDL_NS, "UpperBoundedRange", TEXT_DOUBLE, "", "exclusiveBound:boolean? other", 1 },
    { HTC_JSDL_NS, "LowerBoundedRange", TEXT_DOUBLE, "", "exclusiveBound:boolean? other", 1 },
    { HTC_JSDL_NS, "Exact", TEXT_DOUBLE, "", "epsilon:double? other", 1 },
    { HTC_JSDL_NS, "Range", TEXT_NONE, "LowerBound UpperBound", "other", 1 },
    { HTC_JSDL_NS, "LowerBound", TEXT_DOUBLE, "", "exclusiveBound:boolean? other", 1 },
    { HTC_JSDL_NS, "UpperBound", TEXT_DOUBLE, "", "exclusiveBound:boolean? other", 1 },
    { HTC_JSDL_NS, "DataStaging", TEXT_NONE,
      "FileName FilesystemName? CreationFlag DeleteOnTermination? Source? Target? any*", "name:NCName? other", 0 },
    { HTC_JSDL_NS, "FileName", TEXT_STRING, "", "", 0 },
    { HTC_JSDL_NS, "FilesystemName", TEXT_NCNAME, "", "", 0 },
    { HTC_JSDL_NS, "CreationFlag", TEXT_CREATION, "", "", 0 },
    { HTC_JSDL_NS, "DeleteOnTermination", TEXT_BOOLEAN, "", "", 0 },
    { HTC_JSDL_NS, "Source", TEXT_NONE, "URI? any*", "other", 0 },
    { HTC_JSDL_NS, "Target", TEXT_NONE, "URI? any*", "other", 0 },
    { HTC_JSDL_NS, "URI", TEXT_URI, "", "", 0 },

    { HTC_POSIX_NS, "POSIXApplication", TEXT_NONE,
      "Executable? Argument* Input? Output? Error? WorkingDirectory? Environment* WallTimeLimit? FileSizeLimit? "
      "CoreDumpLimit? DataSegmentLimit? LockedMemoryLimit? MemoryLimit? OpenDescriptorsLimit? PipeSizeLimit? "
      "StackSizeLimit? CPUTimeLimit? ProcessCountLimit? VirtualMemoryLimit? ThreadCountLimit? UserName? GroupName?",
      "name:NCName? other", 0 },
    { HTC_POSIX_NS, "Executable", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "Argument", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "Input", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "Output", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "Error", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "WorkingDirectory", TEXT_STRING, "", "filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "Environment", TEXT_STRING, "", "name:NCName filesystemName:NCName? other", 0 },
    { HTC_POSIX_NS, "WallTimeLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "FileSizeLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "CoreDumpLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "DataSegmentLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "LockedMemoryLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "MemoryLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "OpenDescriptorsLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "PipeSizeLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "StackSizeLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "CPUTimeLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "ProcessCountLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "VirtualMemoryLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "ThreadCountLimit", TEXT_COUNT, "", "other", 0 },
    { HTC_POSIX_NS, "UserName", TEXT_STRING, "", "other", 0 },
    { HTC_POSIX_NS, "GroupName", TEXT_STRING, "", "other", 0 },

    { HTC_SWEEP_NS, "Sweep", TEXT_NONE, "Assignment+ Sweep* any*", "other", 0 },
    { HTC_SWEEP_NS, "Assignment", TEXT_NONE, "Parameter+ Function", "", 0 },
    { HTC_SWEEP_NS, "DocumentNode", TEXT_NONE, "NamespaceBinding+ Match", "", 0 },
    { HTC_SWEEP_NS, "NamespaceBinding", TEXT_NONE, "", "ns:anyURI prefix:NCName", 0 },
    { HTC_SWEEP_NS, "Match", TEXT_STRING, "", "", 1 },
    { HTC_SWEEP_FUNCTIONS_NS, "Values", TEXT_NONE, "Value+", "other", 0 },
    { HTC_SWEEP_FUNCTIONS_NS, "Value", TEXT_ANYTHING, "", "", 1 },
    { HTC_SWEEP_FUNCTIONS_NS, "LoopInteger", TEXT_NONE, "Exception*", "start:integer end:integer step:integer? other",
      0 },
    { HTC_SWEEP_FUNCTIONS_NS, "LoopDouble", TEXT_NONE, "Exception*", "start:double end:double step:double other", 0 },
    { HTC_SWEEP_FUNCTIONS_NS, "Exception", TEXT_STRING, "", "", 1 }, /* a number: see check_exception */

    { HTC_OWN_NS, "Pairs", TEXT_NONE, "Value+", "second:integer? name:string? other", 0 },
    { HTC_OWN_NS, "Value", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Executable", TEXT_BOOLEAN, "", "", 0 },
    { HTC_OWN_NS, "Resource", TEXT_COUNT, "", "name:string other", 0 },
    { HTC_OWN_NS, "Container", TEXT_STRING, "", "other", 0 },
    { HTC_OWN_NS, "Submission", TEXT_NONE,
      "Array? Retries? Priority? MaxRunning? Begin? Signal? Hold? After* Output? Error? Compat? OnEnd? MailTo? MailOn? any*", "other", 0 },
    { HTC_OWN_NS, "Array", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Retries", TEXT_COUNT, "", "", 1 },
    { HTC_OWN_NS, "Priority", TEXT_INTEGER, "", "", 1 },
    { HTC_OWN_NS, "MaxRunning", TEXT_COUNT, "", "", 1 },
    { HTC_OWN_NS, "Begin", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Signal", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Hold", TEXT_BOOLEAN, "", "", 1 },
    { HTC_OWN_NS, "After", TEXT_COUNT, "", "when:string?", 1 },
    { HTC_OWN_NS, "Output", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Error", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "Compat", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "OnEnd", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "MailTo", TEXT_STRING, "", "", 1 },
    { HTC_OWN_NS, "MailOn", TEXT_STRING, "", "", 1 },
};

static const char *const architectures[] = { "sparc", "powerpc", "x86", "x86_32", "x86_64", "parisc",
                                             "mips",  "ia64",    "arm", "other",  NULL };
static const char *const file_systems[] = { "swap", "temporary", "spool", "normal", NULL };
static const char *const creations[] = { "overwrite", "append", "dontOverwrite", NULL };
static const char *const systems[] = { "Unknown",      "MACOS",
                                       "ATTUNIX",      "DGUX",
                                       "DECNT",        "Tru64_UNIX",
                                       "OpenVMS",      "HPUX",
                                       "AIX",          "MVS",
                                       "OS400",        "OS_2",
                                       "JavaVM",       "MSDOS",
                                       "WIN3x",        "WIN95",
                                       "WIN98",        "WINNT",
                                       "WINCE",        "NCR3000",
                                       "NetWare",      "OSF",
                                       "DC_OS",        "Reliant_UNIX",
                                       "SCO_UnixWare", "SCO_OpenServer",
                                       "Sequent",      "IRIX",
                                       "Solaris",      "SunOS",
                                       "U6000",        "ASERIES",
                                       "TandemNSK",    "TandemNT",
                                       "BS2000",       "LINUX",
                                       "Lynx",         "XENIX",
                                       "VM",           "Interactive_UNIX",
                                       "BSDUNIX",      "FreeBSD",
                                       "NetBSD",       "GNU_Hurd",
                                       "OS9",          "MACH_Kernel",
                                       "Inferno",      "QNX",
                                       "EPOC",         "IxWorks",
                                       "VxWorks",      "MiNT",
                                       "BeOS",         "HP_MPE",
                                       "NextStep",     "PalmPilot",
                                       "Rhapsody",     "Windows_2000",
                                       "Dedicated",    "OS_390",
                                       "VSE",          "TPF",
                                       "Windows_R_Me", "Caldera_Open_UNIX",
                                       "OpenBSD",      "Not_Applicable",
                                       "Windows_XP",   "z_OS",
                                       "other",        NULL };

static const char *in_any_case(const char *const *names, const char *text)
{
    while (*names && strcasecmp(*names, text) != 0)
        names++;
    return *names;
}

const char *htc__jsdl_architecture(const char *text)
{
    return in_any_case(architectures, text);
}

const char *htc__jsdl_system(const char *text)
{
    return in_any_case(systems, text);
}

static const declaration *declared(const xmlNode *node, int global_only)
{
    for (size_t i = 0; i < sizeof declarations / sizeof declarations[0]; i++)
        if (strcmp(htc__xml_name(node), declarations[i].name) == 0 && htc__xml_in(node, declarations[i].ns) &&
            !(global_only && declarations[i].local))
            return &declarations[i];
    return NULL;
}

static int known_namespace(const xmlNode *node)
{
    return htc__xml_in(node, HTC_JSDL_NS) || htc__xml_in(node, HTC_POSIX_NS) || htc__xml_in(node, HTC_SWEEP_NS) ||
           htc__xml_in(node, HTC_SWEEP_FUNCTIONS_NS) || htc__xml_in(node, HTC_OWN_NS);
}

/* ---- texts ---- */

static int one_of(htc_bytes text, const char *const *list)
{
    for (; *list; list++)
        if (htc_bytes_equal(text, htc_bytes_of(*list)))
            return 1;
    return 0;
}

static int is_uri(const char *text)
{
    char   *copy = (char *)xmlStrdup((const xmlChar *)text);
    xmlURI *uri;
    if (!copy)
        return 1;
    /* xsd:anyURI allows what a URI has to escape: look at it as if it were escaped. */
    htc_bytes t = htc__trim(htc_bytes_of(copy));
    char     *p = (char *)(uintptr_t)t.data;
    p[t.len] = '\0';
    for (char *c = p; *c; c++)
        if ((unsigned char)*c <= 32 || (unsigned char)*c >= 127 || strchr("<>\"{}|\\^`", *c))
            *c = '_';
    uri = *p ? xmlParseURI(p) : NULL;
    int ok = !*p || uri;
    xmlFreeURI(uri);
    xmlFree(copy);
    return ok;
}

static int is_integer(const char *text, int may_be_negative)
{
    int64_t   i;
    uint64_t  u;
    htc_bytes t = htc_bytes_of(text);
    return may_be_negative ? htc__integer_parse(t, &i) != 0 : htc__unsigned_parse(t, &u) != 0;
}

static int text_fits(text_type type, const char *text)
{
    static const char *const truths[] = { "true", "false", "1", "0", NULL };
    double                   d;
    htc_bytes                t = htc_bytes_of(text);
    switch (type) {
    case TEXT_NONE:
    case TEXT_STRING:
    case TEXT_ANYTHING:
        return 1;
    case TEXT_NCNAME:
        return xmlValidateNCName((const xmlChar *)text, 1) == 0;
    case TEXT_URI:
        return is_uri(text);
    case TEXT_BOOLEAN:
        return one_of(htc__trim(t), truths);
    case TEXT_DOUBLE:
        return htc__double_parse(t, &d);
    case TEXT_INTEGER:
        return is_integer(text, 1);
    case TEXT_COUNT:
        return is_integer(text, 0);
    case TEXT_CREATION:
        return one_of(t, creations);
    case TEXT_ARCHITECTURE:
        return one_of(t, architectures);
    case TEXT_SYSTEM:
        return one_of(t, systems);
    case TEXT_FILE_SYSTEM:
        return one_of(t, file_systems);
    }
    return 0;
}

static const char *text_wanted(text_type type)
{
    static const char *const names[] = {
        [TEXT_NONE] = "nothing",
        [TEXT_STRING] = "text",
        [TEXT_NCNAME] = "a name (letters, digits, _ - .)",
        [TEXT_URI] = "a URI",
        [TEXT_BOOLEAN] = "true or false",
        [TEXT_DOUBLE] = "a number",
        [TEXT_INTEGER] = "a whole number",
        [TEXT_COUNT] = "a whole number from 0",
        [TEXT_CREATION] = "overwrite, append or dontOverwrite",
        [TEXT_ARCHITECTURE] = "an architecture of the schema (x86_64, arm, ...)",
        [TEXT_SYSTEM] = "an operating system of the schema (LINUX, ...)",
        [TEXT_FILE_SYSTEM] = "swap, temporary, spool or normal",
        [TEXT_ANYTHING] = "anything",
    };
    return names[type];
}

/* ---- attributes ---- */

/* The next word of a list; 0 at its end. */
static int next_word(const char **list, htc_bytes *word)
{
    const char *p = *list;
    while (*p == ' ')
        p++;
    size_t n = strcspn(p, " ");
    *word = (htc_bytes){ p, n };
    *list = p + n;
    return n > 0;
}

static text_type attribute_type(htc_bytes type)
{
    static const struct {
        const char *name;
        text_type   type;
    } types[] = { { "NCName", TEXT_NCNAME },
                  { "boolean", TEXT_BOOLEAN },
                  { "double", TEXT_DOUBLE },
                  { "integer", TEXT_INTEGER },
                  { "anyURI", TEXT_URI } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (htc_bytes_equal(type, htc_bytes_of(types[i].name)))
            return types[i].type;
    return TEXT_STRING;
}

/* "name:type?" for an attribute of that name; 0 if the list has none. */
static int find_attribute(const char *list, const char *name, text_type *type)
{
    htc_bytes word;
    size_t    n = strlen(name);
    while (next_word(&list, &word)) {
        const char *p = word.data;
        if (word.len > n && p[n] == ':' && memcmp(p, name, n) == 0) {
            size_t end = p[word.len - 1] == '?' ? word.len - 1 : word.len;
            *type = attribute_type((htc_bytes){ p + n + 1, end - n - 1 });
            return 1;
        }
    }
    return 0;
}

static int allows_other(const char *list)
{
    const char *other = strstr(list, "other");
    return other && (other == list || other[-1] == ' ') && other[5] == '\0';
}

static htc_status check_one_attribute(const xmlNode *node, const declaration *d, const xmlAttr *a, htc_error *error)
{
    const char *ns = a->ns ? (const char *)a->ns->href : NULL;
    const char *name = (const char *)a->name;
    text_type   type = TEXT_STRING;
    if (ns && strcmp(ns, "http://www.w3.org/2001/XMLSchema-instance") == 0)
        return HTC_OK;
    if (ns && strcmp(ns, d->ns) != 0 && allows_other(d->attributes))
        return HTC_OK;
    if (ns || !find_attribute(d->attributes, name, &type))
        return htc__xml_refuse(error, HTC_ESCHEMA, node,
                           "%s may not have the attribute %s", htc__xml_name(node), name);
    xmlChar *value = htc__xml_attribute(node, NULL, name);
    if (!value)
        return HTC_ENOMEM;
    htc_status status = HTC_OK;
    if (!text_fits(type, (const char *)value))
        status = htc__xml_refuse(error, HTC_ESCHEMA, node,
                             "attribute %s of %s is %s, which is not %s", name, htc__xml_name(node),
                             htc__quote(htc_bytes_of((const char *)value)).text, text_wanted(type));
    xmlFree(value);
    return status;
}

static htc_status check_attributes(const xmlNode *node, const declaration *d, htc_error *error)
{
    const char *list = d->attributes;
    htc_bytes   word;
    for (const xmlAttr *a = node->properties; a; a = a->next) {
        htc_status status = check_one_attribute(node, d, a, error);
        if (status != HTC_OK)
            return status;
    }
    while (next_word(&list, &word)) {
        const char *p = word.data, *colon = memchr(p, ':', word.len);
        char        name[32];
        if (!colon || p[word.len - 1] == '?')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(colon - p), p);
        xmlChar *value = htc__xml_attribute(node, NULL, name);
        if (!value)
            return htc__xml_refuse(error, HTC_ESCHEMA, node,
                               "%s needs the attribute %s", htc__xml_name(node), name);
        xmlFree(value);
    }
    return HTC_OK;
}

/* ---- contents ---- */

static int fits(const xmlNode *node, const declaration *parent, htc_bytes word)
{
    if (htc_bytes_equal(word, htc_bytes_of("any")))
        return node->ns && !htc__xml_in(node, parent->ns);
    if (htc_bytes_equal(word, htc_bytes_of("Parameter")))
        return htc__xml_is(node, HTC_SWEEP_NS, "DocumentNode") || htc__xml_is(node, HTC_FILE_SWEEP_NS, "FileSweep");
    if (htc_bytes_equal(word, htc_bytes_of("Function")))
        return htc__xml_is(node, HTC_SWEEP_FUNCTIONS_NS, "Values") ||
               htc__xml_is(node, HTC_SWEEP_FUNCTIONS_NS, "LoopInteger") ||
               htc__xml_is(node, HTC_SWEEP_FUNCTIONS_NS, "LoopDouble") || htc__xml_is(node, HTC_OWN_NS, "Pairs");
    return htc__xml_in(node, parent->ns) && htc_bytes_equal(word, htc_bytes_of(htc__xml_name(node)));
}

static htc_bytes without_mark(htc_bytes word, char *mark)
{
    char last = ((const char *)word.data)[word.len - 1];
    *mark = last == '?' || last == '*' || last == '+' ? last : '1';
    return (htc_bytes){ word.data, word.len - (*mark != '1') };
}

static htc_status missing(const xmlNode *parent, const xmlNode *found, htc_bytes word, htc_error *error)
{
    const char *name = word.data;
    if (!found)
        return htc__xml_refuse(error, HTC_ESCHEMA, parent, "%s has no %.*s",
                           htc__xml_name(parent), (int)word.len, name);
    return htc__xml_refuse(error, HTC_ESCHEMA, found,
                       "%s is not expected in %s here: %.*s has to come first", htc__xml_name(found),
                       htc__xml_name(parent), (int)word.len, name);
}

/* The children in the order of the model; *rest is the first that no word took. */
static htc_status check_order(const xmlNode *node, const declaration *d, const xmlNode **rest, htc_error *error)
{
    const char    *list = d->content;
    const xmlNode *child = htc__xml_first(node);
    htc_bytes      word;
    char           mark;
    while (next_word(&list, &word)) {
        htc_bytes name = without_mark(word, &mark);
        size_t    n = 0;
        while (child && fits(child, d, name)) {
            n++;
            child = htc__xml_next(child);
            if (mark == '1' || mark == '?')
                break;
        }
        if (n == 0 && (mark == '1' || mark == '+'))
            return missing(node, child, name, error);
    }
    *rest = child;
    return HTC_OK;
}

static int is_blank(const xmlNode *node)
{
    return htc__trim(htc_bytes_of((const char *)node->content)).len == 0;
}

static htc_status check_node(const xmlNode *node, const declaration *d, htc_error *error);

static htc_status check_inside(const xmlNode *node, const declaration *d, htc_error *error)
{
    htc_status status = HTC_OK;
    for (const xmlNode *c = htc__xml_first(node); c && status == HTC_OK; c = htc__xml_next(c)) {
        int foreign = !d || !htc__xml_in(c, d->ns);
        /* In a list of one's own, a name stands for the declaration that is meant there. */
        const declaration *known = declared(c, foreign);
        if (!known && foreign && d && d->text != TEXT_ANYTHING && known_namespace(c))
            return htc__xml_refuse(error, HTC_ESCHEMA, c,
                               "there is no element %s in the namespace %s", htc__xml_name(c), c->ns->href);
        status = check_node(c, known, error);
    }
    return status;
}

static htc_status check_elements(const xmlNode *node, const declaration *d, htc_error *error)
{
    const xmlNode *rest = NULL;
    for (const xmlNode *c = node->children; c; c = c->next)
        if ((c->type == XML_TEXT_NODE || c->type == XML_CDATA_SECTION_NODE) && !is_blank(c))
            return htc__xml_refuse(error, HTC_ESCHEMA, node, "%s may not hold text: %s",
                               htc__xml_name(node), htc__quote(htc__trim(htc_bytes_of((const char *)c->content))).text);
    htc_status status = check_order(node, d, &rest, error);
    if (status == HTC_OK && rest)
        return htc__xml_refuse(error, HTC_ESCHEMA, rest,
                           "%s is not expected in %s here%s", htc__xml_name(rest), htc__xml_name(node),
                           *d->content ? ": it is unknown, out of order or there too often" : "");
    return status == HTC_OK ? check_inside(node, d, error) : status;
}

static htc_status check_text(const xmlNode *node, const declaration *d, htc_error *error)
{
    const xmlNode *child = htc__xml_first(node);
    if (child)
        return htc__xml_refuse(error, HTC_ESCHEMA, child,
                           "%s is not expected in %s, which holds text", htc__xml_name(child), htc__xml_name(node));
    xmlChar *text = htc__xml_text(node);
    if (!text)
        return HTC_ENOMEM;
    text_type type = d->text;
    if (strcmp(d->name, "Exception") == 0)
        type = htc__xml_is(node->parent, HTC_SWEEP_FUNCTIONS_NS, "LoopInteger") ? TEXT_INTEGER : TEXT_DOUBLE;
    htc_status status = HTC_OK;
    if (!text_fits(type, (const char *)text))
        status = htc__xml_refuse(error, HTC_ESCHEMA, node, "%s is %s, which is not %s",
                             htc__xml_name(node), htc__quote(htc_bytes_of((const char *)text)).text, text_wanted(type));
    xmlFree(text);
    return status;
}

/* d NULL: an element that nobody declared here; only what it holds is looked at. libxml2 bounds the depth to 256. */
static htc_status check_node(const xmlNode *node, const declaration *d, htc_error *error)
{
    if (!d || d->text == TEXT_ANYTHING)
        return check_inside(node, NULL, error);
    htc_status status = check_attributes(node, d, error);
    if (status != HTC_OK)
        return status;
    return d->text == TEXT_NONE ? check_elements(node, d, error) : check_text(node, d, error);
}

htc_status htc__schema_check(const xmlDoc *doc, htc_error *error)
{
    const xmlNode *root = xmlDocGetRootElement((xmlDoc *)(uintptr_t)doc);
    if (!htc__xml_is(root, HTC_JSDL_NS, "JobDefinition"))
        return htc__xml_refuse(error, HTC_ESCHEMA, root,
                           "the document begins with %s of namespace %s, not with JobDefinition of " HTC_JSDL_NS,
                           htc__xml_name(root),
                           htc__quote(htc_bytes_of(root->ns ? (const char *)root->ns->href : "")).text);
    return check_node(root, declared(root, 1), error);
}
