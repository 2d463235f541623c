/* Three users on a hundred slots. A book keeps their shares while demands, slots and weights change one at a time, and
 * says why each share is what it is. */
#include <stdio.h>

#include "htcsched/allot.h"

static void show(const htc_allot_book *book, const char *when)
{
    uint64_t slots;
    printf("%s:", when);
    for (uint32_t user = 0; htc_allot_book_share(book, user, &slots) == HTC_OK; user++)
        printf("  user %u: %llu", user, (unsigned long long)slots);
    printf("\n");
}

int main(void)
{
    htc_allot_book          *book;
    htc_allot_book_options   options = HTC_ALLOT_BOOK_OPTIONS_INIT;
    const htc_allot_claim    ann = { .weight = 1024, .demand = 200 }, ben = { .weight = 1024, .demand = 50 };
    const htc_allot_claim    eve = { .weight = 1024, .demand = 300, .minimum = 20 };
    const htc_allot_weigher *weigher;
    htc_registry            *registry;
    htc_allot_reason         reason;
    uint32_t                 user;
    options.slots = 100;
    if (htc_allot_book_create(NULL, &options, &book) != HTC_OK)
        return 1;
    htc_allot_book_add(book, &ann, &user); /* numbers are 0, 1, 2, ... */
    htc_allot_book_add(book, &ben, &user);
    htc_allot_book_add(book, &eve, &user);
    show(book, "a third each");
    htc_allot_book_set_demand(book, 1, 10);
    show(book, "1 has work for 10 slots");
    htc_allot_book_set_slots(book, 40);
    show(book, "60 slots are lost");
    htc_allot_explain(book, 0, &reason);
    printf("why? %s\n", reason.text);

    /* Who used much lately stands back: weights by past usage, halved every hour. */
    const htc_ns       hour = 3600 * HTC_SECOND;
    htc_allot_weighing how = { .size = sizeof how, .now = 2 * hour, .half_life_ns = hour };
    htc_allot_facts    facts[3] = { { .usage = { 8000, 0 } }, { .usage = { 4000, 0 } }, { .usage = { 0, 0 } } };
    uint64_t           weights[3];
    if (htc_registry_create(NULL, &registry) != HTC_OK || htc_registry_add_builtin(registry) != HTC_OK)
        return 1;
    if (htc_allot_find(registry, "usage", &weigher) == HTC_OK)
        htc_allot_weigh(NULL, weigher, &how, facts, 3, weights, NULL);
    for (user = 0; user < 3; user++)
        htc_allot_book_set_weight(book, user, weights[user]);
    show(book, "weights by usage");
    htc_registry_destroy(registry);
    htc_allot_book_destroy(book);
    return 0;
}
