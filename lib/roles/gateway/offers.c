#include "roles/gateway/offers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/util.h"

void htc__machine_wish_free(const htc_env *env, machine_wish *w)
{
    htc__free(env, w->hosts, w->hosts_room);
    memset(w, 0, sizeof *w);
}

htc_status htc__machine_wish_set(const htc_env *env, machine_wish *w, const htc_task *t)
{
    size_t room = t->host ? strlen(t->host) + 1 : 0;
    if (!room || room > w->hosts_room) {
        htc__machine_wish_free(env, w);
        if (room && !(w->hosts = htc__alloc(env, room)))
            return HTC_ENOMEM;
        w->hosts_room = room;
    }
    if (room)
        memcpy(w->hosts, t->host, room);
    snprintf(w->system, sizeof w->system, "%s", t->system ? t->system : "");
    snprintf(w->architecture, sizeof w->architecture, "%s", t->architecture ? t->architecture : "");
    return HTC_OK;
}

int htc__machine_wish_any(const machine_wish *w)
{
    return w->hosts || w->system[0] || w->architecture[0];
}

void htc__machine_add(machine_kinds *k, const htc_wire_machine *m)
{
    if (!m->system[0] || !m->machine[0] || k->n == MACHINES_MAX)
        return;
    for (uint32_t i = 0; i < k->n; i++)
        if (strcmp(k->of[i].system, m->system) == 0 && strcmp(k->of[i].machine, m->machine) == 0)
            return;
    k->of[k->n++] = *m;
}

/* ---- the two ways to name a machine ---- */

/* Names of JSDL and what uname(2) says there; of those that have no row the name itself, whatever its case. A text that ends in * stands for all that
 * begin so. */
typedef struct same_name {
    const char *jsdl, *uname;
} same_name;

static const same_name architectures[] = {
    { "x86", "x86_64" },    { "x86", "i386" },     { "x86", "i486" },     { "x86", "i586" },       { "x86", "i686" },   { "x86_32", "i386" },
    { "x86_32", "i486" },   { "x86_32", "i586" },  { "x86_32", "i686" },  { "x86_64", "amd64" },   { "arm", "arm*" },   { "arm", "aarch64*" },
    { "powerpc", "ppc*" },  { "mips", "mips*" },   { "sparc", "sparc*" }, { "sparc", "sun4*" }, { "parisc", "parisc*" }, { NULL, NULL },
};
static const same_name systems[] = {
    { "MACOS", "Darwin" }, { "Solaris", "SunOS" }, { "HPUX", "HP-UX" }, { "IRIX", "IRIX64" }, { "GNU_Hurd", "GNU" }, { NULL, NULL },
};

static int is_row(const char *pattern, const char *said)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? strncasecmp(pattern, said, n - 1) == 0 : strcasecmp(pattern, said) == 0;
}

static int is_same(const same_name *rows, const char *jsdl, const char *said)
{
    if (strcasecmp(jsdl, said) == 0)
        return 1;
    for (; rows->jsdl; rows++)
        if (strcmp(rows->jsdl, jsdl) == 0 && is_row(rows->uname, said))
            return 1;
    return 0;
}

static offer kind_offers(const machine_wish *w, const machine_offer *o)
{
    if (!w->system[0] && !w->architecture[0])
        return OFFER_YES;
    for (uint32_t i = 0; i < o->kinds->n; i++) {
        const htc_wire_machine *m = &o->kinds->of[i];
        if ((!w->system[0] || is_same(systems, w->system, m->system)) && (!w->architecture[0] || is_same(architectures, w->architecture, m->machine)))
            return OFFER_YES;
    }
    return o->kinds->n == 0 || o->many ? OFFER_UNKNOWN : OFFER_NO;
}

/* Is the name of n bytes that of a machine? A short one also that of a longer one up to its dot. */
static int is_host(const char *asked, size_t n, const char *name)
{
    size_t len = strlen(name);
    return len >= n && strncasecmp(asked, name, n) == 0 && (len == n || (name[n] == '.' && !memchr(asked, '.', n)));
}

static offer host_offers(const machine_wish *w, const machine_offer *o)
{
    for (const char *p = w->hosts; p && *p;) {
        size_t n = strcspn(p, ",");
        if ((strlen(o->site) == n && strncmp(p, o->site, n) == 0) || (!o->many && o->node[0] && is_host(p, n, o->node)))
            return OFFER_YES;
        p += n + (p[n] == ',');
    }
    return !w->hosts ? OFFER_YES : o->many || !o->node[0] ? OFFER_UNKNOWN : OFFER_NO;
}

offer htc__machine_offers(const machine_wish *w, const machine_offer *o)
{
    offer host = host_offers(w, o), kind = kind_offers(w, o);
    return host < kind ? host : kind;
}

void htc__machine_wish_text(const machine_wish *w, char *text, size_t cap)
{
    const char *several = w->hosts && strchr(w->hosts, ',') ? "one of the hosts " : "host ";
    snprintf(text, cap, "%s%s%s%s%s%s%s%.*s", w->architecture[0] ? "architecture " : "", w->architecture, w->architecture[0] && w->system[0] ? " and " : "",
             w->system[0] ? "operating system " : "", w->system, w->hosts && (w->architecture[0] || w->system[0]) ? " and " : "", w->hosts ? several : "", 120,
             w->hosts ? w->hosts : "");
}
