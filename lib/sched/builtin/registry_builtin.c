/* Every policy that the library brings: a module that has some lists them beside their code, one line here for each list. */
#include "sched/allot/allot_private.h"
#include "sched/balance/balance_private.h"
#include "sched/fit/fit_private.h"
#include "sched/locality/locality_private.h"
#include "sched/provision/provision_private.h"
#include "sched/registry/registry_private.h"
#include "sched/steal/steal_private.h"

const htc__builtin *const htc__builtin_lists[] = {
    htc__allot_builtin,
    htc__balance_builtin,
    htc__fit_builtin,
    htc__locality_builtin,
    htc__provision_builtin,
    htc__provision_granter_builtin,
    htc__provision_setup_builtin,
    htc__steal_builtin,
    NULL,
};
