/* Experiments and lengths of htc-sim from anybody, with the table of each model, and published ones: refused with a place, a cause and a next step, or read; what
 * was read can be set again, and is the same in a copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../examples/htc-sim/reproduce/experiment.h"
#include "../examples/htc-sim/study/ini.h"
#include "../examples/htc-sim/study/lengths.h"
#include "../examples/htc-sim/study/model.h"
#include "check.h"

static int is_line(const char *text)
{
    return text[0] && !strpbrk(text, "\n\r\033");
}

static void check_error(const htc_error *e, const char *file)
{
    CHECK(e->status < 0 && is_line(e->text) && is_line(e->hint) && strncmp(e->where, file, strlen(file)) == 0);
}

static void check_same(const settings *s, const settings *copy, size_t i)
{
    const char *value, *again;
    const char *name = settings_item(s, i, &value);
    CHECK(strcmp(settings_item(copy, i, &again), name) == 0 && strcmp(again, value) == 0);
    CHECK(strcmp(settings_text(s, name), value) == 0);
}

/* Every value as what it is asked for, whatever that is. */
static void ask(const settings *s, const char *name)
{
    uint64_t min, max;
    (void)settings_count(s, name);
    (void)settings_real(s, name);
    (void)settings_size(s, name);
    (void)settings_span(s, name);
    (void)settings_law(s, name);
    (void)settings_choice(s, name);
    settings_counts(s, name, &min, &max);
}

static void read_with(const model *m, const ini_text *text, const char *file)
{
    settings   *s = settings_create(m->table), *copy;
    htc_error   e = { 0 };
    const char *name, *value;
    CHECK(s != NULL);
    if (!ini_read(s, text, &e)) {
        check_error(&e, file);
    } else {
        CHECK((copy = settings_copy(s)) != NULL);
        for (size_t i = 0; (name = settings_item(s, i, &value)); i++) {
            check_same(s, copy, i);
            ask(s, name);
            CHECK(settings_set(copy, name, value, &e));
        }
        for (size_t i = 0; (name = settings_any_section(s, i)); i++)
            CHECK(strcmp(settings_any_section(copy, i), name) == 0 && settings_section_begins(copy, name, &e));
        settings_destroy(copy);
    }
    settings_destroy(s);
}

static void read_as_experiment(const char *file)
{
    htc_error   e = { 0 };
    experiment *x = experiment_open(file, &e);
    if (!x)
        check_error(&e, file);
    else
        CHECK(x->n_series <= SERIES_MAX && x->n_claims <= CLAIMS_MAX && x->base != NULL);
    experiment_close(x);
}

static void read_as_lengths(const char *file)
{
    htc_error e = { 0 };
    htc_ns   *lengths = NULL;
    size_t    n = 0;
    if (!lengths_read(file, &lengths, &n, &e))
        check_error(&e, file);
    else
        CHECK(n > 0);
    free(lengths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char      file[64];
    htc_error e = { 0 };
    int       fd = memfd_create("study", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    ini_text *text = ini_open(file, &e);
    if (!text)
        check_error(&e, file);
    for (const model *const *m = models; text && *m; m++)
        read_with(*m, text, file);
    ini_close(text);
    read_as_experiment(file);
    read_as_lengths(file);
    close(fd);
    return 0;
}
