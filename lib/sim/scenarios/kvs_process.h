/* A process and its processor in the exact engine: a machine that takes what has come in turns, as the live loop lets it, and whose turns take time. What a turn
 * takes is counted with the costs of the store's model (sim_kvs.h), so that both can be given the costs that were measured.
 *
 * A frame is what one turn sends on one connection; frames leave one after the other when all else of the turn is done. What is to be durable leaves when the turn is over. */
#ifndef HTC_SIM_SCENARIOS_KVS_PROCESS_H
#define HTC_SIM_SCENARIOS_KVS_PROCESS_H

#include "htcsched/sim.h"
#include "htcsched/sim_kvs.h"

#define KVS_PROCESS_RUN   9001 /* HTC_IN_EVENT: it has a core now */
#define KVS_PROCESS_BEGIN 9002 /* HTC_IN_EVENT for its machine: the measured requests begin */

typedef struct exact_process exact_process;

/* Those of one machine; cores 0: each process has its own. */
typedef struct kvs_cores {
    uint32_t       cores, running;
    exact_process *first, *last; /* that wait for one */
} kvs_cores;

typedef struct kvs_told {
    uint64_t          turns, syncs, served; /* served: requests */
    htc_ns            busy;
    htc_sim_kvs_count requests, between;
} kvs_told;

typedef enum exact_process_state { KVS_IDLE, KVS_READY, KVS_BEGINS, KVS_RUNS, KVS_SYNCS } exact_process_state; /* SYNCS: alone, it stands still until it has synced */

struct exact_process {
    const htc_env             *env;
    const htc_sim_kvs_options *o; /* with their defaults */
    kvs_cores                 *cores;
    htc_sim_node              *node;
    const htc_machine_ops     *ops; /* of the machine that works */
    void                      *machine;
    uint32_t                   members;  /* a member: its peers up to this number are members. 0: a program of clients */
    uint32_t                   begins;   /* a program: requests that begin at once */
    /* what follows is the process's own */
    htc_output                *inner;
    struct kvs_input          *inbox, **inbox_end;
    struct kvs_effect         *out, **out_end;
    struct kvs_frame          *frame;
    size_t                     frames, frames_room;
    exact_process             *next; /* that waits for a core, too */
    exact_process_state        state;
    htc_ns                     begins_at, ends; /* of a turn */
    uint64_t                   writes; /* of the sync under way */
    int                        awake, commits; /* commits: this turn has something to sync */
    kvs_told                   told;
};

/* All above "what follows" is set. The machine stays the caller's until the process is installed; then the process ends it. */
htc_status htc__kvs_process_open(exact_process *p);
void       htc__kvs_process_close(exact_process *p);
/* For htc_sim_install, with the process as the machine. */
const htc_machine_ops *htc__kvs_process_ops(void);

#endif
