#include "calibrate.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fuzz.h"
#include "../study/study.h"
#include "htcsched/host.h"

const char calibrate_help[] =
    "usage: htc-sim calibrate [options]\n"
    "\n"
    "Measures what this machine's own store costs, in half a minute, and writes it down for the models:\n"
    "htc-sim kvs --costs FILE; of the same parts, and the start of a process, what manytask, dataflow,\n"
    "jobs and fairshare take. Members are started in a folder that is removed again, and asked over Unix\n"
    "sockets. The machine should have nothing else to do.\n"
    "\n"
    "  --output FILE, -o FILE  where the costs are written (costs.ini; -: standard output)\n"
    "  --dir DIR         where the members' folder is made: its disk is measured ($TMPDIR, else /tmp)\n"
    "  --quick           measure for a tenth of the time: a first look\n"
    "  --check           measure stores of 1, 2, 3, 5 and 8 members too, and say how far the model with\n"
    "                    these costs is off\n"
    "  --store ADDRESS   only ask the store, or the proxy, that listens at unix:PATH, by 16 clients with\n"
    "                    8 puts on their way each; prints one JSON object. It writes key/0 to key/999\n"
    "  --help            this\n"
    "\n"
    "Ends with 0; 2: it was called wrongly; 3: it could not be done; 4: it was interrupted.\n";

#define usage(...) usage_of("htc-sim calibrate", __VA_ARGS__)
#define POINTS_MAX 16
#define TAKES      3 /* of each point, of which the fastest counts */
#define SPAWNS     200

typedef struct calibration {
    const char         *output, *dir, *store; /* output NULL: costs.ini; store NULL: one of its own */
    int                 check, quick;
    double              others; /* part of the processors that other programs took */
    char                folder[256];
    point               point[POINTS_MAX];
    size_t              points;
    htc_sim_kvs_options costs;
    htc_ns              spawn;
    double              off; /* factor by which the model is away from what was measured */
} calibration;

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    stopped = number;
}

/* ---- for people who wait ---- */

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    va_list list;
    if (!isatty(STDERR_FILENO))
        return;
    va_start(list, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, list);
    fflush(stderr);
    va_end(list);
}

static void tell_fit(void *ctx, double done)
{
    (void)ctx;
    tell("finding costs that say this: %.0f %%", 100 * done);
}

/* ---- a folder that goes again ---- */

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_folder(calibration *c, htc_error *error)
{
    const char *at = c->dir ? c->dir : getenv("TMPDIR");
    snprintf(c->folder, sizeof c->folder, "%.200s/htc-calibrate-XXXXXX", at && at[0] ? at : "/tmp");
    if (mkdtemp(c->folder))
        return 1;
    *error = (htc_error){ .status = HTC_EIO };
    snprintf(error->where, sizeof error->where, "%.150s", c->folder);
    snprintf(error->text, sizeof error->text, "no folder can be made there: %s", strerror(errno));
    snprintf(error->hint, sizeof error->hint, "choose with --dir one that can be written");
    c->folder[0] = '\0';
    return 0;
}

/* ---- measuring ---- */

static int by_throughput(const void *a, const void *b)
{
    double x = ((const figures *)a)->throughput, y = ((const figures *)b)->throughput;
    return (x > y) - (x < y);
}

static int measure_point(point *p, const crew *c, size_t takes, htc_error *error)
{
    figures take[TAKES];
    for (size_t i = 0; i < takes; i++) {
        tell("measuring %s, %u requests on their way, %s", c->pid[0] ? "members" : "the store", p->load.clients * p->load.depth, p->load.puts ? "puts" : "gets");
        if (stopped || !load_run(&p->load, c, &take[i], error))
            return 0;
    }
    qsort(take, takes, sizeof *take, by_throughput);
    p->measured = take[takes - 1]; /* what else the machine does makes it slower */
    return 1;
}

/* The points with the number of members of the first one. */
static int measure_crew(const calibration *all, point *p, size_t n, htc_error *error)
{
    char dir[280];
    crew c;
    int  good;
    snprintf(dir, sizeof dir, "%s/%u", all->folder, p->members);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return 0;
    tell("starting %u member%s", p->members, p->members == 1 ? "" : "s");
    good = crew_start(&c, p->members, dir, error);
    for (size_t i = 0; i < n && good; i++)
        good = measure_point(&p[i], &c, all->quick ? 1 : TAKES, error);
    crew_end(&c);
    remove_folder(dir);
    return good;
}

static void add(calibration *c, uint32_t members, uint32_t clients, uint32_t depth, uint32_t puts)
{
    c->point[c->points++] = (point){ .members = members, .load = { clients, depth, puts, c->quick ? 0.1 : 0.4 } };
}

/* Seconds that all processors have worked, and that this process and its members have. */
static void worked(double *all, double *own)
{
    unsigned long long user = 0, nice = 0, system = 0;
    struct rusage      self, children;
    FILE              *f = fopen("/proc/stat", "re");
    *all = *own = 0;
    if (f && fscanf(f, "cpu %llu %llu %llu", &user, &nice, &system) == 3)
        *all = (double)(user + nice + system) / (double)sysconf(_SC_CLK_TCK);
    if (f)
        fclose(f);
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    const struct timeval *t[] = { &self.ru_utime, &self.ru_stime, &children.ru_utime, &children.ru_stime };
    for (size_t i = 0; i < 4; i++)
        *own += (double)t[i]->tv_sec + (double)t[i]->tv_usec / 1e6;
}

static int measure_all(calibration *c, htc_error *error)
{
    double before[2], after[2], begun = (double)htc_host_now() / 1e9;
    worked(&before[0], &before[1]);
    static const uint32_t members[] = { 1, 3 };
    for (size_t i = 0; i < 2; i++) {
        size_t first = c->points;
        add(c, members[i], 1, 1, 0);
        add(c, members[i], 1, 1, 1);
        add(c, members[i], 4, 16, 0);
        add(c, members[i], 4, 16, 1);
        add(c, members[i], 16, 1, 1);
        add(c, members[i], 32, 4, 0);
        add(c, members[i], 32, 4, 1);
        if (!measure_crew(c, &c->point[first], c->points - first, error))
            return 0;
    }
    worked(&after[0], &after[1]);
    c->others = (after[0] - before[0] - (after[1] - before[1])) / (((double)htc_host_now() / 1e9 - begun) * (double)sysconf(_SC_NPROCESSORS_ONLN));
    return 1;
}

/* A process that ends at once. */
static void measure_spawn(calibration *c)
{
    char  *argv[] = { "true", NULL }, *env[] = { NULL };
    htc_ns begun = htc_host_now();
    int    n = 0;
    tell("starting processes");
    for (int i = 0; i < SPAWNS && !stopped; i++) {
        pid_t pid;
        int   status;
        if (posix_spawnp(&pid, "true", NULL, NULL, argv, env) != 0)
            break;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        n++;
    }
    c->spawn = n ? (htc_ns)((htc_host_now() - begun) / (uint64_t)n) : 0;
}

static void fit(calibration *c)
{
    double sync = c->points > 1 ? c->point[1].measured.response - c->point[0].measured.response : 0; /* what one put takes more than one get, of one member */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->costs = (htc_sim_kvs_options){ .size = sizeof c->costs, .tick_ns = 10, .bytes = 200, .bandwidth = 10000000000, .cores = cores > 0 ? (uint32_t)cores : 1, .turn_ns = HTC_US, .wake_ns = 4 * HTC_US, .idle_ns = 20 * HTC_US,
                                      .unpack_ns = 500, .pack_ns = HTC_US, .service_ns = HTC_US, .accept_ns = 500, .client_ns = HTC_US, .commit_ns = 10 * HTC_US, .write_ns = 500,
                                      .sync_ns = sync > 2e-5 ? (htc_ns)(sync * 1e9) : 20 * HTC_US, .latency_ns = 2 * HTC_US };
    c->off = fit_costs(&c->costs, c->point, c->points, c->quick, tell_fit, NULL);
}

/* ---- what is told ---- */

/* What other models ask for is made of the same parts. A message between two processes that wait for one takes the whole way: it is packed, under way, wakes the
 * other and is unpacked there. */
static void write_others(const calibration *c, FILE *out)
{
    const htc_sim_kvs_options *o = &c->costs;
    uint64_t                   ends = o->pack_ns + o->unpack_ns + o->turn_ns, message = o->latency_ns + o->idle_ns + o->wake_ns + ends, request = ends + o->service_ns;
    uint64_t                   durable = o->commit_ns + o->write_ns + o->sync_ns, spawn = c->spawn;
    fprintf(out, "\n[manytask]\ncost.latency = %" PRIu64 "ns  ; of a message, from one process to another\ncost.dispatch = %" PRIu64 "ns ; a request is taken and answered\n", message, request);
    if (spawn)
        fprintf(out, "cost.task = %" PRIu64 "ns     ; a process is started, and ends\n", spawn);
    fprintf(out, "\n[dataflow]\ncost.latency = %" PRIu64 "ns\ncost.dispatch = %" PRIu64 "ns\ncost.store = %" PRIu64 "ns    ; of a member, for a request\n", message, request, request);
    fprintf(out, "cost.commit = %" PRIu64 "ns   ; until a change is durable\n", durable);
    if (spawn)
        fprintf(out, "cost.task = %" PRIu64 "ns\n", spawn);
    fprintf(out, "\n[jobs]\ncost.latency = %" PRIu64 "ns  ; of a message that is under way\ncost.pack = %" PRIu64 "ns     ; at its sender, and again at its receiver\n", o->latency_ns + o->idle_ns + o->wake_ns, ends / 2);
    fprintf(out, "cost.store = %" PRIu64 "ns\n", request);
    if (spawn)
        fprintf(out, "cost.launch = %" PRIu64 "ns   ; at each level of the tree\n\n[fairshare]\ncluster.launch = %" PRIu64 "ns\n", spawn, spawn);
}

static void write_costs(const calibration *c, FILE *out)
{
    const htc_sim_kvs_options *o = &c->costs;
    char                       name[64] = "", day[32] = "";
    time_t                     now = time(NULL);
    struct tm                  tm;
    gethostname(name, sizeof name - 1);
    if (gmtime_r(&now, &tm))
        strftime(day, sizeof day, "%Y-%m-%d", &tm);
    fprintf(out,
            "; Costs of %s, measured by htc-sim calibrate on %s. A run takes those of its model with --costs FILE.\n"
            "; With them the model of the store is %.0f %% off what was measured, on average.\n"
            "\n"
            "[kvs]                  ; of --store live: members and clients of this machine, over Unix sockets, a log that is synced\n"
            "cost.cores = %u\n"
            "cost.latency = %" PRIu64 "ns  ; of a message\n"
            "cost.turn = %" PRIu64 "ns     ; of a member or a program, whenever it works on what has come\n"
            "cost.wake = %" PRIu64 "ns     ; besides, if it had waited for that\n"
            "cost.idle = %" PRIu64 "ns     ; until a core that has nothing to do begins, which is no processor time\n"
            "cost.unpack = %" PRIu64 "ns   ; of a frame that has come\n"
            "cost.pack = %" PRIu64 "ns     ; of one that leaves\n"
            "cost.service = %" PRIu64 "ns  ; of a request\n"
            "cost.accept = %" PRIu64 "ns   ; where there are several, of each owner for its part, and of an answer at the first\n"
            "cost.client = %" PRIu64 "ns   ; of a request, at its client\n"
            "cost.commit = %" PRIu64 "ns   ; of a member, for each sync\n"
            "cost.write = %" PRIu64 "ns    ; and for each change in it\n"
            "cost.sync = %" PRIu64 "ns     ; of the disk\n"
            "cost.bytes = %" PRIu64 "\n"
            "cost.bandwidth = %" PRIu64 "\n",
            name, day, 100 * (c->off - 1), o->cores, o->latency_ns, o->turn_ns, o->wake_ns, o->idle_ns, o->unpack_ns, o->pack_ns, o->service_ns, o->accept_ns, o->client_ns, o->commit_ns, o->write_ns, o->sync_ns, o->bytes,
            o->bandwidth);
    write_others(c, out);
}

static void say_point(const calibration *c, const point *p)
{
    figures ours = fit_model(&c->costs, p);
    printf("%7u %8u %6u %5s %12.0f %12.0f %+8.1f %% %9.1f %6.1f %9.1f %6.1f\n", p->members, p->load.clients, p->load.depth, p->load.puts ? "puts" : "gets", p->measured.throughput, ours.throughput,
           100 * (ours.throughput / p->measured.throughput - 1), 1e6 * p->measured.members, 1e6 * ours.members, 1e6 * p->measured.client, 1e6 * ours.client);
}

static int check(calibration *c, htc_error *error)
{
    static const uint32_t members[] = { 1, 2, 3, 5, 8 };
    printf("members  clients  depth   ops   measured/s      model/s       off   members, model   client, model (us)\n");
    for (size_t i = 0; i < c->points; i++)
        say_point(c, &c->point[i]);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        point p[4] = { { .members = members[i], .load = { 8, 4, 0, 0.4 } }, { .members = members[i], .load = { 8, 4, 1, 0.4 } }, { .members = members[i], .load = { 16, 8, 0, 0.4 } },
                       { .members = members[i], .load = { 16, 8, 1, 0.4 } } };
        if (!measure_crew(c, p, 4, error))
            return 0;
        tell("%s", "");
        for (size_t k = 0; k < 4; k++)
            say_point(c, &p[k]);
    }
    return 1;
}

/* ---- a store of somebody else ---- */

static int ask_store(const calibration *c, htc_error *error)
{
    crew  there = { .n = 1, .dials = CREW_MAX }; /* a store of several says where its members are */
    point p = { .members = 1, .load = { 16, 8, 1, c->quick ? 0.1 : 1 } };
    snprintf(there.address[0], sizeof there.address[0], "%s", c->store);
    if (!measure_point(&p, &there, c->quick ? 1 : TAKES, error))
        return 0;
    tell("%s", "");
    printf("{\"requests_per_s\":%.1f,\"response_ms\":%.6f,\"client_us\":%.3f,\"clients\":%u,\"depth\":%u}\n", p.measured.throughput, 1e3 * p.measured.response,
           1e6 * p.measured.client, p.load.clients, p.load.depth);
    return 1;
}

/* ---- the command ---- */

static int write_file(const calibration *c, htc_error *error)
{
    int   screen = strcmp(c->output, "-") == 0;
    FILE *out = screen ? stdout : fopen(c->output, "we");
    if (out) {
        write_costs(c, out);
        int bad = ferror(out);
        if ((screen ? fflush(out) : fclose(out)) == 0 && !bad)
            return 1;
    }
    *error = (htc_error){ .status = HTC_EIO };
    snprintf(error->where, sizeof error->where, "%.150s", c->output);
    snprintf(error->text, sizeof error->text, "it cannot be written: %s", strerror(errno));
    snprintf(error->hint, sizeof error->hint, "name another file with -o");
    return 0;
}

static void until_stopped(void)
{
    struct sigaction action = { .sa_handler = stop };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int go_there(const calibration *c)
{
    htc_error error = { 0 };
    until_stopped();
    int good = ask_store(c, &error);
    tell("%s", "");
    if (stopped)
        return EXIT_STOPPED;
    if (!good)
        say_error(&error);
    return good ? EXIT_FINE : EXIT_BROKEN;
}

static int go(calibration *c)
{
    htc_error error = { 0 };
    int       good;
    until_stopped();
    good = make_folder(c, &error) && measure_all(c, &error);
    if (good)
        measure_spawn(c);
    if (good && !stopped)
        fit(c);
    tell("%s", "");
    good = good && !stopped && (!c->check || check(c, &error)) && write_file(c, &error);
    tell("%s", "");
    if (c->folder[0])
        remove_folder(c->folder);
    if (stopped)
        return EXIT_STOPPED;
    if (!good) {
        say_error(&error);
        return EXIT_BROKEN;
    }
    if (c->others > 0.05)
        fprintf(stderr, "htc-sim: other programs took %.0f %% of the processors meanwhile: measure again when they have ended\n", 100 * c->others);
    if (strcmp(c->output, "-") != 0)
        printf("%s has the costs of this machine; the model is %.0f %% off what was measured. htc-sim kvs --store live --costs %s\n", c->output, 100 * (c->off - 1), c->output);
    return EXIT_FINE;
}

int calibrate_command(int argc, char **argv)
{
    static const struct option options[] = { { "output", 1, NULL, 'o' }, { "dir", 1, NULL, 'd' }, { "check", 0, NULL, 'c' }, { "quick", 0, NULL, 'q' }, { "store", 1, NULL, 's' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
    calibration                c = { 0 };
    int                        option;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":o:", options, NULL)) != -1)
        switch (option) {
        case 'o':
            c.output = optarg;
            break;
        case 'd':
            c.dir = optarg;
            break;
        case 'c':
            c.check = 1;
            break;
        case 'q':
            c.quick = 1;
            break;
        case 's':
            c.store = optarg;
            break;
        case 'h':
            fputs(calibrate_help, stdout);
            return EXIT_FINE;
        default:
            return usage_of_option("calibrate", option, argv[optind - 1], options);
        }
    if (optind < argc)
        return usage("it takes options alone, not %s", argv[optind]);
    if (c.store && (c.output || c.dir || c.check))
        return usage("--store finds no costs: it goes with --quick alone");
    if (c.store && (strncmp(c.store, "unix:", 5) != 0 || !c.store[5] || strlen(c.store) >= sizeof(((crew *)0)->address[0])))
        return usage("--store takes unix:PATH, a socket");
    if (c.store)
        return go_there(&c);
    c.output = c.output ? c.output : "costs.ini";
    if (!c.output[0])
        return usage("--output takes the name of a file");
    return go(&c);
}
