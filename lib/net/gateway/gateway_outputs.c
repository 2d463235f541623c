/* The id by which hosts that see the gateway's directory of data know that it is the same one. It is drawn anew at each start: a copy of the directory,
 * as an old one left behind, has an older id. Gateways that share the directory have a file each. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/outputs_at.h"
#include "net/files/files.h"
#include "net/gateway/gateway_private.h"

/* Whose file: of this host and state directory. The rest nobody has had before. */
static void draw(const char *state_dir, char id[HTC_GATEWAY_HOST_DATA_ID])
{
    char                     host[65] = "";
    unsigned char            whose[crypto_generichash_BYTES_MIN], chance[24];
    crypto_generichash_state h;
    if (gethostname(host, 64) != 0)
        host[0] = '\0';
    crypto_generichash_init(&h, NULL, 0, sizeof whose);
    crypto_generichash_update(&h, (const unsigned char *)host, sizeof host);
    crypto_generichash_update(&h, (const unsigned char *)state_dir, strlen(state_dir));
    crypto_generichash_final(&h, whose, sizeof whose);
    randombytes_buf(chance, sizeof chance);
    sodium_bin2hex(id, HTC_GATEWAY_HOST_DATA_ID, whose, 8);
    sodium_bin2hex(id + 16, HTC_GATEWAY_HOST_DATA_ID - 16, chance, sizeof chance);
}

static int write_id(int data, const char *id)
{
    char name[HTC__OUTPUTS_ID_NAME], new[HTC__OUTPUTS_ID_NAME + 8];
    htc__outputs_id_name(id, name);
    snprintf(new, sizeof new, "%s.new", name);
    if (mkdirat(data, "ids", 0711) != 0 && errno != EEXIST)
        return -1;
    unlinkat(data, new, 0);
    int fd = openat(data, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    int good = fd >= 0 && fchmod(fd, 0444) == 0 && write(fd, id, HTC_GATEWAY_HOST_DATA_ID - 1) == HTC_GATEWAY_HOST_DATA_ID - 1, why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = 0;
        why = errno;
    }
    if (good)
        return renameat(data, new, data, name);
    errno = why ? why : EIO;
    return -1;
}

htc_status htc_gateway_host_outputs(htc_gateway_host *g, const char **dir, char id[HTC_GATEWAY_HOST_DATA_ID], htc_error *error)
{
    if (!g || !dir || !id)
        return htc__error(error, HTC_EINVAL, "a gateway's host and room for the answers are needed");
    int  data = open(g->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    draw(g->state_dir, id);
    int good = data >= 0 && write_id(data, id) == 0, why = errno;
    if (data >= 0)
        close(data);
    if (!good)
        return htc__error(error, htc__status_of(why, HTC_EIO), "data.output: cannot write in %.200s/ids: %s", g->data_dir, strerror(why));
    *dir = g->data_dir;
    return HTC_OK;
}
