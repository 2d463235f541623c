/* What the program htc-transfer does. A library of its own, the only one that is linked with libcurl. */
#ifndef HTC_NET_TRANSFER_H
#define HTC_NET_TRANSFER_H

/* Do what is asked on descriptor in (lib/roles/transfer/transfer_wire.h), print the answer on out. The process ends with the one that asked. Answers the
 * exit status: 0, however the transfers went; 1: nobody has asked anything that can be read; 2: the answer cannot be given. Blocks. */
int htc__transfer_main(int in, int out);

#endif
