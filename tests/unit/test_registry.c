/* Policies by kind and name: found again, refused twice, in order, and whole when memory is short. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/registry.h"
#include "property.h"

static const int things[8];

Test(registry, finds_what_was_added_under_its_kind)
{
    htc_registry *r;
    const void   *found = NULL;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, HTC_REGISTRY_STEAL, "random-half", &things[0]), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, HTC_REGISTRY_FIT, "random-half", &things[1]), HTC_OK));
    cr_expect(eq(int, htc_registry_find(r, HTC_REGISTRY_STEAL, "random-half", &found), HTC_OK));
    cr_expect(found == &things[0]);
    cr_expect(eq(int, htc_registry_find(r, HTC_REGISTRY_FIT, "random-half", &found), HTC_OK));
    cr_expect(found == &things[1]);
    cr_expect(eq(int, htc_registry_find(r, HTC_REGISTRY_WEIGHT, "random-half", &found), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_registry_find(r, HTC_REGISTRY_STEAL, "random", &found), HTC_ENOTFOUND));
    cr_expect(found == &things[1], "untouched on failure");
    cr_expect(eq(int, htc_registry_add(r, HTC_REGISTRY_FIT, "random-half", &things[2]), HTC_EEXISTS));
    htc_registry_destroy(r);
}

Test(registry, lists_the_names_of_a_kind_in_order)
{
    htc_registry *r;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, 2, "b", &things[0]), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, 1, "z", &things[0]), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, 2, "a", &things[0]), HTC_OK));
    cr_assert(eq(int, htc_registry_add(r, 3, "0", &things[0]), HTC_OK));
    cr_expect(eq(str, (char *)htc_registry_name(r, 2, 0), "a"));
    cr_expect(eq(str, (char *)htc_registry_name(r, 2, 1), "b"));
    cr_expect(htc_registry_name(r, 2, 2) == NULL);
    cr_expect(htc_registry_name(r, 2, SIZE_MAX) == NULL);
    cr_expect(htc_registry_name(r, 9, 0) == NULL);
    cr_expect(htc_registry_name(NULL, 1, 0) == NULL);
    htc_registry_destroy(r);
}

Test(registry, refuses_wrong_use)
{
    htc_registry *r;
    const void   *found;
    char          long_name[HTC_REGISTRY_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    cr_expect(eq(int, htc_registry_create(NULL, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    const char *bad[] = { "", "Upper", "with blank", "new\nline", long_name, NULL };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(eq(int, htc_registry_add(r, 1, bad[i], &things[0]), HTC_EINVAL), "name %zu", i);
    cr_expect(eq(int, htc_registry_add(r, 1, long_name + 1, &things[0]), HTC_OK));
    cr_expect(eq(int, htc_registry_add(r, 0, "a", &things[0]), HTC_EINVAL));
    cr_expect(eq(int, htc_registry_add(r, 1, "a", NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_registry_add(NULL, 1, "a", &things[0]), HTC_EINVAL));
    cr_expect(eq(int, htc_registry_find(r, 1, NULL, &found), HTC_EINVAL));
    cr_expect(eq(int, htc_registry_find(r, 1, "a", NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_registry_add_builtin(NULL), HTC_EINVAL));
    htc_registry_destroy(r);
    htc_registry_destroy(NULL);
}

Test(registry, is_full_at_its_limit)
{
    htc_registry *r;
    char          name[16];
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    for (int i = 0; i < HTC_REGISTRY_ENTRIES_MAX; i++) {
        snprintf(name, sizeof name, "p%d", i);
        cr_assert(eq(int, htc_registry_add(r, 1, name, &things[0]), HTC_OK));
    }
    cr_expect(eq(int, htc_registry_add(r, 2, "one-more", &things[0]), HTC_EFULL));
    htc_registry_destroy(r);
}

Test(registry, brings_its_policies_once)
{
    htc_registry *r;
    const char   *name;
    const void   *found;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(r), HTC_OK));
    for (uint32_t kind = 1; kind < 16; kind++)
        for (size_t i = 0; (name = htc_registry_name(r, kind, i)); i++)
            cr_expect(eq(int, htc_registry_find(r, kind, name, &found), HTC_OK), "%s", name);
    htc_registry_destroy(r);
}

/* Random adds and finds against a plain list. */
Test(registry, agrees_with_a_list)
{
    PROPERTY (rng, 500) {
        struct {
            uint32_t kind;
            char     name[4];
        } list[64];
        size_t        n = 0;
        htc_registry *r;
        HOLDS(htc_registry_create(NULL, &r) == HTC_OK);
        for (int step = 0; step < 64; step++) {
            uint32_t    kind = (uint32_t)htc_rng_below(&rng, 3) + 1;
            char        name[4] = { (char)('a' + htc_rng_below(&rng, 4)), (char)('a' + htc_rng_below(&rng, 4)), 0 };
            const void *found;
            int         there = 0;
            for (size_t i = 0; i < n; i++)
                there |= list[i].kind == kind && strcmp(list[i].name, name) == 0;
            HOLDS(htc_registry_find(r, kind, name, &found) == (there ? HTC_OK : HTC_ENOTFOUND));
            HOLDS(htc_registry_add(r, kind, name, &things[0]) == (there ? HTC_EEXISTS : HTC_OK));
            if (!there) {
                list[n].kind = kind;
                memcpy(list[n++].name, name, sizeof name);
            }
        }
        size_t listed = 0;
        for (uint32_t kind = 1; kind <= 3; kind++)
            for (size_t i = 0; htc_registry_name(r, kind, i); i++, listed++)
                HOLDS(i == 0 || strcmp(htc_registry_name(r, kind, i - 1), htc_registry_name(r, kind, i)) < 0);
        HOLDS(listed == n);
        htc_registry_destroy(r);
    }
}

/* A hundred names, until memory is refused. With one refusal alone what was refused goes through when it is tried again. */
static void add_without_memory(alloc_fail *f)
{
    htc_env       env = alloc_fail_env(f);
    htc_registry *r = NULL;
    char          name[16];
    if (htc_registry_create(&env, &r) == HTC_OK) {
        int i = 0;
        for (htc_status status = HTC_OK; i < 100; i++) {
            snprintf(name, sizeof name, "p%d", i);
            status = htc_registry_add(r, 1, name, &things[0]);
            if (status == HTC_ENOMEM && f->once)
                status = htc_registry_add(r, 1, name, &things[0]);
            if (status != HTC_OK)
                break;
        }
        cr_expect(i == 100 || (f->refused && !f->once));
        for (int k = 0; k < 100; k++) {
            const void *found;
            snprintf(name, sizeof name, "p%d", k);
            cr_expect(eq(int, htc_registry_find(r, 1, name, &found), k < i ? HTC_OK : HTC_ENOTFOUND));
        }
        size_t before = 0, after = 0;
        while (htc_registry_name(r, HTC_REGISTRY_STEAL, before))
            before++;
        htc_status status = htc_registry_add_builtin(r);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && f->refused));
        while (htc_registry_name(r, HTC_REGISTRY_STEAL, after))
            after++;
        cr_expect(status == HTC_OK ? after > before : after == before, "all or none");
    } else
        cr_expect(r == NULL && f->refused);
    htc_registry_destroy(r);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(registry, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 100)
    add_without_memory(&f);
    ALLOC_FAIL_ONCE(f, 100)
    add_without_memory(&f);
}
