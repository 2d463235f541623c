/* Addresses as people write them: HOST:PORT, [IPv6]:PORT. */
#ifndef HTC_NET_ADDRESS_H
#define HTC_NET_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#define HTC__HOST_NAME_MAX 256 /* with its end */

/* In two parts, the host without brackets. 1, or 0 if it is none. */
int htc__address_split(const char *text, char host[HTC__HOST_NAME_MAX], uint16_t *port);
/* 1: an IP address; 0: it is none. */
int htc__address_ip(const char *host, uint16_t port, struct sockaddr_storage *out, socklen_t *len);
/* By name too, which may take seconds. A name can have several addresses, of which not all answer: the nth of them, round and
 * round; *count gets how many there are. NULL, or what is wrong. */
const char *htc__address_find(const char *host, uint16_t port, uint32_t nth, struct sockaddr_storage *out,
                              socklen_t *len, uint32_t *count);
/* 1: only this machine can be reached there, or from there. */
int htc__address_is_loopback(const struct sockaddr_storage *address);
/* The part of an address that one customer has: of IPv6 a /64. Answers its length, 0 for other families. */
uint32_t htc__address_source(const struct sockaddr_storage *address, uint8_t out[16]);
/* As text, for logs. */
void htc__address_text(const struct sockaddr_storage *address, char out[64]);

#define HTC__ORIGIN_MAX 255

/* "https://NAME", with a port or without: a name has letters, digits, '.' and '-', or is "[V6]"; at most HTC__ORIGIN_MAX bytes. 1 or 0. Any thread. */
int htc__address_is_origin(const char *text);

#endif
