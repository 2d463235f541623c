/* The file of one object, on a worker thread. */
#ifndef HTC_NET_EXEC_OBJECTS_FILE_H
#define HTC_NET_EXEC_OBJECTS_FILE_H

#include <sodium.h>
#include <stdint.h>

#include "htcsched/bytes.h"
#include "htcsched/codec.h"
#include "net/exec/outputs_at.h"
#include "roles/runtime/agent_wire.h"

/* Where all of them lie. */
typedef struct htc__objects_place {
    int dir;  /* this user's, for reading */
    int data; /* below it: outputs; O_PATH */
    htc__outputs_at *outputs_at; /* outputs that are not below data are there; NULL */
    int durable;
    int gives; /* what lies in data/given/USER are second names of what lies here */
} htc__objects_place;

/* One that is being written. */
typedef struct htc__object_part {
    int                      fd; /* -1: it is not open */
    uint64_t                 size, at; /* of the whole; bytes that are written, and hashed */
    crypto_generichash_state hash;
} htc__object_part;

int        htc__object_fd(const htc__objects_place *p, const uint8_t hash[32]); /* -1 and errno */
htc_status htc__object_room(const htc__objects_place *p, htc__object_part *part, const uint8_t hash[32], uint64_t size);
/* At part->at. */
htc_status htc__object_append(htc__object_part *part, htc_bytes bytes);
/* content: the hash that it has to have. */
htc_status htc__object_finish(const htc__objects_place *p, htc__object_part *part, const uint8_t hash[32], const uint8_t content[32]);
void       htc__object_part_close(htc__object_part *part);
/* The prefix, hash, offset, size and the bytes, into answer. */
htc_status htc__object_piece(const htc__objects_place *p, const uint8_t hash[32], uint64_t offset, uint32_t len, htc_bytes prefix, htc_buf *answer);
htc_status htc__object_adopt(const htc__objects_place *p, const uint8_t hash[32], uint64_t size, const htc_attempt *attempt, const char *name);
/* Its hash and size, as the manifest says. */
htc_status htc__object_output(const htc__objects_place *p, const htc_attempt *attempt, const char *name, htc_buf *answer);
/* All of it, as bytes, if it is not longer. HTC_ENOTFOUND, HTC_ETOOBIG. */
htc_status htc__object_output_read(const htc__objects_place *p, const htc_attempt *attempt, const char *name, uint32_t most, htc_buf *answer);
/* A second name of it for that user: the content's hash. */
htc_status htc__object_give(const htc__objects_place *p, const uint8_t hash[32], const uint8_t content[32], const char *user);
/* Every name that was given. */
void       htc__object_take_back(const htc__objects_place *p);
/* With every name that was given it. */
void       htc__object_drop(const htc__objects_place *p, const uint8_t hash[32], const uint8_t content[32]);
htc_status htc__object_list(const htc__objects_place *p, htc_buf *answer);

#endif
