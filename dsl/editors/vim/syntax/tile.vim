" Made by dsl/editors/make_syntax from the tables of the compiler.
if exists("b:current_syntax")
	finish
endif
syntax keyword tileControl if else for while break continue return once unroll parallel async
syntax keyword tileKeyword at barrier batch cluster const count dim fn frag from grid import in inout kernel layout limit mbarrier occupancy optional out param ring role setmaxnreg shared static_assert strides struct threads type warp warpgroup within
syntax keyword tileType bf16 bool e4m3 e5m2 f16 f32 i16 i32 i64 i8 tf32 u16 u32 u64 u8
syntax match tileFunction /\<\(abs\|all\|any\|arrive\|assert\|atomic_add\|atomic_max\|atomic_min\|bitcast\|bulk_load\|bulk_store\|cdiv\|clock\|cluster_rank\|cluster_sync\|copy\|cp_async\|cp_async_commit\|cp_async_wait\|cumprod\|cumsum\|exp\|exp2\|fence_async\|fence_async_global\|fence_device\|fill\|floor\|fma\|grid_launch\|grid_wait\|lane\|ldexp\|log\|log2\|max\|min\|present\|print\|ptx\|rcp\|reduce_max\|reduce_min\|reduce_sum\|rsqrt\|sigmoid\|softplus\|sqrt\|stamp\|store_wait\|store_wait_read\|sync\|sync_arrive\|sync_warp\|tanh\|thread\|tma_load\|tma_multicast\|tma_reduce_add\|tma_store\|trap\|unfenced\|wait\|warp\|weave\|wgmma_wait\)\ze\s*(/
syntax keyword tileConstant true false blockIdx gridDim inf nan sm_count
syntax keyword tileTodo TODO FIXME contained
syntax match tileComment "//.*$" contains=tileTodo
syntax region tileComment start="/\*" end="\*/" contains=tileTodo
syntax region tileString start=/"/ skip=/\\./ end=/"/ oneline
syntax match tileNumber /\<\(0[xX]\x\+\|\d\+\(\.\d*\)\=\([eE][-+]\=\d\+\)\=\|\.\d\+\)/
highlight default link tileControl Statement
highlight default link tileKeyword Keyword
highlight default link tileType Type
highlight default link tileFunction Function
highlight default link tileConstant Constant
highlight default link tileTodo Todo
highlight default link tileComment Comment
highlight default link tileString String
highlight default link tileNumber Number
let b:current_syntax = "tile"
