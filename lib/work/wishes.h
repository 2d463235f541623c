/* The element Submission: what a document says of its job beside its tasks. */
#ifndef HTC_WORK_WISHES_H
#define HTC_WORK_WISHES_H

#include "work/xml_private.h"

#define HTC__TIME_TEXT_MAX 32

/* The wishes of a Submission that the schema has accepted. *list and *count are set on failure too: htc__wishes_free. HTC_ESCHEMA, HTC_ETOOBIG,
 * HTC_EUNSUPPORTED with the element, HTC_ENOMEM. */
htc_status htc__wishes_read(const htc_env *env, const xmlNode *submission, htc_wish **list, size_t *count, htc_error *error);
/* The element of them, nothing of none. HTC_EINVAL: a name that is not known; HTC_EUSAGE: a value that no document can carry. */
htc_status htc__wishes_write(htc_buf *b, const htc_wish *list, size_t count, htc_error *error);

/* xsd:dateTime with a zone, from 1970 on; 0: it is none. Parts of a second are left out. */
int  htc__time_from_text(const char *text, uint64_t *seconds);
/* As UTC; up to the year 9999. */
void htc__time_to_text(uint64_t seconds, char out[HTC__TIME_TEXT_MAX]);

#endif
