# What cmake --install puts where, the CMake package `tile`, the .pc files, and what cpack makes of them.
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

# Relocatable, multiarch and absolute folders included.
set(PC_FOLDER ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PC_PREFIX ${PC_FOLDER} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH PC_INCLUDE ${PC_FOLDER} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(PC_ALSO)
if(NOT BUILD_SHARED_LIBS) # nothing else brings them in then
	set(PC_ALSO " -lpthread -ldl -lm")
endif()
set(packages tilert)
if(TARGET tilekern)
	list(APPEND packages tilekern)
endif()
foreach(package IN LISTS packages)
	configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Manual pages and completion, as the programs print them from their tables of options, where they run; colours for editors.
set(printed)
foreach(program tilec tilerun)
	if(NOT TARGET ${program} OR TILE_WHEEL OR CMAKE_CROSSCOMPILING)
		continue()
	endif()
	set(folder ${PROJECT_BINARY_DIR}/printed/${program})
	file(MAKE_DIRECTORY ${folder})
	add_custom_command(OUTPUT ${folder}/${program}.1 ${folder}/${program} ${folder}/_${program} ${folder}/${program}.fish
		COMMAND ${program} --man > ${folder}/${program}.1
		COMMAND ${program} --completion=bash > ${folder}/${program}
		COMMAND ${program} --completion=zsh > ${folder}/_${program}
		COMMAND ${program} --completion=fish > ${folder}/${program}.fish
		DEPENDS ${program} VERBATIM)
	list(APPEND printed ${folder}/${program}.1)
	install(FILES ${folder}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES ${folder}/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	install(FILES ${folder}/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
	install(FILES ${folder}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
if(printed)
	add_custom_target(tile_printed ALL DEPENDS ${printed})
endif()
if(TARGET tilec)
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl/editors/vim ${PROJECT_SOURCE_DIR}/dsl/editors/vscode DESTINATION ${CMAKE_INSTALL_DATADIR}/tile/editors)
endif()

# Documents, the target `uninstall`, and the archives that cmake/release makes with cpack.
set(documents ${CMAKE_INSTALL_DOCDIR})
if(NOT PROJECT_IS_TOP_LEVEL) # it is the other project's, whose files have these names, too
	set(documents ${CMAKE_INSTALL_DATAROOTDIR}/doc/${PROJECT_NAME})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${documents})
if(NOT PROJECT_IS_TOP_LEVEL)
	return()
endif()
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D MANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake VERBATIM)
set(CPACK_PACKAGE_NAME tile)
set(CPACK_PACKAGE_VENDOR "the tilec authors")
set(CPACK_PACKAGE_CONTACT "the tilec authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GDN and KDA kernels for Hopper GPUs, and what launches them")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME tile-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64") # else cpack takes this machine's name
	set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
if(DEFINED TILE_GLIBC) # dpkg-shlibdeps knows this system's symbols only and asks for its glibc
	set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${TILE_GLIBC})")
else()
	set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
