/**
 * @file htcsched/host.h
 * @brief The live world: a loop with sockets, clocks, threads and signals that drives one state machine.
 *
 * Create the host, add listeners and dialled connections (their peer numbers go into the machine's options), register who
 * carries out calls and commits, then run. The host stamps every input with CLOCK_MONOTONIC (now) and CLOCK_REALTIME (wall),
 * steps the machine, and carries out its effects in order.
 *
 * A frame on a connection is a u32 length (little-endian) and one message. An incoming connection may send at most 64 KiB
 * in a frame until the machine has answered its HELLO with WELCOME. What comes in and what waits to go out is bounded for
 * each connection: who does not read is not read from, and beyond a hard limit the connection is closed.
 *
 * Threads: owner; htc_host_work moves what blocks to threads of the host's own.   Allocation: through env in the loop's
 * thread; libevent's own buffers by malloc.
 */
#ifndef HTCSCHED_HOST_H
#define HTCSCHED_HOST_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct htc_host htc_host;

typedef struct htc_host_options {
    size_t   size;             /* sizeof(htc_host_options) */
    uint32_t connections_max;  /* incoming ones at once; 0: 1024. Never more than the descriptor limit minus 64 */
    uint32_t workers;          /* threads for what blocks, started when needed; 0: 4 */
    size_t   output_bytes_max; /* waiting to go out on one connection, then it is closed; 0: 64 MiB */
    size_t   output_bytes_low; /* above this nothing more is read from an incoming connection; 0: 4 MiB */
    htc_ns   handshake_ns;     /* an incoming connection not welcomed by then is closed; 0: 30 s */
    htc_ns   redial_ns, redial_max_ns; /* pauses between tries, doubled, with jitter; 0: 20 ms, 2 s */
    uint32_t handle_signals;   /* 1: SIGTERM and SIGINT become HTC_EVENT_SHUTDOWN (again: at once); for one host a process */
} htc_host_options;

/** Gives a host: htc_host_destroy. env is kept; env->rng (jitter) may be NULL. */
HTC_API htc_status htc_host_create(const htc_env *env, const htc_host_options *options, htc_host **out);
/** Waits for work in progress, closes everything, removes the socket files. Does not destroy the machine. */
HTC_API void htc_host_destroy(htc_host *host);

/** Listen on a Unix socket; a path of any length. A stale file is replaced, one that answers is HTC_ELOCKED.
 *  @param mode  of the file: 0600 (0: the same) or 0666 to let other users in.
 *  @param port  number handed to the machine in htc_peer_info.port. */
HTC_API htc_status htc_host_listen_unix(htc_host *host, const char *path, uint32_t mode, uint32_t port,
                                        htc_error *error);
/** Listen on loopback TCP. The first frame of a connection has to be the token in the file token_path (64 hex digits),
 *  which is created with mode 0600 if it does not exist. An address beyond loopback is HTC_EUNSUPPORTED.
 *  @param[in]  tcp_port  0: any.
 *  @param[out] bound     the port listened on; may be NULL. */
HTC_API htc_status htc_host_listen_tcp(htc_host *host, const char *address, uint16_t tcp_port, const char *token_path,
                                       uint32_t port, uint16_t *bound, htc_error *error);
/** Keep a connection to a Unix socket: dialled when the loop runs, and again whenever it is lost. Nobody has to answer yet.
 *  @param[out] peer  its number, the same for ever; HTC_IN_OPENED and HTC_IN_CLOSED come in turn. */
HTC_API htc_status htc_host_dial_unix(htc_host *host, const char *path, uint32_t port, uint32_t *peer, htc_error *error);

/** Carry out HTC_OUT_CALL. HTC_OK: htc_host_answer comes, now or later (or never, for calls without an answer);
 *  anything else is answered for you with that status. body is borrowed until the function returns. */
typedef htc_status (*htc_host_call_fn)(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body);
HTC_API void htc_host_on_call(htc_host *host, htc_host_call_fn call, void *ctx);

/** Carry out HTC_OUT_COMMIT: make batch, the effect's body, durable. With threaded 1 it runs on a worker thread, one at a
 *  time and in order; what is asked for meanwhile comes next, until one fails. Its status comes back as HTC_IN_STORED. */
typedef htc_status (*htc_host_commit_fn)(void *ctx, htc_bytes batch);
HTC_API void htc_host_on_commit(htc_host *host, htc_host_commit_fn commit, void *ctx, uint32_t threaded);

/** Start the machine (HTC_IN_START) and run until HTC_OUT_STOP (answers its status), a step that fails (answers that), or
 *  htc_host_stop. The machine stays the caller's to destroy, after the host was destroyed or not. */
HTC_API htc_status htc_host_run(htc_host *host, const htc_machine_ops *ops, void *machine);
/** End the loop with status after the present step. */
HTC_API void htc_host_stop(htc_host *host, htc_status status);

/** Answer a call (HTC_IN_RESULT); also from within the call function. The machine is stepped later, from the loop, never
 *  from inside this call. HTC_ECLOSED when the loop does not run (any more). */
HTC_API htc_status htc_host_answer(htc_host *host, uint32_t op, uint64_t tag, htc_status status, htc_bytes body);
/** Tell the machine that something happened (HTC_IN_EVENT). */
HTC_API htc_status htc_host_event(htc_host *host, uint32_t op, htc_status status, htc_bytes body);
/** Run work(ctx) on a worker thread, then done(ctx) in the loop's thread. done may be NULL.
 *  HTC_EBUSY when 65536 pieces wait. What was accepted is done: also by htc_host_destroy. */
HTC_API htc_status htc_host_work(htc_host *host, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);

/** The clocks, as the next input would be stamped. */
HTC_API htc_ns htc_host_now(void);
HTC_API htc_ns htc_host_wall(void);

/** A log over a file: lines "2026-01-31T12:00:00.123Z level name: text", a new file when it is full. Threads: shared. */
typedef struct htc_logfile htc_logfile;
typedef struct htc_logfile_options {
    size_t      size;      /* sizeof(htc_logfile_options) */
    const char *path;      /* NULL: descriptor fd alone; copied */
    const char *name;      /* of the program; copied; NULL: none */
    uint32_t    level;     /* htc_log_level; 0: HTC_LOG_INFO */
    uint64_t    bytes_max; /* of one file; 0: 8 MiB */
    uint32_t    files_max; /* path, path.1, … path.N-1; 0: 4 */
    int         fd;        /* used when path is NULL; not closed */
} htc_logfile_options;
/** Gives a log file: htc_logfile_close. HTC_EIO with the reason. */
HTC_API htc_status     htc_logfile_open(const htc_logfile_options *options, htc_logfile **out, htc_error *error);
HTC_API void           htc_logfile_close(htc_logfile *file);
/** What goes into htc_env.log; lent as long as the file is open. */
HTC_API const htc_log *htc_logfile_log(htc_logfile *file);

/** Fill bytes with random bits of secret quality (client ids, seeds, tokens). */
HTC_API void htc_host_random(void *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
