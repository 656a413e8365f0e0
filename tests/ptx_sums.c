/* ptx_sums.c - for each module file: its name, a sum of its PTX, and whether it has machine code, too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/checksum.h"
#include "runtime/src/image.h"
#include "tests/support/tool.h"

static bool print_sum(const char *path)
{
	size_t size;
	char *bytes = file_read(path, &size);
	Image image;
	if (!bytes || rt_image_parse(bytes, size, &image)) {
		free(bytes);
		return false;
	}
	const Blob *ptx = rt_image_blob(&image, "ptx");
	uint8_t *text = NULL;
	bool ok = ptx && !rt_blob_data(ptx, &text);
	if (ok) {
		const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
		printf("%.*s %016" PRIx64 " %s\n", (int)strcspn(name, "."), name, module_checksum(text, ptx->bytes), rt_image_blob(&image, "cubin:sm_90a") ? "cubin" : "ptx");
	}
	free(text);
	free(bytes);
	rt_image_free(&image);
	return ok;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!print_sum(argv[i])) {
			fprintf(stderr, "ptx_sums: '%s' is no module with PTX\n", argv[i]);
			return 1;
		}
	}
	return 0;
}
