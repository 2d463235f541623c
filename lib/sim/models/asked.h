/* Policies of one's own, asked through a check: what one answered that is not allowed is told with its name. Those of the library are asked as they are. */
#ifndef HTC_SIM_MODELS_ASKED_H
#define HTC_SIM_MODELS_ASKED_H

#include "htcsched/balance.h"
#include "htcsched/fit.h"
#include "htcsched/locality.h"
#include "htcsched/provision.h"
#include "htcsched/steal.h"

#define ASKED_TEXT 280

/* of: whoever's it is; policy: what the library is given in its place; text: lent, ASKED_TEXT bytes, of the first answer that is not allowed, "" until then. */
typedef struct asked_steal {
    htc_steal_policy of, policy;
    char            *text;
} asked_steal;

typedef struct asked_locality {
    htc_locality_policy of, policy;
    uint64_t            workers;
    char               *text;
} asked_locality;

typedef struct asked_balance {
    htc_balance_policy of, policy;
    char              *text;
} asked_balance;

typedef struct asked_fit {
    htc_fit_policy of, policy;
    uint64_t       answered; /* the last job */
    char          *text;
} asked_fit;

typedef struct asked_granter {
    htc_provision_granter of, policy;
    char                 *text;
} asked_granter;

/* What stands in the place of p: p itself if it is the library's, NULL, or nothing that can be used. The first argument stays where it is for as long. */
const htc_steal_policy      *htc__asked_steal(asked_steal *a, const htc_steal_policy *p, char *text);
const htc_locality_policy   *htc__asked_locality(asked_locality *a, const htc_locality_policy *p, uint64_t workers, char *text);
const htc_balance_policy    *htc__asked_balance(asked_balance *a, const htc_balance_policy *p, char *text);
const htc_fit_policy        *htc__asked_fit(asked_fit *a, const htc_fit_policy *p, char *text);
const htc_provision_granter *htc__asked_granter(asked_granter *a, const htc_provision_granter *p, char *text);
/* The library has refused the job that was answered. */
void htc__asked_fit_refused(const asked_fit *a);
/* The error of a run with such a text; status. */
htc_status htc__asked_error(htc_error *error, htc_status status, const char *text);

#endif
