/* Any bytes as any message of gateway and agent, and of gateway and a host that has joined: the readers stay inside, and what one accepts is written back as it was, but
 * for texts, which are cleaned on arrival: a second reading changes nothing any more. */
#include <stdint.h>
#include <stdlib.h>

#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/gang_wire.h"
#include "roles/runtime/joined_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static union {
    htc_agent_hello      hello;
    htc_agent_welcome    welcome;
    htc_heartbeat        beat;
    htc_heartbeat_answer answer;
    htc_pull             pull;
    htc_grant            grant;
    htc_started          started;
    htc_task_result      result;
    htc_task_verdict     verdict;
    htc_give_back        back;
    htc_bye              bye;
    htc_attempt          attempt;
    htc_slots            slots;
    htc_slots_held       slots_held;
    htc_content_want     want;
    htc_content_here     here;
    htc_agent_outputs    outputs;
    htc_gang_word        word;
    htc_gang_command     command;
    htc_gang_end         end;
    int                  on;
    htc_joined_hello     host;
    htc_joined_welcome   host_welcome;
    struct {
        uint64_t   agent;
        uint32_t   tag, op;
        htc_status status;
        htc_bytes  body;
    } some;
} m;

#define TRY(type, reader, writer)                                                                                      \
    case type:                                                                                                         \
        if ((reader) != HTC_OK)                                                                                        \
            return 0;                                                                                                  \
        writer;                                                                                                        \
        break;

/* What comes through the door of a gang's task, and what goes back: no messages, so their numbers are this file's. */
#define COMMAND 60001
#define END     60002

static htc_bytes rest(htc_reader *r)
{
    return htc_get_raw(r, htc_reader_left(r));
}

static int read_and_write(uint16_t type, htc_reader *r, htc_buf *b)
{
    switch (type) {
        TRY(HTC_WIRE_AGENT_HELLO, htc_agent_hello_read(r, &m.hello), htc_agent_hello_write(b, &m.hello))
        TRY(HTC_WIRE_AGENT_WELCOME, htc_agent_welcome_read(r, &m.welcome), htc_agent_welcome_write(b, &m.welcome))
        TRY(HTC_WIRE_HEARTBEAT, htc_heartbeat_read(r, &m.beat), htc_heartbeat_write(b, &m.beat))
        TRY(HTC_WIRE_HEARTBEAT_ANSWER, htc_heartbeat_answer_read(r, &m.answer),
            htc_heartbeat_answer_write(b, &m.answer))
        TRY(HTC_WIRE_PULL, htc_pull_read(r, &m.pull), htc_pull_write(b, &m.pull))
        TRY(HTC_WIRE_GRANT, htc_grant_read(r, &m.grant), htc_grant_write(b, &m.grant))
        TRY(HTC_WIRE_STARTED, htc_started_read(r, &m.started), htc_started_write(b, &m.started))
        TRY(HTC_WIRE_TASK_RESULT, htc_task_result_read(r, &m.result), htc_task_result_write(b, &m.result))
        TRY(HTC_WIRE_TASK_VERDICT, htc_task_verdict_read(r, &m.verdict), htc_task_verdict_write(b, &m.verdict))
        TRY(HTC_WIRE_GIVE_BACK, htc_give_back_read(r, &m.back), htc_give_back_write(b, &m.back))
        TRY(HTC_WIRE_BYE, htc_bye_read(r, &m.bye), htc_bye_write(b, &m.bye))
        TRY(HTC_WIRE_DRAIN, htc_drain_read(r, &m.on), htc_drain_write(b, m.on))
        TRY(HTC_WIRE_CANCEL, htc_cancel_read(r, &m.attempt), htc_cancel_write(b, &m.attempt))
        TRY(HTC_WIRE_REVOKE, htc_revoke_read(r, &m.attempt), htc_revoke_write(b, &m.attempt))
        TRY(HTC_WIRE_SLOTS, htc_slots_read(r, &m.slots), htc_slots_write(b, &m.slots))
        TRY(HTC_WIRE_SLOTS_HELD, htc_slots_held_read(r, &m.slots_held), htc_slots_held_write(b, &m.slots_held))
        TRY(HTC_WIRE_CONTENT_WANT, htc_content_want_read(r, &m.want), htc_content_want_write(b, &m.want))
        TRY(HTC_WIRE_CONTENT_HERE, htc_content_here_read(r, &m.here), htc_content_here_write(b, &m.here))
        TRY(HTC_WIRE_AGENT_OUTPUTS, htc_agent_outputs_read(r, &m.outputs), htc_agent_outputs_write(b, &m.outputs))
        TRY(HTC_WIRE_GANG_WORD, htc_gang_word_read(r, &m.word), htc_gang_word_write(b, &m.word))
        TRY(HTC_WIRE_JOINED_HELLO, htc_joined_hello_read(r, &m.host), htc_joined_hello_write(b, &m.host))
        TRY(HTC_WIRE_JOINED_WELCOME, htc_joined_welcome_read(r, &m.host_welcome), htc_joined_welcome_write(b, &m.host_welcome))
        TRY(HTC_WIRE_JOINED_LAUNCHED, htc_joined_launched_read(r, &m.some.agent, &m.some.status, &m.some.body),
            htc_joined_launched_write(b, m.some.agent, m.some.status, m.some.body))
        TRY(HTC_WIRE_JOINED_KILL, htc_joined_kill_read(r, &m.some.agent), htc_joined_kill_write(b, m.some.agent))
        TRY(HTC_WIRE_JOINED_CALL, htc_joined_call_read(r, &m.some.tag, &m.some.op, &m.some.body), htc_joined_call_write(b, m.some.tag, m.some.op, m.some.body))
        TRY(HTC_WIRE_JOINED_ANSWER, htc_joined_answer_read(r, &m.some.tag, &m.some.status, &m.some.body),
            htc_joined_answer_write(b, m.some.tag, m.some.status, m.some.body))
        TRY(COMMAND, htc_gang_command_read(rest(r), &m.command), (htc_wire_begin(b, COMMAND, 0), htc_gang_command_write(b, &m.command)))
        TRY(END, htc_gang_end_read(rest(r), &m.end), (htc_wire_begin(b, END, 0), htc_gang_end_write(b, &m.end)))
    default:
        return 0;
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint16_t   type;
    uint64_t   id;
    htc_buf    once, twice;
    htc_reader r = htc_wire_open((htc_bytes){ data, size }, &type, &id);
    if (r.status != HTC_OK)
        return 0;
    htc_buf_init(&once, NULL, 0);
    htc_buf_init(&twice, NULL, 0);
    if (read_and_write(type, &r, &once)) {
        if (once.status != HTC_OK || once.len > size)
            abort();
        r = htc_wire_open(htc_buf_bytes(&once), &type, &id);
        if (!read_and_write(type, &r, &twice) || !htc_bytes_equal(htc_buf_bytes(&once), htc_buf_bytes(&twice)))
            abort();
    }
    htc_buf_free(&once);
    htc_buf_free(&twice);
    return 0;
}
