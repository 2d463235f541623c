/* A flow as an object with jobs. */
#include "flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flow_fuzz(data, size, HTC_FLOW_JOBS);
    return 0;
}
