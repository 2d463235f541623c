#include "roles/gateway/admission.h"

#include "htcsched/kv.h"

int htc__admission_of_request(const admission *now, int owner)
{
    if (now->of_one >= ADMISSION_OF_ONE || now->all >= ADMISSION_ALL)
        return 0;
    return owner || (now->of_uid < ADMISSION_OF_UID && now->of_others < ADMISSION_OF_OTHERS);
}

int htc__admission_of_login(uint32_t of_uid)
{
    return of_uid < ADMISSION_LOGINS;
}

htc_status htc__admission_of_spec(size_t bytes, size_t under_way)
{
    if (bytes > HTC_KV_VALUE_MAX)
        return HTC_ETOOBIG;
    return under_way > ADMISSION_SPEC_BYTES || bytes > ADMISSION_SPEC_BYTES - under_way ? HTC_EBUSY : HTC_OK;
}

htc_status htc__admission_of_look(size_t bytes, size_t under_way)
{
    return bytes > ADMISSION_LOOK_BYTES ? HTC_ETOOBIG : htc__admission_of_spec(bytes, under_way);
}
