/* nfsclient_int.h - what the two halves of the client share. */
#ifndef AGATE_TESTS_NFSCLIENT_INT_H
#define AGATE_TESTS_NFSCLIENT_INT_H

#include "tests/lib/nfsclient.h"

/* codec NULL: no body. */
int nfsc_encode_with(struct nfsc *c, uint32_t prog, uint32_t vers, uint32_t proc, xdrproc_t codec,
    const void *args, struct nfsc_msg *out) WARN_UNUSED;
int nfsc_decode_with(struct nfsc *c, const struct nfsc_msg *reply, xdrproc_t codec, void *res,
    size_t res_size) WARN_UNUSED;

#endif
