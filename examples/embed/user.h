/* A user of the gateway as a machine: submits a job of a hundred tasks, waits for it, and keeps the answer. The messages are those of
 * doc/protocol.md and doc/api.md. */
#ifndef EMBED_USER_H
#define EMBED_USER_H

#include <stdio.h>

#include <htcsched/codec.h>
#include <htcsched/machine.h>

enum { HELLO = 1, USER_REQUEST = 200, USER_ANSWER = 201, TO_GATEWAY = 1, MESSAGE_HEAD = 10 };

#define JOB                                                                                                            \
    "<d:JobDefinition xmlns:d='http://schemas.ggf.org/jsdl/2005/11/jsdl' xmlns:p='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'" \
    " xmlns:s='http://schemas.ogf.org/jsdl/2009/03/sweep' xmlns:f='http://schemas.ogf.org/jsdl/2009/03/sweep/functions'><d:JobDescription>" \
    "<d:Application><p:POSIXApplication><p:Executable>/bin/true</p:Executable><p:Argument>0</p:Argument></p:POSIXApplication>" \
    "</d:Application></d:JobDescription><s:Sweep><s:Assignment><s:DocumentNode>" \
    "<s:NamespaceBinding ns='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix' prefix='p'/><s:Match>//p:Argument[1]</s:Match></s:DocumentNode>" \
    "<f:LoopInteger start='1' end='100'/></s:Assignment></s:Sweep></d:JobDefinition>"

static char user_said[500];

static htc_status user_say(htc_output *out, unsigned type, htc_bytes payload)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u16(&b, (uint16_t)type);
    htc_put_u64(&b, 1); /* the request's number */
    htc_put_raw(&b, payload);
    htc_status status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = TO_GATEWAY, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    return status;
}

static htc_status user_step(void *self, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    unsigned   type = in->kind == HTC_IN_MESSAGE ? htc_get_u16(&r) : 0;
    (void)self;
    if (in->kind == HTC_IN_OPENED) {
        user_say(out, HELLO, (htc_bytes){ "HTC1\2\0\2", 7 });
        return user_say(out, USER_REQUEST, htc_bytes_of("{\"op\":\"submit\",\"jsdl\":\"" JOB "\"}"));
    }
    if (type != USER_ANSWER)
        return HTC_OK;
    int first = !user_said[0];
    snprintf(user_said, sizeof user_said, "%.*s", (int)in->body.len - MESSAGE_HEAD, (const char *)in->body.data + MESSAGE_HEAD);
    return first ? user_say(out, USER_REQUEST, htc_bytes_of("{\"op\":\"wait\",\"id\":\"1\"}")) : HTC_OK;
}

static htc_ns user_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static const htc_machine_ops *user_ops(void)
{
    static const htc_machine_ops ops = { sizeof ops, user_step, user_deadline, NULL, 0 };
    return &ops;
}

#endif
