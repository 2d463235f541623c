/**
 * @file htcsched/htcsched.h
 * @brief Every public header of libhtcsched. Those of libhtcsched-sim (htcsched/sim.h and others) are included by themselves.
 *
 * Structs: one that begins with `size_t size` may get members at its end. The caller sets size to what it was built with; an older, shorter
 * one is taken with the defaults of what it lacks, a newer, longer one if the rest is zero (else HTC_EABI). In an array each has the size
 * that the first one says. A struct without it is fixed: it keeps its members as long as the library's soname is the same, and what has to
 * say more is a new struct.
 */
#ifndef HTCSCHED_HTCSCHED_H
#define HTCSCHED_HTCSCHED_H

#include "htcsched/access.h"
#include "htcsched/agent.h"
#include "htcsched/agent_host.h"
#include "htcsched/allot.h"
#include "htcsched/balance.h"
#include "htcsched/bytes.h"
#include "htcsched/calls.h"
#include "htcsched/channel.h"
#include "htcsched/client.h"
#include "htcsched/codec.h"
#include "htcsched/config.h"
#include "htcsched/dag.h"
#include "htcsched/deque.h"
#include "htcsched/disk.h"
#include "htcsched/disk_host.h"
#include "htcsched/env.h"
#include "htcsched/fit.h"
#include "htcsched/flow.h"
#include "htcsched/flows.h"
#include "htcsched/gateway.h"
#include "htcsched/gateway_host.h"
#include "htcsched/hierarchy.h"
#include "htcsched/host.h"
#include "htcsched/host_keys.h"
#include "htcsched/joined.h"
#include "htcsched/keyring.h"
#include "htcsched/keys.h"
#include "htcsched/kv.h"
#include "htcsched/kv_backup.h"
#include "htcsched/kv_engine.h"
#include "htcsched/kv_members.h"
#include "htcsched/kv_bridge.h"
#include "htcsched/kv_proxy.h"
#include "htcsched/kv_server.h"
#include "htcsched/kv_siblings.h"
#include "htcsched/kv_store.h"
#include "htcsched/locality.h"
#include "htcsched/machine.h"
#include "htcsched/metrics.h"
#include "htcsched/metrics_host.h"
#include "htcsched/provision.h"
#include "htcsched/record.h"
#include "htcsched/policy_file.h"
#include "htcsched/registry.h"
#include "htcsched/ring.h"
#include "htcsched/runtime.h"
#include "htcsched/script.h"
#include "htcsched/state.h"
#include "htcsched/status.h"
#include "htcsched/steal.h"
#include "htcsched/store.h"
#include "htcsched/swf.h"
#include "htcsched/task_fn.h"
#include "htcsched/version.h"
#include "htcsched/work.h"
#include "htcsched/worker.h"

#endif
