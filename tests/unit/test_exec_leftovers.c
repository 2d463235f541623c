/* What an agent that was killed left running, as its slot's records name it: ended by the next one, and nobody else is. */
#include "exec_drive.h"

#include <pthread.h>

static void *sleep_on(void *none)
{
    while (pause() == -1)
        ;
    return none;
}

/* A process in a session of its own whose first thread has ended while another one goes on. */
static pid_t without_its_first_thread(htc__proc *p)
{
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t other;
        if (setsid() < 0 || pthread_create(&other, NULL, sleep_on, NULL) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    while (htc__proc_read(pid, p) == 0 && p->state != 'Z')
        usleep(1000);
    return pid;
}

/* It looks like one that has ended, and has not: its memory counts, it is found by its environment, and it is ended. */
Test(exec, a_process_goes_on_without_its_first_thread)
{
    drive     d;
    char      boot[64], text[200], path[700];
    htc__proc p;
    htc_error error;
    uint32_t  ended = 0;
    drive_open(&d);
    pid_t pid = without_its_first_thread(&p);
    cr_assert(eq(int, p.ended, 0));
    cr_expect(p.memory > 100000, "%llu bytes", (unsigned long long)p.memory);
    cr_expect(htc__proc_has_env(pid, "PATH=", 1));
    htc_host_boot(boot);
    snprintf(text, sizeof text, "boot %s\n%d %llu\n", boot, pid, (unsigned long long)p.start);
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    snprintf(path, sizeof path, "%s/groups", d.slot);
    write_file(path, text);
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, &ended, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(u32, ended, 1));
    cr_assert(eq(int, htc__proc_read(pid, &p), 0)); /* our child, which nobody has waited for */
    cr_expect(eq(int, p.ended, 1));
    cr_expect(waitpid(pid, NULL, WNOHANG) == pid);
    drive_close(&d);
}

static pid_t leader_of_uid(uid_t uid)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (setsid() < 0 || (uid && setresuid(uid, uid, uid) != 0))
            _exit(1);
        pause();
        _exit(0);
    }
    htc__proc p = { 0 };
    uid_t     is = (uid_t)-1;
    while (htc__proc_read(pid, &p) == 0 && !p.ended && (p.session != pid || htc__proc_uid(pid, &is) != 0 || is != uid))
        usleep(1000);
    return pid;
}

/* Under root a slot belongs to the user whose agent was in it, and so does the record that root reads there. */
Test(exec, a_record_of_a_users_slot_ends_nobody_elses_processes)
{
    enum { ADA = 65103, BEN = 65104 };
    drive     d;
    char      boot[64], text[400], path[700];
    htc_error error;
    uint32_t  ended = 0;
    if (geteuid() != 0)
        cr_skip("only root starts processes of other uids");
    drive_open(&d);
    pid_t     all[3] = { leader_of_uid(0), leader_of_uid(BEN), leader_of_uid(ADA) };
    htc__proc p[3];
    for (int i = 0; i < 3; i++)
        cr_assert(eq(int, htc__proc_read(all[i], &p[i]), 0));
    htc_host_boot(boot);
    snprintf(text, sizeof text, "boot %s\n%d %llu\n%d %llu\n%d %llu\n", boot, all[0], (unsigned long long)p[0].start, all[1],
             (unsigned long long)p[1].start, all[2], (unsigned long long)p[2].start);
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    snprintf(path, sizeof path, "%s/groups", d.slot);
    write_file(path, text);
    cr_assert(eq(int, chown(d.slot, ADA, ADA), 0));
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, &ended, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(u32, ended, 1));
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(int, waitpid(all[i], NULL, i < 2 ? WNOHANG : 0), i < 2 ? 0 : all[i]), "process %d", i);
        kill(all[i], SIGKILL);
        waitpid(all[i], NULL, 0);
    }
    drive_close(&d);
}
