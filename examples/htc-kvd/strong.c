#include "strong.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

htc_status strong_check(const member *m)
{
    int several = m->count || m->o.join;
    if (m->strong_count && m->o.shards > 1)
        return member_wrong(m->d, HTC_EUSAGE, "leave --shards out", "%s", "a process of several shards has no strong namespaces yet");
    for (uint32_t i = 0; several && i < m->strong_count; i++) {
        const strong_policy *p = &m->strong[i];
        const char          *engine = p->engine[0] ? p->engine : m->o.engine, *how = p->durability[0] ? p->durability : m->o.durability;
        if ((engine && strcmp(engine, "memory") == 0) || (how && strcmp(how, "memory") == 0))
            return member_wrong(m->d, HTC_EUSAGE, "take durability=interval, which waits for no disk either",
                                "namespace %.40s: one of several members has to find its promises again when it is started again", p->name);
    }
    return HTC_OK;
}

int strong_path(const char *socket, const char *name, char *out, size_t cap)
{
    const char *slash = strrchr(socket, '/'), *file = slash ? slash + 1 : socket;
    int         n = snprintf(out, cap, "%.*sspace-%s/%s", (int)(file - socket), socket, name, file);
    return n > 0 && (size_t)n < cap;
}

static uint64_t id_of(const strong_policy *p, uint64_t process)
{
    uint64_t id = htc_hash64(htc_bytes_of(p->name), process);
    return id ? id : 1;
}

/* ---- which namespaces have run in a directory: their names, one a line behind "htc-kvd spaces 1" ---- */

static htc_status ran_before(const member *front, const char *name, char *text, size_t cap, int *did)
{
    char path[4200], line[80];
    int  format = 0;
    snprintf(path, sizeof path, "%s/spaces", htc_state_dir(front->d->state));
    snprintf(text, cap, "htc-kvd spaces 1\n");
    *did = 0;
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return HTC_OK;
    while (f && fgets(line, sizeof line, f)) {
        size_t len = strcspn(line, "\n"), have = strlen(text);
        if (sscanf(line, "htc-kvd spaces %d", &format) == 1)
            continue;
        *did |= strlen(name) == len && memcmp(line, name, len) == 0;
        snprintf(text + have, cap - have, "%.*s\n", (int)len, line);
    }
    if (f)
        fclose(f);
    return format == 1 ? HTC_OK : member_wrong(front->d, HTC_EFORMAT, "look at it", "%.300s is damaged, or of another version", path);
}

static htc_status note_ran(const member *front, const char *name, char *text, size_t cap)
{
    char   path[4200];
    size_t have = strlen(text);
    snprintf(path, sizeof path, "%s/spaces", htc_state_dir(front->d->state));
    snprintf(text + have, cap - have, "%s\n", name);
    return htc_state_write_file(path, htc_bytes_of(text), 0600, &front->d->error);
}

/* Of one of several members: a directory that is lost does not come back empty under the name that has made promises. */
static htc_status identify(member *x, member *front, const strong_policy *p)
{
    uint64_t   process = 0, id = 0;
    char       text[64 + SPACES_MAX * (HTC_KV_SPACE_MAX + 2)];
    int        before = 0;
    htc_status s = identity_read(front->d, &process), there = identity_read(x->d, &id);
    if (s == HTC_ENOTFOUND)
        return HTC_OK; /* find_self says what is wrong */
    if (s == HTC_OK)
        s = ran_before(front, p->name, text, sizeof text, &before);
    if (s != HTC_OK)
        return s;
    if (there == HTC_OK && id != id_of(p, process))
        return member_wrong(front->d, HTC_EINPUT, "put it back, or begin with a fresh --dir", "%.200s is the directory of another member",
                            htc_state_dir(x->d->state));
    if (there == HTC_ENOTFOUND && before)
        return member_wrong(front->d, HTC_EINPUT, "let a new member take its place: --join with --replaces",
                            "%.200s has lost what it promised, and does not come back as the same member", htc_state_dir(x->d->state));
    if (there == HTC_ENOTFOUND)
        there = identity_make(x->d, id_of(p, process));
    if (there == HTC_OK && !before)
        there = note_ran(front, p->name, text, sizeof text);
    return there;
}

/* Where that namespace's member is whose process is there. */
static int move(member_address *a, const strong_policy *p, uint32_t k)
{
    char was[sizeof a->path];
    if (a->path[0]) {
        memcpy(was, a->path, sizeof was);
        return strong_path(was, p->name, a->path, sizeof a->path);
    }
    memcpy(was, a->address, sizeof a->address);
    return identity_shard_address(was, k + 2, a->address, sizeof a->address);
}

static htc_status find_others(member *x, const member *front, const strong_policy *p, uint32_t k)
{
    htc_status s = HTC_OK;
    if (front->o.join) {
        x->o.replaces = front->o.replaces ? id_of(p, front->o.replaces) : 0;
        s = member_find_self(x);
    } else {
        x->count = front->count;
        memcpy(x->peers, front->peers, MEMBERS_MAX * sizeof *x->peers);
    }
    for (uint32_t i = front->o.join && !front->o.at ? 1 : 0; s == HTC_OK && i < x->count; i++) {
        if (!front->o.join)
            x->peers[i].id = id_of(p, x->peers[i].id);
        if (!move(&x->peers[i], p, k))
            s = member_wrong(front->d, HTC_EUSAGE, "each namespace has a socket, or a port, of its own", "%.100s: no place for its namespaces",
                             x->peers[i].path[0] ? x->peers[i].path : x->peers[i].address);
    }
    return s != HTC_OK || front->o.join ? s : member_find_self(x);
}

static htc_status set_options(member *x, const member *front, const strong_policy *p, uint32_t k, char *address, size_t cap)
{
    int memory = strcmp(p->engine, "memory") == 0;
    x->o = front->o;
    x->o.resp = x->o.metrics = x->o.once = NULL;
    x->o.engine = p->engine[0] ? p->engine : front->o.engine;
    x->o.durability = p->durability[0] ? p->durability : memory ? NULL : front->o.durability;
    x->o.sync_ms = p->sync_ms ? p->sync_ms : x->o.durability == front->o.durability ? front->o.sync_ms : 0;
    x->o.bytes_max = p->memory;
    x->copies = p->n;
    if (!front->o.listen)
        return HTC_OK;
    if (!identity_shard_address(front->o.listen, k + 2, address, cap))
        return member_wrong(front->d, HTC_EUSAGE, "the Kth namespace is at PORT+K", "--listen %.100s: with strong namespaces it needs a port",
                            front->o.listen);
    x->o.listen = address;
    return HTC_OK;
}

htc_status strong_begin(member *x, member *front, uint32_t k)
{
    const strong_policy *p = &front->strong[k];
    char                 path[4200];
    htc_status           s = set_options(x, front, p, k, x->strong_listen, sizeof x->strong_listen);
    snprintf(path, sizeof path, "%s/space-%s", htc_state_dir(front->d->state), p->name);
    x->space = p;
    if (s == HTC_OK)
        s = htc_state_open(NULL, path, 1, &x->d->state, &front->d->error);
    if (s != HTC_OK || (front->count == 0 && !front->o.join))
        return s;
    s = identify(x, front, p);
    return s == HTC_OK ? find_others(x, front, p, k) : s;
}
