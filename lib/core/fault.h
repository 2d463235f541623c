/* Faults inside the code itself, in simulation only.
 *
 *     if (HTC__FAULT(env, batch_half_full))       rare by nature, common in a run that has drawn it
 *         return HTC_AGAIN;
 *     if (message->ballot < cell->promise && !HTC__BROKEN(promise_unchecked))   a mistake that the tests have to find
 *         return refuse(...);
 *
 * Both are the constant 0 unless the library is built with -Dfaults=true, so that the optimiser removes them and what they guard;
 * tests/checks/faults.sh proves that nothing of them is in an ordinary build. A site of HTC__FAULT is enabled or not once a
 * run and, enabled, is true one time in four: both as htc_env.fault says (the simulator's says it by the seed). HTC__BROKEN is
 * true where a test has switched it on with htc__broken_set, for the whole process; a test may build its own copy of the files it
 * looks at with HTC_FAULTS, and leave the rest as it is. */
#ifndef HTC_CORE_FAULT_H
#define HTC_CORE_FAULT_H

#include "htcsched/env.h"

/* What can be broken on purpose, and by which mistake. */
#define HTC__BROKEN_TABLE(X)                                                                                           \
    X(promise_unchecked)     /* an acceptor accepts below its promise */                                               \
    X(ballot_reused)         /* a proposer begins again with a ballot it has used */                                   \
    X(read_not_written_back) /* a read answers what only some have accepted */                                         \
    X(wiped_same_name)       /* a member with an empty disk keeps its id */                                            \
    X(sequence_forgotten)    /* a repeated change is executed again */                                                 \
    X(ack_before_sync)       /* an answer leaves before what it rests on is durable */                                 \
    X(unsealed_read)         /* a bucket answers while it is being handed over */                                      \
    X(images_mixed)          /* two copies of a bucket are taken for one */                                            \
    X(floor_not_raised)      /* a tombstone is collected without its floor */                                          \
    X(tag_reused)            /* a member's requests are numbered anew in each life */                                  \
    X(old_term_accepted)     /* the end of a lease that was renewed takes effect */                                    \
    X(context_ignored)       /* a put of an eventual key replaces what its client has not seen */                      \
    X(repair_drops_siblings) /* what a read mends loses values that stood beside another */                            \
    X(sibling_unmerged)      /* of the values of one member's line a merge keeps the newest alone */                   \
    X(dot_reused)            /* an eventual put is told to other owners before it is stored: a crash, and its number comes again */ \
    X(hint_unconfirmed)      /* a hint is forgotten when it was sent */                                                \
    X(version_not_lowered)   /* a welcome says the highest version, whatever the caller speaks */                      \
    X(proxy_restamps)        /* a proxy passes requests on under numbers of its own */                                 \
    X(copy_unread)           /* a log is refused if one of its superblocks cannot be read */                           \
    X(rotten_taken_for_new)  /* a log without a superblock that can be read is taken for an empty one */               \
    X(lost_change_resent)    /* a change that another store may have made is asked of it again */                      \
    X(lost_is_late)          /* an owner that has lost what it remembers of a bucket copies it from one that serves it */ \
    X(lost_counted)          /* an owner that has lost what it held counts as one that held nothing */                 \
    X(mark_lost)             /* a key that changes while it is read for a watcher is not marked again */               \
    X(state_told_twice)      /* a watcher is told what it was told before */                                           \
    X(over_before_page)      /* that a watch starts over is told before its page, and is not told again if that is lost */ \
    X(mark_not_needed)       /* a watcher is told what was read, whatever an owner has marked */                       \
    X(mark_unrepeated)       /* an owner forgets a mark when it has said it once */                                    \
    X(marked_by_one)         /* of the owners of a key that has changed the one that proposed the change marks it alone */ \
    X(held_unmarked)         /* what an owner holds of a key when it hears of a watch is not marked */                 \
    X(image_unmarked)        /* nor what arrives with a bucket, or is copied */                                        \
    X(stream_kept)           /* an owner that has started anew is taken for one that knows what is watched */          \
    X(page_unsettled)        /* keys on which the lists of a watch differ are not settled */                                       \
    X(page_not_anew)         /* a prefix does not start over for an owner that hears of it late */                       \
    X(image_of_one)          /* of eventual keys the image of a bucket is what one of its old owners holds */           \
    X(mended_by_few)         /* of a damaged eventual record one other owner's word is enough, whatever W is */        \
    X(unmerged_dropped)      /* an owner that keeps a bucket no more drops its eventual keys, whoever has them */        \
    X(left_to_few)           /* it drops them when those owners have them that are heard, be they fewer than W */     \
    X(note_taken_back)       /* tasks on their way to a ledger whose owner is dead go back to who gave them */        \
    X(clear_before_accept)   /* a note is cleared when it was told */                                                 \
    X(forget_before_clear)   /* that a note was accepted is forgotten before it was cleared */                        \
    X(note_read_early)       /* a note is accepted as it was read before the ledger's version was known */            \
    X(note_number_reused)    /* the number of a cleared note is given again */                                        \
    X(ledger_unversioned)    /* a ledger is written whatever its version is */                                        \
    X(log_rewritten)         /* a block of a log also says what is not counted yet, and is written again when it is something else */ \
    X(ledger_each_life)      /* a worker makes a ledger of its own, whatever is nobody's */                            \
    X(header_last)           /* the header of a flow that is submitted is written when all its records are */            \
    X(end_when_empty)        /* a flow has ended when each of its ledgers was seen without tasks */                  \
    X(parents_counted)       /* a task of a graph counts its parents, whoever tells it */                             \
    X(bad_bit_ignored)       /* a task whose parent has failed is not cancelled by that */                            \
    X(counted_before_told)   /* a task is counted before its children know that it has ended */                       \
    X(task_unversioned)      /* how a task ended is written whatever its record's version is */ \
    X(intake_unversioned)    /* a client adds tasks to an open flow whatever the intake's version */ \
    X(intake_unread)         /* a client whose addition was not answered adds it once more, without a look */ \
    X(drawn_unread)          /* a task draws numbers for what it adds without a look whether it has */ \
    X(counted_before_created) /* a task is counted before what it adds is all there */ \
    X(note_unversioned)       /* what numbers added tasks have is noted whatever the version of the record is */         \
    X(record_deleted)         /* the record of an added task is deleted when the task is counted */                      \
    X(redo_unclaimed)        /* what is lost is made again by each who misses it */ \
    X(claim_without_epoch)   /* a claim holds as long as a worker of that number lives */ \
    X(claim_kept)            /* who needs a thing no more keeps its claim to make it */ \
    X(worker_connection_kept) /* an agent's next worker of a flow has the connection to the store of the one before */      \
    X(worker_runs_left)       /* a worker stops and leaves what it runs to nobody */                                    \
    X(object_sources_mixed)  /* after a wrong hash an object is asked of several again */                              \
    X(object_part_blamed)    /* for a part of a life before its source is blamed */                                    \
    X(object_unlisted_denied) /* a worker says that it has not what its disk may have */                               \
    X(object_from_anybody)   /* a piece is taken from whoever sends it */                                              \
    X(limits_ignored)        /* no job has to leave a queue of a hierarchy, whatever its limits */                    \
    X(weights_ignored)       /* slots are divided as if all users had the same weight */                               \
    X(late_nodes_kept)       /* nodes that are granted to an environment after its end are kept */                     \
    X(release_untold)        /* the provider is not told of nodes that go back */                                      \
    X(answer_unawaited)      /* an environment looks at its leases before it is answered at the same moment */         \
    X(recall_ignored)        /* a grid counts the CPU of a task that is recalled as free, and the task runs on */      \
    X(recall_unanswered)     /* a grid does not say that it has stopped a task that was recalled */                    \
    X(late_result_taken)     /* the result of a task that was recalled counts as if its job had not moved */           \
    X(swap_unseen)           /* a controller writes a partition's record without comparing */                          \
    X(part_not_given)        /* a job that has ended gives back its nodes of one partition alone */                    \
    X(after_granted)         /* who waits for a job goes on when its last task is granted */                           \
    X(after_linked_late)     /* a job waits for others from when it is stored, and not from when they are looked at */  \
    X(gateway_writes_blind)  /* a gateway writes and deletes whatever the version of a record is */                     \
    X(gateway_unconfirmed)   /* what a gateway says leaves before it is confirmed that it is still the active one */    \
    X(gateway_destroys_early) /* a removal begins to delete before it is confirmed that its record was in time */       \
    X(gateway_usage_unsealed) /* nor what was used, projects and quotas */                                            \
    X(gateway_forgets_unknown) /* that a write had no known outcome is forgotten */                                   \
    X(gateway_forgets_early) /* what an attempt has is forgotten before its chunk says that it has ended */           \
    X(gateway_unsealed)      /* a gateway that becomes active does not write anew what it goes on from */               \
    X(after_not_looked)      /* a gateway that starts does not look whether what a job waits for has ended meanwhile */

#define HTC__BROKEN_ENUM(name) HTC__BROKEN_##name,
typedef enum htc__broken { HTC__BROKEN_NOTHING, HTC__BROKEN_TABLE(HTC__BROKEN_ENUM) HTC__BROKEN_COUNT } htc__broken;
#undef HTC__BROKEN_ENUM

#ifdef HTC_FAULTS
#define HTC__FAULT(env, name) htc__fault((env), #name)
#define HTC__BROKEN(name)     htc__broken_is(HTC__BROKEN_##name)
int  htc__fault(const htc_env *env, const char *name);
int  htc__broken_is(htc__broken what);
/* HTC__BROKEN_NOTHING is switched on in vain: nothing looks at it. */
void htc__broken_set(htc__broken what, int on);
/* The number of a name, for a test's command line; HTC__BROKEN_NOTHING: there is none. */
htc__broken htc__broken_find(const char *name);
#else
#define HTC__FAULT(env, name) (0 * (int)sizeof(env))
#define HTC__BROKEN(name)     (0 * (int)HTC__BROKEN_##name)
#endif

#endif
