/* htc.ini and the state directory: defaults, every kind of mistake with its place, the lock and the format. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/config.h"
#include "htcsched/state.h"
#include "net/files/files.h"
#include "net/files/proc.h"

static htc_config *parse(const char *text)
{
    htc_config *c = NULL;
    htc_error   error = { 0 };
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of(text), "t.ini", &c, &error), HTC_OK), "%s: %s", error.where,
              error.text);
    return c;
}

Test(config, defaults_work_without_a_file)
{
    htc_config         *c = NULL;
    htc_gateway_options o = { .size = sizeof o };
    htc_config_site     site = { .size = sizeof site };
    cr_assert(eq(int, htc_config_load(NULL, NULL, &c, NULL), HTC_OK));
    cr_expect(eq(str, (char *)htc_config_text(c, "fair.policy"), "maxmin"));
    cr_expect(eq(u64, htc_config_number(c, "split.max_tasks"), (uint64_t)1 << 40));
    cr_expect(eq(u64, htc_config_number(c, "log.bytes_max"), 8 << 20));
    cr_expect(eq(u64, htc_config_ns(c, "agent.heartbeat_s"), 10 * HTC_SECOND));
    cr_expect(eq(u64, htc_config_ns(c, "db.sync_ms"), 5 * HTC_MS));
    cr_expect(eq(u32, htc_config_durability(c), HTC_DURABLE_INTERVAL));
    cr_expect(eq(sz, htc_config_sites(c), 1));
    cr_assert(eq(int, htc_config_site_get(c, 0, &site), HTC_OK));
    cr_expect(site.cores >= 4 && site.memory > 0);
    cr_expect(eq(int, htc_config_site_get(c, 1, &site), HTC_EINVAL));
    cr_assert(eq(int, htc_config_gateway(c, &o), HTC_OK));
    cr_expect(eq(u64, o.lost_after_ns, 30 * HTC_SECOND));
    cr_expect(eq(u32, o.prefetch_max, 0));
    cr_expect(eq(u32, o.min_agents, 1));
    cr_expect(o.fair_users[0] == NULL);
    htc_config_destroy(c);
}

/* Every default is a value that the key itself allows. */
Test(config, every_default_is_allowed)
{
    htc_config *c = parse("");
    const char *key, *allowed, *fallback;
    htc_error   error;
    for (size_t i = 0; (key = htc_config_key(i, &allowed, &fallback)); i++) {
        cr_expect(eq(int, htc_config_set(c, key, fallback, &error), HTC_OK), "%s", error.text);
        cr_expect(strlen(allowed) > 0);
    }
    htc_config_destroy(c);
}

Test(config, values_are_read)
{
    htc_config *c = parse("; a comment\n[fair]\npolicy = static ; why not\n  users = ada, bob carl\nmin_agents=0\n"
                          "[db]\nmode = on\n[agent]\nprefetch = 8\nheartbeat_s = 0.25\n"
                          "[site.big-one]\ncores = 64\nmemory = 2G\n[site.small]\ncores=2\n[log]\nbytes_max=64K\n");
    htc_gateway_options o = { .size = sizeof o };
    cr_expect(eq(u32, htc_config_durability(c), HTC_DURABLE_SYNC));
    cr_expect(eq(str, (char *)htc_config_item(c, "fair.users", 2), "carl"));
    cr_expect(htc_config_item(c, "fair.users", 3) == NULL);
    cr_expect(eq(u64, htc_config_number(c, "log.bytes_max"), 65536));
    cr_assert(eq(int, htc_config_gateway(c, &o), HTC_OK));
    cr_expect(eq(str, (char *)o.policy, "static"));
    cr_expect(eq(u32, o.not_durable, 0));
    htc_config *off = parse("[db]\nmode = off\n");
    cr_assert(eq(int, htc_config_gateway(off, &o), HTC_OK));
    cr_expect(eq(u32, o.not_durable, 1));
    htc_config_destroy(off);
    cr_assert(eq(int, htc_config_gateway(c, &o), HTC_OK));
    cr_expect(eq(sz, o.n_sites, 2));
    cr_expect(eq(str, (char *)o.sites[0].name, "big-one"));
    cr_expect(eq(u32, o.sites[0].cores, 64));
    cr_expect(eq(u64, o.sites[0].memory, (uint64_t)2 << 30));
    cr_expect(eq(u32, o.sites[1].cores, 2));
    cr_expect(eq(u32, o.min_agents, UINT32_MAX));
    cr_expect(eq(u32, o.prefetch_max, 8));
    cr_expect(eq(u64, o.heartbeat_ns, 250 * HTC_MS));
    htc_config_destroy(c);
}

Test(config, mistakes_name_file_line_key_and_what_is_allowed)
{
    static const struct {
        const char *text;
        uint32_t    line;
        const char *says, *more;
    } cases[] = {
        { "[fair]\npolicy = eq1\nticks = 5\n", 3, "fair.ticks", "tick_s" },
        { "\n\n[unfair]\nx = 1\n", 4, "unfair.x", "sections are" },
        { "[fair]\npolicy = simple\n", 2, "maxmin|eq1|static|fcfs", "" },
        { "[agent]\nheartbeat_s = soon\n", 2, "agent.heartbeat_s", "" },
        { "[agent]\nheartbeat_s = nan\n", 2, "0.01 to 3600", "" },
        { "[agent]\nheartbeat_s = 1e999\n", 2, "0.01 to 3600", "" },
        { "[task]\nmax_attempts = 0\n", 2, "1 to 1000", "" },
        { "[task]\nmax_attempts = 1.5\n", 2, "1 to 1000", "" },
        { "[task]\nmax_attempts = 3x\n", 2, "1 to 1000", "" },
        { "[data]\ncontent_grace_s = 59\n", 2, "60 to 31536000", "" },
        { "[agent]\nidle_linger_s = 0\n", 2, "agent.idle_linger_s", "" },
        { "[log]\nbytes_max = 8Q\n", 2, "4K to 1T", "" },
        { "[db]\nmode = yes\n", 2, "sync|interval|memory", "" },
        { "[site.a b]\ncores = 1\n", 2, "site.NAME", "" },
        { "[site.a]\nadapter = lsf\n", 2, "fork", "" },
        { "[site.a]\nadapter = pbs\n", 2, "emu stands for it", "" },
        { "[site.a]\nadapter = ctld\n", 2, "cannot have agents as jobs yet", "" },
        { "[site.a]\nbatch_step = 4\n", 2, "site.a.batch_step", "adapter, cores" },
        { "[site.a]\ndir = relative\n", 2, "site.a.dir", "" },
        { "[site.a]\njobcomp = jobcomp.log\n", 2, "site.a.jobcomp", "" },
        { "[batch]\njobcomp = jobcomp.log\n", 2, "batch.jobcomp", "" },
        { "[emu]\nhold = 2\n", 2, "emu.hold", "" },
        { "[site.a]\ncolour = red\n", 2, "site.a.colour", "" },
        { "[server]\nlisten = 0.0.0.0:7000\n", 2, "beyond loopback", "" },
        { "[server]\nlisten = 192.0.2.1:7000\n", 2, "server.listen", "" },
        { "[server]\nlisten = 127.0.0.1\n", 2, "server.listen", "" },
        { "[server]\nlisten = 127.0.0.1:0\n", 2, "server.listen", "" },
        { "[server]\nlisten = 127.0.0.1:99999\n", 2, "server.listen", "" },
        { "[server]\nlisten = localhost:7000\n", 2, "server.listen", "" },
        { "[fair]\nnonsense\n", 2, "neither", "" },
        { "cores = 4\n", 1, "unknown key cores", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_config *c = NULL;
        htc_error   e = { 0 };
        char        where[32];
        cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of(cases[i].text), "my.ini", &c, &e), HTC_ECONFIG), "%s",
                  cases[i].text);
        cr_assert(c == NULL);
        snprintf(where, sizeof where, "my.ini:%u", cases[i].line);
        cr_expect(eq(u32, e.line, cases[i].line));
        cr_expect(eq(str, e.where, where));
        cr_expect(strstr(e.text, cases[i].says) != NULL, "%s", e.text);
        cr_expect(strstr(e.hint, cases[i].more) != NULL, "%s", e.hint);
    }
}

Test(config, periods_that_exclude_each_other_are_refused)
{
    static const struct {
        const char *text, *says, *more;
    } bad[] = {
        { "[agent]\nheartbeat_s = 60\n", "agent.lost_after_s = 30 is not longer than agent.heartbeat_s = 60", "set agent.heartbeat_s below 30, or agent.lost_after_s above 60" },
        { "[agent]\nlost_after_s = 10\n", "agent.lost_after_s = 10 is not longer than agent.heartbeat_s = 10", "agent.lost_after_s above 10" },
        { "[agent]\nheartbeat_s = 2\norphan_after_s = 2\n", "agent.orphan_after_s = 2 is not longer than agent.heartbeat_s = 2", "agent.orphan_after_s above 2" },
        { "[batch]\ntime_s = 100\ndrain_s = 80\n", "batch.drain_s = 80 and up to a quarter more is all of batch.time_s = 100", "set batch.drain_s below 80, or batch.time_s above 100" },
        { "[server]\njoin = here:1\n[db]\njoin = here:2\n[site.big]\nadapter = emu\ntime_s = 60\ndrain_s = 300\n", "site.big.drain_s = 300", "set site.big.drain_s below 48, or site.big.time_s above 375" },
    };
    static const char *const good[] = {
        "[agent]\nheartbeat_s = 60\nlost_after_s = 61\norphan_after_s = 61\n",
        "[agent]\norphan_after_s = 3\n", /* a host that joins: the heartbeat is its gateway's */
        "[batch]\ntime_s = 101\ndrain_s = 80\n",
        "[batch]\ndrain_s = 80\n",
        "[batch]\ntime_s = 1\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        htc_config *c = NULL;
        htc_error   e = { 0 };
        cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of(bad[i].text), "my.ini", &c, &e), HTC_ECONFIG), "%s", bad[i].text);
        cr_expect(c == NULL && strcmp(e.where, "my.ini") == 0);
        cr_expect(strstr(e.text, bad[i].says) != NULL, "%s", e.text);
        cr_expect(strstr(e.hint, bad[i].more) != NULL, "%s", e.hint);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        htc_config_destroy(parse(good[i]));
}

Test(config, a_long_line_is_refused_not_cut)
{
    char        text[1000] = "[fair]\nusers = ";
    htc_config *c = NULL;
    htc_error   e = { 0 };
    memset(text + strlen(text), 'u', 600);
    cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of(text), "my.ini", &c, &e), HTC_ECONFIG));
    cr_expect(eq(u32, e.line, 2));
    cr_expect(eq(int, htc_config_load(NULL, "/no/such/htc.ini", &c, &e), HTC_EINPUT));
    cr_expect(strstr(e.text, "/no/such/htc.ini") != NULL);
}

/* All sites are this machine: together they reserve no more than it has. */
Test(config, sites_divide_the_memory_that_none_of_them_names)
{
    htc_config     *c = NULL;
    htc_config_site a = { .size = sizeof a }, b = a, d = a, whole = a;
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of(""), NULL, &c, NULL), HTC_OK));
    cr_assert(eq(int, htc_config_site_get(c, 0, &whole), HTC_OK));
    cr_expect(eq(u64, whole.task_memory, whole.memory / whole.cores));
    htc_config_destroy(c);
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\ncores = 1\n[site.b]\ncores = 3\n[site.d]\ncores = 2\nmemory = 64M\ntask_memory = 8M\n"),
                                       NULL, &c, NULL), HTC_OK));
    htc_config_site_get(c, 0, &a);
    htc_config_site_get(c, 1, &b);
    htc_config_site_get(c, 2, &d);
    cr_expect(eq(u64, d.memory, 64 << 20) && eq(u64, d.task_memory, 8 << 20));
    cr_expect(eq(u64, b.memory, 3 * a.memory));
    cr_expect(a.memory + b.memory + d.memory <= whole.memory && a.memory + b.memory + d.memory > whole.memory - 8);
    htc_config_destroy(c);
}

/* Likewise the slots: sites that name none do not each have all cores of the machine. */
Test(config, sites_divide_the_slots_that_none_of_them_names)
{
    htc_config     *c = NULL;
    htc_config_site a = { .size = sizeof a }, b = a, d = a, whole = a;
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\nadapter = fork\n"), NULL, &c, NULL), HTC_OK));
    cr_assert(eq(int, htc_config_site_get(c, 0, &whole), HTC_OK));
    htc_config_destroy(c);
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\nadapter = fork\n[site.b]\nadapter = fork\n[site.d]\ncores = 1\n"), NULL, &c, NULL), HTC_OK));
    htc_config_site_get(c, 0, &a);
    htc_config_site_get(c, 1, &b);
    htc_config_site_get(c, 2, &d);
    cr_expect(eq(u32, d.cores, 1));
    cr_expect(eq(u32, a.cores + b.cores + d.cores, whole.cores));
    cr_expect(a.cores >= b.cores && a.cores - b.cores <= 1);
    htc_config_destroy(c);
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\ncores = 100000\n[site.b]\nadapter = fork\n"), NULL, &c, NULL), HTC_OK));
    htc_config_site_get(c, 0, &a);
    htc_config_site_get(c, 1, &b);
    cr_expect(a.cores == 100000 && b.cores == 1, "a site has a slot, and gets what it names");
    htc_config_destroy(c);
}

Test(config, a_task_reserves_no_more_than_its_site_has)
{
    htc_config *c = NULL;
    htc_error   e = { 0 };
    cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\nmemory = 4G\ntask_memory = 5G\n"), "my.ini", &c, &e), HTC_ECONFIG));
    cr_expect(strstr(e.text, "site.a.task_memory") != NULL, "%s", e.text);
    cr_expect(eq(str, e.where, "my.ini"));
}

/* A container has less than its machine: the lowest figure on the way up counts, "max" is none. */
/* What another gateway on the same store could not go on with, or would not find. */
Test(config, a_store_elsewhere_goes_with_hosts_that_join_alone)
{
#define STORE "[server]\njoin = 10.0.0.1:7420\n[db]\nstore = tcp://a@10.0.1.1:7421,tcp://b@10.0.1.2:7421\n"
    static const struct {
        const char *text, *why;
    } cases[] = {
        { STORE "[site.east]\nadapter = join\n", NULL },
        { STORE, "with db.store it is join" },
        { STORE "[site.here]\ncores = 2\n", "with db.store it is join" },
        { STORE "join = 10.0.0.1:7421\n[site.east]\nadapter = join\n", "db.join does not go with db.store" },
        { "[db]\nstore = unix:/run/kvd\n[site.east]\nadapter = join\n", "needs server.join" },
        { "[server]\njoin = 10.0.0.1:7420\n[db]\nstore = etcd://10.0.1.1:2379\n[site.east]\nadapter = join\n", NULL },
        { "[server]\njoin = 10.0.0.1:7420\n[db]\nstore = http://10.0.1.1:2379\n[site.east]\nadapter = join\n", "members of one store of htc-kvd" },
        { "[server]\njoin = 10.0.0.1:7420\n[db]\nstore = tcp://a@10.0.1.1:7421,b\n[site.east]\nadapter = join\n", "members of one store of htc-kvd" },
        { "[data]\nshared = /tmp\n", "data.shared is for db.store" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_config         *c = NULL;
        htc_error           e = { .status = 0 };
        htc_gateway_options o = { .size = sizeof o };
        htc_status          s = htc_config_parse(NULL, htc_bytes_of(cases[i].text), "x.ini", &c, &e);
        cr_expect(eq(int, s, cases[i].why ? HTC_ECONFIG : HTC_OK), "case %zu: %s", i, e.text);
        cr_expect(!cases[i].why || strstr(e.text, cases[i].why), "case %zu: %s", i, e.text);
        if (s == HTC_OK) {
            cr_expect(eq(int, htc_config_gateway(c, &o), HTC_OK));
            cr_expect(eq(u64, o.lease_ns, 10 * HTC_SECOND) && eq(u32, o.uploads_refused, 1) && eq(str, (char *)o.address, "10.0.0.1:7420"));
        }
        htc_config_destroy(c);
    }
}

Test(config, memory_is_what_the_cgroups_leave)
{
    static const struct {
        const char *outer, *inner;
        uint64_t    limit;
    } cases[] = { { NULL, NULL, UINT64_MAX }, { "max", "max", UINT64_MAX }, { "max", "4096", 4096 }, { "2048", "4096", 2048 },
                  { "8192", "max", 8192 },    { "", "1", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char base[] = "/tmp/htc-test-group-XXXXXX", inner[100], path[2][200];
        cr_assert(mkdtemp(base) != NULL);
        snprintf(inner, sizeof inner, "%s/inner", base);
        cr_assert(eq(int, mkdir(inner, 0700), 0));
        snprintf(path[0], sizeof path[0], "%s/memory.max", base);
        snprintf(path[1], sizeof path[1], "%s/memory.max", inner);
        for (int k = 0; k < 2; k++) {
            const char *text = k ? cases[i].inner : cases[i].outer;
            FILE       *f = text ? fopen(path[k], "w") : NULL;
            if (f)
                fprintf(f, "%s\n", text);
            if (f)
                fclose(f);
        }
        cr_expect(eq(u64, htc__memory_limit(base, inner, "memory.max"), cases[i].limit), "case %zu", i);
        unlink(path[0]);
        unlink(path[1]);
        rmdir(inner);
        rmdir(base);
    }
    cr_expect(htc__machine_memory() > 0);
}

/* --- the state directory --- */

/* HTCaaS 6: A second server is started on one state. */
Test(state, is_created_opened_locked_and_refused)
{
    char       base[] = "/tmp/htc-test-state-XXXXXX", dir[200], path[300];
    htc_state *s = NULL, *second = NULL;
    htc_error  e = { 0 };
    struct stat st;
    cr_assert(mkdtemp(base) != NULL);
    snprintf(dir, sizeof dir, "%s/a b/htc-state", base);
    cr_expect(eq(int, htc_state_open(NULL, dir, 0, &s, &e), HTC_ENOTFOUND));
    cr_expect(strstr(e.text, dir) != NULL, "%s", e.text);
    cr_assert(eq(int, htc_state_open(NULL, dir, 1, &s, &e), HTC_OK), "%s", e.text);
    cr_assert(eq(int, stat(dir, &st), 0));
    cr_expect(eq(u32, st.st_mode & 0777, 0700));
    cr_expect(eq(str, (char *)htc_state_dir(s), dir));
    snprintf(path, sizeof path, "%s/gateway.sock", dir);
    cr_expect(eq(str, (char *)htc_state_path(s, HTC_STATE_GATEWAY_SOCKET), path));
    cr_expect(eq(int, stat(htc_state_path(s, HTC_STATE_LOG), &st), 0));
    cr_expect(htc_state_path(s, 99) == NULL);
    /* a second one */
    cr_expect(eq(u32, htc_state_holder(s), 0));
    cr_assert(eq(int, htc_state_lock(s, &e), HTC_OK));
    cr_assert(eq(int, htc_state_open(NULL, dir, 1, &second, &e), HTC_OK));
    cr_expect(eq(u32, htc_state_holder(second), (uint32_t)getpid()));
    cr_expect(eq(int, htc_state_lock(second, &e), HTC_ELOCKED));
    snprintf(path, sizeof path, "process %d", getpid());
    cr_expect(strstr(e.text, path) != NULL, "%s", e.text);
    htc_state_close(s);
    cr_expect(eq(int, htc_state_lock(second, &e), HTC_OK), "%s", e.text);
    htc_state_close(second);
    /* another version */
    snprintf(path, sizeof path, "%s/format", dir);
    cr_assert(eq(int, htc_state_write_file(path, htc_bytes_of("htcsched 7\n"), 0600, &e), HTC_OK));
    cr_expect(eq(int, htc_state_open(NULL, dir, 1, &s, &e), HTC_EFORMAT));
    cr_expect(strstr(e.text, "version 7") && strstr(e.text, "version 1"), "%s", e.text);
    cr_assert(eq(int, htc_state_write_file(path, htc_bytes_of("rubbish"), 0600, &e), HTC_OK));
    cr_expect(eq(int, htc_state_open(NULL, dir, 0, &s, &e), HTC_EFORMAT));
    cr_assert(eq(int, htc_state_write_file(path, htc_bytes_of("htcsched 1\n"), 0600, &e), HTC_OK));
    chmod(dir, 0777);
    cr_expect(eq(int, htc_state_open(NULL, dir, 0, &s, &e), HTC_EDENIED));
    htc__remove_tree(base);
}

/* The lock ends with its process, however that ends. */
Test(state, a_killed_holder_leaves_no_lock)
{
    char       dir[] = "/tmp/htc-test-state-XXXXXX", byte;
    htc_state *s = NULL;
    int        ready[2];
    cr_assert(mkdtemp(dir) != NULL && pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (htc_state_open(NULL, dir, 1, &s, NULL) == HTC_OK && htc_state_lock(s, NULL) == HTC_OK &&
            write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    cr_assert(read(ready[0], &byte, 1) == 1);
    cr_assert(eq(int, htc_state_open(NULL, dir, 0, &s, NULL), HTC_OK));
    cr_expect(eq(int, htc_state_lock(s, NULL), HTC_ELOCKED));
    cr_expect(eq(u32, htc_state_holder(s), (uint32_t)pid));
    kill(pid, 9);
    waitpid(pid, NULL, 0);
    cr_expect(eq(u32, htc_state_holder(s), 0));
    cr_expect(eq(int, htc_state_lock(s, NULL), HTC_OK));
    htc_state_close(s);
    htc__remove_tree(dir);
}

Test(state, the_first_named_candidate_is_taken)
{
    static const char *const candidates[] = { "", "", "third", "fourth", NULL };
    cr_expect(eq(str, (char *)htc_state_find(candidates), "third"));
    cr_expect(htc_state_find(candidates + 4) == NULL);
}

/* A site whose broker the system starts has all that [batch] has. */
Test(config, agents_are_jobs_of_a_site)
{
    htc_config      *c = NULL;
    htc_config_site  site = { .size = sizeof site };
    htc_config_batch b = { .size = sizeof b };
    const char      *text = "[server]\njoin = h:1\n[db]\njoin = h:2\n[site.local]\ncores = 1\n[site.big]\nadapter = slurm\ncores = 300\nspeed = 2\norg = KISTI\ntype = SUN\nos = CentOS\n"
                            "batch_steps = 100\nmax_submit_per_s = 3\ntime_s = 7200\ndrain_s = 60\nrunning_max = 250\nqueued_max = 20\njobcomp = /var/log/jobcomp\nagent_cores = 4\ndir = /shared/x\n"
                            "options = --partition long\n[emu]\nclusters = a:3, b:4\ncluster_metric = queue\nservice_s = 0.25\n[batch]\nsystem = sge\n";
    htc_error        e = { .status = 0 };
    cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\nadapter = emu\n"), NULL, &c, &e), HTC_ECONFIG));
    cr_expect(strstr(e.text, "site.a.adapter = emu needs server.join and db.join") != NULL, "%s", e.text);
    cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of("[server]\njoin = h:1\n[db]\njoin = h:2\n[site.a]\nadapter = ssh\n"), NULL, &c, &e), HTC_ECONFIG));
    cr_expect(strstr(e.text, "adapter = ssh needs site.a.hosts") != NULL, "%s", e.text);
    cr_expect(eq(int, htc_config_parse(NULL, htc_bytes_of("[site.a]\noptions = -q x\n"), NULL, &c, &e), HTC_ECONFIG));
    cr_expect(strstr(e.text, "site.a.options is for adapter = slurm, sge, ssh or emu") != NULL, "%s", e.text);
    cr_assert(eq(int, htc_config_parse(NULL, htc_bytes_of(text), NULL, &c, &e), HTC_OK), "%s", e.text);
    cr_expect(eq(int, htc_config_site_get(c, 1, &site), HTC_OK));
    cr_expect(eq(str, site.adapter, "slurm"));
    cr_expect(eq(str, site.org, "KISTI"));
    cr_expect(eq(str, site.type, "SUN"));
    cr_expect(eq(str, site.os, "CentOS"));
    cr_expect(eq(u32, site.broker, 1));
    cr_expect(site.users != NULL, "to the gateway it is a site that a host joins");
    cr_expect(eq(int, htc_config_batch_get(c, "big", &b), HTC_OK));
    cr_expect(eq(str, b.system, "slurm"));
    cr_expect(eq(str, b.options, "--partition long"));
    cr_expect(eq(str, b.dir, "/shared/x"));
    cr_expect(eq(u32, b.slots, 300));
    cr_expect(eq(u32, b.cores, 4));
    cr_expect(eq(u32, b.steps, 100));
    cr_expect(eq(u32, b.submits_per_s, 3));
    cr_expect(eq(u32, b.running_max, 250));
    cr_expect(eq(u32, b.queued_max, 20));
    cr_expect(eq(str, (char *)b.jobcomp, "/var/log/jobcomp"));
    cr_expect(eq(u64, b.time_ns, 7200 * HTC_SECOND));
    cr_expect(eq(u64, b.drain_ns, 60 * HTC_SECOND));
    cr_expect(eq(u64, b.period_ns, 6 * HTC_SECOND));
    cr_expect(eq(u32, b.emu_by_queue, 1));
    cr_expect(eq(str, b.emu_clusters[1], "b:4"));
    cr_expect(eq(u64, b.emu_service_ns, HTC_SECOND / 4));
    cr_expect(eq(int, htc_config_batch_get(c, "local", &b), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_config_batch_get(c, "nowhere", &b), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_config_batch_get(c, NULL, &b), HTC_OK));
    cr_expect(eq(str, b.system, "sge"));
    cr_expect(eq(u32, b.submits_per_s, 1));
    htc_config_destroy(c);
}
