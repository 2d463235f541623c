/* Nodes that the operator takes out of service (nodes_closed.c). */
#ifndef HTC_ROLES_GATEWAY_NODES_CLOSED_H
#define HTC_ROLES_GATEWAY_NODES_CLOSED_H

#include "roles/gateway/gateway.h"

const char *htc__gw_node_closed(const htc_gateway *gw, const char *name);  /* by the operator: why; NULL: it is not */
const char *htc__gw_host_closed(const htc_gateway *gw, const site *s);     /* the one node on which all agents of the site are; NULL: there is none such, or it is not */
void    htc__gw_node_leave(htc_gateway *gw, agent *a);                     /* it is on a closed one: it drains for good */
void    htc__gw_no_reason(const htc_gateway *gw, char reason[REASON_MAX]); /* none was given: who it was */
int     htc__gw_closing_reason(htc_gateway *gw, request *q, char reason[REASON_MAX]); /* why a request drains. 0: it says too much, and is answered */
void    htc__gw_api_nodes(htc_gateway *gw, request *q);                    /* node.drain, node.resume */
json_t *htc__gw_nodes_json(const htc_gateway *gw);
void    htc__gw_node_found(htc_gateway *gw, htc_bytes name, const htc_kv_item *item); /* at the start */
void    htc__gw_nodes_save(htc_gateway *gw); /* the records of all, as they are */
void    htc__gw_nodes_closed_free(htc_gateway *gw);

#endif
