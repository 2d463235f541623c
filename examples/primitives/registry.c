/* A policy of your own beside those of the library: both are found by the name that stands in a configuration file. */
#include <stdio.h>

#include "htcsched/registry.h"

typedef struct greeting {
    const char *text;
} greeting;

int main(void)
{
    static const greeting polite = { "good evening" }, brief = { "hi" };
    const uint32_t        kind = HTC_REGISTRY_USER;
    htc_registry         *registry;
    const void           *found;
    if (htc_registry_create(NULL, &registry) != HTC_OK || htc_registry_add_builtin(registry) != HTC_OK)
        return 1;
    htc_registry_add(registry, kind, "polite", &polite);
    htc_registry_add(registry, kind, "brief", &brief);
    for (size_t i = 0; htc_registry_name(registry, kind, i); i++)
        printf("there is %s\n", htc_registry_name(registry, kind, i));
    if (htc_registry_find(registry, kind, "brief", &found) == HTC_OK)
        printf("brief says: %s\n", ((const greeting *)found)->text);
    htc_status status = htc_registry_find(registry, kind, "rude", &found);
    printf("rude: %s\n", htc_strerror(status));
    htc_registry_destroy(registry);
    return 0;
}
