#define _GNU_SOURCE
#include "batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 64 << 10, EVENTS = 64 };

/* connection is a client's connection, with the data of an incomplete message. */
struct connection {
	int fd;
	size_t held;
	uint8_t data[ROOM];
};

/* flush sends answers, and returns whether that succeeded. It does not wait for slow readers. */
static int flush(int fd, const uint8_t *data, size_t length)
{
	return length == 0 || send(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/*
 * answer_whole answers the complete messages and keeps the rest. It returns whether the connection
 * stays open.
 */
static int answer_whole(struct connection *c, answer_fn *answer)
{
	static _Thread_local uint8_t out[ROOM];
	size_t done = 0, filled = 0;

	while (c->held - done >= 2) {
		size_t length = c->data[done] << 8 | c->data[done + 1], answered;

		if (length > PACKET)
			return 0;
		if (c->held - done - 2 < length)
			break;
		if (filled + 2 + PACKET > ROOM) {
			if (!flush(c->fd, out, filled))
				return 0;
			filled = 0;
		}
		memcpy(out + filled + 2, c->data + done + 2, length);
		answered = answer(out + filled + 2, length);
		out[filled] = answered >> 8;
		out[filled + 1] = answered;
		filled += answered > 0 ? 2 + answered : 0;
		done += 2 + length;
	}
	c->held -= done;
	memmove(c->data, c->data + done, c->held);
	return flush(c->fd, out, filled);
}

/* on_readable answers the readable messages. It returns whether the connection stays open. */
static int on_readable(struct connection *c, answer_fn *answer)
{
	ssize_t got = recv(c->fd, c->data + c->held, ROOM - c->held, MSG_DONTWAIT);

	if (got <= 0)
		return 0;
	c->held += got;
	return answer_whole(c, answer);
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

void serve_tcp(int listening, answer_fn *answer)
{
	int poller = epoll_create1(0);
	struct epoll_event events[EVENTS];

	watch(poller, listening, NULL);
	for (;;) {
		int n = epoll_wait(poller, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!c) {
				on_client(poller, listening);
			} else if (!on_readable(c, answer)) {
				close(c->fd);
				free(c);
			}
		}
	}
}
