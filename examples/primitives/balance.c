/* Two jobs look for nodes in eight partitions: one for half of the machine, one for all of it. The loop is what a controller does;
 * the store is an array here, and time passes only while somebody waits. */
#include <stdio.h>

#include "htcsched/balance.h"

#define PARTITIONS 8u

static uint32_t free_nodes[PARTITIONS];

static void run(htc_balance *balance, const char *job, uint64_t need)
{
    htc_balance_request *request;
    htc_balance_action   next;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_balance_progress progress;
    htc_rng              rng = { 1 };
    htc_ns               now = 0;
    uint32_t             held[PARTITIONS] = { 0 };
    if (htc_balance_begin(balance, need, &request) != HTC_OK)
        return;
    while (htc_balance_step(request, now, &rng, &answer, &next) == HTC_OK && next.kind != HTC_BALANCE_DONE)
        if (next.kind == HTC_BALANCE_TAKE) { /* with records: htc_record_take, least 1, by compare-and-swap */
            uint32_t *free = &free_nodes[next.partition], n = *free < next.nodes ? *free : next.nodes;
            *free -= n;
            held[next.partition] += n;
            answer = (htc_balance_answer){ n, *free };
            printf("%s: %u of partition %u\n", job, n, next.partition);
        } else if (next.kind == HTC_BALANCE_RELEASE) {
            printf("%s: not enough, all back\n", job);
            for (uint32_t i = 0; i < PARTITIONS; i++, held[i - 1] = 0)
                htc_balance_learn(balance, i, free_nodes[i] += held[i]);
            free_nodes[5] = 16; /* meanwhile somebody else's job ends */
            htc_balance_learn(balance, 5, 16);
        } else {
            now = next.until;
        }
    htc_balance_progress_of(request, &progress);
    printf("%s: has %u nodes after %u steals\n", job, (unsigned)progress.taken, (unsigned)progress.steals);
    htc_balance_end(request);
    for (uint32_t i = 0; i < PARTITIONS; i++) /* it has run */
        htc_balance_learn(balance, i, free_nodes[i] += held[i]);
}

int main(void)
{
    htc_balance_options options = { .size = sizeof options, .partitions = PARTITIONS, .own = 3, .tries = 2 };
    htc_balance        *balance;
    if (htc_balance_create(NULL, &options, &balance) != HTC_OK)
        return 1;
    for (uint32_t i = 0; i < PARTITIONS; i++)
        htc_balance_learn(balance, i, free_nodes[i] = i == 5 ? 0 : 16 - i);
    run(balance, "half", 50);
    run(balance, "full", 105);
    htc_balance_destroy(balance);
    return 0;
}
