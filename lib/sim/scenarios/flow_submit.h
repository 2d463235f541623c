/* Who submits a flow: a client of the store that writes the header as being built, the ledgers and tasks, and the header as running. Some of
 * the flow may be cancelled later. What was stored already is found there, whatever became of an answer. */
#ifndef HTC_SIM_FLOW_SUBMIT_H
#define HTC_SIM_FLOW_SUBMIT_H

#include "htcsched/kv.h"
#include "htcsched/machine.h"
#include "roles/worker/bag_resumption.h"
#include "roles/worker/submission.h"

typedef struct flow_submit_options {
    const htc_flow *given; /* checked; kept */
    uint64_t        number, job;
    uint32_t        workers; /* for so many it is laid out */
    uint32_t        tries;
    const char     *user;
    flow_places     places;
    uint32_t        peer; /* the connection to the store */
    uint64_t        client_id;
    const bag_resumption *goes_on; /* settled, kept: a bag that goes on; NULL: a new flow */
    int             removable; /* somebody may remove it meanwhile: a header that is gone is not written again */
    int             held; /* it is stored, and runs when htc__flow_submit_start says so */
} flow_submit_options;

typedef struct flow_submit flow_submit;

htc_status             htc__flow_submit_create(const htc_env *env, const flow_submit_options *options, flow_submit **out);
const htc_machine_ops *htc__flow_submit_ops(void);
int                    htc__flow_submit_stored(const flow_submit *s);
void                   htc__flow_submit_start(flow_submit *s); /* with the next step */
int                    htc__flow_submit_done(const flow_submit *s); /* it is running, has ended already, or was removed */
/* These are wanted no more: said with the next step, if the flow runs then. */
void htc__flow_submit_cancel(flow_submit *s, ledger_span ids);
/* Tasks are placed by this htc_locality_rule from now on: said in the same way. */
void htc__flow_submit_rule(flow_submit *s, uint8_t rule);

#endif
