#include "roles/worker/worker_wire.h"

void htc__worker_write(htc_buf *b, uint16_t type, const worker_message *m)
{
    htc_wire_begin(b, type, 0);
    htc_put_varint(b, m->flow);
    htc_put_varint(b, m->seq);
    htc_put_varint(b, m->tasks);
    htc_put_varint(b, m->from);
    htc_put_varint(b, m->note);
    htc_put_varint(b, m->to);
}

htc_status htc__worker_read(htc_reader *r, worker_message *m)
{
    m->flow = htc_get_varint(r);
    m->seq = htc_get_varint(r);
    m->tasks = htc_get_varint(r);
    m->from = htc_get_varint(r);
    m->note = htc_get_varint(r);
    m->to = htc_get_varint(r);
    return htc_reader_done(r) == HTC_OK ? HTC_OK : HTC_EPROTO;
}
