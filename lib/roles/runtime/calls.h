/* What the roles ask of their host (HTC_OUT_CALL) and what the host tells them (HTC_IN_EVENT): number, body, answer.
 *
 * Every call but the ones marked "no answer" is answered exactly once by HTC_IN_RESULT with the same op and tag; its
 * status is the outcome, its body the answer on HTC_OK (else a reason as plain text, may be empty). */
#ifndef HTC_ROLES_CALLS_H
#define HTC_ROLES_CALLS_H

#include "roles/runtime/agent_wire.h"

#define HTC_CALL_TABLE(X)                                                                                              \
    /* --- asked by an agent. run: the agent's own number for one attempt, never used twice by it. --- */              \
    X(STAGE_IN, 1)  /* u64 run, attempt, str user, u64 count, u32 compat, bytes task -> make the private scratch directory and the inputs. HTC_ESTAGEIN, HTC_EINPUT, HTC_EPATH: the task's fault; HTC_ENOSPC, HTC_EIO: the node's */ \
    X(RUN, 2)       /* u64 run -> when the process and its group have ended: outcome (no outputs yet) */               \
    X(SIGNAL, 3)    /* u64 run, u32 signal to its whole process tree; u32 why as status (HTC_EWALLTIME, HTC_ECANCELLED, HTC_EKILLED); no answer */ \
    X(STAGE_OUT, 4) /* u64 run -> htc_stored: all that can be stored is, under (task, attempt), synced if durable. HTC_ENOSPC, HTC_EIO: the node's fault, and nothing is stored */ \
    X(CLEAN, 5)     /* u64 run, u8 drop: remove the scratch directory; drop = 1: the stored outputs too; no answer */  \
    /* --- asked by the gateway --- */                                                                                 \
    X(LAUNCH, 20)      /* str site, u64 agent, u32 slot, str user, u8 place (htc__place_kind), u32 uid, u32 gid -> bytes handle, str name: what was launched, for the calls below, and for people ("process 4711"). The handle is the host's own affair, 1 to HTC_HANDLE_MAX bytes, and is kept over restarts */ \
    X(KILL_AGENT, 21)  /* u64 agent, bytes handle: end it at once, if it still is that agent; no answer */              \
    X(WATCH_AGENT, 22) /* u64 agent, bytes handle ("": the answer to LAUNCH was lost), u32 pid that speaks for it (0: not known): tell AGENT_EXIT when it ends -> bytes handle, str name; HTC_ENOTFOUND: it is not there (any more) */ \
    X(HASH_PASSWORD, 23)   /* bytes password -> str verifier (Argon2id) */                                             \
    X(VERIFY_PASSWORD, 24) /* str verifier, bytes password -> HTC_OK or HTC_EAUTH */                                   \
    X(RANDOM, 25)      /* u32 n (at most 64) -> n random bytes */                                                      \
    X(BLOB_WRITE, 26)  /* 32 B hash, u64 size, u64 offset, bytes -> HTC_OK; the piece that completes it verifies the hash: HTC_EINPUT if it differs */ \
    X(BLOB_STAT, 27)   /* 32 B hash -> u64 size; HTC_ENOTFOUND */                                                      \
    X(FILE_READ, 28)   /* u64 job, u64 task, u32 attempt, str name, u64 offset, u32 len -> u64 size, bytes: a stored output; name "": the manifest */ \
    X(DROP_JOB, 29)    /* u64 job: remove all stored outputs of it -> HTC_OK */                                        \
    X(DROP_OUTPUT, 30) /* u64 job, u64 task, u32 attempt: remove stored outputs; no answer */                          \
    X(LIVE_READ, 31)   /* str site, u32 slot, attempt, str name ("stdout" or "stderr"), u64 offset, u32 len -> u64 size, bytes: what a running task has written so far */ \
    X(CONTENT_TOUCH, 36) /* hashes, 32 B each: keep those that are there for another grace -> HTC_OK */                \
    X(CONTENT_SWEEP, 37) /* u64 grace in ns, hashes: remove uploads not among them that were not asked for within the grace -> u64 files, u64 bytes removed */ \
    X(DISK_USE, 38)    /* u64 job, hashes -> u64 bytes, u64 files of its outputs; of each upload that is there: hash, u64 size. Job 0 -> u64 bytes, u64 files of all outputs, of all uploads, of unfinished ones */ \
    X(JOB_PLACE, 40)   /* u64 job, u32 uid, u32 gid: make the directory of its outputs, owned by these; no answer */

#define HTC_EVENT_TABLE(X)                                                                                             \
    X(STARTED, 60)    /* agent: u64 run: its process runs now */                                                       \
    X(AGENT_EXIT, 61) /* gateway: u64 agent, bytes handle, str how it ended, for people ("": not known) */               \
    X(AGENT_STOPPED, 62) /* gateway: u64 agent, bytes handle: it is in the stopped state */                              \
    X(TASK_STOPPED, 63)  /* agent: u64 run: its process is in the stopped state */                                     \
    X(SHUTDOWN, 64)   /* any role: a signal asked it to end; status HTC_OK: let tasks finish, HTC_EKILLED: at once */  \
    X(DISK, 65)       /* gateway: status HTC_OK or HTC_ENOSPC: the data directory is writable again or full */

#define HTC_HANDLE_MAX 64      /* bytes of what a host calls something that it has launched */
#define HTC_HANDLE_NAME_MAX 64 /* of its name for people, with its zero */

#define HTC__CALL_ENUM(name, number) HTC_CALL_##name = (number),
typedef enum htc_call { HTC_CALL_TABLE(HTC__CALL_ENUM) } htc_call;
#undef HTC__CALL_ENUM
#define HTC__EVENT_ENUM(name, number) HTC_EVENT_##name = (number),
typedef enum htc_event { HTC_EVENT_TABLE(HTC__EVENT_ENUM) } htc_event;
#undef HTC__EVENT_ENUM

const char *htc_call_name(uint32_t op); /* calls and events; "?" */

#endif
