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

/* A third of what is wanted is there; weights 1 to 10. */
static double one_call(size_t n, uint32_t policy, int times)
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
        bench_must(htc_allot(NULL, &o, users, n, n * 37, shares) == HTC_OK, "htc_allot");
        took[i] = bench_cpu_seconds() - t;
    }
    free(users);
    free(shares);
    return bench_median(took, (size_t)times);
}

/* promised: one user in so many has a minimum share of his own; 0: nobody. */
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

enum { DEMAND, WEIGHT, SLOTS, LEAVE_AND_COME, EXPLAIN, KINDS };
static const char *const kinds[] = { "demand changed, one share asked", "weight changed, one share asked",
                                     "slots changed, one share asked", "user leaves, another comes, one share asked",
                                     "share explained" };

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
    case SLOTS: /* to anything between none and enough for all */
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

static void growth_of_calls(const bench *b, const char *what, uint32_t policy)
{
    double took[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        took[i] = one_call((size_t)sizes[i], policy, b->quick ? 3 : 9);
        bench_row(b, &(bench_figure){ .what = what,
                                      .n = (uint64_t)sizes[i],
                                      .unit = "ms",
                                      .value = took[i] * 1e3,
                                      .goal = sizes[i] == 1e6 ? 200 : 0 });
    }
    bench_growth(b, what, sizes, took, SIZES);
}

static void growth_of_books(const bench *b, uint64_t promised)
{
    double      took[KINDS][SIZES], added[SIZES];
    char        what[96];
    const char *with = promised ? ", minimum shares" : "";
    for (size_t i = 0; i < SIZES; i++) {
        size_t          n = (size_t)sizes[i];
        htc_allot_book *book = book_of(n, promised, &added[i]);
        for (int kind = 0; kind < KINDS; kind++) {
            took[kind][i] = changes(book, kind, n, b->quick ? 20000 : 100000);
            htc_allot_book_set_slots(book, n * 37);
        }
        htc_allot_book_destroy(book);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        snprintf(what, sizeof what, "%s%s", kinds[kind], with);
        for (size_t i = 0; i < SIZES; i++)
            bench_row(b, &(bench_figure){ .what = what,
                                          .n = (uint64_t)sizes[i],
                                          .unit = "us",
                                          .value = took[kind][i],
                                          .goal = sizes[i] == 1e6 && !promised ? 5 : 0 });
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
    growth_of_calls(&b, "one call, eq1", HTC_ALLOT_EQ1);
    growth_of_calls(&b, "one call, maxmin", HTC_ALLOT_MAXMIN);
    growth_of_calls(&b, "one call, fcfs", HTC_ALLOT_FCFS);
    growth_of_books(&b, 0);
    return bench_close(&b);
}
