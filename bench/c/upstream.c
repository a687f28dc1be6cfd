/*
 * upstream PORT THREADS ADDRESSES: the nameserver that forwarders ask. Every name exists, with the
 * same A and AAAA record and no other types. Below cluster.local, only the services svc-N.ns-M.svc
 * exist, with an A record. Nothing exists below corp.example.com.
 */
#include "batch.h"

#include <string.h>
#include <strings.h>

enum { HEADER = 12, TYPE_A = 1, TYPE_SOA = 6, TYPE_AAAA = 28, TYPE_OPT = 41, CLASS_IN = 1, TTL = 3600 /* longer than a workload */, NXDOMAIN = 3 };
enum { LONGEST = 512 }; /* maximum length of a query, so that the answer fits */

static const uint8_t cluster[] = "\7cluster\5local", corp[] = "\4corp\7example\3com"; /* each ends with the root, a zero octet */

/* question is the parsed question and its zone. */
struct question {
	size_t end;  /* offset after its class */
	size_t zone; /* offset of its zone's name; HEADER if it is in none of the above */
	int labels;  /* below its zone */
	int type;
	const uint8_t *suffix; /* the zone's name */
};

static uint8_t *put16(uint8_t *p, unsigned value)
{
	*p++ = value >> 8;
	*p++ = value;
	return p;
}

static uint8_t *put32(uint8_t *p, unsigned long value)
{
	return put16(put16(p, value >> 16 & 0xffff), value & 0xffff);
}

/*
 * is returns whether the rest of a name in wire format is the zone's name. Ignoring case is safe,
 * because label lengths are not letters.
 */
static int is(const uint8_t *rest, size_t length, const uint8_t *zone, size_t size)
{
	return length == size && strncasecmp((const char *)rest, (const char *)zone, size) == 0;
}

static int parse(const uint8_t *packet, size_t length, struct question *q)
{
	size_t at = HEADER, name;

	while (at < length && packet[at] != 0)
		at += 1 + packet[at];
	q->end = (name = at + 1) + 4;
	if (q->end > length)
		return 0;
	q->type = packet[name] << 8 | packet[name + 1];
	q->zone = HEADER;
	q->suffix = NULL;
	q->labels = 0;
	for (at = HEADER; packet[at] != 0; at += 1 + packet[at], q->labels++) {
		if (is(packet + at, name - at, cluster, sizeof cluster))
			q->suffix = cluster;
		else if (is(packet + at, name - at, corp, sizeof corp))
			q->suffix = corp;
		else
			continue;
		q->zone = at;
		break;
	}
	return 1;
}

/* begins returns whether the label at p begins with a string. */
static int begins(const uint8_t *p, const char *with)
{
	size_t length = strlen(with);

	return *p >= length && strncasecmp((const char *)p + 1, with, length) == 0;
}

/* in_cluster returns whether a name of cluster.local exists: svc-N.ns-M.svc and its parents. */
static int in_cluster(const uint8_t *packet, const struct question *q)
{
	const uint8_t *label = packet + HEADER;

	switch (q->labels) {
	case 3:
		if (!begins(label, "svc-"))
			return 0;
		label += 1 + *label; /* fall through */
	case 2:
		if (!begins(label, "ns-"))
			return 0;
		label += 1 + *label; /* fall through */
	case 1:
		return *label == 3 && begins(label, "svc");
	default:
		return q->labels == 0;
	}
}

static uint8_t *put_record(uint8_t *p, size_t owner, int type)
{
	p = put16(p, 0xc000 | owner); /* a pointer to the name */
	p = put16(p, type);
	p = put16(p, CLASS_IN);
	return put32(p, TTL);
}

static uint8_t *put_address(uint8_t *p, int type)
{
	static const uint8_t address[16] = {0x20, 1, 0xd, 0xb8, [15] = 80};
	static const uint8_t address4[4] = {192, 0, 2, 80};
	size_t length = type == TYPE_A ? sizeof address4 : sizeof address;

	p = put16(put_record(p, HEADER, type), length);
	memcpy(p, type == TYPE_A ? address4 : address, length);
	return p + length;
}

/* put_soa appends the SOA of a negative answer. Its last number is the negative TTL (RFC 2308). */
static uint8_t *put_soa(uint8_t *p, size_t zone)
{
	p = put16(put_record(p, zone, TYPE_SOA), 2 + 2 + 5 * 4);
	p = put16(put16(p, 0xc000 | zone), 0xc000 | zone);
	for (int i = 0; i < 5; i++)
		p = put32(p, TTL);
	return p;
}

static uint8_t *put_opt(uint8_t *p)
{
	*p++ = 0; /* the root */
	p = put16(put16(p, TYPE_OPT), PACKET);
	return put16(put32(p, 0), 0);
}

static size_t answer(uint8_t *packet, size_t length)
{
	struct question q;
	uint8_t *p;
	int edns, exists, address;

	if (length < HEADER || length > LONGEST || packet[2] & 0x80 || !parse(packet, length, &q))
		return 0;
	edns = length > q.end; /* only an OPT record follows the question of a query */
	exists = q.suffix == NULL || (q.suffix == cluster ? in_cluster(packet, &q) : q.labels == 0);
	address = exists && (q.suffix == NULL || q.labels == 3) && (q.type == TYPE_A || (q.type == TYPE_AAAA && q.suffix == NULL));
	p = packet + q.end;
	p = address ? put_address(p, q.type) : put_soa(p, q.zone);
	if (edns)
		p = put_opt(p);

	packet[2] = 0x80 | (packet[2] & 0x01);                           /* QR, and RD of the query */
	packet[3] = 0x80 | (packet[3] & 0x10) | (exists ? 0 : NXDOMAIN); /* RA, and CD of the query */
	put16(put16(put16(packet + 6, address), !address), edns);
	return p - packet;
}

int main(int argc, char **argv)
{
	serve(argc, argv, answer);
}
