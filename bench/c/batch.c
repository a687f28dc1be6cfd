#define _GNU_SOURCE
#include "batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BATCH = 64, THREADS = 128 };

void die(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * listener opens a socket on an address, counted from 127.0.0.1, that shares the port with those of
 * the other threads. Its type is SOCK_DGRAM or SOCK_STREAM.
 */
static int listener(int type, int number, int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number),
	};
	int fd = socket(AF_INET, type, 0), on = 1, room = 4 << 20;

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on))
		die("setsockopt");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room); /* as much as net.core.rmem_max allows */
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		die("bind");
	if (type == SOCK_STREAM && listen(fd, 128))
		die("listen");
	return fd;
}

/* send_all sends a batch. The socket blocks, so only an error makes sendmmsg(2) send fewer. */
static void send_all(int fd, struct mmsghdr *out, int n)
{
	for (int sent = 0; sent < n;) {
		int k = sendmmsg(fd, out + sent, n - sent, 0);

		sent += k > 0 ? k : 1; /* the client of that one is gone */
	}
}

void serve_udp(int fd, answer_fn *answer)
{
	static _Thread_local uint8_t packets[BATCH][PACKET];
	static _Thread_local struct sockaddr_in clients[BATCH];
	struct iovec parts[BATCH];
	struct mmsghdr in[BATCH], out[BATCH];

	for (;;) {
		int got, n = 0;

		for (int i = 0; i < BATCH; i++) {
			parts[i] = (struct iovec){packets[i], PACKET};
			in[i].msg_hdr = (struct msghdr){
				.msg_name = &clients[i], .msg_namelen = sizeof clients[i], .msg_iov = &parts[i], .msg_iovlen = 1,
			};
		}
		got = recvmmsg(fd, in, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < got; i++) {
			parts[i].iov_len = answer(packets[i], in[i].msg_len);
			if (parts[i].iov_len > 0)
				out[n++] = in[i];
		}
		send_all(fd, out, n);
	}
}

/* task is the work of one thread. */
struct task {
	int type, fd;
	answer_fn *answer;
};

static void *run(void *arg)
{
	struct task *t = arg;

	if (t->type == SOCK_DGRAM)
		serve_udp(t->fd, t->answer);
	serve_tcp(t->fd, t->answer);
}

/* All sockets exist before the first answer: a client that got one over UDP can use TCP. */
void serve(int argc, char **argv, answer_fn *answer)
{
	static struct task tasks[2 * THREADS];
	int threads = argc == 4 ? atoi(argv[2]) : 0, addresses = argc == 4 ? atoi(argv[3]) : 0;
	int n = 2 * threads * addresses;
	pthread_t thread;

	if (threads < 1 || threads > THREADS || addresses < 1 || n > 2 * THREADS) {
		fprintf(stderr, "usage: %s PORT THREADS ADDRESSES\n", argv[0]);
		exit(2);
	}
	for (int i = 0; i < n; i++) {
		int type = i % 2 ? SOCK_STREAM : SOCK_DGRAM;

		tasks[i] = (struct task){type, listener(type, i / 2 % addresses, atoi(argv[1])), answer};
	}
	for (int i = 1; i < n; i++) {
		if ((errno = pthread_create(&thread, NULL, run, &tasks[i])))
			die("pthread_create");
	}
	run(&tasks[0]);
	exit(1); /* it does not return */
}
