# The gated delta rule's gradients, an oracle of kernels: optimised in every build, also in those without kernels.
include_guard(GLOBAL)
add_library(delta_check STATIC ${CMAKE_CURRENT_LIST_DIR}/delta.c)
target_compile_options(delta_check PRIVATE -O2)
target_link_libraries(delta_check PUBLIC tile_options m)
