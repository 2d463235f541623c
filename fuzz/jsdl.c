/* A JSDL document from a stranger: refused with a reason, or a specification whose stored form reads back and whose
 * tasks stay in their directory. Staged, it is XML still, and no file is named in it any more. */
#include <string.h>

#include "check.h"
#include "work/work_private.h"

static void look_at(const htc_spec *spec, uint64_t index)
{
    htc_task  *t = NULL;
    htc_error  e;
    htc_status status = htc_spec_task(spec, index, &t, &e);
    if (status != HTC_OK) {
        CHECK(e.status == status && e.text[0]);
        return;
    }
    CHECK(t->index == index && t->executable[0] && !t->args[t->n_args] && !t->env[t->n_env] &&
          t->values_json[0] == '{');
    for (size_t i = 0; i < t->n_in; i++)
        CHECK(htc__path_stays(htc_bytes_of(t->in[i].name)));
    htc_task_destroy(t);
}

static htc_status file(void *ctx, const char *name, const char **uri, uint32_t *flags)
{
    (void)name;
    ++*(size_t *)ctx;
    *uri = "htc:&<0>";
    *flags = HTC_STAGE_EXECUTABLE;
    return HTC_OK;
}

static htc_status program(void *ctx, const char *name, const char **uri)
{
    (void)ctx;
    *uri = htc__path_stays(htc_bytes_of(name)) ? "htc:&<1>" : NULL;
    return HTC_OK;
}

static void stage(htc_bytes xml)
{
    size_t      files = 0;
    htc_staging asked = { .size = sizeof asked, .file = file, .program = program, .ctx = &files };
    htc_error   e = { .status = HTC_OK };
    htc_bytes   once, twice;
    htc_status  status = htc_jsdl_stage(NULL, xml, &asked, &once, &e);
    if (status != HTC_OK) {
        CHECK(e.status == status && e.text[0]);
        return;
    }
    files = 0;
    CHECK(htc_jsdl_stage(NULL, once, &asked, &twice, &e) == HTC_OK && files == 0);
    htc_work_free(NULL, once);
    htc_work_free(NULL, twice);
}

/* What it says of its job goes into another document and comes back. */
static void wishes_again(const htc_spec *spec)
{
    static const char *const run[] = { "run" };
    const htc_wish          *was, *is;
    size_t                   n = htc_spec_wishes(spec, &was);
    htc_command              command = { .size = sizeof command, .words = run, .n_words = 1, .wishes = was, .n_wishes = n };
    htc_spec                *again = NULL;
    htc_bytes                xml;
    htc_error                e;
    CHECK(htc_command_to_jsdl(NULL, &command, &xml, &e) == HTC_OK);
    CHECK(htc_spec_parse(NULL, xml, NULL, &again, &e) == HTC_OK && htc_spec_wishes(again, &is) == n);
    for (size_t i = 0; i < n; i++) /* both are in the schema's order */
        CHECK(strcmp(was[i].name, is[i].name) == 0 && strcmp(was[i].value, is[i].value) == 0);
    htc_spec_destroy(again);
    htc_work_free(NULL, xml);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_spec  *spec = NULL, *back = NULL;
    htc_error  e = { .status = HTC_OK };
    stage((htc_bytes){ data, size });
    htc_status status = htc_spec_parse(NULL, (htc_bytes){ data, size }, NULL, &spec, &e);
    if (status != HTC_OK) {
        CHECK(spec == NULL && e.status == status && e.text[0] && htc_exit_code(status) == 2);
        return 0;
    }
    CHECK(htc_spec_count(spec) >= 1 && htc_spec_count(spec) <= HTC_TASKS_MAX);
    CHECK(htc_spec_from_bytes(NULL, htc_spec_bytes(spec), &back) == HTC_OK);
    CHECK(htc_spec_count(back) == htc_spec_count(spec));
    look_at(back, 0);
    look_at(back, htc_spec_count(back) / 2);
    look_at(back, htc_spec_count(back) - 1);
    wishes_again(spec);
    htc_spec_destroy(back);
    htc_spec_destroy(spec);
    return 0;
}
