/* Names from anybody, beside a plain list: a registry has what was added under a kind and a name, in order, and nothing else; the typed
 * calls find what is of their kind alone; no text is a name that the rules do not allow. */
#include <string.h>

#include "htcsched/allot.h"
#include "htcsched/balance.h"
#include "htcsched/fit.h"
#include "htcsched/locality.h"
#include "htcsched/provision.h"
#include "htcsched/registry.h"
#include "htcsched/steal.h"
#include "check.h"
#include "core/codec.h"

#define MOST 300

typedef struct named {
    uint32_t    kind;
    char        name[HTC_REGISTRY_NAME_MAX + 1];
    const void *entry;
} named;

typedef struct list {
    named  all[MOST];
    size_t n;
} list;

static int is_name(const char *text)
{
    size_t n = strlen(text);
    return n >= 1 && n <= HTC_REGISTRY_NAME_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == n;
}

static const void *in_list(const list *l, uint32_t kind, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->all[i].kind == kind && strcmp(l->all[i].name, name) == 0)
            return l->all[i].entry;
    return NULL;
}

static void add(list *l, uint32_t kind, const char *name, const void *entry)
{
    l->all[l->n] = (named){ .kind = kind, .entry = entry };
    memcpy(l->all[l->n++].name, name, strlen(name) + 1);
}

/* What the library brings is what the list begins with. */
static void learn(const htc_registry *r, list *l)
{
    const void *entry;
    for (uint32_t kind = HTC_REGISTRY_STEAL; kind <= HTC_REGISTRY_SETUP; kind++)
        for (size_t i = 0; htc_registry_name(r, kind, i); i++) {
            CHECK(htc_registry_find(r, kind, htc_registry_name(r, kind, i), &entry) == HTC_OK);
            add(l, kind, htc_registry_name(r, kind, i), entry);
        }
}

static void check_order(const htc_registry *r, const list *l, uint32_t kind)
{
    size_t      n = 0, i = 0;
    const char *before = "", *name;
    for (size_t k = 0; k < l->n; k++)
        n += l->all[k].kind == kind;
    for (; (name = htc_registry_name(r, kind, i)); i++, before = name)
        CHECK(strcmp(before, name) < 0 && in_list(l, kind, name));
    CHECK(i == n);
}

#define TYPED(find, kind, type)                                                                                        \
    do {                                                                                                               \
        const type *found = NULL;                                                                                      \
        htc_status  status = find(r, name, &found);                                                                    \
        CHECK(status == (in_list(l, kind, name) ? HTC_OK : HTC_ENOTFOUND) && found == in_list(l, kind, name));         \
    } while (0)

static void check_typed(const htc_registry *r, const list *l, const char *name)
{
    uint32_t policy = 77, rule = 77;
    TYPED(htc_steal_find, HTC_REGISTRY_STEAL, htc_steal_policy);
    TYPED(htc_allot_find, HTC_REGISTRY_WEIGHT, htc_allot_weigher);
    TYPED(htc_balance_find, HTC_REGISTRY_BALANCE, htc_balance_policy);
    TYPED(htc_locality_find, HTC_REGISTRY_LOCALITY, htc_locality_policy);
    TYPED(htc_provision_find, HTC_REGISTRY_PROVISION, htc_provision_policy);
    TYPED(htc_provision_find_granter, HTC_REGISTRY_GRANT, htc_provision_granter);
    TYPED(htc_provision_find_setup, HTC_REGISTRY_SETUP, htc_provision_setup);
    TYPED(htc_fit_find, HTC_REGISTRY_FIT, htc_fit_policy);
    CHECK(htc_allot_policy_from_name(name, &policy) == HTC_OK ? policy <= HTC_ALLOT_FCFS : policy == 77);
    CHECK(htc_steal_rule_from_name(name, &rule) == HTC_OK ? rule <= HTC_STEAL_HALF : rule == 77);
}

#define AS(copy, policy)                                                                                               \
    do {                                                                                                               \
        copy = *(policy);                                                                                              \
        copy.name = name;                                                                                              \
        *entry = &copy;                                                                                                \
    } while (0)

/* Of its kind, or by the typed call that looks at what it is given: a policy of the library under one name more. */
static htc_status add_as(htc_registry *r, uint32_t kind, const char *name, const void *mine, const void **entry)
{
    static htc_locality_policy   locality;
    static htc_provision_policy  provision;
    static htc_provision_granter granter;
    static htc_provision_setup   setup;
    static htc_fit_policy        fit;
    switch (kind) {
    case HTC_REGISTRY_LOCALITY:
        AS(locality, htc_locality_builtin(HTC_LOCALITY_MDL));
        return htc_locality_register(r, &locality);
    case HTC_REGISTRY_PROVISION:
        AS(provision, htc_provision_policy_of(HTC_PROVISION_PAPER));
        return htc_provision_register(r, &provision);
    case HTC_REGISTRY_GRANT:
        AS(granter, htc_provision_granter_of(HTC_PROVISION_PARTIAL));
        return htc_provision_register_granter(r, &granter);
    case HTC_REGISTRY_SETUP:
        AS(setup, htc_provision_setup_of(HTC_PROVISION_WIPE_OS));
        return htc_provision_register_setup(r, &setup);
    case HTC_REGISTRY_FIT:
        CHECK(htc_registry_find(r, kind, "easy", entry) == HTC_OK);
        AS(fit, (const htc_fit_policy *)*entry);
        return htc_fit_register(r, &fit);
    default:
        *entry = mine;
        return htc_registry_add(r, kind, name, mine);
    }
}

static uint32_t kind_of(uint8_t op)
{
    uint32_t kind = op % 16;
    return kind <= HTC_REGISTRY_SETUP ? kind : HTC_REGISTRY_USER + kind % 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mine[MOST];
    static list       l;
    htc_registry     *r;
    htc_reader        in = htc_reader_of((htc_bytes){ data, size });
    l.n = 0;
    CHECK(htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK);
    CHECK(htc_registry_add_builtin(r) == HTC_EEXISTS);
    learn(r, &l);
    while (htc_reader_left(&in) && l.n < MOST) {
        uint8_t     op = htc_get_u8(&in), len = htc_get_u8(&in) % 80;
        uint32_t    kind = kind_of(op);
        char        name[80] = "";
        const void *entry, *there;
        htc_bytes   text = htc_get_raw(&in, len < htc_reader_left(&in) ? len : htc_reader_left(&in));
        if (text.len)
            memcpy(name, text.data, text.len);
        there = in_list(&l, kind, name);
        if (op & 16) {
            htc_status expected = !is_name(name) || kind == 0 ? HTC_EINVAL : there ? HTC_EEXISTS : HTC_OK;
            CHECK(add_as(r, kind, name, &mine[l.n], &entry) == expected);
            if (expected == HTC_OK)
                add(&l, kind, name, entry);
            there = in_list(&l, kind, name);
        }
        entry = NULL;
        CHECK(htc_registry_find(r, kind, name, &entry) == (there ? HTC_OK : HTC_ENOTFOUND) && entry == there);
        check_typed(r, &l, name);
        check_order(r, &l, kind);
    }
    htc_registry_destroy(r);
    return 0;
}
