/* usage: keys_client ADDRESS KEY RING   adds one to a counter for each line of standard input, and says how that went
 *        keys_client host ADDRESS KEY RING get|put|scan NAME   asks once with the key of a host, and says how that went
 *        keys_client flood PORT N       keeps N connections from 127.0.0.2 that never finish a handshake, until standard input ends */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "htcsched/keyring.h"
#include "htcsched/store.h"

static int flood(uint16_t port, int n)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) }, from = { .sin_family = AF_INET };
    static const char  half[] = { 48, 0, 1, 'h', 't', 'c', 1, 1, 2 };
    int                made = 0;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl((127u << 24) + 2);
    for (int i = 0; i < n; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) != 0 ||
            connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
            perror("flood");
            return 1;
        }
        made += send(fd, half, (size_t)(i % (int)sizeof half) + 1, MSG_NOSIGNAL) > 0;
    }
    printf("%d\n", made);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

static int ask_as_host(char **argv)
{
    static const struct { const char *name; uint32_t op; } ops[] = { { "get", HTC_KV_GET }, { "put", HTC_KV_PUT }, { "scan", HTC_KV_SCAN } };
    htc_store        *store;
    htc_error         error = { 0 };
    htc_store_options o = { .size = sizeof o, .timeout_ns = 5 * HTC_SECOND, .address = argv[2], .key_path = argv[3], .ring_path = argv[4], .role = HTC_KEY_HOST };
    htc_kv_result     r = { .size = sizeof r };
    htc_kv_request    q = { .size = sizeof q, .key = htc_bytes_of(argv[6]) };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(argv[5], ops[i].name) == 0)
            q.op = ops[i].op;
    if (q.op == HTC_KV_PUT)
        q.value = htc_bytes_of("by a host");
    htc_status s = htc_store_open(NULL, &o, &store, &error);
    if (s == HTC_OK)
        s = htc_store_ask(store, &q, &r, &error);
    puts(htc_status_name(s == HTC_OK ? r.status : s));
    htc_store_close(store);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "host") == 0)
        return ask_as_host(argv);
    if (argc == 4 && strcmp(argv[1], "flood") == 0)
        return flood((uint16_t)atoi(argv[2]), atoi(argv[3]));
    htc_store        *store;
    htc_error         error = { 0 };
    htc_store_options o = { .size = sizeof o, .timeout_ns = 2 * HTC_SECOND };
    char              line[64];
    if (argc != 4)
        return 64;
    o.address = argv[1];
    o.key_path = argv[2];
    o.ring_path = argv[3];
    if (htc_store_open(NULL, &o, &store, &error) != HTC_OK) {
        printf("%s: %s\n", htc_status_name(error.status), error.text);
        return 1;
    }
    puts("open");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of("n"), .delta = 1 };
        htc_kv_result  r = { .size = sizeof r };
        htc_status     s = htc_store_ask(store, &q, &r, &error);
        if (s == HTC_OK && r.status == HTC_OK)
            printf("%lld\n", (long long)r.number);
        else
            puts(htc_status_name(s == HTC_OK ? r.status : s));
        fflush(stdout);
    }
    htc_store_close(store);
    return 0;
}
