/* Connections of the role's own: to the store, and to the other workers of a flow. On this machine by their sockets, beyond it through
 * secure channels. */
#include <string.h>

#include "net/exec/exec_private.h"
#include "net/loop/secure.h"

/* With which role a name is pinned: that is who has to answer. One that is not known yet is a host that has joined. */
static uint32_t role_of(const htc_host_keys *keys, const char *name)
{
    htc_keyring_entry e;
    return !name[0] ? HTC_KEY_MEMBER : htc_keyring_of(keys->ring, name, 0, &e) == HTC_OK ? e.role : HTC_KEY_HOST;
}

/* text: [NAME@]HOST:PORT */
static htc_status dial_secure(htc_agent_host *a, const char *text, uint32_t *peer)
{
    char        name[HTC_KEY_NAME_MAX + 1] = "";
    const char *at = strchr(text, '@');
    size_t      len = at ? (size_t)(at - text) : 0;
    if (!a->keys || len >= sizeof name)
        return HTC_EUNSUPPORTED;
    memcpy(name, text, len);
    htc_host_keys_dial_options o = { .size = sizeof o, .address = at ? at + 1 : text, .name = len ? name : NULL, .peer_role = role_of(a->keys, name) };
    htc_status                 status = htc_host_keys_dial(a->keys, &o, peer, NULL);
    return status == HTC_EINVAL ? HTC_EUNSUPPORTED : status;
}

htc_status htc__exec_dial(htc_agent_host *a, uint64_t tag, htc_reader *body)
{
    char       address[300];
    uint8_t    number[4];
    uint32_t   peer = 0;
    htc_status status = HTC_EUNSUPPORTED;
    htc_get_str(body, address, sizeof address);
    if (htc_reader_done(body) != HTC_OK)
        return HTC_EPROTO;
    if (strncmp(address, "unix:", 5) == 0)
        status = htc_host_dial_unix(a->host, address + 5, 0, &peer, NULL);
    else if (strncmp(address, "tcp://", 6) == 0)
        status = dial_secure(a, address + 6, &peer);
    htc__le32_put(number, peer);
    if (status == HTC_OK)
        status = htc_host_tell_refused(a->host, peer, HTC_EVENT_REFUSED);
    return status == HTC_OK ? htc_host_answer(a->host, HTC_CALL_DIAL, tag, HTC_OK, (htc_bytes){ number, sizeof number }) : status;
}

void htc__exec_hang_up(htc_agent_host *a, htc_reader *body)
{
    uint32_t peer = htc_get_u32(body);
    if (htc_reader_done(body) == HTC_OK)
        (void)htc_host_hang_up(a->host, peer);
}
