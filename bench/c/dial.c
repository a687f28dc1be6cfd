/*
 * dial FILE PORT CONNECTIONS RATE SECONDS: sends the A queries of a file (a name and a type per
 * line) to 127.0.0.1 repeatedly, one TCP connection per query, with at most CONNECTIONS at a time.
 * RATE is in queries per second; 0: the next query follows each answer. It prints the result in
 * dnsperf's words, and with a rate also one line per answer with its latency, from the start of the
 * connection. The client closes first, as stub resolvers do.
 */
#define _GNU_SOURCE
#include "batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 12, TYPE_A = 1, CLASS_IN = 1, LONGEST = 300, EVENTS = 64, THREADS = 2, RCODES = 16 };

/* Closed connections keep their port for a minute. With several source addresses, as pods have,
 * the ports of one do not run out. */
enum { SOURCES = 20, FIRST_SOURCE = 0x7f000101 /* 127.0.1.1 */ };

static const double patience = 2; /* seconds until a query counts as lost */
static const double pause_ms = 50; /* longest sleep: deadlines are checked so often */

struct query {
	char name[LONGEST];
	uint8_t framed[2 + HEADER + LONGEST + 4];
	size_t length;
};

static struct query *queries;
static size_t query_count;

/* connection is a slot for one connection at a time; fd is -1 if it is free. */
struct connection {
	int fd, sent;
	in_addr_t source;
	double begun;
	const struct query *query;
	size_t held;
	uint8_t data[2 + PACKET];
};

struct latency {
	const struct query *query;
	int rcode;
	double seconds;
};

/* client is a thread with its share of the connections and the rate. */
struct client {
	pthread_t thread;
	int number, poller, timer, connections, open;
	long owed; /* queries that are due; those that the window had no room for are sent later */
	struct connection *all;
	size_t next; /* query */
	long sent, completed, codes[RCODES];
	struct latency *latencies;
	double last; /* answer */
};

static int port;
static double rate, begin, end;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* encode builds the query for a name. Each label's length replaces the dot before the label. */
static void encode(struct query *q, unsigned id)
{
	uint8_t *p = q->framed + 2, *length;

	memcpy(p, (uint8_t[HEADER]){id >> 8, id, 1, 0, 0, 1}, HEADER);
	p += HEADER;
	length = p++;
	for (const char *c = q->name; *c; c++) {
		if (*c == '.') {
			*length = p - length - 1;
			length = p++;
		} else {
			*p++ = *c;
		}
	}
	*length = p - length - 1;
	memcpy(p, (uint8_t[5]){0, 0, TYPE_A, 0, CLASS_IN}, 5);
	q->length = p + 5 - q->framed;
	q->framed[0] = (q->length - 2) >> 8;
	q->framed[1] = q->length - 2;
}

static void load(const char *path)
{
	FILE *file = fopen(path, "r");
	char name[LONGEST], type[8];

	if (!file)
		die(path);
	while (fscanf(file, "%255s %7s", name, type) == 2) {
		if (strcmp(type, "A")) {
			fprintf(stderr, "%s: %s is not asked for\n", path, type);
			exit(2);
		}
		if (!(query_count & (query_count - 1)) && !(queries = realloc(queries, (2 * query_count + 1) * sizeof *queries)))
			die("realloc");
		strcpy(queries[query_count].name, name);
		encode(&queries[query_count], query_count & 0xffff);
		query_count++;
	}
	fclose(file);
	if (!query_count) {
		fprintf(stderr, "%s: no queries\n", path);
		exit(2);
	}
}

static void hang_up(struct client *cl, struct connection *c)
{
	close(c->fd);
	c->fd = -1;
	cl->open--;
}

/* ask sends the query if the connection is established. It returns whether it may still succeed. */
static int ask(struct connection *c)
{
	ssize_t n = send(c->fd, c->query->framed, c->query->length, MSG_NOSIGNAL);

	c->sent = n == (ssize_t)c->query->length;
	return c->sent || (n < 0 && (errno == EAGAIN || errno == ENOTCONN));
}

static void dial(struct client *cl, struct connection *c)
{
	struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = c->source};
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event event = {.data.ptr = c};
	int on = 1;

	if ((c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) < 0)
		die("socket");
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
	if (bind(c->fd, (struct sockaddr *)&source, sizeof source))
		die("bind");
	cl->open++;
	cl->sent++;
	c->begun = now();
	c->held = 0;
	c->query = &queries[cl->next];
	cl->next = (cl->next + THREADS) % query_count;
	if (connect(c->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS)
		die("connect");
	if (!ask(c)) {
		hang_up(cl, c);
		return;
	}
	event.events = c->sent ? EPOLLIN : EPOLLIN | EPOLLOUT;
	if (epoll_ctl(cl->poller, EPOLL_CTL_ADD, c->fd, &event))
		die("epoll_ctl");
}

static void note(struct client *cl, struct connection *c)
{
	int rcode = c->data[2 + 3] & 0xf;

	cl->last = now();
	cl->codes[rcode]++;
	if (cl->latencies)
		cl->latencies[cl->completed] = (struct latency){c->query, rcode, cl->last - c->begun};
	cl->completed++;
}

/* on_event continues a connection until its answer is complete. */
static void on_event(struct client *cl, struct connection *c)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	ssize_t got;
	size_t length;

	if (!c->sent) {
		if (!ask(c))
			hang_up(cl, c);
		else if (c->sent)
			epoll_ctl(cl->poller, EPOLL_CTL_MOD, c->fd, &event);
		return;
	}
	got = recv(c->fd, c->data + c->held, sizeof c->data - c->held, 0);
	if (got < 0 && errno == EAGAIN)
		return;
	c->held += got > 0 ? got : 0;
	length = c->data[0] << 8 | c->data[1];
	if (got > 0 && (c->held < 2 || c->held < 2 + length))
		return;
	if (got > 0 && length >= HEADER && !memcmp(c->data + 2, c->query->framed + 2, 2))
		note(cl, c);
	hang_up(cl, c);
}

/* asking returns whether to continue. Every thread asks at least once, even if it starts late. */
static int asking(const struct client *cl, double at)
{
	return at < end || !cl->sent;
}

/* work starts the due connections, and ends those that take too long. */
static void work(struct client *cl, double at)
{
	for (int i = 0; i < cl->connections; i++) {
		struct connection *c = &cl->all[i];

		if (c->fd >= 0 && at - c->begun > patience)
			hang_up(cl, c);
		if (c->fd < 0 && asking(cl, at) && (!rate || cl->owed > 0)) {
			dial(cl, c);
			cl->owed--;
		}
	}
}

static void *run(void *arg)
{
	struct client *cl = arg;
	struct epoll_event events[EVENTS];
	double at = now();

	for (; asking(cl, at) || cl->open; at = now()) {
		int n;

		work(cl, at);
		n = epoll_wait(cl->poller, events, EVENTS, pause_ms);
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;
			uint64_t due;

			if (c)
				on_event(cl, c);
			else if (read(cl->timer, &due, sizeof due) == sizeof due)
				cl->owed += due;
		}
	}
	return NULL;
}

static struct timespec timespec(double seconds)
{
	return (struct timespec){.tv_sec = seconds, .tv_nsec = (seconds - (long)seconds) * 1e9};
}

static void prepare(struct client *cl, int connections)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	double interval = THREADS / rate;

	cl->next = cl->number % query_count;
	cl->connections = connections / THREADS;
	if (!(cl->all = calloc(cl->connections, sizeof *cl->all)))
		die("calloc");
	for (int i = 0; i < cl->connections; i++) {
		cl->all[i].fd = -1;
		cl->all[i].source = htonl(FIRST_SOURCE + (i * THREADS + cl->number) % SOURCES);
	}
	cl->poller = epoll_create1(0);
	if (!rate)
		return;
	if (!(cl->latencies = calloc(2 + 2 * (end - begin) * rate, sizeof *cl->latencies)))
		die("calloc");
	cl->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	/* The threads take turns. */
	if (timerfd_settime(cl->timer, 0, &(struct itimerspec){timespec(interval), timespec((cl->number + 1) / rate)}, NULL))
		die("timerfd_settime");
	if (epoll_ctl(cl->poller, EPOLL_CTL_ADD, cl->timer, &event))
		die("epoll_ctl");
}

static const char *const names[RCODES] = {
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
	"NXRRSET", "NOTAUTH", "NOTZONE", "RCODE11", "RCODE12", "RCODE13", "RCODE14", "RCODE15",
};

static void print(struct client *clients)
{
	long sent = 0, completed = 0;
	double last = begin;
	const char *separator = "";

	for (struct client *cl = clients; cl < clients + THREADS; cl++) {
		sent += cl->sent;
		completed += cl->completed;
		last = cl->last > last ? cl->last : last;
		for (long i = 0; cl->latencies && i < cl->completed; i++)
			printf("> %s %s A %.6f\n", names[cl->latencies[i].rcode], cl->latencies[i].query->name, cl->latencies[i].seconds);
	}
	printf("Queries sent: %ld\nQueries completed: %ld\nQueries lost: %ld\n", sent, completed, sent - completed);
	printf("%s", completed ? "Response codes: " : "");
	for (int i = 0; i < RCODES; i++) {
		long n = clients[0].codes[i] + clients[1].codes[i];

		if (n > 0) {
			printf("%s%s %ld (%.2f%%)", separator, names[i], n, 100.0 * n / completed);
			separator = ", ";
		}
	}
	printf("%sRun time (s): %.6f\n", completed ? "\n" : "", last - begin);
}

int main(int argc, char **argv)
{
	static struct client clients[THREADS];
	int connections = argc == 6 ? atoi(argv[3]) : 0;

	if (connections < THREADS) {
		fprintf(stderr, "usage: %s FILE PORT CONNECTIONS RATE SECONDS\n", argv[0]);
		return 2;
	}
	load(argv[1]);
	port = atoi(argv[2]);
	rate = atof(argv[4]);
	begin = now();
	end = begin + atof(argv[5]);
	for (int i = 0; i < THREADS; i++) {
		clients[i].number = i;
		prepare(&clients[i], connections);
	}
	for (int i = 0; i < THREADS; i++) {
		if ((errno = pthread_create(&clients[i].thread, NULL, run, &clients[i])))
			die("pthread_create");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(clients[i].thread, NULL);
	print(clients);
	return 0;
}
