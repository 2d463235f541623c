#include "roles/gateway/node_health.h"

#include <stdio.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/util.h"

/* One for each node (user ""), and one for each user whose tasks failed fast there. */
typedef struct node {
    char           key[64 + 64 + 2]; /* NODE/USER */
    uint32_t       in_a_row;         /* a user's fast failures since the last success there */
    uint32_t       failing_users;    /* of all: users with too many of them */
    htc_ns         until;            /* of all: no work there before */
    UT_hash_handle hh;
} node;

static node *find(const nodes *all, const char *name, const char *user)
{
    char  key[sizeof((node *)0)->key];
    node *n;
    snprintf(key, sizeof key, "%s/%s", name, user);
    HASH_FIND_STR(all->table, key, n);
    return n;
}

static node *make(nodes *all, const htc_env *env, const char *name, const char *user)
{
    node *n = find(all, name, user);
    if (n)
        return n;
    n = htc__alloc(env, sizeof *n);
    if (!n)
        return NULL;
    snprintf(n->key, sizeof n->key, "%s/%s", name, user);
    HASH_ADD_STR(all->table, key, n);
    if (!n->hh.tbl) {
        htc__free(env, n, sizeof *n);
        return NULL;
    }
    all->count += !user[0];
    return n;
}

htc_status htc__nodes_seen(nodes *all, const htc_env *env, const char *name)
{
    return make(all, env, name, "") ? HTC_OK : HTC_ENOMEM;
}

static void works(nodes *all, const char *name, const char *user)
{
    node *of_all = find(all, name, ""), *own = find(all, name, user);
    if (!own)
        return;
    if (of_all && own->in_a_row >= HEALTH_LIMIT && of_all->failing_users)
        of_all->failing_users--;
    own->in_a_row = 0;
}

htc_status htc__nodes_ended(nodes *all, const htc_env *env, const char *name, const char *user, htc_status ended, htc_ns ran, htc_ns now,
                            node_news *news, uint32_t *users)
{
    *news = NODE_SAME;
    *users = 0;
    if (ended == HTC_OK)
        works(all, name, user);
    if (htc__health_of(ended, ran) != HEALTH_FAILS_FAST)
        return HTC_OK;
    node *of_all = make(all, env, name, ""), *own = of_all ? make(all, env, name, user) : NULL;
    if (!own)
        return HTC_ENOMEM;
    own->in_a_row += own->in_a_row < UINT32_MAX;
    if (own->in_a_row < HEALTH_LIMIT)
        return HTC_OK;
    if (own->in_a_row == HEALTH_LIMIT) {
        of_all->failing_users++;
        *news = NODE_FAILS_USER;
    }
    if (of_all->failing_users >= NODE_USERS && all->count > 1 && of_all->until <= now) {
        of_all->until = now + NODE_ASIDE;
        *news = NODE_SET_ASIDE;
        *users = of_all->failing_users;
    }
    return HTC_OK;
}

int htc__nodes_aside(const nodes *all, const char *name, htc_ns now, htc_ns *until)
{
    const node *n = find(all, name, "");
    *until = n ? n->until : 0;
    return *until > now;
}

void htc__nodes_free(nodes *all, const htc_env *env)
{
    node *n, *next;
    HASH_ITER(hh, all->table, n, next)
    {
        HASH_DEL(all->table, n);
        htc__free(env, n, sizeof *n);
    }
    all->count = 0;
}
