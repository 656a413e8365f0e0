/* view.c - the dimensions of views. */
#include "compiler/elaborate/elab.h"

int view_axes(const View *v, int axes[TIR_MAX_RANK])
{
	int n = 0;
	for (int k = 0; k < v->rank; k++)
		if (v->dim[k].take >= 0)
			axes[n++] = k;
	if (v->trans && n >= 2) {
		int last = axes[n - 1];
		axes[n - 1] = axes[n - 2];
		axes[n - 2] = last;
	}
	return n;
}

int64_t view_extent(const View *v, int seen_axis)
{
	int axes[TIR_MAX_RANK];
	(void)view_axes(v, axes);
	return v->dim[axes[seen_axis]].seen;
}
