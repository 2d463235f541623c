/**
 * @file htcsched/record.h
 * @brief Resource records: which nodes of a partition are free, and changes of that to be made by compare-and-swap.
 *
 * A partition's nodes are numbered from 0 in the order of its *node list*, a text like "n[001-128,200]" that is kept
 * under a key of its own and hardly ever changes. The *record* under the controller's key holds numbers only: the idle
 * nodes, the nodes that are down, and the *takings*: nodes taken for an attempt of a job that the job's own records do
 * not name yet. It stays small whatever the names are like: 65,536 nodes however fragmented within 8 KiB and 64 bytes,
 * one free run within 64.
 *
 * Every change is a pure function from the bytes of a record to the bytes of the next (Algorithm 4):
 *
 *     while ((status = htc_record_take(NULL, seen, &ask, &next, got)) == HTC_OK &&
 *            compare_and_swap(key, seen, next, &seen) == HTC_MISMATCH)
 *         htc_record_free(NULL, next);
 *
 * Changes compose: settle and take one after the other, then swap once.
 *
 * *The life of a taking.* The job's own record is the arbiter: it exists before the first node is taken, and says which
 * attempt the job is at and whether that attempt is *committed* to its nodes. Then: take, in each partition; write the
 * job's entry for it, with the attempt and the nodes; commit, by a compare-and-swap of the job's record; settle; start.
 * The way back: end the job in its record; for each partition unsettle, remove the entry, release; at last delete the
 * job's record, or raise its attempt.
 *
 * Anybody may do or repeat any step after a crash, for *one rule*: who changes a record because of what another key says
 * reads the record first and that key after it, and swaps by the version of the record read, even where not a byte
 * changes. On the way back this is: read the record, then the entry. If it is there, unsettle, swap, remove it, and
 * look again; if it is not, release what the record still has for the attempt.
 *
 * A sweeper goes through the takings and does what htc_record_judge says of each. It never releases what an attempt
 * that may still commit has taken; to stop waiting for a controller it raises the job's attempt, and who comes too late
 * cannot commit any more. So no node is given to two, none is lost, and no step depends on time.
 *
 * Threads: pure (records), owner (sets); a node list may be read by any number of threads.   Allocation: through env;
 * sets and node lists keep some, transforms give their result.   Source: doc/papers.md#record, Algorithm 4 and
 * Table 11.
 */
#ifndef HTCSCHED_RECORD_H
#define HTCSCHED_RECORD_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A partition, a node list and a set have at most this many nodes. */
#define HTC_RECORD_NODES_MAX (UINT32_C(1) << 20)
/** A node's name has 1 to this many bytes. */
#define HTC_RECORD_NAME_MAX 255
/** A job's id has 1 to this many bytes, of any value. */
#define HTC_RECORD_JOB_MAX 64
/** A record has at most this many takings. */
#define HTC_RECORD_TAKINGS_MAX 4096
/** A name in a text has at most this many bracketed groups. */
#define HTC_RECORD_GROUPS_MAX 4

/** A set of node numbers, 0 to HTC_RECORD_NODES_MAX - 1. */
typedef struct htc_record_set htc_record_set;

/** A node list: the names of the nodes 0, 1, 2... */
typedef struct htc_record_names htc_record_names;

/**
 * Free what a function of this module gave as bytes.
 *
 * @param[in] env    the env they were given with
 * @param[in] bytes  empty ones are fine
 *
 * Cost: one free.   Since: 0.2
 */
HTC_API void htc_record_free(const htc_env *env, htc_bytes bytes);

/* ---- Sets of node numbers ------------------------------------------------------------------------------------------
 */

/**
 * Create an empty set.
 *
 * @param[in]  env  kept; NULL: malloc
 * @param[out] out  gives the set: htc_record_set_destroy
 * @return HTC_OK; HTC_EINVAL if out is NULL; HTC_ENOMEM
 *
 * Cost: one allocation; a set takes a bit for each number up to its largest.   Since: 0.2
 */
HTC_API htc_status htc_record_set_create(const htc_env *env, htc_record_set **out);

/**
 * Free a set.
 *
 * @param[in] set  NULL is fine
 *
 * Cost: two frees.   Since: 0.2
 */
HTC_API void htc_record_set_destroy(htc_record_set *set);

/**
 * Take everything out; the memory stays for what comes next.
 *
 * @param[in,out] set  NULL is fine
 *
 * Cost: O(largest number so far / 64).   Since: 0.2
 */
HTC_API void htc_record_set_clear(htc_record_set *set);

/**
 * Put the range first .. first + count - 1 in; numbers that are there already stay.
 *
 * @param[in,out] set    as it was on failure
 * @param[in]     first  first number of the range
 * @param[in]     count  how many; 0 changes nothing; first + count <= HTC_RECORD_NODES_MAX
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(count / 64), amortised growth.   Since: 0.2
 */
HTC_API htc_status htc_record_set_add(htc_record_set *set, uint32_t first, uint32_t count);

/**
 * Take the range first .. first + count - 1 out; numbers that are not there do not matter.
 *
 * @param[in,out] set    as it was on failure
 * @param[in]     first  as in htc_record_set_add
 * @param[in]     count  as in htc_record_set_add
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(count / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_remove(htc_record_set *set, uint32_t first, uint32_t count);

/**
 * Put every number of another set in: set = set + other.
 *
 * @param[in,out] set    as it was on failure
 * @param[in]     other  borrowed; may be set itself
 * @return HTC_OK; HTC_EINVAL if one is NULL; HTC_ENOMEM
 *
 * Cost: O(largest number of other / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_join(htc_record_set *set, const htc_record_set *other);

/**
 * Take every number of another set out: set = set - other.
 *
 * @param[in,out] set    as it was on failure
 * @param[in]     other  borrowed; may be set itself
 * @return HTC_OK; HTC_EINVAL if one is NULL
 *
 * Cost: O(largest number of both / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_subtract(htc_record_set *set, const htc_record_set *other);

/**
 * Keep only what is in both.
 *
 * @param[in,out] set    as it was on failure
 * @param[in]     other  borrowed; may be set itself
 * @return HTC_OK; HTC_EINVAL if one is NULL
 *
 * Cost: O(largest number of set / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_intersect(htc_record_set *set, const htc_record_set *other);

/**
 * Whether a number is in a set.
 *
 * @param[in] set   borrowed
 * @param[in] node  any number
 * @return 1 or 0; 0 if set is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_record_set_has(const htc_record_set *set, uint32_t node);

/**
 * How many numbers are in a set.
 *
 * @param[in] set  borrowed
 * @return their count; 0 if set is NULL
 *
 * Cost: O(largest number so far / 64).   Since: 0.2
 */
HTC_API uint32_t htc_record_set_count(const htc_record_set *set);

/**
 * Whether two sets hold the same numbers.
 *
 * @param[in] a  borrowed; NULL is an empty set
 * @param[in] b  likewise
 * @return 1 or 0
 *
 * Cost: O(largest number of both / 64).   Since: 0.2
 */
HTC_API int htc_record_set_equal(const htc_record_set *a, const htc_record_set *b);

/**
 * The first run of numbers at or after `from`: how a set is read as ranges.
 *
 *     for (uint32_t first, count, at = 0; htc_record_set_run(set, at, &first, &count) == HTC_OK; at = first + count)
 *
 * @param[in]  set    borrowed
 * @param[in]  from   where to begin; a run that began before is cut off
 * @param[out] first  first number of the run; untouched on failure
 * @param[out] count  its length, at least 1; untouched on failure
 * @return HTC_OK; HTC_ENOTFOUND behind the last run; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O((numbers passed) / 64); all runs of a set O(runs + largest / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_run(const htc_record_set *set, uint32_t from, uint32_t *first, uint32_t *count);

/**
 * A set as bytes, for the entry of a job. Equal sets give equal bytes.
 *
 * @param[in]  env  memory for the result; NULL: malloc
 * @param[in]  set  borrowed
 * @param[out] out  gives the bytes: htc_record_free; at most an eighth of the largest number and 16
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOMEM
 *
 * Cost: O(largest number / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_set_write(const htc_env *env, const htc_record_set *set, htc_bytes *out);

/**
 * A set from bytes; anything may stand in them.
 *
 * @param[in]     bytes  borrowed
 * @param[in,out] set    becomes what was written; as it was on failure
 * @return HTC_OK; HTC_EINVAL if set is NULL; HTC_ECORRUPT if nobody wrote these bytes; HTC_ENOMEM
 *
 * Cost: O(largest number / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_set_read(htc_bytes bytes, htc_record_set *set);

/* ---- Node lists: numbers and names ----------------------------------------------------------------------------------
 */

/**
 * Read a node list from its hostlist text.
 *
 * Names are separated by commas, with blanks and newlines around them if you like. A group in brackets stands for
 * numbers and ranges of them; several groups in a name for all their combinations, the last one running fastest. Zeros
 * in front are kept: "n[08-10]" is n08, n09, n10. The order of the text is the order of the nodes. Names consist of
 * printable ASCII characters other than ',', '[', ']' and the blank.
 *
 * @param[in]  env        kept; NULL: malloc
 * @param[in]  text       borrowed; no NUL at its end is needed; empty: no nodes
 * @param[in]  nodes_max  at most this many; 0: HTC_RECORD_NODES_MAX
 * @param[out] out        gives the list: htc_record_names_destroy
 * @param[out] error      what is wrong, with line and column; may be NULL
 * @return HTC_OK; HTC_EINVAL for a text that is no hostlist, or out NULL; HTC_EEXISTS if a name comes twice;
 * HTC_ETOOBIG if there are too many names, or one is too long; HTC_ENOMEM
 *
 * Cost: O(nodes) expected; at most 16 bytes a node, and 64 and twice the rest of its name for each range whose names do not go on where
 * the one before ends; half a KiB more for the smallest lists.   Since: 0.2
 */
HTC_API htc_status htc_record_names_parse(const htc_env *env, htc_bytes text, uint32_t nodes_max,
                                          htc_record_names **out, htc_error *error);

/**
 * Free a node list.
 *
 * @param[in] names  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_record_names_destroy(htc_record_names *names);

/**
 * How many nodes a list has.
 *
 * @param[in] names  borrowed
 * @return their count; 0 if names is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_record_names_count(const htc_record_names *names);

/**
 * The name of a node.
 *
 * @param[in]  names  borrowed
 * @param[in]  node   its number
 * @param[out] name   HTC_RECORD_NAME_MAX + 1 bytes, caller-allocated; a string; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND if the list ends before this number
 *
 * Cost: O(log ranges).   Since: 0.2
 */
HTC_API htc_status htc_record_names_at(const htc_record_names *names, uint32_t node, char *name);

/**
 * The number of a node.
 *
 * @param[in]  names  borrowed
 * @param[in]  name   borrowed; exactly as in the list, zeros included
 * @param[out] node   its number; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(log ranges) expected.   Since: 0.2
 */
HTC_API htc_status htc_record_names_find(const htc_record_names *names, htc_bytes name, uint32_t *node);

/**
 * The set that a hostlist text names; a node named twice is in it once.
 *
 * @param[in]     names  borrowed
 * @param[in]     text   borrowed; as in htc_record_names_parse, at most HTC_RECORD_NODES_MAX names; empty: no nodes
 * @param[in,out] set    becomes what is named; as it was on failure
 * @param[out]    error  what is wrong, with line and column; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND for a name that is not in the list; HTC_ETOOBIG; HTC_ENOMEM
 *
 * Cost: O(nodes named * log ranges) expected.   Since: 0.2
 */
HTC_API htc_status htc_record_names_set(const htc_record_names *names, htc_bytes text, htc_record_set *set,
                                        htc_error *error);

/**
 * The hostlist text of a set, in the order of the list, as short as its ranges allow; reading it gives the set again.
 *
 * @param[in]  env    memory for the result; NULL: malloc
 * @param[in]  names  borrowed
 * @param[in]  set    borrowed; NULL: all nodes, which is the text to keep under the list's key
 * @param[out] out    gives the text, without a NUL at its end: htc_record_free; untouched on failure
 * @return HTC_OK; HTC_EINVAL if names or out is NULL, or the list ends before a number of the set; HTC_EFULL beyond
 *         64 MiB; HTC_ENOMEM
 *
 * Cost: O(runs + ranges).   Since: 0.2
 */
HTC_API htc_status htc_record_names_text(const htc_env *env, const htc_record_names *names, const htc_record_set *set,
                                         htc_bytes *out);

/* ---- Records ----
 *
 * Those below read the bytes of a record, whoever wrote them, and check all of it. They have in common:
 *   env     memory for scratch, freed before the call returns, and for the result; NULL: malloc
 *   record  borrowed
 *   out     gives the bytes of the next record: htc_record_free; untouched unless HTC_OK is answered
 *   HTC_ECORRUPT  these bytes are no record;  HTC_EVERSION  a later version of this library wrote them
 *   HTC_EINVAL    a pointer is NULL, a number out of range, or a set reaches beyond the partition
 * and cost O(nodes / 64 + bytes): on 65,536 nodes, half of them free in random order, below 20 us. */

/** What to take, and for whom. Zero is the default of every field that has one. */
typedef struct htc_record_ask {
    size_t                size;    /**< sizeof(htc_record_ask) */
    htc_bytes             job;     /**< the job's id, 1 to HTC_RECORD_JOB_MAX bytes; borrowed */
    uint64_t              attempt; /**< of this job, from 1; a job's attempts only grow */
    uint32_t              most;    /**< as many nodes as there are, up to this, at least 1 */
    uint32_t              least;   /**< but none at all if there are fewer; 0: most, all or nothing */
    const htc_record_set *among;   /**< of these only; borrowed; NULL: of all */
} htc_record_ask;

/** An ask with its size set and all else zero. */
#define HTC_RECORD_ASK_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(htc_record_ask), { 0, 0 }, 0, 0, 0, 0                                                                   \
    }

/**
 * HTC_RECORD_ASK_INIT as a function.
 *
 * @param[out] ask  caller-allocated; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_record_ask_init(htc_record_ask *ask);

/** A record in numbers. nodes = free + taken + settled + those that are down and idle. */
typedef struct htc_record_summary {
    uint32_t nodes;   /**< in the partition */
    uint32_t free;    /**< idle and not down: what can be taken */
    uint32_t down;    /**< down, idle or not */
    uint32_t taken;   /**< in takings */
    uint32_t settled; /**< held by jobs whose records name them */
    uint32_t takings; /**< how many takings */
    uint64_t list;    /**< version of the node list that the numbers refer to */
} htc_record_summary;

/** Which nodes of a record. */
typedef enum htc_record_part {
    HTC_RECORD_FREE = 1, /**< idle and not down */
    HTC_RECORD_IDLE,     /**< held by nobody */
    HTC_RECORD_DOWN,     /**< down, idle or not */
    HTC_RECORD_TAKEN,    /**< in takings */
    HTC_RECORD_SETTLED   /**< held by jobs whose records name them */
} htc_record_part;

/** Nodes taken for an attempt of a job and not settled yet. */
typedef struct htc_record_taking {
    htc_bytes job;     /**< the job's id; borrowed from the record's bytes */
    uint64_t  attempt; /**< of this job */
    uint32_t  nodes;   /**< how many, at least 1 */
} htc_record_taking;

/** What the record of a job says of it. */
typedef enum htc_record_job {
    HTC_RECORD_JOB_GONE = 0,  /**< there is no record */
    HTC_RECORD_JOB_WAITING,   /**< its attempt is looking for nodes */
    HTC_RECORD_JOB_COMMITTED, /**< its attempt holds the nodes that its entries name */
    HTC_RECORD_JOB_ENDED      /**< its attempt was committed and is over */
} htc_record_job;

/** What a sweeper is to do about a taking. */
typedef enum htc_record_verdict {
    HTC_RECORD_WAIT = 1, /**< its controller is at work, or slow: leave it, or raise the job's attempt */
    HTC_RECORD_SETTLE,   /**< committed: htc_record_settle */
    HTC_RECORD_RELEASE,  /**< an orphan: htc_record_release, whatever entry there may be */
    HTC_RECORD_GO_BACK   /**< the job has ended: go its way back */
} htc_record_verdict;

/**
 * The record of a partition whose nodes are all free.
 *
 * @param[in]  env    see above
 * @param[in]  nodes  1 to HTC_RECORD_NODES_MAX
 * @param[in]  list   version of the node list, as the store counts it; what it means is up to you
 * @param[out] out    see above
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(nodes / 64).   Since: 0.2
 */
HTC_API htc_status htc_record_create(const htc_env *env, uint32_t nodes, uint64_t list, htc_bytes *out);

/**
 * Take free nodes for a job, lowest numbers first: from free to a taking. What this attempt took before and has not
 * settled is added to.
 *
 * @param[in]     env     see above
 * @param[in]     record  see above
 * @param[in]     ask     borrowed
 * @param[out]    out     see above
 * @param[in,out] got     becomes the nodes taken by this call; as it was unless HTC_OK is answered; NULL: not asked for
 * @return HTC_OK; HTC_AGAIN if there are fewer than ask->least; HTC_MISMATCH if a later attempt of this job has taken
 *         nodes here, so that this one is over; HTC_EFULL if the record has HTC_RECORD_TAKINGS_MAX takings; HTC_EABI;
 *         HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_take(const htc_env *env, htc_bytes record, const htc_record_ask *ask, htc_bytes *out,
                                   htc_record_set *got);

/**
 * Strike a taking off: the job is committed to its nodes, and its entry names them.
 *
 * @param[in]  env      see above
 * @param[in]  record   see above
 * @param[in]  job      the job's id; borrowed
 * @param[in]  attempt  of this job
 * @param[out] out      see above
 * @return HTC_OK; HTC_ENOTFOUND if there is no such taking (a sweeper was faster); HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION;
 *         HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_settle(const htc_env *env, htc_bytes record, htc_bytes job, uint64_t attempt,
                                     htc_bytes *out);

/**
 * Strike a taking off and make its nodes idle: the job gives up, or the sweeper found an orphan.
 *
 * @param[in]     env      see above
 * @param[in]     record   see above
 * @param[in]     job      the job's id; borrowed
 * @param[in]     attempt  of this job
 * @param[out]    out      see above
 * @param[in,out] got      becomes the nodes that were given back; as it was on failure; NULL: not asked for
 * @return HTC_OK; HTC_ENOTFOUND if there is no such taking; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_release(const htc_env *env, htc_bytes record, htc_bytes job, uint64_t attempt,
                                      htc_bytes *out, htc_record_set *got);

/**
 * Make settled nodes idle, in one step. Whoever may have to repeat this after a crash uses htc_record_unsettle and
 * htc_record_release instead, or a node might be given back under the next job.
 *
 * @param[in]  env     see above
 * @param[in]  record  see above
 * @param[in]  set     the nodes; borrowed; empty is fine
 * @param[out] out     see above
 * @return HTC_OK; HTC_MISMATCH if one of them is not settled (idle, or in a taking): nothing is given back;
 *         HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_give(const htc_env *env, htc_bytes record, const htc_record_set *set, htc_bytes *out);

/**
 * Make settled nodes a taking again, the first step of a release that survives a crash at any point.
 *
 * @param[in]  env      see above
 * @param[in]  record   see above
 * @param[in]  job      the job's id; borrowed
 * @param[in]  attempt  of this job
 * @param[in]  set      the nodes, at least one; borrowed
 * @param[out] out      see above; the same bytes as record if this very taking is there already
 * @return HTC_OK; HTC_MISMATCH if one of the nodes is not settled, or this attempt has another taking, or a later one
 * has any; HTC_EFULL if the record has HTC_RECORD_TAKINGS_MAX takings; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION;
 * HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_unsettle(const htc_env *env, htc_bytes record, htc_bytes job, uint64_t attempt,
                                       const htc_record_set *set, htc_bytes *out);

/**
 * Nodes that died, or are to be left alone: nobody takes them. Whoever holds them holds them still, and may give them
 * back.
 *
 * @param[in]  env     see above
 * @param[in]  record  see above
 * @param[in]  set     the nodes; borrowed; those that are down already do not matter
 * @param[out] out     see above
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_down(const htc_env *env, htc_bytes record, const htc_record_set *set, htc_bytes *out);

/**
 * Nodes that returned: the idle ones among them are free again.
 *
 * @param[in]  env     see above
 * @param[in]  record  see above
 * @param[in]  set     the nodes; borrowed; those that are not down do not matter
 * @param[out] out     see above
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_up(const htc_env *env, htc_bytes record, const htc_record_set *set, htc_bytes *out);

/**
 * A longer node list: the new nodes, at its end, are free. A list never gets shorter and keeps its order; nodes that
 * left for good are down.
 *
 * @param[in]  env     see above
 * @param[in]  record  see above
 * @param[in]  nodes   at least as many as now, at most HTC_RECORD_NODES_MAX
 * @param[in]  list    version of the list
 * @param[out] out     see above
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_grow(const htc_env *env, htc_bytes record, uint32_t nodes, uint64_t list, htc_bytes *out);

/**
 * Count what is in a record.
 *
 * @param[in]  env      scratch memory; NULL: malloc
 * @param[in]  record   see above
 * @param[out] summary  caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_count(const htc_env *env, htc_bytes record, htc_record_summary *summary);

/**
 * Some nodes of a record.
 *
 * @param[in]     env     scratch memory; NULL: malloc
 * @param[in]     record  see above
 * @param[in]     part    htc_record_part
 * @param[in,out] set     becomes these nodes; as it was on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_nodes(const htc_env *env, htc_bytes record, uint32_t part, htc_record_set *set);

/**
 * The i-th taking of a record, in the order of job and attempt: what a sweeper goes through.
 *
 * @param[in]     env     scratch memory; NULL: malloc
 * @param[in]     record  see above
 * @param[in]     i       from 0
 * @param[out]    taking  caller-allocated; lends the job's id as long as the record's bytes live; untouched on failure
 * @param[in,out] set     becomes its nodes; as it was on failure; NULL: not asked for
 * @return HTC_OK; HTC_ENOTFOUND behind the last; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_ENOMEM
 *
 * Cost: O(nodes / 64 + bytes).   Since: 0.2
 */
HTC_API htc_status htc_record_taking_at(const htc_env *env, htc_bytes record, uint32_t i, htc_record_taking *taking,
                                        htc_record_set *set);

/**
 * Tell an orphan from a slow controller. Read the job's record after the partition's.
 *
 * @param[in] attempt      of the taking
 * @param[in] job_attempt  the attempt that the job's record says; of no meaning if the job is gone
 * @param[in] job          htc_record_job; anything else is taken for waiting
 * @return htc_record_verdict: release if the job is gone or at a later attempt; else what the state of the job asks for;
 *         wait if the job is at an earlier attempt, which is an old answer
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_record_judge(uint64_t attempt, uint64_t job_attempt, uint32_t job);

#ifdef __cplusplus
}
#endif
#endif
