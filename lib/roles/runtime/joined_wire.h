/* What the gateway and a host that has joined it say to each other.
 *
 * The connection is a secure channel, and the host's key has the name of a site. The agents of the site are the host's children; each has a
 * connection to the gateway of its own and is nothing else than an agent of a site of the gateway's machine (agent_wire.h).
 *
 * Rules both sides rely on:
 * - JOINED_HELLO is said on each connection first, after any change of what it says, and else as often as a heartbeat: it lists the agents
 *   that there are. The gateway answers each with JOINED_WELCOME; who hears nothing for too long dials again.
 * - launches: how many JOINED_LAUNCH of this connection the host has taken. An agent that was launched by one of these, or by an earlier
 *   connection, and is not listed is gone: so the end of an agent needs no message of its own, and none can be lost. Of one that is listed and that
 *   the gateway does not know the gateway says JOINED_KILL.
 * - JOINED_LAUNCH is answered by JOINED_LAUNCHED. The connection may break in between: then the next JOINED_HELLO tells. Of one that was launched and
 *   ends before it has begun, JOINED_LAUNCHED says why, a second time, with a status. */
#ifndef HTC_ROLES_JOINED_WIRE_H
#define HTC_ROLES_JOINED_WIRE_H

#include "core/wire.h"
#include "htcsched/work.h"

#define HTC_JOINED_AGENTS_MAX 1024
#define HTC_JOINED_RESOURCES_MAX 16

typedef enum htc_joined_phase {
    HTC_JOINED_THERE,
    HTC_JOINED_WAITS,   /* it has not begun, as a job in a queue has not */
    HTC_JOINED_EXPIRES, /* its time ends soon: it is to finish what runs, and another one is to take its place */
    HTC_JOINED_PHASES
} htc_joined_phase;

typedef struct htc_joined_hello {
    char     node[64];  /* host name */
    char     data[256]; /* absolute: where its agents store outputs */
    uint32_t slots, cores;
    uint32_t agent_slots; /* 0: an agent takes more and gives some back while it runs; else it has as many as at its start, at most these */
    uint64_t memory; /* bytes */
    uint8_t  leaving; /* it ends: nothing more is to be launched there, and its agents are to finish */
    uint64_t launches;
    uint64_t keys;     /* of the newest JOINED_WELCOME whose keys it has taken; 0: none */
    uint32_t count;
    uint64_t agents[HTC_JOINED_AGENTS_MAX];
    uint8_t  phases[HTC_JOINED_AGENTS_MAX]; /* htc_joined_phase */
    uint32_t n_resources; /* that it counts; a host without such says nothing of them, so that an older gateway reads it */
    struct {
        char     name[HTC_RESOURCE_NAME_MAX + 1];
        uint32_t count;
    } resources[HTC_JOINED_RESOURCES_MAX];
} htc_joined_hello;

/* status other than HTC_OK: it is sent away, and text says why and what to do. */
typedef struct htc_joined_welcome {
    htc_status status;
    char       text[256];
    htc_ns     heartbeat_ns, lost_after_ns;
    uint64_t   keys; /* names the keys that hosts have; 0: they are not told */
    htc_bytes  ring; /* these, as a ring's text (htcsched/keyring.h), if the host has others: the public keys by which hosts know each other. Borrowed */
} htc_joined_welcome;

/* JOINED_LAUNCH: the body of HTC_CALL_LAUNCH (htcsched/calls.h). JOINED_LAUNCHED: u64 agent, u32 status, and the body of the answer to
 * that call, or why not in words. JOINED_KILL: u64 agent.
 * JOINED_CALL: u32 tag, u32 op, bytes body: a call of htcsched/calls.h about files, HTC_CALL_FILE_READ, HTC_CALL_LIVE_READ, HTC_CALL_DROP_JOB or
 * HTC_CALL_DROP_OUTPUT; tag 0: nobody waits for an answer. JOINED_ANSWER, on the same connection: u32 tag, u32 status, bytes body. */

void       htc_joined_hello_write(htc_buf *b, const htc_joined_hello *m);
htc_status htc_joined_hello_read(htc_reader *r, htc_joined_hello *m);
void       htc_joined_welcome_write(htc_buf *b, const htc_joined_welcome *m);
htc_status htc_joined_welcome_read(htc_reader *r, htc_joined_welcome *m);
void       htc_joined_launched_write(htc_buf *b, uint64_t agent, htc_status status, htc_bytes body);
/* body is borrowed from the reader. */
htc_status htc_joined_launched_read(htc_reader *r, uint64_t *agent, htc_status *status, htc_bytes *body);
void       htc_joined_kill_write(htc_buf *b, uint64_t agent);
htc_status htc_joined_kill_read(htc_reader *r, uint64_t *agent);

void       htc_joined_call_write(htc_buf *b, uint32_t tag, uint32_t op, htc_bytes body);
htc_status htc_joined_call_read(htc_reader *r, uint32_t *tag, uint32_t *op, htc_bytes *body); /* body: borrowed from the reader */
void       htc_joined_answer_write(htc_buf *b, uint32_t tag, htc_status status, htc_bytes body);
htc_status htc_joined_answer_read(htc_reader *r, uint32_t *tag, htc_status *status, htc_bytes *body); /* likewise */

#endif
