/* Fair shares among up to a million users: in one call, and kept up to date in a book. */
#include "htcsched/allot.h"
#include "bench.h"

static const double sizes[] = { 1000, 10000, 100000, 300000, 1000000 };
#define SIZES (sizeof sizes / sizeof *sizes)

static htc_rng rng = { 20260101 };

static uint64_t some(uint64_t most)
{
    return htc_rng_below(&rng, most) + 1;
}

/* 120 slots are wanted by each user, on average, and weights are 1 to 10. */
static double one_call(size_t n, uint32_t policy, double slots_each, int times)
{
    htc_allot_options o = { .size = sizeof o, .policy = policy, .fixed_users = n };
    htc_allot_user   *users = calloc(n, sizeof *users);
    htc_allot_share  *shares = malloc(n * sizeof *shares);
    double            took[9];
    bench_must(users && shares, "memory");
    for (size_t i = 0; i < n; i++)
        users[i] = (htc_allot_user){ .weight = some(10) * 1024,
                                     .queued = some(200),
                                     .running = some(20),
                                     .agents = some(20),
                                     .last_served = some(1000000),
                                     .arrival = some(1000000),
                                     .id = i };
    for (int i = 0; i < times; i++) {
        double t = bench_cpu_seconds();
        bench_must(htc_allot(NULL, &o, users, n, (uint64_t)((double)n * slots_each), shares) == HTC_OK, "htc_allot");
        took[i] = bench_cpu_seconds() - t;
    }
    free(users);
    free(shares);
    return bench_median(took, (size_t)times);
}

/* The floors of this machine at this moment: a read of memory that no cache holds. A change and a share of a million users
 * are about ten such reads one after the other, each giving the address of the next; a call is a dozen passes from end to
 * end, and reads whose addresses are known long before are what bounds that. Where a read takes longer than on the machine
 * that goals were made for, goals grow with it. */
enum { READ_IN_A_ROW_NS = 290, READ_AHEAD_NS = 45 };
typedef struct floors {
    double in_a_row, ahead; /* ns */
} floors;

static floors floors_now(void)
{
    enum { N = 1 << 20, STEPS = 300000 }; /* lines of 64 bytes */
    uint32_t(*line)[16] = malloc(N * sizeof *line);
    uint32_t at = 0, sum = 0;
    floors   f;
    bench_must(line != NULL, "memory");
    for (uint32_t i = 0; i < N; i++)
        line[i][0] = i;
    for (uint32_t i = N - 1; i > 0; i--) { /* Sattolo: one cycle through all */
        uint32_t j = (uint32_t)htc_rng_below(&rng, i), keep = line[i][0];
        line[i][0] = line[j][0];
        line[j][0] = keep;
    }
    double t = bench_cpu_seconds();
    for (int i = 0; i < STEPS; i++)
        at = line[at][0];
    f.in_a_row = (bench_cpu_seconds() - t) / STEPS * 1e9;
    t = bench_cpu_seconds();
    for (uint32_t i = 0; i < STEPS; i++)
        sum += line[i * 2654435761U % N][0];
    f.ahead = (bench_cpu_seconds() - t) / STEPS * 1e9;
    bench_must(at < N && sum != 1, "reads");
    free(line);
    return f;
}

static double goal_of_a_call(const floors *f)
{
    return 200 * fmax(1, f->ahead / READ_AHEAD_NS);
}

static double goal_of_a_change(const floors *f)
{
    return 5 * fmax(1, f->in_a_row / READ_IN_A_ROW_NS);
}

static floors floors_printed(const bench *b)
{
    floors f = floors_now();
    bench_row(b, &(bench_figure){ .what = "floor: a read of cold memory", .n = 1, .unit = "ns", .value = f.in_a_row });
    bench_row(b,
              &(bench_figure){ .what = "floor: such a read asked for ahead", .n = 1, .unit = "ns", .value = f.ahead });
    return f;
}

/* promised: one user in so many has a minimum share; 0: none. */
static htc_allot_book *book_of(size_t n, uint64_t promised, double *add_ns)
{
    htc_allot_book        *book;
    htc_allot_book_options o = HTC_ALLOT_BOOK_OPTIONS_INIT;
    uint32_t               user;
    o.slots = n * 37;
    bench_must(htc_allot_book_create(NULL, &o, &book) == HTC_OK, "htc_allot_book_create");
    double t = bench_cpu_seconds();
    for (size_t i = 0; i < n; i++) {
        htc_allot_claim claim = { .weight = some(10) * 1024, .demand = some(220) };
        claim.minimum = promised && i % promised == 0 ? some(40) : 0;
        bench_must(htc_allot_book_add(book, &claim, &user) == HTC_OK, "htc_allot_book_add");
    }
    *add_ns = (bench_cpu_seconds() - t) / (double)n * 1e9;
    return book;
}

enum { DEMAND, WEIGHT, SLOTS, LEAVE_AND_COME, EXPLAIN, JUMP, KINDS };
static const char *const kinds[] = { "demand changed, one share asked",
                                     "weight changed, one share asked",
                                     "slots changed by up to 64, one share asked",
                                     "user leaves, another comes, one share asked",
                                     "share explained",
                                     "slots jump anywhere, one share asked" };

static void one_change(htc_allot_book *book, int kind, uint64_t n)
{
    uint32_t   user = (uint32_t)some(n) - 1;
    uint64_t   share;
    htc_status status = HTC_OK;
    switch (kind) {
    case DEMAND:
        status = htc_allot_book_set_demand(book, user, some(220));
        break;
    case WEIGHT:
        status = htc_allot_book_set_weight(book, user, some(10) * 1024);
        break;
    case SLOTS: /* nodes come and go */
        status = htc_allot_book_set_slots(book, n * 37 - 32 + some(64));
        break;
    case JUMP: /* to anything between none and enough for all: most users begin to divide, or no longer do */
        status = htc_allot_book_set_slots(book, some(n * 110));
        break;
    case LEAVE_AND_COME: {
        const htc_allot_claim claim = { .weight = some(10) * 1024, .demand = some(220) };
        bench_must(htc_allot_book_remove(book, user) == HTC_OK, "htc_allot_book_remove");
        status = htc_allot_book_add(book, &claim, &user);
        break;
    }
    default: {
        htc_allot_reason reason;
        status = htc_allot_explain(book, user, &reason);
    }
    }
    bench_must(status == HTC_OK, kinds[kind]);
    if (kind != EXPLAIN)
        bench_must(htc_allot_book_share(book, (uint32_t)some(n) - 1, &share) == HTC_OK, "htc_allot_book_share");
}

static double changes(htc_allot_book *book, int kind, size_t n, size_t times)
{
    double took[5];
    for (int round = 0; round < 5; round++) {
        double t = bench_cpu_seconds();
        for (size_t i = 0; i < times; i++)
            one_change(book, kind, n);
        took[round] = (bench_cpu_seconds() - t) / (double)times * 1e6;
    }
    return bench_median(took, 5);
}

/* Users who are all alike, and a slot that comes and goes: with it all have what they want, without it all divide. */
static void growth_past_equals(const bench *b)
{
    static const char what[] = "all users alike, a slot comes and goes, one share asked";
    double            took[SIZES][5], median[SIZES];
    floors            floor = floors_printed(b);
    for (size_t i = 0; i < SIZES; i++) {
        size_t                 n = (size_t)sizes[i], times = b->quick ? 20000 : 100000;
        htc_allot_book_options o = { .size = sizeof o, .slots = n * 10 };
        const htc_allot_claim  claim = { .weight = 1024, .demand = 10 };
        htc_allot_book        *book;
        uint32_t               user;
        uint64_t               share;
        bench_must(htc_allot_book_create(NULL, &o, &book) == HTC_OK, "htc_allot_book_create");
        for (size_t k = 0; k < n; k++)
            bench_must(htc_allot_book_add(book, &claim, &user) == HTC_OK, "htc_allot_book_add");
        for (int round = 0; round < 5; round++) {
            double t = bench_cpu_seconds();
            for (size_t k = 0; k < times; k++) {
                bench_must(htc_allot_book_set_slots(book, n * 10 - k % 2) == HTC_OK, "htc_allot_book_set_slots");
                bench_must(htc_allot_book_share(book, (uint32_t)some(n) - 1, &share) == HTC_OK, "htc_allot_book_share");
            }
            took[i][round] = (bench_cpu_seconds() - t) / (double)times * 1e6;
        }
        median[i] = bench_median(took[i], 5);
        bench_row(b, &(bench_figure){ .what = what,
                                      .n = n,
                                      .unit = "us",
                                      .value = median[i],
                                      .goal = n == 1000000 ? goal_of_a_change(&floor) : 0 });
        htc_allot_book_destroy(book);
    }
    bench_growth(b, what, sizes, median, SIZES);
}

static void growth_of_calls(const bench *b, const char *what, uint32_t policy, double slots_each)
{
    double took[SIZES];
    floors floor = floors_printed(b);
    for (size_t i = 0; i < SIZES; i++) {
        took[i] = one_call((size_t)sizes[i], policy, slots_each, b->quick ? 3 : 9);
        bench_row(b, &(bench_figure){ .what = what,
                                      .n = (uint64_t)sizes[i],
                                      .unit = "ms",
                                      .value = took[i] * 1e3,
                                      .goal = sizes[i] == 1e6 ? goal_of_a_call(&floor) : 0 });
    }
    bench_growth(b, what, sizes, took, SIZES);
}

static void growth_of_books(const bench *b, uint64_t promised)
{
    double      took[KINDS][SIZES], added[SIZES];
    floors      floor = floors_printed(b);
    char        what[96];
    const char *with = promised ? ", minimum shares" : "";
    for (size_t i = 0; i < SIZES; i++) {
        size_t          n = (size_t)sizes[i];
        htc_allot_book *book = book_of(n, promised, &added[i]);
        for (int kind = 0; kind < KINDS; kind++) {
            /* A jump moves so many across the level that all are counted anew, in O(n). */
            size_t times = kind == JUMP ? 20 : b->quick ? 20000 : 100000;
            took[kind][i] = changes(book, kind, n, times);
            htc_allot_book_set_slots(book, n * 37);
        }
        htc_allot_book_destroy(book);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        snprintf(what, sizeof what, "%s%s", kinds[kind], with);
        for (size_t i = 0; i < SIZES; i++)
            bench_row(b, &(bench_figure){
                             .what = what,
                             .n = (uint64_t)sizes[i],
                             .unit = "us",
                             .value = took[kind][i],
                             .goal = sizes[i] == 1e6 && !promised && kind != JUMP ? goal_of_a_change(&floor) : 0 });
        bench_growth(b, what, sizes, took[kind], SIZES);
    }
    snprintf(what, sizeof what, "user added%s", with);
    for (size_t i = 0; i < SIZES; i++)
        bench_row(b, &(bench_figure){ .what = what, .n = (uint64_t)sizes[i], .unit = "ns", .value = added[i] });
    bench_growth(b, what, sizes, added, SIZES);
}

int main(int argc, char **argv)
{
    bench b = bench_open("allot", argc, argv);
    growth_of_calls(&b, "one call, eq1", HTC_ALLOT_EQ1, 37);
    growth_of_calls(&b, "one call, eq1, one slot for most", HTC_ALLOT_EQ1, 1.2);
    growth_of_calls(&b, "one call, maxmin", HTC_ALLOT_MAXMIN, 37);
    growth_of_calls(&b, "one call, fcfs", HTC_ALLOT_FCFS, 37);
    growth_of_books(&b, 0);
    growth_of_books(&b, 10);
    growth_past_equals(&b);
    return bench_close(&b);
}
