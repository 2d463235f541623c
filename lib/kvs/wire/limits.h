/* Bounds of a store that its messages, its map and its clients share. */
#ifndef HTC_KVS_LIMITS_H
#define HTC_KVS_LIMITS_H

#define HTC__KV_MAP_MEMBERS 1024
#define HTC__KV_MAP_ADDRESS 256 /* bytes of one, its zero among them */
#define HTC__KV_MAP_BITS    16  /* 2^bits buckets */

#endif
