/* kernels.c - links the installed kernel library. */
#include <stdio.h>
#include <tilekern/kda.h>

int main(void)
{
	return printf("%s\n", tilekern_last_error()) < 0;
}
