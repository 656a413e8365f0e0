/* image.c - the container of a module: header, table of blobs, blobs. */
#include "runtime/src/image.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/src/checksum.h"
#include "runtime/src/error.h"
#include "runtime/src/unpack.h"

enum { HEADER_BYTES = MODULE_HEADER_BYTES, ENTRY_BYTES = MODULE_ENTRY_BYTES, ALIGNMENT = 16, BLOB_LIMIT = 1 << 30, MOST_BLOBS = 64 };

static uint64_t read_little_endian(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

static tilert_status copy_bytes(Image *im, const void *bytes, size_t size)
{
	size_t room = (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;

	im->bytes = aligned_alloc(ALIGNMENT, room);
	if (!im->bytes)
		return rt_fail_memory("a module");
	memcpy(im->bytes, bytes, size);
	return TILERT_OK;
}

static tilert_status check_blob(const Image *im, size_t i, uint64_t low, size_t size, uint64_t offset, uint64_t bytes)
{
	const char *kind = im->blobs[i].kind;
	uint64_t unpacked = im->blobs[i].bytes;

	if (!kind[0])
		return rt_fail(TILERT_EFORMAT, "module: blob %zu has no kind", i);
	if (offset > size || bytes > size - offset || offset < low)
		return rt_fail(TILERT_EFORMAT,
		               "module: blob %zu (%s) at %llu, %llu bytes, is outside the file of %zu bytes", i, kind,
		               (unsigned long long)offset, (unsigned long long)bytes, size);
	if (offset % ALIGNMENT)
		return rt_fail(TILERT_EFORMAT, "module: blob %zu (%s) at %llu is not 16-byte aligned", i, kind,
		               (unsigned long long)offset);
	if (unpacked < bytes || unpacked > BLOB_LIMIT)
		return rt_fail(TILERT_EFORMAT, "module: blob %zu (%s) has %llu bytes, %llu when unpacked", i, kind, (unsigned long long)bytes,
		               (unsigned long long)unpacked);
	for (size_t j = 0; j < i; j++) {
		if (!strcmp(im->blobs[j].kind, kind))
			return rt_fail(TILERT_EFORMAT, "module: two blobs of kind %s", kind);
	}
	return TILERT_OK;
}

static tilert_status parse_blobs(Image *im, size_t size, uint64_t low)
{
	for (size_t i = 0; i < im->n_blobs; i++) {
		const uint8_t *entry = im->bytes + HEADER_BYTES + i * ENTRY_BYTES;
		uint64_t offset = read_little_endian(entry + 16, 8), bytes = read_little_endian(entry + 24, 8);
		Blob *b = &im->blobs[i];

		memcpy(b->kind, entry, 16);
		b->bytes = (size_t)read_little_endian(entry + 32, 8);
		tilert_status s = check_blob(im, i, low, size, offset, bytes);
		if (s)
			return s;
		b->stored = im->bytes + offset;
		b->stored_bytes = (size_t)bytes;
	}
	return TILERT_OK;
}

static tilert_status check_file(const Image *im, size_t size)
{
	if (size < HEADER_BYTES || memcmp(im->bytes, "TILEMOD", 7))
		return rt_fail(TILERT_EFORMAT, "not a tile module: it does not begin with TILEMOD4");
	if (im->bytes[7] != '4')
		return rt_fail(TILERT_EFORMAT, "module: it begins with %.8s, this runtime reads TILEMOD4: compile it again", (const char *)im->bytes);
	uint64_t written = read_little_endian(im->bytes + MODULE_CHECKSUM_AT, 8), is = module_checksum(im->bytes, size);
	if (written != is)
		return rt_fail(TILERT_EFORMAT, "module: the file is damaged: its checksum is %016llx, its contents have %016llx",
		               (unsigned long long)written, (unsigned long long)is);
	return TILERT_OK;
}

static tilert_status parse_container(Image *im, size_t size)
{
	tilert_status s = check_file(im, size);

	if (s)
		return s;
	uint64_t meta_bytes = read_little_endian(im->bytes + 8, 4);
	uint64_t n_blobs = read_little_endian(im->bytes + 12, 4);
	uint64_t meta_at = HEADER_BYTES + n_blobs * ENTRY_BYTES;

	if (n_blobs > MOST_BLOBS) /* each kind is looked for among those before */
		return rt_fail(TILERT_EFORMAT, "module: %llu blobs, of which there may be %d", (unsigned long long)n_blobs, MOST_BLOBS);
	if (meta_at > size || meta_bytes > size - meta_at)
		return rt_fail(TILERT_EFORMAT,
		               "module: %llu blobs and %llu bytes of meta text do not fit the file of %zu bytes",
		               (unsigned long long)n_blobs, (unsigned long long)meta_bytes, size);
	im->n_blobs = (size_t)n_blobs;
	im->blobs = rt_pool_alloc(&im->pool, im->n_blobs + 1, sizeof *im->blobs);
	if (!im->blobs)
		return rt_fail_memory("a module");
	s = parse_blobs(im, size, meta_at + meta_bytes);
	return s ? s : rt_meta_parse(im, (const char *)im->bytes + meta_at, (size_t)meta_bytes);
}

tilert_status rt_image_parse(const void *bytes, size_t size, Image *out)
{
	Image im = { .bytes = NULL };

	tilert_status s = copy_bytes(&im, bytes, size);
	if (!s)
		s = parse_container(&im, size);
	if (s) {
		rt_image_free(&im);
		return s;
	}
	*out = im;
	return TILERT_OK;
}

void rt_image_free(Image *im)
{
	rt_pool_free(&im->pool);
	free(im->bytes);
	im->bytes = NULL;
}

const Blob *rt_image_blob(const Image *im, const char *kind)
{
	for (size_t i = 0; i < im->n_blobs; i++) {
		if (!strcmp(im->blobs[i].kind, kind))
			return &im->blobs[i];
	}
	return NULL;
}

static tilert_status fill(const Blob *b, uint8_t *out)
{
	Unpacked result = UNPACKED;

	if (b->stored_bytes == b->bytes)
		memcpy(out, b->stored, b->bytes);
	else
		result = rt_unpack(b->stored, b->stored_bytes, out, b->bytes);
	if (result == UNPACK_NO_MEMORY)
		return rt_fail_memory("a module");
	if (result == UNPACK_DAMAGED)
		return rt_fail(TILERT_EFORMAT, "module: the %s blob of %zu bytes does not unpack to %zu", b->kind, b->stored_bytes, b->bytes);
	if (!strcmp(b->kind, "ptx") && (b->bytes == 0 || out[b->bytes - 1] != 0))
		return rt_fail(TILERT_EFORMAT, "module: the ptx blob is not NUL-terminated");
	return TILERT_OK;
}

tilert_status rt_blob_data(const Blob *b, uint8_t **out)
{
	uint8_t *data = aligned_alloc(ALIGNMENT, (b->bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);

	if (!data)
		return rt_fail_memory("a module");
	tilert_status s = fill(b, data);
	if (s)
		free(data);
	else
		*out = data;
	return s;
}
