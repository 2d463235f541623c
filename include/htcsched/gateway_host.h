/**
 * @file htcsched/gateway_host.h
 * @brief Carries out what a gateway asks of its host: agents to launch, passwords to hash, files to keep and read.
 *
 * Threads: owner (the host's); passwords and files on the host's worker threads.   Allocation: through env.
 */
#ifndef HTCSCHED_GATEWAY_HOST_H
#define HTCSCHED_GATEWAY_HOST_H

#include "htcsched/host.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What works beside a gateway's host. */
typedef struct htc_gateway_host htc_gateway_host;

/** The most of htc_gateway_host_options.agent_args. */
#define HTC_GATEWAY_HOST_ARGS_MAX 16

/** The emulated batch system: clusters of cores, whose jobs are processes of this machine. Every field's zero but size is a default. */
typedef struct htc_gateway_host_emu {
    size_t      size;       /**< sizeof(htc_gateway_host_emu) */
    const char *const *clusters; /**< "NAME:CORES" each, NULL at the end: a job goes to one of them with all its steps. NULL: one cluster */
    uint32_t    by_queue;   /**< 0: to the one with most free cores; 1: to the one with the shortest queue */
    uint32_t    reserved;   /**< 0 */
    htc_ns      service_ns; /**< what a cluster's server takes for each job, one after the other */
    double      hold;       /**< the probability that a job is held instead of started, 0 to 1, */
    double      hold_rate;  /**< and what each job adds to it that has started or ended in the last second */
    double      fail;       /**< the probability that an agent's start fails */
    uint64_t    seed;       /**< of these */
} htc_gateway_host_emu;

/** A batch system whose jobs the agents are. */
typedef struct htc_gateway_host_batch {
    size_t      size;   /**< sizeof(htc_gateway_host_batch) */
    const char *system; /**< "slurm": sbatch, squeue and scancel; "sge": qsub, qstat, qacct and qdel; found on PATH. "emu": an
                             emulated one, of this machine. "ssh": no batch system but hosts on which
                             agents are started by ssh; of the fields below words (more options of ssh), hosts and cores count then */
    const char *words;  /**< more words for the command that submits, separated by blanks: "--partition long"; NULL: none */
    uint32_t    steps;  /**< agents that are submitted together, at most; 0: 64 */
    uint32_t    submits_per_s; /**< commands that submit, at most; 0: 1 */
    htc_ns      time_ns;   /**< wall time that is asked for; 0: what the batch system gives */
    htc_ns      drain_ns;  /**< this long before its wall time ends an agent begins nothing more, and another one is launched; 0: a tenth of time_ns */
    htc_ns      period_ns; /**< between two looks at all jobs, by one command; 0: 6 s */
    const char *hosts;  /**< "ssh": a file, one host a line, "SLOTS/" in front of it or else one slot, as GNU parallel reads them */
    uint32_t    cores;  /**< "ssh": of one agent; 0: 1 */
    uint32_t    slots;  /**< out, "ssh": of all hosts */
    uint64_t    agents[1024]; /**< out: agents that an earlier process has submitted and that may be there */
    uint32_t    count;     /**< out: how many */
    uint32_t    running_max; /**< jobs at most that run or wait there, any time; 0: any number */
    uint32_t    queued_max;  /**< jobs at most that wait there; 0: any number */
    uint32_t    emu_cores;   /**< "emu": of its one cluster, where emu names none */
    const htc_gateway_host_emu *emu; /**< "emu": NULL: every default */
    const char *credentials; /**< a file that says as whom agents are started (htc.ini(5), site.NAME.credentials), which others must not be able to read;
                                  NULL, "": as ssh and the batch system have it. Since: 0.2 */
    const char *jobcomp;     /**< "slurm": the file of JobCompLoc, whose new lines are read at each look; NULL, "": none. Since: 0.2 */
} htc_gateway_host_batch;

/** Where things are. */
typedef struct htc_gateway_host_options {
    size_t      size;       /**< sizeof(htc_gateway_host_options) */
    const char *state_dir;  /**< exists: see htc_state_open */
    const char *agent_path; /**< the program htc-agent: started as agent_path --dir D --agent ID --slot N --user U --site S */
    const char *config_path; /**< passed on as --config; NULL: not */
    const char *const *environ; /**< for the agents; NULL at the end */
    uint32_t    durable;    /**< 1: uploads are synced */
    uint64_t    blob_bytes_max; /**< of one upload; 0: 2^40 */
    uint32_t    apart;      /**< htc_apart: HTC_APART_UID lets agents of other uids pass to slots, uploads and outputs */
    uint64_t    uploads_max; /**< data.uploads_max: bytes that unfinished uploads may come to, as announced, those of one user half of it at most; 0: 64 GiB */
    const char *const *agent_args; /**< more words for the program, behind the others, at most HTC_GATEWAY_HOST_ARGS_MAX; NULL at the end; kept.
                                        NULL: none. Since: 0.2 */
    htc_gateway_host_batch *batch; /**< agents are jobs of this batch system instead of processes of this machine: each is an element of an array job
                                        that runs agent_path on a node, which sees state_dir under the same path. Which jobs there are is kept in
                                        state_dir/batch, so that a later process goes on with them. Filled in where it says so. NULL: none. Since: 0.2 */
    const char *objects_dir; /**< where what a host that has joined brings from the gateway lies (HTC_CALL_OBJECT_ROOM and those after it), on the file
                                  system of state_dir: HTC_CALL_OBJECT_GIVE gives it to a user's tasks. NULL: nothing is brought. Since: 0.2 */
    const char *data_dir; /**< where uploads and outputs are kept, instead of state_dir/data: a directory that several gateways share, of which each may be
                               the one that writes. Since: 0.2 */
    const char *mail_command; /**< server.mail_command: a program and its words, blanks between them, to whose standard input a mail with its headers is
                                   written; copied. NULL, "": no mail is sent. Since: 0.2 */
} htc_gateway_host_options;

/** Room for what names a directory that gateways share. */
#define HTC_GATEWAY_HOST_DATA_ID 65

/**
 * What names a directory that several gateways share: the text of the file shared-id in it, which the first one draws.
 *
 * @param[in]  dir    exists
 * @param[out] id     gets 64 hex digits
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_ENOTFOUND: there is no such directory; HTC_ECORRUPT: the file holds something else; HTC_EIO
 *
 * Cost: some system calls, and a sync the first time.   Since: 0.2
 */
HTC_API htc_status htc_gateway_host_data_id(const char *dir, char id[HTC_GATEWAY_HOST_DATA_ID], htc_error *error);

/**
 * Let hosts that see the directory where outputs are kept find that it is this one (data.output = shared): a new id is written into it.
 *
 * @param[in,out] gateway  of a gateway that runs, or is about to
 * @param[out]    dir      lends its path, until htc_gateway_host_destroy: htc_gateway_options.outputs
 * @param[out]    id       gets 64 hex digits: htc_gateway_options.outputs_id
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOSPC; HTC_EIO
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_gateway_host_outputs(htc_gateway_host *gateway, const char **dir, char id[HTC_GATEWAY_HOST_DATA_ID], htc_error *error);

/** Room for the sentence of htc_gateway_host_apart. */
#define HTC_GATEWAY_HOST_WHY_MAX 256

/**
 * How far the tasks of different users can be kept apart here.
 *
 * Root gives each user's tasks that user's own uid, where every uid can pass to the directory. Anybody else can only confine
 * them, which is tried once, in a child: a user and mount namespace in which nothing can be written but the run's own
 * directory, and neither sockets nor the store, other runs or homes are there; with Landlock, where the kernel has its
 * scopes, or else a network namespace against abstract sockets.
 *
 * @param[in]  state_dir  exists; a directory is made in it and removed
 * @param[in]  allowed    1: the operator lets tasks of others run with this uid
 * @param[in]  reachable  1: htc_state_share succeeded
 * @param[out] why        a sentence on what is missing for more, "" if nothing is
 * @return htc_apart
 *
 * Cost: a process and some system calls; blocks for that long.   Since: 0.2
 */
HTC_API uint32_t htc_gateway_host_apart(const char *state_dir, uint32_t allowed, uint32_t reachable,
                                        char why[HTC_GATEWAY_HOST_WHY_MAX]);

/**
 * Take over the calls of a host.
 *
 * @param[in]     env      kept
 * @param[in,out] host     kept; its calls are carried out here from now on
 * @param[in]     options  borrowed; strings are copied, environ is kept
 * @param[out]    out      gives it: htc_gateway_host_destroy, after the host
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND if there is no state directory; HTC_ENOMEM
 *
 * Cost: some file system calls.   Since: 0.1
 */
HTC_API htc_status htc_gateway_host_create(const htc_env *env, htc_host *host, const htc_gateway_host_options *options,
                                           htc_gateway_host **out, htc_error *error);
/**
 * Free it; agents go on without it.
 *
 * @param[in] gateway  NULL is fine
 *
 * Cost: O(agents).   Since: 0.1
 */
HTC_API void htc_gateway_host_destroy(htc_gateway_host *gateway);

/** Where the portal is. */
typedef struct htc_host_portal_options {
    size_t      size;     /**< sizeof(htc_host_portal_options) */
    const char *address;  /**< "127.0.0.1:7071" or "[::1]:7071" (port 0: any); copied */
    uint32_t    port;     /**< the driver's number of this listener, as its connections tell the gateway */
    uint32_t    reserved; /**< 0 */
    htc_ns      patience; /**< for a request to come, to be answered and to be taken; 0: 60 s. A download has it again for each 2 MiB */
    const char *origin;   /**< "https://NAME[:PORT]", where a proxy with TLS serves it to others: requests with that Host and Origin are its own
                               too, and the session's cookie is Secure there; at most 255 bytes, copied. NULL or "": none. Since: 0.2 */
} htc_host_portal_options;

/**
 * Show the portal, a web page for users, from when the host runs until it is destroyed (doc/portal.md).
 *
 * Its requests reach the machine as those of a peer of HTC_TRANSPORT_TCP whose uid is not known: a login says who somebody is, and
 * nothing else does. Nothing is encrypted, so that addresses beyond loopback are refused; behind a proxy with TLS it is at options.origin. At most 96 requests and 32 streams of events
 * are open at once, 8 of each of one login; a request has at most 8 KiB of head and 16 MiB of body.
 *
 * @param[in,out] host     not running yet; its machine is a gateway
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    bound    the port listened on; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EDENIED for an address beyond loopback; HTC_ELOCKED if the port is taken; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_host_listen_portal(htc_host *host, const htc_host_portal_options *options, uint16_t *bound, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
