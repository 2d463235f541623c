/* The grammar of hostlist texts.
 *
 *     list  = [ name *( "," name ) ]            blanks and newlines around a name do not count
 *     name  = 1*( characters | group )          at most HTC_RECORD_GROUPS_MAX groups
 *     group = "[" range *( "," range ) "]"
 *     range = number [ "-" number ]             a zero in front: as many digits as written, for all of the range
 *
 * A name without a group is taken apart at its last number, so that "n1,n2" is as good as "n[1-2]". */
#ifndef HTC_SCHED_RECORD_TEXT_H
#define HTC_SCHED_RECORD_TEXT_H

#include "htcsched/record.h"

#define HTC__HOSTLIST_DIGITS_MAX 18

/* Names that differ in one number: prefix, the number with zeros in front up to `width` digits, suffix. */
typedef struct htc__hosts {
    const char *prefix, *suffix;
    size_t      prefix_len, suffix_len;
    uint64_t    first, last;
    uint32_t    width; /* 1: no zeros in front; 0: no number, prefix is all of the one name */
} htc__hosts;

/* Digits of number with at least width of them; how many they are. At most HTC__HOSTLIST_DIGITS_MAX. */
size_t htc__hosts_digits(uint64_t number, uint32_t width, char *out);
/* Write the name with this number, without an end, at most HTC_RECORD_NAME_MAX bytes; its length. */
size_t htc__hosts_name(const htc__hosts *hosts, uint64_t number, char *out);

/* Call found for the names of a text in their order, until it fails; no more than max names in all. A status of found's
 * own is answered with its sentence, which is "NAME" and what it left in *why. */
typedef htc_status htc__hosts_found(void *ctx, const htc__hosts *hosts, const char **why, char *name);
htc_status htc__hostlist_walk(htc_bytes text, uint64_t max, htc__hosts_found *found, void *ctx, htc_error *error);

#endif
