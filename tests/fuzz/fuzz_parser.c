/* fuzz_parser.c - parses and prints arbitrary bytes: no input may crash, hang or leak.
 *
 * Built with -DSTANDALONE it is a program that mutates seed files itself:
 * fuzz_parser SECONDS SEED FILE...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dsl/ast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Arena *a = arena_new();
	Diags *d = diags_new(a);
	const char *text = arena_strndup(a, (const char *)data, size);
	Ast *ast = ast_parse(a, d, diags_add_source(d, "fuzz.tile", text, size));
	FILE *out = fopen("/dev/null", "w");

	if (out) {
		ast_print(ast, out);
		diags_print(d, out, (DiagStyle){ .limit = 20 });
		fclose(out);
	}
	arena_free(a);
	return 0;
}

#ifdef STANDALONE

enum { MAX_INPUT = 1 << 16, MAX_EDITS = 8 };

typedef struct Seed {
	char *text;
	size_t len;
} Seed;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static size_t below(uint64_t *state, size_t n)
{
	return n ? (size_t)(next_random(state) % n) : 0;
}

static Seed read_seed(const char *path)
{
	Seed s = { .text = malloc(MAX_INPUT) };
	FILE *f = fopen(path, "rb");

	if (!f || !s.text) {
		perror(path);
		exit(2);
	}
	s.len = fread(s.text, 1, MAX_INPUT / 2, f);
	fclose(f);
	return s;
}

static size_t insert(char *buf, size_t len, size_t at, const char *text, size_t n)
{
	if (len + n > MAX_INPUT)
		return len;
	memmove(buf + at + n, buf + at, len - at);
	memcpy(buf + at, text, n);
	return len + n;
}

static size_t erase(char *buf, size_t len, size_t at, size_t n)
{
	if (n > len - at)
		n = len - at;
	memmove(buf + at, buf + at + n, len - at - n);
	return len - n;
}

/* Repeats one token many times: deep nesting is what breaks parsers. */
static size_t insert_many(char *buf, size_t len, size_t at, uint64_t *rng)
{
	static const char *const tokens[] = { "(", "{", "[", "-", "a+", "x[", "if(a)", "f(", "a?b:", "else ", "/*", "\"", "0x" };
	const char *t = tokens[below(rng, sizeof tokens / sizeof tokens[0])];

	for (size_t i = below(rng, 3000); i > 0; i--)
		len = insert(buf, len, at, t, strlen(t));
	return len;
}

static size_t mutate_once(char *buf, size_t len, const Seed *other, uint64_t *rng)
{
	static const char *const words[] = {
		"async ", "role ", "frag ", "shared ", "for (", "limit(", "+:", "..", "@", "f32", ";", "}", "{", "(", ")", "9999999999999999999", ".T", "ring ", "parallel (", "\xc3\xa9", "//", "*/",
	};
	const char *w = words[below(rng, sizeof words / sizeof words[0])];
	size_t at = below(rng, len + 1), from = below(rng, other->len + 1), n = below(rng, 200);

	switch (below(rng, 16)) {
	case 0: case 1: case 2: return erase(buf, len, at, 1 + below(rng, 4));
	case 3: case 4: return erase(buf, len, at, n);
	case 5: case 6: case 7: return insert(buf, len, at, w, strlen(w));
	case 8: case 9: case 10:
		return insert(buf, len, at, other->text + from, n < other->len - from ? n : other->len - from);
	case 11: return below(rng, 32) ? len : insert_many(buf, len, at, rng);
	default:
		if (at < len)
			buf[at] = (char)(below(rng, 4) ? 32 + below(rng, 96) : below(rng, 256));
		return len;
	}
}

static void run_one(char *buf, const Seed *seeds, size_t n, uint64_t *rng)
{
	const Seed *s = &seeds[below(rng, n)];
	size_t len = s->len;

	memcpy(buf, s->text, len);
	for (size_t edits = 1 + below(rng, MAX_EDITS); edits > 0; edits--)
		len = mutate_once(buf, len, &seeds[below(rng, n)], rng);
	LLVMFuzzerTestOneInput((const uint8_t *)buf, len);
}

int main(int argc, char **argv)
{
	size_t n = argc > 3 ? (size_t)argc - 3 : 0;
	Seed *seeds = calloc(n + 1, sizeof *seeds);
	char *buf = malloc(MAX_INPUT);
	unsigned long runs = 0;
	uint64_t rng;
	time_t end;

	if (n == 0 || !seeds || !buf) {
		fprintf(stderr, "usage: fuzz_parser SECONDS SEED FILE...\n");
		free(seeds);
		free(buf);
		return 2;
	}
	rng = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
	for (size_t i = 0; i < n; i++)
		seeds[i] = read_seed(argv[3 + i]);
	for (end = time(NULL) + atol(argv[1]); time(NULL) < end; runs++)
		run_one(buf, seeds, n, &rng);
	printf("%lu iterations\n", runs);
	for (size_t i = 0; i < n; i++)
		free(seeds[i].text);
	free(seeds);
	free(buf);
	return 0;
}

#endif
