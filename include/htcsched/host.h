/**
 * @file htcsched/host.h
 * @brief The live world: a loop with sockets, clocks, threads and signals that drives one state machine.
 *
 * Create the host, add listeners and dialled connections (their peer numbers go into the machine's options), register who
 * carries out calls and commits, then run. The host stamps every input with CLOCK_MONOTONIC (now) and CLOCK_REALTIME (wall),
 * steps the machine, and carries out its effects in order.
 *
 * A machine with HTC_MACHINE_TURNS gets HTC_IN_TURN after whatever was ready together; then the streams it spoke to are
 * written to.
 *
 * A frame on a connection is a u32 length (little-endian) and one message. An incoming connection may send at most 64 KiB
 * in a frame until the machine has answered its HELLO with WELCOME. What comes in and what waits to go out is bounded for
 * each connection: who does not read is not read from, and beyond a hard limit the connection is closed.
 *
 * Several hosts of one process, each in a thread of its own, share nothing: htc_host_post hands one of them something to do, and
 * htc_host_deal the connections that come to another one's listeners.
 *
 * Threads: owner, but htc_host_post: shared; htc_host_work moves what blocks to threads of the host's own.   Allocation: through env in the loop's
 * thread; libevent's own by malloc.
 */
#ifndef HTCSCHED_HOST_H
#define HTCSCHED_HOST_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A loop and what it watches. */
typedef struct htc_host htc_host;

/** How a host works; every field's zero is its default. */
typedef struct htc_host_options {
    size_t   size;             /**< sizeof(htc_host_options) */
    uint32_t connections_max;  /**< incoming ones at once; 0: 1024. Never more than the descriptor limit minus 64 */
    uint32_t workers;          /**< threads for what blocks, started when needed; 0: 4 */
    size_t   output_bytes_max; /**< waiting to go out on one connection, then it is closed; 0: 64 MiB */
    size_t   output_bytes_low; /**< above this nothing more is read from an incoming connection; 0: 4 MiB */
    htc_ns   handshake_ns;     /**< an incoming connection not welcomed by then is closed; 0: 30 s */
    htc_ns   redial_ns;        /**< pause before a lost connection is dialled again, doubled, with jitter, while none lasts redial_max_ns; 0: 20 ms */
    htc_ns   redial_max_ns;    /**< the longest such pause; 0: 2 s */
    uint32_t handle_signals;   /**< 1: SIGTERM and SIGINT become HTC_IN_EVENT 64, status HTC_OK: end when work is done; once
                                    more HTC_EKILLED: end at once. For one host a process */
    size_t   output_bytes_all; /**< waiting to go out on all incoming connections: beyond, those are closed that have taken nothing for a second,
                                    whoever holds most for longest first, and beyond four times as much any. 0: 64 MiB. Since: 0.2 */
    uint32_t strangers_max;    /**< of connections_max, those of other uids than this process's, beside processes that it
                                    started; 0: all. Over TCP everybody is a stranger */
    uint32_t uid_connections_max; /**< of them, those of one uid; 0: all */
} htc_host_options;

/**
 * Create a host.
 *
 * @param[in]  env      kept; env->rng is for jitter and may be NULL
 * @param[in]  options  borrowed; NULL: the defaults
 * @param[out] out      gives the host: htc_host_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EINTERNAL if the system has no randomness; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API htc_status htc_host_create(const htc_env *env, const htc_host_options *options, htc_host **out);

/**
 * Wait for work in progress, close everything, remove the socket files. The machine stays the caller's.
 *
 * @param[in] host  NULL is fine
 *
 * Cost: as long as the work in progress takes.   Since: 0.1
 */
HTC_API void htc_host_destroy(htc_host *host);

/**
 * Listen on a Unix socket. A stale file is replaced.
 *
 * @param[in,out] host   not running yet
 * @param[in]     path   of any length; copied
 * @param[in]     mode   of the file: 0600 (0: the same), or 0666 to let other users in
 * @param[in]     port   number handed to the machine in htc_peer_info.port
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ELOCKED if somebody answers there; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API htc_status htc_host_listen_unix(htc_host *host, const char *path, uint32_t mode, uint32_t port,
                                        htc_error *error);

/**
 * Listen on loopback TCP. The first frame of a connection has to be the token: 64 hex digits in a file.
 *
 * @param[in,out] host        not running yet
 * @param[in]     address     of this machine's loopback, as "127.0.0.1"; borrowed
 * @param[in]     tcp_port    0: any
 * @param[in]     token_path  made with mode 0600 if it does not exist; borrowed
 * @param[in]     port        number handed to the machine in htc_peer_info.port
 * @param[out]    bound       the TCP port listened on; NULL is fine
 * @param[out]    error       why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EDENIED for an address beyond loopback (htcsched/host_keys.h listens there), and if the token's
 *         file is not its owner's alone; HTC_ELOCKED if the port is taken; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API htc_status htc_host_listen_tcp(htc_host *host, const char *address, uint16_t tcp_port, const char *token_path,
                                       uint32_t port, uint16_t *bound, htc_error *error);

/** Where streams come from; every field's zero is its default but for address. */
typedef struct htc_host_stream_options {
    size_t      size;    /**< sizeof(htc_host_stream_options) */
    const char *address; /**< "127.0.0.1:6379", "[::1]:6379" (port 0: any) or "unix:PATH"; copied */
    uint32_t    mode;    /**< of the file of a Unix socket; 0: 0600 */
    uint32_t    port;    /**< number handed to the machine in htc_peer_info.port */
    const char *refusal; /**< sent to whom there is no room for, before it is closed; NULL: nothing; copied */
} htc_host_stream_options;

/**
 * Listen for streams: connections without frames and without a greeting, whose bytes are the machine's own business
 * (HTC_IN_BYTES, HTC_OUT_BYTES). Who they are is for the machine to find out; over TCP every user of this computer can come.
 *
 * One read takes at most 64 KiB; what is said to one connection in a turn leaves in one write. A peer that has closed its
 * half is still answered. Above output_bytes_low nothing more is read from it, above output_bytes_max it is closed. An idle
 * stream costs less than 1 KiB here.
 *
 * @param[in,out] host     not running yet
 * @param[in]     options  borrowed; strings are copied
 * @param[out]    bound    TCP: the port listened on; NULL is fine
 * @param[out]    error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EDENIED for an address beyond loopback; HTC_ELOCKED if the port or path is
 *         taken; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_host_listen_stream(htc_host *host, const htc_host_stream_options *options, uint16_t *bound,
                                          htc_error *error);

/**
 * Let connections in, or leave them waiting in front of the listeners, as a machine wants that is not ready yet.
 *
 * @param[in,out] host  in the loop's thread, or not running yet
 * @param[in]     yes   1: accept them (as from the beginning); 0: as many as the system keeps wait, those that are in stay
 *
 * Cost: O(listeners).   Since: 0.2
 */
HTC_API void htc_host_accept(htc_host *host, uint32_t yes);

/**
 * Keep a connection to a Unix socket: dialled when the loop runs, and again whenever it is lost. Nobody has to answer yet.
 *
 * @param[in,out] host   not running yet, or in the loop's thread
 * @param[in]     path   of any length; copied
 * @param[in]     port   number handed to the machine in htc_peer_info.port
 * @param[out]    peer   its number, the same for ever; HTC_IN_OPENED and HTC_IN_CLOSED come in turn
 * @param[out]    error  why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API htc_status htc_host_dial_unix(htc_host *host, const char *path, uint32_t port, uint32_t *peer, htc_error *error);

/**
 * End a connection that was dialled, for good: it is not dialled again, and its number means nothing any more. If it was open the machine is
 * told HTC_IN_CLOSED.
 *
 * @param[in,out] host  in the loop's thread
 * @param[in]     peer  its number
 * @return HTC_OK; HTC_ENOTFOUND: no such connection, or not a dialled one; HTC_EINVAL if host is NULL
 *
 * Cost: O(connections).   Since: 0.2
 */
HTC_API htc_status htc_host_hang_up(htc_host *host, uint32_t peer);

/**
 * Have the machine told when nobody listens any more at the address of a connection that was dialled: HTC_IN_EVENT with op, and the number as
 * htc_put_u32 writes it as its body. Told once, until it is open again: when a try is refused (ECONNREFUSED), and when the address is
 * missing though the connection was open before. Other errors say nothing of who is there.
 *
 * @param[in,out] host  in the loop's thread
 * @param[in]     peer  its number, of htc_host_dial_unix
 * @param[in]     op    of the event; 0: it is not told
 * @return HTC_OK; HTC_ENOTFOUND: no such connection, or not a dialled one; HTC_EINVAL if host is NULL
 *
 * Cost: O(connections).   Since: 0.2
 */
HTC_API htc_status htc_host_tell_refused(htc_host *host, uint32_t peer, uint32_t op);

/**
 * Carries out HTC_OUT_CALL.
 *
 * @param[in]     ctx   as registered
 * @param[in,out] host  to be answered
 * @param[in]     op    what to do
 * @param[in]     tag   for htc_host_answer
 * @param[in]     body  the argument; borrowed until the function returns
 * @return HTC_OK: htc_host_answer comes, now or later, or never for calls without an answer; anything else is answered for you
 *         with that status
 */
typedef htc_status (*htc_host_call_fn)(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body);

/**
 * Register who carries out calls. Without anybody they are answered HTC_EUNSUPPORTED.
 *
 * @param[in,out] host  not running yet
 * @param[in]     call  the function; in the loop's thread
 * @param[in]     ctx   kept
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_host_on_call(htc_host *host, htc_host_call_fn call, void *ctx);

/**
 * Carries out HTC_OUT_COMMIT: makes a batch durable.
 *
 * @param[in] ctx    as registered
 * @param[in] batch  the effect's body; borrowed until the function returns
 * @return what comes back as the status of HTC_IN_STORED
 */
typedef htc_status (*htc_host_commit_fn)(void *ctx, htc_bytes batch);

/**
 * Register who carries out commits. Without anybody they are answered HTC_EUNSUPPORTED.
 *
 * @param[in,out] host      not running yet
 * @param[in]     commit    the function
 * @param[in]     ctx       kept
 * @param[in]     threaded  1: on a worker thread, one at a time and in order; what is asked for meanwhile comes next, until one
 *                          fails. 0: in the loop's thread
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_host_on_commit(htc_host *host, htc_host_commit_fn commit, void *ctx, uint32_t threaded);

/**
 * Start the machine (HTC_IN_START) and run until it stops. Once for a host.
 *
 * @param[in,out] host     borrowed
 * @param[in]     ops      borrowed
 * @param[in,out] machine  borrowed; stays the caller's to destroy, before or after the host
 * @return the status of HTC_OUT_STOP, of a step that failed, or given to htc_host_stop; HTC_EINVAL
 *
 * Cost: the calling thread, until then.   Since: 0.1
 */
HTC_API htc_status htc_host_run(htc_host *host, const htc_machine_ops *ops, void *machine);

/**
 * End the loop after the present step.
 *
 * @param[in,out] host    running
 * @param[in]     status  what htc_host_run answers
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API void htc_host_stop(htc_host *host, htc_status status);

/**
 * Answer a call (HTC_IN_RESULT); also from within the call function.
 *
 * The machine is stepped later, from the loop, never from inside this function.
 *
 * @param[in,out] host    in the loop's thread
 * @param[in]     op      of the call
 * @param[in]     tag     of the call
 * @param[in]     status  how it went
 * @param[in]     body    the answer; copied
 * @return HTC_OK; HTC_ECLOSED when the loop does not run (any more)
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_status htc_host_answer(htc_host *host, uint32_t op, uint64_t tag, htc_status status, htc_bytes body);

/**
 * Tell the machine that something happened (HTC_IN_EVENT). It is stepped later, from the loop.
 *
 * @param[in,out] host    in the loop's thread
 * @param[in]     op      what happened
 * @param[in]     status  how
 * @param[in]     body    as op says; copied
 * @return HTC_OK; HTC_ECLOSED when the loop does not run (any more)
 *
 * Cost: O(length).   Since: 0.1
 */
HTC_API htc_status htc_host_event(htc_host *host, uint32_t op, htc_status status, htc_bytes body);

/**
 * Run something that blocks on a worker thread. What was accepted is done, also by htc_host_destroy.
 *
 * @param[in,out] host  in the loop's thread
 * @param[in]     work  run on a worker thread
 * @param[in]     done  run afterwards in the loop's thread; NULL: nothing
 * @param[in]     ctx   handed to both
 * @return HTC_OK; HTC_EINVAL; HTC_EBUSY when 65536 pieces wait; HTC_ENOMEM
 *
 * Cost: two hand-overs between threads.   Since: 0.1
 */
HTC_API htc_status htc_host_work(htc_host *host, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);

/**
 * Have something done in the loop's thread of a host, between two steps of its machine: the way into it from other threads. In the
 * order of posting, each once; what is left when the loop has ended is done by htc_host_destroy, in its caller's thread.
 *
 * @param[in,out] host  not being destroyed; Threads: shared
 * @param[in]     fn    called; it must not block
 * @param[in]     ctx   handed to it
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: an allocation, and a system call if the loop has not been woken yet.   Since: 0.2
 */
HTC_API htc_status htc_host_post(htc_host *host, void (*fn)(void *ctx), void *ctx);

/**
 * Deal connections: those that come to this host's listeners for streams and Unix sockets go to other hosts in turn, as if they had come
 * to a listener of theirs. What htc_host_listen_tcp and htc_host_keys_listen let in stays here. A host whose doors are closed
 * (htc_host_accept) lets its share in when it opens them. There may be more than options.connections_max on the way to a host for a
 * moment; those beyond are refused there.
 *
 * In turn, and not by the system's choice, so that few connections that last spread as well as many, over TCP and Unix sockets alike, and
 * an address is one listener's alone.
 *
 * @param[in,out] host   not running yet; destroyed before the others are
 * @param[in]     to     count hosts, each in any thread; the array is copied
 * @param[in]     count  at least 1
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: an allocation; htc_host_post for each connection.   Since: 0.2
 */
HTC_API htc_status htc_host_deal(htc_host *host, htc_host *const *to, size_t count);

/**
 * Call something at SIGHUP, in the loop's thread.
 *
 * @param[in,out] host  not running yet, with handle_signals; once for a host
 * @param[in]     fn    called
 * @param[in]     ctx   kept
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_host_on_hangup(htc_host *host, void (*fn)(void *ctx), void *ctx);

/**
 * The clock of `now`, as the next input would be stamped: CLOCK_MONOTONIC.
 *
 * @return nanoseconds since some moment
 *
 * Cost: 30 ns.   Since: 0.1
 */
HTC_API htc_ns htc_host_now(void);

/**
 * The clock of `wall`, as the next input would be stamped: CLOCK_REALTIME.
 *
 * @return nanoseconds since 1970; may jump
 *
 * Cost: 30 ns.   Since: 0.1
 */
HTC_API htc_ns htc_host_wall(void);

/** A log over a file: lines "2026-01-31T12:00:00.123Z level name: text", a new file when it is full. Threads: shared. */
typedef struct htc_logfile htc_logfile;

/** Where a log goes. */
typedef struct htc_logfile_options {
    size_t      size;      /**< sizeof(htc_logfile_options) */
    const char *path;      /**< NULL: descriptor fd alone; copied */
    const char *name;      /**< of the program; copied; NULL: none */
    uint32_t    level;     /**< htc_log_level; 0: HTC_LOG_INFO */
    uint64_t    bytes_max; /**< of one file; 0: 8 MiB */
    uint32_t    files_max; /**< path, path.1, … path.N-1; 0: 4 */
    int         fd;        /**< used when path is NULL, and then above 0; not closed */
    uint32_t    json;      /**< 1: each line is a JSON object: time, level, source (the name), message, and the values that it is
                                about, such as peer, member, job, status; 0: text. Since: 0.2 */
    uint32_t    in_place;  /**< 1: for a program that gives up its rights to the directory afterwards: path.1 is opened now too, what fills
                                path is copied there, and path begins anew; files_max counts as 2 at most. Since: 0.2 */
} htc_logfile_options;

/**
 * Open a log file.
 *
 * @param[in]  options  borrowed
 * @param[out] out      gives the log file: htc_logfile_close; untouched on failure
 * @param[out] error    why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.1
 */
HTC_API htc_status htc_logfile_open(const htc_logfile_options *options, htc_logfile **out, htc_error *error);

/**
 * Close a log file.
 *
 * @param[in] file  nobody writes to it any more; NULL is fine
 *
 * Cost: one system call.   Since: 0.1
 */
HTC_API void htc_logfile_close(htc_logfile *file);

/**
 * What goes into htc_env.log.
 *
 * @param[in] file  open
 * @return lends the log as long as the file is open
 *
 * Cost: O(1).   Since: 0.1
 */
HTC_API const htc_log *htc_logfile_log(htc_logfile *file);

/**
 * Random bits of secret quality: for client ids, seeds, tokens.
 *
 * @param[out] bytes  filled
 * @param[in]  n      how many
 *
 * Cost: O(n).   Since: 0.1
 */
HTC_API void htc_host_random(void *bytes, size_t n);

/** Room for the name of a start of the machine, its end included. */
#define HTC_HOST_BOOT_MAX 64

/**
 * What names this start of the machine: it is the same for all processes until the machine starts anew, and never again after that.
 *
 * @param[out] boot  HTC_HOST_BOOT_MAX bytes, caller-allocated; "" on failure
 * @return HTC_OK; HTC_EINVAL if boot is NULL; HTC_EIO: the system does not tell, so it may be any
 *
 * Cost: reads a file of /proc.   Since: 0.2
 */
HTC_API htc_status htc_host_boot(char *boot);

#ifdef __cplusplus
}
#endif
#endif
