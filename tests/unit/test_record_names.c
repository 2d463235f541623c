/* Node lists and hostlist texts: numbers to names and back, what is refused and where, texts that read as what they
 * were. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/record.h"
#include "property.h"

static htc_record_names *names_of(const char *text)
{
    htc_record_names *names = NULL;
    htc_error         e = { .status = HTC_OK };
    cr_assert(htc_record_names_parse(NULL, htc_bytes_of(text), 0, &names, &e) == HTC_OK, "%s: %s", text, e.text);
    return names;
}

static htc_record_set *new_set(void)
{
    htc_record_set *set = NULL;
    cr_assert(htc_record_set_create(NULL, &set) == HTC_OK);
    return set;
}

static void expect_text(const htc_record_names *names, const htc_record_set *set, const char *want)
{
    htc_bytes text;
    cr_assert(eq(int, htc_record_names_text(NULL, names, set, &text), HTC_OK));
    cr_expect(htc_bytes_equal(text, htc_bytes_of(want)), "%.*s, expected %s", (int)text.len, (const char *)text.data,
              want);
    htc_record_free(NULL, text);
}

/* The text, all its names in order, and the text that is written for them. */
Test(record_names, reads_and_writes_hostlists)
{
    static const struct {
        const char *text, *all, *written;
    } table[] = {
        { "", "", "" },
        { " \n", "", "" },
        { "n[001-003,200]", "n001 n002 n003 n200", "n[001-003,200]" },
        { "n1,n2,n3", "n1 n2 n3", "n[1-3]" },
        { "n[08-10]", "n08 n09 n10", "n[08-10]" },
        { "n[8-10]", "n8 n9 n10", "n[8-10]" },
        { "n[08,09],n10,n[9]", "n08 n09 n10 n9", "n[08-10,9]" },
        { "n9,n010,n011", "n9 n010 n011", "n[9,010-011]" },
        { "n099,n100,n101", "n099 n100 n101", "n[099-101]" },
        { "n[099-101]", "n099 n100 n101", "n[099-101]" },
        { "n[98-101]", "n98 n99 n100 n101", "n[98-101]" },
        { "login, gpu[1-2],\n login2", "login gpu1 gpu2 login2", "login,gpu[1-2],login2" },
        { "a[1-2]-ib,a3-ib", "a1-ib a2-ib a3-ib", "a[1-3]-ib" },
        { "r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02", "r1n[01-02],r2n[01-02]" },
        { "r[1-2]n[01-02].site", "r1n01.site r1n02.site r2n01.site r2n02.site", "r1n[01-02].site,r2n[01-02].site" },
        { "a[1,3]b[2]c[0-1]", "a1b2c0 a1b2c1 a3b2c0 a3b2c1", "a1b2c[0-1],a3b2c[0-1]" },
        { "[0-3]", "0 1 2 3", "[0-3]" },
        { "7", "7", "7" },
        { "n[007]", "n007", "n007" },
        { "n[3,1-2]", "n3 n1 n2", "n[3,1-2]" },
        { "n0,n00,n000", "n0 n00 n000", "n[0,00,000]" },
        { "n1234567890123456789", "n1234567890123456789", "n1234567890123456789" },
        { "n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999",
          "n[999999999999999998-999999999999999999]" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_names *names = names_of(table[i].text);
        char              all[512] = "", name[HTC_RECORD_NAME_MAX + 1];
        for (uint32_t n = 0; n < htc_record_names_count(names); n++) {
            uint32_t back = UINT32_MAX;
            cr_assert(eq(int, htc_record_names_at(names, n, name), HTC_OK));
            cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of(name), &back), HTC_OK), "%s", name);
            cr_expect(eq(u32, back, n), "%s", name);
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", n ? " " : "", name);
        }
        cr_expect(eq(str, all, (char *)table[i].all), "%s", table[i].text);
        expect_text(names, NULL, table[i].written);
        htc_record_names_destroy(names);
    }
}

Test(record_names, says_where_a_text_is_wrong)
{
    static const struct {
        const char *text;
        htc_status  status;
        uint32_t    line, column;
        const char *says;
    } table[] = {
        { "n[1-3", HTC_EINVAL, 1, 2, "this bracket is never closed" },
        { "n[", HTC_EINVAL, 1, 3, "a number is missing" },
        { "n[]", HTC_EINVAL, 1, 3, "a number is missing" },
        { "n[1,]", HTC_EINVAL, 1, 5, "a number is missing" },
        { "n[1-]", HTC_EINVAL, 1, 5, "a range has no end" },
        { "n[3-1]", HTC_EINVAL, 1, 5, "a range ends before it begins" },
        { "n[1-010]", HTC_EINVAL, 1, 5, "the two ends of a range have different numbers of zeros in front" },
        { "n[001-10]", HTC_EINVAL, 1, 7, "the two ends of a range have different numbers of zeros in front" },
        { "n[1-1234567890123456789]", HTC_EINVAL, 1, 3, "a number has more than 18 digits" },
        { "n[1234567890123456789]", HTC_EINVAL, 1, 3, "a number has more than 18 digits" },
        { "n[1 ]", HTC_EINVAL, 1, 4, "only numbers, '-' and ',' may stand in brackets" },
        { "n[a]", HTC_EINVAL, 1, 3, "a number is missing" },
        { "n]", HTC_EINVAL, 1, 2, "no bracket is open here" },
        { "n1,,n2", HTC_EINVAL, 1, 4, "a name is missing" },
        { ",n1", HTC_EINVAL, 1, 1, "a name is missing" },
        { "n1,\n  ", HTC_EINVAL, 2, 3, "a name is missing" },
        { "n1 n2", HTC_EINVAL, 1, 4, "names are separated by commas" },
        { "n1,\nn\x01", HTC_EINVAL, 2, 2, "this character cannot be part of a name" },
        { "n\xc3\xa9", HTC_EINVAL, 1, 2, "this character cannot be part of a name" },
        { "a[1]b[1]c[1]d[1]e[1]", HTC_EINVAL, 1, 18, "more than 4 groups in one name" },
        { "n1,n2,\n  n[1-3]", HTC_EEXISTS, 2, 3, "n1 comes twice" },
        { "n[1-3],n3", HTC_EEXISTS, 1, 8, "n3 comes twice" },
        { "a[1-2]b3,a1b[3-4]", HTC_EEXISTS, 1, 10, "a1b3 comes twice" },
        { "n1[0-9],n[15]", HTC_EEXISTS, 1, 9, "n15 comes twice" },
        { "n[1-1048577]", HTC_ETOOBIG, 1, 1, "more than 1048576 names" },
        { "n[0-999999999999999999]", HTC_ETOOBIG, 1, 1, "more than 1048576 names" },
        { "a[1-2000]b[1-2000]", HTC_ETOOBIG, 1, 1, "more than 1048576 names" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_record_names *names = NULL;
        htc_error         e = { .status = HTC_OK };
        htc_status        status = htc_record_names_parse(NULL, htc_bytes_of(table[i].text), 0, &names, &e);
        cr_expect(eq(int, status, table[i].status), "%s", table[i].text);
        cr_expect(eq(int, e.status, table[i].status), "%s", table[i].text);
        cr_expect(eq(str, e.text, (char *)table[i].says), "%s", table[i].text);
        cr_expect(e.line == table[i].line && e.column == table[i].column, "%s: line %u, column %u", table[i].text,
                  e.line, e.column);
        cr_expect(names == NULL, "untouched on failure");
        cr_expect(eq(int, htc_record_names_parse(NULL, htc_bytes_of(table[i].text), 0, &names, NULL), table[i].status));
    }
}

Test(record_names, refuses_names_that_are_too_long)
{
    char              text[600];
    htc_record_names *names = NULL;
    htc_error         e;
    for (size_t n = HTC_RECORD_NAME_MAX - 3; n <= HTC_RECORD_NAME_MAX + 3; n++) {
        const char *tails[] = { "", "[7]", "[7]x", "[07]", "[7][1]" };
        size_t      more[] = { 0, 1, 2, 2, 2 };
        for (size_t t = 0; t < 5; t++) {
            memset(text, 'x', n);
            strcpy(text + n, tails[t]);
            htc_status status = htc_record_names_parse(NULL, htc_bytes_of(text), 0, &names, &e);
            cr_expect(eq(int, status, n + more[t] <= HTC_RECORD_NAME_MAX ? HTC_OK : HTC_ETOOBIG), "%zu%s", n, tails[t]);
            if (status == HTC_OK)
                htc_record_names_destroy(names);
        }
    }
}

/* A set of nodes as a user writes it, and as it is shown. */
Test(record_names, sets_have_texts)
{
    static const struct {
        const char *text, *written;
        uint32_t    count;
    } table[] = {
        { "n[001-128,200]", "n[001-128,200]", 129 },
        { "n200,n[127-128],n001", "n[001,127-128,200]", 4 },
        { "gpu1, n001, gpu[1-2]", "n001,gpu[1-2]", 3 },
        { "", "", 0 },
        { "n002,n001,n002", "n[001-002]", 2 },
        { "n[001-128,200],gpu[1-4],login", "n[001-128,200],gpu[1-4],login", 134 },
    };
    htc_record_names *names = names_of("n[001-128,200],gpu[1-4],login");
    htc_record_set   *set = new_set();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cr_assert(eq(int, htc_record_names_set(names, htc_bytes_of(table[i].text), set, NULL), HTC_OK), "%s",
                  table[i].text);
        cr_expect(eq(u32, htc_record_set_count(set), table[i].count), "%s", table[i].text);
        expect_text(names, set, table[i].written);
    }
    const struct {
        const char *text, *says;
        uint32_t    column;
    } wrong[] = { { "n[001-129]", "n129 is not in the node list", 1 },
                  { "n001,n1", "n1 is not in the node list", 6 },
                  { "n[001-999999999]", "more than 1048576 names", 1 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        htc_error  e;
        htc_status status = htc_record_names_set(names, htc_bytes_of(wrong[i].text), set, &e);
        cr_expect(eq(int, status, i == 2 ? HTC_ETOOBIG : HTC_ENOTFOUND));
        cr_expect(eq(str, e.text, (char *)wrong[i].says));
        cr_expect(eq(u32, e.column, wrong[i].column));
        cr_expect(eq(u32, htc_record_set_count(set), 134), "as it was");
    }
    htc_record_set_destroy(set);
    htc_record_names_destroy(names);
}

/* A fragmented machine of 65,536 nodes has a text, and the text is that set. */
Test(record_names, a_large_list_is_one_short_text)
{
    htc_record_names *names = names_of("n[00001-65536]");
    htc_record_set   *set = new_set(), *again = new_set();
    htc_rng           rng = { 5 };
    htc_bytes         text;
    cr_expect(eq(u32, htc_record_names_count(names), 65536));
    expect_text(names, NULL, "n[00001-65536]");
    for (uint32_t i = 0; i < 65536; i++)
        if (htc_rng_below(&rng, 2))
            cr_assert(htc_record_set_add(set, i, 1) == HTC_OK);
    cr_assert(eq(int, htc_record_names_text(NULL, names, set, &text), HTC_OK));
    cr_assert(eq(int, htc_record_names_set(names, text, again, NULL), HTC_OK));
    cr_expect(htc_record_set_equal(set, again));
    htc_record_free(NULL, text);
    htc_record_set_destroy(set);
    htc_record_set_destroy(again);
    htc_record_names_destroy(names);
}

/* ---- Against a model: an array of strings ---- */

#define MODEL_NAMES 120

static char model[MODEL_NAMES][24];
static int  model_n;

static int model_find(const char *name)
{
    for (int i = 0; i < model_n; i++)
        if (strcmp(model[i], name) == 0)
            return i;
    return -1;
}

/* Random names out of few shapes, so that they often meet; 0 if one came twice. */
static int draw(htc_rng *rng, char *text, size_t cap)
{
    static const char *const before[] = { "n", "", "r1n", "x-" }, *const behind[] = { "", "-ib", "5", "" };
    int distinct = 1;
    model_n = 0;
    text[0] = '\0';
    for (uint64_t items = htc_rng_below(rng, 8); items > 0; items--) {
        const char *b = before[htc_rng_below(rng, 4)], *a = behind[htc_rng_below(rng, 4)];
        unsigned    first = (unsigned)htc_rng_below(rng, 120), count = 1 + (unsigned)htc_rng_below(rng, 12);
        int         width = (int)htc_rng_below(rng, 4);
        char        low[16], high[16], item[64];
        snprintf(low, sizeof low, "%0*u", width, first);
        snprintf(high, sizeof high, "%0*u", low[0] == '0' && low[1] ? width : 0, first + count - 1);
        if (count == 1)
            snprintf(item, sizeof item, htc_rng_below(rng, 2) ? "%s%s%s" : "%s[%s]%s", b, low, a);
        else
            snprintf(item, sizeof item, "%s[%s-%s]%s", b, low, high, a);
        snprintf(text + strlen(text), cap - strlen(text), "%s%s", text[0] ? "," : "", item);
        for (unsigned v = first; v < first + count; v++) {
            char name[64];
            snprintf(name, sizeof name, "%s%0*u%s", b, low[0] == '0' && low[1] ? width : 0, v, a);
            distinct &= model_find(name) < 0;
            if (model_n < MODEL_NAMES)
                memcpy(model[model_n++], name, strlen(name) + 1);
        }
    }
    return distinct;
}

static void check_list(const htc_record_names *names)
{
    char     name[HTC_RECORD_NAME_MAX + 1];
    uint32_t node;
    HOLDS(htc_record_names_count(names) == (uint32_t)model_n);
    for (int i = 0; i < model_n; i++) {
        HOLDS(htc_record_names_at(names, (uint32_t)i, name) == HTC_OK);
        HOLDS(strcmp(name, model[i]) == 0, "%s, expected %s", name, model[i]);
        HOLDS(htc_record_names_find(names, htc_bytes_of(name), &node) == HTC_OK && node == (uint32_t)i);
    }
    HOLDS(htc_record_names_at(names, (uint32_t)model_n, name) == HTC_ENOTFOUND);
}

static void check_set_text(htc_rng *rng, const htc_record_names *names)
{
    htc_record_set *set = new_set(), *again = new_set();
    htc_bytes       text;
    uint64_t        odds = 1 + htc_rng_below(rng, 8);
    for (int i = 0; i < model_n; i++)
        if (htc_rng_below(rng, 8) < odds)
            HOLDS(htc_record_set_add(set, (uint32_t)i, 1) == HTC_OK);
    HOLDS(htc_record_names_text(NULL, names, set, &text) == HTC_OK);
    HOLDS(htc_record_names_set(names, text, again, NULL) == HTC_OK);
    HOLDS(htc_record_set_equal(set, again), "%.*s", (int)text.len, (const char *)text.data);
    htc_record_free(NULL, text);
    htc_record_set_destroy(set);
    htc_record_set_destroy(again);
}

Test(record_names, agree_with_an_array_of_strings)
{
    uint32_t accepted = 0;
    PROPERTY(rng, 3000)
    {
        char              text[512];
        int               distinct = draw(&rng, text, sizeof text);
        htc_record_names *names = NULL, *again = NULL;
        htc_bytes         written;
        htc_status        status = htc_record_names_parse(NULL, htc_bytes_of(text), 0, &names, NULL);
        HOLDS(status == (distinct ? HTC_OK : HTC_EEXISTS), "%s: %s", text, htc_status_name(status));
        if (status != HTC_OK)
            continue;
        accepted++;
        check_list(names);
        check_set_text(&rng, names);
        HOLDS(htc_record_names_text(NULL, names, NULL, &written) == HTC_OK);
        HOLDS(htc_record_names_parse(NULL, written, 0, &again, NULL) == HTC_OK);
        check_list(again);
        htc_record_free(NULL, written);
        htc_record_names_destroy(names);
        htc_record_names_destroy(again);
    }
    cr_expect(accepted > property_times(500) || getenv("HTC_TEST_SEED"));
}

Test(record_names, refuse_wrong_use)
{
    htc_record_names *names = names_of("n[1-3]"), *other = NULL;
    htc_record_set   *set = new_set();
    htc_bytes         text;
    char              name[HTC_RECORD_NAME_MAX + 1], long_name[HTC_RECORD_NAME_MAX + 2] = { 0 };
    uint32_t          node = 77;
    memset(long_name, 'n', sizeof long_name - 1);
    cr_expect(eq(int, htc_record_names_parse(NULL, htc_bytes_of("a"), 0, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_names_parse(NULL, (htc_bytes){ NULL, 3 }, 0, &other, NULL), HTC_EINVAL));
    cr_expect(
        eq(int, htc_record_names_parse(NULL, htc_bytes_of("a"), HTC_RECORD_NODES_MAX + 1, &other, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_names_parse(NULL, htc_bytes_of("a,b"), 1, &other, NULL), HTC_ETOOBIG));
    cr_expect(eq(int, htc_record_names_at(names, 3, name), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_names_at(names, 0, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_names_at(NULL, 0, name), HTC_EINVAL));
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of("n4"), &node), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of("n01"), &node), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of(""), &node), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of(long_name), &node), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of("n1"), NULL), HTC_EINVAL));
    cr_expect(eq(u32, node, 77), "untouched on failure");
    cr_expect(eq(int, htc_record_names_set(names, htc_bytes_of("n1"), NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_record_names_set(NULL, htc_bytes_of("n1"), set, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_record_set_add(set, 3, 1), HTC_OK));
    cr_expect(eq(int, htc_record_names_text(NULL, names, set, &text), HTC_EINVAL), "the list has no fourth node");
    cr_expect(eq(int, htc_record_names_text(NULL, names, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(u32, htc_record_names_count(NULL), 0));
    htc_record_names_destroy(NULL);
    htc_record_names_destroy(names);
    names = names_of("");
    cr_expect(eq(int, htc_record_names_find(names, htc_bytes_of("n1"), &node), HTC_ENOTFOUND));
    htc_record_names_destroy(names);
    htc_record_set_destroy(set);
}

static void work_once(alloc_fail *f, const htc_env *env)
{
    htc_record_names *names = NULL;
    htc_record_set   *set = NULL;
    htc_bytes         text = { NULL, 0 };
    htc_error         e = { .status = HTC_OK };
    htc_status        status = htc_record_set_create(env, &set);
    if (status == HTC_OK)
        status = htc_record_set_add(set, 5, 1);
    if (status == HTC_OK)
        status = htc_record_names_parse(env, htc_bytes_of("r[1-9]n[1-40],login"), 0, &names, &e);
    if (status == HTC_OK) {
        status = htc_record_names_set(names, htc_bytes_of("r5n[1-3,5],login"), set, &e);
        cr_expect(eq(u32, htc_record_set_count(set), status == HTC_OK ? 5 : 1));
    }
    if (status == HTC_OK)
        status = htc_record_names_text(env, names, set, &text);
    cr_expect(eq(int, status, f->refused ? HTC_ENOMEM : HTC_OK));
    if (names)
        expect_text(names, NULL,
                    "r1n[1-40],r2n[1-40],r3n[1-40],r4n[1-40],r5n[1-40],r6n[1-40],r7n[1-40],r8n[1-40],r9n[1-40],login");
    htc_record_free(env, text);
    htc_record_names_destroy(names);
    htc_record_set_destroy(set);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(record_names, stay_as_they_were_without_memory)
{
    ALLOC_FAIL_EVERY(f, 200)
    {
        htc_env env = alloc_fail_env(&f);
        work_once(&f, &env);
    }
    ALLOC_FAIL_ONCE(f, 200)
    {
        htc_env env = alloc_fail_env(&f);
        work_once(&f, &env);
    }
}
