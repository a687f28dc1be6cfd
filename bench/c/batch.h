/* Answers DNS queries on all threads: what the echo and the upstream nameserver share. UDP is served in batches. */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

enum { PACKET = 1232 };

/* An answer_fn makes the query of that length the answer, in place, and returns its length, at most PACKET; 0: there is none. */
typedef size_t answer_fn(uint8_t *packet, size_t length);

/*
 * serve is a program's main. Its arguments are a port, how many threads UDP and TCP have each at an
 * address, and how many addresses there are, from 127.0.0.1 on.
 */
_Noreturn void serve(int argc, char **argv, answer_fn *answer);

/* serve_udp and serve_tcp answer at a socket, on the calling thread, until the program is killed. */
_Noreturn void serve_udp(int fd, answer_fn *answer);
_Noreturn void serve_tcp(int listening, answer_fn *answer);

/* die ends the program with what went wrong, and errno. */
_Noreturn void die(const char *what);

#endif
