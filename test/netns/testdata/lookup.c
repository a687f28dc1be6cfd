// lookup COUNT NAME looks NAME up COUNT times with getaddrinfo(3), each time with another number for its %, and prints what
// came of the last time: the canonical name and the addresses in the order of their text; "none", or "again" when it may
// exist.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX 64

static int compare(const void *a, const void *b) { return strcmp(a, b); }

// Which of the two codes there are for no name is new in musl 1.2.4.
static const char *error(int code)
{
	switch (code) {
	case EAI_NONAME:
	case EAI_NODATA:
		return "none";
	case EAI_AGAIN:
		return "again";
	}
	return gai_strerror(code);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME}, *found = NULL;
	char text[MAX][INET6_ADDRSTRLEN], name[256];
	int n = 0, code = EAI_FAIL;

	if (argc != 3)
		return 2;
	size_t fixed = strcspn(argv[2], "%");
	for (long left = atol(argv[1]); left > 0; left--) {
		if (found)
			freeaddrinfo(found);
		found = NULL;
		if (argv[2][fixed])
			snprintf(name, sizeof name, "%.*s%ld%s", (int)fixed, argv[2], left, argv[2] + fixed + 1);
		else
			snprintf(name, sizeof name, "%s", argv[2]);
		code = getaddrinfo(name, NULL, &hints, &found);
	}
	if (code) {
		puts(error(code));
		return 0;
	}
	for (struct addrinfo *a = found; a && n < MAX; a = a->ai_next) {
		const void *address = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
							      : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
		if (inet_ntop(a->ai_family, address, text[n], sizeof text[n]))
			n++;
	}
	qsort(text, n, sizeof *text, compare);
	printf("%s", found->ai_canonname);
	for (int i = 0; i < n; i++)
		printf(" %s", text[i]);
	puts("");
	return 0;
}
