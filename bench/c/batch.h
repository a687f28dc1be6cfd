/*
 * The server code that echo and upstream share. It answers DNS queries on all threads, over UDP in
 * batches.
 */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

enum { PACKET = 1232 };

/*
 * An answer_fn replaces the query of that length with its answer, and returns the answer's length,
 * at most PACKET; 0: no answer.
 */
typedef size_t answer_fn(uint8_t *packet, size_t length);

/*
 * serve is a program's main function. Its arguments are the port, the number of threads per
 * address, for UDP and TCP each, and the number of addresses, from 127.0.0.1 on.
 */
_Noreturn void serve(int argc, char **argv, answer_fn *answer);

/* serve_udp and serve_tcp answer on a socket, in the calling thread. They do not return. */
_Noreturn void serve_udp(int fd, answer_fn *answer);
_Noreturn void serve_tcp(int listening, answer_fn *answer);

/* die prints what failed, and errno, and ends the program. */
_Noreturn void die(const char *what);

#endif
