/* What travels between programs: one message is u16 type, u64 id, payload. The transport adds a u32 length in front.
 *
 * id pairs an answer with its request and is the requester's to choose. Payloads are written with core/codec.h, unless
 * their comment says JSON. The first message on every connection is HELLO; a listener answers WELCOME, or ERROR and
 * closes. */
#ifndef HTC_CORE_WIRE_H
#define HTC_CORE_WIRE_H

#include "core/codec.h"
#include "htcsched/machine.h"

#define HTC_WIRE_MAGIC UINT32_C(0x31435448) /* "HTC1" */
/* The highest number of the protocol that is spoken here, and the lowest. Who calls says its highest one; both speak the lower of the two
 * from the welcome on. Number 2 has, in the WELCOME of a store of several members to a client, who that member is and which map it has
 * (kvs/wire/owners_wire.h); a peer of number 1 is not told, and does not tell. Of number 3 are agents and gateways that know a signal in a
 * grant and GANG_WORD; neither is said to one of a lower number. Agents and hosts of number 4 say in HELLO of which kind their machine is, and are told
 * in AGENT_WELCOME where outputs go. doc/protocol.md has the rule. */
#define HTC_WIRE_VERSION 4
#define HTC_WIRE_VERSION_MIN 1
#define HTC_WIRE_VERSION_OWNERS 2
#define HTC_WIRE_VERSION_GANGS 3
#define HTC_WIRE_VERSION_MACHINE 4
#define HTC_WIRE_VERSION_OUTPUTS 4
/* The longest message: the largest value and what stands around it. */
#define HTC_WIRE_MESSAGE_MAX ((16u << 20) + (64u << 10))

#define HTC_WIRE_TABLE(X)                                                                                              \
    /* every connection */                                                                                             \
    X(HELLO, 1)         /* u32 magic, u16 version, u8 htc_wire_role */                                                 \
    X(WELCOME, 2)       /* u16 version; a member of a store of several says more: lib/kvs/wire/owners_wire.h */             \
    X(ERROR, 3)         /* i32 status as u32, str text: about the message with this id */                              \
    /* store: lib/kvs/wire/kv_wire.h says their payloads */                                                                 \
    X(KV_REQUEST, 100)                                                                                                 \
    X(KV_ANSWER, 101)                                                                                                  \
    X(KV_MEMBERS, 102)  /* between members: lib/kvs/peer/members.h */                                                       \
    X(KV_WATCH, 103)    /* lib/kvs/wire/watch_wire.h */                                                                     \
    X(KV_EVENTS, 104)                                                                                                  \
    X(KV_OWNERS_ASK, 105) /* lib/kvs/wire/owners_wire.h */                                                                  \
    X(KV_OWNERS, 106)                                                                                                  \
    X(KV_PACK, 107)     /* from a proxy of clients: lib/kvs/wire/kv_wire.h */                                               \
    /* a user's requests to the gateway: doc/api.md */                                                                 \
    X(USER_REQUEST, 200)  /* JSON */                                                                                   \
    X(USER_ANSWER, 201)   /* JSON: the answer, or the error object */                                                  \
    X(UPLOAD, 202)        /* str user, str token, 32 B hash, u64 size, u64 offset, bytes -> USER_ANSWER */             \
    X(DOWNLOAD, 203)      /* str user, str token, u64 job, u64 task, u32 attempt (0: the committed one, else the newest), str name, u64 offset, u32 len */ \
    X(FILE_BYTES, 204)    /* u64 offset, u64 size of the file, u32 attempt, bytes: answer to DOWNLOAD */               \
    /* agents: lib/roles/runtime/agent_wire.h says their payloads */                                                           \
    X(AGENT_HELLO, 300)                                                                                                \
    X(AGENT_WELCOME, 301)                                                                                              \
    X(HEARTBEAT, 302)                                                                                                  \
    X(HEARTBEAT_ANSWER, 303)                                                                                           \
    X(PULL, 304)                                                                                                       \
    X(GRANT, 305)                                                                                                      \
    X(STARTED, 306)                                                                                                    \
    X(TASK_RESULT, 307)                                                                                                \
    X(TASK_VERDICT, 308)                                                                                               \
    X(GIVE_BACK, 309)                                                                                                  \
    X(BYE, 310)                                                                                                        \
    X(DRAIN, 311)                                                                                                      \
    X(CANCEL, 312)                                                                                                     \
    X(STOP, 313)                                                                                                       \
    X(NUDGE, 314)                                                                                                      \
    X(SLOTS, 315)                                                                                                      \
    X(SLOTS_HELD, 316)                                                                                                 \
    X(CONTENT_WANT, 317)                                                                                               \
    X(CONTENT_HERE, 318)                                                                                               \
    X(REVOKE, 319)                                                                                                     \
    X(GANG_WORD, 333)     /* lib/roles/runtime/gang_wire.h */                                                          \
    X(AGENT_OUTPUTS, 334)                                                                                              \
    /* hosts that join: lib/roles/runtime/joined_wire.h says their payloads */                                         \
    X(JOINED_HELLO, 350)                                                                                               \
    X(JOINED_WELCOME, 351)                                                                                             \
    X(JOINED_LAUNCH, 352)                                                                                              \
    X(JOINED_LAUNCHED, 353)                                                                                            \
    X(JOINED_KILL, 354)                                                                                                \
    X(JOINED_CALL, 355)                                                                                                \
    X(JOINED_ANSWER, 356)                                                                                              \
    /* workers: lib/roles/worker/worker_wire.h says their payload */                                                   \
    X(WORKER_LOAD_ASK, 320) /* seq */                                                                                  \
    X(WORKER_LOAD, 321)     /* seq, tasks */                                                                           \
    X(WORKER_STEAL, 322)    /* seq, to: the thief's ledger */                                                          \
    X(WORKER_GIVEN, 323)    /* seq, tasks, the note */                                                                 \
    X(WORKER_NOTE, 324)     /* the note: it waits to be accepted; seq 1: its tasks are pushed to where their data is */ \
    X(WORKER_ACCEPTED, 325) /* the note */                                                                             \
    X(WORKER_CLEARED, 326)  /* the note */                                                                             \
    X(WORKER_NUDGE, 327)    /* there is work to steal */                                                               \
    X(WORKER_TOLD, 328)     /* to: a ledger, note: a task that waits in it and has news, seq: how often it was sent on */ \
    X(WORKER_NOT_OWNER, 329) /* the same: it is somebody else's ledger */                                              \
    X(WORKER_COUNTS, 330)   /* from: a ledger; tasks, note, to: done, failed and cancelled, to who looks for the end */ \
    X(WORKER_COUNTED, 331)  /* the same: that is known; seq: tasks of the flow that have ended, as far as is known */    \
    X(WORKER_REDO, 332)     /* note: a task that the receiver has claimed to make again: does it? */                   \
    /* between workers, and from a gateway to a host that has joined: lib/roles/runtime/objects_wire.h */                                                             \
    X(OBJECT_ASK, 340)      /* 32 B hash, u64 offset, u32 len, varint flow */                                          \
    X(OBJECT_BYTES, 341)    /* 32 B hash, u64 offset, u64 size of the object, bytes */                                 \
    X(OBJECT_NONE, 342)     /* 32 B hash, u64 offset, status: that piece is not to be had here */

#define HTC__WIRE_ENUM(name, number) HTC_WIRE_##name = (number),
typedef enum htc_wire_type { HTC_WIRE_TABLE(HTC__WIRE_ENUM) } htc_wire_type;
#undef HTC__WIRE_ENUM

typedef enum htc_wire_role { HTC_WIRE_ROLE_STORE_CLIENT = 1, HTC_WIRE_ROLE_USER, HTC_WIRE_ROLE_AGENT, HTC_WIRE_ROLE_STORE_MEMBER, HTC_WIRE_ROLE_WORKER, HTC_WIRE_ROLE_JOINED, HTC_WIRE_ROLE_STORE_PROXY } htc_wire_role;

/* Name of a type for traces and logs; "?" for an unknown one. */
const char *htc_wire_name(uint16_t type);

void htc_wire_begin(htc_buf *b, uint16_t type, uint64_t id); /* clears b first */
/* Reads the header; the reader then stands at the payload. */
htc_reader htc_wire_open(htc_bytes message, uint16_t *type, uint64_t *id);

/* highest: the number that the caller announces; version: what both speak. */
void htc_wire_hello(htc_buf *b, uint8_t role, uint16_t highest);
void htc_wire_welcome(htc_buf *b, uint64_t id, uint16_t version);
void htc_wire_error(htc_buf *b, uint64_t id, htc_status status, const char *text);
/* r stands at the payload; highest: what is spoken here. HTC_OK, the role and the number that both speak; HTC_EPROTO; HTC_EVERSION: there
 * is none. What a later version says behind the role is passed over. */
htc_status htc_wire_read_hello(htc_reader *r, uint16_t highest, uint8_t *role, uint16_t *version);
/* Of which kind the machine of the caller is, in the words of uname(2): "Linux", "x86_64". "": not said. */
#define HTC_WIRE_MACHINE_MAX 32
typedef struct htc_wire_machine {
    char system[HTC_WIRE_MACHINE_MAX], machine[HTC_WIRE_MACHINE_MAX];
} htc_wire_machine;
/* The same with that behind the role; both texts or none. */
void       htc_wire_hello_machine(htc_buf *b, uint8_t role, uint16_t highest, const htc_wire_machine *m);
htc_status htc_wire_read_hello_machine(htc_reader *r, uint16_t highest, uint8_t *role, uint16_t *version, htc_wire_machine *m);
/* The number in a WELCOME; HTC_EVERSION if it is none of those that the caller, who has announced highest, can speak. */
htc_status htc_wire_read_welcome(htc_reader *r, uint16_t highest, uint16_t *version);

/* htc_peer_info as the body of HTC_IN_OPENED. */
void       htc_peer_info_write(htc_buf *b, const htc_peer_info *info);
htc_status htc_peer_info_read(htc_bytes body, htc_peer_info *info);
/* Behind it where the transport is HTC_TRANSPORT_SECURE. */
void htc_peer_identity_write(htc_buf *b, const htc_peer_identity *identity);

#endif
