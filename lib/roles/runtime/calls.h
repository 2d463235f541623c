/* The calls (htcsched/calls.h), and the structs of their bodies that gateway, agent and the library's own hosts share. */
#ifndef HTC_ROLES_CALLS_H
#define HTC_ROLES_CALLS_H

#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

#endif
