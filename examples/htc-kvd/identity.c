#include "identity.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/ring.h"
#include "dir_kind.h"
#include "member_file.h"

htc_status identity_may_be_in(htc_daemon *d, const char *dir)
{
    if (!dir_is_cluster_alone(dir))
        return HTC_OK;
    snprintf(d->error.where, sizeof d->error.where, "%s", dir);
    snprintf(d->error.text, sizeof d->error.text, "a local cluster is here, whose members have their directories in it");
    snprintf(d->error.hint, sizeof d->error.hint, "give another --dir; htc kv cluster --dir starts what is there");
    return HTC_EEXISTS;
}

static htc_status wrong(htc_daemon *d, htc_status status, const char *hint, const char *text)
{
    snprintf(d->error.where, sizeof d->error.where, "%s", htc_state_dir(d->state));
    snprintf(d->error.text, sizeof d->error.text, "%s", text);
    snprintf(d->error.hint, sizeof d->error.hint, "%s", hint);
    return status;
}

static htc_status read_all(htc_daemon *d, member_file *who)
{
    htc_status s = member_file_read(htc_state_dir(d->state), who);
    if (s == HTC_EINPUT)
        return wrong(d, s, "look at it", "the file member cannot be read");
    return s == HTC_EFORMAT ? wrong(d, s, "make a new member in another directory", "the file member is damaged, or of another version") : s;
}

static htc_status write_all(htc_daemon *d, const member_file *who)
{
    return member_file_write(htc_state_dir(d->state), who, &d->error);
}

htc_status identity_make(htc_daemon *d, uint64_t id)
{
    member_file who = { .id = id };
    return write_all(d, &who);
}

htc_status identity_read(htc_daemon *d, uint64_t *id)
{
    member_file who;
    htc_status  s = read_all(d, &who);
    *id = who.id;
    return s;
}

static int is_empty(const char *path)
{
    DIR *dir = opendir(path);
    int  entries = 0;
    while (dir && readdir(dir))
        entries++;
    if (dir)
        closedir(dir);
    return entries <= 2;
}

int identity_has_store(htc_daemon *d)
{
    return !is_empty(htc_state_path(d->state, HTC_STATE_STORE));
}

static htc_status has_left(htc_daemon *d)
{
    return wrong(d, HTC_EUNSUPPORTED, "take another directory: htc-kvd --new-member draws a new id there",
                 "the member of this directory has left its store, and does not come back under its old name");
}

htc_status identity_draw(htc_daemon *d, char text[17])
{
    member_file who;
    htc_status  s = read_all(d, &who);
    if (s == HTC_ENOTFOUND) {
        if (identity_has_store(d))
            return wrong(d, HTC_EEXISTS, "give an empty --dir",
                         "this is the directory of a store of one member, which cannot become one of several");
        while (who.id == 0)
            htc_host_random(&who.id, sizeof who.id);
        s = write_all(d, &who);
    } else if (s == HTC_OK && who.left) {
        return has_left(d);
    }
    snprintf(text, 17, "%016" PRIx64, who.id);
    return s;
}

/* A promise that is forgotten can make two members believe two things: who may have lost its disk is not that member any more. */
htc_status identity_check(htc_daemon *d)
{
    member_file who;
    char        boot[HTC_HOST_BOOT_MAX];
    htc_status  s = read_all(d, &who);
    (void)htc_host_boot(boot);
    if (s != HTC_OK)
        return s;
    if (who.left)
        return has_left(d);
    if (strcmp(who.durability, "memory") == 0)
        return wrong(d, HTC_EUNSUPPORTED, "start a new store of new members",
                     "this member ran with durability memory: what it promised ended with its process");
    /* Which boot this is may not be known: then it counts as another one. */
    if (strcmp(who.durability, "interval") == 0 && (!boot[0] || strcmp(who.boot, boot) != 0))
        return wrong(
            d, HTC_EUNSUPPORTED, "start a new store of new members, from a backup if there is one",
            "this member ran with durability interval when the machine stopped: what it last promised may be lost");
    return HTC_OK;
}

htc_status identity_left(htc_daemon *d)
{
    member_file who;
    htc_status  s = read_all(d, &who);
    who.left = 1;
    return s == HTC_OK ? write_all(d, &who) : s;
}

htc_status identity_ran(htc_daemon *d, uint64_t id, const char *durability)
{
    member_file who = { .id = id };
    snprintf(who.durability, sizeof who.durability, "%s", durability);
    (void)htc_host_boot(who.boot);
    return write_all(d, &who);
}

int identity_shard_path(const char *socket, uint32_t nth, char *out, size_t cap)
{
    const char *slash = strrchr(socket, '/'), *name = slash ? slash + 1 : socket;
    int         n = snprintf(out, cap, "%.*sshard-%" PRIu32 "/%s", (int)(name - socket), socket, nth, name);
    return n > 0 && (size_t)n < cap;
}

int identity_shard_address(const char *address, uint32_t nth, char *out, size_t cap)
{
    const char   *colon = strrchr(address, ':');
    char         *end;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (port == 0 || *end || port + nth - 1 > UINT16_MAX)
        return 0;
    int n = snprintf(out, cap, "%.*s:%lu", (int)(colon - address), address, port + nth - 1);
    return n > 0 && (size_t)n < cap;
}

int identity_address(const member_address *m, char text[ADDRESS_MAX])
{
    char here[4096] = "";
    int  n;
    if (m->path[0] && m->path[0] != '/' && !getcwd(here, sizeof here))
        return 0;
    n = m->path[0] ? snprintf(text, ADDRESS_MAX, "unix:%s%s%s", here, here[0] ? "/" : "", m->path)
                   : snprintf(text, ADDRESS_MAX, "tcp://%s%s%s", m->name, m->name[0] ? "@" : "", m->address);
    return n > 0 && n < ADDRESS_MAX;
}

/* What stands behind the ids. */
int identity_where(const char *rest, member_address *out)
{
    if (strncmp(rest, "unix:", 5) == 0 && rest[5] && strlen(rest + 5) < sizeof out->path) {
        snprintf(out->path, sizeof out->path, "%s", rest + 5);
        return 1;
    }
    if (strncmp(rest, "tcp://", 6) != 0)
        return 0;
    rest += 6;
    const char *name = strchr(rest, '@'), *address = name ? name + 1 : rest;
    size_t      len = name ? (size_t)(name - rest) : 0;
    if (len >= sizeof out->name || strlen(address) >= sizeof out->address || !strchr(address, ':'))
        return 0;
    memcpy(out->name, rest, len);
    snprintf(out->address, sizeof out->address, "%s", address);
    return 1;
}

uint64_t identity_domain(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t            len = strlen(name);
    if (len == 0 || len > 63 || strspn(name, allowed) != len)
        return 0;
    uint64_t domain = htc_hash64(htc_bytes_of(name), 0);
    return domain ? domain : 1;
}

uint32_t identity_weight(const char *text)
{
    char         *end;
    unsigned long weight = strtoul(text, &end, 10);
    return *end || !strchr("123456789", text[0]) || strlen(text) > 5 || weight > HTC_RING_WEIGHT_MAX ? 0 : (uint32_t)weight;
}

/* ",domain=NAME" and ",weight=W" at the end of text, each once, are taken off it. What has a slash is part of a path. 0: wrong. */
static int take_suffixes(char *text, member_address *out)
{
    for (char *comma; (comma = strrchr(text, ',')) && !strchr(comma, '/'); *comma = 0) {
        int is_domain = strncmp(comma, ",domain=", 8) == 0;
        if (!is_domain && strncmp(comma, ",weight=", 8) != 0)
            break;
        if (is_domain && (out->domain || !(out->domain = identity_domain(comma + 8))))
            return 0;
        if (!is_domain && (out->weight || !(out->weight = identity_weight(comma + 8))))
            return 0;
    }
    return 1;
}

static int parse_id(const char **at, uint64_t *id)
{
    char text[17] = "";
    if (sscanf(*at, "%16[0-9a-f]", text) != 1 || strlen(text) != 16 || (*id = strtoull(text, NULL, 16)) == 0)
        return 0;
    *at += 16;
    return 1;
}

/* 1: all of it could be read; 0: it is none; -1: too many. */
static int parse_member(const char *text, member_address list[MEMBERS_MAX], uint32_t *count)
{
    member_address where = { .id = 0 };
    uint32_t       n = 0;
    const char    *at = strchr(text, '@');
    char           rest[sizeof where.path + 200];
    if (!at || strlen(at + 1) >= sizeof rest)
        return 0;
    snprintf(rest, sizeof rest, "%s", at + 1);
    if (!take_suffixes(rest, &where) || !identity_where(rest, &where) || strchr(where.address, ','))
        return 0;
    for (;; text++) {
        if (*count + n == MEMBERS_MAX)
            return -1;
        member_address *m = &list[*count + n++];
        *m = where;
        if (!parse_id(&text, &m->id))
            return 0;
        if (*text != ',')
            break;
    }
    if (text != at)
        return 0;
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        member_address *m = &list[*count + i];
        m->process = list[*count].id;
        if (where.path[0] ? !identity_shard_path(where.path, i + 1, m->path, sizeof m->path)
                          : !identity_shard_address(where.address, i + 1, m->address, sizeof m->address))
            return 0;
    }
    *count += n;
    return 1;
}

htc_status identity_parse(htc_daemon *d, const char *text, member_address list[MEMBERS_MAX], uint32_t *count)
{
    int parsed = parse_member(text, list, count);
    if (parsed == 1)
        return HTC_OK;
    snprintf(d->error.text, sizeof d->error.text,
             parsed < 0 ? "--member %.100s is one too many"
                        : "--member %.100s is none of ID@unix:PATH and ID@tcp://[NAME@]HOST:PORT, with ,domain=NAME or ,weight=W",
             text);
    snprintf(d->error.hint, sizeof d->error.hint, "%s",
             parsed < 0 ? "htc-kvd --help lists the options"
                        : "ID is what htc-kvd --new-member printed, the rest is where the member answers");
    return HTC_EUSAGE;
}
