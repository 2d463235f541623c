/* Whose key a connection has shown, and as which members it may speak: those that are configured with the key's name, and those
 * that are configured with none. A connection that shows no key is one of this user on this machine, who could read every key. */
#include <inttypes.h>
#include <string.h>

#include "kvs/replica/cluster_private.h"

/* By the number of the connection. */
typedef struct shown {
    uint32_t role;
    char     name[HTC_PEER_NAME_MAX];
} shown;

struct htc__kv_keys {
    htc__table shown; /* by connection */
};

static const shown *shown_on(const htc_kv_server *s, uint32_t number)
{
    htc__node *node = htc__table_find(&s->cluster->keys->shown, (htc_bytes){ &number, sizeof number });
    return node ? htc__node_value(node) : NULL;
}

htc_status htc__kv_cluster_key_shown(htc_kv_server *s, uint32_t number, htc_bytes opened)
{
    htc_peer_identity who;
    htc__kv_cluster_key_gone(s, number);
    if (htc_peer_identity_read(opened, &who) != HTC_OK)
        return HTC_OK;
    htc__node *node = htc__table_make(&s->cluster->keys->shown, (htc_bytes){ &number, sizeof number }, sizeof(shown));
    if (!node)
        return HTC_ENOMEM;
    shown *x = htc__node_value(node);
    x->role = who.role;
    memcpy(x->name, who.name, sizeof x->name);
    htc__table_link(&s->cluster->keys->shown, node);
    return HTC_OK;
}

void htc__kv_cluster_key_gone(htc_kv_server *s, uint32_t number)
{
    htc__table_remove(&s->cluster->keys->shown, (htc_bytes){ &number, sizeof number });
}

static int speaks_as(const shown *x, const htc__kv_peer *peer)
{
    return !x || (x->role == HTC_KEY_MEMBER && (!peer->name[0] || strcmp(peer->name, x->name) == 0));
}

/* Any member's key may: one that is to become a member asks for that alone, and who changes the members for one of them. */
int htc__kv_cluster_key_joins(const htc_kv_server *s, uint32_t number)
{
    const shown *x = shown_on(s, number);
    return !x || x->role == HTC_KEY_MEMBER;
}

int htc__kv_cluster_key_answers_at(const htc_kv_server *s, uint32_t number, const htc__kv_map_member *member)
{
    htc__kv_peer as = { .id = member->id };
    htc__kv_cluster_name_key(&as, member->address);
    return htc__kv_cluster_key_speaks_as(s, number, &as);
}

int htc__kv_cluster_key_speaks_as(const htc_kv_server *s, uint32_t number, const htc__kv_peer *peer)
{
    const shown *x = shown_on(s, number);
    if (speaks_as(x, peer))
        return 1;
    htc__log_with(&s->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("peer", number), HTC__TEXT("key", x->name), HTC__ID("member", peer->id)),
                  "peer %u: %s's key speaks as member %016" PRIx64 ", whose key is %s's -> close it", number,
                  x->name, peer->id, peer->name);
    return 0;
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_keys *x = s->cluster->keys = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    htc__table_init(&x->shown, &s->env);
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_keys *x = s->cluster->keys;
    if (!x)
        return;
    htc__table_free(&x->shown);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->keys = NULL;
}

const htc__kv_component htc__kv_component_keys = { .make = make, .free = unmake };
