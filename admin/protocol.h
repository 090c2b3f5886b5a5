/*
 * protocol.h - how agate talks to agated: one JSON object a line, over a unix stream socket.
 *
 *   request  {"v":1, "cmd":"pool create", "args":{...}, "line":"what the user typed, for the pool's history"}
 *   answer   {"v":1, "ok":true, "result":...}
 *            {"v":1, "ok":false, "error":{"number":17, "code":"EEXIST", "message":"...", "untouched":"...",
 * "next":"..."}}
 *
 * A connection carries any number of requests, one after the other. Commands never wait for pool
 * I/O longer than a command's own work: a suspended pool answers with an error.
 */
#ifndef AGATE_ADMIN_PROTOCOL_H
#define AGATE_ADMIN_PROTOCOL_H

#define AGATE_PROTOCOL_VERSION 1
#define AGATE_SOCKET_DEFAULT "/run/agate/agate.sock"
#define AGATE_SOCKET_ENV "AGATE_SOCKET"
#define AGATE_REQUEST_BYTES_MAX (1u << 20)
#define AGATE_CONFIG_DEFAULT "/etc/agate/agated.conf"

#endif
