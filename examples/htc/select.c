/* Which jobs a selector means: settled once, however many requests follow and whoever submits meanwhile. */
#include "htc.h"
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The newest job that a selector names: 0 if there is none. */
static htc_status newest(cli *c, const char *selector, const json_t *filter, uint64_t *id)
{
    json_t *answer, *request = json_pack("{s:s, s:s, s:i}", "op", "status", "id", selector, "limit", 1);
    if (filter)
        json_object_update(request, (json_t *)(uintptr_t)filter);
    htc_status s = api_ask(c, request, 0, 30, &answer);
    if (s != HTC_OK)
        return s;
    *id = j_u64(json_array_get(json_object_get(answer, "jobs"), 0), "id");
    json_decref(answer);
    return HTC_OK;
}

static htc_status add_time(cli *c, const char *option, const char *text, json_t *into)
{
    double at;
    if (!text)
        return HTC_OK;
    if (when_past(text, (double)time(NULL), &at) != HTC_OK)
        return cli_error(c, HTC_EUSAGE, option, "write 2h or 3d (ago), 18:30, yesterday or 2026-12-01", "'%.80s' is no time", text);
    json_object_set_new(into, option + 2, json_real(at));
    return HTC_OK;
}

htc_status filter_request(cli *c, const job_filter *f, json_t **out)
{
    json_t *o = json_object();
    *out = NULL;
    if (f->state)
        json_object_set_new(o, "state", json_string(f->state));
    if (f->name)
        json_object_set_new(o, "name", json_string(f->name));
    htc_status s = add_time(c, "--since", f->since, o);
    if (s == HTC_OK)
        s = add_time(c, "--until", f->until, o);
    if (s == HTC_OK && json_object_size(o))
        *out = o;
    else
        json_decref(o);
    return s;
}

htc_status selection_settle(cli *c, const char *selector, selection *sel)
{
    return selection_settle_of(c, selector, NULL, sel);
}

htc_status selection_settle_of(cli *c, const char *selector, const job_filter *f, selection *sel)
{
    uint64_t   id = 0;
    int        last = strcmp(selector, "last") == 0 || strncmp(selector, "last.", 5) == 0;
    *sel = (selection){ .all = strcmp(selector, "all") == 0 };
    htc_status s = f ? filter_request(c, f, &sel->filter) : HTC_OK;
    if (s == HTC_OK && sel->filter && !last && !sel->all)
        s = cli_error(c, HTC_EUSAGE, selector, "say last or all", "--state, --name, --since and --until choose among jobs, and one is named");
    if (s == HTC_OK && (last || sel->all)) /* of all, whatever the filter: it only says where they begin */
        s = newest(c, last ? "last" : "all", last ? sel->filter : NULL, &id);
    if (s != HTC_OK)
        return s;
    sel->before = id + 1;
    sel->id = last ? must_print("%" PRIu64 "%s", id, selector + 4) : must_dup(selector);
    return HTC_OK;
}

void selection_free(selection *sel)
{
    free(sel->id);
    json_decref(sel->filter);
    sel->id = NULL;
    sel->filter = NULL;
}

json_t *selection_request(const selection *sel, const char *op)
{
    json_t *request = json_pack("{s:s}", "op", op);
    j_add(&request, "id", sel->id);
    if (request && sel->all)
        json_object_set_new(request, "before", json_integer((json_int_t)sel->before));
    if (request && sel->all && sel->filter)
        json_object_update(request, sel->filter);
    return request;
}

int selection_next(selection *sel, const json_t *answer)
{
    const json_t *next = json_object_get(answer, "next");
    if (!sel->all || !json_is_integer(next))
        return 0;
    sel->before = (uint64_t)json_integer_value(next);
    return 1;
}
