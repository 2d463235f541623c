/* Damaged records: what this member's engine has under a key is not what was written. They are found where they are met, and by one look over
 * all when the member starts.
 *
 * Of such a key it says nothing: it is not counted among those that answer a read or have a change, and a put that it is to coordinate is refused
 * (HTC_ECORRUPT), for what it had confirmed it cannot show. Meanwhile it asks the other owners, and puts what they hold, merged, in the place
 * of its record:
 *
 *     found ──▶ FETCH to all others ──▶ n - W + 1 of them have answered ──▶ floor raised, merged state stored: it answers again
 *                                  └─▶ fewer, or the bucket has another epoch ──▶ again later
 *
 * Why that many. An acknowledged change is at W owners. This one may have been one of them, then W - 1 of the n - 1 others have it, and of
 * (n - 1) - (W - 1) + 1 of those one does. They answer in the epoch that this member serves, so they have what was acknowledged in earlier
 * ones. What is acknowledged meanwhile W others have, for this one confirms nothing. Where W is 1 it may have been the only one: then
 * all others have to answer, and what it alone had is gone. If two of three are damaged neither has enough answers, and both go on refusing.
 *
 * Its own numbers are never given again, though what they were is lost: they began at some floor (cell q), and no member writes so often that
 * it comes 2^40 further. So far up the floor goes, in the same batch as the merged state. Once is enough for all records that were found when
 * the member started, since no number in any of them is younger than that.
 *
 * Where this member owns the key no more the record goes (eventual/orphan_handoff.c). Where nobody else owns it, it stays refused. */
#include "kvs/eventual/recovery.h"

#include <assert.h>
#include <string.h>

#include "core/fault.h"

#define AT_ONCE   16
#define SAID_MOST 32 /* lines about records, in one life */
#define LOST      (UINT64_C(1) << 40)

/* By htc__kv_index_name. */
typedef struct damaged {
    uint8_t going;  /* the others are asked for it */
    uint8_t loaded; /* it was when the member started */
} damaged;

static damaged *find(const htc_kv_server *s, htc_bytes key)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_index_name      name;
    if (e->damaged.count == 0)
        return NULL;
    htc__kv_index_name_of(s, key, &name);
    htc__node *node = htc__table_find(&e->damaged, htc__kv_index_bytes(&name));
    return node ? htc__node_value(node) : NULL;
}

uint64_t htc__kv_recovery_above(uint64_t floor)
{
    return floor < HTC__SIBLINGS_COUNTER - 2 * LOST ? floor + LOST : floor + 1;
}

uint64_t htc__kv_recovery_floor(const htc_kv_server *s, htc_bytes key)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    const damaged          *d = find(s, key);
    if (HTC__BROKEN(floor_not_raised))
        return e->floor;
    if (d && d->loaded && e->floor_loaded)
        return e->floor > e->floor_loaded ? e->floor : e->floor_loaded;
    return htc__kv_recovery_above(e->floor);
}

/* ---------------------------------------------------------------- found, and over */

static void say_found(htc_kv_server *s, htc_bytes key)
{
    htc__kv_eventual *e = s->cluster->eventual;
    char              text[64];
    size_t            len = key.len < sizeof text ? key.len : sizeof text - 1;
    uint64_t          owner[HTC_RING_OWNERS_MAX];
    uint32_t          mine, n = htc__kv_space_owners(s, key, owner, &mine);
    if (e->damaged_said++ >= SAID_MOST)
        return;
    memcpy(text, key.data, len);
    text[len] = '\0';
    text[strlen(text)] = strlen(text) < len ? '/' : '\0'; /* behind the namespace */
    htc__text_clean(text);
    htc__log_with(&s->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("key", text), HTC__STATUS(HTC_ECORRUPT)),
                  n > 1 ? "this member's record of the eventual key \"%s\" is damaged -> leave it to its other owners until it is taken from them"
                        : "this member's record of the eventual key \"%s\" is damaged, and nobody else has it -> refuse it",
                  text);
}

htc_status htc__kv_recovery_found(htc_kv_server *s, htc_bytes key, int loaded)
{
    htc__kv_eventual  *e = s->cluster->eventual;
    htc__kv_index_name name;
    if (find(s, key))
        return HTC_OK;
    htc__kv_index_name_of(s, key, &name);
    htc__node *node = htc__table_make(&e->damaged, htc__kv_index_bytes(&name), sizeof(damaged));
    if (!node)
        return HTC_ENOMEM;
    if (e->damaged.count == 0) {
        e->mend_at = s->now + s->options.member_retry_ns;
        e->mend_next.len = 0;
    }
    ((damaged *)htc__node_value(node))->loaded = (uint8_t)loaded;
    htc__table_link(&e->damaged, node);
    if (loaded)
        e->floor_loaded = htc__kv_recovery_above(e->floor);
    say_found(s, key);
    return HTC_OK;
}

void htc__kv_recovery_over(htc_kv_server *s, htc_bytes key)
{
    htc__kv_index_name name;
    if (!find(s, key))
        return;
    htc__kv_index_name_of(s, key, &name);
    htc__table_remove(&s->cluster->eventual->damaged, htc__kv_index_bytes(&name));
}

/* ---------------------------------------------------------------- one record */

static htc__kv_quorum quorum_of(const htc_kv_server *s, const htc__kv_seeking *x)
{
    const uint8_t *end_of_name = memchr(x->key.data, 0, x->key.len);
    htc_bytes      space = { x->key.data, (size_t)(end_of_name - (const uint8_t *)x->key.data) };
    return htc__kv_space_quorum(htc__kv_space_of(s, space), s->cluster->route[x->bucket].n);
}

static void end(htc_kv_server *s, htc__kv_seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    damaged          *d = find(s, x->key);
    if (d)
        d->going = 0;
    assert(e->mending > 0);
    e->mending--;
    htc__kv_seeking_end(s, x);
}

static void say_mended(const htc_kv_server *s, int alone)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    if (e->damaged.count == 0)
        htc__log_with(&s->env, alone ? HTC_LOG_WARN : HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("records", e->counts.repaired)),
                      alone ? "damaged records of eventual keys are replaced by what their other owners have, and what this member alone had is gone -> serve these keys"
                            : "damaged records of eventual keys are replaced by what their other owners have -> serve these keys");
}

/* Enough have answered. */
static void take_place(htc_kv_server *s, htc__kv_seeking *x)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (find(s, x->key) && !htc__kv_seeking_late(s, x) && htc__kv_space_serves(s, x->bucket)) {
        int        alone = quorum_of(s, x).w == 1;
        htc_status status = htc__kv_recovered(s, x->key, htc_buf_bytes(&x->state));
        if (status == HTC_ENOMEM || status == HTC_EIO)
            htc__kv_cluster_broken(s, status);
        if (status == HTC_OK) {
            e->counts.repaired++;
            say_mended(s, alone);
        }
    }
    end(s, x);
}

void htc__kv_recovery_fetched(htc_kv_server *s, htc__kv_seeking *x, uint32_t place, htc_bytes state)
{
    htc_status status = state.len ? htc__kv_seeking_learn(s, x, state) : HTC_OK;
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    if (status != HTC_OK)
        return;
    x->said |= UINT32_C(1) << place;
    x->has++;
    if (x->has == x->n - 1)
        take_place(s, x);
}

/* Not all of them have answered. */
void htc__kv_recovery_late(htc_kv_server *s, htc__kv_seeking *x)
{
    if (x->has >= x->need)
        take_place(s, x);
    else
        end(s, x);
}

static void ask_others(htc_kv_server *s, htc_bytes key, damaged *d)
{
    htc__kv_eventual *e = s->cluster->eventual;
    htc__kv_seeking  *x = htc__kv_seeking_make(s, NULL, key);
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    htc__kv_quorum q = quorum_of(s, x);
    x->mends = 1;
    x->need = HTC__BROKEN(mended_by_few) ? 1 : q.n + 1 - (q.w > 2 ? q.w : 2);
    d->going = 1;
    e->mending++;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->owner[i] != s->cluster->id)
            htc__kv_copy_say(s, x->owner[i], HTC__KV_ITEM_FETCH, &(htc__kv_copy){ .tag = x->tag, .key = x->key }, 0);
    htc__wheel_add(&e->wheel, &x->entry, s->now + s->cluster->suspect_ns / 2);
}

/* ---------------------------------------------------------------- all of them */

static void look_at(htc_kv_server *s, htc__node *node)
{
    uint64_t  owner[HTC_RING_OWNERS_MAX];
    htc_bytes key = htc__kv_index_key(node);
    damaged  *d = htc__node_value(node);
    uint32_t  mine, n = htc__kv_space_owners(s, key, owner, &mine);
    if (!d->going && mine < n && n > 1 && htc__kv_space_serves(s, htc__kv_index_bucket(node)))
        ask_others(s, key, d);
}

/* Round all of them, a few at once; then it waits. */
void htc__kv_recovery_tick(htc_kv_server *s)
{
    htc__kv_eventual *e = s->cluster->eventual;
    if (s->now < htc__kv_recovery_deadline(s))
        return;
    htc__node *node = htc__table_seek(&e->damaged, htc__kv_index_bytes(&e->mend_next));
    for (; node && e->mending < AT_ONCE && s->broken == HTC_OK; node = node->next[0])
        look_at(s, node);
    e->mend_next.len = 0;
    if (!node) {
        e->mend_at = s->now + s->cluster->suspect_ns;
        return;
    }
    e->mend_next.len = htc__node_key(node).len;
    memcpy(e->mend_next.data, htc__node_key(node).data, e->mend_next.len);
}

htc_ns htc__kv_recovery_deadline(const htc_kv_server *s)
{
    const htc__kv_eventual *e = s->cluster->eventual;
    return s->cluster->map && e->damaged.count && e->mending < AT_ONCE ? e->mend_at : HTC_NEVER;
}
