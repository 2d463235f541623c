/* What a document says of its job beside its tasks: the element Submission of our own namespace, at the end of JobDescription. Each of its elements is
 * a member of the same meaning in a request to submit (doc/api.md), as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/script.h"
#include "work/command_private.h"
#include "work/wishes.h"

#define TIME_MAX   253402300799u /* the last second of the year 9999 */
#define WISHES_MAX 64u /* of one document: a job waits for at most 32 others */

typedef enum wish_kind { WISH_TEXT, WISH_NUMBER, WISH_TIME, WISH_TRUTH, WISH_JOB, WISH_ARRAY, WISH_SIGNAL, WISH_WORD } wish_kind;

/* In the order in which they stand. */
static const struct {
    const char *element, *name;
    wish_kind   kind;
    const char *words; /* WISH_WORD: those that it may be */
} known[] = {
    { "Array", "array", WISH_ARRAY, NULL },
    { "Retries", "retries", WISH_NUMBER, NULL },
    { "Priority", "priority", WISH_NUMBER, NULL },
    { "MaxRunning", "max_running", WISH_NUMBER, NULL },
    { "Begin", "begin", WISH_TIME, NULL },
    { "Signal", "signal", WISH_SIGNAL, NULL },
    { "Hold", "paused", WISH_TRUTH, NULL },
    { "After", "after", WISH_JOB, "ok any failed" },
    { "Output", "output", WISH_TEXT, NULL },
    { "Error", "error_output", WISH_TEXT, NULL },
    { "Compat", "compat", WISH_WORD, "slurm sge" },
    { "OnEnd", "on_end", WISH_TEXT, NULL },
    { "MailTo", "mail_to", WISH_TEXT, NULL },
    { "MailOn", "mail_on", WISH_WORD, "end fail none" },
};

#define N_KNOWN (sizeof known / sizeof known[0])

static int is_word_of(const char *list, htc_bytes word)
{
    for (const char *p = list; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == word.len && memcmp(p, word.data, n) == 0)
            return 1;
        p += n;
    }
    return 0;
}

/* ---- times: xsd:dateTime with a zone, and seconds since 1970 ---- */

/* Days since 1970-01-01 of a day of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* n digits at *p, and the character behind them; 0: something else is there. */
static int digits(const char **p, size_t n, char behind, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        char c = **p;
        if (c < '0' || c > '9')
            return 0;
        *out = *out * 10 + (c - '0');
        (*p)++;
    }
    if (behind && **p != behind)
        return 0;
    *p += behind != 0;
    return 1;
}

static int zone_of(const char *p, int64_t *seconds)
{
    int64_t h, m;
    int     west = *p == '-';
    *seconds = 0;
    if (strcmp(p, "Z") == 0)
        return 1;
    if (*p != '+' && *p != '-')
        return 0;
    p++;
    if (!digits(&p, 2, ':', &h) || !digits(&p, 2, 0, &m) || *p || h > 14 || m > 59)
        return 0;
    *seconds = (west ? -1 : 1) * (h * 3600 + m * 60);
    return 1;
}

int htc__time_from_text(const char *text, uint64_t *out)
{
    static const int64_t lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const char          *p = text;
    int64_t              year, month, day, h, m, s, zone;
    if (!digits(&p, 4, '-', &year) || !digits(&p, 2, '-', &month) || !digits(&p, 2, 'T', &day) || !digits(&p, 2, ':', &h) || !digits(&p, 2, ':', &m) ||
        !digits(&p, 2, 0, &s))
        return 0;
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (*p == '.') /* what is below a second does not count */
        p += 1 + strspn(p + 1, "0123456789");
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > lengths[month - 1] - (month == 2 && !leap) || h > 23 || m > 59 || s > 59 || !zone_of(p, &zone))
        return 0;
    int64_t at = days_of(year, month, day) * 86400 + h * 3600 + m * 60 + s - zone;
    *out = at < 0 ? 0 : (uint64_t)at;
    return *out <= TIME_MAX;
}

void htc__time_to_text(uint64_t seconds, char out[HTC__TIME_TEXT_MAX])
{
    int64_t days = (int64_t)(seconds / 86400) + 719468, rest = (int64_t)(seconds % 86400);
    int64_t era = days / 146097, of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365, of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t part = (5 * of_year + 2) / 153, month = part < 10 ? part + 3 : part - 9;
    snprintf(out, HTC__TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)((year + era * 400 + (month <= 2)) % 10000), (int)month, (int)(of_year - (153 * part + 2) / 5 + 1),
             (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
}

/* ---- from a document ---- */

static htc_status wrong(htc_error *error, const xmlNode *n, const char *text, const char *what)
{
    return htc__xml_refuse(error, HTC_ESCHEMA, n, "%s of %s is not %s", htc__quote(htc_bytes_of(text)).text, htc__xml_name(n), what);
}

/* Its value as a request has it: in place, or in made. */
static htc_status value_of(const xmlNode *n, wish_kind kind, const char *words, const char *text, char made[64], htc_error *error)
{
    htc_array a = { .size = sizeof a };
    uint32_t  number, seconds;
    uint64_t  at;
    xmlChar  *when;
    int       fine;
    made[0] = '\0';
    switch (kind) {
    case WISH_TIME:
        if (!htc__time_from_text(text, &at))
            return wrong(error, n, text, "a time with its zone, 2026-12-01T08:00:00Z");
        snprintf(made, 64, "%" PRIu64, at);
        return HTC_OK;
    case WISH_TRUTH:
        snprintf(made, 64, "%s", text[0] == 't' || text[0] == '1' ? "true" : "false");
        return HTC_OK;
    case WISH_JOB:
        when = htc__xml_attribute(n, NULL, "when");
        fine = strlen(text) <= 18 && (!when || is_word_of(words, htc_bytes_of((const char *)when)));
        snprintf(made, 64, "%s:%s", text, when ? (const char *)when : "ok");
        xmlFree(when);
        return fine ? HTC_OK : wrong(error, n, made, "a job, with when=\"ok\", \"any\" or \"failed\"");
    case WISH_ARRAY:
        return htc_array_parse(text, &a, NULL) == HTC_OK ? HTC_OK : wrong(error, n, text, "an array, 1-100:2%5");
    case WISH_SIGNAL:
        return htc_signal_parse(text, &number, &seconds) == HTC_OK ? HTC_OK : wrong(error, n, text, "a signal and how many seconds it is ahead of the limit, USR1@60");
    case WISH_WORD:
        return is_word_of(words, htc_bytes_of(text)) ? HTC_OK : wrong(error, n, text, words);
    case WISH_TEXT:
    case WISH_NUMBER:
        break;
    }
    return HTC_OK;
}

static htc_status take(const htc_env *env, const xmlNode *n, size_t which, htc_wish *out, htc_error *error)
{
    char       made[64];
    xmlChar   *content = htc__xml_text(n);
    if (!content)
        return HTC_ENOMEM;
    htc_bytes  trimmed = htc__trim(htc_bytes_of((const char *)content));
    char      *text = (char *)(uintptr_t)trimmed.data;
    text[trimmed.len] = '\0';
    htc_status status = value_of(n, known[which].kind, known[which].words, text, made, error);
    char      *value = status == HTC_OK ? htc__strdup(env, made[0] ? made : text) : NULL;
    xmlFree(content);
    *out = (htc_wish){ known[which].name, value };
    return status == HTC_OK && !value ? HTC_ENOMEM : status;
}

htc_status htc__wishes_read(const htc_env *env, const xmlNode *submission, htc_wish **list, size_t *count, htc_error *error)
{
    htc_status status = HTC_OK;
    size_t     n_elements = 0;
    for (const xmlNode *n = htc__xml_first(submission); n; n = htc__xml_next(n))
        n_elements++;
    if (n_elements > WISHES_MAX)
        return htc__xml_refuse(error, HTC_ETOOBIG, submission, "Submission has more than %u elements", WISHES_MAX);
    *list = n_elements ? htc__alloc(env, n_elements * sizeof **list) : NULL;
    if (n_elements && !*list)
        return HTC_ENOMEM;
    *count = n_elements; /* those that are not filled in yet are zero */
    size_t filled = 0;
    for (const xmlNode *n = htc__xml_first(submission); n && status == HTC_OK; n = htc__xml_next(n)) {
        size_t which = 0;
        while (which < N_KNOWN && !htc__xml_is(n, HTC_OWN_NS, known[which].element))
            which++;
        status = which < N_KNOWN ? take(env, n, which, &(*list)[filled++], error)
                                 : htc__xml_refuse(error, HTC_EUNSUPPORTED, n, "%s is not done here, in Submission", htc__xml_name(n));
    }
    return status;
}

void htc__wishes_free(const htc_env *env, htc_wish *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        htc__strfree(env, (char *)(uintptr_t)list[i].value);
    htc__free(env, list, count * sizeof *list);
}

/* ---- into a document ---- */

static htc_status write_one(htc_buf *b, size_t which, const char *value, htc_error *error)
{
    char        made[HTC__TIME_TEXT_MAX];
    const char *element = known[which].element, *when = NULL;
    uint64_t    at;
    size_t      n = strlen(value);
    if (!htc__xml_can_carry(htc_bytes_of(value)))
        return htc__refuse(error, HTC_EUSAGE, 0, known[which].name, "the value of %s holds bytes that are no text", known[which].name);
    if (known[which].kind == WISH_TIME) {
        if (!htc__unsigned_parse(htc_bytes_of(value), &at) || at > TIME_MAX)
            return htc__refuse(error, HTC_EUSAGE, 0, known[which].name, "%s is no time in seconds since 1970", htc__quote(htc_bytes_of(value)).text);
        htc__time_to_text(at, made);
        value = made;
        n = strlen(made);
    } else if (known[which].kind == WISH_JOB) {
        when = strchr(value, ':');
        n = when ? (size_t)(when - value) : n;
        if (when && !is_word_of(known[which].words, htc_bytes_of(when + 1)))
            return htc__refuse(error, HTC_EUSAGE, 0, known[which].name, "%s does not end in :ok, :any or :failed", htc__quote(htc_bytes_of(value)).text);
    }
    htc_put_text(b, "   <htc:%s", element);
    if (when)
        htc_put_text(b, " when=\"%.8s\"", when + 1);
    htc_put_text(b, ">");
    htc__put_escaped(b, (htc_bytes){ value, n });
    htc_put_text(b, "</htc:%s>\n", element);
    return HTC_OK;
}

htc_status htc__wishes_write(htc_buf *b, const htc_wish *list, size_t count, htc_error *error)
{
    htc_status status = HTC_OK;
    size_t     written = 0;
    if (!count)
        return HTC_OK;
    htc_put_text(b, "  <htc:Submission>\n");
    for (size_t which = 0; which < N_KNOWN; which++)
        for (size_t i = 0; i < count && status == HTC_OK; i++)
            if (strcmp(list[i].name, known[which].name) == 0) {
                status = write_one(b, which, list[i].value, error);
                written++;
            }
    htc_put_text(b, "  </htc:Submission>\n");
    return status == HTC_OK && written != count ? HTC_EINVAL : status;
}
