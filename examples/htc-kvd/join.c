#include "join.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const member *m, const char *line)
{
    if (m->d->env.log)
        m->d->env.log->write(m->d->env.log->ctx, HTC_LOG_WARN, line);
}

htc_status join_check(const member *m)
{
    const member_options *o = &m->o;
    if (!o->join && (o->replaces || o->weight || o->domain || o->at))
        return member_wrong(m->d, HTC_EUSAGE, "give --join ADDRESS", "%s is for a member that joins",
                            o->replaces ? "--replaces" : o->weight ? "--weight" : o->domain ? "--domain" : "--at");
    if (!o->join)
        return HTC_OK;
    if (m->count)
        return member_wrong(m->d, HTC_EUSAGE, "leave --member out: --join learns from one member who the others are", "%s",
                            "--member is for members that begin a store together, --join for one that is added");
    if (o->shards > 1 && o->replaces)
        return member_wrong(m->d, HTC_EUSAGE, "join, and let the old one leave then", "%s", "a process of several shards takes nobody's place");
    if (o->engine && strcmp(o->engine, "memory") == 0)
        return member_wrong(m->d, HTC_EUSAGE, "take log, with --durability memory if need be", "%s",
                            "one of several members has to find its promises again: it cannot be engine memory");
    return HTC_OK;
}

static int is_own(const member *m, const member_address *a)
{
    char own[ADDRESS_MAX], other[ADDRESS_MAX];
    return identity_address(&m->peers[0], own) && identity_address(a, other) && strcmp(own, other) == 0;
}

/* One address of a list; the next begins behind a comma with its scheme. */
static htc_status add_address(member *m, const char *text, size_t len)
{
    char            one[4200];
    member_address *a = &m->peers[m->count];
    if (m->count == MEMBERS_MAX || len >= sizeof one)
        return member_wrong(m->d, HTC_EUSAGE, "one that is reached is enough", "--join %.100s: too many, or too long", text);
    snprintf(one, sizeof one, "%.*s", (int)len, text);
    *a = (member_address){ .id = 0 };
    if (!identity_where(one, a))
        return member_wrong(m->d, HTC_EUSAGE, "where a member answers, or several of these with commas between",
                            "--join %.100s is none of unix:PATH and tcp://[NAME@]HOST:PORT", one);
    if (a->address[0] && !m->o.listen)
        return member_wrong(m->d, HTC_EUSAGE, "give --listen, --key and --ring",
                            "%.100s is reached with keys alone, and this member has none", one);
    m->count += !is_own(m, a); /* of a store that has shrunk to this member there is no other to name */
    return HTC_OK;
}

size_t join_one_of(const char *list)
{
    const char *unix_next = strstr(list, ",unix:"), *tcp_next = strstr(list, ",tcp://");
    const char *next = !unix_next || (tcp_next && tcp_next < unix_next) ? tcp_next : unix_next;
    return next ? (size_t)(next - list) : strlen(list);
}

/* Where the others are to reach it. */
static htc_status find_place(member *m, member_address *self)
{
    char text[ADDRESS_MAX], own[400];
    if (m->o.at && !identity_where(m->o.at, self))
        return member_wrong(m->d, HTC_EUSAGE, "where the other members reach this one",
                            "--at %.100s is none of unix:PATH and tcp://[NAME@]HOST:PORT", m->o.at);
    if (!m->o.at && m->o.listen) {
        snprintf(own, sizeof own, "tcp://%s", m->o.listen);
        const char *colon = strrchr(m->o.listen, ':');
        if (strncmp(m->o.listen, "0.0.0.0:", 8) == 0 || strncmp(m->o.listen, "[::]:", 5) == 0 || (colon && atoi(colon + 1) == 0) ||
            !identity_where(own, self))
            return member_wrong(m->d, HTC_EUSAGE, "give --at tcp://NAME@HOST:PORT",
                                "--listen %.60s does not say where the other members reach this one", m->o.listen);
    }
    if (!self->path[0] && !self->address[0])
        snprintf(self->path, sizeof self->path, "%s", htc_state_path(m->d->state, HTC_STATE_STORE_SOCKET));
    if (!identity_address(self, text))
        return member_wrong(m->d, HTC_EUSAGE, "take a shorter --dir, or --at", "%.100s is too long for an address",
                            self->path[0] ? self->path : self->address);
    return HTC_OK;
}

htc_status join_find_self(member *m)
{
    uint64_t   id = 0;
    htc_status s = m->d->state ? identity_read(m->d, &id) : HTC_ENOTFOUND;
    if (s == HTC_ENOTFOUND)
        return member_wrong(m->d, s, "htc-kvd --dir DIR --new-member draws one into an empty directory",
                            "--join is for one of several members, and %.200s has no id",
                            m->d->state ? htc_state_dir(m->d->state) : "this one");
    m->count = 1;
    m->peers[0] = (member_address){ .id = id };
    m->peers[0].weight = m->o.weight;
    m->peers[0].domain = m->o.domain;
    m->peers[0].process = m->process;
    if (s == HTC_OK)
        s = find_place(m, &m->peers[0]);
    for (const char *at = m->o.join; s == HTC_OK && *at;) {
        size_t len = join_one_of(at);
        s = add_address(m, at, len);
        at += len + (at[len] == ',');
    }
    if (s == HTC_OK && !m->o.join[0])
        s = member_wrong(m->d, HTC_EUSAGE, "where a member answers", "%s", "--join names nobody");
    m->id = id;
    return s == HTC_OK ? identity_check(m->d) : s;
}

void join_note(member *m, const member_address *to, uint32_t peer)
{
    char    text[ADDRESS_MAX];
    dialled *more = identity_address(to, text) ? realloc(m->dialled, (m->dialled_count + 1) * sizeof *more) : NULL;
    if (!more)
        return; /* then there will be a second one */
    m->dialled = more;
    m->dialled[m->dialled_count].peer = peer;
    snprintf(m->dialled[m->dialled_count++].address, ADDRESS_MAX, "%s", text);
}

htc_status join_dial(void *ctx, const char *address, uint32_t *peer)
{
    member        *m = ctx;
    member_address to = { .id = 0 };
    htc_error      error = { 0 };
    char           line[900];
    for (uint32_t i = 0; i < m->dialled_count; i++)
        if (strcmp(m->dialled[i].address, address) == 0) {
            *peer = m->dialled[i].peer;
            return HTC_OK;
        }
    htc_status s = identity_where(address, &to) ? HTC_OK : HTC_EINVAL;
    if (s == HTC_OK && to.address[0] && !m->keys)
        s = HTC_EDENIED;
    htc_host_keys_dial_options o = {
        .size = sizeof o, .address = to.address, .port = MEMBER_PORT, .name = to.name[0] ? to.name : NULL
    };
    if (s == HTC_OK)
        s = to.path[0] ? htc_host_dial_unix(m->host, to.path, MEMBER_PORT, peer, &error)
                       : htc_host_keys_dial(m->keys, &o, peer, &error);
    if (s == HTC_OK) {
        join_note(m, &to, *peer);
        return s;
    }
    snprintf(line, sizeof line, "a member answers at %.300s: %.200s -> start with what reaches it", address,
             s == HTC_EDENIED  ? "that takes --listen, --key and --ring here"
             : error.text[0]   ? error.text
                               : htc_strerror(s));
    say(m, line);
    return s;
}

void join_left(void *ctx)
{
    member    *m = ctx;
    htc_status s = identity_left(m->d);
    m->left = 1;
    say(m, s == HTC_OK ? "this member has left the store -> end; its directory holds nothing that is needed"
                       : "this member has left the store, and cannot write that into its directory -> end; do not start it again");
    htc_host_event(m->host, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ NULL, 0 });
}

void join_refused(void *ctx, htc_status why, const char *reason)
{
    member *m = ctx;
    m->refused = member_wrong(m->d, why, "let one leave before, or take its place with --replaces", "this member is not let in: %s", reason);
    htc_host_event(m->host, HTC_KV_SERVER_SHUTDOWN, HTC_OK, (htc_bytes){ NULL, 0 });
}
