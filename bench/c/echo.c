/*
 * echo PORT THREADS: sends each DNS query back as its own answer, over UDP and TCP. It looks at nothing and remembers nothing: what
 * it costs is what the kernel takes for a query and an answer, the limit for every nameserver.
 */
#define _GNU_SOURCE
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 64 << 10, EVENTS = 64 };

/* connection is a client's: what came and is not a whole message yet. */
struct connection {
	int fd;
	size_t held;
	uint8_t data[ROOM];
};

static size_t answer(uint8_t *packet, size_t length)
{
	if (length < 12)
		return 0;
	packet[2] |= 0x80; /* QR */
	return length;
}

/* answer_whole makes the whole messages at the start of data answers, and returns their length together. */
static size_t answer_whole(uint8_t *data, size_t held)
{
	size_t done = 0;

	while (held - done >= 2) {
		size_t length = data[done] << 8 | data[done + 1];

		if (held - done - 2 < length)
			break;
		answer(data + done + 2, length);
		done += 2 + length;
	}
	return done;
}

/* on_readable answers what can be read, and reports whether the connection goes on. That of a client which reads no answers ends. */
static int on_readable(struct connection *c)
{
	ssize_t got = recv(c->fd, c->data + c->held, ROOM - c->held, MSG_DONTWAIT);
	size_t done;

	if (got <= 0)
		return 0;
	c->held += got;
	done = answer_whole(c->data, c->held);
	if (done > 0 && send(c->fd, c->data, done, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)done)
		return 0;
	c->held -= done;
	memmove(c->data, c->data + done, c->held);
	return c->held < ROOM;
}

static void watch(int poller, int fd, struct connection *c)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

	if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static void on_client(int poller, int listening)
{
	int fd = accept(listening, NULL, NULL);
	struct connection *c;

	if (fd < 0)
		return;
	if (!(c = malloc(sizeof *c)))
		die("malloc");
	c->fd = fd;
	c->held = 0;
	watch(poller, fd, c);
}

static _Noreturn void serve_tcp(int port)
{
	int listening = listener(SOCK_STREAM, port), poller = epoll_create1(0);
	struct epoll_event events[EVENTS];

	watch(poller, listening, NULL);
	for (;;) {
		int n = epoll_wait(poller, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!c) {
				on_client(poller, listening);
			} else if (!on_readable(c)) {
				close(c->fd);
				free(c);
			}
		}
	}
}

/* serve_both is UDP on every other thread. */
static void *serve_both(void *port)
{
	static _Atomic int started;

	if (started++ % 2)
		serve_tcp(*(int *)port);
	serve_udp(*(int *)port, answer);
}

int main(int argc, char **argv)
{
	int port;

	if (argc != 3) {
		fprintf(stderr, "usage: echo PORT THREADS\n");
		return 2;
	}
	port = atoi(argv[1]);
	on_threads(2 * atoi(argv[2]), serve_both, &port);
}
