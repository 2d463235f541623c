/* Users and passwords by host for the URLs of a job (htc submit --credentials).
 *
 * They are a record of their own, n/JOB: the job's record says that there is one, and it is deleted with the job. In memory they are while the job is open. A
 * grant has them only if its task has a URL, and it goes to an agent of the job's user alone, as every grant does. No answer, no log
 * and no error names them, and the hash of a submission leaves them out. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "core/netrc.h"
#include "core/url.h"
#include "roles/gateway/gateway.h"

static int keep(htc_gateway *gw, job *j, htc_bytes text)
{
    htc__gw_credentials_free(j);
    htc_buf_init(&j->credentials, &gw->env, HTC__NETRC_MAX + 1);
    htc_put_raw(&j->credentials, text);
    htc_put_u8(&j->credentials, 0); /* it stands in a task as a text */
    j->wishes.credentials = j->credentials.status == HTC_OK;
    if (!j->wishes.credentials)
        htc_runtime_break(gw->runtime, j->credentials.status, "keeping what a job fetches with");
    return j->wishes.credentials;
}

int htc__gw_credentials_parse(htc_gateway *gw, request *q, job *j)
{
    const json_t *v = json_object_get(q->body, "credentials");
    if (!v || json_is_null(v))
        return 1;
    const char *wrong = json_is_string(v) ? htc__netrc_wrong((htc_bytes){ json_string_value(v), json_string_length(v) }) : "it is no text";
    if (wrong) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "write 'machine HOST login USER password PASSWORD', a line each", "credentials: %s", wrong);
        return 0;
    }
    return keep(gw, j, (htc_bytes){ json_string_value(v), json_string_length(v) });
}

int htc__gw_credentials_share(htc_gateway *gw, job *to, const job *from)
{
    return !from->wishes.credentials || keep(gw, to, htc__gw_credentials_bytes(from));
}

htc_status htc__gw_credentials_read(htc_gateway *gw, job *j, htc_bytes record)
{
    if (htc__netrc_wrong(record))
        return HTC_ECORRUPT;
    return keep(gw, j, record) ? HTC_OK : HTC_ENOMEM;
}

htc_bytes htc__gw_credentials_bytes(const job *j)
{
    return j->credentials.len ? (htc_bytes){ j->credentials.data, j->credentials.len - 1 } : (htc_bytes){ NULL, 0 };
}

static int has_url(const htc_stage *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (htc__url_is_web(htc_bytes_of(list[i].uri)))
            return 1;
    return 0;
}

const char *htc__gw_credentials_of(const job *j, const htc_task *t)
{
    return j->credentials.len && (has_url(t->in, t->n_in) || has_url(t->out, t->n_out)) ? (const char *)j->credentials.data : NULL;
}

void htc__gw_credentials_free(job *j)
{
    if (j->credentials.len)
        sodium_memzero(j->credentials.data, j->credentials.len);
    htc_buf_free(&j->credentials);
}
