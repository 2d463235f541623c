/* Which machine a task asks for (CandidateHosts, OperatingSystem, CPUArchitecture of its document), and whether a site or an agent is one. Pure.
 *
 * A host is named by its site, or by its own name, in full or up to the first dot. What the document calls LINUX and x86_64 is told of a machine in the words
 * of uname(2). Where it has not been told, it is no such machine: a task that asks for one never runs on what nobody knows. Nodes of a batch system are
 * known one by one, when an agent begins there. */
#ifndef HTC_ROLES_GATEWAY_OFFERS_H
#define HTC_ROLES_GATEWAY_OFFERS_H

#include "core/wire.h"
#include "htcsched/work.h"

/* What the next task of a job asks for. */
typedef struct machine_wish {
    char *hosts; /* commas between them; NULL: any. Of hosts_room bytes */
    size_t hosts_room;
    char  system[32], architecture[16]; /* as JSDL names them; "": any */
} machine_wish;

#define MACHINES_MAX 8

/* Kinds of machines of one site, each once. */
typedef struct machine_kinds {
    uint32_t         n;
    htc_wire_machine of[MACHINES_MAX];
} machine_kinds;

typedef enum offer {
    OFFER_NO,      /* it is none */
    OFFER_UNKNOWN, /* nobody has said */
    OFFER_YES
} offer;

/* A site, or an agent. */
typedef struct machine_offer {
    const char          *site, *node; /* node "": not known */
    const machine_kinds *kinds;
    uint8_t              many; /* nodes of a batch system: others than those that are known may be there, and node counts for nothing */
} machine_offer;

void  htc__machine_wish_free(const htc_env *env, machine_wish *w);
/* What t asks for. HTC_ENOMEM: w asks for nothing. */
htc_status htc__machine_wish_set(const htc_env *env, machine_wish *w, const htc_task *t);
int   htc__machine_wish_any(const machine_wish *w); /* does it ask for anything? */
void  htc__machine_add(machine_kinds *k, const htc_wire_machine *m); /* once; one that says nothing is none; beyond MACHINES_MAX none */
offer htc__machine_offers(const machine_wish *w, const machine_offer *o);
/* "architecture x86_64 and host n1": what it asks for, for people; cut to cap. */
void  htc__machine_wish_text(const machine_wish *w, char *text, size_t cap);

#endif
