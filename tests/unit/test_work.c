/* JSDL documents: what a task becomes, what is refused and how, the stored form and the task on the wire. */
#include "alloc_fail.h"
#include "jsdl_text.h"

#include <stdlib.h>

static const char *const whole =
    JSDL_HEAD "<j:JobDescription><j:JobIdentification><j:JobName> my job </j:JobName><j:Description>d</j:Description>"
              "</j:JobIdentification><j:Application><j:ApplicationName>n</j:ApplicationName><p:POSIXApplication>"
              "<p:Executable>\n  /bin/run\n</p:Executable><p:Argument>one\ttwo</p:Argument>"
              "<p:Argument h:literal=\"true\">a&#10;b</p:Argument><p:Argument/>"
              "<p:Input>in.txt</p:Input><p:Output>out/o.txt</p:Output><p:Error>e.txt</p:Error>"
              "<p:WorkingDirectory>sub</p:WorkingDirectory><p:Environment name=\"A\">1 2</p:Environment>"
              "<p:Environment name=\"B\"/><p:WallTimeLimit> 60 </p:WallTimeLimit><p:FileSizeLimit>1000</p:FileSizeLimit>"
              "<p:CoreDumpLimit>0</p:CoreDumpLimit><p:DataSegmentLimit>5</p:DataSegmentLimit><p:MemoryLimit>6</p:MemoryLimit>"
              "<p:OpenDescriptorsLimit>7</p:OpenDescriptorsLimit><p:StackSizeLimit>8</p:StackSizeLimit>"
              "<p:CPUTimeLimit>9</p:CPUTimeLimit><p:ProcessCountLimit>10</p:ProcessCountLimit>"
              "<p:VirtualMemoryLimit>11</p:VirtualMemoryLimit></p:POSIXApplication></j:Application>"
              "<j:Resources><j:CandidateHosts><j:HostName>n1</j:HostName><j:HostName>n2</j:HostName></j:CandidateHosts>"
              "<j:ExclusiveExecution>false</j:ExclusiveExecution><j:OperatingSystem><j:OperatingSystemType>"
              "<j:OperatingSystemName>LINUX</j:OperatingSystemName></j:OperatingSystemType></j:OperatingSystem>"
              "<j:CPUArchitecture><j:CPUArchitectureName>x86_64</j:CPUArchitectureName></j:CPUArchitecture>"
              "<j:IndividualPhysicalMemory><j:LowerBoundedRange>1.5e9</j:LowerBoundedRange></j:IndividualPhysicalMemory>"
              "<j:TotalCPUCount><j:Exact>2.0</j:Exact></j:TotalCPUCount></j:Resources>"
              "<j:DataStaging><j:FileName>lig/a.pdbqt</j:FileName><j:CreationFlag>append</j:CreationFlag>"
              "<j:DeleteOnTermination>true</j:DeleteOnTermination><j:Source><j:URI>file:///data/a</j:URI></j:Source>"
              "<h:Executable>1</h:Executable></j:DataStaging>"
              "<j:DataStaging><j:FileName>r.dlg</j:FileName><j:CreationFlag>overwrite</j:CreationFlag>"
              "<j:Target><j:URI>results/r.dlg</j:URI></j:Target></j:DataStaging></j:JobDescription></j:JobDefinition>";

static void expect_whole(const htc_task *t)
{
    const htc_limits *l = &t->limits;
    cr_expect(eq(str, (char *)t->executable, "/bin/run"));
    cr_assert(eq(sz, t->n_args, 3));
    cr_expect(eq(str, (char *)t->args[0], "one two"), "a tab of an Argument is a blank");
    cr_expect(eq(str, (char *)t->args[1], "a\nb"), "unless it says that it is literal");
    cr_expect(eq(str, (char *)t->args[2], ""));
    cr_expect(t->args[3] == NULL);
    cr_expect(eq(str, (char *)t->input, "in.txt"));
    cr_expect(eq(str, (char *)t->output, "out/o.txt"));
    cr_expect(eq(str, (char *)t->error, "e.txt"));
    cr_expect(eq(str, (char *)t->directory, "sub"));
    cr_assert(eq(sz, t->n_env, 2));
    cr_expect(eq(str, (char *)t->env[0], "A=1 2"));
    cr_expect(eq(str, (char *)t->env[1], "B="));
    cr_expect(t->env[2] == NULL);
    cr_expect(l->wall == 60 * HTC_SECOND && l->cpu == 9 * HTC_SECOND && l->memory == 6 && l->virtual_memory == 11);
    cr_expect(l->file_size == 1000 && l->core_size == 0 && l->core_is_set == 1 && l->open_files == 7);
    cr_expect(l->stack == 8 && l->data == 5 && l->processes == 10 && l->cores == 2);
    cr_expect(eq(str, (char *)t->host, "n1,n2"));
    cr_expect(eq(str, (char *)t->system, "LINUX"));
    cr_expect(eq(str, (char *)t->architecture, "x86_64"));
    cr_expect(eq(u64, t->memory_min, 1500000000));
    cr_assert(t->n_in == 1 && t->n_out == 1);
    cr_expect(eq(str, (char *)t->in[0].name, "lig/a.pdbqt"));
    cr_expect(eq(str, (char *)t->in[0].uri, "file:///data/a"));
    cr_expect(eq(u32, t->in[0].flags, HTC_STAGE_APPEND | HTC_STAGE_DELETE | HTC_STAGE_EXECUTABLE));
    cr_expect(eq(str, (char *)t->out[0].name, "r.dlg"));
    cr_expect(eq(str, (char *)t->out[0].uri, "results/r.dlg"));
    cr_expect(eq(u32, t->out[0].flags, HTC_STAGE_OVERWRITE));
    cr_expect(eq(str, (char *)t->values_json, "{}"));
}

/* Every element that is honoured arrives in the task; and so it does after the task's and the document's stored forms. */
Test(work, honours_every_element)
{
    htc_spec *parsed = jsdl_parse(whole), *spec = NULL;
    htc_task *t = NULL, *back = NULL;
    htc_bytes bytes;
    cr_expect(eq(str, (char *)htc_spec_name(parsed), "my job"));
    cr_expect(eq(str, (char *)htc_spec_warnings(parsed), ""));
    cr_expect(eq(u64, htc_spec_count(parsed), 1));
    cr_assert(eq(int, htc_spec_from_bytes(NULL, htc_spec_bytes(parsed), &spec), HTC_OK));
    htc_spec_destroy(parsed);
    cr_assert(eq(int, htc_spec_task(spec, 0, &t, NULL), HTC_OK));
    expect_whole(t);
    cr_assert(eq(int, htc_task_to_bytes(NULL, t, &bytes), HTC_OK));
    cr_assert(eq(int, htc_task_from_bytes(NULL, bytes, &back), HTC_OK));
    htc_task_destroy(t);
    htc_work_free(NULL, bytes);
    expect_whole(back);
    htc_task_destroy(back);
    htc_spec_destroy(spec);
}

#define STAGE(name, flag, rest)                                                                                        \
    "<j:DataStaging><j:FileName>" name "</j:FileName><j:CreationFlag>" flag "</j:CreationFlag>" rest "</j:DataStaging>"
#define WITH(inside, rest)                                                                                             \
    JSDL_HEAD "\n<j:JobDescription><j:Application><p:POSIXApplication>\n" inside                                       \
              "</p:POSIXApplication></j:Application>\n" rest "</j:JobDescription></j:JobDefinition>"
#define SWEPT(assignments) JSDL_HEAD "\n" JSDL_APP(RUN ARG("abc")) "\n" SWEEP(assignments) "</j:JobDefinition>"

typedef struct refusal {
    const char *what, *text;
    htc_status  status;
    uint32_t    line;
    const char *where;
    const char *says; /* part of the sentence: the offending value where there is one */
} refusal;

static const refusal refusals[] = {
    /* not XML */
    { "nothing", "", HTC_EXML, 1, "", "empty" },
    { "no XML", "hello", HTC_EXML, 1, "", "Start tag expected" },
    { "not closed", "<a>\n<b>\n</a>", HTC_EXML, 3, "", "mismatch" },
    { "cut off", JSDL_HEAD "\n<j:JobDescription>", HTC_EXML, 2, "", "" },
    { "unknown entity", JSDL_HEAD "\n&boom;</j:JobDefinition>", HTC_EXML, 2, "", "boom" },
    { "external entity", "<?xml version=\"1.0\"?>\n<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>",
      HTC_EXML, 2, "DOCTYPE", "DOCTYPE a" },
    { "external document type", "<!DOCTYPE job SYSTEM \"http://127.0.0.1:1/x.dtd\"><job/>", HTC_EXML, 1, "DOCTYPE", "job" },
    { "exploding entities",
      "<!DOCTYPE l [<!ENTITY a \"aaaaaaaaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c "
      "\"&b;&b;&b;&b;&b;&b;&b;&b;\">]><l>&c;&c;&c;&c;</l>",
      HTC_EXML, 1, "DOCTYPE", "refused" },
    { "parameter entity", "<!DOCTYPE l [<!ENTITY % p SYSTEM \"file:///dev/zero\">%p;]><l/>", HTC_EXML, 1, "DOCTYPE", "" },
    /* not this schema */
    { "wrong namespace", "\n<JobDefinition xmlns=\"urn:other\"/>", HTC_ESCHEMA, 2, "JobDefinition", "urn:other" },
    { "no namespace", "<JobDefinition/>", HTC_ESCHEMA, 1, "JobDefinition", "namespace" },
    { "no description", JSDL_HEAD "</j:JobDefinition>", HTC_ESCHEMA, 1, "JobDefinition", "has no JobDescription" },
    { "unknown element", WITH(RUN "\n<p:Speed>9</p:Speed>", ""), HTC_ESCHEMA, 4, "Speed", "not expected" },
    { "out of order", WITH(ARG("a") "\n" RUN, ""), HTC_ESCHEMA, 4, "Executable", "not expected" },
    { "twice", WITH(RUN "\n" RUN, ""), HTC_ESCHEMA, 4, "Executable", "not expected" },
    { "unknown attribute", WITH("<p:Executable speed=\"9\">x</p:Executable>", ""), HTC_ESCHEMA, 3, "Executable", "speed" },
    { "attribute missing", WITH(RUN "\n<p:Environment>x</p:Environment>", ""), HTC_ESCHEMA, 4, "Environment", "name" },
    { "text between elements", WITH(RUN "\nstray", ""), HTC_ESCHEMA, 2, "POSIXApplication", "stray" },
    { "element in a text", WITH("<p:Executable>a\n<j:x/></p:Executable>", ""), HTC_ESCHEMA, 4, "x", "holds text" },
    { "no number", WITH(RUN "\n<p:WallTimeLimit>soon</p:WallTimeLimit>", ""), HTC_ESCHEMA, 4, "WallTimeLimit", "\"soon\"" },
    { "negative limit", WITH(RUN "<p:MemoryLimit>-1</p:MemoryLimit>", ""), HTC_ESCHEMA, 3, "MemoryLimit", "\"-1\"" },
    { "unknown flag", WITH(RUN, STAGE("a", "replace", "")), HTC_ESCHEMA, 4, "CreationFlag", "\"replace\"" },
    { "unknown system", WITH(RUN, "<j:Resources><j:CPUArchitecture><j:CPUArchitectureName>z80</j:CPUArchitectureName>"
                                  "</j:CPUArchitecture></j:Resources>"),
      HTC_ESCHEMA, 4, "CPUArchitectureName", "\"z80\"" },
    { "bad URI", WITH(RUN, STAGE("a", "append", "<j:Source><j:URI>%zz</j:URI></j:Source>")), HTC_ESCHEMA, 4, "URI", "%zz" },
    { "unknown element of a known namespace in a foreign place",
      WITH(RUN, "<p:Speed/>"), HTC_ESCHEMA, 4, "Speed", "no element Speed" },
    { "sweep without function", SWEPT("<s:Assignment>" NODE("//p:Argument") "</s:Assignment>"), HTC_ESCHEMA, 3,
      "Assignment", "has no Function" },
    { "empty sweep", SWEPT(""), HTC_ESCHEMA, 3, "Sweep", "has no Assignment" },
    { "no values", SWEPT(ASSIGN("//p:Argument", VALUES(""))), HTC_ESCHEMA, 3, "Values", "has no Value" },
    { "exception that is no number",
      SWEPT(ASSIGN("//p:Argument", "<f:LoopInteger start=\"1\" end=\"2\"><f:Exception>x</f:Exception></f:LoopInteger>")),
      HTC_ESCHEMA, 3, "Exception", "\"x\"" },
    /* valid, but not done here */
    { "user name", WITH(RUN "\n<p:UserName>root</p:UserName>", ""), HTC_EUNSUPPORTED, 4, "UserName", "UserName" },
    { "group name", WITH(RUN "<p:GroupName>g</p:GroupName>", ""), HTC_EUNSUPPORTED, 3, "GroupName", "GroupName" },
    { "locked memory", WITH(RUN "<p:LockedMemoryLimit>1</p:LockedMemoryLimit>", ""), HTC_EUNSUPPORTED, 3,
      "LockedMemoryLimit", "" },
    { "file system", WITH(RUN, "<j:Resources>\n<j:FileSystem name=\"S\"/></j:Resources>"), HTC_EUNSUPPORTED, 5,
      "FileSystem", "" },
    { "file system of a name", WITH("<p:Executable filesystemName=\"S\">x</p:Executable>", ""), HTC_EUNSUPPORTED, 3,
      "Executable", "filesystemName" },
    { "exclusive", WITH(RUN, "<j:Resources><j:ExclusiveExecution>true</j:ExclusiveExecution></j:Resources>"),
      HTC_EUNSUPPORTED, 4, "ExclusiveExecution", "" },
    { "processor speed", WITH(RUN, "<j:Resources><j:IndividualCPUSpeed><j:Exact>1</j:Exact></j:IndividualCPUSpeed></j:Resources>"),
      HTC_EUNSUPPORTED, 4, "IndividualCPUSpeed", "" },
    { "half a core", WITH(RUN, "<j:Resources><j:TotalCPUCount><j:Exact>0.5</j:Exact></j:TotalCPUCount></j:Resources>"),
      HTC_EUNSUPPORTED, 4, "Exact", "\"0.5\"" },
    { "http", WITH(RUN, STAGE("a", "append", "\n<j:Source><j:URI>http://u:p@h/x</j:URI></j:Source>")), HTC_EUNSUPPORTED, 5,
      "Source/URI", "\"http://h/x\" has a user or password" },
    { "gopher", WITH(RUN, STAGE("a", "append", "\n<j:Source><j:URI>gopher://h/x</j:URI></j:Source>")), HTC_EUNSUPPORTED, 5,
      "Source/URI", "\"gopher://h/x\"" },
    { "file on another host", WITH(RUN, STAGE("a", "append", "<j:Source><j:URI>file://h/x</j:URI></j:Source>")),
      HTC_EUNSUPPORTED, 4, "Source/URI", "\"file://h/x\"" },
    { "upload by a short hash", WITH(RUN, STAGE("a", "append", "<j:Source><j:URI>htc:00ff</j:URI></j:Source>")),
      HTC_EUNSUPPORTED, 4, "Source/URI", "\"htc:00ff\"" },
    { "append to a URL", WITH(RUN, STAGE("a", "append", "<j:Target><j:URI>http://h/x</j:URI></j:Target>")), HTC_EUNSUPPORTED, 4,
      "Target/URI", "\"http://h/x\" is a URL, and nothing can be appended" },
    { "an FTP file that is to stay", WITH(RUN, STAGE("a", "dontOverwrite", "<j:Target><j:URI>ftp://h/x</j:URI></j:Target>")), HTC_EUNSUPPORTED, 4,
      "Target/URI", "\"ftp://h/x\"" },
    { "target with a password", WITH(RUN, STAGE("a", "overwrite", "<j:Target><j:URI>http://u:p@h/x</j:URI></j:Target>")), HTC_EUNSUPPORTED, 4,
      "Target/URI", "\"http://h/x\" has a user or password" },
    { "gopher target", WITH(RUN, STAGE("a", "overwrite", "<j:Target><j:URI>gopher://h/x</j:URI></j:Target>")), HTC_EUNSUPPORTED, 4,
      "Target/URI", "\"gopher://h/x\"" },
    { "HPC profile", JSDL_HEAD "<j:JobDescription><j:Application>\n<q:HPCProfileApplication xmlns:q=\"" HTC_HPCP_NS "\"/>"
                               "</j:Application></j:JobDescription></j:JobDefinition>",
      HTC_EUNSUPPORTED, 2, "HPCProfileApplication", "HPCProfileApplication" },
    { "SPMD", JSDL_HEAD "<j:JobDescription><j:Application>\n<q:SPMDApplication xmlns:q=\"" HTC_SPMD_NS "\"/>"
                        "</j:Application></j:JobDescription></j:JobDefinition>",
      HTC_EUNSUPPORTED, 2, "SPMDApplication", "SPMDApplication" },
    { "sweep inside files",
      SWEPT("<s:Assignment>\n<q:FileSweep xmlns:q=\"" HTC_FILE_SWEEP_NS "\"/>" VALUES(V("1")) "</s:Assignment>"),
      HTC_EUNSUPPORTED, 4, "FileSweep", "" },
    { "draft sweep", JSDL_HEAD JSDL_APP(RUN) "\n<q:Sweep xmlns:q=\"" HTC_SWEEP_DRAFT_NS "\"/></j:JobDefinition>",
      HTC_EUNSUPPORTED, 2, "Sweep", "" },
    { "sweep in the description", WITH(RUN, SWEEP(ASSIGN("//p:Argument", VALUES(V("1"))))), HTC_EUNSUPPORTED, 4, "Sweep", "" },
    { "value of elements", SWEPT(ASSIGN("//p:Argument", "<f:Values>\n<f:Value><j:a/></f:Value></f:Values>")),
      HTC_EUNSUPPORTED, 4, "Value", "(a)" },
    { "nothing to run", WITH("", ""), HTC_ENOEXEC, 2, "POSIXApplication", "no Executable" },
    { "no application", JSDL_HEAD "\n<j:JobDescription/></j:JobDefinition>", HTC_ENOEXEC, 2, "JobDescription", "" },
    { "empty executable", WITH("<p:Executable> </p:Executable>", ""), HTC_EUNSUPPORTED, 3, "Executable", "empty" },
    /* paths */
    { "staging above", WITH(RUN, STAGE("../a", "append", "")), HTC_EPATH, 4, "FileName", "\"../a\"" },
    { "staging above, inside", WITH(RUN, STAGE("a/../../b", "append", "")), HTC_EPATH, 4, "FileName", "a/../../b" },
    { "absolute staging", WITH(RUN, STAGE("/etc/passwd", "append", "")), HTC_EPATH, 4, "FileName", "/etc/passwd" },
    { "staging a directory", WITH(RUN, STAGE("a/", "append", "")), HTC_EPATH, 4, "FileName", "\"a/\"" },
    { "output above", WITH(RUN "\n<p:Output>../o</p:Output>", ""), HTC_EPATH, 4, "Output", "\"../o\"" },
    { "directory above", WITH(RUN "<p:WorkingDirectory>a/../..</p:WorkingDirectory>", ""), HTC_EPATH, 3,
      "WorkingDirectory", "a/../.." },
    { "result above", WITH(RUN, STAGE("a", "append", "<j:Target><j:URI>../../x</j:URI></j:Target>")), HTC_EPATH, 4,
      "Target/URI", "../../x" },
    { "a swept name above, in the middle of the list",
      JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN "</p:POSIXApplication></j:Application>\n" STAGE(
          "a", "append", "") "</j:JobDescription>" SWEEP(ASSIGN("//j:FileName",
                                                                VALUES(V("b") V("../c") V("d")))) "</j:JobDefinition>",
      HTC_EPATH, 2, "FileName", "\"../c\"" },
    /* sweeps */
    { "unequal", SWEPT(ASSIGN("//p:Argument", VALUES(V("1") V("2"))) "\n" ASSIGN("//p:Executable", LOOP("1", "3", "1"))),
      HTC_ESWEEP, 4, "Assignment", "2 values and this one 3" },
    { "selects nothing", SWEPT(ASSIGN("//p:Argument[2]", VALUES(V("1")))), HTC_ESWEEP, 3, "Match", "//p:Argument[2]" },
    { "step 0", SWEPT(ASSIGN("//p:Argument", LOOP("1", "9", "0"))), HTC_ESWEEP, 3, "LoopInteger", "0" },
    { "double step 0", SWEPT(ASSIGN("//p:Argument", "<f:LoopDouble start=\"1\" end=\"2\" step=\"0\"/>")), HTC_ESWEEP, 3,
      "LoopDouble", "0" },
    { "infinite", SWEPT(ASSIGN("//p:Argument", "<f:LoopDouble start=\"1\" end=\"INF\" step=\"1\"/>")), HTC_ESWEEP, 3,
      "LoopDouble", "INF" },
    { "empty loop", SWEPT(ASSIGN("//p:Argument", LOOP("9", "1", "1"))), HTC_ESWEEP, 3, "LoopInteger", "from 9 to 1" },
    { "nothing left", SWEPT(ASSIGN("//p:Argument", "<f:LoopInteger start=\"1\" end=\"1\"><f:Exception>1</f:Exception></f:LoopInteger>")),
      HTC_ESWEEP, 3, "LoopInteger", "exceptions" },
    { "beyond 64 bits", SWEPT(ASSIGN("//p:Argument", LOOP("1", "9223372036854775808", "1"))), HTC_ESWEEP, 3, "LoopInteger",
      "9223372036854775808" },
    { "one text twice", SWEPT(ASSIGN("//p:Argument", VALUES(V("1"))) ASSIGN("substring(//p:Argument,1,1)", VALUES(V("1")))),
      HTC_ESWEEP, 3, "Match", "another assignment" },
    { "overlapping parts, nested",
      SWEPT(ASSIGN("substring(//p:Argument,1,2)", VALUES(V("1"))) SWEEP(ASSIGN("substring(//p:Argument,2,1)", VALUES(V("1"))))),
      HTC_ESWEEP, 3, "Match", "another assignment" },
    { "an element of elements", SWEPT(ASSIGN("//p:POSIXApplication", VALUES(V("1")))), HTC_ESWEEP, 3, "Match",
      "POSIXApplication" },
    { "a swept limit that is no number",
      JSDL_DOC(RUN "\n<p:WallTimeLimit>1</p:WallTimeLimit>", SWEEP(ASSIGN("//p:WallTimeLimit", VALUES(V("5") V("x") V("7"))))),
      HTC_ESWEEP, 2, "WallTimeLimit", "\"x\"" },
    { "it is one of some task",
      JSDL_DOC(RUN "\n<p:WallTimeLimit>1</p:WallTimeLimit>", SWEEP(ASSIGN("//p:WallTimeLimit", VALUES(V("5") V("x") V("7"))))),
      HTC_ESWEEP, 2, "WallTimeLimit", " (task 1)" },
    { "one pair of one", SWEPT("<s:Assignment>" NODE("//p:Argument") NODE("//p:Executable") "<h:Pairs><h:Value>a</h:Value></h:Pairs></s:Assignment>"),
      HTC_ESWEEP, 3, "Pairs", "two values" },
    { "pairs for one place", SWEPT("<s:Assignment>" NODE("//p:Argument") "<h:Pairs><h:Value>a</h:Value><h:Value>b</h:Value></h:Pairs></s:Assignment>"),
      HTC_ESWEEP, 3, "Pairs", "parameter" },
    { "more than is allowed", SWEPT(ASSIGN("//p:Argument", LOOP("0", "1099511627776", "1"))), HTC_ETOOBIG, 3, "Sweep",
      "1099511627777" },
    { "more than 64 bits count", SWEPT(ASSIGN("//p:Argument", LOOP("1", "9000000000000000000", "1")) SWEEP(
                                           ASSIGN("//p:Executable", LOOP("1", "9", "1")))),
      HTC_ETOOBIG, 3, "Sweep", "2^64" },
    { "more steps than 64 bits", SWEPT(ASSIGN("//p:Argument", LOOP("-9223372036854775808", "9223372036854775807", "1"))),
      HTC_ETOOBIG, 3, "LoopInteger", "steps" },
};

/* The path of an element of that name, from the root. */
static int is_at(const char *path, const char *name)
{
    char end[64];
    snprintf(end, sizeof end, "/%s", name);
    const char *last = strstr(path, end);
    for (const char *next = last; (next = next ? strstr(next + 1, end) : NULL);)
        last = next;
    if (!last || !name[0])
        return strcmp(path, name) == 0;
    last += strlen(end);
    return strncmp(path, "/JobDefinition", 14) == 0 && (*last == '\0' || (*last == '[' && !strchr(last, '/')));
}

static const struct {
    const char *text, *where;
    uint32_t    line, column;
} places[] = {
    { WITH(RUN "<p:Argument>a</p:Argument>\n  <p:Argument filesystemName=\"x\">b</p:Argument>", ""),
      "/JobDefinition/JobDescription/Application/POSIXApplication/Argument[2]", 4, 3 },
    { JSDL_HEAD "<!-- <j:JobDescription> -->\n<?pi <a> ?><j:JobDescription><j:Application>\n \t<x:Other xmlns:x=\"urn:x\" a='>'\n b=\"1\"/></j:Application>"
      "</j:JobDescription></j:JobDefinition>", "/JobDefinition/JobDescription/Application/Other", 3, 3 },
    { JSDL_HEAD "\n<j:JobDescription>\n<j:Application/></j:JobDescription></j:JobDefinition>", "/JobDefinition/JobDescription/Application", 3, 1 },
    { WITH(RUN, "<j:DataStaging><j:FileName>\xc3\xa4</j:FileName><j:CreationFlag>no</j:CreationFlag></j:DataStaging>"),
      "/JobDefinition/JobDescription/DataStaging/CreationFlag", 4, 42 },
};

Test(work, says_line_column_and_path)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        htc_spec *spec = NULL;
        htc_error e = { .status = HTC_OK };
        cr_expect(ne(int, htc_spec_parse(NULL, htc_bytes_of(places[i].text), NULL, &spec, &e), HTC_OK));
        cr_expect(eq(str, e.where, (char *)places[i].where), "%zu", i);
        cr_expect(e.line == places[i].line && e.column == places[i].column, "%zu: %u:%u %s", i, e.line, e.column, e.text);
    }
}

Test(work, tells_no_secret)
{
    static const char *const uris[] = { "htp://user:secret@host/x", "http://secret@host:99999999/ x", "ftp://a:b@secret@host/#<" };
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        char      text[2048];
        htc_spec *spec = NULL;
        htc_error e = { .status = HTC_OK };
        snprintf(text, sizeof text, WITH(RUN, "<j:DataStaging><j:FileName>a</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>%s</j:URI>"
                                              "</j:Source></j:DataStaging>"), i == 2 ? "ftp://a:b@secret@host/#&lt;" : uris[i]);
        htc_status status = htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e);
        cr_expect(status != HTC_OK && !strstr(e.text, "secret"), "%s: %s", uris[i], e.text);
        htc_spec_destroy(spec);
    }
}

/* HTCaaS 6: A document is wrong. */
Test(work, refuses_with_code_line_element_and_value)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        htc_spec      *spec = NULL;
        htc_error      e = { .status = HTC_OK };
        htc_status     status = htc_spec_parse(NULL, htc_bytes_of(r->text), NULL, &spec, &e);
        cr_expect(status == r->status && e.status == r->status, "%s: %s, %s", r->what, htc_status_name(status), e.text);
        cr_expect(spec == NULL, "%s: outputs are untouched", r->what);
        cr_expect(e.line == r->line, "%s: line %u, %s", r->what, e.line, e.text);
        cr_expect(is_at(e.where, r->where), "%s: [%s] %s", r->what, e.where, e.text);
        cr_expect(strstr(e.text, r->says) != NULL, "%s: %s", r->what, e.text);
        cr_expect(strstr(r->text, "Sweep") || !strstr(e.text, "(task "), "%s: what is the same for all is of no task: %s", r->what, e.text);
        cr_expect(e.text[0] && !strpbrk(e.text, "\n\r"), "%s: one line", r->what);
        cr_expect(eq(int, htc_exit_code(status), 2), "%s", r->what);
        htc_spec_destroy(spec);
        /* The same without anybody asking why. */
        cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(r->text), NULL, &spec, NULL), r->status), "%s", r->what);
    }
}

static const struct {
    const char *match;
    uint32_t    column;
} bad_paths[] = {
    { "", 1 },
    { "//", 3 },
    { "//q:Argument", 3 },
    { "//p:Argument[0]", 14 },
    { "//p:Argument[last()]", 14 },
    { "//p:Argument[1", 15 },
    { "//p:Argument | //p:Executable", 14 },
    { "count(//p:Argument)", 1 },
    { "//p:Argument/child::text()", 14 },
    { "substring(//p:Argument)", 23 },
    { "substring(//p:Argument, 0)", 26 },
    { "substring(//p:Argument, 1, x)", 28 },
    { "substring(//p:Argument, 1, 2", 29 },
    { "//p:Argument/..", 14 },
    { "//p:Environment/@name/x", 23 },
    { "//p:Argument[@a=b]", 17 },
    { "//p:ä:b", 3 },
    { "//p:ä b", 7 },
};

Test(work, refuses_bad_paths_with_their_column)
{
    for (size_t i = 0; i < sizeof bad_paths / sizeof bad_paths[0]; i++) {
        char       text[2048];
        htc_spec  *spec = NULL;
        htc_error  e = { .status = HTC_OK };
        snprintf(text, sizeof text, JSDL_HEAD "\n" JSDL_APP(RUN ARG("a")) "\n" SWEEP(ASSIGN("%s", VALUES(V("1")))) "</j:JobDefinition>",
                 bad_paths[i].match);
        htc_status status = htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e);
        cr_expect(status == HTC_EXPATH && e.column == bad_paths[i].column && e.line == 3, "%s: %s, column %u, line %u: %s",
                  bad_paths[i].match, htc_status_name(status), e.column, e.line, e.text);
    }
}

/* What strangers put beside is kept out of the way and said; it never makes the record long. */
Test(work, warns_about_foreign_elements)
{
    htc_spec *spec = jsdl_parse(JSDL_HEAD "<j:JobDescription>"
                                          "<j:Application>\n<x:Profile a=\"1\"><x:deep/></x:Profile><p:POSIXApplication x:a=\"1\">" RUN
                                          "</p:POSIXApplication></j:Application>\n<x:Note>hello</x:Note></j:JobDescription><x:End/></j:JobDefinition>");
    cr_expect(eq(str, (char *)htc_spec_warnings(spec), "line 2: \"Profile\" of another namespace is ignored\n"
                                                       "line 3: \"Note\" of another namespace is ignored\n"
                                                       "line 3: \"End\" of another namespace is ignored\n"));
    htc_spec_destroy(spec);
    static char text[100000];
    char *p = text + sprintf(text, "%s%s", JSDL_HEAD, JSDL_APP(RUN));
    for (int i = 0; i < 5000; i++)
        p += sprintf(p, "<x:Note/>");
    strcpy(p, "</j:JobDefinition>");
    spec = jsdl_parse(text);
    cr_expect(lt(sz, htc_spec_bytes(spec).len, 1024));
    cr_expect(strstr(htc_spec_warnings(spec), "and 4992 more") != NULL, "%s", htc_spec_warnings(spec));
    htc_spec_destroy(spec);
}

Test(work, keeps_the_bounds_of_its_options)
{
    htc_spec_options o = { .size = sizeof o, .tasks_max = 10 };
    const char      *text = SWEPT(ASSIGN("//p:Argument", LOOP("1", "11", "1")));
    htc_spec        *spec = NULL;
    htc_error        e;
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), &o, &spec, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "11") && strstr(e.text, "10"), "%s", e.text);
    o.tasks_max = 11;
    cr_assert(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), &o, &spec, &e), HTC_OK));
    htc_spec_destroy(spec);
    o.bytes_max = strlen(text) - 1;
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), &o, &spec, &e), HTC_ETOOBIG));
    o.size = 4;
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), &o, &spec, &e), HTC_EINVAL));
}

/* Deep nesting, long texts and many matches end in a refusal, not in a full stack or a long wait. */
Test(work, bounds_depth_and_work)
{
    static char text[4 << 20];
    htc_spec   *spec = NULL;
    htc_error   e;
    char       *p = text + sprintf(text, "%s%s", JSDL_HEAD, JSDL_APP(RUN));
    for (int i = 0; i < 100000; i++)
        p += sprintf(p, "<x:a>");
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e), HTC_EXML));
    p = text + sprintf(text, "%s<j:JobDescription><j:Application><j:ApplicationName>n</j:ApplicationName><p:POSIXApplication>" RUN
                             "</p:POSIXApplication></j:Application></j:JobDescription>", JSDL_HEAD);
    for (int i = 0; i < 40; i++)
        p += sprintf(p, "<s:Sweep>" ASSIGN("//j:ApplicationName", VALUES(V("1"))));
    for (int i = 0; i < 40; i++)
        p += sprintf(p, "</s:Sweep>");
    sprintf(p, "</j:JobDefinition>");
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e), HTC_ETOOBIG), "%s", e.text);
    if (getenv("HTC_TEST_LIGHT")) /* the bound on work is 200,000,000 elements: the same few lines all the time */
        return;
    p = text + sprintf(text, "%s<j:JobDescription><j:Application><p:POSIXApplication>" RUN, JSDL_HEAD);
    for (int i = 0; i < 60000; i++)
        p += sprintf(p, "<p:Argument/>");
    p += sprintf(p, "</p:POSIXApplication></j:Application></j:JobDescription><s:Sweep>");
    for (int i = 0; i < 4000; i++)
        p += sprintf(p, ASSIGN("//*//*//*//p:Argument[%d]", VALUES(V("1"))), i + 1);
    sprintf(p, "</s:Sweep></j:JobDefinition>");
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e), HTC_ETOOBIG), "%s", e.text);
}

/* ---- bytes from strangers ---- */

/* Any single byte of the stored form changed, and any beginning of it: refused, or a specification that still only
 * answers. The sanitizers watch. */
Test(work, survives_damaged_stored_forms)
{
    static const char *const texts[] = {
        SWEPT(ASSIGN("substring(//p:Argument,1,1)", VALUES(V("1") V("../2"))) SWEEP(
            ASSIGN("substring(//p:Argument,2,1)", "<f:LoopInteger start=\"1\" end=\"9\"><f:Exception>2</f:Exception></f:LoopInteger>"))),
        WITH(RUN ARG("a") "<p:Environment name=\"E\">v</p:Environment>", STAGE("a", "append", "<j:Source><j:URI>file:///b</j:URI></j:Source>")),
        SWEPT("<s:Assignment>" NODE("//p:Argument") NODE("//p:Executable") "<h:Pairs><h:Value>a</h:Value><h:Value>b</h:Value></h:Pairs></s:Assignment>"),
    };
    for (size_t n = 0; n < 3; n++) {
        htc_spec *spec = jsdl_parse(texts[n]), *other = NULL;
        htc_bytes bytes = htc_spec_bytes(spec);
        uint8_t  *copy = malloc(bytes.len);
        for (size_t i = 0; i < bytes.len; i++) {
            cr_expect(eq(int, htc_spec_from_bytes(NULL, (htc_bytes){ bytes.data, i }, &other), HTC_ECORRUPT));
            for (int v = 0; v < 256; v++) {
                memcpy(copy, bytes.data, bytes.len);
                copy[i] = (uint8_t)v;
                if (htc_spec_from_bytes(NULL, (htc_bytes){ copy, bytes.len }, &other) != HTC_OK)
                    continue;
                for (uint64_t k = 0; k < 3 && k < htc_spec_count(other); k++) {
                    htc_task *t = NULL;
                    if (htc_spec_task(other, htc_spec_count(other) - 1 - k, &t, NULL) == HTC_OK)
                        htc_task_destroy(t);
                }
                htc_spec_destroy(other);
            }
        }
        free(copy);
        htc_spec_destroy(spec);
    }
}

Test(work, survives_damaged_tasks)
{
    htc_spec *spec = jsdl_parse(whole);
    htc_task *t = NULL, *other = NULL;
    htc_bytes bytes;
    cr_assert(eq(int, htc_spec_task(spec, 0, &t, NULL), HTC_OK));
    cr_assert(eq(int, htc_task_to_bytes(NULL, t, &bytes), HTC_OK));
    uint8_t *copy = malloc(bytes.len + 1);
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t *beginning = malloc(i + 1);
        memcpy(beginning, bytes.data, i);
        cr_expect(eq(int, htc_task_from_bytes(NULL, (htc_bytes){ beginning, i }, &other), HTC_EPROTO));
        free(beginning);
        for (int v = 0; v < 256; v++) {
            memcpy(copy, bytes.data, bytes.len);
            copy[i] = (uint8_t)v;
            if (htc_task_from_bytes(NULL, (htc_bytes){ copy, bytes.len }, &other) != HTC_OK)
                continue;
            cr_assert(other->executable[0] && other->args[other->n_args] == NULL && other->limits.cores > 0);
            htc_task_destroy(other);
        }
    }
    memcpy(copy, bytes.data, bytes.len);
    cr_expect(eq(int, htc_task_from_bytes(NULL, (htc_bytes){ copy, bytes.len + 1 }, &other), HTC_EPROTO));
    free(copy);
    htc_work_free(NULL, bytes);
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

/* An agent believes no name that leaves its directory, whoever signed the task. */
Test(work, tasks_from_strangers_stay_in_their_directory)
{
    static const struct {
        htc_stage   in, out;
        const char *output;
        htc_status  status;
    } table[] = {
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_OK },
        { { "../a", "file:///x", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "/a", "file:///x", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "http://x/y", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_OK },
        { { "a", "http://u:p@x/y", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "gopher://x/y", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", 0 }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP | HTC_STAGE_APPEND }, { "b", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "../c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b/../..", "c", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "c", HTC_STAGE_APPEND }, "../o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "https://x/y", HTC_STAGE_OVERWRITE }, "o", HTC_OK },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "ftp://x/y", HTC_STAGE_OVERWRITE }, "o", HTC_OK },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "http://x/y", HTC_STAGE_APPEND }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "ftp://x/y", HTC_STAGE_KEEP }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "http://u:p@x/y", HTC_STAGE_OVERWRITE }, "o", HTC_EPROTO },
        { { "a", "file:///x", HTC_STAGE_KEEP }, { "b", "gopher://x/y", HTC_STAGE_OVERWRITE }, "o", HTC_EPROTO },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        htc_task  t = { .executable = "x", .in = &table[i].in, .n_in = 1, .out = &table[i].out, .n_out = 1,
                        .output = table[i].output, .limits = { .cores = 1 } };
        htc_task *back = NULL;
        htc_bytes bytes;
        cr_assert(eq(int, htc_task_to_bytes(NULL, &t, &bytes), HTC_OK));
        cr_expect(eq(int, htc_task_from_bytes(NULL, bytes, &back), table[i].status), "row %zu", i);
        htc_task_destroy(back);
        htc_work_free(NULL, bytes);
    }
}

/* Each task has an output of its own behind a URL. */
Test(work, outputs_go_to_urls_of_their_tasks)
{
    htc_spec *spec = jsdl_parse(JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN "</p:POSIXApplication></j:Application>" STAGE("a", "dontOverwrite", "<j:Target><j:URI>https://h/r/N.dat</j:URI></j:Target>")
                                    "</j:JobDescription>" SWEEP(ASSIGN("substring(//j:Target/j:URI,13,1)", LOOP("8", "12", "1"))) "</j:JobDefinition>");
    htc_task *t = NULL;
    cr_assert(eq(u64, htc_spec_count(spec), 5));
    cr_assert(eq(int, htc_spec_task(spec, 4, &t, NULL), HTC_OK));
    cr_expect(t->n_out == 1 && eq(str, (char *)t->out[0].uri, "https://h/r/12.dat") && eq(u32, t->out[0].flags, HTC_STAGE_KEEP));
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

/* What is not a process: each kind with what it has to name, and comes back as it went. Only a whole one is written. */
Test(work, functions_on_the_wire)
{
#define UPLOAD "htc:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
    static const struct {
        uint32_t    kind;
        const char *executable, *function, *argument, *object;
        htc_status  status;
    } table[] = {
        { HTC_TASK_COMMAND, "x", NULL, NULL, NULL, HTC_OK },
        { HTC_TASK_COMMAND, "x", "noop", NULL, NULL, HTC_EINVAL },
        { HTC_TASK_COMMAND, "x", NULL, "1", NULL, HTC_EINVAL },
        { HTC_TASK_COMMAND, NULL, NULL, NULL, NULL, HTC_EINVAL },
        { HTC_TASK_BUILTIN, NULL, "noop", NULL, NULL, HTC_OK },
        { HTC_TASK_BUILTIN, "", "sleep", "0.5", NULL, HTC_OK },
        { HTC_TASK_BUILTIN, "", "sleep", "0.5", "/x.so", HTC_EINVAL },
        { HTC_TASK_BUILTIN, "", "", NULL, NULL, HTC_EINVAL },
        { HTC_TASK_BUILTIN, "", NULL, NULL, NULL, HTC_EINVAL },
        { HTC_TASK_FUNCTION, "", "f", "", "/a/x.so", HTC_OK },
        { HTC_TASK_FUNCTION, "", "_f9", NULL, UPLOAD, HTC_OK },
        { HTC_TASK_FUNCTION, "", "9f", NULL, UPLOAD, HTC_EINVAL },
        { HTC_TASK_FUNCTION, "", "f-g", NULL, UPLOAD, HTC_EINVAL },
        { HTC_TASK_FUNCTION, "", "f", NULL, "x.so", HTC_EINVAL },
        { HTC_TASK_FUNCTION, "", "f", NULL, UPLOAD "0", HTC_EINVAL },
        { HTC_TASK_FUNCTION, "", "f", NULL, NULL, HTC_EINVAL },
        { 3, "x", "f", NULL, "/a/x.so", HTC_EINVAL },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        htc_task  t = { .executable = table[i].executable, .kind = table[i].kind, .function = table[i].function, .argument = table[i].argument,
                        .object = table[i].object, .limits = { .cores = 1 } };
        htc_task *back = NULL;
        htc_bytes bytes = { 0 };
        cr_assert(eq(int, htc_task_to_bytes(NULL, &t, &bytes), table[i].status), "row %zu", i);
        if (table[i].status != HTC_OK)
            continue;
        cr_assert(eq(int, htc_task_from_bytes(NULL, bytes, &back), HTC_OK), "row %zu", i);
        cr_expect(eq(u32, back->kind, t.kind));
        cr_expect((!t.function && !back->function) || strcmp(t.function, back->function) == 0);
        cr_expect((!t.object && !back->object) || strcmp(t.object, back->object) == 0);
        cr_expect(t.kind == HTC_TASK_COMMAND ? !back->argument : strcmp(t.argument ? t.argument : "", back->argument) == 0);
        htc_task_destroy(back);
        /* Nothing that is cut off anywhere is one. */
        for (size_t n = 0; n < bytes.len; n++)
            cr_expect(eq(int, htc_task_from_bytes(NULL, (htc_bytes){ bytes.data, n }, &back), HTC_EPROTO));
        htc_work_free(NULL, bytes);
    }
#undef UPLOAD
}

/* ---- memory ---- */

static htc_status all_of_it(const htc_env *env, const char *text)
{
    htc_spec  *spec = NULL, *copy = NULL;
    htc_task  *t = NULL, *back = NULL;
    htc_bytes  bytes = { NULL, 0 };
    htc_status status = htc_spec_parse(env, htc_bytes_of(text), NULL, &spec, NULL);
    if (status == HTC_OK)
        status = htc_spec_from_bytes(env, htc_spec_bytes(spec), &copy);
    if (status == HTC_OK)
        status = htc_spec_task(copy, htc_spec_count(copy) - 1, &t, NULL);
    if (status == HTC_OK)
        status = htc_task_to_bytes(env, t, &bytes);
    if (status == HTC_OK)
        status = htc_task_from_bytes(env, bytes, &back);
    htc_work_free(env, bytes);
    htc_task_destroy(t);
    htc_task_destroy(back);
    htc_spec_destroy(spec);
    htc_spec_destroy(copy);
    return status;
}

Test(work, gives_back_everything_when_memory_is_refused)
{
    const char *const texts[] = { whole, SWEPT(ASSIGN("//p:Argument", LOOP("1", "9", "1")) SWEEP(ASSIGN(
                                             "substring(//p:Executable,2,1)", VALUES(V("1") V("2"))))) };
    for (int i = 0; i < 2; i++)
        ALLOC_FAIL_EVERY (f, 5000) {
            htc_env    env = alloc_fail_env(&f);
            htc_status status = all_of_it(&env, texts[i]);
            cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", f.fail_at);
            cr_expect(eq(sz, f.live, 0), "allocation %zu", f.fail_at);
            cr_expect(eq(sz, f.wrong_sizes, 0));
        }
}

/* What no system hands to a program is refused when it is submitted, with the limit's name and value. */
Test(work, names_the_limits_of_a_program)
{
    size_t    cap = 4 << 20;
    char     *text = malloc(cap);
    htc_spec *spec = NULL;
    htc_error e = { .status = HTC_OK };
    size_t    at = (size_t)snprintf(text, cap, "%s<j:JobDescription><j:Application><p:POSIXApplication>" RUN, JSDL_HEAD);
    for (int i = 0; i < 20000; i++)
        at += (size_t)snprintf(text + at, cap - at, "<p:Environment name=\"V%d\">%0100d</p:Environment>", i, i);
    snprintf(text + at, cap - at, "</p:POSIXApplication></j:Application></j:JobDescription></j:JobDefinition>");
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "2031616 (ARG_MAX)") != NULL, "%s", e.text);
    at = (size_t)snprintf(text, cap, "%s<j:JobDescription><j:Application><p:POSIXApplication>" RUN "<p:Argument>", JSDL_HEAD);
    memset(text + at, 'a', 131072);
    snprintf(text + at + 131072, cap - at - 131072, "</p:Argument></p:POSIXApplication></j:Application></j:JobDescription></j:JobDefinition>");
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "131071 (MAX_ARG_STRLEN)") != NULL, "%s", e.text);
    free(text);
}

#define COUNTED(more) JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN ARG("0") "</p:POSIXApplication></j:Application><j:Resources>" more \
    "</j:Resources></j:JobDescription>"

Test(work, counts_what_sites_count)
{
    htc_task *t = NULL, *back = NULL;
    htc_bytes bytes;
    htc_spec *spec = jsdl_parse(COUNTED("<h:Resource name='gpu'>0</h:Resource><h:Resource name='matlab'>3</h:Resource>")
                                    SWEEP("<s:Assignment><s:DocumentNode><s:NamespaceBinding ns='" HTC_JSDL_NS "' prefix='j'/><s:NamespaceBinding ns='" HTC_OWN_NS
                                          "' prefix='h'/><s:Match>//j:Resources/h:Resource[1]</s:Match></s:DocumentNode>" LOOP("0", "2", "1") "</s:Assignment>") "</j:JobDefinition>");
    cr_assert(eq(u64, htc_spec_count(spec), 3));
    cr_assert(eq(int, htc_spec_task(spec, 0, &t, NULL), HTC_OK));
    cr_expect(eq(u32, t->n_resources, 1), "none of it is no wish");
    htc_task_destroy(t);
    cr_assert(eq(int, htc_spec_task(spec, 2, &t, NULL), HTC_OK));
    cr_assert(eq(u32, t->n_resources, 2));
    cr_expect(eq(str, (char *)t->resources[0].name, "gpu"));
    cr_expect(eq(u32, t->resources[0].count, 2));
    cr_expect(eq(str, (char *)t->resources[1].name, "matlab"));
    cr_expect(eq(u32, t->resources[1].count, 3));
    htc_task copy = *t;
    copy.devices = "0,3";
    copy.nodes = "east west";
    copy.member = 1;
    copy.container = "/images/el9";
    cr_assert(eq(int, htc_task_to_bytes(NULL, &copy, &bytes), HTC_OK));
    cr_assert(eq(int, htc_task_from_bytes(NULL, bytes, &back), HTC_OK));
    cr_expect(eq(str, (char *)back->devices, "0,3"));
    cr_expect(eq(str, (char *)back->nodes, "east west"));
    cr_expect(eq(str, (char *)back->container, "/images/el9"));
    cr_expect(eq(u32, back->member, 1));
    cr_expect(eq(str, (char *)back->resources[1].name, "matlab"));
    htc_task_destroy(back);
    for (size_t n = 0; n < bytes.len; n++)
        if (htc_task_from_bytes(NULL, (htc_bytes){ bytes.data, n }, &back) == HTC_OK) { /* without the section it is a task that asks for nothing */
            cr_expect(back->n_resources == 0 && !back->nodes && !back->devices && !back->container);
            htc_task_destroy(back);
        }
    htc_work_free(NULL, bytes);
    static const struct { const char *devices, *nodes; uint32_t member; } bad[] = {
        { "0,", NULL, 0 }, { ",1", NULL, 0 }, { "0,,1", NULL, 0 }, { "x", NULL, 0 }, { NULL, "a  b", 0 }, { NULL, "a ", 0 }, { NULL, " a", 0 }, { NULL, "a b", 2 }, { NULL, NULL, 1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        copy.devices = bad[i].devices;
        copy.nodes = bad[i].nodes;
        copy.member = bad[i].member;
        cr_assert(eq(int, htc_task_to_bytes(NULL, &copy, &bytes), HTC_OK));
        cr_expect(eq(int, htc_task_from_bytes(NULL, bytes, &back), HTC_EPROTO), "row %zu", i);
        htc_work_free(NULL, bytes);
    }
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

Test(work, refuses_counts_that_are_none)
{
    static const struct { const char *inside; htc_status status; } bad[] = {
        { "<h:Resource name='Gpu'>1</h:Resource>", HTC_ESWEEP },
        { "<h:Resource name='gpu'>-1</h:Resource>", HTC_ESCHEMA },
        { "<h:Resource name='gpu'>99999999999</h:Resource>", HTC_EUNSUPPORTED },
        { "<h:Resource>1</h:Resource>", HTC_ESCHEMA },
        { "<h:Resource name='gpu'>1</h:Resource><h:Resource name='gpu'>1</h:Resource>", HTC_EUNSUPPORTED },
        { "<h:Resource name='a'>1</h:Resource><h:Resource name='b'>1</h:Resource><h:Resource name='c'>1</h:Resource><h:Resource name='d'>1</h:Resource>"
          "<h:Resource name='e'>1</h:Resource><h:Resource name='f'>1</h:Resource><h:Resource name='g'>1</h:Resource><h:Resource name='h'>1</h:Resource>"
          "<h:Resource name='i'>1</h:Resource>", HTC_ETOOBIG },
        { "<h:Strange/>", HTC_ESCHEMA },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char      text[4000];
        htc_spec *spec = NULL;
        htc_error error = { .status = HTC_OK };
        snprintf(text, sizeof text, COUNTED("%s") "</j:JobDefinition>", bad[i].inside);
        cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(text), NULL, &spec, &error), bad[i].status), "row %zu: %s", i, error.text);
    }
}
