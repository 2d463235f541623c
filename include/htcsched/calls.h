/**
 * @file htcsched/calls.h
 * @brief What the roles ask of their host (HTC_OUT_CALL) and what the host tells them (HTC_IN_EVENT): number, body, answer.
 *
 * Who embeds a gateway, an agent or a worker in a program of their own carries these calls out. The library's own hosts are
 * htcsched/agent_host.h and htcsched/gateway_host.h; examples/embed/site.c is one in virtual time.
 *
 * Every call but those marked "no answer" is answered exactly once, by HTC_IN_RESULT with the same op and tag. Its status is the
 * outcome, its body the answer on HTC_OK, else a reason as plain text, which may be empty. Calls are carried out in the order of the
 * effects where that can be told; their answers may come in any order.
 *
 * Bodies are in the form of htcsched/codec.h: u8, u32, u64, varint, str and bytes are what htc_put_u8 and its like write, a hash is 32 raw
 * bytes, a status is a u32, times are u64 in nanoseconds. Four forms come again and again:
 *
 *     attempt  varint job, varint task, varint attempt: one try of one task
 *     outputs  varint files, varint directories, varint links, varint errors (what could not be stored), varint bytes of the files,
 *              varint manifest_bytes; if that is not 0, the hash of the manifest (doc/protocol.md)
 *     outcome  status, u32 exit code, u32 signal, u64 CPU time, u64 most bytes of memory, u64 begin and u64 end on the wall clock (0: it
 *              never ran), str node, str reason (at most 255 bytes), bytes end of standard error (at most 4096, for a failure), u8 final,
 *              outputs. status: HTC_OK, HTC_EEXIT, HTC_ESIGNAL, HTC_EKILLED, HTC_EOOM, HTC_EWALLTIME, HTC_EREFUSED, HTC_ENOEXEC,
 *              HTC_ESTAGEIN, HTC_EINPUT, HTC_ESTAGEOUT, HTC_ENOSPC, HTC_ECANCELLED. final 1: trying again cannot mend it
 *     span     status why, str reason (at most 255 bytes), u64 begin and u64 end on the wall clock, u64 done (tasks that have ended well),
 *              varint n and n times u64 number, status, str reason (at most 255 bytes): failed; varint n and n times u64 from, u64 to: not
 *              run, or not known to have ended; varint n and n times u64 number, bytes (at most 131072): what tasks have left as output.
 *              Every number of the span is in exactly one of done, failed and not run; outputs are of tasks that are done. Tasks not run
 *              are so for why: HTC_OK (there are none), HTC_AGAIN (taken back), HTC_ECANCELLED and others of SIGNAL, HTC_EFULL (1024 failed,
 *              or 4 MiB of outputs: an answer holds no more), HTC_EREFUSED, HTC_ENOMEM, HTC_EIO (the node's fault). A task fails with HTC_EEXIT
 *              (the function said so, or exit() was called), HTC_ESIGNAL, HTC_EKILLED, HTC_EOOM, HTC_EWALLTIME, HTC_ETOOBIG (output)
 *     stored   status (HTC_OK, or HTC_ESTAGEOUT: something that belongs to the result could not be stored), u8 final, str reason (at most
 *              255 bytes), outputs
 *
 * Threads: pure.   Allocation: none.   Since: 0.2
 */
#ifndef HTCSCHED_CALLS_H
#define HTCSCHED_CALLS_H

#include "htcsched/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of what a host calls something that it has launched, at most. */
#define HTC_HANDLE_MAX 64
/** Bytes of its name for people, with the zero. */
#define HTC_HANDLE_NAME_MAX 64

/** What is asked of a host. A run is an agent's own number for one attempt, which it never uses twice. */
typedef enum htc_call {
    /* An agent asks, or a worker (htcsched/worker.h): */
    HTC_CALL_STAGE_IN = 1, /**< u64 run, attempt, str user, u64 tasks of the job, u32 compat (0: none, 1: Slurm's environment, 2: SGE's),
                                bytes task (htc_task_from_bytes): make the private scratch directory and the inputs. HTC_ESTAGEIN,
                                HTC_EINPUT, HTC_EPATH: the task's fault; HTC_ENOTFOUND: an upload or object that it reads is not here,
                                HTC_ECORRUPT: it has another hash; HTC_ENOSPC: the node's scratch is full; HTC_EIO, HTC_ETIMEDOUT: what was
                                read or written fails for now, or for good; HTC_AGAIN: as many tasks are staged as may be at once,
                                nothing was done */
    HTC_CALL_RUN = 2,      /**< u64 run -> outcome, without outputs, when its process and all that it has started have ended. Several may be asked
                                for: those beyond the host's slots begin when one is free. HTC_AGAIN: it was taken back before it
                                began (TAKE_BACK, SIGNAL); HTC_ENOSPC, HTC_EIO: the node's fault */
    HTC_CALL_SIGNAL = 3,   /**< u64 run, u32 signal, u32 why as a status (HTC_EWALLTIME, HTC_ECANCELLED, HTC_EKILLED): to all of its
                                processes. No answer */
    HTC_CALL_STAGE_OUT = 4, /**< u64 run -> stored: all that can be stored is, under task and attempt, synced if results are to be durable.
                                 HTC_ENOSPC, HTC_EIO, HTC_ETIMEDOUT: the storage takes nothing for now, or for good, and nothing is
                                 stored; HTC_AGAIN: as STAGE_IN. What is stored and goes to a URL as well is sent there; stored says if that met
                                 trouble, and STAGE_OUT again sends the rest */
    HTC_CALL_TAKE_BACK = 6, /**< u64 run: if RUN was asked and it has not begun, RUN answers HTC_AGAIN now; while it is staged in what takes long may be
                                 given up, and STAGE_IN answers HTC_ECANCELLED; while it is staged out nothing more is sent to URLs, and STAGE_OUT
                                answers what is stored with that status; else nothing. No answer of its own */
    HTC_CALL_DIAL = 12,     /**< str address (unix:PATH, or tcp://[NAME@]HOST:PORT, where NAME is whose key it shows) -> u32 number of the
                                 connection: keep one to it, made again when it is lost, until HANG_UP. HTC_OK does not say that anybody is
                                 there: HTC_IN_OPENED does. HTC_EUNSUPPORTED: no such address */
    HTC_CALL_HANG_UP = 13,  /**< u32 number that DIAL answered: end it. No answer */
    HTC_CALL_SLOTS = 7,    /**< u32 slots, at least 1: so many tasks run at once from now on. With fewer than run, nothing is ended, and
                                nothing begins before fewer run. No answer */
    HTC_CALL_CLEAN = 5,    /**< u64 run, u8 drop: remove the scratch directory; drop 1: what was stored too. No answer */
    HTC_CALL_RUN_SPAN = 8,  /**< u64 run, str user, bytes task (htc_task_from_bytes, not a command), u64 from, u64 to (task numbers, from < to),
                                 varint inputs (0, or to - from), bytes each (at most 4096): the input of task from, from + 1 and so on ->
                                 span, when all of it has ended or been given up. The function is called once for each number, by as
                                 many threads at a time as the host has slots at the time (SLOTS), whatever runs beside; several spans may be under way (64).
                                 The run is not staged in or out, and not cleaned. TAKE_BACK: no further task is begun, and span is
                                 told when those under way have ended (why HTC_AGAIN). SIGNAL: the same, and functions are told that they
                                 are cancelled (why as asked); with SIGKILL those under way have failed at once. Of the task's limits
                                 wall is that of each task, cpu does not count, the others are those of the process that calls the
                                 function. An answer that is not HTC_OK: nothing was run (HTC_ENOMEM: or it is not known what). HTC_EUNSUPPORTED: a command;
                                 HTC_ENOTFOUND: no such builtin, or no such symbol; HTC_EINVAL: an argument that the builtin does not take; HTC_EINPUT: the object cannot be read or loaded; HTC_ECORRUPT: it has another hash;
                                 HTC_EVERSION: it was made for another version of htcsched/task_fn.h; HTC_EREFUSED, HTC_ENOSPC, HTC_EIO: the
                                 node's fault; HTC_EBUSY: too many spans; HTC_EPROTO: not such a body */
    HTC_CALL_GANG_RUN = 54, /**< u64 run of a member of a gang, staged in, u64 number, bytes task: a process that the gang's leader has asked for, in
                                 the directory of that run and beside whatever runs. number is a run's from then on: SIGNAL, and CLEAN, which
                                 leaves the directory -> u8 0, status, u32 exit code, u32 signal, str reason (at most 255 bytes), bytes the end of standard
                                 output, bytes that of standard error (at most 65536 each). HTC_ENOTFOUND: there is no such run. Since: 0.2 */
    HTC_CALL_GANG_ANSWER = 55, /**< u64 run, u64 request of EVENT_GANG_ASKED, and what GANG_RUN answered, or u8 1: the node is the run's own. No answer.
                                    Since: 0.2 */

    HTC_CALL_OUTPUTS_AT = 56, /**< str dir, str id -> HTC_OK: outputs are stored in that directory of a gateway's data from now on, if it is the one that
                                   htc_gateway_host_outputs has given this id; where a job has no place there, or one that is another uid's, as without.
                                   Else why not, in words, and they are stored as without. dir "": as without. Since: 0.2 */

    /* A worker asks, for the objects that tasks make and others read. An object is known by its hash, or by a name in its place: then whoever
       finishes, drops or gives it says the hash of its content too. Its calls are carried out in the order in which they are asked: */
    HTC_CALL_OBJECT_ROOM = 44,   /**< hash, u64 size -> u64 have: set disk aside for an object that is to be fetched. have: bytes of its
                                      beginning that are there from a fetch that was broken off. HTC_EEXISTS: all of it is there; HTC_ENOSPC */
    HTC_CALL_OBJECT_WRITE = 45,  /**< hash, u64 offset, u64 size, bytes -> HTC_OK: a piece is written, behind all that stand before it: one
                                      that comes early waits for them. HTC_ENOTFOUND: room was not made; HTC_ENOSPC, HTC_EIO:
                                      what was written before stays; HTC_ECANCELLED: it was finished or dropped meanwhile */
    HTC_CALL_OBJECT_FINISH = 46, /**< hash (a name: and the content's hash) -> HTC_OK: the object is whole, has that hash, is synced if results are to be durable, and is kept
                                      until DROP. HTC_EINPUT: it has another hash, and is removed */
    HTC_CALL_OBJECT_READ = 47,   /**< hash, u64 offset, u32 len, bytes prefix (at most 64) -> the prefix, hash, u64 offset, u64 size, bytes:
                                      of a whole object. HTC_ENOTFOUND; HTC_EINPUT: it does not reach so far */
    HTC_CALL_OBJECT_ADOPT = 48,  /**< hash, u64 size, attempt, str name -> HTC_OK: the stored output of that name is an object from now on. The
                                      output may be removed afterwards. HTC_ENOTFOUND; HTC_EINPUT: it is another one now */
    HTC_CALL_OBJECT_DROP = 49,   /**< hash (a name: and the content's hash) -> HTC_OK: it is removed, whole or not, and so is the claim to its room */
    HTC_CALL_OBJECT_GIVE = 53,   /**< hash, str user (a name: and the content's hash) -> HTC_OK: the whole object is an upload of that user's here, until DROP. HTC_ENOTFOUND; HTC_ENOSPC,
                                      HTC_EIO. Since: 0.2 */
    HTC_CALL_OBJECT_LIST = 50,   /**< -> for each object that is there: hash, u64 bytes, u8 whole (0: its beginning alone), the one that was
                                      used longest ago first. At most 65536; more are removed */
    HTC_CALL_OBJECT_OUTPUT = 51, /**< attempt, str name -> hash, u64 size: of the stored output of that name, as its manifest says.
                                      HTC_ENOTFOUND: it is not stored, or not all of it */
    HTC_CALL_OUTPUT_READ = 52,   /**< attempt, str name, u32 most (at most 1 MiB) -> bytes: all of the stored output of that name. HTC_ENOTFOUND: it is not
                                      stored, as one that was empty; HTC_ETOOBIG: it is longer than most */

    /* A gateway asks: */
    HTC_CALL_LAUNCH = 20,     /**< str site, u64 agent, u32 slot, str user, u8 place (1: as whoever started the system, 2: confined, 3: as
                                   uid), u32 uid, u32 gid; with slots_max above 1 also u32 slots, of the agent's options -> bytes handle, str name: what was launched, for the calls below and for people
                                   ("process 4711"). The handle is the host's own affair, 1 to HTC_HANDLE_MAX bytes; it is kept over
                                   restarts of the gateway */
    HTC_CALL_KILL_AGENT = 21, /**< u64 agent, bytes handle: end it at once, if it still is that agent. No answer */
    HTC_CALL_WATCH_AGENT = 22, /**< u64 agent, bytes handle (empty: the answer to LAUNCH was lost), u32 pid that speaks for it (0: not
                                    known) -> bytes handle, str name; from now on AGENT_EXIT is told. HTC_ENOTFOUND: it is not there (any
                                    more) */
    HTC_CALL_HASH_PASSWORD = 23,   /**< bytes password -> str verifier (at most 159 bytes) */
    HTC_CALL_VERIFY_PASSWORD = 24, /**< str verifier, bytes password -> HTC_OK or HTC_EAUTH */
    HTC_CALL_RANDOM = 25,     /**< u32 n (at most 64) -> n random bytes that nobody can guess */
    HTC_CALL_BLOB_WRITE = 26, /**< str user, hash, u64 size, u64 offset, bytes, and where the user has a quota u64 most -> u64 number, u64 bytes
                                   of the user's uploads, u64 bytes that unfinished ones are announced with; an empty answer says nothing of them. A
                                   piece of an upload of that user's; that which completes it is HTC_EINPUT if the whole has another hash. HTC_EDENIED:
                                   it is the first one, and all uploads of the user, unfinished ones too, would come to more than most; then how many bytes
                                   are left, in words. Uploads of several users are kept apart. Of two answers the one with the higher number is newer */
    HTC_CALL_BLOB_STAT = 27,  /**< str user, hash -> u64 size; HTC_ENOTFOUND: that user has no such upload */
    HTC_CALL_BLOB_READ = 39,  /**< str user, hash, u64 offset, u32 len (at most 1 MiB), bytes prefix (at most 64) -> the prefix, u64 offset, u64
                                   size, bytes: of an upload. HTC_ENOTFOUND; HTC_EINPUT: it does not reach so far.
                                   Since: 0.2 */
    HTC_CALL_FILE_READ = 28,  /**< u64 job, u64 task, u32 attempt, str name, u64 offset, u32 len -> u64 size, bytes: of a stored output;
                                   name "": the manifest */
    HTC_CALL_DROP_JOB = 29,   /**< u64 job: remove all stored outputs of it -> HTC_OK */
    HTC_CALL_DROP_OUTPUT = 30, /**< u64 job, u64 task, u32 attempt: remove stored outputs. No answer */
    HTC_CALL_LIVE_READ = 31,  /**< str site, u32 slot, attempt, str name ("stdout" or "stderr"), u64 offset, u32 len -> u64 size, bytes: what a
                                   running task has written so far */
    HTC_CALL_CONTENT_TOUCH = 36, /**< str user, hashes: keep those of that user's that are there for another grace -> of each of these its hash and
                                      u64 size */
    HTC_CALL_CONTENT_SWEEP = 37, /**< u64 grace, hashes: remove uploads not among them, whosever, that were not asked for within the grace -> u64
                                      files, u64 bytes removed */
    HTC_CALL_CONTENT_ADOPT = 41, /**< u8 htc_adopt; with HTC_ADOPT_GIVE str user, hashes: about uploads of an earlier system, which kept them for
                                      everybody -> u64: how many there are, were given to that user, were removed. Since: 0.2 */
    HTC_CALL_CONTENT_FETCH = 42,  /**< to a host that has joined, which asks the gateway for what it lacks: str user, u8 spoilt (1: what is there under one
                                      of the hashes is another content), and so many times a name that nobody else's has, hash, u64 size -> HTC_OK: that user's tasks find these uploads there. HTC_ENOTFOUND, HTC_ENOSPC, HTC_EIO. Since: 0.2 */
    HTC_CALL_CONTENT_SUM = 57,    /**< -> u64 number, and for each user who has uploads here: str user, u64 number, u64 bytes, u64 bytes of unfinished ones,
                                      as BLOB_WRITE has them; counted anew. With str user only that one's, as they are known, after 0. Since: 0.2 */
    HTC_CALL_DISK_USE = 38,   /**< u64 job, if it is not 0 str user, hashes -> u64 bytes, u64 files of its outputs; then of each upload that is there its hash and u64
                                   size. Job 0 -> u64 bytes, u64 files of all outputs, of all uploads, of unfinished ones */
    HTC_CALL_MAIL = 43,        /**< str to (addresses with commas between them), str subject, bytes text -> HTC_OK: a command has taken it.
                                    HTC_EUNSUPPORTED: there is none; else what it has said */
    HTC_CALL_JOB_PLACE = 40   /**< u64 job, u32 uid, u32 gid: make the place of its outputs if it is not there; uid != 0: owned by
                                   these. Nobody else makes it, so that nothing is stored of a job that was dropped. No answer */
} htc_call;

/** What HTC_CALL_CONTENT_ADOPT is to do. */
typedef enum htc_adopt {
    HTC_ADOPT_COUNT = 0, /**< nothing but count them */
    HTC_ADOPT_GIVE = 1,  /**< those of these hashes are that user's too */
    HTC_ADOPT_DROP = 2   /**< each is given to whose it is: remove them */
} htc_adopt;

/** What a host tells unasked. */
typedef enum htc_event {
    HTC_EVENT_STARTED = 60,       /**< to an agent or worker: u64 run: its process runs now */
    HTC_EVENT_AGENT_EXIT = 61,    /**< to a gateway: u64 agent, bytes handle, str how it ended, for people ("": not known). Once more, when it
                                       is known why one has ended of which that was not known */
    HTC_EVENT_AGENT_STOPPED = 62, /**< to a gateway: u64 agent, bytes handle: it is in the stopped state */
    HTC_EVENT_TASK_STOPPED = 63,  /**< to an agent or worker: u64 run: its process is in the stopped state; with status HTC_ETIMEDOUT: it has used no CPU time
                                       and written nothing for longer than it may (monitor.stall_s) */
    HTC_EVENT_SHUTDOWN = 64,      /**< to any role: it is asked to end; status HTC_OK: let tasks finish, HTC_EKILLED: at once */
    HTC_EVENT_REFUSED = 66,       /**< to an agent or worker: u32 number that DIAL answered: nobody listens at its address, though a file or a
                                       connection shows that somebody did: who that was has ended. Told once, until it is open again. A host that
                                       cannot tell says nothing */
    HTC_EVENT_AGENT_WAITS = 67,   /**< to a gateway: u64 agent, bytes handle, str what for: it is launched and waits to begin, as a job in a queue does;
                                       "": it has begun. Since: 0.2 */
    HTC_EVENT_AGENT_EXPIRES = 68, /**< to a gateway: u64 agent, bytes handle: its time ends soon, as a job's wall time does: it is to finish what runs.
                                       Since: 0.2 */
    HTC_EVENT_GANG_ASKED = 69, /**< to an agent: u64 run of a gang's leader, u64 request (the host's number, never twice for one run), str node, bytes
                                    words, each with a zero at its end: the task wants that begun on that node of its gang. Since: 0.2 */
    HTC_EVENT_GANG_LEFT = 70,  /**< to an agent: u64 run, u64 request: nobody waits for its end any more. Since: 0.2 */
    HTC_EVENT_DISK = 65           /**< to a gateway: status HTC_OK or HTC_ENOSPC: the data directory can be written again, or is full. After HTC_OK
                                   the gateway asks again for the places of all open jobs */
} htc_event;

/**
 * The name of a call or an event, for what is logged.
 *
 * @param[in] op  htc_call, htc_event
 * @return lends a constant: "STAGE_IN"; "?" for another number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const char *htc_call_name(uint32_t op);

#ifdef __cplusplus
}
#endif
#endif
