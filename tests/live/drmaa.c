/* usage: drmaa STATE_DIR BULK
 * DRMAA as its document has it, by a program that knows nothing else: sessions, templates, submission, control, waiting, threads. BULK: how many
 * jobs the large bulk submission has. Ends with 0, or says what is wrong. */
#include <drmaa.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS    8
#define OF_THREAD  6
#define FOREVER    DRMAA_TIMEOUT_WAIT_FOREVER
#define TEXT(name) char name[DRMAA_ERROR_STRING_BUFFER] = ""

static char here[600];

static void fail(int line, const char *what, int got, const char *diagnosis)
{
    fprintf(stderr, "FAILED: line %d: %s: %d (%s), \"%s\"\n", line, what, got, drmaa_strerror(got) ? drmaa_strerror(got) : "", diagnosis);
    exit(1);
}

/* A call answers this; what went wrong has a cause. */
#define ANSWERS(code, call)                                                                                            \
    do {                                                                                                               \
        TEXT(why);                                                                                                     \
        size_t len = sizeof why;                                                                                       \
        int    got = (call);                                                                                           \
        (void)len;                                                                                                     \
        if (got != (code) || (got != 0) != (why[0] != '\0'))                                                           \
            fail(__LINE__, #call, got, why);                                                                           \
    } while (0)
#define GOOD(call)    ANSWERS(DRMAA_ERRNO_SUCCESS, call)
#define HOLDS(what)   ((what) ? (void)0 : fail(__LINE__, #what, 0, ""))
#define SAME(a, b)    HOLDS(strcmp(a, b) == 0)

static drmaa_job_template_t *job_of(const char *command, const char *const argv[])
{
    drmaa_job_template_t *jt;
    GOOD(drmaa_allocate_job_template(&jt, why, len));
    GOOD(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, command, why, len));
    if (argv)
        GOOD(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, (const char **)(size_t)argv, why, len));
    return jt;
}

static drmaa_job_template_t *shell(const char *script)
{
    return job_of("/bin/sh", (const char *const[]){ "-c", script, NULL });
}

static void set(drmaa_job_template_t *jt, const char *name, const char *format, const char *value)
{
    char text[900];
    snprintf(text, sizeof text, format, value);
    GOOD(drmaa_set_attribute(jt, name, text, why, len));
}

static void submit(drmaa_job_template_t *jt, char id[64])
{
    GOOD(drmaa_run_job(id, 64, jt, why, len));
    GOOD(drmaa_delete_job_template(jt, why, len));
}

static void file_says(const char *name, const char *want)
{
    char  path[700], got[200] = "";
    snprintf(path, sizeof path, "%s/%s", here, name);
    FILE *f = fopen(path, "r");
    if (f) {
        got[fread(got, 1, sizeof got - 1, f)] = '\0';
        fclose(f);
    }
    if (strcmp(got, want) != 0)
        fail(__LINE__, name, 0, got);
}

/* ---- without a session ---- */

static void before_a_session(void)
{
    unsigned              major, minor;
    char                  text[1024], id[64];
    drmaa_job_template_t *jt;
    drmaa_attr_names_t   *names;
    int                   n;
    GOOD(drmaa_version(&major, &minor, why, len));
    HOLDS(major == 1 && minor == 0);
    GOOD(drmaa_get_DRM_system(text, sizeof text, why, len));
    HOLDS(text[0]);
    GOOD(drmaa_get_DRMAA_implementation(text, sizeof text, why, len));
    HOLDS(text[0]);
    GOOD(drmaa_get_contact(text, sizeof text, why, len));
    for (int code = 0; code <= DRMAA_ERRNO_NO_MORE_ELEMENTS; code++)
        HOLDS(drmaa_strerror(code) && drmaa_strerror(code)[0]);
    HOLDS(!drmaa_strerror(-1) && !drmaa_strerror(DRMAA_NO_ERRNO));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_allocate_job_template(&jt, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_get_attribute_names(&names, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_get_vector_attribute_names(&names, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_control("1", DRMAA_CONTROL_TERMINATE, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_job_ps("1", &n, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_wait("1", id, sizeof id, &n, 0, NULL, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_synchronize((const char *[]){ "1", NULL }, 0, 0, why, len));
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_exit(why, len));
    HOLDS(drmaa_exit(NULL, 0) == DRMAA_ERRNO_NO_ACTIVE_SESSION);
}

/* What to do next. */
static int refusal_says(const char *contact, const char *next)
{
    char why[DRMAA_ERROR_STRING_BUFFER] = "";
    return drmaa_init(contact, why, sizeof why) != DRMAA_ERRNO_SUCCESS && strstr(why, next) != NULL;
}

static void contacts(const char *dir)
{
    char text[1024];
    ANSWERS(DRMAA_ERRNO_INVALID_CONTACT_STRING, drmaa_init("planet=earth", why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_CONTACT_STRING, drmaa_init("dir=a;dir=b", why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_CONTACT_STRING, drmaa_init("timeout=soon", why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_CONTACT_STRING, drmaa_init("/nowhere/at/all", why, len));
    HOLDS(refusal_says("/nowhere/at/all", "; htc up starts one there"));
    snprintf(text, sizeof text, "dir=%s;timeout=1", here);
    ANSWERS(DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE, drmaa_init(text, why, len));
    HOLDS(refusal_says(text, "; is it running? htc up starts it"));
    setenv("HTC_DRMAA_CONTACT", text, 1);
    ANSWERS(DRMAA_ERRNO_DEFAULT_CONTACT_STRING_ERROR, drmaa_init(NULL, why, len));
    unsetenv("HTC_DRMAA_CONTACT");
    snprintf(text, sizeof text, "dir=%s;user=ben;token_file=/nowhere/at/all", dir);
    HOLDS(refusal_says(text, "; htc login"));
    snprintf(text, sizeof text, "dir=%s;user=nobody-of-that-name", dir);
    ANSWERS(DRMAA_ERRNO_AUTH_FAILURE, drmaa_init(text, why, len));
    snprintf(text, sizeof text, "%s", dir);
    GOOD(drmaa_init(text, why, len));
    ANSWERS(DRMAA_ERRNO_ALREADY_ACTIVE_SESSION, drmaa_init(NULL, why, len));
    GOOD(drmaa_exit(why, len));
    setenv("HTC_DIR", dir, 1);
    GOOD(drmaa_init(NULL, why, len));
    GOOD(drmaa_get_contact(text, sizeof text, why, len));
    GOOD(drmaa_exit(why, len));
    GOOD(drmaa_init(text, why, len)); /* what a session calls itself leads to it */
}

/* ---- templates ---- */

static int has_name(int (*list)(drmaa_attr_names_t **, char *, size_t), const char *name)
{
    drmaa_attr_names_t *names;
    char                text[DRMAA_ATTR_BUFFER];
    size_t              size, n = 0;
    int                 found = 0;
    GOOD(list(&names, why, len));
    HOLDS(drmaa_get_num_attr_names(names, &size) == DRMAA_ERRNO_SUCCESS);
    for (; drmaa_get_next_attr_name(names, text, sizeof text) == DRMAA_ERRNO_SUCCESS; n++)
        found |= strcmp(text, name) == 0;
    HOLDS(n == size && drmaa_get_next_attr_name(names, text, sizeof text) == DRMAA_ERRNO_NO_MORE_ELEMENTS);
    drmaa_release_attr_names(names);
    return found;
}

static void attributes(void)
{
    static const char *const all[] = { DRMAA_REMOTE_COMMAND, DRMAA_JS_STATE,   DRMAA_WD,          DRMAA_JOB_CATEGORY, DRMAA_NATIVE_SPECIFICATION,
                                       DRMAA_BLOCK_EMAIL,    DRMAA_START_TIME, DRMAA_JOB_NAME,    DRMAA_INPUT_PATH,   DRMAA_OUTPUT_PATH,
                                       DRMAA_ERROR_PATH,     DRMAA_JOIN_FILES, DRMAA_TRANSFER_FILES, DRMAA_WCT_HLIMIT, DRMAA_DURATION_HLIMIT };
    static const char *const lists[] = { DRMAA_V_ARGV, DRMAA_V_ENV, DRMAA_V_EMAIL };
    static const struct {
        const char *name, *value;
        int         code;
    } tries[] = {
        { DRMAA_JS_STATE, "drmaa_hold", 0 },
        { DRMAA_JS_STATE, "asleep", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_BLOCK_EMAIL, "1", 0 },
        { DRMAA_BLOCK_EMAIL, "yes", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_JOIN_FILES, "y", 0 },
        { DRMAA_JOIN_FILES, "1", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_START_TIME, "2030/01/31 12:00:00 +01:00", 0 },
        { DRMAA_START_TIME, "12:00", 0 },
        { DRMAA_START_TIME, "tomorrow", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT },
        { DRMAA_START_TIME, "2030/02/30 12:00", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_WCT_HLIMIT, "1:02:03", 0 },
        { DRMAA_WCT_HLIMIT, "1h", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT },
        { DRMAA_DURATION_HLIMIT, "0", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_INPUT_PATH, "host.example.org:/in", 0 },
        { DRMAA_INPUT_PATH, "/in", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT },
        { DRMAA_OUTPUT_PATH, ":$drmaa_hd_ph$/out.$drmaa_incr_ph$", 0 },
        { DRMAA_OUTPUT_PATH, ":out/$drmaa_hd_ph$", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT },
        { DRMAA_ERROR_PATH, ":$drmaa_wd_ph$/err", 0 },
        { DRMAA_WD, "$drmaa_hd_ph$/work", 0 },
        { DRMAA_WD, "$drmaa_wd_ph$/work", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT },
        { DRMAA_TRANSFER_FILES, "eo", 0 },
        { DRMAA_TRANSFER_FILES, "ioo", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_JOB_NAME, "\xff", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE },
        { DRMAA_DEADLINE_TIME, "12:00", DRMAA_ERRNO_INVALID_ARGUMENT },
        { "drmaa_no_such_attribute", "x", DRMAA_ERRNO_INVALID_ARGUMENT },
        { DRMAA_V_ARGV, "x", DRMAA_ERRNO_INVALID_ARGUMENT },
    };
    drmaa_job_template_t *jt;
    drmaa_attr_values_t  *values;
    char                  text[DRMAA_ATTR_BUFFER];
    size_t                size;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        HOLDS(has_name(drmaa_get_attribute_names, all[i]));
    for (size_t i = 0; i < 3; i++)
        HOLDS(has_name(drmaa_get_vector_attribute_names, lists[i]) && !has_name(drmaa_get_attribute_names, lists[i]));
    GOOD(drmaa_allocate_job_template(&jt, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, drmaa_get_attribute(jt, DRMAA_JOB_NAME, text, sizeof text, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, why, len));
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        TEXT(cause);
        int code = drmaa_set_attribute(jt, tries[i].name, tries[i].value, cause, sizeof cause);
        if (code != tries[i].code)
            fail(__LINE__, tries[i].value, code, cause);
        if (code == 0) {
            GOOD(drmaa_get_attribute(jt, tries[i].name, text, sizeof text, why, len));
            SAME(text, tries[i].value);
        }
    }
    GOOD(drmaa_get_attribute(jt, DRMAA_JS_STATE, text, 6, why, len));
    SAME(text, "drmaa"); /* cut, with its end */
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_set_attribute(jt, DRMAA_JOB_NAME, NULL, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_set_vector_attribute(jt, DRMAA_JOB_NAME, (const char *[]){ "a", NULL }, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, drmaa_set_vector_attribute(jt, DRMAA_V_ENV, (const char *[]){ "A=1", "B", NULL }, why, len));
    GOOD(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, (const char *[]){ "a", "", "c d", NULL }, why, len));
    GOOD(drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, why, len));
    HOLDS(drmaa_get_num_attr_values(values, &size) == 0 && size == 3);
    for (size_t i = 0; i < 3; i++) {
        HOLDS(drmaa_get_next_attr_value(values, text, sizeof text) == DRMAA_ERRNO_SUCCESS);
        SAME(text, ((const char *[]){ "a", "", "c d" })[i]);
    }
    HOLDS(drmaa_get_next_attr_value(values, text, sizeof text) == DRMAA_ERRNO_NO_MORE_ELEMENTS);
    drmaa_release_attr_values(values);
    GOOD(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, (const char *[]){ NULL }, why, len));
    GOOD(drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, why, len));
    HOLDS(drmaa_get_num_attr_values(values, &size) == 0 && size == 0);
    drmaa_release_attr_values(values);
    GOOD(drmaa_delete_job_template(jt, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_delete_job_template(NULL, why, len));
}

/* ---- one job ---- */

/* What the standard's macros say: 'x' with the code, 's' with the signal, 'a', or '?'. */
static void ended(const char *id, char want, int code, const char *signal_name)
{
    int                  stat, exited, signaled, aborted, dumped, got_code;
    char                 out[64], name[DRMAA_SIGNAL_BUFFER], usage[DRMAA_ATTR_BUFFER];
    drmaa_attr_values_t *rusage;
    int                  n = 0;
    GOOD(drmaa_wait(id, out, sizeof out, &stat, FOREVER, &rusage, why, len));
    SAME(out, id);
    GOOD(drmaa_wifexited(&exited, stat, why, len));
    GOOD(drmaa_wifsignaled(&signaled, stat, why, len));
    GOOD(drmaa_wifaborted(&aborted, stat, why, len));
    GOOD(drmaa_wcoredump(&dumped, stat, why, len));
    HOLDS((want == 'x') == (exited != 0) && (want == 's') == (signaled != 0) && (want == 'a') == (aborted != 0) && !dumped);
    if (exited) {
        GOOD(drmaa_wexitstatus(&got_code, stat, why, len));
        HOLDS(got_code == code);
    }
    if (signaled) {
        GOOD(drmaa_wtermsig(name, sizeof name, stat, why, len));
        SAME(name, signal_name);
    } else
        ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_wtermsig(name, sizeof name, stat, why, len));
    for (; drmaa_get_next_attr_value(rusage, usage, sizeof usage) == DRMAA_ERRNO_SUCCESS; n++)
        HOLDS(strchr(usage, '='));
    HOLDS(n > 3);
    drmaa_release_attr_values(rusage);
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(id, out, sizeof out, &stat, 0, NULL, why, len)); /* it has been waited for */
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_synchronize((const char *[]){ id, NULL }, 0, 0, why, len));
}

static void single_jobs(void)
{
    char id[64], text[700];
    int  ps;
    submit(job_of("/bin/true", NULL), id);
    ended(id, 'x', 0, NULL);
    GOOD(drmaa_job_ps(id, &ps, why, len));
    HOLDS(ps == DRMAA_PS_DONE);
    submit(shell("exit 7"), id);
    ended(id, 'x', 7, NULL);
    GOOD(drmaa_job_ps(id, &ps, why, len));
    HOLDS(ps == DRMAA_PS_FAILED);
    submit(shell("kill -USR1 $$"), id);
    ended(id, 's', 0, "SIGUSR1");

    /* Every attribute at once; words that mean something elsewhere mean nothing here. */
    drmaa_job_template_t *jt = job_of("/bin/sh", (const char *const[]){ "-c", "cat; echo \"$A|$B|$1|$2|$3\"; pwd; echo told >&2", "sh", "{x} {} {1}", ":::", "$drmaa_incr_ph$", NULL });
    GOOD(drmaa_set_vector_attribute(jt, DRMAA_V_ENV, (const char *[]){ "A=one two", "B={i}", NULL }, why, len));
    GOOD(drmaa_set_vector_attribute(jt, DRMAA_V_EMAIL, (const char *[]){ "nobody@example.org", NULL }, why, len));
    set(jt, DRMAA_BLOCK_EMAIL, "%s", "0");
    set(jt, DRMAA_JOB_NAME, "%s", "every_attribute");
    set(jt, DRMAA_WD, "%s/wd", here);
    set(jt, DRMAA_INPUT_PATH, ":%s/in", here);
    set(jt, DRMAA_OUTPUT_PATH, "%s", "elsewhere:$drmaa_wd_ph$/out");
    set(jt, DRMAA_ERROR_PATH, ":%s/err", here);
    set(jt, DRMAA_START_TIME, "%s", "2001/01/01 00:00 +00:00");
    set(jt, DRMAA_WCT_HLIMIT, "%s", "1:00:00");
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "--priority 3 -m 64M --name overruled --env 'C=c'");
    submit(jt, id);
    ended(id, 'x', 0, NULL);
    snprintf(text, sizeof text, "given\none two|{i}|{x} {} {1}|:::|$drmaa_incr_ph$\n%s/wd\n", here);
    file_says("wd/out", text);
    file_says("err", "told\n");

    jt = shell("echo out; echo err >&2");
    set(jt, DRMAA_OUTPUT_PATH, ":%s/both", here);
    set(jt, DRMAA_JOIN_FILES, "%s", "y");
    submit(jt, id);
    ended(id, 'x', 0, NULL);
    file_says("both", "out\nerr\n");

    /* Files are brought to this host and from it. */
    jt = shell("cat; echo err >&2");
    set(jt, DRMAA_TRANSFER_FILES, "%s", "ioe");
    set(jt, DRMAA_INPUT_PATH, ":%s/in", here);
    set(jt, DRMAA_OUTPUT_PATH, ":%s/brought", here);
    set(jt, DRMAA_ERROR_PATH, ":%s/brought.err", here);
    submit(jt, id);
    ended(id, 'x', 0, NULL);
    file_says("brought", "given\n");
    file_says("brought.err", "err\n");

    /* A directory or a file that is not there is found out where the job runs. */
    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_WD, "%s/not/there", here);
    submit(jt, id);
    ended(id, 'x', 126, NULL);
    jt = job_of("/no/such/program", NULL);
    submit(jt, id);
    GOOD(drmaa_synchronize((const char *[]){ id, NULL }, FOREVER, 1, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(id, NULL, 0, NULL, 0, NULL, why, len));
    GOOD(drmaa_job_ps(id, &ps, why, len));
    HOLDS(ps == DRMAA_PS_FAILED);

    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_START_TIME, "%s", "2040/01/01 00:00");
    submit(jt, id);
    GOOD(drmaa_job_ps(id, &ps, why, len));
    HOLDS(ps == DRMAA_PS_SYSTEM_ON_HOLD);
    GOOD(drmaa_control(id, DRMAA_CONTROL_TERMINATE, why, len));
    ended(id, 'a', 0, NULL);

    jt = shell("sleep 600");
    set(jt, DRMAA_DURATION_HLIMIT, "%s", "1");
    submit(jt, id);
    ended(id, 's', 0, "SIGTERM");
}

static void refused(void)
{
    char                  id[64];
    drmaa_job_template_t *jt;
    GOOD(drmaa_allocate_job_template(&jt, why, len));
    ANSWERS(DRMAA_ERRNO_DENIED_BY_DRM, drmaa_run_job(id, sizeof id, jt, why, len)); /* nothing to run */
    set(jt, DRMAA_REMOTE_COMMAND, "%s", "/bin/true");
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "--cores 100000");
    ANSWERS(DRMAA_ERRNO_DENIED_BY_DRM, drmaa_run_job(id, sizeof id, jt, why, len));
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "--warp 9");
    ANSWERS(DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE, drmaa_run_job(id, sizeof id, jt, why, len));
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "--name 'open");
    ANSWERS(DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT, drmaa_run_job(id, sizeof id, jt, why, len));
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "");
    set(jt, DRMAA_JOB_CATEGORY, "%s", "unheard-of");
    ANSWERS(DRMAA_ERRNO_DENIED_BY_DRM, drmaa_run_job(id, sizeof id, jt, why, len));
    GOOD(drmaa_delete_job_template(jt, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_job(NULL, 0, NULL, why, len));
    for (int i = 0; i < 4; i++) {
        const char *ids[] = { "999999", "1.999999", "x", "" };
        int         ps;
        ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_job_ps(ids[i], &ps, why, len));
        ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_control(ids[i], DRMAA_CONTROL_TERMINATE, why, len));
        ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(ids[i], NULL, 0, NULL, 0, NULL, why, len));
    }
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_control("1", 99, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_wait("1", NULL, 0, NULL, -7, NULL, why, len));
}

/* ---- control ---- */

static int ps_of(const char *id)
{
    int ps = -1;
    GOOD(drmaa_job_ps(id, &ps, why, len));
    return ps;
}

static void becomes(const char *id, int ps)
{
    while (ps_of(id) != ps)
        usleep(20000);
}

static void control(void)
{
    char                  id[64];
    drmaa_job_template_t *jt = shell("sleep 600");
    set(jt, DRMAA_JS_STATE, "%s", DRMAA_SUBMISSION_STATE_HOLD);
    submit(jt, id);
    HOLDS(ps_of(id) == DRMAA_PS_USER_ON_HOLD);
    ANSWERS(DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_HOLD, why, len));
    ANSWERS(DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_SUSPEND, why, len));
    ANSWERS(DRMAA_ERRNO_RESUME_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_RESUME, why, len));
    ANSWERS(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_wait(id, NULL, 0, NULL, DRMAA_TIMEOUT_NO_WAIT, NULL, why, len));
    ANSWERS(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, NULL, 1, NULL, why, len));
    ANSWERS(DRMAA_ERRNO_EXIT_TIMEOUT, drmaa_synchronize((const char *[]){ id, NULL }, DRMAA_TIMEOUT_NO_WAIT, 0, why, len));
    GOOD(drmaa_control(id, DRMAA_CONTROL_RELEASE, why, len));
    ANSWERS(DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_RELEASE, why, len));
    becomes(id, DRMAA_PS_RUNNING);
    ANSWERS(DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_HOLD, why, len)); /* it runs */
    ANSWERS(DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_SUSPEND, why, len));
    GOOD(drmaa_control(id, DRMAA_CONTROL_TERMINATE, why, len));
    ended(id, 's', 0, "SIGTERM");
    GOOD(drmaa_control(id, DRMAA_CONTROL_TERMINATE, why, len)); /* once more does no harm */

    /* All of the session: one held, one that waits for it. */
    char first[64], then[64], native[100];
    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_JS_STATE, "%s", DRMAA_SUBMISSION_STATE_HOLD);
    submit(jt, first);
    snprintf(native, sizeof native, "--after %s:any", first);
    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", native);
    submit(jt, then);
    HOLDS(ps_of(then) == DRMAA_PS_SYSTEM_ON_HOLD);
    GOOD(drmaa_control(then, DRMAA_CONTROL_HOLD, why, len));
    HOLDS(ps_of(then) == DRMAA_PS_USER_SYSTEM_ON_HOLD);
    GOOD(drmaa_control(DRMAA_JOB_IDS_SESSION_ALL, DRMAA_CONTROL_RELEASE, why, len));
    GOOD(drmaa_synchronize((const char *[]){ DRMAA_JOB_IDS_SESSION_ALL, NULL }, FOREVER, 0, why, len));
    HOLDS(ps_of(first) == DRMAA_PS_DONE && ps_of(then) == DRMAA_PS_DONE);
    GOOD(drmaa_synchronize((const char *[]){ then, first, NULL }, FOREVER, 1, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, NULL, 0, NULL, why, len)); /* none is left */
    submit(shell("sleep 600"), first);
    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_JS_STATE, "%s", DRMAA_SUBMISSION_STATE_HOLD);
    submit(jt, then);
    GOOD(drmaa_control(DRMAA_JOB_IDS_SESSION_ALL, DRMAA_CONTROL_TERMINATE, why, len));
    ended(then, 'a', 0, NULL); /* it never ran */
    GOOD(drmaa_synchronize((const char *[]){ first, NULL }, FOREVER, 1, why, len));
}

/* ---- bulk ---- */

static void bulk(void)
{
    drmaa_job_ids_t      *ids;
    char                  id[8][64], out[64], name[64], want[64];
    size_t                size, n = 0;
    int                   stat, code;
    drmaa_job_template_t *jt = shell("cat; echo $DRMAA_INDEX $SGE_TASK_ID $SGE_TASK_LAST; exit $((DRMAA_INDEX - 10))");
    set(jt, DRMAA_WD, "%s", here);
    set(jt, DRMAA_INPUT_PATH, ":%s/in.$drmaa_incr_ph$", here);
    set(jt, DRMAA_OUTPUT_PATH, "%s", ":$drmaa_wd_ph$/bulk.$drmaa_incr_ph$.out");
    set(jt, DRMAA_TRANSFER_FILES, "%s", "i");
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", "--compat sge");
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_bulk_jobs(&ids, jt, 5, 1, 1, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_bulk_jobs(&ids, jt, 0, 5, 1, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_ARGUMENT, drmaa_run_bulk_jobs(&ids, jt, 1, 5, 0, why, len));
    GOOD(drmaa_run_bulk_jobs(&ids, jt, 10, 17, 3, why, len)); /* 10, 13, 16 */
    HOLDS(drmaa_get_num_job_ids(ids, &size) == 0 && size == 3);
    for (; drmaa_get_next_job_id(ids, id[n], sizeof id[n]) == DRMAA_ERRNO_SUCCESS; n++)
        HOLDS(n < 3);
    HOLDS(n == 3 && drmaa_get_next_job_id(ids, out, sizeof out) == DRMAA_ERRNO_NO_MORE_ELEMENTS);
    drmaa_release_job_ids(ids);
    ANSWERS(DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, drmaa_control(id[0], DRMAA_CONTROL_HOLD, why, len)); /* all or none */
    GOOD(drmaa_wait(id[1], out, sizeof out, &stat, FOREVER, NULL, why, len));
    SAME(out, id[1]);
    GOOD(drmaa_wexitstatus(&code, stat, why, len));
    HOLDS(code == 3);
    GOOD(drmaa_synchronize((const char *[]){ id[2], id[0], NULL }, FOREVER, 0, why, len));
    HOLDS(ps_of(id[0]) == DRMAA_PS_DONE && ps_of(id[2]) == DRMAA_PS_FAILED);
    ended(id[2], 'x', 6, NULL);
    ended(id[0], 'x', 0, NULL);
    for (int i = 10; i <= 16; i += 3) {
        snprintf(name, sizeof name, "bulk.%d.out", i);
        snprintf(want, sizeof want, "input %d\n%d %d 16\n", i, i, i);
        file_says(name, want);
    }
    /* Downwards, and one of them is ended alone. */
    GOOD(drmaa_delete_job_template(jt, why, len));
    jt = shell("[ $DRMAA_INDEX != 2 ] || sleep 600");
    GOOD(drmaa_run_bulk_jobs(&ids, jt, 3, 1, -1, why, len));
    for (n = 0; drmaa_get_next_job_id(ids, id[n], sizeof id[n]) == DRMAA_ERRNO_SUCCESS;)
        n++;
    drmaa_release_job_ids(ids);
    GOOD(drmaa_delete_job_template(jt, why, len));
    becomes(id[1], DRMAA_PS_RUNNING);
    GOOD(drmaa_control(id[1], DRMAA_CONTROL_TERMINATE, why, len));
    ended(id[1], 's', 0, "SIGTERM");
    ended(id[0], 'x', 0, NULL);
    GOOD(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, out, sizeof out, &stat, FOREVER, NULL, why, len));
    SAME(out, id[2]);
}

/* Thousands by one request: each is waited for once, whichever ends first. */
static void large_bulk(int count)
{
    drmaa_job_ids_t      *ids;
    char                  out[64], first[64];
    char                 *seen = calloc((size_t)count, 1);
    size_t                size;
    int                   stat, exited;
    drmaa_job_template_t *jt = job_of("/bin/true", NULL);
    GOOD(drmaa_run_bulk_jobs(&ids, jt, 1, count, 1, why, len));
    GOOD(drmaa_delete_job_template(jt, why, len));
    HOLDS(drmaa_get_num_job_ids(ids, &size) == 0 && size == (size_t)count);
    HOLDS(drmaa_get_next_job_id(ids, first, sizeof first) == 0);
    drmaa_release_job_ids(ids);
    for (int i = 0; i < count; i++) {
        GOOD(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, out, sizeof out, &stat, FOREVER, NULL, why, len));
        GOOD(drmaa_wifexited(&exited, stat, why, len));
        int index = atoi(strchr(out, '.') + 1);
        HOLDS(exited && index >= 0 && index < count && !seen[index]);
        seen[index] = 1;
    }
    free(seen);
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, out, sizeof out, &stat, 0, NULL, why, len));
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(first, out, sizeof out, &stat, 0, NULL, why, len));
}

/* ---- threads ---- */

/* Each submits and waits for its own; half of them wait for whatever ends. */
static void *work(void *arg)
{
    int  number = (int)(size_t)arg, stat, code;
    char id[OF_THREAD][64];
    for (int i = 0; i < OF_THREAD; i++) {
        char script[40];
        snprintf(script, sizeof script, "exit %d", number * OF_THREAD + i);
        submit(shell(script), id[i]);
    }
    for (int i = 0; i < OF_THREAD; i++) {
        GOOD(drmaa_wait(id[i], NULL, 0, &stat, FOREVER, NULL, why, len));
        GOOD(drmaa_wexitstatus(&code, stat, why, len));
        HOLDS(code == number * OF_THREAD + i);
    }
    return NULL;
}

static void *take_any(void *arg)
{
    char out[64];
    for (int i = 0; i < OF_THREAD; i++)
        GOOD(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, out, sizeof out, NULL, FOREVER, NULL, why, len));
    return arg;
}

static void *wait_until_the_end(void *id)
{
    ANSWERS(DRMAA_ERRNO_NO_ACTIVE_SESSION, drmaa_wait(id, NULL, 0, NULL, FOREVER, NULL, why, len));
    return NULL;
}

static void threads(const char *dir)
{
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    /* Many wait for any: each job is one thread's. */
    drmaa_job_ids_t      *ids;
    drmaa_job_template_t *jt = shell("sleep 0.0$DRMAA_INDEX");
    GOOD(drmaa_run_bulk_jobs(&ids, jt, 1, THREADS * OF_THREAD, 1, why, len));
    drmaa_release_job_ids(ids);
    GOOD(drmaa_delete_job_template(jt, why, len));
    for (size_t i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&t[i], NULL, take_any, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, NULL, 0, NULL, why, len));
    /* A session that ends: its jobs go on, and who waits is told. */
    char id[64];
    int  ps;
    submit(shell("sleep 600"), id);
    becomes(id, DRMAA_PS_RUNNING);
    HOLDS(pthread_create(&t[0], NULL, wait_until_the_end, id) == 0);
    usleep(100000);
    GOOD(drmaa_exit(why, len));
    pthread_join(t[0], NULL);
    GOOD(drmaa_init(dir, why, len));
    GOOD(drmaa_job_ps(id, &ps, why, len));
    HOLDS(ps == DRMAA_PS_RUNNING);
    ANSWERS(DRMAA_ERRNO_INVALID_JOB, drmaa_wait(id, NULL, 0, NULL, 0, NULL, why, len)); /* another session's */
    GOOD(drmaa_control(id, DRMAA_CONTROL_TERMINATE, why, len));
    becomes(id, DRMAA_PS_FAILED);
}

static void write_file(const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", here, name);
    FILE *f = fopen(path, "w");
    HOLDS(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Through a proxy that loses the first answer to each of hold and release. */
static void answers_are_lost(void)
{
    char first[64], id[64], native[100];
    GOOD(drmaa_init(NULL, why, len));
    drmaa_job_template_t *jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_JS_STATE, "%s", DRMAA_SUBMISSION_STATE_HOLD);
    submit(jt, first);
    snprintf(native, sizeof native, "--after %s:any", first);
    jt = job_of("/bin/true", NULL);
    set(jt, DRMAA_NATIVE_SPECIFICATION, "%s", native);
    submit(jt, id);
    GOOD(drmaa_control(id, DRMAA_CONTROL_HOLD, why, len));
    HOLDS(ps_of(id) == DRMAA_PS_USER_SYSTEM_ON_HOLD);
    ANSWERS(DRMAA_ERRNO_HOLD_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_HOLD, why, len));
    GOOD(drmaa_control(id, DRMAA_CONTROL_RELEASE, why, len));
    HOLDS(ps_of(id) == DRMAA_PS_SYSTEM_ON_HOLD);
    ANSWERS(DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE, drmaa_control(id, DRMAA_CONTROL_RELEASE, why, len));
    GOOD(drmaa_control(id, DRMAA_CONTROL_TERMINATE, why, len));
    GOOD(drmaa_control(first, DRMAA_CONTROL_TERMINATE, why, len));
    GOOD(drmaa_exit(why, len));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "lost") == 0) {
        answers_are_lost();
        printf("drmaa: all is well\n");
        return 0;
    }
    if (argc != 3 || !getcwd(here, sizeof here)) {
        fprintf(stderr, "usage: drmaa STATE_DIR BULK\n");
        return 1;
    }
    write_file("in", "given\n");
    write_file("in.10", "input 10\n");
    write_file("in.13", "input 13\n");
    write_file("in.16", "input 16\n");
    before_a_session();
    contacts(argv[1]);
    attributes();
    refused();
    single_jobs();
    control();
    bulk();
    large_bulk(atoi(argv[2]));
    threads(argv[1]);
    GOOD(drmaa_exit(why, len));
    before_a_session();
    printf("drmaa: all is well\n");
    return 0;
}
