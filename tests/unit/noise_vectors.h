/* Handshakes of our own making: what this code wrote on the day it passed the published vectors. Message k, from 0, has the first
 * k letters of "payload" as its payload. Keys are secret ones, in hex. */
#ifndef HTC_TESTS_NOISE_VECTORS_H
#define HTC_TESTS_NOISE_VECTORS_H

#include "channel/noise.h"

#define OWN_PROLOGUE    "68746373636865642074657374"
#define OWN_INITIATOR   "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
#define OWN_RESPONDER   "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
#define OWN_INITIATOR_E "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
#define OWN_RESPONDER_E "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
#define OWN_PSK         "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

typedef struct own_vector {
    uint32_t    pattern;
    const char *messages[8]; /* NULL behind the last */
    const char *hash;        /* of the handshake */
} own_vector;

static const own_vector own_vectors[] = {
    { HTC__NOISE_XX,
      { "675dd574ed7789310b3d2e7681f3790b466c773b1521fecf36577958371ea52f",
        "493e82fc74464a59268817623d2053c5eb8e2cc4a988b4fee179ec6b010d531dbe8a41d6a65aaedf04b6894ad185a05e"
        "94e2e47c60af3e9080ba8ab267f29d6002bca31caaadb1a7bb4889e63021c649f4314e38267b53f5d7f76f1dff37ecb3"
        "e9",
        "6e2fb61a037e37b5acbdbc14876b85c64e7d8c6f10ae4d9cb5ebe4b5b897d0a8f1ee541b9047bbd6bb29773f041155ce"
        "02a5e74352edeb21bc6e234ad9b12e32288a",
        "9e6c99843e7824c745b7e380469e3496a7bd0d", "6033e3527ffc08d5628ff5f5ae0904f8818077f0",
        "c49a9dbcc9e76ddf1c5cb94071c7289cfe4b8fa3f2", NULL },
      "93b03cedbd7a27ee8c799b2e97bfa2fc35b7effe013f72f3e75af80050b22562" },
    { HTC__NOISE_IK,
      { "675dd574ed7789310b3d2e7681f3790b466c773b1521fecf36577958371ea52fd03d48878cd8d2d2f5175a93e10fbc68"
        "2cb3497187bcb486c2dc584640de7c37fa3322fcff922e2e48926f02e896ce725653ba71d20e74bcfd214a6302cab792",
        "493e82fc74464a59268817623d2053c5eb8e2cc4a988b4fee179ec6b010d531de7505a807158dd977d1459e6f0f9b029"
        "23",
        "43d93fa6be1575a351633b3bbd9c4df8bae4", "30d835c73b6942ed51ffd2aa7d5a7e96abae05",
        "12cd12683886ff465acb4b5b8e5566b78bfca608", "6672f029413d84afff83292f323c181eedadce78be", NULL },
      "7183bd0f0a1f5d579577c5f0c508278e8774220cf22378ba9e11a448f3c10768" },
    { HTC__NOISE_XXPSK3,
      { "675dd574ed7789310b3d2e7681f3790b466c773b1521fecf36577958371ea52f66d5b5b941f3d7d8b66b83c214885b87",
        "493e82fc74464a59268817623d2053c5eb8e2cc4a988b4fee179ec6b010d531d9f094eb588a3e7690bf49358116a1027"
        "2cf8e3e4684d06866646c5579c3c4a0a94b8097abaf1feddad702a5503f5d54552d8016457126fbf391f27d35a6e60e1"
        "fa",
        "ec719334d29b6f7e4d96f2c00d36a325e1d8da24328654c03acc72935fa7e8600e1334289e1acb9623f2d1a399bf88c7"
        "06ecdb9bcc93e442310dac293bcf29c4e848",
        "34c0678a5da6e760d415d0d469af3c744049cd", "853e223dfaa8a4f94a3443b5328d0da0631214ad",
        "c50dfae43521ced1e1491b5de84f0d5f30248d6d2b", NULL },
      "728210335fddd0909cefe5428346b1cecbc68b6d2ce35a79ca4250b26a83bfc7" },
};

#endif
