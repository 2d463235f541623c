#include "roles/runtime/apart.h"

/* The first row that fits. 2: either. */
static const struct {
    uint8_t     root, reachable, allowed, confinable;
    uint32_t    level;
    const char *why;
} levels[] = {
    { 1, 1, 2, 2, HTC_APART_UID, "" },
    { 1, 0, 2, 2, HTC_APART_REFUSED, "a directory on the way to the state directory keeps other uids out" },
    { 0, 2, 0, 2, HTC_APART_REFUSED, "they would run with the owner's uid, and task.others_as_owner does not allow that" },
    { 0, 2, 1, 0, HTC_APART_REFUSED, "this kernel does not confine them here" },
    { 0, 2, 1, 1, HTC_APART_CONFINED, "" },
};

static int fits(uint8_t wanted, uint8_t is)
{
    return wanted == 2 || wanted == (is != 0);
}

uint32_t htc__apart_level(const htc__apart_facts *f, const char **why)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (fits(levels[i].root, f->root) && fits(levels[i].reachable, f->reachable) && fits(levels[i].allowed, f->allowed) &&
            fits(levels[i].confinable, f->confinable)) {
            *why = levels[i].why;
            return levels[i].level;
        }
    *why = "nothing is known of this system";
    return HTC_APART_REFUSED;
}

uint32_t htc__place_of(uint32_t apart, int is_owner, uint32_t uid)
{
    if (is_owner)
        return HTC_PLACE_OWNER;
    if (apart == HTC_APART_CONFINED)
        return HTC_PLACE_CONFINED;
    /* No user is root, whatever a record says. */
    return apart == HTC_APART_UID && uid != HTC_NO_UID && uid != 0 ? HTC_PLACE_UID : HTC_PLACE_REFUSED;
}
