/* The RESP face's inside, shared by its files:
 *   resp.c           connections, what comes in and goes out, what waits and why
 *   resp_answers.c   what is asked of the backend, and the order of answers
 *   resp_conns.c     connections by their peers
 *   resp_turn.c      whose turn it is, and how much of it
 *   resp_parse.c     requests out of bytes
 *   resp_words.c     the arguments of a request
 *   resp_refuse.c    what is not executed
 *   resp_transaction.c  MULTI, EXEC, WATCH
 *   resp_draft.c     keys as a transaction will leave them
 *   resp_edit.c      commands that are worked out here, and written by compare-and-swap
 *   resp_keys.c      commands on keys
 *   resp_set.c       SET and its options
 *   resp_expire.c    times: EXPIRE, TTL, SETEX, GETEX
 *   resp_string.c    parts of values, INCRBYFLOAT, MSETNX
 *   resp_clients.c   CLIENT
 *   resp_scan.c      SCAN, KEYS, RANDOMKEY, DBSIZE, FLUSHALL: more than one request to the backend
 *   resp_admin.c     what a client says about itself, and wants to know about us
 *   resp_commands.c  the table of commands
 *   resp_reply.c     the forms of answers */
#ifndef HTC_KVS_RESP_PRIVATE_H
#define HTC_KVS_RESP_PRIVATE_H

#include "kvs/resp/resp.h"
#include "kvs/resp/resp_parse.h"

#define HTC__RESP_NAME_MAX     64
#define HTC__RESP_PASSWORD_MAX 512

/* How the backend's answer becomes a reply. */
typedef enum htc__resp_kind {
    KIND_TEXT = 1, /* stands already */
    KIND_BULK,     /* the value */
    KIND_OK,
    KIND_OK_OR_NULL, /* OK if the condition held */
    KIND_OLD,        /* SET … GET, GETDEL: what was there */
    KIND_SEEN,       /* SET … IFEQ … GET: what was there, which is what was expected if it is OK */
    KIND_NUMBER,
    KIND_LENGTH,
    KIND_DONE, /* 1 or 0 */
    KIND_SUM,  /* how many of them are OK */
    KIND_ALL,  /* OK if all are */
    KIND_TTL,
    KIND_PTTL,
    KIND_END, /* when that is, in seconds */
    KIND_PEND,
    KIND_TYPE,
    KIND_SCAN,
    KIND_INFO, /* parts: which sections */
    KIND_JOB,
    KIND_EDIT,   /* resp_edit.c says it */
    KIND_WATCH,  /* of a key: nothing; number: the transaction, parts: which of its watches */
    KIND_STANDS, /* its text, if all parts are OK */
    KIND_RANGE   /* number: from and to, as two numbers of 32 bits, of the value */
} htc__resp_kind;

typedef struct htc__resp_conn htc__resp_conn;

/* An answer that is not sent yet, in the order of requests. */
typedef struct htc__resp_slot {
    uint8_t    kind; /* htc__resp_kind */
    uint8_t    ready;
    uint16_t   op;     /* htc_kv_op of what failed */
    uint32_t   parts;  /* KIND_SUM, KIND_ALL: not answered yet; of them: */
    int64_t    number; /* how many were OK */
    htc_status failed; /* the first that could not be done */
    uint8_t   *text;   /* the reply; before, KIND_SEEN: the reply if it is OK; KIND_SCAN: the pattern */
    size_t     text_len;
    size_t     expected; /* bytes that the answer takes, or will likely take */
} htc__resp_slot;

/* A command that takes several requests one after another: DBSIZE, FLUSHALL, and INFO for the number of keys. */
typedef struct htc__resp_job htc__resp_job;
/* resp_edit.c, resp_transaction.c */
typedef struct htc__resp_edit        htc__resp_edit;
typedef struct htc__resp_transaction htc__resp_transaction;

/* What a transaction writes: how many keys, how many of them are not deleted, and how long keys and values are. */
typedef struct htc__resp_sums {
    size_t changes, puts, keys, values;
} htc__resp_sums;

struct htc__resp_conn {
    uint64_t           id;      /* peer below, a number never used twice above */
    htc_buf            in;      /* what is not executed yet */
    htc__resp_request *request; /* of in; NULL: nothing is left over */
    htc_buf            out;
    htc__resp_slot    *slots; /* a ring of slots_cap, a power of two: those from head to tail */
    uint32_t           slots_cap;
    uint32_t           next_arg;        /* of a command of many keys that was interrupted */
    uint64_t           head, tail, sum; /* sum: the slot of such a command */
    uint64_t           turn;            /* the turn in which it last asked for something, and how often it has */
    uint32_t           asked;
    htc_ns             heard;    /* when bytes last came */
    size_t             counted;  /* bytes of out and of expected in the face's output */
    size_t             leaving;  /* and of what it was sent and has not left */
    size_t             expected; /* of answers that others have to leave before */
    htc__resp_conn    *next_dirty, *next_paused;
    uint8_t            dirty, paused, held, unsent;  /* unsent: what it was sent has not left yet */
    uint8_t            proto, authed, job;           /* job: what comes behind it waits until it is done */
    uint8_t            uploads; /* it is held though its request has no end yet: others have to be done first */
    uint8_t            put_off; /* the value that it wants to read is long, and too many lie unread: it is asked for again */
    uint8_t            alone;                        /* what is asked for may be kept waiting until it asks for more */
    uint8_t            killed;
    uint8_t            exec;                         /* it stands in for one whose transaction is executed: it never waits */
    uint8_t            ended, closing, broken, gone; /* says no more; to be closed when answered, at once; is closed */
    uint16_t           name_len;
    char              *name;
    htc_ns             opened;
    const struct htc__resp_command *command; /* the last */
    htc__resp_sums tried; /* for what there was no room yet when its transaction was worked out last */
    htc__resp_transaction *tx; /* NULL: nothing is watched or queued */
};

/* As GETRANGE counts: below 0 from the end. */
typedef struct htc__resp_range {
    int32_t from, to;
} htc__resp_range;

typedef struct htc__resp_cursor {
    uint64_t id;
    size_t   len;
    uint8_t  key[HTC_KV_KEY_MAX];
} htc__resp_cursor;

typedef struct htc__resp_command htc__resp_command;

/* What the log is told of, each at most once in a while. */
typedef enum htc__resp_refusal { HTC__RESP_IS_HTTP, HTC__RESP_WRONG_PASSWORD, HTC__RESP_NO_PLACE, HTC__RESP_REFUSALS } htc__resp_refusal;

typedef struct htc__resp_told {
    int      said;
    htc_ns   at;
    uint64_t untold; /* since then */
} htc__resp_told;

/* A request that has been looked at before its turn. */
#define HTC__RESP_AHEAD 16
typedef struct htc__resp_ahead {
    const htc__resp_command *command; /* NULL: none of ours */
    size_t                   len;
    htc__resp_few            few;
} htc__resp_ahead;

struct htc__resp {
    htc_env           env;
    htc__resp_options options;
    htc__kv_backend   backend;
    htc__kv_face      face;
    htc__resp_stats   stats;
    htc_ns            now, wall, started;
    uint64_t          serial;
    htc__resp_told    told[HTC__RESP_REFUSALS];

    htc__resp_conn **conns; /* open addressing by peer */
    size_t           conns_cap, conns_count;
    htc__resp_conn  *dirty, **dirty_last;
    htc__resp_conn  *paused, **paused_last;
    htc_buf          pool[128]; /* buffers for answers, for whoever speaks next */
    size_t           pool_count;
    size_t           input;  /* bytes in all in */
    size_t           output; /* in all out, expected, and on their way out if that is known */
    uint64_t         turn;
    size_t           whole; /* so many wait with whole requests */
    int              more, crowded; /* crowded: more than one wait for their turn */

    htc__resp_request        request; /* of whoever has nothing left over */
    htc__resp_ahead          ahead[HTC__RESP_AHEAD];
    htc__resp_request        view; /* of the one of them whose turn it is */
    htc_buf                  scratch;
    int                      probed, keys_only; /* it is known whether the backend knows places; it does not */
    htc_bytes                pattern;           /* of the SCAN that is being answered */
    int                      pattern_nothing;
    htc__resp_range          range; /* of the GETRANGE that is being answered */
    uint64_t                 rate, sampled_commands; /* commands a second, as of the last whole second in which something was said */
    htc_ns                   sampled;
    size_t                   used_peak; /* the most memory for what is kept, as of such seconds */
    size_t                   found; /* bytes of keys that all KEYS under way have found */
    htc__resp_cursor         picked; /* the last of RANDOMKEY */
    htc__resp_cursor        *cursors;
    uint64_t                 cursor_next, cursor_tag; /* the tag is drawn with the first cursor */
    htc__resp_job           *jobs;
    htc__resp_edit          *edits;
    uint64_t                 transactions; /* begun so far */
    size_t                   queued;       /* bytes of all transactions: their queues, and what they watch */
    htc__resp_request        queued_request;
    const htc__resp_command *by_hash[256];
    uint64_t                 names[256]; /* of them */
    uint8_t                  password[HTC__RESP_PASSWORD_MAX];
};

/* The rest of a command: argument i is htc__resp_arg_of(request, base, i). */
typedef struct htc__resp_call {
    htc__resp         *f;
    htc__resp_conn    *c;
    htc__resp_request *r;
    const uint8_t     *base;
    int                last; /* nothing has come behind it */
} htc__resp_call;

/* FREE: before AUTH too. NOW: not queued by MULTI. OUTSIDE: never in a transaction. */
enum { HTC__RESP_FREE = 1, HTC__RESP_WRITES = 2, HTC__RESP_NOW = 4, HTC__RESP_OUTSIDE = 8 };

struct htc__resp_command {
    const char *name;  /* in capitals, at most 16 */
    int         arity; /* with the name; below 0: at least */
    uint32_t    flags;
    int (*run)(htc__resp_call *x); /* 1: done, 0: to be called again, with c->next_arg */
    int         first, last, step; /* where its keys are, as COMMAND says it */
    const char *summary;
};

/* resp.c */
/* It is closed, whatever it waits for. */
void htc__resp_kill(htc__resp *f, htc__resp_conn *c);
void htc__resp_break(htc__resp *f, htc__resp_conn *c); /* it ends: memory was refused */
void htc__resp_mark_dirty(htc__resp *f, htc__resp_conn *c); /* there is something to say to it, or it ends */
/* Of those who have begun a request or a transaction and not ended it, who holds most for longest is told so and ended: 0 if nobody
 * holds much. Who waits for this store holds nothing by its own will. asks: who speaks is executed, and stays. */
int htc__resp_end_holder(htc__resp *f, const htc__resp_conn *speaks, int asks);

/* resp_answers.c */
/* As the face of the backend. */
void htc__resp_answer(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *a);
int  htc__resp_gone(void *ctx, uint64_t conn);
void htc__resp_count_output(htc__resp *f, htc__resp_conn *c); /* after whatever may have been said to it */
/* Ask the backend; the answer is replied in this kind. what: KIND_SEEN: the reply if it is OK. */
void htc__resp_ask(htc__resp_call *x, const htc_kv_request *q, htc__resp_kind kind);
/* Within a transaction, where everything is answered at once. */
htc_status htc__resp_ask_plain(htc__resp_call *x, const htc_kv_request *q);
/* A reply at once, in its turn: write between these two. */
htc_buf *htc__resp_begin(htc__resp *f, htc__resp_conn *c);
void     htc__resp_end(htc__resp *f, htc__resp_conn *c);
int      htc__resp_error(htc__resp_call *x, const char *text); /* -text; answers 1 */
/* A slot for several answers; NULL: memory was refused and the connection ends. */
htc__resp_slot *htc__resp_slot_add(htc__resp *f, htc__resp_conn *c, htc__resp_kind kind);
void            htc__resp_slot_free(htc__resp *f, htc__resp_slot *s);
htc__resp_slot *htc__resp_slot_of(htc__resp_conn *c, uint64_t slot);
void htc__resp_slot_ready(htc__resp *f, htc__resp_conn *c, uint64_t slot); /* its text, or what it sums, is its reply */

/* Its text is this, and it is ready; NULL: nothing is said. Keep: it will be, where it is KIND_STANDS and all is well. */
void htc__resp_slot_say(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_buf *text);
void htc__resp_slot_keep(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_buf *text);
/* One of the parts of a slot that counts is answered. */
void htc__resp_count(htc__resp *f, htc__resp_conn *c, uint64_t slot, uint32_t op, htc_status status);

/* resp_words.c */
htc_bytes htc__resp_arg(const htc__resp_call *x, uint32_t i);
int       htc__resp_arg_is(const htc__resp_call *x, uint32_t i, const char *word); /* in any case */
/* The value of a command stands in front; one of many keys looks itself at each. */
size_t htc__resp_longest(const htc__resp_call *x);
/* Arguments that outlive the bytes they came in: each request is u32 how many, each of them u32 length and its bytes. Unpack the
 * one at *at, which goes on behind it; 0: memory was refused. Its places are those of packed. */
void htc__resp_pack(htc_buf *b, const htc__resp_call *x);
int  htc__resp_unpack(htc__resp_request *r, htc_bytes packed, size_t *at);

/* resp_edit.c. How a key is, and what becomes of it. */
typedef struct htc__resp_state {
    int       there;
    uint64_t  version;
    htc_bytes value;
    htc_ns    ttl; /* what is left; 0: none */
    uint64_t  lease;
} htc__resp_state;

typedef struct htc__resp_change {
    enum { HTC__RESP_STAYS, HTC__RESP_BECOMES, HTC__RESP_GOES } what;
    htc_bytes              value; /* BECOMES; may be in the buffer for it, or the value that was shown */
    int                    keeps; /* its time stays */
    htc_ns                 ttl;   /* else; 0: none */
    htc__resp_transaction *tx;    /* of EXEC */
} htc__resp_change;

/* Work out what x does to its key. It may be called again with another state; both buffers are empty then. */
typedef void (*htc__resp_work)(htc__resp_call *x, const htc__resp_state *now, htc__resp_change *to, htc_buf *value, htc_buf *reply);
int             htc__resp_edit_key(htc__resp_call *x, htc__resp_work work); /* of argument 1 */
int             htc__resp_edit_transaction(htc__resp_call *x, htc__resp_work work, htc__resp_transaction *tx); /* takes tx */
void            htc__resp_edit_answer(htc__resp *f, uint64_t conn, uint64_t slot, const htc_kv_result *a);
void            htc__resp_edits_go_on(htc__resp *f);
void            htc__resp_edits_forget(htc__resp *f, uint64_t conn); /* 0: all */
htc__resp_state htc__resp_state_of(const htc_kv_result *a);

/* resp_admin.c. 0: it is no name. */
int htc__resp_set_name(htc__resp_call *x, htc_bytes name);
#define HTC__RESP_BAD_NAME "ERR Client names cannot contain spaces, newlines or special characters."
static inline int64_t htc__resp_conn_id(const htc__resp_conn *c)
{
    return (int64_t)(c->id >> 32);
}

/* resp_string.c */
htc_bytes htc__resp_part(htc_bytes value, htc__resp_range range);

/* resp_expire.c. A number of units from now on, or a moment since 1970, of at most 64 bits of milliseconds: how many are left. */
enum { HTC__RESP_TIME, HTC__RESP_PAST /* 0 or less was given */, HTC__RESP_NO_NUMBER, HTC__RESP_NO_TIME };
int    htc__resp_time(const htc__resp_call *x, htc_bytes text, int64_t unit_ms, int moment, int64_t *left_ms);
htc_ns htc__resp_life(int64_t left_ms); /* as a ttl: at least 1 ns, and as long as there is */

/* resp_transaction.c */
/* Execute this call as a transaction of its own, whose run is called with c->exec then. several: the error where it is about
 * several keys and there are several members. */
int  htc__resp_transaction_of_one(htc__resp_call *x, const char *several);
int  htc__resp_queues(const htc__resp_conn *c, const htc__resp_command *command);
int  htc__resp_queue(htc__resp_call *x, const htc__resp_command *command);
void htc__resp_transaction_failed(htc__resp_conn *c); /* a command that should be queued cannot be */
void htc__resp_transaction_end(htc__resp *f, htc__resp_conn *c);
size_t htc__resp_transaction_bytes(const htc__resp_conn *c); /* that it holds for it */
void htc__resp_watch_answer(htc__resp *f, htc__resp_conn *c, uint64_t slot, const htc_kv_result *a);

/* Commands a second, of the last whole second in which something was said. */
void htc__resp_sample(htc__resp *f, htc_ns now);

/* resp_refuse.c */
void htc__resp_tell(htc__resp *f, uint32_t peer, htc__resp_refusal why); /* the log */
/* Each answers 1. */
int htc__resp_wrong(htc__resp_call *x, const char *what); /* it is no request: the connection ends */
int htc__resp_refuse_key(htc__resp_call *x, htc_bytes key); /* 0: its length is as it has to be */
int htc__resp_refuse_pairs(htc__resp_call *x, uint32_t step); /* the same of all keys from argument 1 on; 2: and of values */
int htc__resp_too_big(htc__resp_call *x, uint32_t op);
int htc__resp_unsupported(htc__resp_call *x, htc_bytes option);
int htc__resp_unknown(htc__resp_call *x);
int htc__resp_is_http(const htc__resp_call *x);
int htc__resp_end_http(htc__resp_call *x); /* and the connection */

/* resp_conns.c */
htc__resp_conn *htc__resp_find(const htc__resp *f, uint32_t peer);
int             htc__resp_conns_make_room(htc__resp *f); /* for one more; 0: out of memory */
void            htc__resp_conn_insert(htc__resp *f, htc__resp_conn *c);
void            htc__resp_conn_forget(htc__resp *f, const htc__resp_conn *c);

/* resp_turn.c */
int htc__resp_may_ask(const htc__resp *f, const htc__resp_conn *c); /* 0: wait */
/* Before each request to the backend, also of a command of many keys: it has room for a change of so many bytes, for a read of this key, and the
 * connection has not had its share of the turn. 0: wait, by answering 0 from run. */
int htc__resp_may_change(const htc__resp_call *x, size_t bytes);
int htc__resp_may_read(const htc__resp_call *x, htc_bytes key);
int htc__resp_may_begin(const htc__resp_call *x); /* as its command needs it */
int htc__resp_has_room(const htc__resp *f, size_t bytes);
int htc__resp_room_to_change(const htc__resp *f, size_t bytes); /* of the backend alone, whoever asks */
int  htc__resp_has_had_its_share(const htc__resp *f, const htc__resp_conn *c);
void htc__resp_note_asked(const htc__resp *f, htc__resp_conn *c);
int  htc__resp_puts_off(const htc__resp *f, const htc_kv_request *q, const htc_kv_result *a); /* 1: so long an answer is asked for later */

/* resp_reply.c */
void htc__resp_bulk(htc_buf *b, htc_bytes bytes);
void htc__resp_null(const htc__resp_conn *c, htc_buf *b);
void htc__resp_integer(htc_buf *b, int64_t number);
void htc__resp_head(htc_buf *b, char type, int64_t count); /* of an array, a map */
void htc__resp_map(const htc__resp_conn *c, htc_buf *b, int64_t pairs);
void htc__resp_text(htc_buf *b, const char *text); /* as bulk */
void htc__resp_raw(htc_buf *b, const char *text);
void htc__resp_failure(const htc__resp *f, htc_buf *b, htc_status status, uint32_t op);
/* The reply of this kind to an answer. */
void htc__resp_reply(htc__resp *f, htc__resp_conn *c, htc__resp_kind kind, const htc_kv_result *a, htc_buf *b);

/* A word of letters, at most 8, as one number without regard to case; 0: none. */
static inline uint64_t htc__resp_word(htc_bytes word)
{
    const uint8_t *p = word.data;
    uint64_t       k = 0;
    unsigned       other = 0; /* without case a space is a zero, which a number does not show in front */
    if (word.len > 8)
        return 0;
    for (size_t i = 0; i < word.len; i++) {
        unsigned letter = p[i] & 0xdfu;
        other |= letter - 'A' > 'Z' - 'A';
        k = k << 8 | letter;
    }
    return other ? 0 : k;
}

/* resp_commands.c */
void                     htc__resp_commands_init(htc__resp *f);
const htc__resp_command *htc__resp_command_find(const htc__resp *f, htc_bytes name);
const htc__resp_command *htc__resp_command_at(size_t i); /* NULL behind the last */

/* resp_keys.c, resp_set.c, resp_scan.c, resp_admin.c: run of the table */
#define HTC__RESP_RUN(X)                                                                                               \
    X(get)                                                                                                             \
    X(set) X(getdel) X(del) X(exists) X(append) X(strlen) X(incr) X(decr) X(incrby) X(decrby) X(mget) X(mset) X(setnx) \
        X(expire) X(ttl) X(pttl) X(persist) X(type) X(scan) X(dbsize) X(flush) X(hello) X(auth) X(ping)     \
            X(echo) X(select) X(info) X(client) X(command) X(config) X(role) X(quit) X(reset) X(multi) \
                X(exec) X(discard) X(watch) X(unwatch) X(setex) X(psetex) X(getex) \
                X(getset) X(getrange) X(setrange) X(incrbyfloat) X(msetnx) X(expiretime) X(pexpiretime) X(keys) X(randomkey) X(time)
#define HTC__RESP_DECLARE(name) int htc__resp_run_##name(htc__resp_call *x);
HTC__RESP_RUN(HTC__RESP_DECLARE)
#undef HTC__RESP_DECLARE

/* resp_scan.c */
void htc__resp_scan_reply(htc__resp *f, const htc_kv_result *a, htc_buf *b);
int  htc__resp_job_info(htc__resp_call *x, uint32_t sections); /* count, then htc__resp_info */
void htc__resp_info(htc__resp *f, uint32_t sections, htc_status counted, int64_t keys, htc_buf *b);
void htc__resp_job_answer(htc__resp *f, uint64_t conn, uint64_t slot, const htc_kv_result *a);
void htc__resp_jobs_go_on(htc__resp *f);
void htc__resp_jobs_forget(htc__resp *f, uint64_t conn); /* 0: all */
int  htc__resp_glob(htc_bytes pattern, htc_bytes text);

#endif
