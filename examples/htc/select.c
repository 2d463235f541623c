/* Which jobs a selector means: settled once, however many requests follow and whoever submits meanwhile. */
#include "htc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The newest job that a selector names: 0 if there is none. */
static htc_status newest(cli *c, const char *selector, uint64_t *id)
{
    json_t    *answer;
    htc_status s = api_ask(c, json_pack("{s:s, s:s, s:i}", "op", "status", "id", selector, "limit", 1), 0, 30, &answer);
    if (s != HTC_OK)
        return s;
    *id = j_u64(json_array_get(json_object_get(answer, "jobs"), 0), "id");
    json_decref(answer);
    return HTC_OK;
}

htc_status selection_settle(cli *c, const char *selector, selection *sel)
{
    uint64_t   id = 0;
    htc_status s = HTC_OK;
    int        last = strcmp(selector, "last") == 0 || strncmp(selector, "last.", 5) == 0;
    *sel = (selection){ .all = strcmp(selector, "all") == 0 };
    if (last || sel->all)
        s = newest(c, last ? "last" : "all", &id);
    if (s != HTC_OK)
        return s;
    sel->before = id + 1;
    sel->id = last ? must_print("%" PRIu64 "%s", id, selector + 4) : must_dup(selector);
    return HTC_OK;
}

void selection_free(selection *sel)
{
    free(sel->id);
    sel->id = NULL;
}

json_t *selection_request(const selection *sel, const char *op)
{
    json_t *request = json_pack("{s:s}", "op", op);
    j_add(&request, "id", sel->id);
    if (request && sel->all)
        json_object_set_new(request, "before", json_integer((json_int_t)sel->before));
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
