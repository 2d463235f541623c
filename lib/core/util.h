/* Memory and log lines through the env: what every layer above uses instead of malloc and printf. */
#ifndef HTC_CORE_UTIL_H
#define HTC_CORE_UTIL_H

#include "htcsched/machine.h"

/* Zeroed memory; NULL when refused. env or env->alloc NULL: malloc. */
void *htc__alloc(const htc_env *env, size_t size);
/* As it comes, not zeroed. */
void *htc__alloc_raw(const htc_env *env, size_t size);
/* Like realloc, sizes in bytes; new bytes are zero. NULL: the old memory is as it was. */
void *htc__resize(const htc_env *env, void *p, size_t old_size, size_t new_size);
/* The same, but that new bytes are as they come. */
void *htc__resize_raw(const htc_env *env, void *p, size_t old_size, size_t new_size);
void  htc__free(const htc_env *env, void *p, size_t size);
char *htc__strdup(const htc_env *env, const char *s);
void  htc__strfree(const htc_env *env, char *s);

void htc__log(const htc_env *env, uint32_t level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, with the values that it is about: HTC__FIELDS(HTC__NUMBER("peer", peer), HTC__TEXT("why", text)). */
void htc__log_with(const htc_env *env, uint32_t level, const htc_log_field *field, size_t n, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define HTC__NUMBER(name, value) { (name), NULL, (uint64_t)(value), 0 }
#define HTC__ID(name, value)     { (name), NULL, (value), 1 }
#define HTC__TEXT(name, value)   { (name), (value), 0, 0 }
#define HTC__STATUS(value)       HTC__TEXT("status", htc_status_name(value))
#define HTC__FIELDS(...)                                                                                                \
    (const htc_log_field[]){ __VA_ARGS__ }, sizeof((const htc_log_field[]){ __VA_ARGS__ }) / sizeof(htc_log_field)

/* Fill e (NULL is fine) and answer status. text is printf. */
htc_status htc__error(htc_error *e, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Length of the UTF-8 character at p, of which at most n bytes are to be read; 0: there is none. */
size_t htc__utf8_len(const char *p, size_t n);
/* Make text one line of whole UTF-8 characters, in place: what cannot be is '?', a character cut off at the end goes. For what
 * other programs say, before it stands in a message or a record. */
void htc__text_clean(char *text);
/* text, whole if out has the room for it and the zero (8 bytes at least), else with "..." in the place of its middle: of a path both ends tell. Gives out. */
const char *htc__text_fit(const char *text, char *out, size_t room);

/* "1 task waits", "2 tasks wait": what the noun has at its end, and what the verb. */
static inline const char *htc__plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
static inline const char *htc__verb(uint64_t n)
{
    return n == 1 ? "s" : "";
}
static inline const char *htc__are(uint64_t n)
{
    return n == 1 ? "is" : "are";
}

/* Check a caller's options struct against what this library knows: size 0 or below min is HTC_EINVAL, a longer one
 * with unknown bytes that are not zero HTC_EABI. Copies the known part over out, which holds the defaults' zeros. */
htc_status htc__options_copy(void *out, size_t known, const void *in, size_t size, size_t min);
/* The same for element i of a caller's array, whose stride is the size that its first element names: HTC_EINVAL also if this one names
 * another. */
htc_status htc__options_at(void *out, size_t known, const void *array, size_t i, size_t min);
/* Hand over what is known in a struct that begins with its size, as far as the caller's reaches: that size stays, what is beyond is zero. HTC_EINVAL: it has
 * none, or less than min. */
htc_status htc__options_give(void *out, const void *known, size_t known_size, size_t min);
/* Fill in a caller's options struct, of which every field's zero is the default: its size, then zeros. Never more than size bytes, which is
 * how large the struct was when the caller was built. */
void htc__options_init(void *options, size_t size);

/* Is this a tape of this version? HTC_OK, HTC_EINVAL, HTC_EABI. */
htc_status htc__tape_check(const htc_tape *tape);
/* Move an array of n elements, of which there are at most so many, and how many they are. Read, it has room for exactly these: what it is then is
 * answered; memory grows with what the tape has, whatever number it says. On failure (*status) it may have other contents and another n. */
void *htc__tape_array(const htc_tape *tape, const htc_env *env, void *array, size_t *n, size_t each, size_t most, htc_status *status);

/* The input as this library knows it: the driver's own where it has that size, else a copy of it in *room. NULL: it has no size or lacks a field
 * that the first release had (*status HTC_EINVAL), or has one set that this library does not know (HTC_EABI). */
const htc_input *htc__input_known(const htc_input *in, htc_input *room, htc_status *status);

#endif
