/* kernels.c - links the installed kernel library. */
#include <stdio.h>
#include <tilekern/gdn.h>
#include <tilekern/kda.h>

int main(void)
{
	tilekern_gdn_params gdn = TILEKERN_GDN_PARAMS_INIT;
	tilekern_kda_params kda = TILEKERN_KDA_PARAMS_INIT;
	size_t bytes;

	gdn.qk_heads = gdn.value_heads = 1;
	gdn.tokens = 65;
	if (tilekern_gdn_slots(&gdn) != 2 || tilekern_kda_workspace_bytes(&kda, &bytes) != TILERT_OK || bytes != 0)
		return 1;
	return printf("%s\n", tilekern_last_error()) < 0;
}
