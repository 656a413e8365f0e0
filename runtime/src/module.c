/* module.c - loading modules, and asking about their kernels. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/src/device.h"
#include "runtime/src/error.h"
#include "runtime/src/suggest.h"

static tilert_status make_kernels(tilert_module *m)
{
	m->kernels = calloc(m->image.n_kernels, sizeof *m->kernels);
	if (!m->kernels)
		return rt_fail_memory("a module");
	for (size_t i = 0; i < m->image.n_kernels; i++)
		m->kernels[i] = (tilert_kernel){ .meta = &m->image.kernels[i], .module = m };
	return TILERT_OK;
}

tilert_status tilert_module_load(tilert_device *d, const void *image, size_t bytes, tilert_module **out)
{
	if (!image || !out)
		return rt_fail(TILERT_EINVAL, "tilert_module_load: image or out is NULL");
	tilert_module *m = calloc(1, sizeof *m);
	if (!m)
		return rt_fail_memory("a module");
	tilert_status s = rt_image_parse(image, bytes, &m->image);
	if (!s)
		s = make_kernels(m);
	if (!s && d) {
		m->device = d;
		s = d->ops->code_load(m);
		if (s)
			m->device = NULL; /* there is no code to unload */
	}
	if (s)
		tilert_module_close(m);
	else
		*out = m;
	return s;
}

enum { FILE_LIMIT = 1 << 30 }; /* bytes */

static tilert_status read_all(FILE *f, const char *path, unsigned char **out, size_t *size)
{
	unsigned char *bytes = NULL;
	size_t used = 0, room = 0, n;

	do {
		if (used == room) {
			room = room ? 2 * room : 1 << 16;
			unsigned char *bigger = realloc(bytes, room);
			if (!bigger) {
				free(bytes);
				return rt_fail_memory(path);
			}
			bytes = bigger;
		}
		n = fread(bytes + used, 1, room - used, f);
		used += n;
	} while (n && used <= FILE_LIMIT);
	if (used > FILE_LIMIT) {
		free(bytes);
		return rt_fail(TILERT_EIO, "%s: it has more than %d bytes", path, FILE_LIMIT);
	}
	if (ferror(f)) {
		free(bytes);
		return rt_fail(TILERT_EIO, "%s: %s", path, strerror(errno));
	}
	*out = bytes;
	*size = used;
	return TILERT_OK;
}

static tilert_status check_kind(FILE *f, const char *path)
{
	struct stat st;

	if (fstat(fileno(f), &st))
		return rt_fail(TILERT_EIO, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return rt_fail(TILERT_EIO, "%s: %s", path, strerror(EISDIR));
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return rt_fail(TILERT_EIO, "%s: it is no regular file", path);
	return TILERT_OK;
}

tilert_status tilert_module_open(tilert_device *d, const char *path, tilert_module **out)
{
	unsigned char *bytes = NULL;
	size_t size = 0;

	if (!path || !out)
		return rt_fail(TILERT_EINVAL, "tilert_module_open: path or out is NULL");
	FILE *f = fopen(path, "rb");
	if (!f)
		return rt_fail(errno == ENOENT ? TILERT_ENOENT : TILERT_EIO, "%s: %s", path, strerror(errno));
	tilert_status s = check_kind(f, path);
	if (!s)
		s = read_all(f, path, &bytes, &size);
	fclose(f);
	if (s)
		return s;
	s = tilert_module_load(d, bytes, size, out);
	free(bytes);
	return s ? rt_fail_in(s, path) : TILERT_OK;
}

void tilert_module_close(tilert_module *m)
{
	if (!m)
		return;
	if (m->device)
		m->device->ops->code_unload(m);
	rt_image_free(&m->image);
	free(m->kernels);
	free(m);
}

tilert_status tilert_module_kernel(tilert_module *m, const char *name, tilert_kernel **out)
{
	char text[100];

	if (!m || !name || !out)
		return rt_fail(TILERT_EINVAL, "tilert_module_kernel: an argument is NULL");
	Suggestion near = { .wrong = name };
	for (size_t i = 0; i < m->image.n_kernels; i++) {
		if (!strcmp(m->kernels[i].meta->name, name)) {
			*out = &m->kernels[i];
			return TILERT_OK;
		}
		rt_suggest(&near, m->kernels[i].meta->name);
	}
	return rt_fail(TILERT_ENOENT, "module %s has no kernel \"%s\"%s", m->image.source_name, name,
	               rt_suggest_text(&near, text, sizeof text));
}

size_t tilert_module_kernel_count(const tilert_module *m)
{
	return m ? m->image.n_kernels : 0;
}

tilert_kernel *tilert_module_kernel_at(tilert_module *m, size_t i)
{
	return m && i < m->image.n_kernels ? &m->kernels[i] : NULL;
}
