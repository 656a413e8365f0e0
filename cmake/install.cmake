# What cmake --install puts where, the CMake package `tile` and tilert.pc.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tile)

# Targets in the order they are looked for.
foreach(target tilert tilert_static tilerun tilec)
	if(NOT TARGET ${target} OR (TILE_WHEEL AND target STREQUAL "tilert_static"))
		continue()
	endif()
	get_target_property(type ${target} TYPE)
	if(type MATCHES "LIBRARY|EXECUTABLE")
		install(TARGETS ${target} EXPORT tileTargets
			RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
			LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
			ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
			INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	endif()
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tileTargets NAMESPACE tile:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tileConfig.cmake.in ${PROJECT_BINARY_DIR}/tileConfig.cmake
	INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tileConfigVersion.cmake
	VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tileConfig.cmake ${PROJECT_BINARY_DIR}/tileConfigVersion.cmake
	${CMAKE_CURRENT_LIST_DIR}/TileModules.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p) # relocatable, multiarch folders included
set(packages tilert)
if(TARGET tilekern)
	list(APPEND packages tilekern)
endif()
foreach(package IN LISTS packages)
	configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
