/* kernels.c - links the installed kernel library. */
#include <stdio.h>
#include <tilekern/gdn.h>
#include <tilekern/kda.h>

int main(void)
{
	tilekern_gdn_params gdn;
	tilekern_kda_params kda;
	size_t bytes;

	tilekern_gdn_params_init(&gdn);
	tilekern_kda_params_init(&kda);
	gdn.qk_heads = gdn.value_heads = 1;
	gdn.tokens = 65;
	if (tilekern_gdn_slots(&gdn) != 2 || tilekern_kda_workspace_bytes(NULL, &kda, &bytes) != TILERT_EINVAL || tilekern_version() != TILEKERN_VERSION)
		return 1;
	return printf("%s\n", tilekern_last_error()) < 0;
}
