/* A flow as DAX. */
#include "flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flow_fuzz(data, size, HTC_FLOW_DAX);
    return 0;
}
