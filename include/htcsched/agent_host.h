/**
 * @file htcsched/agent_host.h
 * @brief The executor: carries out what an agent asks of its host. Processes, limits, files in and out.
 *
 * Every task runs in a process group of its own, in a session without a terminal that it shares with nobody but the tasks before
 * it in its slot, with its own scratch directory (0700), a clean environment, rlimits and no_new_privs. When a task's first
 * process has ended, what is left of its tree is killed, whatever sessions are in it.
 *
 * Threads: owner (the host's); files are moved on the host's worker threads.   Allocation: through env, and by malloc where
 * the system's own functions do.
 */
#ifndef HTCSCHED_AGENT_HOST_H
#define HTCSCHED_AGENT_HOST_H

#include "htcsched/host.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An executor at work beside its host. */
typedef struct htc_agent_host htc_agent_host;

/** Where and how tasks run. */
typedef struct htc_agent_host_options {
    size_t      size;     /**< sizeof(htc_agent_host_options) */
    const char *slot_dir; /**< slots/SITE.N: scratch directories and the record of process groups; created, as is its .lock beside it */
    const char *data_dir; /**< data: uploads in, outputs out */
    uint64_t    agent;    /**< its id, drawn by the gateway; not 0 */
    const char *node;     /**< host name; NULL: none is told */
    const char *site;     /**< where it runs; tasks see it as HTC_SITE; NULL: none is told */
    const char *const *env_pass; /**< task.env_pass: names passed on from environ; NULL at the end, or NULL */
    const char *const *environ;  /**< of this program, for HOME, PATH and env_pass; NULL at the end, or NULL */
    uint32_t    durable;  /**< 1: outputs are synced before they are reported */
    uint64_t    outputs_bytes_max; /**< of one attempt; 0: no limit */
    uint32_t    confine; /**< 1: tasks are another user's and share this uid: they are confined, see htc_gateway_host_apart */
    const char *const *confined_paths; /**< what they see, read-only, beside the system's directories; absolute; NULL at the end, or NULL */
    const int  *lock;    /**< of the slot, from htc_agent_host_recover: taken over, also if creating fails; NULL: the slot is locked now */
    uint32_t    slots;   /**< tasks that it runs at once, at most 128; 0: 1 */
    uint32_t    slots_max; /**< to which HTC_CALL_SLOTS may raise that, at most 128; 0: slots */
    const char *functions; /**< the program htc-fn, which calls htc_agent_host_help; absolute; NULL: function tasks are refused */
    const char *objects_dir; /**< where objects lie that tasks make and others read (HTC_CALL_OBJECT_ROOM and those after it), below it in a
                                  directory of this uid's own. Of tasks that are confined: a user's alone. On the file system of data_dir an output
                                  becomes an object without being copied. NULL: there are none. Since: 0.2 */
    struct htc_host_keys *keys; /**< of host, from htc_host_keys_open: HTC_CALL_DIAL reaches tcp:// addresses by them. Those that name nobody are
                                     answered by a member's key, others by the key of that name, with the role that it is pinned with; kept. NULL: only
                                     unix: addresses are reached. Since: 0.2 */
    const char *container; /**< what runs tasks that ask for a container: apptainer, podman, bwrap, auto (the first of these that PATH of environ has)
                                or off; NULL: auto. Since: 0.2 */
    uint32_t own_places; /**< 1: the place of a job's outputs below data_dir is made when it is needed: no gateway makes it. Since: 0.2 */
    uint64_t link_min; /**< bytes: an upload of at least this size is given to tasks without copying it, where the file system can: as a copy that
                            shares its blocks, else as a second name of it, which tasks can read only. 0: 16 MiB. Since: 0.2 */
    uint32_t stages_max; /**< so many tasks at once are staged in or out by all agents with this uid whose slots lie in one directory: the others are told
                              HTC_AGAIN; 0: any number. Since: 0.2 */
    const char *transfer; /**< the program htc-transfer, which fetches inputs that tasks name by http:, https: and ftp: URLs, and sends outputs there;
                               absolute; NULL: such inputs are refused, and such outputs stored alone. Since: 0.2 */
    uint64_t    url_max;  /**< bytes of one such input, at most; 0: 16 GiB. Since: 0.2 */
    htc_ns      url_connect; /**< to wait for a connection; 0: 30 s. Since: 0.2 */
    htc_ns      url_stall;   /**< to wait while fewer than 100 bytes a second come or go; 0: 60 s. Since: 0.2 */
    const char *url_ca;    /**< a file of certificates of authorities that are trusted beside the system's; NULL: none. Since: 0.2 */
    const char *url_proxy; /**< URL of the proxy to ask; NULL: none, whatever the environment says. Since: 0.2 */
    const char *gang; /**< the program htc-gang, which calls htc_agent_host_gang; absolute. A task of several nodes finds it as HYDRA_BOOTSTRAP_EXEC, by
                           which MPICH's mpirun starts its processes on all of them. Its directory ends PATH of all
                           tasks. NULL: nothing is started on other nodes. Since: 0.2 */
    htc_ns      stall;     /**< a task that has used no CPU time and written nothing for so long is told as stopped (HTC_EVENT_TASK_STOPPED); looked at
                                each second; 0: none is. Tasks with processes on several nodes are not looked at. Since: 0.2 */
} htc_agent_host_options;

/**
 * Take over the calls of a host, and make this process a subreaper. Call htc_agent_host_recover first.
 *
 * @param[in]     env      kept
 * @param[in,out] host     kept; its calls are carried out here from now on
 * @param[in]     options  borrowed; strings are copied, environ as far as it is used
 * @param[out]    out      gives the executor: htc_agent_host_destroy, after the host
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ELOCKED if another agent lives in slot_dir, a second after the call; HTC_EIO and others of the file
 *         system; HTC_ENOMEM
 *
 * Cost: some file system calls; up to a second where the slot is held and options have no lock.   Since: 0.1
 */
HTC_API htc_status htc_agent_host_create(const htc_env *env, htc_host *host, const htc_agent_host_options *options,
                                         htc_agent_host **out, htc_error *error);
/**
 * End all processes that still run, and the executor.
 *
 * @param[in] agent  NULL is fine
 *
 * Cost: one kill a process group.   Since: 0.1
 */
HTC_API void htc_agent_host_destroy(htc_agent_host *agent);

/**
 * Clean up after a killed agent: end the process groups that it recorded and remove its scratch directories.
 *
 * A pid is only touched if its start time matches.
 *
 * @param[in]  env       scratch memory; NULL: malloc
 * @param[in]  slot_dir  borrowed; made if missing. Its lock is the file slot_dir.lock, beside it: the user of the slot may own
 *                       what is in it, and is not to hold the lock
 * @param[out] lock      gives the descriptor that holds the lock, for htc_agent_host_options.lock, or the caller's to close: so
 *                       nobody else takes the slot meanwhile, and who becomes a user in between needs no right to the file; -1
 *                       with an error; NULL: the lock is given up again
 * @param[out] ended     how many process groups; NULL is fine
 * @param[out] error     why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ELOCKED if another agent lives in slot_dir, a second after the call; HTC_EIO; HTC_ENOMEM
 *
 * Cost: the files that were left; up to a second where the slot is held.   Since: 0.1
 */
HTC_API htc_status htc_agent_host_recover(const htc_env *env, const char *slot_dir, int *lock, uint32_t *ended,
                                          htc_error *error);

/**
 * What this machine has, for htc_agent_options.
 *
 * @param[out] memory  bytes
 * @param[out] cores   that this process may use
 * @param[out] node    host name, cut to 63 bytes
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API void htc_agent_host_node(uint64_t *memory, uint32_t *cores, char node[64]);

/**
 * Of which kind this machine is, as uname(2) says, for htc_agent_options, htc_joined_options and htc_gateway_options.
 *
 * @param[out] system   the operating system, as "Linux"; "" if that cannot be told in 31 bytes
 * @param[out] machine  the hardware, as "x86_64"; likewise
 *
 * Cost: a system call.   Since: 0.2
 */
HTC_API void htc_agent_host_machine(char system[32], char machine[32]);

/**
 * What the program htc-fn does: call functions for the executor that started it. Its standard input is the channel to that.
 *
 * Threads: starts one for each slot, takes over the handlers of signals that a mistake in a function raises, and reads and writes nothing
 * else. Call it first of all.
 *
 * @param[in] channel  descriptor of the channel; duplicated
 * @return 1 if no executor is at its other end. Else it does not return: the process ends with the executor, or with a function that ends it
 *
 * Cost: what the functions take.   Since: 0.2
 */
HTC_API int htc_agent_host_help(int channel);

/**
 * What the program htc-gang does: have a command started on a node of the gang that this task has, by that node's agent, and wait for its end.
 * What it wrote last to its standard streams, 64 KiB of each at most, is written to ours then. If this process ends before, it is ended too.
 *
 * @param[in]  door   HTC_GANG of the environment: where the agent of this node is asked
 * @param[in]  node   a name in HTC_NODEFILE, or # and the number of a member, from 0
 * @param[in]  words  the command; NULL at the end
 * @param[out] error  why; NULL is fine
 * @return how it ended: its exit code, or 128 and the signal that ended it; -1 with an error: it did not run. With a node that is this
 *         process's own it does not return, but becomes the command
 *
 * Threads: any.   Cost: what the command takes.   Since: 0.2
 */
HTC_API int htc_agent_host_gang(const char *door, const char *node, const char *const *words, htc_error *error);

/** Room for the path of a home directory. */
#define HTC_AGENT_HOST_HOME_MAX 4096

/**
 * Become the user whose tasks are to run, for good: root alone can. The slot is made anew and belongs to that uid; groups
 * are those that the machine's accounts say of the uid, else the gid alone.
 *
 * @param[in]  slot_dir  recovered (htc_agent_host_recover); what is in it is removed
 * @param[in]  uid, gid  of the user; 0: stay root, in a slot of root's
 * @param[out] home      the account's home directory, "/" without an account
 * @param[out] error     why; NULL is fine
 * @return HTC_OK; HTC_EDENIED if the caller is not root; HTC_EIO
 *
 * Cost: some system calls, a look-up of the account. Call before threads exist.   Since: 0.2
 */
HTC_API htc_status htc_agent_host_become(const char *slot_dir, uint32_t uid, uint32_t gid, char home[HTC_AGENT_HOST_HOME_MAX],
                                         htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
