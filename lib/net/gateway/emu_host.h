/* The processes of an emulated first-level scheduler (roles/batch/emu.h): each step is a shell in a session of its own, which outlives us. Steps that run are written
 * down before they begin, so that a later process goes on with them.
 *
 * Threads: owner. */
#ifndef HTC_NET_EMU_HOST_H
#define HTC_NET_EMU_HOST_H

#include <event2/event.h>

#include "htcsched/gateway_host.h"
#include "roles/batch/emu.h"

typedef struct htc__emu_host htc__emu_host;

typedef struct htc__emu_host_options {
    const htc_env      *env;
    struct event_base  *base;
    const char         *dir;     /* is made: the journal, and scripts of jobs; copied */
    const char *const  *environ; /* of the steps; kept */
    const htc_gateway_host_emu *emu;
    uint32_t            cores;   /* of the one cluster where emu names none */
    uint64_t            identity; /* of the directory (roles/batch/batch.h) */
} htc__emu_host_options;

htc_status htc__emu_host_create(const htc__emu_host_options *options, htc__emu_host **out, htc_error *error);
/* Steps go on. */
void htc__emu_host_free(htc__emu_host *h);

/* Carries out one of the emulator's commands: its exit code; what it has printed is lent until the next one. */
int htc__emu_host_command(htc__emu_host *h, htc_bytes words, htc_bytes input, htc_bytes *printed, htc_bytes *error);

#endif
