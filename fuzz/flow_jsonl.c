/* A flow of one JSON object a line. */
#include "flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flow_fuzz(data, size, HTC_FLOW_JSONL);
    return 0;
}
