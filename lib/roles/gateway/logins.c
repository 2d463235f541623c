#include "roles/gateway/logins.h"

#include <string.h>

static login_turn *turn_of(logins *all, const void *login)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->turns[i].login == login)
            return &all->turns[i];
    return NULL;
}

static void remove_turn(logins *all, login_turn *t)
{
    all->names[t->name].logins--;
    memmove(t, t + 1, (size_t)(&all->turns[all->n] - (t + 1)) * sizeof *t);
    all->n--;
}

/* The name's place; with all places in use the one goes that has failed least, and of these the one that has done so first. */
static uint32_t name_of(logins *all, uint32_t uid, const char *name, htc_ns now)
{
    uint32_t at = LOGIN_NAMES;
    for (uint32_t i = 0; i < LOGIN_NAMES; i++) {
        login_name *n = &all->names[i];
        if (n->failures && now >= n->until && now - n->until >= LOGIN_FORGET)
            n->failures = 0;
        if (n->used && n->uid == uid && strcmp(n->name, name) == 0)
            return i;
        if (n->logins)
            continue;
        const login_name *best = at < LOGIN_NAMES ? &all->names[at] : NULL;
        if (!best || n->failures < best->failures || (n->failures == best->failures && n->until < best->until))
            at = i;
    }
    all->names[at] = (login_name){ .uid = uid, .used = 1 };
    memcpy(all->names[at].name, name, strlen(name));
    return at;
}

static login_turn *oldest_of(logins *all, uint32_t name)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->turns[i].name == name && all->turns[i].state == LOGIN_WAITS)
            return &all->turns[i];
    return NULL;
}

/* With the longest pause that is longer than that of the name; of equal ones the oldest. */
static login_turn *longest_paused(logins *all, uint32_t name, htc_ns now)
{
    login_turn *found = NULL;
    htc_ns      until = all->names[name].until > now ? all->names[name].until : now;
    for (uint32_t i = 0; i < all->n; i++)
        if (all->turns[i].state != LOGIN_HASHED && all->names[all->turns[i].name].until > until) {
            found = &all->turns[i];
            until = all->names[found->name].until;
        }
    return found;
}

void *htc__logins_add(logins *all, void *login, uint32_t uid, const char *name, htc_ns now)
{
    uint32_t    at = name_of(all, uid, name, now);
    int         full = all->n == LOGINS_MAX, name_full = all->names[at].logins == LOGINS_OF_NAME;
    login_turn *t = name_full ? oldest_of(all, at) : full ? longest_paused(all, at, now) : NULL;
    void       *gone = t ? t->login : NULL;
    if ((full || name_full) && !t)
        return login;
    if (t)
        remove_turn(all, t);
    all->turns[all->n++] = (login_turn){ login, at, LOGIN_WAITS };
    all->names[at].logins++;
    return gone;
}

static int is_ready(const logins *all, const login_turn *t, htc_ns now)
{
    const login_name *n = &all->names[t->name];
    return t->state == LOGIN_WAITS && !n->hashed && now >= n->until;
}

void *htc__logins_next(logins *all, htc_ns now)
{
    uint32_t i = 0;
    while (i < all->n && !is_ready(all, &all->turns[i], now))
        i++;
    if (i == all->n || all->hashed == LOGINS_HASHED)
        return NULL;
    login_turn *t = &all->turns[i];
    for (uint32_t k = i + 1; k < all->n; k++)
        if (all->turns[k].name == t->name && all->turns[k].state == LOGIN_WAITS)
            t = &all->turns[k];
    t->state = LOGIN_HASHED;
    all->names[t->name].hashed = 1;
    all->hashed++;
    return t->login;
}

void htc__logins_looked_at(logins *all, const void *login, login_outcome outcome, htc_ns now)
{
    login_turn *t = turn_of(all, login);
    login_name *n = &all->names[t->name];
    all->hashed--;
    n->hashed = 0;
    if (outcome == LOGIN_WRONG) {
        htc_ns pause = n->failures < 16 ? LOGIN_PAUSE << n->failures : LOGIN_PAUSE_MAX;
        n->until = now + (pause < LOGIN_PAUSE_MAX ? pause : LOGIN_PAUSE_MAX);
        n->failures++;
        t->state = LOGIN_FAILED;
        return;
    }
    if (outcome == LOGIN_RIGHT)
        n->failures = 0;
    remove_turn(all, t);
}

int htc__logins_leave(logins *all, const void *login)
{
    login_turn *t = turn_of(all, login);
    if (!t || t->state == LOGIN_HASHED)
        return 0;
    remove_turn(all, t);
    return 1;
}

void *htc__logins_due(logins *all, htc_ns now)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->turns[i].state == LOGIN_FAILED && now >= all->names[all->turns[i].name].until) {
            void *login = all->turns[i].login;
            remove_turn(all, &all->turns[i]);
            return login;
        }
    return NULL;
}

htc_ns htc__logins_deadline(const logins *all)
{
    htc_ns at = HTC_NEVER;
    for (uint32_t i = 0; i < all->n; i++) {
        const login_name *n = &all->names[all->turns[i].name];
        int               waits = all->turns[i].state == LOGIN_WAITS && !n->hashed && all->hashed < LOGINS_HASHED;
        if ((waits || all->turns[i].state == LOGIN_FAILED) && n->until < at)
            at = n->until;
    }
    return at;
}
