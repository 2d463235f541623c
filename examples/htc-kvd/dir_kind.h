/* Whose a directory is: a store that begins in another one's place would hide it. */
#ifndef HTC_EXAMPLES_DIR_KIND_H
#define HTC_EXAMPLES_DIR_KIND_H

typedef enum dir_kind {
    DIR_FREE = 1,
    DIR_STATE,  /* a state directory: of htc up, or of an htc-kvd */
    DIR_CLUSTER /* of htc kv cluster, whose members have state directories in it */
} dir_kind;

dir_kind dir_kind_of(const char *dir);
/* Builds before this one put both into one directory: who has that already may start each of them. */
int dir_is_cluster_alone(const char *dir);

#endif
