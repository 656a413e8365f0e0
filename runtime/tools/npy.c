/* npy.c - reads and writes NumPy's .npy files.
 *
 * A file is "\x93NUMPY", a version, the length of a header, the header - a Python dict with descr, fortran_order and
 * shape, padded so that the data is 64-byte aligned - and the data.
 */
#define _DEFAULT_SOURCE /* realpath */
#include "runtime/tools/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX_V1 = 10, PREFIX_V2 = 12, ALIGNMENT = 64 };

static const char magic[6] = "\x93NUMPY";

typedef struct Header {
	const char *p, *end;
	char *why;
	size_t why_size;
} Header;

static bool bad(const Header *h, const char *what)
{
	snprintf(h->why, h->why_size, "%s", what);
	return false;
}

/* ---- the header, a Python dict ---- */

static void skip_spaces(Header *h)
{
	while (h->p < h->end && (*h->p == ' ' || *h->p == '\n' || *h->p == '\t'))
		h->p++;
}

static bool accept(Header *h, const char *text)
{
	size_t n = strlen(text);

	skip_spaces(h);
	if ((size_t)(h->end - h->p) < n || memcmp(h->p, text, n))
		return false;
	h->p += n;
	return true;
}

static bool read_quoted(Header *h, const char **out, size_t *length)
{
	skip_spaces(h);
	if (h->p == h->end || (*h->p != '\'' && *h->p != '"'))
		return false;
	char quote = *h->p++;
	const char *start = h->p;
	while (h->p < h->end && *h->p != quote)
		h->p++;
	if (h->p == h->end)
		return false;
	*out = start;
	*length = (size_t)(h->p++ - start);
	return true;
}

static bool is_supported(char kind, unsigned bytes)
{
	switch (kind) {
	case 'f': return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; /* 1: ml_dtypes' float8_e5m2 */
	case 'i':
	case 'u': return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
	case 'b': return bytes == 1;
	case 'V': return bytes == 1 || bytes == 2; /* what NumPy makes of ml_dtypes' float8_e4m3fn and bfloat16 */
	default: return false;
	}
}

static bool read_descr(Header *h, Npy *out)
{
	const char *d;
	size_t n;

	if (!read_quoted(h, &d, &n))
		return bad(h, "its elements are records, not numbers");
	if (n >= 1 && d[0] == '>')
		return bad(h, "it is big-endian: save it with .astype(a.dtype.newbyteorder('<'))");
	if (n != 3 || !strchr("<|=", d[0]) || d[2] < '0' || d[2] > '9' || !is_supported(d[1], (unsigned)(d[2] - '0'))) {
		snprintf(h->why, h->why_size, "element type '%.*s' is none of f2 f4 f8 i1..i8 u1..u8 b1 V2 (bfloat16) V1 (float8_e4m3fn) f1 (float8_e5m2)",
		         n > 20 ? 20 : (int)n, d);
		return false;
	}
	out->kind = d[1];
	out->item_bytes = (unsigned)(d[2] - '0');
	return true;
}

static bool read_order(Header *h)
{
	if (accept(h, "False"))
		return true;
	if (accept(h, "True"))
		return bad(h, "it is in Fortran order: save numpy.ascontiguousarray(a)");
	return bad(h, "fortran_order is neither True nor False");
}

static bool read_extent(Header *h, int64_t *out)
{
	int64_t v = 0;
	const char *start = h->p;

	for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->p - '0', &v))
			return bad(h, "an extent is too large");
	}
	*out = v;
	return h->p > start ? true : bad(h, "its shape is not a tuple of numbers");
}

static bool read_shape(Header *h, Npy *out)
{
	if (!accept(h, "("))
		return bad(h, "its shape is not a tuple");
	while (!accept(h, ")")) {
		if (out->rank == NPY_MAX_RANK)
			return bad(h, "it has more than 8 dimensions");
		if (!read_extent(h, &out->extents[out->rank]))
			return false;
		out->rank++;
		if (!accept(h, ",") && !(h->p < h->end && *h->p == ')'))
			return bad(h, "its shape is not a tuple of numbers");
	}
	return true;
}

static bool read_dict(Header *h, Npy *out)
{
	bool descr = false, order = false, shape = false;
	const char *key;
	size_t n;

	if (!accept(h, "{"))
		return bad(h, "its header is not a dict");
	while (!accept(h, "}")) {
		if (!read_quoted(h, &key, &n) || !accept(h, ":"))
			return bad(h, "its header is damaged");
		if (n == 5 && !memcmp(key, "descr", n) && !descr)
			descr = read_descr(h, out);
		else if (n == 13 && !memcmp(key, "fortran_order", n) && !order)
			order = read_order(h);
		else if (n == 5 && !memcmp(key, "shape", n) && !shape)
			shape = read_shape(h, out);
		else
			return bad(h, "its header has an unknown or repeated key");
		if (h->why[0])
			return false;
		accept(h, ",");
	}
	return descr && order && shape ? true : bad(h, "its header lacks descr, fortran_order or shape");
}

/* ---- the file ---- */

static bool count_elements(Npy *n, size_t available, char *why, size_t why_size)
{
	uint64_t count = 1, bytes;
	bool empty = false, overflow = false;

	for (int i = 0; i < n->rank; i++) {
		empty |= n->extents[i] == 0;
		overflow |= __builtin_mul_overflow(count, (uint64_t)n->extents[i], &count);
	}
	if (empty)
		count = 0, overflow = false;
	overflow |= __builtin_mul_overflow(count, (uint64_t)n->item_bytes, &bytes);
	if (overflow || bytes > available) {
		snprintf(why, why_size, "its shape needs more data than the %zu bytes there are", available);
		return false;
	}
	n->count = (size_t)count;
	return true;
}

/* Start of the header and its length, 0 when the file is too short. */
static size_t find_header(const uint8_t *p, size_t size, size_t *length, Header *h)
{
	if (size < PREFIX_V1 || memcmp(p, magic, sizeof magic)) {
		bad(h, "it is no .npy file");
		return 0;
	}
	if (p[6] != 1 && p[6] != 2) {
		bad(h, "it is of a version other than 1 and 2");
		return 0;
	}
	size_t start = p[6] == 1 ? PREFIX_V1 : PREFIX_V2;
	*length = p[8] | (size_t)p[9] << 8;
	if (start == PREFIX_V2 && size >= PREFIX_V2)
		*length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	if (size < start || *length > size - start) {
		bad(h, "its header is cut off");
		return 0;
	}
	return start;
}

bool npy_parse(const void *bytes, size_t size, Npy *out, char *why, size_t why_size)
{
	const uint8_t *p = bytes;
	size_t length = 0;
	Header h = { .why = why, .why_size = why_size };
	Npy n = { .data = NULL };

	why[0] = 0;
	size_t start = find_header(p, size, &length, &h);
	if (!start)
		return false;
	h.p = (const char *)p + start;
	h.end = h.p + length;
	if (!read_dict(&h, &n) || !count_elements(&n, size - start - length, why, why_size))
		return false;
	n.data = malloc(n.count * n.item_bytes + 1);
	if (!n.data)
		return bad(&h, "out of memory");
	memcpy(n.data, p + start + length, n.count * n.item_bytes);
	*out = n;
	return true;
}

static bool fail_errno(char *why, size_t why_size, int error)
{
	snprintf(why, why_size, "%s", strerror(error));
	return false;
}

static bool read_file(const char *path, uint8_t **out, size_t *size, char *why, size_t why_size)
{
	struct stat st;
	FILE *f = fopen(path, "rb");

	if (!f)
		return fail_errno(why, why_size, errno);
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
		fclose(f);
		snprintf(why, why_size, "not a regular file");
		return false;
	}
	uint8_t *bytes = malloc((size_t)st.st_size + 1);
	size_t n = bytes ? fread(bytes, 1, (size_t)st.st_size, f) : 0;
	bool ok = bytes && n == (size_t)st.st_size;
	int error = !bytes ? ENOMEM : ferror(f) ? errno : EIO;
	fclose(f);
	if (!ok) {
		free(bytes);
		return fail_errno(why, why_size, error);
	}
	*out = bytes;
	*size = n;
	return true;
}

bool npy_read(const char *path, Npy *out, char *why, size_t why_size)
{
	uint8_t *bytes = NULL;
	size_t size = 0;

	if (!read_file(path, &bytes, &size, why, why_size))
		return false;
	bool ok = npy_parse(bytes, size, out, why, why_size);
	free(bytes);
	return ok;
}

static size_t make_header(const Npy *n, char *out, size_t size)
{
	size_t used = (size_t)snprintf(out, size, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
	                               n->item_bytes == 1 ? '|' : '<', n->kind, n->item_bytes);

	for (int i = 0; i < n->rank; i++)
		used += (size_t)snprintf(out + used, size - used, "%" PRId64 "%s", n->extents[i],
		                         i + 1 < n->rank ? ", " : n->rank == 1 ? "," : "");
	used += (size_t)snprintf(out + used, size - used, "), }");
	while ((PREFIX_V1 + used + 1) % ALIGNMENT)
		out[used++] = ' ';
	out[used++] = '\n';
	return used;
}

static bool write_stream(FILE *f, const Npy *n)
{
	char header[512];
	size_t length = make_header(n, header, sizeof header - ALIGNMENT);
	unsigned char prefix[PREFIX_V1] = { 0, 0, 0, 0, 0, 0, 1, 0, length & 255, (unsigned char)(length >> 8) };

	memcpy(prefix, magic, sizeof magic);
	return fwrite(prefix, 1, sizeof prefix, f) == sizeof prefix && fwrite(header, 1, length, f) == length &&
	       fwrite(n->data, n->item_bytes, n->count, f) == n->count;
}

/* ---- writing: whole or not at all; devices and pipes, and what links lead to, stay what they are ---- */

typedef struct Output {
	FILE *f;
	char *temporary, *target; /* renamed when done; NULL: written in place */
} Output;

static bool in_place(const char *path)
{
	struct stat st, link;
	bool there = stat(path, &st) == 0;

	return there ? !S_ISREG(st.st_mode) : lstat(path, &link) == 0; /* a link to nothing makes what it names */
}

static FILE *create_temporary(Output *o)
{
	size_t n = strlen(o->target);
	char *t = malloc(n + sizeof ".XXXXXX");

	if (!t)
		return NULL;
	memcpy(t, o->target, n);
	memcpy(t + n, ".XXXXXX", sizeof ".XXXXXX");
	int fd = mkstemp(t);
	if (fd < 0) {
		free(t);
		return NULL;
	}
	mode_t mask = umask(0); /* mkstemp makes it 0600 */
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	o->temporary = t;
	return fdopen(fd, "wb");
}

static bool output_open(Output *o, const char *path)
{
	if (in_place(path)) {
		o->f = fopen(path, "wb");
		return o->f != NULL;
	}
	o->target = realpath(path, NULL);
	if (!o->target && errno == ENOENT)
		o->target = strdup(path);
	o->f = o->target ? create_temporary(o) : NULL;
	return o->f != NULL;
}

/* The error, or 0. */
static int output_close(Output *o, bool written)
{
	int error = written ? 0 : errno;

	if (fclose(o->f) && !error)
		error = errno;
	if (!error && o->temporary && rename(o->temporary, o->target))
		error = errno;
	if (error && o->temporary)
		unlink(o->temporary);
	return error;
}

bool npy_write(const char *path, const Npy *in, char *why, size_t why_size)
{
	Output o = { .f = NULL };
	int error = output_open(&o, path) ? output_close(&o, write_stream(o.f, in)) : errno;

	free(o.temporary);
	free(o.target);
	return error ? fail_errno(why, why_size, error) : true;
}

void npy_free(Npy *n)
{
	free(n->data);
	n->data = NULL;
}
