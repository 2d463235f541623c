/* Processes that the leader of a gang starts on the nodes of its members: what the program htc-gang says to the leader's agent, and what agents
 * say to each other of it, through the gateway.
 *
 *     htc-gang          leader's agent             gateway          member's agent
 *        ---command---->   ---START, repeated------->   --------------->  begins it once
 *                          <--RUNS-------------------   <---------------  to every START of one that has not ended
 *        (goes away)  ->   ---STOP, repeated-------->   --------------->  TERM, then KILL
 *        <---end--------   <--ENDED, repeated--------   <---------------
 *                          ---SEEN------------------>   --------------->  forgets what it has written
 *
 * Every word may be lost, doubled, delayed. A start has a number that the leader gives once for each member; a member begins it once. The gateway
 * passes a word on if it knows the gang of that very attempt and the speaker is who may say it: the leader START, STOP and SEEN, the
 * member that it names RUNS and ENDED. It keeps nothing of them. */
#ifndef HTC_ROLES_GANG_WIRE_H
#define HTC_ROLES_GANG_WIRE_H

#include "htcsched/work.h"
#include "roles/runtime/agent_wire.h"

#define HTC_GANG_STARTS_MAX 1024u          /* on one node, of one attempt */
#define HTC_GANG_AT_ONCE    64u            /* of them, that have not ended */
#define HTC_GANG_WORDS_MAX  (128u << 10)   /* bytes of a command's words */
#define HTC_GANG_STREAM_MAX (64u << 10)    /* bytes of each standard stream that are told: its last ones */
#define HTC_GANG_NODE_MAX   256            /* bytes of a node's name, with its zero */
#define HTC_GANG_BODY_MAX   (2 * HTC_GANG_STREAM_MAX + 1024)

typedef enum htc_gang_kind { HTC_GANG_START = 1, HTC_GANG_STOP, HTC_GANG_SEEN, HTC_GANG_RUNS, HTC_GANG_ENDED } htc_gang_kind;

/* GANG_WORD. */
typedef struct htc_gang_word {
    uint64_t    agent; /* who says it */
    htc_attempt attempt;
    uint32_t    member; /* of the gang, from 1: on whose node */
    uint32_t    start;  /* from 1, at most HTC_GANG_STARTS_MAX */
    uint8_t     kind;   /* htc_gang_kind */
    htc_bytes   body;   /* START: words; ENDED: htc_gang_end; else empty. Borrowed from the reader */
} htc_gang_word;

void       htc_gang_word_write(htc_buf *b, const htc_gang_word *m);
htc_status htc_gang_word_read(htc_reader *r, htc_gang_word *m);

/* What htc-gang asks for. Words: each ends with a zero, and the first is a program. */
typedef struct htc_gang_command {
    char      node[HTC_GANG_NODE_MAX]; /* its name, or # and a member's number */
    htc_bytes words;
} htc_gang_command;

void       htc_gang_command_write(htc_buf *b, const htc_gang_command *c);
htc_status htc_gang_command_read(htc_bytes bytes, htc_gang_command *c);
/* How many there are; 0: these are no words. */
size_t     htc_gang_words(htc_bytes words);

/* How it ended. here: the node is the caller's own, which starts it itself. */
typedef struct htc_gang_end {
    uint8_t    here;
    htc_status status; /* as an outcome's; HTC_ENOTFOUND: the gang has no such node; HTC_EUNSUPPORTED: who would start it is of an earlier version */
    int32_t    exit_code;
    uint32_t   signal;
    char       reason[256];
    htc_bytes  out, err; /* the last bytes of both streams */
} htc_gang_end;

void       htc_gang_end_write(htc_buf *b, const htc_gang_end *e);
htc_status htc_gang_end_read(htc_bytes bytes, htc_gang_end *e); /* streams are borrowed */

/* The member that a node's name means, of names with blanks between, the leader's first; busy[i]: processes of member i, of n. The one of that name with the
 * fewest, the first of these. HTC_GANG_NONE: there is none. */
#define HTC_GANG_NONE UINT32_MAX
uint32_t htc_gang_member(const char *nodes, const char *name, const uint32_t *busy, uint32_t n);

#endif
