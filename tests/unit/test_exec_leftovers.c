/* What an agent that was killed left running, as its slot's records name it: ended by the next one, and nobody else is; and the lock of the slot, which keeps
 * others out meanwhile. */
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

/* The host is killed with its task running, one part of it in a session of its own; the next one finds the record, ends
 * what lives, and cleans. A process that merely has a recorded number again is left alone. */
Test(exec, what_a_killed_agent_left_is_ended_by_the_next)
{
    drive d;
    char  first[64] = "/tmp/htc-test-exec-pid-XXXXXX", second[64] = "/tmp/htc-test-exec-pid-XXXXXX", script[400], path[700];
    drive_open(&d);
    close(mkstemp(first));
    close(mkstemp(second));
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* or init would reap what we want to look at */
    snprintf(script, sizeof script,
             "sleep 1000 & echo $! > %s; setsid sh -c 'echo $$ > %s; : > ready; exec sleep 1000' & wait", first, second);
    shell(&d, script);
    pid_t host = fork();
    if (host == 0) {
        drive_run(&d);
        _exit(0);
    }
    for (int i = 0; i < 5000 && !is_ready(&d); i++)
        usleep(2000);
    cr_assert(is_ready(&d));
    htc_error error;
    uint32_t  ended = 0;
    cr_expect(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, &ended, &error), HTC_ELOCKED), "while it lives");
    kill(host, SIGKILL);
    cr_assert(waitpid(host, NULL, 0) == host);
    cr_expect(eq(int, alive(first), 1));
    cr_expect(eq(int, alive(second), 1));
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, &ended, &error), HTC_OK), "%s", error.text);
    cr_expect(ended >= 2, "%u", ended);
    cr_expect(eq(int, alive(first), 0));
    cr_expect(eq(int, alive(second), 0));
    snprintf(path, sizeof path, "%s/scratch", d.slot);
    cr_expect(access(path, F_OK) != 0);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    /* our own number with another start time */
    char      boot[64], text[200];
    htc__proc self;
    pid_t     innocent = fork();
    if (innocent == 0) {
        setsid();
        pause();
        _exit(0);
    }
    cr_assert(eq(int, htc__proc_read(innocent, &self), 0));
    htc_host_boot(boot);
    snprintf(text, sizeof text, "boot %s\n%d %llu\n", boot, innocent, (unsigned long long)self.start - 1);
    snprintf(path, sizeof path, "%s/groups", d.slot);
    write_file(path, text);
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, &ended, &error), HTC_OK));
    cr_expect(eq(u32, ended, 0));
    cr_expect(eq(int, kill(innocent, 0), 0));
    cr_expect(eq(int, waitpid(innocent, NULL, WNOHANG), 0));
    kill(innocent, SIGKILL);
    waitpid(innocent, NULL, 0);
    unlink(first);
    unlink(second);
    drive_close(&d);
}

static void let_go(void *ctx, uint32_t level, const char *text)
{
    int *held = ctx;
    (void)level;
    if (*held >= 0 && strstr(text, "is held"))
        close(*held), *held = -1;
}

/* What a killed agent was about to start holds its lock until it has closed what it inherited. */
Test(exec, a_lock_that_is_held_for_a_moment_is_waited_for)
{
    drive        d;
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char         path[700];
    htc_error    error;
    int          held;
    drive_open(&d);
    htc_log log = { .ctx = &held, .write = let_go, .level = HTC_LOG_DEBUG };
    htc_env env = { .size = sizeof env, .log = &log };
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    snprintf(path, sizeof path, "%s.lock", d.slot);
    held = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(held >= 0 && fcntl(held, F_OFD_SETLK, &whole) == 0);
    cr_expect(eq(int, htc_agent_host_recover(&env, d.slot, NULL, NULL, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(int, held, -1), "it was held at first");
    drive_close(&d);
}

/* Where root starts agents, what is in a slot is its user's. The lock is not: whoever could hold it would keep the slot from others. */
Test(exec, what_a_user_locks_in_a_slot_keeps_nobody_out)
{
    enum { ADA = 65105 };
    drive        d;
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct stat  st;
    char         path[700], home[HTC_AGENT_HOST_HOME_MAX];
    htc_error    error;
    int          lock = -1, status = -1;
    drive_open(&d);
    snprintf(path, sizeof path, "%s/lock", d.slot);
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    int held = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    cr_assert(held >= 0 && fcntl(held, F_OFD_SETLK, &whole) == 0);
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, &lock, NULL, &error), HTC_OK), "%s", error.text);
    cr_expect(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, NULL, &error), HTC_ELOCKED), "it is held from then on");
    snprintf(path, sizeof path, "%s.lock", d.slot);
    cr_assert(eq(int, lstat(path, &st), 0));
    cr_expect(st.st_uid == geteuid() && (st.st_mode & 07777) == 0600 && S_ISREG(st.st_mode));
    pid_t pid = geteuid() == 0 ? fork() : -1;
    if (pid == 0) { /* as the agent does: it goes on with the lock, and the user cannot get it */
        htc_host              *host;
        htc_agent_host        *agent;
        htc_agent_host_options o = { .size = sizeof o, .slot_dir = d.slot, .data_dir = "/tmp", .agent = 9, .lock = &lock };
        *strrchr(path, '/') = 0; /* slots */
        if (chmod(d.dir, 0711) != 0 || chmod(path, 0711) != 0)
            _exit(4);
        snprintf(path, sizeof path, "%s.lock", d.slot);
        if (htc_agent_host_become(d.slot, ADA, ADA, home, &error) != HTC_OK || htc_host_create(NULL, NULL, &host) != HTC_OK)
            _exit(1);
        if (htc_agent_host_create(NULL, host, &o, &agent, &error) != HTC_OK)
            _exit(2);
        _exit(open(path, O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 3);
    }
    cr_expect(pid < 0 || (waitpid(pid, &status, 0) == pid && status == 0), "%x", (unsigned)status);
    close(lock);
    cr_expect(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, NULL, &error), HTC_OK));
    close(held);
    drive_close(&d);
}
