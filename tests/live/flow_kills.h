/* The processes of the endurance test of flows: workers, and the members of their store. They are started, killed, stopped and brought back. */
#ifndef HTC_TESTS_FLOW_KILLS_H
#define HTC_TESTS_FLOW_KILLS_H

#include <sys/types.h>

#include "htcsched/store.h"
#include "htcsched/worker.h"

#define WORKERS 8
#define SLOTS   2
#define MEMBERS 3
#define TO_BOTTOM 4 /* lines of each log that are shown */

typedef enum victim_state { VICTIM_RUNS, VICTIM_STOPPED, VICTIM_DEAD, VICTIM_ENDED } victim_state;

typedef struct victim {
    pid_t        pid;
    victim_state state;
    htc_ns       back_at; /* of one that is stopped or dead */
} victim;

/* What has been done to them, and what they have done. */
typedef struct kills {
    uint64_t           workers_killed, workers_stopped, objects_deleted, members_killed, members_stopped, lives, lost;
    htc_worker_figures figures; /* of those that are gone, as of shortly before */
} kills;

extern char        top[200];
extern const char *programs;
extern uint64_t    flow_id; /* workers that are started work at this one */
extern victim      workers[WORKERS], members[MEMBERS];
extern kills       count;

void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

void processes_open(void);
void start_worker(uint32_t i);
void start_member(uint32_t i);
void strike(victim *v, int signal, htc_ns back_at);
void bring_back(htc_ns now);  /* those whose time has come */
int  reap(void);              /* 1: some worker has found that the flow has ended */
void all_go_on(void);         /* whoever is stopped; and members that are dead are started. Dead workers stay so */
void delete_objects(uint32_t i);
void store_address(char *out, size_t room);
void end_members(void);       /* as they are asked to */
void tidy_slots(void);        /* what killed workers left is ended and removed, and nothing else is there */
void show_logs(void);

#endif
