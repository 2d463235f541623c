/* Several gateways on one store: which is the active one (active.c), and that it goes on from what nobody else can change any more (seal.c). */
#ifndef HTC_ROLES_GATEWAY_ACTIVE_H
#define HTC_ROLES_GATEWAY_ACTIVE_H

#include "htcsched/gateway.h"
#include "htcsched/runtime.h"

#define ACTIVE_NAME_BYTES 64

/* What the record of the active gateway says. */
typedef struct active_claim {
    uint64_t term;     /* grows with each gateway that becomes active */
    uint64_t sealed;   /* the last term whose gateway had written all that it went on from anew */
    uint64_t instance; /* of the gateway: another one with each start */
    uint64_t beat;     /* how often it has been renewed */
    htc_ns   lease;
    uint8_t  released; /* the term is over: it was given up */
    char     name[ACTIVE_NAME_BYTES], address[300];
} active_claim;

typedef struct active {
    active_claim own;     /* as it was written last, or is to be; term 0: not active */
    active_claim seen;    /* of another gateway, while this one waits */
    uint64_t     version; /* of the record, as it was read or written last */
    htc_ns       until;   /* the lease lasts so long, as far as is known: then nothing is begun before it is renewed */
    htc_ns       asked;   /* when the write under way was */
    htc_ns       since;   /* it has been of this version since then, as far as was seen, on the clock of now */
    htc_ns       look_at; /* the next look or renewal */
    uint8_t      busy;    /* a look or a write is under way */
    uint8_t      known;   /* the record was read at least once */
    uint8_t      again;   /* written anew as soon as the one under way is answered */
    uint8_t      confirming;
    char         data_id[65];
    const char  *unreadable; /* what was read and makes no sense: damaged, or of a term after this one's; NULL: nothing */
    uint64_t     taking;  /* the term that is being claimed */
    uint64_t     sealed_before; /* what the records of earlier terms than this one say was never seen by a gateway that served */
    htc_runtime_waiter *confirm_now, *confirm_next; /* wait for the confirmation under way; for the one after it */
    htc_runtime_waiter *written;    /* wait for the next write of the record that begins after they came */
    htc_runtime_waiter *writing;    /* for the one under way */
    htc_output  *step;              /* effects of the step under way */
    htc_output  *held, *covered;    /* that wait for the next confirmation; for the one under way */
    uint8_t      release;           /* what is covered may leave */
} active;

/* active.c */
htc_status htc__gw_active_init(htc_gateway *gw, const htc_gateway_options *o);
void       htc__gw_active_free(htc_gateway *gw);
void       htc__gw_active_begin(htc_gateway *gw); /* the start: look who is active */
void       htc__gw_active_go(htc_gateway *gw);    /* what time brings about */
htc_ns     htc__gw_active_deadline(const htc_gateway *gw);
/* Then fn, with HTC_OK: this gateway was the active one when fn was asked for, or later. Else the gateway ends. */
void htc__gw_confirm(htc_gateway *gw, htc_runtime_wait_fn fn, void *ctx);
/* What was read makes no sense. With a store of its own it is damaged: HTC_ECORRUPT. Where other gateways may be, one of them may have written in
 * between: it is damaged only if this gateway's term holds still. The caller does nothing more with it; htc__gw_reads says so from now on. */
void       htc__gw_unreadable(htc_gateway *gw, const char *what);
int        htc__gw_reads(const htc_gateway *gw); /* nothing has failed, and nothing read was unreadable */
/* Write the record anew, then fn. */
void htc__gw_active_write(htc_gateway *gw, htc_runtime_wait_fn fn, void *ctx);
htc_output *htc__gw_gate_begin(htc_gateway *gw, htc_output *out); /* where the effects of a step go */
void        htc__gw_gate_ask(htc_gateway *gw);                    /* before the step ends */
htc_status  htc__gw_gate_end(htc_gateway *gw, htc_output *out);   /* what may leave now */
int         htc__gw_active_holds(const htc_gateway *gw); /* as far as is known: a hint, and no more */
int         htc__gw_gate_is_empty(const htc_gateway *gw);
void        htc__gw_record_active_write(htc_buf *b, const active_claim *c);
htc_status  htc__gw_record_active_read(htc_bytes bytes, active_claim *c);

/* seal.c */
void htc__gw_seal(htc_gateway *gw);       /* all is read */
void htc__gw_seal_check(htc_gateway *gw); /* and now, perhaps, written */

/* records.c */
int        htc__gw_record_job_void(htc_bytes bytes); /* a number under which there is no job, and never will be */
htc_bytes  htc__gw_record_job_void_bytes(void);
/* That a job is open: by which term, and whether it was so when it was submitted or again. An older record says neither. */
void       htc__gw_record_open_write(htc_buf *b, uint64_t term, int again);
void       htc__gw_record_open_read(htc_bytes bytes, uint64_t *term, int *again);

#endif
