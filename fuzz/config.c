/* htc.ini from anybody: refused with a place, or read; what was read can be asked for. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "htcsched/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_config         *c = NULL;
    htc_error           error = { 0 };
    htc_gateway_options o = { .size = sizeof o };
    htc_config_site     site = { .size = sizeof site };
    if (htc_config_parse(NULL, (htc_bytes){ data, size }, "fuzz.ini", &c, &error) != HTC_OK) {
        if (c || error.text[0] == 0)
            abort();
        return 0;
    }
    const char *key;
    for (size_t i = 0; (key = htc_config_key(i, NULL, NULL)); i++) {
        htc_config_text(c, key);
        htc_config_number(c, key);
        htc_config_ns(c, key);
        for (size_t k = 0; htc_config_item(c, key, k); k++)
            ;
    }
    for (size_t i = 0; i < htc_config_sites(c); i++)
        if (htc_config_site_get(c, i, &site) != HTC_OK || site.cores == 0)
            abort();
    if (htc_config_gateway(c, &o) != HTC_OK || o.n_sites != htc_config_sites(c))
        abort();
    htc_config_destroy(c);
    return 0;
}
