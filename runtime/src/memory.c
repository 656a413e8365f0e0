/* memory.c - the public memory calls: check, then hand to the device. */
#include "runtime/src/device.h"
#include "runtime/src/error.h"

static tilert_status check(const tilert_device *d, const char *function, const void *pointer, const char *what)
{
	if (!d)
		return rt_fail(TILERT_EINVAL, "%s: the device is NULL", function);
	if (!pointer)
		return rt_fail(TILERT_EINVAL, "%s: %s is NULL", function, what);
	return TILERT_OK;
}

static const void *as_pointer(tilert_ptr p)
{
	return (const void *)(uintptr_t)p; /* for the NULL check only */
}

tilert_status tilert_alloc(tilert_device *d, size_t bytes, tilert_ptr *out)
{
	tilert_status s = check(d, "tilert_alloc", out, "out");

	return s ? s : d->ops->alloc(d, bytes, out);
}

tilert_status tilert_free(tilert_device *d, tilert_ptr p)
{
	tilert_status s = check(d, "tilert_free", d, "device");

	return s || !p ? s : d->ops->free(d, p);
}

tilert_status tilert_upload(tilert_device *d, tilert_ptr dst, const void *src, size_t bytes)
{
	if (bytes == 0 && d)
		return TILERT_OK;
	tilert_status s = check(d, "tilert_upload", src, "src");
	if (!s)
		s = check(d, "tilert_upload", as_pointer(dst), "dst");
	return s ? s : d->ops->upload(d, dst, src, bytes);
}

tilert_status tilert_download(tilert_device *d, void *dst, tilert_ptr src, size_t bytes)
{
	if (bytes == 0 && d)
		return TILERT_OK;
	tilert_status s = check(d, "tilert_download", dst, "dst");
	if (!s)
		s = check(d, "tilert_download", as_pointer(src), "src");
	return s ? s : d->ops->download(d, dst, src, bytes);
}

tilert_status tilert_memset(tilert_device *d, tilert_ptr dst, unsigned char value, size_t bytes, tilert_stream stream)
{
	if (bytes == 0 && d)
		return TILERT_OK;
	tilert_status s = check(d, "tilert_memset", as_pointer(dst), "dst");

	return s ? s : d->ops->fill(d, dst, value, bytes, stream);
}
