/* An experiment of a key-value store: its options, one run of it. */
#ifndef HTC_SIM_STUDY_KVS_H
#define HTC_SIM_STUDY_KVS_H

#include "htcsched/sim_kvs.h"
#include "model.h"

typedef struct kvs_study {
    htc_sim_kvs_options options;
    htc_sim_kvs_report  report;
    double             *weights;       /* of the keys, or NULL */
    int                 exactly;       /* 1: real members and clients in the exact engine */
    uint64_t            data, member;  /* bytes of all records, and of what is known of one member */
    double              seconds;       /* that the run took here */
} kvs_study;

/* kvs_say.c */
void   kvs_say(const void *run, int json);
int    kvs_plot(const void *run, const char *folder, const char *suffix);
/* Bytes at each server: of records, and of what it knows of the others. */
double kvs_data_bytes(const kvs_study *k);
double kvs_members_bytes(const kvs_study *k);

#endif
