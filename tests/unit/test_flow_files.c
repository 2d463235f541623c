/* Flows as JSON, DAX and WfFormat: the same diamond in each, published files, scales and programs, every refusal with its place, and no memory. */
#include "flow_read.h"

#include "alloc_fail.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static htc_flow *of_file(const char *name, const htc_flow_reading *options)
{
    size_t    len = 0;
    char     *content = flow_content(test_data(name), &len);
    htc_flow *f = NULL;
    htc_error e = { .text = "" };
    cr_assert(content != NULL, "%s is not there", name);
    cr_assert(htc_flow_read(NULL, (htc_bytes){ content, len }, HTC_FLOW_AUTO, options, &f, &e) == HTC_OK, "%s: %s, %s",
              name, e.where, e.text);
    free(content);
    return f;
}

/* ---- one flow in each form ---- */

static void check_diamond(const htc_flow *f, const char *name)
{
    const htc_flow_edge *list = NULL;
    cr_assert(htc_flow_count(f) == 4 && htc_flow_edges(f) == 4, "%s", name);
    cr_expect(htc_flow_parents(f, 0, NULL) == 0 && htc_flow_children(f, 3, NULL) == 0, "%s", name);
    cr_assert(htc_flow_children(f, 0, &list) == 2, "%s", name);
    cr_expect(list[0].task == 1 && list[1].task == 2 && list[0].rule == HTC_FLOW_OK, "%s", name);
    cr_assert(htc_flow_parents(f, 3, &list) == 2, "%s", name);
    cr_expect(list[0].task == 1 && list[1].task == 2, "%s", name);
}

static const char *const recorded[] = { "flows/diamond-2.1.dax.xml", "flows/diamond-3.6.dax.xml",
                                        "flows/diamond-1.5.wfformat.json", "flows/diamond-1.4.wfformat.json" };

Test(flow_files, a_recorded_diamond_sleeps_as_long_as_it_ran)
{
    static const htc_ns run[] = { 2500 * HTC_MS, 10 * HTC_SECOND, 12250 * HTC_MS, 0 };
    for (size_t i = 0; i < COUNT(recorded); i++) {
        htc_flow *f = of_file(recorded[i], NULL);
        check_diamond(f, recorded[i]);
        for (uint32_t t = 0; t < 4; t++) {
            const htc_flow_task *task = htc_flow_get(f, t);
            cr_expect(task->builtin == HTC_FLOW_SLEEP && task->amount == run[t] && task->run == run[t] &&
                          !task->executable,
                      "%s: %u", recorded[i], t);
            cr_expect(task->cores == (t == 1 && i > 0 ? 4 : 1), "%s: %u", recorded[i], t);
        }
        cr_expect(eq(str, htc_flow_get(f, 0)->kind, "split"), "%s", recorded[i]);
        cr_expect(strcmp(htc_flow_get(f, 1)->kind, "work") == 0 && strcmp(htc_flow_get(f, 2)->kind, "work") == 0, "%s",
                  recorded[i]);
        htc_flow_destroy(f);
    }
}

Test(flow_files, files_and_scales_of_recorded_flows)
{
    htc_flow_reading o = { .size = sizeof o, .time_scale = 0.01, .size_scale = 2.5 };
    for (size_t i = 0; i < COUNT(recorded); i++) {
        htc_flow            *f = of_file(recorded[i], &o);
        const htc_flow_task *split = htc_flow_get(f, 0);
        cr_expect(split->amount == 25 * HTC_MS && split->run == 25 * HTC_MS, "%s", recorded[i]);
        cr_assert(split->n_in == 1 && split->n_out == (i == 1 ? 1 : 2), "%s", recorded[i]);
        cr_expect(eq(str, split->in[0].name, "all.dat"), "%s", recorded[i]);
        if (i != 1) /* 3.x has no sizes here */
            cr_expect(split->in[0].bytes == 2500 && split->out[0].bytes == 1500, "%s", recorded[i]);
        if (i == 0)
            cr_expect(htc_flow_get(f, 3)->n_in == 3 && htc_flow_get(f, 3)->n_out == 1, "inout is both");
        htc_flow_destroy(f);
    }
}

Test(flow_files, with_programs_a_recorded_flow_runs_them)
{
    static const htc_flow_program programs[] = { { "split", "/opt/split" }, { "work", "worker" }, { "join", "true" } };
    htc_flow_reading              o = { .size = sizeof o, .programs = programs, .n_programs = COUNT(programs) };
    for (size_t i = 0; i < COUNT(recorded); i++) {
        htc_flow            *f = of_file(recorded[i], &o);
        const htc_flow_task *split = htc_flow_get(f, 0);
        check_diamond(f, recorded[i]);
        cr_expect(eq(str, split->executable, "/opt/split"), "%s", recorded[i]);
        cr_expect(split->builtin == HTC_FLOW_PROGRAM && split->run == 2500 * HTC_MS, "%s", recorded[i]);
        cr_assert(split->n_args == (i == 0 ? 0 : i == 1 ? 4 : 3), "%s: %zu", recorded[i], split->n_args);
        if (i > 0)
            cr_expect(eq(str, split->args[2], "all.dat"), "%s", recorded[i]);
        if (i == 1)
            cr_expect(eq(str, split->args[3], "--prefix=part"));
        htc_flow_destroy(f);
    }
    /* One that is missing is named. */
    size_t    len;
    char     *content = flow_content(test_data(recorded[0]), &len);
    htc_flow *f = NULL;
    htc_error e;
    o.n_programs = 1;
    cr_assert(content != NULL);
    cr_expect(eq(int, htc_flow_read(NULL, (htc_bytes){ content, len }, HTC_FLOW_DAX, &o, &f, &e), HTC_EUNSUPPORTED));
    cr_expect(eq(str, e.text, "no program is given for \"work\""));
    cr_expect(e.line == 8 && strcmp(e.where, "ID2") == 0, "%u, %s", e.line, e.where);
    free(content);
}

Test(flow_files, jobs_name_their_programs)
{
    htc_flow *f = of_file("flows/diamond.jobs.json", NULL);
    check_diamond(f, "jobs");
    const htc_flow_task *left = htc_flow_get(f, 1), *right = htc_flow_get(f, 2);
    cr_expect(eq(str, htc_flow_get(f, 0)->executable, "split"));
    cr_expect(htc_flow_get(f, 0)->n_args == 3 && left->n_args == 1);
    cr_expect(left->cores == 4 && left->wall == 60 * HTC_SECOND);
    cr_assert(eq(sz, right->n_env, 1));
    cr_expect(eq(str, right->env[0], "SIDE=right"));
    htc_flow_destroy(f);
}

Test(flow_files, lines_of_json_mean_what_lines_of_text_mean)
{
    htc_flow *a = of_file("flows/variants.txt", NULL), *b = of_file("flows/variants.jsonl", NULL);
    cr_expect(eq(u32, htc_flow_count(b), 8));
    cr_expect(eq(u32, flow_difference(a, b), UINT32_MAX));
    htc_flow_destroy(a);
    htc_flow_destroy(b);
}

/* ---- published files ---- */

static FILE *published(const char *name)
{
    static const char *const places[] = { "../shared/data", "../../shared/data", "../../../shared/data" };
    char                     path[256];
    FILE                    *file = NULL;
    for (size_t i = 0; i < COUNT(places) && !file; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], name);
        file = fopen(path, "r");
    }
    return file;
}

/* Counts, and run times in all and at most, as those who publish them count them. */
Test(flow_files, published_flows_have_their_tasks_dependencies_and_run_times)
{
    static const struct {
        const char *name;
        uint32_t    tasks;
        size_t      edges;
        double      sum, max; /* s */
    } files[] = {
        { "dax/Montage_25.xml", 25, 45, 227.7, 13.83 },
        { "dax/Montage_50.xml", 50, 106, 508.6, 13.60 },
        { "dax/Montage_100.xml", 100, 233, 1079.3, 13.85 },
        { "dax/Montage_1000.xml", 1000, 2485, 11378.7, 99.53 },
        { "wfcommons/montage-chameleon-2mass-01d-001.json", 103, 231, 362.6, 17.32 },
        { "wfcommons/1000genome-chameleon-2ch-100k-001.json", 52, 76, 2771.3, 112.04 },
        { "wfcommons/blast-chameleon-small-001.json", 43, 120, 382.9, 10.32 },
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        size_t    len;
        char     *content = flow_content(published(files[i].name), &len);
        htc_flow *f = NULL;
        htc_error e = { .text = "" };
        uint64_t  sum = 0, max = 0;
        if (!content) {
            cr_skip("no published workflows in ../shared/data; tests/data/README.md says what they are");
            return;
        }
        cr_assert(htc_flow_read(NULL, (htc_bytes){ content, len }, HTC_FLOW_AUTO, NULL, &f, &e) == HTC_OK, "%s: %s",
                  files[i].name, e.text);
        free(content);
        for (uint32_t t = 0; t < htc_flow_count(f); t++) {
            const htc_flow_task *task = htc_flow_get(f, t);
            sum += task->run;
            max = task->run > max ? task->run : max;
            cr_expect(task->kind && task->kind[0]);
        }
        cr_expect(htc_flow_count(f) == files[i].tasks && htc_flow_edges(f) == files[i].edges, "%s: %u, %zu",
                  files[i].name, htc_flow_count(f), htc_flow_edges(f));
        cr_expect((double)sum / 1e9 > files[i].sum - 0.06 && (double)sum / 1e9 < files[i].sum + 0.06, "%s: %.3f s",
                  files[i].name, (double)sum / 1e9);
        cr_expect((double)max / 1e9 > files[i].max - 0.006 && (double)max / 1e9 < files[i].max + 0.006, "%s: %.3f s",
                  files[i].name, (double)max / 1e9);
        htc_flow_destroy(f);
    }
}

/* ---- refusals ---- */

Test(flow_files, mistakes_in_lines_of_json_are_told_with_line_and_key)
{
    static const refusal cases[] = {
        { "{\"command\": [\"a\"]}\n{\"command\": [\"a\"}", HTC_EJSON, 2, "", "" },
        { "{\"command\": [\"a\"], \"command\": [\"b\"]}", HTC_EJSON, 1, "", "duplicate" },
        { "{\"command\": [\"a\"]}\n[1]", HTC_ESCHEMA, 2, "", "a task has to be an object, not a list" },
        { "{\"comand\": [\"a\"]}", HTC_ESCHEMA, 1, "", "there is no key \"comand\"" },
        { "{\"command\": []}", HTC_ESCHEMA, 1, "command", "command is empty" },
        { "{\"command\": \"a\"}", HTC_ESCHEMA, 1, "command", "command has to be a list of texts, not a text" },
        { "{\"command\": [\"a\", 1]}", HTC_ESCHEMA, 1, "command[1]", "command[1] has to be a text, not a number" },
        { "{\"name\": 1, \"command\": [\"a\"]}", HTC_ESCHEMA, 1, "name", "name has to be a text" },
        { "{\"name\": \"a\"}", HTC_ESCHEMA, 1, "executable", "no program and no builtin" },
        { "{\"builtin\": \"dance\"}", HTC_ESCHEMA, 1, "builtin", "there is no builtin \"dance\"" },
        { "{\"builtin\": \"sleep\", \"amount\": -1}", HTC_ESCHEMA, 1, "amount", "amount is no time, or one below 0" },
        { "{\"builtin\": \"sleep\", \"amount\": \"1M\"}", HTC_ESCHEMA, 1, "amount", "amount is no time" },
        { "{\"builtin\": \"read\", \"amount\": -1}", HTC_ESCHEMA, 1, "amount", "amount is no size, or one below 0" },
        { "{\"builtin\": \"read\", \"amount\": 0.5}", HTC_ESCHEMA, 1, "amount", "amount is no size" },
        { "{\"command\": [\"a\"], \"time\": 1e300}", HTC_ESCHEMA, 1, "time", "time is too long" },
        { "{\"command\": [\"a\"], \"time\": true}", HTC_ESCHEMA, 1, "time",
          "time has to be a time, not true or false" },
        { "{\"command\": [\"a\"], \"memory\": null}", HTC_ESCHEMA, 1, "memory", "memory has to be a size, not null" },
        { "{\"command\": [\"a\"], \"memory\": \"9999999999T\"}", HTC_ESCHEMA, 1, "memory", "memory is too large" },
        { "{\"command\": [\"a\"], \"cores\": 0}", HTC_ESCHEMA, 1, "cores",
          "cores is 0, and has to be 1 to 4294967295" },
        { "{\"command\": [\"a\"], \"cores\": 1.5}", HTC_ESCHEMA, 1, "cores", "cores has to be a whole number" },
        { "{\"command\": [\"a\"], \"count\": -1}", HTC_ESCHEMA, 1, "count", "count is -1" },
        { "{\"command\": [\"a\"], \"env\": 1}", HTC_ESCHEMA, 1, "env", "env has to be an object of texts" },
        { "{\"command\": [\"a\"], \"env\": {\"a=\": \"b\"}}", HTC_ESCHEMA, 1, "env.a=", "is no name of a variable" },
        { "{\"command\": [\"a\"], \"env\": {\"a\": 1}}", HTC_ESCHEMA, 1, "env.a", "env.a has to be a text" },
        { "{\"command\": [\"a\"], \"in\": \"f\"}", HTC_ESCHEMA, 1, "in", "in has to be a list of files" },
        { "{\"command\": [\"a\"], \"in\": [1]}", HTC_ESCHEMA, 1, "in[0]", "in[0] has to be a text or an object" },
        { "{\"command\": [\"a\"], \"out\": [{\"bytes\": 1}]}", HTC_ESCHEMA, 1, "out[0]", "the file has no name" },
        { "{\"command\": [\"a\"], \"out\": [{\"name\": \"f\", \"size\": 1}]}", HTC_ESCHEMA, 1, "out[0].size",
          "there is no \"size\"" },
        { "{\"command\": [\"a\"], \"after\": \"b\"}", HTC_ESCHEMA, 1, "after", "after has to be a list of names" },
        { "{\"command\": [\"a\"], \"after\": [1]}", HTC_ESCHEMA, 1, "after[0]", "has to be a text" },
        { "{\"command\": [\"a\"], \"after\": [{\"task\": \"b\", \"rule\": \"maybe\"}]}", HTC_ESCHEMA, 1, "after[0]",
          "no task and rule" },
        { "{\"name\": \"a\", \"command\": [\"a\"]}\n\n{\"command\": [\"b\"], \"after\": [\"c\"]}", HTC_ESCHEMA, 3, "t1",
          "waits for \"c\"" },
        { "{\"name\": \"a\", \"command\": [\"a\"]}\n{\"name\": \"a\", \"command\": [\"b\"]}", HTC_ESCHEMA, 2, "name",
          "two tasks have the name \"a\"" },
        { "{\"name\": \"a\", \"command\": [\"a\"], \"after\": [\"a\"]}", HTC_ECYCLE, 1, "a", "waits for itself" },
    };
    flow_refuses(cases, COUNT(cases), HTC_FLOW_JSONL);
}

#define JOB(more) "{\"jobs\": [{\"id\": \"a\", \"exe\": \"x\"}, {\"id\": \"b\", \"exe\": \"x\"" more "}]}"

Test(flow_files, mistakes_in_jobs_are_told_with_their_path)
{
    static const refusal cases[] = {
        { "{\"jobs\": 1}", HTC_ESCHEMA, 0, "jobs", "jobs has to be a list" },
        { "{\"jobs\": []}", HTC_ESCHEMA, 0, "", "there are no tasks" },
        { "{\"jobs\": [], \"name\": 1}", HTC_ESCHEMA, 0, "", "another key beside jobs" },
        { "{\"jobs\": [1]}", HTC_ESCHEMA, 0, "jobs[0]", "a task has to be an object" },
        { "{\"jobs\": [{\"exe\": \"x\"}]}", HTC_ESCHEMA, 0, "jobs[0]", "the task has no id" },
        { "{\"jobs\": [{\"id\": \"x\"}]}", HTC_ESCHEMA, 0, "jobs[0]", "the job has no exe" },
        { JOB(", \"after\": [\"a\", \"c\"]"), HTC_ESCHEMA, 0, "jobs[1].after[1]",
          "task \"b\" waits for \"c\", and there is no such task" },
        { JOB(", \"trigger\": {\"file\": \"*.dat\"}"), HTC_EUNSUPPORTED, 0, "jobs[1].trigger",
          "nothing here watches a trigger" },
        { JOB(", \"walltime_s\": -5"), HTC_ESCHEMA, 0, "jobs[1].walltime_s", "walltime_s is no time, or one below 0" },
        { JOB(", \"nodes\": 0"), HTC_ESCHEMA, 0, "jobs[1].nodes", "nodes is 0" },
        { JOB(", \"args\": [1]"), HTC_ESCHEMA, 0, "jobs[1].args[0]", "args[0] has to be a text" },
        { JOB(", \"queue\": 1"), HTC_ESCHEMA, 0, "jobs[1]", "there is no key \"queue\"" },
        { "{\"jobs\": [{\"id\": \"a\", \"exe\": \"x\"}, {\"id\": \"a\", \"exe\": \"x\"}]}", HTC_ESCHEMA, 0, "jobs[1]",
          "two tasks have the name \"a\"" },
        { "{\"jobs\": [{\"id\": \"a\", \"exe\": \"x\", \"after\": [\"b\"]}, {\"id\": \"b\", \"exe\": \"x\", \"after\": "
          "[\"a\"]}]}",
          HTC_ECYCLE, 0, "a", "\"a\" waits for \"b\", \"b\" for \"a\"" },
        { "{\"jobs\": [", HTC_EJSON, 1, "", "" },
        { JOB("") " more", HTC_EJSON, 0, "", "something stands behind the document" },
        { "{", HTC_EJSON, 1, "", "" },
        { "[1, 2]", HTC_ESCHEMA, 1, "", "the document is no object" },
    };
    flow_refuses(cases, COUNT(cases), HTC_FLOW_AUTO);
    static const refusal empty = { "", HTC_EJSON, 0, "", "the document is empty" };
    flow_refuses(&empty, 1, HTC_FLOW_JOBS);
}

#define DAX(inside) "<adag version='2.1'>\n<job id='a' runtime='1'/>\n" inside "\n</adag>"

Test(flow_files, mistakes_in_dax_are_told_with_line_and_element)
{
    static const refusal cases[] = {
        { "<adag", HTC_EXML, 1, NULL, "" },
        { "<!DOCTYPE adag><adag/>", HTC_EXML, 1, "DOCTYPE", "document type declaration" },
        { "<adag/>", HTC_ESCHEMA, 0, "", "there are no tasks" },
        { "<JobDefinition/>", HTC_EUNSUPPORTED, 1, "JobDefinition", "the document is no DAX" },
        { "<adag version='4.0'/>", HTC_EUNSUPPORTED, 1, "adag", "the version is \"4.0\"" },
        { DAX("<dax id='x'/>"), HTC_EUNSUPPORTED, 3, "dax", "a workflow inside a workflow" },
        { DAX("<job runtime='1'/>"), HTC_ESCHEMA, 3, "job", "the job has no id" },
        { DAX("<job id='a' runtime='1'/>"), HTC_ESCHEMA, 3, "a", "two tasks have the name \"a\"" },
        { DAX("<job id='b' runtime='-1'/>"), HTC_ESCHEMA, 3, "job", "the run time \"-1\" is no number, or below 0" },
        { DAX("<job id='b' runtime='NaN'/>"), HTC_ESCHEMA, 3, "job", "the run time \"NaN\" is no number" },
        { DAX("<job id='b' runtime='1e300'/>"), HTC_ESCHEMA, 3, "job", "too long" },
        { DAX("<job id='b' name='k'/>"), HTC_EUNSUPPORTED, 3, "b", "no recorded run time" },
        { DAX("<job id='b' runtime='1'>\n<uses link='input'/></job>"), HTC_ESCHEMA, 4, "uses", "uses names no file" },
        { DAX("<job id='b' runtime='1'><uses file='f' size='-3'/></job>"), HTC_ESCHEMA, 3, "uses",
          "the size \"-3\" is no number, below 0" },
        { DAX("<job id='b'><profile namespace='pegasus' key='cores'>0</profile></job>"), HTC_ESCHEMA, 3, "profile",
          "the cores \"0\"" },
        { DAX("<job id='b'><profile namespace='pegasus' key='runtime'>x</profile></job>"), HTC_ESCHEMA, 3, "profile",
          "the run time \"x\"" },
        { DAX("<child/>"), HTC_ESCHEMA, 3, "child", "child has no ref" },
        { DAX("<child ref='b'/>"), HTC_ESCHEMA, 3, "child", "there is no job \"b\"" },
        { DAX("<child ref='a'>\n<mother ref='b'/></child>"), HTC_ESCHEMA, 4, "mother", "there is parent with ref" },
        { DAX("<child ref='a'>\n<parent ref='b'/></child>"), HTC_ESCHEMA, 4, "a",
          "task \"a\" waits for \"b\", and there is no such task" },
        { DAX("<child ref='a'><parent ref='a'/></child>"), HTC_ECYCLE, 3, "a", "waits for itself" },
        { DAX("<job id='b' runtime='1'/><child ref='a'><parent ref='b'/></child><child ref='b'><parent "
              "ref='a'/></child>"),
          HTC_ECYCLE, 2, "a", "\"a\" waits for \"b\", \"b\" for \"a\"" },
    };
    flow_refuses(cases, COUNT(cases), HTC_FLOW_DAX);
}

#define WF(tasks) "{\"schemaVersion\": \"1.5\", \"workflow\": {\"specification\": {\"tasks\": [" tasks "]}}}"
#define WF_RAN(tasks, ran)                                                                                             \
    "{\"schemaVersion\": \"1.5\", \"workflow\": {\"specification\": {\"tasks\": [" tasks                               \
    "]}, \"execution\": {\"tasks\": [" ran "]}}}"
#define RAN_A "{\"id\": \"a\", \"runtimeInSeconds\": 1}"
#define AT    "workflow.specification.tasks[0]"

Test(flow_files, mistakes_in_wfformat_are_told_with_their_path)
{
    static const refusal cases[] = {
        { "{\"workflow\": {}}", HTC_ESCHEMA, 0, "schemaVersion", "names no version" },
        { "{\"schemaVersion\": \"1.2\", \"workflow\": {}}", HTC_EUNSUPPORTED, 0, "schemaVersion",
          "the version is \"1.2\"" },
        { "{\"schemaVersion\": \"1.5\", \"workflow\": 1}", HTC_ESCHEMA, 0, "workflow", "the document has no workflow" },
        { "{\"schemaVersion\": \"1.5\", \"workflow\": {}}", HTC_ESCHEMA, 0, "workflow.specification.tasks",
          "no list of tasks" },
        { "{\"schemaVersion\": \"1.4\", \"workflow\": {}}", HTC_ESCHEMA, 0, "workflow.tasks", "no list of tasks" },
        { WF("{}"), HTC_ESCHEMA, 0, AT, "the task has no id" },
        { WF("{\"id\": \"a\"}, {\"id\": \"a\"}"), HTC_ESCHEMA, 0, "workflow.specification.tasks[1].id",
          "two tasks have the id \"a\"" },
        { WF("{\"id\": \"a\"}"), HTC_EUNSUPPORTED, 0, AT, "no recorded run time" },
        { WF_RAN("{\"id\": \"a\"}", "{\"id\": \"b\"}"), HTC_ESCHEMA, 0, "workflow.execution.tasks",
          "execution 0 is of no task" },
        { WF_RAN("{\"id\": \"a\"}", "{\"id\": \"a\", \"runtimeInSeconds\": -1}"), HTC_ESCHEMA, 0,
          "workflow.execution.tasks[0].runtimeInSeconds", "below 0" },
        { WF_RAN("{\"id\": \"a\"}, {\"id\": \"b\"}", "{\"id\": \"b\", \"runtimeInSeconds\": 1}, {\"id\": \"a\", \"runtimeInSeconds\": \"1\"}"), HTC_ESCHEMA, 0,
          "workflow.execution.tasks[1].runtimeInSeconds", "no number" },
        { "{\"schemaVersion\": \"1.4\", \"workflow\": {\"tasks\": [{\"name\": \"a\", \"runtimeInSeconds\": \"1\"}]}}", HTC_ESCHEMA, 0,
          "workflow.tasks[0].runtimeInSeconds", "no number" },
        { WF_RAN("{\"id\": \"a\"}", "{\"id\": \"a\", \"runtimeInSeconds\": 1, \"coreCount\": 0}"), HTC_ESCHEMA, 0,
          "workflow.execution.tasks[0].coreCount", "from 1 on" },
        { WF_RAN("{\"id\": \"a\", \"parents\": [\"b\"]}", RAN_A), HTC_ESCHEMA, 0, AT ".parents",
          "parents names \"b\", and there is no such task" },
        { WF_RAN("{\"id\": \"a\", \"children\": [\"b\"]}", RAN_A), HTC_ESCHEMA, 0, AT ".children",
          "children names \"b\"" },
        { WF_RAN("{\"id\": \"a\", \"children\": [1]}", RAN_A), HTC_ESCHEMA, 0, AT ".children", "is no text" },
        { WF_RAN("{\"id\": \"a\", \"parents\": 1}", RAN_A), HTC_ESCHEMA, 0, AT ".parents", "has to be a list" },
        { WF_RAN("{\"id\": \"a\", \"parents\": [\"a\"]}", RAN_A), HTC_ECYCLE, 0, AT ".parents", "waits for itself" },
        { WF_RAN("{\"id\": \"a\", \"inputFiles\": [1]}", RAN_A), HTC_ESCHEMA, 0, AT ".inputFiles",
          "file 0 is no text" },
        { "{\"schemaVersion\": \"1.5\", \"workflow\": {\"specification\": {\"tasks\": [], \"files\": [{\"id\": \"f\", "
          "\"sizeInBytes\": -1}]}}}",
          HTC_ESCHEMA, 0, "workflow.specification.files[0]", "below 0" },
        { "{\"schemaVersion\": \"1.4\", \"workflow\": {\"tasks\": [{\"name\": \"a\", \"files\": [{\"name\": \"f\", "
          "\"link\": \"both\"}]}]}}",
          HTC_ESCHEMA, 0, "workflow.tasks[0].files", "neither input nor output" },
        { WF_RAN("{\"id\": \"a\", \"parents\": [\"b\"]}, {\"id\": \"b\", \"parents\": [\"a\"]}",
                 RAN_A ", {\"id\": \"b\", \"runtimeInSeconds\": 1}"),
          HTC_ECYCLE, 0, "a", "\"a\" waits for \"b\", \"b\" for \"a\"" },
    };
    flow_refuses(cases, COUNT(cases), HTC_FLOW_WFCOMMONS);
}

/* ---- no memory ---- */

Test(flow_files, refused_memory_is_told_and_all_of_it_given_back)
{
    static const char *const names[] = { "flows/variants.jsonl", "flows/diamond.jobs.json", "flows/diamond-3.6.dax.xml",
                                         "flows/diamond-1.5.wfformat.json", "flows/diamond-1.4.wfformat.json" };
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t len;
        char  *content = flow_content(test_data(names[i]), &len);
        cr_assert(content != NULL);
        ALLOC_FAIL_EVERY(f, 1000)
        {
            htc_env    env = alloc_fail_env(&f);
            htc_flow  *flow = NULL;
            htc_error  e;
            htc_status status = htc_flow_read(&env, (htc_bytes){ content, len }, HTC_FLOW_AUTO, NULL, &flow, &e);
            cr_expect(status == (f.refused ? HTC_ENOMEM : HTC_OK), "%s, allocation %zu: %s", names[i], f.fail_at,
                      e.text);
            htc_flow_destroy(flow);
            cr_expect(f.live == 0 && f.wrong_sizes == 0, "%s, allocation %zu", names[i], f.fail_at);
        }
        free(content);
    }
}
