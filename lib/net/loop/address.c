#include "net/loop/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int htc__address_split(const char *text, char host[HTC__HOST_NAME_MAX], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    char       *end;
    size_t      len = colon ? (size_t)(colon - text) : 0;
    size_t      bracket = text[0] == '[';
    if (!colon || colon[1] < '0' || colon[1] > '9' || len < 1 + 2 * bracket || len >= HTC__HOST_NAME_MAX ||
        (bracket ? text[len - 1] != ']' : memchr(text, ':', len) != NULL))
        return 0;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (*end || number > UINT16_MAX)
        return 0;
    memcpy(host, text + bracket, len - 2 * bracket);
    host[len - 2 * bracket] = 0;
    *port = (uint16_t)number;
    return 1;
}

int htc__address_ip(const char *host, uint16_t port, struct sockaddr_storage *out, socklen_t *len)
{
    struct sockaddr_in  v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(out, &v4, *len = sizeof v4);
        return 1;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(out, &v6, *len = sizeof v6);
        return 1;
    }
    return 0;
}

const char *htc__address_find(const char *host, uint16_t port, uint32_t nth, struct sockaddr_storage *out,
                              socklen_t *len, uint32_t *count)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *found = NULL;
    char            service[8];
    *count = 1;
    if (htc__address_ip(host, port, out, len))
        return NULL;
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int why = getaddrinfo(host, service, &hints, &found);
    if (why != 0)
        return gai_strerror(why);
    *count = 0;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        ++*count;
    const struct addrinfo *chosen = found;
    for (uint32_t i = nth % *count; i > 0; i--)
        chosen = chosen->ai_next;
    memcpy(out, chosen->ai_addr, chosen->ai_addrlen);
    *len = chosen->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

/* ::ffff:1.2.3.4 is 1.2.3.4. */
static const uint8_t *v4_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? v6->sin6_addr.s6_addr + 12 : NULL;
}

int htc__address_is_loopback(const struct sockaddr_storage *address)
{
    const uint8_t *v4 = v4_of(address);
    if (v4)
        return v4[0] == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

uint32_t htc__address_source(const struct sockaddr_storage *address, uint8_t out[16])
{
    const uint8_t *v4 = v4_of(address);
    uint32_t       len = v4 ? 4 : address->ss_family == AF_INET6 ? 8 : 0;
    if (len)
        memcpy(out, v4 ? v4 : ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr, len);
    return len;
}

void htc__address_text(const struct sockaddr_storage *address, char out[64])
{
    const uint8_t             *v4 = v4_of(address);
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? v4 : v6->sin6_addr.s6_addr, out, 64))
        snprintf(out, 64, "?");
}

int htc__address_is_origin(const char *text)
{
    static const char https[] = "https://", of_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", of_six[] = "abcdefABCDEF0123456789:.";
    const char       *name = text + sizeof https - 1;
    if (strlen(text) > HTC__ORIGIN_MAX || strncmp(text, https, sizeof https - 1) != 0)
        return 0;
    size_t n = name[0] == '[' ? 1 + strspn(name + 1, of_six) : strspn(name, of_name);
    if (name[0] == '[' && name[n++] != ']')
        return 0;
    const char *port = name[n] == ':' ? name + n + 1 : NULL;
    return n > 0 && (port ? strspn(port, "0123456789") == strlen(port) && strlen(port) >= 1 && strlen(port) <= 5 : !name[n]);
}
