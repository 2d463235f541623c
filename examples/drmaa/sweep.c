/* usage: drmaa-sweep COUNT COMMAND [ARGUMENT...]
 * Runs the command COUNT times at once, with DRMAA_INDEX from 1 to COUNT in its environment, and says how each ended. Nothing of it is about
 * this system: it runs with any library of DRMAA 1.0. DRMAA_SWEEP_CATEGORY names a job category. Ends with 0; with 1 if something failed. */
#include <drmaa.h>

#include <stdio.h>
#include <stdlib.h>

static char why[DRMAA_ERROR_STRING_BUFFER];

static int good(int code, const char *what)
{
    if (code != DRMAA_ERRNO_SUCCESS)
        fprintf(stderr, "drmaa-sweep: %s: %s (%s)\n", what, drmaa_strerror(code), why);
    return code == DRMAA_ERRNO_SUCCESS;
}

/* One that has ended; 1 if it ended well, 0 if not, -1 if that cannot be told. */
static int take_one(void)
{
    char id[DRMAA_JOBNAME_BUFFER], name[DRMAA_SIGNAL_BUFFER];
    int  stat, exited, signaled, code = -1;
    if (!good(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, id, sizeof id, &stat, DRMAA_TIMEOUT_WAIT_FOREVER, NULL, why, sizeof why), "drmaa_wait"))
        return -1;
    drmaa_wifexited(&exited, stat, NULL, 0);
    drmaa_wifsignaled(&signaled, stat, NULL, 0);
    if (exited && drmaa_wexitstatus(&code, stat, NULL, 0) == DRMAA_ERRNO_SUCCESS)
        printf("%s: exit status %d\n", id, code);
    else if (signaled && drmaa_wtermsig(name, sizeof name, stat, NULL, 0) == DRMAA_ERRNO_SUCCESS)
        printf("%s: %s\n", id, name);
    else
        printf("%s: it never ran\n", id);
    return code == 0;
}

static int run(int count, char **command)
{
    drmaa_job_template_t *jt;
    drmaa_job_ids_t      *ids;
    const char           *category = getenv("DRMAA_SWEEP_CATEGORY");
    int                   well = 0, ended = 0, broken = 0;
    if (!good(drmaa_allocate_job_template(&jt, why, sizeof why), "drmaa_allocate_job_template"))
        return 0;
    int fine = good(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, command[0], why, sizeof why), DRMAA_REMOTE_COMMAND) &&
               good(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, (const char **)&command[1], why, sizeof why), DRMAA_V_ARGV) &&
               (!category || good(drmaa_set_attribute(jt, DRMAA_JOB_CATEGORY, category, why, sizeof why), DRMAA_JOB_CATEGORY)) &&
               good(drmaa_run_bulk_jobs(&ids, jt, 1, count, 1, why, sizeof why), "drmaa_run_bulk_jobs");
    drmaa_delete_job_template(jt, NULL, 0);
    if (!fine)
        return 0;
    drmaa_release_job_ids(ids);
    for (; ended < count && !broken; ended++) {
        int one = take_one();
        broken = one < 0;
        well += one == 1;
    }
    printf("%d jobs: %d ended well, %d did not\n", count, well, count - well);
    return !broken;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0;
    if (count < 1) {
        fprintf(stderr, "usage: drmaa-sweep COUNT COMMAND [ARGUMENT...]\n");
        return 1;
    }
    if (!good(drmaa_init(NULL, why, sizeof why), "drmaa_init"))
        return 1;
    int fine = run(count, &argv[2]);
    return good(drmaa_exit(why, sizeof why), "drmaa_exit") && fine ? 0 : 1;
}
