/* history: cores by user since the gateway began, for whoever draws them. Between two steps of the machine nothing changes, so that what is there at
 * the beginning of a step holds for all the time before it. */
#include "roles/gateway/gateway.h"

void htc__gw_history_go(htc_gateway *gw)
{
    if (!htc__history_due(&gw->history, gw->now))
        return;
    for (const user *u = gw->users; u; u = u->hh.next)
        htc__history_user(&gw->history, u->name, u->agents + u->draining + u->leaving);
    htc__history_pass(&gw->history, gw->now);
}

static json_t *numbers(const share_history *h, const history_line *line)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < h->points; i++) {
        double n = (double)line->cores[i];
        json_array_append_new(list, n == (double)(json_int_t)n ? json_integer((json_int_t)n) : json_real((double)(json_int_t)(n * 100 + 0.5) / 100));
    }
    return list;
}

void htc__gw_api_history(htc_gateway *gw, request *q)
{
    const share_history *h = &gw->history;
    json_t              *users = json_array();
    for (uint32_t i = 0; i < HISTORY_USERS; i++)
        if (h->lines[i].name[0])
            json_array_append_new(users, json_pack("{s:s,s:o}", "name", h->lines[i].name, "cores", numbers(h, &h->lines[i])));
    htc__gw_req_answer(gw, q, json_pack("{s:f,s:f,s:o,s:o}", "from", (double)gw->started_wall / 1e9, "step", (double)h->step / 1e9, "users", users, "others",
                                h->lines[HISTORY_USERS].sum > 0 ? numbers(h, &h->lines[HISTORY_USERS]) : json_null()));
}
