/* What a member is told to change, as steps of the map: migrate/driver.c begins them. */
#include "htcsched/kv_members.h"
#include "kvs/replica/cluster_private.h"

const char *htc__kv_change_request_reason(const htc__kv_change_request *wish, htc_status status)
{
    switch (status) {
    case HTC_OK:
        return "";
    case HTC_EBUSY:
        return "another change is under way";
    case HTC_ENOTFOUND:
        return wish->kind == HTC__KV_BACK ? "nothing is under way that could be given up" : "there is no such member";
    case HTC_EINVAL:
        return "it is the last member: nobody would keep the store";
    case HTC_ETIMEDOUT:
        return wish->kind == HTC__KV_LEAVE
                   ? "too few of the members that keep the map answer, or it holds what too few owners have yet; it may begin yet"
                   : "too few of the members that keep the map answer; it may begin yet";
    default:
        return htc_strerror(status);
    }
}

int htc__kv_change_request_any_time(const htc__kv_change_request *wish)
{
    return wish->kind == HTC__KV_BACK || wish->kind == HTC__KV_RATE;
}

int htc__kv_change_request_under_way(const htc__kv_map *map, const htc__kv_change_request *wish)
{
    if (wish->kind == HTC__KV_RATE)
        return map->rate == wish->member.weight;
    if (!map->after)
        return 0;
    return wish->kind == HTC__KV_BACK ? map->back
                                      : map->kind == wish->kind && !map->back && map->leaver == wish->id &&
                                            (wish->kind != HTC__KV_REWEIGHT || map->comer.weight == wish->member.weight);
}

int htc__kv_change_request_same(const htc__kv_change_request *a, const htc__kv_change_request *b)
{
    return a->kind == b->kind && a->id == b->id && a->member.weight == b->member.weight;
}

/* Under a number of its own: whoever is at work on the batch that is next has lost it. */
static htc_status roll_back(htc__kv_map *map)
{
    uint64_t   number;
    htc_status status = map->after && !map->back ? htc__kv_map_take(map, 1, &number) : HTC_ENOTFOUND;
    return status == HTC_OK ? htc__kv_map_roll_back(map, number) : status;
}

htc_status htc__kv_change_request_begin(htc__kv_map *map, const htc__kv_change_request *wish)
{
    switch ((htc__kv_change_kind)wish->kind) {
    case HTC__KV_STAY:
        break;
    case HTC__KV_JOIN:
        return htc__kv_map_begin_join(map, &wish->member);
    case HTC__KV_LEAVE:
        return htc__kv_map_begin_leave(map, wish->id);
    case HTC__KV_REPLACE:
        return htc__kv_map_begin_replace(map, wish->id, &wish->member);
    case HTC__KV_REWEIGHT:
        return htc__kv_map_begin_reweight(map, wish->id, wish->member.weight);
    case HTC__KV_BACK:
        return roll_back(map);
    case HTC__KV_RATE:
        map->rate = wish->member.weight;
        return HTC_OK;
    case HTC__KV_RENEW: /* nobody wishes for it */
        break;
    }
    return HTC_EINVAL;
}
