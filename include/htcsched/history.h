/**
 * @file htcsched/history.h
 * @brief What clients asked of a store and what they were told, and whether a correct store could have told them that.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`): for tests, studies and teaching, never for what runs live.
 *
 * A history is a list of operations, each with the process that asked, the key, when it was asked, when it was answered (or
 * never), and what the answer said. Simulations and live tests write one; the checkers judge it, at once or years later from
 * the file, with one rule each:
 *
 * | function | what has to hold |
 * |---|---|
 * | htc_history_linear | each key behaves like one copy of it (linearizability), decided by the versions that answers carry |
 * | htc_history_search | the same for one key by searching for an order: slow, needs no versions |
 * | htc_history_rising | versions of a key rise, over deletion and re-creation too |
 * | htc_history_kept | no acknowledged change is missing from the last read of its key |
 * | htc_history_counted | counters stand at the sum of what was acknowledged, give or take what is unknown |
 * | htc_history_watched | a watcher got the last state of each key it watched, in rising order |
 * | htc_history_leased | no lease ends early, none lives on |
 * | htc_history_converged | copies agree in the end, and no acknowledged value was dropped by one that had not seen it |
 *
 * Times are nanoseconds of one clock, any origin. An operation stands before another if it was answered before the other was
 * asked; those that overlap may have happened in either order.
 *
 * Values are kept as a fingerprint, length and number: a history of a million changes of a kilobyte takes 200 MB, not more.
 * The fingerprint is a polynomial modulo 2^61 - 1, so that what an append makes of a value is known without its bytes.
 *
 * Threads: owner.   Allocation: through env; a history holds at most ops_max, keys_max and bytes_max; a checker takes memory
 * for as long as it runs, as said there, and gives it all back.
 */
#ifndef HTCSCHED_HISTORY_H
#define HTCSCHED_HISTORY_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A number that is not known. */
#define HTC_HISTORY_NO_NUMBER INT64_MIN
/** A vector clock has at most so many members. */
#define HTC_HISTORY_CLOCK_MAX 64

/** What happened. */
typedef enum htc_history_kind {
    HTC_HISTORY_GET = 1,     /**< read a key */
    HTC_HISTORY_PUT,         /**< argument: the new value */
    HTC_HISTORY_DELETE,      /**< MISSED: there was nothing */
    HTC_HISTORY_APPEND,      /**< argument: the piece; number: the new length */
    HTC_HISTORY_CAS_VERSION, /**< expected (0: must not exist), argument */
    HTC_HISTORY_CAS_VALUE,   /**< seen, argument */
    HTC_HISTORY_ADD,         /**< delta; number: the new number. A missing key counts as 0 */
    HTC_HISTORY_GRANT,       /**< a lease, which is the key; expected: its TTL in ns */
    HTC_HISTORY_RENEW,       /**< the lease; MISSED: it is gone */
    HTC_HISTORY_REVOKE,      /**< the lease; MISSED: it is gone */
    HTC_HISTORY_LOOK,        /**< somebody looked whether the lease, or a key bound to it, is there; MISSED: gone */
    HTC_HISTORY_WATCH,       /**< the process watches the key from returned on; version: what it holds, 0 nothing */
    HTC_HISTORY_EVENT,       /**< the process was sent version and observed of the key, at returned */
    HTC_HISTORY_RESTART,     /**< the process was told to start over with the key, at returned */
    HTC_HISTORY_UNWATCH,     /**< the process stopped watching the key, at invoked */
    HTC_HISTORY_WRITE, /**< eventual: argument under the context clock; its dot is (expected, version), as answered */
    HTC_HISTORY_SIBLING, /**< eventual: in the end the process, a copy, holds observed, dot (expected, version), under clock */
    HTC_HISTORY_DOWN, /**< no majority was up from invoked to returned; of the whole store, whatever the key */
    HTC_HISTORY_CURRENT /**< the process, which watches many keys, had been told at returned all that was there: of the key nothing, if it
                             was told nothing of it. Since: 0.2 */
} htc_history_kind;

/** What became of it. */
typedef enum htc_history_outcome {
    HTC_HISTORY_UNKNOWN = 0, /**< never answered, timed out, or "unknown": it may have been done, even later */
    HTC_HISTORY_DONE,        /**< it was done; a get found something */
    HTC_HISTORY_MISSED,      /**< nothing was done because of what it saw: mismatch, not found; a get found nothing */
    HTC_HISTORY_REFUSED      /**< nothing was done, and nothing is said of the key: busy, full, denied, invalid */
} htc_history_outcome;

/** A value, without its bytes: htc_history_value_of. */
typedef struct htc_history_value {
    uint64_t hash;   /**< below 2^61 */
    uint64_t length; /**< bytes; HTC_HISTORY_ABSENT, HTC_HISTORY_UNSAID: no value */
    int64_t  number; /**< if it is one in decimal, else HTC_HISTORY_NO_NUMBER */
} htc_history_value;

/** Length of what is not there. */
#define HTC_HISTORY_ABSENT UINT64_MAX
/** Length of a value that the answer did not tell. */
#define HTC_HISTORY_UNSAID (UINT64_MAX - 1)

/** The operation is the last read of its key, or belongs to the final state. */
#define HTC_HISTORY_FINAL 1u

/** One operation. What its kind does not use is 0; HTC_HISTORY_OP_INIT says "no value" where that is not 0. */
typedef struct htc_history_op {
    uint32_t          kind;     /**< htc_history_kind */
    uint32_t          outcome;  /**< htc_history_outcome */
    uint32_t          key;      /**< as htc_history_key numbers it */
    uint32_t          flags;    /**< HTC_HISTORY_FINAL or 0 */
    uint32_t          clock;    /**< as htc_history_clock numbers it; 0: empty */
    uint32_t          line;     /**< where it was read from, from 1; 0: made in memory */
    uint64_t          process;  /**< the client, watcher or copy */
    htc_ns            invoked;  /**< when it was asked */
    htc_ns            returned; /**< when it was answered; HTC_NEVER */
    uint64_t          expected; /**< a version, a TTL, or a member: see the kind */
    uint64_t          version;  /**< of the change, or as observed; 0: not told, or nothing there */
    int64_t           delta;    /**< ADD */
    int64_t           number;   /**< answered: ADD, APPEND; else HTC_HISTORY_NO_NUMBER */
    htc_history_value argument; /**< what it writes */
    htc_history_value seen;     /**< what CAS_VALUE compares with */
    htc_history_value observed; /**< GET that found, MISSED CAS, EVENT, SIBLING */
} htc_history_op;

/** An operation of which nothing is known yet. */
#define HTC_HISTORY_OP_INIT                                                                                            \
    {                                                                                                                  \
        0, 0, 0, 0, 0, 0, 0, 0, HTC_NEVER, 0, 0, 0, HTC_HISTORY_NO_NUMBER,                                             \
            { 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER }, { 0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER },        \
        {                                                                                                              \
            0, HTC_HISTORY_UNSAID, HTC_HISTORY_NO_NUMBER                                                               \
        }                                                                                                              \
    }

/** One entry of a vector clock. */
typedef struct htc_history_tick {
    uint64_t member;  /**< who counts */
    uint64_t counter; /**< how far, at least 1 */
} htc_history_tick;

/** How much a history may hold; every field's zero is its default. */
typedef struct htc_history_options {
    size_t   size;      /**< sizeof(htc_history_options) */
    uint32_t ops_max;   /**< operations; 0: 2^24 */
    uint32_t keys_max;  /**< keys; 0: 2^22 */
    size_t   bytes_max; /**< of all keys and clocks; 0: 256 MiB */
} htc_history_options;

/** Operations, keys and clocks. */
typedef struct htc_history htc_history;

/**
 * Create an empty history.
 *
 * @param[in]  env      what it points to is kept; NULL: malloc
 * @param[in]  options  borrowed; NULL: the defaults
 * @param[out] out      gives the history: htc_history_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some allocations.   Since: 0.2
 */
HTC_API htc_status htc_history_create(const htc_env *env, const htc_history_options *options, htc_history **out);

/**
 * Free a history.
 *
 * @param[in] history  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_history_destroy(htc_history *history);

/**
 * The fingerprint of a value.
 *
 * @param[in] bytes  borrowed
 * @return its hash, length and number; an empty run is a value of length 0, not the absence of one
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_history_value htc_history_value_of(htc_bytes bytes);

/**
 * The fingerprint of what appending makes: that of both runs one behind the other, but never a number.
 *
 * @param[in] a  what was there; HTC_HISTORY_ABSENT counts as empty
 * @param[in] b  the piece
 * @return the fingerprint
 *
 * Cost: O(log length of b).   Since: 0.2
 */
HTC_API htc_history_value htc_history_value_join(htc_history_value a, htc_history_value b);

/**
 * The number of a key in this history; a new one if it was not met before.
 *
 * @param[in,out] history  as it was on failure
 * @param[in]     key      at most 65535 bytes; copied
 * @param[out]    out      the number, counted from 0
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL beyond keys_max or bytes_max; HTC_ENOMEM
 *
 * Cost: O(length), amortised.   Since: 0.2
 */
HTC_API htc_status htc_history_key(htc_history *history, htc_bytes key, uint32_t *out);

/**
 * The bytes of a key.
 *
 * @param[in] history  borrowed
 * @param[in] key      a number
 * @return lent until the next key or clock is added; an empty run for a number that was not given
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_bytes htc_history_key_bytes(const htc_history *history, uint32_t key);

/**
 * How many keys there are.
 *
 * @param[in] history  borrowed
 * @return the count
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_history_keys(const htc_history *history);

/**
 * Keep a vector clock.
 *
 * @param[in,out] history  as it was on failure
 * @param[in]     ticks    n of them, each member once; copied
 * @param[in]     n        at most HTC_HISTORY_CLOCK_MAX
 * @param[out]    out      its number, for htc_history_op.clock; 0 for n = 0
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL beyond bytes_max; HTC_ENOMEM
 *
 * Cost: O(n^2).   Since: 0.2
 */
HTC_API htc_status htc_history_clock(htc_history *history, const htc_history_tick *ticks, size_t n, uint32_t *out);

/**
 * Append an operation.
 *
 * @param[in,out] history  as it was on failure
 * @param[in]     op       copied
 * @param[out]    index    its place, counted from 0; NULL is fine
 * @return HTC_OK; HTC_EINVAL for an unknown kind, outcome, key or clock, a version above 2^63, an answer before its question,
 *         or one that is DONE, MISSED or REFUSED at HTC_NEVER; HTC_EFULL beyond ops_max; HTC_ENOMEM
 *
 * Cost: O(1), amortised.   Since: 0.2
 */
HTC_API htc_status htc_history_add(htc_history *history, const htc_history_op *op, size_t *index);

/**
 * Note the answer of an operation that was appended when it was asked.
 *
 * @param[in,out] history  as it was on failure
 * @param[in]     index    of an operation whose outcome is HTC_HISTORY_UNKNOWN
 * @param[in]     answer   of it: outcome, returned, version, number, observed, and expected of a WRITE
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_history_answer(htc_history *history, size_t index, const htc_history_op *answer);

/**
 * How many operations there are.
 *
 * @param[in] history  borrowed
 * @return the count
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API size_t htc_history_count(const htc_history *history);

/**
 * Look at one operation.
 *
 * @param[in] history  borrowed
 * @param[in] index    its place
 * @return lent until the next operation is appended; NULL beyond the end
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const htc_history_op *htc_history_at(const htc_history *history, size_t index);

/** A buffer of this size holds every line that htc_history_line writes. */
#define HTC_HISTORY_LINE_MAX (3 * 65536 + 48 * HTC_HISTORY_CLOCK_MAX + 1024)

/**
 * One operation as a line of a history file, without its newline. The form: htc_history(3).
 *
 * @param[in]  history  borrowed
 * @param[in]  index    its place
 * @param[out] buffer   the line with an end
 * @param[in]  size     of the buffer; HTC_HISTORY_LINE_MAX is always enough, 1 KiB for keys of at most 100 bytes and no clock
 * @return its length; 0 if it does not fit or there is no such operation
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API size_t htc_history_line(const htc_history *history, size_t index, char *buffer, size_t size);

/**
 * Append what a history file, or some lines of one, says.
 *
 * @param[in,out] history  on failure as it was, but for keys and clocks that no operation uses
 * @param[in]     text     from a stranger if need be; borrowed
 * @param[out]    error    line and reason on failure; NULL is fine
 * @return HTC_OK; HTC_EPROTO if it is not a history; HTC_EFULL beyond what the history may hold; HTC_ENOMEM
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_history_read(htc_history *history, htc_bytes text, htc_error *error);

/** What a checker says. */
typedef enum htc_history_answer_kind {
    HTC_HISTORY_HOLDS = 1, /**< the rule holds */
    HTC_HISTORY_BROKEN,    /**< no correct store could have answered so */
    HTC_HISTORY_UNDECIDED  /**< the work allowed was not enough, or the history does not say enough: text says what */
} htc_history_answer_kind;

/** The judgement. The first violation met is told, by the order of keys and then of time. */
typedef struct htc_history_verdict {
    uint32_t answer;     /**< htc_history_answer_kind */
    uint32_t key;        /**< BROKEN, UNDECIDED: the key */
    uint32_t involved;   /**< BROKEN: how many of ops are told */
    uint32_t searched;   /**< keys that had to be searched, since versions alone did not decide */
    size_t   ops[4];     /**< BROKEN: the operations that cannot stand together */
    uint64_t checked;    /**< operations looked at */
    uint64_t work;       /**< steps of searching */
    char     text[1536]; /**< BROKEN, UNDECIDED: what is wrong, a line, then a line for each operation */
} htc_history_verdict;

/** How checkers work; every field's zero is its default. */
typedef struct htc_history_rules {
    size_t   size;        /**< sizeof(htc_history_rules) */
    uint64_t search_max;  /**< steps of a search for each key; 0: 10^6 */
    size_t   bytes_max;   /**< of a search's memory of where it has been; 0: 64 MiB */
    htc_ns   settle_ns;   /**< watched: changes answered so long before the end of a watch must have been sent; 0: 0 */
    htc_ns   takeover_ns; /**< leased: the longest that a take-over may last; 0: 0 */
} htc_history_rules;

/**
 * Is each key linearizable? The versions in the answers force the order of the changes, so it is only tried against time.
 *
 * Sort what is known of a key by version; acknowledged changes have distinct ones; each observed version was written, if
 * nobody acknowledged it by an operation of unknown outcome that fits; then nothing that was answered before another was asked
 * may stand behind it. Where operations of unknown outcome leave a choice and the first choice does not fit, and where answers
 * lack versions, that key is searched (htc_history_search). A key with both ADD and APPEND is HTC_HISTORY_UNDECIDED unless
 * one of both never happened.
 *
 * @param[in]  history  borrowed; GET, PUT, DELETE, APPEND, CAS_VERSION, CAS_VALUE and ADD are looked at
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n) time and about 100 n bytes for n operations; with u of unknown outcome on a key O(u) more for each of its
 * operations that needs one of them; then O(search_max) for a key searched.
 * Algorithm: Gibbons and Korach for registers whose writes are told apart.   Since: 0.2
 */
HTC_API htc_status htc_history_linear(const htc_history *history, const htc_history_rules *rules,
                                      htc_history_verdict *verdict);

/**
 * Is one key linearizable? Looks for an order of its operations that a single copy could have gone through.
 *
 * @param[in]  history  borrowed
 * @param[in]  key      its number
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement; UNDECIDED beyond search_max or bytes_max
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: exponential at worst, cut off after search_max steps; about 400 bytes an operation, 32 a step, at most bytes_max, and for a
 * key with appends of unknown outcome some MiB, up to 40 if it is hard. Places visited are known by 128 bits of a hash of the operations done and the state reached. Of what has an
 * unknown outcome only that is tried which something answered needs: a dozen and more of them for each key are decided, as a rule.
 * Algorithm: Wing and Gong with Lowe's memory of places, key by key.   Since: 0.2
 */
HTC_API htc_status htc_history_search(const htc_history *history, uint32_t key, const htc_history_rules *rules,
                                      htc_history_verdict *verdict);

/**
 * Do the versions of each key rise? The part of linearizability that looks at nothing but versions and time; it also holds
 * for histories whose values are not known.
 *
 * @param[in]  history  borrowed
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n) time, about 100 n bytes.   Since: 0.2
 */
HTC_API htc_status htc_history_rising(const htc_history *history, const htc_history_rules *rules,
                                      htc_history_verdict *verdict);

/**
 * Is every acknowledged change in the last read of its key, or overwritten by a later one? Each key with an acknowledged
 * change needs a GET with HTC_HISTORY_FINAL, asked after all else was answered; a key without is UNDECIDED.
 *
 * @param[in]  history  borrowed
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n) time, 8 bytes an operation.   Since: 0.2
 */
HTC_API htc_status htc_history_kept(const htc_history *history, const htc_history_rules *rules,
                                    htc_history_verdict *verdict);

/**
 * Does each counter stand where its additions put it? For keys that only ADD changes: the last read (HTC_HISTORY_FINAL) is
 * the sum of the acknowledged ones, and of some of those whose outcome is unknown.
 *
 * @param[in]  history  borrowed
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement; keys that other changes touch are not looked at
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n) time, 8 bytes an operation.   Since: 0.2
 */
HTC_API htc_status htc_history_counted(const htc_history *history, const htc_history_rules *rules,
                                       htc_history_verdict *verdict);

/**
 * Did watchers get what was promised? Versions of a key rise strictly for each watcher until it is told to start over; what
 * is sent is what that version is; and a change answered settle_ns before the watch ended, or the history did, was sent, or
 * one after it. A key that was deleted before the watcher started over need not be sent, nor one that was deleted before the watcher of
 * a prefix was told that it knows all that is there: such a watcher has a WATCH, and what else is said of it, for each key.
 *
 * @param[in]  history  borrowed; one WATCH of a process and key at a time
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n) time, about 100 n bytes.   Since: 0.2
 */
HTC_API htc_status htc_history_watched(const htc_history *history, const htc_history_rules *rules,
                                       htc_history_verdict *verdict);

/**
 * Do leases live as long as promised? None is seen gone before 0.999 of its TTL after an acknowledged renewal was sent, unless
 * it was revoked; none is seen alive later than its TTL and takeover_ns after the last renewal that may have counted, or
 * after the last time without a majority; none comes back.
 *
 * @param[in]  history  borrowed; the lease is the key
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n) time, about 100 n bytes.   Since: 0.2
 */
HTC_API htc_status htc_history_leased(const htc_history *history, const htc_history_rules *rules,
                                      htc_history_verdict *verdict);

/**
 * Did the copies of each key of an eventual namespace agree in the end, and is each acknowledged value there, or covered by a
 * value whose writer had seen it? Needs a SIBLING with HTC_HISTORY_FINAL for each value that each copy holds.
 *
 * @param[in]  history  borrowed
 * @param[in]  rules    borrowed; NULL: the defaults
 * @param[out] verdict  the judgement; UNDECIDED for a key with an acknowledged value and no final state
 * @return HTC_OK whatever the judgement; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n^2) for n writes and final siblings of a key, about 60 bytes each.   Since: 0.2
 */
HTC_API htc_status htc_history_converged(const htc_history *history, const htc_history_rules *rules,
                                         htc_history_verdict *verdict);

#ifdef __cplusplus
}
#endif
#endif
