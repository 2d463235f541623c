/* The parts of kv_load: a connection (load_link.c), what is asked on it (load_ask.c), what it costs (load_cost.c), the bare
 * echo (load_echo.c), and the loop and the row (load.c). */
#ifndef HTC_TESTS_BENCH_KV_LOAD_H
#define HTC_TESTS_BENCH_KV_LOAD_H

#include <sys/types.h>

#include "core/codec.h"
#include "htcsched/kv.h"

enum { LOAD_CONNECTIONS_MAX = 4096, LOAD_DEPTH_MAX = 64, LOAD_BATCH_MAX = 256, LOAD_VALUE = 128, LOAD_KEY = 16 };

void load_fatal(const char *what, const char *why) __attribute__((noreturn));

/* ---- a connection: bytes in, bytes out, sealed or not ---- */

typedef struct load_link {
    int                 fd;
    htc_buf             in, out; /* frames as they are, not sealed: not taken apart yet, not sent yet */
    struct htc_channel *channel; /* NULL: in the clear */
    int                 blocked; /* the socket takes no more for now */
} load_link;

typedef struct load_keys load_keys; /* one's own key and the ring, read once for all links */

load_keys *load_keys_read(const char *key_path, const char *ring_path);
/* unix:PATH, tcp://HOST:PORT; the first frame is the token in that file, if there is one. Waits until bytes may be sent. */
void load_link_open(load_link *l, const char *address, const char *token_path, const load_keys *keys);
/* What has come is added to in. 0: nothing. */
int load_link_read(load_link *l);
/* What is in out, as far as the socket takes it. */
void load_link_write(load_link *l);
/* Until something can be read. */
void load_link_wait(const load_link *l);

/* ---- what is asked ---- */

typedef enum load_op { LOAD_GET = 1, LOAD_PUT, LOAD_CAS, LOAD_ADD, LOAD_HOT, LOAD_NEW, LOAD_ECHO } load_op;

/* A request on its way: so many operations in one frame. */
typedef struct load_slot {
    uint64_t serial, begun; /* ns */
    uint64_t keys[LOAD_BATCH_MAX];
    unsigned left; /* of its operations, the last ones */
    unsigned anew; /* to be asked again: so many of the first ones */
} load_slot;

typedef struct load_conn {
    load_link  link;
    uint64_t   client, session, clock, serial, sequence;
    load_slot *slots;
    unsigned   number; /* of this client */
    uint64_t   member; /* who is there, as it says; 0: it does not */
    struct load_conn *first; /* of this client's connections, which share its slots: that one counts */
    unsigned   active; /* slots that wait for an answer */
    int        wants_write;
} load_conn;

typedef struct load_asker {
    load_op   op;
    unsigned  connections, depth, batch;
    uint64_t  keys;
    uint64_t *versions; /* of each key, as last seen */
    uint64_t  fresh;    /* LOAD_NEW: the number of the next key */
    unsigned  links;    /* of each client; more than one: to the owner of the key */
    uint8_t  *owner;    /* by bucket: which of them */
    uint64_t  seed;     /* of places */
    uint32_t  bits;
    htc_rng   rng;
    uint64_t  done, lost, again,
        failed;     /* since they were last set to 0; lost: another one's compare-and-swap came first */
    htc_status why; /* of the last failure */
} load_asker;

/* Greets, and gets the connection's session. */
void load_conn_greet(load_conn *c);
/* Asks there who has which key; c is the first of a client's connections. */
void load_learn_owners(load_asker *a, load_conn *c);
/* A request with new keys into a connection's out: that one is to be sent. */
load_conn *load_ask(load_asker *a, load_conn *c, load_slot *s, uint64_t now);
/* Takes one whole answer from p (its frame without the length). The slot that is free by it, or NULL: it was asked again, or was none. */
load_slot *load_answer(load_asker *a, load_conn *c, htc_bytes frame);
/* All keys are there, and their versions known. */
void load_fill(load_asker *a, load_conn *c);
/* All keys are there: their versions are asked for. */
void load_learn(load_asker *a, load_conn *c);

/* ---- what it costs ---- */

enum { LOAD_THREADS_MAX = 256 };

typedef struct load_cost {
    uint64_t ns, cycles, instructions;
    int      counted; /* cycles and instructions are there, the kernel's for these processes included */
    int      fds[2 * LOAD_THREADS_MAX];
    unsigned threads;
} load_cost;

/* Of the processes in a list as "1,2,3", all their threads; NULL: of this one, its time alone. */
void load_cost_begin(load_cost *cost, const char *pids);
void load_cost_end(load_cost *cost, const char *pids); /* the same ones: since the beginning */

/* ---- the bare echo ---- */

/* A process of its own at the other ends of n connections, over "tcp" or "unix": what comes in goes out; on this
 * CPU, -1: on any. Its process id. */
pid_t load_echo_start(const char *how, int cpu, load_conn *conns, unsigned n);

#endif
