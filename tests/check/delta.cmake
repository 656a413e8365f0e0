# The gated delta rule's gradients, an oracle of kernels: optimised and without sanitizers in every build, also in those without kernels.
include_guard(GLOBAL)
# Sums may be added in any order: that is what lets them be vectors.
add_library(delta_check STATIC ${CMAKE_CURRENT_LIST_DIR}/delta.c)
target_compile_options(delta_check PRIVATE -O3 -fno-sanitize=all -fassociative-math -fno-signed-zeros -fno-trapping-math)
target_link_libraries(delta_check PUBLIC tile_options m)
