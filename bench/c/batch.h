/* Answers UDP packets in batches on all threads: what the echo and the upstream nameserver share. */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

enum { PACKET = 1232 };

/* An answer_fn makes the query of that length the answer, in place, and returns its length, at most PACKET; 0: there is none. */
typedef size_t answer_fn(uint8_t *packet, size_t length);

/* listener opens a socket on 127.0.0.1 that shares the port with those of the other threads; type is SOCK_DGRAM or SOCK_STREAM. */
int listener(int type, int port);

/* serve_udp answers until it is killed. */
_Noreturn void serve_udp(int port, answer_fn *answer);

/* on_threads runs a function n times at once, and does not return. */
_Noreturn void on_threads(int n, void *(*run)(void *), void *arg);

/* die ends the program with what went wrong, and errno. */
_Noreturn void die(const char *what);

#endif
