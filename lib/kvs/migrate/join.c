/* Who is to become a member asks the members that it knows the addresses of to be let in (JOIN), until one of them sends it a map that names it.
 * It says as of which map it asks (AS_OF), and is told which that is; so a JOIN that comes late, when it has been let in and is a member no more, is
 * known for that.
 * Meanwhile it is told why not yet (REFUSED). What will not pass by itself is told to whoever runs this member, once it was said for some time
 * and nothing else was: one of the members may be behind, and another change may be given up. */
#include "kvs/replica/cluster_private.h"

#define JOIN_NS HTC_SECOND
#define SURE_NS (2 * JOIN_NS + JOIN_NS / 2) /* said by three answers, at least */

struct htc__kv_joining {
    htc_ns     at;          /* when it is asked again */
    uint64_t   as_of;       /* the newest number of the map that it was told, being none of it; 0: none */
    uint32_t   asks_nobody; /* that it knows nobody to ask is told */
    uint32_t   turned_away; /* it cannot be let in; 2: told */
    htc_status refused;     /* why it is not let in, as it was told last, */
    htc_ns     refused_since;
};

/* Of a member that was none yet: one that has left does not come back by itself. */
static int outside(const htc_kv_server *s)
{
    return s->options.join && !s->cluster->map;
}

/* What stands in c->scratch. */
static void say_to_all(htc_kv_server *s, uint8_t kind)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < c->count && c->scratch.status == HTC_OK; i++)
        if (!c->peers[i].self && !c->peers[i].id)
            htc__kv_cluster_say_to(s, &c->peers[i], kind, htc_buf_bytes(&c->scratch));
}

/* A member that is the only one left of its store names itself alone, too: it has a map, and asks nobody. */
static void say_if_alone(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < c->count; i++)
        if (!c->peers[i].self)
            return;
    if (!c->joining->asks_nobody)
        htc__log(&s->env, HTC_LOG_WARN, "this member is in no store, and no other one is named that could let it in -> name one of its members in --join");
    c->joining->asks_nobody = 1;
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (!outside(s) || s->now < c->joining->at)
        return;
    c->joining->at = s->now + JOIN_NS;
    say_if_alone(s);
    htc_buf_clear(&c->scratch);
    htc__kv_as_of_write(&c->scratch, c->joining->as_of);
    say_to_all(s, HTC__KV_ITEM_AS_OF);
    htc_buf_clear(&c->scratch);
    htc__kv_join_write(&c->scratch, &c->description, s->options.replaces);
    say_to_all(s, HTC__KV_ITEM_JOIN);
}

static htc_ns deadline(const htc_kv_server *s)
{
    return outside(s) ? s->cluster->joining->at : HTC_NEVER;
}

/* Some members may be behind. */
void htc__kv_cluster_on_as_of(htc_kv_server *s, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    uint64_t         numbers;
    if (htc__kv_as_of_read(item, &numbers) != HTC_OK || numbers <= c->joining->as_of)
        return;
    c->joining->as_of = numbers;
    c->joining->at = s->now;
}

/* ---------------------------------------------------------------- why not */

static const char *reason(htc_status status)
{
    switch (status) {
    case HTC_EFULL:
        return "the store has as many members as it has buckets, or as a store can have";
    case HTC_ENOTFOUND:
        return "there is no member to be replaced";
    case HTC_EINVAL:
        return "not every member has said where it is reached";
    case HTC_EBUSY:
        return "another change is under way";
    default:
        return NULL;
    }
}

/* Asking again will not help, whatever is under way. */
static int lasts(htc_status status)
{
    return status == HTC_EFULL;
}

void htc__kv_cluster_on_refused(htc_kv_server *s, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    htc_reader       r = htc_reader_of(item);
    htc_status       status = (htc_status)(int32_t)htc_get_u32(&r);
    if (htc_reader_done(&r) != HTC_OK || c->map || status == HTC_AGAIN) /* how to ask; nothing is in the way */
        return;
    if (!lasts(status) || status != c->joining->refused)
        c->joining->refused_since = s->now;
    else if (s->now - c->joining->refused_since >= SURE_NS)
        c->joining->turned_away = 1;
    if (status != c->joining->refused && reason(status)) /* once for each */
        htc__log_with(&s->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "not let in: %s -> ask again", reason(status));
    c->joining->refused = status;
}

htc_status htc__kv_cluster_join_refused(const htc_kv_server *s)
{
    return s->cluster->joining->refused;
}

htc_status htc__kv_join_tell(htc_kv_server *s, htc_output *out)
{
    htc__kv_cluster *c = s->cluster;
    if (c->joining->turned_away != 1 || c->map)
        return HTC_OK;
    c->joining->turned_away = 2;
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL,
                                              .op = HTC_KV_SERVER_REFUSED,
                                              .tag = (uint64_t)-(int64_t)c->joining->refused,
                                              .body = htc_bytes_of(reason(c->joining->refused)) });
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_joining *x = s->cluster->joining = htc__alloc(&s->env, sizeof *x);
    return x ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_joining *x = s->cluster->joining;
    htc__free(&s->env, x, sizeof *x);
    s->cluster->joining = NULL;
}

const htc__kv_component htc__kv_component_joining = { .make = make, .free = unmake, .tick = tick, .deadline = deadline };
