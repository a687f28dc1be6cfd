/*
 * echo PORT THREADS ADDRESSES: sends each DNS query back as its own answer, over UDP and TCP. It
 * parses nothing and caches nothing. Its cost is the kernel's cost for a query and an answer, the
 * lower limit for every nameserver.
 */
#include "batch.h"

static size_t answer(uint8_t *packet, size_t length)
{
	if (length < 12)
		return 0;
	packet[2] |= 0x80; /* QR */
	return length;
}

int main(int argc, char **argv)
{
	serve(argc, argv, answer);
}
