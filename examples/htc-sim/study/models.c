#include "model.h"

#include <string.h>

const model *const models[] = {
    &fairshare_model,
    &dataflow_model,
    &dsp_model,
    &flow_model,
    &grids_model,
    &jobs_model,
    &kvs_model,
    &manytask_model,
    &micro_model,
    &tco_model,
    NULL,
};

const model *model_of(const char *name)
{
    for (const model *const *m = models; *m; m++)
        if (strcmp((*m)->name, name) == 0)
            return *m;
    return NULL;
}

int model_has_policies(const model *m)
{
    for (const setting *s = m->table; s->name; s++)
        if (s->kind == SET_POLICY)
            return 1;
    return 0;
}
